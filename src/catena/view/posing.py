"""Posing a mechanism by hand: coordinates that can be moved one by one, while its loops stay closed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.errors import CatenaError
from catena.model import Model
from catena.model.pose import rpy
from catena.spatial import quaternion_exp, quaternion_product, rotation

#: Parts of the way that are tried when a coordinate cannot go the whole way, each half as long as the last.
TRIES = 6

_TURNS = ("roll", "pitch", "yaw")


class Handle(NamedTuple):
    """A coordinate to move: its name and unit, how far it goes, and whether others follow it (else it follows them, too)."""

    name: str
    unit: str
    lower: float
    upper: float
    independent: bool


class Posing:
    """A position of a model that is changed coordinate by coordinate.

    Positions of joints that turn freely, balls and free bodies, are moved by roll, pitch and yaw.

    >>> from catena.examples import four_bar
    >>> posing = Posing(four_bar())
    >>> [handle.name for handle in posing.handles if handle.independent]
    ['crank']
    >>> posing.move("crank", 1.0)
    True
    >>> float(np.abs(ct.loop_error(posing.model)(posing.q)).max()) < 1e-12
    True
    """

    def __init__(self, model: Model, q: Any = None, t: float = 0.0, reach: float = 1.0) -> None:
        self.model, self.t = model, t
        if q is None:
            q = model.assemble(t=t) if model.has_loops else model.neutral()
        self.q = np.array(q, dtype=float)
        self.independent = self._independent()
        self.handles = tuple(self._handles(reach))

    def value(self, name: str) -> float:
        """Return what a coordinate is at."""
        if name in self.model.q_names:
            return float(self.q[self.model.q_names.index(name)])
        body, _, turn = name.rpartition(".")
        return self._turned(body)[_TURNS.index(turn)]

    def move(self, name: str, x: float) -> bool:
        """Move a coordinate to a value, or as far as the loops let it; return whether it went the whole way.

        The other independent coordinates stay, if this is one of them, and the dependent ones follow.
        """
        start = self.value(name)
        for k in range(TRIES):
            try:
                self.q = self._moved(name, start + (x - start) * 0.5**k)
                return k == 0
            except CatenaError:  # the loops cannot be closed there
                continue
        return False

    def place(self, q: Any, t: float) -> None:
        """Take another position."""
        self.q, self.t = np.array(q, dtype=float), t

    def _moved(self, name: str, x: float) -> np.ndarray:
        """Return the position with a coordinate at a value and all loops closed."""
        names = self.model.q_names
        q = self.q.copy()
        kept = {other: float(q[names.index(other)]) for other in self.independent}
        if name in names:
            q[names.index(name)] = x
            held = kept | {name: x} if name in kept else {name: x}
        else:
            body, _, turn = name.rpartition(".")
            angles = self._turned(body)
            angles[_TURNS.index(turn)] = x
            q[self._quaternion(body)] = _from_rpy(angles)
            held = kept
        return self.model.assemble(q if name not in names else self.q, held, **self._time()) if self.model.has_loops else q

    def _time(self) -> dict[str, float]:
        return {"t": self.t} if self.model.driven_names else {}

    def _turned(self, body: str) -> list[float]:
        return list(rpy(rotation(self.q[self._quaternion(body)])))

    def _quaternion(self, body: str) -> slice:
        """Return where the quaternion of a body is: the last four of its coordinates."""
        at = next(at for link, at, _ in self.model._slices() if link.name == body)
        return slice(at.stop - 4, at.stop)

    def _independent(self) -> tuple[str, ...]:
        """Return the independent coordinates that are plain numbers."""
        plain = [name for link, at, _ in self.model._slices() if link.joint.nq == link.joint.nv for name in self.model.q_names[at]]
        if not self.model.has_loops:
            return tuple(plain)
        found = self.model.mobility(self.q, **self._time())
        return tuple(name for name in plain if name in found.independent)

    def _handles(self, reach: float) -> list[Handle]:
        found = []
        for link, at, _ in self.model._slices():
            turns = link.joint.nq != link.joint.nv
            lower, upper = link.joint.lower, link.joint.upper
            for i, name in enumerate(self.model.q_names[at][: -4 if turns else None]):
                unit = self.model.q_units[at.start + i]
                far = np.pi if unit == "rad" else 2.0 * reach
                low, high = (-np.inf, np.inf) if turns else (lower[i], upper[i])
                ends = low if np.isfinite(low) else -far, high if np.isfinite(high) else far
                value = self.value(name)
                found.append(Handle(name, unit, min(ends[0], value), max(ends[1], value), turns or name in self.independent))
            if turns:
                found += [Handle(f"{link.name}.{turn}", "rad", -np.pi, np.pi, True) for turn in _TURNS]
        return found


def _from_rpy(angles: list[float]) -> np.ndarray:
    """Return the quaternion of roll, pitch and yaw."""
    roll, pitch, yaw = (quaternion_exp(angle * axis) for angle, axis in zip(angles, np.eye(3), strict=True))
    return np.asarray(quaternion_product(yaw, quaternion_product(pitch, roll)), dtype=float)
