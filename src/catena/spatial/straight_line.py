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
    """Return a straight-line function of arrays and placements to arrays, whose last argument is an array, as it is traced."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        last = arguments[-1]
        if Recorder.call is None or type(last) is not np.ndarray or last.dtype != object:
            return function(*arguments)
        return Recorder.call(function, arguments)

    return call
