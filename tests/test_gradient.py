"""Gradients through rollouts: against central differences, and against sensitivities that go forward, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.referee import relative

import catena as ct
from catena.examples import EXAMPLES


def cost(t: Any, q: Any, v: Any, tau: Any) -> Any:
    return 0.01 * (q @ q + v @ v) + 0.001 * (tau @ tau) + 0.01 * np.sin(t) * q[0]


def final(t: Any, q: Any, v: Any) -> Any:
    return q[0] ** 2 + v @ v


def slope(function: Any, small: float = 1e-6) -> float:
    """Return the derivative of a function of one number at 0."""
    return (function(small) - function(-small)) / (2.0 * small)


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit-euler", "implicit-midpoint"])
@pytest.mark.parametrize("name", ["double-pendulum", "top"])
def test_gradients_of_trees_equal_differences(name: str, integrator: str) -> None:
    m, rng = EXAMPLES[name](), np.random.default_rng(0)
    q, v, controls = m.random(rng), 0.3 * rng.normal(size=m.nv), rng.normal(size=(5, m.nv))
    path = f"{m.body_names[0]}.mass"
    values = {path: m.parameters()[path].value * 1.1, "gravity": np.array([0.1, 0.2, -9.0])}

    def run(q: Any, v: Any, controls: Any, values: Any) -> Any:
        options = {"step": 2e-3, "steps": 10, "cost": cost, "final_cost": final, "integrator": integrator}
        return ct.rollout_gradient(m, q, v, controls, parameters=values, **options)

    found = run(q, v, controls, values)
    scale = max(np.abs(part).max() for part in (found.q0, found.v0, found.controls, *found.parameters.values()))
    for i, unit in enumerate(np.eye(m.nv)):
        assert abs(found.q0[i] - slope(lambda e, u=unit: run(m.integrate(q, e * u), v, controls, values).value)) < 1e-6 * scale
        assert abs(found.v0[i] - slope(lambda e, u=unit: run(q, v + e * u, controls, values).value)) < 1e-6 * scale
        row = np.eye(5)[2][:, None] * unit
        assert abs(found.controls[2, i] - slope(lambda e, r=row: run(q, v, controls + e * r, values).value)) < 1e-6 * scale
    assert abs(found.parameters[path] - slope(lambda e: run(q, v, controls, {**values, path: values[path] + e}).value)) < 1e-6 * scale
    down = np.array([0.0, 0.0, 1.0])
    by_gravity = slope(lambda e: run(q, v, controls, {**values, "gravity": values["gravity"] + e * down}).value)
    assert abs(found.parameters["gravity"][2] - by_gravity) < 1e-6 * scale


def test_gradients_equal_sensitivities_that_go_forward() -> None:
    m, rng = EXAMPLES["arm"](), np.random.default_rng(0)
    q, v, tau = m.random(rng), 0.3 * rng.normal(size=m.nv), rng.normal(size=(30, m.nv))
    move = ct.stepper(m, 1e-2, "rk4")
    tangent = move.jvp()
    dq, dv, dtau = rng.normal(size=m.nv), rng.normal(size=m.nv), rng.normal(size=tau.shape)
    found = ct.rollout_gradient(m, q, v, tau, step=1e-2, steps=30, integrator="rk4", final_cost=final)
    for u, du in zip(tau, dtau, strict=True):
        q, v, dq, dv = tangent(q, v, u, dq, dv, du)
    forward = 2.0 * q[0] * dq[0] + 2.0 * v @ dv
    rng = np.random.default_rng(0)
    m.random(rng)
    rng.normal(size=m.nv), rng.normal(size=(30, m.nv))
    dq, dv, dtau = rng.normal(size=m.nv), rng.normal(size=m.nv), rng.normal(size=tau.shape)
    backward = found.q0 @ dq + found.v0 @ dv + (found.controls * dtau).sum()
    assert abs(forward - backward) < 1e-10 * abs(forward)


@pytest.mark.parametrize("name", ["four-bar", "jansen-leg"])
def test_gradients_of_linkages_equal_differences(name: str) -> None:
    m, rng = EXAMPLES[name](), np.random.default_rng(0)
    q = m.assemble()
    v, tau = m.project_velocity(q, rng.normal(size=m.nv)), rng.normal(size=(8, m.nv))
    path = f"{m.body_names[0]}.mass"
    own = float(m.parameters()[path].value)

    def run(tau: Any, mass: float) -> Any:
        return ct.rollout_gradient(m, q, v, tau, step=1e-2, steps=8, cost=cost, final_cost=final, integrator="rk4", parameters={path: mass})

    found = run(tau, own)
    for i, unit in enumerate(np.eye(m.nv)):
        row = np.eye(8)[3][:, None] * unit
        assert abs(found.controls[3, i] - slope(lambda e, r=row: run(tau + e * r, own).value)) < 1e-6 * np.abs(found.controls).max()
    assert relative(found.parameters[path], slope(lambda e: run(tau, own + e).value)) < 1e-6


def test_long_runs_store_beginnings_of_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    m, rng = EXAMPLES["double-pendulum"](), np.random.default_rng(0)
    q, tau = m.random(rng, 3), rng.normal(size=(3, 50, m.nv))
    options: dict[str, Any] = {"step": 1e-2, "steps": 50, "cost": cost, "final_cost": final, "integrator": "rk4"}
    whole = ct.rollout_gradient(m, q, None, tau, **options)
    monkeypatch.setattr("catena.simulation.gradient._STORED", 100)
    parts = ct.rollout_gradient(m, q, None, tau, **options)
    assert whole.rollout is not None
    assert parts.rollout is None
    for a, b in zip(whole[:4], parts[:4], strict=True):
        assert relative(b, a) < 1e-12


def test_what_trajectories_share_has_the_sum_of_their_gradients() -> None:
    m, rng = EXAMPLES["cart-pole"](), np.random.default_rng(0)
    gains = m.parameter("gains", [3.0, 1.0])

    def controller(t: Any, q: Any, v: Any) -> Any:
        return -gains[0] * q - gains[1] * v

    q = m.random(rng, 4)
    options: dict[str, Any] = {"step": 1e-2, "steps": 20, "cost": cost, "integrator": "rk4"}
    found = ct.rollout_gradient(m, q, None, controller, parameters={"gains": [3.0, 1.0]}, **options)
    assert found.value.shape == (4,)
    assert found.controls is None
    each = [ct.rollout_gradient(m, one, None, controller, parameters={"gains": [3.0, 1.0]}, **options) for one in q]
    np.testing.assert_allclose(found.parameters["gains"], sum(one.parameters["gains"] for one in each), rtol=1e-10)
    np.testing.assert_allclose(found.q0, [one.q0 for one in each], rtol=1e-10, atol=1e-12)
    unit = np.array([1.0, 0.0])

    def value(e: float) -> float:
        return ct.rollout_gradient(m, q, None, controller, parameters={"gains": np.array([3.0, 1.0]) + e * unit}, **options).value.sum()

    assert relative(found.parameters["gains"][0], slope(value)) < 1e-6
    held = ct.rollout_gradient(m, q, None, np.ones((4, m.nv)), **options)  # constant, for each trajectory
    assert held.controls is not None
    assert held.controls.shape == (4, m.nv)


def test_a_cost_is_needed_and_must_be_one_number() -> None:
    m = EXAMPLES["pendulum"]()
    with pytest.raises(ct.ArgumentError, match="neither cost nor final_cost"):
        ct.rollout_gradient(m, [0.0], step=1e-2, steps=5)
    with pytest.raises(ct.ArgumentError, match="cost returned an array of shape"):
        ct.rollout_gradient(m, [0.0], step=1e-2, steps=5, cost=lambda t, q, v, tau: q)
