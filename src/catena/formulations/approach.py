"""How near one-sided forces are to act, stops of joints and contacts, and how fast their gaps close: what adaptive steps need of them.

Frames   V and A of body k in the frame of body k, as in `kinematics`; points in the world's axes.
Cost     O(n): an outward recursion, and a few products for each point; nothing branches on a value, so the functions can be traced.

    here  meaning
    gap   distance [m or rad] to what stops, negative beyond it; its rate and its acceleration follow a motion
    speed how fast a gap closes at most, however the bodies are turned
    turn  angular rate of a body, at most: the sum of those of its joints
    width distance over which what is touched pushes back; a plane does so without end
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.formulations.joint_forces import stops
from catena.formulations.kinematics import angular_velocities, world_frames
from catena.spatial import cross

_TINY = 1e-300  # keeps a distance that divides from being zero


class Gaps(NamedTuple):
    """The gaps of one-sided forces, stops first, along a motion; each is an array with an entry for each of these."""

    gap: Any
    rate: Any
    acceleration: Any
    speed: Any
    turn: Any
    width: Any


class _Moving(NamedTuple):
    """A body that moves: its frame in the world, its motion V and acceleration A, and how fast it turns at most."""

    frame: Any
    V: Any
    A: Any
    turn: Any

    def point(self, at):
        """Return the place of a point of the body, its velocity and its acceleration, in the world's axes."""
        (spin, moving), (spinning, gaining) = ((x[:3], x[3:]) for x in (self.V, self.A))
        around = cross(spin, at)
        R = self.frame.R
        return self.frame.p + R @ at, R @ (moving + around), R @ (gaining + cross(spinning, at) + cross(spin, around))


def gaps(tree, q, v, vdot):
    """Return the gaps at a state that accelerates."""
    found = [(-depth, -(sign * v[i]), -(sign * vdot[i]), 0.0, 0.0, np.inf) for i, sign, depth in stops(tree, q)]
    bodies = _moving(tree, q, v, vdot) if tree.contacts else []
    for contact in tree.contacts:
        tree.mark()
        found += _gaps(contact, bodies[contact.a], bodies[contact.b])
    return Gaps(*(np.array(column, dtype=object) for column in zip(*found, strict=True)))


def _gaps(contact, a, b):
    """Yield the gaps of a contact, in the order of `contact.touches`."""
    n, turn = contact.normal, a.turn + b.turn
    for centre, radius in contact.spheres:
        p, velocity, acceleration = a.point(centre)
        if not contact.others:
            gap = (n @ p - contact.height) - radius
            yield gap, n @ velocity, n @ acceleration, _length(velocity), turn, np.inf
        for other, size in contact.others:
            x, x1, x2 = (mine - its for mine, its in zip((p, velocity, acceleration), b.point(other), strict=True))
            distance = np.sqrt(x @ x + _TINY)
            rate = (x @ x1) / distance
            yield distance - (radius + size), rate, (x1 @ x1 + x @ x2 - rate * rate) / distance, _length(x1), turn, radius + size
    for centre, E in contact.ellipsoids:
        p, velocity, acceleration = a.point(centre)
        seen, spin = a.frame.R.T @ n, a.V[:3]
        seen1 = cross(seen, spin)  # as the body turns
        seen2 = cross(seen, a.A[:3]) + cross(seen1, spin)
        towards = E @ seen
        reach = np.sqrt(seen @ towards)
        reach1 = (towards @ seen1) / reach
        reach2 = (seen1 @ (E @ seen1) + towards @ seen2 - reach1 * reach1) / reach
        speed = _length(velocity) + turn * np.sqrt(np.trace(E))
        yield (n @ p - contact.height) - reach, n @ velocity - reach1, n @ acceleration - reach2, speed, turn, np.inf


def _moving(tree, q, v, vdot):
    """Return how all bodies move; last the ground."""
    frames, (X, S, _, a) = world_frames(tree, q), angular_velocities(tree, q, v)
    (moving,) = tree.columns(1)
    moving[-1] = _Moving(frames[-1], np.zeros(6), np.zeros(6), 0.0)

    # outward: as in the inverse dynamics, without the acceleration of gravity
    for k in tree.outward():
        parent, at = moving[tree.parent[k]], tree.v_slices[k]
        relative = S[k] @ v[at] + tree.joint_drift(k)
        V, A = X[k].motion(parent.V) + relative, X[k].motion(parent.A) + S[k] @ vdot[at] + a[k]
        moving[k] = _Moving(frames[k], V, A, parent.turn + _length(relative[:3]))
    return moving


def _length(x):
    return np.sqrt(x @ x)
