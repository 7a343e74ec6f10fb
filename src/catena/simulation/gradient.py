"""Gradients through rollouts: how a cost over a motion depends on its beginning, its controls, and numbers of the model.

Forward, states are stored; where there are too many, those at the beginnings of segments, which are run again on the way back. Backward, a
loop in machine code takes the adjoint of a step from each stored state to the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ArgumentError
from catena.graph import Graph, Subgraph, Trace
from catena.graph.differentiated import adjoint_graph
from catena.loops.projection import LoopPlan
from catena.model.coordinates import PositionChart
from catena.model.user_functions import own_array
from catena.native import Iteration, Kernel, compile_graph
from catena.scalars import expression
from catena.simulation.inputs import Controls, Function, cost_role
from catena.simulation.integrators.steps import integrator as integrator_of
from catena.simulation.rollout import Rollout, RolloutSettings, thread_count
from catena.simulation.stepper import step_graph
from catena.simulation.stepping import Counted
from catena.simulation.system import System

Array = Any
Cost = Callable[[Any, Array, Array, Array], Any]

#: Numbers of states that are stored at once; of longer runs, segments of about the square root of the steps.
_STORED = 2**24


class RolloutGradient(NamedTuple):
    """A cost of motions, and its gradient: by the first positions along velocities, the first velocities, controls, and parameters by path.

    Leading axes are those of the rollout; what trajectories share has the sum of their gradients.
    """

    value: np.ndarray
    q0: np.ndarray
    v0: np.ndarray
    controls: np.ndarray | None
    parameters: dict[str, np.ndarray]
    rollout: Rollout | None


def rollout_gradient(
    m: Any,
    q0: Any,
    v0: Any = None,
    controls: Any = None,
    *,
    step: float,
    steps: int,
    cost: Cost | None = None,
    final_cost: Function | None = None,
    start: float = 0.0,
    integrator: str = "auto",
    method: str = "auto",
    threads: int | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> RolloutGradient:
    """Return the cost of rollouts, and its gradient by all that they begin with.

    The cost is the sum of `cost(t, q, v, tau)` over the beginnings of all steps, tau being what is held over the step, and of
    `final_cost(t, q, v)` at the end; both are traced. The other arguments are those of `ct.rollout`. Gradients are exact for the steps as
    they are made: they are found backwards, by the adjoint of the compiled step, at about four times the cost of the rollout.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> found = ct.rollout_gradient(m, [0.5], controls=np.zeros((100, 1)), step=0.01, steps=100, final_cost=lambda t, q, v: q[0])
    >>> found.value.round(4), found.q0.round(4), found.controls.shape
    (np.float64(-0.4992), array([-0.9927]), (100, 1))
    """
    given = RolloutSettings.of(m, q0, v0, controls, step, steps, 1, start, integrator, method, parameters)
    if cost is None and final_cost is None:
        raise ArgumentError("rollout_gradient: neither cost nor final_cost is given; give a function to be differentiated")
    found = _Work(given, cost, final_cost, thread_count(threads)).run()
    n, by_controls = given.model.nv, found.controls
    if by_controls is not None and by_controls.shape[1] == 1 and np.ndim(controls) <= max(np.ndim(q0), np.ndim(v0)):
        by_controls = by_controls[:, 0]  # constant ones, which have no axis of time
    return RolloutGradient(
        found.value.reshape(given.batch),
        _summed(found.q0, given.batch, (*np.shape(q0)[:-1], n)),
        _summed(found.v0, given.batch, (*given.batch, n) if v0 is None else np.shape(v0)),
        None if by_controls is None else _summed(by_controls, given.batch, np.shape(controls)),
        {path: _summed(x, given.batch, np.shape((parameters or {})[path])) for path, x in found.parameters.items()},
        None if found.rollout is None else given.shaped(found.rollout),
    )


def _summed(x: np.ndarray, batch: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Return gradients (N, ...) of a batch in the shape of what was given, with sums where it was shared."""
    whole = x.reshape((*batch, *x.shape[1:]))
    whole = whole.sum(axis=tuple(range(whole.ndim - len(shape))))
    return whole.sum(axis=tuple(i for i, n in enumerate(shape) if n != whole.shape[i]), keepdims=True)


class _Work:
    """The passes over a rollout: forward by `ct.rollout`, backward by adjoints of steps."""

    def __init__(self, given: RolloutSettings, cost: Cost | None, final_cost: Function | None, threads: int) -> None:
        m = self.model = given.model
        self.given, self.threads = given, threads
        controls = Controls(m, given.controller is None, given.controller)
        self.system = System(m, integrator_of(given.integrator, m), given.method, controls, clock=Counted)
        self.cost, self.final = cost, final_cost
        chart = PositionChart.of(m)
        self.charts = {} if chart is None else {"q": chart, "q_next": chart}
        self.sizes = {path: m.parameters()[path].value.size for path in m.varied}
        if cost is not None:
            cost_role(m, "cost").graph(cost)
        if final_cost is not None:
            cost_role(m, "final_cost").graph(final_cost)

    # graphs

    def _step(self, plan: LoopPlan | None) -> Graph:
        """Return the graph (t, q, v, tau, numbers) -> (q_next, v_next, cost) of a step."""
        m, trace = self.model, Trace("costly step")
        if plan is not None:
            self.system.use(plan)
        t, q, v, tau = trace.input("t"), trace.input("q", (m.nq,)), trace.input("v", (m.nv,)), trace.input("tau", (m.nv,))
        numbers = m.given_inputs(trace)
        inner = step_graph(self.system, self.given.step, 1, None, timed=True)
        q_next, v_next = trace.call(Subgraph(inner), t, q, v, tau, *numbers.values())
        result: Any = 0.0
        if self.cost is not None:
            force = tau
            with expression.values(numbers):
                if self.given.controller is not None:
                    force = np.asarray(expression.settled(self.given.controller(t, own_array(q), own_array(v))))
                result = expression.settled(self.cost(t, own_array(q), own_array(v), own_array(force)))
        return trace.graph(q_next=q_next, v_next=v_next, cost=result)

    def _graph(self, name: str, function: Callable[..., Any], forced: bool) -> Graph:
        """Return the graph of a function, (t, q, v, tau, numbers) -> cost; of one that takes tau if it is `forced`."""
        m, trace = self.model, Trace(name)
        state = [trace.input("t"), trace.input("q", (m.nq,)), trace.input("v", (m.nv,))]
        tau, numbers = trace.input("tau", (m.nv,)), m.given_inputs(trace)
        with expression.values(numbers):
            if forced and self.given.controller is not None:
                tau = np.asarray(expression.settled(self.given.controller(state[0], *map(own_array, state[1:]))))
            seen = [own_array(x) if np.ndim(x) else x for x in (*state, *([tau] if forced else []))]
            result = expression.settled(function(*seen))
        return trace.graph(cost=result)

    def _backward(self, plan: LoopPlan | None) -> Iteration:
        """Return the loop back: a row is the state at the beginning of a step, and the record what the cost has by its joint forces."""
        m = self.model
        adjoint = adjoint_graph(self._step(plan), ["q", "v", "tau", *m.varied], self.charts)
        total = sum(self.sizes.values())
        trace = Trace("backward")
        state = trace.input("state", (3 + 2 * m.nv + total,))
        row, constants = trace.input("row", (1 + m.nq + 2 * m.nv,)), trace.input("constants", (max(total, 1),))
        by_q, by_v, own = np.split(state[3:], [m.nv, 2 * m.nv])
        t, q, v, tau = row[0], row[1 : 1 + m.nq], row[1 + m.nq : 1 + m.nq + m.nv], row[1 + m.nq + m.nv :]
        numbers = np.split(constants[:total], np.cumsum(list(self.sizes.values()))[:-1]) if total else []
        found = trace.call(Subgraph(adjoint), t, q, v, tau, *numbers, by_q, by_v, 1.0)
        grown = own + np.concatenate([np.ravel(x) for x in found[3:]]) if total else own
        after = np.concatenate([[0.0, state[1] + 1.0, state[2] + 1.0], found[0], found[1], grown])
        return Iteration(trace.graph(state=after, record=found[2]))

    # passes

    def run(self) -> RolloutGradient:
        """Return costs and gradients of all trajectories in one row, and the motion if it is kept."""
        given, m = self.given, self.model
        count, width = len(given.q), m.nq + m.nv
        length = given.steps if count * given.steps * width <= _STORED else max(1, math.isqrt(given.steps))
        begins = list(range(0, given.steps, length))
        q, v = given.q, given.v
        stored, value = [], np.zeros(count)
        segment = None
        for k in begins:
            stored.append((q, v))
            segment = self._forward(q, v, k, min(k + length, given.steps))
            value += self._running(segment, k)
            q, v = segment.q[:, -1], segment.v[:, -1]
        adjoint = np.zeros((count, 3 + 2 * m.nv + sum(self.sizes.values())))
        if self.final is not None:
            kernel = self._kernel(1)
            end = (given.start + given.steps * given.step, q, v, np.zeros(m.nv), *given.given())
            value += kernel(*end)
            found = kernel.vjp(["q", "v", *m.varied])(*end, 1.0)
            adjoint[:, 3:] = np.concatenate([np.broadcast_to(x, (count, *x.shape[1:])).reshape(count, -1) for x in found], axis=1)
        forces = None if given.controller is not None or given.table is None else np.empty((count, given.steps, m.nv))
        for k, (q, v) in reversed(list(zip(begins, stored, strict=True))):
            if segment is None:
                segment = self._forward(q, v, k, min(k + length, given.steps))
            record = self._back(segment, k, adjoint)
            if forces is not None:
                forces[:, k : k + record.shape[1]] = record[:, ::-1]
            segment = segment if len(begins) == 1 else None
        controls = None if forces is None or given.table is None else self._held(forces)
        parts = np.split(adjoint[:, 3 + 2 * m.nv :], np.cumsum(list(self.sizes.values()))[:-1], axis=1) if self.sizes else []
        known = m.parameters() if self.sizes else {}
        numbers = {path: x.reshape(count, *known[path].shape) for path, x in zip(self.sizes, parts, strict=True)}
        by_q, by_v = adjoint[:, 3 : 3 + m.nv], adjoint[:, 3 + m.nv : 3 + 2 * m.nv]
        return RolloutGradient(value, by_q, by_v, controls, numbers, segment)

    def _held(self, forces: np.ndarray) -> np.ndarray:
        """Return gradients by rows of the table, each held over several steps: (N, rows, nv)."""
        table = self.given.table
        assert table is not None
        return forces.reshape(len(forces), table.shape[1], -1, forces.shape[-1]).sum(axis=2)

    def _controls(self, first: int, last: int) -> np.ndarray:
        """Return joint forces (N or 1, steps, nv) of some steps."""
        table = self.given.table
        if table is None:
            return np.zeros((1, last - first, self.model.nv))
        since = self.given.steps // table.shape[1]
        return table[:, np.arange(first, last) // since]

    def _forward(self, q: np.ndarray, v: np.ndarray, first: int, last: int) -> Rollout:
        given = self.given
        if (first, last) == (0, given.steps):
            return given.run(self.threads)
        controls = given.controller or (None if given.table is None else self._controls(first, last))
        numbers = dict(zip(given.parameters, given.given(), strict=True))
        part = RolloutSettings.of(
            self.model.frozen(), q, v, controls, given.step, last - first, 1, given.start + first * given.step, given.integrator,
            given.method, numbers,
        )  # fmt: skip
        return part.run(self.threads)

    def _running(self, segment: Rollout, first: int) -> np.ndarray:
        if self.cost is None:
            return np.zeros(len(segment.q))
        t = (self.given.start + (first + np.arange(segment.q.shape[1] - 1)) * self.given.step)[None]
        numbers = [x[:, None] for x in self.given.given()]
        forces = self._controls(first, first + t.shape[1])
        return self._kernel(0)(t, segment.q[:, :-1], segment.v[:, :-1], forces, *numbers).sum(axis=1)

    def _kernel(self, i: int) -> Kernel:
        graph = self._functions[i]
        assert graph is not None
        return self._once(graph.name, None, lambda: compile_graph(graph, charts=self.charts))

    def _back(self, segment: Rollout, first: int, adjoint: np.ndarray) -> np.ndarray:
        """Take adjoints from the end of a segment to its beginning, in place; and return the records, the last step first."""
        given, m, count = self.given, self.model, len(adjoint)
        length = segment.q.shape[1] - 1
        forces = np.broadcast_to(self._controls(first, first + length), (count, length, m.nv))
        t = np.broadcast_to((given.start + (first + np.arange(length)) * given.step)[None, :, None], (count, length, 1))
        table = np.concatenate([t, segment.q[:, :-1], segment.v[:, :-1], forces], axis=2)[:, ::-1]
        constants = np.zeros((count, max(sum(self.sizes.values()), 1)))
        if self.sizes:
            constants[:] = np.concatenate([np.broadcast_to(x, (count, *x.shape[1:])).reshape(count, -1) for x in given.given()], axis=1)
        record = np.empty((count, length, m.nv))
        adjoint[:, :3] = 0.0
        for plan, which in self._plans(segment, t):
            iteration = self._once("backward", plan, partial(self._backward, plan))
            state = np.ascontiguousarray(adjoint[which])
            own = np.empty((len(which), length, m.nv))
            iteration.run(state, np.ascontiguousarray(table[which]), constants[which], own, length)
            adjoint[which], record[which] = state, own
        return record

    def _once(self, name: str, plan: LoopPlan | None, make: Callable[[], Any]) -> Any:
        """Return what is compiled, from an earlier call whose functions compute the same."""
        return self.model.once(name, (*self._functions, self.given.integrator, self.system.method, self.given.step, plan), make)

    @cached_property
    def _functions(self) -> tuple[Graph | None, ...]:
        functions = (("cost", self.cost, True), ("final cost", self.final, False), ("controller", self.given.controller, False))
        return tuple(None if function is None else self._graph(name, function, forced) for name, function, forced in functions)

    def _plans(self, segment: Rollout, t: np.ndarray) -> list[tuple[LoopPlan | None, np.ndarray]]:
        """Return the trajectories by the plan of their loops: the generic one where it serves all the way, and pivots elsewhere."""
        every = np.arange(len(segment.q))
        if not self.model.has_loops:
            return [(None, every)]
        library = self.system.plans
        generic = library.generic
        if generic.loop_plan.plan is None:
            return [(generic.loop_plan, every)]
        own = [x[:, None] for x in self.given.given()]
        times = np.concatenate([t[:, :, 0], t[:, -1:, 0] + self.given.step], axis=1)
        serves = (library.conditioning_of(generic.loop_plan, times, segment.q, own) >= generic.limit).all(axis=1)
        pivots = library.pivoted(self.given.start, self.given.q[0], generic.loop_plan.rank).loop_plan
        return [(plan, which) for plan, which in ((generic.loop_plan, every[serves]), (pivots, every[~serves])) if len(which)]
