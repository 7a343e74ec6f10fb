"""All constraints of a tree at q, whatever their rank, solved by pivots that are chosen at run time.

Source   the null space of the constraint Jacobian, by column pivoting; see `catena.graph.saddle_point`.
Frames   joint coordinates; constraints as in `constraints`, each loop in the frame of its base.
Cost     O(n^3) for n coordinates and as many constraints

    here      meaning
    J, g      Jacobian of all constraints, and its right-hand side: J x = g
    y         multipliers: M x + J^T y = f, the shortest of all, measured as the constraints are
    w, omega  generic numbers: a velocity, and a combination of constraints

A state at which constraints depend on each other is regular if they do so in its neighbourhood. There every velocity v of the null space is
that of a motion, and J a = g(q, v) has a solution a. At a singular configuration most are not: one generic velocity, and one generic
combination of the constraints that J^T takes to zero, reveal it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.formulations.loops.constraints import constraint_jacobian, constraint_motion
from catena.formulations.loops.solutions import PivotedSolution
from catena.tolerances import CLOSURE, LOST, RANK

#: Entries of long vectors that make a region of the graph: regions that are alike are compiled once.
PART = 60


class Measures(NamedTuple):
    """What the constraints are measured by, and the velocity coordinates: their units."""

    constraints: np.ndarray
    coordinates: np.ndarray


class PivotedConstraints:
    """The constraints of a tree at q, without units; rows that are zero at every configuration are left out.

    With `rank`, the best so many pivots are taken, whatever the state leaves of the others: on the way of a motion whose rank is known.
    `least` is the least pivot that counts, as a part of the largest.
    """

    def __init__(self, tree, q, measures, rank=None, least=None):
        self.tree, self.q, self.measures, self.rank = tree, q, measures, rank
        values, J = constraint_jacobian(tree, q)
        self.values = values * (1.0 / measures.constraints)
        self.rows = [i for i, row in enumerate(J) if any(may_differ(x) for x in row)] or [0]
        unit = np.outer(1.0 / measures.constraints[self.rows], measures.coordinates)
        self.J = J[self.rows] * unit
        self.tolerance = least or (RANK + CLOSURE * total(self.values) if rank is None else LOST)

    def without_units(self, g):
        """Return right-hand sides of all constraints without units, for the rows that are not left out."""
        return g[self.rows] * (1.0 / self.measures.constraints[self.rows])

    def solve(self, M, f, g):
        """Return the saddle point of columns f and g, g without units: x, and the multipliers of all constraints with their units."""
        reach = self.measures.coordinates
        found = self.tree.saddle_point(M * np.outer(reach, reach), f * reach[:, None], self.J, g, self.tolerance, self.rank)
        y = np.zeros((len(self.measures.constraints), f.shape[1])).astype(object)
        y[self.rows] = found.y * (1.0 / self.measures.constraints[self.rows])[:, None]
        return found._replace(x=found.x * reach[:, None], y=y)

    def solution(self, M, force, g, rates, v):
        """Return the solution of M x + J^T y = force, J x = g, and whether the state is regular; v keeps the loops closed."""
        n, m = len(M), len(self.rows)
        w, omega = generic_numbers(n, 1) * self.measures.coordinates, generic_numbers(m, 3)
        f = np.stack([force, M @ w, np.zeros(n)], axis=1)
        found = self.solve(M, f, np.stack([self.without_units(g), np.zeros(m), omega], axis=1))
        probe = found.x[:, 1] * (1.0 / (total(found.x[:, 1] * (1.0 / self.measures.coordinates)) + 1e-100))
        bent = self.without_units(constraint_motion(self.tree, self.q, v + probe)[1] - constraint_motion(self.tree, self.q, v)[1])
        across = found.residual[:, 2]
        bend = abs(across @ bent) / (total(bent) + 1e-3)
        return PivotedSolution(
            found.x[:, 0], found.y[:, 0], self.values, rates, found.rank, found.least, found.undetermined, found.residual[:, 0], bend
        )  # fmt: skip


class PivotedMap:
    """All coordinates of a tree at q from given ones, by least squares over all constraints; as `dependence.DependentMap`.

    `checks` has, for each system that was solved: how many coordinates it left undetermined, its residual, and its right-hand side. States
    far from closing the loops do not tell the rank; if `determined`, it is the number of dependent coordinates.
    """

    def __init__(self, tree, q, independent, measures, determined=False):
        self.tree, self.q = tree, q
        self.independent = list(independent)
        self.dependent = [j for j in range(tree.nv) if j not in self.independent]
        self.loops = PivotedConstraints(tree, q, measures, len(self.dependent) if determined else None)
        self.on_independent_rates = self.loops.J[:, self.independent] * (1.0 / measures.coordinates[self.independent])
        self.checks = []

    def _solve(self, f, g):
        """Return x and y of J x = g, x + J^T y = f on the dependent coordinates, without units."""
        J = self.loops.J[:, self.dependent]
        found = self.tree.saddle_point(np.eye(len(self.dependent)), f, J, g, self.loops.tolerance, self.loops.rank)
        self.checks.append((len(self.dependent) - found.rank, total(found.residual.ravel()), total(g.ravel())))
        return found.x, found.y

    def _all(self, x, g):
        """Return a vector of all coordinates, where the independent ones are those of x and the constraints have right-hand sides g."""
        rates = np.array(x, dtype=object)
        if self.dependent:
            remaining = g - self.on_independent_rates @ rates[self.independent]
            dependent, _ = self._solve(np.zeros((len(self.dependent), 1)), remaining[:, None])
            rates[self.dependent] = dependent[:, 0] * self.loops.measures.coordinates[self.dependent]
        return rates

    def basis(self):
        """Return N, nv x nv: all rates from the independent ones, but for what driven joints do; zero columns for dependent coordinates."""
        N = np.zeros((self.tree.nv, self.tree.nv)).astype(object)
        N[self.independent, self.independent] = 1.0
        if self.dependent and self.independent:
            dependent, _ = self._solve(np.zeros((len(self.dependent), len(self.independent))), -self.on_independent_rates)
            N[np.ix_(self.dependent, self.independent)] = dependent * self.loops.measures.coordinates[self.dependent][:, None]
        return N

    def rates(self, x):
        """Return all rates, where the independent ones are those of x."""
        phi_t, _ = constraint_motion(self.tree, self.q, np.zeros(self.tree.nv))
        return self._all(x, -self.loops.without_units(phi_t))

    def accelerations(self, v, x):
        """Return all accelerations at the rates v, where the independent ones are those of x."""
        return self._all(x, self.loops.without_units(constraint_motion(self.tree, self.q, v)[1]))

    def correction(self):
        """Return the step of Newton's that closes the loops, the independent coordinates held."""
        return self._all(np.zeros(self.tree.nv), -self.loops.values[self.loops.rows])

    def on_independent(self, force):
        """Return the joint forces on the independent coordinates that do the work of others on all; zero on the dependent ones."""
        f = np.array(force, dtype=object)
        if self.dependent:
            reach = self.loops.measures.coordinates[self.dependent]
            _, y = self._solve((f[self.dependent] * reach)[:, None], np.zeros((len(self.loops.rows), 1)))
            f[self.independent] = f[self.independent] - self.on_independent_rates.T @ y[:, 0]
            f[self.dependent] = 0.0
        return f


def generic_numbers(count, seed):
    """Return numbers between 1/2 and 1 in size that no mechanism has, always the same."""
    x = np.random.default_rng(seed).uniform(0.5, 1.0, size=count)
    return x * np.where(np.random.default_rng(seed + 1).uniform(size=count) < 0.5, -1.0, 1.0)


def total(x, mark=lambda: None):
    """Return the sum of the sizes of numbers."""
    found: Any = 0.0
    for n, entry in enumerate(x):
        if n % PART == 0:
            mark()
        found = found + abs(entry)
    return found


def may_differ(x):
    """Return whether a number is not always zero."""
    return not isinstance(x, (int, float)) or x != 0.0
