"""Writes catena's TOML format, which `toml_reader` reads: as short as can be without losing a digit."""

from __future__ import annotations

import inspect
import json
import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.files import formulas
from catena.files.toml_records import JOINT_RECORDS, LOOKS, SHAPES, SIZES, Table
from catena.model import values
from catena.model.actuators import Actuator
from catena.model.bodies import Body, Geometry
from catena.model.closures import Closure, Coupling, Distance
from catena.model.contacts import Contact
from catena.model.driven import Driven, Harmonic
from catena.model.forces import BUSHING_NUMBERS, Bushing, Spring
from catena.model.joints import JOINTS, Joint
from catena.model.mechanism import Mechanism
from catena.model.parameters import ties
from catena.model.pose import Pose, rpy
from catena.model.spanning_tree import Connection, Link, Loose


def text(model: Mechanism, folder: str | None = None) -> str:
    """Return a model as TOML, for a file in a folder if one is given: meshes that are elsewhere have their own."""
    for force in (*model.forces, *model.point_forces):
        raise ModelError(f"force '{force.name}' is made of Python code, which a file cannot hold; keep this model in Python")
    head = {"name": model.name, "gravity": model.gravity, "friction_speed": model.friction_speed}
    parts = ["[model]", *_lines(head if model.home is None else {**head, "home": model.home})]
    closed_by_connections = {connection.name for connection in model.connections}
    tables: dict[str, list[Table]] = {
        "body": [_link_table(link, model.folder, folder) for link in model.added],
        "frame": [{"name": frame.name, "body": frame.body, **_pose_entry("at", frame.at)} for frame in model.frames],
        "connection": [_between_table("connection", connection) for connection in model.connections],
        "spring": [_table(spring, "stiffness") for spring in model.springs],
        "bushing": [_bushing_table(bushing) for bushing in model.bushings],
        "contact": [_contact_table(contact, model) for contact in model.contacts],
        "loop": [_between_table("loop", closure) for closure in model.loops if closure.name not in closed_by_connections],
        "coupling": [_table(coupling) | {"coefficients": dict(coupling.coefficients)} for coupling in model.couplings],
    }
    tables["actuator"] = [_actuator_table(actuator) for actuator in model.actuators]
    for kind, listed in tables.items():
        for table in listed:
            parts += ["", f"[[{kind}]]", *_lines(table)]
    for kind, named in (("keyframes", model.keyframes), ("joint_names", model.joint_names)):
        if named:
            parts += ["", f"[{kind}]", *_lines(named)]
    if model.parts.own:
        parts += ["", "[parameters]", *_lines(dict(model.parts.own))]
    if tied := ties(model):
        parts += ["", "[ties]", *_lines({path: formulas.written(x, model.parts.own) for path, x in tied.items()})]
    return "\n".join([*parts, ""])


def _lines(table: Table) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in table.items()]


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return f"{{ {', '.join(_lines(value))} }}" if value else "{}"
    if np.ndim(value):
        return f"[{', '.join(_value(entry) for entry in value)}]"
    return repr(float(value))


def _link_table(link: Link | Loose, own: str | None, target: str | None) -> Table:
    try:
        looks = [_geometry_table(look) | _mesh_folder(look, own, target) for look in link.body.geometry]
        if isinstance(link, Loose):
            return {"name": link.name, **_body_table(link.body, looks)}
        table: Table = {"name": link.name, "parent": link.parent, **_pose_entry("at", link.at), **_pose_entry("at_body", link.outer)}
        table |= _body_table(link.body, looks)
        table["joint"] = _joint_table(link.joint)
        return table
    except ModelError as error:
        raise ModelError(f"body '{link.name}': {error}") from None


def _between_table(kind: str, between: Connection | Closure) -> Table:
    """Return a joint between two bodies, in a connection or a loop."""
    try:
        joint = between.joint
        table: Table = {"name": between.name, "a": between.a, "b": between.b}
        table |= _pose_entry("at_a", between.at_a) | _pose_entry("at_b", between.at_b)
        table["joint"] = {"type": joint.kind, "length": joint.length} if isinstance(joint, Distance) else _joint_table(joint)
        return table
    except ModelError as error:
        raise ModelError(f"{kind} '{between.name}': {error}") from None


def _table(thing: Coupling | Spring, *required: str) -> Table:
    """Return the entries of a spring or coupling: those that are required, and those that are not zero."""
    entries = {f.name: getattr(thing, f.name) for f in fields(thing)}
    return {key: value for key, value in entries.items() if key in required or value not in (0.0, (0.0, 0.0, 0.0))}


def _actuator_table(actuator: Actuator) -> Table:
    plain = Actuator(actuator.name, ())
    entries = {key: getattr(actuator, key) for key in ("gain", "bias", "control_limits", "force_limits")}
    table: Table = {"name": actuator.name, "coefficients": dict(actuator.coefficients)}
    return table | {key: value for key, value in entries.items() if value != getattr(plain, key)}


def _bushing_table(bushing: Bushing) -> Table:
    table: Table = {"name": bushing.name, "a": bushing.a, "b": bushing.b}
    table |= _pose_entry("at_a", bushing.at_a) | _pose_entry("at_b", bushing.at_b)
    return table | {key: getattr(bushing, key) for key in BUSHING_NUMBERS if any(getattr(bushing, key))}


def _contact_table(contact: Contact, model: Mechanism) -> Table:
    """Return the entries of a contact; shapes that are the bodies' own are left out."""
    table: Table = {"name": contact.name, "body": contact.body}
    sides = [("shape", contact.body, contact.shapes)]
    if contact.against != "ground":
        table["against"] = contact.against
        sides.append(("against_shape", contact.against, contact.against_shapes))
    for key, body, shapes in sides:
        if shapes and (shapes != model.parts.added[body].body.geometry or len(contact.points)):
            table[key] = [_geometry_table(shape) for shape in shapes]
    if contact.points:
        table["points"] = contact.points
    table |= {key: getattr(contact, key) for key in ("stiffness", "dissipation", "friction", "slip_speed")}
    table |= {"stiction": contact.stiction} if contact.stiction else {}
    table |= {"normal": _axis(contact.normal)} if contact.normal != (0.0, 0.0, 1.0) else {}
    table |= {"height": contact.height} if contact.height else {}
    return table | ({"exponent": contact.exponent} if contact.exponent != 1.0 else {})


def _pose_entry(key: str, pose: Pose) -> Table:
    """Return the entry of a pose, none for that of the identity: a translation, with roll, pitch and yaw where they say the rotation to the
    last digits, or a matrix.
    """
    R = pose.R
    if np.array_equal(R, np.eye(3)):
        return {key: pose.p} if pose.p.any() else {}
    angles = rpy(R)
    exact = np.abs(Pose(rpy=angles).R - R).max() <= 4e-16
    return {key: {"xyz": pose.p, **({"rpy": angles} if exact else {"matrix": R})}}


def _body_table(body: Body, looks: list[Table]) -> Table:
    shaped = _shape_table(body)
    if shaped is not None:
        return {"shape": shaped}
    table: Table = {"mass": body.mass}
    if any(body.com):
        table["com"] = body.com
    if body.inertia.any():
        moments = body.inertia.diagonal()
        table["inertia"] = moments if np.array_equal(np.diag(moments), body.inertia) else body.inertia
    if looks:
        table["geometry"] = looks
    return table


def _shape_table(body: Body) -> Table | None:
    """Return the shape that makes exactly this body, if there is one."""
    if len(body.geometry) != 1 or body.geometry[0].kind not in SIZES:
        return None
    look = body.geometry[0]
    shape = SHAPES[look.kind]
    table = dict(zip(SIZES[look.kind], look.size, strict=False)) | {"mass": body.mass}
    parameters = inspect.signature(shape).parameters
    if "axis" in parameters:
        table["axis"] = _axis(look.axis)
    if "com" in parameters and any(body.com):
        table["com"] = body.com
    try:
        made = shape(**table)
    except (ModelError, TypeError):
        return None
    same = made.com == body.com and np.array_equal(made.inertia, body.inertia) and made.geometry == body.geometry
    return {"type": look.kind, **table} if same else None


def _mesh_folder(look: Geometry, own: str | None, target: str | None) -> Table:
    """Return the folder of a mesh, if it is not that of the file: relative to it, so that both may be moved."""
    folder = look.folder or own
    if look.kind != "mesh" or folder is None or folder == target:
        return {}
    if target is not None and Path(folder).drive == Path(target).drive:
        folder = os.path.relpath(folder, target)
    return {"folder": Path(folder).as_posix()}


def _geometry_table(look: Geometry) -> Table:
    if look.kind not in LOOKS or len(look.size) != len(LOOKS[look.kind]):
        raise ModelError(f"geometry '{look.kind}' of size {look.size} cannot be saved; use one of {', '.join(LOOKS)}")
    table: Table = {"type": look.kind, "size": look.size, "center": look.center, "axis": _axis(look.axis)}
    more = {"rpy": look.rpy if any(look.rpy) else (), "file": look.file, "colour": look.colour}
    return table | {key: value for key, value in more.items() if value}


def _joint_table(joint: Joint) -> Table:
    if isinstance(joint, Driven):
        if not isinstance(joint.function, Harmonic):
            raise ModelError(
                "the motion of a driven joint is Python code, which a file cannot hold; give a ct.Harmonic, or keep the model in Python"
            )
        return {**_joint_table(joint.joint), "motion": joint.function.given()}
    if joint.kind not in JOINT_RECORDS or type(joint) is not JOINTS[joint.kind]:
        raise ModelError(f"a {joint.kind} joint is made of Python code, which a file cannot hold; keep this model in Python")
    plain = type(joint)()
    table: Table = {"type": joint.kind}
    for f in sorted(fields(joint), key=lambda f: f.name in Joint.__dataclass_fields__):  # the joint's own parameters first
        value = getattr(joint, f.name)
        if f.name.startswith("axis"):
            table[f.name] = _axis(value)
        elif value != getattr(plain, f.name):
            table[f.name] = joint.plain(f.name)
            if f.name == "limits":
                pairs = tuple(zip(joint.lower, joint.upper, strict=True))
                table[f.name] = pairs[0] if joint.nq == 1 else pairs
    return table


def _axis(axis: Any) -> Any:
    """Return an axis by its letter where it has one."""
    for letter in ("x", "y", "z", "-x", "-y", "-z"):
        if tuple(axis) == values.direction("axis", letter):
            return letter
    return tuple(axis)
