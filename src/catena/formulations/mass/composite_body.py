"""Mass matrix by composite bodies.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §3, (28); for trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint.
Cost     O(n^2); branches of a tree do not meet, and their zeros cost nothing.

    paper    here  meaning
    phi      X     shift between parent and body
    H*       S     joint matrix
    R        R     composite inertia: of the body and all that it carries, as if welded
    X(k)     F     force that a unit joint acceleration needs
"""

from __future__ import annotations

import numpy as np

from catena.formulations.inertias import composite_inertias
from catena.formulations.kinematics import placements
from catena.spatial import symmetric


def mass_matrix(tree, q):
    """Return the mass matrix, nv x nv."""
    X, S = placements(tree, q)
    R = composite_inertias(tree, X, tree.regrouped)
    mass = np.zeros((tree.nv, tree.nv)).astype(object)

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
