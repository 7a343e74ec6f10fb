"""The page for those who come from Pinocchio and MuJoCo: names in its tables exist, and rows give the same numbers, 1e-10 relative."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from tests.referee import quaternion_matrix, relative

import catena as ct

pytestmark = [pytest.mark.peers, pytest.mark.evaluated]

PAGE = Path(__file__).parents[1].joinpath("docs", "coming-from.md").read_text(encoding="utf-8")
TOLERANCE = 1e-10

LINK = """<link name="{0}"><inertial><origin xyz="{1}" rpy="0.1 0.2 0.3"/><mass value="{2}"/>
  <inertia ixx="0.03" ixy="0.001" ixz="0.002" iyy="0.04" iyz="-0.001" izz="0.05"/></inertial></link>"""
JOINT = """<joint name="{0}" type="revolute"><origin xyz="{1}"/><parent link="{2}"/><child link="{3}"/><axis xyz="{4}"/>
  <limit lower="-3" upper="3" effort="10" velocity="5"/>{5}</joint>"""
URDF = f"""<robot name="walker">{LINK.format("trunk", "0.01 0 0.02", 5)}{LINK.format("thigh", "0 0.01 -0.1", 1.5)}
{LINK.format("head", "0 0 0.1", 0.8)}{LINK.format("shank", "0 0 -0.1", 0.7)}
{JOINT.format("hip", "0 0.1 -0.1", "trunk", "thigh", "0 1 0", '<dynamics damping="0.3"/>')}
{JOINT.format("arm", "0 0 0.2", "trunk", "head", "0 0 1", "")}{JOINT.format("knee", "0 0 -0.25", "thigh", "shank", "0 1 0", "")}
</robot>"""

MJCF = """<mujoco><compiler angle="radian"/><option gravity="0 0 -9.81"><flag contact="disable"/></option>
<worldbody><body name="trunk" pos="0.1 0.2 0.5" quat="0.9 0.1 0.2 0.3"><freejoint/>
  <inertial pos="0.01 0 0.02" mass="5" fullinertia="0.03 0.04 0.05 0.001 0.002 -0.001"/>
  <body name="thigh" pos="0 0.1 -0.1"><joint name="hip" axis="0 1 0" damping="0.3" stiffness="2" armature="0.02"/>
    <inertial pos="0 0.01 -0.1" mass="1.5" diaginertia="0.02 0.03 0.01"/>
    <body name="shank" pos="0 0 -0.25"><joint name="knee" axis="0 1 0" ref="0.2" armature="0.01"/>
      <inertial pos="0 0 -0.1" mass="0.7" diaginertia="0.01 0.01 0.005"/><site name="foot" pos="0 0 -0.25"/></body></body></body>
</worldbody>
<actuator><motor joint="hip" gear="3"/><position joint="knee" kp="20" kv="1"/></actuator></mujoco>"""


@pytest.fixture
def urdf(tmp_path: Path) -> Path:
    (tmp_path / "walker.urdf").write_text(URDF, encoding="utf-8")
    return tmp_path / "walker.urdf"


def first_linear(x: np.ndarray) -> np.ndarray:
    """Rows of six in Pinocchio's order."""
    return np.concatenate([x[3:6], x[:3], x[6:]])


def tables() -> dict[str, list[list[str]]]:
    """The rows of each section's table."""
    found = {}
    for section in re.split(r"^## ", PAGE, flags=re.M)[1:]:
        rows = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in re.findall(r"^\|.*\|$", section, re.M)]
        found[section.splitlines()[0]] = rows[2:]
    return found


def test_tables_have_names_that_exist() -> None:
    found = tables()
    for name, least in (("Pinocchio", 15), ("MuJoCo", 15), ("Drake", 10), ("Exudyn", 10), ("SymPy", 10)):
        assert len(found[name]) >= least, name
    for name in re.findall(r"\bct\.(\w+)", PAGE):
        assert hasattr(ct, name), name
    for name in re.findall(r"\bm\.(\w+)\(", PAGE):
        assert hasattr(ct.Model, name), name
    for name in re.findall(r"\bpin\.(\w+)", PAGE):
        assert hasattr(pin, name), name
    for name in re.findall(r"\b(mj[d]?_\w+)", PAGE):
        assert hasattr(mujoco, name), name
    model = mujoco.MjModel.from_xml_string(MJCF)
    for name in re.findall(r"\bd\.(\w+)", PAGE):
        assert hasattr(mujoco.MjData(model), name), name
    for name in re.findall(r"\bmodel\.(\w+)", "\n".join(theirs for theirs, _ in found["MuJoCo"])):
        assert hasattr(model, name), name


def test_rows_of_pinocchio(urdf: Path) -> None:
    model = pin.buildModelFromUrdf(str(urdf), pin.JointModelFreeFlyer())
    data, m = model.createData(), ct.load(urdf, floating_base=True)
    # children of a link come in alphabetical order of their joints there, in the order of the file here
    assert list(model.names)[2:] == ["arm", "hip", "knee"]
    assert m.v_names[6:] == ("thigh", "head", "shank")
    order = [3, 4, 5, 0, 1, 2, 7, 6, 8]  # of v, and of q where places are the same: its v = v[order]
    places = [0, 1, 2, 4, 5, 6, 3, 8, 7, 9]
    rng = np.random.default_rng(0)
    q, (v, vdot, tau) = m.random(rng), rng.normal(size=(3, 9))
    Q, V, A, F = q[places], v[order], vdot[order], tau[order]
    grid = np.ix_(order, order)
    free = m.with_values({"thigh.damping": 0.0})  # damping is part of dynamics here, and not there

    def same(ours: Any, theirs: Any) -> None:
        assert relative(np.asarray(ours), np.asarray(theirs)) < TOLERANCE

    for method in ("auto", "aba"):
        same(ct.forward_dynamics(free, method)(q, v, tau)[order], pin.aba(model, data, Q, V, F))
    same(ct.inverse_dynamics(free)(q, v, vdot)[order], pin.rnea(model, data, Q, V, A))
    wrench, R = rng.normal(size=6), ct.poses(m, of="shank")(q)[:3, :3]
    fext = pin.StdVec_Force([pin.Force.Zero() for _ in range(model.njoints)])
    fext[model.getJointId("knee")] = pin.Force(R.T @ wrench[3:], R.T @ wrench[:3])  # in the joint's axes there, force first
    pushed = ct.forward_dynamics(free, wrenches=["shank"])(q, v, tau, [wrench])
    same(pushed[order], pin.aba(model, data, Q, V, F, fext))
    damped = ct.inverse_dynamics(m)(q, v, vdot) - ct.inverse_dynamics(free)(q, v, vdot)
    same(damped[6], 0.3 * v[6])
    upper = pin.crba(model, data, Q)
    same(ct.mass_matrix(m)(q)[grid], np.triu(upper) + np.triu(upper, 1).T)
    same(ct.bias_force(free)(q, v)[order], pin.nonLinearEffects(model, data, Q, V))
    same(ct.bias_force(m, include=("gravity", "coriolis"))(q, v)[order], pin.nonLinearEffects(model, data, Q, V))
    same(ct.gravity_force(m)(q)[order], pin.computeGeneralizedGravity(model, data, Q))
    same(ct.coriolis_matrix(m)(q, v)[grid], pin.computeCoriolisMatrix(model, data, Q, V))
    kinetic, potential = ct.energy(m)(q, v)
    same(kinetic, pin.computeKineticEnergy(model, data, Q, V))
    same(potential, pin.computePotentialEnergy(model, data, Q))
    frame = model.getFrameId("shank")
    pin.forwardKinematics(model, data, Q, V, A)
    pin.updateFramePlacements(model, data)
    same(ct.poses(m, of="shank")(q), data.oMf[frame].homogeneous)
    pin.computeJointJacobians(model, data, Q)
    for axes, reference in (("world", pin.LOCAL_WORLD_ALIGNED), ("body", pin.LOCAL)):
        same(first_linear(ct.jacobian(m, "shank", axes=axes)(q))[:, order], pin.getFrameJacobian(model, data, frame, reference))
        same(first_linear(ct.frame_velocity(m, "shank", axes=axes)(q, v)), pin.getFrameVelocity(model, data, frame, reference).vector)
        bent = pin.getFrameClassicalAcceleration(model, data, frame, reference)
        same(first_linear(ct.frame_acceleration(m, "shank", axes=axes)(q, v, vdot)), bent.vector)
    bend = pin.frameJacobianTimeVariation(model, data, Q, V, frame, pin.LOCAL_WORLD_ALIGNED) @ V
    same(first_linear(ct.bias_acceleration(m, "shank")(q, v)), bend)
    same(ct.center_of_mass(m)(q), pin.centerOfMass(model, data, Q))
    same(ct.center_of_mass(m, "jacobian")(q)[:, order], pin.jacobianCenterOfMass(model, data, Q))
    same(first_linear(ct.centroidal_momentum(m, "matrix")(q))[:, order], pin.ccrba(model, data, Q, V))
    change = pin.computeCentroidalMomentumTimeVariation(model, data, Q, V, A)
    same(first_linear(ct.centroidal_momentum(m, "rate")(q, v, vdot)), change.vector)
    limits = {link.name: link.joint.limits for link in m.links if link.joint.limits}
    lower, upper = model.lowerPositionLimit[7:], model.upperPositionLimit[7:]
    assert [limits[name][0] for name in ("head", "thigh", "shank")] == list(zip(lower, upper, strict=True))
    inverse = pin.computeMinverse(model, data, Q)
    _, by_q, by_v, by_tau = ct.forward_dynamics_derivatives(free)(q, v, tau)
    same(by_tau[grid], np.triu(inverse) + np.triu(inverse, 1).T)
    pin.computeABADerivatives(model, data, Q, V, F)
    same(by_q[grid], data.ddq_dq)
    same(by_v[grid], data.ddq_dv)
    other = m.random(rng)
    same(m.integrate(q, v)[places], pin.integrate(model, Q, V))
    same(m.difference(q, other)[order], pin.difference(model, Q, other[places]))
    same(m.neutral()[places], pin.neutral(model))
    Y, pi = pin.computeJointTorqueRegressor(model, data, Q, V, A), ct.linear_parameters(free)
    ours = ct.regressor(free)(q, v, vdot)[order]
    # ten columns for each body: Ixx, Ixy, Iyy, Ixz, Iyz, Izz there
    bodies = {name: 10 * i for i, name in enumerate(m.body_names)}
    for k, name in enumerate(("trunk", "head", "thigh", "shank")):
        labels = [f"{name}.inertia.{x}" for x in ("xx", "xy", "yy", "xz", "yz", "zz")]
        columns = [*range(bodies[name], bodies[name] + 4), *(list(pi).index(label) for label in labels)]
        same(ours[:, columns], Y[:, 10 * k : 10 * k + 10])


def test_rows_of_mujoco(tmp_path: Path) -> None:
    (tmp_path / "walker.xml").write_text(MJCF, encoding="utf-8")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "walker.xml"))
    d, m = mujoco.MjData(model), ct.load(tmp_path / "walker.xml")
    rng = np.random.default_rng(1)
    q, (v, vdot, tau) = m.random(rng), rng.normal(size=(3, 8))
    # a free body is placed relative to where the file puts it, its qvel is linear in the world's axes, then angular in the body's
    start = ct.Pose(model.qpos0[:3], quat=model.qpos0[3:7])
    placed = start @ ct.Pose(q[:3], quat=q[3:7])
    R = placed.R
    d.qpos[:3], d.qpos[7:] = placed.p, q[7:] + model.qpos0[7:]  # a hinge has q = qpos - ref
    mujoco.mju_mat2Quat(d.qpos[3:7], R.ravel())
    assert relative(quaternion_matrix(d.qpos[3:7]), R) < TOLERANCE
    T = np.eye(8)
    T[:6, :6] = np.block([[np.zeros((3, 3)), R], [np.eye(3), np.zeros((3, 3))]])
    drift = np.r_[R @ np.cross(v[:3], v[3:6]), np.zeros(5)]

    def same(ours: Any, theirs: Any) -> None:
        assert relative(np.asarray(ours), np.asarray(theirs)) < TOLERANCE

    d.qvel[:], d.qfrc_applied[:] = T @ v, T @ tau
    mujoco.mj_forward(model, d)
    servo = ct.actuator_forces(m)(q, v, [0.0, 0.0])  # a servo acts without a control, too; here where you add it
    same(T @ ct.forward_dynamics(m)(q, v, tau + servo) + drift, d.qacc)
    mass = np.zeros((8, 8))
    mujoco.mj_fullM(model, d, mass)
    same(T @ ct.mass_matrix(m)(q) @ T.T, mass)  # armatures are on both diagonals
    same(T @ ct.bias_force(m)(q, v) - mass @ drift, d.qfrc_bias - d.qfrc_passive)
    same(T @ (ct.gravity_force(m)(q) + ct.coriolis_force(m)(q, v)) - mass @ drift, d.qfrc_bias)
    same(T @ ct.passive_force(m)(q, v), -d.qfrc_passive)
    d.qacc[:] = T @ vdot + drift
    mujoco.mj_inverse(model, d)
    same(T @ ct.inverse_dynamics(m)(q, v, vdot), d.qfrc_inverse)
    body = model.body("shank").id
    same(ct.poses(m, of="shank")(q)[:3, 3], d.xpos[body])
    same(ct.poses(m, of="shank")(q)[:3, :3], d.xmat[body].reshape(3, 3))
    same(ct.poses(m, of="foot")(q)[:3, 3], d.site_xpos[0])
    linear, angular = np.zeros((2, 3, 8))
    mujoco.mj_jacSite(model, d, linear, angular, 0)
    same(ct.jacobian(m, "foot")(q) @ T.T, np.concatenate([angular, linear]))
    moving = np.zeros(6)
    mujoco.mj_objectVelocity(model, d, mujoco.mjtObj.mjOBJ_SITE, 0, moving, 0)
    same(ct.frame_velocity(m, "foot")(q, v), moving)  # angular first in both
    mujoco.mj_subtreeVel(model, d)
    same(ct.center_of_mass(m)(q), d.subtree_com[0])
    same(ct.center_of_mass(m, "velocity")(q, v), d.subtree_linvel[0])
    same(ct.centroidal_momentum(m)(q, v)[:3], d.subtree_angmom[0])
    mujoco.mj_energyPos(model, d)
    mujoco.mj_energyVel(model, d)
    same(np.ravel(ct.energy(m)(q, v))[0], d.energy[1])
    same(np.ravel(ct.energy(m)(q, v))[1], d.energy[0])
    control = np.array([0.7, 0.4])
    d.ctrl[:] = control
    mujoco.mj_forward(model, d)
    same(ct.actuator_forces(m)(q, v, control), d.qfrc_actuator)
    same(T @ ct.forward_dynamics(m)(q, v, tau + ct.actuator_forces(m)(q, v, control)) + drift, d.qacc)
    # a wrench is a moment and a force at the origin of the body here; a force at its centre of mass and a moment there
    push = rng.normal(size=6)
    arm = d.xipos[body] - d.xpos[body]
    d.xfrc_applied[body] = np.concatenate([push[3:], push[:3] - np.cross(arm, push[3:])])
    d.ctrl[:] = 0.0
    mujoco.mj_forward(model, d)
    same(T @ ct.forward_dynamics(m, wrenches=["shank"])(q, v, tau + servo, [push]) + drift, d.qacc)
