"""How many threads calls with many states take, and the split of such calls over them."""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from catena.errors import ArgumentError
from catena.graph import Port

#: A part of a batch that is worth a thread [entries of inputs and outputs]: 50 us of work or more, which is what waking a thread costs.
LEAST = 1 << 15

#: Parts of a batch for each thread: a thread that is late leaves some of its parts to others.
PARTS = 2

_Part = TypeVar("_Part")

_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}  # by process, for a fork has no threads, and by their number


class _Setting:
    """The number of threads that was set, or None; until then that of the environment, read where it is first asked for."""

    @cached_property
    def number(self) -> int | None:
        given = os.environ.get("CATENA_THREADS", "").strip()
        remedy = "set it to a whole number from 1 on, or unset it"
        return _checked("CATENA_THREADS =", int(given) if given.isdecimal() else given, remedy) if given else None


class _Restores:
    """Sets the number of threads back at the end of a `with` block."""

    def __init__(self, before: int | None) -> None:
        self._before = before

    def __enter__(self) -> None:
        return None

    def __exit__(self, *raised: object) -> None:
        _setting.number = self._before


def _checked(name: str, number: Any, remedy: str = "give a whole number from 1 on") -> int:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
        raise ArgumentError(f"{name} {number!r} is not a number of threads; {remedy}")
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


class _Stop(threading.local):
    """The event that stops what a thread computes, if another may set it."""

    event: threading.Event | None = None


_stop = _Stop()


@contextmanager
def stopped_by(event: threading.Event) -> Iterator[None]:
    """Let what this thread computes in the block end early, with `CancelledError`, when another sets an event."""
    _stop.event = event
    try:
        yield
    finally:
        _stop.event = None


def stop_event() -> threading.Event:
    """Return the event that stops what this thread computes, or a new one."""
    return _stop.event or threading.Event()


def share(run: Callable[[_Part], Any], parts: Iterable[_Part], number: int, stop: threading.Event | None = None) -> None:
    """Call a function for every part, in this thread and in as many others as make up the number.

    After an error, Ctrl-C too, no part begins, `stop` is set, which may shorten those that have begun, and they end before this does.
    If another has set it, a `CancelledError` says that not all is done.
    """
    left, stop = deque(parts), stop or stop_event()

    def work() -> None:
        try:
            while not stop.is_set():
                try:
                    part = left.popleft()
                except IndexError:  # another thread took the last one
                    return
                run(part)
        finally:
            left.clear()

    key = (os.getpid(), number)
    pool = _pools.get(key) or _pools.setdefault(key, ThreadPoolExecutor(number, "catena"))
    others = [pool.submit(work) for _ in range(min(number, len(left)) - 1)]
    try:
        work()
        for other in others:
            if not other.cancel():  # one that has not begun finds nothing left
                other.result()
        if stop.is_set():
            raise CancelledError
    except BaseException:
        left.clear()
        if others:
            stop.set()
        wait([other for other in others if not other.cancel()])
        raise


def shared(run: Callable[..., Any], inputs: Sequence[Port], outputs: Sequence[Port], arrays: tuple, out: Any) -> Any:
    """Return the results of a gufunc, or `NotImplemented` where one thread does: parts of the first leading axis go to threads."""
    number = _setting.number
    if number is None or number == 1:
        return NotImplemented
    given = [np.asarray(x) for x in arrays]
    batches = [x.shape[: x.ndim - len(port.shape)] for x, port in zip(given, inputs, strict=True)]
    batch = np.broadcast_shapes(*batches)
    size = sum(port.size for port in (*inputs, *outputs))
    parts = min(PARTS * number, math.prod(batch) * size // LEAST, batch[0] if batch else 1)
    if parts < 2:
        return NotImplemented
    results = [np.empty(batch + port.shape) for port in outputs] if out is None else list(out if isinstance(out, tuple) else (out,))
    if any(not isinstance(x, np.ndarray) or x.shape != batch + port.shape for x, port in zip(results, outputs, strict=True)):
        return NotImplemented
    if out is not None and any(np.may_share_memory(x, y) for x in results for y in given):
        return NotImplemented
    ends = [batch[0] * i // parts for i in range(parts + 1)]

    def part(at: slice) -> None:
        own = (x[at] if len(own) == len(batch) and own[0] != 1 else x for x, own in zip(given, batches, strict=True))
        run(*own, out=tuple(x[at] for x in results))

    share(part, map(slice, ends[:-1], ends[1:]), number)
    return results[0] if len(results) == 1 else tuple(results)
