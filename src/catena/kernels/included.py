"""What counts in inverse dynamics and in the bias force besides M vdot: the names of `include=`, and trees without what they leave out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np

from catena.errors import ArgumentError
from catena.model import Mechanism, Tree
from catena.model.parameters import WRENCHES
from catena.model.wording import choice

#: Forces that act in the joints and on the bodies: springs and dampers in and outside of the joints, with bushings; friction of joints;
#: stops; contacts; and forces from functions, with wrenches that are given.
PASSIVE = ("springs", "friction", "stops", "contacts", "forces")

#: All that the joint forces of a motion are made of besides M vdot, by name.
PARTS = ("gravity", "coriolis", *PASSIVE)

#: Names of parts, one or several; None for all.
Include = str | Collection[str] | None


def included(m: Mechanism, what: str, include: Include) -> frozenset[str]:
    """Return the parts that are included, or say which names are none; wrenches that are given are forces."""
    if include is None:
        return frozenset(PARTS)
    names = (include,) if isinstance(include, str) else tuple(include)
    for name in names:
        if name not in PARTS:
            raise ArgumentError(f"{what}: include names {name!r}, which is not a part of the bias force; {choice(name, PARTS)}")
    if WRENCHES in m.varied and "forces" not in names:
        raise ArgumentError(f"{what}: wrenches are forces, which include={list(names)} leaves out; add 'forces', or leave wrenches= out")
    return frozenset(names)


def acting(tree: Tree, parts: Collection[str]) -> Tree:
    """Return the tree with those of its passive and applied forces only that are included."""
    none = np.zeros(tree.nv)
    absent: dict[str, dict[str, Any]] = {
        "springs": {"stiffness": none, "damping": none, "springs": (), "bushings": ()},
        "friction": {"friction": none},
        "stops": {"lower": none - np.inf, "upper": none + np.inf},
        "contacts": {"contacts": ()},
        "forces": {"forces": (), "point_forces": ()},
    }
    changes = {field: value for part in PASSIVE if part not in parts for field, value in absent[part].items()}
    return replace(tree, **changes) if changes else tree


def moving(solve: Callable[..., Any], parts: Collection[str]) -> Callable[..., Any]:
    """Return `solve(tree, q, v, ...)` with gravity, and with what velocities and driven joints bring about, only if they are included."""

    def function(tree: Tree, q: Any, v: Any, *rest: Any) -> Any:
        tree = tree if "gravity" in parts else tree.weightless()
        return solve(tree, q, v, *rest) if "coriolis" in parts else solve(tree.resting(), q, np.zeros(tree.nv), *rest)

    return function
