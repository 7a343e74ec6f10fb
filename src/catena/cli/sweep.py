"""`catena sweep`: what becomes of a model while its numbers go through values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from catena.atomic_files import replacing
from catena.cli import completion
from catena.cli.app import (
    Contact,
    Debug,
    FloatingBase,
    Ignore,
    IntegratorName,
    Json,
    Keyframe,
    ModelName,
    RandomStart,
    SetParameter,
    SetPosition,
    SetVelocity,
    Tolerance,
    app,
)
from catena.cli.compare import progress
from catena.cli.info import find
from catena.cli.measures import MEASURES, Cases, Column, asked
from catena.cli.parameter_settings import Axis, axes_of, numbers_of
from catena.cli.printing import ROWS, new_console, print_json, print_message, print_rows, print_table
from catena.cli.simulate import check_outputs
from catena.cli.start import Start
from catena.cli.sweep_plot import plot_sweep
from catena.errors import ArgumentError, TrajectoryFileError
from catena.simulation import settings

#: As many cases are named by a warning.
_NAMED = 3


@app.command()
def sweep(
    model: ModelName,
    parameter: Annotated[
        list[str],
        typer.Option(
            metavar="PATH=FROM:TO:COUNT",
            help="A number of the model and its values, evenly spaced, or listed: 1,2,5. Several parameters make a grid.",
            autocompletion=completion.parameters,
        ),
    ],
    measure: Annotated[
        list[str],
        typer.Option(
            metavar="WHAT[:NAME,...]", help="What to measure, of the above; repeatable.", autocompletion=completion.among(MEASURES)
        ),
    ],
    set_: SetPosition = None,
    set_velocity: SetVelocity = None,
    random: RandomStart = None,
    keyframe: Keyframe = None,
    until: Annotated[str, typer.Option(metavar="TIME", help="How long runs take, for the measures of runs.")] = "1",
    step: Annotated[str, typer.Option(metavar="TIME", help="The step size of runs, at most.")] = "1ms",
    integrator: IntegratorName = "auto",
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw lines, or maps for two parameters: .png, .svg or .pdf.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table: .csv.")] = None,
    set_parameter: SetParameter = None,
    floating_base: FloatingBase = False,
    ignore: Ignore = None,
    contact: Contact = None,
    tolerance: Tolerance = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure a model for values of its numbers, and print, plot or save the results.

    PATH is a number that catena info --parameters lists, or an entry of several numbers: gravity.z, elbow.at.x, elbow.at.yaw,
    hand.inertia.xx.

    \b
    At rest in the start position, WHAT is one of
      torque           joint forces that hold it; with loops, by motors on the coordinates named
      inertia          inertia along a coordinate, the other independent ones held
      frequency        lowest natural frequency about the nearest equilibrium
      position         coordinates, as the loops close; or the place of a body: hand.x
    and in a run from there
      final            the same at the end
      peak             their largest absolute values
      final-velocity   velocities at the end
      peak-velocity    their largest absolute values
    NAME is a coordinate, or a body for all coordinates of its joint. Without names all are
    measured; of torque and inertia with loops, all independent coordinates.

    The start is set as in catena simulate. Loops are closed for each geometry; the cells of one that does not close stay empty.

    \b
    Examples:
      catena sweep pendulum --parameter arm.mass=1:3:5 --measure torque --measure frequency --set arm=80deg
      catena sweep double-pendulum --parameter lower.mass=1,2,5 --measure peak-velocity --set upper=30deg --json
      catena sweep four-bar --parameter pin.at_b.x=550mm:650mm:5 --measure torque:crank --set crank=60deg --plot torque.png
      catena sweep four-bar --parameter pin.at_b.x=0.5:0.7:5 --parameter rocker.mass=1:5:3 --measure inertia:crank --csv table.csv
    """
    m, _ = find(model, floating_base, ignore, tolerance, set_parameter, contact)
    axes, wanted = axes_of(m, parameter), [asked(m, text) for text in measure]
    start = Start.of(m, set_, set_velocity, random, keyframe)
    outputs = {"plot": plot, "csv": csv}
    check_outputs(outputs)
    if plot is not None and sum(len(axis.values) > 1 for axis in axes) > 2:
        raise ArgumentError(f"--plot {plot}: a plot shows one or two parameters, not {len(axes)}; vary fewer, or use --csv")
    end, size = settings.quantity("--until", until, "s"), settings.quantity("--step", step, "s")
    if not 0.0 < size <= end:
        raise ArgumentError(f"--step {step}: give a time above 0, up to --until {until}")
    rows = np.stack(np.meshgrid(*(axis.values for axis in axes), indexing="ij"), axis=-1).reshape(-1, len(axes))
    numbers = numbers_of([axis.target for axis in axes], rows)
    with progress() as report:
        report("assembling")
        q, v = start.states(m, numbers)
        closed = np.flatnonzero(np.isfinite(q).all(axis=1))
        if not len(closed):
            raise ArgumentError(f"--parameter {parameter[0]}: model '{m.name}' closes its loops with none of the values; give others")
        cases = Cases(m, {path: x[closed] for path, x in numbers.items()}, q[closed], v[closed], end, size, integrator)
        columns = []
        for text, (what, of) in zip(measure, wanted, strict=True):
            report(text)
            columns += [_spread(column, closed, len(rows)) for column in MEASURES[what].columns(what, cases, of)]
    open_ = [(int(i), "the loops do not close") for i in np.setdiff1d(np.arange(len(rows)), closed)]
    _warn(axes, rows, [*open_, *((int(closed[i]), note) for i, note in cases.notes)])
    if plot is not None:
        plot_sweep(plot, m.name, axes, columns)
    labels = [*(axis.label for axis in axes), *((column.name, column.unit) for column in columns)]
    table = np.column_stack([rows, *(column.values for column in columns)])
    if csv is not None:
        _write_csv(csv, labels, table)
    files = {name: str(path) for name, path in outputs.items() if path is not None}
    if json:
        heads = [{"name": name, "unit": unit} for name, unit in labels]
        print_json({"model": m.name, "columns": heads, "rows": table.tolist(), "files": files})
        return
    _print_table(f"{m.name}: {len(rows):,} {'values' if len(axes) == 1 else 'combinations of values'}", labels, table, len(axes))
    if files:
        print_rows(new_console(), {f"--{name}": path for name, path in files.items()})


def _print_table(title: str, labels: list[tuple[str, str]], table: np.ndarray, first: int) -> None:
    """Print a table; where there is too little room for its columns, in parts that all have the first ones."""
    console = new_console()
    heads = [[*name.split(" "), f"[{unit}]" if unit else ""] for name, unit in labels]
    cells = [["" if np.isnan(x) else f"{x + 0.0:.6g}" for x in row] for row in table]
    widths = [2 + max(map(len, [*head, *column])) for head, column in zip(heads, zip(*cells, strict=True), strict=True)]
    parts: list[list[int]] = [[]]
    for j in range(first, len(widths)):
        if parts[-1] and sum(widths[:first]) + sum(widths[i] for i in [*parts[-1], j]) > console.width + 2:
            parts.append([])
        parts[-1].append(j)
    for part in parts:
        if part is not parts[0]:
            console.print()
        shown = [*range(first), *part]
        columns = [">" + "\n".join(heads[j]) for j in shown]
        print_table(console, title if part is parts[0] else "", columns, [[row[j] for j in shown] for row in cells], ROWS)


def _spread(column: Column, closed: np.ndarray, count: int) -> Column:
    """Return a column with empty cells for the geometries that do not close."""
    values = np.full(count, np.nan)
    values[closed] = column.values
    return column._replace(values=values)


def _warn(axes: list[Axis], rows: np.ndarray, notes: list[tuple[int, str]]) -> None:
    """Print what is said of some cases, each note once."""
    for note in dict.fromkeys(text for _, text in notes):
        of = [i for i, text in notes if text == note]
        named = [" and ".join(f"{axis.target.name} = {x:.6g}" for axis, x in zip(axes, rows[i], strict=True)) for i in of[:_NAMED]]
        more = f"; and {len(of) - _NAMED} more" if len(of) > _NAMED else ""
        print_message("warning", f"{note}: {'; '.join(named)}{more}; {'this cell stays' if len(of) == 1 else 'these cells stay'} empty")


def _write_csv(path: Path, labels: list[tuple[str, str]], table: np.ndarray) -> None:
    """Write a table, all digits, with names and units in its head."""
    head = ",".join(f"{name} [{unit}]" if unit else name for name, unit in labels)
    lines = [",".join("" if np.isnan(x) else repr(x) for x in row) for row in table.tolist()]
    with replacing(path, TrajectoryFileError) as stream:
        stream.write("\n".join([head, *lines, ""]).encode())
