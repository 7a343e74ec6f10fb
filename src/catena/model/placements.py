"""Placements of parts and the formulas that they follow, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ModelError
from catena.model.pose import Pose, from_rpy, plain
from catena.scalars.expression import expressed
from catena.spatial import Rigid


class Followed(NamedTuple):
    """A placement, and the formulas that its translation and its angles follow, where they do."""

    pose: Pose
    xyz: Any = None
    rpy: Any = None

    @staticmethod
    def of(pose: Pose, path: str, ties: Mapping[str, Any]) -> Followed:
        """Return a placement of a model, by its path."""
        both = ties.get(path)
        xyz, rpy = (None, None) if both is None else (both[:3], both[3:])
        return Followed(plain(pose), ties.get(f"{path}.xyz", xyz), ties.get(f"{path}.rpy", rpy))

    @staticmethod
    def given(pose: Pose) -> Followed:
        """Return a placement that a user gives."""
        return Followed(plain(pose), pose.tied.get("xyz"), pose.tied.get("rpy"))

    def formulas(self) -> dict[str, Any]:
        """Return the formulas, as "xyz" and "rpy"."""
        return {key: np.array(x, dtype=object) for key, x in (("xyz", self.xyz), ("rpy", self.rpy)) if x is not None}

    def ties(self, path: str) -> dict[str, Any]:
        """Return the formulas by path."""
        return {f"{path}.{key}": x for key, x in self.formulas().items()}

    def then(self, inner: Followed, what: str) -> Followed:
        """Return the placement of a frame that stands at `inner` in this one; `what` it belongs to is named in errors."""
        pose = Pose.of(Rigid(self.pose.R, self.pose.p) @ inner.pose)
        rpy = None
        if self.rpy is not None or inner.rpy is not None:
            if self.rpy is None and _upright(self.pose):
                rpy = inner.rpy
            elif inner.rpy is None and _upright(inner.pose):
                rpy = self.rpy
            else:
                raise ModelError(
                    f"{what}: its angles follow parameters, and would have to be combined with another rotation, of which there is no "
                    "formula; give the other placement no rotation, or a fixed body of its own"
                )
        R: Any = self.pose.R if self.rpy is None else from_rpy(self.rpy)
        xyz = self.point(inner.pose.p if inner.xyz is None else inner.xyz, R)
        return Followed(pose, xyz if expressed(xyz) else None, rpy)

    def point(self, point: Any, R: Any = None) -> Any:
        """Return a point of the frame, of numbers or formulas."""
        if R is None:
            R = self.pose.R if self.rpy is None else from_rpy(self.rpy)
        return (self.pose.p if self.xyz is None else np.asarray(self.xyz)) + np.asarray(R) @ np.asarray(point)


def _upright(pose: Pose) -> bool:
    return np.array_equal(pose.R, np.eye(3))
