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
    -           mass, moment  of the body and all that it carries, the latter of first order: by these gravity acts

What does not move with a joint costs nothing: P* = M' Omega + D' with the velocity before the joint (39), and in (35) the joint's own
motion turns S only, so that p' = S^T (T* - Omega x P*) + (dS/dt)^T P* with that velocity, and dS/dt as it is seen from the parent. For one
coordinate S^T (Omega x P*) is a quadratic form of Omega, in which what M' is alike about the axis drops out: it is made on the way inward.
"""

from __future__ import annotations

import numpy as np

from catena.formulations.inertias import across_joint, force_inboard, motion_outboard
from catena.formulations.inverse.newton_euler import bias_force
from catena.formulations.kinematics import placements
from catena.spatial import cross, cross_force, first_moment


def hamiltonian_dynamics(tree, q, p, tau, wrenches=None):
    """Return v and dp/dt of the tree under the joint forces tau."""
    X, S = placements(tree, q)
    G, nu, M_plus, R_plus, turning, V, W = tree.columns(7)
    M, loads = [*tree.regrouped, np.zeros((6, 6))], Loads(tree, X, wrenches)
    R = [np.zeros(6) for _ in M]
    v, pdot = tree.vector(), tree.vector()

    # inward: (27), (40)-(44), (46)-(48)
    for k in tree.inward():
        parent = tree.parent[k]
        D, G[k], M_plus[k] = across_joint(S[k], tree.armature[tree.v_slices[k]], M[k])
        rest, R_plus[k] = force_inboard(S[k], G[k], R[k], p[tree.v_slices[k]])
        nu[k] = D.solve(rest)
        turning[k] = _turning(S[k], M_plus[k], R_plus[k])
        M[parent] = M[parent] + X[k].inertia(M_plus[k])
        W[k] = tree.joint_drift(k)
        R[parent] = R[parent] + X[k].force(M_plus[k] @ W[k] + R_plus[k])
        loads.carry(k)

    # outward: (45), (23), (39), (35)
    V[-1] = np.zeros(6)
    for k in tree.outward():
        at = tree.v_slices[k]
        V_plus = X[k].motion(V[tree.parent[k]]) + W[k]
        v[at], V[k] = motion_outboard(S[k], G[k], nu[k], V_plus)
        P = M_plus[k] @ V_plus + R_plus[k]
        pdot[at] = tau[at] + (S[k].T @ loads.on(k) + turning[k](V_plus) + tree.joint_turn(k, q, v).T @ P)
    return v, pdot


def momentum_rates(tree, q, v, tau, wrenches=None):
    """Return p and dp/dt of the tree under the joint forces tau: as `hamiltonian_dynamics`, from velocities."""
    X, S = placements(tree, q)
    V, V_plus = tree.columns(2)
    P, loads = [np.zeros(6) for _ in range(tree.n + 1)], Loads(tree, X, wrenches)
    p, pdot = tree.vector(), tree.vector()

    # outward: (23)
    V[-1] = np.zeros(6)
    for k in tree.outward():
        V_plus[k] = X[k].motion(V[tree.parent[k]]) + tree.joint_drift(k)
        V[k] = V_plus[k] + S[k] @ v[tree.v_slices[k]]

    # inward: (26), (27), (34)
    for k in tree.inward():
        at, parent = tree.v_slices[k], tree.parent[k]
        P[k] = P[k] + tree.regrouped[k] @ V[k]
        p[at] = S[k].T @ P[k] + tree.armature[at] * v[at]
        P[parent] = P[parent] + X[k].force(P[k])
        loads.carry(k)

    # outward: (35)
    for k in tree.outward():
        at = tree.v_slices[k]
        pdot[at] = tau[at] + S[k].T @ (loads.on(k) - cross_force(V_plus[k], P[k])) + tree.joint_turn(k, q, v).T @ P[k]
    return p, pdot


def _turning(S, M, R):
    """Return the function -S^T (V x* (M V + R)) of V; with one column s of S it is V . (s x* (M V + R))."""
    if S.shape[1] != 1:
        return lambda V: -(S.T @ cross_force(V, M @ V + R))
    A, r = cross_force(S[:, 0], M), cross_force(S[:, 0], R)
    form = np.array([[A[i, i] if i == j else A[i, j] + A[j, i] if i < j else 0.0 for j in range(6)] for i in range(6)])
    return lambda V: np.array([V @ (form @ V + r)])


def forward_dynamics(tree, q, v, tau, wrenches=None):
    """Return vdot of the tree under the joint forces tau.

    With p = M v, (35) less what the rate of M takes of it is M vdot: accelerations belong to it as velocities belong to momenta. (45).
    What driven joints do is in the bias force.
    """
    return velocities(tree.resting(), q, tau - bias_force(tree, q, v, wrenches))


def velocities(tree, q, p):
    """Return v, the velocities that belong to the momenta p."""
    return hamiltonian_dynamics(tree, q, p, np.zeros(tree.nv))[0]


class Loads:
    """What acts on each body and all that it carries: gravity, and wrenches from outside. (27)."""

    def __init__(self, tree, X, wrenches):
        self.tree, self.X = tree, X
        bodies = [*tree.regrouped, np.zeros((6, 6))]
        self.mass, self.moment = [M[3, 3] for M in bodies], [first_moment(M) for M in bodies]
        self.T = [None] * len(bodies) if wrenches is None else list(wrenches)
        (self.g,) = tree.columns(1)
        self.g[-1] = tree.gravity

    def carry(self, k):
        """Add what acts on body k to what acts on its parent; on the way inward."""
        parent, X = self.tree.parent[k], self.X[k]
        self.mass[parent] = self.mass[parent] + self.mass[k]
        self.moment[parent] = self.moment[parent] + X.moment(self.moment[k], self.mass[k])
        if self.T[k] is not None:
            shifted = X.force(self.T[k])
            self.T[parent] = shifted if self.T[parent] is None else self.T[parent] + shifted

    def on(self, k):
        """Return what acts on body k and all that it carries; on the way outward, once for every body."""
        self.g[k] = g = self.X[k].direction(self.g[self.tree.parent[k]])
        weight = np.concatenate([cross(self.moment[k], g), self.mass[k] * g])
        return weight if self.T[k] is None else weight + self.T[k]
