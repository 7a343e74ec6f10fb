"""The inertia that a body shows to a force on one of its points.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §6, Lemma 6.4 and (57); for trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint; the result at a point, in the world's axes.
Cost     O(n) for the articulated inertias, then O(depth of the body); nothing branches on a value, so the function can be traced.

    paper  here  meaning
    phi*   X     shift between parent and body
    H*     S     joint matrix
    D, G   D, G  joint inertia and gain; D holds the armature too
    psi*         (I - S G^T) X
    -      Y     block on the diagonal of psi* H* D^-1 H psi: the acceleration of a body for a unit force on it

With J = B* phi* H*, where B picks the body and the point, (57) turns J M^-1 J* into B* psi* H* D^-1 H psi B. The mass matrix is not needed.
"""

from __future__ import annotations

import numpy as np

from catena.formulations.inertias import articulated_inertias
from catena.formulations.kinematics import placements, world_frames
from catena.spatial import Placement, Rigid, symmetric


def operational_inverse(tree, q, name, point):
    """Return J M^-1 J^T (6 x 6) for the motion J v of a point of the named body, in the world's axes."""
    X, S = placements(tree, q)
    _, D, G = articulated_inertias(tree, X, S, tree.regrouped)
    k, frame = tree.frames[name]
    Y = np.zeros((6, 6))

    # outward along the path to the body: psi* Y psi of the parent, and what the body's own joint adds
    for j in reversed(list(tree.path(k))):
        tree.mark()
        Y = X[j].motions(X[j].motions(Y).T)
        Y = Y - S[j] @ (G[j].T @ Y)
        Y = Y - (Y @ G[j]) @ S[j].T + S[j] @ np.stack([D[j].solve(row) for row in S[j]], axis=1)
    tree.mark()

    to_world = Rigid(world_frames(tree, q)[k].R.T, np.zeros(3))
    seen = Placement((Rigid(np.eye(3), frame.p + frame.R @ point), to_world))
    return symmetric(seen.motions(seen.motions(Y).T))
