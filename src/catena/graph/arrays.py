"""Arrays of traced scalars as functions of users have them: NumPy's functions that would need a truth value work entry by entry."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.errors import ArgumentError, TraceError
from catena.graph.functions import atan2, maximum, minimum, where
from catena.graph.scalar import Condition, Scalar, _numpy
from catena.scalars.dual import Dual

if TYPE_CHECKING:
    from catena.graph.trace import Trace


def _sign(x: Any) -> Any:
    return where(x > 0.0, 1.0, where(x < 0.0, -1.0, 0.0))


def _clip(x: Any, least: Any, most: Any) -> Any:
    x = x if least is None else maximum(x, least)
    return x if most is None else minimum(x, most)


def _cosh(x: Any) -> Any:
    grown = np.exp(x)
    return 0.5 * (grown + 1.0 / grown)


def _truncated(x: Any) -> Any:
    return where(x < 0.0, -np.floor(-x), np.floor(x))


#: NumPy's functions of numbers that compare, or that the table of operations does not have, by name: what they are of traced ones.
_BY_ENTRY: dict[str, Callable[..., Any]] = {
    "minimum": minimum, "maximum": maximum, "fmin": minimum, "fmax": maximum, "sign": _sign, "clip": _clip,
    "hypot": lambda x, y: np.sqrt(x * x + y * y),
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "equal": operator.eq, "not_equal": operator.ne,
    "logical_and": operator.and_, "logical_or": operator.or_, "logical_not": operator.invert,
    "isnan": lambda x: x != x, "isfinite": lambda x: abs(x) < math.inf, "isinf": lambda x: abs(x) == math.inf,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "trunc": _truncated, "fmod": lambda x, y: x - y * _truncated(x / y),
    "arctan2": atan2, "fabs": abs, "copysign": lambda x, y: where(y < 0.0, -abs(x), abs(x)),
    "heaviside": lambda x, middle: where(x > 0.0, 1.0, where(x < 0.0, 0.0, middle)),
    "cosh": _cosh, "sinh": lambda x: np.tanh(x) * _cosh(x), "cbrt": lambda x: _sign(x) * abs(x) ** (1.0 / 3.0),
    "exp2": lambda x: np.exp(math.log(2.0) * x), "log2": lambda x: np.log(x) / math.log(2.0), "log10": lambda x: np.log(x) / math.log(10.0),
    "deg2rad": lambda x: x * (math.pi / 180.0), "radians": lambda x: x * (math.pi / 180.0),
    "rad2deg": lambda x: x * (180.0 / math.pi), "degrees": lambda x: x * (180.0 / math.pi),
}  # fmt: skip


def by_entry(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a function of scalars on arrays, entry by entry; an array of objects, or one of them."""
    return traced_array(np.frompyfunc(function, len(arguments), 1)(*map(_plain, arguments)))


def _plain(x: Any) -> Any:
    """Return a traced array, or a traced scalar, as an array that NumPy treats as any other of objects."""
    if isinstance(x, TracedArray):
        return x.view(np.ndarray)
    if type(x) not in (Scalar, Condition, Dual):
        return x
    box = np.empty((), dtype=object)
    box[()] = x
    return box


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if np.ndim(x) == 1 and ord == math.inf:
        return np.max(np.abs(traced_array(np.asarray(x))), keepdims=keepdims)
    if ord not in (None, 2) or (axis is None and np.ndim(x) > 1 and ord is not None):
        return NotImplemented
    x = np.asarray(x)
    return traced_array(np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims)))


def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Return values of a table between its points, piece by piece; of an x that is not a number, no number."""
    if period is not None:
        return NotImplemented
    at, values = np.asarray(xp), np.asarray(fp)
    if at.ndim != 1 or at.shape != values.shape or not at.size:
        raise ArgumentError(f"np.interp has points of shape {at.shape} and values of shape {values.shape}; give as many of both")
    if at.dtype != object and (np.diff(at) < 0.0).any():
        raise ArgumentError("np.interp has points that decrease; sort them, and the values with them")
    pieces = [k for k in range(len(at) - 1) if at.dtype == object or at[k] < at[k + 1]]

    def between(x: Any) -> Any:
        within = _clip(x, at[0], at[-1])
        y = values[0] + 0.0 * within
        for number, k in enumerate(pieces):
            piece = values[k] + (values[k + 1] - values[k]) / (at[k + 1] - at[k]) * (within - at[k])
            y = where(x >= at[k], piece, y) if number else piece
        y = y if left is None else where(x < at[0], left, y)
        return y if right is None else where(x > at[-1], right, y)

    return by_entry(between, x)


def _select(conditions: Any, choices: Any, default: Any = 0) -> Any:
    for condition, chosen in reversed(list(zip(conditions, choices, strict=True))):
        default = by_entry(where, condition, chosen, default)
    return default


def _solve(a: Any, b: Any) -> Any:
    """Return the solution of a linear system, as one operation."""
    A, B = np.asarray(a), np.asarray(b)
    trace = tracing((A, B))
    if trace is None or A.ndim != 2 or A.shape[0] != A.shape[1] or B.ndim not in (1, 2) or len(A) != len(B):
        return NotImplemented
    return traced_array(trace.linear_system(A, B.reshape(len(B), -1)).reshape(B.shape))


def _determinant(a: Any) -> Any:
    A = np.asarray(a)
    if A.ndim != 2 or A.shape[0] != A.shape[1] or len(A) > 3:
        return NotImplemented
    if len(A) < 3:
        return A[0, 0] if len(A) == 1 else A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0]
    return A[0] @ np.cross(A[1], A[2])


#: NumPy's functions of arrays that compare, or that have no loop over objects.
_OF_ARRAYS: dict[Any, Callable[..., Any]] = {
    np.where: lambda condition, a, b: by_entry(where, condition, a, b),
    np.clip: lambda a, a_min=None, a_max=None: by_entry(_clip, a, a_min, a_max),
    np.interp: _interp,
    np.select: _select,
    np.linalg.norm: _norm,
    np.linalg.solve: _solve,
    np.linalg.inv: lambda a: _solve(a, np.eye(len(a))),
    np.linalg.det: _determinant,
}

#: What NumPy says of functions that objects do not have.
_MISSING = ("no callable", "not supported for the input types", "did not contain a loop", "has no attribute", "Cannot cast")


def _ufunc(ufunc: Any, method: str, inputs: Any, options: dict[str, Any]) -> Any:
    """Return one of NumPy's functions of numbers, of arguments of which some are traced."""
    own = _BY_ENTRY.get(ufunc.__name__)
    if own is not None:
        ufunc = np.frompyfunc(own, len(inputs) if method == "__call__" else 2, 1)
        options.pop("dtype", None)
    if "out" in options:  # also where an operator changes an array in place
        options["out"] = tuple(map(_plain, options["out"]))
    try:
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
    except (TypeError, AttributeError) as error:
        if any(words in str(error) for words in _MISSING):
            raise _untraceable(f"np.{ufunc.__name__}") from error
        raise
    return traced_array(result) if any(isinstance(x, TracedArray) for x in inputs) else result


def _function(function: Any, arguments: Any, options: Any) -> Any:
    """Return one of NumPy's functions of arrays, of arguments of which some are traced."""
    own = _OF_ARRAYS.get(function)
    if own is not None and (result := own(*arguments, **options)) is not NotImplemented:
        return result
    try:
        return function._implementation(*arguments, **options)  # as it is of other objects
    except (TypeError, AttributeError) as error:
        if isinstance(error, TraceError) or any(words in str(error) for words in _MISSING):
            raise _untraceable(f"{function.__module__.replace('numpy', 'np', 1)}.{function.__name__}") from error
        raise


def _untraceable(name: str) -> TraceError:
    return TraceError(f"{name} does not take traced values; write it with arithmetic and other functions of NumPy")


_numpy.ufunc, _numpy.function = _ufunc, _function
Dual.dispatch(_ufunc, _function)


class TracedArray(np.ndarray):
    """An array of traced scalars."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return _ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        return traced_array(_function(function, arguments, options))


def tracing(arguments: Any) -> Trace | None:
    """Return the trace that some of the arguments belong to, if there are traced scalars among them."""
    return next((entry.trace for entry in _entries(arguments) if type(entry) is Scalar), None)


def _entries(x: Any) -> Iterator[Any]:
    """Return the entries of nested sequences and arrays of objects, which need not be even."""
    if isinstance(x, list | tuple) or (isinstance(x, np.ndarray) and x.dtype == object):
        for inner in x.flat if isinstance(x, np.ndarray) else x:
            yield from _entries(inner)
    else:
        yield x


def traced_array(x: Any) -> Any:
    """Return an array of objects as one of traced scalars; all else as it is."""
    return x.view(TracedArray) if isinstance(x, np.ndarray) and x.dtype == object and not isinstance(x, TracedArray) else x
