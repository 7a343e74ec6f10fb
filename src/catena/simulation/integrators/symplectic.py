"""Steps that are symplectic: from positions and canonical momenta to positions and canonical momenta.

A step follows from a sum that stands for the action between its ends, S(q0, q1) = h sum b_i L(q_i, v_i), by p0 = -dS/dq0 and p1 = dS/dq1;
a step of this kind is symplectic, whatever the sum. Its stages have Cayley coordinates u around a position c within the step, so that they
are polynomials on rotations too:

    q_i = cayley(c, u_i),   u_i = u_0 + h sum a_ij V_j,   from u_0 = -centre d   to u_1 = (1 - centre) d,   d = h sum b_j V_j

Local coordinates that are chosen anew for every step are no fixed ones: the step of a symplectic method in them is symplectic only if the
derivative of S counts that c moves with q0 and q1. Doing so leaves two equations, where P_i are the momenta conjugate to u, F_i their
rates, and E those of the ends:

    the momenta in axes of the parent balance       parent(q1, p1) = parent(q0, p0) + h sum b_i d/dt parent(q_i, p_i)
    the stages lie between the ends, not after one  P_i = centre E_0 + (1 - centre) E_1 + h sum (A_ij - (1 - centre) b_j) F_j

with b_i A_ij + b_j a_ji = b_i b_j. Where coordinates are plain numbers this is the partitioned Runge-Kutta method a, A. Angular momentum is
conserved with its symmetry, to rounding; with the centre in the middle and a symmetric table the step is symmetric in time.

The stages are solved for the rates V, by Newton's iteration with the derivatives at the first guess; where there are many unknowns with
those at the start of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from catena.scalars.dual import moving, part
from catena.simulation.integrators import solving
from catena.simulation.integrators.flow import Step, combine, square
from catena.simulation.integrators.tableaus import TABLEAUS

if TYPE_CHECKING:
    from catena.simulation.flows import Flow

Array = Any

#: Newton iterations of a step.
_ITERATIONS = 6

#: Steps with more unknowns are solved with derivatives at the start of the step that leave out what turns with the bodies: the exact ones
#: take as many times the residual as there are unknowns.
_EXACT = 24

#: An acceleration that moves the mechanism further than this in a step [rad or m] is that of a stiff spring, and says little of its end.
_FAR = 0.1


class _Scheme(NamedTuple):
    """A partitioned Runge-Kutta method: a and b move positions, A and b momenta; `centre` is where in the step coordinates are around."""

    a: tuple[tuple[float, ...], ...]
    A: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    centre: float

    def __call__(self, flow: Flow, t: Any, h: Any, q: Array, p: Array, rates: Array) -> tuple[Array, Array, Array]:
        """Return what the momenta of the stages have beyond those that the step from (q, p) asks for; and the end of the step."""
        model, centre, each = flow.model, self.centre, np.split(rates, len(self.b))
        flow.mark()
        first, last = (combine(h, [share * b for b in self.b], each) for share in (-centre, 1.0 - centre))
        middle = model.cayley(q, -first)
        momenta, forces, balances = [], [], []
        for i, rate in enumerate(each):
            u = combine(h, [a - centre * b for a, b in zip(self.a[i], self.b, strict=True)], each)
            q_stage = model.cayley(middle, u)
            v = model.cayley_velocity(q_stage, u, rate)
            p_stage, pdot = flow.momenta(t + sum(self.a[i]) * h, q_stage, v)
            flow.mark()
            place, turning, changing = moving(q_stage, model.rate(q_stage, v)), moving(u, rate), moving(p_stage, pdot)
            conjugate = model.cayley_momentum(place, turning, changing)
            momenta.append(part(conjugate, "value"))
            forces.append(part(conjugate, "derivative"))
            balances.append(part(model.momentum_in_parent_axes(place, changing), "derivative"))
        flow.mark()
        q1 = model.cayley(middle, last)
        p1 = model.momentum_in_child_axes(q1, model.momentum_in_parent_axes(q, p) + combine(h, self.b, balances))
        ends = [model.cayley_momentum(q, first, p), model.cayley_momentum(q1, last, p1)]
        between = combine(1.0, (centre, 1.0 - centre), ends)
        wanted = [between + combine(h, [A - (1.0 - centre) * b for A, b in zip(row, self.b, strict=True)], forces) for row in self.A]
        return np.concatenate([has - asked for has, asked in zip(momenta, wanted, strict=True)]), q1, p1


_EULER = _Scheme(((0.0,),), ((1.0,),), (1.0,), 0.0)
_ADJOINT = _Scheme(((1.0,),), ((0.0,),), (1.0,), 1.0)


class _State(NamedTuple):
    """A position and its momenta; and how it was come to: the rates of the stages, and the last correction of them."""

    q: Array
    p: Array
    rates: Sequence[Array] = ()
    correction: Any = 0.0


def _collocation(name: str) -> Callable[..., Step]:
    tableau = TABLEAUS[name]
    scheme = _Scheme(tableau.a, tableau.a, tableau.b, 0.5)

    def step(flow: Flow, t: Any, q: Array, v: Array, a: Array, h: Any) -> Step:
        start = _State(q, flow.momenta(t, q, v)[0])
        trust = 1.0 / (1.0 + square((h * h / _FAR) * a))
        guess = [_rate(flow, q, v + (node * h * trust) * a) for node in tableau.c]
        return _end(flow, t + h, _advanced(scheme, flow, t, start, guess, h))

    return step


def _symplectic_euler(flow: Flow, t: Any, q: Array, v: Array, a: Array, h: Any) -> Step:
    """Momenta first, from the forces at the start and the new momenta; then the position with these."""
    return _end(flow, t + h, _euler(flow, t, q, v, h))


def _stormer_verlet(flow: Flow, t: Any, q: Array, v: Array, a: Array, h: Any) -> Step:
    """Half a step of symplectic Euler, and half a step of it backwards in time."""
    half = 0.5 * h
    middle = _euler(flow, t, q, v, half)
    guess = _nearer(_ADJOINT, flow, t + half, middle, middle.rates[0], half)
    end = _advanced(_ADJOINT, flow, t + half, middle, [guess], half)
    return _end(flow, t + h, end._replace(correction=np.sqrt(middle.correction * middle.correction + end.correction * end.correction)))


def _euler(flow: Flow, t: Any, q: Array, v: Array, h: Any) -> _State:
    start = _State(q, flow.momenta(t, q, v)[0])
    return _advanced(_EULER, flow, t, start, [_nearer(_EULER, flow, t, start, _rate(flow, q, v), h)], h)


def _nearer(scheme: _Scheme, flow: Flow, t: Any, start: _State, rate: Array, h: Any) -> Array:
    """Return a better guess of the rate of the only stage: after one plain iteration."""
    return rate - _by_mass(scheme, flow, t, start.q, rate, h)(flow.apply(scheme, t, h, start.q, start.p, rate)[0])


def _rate(flow: Flow, q: Array, v: Array) -> Array:
    """Return the rate of the Cayley coordinates around q, at q."""
    return flow.model.chart_rate(q, np.zeros(len(v)), v)


def _end(flow: Flow, t: Any, state: _State) -> Step:
    """Return the end of a step by its velocities.

    They are refined once: what rounding leaves between the momenta and those of the velocities has a mean, and would add up over steps.
    What driven joints add to the momenta is left there too.
    """
    flow.mark()
    v = flow.evaluate("velocities", t, state.q, state.p)
    flow.mark()
    rest = state.p - flow.momenta(t, state.q, v)[0]
    flow.mark()
    return Step(state.q, v + flow.evaluate("velocities", t, state.q, rest), None, (), state.correction)


def _advanced(scheme: _Scheme, flow: Flow, t: Any, start: _State, guess: Sequence[Array], h: Any) -> _State:
    """Return the state after a step, with the rates of the stages from a guess on."""
    at, rates = (t, h, start.q, start.p), np.concatenate(guess)
    residual, q1, p1 = flow.apply(scheme, *at, rates)
    exact = len(rates) <= _EXACT
    if exact:
        solve = partial(flow.product, flow.solved(flow.jacobian(scheme, *at, rates), np.eye(len(rates))))
    else:
        solve = (_by_forces if len(rates) <= solving.LARGEST_JACOBIAN else _by_mass)(scheme, flow, t, start.q, rates, h)
    correction: Any = 0.0
    for _ in range(_ITERATIONS if exact else 3 * solving.ITERATIONS):
        change = solve(residual)
        rates = rates - change
        residual, q1, p1 = flow.apply(scheme, *at, rates)
        correction = np.sqrt(square(change) / (square(rates) + (solving.LEAST / h) ** 2))
    return _State(q1, p1, np.split(rates, len(guess)), correction)


def _by_mass(scheme: _Scheme, flow: Flow, t: Any, q: Array, rates: Array, h: Any) -> Callable[[Array], Array]:
    """Return the solution of the equations with the mass matrix for their derivatives."""
    return _at_start(scheme, flow, q, lambda momenta: [flow.evaluate("velocities", t, q, p) for p in momenta])


def _by_forces(scheme: _Scheme, flow: Flow, t: Any, q: Array, rates: Array, h: Any) -> Callable[[Array], Array]:
    """Return their solution with the mass matrix and the slopes of forces: exact but for what turns with the bodies within the step."""
    v = flow.model.cayley_velocity(q, np.zeros(flow.model.nv), rates[: flow.model.nv])
    near = flow.linearised(t, q, v, flow.acceleration(t, q, v))
    A = np.array(scheme.A)
    inverse = flow.solved(solving.matrix(near, h, A, A @ np.array(scheme.a)), np.eye(len(rates)))
    return _at_start(scheme, flow, q, lambda momenta: np.split(flow.product(inverse, np.concatenate(momenta)), len(momenta)))


def _at_start(scheme: _Scheme, flow: Flow, q: Array, velocities: Callable[[list[Array]], Sequence[Array]]) -> Callable[[Array], Array]:
    """Return the solution for Cayley coordinates of one that is for the momenta of the stages, and velocities, at the start of the step."""

    def solve(residual: Array) -> Array:
        flow.mark()
        none = np.zeros(flow.model.nv)
        momenta = [flow.model.cayley_velocity(q, none, p) for p in np.split(residual, len(scheme.b))]
        flow.mark()
        return np.concatenate([_rate(flow, q, v) for v in velocities(momenta)])

    return solve


#: Order and step of the symplectic methods by name.
SYMPLECTIC: dict[str, tuple[int, Callable[..., Step]]] = {
    "symplectic-euler": (1, _symplectic_euler),
    "stormer-verlet": (2, _stormer_verlet),
    "symplectic-midpoint": (2, _collocation("implicit-midpoint")),
    "symplectic-gauss-4": (4, _collocation("gauss-legendre-4")),
    "symplectic-gauss-6": (6, _collocation("gauss-legendre-6")),
}

#: Those of them that are not stable with long steps.
EXPLICIT = ("symplectic-euler", "stormer-verlet")
