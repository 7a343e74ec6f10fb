"""Actuators: controls become joint forces, in kernels, in files and as MuJoCo has them."""

import numpy as np
import pytest

import catena as ct
from catena.examples import four_bar

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
