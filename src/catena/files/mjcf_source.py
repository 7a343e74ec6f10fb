"""An MJCF file before it is a model: its elements with their lines, checked before MuJoCo compiles it, and MuJoCo's model."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from catena.errors import ModelFileError, optional_package
from catena.files import xml_reader
from catena.files.xml_reader import Element
from catena.model.wording import short, unused

#: How deep files may include others, how large each may be [bytes], and how many times one thing may be repeated.
INCLUDES, LIMIT, REPEATED = 8, 64 * 2**20, 10_000

#: The most memory [bytes] that a file may reserve, and the largest number in other attributes of <size>.
MEMORY, SIZE = 2**30, 10**6

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50, "e": 2**60}


class Source:
    """The elements of an MJCF file, and MuJoCo's model of it."""

    def __init__(self, root: Element, ignore: Collection[str]) -> None:
        if root.tag != "mujoco":
            root.fail(f"the file begins with <{root.tag}>; an MJCF file begins with <mujoco>, a URDF file with <robot>")
        self.root, self.ignore = root, ignore
        self.elements = [element for part in self._parts(root, 0) for element in part.all()]
        self._check_sizes()
        self._listed: dict[str, list[Element]] = {}
        self._named: dict[tuple[str, str], Element] = {}
        for element in self.elements:
            if _in_model(element):
                self._listed.setdefault(element.tag, []).append(element)
                self._named.setdefault((element.tag, element.name or ""), element)
        self.library = optional_package("mujoco", f"{root.file}: reading MJCF needs MuJoCo", 'pip install "catena[files]"')
        self.warned: list[str] = []
        self.compiled = self._compiled()
        self.joint_kinds, self.equality_kinds, self.objects, self.geom_kinds = self.enums("Joint", "Eq", "Obj", "Geom")
        self.names = self._body_names()

    def enums(self, *names: str) -> list[SimpleNamespace]:
        """Return enumerations of MuJoCo, such as "Gain", as numbers by the names of their members."""
        return [_numbers(getattr(self.library, f"mjt{name}")) for name in names]

    def disabled(self, flag: str) -> bool:
        """Return whether the file switches something off, by the name that MuJoCo has for it."""
        bits = vars(_numbers(self.library.mjtDisableBit))
        names = (flag.lower(), "passive") if flag in ("SPRING", "DAMPER") else (flag.lower(),)  # older versions switch both off at once
        return any(self.compiled.opt.disableflags & bits[name] for name in names if name in bits)

    def element(self, tags: Collection[str], name: str | None = None, index: int = 0) -> Element:
        """Return the element of a thing, by its name or its number among its kind, or the root where it is not found."""
        if name:
            return next((self._named[tag, name] for tag in tags if (tag, name) in self._named), self.root)
        listed = self._listed.get(next(iter(tags)), []) if len(tags) == 1 else [e for e in self.elements if e.tag in tags and _in_model(e)]
        return listed[index] if index < len(listed) else self.root

    def _parts(self, root: Element, depth: int) -> Iterator[Element]:
        """Yield the root of a file and of those that it includes, which must be ordinary files of limited size."""
        yield root
        for element in root.all():
            for key in ("file", "meshdir", "texturedir", "assetdir"):
                if key in element.attributes and "\0" in element.attributes[key]:
                    element.fail(f"{key} {short(element.attributes[key])} is not a path; give one")
            if "file" not in element.attributes:
                continue
            for folder in self._folders(element.tag):
                file = folder / element.attributes["file"]
                try:
                    if file.exists() and not file.is_file():
                        element.fail(f"{short(str(file))} is not an ordinary file; give one")
                except OSError:
                    element.fail(f"file {short(element.attributes['file'])} is not a path that the system takes; give one")
                if element.tag == "include" and file.is_file():
                    yield from self._included(element, file, depth)
                    break

    def _included(self, element: Element, file: Path, depth: int) -> Iterator[Element]:
        if depth >= INCLUDES:
            element.fail(f"files include each other more than {INCLUDES} deep; put them in one")
        try:
            with file.open("rb") as stream:
                content = stream.read(LIMIT + 1)
        except OSError as error:
            element.fail(f"{short(str(file))} cannot be read: {error.strerror}")
        if len(content) > LIMIT:
            element.fail(f"{short(str(file))} holds more than {LIMIT >> 20} MiB; give a smaller file")
        yield from self._parts(xml_reader.parsed(content, str(file)), depth + 1)

    def _folders(self, tag: str) -> list[Path]:
        here = Path(self.root.file).parent
        compilers = [element.attributes for element in self.root if element.tag == "compiler"]
        dirs = [given[key] for given in compilers for key in ("meshdir", "texturedir", "assetdir") if key in given]
        return [here] if tag == "include" else [here, *(here / folder for folder in dirs)]

    def _check_sizes(self) -> None:
        """Refuse sizes that would take the compiler very long, or very much memory."""
        for element in self.elements:
            for key in ("count", "nrow", "ncol", "width", "height", *(element.attributes if element.tag == "size" else ())):
                text = element.attributes.get(key)
                if text is None:
                    continue
                most = SIZE if element.tag == "size" else REPEATED
                number = re.match(r"\s*(\d+)\s*([kmgtpe]?)", text.lower())
                if key == "memory":
                    if number and int(number[1][:20]) * _UNITS[number[2]] > MEMORY:
                        element.fail(f"memory {short(text)} is more than {MEMORY >> 30} GiB; give less, or leave it out")
                    continue
                product = 1
                for word in re.findall(r"\d+", text)[:4]:
                    product *= max(1, int(word[:20]))
                if product > most:
                    element.fail(f"{key} {short(text)} is more than {most:,}; give less")

    def _compiled(self) -> Any:
        before = self.library.get_mju_user_warning()
        # else MuJoCo writes a log into the current folder
        self.library.set_mju_user_warning(lambda text: self.warned.append(" ".join(str(text).split())))
        try:
            return self.library.MjModel.from_xml_path(self.root.file)
        except Exception as error:  # also of MuJoCo's own kinds, such as FatalError
            if not isinstance(error, ValueError) and type(error).__module__.partition(".")[0] != "mujoco":
                raise
            said = " ".join(str(error).split())
        finally:
            self.library.set_mju_user_warning(before)
        line = re.search(r"line (\d+)", said)
        named = re.search(r"name '([^']+)'|name = '([^']+)'", said)
        at = self.root
        if not line and named:
            at = next((element for element in self.elements if element.name == (named[1] or named[2])), at)
        said = re.sub(r"^(XML )?Error: |, line \d+", "", said)
        number = line[1] if line else at.line
        raise ModelFileError(f"{at.file}:{number}: MuJoCo does not take the file: {said or 'no reason given'}; correct it")

    def name(self, kind: Any, i: int) -> str:
        """Return the name of a thing of a kind, empty where it has none."""
        return self.library.mj_id2name(self.compiled, kind, int(i)) or ""

    def _body_names(self) -> list[str]:
        """Return the names of all bodies, of which the first is the ground; those without one are numbered."""
        given = [self.name(self.objects.body, i) for i in range(self.compiled.nbody)]
        taken = {*given}
        names = ["ground"]
        for i, name in enumerate(given[1:], start=1):
            if name == "ground":
                self.element({"body"}, name).fail("'ground' is the name of the fixed frame; rename the body")
            names.append(name or unused(f"body{i}", taken))
        return names

    def joint_name(self, i: int) -> str:
        """Return the name of a joint, or one made of its body's."""
        return self.name(self.objects.joint, i) or f"{self.names[self.compiled.jnt_bodyid[i]]}.{i}"

    def joint_element(self, i: int) -> Element:
        """Return the element of a joint, that of its body where it has no name."""
        name = self.name(self.objects.joint, i)
        if name:
            return self.element({"joint", "freejoint"}, name)
        return self.element({"body"}, self.names[self.compiled.jnt_bodyid[i]])

    def dofs(self, i: int) -> slice:
        """Return the places of a joint in MuJoCo's velocities."""
        kinds, kind = self.joint_kinds, self.compiled.jnt_type[i]
        count = {kinds.free: 6, kinds.ball: 3}.get(int(kind), 1)
        return slice(int(self.compiled.jnt_dofadr[i]), int(self.compiled.jnt_dofadr[i]) + count)


def _numbers(enum: Any) -> SimpleNamespace:
    """Return the members of one of MuJoCo's enumerations as numbers, by their names without prefix."""
    return SimpleNamespace(**{name.partition("_")[2].lower(): int(member) for name, member in enum.__members__.items()})


def _in_model(element: Element) -> bool:
    """Return whether an element is one of the model's things, rather than a default of them."""
    at = element.parent
    while at is not None:
        if at.tag == "default":
            return False
        at = at.parent
    return True
