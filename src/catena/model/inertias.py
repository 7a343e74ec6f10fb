"""Inertias of rigid bodies at one frame and at another."""

from __future__ import annotations

import numpy as np

from catena.spatial import Placement, Rigid, first_moment, inertia_matrix


def com(M: np.ndarray) -> np.ndarray:
    """Return the centre of mass of an inertia; that of nothing is the origin."""
    return first_moment(M) / M[3, 3] if M[3, 3] > 0.0 else np.zeros(3)


def dusted(x: np.ndarray, scale: float) -> np.ndarray:
    """Return x with entries that are only the rounding of numbers as large as the scale set to zero."""
    return np.where(np.abs(x) <= 1e-14 * scale, 0.0, x)


def moved(M: np.ndarray, placement: Placement | Rigid) -> np.ndarray:
    """Return a rigid-body inertia of the child in the parent frame, and exactly so: symmetric, skew off-diagonal blocks, one mass."""
    length = float(max(np.abs(com(M)).max(), np.abs(placement.rigid().p).max()))
    mass = float(M[3, 3])
    turning = max(float(np.abs(M[:3, :3]).max()), mass * length**2)
    M = placement.inertia(M).astype(float)
    return inertia_matrix(dusted(0.5 * (M[:3, :3] + M[:3, :3].T), turning), dusted(first_moment(M), mass * length), mass)
