"""Models that are put together and taken apart move as those that are built in one go."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import mechanisms

import catena as ct
from catena import examples
from catena.scalars.expression import Named

pytestmark = [pytest.mark.quick, pytest.mark.evaluated]


def arm(force: bool = True) -> ct.Model:
    m = ct.Model("arm")
    reach = m.parameter("reach", 0.4)
    m.add("upper", ct.rod(reach, mass=2.0), ct.Revolute("y", damping=0.3))
    m.add("ball", ct.sphere(0.05, mass=0.4), ct.Spherical(), parent="upper", at=(0.1, 0.2, 0))
    m.add("lower", ct.rod(0.3, mass=1.0), ct.Revolute("y", effort=9.0, velocity=3.0), parent="upper", at=(reach, 0, 0))
    if force:
        m.add_force("brake", lambda t, q, v: -0.2 * reach * v + 0.1 * np.sin(t) * np.concatenate([q[:1], q[2:5], q[5:]]))
        m.add_force("wind", lambda t, q, v: np.array([0.3 * q[0], 0.1 * v[-1], t]), body="lower", point=(0.1, 0, 0))
    m.home = m.integrate(m.neutral(), 0.1 * np.arange(m.nv))
    return m


def gripper(force: bool = True) -> ct.Model:
    """A slide that closes a four-bar finger, with a spring, a coupling, a parameter, an actuator and a force."""
    m = ct.Model("gripper")
    width = m.parameter("width", 0.05)
    m.add("palm", ct.box(0.04, 0.1, 0.02, mass=0.3), ct.Fixed(), at=ct.Pose((0, 0, 0.01), rpy=(0, 0.2, 0)))
    m.add("crank", ct.rod(0.06, mass=0.05), ct.Revolute("y", damping=0.01), parent="palm", at=(0, 0.03, 0))
    m.add("coupler", ct.rod(0.08, mass=0.04), ct.Revolute("y"), parent="crank", at=(0.06, 0, 0))
    m.add("rocker", ct.rod(0.07, mass=0.05), ct.Revolute("y"), at=(width, 0.03, 0.02))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(0.08, 0, 0), at_b=(0.07, 0, 0))
    m.add("knob", ct.cylinder(0.02, 0.01, mass=0.02), ct.Revolute("z"), at=(0, 0, 0.03))
    m.couple("gear", {"knob": 1.0, "crank": -2.0}, offset=0.1)
    m.add_spring("coil", "ground", "rocker", at_a=(0.01, 0, 0.1), at_b=(width, 0, 0), stiffness=20.0, damping=0.1, length=0.03)
    m.add_actuator("servo", "crank", kp=2.0, kv=0.1, force_limits=(-1, 1))
    if force:
        m.add_force("friction", lambda t, q, v: -0.01 * v - width * np.array([q[0], 0.0, 0.0, t]))
    m.home = m.assemble(crank=1.2)
    return m


PLACE = ct.Pose((0.3, 0.01, -0.02), rpy=(0.1, -0.3, 0.4))


def by_hand() -> ct.Model:
    """The arm and the gripper, body by body."""
    m = arm(force=False)
    reach, width = Named("reach", (), 0.4), m.parameter("g_width", 0.05)
    m.add("g_palm", ct.box(0.04, 0.1, 0.02, mass=0.3), ct.Fixed(), parent="lower", at=PLACE @ ct.Pose((0, 0, 0.01), rpy=(0, 0.2, 0)))
    m.add("g_crank", ct.rod(0.06, mass=0.05), ct.Revolute("y", damping=0.01), parent="g_palm", at=(0, 0.03, 0))
    m.add("g_coupler", ct.rod(0.08, mass=0.04), ct.Revolute("y"), parent="g_crank", at=(0.06, 0, 0))
    m.add("g_rocker", ct.rod(0.07, mass=0.05), ct.Revolute("y"), parent="lower", at=PLACE @ ct.Pose((width, 0.03, 0.02)))
    m.close("g_pin", ct.Revolute("y"), "g_coupler", "g_rocker", at_a=(0.08, 0, 0), at_b=(0.07, 0, 0))
    m.add("g_knob", ct.cylinder(0.02, 0.01, mass=0.02), ct.Revolute("z"), parent="lower", at=PLACE @ ct.Pose((0, 0, 0.03)))
    m.couple("g_gear", {"g_knob": 1.0, "g_crank": -2.0}, offset=0.1)
    fixed = PLACE.p + PLACE.R @ np.array([0.01, 0, 0.1])
    m.add_spring("g_coil", "lower", "g_rocker", at_a=fixed, at_b=(width, 0, 0), stiffness=20.0, damping=0.1, length=0.03)
    m.add_actuator("g_servo", "g_crank", kp=2.0, kv=0.1, force_limits=(-1, 1))

    def forces(t, q, v):
        own = -0.2 * reach * v[:5] + 0.1 * np.sin(t) * np.concatenate([q[:1], q[2:5], q[5:6]])
        return np.concatenate([own, -0.01 * v[5:] - width * np.array([q[6], 0.0, 0.0, t])])

    m.add_force("all", forces)
    m.add_force("wind", lambda t, q, v: np.array([0.3 * q[0], 0.1 * v[4], t]), body="lower", point=(0.1, 0, 0))
    m.home = np.concatenate([arm().home, gripper().home])
    return m


def whole() -> ct.Model:
    m = arm()
    m.attach(gripper(), to="lower", at=PLACE, prefix="g_")
    return m


def state(m: ct.Model, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A state that closes the loops."""
    rng = np.random.default_rng(seed)
    q = m.assemble(m.integrate(m.search_start(), 0.05 * rng.standard_normal(m.nv)))
    return q, m.project_velocity(q, rng.standard_normal(m.nv)), rng.standard_normal(m.nv)


def assert_same_dynamics(a: ct.Model, b: ct.Model, tolerance: float = 1e-13) -> None:
    assert (a.q_names, a.v_names, a.body_names) == (b.q_names, b.v_names, b.body_names)
    q, v, tau = state(a)
    before = (0.7,) if a.time_dependent else ()
    for make in (ct.forward_dynamics, ct.energy, ct.poses, ct.mass_matrix):
        kernels = make(a), make(b)
        arguments = {"t": 0.7, "q": q, "v": v, "tau": tau}
        found = [kernel(*(arguments[port.name] for port in kernel.inputs)) for kernel in kernels]
        for x, y in zip(np.atleast_1d(found[0]), np.atleast_1d(found[1]), strict=True):
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * np.abs(y).max(), err_msg=make.__name__)
    assert a.time_dependent == bool(before) == b.time_dependent


def test_an_attached_model_is_the_model_built_in_one_go() -> None:
    assert_same_dynamics(whole(), by_hand(), 1e-12)
    a, b = whole(), by_hand()
    np.testing.assert_allclose(a.home, b.home, atol=1e-15)
    assert a.actuators == b.actuators
    assert a.couplings == b.couplings


def test_numbers_of_an_attached_model_follow_its_parameters() -> None:
    values = {"g_width": 0.055, "reach": 0.45}
    assert_same_dynamics(whole().with_values(values), by_hand().with_values(values), 1e-12)
    a, b = (ct.mass_matrix(m, parameters=("g_width", "reach")) for m in (whole(), by_hand()))
    q = state(whole())[0]
    np.testing.assert_allclose(a(q, g_width=0.056, reach=0.3), b(q, g_width=0.056, reach=0.3), rtol=1e-12, atol=1e-14)


def test_functions_take_the_coordinates_of_their_own_model_whatever_is_added() -> None:
    m = arm()
    alone = ct.forward_dynamics(m)
    q, v, tau = state(m)
    m.attach(arm(), prefix="second_")
    m.add("third", ct.rod(1.0, mass=1.0), ct.Revolute("z"))
    other, rates, forces = state(arm(), 1)
    joined = (np.concatenate(x) for x in ((q, other, [0.2]), (v, rates, [0.1]), (tau, forces, [0.0])))
    together = ct.forward_dynamics(m)(0.3, *joined)
    np.testing.assert_allclose(together[:5], alone(0.3, q, v, tau), rtol=1e-12)
    np.testing.assert_allclose(together[5:10], alone(0.3, other, rates, forces), rtol=1e-12)


def test_functions_with_parameters_follow_those_of_their_own_model() -> None:
    m = arm()
    m.attach(arm(), prefix="second_")
    q, v, tau = state(arm())
    both = (np.concatenate([x, x]) for x in (q, v, tau))
    changed = ct.forward_dynamics(m, parameters=("reach", "second_reach"))(0.3, *both, reach=0.5, second_reach=0.7)
    for part, reach in ((changed[:5], 0.5), (changed[5:], 0.7)):
        np.testing.assert_allclose(part, ct.forward_dynamics(arm().with_values({"reach": reach}))(0.3, q, v, tau), rtol=1e-12)


def test_forces_marked_python_take_their_own_coordinates() -> None:
    m, n = ct.Model("first"), ct.Model("second")
    for model in (m, n):
        model.add("a", ct.rod(0.3, mass=1.0), ct.Revolute("y"))
        model.add("b", ct.rod(0.3, mass=1.0), ct.Revolute("y"), parent="a", at=(0.3, 0, 0))
        model.add_force("push", ct.python(lambda t, q, v: [0.5 if q[0] < 0.1 else -float(v[1]), float(q[1])]))
    run = ct.simulate(n, [0.0, 0.3], until=0.2, step=0.01, integrator="rk4")
    m.attach(n, prefix="n_")
    both = ct.simulate(m, [0.2, 0.1, 0.0, 0.3], until=0.2, step=0.01, integrator="rk4")
    np.testing.assert_allclose(both.q[:, 2:], run.q, atol=1e-12)


def test_energy_is_additive() -> None:
    a, b = arm(force=False), gripper(force=False)
    parts = [(m, *state(m)[:2]) for m in (a, b)]
    total = sum(np.array(ct.energy(m)(q, v)) for m, q, v in parts)
    a.attach(b, prefix="g_")  # on the ground, in its own place
    q, v = (np.concatenate(x) for x in zip(*((q, v) for _, q, v in parts), strict=True))
    np.testing.assert_allclose(ct.energy(a)(q, v), total, rtol=1e-13)


def test_a_part_that_is_removed_and_attached_again_leaves_the_model_as_it_was() -> None:
    m = whole()
    part, rest = m.submodel(["g_palm", "g_rocker", "g_knob"]), m.copy()
    rest.remove("g_palm", "g_rocker", "g_knob")
    assert rest.body_names == ("upper", "ball", "lower")
    assert part.actuators
    assert part.loops
    assert part.couplings
    assert part.springs
    assert [force.name for force in part.parts.forces.values()] == ["g_friction"]
    rest.attach(part, to="lower", shared=("reach", "g_width"))
    assert_same_dynamics(rest, m, 1e-14)
    np.testing.assert_array_equal(rest.home, m.home)


def test_forces_that_depend_on_what_is_removed_go_with_it() -> None:
    m = arm()
    m.remove("lower")
    assert [force.name for force in m.forces] == ["brake"]  # of which the rest has nothing to do with the forearm
    assert "remove: force 'wind' was left out" in m.notes
    m = whole()
    m.remove("g_crank")
    assert not m.loops
    assert not m.couplings
    assert not m.actuators
    assert "g_knob" in m.q_names
    assert {note for note in m.notes if "'g_pin'" in note} == {"remove: loop 'g_pin' was left out"}
    m.tree()


def test_a_locked_joint_is_a_fixed_one() -> None:
    m, n = arm(), ct.Model("arm")
    turn = np.array([0.9, 0.1, -0.3, 0.2]) / np.linalg.norm([0.9, 0.1, -0.3, 0.2])
    m.lock(upper=0.4, ball=turn)
    n.add("upper", ct.rod(0.4, mass=2.0), ct.Fixed(), at=ct.Pose(rpy=(0, 0.4, 0)))
    n.add("ball", ct.sphere(0.05, mass=0.4), ct.Fixed(), parent="upper", at=ct.Pose((0.1, 0.2, 0), quat=turn))
    n.add("lower", ct.rod(0.3, mass=1.0), ct.Revolute("y"), parent="upper", at=(0.4, 0, 0))
    n.add_force("brake", lambda t, q, v: -0.2 * 0.4 * v + 0.1 * np.sin(t) * q)
    n.add_force("wind", lambda t, q, v: np.array([0.3 * 0.4, 0.1 * v[0], t]), body="lower", point=(0.1, 0, 0))
    n.home = m.home
    assert_same_dynamics(m, n, 1e-12)


@pytest.mark.parametrize("name", ["revolute", "prismatic", "helical", "cylindrical", "universal", "planar", "spherical", "free"])
def test_every_joint_can_be_locked(name: str) -> None:
    m = examples.gallery()
    body = next(link.name for link in m.links if link.joint.kind == name)
    q = m.random(3)
    at = next(at_q for link, at_q, _ in m.slices() if link.name == body)
    there = ct.poses(m)(q)
    m.lock({body: q[at]})
    rest = np.delete(q, np.arange(at.start, at.stop))
    np.testing.assert_allclose(ct.poses(m)(rest), there, atol=1e-14)


def test_a_locked_joint_holds_its_loops_and_couplings() -> None:
    m = gripper()
    q = m.assemble(crank=1.1)
    held = m.copy()
    held.lock(knob=q[3])
    held.home = q[:3]
    assert held.couplings[0].coefficients == (("crank", -2.0),)
    assert held.couplings[0].offset == pytest.approx(0.1 - q[3])
    np.testing.assert_allclose(held.assemble(q[:3]), q[:3], atol=1e-9)
    held.lock(crank=q[0], coupler=q[1], rocker=q[2])
    assert not held.has_loops
    assert held.nv == 0
    assert any("coupling 'gear' holds by the locked joints" in note for note in held.notes)
    apart = {"crank": 0.0, "coupler": 0.0, "rocker": 0.0}
    for wrong, told in (({"knob": 0.0, "crank": 1.0}, "coupling 'gear' is off by 2.1"), (apart, "loop 'pin'")):
        with pytest.raises(ct.ModelError, match=told):
            m.copy().lock(wrong)


def test_placements_of_locked_joints_follow_parameters() -> None:
    m = arm(force=False)
    m.lock(lower=0.3)
    longer = m.with_values({"reach": 0.7})
    np.testing.assert_allclose(longer.links[2].at.p, (0.7, 0, 0), atol=1e-15)
    np.testing.assert_allclose(longer.links[2].at.R, ct.Pose(rpy=(0, 0.3, 0)).R, atol=1e-15)


def test_names_change_wherever_they_are() -> None:
    m = whole()
    renamed = m.copy()
    for old, new in (("g_crank", "driver"), ("lower", "forearm"), ("g_gear", "mesh"), ("g_width", "gap"), ("wind", "gust")):
        renamed.rename(old, new)
    assert renamed.q_names == tuple({"g_crank": "driver", "lower": "forearm"}.get(name, name) for name in m.q_names)
    assert dict(renamed.couplings[0].coefficients) == {"g_knob": 1.0, "driver": -2.0}
    assert renamed.parameters()["mesh.driver"].value == -2.0
    assert renamed.parameters()["g_rocker.at.xyz"].follows == "gap"
    assert renamed.actuators[0].coefficients == (("driver", 1.0),)
    q, v, tau = state(m)
    np.testing.assert_allclose(ct.forward_dynamics(renamed)(0.3, q, v, tau), ct.forward_dynamics(m)(0.3, q, v, tau), rtol=1e-12, atol=1e-12)
    wider = [ct.forward_dynamics(x.with_values({name: 0.052})) for x, name in ((renamed, "gap"), (m, "g_width"))]
    q = m.with_values({"g_width": 0.052}).assemble(q)
    v = m.with_values({"g_width": 0.052}).project_velocity(q)
    np.testing.assert_allclose(wider[0](0.3, q, v, tau), wider[1](0.3, q, v, tau), rtol=1e-12, atol=1e-12)
    taken = ("lower", "upper", "body is named 'upper' already"), ("g_pin", "g_gear", "coupling 'g_gear' is there")
    for old, new, told in (*taken, ("x", "y", "nothing named 'x'")):
        with pytest.raises(ct.ModelError, match=told):
            m.rename(old, new)


@pytest.mark.parametrize("make", [arm, gripper, whole])
@pytest.mark.parametrize("factor", [(2.5, None), (0.2, 0.3)])
def test_a_scaled_model_moves_alike(make, factor) -> None:
    m = make()
    length, mass = factor
    big = m.copy()
    big.scale(length, mass)
    mass = length**3 if mass is None else mass
    time = np.sqrt(length)
    q, v, tau = state(m)
    Q = np.array([length if unit == "m" else 1.0 for unit in m.q_units])
    V = np.array([length if unit == "m/s" else 1.0 for unit in m.v_units])
    before = [(0.7,), (0.7 * time,)] if m.time_dependent else [(), ()]
    vdot = ct.forward_dynamics(m)(*before[0], q, v, tau)
    scaled = ct.forward_dynamics(big)(*before[1], q * Q, v * V / time, tau * mass * length / V)
    np.testing.assert_allclose(scaled, vdot * V / time**2, rtol=1e-10, atol=1e-10 * np.abs(vdot).max())
    np.testing.assert_allclose(ct.energy(big)(q * Q, v * V / time), np.array(ct.energy(m)(q, v)) * mass * length, rtol=1e-11)
    if m.actuators:
        u, act = [0.4], (ct.actuator_forces(m), ct.actuator_forces(big))
        np.testing.assert_allclose(act[1](q * Q, v * V / time, u), act[0](q, v, u) * mass * length / V, rtol=1e-12)
    if m.parts.own:
        name = next(iter(m.parts.own))
        other = {name: 1.1 * m.parts.own[name]}
        first, second = (x.with_values(other).links[-1].at.p for x in (m, big))
        np.testing.assert_allclose(second, length * first, rtol=1e-14)


@pytest.mark.compiled
def test_the_period_of_a_scaled_pendulum_goes_with_the_root_of_its_length() -> None:
    m = examples.double_pendulum()
    slow = m.copy()
    slow.scale(9.0)
    runs = ct.simulate(m, [0.5, 0.2], until=1.0, step=1e-3), ct.simulate(slow, [0.5, 0.2], until=3.0, step=3e-3)
    np.testing.assert_allclose(runs[1].q[-1], runs[0].q[-1], rtol=1e-9)


def test_scaled_joints_of_every_kind_move_alike() -> None:
    m = examples.gallery()
    big = m.copy()
    big.scale(3.0)
    q, rng = m.random(5), np.random.default_rng(1)
    v, tau = rng.standard_normal((2, m.nv))
    units = [np.array([3.0 if unit.startswith("m") else 1.0 for unit in names]) for names in (m.q_units, m.v_units)]
    vdot = ct.forward_dynamics(m)(q, v, tau)
    scaled = ct.forward_dynamics(big)(q * units[0], v * units[1] / np.sqrt(3.0), tau * 81.0 / units[1])
    np.testing.assert_allclose(scaled, vdot * units[1] / 3.0, rtol=1e-9, atol=1e-9)


def featured(rng: np.random.Generator) -> ct.Model:
    """A random tree of joints with all options, with what else may be in a model, each with even chances."""
    m = mechanisms.tree(rng, int(rng.integers(2, 5)), options=True)
    first, last = m.body_names[0], m.body_names[-1]
    moves: tuple[ct.Driven, ...] = (
        ct.Driven(ct.Cylindrical("z"), ct.Harmonic(offset=(0.3, 0.1), amplitude=(0.2, 0.4), frequency=3.0, phase=(0.1, 0.2))),
        ct.Driven(ct.Planar("x"), ct.Harmonic(rate=0.3, offset=(0.1, 0.2, 0.3))),
        ct.Driven(ct.Spherical(), lambda t: [np.cos(t), np.sin(t), 0.3 * t, 0.2]),
        ct.Driven(ct.Universal("x", "y"), lambda t: [0.3 * t, np.sin(t)]),
    )

    def arm(t: Any, position: Any, velocity: Any) -> Any:
        return -0.3 * velocity + np.array([np.cos(t), 0.2 * position[0], 0.0])

    def limited(name: str) -> None:
        m.add(name, mechanisms.body(rng), ct.Prismatic("z", limits=(-0.01, 0.01), friction=0.3), parent=last)
        m.add(f"{name} hinge", mechanisms.body(rng), ct.Revolute("z", limits=(-0.1, 0.1), friction=0.3), parent=name)
        m.couple("rack", {name: 1.0, f"{name} hinge": 2.0}, 0.1)

    features: tuple[Any, ...] = (
        lambda: m.add("driven", mechanisms.body(rng), moves[rng.integers(len(moves))], parent=last),
        lambda: limited("stopped"),
        lambda: m.add_spring("coil", first, "ground", (0.1, 0.2, 0.3), (1, 1, 1), stiffness=30.0, damping=0.4, length=0.3, cubic=2.0),
        lambda: m.add_spring("cable", last, "ground", (0.1, 0.2, 0.3), (2, 1, 1), stiffness=30.0, damping=0.4, length=0.3, slack=True),
        lambda: m.add_bushing("rubber", "ground", last, (0.1, 0, 0), stiffness=(3, 4, 5), turning_stiffness=(1, 2, 3), turning_damping=0.1),
        lambda: m.add_contact("floor", last, ct.Geometry("sphere", (0.3,)), height=0.4, stiction=0.2, exponent=1.5),
        lambda: m.add_contact("wall", first, points=[(0.1, 0, 0)], normal=(1, 0, 0), height=3.0),
        lambda: m.add_point_force("arm", last, (0.1, 0.2, 0), arm),
        lambda: m.add_line_force("line", "ground", last, lambda t, length, rate: 3.0 * length - rate + t, (3, 0, 0)),
    )
    for feature in features:
        if rng.random() < 0.5:
            feature()
    return m


@pytest.mark.parametrize("seed", range(12))
def test_random_models_move_alike_at_another_scale(seed: int) -> None:
    """Accelerations, energies, joint forces and each part of them, at corresponding times and states."""
    rng = np.random.default_rng(seed)
    m = featured(rng)
    length, mass = rng.choice([0.1, 0.5, 4.0, 20.0]), rng.choice([0.01, 0.3, 5.0])
    big = m.copy()
    big.scale(length, mass)
    time, work = np.sqrt(length), mass * length
    Q, V = (np.array([length if unit == "m" else 1.0 for unit in units]) for units in (m.q_units, [x.split("/")[0] for x in m.v_units]))
    q, v, tau = mechanisms.state(m, rng)
    if m.has_loops:
        q = m.at(0.7).assemble(guess=q)
        v = m.at(0.7).project_velocity(q, v)
    small, large = {"t": 0.7, "q": q, "v": v, "tau": tau}, {"t": 0.7 * time, "q": q * Q, "v": v * V / time, "tau": tau * work / V}
    laws: dict[Any, Any] = {
        ct.forward_dynamics: V / time**2, ct.gravity_force: work / V, ct.coriolis_force: work / V, ct.passive_force: work / V,
        ct.coriolis_matrix: work / np.outer(V, V) * time, ct.mass_matrix: work / np.outer(V, V) * time**2, ct.energy: work,
    }  # fmt: skip
    for make, factor in laws.items():
        kernels = make(m), make(big)
        ours, theirs = (np.asarray(k(*(at[port.name] for port in k.inputs))) for k, at in zip(kernels, (small, large), strict=True))
        assert np.abs(theirs / factor - ours).max(initial=0.0) <= 1e-9 * np.abs(ours).max(initial=1.0), make.__name__


def test_speeds_of_friction_are_two_where_slides_and_hinges_rub(tmp_path: Path) -> None:
    """They scale as rates of angles and of displacements do; a model of one kind keeps one; files, parameters and refusals know of two."""
    m = ct.Model("rubbing", friction_speed=0.02)
    m.add("slide", ct.point_mass(1.0), ct.Prismatic("x", friction=0.3))
    alone = m.copy()
    m.add("hinge", ct.rod(1.0, mass=1.0), ct.Revolute("y", friction=0.2), parent="slide")
    for one in (m, alone):
        one.scale(4.0)
    assert (m.friction_speed, alone.friction_speed) == (pytest.approx((0.01, 0.04)), pytest.approx(0.04))
    m.save(tmp_path / "rubbing.toml")
    same, other = ct.load(tmp_path / "rubbing.toml"), m.with_values({"friction_speed": [0.1, 0.4]})
    assert (same.friction_speed, other.friction_speed) == (m.friction_speed, (0.1, 0.4))
    q, v = np.zeros(2), np.array([0.03, -0.02])
    force = ct.passive_force(m, parameters="friction_speed")(q, v, friction_speed=[0.1, 0.4])
    np.testing.assert_allclose(force, ct.passive_force(other)(q, v), rtol=1e-13)
    expected = np.array(m.links[0].joint.friction + m.links[1].joint.friction) * v / np.hypot(v, [0.4, 0.1])
    np.testing.assert_allclose(force, expected, rtol=1e-13)
    for bad, says in (((0.1, 0.0), "not above 0"), ((1.0, 2.0, 3.0), "has shape"), ("fast", "not made of real numbers")):
        with pytest.raises(ct.ModelError, match=says):
            ct.Model(friction_speed=bad)


def test_driven_and_custom_joints_compose() -> None:
    def crane() -> ct.Model:
        m = ct.Model("crane")
        lift = m.parameter("lift", 0.2)
        m.add("trolley", ct.point_mass(5.0), ct.Driven(ct.Prismatic("x"), lambda t: lift * np.sin(2.0 * t)))
        cam = ct.Custom(lambda q: (np.eye(3), np.array([q[0], lift * np.sin(q[0]), 0.0])))
        m.add("cam", ct.point_mass(1.0, at=(0, 0, -1)), cam, parent="trolley")
        m.add("load", ct.point_mass(2.0, at=(0, 0, -0.5)), ct.Revolute("y"), parent="cam")
        return m

    m = crane()
    m.attach(crane(), prefix="b_")
    q, v, tau = np.array([0.2, 0.3]), np.array([0.1, -0.4]), np.array([0.5, 0.6])
    expected = ct.forward_dynamics(crane())(0.3, q, v, tau)
    np.testing.assert_allclose(ct.forward_dynamics(m)(0.3, *(np.tile(x, 2) for x in (q, v, tau))), np.tile(expected, 2), rtol=1e-12)
    changed = m.with_values({"b_lift": 0.5})
    other = ct.forward_dynamics(crane().with_values({"lift": 0.5}))(0.3, q, v, tau)
    np.testing.assert_allclose(ct.forward_dynamics(changed)(0.3, *(np.tile(x, 2) for x in (q, v, tau))), [*expected, *other], rtol=1e-12)
    big = crane()
    big.scale(4.0)
    np.testing.assert_allclose(ct.forward_dynamics(big)(0.6, q, v / 2.0, tau * 256.0), expected / 4.0, rtol=1e-10)


def test_connections_compose() -> None:
    def linkage() -> ct.Model:
        m = ct.Model("linkage")
        width = m.parameter("width", 1.0)
        for name, length in (("crank", 0.3), ("coupler", 1.0), ("rocker", 0.6)):
            m.add(name, ct.rod(length, mass=5 * length))
        m.connect("ground", "crank", ct.Revolute("y"))
        m.connect("crank", "coupler", ct.Revolute("y"), at_a=(0.3, 0, 0))
        m.connect("coupler", "rocker", ct.Revolute("y"), at_a=(1, 0, 0), at_b=(0.6, 0, 0))
        m.connect("rocker", "ground", ct.Revolute("y"), at_b=(width, 0, 0))
        m.home = m.assemble([1.0, -0.5, 1.0])
        return m

    m = ct.Model("two")
    for prefix in ("a_", "b_"):
        m.attach(linkage(), at=(0, 0.5, 0), prefix=prefix)
    assert [loop.name for loop in m.loops] == ["a_rocker-ground", "b_rocker-ground"]
    one = linkage()
    q, v, tau = state(one)
    expected = ct.forward_dynamics(one)(q, v, tau)
    own = [one.q_names.index(name[2:]) for name in m.q_names]  # loose bodies follow breadth first
    np.testing.assert_allclose(ct.forward_dynamics(m)(q[own], v[own], tau[own]), expected[own], rtol=1e-10, atol=1e-11)
    part = m.submodel("b_crank")
    assert part.q_names == ("b_crank", "b_coupler", "b_rocker")
    assert part.parts.own.keys() == {"b_width"}
    np.testing.assert_allclose(ct.forward_dynamics(part)(q, v, tau), expected, rtol=1e-10, atol=1e-11)
    one.lock(crank=q[0])
    assert one.mobility().freedom == 0
    np.testing.assert_allclose(one.assemble(q[1:]), q[1:], atol=1e-9)


def test_a_base_of_its_own_moves_by_a_joint() -> None:
    m, n = (arm(force=False) for _ in range(2))
    m.attach(gripper(), to="lower", at=PLACE, prefix="g_", joint=ct.Revolute("x", damping=0.1))
    assert m.q_names[6] == "g_base"
    n.attach(gripper(), to="lower", at=PLACE @ ct.Pose(rpy=(0.3, 0, 0)), prefix="g_")
    m.lock(g_base=0.3)
    m.home = n.home
    q, v, tau = state(n)
    np.testing.assert_allclose(ct.forward_dynamics(m)(0.1, q, v, tau), ct.forward_dynamics(n)(0.1, q, v, tau), rtol=1e-9, atol=1e-9)


def test_places_follow_parameters_and_shared_ones_are_one() -> None:
    m = ct.Model("legs")
    hip = m.parameter("hip", 0.1)
    m.add("body", ct.box(0.4, 0.2, 0.1, mass=5.0), ct.Free())
    leg = ct.Model("leg")
    length = leg.parameter("length", 0.3)
    leg.add("thigh", ct.rod(length, mass=1.0, axis="-z"), ct.Revolute("y"))
    leg.add("shank", ct.rod(length, mass=0.5, axis="-z"), ct.Revolute("y"), parent="thigh", at=(0, 0, -length))
    for side, sign in (("left", 1.0), ("right", -1.0)):
        m.attach(leg, to="body", at=(0, sign * hip, -0.05), prefix=f"{side}_", shared="length")
    assert m.parts.own.keys() == {"hip", "length"}
    wide = m.with_values({"hip": 0.15, "length": 0.35})
    places = {link.name: tuple(link.at.p) for link in wide.links}
    assert places["left_thigh"] == (0, 0.15, -0.05)
    assert places["right_thigh"] == (0, -0.15, -0.05)
    assert places["left_shank"] == places["right_shank"] == (0, 0, -0.35)


def test_a_model_that_was_put_together_goes_through_a_file(tmp_path) -> None:
    m = arm(force=False)
    m.attach(gripper(force=False), to="lower", at=PLACE, prefix="g_")
    m.save(tmp_path / "robot.toml")
    again = ct.load(tmp_path / "robot.toml")
    assert_same_dynamics(again, m, 1e-12)
    assert again.actuators == m.actuators
    assert again.parts.own.keys() == m.parts.own.keys()
    assert_same_dynamics(again.with_values({"g_width": 0.055}), m.with_values({"g_width": 0.055}), 1e-12)


@pytest.mark.compiled
def test_a_gripper_on_an_arm_moves_with_its_loops_closed() -> None:
    m = whole()
    run = ct.simulate(m, m.home, until=0.5)
    assert run.loop_error.max() < 1e-9
    assert np.ptp(run["g_crank"]) > 0.01


def test_the_model_that_is_attached_does_not_change_and_frozen_models_refuse() -> None:
    g, m = gripper(), arm()
    before = g.frozen()
    m.attach(g, to="lower", prefix="g_")
    g.add("more", ct.point_mass(1.0), ct.Revolute("x"))
    assert "g_more" not in m.body_names
    assert before.body_names == gripper().body_names
    for change in ("attach", "lock", "remove", "rename", "scale", "add_actuator"):
        with pytest.raises(ct.ModelError, match="frozen"):
            getattr(m.frozen(), change)
    assert m.frozen().copy().body_names == m.body_names == copy.copy(m).body_names


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({}, "body 'upper' already; give a prefix, such as prefix='left_'"),
        ({"prefix": 3}, "prefix 3 is not text"),
        ({"prefix": "a", "to": "nobody"}, "'nobody', which is not in model 'arm'"),
        ({"prefix": "a", "at": "here"}, "attach: at"),
        ({"prefix": "a", "joint": 1.0}, "1.0 is not a joint"),
        ({"prefix": "a/"}, "parameter 'a/reach' is not a name; give a prefix of letters"),
        ({"prefix": "a", "shared": "x"}, "shared names 'x', which is no parameter of model 'arm'"),
    ],
)
def test_what_cannot_be_attached_is_told(wrong, told) -> None:
    with pytest.raises(ct.ModelError, match=told):
        arm().attach(arm(), **wrong)


def test_what_cannot_be_done_is_told() -> None:
    m = arm()
    m.add("planar", ct.point_mass(1.0), ct.Planar("z"))
    with pytest.raises(ct.ModelError, match="one of several coordinates of its joint; lock all of them, planar="):
        m.lock({"planar.x": 0.1})
    several, still = {"upper": [1.0, 2.0]}, {"ball": [0, 0, 0, 0]}
    names = (["upper"], "a mapping; give positions by the names of bodies")
    for wrong, told in (({"nobody": 1.0}, "no joint 'nobody'"), (several, "shape"), (still, "not a rotation"), names):
        with pytest.raises(ct.ModelError, match=told):
            m.lock(wrong)
    for names, told in ((("ground",), "cannot be removed"), (("nobody",), "which is not in model")):
        with pytest.raises(ct.ModelError, match=told):
            m.remove(*names)
    with pytest.raises(ct.ModelError, match="hang on different ones"):
        m.submodel(["lower", "planar"])
    with pytest.raises(ct.ModelError, match="not a model"):
        m.attach("gripper.urdf", prefix="g_")


def ball() -> ct.Model:
    """A ball that a bushing holds, above the ground."""
    m = ct.Model("ball")
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Free())
    m.add_frame("top", "ball", (0.0, 0.0, 0.1))
    m.add_contact("floor", "ball", friction=0.4)
    m.add_bushing("hold", "ground", "ball", stiffness=20.0, damping=0.3, turning_stiffness=1.0)
    m.add_line_force("cable", "ball", "ground", lambda t, length, rate: 2.0 * length, at_a=(0.0, 0.0, 0.1), at_b=(0.0, 0.0, 1.0))
    return m


def test_contacts_bushings_forces_on_points_and_frames_go_with_a_model() -> None:
    alone, two = ball(), ct.Model("two")
    for side, x in (("left_", -1.0), ("right_", 1.0)):
        two.attach(ball(), "ground", at=(x, 0.0, 0.0), prefix=side)
    assert [contact.against for contact in two.contacts] == ["ground", "ground"]
    q = np.array([0.05, 0.02, 0.099, 1.0, 0.0, 0.0, 0.0])
    v = np.array([0.3, 0.2, 0.1, 0.1, -0.2, -0.3])
    one = ct.forward_dynamics(alone)(q, v, np.zeros(6))
    both = ct.forward_dynamics(two)(np.tile(q, 2), np.tile(v, 2), np.zeros(12))
    np.testing.assert_allclose(both, np.tile(one, 2), rtol=1e-12, atol=1e-12)
    place = ct.poses(two, of="right_top")(np.tile(q, 2))
    np.testing.assert_allclose(place[:3, 3], ct.poses(alone, of="top")(q)[:3, 3] + [1.0, 0.0, 0.0], rtol=1e-14)
    two.remove("left_ball")
    assert not [thing for thing in (*two.contacts, *two.bushings, *two.point_forces, *two.frames) if thing.name.startswith("left_")]


def test_contacts_bushings_and_forces_on_points_follow_the_similarity_of_scaled_models() -> None:
    small, large = ball(), ball()
    for m in (small, large):
        m.add_point_force("drag", "ball", (0.0, 0.1, 0.0), lambda t, position, velocity, spin: -0.2 * velocity + 0.1 * spin * np.sin(t))
    large.scale(4.0)
    q = np.array([0.05, 0.0, 0.12, 1.0, 0.0, 0.0, 0.0])
    runs = [ct.simulate(m, q * [L, L, L, 1, 1, 1, 1], until=0.3 * T, rtol=1e-9) for m, L, T in ((small, 1.0, 1.0), (large, 4.0, 2.0))]
    np.testing.assert_allclose(runs[1].q[-1, :3], 4.0 * runs[0].q[-1, :3], rtol=1e-6, atol=1e-9)


def test_a_model_is_attached_to_a_frame() -> None:
    m = ct.Model("arm")
    m.add("arm", ct.rod(1.0, mass=1.0), ct.Revolute("z"))
    m.add_frame("flange", "arm", ct.Pose((1.0, 0.0, 0.0), rpy=(0.0, 0.5, 0.0)))
    other = ct.Model("tool")
    other.add("tool", ct.rod(0.2, mass=0.1), ct.Fixed())
    m.attach(other, "flange", at=(0.0, 0.0, 0.1), prefix="my_")
    expected = ct.poses(m, of="flange")([0.3]) @ ct.Pose((0.0, 0.0, 0.1)).matrix()
    np.testing.assert_allclose(ct.poses(m, of="my_tool")([0.3]), expected, atol=1e-14)
    other.add_frame("flange", "tool")
    with pytest.raises(ct.ModelError, match="has a frame 'flange' already"):
        m.attach(other, "arm")


def test_names_of_joints_go_along_with_their_bodies(tmp_path) -> None:
    """A joint has a name of its own in a file; it stays with its body when that is renamed, and when its model is attached."""
    file = tmp_path / "arm.urdf"
    file.write_text(
        "<robot name='arm'><link name='base'/><link name='upper'/><link name='lower'/>"
        "<joint name='shoulder' type='continuous'><parent link='base'/><child link='upper'/><axis xyz='0 1 0'/></joint>"
        "<joint name='elbow' type='continuous'><parent link='upper'/><child link='lower'/><axis xyz='0 1 0'/></joint></robot>"
    )
    m = ct.load(file)
    assert m.joint_names == {"upper": "shoulder", "lower": "elbow"}
    renamed = ct.load(file)
    renamed.rename("upper", "humerus")
    assert renamed.joint_names == {"humerus": "shoulder", "lower": "elbow"}
    rig = ct.Model("rig")
    rig.add("post", ct.rod(1.0, mass=1.0), ct.Fixed())
    rig.attach(m, to="post", prefix="left_")
    assert rig.joint_names == {"left_upper": "left_shoulder", "left_lower": "left_elbow"}
