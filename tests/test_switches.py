"""Conditions on time: where functions switch, and runs that end their steps there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import catena as ct
from catena.graph.operations import OPERATIONS
from catena.graph.ranges import RANGES, ranges
from catena.model.user_functions import traced
from catena.simulation import run as run_module
from catena.simulation import switches as switches_module
from catena.simulation.switches import Switches

pytestmark = pytest.mark.evaluated

ADAPTIVE = ("dormand-prince", "bogacki-shampine", "rang-angermann", "dop853", "scipy:RK45", "scipy:LSODA", "scipy:Radau")


def switches(function: Callable[[Any], Any], start: float, until: float, count: int = 10**9) -> Switches:
    """Return where a function of time switches."""
    found = Switches([traced(lambda t, q, v: [function(t)], 1, 1)], start, until)
    found.search(count, start)
    return found


def slide() -> ct.Model:
    m = ct.Model("slide", gravity=(0, 0, 0))
    m.add("slide", ct.point_mass(1.0), ct.Prismatic("x"))
    return m


def pulse(t: Any, *_: Any) -> Any:
    return np.where((t >= 0.5) & (t < 0.6), 10.0, 0.0)


# where functions switch


def test_every_operation_has_a_range() -> None:
    assert RANGES.keys() == OPERATIONS.keys()


def test_ranges_hold_all_values() -> None:
    """Of random graphs of all operations, values at times of an interval are in their range there, and the range of one time is one."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        a, b, c = rng.normal(size=3) * 3.0

        def function(t: Any, a: float = a, b: float = b, c: float = c) -> Any:
            x, y = np.sin(a * t + b), np.cos(b * t) * c
            z = np.where((x < y) & ~(t < a), np.exp(x), np.minimum(t, y)) + np.arctan2(x, t + c) + np.floor(a * t)
            w = np.sqrt(x * x + 0.1) / (y + 0.3) + np.log(x * x + 0.2) - np.tanh(t) ** 3 + np.abs(x) ** 0.7
            return z + np.maximum(w, t % 1.3) + np.where((x <= y) | (np.floor(t) == 2.0), 1.0, -t)

        graph = traced(lambda t, q, v: [function(t)], 1, 1)
        start = rng.uniform(-5.0, 5.0)
        end = start + 10.0 ** rng.uniform(-6.0, 1.0)
        (result,) = graph.results[0]
        ((least, most),) = ranges(graph.nodes, [result], np.array([start]), np.array([end]))
        times = np.linspace(start, end, 200)
        values = graph.evaluate(times, np.zeros(1), np.zeros(1))[0][:, 0]
        slack = 1e-9 * (1.0 + np.abs(values))
        assert (values >= least - slack).all()
        assert (values <= most + slack).all()
        ((low, high),) = ranges(graph.nodes, [result], times, times)
        assert_allclose(low, values, rtol=1e-9, atol=1e-9)
        assert_allclose(high, values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("until", [1.0, 1e3, 1e5])
def test_conditions_are_found_in_runs_of_any_length(until: float) -> None:
    assert switches(pulse, 0.0, until).times.tolist() == [0.5, 0.6]
    assert_allclose(switches(lambda t: np.where((t - 0.5) ** 2 < 1e-8, 1.0, 0.0), 0.0, until).times, [0.4999, 0.5001], rtol=1e-11)
    assert_allclose(switches(lambda t: np.where(np.exp(-t) < 0.5, 1.0, 0.0), 0.0, until).times, [np.log(2.0)], rtol=1e-12)
    assert_allclose(switches(lambda t: abs(t - 0.3) + np.maximum(t, 0.4), 0.0, until).times, [0.3, 0.4], rtol=1e-12)


def test_conditions_that_return_are_all_found() -> None:
    periodic = switches(lambda t: np.where(t % 1.0 < 0.25, 1.0, 0.0), 0.0, 1000.5).times
    assert_allclose(periodic, np.sort([*np.arange(0.25, 1000.5), *np.arange(1.0, 1000.5)]), rtol=1e-12)
    waves = switches(lambda t: np.sign(np.sin(3.0 * t)), 0.1, 5000.0).times
    assert_allclose(waves, np.pi / 3.0 * np.arange(1, len(waves) + 1), rtol=1e-12)
    assert len(waves) == int(15000.0 / np.pi)
    rising = switches(lambda t: np.where(np.sin(t * t) > 0.0, 1.0, 0.0), 0.1, 60.0).times
    assert_allclose(rising, np.sqrt(np.pi * np.arange(1, len(rising) + 1)), rtol=1e-10)
    assert len(rising) == int(3600.0 / np.pi)


def test_a_table_switches_at_its_points_and_what_touches_a_condition_does_not() -> None:
    points = np.sort(np.random.default_rng(1).uniform(0.0, 10.0, 3000))
    table = switches(lambda t: np.interp(t, points, np.sin(points)), -1.0, 11.0).times
    assert_allclose(table, points, rtol=1e-12)
    assert len(switches(lambda t: np.where((t - 5.0) ** 2 > 0.0, 1.0, 0.0), 0.0, 1e4).times) <= 2
    assert not switches(lambda t: np.sin(t) + t, 0.0, 10.0)


def test_switches_are_the_same_however_few_are_found_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(t: Any) -> Any:
        return np.where(t % 0.1 < 0.03, np.sign(np.sin(40.0 * t)), abs(np.cos(7.0 * t)))

    whole = switches(function, 0.0, 300.0)
    monkeypatch.setattr(switches_module, "_MOST", 256)
    parts = switches(function, 0.0, 300.0, 10)
    assert not parts.complete
    while not parts.complete:
        parts.search(100, parts.times[-1])
    assert_allclose(parts.times, whole.times, rtol=1e-13)
    assert len(whole.times) > 8_000


# runs


@pytest.mark.parametrize("integrator", ADAPTIVE)
@pytest.mark.parametrize("until", [1.0, 10.0, 1e3, 1e5])
def test_a_short_pulse_gives_its_momentum_in_runs_of_any_length(until: float, integrator: str) -> None:
    run = ct.simulate(slide(), [0.0], until=until, integrator=integrator, controller=lambda t, q, v: [pulse(t)])
    assert abs(run.v[-1, 0] - 1.0) < 1e-12
    assert run.info["steps"] < 150


def given(kind: str) -> tuple[ct.Model, dict[str, Any], float]:
    """Return a slide that a pulse pushes, what the run takes, and the speed that it comes to."""
    m, options, speed = slide(), {}, 1.0
    if kind == "force":
        m.add_force("pulse", lambda t, q, v: [pulse(t)])
    elif kind == "point force":
        m.add_point_force("pulse", "slide", (0, 0, 0), lambda t, position, velocity: np.stack([pulse(t), 0.0 * t, 0.0 * t]))
    elif kind == "line force":
        m.add_line_force("pulse", "slide", "ground", lambda t, length, rate: -pulse(t), at_a=(1, 0, 0))
    elif kind == "wrenches":
        options["wrenches"] = {"slide": lambda t, q, v: [0.0, 0.0, 0.0, pulse(t), 0.0, 0.0]}
    elif kind == "controls":
        m.add_actuator("motor", "slide")
        options["controls"] = lambda t, q, v: [pulse(t)]
    elif kind == "table of controls":
        m.add_actuator("motor", "slide")
        options["controls"] = (np.array([0.0, 0.5, 0.5001, 0.6, 0.6001, 1e3]), np.array([0.0, 0.0, 10.0, 10.0, 0.0, 0.0])[:, None])
        speed = 10.0 * 0.1
    elif kind == "parameter":
        on = m.parameter("on", 0.5)
        m.add_force("pulse", lambda t, q, v: [np.where((t >= on) & (t < on + 0.1), 10.0, 0.0)])
        options["parameters"] = {"on": 777.7}
    elif kind == "with a table of forces":
        m.add_force("pulse", lambda t, q, v: [pulse(t)])
        options["tau"], speed = (np.array([0.0, 400.0, 1e3]), np.array([[0.0], [0.0], [1e-3]])), 1.3
    elif kind == "drive":
        m = ct.Model("table", gravity=(0, 0, 0))
        m.add("table", ct.point_mass(1.0), ct.Driven(ct.Prismatic("x"), _moved))
        m.add("slide", ct.point_mass(1.0), ct.Prismatic("x"), parent="table")
        speed = -0.1
    return m, options, speed


def _moved(t: Any) -> Any:
    return np.where(t < 500.0, 0.0, np.where(t < 500.1, 0.5 * (t - 500.0) ** 2, 0.005 + 0.1 * (t - 500.1)))


KINDS = (
    "force", "point force", "line force", "wrenches", "controls", "table of controls", "parameter", "with a table of forces", "drive",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_conditions_are_seen_wherever_a_function_is_given(kind: str) -> None:
    m, options, speed = given(kind)
    for integrator in ("dormand-prince", "rang-angermann", "scipy:RK45"):
        if kind == "with a table of forces" and integrator == "rang-angermann":
            continue
        run = ct.simulate(m, [0.0], until=1e3, integrator=integrator, **options)
        assert abs(run.v[-1, 0] - speed) < 1e-9


def test_a_condition_in_python_is_seen_by_a_hundredth_of_the_run() -> None:
    def called(t: float, q: Any, v: Any) -> list[float]:
        return [10.0 if 0.5 <= t < 0.6 else 0.0]

    run = ct.simulate(slide(), [0.0], until=5.0, controller=ct.python(called))
    assert abs(run.v[-1, 0] - 1.0) < 1e-4
    assert np.diff(run.t).max() < 0.05 * (1.0 + 1e-12)


def test_a_function_of_time_without_conditions_is_seen_by_a_hundredth_of_the_run() -> None:
    run = ct.simulate(slide(), [0.0], until=10.0, controller=lambda t, q, v: [np.exp(-((t - 7.0) ** 2) / 0.02)])
    assert abs(run.v[-1, 0] - np.sqrt(0.02 * np.pi)) < 1e-6


@pytest.mark.parametrize(("start", "until"), [(0.5, 2.0), (-1.0, 0.6), (0.5, 0.6), (0.55, 2.0)])
def test_runs_may_begin_and_end_where_functions_switch(start: float, until: float) -> None:
    run = ct.simulate(slide(), [0.0], start=start, until=until, controller=lambda t, q, v: [pulse(t)])
    assert abs(run.v[-1, 0] - 10.0 * (min(until, 0.6) - max(start, 0.5))) < 1e-12
    assert run.tau is not None
    assert run.tau[0, 0] == (10.0 if start >= 0.5 else 0.0)


def switching(t: Any, q: Any, v: Any) -> list[Any]:
    return [np.where(t % 1.0 < 0.1, 10.0, 0.0) + np.sin(t)]


def momentum(t: Any) -> Any:
    return 10.0 * (0.1 * np.floor(t) + np.minimum(t % 1.0, 0.1)) + 1.0 - np.cos(t)


def test_samples_events_and_functions_in_python_go_with_switches() -> None:
    m, times = slide(), np.linspace(0.0, 50.0, 173)
    whole = ct.simulate(m, [0.0], until=50.0, controller=switching)
    assert_allclose(whole.v[:, 0], momentum(whole.t), rtol=0, atol=1e-6)
    sampled = ct.simulate(m, [0.0], until=50.0, controller=switching, record=times.tolist())
    assert_allclose(sampled.v[:, 0], momentum(times), rtol=0, atol=1e-6)
    kick = ct.Event("kick", lambda t, q, v: t - 20.05, lambda t, q, v: (q, v + 1.0))
    kicked = ct.simulate(m, [0.0], until=50.0, controller=switching, events=[kick])
    assert abs(kicked.v[-1, 0] - momentum(50.0) - 1.0) < 1e-6
    m.add_force("called", ct.python(lambda t, q, v: [0.0]))
    called = ct.simulate(m, [0.0], until=50.0, controller=switching)
    assert abs(called.v[-1, 0] - momentum(50.0)) < 1e-6


def test_runs_go_on_from_checkpoints_whatever_they_had_found(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    m, options = slide(), {"until": 60.0, "controller": switching}
    whole = ct.simulate(m, [0.0], **options)
    monkeypatch.setattr(run_module, "_ROWS_AHEAD", 8)
    few = ct.simulate(m, [0.0], **options, checkpoint=tmp_path / "run.npz")
    again = ct.simulate(m, [0.0], **options, resume=tmp_path / "run.npz")
    for run in (few, again):
        assert (run.v == whole.v).all()
    longer = ct.simulate(m, [0.0], until=90.0, controller=switching, resume=tmp_path / "run.npz")
    assert abs(longer.v[-1, 0] - momentum(90.0)) < 1e-6


def test_switches_and_contacts_meet_in_one_run() -> None:
    """A slide that a pulse sends to a wall comes back to where it was."""
    m = slide()
    wall = {"normal": (-1, 0, 0), "height": -50.0, "friction": 0.0, "dissipation": 0.0, "stiffness": 1e5}
    m.add_contact("wall", "slide", ct.Geometry("sphere", (0.1,)), **wall)
    run = ct.simulate(m, [0.0], until=500.0, controller=lambda t, q, v: [pulse(t)])
    assert abs(run.v[-1, 0] + 1.0) < 1e-6
