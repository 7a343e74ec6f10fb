"""Mass matrix by composite bodies, whose forces meet in one frame.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §3, (28); for trees.
Frames   joint matrices and forces are expressed in the frame of the body on the ground that carries the others, inertias in the body's own.
Cost     O(n^2): an entry is the product of two vectors of 6, where `composite_body` takes a force from body to body for each.

    paper    here  meaning
    H*       S     joint matrix
    R        R     composite inertia: of the body and all that it carries, as if welded
    X(k)     F     force that a unit joint acceleration needs
"""

from __future__ import annotations

import numpy as np

from catena.formulations.inertias import composite_inertias
from catena.formulations.kinematics import moved_force, moved_motion, placements, root_frames

#: Rows and columns of the matrix that are computed together: what is read of one serves all of the others.
ROWS, COLUMNS = 4, 8


def mass_matrix(tree, q):
    """Return the mass matrix, nv x nv."""
    X, S = placements(tree, q)
    R = composite_inertias(tree, X, tree.regrouped)
    frames, rows, forces = root_frames(tree, X), [], []
    for k in range(tree.n):
        tree.mark()
        rows += [(k, moved_motion(frames[k], s)) for s in S[k].T]
        forces += [(k, moved_force(frames[k], f)) for f in (R[k] @ S[k]).T]

    mass = np.zeros((tree.nv, tree.nv)).astype(object)
    carriers = [set(tree.path(k)) for k in range(tree.n)]
    for start in range(0, tree.nv, ROWS):
        for j, (outboard, f) in enumerate(forces[start:], start):
            if (j - start) % COLUMNS == 0:
                tree.mark()
            for i, (inboard, s) in enumerate(rows[start : min(start + ROWS, j + 1)], start):
                if inboard in carriers[outboard]:
                    mass[i, j] = mass[j, i] = s @ f + (tree.armature[i] if i == j else 0.0)
    return mass
