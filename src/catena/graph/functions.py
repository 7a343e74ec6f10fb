"""Functions that work on numbers and on traced scalars alike, where NumPy's would need a truth value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from catena.graph.scalar import Condition, Scalar, as_number
from catena.scalars.dual import Dual


def where(condition: Any, a: Any, b: Any) -> Any:
    """Return a where the condition holds, else b; both are computed.

    >>> ct.where(2.0 > 1.0, 10.0, 20.0)
    10.0
    """
    for one in (a, b):
        if hasattr(one, "chosen"):  # a number that carries more than a value
            return one.chosen(where, condition, a, b)
    if isinstance(condition, Condition):
        trace = condition.trace
        i, j = trace.index(a), trace.index(b)
        return a if i == j else trace.node("select", condition.index, i, j)
    if isinstance(condition, np.ndarray) and condition.shape:
        return np.where(condition, a, b)
    return a if condition else b


def _extremum(op: str, compute: Any, a: Any, b: Any) -> Any:
    traced = a if type(a) is Scalar else b
    if type(traced) is Scalar:
        i, j = traced.trace.index(a), traced.trace.index(b)
        return a if i == j else traced.trace.node(op, min(i, j), max(i, j))
    if hasattr(a, "chosen") or hasattr(b, "chosen"):
        return where(a <= b, *((a, b) if op == "min" else (b, a)))
    return compute(a, b)


def minimum(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers, traced or not.

    >>> ct.minimum(2.0, 1.0)
    1.0
    """
    return _extremum("min", min, a, b)


def maximum(a: Any, b: Any) -> Any:
    """Return the larger of two numbers, traced or not.

    >>> ct.maximum(2.0, 1.0)
    2.0
    """
    return _extremum("max", max, a, b)


def atan2(y: Any, x: Any) -> Any:
    """Return the angle of the point (x, y) [rad], traced or not.

    >>> ct.atan2(0.0, 1.0)
    0.0
    """
    if type(y) is Scalar:
        return y.arctan2(x)
    if type(x) is Scalar:
        return x.trace.node("atan2", x.trace.index(y), x.index)
    if isinstance(y, Dual) or isinstance(x, Dual):
        return (y if isinstance(y, Dual) else Dual(y, 0.0)).arctan2(x)
    for one in (y, x):
        if hasattr(one, "now"):  # a formula
            return one.chosen(atan2, y, x)
    return math.atan2(as_number(y), as_number(x))
