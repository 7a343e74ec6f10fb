"""Solution of linear equations, by factors without a choice of pivots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from catena.spatial.vectors import Array, plain

_TILE = 6  # rows and columns that `LU` takes at a time


def reciprocal(x: Any) -> Any:
    """Return 1 / x, of zero infinity, as compiled code has it and Python's numbers do not."""
    return np.inf if isinstance(x, float) and x == 0.0 else 1.0 / x


class Factor:
    """The factors L^T w^-1 L, L unit lower triangular, of a positive definite matrix, from the last row: zeros of a tree stay zeros."""

    __slots__ = ("L", "w")

    def __init__(self, D: Array) -> None:
        self.L = L = np.array(D, dtype=object)
        self.w = np.empty(D.shape[0], dtype=object)
        for k in reversed(range(D.shape[0])):
            self.w[k] = reciprocal(L[k, k])
            scaled = [L[k, i] * self.w[k] for i in range(k)]
            for i in range(k):
                for j in range(i + 1):
                    L[i, j] = L[i, j] - scaled[i] * L[k, j]
            L[k, :k] = scaled

    @classmethod
    def of(cls, L: Array, w: Array) -> Factor:
        """Return the factors that these are."""
        factor = cls.__new__(cls)
        factor.L, factor.w = L, w
        return factor

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
        return plain(y)


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
        return plain(y)

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
        return plain(y)

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
    return plain(G)


def _same(a: Any, b: Any) -> bool:
    """Return whether two entries are one traced scalar or equal numbers."""
    return a is b or (isinstance(a, float) and isinstance(b, float) and a == b)
