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

from catena.spatial import Factor, carried, gain, minus_product, plain, straight_line, vanishes, welded


def composite_inertias(tree, X, M):
    """Return the composite inertias R of rigid bodies of inertias M, last the ground's."""
    R = [*M, np.zeros((6, 6))]

    # inward: (25)
    for k in tree.inward():
        p = tree.parent[k]
        R[p] = welded(R[p], carried(X[k], R[k]))
    return R


def articulated_inertias(tree, X, S, M):
    """Return articulated inertias P of bodies of inertias M, the factors of the joint inertias D, and the gains G; last the ground's."""
    P = [*M, np.zeros((6, 6))]
    D, G = tree.columns(2)

    # inward: (45)
    for k in tree.inward():
        p = tree.parent[k]
        D[k], G[k], P_plus = across_joint(S[k], tree.armature[tree.v_slices[k]], P[k])
        P[p] = P[p] + X[k].inertia(P_plus)
    return P, D, G


@straight_line
def across_joint(S, armature, P):
    """Return the factor of joint inertia D, the gain G, and the inertia P+ that is felt inboard of a joint."""
    U = P @ S
    D = S.T @ U + np.diag(armature)
    factor = Factor(D)
    G = gain(U, D, factor)
    return factor, G, minus_product(P, G, U)


@straight_line
def force_inboard(S, G, z, tau):
    """Return the effective joint force e = tau - S^T z, and z + G e: the force z of a body as it is felt inboard of its joint.

    Along a coordinate of which G has a row of the identity, that is tau.
    """
    e = tau - S.T @ z
    own = _own_rows(S, G)
    felt = z + np.array([0.0 if i in own else x for i, x in enumerate(G @ e)], dtype=object)
    for i, j in own.items():
        felt[i] = tau[j]
    return e, plain(felt)


@straight_line
def motion_outboard(S, G, nu, A):
    """Return vdot = nu - G^T A, and A + S vdot: the motion A as it is outboard of a joint.

    Along a coordinate of which G has a row of the identity, that is nu less what the other entries of A do.
    """
    own = _own_rows(S, G)
    if len(own) < S.shape[1]:
        vdot = nu - G.T @ A
        return vdot, A + S @ vdot
    outboard = np.array([0.0 if i in own else x for i, x in enumerate(A)], dtype=object)
    along = nu - G.T @ outboard
    vdot = np.empty(len(own), dtype=object)
    for i, j in own.items():
        vdot[j], outboard[i] = along[j] - A[i], along[j]
    return plain(vdot), plain(outboard)


def _own_rows(S, G):
    """Return, by row, the columns of S that are one of the unit vectors, where G has the row of the identity that belongs to it."""
    found = {}
    for j in range(S.shape[1]):
        rows = [i for i, x in enumerate(S[:, j]) if not vanishes(x)]
        if len(rows) == 1 and all(isinstance(x, float) and x == (c == j) for part in (S, G) for c, x in enumerate(part[rows[0]])):
            found[rows[0]] = j
    return found
