"""Comparison with Pinocchio and MuJoCo on random trees, with every joint that both know: 1e-10 relative, on batches of states.

The peers have coordinates of their own. A `Peer` holds their model and says how q and v translate: v_peer = T v, so that
tau = T^T tau_peer, M = T^T M_peer T and vdot_peer = T vdot + dT/dt v.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest
from tests import mechanisms
from tests.referee import quaternion_matrix, relative

import catena as ct
from catena.comparison import peers
from catena.formulations import METHODS

pytestmark = pytest.mark.peers

STATES = 8
TOLERANCE = 1e-10
FORWARD = [name for name, method in METHODS.items() if method.general and "forward_dynamics" in method.solves]


def slices(m: ct.Model) -> dict[str, tuple[slice, slice]]:
    """Where the coordinates of every body are in catena's q and v."""
    places, at_q, at_v = {}, 0, 0
    for link in m.links:
        places[link.name] = (slice(at_q, at_q + link.joint.nq), slice(at_v, at_v + link.joint.nv))
        at_q, at_v = at_q + link.joint.nq, at_v + link.joint.nv
    return places


class MuJoCo:
    """A catena model in MuJoCo, through MJCF."""

    def __init__(self, m: ct.Model) -> None:
        self.m, self.at = m, slices(m)
        self.children: dict[str, list[Any]] = {name: [] for name in ("ground", *m.body_names)}
        for link in m.links:
            self.children[link.parent].append(link)
        text = (
            '<mujoco><compiler angle="radian" inertiafromgeom="false" autolimits="false"/>'
            f'<option gravity="{self._text(m.gravity)}"><flag contact="disable"/></option>'
            f"<worldbody>{self._bodies('ground')}</worldbody></mujoco>"
        )
        self.model = mujoco.MjModel.from_xml_string(text)
        self.data = mujoco.MjData(self.model)

    @staticmethod
    def _text(values: Any) -> str:
        return " ".join(repr(float(x)) for x in np.ravel(values))

    def _bodies(self, parent: str) -> str:
        return "".join(self._body(link) for link in self.children[parent])

    def _body(self, link: Any) -> str:
        moments, axes = np.linalg.eigh(link.body.inertia)
        axes = axes * np.sign(np.linalg.det(axes))
        return (
            f'<body name="{link.name}" pos="{self._text(link.at.p)}" quat="{self._text(_quaternion(link.at.R))}">'
            f'<inertial mass="{link.body.mass!r}" pos="{self._text(link.body.com)}" quat="{self._text(_quaternion(axes))}"'
            f' diaginertia="{self._text(moments)}"/>{self._joint(link)}{self._bodies(link.name)}</body>'
        )

    def _joint(self, link: Any) -> str:
        joint = link.joint
        if isinstance(joint, ct.Fixed):
            return ""
        kinds = {ct.Revolute: "hinge", ct.Prismatic: "slide", ct.Spherical: "ball", ct.Free: "free"}
        options = f' damping="{joint.damping[0]!r}" stiffness="{joint.stiffness[0]!r}" armature="{joint.armature[0]!r}"'
        if isinstance(joint, (ct.Revolute, ct.Prismatic)):
            options += f' axis="{self._text(joint.axis)}" springref="{0.0 if joint.rest is None else joint.rest[0]!r}"'
        return f'<joint name="{link.name}" type="{kinds[type(joint)]}"{options}/>'

    def state(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return MuJoCo's q, T and dT/dt v; a free joint's q there is in the world, its v (linear in the world, angular in the child)."""
        position, T, drift = np.zeros(self.model.nq), np.zeros((self.model.nv, self.m.nv)), np.zeros(self.model.nv)
        for link in self.m.links:
            if isinstance(link.joint, ct.Fixed):
                continue
            (at_q, at_v), joint = self.at[link.name], self.model.joint(link.name)
            rows = slice(joint.dofadr[0], joint.dofadr[0] + link.joint.nv)
            block, bias, own, rates = np.eye(link.joint.nv), np.zeros(link.joint.nv), q[at_q], v[at_v]
            if isinstance(link.joint, ct.Free):
                R = link.at.R @ quaternion_matrix(own[3:])
                own = np.concatenate([link.at.p + link.at.R @ own[:3], _quaternion(R)])
                block = np.block([[np.zeros((3, 3)), R], [np.eye(3), np.zeros((3, 3))]])
                bias[:3] = R @ np.cross(rates[:3], rates[3:])
            position[joint.qposadr[0] : joint.qposadr[0] + link.joint.nq] = own
            T[rows, at_v], drift[rows] = block, bias
        return position, T, drift

    def _set(self, q: Any, v: Any) -> tuple[np.ndarray, np.ndarray]:
        position, T, drift = self.state(q, v)
        self.data.qpos[:], self.data.qvel[:] = position, T @ v
        return T, drift

    def forward(self, q: Any, v: Any, tau: Any) -> np.ndarray:
        T, drift = self._set(q, v)
        self.data.qfrc_applied[:] = T @ tau
        mujoco.mj_forward(self.model, self.data)
        return T.T @ (self.data.qacc - drift)

    def inverse(self, q: Any, v: Any, vdot: Any) -> np.ndarray:
        T, drift = self._set(q, v)
        self.data.qacc[:] = T @ vdot + drift
        mujoco.mj_inverse(self.model, self.data)
        return T.T @ self.data.qfrc_inverse

    def mass_matrix(self, q: Any) -> np.ndarray:
        T, _ = self._set(q, np.zeros(self.m.nv))
        mujoco.mj_forward(self.model, self.data)
        mass = np.zeros((self.model.nv, self.model.nv))
        mujoco.mj_fullM(self.model, self.data, mass)
        return T.T @ mass @ T

    def poses(self, q: Any) -> np.ndarray:
        self._set(q, np.zeros(self.m.nv))
        mujoco.mj_kinematics(self.model, self.data)
        result = np.tile(np.eye(4), (len(self.m.body_names), 1, 1))
        for T, name in zip(result, self.m.body_names, strict=True):
            T[:3, :3], T[:3, 3] = self.data.body(name).xmat.reshape(3, 3), self.data.body(name).xpos
        return result

    def jacobian(self, q: Any, name: str, point: Any) -> np.ndarray:
        T, _ = self._set(q, np.zeros(self.m.nv))
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        body = self.data.body(name)
        linear, angular = np.zeros((2, 3, self.model.nv))
        mujoco.mj_jac(self.model, self.data, linear, angular, body.xpos + body.xmat.reshape(3, 3) @ point, self.model.body(name).id)
        return np.concatenate([angular, linear]) @ T


def _quaternion(R: np.ndarray) -> np.ndarray:
    """The quaternion (w, x, y, z) of a rotation matrix: an eigenvector of a symmetric matrix made of its entries."""
    K = np.array([
        [R[0, 0] + R[1, 1] + R[2, 2], R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]],
        [0.0, R[0, 0] - R[1, 1] - R[2, 2], R[1, 0] + R[0, 1], R[0, 2] + R[2, 0]],
        [0.0, 0.0, R[1, 1] - R[0, 0] - R[2, 2], R[2, 1] + R[1, 2]],
        [0.0, 0.0, 0.0, R[2, 2] - R[0, 0] - R[1, 1]],
    ])  # fmt: skip
    return np.linalg.eigh(K, UPLO="U")[1][:, -1]


def perpendicular(rng: np.random.Generator, **options: Any) -> ct.Universal:
    """A universal joint as Pinocchio knows it: with perpendicular axes."""
    first, other = mechanisms.unit(rng), mechanisms.unit(rng)
    second = np.cross(first, other)
    return ct.Universal(first, second, **options)


#: The joints that Pinocchio knows too.
PINOCCHIO = {
    **{kind: mechanisms.JOINTS[kind] for kind in ("revolute", "prismatic", "helical", "spherical", "free")},
    "universal": perpendicular,
    "planar": lambda rng, **options: ct.Planar("z", **options),
}


def random_tree(seed: int, joints: dict[str, Any], bodies: int, armature: bool, passive: bool = False) -> ct.Model:
    """A random tree with welded bodies in between; a Free joint may sit anywhere in it."""
    rng = np.random.default_rng(seed)
    m = ct.Model("peer", gravity=(0.5, -1.0, -9.6))
    names = ["ground"]
    kinds = list(joints)
    for i in range(bodies):
        parent = names[rng.integers(len(names))]
        if rng.random() < 0.25:
            m.add(f"weld{i}", mechanisms.body(rng), ct.Fixed(), parent=parent, at=mechanisms.place(rng))
            parent = f"weld{i}"
            names.append(parent)
        kind = kinds[i % len(kinds)]
        # an armature belongs to coordinates: those of planar and free joints are others in the peers
        options = {"armature": rng.uniform(0.0, 0.3) if armature and kind not in ("planar", "free") else 0.0}
        if passive:
            options |= {"damping": rng.uniform(0.0, 2.0), "stiffness": rng.uniform(0.0, 5.0)}
        if passive and kind in ("revolute", "prismatic"):
            options["rest"] = rng.uniform(-1.0, 1.0)
        m.add(f"body{i}", mechanisms.body(rng), joints[kind](rng, **options), parent=parent, at=mechanisms.place(rng))
        names.append(f"body{i}")
    return m


class Pinocchio(peers.Pinocchio):
    """A catena model in Pinocchio, with Jacobians."""

    def jacobian(self, q: Any, name: str, point: Any) -> np.ndarray:
        """Return the Jacobian of a point of a body, angular part first."""
        position, T, _ = self.state(q, np.zeros(self.m.nv))
        self.pinocchio.computeJointJacobians(self.model, self.data, position)
        index, offset = self.carried[name]
        J = self.pinocchio.getJointJacobian(self.model, self.data, index, self.pinocchio.ReferenceFrame.LOCAL_WORLD_ALIGNED)
        arm = self.data.oMi[index].rotation @ (offset.translation + offset.rotation @ point)
        return np.concatenate([J[3:], J[:3] + np.cross(J[3:].T, arm).T]) @ T


def assert_equals_peer(m: ct.Model, peer: Any) -> None:
    """Everything that catena compiles equals the peer, on a batch of states."""
    q, v, x = mechanisms.state(m, 5, batch=(STATES,))

    def each(function: Any, *arrays: Any) -> np.ndarray:
        return np.stack([function(*rows) for rows in zip(*arrays, strict=True)])

    assert relative(ct.poses(m)(q), each(peer.poses, q)) < TOLERANCE
    assert relative(ct.mass_matrix(m)(q), each(peer.mass_matrix, q)) < TOLERANCE
    assert relative(ct.bias_force(m)(q, v), each(peer.inverse, q, v, np.zeros_like(v))) < TOLERANCE
    assert relative(ct.inverse_dynamics(m)(q, v, x), each(peer.inverse, q, v, x)) < TOLERANCE
    expected = each(peer.forward, q, v, x)
    for method in FORWARD:
        for ours, theirs in zip(ct.forward_dynamics(m, method)(q, v, x), expected, strict=True):
            assert relative(ours, theirs) < TOLERANCE
    name, point = m.body_names[-1], np.array([0.1, -0.2, 0.3])
    assert relative(ct.jacobian(m, name, point)(q), each(lambda row: peer.jacobian(row, name, point), q)) < TOLERANCE


@pytest.mark.parametrize("seed", range(3))
def test_trees_of_every_joint_equal_pinocchio(seed: int) -> None:
    m = random_tree(seed, PINOCCHIO, len(PINOCCHIO), armature=bool(seed))
    assert_equals_peer(m, Pinocchio(m))


@pytest.mark.parametrize("kind", [kind for kind in PINOCCHIO if kind not in ("planar", "universal")])
def test_parts_of_the_bias_force_equal_pinocchio(kind: str) -> None:
    """Gravity, and the Coriolis matrix, of which many would give the same force.

    Rates of planar joints are in other axes there; of trees with universal joints, Pinocchio's matrix times v is not Pinocchio's force.
    """
    m = random_tree(8, {"revolute": PINOCCHIO["revolute"], kind: PINOCCHIO[kind], "free": PINOCCHIO["free"]}, 7, armature=True)
    peer, (gravity, matrix) = Pinocchio(m), (ct.gravity_force(m), ct.coriolis_matrix(m))
    for seed in range(STATES):
        q, v, _ = mechanisms.state(m, seed)
        position, T, _ = peer.state(q, v)
        theirs = peer.pinocchio.computeGeneralizedGravity(peer.model, peer.data, position)
        assert relative(gravity(q), T.T @ theirs) < TOLERANCE
        theirs = peer.pinocchio.computeCoriolisMatrix(peer.model, peer.data, position, T @ v)
        assert relative(matrix(q, v), T.T @ theirs @ T) < TOLERANCE


@pytest.mark.parametrize("kind", PINOCCHIO)
def test_a_chain_of_one_kind_of_joint_equals_pinocchio(kind: str) -> None:
    """Eagerly, so that every joint meets itself and many states."""
    m = random_tree(7, {kind: PINOCCHIO[kind]}, 4, armature=False)
    peer = Pinocchio(m)
    for seed in range(STATES):
        q, v, x = mechanisms.state(m, seed)
        for method in FORWARD:
            vdot = np.asarray(METHODS[method].solves["forward_dynamics"](m.tree(), q, v, x), dtype=float)
            assert relative(vdot, peer.forward(q, v, x)) < TOLERANCE
        tau = np.asarray(METHODS["newton-euler"].solves["inverse_dynamics"](m.tree(), q, v, x), dtype=float)
        assert relative(tau, peer.inverse(q, v, x)) < TOLERANCE


#: The joints that MuJoCo knows too; its free joints hang on the ground only.
MUJOCO = {kind: mechanisms.JOINTS[kind] for kind in ("revolute", "prismatic", "spherical")}


@pytest.mark.parametrize("seed", range(2))
def test_trees_with_springs_dampers_and_armatures_equal_mujoco(seed: int) -> None:
    m = random_tree(seed, MUJOCO, 6, armature=True, passive=True)
    m.add("floater", mechanisms.body(np.random.default_rng(seed)), ct.Free(damping=0.3), at=mechanisms.place(np.random.default_rng(1)))
    m.add("tail", mechanisms.body(np.random.default_rng(2)), ct.Revolute("x", armature=0.1), parent="floater", at=(0.2, 0.1, 0.0))
    assert_equals_peer(m, MuJoCo(m))
