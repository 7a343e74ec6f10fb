"""Programs as text: what C and JAX share, which is expressions with operators and calls in turn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from catena.graph import ELIMINATE, OPERATIONS, Block, Call, Elimination, Graph, LinearSystem, Program, SaddlePoint, divided
from catena.graph.operations import CONDITION
from catena.graph.slots import reuse_slots

#: Expressions up to this length stand inside others where they are used once.
WIDTH = 90

#: Calls of so many blocks in turn, at most, make the body of a loop.
PERIOD = 6


class Syntax(NamedTuple):
    """How a language writes values: statements, operations, the way from a truth value to a number and back, and numbers like no other."""

    value: str
    truth: str
    operations: Mapping[str, str]
    to_value: str
    to_truth: str
    infinity: str
    not_a_number: str

    def number(self, x: float) -> str:
        if math.isnan(x):
            return self.not_a_number
        size = repr(abs(x)) if math.isfinite(x) else self.infinity
        return size if math.copysign(1.0, x) > 0.0 else f"(-{size})"


def statements(block: Block, syntax: Syntax, inputs: Sequence[str], numbers: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the statements of a block and the expressions of its results; inputs and numbers are given as expressions.

    >>> syntax = Syntax("{0} = {1}", "{0} = {1}", {"add": "{0} + {1}", "mul": "{0} * {1}"}, "{0}", "{0}", "inf", "nan")
    >>> statements(Block(2, 0, (("mul", 0, 1), ("add", 2, 0), ("mul", 3, 3)), (4,)), syntax, ["a", "b"], [])
    (['x1 = (a * b) + a'], ['x1 * x1'])
    """
    base = block.inputs + block.numbers
    uses = Counter(local for node in block.nodes if node[0] != "const" for local in node[1:])
    uses.update(block.results)
    texts, truths, whole = [*inputs, *numbers], [False] * base, [True] * base
    lines: list[str] = []

    def operand(local: int, as_truth: bool, alone: bool = False) -> str:
        same = truths[local] == as_truth
        text = texts[local] if whole[local] or (alone and same) else f"({texts[local]})"
        return text if same else (syntax.to_truth if as_truth else syntax.to_value).format(text)

    for local, (op, *operands) in enumerate(block.nodes, base):
        if op == "const":
            texts.append(syntax.number(operands[0]))
            truths.append(False)
            whole.append(True)
            continue
        operation, form = OPERATIONS[op], syntax.operations[op]
        call = form[0] not in "{-!~"
        given = [operand(i, type_ is CONDITION, alone=call) for i, type_ in zip(operands, operation.operands, strict=True)]
        text = form.format(*given)
        truths.append(operation.result is CONDITION)
        whole.append(call)
        if uses[local] > 1 or len(text) > WIDTH:
            name = f"x{local - base}"
            lines.append((syntax.truth if truths[-1] else syntax.value).format(name, text))
            text, whole[-1] = name, True
        texts.append(text)
    return lines, [operand(i, False, alone=True) for i in block.results]


def program(graph: Graph) -> Program:
    """Return the program of a graph, as it is compiled here too; in little memory."""
    return reuse_slots(divided(graph)[0], sum(port.size for port in graph.inputs))


class Table(NamedTuple):
    """A block and all its calls, in order."""

    block: Block
    calls: list[Call]

    @property
    def places(self) -> list[list[str]]:
        """For every call the slots that it reads, and the first of each run of results."""
        return [[*map(str, call.reads), *(str(call.writes[i]) for i in self.block.starts)] for call in self.calls]

    @property
    def elimination(self) -> Elimination | None:
        """The elimination that the table is for, if it is for one."""
        system = self.calls[0].system
        assert not isinstance(system, SaddlePoint | LinearSystem)  # refused when the kernel was given
        return system


class Step(NamedTuple):
    """Calls of blocks in turn, over and over: tables and the number of the first call in each, and how often."""

    tables: tuple[int, ...]
    first: tuple[int, ...]
    times: int


def tabulated(programs: Sequence[Program]) -> tuple[list[Table], list[list[Step]]]:
    """Return the blocks of programs, each once, with the calls of them; and the steps of every program."""
    tables: dict[tuple[Block, int], tuple[int, Table]] = {}
    steps = []
    for one in programs:
        sequence = []
        for call in one.calls:
            block = one.blocks[call.block]
            key = block, len(tables) if block == ELIMINATE else -1  # systems differ, and each has a table of its own
            number, table = tables.setdefault(key, (len(tables), Table(block, [])))
            sequence.append((number, len(table.calls)))
            table.calls.append(call)
        steps.append(_steps(sequence))
    return [table for _, table in tables.values()], steps


def _steps(sequence: list[tuple[int, int]]) -> list[Step]:
    """Return a sequence of calls, (table, number in it), with repeated patterns taken together."""
    blocks = [number for number, _ in sequence]
    steps, i = [], 0
    while i < len(blocks):
        best, times = 1, 1
        for period in range(1, PERIOD + 1):
            pattern, count = blocks[i : i + period], 1
            if len(set(pattern)) < period:
                break  # a block stands in a pattern once, so that its calls follow each other
            while blocks[i + count * period : i + (count + 1) * period] == pattern:
                count += 1
            if count > 1 and count * period > best * times:
                best, times = period, count
        ahead = sequence[i : i + best]
        steps.append(Step(tuple(number for number, _ in ahead), tuple(at for _, at in ahead), times))
        i += best * times
    return steps
