"""A cache of things that are made once: found again by kind and key, and gone with its owner."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from catena.locks import lock

#: Most things of one kind; that which was asked for longest ago goes first. A run of one integrator makes up to six of a kind.
_HELD = 64


class Cache:
    """Things by kind and key. Those of different keys are made at the same time; two threads that ask for one get one."""

    def __init__(self) -> None:
        self._lock = lock()
        self._kinds: dict[Hashable, dict[Hashable, _Entry]] = {}

    def get(self, kind: Hashable, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what `make` returned when this kind and key were first asked for.

        >>> cache = Cache()
        >>> cache.get("squares", 3, lambda: 9), cache.get("squares", 3, lambda: 10)
        (9, 9)
        """
        with self._lock:
            entries = self._kinds.setdefault(kind, {})
            if key not in entries:
                while len(entries) >= _HELD:
                    del entries[next(iter(entries))]
                entries[key] = _Entry()
            entry = entries[key] = entries.pop(key)
        return entry.get(make)


class _Entry:
    """One thing, made by the first who asks; after a failure by the next."""

    def __init__(self) -> None:
        self._lock = lock()  # a thing that asks for itself while it is made recurses, and does not deadlock
        self._made: tuple[Any, ...] = ()

    def get(self, make: Callable[[], Any]) -> Any:
        if not self._made:
            with self._lock:
                if not self._made:
                    self._made = (make(),)
        return self._made[0]
