"""What forward dynamics with loops returns: accelerations, the constraints there, and what tells how well a plan fits."""

from __future__ import annotations

from typing import Any, NamedTuple


class LoopSolution(NamedTuple):
    """Accelerations; values and rates of all constraints, and what the accelerations leave of them; the pivots of the plan.

    `pivots` has a list for each stage of elimination, of (constraint, square of the pivot, square of what it is compared with), in the
    units of the constraint; without units where the constraint is None. The plan is ill-conditioned where a pivot is small beside the
    largest that those of its stage are compared with.

    A method with multipliers has these too, and `rows`: the chosen constraints on the velocity coordinates, where joints outboard of each
    are free, which vanish where those of the Jacobian do. Its pivots are compared with entries of their own rows: both depend on masses.
    """

    vdot: Any
    values: Any
    rates: Any
    residual: Any
    pivots: Any
    multipliers: Any = None
    rows: Any = None


class PivotedSolution(NamedTuple):
    """Accelerations and multipliers; values and rates of all constraints, without units; and what is to be known of the state.

    `rank` is the number of independent constraints, `least` the smallest pivot and `undetermined` the number of coordinates that nothing
    holds and nothing moves; `residual` is what accelerations leave of the constraints, without units, and `bend` what is left of those of a
    generic velocity, relative to it; both are zero at regular states.
    """

    vdot: Any
    multipliers: Any
    values: Any
    rates: Any
    rank: Any
    least: Any
    undetermined: Any
    residual: Any
    bend: Any
