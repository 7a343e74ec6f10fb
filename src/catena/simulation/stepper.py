"""A step of an integrator as a kernel: from one state to the next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from catena.graph import Graph, Subgraph, Trace, maximum, where
from catena.kernels.planned import ConstrainedKernel
from catena.kernels.state_flags import SINGULAR, WEAK, closing_flags
from catena.kernels.tracing import Parameters, check_forces, graph_kernel
from catena.loops.mobility import generic
from catena.loops.projection import LoopPlan
from catena.model import Mechanism
from catena.model.parameters import CONTROLS
from catena.native import Kernel
from catena.simulation.arguments import count, moving, positive
from catena.simulation.flows import TracedFlow
from catena.simulation.inputs import Controls
from catena.simulation.integrators.steps import integrator as integrator_of
from catena.simulation.rollout import chosen_integrator
from catena.simulation.stepping import Counted, entry_of, verdict
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
    m = moving(m, "stepper").varying(parameters, "stepper", wrenches, controls)
    check_forces(m, "stepper")
    size = positive("stepper: step", step, "give a step size above 0, in seconds")
    substeps = count("stepper: substeps", substeps)
    name = chosen_integrator(m, integrator, size / substeps, "stepper")
    system = System(m, integrator_of(name, m), method, Controls(m, {"tau": m.nv}, None), clock=Counted)

    def kernel(plan: LoopPlan | None, limit: float | None) -> Kernel:
        if plan is not None:
            system.use(plan)
        started = time.perf_counter()
        graph = step_graph(system, size, substeps, limit, m.time_dependent)
        quick = plan is not None and plan.plan is None
        made = f"{name}, {system.method}"
        return graph_kernel(m, graph, made, system.references, time.perf_counter() - started, quick=quick)

    if not m.has_loops:
        return kernel(None, None)
    first, (now, q) = system.plans.generic, generic(m)
    pivots = system.plans.pivoted(now.instant, q, first.loop_plan.rank)
    planned = kernel(first.loop_plan, first.limit)
    spare = kernel(pivots.loop_plan, pivots.limit) if first.loop_plan.plan is not None else None
    return ConstrainedKernel(m, planned, spare, q, "")


def step_graph(system: System, size: float, substeps: int, limit: float | None, timed: bool) -> Graph:
    """Return the steps of a system traced; with the flags of a state, where a plan of loops serves down to a `limit` of its conditioning.

    The time at the beginning is the first input if it is `timed`.
    """
    m, trace = system.model, Trace("stepper")
    t = trace.input("t") if timed else 0.0
    q, v = trace.input("q", (m.nq,)), trace.input("v", (m.nv,))
    tau = np.zeros(m.nv) if CONTROLS in m.varied else trace.input("tau", (m.nv,))
    numbers = m.given_inputs(trace)
    flow = _flow(system, trace, tau, numbers)
    h, fine, weak, flags = size / substeps, 1.0, 0.0, {}
    if limit is not None:
        flags["flags"] = closing_flags(m, m.tree_with(numbers).traced(trace).at(t), q, v)
        flow.mark()
        begin = flow.project(t, q, v)  # a step may leave a singular state behind, and end well
        assert begin is not None
        weak = where(begin.signed < limit, 1.0, 0.0)
    inner = None if substeps == 1 else Subgraph(_substep_graph(system, h, limit))
    for k in range(substeps):
        begin = t + k * h
        q, v, good, bad = _substep(flow, begin, q, v, h, limit) if inner is None else trace.call(inner, begin, q, v, tau, *numbers.values())
        fine, weak = fine * good, maximum(weak, bad)
    if limit is not None:
        flags["flags"] = flags["flags"] + where(weak > 0.0, float(SINGULAR if _pivoted(system) else WEAK), 0.0)
    q, v = (np.array([where(fine > 0.0, x, np.nan) for x in part], dtype=object) for part in (q, v))
    return trace.graph(q_next=q, v_next=v, **flags)


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
