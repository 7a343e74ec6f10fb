"""Reads catena's TOML format: checks every table, builds the model, and says of each error where in the file it is.

What a file may say of a joint or a shape is read off the classes and functions themselves, so that a new one needs no line here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any, NoReturn

import msgspec
import numpy as np

from catena.errors import ModelError, ModelFileError
from catena.model import values
from catena.model.bodies import Body, Geometry, box, cylinder, point_mass, rod, sphere
from catena.model.driven import Driven, Harmonic
from catena.model.joints import JOINTS, Custom, Joint
from catena.model.loops import CLOSING, Distance, check_closing, coefficient
from catena.model.model import Model
from catena.model.pose import Pose
from catena.model.wording import choice, placed_warnings, short

Vector = list[float]
Numbers = float | list[float]
Axis = str | list[float]
Table = dict[str, Any]
Place = tuple[str | int, ...]  # such as ("body", 2, "joint", "axis")


class _Record(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a table of a file may hold; other keys are errors."""


class _FileRecord(_Record):
    model: Table = msgspec.field(default_factory=dict)
    body: list[Table] = msgspec.field(default_factory=list)
    connection: list[Table] = msgspec.field(default_factory=list)
    spring: list[Table] = msgspec.field(default_factory=list)
    loop: list[Table] = msgspec.field(default_factory=list)
    coupling: list[Table] = msgspec.field(default_factory=list)


class _ModelRecord(_Record):
    name: str = "model"
    gravity: Vector = msgspec.field(default_factory=list)
    friction_speed: float = 0.0
    home: Vector = msgspec.field(default_factory=list)


class _BodyRecord(_Record):
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


class _SpringRecord(_Record):
    name: str
    a: str
    b: str
    stiffness: float
    damping: float = 0.0
    length: float = 0.0
    at_a: Vector = msgspec.field(default_factory=list)
    at_b: Vector = msgspec.field(default_factory=list)


class _LoopRecord(_Record):
    name: str
    joint: Table
    a: str
    b: str
    at_a: Vector | Table = msgspec.field(default_factory=list)
    at_b: Vector | Table = msgspec.field(default_factory=list)


class _ConnectionRecord(_LoopRecord, kw_only=True):
    name: str = ""


class _CouplingRecord(_Record):
    name: str
    coefficients: Table
    offset: float = 0.0


class _PoseRecord(_Record):
    xyz: Vector = msgspec.field(default_factory=list)
    rpy: Vector = msgspec.field(default_factory=list)
    quat: Vector = msgspec.field(default_factory=list)
    matrix: list[Vector] = msgspec.field(default_factory=list)


class _MotionRecord(_Record):
    offset: Numbers = 0.0
    rate: Numbers = 0.0
    amplitude: Numbers = 0.0
    frequency: Numbers = 0.0
    phase: Numbers = 0.0


class _GeometryRecord(_Record):
    type: str
    size: Vector
    center: Vector = msgspec.field(default_factory=list)
    axis: Axis = ""
    rpy: Vector = msgspec.field(default_factory=list)
    file: str = ""
    colour: Vector = msgspec.field(default_factory=list)


#: Types of the parameters of joints and shapes that are not one number.
_TYPES: dict[str, Any] = {
    "axis": Axis, "axis1": Axis, "axis2": Axis, "com": Vector, "at": Vector, **{option.name: Numbers for option in fields(Joint)},
    "limits": list[float | list[float]],
}  # fmt: skip

#: The shapes that make bodies, and of those that can be looked at the parameters that are their sizes.
SHAPES: dict[str, Callable[..., Body]] = {f.__name__: f for f in (rod, box, cylinder, sphere, point_mass)}
SIZES = {"rod": ("length",), "box": ("x", "y", "z"), "cylinder": ("length", "radius"), "sphere": ("radius",)}

#: The sizes of everything that can be looked at.
LOOKS = {**SIZES, "capsule": ("length", "radius"), "ellipsoid": ("x", "y", "z"), "mesh": ("x", "y", "z")}


def _record(function: Callable[..., Any]) -> type[msgspec.Struct]:
    """Return the record of a table that holds a function's parameters and its name as `type`."""
    entries: list[Any] = [("type", str)]
    for name, parameter in inspect.signature(function).parameters.items():
        entry = (name, _TYPES.get(name, float))
        entries.append(entry if parameter.default is parameter.empty else (*entry, msgspec.UNSET))
    return msgspec.defstruct(function.__name__, entries, bases=(_Record,), forbid_unknown_fields=True, kw_only=True)


#: What the table of a joint or of a shape may hold, by its type.
JOINT_RECORDS = {kind: _record(joint) for kind, joint in JOINTS.items() if joint is not Custom}
CONNECTION_RECORDS = {**JOINT_RECORDS, "distance": _record(Distance)}
CLOSING_RECORDS = {kind: record for kind, record in CONNECTION_RECORDS.items() if kind in CLOSING}
SHAPE_RECORDS = {kind: _record(shape) for kind, shape in SHAPES.items()}

#: How deep tables may be nested, and what the header or key of a table nested deeper looks like.
DEPTH = 100
_DEEP = re.compile(rf"""(?<![\w-])((?:[\w-]+|"[^".]*"|'[^'.]*')\s*\.\s*){{{DEPTH}}}""")

#: The arrays of tables that have names.
_LISTS = ("body", "connection", "spring", "loop", "coupling")

_WORDS = {"float": "a number", "int": "a number", "str": "a string", "object": "a table", "array": "an array"}


class Source:
    """The text of a file, and where in it things stand."""

    def __init__(self, file: str, content: bytes) -> None:
        self.file = file
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise ModelFileError(f"{file}:{line}: byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8") from None
        self.lines = text.split("\n")
        self._check_depth()
        self.data = self._decoded(text)

    def _check_depth(self) -> None:
        """Refuse a table within thousands of others, which would take the parser long."""
        for i, line in enumerate(self.lines):
            if line.count(".") > DEPTH and _DEEP.search(line):
                raise ModelFileError(f"{self.file}:{i + 1}: tables are nested too deeply; flatten them")

    def _decoded(self, text: str) -> Table:
        try:
            return msgspec.toml.decode(text)
        except msgspec.DecodeError as error:
            # the parser says where in brackets: (at line 3, column 5) or (at end of document)
            what, _, where = str(error).rstrip(")").rpartition(" (at ")
            found = re.match(r"line (\d+), column (\d+)", where)
            line = int(found[1]) if found else len("\n".join(self.lines).rstrip().split("\n"))
            column = f" at column {found[2]}" if found else ""
            raise ModelFileError(f"{self.file}:{line}: not TOML{column}: {what or error}; correct the line") from None
        except ValueError:  # Python refuses to convert an integer of thousands of digits
            raise ModelFileError(f"{self.file}: holds an integer with too many digits; write it as a decimal number") from None

    def fail(self, place: Place, message: str) -> NoReturn:
        """Raise the error of something at a place."""
        raise ModelFileError(f"{self.where(place)}: {message}")

    def where(self, place: Place) -> str:
        """Return file, line and path of a place, such as `arm.toml:12: body[2].joint.axis of 'elbow'`."""
        line = self._line(place)
        where = f"{self.file}:{line}" if line else self.file
        if not place:
            return where
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")
        table = self.data[place[0]][place[1]] if place[0] in _LISTS and place[1:] else None
        name = f" of '{table['name']}'" if isinstance(table, dict) and isinstance(table.get("name"), str) else ""
        return f"{where}: {path}{name}"

    def _line(self, place: Place) -> int | None:
        """Return the line of a place, counted from 1, where the file is laid out in tables as usual."""
        if not place:
            return None
        first, *rest = place
        at, end = 0, len(self.lines)
        if first in _LISTS and rest:
            index = rest.pop(0)
            heads = [i for i, (_, kind) in enumerate(self._heads) if kind == first]
            if len(heads) != len(self.data[first]) or not isinstance(index, int):
                return None
            at, end = (*(line for line, _ in self._heads[heads[index] :][:2]), end)[:2]
        else:
            rest.insert(0, first)
        for step in rest:
            if isinstance(step, str):
                key = re.compile(rf"""([^#]*[\s{{,.\[])?["']?{re.escape(step)}["']?\s*[=.\]]""")
                at = next((i for i in range(at, end) if key.match(self.lines[i])), at)
        return at + 1

    @cached_property
    def _heads(self) -> list[tuple[int, str]]:
        """The lines at which the tables of bodies, springs and the like begin, and of which of them."""
        found = [(i, re.match(r"\s*\[\[\s*(\w+)\s*\]\]", line)) for i, line in enumerate(self.lines)]
        return [(i, head[1]) for i, head in found if head and head[1] in _LISTS]

    def check(self, table: Table, record: type[msgspec.Struct], place: Place) -> None:
        """Refuse a table with missing or unknown keys, or values of the wrong kind."""
        for steps, leaf in _leaves(table):
            if isinstance(leaf, int) and not -(2**63) <= leaf < 2**63:
                self.fail((*place, *steps), f"{short(leaf)} has more than 64 bits; write it as a decimal number, such as 1e20")
        try:
            msgspec.convert(table, record)
        except msgspec.ValidationError as error:
            message, _, path = str(error).partition(" - at `$")
            steps = tuple(int(index) if index else key for key, index in re.findall(r"\.(\w+)|\[(\d+)\]", path))
            known = record.__struct_fields__
            if missing := re.fullmatch(r"Object missing required field `(.*)`", message):
                self.fail(place, f"key '{missing[1]}' is missing; add it")
            if not steps and "unknown field" in message:
                key = next(key for key in table if key not in known)
                self.fail((*place, key), f"unknown key; {choice(key, known)}")
            value: Any = table
            for step in steps:
                value = value[step]
            if expected := re.fullmatch(r"Expected `(.*)`, got `.*`", message):
                kinds = " or ".join(dict.fromkeys(_WORDS.get(kind, kind) for kind in expected[1].split(" | ")))
                self.fail((*place, *steps), f"{short(value)} is not {kinds}; give {kinds}")
            self.fail((*place, *steps), f"{short(value)}: {message[:1].lower()}{message[1:]}; correct the value")

    def build(self, place: Place, table: Mapping[str, Any], make: Callable[..., Any], *positional: Any, **named: Any) -> Any:
        """Return `make(...)`; what it says of a value is said again with file and place."""
        try:
            with placed_warnings(lambda: self.where(place)):
                return make(*positional, **named)
        except ModelError as error:
            text = f" {error} "
            named_first = min((key for key in table if f" {key} " in text), key=lambda key: text.index(f" {key} "), default=None)
            self.fail(place if named_first is None else (*place, named_first), str(error))

    def model(self) -> Model:
        """Return the model of the file."""
        self.check(self.data, _FileRecord, ())
        self.data = {"model": {}, **{kind: [] for kind in _LISTS}, **self.data}
        head = self.data["model"]
        self.check(head, _ModelRecord, ("model",))
        model = self.build(("model",), head, Model, **{key: value for key, value in head.items() if key != "home"})
        tables = self.data["body"]
        for i, table in enumerate(tables):
            self.check(table, _BodyRecord, ("body", i))
            if "joint" not in table and not any(table["name"] in (other.get("a"), other.get("b")) for other in self.data["connection"]):
                self.fail(("body", i), "key 'joint' is missing; add it, or connect the body in a [[connection]]")
        for i in self._order(tables):
            place: Place = ("body", i)
            table = tables[i]
            joint = self._joint(table["joint"], (*place, "joint"), JOINT_RECORDS) if "joint" in table else None
            body = self._body(table, place)
            at, at_body = (self._pose(table.get(key, (0.0, 0.0, 0.0)), (*place, key)) for key in ("at", "at_body"))
            self.build(place, table, model.add, table["name"], body, joint, table.get("parent", "ground"), at, at_body)
        for kind, add in (("connection", self._connect), ("spring", self._add_spring), ("loop", self._close), ("coupling", self._couple)):
            for i, table in enumerate(self.data[kind]):
                add(model, table, (kind, i))
            self._hang(model)
        if "home" in head:
            self.build(("model",), head, setattr, model, "home", head["home"])
        return model

    def _connect(self, model: Model, table: Table, place: Place) -> None:
        self.check(table, _ConnectionRecord, place)
        rest = self._between(model, table, place)
        joint = self._joint(table["joint"], (*place, "joint"), CONNECTION_RECORDS)
        at_a, at_b = self._ends(table, place)
        self.build(place, rest, model.connect, table["a"], table["b"], joint, at_a, at_b, table.get("name"))

    def _add_spring(self, model: Model, table: Table, place: Place) -> None:
        self.check(table, _SpringRecord, place)
        self.build(place, self._between(model, table, place), model.add_spring, **table)

    def _close(self, model: Model, table: Table, place: Place) -> None:
        self.check(table, _LoopRecord, place)
        rest = self._between(model, table, place)
        joint = self._joint(table["joint"], (*place, "joint"), CLOSING_RECORDS)
        self.build((*place, "joint"), table["joint"], check_closing, f"loop '{table['name']}'", joint)
        self.build(place, rest, model.close, table["name"], joint, table["a"], table["b"], *self._ends(table, place))

    def _couple(self, model: Model, table: Table, place: Place) -> None:
        self.check(table, _CouplingRecord, place)
        for key, value in table["coefficients"].items():
            at = (*place, "coefficients", key)
            if isinstance(value, dict):
                self.fail(at, f"{short(value)} is not a number; write a name that has a dot in quotes, such as \"arm.angle\" = 1.0")
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                self.fail(at, f"{short(value)} is not a number; give a number")
            if key not in model.q_names:
                self.fail(at, f"no coordinate is named {short(key)}; {choice(key, model.q_names)}")
            self.build(at, {}, coefficient, f"coupling '{table['name']}'", key, value)
        self.build(place, table, model.couple, **table)

    def _between(self, model: Model, table: Table, place: Place) -> Table:
        """Refuse a table whose a and b are not bodies; return the rest of it."""
        names = ("ground", *(body.name for body in model.added))
        for end in ("a", "b"):
            if table[end] not in names:
                self.fail((*place, end), f"no body is named {short(table[end])}; {choice(table[end], names)}")
        return {key: table[key] for key in table if key not in ("a", "b")}

    def _ends(self, table: Table, place: Place) -> tuple[Pose, Pose]:
        at_a, at_b = (self._pose(table.get(end, (0.0, 0.0, 0.0)), (*place, end)) for end in ("at_a", "at_b"))
        return at_a, at_b

    def _hang(self, model: Model) -> None:
        """Refuse connections and loops that make no mechanism, at the table that the message begins with."""
        try:
            model.loops  # noqa: B018
        except ModelError as error:
            about = str(error).partition(":")[0]
            for kind in ("connection", "loop", "body"):
                for i, table in enumerate(self.data[kind]):
                    name = table.get("name", f"{table.get('a')}-{table.get('b')}")
                    if f"'{name}'" in about:
                        self.fail((kind, i), str(error))
            self.fail((), str(error))

    def _order(self, tables: list[Table]) -> list[int]:
        """Return the bodies in the order of the file, but a parent that stands further down comes right before its first child."""
        index: dict[str, int] = {}
        for i, table in enumerate(tables):
            if index.setdefault(table["name"], i) != i:
                self.fail(("body", i, "name"), f"body[{index[table['name']]}] has this name already; give each body its own name")
        order: dict[int, None] = {}
        for i in range(len(tables)):
            path: dict[int, None] = {}
            k = i
            while k not in order:
                if k in path:
                    names = [tables[j]["name"] for j in path]
                    cycle = " -> ".join(f"'{name}'" for name in (*names[names.index(tables[k]["name"]) :], tables[k]["name"]))
                    self.fail(("body", k, "parent"), f"the parents form a cycle, {cycle}; hang one of them on 'ground' or another body")
                path[k] = None
                parent = tables[k].get("parent", "ground")
                if parent == "ground":
                    break
                if parent not in index:
                    self.fail(("body", k, "parent"), f"no body is named {short(parent)}; {choice(parent, ('ground', *index))}")
                k = index[parent]
            order.update(dict.fromkeys(reversed(path)))
        return list(order)

    def _joint(self, table: Table, place: Place, records: dict[str, type[msgspec.Struct]]) -> Any:
        """Return the joint of a table, one of those that the records tell of."""
        if table.get("type") == "custom":
            self.fail((*place, "type"), "a custom joint is made of Python code, which a file cannot hold; build this model in Python")
        if isinstance(table.get("motion"), dict) and records is not CLOSING_RECORDS:  # the joint is driven
            motion = table["motion"]
            self.check(motion, _MotionRecord, (*place, "motion"))
            made = self.build((*place, "motion"), motion, Harmonic, **motion)
            joint = self._joint({key: value for key, value in table.items() if key != "motion"}, place, records)
            return self.build((*place, "motion"), {}, Driven, joint, made)
        return self._typed("joint" if records is not CLOSING_RECORDS else "closing joint", table, place, {**JOINTS, **CLOSING}, records)

    def _typed(self, what: str, table: Table, place: Place, makers: Mapping[str, Any], records: dict[str, type[msgspec.Struct]]) -> Any:
        """Return what the table's type makes of its other keys."""
        if "type" not in table:
            self.fail(place, f"key 'type' is missing; {choice('', records)}")
        kind = table["type"]
        if not isinstance(kind, str) or kind not in records:
            self.fail((*place, "type"), f"{short(kind)} is no {what}; {choice(kind, records)}")
        self.check(table, records[kind], place)
        return self.build(place, table, makers[kind], **{key: value for key, value in table.items() if key != "type"})

    def _body(self, table: Table, place: Place) -> Body:
        own = {key: table[key] for key in ("mass", "com", "inertia", "geometry") if key in table}
        if "shape" in table:
            if own:
                self.fail((*place, "shape"), f"both 'shape' and {', '.join(map(repr, own))} are given; a shape says all of these, give one")
            return self._typed("shape", table["shape"], (*place, "shape"), SHAPES, SHAPE_RECORDS)
        if "mass" not in own:
            self.fail(place, "neither 'mass' nor 'shape' is given; give one of them")
        if "inertia" in own and np.shape(np.array(own["inertia"], dtype=object)) == (3,):
            own["inertia"] = self.build(place, own, lambda: np.diag(values.array("body inertia", own["inertia"], (3,))))
        own["geometry"] = tuple(self._geometry(g, (*place, "geometry", i)) for i, g in enumerate(own.get("geometry", ())))
        return self.build(place, own, Body, **own)

    def _geometry(self, table: Table, place: Place) -> Geometry:
        self.check(table, _GeometryRecord, place)
        kind = table["type"]
        if kind not in LOOKS:
            self.fail((*place, "type"), f"{short(kind)} is no shape to look at; {choice(kind, LOOKS)}")

        def make() -> Geometry:
            size = values.array("geometry size", table["size"], (len(LOOKS[kind]),)).tolist()
            center, rpy = (values.array(f"geometry {key}", table.get(key, (0.0, 0.0, 0.0)), (3,)).tolist() for key in ("center", "rpy"))
            axis = values.direction("geometry axis", table.get("axis", "z"))
            sizes = tuple(values.number("geometry size", extent, above=None if kind == "mesh" else 0.0) for extent in size)
            colour = values.array("geometry colour", table["colour"], (3,)).tolist() if "colour" in table else None
            if colour is not None and not all(0.0 <= part <= 1.0 for part in colour):
                raise ModelError(f"geometry colour {colour} is not between 0 and 1; give red, green and blue")
            return Geometry(kind, sizes, tuple(center), axis, tuple(rpy), table.get("file", ""), None if colour is None else tuple(colour))

        return self.build(place, table, make)

    def _pose(self, at: Any, place: Place) -> Pose:
        if isinstance(at, dict):
            self.check(at, _PoseRecord, place)
            return self.build(place, at, Pose, **at)
        return self.build(place, {}, Pose, at)


def _leaves(value: Any) -> Iterator[tuple[Place, Any]]:
    """Yield what tables and arrays are made of, each with its place in them."""
    if isinstance(value, (dict, list)):
        for step, entry in value.items() if isinstance(value, dict) else enumerate(value):
            for steps, leaf in _leaves(entry):
                yield (step, *steps), leaf
    else:
        yield (), value
