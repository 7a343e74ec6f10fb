"""Loops by independent coordinates: the constraints give the dependent ones, one group of coupled loops after the other.

Source   [WH82] Wehage & Haug, Generalized coordinate partitioning for dimension reduction in analysis of constrained dynamic systems.
Frames   joint coordinates; constraints as in `constraints`, each loop in the frame of its base.
Cost     O(n) and, for each group of coupled loops, the cube of its constraints

    here    meaning
    J       rows of the Jacobian that are independent, on the dependent coordinates, in factors
    matrix  dependent rates from the independent ones: -J^-1 times the columns of these
    lambda  multipliers of all constraints
    Phi_t   rates of the constraints where all velocities are zero: what driven joints do to them

Which coordinates depend, and which constraints are independent, is a matter of the configuration: a `CoordinatePartition` is made outside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.formulations.loops.constraints import constraint_jacobian, constraint_motion
from catena.spatial import LU, Factor


class GroupMap:
    """A group of coupled loops at q, solved for its dependent coordinates: values of its constraints, factors of J, and the matrix."""

    def __init__(self, tree, q, partition):
        self.partition = partition
        self.dependent, self.independent = list(partition.dependent), list(partition.independent)
        self.values, self.jacobian = constraint_jacobian(tree, q, group=partition.loops)
        self.row = {i: n for n, i in enumerate(partition.loops.rows)}
        self.column = {j: n for n, j in enumerate(partition.loops.columns)}
        tree.mark()
        self.factor = self.factors()
        columns = [-self.factor.solve(column) for column in self.chosen(self.part(self.independent)).T]
        self.matrix = np.stack(columns, axis=1) if columns else np.zeros((len(self.dependent), 0))

    def factors(self) -> Any:
        """Return the factors of J."""
        return LU(self.chosen(self.part(self.dependent)))

    def part(self, columns):
        """Return the columns of the Jacobian of velocity coordinates, by number."""
        return self.jacobian[:, [self.column[j] for j in columns]]

    def probe(self, reach):
        """Return a generic motion of the group, on all its coordinates, which are measured by `reach`; it meets the independent rows."""
        w = np.cos(2.0 + 3.0 * np.arange(len(self.independent))) * reach[self.independent]
        motion = np.zeros(len(self.column)).astype(object)
        motion[[self.column[j] for j in self.independent]] = w
        motion[[self.column[j] for j in self.dependent]] = self.matrix @ w
        return motion

    def block(self, rows, columns):
        """Return rows of the Jacobian on velocity coordinates, both by number."""
        return self.jacobian[np.ix_([self.row[i] for i in rows], [self.column[j] for j in columns])]

    def chosen(self, values):
        """Return the values, or rows, of the independent constraints, of those of all in the group."""
        return values[[self.row[i] for i in self.partition.rows]]


class LeastSquaresMap(GroupMap):
    """A group of coupled loops at q, solved for its dependent coordinates by least squares over all its constraints.

    Which of them are independent need not be known; they must determine the dependent coordinates. At states that close the loops
    the solution does not depend on the weights of the constraints.
    """

    def __init__(self, tree, q, partition, weights):
        self.weights = weights[list(partition.loops.rows)]
        super().__init__(tree, q, partition)

    def factors(self):
        """Return the factors of J^T J, with weights."""
        return Factor(self.chosen(self.part(self.dependent)))

    def chosen(self, values):
        """Return J^T of values of all constraints in the group, with weights."""
        return (self.part(self.dependent).T * self.weights) @ values


class DependentMap:
    """All coordinates of a tree at q from the independent ones of a partition; by least squares where weights are given."""

    def __init__(self, tree, q, partition, weights=None):
        self.tree, self.q = tree, q
        parts = partition.groups
        self.groups = [GroupMap(tree, q, part) if weights is None else LeastSquaresMap(tree, q, part, weights) for part in parts]

    def basis(self):
        """Return N, nv x nv: all rates from the independent ones, but for what driven joints do; zero columns for dependent coordinates."""
        N = np.eye(self.tree.nv).astype(object)
        for group in self.groups:
            N[group.dependent] = 0.0
            N[np.ix_(group.dependent, group.independent)] = group.matrix
        return N

    def rates(self, x):
        """Return all rates, where the independent ones are those of x."""
        v = np.array(x, dtype=object)
        for group in self.groups:
            v[group.dependent] = group.matrix @ v[group.independent] + self._drift(group)
        return v

    def _drift(self, group):
        """Return the dependent rates where the independent ones are zero: -J^-1 Phi_t, zero where nothing is driven."""
        if not self.tree.driven:
            return np.zeros(len(group.dependent))
        phi_t, _ = constraint_motion(self.tree, self.q, np.zeros(self.tree.nv), group.partition.loops)
        return -group.factor.solve(group.chosen(phi_t))

    def accelerations(self, v, x):
        """Return all accelerations at the rates v, where the independent ones are those of x."""
        vdot = np.array(x, dtype=object)
        for group in self.groups:
            _, right = constraint_motion(self.tree, self.q, v, group.partition.loops)
            moved = group.matrix @ vdot[group.independent]
            vdot[group.dependent] = group.factor.solve(group.chosen(right)) + moved
        return vdot

    def correction(self):
        """Return the step of Newton's that closes the loops, the independent coordinates held."""
        change = self.tree.vector()
        for group in self.groups:
            change[group.dependent] = -group.factor.solve(group.chosen(group.values))
        return change

    def held(self, rates):
        """Return the dependent velocities that undo rates of the independent constraints, by number; the independent ones are zero."""
        v = self.tree.vector()
        for group in self.groups:
            v[group.dependent] = -group.factor.solve(np.array([rates[i] for i in group.partition.rows], dtype=object))
        return v

    def on_independent(self, force):
        """Return the joint forces on the independent coordinates that do the work of others on all; zero on the dependent ones."""
        f = np.array(force, dtype=object)
        for group in self.groups:
            f[group.independent] = f[group.independent] + group.matrix.T @ f[group.dependent]
            f[group.dependent] = 0.0
        return f

    def on_actuated(self, force, actuated):
        """Return the joint forces on the actuated coordinates that do the work of others on all: those of least norm."""
        f = self.on_independent(force)
        for group in self.groups:
            driven = [i for i, j in enumerate(group.dependent) if j in actuated]
            if driven:
                f[group.independent], f[[group.dependent[i] for i in driven]] = _least(group.matrix[driven], f[group.independent])
        return f

    def multipliers(self, force, units):
        """Return lambda, of least norm, that with the constraints holds the joint forces given; `units` measure the constraints."""
        found = np.zeros(len(units)).astype(object)
        for group in self.groups:
            self.tree.mark()
            rows, redundant = list(group.partition.rows), list(group.partition.redundant)
            held = group.factor.solve_transposed(np.array(force, dtype=object)[group.dependent])
            if redundant:
                shares = np.stack([group.factor.solve_transposed(row) for row in group.block(redundant, group.dependent)])
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
