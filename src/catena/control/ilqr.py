"""Optimal motions by the iterative linear-quadratic regulator, iLQR.

Source   [LT04] Li and Todorov, Iterative linear quadratic regulator design for nonlinear biological movement systems; limits of controls
         as in [TMT14] Tassa, Mansard and Todorov, Control-limited differential dynamic programming, here by an active set.
State    x = (q, v), whose changes are along the velocity coordinates, 2 nv of them; also with loops: a step turns changes that keep loops
         closed into such changes, and the sweep meets no others.
Cost     of an iteration: one call of the derivatives of the step, and one of those of the cost, for all steps together; a sweep of small
         matrices; one call of the step for each time, with all lengths of the line search in a batch.

    paper     here          meaning
    f_x, f_u  AB            derivatives of a step, side by side
    l         cost          of a step, and of the end
    V, Q      V_x, Q_x ...  what the motion costs from here on, by the state, and by the state and the control
    k, K      shift, gain   change of the control, and its feedback of changes of the state
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ArgumentError, ConvergenceWarning, SimulationError, SingularWarning
from catena.kernels.named_coordinates import coordinates
from catena.kernels.tracing import charts
from catena.model import Mechanism
from catena.model.coordinates import PositionChart
from catena.model.user_functions import traced
from catena.model.values import floats
from catena.native import compile_graph
from catena.simulation import Trajectory, stepper
from catena.simulation.arguments import count, moving, positive
from catena.simulation.inputs import cost_role
from catena.simulation.rollout import RolloutSettings, controls_or_forces

Array = Any

#: The lengths that a line search tries, all at once.
LENGTHS = 0.5 ** np.arange(12)

#: A length is taken if the cost falls by this part of what the quadratic model expects.
SUFFICIENT = 1e-4

#: Parts of the curvature by a control that are added to it where no length is taken: the first, their growth, and the last.
FIRST, GROWTH, LAST = 1e-4, 10.0, 1e8

#: A search that ends has converged if no more than this part of the cost is promised by its slope.
PROMISED = 1e-2


@dataclass(frozen=True, eq=False, repr=False)
class OptimalMotion:
    """A motion of least cost, the joint forces that make it, and the feedback that is optimal about it.

    `t` (steps + 1,) [s], `q` (steps + 1, nq) and `v` (steps + 1, nv) are its states, and `controls` (steps, nv) the joint forces, each held
    for a step. `gains` (steps, inputs, 2 nv) are what changes of positions, along velocities, and of velocities add to the joint forces on
    `inputs`, within `limits`. `costs` has the cost before and after each iteration, `converged` tells whether it ended at a minimum.
    """

    model: Mechanism
    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    controls: np.ndarray
    gains: np.ndarray
    inputs: tuple[str, ...]
    costs: np.ndarray
    converged: bool
    limits: tuple[np.ndarray, np.ndarray]

    @property
    def cost(self) -> float:
        """The cost of the motion."""
        return float(self.costs[-1])

    @property
    def iterations(self) -> int:
        """How many iterations made the cost less."""
        return len(self.costs) - 1

    @cached_property
    def trajectory(self) -> Trajectory:
        """The motion as a run, to be plotted, drawn, filmed and saved."""
        forces = np.concatenate([self.controls, self.controls[-1:]])
        return Trajectory(self.model, self.t, self.q, self.v, tau=forces, info={"integrator": "ilqr", "stopped": "end"})

    def force(self, k: int, q: Any, v: Any) -> np.ndarray:
        """Return the joint forces (..., nv) of step k from other states (..., nq), (..., nv), with feedback and within the limits.

        >>> m = ct.Model("slider")
        >>> m.add("cart", ct.point_mass(1.0), ct.Prismatic("x"))
        >>> effort, miss = lambda t, q, v, tau: 1e-5 * tau @ tau, lambda t, q, v: (q - 1.0) @ (q - 1.0) + v @ v
        >>> motion = ct.ilqr(m, [0.0], controls=np.zeros((50, 1)), step=0.02, cost=effort, final_cost=miss)
        >>> move, q, v = ct.stepper(m, 0.02), np.array([-0.1]), np.zeros(1)  # it begins elsewhere
        >>> for k in range(50):
        ...     q, v = move(q, v, motion.force(k, q, v))
        >>> abs(1.0 - q) < 0.01, abs(1.0 - motion.q[-1]) < 0.01
        (array([ True]), array([ True]))
        """
        change = np.concatenate(np.broadcast_arrays(self.model.difference(self.q[k], q), np.asarray(v, dtype=float) - self.v[k]), axis=-1)
        at = [self.model.v_names.index(name) for name in self.inputs]
        force = np.broadcast_to(self.controls[k], (*change.shape[:-1], self.model.nv)).copy()
        force[..., at] = np.clip(force[..., at] + change @ self.gains[k].T, *(limit[k] for limit in self.limits))
        return force

    def __repr__(self) -> str:
        ended = "" if self.converged else ", not converged"
        return f"<OptimalMotion of {self.model.name!r}: cost {self.cost:.6g} after {self.iterations} iterations{ended}>"


def ilqr(
    m: Mechanism,
    q0: Any,
    v0: Any = None,
    controls: Any = None,
    *,
    step: float,
    cost: Callable[[Any, Array, Array, Array], Any] | None = None,
    final_cost: Callable[[Any, Array, Array], Any] | None = None,
    actuated: Collection[str] | None = None,
    limits: tuple[Any, Any] | None = None,
    iterations: int = 300,
    tolerance: float = 1e-7,
    start: float = 0.0,
    integrator: str = "auto",
    method: str = "auto",
    tau: Any = None,
) -> OptimalMotion:
    """Return the motion of least cost near a first one, by the iterative linear-quadratic regulator [LT04].

    `tau` (steps, nv) are the joint forces to begin with, each held for a `step` [s]; of a model without actuators they may be given as
    `controls`. Those on the coordinates that `actuated` names, without it on all, are changed, within `limits`: a pair, lower and upper
    limit, each a number or one for each actuated coordinate.
    The cost is that of `ct.rollout_gradient`: the sum of `cost(t, q, v, tau)` over the beginnings of all steps, and `final_cost(t, q, v)`
    at the end; both are traced. `integrator` and `method` are those of `ct.rollout`.

    Every iteration solves the linear-quadratic problem about the motion, with the exact derivatives of the steps and of the cost, and looks
    for the length along its solution that is best. It ends where the decrease that it expects, or makes, is below `tolerance` times the
    cost. Where the cost is not convex, the sizes of its curvatures count. With loops, changes of the state keep these closed.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> effort = lambda t, q, v, tau: 1e-4 * tau[0] ** 2
    >>> upright = lambda t, q, v: 10.0 * (1.0 + np.cos(q[0])) + v[0] ** 2
    >>> motion = ct.ilqr(m, [0.1], controls=np.zeros((150, 1)), step=0.02, cost=effort, final_cost=upright, limits=(-5.0, 5.0))
    >>> np.cos(motion.q[-1]) < -0.999, abs(motion.controls).max() <= 5.0
    (array([ True]), np.True_)
    """
    by, controls, _ = controls_or_forces(moving(m, "ilqr"), "ilqr", controls, tau, None)
    if np.ndim(controls) != 2:
        raise ArgumentError(f"ilqr: {by} have the shape {np.shape(controls)}; give (steps, nv), joint forces to begin with")
    given = RolloutSettings.of(m, q0, v0, None, step, len(controls), 1, start, integrator, method, tau=controls)
    if given.batch:
        raise ArgumentError(f"ilqr: states have the leading axes {given.batch}; give one state, q0 ({given.model.nq},)")
    if cost is None and final_cost is None:
        raise ArgumentError("ilqr: neither cost nor final_cost is given; give a function to be minimised")
    iterations = count("ilqr: iterations", iterations)
    tolerance = positive("ilqr: tolerance", tolerance, "give a part of the cost above 0")
    names = given.model.v_names if actuated is None else tuple(actuated)
    at = list(coordinates(given.model, names if actuated is None else actuated, "ilqr: actuated"))
    return _Search(given, cost, final_cost, at, _limits(limits, given.steps, names)).run(iterations, tolerance)


def _limits(limits: Any, steps: int, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper limits (steps, inputs), or refuse what is given."""
    if limits is None:
        limits = (-np.inf, np.inf)
    if not isinstance(limits, (tuple, list)) or len(limits) != 2:
        raise ArgumentError(f"ilqr: limits is {limits!r}; give a pair, the lower and the upper limit")
    wanted = f"give a number, or one for each of {', '.join(names)}"
    low, high = (floats("ilqr: limits", limit, wanted) for limit in limits)
    for limit in (low, high):
        if limit.shape not in ((), (len(names),)):
            raise ArgumentError(f"ilqr: limits have the shape {limit.shape}; {wanted}")
    if not (low < high).all():
        raise ArgumentError(f"ilqr: the lower limit {low.tolist()} is not below the upper {high.tolist()}; exchange them")
    return np.broadcast_to(low, (steps, len(names))), np.broadcast_to(high, (steps, len(names)))


class _Motion(NamedTuple):
    """States (steps + 1, ...), inputs (steps, inputs), and the cost."""

    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    cost: float


class _Law(NamedTuple):
    """Changes of the inputs (steps, inputs), their feedback (steps, inputs, 2 nv), and slope and curvature of the cost along them."""

    shift: np.ndarray
    gain: np.ndarray
    slope: float
    curvature: float


class _Search:
    """The iterations from a first motion on."""

    def __init__(self, given: RolloutSettings, cost: Any, final_cost: Any, at: list[int], limits: tuple[np.ndarray, np.ndarray]) -> None:
        m = self.m = given.model
        self.given, self.at, self.limits = given, at, limits
        self.t = given.start + np.arange(given.steps + 1) * given.step
        self.controls = given.table[0]
        key = (given.step, given.integrator, given.method)
        self.move = m.once("ilqr: step", key, lambda: stepper(m, given.step, given.integrator, 1, given.method))
        self.slopes = m.once("ilqr: slopes", key, lambda: self.move.jacobian(("q_next", "v_next"), ("q", "v", "tau")))
        self.flat = PositionChart.of(m) is None  # positions change by their rates
        n = m.nv
        cost, final_cost = (None if function is None else m.bound(function) for function in (cost, final_cost))
        if cost is not None:
            cost_role(m, "cost").graph(cost)
        if final_cost is not None:
            cost_role(m, "final_cost").graph(final_cost)
        self.running = None if cost is None else _Cost(m, lambda t, q, both: cost(t, q, both[:n], both[n:]), 2 * n)
        self.final = None if final_cost is None else _Cost(m, final_cost, n)

    def run(self, iterations: int, tolerance: float) -> OptimalMotion:
        motion = self.first()
        costs, ended, extra = [motion.cost], False, 0.0
        about, least = self.about(motion), tolerance * abs(motion.cost)
        while len(costs) <= iterations and not ended:
            law = self.sweep(about, motion.u, extra)
            if -law.slope <= least or extra > LAST:
                ended = True
                break
            better = self.search(motion, law)
            if better is None:
                extra = max(FIRST, GROWTH * extra)
                continue
            ended, motion = motion.cost - better.cost <= least, better
            costs.append(motion.cost)
            about, least, extra = self.about(motion), tolerance * abs(motion.cost), extra / GROWTH if extra > FIRST else 0.0
        law = self.sweep(about, motion.u, 0.0)
        converged = ended and -law.slope <= max(least, PROMISED * abs(motion.cost))
        if not converged:
            why = f"stalls: its slope promises {-law.slope:.3g} less, which no step along it gives; give joints damping, shorter steps, or"
            why = why if ended else f"does not end within {iterations} iterations; give more, or"
            warnings.warn(f"ilqr: the search {why} begin elsewhere; the cost is {motion.cost:.6g}", ConvergenceWarning, stacklevel=3)
        controls = self.controls.copy()
        controls[:, self.at] = motion.u
        names = tuple(self.m.v_names[i] for i in self.at)
        return OptimalMotion(self.m, self.t, motion.q, motion.v, controls, law.gain, names, np.array(costs), converged, self.limits)

    def first(self) -> _Motion:
        """Return the motion to begin with."""
        u = np.clip(self.controls[:, self.at], *self.limits)
        still = _Law(np.zeros_like(u), np.zeros((*u.shape, 2 * self.m.nv)), 0.0, 0.0)
        n = self.given.steps + 1
        begin = _Motion(np.broadcast_to(self.given.q[0], (n, self.m.nq)), np.broadcast_to(self.given.v[0], (n, self.m.nv)), u, 0.0)
        q, v, u, cost = self.candidates(begin, still, np.ones(1))
        if not np.isfinite(cost[0]):
            step = int(np.argmin(np.isfinite(v[:, 0]).all(axis=-1)))
            raise SimulationError(f"ilqr: the first motion ends at step {step}, or its cost is not finite; give other controls")
        return _Motion(q[:, 0], v[:, 0], u[:, 0], float(cost[0]))

    def candidates(self, motion: _Motion, law: _Law, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return states and inputs (steps, lengths, ...) of motions with the law, and their costs (lengths,)."""
        m, steps, count = self.m, self.given.steps, len(lengths)
        q, v = np.empty((steps + 1, count, m.nq)), np.empty((steps + 1, count, m.nv))
        u, tau = np.empty((steps, count, len(self.at))), np.repeat(self.controls[:, None], count, axis=1)
        q[0], v[0] = self.given.q[0], self.given.v[0]
        low, high = self.limits
        ahead = motion.u[:, None] + lengths[:, None] * law.shift[:, None]
        timed, gains = m.time_dependent, np.swapaxes(law.gain, 1, 2)
        with warnings.catch_warnings(), np.errstate(invalid="ignore", over="ignore"):
            warnings.simplefilter("ignore", SingularWarning)  # of the motion that is taken, the derivatives tell
            for k in range(steps):
                away = q[k] - motion.q[k] if self.flat else m.difference(motion.q[k], q[k])
                change = np.concatenate([away, v[k] - motion.v[k]], axis=1)
                u[k] = np.clip(ahead[k] + change @ gains[k], low[k], high[k])
                tau[k][:, self.at] = u[k]
                q[k + 1], v[k + 1] = self.move(*((self.t[k],) if timed else ()), q[k], v[k], tau[k])
            cost = np.zeros(count)
            if self.running is not None:
                cost += self.running.value(self.t[:-1, None], q[:-1], np.concatenate([v[:-1], tau], axis=2)).sum(axis=0)
            if self.final is not None:
                cost += self.final.value(self.t[-1], q[-1], v[-1])
        return q, v, u, cost

    def search(self, motion: _Motion, law: _Law) -> _Motion | None:
        """Return the best of the motions along a law, if it is better by a part of what is expected."""
        q, v, u, cost = self.candidates(motion, law, LENGTHS)
        expected = -(LENGTHS * law.slope + 0.5 * LENGTHS**2 * law.curvature)
        gain = np.where(np.isfinite(cost), motion.cost - cost, -np.inf)
        good = gain > SUFFICIENT * expected
        if not good.any():
            return None
        i = int(np.argmax(np.where(good, gain, -np.inf)))
        return _Motion(q[:, i], v[:, i], u[:, i], float(cost[i]))

    def about(self, motion: _Motion) -> tuple[np.ndarray, ...]:
        """Return derivatives of all steps by (x, u), the gradients and Hessians of their cost; and those of the end by x."""
        n, steps = self.m.nv, self.given.steps
        tau = self.controls.copy()
        tau[:, self.at] = motion.u
        state = (motion.q[:-1], motion.v[:-1])
        found = self.slopes(*((self.t[:-1],) if self.m.time_dependent else ()), *state, tau)
        rows = [np.concatenate([x, y, tau[:, :, self.at]], axis=2) for x, y, tau in (found[:3], found[3:])]
        own = [*range(2 * n), *(2 * n + i for i in self.at)]
        gradient, hessian = np.zeros((steps, len(own))), np.zeros((steps, len(own), len(own)))
        if self.running is not None:
            first, second = self.running.derivatives(self.t[:-1], state[0], np.concatenate([state[1], tau], axis=1))
            gradient, hessian = first[:, own], _convex(second[:, own][:, :, own])
        last, bent = np.zeros(2 * n), np.zeros((2 * n, 2 * n))
        if self.final is not None:
            last, bent = self.final.derivatives(self.t[-1], motion.q[-1], motion.v[-1])
            bent = _convex(bent)
        return np.concatenate(rows, axis=1), gradient, hessian, last, bent

    def sweep(self, about: tuple[np.ndarray, ...], u: np.ndarray, extra: float) -> _Law:
        """Return the law that is best for the linear-quadratic problem, from the end to the beginning."""
        AB, gradient, hessian, V_x, V_xx = about
        n, (steps, inputs) = V_x.size, u.shape
        shift, gain = np.empty((steps, inputs)), np.empty((steps, inputs, n))
        low, high = (limit - u for limit in self.limits)
        limited = np.isfinite(low).any() or np.isfinite(high).any()
        slope = curvature = 0.0
        with_gain, added = np.eye(n + inputs, n), extra * np.eye(inputs)
        for k in range(steps - 1, -1, -1):
            Q_z = gradient[k] + V_x @ AB[k]
            Q_zz = hessian[k] + AB[k].T @ V_xx @ AB[k]
            Q_u, Q_uu = Q_z[n:], Q_zz[n:, n:]
            held = Q_uu + added * Q_uu
            try:
                found = -np.linalg.solve(held, np.concatenate([Q_u[:, None], Q_zz[n:, :n]], axis=1))
            except np.linalg.LinAlgError:
                raise ArgumentError(
                    f"ilqr: the cost does not depend on the joint forces of step {k}, or not on all; add a part of them to it, such as "
                    "1e-6 * tau @ tau"
                ) from None
            if limited:
                found = _within(held, Q_u, Q_zz[n:, :n], found, low[k], high[k])
            change = shift[k] = found[:, 0]
            with_gain[n:] = gain[k] = found[:, 1:]
            along = Q_zz[:, n:] @ change
            slope += Q_u @ change
            curvature += change @ along[n:]
            V_x = (Q_z + along) @ with_gain
            V_xx = with_gain.T @ Q_zz @ with_gain
            V_xx = 0.5 * (V_xx + V_xx.T)
        return _Law(shift, gain, float(slope), float(curvature))


class _Cost:
    """A traced cost, (t, q, v) -> number, v being whatever the function takes besides positions; and its derivatives by q and v."""

    def __init__(self, m: Mechanism, function: Callable[[Any, Array, Array], Any], size: int) -> None:
        graph = traced(function, m.nq, size)
        self.value = m.once("ilqr: cost", graph, lambda: compile_graph(graph, charts=charts(m)))
        self._slopes = m.once(
            "ilqr: slopes of a cost", graph, lambda: self.value.vjp(("q", "v")).jacobian(("q_bar", "v_bar"), ("q", "v"), values=True)
        )

    def derivatives(self, t: Any, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradients (..., n) and Hessians (..., n, n) by positions, along velocities, and v."""
        by_q, by_v, *second = self._slopes(t, q, v, 1.0)
        hessian = np.concatenate([np.concatenate(second[:2], axis=-1), np.concatenate(second[2:], axis=-1)], axis=-2)
        return np.concatenate([by_q, by_v], axis=-1), 0.5 * (hessian + np.swapaxes(hessian, -1, -2))  # rotations do not commute


def _convex(hessian: np.ndarray) -> np.ndarray:
    """Return symmetric matrices (..., n, n) with the sizes of their eigenvalues: negative curvature limits a step as positive does."""
    values, vectors = np.linalg.eigh(hessian)
    if (values >= 0.0).all():
        return hessian
    return (vectors * np.abs(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def _within(H: np.ndarray, g: np.ndarray, by_x: np.ndarray, found: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the u within limits that minimises u H u / 2 + g u, and in further columns how it changes with x, by_x being that of g.

    `found` are these without limits. Limits are taken up one by one where they are met, and given up where the cost falls away from them;
    an entry that a limit holds does not change with x.
    """
    u = np.clip(found[:, 0], low, high)
    free = (u > low) & (u < high)
    if free.all():
        return found
    while len(u) > 1:  # one input is clipped, and that is the solution
        slope = g + H @ u
        change = np.zeros_like(u)
        change[free] = -np.linalg.solve(H[np.ix_(free, free)], slope[free])
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(change == 0.0, np.inf, (np.where(change < 0.0, low, high) - u) / change)
        if room.min() < 1.0:
            i = int(np.argmin(room))
            u = np.clip(u + room[i] * change, low, high)
            u[i], free[i] = low[i] if change[i] < 0.0 else high[i], False
            continue
        u = u + change
        slope = np.where(free, 0.0, np.where(u <= low, -1.0, 1.0) * (g + H @ u))
        if slope.max() <= 1e-12 * np.abs(g).max():
            break
        free[int(np.argmax(slope))] = True
    gain = np.zeros_like(by_x)
    gain[free] = -np.linalg.solve(H[np.ix_(free, free)], by_x[free])
    return np.concatenate([u[:, None], gain], axis=1)
