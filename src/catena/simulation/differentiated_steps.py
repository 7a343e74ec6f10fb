"""Derivatives of a motion that was made step by step: backward, what a cost has by all that a motion begins with, by adjoints of the steps;
forward, what states have along a change of that, by their tangents. Both are loops in machine code over the states that were stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from catena.graph import Graph, Subgraph, Trace
from catena.graph.differentiated import adjoint_graph, tangent_graph
from catena.kernels.tracing import charts
from catena.loops.projection import LoopPlan
from catena.native import Iteration, Kernel, compile_graph
from catena.native.thread_parts import share
from catena.simulation.flows import TracedFlow
from catena.simulation.inputs import Function, cost_role
from catena.simulation.rollout import PlanUse, thread_parts
from catena.simulation.stepping import Layout, chosen
from catena.simulation.system import System

Array = Any
Cost = Callable[[Any, Array, Array, Array], Any]


class Motion(NamedTuple):
    """N trajectories of S steps: their states, and of each step its beginning t, its size h, its row of inputs, and whether it was made.

    `plans` says by which plans of the loops the steps were made; a trajectory without any has no derivatives.
    """

    q: np.ndarray  # (N, S + 1, nq)
    v: np.ndarray  # (N, S + 1, nv)
    t: np.ndarray  # (S,)
    h: np.ndarray  # (S,)
    rows: np.ndarray  # (N or 1, S, entries)
    made: np.ndarray  # (N, S)
    plans: Sequence[PlanUse]

    @property
    def steps(self) -> int:
        return len(self.t)


class Bars(NamedTuple):
    """Gradients of a cost by the first positions along velocities, the first velocities, and what is constant, by name; (N, ...) each."""

    q: np.ndarray
    v: np.ndarray
    constants: dict[str, np.ndarray]


class DifferentiatedSteps:
    """The steps of a system with a cost, or its integral by the trapezoidal rule, and a final cost."""

    def __init__(self, system: System, cost: Cost | None, final_cost: Function | None, integral: bool = False) -> None:
        self.system, self.model = system, system.model
        self.cost, self.final_cost = (None if function is None else system.model.bound(function) for function in (cost, final_cost))
        self.integral = integral
        self.row, self.constants = system.stepping.row, Layout((), system.stepping.inputs)
        self._charts = charts(self.model)
        if self.cost is not None:
            cost_role(self.model, "cost").graph(self.cost)
        if self.final_cost is not None:
            cost_role(self.model, "final_cost").graph(self.final_cost)

    # graphs

    def _graph(self, function: Callable[..., dict[str, Any]], *names: str) -> Graph:
        """Return the graph of a function of a flow and of arrays by name; what the flow depends on are further inputs."""
        trace, shapes = Trace("steps"), {"t": (), "h": (), "q": (self.model.nq,), "q_next": (self.model.nq,)}
        arrays = [trace.input(name, shapes.get(name, (self.model.nv,))) for name in names]
        row, constants = ({name: trace.input(self._inputs[name], (size,)) for name, size in x.sizes.items()} for x in self._given)
        return trace.graph(**function(TracedFlow(self.system, trace, row, constants), *arrays))

    @property
    def _given(self) -> tuple[Layout, Layout]:
        return self.row, self.constants

    @property
    def _inputs(self) -> dict[str, str]:
        """Inputs of graphs by the names of entries of a row and of constants, that no other input can have."""
        return {name: f"input.{name}" for given in self._given for name in given.sizes}

    def _step(self, flow: TracedFlow, t: Any, h: Any, q: Array, v: Array) -> dict[str, Any]:
        found = self.system.integrator.advance(flow, t, q, v, flow.acceleration(t, q, v), h)
        flow.mark()
        return {"q_next": found.q, "v_next": found.v} | self._running(flow, t, h, q, v, found.q, found.v)

    def _running(self, flow: TracedFlow, t: Any, h: Any, q: Array, v: Array, q_next: Array, v_next: Array) -> dict[str, Any]:
        """Return the cost of a step."""

        def at(t: Any, q: Array, v: Array) -> Any:
            assert self.cost is not None
            return flow.value(self.cost, t, q, v, flow.force(t, q, v))

        if self.cost is None:
            return {"cost": 0.0}
        return {"cost": 0.5 * h * (at(t, q, v) + at(t + h, q_next, v_next)) if self.integral else at(t, q, v)}

    def _end(self, flow: TracedFlow, t: Any, q: Array, v: Array) -> dict[str, Any]:
        return {"cost": 0.0 if self.final_cost is None else flow.value(self.final_cost, t, q, v)}

    @cached_property
    def _functions(self) -> tuple[Graph, ...]:
        """What the functions of the user's compute, as values to compare."""

        def force(flow: TracedFlow, t: Any, q: Array, v: Array) -> dict[str, Any]:
            return {"force": flow.force(t, q, v)}

        running = self._graph(self._running, "t", "h", "q", "v", "q_next", "v_next")
        return running, self._graph(self._end, "t", "q", "v"), self._graph(force, "t", "q", "v")

    def _once(self, name: str, plan: LoopPlan | None, make: Callable[[], Any]) -> Any:
        """Return what is compiled, from an earlier call whose functions compute the same of the same inputs."""
        system = self.system
        functions = (*self._functions, *system.model_functions)
        given = tuple(tuple(layout.sizes.items()) for layout in self._given)
        return self.model.once(name, (functions, given, system.integrator.name, system.integrator.step, system.method, plan), make)

    def _kernel(self, i: int) -> Kernel:
        return self._once(f"cost {i}", None, lambda: compile_graph(self._functions[i], charts=self._charts))

    def _planned(self, plan: LoopPlan | None) -> Graph:
        """Return the graph of a step, by a plan of the loops."""
        if plan is not None:
            self.system.use(plan)
        return self._graph(self._step, "t", "h", "q", "v")

    @property
    def _stored(self) -> dict[str, int]:
        """Entries of a row of a loop over stored states, but for those of inputs."""
        return {"made": 1, "t": 1, "h": 1, "q": self.model.nq, "v": self.model.nv}

    def _backward(self, plan: LoopPlan | None) -> Iteration:
        """Return the loop back; the record of a step is what the cost has by its row of inputs."""
        nv, inputs = self.model.nv, self._inputs
        adjoint = Subgraph(adjoint_graph(self._planned(plan), ["q", "v", *inputs.values()], self._charts))
        trace, stored = Trace("backward"), Layout(("made", "t", "h"), self._stored | {"row": self.row.size})
        state = trace.input("state", (3 + 2 * nv + self.constants.size,))
        row, constants = stored.split(trace.input("row", (stored.size,))), trace.input("constants", (max(self.constants.size, 1),))
        given = (*self.row.split(row["row"]).values(), *self.constants.split(constants).values())
        by_q, by_v, before = np.split(state[3:], [nv, 2 * nv])
        called = trace.call(adjoint, row["t"], row["h"], row["q"], row["v"], *given, by_q, by_v, 1.0)
        by = dict(zip(("q", "v", *inputs), called, strict=True))
        by_row, by_constants = (np.concatenate([[], *(by[name] for name in part.sizes)]) for part in self._given)
        made = row["made"] > 0.5
        after = chosen(made, np.concatenate([by["q"], by["v"], before + by_constants]), state[3:])
        record = chosen(made, by_row, np.zeros(len(by_row))) if len(by_row) else np.zeros(1)
        return Iteration(trace.graph(state=[0.0, state[1] + 1.0, state[2] + 1.0, *after], record=record))

    def _forward(self, plan: LoopPlan | None) -> Iteration:
        """Return the loop forward; the record of a step is how its end changes."""
        nv, inputs = self.model.nv, self._inputs
        tangent = Subgraph(tangent_graph(self._planned(plan), ["q", "v", *inputs.values()], self._charts))
        trace, stored = Trace("forward"), Layout(("made", "t", "h"), self._stored | {"row": self.row.size, "change": self.row.size})
        state, row = trace.input("state", (3 + 2 * nv,)), stored.split(trace.input("row", (stored.size,)))
        constants = trace.input("constants", (max(2 * self.constants.size, 1),))
        given = (*self.row.split(row["row"]).values(), *self.constants.split(constants).values())
        changes = (*self.row.split(row["change"]).values(), *self.constants.split(constants[self.constants.size :]).values())
        called = trace.call(tangent, row["t"], row["h"], row["q"], row["v"], *given, state[3 : 3 + nv], state[3 + nv :], *changes)
        found = dict(zip((port.name for port in tangent.graph.outputs), called, strict=True))
        after = chosen(row["made"] > 0.5, np.concatenate([found["dq_next"], found["dv_next"]]), state[3:])
        return Iteration(trace.graph(state=[0.0, state[1] + 1.0, state[2] + 1.0, *after], record=after))

    # passes over a motion

    def value(self, motion: Motion, constants: np.ndarray) -> np.ndarray:
        """Return the cost of the steps of each trajectory."""
        if self.cost is None:
            return np.zeros(len(motion.q))
        q, v, given = motion.q, motion.v, [constants[:, None, at] for at in self.constants.at.values()]
        rows = [motion.rows[..., at] for at in self.row.at.values()]
        each = self._kernel(0)(motion.t, motion.h, q[:, :-1], v[:, :-1], q[:, 1:], v[:, 1:], *rows, *given)
        return np.where(motion.made, each, 0.0).sum(axis=1)

    def final(
        self, t: np.ndarray, q: np.ndarray, v: np.ndarray, row: np.ndarray, constants: np.ndarray
    ) -> tuple[np.ndarray, Bars, np.ndarray]:
        """Return the final cost of states (N, ...), its gradient, and that by the row of inputs."""
        given = [x[:, at] for x, part in ((row, self.row), (constants, self.constants)) for at in part.at.values()]
        count = len(q)
        value = np.broadcast_to(self._kernel(1)(t, q, v, *given), (count,))
        by_q, by_v, *others = self._kernel(1).vjp(["q", "v", *self._inputs.values()])(t, q, v, *given, 1.0)
        by = {name: np.broadcast_to(x, (count, x.shape[-1])) for name, x in zip(self._inputs, others, strict=True)}
        by_row = np.concatenate([np.zeros((count, 0)), *(by[name] for name in self.row.sizes)], axis=1)
        return value, Bars(by_q, by_v, {name: by[name] for name in self.constants.sizes}), by_row

    def back(self, motion: Motion, constants: np.ndarray, bars: Bars, threads: int) -> tuple[Bars, np.ndarray]:
        """Return gradients at the beginning of a motion from those at its end, and those by the rows of its inputs (N, S, entries)."""
        (count, _, nv), size = motion.v.shape, max(self.row.size, 1)
        state = np.concatenate([np.zeros((count, 3)), bars.q, bars.v, *bars.constants.values()], axis=1)
        given = np.zeros((count, max(self.constants.size, 1)))
        given[:, : self.constants.size] = constants
        record = np.empty((count, motion.steps, size))
        table = self._table(motion, backward=True)
        unknown = np.array(motion.made.any(axis=1))
        for which, stretches in _histories(motion):
            unknown[which] = False
            for plan, first, last in reversed(stretches):
                iteration = self._once("backward", plan, partial(self._backward, plan))
                steps = slice(motion.steps - last, motion.steps - first)
                _run(iteration, which, state, table[:, steps], given, record[:, steps], threads)
        state[unknown], record[unknown] = np.nan, np.nan
        by_constants = {name: state[:, 3 + 2 * nv :][:, at] for name, at in self.constants.at.items()}
        return Bars(state[:, 3 : 3 + nv], state[:, 3 + nv : 3 + 2 * nv], by_constants), record[:, ::-1, : self.row.size]

    def along(
        self, motion: Motion, constants: np.ndarray, q: np.ndarray, v: np.ndarray, rows: np.ndarray, changed: np.ndarray, threads: int
    ) -> np.ndarray:
        """Return how states change (N, S + 1, 2 nv) with changes of the first one, of rows of inputs (N, S, entries), and of constants."""
        count, nv = len(motion.q), self.model.nv
        result = np.empty((count, motion.steps + 1, 2 * nv))
        result[:, 0] = np.concatenate([q, v], axis=1)
        state = np.concatenate([np.zeros((count, 3)), result[:, 0]], axis=1)
        given = np.zeros((count, max(2 * self.constants.size, 1)))
        given[:, : 2 * self.constants.size] = np.concatenate([constants, changed], axis=1)
        table = np.concatenate([self._table(motion), np.broadcast_to(rows, (count, motion.steps, self.row.size))], axis=2)
        unknown = np.array(motion.made.any(axis=1))
        for which, stretches in _histories(motion):
            unknown[which] = False
            for plan, first, last in stretches:
                iteration = self._once("forward", plan, partial(self._forward, plan))
                _run(iteration, which, state, table[:, first:last], given, result[:, 1 + first : 1 + last], threads)
        result[unknown, 1:] = np.nan
        return result

    def _table(self, motion: Motion, backward: bool = False) -> np.ndarray:
        """Return the rows of a loop over stored states, (N, S, entries), the last first if it goes backward."""
        layout = Layout((), self._stored | {"row": self.row.size})
        table = np.empty((*motion.made.shape, layout.size))
        ahead = table[:, ::-1] if backward else table
        parts = (motion.made[..., None], motion.t[:, None], motion.h[:, None], motion.q[:, :-1], motion.v[:, :-1], motion.rows)
        for at, part in zip(layout.at.values(), parts, strict=True):
            ahead[..., at] = part
        return table


_Stretches = tuple[tuple[LoopPlan | None, int, int], ...]  # plans, with the first step of each and the one after the last


def _histories(motion: Motion) -> Iterator[tuple[np.ndarray, _Stretches]]:
    """Yield the trajectories that were made by the same plans at the same steps, and these plans in the order of time."""
    changed = np.unique(np.concatenate([np.zeros(0, dtype=int), *(use.which[use.first > 0] for use in motion.plans)]))
    for use in motion.plans:
        which = np.setdiff1d(use.which, changed)
        if len(which):
            yield which, ((use.plan, 0, motion.steps),)
    used: dict[int, list[tuple[LoopPlan | None, int]]] = {}
    for use in motion.plans:
        own = np.isin(use.which, changed)
        for i, first in zip(use.which[own].tolist(), use.first[own].tolist(), strict=True):
            used.setdefault(i, []).append((use.plan, first))
    groups: dict[tuple[tuple[LoopPlan | None, int], ...], list[int]] = {}
    for i, history in used.items():
        groups.setdefault(tuple(history), []).append(i)
    for history, which in groups.items():
        ends = [*(first for _, first in history[1:]), motion.steps]
        yield np.array(sorted(which)), tuple((plan, first, last) for (plan, first), last in zip(history, ends, strict=True) if first < last)


def _run(
    iteration: Iteration, which: np.ndarray, state: np.ndarray, table: np.ndarray, given: np.ndarray, record: np.ndarray, threads: int
) -> None:
    """Run an iteration over some trajectories, to the end of the table; states and records are changed in place."""
    state[which, :3] = 0.0
    if len(which) < len(state):
        mine, own = state[which], np.empty((len(which), *record.shape[1:]))
        _run(iteration, np.arange(len(which)), mine, table[which], given[which], own, threads)
        state[which], record[which] = mine, own
        return
    steps = table.shape[1]

    def run(at: slice) -> None:
        iteration.run(state[at], table[at], given[at], record[at], steps)

    share(run, thread_parts(len(state), steps, threads, iteration), threads)
