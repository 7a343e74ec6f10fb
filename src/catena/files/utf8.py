"""Text of files: UTF-8, or UTF-16 where a byte order mark says so."""

from __future__ import annotations

from catena.errors import ModelFileError


def text_of(content: bytes, file: str) -> str:
    """Return the content of a file as text; the error of a byte that is not UTF-8 names its line."""
    try:
        return content.decode("utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ModelFileError(f"{file}:{line}: byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8") from None
