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

from catena.graph.elimination import Elimination, Entry
from catena.graph.graph import SYSTEMS, Graph, Subgraph, operands_of, renumbered
from catena.graph.linear_system import LinearSystem
from catena.graph.operations import LEAVES
from catena.graph.passes import longest_first
from catena.graph.program import ELIMINATE, LINEAR_SYSTEM, SADDLE_POINT, Block, Call, Library, Program
from catena.graph.saddle_point import ROUNDING, UNDETERMINED, SaddlePoint

#: Graphs up to this many nodes become one block. Beyond it regions run faster (their code stays in the processor's cache of decoded
#: instructions), compile in less time than linear in the size of the mechanism, and serve mechanisms of any size. With 32 vector registers
#: the first number is so many times as large: measured with AVX-512 on arms, chains and a humanoid of 1,600 to 5,700 nodes, one block takes
#: 0.8 to 1.0 times as long to run, and no longer to compile.
MERGE, MANY_REGISTERS = 1500, 4

#: Where regions have fewer nodes than this on average, calling them one by one costs more than it saves, and graphs up to MERGE_SMALL nodes
#: become one block. Measured on the mass matrix and its factors, 40 to 60 nodes a region: one block is 1.2 to 2.2 times as fast. Regions of
#: the articulated-body method have 90 to 140 nodes.
SMALL = 80
MERGE_SMALL = 7000

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


def divided(graph: Graph, many_registers: bool = False) -> tuple[Program, bool]:
    """Return the program of a graph, and whether the graph is small: then its regions are merged, and its numbers are in place."""
    most = MERGE * MANY_REGISTERS if many_registers else MERGE
    small = len(graph.nodes) <= (MERGE_SMALL if len(graph.nodes) < SMALL * len(graph.regions) else most)
    return program_of(graph if small else with_small_regions(graph), merge=small), small


def with_small_regions(graph: Graph) -> Graph:
    """Return the graph with marks inside the regions that are too large for one block."""
    marks = [mark for region in graph.regions for mark in range(region.start, region.stop, LARGEST)]
    return replace(graph, marks=tuple(marks))


def program_of(graph: Graph, merge: bool = False) -> Program:
    """Return the program of a graph: a call per region and per system, or a single block with its numbers in place if `merge`."""
    return _Division(graph, merge).program()


class _Division:
    """A program in the making: `slot` of every node that has one, `slots` in use, blocks by number, and the calls up to now."""

    def __init__(self, graph: Graph, merge: bool) -> None:
        nodes = graph.nodes
        systems = [i for i, node in enumerate(nodes) if isinstance(node[0], SYSTEMS)]
        cuts = sorted({0, len(nodes), *(() if merge else graph.marks), *systems, *[i + 1 for i in systems]})
        self.nodes, self.merge = nodes, merge
        self.regions = [range(a, b) for a, b in pairwise(cuts)]
        region_of = [r for r, region in enumerate(self.regions) for _ in region]
        self.results = [i for result in graph.results for i in result]
        # nodes that are needed outside their region, and so get a slot
        self.shared = {j for i, node in enumerate(nodes) for j in operands_of(node) if region_of[j] != region_of[i]} | {*self.results}
        # of nodes, and of entries of subgraphs: the node and the number of the entry
        self.slot: dict[Any, int] = {i: node[1] for i, node in enumerate(nodes) if node[0] == "input"}
        self.slots = sum(port.size for port in graph.inputs)
        self.blocks: dict[Block, int] = {}
        self.calls: list[Call] = []
        self.libraries: dict[Subgraph, Library] = {}

    def program(self) -> Program:
        """Return the program."""
        straight = [region for region in self.regions if not self._is_system(region)]
        for region in self.regions:
            if isinstance(self.nodes[region.start][0], Subgraph):
                self._include(region.start)
            elif self._is_system(region):
                self._solve(region.start)
            else:
                # numbers that are results themselves are written by the last block
                numbers = [i for i in dict.fromkeys(self.results) if self.nodes[i][0] == "const"] if region == straight[-1] else []
                self._compute(region, numbers)
        outputs = tuple(self.slot[i] for i in self.results)
        return Program(tuple(self.blocks), tuple(self.calls), self.slots, outputs, tuple(self.libraries.values()))

    def _is_system(self, region: range) -> bool:
        return isinstance(self.nodes[region.start][0], SYSTEMS)

    def _include(self, i: int) -> None:
        """Add the calls of a subgraph's program, whose slots follow those in use."""
        subgraph, *operands = self.nodes[i]
        self._give_slots(operands)
        program = library_program(subgraph)
        numbers = [self.blocks.setdefault(block, len(self.blocks)) for block in program.blocks]
        first = self.slots - len(operands)

        def places(slots: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(self.slot[operands[k]] if k < len(operands) else first + k for k in slots)

        self.calls += [
            call._replace(block=numbers[call.block], reads=places(call.reads), writes=places(call.writes)) for call in program.calls
        ]
        self.slots += program.slots - len(operands)
        self.slot |= {(i, k): slot for k, slot in enumerate(places(program.outputs))}
        self.libraries[subgraph] = Library(subgraph, tuple(numbers))

    def _give_slots(self, operands: Sequence[int]) -> None:
        """Put operands that are numbers into slots."""
        for j in dict.fromkeys(operands):
            if self.nodes[j][0] == "const" and j not in self.slot:
                self.slot[j] = self._call(_NUMBER, (), (self.nodes[j][1],), 1)

    def _solve(self, i: int) -> None:
        """Call the block that solves a system, which reads slots, whatever is in them."""
        system, *operands = self.nodes[i]
        self._give_slots(operands)
        block, numbers = _SOLVED_BY[type(system)]
        self.slot[i] = self._call(block, operands, numbers, system.room, system)

    def _compute(self, region: range, results: list[int]) -> None:
        """Call the block of a region, which also writes numbers that are results."""
        nodes = self.nodes
        for i in region:
            if isinstance(nodes[i][0], Entry):
                system, entry = nodes[i][1], nodes[i][0].unknown
                of_subgraph = isinstance(nodes[system][0], Subgraph)
                self.slot[i] = self.slot[system, entry] if of_subgraph else self.slot[system] + nodes[system][0].starts[entry]
        computed = [i for i in region if nodes[i][0] not in LEAVES and not isinstance(nodes[i][0], Entry)]
        operands = list(dict.fromkeys(j for i in computed for j in nodes[i][1:]))
        numbers = list(dict.fromkeys((*(j for j in operands if nodes[j][0] == "const"), *results)))
        reads = [j for j in operands if nodes[j][0] != "const" and (j in self.slot or j not in region)]
        leaving = [i for i in computed if i in self.shared] + results
        if not leaving:
            return
        at = {i: local for local, i in enumerate((*reads, *numbers, *computed))}
        in_place = [("const", nodes[j][1]) for j in numbers] if self.merge else []
        local = (*in_place, *((nodes[i][0], *[at[j] for j in nodes[i][1:]]) for i in computed))
        lifted = [] if self.merge else [nodes[j][1] for j in numbers]
        block = Block(len(reads), len(lifted), local, tuple(at[i] for i in leaving))
        first = self._call(block, reads, lifted, len(leaving))
        self.slot |= {i: first + k for k, i in enumerate(leaving)}

    def _call(self, block: Block, reads: Sequence[int], numbers: Sequence[float], writes: int, system: Any = None) -> int:
        """Add a call that reads nodes and writes to so many new slots, and return the first of these."""
        first, self.slots = self.slots, self.slots + writes
        number = self.blocks.setdefault(block, len(self.blocks))
        self.calls.append(Call(number, tuple(self.slot[j] for j in reads), tuple(numbers), tuple(range(first, self.slots)), system))
        return first


def library_program(subgraph: Subgraph) -> Program:
    """Return the program of a subgraph, made once: its sines and cosines come first, the rest in one block where it is small."""
    known = subgraph.__dict__.get("program")
    if known is None:
        graph = subgraph.graph
        inputs = next((i for i, node in enumerate(graph.nodes) if node[0] != "input"), 0)
        marks = (inputs, *(graph.marks if len(graph.nodes) > LARGEST else ()))
        # results have slots of their own, so that the program around it does not depend on which of them are inputs
        graph = _with_copies(_with_early_sines(replace(graph, marks=marks)), lambda result, entry: True)
        known = longest_first(program_of(with_small_regions(graph)))
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
