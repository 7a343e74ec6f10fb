"""Numbers of a model from text, as people type them: `hand.mass=2`, `gravity=0,0,-1.62`; and values to go through: `hand.mass=1:5:9`.

PATH is one of `m.parameters()`, or names an entry of several numbers: `gravity.z`, `elbow.at.x`, `elbow.at.yaw`, `hand.inertia.xy`, or by
its place from 0 on where entries have no names. A body may be called by the name that a file gives to its joint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from catena.errors import ArgumentError, ModelError
from catena.facade import Model
from catena.model.parameters import Parameter, check
from catena.simulation import settings


class Target(NamedTuple):
    """What a name stands for: a number of a model, or several, and which of their entries; none are named where all are meant."""

    name: str
    number: Parameter
    entries: tuple[tuple[int, ...], ...]


class Axis(NamedTuple):
    """Values that an entry of a number of a model goes through."""

    target: Target
    values: np.ndarray

    @property
    def label(self) -> tuple[str, str]:
        """Its name and unit."""
        return self.target.name, self.target.number.unit


def with_settings(m: Model, given: Sequence[str], option: str = "--set-parameter") -> Model:
    """Return a model with numbers set by text, PATH=VALUE,...; where one is set again, the last setting holds.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> moon = with_settings(m, ["gravity.z=-1.62", "arm.mass=500g"])
    >>> moon.gravity, moon.links[0].body.mass
    ((0.0, 0.0, -1.62), 0.5)
    """
    values: dict[str, np.ndarray] = {}
    for setting in given:
        target, text = _parsed(m, setting, option)
        name, (path, own, unit, _), entries = target
        parts, diagonal = text.split(","), own.shape == (3, 3) and not entries
        wanted = 1 if entries else own.size
        if len(parts) != wanted and not (diagonal and len(parts) == 3):
            takes = f"{wanted} number{'' if wanted == 1 else 's'}" + (", or 3 on the diagonal" if diagonal else "")
            now = ",".join(f"{x + 0.0:g}" for x in (own[entries[0]].ravel() if entries else own.ravel()))
            raise ArgumentError(f"{option} {setting}: {name} takes {takes}, not {len(parts)}; it is {now} in the model")
        units = ["m"] * 3 + ["rad"] * 3 if unit == "m, rad" else [unit] * len(parts)
        numbers = [settings.quantity(f"{option} {name}", part, unit) for part, unit in zip(parts, units, strict=True)]
        value = values.get(path, own).copy()
        for entry in entries:
            value[entry] = numbers[0]
        if not entries:
            value = np.diag(numbers) if len(numbers) < own.size else np.reshape(numbers, own.shape)
        values[path] = value
    check(m, list(values), option)
    return _changed(m, values, f"{option} {' '.join(given)}") if values else m


def axes_of(m: Model, given: Sequence[str], option: str = "--parameter") -> list[Axis]:
    """Return the values that numbers of a model go through, checked: PATH=FROM:TO:COUNT, or PATH=VALUE,VALUE,...

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> [axis.values.tolist() for axis in axes_of(m, ["arm.com.z=-1:-50cm:3", "arm.mass=2,5"])]
    [[-1.0, -0.75, -0.5], [2.0, 5.0]]
    """
    axes = [_axis(m, setting, option) for setting in given]
    targets = [axis.target for axis in axes]
    for i, (name, number, entries) in enumerate(targets):
        if any((number.path, entries) == (other.path, places) for _, other, places in targets[:i]):
            raise ArgumentError(f"{option} {given[i]}: {name} is given twice; leave one of them out")
    check(m, list(dict.fromkeys(target.number.path for target in targets)), option)
    return axes


def _axis(m: Model, setting: str, option: str) -> Axis:
    target, text = _parsed(m, setting, option)
    name, number, entries = target
    if not entries and number.shape:
        names = ", ".join(_entries(m, number.path))
        raise ArgumentError(f"{option} {setting}: {name} has {number.value.size} numbers; vary one of them, by {name}. and one of {names}")
    ends = text.split(":")
    values = [settings.quantity(f"{option} {name}", x, number.unit) for x in (ends[:2] if len(ends) == 3 else text.split(","))]
    if len(ends) == 3:
        if not ends[2].strip().isdigit() or int(ends[2]) < 2:
            raise ArgumentError(f"{option} {setting}: '{ends[2]}' is not a number of values; give a whole one, 2 or more")
        values = np.linspace(values[0], values[1], int(ends[2])).tolist()
    for value in values:
        _changed(m, {path: x[0] for path, x in numbers_of([target], np.array([[value]])).items()}, f"{option} {setting}")
    return Axis(target, np.array(values))


def numbers_of(targets: Sequence[Target], rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return numbers by path, with a leading axis: for each row of values of some of their entries."""
    found: dict[str, np.ndarray] = {}
    for target, column in zip(targets, rows.T, strict=True):
        own = target.number.value
        values = found.setdefault(target.number.path, np.tile(own, (len(rows), *[1] * own.ndim)))
        for entry in target.entries or [()]:
            values[(slice(None), *entry)] = column
    return found


def _parsed(m: Model, setting: str, option: str) -> tuple[Target, str]:
    """Return what a setting names, and the text of its value."""
    name, equals, text = setting.rpartition("=")
    if not equals or not name.strip():
        raise ArgumentError(f"{option} {setting}: this is not PATH=VALUE; give one such as {next(iter(m.parameters()))}=2")
    path, known = settings.name_by_body(m, name), m.parameters()
    whole, _, part = path.rpartition(".")
    if path not in known and whole in known and part in (entries := _entries(m, whole)):
        path, places = entries[part]
    else:
        places = ()
    check(m, [path], option)
    return Target(name.strip(), known[path], places), text


def _entries(m: Model, path: str) -> dict[str, tuple[str, tuple[tuple[int, ...], ...]]]:
    """Return the entries of several numbers by name, each by a path and its places there."""
    shape = m.parameters()[path].shape
    if f"{path}.xyz" in m.parameters():
        return {**_entries(m, f"{path}.xyz"), **_entries(m, f"{path}.rpy")}
    if shape == (3, 3):
        return {a + b: (path, tuple({(i, j), (j, i)})) for i, a in enumerate("xyz") for j, b in enumerate("xyz") if i <= j}
    if shape == (3,):
        return {name: (path, ((i,),)) for i, name in enumerate(("roll", "pitch", "yaw") if path.endswith(".rpy") else "xyz")}
    return {str(i): (path, ((i,),)) for i in range(shape[0])} if len(shape) == 1 else {}


def _changed(m: Model, values: dict[str, np.ndarray], what: str) -> Model:
    try:
        return m.with_values(values)
    except ModelError as error:
        raise ArgumentError(f"{what}: {error}") from error
