"""The spatial operators at one configuration: products with the mass matrix, its inverse and its square factors, each recursive.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §2 (18)-(21), §5 (45), (46), §6 (53)-(59); for
         trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint; in `quantities` in the frame that the user gave it.
Cost     O(n) each; nothing branches on a value, so the functions can be traced.

    paper    here     meaning
    phi      X        shift between parent and body
    H*       S        joint matrix
    M, R, P  M, R, P  inertia of the body, of the composite body, of the articulated body
    D, G     D, G     joint inertia and gain; D holds the armature too, which the paper does not treat
    D^(1/2)  C        upper triangular root of the joint inertia, D = C C^T
    z        z        correction force
    eps, nu  e, nu    effective joint force, and the acceleration it gives
    alpha    A        acceleration

With W = [I + H phi K] D^(1/2), the mass matrix is W W* (Lemma 6.2), and its inverse V V* with V = W^-* (Lemmas 6.3, 6.4). Bodies are
numbered outward, so that W is upper triangular. The armature changes none of this: it is part of the mass matrix and of D.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.formulations.inertias import articulated_inertias, composite_inertias
from catena.formulations.kinematics import placements
from catena.spatial import Placement


class Factors(NamedTuple):
    """What the products need of a configuration: columns over the bodies."""

    X: list[Any]
    S: list[Any]
    D: list[Any]  # in factors
    G: list[Any]
    C: list[Any]
    C_inverse: list[Any]


def factors(tree, q):
    """Return the factors of the mass matrix at q."""
    X, S = placements(tree, q)
    _, D, G = articulated_inertias(tree, X, S, tree.regrouped)
    C, C_inverse = tree.columns(2)
    for k in tree.outward():
        C[k], C_inverse[k] = joint_root(D[k])
    return Factors(X, S, D, G, C, C_inverse)


def joint_root(D):
    """Return C and its inverse, upper triangular, of a joint inertia D = C C^T, which is given in factors L^T w^-1 L."""
    n, L = len(D.w), D.L
    scale = [np.sqrt(w) for w in D.w]
    inverse_L, C, C_inverse = (np.zeros((n, n)).astype(object) for _ in range(3))
    for k in range(n):
        inverse_L[k, k] = 1.0
        for i in range(k):
            inverse_L[k, i] = -(L[k, i:k] @ inverse_L[i:k, i])
    for k in range(n):
        size = 1.0 / scale[k]
        C[: k + 1, k] = [*(L[k, i] * size for i in range(k)), size]
        C_inverse[k, k:] = scale[k] * inverse_L[k:, k]
    return C, C_inverse


def mass_inverse(tree, factors, x):
    """Return the inverse of the mass matrix times x. (46), (55)."""
    X, S, D, G, _, _ = factors
    nu, A = tree.columns(2)
    z = _rest(tree)
    y = tree.vector()

    # inward: effective joint forces, and the accelerations they give
    for k in tree.inward():
        at, p = tree.v_slices[k], tree.parent[k]
        e = x[at] - S[k].T @ z[k]
        nu[k] = D[k].solve(e)
        z[p] = z[p] + X[k].force(z[k] + G[k] @ e)

    # outward: accelerations
    A[-1] = np.zeros(6)
    for k in tree.outward():
        A_plus = X[k].motion(A[tree.parent[k]])
        y[tree.v_slices[k]] = nu[k] - G[k].T @ A_plus
        A[k] = A_plus + S[k] @ y[tree.v_slices[k]]
    return y


def root(tree, factors, x):
    """Return W x."""
    X, S, _, G, C, _ = factors
    z = _rest(tree)
    y = tree.vector()

    # inward: [I + H phi K] C x
    for k in tree.inward():
        at, p = tree.v_slices[k], tree.parent[k]
        u = C[k] @ x[at]
        y[at] = u + S[k].T @ z[k]
        z[p] = z[p] + X[k].force(z[k] + G[k] @ u)
    return y


def root_transposed(tree, factors, x):
    """Return W* x."""
    X, S, _, G, C, _ = factors
    A = _rest(tree)
    y = tree.vector()

    # outward: C^T [I + K* phi* H*] x
    for k in tree.outward():
        at = tree.v_slices[k]
        A_plus = X[k].motion(A[tree.parent[k]])
        y[at] = C[k].T @ (x[at] + G[k].T @ A_plus)
        A[k] = A_plus + S[k] @ x[at]
    return y


def root_inverse(tree, factors, x):
    """Return W^-1 x, which is V* x."""
    X, S, _, G, _, C_inverse = factors
    z = _rest(tree)
    y = tree.vector()

    # inward: C^-1 [I - H psi K] x
    for k in tree.inward():
        at, p = tree.v_slices[k], tree.parent[k]
        e = x[at] - S[k].T @ z[k]
        y[at] = C_inverse[k] @ e
        z[p] = z[p] + X[k].force(z[k] + G[k] @ e)
    return y


def root_inverse_transposed(tree, factors, x):
    """Return W^-* x, which is V x."""
    X, S, _, G, _, C_inverse = factors
    A = _rest(tree)
    y = tree.vector()

    # outward: [I - H psi K]* C^-T x
    for k in tree.outward():
        at = tree.v_slices[k]
        A_plus = X[k].motion(A[tree.parent[k]])
        y[at] = C_inverse[k].T @ x[at] - G[k].T @ A_plus
        A[k] = A_plus + S[k] @ y[at]
    return y


def log_det_mass(tree, factors):
    """Return the logarithm of the determinant of the mass matrix, which is that of D."""
    total = 0.0
    for k in tree.outward():
        for w in factors.D[k].w:
            total = total - np.log(w)
    return total


def quantities(tree, q):
    """Return X (6 x 6), S, M, R, P, D, G of the bodies, as lists of arrays in the user's frames."""
    X, S = placements(tree, q)
    R = composite_inertias(tree, X, tree.M)
    P, _, G = articulated_inertias(tree, X, S, tree.M)
    frame = [tree.frames[name][1] for name in (*tree.names, "ground")]
    back = [each.inverse() for each in frame]
    bodies = range(tree.n)
    return (
        [Placement((back[tree.parent[k]], *X[k].factors, frame[k])).motions(np.eye(6)) for k in bodies],
        [Placement((frame[k],)).motions(S[k]) for k in bodies],
        [back[k].inertia(tree.M[k]) for k in bodies],
        [back[k].inertia(R[k]) for k in bodies],
        [back[k].inertia(P[k]) for k in bodies],
        [S[k].T @ P[k] @ S[k] + np.diag(tree.armature[tree.v_slices[k]]) for k in bodies],
        [Placement((back[k],)).forces(G[k]) for k in bodies],
    )


def _rest(tree):
    """Return a column of spatial vectors that are zero, last the ground's."""
    return [np.zeros(6) for _ in range(tree.n + 1)]
