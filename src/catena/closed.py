"""Kernels of mechanisms with loops: how each is made for a plan and for any state, and what tells a state that the plan does not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from catena import platforms
from catena.assembly import gap
from catena.constrained import BREAKING, OPEN, OPENING, SINGULAR, WEAK, ConstrainedKernel
from catena.errors import ArgumentError, ModelError
from catena.formulations import METHODS
from catena.formulations.constraints import base, branch, constraint_motion, row_count, row_names
from catena.formulations.cubic import all_constraints
from catena.formulations.cubic.all_constraints import Measures
from catena.formulations.linear import canonical_loops, cut_joints
from catena.formulations.partition import Closed, Partition
from catena.graph import Graph
from catena.graph.functions import maximum, minimum, where
from catena.mobility import branches, configurations, generic, independent_rows, partition, regular
from catena.model import Model, Tree
from catena.model.values import array
from catena.native import Kernel
from catena.planning import dependent_coordinates, explanation, reduction_plan
from catena.scaling import coordinate_units, loop_units
from catena.tolerances import CLOSURE, CONSISTENT, LOOSE, MULTIPLIER_PIVOT, PIVOT, RANK, RESIDUAL
from catena.tracing import dynamics_kernel, traced_kernel

#: The method whose plan says where coordinates are eliminated; those of the others say which constraints hold the loops.
REDUCTION, PLATFORMS = "coordinate-reduction", "denoc"

#: How plans of methods are made; those of others are the constraints that are independent.
_PLANS: dict[str, Callable[..., Any]] = {REDUCTION: reduction_plan, PLATFORMS: platforms.platform_plan}

#: Entries of long vectors, and stages of a plan, that make a region of the graph: regions that are alike are compiled once.
PART, STAGES = 60, 12

#: How many plans go out with a kernel, and the steps of the walk on which they are found.
_PLANS_OUT, _STEPS = 4, 16


#: Pivots are chosen at run time by loops over dense matrices of so many entries at most; the states of larger mechanisms have their plan.
_DENSE = 200_000


def forward_dynamics(m: Model, method: str, described: str, references: tuple[str, ...], at: Any = None) -> ConstrainedKernel:
    """Return forward dynamics of a mechanism with loops."""
    closes = METHODS[method].closes
    assert closes is not None

    def planned(chosen: Any) -> Any:
        def function(tree: Tree, q: Any, v: Any, tau: Any, force: Any, wrenches: Any) -> Any:
            solved = closes.forward_dynamics(tree, q, v, tau + force, wrenches, plan=chosen)
            return solved.vdot, solved_flags(m, solved, tree, v, met(method, chosen))

        return function

    def pivoted(tree: Tree, q: Any, v: Any, tau: Any, force: Any, wrenches: Any) -> Any:
        solved = all_constraints.forward_dynamics(tree, q, v, tau + force, wrenches, measures=measures(m))
        return solved.vdot, pivoted_flags(solved, v)

    make = partial(dynamics_kernel, m, "forward_dynamics", ("q", "v", "tau"), ("vdot", "flags"), method=described, references=references)
    return _of_method(m, at, method, planned, pivoted, make)


def velocities(m: Model, described: str, references: tuple[str, ...], at: Any = None) -> ConstrainedKernel:
    """Return the velocities that belong to momenta, of a mechanism with loops."""

    def planned(chosen: Any) -> Any:
        def function(tree: Tree, q: Any, p: Any) -> Any:
            solved = canonical_loops.velocities(tree, q, p, plan=chosen)
            return solved.vdot, solved_flags(m, solved, tree, None, met(REDUCTION, chosen))

        return function

    def pivoted(tree: Tree, q: Any, p: Any) -> Any:
        solved = all_constraints.velocities(tree, q, p, measures=measures(m))
        return solved.vdot, pivoted_flags(solved)

    make = partial(traced_kernel, m, "velocities", ("q", "p"), ("v", "flags"), method=described, references=references)
    return _of_method(m, at, REDUCTION, planned, pivoted, make)


def hamiltonian_dynamics(m: Model, described: str, references: tuple[str, ...], at: Any = None) -> ConstrainedKernel:
    """Return Hamilton's equations of a mechanism with loops."""

    def planned(chosen: Any) -> Any:
        coordinates = dependent_coordinates(m, chosen)

        def function(tree: Tree, q: Any, p: Any, tau: Any, force: Any, wrenches: Any) -> Any:
            solved = canonical_loops.velocities(tree, q, p, plan=chosen)
            v = solved.vdot
            pdot = canonical_loops.hamiltonian_dynamics(tree, q, p, v, tau + force, wrenches, coordinates=coordinates, rate=m.rate)
            return v, pdot, solved_flags(m, solved, tree, None, met(REDUCTION, chosen))

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
            m, name, inputs, outputs, function, described, references, velocities=lambda *x: solve(*x).vdot, quick=quick
        )  # fmt: skip

    speeds = partial(all_constraints.velocities, measures=measures(m))
    return _of_method(m, at, REDUCTION, planned, (pivoted, speeds), make)


def _of_method(m: Model, at: Any, method: str, planned: Callable[[Any], Any], pivoted: Any, make: Callable[..., Kernel]) -> Any:
    """Return the kernel of a function that is made for plans of a method."""
    explain = partial(explained, m, method)
    return planned_kernel(m, configuration(m, at), lambda m, q: plan_of(m, method, q), planned, pivoted, make, explain)


def planned_kernel(
    m: Model,
    at: tuple[Model, np.ndarray],
    plan: Callable[[Model, np.ndarray], Any],
    planned: Callable[[Any], Any],
    pivoted: Any,
    make: Callable[..., Kernel],
    explain: Callable[[Any], str] = repr,
    kind: type[ConstrainedKernel] = ConstrainedKernel,
) -> Any:
    """Return the kernel of a function that is made for a plan, and of one whose pivots are chosen at run time.

    `plan(m, q)` is made at a configuration, which comes after the model at its time. `planned(plan)` and `pivoted` are functions of the
    tree, whose last result are flags; `make` makes kernels of them, `quick` where the code is for the few states off the plan.
    """
    first = plan(*at)

    def graphs(most: int | None) -> tuple[Graph, ...]:
        plans = {first: None}
        for still, q in configurations(m, _STEPS):
            plans |= {other: None for other in (plan(still, q),) if len(other) == len(first)}
            if len(plans) == (_PLANS_OUT if most is None else most):
                break
        return tuple(make(planned(other)).graph for other in plans)

    rows = len(loop_units(m))
    spare = make(pivoted, quick=True) if m.has_loops and m.nv * (m.nv + rows) <= _DENSE else None
    return kind(at[0], make(planned(first)), spare, at[1], explain(first), graphs if m.has_loops else None, regular(*at))


def configuration(m: Model, at: Any, suits: Callable[[Model, np.ndarray], bool] = lambda m, q: True) -> tuple[Model, np.ndarray]:
    """Return the configuration that a user gives for a plan, or else a generic one, after the model at its time.

    Where the generic one does not suit, one on another branch may. Refuse what leaves a loop open.
    """
    if at is None:
        return generic(m) if suits(*generic(m)) else next((other for other in branches(m) if suits(*other)), generic(m))
    q = array("at", at, (m.nq,))
    still = m.at(0.0)
    found = gap(still, q)
    if not found.sizes.max(initial=0.0) <= LOOSE:
        raise ArgumentError(f"at leaves loop '{found.worst}' of model '{m.name}' open; give positions that close the loops, by m.assemble")
    return still, still.assemble(guess=q)


def measures(m: Model) -> Measures:
    """Return what the constraints and velocity coordinates of a model are measured by."""
    return Measures(np.array(loop_units(m)), coordinate_units(m))


def plan_of(m: Model, method: str, q: Any) -> Any:
    """Return the plan of a method that closes loops for a configuration; where joints are driven, of a model at a time."""
    return _PLANS.get(method, independent_rows)(m, q)


@dataclass(frozen=True)
class Plans:
    """The plan of a method, and the coordinates that depend with it; as long as there are independent constraints."""

    dynamics: Any
    coordinates: Partition

    def __len__(self) -> int:
        return len(self.coordinates)


def plans_of(m: Model, method: str, q: Any) -> Plans:
    """Return the plan of a method that closes loops for a configuration, and the coordinates that depend with it."""
    plan = plan_of(m, method, q)
    coordinates = dependent_coordinates(m, plan) if method == REDUCTION else partition(m, q)
    return Plans(coordinates.rows if method not in _PLANS else plan, coordinates)


def explained(m: Model, method: str, plan: Any) -> str:
    """Return a plan of a method in words."""
    if method == REDUCTION:
        return explanation(m, plan)
    if method == PLATFORMS:
        return platforms.explanation(m, plan)
    loops = row_names(m.tree())
    held = Counter(loops[i] for i in plan)
    return "\n".join(f"'{name}': {held[name]} of {count} constraints, by multipliers" for name, count in Counter(loops).items())


def inverse_dynamics(
    m: Model, actuated: Collection[str] | None, solve: Callable[..., Any], described: str, references: tuple[str, ...], at: Any = None
) -> ConstrainedKernel:
    """Return inverse dynamics of a mechanism with loops, with joint forces on the actuated coordinates only."""
    driven = coordinates(m, m.v_names if actuated is None else actuated, "inverse_dynamics: actuated")

    def free(m: Model, chosen: Partition) -> list[str]:
        return [name for i, name in enumerate(m.v_names) if i not in driven and i not in chosen.dependent]

    def plan(m: Model, q: Any) -> Partition:
        chosen = partition(m, q, last=driven)
        if moving := free(m, chosen):
            raise ModelError(
                f"inverse_dynamics: with {len(driven)} of {m.nv} coordinates actuated, {', '.join(map(repr, moving))} of model '{m.name}' "
                f"would move freely, for it has {m.nv - len(chosen)} degrees of freedom; name it too, or other coordinates, in actuated=, "
                "or give a configuration on another branch, at=q"
            )
        return chosen

    def planned(chosen: Partition) -> Any:
        def function(tree: Tree, q: Any, v: Any, vdot: Any, force: Any, wrenches: Any) -> Any:
            closed = Closed(tree, q, chosen)
            tau = closed.on_actuated(solve(tree, q, v, vdot, wrenches) - force, driven)
            return tau, flags(m, closed, v=v, vdot=vdot)

        return function

    def pivoted(tree: Tree, q: Any, v: Any, vdot: Any, force: Any, wrenches: Any) -> Any:
        load, reach = solve(tree, q, v, vdot, wrenches) - force, coordinate_units(m)
        solved = all_constraints.on_actuated(tree, q, v, load, driven, measures=measures(m))
        # the motors have lost their hold, but for rounding
        lost = (solved.undetermined > 0.0) | (RANK * total(solved.vdot * reach) > total(load * reach))
        tau = np.array([where(lost, np.nan, x) for x in solved.vdot], dtype=object)
        return tau, pivoted_flags(solved._replace(undetermined=where(lost, 1.0, 0.0)), v)

    make = partial(dynamics_kernel, m, "inverse_dynamics", ("q", "v", "vdot"), ("tau", "flags"), method=described, references=references)
    where_held = configuration(m, at, lambda m, q: not free(m, partition(m, q, last=driven)))
    return planned_kernel(m, where_held, plan, planned, pivoted, make)


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


# what tells states that a plan does not fit


def solved_flags(m: Model, solved: Any, tree: Tree, v: Any = None, met: Collection[int] = ()) -> Any:
    """Return the flags of a state, from what a method found; v is what the rates of the constraints belong to, zero if not given.

    Values and rates of all constraints are looked at, and what the accelerations leave of those that a plan does not meet by itself.
    """
    scale = 1.0 / np.array(loop_units(m))
    if isinstance(solved, cut_joints.Solved):
        weak = _weaker(solved.pivots, 1.0 / scale, MULTIPLIER_PIVOT, tree.mark)
        for i, row in solved.rows.items():  # a row that vanishes is as large as its pivot
            reach = coordinate_units(m)[list(row)] * scale[i]
            weak = weak | (sum(x * x for x in reach * np.array(list(row.values()), dtype=object)) < MULTIPLIER_PIVOT)
    else:
        weak = _weaker(solved.pivots, 1.0 / scale, PIVOT**2, tree.mark, PIVOT**2)
    apart, rates = (largest(x * scale, tree.mark) for x in (solved.values, solved.rates))
    speed = total(v, tree.mark) if v is not None else 0.0
    # what the accelerations leave of each loop, beside what moves in it
    slack = RESIDUAL + CLOSURE * apart
    away: Any = 0.0
    for n, (constraints, columns) in enumerate(around(tree)):
        rows = [i for i in constraints if i not in met and all_constraints.may_differ(solved.residual[i])]
        if not rows:
            continue
        if n % STAGES == 0:
            tree.mark()
        own = largest(solved.residual[rows] * scale[rows])
        reach = 1.0 / coordinate_units(m)[columns]
        most = total(solved.vdot[columns] * reach)
        if v is not None:
            moving = total(v[columns] * reach)
            most = most + moving * moving
            own = own - CLOSURE * rates * moving
        away = maximum(away, own - slack * most)
    lacking = away > 1e-12
    return _flags(weak | lacking, 0.0, apart, rates, None if v is None else speed)


def met(method: str, plan: Any) -> frozenset[int]:
    """Return the constraints that the accelerations of a plan meet by elimination, as well as its pivots tell.

    Platforms move as a walk has found that they do; where they do not, constraints of their legs tell.
    """
    return frozenset() if method == PLATFORMS else frozenset(getattr(plan, "chosen", plan))


def around(tree: Tree) -> list[tuple[list[int], list[int]]]:
    """Return the constraints of each loop and coupling, and the velocity coordinates that are in them."""
    found, first = [], 0
    for closure in tree.closures:
        bodies = [k for end in (closure.a, closure.b) for k in branch(tree, end, base(tree, closure))]
        columns = [j for k in bodies for j in range(tree.v_slices[k].start, tree.v_slices[k].stop)]
        found.append((list(range(first, first + row_count(closure))), columns))
        first += row_count(closure)
    return [*found, *(([first + i], [j for j, _ in coupling.coefficients]) for i, coupling in enumerate(tree.couplings))]


def pivoted_flags(solved: all_constraints.Solved, v: Any = None) -> Any:
    """Return the flags of a state whose pivots were chosen for it; v is what the rates of the constraints belong to."""
    apart, rates = largest(solved.values), largest(solved.rates)
    slack = CONSISTENT + CLOSURE * apart
    left = largest(solved.residual) > slack * (total(solved.vdot) + (0.0 if v is None else total(v) * total(v))) + 1e-12
    return _flags(0.0, (solved.bend > slack) | (solved.undetermined > 0.0) | left, apart, rates, None if v is None else total(v))


def flags(m: Model, closed: Closed, v: Any = None, vdot: Any = None, opened: bool = True) -> Any:
    """Return the flags of a state that was solved with a partition; loops may be open without `opened`."""
    units, reach = np.array(loop_units(m)), coordinate_units(m)
    weak: Any = 0.0
    for pivots, size in pivots_of(m, closed):
        for pivot in pivots:
            weak = weak + where(pivot >= PIVOT * size, 0.0, 1.0)
    apart = apart_by(m, closed) if opened else 0.0
    rates: Any = 0.0
    left: Any = 0.0
    for part in closed.solved:
        rows, columns = list(part.group.loops.rows), list(part.group.loops.columns)
        if part.group.redundant and opened:  # they hold for a generic motion as well
            probe = part.probe(reach)
            lost = part.block(part.group.redundant, columns) @ probe * (1.0 / units[list(part.group.redundant)])
            weak = weak + where(largest(lost) > (RESIDUAL + CLOSURE * apart) * total(probe * (1.0 / reach[columns])), 1.0, 0.0)
        if v is not None:
            rate, right = constraint_motion(closed.tree, closed.q, v, part.group.loops)
            rates = maximum(rates, largest(rate * (1.0 / units[rows])))
            if vdot is not None:
                left = maximum(left, largest((part.jacobian @ vdot[columns] - right) * (1.0 / units[rows])))
    speed = None if v is None else total(v)
    most = None if vdot is None or speed is None else total(vdot) + speed * speed
    return _flags(weak > 0.0, 0.0, apart, rates, speed, left, most)


def following_flags(m: Model, following: all_constraints.Following, v: Any = None, opened: bool = True) -> Any:
    """Return the flags of a state at which coordinates were to follow from others; loops may be open without `opened`."""
    apart = largest(following.loops.values) if opened else 0.0
    lost: Any = 0.0
    for lacking, residual, size in following.sure:
        lost = lost + where((lacking > 0.0) | (residual > (CONSISTENT + CLOSURE * apart) * size + 1e-12), 1.0, 0.0)
    rates: Any = 0.0
    if v is not None:
        rates = largest(constraint_motion(following.tree, following.q, v)[0] * (1.0 / np.array(loop_units(m))))
    return _flags(0.0, lost > 0.0 if opened else 0.0, apart, rates, None if v is None else total(v))


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
    constraints are measured by. Without the number of a constraint, a pivot has no units.
    """
    found: Any = 1.0
    finite: Any = 0.0
    for smallest, most, sum_of_all in _stages(pivots, scale, mark, 1e-300):
        found, finite = minimum(found, smallest / most), finite + sum_of_all
    return where(finite >= 0.0, maximum(found, 0.0), 0.0)


def _weaker(pivots: Any, scale: Any, least: float, mark: Callable[[], None], floor: float = 1e-300) -> Any:
    """Return whether the strength of a plan is less than this.

    A stage in which all is smaller than the floor, where constraints or coordinates vanish, is compared with that.
    """
    weak: Any = False
    finite: Any = 0.0
    for smallest, most, sum_of_all in _stages(pivots, scale, mark, floor):
        weak, finite = (smallest < least * most) | weak, finite + sum_of_all
    return (finite != finite) | weak


def _stages(pivots: Any, scale: Any, mark: Callable[[], None], floor: float) -> Iterator[tuple[Any, Any, Any]]:
    """Yield of each stage the smallest pivot, the largest of what they are compared with, and the sum of all, which is NaN where one is."""
    for n, stage in enumerate(pivots):
        if n % STAGES == 0:
            mark()
        smallest: Any = 1e300
        most: Any = floor
        everything: Any = 0.0
        for i, pivot, size in stage:
            unit = 1.0 if i is None else 1.0 / scale[i] ** 2
            smallest, most = minimum(smallest, pivot * unit), maximum(most, size * unit)
            everything = everything + pivot
        yield smallest, most, everything


def _flags(weak: Any, singular: Any, apart: Any, rates: Any, speed: Any = None, left: Any = 0.0, most: Any = None) -> Any:
    """Return the flags of a state, added up.

    From the largest values of all constraints, their rates beside the speed of the joints, and what accelerations leave of them beside
    their size, where these are known.
    """
    found: Any = where(apart > LOOSE, float(OPEN), 0.0)
    if speed is not None:
        found = found + where(opens(rates, speed), float(OPENING), 0.0)
    if most is not None:
        found = found + where(left > LOOSE * most + 1e-12, float(BREAKING), 0.0)
    return found + where(weak, float(WEAK), 0.0) + where(singular, float(SINGULAR), 0.0)


def opens(rates: Any, speed: Any) -> Any:
    """Return whether velocities open the loops: the largest rate of all constraints, without units, beside the speed of the joints."""
    return rates > LOOSE * speed + 1e-12


def either(one: Any, other: Any) -> Any:
    """Return the flags of a state of which two parts were solved: those of one of them, if it has any, else those of the other."""
    return where(one > 0.0, one, other)


def largest(values: Any, mark: Callable[[], None] = lambda: None) -> Any:
    """Return the largest of numbers, by size."""
    found: Any = 0.0
    for n, value in enumerate(values):
        if n % PART == 0:
            mark()
        found = maximum(found, abs(value))
    return found


def total(x: Any, mark: Callable[[], None] = lambda: None) -> Any:
    """Return the sum of the sizes of numbers."""
    found: Any = 0.0
    for n, entry in enumerate(x):
        if n % PART == 0:
            mark()
        found = found + abs(entry)
    return found
