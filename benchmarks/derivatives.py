"""Derivatives of the dynamics: catena beside Pinocchio, same states, one run, one core.

    python benchmarks/derivatives.py [--quick] [--json FILE]

All three matrices of forward dynamics with vdot against `computeABADerivatives`, those of inverse dynamics with the mass matrix against
`computeRNEADerivatives`; with loops, against `constraintDynamics` and `computeConstraintDynamicsDerivatives`. Pinocchio has no loop in C++
over states for derivatives, so it is called from Python state by state, and leaves its matrices in its own memory; catena writes all
matrices of a batch, which is as large as the processor's cache has room for. Then the cost of one derivative along a direction, and of one
gradient, in times of the kernel itself; and the time to trace and compile, without a cache. Last a chain with stiff springs, integrated
with the derivatives of its accelerations and by plain iteration, each with the longest step that converges to 1 %. Times are minima over
rounds in which they take turns.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("CATENA_CACHE_DIR", "off")

import loops
import machine
import numpy as np
import pinocchio as pin
from dynamics import chain
from rich.console import Console
from rich.table import Table

import catena as ct
from catena.comparison.peers import Pinocchio
from catena.examples import EXAMPLES
from catena.simulation.integrators import solving

#: States of a batch, by the number of coordinates.
STATES = {7: 1024, 40: 256, 100: 16}

#: Rounds in which functions are timed, each by itself.
ROUNDS = 3

#: The stiff chain: how many hinges, how long it is integrated [s], the steps that are tried [s], and the relative error that is allowed.
HINGES, SPAN, STEPS, EXACT = 60, 0.1, (2e-3, 1e-3, 5e-4, 2e-4, 1e-4, 5e-5, 2e-5), 1e-2


def models() -> dict[str, Callable[[], ct.Model]]:
    """Return the trees that are measured."""
    chains = {f"chain of {count}": partial(chain, count) for count in (30, 100)}
    return {"arm": EXAMPLES["arm"], "humanoid": EXAMPLES["humanoid"], **chains}


def called(function: Callable[..., object], states: list[tuple[np.ndarray, ...]]) -> None:
    """Call a function with one state after the other."""
    for state in states:
        function(*state)


def fastest(functions: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Return the shortest run of each function [s], in rounds in which each runs several times by itself, so that caches are its own."""
    rounds = [{name: machine.fastest({"": one}, seconds / len(functions))[""] for name, one in functions.items()} for _ in range(ROUNDS)]
    return {name: min(found[name] for found in rounds) for name in functions}


def tree(name: str, m: ct.Model, seconds: float) -> dict[str, Any]:
    """Return the figures of a tree."""
    count = next(number for most, number in STATES.items() if m.nv <= most)
    forward, inverse, fd = ct.forward_dynamics_derivatives(m), ct.inverse_dynamics_derivatives(m), ct.forward_dynamics(m)
    jvp, vjp = fd.jvp(), fd.vjp()
    rng = np.random.default_rng(0)
    q, (v, tau) = m.random(rng, count), rng.normal(size=(2, count, m.nv))
    dq, dv, dtau, bar = rng.normal(size=(4, count, m.nv))
    peer = Pinocchio(m)
    theirs = [(peer.state(a, b)[0], b, c) for a, b, c in zip(q, v, tau, strict=True)]
    outs = {kernel: tuple(np.empty((count, *port.shape)) for port in kernel.outputs) for kernel in (forward, inverse, jvp, vjp)}
    one = q[0], v[0], tau[0]
    turns: dict[str, Callable[[], object]] = {
        "forward": partial(forward, q, v, tau, out=outs[forward]),
        "inverse": partial(inverse, q, v, tau, out=outs[inverse]),
        "forward, one call": partial(called, forward, [one] * 50),
        "inverse, one call": partial(called, inverse, [one] * 50),
        "computeABADerivatives": partial(called, partial(pin.computeABADerivatives, peer.model, peer.data), theirs),
        "computeRNEADerivatives": partial(called, partial(pin.computeRNEADerivatives, peer.model, peer.data), theirs),
        "kernel": partial(fd, q, v, tau),
        "jvp": partial(jvp, q, v, tau, dq, dv, dtau, out=outs[jvp]),
        "vjp": partial(vjp, q, v, tau, bar, out=outs[vjp]),
    }
    best = fastest(turns, seconds)
    return {
        "model": name, "coordinates": m.nv, "method": forward.method,
        "us": {key: value / (50 if "one call" in key else count) * 1e6 for key, value in best.items()},
        "operations": {key: sum(kernel.operations.values()) for key, kernel in (("forward", forward), ("inverse", inverse))},
        "seconds": {key: sum(kernel.seconds.values()) for key, kernel in (("forward", forward), ("inverse", inverse))},
    }  # fmt: skip


def with_loops(name: str, seconds: float) -> dict[str, Any]:
    """Return the figures of a mechanism with loops."""
    m, count = EXAMPLES[name](), 500
    kernel = ct.forward_dynamics_derivatives(m)
    q, v, tau = loops.states(m, count)
    peer = loops.Peer(m, False)
    order = peer.velocities
    theirs = list(zip(peer.positions(q), v[:, order], tau[:, order], strict=True))
    constraints, results, settings = peer.constraints("constraintDynamics")
    data = peer.model.createData()
    pin.initConstraintDynamics(peer.model, data, constraints, results)

    def derivatives(*state: np.ndarray) -> None:
        pin.constraintDynamics(peer.model, data, *state, constraints, results, settings)
        pin.computeConstraintDynamicsDerivatives(peer.model, data, constraints, results, settings)

    out = tuple(np.empty((count, *port.shape)) for port in kernel.outputs)
    best = fastest({"catena": partial(kernel, q, v, tau, out=out), "Pinocchio": partial(called, derivatives, theirs)}, seconds)
    return {
        "model": name, "coordinates": m.nv, "us": {key: value / count * 1e6 for key, value in best.items()},
        "operations": sum(kernel.operations.values()), "seconds": sum(kernel.seconds.values()),
    }  # fmt: skip


def stiff_chain(count: int) -> ct.Model:
    """Return a chain of rods whose hinges have stiff springs, held at its end, under gravity from the side."""
    m, parent = ct.Model("stiff chain", gravity=(4.0, 3.0, -8.0)), "ground"
    for i in range(count):
        joint = ct.Revolute("xy"[i % 2], stiffness=1e5, damping=10.0)
        m.add(f"rod{i}", ct.box(1.0, 0.05, 0.05, 0.1), joint, parent, (0.0, 0.0, 0.1 * (i > 0)))
        parent = f"rod{i}"
    return m


def implicit_steps(count: int, repeats: int) -> list[dict[str, Any]]:
    """Return the figures of implicit midpoint steps, with derivatives and by plain iteration."""
    at_rest = np.zeros(count)
    exact = ct.simulate(stiff_chain(count), at_rest, until=SPAN, integrator="rang-angermann", rtol=1e-8, atol=1e-11).q[-1]
    rows, unknowns = [], solving.LARGEST_JACOBIAN
    for name, largest in (("with derivatives", unknowns), ("plain iteration", 0)):
        solving.LARGEST_JACOBIAN = largest
        m = stiff_chain(count)  # anew: what is compiled for a run is kept for its model
        for step in STEPS:
            try:
                runs = [ct.simulate(m, at_rest, until=SPAN, step=step, integrator="implicit-midpoint") for _ in range(1 + repeats)]
            except ct.SimulationError:  # the iteration does not converge
                continue
            error = float(np.abs(runs[0].q[-1] - exact).max() / np.abs(exact).max())
            if error < EXACT:
                rows.append({"steps": name, "step": step, "seconds": min(run.info["seconds"] for run in runs), "error": error})
                break
    solving.LARGEST_JACOBIAN = unknowns
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the smallest models, briefly, as a check")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    console, seconds = Console(), 0.05 if given.quick else 1.5
    chosen = {name: build for name, build in models().items() if not given.quick or name.startswith("arm")}
    rows = [tree(name, build(), seconds) for name, build in chosen.items()]
    closed = [with_loops(name, seconds) for name in (("four-bar",) if given.quick else ("four-bar", "stewart-ups"))]

    table = Table(title="derivatives of trees, us a state; jvp and vjp in times of the kernel", padding=(0, 0))
    for head in ("model", "forward", "theirs", "ratio", "inverse", "theirs", "ratio", "one call", "jvp", "vjp", "made in s"):
        table.add_column(head, justify="left" if head == "model" else "right")
    for row in rows:
        us = row["us"]
        aba, rnea = us["computeABADerivatives"], us["computeRNEADerivatives"]
        table.add_row(
            row["model"], f"{us['forward']:.2f}", f"{aba:.1f}", f"{aba / us['forward']:.1f}",
            f"{us['inverse']:.2f}", f"{rnea:.1f}", f"{rnea / us['inverse']:.1f}",
            f"{us['forward, one call']:.1f}", f"{us['jvp'] / us['kernel']:.2f}", f"{us['vjp'] / us['kernel']:.2f}",
            f"{row['seconds']['forward']:.1f}",
        )  # fmt: skip
    console.print(table)
    table = Table(title="derivatives with loops, microseconds a state")
    for head in ("model", "catena", "theirs", "ratio", "made in s"):
        table.add_column(head, justify="left" if head == "model" else "right")
    for row in closed:
        ours, theirs = row["us"]["catena"], row["us"]["Pinocchio"]
        table.add_row(row["model"], f"{ours:.3f}", f"{theirs:.1f}", f"{theirs / ours:.1f}", f"{row['seconds']:.1f}")
    console.print(table)
    hinges = 8 if given.quick else HINGES
    steps = implicit_steps(hinges, 1 if given.quick else 5)
    table = Table(title=f"a stiff chain of {hinges} hinges for {SPAN} s, implicit midpoint")
    for head in ("equations of a step", "step in s", "us a step", "ms in all", "relative error"):
        table.add_column(head, justify="left" if head.startswith("equations") else "right")
    for row in steps:
        us = row["seconds"] * row["step"] / SPAN * 1e6
        table.add_row(row["steps"], f"{row['step']:g}", f"{us:.0f}", f"{row['seconds'] * 1e3:.1f}", f"{row['error']:.1e}")
    console.print(table)
    if given.json:
        figures = {"machine": machine.description(), "trees": rows, "loops": closed, "implicit steps": steps}
        given.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
