"""Paths of coordinates over time, from a start to an end: position, rate and acceleration, at times of any scalar."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import factorial
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ArgumentError
from catena.graph import where
from catena.model.values import floats
from catena.simulation.arguments import positive

#: The orders of polynomials, and how many derivatives are given at either end.
ORDERS = {3: 1, 5: 2, 7: 3}


class Point(NamedTuple):
    """Where a path is at a time: position, rate and acceleration of its coordinates."""

    position: Any
    rate: Any
    acceleration: Any


class Path:
    """Coordinates that lead from a start to an end within a duration [s], and stand still before and after.

    `path(t)` gives position, rate and acceleration at a time, which may be traced, or at an array of times, along the last axis the
    coordinates. `path.start`, `path.end` and `path.duration` are what its names say. Another path is any function that gives these three.

    >>> path = ct.cycloidal([0.0, 1.0], [1.0, 3.0], duration=2.0)
    >>> position, rate, acceleration = path(1.0)
    >>> position, path(5.0).rate
    (array([0.5, 2. ]), array([0., 0.]))
    >>> path([0.0, 0.5, 1.0]).acceleration.shape
    (3, 2)
    """

    def __init__(self, start: np.ndarray, end: np.ndarray, duration: float, motion: Callable[[Any], tuple[Any, Any, Any]]) -> None:
        self.start, self.end, self.duration, self._motion = start, end, duration, motion

    def __repr__(self) -> str:
        return f"<Path from {self.start.tolist()} to {self.end.tolist()} in {self.duration:g} s>"

    def __call__(self, t: Any) -> Point:
        if isinstance(t, (list, tuple, np.ndarray)):
            t = floats("time", t, "give times [s]")
            t = t[..., None] if self.start.shape else t
        inside = where(t < 0.0, 0.0, where(t > self.duration, 0.0, 1.0))
        position, rate, acceleration = self._motion(where(t < 0.0, 0.0, where(t > self.duration, self.duration, t)))
        return Point(position, inside * rate, inside * acceleration)


def cycloidal(start: Any, end: Any, duration: float) -> Path:
    """Return the cycloidal path [SS01] (35), which begins and ends without rate and acceleration.

    `start` and `end` are numbers, or one for each coordinate; all move together.

    >>> path = ct.cycloidal(0.5, 1.5, duration=20.0)
    >>> path(10.0).position, path(10.0).rate, path(20.0).rate
    (np.float64(1.0), np.float64(0.1), np.float64(0.0))
    """
    first, last = _ends("cycloidal", start, end)
    duration = positive("cycloidal: duration", duration, "give a time above 0 [s]")

    def shape(t: Any) -> tuple[Any, Any, Any]:
        turn = (2.0 * np.pi / duration) * t
        return (turn - np.sin(turn)) / (2.0 * np.pi), (1.0 - np.cos(turn)) / duration, (2.0 * np.pi / duration**2) * np.sin(turn)

    return _straight(first, last, duration, shape)


def polynomial(
    start: Any,
    end: Any,
    duration: float,
    order: int = 5,
    start_rate: Any = 0.0,
    end_rate: Any = 0.0,
    start_acceleration: Any = 0.0,
    end_acceleration: Any = 0.0,
) -> Path:
    """Return the polynomial of order 3, 5 or 7 with given rates and, from order 5 on, accelerations at both ends; of order 7 without jerk.

    Before the start and after the end it stands still all the same, so that a rate given there ends with a jump.

    >>> path = ct.polynomial([0.0, 0.0], [1.0, 2.0], duration=2.0, order=3, end_rate=[0.5, 0.0])
    >>> path(2.0).rate, path(1.0).position
    (array([0.5, 0. ]), array([0.375, 1.   ]))
    """
    first, last = _ends("polynomial", start, end)
    duration = positive("polynomial: duration", duration, "give a time above 0 [s]")
    if order not in ORDERS:
        raise ArgumentError(f"polynomial: order {order!r} is none of {', '.join(map(str, ORDERS))}; give one of them")
    given = {"rate": (start_rate, end_rate), "acceleration": (start_acceleration, end_acceleration)}
    derivatives = [(first, last)]
    for name, (at_start, at_end) in given.items():
        derivatives.append((_like(f"polynomial: start_{name}", at_start, first), _like(f"polynomial: end_{name}", at_end, first)))
    if order == 3 and any(np.any(value) for value in derivatives[2]):
        raise ArgumentError("polynomial: one of order 3 cannot take accelerations at its ends; give order=5 or leave them out")
    derivatives = [*derivatives, (0.0 * first, 0.0 * first)][: ORDERS[order] + 1]
    # of u = t / duration: the lower half of the coefficients from the start, the upper half from the end
    half = len(derivatives)
    low = [duration**k * at_start / factorial(k) for k, (at_start, _) in enumerate(derivatives)]
    falling = np.array([[factorial(n) / factorial(n - k) if n >= k else 0.0 for n in range(2 * half)] for k in range(half)])
    ahead = [duration**k * at_end - sum(falling[k, n] * low[n] for n in range(half)) for k, (_, at_end) in enumerate(derivatives)]
    high = np.tensordot(np.linalg.inv(falling[:, half:]), np.stack(ahead), axes=1)
    coefficients = np.stack([*low, *high])

    def motion(t: Any) -> tuple[Any, Any, Any]:
        powers = [coefficients]
        for _ in range(2):
            powers.append(np.stack([n * c / duration for n, c in enumerate(powers[-1])][1:]))
        u = (1.0 / duration) * t
        position, rate, acceleration = (reduce(lambda value, c: value * u + c, c[-2::-1], c[-1] + 0.0 * u) for c in powers)  # Horner
        return position, rate, acceleration

    return Path(first, last, duration, motion)


def trapezoidal(start: Any, end: Any, max_rate: Any, max_acceleration: Any = None, duration: float | None = None) -> Path:
    """Return the path of constant acceleration, constant rate and constant deceleration, within the limits given.

    With `max_acceleration` it is as short as the limits allow, with `duration` [s] it takes this time. Limits are numbers, or one for each
    coordinate; all coordinates move together, in a straight line, and the rate is not reached where the way is too short for it.

    >>> ct.trapezoidal(0.0, 2.0, max_rate=1.0, max_acceleration=4.0).duration
    2.25
    >>> ct.trapezoidal([0.0, 0.0], [1.0, 2.0], max_rate=1.0, duration=3.0)(1.5)
    Point(position=array([0.5, 1. ]), rate=array([0.5, 1. ]), acceleration=array([0., 0.]))
    """
    first, last = _ends("trapezoidal", start, end)
    if (max_acceleration is None) == (duration is None):
        raise ArgumentError("trapezoidal: give either max_acceleration or duration beside max_rate")
    way = np.abs(last - first)
    rate = _least("trapezoidal: max_rate", max_rate, way)
    if max_acceleration is not None:
        acceleration = _least("trapezoidal: max_acceleration", max_acceleration, way)
        rate = min(rate, float(np.sqrt(acceleration)))
        ramp, time = (rate / acceleration, 1.0 / rate + rate / acceleration) if way.any() else (0.0, 0.0)
    else:
        time = positive("trapezoidal: duration", duration, "give a time above 0 [s]")
        rate = min(rate, 2.0 / time)
        ramp = time - 1.0 / rate
        if ramp <= 0.0:
            raise ArgumentError(
                f"trapezoidal: at the rates given the way takes more than {1.0 / rate:g} s, and duration is {time:g} s; give more of either"
            )
    if not way.any():
        return _straight(first, last, time, lambda t: (0.0 * t, 0.0 * t, 0.0 * t))
    slope = rate / ramp

    def shape(t: Any) -> tuple[Any, Any, Any]:
        def piece(rising: Any, even: Any, falling: Any) -> Any:
            return where(t < ramp, rising, where(t < time - ramp, even, falling))

        remaining = time - t
        position = piece(0.5 * slope * t * t, rate * (t - 0.5 * ramp), 1.0 - 0.5 * slope * remaining * remaining)
        return position, piece(slope * t, rate, slope * remaining), piece(slope, 0.0, -slope)

    return _straight(first, last, time, shape)


def _straight(first: np.ndarray, last: np.ndarray, duration: float, shape: Callable[[Any], tuple[Any, Any, Any]]) -> Path:
    """Return the path on which all coordinates move together, as the shape s(t) from 0 to 1 and its two derivatives say."""
    way = last - first

    def motion(t: Any) -> tuple[Any, Any, Any]:
        s, rate, acceleration = shape(t)
        return first + way * s, way * rate, way * acceleration

    return Path(first, last, duration, motion)


def _ends(what: str, start: Any, end: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return start and end as vectors of one length, or as two numbers."""
    first, last = (floats(f"{what}: {name}", value, "give numbers") for name, value in (("start", start), ("end", end)))
    if first.ndim > 1 or first.shape != last.shape:
        raise ArgumentError(f"{what}: start has the shape {first.shape} and end {last.shape}; give two numbers, or one for each coordinate")
    if not (np.isfinite(first).all() and np.isfinite(last).all()):
        raise ArgumentError(f"{what}: start {first.tolist()} or end {last.tolist()} is not finite; give finite numbers")
    return first, last


def _like(what: str, value: Any, first: np.ndarray) -> np.ndarray:
    """Return numbers of a path's coordinates, or one number for all of them."""
    given = floats(what, value, "give numbers")
    if given.shape not in ((), first.shape):
        raise ArgumentError(f"{what} has the shape {given.shape}, and the path {first.shape}; give a number, or one for each coordinate")
    if not np.isfinite(given).all():
        raise ArgumentError(f"{what} {given.tolist()} is not finite; give finite numbers")
    return given + 0.0 * first


def _least(what: str, limit: Any, way: np.ndarray) -> float:
    """Return the least of limits per way of the coordinates that move, the limit of a path's shape; infinite where none moves."""
    limits = _like(what, limit, way)
    if not (limits > 0.0).all():
        raise ArgumentError(f"{what} = {limits.tolist()} is not positive; give numbers above 0")
    return float(np.min(limits[way > 0.0] / way[way > 0.0], initial=np.inf))
