"""Where the parts of a figure of a run are: panels, their legends, phase portraits and remarks.

All sizes are in inches. What a layout engine would measure by drawing the figure, which takes most of the time of a plot, is known before:
labels of ticks are a few digits wide, and a legend is as wide as its longest name.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from catena.view import panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Left of axes for their numbers and label, right of them, above them for the title and below for the next row; below the last row for its
#: numbers and label.
_LEFT, _RIGHT, _ABOVE, _BELOW, _LAST = 0.95, 0.12, 0.34, 0.14, 0.34

#: From the axes to the label of the y axis.
_LABEL = 0.68

#: A line of a legend: the sample of its line, a letter, and its height; the most that is left of the width of a column is for the axes.
_SAMPLE, _LETTER, _ENTRY, _LEAST = 0.36, 0.058, 0.142, 2.0

#: The title of the figure, the legend of phase portraits, a line of remarks and letters in an inch of it.
_TITLE, _PHASE_LEGEND, _REMARK, _LETTERS = 0.36, 0.3, 0.16, 17.5


class Block(NamedTuple):
    """Panels in rows and columns: those over time, or phase portraits."""

    axes: list[Axes]
    over_time: bool
    columns: int
    row: float

    @property
    def rows(self) -> int:
        return -(-len(self.axes) // self.columns)

    @property
    def height(self) -> float:
        return self.rows * self.row + (_LAST if self.over_time else _PHASE_LEGEND)


def block(axes: list[Axes], over_time: bool, wide: bool, alone: bool) -> Block:
    """Return panels with their columns, and rows high enough for legends."""
    count = len(axes)
    columns = (1 + (wide and count > 1)) if over_time else (3 + (count > 6) if wide else min(2, count))
    row = 3.6 if alone else 2.4 if over_time else 2.7 + 0.6 * (columns == 1)
    entries = max((len(names) for names in map(_names, axes)), default=0) if over_time else 0
    return Block(axes, over_time, columns, max(row, _ABOVE + _BELOW + _ENTRY * entries))


def lay_out(figure: Figure, title: str, blocks: Sequence[Block], remarks: Sequence[str], wide: bool) -> None:
    """Give a figure its size, and all that is in it its place."""
    width = 14.0 if wide else 8.0
    lines = [line for remark in remarks for line in textwrap.wrap(remark, int(_LETTERS * width), subsequent_indent="    ")]
    height = _TITLE + sum(block.height for block in blocks) + (0.15 + _REMARK * len(lines) if lines else 0.0)
    figure.set_size_inches(width, height)
    figure.suptitle(title, fontsize="medium", y=1.0 - 0.08 / height, va="top")
    top = height - _TITLE
    for block in blocks:
        if block.over_time:
            _place_over_time(block, width, height, top)
        else:
            _place_phases(figure, block, width, height, top)
        top -= block.height
    for i, line in enumerate(lines):
        place = (0.2 / width, (top - 0.1 - _REMARK * i) / height)
        figure.text(*place, line, fontsize="x-small", color="0.25", va="top")


def _place_over_time(block: Block, width: float, height: float, top: float) -> None:
    longest = max((len(name) for axes in block.axes for name in _names(axes)), default=0)
    column = width / block.columns
    legend = min(_SAMPLE + _LETTER * longest if longest else 0.0, column - _LEFT - _RIGHT - _LEAST)
    for i, axes in enumerate(block.axes):
        row, at = divmod(i, block.columns)
        alone = at == 0 and i + 1 == len(block.axes)
        span = width if alone else column
        _place(axes, column * at + _LEFT, top - row * block.row, span - _LEFT - legend - _RIGHT, block.row - _ABOVE - _BELOW, width, height)


def _place_phases(figure: Figure, block: Block, width: float, height: float, top: float) -> None:
    column, below = width / block.columns, 0.5
    for i, axes in enumerate(block.axes):
        row, at = divmod(i, block.columns)
        place = (column * at + _LEFT, top - row * block.row, column - _LEFT - _RIGHT, block.row - _ABOVE - below)
        _place(axes, *place, width, height)
    handles, labels = block.axes[0].get_legend_handles_labels()
    corner = (1.0 - _RIGHT / width, (top - block.height) / height)
    place = {"loc": "lower right", "bbox_to_anchor": corner, "borderaxespad": 0.0}
    figure.legend(handles, labels, ncols=len(handles), fontsize="x-small", frameon=False, **place)


def _place(axes: Axes, left: float, top: float, wide: float, high: float, width: float, height: float) -> None:
    """Put axes below their title at a place in a figure, and the label of the y axis beside them."""
    axes.set_position((left / width, (top - _ABOVE - high) / height, wide / width, high / height))
    axes.yaxis.set_label_coords(-_LABEL / wide, 0.5)


def _names(axes: Axes) -> list[str]:
    """Return the names in the legend of axes."""
    return axes.get_legend_handles_labels()[1]


def dress(axes: Axes, title: str, label: str, note: str) -> None:
    """Give axes their titles and labels, at places that need not be looked for."""
    panels.dress(axes, title, label, note, y=1.0)
    power = axes.yaxis.get_offset_text()  # beside the title, above the numbers
    power.set_horizontalalignment("right")
    power.set_x(-0.01)
