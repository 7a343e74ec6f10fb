"""The order in which the bodies of a file become those of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn


def parents_first(names: Iterable[str], parent: Callable[[str], str | None], refuse: Callable[[list[str]], NoReturn]) -> list[str]:
    """Return names in their order, but a parent that stands further down right before its first child.

    `parent` returns None for a name without one; `refuse` raises the error of names that are their own ancestors.

    >>> parents_first(["hand", "arm", "leg"], {"hand": "arm"}.get, lambda cycle: None)
    ['arm', 'hand', 'leg']
    """
    order: dict[str, None] = {}
    for name in names:
        path: dict[str, None] = {}
        at: str | None = name
        while at is not None and at not in order:
            if at in path:
                refuse([*path][[*path].index(at) :])
            path[at] = None
            at = parent(at)
        order.update(dict.fromkeys(reversed(path)))
    return list(order)
