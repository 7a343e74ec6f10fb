"""More cores: threads in a call, rollouts over threads, ensembles over workers, and what the memory gives.

    python benchmarks/cores.py [--quick] [--json FILE]

Forward dynamics of 100,000 states of the arm of the examples and of a chain of 30 bodies of general geometry; of the arm, 2,000 rollouts of
200 steps of RK4, and 20,000 of them as an ensemble over workers of Dask, which are processes; each by one and by all cores. The memory is
that of a copy of arrays of 200 MB, by one thread and by as many as there are cores; a copy reads and writes, and `needs` is what the batch
reads and writes. What all cores gain at best is measured by multiply-adds in registers.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import machine
import numpy as np
import results
from dynamics import chain, states

import catena as ct
from catena.examples import EXAMPLES

CORES = os.cpu_count() or 1


def side_by_side(function: Callable[..., object], *arguments: tuple) -> Callable[[], None]:
    """Return a function that calls another one with all of some arguments at once, each in a thread of its own."""

    def run() -> None:
        parts = [threading.Thread(target=function, args=one) for one in arguments]
        for part in parts:
            part.start()
        for part in parts:
            part.join()

    return run


def copied(threads: int) -> Callable[[], None]:
    """Return a function that copies 200 MB, shared among threads."""
    pairs = [(np.zeros(25_000_000 // threads), np.zeros(25_000_000 // threads)) for _ in range(threads)]
    return side_by_side(np.copyto, *pairs)


def batches(m: ct.Model, name: str, seconds: float) -> list[results.Row]:
    """Return the figures of the forward dynamics of a large batch."""
    fd = ct.forward_dynamics(m)
    q, v, tau = states(m, 100_000)
    out = np.empty_like(v)

    def batch(threads: int) -> None:
        with ct.threads(threads):
            fd(q, v, tau, out=out)

    best = machine.fastest({n: lambda n=n: batch(n) for n in (1, CORES)}, seconds)
    us = {n: 1e6 * x / len(q) for n, x in best.items()}
    what = f"forward dynamics{name}, batch"
    return [
        results.row(m.name, f"{what}, one thread", us[1], needs_GB_per_s=4 * out.nbytes / best[1] / 1e9),
        results.row(m.name, f"{what}, {CORES} threads", us[CORES], speedup=us[1] / us[CORES]),
    ]


def main() -> None:
    """Measure, print and write the figures."""
    options = results.parser(__doc__).parse_args()
    seconds = 1.0 if options.quick else 6.0
    m = EXAMPLES["arm"]()
    many = {"one": 1, "all": CORES}

    copies = machine.fastest({name: copied(threads) for name, threads in many.items()}, seconds)
    rate = {name: 2 * 0.2 / best for name, best in copies.items()}
    rows = [results.row("memory", "a copy", GB_per_s_one_thread=rate["one"], GB_per_s_all_cores=rate["all"])]

    arithmetic = machine.vector_operations(ct.forward_dynamics(m).lanes)
    best = machine.fastest({name: side_by_side(arithmetic, *[(3_000_000,)] * threads) for name, threads in many.items()}, seconds)
    rows.append(results.row("arithmetic", f"multiply-adds in registers, {CORES} threads", speedup=CORES * best["one"] / best["all"]))
    rows += batches(m, "", seconds) + batches(chain(30), " of a chain of 30", seconds)

    count, steps = (200, 50) if options.quick else (2000, 200)
    q, v, _ = states(m, 10 * count)

    def rollout(threads: int) -> None:
        ct.rollout(m, q[:count], v[:count], step=1e-3, steps=steps, integrator="rk4", threads=threads)

    best = machine.fastest({name: lambda threads=threads: rollout(threads) for name, threads in many.items()}, seconds)
    us = {name: 1e6 * x / count / steps for name, x in best.items()}
    rows.append(results.row(m.name, "rollouts, one thread", us["one"]))
    rows.append(results.row(m.name, f"rollouts, {CORES} threads", us["all"], speedup=us["one"] / us["all"]))
    rows += ensembles(m, q, v, steps)
    results.report("cores", rows, options)


def ensembles(m: ct.Model, q: np.ndarray, v: np.ndarray, steps: int) -> list[results.Row]:
    """Return how long the rollouts take as an ensemble, by one worker of Dask and by as many as there are cores."""
    from distributed import Client

    us = {}
    for workers in dict.fromkeys((1, CORES)):
        with Client(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as client:
            times = []
            for _ in range(4):  # in the first the workers compile
                began = time.perf_counter()
                ct.ensemble(m, q, v, step=1e-3, steps=steps, every=steps, integrator="rk4", executor=client, chunk=len(q) // 8)
                times.append(time.perf_counter() - began)
        us[workers] = 1e6 * min(times) / len(q) / steps
    return [
        results.row(m.name, f"ensemble, Dask, {n} worker{'s' * (n > 1)}", x, **({"speedup": us[1] / x} if n > 1 else {}))
        for n, x in us.items()
    ]


if __name__ == "__main__":
    main()
