"""The loops of a run: the plan by which a method holds them, how well it does, and which other takes over where it does not.

A plan says which constraints are independent, and what a method needs to know besides; it belongs to a configuration, and machine code is
made for one plan. How well a plan holds a state is its `strength`, the square of a sine: 1 where its constraints are independent of each
other, 0 where they are not. A run goes on with a plan while the strength stays above a limit, which is part of its state, and the
constraints that were left out are met too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from catena.assembly import coordinate_units, gap, loop_units, mechanism_size
from catena.closed import LOOSE, REDUCTION, apart_by, largest, plan_of, strength
from catena.errors import ArgumentError
from catena.formulations import METHODS
from catena.formulations.constraints import constraint_jacobian
from catena.formulations.partition import Closed
from catena.graph import Trace, maximum, minimum, where
from catena.kept import kept
from catena.kernels import loop_error
from catena.mobility import configurations
from catena.model import Model, Tree
from catena.native import Kernel, compile_graph
from catena.planning import dependent_coordinates
from catena.registry import solution

Array = Any
Plan = Any  # a method's own; it can be compared, and its length is the number of constraints

#: A plan holds until its strength is this part of what it was where it was made; at most until `_WEAK`. Beyond it the accelerations of
#: stages, which are not quite on the loops, depend on the plan, and steps lose accuracy.
_WORSE, _WEAK = 1e-1, 1e-2

#: A configuration at which no plan is stronger than this is singular.
SINGULAR = 1e-10

#: Independent coordinates are integrated by plans that hold from this strength on. Dependent rates follow from them to about 1e-16 of its
#: inverse; what is nearest by kinetic energy is more accurate below.
_SURE = 1e-4

#: Constraints are met to this, relative to the mechanism's size or in radians, those that are not in the plan too.
_APART = 1e-11

#: How often states are projected again that do not meet them.
_AGAIN = 3

#: A plan is made for a state where the known ones have less than this part of their strength, and the constraints are no cause of it.
_LEAST = 1e-2

#: How many plans are known at most; steps of the walk on which they are found, of the usual one and of others.
_KNOWN, _NEAR, _FAR = 8, 3, 16


def limit_of(strength: Any) -> Any:
    """Return down to which strength a plan holds that has this strength where it is made."""
    return np.maximum(SINGULAR, np.minimum(_WEAK, _WORSE * strength))


def renewed(limit: Any, strength: Any) -> Any:
    """Return the limit after a step: where the plan has become stronger, it is held to more."""
    return maximum(limit, minimum(_WEAK, _WORSE**2 * strength))


def near(limit: Any) -> Any:
    """Return whether the plan of a run is held down to so small a limit that steps end at the nearest state that meets the constraints."""
    return limit < _SURE


def lasting(strength: Any, apart: Any) -> Any:
    """Return the strength of a plan, negative where its state does not meet all constraints: it would leave the branch of the motion."""
    return where(apart <= _APART, strength, -strength)


class Closing:
    """A plan that holds the loops of a model, by a method; whether steps end at the nearest state, or keep the independent coordinates."""

    def __init__(self, model: Model, method: str, plan: Plan, near: bool) -> None:
        closes = METHODS[method].closes
        assert closes is not None
        self.model, self.closes, self.plan, self.near = model, closes, plan, near or method != REDUCTION
        self._units = np.array(loop_units(model))

    def forward_dynamics(self, tree: Tree, q: Array, v: Array, tau: Array, wrenches: Any) -> Array:
        """Return vdot."""
        return self.closes.forward_dynamics(tree, q, v, tau, wrenches, plan=self.plan).vdot

    def project(self, tree: Tree, q: Array, v: Array) -> tuple[Array, Array, Any, Any]:
        """Return a state that meets the constraints, for one that nearly does; the strength of the plan there, and what is left of all.

        The independent coordinates are kept: the others follow by two steps of Newton's, and their rates from the constraints. Or it is the
        nearest state by kinetic energy.
        """
        if not self.near:
            coordinates = dependent_coordinates(self.model, self.plan)
            for _ in range(2):
                q = self.model.chart(q, Closed(tree, q, coordinates).correction())
            closed = Closed(tree, q, coordinates)
            pivots = self.closes.forward_dynamics(tree, q, v, np.zeros(tree.nv), plan=self.plan).pivots
            return q, closed.rates(v), strength(pivots, self._units), apart_by(self.model, closed)
        q, v, pivots, values = self.closes.project(tree, q, v, self.model.chart, plan=self.plan)
        return q, v, strength(pivots, self._units), largest(values * (1.0 / self._units))


class Held(NamedTuple):
    """How the loops of a state are held: by a plan, and whether steps end at the nearest state."""

    plan: Plan
    near: bool


class Chosen(NamedTuple):
    """A plan, the time and configuration that it is made for, and its strength at one."""

    plan: Plan
    t: float
    q: np.ndarray
    strength: float


class Settled(NamedTuple):
    """States that are put on the constraints: (N, nq), (N, nv); the plans that hold them, each with its states; and the strengths, (N,)."""

    q: np.ndarray
    v: np.ndarray
    plans: dict[Plan, np.ndarray]
    strength: np.ndarray


class Loops:
    """The plans that hold the loops of a model, by a method, state by state.

    Plans are compiled, so that few are better than the best. Some are known: a usual one, and others that are found on a walk through the
    configurations; they belong to the model. A state is held by the first of them that is about as strong there as where it was made, else
    by the strongest; where that is weak too, by a plan of its own. So the choice does not depend on other states.

    Configurations are those at a time, which matters where joints are driven.
    """

    def __init__(self, model: Model, method: str) -> None:
        self.model, self.method = model, method

    def plan(self, t: float, q: np.ndarray) -> Plan:
        """Return the plan for a configuration."""
        return plan_of(self.model.at(t), self.method, q)

    @property
    def usual(self) -> Chosen:
        """The plan that is tried first, at a configuration that is none of the special ones."""
        return kept(self.model, "usual plan", self.method, lambda: max(self._walk(_NEAR), key=lambda chosen: chosen.strength))

    @property
    def known(self) -> tuple[Chosen, ...]:
        """The plans that are tried, the usual one first."""
        return kept(self.model, "known plans", self.method, self._known)

    def _known(self) -> tuple[Chosen, ...]:
        found = {self.usual.plan: self.usual}
        for chosen in self._walk(_FAR):
            if chosen.strength >= _WORSE * self.usual.strength and len(found) < _KNOWN:
                found.setdefault(chosen.plan, chosen)
        return tuple(found.values())

    def _walk(self, steps: int) -> Iterator[Chosen]:
        """Yield plans for configurations that a walk along the motions of the mechanism comes to."""
        for still, q in configurations(self.model, steps):
            yield self.own(still._instant, q)

    # one state, in floats

    def start(self, t: float, q: np.ndarray) -> Chosen:
        """Return the plan to begin with at a configuration."""
        strength = self.strength(self.usual.plan, t, q)
        return self.usual._replace(strength=strength) if strength >= limit_of(self.usual.strength) else self.other(t, q, self.usual.plan)

    def own(self, t: float, q: np.ndarray) -> Chosen:
        """Return the plan that is made for a configuration."""
        plan = self.plan(t, q)
        return Chosen(plan, t, q, self.strength(plan, t, q))

    def strength(self, plan: Plan, t: float, q: np.ndarray) -> float:
        """Return the strength of a plan at a configuration."""
        with np.errstate(all="ignore"):
            _, _, *held = Closing(self.model, self.method, plan, near=True).project(self.model.tree().at(t), q, np.zeros(self.model.nv))
        return float(lasting(*held))

    # many states, compiled

    def settle(self, t: np.ndarray, q: np.ndarray, v: np.ndarray) -> Settled:
        """Return states at times (N,), (N, nq), (N, nv) that nearly close the loops, put on the constraints; each with its plan there."""
        usual, limit = self.usual.plan, limit_of(self.usual.strength)
        project = self.projection(usual)
        q_new, v_new, strength, apart = project(t, q, v)
        for _ in range(_AGAIN):
            rest = np.flatnonzero((strength >= limit) & ~(apart <= _APART))
            if len(rest):
                q_new[rest], v_new[rest], strength[rest], apart[rest] = project(t[rest], q_new[rest], v_new[rest])
        strong = (strength >= limit) & (apart <= _APART)
        plans, weak = {usual: np.flatnonzero(strong)}, np.flatnonzero(~strong)
        if len(weak):
            t_weak, q_weak = t[weak], q[weak]
            for i in np.flatnonzero(~(opening(self.model, t_weak, q_weak) <= _APART)):
                q_weak[i] = self.model.at(t_weak[i]).assemble(guess=q_weak[i])
            for plan, which in self.choose(t_weak, q_weak, usual).items():
                at = weak[which]
                q_new[at], v_new[at], strength[at], _ = self.projection(plan)(t_weak[which], q_weak[which], v[at])
                plans[plan] = np.union1d(plans.get(plan, at), at)
            for i in np.flatnonzero(~(strength[weak] > SINGULAR)):  # by the rank of all constraints
                q_new[weak[i]], v_new[weak[i]] = q_weak[i], self.model.at(t_weak[i]).project_velocity(q_weak[i], v[weak[i]])
        return Settled(q_new, v_new, plans, strength)

    def other(self, t: float, q: np.ndarray, plan: Plan) -> Chosen:
        """Return the plan to go on with at a configuration after one that weakens, as `choose` does."""
        (other,) = (other for other, which in self.choose(np.array([t]), q[None], plan).items() if len(which))
        made_for = next(((known.t, known.q) for known in self.known if known.plan == other), (t, q))
        return Chosen(other, *made_for, float(lasting(*self.projection(other)(t, q, np.zeros(self.model.nv))[2:])))

    def choose(self, t: np.ndarray, q: np.ndarray, plan: Plan) -> dict[Plan, np.ndarray]:
        """Return the plans to go on with at configurations (N, nq), at times (N,), after one that weakens, each with its own.

        The same one goes on where there is no better.
        """

        def strengths(plan: Plan) -> np.ndarray:
            return lasting(*self.projection(plan)(t, q, np.zeros(self.model.nv))[2:])

        now, found = strengths(plan), np.full((len(self.known), len(q)), -np.inf)
        fits = np.zeros(found.shape, dtype=bool)
        for k, known in enumerate(self.known):
            found[k] = now if known.plan == plan else strengths(known.plan)
            fits[k] = (found[k] >= limit_of(known.strength)) & (found[k] > now)
            if fits.any(axis=0).all():
                break
        which = np.where(fits.any(axis=0), fits.argmax(axis=0), found.argmax(axis=0))
        least = self._least(t, q) * np.array([known.strength for known in self.known])[which]
        enough = fits.any(axis=0) | (found.max(axis=0) >= least)
        plans = {known.plan: np.flatnonzero(enough & (which == k)) for k, known in enumerate(self.known)}
        for other, some in self.planned(t[~enough], q[~enough]).items():
            at = np.flatnonzero(~enough)[some]
            plans[other] = np.union1d(plans.get(other, at), at)
        return plans

    def planned(self, t: np.ndarray, q: np.ndarray) -> dict[Plan, np.ndarray]:
        """Return the plans that are made for configurations (N, nq), at times (N,), each with its configurations."""
        found: dict[Plan, list[int]] = {}
        for i in range(len(q)):
            found.setdefault(self.plan(t[i], q[i]), []).append(i)
        return {plan: np.array(which) for plan, which in found.items()}

    def _least(self, t: np.ndarray, q: np.ndarray) -> Any:
        """Return the least part of its strength that a known plan must have at configurations (..., nq), at times (...).

        Near a singular configuration no plan is strong, and those that are known are as good as others.
        """
        if len(self.known) == 1:
            return np.zeros(q.shape[:-1])

        def independence(t: Any, q: np.ndarray) -> Any:
            J = self._jacobian(t, q) * coordinate_units(self.model) / np.array(loop_units(self.model))[:, None]
            sizes = np.linalg.svd(J, compute_uv=False)
            return (sizes[..., len(self.usual.plan) - 1] / sizes[..., 0]) ** 2

        return _LEAST * np.minimum(1.0, independence(t, q) / independence(self.usual.t, self.usual.q))

    @property
    def _jacobian(self) -> Kernel:
        """The kernel (t, q) -> Jacobian of all constraints."""

        def make() -> Kernel:
            trace = Trace("constraint jacobian")
            tree = self.model.tree().traced(trace).at(trace.input("t"))
            return compile_graph(trace.graph(jacobian=constraint_jacobian(tree, trace.input("q", (self.model.nq,)))[1]))

        return kept(self.model, "constraint jacobian", (), make)

    def projection(self, plan: Plan, near: bool = True) -> Kernel:
        """Return the kernel (t, q, v) -> q, v, strength, apart of `Closing.project`."""
        closing = Closing(self.model, self.method, plan, near)

        def make() -> Kernel:
            trace = Trace("projection")
            tree = self.model.tree().traced(trace).at(trace.input("t"))
            q, v = trace.input("q", (self.model.nq,)), trace.input("v", (self.model.nv,))
            q_new, v_new, strength, apart = closing.project(tree, q, v)
            return compile_graph(trace.graph(q=q_new, v=v_new, strength=strength, apart=apart), method=self.method)

        return kept(self.model, "projection", (self.method, plan, closing.near), make)


def opening(m: Model, t: Any, q: np.ndarray) -> np.ndarray:
    """Return how far the loops are open at configurations (N, nq) at times (N,): the worst, as a length [m] or an angle [rad]."""
    return kept(m, "loop error", (), lambda: loop_error(m))(*((t,) if m.driven_names else ()), q).max(axis=-1)


def closed(m: Model, t: np.ndarray, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return states (N, nq), (N, nv) at times (N,) that nearly close the loops, put on the constraints."""
    return Loops(m, solution("forward_dynamics", "auto", m).name).settle(t, q, v)[:2]


def check_closed(m: Model, t: float, q: np.ndarray, name: str, remedy: str) -> None:
    """Refuse positions (..., nq) that do not close the loops at a time."""
    states = q.reshape(-1, m.nq)
    suspects: Any = range(len(states))
    if len(states) > 1:  # what is not clear at once is looked at one by one
        suspects = np.flatnonzero(~(opening(m, t, states) <= LOOSE * min(1.0, mechanism_size(m))))
    for i in suspects:
        found = gap(m.at(t), states[i])
        if not found.sizes.max(initial=0.0) <= LOOSE:
            at = [int(k) for k in np.unravel_index(i, q.shape[:-1])] or ""
            raise ArgumentError(
                f"{name}{at} leaves loop '{found.worst}' of model '{m.name}' open, by {found.sizes.max():.2g} of its size or rad; {remedy}"
            )
