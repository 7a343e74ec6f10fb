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
from catena.formulations.kinematics import angular_velocities, bias_of_body, rest_acceleration
from catena.spatial import straight_line


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
        M, wrench = tree.regrouped[k], None if wrenches is None else wrenches[k]
        G[k], nu[k], P[p], z[p] = inward_step(X[k], S[k], M, W[k], a[k], wrench, tree.armature[at], tau[at], P[k], z[k], P[p], z[p])

    # outward: accelerations
    A[-1] = rest_acceleration(tree)
    for k in tree.outward():
        vdot[tree.v_slices[k]], A[k] = outward_step(X[k], S[k], a[k], G[k], nu[k], A[tree.parent[k]])
    return vdot


@straight_line
def inward_step(X, S, M, W, a, wrench, armature, tau, P, z, P_parent, z_parent):
    """Return G and nu of a joint, and P and z of the parent with what it feels of the body through the joint."""
    D, G, P_plus = across_joint(S, armature, P)
    e, z_plus = force_inboard(S, G, z + bias_of_body(M, W, wrench), tau)
    nu = D.solve(e)
    P_parent = P_parent + X.inertia(P_plus)
    return G, nu, P_parent, z_parent + X.force(z_plus + P_plus @ a)


@straight_line
def outward_step(X, S, a, G, nu, A):
    """Return vdot of a joint, and A of its body, from A of the parent."""
    return motion_outboard(S, G, nu, X.motion(A) + a)
