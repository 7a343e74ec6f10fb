"""Arrays of traced scalars as functions of users have them: NumPy's functions that would need a truth value work entry by entry."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.graph.functions import maximum, minimum, where
from catena.graph.scalar import Condition, Scalar, _numpy

if TYPE_CHECKING:
    from catena.graph.trace import Trace


def _sign(x: Any) -> Any:
    return where(x > 0.0, 1.0, where(x < 0.0, -1.0, 0.0))


def _clip(x: Any, least: Any, most: Any) -> Any:
    x = x if least is None else maximum(x, least)
    return x if most is None else minimum(x, most)


#: NumPy's functions of numbers that compare, by name: what they are of traced ones.
_BY_ENTRY: dict[str, Callable[..., Any]] = {
    "minimum": minimum, "maximum": maximum, "fmin": minimum, "fmax": maximum, "sign": _sign, "clip": _clip,
    "hypot": lambda x, y: np.sqrt(x * x + y * y),
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "equal": operator.eq, "not_equal": operator.ne,
    "logical_and": operator.and_, "logical_or": operator.or_, "logical_not": operator.invert,
}  # fmt: skip


def by_entry(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a function of scalars on arrays, entry by entry; an array of objects, or one of them."""
    return traced_array(np.frompyfunc(function, len(arguments), 1)(*map(_plain, arguments)))


def _plain(x: Any) -> Any:
    """Return a traced array, or a traced scalar, as an array that NumPy treats as any other of objects."""
    if isinstance(x, TracedArray):
        return x.view(np.ndarray)
    if type(x) not in (Scalar, Condition):
        return x
    box = np.empty((), dtype=object)
    box[()] = x
    return box


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord not in (None, 2) or (axis is None and np.ndim(x) > 1 and ord is not None):
        return NotImplemented
    x = np.asarray(x)
    return traced_array(np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims)))


#: NumPy's functions of arrays that compare, or that have no loop over objects.
_OF_ARRAYS: dict[Any, Callable[..., Any]] = {
    np.where: lambda condition, a, b: by_entry(where, condition, a, b),
    np.linalg.norm: _norm,
    np.clip: lambda a, a_min=None, a_max=None: by_entry(_clip, a, a_min, a_max),
}


def _ufunc(ufunc: Any, method: str, inputs: Any, options: dict[str, Any]) -> Any:
    """Return one of NumPy's functions of numbers, of arguments of which some are traced."""
    own = _BY_ENTRY.get(ufunc.__name__)
    if own is not None:
        ufunc = np.frompyfunc(own, len(inputs) if method == "__call__" else 2, 1)
        options.pop("dtype", None)
    if "out" in options:  # also where an operator changes an array in place
        options["out"] = tuple(map(_plain, options["out"]))
    result = getattr(ufunc, method)(*map(_plain, inputs), **options)
    return traced_array(result) if any(isinstance(x, TracedArray) for x in inputs) else result


def _function(function: Any, arguments: Any, options: Any) -> Any:
    """Return one of NumPy's functions of arrays, of arguments of which some are traced."""
    own = _OF_ARRAYS.get(function)
    if own is not None and (result := own(*arguments, **options)) is not NotImplemented:
        return result
    return function._implementation(*arguments, **options)  # as it is of other objects


_numpy.ufunc, _numpy.function = _ufunc, _function


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
