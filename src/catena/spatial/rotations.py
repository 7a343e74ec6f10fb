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


def rotation_vector(R: Array) -> Array:
    """Return the shortest rotation vector [rad] of a matrix (child to parent): its length is half a turn at most.

    The rows of 4 q q^T are the quaternion q times its entries; that of the largest has all digits.
    """
    turned, trace = (R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]), R[0, 0] + R[1, 1] + R[2, 2]
    row, size = [1.0 + trace, *turned], 1.0 + trace
    for i in range(3):
        other = [turned[i], *(R[i, j] + R[j, i] for j in range(3))]
        other[1 + i] = 1.0 - trace + 2.0 * R[i, i]
        larger = np.sign(np.sign(other[1 + i] - size) + 0.5)  # 1, or -1
        taken = 0.5 + 0.5 * larger
        row = [taken * x + (1.0 - taken) * y for x, y in zip(other, row, strict=True)]
        size = taken * other[1 + i] + (1.0 - taken) * size
    return quaternion_log(np.array(row))


def rotation_rate(u: Array, v: Array) -> Array:
    """Return the rate of the rotation vector u of a turn that goes on with the angular velocity v, in the child's axes.

    It is J_r^-1 v, with the right Jacobian of rotations, which is J_l^-T v: it takes a force along u to the moment in the parent's axes.
    """
    half = half_angle(u)
    c = (1.0 - half * np.cos(half) / np.sin(half)) / (4.0 * half**2)
    u_v = cross_fields(u, v)
    return v + 0.5 * u_v + scaled(c, cross_fields(u, u_v))


def half_angle(turn: Array) -> Array:
    """Return half the length of a rotation vector, never quite zero; leading axes broadcast."""
    x, y, z = (turn[..., i] for i in range(3))
    return np.sqrt(0.25 * (x * x + y * y + z * z) + 1e-60)


def cross_fields(a: Array, b: Array) -> Array:
    """Return a x b; leading axes broadcast."""
    ax, ay, az = (a[..., i] for i in range(3))
    bx, by, bz = (b[..., i] for i in range(3))
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)


def scaled(a: Array, b: Array) -> Array:
    """Return a scalar field times a vector field."""
    return np.stack([a * b[..., i] for i in range(3)], axis=-1)
