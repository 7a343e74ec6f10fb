"""Kinematics and inertias in one frame for all bodies, in which derivatives along joints need no placements.

Source   [SRW22] Singh, Russell, Wensing, Efficient analytical derivatives of rigid-body dynamics using spatial vector algebra, §II.
Frames   every quantity is expressed in the frame of the body on the ground that carries the others, its root.
Joints   their matrices are constant in the frame of their body: `with_simple_joints`.

    paper    here   meaning
    S        S      joint matrix
    v, a     V, A   spatial velocity and acceleration; gravity is an upward acceleration of the ground
    psi'     Psi    V x S with the parent's velocity: how the velocity changes along the joint, seen from the body
    psi''    Psi2   the same of the acceleration
    I        J,h,m  rotational inertia, first moment and mass
    2 B      Y,L,p  of x: (Y x - L x x, -2 p x x), with the angular part of x; L, p are the momentum, Y is symmetric
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from catena.formulations.kinematics import rest_acceleration
from catena.spatial import Rigid, columns, cross, cross_force, cross_motion, first_moment


class Kinematics(NamedTuple):
    """Of every body: joint matrix, velocity, and the acceleration that its joint adds without vdot; the acceleration of the ground."""

    S: list[Any]
    V: list[Any]
    a: list[Any]
    ground: list[Any]
    frames: list[Any]


def kinematics(tree, q, v):
    """Return the kinematics of all bodies, each in the frame of its root."""
    S, V, a, ground, frames = tree.columns(5)

    for k in tree.outward():
        X, p = tree.placement(k, q), tree.parent[k]
        if p < 0:
            frames[k], ground[k], inboard = Rigid(np.eye(3), np.zeros(3)), X.motion(rest_acceleration(tree)), np.zeros(6)
        else:
            frames[k], ground[k], inboard = frames[p] @ X, ground[p], V[p]
        S[k] = columns(partial(_moved, frames[k]), tree.joint_matrix(k, q))
        relative = S[k] @ v[tree.v_slices[k]] + _moved(frames[k], tree.joint_drift(k))
        V[k] = inboard + relative
        a[k] = cross_motion(inboard, relative) + _moved(frames[k], tree.joint_bias(k, q, v))
    return Kinematics(S, V, a, ground, frames)


def _moved(frame, V):
    """Return a motion of a body in the common frame."""
    turning = frame.R @ V[:3]
    return np.concatenate([turning, frame.R @ V[3:] + cross(frame.p, turning)])


class Inertia(NamedTuple):
    """Rotational inertia and first moment at the origin of the common frame, and mass; of a body, or of several."""

    J: Any
    h: Any
    mass: Any

    def __add__(self, other):
        return Inertia(self.J + other.J, self.h + other.h, self.mass + other.mass)

    def momentum(self, V):
        """Return the inertia times a motion: (angular, linear)."""
        return np.concatenate([self.J @ V[:3] + cross(self.h, V[3:]), self.mass * V[3:] - cross(self.h, V[:3])])

    def matrix(self):
        """Return the 6 x 6 inertia."""
        h = self.h
        skew = np.array([[0.0, -h[2], h[1]], [h[2], 0.0, -h[0]], [-h[1], h[0], 0.0]], dtype=object)
        return np.concatenate([np.concatenate([self.J, skew], axis=1), np.concatenate([-skew, self.mass * np.eye(3)], axis=1)])


def inertia(frame, M):
    """Return the inertia of a body, M in its own frame, in the common frame."""
    R, p, mass = frame.R, frame.p, M[3, 3]
    turned, h = R @ M[:3, :3], R @ first_moment(M)
    J = np.empty((3, 3), dtype=object)
    moved = 2.0 * h + mass * p  # J = R J R^T - p~ h~ - h~ p~ - m p~ p~, and a~ b~ + b~ a~ = b a^T + a b^T - 2 (a . b) 1
    square = p @ moved
    for i in range(3):
        for j in range(i + 1):
            entry = turned[i] @ R[j] - 0.5 * (p[i] * moved[j] + p[j] * moved[i])
            J[i, j] = J[j, i] = entry + square if i == j else entry
    return Inertia(J, h + mass * p, mass)


class Drag(NamedTuple):
    """How the force of bodies changes with their velocity, 2 B of the paper; of a body, or of several."""

    Y: Any
    L: Any
    p: Any

    def __add__(self, other):
        return Drag(self.Y + other.Y, self.L + other.L, self.p + other.p)

    def force(self, x):
        """Return 2 B x, where x is the angular part of a change of velocity."""
        return np.concatenate([self.Y @ x - cross(self.L, x), -2.0 * cross(self.p, x)])

    def row(self, s):
        """Return s^T 2 B, for the angular part of a change of velocity."""
        return self.Y @ s[:3] + cross(self.L, s[:3]) + 2.0 * cross(self.p, s[3:])


def drag(body, V):
    """Return the momentum of a body of an inertia that moves with V, and its drag."""
    momentum = body.momentum(V)
    omega, v, h = V[:3], V[3:], body.h
    K = np.stack([cross(omega, body.J[:, i]) for i in range(3)], axis=1)  # omega~ J
    Y = np.empty((3, 3), dtype=object)
    twice = 2.0 * (v @ h)
    for i in range(3):
        for j in range(i + 1):
            entry = K[i, j] + K[j, i] - (h[i] * v[j] + h[j] * v[i])
            Y[i, j] = Y[j, i] = entry + twice if i == j else entry
    return momentum, Drag(Y, momentum[:3], momentum[3:])


def changes(S, V, A):
    """Return psi' and psi'' of a joint, whose parent moves with V and A."""
    Psi = crossed(V, S)
    return Psi, crossed(A, S) + crossed(V, Psi)


def crossed(V, S):
    """Return V x S of the columns of a matrix."""
    return columns(partial(cross_motion, V), S)


def body_force(body, momentum, V, A):
    """Return the force that a body needs for its motion."""
    return body.momentum(A) + cross_force(V, momentum)
