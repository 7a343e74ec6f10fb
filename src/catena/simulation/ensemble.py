"""Studies of many trajectories, in chunks over threads, processes or the machines of a cluster: `ensemble`."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from catena.errors import ArgumentError, SimulationError
from catena.model import Mechanism
from catena.native.thread_parts import stopped_by
from catena.simulation import arguments
from catena.simulation.inputs import Function
from catena.simulation.progress import progress
from catena.simulation.rollout import Rollout, RolloutSettings, thread_count

#: How often a chunk is tried whose worker dies.
_TRIES = 3

#: Samples of a chunk [bytes] are at most so large, unless its size is given.
_LARGEST = 64 << 20

#: Chunks begin with whole groups of lanes.
_GROUP = 16

#: What a future raises whose worker died; those of Dask by name, because Dask may be missing.
_DIED = (BrokenExecutor, CancelledError, ConnectionError, EOFError)
_DIED_ON_DASK = frozenset(("KilledWorker", "CommClosedError", "FutureCancelledError", "NoValidWorkerError"))


def ensemble(
    m: Mechanism,
    q0: Any,
    v0: Any = None,
    controls: Any = None,
    *,
    step: float,
    steps: int,
    executor: Any = None,
    chunk: int | None = None,
    every: int = 1,
    start: float = 0.0,
    integrator: str = "auto",
    method: str = "auto",
    show_progress: bool | None = None,
    parameters: Mapping[str, Any] | None = None,
    noise: Any = None,
    stop: Function | None = None,
    observe: Function | None = None,
    wrenches: Mapping[str, Any] | None = None,
    actuators: bool = False,
    tau: Any = None,
) -> Rollout:
    """Return the trajectories of `ct.rollout`, the same bit for bit, computed in chunks by an executor.

    `executor` is any with the `submit` of `concurrent.futures`: threads on all cores unless given, a `ProcessPoolExecutor`, or a
    `dask.distributed.Client` (`pip install 'catena[cluster]'`), whose workers must have catena. `chunk` is the number of trajectories that
    are computed at a time. A chunk whose worker dies is computed again, by another; after three times an error says so. On a terminal a bar
    shows how far it is. The other arguments are those of `ct.rollout`.

    For processes and clusters the model and the functions are pickled: by cloudpickle, which comes with Dask, wherever they are defined;
    without it they must be defined at the top of a module. Machines with processors of another kind may round differently.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> runs = ct.ensemble(m, np.linspace(-1, 1, 100)[:, None], step=0.01, steps=200, chunk=25)
    >>> runs.q.shape
    (100, 201, 1)
    """
    plan = RolloutSettings.of(
        m, q0, v0, controls, step, steps, every, start, integrator, method, parameters, noise, stop, observe, wrenches,
        actuators, tau,
    )  # fmt: skip
    whole: list[Any] = []
    for at, runs in in_chunks(plan, RolloutSettings.run, executor, chunk, show_progress):
        whole = whole or [None if x is None else np.empty((len(plan.q), *x.shape[1:]), x.dtype) for x in runs.parts]
        for mine, x in zip(whole, runs.parts, strict=True):
            if x is not None:
                mine[at] = x
    return plan.shaped(Rollout(plan.times, *whole))


def in_chunks(
    plan: RolloutSettings, task: Callable[[Any, int], Any], executor: Any, chunk: int | None, show_progress: bool | None
) -> Iterator[tuple[slice, Any]]:
    """Yield chunks of the trajectories with what a task gives of each, a function of settings and a number of threads; in order."""
    count = max(len(plan.q), 1)
    with _Workers(executor) as workers:
        size = workers.chunk(plan) if chunk is None else arguments.count("chunk", chunk)
        parts = [slice(i, min(i + size, count)) for i in range(0, count, size)]
        nothing = replace(plan, **plan.part(slice(0, 0)))
        shared = None if workers.threads else _pickled(task, nothing)  # once for all chunks

        def send(executor: Any, part: slice) -> Any:
            if shared is None:
                return executor.submit(_run_in_thread, task, nothing, plan.part(part), workers.stop)
            return executor.submit(_run, shared, plan.part(part))

        with progress(plan.model.name, 0.0, count * plan.steps * plan.step, show_progress) as report:
            for part, found in zip(parts, workers.results(send, parts), strict=True):
                yield part, found
                report(part.stop * plan.steps * plan.step, part.stop * plan.steps)


def _run_in_thread(task: Callable[[Any, int], Any], settings: RolloutSettings, part: dict[str, Any], stop: threading.Event) -> Any:
    """Return what is wanted of a chunk of trajectories; it ends early when the study is given up."""
    with stopped_by(stop):
        return task(replace(settings, **part), 1)


def _run(shared: bytes, part: dict[str, Any]) -> Any:
    """Return what is wanted of a chunk of trajectories; the task that other processes run."""
    task, settings = _unpickled(shared)
    return task(replace(settings, **part), 1)


#: Cached, so that a worker compiles the loop for its first chunk only.
_unpickled = lru_cache(maxsize=8)(pickle.loads)


def _pickled(task: Any, settings: RolloutSettings) -> bytes:
    """Return a task, the model and the functions as bytes, or say what cannot be pickled."""
    try:
        from cloudpickle import dumps  # comes with Dask, and takes functions wherever they are defined
    except ImportError:
        from pickle import dumps
    try:
        return dumps((task, settings))
    except Exception as error:
        model = settings.model
        named = [(f"joint of body '{link.name}'", link.joint) for link in model.links]
        named += [(f"force '{force.name}'", force) for force in (*model.forces, *model.point_forces)]
        named += [(name, getattr(settings, name)) for name in ("controller", "stop", "observe")]
        named += [(name, x) for name, x in getattr(task, "keywords", {}).items() if callable(x)]
        for name, thing in named:
            try:
                dumps(thing)
            except Exception:
                raise ArgumentError(
                    f"ensemble: {name} cannot be pickled; define its function with `def` at the top of a module, "
                    "install cloudpickle, or use threads"
                ) from error
        raise


class _Workers:
    """An executor as a study sees it: how many work, and what to do when one dies."""

    def __init__(self, executor: Any) -> None:
        self.executor = ThreadPoolExecutor(thread_count(None)) if executor is None else executor
        self._owned = executor is None
        if not callable(getattr(self.executor, "submit", None)):
            raise ArgumentError(
                f"executor {executor!r} has no submit; give one of concurrent.futures, a dask.distributed.Client, or none for threads"
            )
        self.threads = isinstance(self.executor, ThreadPoolExecutor)
        self.stop = threading.Event()  # ends chunks of threads early; those of processes go on to their end
        self.count = getattr(executor, "_max_workers", None) or thread_count(None)
        if executor is not None and callable(getattr(executor, "get_executor", None)):  # a client of Dask
            self.executor = executor.get_executor(pure=False)
            self.count = sum(executor.nthreads().values())

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._owned:
            self.executor.shutdown(cancel_futures=True)

    def chunk(self, plan: RolloutSettings) -> int:
        """Return how many trajectories are computed at a time: several chunks for each worker, none too large."""
        each = 8 * (plan.steps // plan.every + 1) * (plan.model.nq + plan.model.nv)
        size = min(-(-len(plan.q) // (4 * max(self.count, 1))), _LARGEST // each)
        return max(_GROUP, size // _GROUP * _GROUP)

    def results(self, send: Callable[[Any, slice], Any], parts: list[slice]) -> Iterator[Any]:
        """Yield the results of the parts in order; those whose worker died are sent again."""
        futures: dict[int, Any] = {}
        tries = [0] * len(parts)

        def submit(k: int) -> None:
            tries[k] += 1
            try:
                futures[k] = send(self.executor, parts[k])
            except BrokenExecutor:
                self._renew()
                futures[k] = send(self.executor, parts[k])

        try:
            for k in range(len(parts)):
                submit(k)
            for k in range(len(parts)):
                while (error := _death(futures[k])) is not None:
                    if tries[k] >= _TRIES:
                        raise SimulationError(
                            f"ensemble: the workers of trajectories {parts[k].start} to {parts[k].stop - 1} died {tries[k]} times "
                            f"({type(error).__name__}: {error}); look at their logs and their memory, or give a smaller chunk="
                        ) from error
                    for other in [k, *(j for j in futures if j != k and futures[j].done() and tries[j] < _TRIES and _death(futures[j]))]:
                        submit(other)
                yield futures.pop(k).result()
        finally:
            for future in futures.values():
                future.cancel()
            if futures:  # an error, or Ctrl-C
                self.stop.set()

    def _renew(self) -> None:
        """Replace a pool of processes that is broken, which takes nothing any more."""
        from concurrent.futures import ProcessPoolExecutor  # here, because few studies need what it imports

        old = self.executor
        if not isinstance(old, ProcessPoolExecutor):
            raise SimulationError(f"ensemble: {old!r} takes no more work after one of its workers died; give another executor")
        settings: Any = old
        self.__exit__()
        self.executor = ProcessPoolExecutor(self.count, settings._mp_context, settings._initializer, settings._initargs)
        self._owned = True


def _death(future: Any) -> Exception | None:
    """Return the error of a future whose worker died, when it is done; other errors are raised."""
    try:
        future.result()
    except Exception as error:
        if isinstance(error, _DIED) or type(error).__name__ in _DIED_ON_DASK:
            return error
        raise
    return None
