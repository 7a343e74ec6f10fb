"""Control by computed torque: its forces are those of inverse dynamics, and what is off the path decays as (37) of [SS01] says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catena as ct
from catena.examples import ACTUATED, EXAMPLES

pytestmark = pytest.mark.evaluated


def arm() -> tuple[ct.Model, tuple[str, ...]]:
    m = EXAMPLES["arm"]()
    return m, m.v_names


def four_bar() -> tuple[ct.Model, tuple[str, ...]]:
    return EXAMPLES["four-bar"](), ("crank",)


def robot(name: str) -> tuple[ct.Model, tuple[str, ...]]:
    return EXAMPLES[name](), ACTUATED[name]


def start(m: ct.Model) -> np.ndarray:
    return m.assemble() if m.has_loops else m.neutral()


def at(m: ct.Model, names: Any) -> list[int]:
    return [m.q_names.index(name) for name in names]


@pytest.mark.parametrize("name", ["four-bar", *ACTUATED])
def test_forces_on_the_path_equal_inverse_dynamics_with_these_motors(name: str) -> None:
    m, names = robot(name) if name in ACTUATED else four_bar()
    first = start(m)[at(m, names)]
    path = ct.cycloidal(first, first + np.linspace(0.02, 0.07, len(names)), duration=1.0)
    controller = ct.computed_torque(m, path, names)
    t = np.linspace(0.1, 0.9, 4)
    x = ct.reduced(m, names)
    q = x.positions(path(t).position, guess=start(m))
    v = x.rates(q, path(t).rate)
    expected = ct.inverse_dynamics(m, actuated=names)(q, v, x.accelerations(q, v, path(t).acceleration))
    for k in range(4):
        found = controller(t[k], q[k], v[k])
        assert found.dtype == float
        assert set(np.flatnonzero(found)) <= {m.v_names.index(name) for name in names}
        np.testing.assert_allclose(found, expected[k], rtol=0, atol=1e-11 * np.abs(expected).max())


def test_an_arm_beyond_a_stop_is_pushed_back_by_it_under_every_law_that_cancels_gravity() -> None:
    """Stops and contacts are not cancelled: held beyond them a motor gives the weight alone, and let go the rod leaves the stop."""
    m = ct.Model("rod")
    m.add("rod", ct.rod(1.0, mass=2.0), ct.Revolute("y", limits=(-1.0, 1.0), stiffness=3.0, damping=0.5, friction=0.1))
    m.add_contact("floor", "rod", points=[(1.0, 0, 0)], height=-0.87)
    q, v = np.array([1.1]), np.array([0.0])
    weight = -9.81 * np.cos(1.1)
    assert abs(ct.passive_force(m)(q, v)[0]) > 900.0
    assert ct.gravity_force(m)(q)[0] == pytest.approx(weight, rel=1e-12)
    there = lambda t: (q, v, v)  # noqa: E731
    assert ct.computed_torque(m, there)(0.0, q, v)[0] == pytest.approx(weight + 3.0 * 1.1, rel=1e-12)
    run = ct.simulate(m, q, until=0.5, controller=ct.computed_torque(m, there, bandwidth=0.1))
    assert run.q[-1, 0] < 1.0
    gravity = ct.gravity_force(m)
    assert ct.simulate(m, q, until=0.5, controller=lambda t, q, v: gravity(q)).q[-1, 0] < 1.0


def test_forces_of_a_tree_equal_inverse_dynamics() -> None:
    m, names = arm()
    path = ct.polynomial(np.zeros(7), np.linspace(0.5, 1.0, 7), 2.0)
    at_t = path(0.7)
    expected = ct.inverse_dynamics(m)(*at_t)
    np.testing.assert_allclose(ct.computed_torque(m, path)(0.7, *at_t[:2]), expected, rtol=0, atol=1e-11 * np.abs(expected).max())
    turned = ct.computed_torque(m, lambda t: [part[::-1] for part in path(t)], names[::-1])  # the names say which is which
    np.testing.assert_allclose(turned(0.7, *at_t[:2]), expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("case", ["arm", "four-bar", "five-bar-robot", "planar-3rrr"])
def test_what_is_off_the_path_decays_as_the_bandwidth_says(case: str) -> None:
    """With both poles at -bandwidth, the error from rest is e0 (1 + b t) exp(-b t), whatever the mechanism."""
    m, names = {"arm": arm, "four-bar": four_bar}.get(case, lambda: robot(case))()
    bandwidth = np.linspace(3.0, 5.0, len(names))
    q, places = start(m), at(m, names)
    path = ct.cycloidal(q[places] + 0.05, q[places] - 0.3, duration=1.0)
    controller = ct.computed_torque(m, path, names, bandwidth)
    times = np.linspace(0.0, 1.5, 7)
    run = ct.simulate(m, q, until=1.5, controller=controller, record=times, rtol=1e-10, atol=1e-11)
    expected = -0.05 * (1.0 + bandwidth * times[:, None]) * np.exp(-bandwidth * times[:, None])
    np.testing.assert_allclose(run.q[:, places] - path(times).position, expected, rtol=0, atol=1e-7)
    others = [i for i in range(m.nv) if m.v_names[i] not in names]
    assert not run.tau[:, others].any()


def test_what_acts_by_itself_is_taken_into_account() -> None:
    """Springs, dampers and forces over time do not lead off the path."""
    m = EXAMPLES["four-bar"]()
    m.add_spring("coil", "ground", "rocker", (1.0, 0.0, 0.5), (0.6, 0.0, 0.0), stiffness=50.0, damping=2.0, length=0.3)
    m.add_force("gust", lambda t, q, v: np.array([0.0, np.sin(3.0 * t), 0.0]))
    path = ct.cycloidal(1.0, 2.0, duration=1.0)
    run = ct.simulate(m, m.assemble(crank=1.0), until=1.2, controller=ct.computed_torque(m, path, ["crank"], 10.0))
    assert np.abs(run["crank"] - path(run.t).position).max() < 1e-6


def test_crank_goes_all_the_way_round_with_one_controller() -> None:
    """No choice of constraints becomes weak on the way."""
    m = EXAMPLES["four-bar"]()
    path = ct.cycloidal(1.0, 1.0 + 4.0 * np.pi, duration=3.0)
    run = ct.simulate(m, m.assemble(crank=1.0), until=3.0, controller=ct.computed_torque(m, path, ["crank"], 10.0))
    assert np.abs(run["crank"] - path(run.t).position).max() < 1e-6


@pytest.mark.parametrize("integrator", ["rk4", "gauss-legendre-4"])
def test_controller_runs_with_fixed_steps_and_in_rollouts(integrator: str) -> None:
    m = EXAMPLES["double-pendulum"]()
    controller = ct.computed_torque(m, ct.cycloidal([0.0, 0.0], [1.0, -1.0], 0.2), bandwidth=10.0)
    run = ct.simulate(m, np.zeros(2), until=0.2, step=1e-3, integrator=integrator, controller=controller)
    runs = ct.rollout(m, np.zeros((2, 2)), controls=controller, step=1e-3, steps=200, integrator=integrator)
    assert np.abs(run.q[-1] - [1.0, -1.0]).max() < 1e-5
    np.testing.assert_allclose(runs.q[1, -1], run.q[-1], rtol=0, atol=1e-12)


def test_controller_called_from_python_equals_the_compiled_one() -> None:
    m = EXAMPLES["four-bar"]()
    controller = ct.computed_torque(m, ct.cycloidal(1.0, 1.5, 0.1), ["crank"], 10.0)
    q = m.assemble(crank=1.0)
    compiled, called = (ct.simulate(m, q, until=0.1, step=1e-3, controller=c) for c in (controller, ct.python(controller)))
    np.testing.assert_allclose(called.q, compiled.q, rtol=0, atol=1e-12)


def timed(*shape: int) -> Any:
    return lambda t: (np.zeros(shape), np.zeros(shape), np.zeros(shape))


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("four-bar", (timed(1),), "name the coordinates that have motors"),
        ("four-bar", (timed(1), ["handle"]), "'handle', which is not a velocity coordinate"),
        ("four-bar", (timed(1), "crank"), "give a sequence of names"),
        ("four-bar", (timed(2), ["crank", "rocker"]), "has 1 degrees of freedom"),
        ("four-bar", (timed(2), ["crank"]), "give three: position, rate and acceleration of crank"),
        ("four-bar", (lambda t: 0.5, ["crank"]), "give three"),
        ("four-bar", (lambda t: (0.5, 0.0), ["crank"]), "give three"),
        ("double-pendulum", (timed(3), ["upper", "lower", "upper"]), "names a coordinate twice"),
        ("double-pendulum", (timed(1), "upper"), "give a sequence of names"),
        ("four-bar", (3.0, ["crank"]), "is not a function"),
        ("four-bar", (timed(1), ["crank"], 0.0), "bandwidth is 0.0"),
        ("four-bar", (timed(1), ["crank"], [1.0, 2.0]), r"bandwidth is \[1.0, 2.0\]"),
        ("five-bar-robot", (timed(), ["leg1_proximal", "leg2_proximal"]), "give three"),
        ("double-pendulum", (timed(1), ["upper"]), "lower would move freely"),
        ("top", (timed(3),), "not plain numbers"),
        ("stewart-ups", (timed(6), [f"platform.{x}" for x in ("wx", "wy", "wz", "vx", "vy", "vz")]), "not plain numbers"),
    ],
)
def test_what_cannot_be_controlled_is_refused(name: str, arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(ct.CatenaError, match=says):
        ct.computed_torque(EXAMPLES[name](), *arguments)


def test_forces_called_from_python_are_refused() -> None:
    m = EXAMPLES["double-pendulum"]()
    m.add_force("hand", ct.python(lambda t, q, v: np.zeros(2)))
    with pytest.raises(ct.ModelError, match=r"marked ct\.python"):
        ct.computed_torque(m, timed(2))
