"""Optimal motions: against the solution of linear problems, and against gradients through rollouts, which are zero at a minimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import catena as ct
from catena.control.ilqr import _within
from catena.examples import EXAMPLES


def effort(t: Any, q: Any, v: Any, tau: Any) -> Any:
    return 0.01 * (tau @ tau) + 0.001 * (v @ v)


def test_a_linear_problem_is_solved_in_one_iteration_as_by_least_squares() -> None:
    m = ct.Model("carts", gravity=(0, 0, 0))
    m.add("first", ct.point_mass(2.0), ct.Prismatic("x", stiffness=3.0, damping=0.5))
    m.add("second", ct.point_mass(1.0), ct.Prismatic("x", damping=0.2), parent="first")
    goal, steps, h = np.array([0.4, -0.3]), 40, 0.05
    q0, v0, first = np.array([0.1, 0.2]), np.array([0.0, -0.5]), np.full((steps, 2), 0.3)
    options: dict[str, Any] = {
        "step": h, "cost": lambda t, q, v, tau: 0.01 * (tau @ tau) + 0.1 * (q @ q), "tolerance": 1e-12,
        "final_cost": lambda t, q, v: 5.0 * (q - goal) @ (q - goal) + v @ v,
    }  # fmt: skip
    motion = ct.ilqr(m, q0, v0, first, **options)
    assert motion.iterations == 1
    assert motion.converged

    def residuals(q0: Any, u: Any) -> Any:
        """Return what is squared in the cost, of motions in a batch: linear in the controls (..., steps, 2)."""
        runs = ct.rollout(m, np.broadcast_to(q0, (len(u), 2)), v0, u, step=h, steps=steps)
        parts = (0.1 * u, np.sqrt(0.1) * runs.q[:, :-1], np.sqrt(5.0) * (runs.q[:, -1:] - goal), runs.v[:, -1:])
        return np.concatenate([part.reshape(len(u), -1) for part in parts], axis=1)

    def best(q0: Any) -> Any:
        none = residuals(q0, np.zeros((1, steps, 2)))
        slopes = residuals(q0, np.eye(2 * steps).reshape(-1, steps, 2)) - none
        return np.linalg.lstsq(slopes.T, -none[0], rcond=None)[0].reshape(steps, 2)

    np.testing.assert_allclose(motion.controls, best(q0), rtol=0, atol=1e-9)
    assert motion.cost == pytest.approx((residuals(q0, motion.controls[None]) ** 2).sum(), rel=1e-12)

    # the feedback is what is best from elsewhere
    elsewhere, move = q0 + [0.2, -0.1], ct.stepper(m, h)
    q, v, taken = elsewhere, v0, []
    for k in range(steps):
        taken.append(motion.force(k, q, v))
        q, v = move(q, v, taken[-1])
    np.testing.assert_allclose(taken, best(elsewhere), rtol=0, atol=1e-9)


CASES = {
    "double-pendulum": (["lower"], lambda t, q, v: 3.0 * (q[0] - 1.0) ** 2 + 0.3 * (v @ v)),
    "top": (None, lambda t, q, v: 2.0 * (1.0 - q[0] ** 2) + 0.01 * (v @ v)),
    "four-bar": (["crank"], lambda t, q, v: 2.0 * (q[0] - 1.4) ** 2 + 0.2 * v[0] ** 2),
    "five-bar-robot": (["leg1_proximal", "leg2_proximal"], lambda t, q, v: 5.0 * ((q[0] - 1.0) ** 2 + (q[2] - 0.8) ** 2) + 0.1 * (v @ v)),
}
STARTS = {"four-bar": {"crank": 1.0}, "five-bar-robot": {"guess": [0.9, -1.5, 0.9, 3.0]}}


@pytest.mark.parametrize("limit", [np.inf, 0.8])
@pytest.mark.parametrize("name", CASES)
def test_gradients_vanish_at_the_minimum(name: str, limit: float) -> None:
    """Of inputs within their limits; those at a limit would go beyond it."""
    m, rng = EXAMPLES[name](), np.random.default_rng(0)
    actuated, final = CASES[name]
    q0 = m.assemble(**STARTS[name]) if m.has_loops else m.random(rng)
    at = [m.v_names.index(x) for x in actuated or m.v_names]
    controls = np.zeros((30, m.nv))
    limit = 0.05 * limit if name == "top" else limit
    limits = (-limit, limit)
    motion = ct.ilqr(m, q0, None, controls, step=0.01, cost=effort, final_cost=final, actuated=actuated, limits=limits, tolerance=1e-15)
    assert not m.has_loops or ct.loop_error(m)(motion.q).max() < 1e-12
    options: dict[str, Any] = {"step": 0.01, "steps": 30, "cost": effort, "final_cost": final}
    first, last = (ct.rollout_gradient(m, q0, None, u, **options) for u in (controls, motion.controls))
    assert motion.cost == pytest.approx(float(last.value), rel=1e-9)
    assert motion.cost < first.value
    assert first.controls is not None
    assert last.controls is not None
    u, slope, scale = motion.controls[:, at], last.controls[:, at], np.abs(first.controls).max()
    assert (np.abs(u) <= limits[1]).all()
    low, high = u == limits[0], u == limits[1]
    assert (low | high).any() == np.isfinite(limit)
    assert np.abs(slope[~low & ~high]).max(initial=0.0) < 1e-6 * scale
    assert (slope[low] > -1e-6 * scale).all()
    assert (slope[high] < 1e-6 * scale).all()
    assert (motion.controls[:, [i for i in range(m.nv) if i not in at]] == 0.0).all()
    run = ct.rollout(m, q0, None, motion.controls, step=0.01, steps=30)
    np.testing.assert_allclose(motion.q, run.q, rtol=0, atol=1e-10)
    assert motion.trajectory.q.shape == (31, m.nq)


def test_a_free_body_turns_and_goes_where_it_shall() -> None:
    """By wrenches in its own axes; turns and shifts do not commute, which the feedback and the second derivatives of the cost show."""
    m = ct.Model("satellite", gravity=(0, 0, 0))
    m.add("hull", ct.box(0.4, 0.3, 0.2, mass=5.0), ct.Free())
    m.add("panel", ct.rod(0.5, mass=0.5), ct.Revolute("y", damping=0.05), parent="hull", at=(0.2, 0, 0))
    q0, goal, attitude = m.neutral(), np.array([0.3, -0.2, 0.1]), np.array([0.8, 0.0, 0.36, 0.48])

    def final(t: Any, q: Any, v: Any) -> Any:
        return 20.0 * ((q[:3] - goal) @ (q[:3] - goal) + 1.0 - (q[3:7] @ attitude) ** 2) + 2.0 * (v @ v)

    first = 0.1 * np.random.default_rng(0).normal(size=(50, 7))
    options: dict[str, Any] = {"step": 0.02, "cost": lambda t, q, v, tau: 1e-4 * (tau @ tau), "final_cost": final}
    motion = ct.ilqr(m, q0, None, first, **options, tolerance=1e-14)
    assert np.abs(motion.q[-1, :3] - goal).max() < 0.02
    assert abs(motion.q[-1, 3:7] @ attitude) > 0.9995
    before, after = (ct.rollout_gradient(m, q0, None, u, steps=50, **options) for u in (first, motion.controls))
    assert before.controls is not None
    assert after.controls is not None
    assert np.abs(after.controls).max() < 1e-6 * np.abs(before.controls).max()

    # from nearby, the feedback costs nearly as little as another search finds, compared with the forces alone
    elsewhere, move = m.integrate(q0, [0.01, -0.02, 0.01, 0.005, 0.0, -0.005, 0.01]), ct.stepper(m, 0.02)
    q, v, taken = elsewhere, np.zeros(7), []
    for k in range(50):
        taken.append(motion.force(k, q, v))
        q, v = move(q, v, taken[-1])
    tried = np.array([motion.controls, taken])
    alone, along = ct.rollout_gradient(m, elsewhere, None, tried, steps=50, **options).value
    best = ct.ilqr(m, elsewhere, None, tried[1], **options).cost
    assert best <= along < best + 0.05 * (alone - best)


def test_forces_over_time_are_part_of_the_motion() -> None:
    m = ct.Model("pushed", gravity=(0, 0, 0))
    m.add("cart", ct.point_mass(1.0), ct.Prismatic("x"))
    m.add_force("wind", lambda t, q, v: [5.0 * np.sin(3.0 * t)])
    motion = ct.ilqr(m, [0.0], None, np.zeros((100, 1)), step=0.01, cost=lambda t, q, v, tau: 1e-3 * tau @ tau + 100.0 * q @ q)
    assert motion.iterations == 1  # it is linear, with a term that depends on time
    t = motion.t[30:70]
    np.testing.assert_allclose(motion.controls[30:70, 0], -5.0 * np.sin(3.0 * (t + 0.005)), atol=0.3)


def test_quadratic_problems_within_limits_have_the_solution_of_scipy() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 5))
        root = rng.normal(size=(n, n))
        H, g, by_x = root @ root.T + 0.1 * np.eye(n), 3.0 * rng.normal(size=n), rng.normal(size=(n, 3))
        low, high = -rng.uniform(0.1, 1.0, size=n), rng.uniform(0.1, 1.0, size=n)
        free = -np.linalg.solve(H, np.column_stack([g, by_x]))
        found = _within(H, g, by_x, free, low, high)
        options = {"ftol": 1e-16, "gtol": 1e-12}
        best = minimize(
            lambda u, H=H, g=g: 0.5 * u @ H @ u + g @ u, np.zeros(n), jac=lambda u, H=H, g=g: H @ u + g,
            bounds=list(zip(low, high, strict=True)), method="L-BFGS-B", options=options,
        )  # fmt: skip
        np.testing.assert_allclose(found[:, 0], best.x, atol=1e-6)
        x, small = rng.normal(size=3), 1e-6
        moved = _within(H, g + small * by_x @ x, by_x, free - small * np.linalg.solve(H, by_x @ x)[:, None] * np.eye(4)[0], low, high)
        np.testing.assert_allclose((moved - found)[:, 0] / small, found[:, 1:] @ x, atol=1e-6)


def test_a_search_that_does_not_end_says_so() -> None:
    m = EXAMPLES["double-pendulum"]()
    with pytest.warns(ct.ConvergenceWarning, match="does not end within 2 iterations"):
        motion = ct.ilqr(m, [1.5, 0.0], None, np.zeros((50, 2)), step=0.02, cost=effort, final_cost=lambda t, q, v: q[0], iterations=2)
    assert motion.iterations == 2
    assert not motion.converged
    assert "not converged" in repr(motion)


def test_a_search_that_stalls_at_a_kink_says_so() -> None:
    m = EXAMPLES["double-pendulum"]()
    with pytest.warns(ct.ConvergenceWarning, match=r"stalls: its slope promises .* less"):
        motion = ct.ilqr(m, [1.5, 0.0], None, np.zeros((50, 2)), step=0.02, cost=effort, final_cost=lambda t, q, v: 1e2 * abs(q[0] - 1))
    assert not motion.converged
    assert abs(motion.q[-1, 0] - 1.0) < 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"controls": np.zeros(2)}, r"controls have the shape \(2,\); give \(steps, nv\)"),
        ({"controls": np.zeros((10, 3))}, "takes"),
        ({"q0": np.zeros((4, 2))}, "leading axes"),
        ({"cost": None}, "neither cost nor final_cost"),
        ({"cost": lambda t, q, v, tau: q @ q}, "does not depend on the joint forces of step 9"),
        ({"cost": lambda t, q, v, tau: tau}, "return one number"),
        ({"limits": 3.0}, "give a pair"),
        ({"limits": (1.0, -1.0)}, "exchange them"),
        ({"limits": ([0.0, 0.0, 0.0], 1.0)}, r"shape \(3,\)"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"iterations": 0}, "iterations"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"q0": [0.5, 0.0], "controls": np.zeros((10, 2)), "step": 0.02, "cost": effort, **change}
    with pytest.raises(ct.ArgumentError, match=message):
        ct.ilqr(EXAMPLES["double-pendulum"](), **given)
    with pytest.raises(ct.ModelError, match="'elbow', which is not a velocity coordinate"):
        ct.ilqr(EXAMPLES["double-pendulum"](), [0.5, 0.0], controls=np.zeros((10, 2)), step=0.02, cost=effort, actuated=["elbow"])
