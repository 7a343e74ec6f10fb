"""Tasks that are ready: cart-pole, double pendulum, arm, five-bar robot and Stewart platform."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from catena import examples
from catena.environments.task import Task
from catena.graph import atan2
from catena.kernels.kinematics import poses
from catena.model import Mechanism

Array = Any

# --- cart-pole

_RAIL, _LEAN = 2.4, np.radians(12.0)  # where an episode ends [m, rad]


@cache
def cart_pole() -> Task:
    """Return the task to balance a pole on a cart, with a force of up to 10 N on the cart.

    Observed are the cart, the pole, and their rates; the reward is 1 a step. An episode ends where the cart leaves 2.4 m of rail to either
    side or the pole leans by 12 degrees, and after 500 steps of 0.02 s.

    >>> ct.environments.cart_pole()
    <Task 'cart-pole': actions cart, 4 observations, steps of 0.02 s, 500 in an episode>
    """
    most = np.array([2.0 * _RAIL, 2.0 * _LEAN, 20.0, 20.0])
    return Task(
        examples.cart_pole(), step=0.02, reset=_cart_pole_reset, observe=_state, reward=_one, terminate=_fallen, efforts={"cart": 10.0},
        max_episode_steps=500, observation_limits=(-most, most), space=((-1.2, -0.1, -0.1), (1.2, 0.1, 0.7)),
    )  # fmt: skip


def _cart_pole_reset(random: Any) -> Any:
    return random.uniform(-0.05, 0.05, 2), random.uniform(-0.05, 0.05, 2)


def _state(q: Array, v: Array) -> Array:
    return np.concatenate([q, v])


def _one() -> float:
    return 1.0


def _fallen(q: Array) -> Any:
    return np.abs(q) > np.array([_RAIL, _LEAN])


# --- double pendulum


@cache
def double_pendulum() -> Task:
    """Return the task to swing a double pendulum up and keep it there, with motors that are too weak to lift it.

    The motors have 8 N m in the shoulder, where it takes 19.6 N m to hold both rods level, and 4 N m in the elbow. Observed are cosines and
    sines of the rods' angles from upright, and the rates of the joints; the reward is the height of the tip, from 0 hanging to 1 upright,
    less a little for speed and torques. An episode begins near hanging and takes 500 steps of 0.02 s.

    >>> ct.environments.double_pendulum()
    <Task 'double-pendulum': actions upper, lower, 6 observations, steps of 0.02 s, 500 in an episode>
    """
    m = examples.double_pendulum().with_values({"upper.damping": 0.05, "lower.damping": 0.05})
    most = np.array([1.0, 1.0, 1.0, 1.0, 50.0, 50.0])
    return Task(
        m, step=0.02, substeps=2, reset=_hanging, observe=_from_upright, reward=_height, efforts=(8.0, 4.0), max_episode_steps=500,
        observation_limits=(-most, most), space=((-2.0, -0.1, -2.0), (2.0, 0.1, 2.0)),
    )  # fmt: skip


def _hanging(random: Any) -> Any:
    return np.array([0.5 * np.pi, 0.0]) + random.uniform(-0.1, 0.1, 2), random.uniform(-0.1, 0.1, 2)


def _leaning(q: Array) -> tuple[Any, Any]:
    """Return the angles of the rods from upright."""
    return q[0] + 0.5 * np.pi, q[0] + q[1] + 0.5 * np.pi


def _from_upright(q: Array, v: Array) -> Array:
    upper, lower = _leaning(q)
    return np.stack([np.cos(upper), np.sin(upper), np.cos(lower), np.sin(lower), v[0], v[1]])


def _height(q: Array, v: Array, action: Array) -> Any:
    upper, lower = _leaning(q)
    return 0.5 + 0.25 * (np.cos(upper) + np.cos(lower)) - 1e-3 * np.sum(v**2) - 1e-2 * np.sum(action**2)


# --- arm

_HAND = np.array([0.0, 0.0, 0.16, 1.0])  # the tip, in the frame of the hand


@cache
def arm() -> Task:
    """Return the task to reach points with the tip of the arm of the examples, by the torques of its 7 joints.

    The joints have geared motors, with a rotor inertia of 0.1 kg m^2 and damping of 1 N m s/rad. Observed are sines and cosines of the
    angles, their rates, the tip, and the way from there to the goal [m], which is where random angles of the joints have the tip; the
    reward is the distance [m], negative, less a little for torques. An episode takes 250 steps of 0.02 s.

    >>> ct.environments.arm()
    <Task 'arm': actions shoulder1, shoulder2, upper, elbow, fore, wrist, hand, 27 observations, steps of 0.02 s, 250 in an episode>
    """
    m = examples.arm()
    m = m.with_values({f"{name}.{option}": value for name in m.body_names for option, value in (("damping", 1.0), ("armature", 0.1))})
    reach = _Reach(m)
    most = np.array([1.0] * 14 + [50.0] * 7 + [2.0] * 3 + [4.0] * 3)
    return Task(
        m, step=0.02, substeps=2, reset=reach.reset, observe=reach.observe, reward=reach.reward, show=reach.show,
        efforts=(40.0, 120.0, 40.0, 80.0, 20.0, 20.0, 10.0), max_episode_steps=250, observation_limits=(-most, most),
        space=((-0.9, -0.9, 0.0), (0.9, 0.9, 1.3)),
    )  # fmt: skip


class _Reach:
    """The functions of an arm that reaches."""

    def __init__(self, m: Mechanism) -> None:
        self.model, self._poses = m, poses(m)

    def tip(self, q: Array) -> Array:
        return self._poses(q)[-1][:3] @ _HAND

    def reset(self, random: Any) -> Any:
        most = np.array([2.0, 1.2, 2.0, 1.5, 2.0, 1.5, 2.0])
        begin = random.uniform(-0.2, 0.2, 7)
        return begin, np.zeros(7), self.tip(random.uniform(-most, most))

    def observe(self, q: Array, v: Array, goal: Array) -> Array:
        tip = self.tip(q)
        return np.concatenate([np.sin(q), np.cos(q), v, tip, goal - tip])

    def reward(self, q: Array, action: Array, goal: Array) -> Any:
        return -np.linalg.norm(goal - self.tip(q)) - 1e-2 * np.sum(action**2)

    def show(self, goal: Array) -> Array:
        return goal


# --- five-bar robot

_LENGTHS, _FEET = ((0.6, 1.1), (0.7, 0.8)), (0.0, 1.2)  # of the legs, and where they stand


@cache
def five_bar() -> Task:
    """Return the task to draw a circle with the tip of the five-bar robot, by its two motors, of 60 N m each.

    The goal are the middle (x, z) [m], the radius [m] and the turns a second of a circle, which begins at its right; the robot begins there
    at rest. Observed are sines and cosines of the motors' angles, the rates of all joints, the way from the tip to the point to be at, and
    the velocity of this point; the reward is exp(-20 d) for a distance d [m]. An episode ends where the tip is 0.3 m away, and after 500
    steps of 0.01 s.

    >>> ct.environments.five_bar()
    <Task 'five-bar-robot': actions leg1_proximal, leg2_proximal, 12 observations, steps of 0.01 s, 500 in an episode>
    """
    most = np.array([1.0] * 4 + [100.0] * 4 + [1.0] * 2 + [5.0] * 2)
    return Task(
        examples.five_bar_robot(), step=0.01, reset=_circle_begin, observe=_circle_observe, reward=_circle_reward, terminate=_circle_lost,
        actuated=examples.ACTUATED["five-bar-robot"], efforts=60.0, max_episode_steps=500, observation_limits=(-most, most), show=_circle,
        space=((-0.5, -0.1, -0.1), (1.9, 0.1, 1.5)),
    )  # fmt: skip


def _circle_begin(random: Any) -> Any:
    goal = np.concatenate([random.uniform((0.5, 1.0), (0.7, 1.15)), random.uniform((0.1, 0.15), (0.2, 0.3))])
    x, z = goal[0] + goal[2], goal[1]
    angles = []
    for (first, second), foot, side in zip(_LENGTHS, _FEET, (1.0, -1.0), strict=True):
        # the triangle of two bars and the way from the foot to the tip; elbows are outwards
        far, cosine = (x - foot) ** 2 + z**2, ((x - foot) ** 2 + z**2 - first**2 - second**2) / (2.0 * first * second)
        outer = -side * atan2(np.sqrt(1.0 - cosine**2), cosine)
        inner = atan2(z, x - foot) + side * atan2(
            np.sqrt(1.0 - cosine**2) * second / np.sqrt(far), (far + first**2 - second**2) / (2.0 * first * np.sqrt(far))
        )
        angles += [inner, outer]
    return np.stack(angles), np.zeros(4), goal


def _tip(q: Array) -> Array:
    """Return where the tip is, (x, z), by the first leg."""
    first, second = _LENGTHS[0]
    a, b = q[0], q[0] + q[1]
    return np.stack([first * np.cos(a) + second * np.cos(b), first * np.sin(a) + second * np.sin(b)])


def _to_be(t: Any, goal: Array) -> tuple[Array, Array]:
    """Return the point of the circle to be at, and its velocity."""
    turn = 2.0 * np.pi * goal[3]
    direction, across = (np.stack([np.cos(turn * t), np.sin(turn * t)]), np.stack([-np.sin(turn * t), np.cos(turn * t)]))
    return goal[:2] + goal[2] * direction, goal[2] * turn * across


def _circle_observe(t: Any, q: Array, v: Array, goal: Array) -> Array:
    point, velocity = _to_be(t, goal)
    motors = np.stack([q[0], q[2]])
    return np.concatenate([np.sin(motors), np.cos(motors), v, point - _tip(q), velocity])


def _circle_distance(t: Any, q: Array, goal: Array) -> Any:
    return np.linalg.norm(_to_be(t, goal)[0] - _tip(q))


def _circle_reward(t: Any, q: Array, goal: Array) -> Any:
    return np.exp(-20.0 * _circle_distance(t, q, goal))


def _circle_lost(t: Any, q: Array, goal: Array) -> Any:
    return _circle_distance(t, q, goal) > 0.3


def _circle(t: float, goal: Array) -> Array:
    times = np.arange(24) / (24.0 * goal[3])
    points = np.stack([_to_be(time, goal)[0] for time in (*times, t)])
    return np.stack([points[:, 0], np.zeros(len(points)), points[:, 1]], axis=1)


# --- Stewart platform


@cache
def stewart() -> Task:
    """Return the task to move a Stewart platform as a ship moves, by forces of up to 400 N in its six legs.

    The goal are amplitudes [m] along x, y and z, and their frequencies [Hz]: the platform is to be there off its home, level, and begins at
    rest. Observed are changes of lengths and rates of the legs, the place of the platform, the way from there to the point to be at and the
    velocity of this point, and the vector of the quaternion of the platform; the reward is exp(-20 d) for a distance d [m], less the tilt.
    An episode ends where the platform is 0.2 m away or tilted by 30 degrees, and after 500 steps of 0.01 s.

    >>> ct.environments.stewart().names
    ('leg1_upper', 'leg2_upper', 'leg3_upper', 'leg4_upper', 'leg5_upper', 'leg6_upper')
    """
    m = examples.stewart_ups()
    most = np.array([1.0] * 6 + [20.0] * 6 + [1.0] * 3 + [1.0] * 3 + [2.0] * 3 + [1.0] * 3)
    track = _Track(m)
    return Task(
        m, step=0.01, reset=track.reset, observe=track.observe, reward=track.reward, terminate=track.lost, show=track.show,
        actuated=examples.ACTUATED["stewart-ups"], efforts=400.0, max_episode_steps=500, observation_limits=(-most, most),
        space=((-0.6, -0.6, 0.0), (0.6, 0.6, 0.75)),
    )  # fmt: skip


class _Track:
    """The functions of a platform that tracks."""

    def __init__(self, m: Mechanism) -> None:
        legs = examples.ACTUATED["stewart-ups"]
        self.model, self._lengths, self._rates = m, [m.q_names.index(leg) for leg in legs], [m.v_names.index(leg) for leg in legs]

    def reset(self, random: Any) -> Any:
        goal = np.concatenate([random.uniform(0.02, 0.06, 3), random.uniform(0.3, 0.8, 3)])
        return self.model.neutral(), np.zeros(self.model.nv), goal

    @staticmethod
    def to_be(t: Any, goal: Array) -> tuple[Array, Array]:
        """Return the place to be at, off home, and its velocity."""
        turn = 2.0 * np.pi * goal[3:]
        return goal[:3] * np.sin(turn * t), goal[:3] * turn * np.cos(turn * t)

    def observe(self, t: Any, q: Array, v: Array, goal: Array) -> Array:
        point, velocity = self.to_be(t, goal)
        return np.concatenate([q[self._lengths], v[self._rates], q[:3], point - q[:3], velocity, q[4:7]])

    def reward(self, t: Any, q: Array, goal: Array) -> Any:
        return np.exp(-20.0 * np.linalg.norm(self.to_be(t, goal)[0] - q[:3])) - np.sum(q[4:7] ** 2)

    def lost(self, t: Any, q: Array, goal: Array) -> Any:
        away = np.linalg.norm(self.to_be(t, goal)[0] - q[:3]) > 0.2
        return np.stack([away, np.sum(q[4:7] ** 2) > np.sin(np.radians(15.0)) ** 2])

    def show(self, t: float, goal: Array) -> Array:
        return np.array([0.0, 0.0, 0.6]) + self.to_be(t, goal)[0]
