"""The built-in mechanisms with loops: they close, move as an independent solution says, and keep loops and energy in a run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.mechanisms import closing_methods
from tests.referee import Referee, relative

import catena as ct
from catena.examples import EXAMPLES
from catena.loops.assembly import loop_residuals
from catena.loops.mobility import rank

pytestmark = pytest.mark.evaluated

#: Degrees of freedom, coordinates, constraints and redundant constraints.
MOBILITY = {
    "slider-crank": (1, 3, 5, 3),
    "four-bar": (1, 3, 5, 3),
    "quarter-car": (1, 10, 9, 0),
    "double-wishbone": (8, 20, 12, 0),
    "jansen-leg": (1, 7, 15, 9),
    "watt": (1, 5, 10, 6),
    "stephenson": (1, 5, 10, 6),
    "peaucellier": (1, 7, 15, 9),
    "bennett": (1, 3, 5, 3),
    "bricard": (1, 5, 5, 1),
    "five-bar-robot": (2, 4, 5, 3),
    "planar-3rrr": (3, 7, 10, 6),
    "spherical-3rrr": (3, 7, 10, 6),
    "delta": (3, 21, 18, 0),
    "delta-ruu": (3, 11, 8, 0),
    "stewart-ups": (6, 24, 18, 0),
    "stewart-ucu": (6, 30, 24, 0),
    "stewart-floating": (12, 30, 18, 0),
    "biped": (18, 48, 30, 0),
}

#: Starts of the runs that lose no energy: positions and rates of a coordinate. Bricard's ring swings near its lowest place.
STARTS: dict[str, tuple[dict[str, float], dict[str, float]]] = {
    "slider-crank": ({}, {"crank": 20.0}),
    "four-bar": ({"crank": 1.0}, {}),
    "jansen-leg": ({}, {}),
    "watt": ({}, {}),
    "stephenson": ({}, {}),
    "peaucellier": ({"crank": 0.6}, {}),
    "bennett": ({"link1": 2.6}, {}),
    "bricard": ({"link2": -3.5}, {}),
}


@cache
def model(name: str) -> ct.Model:
    return EXAMPLES[name]()


@cache
def kernel(name: str, method: str) -> Any:
    return ct.forward_dynamics(model(name), method)


def gap_of(m: ct.Model, q: np.ndarray) -> float:
    return float(loop_residuals(m, q).sizes.max())


def walk(m: ct.Model, q: np.ndarray, steps: int, seed: int = 0, size: float = 0.05) -> list[np.ndarray]:
    """Configurations along a motion of the mechanism, which goes on in the direction in which it began."""
    rng = np.random.default_rng(seed)
    v, reached = m.project_velocity(q, rng.normal(size=m.nv)), []
    for _ in range(steps):
        v = m.project_velocity(q, v)
        v = v / np.abs(v).max()
        q = m.assemble(m.integrate(q, size * v))
        reached.append(q)
    return reached


def states(m: ct.Model, count: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """States that close the loops, along a motion, and joint forces."""
    rng = np.random.default_rng(1)
    return [(q, m.project_velocity(q, rng.normal(size=m.nv)), rng.normal(size=m.nv)) for q in walk(m, m.assemble(), count)]


def test_every_example_with_loops_is_in_the_table() -> None:
    assert [name for name in EXAMPLES if model(name).has_loops] == list(MOBILITY)


@pytest.mark.parametrize("name", MOBILITY)
def test_mobility_is_as_described(name: str) -> None:
    found = model(name).mobility()
    assert (found.freedom, found.coordinates, found.constraints, found.redundant) == MOBILITY[name]
    text = " ".join((EXAMPLES[name].__doc__ or "").split())
    assert (f"{found.freedom} degree" in text) or f"it has {found.freedom}, and" in text


@pytest.mark.parametrize("name", MOBILITY)
def test_assembly_closes_near_the_neutral_position(name: str) -> None:
    m = model(name)
    q = m.assemble()
    assert gap_of(m, q) < 1e-12
    if name not in ("four-bar", "five-bar-robot"):
        assert np.abs(m.difference(m.neutral(), q)).max() < 1e-12


@pytest.mark.parametrize("name", MOBILITY)
def test_methods_equal_the_referee(name: str) -> None:
    m = model(name)
    for q, v, tau in states(m, 5):
        assert gap_of(m, q) < 1e-12
        expected = Referee(m).forward_with_loops(q, v, tau)
        for method in closing_methods(m):
            assert relative(kernel(name, method)(q, v, tau), expected) < 1e-9


def compiled_cases() -> Iterator[Any]:
    """Every example by every method; multipliers of large ones, which take seconds to compile, are in a tier of their own."""
    for name in MOBILITY:
        for method in closing_methods(m := model(name)):
            large = m.nv > 12 and method.startswith("fully-recursive")
            yield pytest.param(name, method, marks=pytest.mark.fuzz) if large else (name, method)


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "method"), [*compiled_cases()])
def test_machine_code_equals_the_methods(name: str, method: str) -> None:
    run = ct.forward_dynamics(model(name), method)
    for q, v, tau in states(model(name), 5):
        assert relative(run(q, v, tau), np.asarray(run.function(q, v, tau)[0], dtype=float)) < 1e-11


@pytest.mark.parametrize("name", [name for name in MOBILITY if MOBILITY[name][0] == 1])
def test_linkages_move_as_far_as_one_likes(name: str) -> None:
    """The freedom is not one of first order alone: 50 steps away, rank and closure are what they were."""
    m = model(name)
    start = m.assemble()
    size = 0.02 if name in ("quarter-car", "peaucellier") else 0.05
    path = walk(m, start, 50, size=size)
    ranks = {rank(m, q) for q in path}
    assert ranks == {m.nv - 1}
    assert max(gap_of(m, q) for q in path) < 1e-12
    assert np.abs(m.difference(start, path[-1])).max() > 25 * size


@pytest.mark.parametrize("name", ["four-bar", "watt", "stephenson", "jansen-leg", "slider-crank", "bennett"])
def test_cranks_go_all_the_way_round(name: str) -> None:
    m = model(name)
    crank = m.q_names[0]
    first = q = m.assemble()
    for angle in np.linspace(0.0, 2.0 * np.pi, 73)[1:]:
        before, q = q, m.assemble(q, fixed={crank: first[0] + angle})
        assert np.abs(q - before).max() < 0.5  # no jump to another branch
    turns = (q - first) / (2.0 * np.pi)
    np.testing.assert_allclose(turns, turns.round(), atol=1e-9)


def test_bennett_keeps_the_relation_of_its_angles() -> None:
    """tan(theta1 / 2) tan(theta2 / 2) is constant, and opposite angles are equal."""
    m = model("bennett")
    first = 0.5 * np.pi
    alpha, beta = np.arcsin(0.5), np.arcsin(0.8)
    constant = np.sin(0.5 * (alpha + beta)) / np.sin(0.5 * (beta - alpha))
    second = 2.0 * np.arctan(constant)
    for q in walk(m, m.assemble(), 30):
        assert np.tan(0.5 * (first + q[0])) * np.tan(0.5 * (second + q[1])) == pytest.approx(constant, rel=1e-10)
        assert q[2] == pytest.approx(-q[0], abs=1e-10)


def test_bricard_stays_threefold_symmetric() -> None:
    """cos(theta) + cos(phi) + cos(theta) cos(phi) = 0, with theta and phi in turn."""
    m = model("bricard")
    for q in walk(m, m.assemble(), 50):
        theta, phi = np.cos(0.5 * np.pi + q[:2])
        assert theta + phi + theta * phi == pytest.approx(0.0, abs=1e-11)
        assert q[[2, 3, 4]] == pytest.approx(q[[0, 1, 0]], abs=1e-11)


def test_pen_of_peaucellier_draws_a_straight_line() -> None:
    m = model("peaucellier")
    ends = [(m.body_names.index(loop), at) for loop, at in (("left lower", m.loops[2].at_a.p), ("right lower", m.loops[2].at_b.p))]
    q, drawn = m.assemble(crank=-1.2), []
    for angle in np.linspace(-1.2, 1.2, 41):
        q = m.assemble(q, crank=angle)
        frames = ct.poses(m)(q)
        drawn.append([frames[k, :3, :3] @ at + frames[k, :3, 3] for k, at in ends])
    points = np.array(drawn)
    assert np.abs(points[:, 0] - points[:, 1]).max() < 1e-12
    assert np.abs(points[:, 0, 2] + 0.525).max() < 1e-10
    assert np.abs(points[:, 0, 1]).max() < 1e-12
    assert np.ptp(points[:, 0, 0]) > 0.5


def test_foot_of_jansen_goes_straight_on_the_ground() -> None:
    """Over a third of a turn the foot stays within half a unit of its lowest place, in strides of 68 units."""
    m = model("jansen-leg")
    bar = m.links[-1].body.geometry[2]
    foot = np.array(bar.center) * 2.0  # the last bar leads from the foot back to the knee, which is the origin
    q, drawn = m.assemble(), []
    for angle in np.linspace(0.0, 2.0 * np.pi, 73)[:-1]:
        q = m.assemble(q, crank=angle)
        frame = ct.poses(m)(q)[-1]
        drawn.append(frame[:3, :3] @ foot + frame[:3, 3])
    x, _, z = np.array(drawn).T
    assert np.ptp(x) == pytest.approx(0.68, abs=0.02)
    assert np.mean(z < z.min() + 0.005) > 1 / 3
    assert np.ptp(z) > 0.15


@pytest.mark.parametrize("name", STARTS)
def test_runs_of_100_s_keep_loops_and_energy(name: str) -> None:
    m = model(name)
    fixed, rates = STARTS[name]
    q = m.assemble(fixed=fixed)
    v = m.project_velocity(q, fixed=rates)
    run = ct.simulate(m, q, v, until=100.0)
    assert ct.loop_error(m)(run.q).max() < 1e-10
    assert np.abs(run.energy_change).max() < 1e-6
    assert np.ptp(run.q[:, 0]) > 0.1  # it moves


def test_bricard_turns_inside_out_with_other_constraints_in_turn() -> None:
    m = model("bricard")
    run = ct.simulate(m, m.assemble(), until=2.0)
    assert run.info["switches"] > 0
    assert ct.loop_error(m)(run.q).max() < 1e-10
    assert np.abs(run.energy_change).max() < 1e-6
    assert np.ptp(run.q[:, 0]) > 4.0


@pytest.mark.parametrize("name", ["quarter-car", "double-wishbone"])
def test_suspensions_come_to_rest_near_the_neutral_position(name: str) -> None:
    m = model(name)
    q = m.assemble()
    run = ct.simulate(m, q, until=2.0)
    assert ct.loop_error(m)(run.q).max() < 1e-10
    assert np.abs(m.difference(q, run.q[-1])).max() < 0.05
    kinetic = ct.energy(m)(run.q, run.v)[0]
    assert kinetic[-1] < 0.05 * kinetic.max()
    assert np.all(np.diff(run.total_energy) < 1e-6 * np.abs(run.total_energy[0]))  # dampers take, never give
