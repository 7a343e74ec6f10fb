"""Bodies made of bars: links with two or more pins, and where two of them meet."""

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


def meet(p: np.ndarray, r: float, q: np.ndarray, s: float) -> np.ndarray:
    """Return the point of the plane at distances r from p and s from q, on the left of the way from p to q.

    >>> from catena.examples.bars import meet
    >>> meet(np.zeros(2), 3.0, np.array([5.0, 0.0]), 4.0)
    array([1.8, 2.4])
    """
    distance = float(np.linalg.norm(q - p))
    along = (r**2 - s**2 + distance**2) / (2.0 * distance)
    x, y = (q - p) / distance
    return p + along * np.array([x, y]) + np.sqrt(r**2 - along**2) * np.array([-y, x])
