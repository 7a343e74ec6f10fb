"""The graph: an immutable list of operations with named inputs and outputs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from catena.errors import TraceError
from catena.graph.elimination import Elimination, Entry
from catena.graph.saddle_point import SaddlePoint

#: The operations that solve a system of equations; their entries are picked by `Entry`.
SYSTEMS = (Elimination, SaddlePoint)

#: What each operation counts as. Negations are free where they meet a sum or a product, so they count apart.
kinds: dict[str, str] = {
    "add": "add", "sub": "add", "mul": "mul", "div": "div", "neg": "neg", "sqrt": "sqrt", "sin": "trig", "cos": "trig",
    "exp": "function", "log": "function", "tanh": "function", "atan2": "function", "abs": "neg",
    "min": "choice", "max": "choice", "select": "choice", "lt": "choice", "le": "choice", "eq": "choice",
    "and": "choice", "or": "choice", "not": "choice",
}  # fmt: skip

_ARITY: dict[str, int] = dict.fromkeys(("add", "sub", "mul", "div", "atan2", "min", "max", "lt", "le", "eq", "and", "or"), 2)
_ARITY.update(dict.fromkeys(("neg", "sqrt", "sin", "cos", "exp", "log", "tanh", "abs", "not"), 1))
_ARITY["select"] = 3
_COMPARISONS = ("lt", "le", "eq")
_LOGIC = ("and", "or", "not")

_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "sqrt": np.sqrt,
    "sin": np.sin, "cos": np.cos, "exp": np.exp, "log": np.log, "tanh": np.tanh, "atan2": np.arctan2, "abs": np.abs,
    "min": np.minimum, "max": np.maximum, "select": np.where, "lt": np.less, "le": np.less_equal, "eq": np.equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
}  # fmt: skip


class Port(NamedTuple):
    """A named input or output and its shape."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of scalars."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Graph:
    """Operations in the order they are computed.

    `nodes[i]` is `("const", value)`, `("input", k)` with k counting through all inputs, or `(op, operand, ...)` with operands below i. An
    operation is a name, or a system such as an `Elimination`, whose solution is read by nodes `(Entry(k), i)`.
    `results[j]` holds the node of every entry of output j. A region begins at every index in `marks`.
    """

    name: str
    nodes: tuple[tuple, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    results: tuple[tuple[int, ...], ...]
    marks: tuple[int, ...] = ()

    def __repr__(self) -> str:
        ins, outs = (", ".join(f"{p.name}{list(p.shape)}" for p in ports) for ports in (self.inputs, self.outputs))
        return f"<Graph {self.name}: ({ins}) -> ({outs}), {sum(self.operations.values())} operations, {len(self.regions)} regions>"

    @cached_property
    def operations(self) -> dict[str, int]:
        """Number of operations by kind: add (and subtract), mul, div, sqrt, trig, neg, …"""
        return self._count(self.nodes)

    @cached_property
    def regions(self) -> tuple[range, ...]:
        """The runs of nodes between marks, as they are computed."""
        cuts = sorted({0, len(self.nodes), *self.marks})
        return tuple(range(a, b) for a, b in pairwise(cuts))

    @cached_property
    def operations_by_region(self) -> tuple[dict[str, int], ...]:
        """The operation counts of every region."""
        return tuple(self._count(self.nodes[region.start : region.stop]) for region in self.regions)

    @staticmethod
    def _count(nodes: Sequence[tuple]) -> dict[str, int]:
        counts = Counter(kinds[node[0]] for node in nodes if node[0] in kinds)
        for op, *_ in nodes:
            if isinstance(op, SYSTEMS):
                counts.update(op.operations)
        return {kind: counts[kind] for kind in sorted(counts)}

    def check(self) -> Graph:
        """Return the graph itself, or raise where it is not well formed."""
        entries = sum(port.size for port in self.inputs)
        truth: list[bool | None] = []  # which nodes are conditions, None for solutions
        for i, (op, *operands) in enumerate(self.nodes):
            if op == "const":
                good = len(operands) == 1 and isinstance(operands[0], float)
            elif op == "input":
                good = len(operands) == 1 and 0 <= operands[0] < entries
            elif isinstance(op, SYSTEMS):
                good = op.well_formed and len(operands) == op.size and all(0 <= j < i and truth[j] is False for j in operands)
            elif isinstance(op, Entry):
                good = len(operands) == 1 and 0 <= operands[0] < i and truth[operands[0]] is None
                good = good and 0 <= op.unknown < self.nodes[operands[0]][0].entries
            else:
                good = len(operands) == _ARITY.get(op, -1) and all(0 <= j < i for j in operands)
                wanted = (True, False, False) if op == "select" else (op in _LOGIC,) * len(operands)
                good = good and all(truth[j] is want for j, want in zip(operands, wanted, strict=True))
            if not good:
                raise TraceError(f"graph '{self.name}': node {i} {(op, *operands)} is not well formed")
            truth.append(None if isinstance(op, SYSTEMS) else op in _LOGIC or op in _COMPARISONS)
        if len(self.outputs) != len(self.results):
            raise TraceError(f"graph '{self.name}': {len(self.outputs)} outputs have {len(self.results)} results")
        for port, result in zip(self.outputs, self.results, strict=True):
            if len(result) != port.size or not all(0 <= j < len(self.nodes) and truth[j] is False for j in result):
                raise TraceError(f"graph '{self.name}': output '{port.name}' does not fit its shape {port.shape}")
        if not all(0 <= mark <= len(self.nodes) for mark in self.marks):
            raise TraceError(f"graph '{self.name}': the marks {self.marks} are not within its {len(self.nodes)} nodes")
        return self

    def drop_dead(self) -> Graph:
        """Return the graph without the nodes that no output needs."""
        live = bytearray(len(self.nodes))
        for result in self.results:
            for i in result:
                live[i] = 1
        for i in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[i]
            if live[i] and node[0] not in ("const", "input"):
                for j in node[1:]:
                    live[j] = 1
        new = np.cumsum(np.frombuffer(live, dtype=np.uint8), dtype=np.int64) - 1
        at = new.tolist()
        nodes = tuple(
            node if node[0] in ("const", "input") else (node[0], *[at[j] for j in node[1:]])
            for i, node in enumerate(self.nodes)
            if live[i]
        )
        results = tuple(tuple(at[i] for i in result) for result in self.results)
        before = [0, *np.cumsum(np.frombuffer(live, dtype=np.uint8), dtype=np.int64).tolist()]
        marks = tuple(dict.fromkeys(before[mark] for mark in self.marks))
        return replace(self, nodes=nodes, results=results, marks=marks)

    def evaluate(self, *arguments: Any) -> tuple[np.ndarray, ...]:
        """Return the outputs, computed node by node with NumPy; a slow and independent reading of the graph.

        Arguments broadcast over leading axes like those of a compiled kernel.
        """
        arrays = [np.asarray(x, dtype=float) for x in arguments]
        batch = np.broadcast_shapes(*[x.shape[: x.ndim - len(p.shape)] for x, p in zip(arrays, self.inputs, strict=True)])
        columns: list[np.ndarray] = []
        for x, port in zip(arrays, self.inputs, strict=True):
            flat = np.broadcast_to(x, batch + port.shape).reshape(*batch, port.size)
            columns += [flat[..., i] for i in range(port.size)]
        values: list[Any] = []
        with np.errstate(all="ignore"):
            for op, *operands in self.nodes:
                if op == "const":
                    values.append(operands[0])
                elif op == "input":
                    values.append(columns[operands[0]])
                elif isinstance(op, SYSTEMS):
                    values.append(op.solution([values[j] for j in operands]))
                elif isinstance(op, Entry):
                    values.append(values[operands[0]][..., op.unknown])
                else:
                    values.append(_NUMPY[op](*[values[j] for j in operands]))
        outputs = []
        for port, result in zip(self.outputs, self.results, strict=True):
            stacked = np.empty((*batch, port.size))
            for k, i in enumerate(result):
                stacked[..., k] = values[i]
            outputs.append(stacked.reshape(batch + port.shape))
        return tuple(outputs)
