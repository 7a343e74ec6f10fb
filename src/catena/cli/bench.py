"""`catena bench`: how long the kernels of a model take on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import catena as ct
from catena import comparison
from catena.cli.app import FAILED, Contact, Debug, FloatingBase, Ignore, Json, SetParameter, Tolerance, app, model_argument
from catena.cli.compare import number_text, progress
from catena.cli.info import find
from catena.cli.printing import new_console, print_json, print_message, print_model, print_table
from catena.comparison import Bench, Change
from catena.errors import ArgumentError
from catena.simulation.rollout import thread_count


@app.command()
def bench(
    model: Annotated[str, model_argument("A model file or a built-in example; without it the arm.")] = "arm",
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Cores to use at most; without it all.")] = None,
    seconds: Annotated[float, typer.Option(metavar="TIME", min=0.0, help="How long each call is timed [s].")] = 0.1,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The seed of the random states.")] = 0,
    compare: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Compare with an earlier bench of the model: what `catena bench --json` printed.")
    ] = None,
    fail_above: Annotated[
        float | None, typer.Option(metavar="FACTOR", min=1.0, help="With --compare, exit with 1 if something takes longer by this factor.")
    ] = None,
    set_parameter: SetParameter = None,
    floating_base: FloatingBase = False,
    ignore: Ignore = None,
    contact: Contact = None,
    tolerance: Tolerance = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Time the kernels of a model on this machine: one call, a batch of states on one core, and on all.

    Where Pinocchio is installed and has the joints of the model, its functions take turns with the kernels, on the same states. Times are
    the shortest of several runs, in microseconds for a state.

    With --compare, times stand beside those of an earlier bench. "slower" and "faster" are marked where the change is more than how far
    repeats of both differ, and 5 %. What else differs is listed first: on another machine or with other versions, ratios mean little.

    \b
    Examples:
      catena bench
      catena bench four-bar --seconds 0.5
      catena bench robot.urdf --threads 1 --json > old.json
      catena bench robot.urdf --threads 1 --compare old.json
    """
    if fail_above is not None and compare is None:
        raise ArgumentError("--fail-above is a factor of earlier times; give them by --compare FILE")
    before = None if compare is None else comparison.read_bench(compare)
    m, _ = find(model, floating_base, ignore, tolerance, set_parameter, contact)
    if before is not None and before.model != m.name:
        raise ArgumentError(f"{compare}: this is a bench of '{before.model}', not of '{m.name}'; compare benches of one model")
    with progress() as report:
        measured = comparison.bench(m, thread_count(threads), seed, seconds, report)
    measured = replace(measured, versions={"catena": ct.__version__, **measured.versions})
    if before is None:
        if json:
            print_json(asdict(measured))
        else:
            _print_bench(new_console(), measured)
        return
    changes, differ = comparison.compared(before, measured), comparison.what_differs(before, measured)
    if json:
        print_json(asdict(measured) | {"compared": {"differ": differ, "changes": [asdict(one) for one in changes]}})
    else:
        _print_head(new_console(), measured)
        print_changes(new_console(), str(compare), changes, differ)
    if fail_above is not None and (slower := comparison.beyond(changes, fail_above)):
        print_message("error", f"slower by more than {fail_above:g}: {', '.join(one.name for one in slower)}")
        raise typer.Exit(FAILED)


def short_name(kernel: str) -> str:
    """Return the name of a kernel as it fits the table."""
    return kernel.replace("_dynamics_derivatives", "_derivatives")


def ratio_text(ratio: float) -> str:
    """Return how many times longer something takes, in two digits or whole.

    >>> ratio_text(0.356), ratio_text(7.0), ratio_text(117.3)
    ('0.36x', '7x', '117x')
    """
    return f"{ratio:.2g}x" if ratio < 99.5 else f"{ratio:.0f}x"


def _print_head(console: Console, measured: Bench) -> str:
    """Print machine, versions and model, and return the number of cores in words."""
    machine = measured.machine
    cores = "1 core" if machine["cores"] == 1 else f"{machine['cores']} cores"
    console.print(f"{machine['processor']} ({machine['compiled_for']}, {machine['lanes']} lanes), {cores}")
    console.print(", ".join(f"{name} {number}" for name, number in measured.versions.items()))
    console.print()
    print_model(console, measured.model, measured.bodies, measured.freedom)
    return cores


def print_changes(console: Console, path: str, changes: Sequence[Change], differ: Sequence[str]) -> None:
    """Print what differs from an earlier measurement, and a table of times before and now."""
    if differ:
        console.print(f"{path} was measured otherwise, so ratios mean little: {'; '.join(differ)}", soft_wrap=True)
    rows = [(one.name, number_text(one.before_us), number_text(one.now_us), f"{one.ratio:.2f}", one.verdict) for one in changes]
    print_table(console, "", ("", ">before\n[us]", ">now\n[us]", ">ratio", ""), rows)
    marked = [one for one in changes if one.verdict]
    console.print(f"{len(marked)} of {len(changes)} times changed beyond the noise" if marked else "no time changed beyond the noise")


def _print_bench(console: Console, measured: Bench) -> None:
    """Print a table of the kernels, and one of Pinocchio's functions."""
    cores = _print_head(console, measured)
    rows = []
    for row in measured.rows:
        built = (f"{row.trace_seconds:.2f}", f"{row.compile_seconds:.2f}{'*' if row.cached else ' '}")
        times = (row.single_us, row.batch_us, row.cores_us)
        rows.append((short_name(row.kernel), f"{row.operations:,}", *built, *map(number_text, times)))
    columns = ("kernel", ">operations", ">trace\n[s]", ">compile\n[s]", ">one call\n[us]", ">batch\n[us]", f">{cores}\n[us]")
    print_table(console, "", columns, rows)
    if any(row.cached for row in measured.rows):
        console.print("* with code from the cache")
    if measured.no_peer:
        console.print(f"\nPinocchio is not timed: {measured.no_peer}", soft_wrap=True)
        return
    rows = []
    for row in measured.rows:
        if row.peer is None:
            continue
        cells = []
        for name in ("single_us", "batch_us", "cores_us"):
            theirs, ours = getattr(row.peer, name), getattr(row, name)
            cells += ["", ""] if theirs is None else [number_text(theirs), ratio_text(theirs / ours)]
        off = row.peer.disagreement
        rows.append((row.peer.function, *cells, "" if off is None else f"{off:.1e}"))
    columns = ("function", ">one call\n[us]", ">", ">batch\n[us]", ">", f">{cores}\n[us]", ">", ">differs")
    print_table(console, "\nPinocchio in the same run, and its times over those of catena", columns, rows)
