"""Forward dynamics by canonical momenta: Hamilton's equations.

Source   [NLT03] Naudet, Lefeber & Terze, General formulation of an efficient recursive algorithm based on canonical momenta, §5, §6;
         for trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint; angular parts first.
Cost     O(n) in two sweeps; nothing branches on a value, so the function can be traced.

    paper       here    meaning
    T^V, T^F    X       shift between parent and body
    Omega_t     W       what a joint does by itself; zero unless it is driven
    E_j         S       joint matrix
    M*, M'      M       articulated mass matrix, outboard and inboard of the joint
    M_j         D       joint mass matrix, armature included
    D, D'       R       momentum remainder, outboard and inboard of the joint
    Omega       V       velocity; outboard of the joint, and before it, with Omega_t
    P*          P       articulated momentum: of the body and all that it carries
    T*          T       accumulated force: on the body and all that it carries, gravity apart
    -           m, h    mass of the body and all that it carries, and its first moment, by which gravity acts

What does not move with a joint costs nothing: P* = M' Omega + D' with the velocity before the joint (39), and in (35) the joint's own
motion turns S only, so that p' = S^T (T* - Omega x P*) + (dS/dt)^T P* with that velocity, and dS/dt as it is seen from the parent.
"""

from __future__ import annotations

import numpy as np

from catena.formulations.inertias import across_joint
from catena.formulations.inverse.newton_euler import bias_force
from catena.formulations.kinematics import placements
from catena.spatial import cross, cross_force, first_moment


def hamiltonian_dynamics(tree, q, p, tau, wrenches=None):
    """Return v and dp/dt of the tree under the joint forces tau.

    `wrenches` act on the bodies: one (moment, force) for each body in its frame, at its origin, or None; last the ground's.
    """
    v, P, V_plus, X, S = _velocities(tree, q, p)
    return v, _rates(tree, q, v, P, V_plus, X, S, tau, wrenches)


def momentum_rates(tree, q, v, tau, wrenches=None):
    """Return p and dp/dt of the tree under the joint forces tau: as `hamiltonian_dynamics`, from velocities.

    `wrenches` are as there.
    """
    X, S = placements(tree, q)
    V, V_plus = tree.columns(2)
    P = [np.zeros(6) for _ in range(tree.n + 1)]
    p = tree.vector()

    # outward: (23)
    V[-1] = np.zeros(6)
    for k in tree.outward():
        V_plus[k] = X[k].motion(V[tree.parent[k]]) + tree.joint_drift(k)
        V[k] = V_plus[k] + S[k] @ v[tree.v_slices[k]]

    # inward: (26), (34)
    for k in tree.inward():
        at, parent = tree.v_slices[k], tree.parent[k]
        P[k] = P[k] + tree.felt[k] @ V[k]
        p[at] = S[k].T @ P[k] + tree.armature[at] * v[at]
        P[parent] = P[parent] + X[k].force(P[k])
    return p, _rates(tree, q, v, P, V_plus, X, S, tau, wrenches)


def _rates(tree, q, v, P, V_plus, X, S, tau, wrenches):
    """Return dp/dt, from the articulated momenta and the velocities before the joints. (35)."""
    T, pdot = _forces(tree, X, wrenches), tree.vector()
    mass, moment = _weights(tree, X)
    (g,) = tree.columns(1)
    g[-1] = tree.gravity
    for k in tree.outward():
        at = tree.v_slices[k]
        g[k] = X[k].direction(g[tree.parent[k]])
        force = np.concatenate([cross(moment[k], g[k]), mass[k] * g[k]]) - cross_force(V_plus[k], P[k])
        if T[k] is not None:
            force = force + T[k]
        pdot[at] = tau[at] + S[k].T @ force + tree.joint_turn(k, q, v).T @ P[k]
    return pdot


def forward_dynamics(tree, q, v, tau, wrenches=None):
    """Return vdot of the tree under the joint forces tau.

    With p = M v, (35) less what the rate of M takes of it is M vdot: accelerations belong to it as velocities belong to momenta. (45).
    What driven joints do is in the bias force.
    """
    return velocities(tree.resting(), q, tau - bias_force(tree, q, v, wrenches))


def velocities(tree, q, p):
    """Return v, the velocities that belong to the momenta p."""
    return _velocities(tree, q, p)[0]


def _velocities(tree, q, p):
    """Return v; the articulated momenta P* and the velocities before the joints; placements and joint matrices."""
    X, S = placements(tree, q)
    G, nu, M_plus, R_plus, V, V_plus, P, W = tree.columns(8)
    M = [*tree.felt, np.zeros((6, 6))]
    R = [np.zeros(6) for _ in M]
    v = tree.vector()

    # inward: (40)-(44), (46)-(48)
    for k in tree.inward():
        parent = tree.parent[k]
        D, G[k], M_plus[k] = across_joint(tree, k, M[k], S[k])
        rest = p[tree.v_slices[k]] - S[k].T @ R[k]
        nu[k], R_plus[k] = D.solve(rest), R[k] + G[k] @ rest
        M[parent] = M[parent] + X[k].inertia(M_plus[k])
        W[k] = tree.joint_drift(k)
        R[parent] = R[parent] + X[k].force(M_plus[k] @ W[k] + R_plus[k])

    # outward: (45), (23), (39)
    V[-1] = np.zeros(6)
    for k in tree.outward():
        V_plus[k] = X[k].motion(V[tree.parent[k]]) + W[k]
        v[tree.v_slices[k]] = nu[k] - G[k].T @ V_plus[k]
        V[k] = V_plus[k] + S[k] @ v[tree.v_slices[k]]
        P[k] = M_plus[k] @ V_plus[k] + R_plus[k]
    return v, P, V_plus, X, S


def _forces(tree, X, wrenches):
    """Return the accumulated wrenches T*, None where nothing acts. (27)."""
    T = [None] * (tree.n + 1) if wrenches is None else list(wrenches)
    for k in tree.inward():
        parent = tree.parent[k]
        if T[k] is not None:
            shifted = X[k].force(T[k])
            T[parent] = shifted if T[parent] is None else T[parent] + shifted
    return T


def _weights(tree, X):
    """Return mass and first moment of each body and all that it carries; last the ground's."""
    bodies = [*tree.felt, np.zeros((6, 6))]
    mass, moment = [M[3, 3] for M in bodies], [first_moment(M) for M in bodies]
    for k in tree.inward():
        parent = tree.parent[k]
        mass[parent] = mass[parent] + mass[k]
        moment[parent] = moment[parent] + X[k].moment(moment[k], mass[k])
    return mass, moment
