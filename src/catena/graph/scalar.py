"""The traced scalar: a number that remembers how it was made.

A `Trace` keeps one list of nodes; a node is a tuple `(op, operand, ...)` whose operands are indices of earlier nodes. Equal nodes are made
once (hash-consing), so a common subexpression is shared at the moment it is written, and one node is always one `Scalar` object. Results
known while tracing are plain floats: zeros, ones and the numbers of the model fold away.

Signs float outwards: `-x` is a node of its own, products and quotients hand it on, sums and differences absorb it. A product of numbers
keeps the sign of the number, so that two bodies that differ only in their constants give nodes of the same form.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from catena.errors import TraceError
from catena.graph.elimination import Elimination, Entry, preorder
from catena.graph.graph import Graph, Port
from catena.graph.saddle_point import SaddlePoint, Solution

_NUMBERS = (int, float, np.floating, np.integer)


class Trace:
    """Records the operations on its inputs.

    >>> trace = Trace("hypotenuse")
    >>> x, y = trace.input("x"), trace.input("y")
    >>> graph = trace.graph(r=np.sqrt(x * x + y * y))
    >>> graph.operations
    {'add': 1, 'mul': 2, 'sqrt': 1}
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[tuple] = []
        self.marks: list[int] = []
        self._inputs: list[Port] = []
        self._known: dict[tuple, Scalar] = {}

    def input(self, name: str, shape: tuple[int, ...] = ()) -> Any:
        """Return a new input: a Scalar, or an object array of Scalars."""
        start = sum(port.size for port in self._inputs)
        self._inputs.append(Port(name, shape))
        scalars = [self.node("input", start + i) for i in range(math.prod(shape))]
        if shape == ():
            return scalars[0]
        array = np.empty(len(scalars), dtype=object)
        array[:] = scalars
        return array.reshape(shape)

    def mark(self) -> None:
        """Begin a new region: what follows may become a block of code of its own."""
        if not self.marks or self.marks[-1] != len(self.nodes):
            self.marks.append(len(self.nodes))

    def solve(self, A: Any, x: Any, parent: Sequence[int]) -> Any:
        """Return A^-1 x of a symmetric positive definite matrix with the zeros of a tree, as one operation in a region of its own.

        `parent[k]` < k is the parent of unknown k, -1 at a root. Only the entries A[k, j] at k and its ancestors j are read.
        """
        order = preorder(parent)
        at = {k: i for i, k in enumerate(order)} | {-1: -1}
        paths: dict[int, list[int]] = {-1: []}
        operands: list[int] = []
        for k in order:
            paths[k] = [*paths[parent[k]], k]
            operands += [self.index(x[k]), *[self.index(A[k, j]) for j in paths[k]]]
        solution = np.empty(len(order), dtype=object)
        if order:
            self.mark()
            system = self.node(Elimination(tuple(at[parent[k]] for k in order)), *operands).index
            solution[order] = [self.node(Entry(i), system) for i in range(len(order))]
            self.mark()
        return solution

    def saddle_point(self, M: Any, f: Any, J: Any, g: Any, tolerance: Any, most: Any) -> Solution:
        """Return the solution of a saddle point, (n, n), (n, k), (m, n), (m, k), as one operation in a region of its own."""
        system = SaddlePoint(len(M), len(J), f.shape[1])
        self.mark()
        solved = self.node(system, *[self.index(x) for x in system.operands(M, f, J, g, tolerance, most)]).index
        entries = np.empty(system.entries, dtype=object)
        entries[:] = [self.node(Entry(i), solved) for i in range(system.entries)]
        self.mark()
        return system.unpacked(entries)

    def include(self, graph: Graph, *arguments: Any) -> tuple[Any, ...]:
        """Return the outputs of a graph for arguments of this trace: its operations are recorded again, with its regions, as they stand.

        Nothing in it is shared with what is known already: so regions of a graph that is included several times are alike.

        >>> inner = Trace("square")
        >>> x = inner.input("x")
        >>> square = inner.graph(y=x * x)
        >>> trace = Trace("fourth power")
        >>> (y,) = trace.include(square, *trace.include(square, trace.input("x")))
        >>> trace.graph(y=y).evaluate(3.0)
        (array(81.),)
        """
        given = [x for argument in arguments for x in np.asarray(argument, dtype=object).ravel()]
        marks, at, values = set(graph.marks), [], []
        self.mark()
        for i, node in enumerate(graph.nodes):
            if i in marks:
                self.mark()
            if node[0] in ("input", "const"):
                value = given[node[1]] if node[0] == "input" else node[1]
                at.append(self.index(value))
            else:
                key = (node[0], *[at[j] for j in node[1:]])
                value = Scalar(self, len(self.nodes))
                self.nodes.append(key)
                self._known.setdefault(key, value)
                at.append(value.index)
            values.append(value)
        self.mark()
        found = []
        for port, result in zip(graph.outputs, graph.results, strict=True):
            array = np.empty(port.size, dtype=object)
            array[:] = [values[i] for i in result]
            found.append(array.reshape(port.shape)[()])
        return tuple(found)

    def graph(self, **outputs: Any) -> Graph:
        """Return the graph of the named results, without what they do not need."""
        ports, results = [], []
        for name, value in outputs.items():
            array = np.asarray(value, dtype=object)
            ports.append(Port(name, array.shape))
            results.append(tuple(self.index(x) for x in array.ravel()))
        graph = Graph(self.name, tuple(self.nodes), tuple(self._inputs), tuple(ports), tuple(results), tuple(self.marks))
        return graph.drop_dead()

    def index(self, x: Any) -> int:
        """Return the index of the node that stands for a Scalar or a number."""
        if type(x) is Scalar:
            if x.trace is not self:
                raise TraceError(f"a value traced in '{x.trace.name}' is used in '{self.name}'; build both in one trace")
            return x.index
        return self.node("const", _number(x)).index

    def node(self, op: Any, *operands: Any) -> Scalar:
        """Return the Scalar of a node, the same one if the node exists."""
        key = (op, *operands)
        scalar = self._known.get(key)
        if scalar is None:
            scalar = Scalar(self, len(self.nodes))
            self.nodes.append(key)
            self._known[key] = scalar
        return scalar

    def negated(self, x: Scalar) -> Scalar | None:
        """Return y where x is -y, else None."""
        node = self.nodes[self.index(x)]
        return self._known[self.nodes[node[1]]] if node[0] == "neg" else None

    def factor(self, x: Scalar) -> tuple[Scalar, float] | None:
        """Return (y, c) where x is y times the number c, else None."""
        node = self.nodes[x.index]
        if node[0] == "mul" and self.nodes[node[2]][0] == "const":
            return self._known[self.nodes[node[1]]], self.nodes[node[2]][1]
        return None


def _number(x: Any) -> float:
    """Return x as a float, or say why it cannot be traced."""
    if isinstance(x, _NUMBERS):
        return float(x)
    raise TraceError(f"{x!r} ({type(x).__name__}) cannot be part of a traced computation; use real numbers and traced values")


def _normal(x: float) -> bool:
    """Return whether a number has all its digits: it is neither infinite nor so small that it loses some."""
    return sys.float_info.min <= abs(x) < math.inf


class Scalar:
    """A traced number. Arithmetic, comparisons and NumPy's functions build nodes.

    NumPy's `sin`, `sqrt`, … on an object array call the methods of that name here.
    """

    __slots__ = ("index", "trace")

    def __init__(self, trace: Trace, index: int) -> None:
        self.trace = trace
        self.index = index

    def __repr__(self) -> str:
        return f"<traced {self.trace.nodes[self.index][0]} %{self.index} of '{self.trace.name}'>"

    # sums
    def __add__(self, other: Any) -> Any:
        trace = self.trace
        if type(other) is not Scalar:
            if isinstance(other, _NUMBERS):
                return self._add_number(float(other))
            return NotImplemented
        if other is self:
            return self * 2.0
        a, b = trace.negated(self), trace.negated(other)
        if a is not None:
            return -(a + b) if b is not None else other - a
        if b is not None:
            return self - b
        i, j = self.index, other.index
        return trace.node("add", i, j) if i < j else trace.node("add", j, i)

    def _add_number(self, number: float) -> Any:
        trace = self.trace
        if number == 0.0:
            return self
        inner = trace.negated(self)
        if inner is not None:
            return trace.node("sub", trace.index(number), inner.index)
        return trace.node("add", self.index, trace.index(number))

    def __sub__(self, other: Any) -> Any:
        trace = self.trace
        if type(other) is not Scalar:
            if isinstance(other, _NUMBERS):
                return self._add_number(-float(other))
            return NotImplemented
        if other is self:
            return 0.0
        a, b = trace.negated(self), trace.negated(other)
        if b is not None:
            return b - a if a is not None else self + b
        if a is not None:
            return -(a + other)
        i, j = self.index, other.index
        reverse = trace._known.get(("sub", j, i))
        return trace.node("sub", i, j) if reverse is None else -reverse

    def __rsub__(self, other: Any) -> Any:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        return (-self)._add_number(float(other))

    def __neg__(self) -> Scalar:
        inner = self.trace.negated(self)
        return self.trace.node("neg", self.index) if inner is None else inner

    def __pos__(self) -> Scalar:
        return self

    # products
    def __mul__(self, other: Any) -> Any:
        trace = self.trace
        if type(other) is not Scalar:
            if isinstance(other, _NUMBERS):
                return self._multiply_number(float(other))
            return NotImplemented
        a, b = trace.negated(self), trace.negated(other)
        if a is not None:
            return a * b if b is not None else -(a * other)
        if b is not None:
            return -(self * b)
        i, j = self.index, other.index
        return trace.node("mul", i, j) if i < j else trace.node("mul", j, i)

    def _multiply_number(self, number: float) -> Any:
        trace = self.trace
        if number == 0.0:
            return 0.0
        if number == 1.0:
            return self
        if number == -1.0:
            return -self
        inner = trace.negated(self)
        if inner is not None:
            return inner._multiply_number(-number)
        factor = trace.factor(self)
        if factor is not None and _normal(factor[1] * number):
            return factor[0]._multiply_number(factor[1] * number)
        return trace.node("mul", self.index, trace.index(number))

    def __truediv__(self, other: Any) -> Any:
        trace = self.trace
        if type(other) is not Scalar:
            if not isinstance(other, _NUMBERS):
                return NotImplemented
            if float(other) == 0.0:
                raise TraceError("a traced value is divided by the number 0; guard the division with where(...)")
            return self._divide_number(float(other))
        if other is self:
            return 1.0
        a, b = trace.negated(self), trace.negated(other)
        if a is not None:
            return a / b if b is not None else -(a / other)
        if b is not None:
            return -(self / b)
        return trace.node("div", self.index, other.index)

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
        inner = self.trace.negated(self)
        if inner is not None:
            return (-float(other)) / inner
        return self.trace.node("div", self.trace.index(float(other)), self.index)

    def __pow__(self, exponent: Any) -> Any:
        if isinstance(exponent, np.ndarray):
            return NotImplemented
        if isinstance(exponent, _NUMBERS):
            power = float(exponent)
            if power == 0.5:
                return self.sqrt()
            if power.is_integer():
                return self._integer_power(int(power))
        return (self.log() * exponent).exp()

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
        if _number(base) <= 0.0:
            raise TraceError(f"{base!r} to a traced power is not a real number in general; give a positive base")
        return (self * math.log(_number(base))).exp()

    __radd__ = __add__
    __rmul__ = __mul__

    # functions; NumPy finds them by name
    def sin(self) -> Any:
        inner = self.trace.negated(self)
        return self.trace.node("sin", self.index) if inner is None else -inner.sin()

    def cos(self) -> Any:
        inner = self.trace.negated(self)
        return self.trace.node("cos", self.index if inner is None else inner.index)

    def tan(self) -> Any:
        return self.sin() / self.cos()

    def sqrt(self) -> Scalar:
        return self.trace.node("sqrt", self.index)

    def exp(self) -> Scalar:
        return self.trace.node("exp", self.index)

    def log(self) -> Scalar:
        return self.trace.node("log", self.index)

    def tanh(self) -> Scalar:
        return self.trace.node("tanh", self.index)

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
        inner = self.trace.negated(self)
        return self.trace.node("abs", self.index if inner is None else inner.index)

    # comparisons
    def _compare(self, op: str, other: Any, swap: bool = False) -> Condition:
        i, j = self.index, self.trace.index(other)
        return Condition(self.trace, self.trace.node(op, *((j, i) if swap else (i, j))).index)

    def __lt__(self, other: Any) -> Any:
        return self._compare("lt", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("le", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare("lt", other, swap=True)

    def __ge__(self, other: Any) -> Any:
        return self._compare("le", other, swap=True)

    def __eq__(self, other: Any) -> Any:
        return self._compare("eq", other)

    def __ne__(self, other: Any) -> Any:
        return ~self._compare("eq", other)

    __hash__ = None  # type: ignore[assignment]

    def _no_value(self, wanted: str) -> NoReturn:
        raise TraceError(
            f"a traced value has no {wanted} while the function is traced; "
            "write a choice as catena.where(condition, a, b), and keep float(), int() and `if` to untraced numbers"
        )

    def __bool__(self) -> NoReturn:
        self._no_value("truth value")

    def __float__(self) -> NoReturn:
        self._no_value("float")

    def __int__(self) -> NoReturn:
        self._no_value("integer")

    def __index__(self) -> NoReturn:
        self._no_value("index")


class Condition:
    """A traced truth value, for `where`. Combine with `&`, `|`, `~`."""

    __slots__ = ("index", "trace")

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
            raise TraceError(f"a value traced in '{other.trace.name}' is used in '{self.trace.name}'; build both in one trace")
        return Condition(self.trace, self.trace.node(op, *sorted((self.index, other.index))).index)

    def __and__(self, other: Any) -> Any:
        return self._with("and", other)

    def __or__(self, other: Any) -> Any:
        return self._with("or", other)

    __rand__ = __and__
    __ror__ = __or__

    def __invert__(self) -> Condition:
        return Condition(self.trace, self.trace.node("not", self.index).index)

    def __bool__(self) -> NoReturn:
        raise TraceError(
            "a comparison of traced values was used in an `if`, `while`, `and`, `or` or `not`; "
            "write catena.where(condition, a, b), and combine conditions with &, | and ~"
        )
