"""Compliant contact of bodies with planes of the ground, and of spheres with each other.

Source   Hunt, Crossley, Coefficient of restitution interpreted as damping in vibroimpact, J. Applied Mechanics 42 (1975) 440-445.
Frames   everything in the world's axes.
Cost     of each point that may touch, whether it does or not; nothing branches on a value, so the functions can be traced.

    here  meaning
    n     normal of the surface, from b (or the ground) to a
    d     depth, and its rate; 0 where nothing touches
    N     normal force, k d^p (1 + c rate), never negative
    u     sliding velocity of a against b, along the surface
    f     force on a: N n - mu N u / sqrt(u^2 + s^2), where mu is larger by the stiction below about w = 100 s

A shape touches by the point of it that is deepest. Of an ellipsoid x^T E^-1 x = 1 about c that is c - E n / sqrt(n^T E n), which moves over
its surface; the rate of the depth is that of the body's own point there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.spatial import cross, skew, vanishes

_TINY = 1e-300  # keeps a distance or a depth that divides from being zero

#: Slip speeds at which half of the stiction is gone.
STRIBECK = 100.0


class Touch(NamedTuple):
    """Where two surfaces are nearest: the point, the normal from b to a, and the depth [m], negative where they are apart."""

    point: Any
    normal: Any
    depth: Any


class Motion(NamedTuple):
    """The motion of a body in the world's axes: where its frame is, its angular velocity, and the velocity of its origin."""

    R: Any
    p: Any
    turning: Any
    moving: Any

    def at(self, point: Any) -> Any:
        """Return the velocity of the body's point that is at a place."""
        return self.moving + cross(self.turning, point - self.p)


def motion(frame, V):
    """Return the motion of a body with a spatial velocity in its own frame."""
    return Motion(frame.R, frame.p, frame.R @ V[:3], frame.R @ V[3:])


def touches(contact, frames):
    """Yield where the shapes of a contact are nearest to what they may touch."""
    a, b, n = frames[contact.a], frames[contact.b], contact.normal
    for centre, radius in contact.spheres:
        here = a.p + a.R @ centre
        if not contact.others:
            yield Touch(here - radius * n, n, (contact.height + radius) - n @ here)
        for other, size in contact.others:
            between = here - (b.p + b.R @ other)
            distance = np.sqrt(between @ between + _TINY)
            along, depth = between / distance, (radius + size) - distance
            yield Touch(here - (radius - 0.5 * depth) * along, along, depth)
    for centre, E in contact.ellipsoids:
        seen = a.R.T @ n
        towards = E @ seen
        reach = np.sqrt(seen @ towards)
        here = a.p + a.R @ centre
        yield Touch(here - a.R @ (towards / reach), n, (contact.height + reach) - n @ here)


def contact_forces(tree, contact, frames, V):
    """Yield the force of each point of a contact on its body, and the place at which it acts, in the world's axes."""
    a, b = (motion(frames[k], V[k]) for k in (contact.a, contact.b))
    for touch in touches(contact, frames):
        tree.mark()
        yield _force(contact, touch, a.at(touch.point) - b.at(touch.point)), touch.point


def _force(contact, touch, relative):
    """Return the force on a of a point that moves against b."""
    n, approach = touch.normal, touch.normal @ relative
    N = normal_force(contact, positive(touch.depth), -approach)
    u = relative - approach * n
    square = u @ u
    return N * n - ((friction_at(contact, square) * N) / np.sqrt(square + contact.slip_speed**2)) * u


def friction_at(contact, square):
    """Return the coefficient of friction at the square of a sliding speed."""
    if vanishes(contact.stiction):
        return contact.friction
    rising = (STRIBECK * contact.slip_speed) ** 2
    return contact.friction + contact.stiction * (rising / (rising + square))


def normal_force(contact, d, rate):
    """Return the normal force at a depth that is not negative."""
    return (contact.stiffness * power(contact.exponent, d)) * positive(1.0 + contact.dissipation * rate)


def contact_energy(contact, frames):
    """Return the energy that the surfaces store."""
    energy = 0.0
    for touch in touches(contact, frames):
        d = positive(touch.depth)
        energy = energy + contact.stiffness * (d * power(contact.exponent, d)) / (contact.exponent + 1.0)
    return energy


def contact_slopes(contact, frames, V):
    """Yield how fast the forces of points against the ground fall: (place, matrices by displacement and by velocity), none negative."""
    a, b = (motion(frames[k], V[k]) for k in (contact.a, contact.b))
    for touch in touches(contact, frames):
        n, relative, d = touch.normal, a.at(touch.point) - b.at(touch.point), positive(touch.depth)
        approach = n @ relative
        held = positive(1.0 - contact.dissipation * approach)
        along = np.outer(n, n)
        stiffness = contact.stiffness * _power_slope(contact, d) * held
        damping = contact.stiffness * contact.dissipation * power(contact.exponent, d) * present(held)
        u = relative - approach * n
        square = u @ u + contact.slip_speed**2
        slip = friction_at(contact, u @ u) * contact.stiffness * power(contact.exponent, d) * held / np.sqrt(square)
        yield touch.point, stiffness * along, damping * along + slip * (np.eye(3) - along - np.outer(u, u) / square)


def at_origin(point, origin, slope):
    """Return the matrix, 6 x 6, by which a slope at a point is felt at the origin of its body, in the same axes."""
    arm = np.concatenate([-skew(point - origin), np.eye(3)], axis=1)
    return arm.T @ slope @ arm


def power(exponent, d):
    """Return a depth to the power of an exponent, 1 or 1.5."""
    return d if exponent == 1.0 else d * np.sqrt(d + _TINY)


def _power_slope(contact, d):
    return present(d) if contact.exponent == 1.0 else 1.5 * np.sqrt(d + _TINY)


def present(x):
    """Return 1 where x is positive, and 0 where it is 0; for any scalar."""
    return x / (x + _TINY)


def positive(x):
    """Return x where it is positive, else 0; for any scalar."""
    return 0.5 * (x + abs(x))
