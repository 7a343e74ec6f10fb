"""A rollout as an iteration: one step of a fixed size, compiled and kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from catena.graph import Graph, Trace, where
from catena.kept import kept
from catena.model import Model, Tree
from catena.native import Iteration
from catena.simulation.closing import Hold
from catena.simulation.iteration import FINISHED, LOOKED, Layout, chosen, verdict
from catena.simulation.steps import Integrator
from catena.simulation.steps import integrator as integrator_of
from catena.simulation.system import INCLUDED, Function, Input, System, Traced

Array = Any


class Controls(Input):
    """The joint forces of a rollout: none, rows of a table that are held, or by a controller."""

    def __init__(self, model: Model, table: bool, controller: Function | None) -> None:
        super().__init__(model, None, controller)
        self._table = table

    @property
    def row(self) -> Layout:
        """Entries of a row of the table."""
        return Layout({"tau": self.model.nv} if self._table else {})

    def force(self, t: Any, q: Array, v: Array, row: dict[str, Any], constants: dict[str, Any]) -> Array:
        """Return the joint forces put in at a time and state."""
        if self.controller is not None:
            return super().force(t, q, v, row, constants)
        return row["tau"] if self._table else np.zeros(self.model.nv)


@dataclass(frozen=True)
class Loop:
    """A compiled rollout, and the names of the entries of its constants."""

    constants: Layout
    iteration: Iteration


def layout(m: Model) -> Layout:
    """Return the names of the entries of the state of a rollout."""
    sizes = {"done": 1, "row": 1, "table": 1, "count": 1, "q": m.nq, "v": m.nv}
    return Layout(sizes | {"limit": 1, "look": 1} if m.has_loops else sizes)


def _advance(
    integrator: Integrator, layouts: tuple[Layout, ...], flow_of: Callable[[dict], Traced], state: Array, row: Array, constants: Array
) -> tuple[Array, Array]:
    """Return the state after one step of a fixed size, and the sample at its end."""
    x, table, c = (layout.split(vector) for layout, vector in zip(layouts, (state, row, constants), strict=True))
    flow = flow_of(table)
    t, t1 = (c["anchor"] + count * c["step"] for count in (x["count"], x["count"] + 1.0))
    q, v = x["q"], x["v"]
    step = integrator.advance(flow, t, q, v, flow.acceleration(t, q, v), t1 - t)
    flow.mark()
    good, code = verdict(integrator, step, x.get("limit"))
    if "look" in x:
        code = where(good & (x["look"] <= 1.0), float(LOOKED), code)
    count = x["count"] + 1.0
    # a trajectory that fails keeps its last state: sines of what is not finite would slow its neighbours down
    new = {
        "done": where(good & (count >= c["steps"]), float(FINISHED), code),
        "row": where(good & (count >= (x["row"] + 1.0) * c["every"]), x["row"] + 1.0, x["row"]),
        "table": where(good & (count >= (x["table"] + 1.0) * c["since"]), x["table"] + 1.0, x["table"]),
        "count": where(good, count, x["count"]),
        "q": chosen(good, step.q, q),
        "v": chosen(good, step.v, v),
    }
    if "look" in x:
        new |= {"limit": x["limit"], "look": where(good, x["look"] - 1.0, x["look"])}
    return layouts[0].join(new), np.concatenate([step.q, step.v])


def fixed_steps(m: Model, integrator: str, method: str, table: bool, controller: Function | None, hold: Hold | None) -> Loop:
    """Return the compiled loop of rollouts, from an earlier call where the model and what its functions compute are the same.

    `hold` says how the loops of the model are held, if there are any.
    """
    functions = [force.function for force in m.forces] + ([] if controller is None else [controller])
    functions += [lambda t, q, v: np.concatenate([np.zeros(0), *(given.q for given in m._given(t))])]
    key = (integrator, method, table, controller is not None, hold, *(_traced(m, f) for f in functions))
    return kept(m, "rollout", key, lambda: _compiled(m, integrator_of(integrator, m), method, Controls(m, table, controller), hold))


def _traced(m: Model, function: Function) -> Graph:
    """Return what a function of (t, q, v) computes, as a value to compare."""
    trace = Trace("function")
    t, q, v = trace.input("t"), trace.input("q", (m.nq,)), trace.input("v", (m.nv,))
    return trace.graph(value=function(t, q, v))


def _compiled(m: Model, integrator: Integrator, method: str, controls: Controls, hold: Hold | None) -> Loop:
    started = time.perf_counter()
    system = System(m, integrator, method, controls, False, ())
    if hold is not None:
        system.hold(hold)
    trace, bodies = Trace("rollout"), []
    tree = m.tree().traced(trace, lambda: bodies.append(len(trace.nodes)))
    constants = Layout(dict.fromkeys(("anchor", "step", "every", "steps", "since"), 1))
    layouts = (layout(m), system.input.row, constants)
    arguments = [trace.input(name, (part.size,)) for name, part in zip(("state", "row", "constants"), layouts, strict=True)]
    after, sample = _advance(integrator, layouts, lambda row: _Staged(system, trace, tree, row), *arguments)
    marks = [0, *trace.marks, len(trace.nodes)]
    if max(b - a for a, b in pairwise(marks)) > INCLUDED:  # else one block of code a stage runs faster
        trace.marks = sorted({*trace.marks, *bodies})
    graph = trace.graph(state=after, record=sample)
    return Loop(constants, Iteration(graph, time.perf_counter() - started))


class _Staged(Traced):
    """The flow with marks around each evaluation of the dynamics, so that all stages of a step share its code."""

    def __init__(self, system: System, trace: Trace, tree: Tree, row: dict[str, Any]) -> None:
        super().__init__(system, trace, tree, row, {})
        self.mark = trace.mark

    def under(self, t: Any, q: Array, v: Array, tau: Array) -> Array:
        self.mark()
        vdot = super().under(t, q, v, tau)
        self.mark()
        return vdot

    def momenta_under(self, t: Any, q: Array, v: Array, tau: Array) -> tuple[Array, Array]:
        self.mark()
        momenta = super().momenta_under(t, q, v, tau)
        self.mark()
        return momenta

    def eased(self, t: Any, q: Array, armature: Array, force: Array) -> Array:
        self.mark()
        vdot = super().eased(t, q, armature, force)
        self.mark()
        return vdot

    def velocities(self, t: Any, q: Array, p: Array) -> Array:
        self.mark()
        v = super().velocities(t, q, p)
        self.mark()
        return v

    def project(self, t: Any, q: Array, v: Array) -> tuple[Array, Array, Any] | None:
        self.mark()
        projected = super().project(t, q, v)
        self.mark()
        return projected
