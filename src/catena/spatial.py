"""Vectors, placements and inertias of rigid bodies, on any scalar.

Everything here takes NumPy arrays whose entries are floats or traced scalars; nothing branches on a traced value.

Spatial vectors are angular first: motion (omega, v), force (moment, force). A placement says where a child frame stands in its parent
frame; it maps motions outward (parent to child) and forces and inertias inward (child to parent). Placements are kept in factors: a
`Screw` turns about and shifts along one coordinate axis and costs a third of a dense rotation; a `Rigid` is a dense rotation and
translation.

A symmetric 6 x 6 matrix is [[A, B], [B^T, C]] in 3 x 3 blocks; both triangles hold the same entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

Array = Any  # a NumPy array of floats or of traced scalars

_TILE = 6  # rows and columns that `LU` takes at a time


def cross(a: Array, b: Array) -> Array:
    """Return a x b."""
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def skew(a: Array) -> Array:
    """Return the matrix of a x."""
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def cross_motion(V: Array, W: Array) -> Array:
    """Return V x W for motions: the rate of W, fixed in a frame that moves with V."""
    return np.concatenate([cross(V[:3], W[:3]), cross(V[:3], W[3:]) + cross(V[3:], W[:3])])


def cross_force(V: Array, f: Array) -> Array:
    """Return V x* f: the rate of a force f, fixed in a frame that moves with V."""
    return np.concatenate([cross(V[:3], f[:3]) + cross(V[3:], f[3:]), cross(V[:3], f[3:])])


def rotation(quaternion: Array) -> Array:
    """Return the matrix (child to parent) of a quaternion (w, x, y, z) of any length but zero."""
    w, x, y, z = quaternion
    twice = 2.0 / (w * w + x * x + y * y + z * z)
    tx, ty, tz = twice * x, twice * y, twice * z
    xx, yy, zz = x * tx, y * ty, z * tz
    xy, xz, yz = x * ty, x * tz, y * tz
    wx, wy, wz = w * tx, w * ty, w * tz
    return np.array([
        [1.0 - (yy + zz), xy - wz, xz + wy],
        [xy + wz, 1.0 - (xx + zz), yz - wx],
        [xz - wy, yz + wx, 1.0 - (xx + yy)],
    ])  # fmt: skip


def quaternion_product(a: Array, b: Array) -> Array:
    """Return the quaternion (w, x, y, z) of turning by b, then by a; leading axes broadcast."""
    aw, ax, ay, az = (a[..., i] for i in range(4))
    bw, bx, by, bz = (b[..., i] for i in range(4))
    return np.stack([
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    ], axis=-1)  # fmt: skip


def quaternion_inverse(a: Array) -> Array:
    """Return the inverse of a quaternion of any length but zero; leading axes broadcast."""
    w, x, y, z = (a[..., i] for i in range(4))
    scale = 1.0 / (w * w + x * x + y * y + z * z)
    return np.stack([scale * w, -scale * x, -scale * y, -scale * z], axis=-1)


def quaternion_exp(turn: Array) -> Array:
    """Return the unit quaternion of a rotation vector [rad]; leading axes broadcast."""
    x, y, z = (turn[..., i] for i in range(3))
    half = np.sqrt(0.25 * (x * x + y * y + z * z) + 1e-300)  # never 0, so that sin(half) / half needs no branch
    scale = 0.5 * (np.sin(half) / half)
    return np.stack([np.cos(half), scale * x, scale * y, scale * z], axis=-1)


def quaternion_log(quaternion: Array) -> Array:
    """Return the shortest rotation vector [rad] of a quaternion of any length; leading axes broadcast."""
    w, x, y, z = (quaternion[..., i] for i in range(4))
    sine = np.sqrt(x * x + y * y + z * z + 1e-300)
    scale = np.arctan2(2.0 * (sine * w), w * w - sine * sine) / sine
    return np.stack([scale * x, scale * y, scale * z], axis=-1)


class Screw:
    """A turn about coordinate axis 0, 1 or 2 by the angle of cosine c and sine s, and a shift d along it."""

    __slots__ = ("_next", "_shifts", "_turns", "axis", "c", "d", "s")

    def __init__(self, axis: int, c: Any = 1.0, s: Any = 0.0, d: Any = 0.0) -> None:
        self.axis, self.c, self.s, self.d = axis, c, s, d
        self._next = ((axis + 1) % 3, (axis + 2) % 3)
        self._turns = not (isinstance(s, float) and s == 0.0 and isinstance(c, float) and c == 1.0)
        self._shifts = not (isinstance(d, float) and d == 0.0)

    def motion(self, V: Array) -> Array:
        """Return a motion of the parent, seen in the child frame."""
        (j, k), c, s, d = self._next, self.c, self.s, self.d
        V = V.astype(object)
        if self._turns:
            V[j], V[k] = c * V[j] + s * V[k], c * V[k] - s * V[j]
            V[3 + j], V[3 + k] = c * V[3 + j] + s * V[3 + k], c * V[3 + k] - s * V[3 + j]
        if self._shifts:
            V[3 + j], V[3 + k] = V[3 + j] + d * V[k], V[3 + k] - d * V[j]
        return V

    def force(self, f: Array) -> Array:
        """Return a force of the child, seen in the parent frame."""
        (j, k), c, s, d = self._next, self.c, self.s, self.d
        f = f.astype(object)
        if self._turns:
            f[j], f[k] = c * f[j] - s * f[k], s * f[j] + c * f[k]
            f[3 + j], f[3 + k] = c * f[3 + j] - s * f[3 + k], s * f[3 + j] + c * f[3 + k]
        if self._shifts:
            f[j], f[k] = f[j] - d * f[3 + k], f[k] + d * f[3 + j]
        return f

    def direction(self, x: Array) -> Array:
        """Return a direction of the parent, seen in the child frame."""
        (j, k), c, s = self._next, self.c, self.s
        x = x.astype(object)
        if self._turns:
            x[j], x[k] = c * x[j] + s * x[k], c * x[k] - s * x[j]
        return x

    def moment(self, h: Array, mass: Any) -> Array:
        """Return the first moment of a mass that moves with the child, seen in the parent frame."""
        (j, k), c, s = self._next, self.c, self.s
        h = h.astype(object)
        if self._turns:
            h[j], h[k] = c * h[j] - s * h[k], s * h[j] + c * h[k]
        if self._shifts:
            h[self.axis] = h[self.axis] + mass * self.d
        return h

    def inertia(self, P: Array) -> Array:
        """Return a symmetric inertia of the child, seen in the parent frame."""
        A, B, C = P[:3, :3].astype(object), P[:3, 3:].astype(object), P[3:, 3:].astype(object)
        if self._turns:
            self._turn_symmetric(A)
            self._turn(B)
            self._turn_symmetric(C)
        if self._shifts:
            i, (j, k), d = self.axis, self._next, self.d
            Bj, Bk = B[j].copy(), B[k].copy()
            B[j], B[k] = Bj - d * C[k], Bk + d * C[j]
            A[i, j] = A[j, i] = A[i, j] - d * B[i, k]
            A[i, k] = A[k, i] = A[i, k] + d * B[i, j]
            A[j, k] = A[k, j] = A[j, k] + d * (B[j, j] - Bk[k])
            A[j, j] = A[j, j] - d * (Bj[k] + B[j, k])
            A[k, k] = A[k, k] + d * (Bk[j] + B[k, j])
        return _symmetric(A, B, C)

    def _turn_symmetric(self, A: Array) -> None:
        """Turn a symmetric 3 x 3 block in place: its trace in the plane of turning stays."""
        i, (j, k), c, s = self.axis, self._next, self.c, self.s
        u = s * (A[j, j] - A[k, k]) + (2.0 * c) * A[j, k]
        su, cu = s * u, c * u
        A[j, j], A[k, k] = A[j, j] - su, A[k, k] + su
        A[j, k] = A[k, j] = cu - A[j, k]
        A[i, j], A[i, k] = c * A[i, j] - s * A[i, k], s * A[i, j] + c * A[i, k]
        A[j, i], A[k, i] = A[i, j], A[i, k]

    def _turn(self, B: Array) -> None:
        """Turn a 3 x 3 block in place: its trace and skew part in the plane of turning stay."""
        i, (j, k), c, s = self.axis, self._next, self.c, self.s
        u = s * (B[j, j] - B[k, k]) + c * (B[j, k] + B[k, j])
        su, cu = s * u, c * u
        B[j, j], B[k, k] = B[j, j] - su, B[k, k] + su
        B[j, k], B[k, j] = cu - B[k, j], cu - B[j, k]
        B[i, j], B[i, k] = c * B[i, j] - s * B[i, k], s * B[i, j] + c * B[i, k]
        B[j, i], B[k, i] = c * B[j, i] - s * B[k, i], s * B[j, i] + c * B[k, i]

    def rigid(self) -> Rigid:
        """Return the same placement as a dense one."""
        i, (j, k) = self.axis, self._next
        R = np.zeros((3, 3)).astype(object)
        R[i, i] = 1.0
        R[j, j], R[j, k], R[k, j], R[k, k] = self.c, -self.s, self.s, self.c
        p = np.zeros(3).astype(object)
        p[i] = self.d
        return Rigid(_plain(R), _plain(p))


class Rigid:
    """A dense placement: rotation R (child to parent) and the child's origin p in the parent frame."""

    __slots__ = ("R", "p")

    def __init__(self, R: Array, p: Array) -> None:
        self.R, self.p = R, p

    def motion(self, V: Array) -> Array:
        """Return a motion of the parent, seen in the child frame."""
        return np.concatenate([self.R.T @ V[:3], self.R.T @ (V[3:] + cross(V[:3], self.p))])

    def force(self, f: Array) -> Array:
        """Return a force of the child, seen in the parent frame."""
        moment, force = self.R @ f[:3], self.R @ f[3:]
        return np.concatenate([moment + cross(self.p, force), force])

    def direction(self, x: Array) -> Array:
        """Return a direction of the parent, seen in the child frame."""
        return self.R.T @ x

    def moment(self, h: Array, mass: Any) -> Array:
        """Return the first moment of a mass that moves with the child, seen in the parent frame."""
        return self.R @ h + mass * self.p

    def inertia(self, P: Array) -> Array:
        """Return a symmetric inertia of the child, seen in the parent frame."""
        R, r = self.R, skew(self.p)
        A, B, C = _congruence(R, P[:3, :3]), R @ P[:3, 3:] @ R.T, _congruence(R, P[3:, 3:])
        shifted = B + r @ C
        half = r @ B.T + shifted @ r.T
        A = A + half
        for i in range(3):
            for j in range(i):
                A[i, j] = A[j, i]
        return _symmetric(A, shifted, C)

    def rigid(self) -> Rigid:
        """Return the placement itself."""
        return self

    def inverse(self) -> Rigid:
        """Return where the parent frame stands in the child frame."""
        return Rigid(self.R.T, -(self.R.T @ self.p))

    def __matmul__(self, other: Rigid) -> Rigid:
        """Return where a frame placed by `other` in the child frame stands in the parent frame."""
        return Rigid(self.R @ other.R, self.p + self.R @ other.p)

    def matrix(self) -> Array:
        """Return the 4 x 4 homogeneous matrix."""
        T = np.zeros((4, 4)).astype(object)
        T[:3, :3], T[:3, 3], T[3, 3] = self.R, self.p, 1.0
        return _plain(T)


class Placement:
    """A placement in factors, from the parent outward."""

    __slots__ = ("factors",)

    def __init__(self, factors: Iterable[Screw | Rigid]) -> None:
        self.factors = tuple(factors)

    def motion(self, V: Array) -> Array:
        """Return a motion of the parent, seen in the child frame."""
        for factor in self.factors:
            V = factor.motion(V)
        return V

    def force(self, f: Array) -> Array:
        """Return a force of the child, seen in the parent frame."""
        for factor in reversed(self.factors):
            f = factor.force(f)
        return f

    def direction(self, x: Array) -> Array:
        """Return a direction of the parent, seen in the child frame."""
        for factor in self.factors:
            x = factor.direction(x)
        return x

    def moment(self, h: Array, mass: Any) -> Array:
        """Return the first moment of a mass that moves with the child, seen in the parent frame."""
        for factor in reversed(self.factors):
            h = factor.moment(h, mass)
        return h

    def inertia(self, P: Array) -> Array:
        """Return a symmetric inertia of the child, seen in the parent frame."""
        for factor in reversed(self.factors):
            P = factor.inertia(P)
        return P

    def motions(self, S: Array) -> Array:
        """Return the columns of S as motions, seen in the child frame."""
        return _columns(self.motion, S)

    def forces(self, F: Array) -> Array:
        """Return the columns of F as forces, seen in the parent frame."""
        return _columns(self.force, F)

    def rigid(self) -> Rigid:
        """Return the same placement as one dense factor."""
        whole = Rigid(np.eye(3), np.zeros(3))
        for factor in self.factors:
            whole = whole @ factor.rigid()
        return whole


def rigid_inertia(mass: float, com: Array, about_com: Array) -> Array:
    """Return the 6 x 6 inertia at the origin of a body of given mass [kg], centre of mass [m] and inertia about it [kg m^2]."""
    h = mass * np.asarray(com)
    return inertia_matrix(about_com - skew(h) @ skew(com), h, mass)


def inertia_matrix(J: Array, h: Array, mass: float) -> Array:
    """Return the 6 x 6 inertia of rotational inertia J [kg m^2], first moment h [kg m] and mass [kg], all at the origin."""
    return np.block([[J, skew(h)], [-skew(h), mass * np.eye(3)]])


def first_moment(M: Array) -> Array:
    """Return the first moment of a body of inertia M [kg m]."""
    return np.array([M[2, 4], M[0, 5], M[1, 3]])


def gyroscopic(M: Array, V: Array) -> Array:
    """Return the force V x* (M V) of a rigid body: what keeps it on its motion V with no spatial acceleration."""
    omega, v = V[:3], V[3:]
    h, mass = first_moment(M), M[3, 3]
    turning = cross(omega, v)
    J = M[:3, :3] - M[1, 1] * np.eye(3)  # what is alike about all axes turns with omega
    moment = cross(omega, J @ omega) + cross(h, turning)
    return np.concatenate([moment, mass * turning + cross(omega, cross(omega, h))])


def minus_product(P: Array, G: Array, U: Array) -> Array:
    """Return P - G U^T where that is symmetric; each entry off the diagonal is computed once."""
    result = np.empty(P.shape, dtype=object)
    rank = [_plainness(row) for row in G]
    for i in range(P.shape[0]):
        for j in range(i + 1):
            # G U^T is symmetric: take the side on which G is ones and zeros, so that zeros are exact, or numbers
            a, b = (j, i) if rank[j] > rank[i] else (i, j)
            entry = P[i, j]
            for c in range(G.shape[1]):
                entry = entry - G[a, c] * U[b, c]
            result[i, j] = result[j, i] = entry
    return _plain(result)


def symmetric(A: Array) -> Array:
    """Return a matrix that is symmetric but for rounding, with its lower triangle on both sides."""
    result = A.copy()
    for i in range(A.shape[0]):
        for j in range(i):
            result[j, i] = A[i, j]
    return result


def reciprocal(x: Any) -> Any:
    """Return 1 / x, of zero infinity, as compiled code has it and Python's numbers do not."""
    return np.inf if isinstance(x, float) and x == 0.0 else 1.0 / x


class Factor:
    """The factors L^T w^-1 L of a symmetric positive definite matrix, L unit lower triangular.

    Rows are eliminated from the last to the first, so that the zeros between branches of a tree stay zeros.
    """

    def __init__(self, D: Array) -> None:
        self.L = L = np.array(D, dtype=object)
        self.w: list[Any] = [None] * D.shape[0]
        for k in reversed(range(D.shape[0])):
            self.w[k] = reciprocal(L[k, k])
            scaled = [L[k, i] * self.w[k] for i in range(k)]
            for i in range(k):
                for j in range(i + 1):
                    L[i, j] = L[i, j] - scaled[i] * L[k, j]
            L[k, :k] = scaled

    def solve(self, x: Array) -> Array:
        """Return D^-1 x."""
        L, y = self.L, np.array(x, dtype=object)
        for k in reversed(range(len(y))):
            for i in range(k):
                y[i] = y[i] - L[k, i] * y[k]
        for k in range(len(y)):
            y[k] = y[k] * self.w[k]
            for i in range(k):
                y[k] = y[k] - L[k, i] * y[i]
        return _plain(y)


class LU:
    """The factors L U of a square matrix, by elimination without exchanging rows: order them before.

    Rows and columns are taken in tiles; `mark` is called before each, where code may be cut: tiles of one shape are one piece of code.
    """

    def __init__(self, A: Array, mark: Callable[[], None] = lambda: None) -> None:
        n = A.shape[0]
        self.LU, self.mark = np.array(A, dtype=object), mark
        LU, self.w = self.LU, [None] * n
        w: list[Any] = self.w
        for k in range(n):
            mark()
            w[k] = reciprocal(LU[k, k])
            for rows in self._tiles(k + 1, n):
                for i in rows:
                    LU[i, k] = LU[i, k] * w[k]
            for rows in self._tiles(k + 1, n):
                for columns in self._tiles(k + 1, n):
                    for i in rows:
                        for j in columns:
                            LU[i, j] = LU[i, j] - LU[i, k] * LU[k, j]

    @property
    def pivots(self) -> list[Any]:
        """What the rows before leave of each entry on the diagonal."""
        return [self.LU[k, k] for k in range(len(self.w))]

    def solve(self, x: Array) -> Array:
        """Return A^-1 x."""
        n, LU, w, y = len(self.w), self.LU, self.w, np.array(x, dtype=object)
        for k in range(n):
            for rows in self._tiles(k + 1, n):
                for i in rows:
                    y[i] = y[i] - LU[i, k] * y[k]
        for k in reversed(range(n)):
            self.mark()
            y[k] = y[k] * w[k]
            for rows in self._tiles(0, k):
                for i in rows:
                    y[i] = y[i] - LU[i, k] * y[k]
        return _plain(y)

    def solve_transposed(self, x: Array) -> Array:
        """Return A^-T x."""
        n, LU, w, y = len(self.w), self.LU, self.w, np.array(x, dtype=object)
        for k in range(n):
            self.mark()
            y[k] = y[k] * w[k]
            for rows in self._tiles(k + 1, n):
                for i in rows:
                    y[i] = y[i] - LU[k, i] * y[k]
        for k in reversed(range(n)):
            for rows in self._tiles(0, k):
                for i in rows:
                    y[i] = y[i] - LU[k, i] * y[k]
        return _plain(y)

    def _tiles(self, start: int, stop: int) -> Iterator[range]:
        # counted from the far end, so that all but the first have the same size
        while start < stop:
            size = (stop - start) % _TILE or _TILE
            self.mark()
            yield range(start, start + size)
            start += size


def gain(U: Array, D: Array, factor: Factor) -> Array:
    """Return G = U D^-1. A row of U that is a row of D gives a row of the identity, exactly."""
    n = D.shape[0]
    G = np.empty(U.shape, dtype=object)
    for i in range(U.shape[0]):
        for j in range(n):
            if all(_same(U[i, c], D[j, c]) for c in range(n)):
                G[i] = [1.0 if c == j else 0.0 for c in range(n)]
                break
        else:
            G[i] = factor.solve(U[i])
    return _plain(G)


def _plainness(row: Array) -> int:
    """Return 2 if a row is made of ones and zeros, 1 if of numbers, else 0."""
    if not all(isinstance(entry, float) for entry in row):
        return 0
    return 2 if all(entry in (0.0, 1.0) for entry in row) else 1


def _same(a: Any, b: Any) -> bool:
    """Return whether two entries are one traced scalar or equal numbers."""
    return a is b or (isinstance(a, float) and isinstance(b, float) and a == b)


def _plain(x: Array) -> Array:
    """Return x with float entries if all are numbers, else as it is."""
    if all(isinstance(entry, float) for entry in x.flat):
        return x.astype(float)
    return x


def _columns(function: Any, S: Array) -> Array:
    if S.shape[1] == 0:
        return S
    return np.stack([function(S[:, c]) for c in range(S.shape[1])], axis=1)


def _congruence(R: Array, A: Array) -> Array:
    """Return R A R^T of a symmetric A."""
    half = R @ A
    result = np.empty((3, 3), dtype=object)
    for i in range(3):
        for j in range(i, 3):
            result[i, j] = result[j, i] = half[i] @ R[j]
    return _plain(result)


def _symmetric(A: Array, B: Array, C: Array) -> Array:
    return np.concatenate([np.concatenate([A, B], axis=1), np.concatenate([B.T, C], axis=1)])


def stack_columns(columns: Sequence[Array]) -> Array:
    """Return 6-vectors as the columns of a matrix."""
    return np.stack(columns, axis=1) if columns else np.zeros((6, 0))
