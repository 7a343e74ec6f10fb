"""Functions that users give: forces, controllers, events, costs, motions. A `Role` calls, traces and checks one.

What is wrong with a function is told in one form, wherever it is given: which function it is, why, what to write, and the line of its code.
`untraceable` finds the construct that cannot be traced.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from catena.errors import ArgumentError, CatenaError, ModelError, TraceError
from catena.graph import Condition, Graph, Scalar, Trace, traced_array, where
from catena.model import untraceable
from catena.model.wording import short
from catena.scalars import expression

_NUMBERS = (int, float, np.integer, np.floating)
_TRUTHS = (bool, np.bool_, Condition)

#: The shapes of a result that is to be a condition.
CONDITION: tuple[tuple[int, ...], ...] = ()


class python:
    """Marks a function that is not to be traced: `ct.simulate` calls it as it is, step by step.

    For functions that take their decisions with `if`, call other libraries or remember things. Compiled kernels cannot hold them.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
    >>> m.add_force("kick", ct.python(lambda t, q, v: [5.0 if t < 0.1 else 0.0]))
    >>> [force.name for force in m.python_forces]
    ['kick']
    """

    def __init__(self, function: Callable[[Any, Any, Any], Any]) -> None:
        if not callable(function):
            raise ModelError(f"ct.python: {function!r} is not a function; give a function of (t, q, v)")
        self.function = function

    def __call__(self, t: Any, q: Any, v: Any) -> Any:
        return self.function(t, np.array(q), np.array(v))  # copies, which the function may write to

    def __repr__(self) -> str:
        return f"python({self.function!r})"


@dataclass(frozen=True)
class Role:
    """What a function of the user's is for: its name in messages, the arguments with their lengths, and what it is to return."""

    what: str
    arguments: Mapping[str, int | None]  # None for a number
    returns: str
    shapes: tuple[tuple[int, ...], ...] | None  # None for any; or CONDITION
    error: type[CatenaError] = ArgumentError
    untraced: type[CatenaError] = TraceError
    instead: str = ""  # a remedy for a result that is a condition
    marked: bool = True  # whether the function may be marked ct.python
    chance: str = "give random numbers as a table, such as ct.rollout(noise=), and take the time from t"  # instead of what is not repeated

    def value(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Return the function's result as an array, of any scalar, or say what is wrong with it.

        What a marked function raises is raised as it is, so that the user can catch it, with a note.
        """
        try:
            result = expression.settled(function(*arguments, **named))
        except Exception as error:
            if isinstance(function, python):
                if sys.version_info >= (3, 11):
                    error.add_note(f"{self._named(function)} raised this.{untraceable.place(error)}")
                raise
            raise self.failure(function, error, any(map(_is_traced, (*arguments, *named.values())))) from error
        return self._checked(function, result)

    def graph(self, function: Callable[..., Any], given: Callable[[Trace], Mapping[str, Any]] = lambda trace: {}) -> Graph:
        """Return the graph of the function, with its result as the only output, or say why it cannot be traced.

        `given` makes parameters further inputs.
        """
        self.check_signature(function)
        return self.repeated(function, lambda: self._graph(function, given))

    def repeated(self, function: Callable[..., Any], make: Callable[[], Graph]) -> Graph:
        """Return the graph that is made of a function, or say that it is another when it is made again.

        Random numbers, clocks and counters are numbers of a graph, the same ones whenever it is computed.
        """
        first, second = make(), make()
        if first != second:
            told = f"{self._named(function)} cannot be traced: it computes {_difference(first, second)} when it is called again"
            marked = ", or mark the function ct.python(function)" if self.marked else ""
            raise self.untraced(f"{told}; {self.chance}{marked}{untraceable.home(plain(function))}")
        return first

    def _graph(self, function: Callable[..., Any], given: Callable[[Trace], Mapping[str, Any]]) -> Graph:
        trace = Trace("function")
        inputs = [trace.input(name, () if size is None else (size,)) for name, size in self.arguments.items()]
        with expression.values(given(trace)):
            value = self.value(function, *map(traced_array, inputs))
        for entry in value.flat:
            if not isinstance(entry, Scalar) and not math.isfinite(entry):
                raise self.wrong(function, f"{float(entry)!r}, whatever the state is", "return finite numbers")
        return trace.graph(value=value)

    def check_signature(self, function: Callable[..., Any]) -> None:
        """Refuse a function that cannot be called with the arguments."""
        try:
            signature = inspect.signature(plain(function))
        except (TypeError, ValueError):  # some functions that are not written in Python do not tell
            return
        try:
            signature.bind(*self.arguments)
        except TypeError:
            name, wanted = _name(function), ", ".join(self.arguments)
            written = f"def {name}({wanted})" if name else f"lambda {wanted}: ..."
            told = f"{self._named(function)} takes {signature}, but is called with ({wanted}); write {written}"
            raise self.error(told + untraceable.home(plain(function))) from None

    @contextmanager
    def explained(self, function: Callable[..., Any], traced: bool) -> Iterator[None]:
        """Tell of each error of a function, in a block that calls it, what `failure` says."""
        try:
            yield
        except Exception as error:
            raise self.failure(function, error, traced) from error

    def failure(self, function: Callable[..., Any], error: Exception, traced: bool) -> CatenaError:
        """Return the error that says why a function could not be called, or traced, and what to write instead."""
        trouble = untraceable.trouble(error) if traced else None
        name, where = self._named(function), untraceable.place(error)
        if trouble is not None:
            marked = ", or mark the function ct.python(function)" if self.marked and trouble.construct else ""
            return self.untraced(f"{name} cannot be traced: {trouble.reason}; {trouble.remedy}{marked}{where}")
        sizes = [f"{key} has {size} {'entry' if size == 1 else 'entries'}" for key, size in self.arguments.items() if size is not None]
        remedy = f"it is called with ({', '.join(self.arguments)}), and is to return {self.returns}"
        remedy = " and ".join(sizes) if isinstance(error, IndexError) else remedy
        return self.error(f"{name} raised {_said(error)}; {remedy}{where}")

    def wrong(self, function: Callable[..., Any], result: str, remedy: str = "") -> CatenaError:
        """Return the error that says that a function returned something else than it is to return."""
        where = untraceable.home(plain(function), returns=True)
        return self.error(f"{self._named(function)} returned {result}; {remedy or f'return {self.returns}'}{where}")

    def _named(self, function: Callable[..., Any]) -> str:
        name = _name(function)
        return self.what if self.what.endswith("'") or not name else f"{self.what} '{name}'"

    def _checked(self, function: Callable[..., Any], result: Any) -> Any:
        """Return the result as an array of numbers in one of the shapes; a condition as 1 or 0."""
        if self.shapes == CONDITION:
            truth = np.asarray(result)[()] if np.ndim(result) == 0 else None
            if not isinstance(truth, _TRUTHS):
                raise self.wrong(function, short(result) if result is None or np.ndim(result) else "a number")
            return np.asarray(where(truth, 1.0, 0.0))
        try:
            array = np.asarray(result)
        except ValueError:  # an uneven list
            raise self.wrong(function, short(result)) from None
        if array.dtype.kind not in "fiu":
            entry = next((entry for entry in array.flat if not _is_number(entry)), 0.0)
            if isinstance(entry, _TRUTHS):
                told = "a condition, which is not a number" if array.ndim == 0 else "conditions, which are not numbers"
                raise self.wrong(function, told, self.instead or f"write np.where(condition, a, b), and return {self.returns}")
            if result is None:
                raise self.wrong(function, "None", f"every way through the function needs a `return`: return {self.returns}")
            if not _is_number(entry):
                entry = entry.item() if isinstance(entry, np.generic) else entry
                raise self.wrong(function, short(result) if array.ndim == 0 else f"{short(entry)} among its entries")
        if self.shapes is not None and array.shape not in self.shapes:
            told = "one number" if isinstance(array[()], Scalar) else short(result)
            raise self.wrong(function, told if array.ndim == 0 else f"an array of shape {array.shape}")
        return array


def joint_forces(nv: int) -> str:
    """Return what a function of joint forces is to return."""
    return f"{'1 joint force, in a list or array,' if nv == 1 else f'{nv} joint forces,'} one for each entry of v"


def traced(
    function: Callable[[Any, Any, Any], Any], nq: int, nv: int, given: Callable[[Trace], Mapping[str, Any]] = lambda trace: {}
) -> Graph:
    """Return the graph of a function of (t, q, v), with its result as the only output; `given` makes parameters further inputs."""
    trace = Trace("function")
    state = trace.input("t"), trace.input("q", (nq,)), trace.input("v", (nv,))
    with expression.values(given(trace)):
        return trace.graph(value=expression.settled(function(*map(traced_array, state))))


def _difference(first: Graph, second: Graph) -> str:
    """Return how a graph differs from an earlier one, in words: the first number that is another."""
    for old, new in zip(first.nodes, second.nodes, strict=False):
        if old != new and old[0] == new[0] == "const":
            digits = ".6g" if f"{new[1]:.6g}" != f"{old[1]:.6g}" else ".17g"
            return f"with {new[1]:{digits}} in place of {old[1]:{digits}}"
    return "something else"


def wrapped(function: Any, wrapper: Callable[[Any], Any]) -> Any:
    """Return a function of the user's in a wrapper; the mark of those that are not traced stays."""
    return python(wrapper(function.function)) if isinstance(function, python) else wrapper(function)


def own_array(x: Any) -> Any:
    """Return a copy of an array for a function of the user's, which may write to it; NumPy's functions take it where it is traced."""
    return traced_array(np.array(x))


class Wrapped:
    """A function of the user's that is called in another way than it was written for."""

    function: Callable[..., Any]


def plain(function: Any) -> Any:
    """Return the function as the user wrote it, without marks and without values of parameters."""
    while isinstance(function, (python, expression.within, expression.renaming, Wrapped)):
        function = function.function
    return function


def _name(function: Any) -> str:
    """Return the name that a function has, of an object the name of its class."""
    function = plain(function)
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return "" if name == "<lambda>" else name


def _is_number(x: Any) -> bool:
    return isinstance(x, Scalar) or hasattr(x, "chosen") or (isinstance(x, _NUMBERS) and not isinstance(x, bool))


def _is_traced(x: Any) -> bool:
    """Return whether an argument is, or has entries that are, something else than plain numbers."""
    return x.dtype == object if isinstance(x, np.ndarray) else not isinstance(x, _NUMBERS)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
