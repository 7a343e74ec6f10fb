"""When the equations of an implicit step count as solved."""

from __future__ import annotations

from typing import Any

#: Newton iterations of an implicit step, and the relative size of the last correction that counts as converged; a correction that moves
#: the mechanism by less than `_ROUNDING` [rad or m] is one of rounding.
ITERATIONS = 10
_CONVERGED = 1e-10
_ROUNDING = 1e-14

#: The least size of a movement [rad or m] that a correction is compared with.
LEAST = _ROUNDING / _CONVERGED

#: Steps with more unknowns are solved by plain iteration: a factorisation in each would cost more than it saves.
LARGEST_JACOBIAN = 256


def converged(correction: Any) -> Any:
    """Return whether an implicit step is solved."""
    return correction <= _CONVERGED
