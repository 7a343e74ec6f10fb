"""What is wrong with a function of a user is told at every door: which function, the line of its code, why, and what to write instead."""

from __future__ import annotations

import itertools
import math
import random
import re
import time
from collections.abc import Callable
from math import cos
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import catena as ct
from catena.model import untraceable

pytestmark = pytest.mark.quick

TABLE = [1.0, 2.0, 3.0]
RNG = np.random.default_rng(0)
SPLINE = CubicSpline([-9.0, 0.0, 9.0], [0.0, 1.0, 0.0])


def smooth(x: float) -> float:
    """A function that takes floats only, as those of many libraries."""
    return np.polynomial.Polynomial(np.array([0.0, float(x)]))(0.5)


def arm() -> ct.Model:
    m = ct.Model("arm")
    m.add("upper", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    m.add("lower", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("x"), parent="upper", at=(0, 0, -1))
    return m


# --- what cannot be traced, told of a number x made of the state; the line is marked by the comment


def branch(x: Any) -> Any:
    if x > 0.0 and not x > 1.0:  # here
        return x
    return -x


def loop(x: Any) -> Any:
    while x > 1.0:  # here
        x = x - 1.0
    return x


def assignment(x: Any) -> Any:
    a = np.zeros(2)
    a[0] = x  # here
    return a[0]


def update(x: Any) -> Any:
    a = np.zeros(2)
    a += np.stack([x, x])  # here
    return a[0]


def several_lines(x: Any) -> Any:
    return x + sum(
        [
            1.0,
            math.sin(  # here
                x
            ),
        ]
    )


#: Functions of x, with the reason and the remedy that are told.
UNTRACEABLE: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "if": (branch, "`if` decides on a traced value", "write np.where((x > 0.0) & (~(x > 1.0)), a, b)"),
    "while": (loop, "`while` decides on a traced value", "for _ in range(n)"),
    "item of floats": (assignment, "`a` is an array of floats", "a = np.zeros_like(q, shape=...)"),
    "change of floats": (update, "`a` is an array of floats", "write a = a + np.stack([x, x])"),
    "several lines": (several_lines, "functions of math take floats", "write np.sin(x)"),
    "conditional": (lambda x: 1.0 if x > 0.0 else -x, "`if` decides on a traced value", "write np.where(x > 0.0, 1.0, -x)"),
    "and": (lambda x: x * (x > 0.0 and x < 1.0), "`and`, `or`, `not`", "write (x > 0.0) & (x < 1.0)"),
    "or": (lambda x: x * (x > 0.0 or x < -1.0), "`and`, `or`, `not`", "write (x > 0.0) | (x < -1.0)"),
    "not": (lambda x: x * (not x > 0.0), "`and`, `or`, `not`", "write ~(x > 0.0)"),
    "chain": (lambda x: x * (0.0 < x < 1.0), "chains of comparisons", "write (0.0 < x) & (x < 1.0)"),
    "float": (lambda x: float(x), "cannot be made a float", "leave float() out: x"),
    "int": (lambda x: int(x), "cannot be made an integer", "write np.trunc(x)"),
    "round": (lambda x: round(x), "has no digits to be rounded", "write np.floor(x + 0.5)"),
    "bool": (lambda x: x * bool(x), "has no truth value", "x != 0.0"),
    "math": (lambda x: math.sin(x), "functions of math take floats", "write np.sin(x)"),
    "renamed": (lambda x: math.atan2(x, 1.0), "functions of math take floats", "write np.arctan2(x, 1.0)"),
    "imported": (lambda x: cos(x), "functions of math take floats", "write np.cos(x)"),
    "power": (lambda x: math.pow(x, 2), "functions of math take floats", "write (x) ** (2)"),
    "min": (lambda x: min(x, 1.0), "min() decides on a traced value", "write np.minimum(x, 1.0)"),
    "max of several": (lambda x: max(x, 1.0, 2.0 * x), "max() decides", "write np.maximum(np.maximum(x, 1.0), 2.0 * x)"),
    "max of a list": (lambda x: max([x, 1.0]), "max() decides on a traced value", "write np.max([x, 1.0])"),
    "any": (lambda x: x * any(y > 0.0 for y in (x, 1.0)), "any() decides", "write np.any(np.stack([y > 0.0 for y in (x, 1.0)]))"),
    "range": (lambda x: sum(range(x)), "cannot count the passes of a loop", "give range() a fixed number"),
    "index": (lambda x: TABLE[x], "`TABLE[x]` has a traced index", "write np.interp(x, points, values)"),
    "index of an array": (lambda x: np.array(TABLE)[x], "has a traced index", "write np.interp(x, points, values)"),
    "text": (lambda x: len(f"{x:.2f}") * x, "has no digits to be formatted", "leave the text out"),
    "format": (lambda x: len("{:.2f}".format(x)) * x, "has no digits to be formatted", "leave the text out"),  # noqa: UP032
    "in": (lambda x: x * (x in (1.0, 2.0)), "`in` compares traced values", "(x == a) | (x == b)"),
    "filter": (lambda x: sum(y for y in (x, -x) if y > 0.0), "`if` decides on a traced value", "write np.where(y > 0.0, a, b)"),
    "xor": (lambda x: x ^ 2, "`^` is not a power", "write x ** 2"),
    "brackets": (lambda x: x * (x > 0.0 & x), "binds closer than comparisons", "put each comparison in brackets"),
    "sort": (lambda x: np.sort(np.stack([x, 1.0]))[0], "np.sort does not take traced values", "np.minimum and np.maximum"),
    "argmax": (lambda x: x * np.argmax(np.stack([x, 1.0])), "np.argmax does not take", "np.where(a > b, x, y)"),
    "method": (lambda x: x * np.stack([x, 1.0]).argmax(), ".argmax() does not take", "np.where(a > b, x, y)"),
    "eig": (lambda x: np.linalg.eigvals(np.stack([[x, 1.0], [1.0, x]]))[0], "np.linalg.eigvals does not take", "NumPy's functions"),
    "pinv": (lambda x: np.linalg.pinv(np.stack([[x, 1.0]]))[0, 0], "np.linalg.pinv does not take", "A.T @ np.linalg.solve(A @ A.T, x)"),
    "rint": (lambda x: np.rint(x), "np.rint does not take", "write np.floor(x + 0.5)"),
    "array compared": (lambda x: np.where(np.array([x, 1.0]) > 0.0, 1.0, 2.0)[0], "np.array made of traced", "np.stack([...])"),
    "array limited": (lambda x: np.maximum(np.array([x, 1.0]), 0.5)[0], "np.array made of traced", "np.stack([...])"),
    "array of floats": (lambda x: np.array([x], dtype=float)[0], "cannot be made floats", "leave the conversion out"),
    "astype": (lambda x: np.stack([x]).astype(float)[0], "cannot be made floats", "leave .astype(float) out"),
    "item": (lambda x: x.item() + 1.0, "has no .item", "leave .item() out"),
    "random": (lambda x: RNG.normal(x), "random numbers are drawn once", "draw them before"),
    "library": (lambda x: smooth(x), "cannot be made a float", "leave float() out: x"),
    "spline": (lambda x: SPLINE(x), "`SPLINE(x)` computes with floats", "np.interp(x, points, values)"),
}


def line_of(function: Callable[..., Any]) -> int:
    """Return the line of a function, of several lines that of its comment."""
    code = function.__code__
    lines = Path(code.co_filename).read_text(encoding="utf-8").splitlines()
    if code.co_name == "<lambda>":
        return code.co_firstlineno
    return next(i for i in range(code.co_firstlineno, len(lines)) if lines[i].endswith("# here")) + 1


def failing(body: Callable[[Any], Any]) -> tuple[int, str]:
    """Return the line and the function that are told of a body."""
    if body is UNTRACEABLE["library"][0]:
        return smooth.__code__.co_firstlineno + 2, "smooth"
    return line_of(body), "<genexpr>" if body is UNTRACEABLE["filter"][0] else body.__code__.co_name


def joint_pose(x: Any) -> Any:
    return np.eye(3), np.stack([x, 0.0, 0.0])


#: How each door takes a number made of the state by a function, what it calls the function, and whether a mark helps.
DOORS: dict[str, tuple[Callable[[Callable[[Any], Any]], Any], str, bool]] = {
    "force": (lambda f: arm().add_force("wind", lambda t, q, v: [0.0, f(q[0] + 0.3)]), "force 'wind'", True),
    "force on a body": (lambda f: arm().add_force("wind", lambda t, q, v: [0.0, 0.0, f(q[0] + 0.3)], "upper"), "force 'wind'", True),
    "controller": (
        lambda f: ct.simulate(arm(), [0.0, 0.0], until=0.1, controller=lambda t, q, v: [f(v[0] + 0.3), t]), "controller", True),
    "event": (
        lambda f: ct.simulate(arm(), [0.0, 0.0], until=0.1, events=[ct.Event("hit", lambda t, q, v: f(q[1]))]), "event 'hit'", True),
    "rollout": (
        lambda f: ct.rollout(arm(), [0.0, 0.0], controls=lambda t, q, v: [0.0, f(t)], step=0.01, steps=1), "controller", False),
    "cost": (
        lambda f: ct.rollout_gradient(arm(), [0.0, 0.0], step=0.01, steps=1, cost=lambda t, q, v, tau: f(tau[0])), "cost", False),
    "final cost": (
        lambda f: ct.rollout_gradient(arm(), [0.0, 0.0], step=0.01, steps=1, final_cost=lambda t, q, v: f(q[0])), "final_cost", False),
    "linearize": (lambda f: ct.linearize(arm(), [0.0, 0.0], controller=lambda t, q, v: [f(q[0]), 0.0]), "controller", False),
    "driven": (lambda f: ct.Driven(ct.Prismatic("x"), lambda t: f(t + 0.3)), "driven motion", False),
    "custom": (lambda f: ct.Custom(lambda q: joint_pose(f(q[0] + 0.1) + q[0]), coordinates=1), "custom function", False),
}  # fmt: skip

#: What fails with numbers, too, at doors that call the function with numbers first.
FAILING = ("range", "index", "index of an array", "xor", "brackets")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", UNTRACEABLE)
def test_what_cannot_be_traced_is_told_with_its_line_and_what_to_write(name: str, door: str) -> None:
    body, reason, remedy = UNTRACEABLE[name]
    give, who, marked = DOORS[door]
    first_called = door.startswith("force") or door in ("driven", "custom")
    if first_called and (name in FAILING or (door, name) == ("driven", "item")):
        with pytest.raises(ct.ModelError, match=f"{who} raised (Type|Index|Attribute)Error: .*\n.*{Path(__file__).name}"):
            give(body)
        return
    with pytest.raises((ct.TraceError, ct.ModelError)) as caught:
        give(body)
    message, _, place = str(caught.value).partition("\n")
    line, function = failing(body)
    assert message.startswith(f"{who} cannot be traced: "), message
    assert reason in message
    assert remedy in message
    assert message.endswith(", or mark the function ct.python(function)") is marked
    assert place.startswith(f'  File "{__file__}", line {line}, in {function}\n    '), place
    assert caught.value.__cause__ is not None


# --- what is another function when it is called again


def task(**functions: Any) -> ct.environments.Task:
    given: dict[str, Any] = {
        "reset": lambda random: (random.uniform(-0.1, 0.1, 2), np.zeros(2)), "observe": lambda q, v: np.concatenate([q, v]),
        "reward": lambda q: q[0],
    }  # fmt: skip
    return ct.environments.Task(arm(), step=0.01, efforts=1.0, **{**given, **functions})


def driven_arm() -> ct.Model:
    m = arm()
    m.add_actuator("motor", "upper")
    return m


_NOISE, _GOAL = "give random numbers as a table, such as ct.rollout(noise=)", "draw random numbers in reset, as part of the goal"
_GENERATOR = "draw random numbers from the generator that the function is given"

#: More doors that trace functions of users, what they call the function, and the remedy; `f` makes another number of a number.
MORE: dict[str, tuple[Callable[[Callable[[Any], Any]], Any], str, str]] = {
    "wrench": (
        lambda f: ct.simulate(arm(), [0.0, 0.0], until=0.1, wrenches={"upper": lambda t, q, v: [0.0, f(q[0]), 0.0]}),
        "force 'wrenches.upper'", _NOISE),
    "point force": (
        lambda f: arm().add_point_force("wind", "upper", (0, 0, -1), lambda t, p, v: [0.0, f(p[0]), 0.0]), "force 'wind'", _NOISE),
    "line force": (
        lambda f: arm().add_line_force("rope", "ground", "lower", lambda t, length, rate: f(length), (1, 0, 0)), "force 'rope'", _NOISE),
    "controls": (
        lambda f: ct.simulate(driven_arm(), [0.0, 0.0], until=0.1, controls=lambda t, q, v: [f(q[0])]), "controls", _NOISE),
    "stop": (lambda f: ct.rollout(arm(), [0.0, 0.0], step=0.01, steps=1, stop=lambda t, q, v: f(q[0]) > 1.0), "stop", _NOISE),
    "observe": (lambda f: ct.rollout(arm(), [0.0, 0.0], step=0.01, steps=1, observe=lambda t, q, v: f(q[0])), "observe", _NOISE),
    "ensemble": (lambda f: ct.ensemble(arm(), [0.0, 0.0], controls=lambda t, q, v: [f(q[0]), t], step=0.01, steps=1), "controller", _NOISE),
    "cost of ilqr": (
        lambda f: ct.ilqr(arm(), [0.0, 0.0], controls=np.zeros((2, 2)), step=0.01, cost=lambda t, q, v, tau: f(tau[0])), "cost", _NOISE),
    "reset": (lambda f: task(reset=lambda random: (random.uniform(f(1.0), 9.0, 2), np.zeros(2))), "reset", _GENERATOR),
    "goal": (lambda f: task(reset=lambda random: (np.zeros(2), np.zeros(2), np.stack([f(1.0)]))), "reset", _GENERATOR),
    "drawn parameter": (lambda f: task(parameters={"upper.mass": lambda random: random.uniform(f(1.0), 9.0)}), "upper.mass", _GENERATOR),
    "observation": (lambda f: task(observe=lambda q: np.stack([f(q[0]), 1.0])), "observe", _GOAL),
    "reward": (lambda f: task(reward=lambda action: f(action[0])), "reward", _GOAL),
    "terminate": (lambda f: task(terminate=lambda q: (q[0] > 1.0, f(q[1]) < 0.0)), "terminate", _GOAL),
}  # fmt: skip


def changing() -> dict[str, Callable[[Any], Any]]:
    """Return functions of a number that are others at every call: by random numbers, a clock, a counter, and what they remember."""
    state = {"gain": 1.0}

    def remembering(x: Any) -> Any:
        state["gain"] *= 0.5
        return x * state["gain"]

    counter = itertools.count(2)
    return {
        "random": lambda x: x + 0.1 * random.random(), "generator": lambda x: x * RNG.uniform(0.5, 0.9),
        "clock": lambda x: x + 1e-9 * time.perf_counter(), "counter": lambda x: x + 1e-3 * next(counter), "memory": remembering,
    }  # fmt: skip


@pytest.mark.parametrize("door", [*DOORS, *MORE])
@pytest.mark.parametrize("name", changing())
def test_a_function_that_changes_from_call_to_call_is_refused_at_every_door(name: str, door: str) -> None:
    """A trace holds what is random, counted or timed as a number: a run would have the same one at all times."""
    give, who, remedy = MORE[door] if door in MORE else (*DOORS[door][:2], "random numbers")
    with pytest.raises((ct.TraceError, ct.ModelError)) as caught:
        give(changing()[name])
    message, _, place = str(caught.value).partition("\n")
    assert re.match(rf"{who} cannot be traced: it computes (with \S+ in place of \S+|something else) when it is called again; ", message)
    assert remedy in message
    marked = DOORS[door][2] if door in DOORS else door in ("wrench", "controls")
    assert message.endswith(", or mark the function ct.python(function)") is marked
    assert place.startswith(f'  File "{__file__}", line '), place


def test_what_a_function_does_besides_its_result_is_left_to_it() -> None:
    """Lists that grow, generators with a seed, numbers that are not, and kernels are the same function at every call."""
    seen: list[Any] = []
    act = ct.bias_force(arm())

    def f(t: Any, q: Any, v: Any) -> Any:
        seen.append(t)
        gain = np.random.default_rng(0).uniform(0.5, 0.9)
        lost = np.where(q[0] > 9.0, np.float64("nan") * 1.0, 0.0)
        return gain * act(q, v) + lost

    runs = ct.rollout(arm(), [0.1, 0.2], controls=f, step=0.01, steps=3)
    assert np.isfinite(runs.q).all()
    assert seen


# --- results of a wrong kind

#: What functions return where a number is wanted, and what is told of it; {} is what is to be returned.
RESULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "None": (lambda x: None, "returned None; every way through the function needs a `return`: return {}"),
    "truth": (lambda x: True, "returned a condition, which is not a number; {instead}"),
    "truth of NumPy": (lambda x: np.bool_(1), "returned a condition, which is not a number; {instead}"),
    "condition": (lambda x: x > 0.0, "returned a condition, which is not a number; {instead}"),
    "text": (lambda x: "north", "returned 'north'; return {}"),
    "complex number": (lambda x: 1j, "returned 1j; return {}"),
    "mapping": (lambda x: {"a": 1.0}, "returned {'a': 1.0}; return {}"),
    "array": (lambda x: [1.0, 2.0, 3.0, 4.0], "returned an array of shape (4,); return {}"),
    "matrix": (lambda x: np.ones((2, 2)), "returned an array of shape (2, 2); return {}"),
    "uneven list": (lambda x: [1.0, [2.0, 3.0]], "returned [1.0, [2.0, 3.0]]; return {}"),
    "entry": (lambda x: [None, x, x, x], "returned None among its entries; return {}"),
    "conditions": (lambda x: [x > 0.0, x < 0.0], "returned conditions, which are not numbers; {instead}"),
}

_FORCES = "2 joint forces, one for each entry of v"
_CROSSING = "one number that changes its sign where the event happens, such as q[0] - 0.5"

#: How each door takes what a function of a number returns, what it calls the function, and what it wants.
WHOLE: dict[str, tuple[Callable[[Callable[[Any], Any]], Any], str, str]] = {
    "force": (lambda f: arm().add_force("wind", lambda t, q, v: f(q[0])), "force 'wind'", _FORCES),
    "python force": (lambda f: arm().add_force("wind", ct.python(lambda t, q, v: f(q[0]))), "force 'wind'", _FORCES),
    "force on a body": (
        lambda f: arm().add_force("wind", lambda t, q, v: f(q[0]), "upper"), "force 'wind'",
        "a force (3 entries) or a moment and a force (6 entries), in the world's axes"),
    "controller": (lambda f: ct.simulate(arm(), [0.0, 0.0], until=0.1, controller=lambda t, q, v: f(q[0])), "controller", _FORCES),
    "python controller": (
        lambda f: ct.simulate(arm(), [0.0, 0.0], until=0.1, controller=ct.python(lambda t, q, v: f(q[0]))), "controller", _FORCES),
    "rollout": (
        lambda f: ct.rollout(arm(), [0.0, 0.0], controls=lambda t, q, v: f(q[0]), step=0.1, steps=1), "controller", _FORCES),
    "event": (
        lambda f: ct.simulate(arm(), [0.0, 0.0], until=0.1, events=[ct.Event("hit", lambda t, q, v: f(q[0]))]), "event 'hit'", _CROSSING),
    "python event": (
        lambda f: ct.simulate(arm(), [0.0, 0.0], until=0.1, events=[ct.Event("hit", ct.python(lambda t, q, v: f(q[0])))]),
        "event 'hit'", _CROSSING),
    "cost": (
        lambda f: ct.rollout_gradient(arm(), [0.0, 0.0], step=0.1, steps=1, cost=lambda t, q, v, tau: f(q[0])), "cost",
        "one number, the cost"),
    "final cost": (
        lambda f: ct.rollout_gradient(arm(), [0.0, 0.0], step=0.1, steps=1, final_cost=lambda t, q, v: f(q[0])), "final_cost",
        "one number, the cost"),
    "linearize": (lambda f: ct.linearize(arm(), [0.0, 0.0], controller=lambda t, q, v: f(q[0])), "controller", _FORCES),
    "driven": (lambda f: ct.Driven(ct.Planar("z"), lambda t: f(t)), "driven motion", "3 numbers: x, y, angle"),
}  # fmt: skip


@pytest.mark.parametrize("door", WHOLE)
@pytest.mark.parametrize("name", RESULTS)
def test_a_result_of_a_wrong_kind_is_told_at_the_door(name: str, door: str) -> None:
    body, told = RESULTS[name]
    give, who, wanted = WHOLE[door]
    instead = f"return {wanted}" if "event" in door else f"write np.where(condition, a, b), and return {wanted}"
    with pytest.raises((ct.ModelError, ct.ArgumentError)) as caught:
        give(body)
    message, _, place = str(caught.value).partition("\n")
    assert message.startswith(f"{who} {told.replace('{instead}', instead).replace('{}', wanted)}"), message
    assert place.startswith(f'  File "{__file__}", line '), place
    assert "lambda" in place


@pytest.mark.parametrize("door", ["force", "controller", "rollout", "event", "cost", "final cost", "linearize"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_constants_that_are_not_finite_are_refused(door: str, value: float) -> None:
    give, who, wanted = WHOLE[door]
    body = (lambda x: [x, value]) if wanted == _FORCES else lambda x: value
    with pytest.raises((ct.ModelError, ct.ArgumentError), match=f"{who} returned {value}, whatever the state is; return finite numbers"):
        give(body)


def named(t: Any, q: Any, v: Any) -> Any:
    if t > 1.0:
        return [1.0, 0.0]


def test_functions_are_called_by_their_names_and_the_line_that_returns_is_told() -> None:
    first = named.__code__.co_firstlineno
    with pytest.raises(ct.ArgumentError, match=rf"(?s)controller 'named' returned None;.*line {first}, in named"):
        ct.simulate(arm(), [0.0, 0.0], until=0.1, controller=ct.python(named))
    with pytest.raises(ct.TraceError, match=rf"(?s)controller 'named' cannot.*line {first + 1}, in named\n    if t > 1"):
        ct.simulate(arm(), [0.0, 0.0], until=0.1, controller=named)

    class Law:
        def __call__(self, t: Any, q: Any, v: Any) -> Any:
            return q[0]

    with pytest.raises(ct.ArgumentError, match=r"(?s)controller 'Law' returned one number;.*in __call__\n    return q\[0\]"):
        ct.simulate(arm(), [0.0, 0.0], until=0.1, controller=Law())


# --- arguments


@pytest.mark.parametrize(
    ("give", "says"),
    [
        (lambda: arm().add_force("wind", lambda q, v: v), "takes (q, v), but is called with (t, q, v); write lambda t, q, v: ..."),
        (lambda: arm().add_force("wind", ct.python(lambda t: t)), "force 'wind' takes (t), but is called with (t, q, v)"),
        (lambda: ct.simulate(arm(), [0.0, 0.0], until=1.0, controller=smooth), "controller 'smooth' takes (x: 'float') -> 'float', but is"),
        (lambda: ct.simulate(arm(), [0.0, 0.0], until=1.0, controller=ct.python(smooth)), "is called with (t, q, v); write def smooth("),
        (lambda: ct.rollout(arm(), [0.0, 0.0], controls=lambda t, q: q, step=0.1, steps=1), "controller takes (t, q), but is called with"),
        (lambda: ct.Event("hit", lambda q: q[0]), "event 'hit' takes (q), but is called with (t, q, v)"),
        (lambda: ct.Event("hit", lambda t, q, v: t, lambda q, v: (q, v)), "the action of event 'hit' takes (q, v), but is called with (t,"),
        (
            lambda: ct.rollout_gradient(arm(), [0.0, 0.0], step=0.1, steps=1, cost=lambda t, q, v: t),
            "cost takes (t, q, v), but is called with (t, q, v, tau)",
        ),
        (lambda: ct.Driven(ct.Revolute("z"), lambda: 1.0), "driven motion takes (), but is called with (t)"),
        (lambda: ct.Custom(lambda x, y: np.eye(4), coordinates=2), "custom function takes (x, y), but is called with (q)"),
    ],
)
def test_a_wrong_number_of_arguments_is_told_with_what_is_wanted(give: Callable[[], Any], says: str) -> None:
    with pytest.raises((ct.ModelError, ct.ArgumentError)) as caught:
        give()
    assert says in str(caught.value)
    assert f'\n  File "{__file__}", line ' in str(caught.value)


# --- errors of the function's own


def raising(x: Any) -> Any:
    raise ValueError("no way")  # here


@pytest.mark.parametrize("door", WHOLE)
def test_errors_of_the_function_keep_their_cause_and_tell_the_line(door: str) -> None:
    give, who, _ = WHOLE[door]
    kind = ValueError if door in ("python controller", "python event") else (ct.ModelError, ct.ArgumentError)
    with pytest.raises(kind) as caught:
        give(raising)
    if kind is ValueError:  # as it was raised, for those who catch it
        assert type(caught.value) is ValueError
        told = "".join(getattr(caught.value, "__notes__", [""]))
        assert told.startswith(f"{who} raised this.") or not hasattr(caught.value, "add_note")
    else:
        told = str(caught.value)
        assert told.startswith(f"{who} raised ValueError: no way; ")
        assert isinstance(caught.value.__cause__, ValueError)
    assert f'File "{__file__}", line {line_of(raising)}, in raising' in told or not told


@pytest.mark.parametrize("door", ["force", "controller", "rollout", "event", "final cost", "linearize"])
def test_an_index_out_of_range_is_told_with_the_sizes(door: str) -> None:
    m = ct.Model("ball")
    m.add("ball", ct.Body(1.0, inertia=np.eye(3)), ct.Spherical())
    law: Callable[[Any, Any, Any], Any] = lambda t, q, v: [q[7], 0.0, 0.0]  # noqa: E731
    give = {
        "force": lambda: m.add_force("wind", law),
        "controller": lambda: ct.simulate(m, m.neutral(), until=1.0, controller=law),
        "rollout": lambda: ct.rollout(m, m.neutral(), controls=law, step=0.1, steps=1),
        "event": lambda: ct.simulate(m, m.neutral(), until=1.0, events=[ct.Event("hit", law)]),
        "final cost": lambda: ct.rollout_gradient(m, m.neutral(), step=0.1, steps=1, final_cost=law),
        "linearize": lambda: ct.linearize(m, m.neutral(), controller=law),
    }[door]
    says = r"raised IndexError: index 7 is out of bounds .* size 4; q has 4 entries and v has 3 entries\n.*line \d+, in <lambda>"
    with pytest.raises((ct.ModelError, ct.ArgumentError), match=says):
        give()


# --- places


def test_code_without_a_file_is_told_as_far_as_it_is_known() -> None:
    space: dict[str, Any] = {"np": np}
    exec("def law(t, q, v):\n    return [float(q[0]), 0.0]", space)
    says = r"controller 'law' cannot be traced: a traced value has no float while .*catena\.where.*\n  File \"<string>\", line 2, in law$"
    with pytest.raises(ct.TraceError, match=says):
        ct.simulate(arm(), [0.0, 0.0], until=0.1, controller=space["law"])


def test_files_of_users_are_read_for_the_line_and_the_construct(tmp_path: Path) -> None:
    file = tmp_path / "laws.py"
    file.write_text("def law(t, q, v):\n    assert q[0] < 1.0\n    return q\n", encoding="utf-8")
    space: dict[str, Any] = {}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), space)
    with pytest.raises(ct.TraceError) as caught:
        ct.simulate(arm(), [0.0, 0.0], until=0.1, controller=space["law"])
    assert str(caught.value) == (
        "controller 'law' cannot be traced: `assert` decides on a traced value; leave the assertion out, or mark the function "
        f'ct.python(function)\n  File "{file}", line 2, in law\n    assert q[0] < 1.0'
    )


@pytest.mark.parametrize("name", ["if", "while", "item of floats", "conditional", "and", "float", "math", "imported", "min", "round"])
def test_constructs_are_found_by_the_line_where_columns_are_not_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untraceable, "_positions", lambda spot: None)
    body, reason, remedy = UNTRACEABLE[name]
    with pytest.raises(ct.TraceError) as caught:
        DOORS["controller"][0](body)
    assert reason in str(caught.value)
    assert remedy in str(caught.value)
