"""The trace: the list of operations that plain NumPy code does to traced scalars.

A `Trace` keeps one list of nodes; a node is a tuple `(op, operand, ...)` whose operands are indices of earlier nodes. Equal nodes are made
once (hash-consing), so a common subexpression is shared at the moment it is written, and one node is always one `Scalar` object. Nodes are
held as codes, single integers, which are found and compared faster than tuples.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from catena.errors import TraceError
from catena.graph.elimination import Elimination, Entry, preorder
from catena.graph.graph import Graph, Port, Subgraph
from catena.graph.linear_system import LinearSystem
from catena.graph.multiples import with_scaled_sums
from catena.graph.node_table import ALONE, BITS, CONST, SYSTEM, NodeTable, operation_code
from catena.graph.saddle_point import SaddlePoint, SaddlePointSolution
from catena.graph.scalar import MUL, NEG, Scalar, as_number, refuse

_MUL, _NEG = MUL >> 2 * BITS, NEG >> 2 * BITS


@contextmanager
def without_collection() -> Iterator[None]:
    """Let the garbage collector rest: what is traced stays, and looking through it again and again takes a fifth of the time.

    >>> import gc
    >>> with without_collection():
    ...     gc.isenabled()
    False
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


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
        self.codes: list[int] = []
        self.known: dict[int, int] = {}  # the node of every code
        self.marks: list[int] = []
        self._inputs: list[Port] = []
        self._numbers: list[float] = []
        self._number_nodes: dict[float, int] = {}
        self._wide: list[tuple] = []  # nodes that have no code of their own: more than two operands, or an operation that is not a name
        self._wide_nodes: dict[tuple, int] = {}
        self._scalars: dict[int, Scalar] = {}

    @property
    def nodes(self) -> tuple[tuple, ...]:
        """The nodes up to now."""
        return self.table().nodes()

    def table(self) -> NodeTable:
        """Return the nodes up to now, as arrays."""
        return NodeTable.decoded(self.codes, self._wide, self._numbers)

    def input(self, name: str, shape: tuple[int, ...] = ()) -> Any:
        """Return a new input: a Scalar, or an object array of Scalars."""
        if any(port.name == name for port in self._inputs):
            raise TraceError(f"trace '{self.name}' has an input '{name}' already; give another name")
        start = sum(port.size for port in self._inputs)
        self._inputs.append(Port(name, shape))
        return object_array([self.node("input", start + i) for i in range(math.prod(shape))], shape)

    def mark(self) -> None:
        """Begin a new region: what follows may become a block of code of its own."""
        if not self.marks or self.marks[-1] != len(self.codes):
            self.marks.append(len(self.codes))

    def solve(self, A: Any, x: Any, parent: Sequence[int]) -> Any:
        """Return A^-1 x of a symmetric positive definite matrix with the zeros of a tree, as one operation in a region of its own.

        `parent[k]` < k is the parent of unknown k, -1 at a root. Only the entries A[k, j] at k and its ancestors j are read.
        """
        order = preorder(parent)
        at = {k: i for i, k in enumerate(order)} | {-1: -1}
        paths: dict[int, list[int]] = {-1: []}
        operands: list[Any] = []
        for k in order:
            paths[k] = [*paths[parent[k]], k]
            operands += [x[k], *[A[k, j] for j in paths[k]]]
        solution = np.empty(len(order), dtype=object)
        if order:
            solution[order] = self.system(Elimination(tuple(at[parent[k]] for k in order)), operands)
        return solution

    def linear_system(self, A: Any, B: Any) -> Any:
        """Return A^-1 B, (n, n) and (n, k), as one operation in a region of its own."""
        system = LinearSystem(*B.shape)
        entries = self.system(system, [*A.ravel(), *B.ravel()])
        return object_array(entries, B.shape)

    def saddle_point(self, M: Any, f: Any, J: Any, g: Any, tolerance: Any, most: Any) -> SaddlePointSolution:
        """Return the solution of a saddle point, (n, n), (n, k), (m, n), (m, k), as one operation in a region of its own."""
        system = SaddlePoint(len(M), len(J), f.shape[1])
        entries = self.system(system, system.operands(M, f, J, g, tolerance, most))
        return system.unpacked(object_array(entries, (system.entries,)))

    def call(self, subgraph: Subgraph, *arguments: Any) -> tuple[Any, ...]:
        """Return the outputs of a subgraph for arguments of this trace, as one operation in a region of its own.

        >>> inner = Trace("square")
        >>> x = inner.input("x")
        >>> square = Subgraph(inner.graph(y=x * x))
        >>> trace = Trace("fourth power")
        >>> (y,) = trace.call(square, *trace.call(square, trace.input("x")))
        >>> trace.graph(y=y).evaluate(3.0)
        (array(81.),)
        """
        entries = iter(self.system(subgraph, subgraph.graph.flat(arguments)))
        return tuple(object_array([next(entries) for _ in range(port.size)], port.shape) for port in subgraph.graph.outputs)

    def system(self, system: Any, operands: Sequence[Any]) -> list[Scalar]:
        """Return the entries of an operation of several results, in a region of its own."""
        self.mark()
        node = self.node(system, *[self.index(x) for x in operands]).index
        entries = [self.node(Entry(i), node) for i in range(system.entries)]
        self.mark()
        return entries

    def graph(self, **outputs: Any) -> Graph:
        """Return the graph of the named results, without what they do not need."""
        ports, results = [], []
        for name, value in outputs.items():
            array = np.asarray(value, dtype=object)
            ports.append(Port(name, array.shape))
            results.append(tuple(self.index(x) for x in array.ravel()))
        graph = Graph.from_table(self.name, self.table(), tuple(self._inputs), tuple(ports), tuple(results), tuple(self.marks))
        return graph.with_table(*with_scaled_sums(graph.table, [i for result in graph.results for i in result]))

    def index(self, x: Any) -> int:
        """Return the index of the node that stands for a Scalar or a number."""
        if type(x) is Scalar:
            if x.trace is not self:
                refuse(self, x)
            return x.index
        if hasattr(x, "now"):  # a formula, which stands for what it gives here
            return self.index(x.now())
        return self.number(as_number(x))

    def number(self, x: float) -> int:
        """Return the index of the node of a number."""
        x = math.nan if math.isnan(x) else x  # of which there is one
        i = self._number_nodes.get(x)
        if i is None:
            i = self._number_nodes[x] = len(self.codes)
            self.codes.append(len(self._numbers) << BITS)
            self._numbers.append(x)
        return i

    def node(self, op: Any, *operands: Any) -> Scalar:
        """Return the Scalar of a node, the same one if the node exists."""
        if op == "const":
            return self.scalar(self.number(*operands))
        if isinstance(op, str) and len(operands) <= 2:
            first, last = (*operands, ALONE)[:2]
            return self.coded(operation_code(op) | first << BITS | last)
        node = (op, *operands)
        i = self._wide_nodes.get(node)
        if i is None:
            i = self._wide_nodes[node] = len(self.codes)
            self.codes.append(SYSTEM << 2 * BITS | len(self._wide) << BITS)
            self._wide.append(node)
        return self.scalar(i)

    def coded(self, code: int) -> Scalar:
        """Return the Scalar of the node of a code."""
        i = self.known.get(code)
        if i is None:
            i = self.known[code] = len(self.codes)
            self.codes.append(code)
            if code >> 2 * BITS != _NEG:
                scalar = self._scalars[i] = Scalar(self, i)
                return scalar
        return self.scalar(i)

    def scalar(self, i: int) -> Scalar:
        """Return the Scalar of a node."""
        scalar = self._scalars.get(i)
        if scalar is None:
            scalar = self._scalars[i] = Scalar(self, i)
            code = self.codes[i]
            if code >> 2 * BITS == _NEG:
                scalar.negated = self.scalar(code >> BITS & ALONE)
        return scalar

    def value(self, i: int) -> float:
        """Return the number of a node that is one."""
        return self._numbers[self.codes[i] >> BITS]

    def factor(self, x: Scalar) -> tuple[Scalar, float] | None:
        """Return (y, c) where x is y times the number c, else None."""
        code = self.codes[x.index]
        if code >> 2 * BITS == _MUL and self.codes[code & ALONE] >> 2 * BITS == CONST:
            return self.scalar(code >> BITS & ALONE), self.value(code & ALONE)
        return None


def object_array(entries: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Return an array of objects, or the object itself where there are no axes."""
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array.reshape(shape)[()]
