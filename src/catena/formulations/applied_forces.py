"""What acts on the bodies from outside: springs between two points, and forces from functions of time and state.

Frames   points and wrenches are in the frame of the body; distances, and the forces of functions, in the world's axes.
Cost     of the bodies between the ground and those that carry a force; what the others have is never used, and not computed.

    here  meaning
    x     vector from end a of a spring to end b
    w     its rate
"""

from __future__ import annotations

import numpy as np

from catena.formulations.kinematics import velocities, world_frames
from catena.spatial import cross, vanishes

_TINY = 1e-300  # [m^2] keeps a distance that divides from being zero, far below the rounding of any length


def applied_forces(tree, t, q, v):
    """Return the joint forces of functions, and the column of wrenches (moment, force) on the bodies, None where there is none."""
    joint_force = np.zeros(tree.nv)
    if not tree.springs and not tree.forces:
        return joint_force, None
    _, _, V = velocities(tree, q, v)
    frames = world_frames(tree, q)
    (wrenches,) = tree.columns(1)

    def act(k, point, moment, force):
        """Add what acts on a point of body k, given in the world's axes."""
        R = frames[k].R
        moment, force = R.T @ moment, R.T @ force
        wrench = np.concatenate([moment + cross(point, force), force])
        wrenches[k] = wrench if wrenches[k] is None else wrenches[k] + wrench

    for spring in tree.springs:
        if spring.a == spring.b:  # on two bodies that are welded together
            continue
        tree.mark()
        pull = _pull(spring, _between(spring, frames), _rate(spring, frames, V))
        act(spring.a, spring.at_a, np.zeros(3), pull)
        act(spring.b, spring.at_b, np.zeros(3), -pull)

    for force in tree.forces:
        tree.mark()
        value = force.function(t, q, v)
        if force.body is None:
            joint_force = joint_force + value
        else:
            act(force.body, force.point, value[:3], value[3:])
    tree.mark()
    return joint_force, wrenches


def spring_energy(tree, frames):
    """Return the potential energy of the springs between bodies."""
    energy = 0.0
    for spring in tree.springs:
        x = _between(spring, frames)
        stretch = x @ x if vanishes(spring.length) else (np.sqrt(x @ x + _TINY) - spring.length) ** 2
        energy = energy + 0.5 * spring.stiffness * stretch
    return energy


def _pull(spring, x, w):
    """Return the force on end a, towards end b; without a free length it is linear in x and needs no distance."""
    if vanishes(spring.length):
        force = spring.stiffness * x
        return force + (spring.damping * ((x @ w) / (x @ x + _TINY))) * x if not vanishes(spring.damping) else force
    distance = np.sqrt(x @ x + _TINY)
    return ((spring.stiffness * (distance - spring.length) + spring.damping * ((x @ w) / distance)) / distance) * x


def _between(spring, frames):
    """Return the vector from end a to end b, in the world's axes."""
    a, b = frames[spring.a], frames[spring.b]
    return (b.p + b.R @ spring.at_b) - (a.p + a.R @ spring.at_a)


def _rate(spring, frames, V):
    """Return the rate of the vector from end a to end b, in the world's axes."""
    at_a, at_b = (frames[k].R @ (V[k][3:] + cross(V[k][:3], p)) for k, p in ((spring.a, spring.at_a), (spring.b, spring.at_b)))
    return at_b - at_a
