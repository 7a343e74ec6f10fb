"""Small tables, as text and as HTML for notebooks: what models, mobilities, kernels and trajectories show of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from catena.errors import printable

#: Rows of a table that are shown.
ROWS = 24


class Table(NamedTuple):
    """A title, the heads of columns, and rows of text; a column whose head begins with > is aligned to the right.

    >>> print(Table("State", ("coordinate", ">position"), [("crank", "1.57"), ("rocker", "0.4")]).text())
    State
    coordinate  position
    crank           1.57
    rocker           0.4
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """Return the table as lines."""
        heads = [column.lstrip(">") for column in self.columns]
        cells = [*([heads] if any(heads) else []), *self._shown()]
        widths = [max(len(row[i]) for row in cells) for i in range(len(heads))] if cells else []
        right = [column.startswith(">") for column in self.columns]
        lines = ["  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)).rstrip() for row in cells]
        return printable("\n".join([*([self.title] if self.title else []), *lines, *self._rest()]))

    def html(self) -> str:
        """Return the table as an element of a page."""
        aligned = [("right" if column.startswith(">") else "left", column.lstrip(">")) for column in self.columns]
        head = "".join(f'<th style="text-align: {side}">{escape(text)}</th>' for side, text in aligned)
        rows = ["".join(f'<td style="text-align: {side}">{_cell(c)}</td>' for (side, _), c in zip(aligned, row, strict=True))
                for row in self._shown()]  # fmt: skip
        body = "".join(f"<tr>{row}</tr>" for row in ([head] if any(text for _, text in aligned) else []) + rows)
        title = f"<div><b>{escape(self.title)}</b></div>" if self.title else ""
        return f"{title}<table>{body}</table>" + "".join(f"<div>{escape(line)}</div>" for line in self._rest())

    def _shown(self) -> list[Sequence[str]]:
        return list(self.rows[:ROWS])

    def _rest(self) -> list[str]:
        """Return how many rows are not shown, if any."""
        return [f"and {len(self.rows) - ROWS} more"] if len(self.rows) > ROWS else []


def facts(title: str, values: dict[str, str]) -> Table:
    """Return a table of names and values, without those that are empty."""
    return Table(title, ("", ""), [(name, value) for name, value in values.items() if value])


def _cell(text: str) -> str:
    """Return text with the spaces that lead it, and its lines."""
    stripped = text.lstrip(" ")
    return "&nbsp;" * (len(text) - len(stripped)) + escape(stripped).replace("\n", "<br>")
