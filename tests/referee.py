"""An independent referee: dynamics in maximal coordinates, solved densely.

Every named body, welded ones too, has six coordinates of its own: the angular velocity and the velocity of its frame's origin, in the
world's axes. Every joint keeps its wrench and its rates as unknowns, and says in the user's frames how its child moves against its parent.
Newton's law for the bodies, the joints' kinematics and the joints' forces make one linear system:

    M A - K^T W    = f            bodies      (A: accelerations, W: wrenches of the joints on their children)
    K A - S vdot   = gamma        kinematics
    S^T W + J vdot = tau          joint forces (J: armatures)

Nothing of catena's spatial algebra, frames or derivatives is used: poses are written out here joint by joint, S comes from them by complex
steps, and the rate of S by differences of eighth order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares

import catena as ct
from catena.model import Joint
from catena.model.spanning_tree import Inverse

COMPLEX_STEP = 1e-100
DIFFERENCE_STEP = 0.005


def relative(a: Any, b: Any, scale: float = 0.0) -> float:
    """Return the largest difference between two arrays, relative to the largest entry of both (or to a larger scale)."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    assert a.shape == b.shape, f"shapes {a.shape} and {b.shape}"
    if a.size == 0:
        return 0.0
    size = max(np.abs(a).max(), np.abs(b).max(), scale)
    return float(np.abs(a - b).max() / size) if size else 0.0


def derivative(function: Callable[[float], Any], step: float = DIFFERENCE_STEP) -> Any:
    """Return the derivative at 0 by differences of eighth order."""
    weights = (4.0 / 5.0, -1.0 / 5.0, 4.0 / 105.0, -1.0 / 280.0)
    return sum(w * (function((i + 1) * step) - function(-(i + 1) * step)) for i, w in enumerate(weights)) / step


def cross(a: Any, b: Any) -> np.ndarray:
    """Return a x b of two vectors, in a tenth of the time that NumPy takes."""
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def hat(a: Any) -> np.ndarray:
    """Return the matrix of a x."""
    return np.array([[0.0 * a[0], -a[2], a[1]], [a[2], 0.0 * a[0], -a[0]], [-a[1], a[0], 0.0 * a[0]]])


def turn(axis: Any, angle: Any) -> np.ndarray:
    """Return the rotation matrix of an angle about a unit axis, by Rodrigues' formula."""
    u = hat(np.asarray(axis, dtype=float))
    return np.eye(3) + np.sin(angle) * u + (1.0 - np.cos(angle)) * (u @ u)


def quaternion_matrix(q: Any) -> np.ndarray:
    """Return the rotation matrix of a quaternion (w, x, y, z)."""
    w, u = q[0], np.asarray(q[1:])
    return (w * w - u @ u) * np.eye(3) + 2.0 * np.outer(u, u) + 2.0 * w * hat(u)


def planar_axes(normal: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the directions of x and y of a Planar joint."""
    n = np.asarray(normal)
    x = np.eye(3)[(int(np.argmax(np.abs(n))) + 1) % 3]
    x = x - (x @ n) * n
    x = x / np.linalg.norm(x)
    return x, cross(n, x)


def joint_pose(joint: Joint, q: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return rotation and origin of the child's frame in the joint frame, as DESIGN §3 says; q may be complex."""
    o, one = np.zeros(3), np.eye(3)
    match joint:
        case ct.Fixed():
            return one, o
        case ct.Revolute():
            return turn(joint.axis, q[0]), o
        case ct.Prismatic():
            return one, q[0] * np.array(joint.axis)
        case ct.Helical():
            return turn(joint.axis, q[0]), joint.pitch * q[0] * np.array(joint.axis)
        case ct.Cylindrical():
            return turn(joint.axis, q[0]), q[1] * np.array(joint.axis)
        case ct.Universal():
            return turn(joint.axis1, q[0]) @ turn(joint.axis2, q[1]), o
        case ct.Planar():
            x, y = planar_axes(joint.axis)
            return turn(joint.axis, q[2]), q[0] * x + q[1] * y
        case ct.Spherical():
            return quaternion_matrix(q), o
        case ct.Free():
            return quaternion_matrix(q[3:]), np.asarray(q[:3])
        case ct.Custom():
            value = joint.function(np.asarray(q))
            if isinstance(joint.function, Inverse):
                return np.asarray(value.R), np.asarray(value.p)
            if isinstance(value, tuple):
                return np.asarray(value[0]), np.asarray(value[1])
            return np.asarray(value)[:3, :3], np.asarray(value)[:3, 3]
    raise NotImplementedError(joint)


def joint_matrix(joint: Joint, q: np.ndarray) -> np.ndarray:
    """Return S: rates to the twist of the child against its parent, at the child's origin in the child's axes."""
    if isinstance(joint, ct.Spherical):
        return np.eye(6)[:, :3]
    if isinstance(joint, ct.Free):
        return np.eye(6)
    columns = []
    for direction in np.eye(joint.nq):
        R, p = joint_pose(joint, q + 1j * COMPLEX_STEP * direction)
        rate = R.real.T @ np.imag(R) / COMPLEX_STEP
        columns.append(np.array([rate[2, 1], rate[0, 2], rate[1, 0], *(R.real.T @ np.imag(p) / COMPLEX_STEP)]))
    return np.array(columns).reshape(-1, 6).T


def joint_bias(joint: Joint, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return dS/dt v at constant rates."""
    if isinstance(joint, (ct.Spherical, ct.Free, ct.Fixed, ct.Revolute, ct.Prismatic, ct.Helical, ct.Cylindrical)):
        return np.zeros(6)  # S is constant in the child's axes
    return derivative(lambda t: joint_matrix(joint, q + t * v) @ v)


def coordinates(joint: Joint, R: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the coordinates at which a joint has a pose; those of a spherical joint do not matter."""
    if isinstance(joint, (ct.Fixed, ct.Spherical)):
        return joint.neutral()
    found = nearest(joint, R, p)
    assert distance(joint, found, R, p) < 1e-7, "the joint frames are not where the joint allows"
    return found


def distance(joint: Joint, s: np.ndarray, R: np.ndarray, p: np.ndarray) -> float:
    """Return how far a joint is from a pose."""
    turned, moved = joint_pose(joint, s)
    return float(max(np.abs(turned - R).max(), np.abs(moved - p).max()))


def nearest(joint: Joint, R: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the coordinates at which a joint comes nearest to a pose: by formulas, or by least squares from many starts."""
    match joint:
        case ct.Fixed():
            return np.zeros(0)
        case ct.Revolute():
            return np.array([angle(joint.axis, R)])
        case ct.Prismatic():
            return np.array([np.array(joint.axis) @ p])
        case ct.Helical():
            turned, along = angle(joint.axis, R), np.array(joint.axis) @ p
            return np.array([turned + 2.0 * np.pi * np.round((along / joint.pitch - turned) / (2.0 * np.pi)) if joint.pitch else turned])
        case ct.Cylindrical():
            return np.array([angle(joint.axis, R), np.array(joint.axis) @ p])
        case ct.Planar():
            x, y = planar_axes(joint.axis)
            return np.array([x @ p, y @ p, angle(joint.axis, R)])

    def left(s: np.ndarray) -> np.ndarray:
        turned, moved = joint_pose(joint, s)
        return np.concatenate([(turned - R).ravel(), moved - p])

    rng, best = np.random.default_rng(0), None
    for start in (np.zeros(joint.nq), *rng.normal(scale=6.0, size=(300, joint.nq))):
        found = least_squares(left, start, xtol=1e-15, ftol=1e-15, gtol=1e-15)
        if best is None or found.cost < best.cost:
            best = found
        if np.abs(found.fun).max() < 1e-7 or (isinstance(joint, ct.Universal) and found.cost < 1e-3):
            break
    assert best is not None
    return best.x


def angle(axis: Any, R: np.ndarray) -> float:
    """Return the angle about an axis by which a rotation turns."""
    u = np.asarray(axis, dtype=float)
    skew = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    return float(np.arctan2(0.5 * u @ skew, 0.5 * (np.trace(R) - u @ R @ u)))


def rotation_vector(R: np.ndarray) -> np.ndarray:
    """Return the rotation vector of a rotation less than half a turn."""
    axis = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    sine, cosine = 0.5 * np.linalg.norm(axis), 0.5 * (np.trace(R) - 1.0)
    return axis * (np.arctan2(sine, cosine) / (2.0 * sine) if sine > 0.0 else 0.5)


def deflection(joint: Joint, q: np.ndarray) -> np.ndarray:
    """Return how far a joint is from rest, along its rates."""
    rest = joint.neutral() if joint.rest is None else np.array(joint.rest)
    if isinstance(joint, ct.Spherical):
        return rotation_vector(quaternion_matrix(rest).T @ quaternion_matrix(q))
    if isinstance(joint, ct.Free):
        R = quaternion_matrix(q[3:])
        return np.concatenate([rotation_vector(quaternion_matrix(rest[3:]).T @ R), R.T @ (q[:3] - rest[:3])])
    return q - rest


class Motion(NamedTuple):
    """What the referee knows of every body at a state, in the world's axes."""

    R: list[np.ndarray]
    p: list[np.ndarray]
    omega: list[np.ndarray]
    v: list[np.ndarray]


class Referee:
    """A model in maximal coordinates."""

    def __init__(self, m: ct.Model) -> None:
        self.m = m
        self.links = m.links
        self.index = {link.name: i for i, link in enumerate(self.links)}
        self.parent = [self.index.get(link.parent, -1) for link in self.links]
        self.n = len(self.links)
        self.q_at, self.v_at = [], []
        at_q = at_v = 0
        for link in self.links:
            self.q_at.append(slice(at_q, at_q + link.joint.nq))
            self.v_at.append(slice(at_v, at_v + link.joint.nv))
            at_q, at_v = at_q + link.joint.nq, at_v + link.joint.nv
        self.nv = at_v
        self.gravity = np.array(m.gravity)
        self.armature = self._options("armature")

    def _options(self, name: str) -> np.ndarray:
        return np.array([x for link in self.links for x in getattr(link.joint, name)], dtype=float)

    def motion(self, q: np.ndarray, v: np.ndarray) -> Motion:
        """Return poses and velocities of all bodies; the last entry is the ground's."""
        n = self.n
        R, p, omega, velocity = ([np.zeros(3)] * (n + 1) for _ in range(4))
        R[-1] = np.eye(3)
        for i, link in enumerate(self.links):
            k = self.parent[i]
            turned, moved = joint_pose(link.joint, q[self.q_at[i]])
            frame, to_frame = R[k] @ link.at.R @ turned, R[k] @ (link.at.p + link.at.R @ moved)  # of the joint, on the child
            R[i] = frame @ link.outer.R.T
            arm = R[i] @ link.outer.p
            p[i] = p[k] + to_frame - arm
            twist = joint_matrix(link.joint, q[self.q_at[i]]) @ v[self.v_at[i]]
            omega[i] = omega[k] + frame @ twist[:3]
            velocity[i] = velocity[k] + cross(omega[k], to_frame) + frame @ twist[3:] - cross(omega[i], arm)
        return Motion(R, p, omega, velocity)

    def poses(self, q: np.ndarray) -> np.ndarray:
        """Return the 4 x 4 poses of all bodies in the world."""
        at = self.motion(q, np.zeros(self.nv))
        result = np.tile(np.eye(4), (self.n, 1, 1))
        result[:, :3, :3], result[:, :3, 3] = np.array(at.R[:-1]), np.array(at.p[:-1])
        return result

    def kinematics(self, q: np.ndarray, v: np.ndarray, at: Motion) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return K, S and gamma: every joint says K A - S vdot = gamma about the accelerations A of the bodies."""
        K, S, gamma = np.zeros((6 * self.n, 6 * self.n)), np.zeros((6 * self.n, self.nv)), np.zeros(6 * self.n)
        for i, link in enumerate(self.links):
            rows, k = slice(6 * i, 6 * i + 6), self.parent[i]
            _, R, p, velocity, T, acceleration = self._frame(at, link.name, link.outer)
            local = joint_matrix(link.joint, q[self.q_at[i]])
            twist, drift = local @ v[self.v_at[i]], joint_bias(link.joint, q[self.q_at[i]], v[self.v_at[i]])
            turned = np.kron(np.eye(2), R)
            S[rows, self.v_at[i]] = turned @ local
            gamma[rows] = turned @ drift + np.concatenate([cross(at.omega[i], part) for part in (turned @ twist).reshape(2, 3)])
            gamma[rows.start + 3 : rows.stop] += cross(at.omega[k], velocity - at.v[k]) - acceleration
            K[rows, rows] = T
            if k >= 0:
                K[rows, 6 * k : 6 * k + 6] = -np.block([[np.eye(3), np.zeros((3, 3))], [-hat(p - at.p[k]), np.eye(3)]])
        return K, S, gamma

    def inertias(self, at: Motion) -> tuple[np.ndarray, np.ndarray]:
        """Return M and f: every body says M A = f + wrenches, at its origin."""
        M, f = np.zeros((6 * self.n, 6 * self.n)), np.zeros(6 * self.n)
        for i, link in enumerate(self.links):
            rows, mass = slice(6 * i, 6 * i + 6), link.body.mass
            rho, omega = at.R[i] @ np.array(link.body.com), at.omega[i]
            about_com = at.R[i] @ link.body.inertia @ at.R[i].T
            M[rows, rows] = np.block([[about_com - mass * hat(rho) @ hat(rho), mass * hat(rho)], [-mass * hat(rho), mass * np.eye(3)]])
            force = mass * (self.gravity - cross(omega, cross(omega, rho)))
            f[rows] = np.concatenate([cross(rho, force) - cross(omega, about_com @ omega), force])
        return M, f

    def deflections(self, q: np.ndarray) -> list[np.ndarray]:
        """Return how far every joint is from rest."""
        return [deflection(link.joint, q[at]) for link, at in zip(self.links, self.q_at, strict=True)]

    def passive(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the joints' own forces: springs, dampers and friction."""
        stretch = np.concatenate(self.deflections(q))
        friction = self._options("friction") * v / np.sqrt(v**2 + self.m.friction_speed**2)
        return -self._options("damping") * v - self._options("stiffness") * stretch - friction + self.stops(q, v)[0]

    def stops(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the joint forces of the stops and their potential energy."""
        force, energy = np.zeros(self.nv), 0.0
        for i, link in enumerate(self.links):
            for c, (lower, upper) in enumerate(link.joint.limits or ()):  # type: ignore[arg-type]
                x, rate, at = q[self.q_at[i]][c], v[self.v_at[i]][c], self.v_at[i].start + c
                stiffness, damping = link.joint.stop_stiffness[c], link.joint.stop_damping[c]
                if lower is not None and x < lower:
                    force[at] += max(0.0, stiffness * (lower - x) * (1.0 - damping * rate))
                    energy += 0.5 * stiffness * (lower - x) ** 2
                if upper is not None and x > upper:
                    force[at] -= max(0.0, stiffness * (x - upper) * (1.0 + damping * rate))
                    energy += 0.5 * stiffness * (x - upper) ** 2
        return force, energy

    def place(self, at: Motion, body: str, point: Any) -> tuple[int, np.ndarray, np.ndarray]:
        """Return the index of a body, and position and velocity of a point of it in the world."""
        i = self.index.get(body, -1)
        arm = at.R[i] @ np.array(point)
        return i, at.p[i] + arm, at.v[i] + cross(at.omega[i], arm)

    def loads(self, t: float, q: np.ndarray, v: np.ndarray, at: Motion) -> tuple[np.ndarray, np.ndarray]:
        """Return what springs and forces do: wrenches on all bodies at their origins, in the world's axes (6 n), and joint forces."""
        wrenches, joint_force = np.zeros((self.n + 1, 6)), np.zeros(self.nv)  # the last row is the ground's
        for spring in self.m.springs:
            a, xa, va = self.place(at, spring.a, spring.at_a)
            b, xb, vb = self.place(at, spring.b, spring.at_b)
            distance = np.linalg.norm(xb - xa)
            along = (xb - xa) / distance
            pull = (spring.stiffness * (distance - spring.length) + spring.damping * along @ (vb - va)) * along
            wrenches[a] += np.concatenate([cross(xa - at.p[a], pull), pull])
            wrenches[b] -= np.concatenate([cross(xb - at.p[b], pull), pull])
        for force in self.m.forces:
            value = np.asarray(force.function(t, q, v), dtype=float)
            if force.body is None:
                joint_force += value
                continue
            i, x, _ = self.place(at, force.body, force.point)
            moment, pull = (np.zeros(3), value) if value.shape == (3,) else (value[:3], value[3:])
            wrenches[i] += np.concatenate([moment + cross(x - at.p[i], pull), pull])
        return wrenches[:-1].ravel(), joint_force

    def forward(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray, t: float = 0.0) -> np.ndarray:
        """Return vdot, from the dense system of all bodies and joints."""
        return self.solve(q, v, tau, t)[0]

    def solve(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray, t: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return vdot, the accelerations of the bodies (n, 6) and the wrenches of the joints on their children (n, 6)."""
        at = self.motion(q, v)
        K, S, gamma = self.kinematics(q, v, at)
        M, f = self.inertias(at)
        n, nv = 6 * self.n, self.nv
        system = np.block([
            [M, -K.T, np.zeros((n, nv))],
            [K, np.zeros((n, n)), -S],
            [np.zeros((nv, n)), S.T, np.diag(self.armature)],
        ])  # fmt: skip
        wrenches, joint_force = self.loads(t, q, v, at)
        solution = np.linalg.solve(system, np.concatenate([f + wrenches, gamma, tau + joint_force + self.passive(q, v)]))
        return solution[2 * n :], solution[:n].reshape(-1, 6), solution[n : 2 * n].reshape(-1, 6)

    def forward_with_loops(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray, t: float = 0.0) -> np.ndarray:
        """Return vdot of a mechanism with loops."""
        return self.solve_with_loops(q, v, tau, t)[0]

    def solve_with_loops(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray, t: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Return vdot of a mechanism with loops, and the wrenches of all joints, as `ct.joint_wrenches` does: one of many where constraints
        are redundant. Closing joints have wrenches and rates of their own, like the others; by least squares.
        """
        at = self.motion(q, v)
        K, S, gamma = self.kinematics(q, v, at)
        M, f = self.inertias(at)
        closing = [self.closing(loop, at) for loop in self.m.loops]
        Kc, gc = np.vstack([np.zeros((0, 6 * self.n)), *(c[0] for c in closing)]), np.concatenate([np.zeros(0), *(c[2] for c in closing)])
        Sc = np.zeros((len(gc), sum(c[1].shape[1] for c in closing)))
        row = column = 0
        for rows, own, _ in closing:
            Sc[row : row + len(rows), column : column + own.shape[1]] = own
            row, column = row + len(rows), column + own.shape[1]
        C = np.array([[dict(c.coefficients).get(name, 0.0) for name in self._plain_names()] for c in self.m.couplings]).reshape(-1, self.nv)
        n, nv, w, s, c = 6 * self.n, self.nv, *Sc.shape, len(C)
        zero = np.zeros
        system = np.block([
            [M, -K.T, zero((n, nv)), -Kc.T, zero((n, s)), zero((n, c))],
            [K, zero((n, n)), -S, zero((n, w)), zero((n, s)), zero((n, c))],
            [zero((nv, n)), S.T, np.diag(self.armature), zero((nv, w)), zero((nv, s)), -C.T],
            [Kc, zero((w, n)), zero((w, nv)), zero((w, w)), -Sc, zero((w, c))],
            [zero((s, n)), zero((s, n)), zero((s, nv)), Sc.T, zero((s, s)), zero((s, c))],
            [zero((c, n)), zero((c, n)), C, zero((c, w)), zero((c, s)), zero((c, c))],
        ])  # fmt: skip
        wrenches, joint_force = self.loads(t, q, v, at)
        right = np.concatenate([f + wrenches, gamma, tau + joint_force + self.passive(q, v), gc, np.zeros(s + c)])
        solution = np.linalg.lstsq(system, right, rcond=1e-12)[0]
        assert relative(system @ solution, right, scale=np.abs(right).max()) < 1e-8
        wrenches, row = [], 2 * n + nv
        for link, own in zip(self.links, solution[n : 2 * n].reshape(-1, 6), strict=True):
            wrenches.append(np.kron(np.eye(2), self._frame(at, link.name, link.outer)[1].T) @ own)
        for loop, (rows, _, _) in zip(self.m.loops, closing, strict=True):
            (_, _, pa, *_), (_, R, pb, *_) = (self._frame(at, *end) for end in ((loop.a, loop.at_a), (loop.b, loop.at_b)))
            own = solution[row : row + len(rows)]
            own = np.concatenate([np.zeros(3), own[0] * (pb - pa)]) if isinstance(loop.joint, ct.Distance) else own
            wrenches.append(np.kron(np.eye(2), R.T) @ own)
            row += len(rows)
        return solution[2 * n : 2 * n + nv], np.array(wrenches)

    def _plain_names(self) -> list[str]:
        """Return a name for every velocity coordinate: that of its position, where the two go together."""
        names, at = [], 0
        for link in self.links:
            own = self.m.q_names[at : at + link.joint.nq]
            names += own if link.joint.nq == link.joint.nv else [""] * link.joint.nv
            at += link.joint.nq
        return names

    def closing(self, loop: Any, at: Motion) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return K, S and gamma of a closing joint: K A - S rates = gamma about the accelerations A of the bodies."""
        (a, Ra, pa, va, Ta, da), (b, Rb, pb, vb, Tb, db) = (
            self._frame(at, *end) for end in ((loop.a, loop.at_a), (loop.b, loop.at_b))
        )
        K = np.zeros((6, 6 * self.n + 6))  # the last six columns are the ground's
        if isinstance(loop.joint, ct.Distance):
            d, rate = pb - pa, vb - va
            K[:, 6 * b : 6 * b + 6 or None] += Tb
            K[:, 6 * a : 6 * a + 6 or None] -= Ta
            along = np.concatenate([np.zeros(3), d])
            return (along @ K)[None, :-6], np.zeros((1, 0)), np.array([-rate @ rate - d @ (db - da)])
        joint = loop.joint
        s = coordinates(joint, Ra.T @ Rb, Ra.T @ (pb - pa))
        local = joint_matrix(joint, s)
        omega_a, omega_b = at.omega[a], at.omega[b]
        turned = np.kron(np.eye(2), Rb)
        twist = turned.T @ np.concatenate([omega_b - omega_a, vb - va - cross(omega_a, pb - pa)])
        rates = np.linalg.lstsq(local, twist, rcond=None)[0] if local.size else np.zeros(0)
        assert np.abs(local @ rates - twist).max() < 1e-7 * (1.0 + np.abs(twist).max()), "the velocity opens the loop"
        gamma = turned @ joint_bias(joint, s, rates)
        gamma += np.concatenate([cross(omega_b, part) for part in (turned @ twist).reshape(2, 3)])
        gamma[3:] += cross(omega_a, vb - va) - (db - da)
        shift = np.block([[np.eye(3), np.zeros((3, 3))], [-hat(pb - pa), np.eye(3)]])
        K[:, 6 * b : 6 * b + 6 or None] += Tb
        K[:, 6 * a : 6 * a + 6 or None] -= shift @ Ta
        return K[:, :-6], turned @ local, gamma

    def _frame(self, at: Motion, body: str, pose: Any) -> tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return a frame on a body: the body's index, rotation, origin and its velocity; its acceleration is T (A of the body) + drift."""
        i = self.index.get(body, self.n)
        k = i if i < self.n else -1
        arm, omega = at.R[k] @ pose.p, at.omega[k]
        T = np.block([[np.eye(3), np.zeros((3, 3))], [-hat(arm), np.eye(3)]])
        drift = cross(omega, cross(omega, arm))
        return i, at.R[k] @ pose.R, at.p[k] + arm, at.v[k] + cross(omega, arm), T, drift

    def jacobian(self, q: np.ndarray) -> np.ndarray:
        """Return the matrix from v to the twists of all bodies, (n, 6, nv)."""
        at = self.motion(q, np.zeros(self.nv))
        K, S, _ = self.kinematics(q, np.zeros(self.nv), at)
        return np.linalg.solve(K, S).reshape(self.n, 6, self.nv)

    def mass_matrix(self, q: np.ndarray) -> np.ndarray:
        """Return the mass matrix: the bodies' inertias, projected on the joints."""
        M, _ = self.inertias(self.motion(q, np.zeros(self.nv)))
        J = self.jacobian(q).reshape(6 * self.n, self.nv)
        return J.T @ M @ J + np.diag(self.armature)

    def inverse(self, q: np.ndarray, v: np.ndarray, vdot: np.ndarray, t: float = 0.0) -> np.ndarray:
        """Return the joint forces that give vdot."""
        at = self.motion(q, v)
        K, S, gamma = self.kinematics(q, v, at)
        M, f = self.inertias(at)
        A = np.linalg.solve(K, S @ vdot + gamma)
        wrenches, joint_force = self.loads(t, q, v, at)
        return S.T @ np.linalg.solve(K.T, M @ A - f - wrenches) + self.armature * vdot - joint_force - self.passive(q, v)

    def energy(self, q: np.ndarray, v: np.ndarray) -> tuple[float, float]:
        """Return the kinetic and the potential energy."""
        at = self.motion(q, v)
        kinetic, potential = 0.5 * self.armature @ v**2, 0.5 * self._options("stiffness") @ np.concatenate(self.deflections(q)) ** 2
        for i, link in enumerate(self.links):
            mass, rho = link.body.mass, at.R[i] @ np.array(link.body.com)
            speed, local = at.v[i] + cross(at.omega[i], rho), at.R[i].T @ at.omega[i]
            kinetic += 0.5 * (mass * speed @ speed + local @ link.body.inertia @ local)
            potential -= mass * self.gravity @ (at.p[i] + rho)
        for spring in self.m.springs:
            distance = np.linalg.norm(self.place(at, spring.b, spring.at_b)[1] - self.place(at, spring.a, spring.at_a)[1])
            potential += 0.5 * spring.stiffness * (distance - spring.length) ** 2
        return float(kinetic), float(potential + self.stops(q, v)[1])

    def momentum(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the angular momentum about the world's origin and the linear momentum of all bodies."""
        at = self.motion(q, v)
        total = np.zeros(6)
        for i, link in enumerate(self.links):
            mass, rho = link.body.mass, at.R[i] @ np.array(link.body.com)
            linear = mass * (at.v[i] + cross(at.omega[i], rho))
            spin = at.R[i] @ link.body.inertia @ at.R[i].T @ at.omega[i]
            total += np.concatenate([spin + cross(at.p[i] + rho, linear), linear])
        return total
