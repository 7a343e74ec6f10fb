"""Stops and contacts over a long step: laws that are linear in depths and velocities, and give back no more energy than they take.

A step that is longer than an impact cannot follow the forces in it. It replaces the law of every one-sided force by one that is linear, and
chosen by where the step is expected to end: an implicit method with an exact Jacobian then dissipates, however stiff the force is.

Source   O. Gonzalez, Time integration and discrete Hamiltonian systems, J. Nonlinear Science 6 (1996) 449-467: mean forces by differences
         of the energy. J. von Neumann, Eine Spektraltheorie für allgemeine Operatoren eines unitären Raumes, Math. Nachrichten 4 (1951)
         258-281: A-stable methods contract where a linear system does.
Frames   everything in the world's axes. Laws act as at one configuration in the middle of the step, where an implicit step takes slopes.

    here   meaning
    d      depth, negative where two surfaces are apart; here at the start of the step, ahead where it is expected to end
    U      energy that the surface stores, k d^(p + 1) / (p + 1), 0 where it is not touched
    law    push + stiffness (d - here) + damping rate along the normal, and drag times the sliding velocity against it
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from catena.formulations.contact import friction_at, motion, power, touches
from catena.formulations.inverse.newton_euler import wrench_forces
from catena.formulations.joint_forces import stops
from catena.formulations.kinematics import velocities, world_frames
from catena.graph import maximum, minimum, where
from catena.spatial import cross

_TINY = 1e-300  # keeps a distance or a depth that divides from being zero
_REST = 1e-24  # the square of the part of a depth by which what is at rest moves
_PASSING = 0.7  # the cosine of the angle by which the direction of spheres turns in a step that passes them


class Law(NamedTuple):
    """The law of a one-sided force over a step."""

    push: Any
    stiffness: Any
    damping: Any
    drag: Any = 0.0


# what a step comes to


def one_sided(tree):
    """Return how many forces push only beyond a limit: stops of joints, and points of contacts."""
    return len(stops(tree, np.zeros(tree.nq))) + sum(map(_points, tree.contacts))


def pair_count(tree):
    """Return how many pairs of spheres may touch."""
    return sum(len(contact.spheres) * len(contact.others) for contact in tree.contacts)


def _points(contact):
    return (len(contact.others) or 1) * len(contact.spheres) + len(contact.ellipsoids)


def of_contacts(tree, every):
    """Return the parts of an array of all one-sided forces that belong to the contacts."""
    at = np.cumsum([len(every) - sum(map(_points, tree.contacts)), *map(_points, tree.contacts)])
    return [every[start:stop] for start, stop in pairwise(at)]


def without_one_sided(tree):
    """Return a tree without stops and contacts."""
    return replace(tree, stop_stiffness=np.zeros(tree.nv), contacts=())


def depths(tree, q):
    """Return how deep the one-sided forces are entered, negative where they are apart: the stops of joints, then the points of contacts."""
    frames, found = world_frames(tree, q), [depth for _, _, depth in stops(tree, q)]
    for contact in tree.contacts:
        tree.mark()
        found += [touch.depth for touch in touches(contact, frames)]
    return np.array(found)


def separations(tree, q):
    """Return the vectors between the centres of spheres that may touch, (pairs, 3)."""
    frames = world_frames(tree, q)
    return np.array([apart for contact in tree.contacts for apart in _separations(contact, frames)])


def _separations(contact, frames):
    a, b = frames[contact.a], frames[contact.b]
    for centre, _ in contact.spheres:
        for other, _ in contact.others:
            yield (a.p + a.R @ centre) - (b.p + b.R @ other)


def on_the_way(tree, q, ahead, before):
    """Return what is on the way to q, where the depths of one-sided forces are `ahead` and centres of spheres were `before` apart.

    That is how deep they are at most; the part of the way at which one looks at their directions, half way, or half the way to where
    spheres that pass each other are nearest; and 1 for each of those, else 0.
    """
    frames, deepest, middle, count = world_frames(tree, q), list(ahead), 0.5, 0
    passing = [0.0] * len(deepest)
    for contact, at in zip(tree.contacts, of_contacts(tree, range(len(ahead))), strict=True):
        for i, after in zip(at, _separations(contact, frames), strict=False):
            start, count = before[count], count + 1
            way, apart = after - start, np.sqrt(after @ after + _TINY)
            nearest = minimum(maximum(-(start @ way) / (way @ way + _TINY), 0.0), 1.0)
            place = start + nearest * way
            deepest[i] = ahead[i] + maximum(apart - np.sqrt(place @ place + _TINY), 0.0)
            passes = start @ after < _PASSING * (np.sqrt(start @ start + _TINY) * apart)
            passing[i], middle = where(passes, 1.0, 0.0), minimum(middle, where(passes, 0.5 * nearest, 0.5))
    return np.array(deepest), middle, np.array(passing)


# laws


def step_law(tree, q, mean, here, ahead, deepest, passing, h):
    """Return the laws of all one-sided forces, (n, 4), for a step of size h in which velocities are about the `mean`.

    The depths of the forces are `here` at its beginning, `ahead` where it is expected to end, and `deepest` at most. Spheres that would be
    `passing` brake each other.
    """
    _, _, V = velocities(tree, q, mean)
    frames = world_frames(tree, q)
    laws = [normal_law(tree.stop_stiffness[stop], tree.stop_damping[stop], 1.0, here[i], ahead[i], deepest[i], h)[0]
            for i, (stop, _, _) in enumerate(stops(tree, q))]  # fmt: skip
    for contact, at in zip(tree.contacts, of_contacts(tree, range(len(here))), strict=True):
        a, b = (motion(frames[k], V[k]) for k in (contact.a, contact.b))
        for touch, i in zip(touches(contact, frames), at, strict=True):
            tree.mark()
            law, N = normal_law(contact.stiffness, contact.dissipation, contact.exponent, here[i], ahead[i], deepest[i], h)
            if contact.others:
                braking = Law(0.0, 0.0, law.damping + h * law.stiffness)
                law = Law(*(where(passing[i] > 0.5, x, y) for x, y in zip(braking, law, strict=True)))
            relative = a.at(touch.point) - b.at(touch.point)
            u = relative - (touch.normal @ relative) * touch.normal
            square = u @ u
            laws.append(law._replace(drag=friction_at(contact, square) * N / np.sqrt(square + contact.slip_speed**2)))
    return np.array(laws)


def normal_law(k, c, exponent, d, ahead, deepest, h):
    """Return the law of a normal force for a step of size h from the depth d, and the mean of the force.

    The stiffness is such that the law takes as much energy from d to `deepest` as U grows by, so that it never gives back more; where the
    surface is touched all the way and the exponent is 1 it is k. The damping is c times the mean force of the spring, and less where the
    force would pull.
    """
    a, b, way = maximum(d, 0.0), maximum(deepest, 0.0), deepest - d
    before, steep, rest = k * power(exponent, a), _secant_slope(exponent, a, b), _REST * a * a
    stored = steep * (b - a) ** 2 + 2.0 * power(exponent, a) * maximum(-deepest, 0.0)
    stiffness = k * (stored + rest * steep) / (way * way + rest + _TINY)
    b, way = maximum(ahead, 0.0), ahead - d
    touching = ((b - a) * way + rest) / (way * way + rest + _TINY)  # the part of the way
    spring = k * _mean_power(exponent, a, b) * touching
    damping = c * spring / (1.0 + maximum(-1.0 - c * way / h, 0.0))
    return Law(before, stiffness, damping), maximum(before + 0.5 * stiffness * way + damping * way / h, 0.0)


def _secant_slope(exponent, a, b):
    """Return 2 (U(b) - U(a) - U'(a) (b - a)) / (b - a)^2, where k is 1."""
    if exponent == 1.0:
        return 1.0
    s, t = np.sqrt(a + _TINY), np.sqrt(b + _TINY)
    return (0.8 * t * t * t + 1.6 * s * t * t + 2.4 * s * s * t + 1.2 * s * s * s) / ((s + t) * (s + t))


def _mean_power(exponent, a, b):
    """Return the mean of d^p from a to b."""
    if exponent == 1.0:
        return 0.5 * (a + b)
    s, t = np.sqrt(a + _TINY), np.sqrt(b + _TINY)
    return 0.4 * (t * t * t * t + t * t * t * s + t * t * s * s + t * s * s * s + s * s * s * s) / (s + t)


# forces and slopes by laws


def law_force(tree, q, law, v, deeper):
    """Return the joint forces of one-sided forces by their laws, at velocities v, so much deeper than at the start of the step."""
    force, (wrenches,) = tree.vector(), tree.columns(1)
    for (i, sign, _), (push, stiffness, damping, _), more in zip(stops(tree, q), law, deeper, strict=False):
        force[i] = force[i] - sign * (push + stiffness * more) - damping * v[i]
    if not tree.contacts:
        return force
    _, _, V = velocities(tree, q, v)
    frames = world_frames(tree, q)
    for contact, at in zip(tree.contacts, of_contacts(tree, range(len(law))), strict=True):
        if contact.a == contact.b:
            continue
        a, b = (motion(frames[k], V[k]) for k in (contact.a, contact.b))
        for touch, i in zip(touches(contact, frames), at, strict=True):
            tree.mark()
            push, stiffness, damping, drag = law[i]
            n, relative = touch.normal, a.at(touch.point) - b.at(touch.point)
            approach = n @ relative
            on_a = (push + stiffness * deeper[i] - damping * approach) * n - drag * (relative - approach * n)
            for k, pushed in ((contact.a, on_a), (contact.b, -on_a)):
                R = frames[k].R
                wrench = np.concatenate([R.T @ cross(touch.point - frames[k].p, pushed), R.T @ pushed])
                wrenches[k] = wrench if wrenches[k] is None else wrenches[k] + wrench
    tree.mark()
    return force + wrench_forces(tree, q, wrenches)


def stop_law_slopes(tree, q, law):
    """Return how fast the forces of stops by their laws fall with positions and velocities."""
    by_position, by_velocity = tree.vector(), tree.vector()
    for (i, _, _), (_, stiffness, damping, _) in zip(stops(tree, q), law, strict=False):
        by_position[i], by_velocity[i] = by_position[i] + stiffness, by_velocity[i] + damping
    return by_position, by_velocity


def contact_law_slopes(contact, frames, laws):
    """Yield how fast the forces of points by their laws fall: (place, matrices by displacement and by velocity)."""
    for touch, (_, stiffness, damping, drag) in zip(touches(contact, frames), laws, strict=True):
        along = np.outer(touch.normal, touch.normal)
        yield touch.point, stiffness * along, damping * along + drag * (np.eye(3) - along)
