"""Caches return what would be made anew: calls of all doors in a row, every hit made again and compared (`tests/retracing.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.explorations.report import warned
from tests.explorations.sequences import CALLS, MODELS, _state
from tests.retracing import StaleError, differing, retraced

import catena as ct
from catena.environments import Task, VectorEnvironment
from catena.examples import EXAMPLES
from catena.model.cache import Cache
from catena.simulation.flows import EVALUATIONS


def arm() -> ct.Model:
    """A tree with everything that acts: actuator, stop, spring, contact, dry friction, and a force that follows a parameter."""
    m = ct.Model("arm")
    pull = m.parameter("pull", 2.0)
    m.add("upper", ct.rod(0.6, mass=2.0), ct.Revolute("y", damping=0.2, limits=(-1.0, 1.0)))
    m.add("lower", ct.rod(0.5, mass=1.0), ct.Revolute("y", friction=0.1), parent="upper", at=(0.6, 0, 0))
    m.add("tip", ct.sphere(0.05, mass=0.3), ct.Fixed(), parent="lower", at=(0.5, 0, 0))
    m.add_contact("floor", "tip", stiffness=1e4, height=-1.0)
    m.add_spring("band", "lower", "ground", at_b=(0.5, 0.0, 1.0), stiffness=20.0, length=0.3)
    m.add_force("wind", lambda t, q, v: [0.0, 0.0, 0.0, pull * np.sin(t), 0.0, 0.0], body="lower")
    m.add_actuator("servo", "upper", kp=20.0, kv=1.0)
    return m


def four_bar() -> ct.Model:
    m = EXAMPLES["four-bar"]()
    m.add_actuator("motor", "crank")
    return m


def shaken() -> ct.Model:
    """A linkage with a driven joint and a body that turns freely."""
    m = ct.Model("shaken")
    m.add("table", ct.point_mass(5.0), ct.Driven(ct.Prismatic("x"), lambda t: 0.1 * np.sin(3.0 * t)))
    m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y", damping=0.2), parent="table")
    m.add("coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
    m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), at=(1.0, 0, 0))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.6, 0, 0))
    m.add("bob", ct.box(0.1, 0.2, 0.3, mass=1.0), ct.Spherical(damping=0.1), parent="coupler", at=(0.5, 0, 0))
    return m


BUILDERS: dict[str, Callable[[], ct.Model]] = {"arm": arm, "four-bar": four_bar, "shaken": shaken}

Door = Callable[[ct.Model, np.ndarray, np.ndarray, float], Any]


def run(**options: Callable[[ct.Model, float], Any] | Any) -> Door:
    """Return a run with options, each a value, or a function of the model and of what changes from call to call."""

    def door(m: ct.Model, q: np.ndarray, v: np.ndarray, x: float) -> Any:
        given = {name: option(m, x) if callable(option) else option for name, option in options.items()}
        return ct.simulate(m, q, v, **{"until": 0.02, "step": 2e-3, "integrator": "gauss-legendre-4", **given})

    return door


def damper(m: ct.Model, x: float) -> Any:
    return lambda t, q, v: -x * v


def marked(m: ct.Model, x: float) -> Any:
    return ct.python(damper(m, x))


def level(m: ct.Model, x: float) -> Any:
    return [ct.Event("level", lambda t, q, v: q[0] - x, "record")]


def marked_level(m: ct.Model, x: float) -> Any:
    return [ct.Event("level", ct.python(lambda t, q, v: float(q[0]) - x), "record")]


def numbers(m: ct.Model, x: float) -> dict[str, Any]:
    return {f"{m.links[-1].name}.mass": x}


def pushes(m: ct.Model, x: float) -> dict[str, Any]:
    return {m.links[-1].name: [0.0, 0.1 * x, 0.0, 0.0, 0.0, x]}


def kernels(m: ct.Model, q: np.ndarray, v: np.ndarray, x: float) -> Any:
    t = () if not m.time_dependent else (0.0,)
    last, tau = m.links[-1].name, np.full(m.nv, x)
    ct.forward_dynamics(m)(*t, q, v, tau)
    ct.forward_dynamics(m, parameters=list(numbers(m, x)), wrenches=last)(*t, q, v, tau)
    ct.forward_dynamics(m).jacobian("vdot", "tau")(*t, q, v, tau)
    ct.forward_dynamics_derivatives(m, parameters=["gravity"])(*t, q, v, tau)
    ct.inverse_dynamics(m)(*t, q, v, ct.forward_dynamics(m)(*t, q, v, tau))
    ct.bias_force(m)(*t, q, v)
    ct.joint_wrenches(m)(*t, q, v, tau)
    ct.poses(m)(*t[: bool(m.driven_names)], q)


def environment(m: ct.Model, q: np.ndarray, v: np.ndarray, x: float) -> Any:
    names = {name: x for name in m.v_names if name not in m.driven_names}
    task = Task(
        m, step=2e-3, efforts={next(iter(names)): x}, max_episode_steps=3, observe=lambda q, v: x * np.concatenate([q, v]),
        reset=lambda random: (q + 0.0 * random.uniform(-x, x, m.nq), v), reward=lambda q, action: x * q[0],
    )  # fmt: skip
    envs = VectorEnvironment(task, 2)
    envs.reset(seed=1)
    for _ in range(2):
        envs.step(np.full(envs.action_space.shape, 0.5, dtype=np.float32))
    envs.close()


DOORS: dict[str, Door] = {
    "simulate": run(),
    "adaptive": run(step=None, integrator="dormand-prince"),
    "stiff": run(integrator="rang-angermann"),
    "adaptive, stiff": run(step=None, integrator="rang-angermann"),
    "controller": run(controller=damper),
    "controller in Python": run(controller=marked),
    "events": run(events=level),
    "events in Python": run(events=marked_level),
    "controller, events in Python": run(controller=damper, events=marked_level),
    "controller in Python, events": run(controller=marked, events=level),
    "stiff, events in Python": run(controller=damper, events=marked_level, integrator="rang-angermann"),
    "forces": run(tau=lambda m, x: np.full(m.nv, x), integrator="rk4"),
    "parameters": run(parameters=numbers, integrator="rk4"),
    "wrenches": run(wrenches=pushes, integrator="rk4"),
    "rollout": lambda m, q, v, x: ct.rollout(m, q, v, tau=np.full(m.nv, x), step=2e-3, steps=4),
    "rollout with a controller": lambda m, q, v, x: ct.rollout(
        m, q, v, tau=damper(m, x), step=2e-3, steps=4, integrator="gauss-legendre-4"
    ),
    "rollout with more": lambda m, q, v, x: ct.rollout(
        m, q, v, None, 2e-3, 4, parameters=numbers(m, x), wrenches=pushes(m, x), noise={"gravity": np.full((4, 3), x)},
        stop=lambda t, q, v: q[0] > x, observe=lambda t, q, v: x * q,
    ),
    "stepper": lambda m, q, v, x: ct.stepper(m, 2e-3)(*((0.0,) if m.time_dependent else ()), q, v, np.full(m.nv, x)),
    "rollout_gradient": lambda m, q, v, x: ct.rollout_gradient(
        m, q, v, tau=np.full((4, m.nv), x), step=2e-3, steps=4, cost=lambda t, q, v, tau: x * q[0], parameters=numbers(m, x)
    ),
    "gradient of a controller": lambda m, q, v, x: ct.rollout_gradient(
        m, q, v, tau=damper(m, x), step=2e-3, steps=4, final_cost=lambda t, q, v: x * v[0]
    ),
    "rollout_sensitivity": lambda m, q, v, x: ct.rollout_sensitivity(
        m, q, v, tau=np.full((4, m.nv), x), step=2e-3, steps=4, along={"v0": np.ones(m.nv)}
    ),
    "simulate_gradient": lambda m, q, v, x: ct.simulate_gradient(
        m, q, v, until=8e-3, step=2e-3, cost=lambda t, q, v, tau: x * q[0], controller=damper(m, x)
    ),
    "ilqr": lambda m, q, v, x: ct.ilqr(
        m, q, v, tau=np.zeros((4, m.nv)), step=2e-3, cost=lambda t, q, v, tau: x * (q @ q + tau @ tau), iterations=3, tolerance=1.0
    ),
    "linearize": lambda m, q, v, x: ct.linearize(m, q, v, np.full(m.nv, x)),
    "linearize a step": lambda m, q, v, x: ct.linearize(m, q, v, controller=damper(m, x), step=2e-3),
    "inverse_kinematics": lambda m, q, v, x: ct.inverse_kinematics(m, {m.links[-1].name: ct.poses(m, of=m.links[-1].name)(q)}, guess=q),
    "kernels": kernels,
    "environment": environment,
}  # fmt: skip

#: Doors that are closed to models whose joints are driven.
NOT_DRIVEN = ("inverse_kinematics", "linearize", "linearize a step", "ilqr", "environment")


def start(m: ct.Model) -> tuple[np.ndarray, np.ndarray]:
    q = m.assemble(guess=m.random(1)) if m.has_loops else 0.1 * m.random(1)
    return q, m.project_velocity(q, np.full(m.nv, 0.1)) if m.has_loops else np.full(m.nv, 0.1)


@pytest.mark.filterwarnings("ignore::catena.StiffnessWarning", "ignore::catena.ConvergenceWarning")
@pytest.mark.parametrize("name", ["four-bar", *(pytest.param(name, marks=pytest.mark.fuzz) for name in ("arm", "shaken"))])
def test_calls_of_all_doors_take_from_caches_what_they_would_make(name: str) -> None:
    """In a random order, each twice, with other functions and numbers the second time."""
    m = BUILDERS[name]().frozen()
    q, v = start(m)
    calls = [(door, x) for door in DOORS for x in (0.5, 2.0)]
    with retraced() as hits:
        for i in np.random.default_rng(0).permutation(len(calls)):
            door, x = calls[i]
            if not (m.driven_names and door in NOT_DRIVEN):
                DOORS[door](m, q, v, x)
    assert sum(hits.values()) > 100


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(12))
def test_random_calls_in_a_row_take_from_caches_what_they_would_make(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = MODELS[str(rng.choice(list(MODELS)))]()
    with retraced(), warned():
        for _ in range(8):
            try:
                CALLS[str(rng.choice(list(CALLS)))](m, _state(m, np.random.default_rng(seed)), rng)
            except (ct.SimulationError, ct.ArgumentError, ct.ModelError, ct.MethodError):
                continue


def test_a_key_that_leaves_something_out_is_found() -> None:
    cache = Cache()
    cache.get("squares", 0, lambda: 4)
    with retraced(), pytest.raises(StaleError, match="cache 'squares', with the key 0"):
        cache.get("squares", 0, lambda: 9)


def test_graphs_differ_where_their_nodes_do() -> None:
    m = arm()
    fd = ct.forward_dynamics(m)
    assert not differing(fd, ct.forward_dynamics(m))
    assert "graph" in differing(fd, ct.forward_dynamics(m.with_values({"upper.mass": 3.0})))
    m.rename("upper", "first")
    assert "labels" in differing(fd, ct.forward_dynamics(m))


def test_a_run_does_not_depend_on_the_run_before_it() -> None:
    """Derivatives of accelerations have those by joint forces where a controller in Python acts, also after runs without."""

    def simulated(m: ct.Model, **options: Any) -> Any:
        return ct.simulate(m, m.assemble(crank=1.0), until=0.3, step=0.01, integrator="gauss-legendre-4", **options).q

    controller = ct.python(lambda t, q, v: [-200.0 * np.sin(q[0]) - 20.0 * v[0], 0.0, 0.0])
    events = [ct.Event("late", ct.python(lambda t, q, v: t - 10.0))]
    m = EXAMPLES["four-bar"]()
    simulated(m, events=events)
    np.testing.assert_array_equal(simulated(m, controller=controller), simulated(EXAMPLES["four-bar"](), controller=controller))


def test_the_derivative_of_a_controller_is_its_own_where_events_are_called_from_python() -> None:
    def simulated(m: ct.Model, gain: float) -> Any:
        q = m.assemble(crank=1.0)
        events = [ct.Event("late", ct.python(lambda t, q, v: t - 10.0))]
        controller = lambda t, q, v: [-gain * np.sin(q[0]) - 0.1 * gain * v[0], 0.0, 0.0]  # noqa: E731
        return ct.simulate(m, q, until=0.2, step=0.01, integrator="gauss-legendre-4", controller=controller, events=events).q

    m = EXAMPLES["four-bar"]()
    simulated(m, 1.0)
    np.testing.assert_array_equal(simulated(m, 200.0), simulated(EXAMPLES["four-bar"](), 200.0))


def test_gradients_follow_a_force_whose_function_computes_something_else() -> None:
    held = {"gain": 1.0}
    m = ct.Model("pendulum")
    m.add("rod", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
    m.add_force("drag", lambda t, q, v: [-held["gain"] * v[0]])

    def gradient() -> Any:
        return ct.rollout_gradient(m, [0.5], [1.0], step=0.01, steps=20, final_cost=lambda t, q, v: q[0]).v0[0]

    first, held["gain"] = gradient(), 5.0
    second = gradient()
    ahead, behind = (ct.rollout(m, [0.5], [1.0 + h], step=0.01, steps=20).q[-1, 0] for h in (1e-5, -1e-5))
    assert second == pytest.approx((ahead - behind) / 2e-5, rel=1e-7)
    assert first != pytest.approx(second, rel=0.1)


def test_what_does_not_depend_on_the_kind_of_run_is_traced_once() -> None:
    made = []
    m = EXAMPLES["four-bar"]()
    q, (function, *rest) = m.assemble(crank=1.0), EVALUATIONS["accelerations"]

    def noted(*arguments: Any) -> Any:
        made.append(True)
        return function(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EVALUATIONS, "accelerations", (noted, *rest))
        ct.simulate(m, q, until=0.1)
        ct.simulate(m, q, until=0.1, step=0.01, controller=lambda t, q, v: -v)
        ct.rollout(m, q, step=0.01, steps=10)
        ct.rollout_gradient(m, q, step=0.01, steps=10, final_cost=lambda t, q, v: q[0])
        ct.rollout(m, q, step=0.01, steps=10, stop=lambda t, q, v: q[0] > 2.0)
    assert len(made) == 1
