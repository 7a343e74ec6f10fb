"""What the loops of a mechanism leave it: degrees of freedom, redundant constraints, independent coordinates, loops that couple."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from catena.assembly import RANK, assemble, coordinate_units, loop_units, project_velocity
from catena.formulations.constraints import base, branch, constraint_jacobian
from catena.formulations.partition import Group, Partition
from catena.model import Model


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
    what loops and couplings ask for, of which `redundant` ask for nothing new. `coupled` has the groups of loops that share joints.
    """

    q: np.ndarray
    coordinates: int
    constraints: int
    redundant: int
    independent: tuple[str, ...]
    dependent: tuple[str, ...]
    loops: tuple[Loop, ...]
    coupled: tuple[tuple[str, ...], ...]

    @property
    def freedom(self) -> int:
        """Number of degrees of freedom."""
        return len(self.independent)


def mobility(m: Model, q: Any = None) -> Mobility:
    """Return what the loops leave a model, at q, or at a configuration that is none of the special ones.

    >>> m = ct.Model("slider-crank")
    >>> m.add("crank", ct.rod(0.2, mass=1.0), ct.Revolute("y"))
    >>> m.add("rod", ct.rod(0.5, mass=1.0), ct.Revolute("y"), parent="crank", at=(0.2, 0, 0))
    >>> m.add("piston", ct.point_mass(1.0), ct.Prismatic("x"))
    >>> m.close("pin", ct.Revolute("y"), "rod", "piston", at_a=(0.5, 0, 0))
    >>> found = mobility(m)
    >>> found.freedom, found.constraints, found.redundant
    (1, 5, 3)
    """
    if q is None:
        q = _general(m)
    tree = m.tree()
    J = scaled_jacobian(m, q)
    rank, _ = pivots(J)
    names = m.v_names
    dependent = _dependent(J, rank)
    loops = tuple(
        Loop(closure.name, _name(tree, base(tree, closure)), tuple(tree.names[k] for k in _around(tree, closure)), _rows(closure))
        for closure in tree.closures
    )
    return Mobility(
        np.asarray(q, dtype=float),
        m.nv,
        len(J),
        len(J) - rank,
        tuple(name for i, name in enumerate(names) if i not in dependent),
        tuple(name for i, name in enumerate(names) if i in dependent),
        loops,
        tuple(names for names, _, _ in _groups(tree)),
    )


def scaled_jacobian(m: Model, q: Any) -> np.ndarray:
    """Return the Jacobian of the constraints without units: rows and columns measured by the mechanism's size, where they are lengths.

    Its longest row has length 1. A row that is nothing but rounding stays as short as it is.
    """
    J = np.asarray(constraint_jacobian(m.tree(), np.asarray(q, dtype=float))[1], dtype=float)
    J = J * coordinate_units(m) / np.array(loop_units(m))[:, None]
    return J / max(np.linalg.norm(J, axis=1).max(initial=0.0), 1e-300)


def pivots(J: np.ndarray, size: float = 0.0) -> tuple[int, np.ndarray]:
    """Return the rank of a matrix, and its columns in the order in which they are the most independent of those before.

    What is small against the matrix, or against `size`, counts as zero.
    """
    from scipy.linalg import qr

    R, order = qr(J, mode="r", pivoting=True)  # type: ignore[misc]
    sizes = np.abs(np.diag(R))
    return int(np.count_nonzero(sizes > RANK * max(sizes.max(initial=0.0), size, 1e-300))), order


def independent_rows(m: Model, q: Any) -> tuple[int, ...]:
    """Return the numbers of constraints that are independent at q, as many as there are; in the order of the Jacobian's rows."""
    rank, order = pivots(scaled_jacobian(m, q).T)
    return tuple(sorted(order[:rank].tolist()))


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
    J = scaled_jacobian(m, q)
    return Partition(tuple(_group(J, rows, columns, never, last) for _, rows, columns in _groups(m.tree())))


def _group(J: np.ndarray, rows: list[int], columns: list[int], never: Collection[int], last: Collection[int]) -> Group:
    left, size = J.copy(), float(np.abs(J[np.ix_(rows, columns)]).max(initial=0.0))
    chosen, dependent = [], []
    classes = [[c for c in columns if c not in never and c not in last], [c for c in columns if c not in never and c in last]]
    for candidates in classes:
        for _ in range(pivots(left[np.ix_(rows, candidates)], size)[0]):
            pairs = [(i, c) for i in rows if i not in chosen for c in candidates if c not in dependent]
            row, column = max(pairs, key=lambda at: abs(left[at]))
            chosen.append(row)
            dependent.append(column)
            others = [i for i in rows if i not in chosen]
            left[others] -= np.outer(left[others, column] / left[row, column], left[row])
        left[chosen] = 0.0
    redundant = tuple(i for i in rows if i not in chosen)
    return Group(tuple(chosen), redundant, tuple(dependent), tuple(c for c in columns if c not in dependent))


def _general(m: Model) -> np.ndarray:
    """Return a configuration that closes the loops, a little away from the nearest one, which may be a special one."""
    q = assemble(m, None, {})
    rng = np.random.default_rng(0)
    best, most = q, -1
    for _ in range(3):
        v = project_velocity(m, q, rng.normal(size=m.nv), {})
        q = assemble(m, m.integrate(q, 0.1 * v / max(1.0, np.abs(v).max())), {})
        rank = pivots(scaled_jacobian(m, q))[0]
        if rank > most:
            best, most = q, rank
    return best


def _name(tree: Any, k: int) -> str:
    return "ground" if k < 0 else tree.names[k]


def _around(tree: Any, closure: Any) -> list[int]:
    """Return the bodies on the way around a loop, from one end to the other, without the base."""
    stop = base(tree, closure)
    return [*reversed(branch(tree, closure.a, stop)), *branch(tree, closure.b, stop)]


def _rows(closure: Any) -> int:
    return sum(basic.rows for basic in closure.constraints)


def _groups(tree: Any) -> list[tuple[tuple[str, ...], list[int], list[int]]]:
    """Return, for each group of loops and couplings that share joints, their names, rows of the Jacobian and velocity coordinates."""
    owner = {i: k for k, at in enumerate(tree.v_slices) for i in range(at.start, at.stop)}
    parts = [(closure.name, _rows(closure), set(_around(tree, closure))) for closure in tree.closures]
    parts += [(coupling.name, 1, {owner[i] for i, _ in coupling.coefficients}) for coupling in tree.couplings]
    groups: list[tuple[list[str], list[int], set[int]]] = []
    at = 0
    for name, count, bodies in parts:
        names, rows, joined = [name], list(range(at, at + count)), set(bodies)
        at += count
        for group in [group for group in groups if group[2] & joined]:
            groups.remove(group)
            names, rows, joined = [*group[0], *names], [*group[1], *rows], joined | group[2]
        groups.append((names, rows, joined))
    return [
        (tuple(names), rows, [i for k in sorted(joined) for i in range(tree.v_slices[k].start, tree.v_slices[k].stop)])
        for names, rows, joined in groups
    ]
