"""Where frames on bodies stand and how they move, against the ground or against another body, in axes of choice.

Frames   motions are carried outward from the nearest body that both ends hang on, as if it stood still: how it moves is of no matter to how
         one end moves against the other, and its joints are in no column of the Jacobian.
Cost     O(depth); nothing branches on a value, so the functions can be traced.

    here  meaning
    X, S  placement of a body in its parent, joint matrix
    V, A  velocity of a body; its acceleration, that of its origin last
    P     the point, which is fixed on the first body
    u     (angular, linear) velocity of the first body, at P, against the second; its rate is as seen from the second body
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.formulations.kinematics import outward_step, world_frames
from catena.spatial import Rigid, cross

IDENTITY = Rigid(np.eye(3), np.zeros(3))


def poses(tree, q, names):
    """Return the 4 x 4 poses of the named bodies and frames in the world."""
    frames = world_frames(tree, q)
    return np.stack([(frames[k] @ offset).matrix() for k, offset in (tree.frames[name] for name in names)])


def velocity(tree, q, v, name, point, axes="world", against="ground"):
    """Return the angular velocity of a frame, and the velocity of a point in it."""
    ends = _Ends(tree, q, name, point, axes, against)
    (u, _), (carried, _) = (ends.motion(end, v, np.zeros(tree.nv)) for end in ends)
    return ends.turned(u - carried)


def acceleration(tree, q, v, vdot, name, point, axes="world", against="ground"):
    """Return the angular acceleration of a frame, and the acceleration of a point in it."""
    ends = _Ends(tree, q, name, point, axes, against)
    (u, udot), (carried, rate) = (ends.motion(end, v, vdot) for end in ends)
    omega, u = carried[:3], u - carried
    return ends.turned(udot - rate - np.concatenate([cross(omega, u[:3]), 2.0 * cross(omega, u[3:])]))


def jacobian(tree, q, name, point, axes="world", against="ground"):
    """Return the 6 x nv matrix that maps v to the velocity of a frame and a point in it."""
    ends = _Ends(tree, q, name, point, axes, against)
    J, carried = (ends.columns(end) for end in ends)
    return np.stack([ends.turned(J[:, c] - carried[:, c]) for c in range(tree.nv)], axis=1)


class _End(NamedTuple):
    """A body, the point on it in its frame, and its frame in that of the base; whether it is what the axes of `_Ends` are fixed on."""

    k: int
    P: Any
    place: Rigid
    own: bool


class _Ends:
    """The frame and what it moves against, at a configuration, and axes: "world", "body" or those of a name.

    Motions are in the axes of the frame's body where that moves against the base alone, otherwise in those of the base.
    """

    def __init__(self, tree, q, name, point, axes, against):
        self.tree, self.q = tree, q
        k, offset = tree.frames[name]
        other, _ = tree.frames[against]
        self.base = _common(tree, k, other)
        alone, place = other == self.base, self._place(k, self.base)
        P = offset.p + offset.R @ point
        self.first = _End(k, P, place, alone)
        there = self._place(other, self.base)
        self.second = _End(other, np.zeros(3) if alone else there.R.T @ (place.p + place.R @ P - there.p), there, alone)
        self.R = self._rotation(axes, k, offset, place, alone)

    def __iter__(self):
        return iter((self.first, self.second))

    def _rotation(self, axes, k, offset, place, alone):
        """Return the rotation from the axes of motions to those wanted, None where they are the same."""
        if axes == "body":
            return offset.R.T if alone else (place.R @ offset.R).T
        if axes == "world":
            return self._place(k, -1).R if alone else (None if self.base == -1 else self._place(self.base, -1).R)
        other, turned = self.tree.frames[axes]
        within = self.base if self.base in _inward(self.tree, other) else -1
        R = (self._place(other, within).R @ turned.R).T
        return R if not alone and within == self.base else R @ self._place(k if alone else self.base, within).R

    def _place(self, k, base):
        """Return the frame of body k in that of a base inboard of it; on the ground, in the world."""
        frame = self.tree.ground if base == -1 else IDENTITY
        for j in self._outward(k, base):
            frame = frame @ self.tree.placement(j, self.q)
        return frame

    def _outward(self, k, base):
        return reversed([j for j in _inward(self.tree, k) if j not in _inward(self.tree, base)])

    def motion(self, end, v, vdot):
        """Return the motion of an end at the point, against the base, and its rate."""
        V = W = A = np.zeros(6)
        for j in self._outward(end.k, self.base):
            self.tree.mark()
            X, S, W, a = outward_step(self.tree, j, self.q, v, W)
            V = X.motion(V) + S @ v[self.tree.v_slices[j]] + self.tree.joint_drift(j)
            A = X.motion(A) + S @ vdot[self.tree.v_slices[j]] + a
        self.tree.mark()
        omega, shift = V[:3], Rigid(np.eye(3), end.P)
        bent = np.concatenate([np.zeros(3), cross(omega, cross(omega, end.P))])
        return self._in_axes(end, shift.motion(V)), self._in_axes(end, shift.motion(A) + bent)

    def columns(self, end):
        """Return the columns of the Jacobian of an end at the point, against the base."""
        J, inboard = np.zeros((6, self.tree.nv)).astype(object), []
        for j in self._outward(end.k, self.base):
            self.tree.mark()
            if inboard:
                J[:, inboard] = self.tree.placement(j, self.q).motions(J[:, inboard])
            J[:, self.tree.v_slices[j]] = self.tree.joint_matrix(j, self.q)
            inboard += range(self.tree.v_slices[j].start, self.tree.v_slices[j].stop)
        self.tree.mark()
        shift = Rigid(np.eye(3), end.P)
        for c in inboard:
            J[:, c] = self._in_axes(end, shift.motion(J[:, c]))
        return J

    def _in_axes(self, end, u):
        return u if end.own else np.concatenate([end.place.R @ u[:3], end.place.R @ u[3:]])

    def turned(self, u):
        """Return a motion in the axes wanted."""
        return u if self.R is None else np.concatenate([self.R @ u[:3], self.R @ u[3:]])


def _inward(tree, k):
    """Return a body, its parent, and so on; last the ground."""
    path = [k]
    while path[-1] >= 0:
        path.append(tree.parent[path[-1]])
    return path


def _common(tree, a, b):
    """Return the nearest body that two bodies hang on, which may be one of them."""
    below = _inward(tree, a)
    return next(k for k in _inward(tree, b) if k in below)
