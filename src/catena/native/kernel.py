"""The kernel: a compiled graph, called like a NumPy function."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from catena.errors import ArgumentError
from catena.graph import Graph, Port, Subgraph, Trace, divided, passes, traced_array, without_collection
from catena.graph.arrays import tracing
from catena.graph.differentiated import Chart
from catena.graph.stages import split
from catena.native import arguments, ufunc
from catena.native.compiled_program import compiled_program
from catena.native.differentiable import Differentiable
from catena.native.llvm import machine
from catena.native.llvm.batch_loop import loop
from catena.native.single_call import SingleCalls, for_one_state
from catena.native.thread_parts import shared
from catena.tables import Table, facts

#: States to one set of inputs with defaults from which on what follows from these is computed once, by code of its own.
STAGED = 1024

#: A block of so many nodes is not made part of the loop that calls it.
SEPARATE = 300


class Kernel(SingleCalls, Differentiable):
    """A compiled function of arrays, made by `compile_graph`. Calls broadcast over leading axes like NumPy's own functions.

    Where a call fails, the arguments are examined and an `ArgumentError` names the one at fault. Results that are not finite stay in the
    output of their state, without a warning. Kernels may be called from any number of threads.

    >>> import numpy as np
    >>> from catena.graph import Trace
    >>> trace = Trace("spring")
    >>> x, v = trace.input("x", (2,)), trace.input("v", (2,))
    >>> spring = compile_graph(trace.graph(force=-3.0 * x - 0.5 * v))
    >>> spring([1.0, 0.0], [0.0, 2.0])
    array([-3., -1.])
    >>> spring(x=np.ones((5, 1, 2)), v=np.zeros((4, 2))).shape
    (5, 4, 2)
    >>> spring.signature
    '(x: 2), (v: 2) -> (force: 2)'
    """

    def __init__(
        self,
        graph: Graph,
        method: str = "",
        references: tuple[str, ...] = (),
        trace_seconds: float = 0.0,
        function: Callable[..., Any] | None = None,
        model: str = "",
        labels: Mapping[str, tuple[str, ...]] | None = None,
        quick: bool = False,
        charts: Mapping[str, Chart] | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        started = time.perf_counter()
        host = machine.host()
        self.graph, self.name, self.method, self.references = graph, graph.name, method, references
        self.function, self.model = function, model
        self.labels: dict[str, tuple[str, ...]] = dict(labels or {})
        self.charts: dict[str, Chart] = dict(charts or {})
        self.defaults: dict[str, Any] = dict(defaults or {})  #: values of inputs that may be left out
        self._derivatives: dict[Any, Any] = {}
        self.inputs: tuple[Port, ...] = graph.inputs
        self.outputs: tuple[Port, ...] = graph.outputs
        self.lanes = host.lanes
        with without_collection():
            program, small = divided(graph)
            if small:
                program = passes.lift_numbers(program)
            self.merged = small and not program.libraries and not any(call.system for call in program.calls)
            program, angles = passes.arranged(program, sum(port.size for port in graph.inputs), kept=0)
        self.program = program
        self.blocks, self.calls = len(program.blocks), len(program.calls)
        # a small block becomes part of the loop that calls it, which is optimised with it
        direct = self.merged and bool(program.blocks) and len(program.blocks[0].nodes) < SEPARATE
        streams = host.streams_of(program.slots)
        driver = loop(graph.inputs, graph.outputs, host.lanes, streams, merged=self.merged, direct=direct, x86=host.x86)
        self._quick = quick and not small
        before = time.perf_counter() - started
        code = compiled_program(program, angles, graph, driver, "loop", direct=direct, quick=self._quick)
        self.llvm, self.cached = code.llvm, code.cached
        self.ufunc = ufunc.gufunc(graph.name, code.entry, code.data, graph.inputs, graph.outputs, code.keep_alive)
        self._code = code
        self.seconds: dict[str, float] = {"trace": trace_seconds, **code.seconds, "lower": before + code.seconds["lower"]}
        self._count = len(graph.inputs)
        self._run: Callable[..., Any] = self.ufunc
        if not all(port.size for port in (*graph.inputs, *graph.outputs)):
            self._run = arguments.with_empty(self.ufunc, graph.inputs, graph.outputs)

    def _general(self, arrays: tuple, out: Any, named: dict[str, Any]) -> Any:
        if named or len(arrays) != self._count:
            arrays = arguments.ordered(self.name, self.inputs, arrays, named, self.defaults)
        try:
            if self.defaults and self._shares(arrays):
                return self._in_stages(arrays, out)
            results = shared(self._run, self.inputs, self.outputs, arrays, out)
            if results is not NotImplemented:
                return results
            return self._run(*arrays) if out is None else self._run(*arrays, out=out)
        except Exception as error:
            trace = tracing(arrays)
            if trace is not None and out is None:
                return self._inlined(trace, arrays)
            self._explain(error, arrays, out)

    def for_one_state(self, *, given: bool, flagged: bool = False) -> Callable[..., Any]:
        """Return the function of one state; of a kernel that is `flagged`, without its last output, which has to be zero."""
        code = self._code
        return for_one_state(code.entry, code.data, self.inputs, self.outputs, code.keep_alive, given=given, flagged=flagged)

    def _inlined(self, trace: Trace, arrays: tuple) -> Any:
        """Return the outputs for arguments that are being traced: the kernel becomes part of that trace."""
        for x, port in zip(arrays, self.inputs, strict=True):
            if np.shape(x) != port.shape:
                raise ArgumentError(
                    f"kernel '{self.name}' is called in a traced function with {port.name} of shape {np.shape(x)}; "
                    f"give {port.shape}, one state"
                )
        results = tuple(map(traced_array, trace.call(self._subgraph, *arrays)))
        return results[0] if len(results) == 1 else results

    @cached_property
    def _subgraph(self) -> Subgraph:
        return Subgraph(self.graph)

    def _shares(self, arrays: tuple) -> bool:
        """Return whether many states share one set of those inputs that have defaults."""
        first = arrays[0]
        if not isinstance(first, np.ndarray) or first.size < STAGED * max(self.inputs[0].size, 1):
            return False
        batches = [np.shape(x)[: np.ndim(x) - len(port.shape)] for x, port in zip(arrays, self.inputs, strict=True)]
        own = [batch for batch, port in zip(batches, self.inputs, strict=True) if port.name in self.defaults]
        return math.prod(np.broadcast_shapes(*batches)) >= STAGED * math.prod(np.broadcast_shapes(*own))

    def _in_stages(self, arrays: tuple, out: Any) -> Any:
        """Return the outputs, with what follows from inputs with defaults computed once for each set of them."""
        first, second = self._stages
        sides: dict[bool, list[Any]] = {True: [], False: []}
        for x, port in zip(arrays, self.inputs, strict=True):
            sides[port.name in self.defaults].append(x)
        return second(first(*sides[True]), *sides[False], out=out)

    @cached_property
    def _stages(self) -> tuple[Kernel, Kernel]:
        first, second = split(self.graph, self.defaults)
        return Kernel(first, quick=self._quick), Kernel(second, self.method, quick=self._quick)

    def _explain(self, error: Exception, arrays: tuple, out: Any) -> NoReturn:
        """Raise what went wrong in terms of this kernel's arguments."""
        memory = error if isinstance(error, MemoryError) else error.__cause__
        if isinstance(memory, MemoryError) and not memory.args:  # raised inside the loop, without words
            raise MemoryError(f"kernel '{self.name}': no memory for the scratch space of {self.lanes} states") from None
        if isinstance(error, (ArgumentError, MemoryError)):
            raise error
        raise arguments.explained(self.name, self.inputs, self.outputs, arrays, out, error) from error

    @property
    def operations(self) -> dict[str, int]:
        """Number of operations by kind: add, mul, div, sqrt, trig, …; a sine and a cosine of one argument count two."""
        return self.graph.operations

    @property
    def signature(self) -> str:
        """Names and core shapes of the arguments and results."""
        return f"{arguments.described(self.inputs)} -> {arguments.described(self.outputs)}"

    @cached_property
    def assembly(self) -> str:
        """The machine code as text, compiled anew."""
        return machine.assembly(self.llvm)

    def cite(self) -> str:
        """Return the sources of the method, one a line."""
        return "\n".join(self.references)

    def __repr__(self) -> str:
        method = f" by {self.method}" if self.method else ""
        blocks = "1 block" if self.merged else f"{self.blocks} blocks, {self.calls} calls"
        made = "from the cache" if self.cached else f"compiled in {self.seconds['optimise'] + self.seconds['compile']:.2f} s"
        return (
            f"<Kernel {self.name}{method}: {self.signature}; {sum(self.operations.values())} operations, "
            f"{self.lanes} lanes, {blocks}, {made}>"
        )

    def _repr_html_(self) -> str:
        return self.table().html()

    def table(self, **more: str) -> Table:
        """Return the facts of the kernel, and more of them, as a table."""
        counts = ", ".join(f"{count:,} {kind}" for kind, count in self.operations.items() if count)
        code = "1 block" if self.merged else f"{self.blocks} blocks, {self.calls} calls"
        made = "from the cache" if self.cached else f"compiled in {self.seconds['optimise'] + self.seconds['compile']:.2f} s"
        return facts(f"{self.name.replace('_', ' ')}{f' of {self.model}' if self.model else ''}", {
            "method": self.method, "inputs": arguments.described(self.inputs), "outputs": arguments.described(self.outputs), **more,
            "operations": f"{sum(self.operations.values()):,}: {counts}", "code": f"{self.lanes} lanes, {code}, {made}",
        })  # fmt: skip

    def _derived(self, transform: Callable[[Graph, Collection[str]], Graph], labels: dict[str, tuple[str, ...]]) -> Kernel:
        started = time.perf_counter()
        graph = transform(self.graph, ())
        seconds = time.perf_counter() - started
        return Kernel(graph, self.method, self.references, seconds, None, self.model, labels, self._quick, self.charts, self.defaults)

    # a kernel never changes: copies are the kernel itself, a pickle carries the graph and compiles (or finds) the code where it lands
    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: dict) -> Kernel:
        return self

    def __reduce__(self) -> tuple:
        function = self.function
        try:
            pickle.dumps(function)
        except Exception:  # a function defined inside another, which pickle cannot name
            function = None
        known = (self.method, self.references, self.seconds["trace"], function, self.model, self.labels)
        return Kernel, (self.graph, *known, self._quick, self.charts, self.defaults)


def compile_graph(
    graph: Graph,
    *,
    method: str = "",
    references: tuple[str, ...] = (),
    trace_seconds: float = 0.0,
    function: Callable[..., Any] | None = None,
    model: str = "",
    labels: Mapping[str, tuple[str, ...]] | None = None,
    quick: bool = False,
    charts: Mapping[str, Chart] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Kernel:
    """Return the kernel of a graph.

    `method` and `references` say which formulation made the graph, `function` is its untraced Python function, `model` is the name of the
    model and `labels` what the entries of inputs and outputs are, along their first axis; the kernel carries them. `charts` are those of
    inputs and outputs on manifolds, along which derivatives are taken, `defaults` the values of inputs that may be left out. A large graph
    that is called seldom is compiled several times as fast with `quick`, and runs somewhat slower.

    >>> import numpy as np
    >>> from catena.graph import Trace
    >>> trace = Trace("circle")
    >>> angle = trace.input("angle")
    >>> circle = compile_graph(trace.graph(x=np.cos(angle), y=np.sin(angle)))
    >>> x, y = circle(np.linspace(0.0, 1.0, 5))
    >>> bool(np.allclose(x * x + y * y, 1.0))
    True
    """
    return Kernel(graph, method, references, trace_seconds, function, model, labels, quick, charts, defaults)
