"""Putting mechanisms with loops together: configurations that close all loops, and velocities that keep them closed.

Both work on the model's own coordinates, with the rank of the constraints: redundant ones, as in a planar loop in space, do no harm.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ModelError
from catena.formulations.constraints import Ends, Joined, apart, constraint_jacobian, constraint_motion, joined
from catena.formulations.mass.composite_body import mass_matrix
from catena.model import Helical, Joint, Model
from catena.model.motions import Given
from catena.model.releasing import standing
from catena.model.tree import Basic, Tree
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

#: Basic constraints whose values are lengths; those of the others are angles where they are small.
_LENGTHS = ("s", "d2", "ss")


class Gap(NamedTuple):
    """How far each loop and coupling is from being closed: lengths relative to the mechanism's size, directions as numbers."""

    names: tuple[str, ...]
    sizes: np.ndarray

    @property
    def worst(self) -> str:
        """Name of the loop that is furthest apart."""
        return self.names[int(np.argmax(self.sizes))]


class _Loops:
    """A group of loops that share joints, in floats: what is between their ends, and its Jacobian on the group's own coordinates."""

    def __init__(self, tree: Tree, group: Joined, size: float, units: list[list[float]], coordinates: np.ndarray, joints: dict) -> None:
        self.tree, self.group, self.size = tree, group, size
        ends = [*(tree.closures[i] for i in group.closures), *(tree.couplings[i] for i in group.couplings)]
        own = [units[i] for i in (*group.closures, *(len(tree.closures) + i for i in group.couplings))]
        self.names = tuple(end.name for end in ends)
        self._owners = np.array([i for i, values in enumerate(own) for _ in values])
        self._units = np.concatenate(own)
        self.coordinates = coordinates[list(group.columns)]
        closures = [tree.closures[i] for i in group.closures]
        rods = [(i, basic.value) for i, closure in enumerate(closures) for basic in closure.constraints if basic.kind == "ss"]
        self._rods = [(self._owners.tolist().index(i), length / size) for i, length in rods]
        place = {j: c for c, j in enumerate(group.columns)}
        found = [joints[j] for j in group.columns if j in joints]
        self._joints = [(joint, at_q, [place[j] for j in range(at.start, at.stop)]) for joint, at_q, at in found]

    def apart(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what is between the ends, scaled to numbers, and its Jacobian."""
        values, J = (np.asarray(x, dtype=float) for x in constraint_jacobian(self.tree, q, apart, self.group))
        return values / self._units, J / self._units[:, None]

    def gap(self, values: np.ndarray) -> Gap:
        """Return how far each loop is apart; a distance is compared as such, not by its square."""
        values, sizes = values.copy(), np.zeros(len(self.names))
        for at, length in self._rods:
            values[at] = np.sqrt(length**2 + 2.0 * length * values[at]) - length
        np.maximum.at(sizes, self._owners, np.abs(values))
        return Gap(self.names, sizes)

    def integrate(self, q: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Return the position reached from q by moving the group's coordinates."""
        moved = q.copy()
        for joint, at_q, at in self._joints:
            moved[at_q] = joint.integrate(q[at_q], step[at])
        return moved

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """Return the step that leads the group's coordinates from q0 to q1."""
        step = np.zeros(len(self.coordinates))
        for joint, at_q, at in self._joints:
            step[at] = joint.difference(q0[at_q], q1[at_q])
        return step


def _groups(m: Model) -> list[_Loops]:
    tree, size = m.tree(), mechanism_size(m)
    units: list[list[float]] = [[] for _ in (*tree.closures, *tree.couplings)]
    for i, unit in loop_owners(m, size):
        units[i].append(unit)
    coordinates = coordinate_units(m)
    joints = {at.start: (link.joint, at_q, at) for link, at_q, at in m._slices() if at.start < at.stop}
    return [_Loops(tree, group, size, units, coordinates, joints) for group in joined(tree)]


def mechanism_size(m: Model) -> float:
    """Return the size of a mechanism [m]: the longest offset of a joint, of an end of a loop or of a centre of mass."""
    lengths = [np.abs(x).max() for link in m.links for x in (link.at.p, link.outer.p, np.array(link.body.com))]
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
        lengths = [_unit(basic, size) for basic in closure.constraints if basic.kind in _LENGTHS for _ in range(basic.rows)]
        directions = len(apart(closure, origin)[0]) - len(lengths)  # they follow the lengths
        found += [(i, unit) for unit in (*lengths, *[1.0] * directions)]
    return found + [(len(m.tree().closures) + i, 1.0) for i in range(len(m.tree().couplings))]


def loop_measures(m: Model) -> tuple[str, ...]:
    """Return in what each loop and coupling is apart: "m", "rad", "m or rad" where it has both; nothing where a coordinate has no unit."""
    units = dict(zip(m.q_names, m.q_units, strict=True))
    found = [{"m" if basic.kind in _LENGTHS else "rad" for basic in closure.constraints} for closure in m.tree().closures]
    found += [{units[name] for name, _ in coupling.coefficients} for coupling in m.couplings]
    return tuple("" if "" in measures else " or ".join(sorted(measures)) for measures in found)


def gap(m: Model, q: Any) -> Gap:
    """Return how far each loop and coupling of a model is from being closed at q; those that share joints are together."""
    found = [loops.gap(loops.apart(np.asarray(q, dtype=float))[0]) for loops in _groups(m)]
    return Gap(tuple(name for part in found for name in part.names), np.concatenate([np.zeros(0), *(part.sizes for part in found)]))


def assemble(m: Model, guess: Any, fixed: Mapping[str, float]) -> np.ndarray:
    """Return a configuration that closes all loops, near a guess and with coordinates that are fixed, or say why there is none.

    The loops are closed at the guess, and the fixed coordinates led from there to their values: so the result is on the branch of
    `assemble(m, guess, {})` as far as that reaches. A guess that is nearly closed with the fixed values in it is taken as it is. Loops
    that share no joints are closed one after the other.
    """
    q = m.neutral() if guess is None else array("assemble: guess", guess, (m.nq,)).copy()
    if guess is None and m.has_loops and m._instant:
        q = _led(m, q)
    places = {name: _plain(m, name) for name in fixed}
    values = {name: number(f"assemble: {name}", value) for name, value in fixed.items()}
    for loops in _groups(m) if m.has_loops else ():
        own = [name for name, (_, velocity) in places.items() if velocity in loops.group.columns]
        q = _assemble(m, loops, q, guess is None, {places[name]: (name, values[name]) for name in own})
    for name, (position, _) in places.items():
        q[position] = values[name]
    return q


def _assemble(m: Model, loops: _Loops, given: np.ndarray, neutral: bool, fixed: dict[tuple[int, int], tuple[str, float]]) -> np.ndarray:
    """Return a configuration that closes a group of loops, with coordinates fixed at values: their places, names and values."""
    everything = np.ones(len(loops.coordinates), dtype=bool)
    start, free = given.copy(), everything.copy()
    places = [(position, loops.group.columns.index(velocity)) for position, velocity in fixed]
    for (position, velocity), (_, value) in zip(places, fixed.values(), strict=True):
        start[position] = value
        free[velocity] = False
    stopped = ""
    if fixed and (neutral or np.abs(loops.apart(start)[0]).max() > _NEARLY):
        q, values = _search(loops, given, everything)
        if _closed(values):
            q = _walk(loops, q, start, places, free)
            if all(q[position] == start[position] for position, _ in places):
                return q
            reached = ", ".join(f"{name} = {q[position]:.4g}" for (name, _), (position, _) in zip(fixed.values(), places, strict=True))
            stopped = f"led there from the guess it stops at {reached}, and "
    q, values = _search(loops, start, free)
    if _closed(values):
        return q
    found = loops.gap(values)
    held = f" at t = {m._instant:g} s" if m.driven_names else ""
    held += f" with {', '.join(f'{name} = {value:g}' for name, value in fixed.values())}" if fixed else ""
    raise ModelError(
        f"model '{m.name}' does not close{held}: {stopped}the best of {STARTS + 1} starts leaves loop '{found.worst}' apart by "
        f"{found.sizes.max() * loops.size:.3g} m or {found.sizes.max():.3g} rad; check lengths and places, fix fewer coordinates, "
        "or give a guess that is nearer"
    )


def _led(m: Model, neutral: np.ndarray) -> np.ndarray:
    """Return positions that close the loops, led along with what is driven from t = 0 to the time of a model, by whole turns less.

    Where that does not lead there, it is as far as it came; where the loops do not close at t = 0, the neutral positions.
    """
    first, last = m._given(0.0), m._given(m._instant)
    joints = [joint for _, joint in m._driven()]
    moves = [_shortest(joint, a.q.astype(float), b.q.astype(float)) for joint, a, b in zip(joints, first, last, strict=True)]
    sizes = np.where(np.array(m.driven_units) == "m/s", mechanism_size(m), 1.0)
    whole = max(np.abs(np.concatenate(moves) / sizes).max(), 1e-300)
    reached, longest, q = 0.0, _LONGEST / whole, neutral

    def moved(share: float) -> Model:
        places = [joint.integrate(a.q.astype(float), share * move) for joint, a, move in zip(joints, first, moves, strict=True)]
        return standing(m, [Given(place, move, 0.0 * move) for place, move in zip(places, moves, strict=True)])

    with suppress(ModelError):  # they do not close at t = 0, or what is driven leads to where they open
        q = assemble(m.at(0.0), None, {})
        for _ in range(_PACES):
            if reached == 1.0 or longest * whole < _SHORTEST:
                break
            share = min(longest, 1.0 - reached)
            step = share * project_velocity(moved(reached), q, np.zeros(m.nv), {})
            ahead, good = m.integrate(q, step), True
            then = ahead
            for loops in _groups(moved(min(1.0, reached + share))):
                then, values = _settle(loops, then, np.ones(len(loops.coordinates), dtype=bool), damping=0.0)
                good = good and _closed(values)
                good = good and np.abs(loops.difference(ahead, then) / loops.coordinates).max() <= _ASIDE * share * whole
            if good:
                q, reached, longest = then, 1.0 if share == 1.0 - reached else reached + share, min(_LONGEST / whole, 2.0 * longest)
            else:
                longest = 0.5 * share
    return q


def _shortest(joint: Joint, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
    """Return the rates that lead from q0 to q1 in a unit of time, without whole turns."""
    rates = joint.difference(q0, q1)
    if joint.nq != joint.nv or isinstance(joint, Helical):
        return rates
    return rates - np.where(np.array(joint.v_units) == "rad/s", 2.0 * np.pi * np.round(rates / (2.0 * np.pi)), 0.0)


def moved_along(m: Model, q: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return a configuration that closes the loops, reached from one that does by a step along what the loops allow."""
    for loops in _groups(m):
        _, s, Vt = np.linalg.svd(loops.apart(q)[1])
        along = Vt[np.count_nonzero(s > RANK * s.max(initial=0.0)) :]
        own = along.T @ (along @ step[list(loops.group.columns)])
        q, values = _settle(loops, loops.integrate(q, own), np.ones(len(own), dtype=bool))
        if not _closed(values):
            q, _ = _search(loops, q, np.ones(len(own), dtype=bool))
    return q


def followed(m: Model, q: np.ndarray, held: Collection[str]) -> np.ndarray:
    """Return a configuration that closes the loops, reached from one nearby by moving all but the velocity coordinates that are held."""
    for loops in _groups(m):
        free = np.array([m.v_names[column] not in held for column in loops.group.columns])
        q, values = _settle(loops, q, free)
        if not _closed(values):
            found = loops.gap(values)
            raise ModelError(f"model '{m.name}': loop '{found.worst}' does not close where {', '.join(held)} stay; move them back")
    return q


def _closed(values: np.ndarray) -> bool:
    return bool(np.abs(values).max() <= TOLERANCE)


def _search(loops: _Loops, start: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a configuration that closes the loops, or the best found, from a start or others around it; and what is between the ends."""
    rng = np.random.default_rng(0)
    best, smallest = start, np.array([np.inf])
    for attempt in range(STARTS + 1):
        spread = 0.0 if attempt == 0 else 0.05 * 1.3**attempt
        q, values = _settle(loops, loops.integrate(start, spread * free * rng.normal(size=len(free))), free)
        if np.abs(values).max() < np.abs(smallest).max():
            best, smallest = q, values
        if _closed(values):
            break
    return best, smallest


def _walk(loops: _Loops, q: np.ndarray, goal: np.ndarray, places: list[tuple[int, int]], free: np.ndarray) -> np.ndarray:
    """Return how far a mechanism comes when coordinates are led straight to a goal from q, which closes the loops.

    A step goes along the tangent and is brought back onto the loops; it is halved where that takes more than a small part of it.
    """
    longest = _LONGEST
    positions, velocities = map(list, zip(*places, strict=True))
    for _ in range(_PACES):
        step = np.zeros(len(free))
        step[velocities] = goal[positions] - q[positions]
        if not step.any() or longest < _SHORTEST:
            break
        J = loops.apart(q)[1]
        step[free] = np.linalg.lstsq(J[:, free], -J @ step, rcond=RANK)[0]
        whole = np.abs(step / loops.coordinates).max()
        share = min(1.0, longest / whole)
        ahead = loops.integrate(q, share * step)
        if share == 1.0:
            ahead[positions] = goal[positions]
        then, values = _settle(loops, ahead, free, damping=0.0)
        aside = np.abs(loops.difference(ahead, then) / loops.coordinates).max()
        if _closed(values) and aside <= _ASIDE * share * whole:
            q, longest = then, min(_LONGEST, 2.0 * longest)
        else:
            longest = 0.5 * share * whole
    return q


def _settle(loops: _Loops, q: np.ndarray, free: np.ndarray, damping: float = 1e-3) -> tuple[np.ndarray, np.ndarray]:
    """Return where damped Gauss-Newton steps on the manifold lead, and what is between the ends there."""
    values, J = loops.apart(q)
    for _ in range(STEPS):
        if np.abs(values).max() <= 1e-3 * TOLERANCE:
            break
        U, s, Vt = np.linalg.svd(J[:, free], full_matrices=False)
        share = np.where(s > RANK * s.max(initial=0.0), s / (s**2 + damping * s.max(initial=0.0) ** 2 + 1e-300), 0.0)
        step = np.zeros(len(free))
        step[free] = -Vt.T @ (share * (U.T @ values))
        step *= min(1.0, 1.0 / max(np.abs(step).max(), 1e-300))  # no coordinate further than 1 at a time
        moved = loops.integrate(q, step)
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
    units = np.array(loop_units(m))
    J = np.asarray(constraint_jacobian(m.tree(), q)[1], dtype=float) / units[:, None]
    phi_t = np.zeros(len(units))
    if m.driven_names:
        phi_t = np.asarray(constraint_motion(m.tree(), q, np.zeros(m.nv))[0], dtype=float) / units
    mass = np.asarray(mass_matrix(m.tree(), q), dtype=float)[np.ix_(free, free)]
    factor = np.linalg.inv(np.linalg.cholesky(mass)).T  # v = factor @ x turns kinetic energy into |x|^2 / 2
    change = np.linalg.lstsq(J[:, free] @ factor, -J @ v - phi_t, rcond=RANK)[0]
    result = v.copy()
    result[free] += factor @ change
    left, size = J @ result + phi_t, np.abs(J) @ (np.abs(v) + np.abs(result)) + np.abs(phi_t)
    if np.abs(left).max() > 1e-9 * max(size.max(), 1e-300):
        rates = ", ".join([f"{name} = {v[m.v_names.index(name)]:g}" for name in fixed] + [f"{name} driven" for name in m.driven_names])
        raise ModelError(f"model '{m.name}': no velocity keeps the loops closed with {rates}; fix fewer rates, or drive fewer joints")
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
