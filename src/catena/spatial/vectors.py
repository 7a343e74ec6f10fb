"""Spatial vectors: cross products of motions and forces, and arrays of them.

Spatial vectors are angular first: motion (omega, v), force (moment, force).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = Any  # a NumPy array of floats or of traced scalars


def cross(a: Array, b: Array) -> Array:
    """Return a x b."""
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def skew(a: Array) -> Array:
    """Return the matrix of a x."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def cross_motion(V: Array, W: Array) -> Array:
    """Return V x W for motions: the rate of W, fixed in a frame that moves with V."""
    return np.concatenate([cross(V[:3], W[:3]), cross(V[:3], W[3:]) + cross(V[3:], W[:3])])


def cross_force(V: Array, f: Array) -> Array:
    """Return V x* f: the rate of a force f, fixed in a frame that moves with V."""
    return np.concatenate([cross(V[:3], f[:3]) + cross(V[3:], f[3:]), cross(V[:3], f[3:])])


def columns(function: Callable[[Array], Array], S: Array) -> Array:
    """Return a matrix whose columns are functions of those of S."""
    return np.stack([function(S[:, c]) for c in range(S.shape[1])], axis=1) if S.shape[1] else S


def stack_columns(columns: Sequence[Array]) -> Array:
    """Return 6-vectors as the columns of a matrix."""
    return np.stack(columns, axis=1) if columns else np.zeros((6, 0))


def vanishes(x: Any) -> bool:
    """Return whether a scalar, or all entries of an array, are the number zero; traced ones are not."""
    return all(isinstance(entry, (int, float)) and entry == 0.0 for entry in np.asarray(x).flat)


def plain(x: Array) -> Array:
    """Return x with float entries if all are numbers, else as it is."""
    if all(isinstance(entry, float) for entry in x.flat):
        return x.astype(float)
    return x
