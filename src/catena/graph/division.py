"""Divides a graph into the blocks and calls of a program.

A region of the graph becomes a call of a block. Regions with the same operations on the same operands, but for their numbers and for where
their values come from, share one block: the numbers are lifted into a table and the places into an index table. A small graph becomes a
single block. A graph that is run over and over, its results the next arguments, is changed a little before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from catena.graph.call_order import in_order
from catena.graph.elimination import Elimination, Entry
from catena.graph.graph import Graph, Subgraph, operands_of, renumbered
from catena.graph.linear_system import LinearSystem
from catena.graph.node_table import CONST, INPUT, SYSTEM, NodeTable, operation_names
from catena.graph.program import ELIMINATE, LINEAR_SYSTEM, SADDLE_POINT, Block, Call, Library, Program
from catena.graph.saddle_point import ROUNDING, UNDETERMINED, SaddlePoint
from catena.graph.slots import in_runs

#: Graphs up to this many nodes become one block. Beyond it regions run faster, for the processor overlaps those of two groups of states;
#: they compile in less time than linear in the size of the mechanism, and serve mechanisms of any size. Measured with AVX2 and AVX-512 on
#: chains: with 2,300 nodes one block takes 0.7 to 0.9 times as long, with 2,700 1.0 to 1.2 and with 4,300 1.2 to 1.3 times.
MERGE = 2500

#: Where regions have fewer nodes than this on average, calling them one by one costs more than it saves, and graphs up to MERGE_SMALL nodes
#: become one block. Measured on inverse dynamics and mass matrices, 50 to 75 nodes a region: with 2,900 nodes one block takes 0.9 to 1.0
#: times as long, with 4,600 1.1 to 1.2 times. Regions of the articulated-body method have 90 to 140 nodes.
SMALL = 80
MERGE_SMALL = 4500

#: Regions of more nodes than this are cut: a block takes longer than linear to compile.
LARGEST = 3000

#: By kind of system: its block, and the numbers of its calls.
_SOLVED_BY: dict[type, tuple[Block, tuple[float, ...]]] = {
    Elimination: (ELIMINATE, (1.0,)),
    SaddlePoint: (SADDLE_POINT, (1.0, UNDETERMINED, ROUNDING)),
    LinearSystem: (LINEAR_SYSTEM, (1.0,)),
}

#: The block that puts a number into a slot.
_NUMBER = Block(0, 1, (), (0,))


def divided(graph: Graph) -> tuple[Program, bool]:
    """Return the program of a graph, and whether the graph is small: then its regions are merged, and its numbers are in place."""
    count = len(graph.table.op)
    small = count <= (MERGE_SMALL if count < SMALL * len(graph.regions) else MERGE)
    return program_of(graph if small else with_small_regions(graph), merge=small), small


def with_small_regions(graph: Graph) -> Graph:
    """Return the graph with marks inside the regions that are too large for one block."""
    marks = [mark for region in graph.regions for mark in range(region.start, region.stop, LARGEST)]
    return graph.with_marks(tuple(marks))


def program_of(graph: Graph, merge: bool = False) -> Program:
    """Return the program of a graph: a call per region and per system, or a single block with its numbers in place if `merge`."""
    return _Division(graph, merge).program()


class _Division:
    """A program in the making: `slot` of every node that has one, `slots` in use, blocks by number, and the calls up to now."""

    def __init__(self, graph: Graph, merge: bool) -> None:
        table = graph.table
        systems = {i: table.systems[int(table.entry[i])] for i in np.flatnonzero(table.op == SYSTEM).tolist()}
        self.systems = {i: system for i, system in systems.items() if not isinstance(system, Entry)}
        cuts = {0, len(table.op), *(() if merge else graph.marks), *self.systems, *[i + 1 for i in self.systems]}
        self.table, self.merge, self.cuts = table, merge, np.array(sorted(cuts))
        self.results = [i for result in graph.results for i in result]
        self.slot = np.where(table.op == INPUT, table.entry, -1)
        self.slots = sum(port.size for port in graph.inputs)
        self.blocks: dict[Block, int] = {}
        self.calls: list[Call] = []
        self.libraries: dict[Subgraph, Library] = {}
        # the nodes that are entries of a system, and which
        self.entries: dict[int, list[tuple[int, int]]] = {i: [] for i in self.systems}
        for i, entry in systems.items():
            if isinstance(entry, Entry):
                self.entries[int(table.operands[table.ends[i] - 1])].append((i, entry.unknown))

    def program(self) -> Program:
        """Return the program."""
        starts = self.cuts[:-1].tolist()
        straight = [region for region, start in enumerate(starts) if start not in self.systems]
        # numbers that are results themselves are written by the last block
        numbers = [i for i in dict.fromkeys(self.results) if self.table.op[i] == CONST]
        regions = _Regions(self.table, self.cuts, self.results, {straight[-1]: numbers} if straight else {})
        known: dict[tuple, int] = {}
        for region, start in enumerate(starts):
            system = self.systems.get(start)
            if isinstance(system, Subgraph):
                self._include(start, system)
            elif system is not None:
                self._solve(start, system)
            else:
                self._compute(regions, region, known)
        outputs = tuple(self.slot[self.results].tolist())
        return Program(tuple(self.blocks), tuple(self.calls), self.slots, outputs, tuple(self.libraries.values()))

    def _operands(self, i: int) -> list[int]:
        """Return the operands of a system; those that are numbers are put into slots."""
        table = self.table
        operands = table.operands[table.ends[i - 1] : table.ends[i]].tolist()
        for j in dict.fromkeys(operands):
            if table.op[j] == CONST and self.slot[j] < 0:
                self.slot[j] = self._call(self._number(_NUMBER), (), (table.numbers[int(table.entry[j])],), 1)
        return operands

    def _include(self, i: int, subgraph: Subgraph) -> None:
        """Add the calls of a subgraph's program, whose slots follow those in use."""
        operands = self.slot[self._operands(i)].tolist()
        program = library_program(subgraph)
        numbers = [self._number(block) for block in program.blocks]
        first = self.slots - len(operands)

        def places(slots: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(operands[k] if k < len(operands) else first + k for k in slots)

        self.calls += [
            call._replace(block=numbers[call.block], reads=places(call.reads), writes=places(call.writes)) for call in program.calls
        ]
        self.slots += program.slots - len(operands)
        outputs = places(program.outputs)
        for node, entry in self.entries[i]:
            self.slot[node] = outputs[entry]
        self.libraries[subgraph] = Library(subgraph, tuple(numbers))

    def _solve(self, i: int, system: Any) -> None:
        """Call the block that solves a system, which reads slots, whatever is in them."""
        operands = self._operands(i)
        block, numbers = _SOLVED_BY[type(system)]
        first = self._call(self._number(block), self.slot[operands].tolist(), numbers, system.room, system)
        for node, entry in self.entries[i]:
            self.slot[node] = first + system.starts[entry]

    def _compute(self, regions: _Regions, region: int, known: dict[tuple, int]) -> None:
        """Call the block of a region."""
        leaving, numbers = regions.leaving(region), regions.numbers(region)
        count = len(leaving) + len(regions.written.get(region, ()))
        if not count:
            return
        key = (*regions.form(region), *(numbers if self.merge else ()))
        block = known.get(key)
        if block is None:
            in_place = tuple(("const", number) for number in numbers) if self.merge else ()
            block = known[key] = self._number(regions.block(region, in_place))
        first = self._call(block, self.slot[regions.reads(region)].tolist(), () if self.merge else numbers, count)
        self.slot[leaving] = np.arange(first, first + len(leaving))
        for k, i in enumerate(regions.written.get(region, ()), first + len(leaving)):
            self.slot[i] = k

    def _number(self, block: Block) -> int:
        return self.blocks.setdefault(block, len(self.blocks))

    def _call(self, block: int, reads: Sequence[int], numbers: Sequence[float], writes: int, system: Any = None) -> int:
        """Add a call that reads slots and writes to so many new ones, and return the first of these."""
        first, self.slots = self.slots, self.slots + writes
        self.calls.append(Call(block, tuple(reads), tuple(numbers), tuple(range(first, self.slots)), system))
        return first


class _Regions:
    """The regions of a graph as the blocks see them: values by local number, which is that of what a region reads in the order of its
    first use, then of its numbers, then of what it computes. All regions at once, in arrays.

    `written` are the numbers that a region writes, besides what others need of it.
    """

    def __init__(self, table: NodeTable, cuts: np.ndarray, results: Sequence[int], written: dict[int, list[int]]) -> None:
        op, operands, count = table.op, table.operands, len(table.op)
        region_of = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
        user = np.repeat(np.arange(count), table.counts)  # the node of every operand
        shared = np.zeros(count, dtype=bool)  # what is needed outside its region
        shared[operands[region_of[operands] != region_of[user]]] = True
        shared[list(results)] = True
        computed = op > SYSTEM
        nodes = np.flatnonzero(computed)

        # what a region has not computed itself, once, in the order of its first use
        of_computed = computed[user]
        operands, user = operands[of_computed], user[of_computed]
        region = region_of[user]
        outside = ~computed[operands] | (region_of[operands] != region)
        pairs, first, which = np.unique(region[outside] * count + operands[outside], return_index=True, return_inverse=True)
        order = np.argsort(first)
        sources, source_region = pairs[order] % max(count, 1), pairs[order] // max(count, 1)
        is_number = op[sources] == CONST
        every = np.arange(len(cuts))
        self._sources, self._numbers = sources[~is_number], sources[is_number]
        self._first_source = np.searchsorted(source_region[~is_number], every)
        self._first_number = np.searchsorted(source_region[is_number], every)
        reads, numbers = np.diff(self._first_source), np.diff(self._first_number)
        local = np.empty(len(sources), np.int64)
        local[~is_number] = np.arange(len(self._sources)) - self._first_source[source_region[~is_number]]
        local[is_number] = np.arange(len(self._numbers)) - (self._first_number - np.append(reads, 0))[source_region[is_number]]

        # numbers that are written follow those that are used
        self.written, self._more = written, {}
        for at, wanted in written.items():
            used = set(self._numbers[self._first_number[at] : self._first_number[at + 1]].tolist())
            self._more[at] = [i for i in wanted if i not in used]
            numbers[at] += len(self._more[at])
        self._values = [table.numbers[k] for k in table.entry[self._numbers].tolist()]
        self._table, self._base, self._reads = table, (reads + numbers).tolist(), reads.tolist()

        # the operands of all regions, by local number
        self._first_node = np.searchsorted(nodes, cuts).tolist()
        self._ends = np.concatenate([[0], np.cumsum(table.counts[nodes])])
        place = np.zeros(count, np.int64)
        place[nodes] = np.arange(len(nodes)) - np.array(self._first_node)[region_of[nodes]] + (reads + numbers)[region_of[nodes]]
        self._operands = place[operands]
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        self._operands[outside] = local[ranks[which]]
        self._op, self._shared = op[nodes], shared[nodes]
        self._nodes, self._place = nodes, place

    def reads(self, region: int) -> np.ndarray:
        """Return the nodes that a region reads."""
        return self._sources[self._first_source[region] : self._first_source[region + 1]]

    def numbers(self, region: int) -> tuple[float, ...]:
        """Return the numbers of a region."""
        used = self._values[self._first_number[region] : self._first_number[region + 1]]
        return (*used, *(self._table.numbers[int(self._table.entry[i])] for i in self._more.get(region, ())))

    def leaving(self, region: int) -> np.ndarray:
        """Return the nodes of a region that are needed outside."""
        part = slice(self._first_node[region], self._first_node[region + 1])
        return self._nodes[part][self._shared[part]]

    def form(self, region: int) -> tuple:
        """Return what regions that share a block have in common."""
        a, b = self._first_node[region], self._first_node[region + 1]
        operands = self._operands[self._ends[a] : self._ends[b]]
        written = tuple(self._written(region))
        return self._base[region], self._reads[region], self._op[a:b].tobytes(), operands.tobytes(), self._shared[a:b].tobytes(), written

    def block(self, region: int, in_place: tuple[tuple, ...]) -> Block:
        """Return the block of a region, which has its numbers in place where they are given."""
        a, b = self._first_node[region], self._first_node[region + 1]
        ends, operands = self._ends[a : b + 1].tolist(), self._operands
        names = operation_names(self._op[a:b])
        nodes = tuple((name, *operands[i:j].tolist()) for name, (i, j) in zip(names, pairwise(ends), strict=True))
        results = (*self._place[self.leaving(region)].tolist(), *self._written(region))
        numbers = 0 if in_place else self._base[region] - self._reads[region]
        return Block(self._reads[region], numbers, (*in_place, *nodes), results)

    def _written(self, region: int) -> list[int]:
        """Return the local numbers of the numbers that a region writes."""
        wanted = self.written.get(region, ())
        if not wanted:
            return []
        first, last = self._first_number[region], self._first_number[region + 1]
        all_ = [*self._numbers[first:last].tolist(), *self._more[region]]
        return [self._reads[region] + all_.index(i) for i in wanted]


def library_program(subgraph: Subgraph) -> Program:
    """Return the program of a subgraph, made once: its sines and cosines come first, the rest in one block where it is small."""
    known = subgraph.__dict__.get("program")
    if known is None:
        graph = subgraph.graph
        inputs = next((i for i, node in enumerate(graph.nodes) if node[0] != "input"), 0)
        marks = (inputs, *(graph.marks if len(graph.nodes) > LARGEST else ()))
        # results have slots of their own, so that the program around it does not depend on which of them are inputs
        graph = _with_copies(_with_early_sines(graph.with_marks(marks)), lambda result, entry: True)
        known = in_runs(in_order(program_of(with_small_regions(graph))))
        subgraph.__dict__["program"] = known
    return known


def iterated_program(graph: Graph) -> Program:
    """Return the program of a graph whose first results overwrite its first inputs: a call per region."""
    # new states that are other entries of the old, which are overwritten before they are read
    size = graph.inputs[0].size
    return program_of(with_small_regions(_with_copies(_with_early_sines(graph), lambda result, entry: result < size and entry != result)))


def _with_early_sines(graph: Graph) -> Graph:
    """Return the graph with its sines and cosines moved to the region that their angles come from.

    An angle is a value, perhaps scaled, perhaps shifted. The sines of a stage then stand together, and overlap in the processor; and the
    regions that use them are alike, whether the angles are inputs or computed.
    """
    nodes = graph.nodes
    region_of = [r for r, region in enumerate(graph.regions) for _ in region]
    moved: dict[int, int] = {}

    def source(i: int) -> int:
        """Return the value that an angle is made of."""
        while nodes[i][0] in ("add", "sub", "mul", "neg"):
            variables = [j for j in nodes[i][1:] if nodes[j][0] != "const"]
            if len(variables) != 1:
                break
            (i,) = variables
        return i

    def move(i: int, region: int) -> None:
        if moved.get(i, region_of[i]) > region:
            moved[i] = region
            for j in operands_of(nodes[i]):
                move(j, region)

    for i, node in enumerate(nodes):
        if node[0] in ("sin", "cos"):
            move(i, region_of[source(node[1])])
    if not moved:
        return graph
    regions = [[i for i in region if i not in moved] for region in graph.regions]
    for i in sorted(moved):
        regions[moved[i]].append(i)
    order = [i for region in regions for i in region]
    at = {i: k for k, i in enumerate(order)}
    return replace(
        graph,
        nodes=tuple(renumbered(nodes[i], at) for i in order),
        results=tuple(tuple(at[i] for i in result) for result in graph.results),
        marks=tuple(accumulate(map(len, regions))),
    ).check()


def _with_copies(graph: Graph, which: Callable[[int, int], bool]) -> Graph:
    """Return the graph with copies, the larger of x and x, of inputs that are results: of those (result, input) that are to be copied."""
    results, copies = [], []
    for k, i in enumerate(i for result in graph.results for i in result):
        if graph.nodes[i][0] == "input" and which(k, graph.nodes[i][1]):
            copies.append(("max", i, i))
            i = len(graph.nodes) + len(copies) - 1
        results.append(i)
    ends = [0, *accumulate(map(len, graph.results))]
    split = tuple(tuple(results[a:b]) for a, b in pairwise(ends))
    return replace(graph, nodes=(*graph.nodes, *copies), results=split)
