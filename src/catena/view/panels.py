"""What figures are made of: panels with lines, their colours, names and legends; and how figures are made and written.

Figures are made without pyplot, so that they need no display and leave no state behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from catena.atomic_files import as_path, replacing
from catena.errors import TrajectoryFileError, optional_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours that people with any colour vision can tell apart (Okabe and Ito), without the yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLES = ("-", "--", ":", "-.")

#: The same for lines whose names are written in their colour: dark ones first.
LINES = tuple(COLOURS[i] for i in (0, 1, 2, 3, 6, 5, 4))

#: Lines in one panel: up to FEW as they are, up to MANY in panels of PART, beyond that as one bundle.
FEW, PART, MANY = 12, 9, 48

#: Points of a line beyond which only the lowest and highest of each stretch are drawn; the eye sees no difference.
POINTS = 4000

_FORMATS = ("png", "svg", "pdf")

#: The x axis of panels over time.
TIME = "time [s]"


class Panel(NamedTuple):
    """Axes to be: the title, the label of the y axis, what draws the lines, the label of the x axis, and what is to be said beside."""

    title: str
    label: str
    draw: Callable[[Axes], None]
    x: str = TIME
    note: str = ""


def new_figure(width: float, height: float, layout: str | None = "constrained") -> Figure:
    """Return an empty figure of a size [in]."""
    figures = optional_package("matplotlib.figure", "plots need matplotlib", 'pip install "catena[view]"')
    return figures.Figure(figsize=(width, height), layout=layout)


def save(figure: Figure, path: Any, ending: str | None) -> None:
    """Write a figure to a file, whole or not at all."""
    with replacing(path, TrajectoryFileError) as stream:
        quick: dict[str, Any] = {"pil_kwargs": {"compress_level": 3}} if ending == "png" else {}
        figure.savefig(stream, format=ending, dpi=150, **quick)


def format_of(path: Any) -> str:
    """Return the format that the ending of a path says."""
    file = as_path(path, TrajectoryFileError)
    ending = file.suffix.lower().lstrip(".")
    if ending not in _FORMATS:
        raise TrajectoryFileError(f"{file}: a figure is written as .png, .svg or .pdf, not as '.{ending}'; change the ending")
    return ending


def dress(axes: Axes, title: str, label: str, note: str = "", y: float | None = None) -> None:
    """Give axes their title, the label of the y axis, a grid, and a note above them on the right, both at the height y if it is given."""
    axes.set_title(title, loc="left", fontsize="small", fontweight="bold", y=y)
    axes.set_title(note, loc="right", fontsize="x-small", color="0.35", y=y)
    axes.set_ylabel(label, fontsize="small")
    axes.tick_params(labelsize="small")
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_offset_text().set_fontsize("x-small")
    axes.grid(alpha=0.3, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def parts(names: Sequence[str]) -> list[range]:
    """Return the lines of each panel: about equally many, the coordinates of a body together; very many lines stay one bundle.

    >>> parts([f"link{i}" for i in range(14)])
    [range(0, 7), range(7, 14)]
    """
    count = len(names)
    if count <= FEW or count > MANY:
        return [range(count)]
    bodies = [name.rpartition(".")[0] or name for name in names]
    between = [i for i in range(1, count) if bodies[i] != bodies[i - 1]]
    panels = -(-count // PART)
    cuts = {min(between, key=lambda i: abs(i - count * panel / panels)) for panel in range(1, panels)} if between else set()
    edges = [0, *sorted(cuts), count]
    return [range(start, stop) for start, stop in pairwise(edges)]


def draw_lines(axes: Axes, t: np.ndarray, names: Sequence[str], values: Sequence[np.ndarray], marks: Sequence[int] = ()) -> None:
    """Draw lines, each in its own colour and style; very many as a bundle."""
    if len(names) > MANY:
        _draw_bundle(axes, t, names, values)
        return
    for i, (name, line) in enumerate(zip(names, values, strict=True)):
        style = STYLES[(i // len(COLOURS)) % len(STYLES)]
        draw(axes, t, line, marks, label=label(name), color=COLOURS[i % len(COLOURS)], linestyle=style, linewidth=1.4)


def _draw_bundle(axes: Axes, t: np.ndarray, names: Sequence[str], values: Sequence[np.ndarray]) -> None:
    """Draw a bundle of thin lines in the order of a colour scale, of which the legend names some."""
    from matplotlib import colormaps

    shades = colormaps["viridis"](np.linspace(0.0, 0.95, len(names)))
    named = spread(len(names), FEW)
    for i, (name, line) in enumerate(zip(names, values, strict=True)):
        draw(axes, t, line, label=label(name) if i in named else "_nolegend_", color=shades[i], linewidth=0.6)


def draw(axes: Axes, t: np.ndarray, x: np.ndarray, marks: Sequence[int] = (), **style: Any) -> None:
    """Draw a line with marks at some of its points, or thinned where it has more points than can be seen."""
    if len(marks):
        axes.plot(t, x, **style, marker="o", markersize=2.5 if len(t) > 1 else 6.0, markevery=list(marks))
    else:
        chosen = extremes(x)
        axes.plot(t[chosen], x[chosen], **style)


def spread(count: int, some: int) -> list[int]:
    """Return some of the numbers below a count, from the first to the last.

    >>> spread(100, 4)
    [0, 33, 66, 99]
    """
    return np.linspace(0, count - 1, some).round().astype(int).tolist()


def extremes(*columns: np.ndarray, points: int = POINTS) -> Any:
    """Return which samples of long columns are enough to draw them: of each stretch, where a column is lowest and highest."""
    count = len(columns[0])
    if count <= points:
        return slice(None)
    length = -(-count // (points // (2 * len(columns))))
    chosen: list[Any] = [0, count - 1]
    for x in columns:
        padded = np.concatenate([x, np.full(-count % length, np.nan)]).reshape(-1, length)
        known = np.isfinite(padded)
        ends = np.where(known, padded, np.inf).argmin(axis=1), np.where(known, padded, -np.inf).argmax(axis=1)
        chosen += [end + length * np.arange(len(padded)) for end in ends]
    return np.unique(np.concatenate([np.atleast_1d(i) for i in chosen]).clip(0, count - 1))


def add_legend(axes: Axes) -> None:
    """Put the legend to the right of the axes, where it hides no line."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
        legend = axes.legend(handles, labels, fontsize="x-small", frameon=False, **place)
        for line in legend.get_lines():
            line.set_linewidth(max(line.get_linewidth(), 1.2))
            line.set_marker("")


def label(name: str) -> str:
    """Return a name as matplotlib shows it as it stands: no mathematics, no hidden entries."""
    name = name.replace("$", r"\$").replace("\n", " ")
    return f" {name}" if name.startswith("_") else name
