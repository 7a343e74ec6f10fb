"""What the joints themselves do: springs, dampers, friction and stops, along the velocity coordinates; and energies."""

from __future__ import annotations

import numpy as np

from catena.formulations.applied_forces import stored_energy
from catena.formulations.contact import positive, present
from catena.formulations.kinematics import velocities, world_frames
from catena.spatial import first_moment, vanishes


def passive_force(tree, q, v):
    """Return the joint forces of damping, stiffness, friction and stops.

    Coulomb friction is smoothed: -friction * v / sqrt(v^2 + s^2), with s the friction speed of the coordinate. It is odd and smooth, takes
    away power at every v other than 0, and reaches 99.5 % of its limit at 10 s.

    A stop that is d deep pushes back with stop_stiffness * d * (1 + stop_damping * rate of d), and never pulls.
    """
    force = tree.vector()
    for k in range(tree.n):
        at = tree.v_slices[k]
        deflection = tree.deflection(k, q) if not vanishes(tree.stiffness[at]) else np.zeros(at.stop - at.start)
        for i, stretch in zip(range(at.start, at.stop), deflection, strict=True):
            force[i] = -(tree.stiffness[i] * stretch) - tree.damping[i] * v[i]
            if not vanishes(tree.friction[i]):
                force[i] = force[i] - tree.friction[i] * (v[i] / np.sqrt(v[i] * v[i] + tree.friction_speed[i] ** 2))
        for i, sign, depth in _stops(tree, k, q):
            push = tree.stop_stiffness[i] * positive(depth) * positive(1.0 + tree.stop_damping[i] * (sign * v[i]))
            force[i] = force[i] - sign * push
    return force


def passive_slopes(tree, q, v, bounds=False):
    """Return how fast the passive forces of the joints fall with their own positions and with their own velocities, none negative.

    Those are tangents at q and v; or, of friction, `bounds` that keep a long step from overshooting, the secant from rest,
    friction / sqrt(v^2 + s^2).
    """
    by_position, by_velocity = tree.vector(), tree.vector()
    for k in range(tree.n):
        for i in range(tree.v_slices[k].start, tree.v_slices[k].stop):
            by_position[i], by_velocity[i] = tree.stiffness[i], tree.damping[i]
            if not vanishes(tree.friction[i]):
                square = v[i] * v[i] + tree.friction_speed[i] ** 2
                slope = tree.friction[i] / np.sqrt(square)
                by_velocity[i] = by_velocity[i] + (slope if bounds else slope * (tree.friction_speed[i] ** 2 / square))
        for i, sign, depth in _stops(tree, k, q):
            held, entered = positive(1.0 + tree.stop_damping[i] * (sign * v[i])), positive(depth)
            by_position[i] = by_position[i] + tree.stop_stiffness[i] * held * present(entered)
            by_velocity[i] = by_velocity[i] + tree.stop_stiffness[i] * tree.stop_damping[i] * entered * present(held)
    return by_position, by_velocity


def stops(tree, q):
    """Return the stops: coordinate, side (1.0 above, -1.0 below), and how deep the joint is in it, negative where it is apart."""
    return [stop for k in range(tree.n) for stop in _stops(tree, k, q)]


def _stops(tree, k, q):
    """Yield the stops of joint k: coordinate, side (1.0 above, -1.0 below), and how deep the joint is in it, negative where it is apart."""
    at, where = tree.v_slices[k], tree.q_slices[k]
    for i in range(at.start, at.stop):
        x = q[where.start + i - at.start]  # joints with limits have as many positions as velocities
        if tree.stopped(tree.lower[i]):
            yield i, -1.0, tree.lower[i] - x
        if tree.stopped(tree.upper[i]):
            yield i, 1.0, x - tree.upper[i]


def energy(tree, q, v):
    """Return the kinetic energy, and the potential energy of gravity (0 at the world's origin), springs, stops and contacts."""
    _, _, V = velocities(tree, q, v)
    frames = world_frames(tree, q)
    kinetic = 0.5 * (tree.armature @ (v * v))
    potential = stored_energy(tree, frames)
    g = tree.ground.R @ tree.gravity
    for k in range(-1, tree.n):
        M = tree.ground_inertia if k < 0 else tree.M[k]
        potential = potential - g @ (M[3, 3] * frames[k].p + frames[k].R @ first_moment(M))
    for k in range(tree.n):
        kinetic = kinetic + 0.5 * (V[k] @ (tree.M[k] @ V[k]))
        at = tree.v_slices[k]
        if not vanishes(tree.stiffness[at]):
            stretch = tree.deflection(k, q)
            potential = potential + 0.5 * (tree.stiffness[at] @ (stretch * stretch))
        for i, _, depth in _stops(tree, k, q):
            potential = potential + 0.5 * tree.stop_stiffness[i] * positive(depth) ** 2
    return kinetic, potential
