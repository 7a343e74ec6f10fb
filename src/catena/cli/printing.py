"""How the command prints: plain tables that read well in a file, too."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from catena.errors import printable
from catena.facade import Model
from catena.model.outline import COLUMNS, outline

#: Rows of coordinates that are printed.
ROWS = 60


class _Console(Console):
    """Lets the command itself see that the reader of a pipe is gone."""

    def render_str(self, text: str, **options: Any) -> Text:  # type: ignore[override]
        return super().render_str(printable(text), **options)  # names must not give orders to the terminal

    def on_broken_pipe(self) -> None:
        raise


def new_console(stderr: bool = False) -> Console:
    """Return where to print: in colour and bold on terminals, unless NO_COLOR is set, and elsewhere where FORCE_COLOR is."""
    # names are printed as they are: no markup, emoji or guessed colours
    return _Console(stderr=stderr, highlight=False, markup=False, emoji=False, color_system=None if os.environ.get("NO_COLOR") else "auto")


def print_message(kind: str, message: Any) -> None:
    """Print an error or a warning on stderr, as one line."""
    text = Text.assemble((f"{kind}:", {"error": "bold red"}.get(kind, "bold yellow")), f" {one_line(message)}")
    new_console(stderr=True).print(text, soft_wrap=True)


def one_line(message: Any) -> str:
    return printable(" ".join(str(message).split()))


def print_json(facts: Any) -> None:
    """Print facts as one JSON document; numbers that are not finite are null."""
    typer.echo(json.dumps(_plain(facts), indent=2, allow_nan=False))


def _plain(facts: Any) -> Any:
    """Return facts in values that JSON can hold."""
    if isinstance(facts, dict):
        return {key: _plain(value) for key, value in facts.items()}
    if isinstance(facts, (tuple, list)):
        return [_plain(value) for value in facts]
    return None if isinstance(facts, float) and not math.isfinite(facts) else facts


def print_title(console: Console, text: str) -> None:
    console.print(text, style="bold")


def new_table(*columns: str) -> Table:
    """Return an empty table; a column that begins with > is aligned to the right."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        number = column.startswith(">")
        table.add_column(column.lstrip(">"), justify="right" if number else "left", no_wrap=number, overflow="fold")
    return table


def print_table(console: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], most: int | None = None) -> None:
    """Print a table below a title, if there is one; of many rows the first, and how many there are."""
    if title:
        print_title(console, title)
    table, all_rows = new_table(*columns), list(rows)
    for row in all_rows[:most]:
        table.add_row(*row)
    console.print(table)
    if most is not None:
        print_rest(console, len(all_rows))


def print_rows(console: Console, rows: dict[str, str]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    for key, value in rows.items():
        table.add_row(key, value)
    console.print(table)


def topology(m: Model, console: Console) -> Table:
    """Return the tree of bodies with their joints and coordinates."""
    table = new_table(*COLUMNS)
    for row in outline(m, console.options.ascii_only):
        table.add_row(*row)
    return table


def interval_text(lower: float | None, upper: float | None) -> str:
    return f"{'-inf' if lower is None else f'{lower:.4g}'}..{'inf' if upper is None else f'{upper:.4g}'}"


def sum_text(terms: Iterable[tuple[float, str]]) -> str:
    """Return a sum of terms, each given by its sign and the text of its size."""
    return " ".join(f"{'-' if sign < 0 else '+'} {size}" for sign, size in terms).removeprefix("+ ")


def freedom_text(freedom: int) -> str:
    return f"{freedom:,} {'degree' if freedom == 1 else 'degrees'} of freedom"


def print_model(console: Console, name: str, bodies: int, freedom: int) -> None:
    print_title(console, f"{name}: {bodies:,} {'body' if bodies == 1 else 'bodies'}, {freedom_text(freedom)}")


def print_rest(console: Console, count: int) -> None:
    """Print how many of the entries of a table were not printed, if any."""
    if count > ROWS:
        console.print(f"and {count - ROWS} more; --json lists all")


def total_mass(m: Model) -> float:
    return sum(link.body.mass for link in m.links)
