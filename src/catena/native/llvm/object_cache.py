"""The cache of object code on disk, so that a kernel is compiled once per machine.

Files live in the user's cache folder, or in `CATENA_CACHE_DIR`; set that to `off` to do without. A file is trusted only if its header
fits its name and its checksum fits its content; anything else is as good as absent and is written again. No failure of the disk is an
error: it costs the time to compile.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from pathlib import Path

#: Changes whenever the format of the files, or the meaning of the code in them, changes.
FORMAT = 1

#: Total size [bytes] beyond which the files not used for longest are removed.
LIMIT = 256 * 2**20

#: How files are opened: a pipe is not waited for, and a link is not followed.
_PLAINLY = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

_MAGIC = b"catena object\n"
_HEADER = len(_MAGIC) + 4 + 32 + 8 + 32


def key(*parts: str) -> str:
    """Return the name under which code made from these texts is cached.

    >>> key("a", "bc") == key("ab", "c")
    False
    """
    digest = hashlib.sha256(f"catena {FORMAT}".encode())
    for part in parts:
        text = part.encode()
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.hexdigest()


def folder() -> Path | None:
    """Return the folder of the cache, which may not exist yet, or None where the cache is off."""
    chosen = os.environ.get("CATENA_CACHE_DIR", "").strip()
    if chosen.lower() in ("off", "0", "none", "false", "no"):
        return None
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("catena", appauthor=False))


def load(name: str) -> bytes | None:
    """Return the object code that is cached under a name, or None if there is none that can be trusted."""
    place = folder()
    if place is None:
        return None
    path = place / f"{name}.object"
    try:
        with open(os.open(path, _PLAINLY), "rb") as file:
            if not _trusted(os.fstat(file.fileno())):
                return None
            content = file.read(LIMIT)
    except (OSError, ValueError):
        return None
    payload = content[_HEADER:]
    if content[:_HEADER] != _header(name, payload):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # marks it as used, for `_evict`
    return payload


def store(name: str, payload: bytes) -> None:
    """Cache object code under a name, if the disk allows."""
    place = folder()
    if place is None or len(payload) > LIMIT // 2:  # it would displace most of the others
        return
    temporary = None
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix="new-", suffix=".part", dir=place)
        with os.fdopen(handle, "wb") as file:
            file.write(_header(name, payload) + payload)
        # a reader sees the old file, no file, or the whole new one
        os.replace(temporary, place / f"{name}.object")
        _evict(place)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _trusted(status: os.stat_result) -> bool:
    """Return whether a file may be read and run: regular, within the limit, of the user or the administrator, written by no other."""
    if not stat.S_ISREG(status.st_mode) or status.st_size > LIMIT:
        return False
    return not hasattr(os, "getuid") or (status.st_uid in (os.getuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _header(name: str, payload: bytes) -> bytes:
    length = len(payload).to_bytes(8, "little")
    return _MAGIC + FORMAT.to_bytes(4, "little") + bytes.fromhex(name) + length + hashlib.sha256(payload).digest()


def _evict(place: Path) -> None:
    """Remove the files used longest ago, until the rest is within the limit."""
    files = []
    for entry in os.scandir(place):
        if entry.name.endswith((".object", ".part")):
            with contextlib.suppress(OSError):
                status = entry.stat()
                files.append((status.st_mtime, status.st_size, entry.path))
    excess = sum(size for _, size, _ in files) - LIMIT
    for _, size, path in sorted(files):
        if excess <= 0:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        excess -= size
