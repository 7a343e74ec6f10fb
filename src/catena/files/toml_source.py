"""A TOML file before it is a model: its tables, checked, and the line of each of their entries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NoReturn

import msgspec

from catena.atomic_files import text_of
from catena.errors import ModelError, ModelFileError
from catena.files.toml_records import Table
from catena.model.wording import choice, placed_warnings, short

Place = tuple[str | int, ...]  # such as ("body", 2, "joint", "axis")

#: How deep tables may be nested, and what the header or key of a table nested deeper looks like.
DEPTH = 100
_DEEP = re.compile(rf"""(?<![\w-])((?:[\w-]+|"[^".]*"|'[^'.]*')\s*\.\s*){{{DEPTH}}}""")

#: The arrays of tables that have names.
LISTS = ("body", "frame", "connection", "spring", "bushing", "contact", "loop", "coupling", "actuator")

_WORDS = {"float": "a number", "int": "a number", "str": "a string", "object": "a table", "array": "an array"}


class Source:
    """The tables of a file; what is wrong with one of them is an error with file, line and place."""

    def __init__(self, file: str, content: bytes) -> None:
        self.file = file
        text = text_of(content, file, ModelFileError)
        self.lines = text.split("\n")
        for i, line in enumerate(self.lines):  # a table within thousands of others would take the parser long
            if line.count(".") > DEPTH and _DEEP.search(line):
                raise ModelFileError(f"{self.file}:{i + 1}: tables are nested too deeply; flatten them")
        self.data = self._decoded(text)

    def _decoded(self, text: str) -> Table:
        try:
            return msgspec.toml.decode(text)
        except msgspec.DecodeError as error:
            # the parser says where in brackets: (at line 3, column 5) or (at end of document)
            what, _, where = str(error).rstrip(")").rpartition(" (at ")
            position = re.match(r"line (\d+), column (\d+)", where)
            line = int(position[1]) if position else len("\n".join(self.lines).rstrip().split("\n"))
            column = f" at column {position[2]}" if position else ""
            raise ModelFileError(f"{self.file}:{line}: not TOML{column}: {what or error}; correct the line") from None
        except ValueError:  # Python refuses to convert an integer of thousands of digits
            raise ModelFileError(f"{self.file}: holds an integer with too many digits; write it as a decimal number") from None

    def fail(self, place: Place, message: str) -> NoReturn:
        raise ModelFileError(f"{self.where(place)}: {message}")

    def where(self, place: Place) -> str:
        """Return file, line and path of a place, such as `arm.toml:12: body[2].joint.axis of 'elbow'`."""
        line = self._line(place)
        where = f"{self.file}:{line}" if line else self.file
        if not place:
            return where
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")
        table = self.data[place[0]][place[1]] if place[0] in LISTS and place[1:] else None
        name = f" of '{table['name']}'" if isinstance(table, dict) and isinstance(table.get("name"), str) else ""
        return f"{where}: {path}{name}"

    def _line(self, place: Place) -> int | None:
        """Return the line of a place, counted from 1, where every table has a header of its own."""
        if not place:
            return None
        first, *rest = place
        at, end = 0, len(self.lines)
        if first in LISTS and rest:
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
        matches = [(i, re.match(r"\s*\[\[\s*(\w+)\s*\]\]", line)) for i, line in enumerate(self.lines)]
        return [(i, head[1]) for i, head in matches if head and head[1] in LISTS]

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
        """Return `make(...)`; its warnings and errors are repeated with file and place."""
        try:
            with placed_warnings(lambda: self.where(place)):
                return make(*positional, **named)
        except ModelError as error:
            text = f" {error} "
            named_first = min((key for key in table if f" {key} " in text), key=lambda key: text.index(f" {key} "), default=None)
            self.fail(place if named_first is None else (*place, named_first), str(error))


def _leaves(value: Any) -> Iterator[tuple[Place, Any]]:
    """Yield what tables and arrays are made of, each with its place in them."""
    if isinstance(value, (dict, list)):
        for step, entry in value.items() if isinstance(value, dict) else enumerate(value):
            for steps, leaf in _leaves(entry):
                yield (step, *steps), leaf
    else:
        yield (), value
