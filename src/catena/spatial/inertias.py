"""Inertias of rigid bodies, 6 x 6."""

from __future__ import annotations

import numpy as np

from catena.spatial.placements import EYE, Placement, Rigid, blocks
from catena.spatial.straight_line import of_objects, straight_line
from catena.spatial.vectors import Array, cross, plain, skew


def rigid_inertia(mass: float, com: Array, about_com: Array) -> Array:
    """Return the 6 x 6 inertia at the origin of a body of given mass [kg], centre of mass [m] and inertia about it [kg m^2]."""
    h = mass * np.asarray(com)
    return inertia_matrix(about_com - skew(h) @ skew(com), h, mass)


def inertia_matrix(J: Array, h: Array, mass: float) -> Array:
    """Return the 6 x 6 inertia of rotational inertia J [kg m^2], first moment h [kg m] and mass [kg], all at the origin."""
    arm = skew(h)
    return blocks(J, arm, -arm, mass * EYE)


def first_moment(M: Array) -> Array:
    """Return the first moment of a body of inertia M [kg m]."""
    return np.array([M[2, 4], M[0, 5], M[1, 3]])


def centroid(M: Array) -> Array:
    """Return the centre of mass of a body of inertia M, in the axes of its frame; that of nothing is the origin."""
    if isinstance(M[3, 3], float):
        return first_moment(M) / M[3, 3] if M[3, 3] > 0.0 else np.zeros(3)
    return first_moment(M) / (M[3, 3] + 1e-300)  # traced; without mass there is no first moment


@straight_line
def carried(X: Placement, M: Array) -> Array:
    """Return the inertia M of a rigid body that moves with the child, seen in the parent frame: ten numbers, where `inertia` turns 21."""
    J, h, mass = M[:3, :3], first_moment(M), M[3, 3]
    for factor in reversed(X.factors):
        J, h = factor.rotational(J, h, mass), factor.moment(h, mass)
    return inertia_matrix(J, h, mass)


def welded(M: Array, other: Array) -> Array:
    """Return the inertia of two rigid bodies as one."""
    return inertia_matrix(M[:3, :3] + other[:3, :3], first_moment(M) + first_moment(other), M[3, 3] + other[3, 3])


def dusted(x: Array, scale: float) -> Array:
    """Return x with entries that are only the rounding of numbers as large as the scale set to zero."""
    return np.where(np.abs(x) <= 1e-14 * scale, 0.0, x)


def moved(M: Array, placement: Placement | Rigid) -> Array:
    """Return a rigid-body inertia of the child in the parent frame, and exactly so: symmetric, skew off-diagonal blocks, one mass."""
    if of_objects(M) or placement.of_objects:
        return carried(placement if isinstance(placement, Placement) else Placement([placement]), M)
    length = max(map(abs, (*centroid(M).tolist(), *placement.rigid().p.tolist())))
    mass = float(M[3, 3])
    turning = max(float(np.abs(M[:3, :3]).max()), mass * length**2)
    M = placement.inertia(M).astype(float)
    return inertia_matrix(dusted(0.5 * (M[:3, :3] + M[:3, :3].T), turning), dusted(first_moment(M), mass * length), mass)


@straight_line
def gyroscopic(M: Array, V: Array) -> Array:
    """Return the force V x* (M V) of a rigid body: what keeps it on its motion V with no spatial acceleration."""
    omega, v = V[:3], V[3:]
    h, mass = first_moment(M), M[3, 3]
    turning = cross(omega, v)
    J = M[:3, :3] - M[1, 1] * EYE  # what is alike about all axes turns with omega
    moment = cross(omega, J @ omega) + cross(h, turning)
    return np.concatenate([moment, mass * turning + cross(omega, cross(omega, h))])


@straight_line
def minus_product(P: Array, G: Array, U: Array) -> Array:
    """Return P - G U^T where that is symmetric; each entry off the diagonal is computed once."""
    result = np.empty(P.shape, dtype=object)
    rank = [_plainness(row) for row in G]
    for i in range(P.shape[0]):
        for j in range(i + 1):
            # G U^T is symmetric: take the side on which G is ones and zeros, so that zeros are exact, or numbers
            a, b = (j, i) if rank[j] > rank[i] else (i, j)
            entry = P[i, j]
            for c in range(G.shape[1]):
                entry = entry - G[a, c] * U[b, c]
            result[i, j] = result[j, i] = entry
    return plain(result)


def symmetric(A: Array) -> Array:
    """Return a matrix that is symmetric but for rounding, with its lower triangle on both sides."""
    result = A.copy()
    for i in range(A.shape[0]):
        for j in range(i):
            result[j, i] = A[i, j]
    return result


def _plainness(row: Array) -> int:
    """Return 2 if a row is made of ones and zeros, 1 if of numbers, else 0."""
    if not all(isinstance(entry, float) for entry in row):
        return 0
    return 2 if all(entry in (0.0, 1.0) for entry in row) else 1
