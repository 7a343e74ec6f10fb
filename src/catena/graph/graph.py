"""The graph: an immutable list of operations with named inputs and outputs."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from catena.errors import TraceError
from catena.graph.elimination import Elimination, Entry
from catena.graph.linear_system import LinearSystem
from catena.graph.node_table import SYSTEM, NodeTable, operation_names
from catena.graph.operations import CONDITION, CONDITIONS, LEAVES, OPERATIONS
from catena.graph.saddle_point import SaddlePoint


class Port(NamedTuple):
    """A named input or output and its shape."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of scalars."""
        return math.prod(self.shape)


def operands_of(node: tuple) -> tuple[int, ...]:
    """Return the nodes that a node is computed from."""
    return () if node[0] in LEAVES else node[1:]


def renumbered(node: tuple, at: Sequence[int] | Mapping[int, int]) -> tuple:
    """Return a node whose operands have new numbers."""
    return node if node[0] in LEAVES else (node[0], *[at[j] for j in node[1:]])


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

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # what is computed of them comes again

    @cached_property
    def operations(self) -> dict[str, int]:
        """Number of operations by kind: add (and subtract), mul, div, sqrt, trig, neg, …"""
        return self._count(slice(None))

    @cached_property
    def regions(self) -> tuple[range, ...]:
        """The runs of nodes between marks, as they are computed."""
        cuts = sorted({0, len(self.table.op), *self.marks})
        return tuple(range(a, b) for a, b in pairwise(cuts))

    @cached_property
    def operations_by_region(self) -> tuple[dict[str, int], ...]:
        """The operation counts of every region."""
        return tuple(self._count(slice(region.start, region.stop)) for region in self.regions)

    def _count(self, part: slice) -> dict[str, int]:
        numbers, times = np.unique(self.table.op[part], return_counts=True)
        counts: Counter[str] = Counter()
        for name, count in zip(operation_names(numbers), times.tolist(), strict=True):
            if name in OPERATIONS:
                counts[OPERATIONS[name].kind] += count
        for k in self.table.entry[part][self.table.op[part] == SYSTEM].tolist():
            if isinstance(self.table.systems[k], SYSTEMS):
                counts.update(self.table.systems[k].operations)
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
                types = OPERATIONS[op].operands if op in OPERATIONS else ()
                good = 0 < len(types) == len(operands) and all(0 <= j < i for j in operands)
                good = good and all(truth[j] is (type_ is CONDITION) for j, type_ in zip(operands, types, strict=True))
            if not good:
                raise TraceError(f"graph '{self.name}': node {i} {(op, *operands)} is not well formed")
            truth.append(None if isinstance(op, SYSTEMS) else op in CONDITIONS)
        if len(self.outputs) != len(self.results):
            raise TraceError(f"graph '{self.name}': {len(self.outputs)} outputs have {len(self.results)} results")
        for port, result in zip(self.outputs, self.results, strict=True):
            if len(result) != port.size or not all(0 <= j < len(self.nodes) and truth[j] is False for j in result):
                raise TraceError(f"graph '{self.name}': output '{port.name}' does not fit its shape {port.shape}")
        if not all(0 <= mark <= len(self.nodes) for mark in self.marks):
            raise TraceError(f"graph '{self.name}': the marks {self.marks} are not within its {len(self.nodes)} nodes")
        return self

    def flat(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the entries of arguments, an array or a scalar for each input, one after the other; refuse others than these."""
        entries = [list(np.asarray(x, dtype=object).ravel()) for x in arguments]
        sizes, wanted = [len(part) for part in entries], [port.size for port in self.inputs]
        if sizes != wanted:
            raise TraceError(f"graph '{self.name}': its inputs ({', '.join(map(str, self.inputs))}) are given arrays of {sizes} entries")
        return [x for part in entries for x in part]

    def drop_dead(self) -> Graph:
        """Return the graph without the nodes that no output needs."""
        return Graph.from_table(self.name, self.table, self.inputs, self.outputs, self.results, self.marks)

    @cached_property
    def table(self) -> NodeTable:
        """The nodes as arrays."""
        return NodeTable.of(self.nodes)

    def __getattr__(self, name: str) -> Any:
        if name != "nodes":
            raise AttributeError(f"a graph has no attribute '{name}'")
        nodes = self.__dict__["nodes"] = self.__dict__["table"].nodes()  # of a graph from a table, when they are first asked for
        return nodes

    @classmethod
    def from_table(
        cls,
        name: str,
        table: NodeTable,
        inputs: tuple[Port, ...],
        outputs: tuple[Port, ...],
        results: tuple[tuple[int, ...], ...],
        marks: tuple[int, ...],
    ) -> Graph:
        """Return the graph of a table of nodes, without those that no output needs."""
        live = table.needed(i for result in results for i in result)
        at = np.concatenate([[0], np.cumsum(live)])  # live nodes before each
        return cls(name, (), inputs, outputs, results, marks).with_table(table.only(live, at), at)

    def with_marks(self, marks: tuple[int, ...]) -> Graph:
        """Return the graph with other regions."""
        return Graph(self.name, (), self.inputs, self.outputs, self.results, marks)._with_table(self.table)

    def with_table(self, table: NodeTable, at: np.ndarray) -> Graph:
        """Return the graph with other nodes, where the nodes have new numbers; nodes that are left out have that of the next."""
        results = tuple(tuple(at[list(result)].tolist()) for result in self.results)
        marks = tuple(dict.fromkeys(at[list(self.marks)].tolist()))
        return Graph(self.name, (), self.inputs, self.outputs, results, marks)._with_table(table)

    def _with_table(self, table: NodeTable) -> Graph:
        del self.__dict__["nodes"]
        self.__dict__["table"] = table
        return self

    def evaluate(self, *arguments: Any) -> tuple[np.ndarray, ...]:
        """Return the outputs, computed node by node with NumPy: an independent reading of the graph. Arguments broadcast."""
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
                    values.append(OPERATIONS[op].numpy(*[values[j] for j in operands]))
        outputs = []
        for port, result in zip(self.outputs, self.results, strict=True):
            stacked = np.empty((*batch, port.size))
            for k, i in enumerate(result):
                stacked[..., k] = values[i]
            outputs.append(stacked.reshape(batch + port.shape))
        return tuple(outputs)


@dataclass(frozen=True, eq=False, repr=False)
class Subgraph:
    """The operation that evaluates a graph; its operands are the inputs of the graph, its entries the outputs, one after the other.

    Its code is made once for all programs that it is part of, several times as fast with `quick`, as that of a `Kernel`.
    """

    graph: Graph
    quick: bool = False

    def __repr__(self) -> str:
        return f"Subgraph({self.graph.name!r}, {self._digest})"

    @cached_property
    def _digest(self) -> str:
        parts = (self.graph.nodes, self.graph.inputs, self.graph.outputs, self.graph.results)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    @property
    def well_formed(self) -> bool:
        """Whether the graph is."""
        return True  # it was checked as it was made

    @cached_property
    def size(self) -> int:
        """Number of operands."""
        return sum(port.size for port in self.graph.inputs)

    @cached_property
    def entries(self) -> int:
        """Number of entries of the outputs."""
        return sum(port.size for port in self.graph.outputs)

    @property
    def operations(self) -> dict[str, int]:
        """Number of operations by kind."""
        return self.graph.operations

    def solution(self, operands: Sequence[Any]) -> np.ndarray:
        """Return the entries by NumPy; operands broadcast, the last axis of the result is the entries."""
        columns = np.stack(np.broadcast_arrays(*operands), axis=-1)
        ends = np.cumsum([port.size for port in self.graph.inputs])[:-1]
        parts = np.split(columns, ends, axis=-1)
        batch = columns.shape[:-1]
        arguments = [part.reshape(batch + port.shape) for part, port in zip(parts, self.graph.inputs, strict=True)]
        return np.concatenate([x.reshape(*batch, -1) for x in self.graph.evaluate(*arguments)], axis=-1)


#: The operations that have several results; these are picked by `Entry`.
SYSTEMS = (Elimination, SaddlePoint, LinearSystem, Subgraph)
