"""Coordinates that users name, as numbers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.model import Mechanism
from catena.model.values import names_of


def coordinates(m: Mechanism, names: Collection[str], what: str) -> tuple[int, ...]:
    """Return the numbers of velocity coordinates, given by name."""
    if isinstance(names, str):
        raise ModelError(f"{what} is {names!r}; give a sequence of names, such as ({names!r},)")
    names = names_of(what, names, f"give a sequence of names, such as {m.v_names[:1]}")
    for name in names:
        if name not in m.v_names:
            choice = ", ".join(m.v_names)
            raise ModelError(f"{what} names {name!r}, which is not a velocity coordinate of model '{m.name}'; choose from {choice}")
    return tuple(m.v_names.index(name) for name in names)


def spread(m: Mechanism, at: Collection[int], x: Any) -> Any:
    """Return a vector of all velocity coordinates, with x in the place of those given by number, and zeros elsewhere."""
    whole = np.zeros(m.nv).astype(object)
    whole[list(at)] = x
    return whole


def places(m: Mechanism, at: Collection[int], what: str) -> list[int]:
    """Return where velocity coordinates, given by number, are among the positions."""
    found = {at_v: at_q for joint, at_q, at_v in m.coordinate_places.values() if joint.nq == joint.nv}
    for i in at:
        if i not in found:
            raise ModelError(
                f"{what}: '{m.v_names[i]}' is a rate of a joint whose positions are not plain numbers; use other coordinates, or "
                "m.assemble(guess)"
            )
    return [found[i] for i in at]
