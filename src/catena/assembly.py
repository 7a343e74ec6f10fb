"""Putting mechanisms with loops together: configurations that close all loops, and velocities that keep them closed.

Both work on the model's own coordinates, with the rank of the constraints: redundant ones, as in a planar loop in space, do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ModelError
from catena.formulations.constraints import Ends, apart, constraint_jacobian
from catena.formulations.mass.composite_body import mass_matrix
from catena.model import Model
from catena.model.tree import Basic
from catena.model.values import array, number

#: A mechanism is together where no loop is further apart than this, relative to its size for lengths, in radians for angles.
TOLERANCE = 1e-12

#: Singular values below this part of the largest count as zero.
RANK = 1e-9

#: Starts that are tried beside the one given, and steps of each.
STARTS, STEPS = 20, 200

#: A mechanism is nearly together where no loop is further apart than this, measured as above.
_NEARLY = 1e-2

#: A step of a walk moves no coordinate further than the first [rad, or sizes of the mechanism], and a walk that needs shorter steps than
#: the second ends. What brings a step back onto the loops is at most the third, a part of the step: less than to another branch. The last
#: is the number of steps after which a walk is given up.
_LONGEST, _SHORTEST, _ASIDE, _PACES = 0.3, 1e-4, 0.2, 300


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
        self.model, self.tree, self.size = m, m.tree(), mechanism_size(m)
        self.names = tuple(x.name for x in (*self.tree.closures, *self.tree.couplings))
        owners, units = zip(*loop_owners(m, self.size), strict=True)
        self._owners, self._units = np.array(owners), np.array(units)
        self.coordinates = coordinate_units(m)
        rods = [(i, basic.value) for i, closure in enumerate(self.tree.closures) for basic in closure.constraints if basic.kind == "ss"]
        self._rods = [(owners.index(i), length / self.size) for i, length in rods]

    def apart(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what is between the ends, scaled to numbers, and its Jacobian."""
        values, J = (np.asarray(x, dtype=float) for x in constraint_jacobian(self.tree, q, apart))
        return values / self._units, J / self._units[:, None]

    def gap(self, values: np.ndarray) -> Gap:
        """Return how far each loop is apart; a distance is compared as such, not by its square."""
        values, sizes = values.copy(), np.zeros(len(self.names))
        for at, length in self._rods:
            values[at] = np.sqrt(length**2 + 2.0 * length * values[at]) - length
        np.maximum.at(sizes, self._owners, np.abs(values))
        return Gap(self.names, sizes)


def mechanism_size(m: Model) -> float:
    """Return the size of a mechanism [m]: the longest offset of a joint, of an end of a loop or of a centre of mass."""
    lengths = [np.abs(x).max() for link in m.links for x in (link.at.p, np.array(link.body.com))]
    lengths += [np.abs(x).max() for closure in m.tree().closures for x in (closure.at_a.p, closure.at_b.p)]
    return float(max(lengths)) or 1.0


def coordinate_units(m: Model) -> np.ndarray:
    """Return what the velocity coordinates are measured by: the size of the mechanism for lengths, 1 for angles."""
    return np.where(np.array(m.v_units) == "m/s", mechanism_size(m), 1.0)


def _unit(basic: Basic, size: float) -> float:
    """Return what a value of a constraint is measured by, in a mechanism of a size [m]."""
    return {"s": size, "d2": size, "ss": 2.0 * basic.value * size}.get(basic.kind, 1.0)


def loop_units(m: Model) -> list[float]:
    """Return what the value of each constraint is measured by: the size of the mechanism for lengths, 1 for angles."""
    size = mechanism_size(m)
    units = [_unit(basic, size) for closure in m.tree().closures for basic in closure.constraints for _ in range(basic.rows)]
    return units + [1.0] * len(m.tree().couplings)


def loop_owners(m: Model, size: float = 1.0) -> list[tuple[int, float]]:
    """Return, for every value between the ends of all loops, the number of its loop, and what it is measured by: lengths by a size [m]."""
    found: list[tuple[int, float]] = []
    origin = Ends(np.eye(3), np.zeros(3), np.eye(3), np.zeros(3), np.eye(3))
    for i, closure in enumerate(m.tree().closures):
        lengths = [_unit(basic, size) for basic in closure.constraints if basic.kind in ("s", "d2", "ss") for _ in range(basic.rows)]
        directions = len(apart(closure, origin)[0]) - len(lengths)  # they follow the lengths
        found += [(i, unit) for unit in (*lengths, *[1.0] * directions)]
    return found + [(len(m.tree().closures) + i, 1.0) for i in range(len(m.tree().couplings))]


def gap(m: Model, q: Any) -> Gap:
    """Return how far each loop and coupling of a model is from being closed at q."""
    loops = _Loops(m)
    return loops.gap(loops.apart(np.asarray(q, dtype=float))[0])


def assemble(m: Model, guess: Any, fixed: Mapping[str, float]) -> np.ndarray:
    """Return a configuration that closes all loops, near a guess and with coordinates that are fixed, or say why there is none.

    The loops are closed at the guess, and the fixed coordinates led from there to their values: so the result is on the branch of
    `assemble(m, guess, {})` as far as that reaches. A guess that is nearly closed with the fixed values in it is taken as it is.
    """
    everything = np.ones(m.nv, dtype=bool)
    given = m.neutral() if guess is None else array("assemble: guess", guess, (m.nq,))
    start, free, places = given.copy(), everything.copy(), [_plain(m, name) for name in fixed]
    for (position, velocity), (name, value) in zip(places, fixed.items(), strict=True):
        start[position] = number(f"assemble: {name}", value)
        free[velocity] = False
    if not m.has_loops:
        return start
    loops, stopped = _Loops(m), ""
    if fixed and (guess is None or np.abs(loops.apart(start)[0]).max() > _NEARLY):
        q, values = _search(loops, given, everything)
        if _closed(values):
            q = _walk(loops, q, start, places, free)
            if all(q[position] == start[position] for position, _ in places):
                return q
            reached = ", ".join(f"{name} = {q[position]:.4g}" for name, (position, _) in zip(fixed, places, strict=True))
            stopped = f"led there from the guess it stops at {reached}, and "
    q, values = _search(loops, start, free)
    if _closed(values):
        return q
    found = loops.gap(values)
    held = f" with {', '.join(f'{name} = {start[at]:g}' for name, (at, _) in zip(fixed, places, strict=True))}" if fixed else ""
    raise ModelError(
        f"model '{m.name}' does not close{held}: {stopped}the best of {STARTS + 1} starts leaves loop '{found.worst}' apart by "
        f"{found.sizes.max() * loops.size:.3g} m or {found.sizes.max():.3g} rad; check lengths and places, fix fewer coordinates, "
        "or give a guess that is nearer"
    )


def _closed(values: np.ndarray) -> bool:
    return bool(np.abs(values).max() <= TOLERANCE)


def _search(loops: _Loops, start: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a configuration that closes the loops, or the best found, from a start or others around it; and what is between the ends."""
    rng = np.random.default_rng(0)
    best, smallest = start, np.array([np.inf])
    for attempt in range(STARTS + 1):
        spread = 0.0 if attempt == 0 else 0.05 * 1.3**attempt
        q, values = _settle(loops, loops.model.integrate(start, spread * free * rng.normal(size=loops.model.nv)), free)
        if np.abs(values).max() < np.abs(smallest).max():
            best, smallest = q, values
        if _closed(values):
            break
    return best, smallest


def _walk(loops: _Loops, q: np.ndarray, goal: np.ndarray, places: list[tuple[int, int]], free: np.ndarray) -> np.ndarray:
    """Return how far a mechanism comes when coordinates are led straight to a goal from q, which closes the loops.

    A step goes along the tangent and is brought back onto the loops; it is halved where that takes more than a small part of it.
    """
    m, longest = loops.model, _LONGEST
    positions, velocities = map(list, zip(*places, strict=True))
    for _ in range(_PACES):
        step = np.zeros(m.nv)
        step[velocities] = goal[positions] - q[positions]
        if not step.any() or longest < _SHORTEST:
            break
        J = loops.apart(q)[1]
        step[free] = np.linalg.lstsq(J[:, free], -J @ step, rcond=RANK)[0]
        whole = np.abs(step / loops.coordinates).max()
        share = min(1.0, longest / whole)
        ahead = m.integrate(q, share * step)
        if share == 1.0:
            ahead[positions] = goal[positions]
        then, values = _settle(loops, ahead, free, damping=0.0)
        aside = np.abs(m.difference(ahead, then) / loops.coordinates).max()
        if _closed(values) and aside <= _ASIDE * share * whole:
            q, longest = then, min(_LONGEST, 2.0 * longest)
        else:
            longest = 0.5 * share * whole
    return q


def _settle(loops: _Loops, q: np.ndarray, free: np.ndarray, damping: float = 1e-3) -> tuple[np.ndarray, np.ndarray]:
    """Return where damped Gauss-Newton steps on the manifold lead, and what is between the ends there."""
    m = loops.model
    values, J = loops.apart(q)
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
        if name not in m.v_names:
            raise ModelError(f"model '{m.name}' has no velocity '{name}'; choose from {', '.join(m.v_names)}")
        velocity = m.v_names.index(name)
        v[velocity] = number(f"project_velocity: {name}", value)
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
        rates = ", ".join(f"{name} = {v[m.v_names.index(name)]:g}" for name in fixed)
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
