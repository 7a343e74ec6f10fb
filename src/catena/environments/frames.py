"""Pictures of environments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from catena.environments.task import Situation, Task
from catena.kernels.kinematics import poses
from catena.view import painter
from catena.view.painter import Arrow
from catena.view.scene import FORCE, Box, Scene


class Frames:
    """Pictures of the environments of a task, from a camera that has a space in view: its lowest and its highest corner.

    Bodies have the places that follow from the numbers of the model that are drawn, and the shapes of the model.
    """

    def __init__(self, task: Task, size: tuple[int, int], space: tuple[np.ndarray, np.ndarray]) -> None:
        self._task, self._size, box = task, size, Box(*space)
        self._scene = Scene(task.model.varying((), "frames"))
        self._poses = poses(task.model.varying((), "frames"), parameters=task.model.varied)
        self._camera, self._floor = painter.camera(box), painter.floor(box)

    def picture(self, now: Situation) -> np.ndarray:
        """Return the picture of a situation: (height, width, 3)."""
        bodies = self._poses(*((now.t,) if self._task.model.driven_names else ()), now.q, *now.parameters.values())
        places = np.concatenate([bodies, np.eye(4)[None]])
        overlay = [Arrow(point, point, FORCE) for point in self._task.marks(now)]
        return np.array(painter.picture(self._scene, places, self._camera, self._floor, self._size, f"{now.t:.2f} s", overlay))


def taken(task: Task, seen: Sequence[Situation]) -> tuple[np.ndarray, np.ndarray]:
    """Return the space that bodies and marks take in several situations: its lowest and its highest corner."""
    scene = Scene(task.model.varying((), "frames"))
    box = scene.box(scene.places(np.array([now.t for now in seen]), np.array([now.q for now in seen])))
    points = np.concatenate([np.stack([box.low, box.high]), *map(task.marks, seen)])
    return points.min(axis=0), points.max(axis=0)
