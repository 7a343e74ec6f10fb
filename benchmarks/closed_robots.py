"""Robots with closed loops: how long until the first result, how long a batch takes, whether it is right, and how runs answer.

    python benchmarks/closed_robots.py [--quick] [--json FILE] [FILE ...]

The examples are a biped with rod-driven knees and feet, unless `--quick` the same with arms, 60 coordinates in all, a Stewart platform on a
floating base, and a Delta robot whose rods weigh a thousandth of its platform; model files, URDF or MJCF, are added to them. Every figure
comes from new processes with an empty cache of compiled kernels: the time to make forward dynamics; the first and the fastest call with
1,000 random states that close the loops, and the states that the compiled plan fits; the largest difference from pivots that are chosen
state by state, over all states, and from the referee of the tests, in maximal coordinates, over some, both relative to the largest
acceleration of the state; the time from the call of `simulate` to its first step, and the longest time between two looks at the run after
that; and the longest time that `simulate` takes to return after Ctrl-C, at random moments while it compiles and while it steps. In brackets
is the time of the processor, which others that use the machine do not change.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import results

import catena as ct
from catena.examples import EXAMPLES, delta

sys.path.insert(0, str(Path(__file__).parents[1]))

#: What the figures are to be below.
KERNEL, BATCH, STATE, FIRST, PAUSE, INTERRUPT, DIFFERENCE = 5.0, 2.0, 20e-6, 8.0, 0.5, 1.0, 1e-8

STATES, REFEREED = 1000, 8
RUN = 5.0  # seconds of computing that a run is watched
LIGHT, ARMED = "delta, light rods", "biped, arms"


def robot(name: str) -> ct.Model:
    """Return an example, or the model of a file; what files ask for beside joints, bodies and loops is ignored."""
    if name == LIGHT:
        return delta(rods=0.0005)
    if name == ARMED:
        return _armed()
    if name in EXAMPLES:
        return EXAMPLES[name]()
    return ct.load(name, ignore=("contact",) if name.endswith(".xml") else ())


def _armed() -> ct.Model:
    """Return the biped with two arms of six joints."""
    m = EXAMPLES["biped"]()
    for side, y in (("left", 0.2), ("right", -0.2)):
        parent, at = "pelvis", (0.0, y, 0.4)
        for i, axis in enumerate("yxzyzx"):
            name = f"{side} arm {i}"
            m.add(name, ct.box(0.15, 0.06, 0.06, mass=1.0 - 0.1 * i, com=(0.075, 0.0, 0.0)), ct.Revolute(axis), parent, at)
            parent, at = name, (0.15, 0.0, 0.0)
    return m


def random_states(m: ct.Model, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random states that close the loops."""
    rng = np.random.default_rng(0)
    q: list[np.ndarray] = []
    while len(q) < count:
        try:
            q.append(m.assemble(m.random(rng)))
        except ct.ModelError:  # from there the loops do not close
            continue
    return np.array(q), np.array([m.project_velocity(x, rng.normal(size=m.nv)) for x in q])


def kernel_figures(name: str, quick: bool) -> dict[str, Any]:
    """Return the figures of forward dynamics, in a new process."""
    began = time.perf_counter()
    m = robot(name)
    loaded, computed = time.perf_counter(), time.process_time()
    fd: Any = ct.forward_dynamics(m)
    made, computed = time.perf_counter(), time.process_time() - computed
    q, v = random_states(m, STATES // 10 if quick else STATES)
    tau = np.zeros_like(v)

    def call() -> tuple[float, np.ndarray]:
        started = time.perf_counter()
        vdot = fd(q, v, tau)
        return time.perf_counter() - started, vdot

    first, vdot = call()
    fastest = min(call()[0] for _ in range(20))
    size = np.abs(vdot).max(axis=-1)
    by_pivots = np.abs(fd._pivoted(q, v, tau)[0] - vdot).max(axis=-1) / size
    from tests.referee import Referee

    referee = Referee(m)
    checked = range(2 if quick else REFEREED)
    by_referee = [float(np.abs(referee.forward_with_loops(q[i], v[i], tau[i]) - vdot[i]).max() / size[i]) for i in checked]
    return {
        "coordinates": m.nv, "loops": len(m.loops), "freedom": m.mobility().freedom, "load": loaded - began,
        "kernel": made - loaded, "kernel computing": computed,
        "first": first, "state": fastest / len(q), "fits": float(np.mean(fd.fits(q, v, tau))), "pivots": float(by_pivots.max()),
        "referee": max(by_referee),
    }  # fmt: skip


@contextmanager
def watched() -> Any:
    """Yield a list that gets the times of the looks that runs take at themselves, with the steps taken."""
    module: Any = importlib.import_module("catena.simulation.simulate")
    looks: list[tuple[float, float, int]] = []

    @contextmanager
    def progress(*arguments: Any) -> Any:
        yield lambda t, steps: looks.append((time.perf_counter(), time.process_time(), steps))

    before, module.progress = module.progress, progress
    try:
        yield looks
    finally:
        module.progress = before


def run_figures(name: str, after: float) -> dict[str, Any]:
    """Return the figures of a run, in a new process; it gets Ctrl-C so many seconds after the call, or after RUN seconds of steps."""
    m = robot(name)
    q = m.assemble()
    v = m.project_velocity(q, 0.3 * np.random.default_rng(1).normal(size=m.nv))
    sent: list[float] = []

    def interrupt() -> None:
        while (not looks if after <= 0.0 else time.perf_counter() - began < after) and not done.is_set():
            time.sleep(0.01)
        done.wait(RUN if after <= 0.0 else 0.0)
        if not done.is_set():
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)

    done, stopped = threading.Event(), "interrupted"
    with watched() as looks:
        began, idle = time.perf_counter(), time.process_time()
        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        try:
            stopped = ct.simulate(m, q, v, until=1e4, record=1000).info["stopped"]
        except KeyboardInterrupt:  # it had not begun
            pass
        except ct.SimulationError as error:
            stopped = str(error)
        ended = time.perf_counter()
        done.set()
        thread.join()
    found: dict[str, Any] = {"stopped": stopped, "interrupt": ended - sent[0] if sent else 0.0, "begun": bool(looks)}
    steps = [at for at, _, count in looks if count]
    if steps:
        computing = next(used for _, used, count in looks if count)
        pauses = np.diff([*steps, sent[0] if sent else ended])
        found |= {"first step": steps[0] - began, "first step computing": computing - idle, "pause": float(pauses.max(initial=0.0))}
    return found


def in_new_process(*arguments: str) -> dict[str, Any]:
    """Return the figures that this script finds in a new process, with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "CATENA_CACHE_DIR": cache, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--figures", *arguments]
        run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def measure(name: str, quick: bool) -> dict[str, Any]:
    """Return all figures of a robot, the fastest of several processes where they are times to begin."""
    turns = range(1 if quick else 2)
    found = [in_new_process("kernel", name, str(int(quick or turn > 0))) for turn in turns]
    row: dict[str, Any] = found[0] | {"robot": Path(name).parent.name if os.sep in name else name}
    row |= {what: min(other[what] for other in found) for what in ("load", "kernel", "kernel computing")}
    runs = [in_new_process("run", name, "0") for _ in turns]
    row |= {what: min(run[what] for run in runs) for what in ("first step", "first step computing", "pause")}
    row["stopped"] = runs[0]["stopped"]
    rng = np.random.default_rng(0)
    interrupted = [in_new_process("run", name, f"{after:.2f}") for after in rng.uniform(0.1, row["first step"], 2 if quick else 4)]
    row |= {"interrupt": max(run["interrupt"] for run in runs), "interrupt early": max(run["interrupt"] for run in interrupted)}
    return row


def shown(found: dict[str, Any]) -> results.Row:
    """Return the figures of a robot as a row."""
    names = {
        "coordinates": "coordinates", "loops": "loops", "freedom": "freedom", "load": "load_s", "kernel": "kernel_s",
        "kernel computing": "kernel_processor_s", "first": "first_batch_s", "fits": "fits", "pivots": "off_pivots",
        "referee": "off_referee", "first step": "first_step_s", "first step computing": "first_step_processor_s", "pause": "pause_s",
        "interrupt": "interrupt_s", "interrupt early": "interrupt_early_s",
    }  # fmt: skip
    return results.row(found["robot"], "forward dynamics, batch", 1e6 * found["state"], **{names[key]: found[key] for key in names})


def main() -> None:
    """Measure, print and write the figures; what is beyond its limit is an error."""
    parser = results.parser(__doc__, "fewer states and repeats")
    parser.add_argument("files", nargs="*", help="URDF and MJCF files")
    parser.add_argument("--only", action="store_true", help="the files, without the examples")
    parser.add_argument("--figures", choices=("kernel", "run"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # of singular states, and of limits and inertias in files
    if options.figures:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what runs in the background ignore it
        name, how = options.files
        figures = kernel_figures(name, how == "1") if options.figures == "kernel" else run_figures(name, float(how))
        print(json.dumps(figures))
        return
    names = [] if options.only else ["biped", *([] if options.quick else [ARMED]), "stewart-floating", LIGHT]
    found = [measure(name, options.quick) for name in names + options.files]
    results.report("closed_robots", [shown(one) for one in found], options)
    limits = {
        "kernel": KERNEL, "first": BATCH, "state": STATE, "first step": FIRST, "pause": PAUSE, "interrupt": INTERRUPT,
        "interrupt early": INTERRUPT, "pivots": DIFFERENCE, "referee": DIFFERENCE,
    }  # fmt: skip
    told = [(row["robot"], what, row[what], limit) for row in found for what, limit in limits.items()]
    beyond = [f"{name}: {what} {figure:.3g}, not below {limit:g}" for name, what, figure, limit in told if not figure < limit]
    if beyond:
        sys.exit("\n".join(beyond))


if __name__ == "__main__":
    main()
