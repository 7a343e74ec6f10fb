"""Model files by their endings: `load` reads the model of a file, `save` writes one. docs/files.md describes the formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

from catena.atomic_files import as_path, beginning, replacing
from catena.errors import ModelError, ModelFileError
from catena.files import contacts, mjcf_reader, toml_reader, toml_writer, urdf_reader, urdf_writer, xml_reader
from catena.files.precision import closed_to_precision
from catena.model import Builder, Mechanism
from catena.model.values import number
from catena.model.wording import counted_warnings

#: Size [bytes] beyond which a file is refused.
LIMIT = 64 * 2**20

#: Closure residual up to which loops of a file are closed, relative to their size for lengths, in radians for angles: as if its numbers had
#: four digits. Then the number of starts besides home from which they are closed, where no tolerance is given, and where one is.
TOLERANCE, FEW, STARTS = 1e-4, 2, 20

#: The endings of files that are read, and of those that are written.
READ, WRITTEN = (".toml", ".urdf", ".xml", ".mjcf"), (".toml", ".urdf")


def load(
    path: str | os.PathLike[str],
    *,
    floating_base: bool = False,
    ignore: str | Collection[str] = (),
    tolerance: float | None = None,
    contact: str | None = None,
    actuators: str | None = None,
) -> Builder:
    """Return the model that a file describes; `catena.load` says how."""
    known = {"contact": (contact, (None, "ignore", "ground")), "actuators": (actuators, (None, "ignore"))}
    for name, (given, words) in known.items():
        if given not in words:
            raise ModelFileError(f"load: {name} = {given!r} is not known; give {' or '.join(map(repr, words[1:]))}, or leave it out")
    also = [what for what, given in (("contact", contact), ("actuator", actuators)) if given == "ignore"]
    with counted_warnings():
        return _load(path, floating_base, (*_names(ignore), *also), tolerance, contact == "ground")


def _load(
    path: str | os.PathLike[str], floating_base: bool, left_out: tuple[str, ...], tolerance: float | None, contact: bool
) -> Builder:
    file = as_path(path, ModelFileError)
    content = beginning(file, LIMIT + 1, ModelFileError, "a .toml, .urdf or .xml file")
    _check_ending(file, READ)
    if len(content) > LIMIT:
        raise ModelFileError(f"{file}: holds more than {LIMIT >> 20} MiB; give a smaller model file")
    try:
        within = TOLERANCE if tolerance is None else number("load: tolerance", tolerance, least=0.0)
    except ModelError as error:
        raise ModelFileError(str(error)) from None
    starts = FEW if tolerance is None else STARTS
    if file.suffix.lower() == ".toml":
        if floating_base or left_out:
            raise ModelFileError(f"{file}: floating_base and ignore are for URDF and MJCF; leave them out, as TOML says everything itself")
        if contact:
            raise ModelFileError(f"{file}: contact= is for URDF and MJCF; leave it out, as TOML has its contacts in [[contact]]")
        return _finished(decoded(content, str(file)), file, within, starts)
    root = xml_reader.parsed(content, str(file))
    if root.tag == "robot":
        reader = urdf_reader.Reader(root, floating_base, left_out)
        model = reader.model()
        if contact:
            model.parts.folder = str(file.absolute().parent)
            root.attempt(contacts.from_urdf, model, reader.links)
        return _finished(model, file, within, starts)
    if floating_base:
        raise ModelFileError(f"{file}:{root.line}: floating_base is for URDF; give the root body a <freejoint/> in the file")
    source = mjcf_reader.Reader(root, left_out, contact)
    model = source.model()
    if contact:
        root.attempt(contacts.from_mjcf, model, source)
    return _finished(model, file, within, starts)


def _finished(model: Builder, file: Path, tolerance: float, starts: int) -> Builder:
    """Return a model whose loops close to the precision of its file, and which knows the folder of its meshes."""
    model.parts.folder = str(file.absolute().parent)
    if model.has_loops and tolerance > 0.0:
        try:
            model.tree()
        except ModelError:
            return model  # its error is raised where the model is used
        return closed_to_precision(model, tolerance, starts)
    return model


def _names(ignore: Any) -> tuple[str, ...]:
    names = (ignore,) if isinstance(ignore, str) else tuple(ignore) if isinstance(ignore, Collection) else (ignore,)
    for name in names:
        if not isinstance(name, str):
            raise ModelFileError(f"ignore: {name!r} is not a name; give names such as ('limits', 'contact')")
    return names


def save(model: Mechanism, path: str | os.PathLike[str], ignore: str | Collection[str] = ()) -> None:
    """Write a model to a TOML file, or a tree to a URDF file. It holds the whole model or, if anything fails, what it held before.

    A URDF file is without what `ignore` names: "parameters", "home" or "keyframes".

    >>> import pathlib, tempfile
    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y", damping=0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "pendulum.toml")
    ...     m.save(file)
    ...     print(file.read_text())
    [model]
    name = "pendulum"
    gravity = [0.0, 0.0, -9.81]
    friction_speed = 0.01
    <BLANKLINE>
    [[body]]
    name = "arm"
    parent = "ground"
    shape = { type = "rod", length = 1.0, mass = 2.0, axis = "x" }
    joint = { type = "revolute", axis = "y", damping = 0.1 }
    <BLANKLINE>
    """
    file = as_path(path, ModelFileError)
    _check_ending(file, WRITTEN)
    left_out, urdf = _names(ignore), file.suffix.lower() == ".urdf"
    for name in left_out:
        if not urdf or name not in urdf_writer.IGNORED:
            known = f"give some of {', '.join(urdf_writer.IGNORED)}" if urdf else "leave it out, for TOML holds everything"
            raise ModelFileError(f"{file}: ignore={name!r} is not known; {known}")
    text = partial(urdf_writer.text, ignore=left_out) if urdf else partial(toml_writer.text, folder=str(file.absolute().parent))
    content = encoded(model, str(file), text)
    with replacing(file, ModelFileError) as stream:
        stream.write(content)


def encoded(model: Mechanism, where: str, text: Callable[[Mechanism], str] = toml_writer.text) -> bytes:
    """Return a model as the content of a file, of TOML if no other is asked for; errors begin with `where`."""
    try:
        return text(model).encode()
    except UnicodeEncodeError as error:
        raise ModelFileError(f"{where}: character {error.object[error.start]!r} in a name cannot be written as UTF-8; rename it") from None
    except ModelError as error:
        raise ModelFileError(f"{where}: {error}") from None


def decoded(content: bytes, where: str) -> Builder:
    """Return the model that the content of a TOML file describes; errors begin with `where`."""
    try:
        return toml_reader.Reader(where, content).model()
    except RecursionError:
        raise ModelFileError(f"{where}: tables or arrays are nested too deeply; flatten them") from None


def _check_ending(file: Path, known: tuple[str, ...]) -> None:
    ending = file.suffix.lower()
    if ending not in known:
        names = {".sdf": "an SDF file", ".xacro": "a xacro file, which the command xacro turns into URDF,"}
        what = names.get(ending, f"a file with the ending '{ending}'" if ending else "a file without an ending")
        does = "reads" if known is READ else "writes"
        raise ModelFileError(f"{file}: {what} is not understood by this catena, which {does} {', '.join(known)}; see docs/files.md")
