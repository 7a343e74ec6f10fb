"""The loops of a run: how they are held, how well, and by what else where a plan loses its hold.

A run holds its loops by a plan, for which machine code is made: which coordinates depend on which constraints. How well it does is its
`strength`, the square of a sine: 1 where the pivots of the plan are as large as they can be, 0 where it holds nothing. Where the strength
falls below a limit, pivots that are chosen at every evaluation take over; they fit every configuration, and take longer. After some steps
the run looks whether its plan holds again, or whether another pays. The number of independent constraints is that of the state that the
run begins at: it does not change along a motion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from catena.assembly import gap
from catena.closed import REDUCTION, apart_by, largest, measures, opens, pivoted_flags, plan_of, strength
from catena.errors import ArgumentError, ModelError
from catena.formulations import METHODS
from catena.formulations.constraints import constraint_motion
from catena.formulations.cubic import all_constraints
from catena.formulations.partition import Closed
from catena.graph import Graph, Trace, where
from catena.kept import kept
from catena.kernels import loop_error
from catena.mobility import generic, rank, regular
from catena.model import Model, Tree
from catena.native import Kernel, compile_graph
from catena.planning import dependent_coordinates
from catena.scaling import loop_sizes, loop_units
from catena.tolerances import LOOSE

Array = Any
Plan = Any  # a method's own; it can be compared, and its length is the number of constraints

#: A plan holds until its strength is this part of what it was where it was made; at most until `_WEAK`. Beyond it the accelerations of
#: stages, which are not quite on the loops, depend on the plan, and steps lose accuracy.
_WORSE, _WEAK = 1e-1, 1e-2

#: Independent coordinates are integrated by plans that are at least so strong: errors of dependent ones grow by its inverse, and would
#: stay in the motion. A projection by kinetic energy, as that by pivots, takes them out.
_SURE = 1e-4

#: It takes over again from so many times the limit on.
_AGAIN = 2.0

#: A configuration at which the best pivots are not stronger than this is singular.
SINGULAR = 1e-12

#: Samples are put on the constraints whose pivots are at least this; nearer to a singular configuration they stay where they are, for what
#: is left of a constraint, divided by its pivot, would move them further than they are off.
_SAMPLED = 1e-5

#: Constraints are met to this, relative to the mechanism's size or in radians, those that are not in the plan too.
_APART = 1e-11

#: How often states are projected that do not meet them.
_PROJECTIONS = 4

#: Steps after which a run without a plan looks for one; and the most coordinates of mechanisms for which code is made on the way, in a
#: fraction of a second: that for more takes longer, and is made before a run begins.
LOOK, MADE_ON_THE_WAY = 64, 12


class Hold(NamedTuple):
    """How the loops are held: by a plan, or by pivots chosen at every evaluation; and the number of independent constraints."""

    plan: Plan | None
    rank: int


class Chosen(NamedTuple):
    """A hold, the least strength down to which it is good, and the time and configuration that its plan was made for."""

    hold: Hold
    limit: float
    t: float
    q: np.ndarray


class Held(NamedTuple):
    """From when on the loops of a run are held, and how."""

    t: float
    chosen: Chosen


def lasting(strength: Any, apart: Any) -> Any:
    """Return the strength of a hold, negative where its state does not meet all constraints: it would leave the branch of the motion."""
    return where(apart <= _APART, strength, -strength)


class Closing:
    """The loops of a model as they are held, by a method."""

    def __init__(self, model: Model, method: str, hold: Hold) -> None:
        closes = METHODS[method].closes
        assert closes is not None
        self.model, self.closes, self.method, self.hold = model, closes, method, hold
        self._units = np.array(loop_units(model))

    def forward_dynamics(self, tree: Tree, q: Array, v: Array, tau: Array, wrenches: Any) -> Array:
        """Return vdot."""
        if self.hold.plan is None:
            return all_constraints.accelerations(tree, q, v, tau, wrenches, measures=measures(self.model), rank=self.hold.rank)
        return self.closes.forward_dynamics(tree, q, v, tau, wrenches, plan=self.hold.plan).vdot

    def project(self, tree: Tree, q: Array, v: Array) -> tuple[Array, Array, Any, Any]:
        """Return a state that meets the constraints, for one that nearly does; the strength of the hold there, and what is left of all.

        By a plan of coordinate reduction the independent coordinates are kept: the others follow by two steps of Newton's, and their rates
        from the constraints. By other plans, it is the nearest state by kinetic energy; by pivots, that of least change, and its velocity
        the nearest by kinetic energy.
        """
        plan = self.hold.plan
        if plan is None:
            rank = self.hold.rank
            q, v, values, found = all_constraints.project(tree, q, v, self.model.moved, measures=measures(self.model), rank=rank)
            return q, v, where(found.rank >= rank, found.least * found.least, 0.0), largest(values)
        if self.method == REDUCTION:
            coordinates = dependent_coordinates(self.model, plan)
            for _ in range(2):
                q = self.model.moved(q, Closed(tree, q, coordinates).correction())
            closed = Closed(tree, q, coordinates)
            pivots = self.closes.forward_dynamics(tree, q, v, np.zeros(tree.nv), plan=plan).pivots
            return q, closed.rates(v), strength(pivots, self._units), apart_by(self.model, closed)
        q, v, pivots, values = self.closes.project(tree, q, v, self.model.moved, plan=plan)
        return q, v, strength(pivots, self._units), largest(values * (1.0 / self._units))


class Loops:
    """How the loops of a model are held, by a method, state by state. Configurations are those at a time, where joints are driven."""

    def __init__(self, model: Model, method: str) -> None:
        self.model, self.method = model, method

    @property
    def usual(self) -> Chosen:
        """The plan that is tried first, made at a generic configuration."""

        def make() -> Chosen | None:
            still, q = generic(self.model)
            return self.own(still._instant, q)

        return kept(self.model, "usual plan", self.method, make) or self.pivoted(0.0, generic(self.model)[1], 0)

    def own(self, t: float, q: np.ndarray) -> Chosen | None:
        """Return the plan that is made for a configuration, if it holds there."""
        try:
            plan = plan_of(self.model.at(t), self.method, q)
        except ModelError:  # none fits; pivots do
            return None
        hold = Hold(plan, len(plan))
        strength = self.strength(hold, t, q)
        if not strength >= _SURE:
            return None
        return Chosen(hold, max(_SURE, min(_WEAK, _WORSE * strength)), t, q)

    def pivoted(self, t: float, q: np.ndarray, rank: int) -> Chosen:
        """Return the hold by pivots chosen at every evaluation, of a number of independent constraints."""
        return Chosen(Hold(None, rank), SINGULAR, t, q)

    def again(self, planned: bool, rank: int, limit: float, t: float, q: np.ndarray) -> Chosen:
        """Return a hold that was chosen before, by a plan for a configuration or by pivots."""
        return Chosen(Hold(plan_of(self.model.at(t), self.method, q) if planned else None, rank), limit, t, q)

    def start(self, t: float, q: np.ndarray, plans: Sequence[Chosen] | None = None) -> Chosen | None:
        """Return the hold to begin with at a configuration; none where it is singular.

        It is one of the plans that are given; else the usual one, or one made for the configuration; or pivots where none of these holds.
        """
        still = self.model.at(t)
        if not regular(still, q):
            return None
        number = rank(still, q)
        for found in self._plans(t, q) if plans is None else plans:
            if found is not None and found.hold.rank == number and self.strength(found.hold, t, q) >= found.limit:
                return found
        found = self.pivoted(t, q, number)
        return found if self.strength(found.hold, t, q) > SINGULAR else None

    def _plans(self, t: float, q: np.ndarray) -> Iterator[Chosen | None]:
        yield self.usual
        yield self.own(t, q)

    def strength(self, hold: Hold, t: float, q: np.ndarray) -> float:
        """Return the strength of a hold at a configuration, negative where that does not meet all constraints."""
        with np.errstate(all="ignore"):
            _, _, *held = Closing(self.model, self.method, hold).project(self.model.tree().at(t), q, np.zeros(self.model.nv))
        return float(lasting(*held))

    def better(self, last: Chosen, t: float, q: np.ndarray) -> Chosen | None:
        """Return the plan to go on with at a configuration, where pivots hold the loops since the last plan lost its hold; or none."""
        if self.holding(last.hold)(t, q) >= _AGAIN * last.limit:
            return last
        if self.model.nv > MADE_ON_THE_WAY:
            return None
        own = self.own(t, q)
        return own if own is not None and own.hold.rank == last.hold.rank and own.hold != last.hold else None

    def others(self, hold: Hold) -> list[Hold]:
        """Return what else a run may come to hold its loops by that begins with a hold, if it makes no plans on the way."""
        if hold.plan is not None:
            return [Hold(None, hold.rank)]
        return [self.usual.hold] if self.usual.hold.plan is not None and self.usual.hold.rank == hold.rank else []

    def settled(self, t: np.ndarray, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return states (N, nq), (N, nv) at times (N,) that nearly close the loops, put on the constraints; how many of these are
        independent at each, and whether it is regular.
        """
        m = self.model

        def make() -> Kernel:
            trace = Trace("settled")
            tree = m.tree().traced(trace).at(trace.input("t"))
            q, v = trace.input("q", (m.nq,)), trace.input("v", (m.nv,))
            q, v, _, _ = all_constraints.project(tree, q, v, m.moved, measures=measures(m))
            solved = all_constraints.forward_dynamics(tree, q, v, np.zeros(m.nv), measures=measures(m))
            flag = pivoted_flags(solved, v)
            return compile_graph(trace.graph(q=q, v=v, rank=solved.rank, least=solved.least, flag=flag))

        q, v, ranks, least, flags = kept(m, "settled", (), make)(t, q, v)
        return q, v, ranks.astype(int), (flags == 0.0) & (least**2 > SINGULAR)

    def projection(self, hold: Hold) -> Kernel:
        """Return the kernel (t, q, v) -> q, v, strength, apart of `Closing.project`."""
        return projection(self.model, self.method, hold)

    def holding(self, hold: Hold) -> Kernel:
        """Return the kernel (t, q) -> strength of a plan at configurations that close the loops."""
        m, plan = self.model, hold.plan

        def make() -> Kernel:
            trace = Trace("holding")
            tree = m.tree().traced(trace).at(trace.input("t"))
            q, none = trace.input("q", (m.nq,)), np.zeros(m.nv)
            closes = METHODS[self.method].closes
            assert closes is not None
            found = closes.forward_dynamics(tree, q, none, none, plan=plan)
            return compile_graph(trace.graph(strength=strength(found.pivots, np.array(loop_units(m)))), method=self.method)

        return kept(m, "holding", (self.method, hold), make)


def projection(m: Model, method: str, hold: Hold) -> Kernel:
    """Return the kernel (t, q, v) -> q, v, strength, apart of `Closing.project`."""
    make = partial(compile_graph, projection_graph(m, method, hold), method=method, quick=True)
    return kept(m, "projection", (method, hold) if hold.plan is not None else hold, make)


def projection_graph(m: Model, method: str, hold: Hold) -> Graph:
    """Return the graph of `projection`."""

    def make() -> Graph:
        trace = Trace("projection")
        tree = m.tree().traced(trace).at(trace.input("t"))
        q, v = trace.input("q", (m.nq,)), trace.input("v", (m.nv,))
        q_new, v_new, strength, apart = Closing(m, method, hold).project(tree, q, v)
        return trace.graph(q=q_new, v=v_new, strength=strength, apart=apart)

    return kept(m, "projection graph", (method, hold) if hold.plan is not None else hold, make)


def opening(m: Model, t: Any, q: np.ndarray) -> np.ndarray:
    """Return how far the loops are open at configurations (N, nq) at times (N,): the worst, as a length [m] or an angle [rad]."""
    return kept(m, "loop error", (), lambda: loop_error(m))(*((t,) if m.driven_names else ()), q).max(axis=-1)


def closed(m: Model, t: np.ndarray, q: np.ndarray, v: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return states (N, nq), (N, nv) at times (N,) that nearly close the loops, put on the constraints, so many of them independent."""

    def make() -> Kernel:
        trace = Trace("closed")
        tree = m.tree().traced(trace).at(trace.input("t"))
        q, v = trace.input("q", (m.nq,)), trace.input("v", (m.nv,))
        q, v, values, _ = all_constraints.project(tree, q, v, m.moved, measures=measures(m), rank=rank, least=_SAMPLED)
        return compile_graph(trace.graph(q=q, v=v, apart=largest(values)), quick=True)

    project = kept(m, "closed", rank, make)
    q, v, apart = project(t, q, v)
    for _ in range(_PROJECTIONS - 1):
        rest = np.flatnonzero(~(apart <= _APART))
        if len(rest):
            q[rest], v[rest], apart[rest] = project(t[rest], q[rest], v[rest])
    return q, v


def check_velocities(m: Model, t: float, q: np.ndarray, v: np.ndarray, batch: tuple[int, ...], name: str) -> None:
    """Refuse velocities (N, nv) that open the loops at positions (N, nq) which close them at a time; as kernels do, so that what is left to
    correct is rounding.
    """
    units = np.array(loop_units(m))

    def rates(tree: Tree, q: Any, v: Any) -> Any:
        return largest(constraint_motion(tree, q, v)[0] * (1.0 / units))

    def make() -> Kernel:
        trace = Trace("loop rates")
        tree = m.tree().traced(trace).at(trace.input("t"))
        return compile_graph(trace.graph(rate=rates(tree, trace.input("q", (m.nq,)), trace.input("v", (m.nv,)))))

    # one state is not worth compiling for
    found = kept(m, "loop rates", (), make)(t, q, v) if len(q) > 1 else np.array([float(rates(m.tree().at(t), *q, *v))])
    opening = np.flatnonzero(opens(found, np.abs(v).sum(axis=1)))
    if len(opening):
        at = [int(k) for k in np.unravel_index(opening[0], batch)] or ""
        time = f", t={t:g}" if m.driven_names else ""
        raise ArgumentError(
            f"{name}{at} would open the loops of model '{m.name}', at a rate of {found[opening[0]]:.2g}; give velocities that keep them "
            f"closed, by m.project_velocity(q0, v0{time})"
        )


def check_closed(m: Model, t: float, q: np.ndarray, name: str, remedy: str) -> None:
    """Refuse positions (..., nq) that do not close the loops at a time."""
    states = q.reshape(-1, m.nq)
    suspects: Any = range(len(states))
    if len(states) > 1:  # what is not clear at once is looked at one by one
        suspects = np.flatnonzero(~(opening(m, t, states) <= LOOSE * min((1.0, *loop_sizes(m)))))
    for i in suspects:
        found = gap(m.at(t), states[i])
        if not found.sizes.max(initial=0.0) <= LOOSE:
            at = [int(k) for k in np.unravel_index(i, q.shape[:-1])] or ""
            raise ArgumentError(
                f"{name}{at} leaves loop '{found.worst}' of model '{m.name}' open, by {found.sizes.max():.2g} of its size or rad; {remedy}"
            )
