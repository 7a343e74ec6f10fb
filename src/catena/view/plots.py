"""Figures of trajectories: coordinates, energies, drift, loop errors and reactions over time, and phase portraits."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from catena.errors import ArgumentError
from catena.loops.scaling import loop_measures
from catena.model import Mechanism
from catena.simulation.trajectory import Trajectory, force_units
from catena.view import panels
from catena.view.panels import COLOURS, STYLES, TIME, Panel, draw, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

#: Phase portraits: as many as these have a panel each; of more, this many are shown.
PHASES = 12

_KINDS = {
    "rad": "angle", "m": "displacement", "rad/s": "angular velocity", "m/s": "velocity", "rad/s^2": "angular acceleration",
    "m/s^2": "acceleration", "N m": "torque", "N": "force",
}  # fmt: skip
_TITLES = {"q": "Positions", "v": "Velocities", "vdot": "Accelerations", "tau": "Joint forces", "driving_force": "Driving forces"}

#: All quantities that can be drawn.
KNOWN = (*_TITLES, "energy", "drift", "loop_error", "reactions", "phase")

#: Forces and moments below this part of the weight, or of the largest force, are rounding; loop errors below this [m or rad] are, too.
_ROUNDING, _LEAST = 1e-9, 1e-17


def plot(run: Trajectory, path: str | os.PathLike[str] | None = None, what: str | Sequence[str] | None = None) -> Figure:
    """Return a figure of a run; with a path, also write it to a .png, .svg or .pdf file."""
    ending = None if path is None else panels.format_of(path)
    chosen = wanted(run.model, what, {symbol for symbol, *_ in run._quantities()})
    made = [panel for quantity in chosen for panel in _panels(run, quantity)]
    blocks = [(over_time, list(group)) for over_time, group in groupby(made, key=lambda panel: panel.x == TIME)]
    wide = any(len(group) > 4 + over_time for over_time, group in blocks)
    layouts = [_layout(len(group), over_time, wide, alone=len(made) == 1) for over_time, group in blocks]

    heights = [rows * height for rows, _, height in layouts]
    figure = panels.new_figure(14.0 if wide else 8.0, sum(heights) + 0.6)
    made_by = ", ".join(str(run.info[key]) for key in ("integrator", "method") if run.info.get(key))
    figure.suptitle(" – ".join(filter(None, (label(run.model.name), made_by))), fontsize="medium")
    places = [figure] if len(blocks) == 1 else figure.subfigures(len(blocks), 1, squeeze=False, height_ratios=heights)[:, 0]
    first = None
    for place, (over_time, block), (rows, columns, _) in zip(places, blocks, layouts, strict=True):
        if over_time:
            first = _fill(place, run, block, rows, columns, first)
        else:
            _fill_phases(place, block, rows, columns)
    if first is not None and len(run) > 1:
        first.set_xlim(run.t[0], run.t[-1])
    if path is not None:
        panels.save(figure, path, ending)
    return figure


def _layout(count: int, over_time: bool, wide: bool, alone: bool) -> tuple[int, int, float]:
    """Return rows and columns of a block of panels, and the height of a row [in]."""
    columns = (1 + (wide and count > 1)) if over_time else (3 + (count > 6) if wide else min(2, count))
    return -(-count // columns), columns, 3.6 if alone else 2.4 if over_time else 2.7 + 0.6 * (columns == 1)


def _fill(place: FigureBase, run: Trajectory, group: list[Panel], rows: int, columns: int, first: Axes | None) -> Axes:
    """Draw panels over time, which share their x axis with the first one; return that."""
    grid = place.add_gridspec(rows, columns)
    for i, panel in enumerate(group):
        row, column = divmod(i, columns)
        alone = column == 0 and i + 1 == len(group)
        axes = place.add_subplot(grid[row, :] if alone else grid[row, column], sharex=first)
        panel.draw(axes)
        panels.dress(axes, panel.title, panel.label, panel.note)
        axes.tick_params(labelbottom=row == rows - 1 or (row == rows - 2 and len(group) % columns > 0))
        _draw_events(axes, run, named=first is None)
        panels.add_legend(axes)
        if row == rows - 1:
            axes.set_xlabel(panel.x, fontsize="small")
        first = first or axes
    place.align_ylabels()
    assert first is not None
    return first


def _fill_phases(place: FigureBase, group: list[Panel], rows: int, columns: int) -> None:
    """Draw phase portraits, with one legend for all."""
    grid = place.add_gridspec(rows, columns)
    for i, panel in enumerate(group):
        axes = place.add_subplot(grid[divmod(i, columns)])
        panel.draw(axes)
        panels.dress(axes, panel.title, panel.label, panel.note)
        axes.set_xlabel(panel.x, fontsize="small", loc="left")  # on the right is what all numbers of a small range have in common
        if i == 0:
            handles, labels = axes.get_legend_handles_labels()
            place.legend(handles, labels, loc="outside lower right", ncols=len(handles), fontsize="x-small", frameon=False)


def wanted(m: Mechanism, what: str | Sequence[str] | None, recorded: Collection[str] = ("q", "v", "vdot", "tau")) -> list[str]:
    """Return the quantities to show of a run that has recorded some, checked."""
    loops, rates = m.has_loops, _rates(m)
    if what is None:
        return ["q", "v", "energy", "drift", *(["loop_error"] if loops else [])]
    there = {"energy", "drift", "reactions", *recorded}
    there |= {name for name, has in (("driving_force", m.driven_names), ("loop_error", loops), ("phase", rates)) if has}
    names = [what] if isinstance(what, str) else list(what)
    for name in names:
        if name not in KNOWN:
            raise ArgumentError(f"plot: {name!r} is not a quantity of a trajectory; choose from {', '.join(KNOWN)}")
        if name not in there:
            raise ArgumentError(f"plot: this trajectory holds no {name}; leave it out of `what`")
    if not names:
        raise ArgumentError(f"plot: `what` is empty; choose from {', '.join(KNOWN)}")
    return names


def _panels(run: Trajectory, quantity: str) -> Iterator[Panel]:
    if quantity == "energy":
        yield Panel("Energy", "energy [J]", lambda axes: _draw_energy(axes, run))
    elif quantity == "drift":
        title = f"Drift: change of the total energy since the start, relative to {_plain(run._energy_scale)} J"
        yield Panel(title, "drift", lambda axes: _draw_drift(axes, run))
    elif quantity in (makers := {"loop_error": _loop_panels, "reactions": _reaction_panels, "phase": _phase_panels}):
        yield from makers[quantity](run)
    else:
        if quantity == "driving_force":
            values, names, units = run.driving_force, run.driven_names, force_units(run.model.driven_units)
        else:
            _, values, names, units = next(entry for entry in run._quantities() if entry[0] == quantity)
        for kind, columns in _groups(quantity, names, units).items():
            yield from _line_panels(_TITLES[quantity], kind, run.t, [names[i] for i in columns], [values[:, i] for i in columns])


def _line_panels(
    title: str, kind: str, t: np.ndarray, names: Sequence[str], lines: Sequence[np.ndarray], noun: str = "coordinates",
    scale: Callable[[Axes], None] | None = None, note: Sequence[str] = (),
) -> Iterator[Panel]:  # fmt: skip
    """Yield the panels of lines of one kind; `scale` sets the y axis after they are drawn."""
    found = panels.parts(names)
    for number, part in enumerate(found, start=1):
        some, chosen = [names[i] for i in part], [lines[i] for i in part]

        def draw_part(axes: Axes, some: list[str] = some, chosen: list[np.ndarray] = chosen) -> None:
            panels.draw_lines(axes, t, some, chosen)
            if scale is not None:
                scale(axes)

        notes = [f"{len(some)} {noun}"] if len(some) > panels.MANY else []
        yield Panel(title + (f" ({number} of {len(found)})" if len(found) > 1 else ""), kind, draw_part, note="; ".join([*notes, *note]))


def _groups(quantity: str, names: Sequence[str], units: Sequence[str]) -> dict[str, list[int]]:
    """Return the columns of a quantity by what they are: those with the same unit together, quaternions by themselves."""
    groups: dict[str, list[int]] = {}
    for i, (name, unit) in enumerate(zip(names, units, strict=True)):
        kind = f"{_KINDS[unit]} [{unit}]" if unit in _KINDS else "coordinate" if quantity == "q" else f"{quantity} of coordinate"
        if quantity == "q" and not unit and name.rpartition(".")[2] in ("qw", "qx", "qy", "qz"):
            kind = "quaternion"
        groups.setdefault(kind, []).append(i)
    return groups


def _loop_panels(run: Trajectory) -> Iterator[Panel]:
    """Yield how far loops and couplings are open, those with the same unit together."""
    values, names, units = run.loop_error, run.loop_names, loop_measures(run.model)
    for unit in dict.fromkeys(units):
        columns = [i for i, other in enumerate(units) if other == unit]
        lines = [values[:, i] for i in columns]
        kind = f"error [{unit}]" if unit else "error"
        yield from _line_panels("Loop error", kind, run.t, [names[i] for i in columns], lines, "loops", partial(_scale_log, lines=lines))


def _scale_log(axes: Axes, lines: Sequence[np.ndarray]) -> None:
    """Make the y axis logarithmic; what is less than rounding is below it."""
    positive = np.concatenate([x[np.isfinite(x) & (x > 0.0)] for x in lines])
    if len(positive):
        axes.set_yscale("log", nonpositive="clip")
        axes.set_ylim(max(0.5 * positive.min(), min(_LEAST, 0.01 * positive.max())), 2.0 * positive.max())
    else:
        axes.set_ylim(-0.05, 1.0)


def _reaction_panels(run: Trajectory) -> Iterator[Panel]:
    """Yield the sizes of the forces and moments in the joints, made of the components that are unique."""
    wrenches = run.reactions
    unique = np.logical_not(np.isnan(wrenches).all(axis=0))
    squares = np.where(unique, wrenches, 0.0) ** 2
    weight = sum(link.body.mass for link in run.model.links) * float(np.linalg.norm(run.model.gravity))
    largest = max(weight, float(np.sqrt(np.nanmax(squares[..., 3:].sum(axis=-1), initial=0.0))))
    for title, kind, at in (("Forces in the joints", "force [N]", slice(3, 6)), ("Moments in the joints", "moment [N m]", slice(0, 3))):
        axes_of = [", ".join(letter for letter, one in zip("xyz", directions, strict=True) if one) for directions in unique[:, at]]
        shown = [i for i, letters in enumerate(axes_of) if letters]
        sizes = [np.sqrt(squares[:, i, at].sum(axis=-1)) for i in shown]
        partly = {axes_of[i] for i in shown} != {"x, y, z"}
        same = len({axes_of[i] for i in shown}) == 1
        names = [run.reaction_names[i] + (f" ({axes_of[i]})" if axes_of[i] != "x, y, z" and not same else "") for i in shown]
        left_out = [name for name, letters in zip(run.reaction_names, axes_of, strict=True) if not letters]
        notes = [f"components {axes_of[shown[0]]}; the others are not unique"] if shown and partly and same else []
        notes += ["components in brackets; the others are not unique"] if partly and not same else []
        notes += [f"not unique: {left_out[0] if len(left_out) == 1 else f'{len(left_out)} joints'}"] if left_out else []
        scale = partial(_scale_sizes, lines=sizes, least=_ROUNDING * largest)
        yield from _line_panels(title, kind, run.t, names, sizes, "joints", scale, notes)


def _scale_sizes(axes: Axes, lines: Sequence[np.ndarray], least: float) -> None:
    """Let the y axis begin a little below zero, so that lines at zero, such as rounding errors, can be seen."""
    top = max((float(np.nanmax(x, initial=0.0)) for x in lines), default=0.0)
    axes.set_ylim(*((-0.05, 1.0) if top <= least else (-0.03 * top, 1.05 * top)))


def _rates(m: Mechanism) -> list[tuple[int, int]]:
    """Return the coordinates whose velocities are their rates, each by its number in q and in v."""
    return [(at_q, at_v) for joint, at_q, at_v in m.coordinate_places.values() if joint.nq == joint.nv]


def _phase_panels(run: Trajectory) -> Iterator[Panel]:
    """Yield phase portraits: a panel for each coordinate whose velocity is its rate; of very many, some from first to last."""
    pairs = _rates(run.model)
    chosen = pairs if len(pairs) <= PHASES else [pairs[i] for i in panels.spread(len(pairs), PHASES)]
    for number, (i, j) in enumerate(chosen):
        (position,) = _groups("q", run.q_names[i : i + 1], run.q_units[i : i + 1])
        (velocity,) = _groups("v", run.v_names[j : j + 1], run.v_units[j : j + 1])
        note = f"{len(chosen)} of {len(pairs)} coordinates" if number == 0 and len(chosen) < len(pairs) else ""
        portrait = partial(_draw_phase, q=run.q[:, i], v=run.v[:, j])
        yield Panel(label(run.q_names[i]), velocity, portrait, position, note)


def _draw_phase(axes: Axes, *, q: np.ndarray, v: np.ndarray) -> None:
    """Draw the way through the plane of position and velocity, with its start and its end."""
    chosen = panels.extremes(q, v, points=10 * panels.POINTS)  # an orbit needs more points than a line over time
    axes.plot(q[chosen], v[chosen], color=COLOURS[0], linewidth=1.0)
    axes.plot(q[:1], v[:1], "o", color=COLOURS[2], markersize=5.0, label="start", zorder=3)
    axes.plot(q[-1:], v[-1:], "s", color=COLOURS[1], markersize=8.0, markerfacecolor="none", markeredgewidth=1.6, label="end", zorder=3)


def _draw_energy(axes: Axes, run: Trajectory) -> None:
    for name, line, colour in zip(("kinetic", "potential", "total"), (*run.energy, run.total_energy), (*COLOURS[:2], "black"), strict=True):
        draw(axes, run.t, line, label=name, color=colour, linewidth=1.4)


def _draw_drift(axes: Axes, run: Trajectory) -> None:
    """Draw the drift on an axis that is logarithmic to both sides of zero."""
    draw(axes, run.t, run.drift, color=COLOURS[0], linewidth=1.4)
    sizes = np.abs(run.drift[np.isfinite(run.drift)])
    largest = float(sizes.max(initial=0.0))
    if largest > 0.0:
        top = int(np.ceil(np.log10(largest)))
        axes.set_yscale("symlog", linthresh=10.0 ** (top - 3))
    axes.axhline(0.0, color="0.5", linewidth=0.8)


def _draw_events(axes: Axes, run: Trajectory, named: bool) -> None:
    """Draw vertical lines at the times of the events; where named, the first of each name carries it."""
    names = list(dict.fromkeys(event.name for event in run.events))
    unnamed = set(names) if named else set()
    for event in run.events:
        name = label(event.name) if event.name in unnamed else "_nolegend_"
        style = STYLES[1 + names.index(event.name) % (len(STYLES) - 1)]
        axes.axvline(event.t, color="0.35", linewidth=0.9, linestyle=style, zorder=1, label=name)
        unnamed.discard(event.name)


def _plain(x: float) -> str:
    """Return a number as people write it, to three digits."""
    return np.format_float_positional(x, 3, fractional=False, trim="-") if 1e-3 <= x < 1e6 else f"{x:.3g}"
