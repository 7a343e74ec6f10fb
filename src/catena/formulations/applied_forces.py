"""What acts on the bodies from outside: springs and bushings between bodies, contacts, and forces from functions.

Frames   points and wrenches are in the frame of the body; distances, and the forces of functions, in the world's axes.
Cost     of the bodies between the ground and those that carry a force; what the others have is never used, and not computed.

    here  meaning
    x     vector from end a of a spring to end b
    w     its rate
    d, u  of a bushing: where its frame on b is in the one on a, and its rotation vector there, half a turn long at most
"""

from __future__ import annotations

import numpy as np

from catena.formulations.contact import contact_energy, contact_forces, motion, positive
from catena.formulations.kinematics import velocities, world_frames
from catena.spatial import cross, rotation_rate, rotation_vector, vanishes

_TINY = 1e-300  # [m^2] keeps a distance that divides from being zero, far below the rounding of any length


def applied_forces(tree, t, q, v):
    """Return the joint forces of functions, and the column of wrenches (moment, force) on the bodies, None where there is none."""
    joint_force = np.zeros(tree.nv)
    if not tree.loaded:
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

    def push(k, place, moment, force):
        """Add what acts on body k at a place of the world, given in the world's axes."""
        act(k, np.zeros(3), moment + cross(place - frames[k].p, force), force)

    for bushing in tree.bushings:
        if bushing.a == bushing.b:
            continue
        tree.mark()
        place, moment, force = _bushing(bushing, frames, V)
        push(bushing.a, place, moment, force)
        push(bushing.b, place, -moment, -force)

    for contact in tree.contacts:
        if contact.a == contact.b:
            continue
        for force, place in contact_forces(tree, contact, frames, V):
            push(contact.a, place, np.zeros(3), force)
            if contact.b >= 0:
                push(contact.b, place, np.zeros(3), -force)

    for force in tree.point_forces:
        tree.mark()
        if force.other is None:
            moment, pull = _at_point(force, t, frames[force.body], V[force.body])
            act(force.body, force.point, moment, pull)
        elif force.other != force.body:
            pull = _tension(force, t, frames, V)
            act(force.body, force.point, np.zeros(3), pull)
            act(force.other, force.at_other, np.zeros(3), -pull)

    for force in tree.forces:
        tree.mark()
        value = force.function(t, q, v)
        if force.body is None:
            joint_force = joint_force + value
        else:
            act(force.body, force.point, value[:3], value[3:])
    tree.mark()
    return joint_force, wrenches


def stored_energy(tree, frames):
    """Return the potential energy of springs and bushings between bodies, and of contacts."""
    energy = 0.0
    for spring in tree.springs:
        x = _between(spring, frames)
        if vanishes(spring.length):
            square = x @ x
        else:
            stretch = np.sqrt(x @ x + _TINY) - spring.length
            square = positive(stretch) ** 2 if spring.slack else stretch**2
        energy = energy + 0.5 * spring.stiffness * square
        if not vanishes(spring.cubic):
            energy = energy + 0.25 * spring.cubic * (square * square)
    for bushing in tree.bushings:
        _, _, d, u = _displaced(bushing, frames)
        energy = energy + 0.5 * (bushing.stiffness @ (d * d) + bushing.turning_stiffness @ (u * u))
    for contact in tree.contacts:
        if contact.a != contact.b:
            energy = energy + contact_energy(contact, frames)
    return energy


def _pull(spring, x, w):
    """Return the force on end a, towards end b; without a free length it is linear in x and needs no distance."""
    if vanishes(spring.length) and not spring.slack:
        force = (spring.stiffness * x) if vanishes(spring.cubic) else (spring.stiffness + spring.cubic * (x @ x)) * x
        return force + (spring.damping * ((x @ w) / (x @ x + _TINY))) * x if not vanishes(spring.damping) else force
    distance = np.sqrt(x @ x + _TINY)
    stretch, resistance = distance - spring.length, spring.damping * ((x @ w) / distance)
    stretch = positive(stretch) if spring.slack else stretch
    pull = spring.stiffness * stretch
    if not vanishes(spring.cubic):
        pull = pull + spring.cubic * (stretch * stretch * stretch)
    if spring.slack and not vanishes(spring.damping):  # what the damper adds is at most what the spring pulls
        resistance = 0.5 * (abs(resistance + pull) - abs(resistance - pull))
    return ((pull + resistance) / distance) * x


def _at_point(force, t, frame, V):
    """Return the moment and force of a function on its point, in the world's axes."""
    R = frame.R @ force.R  # of the user's axes
    body = motion(frame, V)
    place = frame.p + frame.R @ force.point
    velocity, spin = body.at(place), body.turning
    if not force.in_body:
        value = force.function(t, place, velocity, spin)
        return value[:3], value[3:]
    value = force.function(t, place, R.T @ velocity, R.T @ spin)
    return R @ value[:3], R @ value[3:]


def _tension(force, t, frames, V):
    """Return the force of a function on its point, towards that of the other body."""
    here, there = (frames[k].p + frames[k].R @ p for k, p in ((force.body, force.point), (force.other, force.at_other)))
    x = there - here
    distance = np.sqrt(x @ x + _TINY)
    w = motion(frames[force.other], V[force.other]).at(there) - motion(frames[force.body], V[force.body]).at(here)
    return (force.function(t, distance, (x @ w) / distance) / distance) * x


def bushing_frames(bushing, frames):
    """Return the frames of a bushing on its two bodies, in the world."""
    return frames[bushing.a] @ bushing.at_a, frames[bushing.b] @ bushing.at_b


def _displaced(bushing, frames):
    """Return the frames of a bushing in the world, and displacement d and rotation vector u of the one on b in the one on a."""
    a, b = bushing_frames(bushing, frames)
    return a, b, a.R.T @ (b.p - a.p), rotation_vector(a.R.T @ b.R)


def _bushing(bushing, frames, V):
    """Return the place at which a bushing acts, and its moment and force on body a, in the world's axes."""
    a, b, d, u = _displaced(bushing, frames)
    on_a, on_b = (motion(frames[k], V[k]) for k in (bushing.a, bushing.b))
    moving = a.R.T @ (on_b.at(b.p) - on_a.at(b.p))  # seen from a
    turning = a.R.T @ (on_b.turning - on_a.turning)
    force = bushing.stiffness * d + bushing.damping * moving
    moment = rotation_rate(u, bushing.turning_stiffness * u) + bushing.turning_damping * turning  # u' = J_l^-1 turning
    return b.p, a.R @ moment, a.R @ force


def spring_ends(spring, frames):
    """Return where the ends of a spring are in the world."""
    a, b = frames[spring.a], frames[spring.b]
    return a.p + a.R @ spring.at_a, b.p + b.R @ spring.at_b


def _between(spring, frames):
    """Return the vector from end a to end b, in the world's axes."""
    here, there = spring_ends(spring, frames)
    return there - here


def _rate(spring, frames, V):
    """Return the rate of the vector from end a to end b, in the world's axes."""
    at_a, at_b = (frames[k].R @ (V[k][3:] + cross(V[k][:3], p)) for k, p in ((spring.a, spring.at_a), (spring.b, spring.at_b)))
    return at_b - at_a
