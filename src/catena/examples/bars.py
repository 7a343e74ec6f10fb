"""Bodies made of bars: links with two or more pins."""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.model import Body
from catena.model.bodies import Geometry


def bars(mass: float, *points: Any) -> Body:
    """Return slender bars of one thickness from point to point, welded together; three points and more are joined to a ring.

    >>> from catena.examples.bars import bars
    >>> bars(3.0, (0, 0, 0), (3, 0, 0), (3, 0, 4)).com
    (2.0, 0.0, 1.5)
    """
    corners = np.array(points, dtype=float)
    starts, ends = (corners, np.roll(corners, -1, axis=0)) if len(corners) > 2 else (corners[:1], corners[1:])
    spans, centers = ends - starts, 0.5 * (starts + ends)
    lengths = np.linalg.norm(spans, axis=1)
    masses = mass * lengths / lengths.sum()
    com = masses @ centers / mass
    inertia = np.zeros((3, 3))
    for m, span, arm in zip(masses, spans, centers - com, strict=True):
        second = m * (np.outer(span, span) / 12.0 + np.outer(arm, arm))
        inertia += np.trace(second) * np.eye(3) - second
    drawn = zip(lengths.tolist(), centers.tolist(), (spans / lengths[:, None]).tolist(), strict=True)
    return Body(mass, com, inertia, tuple(Geometry("rod", (length,), tuple(center), tuple(axis)) for length, center, axis in drawn))
