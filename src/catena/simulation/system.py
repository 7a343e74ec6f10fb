"""A mechanism ready to be integrated: its steps, and the compiled pieces of a run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from catena.formulations.force_slopes import anchored_bodies, link_count
from catena.formulations.step_laws import one_sided, pair_count
from catena.graph import Graph, Subgraph, Trace, where
from catena.graph.differentiated import jacobian_graph
from catena.kernels.kinematics import jacobian
from catena.kernels.methods import solution
from catena.kernels.tracing import charts
from catena.loops.plan_library import PlanLibrary
from catena.loops.projection import LoopPlan, LoopSolver
from catena.model import Mechanism
from catena.model.forces import Applied, PointForce
from catena.model.parameters import entry_of
from catena.model.simple_joints import with_simple_joints
from catena.model.user_functions import python, traced
from catena.native import Iteration, Kernel, compile_graph
from catena.scalars import expression
from catena.simulation.flows import EVALUATIONS, READS, Flow, TracedFlow
from catena.simulation.inputs import Function, Input
from catena.simulation.integrators.flow import Part
from catena.simulation.integrators.steps import Integrator
from catena.simulation.stepping import Counted, Layout, Stepping, Timed, attempt

Array = Any


class System:
    """A mechanism ready to be integrated: its problem, and the compiled pieces of a run."""

    def __init__(
        self,
        model: Mechanism,
        integrator: Integrator,
        method: str,
        input_: Input,
        adaptive: bool = False,
        events: Sequence[Function] = (),
        clock: type[Timed] | type[Counted] = Timed,
        in_python: bool = False,
        stop: Function | None = None,
        observe: Function | None = None,
    ) -> None:
        self.model, self.integrator, self.input, self.events = model, integrator, input_, tuple(events)
        self.method, _, self.solve, self.references = solution("forward_dynamics", method, model, traced=True)
        self.plans = PlanLibrary(model, self.method)
        self.loop_solver: LoopSolver | None = None
        self._made: dict[Any, Any] = {}
        self._in_python = in_python
        self._settings = (clock.__name__, integrator.name, integrator.step, self.method, adaptive, tuple(input_.row.sizes))
        # the longest offset of a joint or a centre of mass [m]
        size = max(float(np.abs(x).max()) for link in model.links for x in (link.at.p, np.array(link.body.com))) or 1.0
        lengths = tuple(size if unit == "m/s" else 1.0 for unit in model.v_units)
        constant = {"tau": model.nv} if clock is Timed else {}
        varied = {entry_of(path): model.parameters()[path].value.size for path in model.varied}
        constant |= {name: size for name, size in varied.items() if name not in input_.row.sizes}
        self.observed_shape = () if observe is None else self._traced(observe).outputs[0].shape
        self.stepping = Stepping(
            model.nq, model.nv, integrator, adaptive, clock, input_.row, constant, lengths, self.events, model.has_loops, stop, observe,
            math.prod(self.observed_shape), approaches=adaptive and self.one_sided > 0,
        )  # fmt: skip

    def use(self, loop_plan: LoopPlan) -> None:
        """Solve the loops by a plan from here on; what is compiled is compiled for it."""
        self.loop_solver = LoopSolver(self.model, self.method, loop_plan)
        self.solve = self.loop_solver.forward_dynamics

    def _once(self, name: Any, make: Callable[[], Any], reads: tuple[str, ...] | None = None) -> Any:
        """Return what is made for a plan of the loops, from an earlier call, or an earlier run whose functions compute the same.

        It depends on the method, the functions of the model, and what it `reads` of the system; on all that there is without it.
        """
        plan = self.loop_solver.loop_plan if self.loop_solver else None
        if (name, plan) not in self._made:
            read = (self._settings, self._functions) if reads is None else tuple(getattr(self, one) for one in reads)
            self._made[name, plan] = self.model.once("run", (name, plan, self.method, self.model_functions, *read), make)
        return self._made[name, plan]

    @cached_property
    def model_functions(self) -> tuple[tuple[Graph, ...], ...]:
        """What the functions of the model compute, as values to compare: those of forces, of driven joints, and of forces at points."""
        m = self.model
        motions = [lambda t, q, v: np.concatenate([np.zeros(0), *(given.q for given in m.driven_motion(t))])]
        applied, driven = (tuple(map(self._traced, x)) for x in ([force.function for force in m.forces if force.traced], motions))
        return applied, driven, tuple(map(self._traced_point_force, m.point_forces))

    @cached_property
    def _functions(self) -> tuple[Any, ...]:
        """What the controller, the events and other functions of a run compute; in Python, these are called."""
        stop, observe = self.stepping.stop, self.stepping.observe
        stops = None if stop is None else self._traced(lambda t, q, v: where(stop(t, q, v), 1.0, 0.0))
        observed = None if observe is None else self._traced(observe)
        return self.controls, () if self._in_python else tuple(map(self._traced, self.events)), stops, observed

    @cached_property
    def controls(self) -> Graph | None:
        """What the controller computes; None where there is none, or Python calls it."""
        controller = self.input.controller
        return None if controller is None or isinstance(controller, python) else self._traced(controller)

    @property
    def servos(self) -> Graph | None:
        """What the controller computes where it acts by actuators, whose slopes then depend on it."""
        return None if self.input.servos is None else self.controls

    @property
    def adaptive(self) -> bool:
        """Whether steps adapt to the tolerances."""
        return self.stepping.adaptive

    @property
    def responds(self) -> bool:
        """Whether joint forces change with the state: by a controller, or by forces that are called from Python."""
        return self.input.controller is not None or bool(self.called)

    def _traced_point_force(self, force: PointForce) -> Graph:
        trace = Trace("function")
        inputs = [trace.input(name, () if size is None else (size,)) for name, size in force.role.arguments.items()]
        with expression.values(self._given_inputs(trace)):
            return trace.graph(value=force.value(*inputs))

    def _traced(self, function: Function) -> Graph:
        return traced(function, self.model.nq, self.model.nv, self._given_inputs)

    def _given_inputs(self, trace: Trace) -> dict[str, Any]:
        return self.model.given_inputs(trace, entry_of)

    def subgraph(self, name: str) -> Subgraph:
        """Return an evaluation as a subgraph, whose code is the same in all stages of a step and in all that is compiled for a run."""
        return self._once(name, lambda: Subgraph(self._graph(name), self._quick), READS[name])

    def kernel(self, name: str) -> Kernel:
        make = partial(compile_graph, self.subgraph(name).graph, method=self.method, quick=self._quick)
        return self._once(f"{name} kernel", make, READS[name])

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return the names of the results of an evaluation."""
        return tuple(port.name for port in self.subgraph(name).graph.outputs)

    def _graph(self, name: str) -> Graph:
        assert self.loop_solver is not None or not self.model.has_loops, "the plan of the loops must be chosen first"
        m = self.model
        if name == "controller":  # its derivatives by q and v
            assert self.controls is not None
            return jacobian_graph(self.controls, ["value"], ["q", "v"], charts(m))
        if name == "gradients":  # of the accelerations by q, v and joint forces that change with these
            wrt = ["q", "v", *(["tau"] if self.responds else [])]
            return jacobian_graph(self.subgraph("accelerations").graph, ["vdot"], wrt, charts(m))
        function, inputs = EVALUATIONS[name]
        trace = Trace(name)
        t, *arguments = self._inputs(trace, ("t", "q", *inputs))
        numbers = self._given_inputs(trace)
        with expression.values(numbers):
            return trace.graph(**function(self, self.model.tree_with(numbers).traced(trace).at(t), t, *arguments))

    def part(self, part: Part, arguments: Sequence[Any], row: dict[str, Any], constants: dict[str, Any], derived: bool = False) -> Subgraph:
        """Return a part of a step as a subgraph, or the derivative of its first result by its last argument.

        Its inputs are the arguments, and then what the flow is of that it is a part of: a row of the table, and constants.
        """
        groups = ({f"x{i}": x for i, x in enumerate(arguments)}, row, constants)
        shapes = tuple(tuple((name, np.shape(x)) for name, x in group.items()) for group in groups)

        def make() -> Subgraph:
            trace = Trace("part")
            given, *numbers = ({name: trace.input(f"{i}.{name}", shape) for name, shape in group} for i, group in enumerate(shapes))
            results = part(TracedFlow(self, trace, *numbers), *given.values())
            graph = trace.graph(**{f"y{i}": y for i, y in enumerate(results)})
            return Subgraph(jacobian_graph(graph, ["y0"], [f"0.x{len(given) - 1}"], {}) if derived else graph, self._quick)

        return self._once((part, shapes, derived), make)

    @cached_property
    def recursive(self) -> bool:
        """Whether derivatives come from a recursion of their own: for trees."""
        return not self.model.has_loops and with_simple_joints(self.model.tree()) is not None

    def _inputs(self, trace: Trace, names: Sequence[str]) -> list[Any]:
        """Return inputs of a trace by name; None for slopes that the mechanism does not have."""
        shapes = {"t": (), "h": (), "near": (), "q": (self.model.nq,), **self.slope_shapes}
        count = self.one_sided if self.looks_ahead else 0
        shapes |= {"law": (count, 4), **dict.fromkeys(("here", "ahead", "deepest", "deeper", "passing"), (count,))}
        shapes["separations"] = (pair_count(self.model.tree()), 3)
        found = ((name, shapes.get(name, (self.model.nv,))) for name in names)
        return [None if 0 in shape else trace.input(name, shape) for name, shape in found]

    @cached_property
    def slope_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the slopes of anchored bodies, and of links between bodies; none has entries where there are none."""
        tree = self.model.tree()
        links = link_count(tree)
        held = len(anchored_bodies(tree))
        return {"bodies": (held, 2, 6, 6), "added": (held, 6, 6), "along": (3 * links, tree.nv), "links": (links, 2, 3, 3)}

    @cached_property
    def one_sided(self) -> int:
        """The number of forces that push only beyond a limit."""
        return one_sided(self.model.tree())

    @cached_property
    def looks_ahead(self) -> bool:
        """Whether steps look ahead for the stops and contacts that they enter: fixed ones that are implicit in these."""
        tableau = self.integrator.tableau
        return bool(self.one_sided and tableau is not None and tableau.w and not self.stepping.adaptive)

    @property
    def _quick(self) -> bool:
        """Whether the loops are solved by pivots, which is seldom: code that is quick to make will do."""
        return self.loop_solver is not None and self.loop_solver.loop_plan.plan is None

    def iteration(self) -> Iteration:
        """Return the run as a loop in machine code."""
        return self._once("iteration", self._iteration)

    def _iteration(self) -> Iteration:
        started = time.perf_counter()
        trace = Trace("steps")
        arguments = [trace.input(name, (layout.size,)) for name, layout in self._arguments()]
        state, record = attempt(self.stepping, lambda row, constants: TracedFlow(self, trace, row, constants), *arguments)
        graph = trace.graph(state=state, record=record)
        return Iteration(graph, time.perf_counter() - started)

    def python_flow(self, row: Array, constants: Array) -> Flow:
        return Flow(self, self.stepping.row.split(row), self.stepping.constants.split(constants))

    def python_attempt(self) -> Callable[..., tuple[Array, Array]]:
        """Return the attempt at a step as a function of floats, for what must be called from Python."""
        return lambda *arguments: attempt(self.stepping, lambda row, constants: Flow(self, row, constants), *arguments)

    @cached_property
    def called(self) -> tuple[tuple[Applied, Kernel | None], ...]:
        """The forces that are called from Python, with the Jacobian of the point they act on."""
        return tuple((f, None if f.body is None else jacobian(self.model, f.body, f.point)) for f in self.model.python_forces)

    def start(self) -> Kernel:
        """Return the kernel (t, q, v, row, constants) -> acceleration, force, event functions."""

        def function(flow: TracedFlow, t: Any, q: Array, v: Array) -> dict[str, Any]:
            return {"a": flow.acceleration(t, q, v), "tau": flow.force(t, q, v), "g": [g(t, q, v) for g in self.events]}

        return self._once("start", lambda: self._kernel("start", ("t", "q", "v"), function))

    def first(self) -> Kernel:
        """Return the kernel (t, q, v, row, constants) -> whether a trajectory stops there, and what is observed of it, if anything is."""

        def function(flow: TracedFlow, t: Any, q: Array, v: Array) -> dict[str, Any]:
            stop, observe = self.stepping.stop, self.stepping.observe
            stops = 0.0 if stop is None else where(flow.value(stop, t, q, v), 1.0, 0.0)
            return {"stops": stops, "observed": [] if observe is None else np.ravel(flow.value(observe, t, q, v))}

        return self._once("first", lambda: self._kernel("first", ("t", "q", "v"), function))

    def step(self) -> Kernel:
        """Return the kernel (t, q, v, a, h, row, constants) -> q, v: one step of any size; with loops also the conditioning of
        the plan, and q, v before they were put on the constraints.
        """

        def function(flow: TracedFlow, t: Any, q: Array, v: Array, a: Array, h: Any) -> dict[str, Any]:
            step = self.integrator.advance(flow, t, q, v, a, h)
            results = {"q": step.q, "v": step.v}
            if step.free is not None:
                results |= {"conditioning": step.conditioning, "q_free": step.free[0], "v_free": step.free[1]}
            return results

        return self._once("step", lambda: self._kernel("step", ("t", "q", "v", "a", "h"), function))

    def _arguments(self) -> tuple[tuple[str, Layout], ...]:
        return (("state", self.stepping.state), ("row", self.stepping.row), ("constants", self.stepping.constants))

    def _kernel(self, name: str, inputs: tuple[str, ...], function: Callable[..., dict[str, Any]]) -> Kernel:
        trace = Trace(name)
        arguments = self._inputs(trace, inputs)
        row, constants = (trace.input(name, (layout.size,)) for name, layout in self._arguments()[1:])
        flow = TracedFlow(self, trace, self.stepping.row.split(row), self.stepping.constants.split(constants))
        return compile_graph(trace.graph(**function(flow, *arguments)), method=self.method, quick=True)
