"""Forward dynamics by articulated bodies.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §5, §6, (45), (46), (60); for trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint.
Cost     O(n); nothing branches on a value, so the function can be traced.

    paper     here  meaning
    phi       X     shift between parent and body
    H*        S     joint matrix
    a, b      a, b  bias acceleration and gyroscopic force; b is less the wrench that acts on the body
    P, P+     P     articulated inertia, outboard and inboard of the joint
    D, G      D, G  joint inertia and gain
    z, z+     z     correction force, outboard and inboard of the joint
    eps, nu   e,nu  effective joint force, and the acceleration it gives

The paper puts P a into z before it is projected; here P+ a is added after, which is the same z+ with fewer operations:
z + P a + G (tau - S^T (z + P a)) = z + P+ a + G (tau - S^T z), and nu - G^T alpha+ then has a in alpha+.
"""

from __future__ import annotations

import numpy as np

from catena.formulations.inertias import across_joint, force_inboard, motion_outboard
from catena.formulations.kinematics import angular_velocities, bias_wrench, rest_acceleration


def forward_dynamics(tree, q, v, tau, wrenches=None):
    """Return vdot of the tree under the joint forces tau."""
    X, S, W, a = angular_velocities(tree, q, v)
    G, nu, A = tree.columns(3)
    P = [*tree.regrouped, np.zeros((6, 6))]
    z = [np.zeros(6) for _ in P]
    vdot = tree.vector()

    # inward: what each parent feels of the body through its joint
    for k in tree.inward():
        at, p = tree.v_slices[k], tree.parent[k]
        D, G[k], P_plus = across_joint(tree, k, P[k], S[k])
        z[k] = z[k] + bias_wrench(tree.regrouped, k, W[k], wrenches)
        e, z_plus = force_inboard(S[k], G[k], z[k], tau[at])
        nu[k] = D.solve(e)
        P[p] = P[p] + X[k].inertia(P_plus)
        z[p] = z[p] + X[k].force(z_plus + P_plus @ a[k])

    # outward: accelerations
    A[-1] = rest_acceleration(tree)
    for k in tree.outward():
        A_plus = X[k].motion(A[tree.parent[k]]) + a[k]
        vdot[tree.v_slices[k]], A[k] = motion_outboard(S[k], G[k], nu[k], A_plus)
    return vdot
