"""What steps are made of: parts, accelerations near a state, the end of a step, and sums of slopes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from catena.simulation.flows import Flow

Array = Any

#: Mechanisms of more coordinates than this have their slopes combined in parts of so many entries.
MANY, PART = 24, 16


#: A part of a step: a function of a flow and of arrays that returns several; a value to compare, such as a function of a module.
Part = Callable[..., tuple[Any, ...]]


class Linearised(NamedTuple):
    """Accelerations near a state: inertia da + damping dv + stiffness dq = 0, where positions change by dq along the velocities."""

    inertia: Array
    damping: Array
    stiffness: Array


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
    joined, parts = [np.concatenate(x) for x in zip(*slopes, strict=True)], []
    for start in range(0, len(joined[0]), PART):
        flow.mark()
        parts.append(combine(h, weights, [x[start : start + PART] for x in joined]))
    flow.mark()
    return np.split(np.concatenate(parts), len(slopes))


def square(x: Array) -> Any:
    """Return the sum of the squares of entries, of any scalar."""
    return sum((entry * entry for entry in x), 0.0)
