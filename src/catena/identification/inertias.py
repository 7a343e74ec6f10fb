"""Inertias of bodies that exist, by ten numbers without bounds. [RW22]

A body has a density that is nowhere negative where its pseudo-inertia, 4 x 4, is positive definite:

    [ Sigma  h ]   [ 1  c ] [ Sigma_c  0 ] [ 1    0 ]
    [ h^T    m ] = [ 0  1 ] [ 0        m ] [ c^T  1 ]

with the first moment h = m c, and second moments Sigma_c = U U^T about the centre of mass c, from which the inertia is tr(Sigma_c) 1 -
Sigma_c. The numbers are log m, c, and the upper triangle of U with the logarithms of its diagonal: they are those of the log-Cholesky
factor of the pseudo-inertia, with its last column divided by the square root of m. So each of mass, centre and inertia can be held.

    here   meaning
    theta  log m, c, U: (0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)
    phi    m, c, inertia about c: xx, xy, xz, yy, yz, zz
    pi     m, h, inertia at the origin, in the same order
"""

from __future__ import annotations

import numpy as np

from catena.formulations.inverse.regressor import ENTRIES
from catena.model import Body
from catena.spatial import skew

_EYE = np.eye(3)

#: Second moments that a search begins with at least, as a part of mass and length squared: rods and points have none across.
_THICK = 1e-6


def packed(A: np.ndarray) -> np.ndarray:
    """Return the entries of a symmetric matrix."""
    return np.array([A[i, j] for i, j in ENTRIES])


def unpacked(x: np.ndarray) -> np.ndarray:
    """Return a symmetric matrix of its entries."""
    A = np.zeros((3, 3))
    for (i, j), value in zip(ENTRIES, x, strict=True):
        A[i, j] = A[j, i] = value
    return A


def start(body: Body, length: float) -> np.ndarray:
    """Return theta of a body; one without mass or without extent has a little, as a part of a length [m]."""
    mass = max(body.mass, 1e-6)
    inertia = np.asarray(body.inertia)
    spread, axes = np.linalg.eigh(0.5 * np.trace(inertia) * _EYE - inertia)
    sigma = (axes * np.maximum(spread, _THICK * mass * length**2)) @ axes.T
    U = np.linalg.cholesky(sigma[::-1, ::-1])[::-1, ::-1]  # the upper factor is the lower one of the matrix turned round
    return np.array([np.log(mass), *body.com, *(np.log(U[i, j]) if i == j else U[i, j] for i, j in ENTRIES)])


def physical(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return phi of theta, and its derivative, 10 x 10."""
    mass, U = np.exp(theta[0]), np.zeros((3, 3))
    for (i, j), x in zip(ENTRIES, theta[4:], strict=True):
        U[i, j] = np.exp(x) if i == j else x
    by = np.zeros((10, 10))
    by[0, 0], by[1:4, 1:4] = mass, _EYE
    for k, (i, j) in enumerate(ENTRIES):
        dU = np.zeros((3, 3))
        dU[i, j] = U[i, j] if i == j else 1.0
        by[4:, 4 + k] = packed(_turning(dU @ U.T + U @ dU.T))
    return np.array([mass, *theta[1:4], *packed(_turning(U @ U.T))]), by


def _turning(sigma: np.ndarray) -> np.ndarray:
    """Return the inertia of second moments."""
    return np.trace(sigma) * _EYE - sigma


def linear(phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pi of phi, and its derivative, 10 x 10."""
    mass, c = phi[0], phi[1:4]
    by = np.eye(10)
    by[1:4, 0], by[1:4, 1:4] = c, mass * _EYE
    by[4:, 0] = packed(-skew(c) @ skew(c))
    for k in range(3):
        by[4:, 1 + k] = mass * packed(-skew(_EYE[k]) @ skew(c) - skew(c) @ skew(_EYE[k]))
    return np.array([mass, *(mass * c), *(phi[4:] + mass * by[4:, 0])]), by


def unlinear(pi: np.ndarray) -> np.ndarray:
    """Return phi of pi."""
    c = pi[1:4] / pi[0]
    return np.array([pi[0], *c, *(pi[4:] - pi[0] * packed(-skew(c) @ skew(c)))])


def pseudo_inertia(pi: np.ndarray) -> np.ndarray:
    """Return the pseudo-inertia, 4 x 4, of pi; it is linear in it."""
    J, P = unpacked(pi[4:]), np.zeros((4, 4))
    P[:3, :3], P[:3, 3], P[3, :3], P[3, 3] = 0.5 * np.trace(J) * _EYE - J, pi[1:4], pi[1:4], pi[0]
    return P


_BASIS = np.array([pseudo_inertia(one) for one in np.eye(10)])


def divergence(pi: np.ndarray, other: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Return tr(P0^-1 P) - log det P of a body and another, with gradient and Hessian by pi; infinite where it is no real body.

    It is convex, and least where the two are alike.
    """
    P = pseudo_inertia(pi)
    if np.linalg.eigvalsh(P)[0] <= 0.0:
        return np.inf, np.zeros(10), np.eye(10)
    near, moved = np.linalg.solve(pseudo_inertia(other), _BASIS), np.linalg.solve(P, _BASIS)
    gradient = np.trace(near - moved, axis1=1, axis2=2)
    value = float(np.trace(near, axis1=1, axis2=2) @ pi - np.linalg.slogdet(P)[1])
    return value, gradient, np.einsum("aij,bji->ab", moved, moved)
