"""A program as machine code, with the tables that it works on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from catena.graph import ELIMINATE, LINEAR_SYSTEM, SADDLE_POINT, Graph, Program, Subgraph
from catena.graph.division import library_program
from catena.graph.passes import Angle
from catena.native.llvm import lower, machine, tables
from catena.native.llvm.linear_system import linear_system
from catena.native.llvm.saddle_point import saddle_point

#: The blocks that are the same in all programs, and what writes their code.
_COMMON = {SADDLE_POINT: saddle_point, LINEAR_SYSTEM: linear_system}

#: Blocks of so many nodes are not made part of the loop that calls them.
SEPARATE = 300

#: The code of subgraphs, as long as these are in use.
_libraries: WeakKeyDictionary[Subgraph, machine.Code] = WeakKeyDictionary()


class CompiledProgram(NamedTuple):
    """The IR of a program, the address of its entry, the table that the entry takes, and what must live as long as these are used.

    `seconds` says how long each part of the work took, and `cached` whether the machine code was made before.
    """

    llvm: str
    entry: int
    data: np.ndarray
    keep_alive: tuple[Any, ...]
    seconds: dict[str, float]
    cached: bool


def compiled_program(
    program: Program, angles: Sequence[Angle], graph: Graph, driver: str, entry: str, *, merged: bool = False, quick: bool = False
) -> CompiledProgram:
    """Return the machine code of a program of a graph, under a driver whose function `entry` is called.

    Libraries, and the blocks that are the same in all programs, are compiled by themselves, once.
    """
    started, host = time.perf_counter(), machine.host()
    text = lower.write(program, driver, lanes=host.lanes, merged=merged, quick=quick)
    lowered = time.perf_counter()
    fixed = program.fixed
    own = [i for i in range(len(program.blocks)) if i not in fixed]
    names = {i: f"block{k}" for k, i in enumerate(own) if program.blocks[i] not in _COMMON}
    # a small block becomes part of the loop that calls it, which is optimised with it
    alone = len(program.blocks[0].nodes) >= SEPARATE if merged and program.blocks else True
    straight = entry == "loop" and alone and not quick and ELIMINATE not in program.blocks
    code, seconds, cached = machine.compiled(text, (*names.values(), entry), quick, straight)
    codes, addresses = [code], {i: code.addresses[name] for i, name in names.items()}
    for library in program.libraries:
        shared, more = _library(library.subgraph)
        codes.append(shared)
        seconds = {part: seconds[part] + more[part] for part in seconds}
        addresses |= {i: address for k, i in enumerate(library.blocks) if (address := shared.addresses.get(f"block{k}"))}
    for block, write in _COMMON.items():
        if block in program.blocks:
            shared, more, _ = machine.compiled(write("system", host.lanes), ("system",))
            codes.append(shared)
            seconds = {part: seconds[part] + more[part] for part in seconds}
            addresses[program.blocks.index(block)] = shared.addresses["system"]
    blocks = [addresses[i] for i in range(len(program.blocks))]
    data, arrays = tables.tables(program, angles, graph, blocks, host)
    return CompiledProgram(text, code.addresses[entry], data, (*codes, data, arrays), {"lower": lowered - started, **seconds}, cached)


def _library(subgraph: Subgraph) -> tuple[machine.Code, dict[str, float]]:
    """Return the machine code of a subgraph's blocks, and the seconds that this took: none where it was made before."""
    known = _libraries.get(subgraph)
    if known is not None:
        return known, dict.fromkeys(("optimise", "compile"), 0.0)
    blocks = library_program(subgraph).blocks
    text = lower.write_blocks(blocks, lanes=machine.host().lanes, quick=subgraph.quick)
    names = tuple(f"block{k}" for k, block in enumerate(blocks) if block not in _COMMON)
    code, seconds, _ = machine.compiled(text, names, subgraph.quick)
    _libraries[subgraph] = code
    return code, seconds
