"""How well conditioned the constraints of a state are, and how far it is from closing its loops; on any scalar.

Everything is measured without units: constraints by the size of their loop, coordinates by their reach, as `catena.loops.scaling` has them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from catena.formulations.loops.constraints import constraint_jacobian
from catena.formulations.loops.dependence import DependentMap
from catena.formulations.loops.pivoted_constraints import PART, Measures
from catena.graph.functions import maximum, minimum, where
from catena.loops.scaling import coordinate_units, loop_units
from catena.model import Mechanism, Tree
from catena.tolerances import LOOSE, PIVOT

#: Stages of a plan that make a region of the graph, as `PART` entries of long vectors do.
STAGES = 12


def measures(m: Mechanism) -> Measures:
    """Return what the constraints and velocity coordinates of a model are measured by."""
    return Measures(np.array(loop_units(m)), coordinate_units(m))


def conditioning(pivots: Any, scale: Any, mark: Callable[[], None] = lambda: None) -> Any:
    """Return how independent the constraints of a plan are of each other, the square of a sine; 0 where the solution is not a number.

    `pivots` are those of a method, stage by stage of the elimination: constraint, pivot, and what it is compared with; `scale` is what the
    constraints are measured by. Without the number of a constraint, a pivot has no units. A stage in which all is smaller than the square
    of `PIVOT`, where constraints or coordinates vanish, is compared with that.
    """
    found: Any = 1.0
    finite: Any = 0.0
    for smallest, most, sum_of_all in _stages(pivots, scale, mark, PIVOT**2):
        found, finite = minimum(found, smallest / most), finite + sum_of_all
    return where(finite >= 0.0, maximum(found, 0.0), 0.0)


def ill_conditioned(pivots: Any, scale: Any, least: float, mark: Callable[[], None], floor: float = 1e-300) -> Any:
    """Return whether the conditioning of a plan is worse than `least`; stages in which all vanishes are compared with the floor."""
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


def least_row(m: Mechanism, tree: Tree, q: Any, rows: Collection[int]) -> Any:
    """Return the least squared length of constraints, without units, which is small where one of them vanishes."""
    _, jacobian = constraint_jacobian(tree, q)
    units, reach, least = loop_units(m), coordinate_units(m), 1.0
    for i in rows:
        least = minimum(least, sum(x * x for x in jacobian[i] * (reach / units[i])))
    return least


def pivots_of(m: Mechanism, closed: DependentMap) -> list[tuple[list[Any], Any]]:
    """Return the pivots of each group of loops that was solved with a partition, and its largest entry, all without units."""
    units, columns, found = np.array(loop_units(m)), coordinate_units(m), []
    for part in closed.groups:
        rows, dependent = list(part.partition.rows), list(part.partition.dependent)
        scale = np.outer(1.0 / units[rows], columns[dependent])
        pivots = [abs(pivot) * unit for pivot, unit in zip(part.factor.pivots, scale.diagonal(), strict=True)]
        found.append((pivots, largest((part.block(rows, dependent) * scale).ravel())))
    return found


def largest_residual(m: Mechanism, closed: DependentMap) -> Any:
    """Return how far the loops are from being closed at most: relative to the mechanism's size, or in radians."""
    units, found = np.array(loop_units(m)), 0.0
    for part in closed.groups:
        found = maximum(found, largest(part.values * (1.0 / units[list(part.partition.loops.rows)])))
    return found


def opens(rates: Any, speed: Any) -> Any:
    """Return whether velocities open the loops: the largest rate of all constraints, without units, beside the speed of the joints."""
    return rates > LOOSE * speed + 1e-12


def largest(values: Any, mark: Callable[[], None] = lambda: None) -> Any:
    """Return the largest of numbers, by size; the last of them are looked at first, as inward passes come to them."""
    found: Any = 0.0
    for n, value in enumerate(reversed(values)):
        if n % PART == 0:
            mark()
        found = maximum(found, abs(value))
    return found
