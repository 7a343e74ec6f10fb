"""Random states to look at: joints well inside their limits, and speeds that fit the size of the model."""

from __future__ import annotations

import numpy as np

from catena.facade import Model
from catena.formulations.frames import poses
from catena.model import Free, Mechanism

#: How far joints are from the middle of their limits, or from home, at most: an angle [rad], a part of the range, a part of the size.
ANGLE, PART = np.pi / 4.0, 0.25

#: The speed of the fastest body, of sqrt(g size), as things of this size fall: 1 m/s where they reach 1 m.
SPEED = 0.32

#: Gravity [m/s^2] for that, whatever the model has.
_GRAVITY = 9.81


def random_position(m: Model, rng: np.random.Generator) -> np.ndarray:
    """Return a random position near home or, where a file gives none, near the middle of the limits.

    Free bodies stay where they are, and joints with springs.

    >>> m = ct.Model("arm")
    >>> m.add("upper", ct.rod(0.5, mass=2.0), ct.Revolute("y", limits=(1.0, 2.0)))
    >>> m.add("lower", ct.rod(0.5, mass=1.0), ct.Revolute("y"), parent="upper", at=(0.5, 0, 0))
    >>> q = np.array([random_position(m, np.random.default_rng(seed)) for seed in range(200)])
    >>> np.ptp(q, axis=0).round(1)
    array([0.5, 1.6])
    """
    q, near_home = m.search_start(), m.home is not None or m.has_loops
    size, angle = _size(m, q), 0.5 * ANGLE if m.has_loops else ANGLE  # loops that are far from closed may close on another branch
    for link, at_q, _ in m.slices():
        joint = link.joint
        if joint.nq != joint.nv:
            if not isinstance(joint, Free):
                q[at_q] = joint.integrate(q[at_q], rng.uniform(-angle, angle, joint.nv))
            continue
        lower, upper = joint.lower, joint.upper
        limited = np.isfinite(upper - lower) & (not near_home)
        middle = np.where(limited, lower + 0.5 * np.where(limited, upper - lower, 0.0), q[at_q])
        most = np.minimum(np.where(np.array(joint.q_units) == "rad", angle, PART * size), PART * (upper - lower))
        most = np.where(np.array(joint.stiffness) > 0.0, 0.0, most)  # a stiff spring that is bent would outdo everything else
        q[at_q] = rng.uniform(np.maximum(middle - most, lower), np.minimum(middle + most, upper))
    return q


def random_velocity(m: Model, q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return random velocities at which the fastest body has a speed that fits the size of the model; loops stay closed.

    Joints keep to their largest velocities. Free bodies do not move by themselves.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> abs(random_velocity(m, np.zeros(1), np.random.default_rng(0))).round(1)
    array([1.])
    """
    size, v = _size(m, q), rng.normal(size=m.nv)
    for link, _, at_v in m.slices():
        v[at_v] *= 0.0 if isinstance(link.joint, Free) else np.where(np.array(link.joint.v_units) == "rad/s", 1.0, size)
    if m.has_loops:
        v = m.project_velocity(q, v)
    speed = fastest(m, q, v)
    if speed == 0.0:
        return np.zeros(m.nv)
    most = np.concatenate([np.zeros(0), *(link.joint.most_velocity for link in m.links)])
    return v * min(SPEED * np.sqrt(_GRAVITY * size) / speed, np.min(most / np.maximum(np.abs(v), 1e-300), initial=np.inf))


def fastest(m: Mechanism, q: np.ndarray, v: np.ndarray) -> float:
    """Return the speed [m/s] of the fastest of the bodies' centres of mass and origins."""
    step = 1e-6 / max(1.0, np.abs(v).max(initial=0.0))
    moved = (_points(m, m.integrate(q, step * v)) - _points(m, m.integrate(q, -step * v))) / (2.0 * step)
    return float(np.linalg.norm(moved, axis=1).max(initial=0.0))


def _size(m: Mechanism, q: np.ndarray) -> float:
    """Return how far the model extends [m]."""
    points = _points(m, q)
    turning = [np.sqrt(np.trace(link.body.inertia) / link.body.mass) for link in m.links if link.body.mass > 0.0]
    return float(max(np.linalg.norm(np.ptp(points, axis=0)) if len(points) else 0.0, *turning, 0.0, 0.0)) or 1.0


def _points(m: Mechanism, q: np.ndarray) -> np.ndarray:
    """Return the origins and the centres of mass of the bodies in the world."""
    frames = np.asarray(poses(m.tree().at(0.0), q, m.body_names), dtype=float) if m.links else np.zeros((0, 4, 4))
    coms = np.array([link.body.com for link in m.links]).reshape(-1, 3)
    return np.concatenate([frames[:, :3, 3], frames[:, :3, 3] + np.einsum("kij,kj->ki", frames[:, :3, :3], coms)])
