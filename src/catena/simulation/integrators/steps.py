"""One step of an integrator, on any scalar.

Positions move on the joint manifolds: within a step they are q = chart(q0, u) with local coordinates u that begin at 0 and change at the
rate `chart_rate(q, u, v)`, so that every method keeps its order and quaternions stay of unit length.

A step is a function `(flow, t, q, v, a, h) -> Step` of the time, the position, the velocity, the acceleration there and the step size, with
the `flow` of the mechanism. Those from momenta to momenta are in `symplectic`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from catena.errors import MethodError
from catena.graph import maximum, where
from catena.model import Mechanism
from catena.simulation.integrators import solving
from catena.simulation.integrators.flow import Step, combine, combined, square
from catena.simulation.integrators.symplectic import EXPLICIT, SYMPLECTIC
from catena.simulation.integrators.tableaus import TABLEAUS, Tableau

if TYPE_CHECKING:
    from catena.simulation.flows import Flow

Array = Any


@dataclass(frozen=True)
class Integrator:
    """An integrator: its step, its order, and what it can do."""

    name: str
    order: int
    step: Callable[..., Step]
    tableau: Tableau | None = None
    canonical: bool = False  # whether it steps from momenta to momenta

    def advance(self, flow: Flow, t: Any, q: Array, v: Array, a: Array, h: Any) -> Step:
        """Return a step whose end meets the constraints of the mechanism."""
        step = self.step(flow, t, q, v, a, h)
        projected = flow.project(t + h, step.q, step.v)
        if projected is None:
            return step
        if self.order <= 2:  # its steps end further from the constraints than one projection reaches
            projected = flow.project(t + h, projected.q, projected.v) or projected
        sound = square(np.concatenate([step.q, step.v])) < 1e300
        if self.implicit:
            sound = sound & solving.converged(step.correction)
        a1 = None if step.a is None else flow.acceleration(t + h, projected.q, projected.v)
        conditioning = where(sound, projected.signed, 1.0)  # a step that fails says nothing of the constraints
        return step._replace(q=projected.q, v=projected.v, a=a1, conditioning=conditioning, free=(step.q, step.v))

    @property
    def implicit(self) -> bool:
        """Whether a step has equations to solve."""
        return self.canonical or (self.tableau is not None and self.tableau.implicit)

    @property
    def stable(self) -> bool:
        """Whether steps longer than the time constants of passive forces are stable."""
        return (self.implicit and self.name not in EXPLICIT) or (self.tableau is not None and bool(self.tableau.w))

    @property
    def adaptive(self) -> bool:
        """Whether it estimates its error."""
        return self.tableau is not None and bool(self.tableau.error)

    @property
    def reuses_last(self) -> bool:
        """Whether a step ends with the acceleration that the next one begins with."""
        return self.tableau is not None and self.tableau.reuses_last


def _explicit(tableau: Tableau) -> Callable[..., Step]:
    def step(flow: Flow, t: Any, q: Array, v: Array, a: Array, h: Any) -> Step:
        zero = np.zeros(len(v))
        q_stage, v_stage = q, v
        slopes, accelerations = [flow.model.chart_rate(q, zero, v)], [a]
        for row, node in zip(tableau.a[1:], tableau.c[1:], strict=True):
            flow.mark()
            u, change = combined(flow, h, row, slopes, accelerations)
            q_stage, v_stage = flow.model.chart(q, u), v + change
            accelerations.append(flow.acceleration(t + node * h, q_stage, v_stage))
            slopes.append(flow.model.chart_rate(q_stage, u, v_stage))
        flow.mark()
        weighted = [weights for weights in (tableau.error, tableau.second) if weights]
        errors = tuple(np.concatenate(combined(flow, h, weights, slopes, accelerations)) for weights in weighted)
        if tableau.reuses_last:  # the last stage is the end of the step
            return Step(q_stage, v_stage, accelerations[-1], errors)
        u1, change = combined(flow, h, tableau.b, slopes, accelerations)
        return Step(flow.model.chart(q, u1), v + change, None, errors)

    return step


def _linearly_implicit(tableau: Tableau) -> Callable[..., Step]:
    """Return the step of a Rosenbrock-W method, whose linear part are passive forces: springs, dampers, friction and stops of joints, and
    springs, bushings and contacts of bodies.

        k = f + h W (s + gamma k),  W = [0 1; -K/M -D/M],  s = sum of w k of the stages before

    A stage takes the accelerations of the mechanism, and one solution with more armature of joints and more inertia of bodies that the
    ground holds. Forces between two moving bodies, S = U^T (gamma h D + (gamma h)^2 K) U, are entered by Woodbury's identity.
    """
    gamma = tableau.w[0][0]

    def step(flow: Flow, t: Any, q: Array, v: Array, a: Array, h: Any) -> Step:
        flow.mark()
        one_sided = _foreseen(flow, t, q, v, h, gamma * h) if flow.system.looks_ahead else _OneSided(t, q)
        ease = _easing(flow, v, one_sided, gamma * h)
        zero, moves = np.zeros(len(v)), partial(flow.model.chart_rate, q, np.zeros(len(v)))
        slopes: list[Array] = []
        accelerations: list[Array] = []
        for i, (row, linear, node) in enumerate(zip(tableau.a, tableau.w, tableau.c, strict=True)):
            flow.mark()
            if i == 0:
                rate, before, before_rate = moves(v), zero, zero
                acceleration = a if one_sided.law is None else one_sided.acceleration(flow, t, q, v)
            else:
                u, v_stage = combine(h, row, slopes), v + combine(h, row, accelerations)
                q_stage = flow.model.chart(q, u)
                acceleration = one_sided.acceleration(flow, t + node * h, q_stage, v_stage)
                rate = flow.model.chart_rate(q_stage, u, v_stage)
                before, before_rate = combine(h, linear[:-1], slopes), combine(h, linear[:-1], accelerations)
            flow.mark()
            rate = rate + moves(before_rate)
            shift = flow.model.cayley_velocity(q, zero, before + (gamma * h) * rate)  # along the velocities
            accelerations.append(acceleration - ease(acceleration, shift, before_rate))
            slopes.append(rate + (gamma * h) * moves(accelerations[-1]))
        flow.mark()
        u1, v1 = combine(h, tableau.b, slopes), v + combine(h, tableau.b, accelerations)
        error = np.concatenate([combine(h, tableau.error, slopes), combine(h, tableau.error, accelerations)])
        return Step(flow.model.chart(q, u1), v1, None, (error,))

    return step


#: How often a fixed step looks ahead: each look finds the stops and contacts into which those of the last look throw the bodies. Chains of
#: two to four light links that fall onto their stops enter some of these unforeseen with three looks, and none with four.
LOOKS = 4

#: By how much passive forces ease an acceleration: a function of it, of a shift of positions and of a change of velocities.
_Ease = Callable[[Array, Array, Array], Array]


class _OneSided(NamedTuple):
    """How stops and contacts act in a step: by a linear law, as at a configuration in its middle; without one, as they are."""

    t: Any
    q: Array
    law: Array | None = None
    here: Array | None = None  # their depths at the beginning

    def acceleration(self, flow: Flow, t: Any, q: Array, v: Array) -> Array:
        """Return the acceleration at a state of a stage."""
        if self.law is None:
            return flow.acceleration(t, q, v)
        deeper = flow.named("here", t, q)["depths"] - self.here
        return flow.acceleration(t, q, v, flow.evaluate("pushes", self.t, self.q, v, self.law, deeper))


def _foreseen(flow: Flow, t: Any, q: Array, v: Array, h: Any, gamma_h: Any) -> _OneSided:
    """Return the linear laws by which stops and contacts act in a step: those to which the velocity leads, then those to which the
    velocity leads which the first ones leave, for a joint that strikes its stop may throw the next one into its own.

    They are as stiff as the deepest point asks that any look finds, by a mean velocity, or by the one at the end of the step. Later looks
    go half the way, so that they do not alternate between a contact that is too strong and one that is too weak.
    """
    zero, moves = np.zeros(len(v)), partial(flow.model.chart_rate, q, np.zeros(len(v)))
    start = flow.named("here", t, q)
    change = found = zero
    here, deepest, acting = start["depths"], np.full(flow.system.one_sided, -np.inf), _OneSided(t, q)
    for look in range(LOOKS):
        flow.mark()
        if acting.law is not None:
            a = acting.acceleration(flow, t, q, v)
            found = a - _easing(flow, v, acting, gamma_h)(a, gamma_h * v, zero)
            change = found if look == 1 else 0.5 * (change + found)
        mean, last = h * moves(v + gamma_h * change), h * moves(v + h * found)
        end, further = (flow.named("ahead", t + h, flow.model.chart(q, u), start.get("separations")) for u in (mean, last))
        for depths in (end["deepest"], further["deepest"]):
            deepest = np.array([maximum(x, y) for x, y in zip(deepest, depths, strict=True)])
        part = end["middle"]
        t_mid, q_mid = t + part * h, flow.model.chart(q, part * mean)
        law = flow.evaluate("law", t_mid, q_mid, v + (0.5 * h) * change, here, end["depths"], deepest, end["passing"], h)
        acting = _OneSided(t_mid, q_mid, law, here)
    return acting


def _easing(flow: Flow, v: Array, one_sided: _OneSided, gamma_h: Any) -> _Ease:
    """Return by how much passive forces ease accelerations in a step."""
    t, q, law, _ = one_sided
    slopes = flow.named("slopes", t, q, v, law)
    stiffness, damping = slopes["by_position"], slopes["by_velocity"]
    armature = gamma_h * damping + (gamma_h * gamma_h) * stiffness
    bodies = slopes.get("bodies")
    added = None if bodies is None else gamma_h * bodies[:, 1] + (gamma_h * gamma_h) * bodies[:, 0]

    def without_links(acceleration: Array, shift: Array, rate: Array) -> Array:
        pull = stiffness * shift + damping * rate
        force = armature * acceleration + pull
        if bodies is not None:
            force = force + flow.evaluate("opposed", t, q, bodies, added, acceleration, shift, rate)
        return flow.evaluate("eased", t, q, armature, added, force)

    if "links" not in slopes:
        return without_links
    U, links = slopes["along"], slopes["links"]
    Z = flow.evaluate("responses", t, q, armature, added, U)
    K, D = (_diagonal([link[i] for link in links]) for i in (0, 1))
    S = gamma_h * D + (gamma_h * gamma_h) * K
    flow.mark()
    small = flow.solved(np.eye(len(S)) + S @ (U @ Z.T), np.eye(len(S)))

    def ease(acceleration: Array, shift: Array, rate: Array) -> Array:
        flow.mark()
        pull = S @ (U @ acceleration) + K @ (U @ shift) + D @ (U @ rate)  # of the links, along their rows
        eased = without_links(acceleration, shift, rate)
        flow.mark()
        return eased + Z.T @ (small @ (pull - S @ (U @ eased)))

    return ease


def _diagonal(blocks: list[Array]) -> Array:
    """Return the matrix with blocks on its diagonal."""
    matrix = np.zeros((3 * len(blocks), 3 * len(blocks))).astype(object)
    for i, block in enumerate(blocks):
        matrix[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] = block
    return matrix


def _semi_implicit_euler(flow: Flow, t: Any, q: Array, v: Array, a: Array, h: Any) -> Step:
    """Velocity first, then the position with the new velocity."""
    v1 = v + h * a
    rate = flow.model.chart_rate(q, np.zeros(len(v)), v1)
    return Step(flow.model.chart(q, h * rate), v1)


def _implicit(tableau: Tableau) -> Callable[..., Step]:
    """Return the step of a collocation method, solved for the accelerations of its stages.

    The local coordinates are around the middle of the step, from -half to half, so that a symmetric method stays symmetric on rotations.
    Newton's iteration with the derivatives at the start of the step; very large mechanisms by plain iteration.
    """
    coefficients = np.array(tableau.a)
    least = solving.LEAST * float(np.linalg.norm(np.linalg.pinv(coefficients @ coefficients)))  # of accelerations, times h^2
    stages = range(tableau.stages)
    iterations = max(solving.ITERATIONS, 2 * tableau.order + 2)  # what is left of the equations should be less than the method's error

    def step(flow: Flow, t: Any, q: Array, v: Array, a: Array, h: Any) -> Step:
        n = len(v)
        newton = n * tableau.stages <= solving.LARGEST_JACOBIAN
        solve = None
        if newton:
            near = flow.linearised(t, q, v, a)
            matrix = solving.matrix(near, h, coefficients, coefficients @ coefficients)
            solve = partial(flow.product, flow.solved(matrix, np.kron(np.eye(tableau.stages), near.inertia)))
        accelerations = [a for _ in stages]
        rate = flow.model.chart_rate(q, np.zeros(n), v)
        half = (0.5 * h) * rate
        u = [((tableau.c[i] - 0.5) * h) * rate for i in stages]
        correction: Any = 0.0
        for _ in range(iterations if newton else 3 * iterations):
            flow.mark()
            speeds = [v + combine(h, tuple(coefficients[i]), accelerations) for i in stages]
            middle = flow.model.chart(q, half)
            slopes = [flow.model.chart_rate(flow.model.chart(middle, u[i]), u[i], speeds[i]) for i in stages]
            half = 0.5 * combine(h, tableau.b, slopes)
            last, u = u, [combine(h, tuple(coefficients[i]), slopes) - half for i in stages]
            middle = flow.model.chart(q, half)
            wanted = [flow.acceleration(t + tableau.c[i] * h, flow.model.chart(middle, u[i]), speeds[i]) for i in stages]
            residual = np.concatenate([wanted[i] - accelerations[i] for i in stages])
            change = solve(residual) if solve is not None else residual
            accelerations = [accelerations[i] + change[i * n : (i + 1) * n] for i in stages]
            scale = square(np.concatenate(accelerations)) + (least / (h * h)) ** 2
            moved = np.concatenate(u) - np.concatenate(last)
            correction = np.sqrt(square(change) / scale + square(moved) / (1.0 + square(np.concatenate(u))))
        flow.mark()
        v1 = v + combine(h, tableau.b, accelerations)
        return Step(flow.model.chart(q, 2.0 * half), v1, None, (), correction)

    return step


_INTEGRATORS = (
    Integrator("semi-implicit-euler", 1, _semi_implicit_euler),
    *(
        Integrator(tab.name, tab.order, (_linearly_implicit if tab.w else _implicit if tab.implicit else _explicit)(tab), tab)
        for tab in TABLEAUS.values()
    ),
    *(Integrator(name, order, step, canonical=True) for name, (order, step) in SYMPLECTIC.items()),
)

#: The integrators by name.
INTEGRATORS: dict[str, Integrator] = {integrator.name: integrator for integrator in _INTEGRATORS}


def integrator(name: str, m: Mechanism) -> Integrator:
    """Return an integrator of a model by its name."""
    if name not in INTEGRATORS:
        why = "adapts its steps, and is for ct.simulate" if name.startswith("scipy:") else "is unknown"
        raise MethodError(f"integrator '{name}' {why}; choose from {', '.join(INTEGRATORS)}, in ct.simulate scipy:Radau, BDF or LSODA too")
    chosen = INTEGRATORS[name]
    if chosen.canonical and m.has_loops:
        raise MethodError(
            f"integrator '{name}' steps from momenta to momenta, and does not keep the loops of model '{m.name}' closed; "
            "use 'gauss-legendre-4' or 'rk4'"
        )
    return chosen
