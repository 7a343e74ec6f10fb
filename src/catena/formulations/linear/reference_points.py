"""The motion and the mass of bodies in the world's axes, at an analysis reference point of choice.

Source   [KY03] Kang & Yoon, On the improvement of a fully recursive formulation, (3)-(27), (31)-(36); for trees.
Frames   every quantity is expressed in the axes of the ground's frame, which is fixed in the world. The state of a body is taken at its
         reference point: the `centroid`, the point of its `joint`, or the `origin`, the point of the body that is at the ground's origin at
         this instant. Accelerations are those of points of the body; at the origin they are spatial accelerations.
Cost     O(n)

    paper       here         meaning
    A_j         A            orientation
    r_j, r_ij   r, step      joint j from the ground's origin, and from joint i of the parent
    rho_j       rho          centroid from the joint; zero where there is no mass
    B^w, B^v    B            joint matrix, at the joint
    w_ij, v_ij  relative     velocity of the body relative to its parent, at the joint
    s^P         -(e + rho)   reference point from the centroid; e is the joint from the reference point
    T^P         T            shift from the reference point to the centroid
    Y, D        Y, D         velocity state, and the velocity square term of its derivative
    B_1, B_2    B1, B2       shift from the parent's reference point to the body's, and joint matrix at the reference point
    M, Q        M, Q         mass matrix and force

    reference   e            shift of B1             remarks
    centroid    -rho_j       step + rho_j - rho_i    (22)-(27), (3)
    joint       0            step                    B2 is B
    origin      r_j          0                       (31)-(36); B1 is the identity and takes no operations

The paper is linear first, catena angular first: Y = (w, rdot). Gravity is a force on the centroid, as in the paper. Joint matrices are
given in the body's axes, so that v_ij turns with the body: its rate has w_j x v_ij where (27) and (35) have w_i x v_ij, and what the joint
matrix changes by in these axes is added. Of a driven joint, v_ij and its rate have what it does by itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.spatial import Placement, Rigid, Screw, centroid, cross, skew, symmetric


class Motion(NamedTuple):
    """How a body moves, whatever the reference point."""

    A: Any
    r: Any
    r_rate: Any
    rho: Any
    rho_rate: Any
    omega: Any
    step: Any
    step_rate: Any
    B: Any
    relative: Any
    relative_rate: Any  # at constant joint velocities


class State(NamedTuple):
    """A body at its reference point: Ydot = B1 Ydot_i + B2 vdot + D, and M Ydot = Q where it is alone."""

    B1: Placement
    B2: Any
    D: Any
    M: Any
    Q: Any
    Y: Any
    e: Any
    e_rate: Any


def states(tree, q, v, reference, wrenches=None):
    """Return the motions of all bodies and their states at the reference points; last the ground's."""
    motion, state = tree.columns(2)
    zero, none, columns = np.zeros(3), np.zeros(6), np.zeros((6, 0))
    motion[-1] = Motion(np.eye(3), zero, zero, zero, zero, zero, zero, zero, columns, none, none)
    state[-1] = State(shift(zero), columns, none, np.zeros((6, 6)), none, none, zero, zero)

    # outward: (9)-(27), (31)-(36)
    for k in tree.outward():
        p = tree.parent[k]
        motion[k] = motion_of(tree, k, q, v, motion[p])
        state[k] = state_of(tree, k, motion[k], motion[p], state[p], reference, None if wrenches is None else wrenches[k])
    return motion, state


def motion_of(tree, k, q, v, parent):
    """Return how body k moves, from the motion of its parent."""
    place = Rigid(parent.A, np.zeros(3)) @ tree.placement(k, q)  # (9), (11)-(13)
    A, step = place.R, place.p
    r, rho = parent.r + step, A @ centroid(tree.M[k])  # (14), (11)

    B = turned(A, tree.joint_matrix(k, q))  # (15), (16)
    relative = B @ v[tree.v_slices[k]] + turned(A, tree.joint_drift(k))  # (17), (18)
    omega = parent.omega + relative[:3]  # (19)
    step_rate, rho_rate = cross(parent.omega, step) + relative[3:], cross(omega, rho)  # (20)
    r_rate = parent.r_rate + step_rate  # (21)
    turning = np.concatenate([cross(omega, relative[:3]), cross(omega, relative[3:])])
    return Motion(A, r, r_rate, rho, rho_rate, omega, step, step_rate, B, relative, turning + turned(A, tree.joint_bias(k, q, v)))


def state_of(tree, k, motion, parent, inboard, reference, wrench):
    """Return the state of body k, whose parent moves as `parent` and has the state `inboard`."""
    A, omega, rate = motion.A, motion.omega, motion.relative_rate
    e, e_rate = from_reference(motion.r, motion.rho, reference), from_reference(motion.r_rate, motion.rho_rate, reference)
    if reference == "origin":  # one point for all bodies
        along = along_rate = np.zeros(3)
    else:
        along, along_rate = motion.step - e + inboard.e, motion.step_rate - e_rate + inboard.e_rate

    # (22)-(27), (31)-(35)
    B1, B2 = shift(along), np.concatenate([motion.B[:3], motion.B[3:] + cross(e, motion.B[:3])])
    D = np.concatenate([rate[:3], cross(parent.omega, along_rate) + rate[3:] + cross(e_rate, motion.relative[:3]) + cross(e, rate[:3])])
    Y = np.concatenate([omega, motion.r_rate - cross(omega, e)])

    # (3), (8), (36)
    T, mass = shift(e + motion.rho), tree.M[k][3, 3]
    J = symmetric(A @ about_centroid(tree.M[k]) @ A.T)
    M = T.inertia(np.block([[J, np.zeros((3, 3))], [np.zeros((3, 3)), mass * np.eye(3)]]))
    T_rate_Y = cross(omega, e_rate + motion.rho_rate)
    Q = T.force(np.concatenate([-cross(omega, J @ omega), mass * tree.gravity - mass * T_rate_Y]))
    if wrench is not None:
        Q = Q + shift(e).force(turned(A, wrench))
    return State(B1, B2, D, M, Q, Y, e, e_rate)


def from_reference(r, rho, reference):
    """Return the joint as seen from the reference point; from the rates of r and rho, its rate."""
    return {"centroid": -rho, "joint": np.zeros(3), "origin": r}[reference]


def shift(r):
    """Return the shift by r, made of cross products with r; a component that is zero takes no operations."""
    return Placement(Screw(axis, d=r[axis]) for axis in range(3))


def turned(A, x):
    """Return a spatial vector, or columns of them, in the axes that A turns to."""
    return np.concatenate([A @ x[:3], A @ x[3:]])


def about_centroid(M):
    """Return the rotational inertia of a body about its centroid, in the axes of its frame."""
    J = symmetric(M[:3, :3] + M[:3, 3:] @ skew(centroid(M)))
    if J.dtype == object:
        return J
    return np.where(np.abs(J) > 1e-14 * np.abs(M[:3, :3]), J, 0.0)  # what is left of entries that cancel is rounding
