"""The parallel robots of the examples: methods against an independent solution at random poses, motors, power, and what moves how."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.mechanisms import closing_methods
from tests.referee import Referee, relative

import catena as ct
from catena.examples import ACTUATED, EXAMPLES

pytestmark = pytest.mark.evaluated

#: How far the motors are from where they are at `start`, at most [rad] or [m].
REACH = {"five-bar-robot": 0.5, "planar-3rrr": 0.4, "spherical-3rrr": 0.5, "delta": 0.4, "delta-ruu": 0.4}
REACH |= {"stewart-ups": 0.08, "stewart-ucu": 0.08}


@cache
def model(name: str) -> ct.Model:
    return EXAMPLES[name]()


@cache
def start(name: str) -> np.ndarray:
    if name == "five-bar-robot":
        return model(name).assemble([1.3, -1.0, 1.2, 1.5])
    return model(name).assemble()


@cache
def random_states(name: str, count: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random poses that the motors reach from the start, velocities that keep the loops closed, and motor forces."""
    m, rng = model(name), np.random.default_rng(3)
    places = [m.q_names.index(motor) for motor in ACTUATED[name]]
    q: list[np.ndarray] = []
    while len(q) < count:
        x = start(name)[places] + REACH[name] * rng.uniform(-1.0, 1.0, len(places))
        try:
            q.append(ct.reduced(m, ACTUATED[name]).positions(x, guess=start(name)))
        except ct.ModelError:  # out of the workspace
            continue
    v = np.array([m.project_velocity(pose, rng.normal(size=m.nv)) for pose in q])
    tau = np.zeros((count, m.nv))
    tau[:, driven(name)] = 10.0 * rng.normal(size=(count, len(places)))
    return np.array(q), v, tau


def driven(name: str) -> list[int]:
    return [model(name).v_names.index(motor) for motor in ACTUATED[name]]


@cache
def accelerations(name: str, method: str) -> np.ndarray:
    return ct.forward_dynamics(model(name), method)(*random_states(name))


def power(m: ct.Model, q: np.ndarray, v: np.ndarray, vdot: np.ndarray) -> float:
    """Return the rate of the energy along a motion, by differences of fourth order."""
    energy, h = ct.energy(m), 1e-4

    def total(t: float) -> float:
        return float(sum(energy(m.integrate(q, t * v + 0.5 * t * t * vdot), v + t * vdot)))

    return (8.0 * (total(h) - total(-h)) - (total(2.0 * h) - total(-2.0 * h))) / (12.0 * h)


@pytest.mark.parametrize(("name", "method"), [(name, method) for name in ACTUATED for method in closing_methods(EXAMPLES[name]())])
def test_methods_equal_the_referee_at_random_poses(name: str, method: str) -> None:
    q, v, tau = random_states(name)
    assert np.ptp(q, axis=0).max() > 0.05
    assert ct.loop_error(model(name))(q).max() < 1e-12
    referee = Referee(model(name))
    for k, vdot in enumerate(accelerations(name, method)):
        assert relative(vdot, referee.forward_with_loops(q[k], v[k], tau[k])) < 1e-9


@pytest.mark.parametrize("name", ACTUATED)
def test_inverse_dynamics_with_the_motors_undoes_forward_dynamics(name: str) -> None:
    q, v, tau = random_states(name)
    found = ct.inverse_dynamics(model(name), actuated=ACTUATED[name])(q, v, accelerations(name, "coordinate-reduction"))
    np.testing.assert_allclose(found, tau, rtol=0, atol=1e-9 * np.abs(tau).max())


@pytest.mark.parametrize("name", ACTUATED)
def test_power_of_the_motors_equals_the_rate_of_the_energy(name: str) -> None:
    m = model(name)
    q, v, tau = random_states(name)
    for k, vdot in enumerate(accelerations(name, "coordinate-reduction")):
        terms = np.abs(tau[k] * v[k]).max() + np.abs(v[k]).max()
        assert power(m, q[k], v[k], vdot) == pytest.approx(tau[k] @ v[k], abs=1e-6 * terms)


@pytest.mark.parametrize("name", ACTUATED)
def test_motors_are_independent_coordinates(name: str) -> None:
    """There are as many motors as degrees of freedom, and mass matrix and bias in them give the accelerations of the motors."""
    m = model(name)
    x = ct.reduced(m, ACTUATED[name])
    q, v, tau = random_states(name)
    assert len(x.names) == m.mobility().freedom
    right = tau[:, driven(name)] - x.bias_force(q, v)
    found = np.linalg.solve(x.mass_matrix(q), right[..., None])[..., 0]
    assert relative(found, accelerations(name, "coordinate-reduction")[:, driven(name)]) < 1e-9


@pytest.mark.parametrize("name", ACTUATED)
def test_file_gives_the_same_robot(name: str, tmp_path: Any) -> None:
    model(name).save(tmp_path / "robot.toml")
    again = ct.load(tmp_path / "robot.toml")
    q, v, tau = random_states(name)
    assert again.v_names == model(name).v_names
    assert relative(ct.forward_dynamics(again, "coordinate-reduction")(q, v, tau), accelerations(name, "coordinate-reduction")) < 1e-12


def test_platform_of_the_delta_does_not_turn() -> None:
    q, _, _ = random_states("delta")
    np.testing.assert_allclose(np.abs(q[:, 3]), 1.0, rtol=0, atol=1e-12)


def test_camera_of_the_spherical_robot_turns_about_the_origin() -> None:
    m = model("spherical-3rrr")
    camera = ct.poses(m)(random_states("spherical-3rrr")[0])[:, m.body_names.index("platform")]
    np.testing.assert_allclose(camera[:, :3, 3], 0.0, rtol=0, atol=1e-12)
    turns = ct.jacobian(m, "platform")(m.neutral())[:3] @ ct.reduced(m, ACTUATED["spherical-3rrr"]).basis(m.neutral())
    np.testing.assert_allclose(np.abs(turns), np.eye(3), rtol=0, atol=1e-12)  # each motor about one axis


def test_platforms_of_the_table_stay_level() -> None:
    m = model("planar-3rrr")
    frames = ct.poses(m)(random_states("planar-3rrr")[0])
    np.testing.assert_allclose(frames[:, :, 2, :3], np.broadcast_to([0.0, 0.0, 1.0], frames.shape[:2] + (3,)), rtol=0, atol=1e-12)
    np.testing.assert_allclose(frames[:, :, 2, 3], 0.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["stewart-ups", "stewart-ucu"])
def test_legs_of_the_stewart_platform_are_as_long_as_their_ends_are_apart(name: str) -> None:
    m = model(name)
    for q in random_states(name)[0]:
        frames = dict(zip(m.body_names, ct.poses(m)(q), strict=True))
        for loop, motor in zip(m.loops, ACTUATED[name], strict=True):
            end = frames["platform"] @ [*loop.at_b.p, 1.0]
            foot = frames[loop.a.replace("upper", "lower")][:, 3]
            assert np.linalg.norm(end - foot) == pytest.approx(loop.at_a.p[2] + q[m.q_names.index(motor)], abs=1e-12)


def test_legs_that_turn_in_themselves_do_not_change_the_motion_of_the_platform_much() -> None:
    """6-UPS and 6-UCU differ by the spin of thin cylinders alone."""
    forces = np.array([50.0, 60.0, 70.0, 80.0, 90.0, 100.0])
    found = []
    for name in ("stewart-ups", "stewart-ucu"):
        m = model(name)
        tau = np.zeros(m.nv)
        tau[driven(name)] = forces
        found.append(ct.forward_dynamics(m)(m.neutral(), np.zeros(m.nv), tau)[:6])
    assert relative(*found) < 1e-3
    assert relative(*found) > 0.0


# --- [SS01] section VI, along the path of (35)


def meet(p: Any, r: float, q: Any, s: float) -> Any:
    """Return points at distances r from p and s from q, on the left of the way from p to q, as complex numbers."""
    along = (r**2 - s**2 + np.abs(q - p) ** 2) / (2.0 * np.abs(q - p))
    return p + (along + 1j * np.sqrt(r**2 - along**2)) * (q - p) / np.abs(q - p)


def four_bar_by_hand(theta: np.ndarray) -> np.ndarray:
    """Return the angles of crank, coupler and rocker (K, 3) of the built-in linkage, which turns downwards, for those of the paper."""
    end = 0.3 * np.exp(1j * theta[:, 0])
    pin = meet(end, 1.0, 1.0, 0.6)
    return -np.stack([theta[:, 0], np.angle(pin - end) - theta[:, 0], np.angle(pin - 1.0)], axis=1)


def five_bar_by_hand(theta: np.ndarray) -> np.ndarray:
    """Return all angles (K, 4) of the robot with its tip below the elbows."""
    left, right = 0.6 * np.exp(1j * theta[:, 0]), 1.2 + 0.7 * np.exp(1j * theta[:, 1])
    tip = meet(right, 0.8, left, 1.1)
    outer = [np.angle(tip - left), np.angle(tip - right)]
    return np.stack([theta[:, 0], outer[0] - theta[:, 0], theta[:, 1], outer[1] % (2.0 * np.pi) - theta[:, 1]], axis=1)


SECTION_SIX: dict[str, tuple[Any, tuple[str, ...], Any, Any, float]] = {
    "four-bar": (four_bar_by_hand, ("crank",), [30.0], [90.0], -1.0),
    "five-bar-robot": (five_bar_by_hand, ACTUATED["five-bar-robot"], [30.0, 30.0], [90.0, 70.3], 1.0),
}


@pytest.mark.parametrize("name", SECTION_SIX)
def test_motion_along_the_path_equals_the_one_by_hand(name: str) -> None:
    """Angles by triangles, rates and accelerations by their differences, work of the motors by the energy."""
    by_hand, motors, first, last, sign = SECTION_SIX[name]
    m, h = model(name), 0.02
    path = ct.cycloidal(np.radians(first), np.radians(last), duration=20.0)
    t = np.arange(0.0, 20.0 + 0.5 * h, h)
    expected = by_hand(path(t).position)
    x = ct.reduced(m, motors)
    q = x.positions(sign * path(t).position, guess=expected[0])
    np.testing.assert_allclose(q, expected, rtol=0, atol=1e-12)
    v = x.rates(q, sign * path(t).rate)
    vdot = x.accelerations(q, v, sign * path(t).acceleration)
    near = {k: by_hand(path(t + k * h).position) for k in (-2, -1, 1, 2)}
    rates = (8.0 * (near[1] - near[-1]) - (near[2] - near[-2])) / (12.0 * h)
    inner = slice(2, -2)
    np.testing.assert_allclose(v[inner], rates[inner], rtol=0, atol=1e-9)
    again = (16.0 * (near[1] + near[-1]) - (near[2] + near[-2]) - 30.0 * expected) / (12.0 * h * h)
    np.testing.assert_allclose(vdot[inner], again[inner], rtol=0, atol=1e-9)

    tau = ct.inverse_dynamics(m, actuated=motors)(q, v, vdot)
    energy = sum(ct.energy(m)(q, v))
    assert np.abs(np.diff(tau, axis=0)).max() < 0.05  # no jump to another branch
    assert (tau * v).sum() * h == pytest.approx(energy[-1] - energy[0], abs=1e-9)
