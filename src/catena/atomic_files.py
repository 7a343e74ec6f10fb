"""Files that are written whole or not at all: readers see the old content or the new, never a part. And files that users name, read."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from catena.errors import CatenaError


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], error: type[CatenaError]) -> Iterator[BinaryIO]:
    """Yield a binary stream whose content takes the place of a file in one step, once the block ends without an exception.

    Where the disk fails, `error` says so and the file is as it was; links stay links and permissions stay.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "note.txt")
    ...     with replacing(file, CatenaError) as stream:
    ...         _ = stream.write(b"whole")
    ...     file.read_text()
    'whole'
    """
    file, mode = as_path(path, error), None
    try:
        target = Path(os.path.realpath(file))  # a link stays a link
        with contextlib.suppress(FileNotFoundError):
            mode = stat.S_IMODE(target.stat().st_mode)
        part = target.with_name(f".catena-{secrets.token_hex(8)}.part")
        stream = part.open("xb")
    except (OSError, ValueError) as cause:
        raise error(_failure(file, cause)) from cause
    try:
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            part.chmod(mode)
        os.replace(part, target)
    except BaseException as cause:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(cause, OSError):
            raise error(_failure(file, cause)) from cause
        raise


def as_path(path: Any, error: type[CatenaError]) -> Path:
    """Return what a user gave as a path; `error` is raised if it is none."""
    try:
        return Path(os.fsdecode(path))
    except TypeError:
        raise error(f"{path!r} is not a path; give a string or a pathlib.Path") from None


def beginning(file: Path, size: int, error: type[CatenaError], wanted: str) -> bytes:
    """Return the first so many bytes of a file; `error` says why it cannot be read."""
    try:
        if file.is_dir():
            raise error(f"{file}: this is a folder; give {wanted}")
        with file.open("rb") as stream:
            return stream.read(size)
    except FileNotFoundError:
        raise error(f"{file}: there is no such file; check the path and the current folder") from None
    except CatenaError:
        raise
    except (OSError, ValueError) as cause:
        raise error(f"{file}: cannot be read: {reason(cause)}") from cause


def text_of(content: bytes, file: str, error: type[CatenaError]) -> str:
    """Return the content of a file as text, UTF-8, or UTF-16 where a mark says so; `error` names the line of a byte that is neither."""
    try:
        return content.decode("utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
    except UnicodeDecodeError as cause:
        line = content.count(b"\n", 0, cause.start) + 1
        raise error(f"{file}:{line}: byte 0x{content[cause.start]:02x} is not UTF-8; save the file as UTF-8") from None


def reason(cause: Exception) -> str:
    """Return why the system refused, in words."""
    return (getattr(cause, "strerror", None) or str(cause)).lower()


def _failure(file: Path, cause: Exception) -> str:
    remedy = "nothing was changed" if _is_folder(file.parent) else f"make the folder '{file.parent}' first"
    return f"{file}: cannot be written: {reason(cause)}; {remedy}"


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that no system takes; the cause says so already
        return True
