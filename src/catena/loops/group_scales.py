"""What a group of loops is measured by, taken from the whole mechanism: groups that are alike are measured alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from catena.loops.local_trees import Part
from catena.loops.scaling import coordinate_units, loop_owners, loop_sizes, loop_units
from catena.model import Joint, Mechanism
from catena.model.tree import Tree


class GroupJoint(NamedTuple):
    """The joint of a body: one whose positions are not plain numbers, or None; sizes; which positions are lengths; limits."""

    turning: Joint | None
    nq: int
    nv: int
    lengths: tuple[bool, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]

    @staticmethod
    def of(joint: Joint) -> GroupJoint:
        turning = joint if joint.nq != joint.nv else None
        limits = ((), ()) if turning else (tuple(joint.lower), tuple(joint.upper))
        return GroupJoint(turning, joint.nq, joint.nv, tuple(unit == "m" for unit in joint.q_units), *limits)


class GroupScales(NamedTuple):
    """What a group is measured by: units of the entries of each loop, of constraints and coordinates; sizes of loops; its joints."""

    owned: tuple[tuple[float, ...], ...]
    rows: np.ndarray
    columns: np.ndarray
    sizes: tuple[float, ...]
    joints: tuple[GroupJoint, ...]


class MechanismScales(NamedTuple):
    """What groups of loops take of the whole mechanism: units of entries by loop, of rows and of columns; sizes; joints by column."""

    owned: dict[int, list[float]]
    rows: np.ndarray
    columns: np.ndarray
    sizes: Sequence[float]
    joints: dict[int, Joint]

    @staticmethod
    def of(m: Mechanism) -> MechanismScales:
        owned: dict[int, list[float]] = {}
        for i, unit in loop_owners(m, None):
            owned.setdefault(i, []).append(unit)
        joints = {at_v.start: link.joint for link, _, at_v in m.slices() if at_v.start < at_v.stop}
        return MechanismScales(owned, np.array(loop_units(m)), coordinate_units(m), loop_sizes(m), joints)

    def part(self, tree: Tree, part: Part) -> GroupScales:
        """Return what a group is measured by."""
        group = part.group
        numbers = (*group.closures, *(len(tree.closures) + i for i in group.couplings))
        owned, moving = tuple(tuple(self.owned.get(i, ())) for i in numbers), (tree.v_slices[k] for k in part.bodies)
        joints = tuple(GroupJoint.of(self.joints[at.start]) for at in moving if at.start < at.stop)
        sizes = tuple(self.sizes[i] if i < len(self.sizes) else 0.0 for i in numbers)
        return GroupScales(owned, self.rows[list(group.rows)], self.columns[list(group.columns)], sizes, joints)
