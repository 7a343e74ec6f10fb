"""What Gymnasium makes by name: the entry points of the tasks that are ready."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium

from catena.environments.ready import arm, cart_pole, double_pendulum, five_bar, stewart
from catena.environments.single import Environment
from catena.environments.task import Task
from catena.environments.vector import VectorEnvironment

#: The options of environments; others are those of their tasks.
_OPTIONS = ("autoreset_mode", "dtype", "render_mode", "size")


def _entries(make: Callable[[], Task]) -> tuple[Callable[..., Environment], Callable[..., VectorEnvironment]]:
    """Return the functions that make one environment and many of a task; both take the options of environments and of tasks."""

    def parted(options: dict[str, Any]) -> tuple[Task, dict[str, Any]]:
        own = {name: value for name, value in options.items() if name not in _OPTIONS}
        return make().with_options(**own) if own else make(), {name: options[name] for name in _OPTIONS if name in options}

    def one(**options: Any) -> Environment:
        task, rest = parted({"max_episode_steps": None, **options})  # Gymnasium counts the steps of one environment itself
        return Environment(task, **rest)

    def many(num_envs: int = 1, **options: Any) -> VectorEnvironment:
        task, rest = parted(options)
        return VectorEnvironment(task, num_envs, **rest)

    return one, many


CartPole, CartPoleVector = _entries(cart_pole)
DoublePendulum, DoublePendulumVector = _entries(double_pendulum)
Arm, ArmVector = _entries(arm)
FiveBar, FiveBarVector = _entries(five_bar)
Stewart, StewartVector = _entries(stewart)

#: The names in Gymnasium's registry, by those of the entry points, with the number of steps of an episode.
IDS = {"CartPole": 500, "DoublePendulum": 500, "Arm": 250, "FiveBar": 500, "Stewart": 500}


def register() -> None:
    """Enter the tasks that are ready in Gymnasium's registry, as `catena/CartPole-v0` and so on, unless they are there."""
    for name, steps in IDS.items():
        if f"catena/{name}-v0" not in gymnasium.registry:
            gymnasium.register(
                f"catena/{name}-v0", entry_point=f"{__name__}:{name}", vector_entry_point=f"{__name__}:{name}Vector",
                max_episode_steps=steps,
            )  # fmt: skip
