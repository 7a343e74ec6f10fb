"""Loops of model files, whose numbers have a few digits: what these leave open is taken up, and what they leave askew is put straight.

A loop with redundant constraints, such as a planar one in space, moves only where its axes are parallel to the last digit. So where the
constraints of a loop are nearly redundant, rotations and axes are read as if they had more digits: entries that are nearly zero as zero.
"""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from typing import Any

import numpy as np

from catena.model.connections import Link
from catena.model.driven import Driven
from catena.model.model import Model
from catena.model.pose import Pose

#: Entries of rotations and axes up to one of these are tried as zero, where constraints are nearly redundant.
_ASKEW = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)


def closed_to_precision(model: Model, tolerance: float, starts: int) -> Model:
    """Return a model whose loops close, where those of the given one are open by no more than a tolerance; its notes tell what was done.

    The tolerance is relative to the size of the loop for lengths, in radians for angles; the loops are closed from home, and from so many
    starts around it.
    """
    from catena.assembly import absorbed  # here, because loops are those of models

    found = absorbed(model.at(0.0), tolerance, starts)
    best, straightened = model, ""
    if found.doubtful or found.taken_up:
        for size in (size for size in _ASKEW if size <= tolerance):
            trial = straight(model, size)
            then = absorbed(trial.at(0.0), tolerance, starts)
            if not then.doubtful and (found.doubtful or not then.taken_up):
                best, found = trial, then
                straightened = f"entries of rotations and axes below {size:g} are taken as 0, so that redundant constraints of loops agree"
                break
    if straightened:
        best._notes.append(straightened)
    for name, at_b, residual in found.taken_up:
        loops: dict[str, Any] = best._closures if name in best._closures else best._connections
        loops[name] = replace(loops[name], at_b=at_b)
        left = f"{residual:.1e} of its size or rad"
        best._notes.append(f"loop '{name}' closes in the file but for {left}, which the joint frame on its second body takes up")
    best._notes += found.doubtful
    if found.taken_up:
        best._changed()
    return best


def straight(model: Model, size: float) -> Model:
    """Return a model in which entries of rotations and axes up to a size are zero."""

    def joint(given: Any) -> Any:
        if isinstance(given, Driven):
            return replace(given, joint=joint(given.joint))
        axes = {f.name: _straight_axis(getattr(given, f.name), size) for f in fields(given) if f.name.startswith("axis")}
        return replace(given, **axes) if axes else given

    def link(given: Any) -> Any:
        if not isinstance(given, Link):
            return given
        return replace(given, joint=joint(given.joint), at=_straight_pose(given.at, size), outer=_straight_pose(given.outer, size))

    def closure(given: Any) -> Any:
        return replace(given, joint=joint(given.joint), at_a=_straight_pose(given.at_a, size), at_b=_straight_pose(given.at_b, size))

    new = copy.copy(model)
    new._added = {name: link(given) for name, given in model._added.items()}
    new._closures = {name: closure(given) for name, given in model._closures.items()}
    new._connections = {name: closure(given) for name, given in model._connections.items()}
    new._notes = list(model._notes)
    new._changed()
    return new


def _straight_axis(axis: Any, size: float) -> Any:
    """Return an axis without entries that are nearly zero."""
    vector = np.array(axis)
    return tuple(np.where(np.abs(vector) <= size, 0.0, vector).tolist())


def _straight_pose(pose: Pose, size: float) -> Pose:
    """Return a pose whose rotation has no entries that are nearly zero."""
    if not ((np.abs(pose.R) <= size) & (pose.R != 0.0)).any():
        return pose
    u, _, vt = np.linalg.svd(np.where(np.abs(pose.R) <= size, 0.0, pose.R))
    R = u @ vt
    return Pose(pose.p, matrix=np.where(np.abs(R) <= 1e-15, 0.0, R))
