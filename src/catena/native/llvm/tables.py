"""The tables that tell machine code which mechanism it works on: places, numbers, calls, sizes, and the functions it may call."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from catena.errors import CompileError
from catena.graph import Elimination, Graph, LinearSystem, Program, SaddlePoint
from catena.graph.passes import Angle
from catena.native.llvm import eliminate, linear_system, saddle_point
from catena.native.llvm.functions import NUMBERS
from catena.native.llvm.layout import ALIGN, LIBRARY, Data
from catena.native.llvm.machine import Host
from catena.native.llvm.places import Places

#: What the tables of systems begin with, by kind.
_STRUCTURES: dict[type, Any] = {
    Elimination: eliminate.structure, SaddlePoint: saddle_point.structure, LinearSystem: linear_system.structure,
}  # fmt: skip


@cache
def library() -> dict[str, int]:
    """Return the addresses of the functions of C and Python that kernels call."""
    c = ctypes.CDLL("ucrtbase") if sys.platform == "win32" else ctypes.CDLL(None)
    functions = {name: getattr(c, name) for name in (*LIBRARY, "malloc", "free", "feclearexcept")}
    for name in ("PyGILState_Ensure", "PyErr_NoMemory", "PyGILState_Release"):
        functions[name] = getattr(ctypes.pythonapi, name)
    return {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in functions.items()}


def tables(
    program: Program, at: Places, angles: Sequence[Angle], graph: Graph, addresses: Sequence[int], host: Host
) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Return the table that the loop receives, and the arrays that it points to and that must live as long."""
    size = 8 * host.lanes
    scratch = -(-program.slots * size // ALIGN) * ALIGN
    if scratch >= 2**32:
        raise CompileError(f"kernel '{graph.name}' needs {scratch >> 30} GiB of scratch memory, and can have 4; split the mechanism")
    rows = [[slot * size for slot in row] for row in at.rows]
    for row, call in zip(rows, program.calls, strict=True):
        if call.system is not None:
            row[:0] = _STRUCTURES[type(call.system)](call.system, size)
    places = np.array([*chain.from_iterable(rows), 0], dtype=np.uint32)
    numbers = np.array([*chain.from_iterable(call.numbers for call in program.calls), 0.0])
    calls = np.zeros((len(rows) + 1, 3), dtype=np.uint64)
    calls[:-1, 0] = [addresses[call.block] for call in program.calls]
    calls[1:, 1] = np.cumsum([len(row) for row in rows]) * places.itemsize
    calls[1:, 2] = np.cumsum([len(call.numbers) for call in program.calls]) * numbers.itemsize
    calls[:, 1] += places.ctypes.data
    calls[:, 2] += numbers.ctypes.data
    outputs = np.array([*program.outputs, 0], dtype=np.uint32) * np.uint32(size)
    sizes = np.array([*chain.from_iterable(port.shape for port in (*graph.inputs, *graph.outputs)), 0], dtype=np.int64)
    turned = np.array([*angles, (0, 0.0, 0.0)], dtype=[("place", np.int64), ("scale", np.float64), ("offset", np.float64)])
    turned["place"] *= size
    trigonometry = np.repeat(list(NUMBERS.values()), host.lanes)
    functions = library()
    data = np.zeros(len(LIBRARY) + len(Data), dtype=np.uint64)
    data[: len(LIBRARY)] = [functions[name] for name in LIBRARY]
    entries = {
        Data.MALLOC: functions["malloc"], Data.FREE: functions["free"], Data.CLEAR: functions["feclearexcept"],
        Data.ENSURE: functions["PyGILState_Ensure"], Data.NO_MEMORY: functions["PyErr_NoMemory"],
        Data.RELEASE: functions["PyGILState_Release"], Data.TRIGONOMETRY: trigonometry.ctypes.data, Data.SIZES: sizes.ctypes.data,
        Data.OUTPUTS: outputs.ctypes.data, Data.SCRATCH: scratch, Data.CALLS: calls.ctypes.data, Data.COUNT: len(rows),
        Data.ANGLES: turned.ctypes.data, Data.TURNS: len(angles), Data.PAIRS: sum(port.size for port in graph.inputs) * size,
    }  # fmt: skip
    for entry, value in entries.items():
        data[entry] = value
    return data, (places, numbers, calls, outputs, sizes, turned, trigonometry)
