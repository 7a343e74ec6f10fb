"""Runs: against exact solutions, conserved quantities, each other, and what users get wrong."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import ellipj

import catena as ct
from catena.examples import chain, double_pendulum
from catena.simulation import system

pytestmark = [pytest.mark.evaluated, pytest.mark.quick]

G = 9.81


@pytest.fixture(scope="module")
def cart():
    m = ct.Model("cart")
    m.add("cart", ct.point_mass(2.0), ct.Prismatic("x"))
    return m


@pytest.fixture(scope="module")
def ball():
    m = ct.Model("ball", gravity=(0, 0, -G))
    m.add("ball", ct.point_mass(1.0), ct.Prismatic("z"))
    return m


@pytest.fixture(scope="module")
def pendulum():
    m = ct.Model("pendulum", gravity=(0, 0, -G))
    m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    return m


@pytest.fixture(scope="module")
def balls():
    """Two links on ball joints."""
    m = ct.Model("balls")
    link = ct.Body(1.0, com=(0.5, 0.02, -0.03), inertia=((0.012, 0.003, -0.002), (0.003, 0.091, 0.001), (-0.002, 0.001, 0.088)))
    m.add("first", link, ct.Spherical())
    m.add("second", link, ct.Spherical(), parent="first", at=(1.0, 0.0, 0.0))
    return m


# --- exact solutions and conserved quantities


@pytest.mark.parametrize("floating", [False, True])
def test_free_chain_of_7_bodies_keeps_its_energy(floating):
    m = chain(7)
    if floating:
        link = m.links[0].body
        m = ct.Model("floating chain")
        m.add("link1", link, ct.Free())
        for k in range(1, 7):
            m.add(f"link{k + 1}", link, ct.Spherical(), parent=f"link{k}", at=(1.0, 0.0, 0.0))
    v = 0.3 * np.random.default_rng(0).normal(size=m.nv)
    run = ct.simulate(m, m.neutral(), v, until=10.0, rtol=1e-10)
    assert run.t[-1] == 10.0
    assert np.ptp(run.energy[0]) > 100.0  # it moves
    assert 0.0 < np.abs(run.energy_change).max() < 1e-8


def euler_top(t, inertia, w1, w3):
    """Return the angular velocity of a free body that begins with (w1, 0, w3), by Jacobi's elliptic functions."""
    I1, I2, I3 = inertia
    twice_energy, square = I1 * w1**2 + I3 * w3**2, (I1 * w1) ** 2 + (I3 * w3) ** 2
    high, low = twice_energy * I3 - square, square - twice_energy * I1
    m = (I2 - I1) * high / ((I3 - I2) * low)
    assert I1 < I2 < I3
    assert 0.0 < m < 1.0
    sn, cn, dn, _ = ellipj(np.sqrt((I3 - I2) * low / (I1 * I2 * I3)) * t, m)
    sizes = np.sqrt([high / (I1 * (I3 - I1)), high / (I2 * (I3 - I2)), low / (I3 * (I3 - I1))])
    return sizes * np.stack([cn, sn, dn], axis=-1)


def euler_attitude(t, inertia, w1, w3):
    """Return the rotation of that body against the axes of its angular momentum, by one quadrature."""
    momentum = inertia * euler_top(t, inertia, w1, w3)
    size = np.linalg.norm(momentum)

    def precession(s):
        w = euler_top(s, inertia, w1, w3)
        return size * (inertia[:2] @ w[:2] ** 2) / ((inertia[:2] ** 2) @ w[:2] ** 2)

    phi = sum(quad(precession, a, a + 0.5, epsabs=1e-13, epsrel=1e-13)[0] for a in np.arange(0.0, t, 0.5))
    theta, psi = np.arccos(momentum[2] / size), np.arctan2(momentum[0], momentum[1])

    def turn(angle, axis):
        c, s = np.cos(angle), np.sin(angle)
        return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) if axis == "z" else np.array([[1, 0, 0], [0, c, -s], [0, s, c]])

    return turn(phi, "z") @ turn(theta, "x") @ turn(psi, "z")


@pytest.mark.parametrize("joint", [ct.Spherical, ct.Free])
@pytest.mark.parametrize("integrator", ["dormand-prince", "dop853"])
def test_torque_free_asymmetric_top_follows_eulers_solution(joint, integrator):
    inertia, w1, w3, until = np.array([1.0, 2.0, 3.0]), 0.9, 1.1, 10.0
    m = ct.Model("top", gravity=(0, 0, 0))
    m.add("top", ct.Body(1.0, inertia=np.diag(inertia)), joint())
    v0 = np.zeros(m.nv)
    v0[:3] = w1, 0.0, w3
    run = ct.simulate(m, m.neutral(), v0, until=until, integrator=integrator, rtol=1e-12)
    assert_allclose(run.v[:, :3], euler_top(run.t, inertia, w1, w3), rtol=0, atol=1e-9)
    attitude = ct.poses(m)(run.q)[:, 0, :3, :3]
    exact = euler_attitude(until, inertia, w1, w3) @ euler_attitude(0.0, inertia, w1, w3).T
    axes = euler_attitude(0.0, inertia, w1, w3).T  # of the angular momentum, in those of the world, which are the body's at the start
    assert_allclose(attitude[-1], axes @ exact @ axes.T, rtol=0, atol=1e-9)


def test_pendulum_has_the_period_of_the_elliptic_integral(pendulum):
    from scipy.special import ellipk

    period = 4.0 * np.sqrt(1.0 / G) * ellipk(np.sin(0.5 * 2.0) ** 2)
    top = ct.Event("turn", lambda t, q, v: v[0], "record", direction=-1)
    run = ct.simulate(pendulum, [2.0], until=4.5 * period, rtol=1e-12, events=[top])
    assert_allclose([event.t for event in run.events], period * np.arange(1, 5), rtol=1e-10)


# --- tolerances and step sizes


@pytest.mark.parametrize("integrator", ["bogacki-shampine", "dormand-prince", "dop853"])
def test_error_of_adaptive_steps_follows_rtol(integrator, balls):
    exact = ct.simulate(balls, balls.neutral(), np.ones(6), until=1.0, integrator="dop853", rtol=1e-13)
    tolerances = [1e-5, 1e-7, 1e-9] if integrator == "bogacki-shampine" else [1e-5, 1e-7, 1e-9, 1e-11]
    runs = [ct.simulate(balls, balls.neutral(), np.ones(6), until=1.0, integrator=integrator, rtol=rtol) for rtol in tolerances]
    errors = [np.abs(run.v[-1] - exact.v[-1]).max() for run in runs]
    slope = np.polyfit(np.log(tolerances), np.log(errors), 1)[0]
    assert 0.75 < slope < 1.25, errors
    assert all(error < 100.0 * rtol for error, rtol in zip(errors, tolerances, strict=True)), errors
    assert runs[0].info["steps"] < runs[-1].info["steps"]


def test_units_do_not_change_the_steps():
    """The same crane in millimetres as in metres: what counts is the size of the mechanism."""
    counts = []
    for unit in (1.0, 1000.0):
        m = ct.Model("crane", gravity=(0, 0, -G * unit))
        m.add("cart", ct.point_mass(2.0), ct.Prismatic("x"))
        m.add("load", ct.point_mass(1.0, at=(0, 0, -unit)), ct.Revolute("y"), parent="cart")
        run = ct.simulate(m, [0.0, 1.0], [0.1 * unit, 0.0], until=3.0, rtol=1e-7)
        counts.append(run.info["steps"])
    assert abs(counts[0] - counts[1]) <= 0.1 * counts[0]


@pytest.mark.parametrize("stiffness", [1e-2, 1e2, 1e8])
def test_first_step_fits_the_rates_of_the_motion(stiffness):
    m = ct.Model("oscillator", gravity=(0, 0, 0))
    m.add("cart", ct.point_mass(1.0), ct.Prismatic("x", stiffness=stiffness))
    rate = np.sqrt(stiffness)
    run = ct.simulate(m, [0.5], [0.3 * rate], until=10.0 / rate, rtol=1e-8)
    assert 1e-6 / rate < run.t[1] < 1.0 / rate
    assert run.info["rejected"] <= 0.2 * run.info["steps"]
    exact = 0.5 * np.cos(10.0) + 0.3 * np.sin(10.0)
    assert run["cart"][-1] == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("until", [1e-9, 1e-3, 1e7])
def test_runs_of_any_length_arrive(until, cart):
    run = ct.simulate(cart, [0.0], [1.0], until=until)
    assert run.t[0] == 0.0
    assert run.t[-1] == until
    assert run["cart"][-1] == pytest.approx(until, rel=1e-12)


def test_last_step_is_not_a_tiny_one(pendulum):
    for until in np.linspace(0.5, 0.6, 23):
        steps = np.diff(ct.simulate(pendulum, [1.0], until=until, rtol=1e-6).t)
        assert steps[-1] > 0.009 * steps[:-1].max()


def test_fixed_steps_do_not_add_up_rounding(cart):
    run = ct.simulate(cart, [0.0], [1.0], until=1e5, step=0.1, integrator="midpoint", record=1000)
    assert run.info["steps"] == 1_000_000
    assert_allclose(run.t, np.arange(1001) * 100.0, rtol=2e-16)
    assert run.t[-1] == 1e5


@pytest.mark.parametrize(("until", "step", "count"), [(1.0, 0.1, 10), (1.0, 1.0 / 3.0, 3), (1.0, 0.3, 4), (0.7, 2.0, 1), (0.3, 0.1, 3)])
def test_fixed_steps_are_as_many_as_fit(until, step, count, cart):
    run = ct.simulate(cart, [0.0], [1.0], until=until, step=step)
    assert run.info["steps"] == count
    assert run.t[-1] == until
    assert_allclose(run.t[:-1], step * np.arange(count), rtol=1e-15)


def test_start_moves_the_clock(pendulum):
    m = ct.Model("driven")
    m.add("cart", ct.point_mass(2.0), ct.Prismatic("x"))
    m.add_force("push", lambda t, q, v: [2.0 * np.cos(t)])
    run = ct.simulate(m, [0.0], start=3.0, until=5.0, rtol=1e-10)
    assert run.t[0] == 3.0
    assert run.t[-1] == 5.0
    assert_allclose(run.v[:, 0], np.sin(run.t) - np.sin(3.0), atol=1e-9)
    early, late = (ct.simulate(pendulum, [1.0], start=start, until=start + 1.0, step=0.01) for start in (-1.0, 64.0))
    assert_allclose(early.q, late.q, atol=1e-12)


# --- forces that are put in


def exact_cart(times, values, t, mass=2.0):
    """Return position and velocity of a mass under a force that is linear between times, from rest at the first of them."""
    x = v = 0.0
    for i in range(len(times) - 1):
        if t <= times[i]:
            break
        h = min(t, times[i + 1]) - times[i]
        slope = (values[i + 1] - values[i]) / (times[i + 1] - times[i])
        x += v * h + (0.5 * values[i] * h**2 + slope * h**3 / 6.0) / mass
        v += (values[i] * h + 0.5 * slope * h**2) / mass
    return x, v


TABLE = np.array([0.0, 0.31, 0.5, 0.505, 1.2, 2.0]), np.array([1.0, -2.0, 5.0, -40.0, 3.0, 0.0])


@pytest.mark.parametrize("how", [{"step": 0.07}, {"step": 0.1, "integrator": "gauss-legendre-4"}, {}, {"integrator": "dop853"}])
def test_force_over_time_is_integrated_exactly_over_its_kinks(how, cart):
    times, values = TABLE
    run = ct.simulate(cart, [0.0], tau=(times, values[:, None]), until=2.0, **how)
    for sample, t in enumerate(run.t):
        x, v = exact_cart(times, values, t)
        assert run.q[sample, 0] == pytest.approx(x, abs=1e-13)
        assert run.v[sample, 0] == pytest.approx(v, abs=1e-13)
    assert_allclose(run.tau[:, 0], np.interp(run.t, times, values), rtol=0, atol=1e-12)
    assert set(times) <= set(run.t)  # a step ends at every kink


def test_force_over_time_may_begin_before_and_end_after_the_run(cart):
    times, values = TABLE
    run = ct.simulate(cart, [0.0], tau=(times, values[:, None]), start=0.4, until=1.0, step=0.07)
    whole = [exact_cart(times, values, t)[1] for t in (0.4, 1.0)]
    assert run.v[-1, 0] == pytest.approx(whole[1] - whole[0], abs=1e-13)


def test_constant_force_accelerates(cart):
    run = ct.simulate(cart, [0.0], tau=[3.0], until=2.0)
    assert run["cart"][-1] == pytest.approx(0.5 * 1.5 * 4.0, rel=1e-13)
    assert (run.tau == 3.0).all()


def test_controller_in_python_is_the_traced_one_to_rounding(balls):
    def damper(t, q, v):
        return -0.3 * v + 0.1 * np.sin(3.0 * t) - 0.2 * q[1] * v[0]

    for how in ({"step": 0.01}, {"rtol": 1e-8}, {"step": 0.02, "integrator": "implicit-midpoint"}, {"integrator": "dop853"}):
        traced = ct.simulate(balls, balls.neutral(), np.ones(6), until=0.3, controller=damper, **how)
        called = ct.simulate(balls, balls.neutral(), np.ones(6), until=0.3, controller=ct.python(damper), **how)
        assert len(traced) == len(called)
        if "step" in how:
            for part in ("t", "q", "v", "tau"):
                assert_allclose(getattr(called, part), getattr(traced, part), rtol=0, atol=1e-12)
        else:  # rounding moves the ends of the steps, and with them the errors within the tolerance
            assert_allclose(called.q[-1], traced.q[-1], rtol=0, atol=1e-9)
            assert_allclose(called.t, traced.t, rtol=1e-6)


def test_python_force_is_the_traced_one_to_rounding(pendulum):
    runs = []
    for mark in (lambda f: f, ct.python):
        m = ct.Model("pendulum")
        m.add("arm", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
        m.add_force("wind", mark(lambda t, q, v: [2.0 * np.sin(t), 0.0, 0.5]), body="arm", point=(1.0, 0.0, 0.0))
        runs.append(ct.simulate(m, [0.3], until=0.5, step=0.01, controller=lambda t, q, v: [-0.1 * v[0]]))
    assert_allclose(runs[0].q, runs[1].q, rtol=0, atol=1e-13)


def test_controller_with_if_is_called_step_by_step_or_refused(pendulum):
    def bang(t, q, v):
        return [1.0 if q[0] < 0.0 else -1.0]

    with pytest.raises(ct.TraceError, match=r"controller( '\w+')? cannot be traced: `if` decides .*ct\.python\(function\)"):
        ct.simulate(pendulum, [0.5], until=0.1, controller=bang)
    called = ct.simulate(pendulum, [0.5], until=0.1, controller=ct.python(bang), step=0.01)
    traced = ct.simulate(pendulum, [0.5], until=0.1, controller=lambda t, q, v: [ct.where(q[0] < 0.0, 1.0, -1.0)], step=0.01)
    assert_allclose(called.q, traced.q, rtol=1e-13)


# --- SciPy


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA", "DOP853"])
def test_scipy_agrees(method, balls):
    rng = np.random.default_rng(3)
    q, v = balls.random(rng), rng.normal(size=6)
    times = np.array([0.1, 0.25, 0.4])
    ours = ct.simulate(balls, q, v, until=0.4, rtol=1e-11, record=times)
    theirs = ct.simulate(balls, q, v, until=0.4, rtol=1e-9, record=times, integrator=f"scipy:{method}")
    assert_allclose(theirs.t, times)
    assert_allclose(theirs.q, ours.q, atol=1e-6)
    assert_allclose(theirs.v, ours.v, atol=1e-5)
    assert theirs.info["integrator"] == f"scipy:{method}"
    every = ct.simulate(balls, q, v, until=0.1, integrator=f"scipy:{method}")
    assert every.t[0] == 0.0
    assert every.t[-1] == 0.1


def test_scipy_takes_controllers_and_tables(cart):
    times, values = TABLE
    run = ct.simulate(cart, [0.0], tau=(times, values[:, None]), until=2.0, integrator="scipy:LSODA", rtol=1e-10)
    assert run.v[-1, 0] == pytest.approx(exact_cart(times, values, 2.0)[1], abs=1e-6)
    run = ct.simulate(cart, [1.0], until=2.0, integrator="scipy:Radau", controller=ct.python(lambda t, q, v: [-2.0 * q[0]]))
    assert run["cart"][-1] == pytest.approx(np.cos(2.0), abs=1e-6)


def test_scipy_refuses_what_it_does_not_do(cart, tmp_path):
    with pytest.raises(ct.ArgumentError, match="neither step= nor events"):
        ct.simulate(cart, [0.0], until=1.0, step=0.1, integrator="scipy:BDF")
    with pytest.raises(ct.ArgumentError, match="write no checkpoints"):
        ct.simulate(cart, [0.0], until=1.0, integrator="scipy:BDF", checkpoint=tmp_path / "run")
    with pytest.raises(ct.MethodError, match="'scipy:Euler' is unknown; choose"):
        ct.simulate(cart, [0.0], until=1.0, integrator="scipy:Euler")
    m = ct.Model("late trouble")
    m.add("cart", ct.point_mass(2.0), ct.Prismatic("x"))
    m.add_force("root", lambda t, q, v: [np.sqrt(0.5 - t)])
    with pytest.raises(ct.SimulationError, match=r"rate of 'cart' is not finite at t = 0\.5") as caught:
        ct.simulate(m, [0.0], until=1.0, integrator="scipy:Radau")
    assert 0.0 < caught.value.trajectory.t[-1] <= 0.5


# --- events


def bounces(until, height=1.0, restitution=0.8):
    """Return the times at which a ball dropped from a height hits the floor."""
    times, speed = [np.sqrt(2.0 * height / G)], np.sqrt(2.0 * height * G)
    while True:
        speed *= restitution
        if times[-1] + 2.0 * speed / G > until:
            return np.array(times)
        times.append(times[-1] + 2.0 * speed / G)


BOUNCE = ct.Event("floor", lambda t, q, v: q[0], lambda t, q, v: (q, -0.8 * v), direction=-1)
SETTINGS = {
    "adaptive": {},
    "order 8": {"integrator": "dop853"},
    "order 3": {"integrator": "bogacki-shampine"},
    "long steps": {"step": 0.3},
    "implicit": {"step": 0.07, "integrator": "gauss-legendre-4"},
    "python": {"step": 0.1, "controller": ct.python(lambda t, q, v: [0.0])},
}


@pytest.mark.parametrize("how", SETTINGS.values(), ids=SETTINGS)
def test_ball_bounces_at_the_exact_times(how, ball):
    run = ct.simulate(ball, [1.0], until=4.0, events=[BOUNCE], **how)
    exact = bounces(4.0)
    assert len(exact) == 19
    assert_allclose([event.t for event in run.events], exact, rtol=0, atol=1e-10)
    assert run["ball"].min() > -1e-10
    for event in run.events:  # the state before it; the sample at that time has the one after
        assert abs(event.q[0]) < 1e-10
        (at,) = np.flatnonzero(run.t == event.t)
        assert run.v[at, 0] == -0.8 * event.v[0] > 0.0
    last, speed = exact[-1], np.sqrt(2.0 * G) * 0.8 ** len(exact)
    assert run["ball"][-1] == pytest.approx(speed * (4.0 - last) - 0.5 * G * (4.0 - last) ** 2, abs=1e-10)


def test_ball_that_comes_to_rest_is_named_not_lost(ball):
    with pytest.raises(ct.SimulationError, match=r"event 'floor' happens ever faster, last at t = 4\.0637.*stops the run before") as caught:
        ct.simulate(ball, [1.0], until=10.0, events=[BOUNCE])
    run = caught.value.trajectory
    assert run["ball"].min() > -1e-10
    rest = ct.Event("rest", lambda t, q, v: G * q[0] + 0.5 * v[0] ** 2 - 1e-6)  # which only the bounces change
    for events in ([BOUNCE, rest], [rest, BOUNCE]):
        run = ct.simulate(ball, [1.0], until=10.0, events=events)
        assert run.info["stopped"] == "event 'rest'"
        assert 0.8 * np.sqrt(2e-6) < run.v[-1, 0] < np.sqrt(2e-6)
    marks = ct.Event("turned up", lambda t, q, v: v[0], "record", direction=1)  # as every bounce does
    run = ct.simulate(ball, [1.0], until=2.0, events=[marks, BOUNCE])
    assert_allclose([event.t for event in run.events if event.name == "turned up"], bounces(2.0), rtol=0, atol=1e-10)


def test_event_stops_at_the_root(pendulum):
    for how in ({}, {"step": 0.05}):
        run = ct.simulate(pendulum, [1.0], until=5.0, events=[ct.Event("bottom", lambda t, q, v: q[0])], **how)
        assert run.info["stopped"] == "event 'bottom'"
        assert abs(run["arm"][-1]) < 1e-10
        assert run.events[-1].name == "bottom"
        assert run.events[-1].t == run.t[-1]
        assert_allclose(run.events[-1].q, run.q[-1])
        assert (np.diff(run.t) > 0.0).all()


@pytest.mark.parametrize(("direction", "which"), [(0, slice(None)), (1, slice(1, None, 2)), (-1, slice(0, None, 2))])
def test_direction_chooses_what_rises_or_falls(direction, which, pendulum):
    runs = [
        ct.simulate(pendulum, [1.0], until=5.0, rtol=1e-11, events=[ct.Event("bottom", lambda t, q, v: q[0], "record", d)])
        for d in (0, direction)
    ]
    everything, chosen = ([event.t for event in run.events] for run in runs)
    assert len(everything) >= 4
    assert_allclose(chosen, everything[which], rtol=0, atol=1e-10)


def test_events_of_one_step_come_in_the_order_of_their_times(cart):
    marks = (0.83, 0.21, 0.52, 0.11)
    events = [ct.Event(f"at {mark}", lambda t, q, v, mark=mark: q[0] - mark, "record") for mark in marks]
    run = ct.simulate(cart, [0.0], [1.0], until=1.0, step=1.0, events=events)
    assert run.info["steps"] == 1
    assert_allclose([event.t for event in run.events], sorted(marks), rtol=0, atol=1e-12)
    # one that stops in between: what comes later does not happen
    events[2] = ct.Event("stop", lambda t, q, v: q[0] - 0.52)
    run = ct.simulate(cart, [0.0], [1.0], until=1.0, step=1.0, events=events)
    assert [event.name for event in run.events] == ["at 0.11", "at 0.21", "stop"]
    # or that resets: the later marks are passed from there
    events[2] = ct.Event("back", lambda t, q, v: q[0] - 0.52, lambda t, q, v: (q - 0.3, v), direction=1)
    run = ct.simulate(cart, [0.0], [1.0], until=1.0, step=1.0, events=events)
    assert [event.name for event in run.events] == ["at 0.11", "at 0.21", "back", "back"]
    assert_allclose([event.t for event in run.events], [0.11, 0.21, 0.52, 0.82], rtol=0, atol=1e-12)
    assert run["cart"][-1] == pytest.approx(0.4, abs=1e-12)


def test_events_at_one_time_all_happen(ball):
    """Record, reset and stop on the same function, in any order: all are recorded, resets follow each other, a stop ends the run."""
    record = ct.Event("mark", lambda t, q, v: q[0], "record", -1)
    for events in ([record, BOUNCE], [BOUNCE, record]):
        run = ct.simulate(ball, [1.0], until=2.0, events=events)
        assert sorted(event.name for event in run.events) == ["floor"] * len(bounces(2.0)) + ["mark"] * len(bounces(2.0))
        assert_allclose([event.t for event in run.events if event.name == "mark"], bounces(2.0), rtol=0, atol=1e-10)
    again = ct.Event("again", lambda t, q, v: 2.0 * q[0], lambda t, q, v: (q, 0.5 * v), -1)
    run = ct.simulate(ball, [1.0], until=1.0, events=[BOUNCE, again])
    assert_allclose([event.t for event in run.events], np.repeat(bounces(1.0, restitution=0.4), 2), rtol=0, atol=1e-10)
    stop = ct.Event("stop", lambda t, q, v: q[0])
    for events in ([stop, BOUNCE], [BOUNCE, stop]):
        run = ct.simulate(ball, [1.0], until=2.0, events=events)
        assert run.info["stopped"] == "event 'stop'"
        assert run.v[-1, 0] == pytest.approx(-np.sqrt(2.0 * G), rel=1e-12)


def test_zero_at_the_start_is_no_event_and_zero_at_the_end_is_one(cart):
    origin = ct.Event("origin", lambda t, q, v: q[0])
    run = ct.simulate(cart, [0.0], [1.0], until=1.0, events=[origin])
    assert run.events == ()
    end = ct.Event("end", lambda t, q, v: t - 1.0)
    for action in ("stop", "record"):
        run = ct.simulate(cart, [0.0], [1.0], until=1.0, step=0.25, events=[ct.Event("end", end.function, action)])
        assert [event.t for event in run.events] == [1.0]
        assert run.t[-1] == 1.0
    run = ct.simulate(cart, [0.0], [1.0], until=1.0, step=0.25, events=[ct.Event("end", end.function, lambda t, q, v: (q, -v))])
    assert run.v[-1, 0] == -1.0


@pytest.mark.parametrize("size", [1.0, 1e-170, 1e-300, 1e170])
@pytest.mark.parametrize("power", [1, 3, 9])
def test_only_the_sign_of_an_event_counts(power, size, cart):
    """A flat zero, and a function of any size, is found where it changes its sign; what is rounded to 0 about it counts as the zero."""
    event = ct.Event("mark", lambda t, q, v: size * (t - 0.3717) ** power, "record")
    for how in ({}, {"step": 0.1}):
        run = ct.simulate(cart, [0.0], [1.0], until=1.0, events=[event], **how)
        assert [found.t for found in run.events] == [pytest.approx(0.3717, abs=1e-10 + 2.0 * (5e-324 / size) ** (1.0 / power))]


def test_event_at_a_step_happens_once(cart):
    half = ct.Event("half", lambda t, q, v: t - 0.5, "record")
    run = ct.simulate(cart, [0.0], [1.0], until=1.0, step=0.25, events=[half])
    assert [event.t for event in run.events] == [0.5]
    kick = ct.Event("half", lambda t, q, v: t - 0.5, lambda t, q, v: (q, 3.0 * v))
    run = ct.simulate(cart, [0.0], [1.0], until=1.0, step=0.25, events=[kick])
    assert [event.t for event in run.events] == [0.5]
    assert run["cart"][-1] == pytest.approx(2.0, rel=1e-13)


def test_reset_within_a_table_of_forces_goes_on_in_its_row(cart):
    """A reset goes back before the kink at which its step ended."""
    times, values = np.array([0.0, 1.0, 2.0]), np.array([[0.0], [0.0], [8.0]])
    kick = ct.Event("kick", lambda t, q, v: t - 0.7, lambda t, q, v: (q, v + 1.0))
    for how in ({"step": 1.0}, {}):
        run = ct.simulate(cart, [0.0], tau=(times, values), until=2.0, events=[kick], **how)
        assert run.v[-1, 0] == pytest.approx(1.0 + 2.0, abs=1e-12)
        assert run.q[-1, 0] == pytest.approx(1.3 + 8.0 / 6.0 / 2.0, abs=1e-12)


def test_reset_turns_a_ball_joint_and_takes_unit_quaternions_only(balls):
    def turn(t, q, v):
        return balls.integrate(q, [0.0, 0.0, 0.5, 0.0, 0.0, 0.0]), v

    run = ct.simulate(balls, balls.neutral(), until=0.2, events=[ct.Event("turn", lambda t, q, v: t - 0.1, turn)])
    assert np.abs(np.linalg.norm(run.q[:, :4], axis=1) - 1.0).max() < 1e-14
    (at,) = np.flatnonzero(run.t == run.events[0].t)
    assert_allclose(balls.difference(run.events[0].q, run.q[at])[2], 0.5, rtol=1e-12)
    with pytest.raises(ct.ArgumentError, match=r"event 'turn': its action returned q.*quaternion of 'first' has length 2"):
        ct.simulate(balls, balls.neutral(), until=0.2, events=[ct.Event("turn", lambda t, q, v: t - 0.1, lambda t, q, v: (2.0 * q, v))])
    with pytest.raises(ct.ArgumentError, match=r"(?s)event 'turn': its action returned array.*a pair \(q, v\)"):
        ct.simulate(balls, balls.neutral(), until=0.2, events=[ct.Event("turn", lambda t, q, v: t - 0.1, lambda t, q, v: q)])


def test_events_that_cannot_be_traced_are_refused_or_called(pendulum):
    def sign(t, q, v):
        return 1.0 if q[0] > 0.0 else -1.0

    with pytest.raises(ct.TraceError, match="event 'bottom' cannot be traced"):
        ct.simulate(pendulum, [1.0], until=1.0, events=[ct.Event("bottom", sign)])
    exact = ct.simulate(pendulum, [1.0], until=1.0, events=[ct.Event("bottom", lambda t, q, v: q[0])])
    called = ct.simulate(pendulum, [1.0], until=1.0, events=[ct.Event("bottom", ct.python(sign))])
    assert called.t[-1] == pytest.approx(exact.t[-1], abs=1e-10)


# --- what is recorded


def test_every_so_many_steps_are_kept_and_the_last(pendulum):
    whole = ct.simulate(pendulum, [1.0], until=1.0, step=0.1)
    assert len(whole) == 11
    for every in (1, 2, 3, 10, 100):
        part = ct.simulate(pendulum, [1.0], until=1.0, step=0.1, record=every)
        kept = sorted({*range(0, 10, every), 10})
        assert_allclose(part.t, whole.t[kept], rtol=0)
        assert_allclose(part.q, whole.q[kept], rtol=0)
    anew = ct.Event("anew", lambda t, q, v: t - 0.55, lambda t, q, v: (q, v))
    run = ct.simulate(pendulum, [1.0], until=1.0, step=0.1, record=4, events=[anew])
    assert_allclose(run.t, [0.0, 0.4, 0.55, 0.95, 1.0], rtol=1e-12)


def test_buffer_of_records_is_emptied_and_filled_again(cart):
    run = ct.simulate(cart, [0.0], [1.0], until=1.0, step=1e-4)
    assert len(run) == 10001  # more than twice what the buffer holds
    assert_allclose(run.t, np.arange(10001) * 1e-4, rtol=1e-13)
    assert_allclose(run["cart"], run.t, rtol=1e-11)


@pytest.mark.parametrize("integrator", ["bogacki-shampine", "dormand-prince", "dop853"])
def test_samples_at_given_times_are_as_exact_as_the_steps(integrator, balls):
    rng = np.random.default_rng(5)
    q, v = balls.random(rng), rng.normal(size=6)
    times = np.linspace(0.0, 1.0, 38)
    rtol = 1e-7 if integrator == "bogacki-shampine" else 1e-9
    run = ct.simulate(balls, q, v, until=1.0, rtol=rtol, integrator=integrator, record=times)
    exact = ct.simulate(balls, q, v, until=1.0, integrator="dop853", step=1.0 / 37 / 16, record=16)
    assert_allclose(run.t, times, rtol=0)
    errors = np.abs(run.v - exact.v).max(axis=1)
    assert errors.max() < 100.0 * rtol
    at_samples = np.abs(ct.simulate(balls, q, v, until=1.0, rtol=rtol, integrator=integrator).v[-1] - exact.v[-1]).max()
    assert errors.max() < 30.0 * at_samples
    assert_allclose(run.vdot, exact.vdot, rtol=1e-4, atol=1e-4)


def test_samples_at_given_times_with_jumps_tables_and_python(ball, cart):
    times = np.linspace(0.0, 2.0, 41)
    for how in SETTINGS.values():
        run = ct.simulate(ball, [1.0], until=2.0, events=[BOUNCE], record=times, **how)
        assert_allclose(run.t, times)
        hits = bounces(2.0)
        for t, z in zip(run.t, run["ball"], strict=True):
            k = int(np.searchsorted(hits, t))
            speed = np.sqrt(2.0 * G) * 0.8**k
            s = t - hits[k - 1]
            assert z == pytest.approx(1.0 - 0.5 * G * t**2 if k == 0 else speed * s - 0.5 * G * s**2, abs=1e-10)
    table, values = TABLE
    run = ct.simulate(cart, [0.0], tau=(table, values[:, None]), until=2.0, record=times, step=0.3)
    assert_allclose(run.v[:, 0], [exact_cart(table, values, t)[1] for t in times], atol=1e-13)
    assert_allclose(run.tau[:, 0], np.interp(times, table, values), atol=1e-12)


def test_given_times_after_an_early_end_are_left_out(ball):
    stop = ct.Event("floor", lambda t, q, v: q[0])
    hit = np.sqrt(2.0 / G)
    run = ct.simulate(ball, [1.0], until=2.0, events=[stop], record=[0.0, 0.2, 0.4, 0.6, 2.0])
    assert_allclose(run.t, [0.0, 0.2, 0.4])
    assert run.events[0].t == pytest.approx(hit)
    late = ct.simulate(ball, [1.0], until=2.0, events=[stop], record=[1.0, 2.0])
    assert_allclose(late.t, [hit])  # the state that it came to
    for how in ({}, {"controller": ct.python(lambda t, q, v: [0.0])}):
        late = ct.simulate(ball, [1.0], until=2.0, events=[stop], record=[1.0, 2.0], **how)
        assert_allclose(late.t, [hit])
        assert abs(late["ball"][0]) < 1e-10


# --- trouble


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"m": 3}, "3 is not a model; give a ct.Model"),
        ({"q0": [0.0, 0.0]}, r"q0 has shape \(2,\); model 'pendulum' takes 1 numbers: arm"),
        ({"q0": "a"}, "q0 'a' is not made of real numbers"),
        ({"q0": [np.nan]}, "q0: 'arm' is nan; give finite numbers"),
        ({"v0": [0.0, 1.0]}, r"v0 has shape \(2,\)"),
        ({"v0": [np.inf]}, "v0: 'arm' is inf"),
        ({"until": -1.0}, "until = -1 s is not after the start at 0 s; give a later time"),
        ({"until": 0.0}, "not after the start"),
        ({"until": np.nan}, "until = nan is not finite"),
        ({"until": "soon"}, "until = 'soon' is not a number"),
        ({"start": 2.0}, "until = 1 s is not after the start at 2 s"),
        ({"step": 0.0}, "step = 0 is not positive; give a step size above 0"),
        ({"step": -0.1}, "step = -0.1 is not positive"),
        ({"step": 1e-18}, "step = 1e-18 s is below the resolution of time in a run from 0 s to 1 s; give 1e-12 s or more"),
        ({"step": 1e-11}, r"step = 1e-11 s makes 1.0e\+11 steps of a run from 0 s to 1 s, more than 1e\+10; give a larger step"),
        ({"start": 1e9, "until": 1e9 + 1.0, "step": 1e-5}, "step = 1e-05 s is below the resolution of time"),
        ({"largest_step": 1e-18}, "largest_step = 1e-18 s is below the resolution of time"),
        ({"step": np.inf}, "step = inf is not finite"),
        ({"step": 0.1, "largest_step": 0.01}, "step = 0.1 s fixes the steps, and largest_step = 0.01 s limits adaptive ones; give one of"),
        ({"largest_step": 0.0}, "largest_step = 0 is not positive"),
        ({"rtol": 0.0}, "rtol = 0, atol = 0 cannot be met; give 0 < rtol < 1"),
        ({"rtol": 2.0}, "rtol = 2"),
        ({"atol": 0.0}, "atol = 0 cannot be met; give .* atol > 0"),
        ({"rtol": "fine"}, "rtol = 'fine' is not a number"),
        ({"integrator": "rk5"}, "integrator 'rk5' is unknown; choose from semi-implicit-euler, "),
        ({"integrator": None}, "integrator None is not a name"),
        ({"integrator": "rk4"}, "integrator 'rk4' does not choose its steps; give step="),
        ({"method": "magic"}, "'magic'"),
        ({"tau": [1.0, 2.0]}, r"tau has shape \(2,\); give 1 finite joint forces, or a pair"),
        ({"tau": [np.nan]}, "give 1 finite joint forces"),
        ({"tau": "much"}, "tau 'much'"),
        ({"tau": ([0.0, 1.0], [[0.0, 1.0], [0.0, 1.0]])}, r"tau over time has shapes \(2,\) and \(2, 2\); give K >= 2 times and \(K, 1\)"),
        ({"tau": ([0.0, 0.0], [[0.0], [1.0]])}, "times that increase"),
        ({"tau": ([0.0, 0.5], [[0.0], [1.0]])}, "tau is given from 0 s to 0.5 s, but the run goes from 0 s to 1 s"),
        ({"tau": [1.0], "controller": lambda t, q, v: [0.0]}, "both tau and controller are given; give one"),
        ({"controller": 3.0}, "controller 3.0 is not a function"),
        ({"controller": lambda t, q, v: [0.0, 0.0]}, r"controller returned an array of shape \(2,\); return 1 joint force,"),
        ({"controller": ct.python(lambda t, q, v: [0.0, 0.0])}, r"controller returned an array of shape \(2,\); return 1 joint force,"),
        ({"controller": lambda t, q, v: None}, "controller returned None; .* return 1 joint force,"),
        ({"events": BOUNCE}, r"not a list of events; give \[ct\.Event"),
        ({"events": ["floor"]}, "event 'floor' is not an event; give ct.Event"),
        ({"events": [ct.Event("two", lambda t, q, v: [q[0], v[0]])]}, r"event 'two' returned an array of shape \(2,\); return one number"),
        ({"record": 0}, "record = 0 is not positive"),
        ({"record": 2.5}, "record = 2.5 is neither a whole number of steps nor an array of times"),
        ({"record": [0.0, "x"]}, "is neither a whole number"),
        ({"record": [0.5, 0.2]}, "times that increase"),
        ({"record": [0.5, 2.0]}, "record asks for times from 0.5 s to 2 s; the run goes from 0 s to 1 s"),
        ({"checkpoint_every": -1.0, "checkpoint": "x"}, "checkpoint_every = -1 s is negative"),
    ],
)  # fmt: skip
def test_arguments_are_checked_at_the_door(change, says, pendulum):
    right = {"m": pendulum, "q0": [0.1], "v0": [0.0], "until": 1.0}
    with pytest.raises(ct.CatenaError, match=says):
        ct.simulate(**(right | change))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("", lambda t, q, v: t), "event name '' is not a name"),
        (("e", 1.0), "event 'e': 1.0 is not a function"),
        (("e", lambda t, q, v: t, "end"), "action 'end' is unknown; give 'stop', 'record' or a function"),
        (("e", lambda t, q, v: t, "stop", 2), "direction 2 is not -1, 0 or 1"),
    ],
)
def test_events_are_checked_at_the_door(arguments, says):
    with pytest.raises(ct.ArgumentError, match=says):
        ct.Event(*arguments)


def test_quaternions_must_be_of_unit_length(balls):
    q = balls.neutral()
    q[4:] *= 1.1
    with pytest.raises(ct.ArgumentError, match=r"q0: the quaternion of 'second' has length 1\.1; give one of length 1"):
        ct.simulate(balls, q, until=1.0)
    q = balls.neutral() * (1.0 + 1e-8)  # as printed digits are
    assert np.abs(np.linalg.norm(ct.simulate(balls, q, until=0.1).q[:, :4], axis=1) - 1.0).max() < 1e-15


def test_model_without_moving_bodies_is_refused():
    with pytest.raises(ct.ModelError, match="no moving body"):
        ct.simulate(ct.Model("nothing"), [], until=1.0)


@pytest.mark.parametrize("how", [{"step": 0.01}, {}, {"integrator": "dop853"}, {"step": 0.01, "integrator": "implicit-midpoint"}])
def test_state_that_is_not_finite_is_named_with_time_and_coordinate(how, pendulum):
    m = ct.Model("two")
    m.add("good", ct.point_mass(1.0), ct.Prismatic("x"))
    m.add("bad", ct.point_mass(1.0), ct.Prismatic("x"))
    for controller in (lambda t, q, v: [0.0, np.sqrt(0.5 - t)], ct.python(lambda t, q, v: [0.0, np.sqrt(0.5 - t)])):
        with pytest.raises(ct.SimulationError, match=r"not finite after t = 0\.(5|49).*'bad'.*error\.trajectory") as caught:
            ct.simulate(m, [0.0, 0.0], [1.0, 0.0], until=1.0, controller=controller, **how)
        run = caught.value.trajectory
        assert run.info["stopped"] == "error"
        assert np.isfinite(run.q).all()
        assert run.t[-1] == pytest.approx(0.5, abs=0.011)
        assert run["good"][-1] == pytest.approx(run.t[-1], abs=1e-12)


def test_step_size_that_underflows_says_so(cart):
    """x'' = x'^2 is infinite after a finite time."""
    with pytest.raises(ct.SimulationError, match=r"step size fell to .* at t = (0\.99|1).*'cart' has the largest acceleration") as caught:
        ct.simulate(cart, [0.0], [1.0], until=2.0, controller=lambda t, q, v: [2.0 * v[0] ** 2])
    run = caught.value.trajectory
    assert run.t[-1] == pytest.approx(1.0, abs=1e-4)
    assert run.v[-1, 0] > 1e4


def test_acceleration_that_is_not_finite_at_the_start_is_refused(cart):
    for how in ({}, {"step": 0.1}):
        with pytest.raises(ct.SimulationError, match="acceleration of 'cart' is nan at the start, t = 0 s"):
            ct.simulate(cart, [0.0], until=1.0, controller=lambda t, q, v: [np.sqrt(t - 1.0)], **how)
    with pytest.raises(ct.SimulationError, match="event 'log' is nan at the start"):
        ct.simulate(cart, [0.0], until=1.0, events=[ct.Event("log", lambda t, q, v: np.log(q[0] - 1.0))])


def test_error_in_a_called_function_is_the_users_own(cart):
    def controller(t, q, v):
        return [1.0 / (0.0 if t > 0.5 else 1.0)]

    with pytest.raises(ZeroDivisionError):
        ct.simulate(cart, [0.0], until=1.0, controller=ct.python(controller))


def test_time_between_looks_grows_only_with_steps_that_are_taken(monkeypatch, cart):
    """Events that end a look early, or a full buffer, must not lead to looks without end, in which Ctrl-C would wait."""
    asked = []
    module = sys.modules["catena.simulation.simulate"]
    advance = module._advance
    monkeypatch.setattr(module, "_advance", lambda run, buffer, count: (asked.append(count), advance(run, buffer, count)))
    ct.simulate(cart, [0.0], [1.0], until=40.0, step=1e-4)
    assert max(asked) <= 2 * 8192


def test_double_pendulum_by_all_ways_agrees():
    m = double_pendulum()
    rng = np.random.default_rng(0)
    q, v = m.random(rng), rng.normal(size=m.nv)
    runs = [
        ct.simulate(m, q, v, until=0.5, rtol=1e-11),
        ct.simulate(m, q, v, until=0.5, rtol=1e-11, integrator="dop853", method="composite-body"),
        ct.simulate(m, q, v, until=0.5, step=5e-4, integrator="gauss-legendre-4"),
    ]
    for run in runs[1:]:
        assert_allclose(run.q[-1], runs[0].q[-1], atol=1e-8)


# --- what is kept for the next run


def test_a_second_run_compiles_nothing_and_is_the_same_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    m = double_pendulum()
    settings = [{"until": 0.3}, {"until": 0.3, "step": 0.01}, {"until": 0.3, "step": 0.01, "integrator": "midpoint"}]
    first = [ct.simulate(m, [0.1, 0.2], tau=[1.0, 0.0], **given) for given in settings]
    with monkeypatch.context() as patch:
        for name in ("Iteration", "compile_graph"):
            patch.setattr(system, name, lambda *_, **__: pytest.fail("it is compiled again"))
        second = [ct.simulate(m, [0.1, 0.2], tau=[1.0, 0.0], **given) for given in settings]
    for one, two in zip(first, second, strict=True):
        assert one.q.tobytes() == two.q.tobytes()
        assert one.v.tobytes() == two.v.tobytes()
    other = ct.simulate(m, [0.1, 0.2], tau=[2.0, 0.0], **settings[1])
    assert np.abs(other.q[-1] - first[1].q[-1]).max() > 1e-6


def test_a_model_that_changes_is_compiled_again() -> None:
    m = double_pendulum()
    before = ct.simulate(m, [0.1, 0.2], until=0.3, step=0.01)
    m.add_spring("coil", "ground", m.body_names[-1], at_a=(0, 0, 1), stiffness=50.0)
    after = ct.simulate(m, [0.1, 0.2], until=0.3, step=0.01)
    assert np.abs(after.q[-1] - before.q[-1]).max() > 1e-3


def test_functions_are_read_anew_for_every_run() -> None:
    strength = [1.0]
    m = double_pendulum()
    m.add_force("push", lambda t, q, v: np.array([strength[0], 0.0]))
    weak = ct.simulate(m, [0.1, 0.2], until=0.3, step=0.01)
    strength[0] = 5.0
    assert np.abs(ct.simulate(m, [0.1, 0.2], until=0.3, step=0.01).q[-1] - weak.q[-1]).max() > 1e-3


def test_runs_that_could_never_come_to_their_end_are_refused(cart):
    m = ct.Model("pendulum")
    m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    with pytest.raises(ct.SimulationError, match=r"until = 1e\+300 s takes .* steps of .* s, .* give an earlier time") as error:
        ct.simulate(m, [0.3], until=1e300)
    assert error.value.trajectory.t[-1] > 10.0
    with pytest.raises(ct.ArgumentError, match=r"a run from 1e\+17 s to .* is below the resolution of time there"):
        ct.simulate(m, [0.3], start=1e17, until=1e17 + 1e4)
