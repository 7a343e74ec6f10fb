"""Dynamics of mechanisms with loops: how each kernel is computed with a plan, and by pivots chosen at run time."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.formulations import METHODS
from catena.formulations.cubic import all_constraints
from catena.formulations.linear import canonical_loops
from catena.formulations.loops.dependence import DependentMap
from catena.formulations.loops.partitions import CoordinatePartition
from catena.formulations.loops.pivoted_constraints import total
from catena.graph import Graph
from catena.graph.functions import where
from catena.kernels.methods import Solution
from catena.kernels.named_coordinates import coordinates
from catena.kernels.planned import ConstrainedKernel, planned_kernel
from catena.kernels.state_flags import flags, pivoted_flags, solved_flags
from catena.kernels.tracing import dynamics_graph, dynamics_kernel, traced_kernel
from catena.loops.conditioning import measures
from catena.loops.mobility import partition
from catena.loops.plan_library import REDUCTION, configuration, eliminated, explained, plan_of
from catena.loops.reduction_plans import dependent_coordinates
from catena.loops.scaling import coordinate_units
from catena.model import Mechanism, Tree
from catena.native import Kernel
from catena.tolerances import RANK


def forward_dynamics(m: Mechanism, by: Solution, at: Any) -> ConstrainedKernel:
    """Return forward dynamics of a mechanism with loops."""

    def pivoted(tree: Tree, q: Any, v: Any, tau: Any, force: Any, wrenches: Any) -> Any:
        solved = all_constraints.forward_dynamics(tree, q, v, tau + force, wrenches, measures=measures(m))
        return solved.vdot, pivoted_flags(solved, v)

    make = partial(dynamics_kernel, m, "forward_dynamics", ("q", "v", "tau"), ("vdot", "flags"), method=by.method, references=by.references)
    return _of_method(m, at, by.name, partial(_planned, m, by), pivoted, make)


def forward_dynamics_graph(m: Mechanism, by: Solution) -> Graph:
    """Return the graph of forward dynamics with the plan of a generic configuration; nothing is compiled."""
    now, q = configuration(m, None)
    chosen = plan_of(now, by.name, q)
    return dynamics_graph(m, "forward_dynamics", ("q", "v", "tau"), ("vdot", "flags"), _planned(m, by, chosen))


def _planned(m: Mechanism, by: Solution, chosen: Any) -> Callable[..., Any]:
    """Return forward dynamics with a plan, and the flags of its states."""
    closes = METHODS[by.name].closes
    assert closes is not None

    def function(tree: Tree, q: Any, v: Any, tau: Any, force: Any, wrenches: Any) -> Any:
        solved = closes.forward_dynamics(tree, q, v, tau + force, wrenches, plan=chosen)
        return solved.vdot, solved_flags(m, solved, tree, v, eliminated(by.name, chosen))

    return function


def velocities(m: Mechanism, by: Solution, at: Any) -> ConstrainedKernel:
    """Return the velocities that belong to momenta, of a mechanism with loops."""

    def planned(chosen: Any) -> Any:
        def function(tree: Tree, q: Any, p: Any) -> Any:
            solved = canonical_loops.velocities(tree, q, p, plan=chosen)
            return solved.vdot, solved_flags(m, solved, tree, None, eliminated(REDUCTION, chosen))

        return function

    def pivoted(tree: Tree, q: Any, p: Any) -> Any:
        solved = all_constraints.velocities(tree, q, p, measures=measures(m))
        return solved.vdot, pivoted_flags(solved)

    make = partial(traced_kernel, m, "velocities", ("q", "p"), ("v", "flags"), method=by.method, references=by.references)
    return _of_method(m, at, REDUCTION, planned, pivoted, make)


def hamiltonian_dynamics(m: Mechanism, by: Solution, at: Any) -> ConstrainedKernel:
    """Return Hamilton's equations of a mechanism with loops."""

    def planned(chosen: Any) -> Any:
        coordinates = dependent_coordinates(m, chosen)

        def function(tree: Tree, q: Any, p: Any, tau: Any, force: Any, wrenches: Any) -> Any:
            solved = canonical_loops.velocities(tree, q, p, plan=chosen)
            v = solved.vdot
            pdot = canonical_loops.hamiltonian_dynamics(tree, q, p, v, tau + force, wrenches, coordinates=coordinates, rate=m.rate)
            return v, pdot, solved_flags(m, solved, tree, None, eliminated(REDUCTION, chosen))

        return function, partial(canonical_loops.velocities, plan=chosen)

    def pivoted(tree: Tree, q: Any, p: Any, tau: Any, force: Any, wrenches: Any) -> Any:
        solved = speeds(tree, q, p)
        v = solved.vdot
        pdot = all_constraints.hamiltonian_dynamics(tree, q, v, tau + force, wrenches, solved.multipliers, rate=m.rate)
        return v, pdot, pivoted_flags(solved)

    def make(functions: Any, quick: bool = False) -> Kernel:
        function, solve = functions
        name, inputs, outputs = "hamiltonian_dynamics", ("q", "p", "tau"), ("v", "pdot", "flags")
        return dynamics_kernel(
            m, name, inputs, outputs, function, by.method, by.references, velocities=lambda *x: solve(*x).vdot, quick=quick
        )  # fmt: skip

    speeds = partial(all_constraints.velocities, measures=measures(m))
    return _of_method(m, at, REDUCTION, planned, (pivoted, speeds), make)


def _of_method(m: Mechanism, at: Any, method: str, planned: Callable[[Any], Any], pivoted: Any, make: Callable[..., Kernel]) -> Any:
    """Return the kernel of a function that is made for plans of a method."""
    explain = partial(explained, m, method)
    return planned_kernel(m, configuration(m, at), lambda m, q: plan_of(m, method, q), planned, pivoted, make, explain)


def inverse_dynamics(m: Mechanism, actuated: Collection[str] | None, by: Solution, at: Any, parts: Collection[str]) -> ConstrainedKernel:
    """Return inverse dynamics of a mechanism with loops, of parts of the forces, with joint forces on the actuated coordinates only."""
    driven = coordinates(m, m.v_names if actuated is None else actuated, "inverse_dynamics: actuated")

    def free(m: Mechanism, chosen: CoordinatePartition) -> list[str]:
        return [name for i, name in enumerate(m.v_names) if i not in driven and i not in chosen.dependent]

    def plan(m: Mechanism, q: Any) -> CoordinatePartition:
        chosen = partition(m, q, last=driven)
        if moving := free(m, chosen):
            raise ModelError(
                f"inverse_dynamics: with {len(driven)} of {m.nv} coordinates actuated, {', '.join(map(repr, moving))} of model '{m.name}' "
                f"would move freely, for it has {m.nv - len(chosen)} degrees of freedom; name it too, or other coordinates, in actuated=, "
                "or give a configuration on another branch, at=q"
            )
        return chosen

    def planned(chosen: CoordinatePartition) -> Any:
        def function(tree: Tree, q: Any, v: Any, vdot: Any, force: Any, wrenches: Any) -> Any:
            closed = DependentMap(tree, q, chosen)
            tau = closed.on_actuated(by.function(tree, q, v, vdot, wrenches) - force, driven)
            return tau, flags(m, closed, v=v, vdot=vdot)

        return function

    def pivoted(tree: Tree, q: Any, v: Any, vdot: Any, force: Any, wrenches: Any) -> Any:
        load, reach = by.function(tree, q, v, vdot, wrenches) - force, coordinate_units(m)
        solved = all_constraints.on_actuated(tree, q, v, load, driven, measures=measures(m))
        # the motors have lost their hold, but for rounding
        lost = (solved.undetermined > 0.0) | (RANK * total(solved.vdot * reach) > total(load * reach))
        tau = np.array([where(lost, np.nan, x) for x in solved.vdot], dtype=object)
        return tau, pivoted_flags(solved._replace(undetermined=where(lost, 1.0, 0.0)), v)

    inputs, outputs = ("q", "v", "vdot"), ("tau", "flags")
    make = partial(dynamics_kernel, m, "inverse_dynamics", inputs, outputs, method=by.method, references=by.references, parts=parts)
    where_held = configuration(m, at, lambda m, q: not free(m, partition(m, q, last=driven)))
    return planned_kernel(m, where_held, plan, planned, pivoted, make)
