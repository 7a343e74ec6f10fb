"""Identification: the regressor against inverse dynamics, base parameters against counts, estimates against their own bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests import mechanisms
from tests.referee import relative

import catena as ct
from catena.examples import EXAMPLES

pytestmark = pytest.mark.evaluated

LINKAGES = ("slider-crank", "four-bar", "watt", "peaucellier", "bennett", "five-bar-robot", "planar-3rrr", "quarter-car", "double-wishbone")


def parameters(m: ct.Model, joints: Any = None) -> np.ndarray:
    """The parameters of a model as a vector."""
    return np.array(list(ct.linear_parameters(m, joints).values()))


# --- the regressor


@given(mechanisms.moving_trees(6))
def test_regressor_times_parameters_is_inverse_dynamics(moving: tuple[ct.Model, np.ndarray, np.ndarray, np.ndarray]) -> None:
    m, *state = moving
    Y = ct.regressor(m)
    assert Y.labels["pi"] == tuple(ct.linear_parameters(m))
    assert relative(Y(*state) @ parameters(m), ct.inverse_dynamics(m)(*state)) < 1e-11


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["arm", "humanoid", "gallery"])
def test_compiled_it_is_too_in_batches(name: str) -> None:
    m = mechanisms.SHARED[name]()
    state = mechanisms.state(m, 1, (5,))
    assert relative(ct.regressor(m)(*state) @ parameters(m), ct.inverse_dynamics(m)(*state)) < 1e-11


def test_stops_and_springs_and_forces_act_besides() -> None:
    m = mechanisms.tree(3, 4)
    state = mechanisms.state(m, 3)
    hung = mechanisms.tree(3, 4)
    hung.add_spring("coil", "ground", m.body_names[-1], at_a=(0.3, 0, 0), stiffness=20.0, damping=1.0, length=0.1)
    assert relative(ct.regressor(hung)(*state), ct.regressor(m)(*state)) < 1e-14


def test_driven_joints_and_names_with_dots() -> None:
    m, rng = ct.Model("shaken"), np.random.default_rng(0)
    m.add("table", mechanisms.body(rng), ct.Driven(ct.Revolute("z"), lambda t: 0.5 * np.sin(3.0 * t)))
    m.add("arm.upper", mechanisms.body(rng), ct.Revolute("y", damping=0.2), parent="table", at=(0.3, 0, 0.1))
    m.add("arm.fore", mechanisms.body(rng), ct.Revolute("z"), parent="arm.upper", at=(1, 0, 0))
    t, (q, v, vdot) = rng.uniform(0.0, 2.0, 200), rng.normal(size=(3, 200, 2))
    assert relative(ct.regressor(m)(t, q, v, vdot) @ parameters(m), ct.inverse_dynamics(m)(t, q, v, vdot)) < 1e-11
    true = m.with_values({"arm.fore.mass": 3.0, "arm.upper.damping": 0.4})
    tau = ct.inverse_dynamics(true)(t, q, v, vdot) + 0.01 * rng.normal(size=(200, 2))
    within(ct.identify(m, ["arm.fore.mass", "arm.upper.damping"], q, v, vdot, tau, t=t), np.array([3.0, 0.4]))
    within(ct.identify(m, "base", q, v, vdot, tau, t=t), ct.base_parameters(true).values)
    with pytest.raises(ct.ArgumentError, match="depends on time; give the times of the samples"):
        ct.identify(m, "base", q, v, vdot, tau)


@pytest.mark.parametrize("name", LINKAGES)
def test_with_loops_it_gives_the_forces_along_independent_coordinates(name: str) -> None:
    m, rng = EXAMPLES[name](), np.random.default_rng(0)
    heavier = m.with_values({f"{body}.mass": 0.5 + 2.0 * m.parameters()[f"{body}.mass"].value for body in m.body_names})
    Y = ct.regressor(m)
    by = ct.reduced(m, Y.labels["regressor"])
    q = m.assemble()
    v = m.project_velocity(q, rng.normal(size=m.nv))
    vdot = by.accelerations(q, v, rng.normal(size=len(by.names)))
    tau, more = (by.basis(q).T @ ct.inverse_dynamics(model)(q, v, vdot) for model in (m, heavier))
    if not m.springs:
        assert relative(Y(q, v, vdot) @ parameters(m), tau) < 1e-11
    assert relative(Y(q, v, vdot) @ (parameters(heavier) - parameters(m)), more - tau, float(np.abs(tau).max())) < 1e-11


def test_motors_as_many_as_degrees_of_freedom_give_these_forces() -> None:
    m = EXAMPLES["five-bar-robot"]()
    motors = ["leg2_proximal", "leg1_proximal"]
    by = ct.reduced(m, motors)
    q = m.assemble()
    v = by.rates(q, [0.5, -1.0])
    vdot = by.accelerations(q, v, [2.0, 1.0])
    Y = ct.regressor(m, actuated=motors)
    tau = ct.inverse_dynamics(m, actuated=motors)(q, v, vdot)
    assert Y.labels["regressor"] == tuple(motors)
    assert relative(Y(q, v, vdot) @ parameters(m), tau[[m.v_names.index(name) for name in motors]]) < 1e-11


def test_more_motors_leave_the_choice_of_rows_to_the_regressor() -> None:
    m = EXAMPLES["four-bar"]()
    Y = ct.regressor(m, actuated=["crank", "rocker"])
    assert len(Y.labels["regressor"]) == 1
    assert Y.labels["regressor"][0] in ("crank", "rocker")


def test_states_that_open_the_loops_are_refused() -> None:
    m = EXAMPLES["four-bar"]()
    with pytest.raises(ct.ArgumentError, match="acceleration of the state would open the loops"):
        ct.regressor(m)(m.assemble(), np.zeros(3), np.ones(3))


def test_columns_of_joints_are_those_named() -> None:
    m = ct.Model("cart")
    m.add("cart", ct.point_mass(1.0), ct.Cylindrical("x", damping=(0.1, 0.2)))
    assert list(ct.linear_parameters(m))[10:] == ["cart.damping.angle", "cart.damping.shift"]
    assert list(ct.linear_parameters(m, ["friction"]))[10:] == ["cart.friction.angle", "cart.friction.shift"]
    with pytest.raises(ct.ArgumentError, match="did you mean 'damping'"):
        ct.regressor(m, joints=["dampin"])
    with pytest.raises(ct.ArgumentError, match="would move freely"):
        ct.regressor(m, actuated=["cart.angle"])


# --- base parameters


def rank(m: ct.Model, seed: int = 0) -> int:
    """The number of base parameters of a tree by inverse dynamics of models with other numbers, without the regressor."""
    rng, known = np.random.default_rng(seed), m.parameters()
    state = mechanisms.state(m, rng, (60,))
    forces = []
    for body in m.body_names:
        mass, com, inertia = (known[f"{body}.{what}"].value for what in ("mass", "com", "inertia"))
        for _ in range(11):
            spread = rng.normal(size=(3, 3))
            spread = spread @ spread.T
            other = {"mass": mass * rng.uniform(0.5, 2.0), "com": com + 0.1 * rng.normal(size=3)}
            other["inertia"] = inertia + 0.1 * (np.trace(spread) * np.eye(3) - spread)
            forces.append(ct.inverse_dynamics(m.with_values({f"{body}.{what}": x for what, x in other.items()}))(*state).ravel())
    own = ct.inverse_dynamics(m)(*state).ravel()
    return int(np.linalg.matrix_rank(np.array(forces) - own, tol=1e-9 * np.linalg.norm(own)))


def planar(bodies: int, gravity: tuple[float, float, float]) -> ct.Model:
    """A chain of hinges about z, with bodies of any shape."""
    rng, m = np.random.default_rng(bodies), ct.Model("planar", gravity=gravity)
    for k in range(bodies):
        m.add(f"link{k}", mechanisms.body(rng), ct.Revolute("z"), parent=f"link{k - 1}" if k else "ground", at=(0.4 * bool(k), 0.1, 0.0))
    return m


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_number_for_chains_of_hinges_is_that_of_theory(count: int) -> None:
    """[MYO90]: 7 n - 4 b - 2 g, with b first axes in parallel; g = 1 if the first is along gravity."""
    assert ct.base_parameters(mechanisms.chain(count, count)).number == 7 * count - 4
    upright = mechanisms.chain(count, count, gravity=(0.0, 0.0, 0.0))
    axis = upright.tree().ground.R[:, 2] if count else None
    assert ct.base_parameters(mechanisms.chain(count, count, gravity=tuple(9.81 * np.asarray(axis)))).number == 7 * count - 6
    assert ct.base_parameters(planar(count, (3.0, -9.0, 1.0))).number == 7 * count - 4 * count
    assert ct.base_parameters(planar(count, (0.0, 0.0, -9.81))).number == 7 * count - 4 * count - 2


def test_number_for_the_arm_is_that_of_theory() -> None:
    assert ct.base_parameters(EXAMPLES["arm"]()).number == 7 * 7 - 4 - 2


#: A coupler between two pins counts as masses in them, which belong to its neighbours, and two numbers of its own; a bar at the ground as
#: one number, and as three under gravity in the plane.
PLANAR = {
    "four-bar": 3 + 3 + 2,
    "slider-crank": 3 + 2 + 1,
    "five-bar-robot": 2 * 3 + 2 * 2 + 1,
    "planar-3rrr": 3 * 1 + 3 * 2 + 4,
}


@pytest.mark.parametrize("name", PLANAR)
def test_number_for_planar_linkages_is_that_of_theory(name: str) -> None:
    assert ct.base_parameters(EXAMPLES[name]()).number == PLANAR[name]


def test_number_for_a_four_bar_without_gravity_is_that_of_theory() -> None:
    m = EXAMPLES["four-bar"]().with_values({"gravity": (0.0, 0.0, 0.0)})
    assert ct.base_parameters(m, actuated=["crank"]).number == 1 + 1 + 2


@pytest.mark.parametrize("seed", range(4))
def test_number_for_trees_is_the_rank_of_inverse_dynamics_over_models(seed: int) -> None:
    m = mechanisms.tree(seed, 3, ("revolute", "prismatic", "spherical", "cylindrical"), geometry=("general", "aligned")[seed % 2])
    assert ct.base_parameters(m).number == rank(m)


@pytest.mark.parametrize("name", ["arm", "four-bar", "gallery"])
def test_base_parameters_give_the_joint_forces(name: str) -> None:
    m = EXAMPLES[name]()
    base = ct.base_parameters(m)
    pi, rng = parameters(m), np.random.default_rng(0)
    q = m.assemble() if m.has_loops else m.random(rng)
    v = m.project_velocity(q, rng.normal(size=m.nv)) if m.has_loops else rng.normal(size=m.nv)
    vdot = ct.reduced(m).accelerations(q, v, rng.normal(size=1)) if m.has_loops else rng.normal(size=m.nv)
    Y = base.regressor(q, v, vdot)
    assert relative(Y[:, list(base.columns)] @ base.K, Y) < 1e-10
    assert relative(base.values, base.K @ pi) < 1e-14


def test_combinations_are_told_in_words() -> None:
    m = ct.Model("double pendulum")
    m.add("upper", ct.rod(1.0, mass=2.0), ct.Revolute("y", armature=0.1))
    m.add("lower", ct.rod(1.0, mass=3.0), ct.Revolute("y"), parent="upper", at=(0.5, 0, 0))
    base = ct.base_parameters(m)
    assert "upper.first_moment.x + 0.5 lower.mass" in base.combinations
    assert "upper.inertia.yy + upper.armature + 0.25 lower.mass" in base.combinations
    assert "upper.mass" in base.without_effect
    assert str(base).startswith("7 base parameters of 22")
    assert "without effect: upper.mass, upper.first_moment.y" in str(base)


# --- estimates from joint forces


def measured(m: ct.Model, count: int, noise: Any, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Random states of a tree, and its joint forces with noise."""
    rng = np.random.default_rng(seed)
    q, v, vdot = m.random(rng, count), rng.normal(size=(count, m.nv)), 3.0 * rng.normal(size=(count, m.nv))
    return q, v, vdot, ct.inverse_dynamics(m)(q, v, vdot) + noise * rng.normal(size=(count, m.nv))


def within(found: ct.Identified, true: np.ndarray) -> None:
    """An estimate is within 3 standard errors, but for the few that chance puts outside, and uses them up."""
    off = np.abs(found.estimate - true) / np.sqrt(np.diag(found.covariance))
    assert off.max() < 4.0
    assert np.mean(off < 3.0) > 0.95
    assert off.max() > 0.3


OTHER = {"hand.mass": 2.1, "elbow.mass": 3.0, "fore.com": (0.02, 0.01, 0.1)}


def test_base_parameters_of_an_arm_are_within_their_bounds() -> None:
    m = EXAMPLES["arm"]()
    true = m.with_values(OTHER)
    noise = np.array([0.2, 0.2, 0.1, 0.1, 0.05, 0.02, 0.02])
    found = ct.identify(m, "base", *measured(true, 500, noise))
    within(found, ct.base_parameters(true).values)
    np.testing.assert_allclose(found.noise, noise, rtol=0.15)
    assert found.values["hand.inertia.zz"] == found.estimate[-1]
    off = (ct.base_parameters(found.model).values - found.estimate) / np.array(list(found.errors.values()))
    assert np.abs(off).max() < 1e-2


def test_standard_errors_are_those_of_many_estimates() -> None:
    m = EXAMPLES["double-pendulum"]()
    found = [ct.identify(m, "base", *measured(m, 60, 0.1, seed)) for seed in range(80)]
    spread = np.std([one.estimate for one in found], axis=0)
    stated = np.mean([np.sqrt(np.diag(one.covariance)) for one in found], axis=0)
    np.testing.assert_allclose(stated, spread, rtol=0.35)


def test_named_parameters_of_bodies_and_joints_are_within_their_bounds() -> None:
    m = ct.Model("arm")
    rng = np.random.default_rng(3)
    for k, axis in enumerate("zyyx"):
        joint = ct.Revolute(axis, damping=0.1, friction=0.2)
        m.add(f"link{k}", mechanisms.body(rng), joint, parent=f"link{k - 1}" if k else "ground", at=(0.3 * bool(k), 0, 0.1))
    heavy = mechanisms.body(rng)
    true = {"link3.mass": heavy.mass, "link3.com": heavy.com, "link3.inertia": heavy.inertia, "link1.damping": 0.5, "link2.friction": 0.7}
    found = ct.identify(m, ["link3", "link1.damping", "link2.friction"], *measured(m.with_values(true), 400, 0.05))
    flat = [heavy.mass, *heavy.com, *(heavy.inertia[i, j] for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))), 0.5, 0.7]
    assert found.names[0] == "link3.mass"
    assert found.names[-2:] == ("link1.damping", "link2.friction")
    within(found, np.array(flat))
    for path, value in found.values.items():
        np.testing.assert_array_equal(found.model.parameters()[path].value, value)


@pytest.mark.filterwarnings("error::catena.InertiaWarning")
@pytest.mark.parametrize("seed", range(5))
def test_inertias_stay_those_of_real_bodies_however_large_the_noise(seed: int) -> None:
    m = EXAMPLES["arm"]()
    data = measured(m, 60, 5.0, seed)
    for found in (ct.identify(m, ["hand", "wrist.damping"], *data).model, ct.identify(m, "base", *data).model):
        for link in found.links:
            spread = 0.5 * np.trace(link.body.inertia) * np.eye(3) - link.body.inertia
            assert link.body.mass > 0.0
            assert np.linalg.eigvalsh(spread)[0] > -1e-12 * np.trace(spread)
            assert all(x >= 0.0 for x in link.joint.damping)


def linkage(m: ct.Model, motors: list[str], count: int, noise: float) -> tuple[np.ndarray, ...]:
    """States of a mechanism with loops, and the forces of its motors with noise."""
    rng, by = np.random.default_rng(0), ct.reduced(m)
    q = by.positions(np.linspace(0.2, 6.0, count)[:, None])
    v = by.rates(q, rng.normal(size=(count, 1)))
    vdot = by.accelerations(q, v, 3.0 * rng.normal(size=(count, 1)))
    tau = ct.inverse_dynamics(m, actuated=motors)(q, v, vdot)
    return q, v, vdot, tau + noise * rng.normal(size=tau.shape)


@pytest.mark.parametrize("motors", [["crank"], ["crank", "rocker"]])
def test_parameters_of_a_linkage_come_from_the_forces_of_its_motors(motors: list[str]) -> None:
    m = EXAMPLES["four-bar"]()
    true = m.with_values({"coupler.mass": 6.0, "rocker.inertia": 1.5 * m.parameters()["rocker.inertia"].value})
    data = linkage(true, motors, 300, 0.02)
    within(ct.identify(m, "base", *data, actuated=motors), ct.base_parameters(true, actuated=motors).values)
    named = ct.identify(m, ["coupler.mass"], *linkage(m.with_values({"coupler.mass": 6.0}), motors, 300, 0.02), actuated=motors)
    within(named, np.array([6.0]))
    np.testing.assert_allclose(named.noise, 0.02, rtol=0.2)


# --- geometry from positions


def test_lengths_of_a_four_bar_are_within_their_bounds() -> None:
    m, rng = EXAMPLES["four-bar"](), np.random.default_rng(2)
    q = ct.reduced(m, ["crank"]).positions(np.linspace(0.2, 6.0, 200)[:, None])
    noisy = q + 1e-3 * rng.normal(size=q.shape)
    found = ct.identify(m.with_values({"pin.at_b.xyz": (0.57, 0.02, 0.03)}), ["pin.at_b.xyz"], noisy)
    assert np.abs(found.values["pin.at_b.xyz"][1]) < 1e-9  # nothing is uncertain across the plane
    within(found, np.array([0.6, 0.0, 0.0]))
    np.testing.assert_allclose(found.noise, 1e-3, rtol=0.1)
    within(ct.identify(m.with_values({"coupler.at.xyz": (0.32, 0.0, 0.01)}), ["coupler.at.xyz"], noisy), np.array([0.3, 0.0, 0.0]))
    assert ct.loop_error(found.model)(found.model.assemble()).max() < 1e-9


def test_lengths_have_the_standard_errors_of_many_estimates() -> None:
    """With a bar of given length, by a distance that closes the loop."""
    m, rng = ct.Model("four-bar"), np.random.default_rng(5)
    m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y"))
    m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), at=(1, 0, 0))
    m.close("bar", ct.Distance(1.0), "crank", "rocker", at_a=(0.3, 0, 0), at_b=(0.6, 0, 0))
    q = ct.reduced(m, ["crank"]).positions(np.linspace(0.2, 6.0, 40)[:, None], guess=m.assemble(crank=0.2))
    guess = m.with_values({"bar.length": 1.1})
    found = [ct.identify(guess, ["bar.length"], q + 0.01 * rng.normal(size=q.shape)) for _ in range(100)]
    lengths = np.array([one.estimate[0] for one in found])
    stated = np.mean([one.errors["bar.length"] for one in found])
    assert abs(lengths.mean() - 1.0) < 4.0 * stated / 10.0
    assert 0.75 < lengths.std() / stated < 1.25


# --- what is refused


def test_bad_input_is_refused_with_the_reason() -> None:
    m = EXAMPLES["arm"]()
    q, v, vdot, tau = measured(m, 40, 0.1)
    four_bar = EXAMPLES["four-bar"]()
    closed = four_bar.assemble()[None].repeat(20, axis=0)
    still = np.zeros_like(v)
    for parameters, data, message in [
        (["hadn.mass"], (q, v, vdot, tau), "did you mean 'hand.mass'"),
        (["hand.at.xyz"], (q, v, vdot, tau), "joint forces are not linear in 'hand.at.xyz'"),
        ([], (q, v, vdot, tau), "no parameter is named"),
        (["hand.mass", "hand"], (q, v, vdot, tau), "'hand.mass' is given twice"),
        ("base", (q, v, vdot), "give q, v, vdot and tau, or q alone"),
        ("base", (q[:, :6], v, vdot, tau), r"q has the shape \(40, 6\); give \(samples, 7\)"),
        ("base", (q, v[:30], vdot, tau), "v has 30 samples, and q has 40"),
        ("base", (q, v, vdot, np.where(tau == tau[3, 2], np.nan, tau)), "sample 3 of tau is not finite"),
        ("base", (q[:5], v[:5], vdot[:5], tau[:5]), "35 equations are too few for 43 parameters"),
        ("base", (still, still, still, tau), "the samples do not tell all of these parameters: .* ct.excitation"),
        (["hand"], (still, still, still, tau), "the samples do not tell"),
        (["shoulder1.com"], (q, v, vdot, tau), "shoulder1.com.z has no effect.*Name fewer"),
        (["wrist", "hand"], (q, v, vdot, tau), "joint forces do not tell all of these parameters: only wrist.mass"),
        (["hand.com"], (q,), "has no loops, and positions alone tell nothing"),
    ]:
        with pytest.raises(ct.ArgumentError, match=message):
            ct.identify(m, parameters, *data)
    with pytest.raises(ct.ArgumentError, match=r"noise .* is not positive"):
        ct.identify(m, "base", q, v, vdot, tau, noise=0.0)
    spread = ct.reduced(four_bar, ["crank"]).positions(np.linspace(0.2, 6.0, 50)[:, None])
    with pytest.raises(ct.ArgumentError, match=r"pin.at_b.xyz.x - 0.6 rocker.at.xyz.x.*proportions"):
        ct.identify(four_bar, ["pin.at_a.xyz", "coupler.at.xyz", "pin.at_b.xyz", "rocker.at.xyz"], spread)
    with pytest.raises(ct.ArgumentError, match="these positions do not tell"):
        ct.identify(four_bar, ["pin.at_b.xyz", "coupler.at.rpy"], closed)


# --- paths that excite the parameters


def arm_with_limits() -> ct.Model:
    m, rng = ct.Model("arm"), np.random.default_rng(3)
    for k, (axis, limits) in enumerate((("z", (-2, 1)), ("y", (0, 1.5)), ("y", None))):
        joint = ct.Revolute(axis, limits=limits, damping=0.1)
        m.add(f"link{k}", mechanisms.body(rng), joint, parent=f"link{k - 1}" if k else "ground", at=(0.3 * bool(k), 0, 0.1))
    return m


@pytest.mark.compiled
def test_excitation_keeps_its_limits_and_begins_and_ends_at_rest() -> None:
    m = arm_with_limits()
    path = ct.excitation(m, 6.0, reach=0.8, max_rate=[1.0, 2.0, 2.0], max_acceleration=5.0)
    q, v, vdot = path(np.linspace(0.0, 6.0, 2001))
    assert ((q >= [-2.0, 0.0, -0.8]) & (q <= [1.0, 1.5, 0.8])).all()
    assert (np.abs(v) <= [1.0, 2.0, 2.0]).all()
    assert (np.abs(vdot) <= 5.0).all()
    assert np.abs(v).max() > 0.7  # and makes use of them
    np.testing.assert_allclose([v[0], vdot[0], v[-1], vdot[-1]], 0.0, atol=1e-12)
    np.testing.assert_allclose(q[0], q[-1], atol=1e-12)
    np.testing.assert_allclose(np.gradient(q, 0.003, axis=0)[5:-5], v[5:-5], atol=1e-3)
    np.testing.assert_allclose(np.gradient(v, 0.003, axis=0)[5:-5], vdot[5:-5], atol=1e-3)


def test_excitation_keeps_to_the_velocities_of_joints() -> None:
    m = ct.Model("arm")
    m.add("upper", ct.rod(1.0, mass=2.0), ct.Revolute("y", velocity=0.5))
    m.add("lower", ct.rod(1.0, mass=3.0), ct.Revolute("y"), parent="upper", at=(1, 0, 0))
    v = ct.excitation(m, 4.0, starts=1)(np.linspace(0.0, 4.0, 400))[1]
    assert 0.3 < np.abs(v[:, 0]).max() <= 0.5 < np.abs(v[:, 1]).max()


@pytest.mark.compiled
def test_excitation_has_a_lower_condition_number_than_random_series_and_is_the_same_again() -> None:
    m = arm_with_limits()
    path = ct.excitation(m, 6.0, max_rate=2.0)
    base = ct.base_parameters(m)
    rng, t = np.random.default_rng(0), np.linspace(0.0, 6.0, 200)

    def condition(path: ct.Path) -> float:
        W = base.regressor(*path(t))[:, :, list(base.columns)].reshape(-1, base.number)
        return float(np.linalg.cond(W / np.linalg.norm(W, axis=0)))

    def random() -> ct.Path:
        shape = np.abs([path.cosines, path.sines]).mean(axis=1)
        a, b = rng.normal(size=(2, 5, 3)) * shape[:, None]
        return ct.FourierPath(path.center, a, b, 6.0, 0.0)

    assert condition(path) < 0.5 * min(condition(random()) for _ in range(20))
    np.testing.assert_array_equal(ct.excitation(m, 6.0, max_rate=2.0).cosines, path.cosines)


@pytest.mark.compiled
def test_an_arm_on_its_excitation_path_gives_parameters_within_their_bounds() -> None:
    m = EXAMPLES["arm"]()
    true, rng = m.with_values(OTHER), np.random.default_rng(4)
    path = ct.excitation(m, 8.0, max_rate=2.5, starts=1)
    states = path(np.linspace(0.0, 8.0, 401))
    tau = ct.inverse_dynamics(true)(*states) + 0.05 * rng.normal(size=(401, 7))
    within(ct.identify(m, "base", *states, tau), ct.base_parameters(true).values)


def test_excitation_refuses_what_it_cannot_move() -> None:
    for m, options, error, message in [
        (EXAMPLES["four-bar"](), {}, ct.ModelError, "has loops"),
        (EXAMPLES["top"](), {}, ct.ModelError, "are not plain numbers"),
        (EXAMPLES["arm"](), {"harmonics": 1}, ct.ArgumentError, "give 2 or more"),
        (EXAMPLES["arm"](), {"max_rate": [1.0, 2.0]}, ct.ArgumentError, r"max_rate = \[1.0, 2.0\]; give a number above 0, or 7"),
        (EXAMPLES["arm"](), {"reach": -1.0}, ct.ArgumentError, "reach = -1.0"),
        (EXAMPLES["arm"](), {"starts": 0}, ct.ArgumentError, "starts = 0"),
    ]:
        with pytest.raises(error, match=message):
            ct.excitation(m, 5.0, **options)
    with pytest.raises(ct.ArgumentError, match="duration = 0 is not positive"):
        ct.excitation(EXAMPLES["arm"](), 0.0)
