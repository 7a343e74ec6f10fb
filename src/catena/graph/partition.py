"""Cuts a graph into blocks of straight-line code and the calls that run them.

A region of the graph becomes a call of a block. Regions with the same operations on the same operands, but for their numbers and for where
their values come from, share one block: the numbers are lifted into a table and the places into an index table. So the code to compile does
not grow with a chain of like bodies.

Values that leave a block live in numbered slots; the first slots are the inputs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from catena.graph.elimination import Elimination, Entry
from catena.graph.graph import SYSTEMS, Graph
from catena.graph.saddle_point import ROUNDING, UNDETERMINED, SaddlePoint


class Block(NamedTuple):
    """Straight-line code on local values, counted through: inputs, then lifted numbers, then one value per node.

    A node is `(op, local, ...)`, or `("const", number)` where numbers are not lifted. `results` are the locals that leave the block.
    """

    inputs: int
    numbers: int
    nodes: tuple[tuple, ...]
    results: tuple[int, ...]


#: The blocks that calls with systems run, whatever their sizes: they read the operands, and write to the slots that they work in.
ELIMINATE = Block(0, 0, (("eliminate",),), ())
SADDLE_POINT = Block(0, 0, (("saddle point",),), ())

#: By kind of system: its block, and the numbers of its calls.
_SOLVED_BY: dict[type, tuple[Block, tuple[float, ...]]] = {
    Elimination: (ELIMINATE, (1.0,)),
    SaddlePoint: (SADDLE_POINT, (1.0, UNDETERMINED, ROUNDING)),
}

#: The block that puts a number into a slot.
_NUMBER = Block(0, 1, (), (0,))


class Call(NamedTuple):
    """One run of a block: the slots it reads, its numbers, the slots it writes, and the system it solves, if that is what it is for."""

    block: int
    reads: tuple[int, ...]
    numbers: tuple[float, ...]
    writes: tuple[int, ...]
    system: Elimination | SaddlePoint | None = None


class Program(NamedTuple):
    """Blocks, and the calls in order. Slot i below the number of inputs holds input i; `outputs` are the slots of the results."""

    blocks: tuple[Block, ...]
    calls: tuple[Call, ...]
    slots: int
    outputs: tuple[int, ...]


def partition(graph: Graph, merge: bool = False) -> Program:
    """Return the program of a graph: a call per region, or a single block with its numbers in place if `merge`.

    A system is a call of its own, between what comes before it and what comes after it.
    """
    nodes = graph.nodes
    systems = {i for i, node in enumerate(nodes) if isinstance(node[0], SYSTEMS)}
    marks = () if merge else graph.marks
    cuts = sorted({0, len(nodes), *marks, *systems, *[i + 1 for i in systems]})
    regions = [range(a, b) for a, b in pairwise(cuts)]
    region_of = [r for r, region in enumerate(regions) for _ in region]
    results = [i for result in graph.results for i in result]
    last = max((r for r, region in enumerate(regions) if region.start not in systems), default=0)

    # who needs a node outside its own region: it gets a slot
    exported = [False] * len(nodes)
    for i in results:
        exported[i] = True
    for i, node in enumerate(nodes):
        if node[0] not in ("const", "input"):
            for j in node[1:]:
                if region_of[j] != region_of[i]:
                    exported[j] = True

    slot: dict[int, int] = {}
    for i, node in enumerate(nodes):
        if node[0] == "input":
            slot[i] = node[1]
    slots = sum(port.size for port in graph.inputs)

    blocks: dict[Block, int] = {}
    calls: list[Call] = []
    for r, region in enumerate(regions):
        if region.start in systems:
            system, *operands = nodes[region.start]
            for j in dict.fromkeys(operands):
                if nodes[j][0] == "const" and j not in slot:  # it reads slots, whatever is in them
                    calls.append(Call(blocks.setdefault(_NUMBER, len(blocks)), (), (nodes[j][1],), (slots,)))
                    slot[j] = slots
                    slots += 1
            rows, room = tuple(slot[j] for j in operands), range(slots, slots + system.room)
            block, constants = _SOLVED_BY[type(system)]
            calls.append(Call(blocks.setdefault(block, len(blocks)), rows, constants, tuple(room), system))
            slot[region.start] = slots
            slots += system.room
            continue
        for i in region:
            if isinstance(nodes[i][0], Entry):
                slot[i] = slot[nodes[i][1]] + nodes[nodes[i][1]][0].starts[nodes[i][0].unknown]
        reads: dict[int, int] = {}
        numbers: dict[int, int] = {}
        own = [i for i in region if nodes[i][0] not in ("const", "input") and not isinstance(nodes[i][0], Entry)]
        # numbers that are results themselves are written by the last block
        constants = [i for i in dict.fromkeys(results) if nodes[i][0] == "const"] if r == last else []
        for i in own:
            for j in nodes[i][1:]:
                if nodes[j][0] == "const":
                    numbers.setdefault(j, len(numbers))
                elif nodes[j][0] == "input" or isinstance(nodes[j][0], Entry) or region_of[j] != r:
                    reads.setdefault(j, len(reads))
        for i in constants:
            numbers.setdefault(i, len(numbers))

        at = dict(reads)
        at.update({j: len(reads) + k for j, k in numbers.items()})
        local: list[tuple] = [("const", nodes[j][1]) for j in numbers] if merge else []
        base = len(reads) + (0 if merge else len(numbers))
        for i in own:
            local.append((nodes[i][0], *[at[j] for j in nodes[i][1:]]))
            at[i] = base + len(local) - 1
        leaving = [i for i in own if exported[i]] + constants
        if not leaving:
            continue
        writes = []
        for i in leaving:
            slot[i] = slots
            writes.append(slots)
            slots += 1
        block = Block(len(reads), 0 if merge else len(numbers), tuple(local), tuple(at[i] for i in leaving))
        calls.append(
            Call(
                blocks.setdefault(block, len(blocks)),
                tuple(slot[j] for j in reads),
                () if merge else tuple(nodes[j][1] for j in numbers),
                tuple(writes),
            )
        )
    return Program(tuple(blocks), tuple(calls), slots, tuple(slot[i] for i in results))
