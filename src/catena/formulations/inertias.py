"""Inertias of bodies together: welded, and jointed.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §3 (24), (25), §5 (33), (39)-(42), (45); for trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint.
Cost     O(n)

    paper  here    meaning
    R      R       composite inertia: of the body and all that it carries, as if welded
    P, P+  P       articulated inertia: of the body and all that it carries, joints free; outboard and inboard of the joint
    D, G   D, G    joint inertia and gain; D holds the armature too, which the paper does not treat
"""

from __future__ import annotations

import numpy as np

from catena.spatial import Factor, gain, minus_product


def composite_inertias(tree, X, M):
    """Return the composite inertias R of bodies of inertias M, last the ground's."""
    R = [*M, np.zeros((6, 6))]

    # inward: (25)
    for k in tree.inward():
        p = tree.parent[k]
        R[p] = R[p] + X[k].inertia(R[k])
    return R


def articulated_inertias(tree, X, S, M):
    """Return articulated inertias P of bodies of inertias M, the factors of the joint inertias D, and the gains G; last the ground's."""
    P = [*M, np.zeros((6, 6))]
    D, G = tree.columns(2)

    # inward: (45)
    for k in tree.inward():
        p = tree.parent[k]
        D[k], G[k], P_plus = across_joint(tree, k, P[k], S[k])
        P[p] = P[p] + X[k].inertia(P_plus)
    return P, D, G


def across_joint(tree, k, P, S):
    """Return the factor of joint inertia D, the gain G, and the inertia P+ that is felt inboard of joint k."""
    U = P @ S
    D = S.T @ U + np.diag(tree.armature[tree.v_slices[k]])
    factor = Factor(D)
    G = gain(U, D, factor)
    return factor, G, minus_product(P, G, U)
