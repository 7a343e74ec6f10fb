"""Model files: a path in, a model out, and back. The format is described in docs/files.md."""

from __future__ import annotations

import os
from pathlib import Path

from catena.atomic import as_path, reason, replacing
from catena.errors import ModelError, ModelFileError
from catena.model import toml_reader, toml_writer
from catena.model.model import Model

#: Size [bytes] beyond which a file is refused.
LIMIT = 64 * 2**20


def load(path: str | os.PathLike[str]) -> Model:
    """Return the model that a TOML file describes.

    >>> import pathlib, tempfile
    >>> text = '''
    ... [model]
    ... name = "pendulum"
    ...
    ... [[body]]
    ... name = "arm"
    ... shape = { type = "rod", length = 1.0, mass = 2.0 }
    ... joint = { type = "revolute", axis = "y" }
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "pendulum.toml")
    ...     _ = file.write_text(text)
    ...     ct.load(file)
    <Model 'pendulum': 1 bodies, nq = 1, nv = 1>
    """
    file = as_path(path, ModelFileError)
    try:
        if file.is_dir():
            raise ModelFileError(f"{file}: this is a folder; give a .toml file")
        with file.open("rb") as stream:
            _check_ending(file)
            content = stream.read(LIMIT + 1)
    except FileNotFoundError:
        raise ModelFileError(f"{file}: there is no such file; check the path and the current folder") from None
    except ModelFileError:
        raise
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{file}: cannot be read: {reason(error)}") from error
    if len(content) > LIMIT:
        raise ModelFileError(f"{file}: holds more than {LIMIT >> 20} MiB; give a smaller model file")
    return decoded(content, str(file))


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model to a TOML file. The file holds the whole model or, if anything fails, what it held before.

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
    _check_ending(file)
    content = encoded(model, str(file))
    with replacing(file, ModelFileError) as stream:
        stream.write(content)


def encoded(model: Model, where: str) -> bytes:
    """Return a model as the content of a TOML file; errors begin with `where`."""
    try:
        return toml_writer.text(model).encode()
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


def _check_ending(file: Path) -> None:
    ending = file.suffix.lower()
    if ending != ".toml":
        known = {".urdf": "a URDF file", ".xml": "an MJCF or other XML file", ".mjcf": "an MJCF file", ".sdf": "an SDF file"}
        what = known.get(ending, f"a file with the ending '{ending}'" if ending else "a file without an ending")
        raise ModelFileError(f"{file}: {what} is not understood by this version of catena, which reads and writes .toml; see docs/files.md")
