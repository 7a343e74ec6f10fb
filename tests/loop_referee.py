"""An independent referee of loops: what the constraints of a mechanism leave it at a configuration, and how it moves, by singular values.

Unknowns are the rates of all joints, those that close loops too; a closing joint says that its two ends move against each other as the
joint allows. Rank and null space come from the singular values of these equations, in radians and in sizes of the mechanism, which the
caller knows; masses have no part in it. Everything comes from `referee`; of catena's own code, only the positions that rates lead to.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from tests.referee import Referee, coordinates, derivative, hat, joint_matrix, joint_pose, nearest, rotation_vector

import catena as ct

#: Singular values below this part of the largest are zero, and those above the second are not; between the two the rank is not clear.
NONE, CLEAR = 1e-9, 1e-4

#: A step to a neighbour, and how close Newton's steps bring it to the loops.
STEP, CLOSED = 0.02, 1e-11


class LoopReferee(Referee):
    """A model with loops in maximal coordinates, of a size [m]."""

    def __init__(self, m: ct.Model, size: float) -> None:
        super().__init__(m)
        self.size = size
        units = np.array(m.v_units)
        self.reach = np.where(units == "m/s", size, 1.0)
        own = [("m/s" if unit == "m/s" else "") for loop in m.loops for unit in _rate_units(loop.joint)]
        self.closing_reach = np.where(np.array(own, dtype=object) == "m/s", size, 1.0)

    def at(self, q: np.ndarray) -> Configuration:
        """Return what is known of a configuration."""
        return Configuration(self, np.asarray(q, dtype=float))


def _rate_units(joint: Any) -> tuple[str, ...]:
    return () if isinstance(joint, ct.Distance) else joint.v_units


class Configuration:
    """The constraints at a configuration that closes the loops: their singular values, null space, and the motions in it."""

    def __init__(self, referee: LoopReferee, q: np.ndarray) -> None:
        self.referee, self.q, m = referee, q, referee.m
        motion = referee.motion(q, np.zeros(referee.nv))
        bodies = referee.jacobian(q).reshape(6 * referee.n, referee.nv)
        closing = [referee.closing(loop, motion) for loop in m.loops]
        rows, at = [], 0
        width = len(referee.closing_reach)
        for K, S, _ in closing:
            row = np.zeros((len(K), referee.nv + width))
            row[:, : referee.nv] = K @ bodies
            row[:, referee.nv + at : referee.nv + at + S.shape[1]] = -S
            at += S.shape[1]
            lengths = [referee.size**2] if len(K) == 1 else [1.0] * 3 + [referee.size] * 3
            rows.append(row / np.array(lengths)[:, None])
        for coupling in m.couplings:
            row = np.zeros((1, referee.nv + width))
            names = referee._plain_names()
            for name, c in coupling.coefficients:
                row[0, names.index(name)] = c
            rows.append(row / np.abs(row[0, : referee.nv] * referee.reach).max())
        self.bodies, self.scale = bodies, np.concatenate([referee.reach, referee.closing_reach])
        self.J = np.vstack(rows) * self.scale
        self.left, self.values, self.right = np.linalg.svd(self.J)

    @cached_property
    def rank(self) -> int:
        """How many constraints are independent, of all joints."""
        return int(np.count_nonzero(self.values > np.sqrt(NONE * CLEAR) * self.values.max(initial=0.0)))

    @cached_property
    def clear(self) -> bool:
        """Whether no singular value is small without being zero."""
        part = self.values / max(self.values.max(initial=0.0), 1e-300)
        return not ((part > NONE) & (part < CLEAR)).any() and self._clear_basis

    @cached_property
    def _directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Directions of the rates of the tree, and how much of them the loops leave."""
        along, sizes, _ = np.linalg.svd(self.right[self.rank :].T[: self.referee.nv])
        return along, sizes

    @property
    def _clear_basis(self) -> bool:
        sizes = self._directions[1]
        return not ((sizes > NONE) & (sizes < 1e-3)).any()

    @cached_property
    def basis(self) -> np.ndarray:
        """Orthonormal motions of the tree that keep the loops closed, without units (nv, freedom)."""
        along, sizes = self._directions
        return along[:, : np.count_nonzero(sizes > 1e-6)]

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the null space."""
        return self.basis.shape[1]

    @cached_property
    def conditioning(self) -> float:
        """How many times errors of the constraints grow in the motion, at most."""
        return float(self.values.max(initial=1.0) / self.values[self.rank - 1]) if self.rank else 1.0

    def velocity(self, x: np.ndarray) -> np.ndarray:
        """Return the velocity that keeps the loops closed and is nearest to x, without units."""
        reach = self.referee.reach
        return reach * (self.basis @ (self.basis.T @ (x / reach)))

    @cached_property
    def mass(self) -> np.ndarray:
        """The mass matrix of the tree, without units of length."""
        return self.referee.mass_matrix(self.q) * np.outer(self.referee.reach, self.referee.reach)

    @cached_property
    def mass_conditioning(self) -> float:
        """The condition number of the mass matrix on the motions, and against the whole: masses that hardly resist a motion."""
        if not self.freedom:
            return 1.0
        own = np.linalg.eigvalsh(self.basis.T @ self.mass @ self.basis)
        return float(np.abs(self.mass).max() / max(own[0], 1e-300))

    def particular(self, v: np.ndarray) -> tuple[np.ndarray, float]:
        """Return an acceleration without units that keeps the loops closed at the velocity v, and what it leaves of the constraints."""
        referee = self.referee
        motion = referee.motion(self.q, v)
        K, _, gamma = referee.kinematics(self.q, v, motion)
        drift = np.linalg.solve(K, gamma)
        right = []
        for loop in referee.m.loops:
            own, _, g = referee.closing(loop, motion)
            lengths = [referee.size**2] if len(own) == 1 else [1.0] * 3 + [referee.size] * 3
            right.append((g - own @ drift) / np.array(lengths))
        g = np.concatenate([*right, np.zeros(len(referee.m.couplings))])
        r = self.rank
        x = self.right[:r].T @ ((self.left[:, :r].T @ g) / self.values[:r])
        rest = np.abs(self.left[:, r:].T @ g).max(initial=0.0)
        return x[: referee.nv], float(rest / (np.abs(g).max(initial=0.0) + np.abs(v / referee.reach).max(initial=0.0) ** 2 + 1e-300))

    def force(self, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """Return the joint forces without units of length that tau leaves at vdot = 0."""
        return self.referee.reach * (tau - self.referee.inverse(self.q, v, np.zeros(self.referee.nv)))

    def accelerations(self, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """Return vdot under joint forces."""
        x, _ = self.particular(v)
        N, M = self.basis, self.mass
        z = np.linalg.solve(N.T @ M @ N, N.T @ (self.force(v, tau) - M @ x)) if self.freedom else np.zeros(0)
        return self.referee.reach * (x + N @ z)

    def reactions(self, v: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the wrenches of all joints, those that close loops last, and which components all solutions share.

        Moments and forces of the parent on the body, in the child's joint frame; those of body a on body b in the joint frame on b.
        """
        referee, m, q = self.referee, self.referee.m, self.q
        vdot = self.accelerations(v, tau)
        motion = referee.motion(q, v)
        K, S, gamma = referee.kinematics(q, v, motion)
        A = np.linalg.solve(K, S @ vdot + gamma)
        M, f = referee.inertias(motion)
        wrenches, joint_force = referee.loads(0.0, q, v, motion)
        count, bodies = len(referee.links) + len(m.loops), referee.n
        on = np.zeros((bodies + 1, 6, count, 6))  # on bodies, the ground last, of wrenches
        rows, right = [], []
        force = tau + joint_force + referee.passive(q, v) - referee.armature * vdot
        couplings = np.zeros((referee.nv, len(m.couplings)))
        for c, coupling in enumerate(m.couplings):
            for name, x in coupling.coefficients:
                couplings[referee._plain_names().index(name), c] = x
        for j, (b, a, at_b) in enumerate(
            [(link.name, link.parent, link.outer) for link in referee.links] + [(loop.b, loop.a, loop.at_b) for loop in m.loops]
        ):
            _, R, p, *_ = referee._frame(motion, b, at_b)
            for body, sign in ((b, 1.0), (a, -1.0)):
                i = referee.index.get(body, -1)
                on[i, :3, j, :3] += sign * R
                on[i, :3, j, 3:] += sign * hat(p - motion.p[i]) @ R
                on[i, 3:, j, 3:] += sign * R
        columns = count * 6
        newton = on[:-1].reshape(6 * bodies, columns)
        scale = np.tile([referee.size] * 3 + [1.0] * 3, count)  # unknown moments by the size of the mechanism
        lengths = np.tile([referee.size] * 3 + [1.0] * 3, bodies)
        rows.append(np.hstack([newton * scale / lengths[:, None], np.zeros((6 * bodies, couplings.shape[1]))]))
        right.append((M @ A - f - wrenches) / lengths)
        for j, link in enumerate(referee.links):
            own = joint_matrix(link.joint, q[referee.q_at[j]])
            at = referee.v_at[j]
            row = np.zeros((own.shape[1], columns))
            row[:, 6 * j : 6 * j + 6] = own.T
            rows.append(np.hstack([row * scale, -couplings[at]]) * (referee.reach[at] / referee.size)[:, None])
            right.append(force[at] * referee.reach[at] / referee.size)
        for j, loop in enumerate(m.loops, len(referee.links)):
            _, Ra, pa, *_ = referee._frame(motion, loop.a, loop.at_a)
            _, Rb, pb, *_ = referee._frame(motion, loop.b, loop.at_b)
            if isinstance(loop.joint, ct.Distance):
                along = Rb.T @ (pb - pa)
                across = np.linalg.svd(along[None])[2][1:]
                own = np.block([[np.eye(3), np.zeros((3, 3))], [np.zeros((2, 3)), across]]).T
            else:
                own = joint_matrix(loop.joint, coordinates(loop.joint, Ra.T @ Rb, Ra.T @ (pb - pa)))
            row = np.zeros((own.shape[1], columns))
            row[:, 6 * j : 6 * j + 6] = own.T * scale[:6]
            row = row / np.maximum(np.linalg.norm(row, axis=1, keepdims=True), 1e-300)
            rows.append(np.hstack([row, np.zeros((len(row), couplings.shape[1]))]))
            right.append(np.zeros(len(row)))
        matrix, known = np.vstack(rows), np.concatenate(right)
        left, sizes, across = np.linalg.svd(matrix)
        rank = int(np.count_nonzero(sizes > 1e-8 * sizes[0]))
        solution = across[:rank].T @ ((left[:, :rank].T @ known) / sizes[:rank])
        free = np.abs(across[rank:]).max(axis=0, initial=0.0)[:columns]
        return (solution[:columns] * scale).reshape(count, 6), (free < 1e-7).reshape(count, 6)

    @cached_property
    def regular(self) -> bool | None:
        """Whether the constraints have the same rank nearby; None where that cannot be told.

        Neighbours along several directions of the null space are put on the loops by Newton's steps.
        """
        rng, found = np.random.default_rng(0), []
        if not self.freedom:
            return True
        for size in (STEP, 0.3 * STEP):
            for _ in range(0 if found else 3):
                direction = self.basis @ rng.normal(size=self.freedom)
                other = self._neighbour(size * direction / np.abs(direction).max())
                if other is not None and other.clear:
                    found.append(other.rank)
        if not found:
            return None
        if max(found) > self.rank:
            return False
        return True if min(found) == self.rank else None

    def _neighbour(self, step: np.ndarray) -> Configuration | None:
        """Return a configuration that closes the loops, a step away."""
        referee = self.referee
        q = referee.m.integrate(self.q, referee.reach * step)
        for _ in range(12):
            try:
                residual, J = closure(referee, q)
            except AssertionError:
                return None
            if np.abs(residual).max(initial=0.0) < CLOSED:
                return referee.at(q)
            change = np.linalg.lstsq(J, -residual, rcond=1e-7)[0]
            if np.abs(change).max() > 0.5 * STEP:
                return None
            q = referee.m.integrate(q, referee.reach * change)
        return None


def closure(referee: LoopReferee, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what is between the ends of all loops, without units, and its Jacobian on the rates of the tree.

    Closing joints are put where they come nearest to their ends; what they can do themselves is taken out of the equations.
    """
    motion = referee.motion(q, np.zeros(referee.nv))
    bodies = referee.jacobian(q).reshape(6 * referee.n, referee.nv)
    residuals, rows = [], []
    for loop in referee.m.loops:
        a, Ra, pa, _, Ta, _ = referee._frame(motion, loop.a, loop.at_a)
        b, Rb, pb, _, Tb, _ = referee._frame(motion, loop.b, loop.at_b)
        K = np.zeros((6, 6 * referee.n + 6))
        K[:, 6 * b : 6 * b + 6 or None] += Tb
        if isinstance(loop.joint, ct.Distance):
            K[:, 6 * a : 6 * a + 6 or None] -= Ta
            d = pb - pa
            residuals.append(np.array([(d @ d - loop.joint.length**2) / 2.0 / referee.size**2]))
            rows.append((np.concatenate([np.zeros(3), d]) @ K)[None, :-6] @ bodies / referee.size**2)
            continue
        spherical = isinstance(loop.joint, ct.Spherical)
        s = np.zeros(0) if spherical else nearest(loop.joint, Ra.T @ Rb, Ra.T @ (pb - pa))
        turned, moved = (Ra.T @ Rb, np.zeros(3)) if spherical else joint_pose(loop.joint, s)
        expected_R, expected_p = Ra @ turned, pa + Ra @ moved
        shift = np.block([[np.eye(3), np.zeros((3, 3))], [-hat(pb - pa), np.eye(3)]])
        K[:, 6 * a : 6 * a + 6 or None] -= shift @ Ta
        residual = np.concatenate([Rb @ rotation_vector(expected_R.T @ Rb), (pb - expected_p) / referee.size])
        scale = np.array([1.0] * 3 + [1.0 / referee.size] * 3)
        row = (K[:, :-6] @ bodies) * scale[:, None]
        S = np.kron(np.eye(2), Rb) @ joint_matrix(loop.joint, s) * scale[:, None]
        if S.size:
            S = S / np.maximum(np.linalg.norm(S, axis=0), 1e-300)
            U, sizes, _ = np.linalg.svd(S, full_matrices=False)
            U = U[:, sizes > 1e-9]
            residual, row = residual - U @ (U.T @ residual), row - U @ (U.T @ row)
        residuals.append(residual)
        rows.append(row)
    names = referee._plain_names()
    for coupling in referee.m.couplings:
        row, value = np.zeros((1, referee.nv)), -coupling.offset
        for name, c in coupling.coefficients:
            row[0, names.index(name)] = c
            value += c * q[referee.m.q_names.index(name)]
        unit = np.abs(row[0] * referee.reach).max()
        residuals.append(np.array([value / unit]))
        rows.append(row / unit)
    return np.concatenate(residuals), np.vstack(rows) * referee.reach


def rate_of_momentum(referee: LoopReferee, q: np.ndarray, v: np.ndarray, vdot: np.ndarray) -> np.ndarray:
    """Return d(M v)/dt along the motion, by differences."""
    along = lambda t: referee.mass_matrix(referee.m.integrate(q, t * v)) @ v  # noqa: E731
    return referee.mass_matrix(q) @ vdot + derivative(along)
