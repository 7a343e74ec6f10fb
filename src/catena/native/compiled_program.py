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
from catena.native.llvm.places import places_of
from catena.native.llvm.saddle_point import saddle_point

#: The blocks that are the same in all programs, and what writes their code.
_COMMON = {SADDLE_POINT: saddle_point, LINEAR_SYSTEM: linear_system}

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
    program: Program,
    angles: Sequence[Angle],
    graph: Graph,
    driver: str,
    entry: str,
    *,
    direct: bool = False,
    quick: bool = False,
) -> CompiledProgram:
    """Return the machine code of a program of a graph, under a driver whose function `entry` is called.

    A driver that calls the only block of a program `direct` is compiled with it. Other drivers, libraries, and the blocks that are the same
    in all programs, are compiled by themselves, once.
    """
    started, host = time.perf_counter(), machine.host()
    fixed, places = program.fixed, places_of(program)
    own = [i for i in range(len(program.blocks)) if i not in fixed]
    functions = lower.functions([program.blocks[i] for i in own], [places.of_block.get(i) for i in own], lanes=host.lanes, quick=quick)
    text = lower.module(functions, driver, lanes=host.lanes)
    lowered = time.perf_counter()
    names = {i: f"block{k}" for k, i in enumerate(own) if program.blocks[i] not in _COMMON}
    straight = not quick and ELIMINATE not in program.blocks
    if direct:
        code, seconds, cached = machine.compiled(text, (*names.values(), entry), quick)
    else:
        code, seconds, cached = machine.compiled(lower.module(functions, lanes=host.lanes), tuple(names.values()), quick, straight)
    codes, addresses = [code], {i: code.addresses[name] for i, name in names.items()}

    def add(shared: machine.Code, more: dict[str, float]) -> machine.Code:
        codes.append(shared)
        for part in seconds:
            seconds[part] += more[part]
        return shared

    if not direct:
        code = add(*machine.compiled(lower.module(driver, lanes=host.lanes), (entry,), straight=entry == "loop")[:2])
    for library in program.libraries:
        found = add(*_library(library.subgraph)).addresses
        addresses |= {i: address for k, i in enumerate(library.blocks) if (address := found.get(f"block{k}"))}
    for block, write in _COMMON.items():
        if block in program.blocks:
            found = add(*machine.compiled(write("system", host.lanes), ("system",))[:2]).addresses
            addresses[program.blocks.index(block)] = found["system"]
    blocks = [addresses[i] for i in range(len(program.blocks))]
    data, arrays = tables.tables(program, places, angles, graph, blocks, host)
    seconds = {"lower": lowered - started, **seconds}
    return CompiledProgram(text, code.addresses[entry], data, (*codes, data, arrays), seconds, cached)


def _library(subgraph: Subgraph) -> tuple[machine.Code, dict[str, float]]:
    """Return the machine code of a subgraph's blocks, and the seconds that this took: none where it was made before."""
    known = _libraries.get(subgraph)
    if known is not None:
        return known, dict.fromkeys(("optimise", "compile"), 0.0)
    blocks = library_program(subgraph).blocks
    lanes = machine.host().lanes
    text = lower.module(lower.functions(blocks, [None] * len(blocks), lanes=lanes, quick=subgraph.quick), lanes=lanes)
    names = tuple(f"block{k}" for k, block in enumerate(blocks) if block not in _COMMON)
    code, seconds, _ = machine.compiled(text, names, subgraph.quick)
    _libraries[subgraph] = code
    return code, seconds
