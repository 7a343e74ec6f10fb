"""Locks that are free in a forked process, whichever other thread held them: that thread does not exist there."""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

_made: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> Any:
    """Return a lock that its holder may take again. In a forked process it is free, and what it guarded is as the other thread left it.

    >>> with lock() as taken:
    ...     taken
    True
    """
    made = threading.RLock()
    _made.add(made)
    return made


def forks_wait_for(*locks: Any) -> None:
    """Let forks wait until all of these are free, one after the other: what they guard must not be cut off in the middle."""

    def take() -> None:
        for one in locks:
            one.acquire()

    def give_back() -> None:
        for one in reversed(locks):
            one.release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=take, after_in_parent=give_back, after_in_child=give_back)


def _of_properties() -> Iterator[Any]:
    """Yield the locks of all cached properties of catena; before Python 3.12 each has one for all objects."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "catena":
            for kind in list(vars(module).values()):
                if isinstance(kind, type):
                    found = [x for x in vars(kind).values() if isinstance(x, functools.cached_property)]
                    yield from (vars(x)["lock"] for x in found if "lock" in vars(x))


def _release() -> None:
    for held in (*_made, *_of_properties()):
        if not held._is_owned():  # by the thread that forked, which goes on
            held._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release)
