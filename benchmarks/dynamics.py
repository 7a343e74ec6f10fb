"""Forward dynamics of chains of general geometry: catena beside Pinocchio, same states, one run, one core.

    python benchmarks/dynamics.py [--quick] [--json FILE]

Chains of revolute joints with random axes and placements and full inertias; batches of 10,000 states in ordinary C-order arrays. Times are
minima over repeats that take turns. The vector-issue limit is the rate of independent vector multiply-adds, measured in the same run; the
share is that of the arithmetic vector instructions of the kernel's machine code, a fused multiply-add counting as one.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import machine
import numpy as np
import pinocchio as pin
from rich.console import Console
from rich.table import Table

import catena as ct
from catena.comparison.peers import Pinocchio

STATES = 10_000


def chain(n: int, seed: int = 0) -> ct.Model:
    """Return a chain of n bodies of general geometry with revolute joints."""
    rng = np.random.default_rng(seed)
    m = ct.Model(f"chain of {n}")
    parent = "ground"
    for k in range(n):
        root = rng.normal(size=(3, 3))
        inertia = 0.05 * (root @ root.T)
        body = ct.Body(rng.uniform(0.5, 2.0), 0.2 * rng.normal(size=3), inertia + np.trace(inertia) * np.eye(3))
        place = ct.Pose(0.5 * rng.normal(size=3), quat=rng.normal(size=4))
        m.add(f"body{k}", body, ct.Revolute(rng.normal(size=3)), parent, place)
        parent = f"body{k}"
    return m


def states(m: ct.Model, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random q, v, tau."""
    rng = np.random.default_rng(1)
    return rng.uniform(-np.pi, np.pi, (count, m.nq)), rng.normal(size=(count, m.nv)), rng.normal(size=(count, m.nv))


# of vectors: sums, products, fused pairs, quotients, roots; and what sines need: comparisons, choices, rounding, bits
_ARITHMETIC = re.compile(r"^\tv?(?:f?n?m?(?:add|sub)(?:132|213|231)?|mul|div|sqrt|min|max|round|cmp\w*|blendv?|andn?|or|xor)pd\b")


def vector_instructions(kernel: ct.Kernel) -> float:
    """Return the arithmetic vector instructions that the kernel issues for one group of states."""
    counts: Counter[str] = Counter()
    name = ""
    for line in kernel.assembly.splitlines():
        label = re.match(r'^"?(\w+)"?:', line)
        if label:
            name = label.group(1)
        elif _ARITHMETIC.match(line):
            counts[name] += 1
    sines = counts["loop"] * kernel.operations["trig"] // 2  # the only arithmetic of the loop around the blocks
    return float(sines + sum(counts[f"block{call.block}"] for call in kernel.program.calls))


def build_seconds(n: int, cache: str) -> dict[str, float]:
    """Return the seconds that a new process needs to import catena and to build the kernel of a chain."""
    code = (
        "import sys, time, json\n"
        "start = time.perf_counter()\n"
        "import catena as ct\n"
        "imported = time.perf_counter() - start\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from dynamics import chain\n"
        f"m = chain({n})\n"
        "start = time.perf_counter()\n"
        "ct.forward_dynamics(m)\n"
        "print(json.dumps({'import': imported, 'build': time.perf_counter() - start}))\n"
    )
    return machine.in_new_process(code, cache)


def measure(n: int, seconds: float, peer: bool) -> dict[str, Any]:
    """Return the figures of a chain of n bodies."""
    count = STATES if n <= 100 else STATES // 10
    m = chain(n)
    fd = ct.forward_dynamics(m)
    q, v, tau = states(m, count)
    out = np.empty((count, m.nv))
    one = q[0].copy(), v[0].copy(), tau[0].copy()
    batch = {"catena": lambda: fd(q, v, tau, out=out)}
    single = {"catena": lambda: [fd(*one) for _ in range(100)]}
    row: dict[str, Any] = {"bodies": n, "states": count, "operations": sum(fd.operations[kind] for kind in ("add", "mul", "div"))}
    if peer:
        model = Pinocchio(m).model
        data, pool = model.createData(), pin.ModelPool(model, 1)
        columns = [np.asfortranarray(x.T) for x in (q, v, tau)]
        result = np.zeros((m.nv, count), order="F")
        batch["pinocchio"] = lambda: pin.abaInParallel(1, pool, *columns, result)
        single["pinocchio"] = lambda: [pin.aba(model, data, *one) for _ in range(100)]
        batch["catena"](), batch["pinocchio"]()
        row["disagreement"] = float(np.abs(out - result.T).max() / np.abs(result).max())
    limit = machine.vector_operations(fd.lanes)
    batch["limit"] = lambda: limit(100_000)
    best = machine.fastest(batch, seconds)
    row["batch_us"] = best["catena"] / count * 1e6
    rate = 12 * 100_000 / best["limit"]
    row["share"] = vector_instructions(fd) * (count / fd.lanes) / best["catena"] / rate
    row["operation_share"] = row["operations"] * (count / fd.lanes) / best["catena"] / rate
    alone = machine.fastest(single, seconds / 2)
    row["single_us"] = alone["catena"] / 100 * 1e6
    if peer:
        row |= {"peer_batch_us": best["pinocchio"] / count * 1e6, "peer_single_us": alone["pinocchio"] / 100 * 1e6}
    return row


def main() -> None:
    """Measure, print the table, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter repeats")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    seconds = 0.5 if options.quick else 4.0
    rows = []
    for n in (7, 30, 100, 1000):
        row = measure(n, seconds, peer=n <= 100)
        with tempfile.TemporaryDirectory() as cache:
            row["cold_s"] = build_seconds(n, cache)["build"]
            warm = build_seconds(n, cache)
            row["warm_s"], row["import_s"] = warm["build"], warm["import"]
        rows.append(row)
    console = Console(width=140)
    console.print(f"catena {ct.__version__}, commit {machine.commit()}; pinocchio {pin.__version__}; {machine.description()}")
    titles = (
        "bodies", "catena batch [us]", "Pinocchio batch [us]", "ratio", "one call [us]", "pin.aba [us]", "build cold [s]", "warm [s]",
        "of issue limit", "disagreement",
    )  # fmt: skip
    table = Table(*titles)
    for row in rows:
        peer = "peer_batch_us" in row
        table.add_row(
            str(row["bodies"]),
            f"{row['batch_us']:.3g}",
            f"{row['peer_batch_us']:.3g}" if peer else "-",
            f"{row['peer_batch_us'] / row['batch_us']:.1f}" if peer else "-",
            f"{row['single_us']:.3g}",
            f"{row['peer_single_us']:.3g}" if peer else "-",
            f"{row['cold_s']:.2f}",
            f"{row['warm_s']:.2f}",
            f"{100 * row['share']:.0f} %",
            f"{row['disagreement']:.0e}" if peer else "-",
        )
    console.print(table)
    growth = rows[-1]["batch_us"] / rows[-2]["batch_us"]
    console.print(f"100 -> 1,000 bodies: {growth:.1f} times the time per state; import of catena {rows[0]['import_s']:.2f} s")
    if options.json:
        options.json.write_text(json.dumps({"commit": machine.commit(), "machine": machine.description(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
