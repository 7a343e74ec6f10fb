"""Rotations by quaternions (w, x, y, z)."""

from __future__ import annotations

import numpy as np

from catena.spatial.vectors import Array


def rotation(quaternion: Array) -> Array:
    """Return the matrix (child to parent) of a quaternion (w, x, y, z) of any length but zero."""
    w, x, y, z = quaternion
    twice = 2.0 / (w * w + x * x + y * y + z * z)
    tx, ty, tz = twice * x, twice * y, twice * z
    xx, yy, zz = x * tx, y * ty, z * tz
    xy, xz, yz = x * ty, x * tz, y * tz
    wx, wy, wz = w * tx, w * ty, w * tz
    return np.array([
        [1.0 - (yy + zz), xy - wz, xz + wy],
        [xy + wz, 1.0 - (xx + zz), yz - wx],
        [xz - wy, yz + wx, 1.0 - (xx + yy)],
    ])  # fmt: skip


def quaternion_product(a: Array, b: Array) -> Array:
    """Return the quaternion (w, x, y, z) of turning by b, then by a; leading axes broadcast."""
    aw, ax, ay, az = (a[..., i] for i in range(4))
    bw, bx, by, bz = (b[..., i] for i in range(4))
    return np.stack([
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    ], axis=-1)  # fmt: skip


def quaternion_inverse(a: Array) -> Array:
    """Return the inverse of a quaternion of any length but zero; leading axes broadcast."""
    w, x, y, z = (a[..., i] for i in range(4))
    scale = 1.0 / (w * w + x * x + y * y + z * z)
    return np.stack([scale * w, -scale * x, -scale * y, -scale * z], axis=-1)


def quaternion_exp(turn: Array) -> Array:
    """Return the unit quaternion of a rotation vector [rad]; leading axes broadcast."""
    x, y, z = (turn[..., i] for i in range(3))
    half = np.sqrt(0.25 * (x * x + y * y + z * z) + 1e-300)  # never 0, so that sin(half) / half needs no branch
    scale = 0.5 * (np.sin(half) / half)
    return np.stack([np.cos(half), scale * x, scale * y, scale * z], axis=-1)


def quaternion_log(quaternion: Array) -> Array:
    """Return the shortest rotation vector [rad] of a quaternion of any length; leading axes broadcast."""
    w, x, y, z = (quaternion[..., i] for i in range(4))
    sine = np.sqrt(x * x + y * y + z * z + 1e-300)
    scale = np.arctan2(2.0 * (sine * w), w * w - sine * sine) / sine
    return np.stack([scale * x, scale * y, scale * z], axis=-1)
