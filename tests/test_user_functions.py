"""Functions that users give to a run: what they write to changes nothing, and what is not a number is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import catena as ct
from catena.examples import EXAMPLES
from catena.graph import Trace, traced_array
from catena.native import compile_graph

pytestmark = pytest.mark.quick


def pendulum(*forces: Any, on_body: bool = False) -> ct.Model:
    m = ct.Model("pendulum")
    m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    for i, force in enumerate(forces):
        m.add_force(f"force {i}", force, **({"body": "arm", "point": (0, 0, -1)} if on_body else {}))
    return m


def scribbling(function: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Return a function that takes q and v for scratch paper."""

    def scribbled(t: Any, q: Any, v: Any) -> Any:
        result = function(t, q.copy(), v.copy())
        q[0], v[0] = 100.0, -100.0
        return result

    return scribbled


def brake(t: Any, q: Any, v: Any) -> Any:
    return [-0.3 * v[0]]


def passing(t: Any, q: Any, v: Any) -> Any:
    return q[0] - 0.1


# how a run calls the function of a user, twice: as it stands, and marked
WAYS: dict[str, Callable[[Any], ct.Trajectory]] = {
    "controller": lambda write: ct.simulate(pendulum(), [0.5], until=1.0, controller=write(brake)),
    "fixed steps": lambda write: ct.simulate(pendulum(), [0.5], until=1.0, step=0.01, controller=write(brake)),
    "momenta": lambda write: ct.simulate(pendulum(), [0.5], until=1.0, step=0.01, controller=write(brake), integrator="stormer-verlet"),
    "scipy": lambda write: ct.simulate(pendulum(), [0.5], until=1.0, controller=write(brake), integrator="scipy:Radau"),
    "force": lambda write: ct.simulate(pendulum(write(brake)), [0.5], until=1.0),
    "force on a body": lambda write: ct.simulate(
        pendulum(write(lambda t, q, v: [0.0, 0.0, q[0]]), on_body=True), [0.5], until=1.0
    ),
    "event": lambda write: ct.simulate(pendulum(), [0.5], until=1.0, events=[ct.Event("down", write(passing), "record")]),
    "reset": lambda write: ct.simulate(
        pendulum(), [0.5], until=2.0, events=[ct.Event("down", write(passing), scribbling(lambda t, q, v: (q, -v)), direction=-1)]
    ),
    "times": lambda write: ct.simulate(pendulum(), [0.5], until=1.0, controller=write(brake), record=np.linspace(0.0, 1.0, 7).tolist()),
}


@pytest.mark.parametrize("mark", [ct.python, lambda function: function], ids=["python", "traced"])
@pytest.mark.parametrize("way", WAYS)
def test_functions_may_write_to_what_they_are_given(way: str, mark: Any) -> None:
    plain = WAYS[way](mark)
    scribbled = WAYS[way](lambda function: mark(scribbling(function)))
    assert len(plain) > 5
    for part in ("t", "q", "v", "vdot", "tau"):
        assert_array_equal(getattr(scribbled, part), getattr(plain, part))
    assert [event.t for event in scribbled.events] == [event.t for event in plain.events]
    assert bool(plain.events) is (way in ("event", "reset"))


@pytest.mark.parametrize("steps", [{}, {"step": 0.01}], ids=["adaptive", "fixed"])
@pytest.mark.parametrize("mark", [ct.python, lambda function: function], ids=["python", "traced"])
def test_an_event_that_is_no_longer_a_number_ends_the_run(mark: Any, steps: dict[str, Any]) -> None:
    """The ball is at 1 - g t^2 / 2; sqrt(z) falls to 0, and is not a number after it."""
    m = ct.Model("ball", gravity=(0, 0, -9.81))
    m.add("ball", ct.point_mass(1.0), ct.Prismatic("z"))
    lands = np.sqrt(2.0 / 9.81)
    with np.errstate(invalid="ignore"):
        floor = ct.Event("floor", mark(lambda t, q, v: np.sqrt(q[0])))
        other = ct.Event("other", lambda t, q, v: q[0] + 5.0)
        says = r"simulate 'ball': the function of event 'floor' is not a number at t = 0\.4515\d+ s, .*x, not sqrt\(x\)"
        with pytest.raises(ct.SimulationError, match=says) as caught:
            ct.simulate(m, [1.0], until=1.0, events=[other, floor], **steps)
    run = caught.value.trajectory
    assert isinstance(run, ct.Trajectory)
    assert run.info["stopped"] == "error"
    assert run.t[-1] == pytest.approx(lands, abs=1e-6)
    assert run.t[-1] <= lands
    assert (run.q >= 0.0).all()


def test_an_event_that_is_a_number_only_before_its_zero_may_stop_before_it() -> None:
    """Half of a domain is enough for an event that happens inside it."""
    m = ct.Model("ball", gravity=(0, 0, -9.81))
    m.add("ball", ct.point_mass(1.0), ct.Prismatic("z"))
    run = ct.simulate(m, [1.0], until=1.0, events=[ct.Event("low", lambda t, q, v: np.sqrt(q[0]) - 0.5)])
    assert run.q[-1, 0] == pytest.approx(0.25, rel=1e-9)


@pytest.mark.parametrize("action", ["reset", "root"])
def test_an_event_that_is_not_a_number_after_a_reset_or_within_a_step_ends_the_run(action: str) -> None:
    m = ct.Model("cart", gravity=(0, 0, 0))
    m.add("cart", ct.point_mass(2.0), ct.Prismatic("x"))
    events = [ct.Event("jump", lambda t, q, v: t - 0.5, lambda t, q, v: (-q, v)), ct.Event("lost", lambda t, q, v: np.sqrt(q[0]))]
    if action == "root":
        hole = ct.python(lambda t, q, v: np.nan if 0.4 < q[0] < 0.6 else q[0] - 0.5)
        events = [ct.Event("lost", hole)]
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(ct.SimulationError, match=r"function of event 'lost' is not a number at t = ") as caught,
    ):
        ct.simulate(m, [0.1], [1.0], until=1.0, events=events, step=0.3)
    assert isinstance(caught.value.trajectory, ct.Trajectory)


# --- NumPy on traced arrays

A, B = np.array([0.7, -0.4, 0.2]), np.array([-0.3, 0.5, 0.9])
GRID = np.arange(9.0).reshape(3, 3) / 3.0 + np.diag([1.0, -2.0, 0.5])
TABLE = np.linspace(-1.0, 1.0, 6)

NUMPY = {
    "clip": lambda q, v: np.clip(q, -0.3, 0.3), "clip from one side": lambda q, v: np.clip(q, None, 0.1),
    "clip between arrays": lambda q, v: np.clip(q, -np.abs(v), np.abs(v)), "clip of an entry": lambda q, v: np.clip(q[0], -0.5, 0.5),
    "minimum": np.minimum, "maximum": lambda q, v: np.maximum(q, 0.1), "maximum of entries": lambda q, v: np.maximum(0.1, q[1]),
    "where": lambda q, v: np.where(q > 0.0, v, -v), "where of an entry": lambda q, v: np.where(q[0] > 0.0, q, v),
    "where of numbers": lambda q, v: np.where((q[0] > 0.0) | (v[0] > 0.0), 1.0, 2.0),
    "and": lambda q, v: np.where((q > 0.0) & (v < 0.6), q, 0.0),
    "logical": lambda q, v: np.where(np.logical_or(q > 0.5, np.logical_not(v > 0.0)), 1.0, 0.0),
    "sign": lambda q, v: np.sign(q), "sign of an entry": lambda q, v: np.sign(v[0]), "abs": lambda q, v: np.abs(q) + abs(v),
    "norm": lambda q, v: np.linalg.norm(q - v), "norms": lambda q, v: np.linalg.norm(np.stack([q, v]), axis=1), "dot": np.dot,
    "matmul": lambda q, v: GRID @ q + q @ GRID, "cross": np.cross, "outer": np.outer, "sum and mean": lambda q, v: np.sum(q) + np.mean(v),
    "max": lambda q, v: np.max(q) - np.min(v), "max of rows": lambda q, v: np.max(np.stack([q, v]), axis=0), "hypot": np.hypot,
    "slices": lambda q, v: q[1:] * v[:-1], "stack of entries": lambda q, v: np.stack([q[0], v[1], 1.0]),
    "tanh": lambda q, v: np.tanh(q * 3.0), "number times array": lambda q, v: np.array([1.0, 2.0, 3.0]) * q[0] + np.float64(2.0) * v[0],
    "arctan2": lambda q, v: np.arctan2(q[0], v[0]), "assigned": lambda q, v: _assigned(q, v),
    "arctan2 of a number": lambda q, v: np.arctan2(1.0, q), "any": lambda q, v: np.where(np.any(q > 0.5), 1.0, 2.0),
    "all": lambda q, v: np.where((q > -0.1).all(), 1.0, 2.0),
    "logical of entries": lambda q, v: np.where(np.logical_and(q[0] > 0, v[0] > 0), 1, 2),
    "modulo": lambda q, v: q % 0.3,
    "modulo of an entry": lambda q, v: (q[1] + np.pi) % (2.0 * np.pi) - np.pi,
    "np.mod": lambda q, v: np.mod(q, v),
    "number modulo": lambda q, v: 2.1 % q,
    "floor": lambda q, v: np.floor(3.0 * q) + math.floor(7.0 * v[1]),
    "ceil": lambda q, v: np.ceil(3.0 * q),
    "trunc": lambda q, v: np.trunc(9.0 * q), "fmod": lambda q, v: np.fmod(q, 0.3), "whole quotient": lambda q, v: q // 0.3,
    "interp": lambda q, v: np.interp(q, [-0.3, 0.1, 0.1, 0.5], [1.0, 2.0, 4.0, -1.0]),
    "interp of an entry": lambda q, v: np.interp(q[2], TABLE, TABLE**2),
    "interp with ends": lambda q, v: np.interp(q, [0.0, 0.5], [1.0, 2.0], left=7.0, right=8.0),
    "interp of values": lambda q, v: np.interp(0.4, TABLE[:3], v),
    "interp of one point": lambda q, v: np.interp(q, [0.1], [3.0]),
    "solve": lambda q, v: np.linalg.solve(GRID + np.outer(q, q), v),
    "solve for columns": lambda q, v: np.linalg.solve(GRID + np.outer(q, v), GRID),
    "inv": lambda q, v: np.linalg.inv(np.eye(3) + np.outer(q, v)), "det": lambda q, v: np.linalg.det(GRID + np.outer(q, v)),
    "det of two": lambda q, v: np.linalg.det(np.stack([q[:2], v[:2]])), "select": lambda q, v: np.select([q > 0.5, q > 0.0], [v, -v], 3.0),
    "condition times number": lambda q, v: (q > 0.0) * v + 2.0 * (v[0] < 0.0),
    "conditions": lambda q, v: np.where((q > 0.0) * (v > 0.0), 1.0, 2.0),
    "sinh": lambda q, v: np.sinh(q) + np.cosh(v[0]), "powers": lambda q, v: np.exp2(q) + np.log2(q + 2.0) + np.log10(v + 3.0) + np.cbrt(q),
    "degrees": lambda q, v: np.deg2rad(q) + np.radians(v) + np.rad2deg(q) + np.degrees(v),
    "signs": lambda q, v: np.copysign(2.0, q) + np.fabs(v),
    "heaviside": lambda q, v: np.heaviside(q, 0.5),
    "largest norm": lambda q, v: np.linalg.norm(q, np.inf),
    "einsum": lambda q, v: np.einsum("ij,j->i", GRID, q),
    "finite": lambda q, v: np.where(np.isfinite(q) & ~np.isnan(v), q, 0.0), "zeros like": lambda q, v: _filled(q, v),
}  # fmt: skip


def _filled(q, v):
    a = np.zeros_like(q, shape=2)
    a[0] = q[0] * v[1]
    return np.maximum(a, -0.1)


def _assigned(q, v):
    q[0] = v[1]
    q += v
    q *= 0.5
    q[1:] -= np.minimum(v[1:], 0.2)
    return q + v


@pytest.mark.parametrize("name", NUMPY)
def test_functions_of_numpy_work_on_traced_arrays_as_written(name):
    trace = Trace("function")
    state = [traced_array(trace.input(port, (3,))) for port in "qv"]
    graph = trace.graph(y=NUMPY[name](*state))
    (found,), expected = graph.evaluate(A, B), NUMPY[name](A.copy(), B.copy())
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)


def test_machine_code_and_derivatives_of_tables_steps_and_systems_equal_numpy():
    def law(q, v):
        return np.linalg.solve(GRID + np.outer(q, q), np.interp(v, TABLE, TABLE**2)) + q % 0.3 + np.floor(4.0 * v)

    trace = Trace("law")
    state = [traced_array(trace.input(port, (3,))) for port in "qv"]
    kernel = compile_graph(trace.graph(y=law(*state)))
    np.testing.assert_allclose(kernel(A, B), law(A, B), rtol=1e-13)
    slopes = kernel.jacobian("y", "q")(A, B)
    small = 1e-6
    differences = [(law(A + small * unit, B) - law(A - small * unit, B)) / (2.0 * small) for unit in np.eye(3)]
    np.testing.assert_allclose(slopes, np.array(differences).T, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("t", [0.05, 0.3, 0.9])
def test_motions_of_driven_joints_take_functions_of_numpy_that_compare(t):
    def motion(t):
        table = np.interp(t, [0.1, 0.6], [0.0, 1.0])
        return np.clip(t * t, 0.01, 0.5) + np.where(t < 0.2, 0.0, t**3) + np.minimum(t, 0.4) + table + t % 0.25

    joint, small = ct.Driven(ct.Prismatic("x"), motion), 1e-4
    q, v, a = (x[0] for x in joint.given(t))
    near = [motion(t + k * small) for k in (-1, 0, 1)]
    assert q == pytest.approx(near[1], rel=1e-14)
    assert v == pytest.approx((near[2] - near[0]) / (2.0 * small), abs=1e-6)
    assert a == pytest.approx((near[2] - 2.0 * near[1] + near[0]) / small**2, abs=1e-5)


def test_a_controller_that_saturates_is_written_as_numpy_is():
    m = EXAMPLES["arm"]()
    most = np.linspace(5.0, 40.0, m.nv)

    def controller(t, q, v):
        return np.clip(-50.0 * q - 5.0 * v, -most, most)

    q = m.random(0)
    run = ct.simulate(m, q, until=0.2, controller=controller, step=1e-3, integrator="rk4")
    same = ct.simulate(m, q, until=0.2, controller=ct.python(controller), step=1e-3, integrator="rk4")
    np.testing.assert_allclose(run.q[-1], same.q[-1], atol=1e-10)
    assert (np.abs(run.tau) <= most).all()
    assert (np.abs(run.tau) == most).any()


# --- kernels inside traced functions


def test_kernels_may_be_called_in_traced_functions():
    m = EXAMPLES["arm"]()
    gravity, jacobian, poses = ct.gravity_force(m), ct.jacobian(m, m.body_names[-1], (0.1, 0, 0)), ct.poses(m)
    goal = np.array([0.3, 0.1, 0.5])

    def controller(t, q, v):
        pull = np.clip(100.0 * (goal - poses(q)[-1][:3, 3]), -20.0, 20.0)
        return jacobian(q)[3:].T @ pull + gravity(q) - 2.0 * v

    q, options = m.random(0), {"step": 1e-3, "integrator": "rk4"}
    run = ct.simulate(m, q, until=0.1, controller=controller, **options)
    same = ct.simulate(m, q, until=0.1, controller=ct.python(controller), **options)
    np.testing.assert_allclose(run.q[-1], same.q[-1], atol=1e-12)
    runs = ct.rollout(m, q, controls=controller, steps=100, **options)
    np.testing.assert_allclose(runs.q[-1], run.q[-1], atol=1e-12)

    def cost(q):
        far = lambda t, q, v: np.sum(poses(q)[-1][:3, 3] ** 2)  # noqa: E731
        found = ct.rollout_gradient(m, q, None, controller, steps=10, final_cost=far, **options)
        return found.value, found.q0

    small = 1e-6 * np.eye(m.nv)[1]
    assert abs((cost(q + small)[0] - cost(q - small)[0]) / 2e-6 - cost(q)[1][1]) < 1e-7


def test_kernels_with_loops_may_be_called_in_traced_functions():
    m = EXAMPLES["four-bar"]()
    inverse, q = ct.inverse_dynamics(m), m.assemble(crank=1.0)

    def controller(t, q, v):
        return inverse(q, v, 0.0 * v) - v

    options = {"until": 0.1, "step": 1e-3, "integrator": "rk4"}
    run, same = (ct.simulate(m, q, controller=one, **options) for one in (controller, ct.python(controller)))
    np.testing.assert_allclose(run.q[-1], same.q[-1], atol=1e-12)


def test_a_kernel_in_a_traced_function_takes_one_state():
    m = EXAMPLES["arm"]()
    gravity = ct.bias_force(m)
    with pytest.raises(ct.TraceError, match=r"called in a traced function with q of shape \(3,\); give \(7,\)"):
        ct.simulate(m, m.random(0), until=0.1, controller=lambda t, q, v: gravity(q[:3], v))
