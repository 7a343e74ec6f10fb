"""The equations of an implicit step: their matrix, and when they count as solved."""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.simulation.integrators.flow import Linearised

Array = Any

#: Newton iterations of an implicit step, and the relative size of the last correction that counts as converged; a correction that moves
#: the mechanism by less than `_ROUNDING` [rad or m] is one of rounding.
ITERATIONS = 10
_CONVERGED = 1e-10
_ROUNDING = 1e-14

#: The least size of a movement [rad or m] that a correction is compared with.
LEAST = _ROUNDING / _CONVERGED

#: Steps with more unknowns are solved by plain iteration: their matrix would be too large to trace.
LARGEST_JACOBIAN = 256


def matrix(near: Linearised, h: Any, first: np.ndarray, second: np.ndarray) -> Array:
    """Return the matrix M + h c D + h^2 e K of the equations of all stages, which change velocities by h c and positions by h^2 e."""
    stages, n = len(first), len(near.inertia)
    found = np.empty((stages * n, stages * n), dtype=object)
    for i, k in np.ndindex(stages, stages):
        block = (first[i, k] * h) * near.damping + (second[i, k] * (h * h)) * near.stiffness
        found[i * n : (i + 1) * n, k * n : (k + 1) * n] = block + near.inertia if i == k else block
    return found


def converged(correction: Any) -> Any:
    """Return whether an implicit step is solved."""
    return correction <= _CONVERGED
