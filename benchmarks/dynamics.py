"""Dynamics of chains of general geometry: catena beside Pinocchio, same states, one run, one core.

    python benchmarks/dynamics.py [--quick] [--json FILE]

Chains of revolute joints with random axes and placements and full inertias; batches of 10,000 states in ordinary C-order arrays. Times are
minima over repeats that take turns. The vector-issue limit is the rate of independent vector multiply-adds, measured in the same run; the
share is that of the arithmetic vector instructions of the kernel's machine code, a fused multiply-add counting as one. Pinocchio has no
batches of mass matrices, and `crba` is called from Python state by state. The arm of the examples follows, by itself.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path

import machine
import numpy as np
import pinocchio as pin
import results

import catena as ct
from catena.comparison.peers import Pinocchio
from catena.examples import EXAMPLES

STATES, MATRICES = 10_000, 2_000


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


def issue_share(kernel: ct.Kernel, states: int, seconds: float, limit: float) -> float:
    """Return the vector instructions that a kernel issues for some states, as a part of what 100,000 turns at the limit issue in time."""
    return vector_instructions(kernel) * (states / kernel.lanes) / seconds / (12 * 100_000 / limit)


def build_seconds(n: int, cache: str) -> float:
    """Return the seconds that a new process needs to build the kernel of a chain."""
    code = (
        "import sys, time\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from dynamics import chain, ct\n"
        f"m = chain({n})\n"
        "start = time.perf_counter()\n"
        "ct.forward_dynamics(m)\n"
        "print(time.perf_counter() - start)\n"
    )
    return machine.in_new_process(code, cache)


def measure(n: int, seconds: float, peer: bool) -> list[results.Row]:
    """Return the figures of a chain of n bodies."""
    count = STATES if n <= 100 else STATES // 10
    m = chain(n)
    fd = ct.forward_dynamics(m)
    q, v, tau = states(m, count)
    out = np.empty((count, m.nv))
    one = q[0].copy(), v[0].copy(), tau[0].copy()
    batch = {"catena": lambda: fd(q, v, tau, out=out)}
    single = {"catena": lambda: [fd(*one) for _ in range(100)]}
    operations = sum(fd.operations[kind] for kind in ("add", "mul", "div"))
    figures = {"states": count, "operations": operations}
    if peer:
        model = Pinocchio(m).model
        data, pool = model.createData(), pin.ModelPool(model, 1)
        columns = [np.asfortranarray(x.T) for x in (q, v, tau)]
        result = np.zeros((m.nv, count), order="F")
        batch["Pinocchio"] = lambda: pin.abaInParallel(1, pool, *columns, result)
        single["Pinocchio"] = lambda: [pin.aba(model, data, *one) for _ in range(100)]
        batch["catena"](), batch["Pinocchio"]()
        figures["disagreement"] = float(np.abs(out - result.T).max() / np.abs(result).max())
    limit = machine.vector_operations(fd.lanes)
    batch["limit"] = lambda: limit(100_000)
    best = machine.fastest(batch, seconds)
    figures["issue_share"] = issue_share(fd, count, best["catena"], best.pop("limit"))
    us = {name: 1e6 * time / count for name, time in best.items()}
    alone = {name: 1e6 * time / 100 for name, time in machine.fastest(single, seconds / 2).items()}
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = build_seconds(n, cache), build_seconds(n, cache)
    return [
        results.row(m.name, "forward dynamics, batch", us.pop("catena"), us, **figures),
        results.row(m.name, "forward dynamics, one call", alone.pop("catena"), alone),
        results.row(m.name, "trace and compile, first time", 1e6 * cold),
        results.row(m.name, "trace and compile, from the cache", 1e6 * warm),
    ]


def others(n: int, seconds: float) -> list[results.Row]:
    """Return the figures of inverse dynamics and of the mass matrix of a chain of n bodies."""
    m = chain(n)
    inverse, mass = ct.inverse_dynamics(m), ct.mass_matrix(m)
    q, v, vdot = states(m, STATES)
    out, few, many = np.empty_like(v), np.empty((64, n, n)), np.empty((MATRICES, n, n))
    model = Pinocchio(m).model
    data, pool = model.createData(), pin.ModelPool(model, 1)
    columns = [np.asfortranarray(x.T) for x in (q, v, vdot)]
    result, some = np.zeros((n, STATES), order="F"), list(q[:100].copy())
    parts = [q[i : i + 64].copy() for i in range(0, 64 * 20, 64)]
    turns = {
        "inverse": (STATES, lambda: inverse(q, v, vdot, out=out)), "rnea": (STATES, lambda: pin.rneaInParallel(1, pool, *columns, result)),
        "64 states": (64 * len(parts), lambda: [mass(part, out=few) for part in parts]),
        f"{MATRICES} states": (MATRICES, lambda: mass(q[:MATRICES], out=many)),
        "crba": (len(some), lambda: [pin.crba(model, data, one) for one in some]),
    }  # fmt: skip
    best = machine.fastest({name: turn for name, (_, turn) in turns.items()}, seconds)
    us = {name: 1e6 * best[name] / count for name, (count, _) in turns.items()}
    disagreement = float(np.abs(out - result.T).max() / np.abs(result).max())
    rows = [results.row(m.name, "inverse dynamics, batch", us["inverse"], {"Pinocchio": us["rnea"]}, disagreement=disagreement)]
    return rows + [results.row(m.name, f"mass matrix, {name}", us[name], {"Pinocchio": us["crba"]}) for name in us if "states" in name]


def example(seconds: float) -> list[results.Row]:
    """Return the figures of the arm of the examples: single calls, and large batches with one and with two threads."""
    m = EXAMPLES["arm"]()
    fd, inverse = ct.forward_dynamics(m), ct.inverse_dynamics(m)
    q, v, tau = states(m, 10 * STATES)
    out, one = np.empty_like(v), (q[0].copy(), v[0].copy(), tau[0].copy())

    def threaded() -> None:
        with ct.threads(2):
            fd(q, v, tau, out=out)

    calls = {"forward": lambda: [fd(*one) for _ in range(100)], "inverse": lambda: [inverse(*one) for _ in range(100)]}
    alone = machine.fastest(calls, seconds)
    limit = machine.vector_operations(fd.lanes)
    turns = {"one": lambda: fd(q, v, tau, out=out), "two": threaded, "limit": lambda: limit(100_000)}
    best = machine.fastest(turns, 1.5 * seconds)
    share = issue_share(fd, len(q), best["one"], best.pop("limit"))
    us = {name: 1e6 * time / len(q) for name, time in best.items()}
    return [
        results.row(m.name, "forward dynamics, one call", 1e4 * alone["forward"]),
        results.row(m.name, "inverse dynamics, one call", 1e4 * alone["inverse"]),
        results.row(m.name, "forward dynamics, batch", us["one"], states=len(q), issue_share=share),
        results.row(m.name, "forward dynamics, batch, two threads", us["two"], states=len(q), speedup=us["one"] / us["two"]),
    ]


def main() -> None:
    """Measure, print and write the figures."""
    options = results.parser(__doc__).parse_args()
    seconds = 0.5 if options.quick else 4.0
    rows = [row for n in (7, 30, 100, 1000) for row in measure(n, seconds, peer=n <= 100)]
    rows += [row for n in (7, 30, 100) for row in others(n, seconds)]
    results.report("dynamics", rows + example(seconds), options)


if __name__ == "__main__":
    main()
