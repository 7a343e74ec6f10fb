"""Groups of loops and couplings that share joints: each group can be solved by itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from catena.formulations.loops.basic_constraints import row_count
from catena.formulations.loops.closure_kinematics import loop_bodies, velocity_coordinates


class CoupledLoops(NamedTuple):
    """Loops and couplings that share joints, by number; with the rows of their constraints, and their velocity coordinates."""

    closures: tuple[int, ...]
    couplings: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]


def all_loops(tree):
    """Return all loops and couplings as one group, with all velocity coordinates."""
    rows = sum(map(row_count, tree.closures)) + len(tree.couplings)
    counts = len(tree.closures), len(tree.couplings), rows, tree.nv
    return CoupledLoops(*(tuple(range(count)) for count in counts))


def coupled_loops(tree):
    """Return the groups of loops and couplings that share joints: no constraint of one has a coordinate of another."""
    owner = {j: k for k, at in enumerate(tree.v_slices) for j in range(at.start, at.stop)}
    moving = set(owner.values())
    around = [set(loop_bodies(tree, closure)) & moving for closure in tree.closures]
    around += [{owner[i] for i, _ in coupling.coefficients} for coupling in tree.couplings]
    first = np.cumsum([0, *map(row_count, tree.closures), *[1] * len(tree.couplings)]).tolist()
    groups, loops = [], len(tree.closures)
    for members in _connected(around):
        groups.append(
            CoupledLoops(
                tuple(i for i in members if i < loops),
                tuple(i - loops for i in members if i >= loops),
                tuple(row for i in members for row in range(first[i], first[i + 1])),
                tuple(velocity_coordinates(tree, sorted(set().union(*(around[i] for i in members))))),
            )
        )
    return tuple(groups)


def _connected(sets):
    """Return the numbers of sets in groups, such that sets of different groups share no element."""
    root = list(range(len(sets)))

    def find(i):
        while root[i] != i:
            root[i] = i = root[root[i]]
        return i

    first_with = {}
    for i, elements in enumerate(sets):
        for element in elements:
            one, other = find(i), find(first_with.setdefault(element, i))
            root[max(one, other)] = min(one, other)
    groups = {}
    for i in range(len(sets)):
        groups.setdefault(find(i), []).append(i)
    return list(groups.values())
