"""Actuators: controls become joint forces, in kernels, in files and as MuJoCo has them."""

import numpy as np
import pytest

import catena as ct
from catena.examples import four_bar
from catena.model.actuators import Actuation

ROBOT = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.002" integrator="RK4"><flag contact="disable"/></option>
  <worldbody>
    <body name="base"><joint name="slide" type="slide" axis="1 0 0" damping="0.5" actuatorfrcrange="-6 6"/>
      <geom type="box" size="0.1 0.1 0.1"/>
      <body name="arm" pos="0.2 0 0"><joint name="turn" axis="0 1 0" ref="0.3" armature="0.1"/>
        <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
        <body name="hand" pos="0.3 0 0"><joint name="left" type="slide" axis="0 1 0" ref="0.01"/><joint name="right" axis="0 0 1"/>
          <geom type="box" size="0.02 0.05 0.03"/>
        </body>
      </body>
    </body>
  </worldbody>
  <tendon><fixed name="split"><joint joint="left" coef="0.5"/><joint joint="right" coef="-0.7"/></fixed></tendon>
  <actuator>
    <motor name="push" joint="slide" gear="5" ctrlrange="-1 1" ctrllimited="true"/>
    <position name="servo" joint="turn" kp="20" kv="1.5" gear="2" forcerange="-8 8"/>
    <velocity joint="slide" kv="3"/>
    <general name="odd" joint="turn" gaintype="affine" gainprm="0.5 2 -0.3" biastype="affine" biasprm="0.1 -0.4 0.2" gear="-1.5"/>
    <general name="grip" tendon="split" gainprm="4" biastype="affine" biasprm="0.3 -2 -0.1" forcerange="-3 3"/>
    <damper name="brake" joint="left" kv="0.6" ctrlrange="0 1"/>
  </actuator>
</mujoco>
"""


@pytest.fixture
def robot(tmp_path) -> ct.Model:
    file = tmp_path / "robot.xml"
    file.write_text(ROBOT)
    return ct.load(file)


def states(m: ct.Model, count: int = 50) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(2)
    q, v = rng.standard_normal((2, count, m.nv))
    return q, v, 2.0 * rng.standard_normal((count, len(m.actuators)))


@pytest.mark.quick
def test_the_kernel_of_actuators_is_their_equation(robot) -> None:
    q, v, u = states(robot)
    expected = np.zeros((50, 4))
    turn, split, slide = q[:, 1] + 0.3, 0.5 * (q[:, 2] + 0.01) - 0.7 * q[:, 3], v[:, 0]
    servo = np.clip(20.0 * u[:, 1] - 20.0 * 2.0 * turn - 1.5 * 2.0 * v[:, 1], -8.0, 8.0)
    odd = (0.5 - 3.0 * turn + 0.45 * v[:, 1]) * u[:, 3] + 0.1 + 0.6 * turn - 0.3 * v[:, 1]
    grip = np.clip(4.0 * u[:, 4] + 0.3 - 2.0 * split - 0.1 * (0.5 * v[:, 2] - 0.7 * v[:, 3]), -3.0, 3.0)
    expected[:, 0] = np.clip(5.0 * np.clip(u[:, 0], -1.0, 1.0) + 3.0 * (u[:, 2] - slide), -6.0, 6.0)
    expected[:, 1] = 2.0 * servo - 1.5 * odd
    expected[:, 2] = 0.5 * grip - 0.6 * v[:, 2] * np.clip(u[:, 5], 0.0, 1.0)
    expected[:, 3] = -0.7 * grip
    np.testing.assert_allclose(ct.actuator_forces(robot)(q, v, u), expected, rtol=1e-13, atol=1e-13)
    assert robot.links[0].joint.effort == (6.0,)


@pytest.mark.peers
def test_forces_of_actuators_are_those_of_mujoco(robot, tmp_path) -> None:
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(ROBOT)
    data = mujoco.MjData(model)
    forces = ct.actuator_forces(robot)
    for q, v, u in zip(*states(robot), strict=True):
        data.qpos[:], data.qvel[:], data.ctrl[:] = q + model.qpos0, v, u
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(forces(q, v, u), data.qfrc_actuator, rtol=1e-12, atol=1e-12)


@pytest.mark.peers
def test_a_step_with_controls_is_a_step_of_mujoco(robot) -> None:
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(ROBOT)
    data = mujoco.MjData(model)
    step = ct.stepper(robot, 0.002, "rk4", controls=True)
    for q, v, u in zip(*states(robot, 10), strict=True):
        data.qpos[:], data.qvel[:], data.ctrl[:] = q + model.qpos0, v, u
        mujoco.mj_step(model, data)
        after = step(q, v, u)
        np.testing.assert_allclose(after[0], data.qpos - model.qpos0, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(after[1], data.qvel, rtol=1e-10, atol=1e-11)


def test_a_step_with_controls_is_one_with_their_forces(robot) -> None:
    """Where the forces stay the same over the step, as those of a motor do."""
    m = ct.Model("cart")
    m.add("cart", ct.point_mass(2.0), ct.Prismatic("x", damping=0.3))
    m.add("pole", ct.rod(0.5, mass=0.4, axis="z"), ct.Revolute("y"), parent="cart")
    m.add_actuator("motor", "cart", gear=4.0, control_limits=(-1, 1))
    q, v = np.array([0.1, 0.3]), np.array([0.2, -0.4])
    driven, plain = ct.stepper(m, 0.01, controls=True), ct.stepper(m, 0.01)
    for u, force in ((0.5, 2.0), (3.0, 4.0)):
        for a, b in zip(driven(q, v, [u]), plain(q, v, [force, 0.0]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)
    loaded = ct.stepper(m, 0.01, controls=True, wrenches="pole", parameters="pole.mass")
    assert [port.name for port in loaded.inputs] == ["q", "v", "controls", "wrenches", "pole.mass"]
    np.testing.assert_allclose(loaded(q, v, [0.5])[1], driven(q, v, [0.5])[1], rtol=1e-13)


def test_controls_of_a_servo_move_a_loop() -> None:
    """A servo of position on the crank of a four-bar turns it to where its spring balances gravity."""
    m = four_bar()
    m.add_actuator("servo", "crank", kp=500.0, kv=100.0)
    step = ct.stepper(m, 1e-3, substeps=2, controls=True)
    q = m.assemble(crank=1.0)
    v = np.zeros(m.nv)
    for _ in range(4000):
        q, v = step(q, v, [1.2])
    assert abs(v).max() < 1e-3
    tau = ct.actuator_forces(m)(q, v, [1.2])
    rest = ct.forward_dynamics(m)(q, np.zeros(m.nv), tau)
    assert abs(rest).max() < 0.05
    assert abs(q[0] - 1.2) < 0.1


@pytest.mark.quick
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"of": "nobody"}, "'nobody' is not a coordinate of model 'arm'; choose from 'upper'"),
        ({"of": "ball.qw"}, "positions are not plain numbers"),
        ({"of": {}}, "moves nothing"),
        ({"of": "upper", "gear": 0.0}, "moves nothing"),
        ({"of": {"upper": 1.0}, "gear": 2.0}, "give one of them"),
        ({"of": "upper", "kp": 1.0, "gain": 2.0}, "kp and kv say the gain and the bias already"),
        ({"of": "upper", "force_limits": (1, -1)}, "1 is not below -1"),
        ({"of": "upper", "gain": (1.0, 2.0)}, "gain"),
        ({"of": "upper", "name": "motor"}, "an actuator has this name already"),
    ],
)
def test_what_is_no_actuator_is_told(wrong, told) -> None:
    m = ct.Model("arm")
    m.add("upper", ct.rod(0.5, mass=2.0), ct.Revolute("y"))
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Spherical(), parent="upper")
    m.add_actuator("motor", "upper")
    with pytest.raises(ct.ModelError, match=told):
        m.add_actuator(wrong.pop("name", "second"), **wrong)


@pytest.mark.quick
def test_models_without_actuators_take_no_controls(tmp_path) -> None:
    m = ct.Model("arm")
    m.add("upper", ct.rod(0.5, mass=2.0), ct.Revolute("y"))
    for make in (ct.actuator_forces, lambda m: ct.stepper(m, 0.1, controls=True)):
        with pytest.raises(ct.ArgumentError, match="has no actuators"):
            make(m)
    m.add_actuator("motor", "upper")
    with pytest.raises(ct.ModelFileError, match="URDF cannot hold actuator 'motor'"):
        m.save(tmp_path / "arm.urdf")
    (tmp_path / "arm.toml").write_text('[[body]]\nname = "a"\nmass = 1.0\njoint = { type = "revolute", axis = "y" }\n'
                                       '[[actuator]]\nname = "m"\ncoefficients = { b = 1.0 }\n')  # fmt: skip
    with pytest.raises(ct.ModelFileError, match="no coordinate is named 'b'"):
        ct.load(tmp_path / "arm.toml")


def pushed_cart() -> ct.Model:
    m = ct.Model("cart")
    m.add("cart", ct.point_mass(2.0), ct.Prismatic("x", damping=0.3))
    m.add("pole", ct.rod(0.5, mass=0.4, axis="-z"), ct.Revolute("y"), parent="cart")
    m.add_actuator("motor", "cart", gear=4.0, control_limits=(-1, 3))
    m.add_actuator("servo", "pole", kp=6.0, kv=0.4, control_limits=(-2, 2))
    return m


def test_runs_with_controls_are_runs_with_the_forces_of_actuators() -> None:
    """Constant, over time, from a function, from one that is called from Python, and in machine code over many trajectories."""
    m, start, u = pushed_cart(), [0.1, 0.3], np.array([0.2, -0.1])
    act = ct.actuator_forces(m)
    expected = ct.simulate(m, start, until=0.5, controller=lambda t, q, v: act(q, v, u + t))
    times = np.array([0.0, 0.5])
    for controls in ((times, u + times[:, None]), lambda t, q, v: u + t, ct.python(lambda t, q, v: u + t)):
        run = ct.simulate(m, start, until=0.5, controls=controls)
        np.testing.assert_allclose(run.q[-1], expected.q[-1], rtol=1e-8)
        np.testing.assert_allclose(run.tau[-1], act(run.q[-1], run.v[-1], u + 0.5), rtol=1e-12)
    step = ct.stepper(m, 0.01, controls=True)
    table = np.stack([np.stack([u + 0.1, u - 0.3]), np.stack([u, 4.0 * u])])
    many = ct.rollout(m, start, None, table, 0.01, 20, actuators=True)
    parts = ct.ensemble(m, start, None, table, step=0.01, steps=20, actuators=True, chunk=1)
    constant = ct.rollout(m, np.tile(start, (2, 1)), None, table[:, 0], 0.01, 10, actuators=True)
    free = ct.rollout(m, start, None, lambda t, q, v: 0.0 * q, 0.01, 20, actuators=True)
    for rows, run in zip(table, many.q, strict=True):
        q, v = np.array(start), np.zeros(2)
        for k in range(20):
            q, v = step(q, v, rows[k // 10])
            np.testing.assert_allclose(run[k + 1], q, rtol=1e-13)
    np.testing.assert_array_equal(parts.q, many.q)
    np.testing.assert_allclose(constant.q, many.q[:, :11], rtol=1e-13)
    np.testing.assert_allclose(free.q, ct.rollout(m, start, None, None, 0.01, 20, actuators=True).q, rtol=1e-12)


def test_servos_hold_the_start_and_motors_are_off(robot) -> None:
    m = pushed_cart()
    run = ct.simulate(m, [0.1, 0.3], until=0.01, controls="hold")
    np.testing.assert_allclose(run.tau[0], 0.0, atol=1e-15)
    q = states(robot, 1)[0][0]
    held = Actuation.of(robot, "test").holding(q)
    assert held[0] == held[2] == held[5] == 0.0
    np.testing.assert_allclose(held[1], 2.0 * (q[1] + 0.3), rtol=1e-13)
    rest = ct.actuator_forces(robot)(q, np.zeros(4), held)
    np.testing.assert_allclose(rest, 0.0, atol=1e-13)
    assert Actuation.of(m, "test").holding(np.array([0.0, 5.0]))[1] == 2.0


def test_actions_go_through_the_limits_of_controls() -> None:
    pytest.importorskip("gymnasium")
    from catena.environments import Task, VectorEnvironment

    m = pushed_cart()
    task = Task(m, step=0.05, actuators=True, reset=lambda random: (np.zeros(2), np.zeros(2)), observe=lambda q, v: np.concatenate([q, v]),
                reward=lambda action: action[0], parameters={"pole.mass": (0.4, 0.4)})  # fmt: skip
    assert "actions motor, servo" in repr(task)
    envs = VectorEnvironment(task, 3, dtype=np.float64)
    envs.reset(seed=0)
    action = np.array([[0.0, 0.0], [-1.0, 0.5], [2.0, 1.0]])
    seen = envs.step(action)[0]
    step = ct.stepper(m, 0.05, controls=True)
    expected = [np.concatenate(step(np.zeros(2), np.zeros(2), u)) for u in ([1.0, 0.0], [-1.0, 1.0], [3.0, 2.0])]
    np.testing.assert_allclose(seen, expected, rtol=1e-13)
    m.add_actuator("free", "cart")
    for wrong, told in (({}, "'free' has no control_limits"), ({"efforts": 2.0}, "give one of them")):
        with pytest.raises(ct.ArgumentError, match=told):
            Task(m, step=0.05, actuators=True, reset=lambda random: (np.zeros(2), np.zeros(2)), observe=lambda q: q, reward=lambda q: q[0],
                 **wrong)  # fmt: skip


def test_wrong_controls_of_runs_are_told() -> None:
    m, times = pushed_cart(), np.array([0.0, 0.5])
    for controls, told in (
        ([1.0], "are not 2 finite numbers"), ("rest", "'rest' is not known"), (lambda t, q, v: [1.0], "return 2 controls"),
        (ct.python(lambda t, q, v: [1.0]), "return 2 controls"), ((times, np.zeros((2, 1))), r"\(K, 2\) values"),
        ((times, np.zeros((2, 2))), "give it over the whole run"),
    ):  # fmt: skip
        with pytest.raises(ct.ArgumentError, match=told):
            ct.simulate(m, [0.0, 0.0], until=1.0, controls=controls)
    with pytest.raises(ct.ArgumentError, match="both controls and tau"):
        ct.simulate(m, [0.0, 0.0], until=1.0, controls="hold", tau=[0.0, 0.0])
    for controls, told in (([1.0], "has 2 actuators"), (np.zeros((3, 2)), "controls of shape .* do not divide 10 steps")):
        with pytest.raises(ct.ArgumentError, match=told):
            ct.rollout(m, [0.0, 0.0], None, controls, 0.1, 10, actuators=True)


def test_steps_are_implicit_in_stiff_servos() -> None:
    """Servos with a time constant of a microsecond, at the limits of their forces at first, against Radau's method."""
    m = ct.Model("arm")
    m.add("upper", ct.rod(0.5, mass=2.0, axis="z"), ct.Revolute("y"))
    m.add("lower", ct.rod(0.1, mass=0.05, axis="z"), ct.Revolute("y"), parent="upper", at=(0, 0, 0.5))
    m.add_actuator("shoulder", "upper", kp=2000.0, kv=200.0, force_limits=(-60, 60))
    m.add_actuator("elbow", "lower", kp=2000.0, kv=200.0, force_limits=(-3, 3))
    u, times = [0.5, -0.8], np.array([0.0, 0.05, 0.1, 0.3])
    exact = ct.simulate(m, [0.0, 0.0], until=0.3, controls=u, integrator="scipy:Radau", record=times)
    run = ct.simulate(m, [0.0, 0.0], until=0.3, controls=u, record=times)
    assert run.info["integrator"] == "rang-angermann"
    assert run.info["steps"] < 2000
    assert "the actuator of joint 'lower'" in run.info["why"]
    np.testing.assert_allclose(run.q, exact.q, atol=1e-6)
    table = ct.rollout(m, [0.0, 0.0], None, u, 5e-3, 60, actuators=True)
    function = ct.rollout(m, [0.0, 0.0], None, lambda t, q, v: np.array(u) + 0.0 * q, 5e-3, 60, actuators=True)
    for many in (table, function):
        np.testing.assert_allclose(many.q[[0, 10, 20, 60]], exact.q, atol=3e-3)
    assert ct.stepper(m, 5e-3, controls=True).method.startswith("rang-angermann")
    with pytest.warns(ct.StiffnessWarning, match="the actuator of joint 'lower'"):
        ct.stepper(m, 5e-3, "rk4", controls=True)
    assert ct.stepper(m, 5e-3).method.startswith("rk4")


TENDONS = """
<mujoco>
  <worldbody>
    <body name="arm"><joint name="turn" axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
      <site name="tip" pos="0.3 0 0"/>
      <body name="hand" pos="0.3 0 0"><joint name="bend" axis="0 1 0"/><geom type="box" size="0.02 0.05 0.03"/></body>
    </body>
    <site name="hook" pos="0 0 0.5"/>
  </worldbody>
  <tendon>
    <spatial name="cable"><site site="hook"/><site site="tip"/></spatial>
    <fixed name="bounded" actuatorfrclimited="true" actuatorfrcrange="-1 1">
      <joint joint="turn" coef="1"/><joint joint="bend" coef="2"/>
    </fixed>
    <fixed name="plain"><joint joint="turn" coef="1"/><joint joint="bend" coef="2"/></fixed>
  </tendon>
  <actuator>
    <motor name="winch" tendon="cable"/>
    <motor name="weak" tendon="bounded" gear="3"/>
    <motor name="strong" tendon="plain" gear="3"/>
  </actuator>
</mujoco>
"""


@pytest.mark.quick
def test_actuators_of_tendons_that_catena_cannot_represent_are_named(tmp_path) -> None:
    """A cable between sites is not a sum of coordinates, and no actuator has the force limit of its tendon."""
    file = tmp_path / "tendons.xml"
    file.write_text(TENDONS)
    m = ct.load(file)
    assert [actuator.name for actuator in m.actuators] == ["strong"]
    (note,) = (note for note in m.notes if "not in the model" in note)
    assert "winch that moves more than" in note
    assert "weak that moves more than" in note
