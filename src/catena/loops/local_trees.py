"""The part of a tree that the loops of a group go through, numbered by itself: groups that are alike have equal parts.

What constraints depend on is the motion of bodies relative to the base of their loop. So bodies that carry a group have no place in its
part of the tree: they are the ground there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from catena.formulations.loops.closure_kinematics import loop_bodies
from catena.formulations.loops.coupled_loops import CoupledLoops, coupled_loops
from catena.model.tree import Tree
from catena.spatial import Placement, Rigid, Screw


class Part(NamedTuple):
    """A group of loops, the bodies on their way, and the places of their coordinates in q; those in v are the columns of the group."""

    group: CoupledLoops
    bodies: tuple[int, ...]
    positions: tuple[int, ...]


def parts(tree: Tree) -> Iterator[Part]:
    """Yield the parts of a tree that groups of loops go through."""
    owner = [k for k, at in enumerate(tree.v_slices) for _ in range(at.start, at.stop)]
    for group in coupled_loops(tree):
        on_the_way = {k for i in group.closures for k in loop_bodies(tree, tree.closures[i])}
        bodies = tuple(sorted(on_the_way.union(owner[j] for j in group.columns)))
        yield Part(group, bodies, tuple(i for k in bodies for i in range(tree.q_slices[k].start, tree.q_slices[k].stop)))


def local_tree(tree: Tree, part: Part) -> Tree:
    """Return a part of a tree as a tree of its own, whose closures and couplings are those of the group."""
    group, bodies, positions = part
    number = {k: n for n, k in enumerate(bodies)}
    row, column = ({i: n for n, i in enumerate(places)} for places in (positions, group.columns))
    q_slices, v_slices = (_following([at[k] for k in bodies]) for at in (tree.q_slices, tree.v_slices))
    closures, couplings = (tree.closures[i] for i in group.closures), (tree.couplings[i] for i in group.couplings)
    return replace(
        tree,
        names=tuple(tree.names[k] for k in bodies),
        parent=tuple(number.get(tree.parent[k], -1) for k in bodies),
        before=tuple(tree.before[k] for k in bodies),
        motion=tuple(tree.motion[k] for k in bodies),
        M=tuple(tree.M[k] for k in bodies),
        q_slices=q_slices,
        v_slices=v_slices,
        nq=len(positions),
        nv=len(group.columns),
        closures=tuple(closure._replace(a=number.get(closure.a, -1), b=number.get(closure.b, -1)) for closure in closures),
        couplings=tuple(
            coupling._replace(
                coefficients=tuple((column[j], c) for j, c in coupling.coefficients),
                positions=tuple((row[i], c) for i, c in coupling.positions),
            )
            for coupling in couplings
        ),
    )


#: What is its own signature, and what others are made of.
_PLAIN = frozenset((bool, int, float, np.float64, str, type(None)))
_ATTRIBUTES = {Rigid: ("R", "p"), Screw: ("axis", "c", "s", "d"), Placement: ("factors",)}


def signature(tree: Tree) -> Any:
    """Return what the constraints of a local tree are computed from, without names: trees with equal ones have the same constraints."""
    sizes = [at.stop - at.start for slices in (tree.q_slices, tree.v_slices) for at in slices]
    closures = [tuple(closure)[1:] for closure in tree.closures]
    couplings = [tuple(coupling)[1:] for coupling in tree.couplings]
    return signed((tree.parent, tree.before, tree.motion, tuple(sizes), tuple(closures), tuple(couplings)))


def signed(x: Any) -> Any:
    """Return a value that can be compared and looked up, and is equal for equal numbers, arrays and what is made of these.

    Functions, and whatever else is not known, are equal to themselves only.

    >>> signed((np.eye(2), 1.0)) == signed((np.eye(2), 1.0)), signed(np.eye(2)) == signed(np.ones((2, 2)))
    (True, False)
    """
    kind = type(x)
    if kind in _PLAIN:
        return x
    if isinstance(x, np.ndarray):
        return (x.shape, x.tobytes()) if x.dtype == float else (x.shape, *map(signed, x.ravel().tolist()))
    if isinstance(x, tuple):
        return (kind, *map(signed, x))
    parts = _ATTRIBUTES[kind] if kind in _ATTRIBUTES else tuple(field.name for field in fields(x)) if is_dataclass(kind) else ()
    return (kind, *(signed(getattr(x, name)) for name in parts)) if parts else (kind, id(x))


def _following(slices: list[slice]) -> tuple[slice, ...]:
    """Return slices of the same sizes, one after the other."""
    return tuple(slice(*ends) for ends in pairwise(accumulate((at.stop - at.start for at in slices), initial=0)))
