"""How fast the forces of springs, bushings and contacts fall with displacements and velocities: what implicit steps need of them.

Frames   of a body that is held by the ground: the body's own; of forces between two moving bodies: the world's axes.

    here  meaning
    K, D  how fast a force falls with displacement and with velocity, none negative
    U     of a force between bodies: what its three components are worth along the velocity coordinates

A force between a body and the ground adds K and D, 6 x 6, to the body as an inertia would be. One between two moving bodies is a `link`
of three rows U. What turns with the bodies, and forces from functions, are left out; a Rosenbrock-W method keeps its order all the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from catena.formulations.applied_forces import bushing_frames, spring_ends
from catena.formulations.contact import at_origin, contact_slopes, positive, touches
from catena.formulations.inverse.newton_euler import wrench_forces
from catena.formulations.kinematics import velocities, world_frames
from catena.formulations.step_laws import contact_law_slopes, of_contacts
from catena.spatial import cross, vanishes

_TINY = 1e-300


def anchored_bodies(tree):
    """Return the bodies that springs, bushings or contacts hold to the ground."""
    ends = [(force.a, force.b) for force in (*tree.springs, *tree.bushings, *tree.contacts) if force.a != force.b]
    return sorted({max(end) for end in ends if min(end) < 0})


def link_count(tree):
    """Return how many links there are: three components each of a force, or of a moment, between two moving bodies."""
    count = sum(_linking(spring) for spring in tree.springs) + 2 * sum(_linking(bushing) for bushing in tree.bushings)
    return count + sum(len(contact.spheres) * len(contact.others) for contact in tree.contacts if _linking(contact))


def _linking(force):
    return force.a != force.b and min(force.a, force.b) >= 0


def body_and_link_slopes(tree, q, v, law=None):
    """Return K and D of anchored bodies, (bodies, 2, 6, 6), and of links U, (3 links, nv), and K and D, (links, 2, 3, 3).

    Where there is a `law` for the one-sided forces, those of contacts are its own.
    """
    _, _, V = velocities(tree, q, v)
    frames = world_frames(tree, q)
    held = {k: [np.zeros((6, 6)).astype(object) for _ in range(2)] for k in anchored_bodies(tree)}
    rows, links = [], []
    for force, point, turning, K, D in _all(tree, frames, V, law):
        tree.mark()
        if min(force.a, force.b) < 0:
            k = max(force.a, force.b)
            for total, slope in zip(held[k], (K, D), strict=True):
                if turning:
                    total[:3, :3] = total[:3, :3] + slope
                else:
                    total[:, :] = total + at_origin(point, frames[k].p, slope)
        else:
            links.append((K, D))
            rows += [_along(tree, q, frames, force, point, turning, axis) for axis in np.eye(3)]
    tree.mark()
    bodies = np.array([[_turned(frames[k].R, slope) for slope in pair] for k, pair in held.items()])
    return bodies, np.array(rows), np.array(links)


def _all(tree, frames, V, law):
    """Yield the forces with the places at which they act, whether they are moments, and their slopes K and D in the world's axes."""
    for spring in tree.springs:
        if spring.a != spring.b:
            yield from _spring(spring, frames)
    for bushing in tree.bushings:
        if bushing.a != bushing.b:
            a, b = bushing_frames(bushing, frames)
            for turning, K, D in ((False, bushing.stiffness, bushing.damping), (True, bushing.turning_stiffness, bushing.turning_damping)):
                yield bushing, b.p, turning, a.R @ np.diag(K) @ a.R.T, a.R @ np.diag(D) @ a.R.T
    laws = [None] * len(tree.contacts) if law is None else of_contacts(tree, law)
    for contact, part in zip(tree.contacts, laws, strict=True):
        if contact.a != contact.b:
            for point, K, D in contact_slopes(contact, frames, V) if part is None else contact_law_slopes(contact, frames, part):
                yield contact, point, False, K, D


def steepest(tree, q, weight):
    """Yield springs, bushings and contacts with the steepest slopes that they have: (force, by displacement, by velocity), nv x nv each.

    Contacts carry a weight [N], and are at rest; springs that may go slack are taut.
    """
    frames = world_frames(tree, q)
    for force, point, turning, K, D in _steepest(tree, frames, weight):
        rows = np.array([_along(tree, q, frames, force, point, turning, axis) for axis in np.eye(3)], dtype=float)
        yield force, rows.T @ np.asarray(K, dtype=float) @ rows, rows.T @ np.asarray(D, dtype=float) @ rows


def _steepest(tree, frames, weight):
    yield from _all(replace(tree, contacts=(), springs=tuple(spring._replace(slack=False) for spring in tree.springs)), frames, None, None)
    for contact in tree.contacts:
        if contact.a != contact.b:
            places = list(touches(contact, frames))
            for touch in places:
                along, N = np.outer(touch.normal, touch.normal), weight / len(places)
                depth = (N / contact.stiffness) ** (1.0 / contact.exponent)
                K = contact.exponent * contact.stiffness * depth ** (contact.exponent - 1.0)
                D = N * (contact.dissipation * along + (contact.friction + contact.stiction) / contact.slip_speed * (np.eye(3) - along))
                yield contact, touch.point, False, K * along, D


def _spring(spring, frames):
    """Yield the slopes of a spring, at its end that moves; between two bodies, at end a."""
    here, there = spring_ends(spring, frames)
    x = there - here
    square = x @ x + _TINY
    along = np.outer(x, x) / square
    D = spring.damping * along
    if vanishes(spring.length) and not spring.slack:
        K = (spring.stiffness + spring.cubic * square) * np.eye(3) + (2.0 * spring.cubic * square) * along
    else:
        distance = np.sqrt(square)
        stretch = positive(distance - spring.length) if spring.slack else distance - spring.length
        steep = spring.stiffness + 3.0 * spring.cubic * stretch * stretch
        if spring.slack:
            taut = stretch / (stretch + _TINY)
            steep, D = steep * taut, D * taut
        pull = positive(spring.stiffness * stretch + spring.cubic * stretch * stretch * stretch)
        K = steep * along + (pull / distance) * (np.eye(3) - along)
    yield spring, there if spring.a < 0 else here, False, K, D


def _along(tree, q, frames, force, point, turning, axis):
    """Return what a unit force or moment on body a, and its opposite on b, are worth along the velocity coordinates."""
    (wrenches,) = tree.columns(1)
    for k, sign in ((force.a, 1.0), (force.b, -1.0)):
        R, unit = frames[k].R, sign * axis
        moment = unit if turning else cross(point - frames[k].p, unit)
        wrenches[k] = np.concatenate([R.T @ moment, np.zeros(3) if turning else R.T @ unit])
    return wrench_forces(tree, q, wrenches)


def _turned(R, slope):
    """Return a symmetric matrix, 6 x 6, in the axes of a body."""
    A, B, C = R.T @ slope[:3, :3] @ R, R.T @ slope[:3, 3:] @ R, R.T @ slope[3:, 3:] @ R
    A, C = (np.triu(X) + np.triu(X, 1).T for X in (A, C))
    return np.block([[A, B], [B.T, C]])


def opposing(tree, q, bodies, *motions):
    """Return the joint forces by which anchored bodies resist: of matrices (bodies, 6, 6) along velocity coordinates, pair by pair."""
    (wrenches,) = tree.columns(1)
    for matrices, along in zip(bodies, motions, strict=True):
        _, _, V = velocities(tree, q, along)
        for k, matrix in zip(anchored_bodies(tree), matrices, strict=True):
            wrench = matrix @ V[k]
            wrenches[k] = wrench if wrenches[k] is None else wrenches[k] + wrench
    return wrench_forces(tree, q, wrenches)
