"""Inverse dynamics by the Newton-Euler recursion.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §2, (17); for trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint.
Cost     O(n); nothing branches on a value, so the function can be traced.

    paper     here  meaning
    phi       X     shift between parent and body
    H*        S     joint matrix
    V, alpha  W, A  velocity, of which the turning counts, and acceleration
    a, b      a, b  bias acceleration and gyroscopic force; b is less the wrench that acts on the body
    M         M     inertia of the body, or what the joints feel of it
    f         f     force across the joint, on the body
    T         tau   joint force
"""

from __future__ import annotations

import numpy as np

from catena.formulations.kinematics import angular_velocities, bias_wrench, placements, rest_acceleration


def inverse_dynamics(tree, q, v, vdot, wrenches=None):
    """Return the joint forces tau that give the accelerations vdot."""
    return _forces(tree, tree.regrouped, q, v, vdot, wrenches)[0]


def joint_wrenches(tree, q, v, vdot, wrenches=None):
    """Return the joint forces of the accelerations vdot, and the wrench across each joint on its body; last on the ground."""
    return _forces(tree, tree.M, q, v, vdot, wrenches)


def _forces(tree, M, q, v, vdot, wrenches):
    """Return the joint forces, and the wrenches across the joints, of bodies of inertias M."""
    X, S, W, a = angular_velocities(tree, q, v)
    A, f = tree.columns(2)

    # outward: accelerations, and the force that each body needs by itself
    A[-1] = rest_acceleration(tree)
    for k in tree.outward():
        A[k] = X[k].motion(A[tree.parent[k]]) + S[k] @ vdot[tree.v_slices[k]] + a[k]
        f[k] = M[k] @ A[k] + bias_wrench(M, k, W[k], wrenches)
    return _joint_forces(tree, X, S, f, vdot)


def _joint_forces(tree, X, S, f, vdot):
    """Return the joint forces and the wrenches across the joints, where each body needs the force f by itself."""
    tau = tree.vector()

    # inward: forces across the joints
    f = [*f[:-1], np.zeros(6)]
    for k in tree.inward():
        at, p = tree.v_slices[k], tree.parent[k]
        tau[at] = S[k].T @ f[k] + tree.armature[at] * vdot[at]
        f[p] = f[p] + X[k].force(f[k])
    return tau, f


def bias_force(tree, q, v, wrenches=None):
    """Return the joint forces C that hold the motion at vdot = 0: Coriolis, centrifugal, gyroscopic and gravity, less the wrenches'."""
    return inverse_dynamics(tree, q, v, np.zeros(tree.nv), wrenches)


def gravity_force(tree, q):
    """Return the joint forces that hold the tree at rest against gravity; driven joints are where they are."""
    rest = np.zeros(tree.nv)
    return inverse_dynamics(tree.resting(), q, rest, rest)


def coriolis_force(tree, q, v):
    """Return the joint forces that hold the motion at vdot = 0 without gravity, with those that the motion of driven joints takes."""
    return bias_force(tree.weightless(), q, v)


def momenta(tree, q, v):
    """Return the canonical momenta p = M v, and what driven joints add to them. [NLT03] (19), (26), (34)."""
    X, S = placements(tree, q)
    V, P = tree.columns(2)

    # outward: (23), and the momentum of each body by itself
    V[-1] = np.zeros(6)
    for k in tree.outward():
        V[k] = X[k].motion(V[tree.parent[k]]) + S[k] @ v[tree.v_slices[k]] + tree.joint_drift(k)
        P[k] = tree.M[k] @ V[k]
    return _joint_forces(tree, X, S, P, v)[0]


def wrench_forces(tree, q, wrenches):
    """Return the joint forces that wrenches on the bodies are worth."""
    X, S = placements(tree, q)
    f = [np.zeros(6) if wrench is None else wrench for wrench in wrenches]
    return _joint_forces(tree, X, S, f, np.zeros(tree.nv))[0]


def at_rest(tree, X, S, vdot):
    """Return the joint forces of the accelerations vdot at rest and without gravity: the mass matrix times vdot."""
    A, f = tree.columns(2)

    # outward: accelerations, and the force that each body needs by itself
    A[-1] = np.zeros(6)
    for k in tree.outward():
        A[k] = X[k].motion(A[tree.parent[k]]) + S[k] @ vdot[tree.v_slices[k]]
        f[k] = tree.regrouped[k] @ A[k]
    return _joint_forces(tree, X, S, f, vdot)[0]
