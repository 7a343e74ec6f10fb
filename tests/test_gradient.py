"""Gradients through rollouts: against central differences, and against sensitivities that go forward, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests import mechanisms
from tests.referee import relative
from tests.test_branches import folded_at_home, unfolded

import catena as ct
from catena.examples import EXAMPLES
from catena.simulation.rollout import RolloutSettings


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
    assert whole.motion is not None
    assert parts.motion is None
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


def test_gradients_by_noise_and_of_runs_that_stop_equal_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    m, rng = EXAMPLES["double-pendulum"](), np.random.default_rng(0)
    gain, wind = m.parameter("gain", 0.3), m.parameter("wind", np.zeros(2))
    m.add_force("wind", lambda t, q, v: wind * np.cos(q))
    q, v, table = m.random(rng, 3), rng.normal(size=(3, m.nv)), rng.normal(size=(10, m.nv))

    def run(q: Any, v: Any, gain: Any, wind: Any) -> Any:
        options: dict[str, Any] = {"step": 1e-2, "steps": 40, "integrator": "rk4", "cost": cost}
        return ct.rollout_gradient(
            m, q, v, lambda t, q, v: -own_gain * v, parameters={"gain": gain}, noise={"wind": wind}, stop=stop, **options,
            final_cost=lambda t, q, v: final(t, q, v) + 0.1 * own_wind[0] * q[1] + t,
        )  # fmt: skip

    def stop(t: Any, q: Any, v: Any) -> Any:
        return q[0] * q[0] > (q0[0] + 0.1) ** 2

    own_gain, own_wind, q0 = gain, wind, [abs(float(q[0, 0]))]
    found = run(q, v, 0.3, table)
    stopped = ct.rollout(m, q, v, lambda t, q, v: -own_gain * v, step=1e-2, steps=40, integrator="rk4", noise={"wind": table}, stop=stop)
    assert stopped.stopped.any()  # somewhere on the way
    assert set(stopped.stopped_step.tolist()) - {-1, 0}
    unit = rng.normal(size=table.shape)
    assert relative((found.noise["wind"] * unit).sum(), slope(lambda e: run(q, v, 0.3, table + e * unit).value.sum())) < 1e-6
    assert relative(found.parameters["gain"], slope(lambda e: run(q, v, 0.3 + e, table).value.sum())) < 1e-6
    for i, along in enumerate(np.eye(m.nv)):
        assert relative(found.v0[:, i], slope(lambda e, u=along: run(q, v + e * u, 0.3, table).value)) < 1e-6
    monkeypatch.setattr("catena.simulation.gradient._STORED", 100)
    parts = run(q, v, 0.3, table)
    for a, b in ((found.value, parts.value), (found.q0, parts.q0), (found.noise["wind"], parts.noise["wind"])):
        assert relative(b, a) < 1e-12


def test_noise_on_joint_forces_has_the_gradient_of_controls() -> None:
    m, rng = EXAMPLES["double-pendulum"](), np.random.default_rng(0)
    q, tau, noise = m.random(rng), rng.normal(size=(5, m.nv)), rng.normal(size=(10, m.nv))
    options: dict[str, Any] = {"step": 1e-2, "steps": 10, "integrator": "rk4", "final_cost": final}
    found = ct.rollout_gradient(m, q, None, tau, noise=noise, **options)
    whole = ct.rollout_gradient(m, q, None, np.repeat(tau, 2, axis=0) + noise, **options)
    assert relative(found.noise, whole.controls) < 1e-12
    assert relative(found.controls, whole.controls.reshape(5, 2, -1).sum(axis=1)) < 1e-12


@pytest.mark.parametrize("name", ["arm", "four-bar"])
def test_sensitivities_agree_with_gradients(name: str) -> None:
    m, rng = EXAMPLES[name](), np.random.default_rng(0)
    q = m.assemble()
    v, tau, mass = m.project_velocity(q, rng.normal(size=m.nv)), rng.normal(size=(25, m.nv)), f"{m.body_names[0]}.mass"
    options: dict[str, Any] = {"step": 1e-2, "steps": 50, "integrator": "rk4", "parameters": {mass: 1.3}}
    along = {name: m.project_velocity(q, rng.normal(size=m.nv)) for name in ("q0", "v0")}
    if m.has_loops:
        along.pop("q0")  # with it, velocities would have to change as well
    along |= {"controls": rng.normal(size=(2, 25, m.nv)), mass: np.array(0.7)}
    found = ct.rollout_sensitivity(m, q, v, tau, along=along, **options)
    assert found.q.shape == (2, 51, m.nv)
    by = ct.rollout_gradient(m, q, v, tau, final_cost=final, **options)
    end_q, end_v = found.motion.q[:, -1], found.motion.v[:, -1]
    forward = 2.0 * end_q[:, 0] * found.q[:, -1, 0] + 2.0 * (end_v * found.v[:, -1]).sum(axis=1)
    backward = sum(getattr(by, key) @ along[key] for key in ("q0", "v0") if key in along) + by.parameters[mass] * along[mass]
    backward = backward + (by.controls * along["controls"]).sum(axis=(1, 2))
    assert relative(forward, backward) < 1e-10


def test_sensitivities_refuse_what_changes_nothing() -> None:
    m = EXAMPLES["double-pendulum"]()
    with pytest.raises(ct.ArgumentError, match="along 'controls' changes nothing that is given; give some of q0, v0"):
        ct.rollout_sensitivity(m, [0.1, 0.2], step=1e-2, steps=5, along={"controls": [1.0, 0.0]})
    with pytest.raises(ct.ArgumentError, match="along 'v0' has shape"):
        ct.rollout_sensitivity(m, [0.1, 0.2], step=1e-2, steps=5, along={"v0": [1.0, 0.0, 0.0]})


@pytest.mark.parametrize("name", ["double-pendulum", "four-bar"])
@pytest.mark.parametrize("integrator", ["rk4", "implicit-midpoint"])
def test_gradients_of_simulated_runs_equal_differences(name: str, integrator: str) -> None:
    m, rng = EXAMPLES[name](), np.random.default_rng(0)
    q = m.assemble()
    v, mass = m.project_velocity(q, rng.normal(size=m.nv)), f"{m.body_names[0]}.mass"
    times, values = np.array([-0.1, 0.033, 0.05, 0.2]), rng.normal(size=(4, m.nv))  # steps are cut at 0.033, and the last is short

    def run(v: Any, values: Any, own: float) -> Any:
        options: dict[str, Any] = {"until": 0.125, "step": 1e-2, "integrator": integrator, "cost": cost, "final_cost": final}
        return ct.simulate_gradient(m, q, v, tau=(times, values), parameters={mass: own}, **options)

    found = run(v, values, 1.2)
    assert len(found.motion.t) == 15
    for i, j in np.ndindex(values.shape):
        unit = np.zeros(values.shape)
        unit[i, j] = 1.0
        by_difference = slope(lambda e, u=unit: run(v, values + e * u, 1.2).value)
        assert abs(found.controls[i, j] - by_difference) < 1e-6 * np.abs(found.controls).max()
    assert relative(found.parameters[mass], slope(lambda e: run(v, values, 1.2 + e).value)) < 1e-6
    along = m.project_velocity(q, rng.normal(size=m.nv))
    assert relative(found.v0 @ along, slope(lambda e: run(v + e * along, values, 1.2).value)) < 1e-6


def test_costs_of_simulated_runs_are_integrals() -> None:
    m = EXAMPLES["double-pendulum"]()
    found = ct.simulate_gradient(m, [0.1, 0.2], until=0.5, step=1e-3, cost=lambda t, q, v, tau: 3.0 * t * t + tau[0], tau=[2.0, 0.0])
    assert found.value == pytest.approx(0.125 + 1.0, abs=1e-6)
    np.testing.assert_allclose(found.controls[0], 0.5, rtol=1e-12)
    with pytest.raises(ct.MethodError, match="'scipy:Radau' adapts its steps"):
        ct.simulate_gradient(m, [0.1, 0.2], until=0.5, step=1e-3, cost=cost, integrator="scipy:Radau")


def test_gradients_in_chunks_are_those_of_all() -> None:
    m, rng = EXAMPLES["double-pendulum"](), np.random.default_rng(0)
    q, tau = m.random(rng, 40), rng.normal(size=(40, 10, m.nv))
    mass = rng.uniform(1.0, 2.0, 40)
    path = f"{m.body_names[0]}.mass"
    options: dict[str, Any] = {"step": 1e-2, "steps": 20, "cost": cost, "final_cost": final, "parameters": {path: mass}}
    whole, parts = (ct.rollout_gradient(m, q, None, tau, chunk=chunk, **options) for chunk in (None, 16))
    for a, b in zip((*whole[:4], *whole.parameters.values()), (*parts[:4], *parts.parameters.values()), strict=True):
        np.testing.assert_array_equal(a, b)


# plans of loops


def differences(m: ct.Model, q: np.ndarray, v: np.ndarray, along: np.ndarray, value: Any) -> float:
    """Return the derivative of a value of (q, v) by velocities along a direction that keeps the loops closed."""
    span = (2e-6, 1e-6)
    two, one = ((value(m.project_velocity(q, v + h * along)) - value(m.project_velocity(q, v - h * along))) / (2.0 * h) for h in span)
    return (4.0 * one - two) / 3.0


def end(t: Any, q: Any, v: Any) -> Any:
    return q[0] + 2.0 * q[1]


def swinging() -> tuple[ct.Model, np.ndarray, np.ndarray, np.ndarray]:
    """A linkage that goes from one plan to another and back, with a direction of its velocities."""
    m = mechanisms.double_rocker()
    q = m.assemble(guess=m.random(0))
    v, along = m.project_velocity(q, np.ones(m.nv)), m.project_velocity(q, np.arange(1.0, m.nv + 1.0))
    return m, q, 3.0 * v / np.abs(v).max(), along


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit-euler"])
def test_gradients_follow_the_plans_of_the_steps(integrator: str) -> None:
    """Steps by a plan and by pivots return to the loops in other ways, which matters most to integrators of low order."""
    m, q, v, along = swinging()
    options: dict[str, Any] = {"step": 4e-3, "integrator": integrator}
    steps = {**options, "steps": 150}
    _, used = RolloutSettings.of(m, q, v, None, 4e-3, 150, 1, 0.0, integrator, "auto").run_with_plans(1)
    assert len(used.uses) > 2
    expected = differences(m, q, v, along, lambda v: end(0.0, ct.rollout(m, q, v, **steps).q[-1], v))
    by_gradient = ct.rollout_gradient(m, q, v, final_cost=end, **steps).v0 @ along
    assert by_gradient == pytest.approx(expected, rel=1e-7)
    found = ct.rollout_sensitivity(m, q, v, along={"v0": along}, **steps)
    assert end(0.0, found.q[-1], None) == pytest.approx(expected, rel=1e-7)
    together = ct.rollout_gradient(m, np.array([q, q]), np.array([0.1 * v, v]), final_cost=end, **steps)
    assert together.v0[1] @ along == pytest.approx(by_gradient, rel=1e-12)
    run = ct.simulate_gradient(m, q, v, until=0.6, final_cost=end, **options)
    assert run.motion is not None
    assert run.motion.info["switches"] > 2
    expected = differences(m, q, v, along, lambda v: end(0.0, ct.simulate(m, q, v, until=0.6, **options).q[-1], v))
    assert run.v0 @ along == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit-euler"])
def test_segments_of_long_runs_go_on_with_the_plans_that_they_had(integrator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    m, q, v, _ = swinging()
    options: dict[str, Any] = {"step": 2.0**-8, "steps": 150, "integrator": integrator, "final_cost": end}
    states = np.array([q, q]), np.array([v, 0.3 * v])
    whole = ct.rollout_gradient(m, *states, **options)
    monkeypatch.setattr("catena.simulation.gradient._STORED", 100)
    parts = ct.rollout_gradient(m, *states, **options)
    assert parts.motion is None
    np.testing.assert_array_equal(parts.value, whole.value)
    np.testing.assert_allclose(parts.v0, whole.v0, rtol=1e-10)


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit-euler"])
def test_gradients_have_the_rank_of_the_state_whatever_the_rank_at_home(integrator: str) -> None:
    m = folded_at_home()
    q, v, along = unfolded(m)
    steps: dict[str, Any] = {"step": 1e-2, "steps": 20, "integrator": integrator}
    expected = differences(m, q, v, along, lambda v: end(0.0, ct.rollout(m, q, v, **steps).q[-1], v))
    assert ct.rollout_gradient(m, q, v, final_cost=end, **steps).v0 @ along == pytest.approx(expected, rel=1e-7)
    assert end(0.0, ct.rollout_sensitivity(m, q, v, along={"v0": along}, **steps).q[-1], None) == pytest.approx(expected, rel=1e-7)
    run = ct.simulate_gradient(m, q, v, until=0.2, step=1e-2, integrator=integrator, final_cost=end)
    assert run.v0 @ along == pytest.approx(expected, rel=1e-6)
    home = m.assemble()
    both = ct.rollout_gradient(m, np.array([q, home]), np.array([v, 0.0 * v]), final_cost=end, **steps)
    assert both.v0[0] @ along == pytest.approx(expected, rel=1e-7)


def test_a_trajectory_that_begins_at_a_singular_configuration_has_no_gradient() -> None:
    m = folded_at_home()
    q, v, _ = unfolded(m)
    found = ct.rollout_gradient(m, np.array([q, m.neutral()]), np.array([v, 0.0 * v]), step=1e-2, steps=4, final_cost=end)
    assert np.isfinite(found.v0[0]).all()
    assert np.isnan(found.v0[1]).all()
