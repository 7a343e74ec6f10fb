"""What pictures of a motion show: the space that it takes, or, where it goes far, the space around the mechanism, which is followed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from catena.view.painter import floor
from catena.view.scene import Box, Scene

#: A mechanism that travels further than this, in sizes of its own, is followed.
FAR = 2.0

#: Widths [s] of the bell by which the path of the camera is smoothed, and how far the mechanism may leave the middle for it, in its sizes.
_SMOOTH = (0.4, 0.2, 0.1, 0.05)
_ASIDE = 0.25

#: The space around a mechanism that is followed, in its sizes.
_MARGIN = 0.15


class Framing(NamedTuple):
    """The space to be shown, which moves by `shifts`, one for each position (N, 3), above a floor at a height.

    `rises` says that it goes far up or down.
    """

    box: Box
    shifts: np.ndarray
    floor: float
    rises: bool


def framing(scene: Scene, places: np.ndarray, rate: float = 0.0) -> Framing:
    """Return what pictures of the bodies in their places (N, bodies, 4, 4) show, so many of them a second; at 0 each is by itself.

    A mechanism that travels is followed by its centre of mass, whose path is smoothed as far as the mechanism stays in the middle.
    """
    spaces, box = scene.spaces(places), scene.box(places)
    whole = np.isfinite(spaces).all(axis=(1, 2))
    spaces, path = spaces[whole], scene.centre(places[whole])
    size = float(np.linalg.norm(spaces[:, 1] - spaces[:, 0], axis=1).max(initial=0.0))
    if not whole.any() or np.linalg.norm(np.ptp(path, axis=0)) <= FAR * size:
        return Framing(box, np.zeros((len(places), 3)), floor(box), False)
    followed = next((smooth for smooth in _smoothed(path, rate) if np.linalg.norm(smooth - path, axis=1).max() <= _ASIDE * size), path)
    near = spaces - followed[:, None] + _MARGIN * size * np.array([[-1.0], [1.0]])
    kept = np.maximum(np.cumsum(whole) - 1, 0)  # where bodies are nowhere, the last place that is known
    return Framing(Box(near[:, 0].min(axis=0), near[:, 1].max(axis=0)), followed[kept], floor(box), bool(np.ptp(path[:, 2]) > size))


def _smoothed(path: np.ndarray, rate: float) -> list[np.ndarray]:
    """Return a path, sampled at a rate, smoothed more and less; it goes on beyond its ends as it comes, mirrored at them."""
    paths = []
    for width in _SMOOTH:
        reach = min(int(3.0 * width * rate), len(path) - 1)
        if reach > 0:
            bell = np.exp(-0.5 * (np.arange(-reach, reach + 1) / (width * rate)) ** 2)
            ends = (2.0 * path[0] - path[reach:0:-1], 2.0 * path[-1] - path[-2 : -reach - 2 : -1])
            longer = np.concatenate([ends[0], path, ends[1]])
            paths.append(np.stack([np.convolve(x, bell / bell.sum(), "valid") for x in longer.T], axis=1))
    return paths
