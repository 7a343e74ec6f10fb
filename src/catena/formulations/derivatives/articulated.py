"""Derivatives of forward dynamics by articulated bodies.

Source   the articulated bodies of [J91] §5, with the changes of forces of [SRW22]: a column is their response to what one joint changes.
Frames   every quantity is expressed in the frame of the body on the ground that carries the others: columns need no placements.
Cost     O(n^2), the number of results, about 50 operations for each pair of hinges; nothing branches on a value.

    here     meaning
    P, D, G  articulated inertia, joint inertia and gain
    Z        of a body and all that it carries, joints free: the force that a change of its velocity needs, 6 x 3
    y        what such a change adds to the acceleration of the joint
    A, x     acceleration of a body and of its joint, a column for each of what follows
    Omega    of a body j and a joint k that carries it: acceleration of the joint under a wrench on the body
    Lambda   acceleration of a body under a wrench on it, 6 x 6
    response acceleration of a joint where a body inboard of it accelerates

The columns of a joint j are changes of its positions, changes of its rates, and unit forces on it. Along the joint the bodies that it
carries change their velocity by psi' and their acceleration by psi'', all alike; so their response is known at once: Z psi' and P psi''.
A force zeta on the parent is left, which Omega hands to the joints inboard; and an acceleration, which is carried outward.
"""

from __future__ import annotations

import numpy as np

from catena.formulations.derivatives.common_frame import body_force, changes, crossed, drag, inertia, kinematics
from catena.formulations.derivatives.inverse_dynamics import accelerations
from catena.formulations.inertias import across_joint
from catena.spatial import columns, cross_force


def forward_dynamics_derivatives(tree, q, v, tau, force_by_q, force_by_v):
    """Return vdot under the joint forces tau, its derivatives by positions and velocities, and the inverse of the mass matrix.

    The joint forces change along positions and velocities as `force_by_q` and `force_by_v` tell, both nv x nv.
    """
    moving = kinematics(tree, q, v)
    S, V = moving.S, moving.V
    bodies = [inertia(moving.frames[k], tree.regrouped[k]) for k in tree.outward()]
    A0 = accelerations(tree, moving, np.zeros(tree.nv))
    P, z, Z, D, G, y, e, momenta, P_plus, f = tree.columns(10)

    # inward: articulated bodies, and their response to changes of velocity
    for k in tree.inward():
        p, at = tree.parent[k], tree.v_slices[k]
        momenta[k], B = drag(bodies[k], V[k])
        P[k] = _sum(P[k], bodies[k].matrix())
        z[k] = _sum(z[k], body_force(bodies[k], momenta[k], V[k], A0[k]))
        Z[k] = _sum(Z[k], np.stack([B.force(x) for x in np.eye(3)], axis=1))
        D[k], G[k], P_plus[k] = across_joint(S[k], tree.armature[tree.v_slices[k]], P[k])
        e[k], along = tau[at] - S[k].T @ z[k], S[k].T @ Z[k]
        y[k] = -columns(D[k].solve, along)
        if p >= 0:
            P[p], z[p], Z[p] = _sum(P[p], P_plus[k]), _sum(z[p], z[k] + G[k] @ e[k]), _sum(Z[p], Z[k] - G[k] @ along)

    # outward: accelerations, of which A0 has what vdot does not change
    vdot, A, change = tree.vector(), *tree.columns(2)
    for k in tree.outward():
        p, at = tree.parent[k], tree.v_slices[k]
        carried = change[p] if p >= 0 else np.zeros(6)
        vdot[at] = D[k].solve(e[k]) - G[k].T @ carried
        change[k] = carried + S[k] @ vdot[at]
        A[k] = A0[k] + change[k]

    # inward: the force across each joint
    for k in tree.inward():
        f[k] = _sum(f[k], body_force(bodies[k], momenta[k], V[k], A[k]))
        if tree.parent[k] >= 0:
            f[tree.parent[k]] = _sum(f[tree.parent[k]], f[k])

    # outward from where branches part: accelerations of joints beyond, for those of the body
    response = tree.columns(1)[0]
    forks = [a for a in range(tree.n) if sum(p == a for p in tree.parent) > 1]
    for k in tree.outward():
        response[k], row, outboard = {}, -G[k].T, k
        for a in [] if tree.parent[k] < 0 else tree.path(tree.parent[k]):
            if outboard != k:
                row = row - (row @ S[outboard]) @ G[outboard].T
            if a in forks:
                response[k][a] = row
            outboard = a

    by_q, by_v, inverse = (np.zeros((tree.nv, tree.nv)).astype(object) for _ in range(3))
    Omega, Lambda = tree.columns(2)

    # the columns of every joint
    for j in range(tree.n):
        p, at = tree.parent[j], tree.v_slices[j]
        count = at.stop - at.start
        units = slice(2 * count, 3 * count)
        if count == 0:  # driven: it moves as its parent does
            Omega[j], Lambda[j] = (Omega[p], Lambda[p]) if p >= 0 else ({}, np.zeros((6, 6)))
            continue
        tree.mark()
        Psi, Psi2 = changes(S[j], V[p] if p >= 0 else np.zeros(6), A[p] if p >= 0 else moving.ground[j])
        a = np.concatenate([Psi2, Psi + crossed(V[j], S[j]), np.zeros((6, count))], axis=1)
        psi = np.concatenate([Psi[:3], S[j][:3], np.zeros((3, count))], axis=1)
        turned = np.stack([cross_force(s, f[j]) for s in S[j].T], axis=1)
        drags = Z[j] @ psi
        needed = np.concatenate([np.zeros((count, 2 * count)), np.eye(count)], axis=1) - S[j].T @ drags
        zeta = drags + G[j] @ needed + P_plus[j] @ a
        zeta[:, :count] = zeta[:, :count] + turned

        # the joint itself, and those that carry it
        x, moved = tree.columns(2)
        above = -(Lambda[p] @ zeta) if p >= 0 else np.zeros(zeta.shape)
        x[j] = columns(D[j].solve, needed) - G[j].T @ (above + a)
        path = [] if p < 0 else list(tree.path(p))
        for k in tree.path(p):
            if k in Omega[p]:
                x[k] = -(Omega[p][k].T @ zeta)
        moved[j] = above + a + S[j] @ x[j]
        Omega[j] = {k: Omega[p][k] + S[j] @ x[k][:, units].T for k in tree.path(p) if k in Omega[p]} | {j: moved[j][:, units]}
        if p < 0:
            Lambda[j] = S[j] @ moved[j][:, units].T
        else:
            Lambda[j] = Lambda[p] + above[:, units] @ S[j].T + S[j] @ moved[j][:, units].T

        # outward: those that carry it, bodies that it carries, and those on other branches
        for k in reversed(path):
            inboard = tree.parent[k]
            moved[k] = moved[inboard] if inboard >= 0 else np.zeros(zeta.shape)
            if x[k] is not None:
                moved[k] = moved[k] + S[k] @ x[k]
        for k in tree.strided():
            inboard = tree.parent[k]
            if k == j or k in path or inboard < 0:
                continue
            if _carries(tree, j, k):
                x[k] = y[k] @ psi - G[k].T @ moved[inboard]
                moved[k] = moved[inboard] + S[k] @ x[k]
            else:
                fork = next((a for a in path if a in response[k]), None)
                x[k] = None if fork is None else response[k][fork] @ moved[fork]

        for k in range(tree.n):
            if x[k] is None or S[k].shape[1] == 0:
                continue
            rows = tree.v_slices[k]
            by_q[rows, at], by_v[rows, at] = x[k][:, :count], x[k][:, count : 2 * count]
            if k <= j:
                inverse[rows, at], inverse[at, rows] = x[k][:, units], x[k][:, units].T

    return vdot, by_q + _product(inverse, force_by_q), by_v + _product(inverse, force_by_v), inverse


def _carries(tree, j, k):
    """Return whether joint j carries body k."""
    while k > j:
        k = tree.parent[k]
    return k == j


def _sum(total, more):
    return more if total is None else total + more


def _product(inverse, force):
    """Return the product with a matrix that has few entries."""
    found = np.zeros(force.shape).astype(object)
    for i, j in np.ndindex(force.shape):
        if not (isinstance(force[i, j], float) and force[i, j] == 0.0):
            found[:, j] = found[:, j] + inverse[:, i] * force[i, j]
    return found
