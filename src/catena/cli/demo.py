"""`catena demo`: check and time the dynamics of an arm, simulate, draw a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console

import catena as ct
from catena import comparison
from catena.cli.app import Debug, Json, app
from catena.cli.printing import freedom_text, new_console, one_line, print_json, print_rows, print_table, print_title, topology, total_mass
from catena.errors import MissingPackageError, TrajectoryFileError
from catena.examples import EXAMPLES
from catena.facade import Model

#: States on which results are compared; states of a batch, and runs of which the fastest counts, when times are taken.
STATES, BATCH, REPEATS = 1000, 10_000, 15

#: The picture that `demo` writes, the state and time of its run, and the time of the run that is long enough to be timed [s].
PICTURE, START, UNTIL, LONG = "catena-demo.png", (-0.5, 0.3), 10.0, 500.0

NEXT = """\
import catena as ct
from catena.examples import arm
print(ct.forward_dynamics(arm())([0.3] * 7, [0.0] * 7, [0.0] * 7))"""


@app.command()
def demo(json: Json = False, debug: Debug = False) -> None:
    """Compare the methods for a 7-joint arm and take their times; simulate a double pendulum and draw a picture.

    Takes a few seconds. The picture goes to catena-demo.png in the current folder.

    \b
    Examples:
      catena demo
      catena demo --json
    """
    m = EXAMPLES["arm"]()
    console = new_console()
    if not json:
        console.print(f"catena {ct.__version__}, demonstration\n")
        print_title(console, f"The model '{m.name}': {len(m.links)} bodies, {freedom_text(m.nv)}, {total_mass(m):.1f} kg")
        console.print(topology(m, console))
    kernels = {
        "forward dynamics, articulated-body": ct.forward_dynamics(m, "articulated-body"),
        "forward dynamics, composite-body": ct.forward_dynamics(m, "composite-body"),
        "inverse dynamics, newton-euler": ct.inverse_dynamics(m, "newton-euler"),
        "mass matrix, composite-body": ct.mass_matrix(m, "composite-body"),
    }
    rng = np.random.default_rng(0)
    q = np.array([m.random(rng) for _ in range(STATES)])
    v, tau = rng.normal(size=(2, STATES, m.nv))
    checks = _checks(m, kernels, q, v, tau)
    if not json:
        title = f"\nAgreement over {STATES:,} random states, relative to the largest entry"
        print_table(console, title, ("check", ">difference"), [(check, f"{difference:.1e}") for check, difference in checks.items()])
        _print_operations(console, kernels)
    times = _times(kernels, [np.tile(x, (BATCH // STATES, 1)) for x in (q, v, tau)])
    if not json:
        _print_times(console, times)
    run = _simulated()
    if json:
        made = [{"kernel": name, "operations": kernel.operations, **times[name]} for name, kernel in kernels.items()]
        agreement = [{"check": check, "states": STATES, "difference": difference} for check, difference in checks.items()]
        print_json({"version": ct.__version__, "model": m.name, "agreement": agreement, "kernels": made, "simulation": run})
        return
    _print_run(console, run)
    print_title(console, "\nTry next, in Python")
    console.print(NEXT, soft_wrap=True)
    console.print("\nand on the command line: catena simulate cart-pole --set pole=10deg", soft_wrap=True)


def _checks(m: Model, kernels: dict[str, Any], q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> dict[str, float]:
    """Return the differences between results that must agree."""
    articulated, composite, newton_euler, mass = kernels.values()
    vdot = articulated(q, v, tau)
    pairs = {
        "articulated-body and composite-body give the same accelerations": (vdot, composite(q, v, tau)),
        "newton-euler gives back the joint forces behind the accelerations": (tau, newton_euler(q, v, vdot)),
        "M vdot + bias force gives back the joint forces, too": (tau, (mass(q) @ vdot[..., None])[..., 0] + ct.bias_force(m)(q, v)),
    }
    return {check: comparison.disagreement(expected, actual) for check, (expected, actual) in pairs.items()}


def _print_operations(console: Console, kernels: dict[str, Any]) -> None:
    kinds = list(dict.fromkeys(kind for kernel in kernels.values() for kind in kernel.operations))
    counts = {name: [kernel.operations.get(kind, 0) for kind in kinds] for name, kernel in kernels.items()}
    rows = [(name, *(f"{count:,}" for count in (*own, sum(own)))) for name, own in counts.items()]
    print_table(console, "\nOperations for one state", ("kernel", *(f">{kind}" for kind in kinds), ">total"), rows)


def _times(kernels: dict[str, Any], batches: list[np.ndarray]) -> dict[str, dict[str, Any]]:
    """Return what the kernels took to make, and what they take for a state."""
    rows = {}
    for name, kernel in kernels.items():
        arguments = batches[: len(kernel.inputs)]
        one = [x[0] for x in arguments]
        single = comparison.fastest({"": lambda kernel=kernel, one=one: [kernel(*one) for _ in range(500)]}, least=REPEATS)[""] / 500
        batch = comparison.fastest({"": lambda kernel=kernel, arguments=arguments: kernel(*arguments)}, least=REPEATS)[""] / BATCH
        traced = kernel.seconds["trace"]
        rows[name] = {
            "trace_seconds": traced, "compile_seconds": sum(kernel.seconds.values()) - traced, "cached": kernel.cached,
            "single_us": 1e6 * single, "batch_us": 1e6 * batch,
        }  # fmt: skip
    return rows


def _print_times(console: Console, times: dict[str, dict[str, Any]]) -> None:
    rows = []
    for name, row in times.items():
        compiled = "from cache" if row["cached"] else f"{row['compile_seconds']:.2f} s"
        rows.append((name, f"{row['trace_seconds']:.2f} s", compiled, f"{row['single_us']:.2f} us", f"{row['batch_us']:.3f} us"))
    title = f"\nTimes on one core, smallest of {REPEATS} runs; a batch is {BATCH:,} states"
    print_table(console, title, ("kernel", ">trace", ">compile", ">one state", ">in a batch"), rows)


def _simulated() -> dict[str, Any]:
    """Return the facts of a run of a double pendulum, and the file of its picture."""
    m = EXAMPLES["double-pendulum"]()
    run, long = (ct.simulate(m, START, until=until, record=record, show_progress=False) for until, record in ((UNTIL, 1), (LONG, 1000)))
    # what a run takes before its first step, to trace and to load or compile, is in both
    again = ct.simulate(m, START, until=UNTIL, show_progress=False)
    per_step = (long.info["seconds"] - again.info["seconds"]) / (long.info["steps"] - again.info["steps"])
    facts = {key: run.info[key] for key in ("integrator", "steps", "rejected", "seconds")}
    facts = {"model": m.name, "until": UNTIL, **facts, "step_us": 1e6 * per_step, "energy_change": float(np.abs(run.energy_change).max())}
    try:
        run.plot(PICTURE)
        return {**facts, "picture": PICTURE, "no_picture": ""}
    except (MissingPackageError, TrajectoryFileError) as error:
        return {**facts, "picture": None, "no_picture": one_line(error)}


def _print_run(console: Console, run: dict[str, Any]) -> None:
    print_title(console, f"\nSimulation of '{run['model']}', {run['until']:g} s")
    picture = f"{run['picture']}, in the current folder" if run["picture"] else f"none: {run['no_picture']}"
    rows = {
        "integrator": f"{run['integrator']}, adaptive steps, relative tolerance 1e-8",
        "steps": f"{run['steps']:,}, and {run['rejected']:,} rejected",
        "time": f"{run['seconds']:.2f} s with compiling; {run['step_us']:.1f} us a step after that",
        "energy change": f"{run['energy_change']:.1e} at most, relative",
        "picture": picture,
    }
    print_rows(console, rows)
