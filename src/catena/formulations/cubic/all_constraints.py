"""Loops by all of their constraints, whatever their rank: which coordinates depend is found state by state, by pivots chosen at run time.

Source   the null space of the constraint Jacobian, by column pivoting; see `catena.graph.saddle_point`.
Frames   joint coordinates; constraints as in `constraints`, each loop in the frame of its base.
Cost     O(n^3) for n coordinates and as many constraints

    here      meaning
    J, g      Jacobian of all constraints, and its right-hand side: J vdot = g
    M, C      mass matrix of the tree, and the joint forces that hold vdot = 0
    y         multipliers: M vdot + J^T y = tau - C, the shortest of all, measured as the constraints are
    w, omega  generic numbers: a velocity, and a combination of constraints

A state at which constraints depend on each other is regular if they do so in its neighbourhood. There every velocity v of the null space is
that of a motion, and J a = g(q, v) has a solution a. At a singular configuration most are not: it is told by one generic velocity, and one
generic combination of the constraints that J^T takes to zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.dual import moving, part
from catena.formulations.constraints import constraint_jacobian, constraint_motion
from catena.formulations.inverse import newton_euler
from catena.formulations.linear.canonical_momenta import momentum_rates
from catena.formulations.mass.composite_body import mass_matrix
from catena.tolerances import CLOSURE, LOST, RANK


class Measures(NamedTuple):
    """What the constraints are measured by, and the velocity coordinates: their units."""

    constraints: np.ndarray
    coordinates: np.ndarray


class Solved(NamedTuple):
    """Accelerations and multipliers; values and rates of all constraints, without units; and what is to be known of the state.

    `rank` is the number of independent constraints, `least` the smallest pivot and `undetermined` the number of coordinates that nothing
    holds and nothing moves; `residual` is what accelerations leave of the constraints, without units, and `bend` what is left of those of a
    generic velocity, relative to it; both are zero at regular states.
    """

    vdot: Any
    multipliers: Any
    values: Any
    rates: Any
    rank: Any
    least: Any
    undetermined: Any
    residual: Any
    bend: Any


def generic(count, seed):
    """Return numbers between 1/2 and 1 in size that no mechanism has, always the same."""
    x = np.random.default_rng(seed).uniform(0.5, 1.0, size=count)
    return x * np.where(np.random.default_rng(seed + 1).uniform(size=count) < 0.5, -1.0, 1.0)


def size(x):
    """Return the sum of the sizes of numbers."""
    total: Any = 0.0
    for entry in x:
        total = total + abs(entry)
    return total


class AllConstraints:
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
        self.tolerance = least or (RANK + CLOSURE * size(self.values) if rank is None else LOST)

    def right(self, g):
        """Return right-hand sides of all constraints without units, for the rows that are left."""
        return g[self.rows] * (1.0 / self.measures.constraints[self.rows])

    def solve(self, M, f, g):
        """Return the saddle point of columns f and g, g without units: x, and the multipliers of all constraints with their units."""
        reach = self.measures.coordinates
        found = self.tree.saddle_point(M * np.outer(reach, reach), f * reach[:, None], self.J, g, self.tolerance, self.rank)
        y = np.zeros((len(self.measures.constraints), f.shape[1])).astype(object)
        y[self.rows] = found.y * (1.0 / self.measures.constraints[self.rows])[:, None]
        return found._replace(x=found.x * reach[:, None], y=y)

    def solved(self, M, force, g, rates, v):
        """Return the solution M x + J^T y = force, J x = g, and whether the state is regular; v keeps the loops closed."""
        n, m = len(M), len(self.rows)
        w = generic(n, 1) * self.measures.coordinates
        f = np.stack([force, M @ w, np.zeros(n)], axis=1)
        found = self.solve(M, f, np.stack([self.right(g), np.zeros(m), generic(m, 3)], axis=1))
        probe = found.x[:, 1] * (1.0 / (size(found.x[:, 1] * (1.0 / self.measures.coordinates)) + 1e-100))
        bent = self.right(constraint_motion(self.tree, self.q, v + probe)[1] - constraint_motion(self.tree, self.q, v)[1])
        across = found.residual[:, 2]
        bend = abs(across @ bent) / (size(bent) + 1e-3)
        return Solved(
            found.x[:, 0], found.y[:, 0], self.values, rates, found.rank, found.least, found.undetermined, found.residual[:, 0], bend
        )  # fmt: skip


def may_differ(x):
    """Return whether a number is not always zero."""
    return not isinstance(x, (int, float)) or x != 0.0


def forward_dynamics(tree, q, v, tau, wrenches=None, *, measures):
    """Return the solution under the joint forces tau.

    `wrenches` act on the bodies: one (moment, force) for each body in its frame, at its origin, or None; last the ground's.
    """
    loops = AllConstraints(tree, q, measures)
    rates, g = constraint_motion(tree, q, v)
    force = tau - newton_euler.bias_force(tree, q, v, wrenches)
    return loops.solved(mass_matrix(tree, q), force, g, rates * (1.0 / measures.constraints), v)


def accelerations(tree, q, v, tau, wrenches=None, *, measures, rank):
    """Return vdot under the joint forces tau, where the rank of the constraints is known; `wrenches` as in `forward_dynamics`."""
    loops = AllConstraints(tree, q, measures, rank)
    force = tau - newton_euler.bias_force(tree, q, v, wrenches)
    g = loops.right(constraint_motion(tree, q, v)[1])
    return loops.solve(mass_matrix(tree, q), force[:, None], g[:, None]).x[:, 0]


def project(tree, q, v, moved, *, measures, rank=None, least=None):
    """Return the nearest state by kinetic energy that meets the constraints, for one that nearly does, and its constraints.

    Positions follow by two steps of Newton's, `moved(q, change)`, which take an error e to about e^4. Constraints that nearly depend on
    each other give large errors along the accelerations that forces of constraints can make; as these, a projection by kinetic energy does
    not move a state along its motion. With `least`, constraints whose pivot is smaller are left as they are.
    """
    none, M = np.zeros((tree.nv, 1)), mass_matrix(tree, q)
    for _ in range(2):
        loops = AllConstraints(tree, q, measures, rank, least)
        q = moved(q, loops.solve(M, none, -loops.values[loops.rows][:, None]).x[:, 0])
        tree.mark()
    loops = AllConstraints(tree, q, measures, rank, least)
    rates = loops.right(constraint_motion(tree, q, v)[0])
    found = loops.solve(mass_matrix(tree, q), none, -rates[:, None])
    return q, v + found.x[:, 0], loops.values, found


def velocities(tree, q, p, *, measures):
    """Return the solution for the momenta p, whose accelerations are the velocities v; see `canonical_loops`."""
    return forward_dynamics(tree.weightless().starting(), q, np.zeros(tree.nv), p, measures=measures)


def hamiltonian_dynamics(tree, q, v, tau, wrenches, multipliers, *, rate):
    """Return dp/dt of the tree under the joint forces tau, at the velocities v and with the multipliers of `velocities`."""
    _, pdot = momentum_rates(tree, q, v, tau, wrenches)
    J = constraint_jacobian(tree.moving(), moving(q, rate(q, v)))[1]
    return pdot + part(J, "derivative").T @ multipliers


def on_actuated(tree, q, v, force, actuated, *, measures):
    """Return the solution whose vdot are the joint forces of least norm on the actuated coordinates that do the work of `force` on all.

    They are undetermined where a motion of the mechanism moves no actuated coordinate.
    """
    loops = AllConstraints(tree, q, measures)
    rates, _ = constraint_motion(tree, q, v)
    held = np.array([1.0 if j in actuated else 0.0 for j in range(tree.nv)])
    solved = loops.solved(np.diag(held), force, np.zeros(len(rates)), rates * (1.0 / measures.constraints), v)
    return solved._replace(vdot=held * solved.vdot)


class Following:
    """The constraints of a tree at q, solved for all coordinates but some, by least squares over all constraints; as `partition.Closed`.

    `sure` has, of each system that was solved, how many coordinates did not follow, and what was left of the constraints.
    """

    def __init__(self, tree, q, independent, measures):
        self.tree, self.q, self.loops = tree, q, AllConstraints(tree, q, measures)
        self.independent = list(independent)
        self.dependent = [j for j in range(tree.nv) if j not in self.independent]
        self.on_independent_rates = self.loops.J[:, self.independent] * (1.0 / measures.coordinates[self.independent])
        self.sure = []

    def _solve(self, f, g):
        """Return x and y of J x = g, x + J^T y = f on the dependent coordinates, without units."""
        J = self.loops.J[:, self.dependent]
        found = self.tree.saddle_point(np.eye(len(self.dependent)), f, J, g, self.loops.tolerance)
        self.sure.append((len(self.dependent) - found.rank, size(found.residual.ravel()), size(g.ravel())))
        return found.x, found.y

    def _followed(self, x, g):
        """Return a vector of all coordinates, where the independent ones are those of x and the constraints have right-hand sides g."""
        found = np.array(x, dtype=object)
        if self.dependent:
            left = g - self.on_independent_rates @ found[self.independent]
            own, _ = self._solve(np.zeros((len(self.dependent), 1)), left[:, None])
            found[self.dependent] = own[:, 0] * self.loops.measures.coordinates[self.dependent]
        return found

    def basis(self):
        """Return N, nv x nv: all rates from the independent ones, but for what driven joints do; zero columns for dependent coordinates."""
        N = np.zeros((self.tree.nv, self.tree.nv)).astype(object)
        N[self.independent, self.independent] = 1.0
        if self.dependent and self.independent:
            own, _ = self._solve(np.zeros((len(self.dependent), len(self.independent))), -self.on_independent_rates)
            N[np.ix_(self.dependent, self.independent)] = own * self.loops.measures.coordinates[self.dependent][:, None]
        return N

    def rates(self, x):
        """Return all rates, where the independent ones are those of x."""
        phi_t, _ = constraint_motion(self.tree, self.q, np.zeros(self.tree.nv))
        return self._followed(x, -self.loops.right(phi_t))

    def accelerations(self, v, x):
        """Return all accelerations at the rates v, where the independent ones are those of x."""
        return self._followed(x, self.loops.right(constraint_motion(self.tree, self.q, v)[1]))

    def correction(self):
        """Return the step of Newton's that closes the loops, the independent coordinates held."""
        return self._followed(np.zeros(self.tree.nv), -self.loops.values[self.loops.rows])

    def on_independent(self, force):
        """Return the joint forces on the independent coordinates that do the work of others on all; zero on the dependent ones."""
        f = np.array(force, dtype=object)
        if self.dependent:
            reach = self.loops.measures.coordinates[self.dependent]
            _, y = self._solve((f[self.dependent] * reach)[:, None], np.zeros((len(self.loops.rows), 1)))
            f[self.independent] = f[self.independent] - self.on_independent_rates.T @ y[:, 0]
            f[self.dependent] = 0.0
        return f
