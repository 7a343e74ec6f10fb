"""Exploration without end: random mechanisms, and features of models and runs that are crossed at random, against independent answers.

    make soak                      until Ctrl-C
    make soak SECONDS=600          for ten minutes
    python -m tests.soak --seeds 0:10000 --kept results.jsonl
    python -m tests.soak --what loops,pairs --seeds 0:500

A seed draws what is explored, unless `--what` names it. A failure prints how to see it again. With `--kept` the results of each seed are
appended to a file, and seeds that are in it are not explored again, so that a range can be explored in parts.

Graphs of kernels are evaluated by NumPy, which takes a fraction of the time of compiling them; with `--compiled` kernels are machine code,
as those of runs are in any case. The test suite runs the same explorations over fixed seeds, in `test_soak.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
from tests.evaluation import evaluate
from tests.explorations import loops, motions, pairs, sequences, slopes
from tests.explorations.report import Failure, Report

#: What can be explored: the report of a seed.
EXPLORATIONS: dict[str, Callable[[int], Report]] = {
    "loops": loops.explore, "pairs": pairs.explore,
    **{name: partial(motions.guarded, explore)
       for name, explore in (motions.EXPLORATIONS | slopes.EXPLORATIONS | sequences.EXPLORATIONS).items()},
}  # fmt: skip

#: How often each is drawn, where it is not once.
SHARES = {"loops": 6.0, "pairs": 6.0, "slopes": 2.0, "sequences": 2.0}


def explored(seed: int, what: tuple[str, ...]) -> tuple[int, str, Report]:
    """Return the seed, one of these explorations, and what it shows."""
    shares = np.array([SHARES.get(name, 1.0) for name in what])
    drawn = str(np.random.default_rng([seed, 7]).choice(list(what), p=shares / shares.sum()))
    return seed, drawn, EXPLORATIONS[drawn](seed)


class Kept:
    """The results of seeds in a file of one line each, read where it is there already."""

    def __init__(self, path: Path | None) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.seeds: set[int] = set()
        self._path = path
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                known = json.loads(line)
                self._add(known["seed"], Counter(known["counts"]), [Failure(*failure) for failure in known["failures"]])

    def _add(self, seed: int, counts: Counter[str], failures: list[Failure]) -> None:
        self.seeds.add(seed)
        self.counts += counts
        self.failures += Counter(failure.what for failure in failures)

    def add(self, seed: int, report: Report) -> None:
        self._add(seed, report.counts, report.failures)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps({"seed": seed, "counts": report.counts, "failures": report.failures}) + "\n")

    def tell(self, seconds: float) -> None:
        listed = "".join(f"\n  {number:8,d}  {what}" for what, number in sorted(self.counts.items()))
        wrong = "".join(f"\n  {number:8,d}  {what}" for what, number in sorted(self.failures.items()))
        total = sum(self.failures.values())
        print(f"after {seconds:,.0f} s, {len(self.seeds):,d} seeds:{listed}\n{total} failures{wrong}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="soak", description="Explore random mechanisms and features, against independent answers.")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long; without end if not given")
    parser.add_argument("--seeds", default=None, help="a range, such as 0:10000; from a new one on if not given")
    parser.add_argument("--what", default=",".join(EXPLORATIONS), help=f"some of {', '.join(EXPLORATIONS)}")
    parser.add_argument("--kept", type=Path, default=None, help="a file that results are appended to; its seeds are not explored again")
    parser.add_argument("--compiled", action="store_true", help="compile all kernels")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args(arguments)
    what = tuple(given.what.split(","))
    if unknown := set(what) - set(EXPLORATIONS):
        parser.error(f"{', '.join(sorted(unknown))} cannot be explored; give some of {', '.join(EXPLORATIONS)}")
    kept = Kept(given.kept)
    first, _, last = (given.seeds or f"{int(time.time()) * 1000}:").partition(":")
    seeds: Iterator[int] = iter(range(int(first), int(last)) if last else count(int(first)))
    print(f"soak from seed {first}, {len(kept.seeds):,d} of them known", flush=True)
    began = told = time.monotonic()
    with ProcessPoolExecutor(given.workers, initializer=evaluate, initargs=(not given.compiled,)) as pool:
        pending: set = set()
        try:
            while True:
                while len(pending) < 2 * given.workers and time.monotonic() - began < given.seconds:
                    seed = next((seed for seed in seeds if seed not in kept.seeds), None)
                    if seed is None:
                        break
                    pending.add(pool.submit(explored, seed, what))
                if not pending:
                    break
                done, pending = wait(pending, timeout=1.0, return_when=FIRST_COMPLETED)
                for one in done:
                    seed, drawn, report = one.result()
                    kept.add(seed, report)
                    for failure in report.failures:
                        print(f"\n--- {failure.name}, seed {failure.seed}: {failure.what} {failure.detail}\n{failure.script}")
                        print(f"again by: python -m tests.soak --what {drawn} --seeds {seed}:{seed + 1}\n", flush=True)
                if time.monotonic() - told > 30.0:
                    told = time.monotonic()
                    kept.tell(told - began)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
    kept.tell(time.monotonic() - began)
    return 1 if kept.failures else 0


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main())
