"""Flags of a state: whether it closes the loops, and whether the plan of a kernel serves it. Planned kernels return them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from catena.formulations.loops.basic_constraints import closure_residual, row_ranges
from catena.formulations.loops.closure_kinematics import loop_bodies, velocity_coordinates
from catena.formulations.loops.constraints import constraint_jacobian, constraint_motion
from catena.formulations.loops.dependence import DependentMap
from catena.formulations.loops.pivoted_constraints import PivotedMap, may_differ, total
from catena.formulations.loops.solutions import PivotedSolution
from catena.graph.functions import maximum, where
from catena.loops.conditioning import STAGES, ill_conditioned, largest, largest_residual, opens, pivots_of
from catena.loops.scaling import coordinate_units, loop_owners, loop_units
from catena.model import Mechanism, Tree
from catena.tolerances import CLOSURE, CONSISTENT, LOOSE, MULTIPLIER_PIVOT, PIVOT, RESIDUAL

#: Flags of a state: a loop is open; a velocity, an acceleration opens it; the plan does not fit; the state is singular.
OPEN, OPENING, BREAKING, WEAK, SINGULAR = 1, 2, 4, 8, 16


def solved_flags(m: Mechanism, solved: Any, tree: Tree, v: Any = None, met: Collection[int] = ()) -> Any:
    """Return the flags of a state, from what a method found; v is what the rates of the constraints belong to, zero if not given.

    Values and rates of all constraints are looked at, and what the accelerations leave of those that a plan does not meet by itself.
    """
    scale = 1.0 / np.array(loop_units(m))
    if solved.rows is not None:  # by multipliers
        weak = ill_conditioned(solved.pivots, 1.0 / scale, MULTIPLIER_PIVOT, tree.mark)
        for i, row in solved.rows.items():  # a row that vanishes is as large as its pivot
            reach = coordinate_units(m)[list(row)] * scale[i]
            weak = weak | (sum(x * x for x in reach * np.array(list(row.values()), dtype=object)) < MULTIPLIER_PIVOT)
    else:
        weak = ill_conditioned(solved.pivots, 1.0 / scale, PIVOT**2, tree.mark, PIVOT**2)
    open_by, rates = (largest(x * scale, tree.mark) for x in (solved.values, solved.rates))
    speed = total(v, tree.mark) if v is not None else 0.0
    # what the accelerations leave of each loop, beside what moves in it
    slack = RESIDUAL + CLOSURE * open_by
    away: Any = 0.0
    for n, (constraints, columns) in enumerate(around(tree)):
        rows = [i for i in constraints if i not in met and may_differ(solved.residual[i])]
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
    return _flags(weak | lacking, 0.0, open_by, rates, None if v is None else speed)


def around(tree: Tree) -> list[tuple[list[int], list[int]]]:
    """Return the constraints of each loop and coupling, and the velocity coordinates that are in them."""
    rows = row_ranges(tree.closures)
    loops = [(list(own), velocity_coordinates(tree, loop_bodies(tree, c))) for own, c in zip(rows, tree.closures, strict=True)]
    return [*loops, *(([sum(map(len, rows)) + i], [j for j, _ in c.coefficients]) for i, c in enumerate(tree.couplings))]


def pivoted_flags(solved: PivotedSolution, v: Any = None) -> Any:
    """Return the flags of a state whose pivots were chosen for it; v is what the rates of the constraints belong to."""
    open_by, rates = largest(solved.values), largest(solved.rates)
    slack = CONSISTENT + CLOSURE * open_by
    left = largest(solved.residual) > slack * (total(solved.vdot) + (0.0 if v is None else total(v) * total(v))) + 1e-12
    return _flags(0.0, (solved.bend > slack) | (solved.undetermined > 0.0) | left, open_by, rates, None if v is None else total(v))


def flags(m: Mechanism, closed: DependentMap, v: Any = None, vdot: Any = None, opened: bool = True) -> Any:
    """Return the flags of a state that was solved with a partition; loops may be open without `opened`."""
    units, reach = np.array(loop_units(m)), coordinate_units(m)
    weak: Any = 0.0
    for pivots, size in pivots_of(m, closed):
        for pivot in pivots:
            weak = weak + where(pivot >= PIVOT * size, 0.0, 1.0)
    open_by = largest_residual(m, closed) if opened else 0.0
    rates: Any = 0.0
    left: Any = 0.0
    for part in closed.groups:
        rows, columns = list(part.partition.loops.rows), list(part.partition.loops.columns)
        if part.partition.redundant and opened:  # they hold for a generic motion as well
            probe = part.probe(reach)
            lost = part.block(part.partition.redundant, columns) @ probe * (1.0 / units[list(part.partition.redundant)])
            weak = weak + where(largest(lost) > (RESIDUAL + CLOSURE * open_by) * total(probe * (1.0 / reach[columns])), 1.0, 0.0)
        if v is not None:
            rate, right = constraint_motion(closed.tree, closed.q, v, part.partition.loops)
            rates = maximum(rates, largest(rate * (1.0 / units[rows])))
            if vdot is not None:
                left = maximum(left, largest((part.jacobian @ vdot[columns] - right) * (1.0 / units[rows])))
    speed = None if v is None else total(v)
    most = None if vdot is None or speed is None else total(vdot) + speed * speed
    return _flags(weak > 0.0, 0.0, open_by, rates, speed, left, most)


def closing_flags(m: Mechanism, tree: Tree, q: Any, v: Any) -> Any:
    """Return the flags of a state that is only looked at: whether it closes the loops, and its velocity keeps them closed."""
    values, _ = constraint_jacobian(tree, q, closure_residual)
    open_by = largest(values * (1.0 / np.array([unit for _, unit in loop_owners(m, None)])))
    rates = largest(constraint_motion(tree, q, v)[0] * (1.0 / np.array(loop_units(m))))
    return _flags(0.0, 0.0, open_by, rates, total(v))


def following_flags(m: Mechanism, following: PivotedMap, v: Any = None, opened: bool = True) -> Any:
    """Return the flags of a state at which coordinates were to follow from others; loops may be open without `opened`."""
    open_by = largest(following.loops.values) if opened else 0.0
    lost: Any = 0.0
    for lacking, residual, size in following.checks:
        lost = lost + where((lacking > 0.0) | (residual > (CONSISTENT + CLOSURE * open_by) * size + 1e-12), 1.0, 0.0)
    rates: Any = 0.0
    if v is not None:
        rates = largest(constraint_motion(following.tree, following.q, v)[0] * (1.0 / np.array(loop_units(m))))
    return _flags(0.0, lost > 0.0 if opened else 0.0, open_by, rates, None if v is None else total(v))


def _flags(weak: Any, singular: Any, open_by: Any, rates: Any, speed: Any = None, left: Any = 0.0, most: Any = None) -> Any:
    """Return the flags of a state, added up, by values and rates of constraints, and what accelerations leave of them, where known."""
    found: Any = where(open_by > LOOSE, float(OPEN), 0.0)
    if speed is not None:
        found = found + where(opens(rates, speed), float(OPENING), 0.0)
    if most is not None:
        found = found + where(left > LOOSE * most + 1e-12, float(BREAKING), 0.0)
    return found + where(weak, float(WEAK), 0.0) + where(singular, float(SINGULAR), 0.0)
