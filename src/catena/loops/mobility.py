"""Mobility of mechanisms with loops: degrees of freedom, redundant constraints, independent coordinates, groups of coupled loops."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ModelError
from catena.formulations.loops.basic_constraints import row_count
from catena.formulations.loops.closure_kinematics import base, loop_bodies
from catena.formulations.loops.coupled_loops import CoupledLoops
from catena.formulations.loops.partitions import CoordinatePartition, GroupPartition
from catena.loops.assembly import assemble, closing, loop_residuals, moved_along, project_velocity
from catena.loops.groups import AlikeGroups, alike_groups, loop_groups
from catena.loops.scaling import coordinate_units, mechanism_size
from catena.model import Mechanism
from catena.tables import Table, facts
from catena.tolerances import ABOVE_ROUNDING, GENERIC, LOOSE, RANK

#: Length of the steps of a walk through the configurations [rad or m], and the longest time that one takes where joints are driven [s].
_PACE, _LONGEST = 0.5, 0.7

#: Configurations among which a generic one is chosen, and starts from which other branches are sought.
_TRIED, _BRANCHES = 6, 4


@dataclass(frozen=True)
class Loop:
    """A loop: its name, the body it stands on, and the bodies on the way around it."""

    name: str
    base: str
    bodies: tuple[str, ...]
    constraints: int


@dataclass(frozen=True, repr=False)
class Mobility:
    """The mobility of a mechanism at a configuration that closes its loops.

    `coordinates` counts the velocity coordinates of the tree: the `dependent` ones follow from the `independent` ones. `constraints` counts
    those of loops and couplings, of which `redundant` depend on the others. `coupled` has the groups of loops that share joints. Where
    joints are driven, all this is at the time `t` [s].

    At a `singular` configuration constraints depend on each other that do not around it: motions of the null space go on in some directions
    only, and `freedom` is the dimension of that space. `freedoms` are the degrees of freedom on the branches that a search came to, which
    may differ: a linkage of equal lengths can fold onto itself and move otherwise.
    """

    q: np.ndarray
    coordinates: int
    constraints: int
    redundant: int
    independent: tuple[str, ...]
    dependent: tuple[str, ...]
    loops: tuple[Loop, ...]
    coupled: tuple[tuple[str, ...], ...]
    t: float = 0.0
    singular: bool = False
    freedoms: tuple[int, ...] = ()

    @property
    def freedom(self) -> int:
        """Number of degrees of freedom."""
        return len(self.independent)

    def __repr__(self) -> str:
        degrees = f"{self.freedom} degree{'' if self.freedom == 1 else 's'} of freedom"
        constraints = f"{self.constraints} constraints, {self.redundant} of them redundant"
        return f"<Mobility: {degrees}; {self.coordinates} coordinates, {constraints}{'; singular' if self.singular else ''}>"

    def __str__(self) -> str:
        return "\n\n".join(table.text() for table in self._tables())

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self._tables())

    def _tables(self) -> Iterator[Table]:
        branches = ", ".join(map(str, self.freedoms)) if len({*self.freedoms, self.freedom}) > 1 else ""
        yield facts("", {
            "degrees of freedom": f"{self.freedom}{', at a singular configuration' if self.singular else ''}",
            "on other branches": branches, "coordinates": str(self.coordinates),
            "constraints": f"{self.constraints}, of which {self.redundant} are redundant" if self.constraints else "",
            "independent": ", ".join(self.independent), "dependent": ", ".join(self.dependent),
        })  # fmt: skip
        if self.loops:
            rows = [(loop.name, loop.base, ", ".join(loop.bodies), str(loop.constraints)) for loop in self.loops]
            yield Table("", ("loop", "base", "bodies", ">constraints"), rows)


def mobility(m: Mechanism, q: Any = None, t: float | None = None) -> Mobility:
    """Return the mobility of a model at q, or at a generic configuration; at a time where joints are driven.

    >>> m = ct.Model("slider-crank")
    >>> m.add("crank", ct.rod(0.2, mass=1.0), ct.Revolute("y"))
    >>> m.add("rod", ct.rod(0.5, mass=1.0), ct.Revolute("y"), parent="crank", at=(0.2, 0, 0))
    >>> m.add("piston", ct.point_mass(1.0), ct.Prismatic("x"))
    >>> m.close("pin", ct.Revolute("y"), "rod", "piston", at_a=(0.5, 0, 0))
    >>> found = mobility(m)
    >>> found.freedom, found.constraints, found.redundant
    (1, 5, 3)
    >>> print(found)
    degrees of freedom  1
    coordinates         3
    constraints         5, of which 3 are redundant
    independent         crank
    dependent           rod, piston
    <BLANKLINE>
    loop  base    bodies              constraints
    pin   ground  rod, crank, piston            5
    """

    def make() -> Mobility:
        found = _mobility(*generic(m))
        return replace(found, freedoms=tuple(sorted({found.freedom, *(m.nv - rank(*other) for other in branches(m))})))

    if q is None and t is None:
        found = m.once("mobility", (), make)
        return replace(found, q=found.q.copy())
    now = m.timed(t)
    return _mobility(*_generic(now)) if q is None else _mobility(now, closing(now, "mobility: q", q))


def _mobility(m: Mechanism, q: np.ndarray) -> Mobility:
    """Return the mobility of a model, at a time, at q."""
    tree, groups, tolerance = m.tree(), loop_groups(m), loop_residuals(m, q).tolerance
    independent, dependent = 0, set()
    for alike, J, which in _blocks(m, q):
        ranks = [pivots(block, 1.0, tolerance)[0] for block in J]
        independent += sum(ranks[k] for k in which)
        chosen = [sorted(_dependent(block, rank)) for block, rank in zip(J, ranks, strict=True)]
        dependent.update(int(j) for columns, k in zip(alike.columns, which, strict=True) for j in columns[chosen[k]])
    names, number, bodies = m.v_names, sum(len(loops.group.rows) for loops in groups), (*tree.names, "ground")
    loops = tuple(
        Loop(one.name, bodies[base(tree, one)], tuple(bodies[k] for k in loop_bodies(tree, one)), row_count(one)) for one in tree.closures
    )
    return Mobility(
        q,
        m.nv,
        number,
        number - independent,
        tuple(name for i, name in enumerate(names) if i not in dependent),
        tuple(name for i, name in enumerate(names) if i in dependent),
        loops,
        tuple(loops.names for loops in groups),
        m.instant,
        not regular(m, q),
    )


def generic(m: Mechanism) -> tuple[Mechanism, np.ndarray]:
    """Return a generic configuration, after the model at the time at which it is one; it is found once."""
    if not m.has_loops:
        return m, m.neutral()

    def make() -> tuple[float, np.ndarray]:
        now, q = _generic(m)
        return now.instant, q

    t, q = m.once("generic configuration", (), make)
    return m.at(t), q.copy()


def branches(m: Mechanism) -> Iterator[tuple[Mechanism, np.ndarray]]:
    """Yield regular configurations that random starts lead to, perhaps on other branches than the generic one, always the same."""
    if not m.has_loops or m.driven_names:
        return
    for n in range(_BRANCHES):

        def make(seed: int = n) -> np.ndarray | None:
            rng = np.random.default_rng(seed)
            try:
                q = moved_along(m, assemble(m, m.random_nearby(rng), {}), 0.1 * coordinate_units(m) * rng.normal(size=m.nv))
            except ModelError:  # a start that leads nowhere
                return None
            return q if loop_residuals(m, q).sizes.max(initial=0.0) <= LOOSE and regular(m, q) else None

        q = m.once("branches", n, make)
        if q is not None:
            yield m, q.copy()


def configurations(m: Mechanism, steps: int, at: tuple[Mechanism, np.ndarray] | None = None) -> Iterator[tuple[Mechanism, np.ndarray]]:
    """Yield configurations that a walk along the motions of a mechanism comes to, always the same; from one given, or a generic one.

    Each comes after the model at its time, for where joints are driven the walk goes on in time.
    """
    rng, units = np.random.default_rng(0), coordinate_units(m)
    now, q = generic(m) if at is None else at
    step = units * rng.normal(size=m.nv)
    yield now, q
    for _ in range(steps):
        step = project_velocity(now, q, step + 0.3 * units * rng.normal(size=m.nv))
        step = step / max(np.abs(step / units).max(), 1e-300)
        now = _later(now)
        q = moved_along(now, q, _PACE * step)
        if m.driven_names and not loop_residuals(now, q).sizes.max(initial=0.0) <= ABOVE_ROUNDING:
            return
        yield now, q


def _later(m: Mechanism) -> Mechanism:
    """Return a model at a time after its own, by which what is driven has moved a little; without such joints the model."""
    if not m.driven_names:
        return m
    units = np.where(np.array(m.driven_units) == "m/s", mechanism_size(m), 1.0)

    def moved(span: float) -> float:
        first, then = ([given.q.astype(float) for given in m.driven_motion(t)] for t in (m.instant, m.instant + span))
        return max(np.abs(joint.difference(a, b)).max() for (_, joint), a, b in zip(m.driven_joints(), first, then, strict=True))

    span = _LONGEST
    while max(moved(span), moved(0.5 * span)) > _PACE * units.min() and span > 1e-9:
        span *= 0.5
    return m.at(m.instant + span)


def scaled_blocks(m: Mechanism, q: Any) -> list[np.ndarray]:
    """Return the Jacobian of the constraints of each group of loops on its coordinates, without units.

    Rows and columns are measured by the size of their loops, where they are lengths. No row is longer than 1; one that is nothing but
    rounding stays as short as it is.
    """
    found = {n: J[k] for alike, J, which in _blocks(m, q) for n, k in zip(alike.numbers, which, strict=True)}
    return [found[n] for n in sorted(found)]


class _Blocks(NamedTuple):
    """The different Jacobians of groups that are alike, as `scaled_blocks` has them, and which of them each group has."""

    alike: AlikeGroups
    J: np.ndarray
    which: np.ndarray


def _blocks(m: Mechanism, q: Any) -> list[_Blocks]:
    q, found = np.asarray(q, dtype=float), []
    for alike in alike_groups(m):
        (own,), which = alike.different(q[alike.positions])
        found.append(_Blocks(alike, alike.loops.jacobian(own), which))
    longest = max((np.linalg.norm(J, axis=2).max(initial=0.0) for _, J, _ in found), default=0.0)
    return [blocks._replace(J=blocks.J / max(longest, 1.0)) for blocks in found]


def pivots(J: np.ndarray, size: float = 0.0, tolerance: float = RANK) -> tuple[int, np.ndarray]:
    """Return the rank of a matrix, by pivots above the tolerance times it, or `size`; and its columns, the most independent first."""
    from scipy.linalg import qr

    R, order = qr(J, mode="r", pivoting=True)  # type: ignore[misc]
    sizes = np.abs(np.diag(R))
    return int(np.count_nonzero(sizes > tolerance * max(sizes.max(initial=0.0), size, 1e-300))), order


def rank(m: Mechanism, q: Any) -> int:
    """Return how many constraints are independent at q."""
    return conditioning(m, q)[0]


def conditioning(m: Mechanism, q: Any) -> tuple[int, float]:
    """Return how many constraints are independent at q, and how much so: the least singular value that counts, as a part of the largest."""
    tolerance, count, least = loop_residuals(m, q).tolerance, 0, 1.0
    for _, J, which in _blocks(m, q):
        ranks = [pivots(block, 1.0, tolerance)[0] for block in J]
        count += sum(ranks[k] for k in which)
        for sizes, number in zip(np.linalg.svd(J, compute_uv=False), ranks, strict=True):
            least = min(least, float(sizes[number - 1] / sizes[0])) if number else least
    return count, least


def regular(m: Mechanism, q: Any) -> bool:
    """Return whether the constraints that depend on each other at q, which closes the loops, do so around it."""
    q = np.asarray(q, dtype=float)
    return not m.has_loops or all(alike.loops.regular(alike.different(q[alike.positions])[0][0]).all() for alike in alike_groups(m))


def independent_rows(m: Mechanism, q: Any) -> tuple[int, ...]:
    """Return the numbers of constraints that are independent at q, as many as there are; in the order of the Jacobian's rows."""
    found: list[int] = []
    for alike, J, which in _blocks(m, q):
        chosen = [order[:number] for number, order in (pivots(block.T, 1.0) for block in J)]
        found += [int(i) for rows, k in zip(alike.rows, which, strict=True) for i in rows[chosen[k]]]
    return tuple(sorted(found))


def _dependent(J: np.ndarray, rank: int) -> set[int]:
    """Return columns of J that are independent of each other, as many as the rank: the later ones, unless they are hardly so."""
    left, found = J.copy(), []
    size = np.linalg.norm(J, axis=0).max(initial=0.0)
    for threshold in (0.1, 1e-2, 1e-4, 0.0):
        for column in reversed(range(J.shape[1])):
            length = np.linalg.norm(left[:, column])
            if len(found) < rank and column not in found and length > threshold * size:
                found.append(column)
                direction = left[:, column] / length
                left = left - np.outer(direction, direction @ left)
    return set(found)


def partition(m: Mechanism, q: Any, never: Collection[int] = (), last: Collection[int] = ()) -> CoordinatePartition:
    """Return which velocity coordinates of each group of loops follow from the others at q, and from which constraints.

    Coordinates of `never` do not depend on others; those of `last` do where all the rest depends already. Pivots are sought in rows and
    columns, so that elimination in the order found needs no exchange at q and nearby.
    """
    blocks = zip(loop_groups(m), scaled_blocks(m, q), strict=True)
    return CoordinatePartition(tuple(_group(loops.group, J, never, last) for loops, J in blocks))


def _group(loops: CoupledLoops, J: np.ndarray, never: Collection[int], last: Collection[int]) -> GroupPartition:
    left, rows = J.copy(), range(len(J))
    chosen, dependent = [], []
    candidates = [c for c, j in enumerate(loops.columns) if j not in never]
    for some in ([c for c in candidates if loops.columns[c] not in last], [c for c in candidates if loops.columns[c] in last]):
        for _ in range(pivots(left[:, some], 1.0)[0]):
            pairs = [(i, c) for i in rows if i not in chosen for c in some if c not in dependent]
            row, column = max(pairs, key=lambda at: abs(left[at]))
            chosen.append(row)
            dependent.append(column)
            others = [i for i in rows if i not in chosen]
            left[others] -= np.outer(left[others, column] / left[row, column], left[row])
        left[chosen] = 0.0
    return GroupPartition(
        loops,
        tuple(loops.rows[i] for i in chosen),
        tuple(loops.rows[i] for i in rows if i not in chosen),
        tuple(loops.columns[c] for c in dependent),
        tuple(j for c, j in enumerate(loops.columns) if c not in dependent),
    )


def _generic(m: Mechanism) -> tuple[Mechanism, np.ndarray]:
    """Return a configuration that closes the loops, is regular and well conditioned, near the one that they are assembled to.

    It comes after the model at its time; where joints are driven, times after 0 are looked at too, if none is given. From a singular
    configuration several branches lead away: that with the most degrees of freedom is taken, for a mechanism is meant to move.
    """
    start = now = m.timed()
    q = first = assemble(now, None, {})
    rng, (count, _) = np.random.default_rng(0), conditioning(now, q)
    start_regular = regular(now, q)
    found: list[tuple[int, int, float, Mechanism, np.ndarray]] = []
    for n in range(_TRIED):
        q = moved_along(now, q if start_regular else first, 0.1 * (1 + n) * coordinate_units(m) * _alike(now, rng.normal(size=m.nv)))
        if not loop_residuals(now, q).sizes.max(initial=0.0) <= LOOSE:  # the step led nowhere
            now, q = start, first
            continue
        own, least = conditioning(now, q)
        good = regular(now, q)
        if good and start_regular and own <= count and least >= GENERIC:
            return now, q
        start_regular = start_regular and own <= count
        # regular ones first, then those with the most freedom; none is regular where constraints depend on each other everywhere
        found.append((0 if good else 1, own if good else -own, -least, now, q))
        now = _later(now) if now is not m else now
    if not found:
        return start, first
    *_, now, q = min(found, key=lambda one: one[:3])
    return now, q


def _alike(m: Mechanism, step: np.ndarray) -> np.ndarray:
    """Return a step on which groups of loops that are alike move alike: what is generic for one of them is so for all."""
    for alike in alike_groups(m):
        step[alike.columns] = step[alike.columns[0]]
    return step
