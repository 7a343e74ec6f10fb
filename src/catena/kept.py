"""What is made for a model once, and kept until the model changes or is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any
from weakref import WeakKeyDictionary

from catena.model import Model, Tree

#: Things of one kind that are kept for a model.
_KEPT = 16

# by model, for the tree they were made of; kinds, then keys
_made: WeakKeyDictionary[Model, tuple[Tree, dict[str, dict[Any, Any]]]] = WeakKeyDictionary()
_lock = threading.RLock()


def kept(m: Model, kind: str, key: Hashable, make: Callable[[], Any]) -> Any:
    """Return what `make` makes, from an earlier call where the model is the same; it must not hold the model itself."""
    with _lock:
        tree, kinds = _made.get(m, (None, {}))
        if tree is not m.tree():
            kinds = {}
            _made[m] = m.tree(), kinds
        known = kinds.setdefault(kind, {})
        if key not in known:
            made = make()
            while len(known) >= _KEPT:
                del known[next(iter(known))]
            known[key] = made
        return known[key]
