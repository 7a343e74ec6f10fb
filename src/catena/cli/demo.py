"""`catena demo`: check and time the dynamics of an arm, simulate, draw a picture."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console

import catena as ct
from catena.cli.app import Debug, app, one_line
from catena.cli.printing import freedom_text, new_console, new_table, print_rows, print_title, topology, total_mass
from catena.errors import MissingPackageError, TrajectoryFileError
from catena.examples import EXAMPLES

#: States of a batch, and runs of which the fastest counts, when times are taken.
BATCH, REPEATS = 10_000, 15

#: The picture that `demo` writes, the state and time of its run, and the time of the run that is long enough to be timed [s].
PICTURE, START, UNTIL, LONG = "catena-demo.png", (-0.5, 0.3), 10.0, 500.0

NEXT = """\
import catena as ct
from catena.examples import arm
print(ct.forward_dynamics(arm())([0.3] * 7, [0.0] * 7, [0.0] * 7))"""


@app.command()
def demo(debug: Debug = False) -> None:
    """Compare the methods for a 7-joint arm and take their times; simulate a double pendulum and draw a picture.

    Takes a few seconds. The picture goes to catena-demo.png in the current folder. Example: catena demo
    """
    console = new_console()
    m = EXAMPLES["arm"]()
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
    states = 1000
    q = np.array([m.random(rng) for _ in range(states)])
    v, tau = rng.normal(size=(2, states, m.nv))
    articulated, composite, newton_euler, mass = kernels.values()
    vdot = articulated(q, v, tau)
    checks = {
        "articulated-body and composite-body give the same accelerations": (vdot, composite(q, v, tau)),
        "newton-euler gives back the joint forces behind the accelerations": (tau, newton_euler(q, v, vdot)),
        "M vdot + bias force gives back the joint forces, too": (tau, (mass(q) @ vdot[..., None])[..., 0] + ct.bias_force(m)(q, v)),
    }
    print_title(console, f"\nAgreement over {states:,} random states, relative to the largest entry")
    table = new_table("check", ">difference")
    for check, (a, b) in checks.items():
        table.add_row(check, f"{_disagreement(a, b):.1e}")
    console.print(table)

    print_title(console, "\nOperations for one state")
    kinds = list(dict.fromkeys(kind for kernel in kernels.values() for kind in kernel.operations))
    table = new_table("kernel", *(f">{kind}" for kind in kinds), ">total")
    for name, kernel in kernels.items():
        counts = [kernel.operations.get(kind, 0) for kind in kinds]
        table.add_row(name, *(f"{count:,}" for count in counts), f"{sum(counts):,}")
    console.print(table)

    print_title(console, f"\nTimes on one core, smallest of {REPEATS} runs; a batch is {BATCH:,} states")
    table = new_table("kernel", ">trace", ">compile", ">one state", ">in a batch")
    batches = [np.tile(x, (BATCH // states, 1)) for x in (q, v, tau)]
    for name, kernel in kernels.items():
        arguments = batches[: len(kernel.inputs)]
        one = [x[0] for x in arguments]
        single = _seconds(lambda kernel=kernel, one=one: [kernel(*one) for _ in range(500)]) / 500
        batch = _seconds(lambda kernel=kernel, arguments=arguments: kernel(*arguments)) / BATCH
        traced = kernel.seconds["trace"]
        compiled = "from cache" if kernel.cached else f"{sum(kernel.seconds.values()) - traced:.2f} s"
        table.add_row(name, f"{traced:.2f} s", compiled, f"{1e6 * single:.2f} us", f"{1e6 * batch:.3f} us")
    console.print(table)

    _simulate_for_demo(console)

    print_title(console, "\nTry next, in Python")
    console.print(NEXT, soft_wrap=True)
    console.print("\nand on the command line: catena simulate cart-pole --set pole=10deg", soft_wrap=True)


def _simulate_for_demo(console: Console) -> None:
    """Simulate a double pendulum, tell how it went, and write a picture of it."""
    m = EXAMPLES["double-pendulum"]()
    run, long = (ct.simulate(m, START, until=until, record=record, show_progress=False) for until, record in ((UNTIL, 1), (LONG, 1000)))
    # what a run takes before its first step, to trace and to load or compile, is in both
    again = ct.simulate(m, START, until=UNTIL, show_progress=False)
    per_step = (long.info["seconds"] - again.info["seconds"]) / (long.info["steps"] - again.info["steps"])
    print_title(console, f"\nSimulation of '{m.name}', {UNTIL:g} s")
    rows = {
        "integrator": f"{run.info['integrator']}, adaptive steps, relative tolerance 1e-8",
        "steps": f"{run.info['steps']:,}, and {run.info['rejected']:,} rejected",
        "time": f"{run.info['seconds']:.2f} s with compiling; {1e6 * per_step:.1f} us a step after that",
        "drift": f"{np.abs(run.drift).max():.1e}, the largest change of the energy, relative",
    }
    try:
        run.plot(PICTURE)
        rows["picture"] = f"{PICTURE}, in the current folder"
    except (MissingPackageError, TrajectoryFileError) as error:
        rows["picture"] = f"none: {one_line(error)}"
    print_rows(console, rows)


def _disagreement(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference between two batches of vectors, relative to the largest entry of each."""
    return float((np.abs(a - b).max(axis=-1) / np.abs(a).max(axis=-1)).max())


def _seconds(run: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Return the smallest time that a call took."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)
