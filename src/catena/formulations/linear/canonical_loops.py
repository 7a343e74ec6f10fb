"""Hamilton's equations with loops, whose constraints hold at the level of velocities.

Source   [NLT03] Naudet, Lefeber & Terze, General formulation of an efficient recursive algorithm based on canonical momenta, §3 (6)-(8);
         solved by the coordinate reduction of [CA03].
Frames   every quantity of body k is expressed in the frame of body k, at its joint; constraints as in `constraints`.
Cost     O(n + m) for n bodies and m constraints, where the groups of loops that share joints are small.

    paper   here   meaning
    M       -      mass matrix of the tree
    Phi_q   J      Jacobian of the constraints
    sigma   sigma  multipliers: impulses that the constraints have taken up
    p       p      canonical momenta of the augmented Lagrangian (6): M v + J^T sigma

(7) is the equation of forward dynamics at rest, with p for the joint forces: the same recursion solves it, without multipliers. Momenta
that differ by J^T sigma belong to the same motion; M v are those with sigma = 0. Driven joints add what they carry to p, and Phi_t to (7):
there they accelerate as they move.
"""

from __future__ import annotations

import numpy as np

from catena.formulations.linear import coordinate_reduction
from catena.formulations.linear.canonical_momenta import momentum_rates
from catena.formulations.loops.constraints import constraint_jacobian
from catena.formulations.loops.dependence import DependentMap
from catena.scalars.dual import moving, part


def velocities(tree, q, p, *, plan):
    """Return the solution for the momenta p, whose accelerations are the velocities v. (7)."""
    return coordinate_reduction.forward_dynamics(tree.weightless().starting(), q, np.zeros(tree.nv), p, plan=plan)


def hamiltonian_dynamics(tree, q, p, v, tau, wrenches=None, *, coordinates, rate):
    """Return dp/dt under the joint forces tau, at the velocities v of p; `coordinates` depend, and `rate(q, v)` is dq/dt. (8)."""
    own, pdot = momentum_rates(tree, q, v, tau, wrenches)
    dependence = DependentMap(tree, q, coordinates)
    impulses = p - own
    changing = moving(q, rate(q, v))
    for group in dependence.groups:
        tree.mark()
        loops = group.partition.loops
        sigma = group.factor.solve_transposed(impulses[group.dependent])
        J = constraint_jacobian(tree.moving(), changing, group=loops)[1]
        J_rate = group.chosen(part(J, "derivative"))
        pdot[list(loops.columns)] = pdot[list(loops.columns)] + J_rate.T @ sigma
    return pdot
