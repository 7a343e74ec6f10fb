"""Where a frame stands in another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.model import values
from catena.scalars.expression import expressed
from catena.spatial import Placement, Rigid, cross, quaternion_exp, quaternion_product, rotation


class Pose(Rigid):
    """A frame in its parent: translation `xyz` [m] and at most one of `rpy`, `quat` or `matrix`.

    `rpy` are roll, pitch, yaw [rad] about the parent's fixed x, y, z axes in this order (as in URDF); `quat` is (w, x, y, z), any length
    but zero; `matrix` is a 3 x 3 rotation matrix, child to parent.

    >>> ct.Pose((1, 0, 0), rpy=(0, 0, np.pi / 2)).matrix().round(3)[:2]
    array([[ 0., -1.,  0.,  1.],
           [ 1.,  0.,  0.,  0.]])
    """

    __slots__ = ("tied",)
    tied: Mapping[str, Any]  # expressions that translation and angles follow, as "xyz" and "rpy"

    def __init__(self, xyz: Any = (0.0, 0.0, 0.0), *, rpy: Any = None, quat: Any = None, matrix: Any = None) -> None:
        if sum(given is not None for given in (rpy, quat, matrix)) > 1:
            raise ModelError(f"pose: rpy={rpy!r}, quat={quat!r}, matrix={matrix!r} say the rotation more than once; give one of them")
        tied = {key: np.array(x, dtype=object) for key, x in (("xyz", xyz), ("rpy", rpy)) if expressed(x)}
        R, p = np.eye(3), values.array("pose xyz", values.plain(xyz), (3,))
        if rpy is not None:
            R = from_rpy(values.array("pose rpy", values.plain(rpy), (3,)))
        elif quat is not None:
            q = values.array("pose quat", quat, (4,))
            if np.abs(q).max() == 0.0:
                raise ModelError(f"pose quat {quat!r} has no direction; give (w, x, y, z) with at least one non-zero entry")
            R = rotation(values.normalised(q))
        elif matrix is not None:
            R = values.array("pose matrix", matrix, (3, 3))
            off = np.abs(R @ R.T - np.eye(3)).max()
            if off > 1e-6 or np.linalg.det(R) < 0.0:
                raise ModelError(f"pose matrix {matrix!r} is not a rotation (R R^T is off by {off:.1e}); give an orthonormal one")
            if off > 1e-15:
                u, _, vt = np.linalg.svd(R)
                R = u @ vt
        self.__setstate__((R, p, tied))

    # models share poses, which therefore never change: copies are the pose itself
    def __setattr__(self, name: str, value: Any) -> None:
        raise ModelError(f"pose: {name} of {self!r} cannot change, for models may share the pose; make another ct.Pose")

    def __setstate__(self, state: tuple[np.ndarray, np.ndarray, dict[str, Any]]) -> None:
        for name, array in zip(("R", "p"), state[:2], strict=True):
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "tied", state[2])

    def __reduce__(self) -> tuple:
        return object.__new__, (Pose,), (self.R, self.p, self.tied)

    # products and inverses follow the expressions that the poses follow
    def __matmul__(self, other: Rigid | Placement) -> Rigid:
        if isinstance(other, Placement):
            return super().__matmul__(other)
        first, second = _expressions(self), _expressions(other)
        return Rigid(first.R @ second.R, first.p + first.R @ second.p)

    def inverse(self) -> Rigid:
        return _expressions(self).inverse() if self.tied else super().inverse()

    def __copy__(self) -> Pose:
        return self

    def __deepcopy__(self, memo: dict) -> Pose:
        return self

    def __repr__(self) -> str:
        if np.array_equal(self.R, np.eye(3)):
            return f"Pose({tuple(self.p.tolist())})"
        return f"Pose({tuple(self.p.tolist())}, matrix={self.R.tolist()})"

    @classmethod
    def of(cls, value: Any) -> Pose:
        """Return a Pose from a Pose, a product of Poses or a translation (x, y, z)."""
        if isinstance(value, Rigid):
            return value if isinstance(value, Pose) else cls(value.p, matrix=value.R)
        return cls(value)


def following(pose: Rigid, tied: Mapping[str, Any]) -> Pose:
    """Return a pose that follows formulas, of the translation as "xyz" and of the angles as "rpy"; its numbers stay what they are."""
    found = object.__new__(Pose)
    found.__setstate__((np.array(pose.R), np.array(pose.p), dict(tied)))
    return found


def plain(pose: Pose) -> Pose:
    """Return a pose without the formulas that it was made of; those of a model are its ties."""
    return following(pose, {}) if pose.tied else pose


def _expressions(pose: Rigid) -> Rigid:
    """Return a pose with the expressions that it follows in place of its numbers."""
    tied = pose.tied if isinstance(pose, Pose) else {}
    return Rigid(from_rpy(tied["rpy"]), tied.get("xyz", pose.p)) if "rpy" in tied else Rigid(pose.R, tied.get("xyz", pose.p))


def from_rpy(rpy: Any) -> Any:
    """Return the rotation of roll, pitch and yaw about the parent's fixed axes, for any scalar."""
    (cr, cp, cy), (sr, sp, sy) = ([f(angle) for angle in rpy] for f in (np.cos, np.sin))  # of which some may be plain numbers
    return np.array([
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ])  # fmt: skip


def frame_along(axis: Any) -> np.ndarray:
    """Return a rotation whose z axis is the given unit vector; for z, x and y it permutes the axes."""
    z = np.array(axis)
    x = np.eye(3)[(int(np.argmax(np.abs(z))) + 1) % 3]
    x = x - (x @ z) * z
    x = x / np.linalg.norm(x)
    return np.stack([x, cross(z, x), z], axis=1)


def quaternion_of_rpy(angles: Any) -> np.ndarray:
    """Return the quaternion of roll, pitch and yaw about the parent's fixed axes, in this order."""
    roll, pitch, yaw = quaternion_exp(np.diag(angles))
    return quaternion_product(yaw, quaternion_product(pitch, roll))


def rpy(R: np.ndarray) -> tuple[float, float, float]:
    """Return roll, pitch and yaw [rad] of a rotation; roll and pitch are what the yaw leaves, so that they say it upright, too."""
    yaw = float(np.arctan2(R[1, 0], R[0, 0]))
    c, s = np.cos(yaw), np.sin(yaw)
    roll = float(np.arctan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1]))
    return roll, float(np.arctan2(-R[2, 0], c * R[0, 0] + s * R[1, 0])), yaw


def upright(axis: np.ndarray) -> np.ndarray:
    """Return a rotation that takes z to an axis."""
    return from_rpy(np.array([0.0, np.arctan2(np.hypot(axis[0], axis[1]), axis[2]), np.arctan2(axis[1], axis[0])]))
