"""Loops by independent coordinates: the others follow from the constraints, one group of loops after the other.

Source   [WH82] Wehage & Haug, Generalized coordinate partitioning for dimension reduction in analysis of constrained dynamic systems.
Frames   joint coordinates; constraints as in `constraints`, each loop in the frame of its base.
Cost     O(n) and, for each group of loops that share joints, the cube of its constraints

    here    meaning
    J       rows of the Jacobian that are independent, on the dependent coordinates, in factors
    follow  dependent rates from the independent ones: -J^-1 times the columns of these
    lambda  multipliers of all constraints

Which coordinates depend, and which constraints are independent, is a matter of the configuration, and is decided outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from catena.formulations.constraints import constraint_jacobian, constraint_right
from catena.spatial import LU, Factor


class Group(NamedTuple):
    """Loops that share joints: independent and redundant constraints; dependent and independent velocity coordinates.

    There are as many dependent coordinates as independent constraints; both are in the order in which they are eliminated.
    """

    rows: tuple[int, ...]
    redundant: tuple[int, ...]
    dependent: tuple[int, ...]
    independent: tuple[int, ...]


@dataclass(frozen=True)
class Partition:
    """The groups of a mechanism; its length is the number of constraints that are independent."""

    groups: tuple[Group, ...]

    def __len__(self) -> int:
        return sum(len(group.rows) for group in self.groups)

    @property
    def dependent(self) -> tuple[int, ...]:
        """All coordinates that depend on others."""
        return tuple(sorted(i for group in self.groups for i in group.dependent))


class Solved(NamedTuple):
    """A group at a configuration: the factors of J, and follow."""

    group: Group
    factor: LU
    follow: Any


class Closed:
    """The constraints of a tree at q, solved for the dependent coordinates of a partition."""

    def __init__(self, tree, q, partition):
        self.tree, self.q = tree, q
        self.values, self.jacobian = constraint_jacobian(tree, q)
        self.solved = [self._solved(group) for group in partition.groups]

    def _solved(self, group):
        self.tree.mark()
        factor = LU(self._block(group.rows, group.dependent))
        columns = self._block(group.rows, group.independent).T
        follow = [-factor.solve(column) for column in columns]
        return Solved(group, factor, np.stack(follow, axis=1) if follow else np.zeros((len(group.rows), 0)))

    def _block(self, rows, columns):
        return self.jacobian[np.ix_(rows, columns)]

    def basis(self):
        """Return N, nv x nv: all rates from the independent ones; zero columns for dependent coordinates."""
        N = np.eye(self.tree.nv).astype(object)
        for group, _, follow in self.solved:
            N[list(group.dependent)] = 0.0
            N[np.ix_(group.dependent, group.independent)] = follow
        return N

    def rates(self, x):
        """Return all rates, where the independent ones are those of x."""
        v = np.array(x, dtype=object)
        for group, _, follow in self.solved:
            v[list(group.dependent)] = follow @ v[list(group.independent)]
        return v

    def accelerations(self, v, x):
        """Return all accelerations at the rates v, where the independent ones are those of x."""
        right = constraint_right(self.tree, self.q, v)
        vdot = np.array(x, dtype=object)
        for group, factor, follow in self.solved:
            vdot[list(group.dependent)] = factor.solve(right[list(group.rows)]) + follow @ vdot[list(group.independent)]
        return vdot

    def correction(self):
        """Return the step of Newton's that closes the loops, the independent coordinates held."""
        change = self.tree.vector()
        for group, factor, _ in self.solved:
            change[list(group.dependent)] = -factor.solve(self.values[list(group.rows)])
        return change

    def on_independent(self, force):
        """Return the joint forces on the independent coordinates that do the work of others on all; zero on the dependent ones."""
        f = np.array(force, dtype=object)
        for group, _, follow in self.solved:
            f[list(group.independent)] = f[list(group.independent)] + follow.T @ f[list(group.dependent)]
            f[list(group.dependent)] = 0.0
        return f

    def on_actuated(self, force, actuated):
        """Return the joint forces on the actuated coordinates that do the work of others on all: those of least norm."""
        f = self.on_independent(force)
        for group, _, follow in self.solved:
            driven = [i for i, at in enumerate(group.dependent) if at in actuated]
            if driven:
                own, others = _least(follow[driven], f[list(group.independent)])
                f[list(group.independent)] = own
                f[[group.dependent[i] for i in driven]] = others
        return f

    def multipliers(self, force, units):
        """Return lambda, of least norm, that with the constraints holds the joint forces given; `units` measure the constraints."""
        found = np.zeros(len(self.values)).astype(object)
        for group, factor, _ in self.solved:
            self.tree.mark()
            rows, redundant, dependent = list(group.rows), list(group.redundant), list(group.dependent)
            held = factor.solve_transposed(np.array(force, dtype=object)[dependent])
            if redundant:
                shares = np.stack([factor.solve_transposed(row) for row in self._block(group.redundant, group.dependent)])
                shares = shares * units[rows] / units[redundant][:, None]
                held, others = _least(shares, held * units[rows])
                found[redundant] = others / units[redundant]
                held = held / units[rows]
            found[rows] = held
        return found


def _least(P, g):
    """Return x and P x, which is the solution (x, y) of x + P^T y = g of least norm."""
    x = Factor(np.eye(P.shape[1]) + P.T @ P).solve(g)
    return x, P @ x
