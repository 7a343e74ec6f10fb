"""Forward dynamics by conjugate gradients: the mass matrix is used through its products only.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §4, (30); for trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint.
Cost     O(n) for each step and, but for rounding, as many steps as there are degrees of freedom: O(n^2). The number of steps depends on
         values, so the iteration runs on floats; a product and a preconditioner can be traced.

    paper   here          meaning
    M p     product       mass matrix times a vector, by the Newton-Euler recursion at rest
    Lambda  precondition  block diagonal H R H* of the mass matrix
    r, z    r, z          residual, and the preconditioned residual
    p       p             direction of a step
    gamma   gamma         share of the last direction; the printed factor is mended to z.r over the z.r before
    s       s             length of a step
"""

from __future__ import annotations

from functools import partial

import numpy as np

from catena.formulations.inertias import composite_inertias
from catena.formulations.inverse.newton_euler import at_rest, bias_force
from catena.formulations.kinematics import placements
from catena.spatial import Factor

#: The iteration ends where the residual is this part of the right-hand side.
TOLERANCE = 1e-10


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


def forward_dynamics(tree, q, v, tau, wrenches=None, preconditioned=False):
    """Return vdot of the tree under the joint forces tau: solve M vdot = tau - C."""
    right = np.asarray(tau - bias_force(tree, q, v, wrenches), dtype=float)
    inverse = partial(precondition, tree, q) if preconditioned else np.copy
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
