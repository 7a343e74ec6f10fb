"""Run the benchmarks one after the other, each in a process of its own, and write all figures to one file.

    python benchmarks/all.py [--quick] [--only NAME ...] [--json FILE] [--compare OLD [--fail-above FACTOR]]

The file is benchmarks/results.json unless given; benchmarks/results.py says what is in it. Benchmarks that are not run keep their figures,
with the commit and date of their own. A benchmark that fails is recorded with its message, and the others go on; then the exit code is 1.
`--compare` prints the times beside those of another such file. Benchmarks whose peers are not installed are left out. Pictures of the
documentation are drawn again, unless the run is quick or the file is another one.

Nothing else should run on the machine meanwhile. All of it takes about 20 minutes on one core.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import results
from rich.console import Console

from catena import comparison
from catena.cli.bench import print_changes


class Benchmark(NamedTuple):
    """A script of this folder with its arguments, packages without which it is left out, and a picture of docs/pictures that it draws."""

    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    picture: str = ""


#: The benchmarks in the order in which they run.
BENCHMARKS = {
    "dynamics": Benchmark(("dynamics.py",)),
    "kinematics": Benchmark(("kinematics.py",)),
    "scale": Benchmark(("scale.py",)),
    "cores": Benchmark(("cores.py",), ("distributed",)),
    "simulation": Benchmark(("simulation.py",)),
    "operations": Benchmark(("operations.py",)),
    "methods": Benchmark(("methods.py",), picture="methods.png"),
    "operators": Benchmark(("operators.py",)),
    "loops": Benchmark(("loops.py",)),
    "derivatives": Benchmark(("derivatives.py",)),
    "steps": Benchmark(("steps.py",)),
    "steps-mjx": Benchmark(("steps.py", "mjx"), ("jax", "mujoco.mjx")),
    "environments": Benchmark(("environments.py",)),
    "environments-mjx": Benchmark(("environments.py", "--mjx"), ("jax", "mujoco.mjx")),
    "parameters": Benchmark(("parameters.py",)),
    "ladder": Benchmark(("ladder.py",)),
    "ladder-others": Benchmark(("ladder.py", "--others"), ("pydrake", "exudyn")),
    "making": Benchmark(("ladder.py", "--making")),
    "closed_robots": Benchmark(("closed_robots.py",)),
    "symplectic": Benchmark(("symplectic.py",), picture="symplectic.png"),
    "contact": Benchmark(("contact.py",)),
}


def missing(benchmark: Benchmark) -> list[str]:
    """Return the packages that a benchmark needs and that are not installed."""

    def there(name: str) -> bool:
        return all(importlib.util.find_spec(part) is not None for part in (name.partition(".")[0], name))

    return [name for name in benchmark.needs if not there(name)]


def run(name: str, command: tuple[str, ...], quick: bool) -> dict[str, Any]:
    """Return the results of a benchmark, which runs in a process of its own; its output goes on."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "results.json")
        script = [sys.executable, str(Path(__file__).parent / command[0]), *command[1:], "--json", str(file)] + ["--quick"] * quick
        began = time.perf_counter()
        done = subprocess.run(script, stderr=subprocess.PIPE, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, check=False)
        print(done.stderr, end="", file=sys.stderr)
        found = results.read(file) if file.exists() else results.entry(name, [], quick)
        if list(found["benchmarks"]) != [name]:
            raise SystemExit(f"{command[0]} wrote {', '.join(found['benchmarks'])}, and not {name}")
    entry = found["benchmarks"][name]
    entry["seconds"] = round(time.perf_counter() - began, 1)
    if done.returncode:
        entry["failed"] = (done.stderr.strip() or f"exit code {done.returncode}")[-1000:]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter repeats and smaller models, as a check")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=BENCHMARKS, help=f"some of {', '.join(BENCHMARKS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", default=results.RESULTS, help="the file of results")
    parser.add_argument("--compare", type=Path, metavar="OLD", help="another file of results, whose times are printed beside the new ones")
    parser.add_argument("--fail-above", type=float, metavar="FACTOR", help="with --compare, exit with 1 if a time grew by this factor")
    options = parser.parse_args()
    if options.fail_above is not None and options.compare is None:
        parser.error("--fail-above is a factor of earlier times; give them by --compare OLD")
    old = results.read(options.compare) if options.compare else None
    if options.json.exists():
        results.read(options.json)  # else it would be refused after the first benchmark
    console, failed, ran = Console(width=150, highlight=False, markup=False), [], []
    for name in options.only or BENCHMARKS:
        benchmark = BENCHMARKS[name]
        if lacking := missing(benchmark):
            console.print(f"{name} is left out: {', '.join(lacking)} not installed")
            continue
        picture = benchmark.picture and not options.quick and options.json == results.RESULTS
        more = ("--plot", str(results.ROOT / "docs" / "pictures" / benchmark.picture)) if picture else ()
        found = run(name, (*benchmark.command, *more), options.quick)
        results.write(options.json, results.merged(results.read(options.json) if options.json.exists() else None, found))
        entry = found["benchmarks"][name]
        console.print(f"{name}: {entry['seconds']:.0f} s{', failed' if 'failed' in entry else ''}")
        ran.append(name)
        failed += [name] if "failed" in entry else []
    slower: list[comparison.Change] = []
    if old is not None:
        changes, differ = results.compared(old, results.read(options.json), ran)
        print_changes(console, str(options.compare), changes, differ)
        slower = comparison.beyond(changes, options.fail_above) if options.fail_above is not None else []
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    if slower:
        print(f"slower by more than {options.fail_above:g}: {'; '.join(one.name for one in slower)}", file=sys.stderr)
    sys.exit(1 if failed or slower else 0)


if __name__ == "__main__":
    main()
