"""The methods beside each other: growth of forward dynamics with the number of bodies, chains of 2 to 512 links, and their agreement.

    python benchmarks/methods.py [--quick] [--most BODIES] [--json FILE] [--plot FILE]

The chains are those of `catena.examples.chain`. Figures are microseconds for a state in a batch on one core, minima over repeats in which
the methods take turns. Exponents are slopes of straight lines through the logarithms, over the upper half of the sizes from 8 on.
Differences are from the articulated-body method, relative to the largest entry of each state; last, those on 1,000 random states of an arm,
a humanoid and a chain, and how far `newton-euler` is from giving back the joint forces.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import results
from rich.console import Console

import catena as ct
from catena import comparison
from catena.cli.compare import crossing_text, polynomial_text
from catena.comparison.growth_plot import plot_growth
from catena.examples import arm, chain, humanoid

FORWARD = "forward_dynamics"


def growth(most: int, seconds: float, plot: Path | None) -> list[results.Row]:
    """Return the figures of chains, and how they grow."""
    with Console().status("") as status:
        grown = comparison.growth(comparison.sizes(most), seconds=seconds, report=status.update)
        if plot:
            plot_growth(grown, plot, beside=comparison.compare(arm(), problems=[FORWARD], seconds=seconds, report=status.update))
    rows = []
    for found in grown.comparisons:
        for one in found.rows:
            figures = {"operations": one.operations, "disagreement": one.disagreement, "build_s": one.build_seconds}
            figures |= {"note": one.note} if one.note else {}
            rows.append(results.row(f"chain of {found.bodies}", one.method, one.batch_us, **figures))
    for line in grown.lines:
        exact = grown.polynomials.get(line.method)
        figures = {"time_exponent": line.time_exponent, "operations_exponent": line.operations_exponent}
        figures |= {"operations": polynomial_text(exact)} if exact else {}
        rows.append(results.row("chains", f"growth of {line.method}", **figures))
    for one in grown.crossings:
        if one.quantity == "batch_us":
            rows.append(results.row("chains", f"{one.cheaper} is faster than {one.than}", bodies=crossing_text(one)))
    return rows


def agreement(states: int) -> list[results.Row]:
    """Return how far methods are from each other on random states."""
    rows = []
    for m in (arm(), humanoid(), chain(30)):
        rng = np.random.default_rng(0)
        q, v, tau = m.random(rng, states), rng.normal(size=(states, m.nv)), rng.normal(size=(states, m.nv))
        forward = {name: ct.forward_dynamics(m, name)(q, v, tau) for name in ("articulated-body", "composite-body", "innovations")}
        own = forward.pop("articulated-body")
        off = {name: comparison.disagreement(own, other) for name, other in forward.items()}
        off["newton-euler"] = comparison.disagreement(tau, ct.inverse_dynamics(m, "newton-euler")(q, v, own))
        rows.append(results.row(m.name, f"differences on {states:,} states", freedom=m.nv, **off))
    return rows


def main() -> None:
    """Measure, print and write the figures, draw the picture."""
    parser = results.parser(__doc__)
    parser.add_argument("--most", type=int, help="length of the longest chain; 512, with --quick 16")
    parser.add_argument("--plot", type=Path, help="draw the growth, and the arm of the examples beside it, to this file")
    options = parser.parse_args()
    most = options.most or (16 if options.quick else 512)
    results.report("methods", growth(most, 0.05 if options.quick else 0.2, options.plot) + agreement(1000), options)


if __name__ == "__main__":
    main()
