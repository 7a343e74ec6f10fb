"""Exponential and logarithm of rotations and poses, over leading axes and for any scalar.

Nothing branches, so these can be traced: terms far below rounding keep divisors from being zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.spatial import quaternion_exp, quaternion_inverse, quaternion_log, quaternion_product
from catena.spatial.rotations import cross_fields, half_angle, scaled


def integrate_rotation(q: Any, dv: Any) -> Any:
    """Return the unit quaternion reached from q by turning with the angular velocity dv, in the child's axes, for a unit of time."""
    return unit(quaternion_product(q, quaternion_exp(dv)))


def difference_rotation(q0: Any, q1: Any) -> Any:
    """Return the angular velocity, in the child's axes, that leads from q0 to q1 in a unit of time."""
    return quaternion_log(quaternion_product(quaternion_inverse(q0), q1))


def quaternion_rate(q: Any, v: Any) -> Any:
    """Return dq/dt of a quaternion, which keeps its length, at the angular velocity v, in the child's axes."""
    x, y, z = (v[..., i] for i in range(3))
    return quaternion_product(q, np.stack([0.0 * x, 0.5 * x, 0.5 * y, 0.5 * z], axis=-1))


def cayley_rotation(q: Any, u: Any) -> Any:
    """Return the unit quaternion with the Cayley coordinates u around q: 2 tan(angle / 2) along the axis, in the child's axes."""
    x, y, z = (0.5 * u[..., i] for i in range(3))
    return unit(quaternion_product(q, np.stack([1.0 + 0.0 * x, x, y, z], axis=-1)))


def cayley_velocity(u: Any, rate: Any) -> Any:
    """Return the angular velocity, in the child's axes, at which the Cayley coordinates u change at a rate."""
    return scaled(_shrinkage(u), rate - 0.5 * cross_fields(u, rate))


def cayley_momentum(u: Any, p: Any) -> Any:
    """Return the momenta that are conjugate to the Cayley coordinates u, where p are conjugate to the angular velocity."""
    return scaled(_shrinkage(u), p + 0.5 * cross_fields(u, p))


def _shrinkage(u: Any) -> Any:
    x, y, z = (u[..., i] for i in range(3))
    return 1.0 / (1.0 + 0.25 * (x * x + y * y + z * z))


def integrate_pose(q: Any, dv: Any) -> Any:
    """Return the pose (x, y, z, quaternion) reached by moving with the body twist dv for a unit of time: the exponential map."""
    turn, shift = dv[..., :3], dv[..., 3:]
    half = half_angle(turn)
    # translation of the exponential: (1 + b w~ + c w~ w~) shift, with b and c never a quotient by zero
    b = 0.5 * (np.sin(half) / half) ** 2
    c = (2.0 * half - np.sin(2.0 * half)) / (8.0 * half**3)
    w_shift = cross_fields(turn, shift)
    moved = shift + scaled(b, w_shift) + scaled(c, cross_fields(turn, w_shift))
    return np.concatenate([q[..., :3] + turned(q[..., 3:], moved), integrate_rotation(q[..., 3:], turn)], axis=-1)


def difference_pose(q0: Any, q1: Any) -> Any:
    """Return the body twist that leads from q0 to q1 in a unit of time."""
    inverse = quaternion_inverse(q0[..., 3:])
    turn = quaternion_log(quaternion_product(inverse, q1[..., 3:]))
    half = half_angle(turn)
    shift = turned(inverse, q1[..., :3] - q0[..., :3])
    c = (1.0 - half * np.cos(half) / np.sin(half)) / (4.0 * half**2)
    w_shift = cross_fields(turn, shift)
    return np.concatenate([turn, shift - 0.5 * w_shift + scaled(c, cross_fields(turn, w_shift))], axis=-1)


def unit(quaternion: Any) -> Any:
    """Return a quaternion at length 1: without this, rounding adds up over many steps."""
    w, x, y, z = (quaternion[..., i] for i in range(4))
    scale = 1.0 / np.sqrt(w * w + x * x + y * y + z * z)
    return np.stack([scale * w, scale * x, scale * y, scale * z], axis=-1)


def turned(quaternion: Any, x: Any) -> Any:
    """Return x turned by a quaternion of any length but zero, over leading axes."""
    w, u = quaternion[..., 0], quaternion[..., 1:]
    length = w * w + u[..., 0] * u[..., 0] + u[..., 1] * u[..., 1] + u[..., 2] * u[..., 2]
    twice = scaled(2.0 / length, cross_fields(u, x))
    return x + scaled(w, twice) + cross_fields(u, twice)
