"""Figures of the benchmarks in one structure: rows, their file, and the comparison of two files.

A file, such as benchmarks/results.json, is

    {"head": {"date", "commit", "clean", "machine": {...}, "versions": {...}, "builds": {...}},
     "benchmarks": {NAME: {"date", "commit", "clean", "quick", "seconds", "rows": [ROW, ...]}, ...}}

The head is that of the last measurement; entries that were kept from before, on another machine or with other versions, have their own
`machine`, `versions` and `builds`. `clean` is false where the work tree had changes on top of the commit; `builds` says how the peers were
built, as far as they tell. An entry whose script ended with an error has its message as "failed", and "note" is a remark by hand. A row is

    {"model": "chain of 7", "what": "forward dynamics, batch", "catena": 0.067, "peers": {"Pinocchio": 2.1}, "ratios": {"Pinocchio": 31.3},
     "figures": {"disagreement": 1e-14}}

Times are in microseconds for one state, step or call; a ratio is the time of the peer over that of catena, both from one run. `figures` are
other numbers, with their unit in the name. Rows of an entry differ in `model` or in `what`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from catena import comparison

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results.json"

#: Packages whose versions are recorded, where they are installed.
PACKAGES = ("catena", "scipy", "pin", "mujoco", "mujoco-core", "drake", "exudyn", "gymnasium", "jax", "mujoco-mjx")

#: What is taken for noise where no peer was measured beside, whose change would tell.
UNKNOWN_NOISE = 0.1

_BEGAN = time.perf_counter()

Row = dict[str, Any]


def row(model: str, what: str, catena: float | None = None, peers: Mapping[str, float] | None = None, **figures: Any) -> Row:
    """Return a row: times in microseconds, and other figures."""
    found: Row = {"model": model, "what": what}
    if catena is not None:
        found["catena"] = catena
    if peers:
        found |= {"peers": dict(peers), "ratios": {name: time / catena for name, time in peers.items()} if catena else {}}
    if figures:
        found["figures"] = figures
    return found


# what was measured on


def head() -> dict[str, Any]:
    """Return the date, the commit, the machine, the versions, and what is known of how the peers were built."""
    versions = comparison.software() | {name: importlib.metadata.version(name) for name in PACKAGES if _installed(name)}
    machine = comparison.this_machine() | {"cores": os.cpu_count()}
    return {**_when(), "machine": machine, "versions": versions, "builds": _builds()}


def _when() -> dict[str, Any]:
    """Return the date, the commit, and whether the work tree is that of the commit but for results and pages that are made of them."""
    run: dict[str, Any] = {"cwd": ROOT, "capture_output": True, "text": True, "check": True}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], **run).stdout.strip()
    changed = subprocess.run(["git", "status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks/*.py"], **run).stdout.strip()
    return {"date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), "commit": commit, "clean": not changed}


def _installed(name: str) -> bool:
    return bool(list(importlib.metadata.distributions(name=name)))


def _builds() -> dict[str, str]:
    """Return how the peers were built: the tags of their wheels, and the vector instructions of Pinocchio's Eigen."""
    found = {}
    for name in ("pin", "mujoco-core", "drake", "exudyn"):
        if _installed(name):
            text = importlib.metadata.distribution(name).read_text("WHEEL") or ""
            tags = [line.split(": ", 1)[1] for line in text.splitlines() if line.startswith("Tag: ")]
            found[name] = f"wheel {tags[0]}" if tags else "no wheel"
    if "pin" in found and _installed("eigenpy"):
        import eigenpy  # type: ignore[import-not-found]

        found["pin"] += f", vector instructions: {eigenpy.SimdInstructionSetsInUse()}"
    return found


# the file


def read(path: Path) -> dict[str, Any]:
    """Return what a file of results holds."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SystemExit(f"{path}: there is no such file") from None
    except ValueError as error:
        raise SystemExit(f"{path}: this is not JSON: {error}") from None
    if not isinstance(found, dict) or found.keys() != {"head", "benchmarks"}:
        raise SystemExit(f"{path}: this is not a file of benchmarks; python benchmarks/all.py writes one")
    return found


def write(path: Path, facts: dict[str, Any]) -> None:
    """Write a file in one go: it is there as it was, or as it is to be."""
    text = json.dumps(facts, indent=1, allow_nan=False, ensure_ascii=False)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_text(f"{text}\n", encoding="utf-8")
    os.replace(beside, path)


def merged(before: dict[str, Any] | None, now: dict[str, Any]) -> dict[str, Any]:
    """Return the results of before with those of now in their place; what is kept has the machine and the versions of its own."""
    if before is None:
        return now
    facts = ("machine", "versions", "builds")
    own = {name: before["head"][name] for name in facts if before["head"][name] != now["head"][name]}
    kept = {name: own | entry for name, entry in before["benchmarks"].items()}
    return {"head": now["head"], "benchmarks": kept | now["benchmarks"]}


def entry(name: str, rows: list[Row], quick: bool, failed: str = "") -> dict[str, Any]:
    """Return the results of one benchmark."""
    if len({(one["model"], one["what"]) for one in rows}) < len(rows):
        raise ValueError(f"{name} has rows that do not differ in model or what")
    facts = {**_when(), "quick": quick, "seconds": round(time.perf_counter() - _BEGAN, 1), "rows": rows}
    return {"head": head(), "benchmarks": {name: facts | ({"failed": failed} if failed else {})}}


# what scripts have in common


def parser(description: str | None, quick: str = "shorter repeats") -> argparse.ArgumentParser:
    """Return a parser of the options that all scripts have."""
    found = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--quick", action="store_true", help=quick)
    found.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file; other benchmarks in it are kept")
    return found


def report(name: str, rows: list[Row], options: argparse.Namespace) -> None:
    """Print rows as tables, and write them to the file that is asked for."""
    found = entry(name, rows, options.quick)
    show(found)
    if options.json:
        write(options.json, merged(read(options.json) if options.json.exists() else None, found))


def show(results: dict[str, Any]) -> None:
    """Print results: a table for all rows of a benchmark that have the same peers."""
    console = Console(width=150, highlight=False, markup=False)
    console.print(head_text(results["head"]))
    for name, found in results["benchmarks"].items():
        groups: dict[tuple[str, ...], list[Row]] = {}
        for one in found["rows"]:
            groups.setdefault(tuple(one.get("peers", ())), []).append(one)
        for peers, rows in groups.items():
            figures = list(dict.fromkeys(figure for one in rows for figure in one.get("figures", ())))
            table = Table("model", "what", "catena, us", title=name, title_justify="left")
            for title in (*(title for peer in peers for title in (f"{peer}, us", "ratio")), *figures):
                table.add_column(title, overflow="fold")
            for one in rows:
                cells = [number(one["catena"]) if "catena" in one else ""]
                for peer in peers:
                    cells += [number(one["peers"][peer]), ratio(one["ratios"][peer]) if one["ratios"] else ""]
                values = (one.get("figures", {}).get(figure, "") for figure in figures)
                table.add_row(one["model"], one["what"], *cells, *(value if isinstance(value, str) else number(value) for value in values))
            console.print(table)


def head_text(facts: Mapping[str, Any]) -> str:
    """Return commit, machine and versions in a line."""
    machine, versions = facts["machine"], ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    where = f"{machine['processor']} ({machine['compiled_for']}, {machine['lanes']} lanes), {machine['cores']} cores, {machine['system']}"
    return f"commit {facts['commit']}{'' if facts['clean'] else ' with changes'}, {facts['date']}; {where}; {versions}"


def number(x: float) -> str:
    """Return a number with three digits, whole numbers with all.

    >>> [number(x) for x in (0.01234, 0.3, 12.345, 99.96, 1234.5, 180123.0, 7000, 3.2e-14)]
    ['0.0123', '0.300', '12.3', '100', '1,230', '180,000', '7,000', '3e-14']
    """
    if isinstance(x, int):
        return f"{x:,}"
    if 0.0 < abs(x) < 1e-4:
        return f"{x:.0e}".replace("e-0", "e-")
    digits = f"{x:#.3g}".rstrip(".")
    return f"{float(digits):,.0f}" if "e" in digits else digits


def ratio(x: float) -> str:
    """Return how many times longer something takes: two digits, or whole."""
    return f"{x:,.0f}" if x >= 9.95 else f"{x:.1f}"


# two files


def compared(before: dict[str, Any], now: dict[str, Any], names: Iterable[str]) -> tuple[list[comparison.Change], list[str]]:
    """Return how the times of the rows of benchmarks changed, and what else differs.

    Noise is how much the times of the peers in the same rows changed, which are other code; without peers it is 10 %.
    """
    changes: list[comparison.Change] = []
    differ: dict[str, None] = {}
    for name in names:
        if name not in before["benchmarks"] or name not in now["benchmarks"]:
            continue
        old, new = before["benchmarks"][name], now["benchmarks"][name]
        for facts in ("machine", "versions", "builds"):
            theirs, ours = ({**results["head"], **found}[facts] for results, found in ((before, old), (now, new)))
            differ |= dict.fromkeys(comparison.differing(theirs, ours))
        if old["quick"] != new["quick"]:
            differ[f"{name}: one of the runs was quick"] = None
        known = {(one["model"], one["what"]): one for one in old["rows"] if "catena" in one}
        for one in new["rows"]:
            first = known.get((one["model"], one["what"]))
            if first is None or "catena" not in one:
                continue
            shared = [(first["peers"][peer], time) for peer, time in one.get("peers", {}).items() if peer in first.get("peers", {})]
            noise = max((max(a / b, b / a) - 1.0 for a, b in shared), default=UNKNOWN_NOISE)
            title = f"{name}: {one['model']}, {one['what']}"
            changes.append(comparison.change(title, first["catena"], one["catena"], noise))
    return changes, [*differ]
