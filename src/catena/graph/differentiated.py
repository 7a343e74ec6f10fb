"""Graphs of derivatives with named inputs and outputs: along directions, from cotangents, and as matrices.

An input such as the positions of a mechanism may lie on a manifold, where directions have coordinates of their own: a `Chart` says how
many, and how they move the entries of the input. Derivatives by an input with a chart are along these coordinates, and so are those of an
output.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from catena.errors import ArgumentError
from catena.graph.derivatives import adjoints, tangents
from catena.graph.graph import Graph, Port, Subgraph
from catena.graph.stages import HELD, split
from catena.graph.trace import Trace, object_array

#: A matrix of derivatives is traced column by column, with all its zeros, where that makes no more nodes than this; otherwise the code of
#: one column is compiled once, and called for each.
UNROLLED = 20_000

#: How many times the nodes of a graph one column of derivatives takes along a direction, and one row from a cotangent.
_COLUMN, _ROW = 1.8, 2.2


class Chart(Protocol):
    """Coordinates of the directions in which a point x of a manifold can move."""

    @property
    def size(self) -> int:
        """Number of coordinates."""
        ...

    def rate(self, x: Any, u: Any, /) -> Any:
        """Return how the entries of x change in the direction u; linear in u."""
        ...

    def velocity(self, x: Any, rate: Any, /) -> Any:
        """Return the direction in which the entries of x change at a rate; linear in the rate."""
        ...


Charts = Mapping[str, Chart]


def tangent_graph(graph: Graph, wrt: Sequence[str], charts: Charts, carried: Collection[str] = ()) -> Graph:
    """Return the graph (inputs, directions d… of the inputs `wrt`) -> (outputs, their derivatives d…); outputs `carried` come last."""
    trace = Trace(f"{graph.name}, tangent")
    build = _Builder(trace, graph, charts)
    directions = {name: trace.input(f"d{name}", build.shape(build.input_port(name))) for name in wrt}
    values, changes = build.tangents(directions)
    outputs = {name: value for name, value in values.items() if name not in carried}
    outputs |= {f"d{name}": change for name, change in changes.items() if name not in carried}
    return trace.graph(**outputs, **{name: values[name] for name in carried}).check()


def adjoint_graph(graph: Graph, wrt: Sequence[str], charts: Charts, carried: Collection[str] = ()) -> Graph:
    """Return the graph (inputs, cotangents …_bar of the outputs) -> gradients …_bar by the inputs `wrt`; outputs `carried` come last."""
    trace = Trace(f"{graph.name}, adjoint")
    build = _Builder(trace, graph, charts)
    bars = {port.name: trace.input(f"{port.name}_bar", build.shape(port)) for port in graph.outputs if port.name not in carried}
    values, gradients = build.adjoints(bars, wrt)
    named = {f"{name}_bar": gradient for name, gradient in gradients.items()}
    return trace.graph(**named, **{name: values[name] for name in carried}).check()


def jacobian_graph(
    graph: Graph, outputs: Sequence[str], wrt: Sequence[str], charts: Charts, carried: Collection[str] = (), values: bool = False
) -> Graph:
    """Return the graph (inputs) -> matrices d…_d… of the derivatives of outputs by inputs, those of the first output first.

    The outputs themselves come before the matrices with `values`; outputs `carried` come last.
    """
    trace = Trace(f"{graph.name}, jacobian")
    build = _Builder(trace, graph, charts)
    matrices = _matrices(build, outputs, wrt)
    named = {f"d{output}_d{name}": matrices[output, name] for output in outputs for name in wrt}
    known = build.tangents({})[0] if carried or values else {}
    first = {name: known[name] for name in outputs} if values else {}
    return trace.graph(**first, **named, **{name: known[name] for name in carried}).check()


def _matrices(build: _Builder, outputs: Sequence[str], wrt: Sequence[str]) -> dict[tuple[str, str], Any]:
    """Return the derivatives of outputs by inputs: by columns, one direction after the other, or by rows, one cotangent after the other,
    whichever takes less.
    """
    columns = sum(build.size(build.input_port(name)) for name in wrt)
    rows = sum(build.size(build.output_port(name)) for name in outputs)
    by_rows = _ROW * rows < _COLUMN * columns
    port, seeds, others = (build.output_port, outputs, wrt) if by_rows else (build.input_port, wrt, outputs)
    code, given = None, seeds
    if min(_ROW * rows, _COLUMN * columns) * len(build.graph.nodes) > UNROLLED:
        if by_rows:
            given = [port.name for port in build.graph.outputs if port.name in outputs]
            unused = [port.name for port in build.graph.outputs if port.name not in outputs]
            graph = _only(adjoint_graph(build.graph, wrt, build.charts, unused), [f"{name}_bar" for name in wrt])
        else:
            graph = _only(tangent_graph(build.graph, wrt, build.charts), [f"d{name}" for name in outputs])
        code = Shared(build.trace, graph, build.inputs)

    matrices = build.empty(outputs, wrt)
    for name in seeds:
        shape = build.shape(port(name))
        for at in np.ndindex(shape):
            unit = np.zeros(shape)
            unit[at] = 1.0
            if code is not None:
                whole = code(*(unit if other == name else np.zeros(build.shape(port(other))) for other in given))
                found = dict(zip(others, whole, strict=True))
            else:
                found = build.adjoints({name: unit}, wrt)[1] if by_rows else build.tangents({name: unit})[1]
            for other in others:
                if by_rows:
                    matrices[name, other][at] = found[other]
                else:
                    matrices[other, name][(..., *at)] = found[other]
    return matrices


def _only(graph: Graph, outputs: Sequence[str]) -> Graph:
    """Return a graph with some of its outputs, in this order."""
    at = {port.name: i for i, port in enumerate(graph.outputs)}
    chosen = [at[name] for name in outputs]
    ports, results = tuple(graph.outputs[i] for i in chosen), tuple(graph.results[i] for i in chosen)
    return Graph(graph.name, graph.nodes, graph.inputs, ports, results, graph.marks).drop_dead()


class Shared:
    """A graph whose last inputs take many values in a trace: what depends on the others alone is computed once, the rest by one code."""

    def __init__(self, trace: Trace, graph: Graph, inputs: Mapping[str, Any]) -> None:
        first, second = split(graph, list(inputs))
        self.trace, self.second = trace, Subgraph(second)
        (self.held,) = trace.call(Subgraph(first), *inputs.values()) if first.outputs[0].size else (np.zeros(0),)
        assert second.inputs[0].name == HELD

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        return self.trace.call(self.second, self.held, *arguments)


class _Builder:
    """The derivatives of a graph in a trace whose inputs begin with those of the graph, with inputs and outputs by name."""

    def __init__(self, trace: Trace, graph: Graph, charts: Charts) -> None:
        self.trace, self.graph, self.charts = trace, graph, charts
        self.inputs: dict[str, Any] = {port.name: trace.input(port.name, port.shape) for port in graph.inputs}
        self._arguments = _flat(self.inputs.values())

    def input_port(self, name: str) -> Port:
        return named(self.graph.name, self.graph.inputs, name, "input")

    def output_port(self, name: str) -> Port:
        return named(self.graph.name, self.graph.outputs, name, "output")

    def shape(self, port: Port) -> tuple[int, ...]:
        """Return the shape of directions, or cotangents."""
        return (self.charts[port.name].size,) if port.name in self.charts else port.shape

    def size(self, port: Port) -> int:
        """Return the number of directions."""
        return int(np.prod(self.shape(port)))

    def empty(self, outputs: Sequence[str], wrt: Sequence[str]) -> dict[tuple[str, str], Any]:
        """Return matrices to fill."""
        shapes = {(o, i): (*self.shape(self.output_port(o)), *self.shape(self.input_port(i))) for o in outputs for i in wrt}
        return {pair: np.zeros(shape).astype(object) for pair, shape in shapes.items()}

    def tangents(self, directions: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the outputs by name, and their derivatives along directions of some inputs."""
        entries: list[Any] = []
        for port in self.graph.inputs:
            if port.name not in directions:
                entries += [0.0] * port.size
                continue
            u = directions[port.name]
            entries += _flat([self.charts[port.name].rate(self.inputs[port.name], u) if port.name in self.charts else u])
        values, changes = (self._by_output(x) for x in tangents(self.trace, self.graph, self._arguments, entries))
        for name in changes:
            if name in self.charts:
                changes[name] = self.charts[name].velocity(values[name], changes[name])
        return values, changes

    def adjoints(self, bars: Mapping[str, Any], wrt: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the outputs by name, and gradients by some inputs, from cotangents of some outputs."""
        cotangents: list[Any] = []
        for port in self.graph.outputs:
            bar = bars.get(port.name)
            if bar is None:
                cotangents += [0.0] * port.size
            elif port.name in self.charts:  # the transpose of what velocity does
                x = self._by_output(tangents(self.trace, self.graph, self._arguments, [0.0] * len(self._arguments))[0])[port.name]
                units = [self.charts[port.name].velocity(x, unit) for unit in np.eye(port.size)]
                cotangents += [_dot(bar, direction) for direction in units]
            else:
                cotangents += _flat([bar])
        starts = np.cumsum([0, *(port.size for port in self.graph.inputs)])
        wanted = {i for port, a in zip(self.graph.inputs, starts, strict=False) if port.name in wrt for i in range(a, a + port.size)}
        values, gradients = adjoints(self.trace, self.graph, self._arguments, cotangents, wanted)
        found = {}
        for port, a in zip(self.graph.inputs, starts, strict=False):
            if port.name in wrt:
                own = object_array(gradients[a : a + port.size], port.shape)
                if port.name in self.charts:  # the transpose of what rate does
                    chart, x = self.charts[port.name], self.inputs[port.name]
                    own = object_array([_dot(own, chart.rate(x, unit)) for unit in np.eye(chart.size)], (chart.size,))
                found[port.name] = own
        return self._by_output(values), {name: found[name] for name in wrt}

    def _by_output(self, entries: Sequence[Any]) -> dict[str, Any]:
        return dict(zip((port.name for port in self.graph.outputs), by_output(self.graph, entries), strict=True))


def by_output(graph: Graph, entries: Sequence[Any]) -> list[Any]:
    """Return entries of all outputs of a graph as an array for each."""
    found, start = [], 0
    for port in graph.outputs:
        found.append(object_array(entries[start : start + port.size], port.shape))
        start += port.size
    return found


def named(name: str, ports: Sequence[Port], wanted: str, what: str) -> Port:
    """Return the input or output of a name, or refuse it."""
    for port in ports:
        if port.name == wanted:
            return port
    known = ", ".join(f"'{port.name}'" for port in ports)
    raise ArgumentError(f"kernel '{name}' has no {what} {wanted!r}; choose from {known}")


def _flat(arrays: Any) -> list[Any]:
    return [entry for array in arrays for entry in np.asarray(array, dtype=object).ravel()]


def _dot(a: Any, b: Any) -> Any:
    return sum((x * y for x, y in zip(a, b, strict=True) if not (isinstance(y, float) and y == 0.0)), 0.0)
