"""Forward dynamics by the triangular factors of the mass matrix.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §4, triangularized equations, and Lemma 6.2; for
         trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint.
Cost     O(n^2); branches of a tree do not meet, and their zeros cost nothing.

    paper        here  meaning
    phi          X     shift between parent and body
    H*           S     joint matrix
    D, G         D, G  joint inertia and gain
    I + H phi K  L     unit triangular factor of the mass matrix, M = L D L*; here bodies are numbered outward, so it is upper triangular
    C            C     bias force
    D x          e     the innovations: joint forces less what the joints outboard have taken of them
"""

from __future__ import annotations

from catena.formulations.inertias import articulated_inertias
from catena.formulations.inverse.newton_euler import bias_force
from catena.formulations.kinematics import placements


def forward_dynamics(tree, q, v, tau, wrenches=None):
    """Return vdot of the tree under the joint forces tau: solve L D x = tau - C, then L* vdot = x."""
    X, S = placements(tree, q)
    _, D, G = articulated_inertias(tree, X, S, tree.regrouped)
    right = tau - bias_force(tree, q, v, wrenches)
    e = [right[at] for at in tree.v_slices]
    L = {}
    vdot = tree.vector()

    # inward from every body: its column of L, and (a) what it takes from the joints inboard
    for k in reversed(range(tree.n)):
        F = X[k].forces(G[k])
        for j in tree.path(tree.parent[k]):
            L[j, k] = S[j].T @ F
            e[j] = e[j] - L[j, k] @ e[k]
            F = X[j].forces(F)

    # outward: (b) joint accelerations
    for k in tree.outward():
        x = D[k].solve(e[k])
        for j in tree.path(tree.parent[k]):
            x = x - L[j, k].T @ vdot[tree.v_slices[j]]
        vdot[tree.v_slices[k]] = x
    return vdot
