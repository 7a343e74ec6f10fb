"""Checkpoints: the state of a run in a file, from which it goes on to the same bits.

The checkpoint of a run that came to its end is from before its last step, which that end may have cut: so the run can go on to a later one
as if it had been made in one go.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
import types
import zipfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from catena.atomic_files import as_path, replacing
from catena.errors import ArgumentError, SimulationError
from catena.loops.plan_library import Since
from catena.model.user_functions import Wrapped, python
from catena.scalars import expression
from catena.simulation.arguments import number
from catena.simulation.run import Run
from catena.simulation.stepping import RUNNING
from catena.simulation.trajectory import Occurrence

_FORMAT = "catena checkpoint 7"


class Checkpoint:
    """A file that holds the state of a run; written at most `every` so many seconds, in one step."""

    def __init__(self, path: str | os.PathLike[str], every: float) -> None:
        self.every = number("checkpoint_every", every)
        if self.every < 0.0:
            raise ArgumentError(f"checkpoint_every = {self.every:g} s is negative; give the seconds between two checkpoints, 0 or more")
        self.path = as_path(path, SimulationError)
        folder = self.path.absolute().parent
        if not folder.is_dir() or self.path.is_dir() or not os.access(folder, os.W_OK):  # better known before the run than after
            raise SimulationError(f"checkpoint: '{self.path}' cannot be written; name a file in a folder that is there and open to you")
        self._last = time.monotonic()
        self._key = ""

    def belong(self, run: Run) -> None:
        """Belong to a run, which is at its start."""
        self._key = key(run)

    def save_if_due(self, run: Run) -> None:
        """Write the file if the last time was long enough ago."""
        if time.monotonic() - self._last >= self.every:
            self.save(run)

    def save(self, run: Run) -> None:
        samples = np.concatenate(run.samples) if run.samples else np.empty((0, run.system.stepping.record.size))
        occurrences = np.array([[o.t, *o.q, *o.v] for o in run.occurrences]).reshape(len(run.occurrences), 1 + run.model.nq + run.model.nv)
        names = np.array([o.name for o in run.occurrences], dtype=np.str_)
        plans = [[t, s.loop_plan.plan is not None, s.loop_plan.rank, s.limit, s.t, *s.q] for t, s in run.plans]
        parts = {
            "format": np.array(_FORMAT), "key": np.array(self._key), "state": run.state, "samples": samples, "occurrences": occurrences,
            "names": names, "plans": np.array(plans, dtype=float).reshape(len(plans), 5 + run.model.nq),
        }  # fmt: skip
        with replacing(self.path, SimulationError) as stream:
            np.savez(stream, **parts, digest=_digest(parts))
        self._last = time.monotonic()


def restore(run: Run, path: str | os.PathLike[str]) -> None:
    """Put a run into the state of a checkpoint, which must come from the same run; its end may differ."""
    file = as_path(path, SimulationError)
    data = _read(file)
    made, state, samples, occurrences, names, plans = (data[name] for name in ("key", "state", "samples", "occurrences", "names", "plans"))
    if str(made) != key(run) or state.shape != run.state.shape:
        raise SimulationError(f"resume: '{file}' belongs to another run; give the model, state, forces and settings that it was made with")
    reached = float(state[0, run.at["t"].start])
    if reached > run.settings.until or (reached == run.settings.until and state[0, 0] == RUNNING):
        raise SimulationError(f"resume: '{file}' is at t = {reached:.9g} s, after until = {run.settings.until:g} s; give a later time")
    run.state[:] = state
    run.know_rows(1)
    run.samples = [samples] if len(samples) else []
    restored = run.system.plans.restored
    run.replay([Since(row[0], restored(bool(row[1]), int(row[2]), row[3], row[4], row[5:])) for row in plans])
    nq = run.model.nq
    run.occurrences = [Occurrence(str(n), float(o[0]), o[1 : 1 + nq], o[1 + nq :]) for n, o in zip(names, occurrences, strict=True)]


def _read(file: Path) -> dict[str, np.ndarray]:
    """Return the entries of a checkpoint, which are those that were written."""
    try:
        with zipfile.ZipFile(file), np.load(file, allow_pickle=False) as content:  # np.load alone would accept other files, too
            data = {name: content[name] for name in content.files}
        kind, digest = str(data["format"]), str(data.pop("digest", ""))
    except FileNotFoundError:
        raise SimulationError(f"resume: there is no file '{file}'; give the file named as checkpoint= before") from None
    except Exception as error:  # whatever readers of archives and arrays make of a broken file
        why = (str(error) or type(error).__name__).rstrip(".")
        raise SimulationError(f"resume: '{file}' is not a checkpoint of catena, or damaged ({why}); start the run anew") from None
    if kind.startswith("catena checkpoint") and kind != _FORMAT:
        raise SimulationError(f"resume: '{file}' has the format '{kind}', this catena reads '{_FORMAT}'; start the run anew")
    if digest != _digest(data):
        raise SimulationError(f"resume: '{file}' is not a checkpoint of catena, or damaged (its entries were altered); start the run anew")
    return data


def _digest(parts: Mapping[str, np.ndarray]) -> str:
    """Return a digest of entries: of their names, kinds, shapes and bytes."""
    digest = hashlib.sha256()
    for name, part in sorted(parts.items()):
        digest.update(f"{name} {part.dtype.str} {part.shape}\n".encode())
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def key(run: Run) -> str:
    """Return a digest of a run, apart from its end: model, numbers, graph; of functions called from Python their code and their values."""
    digest, given = hashlib.sha256(), run.settings

    def add(*values: Any) -> None:
        for value in values:
            digest.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
            digest.update(b"|")

    add(*(entry for parameter in run.model.parts.own.items() for entry in parameter))
    add(run.model.name, run.model.gravity, given.integrator.name, run.system.method, given.adaptive)
    for link in run.model.links:
        options = [described(getattr(link.joint, field.name)) for field in fields(link.joint)]
        add(link.name, link.parent, link.at.p, link.at.R, link.body.matrix(), link.joint.kind, options)
    at = run.system.stepping.constants.at
    numbers = [run.constants[0, at[name]] for name in at if name not in ("until", "largest")]
    add(given.q0, given.v0, given.start, given.input.table(given.start, given.until), *numbers, given.given_largest)
    graph = run.system.kernel("accelerations").graph if given.in_python else run.system.iteration().graph
    add(graph.nodes, graph.inputs, graph.results)
    for event in given.events:
        add(event.name, event.direction, described(event.action), described(event.function) if given.in_python else "")
    if given.in_python:
        add(described(given.input.controller), *((f.name, f.body, f.point, described(f.function)) for f in run.model.python_forces))
    return digest.hexdigest()


def described(value: Any, depth: int = 4) -> Any:
    """Return a description of a value, the same in every process: plain values, and code with the plain values it holds."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "buif":
        return (value.shape, value.tolist())
    if depth == 0:
        return type(value).__qualname__
    if isinstance(value, (tuple, list)):
        return tuple(described(entry, depth) for entry in value)
    if isinstance(value, types.CodeType):
        return (value.co_code, value.co_names, tuple(described(constant, depth) for constant in value.co_consts))
    if isinstance(value, python):
        return described(value.function, depth)
    if isinstance(value, (Wrapped, expression.within, expression.renaming)):
        held = [described(entry, 1) for entry in vars(value).values()]
        return (type(value).__qualname__, held, described(value.function, depth))
    if isinstance(value, types.MethodType):
        return (described(value.__func__, depth), type(value.__self__).__qualname__)
    if isinstance(value, functools.partial):
        return (described(value.func, depth), described(value.args, depth), described(list(value.keywords.items()), depth))
    if isinstance(value, types.FunctionType):
        held = [described(_content(cell), depth - 1) for cell in value.__closure__ or ()]
        return (described(value.__code__, depth), held, described(value.__defaults__, depth - 1))
    call = vars(type(value)).get("__call__")
    return (type(value).__qualname__, described(call, depth - 1))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not there yet
        return None
