"""Rollouts: a batch equals its trajectories one by one, and a trajectory equals `simulate` with the same steps."""

from __future__ import annotations

import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import catena as ct
from catena.examples import EXAMPLES
from catena.graph import Trace
from catena.native import Iteration
from catena.simulation.integrators.steps import INTEGRATORS

pytestmark = pytest.mark.evaluated


def states(m: ct.Model, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return m.random(rng, count), 0.3 * rng.normal(size=(count, m.nv))


def same(a: ct.Rollout, b: ct.Rollout) -> bool:
    """Whether two rollouts are equal bit for bit."""
    pairs = [(x, y) for x, y in zip((a.t, *a.parts), (b.t, *b.parts), strict=True) if x is not None or y is not None]
    return all(x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in pairs)


def pendulum() -> ct.Model:
    m = ct.Model("pendulum")
    m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    return m


def slider() -> ct.Model:
    """A mass on a rail, without gravity: what a force does to it is known."""
    m = ct.Model("slider", gravity=(0, 0, 0))
    m.add("mass", ct.point_mass(2.0), ct.Prismatic("x"))
    return m


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_rollout_equals_simulate_with_the_same_steps(integrator: str) -> None:
    m = EXAMPLES["double-pendulum"]()
    q, v = states(m, 3)
    runs = ct.rollout(m, q, v, step=0.01, steps=40, integrator=integrator)
    for i in range(3):
        run = ct.simulate(m, q[i], v[i], step=0.01, until=40 * 0.01, integrator=integrator)
        assert np.abs(run.t - runs.t).max() <= 1e-15
        assert np.abs(run.q - runs.q[i]).max() <= 1e-12 * np.abs(run.q).max()
        assert np.abs(run.v - runs.v[i]).max() <= 1e-12 * np.abs(run.v).max()


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "stewart-ucu"])  # as stewart-ups, and takes twice as long
def test_rollout_equals_simulate_for_every_example(name: str) -> None:
    m = EXAMPLES[name]()
    q, v = states(m, 1)
    if m.has_loops:
        q = m.assemble()[None]
        v = m.project_velocity(q[0], v[0])[None]
    runs = ct.rollout(m, q, v, step=1e-3, steps=10)
    run = ct.simulate(m, q[0], v[0], step=1e-3, until=10 * 1e-3)
    assert np.abs(run.q - runs.q[0]).max() <= 1e-13 * max(1.0, np.abs(run.q).max())
    assert np.abs(run.v - runs.v[0]).max() <= 1e-12 * max(1.0, np.abs(run.v).max())


@pytest.mark.parametrize("name", ["arm", "humanoid", "top"])
def test_batch_equals_one_by_one_bit_for_bit(name: str) -> None:
    m = EXAMPLES[name]()
    q, v = states(m, 13)
    together = ct.rollout(m, q, v, step=1e-3, steps=20)
    for i in range(13):
        alone = ct.rollout(m, q[i], v[i], step=1e-3, steps=20)
        assert alone.q.tobytes() == together.q[i].tobytes()
        assert alone.v.tobytes() == together.v[i].tobytes()


@pytest.mark.parametrize("count", [1, 3, 8, 9, 50, 131])
def test_one_thread_equals_many_bit_for_bit(count: int) -> None:
    m = EXAMPLES["double-pendulum"]()
    q, v = states(m, count)
    one = ct.rollout(m, q, v, step=1e-3, steps=2000, every=500, threads=1)
    assert same(one, ct.rollout(m, q, v, step=1e-3, steps=2000, every=500, threads=2))
    assert same(one, ct.rollout(m, q, v, step=1e-3, steps=2000, every=500, threads=5))
    assert same(one, ct.rollout(m, q, v, step=1e-3, steps=2000, every=500))


def test_quaternions_keep_their_length_and_short_ones_are_refused() -> None:
    m = EXAMPLES["top"]()
    q, v = states(m, 5)
    first = m.q_names.index(next(name for name in m.q_names if name.endswith("qw")))
    runs = ct.rollout(m, q, 5.0 + v, step=1e-3, steps=300)
    assert np.abs(np.linalg.norm(runs.q[..., first : first + 4], axis=-1) - 1.0).max() <= 1e-13
    q[3, first : first + 4] *= 1.1
    with pytest.raises(ct.ArgumentError, match=r"q0\[3\]: the quaternion of '.*' has length 1.1; give one of length 1"):
        ct.rollout(m, q, v, step=1e-3, steps=1)


@pytest.mark.parametrize(
    ("q0", "v0", "controls", "batch"),
    [
        ((1,), None, None, ()),
        ((1,), (1,), (1,), ()),
        ((4, 1), None, (1,), (4,)),
        ((4, 1), (1,), (4, 1), (4,)),
        ((3, 1, 1), (4, 1), None, (3, 4)),
        ((3, 1, 1), (4, 1), (1, 4, 1), (3, 4)),
        ((1,), (1,), (5, 1), ()),  # over time
        ((4, 1), None, (1, 5, 1), (4,)),
        ((4, 1), None, (4, 5, 1), (4,)),
        ((1,), None, (6, 5, 1), (6,)),
        ((2, 1, 1), (3, 1), (2, 1, 5, 1), (2, 3)),
        ((0, 1), None, (5, 1, 1), None),
        ((0, 1), None, (1,), (0,)),
        ((0, 1), None, (0, 5, 1), (0,)),
        ((0, 1), None, (1, 5, 1), (0,)),
        ((0, 1), (1,), (2, 0, 5, 1), (2, 0)),
    ],
)
def test_leading_axes_broadcast_as_in_numpy(q0: tuple, v0: tuple | None, controls: tuple | None, batch: tuple | None) -> None:
    rng = np.random.default_rng(0)
    q, v, tau = (None if shape is None else rng.normal(size=shape) for shape in (q0, v0, controls))
    m = pendulum()
    if batch is None:
        with pytest.raises(ct.ArgumentError, match="do not broadcast"):
            ct.rollout(m, q, v, tau, 0.01, 10)
        return
    runs = ct.rollout(m, q, v, tau, 0.01, 10)
    assert runs.q.shape == (*batch, 11, 1)
    assert runs.v.shape == (*batch, 11, 1)
    assert runs.failed.shape == runs.failed_step.shape == batch
    axes = max(len(q0), 0 if v0 is None else len(v0)) - 1
    for i in np.ndindex(batch):

        def at(x: Any, own: int, i: tuple = i) -> Any:
            return None if x is None else np.broadcast_to(x, (*batch, *x.shape[x.ndim - own :]))[i]

        alone = ct.rollout(m, at(q, 1), at(v, 1), at(tau, 1 if tau is None or tau.ndim - 1 <= axes else 2), 0.01, 10)
        assert alone.q.tobytes() == runs.q[i].tobytes()


def test_no_trajectories_have_tables_of_everything_and_gradients() -> None:
    """Their shapes are those of some trajectories, with no entries along the leading axis."""
    m = pendulum()
    k = m.parameter("stiff", 2.0)
    m.add_force("spring", lambda t, q, v: [-k * q[0]])

    def found(count: int) -> ct.MotionGradient:
        given: dict[str, Any] = {"noise": {"stiff": np.ones((count, 5))}, "parameters": {"arm.mass": np.ones(count)}}
        return ct.rollout_gradient(
            m, np.ones((count, 1)), None, np.zeros((count, 5, 1)), step=0.01, steps=10, final_cost=lambda t, q, v: q[0], **given
        )

    none, two = found(0), found(2)
    assert isinstance(none.motion, ct.Rollout)
    for one, other in ((none.q0, two.q0), (none.controls, two.controls), (none.noise["stiff"], two.noise["stiff"])):
        assert one.shape == (0, *other.shape[1:])
    assert none.motion.q.shape == (0, 11, 1)


def test_constant_controls_equal_simulate() -> None:
    m = pendulum()
    tau = np.array([[0.5], [-2.0]])
    runs = ct.rollout(m, [0.1], [0.0], tau[:, None], 0.01, 100)
    for i in range(2):
        run = ct.simulate(m, [0.1], step=0.01, until=1.0, tau=tau[i])
        assert np.abs(run.q - runs.q[i]).max() <= 1e-13


def test_controls_over_time_are_held() -> None:
    """Rows that accelerate, rest and brake: the motion under constant forces, piece by piece."""
    runs = ct.rollout(slider(), [0.0], [0.0], [[4.0], [0.0], [-4.0]], 0.01, 300)
    t = runs.t
    v = np.where(t < 1.0, 2.0 * t, np.where(t < 2.0, 2.0, 2.0 - 2.0 * (t - 2.0)))
    q = np.where(t < 1.0, t * t, np.where(t < 2.0, 1.0 + 2.0 * (t - 1.0), 3.0 + 2.0 * (t - 2.0) - (t - 2.0) ** 2))
    assert np.abs(runs.v[:, 0] - v).max() <= 1e-13
    assert np.abs(runs.q[:, 0] - q).max() <= 1e-13


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_controls_over_time_equal_runs_piece_by_piece(integrator: str) -> None:
    m = EXAMPLES["double-pendulum"]()
    q, v = states(m, 2)
    tau = np.random.default_rng(2).normal(size=(2, 4, 2))
    whole = ct.rollout(m, q, v, tau, 0.01, 20, integrator=integrator)
    for k in range(4):
        part = ct.rollout(m, q, v, tau[:, k], 0.01, 5, integrator=integrator, start=0.05 * k)
        q, v = part.q[:, -1], part.v[:, -1]
        assert np.abs(whole.q[:, 5 * (k + 1)] - q).max() <= 1e-12


def test_controllers_equal_simulate_and_see_time_and_state() -> None:
    m = EXAMPLES["double-pendulum"]()

    def controller(t: Any, q: Any, v: Any) -> Any:
        return np.array([np.sin(3.0 * t) - 2.0 * v[0], -q[1]])

    q, v = states(m, 3)
    runs = ct.rollout(m, q, v, controller, 0.01, 50, start=0.5)
    run = ct.simulate(m, q[1], v[1], start=0.5, step=0.01, until=1.0, controller=controller)
    assert np.abs(run.q - runs.q[1]).max() <= 1e-12
    assert runs.t[0] == 0.5


def test_samples_kept_every_so_many_steps_equal_those_of_all() -> None:
    m = EXAMPLES["double-pendulum"]()
    q, v = states(m, 6)
    everything, some = (ct.rollout(m, q, v, step=0.01, steps=60, every=every) for every in (1, 12))
    assert some.q.shape == (6, 6, 2)
    assert np.array_equal(some.t, everything.t[::12])
    assert np.array_equal(some.q, everything.q[:, ::12])
    assert np.array_equal(some.v, everything.v[:, ::12])


@pytest.mark.parametrize("every", [1, 10])
def test_a_trajectory_that_fails_holds_nan_and_leaves_its_neighbours_alone(every: int) -> None:
    """A spring that pushes the further the more: some trajectories overflow, and at a step that is known from running alone."""
    m = slider()
    m.add_force("push", lambda t, q, v: np.array([q[0] * q[0] * q[0]]))
    q = np.array([[0.0], [30.0], [0.1], [60.0], [0.2], [0.3], [0.4], [90.0], [-0.1]])
    runs = ct.rollout(m, q, step=0.01, steps=100, every=every)
    assert np.array_equal(runs.failed, np.abs(q[:, 0]) > 1.0)
    assert set(runs.reason[runs.failed]) == {"not finite"}
    assert set(runs.reason[~runs.failed]) == {""}
    assert np.isfinite(runs.q[~runs.failed]).all()
    for i in np.flatnonzero(runs.failed):
        good = runs.failed_step[i] // every + 1
        assert 0 < runs.failed_step[i] < 100
        assert np.isfinite(runs.q[i, :good]).all()
        assert np.isfinite(runs.v[i, :good]).all()
        assert np.isnan(runs.q[i, good:]).all()
        assert np.isnan(runs.v[i, good:]).all()
    assert same(ct.rollout(m, q[~runs.failed], step=0.01, steps=100, every=every), part(runs, ~runs.failed))
    assert "3 failed" in repr(runs)


def part(runs: ct.Rollout, which: np.ndarray) -> ct.Rollout:
    return ct.Rollout(runs.t, runs.q[which], runs.v[which], runs.failed_step[which], runs.reason[which], runs.stopped_step[which])


def test_an_implicit_step_that_is_not_solved_is_reported() -> None:
    m = slider()
    m.add_force("wild", lambda t, q, v: np.array([1e9 * np.sin(1e6 * q[0])]))
    runs = ct.rollout(m, [[0.0], [0.3]], [[0.0], [1.0]], step=0.1, steps=10, integrator="implicit-midpoint")
    assert runs.reason.tolist() == ["", "not solved"]
    assert runs.failed_step[0] == -1
    assert np.isnan(runs.q[1, runs.failed_step[1] + 1 :]).all()


def test_noise_is_added_to_controls_and_to_controllers() -> None:
    m = EXAMPLES["double-pendulum"]()
    q, v = states(m, 3)
    rng = np.random.default_rng(1)
    tau, noise = rng.normal(size=(1, 4, m.nv)), rng.normal(size=(3, 6, m.nv))
    options: dict[str, Any] = {"step": 0.01, "steps": 12}
    both = np.repeat(tau, 3, axis=1) + np.repeat(noise, 2, axis=1)
    assert same(ct.rollout(m, q, v, tau, noise=noise, **options), ct.rollout(m, q, v, both, **options))
    held = ct.rollout(m, q, v, lambda t, q, v: -0.3 * v, noise=noise, **options)
    state = q, v
    for k in range(6):  # piece by piece, with the noise in the controller
        part = ct.rollout(m, *state, lambda t, q, v, own=noise[0, k]: -0.3 * v + own, step=0.01, steps=2)
        state = part.q[:, -1], part.v[:, -1]
    assert np.abs(held.q[0, -1] - state[0][0]).max() < 1e-13


def test_numbers_that_change_from_step_to_step_equal_runs_piece_by_piece() -> None:
    m = EXAMPLES["double-pendulum"]()
    q, v = states(m, 3)
    wind, target = m.parameter("wind", [0.0, 0.0]), m.parameter("target", 0.0)
    m.add_force("wind", lambda t, q, v: wind)

    def controller(t: Any, q: Any, v: Any) -> Any:
        return -3.0 * (q - target)

    rng = np.random.default_rng(2)
    noise = {"wind": rng.normal(size=(4, 2)), "target": rng.normal(size=(3, 4)), "gravity": rng.normal(size=(4, 3))}
    whole = ct.rollout(m, q, v, controller, step=0.01, steps=8, noise=noise)
    for i in range(3):
        state = q[i], v[i]
        for k in range(4):
            values = {"wind": noise["wind"][k], "target": noise["target"][i, k], "gravity": noise["gravity"][k]}
            part = ct.rollout(m, *state, controller, step=0.01, steps=2, parameters=values)
            state = part.q[-1], part.v[-1]
        assert np.abs(whole.q[i, -1] - state[0]).max() < 1e-14


@pytest.mark.parametrize("name", ["double-pendulum", "four-bar"])
@pytest.mark.parametrize("every", [1, 4])
def test_a_trajectory_ends_where_it_meets_the_condition_to_stop(name: str, every: int) -> None:
    m = EXAMPLES[name]()
    _, v = states(m, 5)
    q = m.random(np.random.default_rng(0), 5) if not m.has_loops else np.stack([m.assemble(guess=m.assemble() + 0.1 * k) for k in range(5)])
    v = np.stack([m.project_velocity(*state) for state in zip(q, 5.0 * v, strict=True)]) if m.has_loops else 5.0 * v
    middle = q[:, 0].mean()
    plain = ct.rollout(m, q, v, step=0.01, steps=40)
    runs = ct.rollout(m, q, v, step=0.01, steps=40, every=every, stop=lambda t, q, v: q[0] > middle + 0.2)
    for i in range(5):
        over = np.flatnonzero(plain.q[i, :, 0] > middle + 0.2)
        first = int(over[0]) if len(over) else -1
        assert runs.stopped_step[i] == first
        last = first if first >= 0 else 40
        wanted = np.minimum(np.arange(0, 41, every), last)
        assert np.array_equal(runs.q[i], plain.q[i, wanted])
        assert np.array_equal(runs.v[i], plain.v[i, wanted])
    assert 0 < runs.stopped.sum() < 5 or name == "four-bar"
    assert runs.stopped.any()
    assert not runs.failed.any()


@pytest.mark.parametrize("name", ["double-pendulum", "four-bar"])
def test_observations_are_functions_of_the_states(name: str) -> None:
    m = EXAMPLES[name]()
    q, v = states(m, 3)
    q = np.stack([m.assemble()] * 3) if m.has_loops else q
    v = np.stack([m.project_velocity(*state) for state in zip(q, v, strict=True)]) if m.has_loops else v
    gain = m.parameter("gain", 2.0)
    poses, values = ct.poses(m), np.array([1.0, 2.0, 3.0])

    def observe(t: Any, q: Any, v: Any) -> Any:
        return np.array([poses(q)[0, :3, 3] * gain, [t, q[0], v[0]]])

    options: dict[str, Any] = {"step": 0.01, "steps": 20, "every": 5, "parameters": {"gain": values}}
    runs, plain = ct.rollout(m, q, v, observe=observe, **options), ct.rollout(m, q, v, **options)
    assert runs.observed is not None
    assert runs.observed.shape == (3, 5, 2, 3)
    assert np.abs(runs.observed[:, :, 0] - poses(plain.q)[:, :, 0, :3, 3] * values[:, None, None]).max() < 1e-13
    state = np.stack([np.broadcast_to(plain.t, (3, 5)), plain.q[..., 0], plain.v[..., 0]], axis=-1)
    assert np.abs(runs.observed[:, :, 1] - state).max() < 1e-14
    assert np.array_equal(runs.q, plain.q[:, -1:])
    assert np.array_equal(runs.v, plain.v[:, -1:])


def test_a_second_rollout_is_not_traced_again_until_the_model_or_a_function_changes() -> None:
    m = pendulum()
    gain = [1.0]
    calls = []

    def controller(t: Any, q: Any, v: Any) -> Any:
        calls.append(t)
        return -gain[0] * v

    first = ct.rollout(m, [1.0], [1.0], controller, 0.01, 10)
    made = len(calls)
    assert same(first, ct.rollout(m, [1.0], [1.0], controller, 0.01, 10))
    assert len(calls) - made < made
    gain[0] = 5.0  # the same function, which computes something else now
    assert not same(first, ct.rollout(m, [1.0], [1.0], controller, 0.01, 10))
    before = ct.rollout(m, [1.0], step=0.01, steps=10)
    m.add("more", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"), parent="arm", at=(0, 0, -1))
    assert ct.rollout(m, [1.0, 0.0], step=0.01, steps=10).q.shape == (11, 2)
    assert before.q.shape == (11, 1)


def test_compiled_loops_go_with_their_model() -> None:
    m = pendulum()
    ct.rollout(m, [1.0], step=0.01, steps=1)
    gone = weakref.ref(m)
    del m
    gc.collect()
    assert gone() is None


def test_a_model_equals_its_pickle_also_after_a_rollout() -> None:
    m = EXAMPLES["arm"]()
    q, v = states(m, 2)
    runs = ct.rollout(m, q, v, step=1e-3, steps=5)
    again = pickle.loads(pickle.dumps(m))
    assert same(runs, ct.rollout(again, q, v, step=1e-3, steps=5))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q0": [0.0, 0.0]}, r"q0 has shape \(2,\); model 'pendulum' takes \(..., 1\)"),
        ({"q0": 0.0}, r"q0 has shape \(\)"),
        ({"q0": ["a"]}, "q0 .* is not made of real numbers"),
        ({"q0": [[0.0], [np.nan]]}, r"q0\[1, 0\] = nan is not finite"),
        ({"v0": [[0.0, 1.0]]}, r"v0 has shape \(1, 2\)"),
        ({"q0": np.zeros((3, 1)), "v0": np.zeros((2, 1))}, r"leading axes do not broadcast: q0 \(3,\), v0 \(2,\)"),
        ({"controls": [1.0, 2.0]}, r"controls has shape \(2,\)"),
        ({"controls": np.zeros((7, 1))}, "7 rows over time, which do not divide 10 steps"),
        ({"controls": np.zeros((0, 1))}, "0 rows over time"),
        ({"controls": lambda t, q, v: [1.0, 2.0]}, r"controller returned .*\(2,\)"),
        ({"controls": ct.python(lambda t, q, v: [1.0])}, r"controller is marked ct.python.*use ct.simulate"),
        ({"step": 0.0}, "step = 0 is not positive"),
        ({"step": 1e-18, "start": 1.0}, "step = 1e-18 s is below the resolution of time in a run from 1 s to 1 s; give 1e-12 s or more"),
        ({"step": 1e-18, "steps": 10**18, "every": 10**18}, r"step = 1e-18 s is below the resolution of time in a run from 0 s to 1 s"),
        ({"steps": 10**11, "every": 10**11}, r"makes 1.0e\+11 steps"),
        ({"step": np.inf}, "step = inf is not finite"),
        ({"step": "fast"}, "step = 'fast' is not a number"),
        ({"step": None}, "step is missing"),
        ({"steps": None}, "steps is missing"),
        ({"steps": 0}, "steps = 0 is not a count"),
        ({"steps": 1.5}, "steps = 1.5 is not a count"),
        ({"steps": True}, "steps = True is not a count"),
        ({"every": 3}, "every = 3 does not divide steps = 10"),
        ({"every": -1}, "every = -1 is not a count"),
        ({"threads": 0}, "threads = 0 is not a count"),
        ({"start": np.nan}, "start = nan is not finite"),
        ({"noise": np.zeros((7, 1))}, "noise of shape .* have 7 rows over time, which do not divide 10 steps"),
        ({"noise": [1.0]}, "noise of shape .* have 0 rows over time"),
        ({"noise": {"arm.mass": np.ones(10)}}, "noise 'arm.mass' cannot change while the model moves: it is part of the bodies"),
        ({"noise": {"arm.weight": np.ones(10)}}, "'arm.weight' is not a number of model 'pendulum'"),
        ({"noise": {"gravity": np.ones(3)}}, "noise 'gravity' of shape .* have 0 rows"),
        ({"noise": {"gravity": np.ones((5, 3))}, "parameters": {"gravity": [0, 0, -1]}}, "'gravity' is given in parameters and in noise"),
    ],
)
def test_errors_at_the_door(arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"q0": [0.1], "v0": None, "controls": None, "step": 0.01, "steps": 10} | arguments
    with pytest.raises(ct.ArgumentError, match=message):
        ct.rollout(pendulum(), **given)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stop": lambda t, q, v: q[0]}, r"stop .*return a condition, such as q\[0\] > 1.0"),
        ({"stop": lambda t, q, v: None}, "stop .*return a condition"),
        ({"stop": 3.0}, "stop"),
        ({"observe": lambda t, q, v: None}, "observe"),
    ],
)
def test_functions_that_return_something_else_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ct.CatenaError, match=message):
        ct.rollout(pendulum(), [0.1], step=0.01, steps=10, **arguments)


def test_models_and_functions_that_cannot_be_compiled_are_refused() -> None:
    with pytest.raises(ct.ArgumentError, match="is not a model"):
        ct.rollout("pendulum", [0.0], step=0.01, steps=1)  # type: ignore[arg-type]
    with pytest.raises(ct.MethodError, match="integrator 'rk5' is unknown"):
        ct.rollout(pendulum(), [0.0], step=0.01, steps=1, integrator="rk5")
    with pytest.raises(ct.TraceError, match="controller cannot be traced"):
        ct.rollout(pendulum(), [0.0], controls=lambda t, q, v: [1.0 if q[0] > 0 else 0.0], step=0.01, steps=1)
    m = pendulum()
    m.add_force("kick", ct.python(lambda t, q, v: [1.0]))
    with pytest.raises(ct.ArgumentError, match=r"force 'kick' is marked ct.python.*use ct.simulate"):
        ct.rollout(m, [0.0], step=0.01, steps=1)


@pytest.mark.parametrize("count", [1, 4, 5, 8, 17])
def test_an_iteration_equals_its_graph_step_by_step(count: int) -> None:
    """States that change places, a table, records now and then, and trajectories that stop at different times."""
    trace = Trace("swap")
    state, row, constants = trace.input("state", (6,)), trace.input("row", (2,)), trace.input("constants", (1,))
    done, rows, at, age, a, b = state
    older = age + 1.0
    kept = ct.where(row[1] > 0.0, rows + 1.0, rows)
    graph = trace.graph(
        state=[ct.where(older >= constants[0], 1.0, done), kept, at + 1.0, older, b, a], record=[np.sin(a) + row[0], b, older]
    )
    rng = np.random.default_rng(count)
    states = np.zeros((count, 6))
    states[:, 4:] = rng.normal(size=(count, 2))
    table = np.stack([rng.normal(size=(count, 9)), rng.integers(0, 2, size=(count, 9))], axis=-1)
    lifetimes = rng.integers(1, 14, size=(count, 1)).astype(float)
    records = np.full((count, 6, 3), -7.0)
    expected, wanted = states.copy(), records.copy()
    for i in range(count):
        for _ in range(20):
            if expected[i, 0] or expected[i, 1] >= 6:
                break
            new, record = graph.evaluate(expected[i], table[i, min(int(expected[i, 2]), 8)], lifetimes[i])
            if new[1] > expected[i, 1]:
                wanted[i, int(expected[i, 1])] = record
            expected[i] = new
    iteration = Iteration(graph)
    iteration.run(states, table, lifetimes, records, 3)
    iteration.run(states, table, lifetimes, records, 17)
    assert np.array_equal(states, expected)
    assert np.abs(records - wanted).max() <= 1e-15
