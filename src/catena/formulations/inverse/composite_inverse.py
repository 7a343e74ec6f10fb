"""Inverse dynamics by composite bodies.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §3, Lemma 3.2 and (29); for trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint.
Cost     O(n); the inward recursion of y and the outward recursion of A do not depend on each other.

    paper     here  meaning
    phi       X     shift between parent and body
    H*        S     joint matrix
    alpha     A     acceleration
    R         R     composite inertia: of the body and all that it carries, as if welded
    y         y     correction force, for what the joints outboard do
    f         f     force across the joint, on the body
    T         tau   joint force

The paper leaves out the velocity terms; with (27) they enter the same recursions: f = R A + y, where y gathers b and R (S vdot + a).
"""

from __future__ import annotations

import numpy as np

from catena.formulations.inertias import composite_inertias
from catena.formulations.kinematics import angular_velocities, bias_wrench, rest_acceleration


def inverse_dynamics(tree, q, v, vdot, wrenches=None):
    """Return the joint forces tau that give the accelerations vdot."""
    X, S, W, a = angular_velocities(tree, q, v)
    R = composite_inertias(tree, X, tree.regrouped)
    (A,) = tree.columns(1)
    y = [np.zeros(6) for _ in R]
    tau = tree.vector()

    # inward: the force that the motion of the joints outboard needs
    for k in tree.inward():
        p = tree.parent[k]
        y[k] = y[k] + bias_wrench(tree.regrouped, k, W[k], wrenches)
        y[p] = y[p] + X[k].force(y[k] + R[k] @ (S[k] @ vdot[tree.v_slices[k]] + a[k]))

    # outward: accelerations, and the forces across the joints
    A[-1] = rest_acceleration(tree)
    for k in tree.outward():
        at = tree.v_slices[k]
        A[k] = X[k].motion(A[tree.parent[k]]) + S[k] @ vdot[at] + a[k]
        f = R[k] @ A[k] + y[k]
        tau[at] = S[k].T @ f + tree.armature[at] * vdot[at]
    return tau
