"""How near one-sided forces are to act, stops of joints and contacts, and how fast their gaps close: what adaptive steps need of them.

Frames   everything in the world's axes.
Cost     kinematics in Duals of Duals, for the bodies that touch.

    here  meaning
    gap   distance [m or rad] to what stops, negative beyond it; its rate and its acceleration follow a motion
    speed relative speed of the two bodies where they are nearest
    turn  angular rate of a body, at most: the sum of those of its joints
    width distance over which what is touched pushes back; a plane does so without end
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.formulations.contact import motion, touches
from catena.formulations.joint_forces import stop_gaps
from catena.formulations.kinematics import velocities, world_frames
from catena.scalars.dual import moving, part


class Gaps(NamedTuple):
    """The gaps of one-sided forces, stops first, along a motion; each is an array with an entry for each of these."""

    gap: Any
    rate: Any
    acceleration: Any
    speed: Any
    turn: Any
    width: Any


def gaps(tree, q, v, vdot, rate):
    """Return the gaps at a state that accelerates; `rate(q, v)` is how positions change at velocities."""
    along = rate(q, v)
    bending = part(rate(moving(q, along), moving(v, vdot)), "derivative")
    changing = moving(moving(q, along), moving(along, bending))
    later = tree.moving().moving()
    frames = world_frames(later, changing)
    found = [(gap, 0.0, 0.0, np.inf) for gap in stop_gaps(tree, changing)]
    bodies, turns, places = *_motions(tree, q, v), world_frames(tree, q)
    for contact in tree.contacts:
        tree.mark()
        a, b = bodies[contact.a], bodies[contact.b]
        turn = turns[contact.a] + turns[contact.b]
        widths = [radius + size for _, radius in contact.spheres for _, size in contact.others]
        for i, (touch, now) in enumerate(zip(touches(contact, frames), touches(contact, places), strict=True)):
            relative = a.at(now.point) - b.at(now.point)
            found.append((-touch.depth, np.sqrt(relative @ relative), turn, widths[i] if widths else np.inf))
    gap, speed, turn, width = (np.array(column, dtype=object) for column in zip(*found, strict=True))
    values, rates = part(gap, "value"), part(gap, "derivative")
    return Gaps(part(values, "value"), part(values, "derivative"), part(rates, "derivative"), speed, turn, width)


def _motions(tree, q, v):
    """Return the motions of all bodies, and how fast they turn at most; last the ground's."""
    _, S, V = velocities(tree, q, v)
    frames, (turns,) = world_frames(tree, q), tree.columns(1)
    turns[-1] = 0.0
    for k in tree.outward():
        turning = (S[k] @ v[tree.v_slices[k]] + tree.joint_drift(k))[:3]
        turns[k] = turns[tree.parent[k]] + np.sqrt(turning @ turning)
    return [motion(frames[k], V[k]) for k in (*range(tree.n), -1)], turns
