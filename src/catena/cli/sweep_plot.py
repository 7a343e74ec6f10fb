"""The figure of a sweep: lines over one parameter, or maps over two."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from catena.cli.measures import Column
from catena.cli.parameter_settings import Axis
from catena.view import panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_sweep(path: Path, model: str, axes: list[Axis], columns: list[Column]) -> Figure:
    """Return a figure of columns over the parameters that have several values, and write it to a .png, .svg or .pdf file."""
    varied = [axis for axis in axes if len(axis.values) > 1] or axes[:1]
    figure = _maps(varied, columns) if len(varied) == 2 else _lines(varied[0], columns)
    held = [f"{axis.target.name} = {axis.values[0]:g} {axis.label[1]}".rstrip() for axis in axes if axis not in varied]
    figure.suptitle(panels.label(", ".join([model, *held])), fontsize="medium")
    panels.save(figure, path, panels.format_of(path))
    return figure


def _lines(axis: Axis, columns: list[Column]) -> Figure:
    """Return a figure of columns over a parameter, those of one measure and unit together."""
    groups = [list(group) for _, group in groupby(columns, key=lambda column: (column.measure, column.unit))]
    figure, order = panels.new_figure(8.0, 3.0 * len(groups) + 0.6), np.argsort(axis.values)
    first = None
    for i, group in enumerate(groups):
        first = place = figure.add_subplot(len(groups), 1, i + 1, sharex=first)
        panels.draw_lines(place, axis.values[order], [column.of for column in group], [column.values[order] for column in group])
        for line in place.lines:
            line.set(marker="o", markersize=3.5)
        alone = len(group) == 1
        panels.dress(place, "", _named(group[0].name if alone else group[0].measure, group[0].unit))
        if not alone:
            panels.add_legend(place)
        if group is groups[-1]:
            place.set_xlabel(_named(*axis.label), fontsize="small")
    figure.align_ylabels()
    return figure


def _maps(axes: list[Axis], columns: list[Column]) -> Figure:
    """Return a figure of maps, one for each column; cells that are empty are grey."""
    across = min(2, len(columns))
    down = -(-len(columns) // across)
    figure = panels.new_figure(6.5 * across, 4.4 * down + 0.4)
    x, y = axes
    in_order = np.ix_(np.argsort(x.values), np.argsort(y.values))
    for i, column in enumerate(columns):
        place = figure.add_subplot(down, across, i + 1)
        values = column.values.reshape(len(x.values), len(y.values))[in_order]
        mesh = place.pcolormesh(np.sort(x.values), np.sort(y.values), values.T, shading="nearest", cmap="viridis")
        bar = figure.colorbar(mesh, ax=place)
        bar.set_label(_named(column.name, column.unit), fontsize="small")
        bar.ax.tick_params(labelsize="small")
        panels.dress(place, "", _named(*y.label))
        place.set_facecolor("0.85")
        place.grid(visible=False)
        place.set_xlabel(_named(*x.label), fontsize="small")
    return figure


def _named(name: str, unit: str) -> str:
    return panels.label(f"{name} [{unit}]" if unit else name)
