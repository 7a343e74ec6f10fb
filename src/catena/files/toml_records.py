"""The tables of catena's TOML format: their keys and types.

Those of joints and shapes are read off the classes and functions themselves, so that a new one needs no line here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import msgspec

from catena.model.bodies import Body, box, cylinder, point_mass, rod, sphere
from catena.model.closures import CLOSING, Distance
from catena.model.joints import JOINTS, Custom, Joint

Vector = list[float]
Numbers = float | list[float]
Axis = str | list[float]
Table = dict[str, Any]


class Record(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The keys that a table of a file may hold, and their types; other keys are errors."""


class FileRecord(Record):
    model: Table = msgspec.field(default_factory=dict)
    body: list[Table] = msgspec.field(default_factory=list)
    frame: list[Table] = msgspec.field(default_factory=list)
    connection: list[Table] = msgspec.field(default_factory=list)
    spring: list[Table] = msgspec.field(default_factory=list)
    bushing: list[Table] = msgspec.field(default_factory=list)
    contact: list[Table] = msgspec.field(default_factory=list)
    loop: list[Table] = msgspec.field(default_factory=list)
    coupling: list[Table] = msgspec.field(default_factory=list)
    actuator: list[Table] = msgspec.field(default_factory=list)
    keyframes: dict[str, Vector] = msgspec.field(default_factory=dict)
    joint_names: dict[str, str] = msgspec.field(default_factory=dict)
    parameters: Table = msgspec.field(default_factory=dict)
    ties: Table = msgspec.field(default_factory=dict)


class ModelRecord(Record):
    name: str = "model"
    gravity: Vector = msgspec.field(default_factory=list)
    friction_speed: float | Vector = 0.0
    home: Vector = msgspec.field(default_factory=list)


class BodyRecord(Record):
    name: str
    joint: Table = msgspec.field(default_factory=dict)
    parent: str = "ground"
    at: Vector | Table = msgspec.field(default_factory=list)
    at_body: Vector | Table = msgspec.field(default_factory=list)
    shape: Table = msgspec.field(default_factory=dict)
    mass: float = 0.0
    com: Vector = msgspec.field(default_factory=list)
    inertia: list[float | list[float]] = msgspec.field(default_factory=list)
    geometry: list[Table] = msgspec.field(default_factory=list)


class FrameRecord(Record):
    name: str
    body: str
    at: Vector | Table = msgspec.field(default_factory=list)


class SpringRecord(Record):
    name: str
    a: str
    b: str
    stiffness: float
    damping: float = 0.0
    length: float = 0.0
    cubic: float = 0.0
    slack: bool = False
    at_a: Vector = msgspec.field(default_factory=list)
    at_b: Vector = msgspec.field(default_factory=list)


class BushingRecord(Record):
    name: str
    a: str
    b: str
    at_a: Vector | Table = msgspec.field(default_factory=list)
    at_b: Vector | Table = msgspec.field(default_factory=list)
    stiffness: Numbers = 0.0
    damping: Numbers = 0.0
    turning_stiffness: Numbers = 0.0
    turning_damping: Numbers = 0.0


class ContactRecord(Record):
    name: str
    body: str
    against: str = "ground"
    shape: list[Table] = msgspec.field(default_factory=list)
    points: list[Vector] = msgspec.field(default_factory=list)
    against_shape: list[Table] = msgspec.field(default_factory=list)
    normal: Axis = "z"
    height: float = 0.0
    friction: float = 0.0
    stiction: float = 0.0
    restitution: float = 0.0
    penetration: float = 0.0
    stiffness: float = 0.0
    dissipation: float = 0.0
    slip_speed: float = 0.0
    exponent: float = 1.0


class LoopRecord(Record):
    name: str
    joint: Table
    a: str
    b: str
    at_a: Vector | Table = msgspec.field(default_factory=list)
    at_b: Vector | Table = msgspec.field(default_factory=list)


class ConnectionRecord(LoopRecord, kw_only=True):
    name: str = ""


class CouplingRecord(Record):
    name: str
    coefficients: Table
    offset: float = 0.0


class ActuatorRecord(Record):
    name: str
    coefficients: Table
    gain: Numbers = 1.0
    bias: Numbers = 0.0
    control_limits: Vector = msgspec.field(default_factory=list)
    force_limits: Vector = msgspec.field(default_factory=list)


class PoseRecord(Record):
    xyz: Vector = msgspec.field(default_factory=list)
    rpy: Vector = msgspec.field(default_factory=list)
    quat: Vector = msgspec.field(default_factory=list)
    matrix: list[Vector] = msgspec.field(default_factory=list)


class MotionRecord(Record):
    offset: Numbers = 0.0
    rate: Numbers = 0.0
    amplitude: Numbers = 0.0
    frequency: Numbers = 0.0
    phase: Numbers = 0.0


class GeometryRecord(Record):
    type: str
    size: Vector
    center: Vector = msgspec.field(default_factory=list)
    axis: Axis = ""
    rpy: Vector = msgspec.field(default_factory=list)
    file: str = ""
    folder: str = ""
    colour: Vector = msgspec.field(default_factory=list)


#: Types of the parameters of joints and shapes that are not one number.
_TYPES: dict[str, Any] = {
    "axis": Axis, "axis1": Axis, "axis2": Axis, "com": Vector, "at": Vector, **{option.name: Numbers for option in fields(Joint)},
    "limits": list[float | list[float]],
}  # fmt: skip

#: The shapes that make bodies; and the parameters that are the sizes of those that can be shown.
SHAPES: dict[str, Callable[..., Body]] = {f.__name__: f for f in (rod, box, cylinder, sphere, point_mass)}
SIZES = {"rod": ("length",), "box": ("x", "y", "z"), "cylinder": ("length", "radius"), "sphere": ("radius",)}

#: The sizes of all shapes that can be shown.
LOOKS = {**SIZES, "capsule": ("length", "radius"), "ellipsoid": ("x", "y", "z"), "mesh": ("x", "y", "z")}


def _record(function: Callable[..., Any]) -> type[msgspec.Struct]:
    """Return the record of a table that holds a function's parameters and its name as `type`."""
    entries: list[Any] = [("type", str)]
    for name, parameter in inspect.signature(function).parameters.items():
        entry = (name, _TYPES.get(name, float))
        entries.append(entry if parameter.default is parameter.empty else (*entry, msgspec.UNSET))
    return msgspec.defstruct(function.__name__, entries, bases=(Record,), forbid_unknown_fields=True, kw_only=True)


#: The records of joints and shapes, by their types.
JOINT_RECORDS = {kind: _record(joint) for kind, joint in JOINTS.items() if joint is not Custom}
CONNECTION_RECORDS = {**JOINT_RECORDS, "distance": _record(Distance)}
CLOSING_RECORDS = {kind: record for kind, record in CONNECTION_RECORDS.items() if kind in CLOSING}
SHAPE_RECORDS = {kind: _record(shape) for kind, shape in SHAPES.items()}
