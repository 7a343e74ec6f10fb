"""Derivatives of kernels with parameters and wrenches, on mechanisms with loops: against differences, and against the model rebuilt."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from tests.explorations.motions import Rng
from tests.explorations.report import Report, near, warned
from tests.families import FAMILIES, mechanism

import catena as ct
from catena.examples import EXAMPLES
from catena.loops.mobility import conditioning

#: Half the span of differences, and what their results agree to.
SPAN, AGREES = 1e-5, 2e-5

#: Parts of a model whose numbers do not move the loops.
FREE = (".mass", ".com", ".inertia", ".damping", ".armature", ".stiffness")


@cache
def _looped() -> list[str]:
    return [name for name in EXAMPLES if EXAMPLES[name]().has_loops]


def slopes(report: Report, rng: Rng) -> None:
    """All matrices of forward dynamics, with inputs in any order, along a motion that keeps the loops closed."""
    m = _model(rng)
    if m is None:
        report.counts["slopes: no state"] += 1
        return
    q, v, tau, N = _state(m, rng)
    if N is None or conditioning(m, q)[1] < 1e-4:  # digits are lost
        report.counts["slopes: singular states, or rigid"] += 1
        return
    known = m.parameters()
    paths = [path for path in known if known[path].follows is None] if hasattr(next(iter(known.values())), "follows") else list(known)
    chosen = [str(path) for path in rng.choice(paths, min(len(paths), int(rng.integers(0, 4))), replace=False)]
    chosen = [path for path in chosen if not any(path != other and path.startswith(f"{other}.") for other in chosen)]
    values = {path: known[path].value for path in chosen}
    changed = {path: value * rng.uniform(0.7, 1.4) for path, value in values.items() if path == "gravity" or path.endswith(FREE)}
    values |= changed
    bodies = [str(name) for name in rng.choice(m.body_names, min(len(m.body_names), int(rng.integers(0, 3))), replace=False)]
    pushes = rng.normal(size=(len(bodies), 6))
    wrenches: dict[str, Any] = {"wrenches": pushes} if bodies else {}
    inputs = {"parameters": chosen, "wrenches": bodies}
    name = f"{m.name}: {chosen}, {bodies}"
    with warned() as singular:
        forward, slope = ct.forward_dynamics(m, **inputs), ct.forward_dynamics_derivatives(m, **inputs)
        found = slope(q, v, tau, **values, **wrenches)
        vdot = forward(q, v, tau, **values, **wrenches)
        rebuilt = m.with_values(changed) if changed else m
        pushed = tau + sum((ct.jacobian(rebuilt, body)(q).T @ wrench for body, wrench in zip(bodies, pushes, strict=True)), np.zeros(m.nv))
        plain = ct.forward_dynamics(rebuilt)(q, v, pushed)
    if singular:
        report.counts["slopes: singular states, or rigid"] += 1
        return
    report.counts["slopes with parameters"] += bool(chosen)
    report.counts["slopes with wrenches"] += bool(bodies)
    scale = max(np.abs(vdot).max(initial=0.0), 1.0)
    if not (near(found[0], vdot, scale) < 1e-7 and near(vdot, plain, scale) < 1e-7):
        report.fail("slopes", f"{name}: accelerations differ by {near(found[0], vdot, scale):.1e}, {near(vdot, plain, scale):.1e}")
        return
    change = rng.normal(size=m.nv)
    ends = [forward(q, v, tau + sign * change, **values, **wrenches) for sign in (1.0, -1.0)]
    _agree(report, f"{name}: by tau", found[3] @ change, 0.5 * (ends[0] - ends[1]), np.abs(found[3]).max() * np.abs(change).max())
    along = N @ rng.normal(size=N.shape[1])
    states = []
    for sign in (1.0, -1.0):
        near_q = m.assemble(guess=m.integrate(q, sign * SPAN * along))
        states.append((near_q, m.project_velocity(near_q, v + sign * SPAN * change)))
    dq = m.difference(states[1][0], states[0][0]) / (2.0 * SPAN)
    dv = (states[0][1] - states[1][1]) / (2.0 * SPAN)
    ends = [forward(*state, tau, **values, **wrenches) for state in states]
    size = np.abs(found[1]).max() * np.abs(dq).max() + np.abs(found[2]).max() * np.abs(dv).max() + scale
    _agree(report, f"{name}: by q and v", found[1] @ dq + found[2] @ dv, (ends[0] - ends[1]) / (2.0 * SPAN), size)
    for path in changed:
        by = forward.jacobian("vdot", path)(q, v, tau, **values, **wrenches)
        step = rng.normal(size=np.shape(values[path])) * max(np.abs(values[path]).max(), 1e-3)
        if path.endswith(".inertia"):
            step = 0.5 * (step + step.T)
        ends = [forward(q, v, tau, **{**values, path: values[path] + sign * SPAN * step}, **wrenches) for sign in (1.0, -1.0)]
        expected = (ends[0] - ends[1]) / (2.0 * SPAN)
        _agree(report, f"{name}: by {path}", np.tensordot(by, step, np.ndim(step)), expected, np.abs(by).max() * np.abs(step).max() + scale)


def _agree(report: Report, what: str, found: Any, expected: Any, scale: float) -> None:
    if not near(found, expected, scale) < AGREES:
        report.fail("slopes", f"{what} differ by {near(found, expected, scale):.1e}")


def _model(rng: Rng) -> ct.Model | None:
    try:
        if rng.random() < 0.5:
            return EXAMPLES[str(rng.choice(_looped()))]()
        return mechanism(str(rng.choice(list(FAMILIES))), int(rng.integers(2**31))).model
    except ct.ModelError:
        return None


def _state(m: ct.Model, rng: Rng) -> tuple[Any, Any, Any, Any]:
    """Return a regular state that closes the loops, joint forces, and the motions there; no motions where it is singular or rigid."""
    for _ in range(4):
        try:
            q = m.assemble(guess=m.random(rng))
            found = m.mobility(q)
            if found.freedom and not found.singular:
                v = m.project_velocity(q, rng.normal(size=m.nv))
                basis = ct.reduced(m, found.independent, at=q).basis(q)
                if np.abs(basis).max() < 1e2:
                    return q, v, rng.normal(size=m.nv), basis
        except ct.ModelError:
            continue
    return np.zeros(0), np.zeros(0), np.zeros(0), None


EXPLORATIONS = {"slopes": slopes}
