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
    a, b = closure.a, closure.b
    while a != b:
        a, b = (tree.parent[a], b) if a > b else (a, tree.parent[b])
    return a


def branch(tree, k, stop):
    """Return the bodies from the one outboard of `stop` to k."""
    path = []
    while k != stop:
        path.append(k)
        k = tree.parent[k]
    return path[::-1]


class Loop:
    """A loop at q, in the frame of its base: where the ends of the closing joint are, and what the joints around it do."""

    def __init__(self, tree, q, closure):
        tree.mark()
        self.tree, self.q, self.closure = tree, q, closure
        stop = base(tree, closure)
        self.arms = [arm(tree, q, branch(tree, k, stop)) for k in (closure.a, closure.b)]
        self.at = ends(closure, self.arms[0][0], self.arms[1][0], np.eye(3))

    def jacobian(self, rows=rows, only=None):
        """Return the values of the constraints, and what each velocity coordinate around the loop does to them; to some, if given."""
        value, *r = rows(self.closure, self.at)
        only = range(len(value)) if only is None else only
        columns = {}
        for row, (_, along) in zip(r, self.arms, strict=True):
            for k, (_, S) in along.items():
                block = row[list(only)] @ S
                columns |= {j: block[:, c] for c, j in enumerate(range(self.tree.v_slices[k].start, self.tree.v_slices[k].stop))}
        return value, columns

    def motion(self, v):
        """Return the rates of the constraints, and their right-hand side: Jacobian times vdot."""
        (V_a, A_a), (V_b, A_b) = (arm_motion(self.tree, self.q, v, along) for _, along in self.arms)
        _, r_a, r_b = rows(self.closure, self.at)
        return r_a @ V_a + r_b @ V_b, right(self.closure, self.at, V_a, V_b) - r_a @ A_a - r_b @ A_b

    def wrenches(self, multipliers):
        """Return what the multipliers of the constraints do at the ends: the wrenches on a and on b, each in the joint frame there."""
        _, *r = rows(self.closure, self.at)
        frames = Rigid(self.at.R_a, self.at.p_a), Rigid(self.at.R_b, self.at.p_b)
        return [frame.inverse().force(row.T @ multipliers) for frame, row in zip(frames, r, strict=True)]


def coupling_value(coupling, q):
    """Return the value of a coupling."""
    return sum(c * q[i] for i, c in coupling.positions) - coupling.offset


def coupling_rate(coupling, v):
    """Return the rate of a coupling; of accelerations, its second rate."""
    return sum(c * v[i] for i, c in coupling.coefficients)


def row_count(closure):
    """Return how many constraints a closure has."""
    return sum(basic.rows for basic in closure.constraints)


def row_names(tree):
    """Return, for each constraint, the name of the loop or coupling that it belongs to."""
    return [closure.name for closure in tree.closures for _ in range(row_count(closure))] + [coupling.name for coupling in tree.couplings]


def closing_wrenches(tree, q, multipliers):
    """Return what the multipliers of all constraints do at each closure: the wrenches on a and on b, each in the joint frame there."""
    found, first = [], 0
    for closure in tree.closures:
        number = row_count(closure)
        found.append(Loop(tree, q, closure).wrenches(multipliers[first : first + number]))
        first += number
    return found


def arm(tree, q, path):
    """Return where the last body of a way stands in the frame it starts from; and of each on the way its place and joint matrix there."""
    place, along = Rigid(np.eye(3), np.zeros(3)), {}
    for j in path:
        place = place @ tree.placement(j, q).rigid()
        along[j] = place, _in_base(place, tree.joint_matrix(j, q))
    return place, along


def arm_motion(tree, q, v, along):
    """Return velocity and bias acceleration, relative to the start of a way and in its frame, of the last body on it."""
    V, A = np.zeros(6), np.zeros(6)
    for j, (place, S) in along.items():
        drift, bias = _in_base(place, np.stack([tree.joint_drift(j), tree.joint_bias(j, q, v)], axis=1)).T
        relative = S @ v[tree.v_slices[j]] + drift
        V = V + relative
        A = A + cross_motion(V, relative) + bias
    return V, A


def _in_base(place, S):
    """Return the columns of S, motions in a frame that stands at `place`, as motions in the frame it stands in."""
    turning = place.R @ S[:3]
    shifted = [cross(place.p, turning[:, c]) for c in range(S.shape[1])]
    return np.concatenate([turning, place.R @ S[3:] + np.stack(shifted, axis=1)]) if shifted else S


# loops that share joints


class Joined(NamedTuple):
    """Loops and couplings that share joints, by number; with the rows of their constraints, and their velocity coordinates."""

    closures: tuple[int, ...]
    couplings: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]


def joined(tree):
    """Return the groups of loops and couplings that share joints: what is in one has no part in the constraints of another."""
    owner = {j: k for k, at in enumerate(tree.v_slices) for j in range(at.start, at.stop)}
    moving = set(owner.values())
    around = [{k for end in (closure.a, closure.b) for k in branch(tree, end, base(tree, closure))} & moving for closure in tree.closures]
    around += [{owner[i] for i, _ in coupling.coefficients} for coupling in tree.couplings]
    first = np.cumsum([0, *map(row_count, tree.closures), *[1] * len(tree.couplings)]).tolist()

    root = list(range(len(around)))

    def group(i):
        while root[i] != i:
            root[i] = i = root[root[i]]
        return i

    taken = {}
    for i, bodies in enumerate(around):
        for k in bodies:
            one, other = group(i), group(taken.setdefault(k, i))
            root[max(one, other)] = min(one, other)
    members = {}
    for i in range(len(around)):
        members.setdefault(group(i), []).append(i)
    found, loops = [], len(tree.closures)
    for numbers in members.values():
        bodies = sorted(set().union(*(around[i] for i in numbers)))
        found.append(
            Joined(
                tuple(i for i in numbers if i < loops),
                tuple(i - loops for i in numbers if i >= loops),
                tuple(row for i in numbers for row in range(first[i], first[i + 1])),
                tuple(j for k in bodies for j in range(tree.v_slices[k].start, tree.v_slices[k].stop)),
            )
        )
    return tuple(found)


def whole(tree):
    """Return all loops and couplings as one group, with all velocity coordinates."""
    rows = sum(map(row_count, tree.closures)) + len(tree.couplings)
    counts = len(tree.closures), len(tree.couplings), rows, tree.nv
    return Joined(*(tuple(range(count)) for count in counts))


def constraint_jacobian(tree, q, rows=rows, group=None):
    """Return the values of a group's constraints, without one of all, and their Jacobian on its coordinates: closures, then couplings."""
    group = whole(tree) if group is None else group
    place = {j: c for c, j in enumerate(group.columns)}
    values, J = [np.zeros(0)], [np.zeros((0, len(place)))]
    for i in group.closures:
        value, columns = Loop(tree, q, tree.closures[i]).jacobian(rows)
        block = np.zeros((len(value), len(place))).astype(object)
        for j, column in columns.items():
            block[:, place[j]] = column
        values.append(value)
        J.append(block)
    tree.mark()
    for i in group.couplings:
        row = np.zeros((1, len(place)))
        for j, c in tree.couplings[i].coefficients:
            row[0, place[j]] = c
        values.append(np.array([coupling_value(tree.couplings[i], q)]))
        J.append(row)
    return np.concatenate(values), np.concatenate(J)


def constraint_motion(tree, q, v, group=None):
    """Return the rates of a group's constraints, without one of all, and their right-hand side: Jacobian times vdot.

    With driven joints the constraints depend on time: the rates have Phi_t, and the right-hand side its rate.
    """
    group = whole(tree) if group is None else group
    both = [Loop(tree, q, tree.closures[i]).motion(v) for i in group.closures]
    tree.mark()
    rates = [coupling_rate(tree.couplings[i], v) for i in group.couplings]
    return np.concatenate([*(rate for rate, _ in both), np.array(rates)]), np.concatenate([*(g for _, g in both), np.zeros(len(rates))])
