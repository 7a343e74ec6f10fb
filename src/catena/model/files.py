"""Model files: a path in, a model out, and back. The format is described in docs/files.md."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from typing import Any

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
    file = _path(path)
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
        raise ModelFileError(f"{file}: cannot be read: {_reason(error)}") from error
    if len(content) > LIMIT:
        raise ModelFileError(f"{file}: holds more than {LIMIT >> 20} MiB; give a smaller model file")
    try:
        return toml_reader.Source(str(file), content).model()
    except RecursionError:
        raise ModelFileError(f"{file}: tables or arrays are nested too deeply; flatten them") from None


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
    file = _path(path)
    _check_ending(file)
    try:
        content = toml_writer.text(model).encode()
    except UnicodeEncodeError as error:
        raise ModelFileError(f"{file}: character {error.object[error.start]!r} in a name cannot be written as UTF-8; rename it") from None
    except ModelError as error:
        raise ModelFileError(f"{file}: {error}") from None
    try:
        _replace(file, content)
    except (OSError, ValueError) as error:
        missing = not file.parent.is_dir()
        remedy = f"make the folder '{file.parent}' first" if missing else "nothing was changed"
        raise ModelFileError(f"{file}: cannot be written: {_reason(error)}; {remedy}") from error


def _replace(file: Path, content: bytes) -> None:
    """Put new content in place of a file in one step."""
    target = Path(os.path.realpath(file))  # a link stays a link
    part = target.with_name(f".catena-{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        with contextlib.suppress(FileNotFoundError):
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _path(path: Any) -> Path:
    try:
        return Path(os.fsdecode(path))
    except TypeError:
        raise ModelFileError(f"{path!r} is not a path; give a string or a pathlib.Path") from None


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def _check_ending(file: Path) -> None:
    ending = file.suffix.lower()
    if ending != ".toml":
        known = {".urdf": "a URDF file", ".xml": "an MJCF or other XML file", ".mjcf": "an MJCF file", ".sdf": "an SDF file"}
        what = known.get(ending, f"a file with the ending '{ending}'" if ending else "a file without an ending")
        raise ModelFileError(f"{file}: {what} is not understood by this version of catena, which reads and writes .toml; see docs/files.md")
