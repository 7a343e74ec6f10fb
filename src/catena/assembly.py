"""Putting mechanisms with loops together: configurations that close all loops, and velocities that keep them closed.

Both work on the model's own coordinates, with the rank of the constraints: redundant ones, as in a planar loop in space, do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ModelError
from catena.formulations.constraints import apart, constraint_jacobian
from catena.formulations.mass.composite_body import mass_matrix
from catena.model import Model
from catena.model.values import array

#: A mechanism is together where no loop is further apart than this, relative to its size for lengths, in radians for angles.
TOLERANCE = 1e-12

#: Singular values below this part of the largest count as zero.
RANK = 1e-9

#: Starts that are tried beside the one given, and steps of each.
STARTS, STEPS = 20, 200


class Gap(NamedTuple):
    """How far each loop and coupling is from being closed: lengths relative to the mechanism's size, directions as numbers."""

    names: tuple[str, ...]
    sizes: np.ndarray

    @property
    def worst(self) -> str:
        """Name of the loop that is furthest apart."""
        return self.names[int(np.argmax(self.sizes))]


class _Loops:
    """The constraints of a model, in floats: what is between the ends of all loops, and its Jacobian."""

    def __init__(self, m: Model) -> None:
        self.model, self.tree = m, m.tree()
        for closure in self.tree.closures:
            if not closure.constraints:
                raise ModelError(
                    f"loop '{closure.name}' of model '{m.name}' is closed by a custom joint; hang a body on the custom joint, and close "
                    "the loop by another one"
                )
        self.names = tuple(x.name for x in (*self.tree.closures, *self.tree.couplings))
        lengths = [np.abs(x).max() for link in m.links for x in (link.at.p, np.array(link.body.com))]
        lengths += [np.abs(x).max() for closure in self.tree.closures for x in (closure.at_a.p, closure.at_b.p)]
        self.size = float(max(lengths)) or 1.0
        self._scale, self._owner = [], []
        for i, closure in enumerate(self.tree.closures):
            units = _units(closure, self.size)
            self._scale += units
            self._owner += [i] * len(units)
        self._scale += [1.0] * len(self.tree.couplings)
        self._owner += range(len(self.tree.closures), len(self.names))

    def apart(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what is between the ends, scaled to numbers, and its Jacobian."""
        values, J = (np.asarray(x, dtype=float) for x in constraint_jacobian(self.tree, q, apart))
        scale = 1.0 / np.array(self._scale)
        return scale * values, scale[:, None] * J

    def gap(self, values: np.ndarray) -> Gap:
        """Return how far each loop is apart; a distance is compared as such, not by its square."""
        at, sizes = 0, np.zeros(len(self.names))
        for closure in self.tree.closures:
            for basic in closure.constraints:
                if basic.kind == "ss":
                    squared = basic.value**2 + 2.0 * basic.value * self.size * values[at]
                    values = np.concatenate([values[:at], [(np.sqrt(squared) - basic.value) / self.size], values[at + 1 :]])
            at += len(_units(closure, self.size))
        np.maximum.at(sizes, self._owner, np.abs(values))
        return Gap(self.names, sizes)


def _units(closure: Any, size: float) -> list[float]:
    """Return what each value between the ends of a closure is measured by, in the order of `apart`."""
    units: list[float] = []
    for basic in closure.constraints:
        units += {"s": [size] * 3, "d2": [size], "ss": [2.0 * basic.value * size]}.get(basic.kind, [])
    angles = [basic for basic in closure.constraints if basic.kind == "d1"]
    directions = 1 if len(angles) == 1 else 3 * len({tuple(basic.w) for basic in angles})
    return units + [1.0] * (directions + 3 * sum(basic.kind == "screw" for basic in closure.constraints))


def loop_units(m: Model) -> list[float]:
    """Return what the value of each constraint is measured by: the size of the mechanism for lengths, 1 for angles."""
    size = _Loops(m).size
    units = {"s": [size] * 3, "d1": [1.0], "d2": [size], "screw": [1.0]}
    found: list[float] = []
    for closure in m.tree().closures:
        for basic in closure.constraints:
            found += [2.0 * basic.value * size] if basic.kind == "ss" else units[basic.kind]
    return found + [1.0] * len(m.tree().couplings)


def loop_owners(m: Model) -> list[tuple[int, float]]:
    """Return, for every value between the ends of all loops, the number of its loop, and what makes it a length [m] or a direction."""
    found = [(i, unit) for i, closure in enumerate(m.tree().closures) for unit in _units(closure, 1.0)]
    return found + [(len(m.tree().closures) + i, 1.0) for i in range(len(m.tree().couplings))]


def gap(m: Model, q: Any) -> Gap:
    """Return how far each loop and coupling of a model is from being closed at q."""
    loops = _Loops(m)
    return loops.gap(loops.apart(np.asarray(q, dtype=float))[0])


def assemble(m: Model, guess: Any, fixed: Mapping[str, float]) -> np.ndarray:
    """Return a configuration that closes all loops, near a guess and with coordinates that are fixed, or say why there is none."""
    start = m.neutral() if guess is None else array("assemble: guess", guess, (m.nq,)).copy()
    free = np.ones(m.nv, dtype=bool)
    for name, value in fixed.items():
        position, velocity = _plain(m, name)
        start[position] = float(value)
        free[velocity] = False
    if not m.has_loops:
        return start
    loops = _Loops(m)
    rng = np.random.default_rng(0)
    best, smallest = start, np.inf
    for attempt in range(STARTS + 1):
        spread = 0.0 if attempt == 0 else 0.05 * 1.3**attempt
        q, values = _settle(loops, m.integrate(start, spread * free * rng.normal(size=m.nv)), free)
        if np.abs(values).max() <= TOLERANCE:
            return q
        if np.abs(values).max() < smallest:
            best, smallest = q, np.abs(values).max()
    found = loops.gap(loops.apart(best)[0])
    held = f" with {', '.join(f'{name} = {value:g}' for name, value in fixed.items())}" if fixed else ""
    raise ModelError(
        f"model '{m.name}' does not close{held}: the best of {STARTS + 1} starts leaves loop '{found.worst}' apart by "
        f"{found.sizes.max() * loops.size:.3g} m or {found.sizes.max():.3g} rad; check lengths and places, fix fewer coordinates, "
        "or give a guess that is nearer"
    )


def _settle(loops: _Loops, q: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where damped Gauss-Newton steps on the manifold lead, and what is between the ends there."""
    m = loops.model
    values, J = loops.apart(q)
    damping = 1e-3
    for _ in range(STEPS):
        if np.abs(values).max() <= 1e-3 * TOLERANCE:
            break
        U, s, Vt = np.linalg.svd(J[:, free], full_matrices=False)
        share = np.where(s > RANK * s.max(initial=0.0), s / (s**2 + damping * s.max(initial=0.0) ** 2 + 1e-300), 0.0)
        step = np.zeros(m.nv)
        step[free] = -Vt.T @ (share * (U.T @ values))
        step *= min(1.0, 1.0 / max(np.abs(step).max(), 1e-300))  # no coordinate further than 1 at a time
        moved = m.integrate(q, step)
        then, J_then = loops.apart(moved)
        if then @ then < values @ values:
            small = np.abs(values - then).max() <= 1e-15
            q, values, J, damping = moved, then, J_then, 0.1 * damping if damping > 1e-14 else 0.0
            if small and damping == 0.0:
                break
        elif damping > 1e8 or (damping == 0.0 and np.abs(values).max() <= TOLERANCE):
            break
        else:
            damping = max(10.0 * damping, 1e-12)
    return q, values


def project_velocity(m: Model, q: Any, v: Any, fixed: Mapping[str, float]) -> np.ndarray:
    """Return the velocity that keeps all loops closed and differs from v by the least kinetic energy; fixed coordinates have their rate."""
    q, v = array("project_velocity: q", q, (m.nq,)), array("project_velocity: v", v, (m.nv,)).copy()
    free = np.ones(m.nv, dtype=bool)
    for name, value in fixed.items():
        velocity = _plain(m, name)[1]
        v[velocity] = float(value)
        free[velocity] = False
    if not m.has_loops:
        return v
    J = _Loops(m).apart(q)[1]
    mass = np.asarray(mass_matrix(m.tree(), q), dtype=float)[np.ix_(free, free)]
    factor = np.linalg.inv(np.linalg.cholesky(mass)).T  # v = factor @ x turns kinetic energy into |x|^2 / 2
    change = np.linalg.lstsq(J[:, free] @ factor, -J @ v, rcond=RANK)[0]
    result = v.copy()
    result[free] += factor @ change
    left, size = J @ result, np.abs(J) @ (np.abs(v) + np.abs(result))
    if np.abs(left).max() > 1e-9 * max(size.max(), 1e-300):
        rates = ", ".join(f"{name} = {value:g}" for name, value in fixed.items())
        raise ModelError(f"model '{m.name}': no velocity keeps the loops closed with {rates}; fix fewer rates")
    return result


def _plain(m: Model, name: str) -> tuple[int, int]:
    """Return the position and velocity index of a coordinate that is a plain number."""
    if name not in m.q_names:
        raise ModelError(f"model '{m.name}' has no coordinate '{name}'; choose from {', '.join(m.q_names)}")
    position = m.q_names.index(name)
    for link, where, at in m._slices():
        if where.start <= position < where.stop:
            if link.joint.nq != link.joint.nv:
                raise ModelError(f"coordinate '{name}' is part of a quaternion and cannot be fixed alone; give a guess instead")
            return position, at.start + position - where.start
    raise AssertionError(name)
