"""Many environments of one task, stepped together."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from catena.environments.draws import Streams
from catena.environments.frames import Frames, taken
from catena.environments.task import FAILED, Situation, Task
from catena.errors import ArgumentError, SimulationError, SingularWarning
from catena.simulation.arguments import count


class VectorEnvironment(VectorEnv):
    """A `gymnasium.vector.VectorEnv` of so many environments of one task, which compiled code steps together.

    Every environment has its own episode, random numbers, goal and numbers of the model, and is, bit for bit, the one that it would be
    alone. `reset(seed=n)` seeds environment i with n + i; `reset(seed=[...])` each with its own. Environments whose episode ended begin
    another by `autoreset_mode`, one of Gymnasium's `AutoresetMode` or its value: "NextStep", where the step after the end begins the
    episode and its action does not count; "SameStep", where the last observation is in `infos["final_obs"]`; "Disabled", where
    `reset(options={"reset_mask": mask})` begins those of a mask.

    A step that fails ends the episode, as an action that is not a number does: the observation is that of the last good state, and
    `infos["failed"]` tells where. Observations and actions have the type `dtype`. With `render_mode="rgb_array"`, `render()` returns a
    picture of each environment, of `size` pixels.

    `q`, `v`, `t`, `goal` and `parameters` are copies of the states, their times [s], goals, and random numbers of the models by path.

    >>> envs = ct.environments.VectorEnvironment(ct.environments.cart_pole(), 1000)
    >>> observations, infos = envs.reset(seed=0)
    >>> observations, rewards, terminations, truncations, infos = envs.step(np.zeros((1000, 1)))
    >>> observations.shape, rewards.sum(), envs.t[:2]
    ((1000, 4), np.float64(1000.0), array([0.02, 0.02]))
    """

    def __init__(
        self,
        task: Task,
        num_envs: int,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        dtype: Any = np.float64,
        render_mode: str | None = None,
        size: tuple[int, int] = (480, 480),
    ) -> None:
        if not isinstance(task, Task):
            raise ArgumentError(f"environment: {task!r} is not a task; give a ct.environments.Task, or one of those that are ready")
        if render_mode not in (None, "rgb_array"):
            raise ArgumentError(f"environment: render_mode {render_mode!r} is not known; give 'rgb_array' or None")
        self.task, self.num_envs, self.render_mode = task, count("environment: num_envs", num_envs), render_mode
        self._mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": max(1, round(1.0 / task.step)), "autoreset_mode": self._mode}
        self.single_observation_space, self.single_action_space = spaces(task, dtype)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._dtype, self._size, self._frames = np.dtype(dtype), size, None
        m, n = task.model, self.num_envs
        self._streams, self._everyone = Streams(n), np.arange(n)
        # the states, and others to write the next ones to
        self._q, self._v = np.zeros((n, m.nq)), np.zeros((n, m.nv))
        self._next = np.zeros((n, m.nq)), np.zeros((n, m.nv))
        self._goal, self._given = np.zeros((n, task.goals)), [np.zeros((n, *m.parameters()[path].shape)) for path in m.varied]
        self._elapsed, self._ended, self._begun = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        self._action, self._inputs = np.zeros((n, len(task.actuated))), np.zeros((n, len(task.inputs)))
        self._invalid: np.ndarray = np.zeros(n, dtype=bool)  # environments whose last action was not a number

    # what is known of the environments

    @property
    def q(self) -> np.ndarray:
        """Positions (num_envs, nq)."""
        return self._q.copy()

    @property
    def v(self) -> np.ndarray:
        """Velocities (num_envs, nv)."""
        return self._v.copy()

    @property
    def t(self) -> np.ndarray:
        """Times since the episodes began [s]."""
        return self._elapsed * self.task.step

    @property
    def goal(self) -> np.ndarray:
        """Goals (num_envs, goals) of the episodes."""
        return self._goal.copy()

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Numbers of the models that are drawn for each episode, by path."""
        return {path: x.copy() for path, x in zip(self.task.model.varied, self._given, strict=True)}

    # Gymnasium's functions

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin episodes, of all environments or of those in `options["reset_mask"]`; return observations and no infos."""
        mask = (options or {}).get("reset_mask")
        rows = self._everyone if mask is None else self._masked(mask)
        if seed is not None:
            self._seed(seed, rows)
        self._begin(rows)
        if not self._begun.all():
            raise gymnasium.error.ResetNeeded("the environments have not been reset yet; call reset() without a mask first")
        observation, _, ended = self._look(self.t)
        self._check(ended, rows)
        return observation, {}

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Move all environments by a step; return observations, rewards, terminations, truncations and infos."""
        if not self._begun.all():
            raise gymnasium.error.ResetNeeded("step() before reset(); call reset() first")
        self._take(actions)
        if self._mode is AutoresetMode.DISABLED and self._ended.any():
            first = int(np.argmax(self._ended))
            raise gymnasium.error.ResetNeeded(
                f"the episode of environment {first} has ended; call reset(options={{'reset_mask': terminations | truncations}})"
            )
        self._move()
        self._elapsed += 1
        again = np.flatnonzero(self._ended) if self._mode is AutoresetMode.NEXT_STEP else np.zeros(0, dtype=int)
        if len(again):
            self._begin(again)
        observations, rewards, ended = self._look(self.t)
        self._invalid[again] = False  # their actions do not count
        ended[self._invalid] = FAILED
        infos: dict[str, Any] = {}
        if ended.any():
            terminations, failed = ended != 0.0, ended == FAILED
            if failed.any():
                self._check(ended, again)
                observations, rewards = self._recover(failed)
                infos = {"failed": failed, "_failed": failed.copy()}
        else:
            terminations = np.zeros(self.num_envs, dtype=bool)
        limit = self.task.max_episode_steps
        truncations = np.zeros(self.num_envs, dtype=bool) if limit is None else self._elapsed >= limit
        if len(again):
            rewards[again], terminations[again], truncations[again] = 0.0, False, False
        self._ended = terminations | truncations
        if self._mode is AutoresetMode.SAME_STEP and self._ended.any():
            infos = self._begin_again(observations, infos)
        return observations, rewards, terminations, truncations, infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return a picture of each environment: (height, width, 3) numbers from 0 to 255; None without a `render_mode`."""
        if self.render_mode is None:
            return None
        return tuple(self.frame(i) for i in range(self.num_envs))

    def frame(self, i: int) -> np.ndarray:
        """Return a picture of one environment."""
        if not self._begun[i]:
            raise gymnasium.error.ResetNeeded("render() before reset(); call reset() first")
        if self._frames is None:
            self._frames = Frames(self.task, self._size, self.task.space or _seen(self.task))
        return self._frames.picture(self._situation(i))

    def _situation(self, i: int) -> Situation:
        given = {path: x[i].copy() for path, x in zip(self.task.model.varied, self._given, strict=True)}
        return Situation(float(self.t[i]), self._q[i].copy(), self._v[i].copy(), self._goal[i].copy(), given)

    def close_extras(self, **kwargs: Any) -> None:
        """Forget what pictures were drawn with."""
        self._frames = None

    # how

    def _masked(self, mask: Any) -> np.ndarray:
        if not isinstance(mask, np.ndarray) or mask.shape != (self.num_envs,) or mask.dtype != bool or not mask.any():
            raise ArgumentError(f"reset: reset_mask {mask!r} is not a mask; give an array of {self.num_envs} bools, one of them True")
        return np.flatnonzero(mask)

    def _seed(self, seed: Any, rows: np.ndarray) -> None:
        if isinstance(seed, (int, np.integer)):
            super().reset(seed=int(seed))
            seed = range(int(seed), int(seed) + self.num_envs)
        seeds: list[Any] = list(seed)
        if len(seeds) != self.num_envs:
            raise ArgumentError(f"reset: {len(seeds)} seeds for {self.num_envs} environments; give one for each, or one number")
        for i in rows:
            if seeds[i] is not None:
                self._streams.seed(i, int(seeds[i]))

    def _begin(self, rows: np.ndarray) -> None:
        """Begin episodes of some environments."""
        q, v, goal, given = self.task.begin(self._streams.draw(rows, self.task.draws))
        self._q[rows], self._v[rows], self._goal[rows] = q, v, goal
        for numbers, drawn in zip(self._given, given, strict=True):
            numbers[rows] = drawn
        self._elapsed[rows], self._ended[rows], self._begun[rows] = 0, False, True
        self._action[rows] = 0.0

    def _take(self, actions: Any) -> None:
        """Set the joint forces, or the controls, of actions."""
        try:
            given = np.asarray(actions, dtype=float)
        except (TypeError, ValueError):
            given = np.zeros(0)
        if given.shape != self._action.shape:
            raise ArgumentError(f"step: actions have shape {np.shape(actions)}; give numbers of shape {self._action.shape}")
        self._invalid[:] = np.isnan(given).any(axis=1)
        np.clip(np.where(self._invalid[:, None], 0.0, given) if self._invalid.any() else given, -1.0, 1.0, out=self._action)
        self._inputs[:, self.task.actuated] = self.task.rest + self._action * self.task.efforts

    def _move(self) -> None:
        """Move all states; those before are in the other buffers then."""
        if self.task.model.has_loops:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SingularWarning)  # an episode goes on through such a state, or fails
                self.task.move(self.t, self._q, self._v, self._inputs, self._given, out=self._next)
        else:
            self.task.move(self.t, self._q, self._v, self._inputs, self._given, out=self._next)
        (self._q, self._v), self._next = self._next, (self._q, self._v)

    def _look(self, t: np.ndarray, rows: Any = slice(None)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return observations, rewards, and what ends episodes, as new arrays."""
        given = (x[rows] for x in self._given)
        observation, reward, ended = self.task.look(t[rows], self._q[rows], self._v[rows], self._action[rows], self._goal[rows], *given)
        return observation.astype(self._dtype, copy=False), reward, ended

    def _check(self, ended: np.ndarray, rows: np.ndarray) -> None:
        """Refuse first states whose observation is not finite."""
        for i in rows[ended[rows] == FAILED][:1]:
            raise SimulationError(f"environment {i}: observe or reward is not finite at the first state, q = {self._q[i]}; change them")

    def _recover(self, failed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Put states that are not finite back to those before; return observations and rewards of all environments."""
        q, v = self._next
        self._q[failed], self._v[failed] = q[failed], v[failed]
        observations, rewards, ended = self._look(self.t)
        for i in np.flatnonzero(ended == FAILED)[:1]:
            raise SimulationError(
                f"environment {i}: observe or reward is not finite, also at the last good state, q = {self._q[i]}; change them"
            )
        return observations, rewards

    def _begin_again(self, observations: np.ndarray, infos: dict[str, Any]) -> dict[str, Any]:
        """Begin the episodes that ended, in the same step; return infos with the last observations."""
        rows, ended = np.flatnonzero(self._ended), self._ended.copy()
        final = np.full(self.num_envs, None, dtype=object)
        for i, last in zip(rows, observations[rows], strict=True):
            final[i] = last
        self._begin(rows)
        first, _, flags = self._look(self.t, rows)
        if (flags == FAILED).any():
            self._check(self._look(self.t)[2], rows)
        observations[rows] = first
        return {"final_obs": final, "_final_obs": ended, "final_info": infos, "_final_info": ended.copy()}


def spaces(task: Task, dtype: Any) -> tuple[Box, Box]:
    """Return the spaces of observations and of actions of one environment."""
    if np.dtype(dtype).kind != "f":
        raise ArgumentError(f"environment: dtype {dtype!r} is not one of floats; give np.float32 or np.float64")
    low, high = task.observation_limits or (np.full(task.observations, -np.inf), np.full(task.observations, np.inf))
    kind: Any = np.dtype(dtype).type
    return Box(low.astype(kind), high.astype(kind), dtype=kind), Box(-1.0, 1.0, (len(task.actuated),), dtype=kind)


def _seen(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Return the space that random actions lead to, with the points that are marked on the way."""
    envs, rng, seen = VectorEnvironment(task, 16), np.random.default_rng(0), []
    envs.reset(seed=0)
    for k in range(min(100, task.max_episode_steps or 100)):
        envs.step(rng.uniform(-1.0, 1.0, envs.action_space.shape))
        if k % 5 == 0:
            seen += [envs._situation(i) for i in range(envs.num_envs)]
    return taken(task, seen)
