"""Loops: joints that close them, relations of coordinates, and the basic constraints that each closing joint stands for.

Source   [KY03] Kang and Yoon, On the Improvement of a Fully Recursive Formulation, Tables 3 and 4.

A closing joint has no coordinates of its own. It says of the joint frames on two bodies what the joint would allow if b hung on a by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from catena.errors import ModelError
from catena.model import values
from catena.model.driven import Driven
from catena.model.joints import Custom, Cylindrical, Fixed, Helical, Joint, Planar, Prismatic, Revolute, Spherical, Universal
from catena.model.motions import DrivenMotion
from catena.model.placed import Basic
from catena.model.pose import Pose
from catena.scalars.expression import expressed


@dataclass(frozen=True)
class Distance:
    """A rod without mass that closes a loop: two points keep the distance `length` [m].

    It is for `Model.close` and `Model.connect`; no body hangs on it.

    >>> ct.Distance(0.5).length
    0.5
    """

    length: float
    tied: ClassVar[Mapping[str, Any]] = {}  # the expression that the length follows

    def __post_init__(self) -> None:
        values.take(self, "length")
        length = values.number("distance length", self.length, least=0.0)
        if length == 0.0:
            raise ModelError("distance length 0 holds two points together, which a length cannot do smoothly; give ct.Spherical() instead")
        object.__setattr__(self, "length", length)

    def __repr__(self) -> str:
        return f"Distance({self.length!r})"

    @property
    def kind(self) -> str:
        """Its name in messages and files."""
        return "distance"


@dataclass(frozen=True)
class Closure:
    """A joint that closes a loop: the joint frames `at_a` and `at_b` in the frames of bodies a and b, between them the joint.

    >>> m = ct.Model("slider")
    >>> m.add("crank", ct.rod(0.3, mass=1.0), ct.Revolute("y"))
    >>> m.add("rod", ct.rod(1.0, mass=1.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
    >>> m.close("guide", ct.Planar("z"), "ground", "rod", at_b=(1, 0, 0))
    >>> m.loops[0].at_b
    Pose((1.0, 0.0, 0.0))
    """

    name: str
    joint: Joint | Distance
    a: str
    b: str
    at_a: Pose
    at_b: Pose


@dataclass(frozen=True)
class Coupling:
    """A linear relation of coordinates: the sum of coefficient times coordinate is the offset.

    >>> m = ct.Model("gears", gravity=(0, 0, 0))
    >>> m.add("pinion", ct.cylinder(0.02, 0.1, mass=1.0), ct.Revolute("z"))
    >>> m.add("wheel", ct.cylinder(0.02, 0.2, mass=4.0), ct.Revolute("z"), at=(0.3, 0, 0))
    >>> m.couple("mesh", {"pinion": 0.1, "wheel": 0.2})
    >>> m.couplings[0].coefficients
    (('pinion', 0.1), ('wheel', 0.2))
    """

    name: str
    coefficients: tuple[tuple[str, float], ...]
    offset: float
    tied: ClassVar[Mapping[str, Any]] = {}  # expressions that coefficients and offset follow, by the names of the coordinates


def closing_pose(what: str, key: str, value: Any) -> Pose:
    """Return a joint frame on a body; `what` it belongs to is named in errors."""
    try:
        return Pose.of(value)
    except ModelError as error:
        raise ModelError(f"{what}: {key}: {error}") from None


def check_joint(what: str, joint: Any) -> None:
    """Refuse what is neither a joint nor a distance."""
    if not isinstance(joint, (Joint, Distance)) or type(joint) is Joint:
        raise ModelError(f"{what}: {joint!r} is not a joint; give one such as ct.Revolute('z') or ct.Distance(0.5)")


def check_closing(what: str, joint: Any) -> None:
    """Refuse a joint that closes nothing, or that has options, which act along coordinates that a closing joint does not have."""
    check_joint(what, joint)
    if isinstance(joint, Distance):
        return
    if joint.nv == 6:
        raise ModelError(f"{what}: a {joint.kind} joint of six degrees of freedom closes nothing; leave it out")
    for option, value in joint.options().items():
        raise ModelError(
            f"{what}: {option} {value!r} acts along a coordinate, which a closing joint does not have; leave it out, "
            "and put a spring or a force between the bodies with m.add_spring or m.add_force"
        )
    if isinstance(joint, (Driven, Custom)):
        remedy = "hang a body on it, and close the loop at another joint, or let m.connect choose"
        raise ModelError(f"{what}: a {joint.kind} joint closes no loop; {remedy}")
    if not isinstance(joint, tuple(_CONSTRAINTS)):
        raise ModelError(f"{what}: the constraints of a {joint.kind} joint are not known; choose from {', '.join(CLOSING)}")


def coupling(name: str, coefficients: Any, offset: Any) -> Coupling:
    """Return a checked coupling; which coordinates there are is not asked."""
    what = f"coupling '{name}'"
    if not isinstance(coefficients, Mapping):
        raise ModelError(f"{what}: coefficients {coefficients!r} are not a table; give a dict such as {{'a': 1.0, 'b': -2.0}}")
    if not coefficients:
        raise ModelError(f"{what}: coefficients {coefficients!r} relate nothing; give a dict such as {{'a': 1.0, 'b': -2.0}}")
    pairs = tuple((key, coefficient(what, key, values.plain(value))) for key, value in coefficients.items())
    made = Coupling(name, pairs, values.number(f"{what}: offset", values.plain(offset)))
    if tied := {key: np.array(x, dtype=object) for key, x in {**coefficients, "offset": offset}.items() if expressed(x)}:
        object.__setattr__(made, "tied", tied)
    return made


def coefficient(what: str, key: Any, value: Any) -> float:
    """Return the checked coefficient of a coordinate."""
    if not isinstance(key, str):
        raise ModelError(f"{what}: {key!r} is not the name of a coordinate; choose names from m.q_names")
    factor = values.number(f"{what}: coefficient of '{key}'", value)
    if factor == 0.0:
        raise ModelError(f"{what}: coefficient of '{key}' is 0, so that it has no part; leave '{key}' out")
    return factor


# the basic constraints of every joint: [KY03] Table 4


def _screw(joint: Helical, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[Basic, ...]:
    kind = Cylindrical if joint.pitch else Revolute
    return *_CONSTRAINTS[kind](joint, x, y, z), *([Basic("screw", x, x, joint.pitch, z)] if joint.pitch else [])


def _universal(joint: Universal, *_: np.ndarray) -> tuple[Basic, ...]:
    u, w = np.array(joint.axis1), np.array(joint.axis2)
    return Basic("s"), Basic("d1", u, w, float(u @ w))


#: The constraints of each closing joint, with x, y, z in the axes of the joint frame, right-handed, and z along the joint's axis.
#: Directions that must be parallel may also be opposite: the equations hold for both.
_CONSTRAINTS: dict[type, Callable[..., tuple[Basic, ...]]] = {
    Revolute: lambda joint, x, y, z: (Basic("s"), Basic("d1", x, z), Basic("d1", y, z)),
    Prismatic: lambda joint, x, y, z: (*_CONSTRAINTS[Cylindrical](joint, x, y, z), Basic("d1", x, y)),
    Helical: _screw,
    Cylindrical: lambda joint, x, y, z: (Basic("d1", x, z), Basic("d1", y, z), Basic("d2", x), Basic("d2", y)),
    Universal: _universal,
    Planar: lambda joint, x, y, z: (Basic("d1", x, z), Basic("d1", y, z), Basic("d2", z)),
    Spherical: lambda joint, x, y, z: (Basic("s"),),
    Fixed: lambda joint, x, y, z: (*_CONSTRAINTS[Revolute](joint, x, y, z), Basic("d1", x, y)),
    Distance: lambda joint, x, y, z: (Basic("ss", value=joint.length),),
}

#: Joints that close loops, by their names in files.
CLOSING: dict[str, type] = {"distance" if kind is Distance else kind.__name__.lower(): kind for kind in _CONSTRAINTS}


def constraints(joint: Joint | Distance) -> tuple[Basic, ...]:
    """Return the basic constraints of a closing joint, 6 - nv rows."""
    motion = None if isinstance(joint, Distance) else joint.motion()
    axes = np.eye(3) if motion is None or isinstance(motion, DrivenMotion) else motion.inner.T
    return next(table for kind, table in _CONSTRAINTS.items() if isinstance(joint, kind))(joint, *axes)
