"""Robots with closed loops: right at random states without compiling on the way, and runs that begin soon and do not pause."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.referee import Referee, relative

import catena as ct
from catena.examples import EXAMPLES, delta
from catena.graph import Trace
from catena.graph.division import LARGEST
from catena.loops.mobility import scaled_blocks
from catena.loops.plan_library import PlanLibrary
from catena.loops.projection import LoopPlan, projection_kernel
from catena.native import compile_graph
from catena.native.llvm import machine
from catena.simulation.run import Run, RunSettings

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

    def noted(text: str, *arguments: Any, **named: Any) -> Any:
        found.append(text.partition("\n")[0])
        return compile_(text, *arguments, **named)

    monkeypatch.setattr(machine, "compiled", noted)
    return found


@pytest.mark.parametrize("name", ["biped", "stewart-floating", LIGHT])
def test_accelerations_equal_those_of_the_referee_at_random_states_off_the_plan_too(name: str) -> None:
    q, v, least = random_states(name)
    good = np.flatnonzero(least > 1e-4)
    q, v = q[good], v[good]
    tau = np.random.default_rng(6).normal(size=v.shape)
    vdot, fits = forward_dynamics(name)(q, v, tau), forward_dynamics(name).fits(q, v, tau)
    assert not fits.all()
    if name == LIGHT:  # light rods do not move the robot off its plan
        np.testing.assert_array_equal(fits, forward_dynamics("delta").fits(q, v, tau))
    for i in {*range(3), *np.flatnonzero(~fits)[:3].tolist()}:
        assert relative(vdot[i], Referee(model(name)).forward_with_loops(q[i], v[i], tau[i])) < 1e-8


@pytest.mark.parametrize(("name", "conditioned"), [("biped", 0.01), ("stewart-floating", 0.1), (LIGHT, 0.002)])
def test_the_plan_fits_states_whose_constraints_are_well_conditioned(name: str, conditioned: float) -> None:
    q, v, least = random_states(name)
    assert np.mean(least > conditioned) > 0.5
    assert np.mean(forward_dynamics(name).fits(q, v, np.zeros_like(v))[least > conditioned]) >= 0.9


def test_states_off_the_plan_are_solved_without_compiling(compiled: list[str]) -> None:
    q, v, least = random_states("stewart-floating")
    good = least > 1e-4
    fd, tau = forward_dynamics("stewart-floating"), np.zeros_like(v[good])
    compiled.clear()
    assert not fd.fits(q[good], v[good], tau).all()
    fd(q[good], v[good], tau)
    assert not compiled


@pytest.mark.evaluated
@pytest.mark.parametrize("name", ["stewart-ups", "stewart-floating"])
@pytest.mark.parametrize("pivoted", [False, True])
@pytest.mark.parametrize("method", ["coordinate-reduction", "fully-recursive/centroid"])
def test_projections_converge_quadratically_where_a_free_platform_is_turned(name: str, pivoted: bool, method: str) -> None:
    m, rng = EXAMPLES[name](), np.random.default_rng(0)
    turn = 0.4
    guess = m.neutral()
    at = m.q_names.index("platform.w") if "platform.w" in m.q_names else [i for i, x in enumerate(m.q_names) if "platform" in x][3]
    guess[at : at + 4] = np.cos(0.5 * turn), 0.0, np.sin(0.5 * turn), 0.0
    q = m.assemble(guess)
    assert abs(q[at + 2]) > 0.1
    plan = PlanLibrary(m, method).generic.loop_plan
    assert plan.plan is not None
    project = projection_kernel(m, method, LoopPlan(None, plan.rank) if pivoted else plan)
    nearby = m.integrate(q, 1e-5 * rng.normal(size=m.nv))
    q_closed, _, conditioning, residual = project(0.0, nearby, np.zeros(m.nv))
    assert conditioning > 1e-3
    assert ct.loop_error(m)(nearby).max() > 1e-6
    assert residual < 1e-13  # from about 1e-5, in two steps
    assert ct.loop_error(m)(q_closed).max() < 1e-13


def started(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A state to begin a run at."""
    m = model(name)
    q = m.assemble()
    return q, m.project_velocity(q, 0.3 * np.random.default_rng(seed).normal(size=m.nv))


@pytest.mark.parametrize("options", [{}, {"step": 2e-3}, {"record": np.linspace(0.0, 2.0, 7)}, {"events": True}])
def test_runs_compile_nothing_after_their_first_step_where_they_change_plans_too(options: dict, compiled: list[str], monkeypatch) -> None:
    m, (q, v) = model("stewart-floating"), started("stewart-floating", 3)
    if "events" in options:
        halt = ct.Event("halved", lambda t, q, v: t - 0.5, lambda t, q, v: (q, 0.5 * v))
        options = {"events": [halt, ct.Event("later", lambda t, q, v: t - 1.9)]}
    advanced = simulate_module._run_to_end

    def noted(*arguments: Any) -> Any:
        compiled.clear()
        return advanced(*arguments)

    monkeypatch.setattr(simulate_module, "_run_to_end", noted)
    run = ct.simulate(m, q, v, until=2.0, **options)
    assert not compiled
    assert run.info["switches"] >= 1
    assert ct.loop_error(m)(run.q).max() < 1e-10
    if "events" not in options:
        assert np.abs(run.energy_change).max() < 1e-6


def test_stages_of_a_step_share_the_code_of_large_mechanisms() -> None:
    q, v = started("stewart-floating", 3)
    m = model("stewart-floating")
    run = Run(RunSettings.of(m, q, v, 0.0, 1.0, None, "auto", "dormand-prince", None, None, (), None, 1e-8, None, None))
    run.begin()
    iteration, one = run.system.iteration(), compile_graph(run.system.subgraph("accelerations").graph, quick=True)
    assert len(run.system.subgraph("accelerations").graph.nodes) > LARGEST
    assert iteration.calls > 7 * one.calls
    assert len(iteration.llvm) < 4 * len(one.llvm)  # of 7 evaluations and a projection


def test_code_that_is_compiled_quickly_gives_the_same_results() -> None:
    kernel = forward_dynamics("stewart-floating").planned
    quick = compile_graph(kernel.graph, quick=True)
    q, v, _ = random_states("stewart-floating")
    assert "optnone" in quick.llvm
    assert "optnone" not in kernel.llvm
    np.testing.assert_allclose(quick(q, v, 0.0 * v)[0], kernel(q, v, 0.0 * v)[0], rtol=1e-9, atol=1e-9)
    trace = Trace("small")  # is one block, and compiled as ever
    x = trace.input("x", (2,))
    assert "optnone" not in compile_graph(trace.graph(y=x * x), quick=True).llvm


def test_a_run_by_pivots_prepares_the_generic_plan_too() -> None:
    plans = PlanLibrary(model("stewart-floating"), "coordinate-reduction")
    generic = plans.generic.loop_plan
    assert plans.alternatives(generic) == [LoopPlan(None, generic.rank)]
    assert plans.alternatives(LoopPlan(None, generic.rank)) == [generic]
    assert plans.alternatives(LoopPlan(None, generic.rank - 1)) == []


LEAVES = """
import threading, time
import catena as ct
from catena.examples import four_bar
from catena.native.llvm import machine

begun, optimised = threading.Event(), machine._optimised

def slow(*arguments):
    begun.set()
    time.sleep(0.5)
    module = optimised(*arguments)
    print("compiled", flush=True)
    return module

machine._optimised = slow
threading.Thread(target=lambda: ct.forward_dynamics(four_bar()), daemon=True).start()
begun.wait()
"""


def test_the_interpreter_lets_another_thread_end_what_it_compiles(tmp_path) -> None:
    environment = {**os.environ, "CATENA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", LEAVES], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, {*done.stdout.split()}, done.stderr) == (0, {"compiled"}, "")  # LLVM may crash if it is left at it
