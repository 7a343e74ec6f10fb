"""Mass matrix column by column, each from the bodies that its coordinate moves.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §3, symmetry based method; for trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint.
Cost     O(n^2), about half of the direct method: a column stops at its own joint, and symmetry gives what is inboard of it.

    paper  here  meaning
    phi    X     shift between parent and body
    H*     S     joint matrix
    alpha  A     acceleration
    f      f     force across the joint
"""

from __future__ import annotations

import numpy as np

from catena.formulations.kinematics import placements
from catena.spatial import symmetric


def mass_matrix(tree, q):
    """Return the mass matrix, nv x nv."""
    X, S = placements(tree, q)
    mass = np.zeros((tree.nv, tree.nv)).astype(object)

    for k in range(tree.n):
        at = tree.v_slices[k]
        A, f = tree.columns(2)

        # outward from the body, for a unit acceleration of each of its coordinates: all that it carries moves along
        A[k] = S[k]
        for j in tree.outward():
            if j > k and A[tree.parent[j]] is not None:
                A[j] = X[j].motions(A[tree.parent[j]])
            if A[j] is not None:
                f[j] = tree.regrouped[j] @ A[j]

        # inward to the body: forces across the joints
        for j in tree.inward():
            if A[j] is not None:
                block = S[j].T @ f[j]
                mass[tree.v_slices[j], at] = block
                mass[at, tree.v_slices[j]] = block.T
                if j > k:
                    f[tree.parent[j]] = f[tree.parent[j]] + X[j].forces(f[j])
        mass[at, at] = symmetric(mass[at, at]) + np.diag(tree.armature[at])
    return mass
