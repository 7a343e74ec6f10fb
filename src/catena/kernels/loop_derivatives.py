"""Derivatives of forward dynamics with loops, along motions of the independent coordinates.

A change of the state that keeps the loops closed is known by its independent coordinates: positions change by N x, velocities by N y and by
what the change of N adds. So a column of derivatives belongs to each independent coordinate, and those of dependent ones are zero. Under
joint forces accelerations change by N m^-1 N^T, where m is the mass matrix of the independent coordinates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from catena.formulations.loops.constraints import constraint_motion
from catena.formulations.loops.dependence import DependentMap
from catena.formulations.loops.partitions import CoordinatePartition
from catena.graph import Graph, Trace, where
from catena.graph.derivatives import tangents
from catena.graph.differentiated import UNROLLED, Shared, by_output, jacobian_graph
from catena.kernels.dynamics import forward_dynamics
from catena.kernels.methods import solution
from catena.kernels.planned import ConstrainedKernel
from catena.kernels.state_flags import flags
from catena.kernels.tracing import charts, graph_kernel, traced_graph
from catena.loops.plan_library import plan_with_coordinates
from catena.model import Mechanism, Tree

#: Inputs of graphs by names that no number of a model can have.
_RATES, _OPENING = "independent rates", "rates of constraints"

#: How the names of outputs begin that are matrices.
_MATRIX = "dvdot_d"


def forward_dynamics_derivatives(m: Mechanism, at: Any) -> ConstrainedKernel:
    """Return the kernel (q, v, tau) -> (vdot, its derivatives by q, v and tau), with t before the inputs and the derivative by t last
    where the mechanism depends on time.
    """
    fd = forward_dynamics(m, at=at)
    assert isinstance(fd, ConstrainedKernel)
    started = time.perf_counter()
    method = solution("forward_dynamics", "auto", m).name
    coordinates = plan_with_coordinates(m.at(0.0), method, fd.made_for).coordinates
    graph = _Columns(m, fd.planned.graph, coordinates).graph()
    planned = graph_kernel(m, graph, fd.method, fd.references, time.perf_counter() - started)
    wrt = [port.name.removeprefix(_MATRIX) for port in graph.outputs if port.name.startswith(_MATRIX)]
    return fd.with_kernels(planned, lambda spare: jacobian_graph(spare, ["vdot"], wrt, charts(m), ["flags"], values=True))


class _Columns:
    """The columns of derivatives in a trace."""

    def __init__(self, m: Mechanism, dynamics: Graph, coordinates: CoordinatePartition) -> None:
        self.m, self.dynamics = m, dynamics
        self.independent = [j for j in range(m.nv) if j not in coordinates.dependent]
        self.charts = charts(m)
        self.timed = any(port.name == "t" for port in dynamics.inputs)
        rows = [row for part in coordinates.groups for row in part.rows]
        self.closed = np.zeros(len(rows))  # rates of the constraints

        def followed(tree: Tree, q: Any, x: Any, c: Any) -> Any:
            closed = DependentMap(tree, q, coordinates)
            return closed.rates(x), closed.held(dict(zip(rows, c, strict=True))), flags(m, closed)

        def opening(tree: Tree, q: Any, v: Any) -> Any:
            return constraint_motion(tree, q, v)[0][rows]

        # velocities from independent ones; changes of velocities that undo rates of the constraints; and these rates
        shapes = {_OPENING: self.closed.shape}
        self.followed, _ = traced_graph(m, "followed", ("q", _RATES, _OPENING), ("v", "held", "flags"), followed, shapes)
        self.opening, _ = traced_graph(m, "opening", ("q", "v"), ("rates",), opening)

    def graph(self) -> Graph:
        """Return the graph of all columns, with the flags of the state last."""
        trace = Trace("forward_dynamics_derivatives")
        state = {port.name: trace.input(port.name, port.shape) for port in self.dynamics.inputs}
        count, nv = len(self.independent), self.m.nv
        drift, N, own = self._basis(trace, state)
        matrices: dict[str, Any] = {name: np.zeros((nv, nv)).astype(object) for name in ("q", "v")}
        for name, matrix in matrices.items():
            along = self._code(trace, state, (name,))
            for x, j in zip(N.T, self.independent, strict=True):
                matrix[:, j] = along(x)
        along = self._code(trace, state, ("tau",))
        under_force = [along(self._spread(unit)) for unit in np.eye(count)]  # N m^-1
        matrices["tau"] = np.stack(under_force, axis=1) @ N.T if count else np.zeros((nv, nv))
        if self.timed:
            matrices["t"] = self._code(trace, state, ("q", "t"))(drift, 1.0)
        (vdot, flag), _ = self._tangents(trace, self.dynamics, state, {})
        named = {f"{_MATRIX}{name}": matrix for name, matrix in matrices.items()}
        return trace.graph(vdot=vdot, **named, flags=where(flag > 0.0, flag, own)).check()

    def _code(self, trace: Trace, state: Mapping[str, Any], names: tuple[str, ...]) -> Callable[..., Any]:
        """Return the function of changes of inputs to that of vdot; traced each time, or by one code where that is long."""
        if len(self.dynamics.nodes) * 2.0 * len(self.independent) <= UNROLLED:
            return lambda *changes: self._along(trace, state, dict(zip(names, changes, strict=True)))
        inner = Trace("derivatives along the loops")
        inputs = {port.name: inner.input(port.name, port.shape) for port in self.dynamics.inputs}
        change = {name: inner.input(f"d{name}", () if name == "t" else (self.m.nv,)) for name in names}
        shared = Shared(trace, inner.graph(dvdot=self._along(inner, inputs, change)).check(), state)
        return lambda *changes: shared(*changes)[0]

    def _along(self, trace: Trace, state: Mapping[str, Any], change: Mapping[str, Any]) -> Any:
        """Return how vdot changes, where velocities change as well so that they keep the loops closed."""
        change = dict(change)
        if "q" in change:
            _, (opening,) = self._tangents(trace, self.opening, state, change)
            (_, change["v"], _), _ = self._tangents(trace, self.followed, {**state, _RATES: np.zeros(self.m.nv), _OPENING: opening}, {})
        return self._tangents(trace, self.dynamics, state, change)[1][0]

    def _spread(self, x: Any) -> Any:
        spread = np.zeros(self.m.nv).astype(object)
        spread[self.independent] = x
        return spread

    def _basis(self, trace: Trace, state: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """Return the velocities that driven joints give without others, N (nv, independent), and the flags of the state."""

        def follow(x: Any) -> tuple[Any, Any, Any]:
            return self._tangents(trace, self.followed, {**state, _RATES: x, _OPENING: self.closed}, {})[0]

        drift, _, own = follow(np.zeros(self.m.nv))
        units = [follow(self._spread(unit))[0] - drift for unit in np.eye(len(self.independent))]
        return drift, np.stack(units, axis=1) if units else np.zeros((self.m.nv, 0)), own

    def _tangents(self, trace: Trace, graph: Graph, inputs: Mapping[str, Any], change: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the outputs of a graph, and their derivatives along changes of its inputs."""
        directions = []
        for port in graph.inputs:
            along = change.get(port.name, np.zeros(port.shape))
            if port.name in self.charts and port.name in change:
                along = self.charts[port.name].rate(inputs[port.name], along)
            directions.append(along)
        arguments = graph.flat([inputs[port.name] for port in graph.inputs])
        values, changes = tangents(trace, graph, arguments, graph.flat(directions))
        return by_output(graph, values), by_output(graph, changes)
