"""Kernels of mechanisms with loops: how each is made for a plan, and what tells a state at which the plan is weak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from catena.assembly import coordinate_units, loop_units
from catena.constrained import BREAKING, OPEN, OPENING, SINGULAR, WEAK, ConstrainedKernel
from catena.errors import ModelError
from catena.formulations import METHODS
from catena.formulations.constraints import constraint_motion, row_names
from catena.formulations.linear import canonical_loops
from catena.formulations.partition import Closed, Partition
from catena.graph.functions import maximum, minimum, where
from catena.mobility import independent_rows, mobility, partition, usual
from catena.model import Model, Tree
from catena.native import Kernel
from catena.planning import dependent_coordinates, explanation, reduction_plan
from catena.tracing import dynamics_kernel, traced_kernel

#: The method whose plan says where coordinates are eliminated; those of the others say which constraints hold the loops.
REDUCTION = "coordinate-reduction"

#: States whose loops are open by more than this, relative to the mechanism's size or in radians, are refused; and velocities that open them
#: at such a rate, relative to the speed of the joints.
LOOSE = 1e-6

#: Constraints that are less independent than this of the others chosen are exchanged, and those that are less than that are dependent: the
#: square of a sine, for the matrix of the multipliers; a sine, for the Jacobian itself.
WEAK_SQUARE, SINGULAR_SQUARE = 1e-6, 1e-13
WEAK_SINE, SINGULAR_SINE = 1e-3, 1e-8

#: Entries of long vectors, and stages of a plan, that make a region of the graph: regions that are alike are compiled once.
PART, STAGES = 60, 12


def forward_dynamics(m: Model, method: str, described: str, references: tuple[str, ...]) -> ConstrainedKernel:
    """Return forward dynamics of a mechanism with loops."""
    closes = METHODS[method].closes
    assert closes is not None

    def make(chosen: Any) -> Kernel:
        def function(tree: Tree, q: Any, v: Any, tau: Any, force: Any, wrenches: Any) -> Any:
            solved = closes.forward_dynamics(tree, q, v, tau + force, wrenches, plan=chosen)
            return solved.vdot, _solved_flags(m, solved, tree, v)

        return dynamics_kernel(m, "forward_dynamics", ("q", "v", "tau"), ("vdot", "flags"), function, described, references)

    return _planned(m, method, make)


def velocities(m: Model, described: str, references: tuple[str, ...]) -> ConstrainedKernel:
    """Return the velocities that belong to momenta, of a mechanism with loops."""

    def make(chosen: Any) -> Kernel:
        def function(tree: Tree, q: Any, p: Any) -> Any:
            solved = canonical_loops.velocities(tree, q, p, plan=chosen)
            return solved.vdot, _solved_flags(m, solved, tree)

        return traced_kernel(m, "velocities", ("q", "p"), ("v", "flags"), function, described, references)

    return _planned(m, REDUCTION, make)


def hamiltonian_dynamics(m: Model, described: str, references: tuple[str, ...]) -> ConstrainedKernel:
    """Return Hamilton's equations of a mechanism with loops."""

    def make(chosen: Any) -> Kernel:
        coordinates = dependent_coordinates(m, chosen)

        def speeds(tree: Tree, q: Any, p: Any) -> Any:
            return canonical_loops.velocities(tree, q, p, plan=chosen).vdot

        def function(tree: Tree, q: Any, p: Any, tau: Any, force: Any, wrenches: Any) -> Any:
            solved = canonical_loops.velocities(tree, q, p, plan=chosen)
            v = solved.vdot
            pdot = canonical_loops.hamiltonian_dynamics(tree, q, p, v, tau + force, wrenches, coordinates=coordinates, rate=m.rate)
            return v, pdot, _solved_flags(m, solved, tree)

        outputs = ("v", "pdot", "flags")
        return dynamics_kernel(
            m, "hamiltonian_dynamics", ("q", "p", "tau"), outputs, function, described, references, velocities=speeds
        )  # fmt: skip

    return _planned(m, REDUCTION, make)


def _planned(m: Model, method: str, make: Callable[[Any], Kernel]) -> ConstrainedKernel:
    """Return the kernel that is made for plans of a method."""
    return ConstrainedKernel(m, usual(m), lambda m, q: plan_of(m, method, q), make, partial(explained, m, method))


def _solved_flags(m: Model, solved: Any, tree: Tree, v: Any = None) -> Any:
    """Return the flags of a state, from what a method found; v is what the rates of the constraints belong to."""
    scale = np.array(loop_units(m))
    held = strength(solved.pivots, scale, tree.mark)
    apart, rates = (largest(x * (1.0 / scale), tree.mark) for x in (solved.values, solved.rates))
    return _flags(held < WEAK_SQUARE, held < SINGULAR_SQUARE, apart, rates, v, mark=tree.mark)


def plan_of(m: Model, method: str, q: Any) -> Any:
    """Return the plan of a method that closes loops for a configuration; where joints are driven, of a model at a time."""
    return reduction_plan(m, q) if method == REDUCTION else independent_rows(m, q)


@dataclass(frozen=True)
class Plans:
    """The plan of a method, and the coordinates that depend with it; as long as there are independent constraints."""

    dynamics: Any
    coordinates: Partition

    def __len__(self) -> int:
        return len(self.coordinates)


def plans_of(m: Model, method: str, q: Any) -> Plans:
    """Return the plan of a method that closes loops for a configuration, and the coordinates that depend with it."""
    if method == REDUCTION:
        plan = reduction_plan(m, q)
        return Plans(plan, dependent_coordinates(m, plan))
    coordinates = partition(m, q)
    return Plans(coordinates.rows, coordinates)


def explained(m: Model, method: str, plan: Any) -> str:
    """Return a plan of a method in words."""
    if method == REDUCTION:
        return explanation(m, plan)
    loops = row_names(m.tree())
    held = Counter(loops[i] for i in plan)
    return "\n".join(f"'{name}': {held[name]} of {count} constraints, by multipliers" for name, count in Counter(loops).items())


def inverse_dynamics(
    m: Model, actuated: Collection[str] | None, solve: Callable[..., Any], described: str, references: tuple[str, ...]
) -> ConstrainedKernel:
    """Return inverse dynamics of a mechanism with loops, with joint forces on the actuated coordinates only."""
    driven = coordinates(m, m.v_names if actuated is None else actuated, "inverse_dynamics: actuated")

    def plan(m: Model, q: Any) -> Partition:
        return partition(m, q, last=driven)

    def free(chosen: Partition) -> list[str]:
        return [name for i, name in enumerate(m.v_names) if i not in driven and i not in chosen.dependent]

    at = usual(m)
    if moving := free(plan(*at)):
        raise ModelError(
            f"inverse_dynamics: with {len(driven)} of {m.nv} coordinates actuated, {', '.join(map(repr, moving))} of model '{m.name}' "
            f"would move freely, for it has {mobility(m).freedom} degrees of freedom; name it too, or other coordinates, in actuated="
        )

    def make(chosen: Partition) -> Kernel:
        def function(tree: Tree, q: Any, v: Any, vdot: Any, force: Any, wrenches: Any) -> Any:
            closed = Closed(tree, q, chosen)
            tau = closed.on_actuated(solve(tree, q, v, vdot, wrenches) - force, driven)
            flag = flags(m, closed, v=v, vdot=vdot)
            if free(chosen):  # the motors have lost their hold
                return np.full(m.nv, np.nan), flag + SINGULAR
            return tau, flag

        return dynamics_kernel(m, "inverse_dynamics", ("q", "v", "vdot"), ("tau", "flags"), function, described, references)

    return ConstrainedKernel(m, at, plan, make)


def coordinates(m: Model, names: Collection[str], what: str) -> tuple[int, ...]:
    """Return the numbers of velocity coordinates, given by name."""
    if isinstance(names, str):
        raise ModelError(f"{what} is {names!r}; give a sequence of names, such as ({names!r},)")
    for name in names:
        if name not in m.v_names:
            choice = ", ".join(m.v_names)
            raise ModelError(f"{what} names {name!r}, which is no velocity coordinate of model '{m.name}'; choose from {choice}")
    return tuple(m.v_names.index(name) for name in names)


def places(m: Model, at: Collection[int], what: str) -> list[int]:
    """Return where velocity coordinates, given by number, are among the positions."""
    found = {}
    for link, at_q, at_v in m._slices():
        if link.joint.nq == link.joint.nv:
            found |= dict(zip(range(at_v.start, at_v.stop), range(at_q.start, at_q.stop), strict=True))
    for i in at:
        if i not in found:
            raise ModelError(
                f"{what}: '{m.v_names[i]}' is a rate of a joint whose positions are not plain numbers; use other coordinates, or "
                "m.assemble(guess)"
            )
    return [found[i] for i in at]


# what tells weak states


def flags(m: Model, closed: Closed, v: Any = None, vdot: Any = None, opened: bool = True) -> Any:
    """Return the flags of a state that was solved with a partition; loops may be open without `opened`."""
    units = np.array(loop_units(m))
    weak, singular, rates, left = 0.0, 0.0, 0.0, 0.0
    for pivots, size in pivots_of(m, closed):
        for pivot in pivots:
            weak = weak + where(pivot >= WEAK_SINE * size, 0.0, 1.0)
            singular = singular + where(pivot >= SINGULAR_SINE * size, 0.0, 1.0)
    for part in closed.solved:
        own = 1.0 / units[list(part.group.loops.rows)]
        if v is not None:
            rate, right = constraint_motion(closed.tree, closed.q, v, part.group.loops)
            rates = maximum(rates, largest(rate * own))
            if vdot is not None:
                left = maximum(left, largest((part.jacobian @ vdot[list(part.group.loops.columns)] - right) * own))
    return _flags(weak > 0.0, singular > 0.0, apart_by(m, closed) if opened else 0.0, rates, v, left, vdot)


def pivots_of(m: Model, closed: Closed) -> list[tuple[list[Any], Any]]:
    """Return the pivots of each group of loops that was solved with a partition, and its largest entry, all without units."""
    units, columns, found = np.array(loop_units(m)), coordinate_units(m), []
    for part in closed.solved:
        rows, dependent = list(part.group.rows), list(part.group.dependent)
        scale = np.outer(1.0 / units[rows], columns[dependent])
        pivots = [abs(pivot) * unit for pivot, unit in zip(part.factor.pivots, scale.diagonal(), strict=True)]
        found.append((pivots, largest((part.block(rows, dependent) * scale).ravel())))
    return found


def apart_by(m: Model, closed: Closed) -> Any:
    """Return how far the loops are from being closed at most: relative to the mechanism's size, or in radians."""
    units, found = np.array(loop_units(m)), 0.0
    for part in closed.solved:
        found = maximum(found, largest(part.values * (1.0 / units[list(part.group.loops.rows)])))
    return found


def strength(pivots: Any, scale: Any, mark: Callable[[], None] = lambda: None) -> Any:
    """Return how independent the constraints of a plan are of each other, the square of a sine; 0 where the solution is not a number.

    `pivots` are those of a method, stage by stage of the elimination: constraint, pivot, and what it is compared with; `scale` is what the
    constraints are measured by.
    """
    found: Any = 1.0
    broken: Any = 0.0
    for n, stage in enumerate(pivots):
        if n % STAGES == 0:
            mark()
        smallest: Any = 1e300
        most: Any = 1e-300
        for i, pivot, size in stage:
            unit = 1.0 / scale[i] ** 2
            smallest, most = minimum(smallest, pivot * unit), maximum(most, size * unit)
            broken = broken + where(pivot > 0.0, 0.0, 1.0)
        found = minimum(found, smallest / most)
    return where(broken > 0.0, 0.0, found)


def _flags(
    weak: Any, singular: Any, apart: Any, rates: Any, v: Any, left: Any = 0.0, vdot: Any = None, mark: Callable[[], None] = lambda: None
) -> Any:
    """Return the flags of a state, added up: from the largest values of all constraints, of their rates at v, and of what vdot lacks."""
    total = where(apart > LOOSE, float(OPEN), 0.0)
    if v is not None:
        total = total + where(rates > LOOSE * _sum(v, mark) + 1e-12, float(OPENING), 0.0)
    if vdot is not None:
        total = total + where(left > LOOSE * (_sum(vdot) + _sum(v) * _sum(v)) + 1e-12, float(BREAKING), 0.0)
    return total + where(weak, float(WEAK), 0.0) + where(singular, float(SINGULAR), 0.0)


def largest(values: Any, mark: Callable[[], None] = lambda: None) -> Any:
    """Return the largest of numbers, by size."""
    found: Any = 0.0
    for n, value in enumerate(values):
        if n % PART == 0:
            mark()
        found = maximum(found, abs(value))
    return found


def _sum(x: Any, mark: Callable[[], None] = lambda: None) -> Any:
    total: Any = 0.0
    for n, entry in enumerate(x):
        if n % PART == 0:
            mark()
        total = total + abs(entry)
    return total
