"""Forward dynamics by elimination of joints in the world's axes, with a choice of the analysis reference point.

Source   [KY03] Kang & Yoon, On the improvement of a fully recursive formulation, (28)-(30); for trees. States: `reference_points`.
Frames   the world's axes, every body at its reference point.
Cost     O(n); one recursion for all reference points.

    paper       here         meaning
    B_1, B_2    B1, B2       shift from the parent, and joint matrix, at the reference points
    D           D            velocity square term
    M, Q        M, Q         mass matrix and force; after (29) of the body and all that it carries, joints free
    M_22        M22          joint inertia, in factors; it holds the armature too
    M_21        M22 G^T B1   G is the gain M B2 M22^-1
    Q_2         Q2           joint force, with tau

The paper shifts M and M_21 to the parent, and eliminates the joint from what is shifted. Here the joint is eliminated at the body, and only
the result is shifted: the same M and Q of the parent with fewer operations.

With the origin, inertias grow with the square of the distance to the ground's frame, and rounding with them.
"""

from __future__ import annotations

import numpy as np

from catena.formulations.inertias import across_joint
from catena.formulations.linear.reference_points import states


def forward_dynamics(tree, q, v, tau, wrenches=None, *, reference):
    """Return vdot of the tree under the joint forces tau; `reference` is "centroid", "joint" or "origin"."""
    _, state = states(tree, q, v, reference, wrenches)
    M22, G, Q2 = eliminate(tree, state, tau)
    vdot, _ = accelerate(tree, state, M22, G, Q2)
    return vdot


def eliminate(tree, state, tau):
    """Return the factors of M22, the gains G and the joint forces Q2 of all bodies; last the ground's."""
    M, Q = [body.M for body in state], [body.Q for body in state]
    M22, G, Q2 = tree.columns(3)

    # inward: (28), (29)
    for k in tree.inward():
        p, (B1, B2, D, *_) = tree.parent[k], state[k]
        M22[k], G[k], M_plus = across_joint(B2, tree.armature[tree.v_slices[k]], M[k])
        Q_free = Q[k] - M[k] @ D
        Q2[k] = tau[tree.v_slices[k]] + B2.T @ Q_free
        M[p] = M[p] + B1.inertia(M_plus)
        Q[p] = Q[p] + B1.force(Q_free - G[k] @ Q2[k])
    return M22, G, Q2


def accelerate(tree, state, M22, G, Q2):
    """Return vdot, and the derivatives of the velocity states of all bodies; last the ground's."""
    (Y_rate,) = tree.columns(1)
    vdot = tree.vector()

    # outward: (30)
    Y_rate[-1] = np.zeros(6)
    for k in tree.outward():
        at, (B1, B2, D, *_) = tree.v_slices[k], state[k]
        carried = B1.motion(Y_rate[tree.parent[k]])
        vdot[at] = M22[k].solve(Q2[k]) - G[k].T @ carried
        Y_rate[k] = carried + B2 @ vdot[at] + D
    return vdot, Y_rate
