"""Adaptive steps and what acts on one side only: contacts and stops bound a step by their approach, and what it passes rejects it.

In free flight nothing tells of an error, so that steps would grow beyond contacts. A step is therefore no longer than the gap takes to
close, by its rate and its acceleration at the start of the step; where bodies turn far in that time, by their speed. So it arrives at the
contact, where the control of its error takes over.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

import numpy as np

from catena.formulations.approach import Gaps
from catena.graph import maximum, minimum, where

#: Angle by which bodies turn in a step so that rates and accelerations of gaps at its start foretell them [rad].
_ANGLE = 0.25

#: The part of the way through another body that a step may take.
_PASSED = 0.25

#: The part of the unit of lengths that a gap is resolved to, unless the tolerance is smaller.
NEAR = 1e-6

_LONG, _TINY = 1e300, 1e-300


def within(gaps: Gaps, near: Any) -> Any:
    """Return the time within which no gap closes; it ends where one of them has closed by a length `near`."""
    times = [_time(near, *entries) for entries in zip(*gaps, strict=True)]
    return reduce(minimum, [where(time >= 0.0, time, _LONG) for time in times], _LONG)


def _time(near: Any, gap: Any, rate: Any, acceleration: Any, speed: Any, turn: Any, width: Any) -> Any:
    way = gap + near
    turned = _ANGLE / maximum(turn, _TINY)
    straight = _first_zero(way, -speed, -(abs(acceleration) + turn * speed))
    closes = minimum(_first_zero(way, rate, acceleration), maximum(turned, straight))
    return where(gap > 0.0, closes, (_PASSED * width) / maximum(speed, _TINY))


def _first_zero(x: Any, rate: Any, acceleration: Any) -> Any:
    """Return the time at which a positive x becomes zero first."""
    square = rate * rate - 2.0 * acceleration * x
    root = np.sqrt(maximum(square, 0.0)) - rate
    return where(square < 0.0, _LONG, where(root > 0.0, 2.0 * x / maximum(root, _TINY), _LONG))


def passed(h: Any, near: Any, gap: Any, rate: Any, later_gap: Any, later_rate: Any) -> Any:
    """Return whether a gap is open at both ends of a step and was closed between, by the cubic through gaps and rates at these."""
    return reduce(operator.or_, [_passed(h, near, *entries) for entries in zip(gap, rate, later_gap, later_rate, strict=True)])


def _passed(h: Any, near: Any, gap: Any, rate: Any, later_gap: Any, later_rate: Any) -> Any:
    first, last = h * rate, h * later_rate
    square, cube = 3.0 * (later_gap - gap) - 2.0 * first - last, first + last - 2.0 * (later_gap - gap)
    at = -first / maximum(square + np.sqrt(maximum(square * square - 3.0 * cube * first, 0.0)), _TINY)
    least = gap + at * (first + at * (square + at * cube))
    return (gap > 0.0) & (later_gap > 0.0) & (first < 0.0) & (last > 0.0) & (least < -near)
