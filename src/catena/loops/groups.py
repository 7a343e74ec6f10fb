"""Groups of loops that share joints, in floats: the closure residual and its Jacobian, and a search for where it vanishes.

All is without units: residuals and coordinates are measured as `scaling` says. Configurations come in batches, one row each.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from catena.formulations.loops.basic_constraints import row_count
from catena.formulations.loops.closure_kinematics import loop_bodies, velocity_coordinates
from catena.loops.constraint_functions import ConstraintFunctions
from catena.loops.group_scales import GroupJoint, GroupScales, MechanismScales
from catena.loops.local_trees import Part, local_tree, parts, signature, signed
from catena.model import Mechanism
from catena.model.tree import Tree
from catena.tolerances import ABOVE_ROUNDING, CLOSED, CLOSURE, CONSISTENT, LOOSE, MINIMUM, NEARLY, PROGRESS, RANK, ROUNDING, SEARCH

#: Starts that are tried beside the one given, and steps of each. A start is given up where so many steps make no progress.
STARTS, STEPS, PATIENCE = 20, 200, 20

#: Steps of one start that are computed without machine code.
_UNCOMPILED = 40

#: From this start on, coordinates with two limits are drawn uniformly between them.
_UNIFORM_FROM = 8


class LoopResiduals(NamedTuple):
    """The closure residual of each loop and coupling: lengths relative to the loop's size, directions as numbers."""

    names: tuple[str, ...]
    sizes: np.ndarray

    @property
    def worst(self) -> str:
        """Name of the loop with the largest residual."""
        return self.names[int(np.argmax(self.sizes))]

    @property
    def tolerance(self) -> float:
        """The part of the largest pivot up to which others are zero, at positions that may not quite close the loops."""
        return float(rank_tolerance(self.sizes.max(initial=0.0)))


def rank_tolerance(residual: Any) -> Any:
    """Return the part of the largest pivot up to which others are zero, at positions with a closure residual."""
    return RANK + CLOSURE * np.minimum(LOOSE, residual)


def loop_groups(m: Mechanism) -> tuple[LoopGroup, ...]:
    """Return the groups of loops of a model; where joints are driven, of a model at a time."""
    return _groups(m)[0]


def alike_groups(m: Mechanism) -> tuple[AlikeGroups, ...]:
    """Return the groups of loops of a model, those that are alike together."""
    return _groups(m)[1]


class AlikeGroups(NamedTuple):
    """Groups of loops whose constraints are the same functions of their own coordinates, with the same units and limits.

    `loops` is the first of them. Their numbers, and the places of their positions, velocity coordinates, constraints and loops have a row
    for each group; the loops and couplings of all groups are counted one group after the other.
    """

    loops: LoopGroup
    numbers: tuple[int, ...]
    positions: np.ndarray
    columns: np.ndarray
    rows: np.ndarray
    members: np.ndarray

    @staticmethod
    def of(groups: Sequence[LoopGroup], numbers: Sequence[int], first: Sequence[int]) -> AlikeGroups:
        own = [groups[n] for n in numbers]
        places = [(loops.positions, loops.columns, loops.group.rows) for loops in own]
        positions, columns, rows = (np.array(place, dtype=int) for place in zip(*places, strict=True))
        members = np.array(first)[list(numbers)][:, None] + np.arange(len(own[0].names))
        return AlikeGroups(own[0], tuple(numbers), positions, columns, rows, members)

    def different(self, *states: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Return the states of the groups, arrays with a row for each, without repetitions; and which of them each group has."""
        if len(self.numbers) == 1:
            return list(states), np.zeros(1, dtype=int)
        rows, which = np.unique(np.concatenate(states, axis=1), axis=0, return_inverse=True)
        return np.split(rows, np.cumsum([state.shape[1] for state in states])[:-1], axis=1), which.ravel()


def _groups(m: Mechanism) -> tuple[tuple[LoopGroup, ...], tuple[AlikeGroups, ...]]:
    def make() -> tuple[tuple[LoopGroup, ...], tuple[AlikeGroups, ...]]:
        scales, tree = MechanismScales.of(m), m.tree()
        found: list[LoopGroup] = []
        alike: dict[Any, list[int]] = {}
        for n, part in enumerate(parts(tree)):
            local, measured = local_tree(tree, part), scales.part(tree, part)
            key = n if m.varied else (signature(local), signed(measured))  # numbers that are varied are those of one group
            first = alike.setdefault(key, [])
            found.append(found[first[0]].at(part, local) if first else LoopGroup(m, part, local, measured))
            first.append(n)
        before = np.cumsum([0, *(len(loops.names) for loops in found)]).tolist()
        return tuple(found), tuple(AlikeGroups.of(found, numbers, before) for numbers in alike.values())

    return m.once("loop groups", (), make)


class LoopGroup:
    """Loops and couplings that share joints: their residual, and its Jacobian on the group's own coordinates.

    Positions are those of the group, a part of the mechanism's: `positions` has their places, `columns` those of the velocity coordinates.
    """

    def __init__(self, m: Mechanism, part: Part, tree: Tree, measured: GroupScales) -> None:
        self._functions = ConstraintFunctions(m, part, tree)
        self._name(part, tree)
        self._owners = np.array([i for i, units in enumerate(measured.owned) for _ in units])
        self._units = np.concatenate(measured.owned)
        self._row_units, self.coordinates = measured.rows, measured.columns
        self.everything = np.ones(len(self.columns), dtype=bool)
        #: The size of each loop [m]; couplings have none.
        self.sizes = measured.sizes
        rods = [(n, basic.value) for n, closure in enumerate(tree.closures) for basic in closure.constraints if basic.kind == "ss"]
        self._rods = [(self._owners.tolist().index(n), length / self.sizes[n]) for n, length in rods]
        self._place(measured.joints)
        self._floor = np.array([ROUNDING * _reach(tree, i) / size if size else 0.0 for i, size in enumerate(self.sizes)])
        #: What rounding may leave of entries of the Jacobian.
        self.rounding = 100.0 * float(self._floor.max(initial=0.0))

    def _name(self, part: Part, tree: Tree) -> None:
        self.group, self.positions, self.columns = part.group, list(part.positions), list(part.group.columns)
        self.names = tuple(end.name for end in (*tree.closures, *tree.couplings))

    def at(self, part: Part, tree: Tree) -> LoopGroup:
        """Return a group that is alike in another part of the tree; what is traced or compiled for one of them serves all."""
        other = copy(self)
        other._name(part, tree)
        return other

    def _place(self, joints: Sequence[GroupJoint]) -> None:
        """Find where the coordinates are, plain numbers apart from others, and their limits."""
        self._turning, plain, lengths, at_q, at_v = [], [], [], 0, 0
        self.lower, self.upper = np.full(len(self.columns), -np.inf), np.full(len(self.columns), np.inf)
        for joint in joints:
            own_q, own_v = range(at_q, at_q + joint.nq), range(at_v, at_v + joint.nv)
            lengths += [i for i, length in zip(own_q, joint.lengths, strict=True) if length]
            if joint.turning is None:
                plain += zip(own_q, own_v, strict=True)
                self.lower[own_v], self.upper[own_v] = joint.lower, joint.upper
            else:
                self._turning.append((joint.turning, slice(own_q.start, own_q.stop), list(own_v)))
            at_q, at_v = own_q.stop, own_v.stop
        self._positions, self._plain = (np.array([pair[i] for pair in plain], dtype=int) for i in (0, 1))
        self._lengths = np.array(lengths, dtype=int)
        self.limited = bool(np.isfinite([self.lower, self.upper]).any())

    # residuals

    def residual(self, q: np.ndarray, often: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the residual at positions (nq,), or at each of many (N, nq), and its Jacobian; by machine code where that is `often`.

        Of a mechanism that varies some of its numbers, these may follow the positions: each of the many is then of its own geometry.
        """
        if q.ndim == 1:
            values, J = self.residual_at(q[None])
            return values[0], J[0]
        return self._measured(*self._functions.residual(q, often))

    def residual_at(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the residual and its Jacobian at positions (N, nq) that are looked at once."""
        return self._measured(*self._functions.residual_at(q))

    def _measured(self, values: np.ndarray, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return values / self._units, J * self.coordinates / self._units[:, None]

    def jacobian(self, q: np.ndarray) -> np.ndarray:
        """Return the Jacobian of the constraints at positions (N, nq)."""
        return self._functions.jacobian_at(q) * self.coordinates / self._row_units[:, None]

    def constraint_rows(self, q: np.ndarray) -> list[list[dict[int, float]]]:
        """Return the rows of the Jacobian at each of positions (N, nq), by the columns of the loop that each belongs to.

        Those of couplings are not measured: they are coefficients times what the coordinates are measured by.
        """
        tree = self._functions.tree
        around = [velocity_coordinates(tree, loop_bodies(tree, closure)) for closure in tree.closures for _ in range(row_count(closure))]
        coupled = [{j: float(c * self.coordinates[j]) for j, c in coupling.coefficients} for coupling in tree.couplings]
        closing = [[dict(zip(at, row[at].tolist(), strict=True)) for at, row in zip(around, J, strict=False)] for J in self.jacobian(q)]
        return [[*rows, *coupled] for rows in closing]

    def closed(self, q: np.ndarray, values: np.ndarray, within: float = 0.0) -> np.ndarray:
        """Return which configurations close the loops, from their residual: as far as can be computed, or within a tolerance."""
        far = np.abs(q[:, self._lengths]).max(axis=1, initial=0.0)
        sizes = np.array([size or np.inf for size in self.sizes])
        least = np.maximum(max(CLOSED, within), self._floor + ROUNDING * far[:, None] / sizes)
        return (np.abs(values) <= least[:, self._owners]).all(axis=1)

    def residuals(self, values: np.ndarray) -> np.ndarray:
        """Return the closure residual of each loop from the values (N, …); a distance is compared as such, not by its square."""
        values, sizes = values.copy(), np.zeros((len(values), len(self.names)))
        for at, length in self._rods:
            values[:, at] = np.sqrt(np.maximum(length**2 + 2.0 * length * values[:, at], 0.0)) - length
        np.maximum.at(sizes.T, self._owners, np.abs(values).T)
        return sizes

    def residuals_at(self, q: np.ndarray) -> LoopResiduals:
        """Return the closure residual of each loop at positions (nq,)."""
        return LoopResiduals(self.names, self.residuals(self.residual(q)[0][None])[0])

    def regular(self, q: np.ndarray) -> np.ndarray:
        """Return whether the constraints that depend on each other at positions (N, nq) that close the loops do so around them.

        Then the accelerations of any motion there can meet them all; a generic one tells.
        """
        J = self.jacobian(q)
        left, sizes, right = np.linalg.svd(J)
        tolerance = rank_tolerance(self.residuals(self.residual_at(q)[0]).max(axis=1, initial=0.0))
        rank = np.count_nonzero(sizes > (tolerance * sizes.max(axis=1, initial=1.0))[:, None], axis=1)
        found = rank == J.shape[1]
        at = np.flatnonzero(~found)
        if not len(at):
            return found
        q, left, right, tolerance, rank = q[at], left[at], right[at], tolerance[at], rank[at][:, None]
        v = null_part(right, rank, np.random.default_rng(2).normal(size=(1, J.shape[2])))
        bent = self._bent(q, v, J[at], tolerance)
        across = np.where(np.arange(J.shape[1]) >= rank, (bent[:, None] @ left)[:, 0], 0.0)
        least = (CONSISTENT + tolerance) * (np.abs(bent).max(axis=1, initial=0.0) + 1e-3)
        found[at] = np.abs(across).max(axis=1, initial=0.0) <= least
        return found

    def _bent(self, q: np.ndarray, v: np.ndarray, J: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
        """Return what rates of the coordinates add to the right-hand sides of the accelerations of the constraints."""
        if not self._functions.tree.driven:  # else rates are added to those that driven joints ask for
            return self._motion(q, v)[1]
        rate, _ = self._motion(q, np.zeros_like(v))
        rest = -np.array([np.linalg.lstsq(*one[:2], rcond=one[2])[0] for one in zip(J, rate, tolerance, strict=True)])
        return self._motion(q, rest + v)[1] - self._motion(q, rest)[1]

    def _motion(self, q: np.ndarray, step: np.ndarray) -> list[np.ndarray]:
        """Return the rates of the constraints at q, and the right-hand sides of their accelerations, for rates of the coordinates."""
        return [x / self._row_units for x in self._functions.motion_at(q, step * self.coordinates)]

    # moving

    def integrate(self, q: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Return the positions reached from q by steps of the group's coordinates, in their units."""
        moved, step = q.copy(), step * self.coordinates
        moved[:, self._positions] += step[:, self._plain]
        for joint, at_q, at in self._turning:
            moved[:, at_q] = joint.integrate(q[:, at_q], step[:, at])
        return moved

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """Return the steps that lead the group's coordinates from q0 to q1, in their units."""
        step = np.zeros((len(q0), len(self.columns)))
        step[:, self._plain] = q1[:, self._positions] - q0[:, self._positions]
        for joint, at_q, at in self._turning:
            step[:, at] = joint.difference(q0[:, at_q], q1[:, at_q])
        return step / self.coordinates

    def within_limits(self, q: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Return positions with the coordinates that are free moved to their limits where they are beyond them."""
        moved, plain = q.copy(), self._plain
        inside = np.clip(q[:, self._positions], self.lower[plain], self.upper[plain])
        moved[:, self._positions] = np.where(free[plain], inside, q[:, self._positions])
        return moved

    def coupled(self, q: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return the nearest configuration to q (nq,) at which the couplings hold, and whether they do."""
        rows = np.flatnonzero(self._owners >= len(self.group.closures))
        values, J = self.residual(q)
        if len(rows):
            q = self.integrate(q[None], np.linalg.lstsq(J[rows], -values[rows], rcond=SEARCH)[0][None])[0]
            values, _ = self.residual(q)
        return q, bool(np.abs(values[rows]).max(initial=0.0) <= CLOSED)

    # searching

    def settle(self, q: np.ndarray, free: np.ndarray, damping: float = 1e-3, bounded: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return where damped Gauss-Newton steps lead from configurations (N, nq), within limits if `bounded`, and the residual there."""
        q = np.array(q, dtype=float)
        values, J = self.residual(q)
        damping_of, active = np.full(len(q), damping), np.isfinite(values).all(axis=1) & np.isfinite(J).all(axis=(1, 2))
        before = np.full(len(q), np.inf)
        for count in range(STEPS):
            active &= np.abs(values).max(axis=1) > 1e-3 * CLOSED
            if count % PATIENCE == 0:
                size = np.linalg.norm(values, axis=1)
                active &= size <= (1.0 - PROGRESS) * before
                before = size
            at = np.flatnonzero(active)
            if not len(at):
                break
            step = self._step(q[at], values[at], J[at], damping_of[at], free, bounded)
            moved = self.integrate(q[at], step)
            if bounded:
                moved = self.within_limits(moved, free)
            then, J_then = self.residual(moved, often=count >= _UNCOMPILED)
            better = (then**2).sum(axis=1) < (values[at] ** 2).sum(axis=1)
            up, on = at[~better], at[better]
            hopeless = damping_of[up] > 1e8
            done = (damping_of[up] == 0.0) & (np.abs(values[up]).max(axis=1) <= CLOSED)
            active[up] = ~(hopeless | done)
            damping_of[up] = np.maximum(10.0 * damping_of[up], 1e-12)
            now = np.abs(values[on] - then[better]).max(axis=1, initial=0.0) <= 1e-15
            q[on], values[on], J[on] = moved[better], then[better], J_then[better]
            damping_of[on] = np.where(damping_of[on] > 1e-14, 0.1 * damping_of[on], 0.0)
            active[on] = ~(now & (damping_of[on] == 0.0)) & (bounded | ~_at_minimum(values[on], J[on] * free))
        return q, values

    def _step(self, q: np.ndarray, values: np.ndarray, J: np.ndarray, damping: np.ndarray, free: np.ndarray, bounded: bool) -> np.ndarray:
        """Return damped Gauss-Newton steps, none longer than 1 along a coordinate; coordinates at limits do not go beyond them."""
        moving, step = np.broadcast_to(free, (len(q), len(free))).copy(), np.zeros((len(q), len(free)))
        for _ in range(3 if bounded else 1):
            U, s, Vt = np.linalg.svd(J * moving[:, None], full_matrices=False)
            most = np.maximum(s.max(axis=1, initial=0.0), 1e-300)[:, None]
            part = s / most
            share = np.where(part > SEARCH, part / (part**2 + damping[:, None] + 1e-300), 0.0) / most
            step = -((share[:, None] * (values[:, None] @ U)) @ Vt)[:, 0]
            if not bounded:
                break
            plain, here = self._plain, q[:, self._positions]
            down, up = (here <= self.lower[plain]) & (step[:, plain] < 0.0), (here >= self.upper[plain]) & (step[:, plain] > 0.0)
            stopped = np.zeros_like(moving)
            stopped[:, plain] = moving[:, plain] & (down | up)
            if not stopped.any():
                break
            moving &= ~stopped
        step = np.where(moving, step, 0.0)
        return step * np.minimum(1.0, 1.0 / np.maximum(np.abs(step).max(axis=1, initial=0.0), 1e-300))[:, None]

    def search(
        self, start: np.ndarray, free: np.ndarray, bounded: bool = False, starts: int = STARTS
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """Return a configuration (nq,) that closes the loops, or the best found; the residual there; and whether they are closed.

        The search begins at a start and at others around it, further and further away, and prefers regular configurations: many starts
        lead to double roots, such as a workspace boundary or a universal joint in gimbal lock. A start that nearly closes the loops is
        meant as it is. With `bounded` the search keeps to the limits of the coordinates.
        """
        rng = np.random.default_rng(0)
        best, smallest, found = start, np.full(len(self._units), np.inf), False
        as_given = np.abs(self.residual(start)[0]).max(initial=0.0) <= NEARLY
        for first, last in ((0, 1), (1, 5), (5, starts + 1)):
            begun = np.array([self._start(start, free, number, rng, bounded) for number in range(first, min(last, starts + 1))])
            if not len(begun):
                break
            q, values = self.settle(begun, free, bounded=bounded)
            good = self.closed(q, values)
            for i in np.flatnonzero(good):
                if (as_given and not i + first) or self.regular(q[i : i + 1])[0]:
                    return q[i], values[i], True
            worst = np.where(good, -1.0, np.abs(values).max(axis=1))
            i = int(np.argmin(np.where(np.isfinite(worst), worst, np.inf)))  # of several that are closed the first
            if not found and worst[i] < np.abs(smallest).max():
                best, smallest, found = q[i], values[i], bool(good[i])
        return best, smallest, found

    def _start(self, start: np.ndarray, free: np.ndarray, number: int, rng: np.random.Generator, bounded: bool) -> np.ndarray:
        """Return a start of a number: the first is the one given."""
        spread = 0.0 if number == 0 else 0.05 * 1.3**number
        step = spread * free * rng.normal(size=len(free))
        q = self.integrate(start[None], step[None])
        if bounded:
            q = self.within_limits(q, free)
            between = np.isfinite(self.lower[self._plain]) & np.isfinite(self.upper[self._plain]) & free[self._plain]
            if number >= _UNIFORM_FROM and between.any():
                plain = self._plain[between]
                q[:, self._positions[between]] = rng.uniform(self.lower[plain], self.upper[plain])
        return q[0]


def null_part(Vt: np.ndarray, rank: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the parts of vectors (N, n) that are in null spaces: those of right singular vectors (N, n, n) from a rank (N, 1) on."""
    free = np.arange(Vt.shape[2]) >= rank
    return (np.where(free, (Vt @ x[:, :, None])[:, :, 0], 0.0)[:, None] @ Vt)[:, 0]


def _at_minimum(values: np.ndarray, J: np.ndarray) -> np.ndarray:
    """Return where the residual has a minimum that is not zero."""
    gradient = np.abs(values[:, None] @ J).max(axis=(1, 2), initial=0.0)
    size = np.linalg.norm(values, axis=1)
    return (gradient <= MINIMUM * size * np.abs(J).max(axis=(1, 2), initial=0.0)) & (size > ABOVE_ROUNDING)


def _reach(tree: Tree, number: int) -> float:
    """Return the distances [m] from which the residual of a loop is computed, in sum; 0 for a coupling."""
    if number >= len(tree.closures):
        return 0.0
    closure = tree.closures[number]
    places: list[Any] = [factor.rigid() for k in loop_bodies(tree, closure) for factor in tree.before[k].factors]
    return sum(float(np.abs(place.p).max()) for place in (*places, closure.at_a, closure.at_b))
