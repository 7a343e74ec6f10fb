"""Model files: a path in, a model out, and back. The format is described in docs/files.md."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from catena.atomic import as_path, reason, replacing
from catena.errors import ModelError, ModelFileError
from catena.model import mjcf_reader, toml_reader, toml_writer, urdf_reader, urdf_writer, xml_reader
from catena.model.model import Model
from catena.model.precision import closed_to_precision
from catena.model.values import number

#: Size [bytes] beyond which a file is refused.
LIMIT = 64 * 2**20

#: How far loops of a file may be from closing, relative to their size for lengths, in radians for angles: as if its numbers had four
#: digits. Then the number of starts beside home from which that is sought, without a tolerance that is given, and with one.
TOLERANCE, FEW, STARTS = 1e-4, 2, 20

#: The endings of files that are read, and of those that are written.
READ, WRITTEN = (".toml", ".urdf", ".xml", ".mjcf"), (".toml", ".urdf")


def load(
    path: str | os.PathLike[str], *, floating_base: bool = False, ignore: str | Collection[str] = (), tolerance: float | None = None
) -> Model:
    """Return the model that a file describes: TOML (.toml), URDF (.urdf) or MJCF (.xml, by MuJoCo).

    `floating_base` lets the root link of a URDF file move freely. What would change the motion and has no place in a model is an error,
    unless `ignore` names it, as the message says; `Model.notes` tells what was left out, and what was recognised.

    Loops need only close to the precision of the file: what is open where they are nearest to being closed, up to `tolerance` of the
    loop's size or in radians, is taken up by the joint frame on the second body, and `Model.notes` tells how much it is. Without a
    tolerance it is 1e-4, and the place is sought near home only; with 0 nothing is taken up.

    >>> import pathlib, tempfile
    >>> text = '''
    ... <robot name="pendulum">
    ...   <link name="base"/>
    ...   <joint name="hinge" type="continuous">
    ...     <parent link="base"/> <child link="arm"/> <axis xyz="0 1 0"/> <dynamics damping="0.1"/>
    ...   </joint>
    ...   <link name="arm">
    ...     <inertial>
    ...       <origin xyz="0.5 0 0"/> <mass value="2"/>
    ...       <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.2" iyz="0" izz="0.2"/>
    ...     </inertial>
    ...   </link>
    ... </robot>
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "pendulum.urdf")
    ...     _ = file.write_text(text)
    ...     ct.load(file), ct.load(file, floating_base=True)
    (<Model 'pendulum': 2 bodies, nq = 1, nv = 1>, <Model 'pendulum': 2 bodies, nq = 8, nv = 7>)
    """
    file = as_path(path, ModelFileError)
    try:
        if file.is_dir():
            raise ModelFileError(f"{file}: this is a folder; give a .toml, .urdf or .xml file")
        with file.open("rb") as stream:
            _check_ending(file, READ)
            content = stream.read(LIMIT + 1)
    except FileNotFoundError:
        raise ModelFileError(f"{file}: there is no such file; check the path and the current folder") from None
    except ModelFileError:
        raise
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{file}: cannot be read: {reason(error)}") from error
    if len(content) > LIMIT:
        raise ModelFileError(f"{file}: holds more than {LIMIT >> 20} MiB; give a smaller model file")
    left_out = _names(ignore)
    within = TOLERANCE if tolerance is None else _checked_tolerance(tolerance)
    starts = FEW if tolerance is None else STARTS
    if file.suffix.lower() == ".toml":
        if floating_base or left_out:
            raise ModelFileError(f"{file}: floating_base and ignore are for URDF and MJCF; leave them out, as TOML says everything itself")
        return _finished(decoded(content, str(file)), file, within, starts)
    root = xml_reader.parsed(content, str(file))
    if root.tag == "robot":
        return _finished(urdf_reader.model(root, floating_base, left_out), file, within, starts)
    if floating_base:
        raise ModelFileError(f"{file}:{root.line}: floating_base is for URDF; give the root body a <freejoint/> in the file")
    return _finished(mjcf_reader.model(root, left_out), file, within, starts)


def _finished(model: Model, file: Path, tolerance: float, starts: int) -> Model:
    """Return a model whose loops close to the precision of its file, and which knows in which folder its meshes are looked for."""
    model._folder = str(file.absolute().parent)
    if model.has_loops and tolerance > 0.0:
        try:
            model.tree()
        except ModelError:
            return model  # which cannot be used, and says so where it is
        return closed_to_precision(model, tolerance, starts)
    return model


def _checked_tolerance(value: Any) -> float:
    try:
        return number("load: tolerance", value, least=0.0)
    except ModelError as error:
        raise ModelFileError(str(error)) from None


def _names(ignore: Any) -> tuple[str, ...]:
    names = (ignore,) if isinstance(ignore, str) else tuple(ignore) if isinstance(ignore, Collection) else (ignore,)
    for name in names:
        if not isinstance(name, str):
            raise ModelFileError(f"ignore: {name!r} is not a name; give names such as ('limits', 'contact')")
    return names


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model to a TOML file, or a tree to a URDF file. It holds the whole model or, if anything fails, what it held before.

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
    content = encoded(model, str(file), urdf_writer.text if file.suffix.lower() == ".urdf" else toml_writer.text)
    with replacing(file, ModelFileError) as stream:
        stream.write(content)


def encoded(model: Model, where: str, text: Callable[[Model], str] = toml_writer.text) -> bytes:
    """Return a model as the content of a file, of TOML if no other is asked for; errors begin with `where`."""
    try:
        return text(model).encode()
    except UnicodeEncodeError as error:
        raise ModelFileError(f"{where}: character {error.object[error.start]!r} in a name cannot be written as UTF-8; rename it") from None
    except ModelError as error:
        raise ModelFileError(f"{where}: {error}") from None


def decoded(content: bytes, where: str) -> Model:
    """Return the model that the content of a TOML file describes; errors begin with `where`."""
    try:
        return toml_reader.Source(where, content).model()
    except RecursionError:
        raise ModelFileError(f"{where}: tables or arrays are nested too deeply; flatten them") from None


def _check_ending(file: Path, known: tuple[str, ...]) -> None:
    ending = file.suffix.lower()
    if ending not in known:
        names = {".sdf": "an SDF file", ".xacro": "a xacro file, which the command xacro turns into URDF,"}
        what = names.get(ending, f"a file with the ending '{ending}'" if ending else "a file without an ending")
        does = "reads" if known is READ else "writes"
        raise ModelFileError(
            f"{file}: {what} is not understood by this version of catena, which {does} {', '.join(known)}; see docs/files.md"
        )
