"""An MJCF file with those that it includes as one text, and the content of the other files that it names: MuJoCo itself opens no file.

Textures and skins are left out: they change no motion and no shape, and may take memory far beyond the size of their files. Each element
has a line of its own, by which MuJoCo's errors lead to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from pathlib import Path

from catena.errors import MeshError
from catena.files import mesh_files, xml_reader
from catena.files.xml_reader import DEPTH, Element
from catena.model.wording import short

#: How deep files may include others, and how large each may be [bytes].
INCLUDES, LIMIT = 8, 64 * 2**20

#: How many times one thing may be repeated, and how many points a height field may have.
REPEATED, POINTS = 10_000, 10**7

#: The most memory [bytes] that a file may reserve, and the largest number in other attributes of <size>.
MEMORY, SIZE = 2**30, 10**6

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50, "e": 2**60}

#: Tags, and attributes by their tags, that are left out; folders of files are followed here.
_TAGS = ("texture", "skin", "layer")
_ATTRIBUTES = {"material": ("texture",), "light": ("texture",), "compiler": ("assetdir", "meshdir", "texturedir", "strippath")}

#: Attributes that are names of things, or files; others are numbers and words of MuJoCo.
_NAMES = (
    "name", "class", "childclass", "model", "file", "prefix", "joint", "joint1", "joint2", "body", "body1", "body2", "geom", "geom1",
    "geom2", "site", "site1", "site2", "tendon", "tendon1", "tendon2", "actuator", "mesh", "material", "hfield", "texture", "target",
    "objname", "refname", "cranksite", "slidersite", "refsite", "jointinparent", "bodyname", "sidesite",
)  # fmt: skip


class Text:
    """The `text` that MuJoCo compiles, its `elements` by their lines, and the `assets` by their names in it.

    `paths` are the paths of the assets, as seen from the folder of the file. Files are opened where meshes of a model file in the folder
    `home` may be.
    """

    def __init__(self, root: Element, home: Path | None = None, depth: int = 0) -> None:
        self.root, self.here, self._depth = root, Path(root.file).absolute().parent, depth
        self._home = home or self.here
        self._include(root, depth, 1, {Path(os.path.realpath(root.file))})
        self._compiler = {key: said for part in root if part.tag == "compiler" for key, said in part.attributes.items()}
        if "assetdir" in self._compiler:
            self._compiler.setdefault("meshdir", self._compiler["assetdir"])
        self.elements: list[Element] = []
        self.assets: dict[str, bytes] = {}
        self.paths: dict[str, str] = {}
        self.text = "".join(self._written(root))

    def _include(self, element: Element, depth: int, level: int, taken: set[Path]) -> None:
        """Put the elements of files in place of those that include them."""
        if level > DEPTH:
            element.fail(f"elements are nested more than {DEPTH} deep; flatten them")
        children: list[Element] = []
        for child in element:
            if child.tag != "include":
                self._include(child, depth, level + 1, taken)
                children.append(child)
                continue
            if depth >= INCLUDES:
                child.fail(f"files include each other more than {INCLUDES} deep; put them in one")
            file = self._file(child, child.word("file"), self.here)
            if file in taken:
                name = short(child.attributes["file"])
                child.fail(f"file {name} is part of the model already, and MuJoCo takes each file once; remove this <include>")
            taken.add(file)
            part = xml_reader.parsed(_content(child, file), str(file))
            self._include(part, depth + 1, level, taken)
            for inner in part:
                inner.parent = element
            children += part.children
        element.children = children

    def _file(self, element: Element, name: str, folder: Path) -> Path:
        """Return the file of a name in a folder, or near the file in which the element stands."""
        name = name.replace("\\", "/")
        try:
            return mesh_files.allowed(f"file {short(name)}", [folder / name, Path(element.file).absolute().parent / name], self._home)
        except MeshError as error:
            element.fail(str(error))

    def _written(self, element: Element) -> Iterator[str]:
        """Yield the text of an element, in which each has a line of its own."""
        self.elements.append(element)
        _check_sizes(element)
        _check_numbers(element)
        given = {key: said for key, said in element.attributes.items() if key not in _ATTRIBUTES.get(element.tag, ())}
        if "file" in given:
            given |= self._named(element, given)
        attributes = "".join(f' {key}="{_quoted(said)}"' for key, said in given.items())
        yield f"<{element.tag}{attributes}>\n"
        for child in element:
            if child.tag not in _TAGS:
                yield from self._written(child)
        yield f"</{element.tag}>"

    def _named(self, element: Element, given: dict[str, str]) -> dict[str, str]:
        """Take in the file that an element names, and return its attributes as they stand in the text."""
        name = element.word("file").replace("\\", "/")
        if self._compiler.get("strippath") == "true":
            name = name.rpartition("/")[2]
        if element.tag == "model":
            file = self._file(element, name, self.here)
            content, called = self._model(element, file), {}
        else:
            file = self._file(element, name, self.here / self._compiler.get("meshdir", "").replace("\\", "/"))
            content, called = _content(element, file), {"name": Path(name).stem}
            if content.startswith(b"\x89PNG") and int.from_bytes(content[16:20], "big") * int.from_bytes(content[20:24], "big") > POINTS:
                element.fail(f"file {short(name)} has more than {POINTS:,} points; give a smaller picture")
        key = sha256(content).hexdigest()[:32] + file.suffix  # by its content, for MuJoCo keeps assets by their names
        self.assets[key], self.paths[key] = content, _seen_from(file, self._home)
        return {**called, **given, "file": key}

    def _model(self, element: Element, file: Path) -> bytes:
        """Return the text of a model within the model, whose assets are taken in."""
        if self._depth >= INCLUDES:
            element.fail(f"files include each other more than {INCLUDES} deep; put them in one")
        inner = Text(xml_reader.parsed(_content(element, file), str(file)), self._home, self._depth + 1)
        self.assets |= inner.assets
        self.paths |= inner.paths
        return inner.text.encode()


def _quoted(text: str) -> str:
    return escape(text).replace("\n", "&#10;").replace("\r", "&#13;")


def _content(element: Element, file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            content = stream.read(LIMIT + 1)
    except OSError as error:
        element.fail(f"{short(str(file))} cannot be read: {error.strerror}")
    if len(content) > LIMIT:
        element.fail(f"{short(str(file))} holds more than {LIMIT >> 20} MiB; give a smaller file")
    return content


def _seen_from(file: Path, folder: Path) -> str:
    """Return the path of a file relative to a folder, so that both may be moved; as it is where they are on two drives."""
    real = Path(os.path.realpath(folder))
    return Path(os.path.relpath(file, real)).as_posix() if file.drive == real.drive else file.as_posix()


def _check_sizes(element: Element) -> None:
    """Refuse sizes that would take the compiler very long, or very much memory."""
    for key in ("count", "nrow", "ncol", *(element.attributes if element.tag == "size" else ())):
        text = element.attributes.get(key)
        if text is None:
            continue
        number = re.match(r"\s*(\d+)\s*([kmgtpe]?)", text.lower())
        if key == "memory":
            if number and int(number[1][:20]) * _UNITS[number[2]] > MEMORY:
                element.fail(f"memory {short(text)} is more than {MEMORY >> 30} GiB; give less, or leave it out")
            continue
        most, product = SIZE if element.tag == "size" else REPEATED, 1
        for word in re.findall(r"\d+", text)[:4]:
            product *= max(1, int(word[:20]))
        if product > most:
            element.fail(f"{key} {short(text)} is more than {most:,}; give less")


def _check_numbers(element: Element) -> None:
    """Refuse numbers that are none, with which MuJoCo may compile without end."""
    for key, text in element.attributes.items():
        if key not in _NAMES and re.search(r"(?i)(^|\s)[+-]?nan(\s|$)", text):
            element.fail(f"{key} {short(text)} is not a number; give finite numbers")
