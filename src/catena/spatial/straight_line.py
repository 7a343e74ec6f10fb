"""Straight-line functions: what they do depends on the shapes of their arguments, and on which entries are 0, 1, -1 or the same.

Whoever traces such a function need not run it for every body: `Recorder` is where a trace puts in how it does without. With numbers, and
where nothing is put in, a function runs as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np


class Recorder:
    """How straight-line functions are traced: `call(function, arguments)`; `catena.graph.recipes` fills it in."""

    call: Callable[[Callable[..., Any], tuple[Any, ...]], Any] | None = None


def straight_line(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a straight-line function of arrays, placements, and tuples of them, to such, as it is traced where it is not of numbers."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        for x in arguments:
            if of_objects(x) and Recorder.call is not None:
                return Recorder.call(function, arguments)
        return function(*arguments)

    return call


def of_objects(x: Any) -> bool:
    """Return whether there may be traced scalars in arrays, placements, or tuples of them."""
    if isinstance(x, np.ndarray):
        return x.dtype == object
    return any(map(of_objects, x)) if isinstance(x, tuple) else getattr(x, "of_objects", False)
