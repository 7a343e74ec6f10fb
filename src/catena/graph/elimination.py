"""The elimination: a symmetric positive definite system with the zeros of a tree, solved in one operation.

Entry A[k, j] of the matrix, j < k, may differ from zero only where unknown j is an ancestor of k. Eliminating the unknowns from the last to
the first, A = L^T D L, then puts no entry where there was a zero (Featherstone's sparse factorisation).

Unknowns are counted in preorder, a parent right before one of its children. The system is laid out in rows: row k holds the right-hand side
x[k], the entries A[k, j] at the ancestors j of k from the root outward, and A[k, k]. So the row of an ancestor lines up with the beginning
of row k, and to eliminate unknown k is to add its row to those, without an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np


class Entry(NamedTuple):
    """The operation that picks one entry of the solution of a system."""

    unknown: int


@dataclass(frozen=True)
class Elimination:
    """The operation that solves a system with the zeros of a tree; its operands are the rows of the system, one after the other.

    `parent` of each unknown counts in preorder, -1 at a root.

    >>> two_on_one = Elimination((-1, 0, 0))
    >>> two_on_one.starts, two_on_one.size
    ((0, 2, 5), 8)
    >>> two_on_one.operations
    {'add': 6, 'div': 3, 'mul': 11}
    """

    parent: tuple[int, ...]

    @cached_property
    def depth(self) -> tuple[int, ...]:
        """Number of ancestors of every unknown."""
        depth: list[int] = []
        for parent in self.parent:
            depth.append(0 if parent < 0 else depth[parent] + 1)
        return tuple(depth)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where every row begins, among the operands and later in memory; its first entry becomes that of the solution."""
        return tuple(accumulate((depth + 2 for depth in self.depth[:-1]), initial=0))

    @property
    def entries(self) -> int:
        """Number of entries of the solution."""
        return len(self.parent)

    @cached_property
    def size(self) -> int:
        """Number of operands."""
        return sum(self.depth) + 2 * len(self.depth)

    @property
    def room(self) -> int:
        """Slots to work in: the rows, and the solution on the way from a root to the unknown at hand."""
        return self.size + max(self.depth) + 1

    @property
    def operations(self) -> dict[str, int]:
        """Number of operations by kind."""
        # unknown k meets each ancestor twice: inward a multiplier and a row as long as the ancestor's, outward a single entry
        inward = sum(depth * (depth + 3) // 2 for depth in self.depth)
        outward = sum(self.depth)
        return {"add": inward + outward, "div": len(self.depth), "mul": inward + 2 * outward + len(self.depth)}

    @property
    def well_formed(self) -> bool:
        """Whether there are unknowns, and their parents count in preorder."""
        path: list[int] = []
        for k, parent in enumerate(self.parent):
            while path and path[-1] != parent:
                path.pop()
            if not path and parent != -1:
                return False
            path.append(k)
        return bool(self.parent)

    def path(self, k: int) -> list[tuple[int, int]]:
        """Return the unknowns from k to the root, with their columns in row k."""
        unknowns = [k]
        while self.parent[unknowns[-1]] >= 0:
            unknowns.append(self.parent[unknowns[-1]])
        return list(zip(unknowns, range(len(unknowns), 0, -1), strict=True))

    def solution(self, operands: Sequence[Any]) -> np.ndarray:
        """Return the solution of the system as a full matrix, by NumPy; operands broadcast, the last axis of the result is the unknowns."""
        rows = np.stack(np.broadcast_arrays(*operands), axis=-1)
        A = np.zeros((*rows.shape[:-1], len(self.parent), len(self.parent)))
        for k, start in enumerate(self.starts):
            for j, column in self.path(k):
                A[..., k, j] = A[..., j, k] = rows[..., start + column]
        return np.linalg.solve(A, rows[..., self.starts, None])[..., 0]


def preorder(parent: Sequence[int]) -> list[int]:
    """Return the unknowns in preorder; of several children the one with the most below it comes first.

    So unknowns that follow each other are parent and child for as long as can be.

    >>> preorder([-1, 0, 0, 2])
    [0, 2, 3, 1]
    """
    height = [0] * len(parent)
    children: list[list[int]] = [[] for _ in range(len(parent) + 1)]  # the last are the roots
    for k in reversed(range(len(parent))):
        children[parent[k]].append(k)
        if parent[k] >= 0:
            height[parent[k]] = max(height[parent[k]], height[k] + 1)
    order: list[int] = []
    ahead = [-1]
    while ahead:
        k = ahead.pop()
        if k >= 0:
            order.append(k)
        ahead += sorted(children[k], key=lambda child: (height[child], -child))
    return order
