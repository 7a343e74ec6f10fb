"""States from text, as people type them: `crank=90deg`, `base.rpy=10deg,0,20deg`.

A setting is NAME=VALUE. NAME is one of

- a coordinate, by its name in `m.q_names` or `m.v_names`: `crank=90deg`, `piston.shift=5mm`;
- a body, for all coordinates of its joint in order, with commas between: `piston=90deg,5mm`;
- a rotation, for ball joints and free joints, whose quaternions make sense only whole: `base.rpy=10deg,0,20deg` for roll, pitch and yaw as
  in `ct.Pose`, or `base.quat=1,0,0,0`, which is brought to length 1.

A number without a unit is in the unit of its coordinate: radians and metres, or those per second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ArgumentError
from catena.model import Mechanism
from catena.model.pose import quaternion_of_rpy
from catena.model.wording import choice

#: The units that can be typed for each unit of a coordinate, a time or a mass, and their sizes.
UNITS: dict[str, dict[str, float]] = {
    "rad": {"rad": 1.0, "mrad": 1e-3, "deg": np.pi / 180.0, "turn": 2.0 * np.pi},
    "m": {"m": 1.0, "cm": 1e-2, "mm": 1e-3, "um": 1e-6},
    "rad/s": {"rad/s": 1.0, "mrad/s": 1e-3, "deg/s": np.pi / 180.0, "rpm": np.pi / 30.0},
    "m/s": {"m/s": 1.0, "cm/s": 1e-2, "mm/s": 1e-3, "km/h": 1.0 / 3.6},
    "s": {"s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0},
    "kg": {"kg": 1.0, "g": 1e-3},
    "": {},
}

#: What an error gives as an example.
_EXAMPLES = {
    "rad": "0.5 or 30deg",
    "m": "0.5 or 500mm",
    "rad/s": "2 or 90deg/s",
    "m/s": "2 or 50mm/s",
    "s": "10 or 10ms",
    "kg": "2 or 500g",
}

_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z°/]*)\s*")


class _Target(NamedTuple):
    """What a name stands for: places in the vector, the units of the numbers to give, and what is made of them."""

    at: slice
    units: tuple[str, ...]
    convert: Callable[[list[float]], Any] | None = None


def position(m: Mechanism, settings: Iterable[str], start: Any = None) -> np.ndarray:
    """Return a position with coordinates set by text; the others are those of `start`, or of the neutral position.

    >>> m = ct.Model("crane")
    >>> m.add("trolley", ct.point_mass(5.0), ct.Prismatic("x"))
    >>> m.add("load", ct.point_mass(2.0, at=(0, 0, -1)), ct.Spherical(), parent="trolley")
    >>> position(m, ["trolley=250mm", "load.rpy=0,180deg,0"]).round(3)
    array([0.25, 0.  , 0.  , 1.  , 0.  ])
    """
    q = np.array(m.neutral() if start is None else start, dtype=float)
    targets: dict[str, _Target] = {}
    for link, at, _ in m.slices():
        targets |= _targets(link.name, at.start, link.joint.q_labels, link.joint.q_units)
    for link, at in m.quaternions():
        targets[f"{link.name}.rpy"] = _Target(at, ("rad",) * 3, quaternion_of_rpy)
        targets[f"{link.name}.quat"] = _Target(at, ("",) * 4, _unit)
    return _set(m, "position", q, targets, settings)


def velocity(m: Mechanism, settings: Iterable[str]) -> np.ndarray:
    """Return a velocity with coordinates set by text; the others are 0.

    >>> m = ct.Model("crane")
    >>> m.add("trolley", ct.point_mass(5.0), ct.Prismatic("x"))
    >>> m.add("load", ct.point_mass(2.0, at=(0, 0, -1)), ct.Spherical(), parent="trolley")
    >>> velocity(m, ["trolley=36km/h", "load=0,0,30rpm"]).round(3)
    array([10.   ,  0.   ,  0.   ,  3.142])
    """
    targets: dict[str, _Target] = {}
    for link, _, at in m.slices():
        targets |= _targets(link.name, at.start, link.joint.v_labels, link.joint.v_units)
    return _set(m, "velocity", np.zeros(m.nv), targets, settings)


def by_body(m: Mechanism, settings: Iterable[str]) -> list[str]:
    """Return settings by the names of bodies, of which some may be by the names that a file gives to their joints.

    >>> m = ct.Model("door")
    >>> m.add("leaf", ct.box(0.8, 0.04, 2.0, mass=20.0), ct.Revolute("z"))
    >>> m.parts.joint_names["leaf"] = "hinge"
    >>> by_body(m, ["hinge=30deg", "leaf=10deg"])
    ['leaf=30deg', 'leaf=10deg']
    """
    parted = [setting.rpartition("=") for setting in settings]
    return [f"{name_by_body(m, name)}{equals}{text}" for name, equals, text in parted]


def name_by_body(m: Mechanism, name: str) -> str:
    """Return a name that begins with that of a body, where it may begin with the name that a file gives to the body's joint."""
    known = {*m.body_names, *m.q_names, *m.v_names}
    carried = {joint: body for body, joint in m.joint_names.items() if joint not in known}
    name = name.strip()
    joint = next((joint for joint in accumulate(name.split("."), "{}.{}".format) if joint in carried), None)
    return name if joint is None or name in known else carried[joint] + name[len(joint) :]


def quantity(what: str, text: str, unit: str) -> float:
    """Return a number with a unit, in another unit of the same kind; without a unit it is in that one.

    >>> round(quantity("crank", "90deg", "rad"), 3)
    1.571
    """
    match = _NUMBER.fullmatch(text)
    if not match:
        raise ArgumentError(f"{what}: {text.strip()!r} is not a number with a unit; give one such as {_EXAMPLES.get(unit, '0.5')}")
    number, typed = float(match[1]), match[2].replace("°", "deg")
    sizes = UNITS.get(unit, {})
    if typed and typed not in sizes:
        choices = f"choose from {', '.join(sizes)}" if sizes else "give a number without a unit"
        raise ArgumentError(f"{what}: unit '{typed}' does not fit; {choices}")
    value = number * sizes[typed] if typed else number
    if not np.isfinite(value):
        raise ArgumentError(f"{what}: {text.strip()} is too large; give a finite number")
    return value


def _targets(name: str, start: int, labels: tuple[str, ...], units: tuple[str, ...]) -> dict[str, _Target]:
    """Return the coordinates of a joint by name, and all of them together by the name of the body; parts of quaternions are left out."""
    places = {label: _Target(slice(start + i, start + i + 1), units[i : i + 1]) for i, label in enumerate(labels)}
    whole = {"": _Target(slice(start, start + len(labels)), units)} if labels and "qw" not in labels else {}
    parts = {label: target for label, target in places.items() if "qw" not in labels or label not in ("qw", "qx", "qy", "qz")}
    return {f"{name}.{label}" if label else name: target for label, target in (parts | whole).items()}


def _set(m: Mechanism, kind: str, values: np.ndarray, targets: dict[str, _Target], settings: Iterable[str]) -> np.ndarray:
    for setting in settings:
        name, equals, text = setting.rpartition("=")  # a name may hold a '=', a value cannot
        name = name.strip()
        if not equals or not name:
            first = next(iter(targets), "crank")
            raise ArgumentError(f"setting '{setting}' is not NAME=VALUE; give one such as {first}=0.5")
        if name not in targets:
            raise ArgumentError(f"model '{m.name}' has no {kind} '{name}'; {choice(name, targets)}")
        at, units, convert = targets[name]
        parts = text.split(",")
        if len(parts) != len(units):
            raise ArgumentError(f"'{setting}': {name} takes {len(units)} number{'' if len(units) == 1 else 's'}, not {len(parts)}")
        numbers = [quantity(name, part, unit) for part, unit in zip(parts, units, strict=True)]
        values[at] = numbers if convert is None else convert(numbers)
    return values


def _unit(quat: list[float]) -> np.ndarray:
    size = np.linalg.norm(quat)
    if not 0.0 < size < np.inf:
        raise ArgumentError(f"quaternion {tuple(quat)} has no direction; give (w, x, y, z) with at least one non-zero entry")
    return np.array(quat) / size
