"""Derivatives of inverse dynamics, with the mass matrix.

Source   [SRW22] Singh, Russell, Wensing, Efficient analytical derivatives of rigid-body dynamics using spatial vector algebra, §III.
Frames   every quantity is expressed in the frame of the body on the ground that carries the others.
Cost     O(n d), d the depth of the tree; nothing branches on a value, so the function can be traced.

    paper      here    meaning
    IC, BC, fC C, B, f inertia, drag and force of a body and all that it carries
               r, F    S^T 2 B and C S, rows of a joint
               u, w    forces of all bodies beyond a joint that change with its position and with its rate

Along a joint all that it carries moves as one. Seen from there, velocities change by psi' and accelerations by psi'' - V x psi', so that
the force of a body of inertia I changes by I psi'' + 2 B psi': rows outboard of the joint are r . psi' + F . psi''. Inboard the force
itself turns too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.formulations.derivatives.common_frame import body_force, changes, crossed, drag, inertia, kinematics
from catena.spatial import cross_force

#: Rows that a column is taken with at a time: what is read of it serves all of them.
TOGETHER = 8


class _Row(NamedTuple):
    """A coordinate: the body that it moves, its screw, and what it changes beyond it and inboard of it."""

    body: int
    s: Any
    Psi: Any
    Psi2: Any
    Psi_S: Any
    r: Any
    F: Any
    w: Any
    u: Any


def inverse_dynamics_derivatives(tree, q, v, vdot):
    """Return the joint forces tau of the accelerations vdot, their derivatives by positions and velocities, and the mass matrix."""
    moving = kinematics(tree, q, v)
    A = accelerations(tree, moving, vdot)
    bodies = [inertia(moving.frames[k], tree.regrouped[k]) for k in tree.outward()]
    return derivatives(tree, moving, bodies, A, vdot)


def accelerations(tree, moving, vdot):
    """Return the accelerations of all bodies."""
    (A,) = tree.columns(1)
    for k in tree.outward():
        inboard = A[tree.parent[k]] if tree.parent[k] >= 0 else moving.ground[k]
        A[k] = inboard + moving.a[k] + moving.S[k] @ vdot[tree.v_slices[k]]
    return A


def derivatives(tree, moving, bodies, A, vdot):
    """Return joint forces, their derivatives by positions and velocities, and the mass matrix; inertias are in the common frame."""
    S, V, _, ground, _ = moving
    f, B, Psi, Psi2, Psi_S = tree.columns(5)
    C = [*bodies, None]

    # outward: the force and the drag of each body by itself, and what a joint changes beyond it
    for k in tree.outward():
        p = tree.parent[k]
        momentum, B[k] = drag(C[k], V[k])
        f[k] = body_force(C[k], momentum, V[k], A[k])
        Psi[k], Psi2[k] = changes(S[k], V[p] if p >= 0 else np.zeros(6), A[p] if p >= 0 else ground[k])
        Psi_S[k] = Psi[k] + crossed(V[k], S[k])

    # inward: the same of each body and all that it carries
    for k in tree.inward():
        p = tree.parent[k]
        if p >= 0:
            f[p], C[p], B[p] = f[p] + f[k], C[p] + C[k], B[p] + B[k]

    # each coordinate by itself
    tau = tree.vector()
    rows = []
    for k in range(tree.n):
        for c, i in enumerate(range(tree.v_slices[k].start, tree.v_slices[k].stop)):
            tree.mark()
            s = S[k][:, c]
            r, F = B[k].row(s), C[k].momentum(s)
            w = B[k].force(s[:3]) + C[k].momentum(Psi_S[k][:, c])
            u = B[k].force(Psi[k][:3, c]) + C[k].momentum(Psi2[k][:, c]) + cross_force(s, f[k])
            tau[i] = s @ f[k] + tree.armature[i] * vdot[i]
            rows.append(_Row(k, s, Psi[k][:3, c], Psi2[k][:, c], Psi_S[k][:, c], r, F, w, u))

    # then what each does to the others, a few rows at a time
    by_q, by_v, mass = (np.zeros((tree.nv, tree.nv)).astype(object) for _ in range(3))
    carriers = [set(tree.path(k)) for k in range(tree.n)]
    for start in range(0, tree.nv, TOGETHER):
        for j, column in enumerate(rows):
            tree.mark()
            for i, row in enumerate(rows[start : start + TOGETHER], start):
                if column.body in carriers[row.body]:
                    by_q[i, j] = row.r @ column.Psi + row.F @ column.Psi2
                    by_v[i, j] = row.r @ column.s[:3] + row.F @ column.Psi_S
                elif row.body in carriers[column.body]:
                    by_q[i, j], by_v[i, j] = row.s @ column.u, row.s @ column.w
                else:
                    continue
                if i <= j:
                    mass[i, j] = mass[j, i] = column.F @ row.s + (tree.armature[i] if i == j else 0.0)
    return tau, by_q, by_v, mass
