"""Plans: how they are made for each method that closes loops, at which configurations, and which one serves a state.

A plan says which coordinates depend on which, and which constraints are independent. Code is compiled for a plan, and checks itself: a
state that its plan does not serve is solved by pivots chosen at run time, which fit every configuration and take longer.

Kernels have the plan of a generic configuration, or of one that the user gives. Runs begin with that plan if it is well conditioned where
they start, or else with one made there. Where its conditioning falls below a limit, pivots take over; after some steps the run looks
whether its plan, or another, serves again. The number of independent constraints is that of the state that the run begins at: it does not
change along a motion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ModelError
from catena.formulations.loops.constraints import row_names
from catena.formulations.loops.partitions import CoordinatePartition
from catena.loops import platform_plans, reduction_plans
from catena.loops.assembly import assemble, closing
from catena.loops.mobility import branches, generic, independent_rows, partition, rank, regular
from catena.loops.projection import LoopPlan, LoopSolver, projection_kernel
from catena.model import Mechanism
from catena.tolerances import INTEGRATED, PLAN_WEAK, PLAN_WORSE, RESUMED, SINGULAR

#: The method whose plan says where coordinates are eliminated, and that of platforms on legs; plans of the other methods are the
#: constraints that are independent.
REDUCTION, PLATFORMS = "coordinate-reduction", "denoc"

#: The most coordinates of mechanisms for which runs make plans, and code, on the way, in a fraction of a second. That for more takes
#: longer, and is made before a run begins.
MADE_ON_THE_WAY = 12


# plans for a configuration


def plan_of(m: Mechanism, method: str, q: Any) -> Any:
    """Return the plan of a method that closes loops for a configuration; where joints are driven, of a mechanism at a time."""
    if method == REDUCTION:
        return reduction_plans.reduction_plan(m, q)
    return platform_plans.platform_plan(m, q) if method == PLATFORMS else independent_rows(m, q)


class WithCoordinates(NamedTuple):
    """The plan of a method, and the coordinates that depend with it."""

    plan: Any
    coordinates: CoordinatePartition


def plan_with_coordinates(m: Mechanism, method: str, q: Any) -> WithCoordinates:
    """Return the plan of a method that closes loops for a configuration, and the coordinates that depend with it."""
    if method == REDUCTION:
        plan = plan_of(m, method, q)
        return WithCoordinates(plan, reduction_plans.dependent_coordinates(m, plan))
    coordinates = partition(m, q)
    return WithCoordinates(plan_of(m, method, q) if method == PLATFORMS else coordinates.rows, coordinates)


def explained(m: Mechanism, method: str, plan: Any) -> str:
    """Return a plan of a method in words."""
    if method == REDUCTION:
        return reduction_plans.explanation(m, plan)
    if method == PLATFORMS:
        return platform_plans.explanation(m, plan)
    loops = row_names(m.tree())
    held = Counter(loops[i] for i in plan)
    return "\n".join(f"'{name}': {held[name]} of {count} constraints, by multipliers" for name, count in Counter(loops).items())


def eliminated(method: str, plan: Any) -> frozenset[int]:
    """Return the constraints that the accelerations of a plan meet by elimination, as well as its pivots tell.

    Platforms move as a walk has found that they do; where they do not, constraints of their legs tell.
    """
    return frozenset() if method == PLATFORMS else frozenset(getattr(plan, "chosen", plan))


# the configuration of kernels


def configuration(
    m: Mechanism, at: Any, suits: Callable[[Mechanism, np.ndarray], bool] = lambda m, q: True
) -> tuple[Mechanism, np.ndarray]:
    """Return the configuration that a user gives for a plan, or else a generic one, after the mechanism at its time.

    Where the generic one does not suit, one on another branch may. Refuse what leaves a loop open.
    """
    if at is None:
        return generic(m) if suits(*generic(m)) else next((other for other in branches(m) if suits(*other)), generic(m))
    now = m.at(0.0)
    return now, assemble(now, closing(now, "at", at))


# the plans of a run


class Selected(NamedTuple):
    """A plan that a run uses, the conditioning down to which it is good, and the time and configuration that it was made for."""

    loop_plan: LoopPlan
    limit: float
    t: float
    q: np.ndarray


class Since(NamedTuple):
    """From when on a run uses a plan, and which."""

    t: float
    selected: Selected


class PlanLibrary:
    """The plans of a mechanism by a method, state by state. Configurations are those at a time, where joints are driven."""

    def __init__(self, model: Mechanism, method: str) -> None:
        self.model, self.method = model, method

    @property
    def generic(self) -> Selected:
        """The plan that is tried first, made at a generic configuration; pivots where it is ill-conditioned even there."""

        def make() -> Selected | None:
            now, q = generic(self.model)
            return self.made_at(now.instant, q)

        return self.model.once("generic plan", self.method, make) or self.pivoted(0.0, generic(self.model)[1], 0)

    def made_at(self, t: float, q: np.ndarray) -> Selected | None:
        """Return the plan that is made for a configuration, if it is well conditioned there."""
        try:
            plan = plan_of(self.model.at(t), self.method, q)
        except ModelError:  # there is none; pivots serve
            return None
        loop_plan = LoopPlan(plan, len(plan))
        conditioning = self.conditioning(loop_plan, t, q)
        if not conditioning >= INTEGRATED:
            return None
        return Selected(loop_plan, max(INTEGRATED, min(PLAN_WEAK, PLAN_WORSE * conditioning)), t, q)

    def pivoted(self, t: float, q: np.ndarray, rank: int) -> Selected:
        """Return the use of pivots chosen at every evaluation, with a number of independent constraints."""
        return Selected(LoopPlan(None, rank), SINGULAR, t, q)

    def restored(self, planned: bool, rank: int, limit: float, t: float, q: np.ndarray) -> Selected:
        """Return what was selected before: the plan for a configuration, or pivots."""
        return Selected(LoopPlan(plan_of(self.model.at(t), self.method, q) if planned else None, rank), limit, t, q)

    def start(self, t: float, q: np.ndarray, plans: Sequence[Selected] | None = None) -> Selected | None:
        """Return the plan to begin with at a configuration; none where it is singular.

        It is one of the plans that are given; else the generic one, or one made for the configuration; or pivots where none of them serves.
        """
        now = self.model.at(t)
        if not regular(now, q):
            return None
        number = rank(now, q)
        for found in self._plans(t, q) if plans is None else plans:
            if found is not None and found.loop_plan.rank == number and self.conditioning(found.loop_plan, t, q) >= found.limit:
                return found
        found = self.pivoted(t, q, number)
        return found if self.conditioning(found.loop_plan, t, q) > SINGULAR else None

    def of_states(
        self, ranks: np.ndarray, t: np.ndarray, q: np.ndarray, given: Sequence[np.ndarray] = ()
    ) -> list[tuple[Selected, np.ndarray]]:
        """Return which of many states use which plan: the generic one where it has their rank and serves, and pivots elsewhere.

        So the choice for a state does not depend on the others. States close the loops, `ranks` are their numbers of independent
        constraints, and numbers that the model varies are `given`.
        """
        generic, serves, found = self.generic, np.zeros(len(q), dtype=bool), []
        if generic.loop_plan.plan is not None:
            at = np.flatnonzero(ranks == generic.loop_plan.rank)
            own = [x if len(x) == 1 else x[at] for x in given]
            serves[at] = self.conditioning_of(generic.loop_plan, t[at], q[at], own) >= generic.limit if len(at) else False
        if serves.any():
            found.append((generic, np.flatnonzero(serves)))
        for number in np.unique(ranks[~serves]).tolist():
            at = np.flatnonzero(~serves & (ranks == number))
            found.append((self.pivoted(float(t[at[0]]), q[at[0]], number), at))
        return found

    def first(self) -> Selected:
        """Return the plan of a step that is compiled before a state is known: the generic one, or pivots where that is ill-conditioned."""
        if self.generic.loop_plan.plan is not None:
            return self.generic
        now, q = generic(self.model)
        return self.pivoted(now.instant, q, rank(now, q))

    def _plans(self, t: float, q: np.ndarray) -> Iterator[Selected | None]:
        yield self.generic
        yield self.made_at(t, q)

    def conditioning(self, loop_plan: LoopPlan, t: float, q: np.ndarray) -> float:
        """Return the conditioning of a plan at a configuration, negative where that does not meet all constraints."""
        with np.errstate(all="ignore"):
            return float(LoopSolver(self.model, self.method, loop_plan).project(self.model.tree().at(t), q, np.zeros(self.model.nv)).signed)

    def conditioning_of(self, loop_plan: LoopPlan, t: Any, q: np.ndarray, given: Sequence[np.ndarray] = ()) -> Any:
        """Return the conditioning of a plan at configurations that close the loops, by compiled code; with what the model varies."""
        return projection_kernel(self.model, self.method, loop_plan)(t, q, np.zeros(self.model.nv), *given)[2]

    def resumed(self, last: Selected, t: float, q: np.ndarray) -> Selected | None:
        """Return the plan to go on with at a configuration, where pivots are in use since the last plan failed; or none."""
        if self.conditioning_of(last.loop_plan, t, q) >= RESUMED * last.limit:
            return last
        if self.model.nv > MADE_ON_THE_WAY:
            return None
        own = self.made_at(t, q)
        return own if own is not None and own.loop_plan.rank == last.loop_plan.rank and own.loop_plan != last.loop_plan else None

    def alternatives(self, loop_plan: LoopPlan) -> list[LoopPlan]:
        """Return what else a run that begins with a plan may come to use, if it makes no plans on the way."""
        if loop_plan.plan is not None:
            return [LoopPlan(None, loop_plan.rank)]
        generic = self.generic.loop_plan
        return [generic] if generic.plan is not None and generic.rank == loop_plan.rank else []
