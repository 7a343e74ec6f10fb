"""The plan of coordinate reduction for a configuration: which coordinates are eliminated, where, and by which constraints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class EliminationStage(NamedTuple):
    """Coordinates of a group of loops that are eliminated at once, having waited until then.

    `closed` has constraints, each with the coordinate that it determines, at a joint that is met here or further in; `held` has constraints
    that stay open, each with the coordinate that keeps it while those in `free` move. Both are in the order of elimination.
    """

    closed: tuple[tuple[int, int], ...] = ()
    held: tuple[tuple[int, int], ...] = ()
    free: tuple[int, ...] = ()


@dataclass(frozen=True)
class ReductionPlan:
    """Constraints that are independent, and the stages at all bodies: outboard and inboard of their joints; last the ground's.

    Its length is the number of constraints. `reach` is what the velocity coordinates are measured by, where pivots are compared.
    """

    chosen: tuple[int, ...]
    outboard: tuple[tuple[EliminationStage, ...], ...]
    inboard: tuple[tuple[EliminationStage, ...], ...]
    reach: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.chosen)
