"""Constraints that close loops: their values, Jacobians and right-hand sides, built from a few basic ones.

Source   [KY03] Kang and Yoon, On the improvement of a fully recursive formulation, Tables 3 and 4; the right-hand sides derived anew.
Frames   the two bodies of a closure, their points and directions, in any one frame: the world's, or that of the loop's base, for a
         constraint depends on the motion of the bodies relative to each other only. Rows act on motions (omega, v) at its origin.
Cost     O(bodies of the loops)

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

from typing import Any, NamedTuple

import numpy as np

from catena.spatial import Rigid, cross, cross_motion


class Ends(NamedTuple):
    """The joint frames of a closure on its two bodies: rotations and points; and the axes of the loop's base."""

    R_a: Any
    p_a: Any
    R_b: Any
    p_b: Any
    axes: Any


def ends(closure, a, b, axes):
    """Return the joint frames of a closure, where bodies a and b stand at the given dense placements, and its base has the given axes."""
    on_a, on_b = a @ closure.at_a, b @ closure.at_b
    return Ends(on_a.R, on_a.p, on_b.R, on_b.p, axes)


# values and Jacobians


def rows(closure, at):
    """Return the values of a closure's constraints, and their rows on the motions of body a and of body b."""
    parts = [_BASIC[basic.kind](basic, at) for basic in closure.constraints]
    values, r_a, r_b = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return values, r_a, r_b


def _s(basic, at):
    # along the axes of the base, so that the same rows are independent however it turns; where the points meet, its turning adds nothing
    on_a = np.stack([np.concatenate([-cross(at.p_a, e), -e]) for e in at.axes.T])
    return at.axes.T @ (at.p_b - at.p_a), on_a, np.stack([np.concatenate([cross(at.p_b, e), e]) for e in at.axes.T])


def _d1(basic, at):
    u, w = at.R_a @ basic.u, at.R_b @ basic.w
    return _angle(u, w, basic.value)


def _angle(u, w, value):
    """Return d1 for directions in the common frame."""
    r_b = np.concatenate([cross(w, u), np.zeros(3)])
    return np.array([u @ w - value]), -r_b[None], r_b[None]


def _d2(basic, at):
    u = at.R_a @ basic.u
    return _along(u, at)


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


_BASIC = {"s": _s, "d1": _d1, "d2": _d2, "ss": _ss, "screw": _screw}


def apart(closure, at):
    """Return what is between the ends of a closure, and its rows: like `rows`, but zero only where the joint frames agree.

    Directions that must be parallel are compared as vectors, so that opposite ones are far apart. There are more values than constraints.
    """
    angles = [basic for basic in closure.constraints if basic.kind == "d1"]
    parallel = {tuple(basic.w): basic.w for basic in angles} if len(angles) > 1 else {}
    parts = [_BASIC[basic.kind](basic, at) for basic in closure.constraints if basic.kind not in ("d1", "screw")]
    parts += [] if parallel else [_d1(basic, at) for basic in angles]
    parts += [_parallel(at.R_a @ w, at.R_b @ w) for w in parallel.values()]
    for basic in closure.constraints:
        if basic.kind == "screw":
            n, m, w, z = _turned(basic, at)
            value, r_a, r_b = _parallel(m, w)
            _, s_a, s_b = _along(z, at)
            turning = n[:, None] / basic.value  # m turns on a as the bodies shift
            parts.append((value, r_a - turning * s_a, r_b - turning * s_b))
    values, r_a, r_b = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return values, r_a, r_b


def _parallel(u, w):
    """Return the difference of two directions, u fixed on a and w fixed on b, and its rows."""
    r_a, r_b = (np.stack([np.concatenate([cross(x, e), np.zeros(3)]) for e in np.eye(3)]) for x in (u, w))
    return w - u, -r_a, r_b


# right-hand sides


def right(closure, at, V_a, V_b):
    """Return the right-hand sides of a closure's constraints, for bodies that move with V_a and V_b, at the origin of the common frame."""
    moving = _Moving(at, V_a, V_b)
    return np.concatenate([np.atleast_1d(_RIGHT[basic.kind](basic, at, moving)) for basic in closure.constraints])


class _Moving:
    """How the ends of a closure move: angular velocities, the rate of d, and the part of its second rate that velocities give."""

    def __init__(self, at, V_a, V_b):
        self.omega_a, self.omega_b = V_a[:3], V_b[:3]
        rate_a, rate_b = V_a[3:] + cross(self.omega_a, at.p_a), V_b[3:] + cross(self.omega_b, at.p_b)
        self.d, self.rate = at.p_b - at.p_a, rate_b - rate_a
        self.bias = cross(self.omega_b, rate_b) - cross(self.omega_a, rate_a)


def _s_right(basic, at, moving):
    return -(at.axes.T @ moving.bias)


def _d1_right(basic, at, moving):
    u, w = at.R_a @ basic.u, at.R_b @ basic.w
    return _angle_right(u, w, cross(moving.omega_a, u), cross(moving.omega_b, w), moving)


def _angle_right(u, w, u_rate, w_rate, moving):
    return (moving.omega_b - moving.omega_a) @ -(cross(w_rate, u) + cross(w, u_rate))


def _d2_right(basic, at, moving):
    return _along_right(at.R_a @ basic.u, moving)


def _along_right(u, moving):
    rate = cross(moving.omega_a, u)
    return -(cross(moving.omega_a, rate) @ moving.d) - 2.0 * (rate @ moving.rate) - u @ moving.bias


def _ss_right(basic, at, moving):
    return -2.0 * (moving.rate @ moving.rate + moving.d @ moving.bias)


def _screw_right(basic, at, moving):
    n, m, w, z = _turned(basic, at)
    shift = (cross(moving.omega_a, z) @ moving.d + z @ moving.rate) / basic.value
    n_rate, m_rate = cross(moving.omega_a, n) - shift * m, cross(moving.omega_a, m) + shift * n
    w_rate = cross(moving.omega_b, w)
    turning = _angle_right(n, w, n_rate, w_rate, moving)
    return turning - (w @ m) * (_along_right(z, moving) / basic.value) + shift * (w_rate @ m + w @ m_rate)


_RIGHT = {"s": _s_right, "d1": _d1_right, "d2": _d2_right, "ss": _ss_right, "screw": _screw_right}


# all loops of a tree, each in the frame of its base


def base(tree, closure):
    """Return the base of a loop: the body nearest to both of its ends, inboard of them; -1 is the ground."""
    inboard = set(tree.path(closure.a))
    return next((k for k in tree.path(closure.b) if k in inboard), -1)


def branch(tree, k, stop):
    """Return the bodies from the one outboard of `stop` to k."""
    path = []
    while k != stop:
        path.append(k)
        k = tree.parent[k]
    return path[::-1]


def constraint_jacobian(tree, q, rows=rows):
    """Return the values of all constraints, and their Jacobian, rows x nv: closures, then couplings."""
    values, J = [np.zeros(0)], [np.zeros((0, tree.nv))]
    for closure in tree.closures:
        tree.mark()
        stop = base(tree, closure)
        arms = [_arm(tree, q, stop, k) for k in (closure.a, closure.b)]
        at = ends(closure, arms[0][0], arms[1][0], np.eye(3))
        value, *r = rows(closure, at)
        block = np.zeros((len(value), tree.nv)).astype(object)
        for row, (_, columns) in zip(r, arms, strict=True):
            for k, (_, S) in columns.items():
                block[:, tree.v_slices[k]] = row @ S
        values.append(value)
        J.append(block)
    for coupling in tree.couplings:
        values.append(np.array([sum(c * q[i] for i, c in coupling.positions) - coupling.offset]))
        row = np.zeros((1, tree.nv))
        for i, c in coupling.coefficients:
            row[0, i] = c
        J.append(row)
    tree.mark()
    return np.concatenate(values), np.concatenate(J)


def constraint_right(tree, q, v):
    """Return the right-hand side of all constraints: Jacobian times vdot."""
    values = []
    for closure in tree.closures:
        tree.mark()
        stop = base(tree, closure)
        (a, along_a), (b, along_b) = (_arm(tree, q, stop, k) for k in (closure.a, closure.b))
        (V_a, A_a), (V_b, A_b) = (_motion(tree, q, v, along) for along in (along_a, along_b))
        at = ends(closure, a, b, np.eye(3))
        _, r_a, r_b = rows(closure, at)
        values.append(right(closure, at, V_a, V_b) - r_a @ A_a - r_b @ A_b)
    tree.mark()
    return np.concatenate([*values, np.zeros(len(tree.couplings))])


def closing_wrenches(tree, q, multipliers):
    """Return what the multipliers of all constraints do at each closure: the wrenches on a and on b, each in the joint frame there."""
    found, first = [], 0
    for closure in tree.closures:
        tree.mark()
        stop = base(tree, closure)
        a, b = (_arm(tree, q, stop, k)[0] for k in (closure.a, closure.b))
        at = ends(closure, a, b, np.eye(3))
        _, *r = rows(closure, at)
        own = multipliers[first : first + len(r[0])]
        first += len(own)
        frames = Rigid(at.R_a, at.p_a), Rigid(at.R_b, at.p_b)
        found.append([frame.inverse().force(row.T @ own) for frame, row in zip(frames, r, strict=True)])
    return found


def _arm(tree, q, stop, k):
    """Return where body k stands in the frame of its loop's base; and of each body on the way to it its place and joint matrix there."""
    place, along = Rigid(np.eye(3), np.zeros(3)), {}
    for j in branch(tree, k, stop):
        place = place @ tree.placement(j, q).rigid()
        along[j] = place, _in_base(place, tree.joint_matrix(j, q))
    return place, along


def _motion(tree, q, v, along):
    """Return velocity and bias acceleration, relative to a loop's base and in its frame, of the last body on the way from it."""
    V, A = np.zeros(6), np.zeros(6)
    for j, (place, S) in along.items():
        relative = S @ v[tree.v_slices[j]]
        V = V + relative
        A = A + cross_motion(V, relative) + _in_base(place, tree.joint_bias(j, q, v)[:, None])[:, 0]
    return V, A


def _in_base(place, S):
    """Return the columns of S, motions in a frame that stands at `place`, as motions in the frame it stands in."""
    turning = place.R @ S[:3]
    shifted = [cross(place.p, turning[:, c]) for c in range(S.shape[1])]
    return np.concatenate([turning, place.R @ S[3:] + np.stack(shifted, axis=1)]) if shifted else S
