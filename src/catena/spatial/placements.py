"""Placements: where a child frame stands in its parent frame.

A placement maps motions outward (parent to child) and forces and inertias inward (child to parent). Placements are kept in factors: a
`Screw` turns about and shifts along one coordinate axis and costs a third of a dense rotation; a `Rigid` is a dense rotation and
translation.

A symmetric 6 x 6 matrix is [[A, B], [B^T, C]] in 3 x 3 blocks; both triangles hold the same entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np

from catena.spatial.straight_line import of_objects, straight_line
from catena.spatial.vectors import Array, columns, cross, plain, skew

EYE = np.eye(3)
EYE.setflags(write=False)


class Screw:
    """A turn about coordinate axis 0, 1 or 2 by the angle of cosine c and sine s, and a shift d along it."""

    __slots__ = ("_next", "_shifts", "_turns", "axis", "c", "d", "s")

    def __init__(self, axis: int, c: Any = 1.0, s: Any = 0.0, d: Any = 0.0) -> None:
        self.axis, self.c, self.s, self.d = axis, c, s, d
        self._next = ((axis + 1) % 3, (axis + 2) % 3)
        self._turns = not (isinstance(s, float) and s == 0.0 and isinstance(c, float) and c == 1.0)
        self._shifts = not (isinstance(d, float) and d == 0.0)

    @property
    def of_objects(self) -> bool:
        """Whether it may have traced scalars."""
        return not (isinstance(self.c, float) and isinstance(self.s, float) and isinstance(self.d, float))

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

    def rotational(self, J: Array, h: Array, mass: Any) -> Array:
        """Return the rotational inertia of a body of first moment h that moves with the child, seen in the parent frame at its origin."""
        J = J.astype(object)
        if self._turns:
            self._turn(J, symmetric=True)
        if self._shifts:
            i, (j, k), d, moved = self.axis, self._next, self.d, self.moment(h, mass)
            J[i, j] = J[j, i] = J[i, j] - d * moved[j]
            J[i, k] = J[k, i] = J[i, k] - d * moved[k]
            across = d * (h[i] + moved[i])
            J[j, j], J[k, k] = J[j, j] + across, J[k, k] + across
        return J

    def inertia(self, P: Array) -> Array:
        """Return a symmetric inertia of the child, seen in the parent frame."""
        A, B, C = P[:3, :3].astype(object), P[:3, 3:].astype(object), P[3:, 3:].astype(object)
        i, (j, k), d = self.axis, self._next, self.d
        x, y, t = B[j, j], B[k, k], 0.0
        if self._turns:
            x, y, t = self._turn(B)
            for block in (A, C):
                self._turn(block, symmetric=True)
        if self._shifts:
            Bj, Bk = B[j].copy(), B[k].copy()
            B[j], B[k], t = Bj - d * C[k], Bk + d * C[j], t + d * C[j, k]
            B[j, j], B[k, k] = x - t, y + t
            A[i, j] = A[j, i] = A[i, j] - d * B[i, k]
            A[i, k] = A[k, i] = A[i, k] + d * B[i, j]
            A[j, k] = A[k, j] = A[j, k] + d * (B[j, j] - Bk[k])
            A[j, j] = A[j, j] - d * (Bj[k] + B[j, k])
            A[k, k] = A[k, k] + d * (Bk[j] + B[k, j])
        return _symmetric(A, B, C)

    def _turn(self, B: Array, symmetric: bool = False) -> tuple[Any, Any, Any]:
        """Turn a 3 x 3 block in place. Return x, y, t, of which its diagonal in the plane of turning is now x - t, y + t.

        In that plane its trace and its skew part stay. A quarter turn exchanges entries, and half a turn changes none.
        """
        i, (j, k), c, s = self.axis, self._next, self.c, self.s
        x, y, t = B[j, j], B[k, k], 0.0
        if isinstance(c, float) and c == 0.0:
            x, y, B[j, k], B[k, j] = y, x, 0.0 - B[k, j], 0.0 - B[j, k]
        elif not (isinstance(s, float) and s == 0.0):
            u = s * (x - y) + ((2.0 * c) * B[j, k] if symmetric else c * (B[j, k] + B[k, j]))
            t, cu = s * u, c * u
            B[j, k], B[k, j] = cu - B[k, j], cu - B[j, k]
        B[j, j], B[k, k] = x - t, y + t
        B[i, j], B[i, k] = c * B[i, j] - s * B[i, k], s * B[i, j] + c * B[i, k]
        B[j, i], B[k, i] = (B[i, j], B[i, k]) if symmetric else (c * B[j, i] - s * B[k, i], s * B[j, i] + c * B[k, i])
        return x, y, t

    def rigid(self) -> Rigid:
        """Return the same placement as a dense one."""
        i, (j, k), c, s, d = self.axis, self._next, self.c, self.s, self.d
        R, p = np.zeros((3, 3)), np.zeros(3)
        R = R if isinstance(c, float) and isinstance(s, float) else R.astype(object)
        p = p if isinstance(d, float) else p.astype(object)
        R[i, i] = 1.0
        R[j, j], R[j, k], R[k, j], R[k, k] = c, -s, s, c
        p[i] = d
        return Rigid(R, p)


class Rigid:
    """A dense placement: rotation R (child to parent) and the child's origin p in the parent frame."""

    __slots__ = ("R", "p")

    def __init__(self, R: Array, p: Array) -> None:
        self.R, self.p = R, p

    @property
    def of_objects(self) -> bool:
        """Whether it may have traced scalars."""
        return of_objects(self.R) or of_objects(self.p)

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

    def rotational(self, J: Array, h: Array, mass: Any) -> Array:
        """Return the rotational inertia of a body of first moment h that moves with the child, seen in the parent frame at its origin."""
        J, p, turned, moved = _congruence(self.R, J), self.p, self.R @ h, self.moment(h, mass)
        J = J + p @ (turned + moved) * EYE
        return _mirrored(J - np.outer(p, moved) - np.outer(turned, p))

    def inertia(self, P: Array) -> Array:
        """Return a symmetric inertia of the child, seen in the parent frame."""
        R, r = self.R, skew(self.p)
        A, B, C = _congruence(R, P[:3, :3]), R @ P[:3, 3:] @ R.T, _congruence(R, P[3:, 3:])
        shifted = B + r @ C
        half = r @ B.T + shifted @ r.T
        return _symmetric(_mirrored(A + half), shifted, C)

    def rigid(self) -> Rigid:
        """Return the placement itself."""
        return self

    def inverse(self) -> Rigid:
        """Return where the parent frame stands in the child frame."""
        return Rigid(self.R.T, -(self.R.T @ self.p))

    def __matmul__(self, other: Rigid | Placement) -> Rigid:
        """Return where a frame placed by `other` in the child frame stands in the parent frame."""
        if isinstance(other, Placement):  # factor by factor, for their zeros
            return reduce(lambda whole, factor: whole @ factor.rigid(), other.factors, self)
        return Rigid(self.R @ other.R, self.p + self.R @ other.p)

    def matrix(self) -> Array:
        """Return the 4 x 4 homogeneous matrix."""
        T = np.zeros((4, 4)).astype(object)
        T[:3, :3], T[:3, 3], T[3, 3] = self.R, self.p, 1.0
        return plain(T)


class Placement:
    """A placement in factors, from the parent outward."""

    __slots__ = ("factors",)

    def __init__(self, factors: Iterable[Screw | Rigid]) -> None:
        self.factors = tuple(factors)

    @property
    def of_objects(self) -> bool:
        """Whether it may have traced scalars."""
        return any(factor.of_objects for factor in self.factors)

    @straight_line
    def motion(self, V: Array) -> Array:
        """Return a motion of the parent, seen in the child frame."""
        return reduce(lambda V, factor: factor.motion(V), self.factors, V)

    @straight_line
    def force(self, f: Array) -> Array:
        """Return a force of the child, seen in the parent frame."""
        return reduce(lambda f, factor: factor.force(f), reversed(self.factors), f)

    def direction(self, x: Array) -> Array:
        """Return a direction of the parent, seen in the child frame."""
        return reduce(lambda x, factor: factor.direction(x), self.factors, x)

    def moment(self, h: Array, mass: Any) -> Array:
        """Return the first moment of a mass that moves with the child, seen in the parent frame."""
        return reduce(lambda h, factor: factor.moment(h, mass), reversed(self.factors), h)

    @straight_line
    def inertia(self, P: Array) -> Array:
        """Return a symmetric inertia of the child, seen in the parent frame."""
        return reduce(lambda P, factor: factor.inertia(P), reversed(self.factors), P)

    def motions(self, S: Array) -> Array:
        """Return the columns of S as motions, seen in the child frame."""
        return columns(self.motion, S)

    def forces(self, F: Array) -> Array:
        """Return the columns of F as forces, seen in the parent frame."""
        return columns(self.force, F)

    def rigid(self) -> Rigid:
        """Return the same placement as one dense factor."""
        return Rigid(EYE, np.zeros(3)) @ self


def _congruence(R: Array, A: Array) -> Array:
    """Return R A R^T of a symmetric A."""
    half = R @ A
    if half.dtype == float:
        return _mirrored(half @ R.T)
    result = np.empty((3, 3), dtype=object)
    for i in range(3):
        for j in range(i, 3):
            result[i, j] = result[j, i] = half[i] @ R[j]
    return plain(result)


def _mirrored(A: Array) -> Array:
    """Return a 3 x 3 block that is symmetric but for rounding, with its upper triangle on both sides."""
    A[1, 0], A[2, 0], A[2, 1] = A[0, 1], A[0, 2], A[1, 2]
    return A


def _symmetric(A: Array, B: Array, C: Array) -> Array:
    return blocks(A, B, B.T, C)


def blocks(A: Array, B: Array, C: Array, D: Array) -> Array:
    """Return the 6 x 6 matrix [[A, B], [C, D]]."""
    result = np.empty((6, 6), dtype=float if A.dtype == B.dtype == C.dtype == D.dtype == float else object)
    result[:3, :3], result[:3, 3:], result[3:, :3], result[3:, 3:] = A, B, C, D
    return result
