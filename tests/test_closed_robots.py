"""Robots with closed loops: right at random states without compiling on the way, and runs that begin soon and do not pause."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.referee import Referee, relative

import catena as ct
from catena.examples import EXAMPLES, delta
from catena.graph import Trace
from catena.mobility import scaled_blocks
from catena.native import compile_graph, machine
from catena.simulation.closing import Hold, Loops
from catena.simulation.system import INCLUDED

simulate_module: Any = importlib.import_module("catena.simulation.simulate")

LIGHT = "delta, light rods"


@cache
def model(name: str) -> ct.Model:
    return delta(rods=0.0005) if name == LIGHT else EXAMPLES[name]()


@cache
def forward_dynamics(name: str) -> Any:
    return ct.forward_dynamics(model(name))


@cache
def random_states(name: str, count: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random states that close the loops, and the smallest singular value of their constraint Jacobian, without units."""
    m, rng = model(name), np.random.default_rng(5)
    q = np.array([m.assemble(m.random(rng)) for _ in range(count)])
    v = np.array([m.project_velocity(x, rng.normal(size=m.nv)) for x in q])
    return q, v, np.array([min(np.linalg.svd(J, compute_uv=False).min() for J in scaled_blocks(m, x)) for x in q])


@pytest.fixture
def compiled(monkeypatch) -> list[str]:
    """What is compiled from here on."""
    found: list[str] = []
    compile_ = machine.compiled

    def noted(text: str, *arguments: Any) -> Any:
        found.append(text.partition("\n")[0])
        return compile_(text, *arguments)

    monkeypatch.setattr(machine, "compiled", noted)
    return found


@pytest.mark.parametrize("name", ["biped", "stewart-floating", LIGHT])
def test_accelerations_equal_those_of_the_referee_at_random_states_off_the_plan_too(name: str) -> None:
    q, v, least = random_states(name)
    good = np.flatnonzero(least > 1e-4)
    q, v = q[good], v[good]
    tau = np.random.default_rng(6).normal(size=v.shape)
    vdot, fits = forward_dynamics(name)(q, v, tau), forward_dynamics(name).fits(q, v, tau)
    for i in {*range(3), *np.flatnonzero(~fits)[:3].tolist()}:
        assert relative(vdot[i], Referee(model(name)).forward_with_loops(q[i], v[i], tau[i])) < 1e-8


@pytest.mark.parametrize(("name", "conditioned"), [("biped", 0.01), ("stewart-floating", 0.1)])
def test_the_plan_fits_states_whose_constraints_are_well_conditioned(name: str, conditioned: float) -> None:
    q, v, least = random_states(name)
    assert np.mean(least > conditioned) > 0.9
    assert np.mean(forward_dynamics(name).fits(q, v, np.zeros_like(v))[least > conditioned]) >= 0.9


@pytest.mark.parametrize("name", ["stewart-floating", LIGHT])
def test_states_off_the_plan_are_solved_without_compiling(name: str, compiled: list[str]) -> None:
    q, v, least = random_states(name)
    good = least > 1e-4
    fd, tau = forward_dynamics(name), np.zeros_like(v[good])
    compiled.clear()
    assert not fd.fits(q[good], v[good], tau).all()
    fd(q[good], v[good], tau)
    assert not compiled


@pytest.mark.parametrize("name", ["stewart-ups", "stewart-floating"])
@pytest.mark.parametrize("pivoted", [False, True])
@pytest.mark.parametrize("method", ["coordinate-reduction", "fully-recursive/centroid"])
def test_projections_converge_quadratically_where_a_free_platform_is_turned(name: str, pivoted: bool, method: str) -> None:
    m, rng = model(name), np.random.default_rng(0)
    turn = 0.4
    guess = m.neutral()
    at = m.q_names.index("platform.w") if "platform.w" in m.q_names else [i for i, x in enumerate(m.q_names) if "platform" in x][3]
    guess[at : at + 4] = np.cos(0.5 * turn), 0.0, np.sin(0.5 * turn), 0.0
    q = m.assemble(guess)
    assert abs(q[at + 2]) > 0.1
    loops = Loops(m, method)
    hold = loops.usual.hold
    assert hold.plan is not None
    project = loops.projection(Hold(None, hold.rank) if pivoted else hold)
    nearby = m.integrate(q, 1e-5 * rng.normal(size=m.nv))
    q_closed, _, strength, apart = project(0.0, nearby, np.zeros(m.nv))
    assert strength > 1e-3
    assert ct.loop_error(m)(nearby).max() > 1e-6
    assert apart < 1e-13  # from about 1e-5, in two steps
    assert ct.loop_error(m)(q_closed).max() < 1e-13
