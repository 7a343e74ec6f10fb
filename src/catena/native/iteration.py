"""A compiled iteration: a graph whose results are its next arguments, run over and over in machine code.

The graph maps `state`, a `row` of a table and `constants` to the next `state` and a `record`. Three entries of the state steer the loop,
for every trajectory by itself: `DONE` stops it, `ROW` counts the records written (when it grows, the record is stored), `TABLE` says which
row of the table is read next. Trajectories run in lanes of a vector; one that has stopped keeps its state while its neighbours go on.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

import numpy as np

from catena.errors import CompileError
from catena.graph import Graph, iterated_program, passes
from catena.native.compiled_program import compiled_program
from catena.native.llvm import machine
from catena.native.llvm.batch_loop import calls
from catena.native.llvm.iteration_loop import DONE as DONE
from catena.native.llvm.iteration_loop import ROW as ROW
from catena.native.llvm.iteration_loop import TABLE as TABLE
from catena.native.llvm.iteration_loop import TASK, repeat
from catena.native.llvm.layout import ALIGN, Data


class Iteration:
    """A compiled iteration of a graph with the inputs `state`, `row`, `constants` and the outputs `state`, `record`, all vectors.

    >>> from catena.graph import Trace
    >>> trace = Trace("halving")
    >>> state, row, constants = trace.input("state", (4,)), trace.input("row", (1,)), trace.input("constants", (1,))
    >>> half = constants[0] * state[3]
    >>> graph = trace.graph(state=[0.0, state[1] + 1.0, 0.0, half], record=[half])
    >>> states, records = np.array([[0.0, 0.0, 0.0, 8.0]]), np.empty((1, 3, 1))
    >>> Iteration(graph).run(states, np.zeros((1, 1, 1)), np.array([[0.5]]), records, 100)
    >>> records.ravel()
    array([4., 2., 1.])
    """

    def __init__(self, graph: Graph, trace_seconds: float = 0.0) -> None:
        started = time.perf_counter()
        host = machine.host()
        self.graph, self.lanes = graph, host.lanes
        self.sizes = tuple(port.size for port in (*graph.inputs, *graph.outputs))
        if [port.name for port in (*graph.inputs, *graph.outputs)] != ["state", "row", "constants", "state", "record"] or (
            graph.inputs[0] != graph.outputs[0]
        ):
            raise CompileError(f"{graph!r} is not an iteration; it must take state, row, constants and give state, record")
        program, angles = passes.arranged(iterated_program(graph), sum(self.sizes[:3]), kept=sum(self.sizes[:3]))
        self.blocks, self.calls = len(program.blocks), len(program.calls)
        self._streams = host.streams_of(program.slots)
        self.together = host.lanes * self._streams
        driver = calls(host.lanes, direct=False) + repeat(host.lanes, self._streams)
        before = time.perf_counter() - started
        code = compiled_program(program, angles, graph, driver, "iterate")
        self.llvm, self.cached, self._data, self._keep_alive = code.llvm, code.cached, code.data, code.keep_alive
        self._function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.entry)
        self.seconds = {"trace": trace_seconds, **code.seconds, "lower": before + code.seconds["lower"]}

    def run(self, state: Any, table: Any, constants: Any, record: Any, iterations: int) -> None:
        """Advance the states (trajectories, entries) in place, each by at most so many iterations.

        `table` is (trajectories or 1, rows, entries), `constants` (trajectories or 1, entries), `record` (trajectories, rows, entries);
        all are C-contiguous in their last axis. The GIL is released.
        """
        sizes: dict[str, int] = dict(zip(("state", "row", "constants", "", "record"), self.sizes, strict=True))
        given = {
            "state": (state, 2, "state"),
            "table": (table, 3, "row"),
            "constants": (constants, 2, "constants"),
            "record": (record, 3, "record"),
        }
        for name, (array, axes, port) in given.items():
            fits = array.dtype == np.float64 and array.ndim == axes and array.shape[-1] == sizes[port] and len(array) in (1, len(state))
            if not fits or not len(array) or (sizes[port] > 1 and array.size and array.strides[-1] != 8):
                raise CompileError(
                    f"iteration '{self.graph.name}': {name} is {array.dtype}{array.shape}; "
                    f"give doubles with {axes} axes, the last of {sizes[port]} in a row"
                )
        if not state.flags.c_contiguous or len(record) != len(state):
            raise CompileError(f"iteration '{self.graph.name}': state {state.shape} must be C-contiguous, records {record.shape} as many")
        rooms = [self._streams * int(self._data[Data.SCRATCH]), 8 * sizes["record"]]
        memory = np.empty(sum(rooms) + (len(rooms) + 1) * ALIGN, dtype=np.uint8)
        places = [-(-memory.ctypes.data // ALIGN) * ALIGN]
        for room in rooms:
            places.append(-(-(places[-1] + room) // ALIGN) * ALIGN)

        def stride(array: Any) -> int:
            return array.strides[0] if array.shape[0] > 1 else 0

        fields = {
            "trajectories": len(state), "iterations": iterations, "state": state.ctypes.data, "table": table.ctypes.data,
            "table_stride": stride(table), "table_row": table.strides[1], "table_rows": table.shape[1],
            "constants": constants.ctypes.data, "constants_stride": stride(constants), "record": record.ctypes.data,
            "record_stride": stride(record), "record_row": record.strides[1], "record_rows": record.shape[1], "scratch": places[0],
            "sink": places[1], **{f"{name}_size": size for name, size in sizes.items() if name},
        }  # fmt: skip
        task = np.array([fields[name] for name in TASK], dtype=np.int64)
        self._function(task.ctypes.data, self._data.ctypes.data)
        del memory  # lives until here
