"""Reads catena's TOML format: builds the model of a file, and says of each error where in the file it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec
import numpy as np

from catena.errors import ModelError
from catena.files import formulas
from catena.files import toml_records as records
from catena.files.body_order import parents_first
from catena.files.toml_records import Table
from catena.files.toml_source import LISTS, Place, Source
from catena.model import values
from catena.model.bodies import Body, Geometry
from catena.model.builder import Builder
from catena.model.closures import CLOSING, check_closing, coefficient
from catena.model.driven import Driven, Harmonic
from catena.model.joints import JOINTS
from catena.model.pose import Pose
from catena.model.wording import choice, short


class Reader(Source):
    """A TOML file on its way to a model."""

    def model(self) -> Builder:
        self.check(self.data, records.FileRecord, ())
        self.data = {"model": {}, **{kind: [] for kind in LISTS}, **self.data}
        head = self.data["model"]
        self.check(head, records.ModelRecord, ("model",))
        model = self.build(("model",), head, Builder, **{key: value for key, value in head.items() if key != "home"})
        tables = self.data["body"]
        for i, table in enumerate(tables):
            self.check(table, records.BodyRecord, ("body", i))
            if "joint" not in table and not any(table["name"] in (other.get("a"), other.get("b")) for other in self.data["connection"]):
                self.fail(("body", i), "key 'joint' is missing; add it, or connect the body in a [[connection]]")
        for i in self._order(tables):
            place: Place = ("body", i)
            table = tables[i]
            joint = self._joint(table["joint"], (*place, "joint"), records.JOINT_RECORDS) if "joint" in table else None
            body = self._body(table, place)
            at, at_body = (self._pose(table.get(key, (0.0, 0.0, 0.0)), (*place, key)) for key in ("at", "at_body"))
            self.build(place, table, model.add, table["name"], body, joint, table.get("parent", "ground"), at, at_body)
        kinds = {
            "frame": self._add_frame, "connection": self._connect, "spring": self._add_spring, "bushing": self._add_bushing,
            "contact": self._add_contact, "loop": self._close, "coupling": self._couple, "actuator": self._add_actuator,
        }  # fmt: skip
        for kind, add in kinds.items():
            for i, table in enumerate(self.data[kind]):
                add(model, table, (kind, i))
            if kind != "frame":
                self._check_connected(model)
        self._tie(model)
        if "home" in head:
            self.build(("model",), head, setattr, model, "home", head["home"])
        for name, q in self.data.get("keyframes", {}).items():
            model.parts.keyframes[name] = self.build(("keyframes", name), {}, model.checked_position, f"keyframe '{name}'", q)
        for body, name in self.data.get("joint_names", {}).items():
            if body not in model.body_names:
                self.fail(("joint_names", body), f"no body is named {short(body)}; {choice(body, model.body_names)}")
            model.parts.joint_names[body] = name
        return model

    def _tie(self, model: Builder) -> None:
        """Add the parameters of the user's own, and let numbers follow them."""
        known = {}
        for name, value in self.data.get("parameters", {}).items():
            known[name] = self.build(("parameters", name), {}, model.parameter, name, value)
        for path, value in self.data.get("ties", {}).items():
            place: Place = ("ties", path)
            if isinstance(value, dict):
                self.fail(place, f'{short(value)} is not a formula; write a path in quotes, such as "arm.mass" = "2 * weight"')
            self.build(place, {}, model.tie, path, self.build(place, {}, formulas.read, value, known))

    def _add_frame(self, model: Builder, table: Table, place: Place) -> None:
        self.check(table, records.FrameRecord, place)
        self._check_place(model, table["body"], (*place, "body"))
        at = self._pose(table.get("at", (0.0, 0.0, 0.0)), (*place, "at"))
        rest = {key: table[key] for key in table if key != "body"}
        self.build(place, rest, model.add_frame, table["name"], table["body"], at)

    def _connect(self, model: Builder, table: Table, place: Place) -> None:
        self.check(table, records.ConnectionRecord, place)
        rest = self._between(model, table, place)
        joint = self._joint(table["joint"], (*place, "joint"), records.CONNECTION_RECORDS)
        at_a, at_b = self._ends(table, place)
        self.build(place, rest, model.connect, table["a"], table["b"], joint, at_a, at_b, table.get("name"))

    def _add_spring(self, model: Builder, table: Table, place: Place) -> None:
        self.check(table, records.SpringRecord, place)
        self.build(place, self._between(model, table, place), model.add_spring, **table)

    def _add_bushing(self, model: Builder, table: Table, place: Place) -> None:
        self.check(table, records.BushingRecord, place)
        rest = self._between(model, table, place)
        at_a, at_b = self._ends(table, place)
        self.build(place, rest, model.add_bushing, **{**table, "at_a": at_a, "at_b": at_b})

    def _add_contact(self, model: Builder, table: Table, place: Place) -> None:
        self.check(table, records.ContactRecord, place)
        names = ("ground", *(body.name for body in model.added))
        for end in ("body", "against"):
            if table.get(end, "ground") not in names:
                self.fail((*place, end), f"no body is named {short(table[end])}; {choice(table[end], names)}")
        shapes = {
            key: tuple(self._geometry(g, (*place, key, i)) for i, g in enumerate(table[key])) for key in ("shape", "against_shape")
            if key in table
        }  # fmt: skip
        self.build(place, table, model.add_contact, **{**table, **shapes})

    def _close(self, model: Builder, table: Table, place: Place) -> None:
        self.check(table, records.LoopRecord, place)
        rest = self._between(model, table, place)
        joint = self._joint(table["joint"], (*place, "joint"), records.CLOSING_RECORDS)
        self.build((*place, "joint"), table["joint"], check_closing, f"loop '{table['name']}'", joint)
        self.build(place, rest, model.close, table["name"], joint, table["a"], table["b"], *self._ends(table, place))

    def _couple(self, model: Builder, table: Table, place: Place) -> None:
        self.check(table, records.CouplingRecord, place)
        self._check_coefficients(model, f"coupling '{table['name']}'", table, place)
        self.build(place, table, model.couple, **table)

    def _add_actuator(self, model: Builder, table: Table, place: Place) -> None:
        self.check(table, records.ActuatorRecord, place)
        self._check_coefficients(model, f"actuator '{table['name']}'", table, place)
        rest = {key: value for key, value in table.items() if key != "coefficients"}
        self.build(place, rest, model.add_actuator, of=table["coefficients"], **rest)

    def _check_coefficients(self, model: Builder, what: str, table: Table, place: Place) -> None:
        """Refuse coefficients that are not numbers, or not of coordinates."""
        for key, value in table["coefficients"].items():
            at = (*place, "coefficients", key)
            if isinstance(value, dict):
                self.fail(at, f'{short(value)} is not a number; write a name that has a dot in quotes, such as "arm.angle" = 1.0')
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                self.fail(at, f"{short(value)} is not a number; give a number")
            if key not in model.q_names:
                self.fail(at, f"no coordinate is named {short(key)}; {choice(key, model.q_names)}")
            self.build(at, {}, coefficient, what, key, value)

    def _between(self, model: Builder, table: Table, place: Place) -> Table:
        """Refuse a table whose a and b are not bodies or frames; return the rest of it."""
        for end in ("a", "b"):
            self._check_place(model, table[end], (*place, end))
        return {key: table[key] for key in table if key not in ("a", "b")}

    def _check_place(self, model: Builder, name: str, place: Place) -> None:
        """Refuse a name that is not that of a body, a frame or the ground."""
        names = ("ground", *(body.name for body in model.added), *(frame.name for frame in model.frames))
        if name not in names:
            self.fail(place, f"no body is named {short(name)}; {choice(name, names)}")

    def _ends(self, table: Table, place: Place) -> tuple[Pose, Pose]:
        at_a, at_b = (self._pose(table.get(end, (0.0, 0.0, 0.0)), (*place, end)) for end in ("at_a", "at_b"))
        return at_a, at_b

    def _check_connected(self, model: Builder) -> None:
        """Refuse connections and loops that do not make a mechanism, at the table that the message begins with."""
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

        def parent(name: str) -> str | None:
            above = tables[index[name]].get("parent", "ground")
            if above == "ground":
                return None
            if above not in index:
                self.fail(("body", index[name], "parent"), f"no body is named {short(above)}; {choice(above, ('ground', *index))}")
            return above

        def refuse(cycle: list[str]) -> NoReturn:
            named = " -> ".join(f"'{name}'" for name in (*cycle, cycle[0]))
            place = ("body", index[cycle[0]], "parent")
            self.fail(place, f"the parents form a cycle, {named}; hang one of them on 'ground' or another body")

        return [index[name] for name in parents_first(index, parent, refuse)]

    def _joint(self, table: Table, place: Place, types: dict[str, type[msgspec.Struct]]) -> Any:
        """Return the joint of a table, one of the given types."""
        if table.get("type") == "custom":
            self.fail((*place, "type"), "a custom joint is made of Python code, which a file cannot hold; build this model in Python")
        if isinstance(table.get("motion"), dict) and types is not records.CLOSING_RECORDS:  # the joint is driven
            motion = table["motion"]
            self.check(motion, records.MotionRecord, (*place, "motion"))
            made = self.build((*place, "motion"), motion, Harmonic, **motion)
            joint = self._joint({key: value for key, value in table.items() if key != "motion"}, place, types)
            return self.build((*place, "motion"), {}, Driven, joint, made)
        what = "closing joint" if types is records.CLOSING_RECORDS else "joint"
        return self._typed(what, table, place, {**JOINTS, **CLOSING}, types)

    def _typed(self, what: str, table: Table, place: Place, makers: Mapping[str, Any], types: dict[str, type[msgspec.Struct]]) -> Any:
        """Return what the table's type makes of its other keys."""
        if "type" not in table:
            self.fail(place, f"key 'type' is missing; {choice('', types)}")
        kind = table["type"]
        if not isinstance(kind, str) or kind not in types:
            self.fail((*place, "type"), f"{short(kind)} is not a {what}; {choice(kind, types)}")
        self.check(table, types[kind], place)
        return self.build(place, table, makers[kind], **{key: value for key, value in table.items() if key != "type"})

    def _body(self, table: Table, place: Place) -> Body:
        given = {key: table[key] for key in ("mass", "com", "inertia", "geometry") if key in table}
        if "shape" in table:
            if given:
                keys = ", ".join(map(repr, given))
                self.fail((*place, "shape"), f"both 'shape' and {keys} are given; a shape says all of these, give one")
            return self._typed("shape", table["shape"], (*place, "shape"), records.SHAPES, records.SHAPE_RECORDS)
        if "mass" not in given:
            self.fail(place, "neither 'mass' nor 'shape' is given; give one of them")
        if "inertia" in given and np.shape(np.array(given["inertia"], dtype=object)) == (3,):
            given["inertia"] = self.build(place, given, lambda: np.diag(values.array("body inertia", given["inertia"], (3,))))
        given["geometry"] = tuple(self._geometry(g, (*place, "geometry", i)) for i, g in enumerate(given.get("geometry", ())))
        return self.build(place, given, Body, **given)

    def _geometry(self, table: Table, place: Place) -> Geometry:
        self.check(table, records.GeometryRecord, place)
        kind = table["type"]
        if kind not in records.LOOKS:
            self.fail((*place, "type"), f"{short(kind)} is not a shape that can be shown; {choice(kind, records.LOOKS)}")

        def make() -> Geometry:
            size = values.array("geometry size", table["size"], (len(records.LOOKS[kind]),)).tolist()
            center, rpy = (values.array(f"geometry {key}", table.get(key, (0.0, 0.0, 0.0)), (3,)).tolist() for key in ("center", "rpy"))
            axis = values.direction("geometry axis", table.get("axis", "z"))
            sizes = tuple(values.number("geometry size", extent, above=None if kind == "mesh" else 0.0) for extent in size)
            colour = values.array("geometry colour", table["colour"], (3,)).tolist() if "colour" in table else None
            if colour is not None and not all(0.0 <= part <= 1.0 for part in colour):
                raise ModelError(f"geometry colour {colour} is not between 0 and 1; give red, green and blue")
            colour = None if colour is None else tuple(colour)
            folder = os.path.join(os.path.dirname(os.path.abspath(self.file)), table["folder"]) if table.get("folder") else None
            folder = folder and os.path.normpath(folder)
            return Geometry(kind, sizes, tuple(center), axis, tuple(rpy), table.get("file", ""), colour, folder)

        return self.build(place, table, make)

    def _pose(self, at: Any, place: Place) -> Pose:
        if isinstance(at, dict):
            self.check(at, records.PoseRecord, place)
            return self.build(place, at, Pose, **at)
        return self.build(place, {}, Pose, at)
