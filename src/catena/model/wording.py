"""Words that errors and warnings share."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

#: What leaves out, among the names that `ignore` takes, everything that catena cannot represent.
UNSUPPORTED = "unsupported"

_PLACE, _NUMBER = re.compile(r"^(.*?:\d+): "), re.compile(r"'[^']*'|[-+]?\d[\d.e+-]*")


@contextmanager
def counted_warnings() -> Iterator[None]:
    """Repeat the warnings of a block, once it is done: of those that differ in place, names and numbers alone the first, with a count."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    alike: dict[tuple[Any, str], list[str]] = {}
    for warning in caught:
        text = str(warning.message)
        alike.setdefault((warning.category, _NUMBER.sub("", _PLACE.sub("", text))), []).append(text)
    for (category, _), texts in alike.items():
        more = f" (and {len(texts) - 1} more like this)" if texts[1:] else ""
        warnings.warn(texts[0] + more, category, stacklevel=5)


@contextmanager
def placed_warnings(where: Callable[[], str]) -> Iterator[None]:
    """Repeat the warnings of a block, once it is done, each with its place in a file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        warnings.warn(f"{where()}: {warning.message}", warning.category, stacklevel=7)


def choice(given: Any, known: Collection[str]) -> str:
    """Return the remedy for a name that is not among the known."""
    near = difflib.get_close_matches(given, list(known), n=1) if isinstance(given, str) and len(given) < 100 else []
    names = ", ".join(f"'{name}'" if len(name) < 60 else short(name) for name in list(known)[:30]) + (", …" if len(known) > 30 else "")
    return f"did you mean '{near[0]}'? Choose from {names}" if near else f"choose from {names}"


def no_such(kind: str, name: str, known: Collection[str]) -> str:
    """Return the message of a name that nothing of a kind has."""
    return f"there is no {kind} {short(name)}; {choice(name, known)}"


def listed(entries: Sequence[str]) -> str:
    """Return entries as a list in a sentence.

    >>> listed(["damping", "friction", "contact"])
    'damping, friction and contact'
    """
    return f"{', '.join(entries[:-1])} and {entries[-1]}" if len(entries) > 1 else "".join(entries)


def short(value: Any) -> str:
    """Return a value as it is written in messages, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def without(*names: str) -> str:
    """Return the remedy of loading a file without something, in Python and on the command line."""
    listed = ", ".join(repr(name) for name in names) + ("," if len(names) == 1 else "")
    return f"load with ignore=({listed}), on the command line {' '.join(f'--ignore {name}' for name in names)}"


def unused(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, this one or one made of it; it is taken then."""
    count, free = 2, name
    while free in taken:
        free, count = f"{name}.{count}", count + 1
    taken.add(free)
    return free
