"""Frames: named places on bodies, for points of interest such as a tool's tip."""

from __future__ import annotations

from dataclasses import dataclass

from catena.model.pose import Pose


@dataclass(frozen=True)
class Frame:
    """A named frame that is fixed on a body, at a place in the body's frame. Its name stands wherever that of a body does with a point."""

    name: str
    body: str
    at: Pose
