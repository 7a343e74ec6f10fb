"""Files that are written whole or not at all: readers see the old content or the new, never a part. And files that users name, read."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from catena.errors import CatenaError

try:
    import fcntl
except ImportError:  # on Windows, where files that are open cannot be removed
    fcntl = None

#: How the names of parts begin, and the age [s] from which one is left over, where no lock tells.
_PART, _OLD = ".catena-", 3600.0


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], error: type[CatenaError]) -> Iterator[BinaryIO]:
    """Yield a binary stream whose content takes the place of a file in one step, once the block ends without an exception.

    Where the disk fails, `error` says so and the file is as it was; links stay links and permissions stay. A program that is killed leaves
    the part that it wrote, and the next write in the folder removes it.

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
        _clear(target.parent)
        part, held = _begun(target)
    except (OSError, ValueError) as cause:
        raise error(_failure(file, cause)) from cause
    try:
        with part.open("wb") as stream:
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
    finally:
        if held is not None:
            os.close(held)


def _begun(target: Path) -> tuple[Path, int | None]:
    """Return a new, empty part of a file, and what holds it: a lock that ends with the process, where the system has such locks."""
    while True:
        part = target.with_name(f"{_PART}{secrets.token_hex(8)}.part")
        part.open("xb").close()
        if fcntl is None:
            return part, None
        with contextlib.suppress(FileNotFoundError):  # it was cleared before it was held
            held = os.open(part, os.O_RDONLY)
            with contextlib.suppress(OSError):  # of a file system without locks, where nobody clears either
                fcntl.flock(held, fcntl.LOCK_EX)
            if os.fstat(held).st_nlink:
                return part, held
            os.close(held)


def _clear(folder: Path) -> None:
    """Remove the parts that programs left in a folder when they were killed: those that nobody holds, or, without locks, that are old."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(_PART) and entry.name.endswith(".part"):
                with contextlib.suppress(OSError):  # of another user, or gone already, or held
                    _remove(entry)


def _remove(part: os.DirEntry[str]) -> None:
    if not part.is_file(follow_symlinks=False):
        return
    if fcntl is None:
        if time.time() - part.stat().st_mtime > _OLD:
            os.unlink(part.path)
        return
    held = os.open(part.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(part.path)
    finally:
        os.close(held)


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
