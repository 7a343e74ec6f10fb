"""Derivatives of forward dynamics through the mass matrix.

Source   [CM18] Carpentier, Mansard, Analytical derivatives of rigid body dynamics algorithms, §III: M dvdot = dtau - d(inverse dynamics).
Frames   every quantity is expressed in the frame of the body on the ground that carries the others.
Cost     O(n^2 d), d the depth of the tree: the least where bodies are few.
"""

from __future__ import annotations

import numpy as np

from catena.formulations.derivatives.common_frame import body_force, drag, inertia, kinematics
from catena.formulations.derivatives.inverse_dynamics import accelerations, derivatives
from catena.spatial import Factor


def forward_dynamics_derivatives(tree, q, v, tau, force_by_q, force_by_v):
    """Return vdot under the joint forces tau, its derivatives by positions and velocities, and the inverse of the mass matrix.

    The joint forces change along positions and velocities as `force_by_q` and `force_by_v` tell, both nv x nv.
    """
    moving = kinematics(tree, q, v)
    bodies = [inertia(moving.frames[k], tree.regrouped[k]) for k in tree.outward()]
    factor = Factor(mass_matrix(tree, moving, bodies))
    vdot = factor.solve(tau - bias_force(tree, moving, bodies))
    _, by_q, by_v, _ = derivatives(tree, moving, bodies, accelerations(tree, moving, vdot), vdot)
    vdot_by_q, vdot_by_v, inverse = (np.zeros((tree.nv, tree.nv)).astype(object) for _ in range(3))
    for j in range(tree.nv):
        tree.mark()
        vdot_by_q[:, j] = factor.solve(force_by_q[:, j] - by_q[:, j])
        vdot_by_v[:, j] = factor.solve(force_by_v[:, j] - by_v[:, j])
        inverse[: j + 1, j] = inverse[j, : j + 1] = factor.solve(np.eye(tree.nv)[j])[: j + 1]
    return vdot, vdot_by_q, vdot_by_v, inverse


def mass_matrix(tree, moving, bodies):
    """Return the mass matrix, of bodies of inertias in the common frame."""
    S, C = moving.S, [*bodies, None]
    mass = np.zeros((tree.nv, tree.nv)).astype(object)

    # inward: inertias of each body and all that it carries
    for k in tree.inward():
        p = tree.parent[k]
        if p >= 0:
            C[p] = C[p] + C[k]

    # inward from every joint: its row
    for k in range(tree.n):
        for c, i in enumerate(range(tree.v_slices[k].start, tree.v_slices[k].stop)):
            F = C[k].momentum(S[k][:, c])
            for j in tree.path(k):
                for d, column in enumerate(range(tree.v_slices[j].start, tree.v_slices[j].stop)):
                    if column <= i:
                        mass[i, column] = mass[column, i] = F @ S[j][:, d]
            mass[i, i] = mass[i, i] + tree.armature[i]
    return mass


def bias_force(tree, moving, bodies):
    """Return the joint forces that hold the motion at vdot = 0."""
    A = accelerations(tree, moving, np.zeros(tree.nv))
    force, f = tree.vector(), [np.zeros(6)] * (tree.n + 1)
    for k in tree.inward():
        f[k] = f[k] + body_force(bodies[k], drag(bodies[k], moving.V[k])[0], moving.V[k], A[k])
        force[tree.v_slices[k]] = moving.S[k].T @ f[k]
        f[tree.parent[k]] = f[tree.parent[k]] + f[k] if tree.parent[k] >= 0 else np.zeros(6)
    return force
