"""The saddle point: a quadratic form that is smallest under linear constraints, in one operation whose pivots are chosen at run time.

    M x + J^T y = f        M n x n, symmetric, positive definite on the null space of J
    J x         = g        J m x n, of any rank

The columns of J are made orthogonal one after the other, at each step the longest of those that are left (Gram and Schmidt, with column
pivoting): J P = Q (R11 R12). What is left of a column that depends on those before it is rounding; so the rank is found, and with it which
unknowns depend on which. Where J is not of full rank, constraints that contradict each other are met in the sense of least squares, and y
is the shortest of all multipliers; x is unique all the same.

Rows and columns are compared by their size: scale them before, so that columns have lengths of about 1. Where all are shorter, constraints
vanish: they are compared with 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

#: A direction in which the quadratic form is less than this part of its largest entry there is left undetermined: its unknown is zero.
UNDETERMINED = 1e-13

#: So is one in which it is less than this part of the largest entry of M: that is rounding, of sums of some fifty products.
ROUNDING = 1e-14


class SaddlePointSolution(NamedTuple):
    """The solution of a saddle point for each column of right-hand sides, and how sure its rank is.

    `x` (n, k) and `y` (m, k); `residual` (m, k) is g - J x; `rank` of J; the `least` of the pivots that count, and the longest
    `remainder` of the other columns, both relative to the longest column, or 1; and how many unknowns neither J nor M determines.
    """

    x: Any
    y: Any
    residual: Any
    rank: Any
    least: Any
    remainder: Any
    undetermined: Any


@dataclass(frozen=True)
class SaddlePoint:
    """The operation that solves a saddle point of n unknowns and m constraints for k columns of right-hand sides.

    Operands: the columns of J, those of g, the rows of the lower triangle of M, the columns of f, the least pivot that counts, relative to
    the longest column of J, or 1, and the most pivots to take. Entries of the result: those of `SaddlePointSolution`, column by column.

    >>> system = SaddlePoint(2, 1, 1)
    >>> rows = system.operands(np.eye(2), np.zeros((2, 1)), np.array([[1.0, 1.0]]), np.array([[1.0]]), 1e-9, 1)
    >>> system.unpacked(system.solution(rows)).x.ravel()
    array([0.5, 0.5])
    """

    unknowns: int
    constraints: int
    columns: int

    @property
    def size(self) -> int:
        """Number of operands."""
        n, m, k = self.unknowns, self.constraints, self.columns
        return m * n + m * k + n * (n + 1) // 2 + n * k + 2

    @property
    def entries(self) -> int:
        """Number of entries of the result."""
        return self.columns * (self.unknowns + 2 * self.constraints) + 4

    @property
    def starts(self) -> range:
        """Where every entry of the result is among the slots."""
        return range(self.entries)

    @property
    def padded(self) -> tuple[int, int, int]:
        """Numbers of unknowns, constraints and pivots, each rounded up to whole vectors."""
        n, m = self.unknowns, self.constraints
        padded = [-(-count // 8) * 8 for count in (n, m, min(n, m))]
        return padded[0], padded[1], padded[2]

    @property
    def parts(self) -> dict[str, int]:
        """Numbers of doubles that the parts of the memory to work in take, one after the other."""
        n, k, (wide, tall, deep) = self.unknowns, self.columns, self.padded
        return {
            "J": n * tall, "g": k * tall, "R": n * deep, "y": k * deep, "M": n * wide, "f": k * wide, "H": n * wide, "z": k * wide,
            "x": wide, "wide_work": wide, "deep_work": deep, "multipliers": tall, "squares": wide, "diagonal": deep, "order": wide,
        }  # fmt: skip

    @property
    def room(self) -> int:
        """Slots to work in: the result, and memory for one state at a time, which is enough for two lanes or more."""
        return self.entries + -(-(sum(self.parts.values()) + 8) // 2)

    @property
    def operations(self) -> dict[str, int]:
        """Number of operations by kind, if all constraints are independent."""
        n, m, k = self.unknowns, self.constraints, self.columns
        r = min(n, m)
        free = n - r
        orthogonal = sum(3 * m * (n - s) + 2 * m * (s + k) for s in range(r))
        reduced = (r * r // 2) * (free + k) + r * n * (free + k) + r * free * (free + 1) // 2 + r * free * k
        solved = free**3 // 6 + free * free * k + k * (r * free + n * n + r * r // 2 + r * m)
        total = orthogonal + reduced + solved
        return {"add": total, "div": r * (1 + free + 2 * k) + free, "mul": total, "sqrt": r + free}

    @property
    def well_formed(self) -> bool:
        """Whether there is something to solve."""
        return self.unknowns > 0 and self.constraints > 0 and self.columns > 0

    def operands(self, M: Any, f: Any, J: Any, g: Any, tolerance: Any, most: Any) -> list[Any]:
        """Return the operands of a system, (n, n), (n, k), (m, n), (m, k), and two numbers."""
        lower = [M[i, j] for i in range(self.unknowns) for j in range(i + 1)]
        return [*J.T.ravel(), *g.T.ravel(), *lower, *f.T.ravel(), tolerance, most]

    def matrices(self, operands: np.ndarray) -> tuple[Any, Any, Any, Any, Any, Any]:
        """Return what `operands` takes, of an array of these."""
        n, m, k = self.unknowns, self.constraints, self.columns
        J, g, lower, f, (tolerance, most) = np.split(operands, np.cumsum([m * n, m * k, n * (n + 1) // 2, n * k]))
        M = np.empty((n, n), dtype=operands.dtype)
        M[np.tril_indices(n)] = lower
        M.T[np.tril_indices(n)] = lower
        return M, f.reshape(k, n).T, J.reshape(n, m).T, g.reshape(k, m).T, tolerance, most

    def unpacked(self, entries: Any) -> SaddlePointSolution:
        """Return the result of its entries, in the last axis, which are of any scalar."""
        n, m, k = self.unknowns, self.constraints, self.columns
        ends = np.cumsum([0, n * k, m * k, m * k])
        shapes = (k, n), (k, m), (k, m)
        parts = [entries[..., a:b].reshape(*entries.shape[:-1], *s) for a, b, s in zip(ends, ends[1:], shapes, strict=False)]
        return SaddlePointSolution(*(np.swapaxes(part, -1, -2) for part in parts), *(entries[..., ends[-1] + i][()] for i in range(4)))

    def solution(self, operands: Sequence[Any]) -> np.ndarray:
        """Return the entries of the result by NumPy, state by state; operands broadcast, the last axis of the result are the entries."""
        rows = np.stack(np.broadcast_arrays(*operands), axis=-1)
        entries = np.empty((*rows.shape[:-1], self.entries))
        for at in np.ndindex(rows.shape[:-1]):
            entries[at] = self._solved(rows[at])
        return entries

    def _solved(self, operands: np.ndarray) -> np.ndarray:
        n, m, k = self.unknowns, self.constraints, self.columns
        M, f, J, g, tolerance, most = self.matrices(operands.astype(float))
        J, g, f = J.T.copy(), g.T.copy(), f.T  # rows are columns of the system
        R, on = np.zeros((n, min(n, m))), np.zeros((k, min(n, m)))
        order, diagonal = np.arange(n), np.zeros(min(n, m))
        squares = (J * J).sum(axis=1)
        longest = max(1.0, squares.max())
        rank = 0
        while rank < min(n, m, most):
            at = rank + int(np.argmax(squares[order[rank:]]))
            if not squares[order[at]] > tolerance**2 * longest:
                break
            order[[rank, at]] = order[[at, rank]]
            j = order[rank]
            for t in order[:rank]:
                share = J[t] @ J[j]
                J[j] -= share * J[t]
                R[j, list(order).index(t)] += share
            R[j, rank] = diagonal[rank] = np.sqrt(J[j] @ J[j])
            J[j] /= diagonal[rank]
            for i in order[rank + 1 :]:
                R[i, rank] = J[j] @ J[i]
                J[i] -= R[i, rank] * J[j]
                squares[i] = J[i] @ J[i]
            on[:, rank] = g @ J[j]
            g -= np.outer(on[:, rank], J[j])
            rank += 1
        dependent, free = order[:rank], order[rank:]
        R11 = R[dependent, :rank].T
        B, known = (np.linalg.solve(R11, columns[:, :rank].T) for columns in (R[free], on))
        N = np.zeros((n, n - rank))
        N[free] = np.eye(n - rank)
        N[dependent] = -B
        x = np.zeros((n, k))
        x[dependent] = known
        z, undetermined = _cholesky_solve(N.T @ M @ N, N.T @ (f.T - M @ x), ROUNDING * M.diagonal().max())
        x = x + N @ z
        t = np.linalg.solve(R11.T, (f.T - M @ x)[dependent])
        y = J[dependent].T @ t
        root = np.sqrt(longest)
        least = diagonal[rank - 1] / root if rank else 1.0
        remainder = np.sqrt(squares[free].max(initial=0.0)) / root
        return np.concatenate([x.T.ravel(), y.T.ravel(), g.ravel(), [rank, least, remainder, undetermined]])


def _cholesky_solve(H: np.ndarray, b: np.ndarray, rounding: float) -> tuple[np.ndarray, int]:
    """Return H^-1 b, with zeros for the unknowns that H leaves undetermined, and their number."""
    n, undetermined = len(H), 0
    L, inverse = np.zeros((n, n)), np.zeros(n)
    for a in range(n):
        for c in range(a):
            L[a, c] = (H[a, c] - L[a, :c] @ L[c, :c]) * inverse[c]
        pivot = H[a, a] - L[a, :a] @ L[a, :a]
        if pivot <= max(rounding, UNDETERMINED * H[a, a]):
            undetermined += 1
        else:
            L[a, a] = np.sqrt(pivot)
            inverse[a] = 1.0 / L[a, a]
    z = np.array(b)
    for a in range(n):
        z[a] = (z[a] - L[a, :a] @ z[:a]) * inverse[a]
    for a in reversed(range(n)):
        z[a] = (z[a] - L[a + 1 :, a] @ z[a + 1 :]) * inverse[a]
    return z, undetermined
