"""Models whose driven joints stand elsewhere than time has them, or are free; without driven joints these are the models themselves."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from catena.model.building import build
from catena.model.connections import Hung, Link, placed
from catena.model.driven import Driven, released
from catena.model.model import Model
from catena.model.motions import DrivenMotion, Given
from catena.model.tree import Tree


def standing(m: Model, given: Sequence[Given]) -> Model:
    """Return a model with what is driven where it is said to be, in the order of the bodies."""
    if not m.driven_names:
        return m
    still = m.at(m._instant)
    tree, left = still.tree(), iter(given)
    motion = (replace(motion, given=next(left)) if isinstance(motion, DrivenMotion) else motion for motion in tree.motion)
    still._tree = replace(tree, motion=tuple(motion))
    return still


def anywhere(m: Model, rng: np.random.Generator) -> Model:
    """Return a model with what is driven at random positions."""
    return standing(m, [Given(joint.random(rng), np.zeros(joint.nv), np.zeros(joint.nv)) for _, joint in m._driven()])


def free_tree(m: Model) -> Tree:
    """Return the tree in which driven joints are free, in the frames of `m.tree()`; without forces from functions of fewer coordinates."""
    m = m.frozen()
    m._free = m._free or m._cache.get("free tree", (), lambda: _free_tree(m))
    assert m._free is not None
    return m._free


def _free_tree(m: Model) -> Tree:
    free = copy.copy(m)
    links, closures = m._hanging()
    free._hung, free._forces = Hung(tuple(replace(link, joint=released(link.joint)) for link in links), closures), {}
    return build(free)


def free_slices(m: Model) -> Iterator[tuple[Link, slice, slice]]:
    """Yield every body with the places of its coordinates in the free tree."""
    return placed((link, released(link.joint)) for link in m.links)


def with_driven(m: Model, t: Any, q: Any, v: Any, vdot: Any) -> tuple[Any, Any, Any]:
    """Return positions, velocities and accelerations of the free tree: those that are driven among the others; for any scalar."""
    parts: list[tuple[Any, Any, Any]] = [(np.zeros(0), np.zeros(0), np.zeros(0))]
    for link, at_q, at_v in m._slices():
        parts.append(link.joint.given(t) if isinstance(link.joint, Driven) else (q[at_q], v[at_v], vdot[at_v]))
    q, v, vdot = (np.concatenate(part) for part in zip(*parts, strict=True))
    return q, v, vdot
