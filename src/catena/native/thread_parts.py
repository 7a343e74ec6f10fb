"""How many threads calls with many states take, and the split of such calls over them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from catena.errors import ArgumentError
from catena.graph import Port

#: A part of a batch that is worth a thread [entries of inputs and outputs]: a millisecond of work or so.
LEAST = 1 << 15

_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}  # by process, for a fork has no threads, and by their number


class _Setting:
    """The number of threads that was set, or None."""

    def __init__(self) -> None:
        given = os.environ.get("CATENA_THREADS", "")
        self.number = _checked("CATENA_THREADS", int(given) if given.isdecimal() else given) if given else None


class _Restores:
    """Sets the number of threads back at the end of a `with` block."""

    def __init__(self, before: int | None) -> None:
        self._before = before

    def __enter__(self) -> None:
        return None

    def __exit__(self, *raised: object) -> None:
        _setting.number = self._before


def _checked(name: str, number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
        raise ArgumentError(f"{name} {number!r} is not a number of threads; give a whole number from 1 on")
    return int(number)


_setting = _Setting()


def threads(number: int | None) -> _Restores:
    """Let kernels share calls with many states among so many threads, and let rollouts take as many; for a `with` block, or from here on.

    Without it, kernels take one thread and rollouts one for each core; the variable `CATENA_THREADS` sets the number from outside, and None
    sets it back. Results are the same to the bit.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> fd, q = ct.forward_dynamics(m), np.linspace(-3.0, 3.0, 100_000)[:, None]
    >>> one = fd(q, 0.0 * q, 0.0 * q)
    >>> with ct.threads(2):
    ...     two = fd(q, 0.0 * q, 0.0 * q)
    >>> bool((one == two).all())
    True
    """
    restores = _Restores(_setting.number)
    _setting.number = None if number is None else _checked("threads:", number)
    return restores


def thread_count() -> int:
    """Return the number of threads that is set, or one for each core that this process may use."""
    if _setting.number is not None:
        return _setting.number
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shared(run: Callable[..., Any], inputs: Sequence[Port], outputs: Sequence[Port], arrays: tuple, out: Any) -> Any:
    """Return the results of a gufunc, or `NotImplemented` where one thread does: parts of the first leading axis go to threads."""
    number = _setting.number
    if number is None or number == 1:
        return NotImplemented
    given = [np.asarray(x) for x in arrays]
    batches = [x.shape[: x.ndim - len(port.shape)] for x, port in zip(given, inputs, strict=True)]
    batch = np.broadcast_shapes(*batches)
    size = sum(port.size for port in (*inputs, *outputs))
    parts = min(number, math.prod(batch) * size // LEAST, batch[0] if batch else 1)
    if parts < 2:
        return NotImplemented
    results = [np.empty(batch + port.shape) for port in outputs] if out is None else list(out if isinstance(out, tuple) else (out,))
    if any(not isinstance(x, np.ndarray) or x.shape != batch + port.shape for x, port in zip(results, outputs, strict=True)):
        return NotImplemented
    if out is not None and any(np.may_share_memory(x, y) for x in results for y in given):
        return NotImplemented
    ends = np.linspace(0, batch[0], parts + 1).astype(int).tolist()

    def part(at: slice) -> None:
        own = (x[at] if len(own) == len(batch) and own[0] != 1 else x for x, own in zip(given, batches, strict=True))
        run(*own, out=tuple(x[at] for x in results))

    key = (os.getpid(), number)
    pool = _pools.get(key) or _pools.setdefault(key, ThreadPoolExecutor(number, "catena"))
    list(pool.map(part, map(slice, ends[:-1], ends[1:])))
    return results[0] if len(results) == 1 else tuple(results)
