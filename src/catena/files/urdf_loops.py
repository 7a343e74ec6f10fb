"""Loops of URDF files, in two dialects: the elements <loop> and <coupling> of URDF+, and a YAML file beside the URDF file.

Sources  URDF+: <loop> is a joint between two links, each with its <origin>; <coupling> says of the paths from the nearest common ancestor
         to two links that ratio times the sum of the predecessor's joint coordinates is that of the successor's.
         YAML: `closed_loop` names pairs of frames that coincide, `type` for each of them "3d" (the points) or "6d" (points and axes);
         `joint_name` and `joint_type` (SPHERICAL, FIXED, CARDAN, UJOINT_XY and the like) give joints another type; `name_mot` names the
         joints with motors.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from catena.atomic_files import text_of
from catena.errors import ModelError, ModelFileError, optional_package
from catena.files.xml_reader import Element
from catena.model.builder import Builder
from catena.model.joints import Cylindrical, Fixed, Joint, Planar, Prismatic, Revolute, Spherical
from catena.model.wording import choice, no_such, placed_warnings, short, without

if TYPE_CHECKING:
    from catena.files.urdf_reader import Reader

#: Types of the joints that close loops; all but the last two have an axis.
_CLOSING: dict[str, type[Joint]] = {
    "revolute": Revolute, "continuous": Revolute, "prismatic": Prismatic, "cylindrical": Cylindrical, "planar": Planar,
    "spherical": Spherical, "fixed": Fixed,
}  # fmt: skip

#: Universal joints of a side-file, by their two axes.
UNIVERSAL = {"CARDAN": ("x", "y"), **{f"UJOINT_{a}{b}".upper(): (a, b) for a in "xyz" for b in "xyz" if a != b}}

_TYPES = ("SPHERICAL", "FIXED", *UNIVERSAL)

#: Size [bytes] beyond which a YAML file is refused.
LIMIT = 2**20


def add(model: Builder, reader: Reader, element: Element) -> None:
    """Close the loop of a <loop>, or couple the coordinates of a <coupling>."""
    ends = [element.need(end) for end in ("predecessor", "successor")]
    for end in ends:
        if end.word("link") not in reader.links:
            end.fail(no_such("link", end.word("link"), reader.links))
    a, b = (end.word("link") for end in ends)
    if element.tag == "loop":
        kind = element.word("type", among=_CLOSING)
        axis = element.only("axis")
        options = {}
        if kind not in ("spherical", "fixed"):
            if axis is not None:
                axis.known("xyz")
            options["axis"] = (1.0, 0.0, 0.0) if axis is None else axis.numbers("xyz", 3)
        joint = element.build(_CLOSING[kind], **options)
        element.build(model.close, element.word("name"), joint, a, b, *(end.build(end.pose) for end in ends))
        return
    ratio = element.need("ratio").number("value")
    above_a, above_b = _ancestors(reader, a), _ancestors(reader, b)
    coefficients: dict[str, float] = {}
    for path, other, factor in ((above_a, above_b, ratio), (above_b, above_a, -1.0)):
        for link in path:
            kind = reader.types[reader.parents[link]] if link in reader.parents else "fixed"
            if link in other or kind in ("fixed", "FIXED"):
                continue
            if kind not in ("revolute", "continuous", "prismatic"):
                element.fail(f"joint '{reader.parents[link]}' on the way is {kind}; a coupling is of joints with one coordinate")
            if factor:
                coefficients[link] = factor
    element.build(model.couple, element.word("name"), coefficients)


def _ancestors(reader: Reader, link: str) -> dict[str, None]:
    """Return a link and all that it hangs on."""
    path: dict[str, None] = {}
    at: str | None = link
    while at is not None:
        path[at] = None
        at = reader.parent(at)
    return path


class Side:
    """The YAML file beside a URDF file."""

    def __init__(self, reader: Reader, file: str, content: bytes) -> None:
        self.reader, self.file = reader, file
        remedy = f'pip install "catena[files]", or {without("closed_loop")}'
        self.yaml = optional_package("yaml", f"{file}: reading the loops of this file needs PyYAML", remedy)
        self.entries = self._parsed(content)

    @classmethod
    def beside(cls, reader: Reader) -> Side | None:
        """Return the file beside that of a reader which names its loops, or none.

        It is the one of its name, or else the only one whose loops are between frames of the URDF file. Others that name loops are noted,
        unless their frames are in the file in part: that is an error.
        """
        urdf = Path(reader.root.file)
        content = _naming_loops(file := urdf.with_suffix(".yaml"))
        if content is not None and "closed_loop" in (side := cls(reader, str(file), content)).entries:
            return side
        fitting: list[Side] = []
        for file in _others(urdf):
            content = _naming_loops(file)
            if content is None:
                continue
            if file.stem != urdf.stem and file.with_suffix(".urdf").is_file():
                reader.noted.append(f"{file} names loops of another URDF file, by its name, and was not read")
                continue
            try:
                side = cls(reader, str(file), content)
            except ModelFileError as error:  # it may be about something else
                reader.noted.append(f"{file} speaks of closed_loop and was not read: {error}")
                continue
            if "closed_loop" not in side.entries:
                continue
            known = [name in reader.links or name in reader.joints for name in side._frames()]
            if all(known):
                fitting.append(side)
            elif any(known):
                missing = next(name for name in side._frames() if name not in reader.links and name not in reader.joints)
                raise ModelFileError(
                    f"{file}:1: the file names loops, some of them between frames of {urdf}, but there is no link {short(missing)}; "
                    f"correct the name, move the file to another folder, or {without('closed_loop')}"
                )
            else:
                reader.noted.append(f"{file} names loops between frames that are not in the file, and was not read")
        if fitting[1:]:
            names, wanted = " and ".join(side.file for side in fitting), urdf.with_suffix(".yaml").name
            raise ModelFileError(f"{urdf}: {names} name loops of this file; call one of them {wanted}, or {without('closed_loop')}")
        return fitting[0] if fitting else None

    def _frames(self) -> list[str]:
        """Return the names of all frames that close loops."""
        return [self._word(end) for pair in self._list("closed_loop") for end in self._list("loop", pair)]

    def _parsed(self, content: bytes) -> dict[str, Any]:
        """Return the nodes of the table that the file is."""
        text = text_of(content, self.file, ModelFileError)
        try:
            root = self.yaml.compose(text, Loader=self.yaml.SafeLoader)
        except self.yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            what = getattr(error, "problem", None) or "it cannot be read"
            raise ModelFileError(f"{self.file}:{mark.line + 1 if mark else 1}: not YAML: {what}; correct it") from None
        except RecursionError:
            raise ModelFileError(f"{self.file}:1: lists are nested too deeply; flatten them") from None
        except ValueError as error:  # PyYAML's own on some numbers and escapes
            raise ModelFileError(f"{self.file}:1: not YAML: {error}; correct it") from None
        if not isinstance(root, self.yaml.MappingNode):
            raise ModelFileError(f"{self.file}:1: this is not a table; give one with the key closed_loop")
        entries: dict[str, Any] = {}
        for key, value in root.value:
            name = self._word(key)
            if name in entries:
                self._fail(key, f"key {short(name)} is there already; give it once")
            entries[name] = value
        return entries

    def _fail(self, node: Any, message: str) -> NoReturn:
        raise ModelFileError(f"{self.file}:{node.start_mark.line + 1}: {message}")

    def _word(self, node: Any) -> str:
        if not isinstance(node, self.yaml.ScalarNode) or not node.value:
            self._fail(node, "this is not a name; give a name")
        return node.value

    def _list(self, key: str, entries: Any = None) -> list[Any]:
        node = self.entries.get(key) if entries is None else entries
        if node is None or (isinstance(node, self.yaml.ScalarNode) and node.value in ("", "~", "null")):
            return []
        if not isinstance(node, self.yaml.SequenceNode):
            self._fail(node, f"{key} is not a list; give a list in brackets")
        return node.value

    @cached_property
    def types(self) -> dict[str, str]:
        """The types that joints are given."""
        names, kinds = self._list("joint_name"), self._list("joint_type")
        if len(names) != len(kinds):
            counts = f"there are {len(names)} entries of joint_name and {len(kinds)} of joint_type"
            self._fail((names or kinds)[0], f"{counts}; give each joint its type")
        types = {}
        for name, kind in zip(names, kinds, strict=True):
            joint, given = self._word(name), self._word(kind)
            if joint not in self.reader.joints:
                self._fail(name, no_such("joint", joint, self.reader.joints))
            if given not in _TYPES:
                self._fail(kind, f"joint type {short(given)} is unknown; {choice(given, _TYPES)}")
            types[joint] = given
        return types

    def close(self, model: Builder) -> None:
        """Close the loops of the file, and note its motors and the entries that are not read."""
        pairs, kinds = self._list("closed_loop"), self._list("type")
        if kinds and len(kinds) != len(pairs):
            self._fail(kinds[0], f"there are {len(pairs)} loops and {len(kinds)} types; give each loop its type, '3d' or '6d'")
        for i, pair in enumerate(pairs):
            ends = self._list("loop", pair)
            if len(ends) != 2:
                self._fail(pair, f"a loop is closed by two frames, and here are {len(ends)}; give a pair")
            a, b = (self._frame(end) for end in ends)
            kind = self._word(kinds[i]).lower() if kinds else "6d"
            if kind not in ("3d", "6d"):
                self._fail(kinds[i], f"type {short(kind)} of a loop is unknown; give '3d' or '6d'")
            joint = Spherical() if kind == "3d" else Fixed()
            try:
                with placed_warnings(lambda at=pair: f"{self.file}:{at.start_mark.line + 1}"):
                    model.close(f"{a}-{b}", joint, a, b)
            except ModelError as error:
                self._fail(pair, str(error))
        motors = [self._word(name) for name in self._list("name_mot")]
        for name, node in zip(motors, self._list("name_mot"), strict=True):
            if name not in self.reader.joints:
                self._fail(node, no_such("joint", name, self.reader.joints))
        model.parts.notes.append(f"{'1 loop is' if len(pairs) == 1 else f'{len(pairs)} loops are'} closed by {self.file}")
        if motors:
            model.parts.notes.append("motors, by their coordinates: " + ", ".join(self.reader.carried(name) for name in motors))
        if unread := sorted(self.entries.keys() - {"closed_loop", "type", "name_mot", "joint_name", "joint_type"}):
            model.parts.notes.append(f"not read of {self.file}: {', '.join(map(short, unread))}")

    def _frame(self, node: Any) -> str:
        """Return the link of a frame: itself, or that which a joint of this name carries."""
        name = self._word(node)
        if name in self.reader.links:
            return name
        if name in self.reader.joints:
            return self.reader.carried(name)
        return self._fail(node, no_such("link", name, self.reader.links))


def _others(urdf: Path) -> list[Path]:
    """Return the YAML files in the folder of a file, but the one of its name with the ending .yaml."""
    try:
        beside = sorted(file for file in urdf.parent.iterdir() if file.suffix.lower() in (".yaml", ".yml"))
    except (OSError, ValueError):
        return []
    return [file for file in beside if file != urdf.with_suffix(".yaml")]


def _naming_loops(file: Path) -> bytes | None:
    """Return the content of a file in which loops may be named, none where they are not or there is no such file."""
    try:
        if not file.is_file():
            return None
        with file.open("rb") as stream:
            content = stream.read(LIMIT + 1)
    except (OSError, ValueError):
        return None
    if b"closed_loop" not in content.replace(b"\0", b""):  # also in UTF-16
        return None
    if len(content) > LIMIT:
        raise ModelFileError(f"{file}:1: holds more than {LIMIT >> 20} MiB; give a smaller file")
    return content
