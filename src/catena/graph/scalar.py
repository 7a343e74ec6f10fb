"""The traced scalar: a number that remembers how it was made.

Results known while tracing are plain floats: zeros, ones and the numbers of the model fold away. Signs float outwards: `-x` is a node of
its own, products and quotients hand it on, sums and differences absorb it. A product of numbers keeps the sign of the number, so that two
bodies that differ only in their constants give nodes of the same form.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from catena.errors import TraceError
from catena.graph.node_table import ALONE, BITS, operation_code

if TYPE_CHECKING:
    from catena.graph.trace import Trace


class _numpy:
    """How NumPy's functions treat traced scalars; `catena.graph.arrays` fills it in."""

    ufunc: Callable[..., Any]
    function: Callable[..., Any]


_NUMBERS = (int, float, np.floating, np.integer)

#: Codes of the operations of arithmetic, without their operands; that of the sign has one.
ADD, SUB, MUL, DIV = map(operation_code, ("add", "sub", "mul", "div"))
NEG = operation_code("neg") | ALONE

#: Whole powers up to this are products; repeated squaring would lose digits of larger ones.
_PRODUCTS = 64


def as_number(x: Any) -> float:
    """Return x as a float, or say why it cannot be traced."""
    if isinstance(x, _NUMBERS):
        return float(x)
    raise TraceError(f"{x!r} ({type(x).__name__}) cannot be part of a traced computation; use real numbers and traced values")


def _normal(x: float) -> bool:
    """Return whether a number has all its digits: it is neither infinite nor so small that it loses some."""
    return sys.float_info.min <= abs(x) < math.inf


def refuse(trace: Trace, other: Scalar | Condition) -> NoReturn:
    """Raise for a scalar of another trace."""
    raise TraceError(f"a value traced in '{other.trace.name}' is used in '{trace.name}'; build both in one trace")


def _function(op: str) -> Callable[[Any], Any]:
    """Return the method of an operation on one number that nothing is known of in advance."""
    return lambda self: self.trace.node(op, self.index)


def _comparison(op: str, swap: bool = False) -> Callable[[Any, Any], Any]:
    """Return the method of a comparison with another number, or of the other with it."""

    def compare(self: Scalar, other: Any) -> Condition:
        i, j = self.index, self.trace.index(other)
        return Condition(self.trace, self.trace.node(op, *((j, i) if swap else (i, j))).index)

    return compare


def _no_value(wanted: str) -> Callable[..., Any]:
    """Return a method that refuses to give what only a number has."""

    def refuse(self: Scalar, *options: Any) -> NoReturn:
        raise TraceError(
            f"a traced value has no {wanted} while the function is traced; "
            "write a choice as catena.where(condition, a, b), and keep float(), int() and `if` to untraced numbers"
        )

    return refuse


class Scalar:
    """A traced number: arithmetic, comparisons and NumPy's functions, which call the methods of their names here, build nodes."""

    __slots__ = ("index", "negated", "trace")

    def __init__(self, trace: Trace, index: int) -> None:
        self.trace = trace
        self.index = index
        self.negated: Scalar | None = None  #: y where this is -y

    def __repr__(self) -> str:
        return f"<traced {self.trace.nodes[self.index][0]} %{self.index} of '{self.trace.name}'>"

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if len(inputs) == 1 and method == "__call__" and not options and hasattr(self, ufunc.__name__):
            return getattr(self, ufunc.__name__)()
        return _numpy.ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        return _numpy.function(function, arguments, options)

    # sums
    def __add__(self, other: Any) -> Any:
        if type(other) is not Scalar:
            return self._add_number(float(other)) if isinstance(other, _NUMBERS) else NotImplemented
        if other is self:
            return self * 2.0
        a, b = self.negated, other.negated
        if a is not None:
            return -(a + b) if b is not None else other - a
        if b is not None:
            return self - b
        i, j, trace = self.index, other.index, self.trace
        if other.trace is not trace:
            refuse(trace, other)
        return trace.coded(ADD | i << BITS | j if i < j else ADD | j << BITS | i)

    def _add_number(self, number: float) -> Any:
        trace = self.trace
        if number == 0.0:
            return self
        if self.negated is not None:
            return trace.coded(SUB | trace.number(number) << BITS | self.negated.index)
        return trace.coded(ADD | self.index << BITS | trace.number(number))

    def __sub__(self, other: Any) -> Any:
        if type(other) is not Scalar:
            return self._add_number(-float(other)) if isinstance(other, _NUMBERS) else NotImplemented
        if other is self:
            return 0.0
        a, b = self.negated, other.negated
        if b is not None:
            return b - a if a is not None else self + b
        if a is not None:
            return -(a + other)
        i, j, trace = self.index, other.index, self.trace
        if other.trace is not trace:
            refuse(trace, other)
        reverse = trace.known.get(SUB | j << BITS | i)
        return trace.coded(SUB | i << BITS | j) if reverse is None else -trace.scalar(reverse)

    def __rsub__(self, other: Any) -> Any:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        return (-self)._add_number(float(other))

    def __neg__(self) -> Scalar:
        return self.trace.coded(NEG | self.index << BITS) if self.negated is None else self.negated

    def __pos__(self) -> Scalar:
        return self

    # products
    def __mul__(self, other: Any) -> Any:
        if type(other) is not Scalar:
            return self._multiply_number(float(other)) if isinstance(other, _NUMBERS) else NotImplemented
        a, b = self.negated, other.negated
        if a is not None:
            return a * b if b is not None else -(a * other)
        if b is not None:
            return -(self * b)
        i, j, trace = self.index, other.index, self.trace
        if other.trace is not trace:
            refuse(trace, other)
        return trace.coded(MUL | i << BITS | j if i < j else MUL | j << BITS | i)

    def _multiply_number(self, number: float) -> Any:
        if number == 0.0:
            return 0.0
        if number == 1.0:
            return self
        if number == -1.0:
            return -self
        if self.negated is not None:
            return self.negated._multiply_number(-number)
        trace = self.trace
        factor = trace.factor(self)
        if factor is not None and _normal(factor[1] * number):
            return factor[0]._multiply_number(factor[1] * number)
        return trace.coded(MUL | self.index << BITS | trace.number(number))

    def __truediv__(self, other: Any) -> Any:
        if type(other) is not Scalar:
            if not isinstance(other, _NUMBERS):
                return NotImplemented
            if float(other) == 0.0:
                raise TraceError("a traced value is divided by the number 0; guard the division with where(...)")
            return self._divide_number(float(other))
        if other is self:
            return 1.0
        a, b = self.negated, other.negated
        if a is not None:
            return a / b if b is not None else -(a / other)
        if b is not None:
            return -(self / b)
        trace = self.trace
        if other.trace is not trace:
            refuse(trace, other)
        return trace.coded(DIV | self.index << BITS | other.index)

    def _divide_number(self, number: float) -> Any:
        inverse = 1.0 / number
        if _normal(inverse) or not math.isfinite(number):
            return self._multiply_number(inverse)
        if abs(number) < 1.0:  # in two steps, of which that by a power of 2 is exact, and neither loses what the quotient has
            return self._multiply_number(2.0**1022)._multiply_number(1.0 / (number * 2.0**1022))
        return self._multiply_number(1.0 / (number * 2.0**-1022))._multiply_number(2.0**-1022)

    def __rtruediv__(self, other: Any) -> Any:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        if float(other) == 0.0:
            return 0.0
        if self.negated is not None:
            return (-float(other)) / self.negated
        return self.trace.coded(DIV | self.trace.number(float(other)) << BITS | self.index)

    def __pow__(self, exponent: Any) -> Any:
        if isinstance(exponent, np.ndarray):
            return NotImplemented
        if isinstance(exponent, _NUMBERS):
            power = float(exponent)
            if power == 0.5:
                return self.sqrt()
            if power.is_integer() and abs(power) <= _PRODUCTS:
                return self._integer_power(int(power))
        return self.trace.node("pow", self.index, self.trace.index(exponent))

    def _integer_power(self, power: int) -> Any:
        if power < 0:
            return 1.0 / self._integer_power(-power)
        result: Any = 1.0
        square: Any = self
        while power:
            if power & 1:
                result = square * result
            power >>= 1
            if power:
                square = square * square
        return result

    def __rpow__(self, base: Any) -> Any:
        if as_number(base) <= 0.0:
            raise TraceError(f"{base!r} to a traced power is not a real number in general; give a positive base")
        return (self * math.log(as_number(base))).exp()

    __radd__ = __add__
    __rmul__ = __mul__

    # functions; NumPy finds them by name
    def sin(self) -> Any:
        inner = self.negated
        return self.trace.node("sin", self.index) if inner is None else -inner.sin()

    def cos(self) -> Any:
        inner = self.negated
        return self.trace.node("cos", self.index if inner is None else inner.index)

    def tan(self) -> Any:
        return self.sin() / self.cos()

    sqrt, exp, log, tanh, floor = map(_function, ("sqrt", "exp", "log", "tanh", "floor"))
    __floor__ = floor

    def ceil(self) -> Any:
        return -(-self).floor()

    __ceil__ = ceil

    def __floordiv__(self, other: Any) -> Any:
        quotient = self / other
        return quotient if quotient is NotImplemented else np.floor(quotient)

    def __rfloordiv__(self, other: Any) -> Any:
        quotient = self.__rtruediv__(other)
        return quotient if quotient is NotImplemented else np.floor(quotient)

    def __mod__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return self - other * (self // other)

    def __rmod__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, np.ndarray) else other - self * (other // self)

    def square(self) -> Any:
        return self * self

    def arctan2(self, other: Any) -> Scalar:
        return self.trace.node("atan2", self.index, self.trace.index(other))

    def arcsin(self) -> Scalar:
        return self.arctan2((1.0 - self * self).sqrt())

    def arccos(self) -> Scalar:
        return (1.0 - self * self).sqrt().arctan2(self)

    def arctan(self) -> Scalar:
        return self.arctan2(1.0)

    def conjugate(self) -> Scalar:
        return self

    def __abs__(self) -> Any:
        inner = self.negated
        return self.trace.node("abs", self.index if inner is None else inner.index)

    __lt__, __le__, __eq__ = map(_comparison, ("lt", "le", "eq"))
    __gt__, __ge__ = _comparison("lt", swap=True), _comparison("le", swap=True)

    def __ne__(self, other: Any) -> Any:
        return ~(self == other)

    def __format__(self, form: str) -> str:
        return _no_value("digits")(self) if form else repr(self)

    __bool__, __float__, __int__, __index__ = map(_no_value, ("truth value", "float", "integer", "index"))
    __round__, __trunc__ = map(_no_value, ("digits", "integer"))
    __hash__ = None  # type: ignore[assignment]


class Condition:
    """A traced truth value, for `where`. Combine with `&`, `|`, `~`; times a number it is 1 or 0."""

    __slots__ = ("index", "trace")
    __array_function__, __array_ufunc__ = Scalar.__array_function__, Scalar.__array_ufunc__

    def __init__(self, trace: Trace, index: int) -> None:
        self.trace = trace
        self.index = index

    def _with(self, op: str, other: Any) -> Any:
        if isinstance(other, (bool, np.bool_)):
            absorbing = other if op == "or" else not other
            return bool(other) if absorbing else self
        if not isinstance(other, Condition):
            return NotImplemented
        if other.trace is not self.trace:
            refuse(self.trace, other)
        return Condition(self.trace, self.trace.node(op, *sorted((self.index, other.index))).index)

    def __and__(self, other: Any) -> Any:
        return self._with("and", other)

    def __or__(self, other: Any) -> Any:
        return self._with("or", other)

    __rand__ = __and__
    __ror__ = __or__

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Condition):
            return self & other
        number = self.trace.node("select", self.index, self.trace.index(1.0), self.trace.index(0.0))
        return number * other

    __rmul__ = __mul__

    def __invert__(self) -> Condition:
        return Condition(self.trace, self.trace.node("not", self.index).index)

    def __bool__(self) -> NoReturn:
        raise TraceError(
            "a comparison of traced values was used in an `if`, `while`, `and`, `or` or `not`; "
            "write catena.where(condition, a, b), and combine conditions with &, | and ~"
        )
