"""The nodes of a graph as arrays, for what is done to all of them at once; and the numbers that stand for operations there.

A node of one or two operands also has a code, a single integer, by which a trace finds it again: the number of its operation, then its
operands, in fields of `BITS` bits; the last field of a single operand is `ALONE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

#: Bits of an operand in a code; nodes are counted below 2**BITS.
BITS = 28
ALONE = (1 << BITS) - 1

#: Numbers of what is not in the table of operations: numbers, entries of inputs, systems and entries of their solutions.
CONST, INPUT, SYSTEM = range(3)

_NAMES = ["const", "input", ""]
_NUMBERS = {"const": CONST, "input": INPUT}


def operation_number(name: str) -> int:
    """Return the number of an operation, the same wherever it is asked for."""
    if name not in _NUMBERS:
        _NUMBERS[name] = len(_NAMES)
        _NAMES.append(name)
    return _NUMBERS[name]


def operation_code(name: str) -> int:
    """Return the part of a code that is the operation's, with nothing where the operands go."""
    return operation_number(name) << 2 * BITS


def operation_names(numbers: np.ndarray) -> list[str]:
    """Return the names of operations."""
    return [_NAMES[number] for number in numbers.tolist()]


class NodeTable(NamedTuple):
    """Per node the number of its operation, and where its operands end in the list of all operands.

    `entry` says what a leaf is: of a number its place in `numbers`, of an input its entry, and of a system, or an entry of its solution,
    the place of the operation in `systems`.

    >>> nodes = ("input", 0), ("const", 2.0), ("mul", 0, 1)
    >>> table = NodeTable.of(nodes)
    >>> table.operands.tolist(), table.ends.tolist(), table.nodes() == nodes
    ([0, 1], [0, 0, 2], True)
    """

    op: np.ndarray
    operands: np.ndarray
    ends: np.ndarray
    entry: np.ndarray
    numbers: Sequence[float]
    systems: Sequence[Any]

    @classmethod
    def of(cls, nodes: Sequence[tuple]) -> NodeTable:
        """Return the table of nodes."""
        numbers: list[float] = []
        systems: list[Any] = []
        op, entry = [], [0] * len(nodes)
        operands: list[tuple] = [()] * len(nodes)
        for i, node in enumerate(nodes):
            name = node[0]
            if name == "const":
                entry[i] = len(numbers)
                numbers.append(node[1])
            elif name == "input":
                entry[i] = node[1]
            else:
                operands[i] = node[1:]
                if not isinstance(name, str):
                    entry[i] = len(systems)
                    systems.append(name)
            op.append(operation_number(name) if isinstance(name, str) else SYSTEM)
        counts = np.fromiter(map(len, operands), np.int64, len(nodes))
        flat = np.fromiter(chain.from_iterable(operands), np.int64, int(counts.sum()))
        return cls(np.array(op, np.int64), flat, np.cumsum(counts), np.array(entry, np.int64), numbers, systems)

    @classmethod
    def decoded(cls, codes: Sequence[int], wide: Sequence[tuple], numbers: Sequence[float]) -> NodeTable:
        """Return the table of nodes by their codes; operands of a code `SYSTEM` are those of the node that it counts in `wide`."""
        packed = np.array(codes, dtype=np.int64)
        op, first, last = packed >> 2 * BITS, packed >> BITS & ALONE, packed & ALONE
        counts = np.where(op <= SYSTEM, 0, np.where(last == ALONE, 1, 2))
        others = np.flatnonzero(op == SYSTEM)
        nodes = [wide[k] for k in first[others].tolist()]
        counts[others] = [len(node) - 1 for node in nodes]
        ends = np.cumsum(counts)
        operands = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
        plain = np.flatnonzero(op > SYSTEM)
        operands[ends[plain] - 1] = last[plain]
        operands[ends[plain] - counts[plain]] = first[plain]
        entry, systems = np.where(op <= INPUT, first, 0), []
        for i, node in zip(others.tolist(), nodes, strict=True):
            operands[ends[i] - counts[i] : ends[i]] = node[1:]
            if isinstance(node[0], str):
                op[i] = operation_number(node[0])
            else:
                entry[i] = len(systems)
                systems.append(node[0])
        return cls(op, operands, ends, entry, numbers, systems)

    @property
    def counts(self) -> np.ndarray:
        """Number of operands per node."""
        return np.diff(self.ends, prepend=0)

    def needed(self, results: Iterable[int]) -> np.ndarray:
        """Return which nodes some results are computed from, themselves included."""
        counts = self.counts
        some = np.flatnonzero(counts)
        first, last = np.arange(len(self.op)), np.arange(len(self.op))
        first[some] = self.operands[self.ends[some] - counts[some]]
        last[some] = self.operands[self.ends[some] - 1]
        firsts, lasts = first.tolist(), last.tolist()
        needed = bytearray(len(self.op))
        for i in results:
            needed[i] = 1
        stop = len(self.op)
        for many in (*np.flatnonzero(counts > 2)[::-1].tolist(), -1):
            for i in range(stop - 1, many, -1):
                if needed[i]:
                    needed[firsts[i]] = needed[lasts[i]] = 1
            if many >= 0 and needed[many]:
                for j in self.operands[self.ends[many] - counts[many] : self.ends[many]].tolist():
                    needed[j] = 1
            stop = many
        return np.frombuffer(needed, dtype=np.bool_)

    def only(self, kept: np.ndarray, at: np.ndarray) -> NodeTable:
        """Return the table of some of the nodes, which have new numbers."""
        counts = self.counts
        operands = at[self.operands[np.repeat(kept, counts)]]
        return self._replace(op=self.op[kept], operands=operands, ends=np.cumsum(counts[kept]), entry=self.entry[kept])

    def nodes(self) -> tuple[tuple, ...]:
        """Return the nodes, as a graph has them."""
        counts, names = self.counts, operation_names(self.op)
        starts = np.minimum(self.ends - counts, max(len(self.operands) - 1, 0))
        if len(self.operands):
            first, last = self.operands[starts].tolist(), self.operands[np.maximum(self.ends - 1, 0)].tolist()
        else:
            first = last = [0] * len(names)
        nodes: list[tuple] = list(zip(names, first, last, strict=True))  # right for those of two operands, which most are
        entries = self.entry
        for i in np.flatnonzero(counts == 1).tolist():
            nodes[i] = (names[i], first[i])
        for i in np.flatnonzero(self.op == CONST).tolist():
            nodes[i] = ("const", self.numbers[int(entries[i])])
        for i in np.flatnonzero(self.op == INPUT).tolist():
            nodes[i] = ("input", int(entries[i]))
        for i in np.flatnonzero((counts > 2) | (self.op == SYSTEM)).tolist():
            operands = self.operands[self.ends[i] - counts[i] : self.ends[i]].tolist()
            nodes[i] = (self.systems[int(entries[i])] if self.op[i] == SYSTEM else names[i], *operands)
        return tuple(nodes)
