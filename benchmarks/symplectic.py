"""Energy of a 7-body spatial chain over 1,000,000 steps of 5 ms: symplectic methods, RK4 at their cost, and semi-implicit Euler.

    python benchmarks/symplectic.py [--quick] [--json FILE] [--plot FILE]

The chain hangs, is turned by random angles, and let go; its motion is chaotic. Errors are those of the total energy, in parts of the
energy above rest. MuJoCo runs its own loop with the integrator Euler, which is semi-implicit. RK4 is run at the same step, and at steps
so short that it costs as much as a symplectic method. `trend` is the slope of a line through the logarithms of the largest errors in
fiftieths of the run and of the time, from a tenth of it on: 0 where the error is bounded, 1 where it grows in proportion to time.
"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import machine
import matplotlib.pyplot as plt
import mujoco
import numpy as np
import results
from simulation import mujoco_model, plain_chain

import catena as ct

STEP, STEPS, TURN = 0.005, 1_000_000, 0.5
SYMPLECTIC = ("symplectic-euler", "stormer-verlet", "symplectic-midpoint", "symplectic-gauss-4", "symplectic-gauss-6")
SAMPLE = 0.25  # [s] between samples, about
SPANS = 24


def start(m: ct.Model) -> tuple[np.ndarray, np.ndarray]:
    """Return the chain hanging, and turned from there."""
    hanging = np.array([0.0, np.pi, *[0.0] * (m.nv - 2)])
    return hanging, hanging + TURN * np.random.default_rng(1).normal(size=m.nv)


def with_catena(m: ct.Model, q: np.ndarray, integrator: str, step: float, until: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times, positions and velocities, as far as the run comes."""
    every = round(SAMPLE / step)
    run = ct.rollout(m, q, step=step, steps=every * round(until / step / every), every=every, integrator=integrator, threads=1)
    good = np.isfinite(run.q).all(axis=1)
    return run.t[good], run.q[good], run.v[good]


def with_mujoco(m: ct.Model, q: np.ndarray, until: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times, positions and velocities of MuJoCo's semi-implicit Euler, as far as they are finite."""
    peer = mujoco_model(m)
    peer.opt.timestep, peer.opt.integrator = STEP, mujoco.mjtIntegrator.mjINT_EULER
    data = mujoco.MjData(peer)
    data.qpos[:] = q
    every, rows = round(SAMPLE / STEP), []
    for _ in range(round(until / STEP) // every):
        rows.append([data.time, *data.qpos, *data.qvel])
        mujoco.mj_step(peer, data, nstep=every)
        if data.warning[mujoco.mjtWarning.mjWARN_BADQACC].number:
            break
    table = np.array(rows)
    return table[:, 0], table[:, 1 : 1 + m.nq], table[:, 1 + m.nq :]


def costs(m: ct.Model, q: np.ndarray, seconds: float) -> dict[str, float]:
    """Return the time of a step [s] of each integrator, in turns."""
    runs = {
        name: (lambda name=name: ct.rollout(m, q, step=STEP, steps=500, every=500, integrator=name, threads=1))
        for name in ("rk4", "semi-implicit-euler", *SYMPLECTIC)
    }
    for run in runs.values():
        run()
    return {name: best / 500 for name, best in machine.fastest(runs, seconds).items()}


def largest(t: np.ndarray, error: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the middles of spans of time, and the largest errors in them."""
    inside = [np.abs(error[(t > a) & (t <= b)]) for a, b in pairwise(edges)]
    kept = [i for i, values in enumerate(inside) if len(values)]
    return np.sqrt(edges[:-1] * edges[1:])[kept], np.array([inside[i].max() for i in kept])


def main() -> None:
    """Measure, print and write the figures, draw the picture."""
    parser = results.parser(__doc__, "a fiftieth of the steps")
    parser.add_argument("--plot", type=Path, help="draw the errors over time to this file")
    options = parser.parse_args()
    until = STEP * STEPS / (50 if options.quick else 1)
    m = plain_chain()
    hanging, q = start(m)
    energy = ct.energy(m)
    scale = sum(energy(q, np.zeros(m.nv))) - sum(energy(hanging, np.zeros(m.nv)))
    cost = costs(m, q, 1.0 if options.quick else 8.0)
    cases: dict[str, tuple[str, float]] = {name: (name, STEP) for name in SYMPLECTIC}
    cases["rk4"] = ("rk4", STEP)
    for name in ("symplectic-midpoint", "symplectic-gauss-4"):
        cases[f"rk4 at the cost of {name}"] = ("rk4", STEP * cost["rk4"] / cost[name])
    cases["semi-implicit-euler"] = ("semi-implicit-euler", STEP)
    rows, curves = [], {}
    for case in [*cases, "MuJoCo Euler"]:
        integrator, step = cases.get(case, ("", STEP))
        began = time.perf_counter()
        t, positions, velocities = with_catena(m, q, integrator, step, until) if integrator else with_mujoco(m, q, until)
        figures = {"step_ms": 1e3 * step, "until_s": until, "end_s": float(t[-1]), "run_s": time.perf_counter() - began}
        total: Any = sum(energy(positions, velocities))
        error = (total - total[0]) / scale
        curves[case] = largest(t, error, np.geomspace(5.0, until, SPANS + 1))
        figures["first_50_s"] = float(np.abs(error[t <= 50.0]).max())
        if t[-1] >= until - 1.0:
            later = largest(t, error, np.linspace(0.1 * until, until, 46))
            figures["last_tenth"] = float(np.abs(error[t >= 0.9 * until]).max())
            figures["trend"] = float(np.polyfit(*map(np.log, later), 1)[0])
        rows.append(results.row("chain of 7", case, 1e6 * cost[integrator] if integrator else None, **figures))
    results.report("symplectic", rows, options)
    if options.plot:
        draw(curves, until).savefig(options.plot, dpi=150)


def draw(curves: dict[str, tuple[np.ndarray, np.ndarray]], until: float) -> Any:
    """Return a picture of the largest errors over time."""
    figure, axes = plt.subplots(figsize=(8.0, 5.0), layout="constrained")
    colours = iter(plt.get_cmap("viridis")(np.linspace(0.0, 0.85, len(SYMPLECTIC))))
    for case, (t, error) in curves.items():
        if case in SYMPLECTIC:
            (line,) = axes.loglog(t, error, "-", color=next(colours))
        else:
            colour = "tab:gray" if "uler" in case else "tab:red"
            style = {"rk4": "-", "MuJoCo Euler": ":"}.get(case, "--" if "gauss" not in case else ":")
            (line,) = axes.loglog(t, error, style, color=colour)
        line.set_label(case.replace("rk4 at the cost of", "rk4, cost of"))
    axes.set(xlabel="time [s]", ylabel="largest error of the energy, in parts of the energy above rest", xlim=(5.0, until))
    axes.set_title("Chain of 7 bodies, steps of 5 ms", fontsize=11)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


if __name__ == "__main__":
    main()
