"""`catena compare`: all methods that apply to a model, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from catena import comparison
from catena.cli import completion
from catena.cli.app import Contact, Debug, FloatingBase, Ignore, Json, ModelName, SetParameter, Tolerance, app
from catena.cli.info import find
from catena.cli.printing import new_console, print_json, print_model, print_rows, print_table, sum_text
from catena.cli.simulate import check_outputs
from catena.comparison import Comparison, Crossing, Growth

#: Columns of a terminal from which on the longest name of a method goes on one line; and the longest order.
WIDE, WIDE_ORDER = 92, 96


def _problems(incomplete: str) -> list[str]:
    """Return the problems that begin like the last of some names with commas in between."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in completion.among(name.replace("_", "-") for name in comparison.REFERENCE)(last)]


def _named(what: str | None) -> tuple[str, ...]:
    """Return the problems that an option names."""
    return tuple(comparison.REFERENCE) if what is None else tuple(name.strip().replace("-", "_") for name in what.split(","))


@app.command()
def compare(
    model: ModelName,
    states: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Random states to compare results on; without it up to 1000.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The seed of the random states.")] = 0,
    what: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="The problems to compare, such as mass-matrix; without it all.", autocompletion=_problems),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw how the cost grows with the number of bodies: .png, .svg or .pdf.")
    ] = None,
    most: Annotated[
        int | None, typer.Option(metavar="BODIES", min=8, help="Measure that growth on chains up to this length; 128 with --plot.")
    ] = None,
    set_parameter: SetParameter = None,
    floating_base: FloatingBase = False,
    ignore: Ignore = None,
    contact: Contact = None,
    tolerance: Tolerance = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare the methods that solve the dynamics of a model and its derivatives: their results, and their cost.

    Differences are from the results of a reference method, relative to the largest entry of each state. Times are those of one core.

    Derivatives of forward and inverse dynamics, by recursions and by central differences, are compared with the exact tangents of the
    kernels; with loops, along motions that keep these closed.

    Where Pinocchio is installed and has the joints of the model, its results are compared, too.

    With --plot or --most, also measure how forward dynamics grows with the number of bodies, on chains of links.

    \b
    Examples:
      catena compare arm
      catena compare double-pendulum --states 5000 --json
      catena compare humanoid --what forward-dynamics-derivatives
      catena compare arm --plot growth.png
    """
    m, _ = find(model, floating_base, ignore, tolerance, set_parameter, contact)
    check_outputs({"plot": plot})
    with progress() as report:
        compared = comparison.compare(m, states, seed, _named(what), report=report)
        grown = None
        if plot is not None or most is not None:
            grown = comparison.growth(comparison.sizes(most or 128), seed, report=report)
    if plot is not None and grown is not None:
        from catena.comparison.growth_plot import plot_growth

        plot_growth(grown, plot, beside=compared)
    files = {} if plot is None else {"plot": str(plot)}
    if json:
        print_json({**asdict(compared), "growth": grown and asdict(grown), "files": files})
        return
    console = new_console()
    _print_comparison(console, compared)
    if grown is not None:
        print_growth(console, grown)
    if files:
        console.print()
        print_rows(console, {f"--{name}": path for name, path in files.items()})


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows what is being done, on terminals only."""
    console = new_console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("")
        yield lambda text: bar.update(task, description=text)


def _print_comparison(console: Console, compared: Comparison) -> None:
    """Print a table for each problem, the choice of `auto`, and the methods that do not fit."""
    print_model(console, compared.model, compared.bodies, compared.freedom)
    for choice in compared.automatic:
        rows = [row for row in compared.rows if row.problem == choice.problem]
        reference = compared.references[choice.problem]
        title = choice.problem.replace("_", " ").capitalize()
        cells = []
        for row in rows:
            differs = "reference" if row.method == reference else f"{row.disagreement:.1e}"
            build = f"{row.build_seconds:.2f}{'*' if row.cached else ' '}"
            costs = (number_text(row.operations), number_text(row.single_us), number_text(row.batch_us))
            cells.append((_name(console, row.method), _order(console, row.order), differs, *costs, build))
        columns = ("method", "order", ">differs", ">operations", ">one state\n[us]", ">in batch\n[us]", ">build\n[s]")
        print_table(console, f"\n{title}, {max(row.states for row in rows):,} random states", columns, cells)
        console.print(f"auto takes {choice.method}: {choice.why}")
        for row in rows:
            if row.iterations is not None:
                taken = f"{row.iterations:.1f} iterations on average, residual up to {row.residual:.1e}"
                console.print(f"{row.method}, on {row.states} states: {taken}{f'; {row.note}' if row.note else ''}")
        why = {lack.method: lack.lacks for lack in compared.lacking if lack.problem == choice.problem}
        for lacks in dict.fromkeys(why.values()):
            unfit = [method for method in why if why[method] == lacks]
            console.print(f"{', '.join(unfit)} {'does' if len(unfit) == 1 else 'do'} not fit: {lacks}")
        for peer in compared.peers:
            if peer.problem == choice.problem:
                said = f"is not compared: {peer.why_not}"
                if peer.disagreement is not None:
                    said = f"differs by {peer.disagreement:.1e}, on {peer.states} states"
                console.print(f"Pinocchio's {peer.function} {said}")
    if any(row.cached for row in compared.rows):
        console.print("\n* with code from the cache")
    if compared.no_peer:
        console.print(f"\nPinocchio is not compared: {compared.no_peer}")


def print_growth(console: Console, grown: Growth) -> None:
    """Print how the costs grow, and where one method becomes cheaper than another."""
    sizes = grown.lines[0].bodies
    title = f"\nGrowth of forward dynamics, chains of {sizes[0]} to {sizes[-1]} bodies, in a batch"
    counted, rows = ", ".join(map(str, comparison.COUNTED[:2])), []
    for line in grown.lines:
        exact = polynomial_text(grown.polynomials[line.method]) if line.method in grown.polynomials else ""
        rows.append((_name(console, line.method), f"n^{line.time_exponent:.2f}", f"n^{line.operations_exponent:.2f}", exact))
    print_table(console, title, ("method", ">time", ">operations", f"operations of n bodies, n = {counted}, ..."), rows)
    rows = []
    for by_time in (crossing for crossing in grown.crossings if crossing.quantity == "batch_us"):
        pair = (by_time.cheaper, by_time.than)
        (by_operations,) = (c for c in grown.crossings if c.quantity == "operations" and (c.cheaper, c.than) == pair)
        rows.append((*pair, crossing_text(by_time), crossing_text(by_operations)))
    title = "\nCheaper from this number of bodies on (between these sizes)"
    print_table(console, title, ("method", "than", "by time", "by operations"), rows)


def crossing_text(crossing: Crossing) -> str:
    """Return the number of bodies from which a method is cheaper, in words."""
    below, above = crossing.between
    if above is None:
        return f"not up to {below}"
    return f"from {above}, the least" if crossing.bodies is None else f"{crossing.bodies:.1f} ({below} to {above})"


def polynomial_text(coefficients: tuple[float, ...]) -> str:
    """Return a polynomial in n, the highest power first.

    >>> polynomial_text((-442.0, 199.0 + 1 / 6, 9.5, 1 / 3))
    '0.333 n^3 + 9.5 n^2 + 199 n - 442'
    """
    powers = ["", " n", *(f" n^{k}" for k in range(2, len(coefficients)))]
    terms = [(c, f"{abs(c):.3g}{power}") for c, power in zip(coefficients, powers, strict=False) if c]
    return sum_text(reversed(terms))


def _name(console: Console, method: str) -> str:
    """Return the name of a method, on two lines where there is little room."""
    return method if console.width >= WIDE else method.replace("/", "/\n  ")


def _order(console: Console, order: str) -> str:
    """Return how a cost grows; a long order has a line for each term where there is little room."""
    return order if console.width >= WIDE_ORDER or len(order) < 10 else order.replace(" + ", " +\n")


def number_text(x: float) -> str:
    """Return a number as people read it: whole from 100 on, with three digits below."""
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"
