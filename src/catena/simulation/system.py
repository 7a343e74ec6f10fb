"""What a run integrates: a model under forces that are constant, given over time, computed by a controller, or called from Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from catena.errors import ArgumentError, TraceError
from catena.formulations.joint_forces import passive_slopes
from catena.formulations.linear import articulated_body, canonical_momenta
from catena.formulations.mass.composite_body import mass_matrix
from catena.graph import Graph, Trace
from catena.kept import kept
from catena.kernels import jacobian
from catena.model import Model, Tree
from catena.model.forces import Applied, python
from catena.native import Iteration, Kernel, compile_graph
from catena.registry import solution
from catena.simulation.arguments import floats
from catena.simulation.closing import Closing, Hold, Loops, lasting, projection_graph
from catena.simulation.iteration import Layout, Problem, attempt
from catena.simulation.steps import Integrator
from catena.tracing import acting_forces

Array = Any
Function = Callable[[Any, Array, Array], Any]

_REMEDY = (
    "write it with NumPy's functions and catena.where instead of `if`, float() and math, or mark it ct.python(function), "
    "to be called step by step"
)

_JOINT_FORCES = "give joint forces, or a pair (times, values)"

#: Evaluations of the dynamics of more nodes than this are traced once, body by body, and included as they are for every stage of a step:
#: their code is then the same for all. Smaller ones take little time to compile, and share values with what is around them.
INCLUDED = 3000


class Input:
    """The joint forces that are put in: none, constant, over time, or by a controller."""

    def __init__(self, model: Model, tau: Any, controller: Any) -> None:
        self.model = model
        self.controller: Function | None = None
        self.times, self.values, self.constant = None, None, np.zeros(model.nv)
        if tau is not None and controller is not None:
            raise ArgumentError("both tau and controller are given; give one of them, and add a constant inside the controller")
        if callable(controller):
            self.controller = controller
        elif controller is not None:
            raise ArgumentError(f"controller {controller!r} is not a function; give a function (t, q, v) -> tau, or forces as tau=")
        elif isinstance(tau, tuple) and len(tau) == 2 and np.ndim(tau[0]) == 1 and np.ndim(tau[1]) == 2:
            self.times, self.values = (floats("tau", part, _JOINT_FORCES) for part in tau)
            self._check_table()
        elif tau is not None:
            self.constant = floats("tau", tau, _JOINT_FORCES)
            if self.constant.shape != (model.nv,) or not np.isfinite(self.constant).all():
                raise ArgumentError(
                    f"tau has shape {self.constant.shape}; give {model.nv} finite joint forces, or a pair (times, values) "
                    f"of shapes (K,) and (K, {model.nv})"
                )

    def _check_table(self) -> None:
        if self.times is None or self.values is None:
            return
        if self.values.shape != (len(self.times), self.model.nv) or len(self.times) < 2:
            raise ArgumentError(
                f"tau over time has shapes {self.times.shape} and {self.values.shape}; give K >= 2 times and (K, {self.model.nv}) values"
            )
        if not (np.isfinite(self.times).all() and np.isfinite(self.values).all() and (np.diff(self.times) > 0.0).all()):
            raise ArgumentError("tau over time needs finite values at times that increase; sort the times and remove what is not finite")

    @property
    def acts(self) -> bool:
        """Whether any joint force is put in."""
        return self.controller is not None or self.times is not None or bool(self.constant.any())

    @property
    def in_python(self) -> bool:
        """Whether something must be called from Python at every step."""
        return isinstance(self.controller, python) or bool(self.model.python_forces)

    @property
    def row(self) -> Layout:
        """Entries of a row of the table: a piece of the input over time."""
        return Layout({} if self.times is None else {"t_start": 1, "t_next": 1, "first": self.model.nv, "slope": self.model.nv})

    def table(self, start: float, until: float) -> np.ndarray:
        """Return the rows of the table from a time on, (1, rows, entries)."""
        if self.times is None or self.values is None:
            return np.zeros((1, 1, 0))
        if start < self.times[0] or until > self.times[-1]:
            raise ArgumentError(
                f"tau is given from {self.times[0]:g} s to {self.times[-1]:g} s, but the run goes from {start:g} s to {until:g} s; "
                "give it over the whole run"
            )
        rows = []
        for i in range(len(self.times) - 1):
            if self.times[i + 1] > start:
                slope = (self.values[i + 1] - self.values[i]) / (self.times[i + 1] - self.times[i])
                rows.append([self.times[i], self.times[i + 1], *self.values[i], *slope])
        return np.array(rows)[None]

    def force(self, t: Any, q: Array, v: Array, row: dict[str, Any], constants: dict[str, Any]) -> Array:
        """Return the joint forces put in at a time and state."""
        if self.controller is not None:
            force = np.asarray(self.controller(t, np.array(q), np.array(v)))  # copies, which the controller may write to
            if force.shape != (self.model.nv,):
                raise ArgumentError(f"controller returned shape {force.shape}; return {self.model.nv} joint forces, one per entry of v")
            return force
        if self.times is not None:
            return row["first"] + (t - row["t_start"][0]) * row["slope"]
        return constants["tau"]


class Traced:
    """The flow of a mechanism in traced scalars, for one row of the table and set of constants."""

    def __init__(self, system: System, trace: Trace, tree: Tree, row: dict[str, Any], constants: dict[str, Any]) -> None:
        self.model, self._system, self._row, self._constants = system.model, system, row, constants
        self._trace, self._tree = trace, tree
        self.mark = tree.mark

    def force(self, t: Any, q: Array, v: Array) -> Array:
        return self._system.input.force(t, q, v, self._row, self._constants)

    def acceleration(self, t: Any, q: Array, v: Array) -> Array:
        return self.under(t, q, v, self.force(t, q, v))

    def under(self, t: Any, q: Array, v: Array, tau: Array) -> Array:
        """Return the acceleration under joint forces."""
        graph = self._system.accelerations
        if len(graph.nodes) > INCLUDED:
            return self._trace.include(graph, t, q, v, tau)[0]
        return self._system.under(self._tree, t, q, v, tau)

    def momenta(self, t: Any, q: Array, v: Array) -> tuple[Array, Array]:
        return self.momenta_under(t, q, v, self.force(t, q, v))

    def momenta_under(self, t: Any, q: Array, v: Array, tau: Array) -> tuple[Array, Array]:
        """Return the momenta and their rates under joint forces."""
        tree = self._tree.at(t)
        force, wrenches = acting_forces(tree, t, q, v)
        return canonical_momenta.momentum_rates(tree, q, v, tau + force, wrenches)

    def velocities(self, t: Any, q: Array, p: Array) -> Array:
        return canonical_momenta.velocities(self._tree.at(t).resting(), q, p)

    def mass(self, t: Any, q: Array) -> Array:
        return mass_matrix(self._tree.at(t), q)

    def slopes(self, t: Any, q: Array, v: Array, h: Any) -> tuple[Array, Array]:
        m = self.model
        ahead = None if self._system.problem.adaptive else m.chart(q, h * m.chart_rate(q, np.zeros(m.nv), v))
        return passive_slopes(self._tree.at(t), q, v, ahead)

    def eased(self, t: Any, q: Array, armature: Array, force: Array) -> Array:
        tree = self._tree.at(t).resting().weightless()
        tree = replace(tree, armature=tree.armature + armature)
        closing = self._system.closing
        solve = articulated_body.forward_dynamics if closing is None else closing.forward_dynamics
        return solve(tree, q, np.zeros(tree.nv), force, None)

    def project(self, t: Any, q: Array, v: Array) -> tuple[Array, Array, Any] | None:
        closing = self._system.closing
        if closing is None:
            return None
        graph = projection_graph(self.model, closing.method, closing.hold)
        large = len(graph.nodes) > INCLUDED
        q, v, *held = self._trace.include(graph, t, q, v) if large else closing.project(self._tree.at(t), q, v)
        return q, v, lasting(*held)


class _Called:
    """The flow of a mechanism in floats, which calls the controller and the marked forces from Python."""

    def __init__(self, system: System, row: dict[str, Any], constants: dict[str, Any]) -> None:
        self.model, self._system, self._row, self._constants = system.model, system, row, constants

    def mark(self) -> None:
        """Nothing is traced."""

    def force(self, t: Any, q: Array, v: Array) -> Array:
        q, v = np.asarray(q, dtype=float), np.asarray(v, dtype=float)
        force = np.asarray(self._system.input.force(float(t), q, v, self._row, self._constants), dtype=float)
        return force

    def acceleration(self, t: Any, q: Array, v: Array) -> Array:
        return self._system.dynamics(*self._under(t, q, v))

    def _under(self, t: Any, q: Array, v: Array) -> tuple[float, Array, Array, Array]:
        """Return time and state as floats, with the joint forces of all that is called."""
        q, v = np.asarray(q, dtype=float), np.asarray(v, dtype=float)
        tau = self.force(t, q, v)
        for applied, kernel in self._system.called:
            value = np.asarray(applied.value(self.model.nv, float(t), q, v), dtype=float)
            tau = tau + (value if kernel is None else kernel(*((t, q) if self.model.driven_names else (q,))).T @ value)
        return float(t), q, v, tau

    def momenta(self, t: Any, q: Array, v: Array) -> tuple[Array, Array]:
        return self._system.momenta(*self._under(t, q, v))

    def velocities(self, t: Any, q: Array, p: Array) -> Array:
        return self._system.velocities(float(t), np.asarray(q, dtype=float), np.asarray(p, dtype=float))

    def mass(self, t: Any, q: Array) -> Array:
        return self._system.mass(t, np.asarray(q, dtype=float))

    def slopes(self, t: Any, q: Array, v: Array, h: Any) -> tuple[Array, Array]:
        return self._system.slopes(float(t), np.asarray(q, dtype=float), np.asarray(v, dtype=float), float(h))

    def eased(self, t: Any, q: Array, armature: Array, force: Array) -> Array:
        return self._system.eased(float(t), *(np.asarray(x, dtype=float) for x in (q, armature, force)))

    def project(self, t: Any, q: Array, v: Array) -> tuple[Array, Array, Any] | None:
        closing = self._system.closing
        if closing is None:
            return None
        q, v, *held = self._system.loops.projection(closing.hold)(t, np.asarray(q, dtype=float), np.asarray(v, dtype=float))
        return q, v, lasting(*held)


class System:
    """A mechanism ready to be integrated: its problem, and the compiled pieces of a run."""

    def __init__(
        self, model: Model, integrator: Integrator, method: str, input_: Input, adaptive: bool, events: Sequence[Function]
    ) -> None:
        self.model, self.integrator, self.input, self.events = model, integrator, input_, tuple(events)
        self.method, _, self.solve, self.references = solution("forward_dynamics", method, model, traced=True)
        self.loops = Loops(model, self.method)
        self.closing: Closing | None = None
        self._made: dict[Any, Any] = {}
        self._settings = (integrator.name, integrator.step, self.method, adaptive, input_.times is not None)
        scale = _size(model)
        self.problem = Problem(
            model.nq,
            model.nv,
            integrator,
            adaptive,
            input_.row,
            Layout({"tau": model.nv}),
            tuple(scale if unit == "m/s" else 1.0 for unit in model.v_units),
            self.events,
            model.has_loops,
        )

    def hold(self, hold: Hold) -> None:
        """Hold the loops so from here on; what is compiled is compiled for it."""
        self.closing = Closing(self.model, self.method, hold)
        self.solve = self.closing.forward_dynamics

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what is made for how the loops are held, from an earlier call if there was one."""
        key = (name, self.closing.hold if self.closing else None)
        if key not in self._made:
            self._made[key] = kept(self.model, "run", (*self._settings, *key), make) if self._plain else make()
        return self._made[key]

    @property
    def _plain(self) -> bool:
        """Whether nothing is compiled but the model's own parts, so that later runs can use it; functions are read anew for each."""
        m = self.model
        return self.input.controller is None and not (self.events or m.forces or m.driven_names)

    def under(self, tree: Tree, t: Any, q: Array, v: Array, tau: Array) -> Array:
        """Return the acceleration under joint forces, on any scalar."""
        tree = tree.at(t)
        force, wrenches = acting_forces(tree, t, q, v)
        return self.solve(tree, q, v, tau + force, wrenches)

    @property
    def accelerations(self) -> Graph:
        """The graph (t, q, v, tau) -> vdot, without the forces that are called from Python."""
        return self._once("accelerations", self._accelerations)

    def _accelerations(self) -> Graph:
        trace, tree = self._trace("dynamics")
        arguments = trace.input("t"), trace.input("q", (self.model.nq,)), trace.input("v", (self.model.nv,))
        return trace.graph(vdot=self.under(tree, *arguments, trace.input("tau", (self.model.nv,))))

    @property
    def _quick(self) -> bool:
        """Whether the loops are held by pivots, which is seldom: code that is quick to make will do."""
        return self.closing is not None and self.closing.hold.plan is None

    def iteration(self) -> Iteration:
        """Return the run as a loop in machine code."""
        return self._once("iteration", self._iteration)

    def _iteration(self) -> Iteration:
        started = time.perf_counter()
        trace, tree = self._trace("simulate")
        problem = self.problem
        arguments = [trace.input(name, (layout.size,)) for name, layout in self._arguments()]
        state, record = attempt(problem, lambda row, constants: Traced(self, trace, tree, row, constants), *arguments)
        graph = trace.graph(state=state, record=record)
        return Iteration(graph, time.perf_counter() - started, self._quick)

    def called_flow(self, row: Array, constants: Array) -> _Called:
        """Return the flow in floats."""
        return _Called(self, self.problem.row.split(row), self.problem.constants.split(constants))

    def called_iteration(self) -> Callable[..., tuple[Array, Array]]:
        """Return the attempt at a step as a function of floats, for what must be called from Python."""
        return lambda *arguments: attempt(self.problem, lambda row, constants: _Called(self, row, constants), *arguments)

    @cached_property
    def called(self) -> tuple[tuple[Applied, Kernel | None], ...]:
        """The forces that are called from Python, with the Jacobian of the point they act on."""
        return tuple((f, None if f.body is None else jacobian(self.model, f.body, f.point)) for f in self.model.python_forces)

    @property
    def dynamics(self) -> Kernel:
        """The kernel (t, q, v, tau) -> vdot, without the forces that are called from Python."""
        return self._once("dynamics", self._dynamics)

    def _dynamics(self) -> Kernel:
        return compile_graph(self.accelerations, method=self.method)

    @cached_property
    def momenta(self) -> Kernel:
        """The kernel (t, q, v, tau) -> p, pdot, without the forces that are called from Python."""
        trace, tree = self._trace("momenta")
        t, q = trace.input("t"), trace.input("q", (self.model.nq,))
        v, tau = trace.input("v", (self.model.nv,)), trace.input("tau", (self.model.nv,))
        p, pdot = Traced(self, trace, tree, {}, {}).momenta_under(t, q, v, tau)
        return compile_graph(trace.graph(p=p, pdot=pdot), method=self.method)

    @cached_property
    def velocities(self) -> Kernel:
        """The kernel (t, q, p) -> velocities that belong to canonical momenta, where nothing is driven."""
        trace, tree = self._trace("velocities")
        t, q, p = trace.input("t"), trace.input("q", (self.model.nq,)), trace.input("p", (self.model.nv,))
        return compile_graph(trace.graph(v=Traced(self, trace, tree, {}, {}).velocities(t, q, p)), method=self.method)

    @cached_property
    def slopes(self) -> Kernel:
        """The kernel (t, q, v, h) -> slopes of the passive forces, by positions and by velocities."""
        trace, tree = self._trace("slopes")
        t, q, v = trace.input("t"), trace.input("q", (self.model.nq,)), trace.input("v", (self.model.nv,))
        by_position, by_velocity = Traced(self, trace, tree, {}, {}).slopes(t, q, v, trace.input("h"))
        return compile_graph(trace.graph(by_position=by_position, by_velocity=by_velocity))

    @property
    def eased(self) -> Kernel:
        """The kernel (t, q, armature, force) -> accelerations from rest, with more armature."""

        def make() -> Kernel:
            trace, tree = self._trace("eased")
            t, q = trace.input("t"), trace.input("q", (self.model.nq,))
            armature, force = trace.input("armature", (self.model.nv,)), trace.input("force", (self.model.nv,))
            return compile_graph(trace.graph(vdot=Traced(self, trace, tree, {}, {}).eased(t, q, armature, force)))

        return self._once("eased", make)

    @cached_property
    def mass(self) -> Kernel:
        """The kernel (t, q) -> mass matrix."""
        trace, tree = self._trace("mass")
        t, q = trace.input("t"), trace.input("q", (self.model.nq,))
        return compile_graph(trace.graph(mass=mass_matrix(tree.at(t), q)))

    def start(self) -> Kernel:
        """Return the kernel (t, q, v, row, constants) -> acceleration, force, event functions."""

        def function(flow: Traced, t: Any, q: Array, v: Array) -> dict[str, Any]:
            return {"a": flow.acceleration(t, q, v), "tau": flow.force(t, q, v), "g": [g(t, q, v) for g in self.events]}

        return self._once("start", lambda: self._kernel("start", ("t", "q", "v"), function, quick=True))

    def step(self) -> Kernel:
        """Return the kernel (t, q, v, a, h, row, constants) -> q, v: one step of any size; with loops also the strength of the constraints,
        and q, v before these put them on the loops.
        """

        def function(flow: Traced, t: Any, q: Array, v: Array, a: Array, h: Any) -> dict[str, Any]:
            step = self.integrator.advance(flow, t, q, v, a, h)
            found = {"q": step.q, "v": step.v}
            return found if step.free is None else found | {"strength": step.strength, "q_free": step.free[0], "v_free": step.free[1]}

        return self._once("step", lambda: self._kernel("step", ("t", "q", "v", "a", "h"), function, quick=True))

    def _arguments(self) -> tuple[tuple[str, Layout], ...]:
        return (("state", self.problem.state), ("row", self.problem.row), ("constants", self.problem.constants))

    def _trace(self, name: str) -> tuple[Trace, Tree]:
        assert self.closing is not None or not self.model.has_loops, "the constraints of the loops must be chosen first"
        trace = Trace(name)
        return trace, self.model.tree().traced(trace)

    def _kernel(self, name: str, inputs: tuple[str, ...], function: Callable[..., dict[str, Any]], quick: bool = False) -> Kernel:
        trace, tree = self._trace(name)
        shapes = {"t": (), "h": (), "q": (self.model.nq,)}
        arguments = [trace.input(i, shapes.get(i, (self.model.nv,))) for i in inputs]
        row, constants = (trace.input(name, (layout.size,)) for name, layout in self._arguments()[1:])
        flow = Traced(self, trace, tree, self.problem.row.split(row), self.problem.constants.split(constants))
        return compile_graph(trace.graph(**function(flow, *arguments)), method=self.method, quick=quick or self._quick)


def check_traceable(
    what: str, function: Function, nq: int, nv: int, shape: tuple[int, ...] | None = None, wanted: str = "another one"
) -> None:
    """Refuse a function of (t, q, v) that cannot be traced or returns another shape, with the reason and the remedy."""
    trace = Trace(what)
    t, q, v = trace.input("t"), trace.input("q", (nq,)), trace.input("v", (nv,))
    try:
        graph = trace.graph(value=function(t, q, v))
    except Exception as error:
        reason = str(error).partition(";")[0] if isinstance(error, TraceError) else f"{type(error).__name__}: {error}"
        raise TraceError(f"{what} cannot be traced: {reason}; {_REMEDY}") from error
    if shape is not None and graph.outputs[0].shape != shape:
        raise ArgumentError(f"{what} returned an array of shape {graph.outputs[0].shape}; return {wanted}")


def _size(model: Model) -> float:
    """Return the size of a mechanism [m]: the longest offset of a joint or a centre of mass."""
    lengths = [float(np.abs(x).max()) for link in model.links for x in (link.at.p, np.array(link.body.com))]
    return max(lengths) or 1.0
