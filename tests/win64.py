"""A plugin of pytest, `-p tests.win64`: on Linux, kernels are called, and call, by the convention of 64-bit Windows.

Kernels and iterations are compiled for Windows, but into ELF, so that they can be loaded. NumPy calls a thunk. It fills the registers that
a function of Windows must leave as they were: rbx, rbp, rdi, rsi, r12 to r15, and xmm6 to xmm15. It passes the arguments as Windows does,
in rcx, rdx, r8 and r9 above 32 bytes of shadow space, and then counts the registers that have changed; if there are any, the test fails.
Functions of C and Python that kernels call have thunks by gcc's attribute `ms_abi`. Large frames call `__chkstk`, which counts calls here.
This needs an x86-64 processor, Linux and gcc.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvmlite import binding

from catena.graph import OPERATIONS
from catena.native import iteration, kernel, single_call
from catena.native.compiled_program import CompiledProgram, compiled_program
from catena.native.llvm import machine, tables
from catena.native.llvm.layout import LIBRARY, Data

#: The convention of Windows, in files that Linux can load.
TRIPLE = "x86_64-pc-windows-msvc-elf"

#: What the thunks count.
CHANGED, ENTERED, PROBED = range(3)

#: What kernels call through their table: the type of the result, and those of the arguments.
_CALLED = {
    **{name: ("double", ("double",) * len(OPERATIONS[name].operands)) for name in LIBRARY},
    "malloc": ("void *", ("size_t",)), "free": ("void", ("void *",)), "feclearexcept": ("int", ("int",)),
    "PyGILState_Ensure": ("int", ()), "PyErr_NoMemory": ("void *", ()), "PyGILState_Release": ("void", ("int",)),
}  # fmt: skip

_KEPT = ("rbx", "rbp", "rdi", "rsi", "r12", "r13", "r14", "r15")
_KEPT_ON_LINUX = ("rbx", "rbp", "r12", "r13", "r14", "r15")
_KEPT_VECTORS = tuple(f"xmm{i}" for i in range(6, 16))
_ENTRY = 8 * (len(LIBRARY) + len(Data))  # of the table, behind all else: the address of the kernel


def _thunk(name: str, table: str) -> list[str]:
    """Return the assembly of the thunk for entries that receive their table in a register."""
    patterns = {register: 0x0123456789ABCDEF + (i << 56) for i, register in enumerate((*_KEPT, *_KEPT_VECTORS))}
    canary = 0x5A5A5A5A5A5A5A5A
    code = [f".globl {name}", f"{name}:", *(f"pushq %{register}" for register in _KEPT_ON_LINUX), "subq $56, %rsp"]
    code += [f"movq {_ENTRY}(%{table}), %rax", "movq %rcx, %r9", "movq %rdx, %r8", "movq %rsi, %rdx", "movq %rdi, %rcx"]
    code += [f"movabsq ${canary}, %r10", "movq %r10, 32(%rsp)", "stmxcsr 40(%rsp)"]  # above the shadow space
    for register, pattern in patterns.items():
        code += [f"movabsq ${pattern}, %r10"]
        code += [f"movq %r10, %{register}", *([f"punpcklqdq %{register}, %{register}"] if register in _KEPT_VECTORS else [])]
    code += ["callq *%rax", "xorl %r11d, %r11d", "xorl %eax, %eax"]
    count = ["setne %al", "addq %rax, %r11"]
    for register, pattern in patterns.items():
        code += [f"movabsq ${pattern}, %r10"]
        if register in _KEPT_VECTORS:
            code += [f"movq %{register}, %rcx", "cmpq %r10, %rcx", *count, f"movhlps %{register}, %xmm0", "movq %xmm0, %rcx"]
            code += ["cmpq %r10, %rcx", *count]
        else:
            code += [f"cmpq %r10, %{register}", *count]
    code += [f"movabsq ${canary}, %r10", "cmpq %r10, 32(%rsp)", *count]
    code += ["stmxcsr 44(%rsp)", "movl 44(%rsp), %ecx", "xorl 40(%rsp), %ecx", "testl $0xFFC0, %ecx", *count]  # how it rounds
    code += [f"lock addq %r11, counters+{8 * CHANGED}(%rip)", f"lock incq counters+{8 * ENTERED}(%rip)"]
    return [*code, "addq $56, %rsp", *(f"popq %{register}" for register in reversed(_KEPT_ON_LINUX)), "retq"]


def _source() -> str:
    """Return the C of all thunks."""
    lines = ["#include <stddef.h>", "#include <string.h>", "#define WINDOWS __attribute__((ms_abi))"]
    lines += ['__attribute__((visibility("hidden"))) long counters[3];', "long counted(int i) { return counters[i]; }"]
    for name, (result, types) in _CALLED.items():
        parameters = ", ".join(f"{type_} x{i}" for i, type_ in enumerate(types)) or "void"
        call = f"{name}_on_linux({', '.join(f'x{i}' for i in range(len(types)))});"
        lines += [f"{result} (*{name}_on_linux)({parameters});"]
        lines += [f"WINDOWS {result} {name}_by_windows({parameters}) {{ {'' if result == 'void' else 'return '}{call} }}"]
    lines += ["WINDOWS void *memset_by_windows(void *to, int value, size_t size) { return memset(to, value, size); }"]
    lines += ["WINDOWS void *memcpy_by_windows(void *to, const void *from, size_t size) { return memcpy(to, from, size); }"]
    assembly = [".text", *_thunk("loop_thunk", "rcx"), *_thunk("iterate_thunk", "rsi")]
    assembly += [".globl probe", "probe:", f"lock incq counters+{8 * PROBED}(%rip)", "retq"]
    return "\n".join(lines) + "\n__asm__(\n" + "\n".join(f'    "{line}\\n"' for line in assembly) + ");\n"


def _built() -> ctypes.CDLL:
    """Return the thunks, compiled."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "thunks.c", Path(folder) / "thunks.so"
        source.write_text(_source())
        subprocess.run(["gcc", "-O1", "-fno-builtin", "-shared", "-fPIC", source, "-o", library], check=True)
        return ctypes.CDLL(str(library))


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def pytest_configure() -> None:
    """Let all kernels and iterations be code of Windows from here on."""
    thunks, native, functions = _built(), machine.host(), tables.library()
    thunks.counted.restype = ctypes.c_long
    for name in _CALLED:
        ctypes.c_void_p.in_dll(thunks, f"{name}_on_linux").value = functions[name]
    by_windows = {name: _address(getattr(thunks, f"{name}_by_windows")) for name in (*_CALLED, "memset", "memcpy")}
    for name in ("memset", "memcpy"):
        binding.add_symbol(name, by_windows[name])
    binding.add_symbol("__chkstk", _address(thunks.probe))
    windows = native._replace(triple=TRIPLE)

    def compiled(*arguments: Any, **options: Any) -> CompiledProgram:
        code = compiled_program(*arguments, **options)
        thunk = thunks.loop_thunk if arguments[4] == "loop" else thunks.iterate_thunk
        return code._replace(entry=_address(thunk), data=np.append(code.data, np.uint64(code.entry)))

    single_call._code()  # Python calls it by the convention of Linux, and it calls the thunk as NumPy does
    machine.host = lambda: windows
    tables.library = lambda: by_windows
    kernel.compiled_program = iteration.compiled_program = compiled
    global counted
    counted = thunks.counted


@pytest.fixture(autouse=True)
def _registers_are_left_as_they_were() -> Iterator[None]:
    before = counted(CHANGED)
    yield
    assert counted(CHANGED) == before, "a kernel changed registers, memory or modes that belong to its caller"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tell how much went through the thunks."""
    terminalreporter.write_line(f"{counted(ENTERED)} calls of code of Windows, {counted(PROBED)} of __chkstk")
