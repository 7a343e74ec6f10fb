"""The linear system: A X = B of a full matrix, in one operation whose pivots are chosen at run time (Gauss, the largest of a column)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class LinearSystem:
    """The operation that solves a system of n unknowns for k columns of right-hand sides; operands are A and B, entries X, row by row.

    >>> system = LinearSystem(2, 1)
    >>> system.solution([0.0, 2.0, 1.0, 0.0, 6.0, 5.0])
    array([5., 3.])
    """

    unknowns: int
    columns: int

    @property
    def size(self) -> int:
        """Number of operands."""
        return self.unknowns * (self.unknowns + self.columns)

    @property
    def entries(self) -> int:
        """Number of entries of the solution."""
        return self.unknowns * self.columns

    @property
    def starts(self) -> range:
        """Where every entry of the solution is among the slots."""
        return range(self.entries)

    @property
    def padded(self) -> tuple[int, int]:
        """Lengths of the rows of A and of B, each rounded up to whole vectors."""
        return -(-self.unknowns // 8) * 8, -(-self.columns // 8) * 8

    @property
    def room(self) -> int:
        """Slots to work in: the solution, and memory for one state at a time, which is enough for two lanes or more."""
        return self.entries + -(-(self.unknowns * sum(self.padded) + self.padded[0] + 8) // 2)

    @property
    def operations(self) -> dict[str, int]:
        """Number of operations by kind."""
        n, k = self.unknowns, self.columns
        products = n * (n - 1) * (2 * n - 1) // 6 + n * (n - 1) * k
        return {"add": products, "div": n, "mul": products + n * (n - 1) // 2 + n * k}

    @property
    def well_formed(self) -> bool:
        """Whether there is something to solve."""
        return self.unknowns > 0 and self.columns > 0

    def matrices(self, operands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return A and B, of operands in the last axis."""
        n, batch = self.unknowns, operands.shape[:-1]
        return operands[..., : n * n].reshape(*batch, n, n), operands[..., n * n :].reshape(*batch, n, self.columns)

    def solution(self, operands: Sequence[Any]) -> np.ndarray:
        """Return the entries of the solution by NumPy; operands broadcast, the last axis of the result are the entries."""
        rows = np.stack(np.broadcast_arrays(*operands), axis=-1).astype(float)
        n, (A, B) = self.unknowns, self.matrices(rows)
        singular = ~(np.isfinite(rows).all(axis=-1) & (np.linalg.matrix_rank(np.where(np.isfinite(A), A, 0.0)) == n))
        A = np.where(singular[..., None, None], np.eye(n), A)
        return np.where(singular[..., None], np.nan, np.linalg.solve(A, B).reshape(*rows.shape[:-1], -1))
