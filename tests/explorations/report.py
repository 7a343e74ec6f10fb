"""What an exploration looked at, and what disagreed."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

import catena as ct


class Failure(NamedTuple):
    """What disagrees, where."""

    name: str
    seed: int
    what: str
    detail: str
    script: str = ""


class Report:
    """What was looked at, and what disagreed."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.seed = name, seed
        self.counts: Counter[str] = Counter()
        self.failures: list[Failure] = []

    def fail(self, what: str, detail: str, script: str = "") -> None:
        self.failures.append(Failure(self.name, self.seed, what, detail, script))


def near(a: Any, b: Any, scale: float = 0.0) -> float:
    """Return the difference of two arrays, relative to their size; infinite where only one of them is finite, or shapes differ."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    a, b = np.nan_to_num(a, posinf=0.0, neginf=0.0), np.nan_to_num(b, posinf=0.0, neginf=0.0)
    size = max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0), scale)
    return float(np.abs(a - b).max(initial=0.0) / size) if size else 0.0


@contextmanager
def warned(category: type[Warning] = ct.SingularWarning) -> Iterator[list[str]]:
    """Yield a list that holds the warnings of a category, afterwards."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    found += [str(w.message) for w in caught if issubclass(w.category, category)]
