"""The kinematics that all formulations share.

Frames   every quantity of body k is expressed in the frame of body k, at its joint; spatial accelerations.

    here  meaning
    X     placement of body k in its parent: motions outward, forces and inertias inward
    S     joint matrix, 6 x nv of the joint
    V     spatial velocity
    W     Omega_t of [NLT03] (13), (23): what a joint does by itself; zero unless it is driven
    a     what the spatial acceleration of body k has beyond that of its parent and S vdot:  V x (S v + W) + dS/dt v + dW/dt
    b     gyroscopic force of body k, less the wrench that acts on it from outside
"""

from __future__ import annotations

import numpy as np

from catena.spatial import cross_motion, gyroscopic


def placements(tree, q):
    """Return the placements X and joint matrices S of all bodies."""
    X, S = tree.columns(2)
    for k in tree.outward():
        X[k] = tree.placement(k, q)
        S[k] = tree.joint_matrix(k, q)
    return X, S


def velocities(tree, q, v):
    """Return placements X, joint matrices S, velocities V and bias accelerations a of all bodies."""
    X, S, V, a = tree.columns(4)
    V[-1] = np.zeros(6)

    # outward: J91 (13), (14); NLT03 (23)
    for k in tree.outward():
        X[k] = tree.placement(k, q)
        S[k] = tree.joint_matrix(k, q)
        relative = S[k] @ v[tree.v_slices[k]] + tree.joint_drift(k)
        V[k] = X[k].motion(V[tree.parent[k]]) + relative
        a[k] = cross_motion(V[k], relative) + tree.joint_bias(k, q, v)
    return X, S, V, a


def bias_wrench(tree, k, V, wrenches):
    """Return b of body k, which moves with V; `wrenches` has a column of wrenches on the bodies, or is None."""
    b = gyroscopic(tree.M[k], V)
    return b if wrenches is None or wrenches[k] is None else b - wrenches[k]


def rest_acceleration(tree):
    """Return the acceleration of the ground that stands for gravity: upward."""
    return np.concatenate([np.zeros(3), -tree.gravity])


def world_frames(tree, q):
    """Return where the canonical frame of every body stands in the world, as dense placements; last the ground's."""
    (frames,) = tree.columns(1)
    frames[-1] = tree.ground
    for k in tree.outward():
        frames[k] = frames[tree.parent[k]] @ tree.placement(k, q).rigid()
    return frames
