"""Joints whose rotation is a quaternion: ball joints and free bodies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.model import manifolds, values
from catena.model.joints.base import Joint
from catena.model.motions import FreeMotion, Motion, SphericalMotion
from catena.spatial import quaternion_inverse, quaternion_product, rotation, rotation_rate


@dataclass(frozen=True, repr=False)
class _QuaternionJoint(Joint):
    """A joint whose last four coordinates are a quaternion, and the first three of v an angular velocity.

    The other coordinates, if there are any, are a translation in the parent's axes, and the rates of that in the child's.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        stiffness: Any = self.stiffness
        for name, part in (("rotation", stiffness[:3]), ("translation", stiffness[3:])):
            if len(set(part)) > 1:
                raise ModelError(
                    f"{self.kind} stiffness {stiffness} differs between the axes of the {name}, which has no potential; give one value"
                )
        if self.rest is not None:
            rest = np.array(self.rest)
            size = float(np.linalg.norm(rest[-4:]))
            if abs(size - 1.0) > 1e-6:
                quaternion = tuple(rest[-4:].tolist())
                raise ModelError(f"{self.kind} rest {quaternion} has length {size:.6g}; give a unit quaternion (w, x, y, z)")
            object.__setattr__(self, "rest", (*rest[:-4].tolist(), *values.normalised(rest[-4:]).tolist()))

    def neutral(self) -> np.ndarray:
        return np.eye(self.nq)[-4]

    def random(self, rng: np.random.Generator) -> np.ndarray:
        place, quaternion = rng.uniform(-1.0, 1.0, self.nq - 4), rng.normal(size=4)
        return np.concatenate([place, quaternion / np.linalg.norm(quaternion)])

    def normalised(self, q: Any) -> Any:
        return np.concatenate([q[..., :-4], q[..., -4:] / np.linalg.norm(q[..., -4:], axis=-1, keepdims=True)], axis=-1)

    def chart(self, q: Any, u: Any) -> Any:
        return np.concatenate([q[..., :-4] + u[..., 3:], manifolds.integrate_rotation(q[..., -4:], u[..., :3])], axis=-1)

    def chart_rate(self, q: Any, u: Any, v: Any) -> Any:
        return np.concatenate([rotation_rate(u[..., :3], v[..., :3]), _turned(q[..., -4:], v[..., 3:])], axis=-1)

    def rate(self, q: Any, v: Any) -> Any:
        return np.concatenate([_turned(q[..., -4:], v[..., 3:]), manifolds.quaternion_rate(q[..., -4:], v[..., :3])], axis=-1)

    def velocity_of(self, q: Any, rate: Any) -> Any:
        turning = 2.0 * quaternion_product(quaternion_inverse(q[-4:]), rate[-4:])[1:]
        return turning if self.nv == 3 else np.concatenate([turning, rotation(q[-4:]).T @ rate[:-4]])

    def cayley(self, q: Any, u: Any) -> Any:
        return np.concatenate([q[..., :-4] + u[..., 3:], manifolds.cayley_rotation(q[..., -4:], u[..., :3])], axis=-1)

    def cayley_velocity(self, q: Any, u: Any, rate: Any) -> Any:
        shift = manifolds.turned(quaternion_inverse(q[..., -4:]), rate[..., 3:]) if self.nv > 3 else rate[..., 3:]
        return np.concatenate([manifolds.cayley_velocity(u[..., :3], rate[..., :3]), shift], axis=-1)

    def cayley_momentum(self, q: Any, u: Any, p: Any) -> Any:
        return np.concatenate([manifolds.cayley_momentum(u[..., :3], p[..., :3]), _turned(q[..., -4:], p[..., 3:])], axis=-1)

    def momentum_in_parent_axes(self, q: Any, p: Any) -> Any:
        return np.concatenate([_turned(q[..., -4:], p[..., :3]), _turned(q[..., -4:], p[..., 3:])], axis=-1)

    def momentum_in_child_axes(self, q: Any, p: Any) -> Any:
        inverse = quaternion_inverse(q[..., -4:])
        return np.concatenate([_turned(inverse, p[..., :3]), _turned(inverse, p[..., 3:])], axis=-1)


def _turned(quaternion: Any, x: Any) -> Any:
    """Return x turned by a quaternion; what has no entries, as the translations of ball joints, as it is."""
    return manifolds.turned(quaternion, x) if x.shape[-1] else x


@dataclass(frozen=True, repr=False)
class Spherical(_QuaternionJoint):
    """A ball joint: q is a unit quaternion (w, x, y, z), child to parent; v is the angular velocity in the child's axes [rad/s].

    A quaternion of another length stands for the same rotation; `m.normalised(q)` brings it to 1.

    >>> ct.Spherical().neutral()
    array([1., 0., 0., 0.])
    """

    q_labels = ("qw", "qx", "qy", "qz")
    v_labels = ("wx", "wy", "wz")
    q_units = ("", "", "", "")
    v_units = ("rad/s", "rad/s", "rad/s")

    def integrate(self, q: Any, dv: Any) -> Any:
        return manifolds.integrate_rotation(q, dv)

    def difference(self, q0: Any, q1: Any) -> Any:
        return manifolds.difference_rotation(q0, q1)

    def motion(self) -> Motion:
        return SphericalMotion()


@dataclass(frozen=True, repr=False)
class Free(_QuaternionJoint):
    """No constraint: q = (x, y, z, w, qx, qy, qz), v = (angular, linear) body twist in the child's axes.

    >>> ct.Free().nq, ct.Free().nv
    (7, 6)
    """

    q_labels = ("x", "y", "z", "qw", "qx", "qy", "qz")
    v_labels = ("wx", "wy", "wz", "vx", "vy", "vz")
    q_units = ("m", "m", "m", "", "", "", "")
    v_units = ("rad/s", "rad/s", "rad/s", "m/s", "m/s", "m/s")

    def integrate(self, q: Any, dv: Any) -> Any:
        return manifolds.integrate_pose(q, dv)

    def difference(self, q0: Any, q1: Any) -> Any:
        return manifolds.difference_pose(q0, q1)

    def motion(self) -> Motion:
        return FreeMotion()
