"""Posing a mechanism by hand: coordinates that can be moved one by one, while its loops stay closed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ViewWarning
from catena.loops.assembly import assemble, followed, loop_residuals, moved_to
from catena.loops.groups import loop_groups
from catena.loops.mobility import mobility
from catena.model import Mechanism
from catena.model.pose import quaternion_of_rpy, rpy
from catena.spatial import rotation

#: How often a step is halved where the loops do not allow the whole one.
TRIES = 6

#: A coordinate that moves further than this [rad, m] in one step is on another branch.
JUMP = 1.0

_TURNS = ("roll", "pitch", "yaw")

#: A loop that is open by less than this, of its size or in radians, looks closed.
_SEEN = 1e-6


def warn_open(model: Mechanism, q: Any, t: float = 0.0) -> bool:
    """Return whether positions to be shown leave a loop open, and warn of it."""
    residuals = loop_residuals(model.at(t), np.asarray(q, dtype=float)) if model.has_loops else None
    if residuals is not None and not residuals.sizes.max(initial=0.0) <= _SEEN:
        warnings.warn(
            f"q leaves loop '{residuals.worst}' of model '{model.name}' open, by {residuals.sizes.max():.2g} of its size or rad; "
            "close it by m.assemble(guess=q)",
            ViewWarning,
            stacklevel=4,
        )
        return True
    return False


class Handle(NamedTuple):
    """A coordinate to move: its name, unit and range, and whether it is independent."""

    name: str
    unit: str
    lower: float
    upper: float
    independent: bool


class Posing:
    """A position of a model that is changed coordinate by coordinate.

    Spherical joints and free bodies are turned by roll, pitch and yaw. Where there are loops, ranges of coordinates are what they reach
    from the position: the independent ones one by one, and the dependent ones while these move.

    >>> posing = Posing(examples.four_bar())
    >>> [handle.name for handle in posing.handles if handle.independent]
    ['crank']
    >>> posing.move("crank", 1.0)
    True
    >>> float(np.abs(ct.loop_error(posing.model)(posing.q)).max()) < 1e-12
    True
    """

    def __init__(self, model: Mechanism, q: Any = None, t: float = 0.0, reach: float = 1.0) -> None:
        self.model, self.t, self._reach = model, t, reach
        is_open = q is not None and warn_open(model, q, t)
        self.q: np.ndarray = np.array(assemble(model, t=self.when) if q is None else q, dtype=float)
        #: The independent velocity coordinates, which the others follow; those of a generic configuration where a loop is open.
        self._held = set(mobility(model, None if is_open else self.q, self.when).independent)
        self._pace = 0.1 * min(reach, 1.0)
        self._joints = {link.name: (at, at_v) for link, at, at_v in model.slices()}
        self._limits = np.array([(-np.inf, np.inf)] * model.nq)
        for link, at, _ in model.slices():
            if link.joint.nq == link.joint.nv:
                self._limits[at] = np.stack([link.joint.lower, link.joint.upper], axis=1)
        self.freedom = len(self._held)
        self._named = {handle.name: handle for handle in self._widest()}
        self.handles = tuple(self._named.values()) if is_open else self.reached()
        self._named = {handle.name: handle for handle in self.handles}

    def value(self, name: str, q: np.ndarray | None = None) -> float:
        """Return the value of a coordinate where the model is, or at q."""
        q = np.asarray(self.q if q is None else q)
        if name in self.model.q_names:
            return float(q[self.model.q_names.index(name)])
        body, _, turn = name.rpartition(".")
        return self._turned(body, q)[_TURNS.index(turn)]

    def move(self, name: str, x: float) -> bool:
        """Move a coordinate to a value, or as far as loops and stops allow; return whether it went the whole way.

        If it is independent, the other independent coordinates stay, and the dependent ones follow in steps that keep their branch.
        """
        pace = longest = self._pace if self.model.has_loops else 1e300  # a tree goes there at once
        at, independent = self.value(name), self._named[name].independent
        while at != x and pace > longest * 0.5**TRIES:
            ahead = at + float(np.clip(x - at, -pace, pace))
            moved = self._moved([name], self.q[None], [ahead]) if independent else self._led(name, ahead)
            if moved is not None and self._allowed(self.q[None], moved)[0]:
                self.q, at, pace = moved[0], ahead, min(2.0 * pace, longest)
            else:
                pace *= 0.5
        return at == x

    def place(self, q: Any, t: float) -> None:
        """Put the model where a run has it."""
        self.q, self.t = np.array(q, dtype=float), t

    def reached(self) -> tuple[Handle, ...]:
        """Return the coordinates with what they reach from where the model is; a dependent one that does not move is left out."""
        widest = list(self._widest())
        if not self.model.has_loops or self.model.driven_names:  # every time is a model of its own, for which no code is compiled
            return tuple(widest)
        looped = {self.model.v_names[column] for group in loop_groups(self.model) for column in group.columns}
        walked = [handle for handle in widest if handle.independent and looped & set(self._rates(handle.name))]
        seen = self._walks(walked)
        handles = []
        for handle in widest:
            values = np.array([self.value(handle.name, q) for q in seen])
            low, high = float(values.min()), float(values.max())
            turned_over = high - low > 1.5 * np.pi and handle.name not in self.model.q_names
            narrow = high - low <= 1e-6 * max(1.0, abs(high))
            if (handle.independent and (narrow or handle not in walked)) or turned_over:
                handles.append(handle)
            elif not narrow:
                handles.append(handle._replace(lower=low, upper=high))
        return tuple(handles)

    def _walks(self, handles: Sequence[Handle]) -> np.ndarray:
        """Return the positions on the ways of independent coordinates, one by one, to both ends of their ranges, or as far as they go."""
        names = [handle.name for handle in handles for _ in range(2)]
        goals = np.array([end for handle in handles for end in (handle.lower, handle.upper)])
        q = np.tile(self.q, (len(names), 1))
        at = np.array([self.value(name) for name in names])
        pace, seen = np.full(len(names), self._pace), [self.q[None]]
        while len(on := np.flatnonzero((at != goals) & (pace > self._pace * 0.5**TRIES))):
            ahead = at[on] + np.clip(goals[on] - at[on], -pace[on], pace[on])
            moved = self._moved([names[k] for k in on], q[on], ahead)
            whole = self._allowed(q[on], moved)
            q[on[whole]], at[on[whole]] = moved[whole], ahead[whole]
            pace[on[~whole]] *= 0.5
            seen.append(moved[whole])
        return np.concatenate(seen)

    def _moved(self, names: Sequence[str], q: np.ndarray, goals: Any) -> np.ndarray:
        """Return positions (N, nq), each with an independent coordinate at a value, led onto the loops; NaN where they do not close."""
        q = q.copy()
        for k, (name, x) in enumerate(zip(names, goals, strict=True)):
            if name in self.model.q_names:
                q[k, self.model.q_names.index(name)] = x
            else:
                body, _, turn = name.rpartition(".")
                angles = self._turned(body, q[k])
                angles[_TURNS.index(turn)] = x
                q[k, self._quaternion(body)] = quaternion_of_rpy(angles)
        if self.model.has_loops:
            q, closed = followed(self._now, q, self._held)
            q[~closed] = np.nan
        return q

    def _led(self, name: str, x: float) -> np.ndarray | None:
        """Return the position with a dependent coordinate at a value, if it is near, and all loops closed: (1, nq)."""
        joint = name if name in self._joints else name.rpartition(".")[0]
        moved = moved_to(self._now, self.q, self._joints[joint][1], partial(self.value, name), x)
        return None if moved is None else moved[None]

    def _allowed(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Return which positions close the loops, are on the same branch as those before, and no further beyond the stops."""
        if not self.model.has_loops:
            return np.ones(len(after), dtype=bool)
        beyond = [np.maximum(self._limits[:, 0] - q, q - self._limits[:, 1]).clip(min=0.0) for q in (before, after)]
        near = np.abs(self.model.difference(before, after)).max(axis=1) <= JUMP
        return near & (beyond[1] <= beyond[0] + 1e-9).all(axis=1)

    @property
    def when(self) -> float | None:
        """The time of driven joints, where there are any."""
        return self.t if self.model.driven_names else None

    @property
    def _now(self) -> Mechanism:
        return self.model.at(self.t) if self.model.driven_names else self.model

    def _turned(self, body: str, q: np.ndarray) -> list[float]:
        return list(rpy(rotation(q[self._quaternion(body)])))

    def _quaternion(self, body: str) -> slice:
        stop = self._joints[body][0].stop
        return slice(stop - 4, stop)

    def _rates(self, name: str) -> tuple[str, ...]:
        """Return the velocity coordinates that move a coordinate."""
        at, at_v = self._joints[name if name in self._joints else name.rpartition(".")[0]]
        rates = self.model.v_names[at_v]
        if at.stop - at.start == at_v.stop - at_v.start:
            return (rates[self.model.q_names.index(name) - at.start],)
        return rates[3:] if name in self.model.q_names else rates[:3]

    def _widest(self) -> Iterator[Handle]:
        """Yield the coordinates with the ranges that their joints have, or a turn, or the size of the model."""
        for link, at, _ in self.model.slices():
            turns = link.joint.nq != link.joint.nv
            names = [*self.model.q_names[at]][: -4 if turns else None]
            for i, name in enumerate([*(f"{link.name}.{turn}" for turn in _TURNS), *names] if turns else names):
                independent = set(self._rates(name)) <= self._held
                unit = "rad" if turns and i < 3 else self.model.q_units[self.model.q_names.index(name)]
                low, high = (-np.inf, np.inf) if turns else self._limits[at][i]
                far = (0.5 if name == f"{link.name}.pitch" else 1.0) * np.pi if unit == "rad" else 2.0 * self._reach
                value = self.value(name)
                ends = low if np.isfinite(low) else -far, high if np.isfinite(high) else far
                yield Handle(name, unit, min(ends[0], value), max(ends[1], value), independent)
