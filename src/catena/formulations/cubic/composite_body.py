"""Forward dynamics through the mass matrix of composite bodies and its factors.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §3, (22), (28); for trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint.
Cost     O(n^3), of which O(n^2) for the matrix; branches of a tree do not meet, and their zeros cost nothing.

    paper  here  meaning
    M      mass  mass matrix
    C      C     bias force
    T      tau   joint force
"""

from __future__ import annotations

from catena.formulations.inverse.newton_euler import bias_force
from catena.formulations.mass.composite_body import mass_matrix


def forward_dynamics(tree, q, v, tau, wrenches=None):
    """Return vdot of the tree under the joint forces tau: solve M vdot = tau - C."""
    mass = mass_matrix(tree, q)
    C = bias_force(tree, q, v, wrenches)
    return tree.solve(mass, tau - C)
