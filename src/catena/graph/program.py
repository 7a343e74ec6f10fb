"""The program that a graph becomes: blocks of straight-line code, and the calls that run them.

Values that leave a block live in numbered slots; the first slots are the inputs. Regions of a graph that are alike but for their numbers
and for where their values come from share one block, and so the code to compile does not grow with a chain of like bodies.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from catena.graph.elimination import Elimination
from catena.graph.graph import Subgraph
from catena.graph.linear_system import LinearSystem
from catena.graph.saddle_point import SaddlePoint


class Block(NamedTuple):
    """Straight-line code on local values, counted through: inputs, then lifted numbers, then one value per node.

    A node is `(op, local, ...)`, or `("const", number)` where numbers are not lifted. `results` are the locals that leave the block: in
    runs, which begin at `starts`, and are written to slots that follow each other.
    """

    inputs: int
    numbers: int
    nodes: tuple[tuple, ...]
    results: tuple[int, ...]
    starts: tuple[int, ...] = (0,)

    @property
    def runs(self) -> list[tuple[int, int]]:
        """The first result of each run, and the one after its last."""
        return [*pairwise((*self.starts, len(self.results)))]


#: The blocks that calls with systems run, whatever their sizes: they read the operands, and write to the slots that they work in.
ELIMINATE = Block(0, 0, (("eliminate",),), ())
SADDLE_POINT = Block(0, 0, (("saddle point",),), ())
LINEAR_SYSTEM = Block(0, 0, (("linear system",),), ())


class Call(NamedTuple):
    """One run of a block: the slots it reads, its numbers, the slots it writes, and the system it solves, if that is what it is for."""

    block: int
    reads: tuple[int, ...]
    numbers: tuple[float, ...]
    writes: tuple[int, ...]
    system: Elimination | SaddlePoint | LinearSystem | None = None


class Library(NamedTuple):
    """The blocks of a subgraph, as they are numbered in a program: compiled by themselves, once, and so left as they are by passes."""

    subgraph: Subgraph
    blocks: tuple[int, ...]


class Program(NamedTuple):
    """Blocks, and the calls in order. Slot i below the number of inputs holds input i; `outputs` are the slots of the results."""

    blocks: tuple[Block, ...]
    calls: tuple[Call, ...]
    slots: int
    outputs: tuple[int, ...]
    libraries: tuple[Library, ...] = ()

    @property
    def fixed(self) -> frozenset[int]:
        """The blocks of libraries."""
        return frozenset(number for library in self.libraries for number in library.blocks)
