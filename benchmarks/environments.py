"""Environments for reinforcement learning: steps a second on one core, beside Gymnasium's vector environment around MuJoCo.

    python benchmarks/environments.py [--quick] [--json FILE] [--mjx]

The tasks are those that are ready: the cart-pole and the arm of 7 joints that reaches, each with 4,096 environments and 1,000 steps of
random actions, episodes that end and begin again, observations and rewards. The peers have the same mechanism, step, integrator (RK4),
forces, observations, rewards and ends of episodes: `gymnasium.vector.SyncVectorEnv` around an environment that steps MuJoCo, as those of
Gymnasium do; and MuJoCo's own batch, `mujoco.rollout`, called for one step at a time, which is physics alone. They have fewer environments,
since what a step takes does not depend on their number. `AsyncVectorEnv`, a process for each environment, is for more cores than one. All
motions are compared first. With `--mjx` the peer is MJX, which steps the same models, physics alone; it needs JAX. Times are those of one
environment's step, minima over repeats that take turns.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import gymnasium
import machine
import mujoco
import numpy as np
import results
from mujoco import rollout as mujoco_rollout

import catena as ct

ENVIRONMENTS, STEPS = 4096, 1000

#: Environments of the peers, and steps of those around MuJoCo.
PEERS, PEER_STEPS = 256, 40

HAND = np.array([0.0, 0.0, 0.16])


def mujoco_model(m: Any, step: float) -> mujoco.MjModel:
    """Return a chain of hinges and slides as a MuJoCo model: RK4, no contacts, no limits."""

    def numbers(values: Any) -> str:
        return " ".join(f"{x:.17g}" for x in np.ravel(values))

    text = [
        f'<mujoco><compiler angle="radian" balanceinertia="false" boundmass="0" boundinertia="0" inertiafromgeom="false"/>'
        f'<option timestep="{step:.17g}" integrator="RK4" gravity="{numbers(m.gravity)}"><flag contact="disable" constraint="disable" '
        f'limit="disable" equality="disable" frictionloss="disable" actuation="disable" energy="disable"/></option><worldbody>'
    ]
    quat = np.zeros(4)
    for link in m.links:
        mujoco.mju_mat2Quat(quat, np.ascontiguousarray(link.at.R).ravel())
        joint, J = link.joint, np.array(link.body.inertia) + 1e-12 * np.eye(3) * (not np.linalg.det(link.body.inertia))
        kind = {"revolute": "hinge", "prismatic": "slide"}[joint.kind]
        text.append(
            f'<body pos="{numbers(link.at.p)}" quat="{numbers(quat)}"><joint type="{kind}" axis="{numbers(joint.axis)}" '
            f'damping="{numbers(joint.damping)}" armature="{numbers(joint.armature)}"/><inertial mass="{link.body.mass:.17g}" '
            f'pos="{numbers(link.body.com)}" fullinertia="{numbers([J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]])}"/>'
        )
    return mujoco.MjModel.from_xml_string("".join([*text, "</body>" * len(m.links), "</worldbody></mujoco>"]))


class AroundMuJoCo(gymnasium.Env):
    """An environment that steps MuJoCo: the mechanism, the actions and the time limit of a task, and functions of its own."""

    def __init__(self, task: ct.environments.Task, model: mujoco.MjModel, substeps: int) -> None:
        self.model, self.data, self.substeps = model, mujoco.MjData(model), substeps
        self.efforts, self.actuated, self.limit = task.efforts, list(task.actuated), task.max_episode_steps
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (task.observations,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (len(self.actuated),), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos, self.data.qvel = self.first()
        self.steps = 0
        return self.observe(), {}

    def step(self, action: np.ndarray) -> Any:
        action = np.clip(action, -1.0, 1.0)
        self.data.qfrc_applied[self.actuated] = action * self.efforts
        mujoco.mj_step(self.model, self.data, self.substeps)
        self.steps += 1
        observation = self.observe()
        return observation, self.reward(action), self.ended(), self.steps >= self.limit, {}


class CartPole(AroundMuJoCo):
    def first(self) -> Any:
        return self.np_random.uniform(-0.05, 0.05, 2), self.np_random.uniform(-0.05, 0.05, 2)

    def observe(self) -> np.ndarray:
        return np.concatenate([self.data.qpos, self.data.qvel])

    def reward(self, action: np.ndarray) -> float:
        return 1.0

    def ended(self) -> bool:
        x, angle = self.data.qpos
        return bool(abs(x) > 2.4 or abs(angle) > 0.20943951023931953)


class Arm(AroundMuJoCo):
    goal = np.array([0.4, 0.3, 0.8])

    def first(self) -> Any:
        most = np.array([2.0, 1.2, 2.0, 1.5, 2.0, 1.5, 2.0])
        self.data.qpos = self.np_random.uniform(-most, most)
        mujoco.mj_kinematics(self.model, self.data)
        self.goal = self.tip()
        return self.np_random.uniform(-0.2, 0.2, 7), np.zeros(7)

    def tip(self) -> np.ndarray:
        return self.data.xpos[-1] + self.data.xmat[-1].reshape(3, 3) @ HAND

    def observe(self) -> np.ndarray:
        mujoco.mj_kinematics(self.model, self.data)
        q, tip = self.data.qpos, self.tip()
        self.away = self.goal - tip
        return np.concatenate([np.sin(q), np.cos(q), self.data.qvel, tip, self.away])

    def reward(self, action: np.ndarray) -> float:
        return -float(np.sqrt(self.away @ self.away)) - 1e-2 * float(action @ action)

    def ended(self) -> bool:
        return False


def difference(envs: ct.environments.VectorEnvironment, peer: AroundMuJoCo, steps: int = 20) -> float:
    """Return by how much observations and rewards of the same state, actions and goal differ over some steps."""
    envs.reset(seed=0)
    peer.reset(seed=0)
    peer.data.qpos, peer.data.qvel = envs.q[0], envs.v[0]
    if envs.task.goals:
        peer.goal = envs.goal[0]
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(steps):
        action = rng.uniform(-1.0, 1.0, (envs.num_envs, len(envs.task.actuated)))
        observations, rewards, terminations, *_ = envs.step(action)
        expected = peer.step(action[0])
        assert terminations[0] == expected[2]
        worst = max(worst, float(np.abs(observations[0] - expected[0]).max()), abs(float(rewards[0]) - expected[1]))
        if terminations[0]:
            break
    return worst


def mjx_steps(model: mujoco.MjModel, environments: int, substeps: int) -> Callable[[], Any]:
    """Return a function that takes a step of MJX in all environments, compiled."""
    import jax
    from mujoco import mjx

    jax.config.update("jax_enable_x64", True)
    device = mjx.put_model(model)
    data = jax.vmap(lambda _: mjx.make_data(device))(np.arange(environments))
    force = jax.numpy.asarray(np.random.default_rng(0).uniform(-1.0, 1.0, (environments, model.nv)))

    def step(one: Any, tau: Any) -> Any:
        one = one.replace(qfrc_applied=tau)
        return jax.lax.fori_loop(0, substeps, lambda _, x: mjx.step(device, x), one)

    compiled = jax.jit(jax.vmap(step))
    return lambda: jax.block_until_ready(compiled(data, force).qpos)


def measure(
    task: ct.environments.Task, kind: type[AroundMuJoCo], substeps: int, environments: int, steps: int, seconds: float, with_mjx: bool
) -> results.Row:
    """Return the time of a step of an environment [us]: ours, and those of the peers."""
    model, rng = mujoco_model(task.model, task.step / substeps), np.random.default_rng(0)
    envs = ct.environments.VectorEnvironment(task, environments)
    peers, few = min(PEERS, environments), min(PEER_STEPS, steps)
    spread = difference(envs, kind(task, model, substeps))
    around = gymnasium.vector.SyncVectorEnv([lambda: kind(task, model, substeps)] * peers, copy=False)
    envs.reset(seed=0)
    around.reset(seed=0)
    given = [rng.uniform(-1.0, 1.0, (environments, len(task.actuated))) for _ in range(8)]
    runner, data = mujoco_rollout.Rollout(nthread=0), [mujoco.MjData(model)]
    states = np.zeros((peers, 1 + model.nq + model.nv))
    forces = np.zeros((peers, substeps, model.nv))

    def ours() -> None:
        for k in range(steps):
            envs.step(given[k % 8])

    def theirs() -> None:
        for k in range(few):
            around.step(given[k % 8][:peers])

    def batch() -> None:
        at = states
        for k in range(few):
            forces[:, :, list(task.actuated)] = (given[k % 8][:peers] * task.efforts)[:, None]
            at = runner.rollout(
                model, data, at, forces, nstep=substeps, control_spec=int(mujoco.mjtState.mjSTATE_QFRC_APPLIED), skip_checks=False
            )[0][:, -1]

    runs: dict[str, Callable[[], Any]] = {"catena": ours}
    counts = {"catena": environments * steps}
    if with_mjx:
        runs["MJX"], counts["MJX"] = mjx_steps(model, environments, substeps), environments
        runs["MJX"]()
    else:
        runs |= {"Gymnasium and MuJoCo": theirs, "mujoco.rollout": batch}
        counts |= dict.fromkeys(("Gymnasium and MuJoCo", "mujoco.rollout"), peers * few)
    us = {name: 1e6 * time / counts[name] for name, time in machine.fastest(runs, seconds, least=2).items()}
    figures = {"environments": environments, "steps": steps, "substeps": substeps, "difference": spread}
    return results.row(task.model.name, "a step of an environment", us.pop("catena"), us, **figures)


def main() -> None:
    """Measure, print and write the figures."""
    parser = results.parser(__doc__, "fewer environments and steps")
    parser.add_argument("--mjx", action="store_true", help="beside MJX alone")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    environments, steps, seconds = (64, 10, 0.2) if options.quick else (ENVIRONMENTS, STEPS, 12.0)
    tasks = ((ct.environments.cart_pole(), CartPole, 1), (ct.environments.arm(), Arm, 2))
    rows = [measure(task, kind, substeps, environments, steps, seconds, options.mjx) for task, kind, substeps in tasks]
    results.report("environments-mjx" if options.mjx else "environments", rows, options)


if __name__ == "__main__":
    main()
