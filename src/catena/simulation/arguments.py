"""Checks of the arguments of runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.errors import ArgumentError
from catena.model import Mechanism, values
from catena.model.wording import short

#: Steps are at least this part of the largest time, so that their sizes have four digits or more; and a run has at most so many, days of
#: computing.
RESOLUTION, MOST_STEPS = 1e-12, 1e10


def moving(m: Any, name: str) -> Mechanism:
    """Return a model as it is now; refuse one whose joints are all driven: there is nothing to integrate."""
    if not isinstance(m, Mechanism):
        raise ArgumentError(f"{name}: {m!r} is not a model; give a ct.Model")
    m = m.frozen()
    m.tree()  # refuses what cannot move
    if not m.nv:
        raise ArgumentError(
            f"{name}: model '{m.name}' has no coordinates, for all its joints are driven, and how it moves is known; call kernels at the "
            "times that you want, such as ct.poses(m)(t, []) and ct.driving_forces(m)(t, [], [], [])"
        )
    return m


def check_state(m: Mechanism, q: Any, v: Any, names: tuple[str, str] = ("q0", "v0")) -> tuple[np.ndarray, np.ndarray]:
    """Return a state as arrays of floats, or say what is wrong with it; no v is rest."""
    q = values.coordinates(names[0], q, m.q_names, m.name)
    normalise(m, q, names[0])
    return q, np.zeros(m.nv) if v is None else values.coordinates(names[1], v, m.v_names, m.name)


def normalise(m: Mechanism, q: np.ndarray, name: str) -> None:
    """Bring the quaternions of positions (..., nq) to length 1, in place; refuse those of clearly another length."""
    for link, at in m.quaternions():
        w, x, y, z = np.moveaxis(q[..., at], -1, 0)
        size = np.sqrt(w * w + x * x + y * y + z * z)  # which is the same, bit for bit, in all batches
        wrong = np.abs(size - 1.0) > 1e-6
        if wrong.any():
            where = [int(i) for i in np.argwhere(wrong)[0]] if wrong.ndim else ""
            raise ArgumentError(
                f"{name}{where}: the quaternion of '{link.name}' has length {size[wrong][0]:.6g}; give one of length 1 (w, x, y, z), "
                "as m.normalised(q) does"
            )
        q[..., at] /= size[..., None]


def count(name: str, value: Any, remedy: str = "give a whole number, 1 or more") -> int:
    """Return a count of things, at least 1."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ArgumentError(f"{name} = {value!r} is not a count; {remedy}")
    return int(value)


def flag(name: str, value: Any, remedy: str) -> bool:
    """Return a choice, True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentError(f"{name} = {short(value)} is neither True nor False; {remedy}")
    return bool(value)


def number(name: str, value: Any) -> float:
    """Return a finite number."""
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} = {value!r} is not a number; give one") from None
    if not np.isfinite(result):
        raise ArgumentError(f"{name} = {result} is not finite; give a finite number")
    return result


def positive(name: str, value: Any, remedy: str) -> float:
    """Return a finite number above 0."""
    result = number(name, value)
    if result <= 0.0:
        raise ArgumentError(f"{name} = {result:g} is not positive; {remedy}")
    return result


def check_step(name: str, step: float, start: float, until: float) -> None:
    """Refuse steps that the times of a run do not resolve, or of which it would take more than it could ever make."""
    span, least = f"a run from {start:g} s to {until:g} s", RESOLUTION * max(abs(start), abs(until))
    if step < least:
        raise ArgumentError(f"{name} = {step:g} s is below the resolution of time in {span}; give {least:.1g} s or more, or times near 0")
    if (until - start) / step > MOST_STEPS:
        raise ArgumentError(
            f"{name} = {step:g} s makes {(until - start) / step:.1e} steps of {span}, more than {MOST_STEPS:.0e}; give a larger step"
        )


def check_span(start: float, until: float) -> None:
    """Refuse a run that is shorter than its times resolve."""
    least = RESOLUTION * max(abs(start), abs(until))
    if until - start < least:
        raise ArgumentError(
            f"a run from {start:.17g} s to {until:.17g} s is below the resolution of time there; give {least:.1g} s, or times near 0"
        )


def recording(record: Any, start: float, until: float) -> tuple[float, np.ndarray | None]:
    """Return the number of steps from sample to sample, and the times of the samples, if they are given."""
    if record is None:
        return 1.0, None
    if isinstance(record, (int, np.integer)) and not isinstance(record, bool):
        if record < 1:
            raise ArgumentError(f"record = {record} is not positive; give the number of steps from sample to sample, 1 or more")
        return float(record), None
    try:
        times = np.array(record, dtype=float)
    except (TypeError, ValueError):
        times = np.empty(0)
    if times.ndim != 1 or not len(times) or not np.isfinite(times).all() or (np.diff(times) <= 0.0).any():
        raise ArgumentError(f"record = {record!r} is neither a whole number of steps nor an array of times that increase; give one of them")
    slack = 1e-12 * max(abs(start), abs(until))  # the rounding of times that were added up
    if times[0] < start - slack or times[-1] > until + slack:
        raise ArgumentError(f"record asks for times from {times[0]:g} s to {times[-1]:g} s; the run goes from {start:g} s to {until:g} s")
    return 1.0, np.clip(times, start, until)
