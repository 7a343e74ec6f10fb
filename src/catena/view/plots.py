"""Figures of trajectories: coordinates, energies, closure residuals and reactions over time, and phase portraits.

Lines follow the motion between the samples as `Trajectory.at` gives it, and are sharp where events changed the state; samples are marked
where they are few. Errors, of the energy and of loops, are shown at the samples. What does not change, and what is rounding alone, is a
remark below the panels.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from catena.errors import ArgumentError
from catena.loops.scaling import loop_measures
from catena.model import Mechanism
from catena.model.wording import listed
from catena.simulation.trajectory import Trajectory, force_units
from catena.view import panels, plot_layout
from catena.view.panels import COLOURS, STYLES, TIME, Panel, draw, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Phase portraits: as many as these have a panel each; of more, this many are shown.
PHASES = 12

_KINDS = {
    "rad": "angle", "m": "displacement", "rad/s": "angular velocity", "m/s": "velocity", "rad/s^2": "angular acceleration",
    "m/s^2": "acceleration", "N m": "torque", "N": "force",
}  # fmt: skip
_TITLES = {"q": "Positions", "v": "Velocities", "vdot": "Accelerations", "tau": "Joint forces", "driving_force": "Driving forces"}

#: All quantities that can be drawn.
KNOWN = (*_TITLES, "energy", "energy_change", "loop_error", "reactions", "phase")

#: Points across a line: where samples are further apart than this part of the time, states in between are drawn. Up to so many samples are
#: marked.
POINTS, MARKED = 400, 40

#: Loop errors [m or rad] and relative changes of the energy up to this are rounding; forces and moments below this part of the weight, or
#: of the largest force; changes of a coordinate below this part of the largest value of its quantity, which counts as 0.1 at least.
_ERROR, _FORCE, _CHANGE = 1e-13, 1e-9, 1e-12

#: Loop errors below this [m or rad] are below the axis of those that are not rounding.
_LEAST = 1e-17

#: Names of coordinates that do not change that a remark lists of each value, and values.
_NAMES, _VALUES = 6, 4


class _Shown(NamedTuple):
    """A run to be shown, the same with states between its samples, and the numbers of its samples among them where these are marked."""

    run: Trajectory
    fine: Trajectory
    marks: Sequence[int]


def plot(run: Trajectory, path: str | os.PathLike[str] | None = None, what: str | Sequence[str] | None = None) -> Figure:
    """Return a figure of a run; with a path, also write it to a .png, .svg or .pdf file."""
    ending = None if path is None else panels.format_of(path)
    chosen = wanted(run.model, what, {symbol for symbol, *_ in run._quantities()})
    figure = panels.new_figure(8.0, 1.0, layout=None)
    # what is solved for at states needs them on the constraints; lines of coordinates and energies do not show the difference
    fine = run._fine(POINTS, closed=bool({"reactions", "driving_force"} & {*chosen}))
    shown = _Shown(run, fine, np.searchsorted(fine.t, run.t).tolist() if len(run) <= MARKED else ())
    made = [part for quantity in chosen for part in _parts(shown, quantity)]
    remarks, drawn = [part for part in made if isinstance(part, str)], [part for part in made if isinstance(part, Panel)]
    groups = [(over_time, list(group)) for over_time, group in groupby(drawn, key=lambda panel: panel.x == TIME)]
    wide = any(len(group) > 4 + over_time for over_time, group in groups)
    blocks, first = [], None
    for over_time, group in groups:
        axes = _drawn(figure, run, group, first) if over_time else _drawn_phases(figure, group)
        first = first or (axes[0] if over_time else None)
        block = plot_layout.block(axes, over_time, wide, alone=len(drawn) == 1)
        if over_time:
            _share_axis(block)
        blocks.append(block)
    if first is not None and len(run) > 1:
        first.set_xlim(run.t[0], run.t[-1])
    made_by = ", ".join(str(run.info[key]) for key in ("integrator", "method") if run.info.get(key))
    plot_layout.lay_out(figure, " – ".join(filter(None, (label(run.model.name), made_by))), blocks, [label(r) for r in remarks], wide)
    if path is not None:
        panels.save(figure, path, ending)
    return figure


def _drawn(figure: Figure, run: Trajectory, group: list[Panel], first: Axes | None) -> list[Axes]:
    """Return panels over time, which share their x axis with the first one."""
    made = []
    for panel in group:
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), label=str(len(figure.axes)), sharex=first)
        panel.draw(axes)
        plot_layout.dress(axes, panel.title, panel.label, panel.note)
        _draw_events(axes, run, named=first is None)
        panels.add_legend(axes)
        first = first or axes
        made.append(axes)
    return made


def _share_axis(block: plot_layout.Block) -> None:
    """Label the x axis of the last row, and of what stands above nothing, or above a panel that is as wide as two."""
    over_wide = block.columns > 1 and len(block.axes) % block.columns == 1
    for i, axes in enumerate(block.axes):
        last = i // block.columns == block.rows - 1
        axes.tick_params(labelbottom=last or i + block.columns >= len(block.axes) - over_wide)
        if last:
            axes.set_xlabel(TIME, fontsize="small")


def _drawn_phases(figure: Figure, group: list[Panel]) -> list[Axes]:
    """Return phase portraits."""
    made = []
    for panel in group:
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), label=str(len(figure.axes)))
        panel.draw(axes)
        plot_layout.dress(axes, panel.title, panel.label, panel.note)
        axes.set_xlabel(panel.x, fontsize="small", loc="left")  # on the right is what all numbers of a small range have in common
        made.append(axes)
    return made


def wanted(m: Mechanism, what: str | Sequence[str] | None, recorded: Collection[str] = ("q", "v", "vdot", "tau")) -> list[str]:
    """Return the quantities to show of a run that has recorded some, checked."""
    loops, rates = m.has_loops, _rates(m)
    if what is None:
        return ["q", "v", "energy", "energy_change", *(["loop_error"] if loops else [])]
    there = {"energy", "energy_change", "reactions", *recorded}
    there |= {name for name, has in (("driving_force", m.driven_names), ("loop_error", loops), ("phase", rates)) if has}
    names = [what] if isinstance(what, str) else list(what)
    if "drift" in names:  # as it was called
        warnings.warn("plot: what='drift' is now 'energy_change'", DeprecationWarning, stacklevel=2)
        names = ["energy_change" if name == "drift" else name for name in names]
    for name in names:
        if name not in KNOWN:
            raise ArgumentError(f"plot: {name!r} is not a quantity of a trajectory; choose from {', '.join(KNOWN)}")
        if name not in there:
            raise ArgumentError(f"plot: this trajectory holds no {name}; leave it out of `what`")
    if not names:
        raise ArgumentError(f"plot: `what` is empty; choose from {', '.join(KNOWN)}")
    return names


def _parts(shown: _Shown, quantity: str) -> Iterator[Panel | str]:
    """Yield the panels of a quantity, and the remarks that stand for panels without a motion to show."""
    run, fine = shown.run, shown.fine
    if quantity == "energy":
        yield Panel("Energy", "energy [J]", lambda axes: _draw_energy(axes, shown))
    elif quantity in (makers := {
        "energy_change": _energy_change, "loop_error": _loop_panels, "reactions": _reaction_panels, "phase": _phase_panels,
    }):  # fmt: skip
        yield from makers[quantity](shown)
    else:
        if quantity == "driving_force":
            values, names, units = fine.driving_force, run.driven_names, force_units(run.model.driven_units)
        else:
            _, values, names, units = next(entry for entry in fine._quantities() if entry[0] == quantity)
        least = _CHANGE * max(0.1, float(np.nanmax(np.abs(values), initial=0.0, where=np.isfinite(values))))
        still = [len(fine) > 1 and bool(np.isfinite(column).all() and np.ptp(column) <= least) for column in values.T]
        flat: list[int] = []
        for kind, columns in _groups(quantity, names, units).items():
            moving = [i for i in columns if not still[i]]
            shown_here = columns if moving and len(columns) <= panels.FEW else moving
            flat += [i for i in columns if i not in shown_here]
            if shown_here:
                lines = [values[:, i] for i in shown_here]
                yield from _line_panels(_TITLES[quantity], kind, fine.t, [names[i] for i in shown_here], lines, shown.marks)
        if flat:
            held = [(names[i], units[i], float(values[0, i]) if abs(values[0, i]) > least else 0.0) for i in flat]
            yield f"{_TITLES[quantity]} that do not change: {_held_text(held)}"


def _held_text(held: Sequence[tuple[str, str, float]]) -> str:
    """Return names, units and values as text, those with the same value together."""
    by_value: dict[str, list[str]] = {}
    for name, unit, value in held:
        by_value.setdefault(f"{_plain(value)} {unit}".rstrip(), []).append(name)
    texts = []
    for value, names in list(by_value.items())[:_VALUES]:
        some = names if len(names) <= _NAMES else [*names[: _NAMES - 1], f"{len(names) - _NAMES + 1} others"]
        texts.append(f"{listed(some)} at {value}")
    rest = sum(len(names) for names in list(by_value.values())[_VALUES:])
    return "; ".join([*texts, *([f"{rest} others"] if rest else [])])


def _line_panels(
    title: str, kind: str, t: np.ndarray, names: Sequence[str], lines: Sequence[np.ndarray], marks: Sequence[int],
    noun: str = "coordinates", scale: Callable[[Axes], None] | None = None, note: Sequence[str] = (),
) -> Iterator[Panel]:  # fmt: skip
    """Yield the panels of lines of one kind; `scale` sets the y axis after they are drawn."""
    found = panels.parts(names)
    for number, part in enumerate(found, start=1):
        some, chosen = [names[i] for i in part], [lines[i] for i in part]

        def draw_part(axes: Axes, some: list[str] = some, chosen: list[np.ndarray] = chosen) -> None:
            panels.draw_lines(axes, t, some, chosen, marks)
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


def _loop_panels(shown: _Shown) -> Iterator[Panel | str]:
    """Yield how far loops and couplings are open, those with the same unit together; a remark where that is rounding."""
    run = shown.run
    values, names, units = run.loop_error, run.loop_names, loop_measures(run.model)
    rounding: list[str] = []
    for unit in dict.fromkeys(units):
        columns = [i for i, other in enumerate(units) if other == unit]
        lines = [values[:, i] for i in columns]
        if (values[:, columns] <= _ERROR).all():
            rounding.append(f"{values[:, columns].max():.1e} {unit}".rstrip())
            continue
        kind, marks = f"error [{unit}]" if unit else "error", range(len(run)) if shown.marks else ()
        scale = partial(_scale_log, lines=lines)
        yield from _line_panels("Loop error", kind, run.t, [names[i] for i in columns], lines, marks, "loops", scale)
    if rounding:
        yield f"Loop error: rounding, up to {listed(rounding)}"


def _scale_log(axes: Axes, lines: Sequence[np.ndarray]) -> None:
    """Make the y axis logarithmic; what is less than rounding is below it."""
    positive = np.concatenate([x[np.isfinite(x) & (x > 0.0)] for x in lines])
    if len(positive):
        axes.set_yscale("log", nonpositive="clip")
        axes.set_ylim(max(0.5 * positive.min(), min(_LEAST, 0.01 * positive.max())), 2.0 * positive.max())
    else:
        axes.set_ylim(-0.05, 1.0)


def _reaction_panels(shown: _Shown) -> Iterator[Panel | str]:
    """Yield the sizes of the forces and moments in the joints, made of the components that are unique."""
    run, t = shown.fine, shown.fine.t
    wrenches = run.reactions
    unique = np.logical_not(np.isnan(wrenches).all(axis=0))
    squares = np.where(unique, wrenches, 0.0) ** 2
    weight = sum(link.body.mass for link in run.model.links) * float(np.linalg.norm(run.model.gravity))
    largest = max(weight, float(np.sqrt(np.nanmax(squares[..., 3:].sum(axis=-1), initial=0.0))))
    for title, kind, at in (("Forces in the joints", "force [N]", slice(3, 6)), ("Moments in the joints", "moment [N m]", slice(0, 3))):
        axes_of = [", ".join(letter for letter, one in zip("xyz", directions, strict=True) if one) for directions in unique[:, at]]
        shown_joints = [i for i, letters in enumerate(axes_of) if letters]
        sizes = [np.sqrt(squares[:, i, at].sum(axis=-1)) for i in shown_joints]
        partly = {axes_of[i] for i in shown_joints} != {"x, y, z"}
        same = len({axes_of[i] for i in shown_joints}) == 1
        names = [run.reaction_names[i] + (f" ({axes_of[i]})" if axes_of[i] != "x, y, z" and not same else "") for i in shown_joints]
        left_out = [name for name, letters in zip(run.reaction_names, axes_of, strict=True) if not letters]
        notes = [f"components {axes_of[shown_joints[0]]}; the others are not unique"] if shown_joints and partly and same else []
        notes += ["components in brackets; the others are not unique"] if partly and not same else []
        notes += [f"not unique: {left_out[0] if len(left_out) == 1 else f'{len(left_out)} joints'}"] if left_out else []
        top = max((float(np.nanmax(x, initial=0.0)) for x in sizes), default=0.0)
        if shown_joints and top <= _FORCE * largest:
            yield "; ".join([f"{title}: zero, to rounding", *notes])
        else:
            scale = partial(_scale_sizes, top=top)
            yield from _line_panels(title, kind, t, names, sizes, shown.marks, "joints", scale, notes)


def _scale_sizes(axes: Axes, top: float) -> None:
    """Let the y axis begin a little below zero, so that lines at zero can be seen."""
    axes.set_ylim(-0.03 * top, 1.05 * top) if top > 0.0 else axes.set_ylim(-0.05, 1.0)


def _rates(m: Mechanism) -> list[tuple[int, int]]:
    """Return the coordinates whose velocities are their rates, each by its number in q and in v."""
    return [(at_q, at_v) for joint, at_q, at_v in m.coordinate_places.values() if joint.nq == joint.nv]


def _phase_panels(shown: _Shown) -> Iterator[Panel]:
    """Yield phase portraits: a panel for each coordinate whose velocity is its rate; of very many, some from first to last."""
    run = shown.fine
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


def _draw_energy(axes: Axes, shown: _Shown) -> None:
    fine = shown.fine
    lines = zip(("kinetic", "potential", "total"), (*fine.energy, fine.total_energy), (*COLOURS[:2], "black"), strict=True)
    for name, line, colour in lines:
        draw(axes, fine.t, line, shown.marks, label=name, color=colour, linewidth=1.4)


def _energy_change(shown: _Shown) -> Iterator[Panel | str]:
    """Yield the relative change of the total energy: its causes, or, where the model conserves it, the error of the integrator."""
    run, causes = shown.run, shown.run.energy_causes
    scale = f"{_plain(run._energy_scale)} J"
    largest = float(np.nanmax(np.abs(run.energy_change), initial=0.0, where=np.isfinite(run.energy_change)))
    if largest <= _ERROR and np.isfinite(run.energy_change).all():
        yield f"Energy change: rounding, up to {largest:.1e} of {scale}"
    elif causes:
        change = 100.0 * (shown.fine.total_energy - run.total_energy[0]) / run._energy_scale
        title = f"Energy change, in % of {scale}: {run._energy_reason}"
        yield Panel(title, "energy change [%]", lambda axes: _draw_change(axes, shown.fine.t, change, shown.marks))
    else:
        title, marks = f"Energy change, relative to {scale}: the error of the integrator", range(len(run)) if shown.marks else ()
        yield Panel(title, "energy change", lambda axes: _draw_error(axes, run.t, run.energy_change, marks, largest))


def _draw_change(axes: Axes, t: np.ndarray, change: np.ndarray, marks: Sequence[int]) -> None:
    draw(axes, t, change, marks, color=COLOURS[0], linewidth=1.4)
    axes.axhline(0.0, color="0.5", linewidth=0.8)


def _draw_error(axes: Axes, t: np.ndarray, error: np.ndarray, marks: Sequence[int], largest: float) -> None:
    """Draw an error on an axis that is logarithmic to both sides of zero."""
    draw(axes, t, error, marks, color=COLOURS[0], linewidth=1.4)
    if largest > 0.0:
        axes.set_yscale("symlog", linthresh=10.0 ** (int(np.ceil(np.log10(largest))) - 3))
    axes.axhline(0.0, color="0.5", linewidth=0.8)


def _draw_events(axes: Axes, run: Trajectory, named: bool) -> None:
    """Draw vertical lines at the times of the events, those of a name as one line with gaps; where named, it carries the name."""
    times: dict[str, list[float]] = {}
    for event in run.events:
        times.setdefault(event.name, []).append(event.t)
    for number, (name, at) in enumerate(times.items()):
        look = {"color": "0.35", "linewidth": 0.9, "linestyle": STYLES[1 + number % (len(STYLES) - 1)], "zorder": 1}
        heights = np.tile([0.0, 1.0, np.nan], len(at))
        place = {"transform": axes.get_xaxis_transform(), "scalex": False, "scaley": False}
        axes.plot(np.repeat(at, 3), heights, label=label(name) if named else "_nolegend_", **look, **place)


def _plain(x: float) -> str:
    """Return a number as people write it, to three digits."""
    return np.format_float_positional(x, 3, fractional=False, trim="-") if 1e-3 <= x < 1e6 else f"{x:.3g}"
