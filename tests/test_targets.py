"""Machine code for other systems: object files of macOS, Windows and Linux, and what they ask of the system that loads them."""

from __future__ import annotations

import os
import platform
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from llvmlite import binding
from tests.test_kernel_laws import compiled_parts
from tests.test_linear_system import solving
from tests.test_native import by_regions, chain
from tests.test_operation_table import every_operation

import catena as ct
from catena.examples import arm, four_bar
from catena.graph import Trace
from catena.native import Iteration, compile_graph, compiled_program
from catena.native.llvm import machine

pytestmark = pytest.mark.targets


class Target(NamedTuple):
    """A system and a processor that code is compiled for, and what the code may find there besides itself."""

    host: machine.Host
    prefix: str  # of names
    needs: frozenset[str]


def _target(triple: str, processor: str, lanes: int, *needs: str, prefix: str = "") -> Target:
    return Target(machine.Host(triple, processor, "", triple.startswith("x86_64"), lanes, streams=2), prefix, frozenset(needs))


#: `_fltused` is a mark of Windows for files that compute with floating point, which nothing refers to.
TARGETS = {
    "Linux, aarch64": _target("aarch64-unknown-linux-gnu", "generic", 2, "memset"),
    "Linux, Graviton": _target("aarch64-unknown-linux-gnu", "neoverse-v1", 2, "memset"),
    "macOS, Intel": _target("x86_64-apple-macosx11.0", "haswell", 4, "___bzero", prefix="_"),
    "macOS, Apple": _target("arm64-apple-macosx11.0", "apple-m1", 2, "_bzero", prefix="_"),
    "Windows, AVX2": _target("x86_64-pc-windows-msvc", "x86-64-v3", 4, "memset", "__chkstk", "_fltused"),
    "Windows, AVX-512": _target("x86_64-pc-windows-msvc", "x86-64-v4", 8, "memset", "__chkstk", "_fltused"),
    "Windows, ARM": _target("aarch64-pc-windows-msvc", "generic", 2, "memset", "__chkstk"),
}  # fmt: skip


class Emitted(NamedTuple):
    """An object file, its assembly, and the functions that catena asks it for."""

    payload: bytes
    assembly: str
    names: tuple[str, ...]


@pytest.fixture(scope="module")
def made() -> list[Any]:
    """Return what makes code of all kinds: every operation, small and large graphs, a tree, a loop, a system of equations, an iteration."""
    graphs = [every_operation(), chain(3), ct.forward_dynamics(arm()).graph, solving(9, 2)]
    graphs += [part.graph for part in compiled_parts(ct.forward_dynamics(four_bar()))]
    trace = Trace("halving")
    state, _, constants = trace.input("state", (4,)), trace.input("row", (1,)), trace.input("constants", (1,))
    half = constants[0] * state[3]
    halving = trace.graph(state=[0.0, state[1] + 1.0, 0.0, half], record=[half])
    return [*(partial(compile_graph, graph) for graph in graphs), partial(by_regions, chain(300)), partial(Iteration, halving)]


def emitted(target: Target, made: list[Any]) -> list[Emitted]:
    """Return all object files for a target; none of them is loaded."""
    found: list[Emitted] = []
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    optimised, assembly = machine._optimised, []

    def watched(text: str, target_machine: Any, straight: bool) -> Any:
        module = optimised(text, target_machine, straight)
        assembly.append(target_machine.emit_assembly(module))
        return module

    def loaded(payload: bytes, names: tuple[str, ...]) -> Any:
        found.append(Emitted(payload, assembly.pop(), names))
        return SimpleNamespace(addresses=dict.fromkeys(names, 1))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CATENA_CACHE_DIR", "off")
        for name, value in {"host": lambda: target.host, "_in_memory": {}, "_optimised": watched, "_loaded": loaded}.items():
            patch.setattr(machine, name, value)
        patch.setattr(compiled_program, "_libraries", {})
        for make in made:
            make()
    assert {"loop", "iterate", "system"} <= {name for file in found for name in file.names}
    return found


def symbols(payload: bytes) -> tuple[set[str], set[str]]:
    """Return the names that an object file offers, and those that it asks for."""
    read = _elf if payload[:4] == b"\x7fELF" else _mach_o if payload[:4] == b"\xcf\xfa\xed\xfe" else _coff
    offered: set[str] = set()
    asked: set[str] = set()
    for name, defined in read(payload):
        (offered if defined else asked).add(name)
    return offered, asked


def _text(payload: bytes, at: int) -> str:
    return payload[at : payload.index(b"\0", at)].decode()


def _elf(payload: bytes) -> Iterator[tuple[str, bool]]:
    start, size, count = *struct.unpack_from("<Q", payload, 40), *struct.unpack_from("<HH", payload, 58)
    sections = [struct.unpack_from("<IIQQQQII", payload, start + i * size) for i in range(count)]
    for _, kind, _, _, at, length, link, _ in sections:
        for entry in range(at + 24, at + length, 24) if kind == 2 else ():
            name, info, _, section = struct.unpack_from("<IBBH", payload, entry)
            if info >> 4:  # not local
                yield _text(payload, sections[link][4] + name), section != 0


def _mach_o(payload: bytes) -> Iterator[tuple[str, bool]]:
    at = 32
    for _ in range(struct.unpack_from("<I", payload, 16)[0]):
        command, size, first, count, strings = struct.unpack_from("<5I", payload, at)
        for i in range(count) if command == 2 else ():
            name, kind = struct.unpack_from("<IB", payload, first + 16 * i)
            if kind & 1:  # external
                yield _text(payload, strings + name), bool(kind & 0xE)
        at += size


def _coff(payload: bytes) -> Iterator[tuple[str, bool]]:
    first, count = struct.unpack_from("<II", payload, 8)
    i = 0
    while i < count:
        at = first + 18 * i
        zero, offset, _, section, _, kind, more = struct.unpack_from("<IIIhHBB", payload, at)
        name = _text(payload, first + 18 * count + offset) if zero == 0 else payload[at : at + 8].rstrip(b"\0").decode()
        if kind == 2:  # external
            yield name, section != 0
        i += 1 + more


@pytest.mark.parametrize("system", TARGETS)
def test_object_files_offer_the_functions_and_ask_for_known_ones_only(system: str, made: list[Any]) -> None:
    target, asked_for = TARGETS[system], set()
    for file in emitted(target, made):
        offered, asked = symbols(file.payload)
        assert {target.prefix + name for name in file.names} <= offered
        asked_for |= asked
        # tables of unwinding would have to be within 2 GB of the code, which the loader of Windows does not promise; nothing needs them
        assert b".pdata" not in file.payload[:1000]
        if "apple" in target.host.triple or "windows" in target.host.triple:  # which reserve it
            assert not re.search(r"\b[xw]18\b", file.assembly)
    assert asked_for == target.needs


@pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64" or shutil.which("gcc") is None, reason="needs Linux, x86-64 and gcc"
)
def test_code_for_windows_keeps_to_the_convention_of_windows() -> None:
    """Every operation, batches, systems of equations and iterations, called as Windows calls them; `make win64` runs more."""
    tests = ["tests/test_operation_table.py", "tests/test_iteration.py", "tests/test_linear_system.py", "-k", "machine_code"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.win64", *tests]
    root = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    called = re.search(r"(\d+) calls of code of Windows, (\d+) of __chkstk", done.stdout)
    assert called is not None
    assert int(called[1]) >= 10
    assert int(called[2]) >= 5
