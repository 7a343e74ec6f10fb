"""Forward dynamics by conjugate gradients: the mass matrix is used through its products only.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §4, (30); for trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint.
Cost     O(n) for each step and, but for rounding, as many steps as there are degrees of freedom: O(n^2). The number of steps depends on
         values, so the iteration runs on floats; a product and the preconditioners can be traced.

    paper   here          meaning
    M p     product       mass matrix times a vector, by the Newton-Euler recursion at rest
    Lambda  precondition  block diagonal H R H* of the mass matrix
    -       articulated   M^-1 as by articulated bodies, whose inertias know the next joints only
    r, z    r, z          residual, and the preconditioned residual
    p       p             direction of a step
    gamma   gamma         share of the last direction; the printed factor is mended to z.r over the z.r before
    s       s             length of a step
"""

from __future__ import annotations

from functools import partial

import numpy as np

from catena.formulations.inertias import across_joint, composite_inertias, force_inboard, motion_outboard
from catena.formulations.inverse.newton_euler import at_rest, bias_force
from catena.formulations.kinematics import placements
from catena.spatial import Factor

#: The iteration ends where the residual is this part of the right-hand side.
TOLERANCE = 1e-10

#: Joints that are free in the inertias of the preconditioner `articulated`: chains then take a fraction of an iteration for each body.
FREE = 8


def product(tree, q, x):
    """Return the mass matrix times x."""
    return at_rest(tree, *placements(tree, q), x)


def precondition(tree, q, r):
    """Return z where Lambda z = r: each joint by itself, as if all others were locked."""
    X, S = placements(tree, q)
    R = composite_inertias(tree, X, tree.regrouped)
    z = tree.vector()
    for k in tree.outward():
        at = tree.v_slices[k]
        z[at] = Factor(S[k].T @ R[k] @ S[k] + np.diag(tree.armature[at])).solve(r[at])
    return z


def articulated(tree, q, r):
    """Return z of the joint forces r by articulated bodies, in whose inertias the first so many joints outboard are free and others locked.

    M^-1 = [I - H psi K]* D^-1 [I - H psi K] is symmetric and positive for any gains, and exact for those of all joints.
    """
    X, S = placements(tree, q)
    P = composite_inertias(tree, X, tree.regrouped)
    for _ in range(FREE):
        outboard, P = P, [*tree.regrouped, np.zeros((6, 6))]
        for k in tree.inward():
            p = tree.parent[k]
            P[p] = P[p] + X[k].inertia(across_joint(S[k], tree.armature[tree.v_slices[k]], outboard[k])[2])
    nu, G, A = tree.columns(3)
    f, z = [np.zeros(6) for _ in P], tree.vector()
    for k in tree.inward():
        D, G[k], _ = across_joint(S[k], tree.armature[tree.v_slices[k]], P[k])
        e, felt = force_inboard(S[k], G[k], f[k], r[tree.v_slices[k]])
        nu[k], p = D.solve(e), tree.parent[k]
        f[p] = f[p] + X[k].force(felt)
    A[-1] = np.zeros(6)
    for k in tree.outward():
        z[tree.v_slices[k]], A[k] = motion_outboard(S[k], G[k], nu[k], X[k].motion(A[tree.parent[k]]))
    return z


def forward_dynamics(tree, q, v, tau, wrenches=None, preconditioner=None):
    """Return vdot of the tree under the joint forces tau: solve M vdot = tau - C."""
    right = np.asarray(tau - bias_force(tree, q, v, wrenches), dtype=float)
    inverse = np.copy if preconditioner is None else partial(preconditioner, tree, q)
    return conjugate_gradients(partial(product, tree, q), inverse, right, TOLERANCE)


def conjugate_gradients(product, precondition, right, tolerance):
    """Return x where product(x) = right, to a residual of `tolerance` times the right-hand side."""
    x, r, p, z_r = np.zeros_like(right), right, np.zeros_like(right), np.inf
    for _ in range(10 * right.size):
        if np.linalg.norm(r) <= tolerance * np.linalg.norm(right):
            break
        z = np.asarray(precondition(r), dtype=float)
        gamma, z_r = z @ r / z_r, z @ r
        p = z + gamma * p
        Mp = np.asarray(product(p), dtype=float)
        s = z_r / (p @ Mp)
        x = x + s * p
        r = r - s * Mp
    return x
