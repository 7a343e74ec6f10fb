"""Friction, dampers, springs and stops that are faster than the motion: the linearly implicit step, its choice, and what is told of it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import catena as ct
from catena.examples import delta, four_bar, stewart_ups
from catena.examples.trees import gallery
from catena.formulations.joint_forces import passive_force, passive_slopes
from catena.formulations.loops.constraints import constraint_jacobian
from catena.simulation.integrators.tableaus import TABLEAUS, Tableau
from catena.simulation.run import Run, RunSettings
from catena.simulation.stiffness import fastest, fastest_decay, fastest_of_model

pytestmark = pytest.mark.evaluated


def arm(joints: int, mass: float, friction: float, **options: Any) -> ct.Model:
    """An arm whose links and frictions are half those of the links before."""
    m = ct.Model("arm", **options)
    parent = "ground"
    for i in range(joints):
        inertia = np.diag([0.1, 1.0, 1.0]) * mass * 0.5**i * 0.3**2 / 12
        joint = ct.Revolute("yx"[i % 2], friction=friction * 0.5**i)
        link = ct.Body(mass * 0.5**i, com=(0.15, 0.0, 0.0), inertia=inertia)
        m.add(f"link{i}", link, joint, parent=parent, at=(0.3 if i else 0.0, 0.0, 0.0))
        parent = f"link{i}"
    return m


def humanoid(friction: float) -> ct.Model:
    m = ct.Model("humanoid")
    m.add("pelvis", ct.box(0.3, 0.2, 0.2, mass=10.0), ct.Free())
    limbs = {
        "leg": (6, (0, 0.1, 0)), "limb": (6, (0, -0.1, 0)), "arm": (7, (0, 0.2, 0.4)), "hand": (7, (0, -0.2, 0.4)), "neck": (4, (0, 0, 1)),
    }  # fmt: skip
    for name, (count, at) in limbs.items():
        parent, place = "pelvis", at
        for i in range(count):
            joint = ct.Revolute("xyz"[i % 3], friction=friction * 0.8**i)
            m.add(f"{name}{i}", ct.box(0.08, 0.08, 0.12, mass=4.0 * 0.7**i), joint, parent=parent, at=place)
            parent, place = f"{name}{i}", (0.0, 0.0, -0.12)
    return m


def with_friction(m: ct.Model, friction: float, **options: Any) -> ct.Model:
    """Return a model with friction in its hinges."""
    made = ct.Model(m.name, gravity=m.gravity, **options)
    for link in m.links:
        kind = type(link.joint)
        joint = kind(link.joint.axis, friction=friction) if kind in (ct.Revolute, ct.Prismatic) else link.joint  # type: ignore[attr-defined]
        made.add(link.name, link.body, joint, parent=link.parent, at=link.at)
    for closure in m.loops:
        made.close(closure.name, closure.joint, closure.a, closure.b, at_a=closure.at_a, at_b=closure.at_b)
    return made


# --- the step


def test_slopes_are_the_derivatives_of_the_passive_forces() -> None:
    m = ct.Model("joints", friction_speed=0.3)
    m.add("a", ct.rod(1.0, mass=1.0), ct.Revolute("y", stiffness=3.0, damping=0.2, friction=1.5, limits=(-0.5, 0.5), stop_damping=0.7))
    m.add("b", ct.rod(1.0, mass=1.0), ct.Prismatic("x", friction=2.0, limits=(-0.1, 0.1), stop_stiffness=50.0), parent="a")
    tree, small = m.tree(), 1e-6
    for q in ([0.1, 0.02], [0.7, -0.3], [-0.9, 0.4]):
        for v in ([0.2, -0.1], [-3.0, 2.0], [0.0, 0.0]):
            found = np.array(passive_slopes(tree, np.array(q), np.array(v)), dtype=float)
            shift = np.full(2, small)
            by_position = passive_force(tree, q - shift, np.array(v)) - passive_force(tree, q + shift, np.array(v))
            by_velocity = passive_force(tree, np.array(q), v - shift) - passive_force(tree, np.array(q), v + shift)
            assert_allclose(found, np.array([by_position, by_velocity], dtype=float) / (2.0 * small), rtol=1e-6, atol=1e-6)
            bounds = np.array(passive_slopes(tree, np.array(q), np.array(v), bounds=True), dtype=float)
            assert (bounds >= found).all()


LOOPS = {
    "four-bar": (four_bar, ("coordinate-reduction", "denoc")),
    "delta": (delta, ("coordinate-reduction", "fully-recursive/joint")),
    "stewart": (stewart_ups, ("coordinate-reduction", "denoc")),
    "tree": (gallery, ("articulated-body", "composite-body", "fully-recursive/joint")),
}


@pytest.mark.parametrize(("name", "method"), [(name, method) for name, (_, methods) in LOOPS.items() for method in methods])
def test_more_armature_is_solved_like_the_dense_equations(name: str, method: str) -> None:
    m = LOOPS[name][0]()
    rng = np.random.default_rng(0)
    q = m.assemble() if m.has_loops else m.random(rng)
    armature, force = 10.0 ** rng.uniform(-3.0, 4.0, size=m.nv), rng.normal(size=m.nv)
    run = Run(RunSettings.of(m, q, None, 0.0, 1.0, 1e-3, method, "rang-angermann", None, None, (), None, 1e-8, None, None))
    run.begin()
    found = run.system.kernel("eased")(0.0, q, armature, force)
    mass = ct.mass_matrix(m)(q) + np.diag(armature)
    along = np.eye(m.nv)
    if m.has_loops:
        J = np.asarray(constraint_jacobian(m.tree(), q)[1], dtype=float)
        _, sizes, right = np.linalg.svd(J)
        along = right[int(np.count_nonzero(sizes > 1e-9 * sizes.max())) :].T
    expected = along @ np.linalg.solve(along.T @ mass @ along, along.T @ force)
    assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("loops", [False, True])
def test_steps_keep_their_order_with_passive_forces(loops: bool) -> None:
    """The linear part may be any matrix: here the bounds of fixed steps, which are not the derivatives."""
    m = with_friction(four_bar(), 5.0, friction_speed=1.0) if loops else arm(3, 1.0, 0.5, friction_speed=1.0)
    q = m.assemble(crank=1.0) if loops else np.full(3, 0.3)
    v = m.project_velocity(q, crank=4.0) if loops else np.full(3, 3.0)
    exact = ct.simulate(m, q, v, until=0.15, integrator="dop853", rtol=1e-12)
    counts = (25, 50, 100)
    errors = []
    for count in counts:
        run = ct.simulate(m, q, v, until=0.15, step=0.15 / count, integrator="rang-angermann")
        errors.append(np.abs(run.q[-1] - exact.q[-1]).max())
    assert -np.polyfit(np.log(counts), np.log(errors), 1)[0] == pytest.approx(3.0, abs=0.3), errors


def test_a_linear_part_that_costs_order_is_refused() -> None:
    good = TABLEAUS["rang-angermann"]
    w = (*good.w[:-1], (*good.w[-1][:-2], good.w[-1][-2] + 1e-6, good.w[-1][-1]))
    with pytest.raises(ct.MethodError, match=r"the coefficients of the linear part do not keep order 3"):
        Tableau(good.name, good.order, good.a, good.b, good.c, good.error, good.error_order, w=w)


# --- runs with dry friction, against SciPy's Radau


#: By the number of joints of an arm; a link turns more easily about its own axis, x.
STIFFEST = {1: "link0", 3: "link1", 6: "link5"}


@pytest.mark.parametrize("moving", [False, True], ids=["at rest", "sliding to rest"])
@pytest.mark.parametrize(
    ("joints", "mass", "friction"), [(1, 1.0, 10.0), (3, 1.0, 10.0), (3, 0.01, 0.1), (3, 1.0, 1.0), (6, 5.0, 20.0), (3, 10.0, 10.0)]
)
def test_an_arm_with_dry_friction_takes_few_steps_and_is_right(joints: int, mass: float, friction: float, moving: bool) -> None:
    m = arm(joints, mass, friction)
    q, v = (np.full(joints, 0.5), np.full(joints, 2.0)) if moving else (np.zeros(joints), np.zeros(joints))
    run = ct.simulate(m, q, v, until=1.0)
    exact = ct.simulate(m, q, v, until=1.0, integrator="scipy:Radau", rtol=1e-9, atol=1e-11)
    assert run.info["integrator"] == "rang-angermann"
    assert run.info["steps"] + run.info["rejected"] < 10_000
    assert np.abs(run.q[-1] - exact.q[-1]).max() < 1e-7
    assert np.abs(run.v[-1] - exact.v[-1]).max() < 2e-7
    assert run.info["why"].startswith(f"auto: friction of joint '{STIFFEST[joints]}' has a time constant of")


def test_stick_and_slip_under_a_load_over_time() -> None:
    """A block on a spring whose end is pulled sticks, lets go, and sticks again."""
    m = ct.Model("block", gravity=(0, 0, 0), friction_speed=1e-4)
    m.add("block", ct.point_mass(0.5), ct.Prismatic("x", friction=2.0, stiffness=200.0))
    m.add_force("pull", lambda t, q, v: [200.0 * 0.05 * t - 1.5 * v[0]])
    run = ct.simulate(m, [0.0], until=2.0)
    assert run.info["integrator"] == "rang-angermann"
    assert run.info["steps"] < 5000
    exact = ct.simulate(m, [0.0], until=2.0, integrator="scipy:Radau", rtol=1e-10, atol=1e-13, record=run.t.tolist())
    assert np.abs(run.q - exact.q).max() < 1e-8
    stuck = run.t < 2.0 / (200.0 * 0.05) * 0.9
    assert np.abs(run.q[stuck]).max() < 1e-4
    assert run.q[-1, 0] > 0.05


def test_a_humanoid_with_dry_friction() -> None:
    m = humanoid(3.0)
    rng = np.random.default_rng(1)
    q, v = m.integrate(m.neutral(), 0.3 * rng.normal(size=m.nv)), rng.normal(size=m.nv)
    run, fine = ct.simulate(m, q, v, until=0.3), ct.simulate(m, q, v, until=0.3, rtol=1e-10)
    assert run.info["integrator"] == "rang-angermann"
    assert run.info["steps"] < 10_000
    assert np.abs(m.difference(fine.q[-1], run.q[-1])).max() < 1e-6


@pytest.mark.parametrize("rate", [0.0, 3.0])
def test_a_four_bar_with_dry_friction_is_that_of_tiny_explicit_steps(rate: float) -> None:
    m = with_friction(four_bar(), 100.0)
    q = m.assemble(crank=1.0)
    v = m.project_velocity(q, crank=rate)
    run = ct.simulate(m, q, v, until=1.0)
    assert run.info["integrator"] == "rang-angermann"
    assert run.info["steps"] < 2000
    with pytest.warns(ct.StiffnessWarning, match=r"friction of joint '.*' has a time constant .*use integrator='auto' or 'rang-angermann'"):
        exact = ct.simulate(m, q, v, until=1.0, integrator="dormand-prince", rtol=1e-10)
    assert exact.info["steps"] > 5000
    assert np.abs(run.q[-1] - exact.q[-1]).max() < 1e-8
    assert ct.loop_error(m)(run.q).max() < 1e-12


def test_called_functions_and_machine_code_take_the_same_steps() -> None:
    for m in (arm(3, 1.0, 10.0), with_friction(four_bar(), 100.0)):
        q = m.assemble(crank=1.0) if m.has_loops else np.zeros(3)
        for steps in ({}, {"step": 1e-3}):
            settings: dict[str, Any] = {"until": 0.05, "integrator": "rang-angermann", **steps}
            run = ct.simulate(m, q, controller=lambda t, q, v: [1.0 + t, 0.0, 0.0], **settings)
            called = ct.simulate(m, q, controller=ct.python(lambda t, q, v: [1.0 + t, 0.0, 0.0]), **settings)
            assert run.info["steps"] == called.info["steps"]
            assert np.abs(run.q - called.q).max() < 1e-12


def test_an_arm_rests_on_its_stops() -> None:
    m = ct.Model("stops")
    options: dict[str, Any] = {"limits": (-1.0, 0.5), "stop_stiffness": 1e5, "stop_damping": 0.5, "friction": 0.05}
    m.add("upper", ct.rod(0.3, mass=0.5), ct.Revolute("y", **options))
    m.add("lower", ct.rod(0.2, mass=0.05), ct.Revolute("y", **options), parent="upper", at=(0.3, 0.0, 0.0))
    run = ct.simulate(m, [0.0, 0.0], until=1.0, rtol=3e-9)
    assert run.info["integrator"] == "rang-angermann"
    with pytest.warns(ct.StiffnessWarning):
        exact = ct.simulate(m, [0.0, 0.0], until=1.0, integrator="dormand-prince", rtol=1e-10)
    assert np.abs(run.q[-1] - exact.q[-1]).max() < 1e-8
    assert 0.5 < run.q[-1, 0] < 0.5001


# --- the choice, and what is told


@pytest.mark.parametrize("links", [2, 3, 4])
@pytest.mark.parametrize("step", [1e-3, 2e-4])
def test_light_links_that_strike_their_stops_do_not_gain_speed(links: int, step: float) -> None:
    """Steps of up to 50 time constants of the stops: one joint throws the next into its stop, which the velocities do not foresee."""
    def finger(limits: tuple[float, float] | None) -> ct.Model:
        m, length = ct.Model("finger"), 0.04
        for k in range(links):
            bone = ct.box(0.01, 0.02, length, mass=0.03, com=(0, 0, 0.5 * length))
            hinge = ct.Revolute("y", limits=limits, damping=1e-4)
            m.add(f"bone {k}", bone, hinge, parent=f"bone {k - 1}" if k else "ground", at=(0, 0, length if k else 0.0))
        return m

    m, energy = finger((-0.2, 1.6)), ct.energy(finger(None))  # of motion and gravity alone
    for seed in range(4):
        run = ct.simulate(m, np.random.default_rng(seed).uniform(-0.1, 0.0, links), until=0.5, step=step)
        total = np.sum(energy(run.q, run.v), axis=0)
        assert total.argmax() == 0
        assert (run.q[-1] > -0.201).all()


def test_rates_are_those_of_one_joint() -> None:
    m = ct.Model("disc", gravity=(0, 0, 0), friction_speed=0.02)
    disc = ct.Body(1.0, inertia=np.diag([0.006, 0.01, 0.006]))
    m.add("disc", disc, ct.Revolute("y", friction=0.4, damping=0.5, stiffness=100.0, limits=(-1, 1)))
    found = fastest_decay(m, 0.0, np.zeros(1))
    assert found is not None
    assert (found.name, found.cause) == ("disc", "friction of joint")
    assert found.rate == pytest.approx((0.4 / 0.02 + 0.5) / 0.01, rel=1e-12)
    found = fastest(m, 0.0, np.zeros(1))
    assert found is not None
    assert found.rate == pytest.approx((0.4 / 0.02 + 0.5) / 0.01, rel=1e-12)
    m = ct.Model("spring", gravity=(0, 0, 0))
    m.add("disc", disc, ct.Revolute("y", stiffness=100.0, limits=(-1, 1), stop_stiffness=1e6))
    found = fastest(m, 0.0, np.zeros(1))
    assert found is not None
    assert (found.name, found.cause) == ("disc", "the stop of joint")
    assert found.rate == pytest.approx(np.sqrt((100.0 + 1e6) / 0.01), rel=1e-12)
    assert fastest_decay(m, 0.0, np.zeros(1)) is None


def rods(driven: bool) -> ct.Model:
    """Slender rods on one line at the neutral position, where nothing resists a turn about it; damped, or driven and on a soft ground."""
    m = ct.Model("rods")
    joint = ct.Driven(ct.Revolute("y"), ct.Harmonic(amplitude=0.3, frequency=0.5)) if driven else ct.Revolute("x", damping=0.1)
    m.add("first", ct.rod(0.3, mass=1.0), joint)
    m.add("second", ct.rod(0.3, mass=1.0), ct.Universal("x", "y") if driven else ct.Revolute("y"), parent="first", at=(0.3, 0, 0))
    if driven:
        m.add("third", ct.rod(0.2, mass=0.5), ct.Helical("x", pitch=0.1), parent="second", at=(0.3, 0, 0))
        m.add_contact("ground", "third", ct.Geometry("sphere", (0.1,)), height=0.2, stiffness=500.0, friction=0.6, slip_speed=0.05)
        m.add_bushing("rubber", "first", "second", (0.3, 0, 0), stiffness=20.0, damping=0.5, turning_stiffness=2.0)
    return m


@pytest.mark.parametrize("driven", [False, True])
@pytest.mark.parametrize("integrator", ["auto", "rk4", "rang-angermann", "implicit-midpoint"])
def test_a_mass_matrix_that_is_singular_at_the_neutral_position_alone_does_not_matter_elsewhere(driven: bool, integrator: str) -> None:
    m = rods(driven)
    q = np.array([0.2, 0.7, 0.4][: m.nv])
    start = [0.0] if m.time_dependent else []
    end = ct.stepper(m, 2e-4, integrator, 2)(*start, q, np.zeros(m.nv), np.zeros(m.nv))
    runs = ct.rollout(m, q, step=1e-4, steps=2, integrator=integrator)
    run = ct.simulate(m, q, until=2e-4, step=1e-4, integrator=integrator)
    for states in ((end[0], runs.q[-1], run.q[-1]), (end[1], runs.v[-1], run.v[-1])):
        assert_allclose(states[1:], [states[0]] * 2, rtol=0, atol=1e-12)
    with pytest.raises(ct.SimulationError, match=r"the acceleration of '.*' is .* at the start"):
        ct.simulate(m, m.neutral(), np.ones(m.nv), until=0.01)


def test_rates_of_a_model_are_those_where_all_its_motions_have_inertia() -> None:
    """Two rods in line turn about it without inertia, and with the more of it the more they are bent."""
    m = rods(False)
    found, turned = fastest_of_model(m), fastest(m, 0.0, np.array([0.0, np.pi / 2]))
    assert found is not None
    assert turned is not None
    assert turned.rate == pytest.approx(0.1 / (1.0 * 0.3**2 / 3.0), rel=1e-12)
    assert turned.rate < found.rate < 1e3 * turned.rate
    straight = fastest(m, 0.0, np.zeros(2))
    assert straight is not None
    assert straight.rate == 0.0


def test_what_is_not_stiff_is_integrated_as_before() -> None:
    m = arm(2, 1.0, 0.001)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ct.simulate(m, [0.0, 0.0], until=0.1).info["integrator"] == "dormand-prince"
        assert ct.simulate(m, [0.0, 0.0], until=0.1, step=1e-3).info["integrator"] == "rk4"
        run = ct.simulate(m, [0.0, 0.0], until=0.1, step=1e-3, integrator="rk4")
        assert_array_equal(ct.rollout(m, [0.0, 0.0], step=1e-3, steps=100).q[-1], run.q[-1])
    assert "why" not in run.info


@pytest.mark.parametrize("integrator", ["rk4", "dormand-prince", "semi-implicit-euler", "midpoint", "scipy:RK45"])
def test_explicit_integrators_of_stiff_models_warn(integrator: str) -> None:
    m = arm(2, 1.0, 10.0)
    steps: dict[str, Any] = {} if "scipy" in integrator or integrator == "dormand-prince" else {"step": 1e-3}
    says = r"simulate 'arm': friction of joint 'link1' has a time constant of .*raise friction_speed"
    with pytest.warns(ct.StiffnessWarning, match=says):
        ct.simulate(m, [0.0, 0.0], until=0.001 if steps else 0.05, integrator=integrator, **steps)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ct.simulate(m, [0.0, 0.0], until=0.05, integrator="rang-angermann", **steps)


def test_rollouts_of_stiff_models_are_runs_of_fixed_steps() -> None:
    m = arm(3, 1.0, 10.0)
    q = np.random.default_rng(0).normal(size=(7, 3))
    runs = ct.rollout(m, q, step=1e-3, steps=200)
    assert not runs.failed.any()
    run = ct.simulate(m, q[2], until=0.2, step=1e-3)
    assert run.info["integrator"] == "rang-angermann"
    assert np.abs(runs.q[2, -1] - run.q[-1]).max() < 1e-12
    assert_array_equal(ct.rollout(m, q[2], step=1e-3, steps=200).q, runs.q[2])
    with pytest.warns(ct.StiffnessWarning, match=r"rollout 'arm': friction of joint 'link1'"):
        ct.rollout(m, q, step=1e-3, steps=1, integrator="rk4")


URDF = """<robot name="two"><link name="base"/>
<link name="upper"><inertial><origin xyz="0.15 0 0"/><mass value="0.5"/>
<inertia ixx="1e-3" ixy="0" ixz="0" iyy="4e-3" iyz="0" izz="4e-3"/></inertial></link>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
<limit lower="-3" upper="3" effort="10" velocity="5"/><dynamics friction="2.0" damping="0.1"/></joint>
<link name="lower"><inertial><origin xyz="0.1 0 0"/><mass value="0.1"/>
<inertia ixx="1e-5" ixy="0" ixz="0" iyy="1e-4" iyz="0" izz="1e-4"/></inertial></link>
<joint name="elbow" type="revolute"><parent link="upper"/><child link="lower"/><origin xyz="0.3 0 0"/><axis xyz="0 1 0"/>
<limit lower="-3" upper="3" effort="10" velocity="5"/><dynamics friction="0.5"/></joint></robot>"""

MJCF = """<mujoco model="two"><worldbody><body name="upper"><inertial pos="0.15 0 0" mass="0.5" diaginertia="1e-3 4e-3 4e-3"/>
<joint name="shoulder" axis="0 1 0" frictionloss="2.0" damping="0.1"/><body name="lower" pos="0.3 0 0">
<inertial pos="0.1 0 0" mass="0.1" diaginertia="1e-5 1e-4 1e-4"/><joint name="elbow" axis="0 1 0" frictionloss="0.5"/>
</body></body></worldbody></mujoco>"""


@pytest.mark.parametrize(("name", "text"), [("two.urdf", URDF), ("two.xml", MJCF)])
def test_friction_of_files_is_named_by_its_joint(tmp_path: Path, name: str, text: str) -> None:
    if name.endswith("xml"):
        pytest.importorskip("mujoco")
    path = tmp_path / name
    path.write_text(text)
    m = ct.load(path)
    run = ct.simulate(m, m.neutral(), until=1.0)
    assert run.info["integrator"] == "rang-angermann"
    assert run.info["steps"] < 2000
    assert "friction of joint 'elbow' has a time constant of" in run.info["why"]


def test_steep_forces_from_functions_that_hold_steps_down_are_warned_of_once() -> None:
    m = ct.Model("cart")
    m.add("cart", ct.point_mass(1.0), ct.Prismatic("x"))
    m.add_force("brake", lambda t, q, v: -5.0 * np.tanh(v / 1e-4))
    with pytest.warns(ct.StiffnessWarning, match=r"forces on 'cart' that fall with its velocity decay in .*e-05 s") as caught:
        run = ct.simulate(m, [0.0], until=1.0, tau=[2.0])
    assert len(caught) == 1
    assert run.info["steps"] > 10_000
    smooth = ct.Model("wheel", gravity=(0, 0, 0))
    smooth.add("wheel", ct.cylinder(0.1, 0.3, mass=1.0), ct.Revolute("z"))
    smooth.add_force("shake", lambda t, q, v: np.array([np.sin(3000.0 * t)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # many steps, but because of accuracy
        assert ct.simulate(smooth, [0.0], until=2.0).info["steps"] > 10_000
