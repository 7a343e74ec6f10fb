"""Random numbers of episodes: how functions ask for them, and the streams that they come from, one for each environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from catena.graph import traced_array

#: SplitMix64 (Steele, Lea and Flood 2014): the increment of its state, and the factors that mix it.
_INCREMENT, _FIRST, _SECOND = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Draws:
    """Random numbers for a function that begins an episode, asked for as from NumPy's generators.

    The function is traced once; every number that it asks for is an input of the compiled code.

    >>> def reset(random):
    ...     return random.uniform(-0.1, 0.1, size=2), random.normal(0.0, 0.05, size=2)
    >>> m = examples.cart_pole()
    >>> task = ct.environments.Task(m, step=0.02, reset=reset, observe=lambda q, v: np.concatenate([q, v]),
    ...                             reward=lambda q: -abs(q[1]), efforts={"cart": 10.0})
    >>> task.draws  # a normal number takes two uniform ones
    6
    """

    def __init__(self, take: Callable[[], Any]) -> None:
        self._take = take  # the next uniform number above 0 and below 1

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: int | Sequence[int] | None = None) -> Any:
        """Return numbers between `low` and `high`, of a shape or else of theirs."""
        low, high, shape = _broadcast(low, high, size)
        return _filled(shape, lambda i: low[i] + (high[i] - low[i]) * self._take())

    def normal(self, mean: Any = 0.0, deviation: Any = 1.0, size: int | Sequence[int] | None = None) -> Any:
        """Return normally distributed numbers, of a shape or else of that of `mean` and `deviation`."""
        mean, deviation, shape = _broadcast(mean, deviation, size)

        def one(i: tuple[int, ...]) -> Any:
            radius, angle = np.sqrt(-2.0 * np.log(self._take())), 2.0 * np.pi * self._take()  # Box and Muller
            return mean[i] + deviation[i] * radius * np.cos(angle)

        return _filled(shape, one)


def _broadcast(a: Any, b: Any, size: int | Sequence[int] | None) -> tuple[Any, Any, tuple[int, ...]]:
    a, b = (np.asarray(x, dtype=object) for x in (a, b))
    shape = np.broadcast_shapes(a.shape, b.shape) if size is None else (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    return np.broadcast_to(a, shape), np.broadcast_to(b, shape), shape


def _filled(shape: tuple[int, ...], make: Callable[[tuple[int, ...]], Any]) -> Any:
    entries = np.empty(shape, dtype=object)
    for i in np.ndindex(*shape):
        entries[i] = make(i)
    return traced_array(entries) if shape else entries[()]


class Streams:
    """A stream of uniform numbers for each of several environments: SplitMix64, which goes by a seed and a count alone.

    So an environment has the same numbers in any batch, and those of many environments are drawn at once.
    """

    def __init__(self, count: int) -> None:
        self._keys = np.random.SeedSequence().generate_state(count, np.uint64)
        self._drawn = np.zeros(count, dtype=np.uint64)

    def seed(self, at: int, seed: int) -> None:
        """Begin the stream of an environment anew, from a seed."""
        self._keys[at] = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
        self._drawn[at] = 0

    def draw(self, rows: np.ndarray, size: int) -> np.ndarray:
        """Return the next numbers of some environments, above 0 and below 1: (rows, size)."""
        counts = self._drawn[rows, None] + np.arange(1, size + 1, dtype=np.uint64)
        self._drawn[rows] += np.uint64(size)
        z = self._keys[rows, None] + counts * _INCREMENT  # all modulo 2^64
        z = (z ^ (z >> np.uint64(30))) * _FIRST
        z = (z ^ (z >> np.uint64(27))) * _SECOND
        z = z ^ (z >> np.uint64(31))
        return ((z >> np.uint64(12)).astype(float) + 0.5) * 2.0**-52
