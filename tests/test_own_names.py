"""A parameter of one's own may have any name: every door computes the same, to the bit, as with a name that nothing else has."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import catena as ct
from catena.environments import Task, VectorEnvironment
from catena.model.parameters import INPUTS
from catena.simulation.flows import EVALUATIONS
from catena.simulation.stepping import Counted, Timed

#: Names that entries of runs, inputs of kernels and those of tasks have.
TAKEN = {*Timed.state, *Timed.constants, *Counted.state, *Counted.constants, *(x for _, names in EVALUATIONS.values() for x in names)}
TAKEN |= {"noise", "q0", "v0", "goal", "action", "random", "observation", "reward", "ended", "done", "row", "table", "x", "x0", "made"}
TAKEN |= {"t_start", "t_next", "first", "slope", "length", "position", "velocity", "spin", "limit", "look", "good", "bad", "change", "mass"}
NAMES = sorted(TAKEN - {*INPUTS})

#: Those that are given to doors whose kernels have an argument and results for each: NumPy's functions have 64 at most.
FEW = ("step", "steps", "every", "anchor", "since", "noise", "q0", "v0", "goal", "action", "reward", "first", "slope", "x", "h", "made")


@cache
def cart(plain: bool) -> tuple[ct.Model, list[str]]:
    """Return a cart with a pole, whose every force follows parameters of its own, and their names."""
    m = ct.Model("cart")
    names = [f"plain{i}" if plain else name for i, name in enumerate(NAMES)]
    own = [m.parameter(name, 0.1 + 0.01 * i) for i, name in enumerate(names)]
    m.add("cart", ct.box(0.2, 0.2, 0.2, mass=2.0), ct.Prismatic("x", damping=sum(own[:3]), stiffness=own[3]))
    m.add("pole", ct.point_mass(own[4] + 0.5, at=(0, 0, -0.5)), ct.Revolute("y"), parent="cart")
    m.add_force("all", lambda t, q, v: [sum(k * (i + 1) * q[0] for i, k in enumerate(own)), sum(k * q[1] ** 2 for k in own[::-1])])
    m.add_line_force("line", "ground", "pole", lambda t, length, rate: own[5] * length + own[6] * rate)
    return m, names


def few(names: list[str]) -> list[str]:
    return [names[NAMES.index(name)] for name in FEW]


def numbers(names: list[str]) -> dict[str, Any]:
    return {name: 0.2 + 0.03 * i for i, name in enumerate(names)}


STATE, STEPS = {"q0": [0.1, 0.3], "v0": [0.2, -0.1]}, {"step": 0.01, "steps": 6}


def kernel(m: ct.Model, names: list[str]) -> Any:
    return ct.forward_dynamics(m, parameters=names)([0.1, 0.3], [0.2, 0.1], [0.0, 1.0], **numbers(names))


def jacobian(m: ct.Model, names: list[str]) -> Any:
    names = few(names)
    return ct.forward_dynamics(m, parameters=names).jacobian("vdot", names)([0.1, 0.3], [0.2, 0.1], [0.0, 1.0], **numbers(names))


def slopes(m: ct.Model, names: list[str]) -> Any:
    names = few(names)
    return ct.forward_dynamics_derivatives(m, parameters=names)([0.1, 0.3], [0.2, 0.1], [0.0, 1.0], **numbers(names))


def stepper(m: ct.Model, names: list[str]) -> Any:
    return ct.stepper(m, 0.01, substeps=2, parameters=names)([0.1, 0.3], [0.2, 0.1], [0.0, 1.0], **numbers(names))


def rollout(integrator: str) -> Callable[..., Any]:
    def door(m: ct.Model, names: list[str]) -> Any:
        given = numbers(names)
        changing = {name: np.linspace(given.pop(name), 0.5, 3)[:, None][:, 0] for name in names[7:10]}
        return ct.rollout(m, *STATE.values(), **STEPS, integrator=integrator, parameters=given, noise=changing).q

    return door


def batch(m: ct.Model, names: list[str]) -> Any:
    return ct.rollout(m, *STATE.values(), **STEPS, parameters={name: x * np.array([1.0, 2.0]) for name, x in numbers(names).items()}).q


def rollout_gradient(m: ct.Model, names: list[str]) -> Any:
    names = few(names)
    found = ct.rollout_gradient(m, *STATE.values(), **STEPS, parameters=numbers(names), final_cost=lambda t, q, v: q[0] * q[1])
    return [found.q0, found.v0, *found.parameters.values()]


def sensitivity(m: ct.Model, names: list[str]) -> Any:
    names = few(names)
    along = {name: 1.0 for name, known in zip(names, FEW, strict=True) if known not in ("q0", "v0")}
    found = ct.rollout_sensitivity(m, *STATE.values(), **STEPS, parameters=numbers(names), along=along)
    return [found.q, found.v]


def simulate(m: ct.Model, names: list[str]) -> Any:
    return ct.simulate(m, *STATE.values(), until=0.05, parameters=numbers(names), integrator="dormand-prince").q


def simulate_gradient(m: ct.Model, names: list[str]) -> Any:
    names = few(names)
    given = {"step": 0.01, "until": 0.05, "parameters": numbers(names), "tau": ([0.0, 1.0], np.ones((2, 2)))}
    found = ct.simulate_gradient(m, *STATE.values(), **given, final_cost=lambda t, q, v: q[0] * q[1])
    return [found.q0, found.controls, *found.parameters.values()]


def task(m: ct.Model, names: list[str]) -> Any:
    names = few(names)
    envs = VectorEnvironment(
        Task(
            m, step=0.02, reset=lambda random: (random.uniform(-1, 1, 2), np.zeros(2), random.uniform(0, 1, 1)), efforts=10.0,
            observe=lambda q, v, goal, parameters: np.concatenate([q, v, goal, list(parameters.values())]),
            reward=lambda q, action, goal: q[0] * action[0] + goal[0], parameters=dict.fromkeys(names, (0.1, 0.2)),
        ), 3,
    )  # fmt: skip
    envs.reset(seed=1)
    observation, reward, *_ = envs.step(np.ones((3, 2)))
    return [observation, reward]


DOORS: list[Callable[..., Any]] = [
    kernel, jacobian, slopes, stepper, rollout("rk4"), rollout("rang-angermann"), batch, rollout_gradient, sensitivity, simulate,
    simulate_gradient, task,
]  # fmt: skip


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_names_of_own_parameters_change_nothing(door: Callable[..., Any]) -> None:
    for one, other in zip(door(*cart(False)), door(*cart(True)), strict=True):
        assert_array_equal(one, other)


def test_along_a_change_a_name_says_one_thing() -> None:
    m = ct.Model("pendulum")
    m.add("arm", ct.point_mass(m.parameter("q0", 1.0), at=(0, 0, -1)), ct.Revolute("y"))
    found = ct.rollout_sensitivity(m, [0.5], **STEPS, parameters={"q0": 2.0}, along={"v0": [1.0]})
    assert_array_equal(found.q, ct.rollout_sensitivity(m.with_values({"q0": 2.0}), [0.5], **STEPS, along={"v0": [1.0]}).q)
    with pytest.raises(ct.ArgumentError, match="'q0' may be the parameter or where motions begin; give the parameter another name"):
        ct.rollout_sensitivity(m, [0.5], **STEPS, parameters={"q0": 2.0}, along={"q0": [1.0]})
