"""What a step goes by: the flow of a mechanism, its end, and sums of slopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from catena.loops.projection import Projected
from catena.model import Mechanism

Array = Any

#: Mechanisms of more coordinates than this have their slopes combined in parts of so many entries.
MANY, PART = 24, 16


class Flow(Protocol):
    """What a step needs of a mechanism."""

    model: Mechanism

    def acceleration(self, t: Any, q: Array, v: Array) -> Array:
        """Return vdot."""
        ...

    def mass(self, t: Any, q: Array) -> Array:
        """Return the mass matrix."""
        ...

    def momenta(self, t: Any, q: Array, v: Array) -> tuple[Array, Array]:
        """Return the canonical momenta p, and dp/dt."""
        ...

    def velocities(self, t: Any, q: Array, p: Array) -> Array:
        """Return v, the velocities that belong to the canonical momenta p where nothing is driven."""
        ...

    def slopes(self, t: Any, q: Array, v: Array, h: Any) -> tuple[Array, Array]:
        """Return how fast the passive forces of the joints fall with their positions and velocities, for a step of size h."""
        ...

    def eased(self, t: Any, q: Array, armature: Array, force: Array) -> Array:
        """Return the accelerations from rest under joint forces alone, with more armature, that keep the loops closed."""
        ...

    def project(self, t: Any, q: Array, v: Array) -> Projected | None:
        """Return the state nearest to (q, v) that meets the constraints, with their conditioning; or None where there are none."""
        ...

    def mark(self) -> None:
        """Begin a new region of the trace."""
        ...


class Step(NamedTuple):
    """The end of a step: position, velocity; where known the acceleration there, error estimates (of u, v), and the last correction."""

    q: Array
    v: Array
    a: Array | None = None
    errors: tuple[Array, ...] = ()
    correction: Any = 0.0
    conditioning: Any = None  # that of the plan of loops; negative where the state does not meet all constraints
    free: tuple[Array, Array] | None = None  # position and velocity before they were put on the constraints


def combine(h: Any, weights: Sequence[float], slopes: Sequence[Array]) -> Array:
    """Return h times the weighted sum of slopes; weights of 0 cost nothing."""
    total = None
    for weight, slope in zip(weights, slopes, strict=False):
        if weight:
            term = weight * slope
            total = term if total is None else total + term
    return 0.0 * slopes[0] if total is None else h * total


def combined(flow: Flow, h: Any, weights: Sequence[float], *slopes: Sequence[Array]) -> list[Array]:
    """Return `combine` of several lists of slopes; of mechanisms with many coordinates part by part, for which the code is the same."""
    if len(slopes[0][0]) <= MANY:
        return [combine(h, weights, some) for some in slopes]
    joined, found = [np.concatenate(x) for x in zip(*slopes, strict=True)], []
    for start in range(0, len(joined[0]), PART):
        flow.mark()
        found.append(combine(h, weights, [x[start : start + PART] for x in joined]))
    flow.mark()
    return np.split(np.concatenate(found), len(slopes))


def square(x: Array) -> Any:
    """Return the sum of the squares of entries, of any scalar."""
    return sum((entry * entry for entry in x), 0.0)
