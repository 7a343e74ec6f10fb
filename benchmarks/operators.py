"""Products with the mass matrix, its inverse and their square factors, for chains of 8 to 512 links, on one core.

    python benchmarks/operators.py [--quick] [--json FILE]

The chains are those of `catena.examples.chain`. A product takes a batch of 256 columns; figures are microseconds for a column, minima over
repeats that take turns. What depends on the configuration is computed before, and timed apart. The exponent is the slope of a straight
line through the logarithms of time over those of the number of links, by least squares. The accuracy is that of
the products against dense matrices, relative to the largest entry, up to 64 links.
"""

from __future__ import annotations

from functools import partial

import machine
import numpy as np
import results

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


def measure(n: int, seconds: float) -> list[results.Row]:
    """Return the figures of a chain of n links."""
    m = chain(n)
    q = m.random(0)
    ops = ct.operators(m, q)
    x = np.random.default_rng(1).normal(size=(n, COLUMNS))
    times = {product: partial(getattr(ops, product).matmat, x) for product in PRODUCTS}
    held = kernels.first_stage(m, "factored")
    best = machine.fastest({**times, "held": lambda: held(q)}, seconds)
    rows = [results.row(f"chain of {n}", "what depends on the configuration", best["held"] * 1e6)]
    for product in PRODUCTS:
        figures = {"operations": sum(kernels.second_stage(m, product).operations.values())}
        rows.append(results.row(f"chain of {n}", product, best[product] / COLUMNS * 1e6, **figures))
    if n <= DENSE:
        rows.append(results.row(f"chain of {n}", "difference from dense matrices", difference=accuracy(m, ops)))
    return rows


def main() -> None:
    """Measure, print and write the figures."""
    options = results.parser(__doc__).parse_args()
    rows = [row for n in LINKS for row in measure(n, 0.5 if options.quick else 2.0)]
    for product in PRODUCTS:
        times = [row["catena"] for row in rows if row["what"] == product]
        grows = float(np.polyfit(np.log(LINKS), np.log(times), 1)[0])
        rows.append(results.row("chains", f"growth of {product}", time_exponent=grows))
    results.report("operators", rows, options)


if __name__ == "__main__":
    main()
