"""Figures with matplotlib: of trajectories, coordinates, energies and drift over time; and of the growth of cost.

Figures are made without pyplot, so that they need no display and leave no state behind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from catena.atomic import as_path, replacing
from catena.errors import ArgumentError, MissingPackageError, TrajectoryFileError
from catena.simulation.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from catena.comparison import Comparison, Growth

#: Colours that people with any colour vision can tell apart (Okabe and Ito), without the yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLES = ("-", "--", ":", "-.")

#: The same for lines whose names are written in their colour: dark ones first.
LINES = tuple(COLOURS[i] for i in (0, 1, 2, 3, 6, 5, 4))

#: Lines in one panel: up to FEW as they are, up to MANY in panels of PART, beyond that as one bundle.
FEW, PART, MANY = 12, 9, 48

#: Points of a line beyond which only the lowest and highest of each stretch are drawn; the eye sees no difference.
POINTS = 4000

_KINDS = {
    "rad": "angle", "m": "displacement", "rad/s": "angular velocity", "m/s": "velocity", "rad/s^2": "angular acceleration",
    "m/s^2": "acceleration", "N m": "torque", "N": "force",
}  # fmt: skip
_TITLES = {"q": "Positions", "v": "Velocities", "vdot": "Accelerations", "tau": "Joint forces", "driving_force": "Driving forces"}
_FORMATS = ("png", "svg", "pdf")


class Panel(NamedTuple):
    """Axes to be: the title, the label of the y axis, and what draws the lines."""

    title: str
    label: str
    draw: Callable[[Axes], None]


def plot(run: Trajectory, path: str | os.PathLike[str] | None = None, what: str | Sequence[str] = ("q", "v", "energy", "drift")) -> Figure:
    """Return a figure of a run; with a path, also write it to a .png, .svg or .pdf file."""
    ending = None if path is None else _format(path)
    panels = [panel for quantity in _wanted(run, what) for panel in _panels(run, quantity)]

    columns = 1 if len(panels) <= 4 else 2
    rows = -(-len(panels) // columns)
    height = 2.4 if len(panels) > 1 else 3.6
    figure = _figure(8.0 if columns == 1 else 14.0, height * rows + 0.6)
    figure.suptitle(_headline(run), fontsize="medium")
    grid = figure.add_gridspec(rows, columns)
    first = None
    for i, panel in enumerate(panels):
        row, column = divmod(i, columns)
        alone = column == 0 and i + 1 == len(panels)
        axes = figure.add_subplot(grid[row, :] if alone else grid[row, column], sharex=first)
        panel.draw(axes)
        axes.set_title(panel.title, loc="left", fontsize="small", fontweight="bold")
        axes.set_ylabel(panel.label, fontsize="small")
        axes.tick_params(labelsize="small", labelbottom=row == rows - 1 or (row == rows - 2 and len(panels) % columns > 0))
        axes.grid(alpha=0.3, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        _draw_events(axes, run, named=first is None)
        _add_legend(axes)
        if row == rows - 1:
            axes.set_xlabel("time [s]", fontsize="small")
        first = first or axes
    if first is not None and len(run) > 1:
        first.set_xlim(run.t[0], run.t[-1])
    figure.align_ylabels()
    if path is not None:
        _save(figure, path, ending)
    return figure


def _figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size [in]."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackageError('plots need matplotlib, which is not installed; pip install "catena[view]"') from None
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, path: Any, ending: str | None) -> None:
    with replacing(path, TrajectoryFileError) as stream:
        figure.savefig(stream, format=ending, dpi=150)


def _format(path: Any) -> str:
    file = as_path(path, TrajectoryFileError)
    ending = file.suffix.lower().lstrip(".")
    if ending not in _FORMATS:
        raise TrajectoryFileError(f"{file}: a figure is written as .png, .svg or .pdf, not as '.{ending}'; change the ending")
    return ending


def _wanted(run: Trajectory, what: str | Sequence[str]) -> list[str]:
    """Return the quantities to show, checked."""
    there = {symbol for symbol, *_ in run._quantities()} | ({"driving_force"} if run.driven_names else set())
    known = (*_TITLES, "energy", "drift")
    wanted = [what] if isinstance(what, str) else list(what)
    for name in wanted:
        if name not in known:
            raise ArgumentError(f"plot: {name!r} is no quantity of a trajectory; choose from {', '.join(known)}")
        if name in _TITLES and name not in there:
            raise ArgumentError(f"plot: this trajectory holds no {name}; leave it out of `what`")
    if not wanted:
        raise ArgumentError(f"plot: `what` is empty; choose from {', '.join(known)}")
    return wanted


def _headline(run: Trajectory) -> str:
    made = [str(run.info[key]) for key in ("integrator", "method") if run.info.get(key)]
    return " – ".join([_label(run.model.name), *([", ".join(made)] if made else [])])


def _panels(run: Trajectory, quantity: str) -> Iterator[Panel]:
    """Yield the panels of a quantity."""
    if quantity == "energy":
        yield Panel("Energy", "energy [J]", lambda axes: _draw_energy(axes, run))
    elif quantity == "drift":
        title = f"Drift: change of the total energy since the start, relative to {_plain(run._energy_scale)} J"
        yield Panel(title, "drift", lambda axes: _draw_drift(axes, run))
    else:
        found = run._driving() if quantity == "driving_force" else next(entry for entry in run._quantities() if entry[0] == quantity)
        _, values, names, units = found
        for label, columns in _groups(quantity, names, units).items():
            parts = _parts([names[i] for i in columns])
            for number, part in enumerate(parts, start=1):
                title = _TITLES[quantity] + (f" ({number} of {len(parts)})" if len(parts) > 1 else "")
                chosen = [columns[i] for i in part]
                some, lines = [names[i] for i in chosen], [values[:, i] for i in chosen]
                draw = _draw_bundle if len(part) > MANY else _draw_lines
                yield Panel(title, label, partial(draw, t=run.t, names=some, values=lines))


def _groups(quantity: str, names: Sequence[str], units: Sequence[str]) -> dict[str, list[int]]:
    """Return the columns of a quantity by what they are: those with the same unit together, quaternions apart."""
    groups: dict[str, list[int]] = {}
    for i, (name, unit) in enumerate(zip(names, units, strict=True)):
        label = f"{_KINDS[unit]} [{unit}]" if unit in _KINDS else "coordinate" if quantity == "q" else f"{quantity} of coordinate"
        if quantity == "q" and not unit and name.rpartition(".")[2] in ("qw", "qx", "qy", "qz"):
            label = "quaternion"
        groups.setdefault(label, []).append(i)
    return groups


def _parts(names: Sequence[str]) -> list[range]:
    """Return the lines of each panel: about equally many, the coordinates of a body together; very many lines stay one bundle.

    >>> _parts([f"link{i}" for i in range(14)])
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


def _draw_lines(axes: Axes, *, t: np.ndarray, names: Sequence[str], values: Sequence[np.ndarray]) -> None:
    """Draw lines, each in its own colour and style."""
    for i, (name, line) in enumerate(zip(names, values, strict=True)):
        style = STYLES[(i // len(COLOURS)) % len(STYLES)]
        _draw(axes, t, line, label=_label(name), color=COLOURS[i % len(COLOURS)], linestyle=style, linewidth=1.4)


def _draw_bundle(axes: Axes, *, t: np.ndarray, names: Sequence[str], values: Sequence[np.ndarray]) -> None:
    """Draw a bundle of thin lines in the order of a colour scale, of which the legend names some."""
    from matplotlib import colormaps

    shades = colormaps["viridis"](np.linspace(0.0, 0.95, len(names)))
    named = set(np.linspace(0, len(names) - 1, FEW).round().astype(int).tolist())
    for i, (name, line) in enumerate(zip(names, values, strict=True)):
        _draw(axes, t, line, label=_label(name) if i in named else "_nolegend_", color=shades[i], linewidth=0.6)
    axes.text(0.01, 0.98, f"{len(names)} coordinates", transform=axes.transAxes, va="top", fontsize="x-small")


def _draw_energy(axes: Axes, run: Trajectory) -> None:
    """Draw kinetic, potential and total energy."""
    _draw(axes, run.t, run.energy[0], label="kinetic", color=COLOURS[0], linewidth=1.4)
    _draw(axes, run.t, run.energy[1], label="potential", color=COLOURS[1], linewidth=1.4)
    _draw(axes, run.t, run.total_energy, label="total", color="black", linewidth=1.4)


def _draw_drift(axes: Axes, run: Trajectory) -> None:
    """Draw the drift on an axis that is logarithmic to both sides of zero."""
    _draw(axes, run.t, run.drift, color=COLOURS[0], linewidth=1.4)
    sizes = np.abs(run.drift[np.isfinite(run.drift)])
    largest = float(sizes.max(initial=0.0))
    if largest > 0.0:
        top = int(np.ceil(np.log10(largest)))
        axes.set_yscale("symlog", linthresh=10.0 ** (top - 3))
    axes.axhline(0.0, color="0.5", linewidth=0.8)


def _draw(axes: Axes, t: np.ndarray, x: np.ndarray, **style: Any) -> None:
    """Draw a line, thinned where it has more points than can be seen."""
    axes.plot(*_thinned(t, x), **style, marker="o" if len(t) == 1 else "")


def _thinned(t: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest point of each stretch of a long line, in the order of time; a short one is returned as it is."""
    if len(t) <= POINTS:
        return t, x
    stretches = POINTS // 2
    length = -(-len(t) // stretches)
    padded = np.concatenate([x, np.full(-len(x) % length, np.nan)]).reshape(-1, length)
    known = np.isfinite(padded)
    lowest, highest = np.where(known, padded, np.inf).argmin(axis=1), np.where(known, padded, -np.inf).argmax(axis=1)
    chosen = np.stack([lowest, highest], axis=1) + length * np.arange(len(padded))[:, None]
    kept = np.unique(np.concatenate([[0], chosen.ravel(), [len(t) - 1]]).clip(0, len(t) - 1))
    return t[kept], x[kept]


def _draw_events(axes: Axes, run: Trajectory, named: bool) -> None:
    """Draw vertical lines at the times of the events; where named, the first of each name carries it."""
    names = list(dict.fromkeys(event.name for event in run.events))
    unnamed = set(names) if named else set()
    for event in run.events:
        label = _label(event.name) if event.name in unnamed else "_nolegend_"
        style = STYLES[1 + names.index(event.name) % (len(STYLES) - 1)]
        axes.axvline(event.t, color="0.35", linewidth=0.9, linestyle=style, zorder=1, label=label)
        unnamed.discard(event.name)


def _add_legend(axes: Axes) -> None:
    """Put the legend to the right of the axes, where it hides no line."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
        legend = axes.legend(handles, labels, fontsize="x-small", frameon=False, **place)
        for line in legend.get_lines():
            line.set_linewidth(max(line.get_linewidth(), 1.2))


def _plain(x: float) -> str:
    """Return a number as people write it, to three digits."""
    return np.format_float_positional(x, 3, fractional=False, trim="-") if 1e-3 <= x < 1e6 else f"{x:.3g}"


def _label(name: str) -> str:
    """Return a name as matplotlib shows it as it stands: no mathematics, no hidden entries."""
    name = name.replace("$", r"\$").replace("\n", " ")
    return f" {name}" if name.startswith("_") else name


def plot_growth(growth: Growth, path: str | os.PathLike[str] | None = None, beside: Comparison | None = None) -> Figure:
    """Return a figure of the cost of forward dynamics over the number of bodies; with a path, also write it to a .png, .svg or .pdf file.

    The lines carry the names of the methods, the measured exponents, and how the cost grows in the end. `beside` adds what was measured on
    a model, at its number of degrees of freedom.
    """
    ending = None if path is None else _format(path)
    figure = _figure(13.0, 5.0)
    figure.suptitle(f"Forward dynamics: cost for one state of a {growth.family} of n bodies", fontsize="medium")
    colours = {line.method: LINES[i % len(LINES)] for i, line in enumerate(growth.lines)}
    panels = (
        ("Time in a batch of states, on one core", "time per state [µs]", "batch_us", "time_exponent"),
        ("Operations", "operations per state", "operations", "operations_exponent"),
    )
    for i, (title, label, quantity, power) in enumerate(panels):
        axes = figure.add_subplot(1, 2, i + 1)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for line in growth.lines:
            look = {"color": colours[line.method], "linewidth": 1.6, "marker": "o", "markersize": 3.5}
            axes.plot(line.bodies, getattr(line, quantity), **look, label=_label(line.method))
        if beside is not None:
            _draw_beside(axes, beside, quantity, colours)
        _name_ends(axes, growth, quantity, power, colours)
        axes.set_xticks([2**k for k in range(1, 20) if 2**k <= growth.lines[0].bodies[-1]])
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.set_title(title, loc="left", fontsize="small", fontweight="bold")
        axes.set_xlabel("number of bodies n", fontsize="small")
        axes.set_ylabel(label, fontsize="small")
        axes.tick_params(labelsize="small")
        axes.grid(alpha=0.3, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    if path is not None:
        _save(figure, path, ending)
    return figure


def _draw_beside(axes: Axes, beside: Comparison, quantity: str, colours: dict[str, str]) -> None:
    """Draw what was measured on a model: a mark for each method that has a line."""
    look = {"marker": "D", "markersize": 6.5, "linestyle": "", "markeredgecolor": "black", "markeredgewidth": 0.8, "zorder": 5}
    for row in beside.rows:
        if row.problem == "forward_dynamics" and row.method in colours:
            axes.plot(beside.freedom, getattr(row, quantity), color=colours[row.method], **look)
    (mark,) = axes.plot([], [], color="white", **look)
    axes.legend([mark], [f"{_label(beside.model)}, {beside.freedom} degrees of freedom"], loc="upper left", fontsize="small", frameon=False)


def _name_ends(axes: Axes, growth: Growth, quantity: str, power: str, colours: dict[str, str]) -> None:
    """Write the name and the exponent of each line beside its end."""
    low, high = np.log(axes.get_ylim())
    axes.set_ylim(axes.get_ylim())  # holds it, so that the names stay where they are put
    ends = np.log([getattr(line, quantity)[-1] for line in growth.lines])
    for line, end, height in zip(growth.lines, ends, _apart(ends, (high - low) / 9), strict=True):
        order = line.order.replace("^2", "²").replace("^3", "³")
        text = f"{_label(line.method).replace('/', '/' + chr(10))}\n$n^{{{getattr(line, power):.2f}}}$, {order}"
        look = {"color": colours[line.method], "fontsize": "small", "va": "center", "linespacing": 1.1}
        link = {"arrowstyle": "-", "color": colours[line.method], "linewidth": 0.6, "shrinkA": 2.0, "relpos": (0.0, 0.5)}
        point, place = (line.bodies[-1], np.exp(end)), (1.05, (height - low) / (high - low))
        axes.annotate(text, point, place, textcoords="axes fraction", arrowprops=link, annotation_clip=False, **look)


def _apart(heights: np.ndarray, gap: float) -> np.ndarray:
    """Return heights near the given ones, none nearer than a gap to another.

    >>> _apart(np.array([0.0, 0.1, 5.0]), 1.0).tolist()
    [-0.45, 0.55, 5.0]
    """
    groups = [([i], float(heights[i])) for i in np.argsort(heights)]  # members, centre
    at = 0
    while at + 1 < len(groups):
        (lower, a), (upper, b) = groups[at], groups[at + 1]
        if b - a >= gap * (len(lower) + len(upper)) / 2 - 1e-12:
            at += 1
            continue
        members = lower + upper
        groups[at : at + 2] = [(members, float(np.mean(heights[members])))]
        at = max(0, at - 1)
    placed = np.empty(len(heights))
    for members, centre in groups:
        placed[members] = centre + gap * (np.arange(len(members)) - (len(members) - 1) / 2)
    return placed
