"""Loops of model files, whose numbers have a few digits: closure residuals are absorbed, and axes that are nearly aligned are aligned.

A loop with redundant constraints, such as a planar one in space, moves only where its axes are parallel to the last digit. So where the
constraints of a loop are nearly redundant, rotations and axes are read as if they had more digits: entries that are nearly zero as zero.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from catena.loops.assembly import absorbed
from catena.model.builder import Builder
from catena.model.driven import Driven
from catena.model.pose import Pose
from catena.model.spanning_tree import Loose

#: Sizes up to which entries of rotations and axes are tried as zero, where constraints are nearly redundant.
_ASKEW = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)


def closed_to_precision(model: Builder, tolerance: float, starts: int) -> Builder:
    """Return a model whose loops close, where the closure residual of the given one is within a tolerance; its notes report the changes.

    The tolerance is relative to the size of the loop for lengths, in radians for angles. The loops are closed from home, and from a number
    of starts around it.
    """
    closed, notes = absorbed(model.at(0.0), tolerance, starts), []
    if closed.doubtful or closed.taken_up:
        for size in (size for size in _ASKEW if size <= tolerance):
            trial = straightened(model, size)
            then = absorbed(trial.at(0.0), tolerance, starts)
            if not then.doubtful and (closed.doubtful or not then.taken_up):
                model, closed = trial, then
                notes.append(f"entries of rotations and axes below {size:g} are taken as 0, so that redundant constraints of loops agree")
                break
    parts = model.parts.opened()
    for name, at_b, residual in closed.taken_up:
        loops: dict[str, Any] = parts.closures if name in parts.closures else parts.connections
        loops[name] = replace(loops[name], at_b=at_b)
        by = f"{residual:.1e} of its size or rad"
        notes.append(f"loop '{name}' closes in the file but for {by}, which the joint frame on its second body takes up")
    parts.notes += [*notes, *closed.doubtful]
    return Builder.of(parts)


def straightened(model: Builder, size: float) -> Builder:
    """Return a model in which entries of rotations and axes up to a size are zero."""

    def joint(given: Any) -> Any:
        if isinstance(given, Driven):
            return Driven(joint(given.joint), given.function)
        axes = {f.name: np.array(getattr(given, f.name)) for f in fields(given) if f.name.startswith("axis")}
        return replace(given, **{name: tuple(np.where(np.abs(axis) <= size, 0.0, axis).tolist()) for name, axis in axes.items()})

    def straight(given: Any) -> Any:
        """Return a link, closure or connection with straight axes and poses; a loose body as it is."""
        if isinstance(given, Loose):
            return given
        places = {f.name: _straight_pose(at, size) for f in fields(given) if isinstance(at := getattr(given, f.name), Pose)}
        return replace(given, joint=joint(given.joint), **places)

    parts = model.parts.opened()
    for table in (parts.added, parts.closures, parts.connections):
        table |= {name: straight(given) for name, given in table.items()}
    return Builder.of(parts)


def _straight_pose(pose: Pose, size: float) -> Pose:
    """Return a pose whose rotation has no entries that are nearly zero."""
    if not ((np.abs(pose.R) <= size) & (pose.R != 0.0)).any():
        return pose
    u, _, vt = np.linalg.svd(np.where(np.abs(pose.R) <= size, 0.0, pose.R))
    R = u @ vt
    return Pose(pose.p, matrix=np.where(np.abs(R) <= 1e-15, 0.0, R))
