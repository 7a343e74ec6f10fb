"""Dynamics with loops by all of their constraints, whatever their rank; pivots chosen at run time tell which coordinates depend.

Source   multipliers and the null space of the constraint Jacobian, as in `pivoted_constraints`.
Frames   joint coordinates; constraints as in `constraints`, each loop in the frame of its base.
Cost     O(n^3) for n coordinates and as many constraints

    here   meaning
    J, g   Jacobian of all constraints, and its right-hand side: J vdot = g
    M, C   mass matrix of the tree, and the joint forces that hold vdot = 0
    y      multipliers: M vdot + J^T y = tau - C
"""

from __future__ import annotations

import numpy as np

from catena.formulations.inverse import newton_euler
from catena.formulations.linear.canonical_momenta import momentum_rates
from catena.formulations.loops.constraints import constraint_jacobian, constraint_motion
from catena.formulations.loops.pivoted_constraints import PivotedConstraints
from catena.formulations.mass.composite_body import mass_matrix
from catena.scalars.dual import moving, part


def forward_dynamics(tree, q, v, tau, wrenches=None, *, measures):
    """Return the solution under the joint forces tau."""
    loops = PivotedConstraints(tree, q, measures)
    rates, g = constraint_motion(tree, q, v)
    force = tau - newton_euler.bias_force(tree, q, v, wrenches)
    return loops.solution(mass_matrix(tree, q), force, g, rates * (1.0 / measures.constraints), v)


def accelerations(tree, q, v, tau, wrenches=None, *, measures, rank):
    """Return vdot under the joint forces tau, where the rank of the constraints is known."""
    loops = PivotedConstraints(tree, q, measures, rank)
    force = tau - newton_euler.bias_force(tree, q, v, wrenches)
    g = loops.without_units(constraint_motion(tree, q, v)[1])
    return loops.solve(mass_matrix(tree, q), force[:, None], g[:, None]).x[:, 0]


def project(tree, q, v, moved, *, measures, rank=None, least=None):
    """Return the nearest state by kinetic energy that meets the constraints, for one that nearly does, and its constraints.

    Positions move by `moved(q, change)` in two steps of Newton's, which take an error e to about e^4. Constraints that nearly depend on
    each other give large errors along the accelerations that forces of constraints can make; as these, a projection by kinetic energy does
    not move a state along its motion. With `least`, constraints whose pivot is smaller are left as they are.
    """
    none, M = np.zeros((tree.nv, 1)), mass_matrix(tree, q)
    for _ in range(2):
        loops = PivotedConstraints(tree, q, measures, rank, least)
        q = moved(q, loops.solve(M, none, -loops.values[loops.rows][:, None]).x[:, 0])
        tree.mark()
    loops = PivotedConstraints(tree, q, measures, rank, least)
    rates = loops.without_units(constraint_motion(tree, q, v)[0])
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
    loops = PivotedConstraints(tree, q, measures)
    rates, _ = constraint_motion(tree, q, v)
    held = np.array([1.0 if j in actuated else 0.0 for j in range(tree.nv)])
    found = loops.solution(np.diag(held), force, np.zeros(len(rates)), rates * (1.0 / measures.constraints), v)
    return found._replace(vdot=held * found.vdot)
