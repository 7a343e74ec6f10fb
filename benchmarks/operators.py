"""Products with the mass matrix, its inverse and their square factors, for chains of 8 to 512 links, on one core.

    python benchmarks/operators.py [--quick] [--json FILE]

The chains are those of `catena.examples.chain`. A product takes a batch of 256 columns; figures are microseconds for a column, minima over
repeats that take turns. What depends on the configuration is computed before, and timed apart. The exponent is the slope of a straight
line through the logarithms of time over those of the number of links, by least squares; 1.0 is asked, within 0.1. The accuracy is that of
the products against dense matrices, relative to the largest entry, up to 64 links.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import machine
import numpy as np
from rich.console import Console
from rich.table import Table

import catena as ct
from catena.examples import chain
from catena.spatial_operators import kernels

COLUMNS = 256
LINKS = (8, 16, 32, 64, 128, 256, 512)
PRODUCTS = ("mass", "mass_inverse", "mass_sqrt", "mass_inverse_sqrt")
DENSE = 64  # links up to which products are compared with dense matrices


def accuracy(m: ct.Model, ops: ct.Operators) -> float:
    """Return the largest relative difference between the products and those with dense matrices."""
    mass = ct.mass_matrix(m)(ops.q)
    root = np.linalg.cholesky(mass[::-1, ::-1])[::-1, ::-1]
    dense = {"mass": mass, "mass_inverse": np.linalg.inv(mass), "mass_sqrt": root, "mass_inverse_sqrt": np.linalg.inv(root).T}
    found = {product: getattr(ops, product) @ np.eye(m.nv) for product in PRODUCTS}
    return max(float(np.abs(found[product] - dense[product]).max() / np.abs(dense[product]).max()) for product in PRODUCTS)


def measure(n: int, seconds: float) -> dict[str, Any]:
    """Return the figures of a chain of n links."""
    m = chain(n)
    q = m.random(0)
    ops = ct.operators(m, q)
    x = np.random.default_rng(1).normal(size=(n, COLUMNS))
    times = {product: partial(getattr(ops, product).matmat, x) for product in PRODUCTS}
    held = kernels.first_stage(m, "factored")
    best = machine.fastest({**times, "held": lambda: held(q)}, seconds)
    row: dict[str, Any] = {"links": n, "held_us": best["held"] * 1e6}
    row |= {f"{product}_us": best[product] / COLUMNS * 1e6 for product in PRODUCTS}
    row["operations"] = {product: sum(kernels.second_stage(m, product).operations.values()) for product in PRODUCTS}
    if n <= DENSE:
        row["difference"] = accuracy(m, ops)
    return row


def exponent(rows: list[dict[str, Any]], product: str) -> float:
    """Return the power of the number of links with which the time of a product grows."""
    return float(np.polyfit(np.log([row["links"] for row in rows]), np.log([row[f"{product}_us"] for row in rows]), 1)[0])


def main() -> None:
    """Measure, print the table, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter repeats")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    rows = [measure(n, 0.5 if options.quick else 4.0) for n in LINKS]
    exponents = {product: exponent(rows, product) for product in PRODUCTS}
    console = Console(width=140)
    console.print(f"catena {ct.__version__}, commit {machine.commit()}; {machine.description()}; batches of {COLUMNS} columns")
    table = Table("links", *(f"{product}, us" for product in PRODUCTS), "configuration, us", "difference to dense")
    for row in rows:
        difference = f"{row['difference']:.0e}" if "difference" in row else "-"
        table.add_row(str(row["links"]), *(f"{row[f'{product}_us']:.3g}" for product in PRODUCTS), f"{row['held_us']:.3g}", difference)
    table.add_section()
    table.add_row("exponent", *(f"{exponents[product]:.2f}" for product in PRODUCTS), "", "")
    console.print(table)
    off = [product for product in PRODUCTS if abs(exponents[product] - 1.0) > 0.1]
    console.print("exponents within 1.0 +- 0.1" if not off else f"exponents outside 1.0 +- 0.1: {', '.join(off)}")
    if options.json:
        figures = {"commit": machine.commit(), "machine": machine.description(), "exponents": exponents, "rows": rows}
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
