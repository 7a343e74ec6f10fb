"""What a mechanism is made of, by name and in the order in which it was added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from catena.model.actuators import Actuator
from catena.model.closures import Closure, Coupling
from catena.model.contacts import Contact
from catena.model.forces import Applied, Bushing, PointForce, Spring
from catena.model.frames import Frame
from catena.model.spanning_tree import Connection, Link, Loose


@dataclass
class Parts:
    """Bodies, joints, frames, loops and forces. Those of a mechanism are `sealed`: tables are read-only views, and the notes a tuple."""

    name: str
    gravity: tuple[float, ...]
    friction_speed: float | tuple[float, float]
    added: dict[str, Link | Loose] = field(default_factory=dict)
    frames: dict[str, Frame] = field(default_factory=dict)
    springs: dict[str, Spring] = field(default_factory=dict)
    bushings: dict[str, Bushing] = field(default_factory=dict)
    forces: dict[str, Applied] = field(default_factory=dict)
    point_forces: dict[str, PointForce] = field(default_factory=dict)
    contacts: dict[str, Contact] = field(default_factory=dict)
    closures: dict[str, Closure] = field(default_factory=dict)
    couplings: dict[str, Coupling] = field(default_factory=dict)
    connections: dict[str, Connection] = field(default_factory=dict)
    actuators: dict[str, Actuator] = field(default_factory=dict)
    own: dict[str, np.ndarray] = field(default_factory=dict)  # parameters of the user's own
    ties: dict[str, np.ndarray] = field(default_factory=dict)  # expressions of these that numbers follow, by path
    keyframes: dict[str, np.ndarray] = field(default_factory=dict)
    joint_names: dict[str, str] = field(default_factory=dict)  # of a file, by the bodies that the joints carry
    notes: list[str] = field(default_factory=list)
    home: np.ndarray | None = None
    folder: str | None = None  # of the file that the mechanism was read from

    def sealed(self) -> Parts:
        """Return parts with the same entries that cannot be changed."""
        return self._in(MappingProxyType, tuple)

    def opened(self) -> Parts:
        """Return parts with the same entries that can be changed."""
        return self._in(lambda table: table, list)

    def _in(self, table: Callable[[dict], Any], notes: Callable[[Any], Any]) -> Parts:
        """Return parts with copies of the entries in other containers."""
        tables = {part.name: value for part in fields(self) if isinstance(value := getattr(self, part.name), Mapping)}
        return replace(self, notes=notes(self.notes), **{name: table(dict(value)) for name, value in tables.items()})

    def same(self, other: Parts) -> bool:
        """Return whether the entries are those of other parts, in the same order."""
        return all(_same(getattr(self, part.name), getattr(other, part.name)) for part in fields(self))


def _same(a: Any, b: Any) -> bool:
    """Return whether two values are one object, equal text or numbers, or containers of such values in the same order."""
    if isinstance(a, Mapping):
        return list(a) == list(b) and all(map(_same, a.values(), b.values()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b or (isinstance(a, (str, int, float)) and a == b)
