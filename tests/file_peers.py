"""A URDF file in Pinocchio and an MJCF file in MuJoCo, beside the models that catena makes of them: how q and v translate.

v_peer = T v, with T orthogonal, so that tau = T^T tau_peer and vdot_peer = T vdot + dT/dt v.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np
import pinocchio

import catena as ct
from catena.spatial import quaternion_product, rotation


class Pinocchio:
    """Pinocchio's model of a URDF file, with the damping and friction that its dynamics leave to the user; mimic joints are free."""

    def __init__(self, file: Path, m: ct.Model, floating_base: bool = False) -> None:
        self.m, self.model = m, pinocchio.buildModelFromUrdf(str(file), *([pinocchio.JointModelFreeFlyer()] if floating_base else []))
        self.data = self.model.createData()
        ends = {joint.get("name"): joint.find("child") for joint in ElementTree.parse(file).getroot().findall("joint")}
        carried = {name: child.get("link") for name, child in ends.items() if child is not None}
        if floating_base:
            carried["root_joint"] = m.links[0].name
        places = {link.name: (at_q, at_v) for link, at_q, at_v in m.slices()}
        self.joints = [
            (joint, *places[carried[name]]) for name, joint in zip(self.model.names[1:], list(self.model.joints)[1:], strict=True)
        ]
        self.damping, self.friction = (np.concatenate([getattr(link.joint, key) for link in m.links]) for key in ("damping", "friction"))

    def state(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return Pinocchio's q, T and dT/dt v."""
        position, T, drift = np.zeros(self.model.nq), np.zeros((self.model.nv, self.m.nv)), np.zeros(self.model.nv)
        for joint, at_q, at_v in self.joints:
            own, rates, block, bias = q[at_q], v[at_v], np.eye(joint.nv), np.zeros(joint.nv)
            match joint.nq:
                case 1:
                    theirs = own
                case 2:
                    theirs = np.array([np.cos(own[0]), np.sin(own[0])])
                case 4:  # a planar joint: its rates are in the child's axes
                    c, s = np.cos(own[2]), np.sin(own[2])
                    theirs = np.array([*own[:2], c, s])
                    block[:2, :2] = [[c, s], [-s, c]]
                    bias[:2] = rates[2] * np.array([[-s, c], [-c, -s]]) @ rates[:2]
                case _:  # a free joint: linear first
                    theirs, block = own[[0, 1, 2, 4, 5, 6, 3]], block[[3, 4, 5, 0, 1, 2]]
            position[joint.idx_q : joint.idx_q + joint.nq] = theirs
            rows = slice(joint.idx_v, joint.idx_v + joint.nv)
            T[rows, at_v], drift[rows] = block, bias
        return position, T, drift

    def passive(self, v: np.ndarray) -> np.ndarray:
        """Return the joint forces of damping and friction."""
        return -self.damping * v - self.friction * v / np.sqrt(v**2 + self.m.friction_speed**2)

    def forward(self, q: Any, v: Any, tau: Any) -> np.ndarray:
        position, T, drift = self.state(q, v)
        return T.T @ (pinocchio.aba(self.model, self.data, position, T @ v, T @ (tau + self.passive(v))) - drift)

    def inverse(self, q: Any, v: Any, vdot: Any) -> np.ndarray:
        position, T, drift = self.state(q, v)
        return T.T @ pinocchio.rnea(self.model, self.data, position, T @ v, T @ vdot + drift) - self.passive(v)


class MuJoCo:
    """MuJoCo's model of an MJCF file, without actuators and, unless asked for, without constraints."""

    def __init__(self, file: Path, m: ct.Model, constraints: bool = False) -> None:
        self.m = m
        self.model = mujoco.MjModel.from_xml_path(str(file))
        self.model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT) | int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
        if not constraints:
            self.model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
        self.data = mujoco.MjData(self.model)

    def state(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return MuJoCo's q, T and dT/dt v. Joints follow each other as those of catena do."""
        c = self.model
        position, T, drift = np.array(c.qpos0), np.zeros((c.nv, self.m.nv)), np.zeros(c.nv)
        at_q = at_v = 0
        for i in range(c.njnt):
            start, row = c.jnt_qposadr[i], c.jnt_dofadr[i]
            match int(c.jnt_type[i]):
                case 0:
                    own, rates = q[at_q : at_q + 7], v[at_v : at_v + 6]
                    home = c.qpos0[start : start + 7]
                    position[start : start + 3] = home[:3] + rotation(home[3:]) @ own[:3]
                    position[start + 3 : start + 7] = quaternion_product(home[3:], own[3:])
                    R = rotation(position[start + 3 : start + 7])
                    T[row : row + 3, at_v + 3 : at_v + 6], T[row + 3 : row + 6, at_v : at_v + 3] = R, np.eye(3)
                    drift[row : row + 3] = R @ np.cross(rates[:3], rates[3:])
                    at_q, at_v = at_q + 7, at_v + 6
                case 1:
                    position[start : start + 4] = q[at_q : at_q + 4]
                    T[row : row + 3, at_v : at_v + 3] = np.eye(3)
                    at_q, at_v = at_q + 4, at_v + 3
                case _:
                    position[start] = c.qpos0[start] + q[at_q]
                    T[row, at_v] = 1.0
                    at_q, at_v = at_q + 1, at_v + 1
        return position, T, drift

    def put(self, q: Any, v: Any) -> tuple[np.ndarray, np.ndarray]:
        """Set MuJoCo's state; return T and dT/dt v."""
        position, T, drift = self.state(q, v)
        self.data.qpos[:], self.data.qvel[:] = position, T @ v
        return T, drift

    def forward(self, q: Any, v: Any, tau: Any) -> np.ndarray:
        T, drift = self.put(q, v)
        self.data.qfrc_applied[:] = T @ tau
        mujoco.mj_forward(self.model, self.data)
        return T.T @ (self.data.qacc - drift)

    def inverse(self, q: Any, v: Any, vdot: Any) -> np.ndarray:
        T, drift = self.put(q, v)
        self.data.qacc[:] = T @ vdot + drift
        mujoco.mj_inverse(self.model, self.data)
        return T.T @ self.data.qfrc_inverse

    def poses(self, q: Any) -> dict[str, np.ndarray]:
        """Return where all named bodies are."""
        self.put(q, np.zeros(self.m.nv))
        mujoco.mj_kinematics(self.model, self.data)
        found = {}
        for i in range(1, self.model.nbody):
            T = found[self.model.body(i).name] = np.eye(4)
            T[:3, :3], T[:3, 3] = self.data.xmat[i].reshape(3, 3), self.data.xpos[i]
        return found
