"""Platforms on legs: what makes a tree one, and the plan of `denoc` for a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from catena.formulations.loops.closure_kinematics import branch


class Leg(NamedTuple):
    """A leg: its bodies from the base on; the closure at its end, or None where it carries the platform, which then is its last body.

    `rows` are the constraints of the closure that are independent, or a basis of the motions that the leg gives the platform; `actuated`
    are the coordinates that are given. `weights` turn the values of the rows into lengths, to be compared with `size`.
    """

    bodies: tuple[int, ...]
    closure: int | None
    rows: tuple[Any, ...]
    actuated: tuple[int, ...]
    weights: tuple[float, ...] = ()
    size: float = 1.0


@dataclass(frozen=True)
class PlatformPlan:
    """The platform, the legs, and a basis of the platform's motions, or none where its joint leaves it free.

    `chosen` are the constraints of all legs, and give the plan's length. `motions` counts the motions that the platform has on the branch
    of the plan: no more than the basis has. Pivots are compared with squares of lengths: `reach` is what the velocity coordinates are
    measured by, and `stiffness` what F has on its diagonal before passive joints are eliminated, where the plan was made.
    """

    platform: int
    legs: tuple[Leg, ...]
    space: tuple[tuple[float, ...], ...] | None
    chosen: tuple[int, ...]
    motions: int
    reach: tuple[float, ...]
    stiffness: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.chosen)


class PlatformStructure(NamedTuple):
    """The platform, and the bodies of each leg from the base on, with the closure at its end; the first leg carries the platform."""

    platform: int
    legs: tuple[tuple[tuple[int, ...], int | None], ...]


def platform_structure(tree):
    """Return the platform and its legs, which share no bodies: one carries it, the others close loops with it; or why it is none."""
    if not tree.closures:
        return "it has no loops, and a platform stands on legs that close some"
    if tree.couplings:
        return f"coupling '{tree.couplings[0].name}' ties coordinates together, and legs are free of each other"
    shared = set.intersection(*({closure.a, closure.b} for closure in tree.closures)) - {-1}
    if not shared:
        return "its loops do not close at one body, the platform"
    found = [_legs(tree, platform) for platform in sorted(shared)]
    return next((legs for legs in found if isinstance(legs, PlatformStructure)), found[0])


def _legs(tree, platform):
    legs: list[Any] = [(tuple(branch(tree, platform, -1)), None)]
    for i, closure in enumerate(tree.closures):
        legs.append((tuple(branch(tree, closure.b if closure.a == platform else closure.a, -1)), i))
    used = set()
    for bodies, _ in legs:
        for k in bodies:
            if k in used:
                return f"body '{tree.names[k]}' is part of two legs, and legs share none"
            used.add(k)
    for k in range(tree.n):
        if k not in used:
            return f"body '{tree.names[k]}' is on no leg of the platform '{tree.names[platform]}'"
    return PlatformStructure(platform, tuple(legs))


def requirement(tree):
    """Return why a tree is not a platform on legs, or nothing."""
    found = platform_structure(tree)
    return found if isinstance(found, str) else ""
