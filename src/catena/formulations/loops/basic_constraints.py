"""Constraints of a closing joint: their values, Jacobians and right-hand sides, built from a few basic ones.

Source   [KY03] Kang and Yoon, On the improvement of a fully recursive formulation, Tables 3 and 4; the right-hand sides derived anew.
Frames   the two bodies of a closure, their points and directions, in any one frame: the world's, or that of the loop's base, for a
         constraint depends on the motion of the bodies relative to each other only. Rows act on motions (omega, v) at its origin.
Cost     O(1) for a closing joint

    paper   here  meaning
    a       u, w  direction fixed on body a, on body b
    p       p     point of the closing joint on body a, on body b
    p_ij    d     from the point on a to that on b
    Phi_Z   r     rows of the Jacobian, on the motion of body a, of body b
    gamma   g     right-hand side: r_a A_a + r_b A_b = g for spatial accelerations A

The basic constraints: s, the points coincide; d1, two directions keep their angle; d2, the vector between the points has no part along a
direction of a; ss, the points keep their distance. The screw is d1 between a direction of b and one that turns on a as the bodies shift.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from catena.spatial import cross, straight_line


class Ends(NamedTuple):
    """The joint frames of a closure on its two bodies: rotations and points; and the axes of the loop's base."""

    R_a: Any
    p_a: Any
    R_b: Any
    p_b: Any
    axes: Any


@straight_line
def ends(at_a, at_b, a, b, axes):
    """Return joint frames at a and b, where bodies a and b stand at the given dense placements, and the loop's base has the given axes."""
    on_a, on_b = a @ at_a, b @ at_b
    return Ends(on_a.R, on_a.p, on_b.R, on_b.p, axes)


def row_count(closure):
    """Return how many constraints a closure has."""
    return sum(basic.rows for basic in closure.constraints)


def row_ranges(closures):
    """Return the numbers of the constraints of each closure."""
    return [range(*ends) for ends in pairwise(accumulate(map(row_count, closures), initial=0))]


# values and Jacobians


@straight_line
def constraint_rows(constraints, at):
    """Return the values of constraints of a closure, and their rows on the motions of body a and of body b."""
    return _stacked([_BASIC[basic.kind](basic, at) for basic in constraints])


def _stacked(parts):
    values, r_a, r_b = (np.concatenate(column) for column in zip(*parts, strict=True))
    return values, r_a, r_b


def _s(basic, at):
    # along the axes of the base, so that the same rows are independent however it turns; where the points meet, its turning adds nothing
    on_a = np.stack([np.concatenate([-cross(at.p_a, e), -e]) for e in at.axes.T])
    return at.axes.T @ (at.p_b - at.p_a), on_a, np.stack([np.concatenate([cross(at.p_b, e), e]) for e in at.axes.T])


def _d1(basic, at):
    return _angle(at.R_a @ basic.u, at.R_b @ basic.w, basic.value)


def _angle(u, w, value):
    """Return d1 for directions in the common frame."""
    r_b = np.concatenate([cross(w, u), np.zeros(3)])
    return np.array([u @ w - value]), -r_b[None], r_b[None]


def _along(u, at):
    """Return d2 for a direction in the common frame."""
    r_b = np.concatenate([cross(at.p_b, u), u])
    return np.array([u @ (at.p_b - at.p_a)]), -r_b[None], r_b[None]


def _ss(basic, at):
    d = at.p_b - at.p_a
    r_b = 2.0 * np.concatenate([cross(at.p_b, d), d])
    return np.array([d @ d - basic.value**2]), -r_b[None], r_b[None]


def _turned(basic, at):
    """Return what a screw compares: n, and m a quarter turn before it, which turn on a with the shift; w on b; and the axis z."""
    z, e1, w = at.R_a @ basic.axis, at.R_a @ basic.u, at.R_b @ basic.w
    e2 = cross(z, e1)
    s = (z @ (at.p_b - at.p_a)) / basic.value
    c, s = np.cos(s), np.sin(s)
    return c * e2 - s * e1, c * e1 + s * e2, w, z


def _screw(basic, at):
    n, m, w, z = _turned(basic, at)
    value, r_a, r_b = _angle(n, w, 0.0)
    _, s_a, s_b = _along(z, at)
    share = (w @ m) / basic.value
    return value, r_a - share * s_a, r_b - share * s_b


_BASIC = {"s": _s, "d1": _d1, "d2": lambda basic, at: _along(at.R_a @ basic.u, at), "ss": _ss, "screw": _screw}


def closure_residual(constraints, at):
    """Return the closure residual, and its rows: like `constraint_rows`, but zero only where the joint frames agree.

    Directions that must be parallel are compared as vectors, so that opposite ones differ. There are more values than constraints.
    """
    angles, parallel = _directions(constraints)
    parts = [_BASIC[basic.kind](basic, at) for basic in constraints if basic.kind not in ("d1", "screw")]
    parts += [] if parallel else [_d1(basic, at) for basic in angles]
    parts += [_parallel(at.R_a @ w, at.R_b @ w) for w in parallel.values()]
    for basic in constraints:
        if basic.kind == "screw":
            n, m, w, z = _turned(basic, at)
            value, r_a, r_b = _parallel(m, w)
            _, s_a, s_b = _along(z, at)
            turning = n[:, None] / basic.value  # m turns on a as the bodies shift
            parts.append((value, r_a - turning * s_a, r_b - turning * s_b))
    return _stacked(parts)


def direction_count(closure):
    """Return how many values of a closure residual are of directions; they follow those of lengths."""
    angles, parallel = _directions(closure.constraints)
    screws = sum(basic.kind == "screw" for basic in closure.constraints)
    return 3 * (len(parallel) + screws) + (0 if parallel else len(angles))


def _directions(constraints):
    """Return the angles that a closure of such constraints keeps, and the directions that several of them keep parallel."""
    angles = [basic for basic in constraints if basic.kind == "d1"]
    return angles, {tuple(basic.w): basic.w for basic in angles} if len(angles) > 1 else {}


def _parallel(u, w):
    """Return the difference of two directions, u fixed on a and w fixed on b, and its rows."""
    r_a, r_b = (np.stack([np.concatenate([cross(x, e), np.zeros(3)]) for e in np.eye(3)]) for x in (u, w))
    return w - u, -r_a, r_b


# right-hand sides


@straight_line
def right_hand_sides(constraints, at, V_a, V_b):
    """Return the right-hand sides of constraints of a closure, for bodies that move with V_a and V_b, at the origin of the common frame."""
    moving = _Moving(at, V_a, V_b)
    return np.concatenate([np.atleast_1d(_RIGHT[basic.kind](basic, at, moving)) for basic in constraints])


class _Moving:
    """How the ends of a closure move: angular velocities, the rate of d, and the part of its second rate that velocities give."""

    def __init__(self, at, V_a, V_b):
        self.omega_a, self.omega_b = V_a[:3], V_b[:3]
        rate_a, rate_b = V_a[3:] + cross(self.omega_a, at.p_a), V_b[3:] + cross(self.omega_b, at.p_b)
        self.d, self.rate = at.p_b - at.p_a, rate_b - rate_a
        self.bias = cross(self.omega_b, rate_b) - cross(self.omega_a, rate_a)


def _d1_right(basic, at, moving):
    u, w = at.R_a @ basic.u, at.R_b @ basic.w
    return _angle_right(u, w, cross(moving.omega_a, u), cross(moving.omega_b, w), moving)


def _angle_right(u, w, u_rate, w_rate, moving):
    return (moving.omega_b - moving.omega_a) @ -(cross(w_rate, u) + cross(w, u_rate))


def _along_right(u, moving):
    rate = cross(moving.omega_a, u)
    return -(cross(moving.omega_a, rate) @ moving.d) - 2.0 * (rate @ moving.rate) - u @ moving.bias


def _screw_right(basic, at, moving):
    n, m, w, z = _turned(basic, at)
    shift = (cross(moving.omega_a, z) @ moving.d + z @ moving.rate) / basic.value
    n_rate, m_rate = cross(moving.omega_a, n) - shift * m, cross(moving.omega_a, m) + shift * n
    w_rate = cross(moving.omega_b, w)
    turning = _angle_right(n, w, n_rate, w_rate, moving)
    return turning - (w @ m) * (_along_right(z, moving) / basic.value) + shift * (w_rate @ m + w @ m_rate)


_RIGHT = {
    "s": lambda basic, at, moving: -(at.axes.T @ moving.bias),
    "d1": _d1_right,
    "d2": lambda basic, at, moving: _along_right(at.R_a @ basic.u, moving),
    "ss": lambda basic, at, moving: -2.0 * (moving.rate @ moving.rate + moving.d @ moving.bias),
    "screw": _screw_right,
}
