"""Derivatives of passive and applied forces, by dual numbers along each coordinate."""

from __future__ import annotations

import numpy as np

from catena.formulations.applied_forces import applied_forces
from catena.formulations.inverse.newton_euler import wrench_forces
from catena.formulations.joint_forces import passive_force
from catena.scalars.dual import moving, part


def acting_joint_forces(tree, t, q, v):
    """Return what passive and applied forces are worth along the velocity coordinates."""
    force, wrenches = applied_forces(tree, t, q, v)
    force = passive_force(tree, q, v) + force
    return force if wrenches is None else force + wrench_forces(tree, q, wrenches)


def force_derivatives(tree, t, q, v, rate):
    """Return the derivatives of these forces by positions and by velocities, both nv x nv.

    `rate(q, v)` is how positions change at velocities.
    """
    by_q, by_v = (np.zeros((tree.nv, tree.nv)).astype(object) for _ in range(2))
    for i, unit in enumerate(np.eye(tree.nv)):
        by_q[:, i] = part(acting_joint_forces(tree, t, moving(q, rate(q, unit)), v), "derivative")
        by_v[:, i] = part(acting_joint_forces(tree, t, q, moving(v, unit)), "derivative")
    return by_q, by_v
