"""What is made for a model once, and kept until the model changes or is gone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from catena.model import Model


def kept(m: Model, kind: Hashable, key: Hashable, make: Callable[[], Any]) -> Any:
    """Return what `make` makes, from an earlier call where the model is the same.

    It belongs to the frozen model and goes with it, so that it may hold the model. Different things are made at the same time.
    """
    return m.frozen()._cache.get(kind, key, make)
