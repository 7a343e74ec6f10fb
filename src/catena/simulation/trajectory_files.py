"""Trajectories as xarray Datasets, and their files: NetCDF (.nc, through xarray) and NumPy's own (.npz).

A file holds what `Trajectory` takes, the names of the coordinates, and the model as TOML. NetCDF is written in version 3 by SciPy, which
catena needs anyway; version 4 is read where h5netcdf or netCDF4 is installed.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.atomic_files import as_path, beginning, replacing
from catena.errors import ArgumentError, CatenaError, MissingPackageError, ModelError, TrajectoryFileError, optional_package
from catena.files.formats import decoded, encoded
from catena.model import Builder, Mechanism
from catena.simulation.trajectory import Occurrence, Trajectory

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import Dataset

#: What the entry `format` of a file says; the number changes with the meaning of the entries.
FORMAT = "catena trajectory"
VERSION = 1

_LONG_NAMES = {"q": "positions", "v": "velocities", "vdot": "accelerations", "tau": "joint forces"}


def _xarray(purpose: str) -> Any:
    remedy = 'pip install "catena[data]", or save as .npz, which needs nothing more'
    return optional_package("xarray", f"{purpose} needs xarray", remedy)


def _head(run: Trajectory) -> dict[str, str]:
    """Return the entries of a file that are text."""
    head = {"format": f"{FORMAT} {VERSION}", "model_name": run.model.name, "info": json.dumps(run.info, default=str)}
    try:
        head["model"] = encoded(run.model, f"model '{run.model.name}'").decode()
    except ModelError as error:
        head["no_model"] = str(error)
    return head


def dataset(run: Trajectory) -> Dataset:
    """Return a run as an xarray Dataset."""
    xarray = _xarray("to_xarray")
    coordinates: dict[str, Any] = {
        "time": ("time", run.t, {"units": "s", "long_name": "time"}),
        "q_name": ("q_name", np.array(run.q_names), {"long_name": "position coordinate"}),
        "v_name": ("v_name", np.array(run.v_names), {"long_name": "velocity coordinate"}),
        "q_unit": ("q_name", np.array(run.q_units), {"long_name": "unit of the position"}),
        "v_unit": ("v_name", np.array(run.v_units), {"long_name": "unit of the velocity"}),
    }
    variables: dict[str, Any] = {}
    for symbol, values, _, units in run._quantities():
        attributes = {"long_name": _LONG_NAMES[symbol], **({"units": units[0]} if len(set(units)) == 1 else {})}
        variables[symbol] = (("time", "q_name" if symbol == "q" else "v_name"), values, attributes)
    for symbol, values in zip(("kinetic", "potential"), run.energy, strict=True):
        variables[symbol] = ("time", values, {"long_name": f"{symbol} energy", "units": "J"})
    if run.events:
        coordinates["event_name"] = ("event", np.array([event.name for event in run.events]), {"long_name": "event"})
        variables["event_t"] = ("event", np.array([event.t for event in run.events]), {"long_name": "time of event", "units": "s"})
        variables["event_q"] = (("event", "q_name"), np.array([event.q for event in run.events]), {"long_name": "positions at event"})
        variables["event_v"] = (("event", "v_name"), np.array([event.v for event in run.events]), {"long_name": "velocities at event"})
    return xarray.Dataset(variables, coordinates, {"title": f"trajectory of {run.model.name}", **_head(run)})


def save(run: Trajectory, path: str | os.PathLike[str]) -> None:
    """Write a run to a .nc or .npz file, in one step."""
    file = as_path(path, TrajectoryFileError)
    ending = file.suffix.lower()
    if ending not in (".nc", ".npz"):
        raise TrajectoryFileError(
            f"{file}: a trajectory is saved as .npz or .nc, not as '{ending}'; for a table use to_csv, for a picture plot"
        )
    if ending == ".nc":
        _xarray(f"{file}: NetCDF")
        if max(run.q.nbytes, run.v.nbytes) >= 2**31:
            raise TrajectoryFileError(f"{file}: NetCDF 3 holds no variables of 2 GiB or more; save as .npz")
        try:
            content = bytes(dataset(run).to_netcdf(engine="scipy"))
        except UnicodeEncodeError as error:
            raise TrajectoryFileError(f"{file}: character {error.object[error.start]!r} in a name cannot be written; rename it") from None
        with replacing(file, TrajectoryFileError) as stream:
            stream.write(content)
        return
    entries: dict[str, Any] = {"t": run.t, "q_names": np.array(run.q_names), "v_names": np.array(run.v_names)}
    entries |= {symbol: values for symbol, values, _, _ in run._quantities()}
    if run.events:
        entries |= {f"event_{key}": np.array([getattr(event, key) for event in run.events]) for key in Occurrence._fields}
    entries |= {key: np.array(text) for key, text in _head(run).items()}
    with replacing(file, TrajectoryFileError) as stream:
        np.savez(stream, **entries)


def load(path: str | os.PathLike[str], model: Mechanism | None = None, kind: type[Builder] = Builder) -> Trajectory:
    """Return the run that a file holds, with its own model, of a kind, or the one given."""
    file = as_path(path, TrajectoryFileError)
    start = beginning(file, 8, TrajectoryFileError, "a .nc or .npz file")
    try:
        if start.startswith(b"PK"):
            entries = _npz_entries(file)
        elif start.startswith((b"CDF", b"\x89HDF")):
            entries = _netcdf_entries(file, start)
        else:
            raise TrajectoryFileError(f"{file}: neither a .npz nor a NetCDF file; give one that Trajectory.save wrote")
        return _trajectory(file, entries, model, kind)
    except CatenaError:
        raise
    except Exception as error:  # readers of damaged files raise nearly anything
        raise TrajectoryFileError(f"{file}: damaged, or not a trajectory: {type(error).__name__}: {error}; restore the file") from error


def _npz_entries(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as content:
            return {key: content[key] for key in content.files}
    except (zipfile.BadZipFile, EOFError) as error:
        raise TrajectoryFileError(f"{file}: damaged or cut short: {error}; restore the file") from error


def _netcdf_entries(file: Path, start: bytes) -> dict[str, Any]:
    """Return the entries of a NetCDF file under the names that a .npz file gives them."""
    xarray = _xarray(f"{file}: NetCDF")
    if start.startswith(b"CDF"):
        data = xarray.load_dataset(io.BytesIO(file.read_bytes()), engine="scipy", decode_times=False)
    else:
        data = _netcdf4(xarray, file)
    entries: dict[str, Any] = dict(data.attrs)
    axes = {"t": "time", "q_names": "q_name", "v_names": "v_name"}
    for key in ("t", "q", "v", "vdot", "tau", "q_names", "v_names", "event_name", "event_t", "event_q", "event_v"):
        if axes.get(key, key) in data.variables:
            entries[key] = data[axes.get(key, key)].values
    return entries


def _netcdf4(xarray: Any, file: Path) -> Dataset:
    """Return the content of a NetCDF 4 file, by whichever package can read it."""
    for engine in ("netcdf4", "h5netcdf"):
        if engine in xarray.backends.list_engines():
            with contextlib.suppress(ImportError):
                return xarray.load_dataset(file, engine=engine, decode_times=False)
    raise MissingPackageError(f"{file}: NetCDF 4 needs netCDF4 or h5netcdf, which are not installed; pip install netCDF4")


def _trajectory(file: Path, entries: Mapping[str, Any], model: Mechanism | None, kind: type[Builder]) -> Trajectory:
    """Return the trajectory of a file's entries."""
    written = str(entries.get("format", ""))
    if not written.startswith(FORMAT):
        raise TrajectoryFileError(f"{file}: holds no trajectory of catena; give a file that Trajectory.save wrote")
    if written != f"{FORMAT} {VERSION}":
        raise TrajectoryFileError(f"{file}: holds '{written}', this version of catena reads '{FORMAT} {VERSION}'; update catena")
    missing = [key for key in ("t", "q", "v", "q_names", "v_names", "info") if key not in entries]
    if missing:
        raise TrajectoryFileError(f"{file}: damaged: the entries {', '.join(missing)} are missing; restore the file")
    model = _model(file, entries, kind) if model is None else model
    if not isinstance(model, Mechanism):
        raise ArgumentError(f"load: {model!r} is not a model; give a ct.Model")
    for of, known in (("q", model.q_names), ("v", model.v_names)):
        names = tuple(map(str, entries[f"{of}_names"]))
        if names != known:
            differing = next((pair for pair in zip(names, known, strict=False) if pair[0] != pair[1]), None)
            counts = f"the file has {len(names)}, the model {len(known)}"
            what = f"'{differing[0]}' in the file is '{differing[1]}' in the model" if differing else counts
            raise TrajectoryFileError(f"{file}: the {of} coordinates are not those of model '{model.name}': {what}; give the one simulated")
    info = json.loads(str(entries["info"]))
    if not isinstance(info, dict):
        raise TrajectoryFileError(f"{file}: damaged: info is {info!r}, not a table; restore the file")
    parts = [entries.get(f"event_{key}", ()) for key in Occurrence._fields]
    events = tuple(Occurrence(str(name), float(t), q, v) for name, t, q, v in zip(*parts, strict=True))
    try:
        arrays = {key: entries.get(key) for key in ("t", "q", "v", "vdot", "tau")}
        return Trajectory(model, **arrays, info=info, events=events)  # type: ignore[arg-type]
    except ArgumentError as error:
        raise TrajectoryFileError(f"{file}: damaged: {error}") from error


def _model(file: Path, entries: Mapping[str, Any], kind: type[Builder]) -> Mechanism:
    if "model" not in entries:
        why = str(entries.get("no_model", "it was saved without"))
        name = str(entries.get("model_name", ""))
        raise TrajectoryFileError(f"{file}: holds no model ({why}); give model '{name}' with Trajectory.load(path, model=...)")
    try:
        return kind.of(decoded(str(entries["model"]).encode(), f"{file}: model").parts)
    except ModelError as error:
        raise TrajectoryFileError(f"{error}; or give the model with Trajectory.load(path, model=...)") from error


def _columns(run: Trajectory) -> tuple[list[str], list[np.ndarray]]:
    """Return the heads of a table of a run, with names and units, and its columns side by side in arrays; time comes first."""
    columns = [("t", run.t[:, None], ("",), ("s",))]
    columns += [(symbol, values, names, units) for symbol, values, names, units in run._quantities()]
    columns += [(symbol, values[:, None], ("",), ("J",)) for symbol, values in zip(("kinetic", "potential"), run.energy, strict=True)]
    heads = [
        f"{symbol}{f' {name}' if name else ''}{f' [{unit}]' if unit else ''}"
        for symbol, _, names, units in columns
        for name, unit in zip(names, units, strict=True)
    ]
    return heads, [values for _, values, _, _ in columns]


def frame(run: Trajectory) -> DataFrame:
    """Return a run as a pandas DataFrame."""
    pandas = optional_package("pandas", "to_pandas needs pandas", 'pip install "catena[data]", or write a table with to_csv')
    (time, *heads), (_, *columns) = _columns(run)
    return pandas.DataFrame(np.concatenate(columns, axis=1), index=pandas.Index(run.t, name=time), columns=heads)


def write_csv(run: Trajectory, path: str | os.PathLike[str]) -> None:
    """Write a run as a table, one row per sample."""
    head, columns = _columns(run)
    with replacing(path, TrajectoryFileError) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(head)
        for start in range(0, len(run), 4096):  # a few rows at a time, so that the table is never in memory as text
            writer.writerows(np.concatenate([values[start : start + 4096] for values in columns], axis=1).tolist())
        text.flush()
        text.detach()
