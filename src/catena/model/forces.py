"""Forces beyond those of the joints: springs between points, and forces from functions of time and state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from catena.errors import ModelError, TraceError
from catena.graph import Graph, Trace, traced_array
from catena.model import values
from catena.model.wording import short
from catena.scalars import expression

_REMEDY = (
    "write it with arithmetic and NumPy's functions, and choices entry by entry with catena.where(condition, a, b), "
    "catena.minimum and catena.maximum, "
    "or mark it ct.python(function), to be called step by step by ct.simulate"
)


class python:
    """Marks a force function that is not to be traced: `ct.simulate` calls it as it is, step by step.

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
class Spring:
    """A spring with a damper between a point of body a and a point of body b, each in its body's frame [m].

    It pulls the points together with the force `stiffness * (distance - length) + damping * rate`, the rate being that of the distance.
    """

    name: str
    a: str
    b: str
    at_a: Any
    at_b: Any
    stiffness: float
    damping: float
    length: float
    tied: ClassVar[Mapping[str, Any]] = {}  # expressions that its numbers follow, by name

    def __post_init__(self) -> None:
        values.take(self, "at_a", "at_b", "stiffness", "damping", "length")
        for key in ("at_a", "at_b"):
            object.__setattr__(self, key, tuple(values.array(f"spring '{self.name}': {key}", getattr(self, key), (3,)).tolist()))
        for key in ("stiffness", "damping", "length"):
            object.__setattr__(self, key, values.number(f"spring '{self.name}': {key}", getattr(self, key), least=0.0))
        if not self.stiffness and not self.damping:
            raise ModelError(f"spring '{self.name}': stiffness and damping are 0, so that it does nothing; give one of them")


@dataclass(frozen=True)
class Applied:
    """A force from a function of (t, q, v): joint forces, or with a body a force or wrench on a point of it, in the world's axes."""

    name: str
    function: Callable[[Any, Any, Any], Any]
    body: str | None
    point: tuple[float, ...]

    @property
    def traced(self) -> bool:
        """Whether the function is traced and compiled, rather than called step by step."""
        return not isinstance(self.function, python)

    def value(self, nv: int, t: Any, q: Any, v: Any) -> Any:
        """Return the function's result: nv joint forces, or with a body a wrench (moment, force) of 6 entries; for any scalar."""
        with expression.values({}):
            result = expression.settled(self.function(t, own_array(q), own_array(v)))
        try:
            array = np.asarray(result)
            if array.dtype.kind not in "buifO":
                raise TypeError
        except (TypeError, ValueError):
            raise ModelError(f"force '{self.name}': its function returned {short(result)}; {self._wanted(nv)}") from None
        if array.shape not in ([(nv,)] if self.body is None else [(3,), (6,)]):
            what = short(result) if array.ndim == 0 else f"an array of shape {array.shape}"
            raise ModelError(f"force '{self.name}': its function returned {what}; {self._wanted(nv)}")
        return np.concatenate([np.zeros(3), array]) if self.body is not None and array.shape == (3,) else array

    def _wanted(self, nv: int) -> str:
        if self.body is not None:
            return "return a force (3 entries) or a moment and a force (6 entries), in the world's axes"
        count = "1 joint force, in a list or array," if nv == 1 else f"{nv} joint forces,"
        return f"return {count} one for each entry of v, and add all bodies before the force"

    def probe(self, q: np.ndarray, nv: int) -> None:
        """Refuse a function that fails with numbers, or returns something else than a force."""
        try:
            with np.errstate(all="ignore"):
                value = self.value(nv, 0.0, q, np.zeros(nv))
            for entry in value.flat:
                if not isinstance(entry, (int, float, np.integer, np.floating)):
                    raise TypeError(f"{entry!r} is not a number")
        except ModelError:
            raise
        except ArithmeticError:  # such as a division by t or by a distance that is 0 here, but not where the motion goes
            return
        except Exception as error:
            raise ModelError(
                f"force '{self.name}': its function failed at t = 0, the neutral position and v = 0: {reason(error)}; "
                "give a function of (t, q, v) that returns numbers"
            ) from error

    def uses_time(self, nq: int, nv: int) -> bool:
        """Return whether the force depends on time, by its trace; refuse a function that cannot be traced."""
        try:
            graph = traced(partial(self.value, nv), nq, nv)
        except ModelError:
            raise
        except Exception as error:
            raise TraceError(f"force '{self.name}': its function cannot be traced: {reason(error)}; {_REMEDY}") from error
        return ("input", 0) in graph.nodes


def traced(
    function: Callable[[Any, Any, Any], Any], nq: int, nv: int, given: Callable[[Trace], Mapping[str, Any]] = lambda trace: {}
) -> Graph:
    """Return the graph of a function of (t, q, v), with its result as the only output; `given` makes parameters further inputs."""
    trace = Trace("function")
    state = trace.input("t"), trace.input("q", (nq,)), trace.input("v", (nv,))
    with expression.values(given(trace)):
        return trace.graph(value=expression.settled(function(*map(traced_array, state))))


def own_array(x: Any) -> Any:
    """Return a copy of an array for a function of the user's, which may write to it; NumPy's functions take it where it is traced."""
    return traced_array(np.array(x))


def reason(error: Exception) -> str:
    """Return what an error says; of catena's own without their remedy."""
    if isinstance(error, TraceError):
        return str(error).partition(";")[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
