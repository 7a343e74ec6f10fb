"""Loops by independent coordinates: the others follow from the constraints, one group of loops after the other.

Source   [WH82] Wehage & Haug, Generalized coordinate partitioning for dimension reduction in analysis of constrained dynamic systems.
Frames   joint coordinates; constraints as in `constraints`, each loop in the frame of its base.
Cost     O(n) and, for each group of loops that share joints, the cube of its constraints

    here    meaning
    J       rows of the Jacobian that are independent, on the dependent coordinates, in factors
    follow  dependent rates from the independent ones: -J^-1 times the columns of these
    lambda  multipliers of all constraints
    Phi_t   rates of the constraints where all velocities are zero: what driven joints do to them

Which coordinates depend, and which constraints are independent, is a matter of the configuration, and is decided outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from catena.formulations.constraints import Joined, constraint_jacobian, constraint_motion
from catena.spatial import LU, Factor


class Group(NamedTuple):
    """Loops that share joints: independent and redundant constraints; dependent and independent velocity coordinates.

    There are as many dependent coordinates as independent constraints; both are in the order in which they are eliminated.
    """

    loops: Joined
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
    def rows(self) -> tuple[int, ...]:
        """All constraints that are independent."""
        return tuple(sorted(i for group in self.groups for i in group.rows))

    @property
    def dependent(self) -> tuple[int, ...]:
        """All coordinates that depend on others."""
        return tuple(sorted(i for group in self.groups for i in group.dependent))


class Solved:
    """A group of loops at q, solved for its dependent coordinates: values of its constraints, the factors of J, and follow."""

    def __init__(self, tree, q, group):
        self.group = group
        self.values, self.jacobian = constraint_jacobian(tree, q, group=group.loops)
        self.row = {i: n for n, i in enumerate(group.loops.rows)}
        self.column = {j: n for n, j in enumerate(group.loops.columns)}
        tree.mark()
        self.factor = self.factors()
        follow = [-self.factor.solve(column) for column in self.chosen(self.part(group.independent)).T]
        self.follow = np.stack(follow, axis=1) if follow else np.zeros((len(group.dependent), 0))

    def factors(self) -> Any:
        """Return the factors of J."""
        return LU(self.chosen(self.part(self.group.dependent)))

    def part(self, columns):
        """Return the columns of the Jacobian of velocity coordinates, by number."""
        return self.jacobian[:, [self.column[j] for j in columns]]

    def probe(self, reach):
        """Return a generic motion of the group, on all its coordinates, which are measured by `reach`; it meets the independent rows."""
        group = self.group
        w = np.cos(2.0 + 3.0 * np.arange(len(group.independent))) * reach[list(group.independent)]
        found = np.zeros(len(self.column)).astype(object)
        found[[self.column[j] for j in group.independent]] = w
        found[[self.column[j] for j in group.dependent]] = self.follow @ w
        return found

    def block(self, rows, columns):
        """Return rows of the Jacobian on velocity coordinates, both by number."""
        return self.jacobian[np.ix_([self.row[i] for i in rows], [self.column[j] for j in columns])]

    def chosen(self, values):
        """Return the values, or rows, of the independent constraints, of those of all in the group."""
        return values[[self.row[i] for i in self.group.rows]]


class Fitted(Solved):
    """A group of loops at q, solved for its dependent coordinates by least squares over all its constraints.

    Which of them are independent need not be known; the dependent coordinates must follow from the others. At states that close the loops
    the solution does not depend on the weights of the constraints.
    """

    def __init__(self, tree, q, group, weights):
        self.weights = weights[list(group.loops.rows)]
        super().__init__(tree, q, group)

    def factors(self):
        """Return the factors of J^T J, with weights."""
        return Factor(self.chosen(self.part(self.group.dependent)))

    def chosen(self, values):
        """Return J^T of values of all constraints in the group, with weights."""
        return (self.part(self.group.dependent).T * self.weights) @ values


class Closed:
    """The constraints of a tree at q, solved for the dependent coordinates of a partition; by least squares where weights are given."""

    def __init__(self, tree, q, partition, weights=None):
        self.tree, self.q = tree, q
        groups = partition.groups
        self.solved = [Solved(tree, q, group) if weights is None else Fitted(tree, q, group, weights) for group in groups]

    def basis(self):
        """Return N, nv x nv: all rates from the independent ones, but for what driven joints do; zero columns for dependent coordinates."""
        N = np.eye(self.tree.nv).astype(object)
        for part in self.solved:
            N[list(part.group.dependent)] = 0.0
            N[np.ix_(part.group.dependent, part.group.independent)] = part.follow
        return N

    def rates(self, x):
        """Return all rates, where the independent ones are those of x."""
        v = np.array(x, dtype=object)
        for part in self.solved:
            v[list(part.group.dependent)] = part.follow @ v[list(part.group.independent)] + self._drift(part)
        return v

    def _drift(self, part):
        """Return the dependent rates where the independent ones are zero: -J^-1 Phi_t, zero where nothing is driven."""
        if not self.tree.driven:
            return np.zeros(len(part.group.dependent))
        phi_t, _ = constraint_motion(self.tree, self.q, np.zeros(self.tree.nv), part.group.loops)
        return -part.factor.solve(part.chosen(phi_t))

    def accelerations(self, v, x):
        """Return all accelerations at the rates v, where the independent ones are those of x."""
        vdot = np.array(x, dtype=object)
        for part in self.solved:
            _, right = constraint_motion(self.tree, self.q, v, part.group.loops)
            moved = part.follow @ vdot[list(part.group.independent)]
            vdot[list(part.group.dependent)] = part.factor.solve(part.chosen(right)) + moved
        return vdot

    def correction(self):
        """Return the step of Newton's that closes the loops, the independent coordinates held."""
        change = self.tree.vector()
        for part in self.solved:
            change[list(part.group.dependent)] = -part.factor.solve(part.chosen(part.values))
        return change

    def on_independent(self, force):
        """Return the joint forces on the independent coordinates that do the work of others on all; zero on the dependent ones."""
        f = np.array(force, dtype=object)
        for part in self.solved:
            independent, dependent = list(part.group.independent), list(part.group.dependent)
            f[independent] = f[independent] + part.follow.T @ f[dependent]
            f[dependent] = 0.0
        return f

    def on_actuated(self, force, actuated):
        """Return the joint forces on the actuated coordinates that do the work of others on all: those of least norm."""
        f = self.on_independent(force)
        for part in self.solved:
            independent = list(part.group.independent)
            driven = [i for i, at in enumerate(part.group.dependent) if at in actuated]
            if driven:
                f[independent], f[[part.group.dependent[i] for i in driven]] = _least(part.follow[driven], f[independent])
        return f

    def multipliers(self, force, units):
        """Return lambda, of least norm, that with the constraints holds the joint forces given; `units` measure the constraints."""
        found = np.zeros(len(units)).astype(object)
        for part in self.solved:
            self.tree.mark()
            rows, redundant, dependent = (list(x) for x in (part.group.rows, part.group.redundant, part.group.dependent))
            held = part.factor.solve_transposed(np.array(force, dtype=object)[dependent])
            if redundant:
                shares = np.stack([part.factor.solve_transposed(row) for row in part.block(redundant, dependent)])
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
