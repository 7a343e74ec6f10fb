"""Groups of loops that share joints, in floats: the closure residual and its Jacobian, and a search for where it vanishes.

All is without units: residuals and coordinates are measured as `scaling` says. Configurations come in batches, one row each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from catena.formulations.loops.basic_constraints import closure_residual
from catena.formulations.loops.closure_kinematics import loop_bodies
from catena.formulations.loops.constraints import constraint_jacobian, constraint_motion
from catena.formulations.loops.coupled_loops import CoupledLoops, coupled_loops
from catena.graph import Trace
from catena.loops.scaling import coordinate_units, loop_owners, loop_sizes, loop_units
from catena.model import Mechanism
from catena.model.spanning_tree import Link
from catena.model.tree import Tree
from catena.native import Kernel, compile_graph
from catena.tolerances import ABOVE_ROUNDING, CLOSED, CLOSURE, CONSISTENT, LOOSE, MINIMUM, NEARLY, PROGRESS, RANK, ROUNDING, SEARCH

#: Starts that are tried beside the one given, and steps of each. A start is given up where so many steps make no progress.
STARTS, STEPS, PATIENCE = 20, 200, 20

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
        return RANK + CLOSURE * min(LOOSE, float(self.sizes.max(initial=0.0)))


def loop_groups(m: Mechanism) -> tuple[LoopGroup, ...]:
    """Return the groups of loops of a model; where joints are driven, of a model at a time."""


    def make() -> tuple[LoopGroup, ...]:
        scales = _Scales.of(m)
        return tuple(LoopGroup(m, group, scales) for group in coupled_loops(m.tree()))

    return m.once("loop groups", (), make)


class _Scales(NamedTuple):
    """What groups of loops take of the whole mechanism: units of entries by loop, of rows and of columns; sizes; joints by column."""

    owned: dict[int, list[float]]
    rows: np.ndarray
    columns: np.ndarray
    sizes: Sequence[float]
    joints: dict[int, tuple[Link, slice, slice]]

    @staticmethod
    def of(m: Mechanism) -> _Scales:
        owned: dict[int, list[float]] = {}
        for i, unit in loop_owners(m, None):
            owned.setdefault(i, []).append(unit)
        joints = {j: (link, at_q, at_v) for link, at_q, at_v in m.slices() for j in range(at_v.start, at_v.stop)}
        return _Scales(owned, np.array(loop_units(m)), coordinate_units(m), loop_sizes(m), joints)


class LoopGroup:
    """Loops and couplings that share joints: their residual, and its Jacobian on the group's own coordinates."""

    def __init__(self, m: Mechanism, group: CoupledLoops, scales: _Scales) -> None:
        tree = m.tree()
        self._tree, self.group, self._nq, self._model = tree, group, m.nq, m
        numbers = (*group.closures, *(len(tree.closures) + i for i in group.couplings))
        own = [scales.owned.get(number, []) for number in numbers]
        self.names = tuple(end.name for end in (*(tree.closures[i] for i in group.closures), *(tree.couplings[i] for i in group.couplings)))
        self._owners = np.array([i for i, units in enumerate(own) for _ in units])
        self._units = np.concatenate(own)
        self._row_units = scales.rows[list(group.rows)]
        self.columns, self.everything = list(group.columns), np.ones(len(group.columns), dtype=bool)
        self.coordinates, sizes = scales.columns[self.columns], scales.sizes
        #: The size of each loop [m]; couplings have none.
        self.sizes = tuple(sizes[i] if i < len(sizes) else 0.0 for i in numbers)
        rods = [(n, basic.value) for n, i in enumerate(group.closures) for basic in tree.closures[i].constraints if basic.kind == "ss"]
        self._rods = [(self._owners.tolist().index(n), length / self.sizes[n]) for n, length in rods]
        self._place(m, scales)
        self._floor = np.array([ROUNDING * _reach(tree, i) / size if size else 0.0 for i, size in zip(numbers, self.sizes, strict=True)])
        #: What rounding may leave of entries of the Jacobian.
        self.rounding = 100.0 * float(self._floor.max(initial=0.0))

    def _place(self, m: Mechanism, scales: _Scales) -> None:
        """Find where the coordinates are, plain numbers apart from others, and their limits."""
        place = {j: c for c, j in enumerate(self.columns)}
        self._turning, plain = [], []
        self.lower, self.upper = np.full(len(place), -np.inf), np.full(len(place), np.inf)
        lengths: list[int] = []
        joints = {at_v.start: (link, at_q, at_v) for link, at_q, at_v in (scales.joints[j] for j in self.columns)}
        for _, (link, at_q, at_v) in sorted(joints.items()):
            own = [place[j] for j in range(at_v.start, at_v.stop) if j in place]
            lengths += [i for i in range(at_q.start, at_q.stop) if m.q_units[i] == "m"]
            if link.joint.nq == link.joint.nv:
                plain += list(zip(range(at_q.start, at_q.stop), own, strict=True))
                self.lower[own], self.upper[own] = link.joint.lower, link.joint.upper
            else:
                self._turning.append((link.joint, at_q, own))
        self._positions, self._plain = (np.array([pair[i] for pair in plain], dtype=int) for i in (0, 1))
        self._lengths = np.array(lengths, dtype=int)
        self.limited = bool(np.isfinite([self.lower, self.upper]).any())

    # residuals

    def residual(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the residual at a configuration (nq,), or at each of many (N, nq), by compiled code, and its Jacobian.

        Of a mechanism that varies some of its numbers, these may follow the positions: each of the many is then of its own geometry.
        """
        if q.ndim > 1 and self._tree.driven:  # every time is a model of its own, for which no code is made
            return tuple(map(np.array, zip(*map(self.residual, q), strict=True)))  # type: ignore[return-value]
        both = self._kernel(*self._split(q)) if q.ndim > 1 else constraint_jacobian(self._tree, q, closure_residual, self.group)
        values, J = (np.asarray(x, dtype=float) for x in both)
        return values / self._units, J * self.coordinates / self._units[:, None]

    @cached_property
    def _kernel(self) -> Kernel:
        trace = Trace("closure residual")
        q, given = trace.input("q", (self._nq,)), self._model.given_inputs(trace)
        tree = (self._model.tree_with(given) if given else self._tree).marked(trace.mark, trace.solve)
        values, J = constraint_jacobian(tree, q, closure_residual, self.group)
        return compile_graph(trace.graph(values=values, jacobian=J))

    def _split(self, q: np.ndarray) -> list[np.ndarray]:
        """Return positions and the numbers of a geometry, the model's own where there are none."""
        known = [self._model.parameters()[path].value for path in self._model.varied]
        if q.shape[1] == self._nq:
            return [q, *known]
        parts = np.split(q, np.cumsum([self._nq, *(value.size for value in known)])[:-1], axis=1)
        return [parts[0], *(part.reshape(len(q), *value.shape) for part, value in zip(parts[1:], known, strict=True))]

    def closed(self, q: np.ndarray, values: np.ndarray, within: float = 0.0) -> np.ndarray:
        """Return which configurations close the loops, from their residual: as far as can be computed, or within a tolerance."""
        far = np.abs(q[:, self._lengths]).max(axis=1, initial=0.0)
        sizes = np.array([size or np.inf for size in self.sizes])
        least = np.maximum(max(CLOSED, within), self._floor + ROUNDING * far[:, None] / sizes)
        return (np.abs(values) <= least[:, self._owners]).all(axis=1)

    def residuals(self, values: np.ndarray) -> LoopResiduals:
        """Return the closure residual of each loop; a distance is compared as such, not by its square."""
        values, sizes = values.copy(), np.zeros(len(self.names))
        for at, length in self._rods:
            values[at] = np.sqrt(np.maximum(length**2 + 2.0 * length * values[at], 0.0)) - length
        np.maximum.at(sizes, self._owners, np.abs(values))
        return LoopResiduals(self.names, sizes)

    def regular(self, q: np.ndarray) -> bool:
        """Return whether the constraints that depend on each other at a configuration (nq,) that closes the loops do so around it.

        Then the accelerations of any motion there can meet them all; a generic one tells.
        """
        J = np.asarray(constraint_jacobian(self._tree, q, group=self.group)[1], dtype=float) * self.coordinates / self._row_units[:, None]
        left, sizes, right = np.linalg.svd(J)
        tolerance = self.residuals(self.residual(q)[0]).tolerance
        rank = int(np.count_nonzero(sizes > tolerance * sizes.max(initial=1.0)))
        if rank == len(J):
            return True
        along = right[rank:]
        v = along.T @ (along @ np.random.default_rng(2).normal(size=len(self.columns)))
        rate, _ = self._motion(q, np.zeros(len(v)))
        rest = -np.linalg.lstsq(J, rate, rcond=tolerance)[0]  # what driven joints ask for
        bent = self._motion(q, rest + v)[1] - self._motion(q, rest)[1]
        across = left[:, rank:].T @ bent
        return bool(np.abs(across).max(initial=0.0) <= (CONSISTENT + tolerance) * (np.abs(bent).max(initial=0.0) + 1e-3))

    def _motion(self, q: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the rates of the constraints at q, and the right-hand sides of their accelerations, for rates of the coordinates."""
        v = np.zeros(self._tree.nv)
        v[self.columns] = step * self.coordinates
        return tuple(np.asarray(x, dtype=float) / self._row_units for x in constraint_motion(self._tree, q, v, self.group))

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
            then, J_then = self.residual(moved)
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
                if (as_given and not i + first) or self.regular(q[i]):
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
