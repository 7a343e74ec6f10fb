"""The tree with joints whose matrices are constant in the frame of their body."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from catena.model.motions import Factor, ScrewMotion
from catena.model.tree import Tree
from catena.spatial import Placement


def with_simple_joints(tree: Tree) -> Tree | None:
    """Return the tree with joints of several screws taken apart, a massless body between two of them; None if one has no such screws.

    A universal joint becomes two hinges, a planar one two slides and a hinge; coordinates stay what they are. Loops, springs and forces
    are left out.
    """
    if tree.custom:
        return None
    last: list[int] = []  # of each body, the body of the new tree
    kept: list[bool] = []
    parts: dict[str, list[Any]] = {name: [] for name in ("names", "parent", "before", "motion", "M", "q_slices", "v_slices")}
    for k in range(tree.n):
        parent = -1 if tree.parent[k] < 0 else last[tree.parent[k]]
        motions = _taken_apart(tree.motion[k])
        for i, (motion, at) in enumerate(motions):
            parts["names"].append(tree.names[k] if len(motions) == 1 else f"{tree.names[k]}/{i}")
            parts["parent"].append(parent if i == 0 else len(parts["parent"]) - 1)
            parts["before"].append(tree.before[k] if i == 0 else Placement(()))
            parts["motion"].append(motion)
            kept.append(tree.kept is not None and tree.kept[k])
            parts["M"].append(tree.M[k] if i == len(motions) - 1 else np.zeros((6, 6)))
            for name, whole in (("q_slices", tree.q_slices[k]), ("v_slices", tree.v_slices[k])):
                parts[name].append(whole if at is None else slice(whole.start + at.start, whole.start + at.stop))
        last.append(len(parts["parent"]) - 1)
    tuples: dict[str, Any] = {name: tuple(values) for name, values in parts.items()}
    tuples["kept"] = None if tree.kept is None else tuple(kept)
    forces = dict.fromkeys(("springs", "bushings", "forces", "point_forces", "contacts"), ())
    return replace(tree, **tuples, **forces, closures=(), couplings=(), frames=MappingProxyType({}))


def _taken_apart(motion: Any) -> list[tuple[Any, slice | None]]:
    """Return motions of one moving screw each, with their coordinates among those of the joint."""
    moving = [f for f in motion.factors if any(f.turn) or any(f.slide)] if isinstance(motion, ScrewMotion) else []
    if len(moving) < 2:
        return [(motion, None)]
    groups: list[list[Factor]] = [[]]
    for factor in motion.factors:  # fixed screws go with the moving one after them, the last ones with that before
        if groups[-1] and groups[-1][-1] in moving and sum(len(group) > 0 for group in groups) < len(moving):
            groups.append([])
        groups[-1].append(factor)
    found: list[tuple[Any, slice | None]] = []
    for group in groups:
        used = [i for factor in group for i, pair in enumerate(zip(factor.turn, factor.slide, strict=True)) if any(pair)]
        at = slice(min(used), max(used) + 1)
        own = tuple(factor._replace(turn=factor.turn[at], slide=factor.slide[at]) for factor in group)
        found.append((replace(motion, factors=own), at))
    return found
