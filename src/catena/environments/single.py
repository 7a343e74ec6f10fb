"""One environment of a task."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from catena.environments.task import Task
from catena.environments.vector import VectorEnvironment


class Environment(gymnasium.Env):
    """A `gymnasium.Env` of a task: one environment of `VectorEnvironment`, with observations and rewards of its own.

    >>> env = ct.environments.Environment(ct.environments.cart_pole())
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step([0.5])
    >>> observation.shape, reward, terminated, truncated
    ((4,), 1.0, False, False)
    """

    def __init__(
        self, task: Task, *, dtype: Any = np.float64, render_mode: str | None = None, size: tuple[int, int] = (480, 480)
    ) -> None:
        self._one = VectorEnvironment(task, 1, autoreset_mode=AutoresetMode.DISABLED, dtype=dtype, render_mode=render_mode, size=size)
        self.task, self.render_mode = task, render_mode
        self.metadata = {key: value for key, value in self._one.metadata.items() if key != "autoreset_mode"}
        self.observation_space, self.action_space = self._one.single_observation_space, self._one.single_action_space

    @property
    def q(self) -> np.ndarray:
        """Positions (nq,)."""
        return self._one.q[0]

    @property
    def v(self) -> np.ndarray:
        """Velocities (nv,)."""
        return self._one.v[0]

    @property
    def t(self) -> float:
        """Time since the episode began [s]."""
        return float(self._one.t[0])

    @property
    def goal(self) -> np.ndarray:
        """The goal of the episode, (goals,)."""
        return self._one.goal[0]

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Numbers of the model that are drawn for each episode, by path."""
        return {path: x[0] for path, x in self._one.parameters.items()}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; return the observation and no infos."""
        super().reset(seed=seed)
        observations, _ = self._one.reset(seed=seed)
        return observations[0], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Move by a step; return observation, reward, whether the episode terminated or was truncated, and info."""
        observations, rewards, terminations, truncations, infos = self._one.step([action])
        info = {"failed": True} if "failed" in infos else {}
        return observations[0], float(rewards[0]), bool(terminations[0]), bool(truncations[0]), info

    def render(self) -> Any:
        """Return a picture: (height, width, 3) numbers from 0 to 255; None without a `render_mode`."""
        return None if self.render_mode is None else self._one.frame(0)

    def close(self) -> None:
        """Forget what pictures were drawn with."""
        self._one.close()
