"""What the loops of a mechanism leave it: degrees of freedom, redundant constraints, independent coordinates, loops that couple."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catena.assembly import RANK, assemble, coordinate_units, gap, loop_units, mechanism_size, moved_along
from catena.formulations.constraints import Joined, base, branch, constraint_jacobian, joined, row_count
from catena.formulations.partition import Group, Partition
from catena.kept import kept
from catena.model import Model
from catena.model.releasing import anywhere

#: Length of the steps of a walk through the configurations [rad or m], and the longest time that one takes where joints are driven [s].
_PACE, _LONGEST = 0.5, 0.7

#: A walk ends where a loop is further apart than this, relative to the mechanism's size or in radians.
_OPEN = 1e-9


@dataclass(frozen=True)
class Loop:
    """A loop: its name, the body it stands on, and the bodies on the way around it."""

    name: str
    base: str
    bodies: tuple[str, ...]
    constraints: int


@dataclass(frozen=True)
class Mobility:
    """What the constraints leave a mechanism, at a configuration that closes its loops.

    `coordinates` are the velocity coordinates of the tree, of which `independent` may be given and `dependent` follow. `constraints` are
    what loops and couplings ask for, of which `redundant` ask for nothing new. `coupled` has the groups of loops that share joints. Where
    joints are driven, all this is at the time `t` [s].
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

    @property
    def freedom(self) -> int:
        """Number of degrees of freedom."""
        return len(self.independent)


def mobility(m: Model, q: Any = None, t: float | None = None) -> Mobility:
    """Return what the loops leave a model, at q, or at a configuration that is none of the special ones; at a time where joints are driven.

    >>> m = ct.Model("slider-crank")
    >>> m.add("crank", ct.rod(0.2, mass=1.0), ct.Revolute("y"))
    >>> m.add("rod", ct.rod(0.5, mass=1.0), ct.Revolute("y"), parent="crank", at=(0.2, 0, 0))
    >>> m.add("piston", ct.point_mass(1.0), ct.Prismatic("x"))
    >>> m.close("pin", ct.Revolute("y"), "rod", "piston", at_a=(0.5, 0, 0))
    >>> found = mobility(m)
    >>> found.freedom, found.constraints, found.redundant
    (1, 5, 3)
    """
    if q is None and t is None:
        found = kept(m, "mobility", (), lambda: _mobility(*_general(m)))
        return replace(found, q=found.q.copy())
    still, _ = m._timed(t, {})
    if q is None:
        return _mobility(*_general(still))
    return _mobility(still, np.asarray(q, dtype=float), scaled_blocks(still, q))


def _mobility(m: Model, q: np.ndarray, blocks: list[np.ndarray]) -> Mobility:
    """Return what the loops leave a model, at a time, at q, where these are the Jacobians of its groups of loops."""
    tree = m.tree()
    groups = joined(tree)
    ranks = [pivots(J, 1.0)[0] for J in blocks]
    dependent = {group.columns[c] for group, J, rank in zip(groups, blocks, ranks, strict=True) for c in _dependent(J, rank)}
    names, number = m.v_names, sum(len(J) for J in blocks)
    loops = tuple(
        Loop(closure.name, _name(tree, base(tree, closure)), tuple(tree.names[k] for k in _around(tree, closure)), row_count(closure))
        for closure in tree.closures
    )
    return Mobility(
        q,
        m.nv,
        number,
        number - sum(ranks),
        tuple(name for i, name in enumerate(names) if i not in dependent),
        tuple(name for i, name in enumerate(names) if i in dependent),
        loops,
        tuple((*(tree.closures[i].name for i in group.closures), *(tree.couplings[i].name for i in group.couplings)) for group in groups),
        m._instant,
    )


def usual(m: Model) -> tuple[Model, np.ndarray]:
    """Return a configuration that is none of the special ones, after the model at the time at which it is one."""
    if not m.has_loops:
        return m, m.neutral()
    found = mobility(m)
    return m.at(found.t), found.q


def configurations(m: Model, steps: int) -> Iterator[tuple[Model, np.ndarray]]:
    """Yield configurations that a walk along the motions of a mechanism comes to, always the same; the first is that of `mobility`.

    Each comes after the model at its time, for where joints are driven the walk goes on in time.
    """
    rng = np.random.default_rng(0)
    still, q = usual(m)
    step = rng.normal(size=m.nv)
    yield still, q
    for _ in range(steps):
        step = still.project_velocity(q, step + 0.3 * rng.normal(size=m.nv))
        step = step / max(np.abs(step).max(), 1e-300)
        still = _later(still)
        q = moved_along(still, q, _PACE * step)
        if m.driven_names and not gap(still, q).sizes.max(initial=0.0) <= _OPEN:
            return
        yield still, q


def _later(m: Model) -> Model:
    """Return a model at a time after its own, by which what is driven has moved a little; without such joints the model."""
    if not m.driven_names:
        return m
    units = np.where(np.array(m.driven_units) == "m/s", mechanism_size(m), 1.0)

    def moved(span: float) -> float:
        first, then = ([given.q.astype(float) for given in m._given(t)] for t in (m._instant, m._instant + span))
        return max(np.abs(joint.difference(a, b)).max() for (_, joint), a, b in zip(m._driven(), first, then, strict=True))

    span = _LONGEST
    while max(moved(span), moved(0.5 * span)) > _PACE * units.min() and span > 1e-9:
        span *= 0.5
    return m.at(m._instant + span)


def scaled_blocks(m: Model, q: Any) -> list[np.ndarray]:
    """Return the Jacobian of the constraints of each group of loops on its coordinates, without units.

    Rows and columns are measured by the mechanism's size, where they are lengths. The longest row of all has length 1. A row that is
    nothing but rounding stays as short as it is.
    """
    tree, q = m.tree(), np.asarray(q, dtype=float)
    rows, columns = np.array(loop_units(m)), coordinate_units(m)
    blocks = []
    for group in joined(tree):
        J = np.asarray(constraint_jacobian(tree, q, group=group)[1], dtype=float)
        blocks.append(J * columns[list(group.columns)] / rows[list(group.rows)][:, None])
    longest = max((np.linalg.norm(J, axis=1).max(initial=0.0) for J in blocks), default=0.0)
    return [J / max(longest, 1e-300) for J in blocks]


def pivots(J: np.ndarray, size: float = 0.0) -> tuple[int, np.ndarray]:
    """Return the rank of a matrix, and its columns in the order in which they are the most independent of those before.

    What is small against the matrix, or against `size`, counts as zero.
    """
    from scipy.linalg import qr

    R, order = qr(J, mode="r", pivoting=True)  # type: ignore[misc]
    sizes = np.abs(np.diag(R))
    return int(np.count_nonzero(sizes > RANK * max(sizes.max(initial=0.0), size, 1e-300))), order


def rank(m: Model, q: Any) -> int:
    """Return how many constraints are independent at q."""
    return _rank(scaled_blocks(m, q))


def _rank(blocks: list[np.ndarray]) -> int:
    return sum(pivots(J, 1.0)[0] for J in blocks)


def independent_rows(m: Model, q: Any) -> tuple[int, ...]:
    """Return the numbers of constraints that are independent at q, as many as there are; in the order of the Jacobian's rows."""
    found: list[int] = []
    for group, J in zip(joined(m.tree()), scaled_blocks(m, q), strict=True):
        number, order = pivots(J.T, 1.0)
        found += [group.rows[i] for i in order[:number]]
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


def partition(m: Model, q: Any, never: Collection[int] = (), last: Collection[int] = ()) -> Partition:
    """Return which velocity coordinates of each group of loops follow from the others at q, and from which constraints.

    Coordinates of `never` do not depend on others; those of `last` do where all the rest depends already. Pivots are sought in rows and
    columns, so that elimination in the order found needs no exchange at q and nearby.
    """
    blocks = zip(joined(m.tree()), scaled_blocks(m, q), strict=True)
    return Partition(tuple(_group(group, J, never, last) for group, J in blocks))


def _group(loops: Joined, J: np.ndarray, never: Collection[int], last: Collection[int]) -> Group:
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
    return Group(
        loops,
        tuple(loops.rows[i] for i in chosen),
        tuple(loops.rows[i] for i in rows if i not in chosen),
        tuple(loops.columns[c] for c in dependent),
        tuple(j for c, j in enumerate(loops.columns) if c not in dependent),
    )


def _general(m: Model) -> tuple[Model, np.ndarray, list[np.ndarray]]:
    """Return a configuration that closes the loops, a little away from the nearest one, which may be a special one; and its Jacobians.

    It comes after the model at the time of the configuration; where joints are driven, times after 0 are looked at too, if none is given.

    No configuration has a larger rank than one drawn at random, where the loops are open: one with this rank is general, and none other
    has to be looked at.
    """
    still, _ = m._timed(None, {})
    q = assemble(still, None, {})
    rng, other = np.random.default_rng(0), np.random.default_rng(1)
    best, most, bound = (still, q, []), -1, rank(anywhere(m, other), m.random(other))
    for _ in range(3):
        q = moved_along(still, q, 0.1 * rng.normal(size=m.nv))
        blocks = scaled_blocks(still, q)
        found = _rank(blocks)
        if found > most:
            best, most = (still, q, blocks), found
        if most >= bound:
            break
        still = _later(still) if still is not m else still
    return best


def _name(tree: Any, k: int) -> str:
    return "ground" if k < 0 else tree.names[k]


def _around(tree: Any, closure: Any) -> list[int]:
    """Return the bodies on the way around a loop, from one end to the other, without the base."""
    stop = base(tree, closure)
    return [*reversed(branch(tree, closure.a, stop)), *branch(tree, closure.b, stop)]
