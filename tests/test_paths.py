"""Paths over time: rates and accelerations are derivatives, ends are as given, limits are kept, and traced times give the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catena as ct
from catena.graph import Trace
from catena.native import compile_graph

pytestmark = [pytest.mark.evaluated, pytest.mark.quick]

START, END = np.array([0.3, -1.0, 2.0]), np.array([1.5, 0.5, 2.0])

#: Coefficients of the polynomials of order 7 are about 1,000 for the acceleration.
ROUNDING = 1e-12

PATHS: dict[str, Any] = {
    "cycloidal": ct.cycloidal(START, END, 2.0),
    "cubic": ct.polynomial(START, END, 2.0, order=3),
    "quintic": ct.polynomial(START, END, 2.0),
    "septic": ct.polynomial(START, END, 2.0, order=7),
    "rates": ct.polynomial(START, END, 2.0, order=3, start_rate=[0.5, 0.0, 1.0], end_rate=-0.2),
    "accelerations": ct.polynomial(START, END, 2.0, start_rate=0.1, start_acceleration=[1.0, 2.0, 3.0], end_acceleration=-1.0),
    "seventh": ct.polynomial(START, END, 2.0, order=7, end_rate=0.3, end_acceleration=0.7),
    "trapezoidal": ct.trapezoidal(START, END, max_rate=1.0, max_acceleration=3.0),
    "triangular": ct.trapezoidal(START, END, max_rate=10.0, max_acceleration=3.0),
    "timed": ct.trapezoidal(START, END, max_rate=[1.0, 1.2, 0.1], duration=2.0),
    "number": ct.cycloidal(0.5, 1.5, 2.0),
    "line": ct.trapezoidal(0.5, -1.5, max_rate=1.0, duration=3.0),
}


@pytest.mark.parametrize("name", PATHS)
def test_integrals_of_rate_and_acceleration_are_position_and_rate(name: str) -> None:
    path = PATHS[name]
    t = np.linspace(0.0, path.duration, 20001)
    at = path(t)
    for value, derivative in ((at.position, at.rate), (at.rate, at.acceleration)):
        pieces = 0.5 * (derivative[1:] + derivative[:-1]) * t[1]
        assert np.abs(value[1:] - value[0] - np.cumsum(pieces, axis=0)).max() < 1e-3
        assert np.abs(value).max() > 0.1
    middle = slice(1000, 1100)  # no kink is there
    for value, derivative in ((at.position, at.rate), (at.rate, at.acceleration)):
        np.testing.assert_allclose(np.gradient(value, t, axis=0)[middle], derivative[middle], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", PATHS)
def test_path_leads_from_start_to_end_and_stands_still_outside(name: str) -> None:
    path = PATHS[name]
    np.testing.assert_allclose(path(0.0).position, path.start, rtol=0, atol=1e-15)
    np.testing.assert_allclose(path(path.duration).position, path.end, rtol=0, atol=ROUNDING)
    before, after = path(-1.0), path(path.duration + 1.0)
    np.testing.assert_array_equal(before.position, path(0.0).position)
    np.testing.assert_array_equal(after.position, path(path.duration).position)
    assert not np.any([before.rate, before.acceleration, after.rate, after.acceleration])


@pytest.mark.compiled
@pytest.mark.parametrize("name", PATHS)
def test_arrays_of_times_and_traced_times_give_the_same(name: str) -> None:
    path = PATHS[name]
    times = np.linspace(-0.5, path.duration + 0.5, 31).reshape(31, 1)
    together = path(times)
    trace = Trace("path")
    kernel = compile_graph(trace.graph(**path(trace.input("t"))._asdict()))
    for i, t in enumerate(times.ravel()):
        for all_of_them, one, traced in zip(together, path(float(t)), kernel(t), strict=True):
            assert np.shape(one) == path.start.shape
            assert all_of_them.shape == (31, 1, *path.start.shape)
            np.testing.assert_allclose(all_of_them[i, 0], one, rtol=0, atol=ROUNDING)
            np.testing.assert_allclose(traced, one, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize(("name", "smooth"), [("cycloidal", 2), ("cubic", 1), ("quintic", 2), ("septic", 2)])
def test_paths_begin_and_end_at_rest(name: str, smooth: int) -> None:
    path = PATHS[name]
    for t in (0.0, path.duration):
        np.testing.assert_allclose(np.array(path(t)[1 : smooth + 1]), 0.0, atol=ROUNDING)


def test_septic_has_no_jerk_at_its_ends() -> None:
    path = PATHS["septic"]
    for t in (1e-4, path.duration - 1e-4):
        assert np.abs(path(t).acceleration).max() < 1e-5  # it grows with the square of the time


def test_cycloid_equals_the_formula_of_the_paper() -> None:
    t = np.linspace(0.0, 2.0, 11)
    s = t / 2.0 - np.sin(np.pi * t) / (2.0 * np.pi)
    np.testing.assert_allclose(PATHS["number"](t).position, 0.5 + s, rtol=0, atol=1e-15)


def test_polynomials_have_the_derivatives_given() -> None:
    assert PATHS["rates"](0.0).rate == pytest.approx([0.5, 0.0, 1.0], abs=1e-14)
    assert PATHS["rates"](2.0).rate == pytest.approx([-0.2] * 3, abs=1e-13)
    assert PATHS["accelerations"](0.0).acceleration == pytest.approx([1.0, 2.0, 3.0], abs=1e-14)
    assert PATHS["accelerations"](2.0).acceleration == pytest.approx([-1.0] * 3, abs=1e-12)
    assert PATHS["seventh"](2.0).rate == pytest.approx([0.3] * 3, abs=1e-12)
    assert PATHS["seventh"](2.0).acceleration == pytest.approx([0.7] * 3, abs=1e-11)


def test_trapezoidal_paths_keep_their_limits_and_reach_one() -> None:
    t = np.linspace(0.0, 5.0, 5001)
    for name, rate, acceleration in (("trapezoidal", 1.0, 3.0), ("triangular", None, 3.0), ("timed", [1.0, 1.2, 0.1], None)):
        at = PATHS[name](t)
        if rate is not None:
            assert (np.abs(at.rate) / rate).max() == pytest.approx(1.0, abs=1e-12)
        if acceleration is not None:
            assert np.abs(at.acceleration).max() == pytest.approx(acceleration, abs=1e-12)
    assert PATHS["triangular"].duration == pytest.approx(2.0 * np.sqrt(1.5 / 3.0))
    assert PATHS["trapezoidal"].duration == pytest.approx(1.5 / 1.0 + 1.0 / 3.0)


def test_way_of_no_length_takes_no_time() -> None:
    path = ct.trapezoidal([1.0, 2.0], [1.0, 2.0], max_rate=1.0, max_acceleration=1.0)
    assert path.duration == 0.0
    np.testing.assert_array_equal(path([-1.0, 0.0, 1.0]).position, [[1.0, 2.0]] * 3)
    held = ct.trapezoidal(1.0, 1.0, max_rate=1.0, duration=3.0)
    assert (held.duration, held(1.0)) == (3.0, (1.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ct.cycloidal(0.0, [1.0, 2.0], 1.0), "start has the shape"),
        (lambda: ct.cycloidal(0.0, np.nan, 1.0), "not finite"),
        (lambda: ct.cycloidal("here", 1.0, 1.0), "not made of real numbers"),
        (lambda: ct.cycloidal(0.0, 1.0, 0.0), "duration = 0 is not positive"),
        (lambda: ct.cycloidal(0.0, 1.0, np.inf), "not finite"),
        (lambda: ct.cycloidal([[0.0]], [[1.0]], 1.0), "one for each coordinate"),
        (lambda: ct.polynomial(0.0, 1.0, 1.0, order=4), "order 4 is none of 3, 5, 7"),
        (lambda: ct.polynomial(0.0, 1.0, 1.0, order=3, end_acceleration=1.0), "give order=5"),
        (lambda: ct.polynomial([0.0, 1.0], [1.0, 2.0], 1.0, start_rate=[1.0, 2.0, 3.0]), "start_rate has the shape"),
        (lambda: ct.polynomial(0.0, 1.0, 1.0, end_rate=np.inf), "end_rate inf is not finite"),
        (lambda: ct.trapezoidal(0.0, 1.0, max_rate=1.0), "either max_acceleration or duration"),
        (lambda: ct.trapezoidal(0.0, 1.0, max_rate=1.0, max_acceleration=1.0, duration=3.0), "either max_acceleration or duration"),
        (lambda: ct.trapezoidal(0.0, 1.0, max_rate=0.0, duration=1.0), "max_rate = 0.0 is not positive"),
        (lambda: ct.trapezoidal(0.0, 1.0, max_rate=1.0, max_acceleration=-1.0), "max_acceleration = -1.0 is not positive"),
        (lambda: ct.trapezoidal(0.0, 3.0, max_rate=1.0, duration=2.0), "takes more than 3 s"),
        (lambda: PATHS["cycloidal"](["noon"]), "give times"),
    ],
)
def test_what_cannot_be_a_path_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ct.ArgumentError, match=says):
        make()
