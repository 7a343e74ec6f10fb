"""Which velocity coordinates of loops depend on which others, by which constraints; [WH82] calls it coordinate partitioning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from catena.formulations.loops.coupled_loops import CoupledLoops


class GroupPartition(NamedTuple):
    """A group of coupled loops: independent and redundant constraints; dependent and independent velocity coordinates.

    There are as many dependent coordinates as independent constraints; both are in the order in which they are eliminated.
    """

    loops: CoupledLoops
    rows: tuple[int, ...]
    redundant: tuple[int, ...]
    dependent: tuple[int, ...]
    independent: tuple[int, ...]


@dataclass(frozen=True)
class CoordinatePartition:
    """The partitions of all groups of a mechanism; its length is the number of constraints that are independent."""

    groups: tuple[GroupPartition, ...]

    def __len__(self) -> int:
        return sum(len(group.rows) for group in self.groups)

    @property
    def rows(self) -> tuple[int, ...]:
        """All constraints that are independent."""
        return tuple(sorted(i for group in self.groups for i in group.rows))

    @property
    def dependent(self) -> tuple[int, ...]:
        """All coordinates that depend on others."""
        return tuple(sorted(i for group in self.groups for i in group.dependent))
