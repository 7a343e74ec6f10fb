"""Motions of frames, centres of mass and centroidal momenta, and their derivatives, equal Pinocchio's on five robots: 1e-11 relative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest
from tests import mechanisms
from tests.referee import relative
from tests.test_inverse_kinematics import limited_arm
from tests.test_peers_derivatives import apart, walker

import catena as ct
from catena.comparison.peers import Pinocchio
from catena.examples import arm, chain, humanoid

pytestmark = pytest.mark.peers

STATES, TOLERANCE = 6, 1e-11

ROBOTS: dict[str, Callable[[], ct.Model]] = {
    "arm": arm, "limited arm": limited_arm, "humanoid": lambda: apart(humanoid()), "walker": walker, "chain": lambda: chain(12),
}  # fmt: skip

POINT = np.array([0.1, -0.2, 0.3])


class Peer(Pinocchio):
    """A robot in Pinocchio, with a frame at a point of its last body, and results in catena's order: angular parts first."""

    def __init__(self, m: ct.Model, place: ct.Pose) -> None:
        super().__init__(m)
        pin, (joint, offset) = self.pinocchio, self.carried[m.body_names[-1]]
        kind = pin.FrameType.OP_FRAME
        self.frame = self.model.addFrame(pin.Frame("tip", joint, 0, offset * pin.SE3(np.array(place.R), np.array(place.p)), kind))
        self.data = self.model.createData()
        self.joint = joint

    def all(self, q: Any, v: Any, vdot: Any) -> dict[str, np.ndarray]:
        """Return everything at a state, by name."""
        pin, model, data = self.pinocchio, self.model, self.data
        position, T, drift = self.state(q, v)
        rate, acceleration = T @ v, T @ vdot + drift
        found: dict[str, Any] = {}
        pin.forwardKinematics(model, data, position, rate, acceleration)
        pin.updateFramePlacements(model, data)
        pin.computeJointJacobians(model, data, position)
        for axes, frame in (("world", pin.ReferenceFrame.LOCAL_WORLD_ALIGNED), ("body", pin.ReferenceFrame.LOCAL)):
            velocity = pin.getFrameVelocity(model, data, self.frame, frame)
            bent = pin.getFrameClassicalAcceleration(model, data, self.frame, frame)
            J = pin.getFrameJacobian(model, data, self.frame, frame)
            found |= {f"velocity {axes}": np.concatenate([velocity.angular, velocity.linear])}
            found |= {f"acceleration {axes}": np.concatenate([bent.angular, bent.linear]), f"jacobian {axes}": _turned(J) @ T}
        found["pose"] = data.oMf[self.frame].homogeneous
        pin.computeForwardKinematicsDerivatives(model, data, position, rate, acceleration)
        by_q, by_v = pin.getFrameVelocityDerivatives(model, data, self.frame, pin.ReferenceFrame.LOCAL)
        found |= {"velocity by q": _turned(by_q) @ T, "velocity by v": _turned(by_v) @ T}
        pin.centerOfMass(model, data, position, rate, acceleration)
        found |= {"center": data.com[0].copy(), "center velocity": data.vcom[0].copy(), "center acceleration": data.acom[0].copy()}
        found["subtree center"] = data.oMi[self.joint].act(data.com[self.joint])
        found["center jacobian"] = pin.jacobianCenterOfMass(model, data, position) @ T
        pin.computeCentroidalMomentumTimeVariation(model, data, position, rate, acceleration)
        found |= {"momentum": _turned(data.hg.vector), "momentum rate": _turned(data.dhg.vector)}
        found["momentum matrix"] = _turned(pin.ccrba(model, data, position, rate)) @ T
        matrices = pin.computeCentroidalDynamicsDerivatives(model, data, position, rate, acceleration)
        names = ("momentum by q", "momentum rate by q", "momentum rate by v", "momentum rate by vdot")
        return found | {name: _turned(matrix) @ T for name, matrix in zip(names, matrices, strict=True)}


def _turned(x: np.ndarray) -> np.ndarray:
    """Return rows in the other order: linear first, or angular."""
    return np.concatenate([x[3:], x[:3]])


@pytest.mark.parametrize("name", ROBOTS)
def test_kinematics_equal_pinocchio(name: str) -> None:
    m, place = ROBOTS[name](), ct.Pose(POINT, rpy=(0.3, -0.2, 0.5))
    m.add_frame("tip", m.body_names[-1], at=place)
    peer = Peer(m, place)
    q, v, vdot = mechanisms.state(m, 7, batch=(STATES,))
    at, moving, accelerated = (q,), (q, v), (q, v, vdot)
    ours: dict[str, Any] = {"pose": ct.poses(m, of="tip")(*at)}
    for axes in ("world", "body"):
        ours[f"velocity {axes}"] = ct.frame_velocity(m, "tip", axes=axes)(*moving)
        ours[f"acceleration {axes}"] = ct.frame_acceleration(m, "tip", axes=axes)(*accelerated)
        ours[f"jacobian {axes}"] = ct.jacobian(m, "tip", axes=axes)(*at)
    by = ct.frame_velocity(m, "tip", axes="body").jacobian("velocity", ("q", "v"))(*moving)
    ours |= {"velocity by q": by[0], "velocity by v": by[1]}
    ours |= {"center": ct.center_of_mass(m)(*at), "center velocity": ct.center_of_mass(m, "velocity")(*moving)}
    ours["center acceleration"] = ct.center_of_mass(m, "acceleration")(*accelerated)
    ours["center jacobian"] = ct.center_of_mass(m, "jacobian")(*at)
    ours["subtree center"] = ct.center_of_mass(m, of=m.body_names[-1])(*at)
    rate = ct.centroidal_momentum(m, "rate")
    ours |= {"momentum": ct.centroidal_momentum(m)(*moving), "momentum rate": rate(*accelerated)}
    ours["momentum matrix"] = ct.centroidal_momentum(m, "matrix")(*at)
    ours["momentum by q"] = ct.centroidal_momentum(m).jacobian("momentum", "q")(*moving)
    names = ("momentum rate by q", "momentum rate by v", "momentum rate by vdot")
    ours |= dict(zip(names, rate.jacobian("rate", ("q", "v", "vdot"))(*accelerated), strict=True))
    theirs = [peer.all(*state) for state in zip(*accelerated, strict=True)]
    off = {what: relative(ours[what], np.stack([one[what] for one in theirs])) for what in theirs[0]}
    assert set(ours) == set(off)
    assert max(off.values()) < TOLERANCE, {what: x for what, x in off.items() if x >= TOLERANCE}


def test_relative_motions_equal_mujoco(tmp_path) -> None:
    """MuJoCo has velocities of bodies; those relative to another body follow from two of them."""
    text = """<mujoco><option gravity="0 0 0"/><worldbody>
      <body name="a" pos="0 0 1" euler="10 20 30"><joint axis="0 1 0"/><geom size="0.1" mass="1" contype="0"/>
        <body name="b" pos="0.3 0.1 0.2" euler="30 0 10"><joint axis="1 0 0"/><joint type="slide" axis="0 0 1"/><geom size="0.1" mass="1"/>
          <site name="tip" pos="0.1 0.2 0.3" euler="5 6 7"/></body>
        <body name="c" pos="-0.3 0 0.2"><joint axis="0 1 1"/><geom size="0.1" mass="1" conaffinity="0"/></body></body>
    </worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    data.qpos, data.qvel = rng.normal(size=model.nq), rng.normal(size=model.nv)
    mujoco.mj_forward(model, data)
    site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, "tip")
    found = np.zeros(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_SITE, site, found, 0)
    file = tmp_path / "same.xml"
    file.write_text(text)
    m = ct.load(file, ignore=("contact",))
    q, v = np.array(data.qpos), np.array(data.qvel)
    assert relative(ct.frame_velocity(m, "tip")(q, v), found) < TOLERANCE
    other = np.zeros(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, 3, other, 0)
    between = data.site_xpos[site] - data.xpos[3]
    expected = found - np.concatenate([other[:3], other[3:] + np.cross(other[:3], between)])
    assert relative(ct.frame_velocity(m, "tip", relative_to="c")(q, v), expected) < TOLERANCE
    np.testing.assert_allclose(ct.center_of_mass(m, of="ground")(q), data.subtree_com[0], atol=1e-12)
