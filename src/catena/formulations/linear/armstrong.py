"""Forward dynamics of bodies on spherical joints, by Armstrong's recursion.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §5, (47), (48); for trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint.
Cost     O(n), on 3 x 3 matrices only.

    paper           here     meaning
    l(k, k-1)       X        joint of a body in the frame of its parent; X also turns into the parent's axes
    J, m, p         M        inertia about the joint, mass and centre of mass of the body
    Gamma^-1        inverse  inertia about the joint, with what the joints outboard carry
    L               L        -(m p~ + l~ Omega_F of what is carried)
    Omega, Upsilon  O, Y     angular acceleration of the body O_w u + Y_w, force across its joint O_F u + Y_F, for the acceleration u of
                             its origin
    N               tau      moment across the joint

The printed recursion is mended, and has no velocity terms; here they enter with b and a as in (60). The joints may have no armature: it
would tie the moment across a joint to the acceleration of the parent.
"""

from __future__ import annotations

import numpy as np

from catena.formulations.kinematics import angular_velocities, bias_wrench, rest_acceleration
from catena.spatial import Factor, columns, minus_product, vanishes


def requirement(tree):
    """Return why a tree does not fit this method, or nothing."""
    for k in range(tree.n):
        S = tree.joint_matrix(k, np.zeros(tree.nq))
        if not (S.shape == (6, 3) and all(isinstance(x, float) for x in S.flat) and np.array_equal(S, np.eye(6)[:, :3])):
            return f"all joints must be spherical, and that of '{tree.names[k]}' is not"
        if not vanishes(tree.armature[tree.v_slices[k]]):
            return f"joints must have no armature, and that of '{tree.names[k]}' has one"
    return ""


def forward_dynamics(tree, q, v, tau, wrenches=None):
    """Return vdot of the tree under the joint forces tau."""
    X, _, W, a = angular_velocities(tree, q, v)
    b = [bias_wrench(tree.M, k, W[k], wrenches) for k in range(tree.n)]
    O_w, Y_w, *_ = coefficients(tree, X, a, b, tau)
    (A,) = tree.columns(1)
    vdot = tree.vector()

    # outward: accelerations
    A[-1] = rest_acceleration(tree)
    for k in tree.outward():
        A_plus = X[k].motion(A[tree.parent[k]]) + a[k]
        turning = O_w[k] @ A_plus[3:] + Y_w[k]
        vdot[tree.v_slices[k]] = turning - A_plus[:3]
        A[k] = np.concatenate([turning, A_plus[3:]])
    return vdot


def coefficients(tree, X, a, b, tau):
    """Return Omega_w, Upsilon_w, Omega_F, Upsilon_F, Gamma^-1 and L of all bodies; last the ground's."""
    O_w, Y_w, O_F, Y_F = tree.columns(4)
    inverse = [*(M[:3, :3] for M in tree.M), np.zeros((3, 3))]
    L = [*(-M[:3, 3:] for M in tree.M), np.zeros((3, 3))]
    mass = [*(M[3:, 3:] for M in tree.M), np.zeros((3, 3))]
    moment = [*(tau[at] - bk[:3] for at, bk in zip(tree.v_slices, b, strict=True)), np.zeros(3)]
    force = [*(bk[3:] for bk in b), np.zeros(3)]

    # inward: (48), and what the parent feels of the body through its joint
    for k in tree.inward():
        p = tree.parent[k]
        gamma = Factor(inverse[k])
        O_w[k] = columns(gamma.solve, L[k])
        Y_w[k] = gamma.solve(moment[k])
        O_F[k] = minus_product(mass[k], O_w[k].T, L[k].T)
        Y_F[k] = force[k] - L[k].T @ Y_w[k]

        carried = X[k].inertia(np.block([[np.zeros((3, 3)), np.zeros((3, 3))], [np.zeros((3, 3)), O_F[k]]]))
        across = X[k].force(np.concatenate([tau[tree.v_slices[k]], Y_F[k] + O_F[k] @ a[k][3:]]))
        inverse[p] = inverse[p] + carried[:3, :3]
        L[p] = L[p] - carried[:3, 3:]
        mass[p] = mass[p] + carried[3:, 3:]
        moment[p] = moment[p] - across[:3]
        force[p] = force[p] + across[3:]
    return O_w, Y_w, O_F, Y_F, inverse, L
