"""The directions in which positions move: along the velocity coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from catena.model.coordinates import Coordinates
from catena.model.joints import Joint


@dataclass(frozen=True)
class PositionChart:
    """Directions of the positions q of a mechanism, with an entry for each of v: those of a quaternion are the tangents of `m.integrate`.

    `parts` has the number of positions of each joint, and for rotations the joint itself, which turns directions into rates of positions.
    """

    parts: tuple[tuple[int, Joint | None], ...]

    @staticmethod
    def of(m: Coordinates) -> PositionChart | None:
        """Return the chart of a mechanism, if its positions change otherwise than at the rates v."""
        joints = [link.joint for link in m.links]
        if all(joint.nq == joint.nv for joint in joints):
            return None
        return PositionChart(tuple((joint.nq, None if joint.nq == joint.nv else type(joint)()) for joint in joints))

    @property
    def size(self) -> int:
        """Number of velocity coordinates."""
        return sum(nq if joint is None else joint.nv for nq, joint in self.parts)

    def rate(self, q: Any, u: Any) -> Any:
        """Return how the positions change along u."""
        parts, at_q, at_v = [], 0, 0
        for nq, joint in self.parts:
            nv = nq if joint is None else joint.nv
            own = u[at_v : at_v + nv]
            parts.append(own if joint is None else joint.rate(q[at_q : at_q + nq], own))
            at_q, at_v = at_q + nq, at_v + nv
        return np.concatenate(parts)

    def velocity(self, q: Any, rate: Any) -> Any:
        """Return the direction in which the positions change at a rate."""
        parts, at = [], 0
        for nq, joint in self.parts:
            own = rate[at : at + nq]
            parts.append(own if joint is None else joint.velocity(q[at : at + nq], own))
            at += nq
        return np.concatenate(parts)
