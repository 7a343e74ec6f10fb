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

import os
from collections.abc import Callable
from functools import partial

os.environ.setdefault("CATENA_CACHE_DIR", "off")

import loops
import machine
import numpy as np
import pinocchio as pin
import results
from dynamics import chain

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


def tree(name: str, m: ct.Model, seconds: float) -> list[results.Row]:
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
    us = {key: value / (50 if "one call" in key else count) * 1e6 for key, value in fastest(turns, seconds).items()}
    rows = []
    for what, kernel, function in (("forward", forward, "computeABADerivatives"), ("inverse", inverse, "computeRNEADerivatives")):
        title, peers = f"derivatives of {what} dynamics", {f"Pinocchio {function}": us[function]}
        figures = {"coordinates": m.nv, "states": count, "operations": sum(kernel.operations.values())}
        rows += [
            results.row(name, f"{title}, batch", us[what], peers, **figures),
            results.row(name, f"{title}, one call", us[f"{what}, one call"], peers),
            results.row(name, f"{title}, trace and compile", 1e6 * sum(kernel.seconds.values())),
        ]
    rows.append(results.row(name, "forward dynamics, batch", us["kernel"]))
    times = {key: us[key] / us["kernel"] for key in ("jvp", "vjp")}
    return rows + [results.row(name, f"{key} of forward dynamics, batch", us[key], times_kernel=times[key]) for key in times]


def with_loops(name: str, seconds: float) -> list[results.Row]:
    """Return the figures of a mechanism with loops."""
    m, count = EXAMPLES[name](), 500
    kernel = ct.forward_dynamics_derivatives(m)
    q, v, tau = loops.states(m, count)
    peer = loops.Peer(m, False)
    order = peer.velocities
    theirs = list(zip(peer.positions(q), v[:, order], tau[:, order], strict=True))
    constraints, room, settings = peer.constraints("constraintDynamics")
    data = peer.model.createData()
    pin.initConstraintDynamics(peer.model, data, constraints, room)

    def derivatives(*state: np.ndarray) -> None:
        pin.constraintDynamics(peer.model, data, *state, constraints, room, settings)
        pin.computeConstraintDynamicsDerivatives(peer.model, data, constraints, room, settings)

    out = tuple(np.empty((count, *port.shape)) for port in kernel.outputs)
    runs = {"catena": partial(kernel, q, v, tau, out=out), "Pinocchio": partial(called, derivatives, theirs)}
    us = {key: value / count * 1e6 for key, value in fastest(runs, seconds).items()}
    figures = {"coordinates": m.nv, "states": count, "operations": sum(kernel.operations.values())}
    title = "derivatives of forward dynamics"
    return [
        results.row(name, f"{title}, batch", us.pop("catena"), us, **figures),
        results.row(name, f"{title}, trace and compile", 1e6 * sum(kernel.seconds.values())),
    ]


def stiff_chain(count: int) -> ct.Model:
    """Return a chain of rods whose hinges have stiff springs, held at its end, under gravity from the side."""
    m, parent = ct.Model("stiff chain", gravity=(4.0, 3.0, -8.0)), "ground"
    for i in range(count):
        joint = ct.Revolute("xy"[i % 2], stiffness=1e5, damping=10.0)
        m.add(f"rod{i}", ct.box(1.0, 0.05, 0.05, 0.1), joint, parent, (0.0, 0.0, 0.1 * (i > 0)))
        parent = f"rod{i}"
    return m


def implicit_steps(count: int, repeats: int) -> list[results.Row]:
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
                seconds = min(run.info["seconds"] for run in runs)
                figures = {"step_us": 1e6 * step, "steps": round(SPAN / step), "error": error, "run_ms": 1e3 * seconds}
                rows.append(results.row(f"stiff chain of {count}", f"implicit midpoint, {name}", 1e6 * seconds * step / SPAN, **figures))
                break
    solving.LARGEST_JACOBIAN = unknowns
    return rows


def main() -> None:
    """Measure, print and write the figures."""
    options = results.parser(__doc__, "the smallest models, briefly, as a check").parse_args()
    seconds = 0.05 if options.quick else 1.5
    most = 1 if options.quick else None
    rows = [row for name, build in [*models().items()][:most] for row in tree(name, build(), seconds)]
    rows += [row for name in ("four-bar", "stewart-ups")[:most] for row in with_loops(name, seconds)]
    rows += implicit_steps(8, 1) if options.quick else implicit_steps(HINGES, 5)
    results.report("derivatives", rows, options)


if __name__ == "__main__":
    main()
