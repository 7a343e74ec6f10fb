"""Growth of forward dynamics by all methods, chains of 2 to 512 links, on one core.

    python benchmarks/methods.py [--quick] [--most BODIES] [--json FILE] [--plot FILE]

The chains are those of `catena.examples.chain`. Figures are microseconds for a state in a batch, minima over repeats in which the methods
take turns; methods that iterate are solved state by state in Python, and measured on a handful of states. Exponents are slopes of straight
lines through the logarithms, over the upper half of the sizes from 8 on. Differences are from the articulated-body method, relative to the
largest entry of each state.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import machine
from rich.console import Console
from rich.table import Table

import catena as ct
from catena import comparison
from catena.cli.compare import print_growth
from catena.comparison.growth_plot import plot_growth
from catena.examples import arm


def main() -> None:
    """Measure, print the tables, write the figures and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter repeats")
    parser.add_argument("--most", type=int, default=512, help="length of the longest chain")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--plot", type=Path, help="draw the growth, and the arm of the examples beside it, to this file")
    options = parser.parse_args()
    seconds = 0.1 if options.quick else 1.0
    console = Console(width=140, highlight=False, markup=False)
    with console.status("") as status:
        grown = comparison.growth(comparison.sizes(options.most), seconds=seconds, report=status.update)
        beside = comparison.compare(arm(), problems=["forward_dynamics"], seconds=seconds, report=status.update)
    console.print(f"catena {ct.__version__}, commit {machine.commit()}; {machine.description()}")
    names = [line.method for line in grown.lines]
    for title, show in (
        ("time per state in a batch [us]", lambda row: f"{row.batch_us:.3g}"),
        ("operations per state", lambda row: f"{row.operations:,.0f}"),
        ("difference", lambda row: f"{row.disagreement:.0e}"),
        ("build [s], * with code from the cache", lambda row: f"{row.build_seconds:.2f}{'*' if row.cached else ' '}"),
    ):
        table = Table("bodies", title=title, title_justify="left")
        for name in names:
            table.add_column(name, justify="right")
        for found in grown.comparisons:
            table.add_row(str(found.bodies), *(show(found.row("forward_dynamics", name)) for name in names))
        console.print(table)
    for found in grown.comparisons:
        for row in found.rows:
            if row.note:
                console.print(f"{found.bodies} bodies, {row.method}: {row.note}")
    print_growth(console, grown)
    if options.json:
        facts = {"commit": machine.commit(), "machine": machine.description(), "growth": asdict(grown), "arm": asdict(beside)}
        options.json.write_text(json.dumps(facts, indent=1))
    if options.plot:
        plot_growth(grown, options.plot, beside=beside)


if __name__ == "__main__":
    main()
