"""Forward derivatives on any scalar: a `Dual` carries a value and its derivative along one direction.

Value and derivative may be floats, traced scalars or Duals themselves, which gives second derivatives. NumPy's functions find the methods
by name, so ordinary NumPy code differentiates itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np


def _comparison(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the method that compares values."""
    return lambda self, other: compare(self.value, _value(other))


class Dual:
    """A number with its derivative along one direction.

    >>> x = Dual(3.0, 1.0)
    >>> (x * x + 1.0).derivative
    6.0
    """

    __slots__ = ("derivative", "value")

    @classmethod
    def dispatch(cls, ufunc: Callable[..., Any], function: Callable[..., Any]) -> None:
        """Let NumPy's functions take Duals by functions of theirs: (ufunc, method, inputs, options) and (function, arguments, options)."""
        cls.__array_ufunc__ = lambda self, of, method, *inputs, **options: ufunc(of, method, inputs, options)
        cls.__array_function__ = lambda self, of, types, arguments, options: function(of, arguments, options)

    def __init__(self, value: Any, derivative: Any) -> None:
        self.value, self.derivative = value, derivative

    def __repr__(self) -> str:
        return f"Dual({self.value!r}, {self.derivative!r})"

    def __add__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        if not isinstance(other, Dual):
            return Dual(self.value + other, self.derivative)
        return Dual(self.value + other.value, self.derivative + other.derivative)

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.derivative)

    def __sub__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, np.ndarray) else self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        if not isinstance(other, Dual):
            return Dual(self.value * other, self.derivative * other)
        return Dual(self.value * other.value, self.derivative * other.value + self.value * other.derivative)

    __radd__ = __add__
    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        if isinstance(other, (int, float, np.floating, np.integer)):  # whose inverse may be no number
            return Dual(self.value / other, self.derivative / other)
        return self * (1.0 / other)

    def __rtruediv__(self, other: Any) -> Dual:
        inverse = 1.0 / self.value
        return Dual(other * inverse, -(other * self.derivative) * (inverse * inverse))

    def __pow__(self, exponent: Any) -> Any:
        if isinstance(exponent, np.ndarray):
            return NotImplemented
        if exponent == 0 or exponent == 1:  # here the rule below would divide by a value of 0
            return self if exponent == 1 else Dual(1.0, 0.0 * self.derivative)
        return Dual(self.value**exponent, exponent * self.value ** (exponent - 1) * self.derivative)

    def __floordiv__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, np.ndarray) else np.floor(self / other)

    def __mod__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, np.ndarray) else self - other * (self // other)

    def __rmod__(self, other: Any) -> Any:
        return other - self * np.floor(other / self)

    __lt__, __le__, __gt__, __ge__ = map(_comparison, (operator.lt, operator.le, operator.gt, operator.ge))
    __eq__, __ne__ = map(_comparison, (operator.eq, operator.ne))
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self.value)

    def __abs__(self) -> Dual:
        size = abs(self.value)
        return Dual(size, self.derivative * (self.value / (size + 1e-300)))  # without a slope at 0

    def chosen(self, where: Any, condition: Any, a: Any, b: Any) -> Dual:
        """Return `where(condition, a, b)` of Duals and numbers, by a function that chooses between values."""
        slopes = (x.derivative if isinstance(x, Dual) else 0.0 for x in (a, b))
        return Dual(where(condition, _value(a), _value(b)), where(condition, *slopes))

    def _chain(self, value: Any, slope: Any) -> Dual:
        return Dual(value, slope * self.derivative)

    def sin(self) -> Dual:
        return self._chain(np.sin(self.value), np.cos(self.value))

    def cos(self) -> Dual:
        return self._chain(np.cos(self.value), -np.sin(self.value))

    def tan(self) -> Dual:
        return self.sin() / self.cos()

    def sqrt(self) -> Dual:
        root = np.sqrt(self.value)
        return self._chain(root, 0.5 / root)

    def floor(self) -> Dual:
        return Dual(np.floor(self.value), 0.0 * self.derivative)

    def ceil(self) -> Dual:
        return Dual(np.ceil(self.value), 0.0 * self.derivative)

    __floor__, __ceil__ = floor, ceil

    def exp(self) -> Dual:
        value = np.exp(self.value)
        return self._chain(value, value)

    def log(self) -> Dual:
        return self._chain(np.log(self.value), 1.0 / self.value)

    def tanh(self) -> Dual:
        value = np.tanh(self.value)
        return self._chain(value, 1.0 - value * value)

    def square(self) -> Dual:
        return self * self

    def arctan2(self, other: Any) -> Dual:
        x = other if isinstance(other, Dual) else Dual(other, 0.0)
        y = self
        scale = 1.0 / (x.value * x.value + y.value * y.value)
        return Dual(np.arctan2(y.value, x.value), (y.derivative * x.value - y.value * x.derivative) * scale)

    def arctan(self) -> Dual:
        return self._chain(np.arctan(self.value), 1.0 / (1.0 + self.value * self.value))

    def arcsin(self) -> Dual:
        return self._chain(np.arcsin(self.value), 1.0 / np.sqrt(1.0 - self.value * self.value))

    def arccos(self) -> Dual:
        return self._chain(np.arccos(self.value), -1.0 / np.sqrt(1.0 - self.value * self.value))


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Dual) else x


def moving(x: Any, rates: Any) -> Any:
    """Return an array of Duals: numbers that change at rates."""
    return np.array([Dual(value, rate) for value, rate in zip(x, rates, strict=True)], dtype=object)


def part(x: Any, name: str) -> Any:
    """Return the values or derivatives of an array of Duals and numbers; the derivative of a number is 0."""
    flat = [getattr(e, name) if isinstance(e, Dual) else (e if name == "value" else 0.0) for e in np.asarray(x, dtype=object).flat]
    return np.array(flat, dtype=object).reshape(np.shape(x))
