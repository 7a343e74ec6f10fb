"""Environments: Gymnasium's checks, and that many environments are those that each would be alone, with its own numbers and loops."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import catena as ct
from catena import environments
from catena.environments import Environment, Task, VectorEnvironment
from catena.environments.draws import Streams
from catena.environments.registered import IDS
from catena.examples import ACTUATED, cart_pole, four_bar

TASKS = {
    "CartPole": environments.cart_pole, "DoublePendulum": environments.double_pendulum, "Arm": environments.arm,
    "FiveBar": environments.five_bar, "Stewart": environments.stewart,
}  # fmt: skip


def pole(m: ct.Model | None = None, **options: Any) -> Task:
    """Return a cart-pole whose episodes are short."""
    given: dict[str, Any] = {
        "step": 0.02, "efforts": {"cart": 10.0}, "max_episode_steps": 25, "observe": lambda q, v: np.concatenate([q, v]),
        "reset": lambda random: (random.uniform(-0.05, 0.05, 2), random.normal(0.0, 0.3, 2)), "reward": lambda q, action: q[0] - action[0],
        "terminate": lambda q: abs(q[1]) > 0.2,
    }  # fmt: skip
    return Task(m or cart_pole(), **{**given, **options})


def actions(envs: Any, steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (steps, *envs.action_space.shape))


# --- Gymnasium's own checks


@pytest.mark.parametrize("name", TASKS)
def test_gymnasium_accepts_every_environment_that_is_ready(name: str) -> None:
    """Warnings are errors here, those of Gymnasium among them."""
    env = gymnasium.make(f"catena/{name}-v0", render_mode="rgb_array")
    check_env(env.unwrapped)
    env.reset(seed=3)
    ended = False
    while not ended:  # with the passive checker around it
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        ended = terminated or truncated
    env.close()
    env.close()


@pytest.mark.parametrize("name", TASKS)
def test_many_are_made_by_name(name: str) -> None:
    envs = gymnasium.make_vec(f"catena/{name}-v0", num_envs=5, dtype=np.float32)
    assert isinstance(envs, VectorEnvironment)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert envs.task.max_episode_steps == IDS[name] == TASKS[name]().max_episode_steps
    observations, infos = envs.reset(seed=1)
    assert infos == {}
    for action in actions(envs, 60):
        assert envs.observation_space.contains(observations)
        observations, rewards, terminations, truncations, _ = envs.step(action.astype(np.float32))
        assert (rewards.dtype, terminations.dtype, truncations.dtype) == (np.float64, bool, bool)
        assert rewards.shape == terminations.shape == truncations.shape == (5,)
    envs.close()


def test_options_of_tasks_and_environments_are_taken_by_name() -> None:
    envs = gymnasium.make_vec("catena/CartPole-v0", 4, parameters={"pole.mass": (0.1, 0.3)}, max_episode_steps=7, autoreset_mode="SameStep")
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert envs.task.max_episode_steps == 7
    envs.reset(seed=0)
    masses = envs.parameters["pole.mass"]
    assert ((masses > 0.1) & (masses < 0.3)).all()
    env = gymnasium.make("catena/CartPole-v0", max_episode_steps=3)
    env.reset(seed=0)
    assert [env.step([0.0])[3] for _ in range(3)] == [False, False, True]
    with pytest.raises(ct.ArgumentError, match="there is no option 'lenght'"):
        gymnasium.make_vec("catena/CartPole-v0", 4, lenght=3)


# --- many are as each is alone


def run(envs: Any, steps: int, seed: Any = 5) -> list[Any]:
    found = [envs.reset(seed=seed)]
    for action in actions(envs, steps):
        found.append(envs.step(action))
        ended = found[-1][2] | found[-1][3]
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            found.append(envs.reset(options={"reset_mask": ended}))
    return found


def assert_same(one: Any, two: Any) -> None:
    assert type(one) is type(two)
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for key in one:
            assert_same(one[key], two[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            assert_same(a, b)
    elif isinstance(one, np.ndarray) and one.dtype == object:
        assert_same(list(one), list(two))
    else:
        assert_array_equal(one, two)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_many_equal_gymnasium_s_vector_of_single_ones(mode: AutoresetMode) -> None:
    """Bit for bit, in every mode of autoreset: observations, rewards, terminations, truncations, infos; and the last observations."""
    task = pole(parameters={"pole.mass": (0.05, 0.3), "cart.damping": lambda random: abs(random.normal(0.05, 0.02))})
    many = run(VectorEnvironment(task, 6, autoreset_mode=mode), 80)
    peer = run(SyncVectorEnv([lambda: Environment(task)] * 6, autoreset_mode=mode), 80)
    assert_same(many, peer)
    ends = [row[2:4] for row in many if len(row) == 5]
    assert any(terminated.any() for terminated, _ in ends)
    assert any(truncated.any() for _, truncated in ends)


@pytest.mark.parametrize("name", TASKS)
def test_an_environment_in_a_batch_is_bit_for_bit_the_one_alone(name: str) -> None:
    task = TASKS[name]()
    many, alone = VectorEnvironment(task, 9), VectorEnvironment(task, 1)
    given = actions(many, 60)
    first, own = many.reset(seed=10)[0], alone.reset(seed=14)[0]
    assert_array_equal(first[4], own[0])
    for action in given:
        found, expected = many.step(action), alone.step(action[4:5])
        for x, y in zip(found[:4], expected[:4], strict=True):
            assert_array_equal(x[4], y[0])


def test_the_same_seed_gives_the_same_bits_and_others_give_others() -> None:
    envs = VectorEnvironment(pole(), 4)
    one, two = run(envs, 40), run(envs, 40)
    assert_same(one, two)
    assert not np.array_equal(one[0][0], run(envs, 0, seed=6)[0][0])
    assert_array_equal(envs.reset(seed=[9, 8, 7, 6])[0], np.concatenate([envs.reset(seed=[k] * 4)[0][:1] for k in (9, 8, 7, 6)]))
    first, _ = envs.reset(seed=1)
    again, _ = envs.reset()
    assert (first != again).any(axis=1).all()
    kept, _ = envs.reset(seed=[None, None, 5, None])
    assert_array_equal(kept[2], envs.reset(seed=[5] * 4)[0][2])


def test_environments_that_were_never_seeded_differ() -> None:
    first, second = (VectorEnvironment(pole(), 3).reset()[0] for _ in range(2))
    assert len(np.unique(np.concatenate([first, second])[:, 0])) == 6


def test_observations_that_were_returned_do_not_change() -> None:
    envs = VectorEnvironment(pole(), 3, autoreset_mode="SameStep")
    held, copies = [], []
    held.append(envs.reset(seed=0)[0])
    copies.append(held[-1].copy())
    for action in actions(envs, 40):
        for x in envs.step(action)[:4]:
            held.append(x)
            copies.append(x.copy())
    for x, y in zip(held, copies, strict=True):
        assert_array_equal(x, y)
    q = envs.q
    q[:] = 7.0
    assert (envs.q != 7.0).all()


def test_tasks_and_environments_are_pickled_and_go_on() -> None:
    for make in TASKS.values():
        envs = VectorEnvironment(make(), 2)
        envs.reset(seed=1)
        given = actions(envs, 6)
        for action in given[:3]:
            envs.step(action)
        others = pickle.loads(pickle.dumps(envs)), copy.deepcopy(envs)
        for action in given[3:]:
            expected = envs.step(action)
            for other in others:
                assert_same(other.step(action), expected)


# --- how episodes end


def test_truncation_is_not_termination() -> None:
    still = pole(reset=lambda random: (np.zeros(2), np.zeros(2)), max_episode_steps=3)
    envs = VectorEnvironment(still, 2)
    envs.reset(seed=0)
    rest = np.zeros((2, 1))
    ends = [envs.step(rest)[2:4] for _ in range(8)]
    assert not any(terminated.any() for terminated, _ in ends)
    assert [truncated.tolist() for _, truncated in ends] == [[k in (2, 6)] * 2 for k in range(8)]
    falling = pole(reset=lambda random: (np.array([0.0, 0.19]), np.array([0.0, 1.0])), max_episode_steps=None)
    observation, _, terminated, truncated, info = (env := Environment(falling)).reset(seed=0) and env.step([0.0])
    assert (terminated, truncated, info) == (True, False, {})
    assert observation[1] > 0.2
    with pytest.raises(gymnasium.error.ResetNeeded, match="has ended"):
        env.step([0.0])


def diverging() -> Task:
    """Return a slider that is not a number beyond 1 m."""
    m = ct.Model("slider", gravity=(0, 0, 0))
    m.add("block", ct.point_mass(1.0), ct.Prismatic("x", effort=1.0))
    m.add_force("edge", lambda t, q, v: 1e-9 * np.sqrt(1.0 - q))
    return Task(
        m, step=0.1, reset=lambda random: (random.uniform(0.0, 0.5, 1), np.zeros(1)), observe=lambda q, v: np.concatenate([q, v]),
        reward=lambda q: q[0], observation_limits=(-5.0, 5.0),
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_step_that_fails_ends_the_episode_at_the_last_good_state(mode: str) -> None:
    envs = VectorEnvironment(diverging(), 3, autoreset_mode=mode)
    before, _ = envs.reset(seed=4)
    push = np.array([[1.0], [0.0], [-1.0]])
    for _ in range(40):
        observations, rewards, terminations, truncations, infos = envs.step(push)
        assert np.isfinite(observations).all()
        assert np.isfinite(rewards).all()
        if terminations.any():
            break
        before = observations
    assert terminations.tolist() == [True, False, False]
    assert not truncations.any()
    told = infos["final_info"] if mode == "SameStep" else infos
    assert_array_equal(told["failed"], [True, False, False])
    assert_array_equal(told["_failed"], told["failed"])
    last = infos["final_obs"][0] if mode == "SameStep" else observations[0]
    assert_array_equal(last, before[0])
    assert last[0] < 1.0
    assert rewards[0] == last[0]
    if mode == "NextStep":
        observations, rewards, terminations, _, infos = envs.step(push)
        assert (rewards[0], terminations[0], infos) == (0.0, False, {})
    assert 0.0 < observations[0, 0] < 0.5
    assert observations[0, 1] == 0.0


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_an_action_that_is_not_a_number_ends_its_own_episode_and_no_other(mode: str) -> None:
    """The others are bit for bit those of the same actions without it; the reward uses the action."""
    given = actions(VectorEnvironment(pole(max_episode_steps=None, terminate=None), 3), 4)
    envs, others = (VectorEnvironment(pole(max_episode_steps=None, terminate=None), 3, autoreset_mode=mode) for _ in range(2))
    before, _ = envs.reset(seed=4)
    others.reset(seed=4)
    for k, push in enumerate(given):
        lost = k == 1
        observations, rewards, terminations, truncations, infos = envs.step(np.where([[False], [lost], [False]], np.nan, push))
        expected, expected_rewards, *_ = others.step(push)
        assert_array_equal(observations[[0, 2]], expected[[0, 2]])
        assert_array_equal(rewards[[0, 2]], expected_rewards[[0, 2]])
        assert terminations.tolist() == [False, lost, False]
        assert not truncations.any()
        assert np.isfinite(observations).all()
        assert np.isfinite(rewards).all()
        if lost:
            assert_array_equal((infos["final_info"] if mode == "SameStep" else infos)["failed"], [False, True, False])
            assert_array_equal(infos["final_obs"][1] if mode == "SameStep" else observations[1], before[1])
            if mode == "Disabled":
                envs.reset(options={"reset_mask": terminations})
        before = observations
    if mode == "NextStep":  # the action of a step that begins an episode does not count
        envs.step(np.where([[False], [True], [False]], np.nan, push))
        *_, terminations, _, infos = envs.step(np.where([[False], [True], [False]], np.nan, push))
        assert (terminations.any(), infos) == (False, {})


def test_a_single_environment_ends_its_episode_at_an_action_that_is_not_a_number() -> None:
    env = Environment(pole())
    first, _ = env.reset(seed=0)
    observation, reward, terminated, _, info = env.step([np.nan])
    assert_array_equal(observation, first)
    assert (reward, terminated, info) == (first[0], True, {"failed": True})


def test_a_single_environment_says_that_it_failed() -> None:
    env = Environment(diverging())
    env.reset(seed=0)
    for _ in range(40):
        *_, terminated, _, info = env.step([1.0])
        if terminated:
            break
    assert info == {"failed": True}


def test_functions_that_are_not_finite_are_named() -> None:
    with np.errstate(invalid="ignore"):
        envs = VectorEnvironment(pole(reward=lambda q: np.sqrt(q[0] - 10.0)), 2)
    with pytest.raises(ct.SimulationError, match="environment 0: observe or reward is not finite at the first state"):
        envs.reset(seed=0)
    far = VectorEnvironment(pole(reset=lambda random: (np.sqrt(random.uniform(-2.0, -1.0, 2)), np.zeros(2))), 2)
    with pytest.raises(ct.ArgumentError, match="reset: q is not finite"):
        far.reset()


# --- actions


def test_actions_are_parts_of_the_effort_of_the_joints() -> None:
    m = ct.Model("arm")
    m.add("upper", ct.rod(0.5, mass=2.0), ct.Revolute("y", effort=30.0))
    m.add("lower", ct.rod(0.5, mass=1.0), ct.Revolute("y"), parent="upper", at=(0.5, 0, 0))
    m.add("hand", ct.box(0.1, 0.1, 0.1, mass=0.5), ct.Revolute("x", effort=4.0), parent="lower", at=(0.5, 0, 0))
    options: dict[str, Any] = {
        "step": 0.01, "reset": lambda random: (random.uniform(-1.0, 1.0, 3), random.normal(size=3)),
        "observe": lambda q, v, action: np.concatenate([q, v, action]), "reward": lambda: 0.0,
    }  # fmt: skip
    task = Task(m, **options)
    assert task.names == ("upper", "hand")
    envs = VectorEnvironment(task, 4)
    envs.reset(seed=0)
    q, v, move = envs.q, envs.v, ct.stepper(m, 0.01)
    given = np.array([[0.5, -0.25], [3.0, -2.0], [0.0, 1.0], [-1.0, 0.0]])
    observations = envs.step(given)[0]
    held = np.clip(given, -1.0, 1.0)
    expected = move(q, v, np.stack([30.0 * held[:, 0], np.zeros(4), 4.0 * held[:, 1]], axis=1))
    assert_array_equal(observations, np.concatenate([*expected, held], axis=1))
    assert Task(m, **options, efforts={"lower": 7.0}).efforts.tolist() == [30.0, 7.0, 4.0]
    assert Task(m, **options, actuated=["hand", "lower"], efforts=(1.0, 2.0)).actuated == (2, 1)
    assert Task(m, **options, efforts=5.0).efforts.tolist() == [5.0, 5.0, 5.0]
    with pytest.raises(ct.ArgumentError, match=r"'arm' has no effort limit of lower, .*give effort= to the joint, or to the task efforts"):
        Task(m, **options, actuated=["lower"])


def test_a_model_without_efforts_has_no_limits_of_actions() -> None:
    with pytest.raises(ct.ArgumentError, match="model 'cart-pole' has no effort limit of cart, pole"):
        pole(efforts=None)


def test_spaces_have_the_limits_and_the_type_that_are_asked() -> None:
    task = pole(observation_limits=([-1, -2, -3, -4], 5.0))
    for dtype in (np.float32, np.float64):
        envs = VectorEnvironment(task, 3, dtype=dtype)
        assert envs.single_observation_space == gymnasium.spaces.Box(np.array([-1, -2, -3, -4], dtype), np.full(4, 5.0, dtype), dtype=dtype)
        assert envs.single_action_space == gymnasium.spaces.Box(-1.0, 1.0, (1,), dtype)
        assert envs.observation_space.shape == (3, 4)
        assert envs.reset(seed=0)[0].dtype == envs.step(np.zeros((3, 1)))[0].dtype == dtype
    small = VectorEnvironment(pole(observation_limits=(-0.01, 0.01)), 8)
    assert small.observation_space.contains(small.reset(seed=0)[0])


# --- numbers of the models


def test_each_environment_moves_as_the_model_with_its_numbers() -> None:
    """Against `ct.rollout` with these values, and against the model that has them, one by one."""
    spread = {"pole.mass": (0.05, 0.5), "pole.com": ((0, 0, 0.1), (0, 0, 0.4)), "cart.damping": lambda random: random.uniform(0.0, 1.0)}
    task = pole(parameters=spread, terminate=None, max_episode_steps=None)
    envs = VectorEnvironment(task, 5)
    envs.reset(seed=2)
    q, v, values = envs.q, envs.v, envs.parameters
    for path, value in values.items():
        assert len(np.unique(value, axis=0)) == 5, path
    assert ((values["pole.com"][:, 2] > 0.1) & (values["pole.com"][:, 2] < 0.4)).all()
    given = actions(envs, 30)
    for action in given:
        envs.step(action)
    controls = np.concatenate([10.0 * given, np.zeros_like(given)], axis=2).swapaxes(0, 1)
    runs = ct.rollout(cart_pole(), q, v, controls, 0.02, 30, parameters=values)
    assert_allclose(envs.q, runs.q[:, -1], rtol=1e-12, atol=1e-12)
    for i in range(5):
        own = cart_pole().with_values({path: value[i] for path, value in values.items()})
        alone = ct.rollout(own, q[i], v[i], controls[i], 0.02, 30)
        assert_allclose(envs.q[i], alone.q[-1], rtol=1e-9, atol=1e-10)
    envs.reset()
    assert (envs.parameters["pole.mass"] != values["pole.mass"]).all()


def test_functions_have_the_numbers_that_are_drawn() -> None:
    m = ct.Model("pendulum")
    length = m.parameter("length", 0.5)
    m.add("rod", ct.rod(length, mass=1.0), ct.Revolute("y", effort=2.0))
    place = ct.poses(m, parameters="length")

    def tip(q: Any, parameters: Any) -> Any:
        return place(q, parameters["length"])[0][:3, 0] * parameters["length"]

    task = Task(
        m, step=0.01, parameters={"length": (0.3, 0.9)}, observe=lambda q, parameters: np.append(tip(q, parameters), length),
        reset=lambda random, parameters: (random.uniform(-1.0, 1.0, 1), np.stack([parameters["length"]])),
        reward=lambda q: length * np.cos(q[0]),
    )  # fmt: skip
    envs = VectorEnvironment(task, 7)
    envs.reset(seed=0)
    lengths = envs.parameters["length"]
    assert_array_equal(envs.v[:, 0], lengths)
    observations, rewards, *_ = envs.step(np.zeros((7, 1)))
    assert_allclose(observations[:, :3], lengths[:, None] * np.stack([np.cos(q := envs.q[:, 0]), 0 * q, -np.sin(q)], axis=1), atol=1e-15)
    assert_array_equal(observations[:, 3], lengths)
    assert_allclose(rewards, lengths * np.cos(envs.q[:, 0]), rtol=1e-14)


def test_driven_joints_and_quaternions_move_as_in_rollouts() -> None:
    m = ct.Model("shaken top")
    m.add("table", ct.point_mass(5.0), ct.Driven(ct.Prismatic("z"), lambda t: 0.02 * np.sin(30.0 * t)))
    m.add("top", ct.cylinder(0.03, 0.05, mass=0.2, com=(0.0, 0.0, 0.06)), ct.Spherical(effort=0.01), parent="table")
    place = ct.poses(m)
    task = Task(
        m, step=0.005, substeps=2, observe=lambda t, q: np.append(place(t, q)[1][:3, 3], t), reward=lambda t: t,
        terminate=lambda t: t > 0.1,
        reset=lambda random: (np.array([2.0, 0.0, 0.0, 0.0]) + random.uniform(-0.3, 0.3, 4), random.uniform(0.0, 40.0, 3)),
    )  # fmt: skip
    envs = VectorEnvironment(task, 3, render_mode="rgb_array", size=(64, 64))
    envs.reset(seed=0)
    q, v = envs.q, envs.v
    assert_allclose(np.linalg.norm(q, axis=1), 1.0, rtol=1e-15)
    given = actions(envs, 12)
    for action in given:
        observations, rewards, *_ = envs.step(action)
    runs = ct.rollout(m, q, v, 0.01 * given.swapaxes(0, 1), 0.0025, 24)
    assert_allclose(envs.q, runs.q[:, -1], atol=1e-12)
    assert_allclose(observations[:, 3], 0.06, rtol=1e-12)
    assert_allclose(observations[:, :3], [[0.0, 0.0, 0.02 * np.sin(1.8)]] * 3, atol=1e-12)
    assert_array_equal(rewards, observations[:, 3])
    assert len(envs.render()) == 3
    ends = [envs.step(action)[2].all() for action in actions(envs, 10)]
    assert ends == [False] * 8 + [True, False]


# --- loops


def test_first_states_of_loops_are_closed_and_stay_closed_with_other_geometries() -> None:
    m, path = four_bar(), "pin.at_b.xyz"
    home = m.assemble(crank=1.0)
    task = Task(
        m, step=0.01, actuated=["crank"], efforts=5.0, observe=lambda q, v: np.concatenate([q, v]), reward=lambda v: v[0],
        parameters={path: ((0.55, 0.0, 0.0), (0.65, 0.0, 0.0))}, max_episode_steps=20,
        reset=lambda random: (home + random.uniform(-0.1, 0.1, 3), random.normal(size=3)),
    )  # fmt: skip
    envs, error = VectorEnvironment(task, 16), ct.loop_error(m, parameters=path)
    envs.reset(seed=0)
    for k, action in enumerate([None, *actions(envs, 30)]):
        if action is not None:
            envs.step(action)
        assert error(envs.q, envs.parameters[path]).max() < 1e-12, k
    lengths = envs.parameters[path]
    assert ((lengths[:, 0] > 0.55) & (lengths[:, 0] < 0.65)).all()
    velocities = [m.with_values({path: x}).project_velocity(q, v) for x, q, v in zip(lengths, envs.q, envs.v, strict=True)]
    assert_allclose(velocities, envs.v, atol=1e-9)
    short = task.with_options(parameters={path: ((0.01, 0.0, 0.0), (0.02, 0.0, 0.0))})  # which no position closes
    with pytest.raises(ct.ArgumentError, match=r"reset: q\[0\] leaves loop 'pin' .* nearer to those that m\.assemble gives"):
        VectorEnvironment(short, 2).reset(seed=0)


# --- tasks can be done


def mean_reward(task: Task, controller: Any, steps: int, count: int = 8) -> tuple[float, int]:
    """Return the mean reward of a step in the second half, and how many episodes terminated."""
    envs, total, ended = VectorEnvironment(task, count), [], 0
    envs.reset(seed=0)
    for _ in range(steps):
        _, rewards, terminations, *_ = envs.step(controller(envs) / task.efforts)
        total.append(rewards.mean())
        ended += int(terminations.sum())
    return float(np.mean(total[steps // 2 :])), ended


def test_the_pole_can_be_balanced() -> None:
    gains = np.array([-10.0, -60.0, -12.0, -10.0])
    reward, ended = mean_reward(environments.cart_pole(), lambda envs: -np.concatenate([envs.q, envs.v], axis=1) @ gains[:, None], 490)
    assert (reward, ended) == (1.0, 0)


def test_the_arm_can_reach() -> None:
    task = environments.arm()
    m = task.model
    gravity, jacobian, poses = ct.gravity_force(m), ct.jacobian(m, "hand", (0, 0, 0.16)), ct.poses(m)

    def controller(envs: Any) -> Any:
        tip = (poses(envs.q)[:, -1] @ [0, 0, 0.16, 1.0])[:, :3]
        pull = 150.0 * (envs.goal - tip)
        return gravity(envs.q) + np.einsum("nij,ni->nj", jacobian(envs.q)[:, 3:], pull) - 6.0 * envs.v

    reward, ended = mean_reward(task, controller, 240)
    assert ended == 0
    assert reward > -0.15


def test_the_five_bar_robot_can_draw() -> None:
    task, motors = environments.five_bar(), ACTUATED["five-bar-robot"]
    m = task.model
    inverse, legs, at = ct.inverse_dynamics(m, actuated=motors), ct.reduced(m, motors), [0, 2]

    def controller(envs: Any) -> Any:
        q, v, goal = envs.q, envs.v, envs.goal
        turn = 2.0 * np.pi * goal[:, 3:]
        angle = turn * envs.t[:, None]
        across, radius = np.concatenate([-np.sin(angle), np.cos(angle)], axis=1), goal[:, 2:3]
        point, velocity = goal[:, :2] + radius * np.concatenate([np.cos(angle), np.sin(angle)], axis=1), radius * turn * across
        a, b = q[:, 0], q[:, 0] + q[:, 1]
        tip = np.stack([0.6 * np.cos(a) + 1.1 * np.cos(b), 0.6 * np.sin(a) + 1.1 * np.sin(b)], axis=1)
        inner = np.stack([np.stack([-tip[:, 1], tip[:, 0]], axis=1), 1.1 * np.stack([-np.sin(b), np.cos(b)], axis=1)], axis=2)
        by_motors = inner @ legs.basis(q)[:, :2]
        wanted = np.linalg.solve(by_motors, (velocity + 8.0 * (point - tip))[..., None])[..., 0]
        vdot = legs.accelerations(q, v, 20.0 * (wanted - v[:, at]))
        return inverse(q, v, vdot)[:, at]

    reward, ended = mean_reward(task, controller, 400)
    assert ended == 0
    assert reward > 0.5


def test_the_platform_can_track() -> None:
    task, motors = environments.stewart(), ACTUATED["stewart-ups"]
    m = task.model
    inverse, at = ct.inverse_dynamics(m, actuated=motors), [m.v_names.index(motor) for motor in motors]
    lengths, none = [m.q_names.index(motor) for motor in motors], np.zeros(m.nv)
    closures = {loop.name: loop for loop in m.loops}
    feet = np.array([link.at.p for link in m.links if link.name.endswith("_lower")])
    ends = np.array([closures[f"leg{i}_end"].at_b.p for i in range(1, 7)]) + [0.0, 0.0, 0.6]
    zero = np.linalg.norm(ends - feet, axis=1)

    def controller(envs: Any) -> Any:
        goal, t = envs.goal, envs.t[:, None]
        point = goal[:, :3] * np.sin(2.0 * np.pi * goal[:, 3:] * t)
        wanted = np.linalg.norm(ends + point[:, None] - feet, axis=2) - zero
        return inverse(envs.q, none, none)[:, at] + 4000.0 * (wanted - envs.q[:, lengths]) - 200.0 * envs.v[:, at]

    reward, ended = mean_reward(task, controller, 400)
    assert ended == 0
    assert reward > 0.6


# --- random numbers


def test_streams_are_uniform_and_independent() -> None:
    streams = Streams(200)
    rows = np.arange(200)
    for i in rows:
        streams.seed(i, 1000 + i)
    drawn = streams.draw(rows, 500)
    assert ((drawn > 0.0) & (drawn < 1.0)).all()
    assert stats.kstest(drawn.ravel(), "uniform").pvalue > 1e-3
    assert np.abs(np.corrcoef(drawn) - np.eye(200)).max() < 5.5 / np.sqrt(500)
    assert np.abs(np.corrcoef(drawn[:, :-1].ravel(), drawn[:, 1:].ravel())[0, 1]) < 5.0 / np.sqrt(drawn.size)
    again = Streams(1)
    again.seed(0, 1007)
    assert_array_equal(np.concatenate([again.draw(np.array([0]), n) for n in (3, 0, 497)], axis=1)[0], drawn[7])


def test_draws_have_the_distributions_that_are_asked() -> None:
    task = pole(
        reset=lambda random: (random.normal((1.0, -2.0), 0.5), random.uniform(-1.0, 3.0, size=2), np.ravel(random.normal(size=(2, 3)))),
        terminate=None, reward=lambda goal: goal[0],
    )  # fmt: skip
    assert (task.draws, task.goals) == (2 * 2 + 2 + 12, 6)
    envs = VectorEnvironment(task, 4000)
    envs.reset(seed=0)
    for x, known in (
        (envs.q[:, 0], stats.norm(1.0, 0.5)), (envs.q[:, 1], stats.norm(-2.0, 0.5)), (envs.v.ravel(), stats.uniform(-1.0, 4.0)),
        (envs.goal.ravel(), stats.norm()),
    ):  # fmt: skip
        assert stats.kstest(x, known.cdf).pvalue > 1e-3


# --- pictures


def red(frame: np.ndarray) -> np.ndarray:
    """Return the middle of what is marked in a frame, in pixels."""
    return np.argwhere((frame == (200, 40, 60)).all(axis=2)).mean(axis=0)


def test_frames_show_the_state_and_mark_the_goal() -> None:
    envs = VectorEnvironment(environments.arm(), 2, render_mode="rgb_array", size=(200, 160))
    envs.reset(seed=0)
    frames = envs.render()
    assert [(frame.shape, frame.dtype) for frame in frames] == [((160, 200, 3), np.uint8)] * 2
    for _ in range(2):
        assert_array_equal(envs.render(), frames)
    envs.step(np.ones((2, 7)))
    for before, after in zip(frames, envs.render(), strict=True):
        assert_allclose(red(after), red(before), atol=1.0)  # the goal stays, and the arm does not
        assert (before != after).any()
    assert np.abs(red(frames[0]) - red(frames[1])).max() > 5.0
    assert VectorEnvironment(environments.arm(), 2).render() is None
    unseen = VectorEnvironment(pole(), 2, render_mode="rgb_array")
    with pytest.raises(gymnasium.error.ResetNeeded):
        unseen.render()
    unseen.reset(seed=0)
    assert (unseen.render()[0] != 255).any()
    unseen.close()


def test_frames_have_bodies_where_drawn_lengths_put_them() -> None:
    m = ct.Model("two rods")
    m.add("upper", ct.rod(0.5, mass=1.0), ct.Revolute("y", effort=1.0))
    m.add("lower", ct.rod(0.5, mass=1.0), ct.Revolute("y", effort=1.0), parent="upper", at=(0.5, 0, 0))
    task = Task(
        m, step=0.01, reset=lambda random: (np.zeros(2), np.zeros(2)), observe=lambda q: q, reward=lambda: 0.0,
        parameters={"lower.at.xyz": ((0.3, 0, 0), (1.2, 0, 0))}, space=((-0.1, -0.1, -1.0), (2.0, 0.1, 1.0)),
    )  # fmt: skip
    envs = VectorEnvironment(task, 6, render_mode="rgb_array", size=(200, 200))
    envs.reset(seed=0)
    ends = [np.argwhere(frame.astype(int) @ (1, 0, -1) > 60)[:, 1].max() for frame in envs.render()]  # the lower rod is orange
    lengths = envs.parameters["lower.at.xyz"][:, 0]
    assert_array_equal(np.argsort(ends), np.argsort(lengths))
    assert np.corrcoef(ends, lengths)[0, 1] > 0.99


# --- what is refused


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"observe": lambda q, speed: q}, r"observe takes an argument 'speed'; choose from t, q, v, action, goal, parameters"),
        ({"observe": lambda q: q[0]}, r"observe returned an array of shape \(\); return a vector"),
        ({"reward": lambda q: 1.0 if q[0] > 0.0 else 0.0}, "reward cannot be traced: `if` decides"),
        ({"reward": lambda q: q}, r"reward returned an array of shape \(2,\); return a number"),
        ({"reset": lambda random: np.zeros(2)}, r"reset returned ndarray; return a tuple \(q, v\)"),
        ({"reset": lambda random: (np.zeros(3), np.zeros(2))}, r"reset returned q of shape \(3,\); model 'cart-pole' has \(2,\)"),
        ({"reset": 3}, r"reset 3 is not a function"),
        ({"parameters": {"pole.mass": 0.3}}, r"parameters: pole.mass is 0.3; give a pair"),
        ({"parameters": {"pole.mass": (0.3, 0.1)}}, r"give the smaller number first"),
        ({"parameters": {"pole.mass": (-0.3, 0.1)}}, r"pole.mass.* is below 0"),
        ({"parameters": {"pole.mas": (0.1, 0.3)}}, r"'pole.mas' is not a number of model 'cart-pole'"),
        ({"efforts": {"cart": -1.0}}, r"efforts\['cart'\] = -1 is not positive"),
        ({"efforts": (1.0, 2.0, 3.0)}, r"efforts .* do not fit; give a number above 0, or 2 of them"),
        ({"actuated": ["wheel"]}, r"names 'wheel', which is not a velocity coordinate"),
        ({"actuated": ["cart", "cart"]}, r"names a coordinate twice"),
        ({"max_episode_steps": 0}, r"max_episode_steps = 0 is not a count"),
        ({"step": 0.0}, r"step = 0 is not positive"),
        ({"observation_limits": (1.0, -1.0)}, r"lowest 1.0 is not below highest -1.0"),
        ({"observation_limits": ((1.0, 2.0), 3.0)}, r"do not fit observations of shape \(4,\)"),
        ({"space": ((0, 0, 0), (1, 1, 0))}, r"is not a space"),
    ],
)
def test_what_a_task_cannot_be_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ct.CatenaError, match=says):
        VectorEnvironment(pole(**options), 2).reset(seed=0)


def test_what_an_environment_cannot_take_is_refused() -> None:
    with pytest.raises(ct.ArgumentError, match="is not a task"):
        VectorEnvironment(cart_pole(), 3)  # type: ignore[arg-type]
    with pytest.raises(ct.ArgumentError, match="num_envs = 0 is not a count"):
        VectorEnvironment(pole(), 0)
    with pytest.raises(ct.ArgumentError, match="render_mode 'human' is not known"):
        VectorEnvironment(pole(), 1, render_mode="human")
    with pytest.raises(ct.ArgumentError, match="is not one of floats"):
        VectorEnvironment(pole(), 1, dtype=int)
    envs = VectorEnvironment(pole(), 3)
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"step\(\) before reset\(\)"):
        envs.step(np.zeros((3, 1)))
    with pytest.raises(gymnasium.error.ResetNeeded, match="have not been reset yet"):
        envs.reset(options={"reset_mask": np.array([True, False, True])})
    envs.reset(seed=0)
    for wrong in (np.zeros(3), np.zeros((2, 1)), None, [["a"]] * 3):
        with pytest.raises(ct.ArgumentError, match=r"give numbers of shape \(3, 1\)"):
            envs.step(wrong)
    for mask in (np.zeros(3, dtype=bool), np.ones(2, dtype=bool), [True, False, False]):
        with pytest.raises(ct.ArgumentError, match="is not a mask"):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(ct.ArgumentError, match="2 seeds for 3 environments"):
        envs.reset(seed=[1, 2])


# --- packages


def test_catena_is_imported_without_gymnasium() -> None:
    code = (
        "import sys, catena as ct; assert 'gymnasium' not in sys.modules; assert 'environments' in dir(ct); "
        "ct.environments.cart_pole(); assert 'catena/CartPole-v0' in sys.modules['gymnasium'].registry"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    without = (
        "import sys; sys.modules['gymnasium'] = None; import catena as ct\n"
        "try: ct.environments\nexcept ct.MissingPackageError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", without], check=True, capture_output=True, text=True).stdout
    assert said == 'environments need Gymnasium, which is not installed; pip install "catena[gym]"\n'
