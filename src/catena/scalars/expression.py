"""Numbers that follow from parameters of a model: formulas, whose value is taken where a function is called.

While `values` are in place, arithmetic on an expression gives their result, of any scalar; elsewhere it gives a longer expression.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np

from catena.errors import ModelError

_values: ContextVar[Mapping[str, Any] | None] = ContextVar("values", default=None)

_SIGNS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.pow: "**",
    operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==", operator.ne: "!=",
}  # fmt: skip


@contextmanager
def values(given: Mapping[str, Any]) -> Iterator[None]:
    """Let expressions take values of parameters, by name; those that are in place stay, and others are as the parameters were made."""
    token = _values.set({**given, **(_values.get() or {})})
    try:
        yield
    finally:
        _values.reset(token)


def _deferred(function: Callable[..., Any], swap: bool = False) -> Callable[..., Any]:
    """Return the method that computes a function of an expression, and of another number, which comes first if `swap`."""

    def method(self: Expression, *others: Any) -> Any:
        if any(isinstance(other, np.ndarray) for other in others):
            return NotImplemented  # NumPy goes through the entries
        made = Expression(function, (*others, self) if swap else (self, *others))
        return made.simpler() if _values.get() is None else made.now()

    return method


class Expression:
    """A formula of parameters.

    >>> length = Named("length", (), 0.3)
    >>> half = 0.5 * length
    >>> half, half.value
    (0.5 * length, 0.15)
    """

    __slots__ = ("arguments", "function")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function = function
        self.arguments = tuple(x.item() if isinstance(x, np.generic) else x for x in arguments)  # so that formulas can be read again

    def now(self) -> Any:
        """Return the number that it is with the values in place."""
        return self.function(*map(_now, self.arguments))

    def simpler(self) -> Any:
        """Return what is left of it where a number is 0 or 1 that is added or multiplied."""
        for x, rest in (self.arguments, self.arguments[::-1]) if len(self.arguments) == 2 else ():
            if isinstance(x, Expression) or not isinstance(rest, Expression):
                continue
            if self.function is operator.mul and x in (0.0, 1.0):
                return rest if x else 0.0
            if self.function is operator.add and x == 0.0:
                return rest
            if self.function is operator.sub and x == 0.0:
                return rest if self.arguments[0] is rest else -rest
        return self

    @property
    def value(self) -> float:
        """Its value with the values that parameters were made with."""
        with values({}):
            return self.now()

    @property
    def names(self) -> frozenset[str]:
        """The parameters that it is made of."""
        return frozenset().union(*(x.names for x in self.arguments if isinstance(x, Expression)))

    def __repr__(self) -> str:
        texts = [f"({x!r})" if _has_sign(x) else repr(x) for x in self.arguments]
        if self.function in _SIGNS:
            return f" {_SIGNS[self.function]} ".join(texts)
        if self.function is operator.neg:
            return f"-{texts[0]}"
        return f"{self.function.__name__}({', '.join(map(repr, self.arguments))})"

    __add__, __radd__ = _deferred(operator.add), _deferred(operator.add, swap=True)
    __sub__, __rsub__ = _deferred(operator.sub), _deferred(operator.sub, swap=True)
    __mul__, __rmul__ = _deferred(operator.mul), _deferred(operator.mul, swap=True)
    __truediv__, __rtruediv__ = _deferred(operator.truediv), _deferred(operator.truediv, swap=True)
    __pow__, __rpow__ = _deferred(operator.pow), _deferred(operator.pow, swap=True)
    __lt__, __le__, __gt__, __ge__ = map(_deferred, (operator.lt, operator.le, operator.gt, operator.ge))
    __eq__, __ne__ = _deferred(operator.eq), _deferred(operator.ne)
    __neg__, __abs__ = _deferred(operator.neg), _deferred(operator.abs)
    sin, cos, tan, sqrt, exp, log, tanh = map(_deferred, (np.sin, np.cos, np.tan, np.sqrt, np.exp, np.log, np.tanh))
    arcsin, arccos, arctan, arctan2 = map(_deferred, (np.arcsin, np.arccos, np.arctan, np.arctan2))

    def __pos__(self) -> Expression:
        return self

    def square(self) -> Any:
        return self * self

    def conjugate(self) -> Expression:
        return self

    @staticmethod
    def chosen(function: Callable[..., Any], *arguments: Any) -> Any:
        """Return a function, such as `where(condition, a, b)`, of expressions and numbers."""
        made = Expression(function, arguments)
        return made if _values.get() is None else made.now()

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> NoReturn:
        raise ModelError(f"{self!r} has no truth value, for parameters may change; write catena.where(condition, a, b)")

    def __float__(self) -> NoReturn:
        raise ModelError(f"{self!r} is no plain number, for parameters may change; take its .value where it shall not follow them")

    __int__ = __index__ = __float__


class Named(Expression):
    """A parameter, or an entry of one, with the value that it was made with."""

    __slots__ = ("index", "made", "name")

    def __init__(self, name: str, index: tuple[int, ...], made: float) -> None:
        super().__init__(Named, ())
        self.name, self.index, self.made = name, index, made

    def now(self) -> Any:
        known = _values.get()
        if known is None:
            raise ModelError(f"parameter '{self}' is used where the model's numbers are not known; use it in the functions of a model")
        given = known.get(self.name)
        if given is None:
            return self.made
        entry = given[self.index] if isinstance(given, np.ndarray) else given
        return float(entry) if isinstance(entry, np.floating) else entry

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.name,))

    def __repr__(self) -> str:
        return self.name + (str(list(self.index)) if self.index else "")

    def __reduce__(self) -> tuple:
        return Named, (self.name, self.index, self.made)


def _has_sign(x: Any) -> bool:
    """Return whether a number or an expression needs brackets in a formula."""
    return x.function in (*_SIGNS, operator.neg) if isinstance(x, Expression) else isinstance(x, (int, float)) and x < 0.0


def _now(x: Any) -> Any:
    return x.now() if isinstance(x, Expression) else x


def resolved(x: Any, given: Mapping[str, Any] | None = None) -> Any:
    """Return an expression, or an array or sequence with some, as numbers: of parameters of these values, or of those that they had."""
    with values(given or {}):
        return settled(x)


def expressed(x: Any) -> bool:
    """Return whether a number is an expression, or one is among the entries of an array or sequence."""
    if isinstance(x, np.ndarray):
        return x.dtype == object and any(isinstance(entry, Expression) for entry in x.flat)
    return any(map(expressed, x)) if isinstance(x, (list, tuple)) else isinstance(x, Expression)


def names(x: Any) -> frozenset[str]:
    """Return the parameters that numbers follow from."""
    return frozenset().union(*(entry.names for entry in np.array(x, dtype=object).flat if isinstance(entry, Expression)))


class within:
    """A function in which parameters have these values, unless others are in place where it is called."""

    def __init__(self, function: Callable[..., Any], given: Mapping[str, Any]) -> None:
        self.function, self.given = function, dict(given)

    def __call__(self, *arguments: Any) -> Any:
        with values(self.given):
            return settled(self.function(*arguments))


class renaming:
    """A function whose parameters have other names where it is called: `renamed` has all of them, by those that the function uses."""

    def __init__(self, function: Callable[..., Any], renamed: Mapping[str, str]) -> None:
        self.function, self.renamed = function, dict(renamed)

    def __call__(self, *arguments: Any) -> Any:
        known = _values.get() or {}
        token = _values.set({old: known[new] for old, new in self.renamed.items() if new in known})
        try:
            return settled(self.function(*arguments))
        finally:
            _values.reset(token)


def with_names(x: Any, renamed: Mapping[str, str]) -> Any:
    """Return numbers and expressions, in an array or alone, with other names of parameters."""
    if isinstance(x, np.ndarray):
        entries = np.empty(x.shape, dtype=object)
        for at, entry in np.ndenumerate(x):
            entries[at] = with_names(entry, renamed)
        return entries
    if isinstance(x, Named):
        return Named(renamed.get(x.name, x.name), x.index, x.made)
    return Expression(x.function, tuple(with_names(y, renamed) for y in x.arguments)) if isinstance(x, Expression) else x


def settled(result: Any) -> Any:
    """Return the result of a function, with the numbers in place of expressions that it returned as they were."""
    if not expressed(result):
        return result
    if isinstance(result, Expression):
        return result.now()
    if isinstance(result, (list, tuple)):
        return type(result)(map(settled, result))
    entries = np.empty(result.shape, dtype=object)
    for at, x in np.ndenumerate(result):
        entries[at] = _now(x)
    return entries
