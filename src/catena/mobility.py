"""What the loops of a mechanism leave it: degrees of freedom, redundant constraints, independent coordinates, loops that couple."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from catena.assembly import RANK, assemble, loop_units, project_velocity
from catena.formulations.constraints import base, branch, constraint_jacobian
from catena.formulations.mass.composite_body import mass_matrix
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
    rank, order = pivots(J)
    names = m.v_names
    dependent = set(order[:rank].tolist())
    rows = [sum(3 if basic.kind == "s" else 1 for basic in closure.constraints) for closure in tree.closures]
    loops = tuple(
        Loop(closure.name, _name(tree, base(tree, closure)), tuple(tree.names[k] for k in _around(tree, closure)), count)
        for closure, count in zip(tree.closures, rows, strict=True)
    )
    return Mobility(
        np.asarray(q, dtype=float),
        m.nv,
        len(J),
        len(J) - rank,
        tuple(name for i, name in enumerate(names) if i not in dependent),
        tuple(name for i, name in enumerate(names) if i in dependent),
        loops,
        _groups(tree),
    )


def scaled_jacobian(m: Model, q: Any) -> np.ndarray:
    """Return the Jacobian of the constraints without units: rows measured by the mechanism's size, columns by kinetic energy.

    Its longest row has length 1. A row that is nothing but rounding stays as short as it is.
    """
    tree = m.tree()
    J = np.asarray(constraint_jacobian(tree, np.asarray(q, dtype=float))[1], dtype=float)
    mass = np.asarray(mass_matrix(tree, np.asarray(q, dtype=float)), dtype=float)
    J = J / np.array(loop_units(m))[:, None] / np.sqrt(np.diag(mass))
    return J / max(np.linalg.norm(J, axis=1).max(initial=0.0), 1e-300)


def pivots(J: np.ndarray) -> tuple[int, np.ndarray]:
    """Return the rank of a matrix, and its columns in the order in which they are the most independent of those before."""
    from scipy.linalg import qr

    R, order = qr(J, mode="r", pivoting=True)  # type: ignore[misc]
    sizes = np.abs(np.diag(R))
    return int(np.count_nonzero(sizes > RANK * max(sizes.max(initial=0.0), 1e-300))), order


def independent_rows(m: Model, q: Any) -> tuple[int, ...]:
    """Return the numbers of constraints that are independent at q, as many as there are; in the order of the Jacobian's rows."""
    rank, order = pivots(scaled_jacobian(m, q).T)
    return tuple(sorted(order[:rank].tolist()))


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


def _groups(tree: Any) -> tuple[tuple[str, ...], ...]:
    """Return the names of loops and couplings that share joints, group by group."""
    owners = [(closure.name, set(_around(tree, closure))) for closure in tree.closures]
    owner = {i: k for k, at in enumerate(tree.v_slices) for i in range(at.start, at.stop)}
    owners += [(coupling.name, {owner[i] for i, _ in coupling.coefficients}) for coupling in tree.couplings]
    groups: list[tuple[list[str], set[int]]] = []
    for name, bodies in owners:
        names, joined = [name], set(bodies)
        for group in [group for group in groups if group[1] & joined]:
            groups.remove(group)
            names, joined = [*group[0], *names], joined | group[1]
        groups.append((names, joined))
    return tuple(tuple(names) for names, _ in groups)
