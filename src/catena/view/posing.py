"""Posing a mechanism by hand: coordinates that can be moved one by one, while its loops stay closed."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ModelError, ViewWarning
from catena.loops.assembly import assemble, followed, loop_residuals
from catena.loops.mobility import mobility
from catena.model import Mechanism
from catena.model.pose import quaternion_of_rpy, rpy
from catena.spatial import rotation

#: Fractions of a step that are tried where the loops do not allow the whole one, each half of the last.
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

    Spherical joints and free bodies are turned by roll, pitch and yaw.

    >>> posing = Posing(examples.four_bar())
    >>> [handle.name for handle in posing.handles if handle.independent]
    ['crank']
    >>> posing.move("crank", 1.0)
    True
    >>> float(np.abs(ct.loop_error(posing.model)(posing.q)).max()) < 1e-12
    True
    """

    def __init__(self, model: Mechanism, q: Any = None, t: float = 0.0, reach: float = 1.0) -> None:
        self.model, self.t = model, t
        is_open = q is not None and warn_open(model, q, t)
        self.q = np.array(assemble(model, t=self.when) if q is None else q, dtype=float)
        #: The independent velocity coordinates, which the others follow; those of a generic configuration where a loop is open.
        self._held = set(mobility(model, None if is_open else self.q, self.when).independent)
        self._pace = 0.1 * min(reach, 1.0)
        self.handles = tuple(self._handles(reach))
        self.freedom = len(self._held)
        self._named = {handle.name: handle for handle in self.handles}

    def value(self, name: str) -> float:
        if name in self.model.q_names:
            return float(self.q[self.model.q_names.index(name)])
        body, _, turn = name.rpartition(".")
        return self._turned(body)[_TURNS.index(turn)]

    def move(self, name: str, x: float) -> bool:
        """Move a coordinate to a value, or as far as the loops allow; return whether it went the whole way.

        If it is independent, the other independent coordinates stay, and the dependent ones follow in steps that keep their branch.
        """
        start = self.value(name)
        count = int(np.ceil(abs(x - start) / self._pace)) if self.model.has_loops else 1
        return all(self._step(name, start + (x - start) * k / count) for k in range(1, count + 1))

    def _step(self, name: str, x: float) -> bool:
        """Move a coordinate a little, or as far as the loops allow; return whether it went the whole way."""
        last = self.value(name)
        for share in 0.5 ** np.arange(TRIES):
            moved = self._moved(name, last + share * (x - last))
            if moved is not None:
                self.q = moved
                return bool(share == 1.0)
        return False

    def place(self, q: Any, t: float) -> None:
        self.q, self.t = np.array(q, dtype=float), t

    def _moved(self, name: str, x: float) -> np.ndarray | None:
        """Return the position with a coordinate at a value and all loops closed, if that is near."""
        q = self.q.copy()
        if name in self.model.q_names:
            q[self.model.q_names.index(name)] = x
        else:
            body, _, turn = name.rpartition(".")
            angles = self._turned(body)
            angles[_TURNS.index(turn)] = x
            q[self._quaternion(body)] = quaternion_of_rpy(angles)
        if not self.model.has_loops:
            return q
        now = self.model.at(self.t) if self.model.driven_names else self.model
        try:
            q = followed(now, q, self._held if self._named[name].independent else {name})
        except ModelError:
            return None
        return q if np.abs(self.model.difference(self.q, q)).max() <= JUMP else None

    @property
    def when(self) -> float | None:
        """The time of driven joints, where there are any."""
        return self.t if self.model.driven_names else None

    def _turned(self, body: str) -> list[float]:
        return list(rpy(rotation(self.q[self._quaternion(body)])))

    def _quaternion(self, body: str) -> slice:
        return next(at for link, at in self.model.quaternions() if link.name == body)

    def _handles(self, reach: float) -> list[Handle]:
        handles = []
        for link, at, at_v in self.model.slices():
            turns = link.joint.nq != link.joint.nv
            names, rates = self.model.q_names[at], self.model.v_names[at_v]
            if turns and set(rates[:3]) <= self._held:
                handles += [Handle(f"{link.name}.{turn}", "rad", -np.pi, np.pi, True) for turn in _TURNS]
            if turns and not set(rates[3:]) <= self._held:
                continue
            for i, name in enumerate(names[:-4] if turns else names):
                unit = self.model.q_units[at.start + i]
                far = np.pi if unit == "rad" else 2.0 * reach
                low, high = (-np.inf, np.inf) if turns else (link.joint.lower[i], link.joint.upper[i])
                ends = low if np.isfinite(low) else -far, high if np.isfinite(high) else far
                value = self.value(name)
                handles.append(Handle(name, unit, min(ends[0], value), max(ends[1], value), turns or rates[i] in self._held))
        return handles
