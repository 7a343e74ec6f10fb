"""A step as a kernel: against rollouts, which make the same steps in a loop of their own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from tests import mechanisms
from tests.referee import relative
from tests.test_driven import driven

import catena as ct
from catena.examples import EXAMPLES
from catena.simulation.integrators.steps import INTEGRATORS

STEP = 2e-3


def run(move: Any, q: np.ndarray, v: np.ndarray, tau: Any, steps: int) -> tuple[np.ndarray, np.ndarray]:
    for _ in range(steps):
        q, v = move(q, v, tau)
    return q, v


def start(m: ct.Model, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return a state, which closes the loops."""
    rng = np.random.default_rng(seed)
    if not m.has_loops:
        return m.random(rng), 0.3 * rng.normal(size=m.nv)
    q = m.assemble()
    return q, m.project_velocity(q, 0.3 * rng.normal(size=m.nv))


def assert_closed(m: ct.Model, move: Any, q: np.ndarray, v: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the state after so many steps, on which loops are closed to rounding."""
    way, tau = [], np.zeros(m.nv)
    for _ in range(steps):
        q, v = move(q, v, tau)[:2]
        way.append(q)
    assert ct.loop_error(m)(np.array(way)).max() < 1e-12
    return q, v


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_steps_are_those_of_a_rollout(integrator: str) -> None:
    m = mechanisms.tree(3, 4, ("revolute", "spherical", "universal", "prismatic"), options=True)
    q, v = start(m)
    tau = np.ones(m.nv)
    expected = ct.rollout(m, q, v, controls=tau, step=STEP, steps=6, integrator=integrator)
    for substeps in (1, 3):
        move = ct.stepper(m, STEP * substeps, integrator, substeps)
        found = run(move, q, v, tau, 6 // substeps)
        np.testing.assert_allclose(found[0], expected.q[-1], atol=1e-12)
        np.testing.assert_allclose(found[1], expected.v[-1], atol=1e-12)


@pytest.mark.parametrize("integrator", [name for name, one in INTEGRATORS.items() if not one.canonical])
def test_steps_of_a_linkage_are_those_of_a_rollout(integrator: str) -> None:
    m = EXAMPLES["four-bar"]()
    q, v = start(m)
    tau = np.array([3.0, 0.0, 0.0])
    expected = ct.rollout(m, q, v, controls=tau, step=STEP, steps=6, integrator=integrator)
    found = run(ct.stepper(m, STEP, integrator), q, v, tau, 6)
    np.testing.assert_allclose(found[0], expected.q[-1], atol=1e-12)
    np.testing.assert_allclose(found[1], expected.v[-1], atol=1e-12)
    assert ct.loop_error(m)(found[0]).max() < 1e-14


@pytest.mark.parametrize("name", ["arm", "top", "four-bar"])
def test_substeps_are_steps_bit_for_bit(name: str) -> None:
    m = EXAMPLES[name]()
    q, v = start(m)
    tau = np.full(m.nv, 0.1)
    steps, parts = run(ct.stepper(m, 2.0**-10, "rk4"), q, v, tau, 8), run(ct.stepper(m, 2.0**-8, "rk4", 4), q, v, tau, 2)
    np.testing.assert_array_equal(parts[0], steps[0])
    np.testing.assert_array_equal(parts[1], steps[1])


@pytest.mark.parametrize("name", ["four-bar", "bricard", "double-wishbone", "jansen-leg"])
def test_loops_stay_closed_over_thousands_of_steps(name: str) -> None:
    m = EXAMPLES[name]()
    q, v = start(m)
    move: Any = ct.stepper(m, 1e-3, "rk4")
    (by_pivots,) = move._pivoted.made.values()  # for states with as many independent constraints as the plan has
    planned, pivoted = assert_closed(m, move, q, v, 2000), assert_closed(m, by_pivots, q, v, 2000)
    np.testing.assert_allclose(planned[0], pivoted[0], atol=1e-6)


@pytest.mark.parametrize("name", ["four-bar", "stewart-ups", pytest.param("biped", marks=pytest.mark.long)])
def test_loops_stay_closed(name: str) -> None:
    m = EXAMPLES[name]()
    q, v = start(m)
    tau = np.zeros(m.nv)
    found = run(ct.stepper(m, STEP, "rk4"), q, v, tau, 10)
    expected = ct.rollout(m, q, v, step=STEP, steps=10, integrator="rk4")
    np.testing.assert_allclose(found[0], expected.q[-1], atol=1e-11)
    assert ct.loop_error(m)(found[0]).max() < 1e-12


def test_a_state_that_the_plan_does_not_fit_is_moved_by_pivots() -> None:
    m = EXAMPLES["jansen-leg"]()
    q, v = start(m)
    way = ct.rollout(m, q, 20.0 * v, step=1e-3, steps=2000, every=20, integrator="rk4")
    q, v, tau, move = way.q, way.v, np.zeros(m.nv), ct.stepper(m, 1e-3, "rk4")
    fits = move.fits(q, v, tau)
    assert fits.any()
    assert not fits.all()
    found, expected = move(q, v, tau), ct.rollout(m, q, v, step=1e-3, steps=1, integrator="rk4")
    np.testing.assert_allclose(found[0], expected.q[:, -1], atol=1e-9)
    assert ct.loop_error(m)(found[0]).max() < 1e-12


def test_a_singular_state_is_warned_of() -> None:
    m = ct.Model("flat")  # a folded linkage whose lengths let it open in two ways
    m.add("crank", ct.rod(0.3, mass=1.0), ct.Revolute("y"))
    m.add("coupler", ct.rod(1.0, mass=1.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
    m.add("rocker", ct.rod(0.3, mass=1.0), ct.Revolute("y"), at=(1, 0, 0))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1, 0, 0), at_b=(0.3, 0, 0))
    q, v = np.zeros(3), np.zeros(3)
    assert ct.rollout(m, q, v, step=1e-3, steps=1).reason == "singular"
    with pytest.warns(ct.SingularWarning, match="stepper: the state of model 'flat' is singular"):
        ct.stepper(m, 1e-3)(q, v, np.zeros(3))


def test_states_that_leave_a_loop_open_are_refused() -> None:
    m = EXAMPLES["four-bar"]()
    q = m.assemble(crank=1.0)
    with pytest.raises(ct.ArgumentError, match="leaves loop 'pin' of model 'four-bar' open"):
        ct.stepper(m, 1e-3)(q + [0.0, 0.01, 0.0], np.zeros(3), np.zeros(3))


def test_time_forces_and_driven_joints_count() -> None:
    m = ct.Model("crane")
    m.add("trolley", ct.point_mass(50.0), ct.Driven(ct.Prismatic("x"), lambda t: 0.5 * np.sin(2.0 * t)))
    m.add("load", ct.point_mass(10.0, at=(0, 0, -3)), ct.Revolute("y", limits=(-0.05, 0.05)), parent="trolley")
    m.add_force("wind", lambda t, q, v: [5.0 * np.cos(3.0 * t) - 0.2 * v[0]])
    move, q, v = ct.stepper(m, 1e-3, "rk4"), np.array([0.01]), np.zeros(1)
    expected = ct.rollout(m, q, v, step=1e-3, steps=50, start=0.4, integrator="rk4")
    for k in range(50):
        q, v = move(0.4 + 1e-3 * k, q, v, [0.0])
    np.testing.assert_allclose(q, expected.q[-1], atol=1e-12)


def test_a_driven_crank_moves_a_linkage() -> None:
    m = driven(EXAMPLES["four-bar"](), ["crank"], crank=lambda t: 1.0 + 0.4 * np.sin(2.0 * t))
    move, begin = ct.stepper(m, STEP, "rk4"), 0.3
    q = m.at(begin).assemble()
    v = m.at(begin).project_velocity(q)
    expected = ct.rollout(m, q, v, step=STEP, steps=40, start=begin, integrator="rk4")
    for k in range(40):
        q, v = move(begin + STEP * k, q, v, np.zeros(m.nv))
    np.testing.assert_allclose(q, expected.q[-1], atol=1e-12)
    end = begin + 40 * STEP
    assert ct.loop_error(m)(end, q).max() < 1e-13
    np.testing.assert_allclose(v, m.at(end).project_velocity(q, v), atol=1e-12)


@pytest.mark.parametrize("integrator", ["auto", "rk4", "semi-implicit-euler"])
def test_stops_hold_joints_back(integrator: str) -> None:
    m = ct.Model("gate")
    m.add("leaf", ct.rod(0.5, mass=2.0), ct.Revolute("y", limits=(-0.4, 0.4)))
    move, step = ct.stepper(m, 5e-4, integrator), 5e-4
    q, v = np.zeros(1), np.zeros(1)
    expected = ct.rollout(m, q, v, step=step, steps=2000, integrator=integrator)
    way = [q]
    for _ in range(2000):
        q, v = move(q, v, [0.0])
        way.append(q)
    np.testing.assert_allclose(np.array(way), expected.q, atol=1e-10)
    assert 0.4 < np.max(way) < 0.45


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit-euler", "implicit-midpoint"])
def test_quaternions_of_free_bodies_stay_unit(integrator: str) -> None:
    m = ct.Model("tumbling")
    m.add("body", ct.box(1.0, 0.6, 0.2, mass=3.0), ct.Free())
    m.add("tail", ct.box(0.5, 0.1, 0.2, mass=1.0), ct.Spherical(), parent="body", at=(0.5, 0.0, 0.0))
    rng = np.random.default_rng(0)
    q, v = run(ct.stepper(m, 1e-3, integrator), m.random(rng), 5.0 * rng.normal(size=m.nv), np.zeros(m.nv), 1000)
    lengths = [np.linalg.norm(part) for part in (q[3:7], q[7:11])]
    np.testing.assert_allclose(lengths, 1.0, atol=1e-14)
    assert np.isfinite(v).all()


@pytest.mark.parametrize("name", ["arm", "four-bar"])
@pytest.mark.parametrize("batch", [(), (0,), (1,), (3, 5), (2, 1, 3)])
def test_batches_of_any_shape_are_their_states_one_by_one(name: str, batch: tuple[int, ...]) -> None:
    m, rng = EXAMPLES[name](), np.random.default_rng(2)
    move = ct.stepper(m, 1e-3, "rk4")
    way = ct.rollout(m, *start(m), step=1e-2, steps=40)
    some = rng.integers(0, 41, size=batch)
    q, v, tau = way.q[some], way.v[some], rng.normal(size=(*batch, m.nv))
    found = move(q, v, tau)
    assert found[0].shape == (*batch, m.nq)
    assert found[1].shape == (*batch, m.nv)
    out = np.empty((*batch, m.nq)), np.empty((*batch, m.nv))
    assert move(q, v, tau, out=out)[1] is out[1]
    for i in np.ndindex(batch):
        one = move(q[i], v[i], tau[i])
        np.testing.assert_array_equal(found[0][i], one[0])
        np.testing.assert_array_equal(found[1][i], one[1])
    np.testing.assert_array_equal(out[0], found[0])
    move(q, v, tau, out=(q, v))  # onto themselves
    np.testing.assert_array_equal(q, found[0])
    np.testing.assert_array_equal(v, found[1])


def test_batches_numbers_and_arrays_to_write_to() -> None:
    m, rng = EXAMPLES["arm"](), np.random.default_rng(0)
    hand = m.body_names[-1]
    move = ct.stepper(m, 1e-3, parameters=f"{hand}.mass")
    q, v, masses = m.random(rng, 5), rng.normal(size=(5, m.nv)), rng.uniform(0.5, 2.0, size=(3, 1))
    out = np.empty((3, 5, m.nq)), np.empty((3, 5, m.nv))
    found = move(q, v, np.zeros(m.nv), masses, out=out)
    assert found[0] is out[0]
    for mass, one in zip(masses[:, 0], found[0], strict=True):
        expected = ct.stepper(m.with_values({f"{hand}.mass": mass}), 1e-3)(q, v, np.zeros(m.nv))[0]
        np.testing.assert_allclose(one, expected, atol=1e-13)


@pytest.mark.parametrize("name", ["arm", "four-bar", "top"])
def test_derivatives_of_a_step_equal_differences(name: str) -> None:
    m = EXAMPLES[name]()
    q, v = start(m)
    tau, small = np.zeros(m.nv), 1e-6
    move = ct.stepper(m, 1e-2, "rk4")
    by_tau = move.jacobian("v_next", "tau")(q, v, tau)
    ends = [[move(q, v, tau + sign * small * unit)[1] for sign in (1.0, -1.0)] for unit in np.eye(m.nv)]
    assert relative(by_tau, np.transpose([(a - b) / (2.0 * small) for a, b in ends])) < 1e-6
    if not m.has_loops:
        by_q = move.jacobian("q_next", "q")(q, v, tau)
        middle = move(q, v, tau)[0]
        ends = [[move(m.integrate(q, sign * small * unit), v, tau)[0] for sign in (1.0, -1.0)] for unit in np.eye(m.nv)]
        differences = [(m.difference(middle, a) - m.difference(middle, b)) / (2.0 * small) for a, b in ends]
        assert relative(by_q, np.transpose(differences)) < 1e-6


def test_a_step_that_fails_is_nan_and_leaves_the_others_alone() -> None:
    m = EXAMPLES["arm"]()
    q, v = m.random(0), np.zeros((2, m.nv))
    v[1] = 1e200
    found = ct.stepper(m, 1e-3, "rk4")(q, v, np.zeros(m.nv))
    assert np.isfinite(found[0][0]).all()
    assert np.isnan(found[0][1]).all()


@pytest.mark.parametrize("name", ["arm", "four-bar", "quarter-car"])
def test_wrenches_are_forces_on_bodies(name: str) -> None:
    m, rng = EXAMPLES[name](), np.random.default_rng(0)
    first, last = m.body_names[0], m.body_names[-1]
    q = m.assemble()
    v, tau = m.project_velocity(q, rng.normal(size=m.nv)), rng.normal(size=m.nv)
    wrenches = rng.normal(size=(2, 2, 6))
    move = ct.stepper(m, 1e-3, "rk4", wrenches=[last, first], parameters="gravity")
    assert [port.name for port in move.inputs] == ["q", "v", "tau", "wrenches", "gravity"]
    found = move(q, v, tau, wrenches=wrenches)
    for k, (on_last, on_first) in enumerate(wrenches):
        pushed = EXAMPLES[name]()
        pushed.add_force("on last", lambda t, q, v, w=on_last: w, body=last)
        pushed.add_force("on first", lambda t, q, v, w=on_first: w, body=first)
        wanted = ct.stepper(pushed, 1e-3, "rk4")(q, v, tau)
        assert relative(found[0][k], wanted[0]) < 1e-13
        assert relative(found[1][k], wanted[1]) < 1e-13
    assert relative(move(q, v, tau)[1], ct.stepper(m, 1e-3, "rk4")(q, v, tau)[1]) < 1e-13
    with pytest.raises(ct.CatenaError, match="wrenches name"):
        ct.stepper(m, 1e-3, wrenches=["ground"])
    with pytest.raises(ct.CatenaError, match="'nobody'"):
        ct.stepper(m, 1e-3, wrenches="nobody")


@pytest.mark.parametrize(("step", "substeps", "says"), [(0.0, 1, "step"), (None, 1, "step"), (1e-3, 0, "substeps"), (1e-3, 1.5, "subst")])
def test_bad_arguments_are_refused(step: Any, substeps: Any, says: str) -> None:
    with pytest.raises(ct.ArgumentError, match=says):
        ct.stepper(EXAMPLES["pendulum"](), step, substeps=substeps)


def test_a_step_too_long_to_close_the_loops_is_not_called_singular() -> None:
    m = EXAMPLES["four-bar"]()
    q = m.assemble(crank=1.0)
    v = m.project_velocity(q, crank=30.0)
    assert ct.rollout(m, q, v, step=0.05, steps=1, integrator="rk4").reason == "not closed"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(ct.stepper(m, 0.05, "rk4")(q, v, np.zeros(3))).all()


def test_velocities_that_open_a_loop_are_refused() -> None:
    m = EXAMPLES["four-bar"]()
    q, v = start(m)
    with pytest.raises(ct.ArgumentError, match="stepper: the velocity of the state would open the loops of model 'four-bar'"):
        ct.stepper(m, 1e-3)(q, v + [0.0, 1e-3, 0.0], np.zeros(3))


def test_many_substeps_share_their_code() -> None:
    m = EXAMPLES["arm"]()
    q, v = start(m)
    many = ct.stepper(m, 0.2, "rk4", substeps=1000)
    assert len(many.llvm) < 2 * len(ct.stepper(m, 2e-4, "rk4", substeps=2).llvm)
    assert relative(many(q, v, np.zeros(7))[0], ct.rollout(m, q, v, step=2e-4, steps=1000, integrator="rk4").q[-1]) < 1e-12
