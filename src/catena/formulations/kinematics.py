"""The kinematics that all formulations share.

Frames   every quantity of body k is expressed in the frame of body k, at its joint.

    here  meaning
    X     placement of body k in its parent: motions outward, forces and inertias inward
    S     joint matrix, 6 x nv of the joint
    V     spatial velocity
    drift Omega_t of [NLT03] (13), (23): what a joint does by itself; zero unless it is driven
    W     (omega, 0): V less the velocity of the body's origin
    A     acceleration: d(omega)/dt, and that of the body's origin
    a     what A of body k has beyond X A of its parent and S vdot: Coriolis, centrifugal, and the rate of the drift
    b     gyroscopic force of body k, W x* (M W), less the wrench that acts on it from outside

With A of the origin, as [J91] has it, the velocity of the origin is in no equation: a and b need the turning only. The rate of V as a
spatial vector is A less (0, omega x v).
"""

from __future__ import annotations

import numpy as np

from catena.spatial import Rigid, cross, gyroscopic, straight_line


def placements(tree, q):
    """Return the placements X and joint matrices S of all bodies."""
    X, S = tree.columns(2)
    for k in tree.outward():
        X[k] = tree.placement(k, q)
        S[k] = tree.joint_matrix(k, q)
    return X, S


def root_frames(tree, X):
    """Return the frames of all bodies, each in that of its root, which is the body on the ground that carries it."""
    (frames,) = tree.columns(1)
    for k in tree.outward():
        frames[k] = root_frame(frames[tree.parent[k]], X[k])
    return frames


def root_frame(inboard, X):
    """Return the frame of a body in that of its root, where that of its parent is; the root's parent has None."""
    if inboard is None:
        return Rigid(np.eye(3), np.zeros(3))
    return inboard @ X


def moved_motion(frame, V):
    """Return a motion in the frame that a body's is given in."""
    turning = frame.R @ V[:3]
    return np.concatenate([turning, frame.R @ V[3:] + cross(frame.p, turning)])


def moved_force(frame, f):
    """Return a force in the frame that a body's is given in."""
    force = frame.R @ f[3:]
    return np.concatenate([frame.R @ f[:3] + cross(frame.p, force), force])


def velocities(tree, q, v):
    """Return placements X, joint matrices S and velocities V of all bodies."""
    X, S, V = tree.columns(3)
    V[-1] = np.zeros(6)

    # outward: J91 (13), NLT03 (23)
    for k in tree.outward():
        X[k] = tree.placement(k, q)
        S[k] = tree.joint_matrix(k, q)
        V[k] = X[k].motion(V[tree.parent[k]]) + S[k] @ v[tree.v_slices[k]] + tree.joint_drift(k)
    return X, S, V


def angular_velocities(tree, q, v):
    """Return placements X, joint matrices S, angular velocities W and bias accelerations a of all bodies."""
    X, S, W, a = tree.columns(4)
    W[-1] = np.zeros(6)

    # outward: J91 (13), (14)
    for k in tree.outward():
        X[k], S[k], W[k], a[k] = outward_step(tree, k, q, v, W[tree.parent[k]])
    return X, S, W, a


def outward_step(tree, k, q, v, W):
    """Return placement X, joint matrix S, angular velocity W and bias acceleration a of body k, from W of its parent. J91 (13), (14)."""
    X, S = tree.placement(k, q), tree.joint_matrix(k, q)
    W, a = _turning(X, S, tree.joint_drift(k), W, v[tree.v_slices[k]])
    return X, S, W, a + tree.joint_bias(k, q, v)


@straight_line
def _turning(X, S, drift, W, v):
    relative = S @ v + drift
    carried = X.motion(W)  # how the parent's turning moves the body's origin
    inboard, outboard = carried[:3], carried[:3] + relative[:3]
    moving = cross(inboard, carried[3:]) + cross(inboard + outboard, relative[3:])
    return np.concatenate([outboard, np.zeros(3)]), np.concatenate([cross(inboard, relative[:3]), moving])


def bias_wrench(M, k, W, wrenches):
    """Return b of body k of inertia M[k], which turns with W; `wrenches` has a column of wrenches on the bodies, or is None. J91 (11)."""
    return bias_of_body(M[k], W, None if wrenches is None else wrenches[k])


def bias_of_body(M, W, wrench):
    """Return b of a body of inertia M, which turns with W, under a wrench, or None. J91 (11)."""
    b = gyroscopic(M, W)
    return b if wrench is None else b - wrench


def rest_acceleration(tree):
    """Return the acceleration of the ground that stands for gravity: upward."""
    return np.concatenate([np.zeros(3), -tree.gravity])


def world_frames(tree, q):
    """Return where the canonical frame of every body stands in the world, as dense placements; last the ground's."""
    (frames,) = tree.columns(1)
    frames[-1] = tree.ground
    for k in tree.outward():
        frames[k] = frames[tree.parent[k]] @ tree.placement(k, q)
    return frames
