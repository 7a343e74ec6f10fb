"""`catena simulate`: the motion of a mechanism."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

import catena as ct
from catena.cli import completion
from catena.cli.app import (
    INTERRUPTED,
    Contact,
    Debug,
    FloatingBase,
    Ignore,
    IntegratorName,
    Json,
    Keyframe,
    ModelName,
    RandomStart,
    SetParameter,
    SetPosition,
    SetVelocity,
    Tolerance,
    app,
)  # fmt: skip
from catena.cli.info import find
from catena.cli.printing import ROWS, freedom_text, new_console, print_json, print_rows, print_table, print_title
from catena.cli.random_state import fastest
from catena.cli.start import Start, with_base_held
from catena.errors import ArgumentError, MissingPackageError, SimulationError
from catena.facade import Model
from catena.loops.mobility import mobility
from catena.model.actuators import Actuation
from catena.model.wording import choice
from catena.simulation import Trajectory, settings
from catena.view import plots


@app.command()
def simulate(
    model: ModelName,
    until: Annotated[str, typer.Option(metavar="TIME", help="When to stop: seconds, or with a unit (ms, s, min, h).")] = "10",
    set_: SetPosition = None,
    set_velocity: SetVelocity = None,
    random: RandomStart = None,
    keyframe: Keyframe = None,
    hold_base: Annotated[
        bool | None, typer.Option("--hold-base/--free-base", help="Hold the base of a robot that floats; --random holds it in the air.")
    ] = None,
    step: Annotated[str | None, typer.Option(metavar="TIME", help="A fixed step size; without it the steps are adapted.")] = None,
    integrator: IntegratorName = "auto",
    method: Annotated[
        str, typer.Option(metavar="NAME", help="How to compute accelerations.", autocompletion=completion.methods_or_auto)
    ] = "auto",
    rtol: Annotated[float, typer.Option(metavar="X", help="Relative tolerance of adaptive steps.")] = 1e-8,
    atol: Annotated[float, typer.Option(metavar="X", help="Absolute tolerance of adaptive steps.")] = 1e-10,
    record: Annotated[str | None, typer.Option(metavar="N|TIME", help="Record every Nth step, or a sample every TIME (10ms).")] = None,
    checkpoint: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the state every 30 s and at the end: .npz.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="FILE", help="Go on from a checkpoint, also to a later --until.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the run: .png, .svg or .pdf.")] = None,
    what: Annotated[
        str | None,
        typer.Option(
            metavar="QUANTITY,...",
            help=f"What to draw, of {', '.join(plots.KNOWN)}; without it q, v, energy, energy_change and, with loops, loop_error.",
            autocompletion=completion.quantities,
        ),
    ] = None,
    animate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Make a film: .html (a page that opens offline), .gif or .mp4.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the run for ct.Trajectory.load: .npz, or .nc (NetCDF).")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a table, one row per sample: .csv.")] = None,
    control: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="The control of an actuator, such as elbow=0.5; repeatable.")
    ] = None,
    actuators: Annotated[
        bool | None, typer.Option("--actuators/--no-actuators", help="Let the actuators of the model act: servos hold the start.")
    ] = None,
    set_parameter: SetParameter = None,
    floating_base: FloatingBase = False,
    ignore: Ignore = None,
    contact: Contact = None,
    tolerance: Tolerance = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Simulate a model, and print, plot or save its motion.

    It starts at rest from home, which is its neutral position unless the file says otherwise; --set and --set-velocity change single
    coordinates. Loops are closed first: coordinates that are set keep their value, but those of ball and free joints are a guess; the
    others follow, within the limits of the joints where that is possible.

    With --random it starts in motion, near the middle of the joint limits, or near home where the file has one; bodies move at about 1 m/s
    where the model reaches 1 m. The base of a robot that floats is held unless something touches the ground.

    \b
    NAME is one of
      a coordinate, as catena info lists them  crank=90deg  piston.shift=5mm
      a body, for all its coordinates in order piston=90deg,5mm
      a rotation of a ball or free joint       base.rpy=10deg,0,20deg  base.quat=1,0,0,0
      a joint of a URDF or MJCF file, for its body elbow=30deg
    Units are rad, mrad, deg, turn; m, cm, mm, um; rad/s, mrad/s, deg/s, rpm; m/s, cm/s, mm/s,
    km/h. A number without a unit is in rad, m, rad/s or m/s.

    --set-parameter gives the model other numbers, before anything else; of vectors and placements all entries with commas between, or one
    by its name: gravity.z=-1.62, elbow.at.x=300mm, elbow.at.yaw=5deg, hand.inertia.xx=0.2. Of an inertia these are nine, or three moments.

    Actuators of a model are off, as in ct.simulate, unless --actuators is given: then servos of position hold the start, and motors are
    off. --control gives an actuator a control, in its own unit, and lets all of them act.

    \b
    Examples:
      catena simulate double-pendulum --set upper=-45deg --plot run.png
      catena simulate four-bar --set crank=60deg --plot run.png --what q,reactions,phase
      catena simulate top --set top.rpy=20deg,0,0 --set-velocity top=0,0,1500rpm --until 2
      catena simulate four-bar --set crank=60deg --set-velocity crank=30rpm
      catena simulate four-bar --set crank=60deg --until 1min --checkpoint run.npz
      catena simulate four-bar --set crank=60deg --until 2min --resume run.npz
      catena simulate arm.toml --until 5 --record 10ms --save run.nc --csv run.csv
      catena simulate pendulum --set-parameter gravity=0,0,-1.62 --set-parameter arm.mass=3
      catena simulate robot.urdf --random 0 --until 2 --plot robot.png --animate robot.html
      catena simulate robot.urdf --floating-base --contact ground --until 1
    """
    m, _ = find(model, floating_base, ignore, tolerance, set_parameter, contact)
    end = settings.quantity("--until", until, "s")
    m, base = (m, None) if hold_base is None and (random is None or floating_base) else with_base_held(m, hold_base)
    q0, v0 = Start.of(m, set_, set_velocity, random, keyframe).state(m)
    controls = _controls(m, q0, control or [], bool(control) if actuators is None else actuators)
    outputs = {"plot": plot, "animate": animate, "save": save, "csv": csv}
    check_outputs(outputs)
    wanted = None if what is None else _wanted(m, what, plot)
    trouble: SimulationError | None = None
    try:
        run = ct.simulate(
            m, q0, v0, until=end, step=None if step is None else settings.quantity("--step", step, "s"), method=method,
            integrator=integrator, rtol=rtol, atol=atol, record=_record(record, end), checkpoint=checkpoint, resume=resume,
            controls=None if controls is None else list(controls.values()),
        )  # fmt: skip
    except SimulationError as error:
        if not isinstance(error.trajectory, Trajectory):
            raise
        trouble, run = error, error.trajectory
    if plot is not None:
        run.plot(plot, wanted)
    if animate is not None:
        run.animate(animate)
    if save is not None:
        run.save(save)
    if csv is not None:
        run.to_csv(csv)
    summary = _summary(run, controls, {name: str(path) for name, path in outputs.items() if path is not None})
    summary |= {"seed": random, "held": base}
    if json:
        print_json(summary)
    else:
        _print_summary(new_console(), run, summary)
    if trouble is not None:
        raise SimulationError(str(trouble).partition("; the motion up to there")[0]) from trouble
    if run.info["stopped"] == "interrupted":
        raise typer.Exit(INTERRUPTED)


def _wanted(m: Model, what: str, plot: Path | None) -> list[str]:
    """Return the quantities to draw, checked before the run."""
    if plot is None:
        raise ArgumentError(f"--what {what}: nothing is drawn; add --plot FILE")
    return plots.wanted(m, [name.strip() for name in what.split(",")])


def _controls(m: Model, q0: np.ndarray, given: list[str], act: bool) -> dict[str, float] | None:
    """Return the controls of actuators by name, those that hold the start but for those that are given; None where none act."""
    if not act or not m.actuators:
        if given:
            why = "--no-actuators leaves them out; give one of the options" if m.actuators else f"model '{m.name}' has none; leave it out"
            raise ArgumentError(f"--control {given[0]} is for actuators, and {why}")
        return None
    names = [one.name for one in m.actuators]
    controls = dict(zip(names, Actuation.of(m, "simulate").holding(q0).tolist(), strict=True))
    for setting in given:
        name, _, text = setting.rpartition("=")
        if name.strip() not in controls:
            raise ArgumentError(f"--control {setting}: model '{m.name}' has no actuator '{name.strip()}'; {choice(name.strip(), names)}")
        controls[name.strip()] = settings.quantity(f"--control {name.strip()}", text, "")
    return controls


def check_outputs(outputs: dict[str, Path | None]) -> None:
    """Refuse, before a long run, files that could not be written after it."""
    endings = {"plot": (".png", ".svg", ".pdf"), "animate": (".html", ".gif", ".mp4"), "save": (".npz", ".nc"), "csv": (".csv",)}
    for name, path in outputs.items():
        if path is None:
            continue
        if path.suffix.lower() not in endings[name]:
            raise ArgumentError(f"--{name} {path}: the file must end in {' or '.join(endings[name])}; change the ending")
        if not path.parent.is_dir():
            raise ArgumentError(f"--{name} {path}: there is no folder '{path.parent}'; make it first")
        packages = {".nc": "xarray", ".html": "viser", ".gif": "PIL", ".mp4": "PIL"}
        package = "matplotlib" if name == "plot" else packages.get(path.suffix.lower())
        if package and importlib.util.find_spec(package) is None:
            extra = {"matplotlib": "plot", "PIL": "plot", "viser": "view", "xarray": "data"}[package]
            raise MissingPackageError(f'--{name} {path}: this needs {package}, which is not installed; pip install "catena[{extra}]"')


def _record(text: str | None, until: float) -> int | list[float] | None:
    """Return the number of steps from sample to sample, or the times of the samples."""
    if text is None or text.strip().isdigit():
        return None if text is None else int(text)
    every = settings.quantity("--record", text, "s")
    if not 0.0 < every <= until:
        raise ArgumentError(f"--record {text}: give a time between 0 and {until:g} s, or a whole number of steps")
    if not text.strip()[-1].isalpha():
        raise ArgumentError(f"--record {text}: are these steps or seconds? Give a whole number of steps, or a time such as {text}s")
    return (every * np.arange(int(until / every * (1.0 + 1e-12)) + 1)).clip(max=until).tolist()


def _summary(run: Trajectory, controls: dict[str, float] | None, files: dict[str, str]) -> dict[str, Any]:
    """Return the facts of a run, in values that JSON can hold."""
    info, m = run.info, run.model
    error = float(run.loop_error.max()) if m.has_loops else None
    energies = {"start": float(run.total_energy[0]), "end": float(run.total_energy[-1]), "change": float(np.abs(run.energy_change).max())}
    return {
        "model": m.name,
        # the smaller of the two: at a singular configuration, such as a linkage laid flat, there may be more
        "freedom": min(mobility(m, run.q[i], run.t[i]).freedom for i in (0, -1)) if m.has_loops else m.nv,
        "start": float(run.t[0]),
        "end": float(run.t[-1]),
        "stopped": info["stopped"],
        "integrator": info["integrator"],
        "why": info.get("why", ""),
        "method": info["method"],
        "steps": info["steps"],
        "rejected": info.get("rejected", 0),
        "samples": len(run),
        "seconds": info["seconds"],
        "energy": {**energies, "changed_by": list(run.energy_causes)},
        "loop_error": error,
        "controls": controls,
        "switches": info.get("switches", 0),
        "q": dict(zip(run.q_names, run.q[-1].tolist(), strict=True)),
        "v": dict(zip(run.v_names, run.v[-1].tolist(), strict=True)),
        "files": files,
    }


def _print_summary(console: Console, run: Trajectory, summary: dict[str, Any]) -> None:
    total = run.total_energy
    stopped = "" if summary["stopped"] == "end" else f"; stopped: {summary['stopped']}"
    why = f"; {summary['why']}" if summary["why"] else ""
    rejected = f", and {summary['rejected']:,} rejected" if summary["rejected"] else ""
    changes = summary["switches"]
    switches = f"; the set of dependent coordinates changed {'once' if changes == 1 else f'{changes:,} times'}" if changes else ""
    error = summary["loop_error"]
    loops = {} if error is None else {"loops": f"closure residual up to {error:.1e} m or rad{switches}"}
    rows = {
        **({} if summary["seed"] is None else {"start": _random_text(run, summary["seed"])}),
        **({} if summary["held"] is None else {"base": f"{summary['held']} is held; --free-base lets it move"}),
        "time": f"{summary['start']:g} to {summary['end']:.9g} s{stopped}",
        "steps": f"{summary['steps']:,}{rejected} ({summary['integrator']}, {summary['method']}{why}); {summary['samples']:,} samples",
        "took": f"{summary['seconds']:.3f} s, compiling included",
        "energy": f"{total[0]:.6g} to {total[-1]:.6g} J; energy change {_energy_change(run)}",
        **loops,
        **({"controls": _controls_text(summary["controls"])} if summary["controls"] is not None else {}),
        **({"actuators": "off; --actuators lets servos hold the start"} if run.model.actuators and summary["controls"] is None else {}),
        **{f"--{name}": path for name, path in summary["files"].items()},
    }
    print_title(console, f"{summary['model']}: {freedom_text(summary['freedom'])}")
    print_rows(console, rows)
    q, v = (
        {name: f"{x:.6g} {unit}".rstrip() for name, x, unit in zip(names, values[-1], units, strict=True)}
        for names, values, units in ((run.q_names, run.q, run.q_units), (run.v_names, run.v, run.v_units))
    )
    places = [(at_q, at_v) for _, at_q, at_v in run.model.slices()]
    names = list(dict.fromkeys(name for at_q, at_v in places for name in (*run.q_names[at_q], *run.v_names[at_v])))
    rows_of_state = [(name, q.get(name, ""), v.get(name, "")) for name in names]
    print_table(console, f"\nState at {summary['end']:.9g} s", ("coordinate", ">position", ">velocity"), rows_of_state, ROWS)


def _controls_text(controls: dict[str, float]) -> str:
    shown = ", ".join(f"{name} {x:.4g}" for name, x in [*controls.items()][:4])
    return f"{shown} and {len(controls) - 4} more" if len(controls) > 4 else shown


def _random_text(run: Trajectory, seed: int) -> str:
    """Return how a run began at random."""
    speed = fastest(run.model, run.q[0], run.v[0])
    return f"random (seed {seed}), bodies at up to {speed:.2g} m/s; --random N takes other numbers, --set and --set-velocity single ones"


def _energy_change(run: Trajectory) -> str:
    """Return the change of the energy and its causes; of a run that conserves it, the largest relative error."""
    if not run.energy_causes:
        return f"{np.abs(run.energy_change).max():.1e}, relative"
    return f"{100.0 * run.energy_change[-1]:+.3g} % ({run._energy_reason})"
