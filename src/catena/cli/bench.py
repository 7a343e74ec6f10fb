"""`catena bench`: how long the kernels of a model take on this machine."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.console import Console

import catena as ct
from catena import comparison
from catena.cli.app import Contact, Debug, FloatingBase, Ignore, Json, SetParameter, Tolerance, app, model_argument
from catena.cli.compare import number_text, progress
from catena.cli.info import find
from catena.cli.printing import new_console, print_json, print_model, print_table
from catena.comparison import Bench
from catena.simulation.rollout import thread_count


@app.command()
def bench(
    model: Annotated[str, model_argument("A model file or a built-in example; without it the arm.")] = "arm",
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Cores to use at most; without it all.")] = None,
    seconds: Annotated[float, typer.Option(metavar="TIME", min=0.0, help="How long each call is timed [s].")] = 0.1,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The seed of the random states.")] = 0,
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

    \b
    Examples:
      catena bench
      catena bench four-bar --seconds 0.5
      catena bench robot.urdf --threads 1 --json
    """
    m, _ = find(model, floating_base, ignore, tolerance, set_parameter, contact)
    with progress() as report:
        measured = comparison.bench(m, thread_count(threads), seed, seconds, report)
    measured = replace(measured, versions={"catena": ct.__version__, **measured.versions})
    if json:
        print_json(asdict(measured))
    else:
        _print_bench(new_console(), measured)


def short_name(kernel: str) -> str:
    """Return the name of a kernel as it fits the table."""
    return kernel.replace("_dynamics_derivatives", "_derivatives")


def ratio_text(ratio: float) -> str:
    """Return how many times longer something takes, in two digits or whole.

    >>> ratio_text(0.356), ratio_text(7.0), ratio_text(117.3)
    ('0.36x', '7x', '117x')
    """
    return f"{ratio:.2g}x" if ratio < 99.5 else f"{ratio:.0f}x"


def _print_bench(console: Console, measured: Bench) -> None:
    """Print a table of the kernels, and one of Pinocchio's functions."""
    machine = measured.machine
    cores = "1 core" if machine["cores"] == 1 else f"{machine['cores']} cores"
    console.print(f"{machine['processor']} ({machine['compiled_for']}, {machine['lanes']} lanes), {cores}")
    console.print(", ".join(f"{name} {number}" for name, number in measured.versions.items()))
    console.print()
    print_model(console, measured.model, measured.bodies, measured.freedom)
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
