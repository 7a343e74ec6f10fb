"""A tree of catena in Pinocchio, where that is installed.

Pinocchio has coordinates of its own: v_peer = T v, so that tau = T^T tau_peer, M = T^T M_peer T and vdot_peer = T vdot + dT/dt v. Its
tangents of positions are velocities, as those of catena are: dq_peer = T dq. T is orthogonal, and constant but for planar joints, whose
rates are in the child's axes there: along the angle j of one, dT = -T W_j with a constant W_j, so that dT/dt v = -T w with
w = sum_j v_j W_j v. Derivatives by positions have these terms too.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.formulations.derivatives.forces import force_derivatives
from catena.formulations.joint_forces import passive_force
from catena.model import Fixed, Free, Helical, Joint, Mechanism, Planar, Prismatic, Revolute, Spherical, Universal

#: Pinocchio's function of each kernel.
FUNCTIONS: dict[str, str] = {
    "forward_dynamics": "aba", "inverse_dynamics": "rnea", "mass_matrix": "crba", "poses": "forwardKinematics",
    "energy": "computeMechanicalEnergy", "forward_dynamics_derivatives": "computeABADerivatives",
    "inverse_dynamics_derivatives": "computeRNEADerivatives",
}  # fmt: skip

#: Joints that Pinocchio has besides fixed ones: what it calls them, and the parameters that they take.
_JOINTS: dict[type[Joint], tuple[str, ...]] = {
    Revolute: ("RevoluteUnaligned", "axis"), Prismatic: ("PrismaticUnaligned", "axis"), Helical: ("HelicalUnaligned", "axis", "pitch"),
    Universal: ("Universal", "axis1", "axis2"), Planar: ("Planar",), Spherical: ("Spherical",), Free: ("FreeFlyer",),
}  # fmt: skip

#: The number of coordinates up to which Pinocchio is taken: beyond it needs much memory.
_MOST = 300


def why_not(m: Mechanism) -> str:
    """Return why a model is not compared with Pinocchio, or nothing."""
    if importlib.util.find_spec("pinocchio") is None:
        return 'it is not installed (pip install "catena[peers]")'
    if m.has_loops or m.driven_names:
        return "it is taken for trees without driven joints"
    for link in m.links:
        joint = link.joint
        if not isinstance(joint, (Fixed, *_JOINTS)):
            return f"it has no {joint.kind} joint, such as that of '{link.name}'"
        if isinstance(joint, Planar) and not np.allclose(joint.axis, (0, 0, 1)):
            return f"its planar joints are in the plane of x and y, and that of '{link.name}' is not"
        if isinstance(joint, Universal) and abs(np.dot(joint.axis1, joint.axis2)) > 1e-12:
            return f"its universal joints have axes at a right angle, and that of '{link.name}' has not"
    if m.nv > _MOST:
        return f"it is taken up to {_MOST} coordinates, and there are {m.nv}"
    if m.springs or m.bushings or m.contacts or m.forces or m.point_forces:
        return "it has no springs between bodies, no compliant contact and no forces from functions"
    return ""


def why_not_results(m: Mechanism, kernel: str) -> str:
    """Return why results of a kernel are not compared with those of Pinocchio, or nothing."""
    if kernel not in FUNCTIONS:
        return "it has no such function"
    if kernel == "energy":
        return "it counts energies differently"
    if kernel.endswith("_derivatives") and any(isinstance(link.joint, Universal) for link in m.links):
        return "its derivatives hold joint matrices constant in the child's axes, and those of universal joints are not"
    return ""


def _depth_first(m: Mechanism) -> list[Any]:
    """Return the links of a model, every one right after its parent's earlier children and their descendants."""
    children: dict[str, list[Any]] = {name: [] for name in ("ground", *m.body_names)}
    for link in m.links:
        children[link.parent].append(link)

    links, stack = [], children["ground"][::-1]
    while stack:
        links.append(stack.pop())
        stack += children[links[-1].name][::-1]
    return links


def _plane(angle: float) -> np.ndarray:
    """Return a rotation in the plane, child to parent."""
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _symmetric(upper: np.ndarray) -> np.ndarray:
    """Return the matrix of which Pinocchio has the upper triangle."""
    return np.triu(upper) + np.triu(upper, 1).T


class Pinocchio:
    """A catena model in Pinocchio; its results are in catena's coordinates, with passive joint forces."""

    def __init__(self, m: Mechanism) -> None:
        self.m, self.at = m, {link.name: (at_q, at_v) for link, at_q, at_v in m.slices()}
        self.pinocchio = pinocchio = importlib.import_module("pinocchio")
        self.model = pinocchio.Model()
        self.model.gravity.linear = np.array(m.gravity)
        carried = {"ground": (0, pinocchio.SE3.Identity())}
        armature = []
        for link in _depth_first(m):
            parent, offset = carried[link.parent]
            place = offset * pinocchio.SE3(link.at.R, link.at.p)
            inertia = pinocchio.Inertia(link.body.mass, np.array(link.body.com), np.array(link.body.inertia))
            within = pinocchio.SE3(link.outer.R, link.outer.p).inverse()  # the body's frame in that of its joint
            if isinstance(link.joint, Fixed):
                carried[link.name] = (parent, place * within)
                if parent:
                    self.model.appendBodyToJoint(parent, inertia, place * within)
                continue
            index = self.model.addJoint(parent, self._joint(link.joint), place, link.name)
            self.model.appendBodyToJoint(index, inertia, within)
            carried[link.name] = (index, within)
            armature += [*link.joint.armature]
        self.model.armature = np.array(armature)
        self.carried = carried
        self.data = self.model.createData()
        self.turns: list[tuple[int, np.ndarray]] = []  # of planar joints: the angle, and W
        for _, _, at in (slices for slices in m.slices() if isinstance(slices[0].joint, Planar)):
            W = np.zeros((m.nv, m.nv))
            W[at.start, at.start + 1], W[at.start + 1, at.start] = -1.0, 1.0
            self.turns.append((at.start + 2, W))

    def _joint(self, joint: Joint) -> Any:
        if type(joint) not in _JOINTS:
            raise ModelError(f"Pinocchio has no {joint.kind} joint; compare a model without")
        name, *parameters = _JOINTS[type(joint)]
        given = [getattr(joint, parameter) for parameter in parameters]
        return getattr(self.pinocchio, f"JointModel{name}")(*(np.array(x) if isinstance(x, tuple) else x for x in given))

    def state(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return Pinocchio's q, T and dT/dt v."""
        position, T, drift = np.zeros(self.model.nq), np.zeros((self.model.nv, self.m.nv)), np.zeros(self.model.nv)
        for link in self.m.links:
            if isinstance(link.joint, Fixed):
                continue
            (at_q, at_v), joint = self.at[link.name], self.model.joints[self.carried[link.name][0]]
            ours, rates = q[at_q], v[at_v]
            rows = slice(joint.idx_v, joint.idx_v + joint.nv)
            block, bias = np.eye(joint.nv), np.zeros(joint.nv)
            if isinstance(link.joint, Planar):  # q = (x, y, cos, sin); its rates are in the child's axes
                theirs = [*ours[:2], np.cos(ours[2]), np.sin(ours[2])]
                block[:2, :2] = _plane(ours[2]).T
                bias[:2] = -rates[2] * np.array([[0.0, -1.0], [1.0, 0.0]]) @ _plane(ours[2]).T @ rates[:2]
            elif isinstance(link.joint, Spherical):
                theirs = ours[[1, 2, 3, 0]]
            elif isinstance(link.joint, Free):  # linear first
                theirs = ours[[0, 1, 2, 4, 5, 6, 3]]
                block = block[[3, 4, 5, 0, 1, 2]]
            else:
                theirs = ours
            position[joint.idx_q : joint.idx_q + joint.nq] = theirs
            T[rows, at_v], drift[rows] = block, bias
        return position, T, drift

    def results(self, kernel: str, states: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        """Return the outputs of a kernel at some states, by Pinocchio."""
        functions: dict[str, tuple[Callable[..., Any], str]] = {
            "forward_dynamics": (self.forward, "q v tau"), "inverse_dynamics": (self.inverse, "q v vdot"),
            "mass_matrix": (self.mass_matrix, "q"), "poses": (self.poses, "q"),
            "forward_dynamics_derivatives": (self.forward_derivatives, "q v tau"),
            "inverse_dynamics_derivatives": (self.inverse_derivatives, "q v vdot"),
        }  # fmt: skip
        function, names = functions[kernel]
        each = [function(*state) for state in zip(*(states[name] for name in names.split()), strict=True)]
        return tuple(np.stack(outputs) for outputs in zip(*(x if isinstance(x, tuple) else (x,) for x in each), strict=True))

    def forward(self, q: Any, v: Any, tau: Any) -> np.ndarray:
        position, T, drift = self.state(q, v)
        theirs = self.pinocchio.aba(self.model, self.data, position, T @ v, T @ (tau + self._passive(q, v)))  # T is orthogonal
        return T.T @ (theirs - drift)

    def inverse(self, q: Any, v: Any, vdot: Any) -> np.ndarray:
        position, T, drift = self.state(q, v)
        return T.T @ self.pinocchio.rnea(self.model, self.data, position, T @ v, T @ vdot + drift) - self._passive(q, v)

    def forward_derivatives(self, q: Any, v: Any, tau: Any) -> tuple[np.ndarray, ...]:
        """Return vdot and its derivatives by q, v and tau."""
        (position, T, _), (w, w_by_v) = self.state(q, v), self._turning(v)
        tau = tau + self._passive(q, v)
        self.pinocchio.computeABADerivatives(self.model, self.data, position, T @ v, T @ tau)
        by_q, by_v, by_tau = (T.T @ x @ T for x in (self.data.ddq_dq, self.data.ddq_dv, _symmetric(self.data.Minv)))
        theirs = T.T @ self.data.ddq
        for j, W in self.turns:
            by_q[:, j] += W @ theirs - by_v @ W @ v - by_tau @ W @ tau
        force_by_q, force_by_v = self._passive_derivatives(q, v)
        return theirs + w, by_q + by_tau @ force_by_q, by_v + w_by_v + by_tau @ force_by_v, by_tau

    def inverse_derivatives(self, q: Any, v: Any, vdot: Any) -> tuple[np.ndarray, ...]:
        """Return tau and its derivatives by q, v and vdot."""
        (position, T, _), (w, w_by_v) = self.state(q, v), self._turning(v)
        self.pinocchio.computeRNEADerivatives(self.model, self.data, position, T @ v, T @ (vdot - w))
        by_q, by_v, mass = (T.T @ x @ T for x in (self.data.dtau_dq, self.data.dtau_dv, _symmetric(self.data.M)))
        tau = T.T @ self.data.tau
        for j, W in self.turns:
            by_q[:, j] += W @ tau - by_v @ W @ v - mass @ W @ (vdot - w)
        force_by_q, force_by_v = self._passive_derivatives(q, v)
        return tau - self._passive(q, v), by_q - force_by_q, by_v - mass @ w_by_v - force_by_v, mass

    def _turning(self, v: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return w, and its derivative by v."""
        w, by_v = np.zeros(self.m.nv), np.zeros((self.m.nv, self.m.nv))
        for j, W in self.turns:
            w, by_v = w + v[j] * W @ v, by_v + v[j] * W
            by_v[:, j] += W @ v
        return w, by_v

    def _passive(self, q: Any, v: Any) -> np.ndarray:
        return np.asarray(passive_force(self.m.tree(), q, v), dtype=float)

    def _passive_derivatives(self, q: Any, v: Any) -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(x, dtype=float) for x in force_derivatives(self.m.tree(), 0.0, q, v, self.m.rate))

    def mass_matrix(self, q: Any) -> np.ndarray:
        position, T, _ = self.state(q, np.zeros(self.m.nv))
        return T.T @ _symmetric(self.pinocchio.crba(self.model, self.data, position)) @ T

    def poses(self, q: Any) -> np.ndarray:
        position, _, _ = self.state(q, np.zeros(self.m.nv))
        self.pinocchio.forwardKinematics(self.model, self.data, position)
        places = [self.carried[name] for name in self.m.body_names]
        return np.stack([(self.data.oMi[index] * offset).homogeneous for index, offset in places])
