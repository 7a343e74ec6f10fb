"""What the joints themselves do: springs, dampers and friction, along the velocity coordinates; and energies."""

from __future__ import annotations

import numpy as np

from catena.formulations.kinematics import velocities, world_frames


def passive_force(tree, q, v):
    """Return the joint forces of damping, stiffness and friction.

    Coulomb friction is smoothed: -friction * v / sqrt(v^2 + s^2), with s the tree's friction speed. It is odd and smooth, takes away
    power at every v other than 0, and reaches 99.5 % of its limit at 10 s.
    """
    force = tree.vector()
    for k in range(tree.n):
        at = tree.v_slices[k]
        deflection = tree.deflection(k, q) if np.any(tree.stiffness[at]) else np.zeros(at.stop - at.start)
        for i, stretch in zip(range(at.start, at.stop), deflection, strict=True):
            force[i] = -(tree.stiffness[i] * stretch) - tree.damping[i] * v[i]
            if tree.friction[i]:
                force[i] = force[i] - tree.friction[i] * (v[i] / np.sqrt(v[i] * v[i] + tree.friction_speed**2))
    return force


def energy(tree, q, v):
    """Return the kinetic energy, and the potential energy of gravity (0 at the world's origin) and of the joints' springs."""
    _, _, V, _ = velocities(tree, q, v)
    frames = world_frames(tree, q)
    kinetic = 0.5 * (tree.armature @ (v * v))
    potential = 0.0
    g = tree.ground.R @ tree.gravity
    for k in range(-1, tree.n):
        M = tree.ground_inertia if k < 0 else tree.M[k]
        moment = np.array([M[2, 4], M[0, 5], M[1, 3]])
        potential = potential - g @ (M[3, 3] * frames[k].p + frames[k].R @ moment)
    for k in range(tree.n):
        kinetic = kinetic + 0.5 * (V[k] @ (tree.M[k] @ V[k]))
        at = tree.v_slices[k]
        if np.any(tree.stiffness[at]):
            stretch = tree.deflection(k, q)
            potential = potential + 0.5 * (tree.stiffness[at] @ (stretch * stretch))
    return kinetic, potential
