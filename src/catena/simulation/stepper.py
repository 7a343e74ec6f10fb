"""A step of an integrator as a kernel: from one state to the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from catena.errors import ArgumentError
from catena.formulations.loops.constraints import constraint_motion
from catena.formulations.loops.pivoted_constraints import generic_numbers, total
from catena.graph import Graph, Subgraph, Trace, maximum, where
from catena.kernels.planned import ConstrainedKernel
from catena.kernels.state_flags import SINGULAR, WEAK, closing_flags
from catena.kernels.tracing import Parameters, check_forces, graph_kernel
from catena.loops.conditioning import largest, opens
from catena.loops.mobility import generic
from catena.loops.plan_library import Selected, eliminated
from catena.loops.projection import Projected
from catena.loops.scaling import coordinate_units, loop_units
from catena.model import Mechanism, Tree
from catena.model.parameters import CONTROLS, entry_of
from catena.native import Kernel
from catena.simulation.arguments import count, flag, moving, positive
from catena.simulation.flows import TracedFlow
from catena.simulation.inputs import Controls
from catena.simulation.integrators.steps import integrator as integrator_of
from catena.simulation.loop_states import Settled, settling
from catena.simulation.rollout import chosen_integrator
from catena.simulation.stepping import Counted, verdict
from catena.simulation.system import System

Array = Any


def stepper(
    m: Mechanism,
    step: float,
    integrator: str = "auto",
    substeps: int = 1,
    method: str = "auto",
    wrenches: str | Sequence[str] = (),
    parameters: Parameters = (),
    controls: bool = False,
) -> Kernel | ConstrainedKernel:
    """Return the kernel (q, v, tau) -> (q, v): the state after a step of this size [s], made of so many equal steps of an integrator.

    It is one step of `ct.rollout`: forces, stops and loops are part of it, positions stay on their manifolds, and loops closed to rounding.
    Joint forces tau are held over the step. `integrator` and `method` are those of `ct.rollout`. Where `wrenches` names bodies, a further
    input `wrenches` (bodies, 6) has the moment [N m] and the force [N] at the origin of each, in the world's axes, held over the step; then
    come numbers of the model that `parameters` names. Both may be left out of a call. Where a force depends on time or a joint is driven,
    the kernel is (t, q, v, tau) -> (q, v), with the time at the beginning. States that leave a
    loop open, and velocities that open it, are refused; a state whose step fails is NaN. Derivatives by and of positions are along
    velocities.

    With `controls`, the kernel is (q, v, controls) -> (q, v): in place of joint forces it takes the controls of `m.actuators`, held over
    the step.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> move = ct.stepper(m, 1e-3)
    >>> q, v = np.array([0.5]), np.zeros(1)
    >>> for _ in range(1000):
    ...     q, v = move(q, v, [0.0])
    >>> q.round(4), v.round(4)
    (array([-0.4992]), array([-0.089]))
    >>> pushed = ct.stepper(m, 1e-3, wrenches="arm")
    >>> pushed([0.0], [0.0], [0.0], wrenches=[[0, 3.0, 0, 0, 0, 0]])[1].round(6)
    array([0.003])
    >>> m.add_actuator("servo", "arm", kp=30.0)
    >>> servo = ct.stepper(m, 1e-3, controls=True)
    >>> servo([0.0], [0.0], [0.1])[1].round(6)
    array([0.003])
    """
    controls = flag("stepper: controls", controls, "give True, and controls in each call")
    m = moving(m, "stepper").varying(parameters, "stepper", wrenches, controls)
    check_forces(m, "stepper")
    size = positive("stepper: step", step, "give a step size above 0, in seconds")
    substeps = count("stepper: substeps", substeps)
    name = chosen_integrator(m, integrator, size / substeps, "stepper")
    system = System(m, integrator_of(name, m), method, Controls(m, {"tau": m.nv}, None), clock=Counted)
    if not m.has_loops:
        return _kernel(system, size, substeps)
    first, (_, q) = system.plans.first(), generic(m)
    planned = _kernel(system, size, substeps, first, float(WEAK))
    spare = StepsByPivots(settling(m), {}, partial(_by_pivots, m, name, method, size, substeps))
    if first.loop_plan.plan is not None:
        spare.kernel(first.loop_plan.rank)  # before it is needed
    return ConstrainedKernel(m, planned, spare, q, "")


def _kernel(system: System, size: float, substeps: int, selected: Selected | None = None, weak: float = 0.0) -> Kernel:
    """Return the kernel of steps by a plan, where there are loops; `weak` is the flag of states that it does not serve."""
    m, started, loop_plan = system.model, time.perf_counter(), None if selected is None else selected.loop_plan
    if loop_plan is not None:
        system.use(loop_plan)
    graph = step_graph(system, size, substeps, None if selected is None else selected.limit, m.time_dependent, weak)
    made = f"{system.integrator.name}, {system.method}"
    quick = loop_plan is not None and loop_plan.plan is None
    return graph_kernel(m, graph, made, system.references, time.perf_counter() - started, quick=quick)


def _by_pivots(m: Mechanism, integrator: str, method: str, size: float, substeps: int, rank: int) -> Kernel:
    """Return the kernel of steps by pivots that are chosen at every evaluation, for states with so many independent constraints."""
    system, (now, q) = System(m, integrator_of(integrator, m), method, Controls(m, {"tau": m.nv}, None), clock=Counted), generic(m)
    return _kernel(system, size, substeps, system.plans.pivoted(now.instant, q, rank), float(SINGULAR))


class StepsByPivots:
    """A function of states that the plan of a step does not serve: each has the number of independent constraints that rollouts find.

    Kernels for such a number are made when it is first met. A copy from a pickle has those that were made before.
    """

    def __init__(self, settle: Kernel, made: dict[int, Kernel], make: Callable[[int], Kernel] | None) -> None:
        self.settle, self.made, self.make = settle, made, make

    def kernel(self, rank: int) -> Kernel:
        """Return the kernel for states with so many independent constraints."""
        if rank not in self.made:
            if self.make is None:
                raise ArgumentError(
                    f"stepper: a state has {rank} independent constraints, and this copy of the kernel serves {[*self.made]}; "
                    "make it again by ct.stepper"
                )
            self.made[rank] = self.make(rank)
        return self.made[rank]

    def __call__(self, **states: np.ndarray) -> list[np.ndarray]:
        """Return the outputs of states by name, (N, ...) each, the last of them flags."""
        times = {"t": np.zeros(len(states["q"])), **states}
        begun = Settled.by(self.settle, **{port.name: times[port.name] for port in self.settle.inputs})
        results: list[np.ndarray] = []
        for rank in np.unique(begun.ranks).tolist():
            at, kernel = np.flatnonzero(begun.ranks == rank), self.kernel(rank)
            parts = kernel(**{name: x[at] for name, x in states.items()})
            results = results or [np.empty((len(begun.ranks), *port.shape)) for port in kernel.outputs]
            for whole, part in zip(results, parts, strict=True):
                whole[at] = part
        *values, flags = results
        passed = (flags == 0.0) & ~begun.regular
        for x in values:
            x[passed] = np.nan
        flags[passed] = SINGULAR
        return [*values, flags]

    def _derived(self, transform: Callable[..., Any], labels: dict[str, tuple[str, ...]]) -> StepsByPivots:
        derived = partial(_derived, self, transform, labels)
        return StepsByPivots(self.settle, {rank: derived(rank) for rank in self.made}, derived)

    def __reduce__(self) -> tuple:
        return type(self), (self.settle, self.made, None)


def _derived(steps: StepsByPivots, transform: Callable[..., Any], labels: dict[str, tuple[str, ...]], rank: int) -> Kernel:
    return steps.kernel(rank)._derived(transform, labels)


def step_graph(system: System, size: float, substeps: int, limit: float | None, timed: bool, unserved: float = float(WEAK)) -> Graph:
    """Return the steps of a system traced; with the flags of a state, where a plan of loops serves down to a `limit` of its conditioning.

    The time at the beginning is the first input if it is `timed`. The flag of a state that the plan does not serve is `unserved`.
    """
    m, trace = system.model, Trace("stepper")
    t = trace.input("t") if timed else 0.0
    q, v = trace.input("q", (m.nq,)), trace.input("v", (m.nv,))
    tau = np.zeros(m.nv) if CONTROLS in m.varied else trace.input("tau", (m.nv,))
    numbers = m.given_inputs(trace)
    flow = _flow(system, trace, tau, numbers)
    h, fine, weak, flags = size / substeps, 1.0, 0.0, {}
    if limit is not None:
        tree = m.tree_with(numbers).traced(trace).at(t)
        flags["flags"] = closing_flags(m, tree, q, v)
        flow.mark()
        probe = generic_numbers(m.nv, 1) * coordinate_units(m)
        begin = flow.project(t, q, v if unserved == SINGULAR else probe)  # a step may leave a singular state behind, and end well
        assert begin is not None
        weak = where(begin.signed < limit, 1.0, 0.0)
        if unserved != SINGULAR:  # pivots that are chosen for a state have its rank
            weak = maximum(weak, _lacking(system, tree, begin))
    inner = None if substeps == 1 else Subgraph(_substep_graph(system, h, limit))
    for k in range(substeps):
        begin = t + k * h
        q, v, good, bad = _substep(flow, begin, q, v, h, limit) if inner is None else trace.call(inner, begin, q, v, tau, *numbers.values())
        fine, weak = fine * good, maximum(weak, bad)
    if limit is not None:
        flags["flags"] = flags["flags"] + where(weak > 0.0, unserved, 0.0)
    q, v = (np.array([where(fine > 0.0, x, np.nan) for x in part], dtype=object) for part in (q, v))
    return trace.graph(q_next=q, v_next=v, **flags)


def _lacking(system: System, tree: Tree, begin: Projected) -> Any:
    """Return 1 where velocities that a plan leaves free open constraints, more of which are independent at the state than in the plan."""
    solver = system.loop_solver
    assert solver is not None
    units = np.array(loop_units(system.model))
    rows = sorted({*range(len(units))} - eliminated(solver.method, solver.loop_plan.plan or ()))
    rates = constraint_motion(tree, begin.q, begin.v)[0][rows] * (1.0 / units[rows])
    return where(opens(largest(rates), total(begin.v)), 1.0, 0.0)


def _substep(flow: TracedFlow, t: Any, q: Array, v: Array, h: float, limit: float | None) -> tuple[Array, Array, Any, Any]:
    """Return the state after a step of an integrator, 1 if it is good, and 1 if the loops need another plan or are singular."""
    system = flow.system
    found = system.integrator.advance(flow, t, q, v, flow.acceleration(t, q, v), h)
    flow.mark()
    good, _ = verdict(system.integrator, found, limit)
    bad: Any = 0.0
    if limit is not None:  # pivots are tried wherever a plan does not come to the end of a step; where these do not, it is too long
        bad = where(abs(found.conditioning) < limit if _pivoted(system) else ~good, 1.0, 0.0)
    return found.q, found.v, where(good, 1.0, 0.0), bad


def _substep_graph(system: System, h: float, limit: float | None) -> Graph:
    """Return a step of an integrator as a graph, whose code several share."""
    m, trace = system.model, Trace("substep")
    t, q, v, tau = trace.input("t"), trace.input("q", (m.nq,)), trace.input("v", (m.nv,)), trace.input("tau", (m.nv,))
    q, v, good, bad = _substep(_flow(system, trace, tau, m.given_inputs(trace)), t, q, v, h, limit)
    return trace.graph(q_next=q, v_next=v, good=good, bad=bad)


def _flow(system: System, trace: Trace, tau: Array, numbers: dict[str, Any]) -> TracedFlow:
    return TracedFlow(system, trace, {"tau": tau}, {entry_of(path): np.ravel(x) for path, x in numbers.items()})


def _pivoted(system: System) -> bool:
    """Return whether pivots are chosen at run time, where there are loops."""
    return system.loop_solver is not None and system.loop_solver.loop_plan.plan is None
