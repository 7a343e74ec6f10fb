"""Mass matrix by composite bodies, and forward dynamics through its factors.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §3, (24), (25), (28), (22); for trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint.
Cost     O(n^2) for the matrix, O(n^3) for its factors; branches of a tree do not meet, and their zeros cost nothing.

    paper    here  meaning
    phi      X     shift between parent and body
    H*       S     joint matrix
    R        R     composite inertia: of the body and all that it carries, as if welded
    X(k)     F     force that a unit joint acceleration needs
    C        C     bias force
"""

from __future__ import annotations

import numpy as np

from catena.formulations.kinematics import placements
from catena.formulations.newton_euler import bias_force
from catena.spatial import Factor, symmetric


def mass_matrix(tree, q):
    """Return the mass matrix, nv x nv."""
    X, S = placements(tree, q)
    R = [*tree.M, np.zeros((6, 6))]
    mass = np.zeros((tree.nv, tree.nv)).astype(object)

    # inward: composite inertias
    for k in tree.inward():
        p = tree.parent[k]
        R[p] = R[p] + X[k].inertia(R[k])

    # inward from every body: a column of the matrix, down to the ground
    for k in range(tree.n):
        F = R[k] @ S[k]
        at = tree.v_slices[k]
        for j in tree.path(k):
            block = S[j].T @ F
            mass[tree.v_slices[j], at] = block
            mass[at, tree.v_slices[j]] = block.T
            F = X[j].forces(F)
        mass[at, at] = symmetric(mass[at, at]) + np.diag(tree.armature[at])
    return mass


def forward_dynamics(tree, q, v, tau, wrenches=None):
    """Return vdot of the tree under the joint forces tau: solve M vdot = tau - C.

    `wrenches` act on the bodies: one (moment, force) for each body in its frame, at its origin, or None; last the ground's.
    """
    mass = mass_matrix(tree, q)
    C = bias_force(tree, q, v, wrenches)
    return Factor(mass, tree.mark).solve(tau - C)
