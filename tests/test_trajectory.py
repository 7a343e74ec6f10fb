"""A trajectory and what it is made of, its times, its tables and its files say the same."""

import copy
import csv
import os
import pickle
import sys
from dataclasses import FrozenInstanceError
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catena as ct
from catena.errors import MissingPackageError, TrajectoryFileError
from catena.examples import EXAMPLES, gallery
from catena.model.joints import JOINTS
from catena.model.manifolds import difference_rotation
from catena.simulation import interpolation
from catena.simulation import trajectory as trajectory_module
from catena.simulation.trajectory import Occurrence, Trajectory
from catena.spatial import quaternion_exp, quaternion_inverse, quaternion_product

pytestmark = pytest.mark.evaluated


def run_of(m, *, steps=40, h=0.01, seed=0, **options):
    """Return a run by the classical Runge-Kutta method, from a random state."""
    rng = np.random.default_rng(seed)
    f = ct.forward_dynamics(m)
    tau = np.zeros(m.nv)
    q, v = m.random(rng), rng.normal(size=m.nv)
    rows = [(q, v, f(q, v, tau))]
    for _ in range(steps):
        v1, a1 = v, f(q, v, tau)
        v2, a2 = v + h / 2 * a1, f(m.integrate(q, h / 2 * v1), v + h / 2 * a1, tau)
        v3, a3 = v + h / 2 * a2, f(m.integrate(q, h / 2 * v2), v + h / 2 * a2, tau)
        v4, a4 = v + h * a3, f(m.integrate(q, h * v3), v + h * a3, tau)
        q, v = m.integrate(q, h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        rows.append((q, v, f(q, v, tau)))
    info = {"integrator": "rk4", "steps": steps, "seconds": 0.25, "stopped": "end"}
    return Trajectory(m, h * np.arange(steps + 1), *map(np.array, zip(*rows, strict=True)), info=info, **options)


def with_parts(run, **parts):
    """Return a run with some parts replaced."""
    old = {name: getattr(run, name) for name in ("t", "q", "v", "vdot", "tau", "info", "events")}
    return Trajectory(run.model, **{**old, **parts})


def slider(**options):
    """Return a cart in uniform acceleration: q = t^2."""
    m = ct.Model("slider")
    m.add("cart", ct.point_mass(2.0), ct.Prismatic("x"))
    t = np.linspace(0.0, 2.0, 5)[:, None]
    return Trajectory(m, t[:, 0], t**2, 2.0 * t, np.full((5, 1), 2.0), **options)


@pytest.fixture(scope="module")
def swing():
    run = run_of(EXAMPLES["double-pendulum"]())
    tau = np.stack([np.sin(run.t), np.cos(run.t)], axis=1)
    events = (Occurrence("passes", 0.1234, run.q[3], run.v[3]), Occurrence("turns é", 0.2, run.q[9], run.v[9]))
    return with_parts(run, tau=tau, events=events)


def assert_same(a, b):
    """Two runs agree to the last bit."""
    assert (a.q_names, a.v_names, a.q_units, a.v_units, a.info) == (b.q_names, b.v_names, b.q_units, b.v_units, b.info)
    for name in ("t", "q", "v", "vdot", "tau"):
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None) == (y is None), name
        if x is not None:
            np.testing.assert_array_equal(x, y, err_msg=name)
    assert [(e.name, e.t) for e in a.events] == [(e.name, e.t) for e in b.events]
    for one, two in zip(a.events, b.events, strict=True):
        np.testing.assert_array_equal(one.q, two.q)
        np.testing.assert_array_equal(one.v, two.v)


# --- making one


@pytest.mark.parametrize(("parts", "message"), [
    ({"t": []}, r"t has shape \(0,\); give at least one time"),
    ({"t": [[0.0, 1.0]]}, r"t has shape \(1, 2\)"),
    ({"t": [0.0, 1.0, 2.0, np.nan, 4.0]}, r"t\[3\] is nan; give finite times"),
    ({"t": [0.0, 1.0, 2.0, 3.0, np.inf]}, r"t\[4\] is inf; give finite times"),
    ({"t": [0.0, 1.0, 1.0, 2.0, 3.0]}, r"t\[2\] = .*1\.0.* does not come after t\[1\]"),
    ({"t": [4.0, 3.0, 2.0, 1.0, 0.0]}, "give increasing times"),
    ({"t": "now"}, "t 'now' is not made of real numbers"),
    ({"q": np.zeros((4, 1))}, r"q has shape \(4, 1\); with 5 times, model 'slider' takes \(5, 1\)"),
    ({"q": np.zeros(5)}, r"q has shape \(5,\)"),
    ({"v": np.zeros((5, 2))}, r"v has shape \(5, 2\)"),
    ({"v": None}, "v None is not made of real numbers"),
    ({"q": [[0.0], [1.0], [2.0, 3.0], [4.0], [5.0]]}, "q .* is not made of real numbers"),
    ({"q": np.zeros((5, 1), complex)}, "q array(?s:.*) is not made of real numbers"),
    ({"vdot": np.zeros((5, 2))}, r"vdot has shape \(5, 2\)"),
    ({"tau": np.zeros((1, 1))}, r"tau has shape \(1, 1\)"),
    ({"events": (("hit", 1.0, [0.0, 0.0], [0.0]),)}, r"event 'hit' has q of shape \(2,\)"),
])  # fmt: skip
def test_wrong_parts_are_named(parts, message):
    with pytest.raises(ct.ArgumentError, match=message):
        with_parts(slider(), **parts)


def test_model_is_checked():
    with pytest.raises(ct.ArgumentError, match="'pendulum' is not a model"):
        Trajectory("pendulum", [0.0], [[0.0]], [[0.0]])  # type: ignore[arg-type]
    m = ct.Model("rock")
    m.add("rock", ct.point_mass(1.0), ct.Fixed())
    with pytest.raises(ct.ArgumentError, match="model 'rock' has no coordinates"):
        Trajectory(m, [0.0], np.zeros((1, 0)), np.zeros((1, 0)))


def test_nothing_can_be_changed(swing):
    with pytest.raises(FrozenInstanceError):
        swing.t = swing.t
    energies = (*swing.energy, swing.total_energy, swing.energy_change)
    for array in (swing.t, swing.q, swing.v, swing.vdot, swing.tau, *energies, swing.events[0].q):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    given = np.array([[0.0], [1.0]])
    run = Trajectory(slider().model, [0.0, 1.0], given, given)
    given[:] = 7.0
    np.testing.assert_array_equal(run.q, [[0.0], [1.0]])


def test_length_and_words():
    run = slider(info={"integrator": "by hand", "stopped": "event 'wall'", "steps": np.int64(4)})
    assert len(run) == 5
    assert repr(run) == "<Trajectory 'slider': t = 0 to 2 s, 5 samples, by hand, stopped: event 'wall'>"
    assert type(run.info["steps"]) is int
    assert repr(slider().at(1.0)) == "<Trajectory 'slider': t = 1 to 1 s, 1 sample>"
    with pytest.raises(TypeError, match="not iterable"):
        iter(run)


def test_copies_are_the_same(swing):
    _ = swing.energy
    assert_same(swing, pickle.loads(pickle.dumps(swing)))
    assert_same(swing, copy.deepcopy(swing))


def test_coordinates_by_name_are_the_columns():
    run = run_of(EXAMPLES["humanoid"](), steps=2)
    assert run.names == run.model.q_names
    for i, name in enumerate(run.model.q_names):
        np.testing.assert_array_equal(run[name], run.q[:, i])
    for i, name in enumerate(run.model.v_names):
        np.testing.assert_array_equal(run.velocity(name), run.v[:, i])


def test_unknown_names_list_the_known(swing):
    with pytest.raises(ct.ArgumentError, match=r"no position coordinate 'uper'; did you mean 'upper'\? Choose from 'upper', 'lower'"):
        swing["uper"]
    with pytest.raises(ct.ArgumentError, match="no velocity coordinate 3; choose from 'upper', 'lower'"):
        swing.velocity(3)


# --- energies


@pytest.mark.parametrize("name", ["pendulum", "double-pendulum", "top", "humanoid"])
def test_energies_are_those_of_the_kernel_and_hardly_drift(name):
    run = run_of(EXAMPLES[name](), h=0.002)
    kernel = ct.energy(run.model)
    expected = np.array([kernel(q, v) for q, v in zip(run.q, run.v, strict=True)])
    np.testing.assert_allclose(np.stack(run.energy, axis=1), expected, rtol=1e-13, atol=1e-13 * np.abs(expected).max())
    np.testing.assert_array_equal(run.total_energy, run.energy[0] + run.energy[1])
    assert run.energy_change[0] == 0.0
    assert 0.0 < np.abs(run.energy_change).max() < 1e-5


def test_energy_change_is_relative_to_the_largest_energy():
    run = slider()  # kinetic energy 4 t^2, so 16 at the end
    np.testing.assert_allclose(run.energy_change, (run.t / 2.0) ** 2, rtol=1e-15)
    # a total energy of zero throughout: the span of the kinetic energy takes its place
    m = ct.Model("fall")
    m.add("stone", ct.point_mass(1.0), ct.Prismatic("z"))
    t = np.linspace(0.0, 1.0, 5)[:, None]
    fall = Trajectory(m, t[:, 0], -0.5 * 9.81 * t**2, -9.81 * t)
    assert np.abs(fall.total_energy).max() < 1e-14
    assert np.abs(fall.energy_change).max() < 1e-15
    still = Trajectory(m, t[:, 0], 0.0 * t, 0.0 * t)
    np.testing.assert_array_equal(still.energy_change, np.zeros(5))


def test_drift_of_a_run_that_went_wrong_is_known_up_to_there():
    run = with_parts(slider(), q=[[0.0], [1.0], [2.0], [np.inf], [np.nan]], v=[[0.0], [1.0], [2.0], [np.nan], [np.nan]])
    np.testing.assert_allclose(run.energy_change[:3], [0.0, 0.25, 1.0])
    assert np.isnan(run.energy_change[3:]).all()


def test_energy_that_depends_on_time_is_given_the_time(monkeypatch):
    class Energy:
        inputs = (SimpleNamespace(name="t", shape=()), SimpleNamespace(name="q", shape=(1,)), SimpleNamespace(name="v", shape=(1,)))

        def __call__(self, t, q, v):
            return t + q[:, 0], 2.0 * t

    monkeypatch.setattr(trajectory_module, "energy", lambda model: Energy())
    run = slider()
    np.testing.assert_array_equal(run.energy[0], run.t + run.t**2)
    np.testing.assert_array_equal(run.energy[1], 2.0 * run.t)


# --- other times

TURN, SPIN = np.array([0.6, -1.0, 1.6]), np.array([0.9, 0.4, -0.2])


def _turned(quaternion, x):
    pure = np.concatenate([np.zeros_like(x[:, :1]), x], axis=1)
    return quaternion_product(quaternion_product(quaternion, pure), quaternion_inverse(quaternion))[:, 1:]


def turning(t):
    """Return quaternion, angular velocity and acceleration of one turn after another."""
    a, a1, a2 = np.sin(1.3 * t), 1.3 * np.cos(1.3 * t), -1.69 * np.sin(1.3 * t)
    b, b1, b2 = t + 0.2 * t**2, 1.0 + 0.4 * t, 0.4 + 0.0 * t
    first, second = quaternion_exp(a * TURN), quaternion_exp(b * SPIN)
    back = quaternion_inverse(second)
    carried = _turned(back, a1 * TURN)
    w = carried + b1 * SPIN
    return quaternion_product(first, second), w, _turned(back, a2 * TURN) - np.cross(b1 * SPIN, carried) + b2 * SPIN


def flying(t):
    """Return pose, body twist and its rate of a body that turns and moves along a curve."""
    q, w, w1 = turning(t)
    p, p1, p2 = (np.concatenate(x, axis=1) for x in (
        (np.sin(t), np.cos(2.0 * t), t**3), (np.cos(t), -2.0 * np.sin(2.0 * t), 3.0 * t**2), (-np.sin(t), -4.0 * np.cos(2.0 * t), 6.0 * t),
    ))  # fmt: skip
    back = quaternion_inverse(q)
    speed = _turned(back, p1)
    v, vdot = np.concatenate([w, speed], axis=1), np.concatenate([w1, _turned(back, p2) - np.cross(w, speed)], axis=1)
    return np.concatenate([p, q], axis=1), v, vdot


def swinging(n):
    """Return a motion of n coordinates, each of its own frequency."""
    rate = 1.0 + 0.3 * np.arange(n)
    return lambda t: (np.sin(rate * t), rate * np.cos(rate * t), -(rate**2) * np.sin(rate * t))


@pytest.mark.parametrize("accelerations", [True, False])
@pytest.mark.parametrize("kind", [kind for kind in JOINTS if kind != "fixed"])
def test_interpolation_and_the_motion_agree_to_its_order(kind, accelerations):
    link = next(link for link in gallery().links if link.joint.kind == kind)
    m = ct.Model()
    m.add("a", link.body, link.joint)
    joint = link.joint
    motion = {"spherical": turning, "free": flying}.get(kind) or swinging(joint.nv)
    times = np.linspace(0.0, 2.0, 301)
    exact = motion(times[:, None])
    errors = []
    for steps in (16, 32):
        t = np.linspace(0.0, 2.0, steps + 1)
        q, v, vdot = motion(t[:, None])
        between = Trajectory(m, t, q, v, vdot if accelerations else None).at(times)
        pairs = [(m.difference(exact[0], between.q), 0.0), (between.v, exact[1])]
        if accelerations:
            pairs.append((between.vdot, exact[2]))
        errors.append([np.abs(x - y).max() for x, y in pairs])
    orders = np.log2(np.divide(*errors))
    np.testing.assert_allclose(orders, [6.0, 5.0, 4.0] if accelerations else [4.0, 3.0], atol=0.25)
    assert accelerations or between.vdot is None


def test_rates_of_the_chart_are_its_differences_in_time_up_to_half_a_turn():
    t, h = np.linspace(0.0, 2.0, 50)[:, None], 1e-5
    start = turning(np.zeros((1, 1)))[0]

    def chart(t):
        q, w, w_t = turning(t)
        u = difference_rotation(np.broadcast_to(start, q.shape), q)
        return u, *interpolation._chart_rates(u, w, w_t)

    (u, u_t, u_tt), before, after = chart(t), chart(t - h), chart(t + h)
    assert np.linalg.norm(u, axis=1).max() > 2.5
    np.testing.assert_allclose(u_t, (after[0] - before[0]) / (2.0 * h), rtol=0, atol=1e-8)
    np.testing.assert_allclose(u_tt, (after[1] - before[1]) / (2.0 * h), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["double-pendulum", "cart-pole", "top", "humanoid"])
def test_samples_left_out_are_found_again(name):
    run = run_of(EXAMPLES[name](), h=1e-3)
    sparse = Trajectory(run.model, run.t[::4], run.q[::4], run.v[::4], run.vdot[::4])
    between = sparse.at(run.t)
    assert np.abs(run.model.difference(run.q, between.q)).max() < 1e-8
    assert np.abs(run.v - between.v).max() < 1e-5 * np.abs(run.v).max()
    np.testing.assert_array_equal(between.q[::4], sparse.q)
    np.testing.assert_array_equal(between.v[::4], sparse.v)
    np.testing.assert_array_equal(between.vdot[::4], sparse.vdot)


def test_quaternions_between_have_length_one():
    run = run_of(EXAMPLES["top"](), h=0.05, steps=10)
    q = run.at(np.linspace(0.0, 0.5, 1001)).q
    np.testing.assert_allclose(np.linalg.norm(q, axis=1), 1.0, rtol=1e-15)


def test_quaternion_of_the_other_sign_makes_no_difference():
    t = np.linspace(0.0, 2.0, 9)
    q, v, vdot = turning(t[:, None])
    m = EXAMPLES["top"]()
    times = np.linspace(0.0, 1.99, 50)
    one = Trajectory(m, t, q, v, vdot).at(times)
    other = Trajectory(m, t, q * np.where(np.arange(9) % 2, -1.0, 1.0)[:, None], v, vdot).at(times)
    np.testing.assert_allclose(m.difference(one.q, other.q), 0.0, atol=1e-14)


def test_body_at_rest_stays_at_rest():
    m = EXAMPLES["humanoid"]()
    q = m.random(1)
    run = Trajectory(m, [0.0, 1.0], [q, q], np.zeros((2, m.nv)), np.zeros((2, m.nv))).at(0.3)
    np.testing.assert_allclose(run.q[0], q, rtol=0, atol=1e-15)
    np.testing.assert_allclose(run.v, 0.0, atol=1e-15)


def test_one_time_gives_one_sample(swing):
    one = swing.at(0.123)
    assert (len(one), one.q.shape, one.tau.shape) == (1, (1, 2), (1, 2))
    np.testing.assert_array_equal(one.at(0.123).q, one.q)
    np.testing.assert_array_equal(swing.at([0.1, 0.123]).q[1:], one.q)
    with pytest.raises(ct.ArgumentError, match="outside of the run"):
        one.at(0.124)


@pytest.mark.parametrize(("times", "message"), [
    (0.5, r"time 0\.5 s is outside of the run, which spans 0 to 0\.4 s"),
    ([0.1, -0.1], r"time -0\.1 s is outside"),
    (np.nan, "time nan s is outside"),
    ([0.2, 0.1], "the times do not increase"),
    ([0.2, 0.2], "the times do not increase"),
    ([], "give one time"),
    ([[0.1, 0.2]], "give one time"),
    ("soon", "times 'soon' is not made of real numbers"),
])  # fmt: skip
def test_times_that_cannot_be(swing, times, message):
    with pytest.raises(ct.ArgumentError, match=message):
        swing.at(times)


def test_rounding_of_the_last_time_is_forgiven():
    run = slider()
    assert run.at(2.0 * (1.0 + 1e-15)).t[0] == 2.0
    np.testing.assert_array_equal(run.at([0.0, np.nextafter(2.0, 3.0)]).q, run.q[[0, -1]])


def test_forces_between_are_linear_and_events_within_stay(swing):
    between = swing.at(np.linspace(0.15, 0.25, 7))
    np.testing.assert_allclose(between.tau[:, 0], np.interp(between.t, swing.t, swing.tau[:, 0]), rtol=1e-15)
    assert [event.name for event in between.events] == ["turns é"]
    assert between.info == swing.info


@pytest.mark.parametrize("kind", ["spherical", "free"])
def test_rotation_that_may_have_gone_round_is_refused(kind):
    m = ct.Model()
    m.add("wheel", ct.sphere(0.1, mass=1.0), JOINTS[kind]())
    v = np.zeros((3, m.nv))
    v[:, 2] = [0.0, 1.0, 40.0]
    run = Trajectory(m, [0.0, 0.1, 0.3], [m.neutral()] * 3, v, 0.0 * v)
    assert len(run.at([0.05, 0.3])) == 2
    with pytest.raises(
        ct.ArgumentError, match=r"'wheel' turns by about 4\.1 rad between the samples at t = 0\.1 and 0\.3.*record more samples"
    ):
        run.at(0.2)


def test_motion_before_a_jump_goes_to_the_state_before():
    m = ct.Model("ball")
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Prismatic("z"))
    speed = 9.81
    # falls from its top, meets the floor after one second and bounces at half the speed; sampled once before and after
    t, q, v = np.array([0.0, 0.4, 1.0, 1.5]), [4.905, 4.905 - 0.7848, 0.0, 0.25 * speed - 1.22625], [0.0, -0.4 * speed, 0.5 * speed, 0.0]
    jump = Occurrence("floor", 1.0, np.zeros(1), np.array([-speed]))
    for vdot in (np.full((4, 1), -9.81), None):
        run = Trajectory(m, t, np.transpose([q]), np.transpose([v]), vdot, events=(jump,))
        times = np.array([0.2, 0.7, 0.999, 1.0, 1.2])
        fall = np.array([4.905 - 4.905 * s**2 if s < 1.0 else 0.5 * speed * (s - 1.0) - 4.905 * (s - 1.0) ** 2 for s in times])
        np.testing.assert_allclose(run.at(times)["ball"], fall, atol=1e-13)
        np.testing.assert_allclose(run.at(0.7).velocity("ball"), -0.7 * speed, rtol=1e-13)


# --- tables


def test_table_and_run_agree_to_the_last_bit(swing, tmp_path):
    swing.to_csv(tmp_path / "run.csv")
    with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head == [
        "t [s]", "q upper [rad]", "q lower [rad]", "v upper [rad/s]", "v lower [rad/s]", "vdot upper [rad/s^2]", "vdot lower [rad/s^2]",
        "tau upper [N m]", "tau lower [N m]", "kinetic [J]", "potential [J]",
    ]  # fmt: skip
    expected = [swing.t[:, None], swing.q, swing.v, swing.vdot, swing.tau, np.stack(swing.energy, axis=1)]
    np.testing.assert_array_equal(np.array(rows, dtype=float), np.concatenate(expected, axis=1))


def test_long_table_has_every_row(tmp_path):
    t = np.arange(10000.0)
    run = Trajectory(slider().model, t, t[:, None], t[:, None])
    run.to_csv(tmp_path / "run.csv")
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "run.csv", delimiter=",", skiprows=1)[:, 0], t)


def test_table_has_a_head_of_its_own_for_every_column(tmp_path):
    run = run_of(gallery(), steps=1)
    run.to_csv(tmp_path / "run.csv")
    head = (tmp_path / "run.csv").read_text().splitlines()[0].split(",")
    assert len(set(head)) == len(head) == 1 + run.model.nq + 2 * run.model.nv + 2
    assert {"q cam", "q ball.qw", "v drone.vx [m/s]", "vdot drone.wz [rad/s^2]"} <= set(head)


# --- xarray


def test_dataset_and_run_agree(swing):
    pytest.importorskip("xarray")
    data = swing.to_xarray()
    for name in ("q", "v", "vdot", "tau"):
        np.testing.assert_array_equal(data[name], getattr(swing, name))
    np.testing.assert_array_equal(data.q.sel(q_name="lower"), swing["lower"])
    np.testing.assert_array_equal(data.kinetic + data.potential, swing.total_energy)
    assert data.time.attrs["units"] == "s"
    assert (data.q.attrs["units"], data.tau.attrs["units"], data.kinetic.attrs["units"]) == ("rad", "N m", "J")
    assert list(data.event_name.values) == ["passes", "turns é"]
    assert '"integrator": "rk4"' in data.attrs["info"]
    mixed = run_of(EXAMPLES["cart-pole"](), steps=1).to_xarray()
    assert "units" not in mixed.q.attrs
    assert list(mixed.q_unit.values) == ["m", "rad"]


def test_what_is_missing_is_named(swing, tmp_path, monkeypatch):
    swing.save(tmp_path / "run.npz")
    (tmp_path / "run.nc").write_bytes(b"CDF\x02")
    monkeypatch.setitem(sys.modules, "xarray", None)
    for use in (swing.to_xarray, lambda: swing.save(tmp_path / "new.nc"), lambda: Trajectory.load(tmp_path / "run.nc")):
        with pytest.raises(MissingPackageError, match=r"needs xarray, which is not installed; pip install \"catena\[data\]\""):
            use()
    assert not (tmp_path / "new.nc").exists()
    assert_same(swing, Trajectory.load(tmp_path / "run.npz"))


# --- files

ENDINGS = [".npz", pytest.param(".nc", marks=pytest.mark.skipif("not __import__('importlib').util.find_spec('xarray')"))]


@cache
def short_run(name):
    m = EXAMPLES[name]()
    return ct.simulate(m, m.assemble(), step=0.001, until=0.003) if m.has_loops else run_of(m, steps=3)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "gallery"])
def test_run_of_example_survives_its_file(name, ending, tmp_path):
    run = short_run(name)
    run.save(tmp_path / f"run{ending}")
    loaded = Trajectory.load(tmp_path / f"run{ending}")
    assert_same(run, loaded)
    np.testing.assert_allclose(loaded.total_energy, run.total_energy, rtol=1e-11, atol=1e-11 * np.abs(run.energy).max())


@pytest.mark.parametrize("ending", ENDINGS)
def test_run_with_and_without_its_parts_survives(swing, ending, tmp_path):
    file = tmp_path / f"run{ending}"
    for run in (swing, with_parts(swing, vdot=None), with_parts(swing, tau=None, events=()), swing.at(0.1), with_parts(swing, info={})):
        run.save(file)
        assert_same(run, Trajectory.load(file))
    strange = with_parts(slider(), q=[[np.nan], [np.inf], [-0.0], [5e-324], [1e308]])
    strange.save(tmp_path / "strange.npz")
    assert_same(strange, Trajectory.load(tmp_path / "strange.npz"))


@pytest.mark.parametrize("ending", [*ENDINGS, ".csv"])
@pytest.mark.parametrize("name", ['"', "\\", "a\nb", "\x01 é", "机械臂", "🦾", "a,b", "'''", "x" * 300, "/"])
def test_any_name_survives(name, ending, tmp_path):
    m = ct.Model(f"m{name}")
    m.add(f"a{name}", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"))
    m.add("b", ct.box(0.1, 0.2, 0.3, mass=1.0), ct.Spherical(), parent=f"a{name}")
    run = run_of(m, steps=1)
    run = with_parts(run, events=(Occurrence(f"e{name}", 0.0, run.q[0], run.v[0]),), info={name: name})
    file = tmp_path / f"run{ending}"
    if ending == ".csv":
        run.to_csv(file)
        with file.open(newline="", encoding="utf-8") as stream:
            assert next(csv.reader(stream))[1] == f"q a{name} [rad]"
    else:
        run.save(file)
        assert_same(run, Trajectory.load(file))


@pytest.mark.parametrize("ending", ENDINGS)
def test_model_that_no_file_can_hold_is_asked_for(ending, tmp_path):
    m = gallery()
    run, file = run_of(m, steps=2), tmp_path / f"run{ending}"
    run.save(file)
    with pytest.raises(
        TrajectoryFileError, match=r"holds no model \(model 'gallery': body 'cam': a custom joint .*give model 'gallery' with"
    ):
        Trajectory.load(file)
    loaded = Trajectory.load(file, model=m)
    assert loaded.model is m.frozen()
    assert_same(run, loaded)
    with pytest.raises(TrajectoryFileError, match="the q coordinates are not those of model 'gallery': the file has 22, the model 21"):
        Trajectory.load(file, model=gallery(custom=False))
    with pytest.raises(TrajectoryFileError, match="not those of model 'pendulum': 'door' in the file is 'arm' in the model"):
        Trajectory.load(file, model=EXAMPLES["pendulum"]())
    with pytest.raises(ct.ArgumentError, match="'gallery' is not a model"):
        Trajectory.load(file, model="gallery")  # type: ignore[arg-type]


@pytest.mark.parametrize(("engine", "package"), [("h5netcdf", "h5py"), ("netcdf4", "netCDF4")])
def test_dataset_saved_with_another_engine_is_read(swing, engine, package, tmp_path, monkeypatch):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip(package)
    if engine not in xarray.backends.list_engines():
        pytest.skip(f"xarray has no {engine} here")
    swing.to_xarray().to_netcdf(tmp_path / "run.nc", engine=engine)
    assert_same(swing, Trajectory.load(tmp_path / "run.nc"))
    monkeypatch.setattr(xarray.backends, "list_engines", lambda: {"scipy": None})
    with pytest.raises(MissingPackageError, match="NetCDF 4 needs netCDF4 or h5netcdf"):
        Trajectory.load(tmp_path / "run.nc")


def test_files_that_are_no_trajectories(swing, tmp_path, monkeypatch):
    def refused(name, message):
        with pytest.raises(TrajectoryFileError, match=message):
            Trajectory.load(tmp_path / name)

    refused("none.npz", "there is no such file")
    refused("", "this is a folder")
    refused("a\0b", "cannot be read")
    (tmp_path / "text.npz").write_text("t,q\n0,1\n")
    refused("text.npz", r"text\.npz: neither a \.npz nor a NetCDF file")
    (tmp_path / "empty.nc").write_bytes(b"")
    refused("empty.nc", "neither")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    refused("other.npz", "holds no trajectory of catena")
    np.savez(tmp_path / "pickled.npz", format=np.array([{}], dtype=object))
    refused("pickled.npz", "damaged, or not a trajectory: ValueError: Object arrays cannot be loaded")
    swing.save(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz") as content:
        entries = dict(content)
    for change, message in [
        ({"format": np.array("catena trajectory 2")}, "holds 'catena trajectory 2', this version of catena reads 'catena trajectory 1'"),
        ({"q": None}, "damaged: the entries q are missing"),
        ({"t": np.zeros(41)}, r"damaged: trajectory: t\[1\] = .* does not come after"),
        ({"q": np.zeros((40, 2))}, r"damaged: trajectory: q has shape \(40, 2\)"),
        ({"info": np.array("[1]")}, r"damaged: info is \[1\]"),
        ({"info": np.array("{")}, "damaged, or not a trajectory: JSONDecodeError"),
        ({"model": np.array("[[body]]\nname = 1")}, r"changed\.npz: model:2: body\[0\]\.name.*or give the model with"),
        ({"event_q": np.zeros((1, 2))}, "damaged, or not a trajectory: ValueError"),
    ]:
        changed = {key: value for key, value in (entries | change).items() if value is not None}
        np.savez(tmp_path / "changed.npz", **changed)
        refused("changed.npz", message)
    with pytest.raises(TrajectoryFileError, match="3 is not a path"):
        Trajectory.load(3)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def contents(swing, tmp_path_factory):
    """The bytes of a run's files, by their endings."""
    folder = tmp_path_factory.mktemp("runs")
    found = {}
    for ending in (".npz", ".nc"):
        if ending == ".nc" and not __import__("importlib").util.find_spec("xarray"):
            continue
        swing.save(folder / f"run{ending}")
        found[ending] = (folder / f"run{ending}").read_bytes()
    return found


@pytest.mark.parametrize("ending", ENDINGS)
def test_file_cut_short_is_refused(ending, contents, tmp_path):
    content, file = contents[ending], tmp_path / f"run{ending}"
    for length in [*range(0, 60, 7), *np.linspace(60, len(content) - 60, 60).astype(int), len(content) - 1]:
        file.write_bytes(content[:length])
        with pytest.raises(TrajectoryFileError, match=f"run{ending}: "):
            Trajectory.load(file)


@pytest.mark.filterwarnings("ignore")  # readers of damaged files may warn of what they meet
@pytest.mark.parametrize("ending", ENDINGS)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_damaged_file_is_read_or_refused(ending, contents, tmp_path_factory, data):
    content = bytearray(contents[ending])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, min(len(content), 4000) - 1))] = data.draw(st.integers(0, 255))
    file = tmp_path_factory.getbasetemp() / f"damaged{ending}"
    file.write_bytes(content)
    try:
        run = Trajectory.load(file)
    except TrajectoryFileError:
        return
    assert isinstance(run, Trajectory)


def test_ending_says_how_to_save(swing, tmp_path):
    for name in ("run.mat", "run"):
        with pytest.raises(TrajectoryFileError, match=r"is saved as \.npz or \.nc, not as '.*'; for a table use to_csv"):
            swing.save(tmp_path / name)
    assert os.listdir(tmp_path) == []


WRITERS = {".npz": Trajectory.save, ".nc": Trajectory.save, ".csv": Trajectory.to_csv}


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk", "interruption"])
@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("ending", [*ENDINGS, ".csv"])
def test_failure_in_the_middle_keeps_the_old_file(ending, step, failure, swing, tmp_path, monkeypatch):
    file = tmp_path / f"run{ending}"
    file.write_text("old")

    def fail(*_):
        raise failure

    monkeypatch.setattr(os, step, fail)
    with pytest.raises((TrajectoryFileError, KeyboardInterrupt), match="nothing was changed" if isinstance(failure, OSError) else None):
        WRITERS[ending](swing, file)
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == [file.name]


@pytest.mark.parametrize("ending", [*ENDINGS, ".csv"])
def test_missing_folder_is_named(ending, swing, tmp_path):
    with pytest.raises(TrajectoryFileError, match=r"make the folder '.*none' first"):
        WRITERS[ending](swing, tmp_path / "none" / f"run{ending}")
    with pytest.raises(TrajectoryFileError, match="cannot be written"):
        WRITERS[ending](swing, Path(f"{tmp_path}/a\0b{ending}"))


def test_run_under_a_force_from_python_needs_its_model_back(tmp_path):
    m = EXAMPLES["pendulum"]()
    m.add_force("motor", lambda t, q, v: np.array([np.sin(t) - 0.2 * v[0]]))
    run = Trajectory(m, [0.0, 1.0], [[0.0], [1.0]], [[1.0], [1.0]])
    run.save(tmp_path / "run.npz")
    with pytest.raises(TrajectoryFileError, match=r"holds no model .*force 'motor' is made of Python code"):
        Trajectory.load(tmp_path / "run.npz")
    assert_same(run, Trajectory.load(tmp_path / "run.npz", model=m))


def test_a_frame_and_the_table_of_a_run_are_the_same(swing, tmp_path):
    pytest.importorskip("pandas")
    swing.to_csv(tmp_path / "run.csv")
    frame = swing.to_pandas()
    head, *rows = (tmp_path / "run.csv").read_text().splitlines()
    assert [frame.index.name, *frame.columns] == head.split(",")
    numbers = np.array([[float(x) for x in row.split(",")] for row in rows])
    np.testing.assert_array_equal(np.column_stack([frame.index, frame.to_numpy()]), numbers)


def test_missing_pandas_is_named(swing, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ct.MissingPackageError, match=r'needs pandas, which is not installed; pip install "catena\[data\]", or write'):
        swing.to_pandas()
