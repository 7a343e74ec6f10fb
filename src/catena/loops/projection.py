"""Dynamics under a plan, and projection: states put on the constraints of the loops. On any scalar, and compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from catena.formulations import METHODS
from catena.formulations.cubic import all_constraints
from catena.formulations.loops.dependence import DependentMap
from catena.graph import Subgraph, Trace, minimum, where
from catena.loops.conditioning import conditioning, largest, largest_residual, least_row, measures
from catena.loops.reduction_plans import dependent_coordinates
from catena.loops.scaling import loop_units
from catena.model import Mechanism, Tree
from catena.native import Kernel, compile_graph
from catena.tolerances import ON_CONSTRAINTS, SAMPLED

Array = Any
Plan = Any  # a method's own; it can be compared, and its length is the number of constraints

#: How often states are projected that do not meet the constraints.
_PROJECTIONS = 4


class LoopPlan(NamedTuple):
    """A plan of a method, or None for pivots chosen at every evaluation; and the number of independent constraints."""

    plan: Plan | None
    rank: int


class Projected(NamedTuple):
    """A state on the constraints, the conditioning of the plan there, and the closure residual of all loops."""

    q: Array
    v: Array
    conditioning: Any
    residual: Any

    @property
    def signed(self) -> Any:
        """The conditioning, negative where the state does not meet all constraints: it would leave the branch of the motion."""
        return where(self.residual <= ON_CONSTRAINTS, self.conditioning, -self.conditioning)


class LoopSolver:
    """The loops of a mechanism, solved by a plan of a method."""

    def __init__(self, model: Mechanism, method: str, loop_plan: LoopPlan) -> None:
        closes = METHODS[method].closes
        assert closes is not None
        self.model, self.closes, self.method, self.loop_plan = model, closes, method, loop_plan
        self._units = np.array(loop_units(model))

    def forward_dynamics(self, tree: Tree, q: Array, v: Array, tau: Array, wrenches: Any) -> Array:
        """Return vdot."""
        plan, rank = self.loop_plan
        if plan is None:
            return all_constraints.accelerations(tree, q, v, tau, wrenches, measures=measures(self.model), rank=rank)
        return self.closes.forward_dynamics(tree, q, v, tau, wrenches, plan=plan).vdot

    def project(self, tree: Tree, q: Array, v: Array) -> Projected:
        """Return a state that meets the constraints, for one that nearly does.

        By a plan of coordinate reduction the independent coordinates are kept: the others follow by two steps of Newton's, and their rates
        from the constraints. By other plans, it is the nearest state by kinetic energy; by pivots, that of least change, and its velocity
        the nearest by kinetic energy.
        """
        plan, rank = self.loop_plan
        if plan is None:
            q, v, values, found = all_constraints.project(tree, q, v, self.model.moved, measures=measures(self.model), rank=rank)
            return Projected(q, v, where(found.rank >= rank, found.least * found.least, 0.0), largest(values))
        if self.closes.project is None:
            coordinates = dependent_coordinates(self.model, plan)
            for _ in range(2):
                q = self.model.moved(q, DependentMap(tree, q, coordinates).correction())
            closed = DependentMap(tree, q, coordinates)
            pivots = self.closes.forward_dynamics(tree, q, v, np.zeros(tree.nv), plan=plan).pivots
            return Projected(q, closed.rates(v), self.conditioning(tree, q, pivots), largest_residual(self.model, closed))
        q, v, pivots, values = self.closes.project(tree, q, v, self.model.moved, plan=plan)
        return Projected(q, v, self.conditioning(tree, q, pivots), largest(values * (1.0 / self._units)))

    def conditioning(self, tree: Tree, q: Array, pivots: Any) -> Any:
        """Return the conditioning of a plan at a configuration, from the pivots of its method.

        Multipliers and platforms compare a constraint with itself, also where it vanishes: so its size counts, too.
        """
        plan, found = self.loop_plan.plan, conditioning(pivots, self._units)
        if self.closes.project is None:
            return found
        return minimum(found, least_row(self.model, tree, q, tuple(getattr(plan, "chosen", plan or ()))))


def projection_subgraph(m: Mechanism, method: str, loop_plan: LoopPlan) -> Subgraph:
    """Return the subgraph (t, q, v) -> q, v, conditioning, residual of `LoopSolver.project`."""

    def make() -> Subgraph:
        trace, tree, q, v = traced_state("projection", m)
        return Subgraph(trace.graph(**LoopSolver(m, method, loop_plan).project(tree, q, v)._asdict()), quick=loop_plan.plan is None)

    return m.once("projection subgraph", _key(method, loop_plan), make)


def projection_kernel(m: Mechanism, method: str, loop_plan: LoopPlan) -> Kernel:
    """Return the kernel (t, q, v) -> q, v, conditioning, residual of `LoopSolver.project`."""

    def make() -> Kernel:
        trace = Trace("projection")
        state = trace.input("t"), trace.input("q", (m.nq,)), trace.input("v", (m.nv,)), *m.given_inputs(trace).values()
        found = Projected(*trace.call(projection_subgraph(m, method, loop_plan), *state))
        return compile_graph(trace.graph(**found._asdict()), method=method)

    return m.once("projection", _key(method, loop_plan), make)


def on_constraints(
    m: Mechanism, t: np.ndarray, q: np.ndarray, v: np.ndarray, rank: int, given: Sequence[np.ndarray] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Return states (N, nq), (N, nv) at times (N,) that nearly close the loops, put on the constraints, so many of them independent.

    Numbers that the model varies are `given`, one for each state.
    """

    def make() -> Kernel:
        trace, tree, q, v = traced_state("on_constraints", m)
        q, v, values, _ = all_constraints.project(tree, q, v, m.moved, measures=measures(m), rank=rank, least=SAMPLED)
        return compile_graph(trace.graph(q=q, v=v, residual=largest(values)), quick=True)

    project = m.once("on constraints", rank, make)
    q, v, residual = project(t, q, v, *given)
    for _ in range(_PROJECTIONS - 1):
        rest = np.flatnonzero(~(residual <= ON_CONSTRAINTS))
        if len(rest):
            q[rest], v[rest], residual[rest] = project(t[rest], q[rest], v[rest], *(x[rest] for x in given))
    return q, v


def traced_state(name: str, m: Mechanism) -> tuple[Trace, Tree, Array, Array]:
    """Return a trace, the tree at its time, and a state, as inputs; numbers that the model varies are inputs after these."""
    trace = Trace(name)
    t, q, v = trace.input("t"), trace.input("q", (m.nq,)), trace.input("v", (m.nv,))
    return trace, m.tree_with(m.given_inputs(trace)).traced(trace).at(t), q, v


def _key(method: str, loop_plan: LoopPlan) -> Any:
    """Return what tells projections apart: by pivots they are the same for all methods."""
    return loop_plan if loop_plan.plan is None else (method, loop_plan)
