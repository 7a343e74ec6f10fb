"""The figure of the growth of cost: time and operations of forward dynamics against the number of bodies."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from catena.view.panels import LINES, dress, format_of, label, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from catena.comparison import Comparison, Growth


def plot_growth(growth: Growth, path: str | os.PathLike[str] | None = None, beside: Comparison | None = None) -> Figure:
    """Return a figure of the cost of forward dynamics over the number of bodies; with a path, also write it to a .png, .svg or .pdf file.

    The lines carry the names of the methods, the measured exponents, and the asymptotic order. `beside` adds the measurements of a
    model, at its number of degrees of freedom.
    """
    ending = None if path is None else format_of(path)
    figure = new_figure(13.0, 5.0)
    figure.suptitle(f"Forward dynamics: cost for one state of a {growth.family} of n bodies", fontsize="medium")
    colours = {line.method: LINES[i % len(LINES)] for i, line in enumerate(growth.lines)}
    panels = (
        ("Time in a batch of states, on one core", "time per state [µs]", "batch_us", "time_exponent"),
        ("Operations", "operations per state", "operations", "operations_exponent"),
    )
    for i, (title, unit, quantity, power) in enumerate(panels):
        axes = figure.add_subplot(1, 2, i + 1)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for line in growth.lines:
            look = {"color": colours[line.method], "linewidth": 1.6, "marker": "o", "markersize": 3.5}
            axes.plot(line.bodies, getattr(line, quantity), **look, label=label(line.method))
        if beside is not None:
            _draw_beside(axes, beside, quantity, colours)
        _name_ends(axes, growth, quantity, power, colours)
        axes.set_xticks([2**k for k in range(1, 20) if 2**k <= growth.lines[0].bodies[-1]])
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.set_xlabel("number of bodies n", fontsize="small")
        dress(axes, title, unit)
    if path is not None:
        save(figure, path, ending)
    return figure


def _draw_beside(axes: Axes, beside: Comparison, quantity: str, colours: dict[str, str]) -> None:
    """Draw the measurements of a model: a mark for each method that has a line."""
    look = {"marker": "D", "markersize": 6.5, "linestyle": "", "markeredgecolor": "black", "markeredgewidth": 0.8, "zorder": 5}
    for row in beside.rows:
        if row.problem == "forward_dynamics" and row.method in colours:
            axes.plot(beside.freedom, getattr(row, quantity), color=colours[row.method], **look)
    (mark,) = axes.plot([], [], color="white", **look)
    axes.legend([mark], [f"{label(beside.model)}, {beside.freedom} degrees of freedom"], loc="upper left", fontsize="small", frameon=False)


def _name_ends(axes: Axes, growth: Growth, quantity: str, power: str, colours: dict[str, str]) -> None:
    """Write the name and the exponent of each line beside its end."""
    low, high = np.log(axes.get_ylim())
    axes.set_ylim(axes.get_ylim())  # holds it, so that the names stay where they are put
    ends = np.log([getattr(line, quantity)[-1] for line in growth.lines])
    for line, end, height in zip(growth.lines, ends, _spread(ends, (high - low) / 9), strict=True):
        order = line.order.replace("^2", "²").replace("^3", "³")
        text = f"{label(line.method).replace('/', '/' + chr(10))}\n$n^{{{getattr(line, power):.2f}}}$, {order}"
        look = {"color": colours[line.method], "fontsize": "small", "va": "center", "linespacing": 1.1}
        link = {"arrowstyle": "-", "color": colours[line.method], "linewidth": 0.6, "shrinkA": 2.0, "relpos": (0.0, 0.5)}
        point, place = (line.bodies[-1], np.exp(end)), (1.05, (height - low) / (high - low))
        axes.annotate(text, point, place, textcoords="axes fraction", arrowprops=link, annotation_clip=False, **look)


def _spread(heights: np.ndarray, distance: float) -> np.ndarray:
    """Return heights near the given ones, no two of them nearer than a distance.

    >>> _spread(np.array([0.0, 0.1, 5.0]), 1.0).tolist()
    [-0.45, 0.55, 5.0]
    """
    groups = [([i], float(heights[i])) for i in np.argsort(heights)]  # members, centre
    at = 0
    while at + 1 < len(groups):
        (lower, a), (upper, b) = groups[at], groups[at + 1]
        if b - a >= distance * (len(lower) + len(upper)) / 2 - 1e-12:
            at += 1
            continue
        members = lower + upper
        groups[at : at + 2] = [(members, float(np.mean(heights[members])))]
        at = max(0, at - 1)
    placed = np.empty(len(heights))
    for members, centre in groups:
        placed[members] = centre + distance * (np.arange(len(members)) - (len(members) - 1) / 2)
    return placed
