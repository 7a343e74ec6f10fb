"""The kinematics of a loop, in the frame of its base.

Source   [CA03] (5), (6), (23)-(26): the recursions (3), (4) along the two branches of a loop, from its base to the closing joint.
         [SS01] (7): the same along a leg.
Frames   that of the loop's base, or of the ground for a leg: motions at its origin, where they need no shift.
Cost     O(bodies of the loop)

    CA03   SS01  here  meaning
    P_r^k  p_i   S     what a unit rate of a coordinate adds to the motion of all bodies outboard of it
    V^k    t_i   V     velocity relative to the base
    A_t^k  -     A     bias acceleration relative to the base: what is left of it where vdot is zero
"""

from __future__ import annotations

import numpy as np

from catena.formulations.loops.basic_constraints import constraint_rows, ends, right_hand_sides
from catena.spatial import Rigid, cross, cross_motion


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


def loop_bodies(tree, closure):
    """Return the bodies around a loop, from one end to the other, without its base."""
    stop = base(tree, closure)
    return [*reversed(branch(tree, closure.a, stop)), *branch(tree, closure.b, stop)]


def velocity_coordinates(tree, bodies):
    """Return the velocity coordinates of bodies, in order."""
    return [j for k in bodies for j in range(tree.v_slices[k].start, tree.v_slices[k].stop)]


def branch_placements(tree, q, bodies):
    """Return the placement of the last body of a branch in the frame where it starts; and placement and S of every body there."""
    place, along = Rigid(np.eye(3), np.zeros(3)), {}
    for k in bodies:
        place = place @ tree.placement(k, q)
        along[k] = place, _in_base(place, tree.joint_matrix(k, q))
    return place, along


def branch_motion(tree, q, v, along):
    """Return velocity and bias acceleration of the last body of a branch, relative to its start and in the frame there."""
    V, A = np.zeros(6), np.zeros(6)
    for k, (place, S) in along.items():
        drift, bias = _in_base(place, np.stack([tree.joint_drift(k), tree.joint_bias(k, q, v)], axis=1)).T
        relative = S @ v[tree.v_slices[k]] + drift
        V = V + relative
        A = A + cross_motion(V, relative) + bias
    return V, A


def _in_base(place, S):
    """Return the columns of S, motions in a frame that stands at `place`, as motions in the frame it stands in."""
    turning = place.R @ S[:3]
    shifted = [cross(place.p, turning[:, c]) for c in range(S.shape[1])]
    return np.concatenate([turning, place.R @ S[3:] + np.stack(shifted, axis=1)]) if shifted else S


class ClosureKinematics:
    """A closure at q, in the frame of its loop's base: the joint frames at its ends, and what the joints around the loop do there."""

    def __init__(self, tree, q, closure):
        tree.mark()
        self.tree, self.q, self.closure = tree, q, closure
        stop = base(tree, closure)
        self.branches = [branch_placements(tree, q, branch(tree, k, stop)) for k in (closure.a, closure.b)]
        self.at = ends(closure, self.branches[0][0], self.branches[1][0], np.eye(3))

    def jacobian(self, rows=constraint_rows, only=None):
        """Return the values of the constraints, and what each velocity coordinate around the loop does to them; to some, if given."""
        value, *r = rows(self.closure, self.at)
        only = range(len(value)) if only is None else only
        columns = {}
        for row, (_, along) in zip(r, self.branches, strict=True):
            for k, (_, S) in along.items():
                columns |= dict(zip(velocity_coordinates(self.tree, [k]), (row[list(only)] @ S).T, strict=True))
        return value, columns

    def motion(self, v):
        """Return the rates of the constraints, and their right-hand sides: Jacobian times vdot."""
        (V_a, A_a), (V_b, A_b) = (branch_motion(self.tree, self.q, v, along) for _, along in self.branches)
        _, r_a, r_b = constraint_rows(self.closure, self.at)
        return r_a @ V_a + r_b @ V_b, right_hand_sides(self.closure, self.at, V_a, V_b) - r_a @ A_a - r_b @ A_b

    def wrenches(self, multipliers):
        """Return what the multipliers of the constraints do at the ends: the wrenches on a and on b, each in the joint frame there."""
        _, *r = constraint_rows(self.closure, self.at)
        frames = Rigid(self.at.R_a, self.at.p_a), Rigid(self.at.R_b, self.at.p_b)
        return [frame.inverse().force(row.T @ multipliers) for frame, row in zip(frames, r, strict=True)]
