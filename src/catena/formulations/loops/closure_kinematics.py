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
from catena.spatial import Rigid, cross, cross_motion, straight_line


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
        place, S = _outboard(place, tree.placement(k, q), tree.joint_matrix(k, q))
        along[k] = place, S
    return place, along


@straight_line
def _outboard(place, X, S):
    place = place @ X
    return place, _in_base(place, S)


def _in_base(place, S):
    """Return the columns of S, motions in a frame that stands at `place`, as motions in the frame it stands in."""
    turning = place.R @ S[:3]
    shifted = [cross(place.p, turning[:, c]) for c in range(S.shape[1])]
    return np.concatenate([turning, place.R @ S[3:] + np.stack(shifted, axis=1)]) if shifted else S


def branch_motion(tree, q, v, along):
    """Return velocity and bias acceleration of the last body of a branch, relative to its start and in the frame there."""
    return _last_motion(_joints(tree, q, v, along))


def _joints(tree, q, v, along):
    """Return what moves the bodies of a branch: their placements and S at its start, and the drift, the bias and the rates of joints."""
    return tuple((*at, tree.joint_drift(k), tree.joint_bias(k, q, v), v[tree.v_slices[k]]) for k, at in along.items())


@straight_line
def _last_motion(joints):
    V, A = np.zeros(6), np.zeros(6)
    for place, S, drift, bias, rates in joints:
        drift, bias = _in_base(place, np.stack([drift, bias], axis=1)).T
        relative = S @ rates + drift
        V = V + relative
        A = A + cross_motion(V, relative) + bias
    return V, A


class ClosureKinematics:
    """A closure at q, in the frame of its loop's base: the joint frames at its ends, and what the joints around the loop do there."""

    def __init__(self, tree, q, closure):
        tree.mark()
        self.tree, self.q, self.closure = tree, q, closure
        stop = base(tree, closure)
        self.branches = [branch_placements(tree, q, branch(tree, k, stop)) for k in (closure.a, closure.b)]
        self.at = ends(closure.at_a, closure.at_b, self.branches[0][0], self.branches[1][0], np.eye(3))

    def jacobian(self, rows=constraint_rows, only=None):
        """Return the values of the constraints, and what each velocity coordinate around the loop does to them; to some, if given."""
        motions = tuple(S for _, along in self.branches for _, S in along.values())
        value, *columns = _jacobian(rows, self.closure.constraints, self.at, only, len(self.branches[0][1]), motions)
        coordinates = velocity_coordinates(self.tree, [k for _, along in self.branches for k in along])
        return value, dict(zip(coordinates, columns, strict=True))

    def motion(self, v):
        """Return the rates of the constraints, and their right-hand sides: Jacobian times vdot."""
        return _rates(self.closure.constraints, self.at, *(_joints(self.tree, self.q, v, along) for _, along in self.branches))

    def wrenches(self, multipliers):
        """Return what the multipliers of the constraints do at the ends: the wrenches on a and on b, each in the joint frame there."""
        _, *r = constraint_rows(self.closure.constraints, self.at)
        frames = Rigid(self.at.R_a, self.at.p_a), Rigid(self.at.R_b, self.at.p_b)
        return [frame.inverse().force(row.T @ multipliers) for frame, row in zip(frames, r, strict=True)]


@straight_line
def _jacobian(rows, constraints, at, only, first, motions):
    """Return the values of constraints, and their columns: `first` of the motions are on the way to body a."""
    value, r_a, r_b = rows(constraints, at)
    only = list(range(len(value)) if only is None else only)
    return value, *(column for k, S in enumerate(motions) for column in ((r_a if k < first else r_b)[only] @ S).T)


@straight_line
def _rates(constraints, at, to_a, to_b):
    (V_a, A_a), (V_b, A_b) = _last_motion(to_a), _last_motion(to_b)
    _, r_a, r_b = constraint_rows(constraints, at)
    return r_a @ V_a + r_b @ V_b, right_hand_sides(constraints, at, V_a, V_b) - r_a @ A_a - r_b @ A_b
