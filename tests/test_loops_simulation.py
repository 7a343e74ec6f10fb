"""Runs, rollouts, events and checkpoints of mechanisms with loops: loops stay closed, and all is as for trees."""

from __future__ import annotations

import gc
import shutil
import sys
import weakref
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.mechanisms import closing_methods
from tests.referee import relative
from tests.test_closed_loops import parallelogram
from tests.test_rollout import same

import catena as ct
from catena.examples import EXAMPLES
from catena.formulations.loops.constraints import constraint_jacobian
from catena.loops.plan_library import PlanLibrary
from catena.simulation import Trajectory
from catena.simulation.checkpoint import Checkpoint
from catena.simulation.integrators.steps import INTEGRATORS as ALL
from catena.simulation.loop_states import settled as settled_states
from catena.simulation.system import System

pytestmark = pytest.mark.evaluated

#: The integrators that take loops.
INTEGRATORS = {name: integrator for name, integrator in ALL.items() if not integrator.canonical}

METHOD = "fully-recursive/joint"


@cache
def model(name: str) -> ct.Model:
    return EXAMPLES[name]()


@cache
def turn(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Configurations of a linkage along a turn of its first joint, and velocities at which it goes on, of 8 rad/s at most."""
    m = model(name)
    q, v = m.assemble(crank=1.0) if name == "four-bar" else m.assemble(), np.eye(m.nv)[0]
    found = []
    for _ in range(120):
        v = m.project_velocity(q, v)
        v = 8.0 * v / np.abs(v).max()
        found.append((q, v))
        q = m.assemble(guess=m.integrate(q, 0.01 * v))
    return tuple(np.array(x) for x in zip(*found, strict=True))  # type: ignore[return-value]


def opening(m: ct.Model, q: Any) -> float:
    """How far the loops are open, at the worst."""
    return float(np.nanmax(ct.loop_error(m)(q)))


def rates(m: ct.Model, q: Any, v: Any) -> float:
    """How fast the loops open, relative to the speed of the joints."""
    found = []
    for position, velocity in zip(np.reshape(q, (-1, m.nq)), np.reshape(v, (-1, m.nv)), strict=True):
        J = np.asarray(constraint_jacobian(m.tree(), position)[1], dtype=float)
        found.append(np.abs(J @ velocity).max() / max(1.0, np.abs(velocity).max()))
    return max(found)


# --- integrators


@pytest.mark.parametrize("name", INTEGRATORS)
def test_every_integrator_keeps_loops_closed_and_energy_to_its_order(name: str) -> None:
    m = model("four-bar")
    q = m.assemble(crank=1.0)
    coarse, fine = (ct.simulate(m, q, step=step, until=4.0, integrator=name) for step in (0.01, 0.005))
    for run in (coarse, fine):
        assert opening(m, run.q) < 1e-10
        assert rates(m, run.q[::40], run.v[::40]) < 1e-10
    errors = [np.abs(run.energy_change).max() for run in (coarse, fine)]
    assert errors[1] < max(1.3 * errors[0] / 2 ** INTEGRATORS[name].order, 1e-13)
    assert np.ptp(coarse.q[:, 0]) > 1.0


@pytest.mark.parametrize("name", [name for name in INTEGRATORS if INTEGRATORS[name].adaptive])
def test_every_adaptive_integrator_keeps_loops_closed_and_energy_to_its_tolerance(name: str) -> None:
    m = model("four-bar")
    run = ct.simulate(m, m.assemble(crank=1.0), until=4.0, integrator=name)
    assert opening(m, run.q) < 1e-10
    assert np.abs(run.energy_change).max() < 1e-6


# --- rollouts


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_rollout_equals_simulate_with_the_same_steps(integrator: str) -> None:
    m = model("four-bar")
    q, v = (x[::50] for x in turn("four-bar"))
    runs = ct.rollout(m, q, v, step=0.005, steps=60, integrator=integrator)
    assert opening(m, runs.q) < 1e-10
    for i in range(len(q)):
        run = ct.simulate(m, q[i], v[i], step=0.005, until=60 * 0.005, integrator=integrator)
        assert relative(runs.q[i], run.q) < 1e-12
        assert relative(runs.v[i], run.v) < 1e-11


@pytest.mark.parametrize("name", ["bennett", "bricard"])
def test_trajectories_that_change_their_constraints_equal_simulate_and_themselves_alone(name: str) -> None:
    """The linkages turn through configurations at which any set of constraints fails, and begin at some of them."""
    m = model(name)
    q, v = (x[::7] for x in turn(name))
    settings: dict[str, Any] = {"step": 1e-3, "steps": 600, "every": 20}
    runs = ct.rollout(m, q, v, **settings)
    assert not runs.failed.any()
    assert opening(m, runs.q) < 1e-10
    assert rates(m, runs.q[:, ::10], runs.v[:, ::10]) < 1e-9
    energy: Any = sum(ct.energy(m)(runs.q, runs.v))
    assert np.abs(energy - energy[:, :1]).max() < 1e-5 * np.ptp(energy)
    assert same(runs, ct.rollout(m, q, v, threads=1, **settings))
    assert same(runs, ct.ensemble(m, q, v, chunk=5, **settings))
    for i in range(0, len(q), 3):
        alone = ct.rollout(m, q[i], v[i], **settings)
        assert alone.q.tobytes() == runs.q[i].tobytes()
        assert alone.v.tobytes() == runs.v[i].tobytes()
    switches = 0
    for i in range(0, len(q), 4):
        run = ct.simulate(m, q[i], v[i], step=1e-3, until=0.6, record=20)
        switches += run.info["switches"]
        assert relative(runs.q[i], run.q) < 1e-6
    assert switches > 0


def test_runs_begin_with_the_generic_plan_unless_it_is_ill_conditioned_there() -> None:
    angles = np.linspace(1.0, 0.02, 31)[:, None]  # of the parallelogram, the last ones near its change point
    folding = angles * np.array([1.0, -1.0, 1.0]), np.tile([-1.0, 1.0, -1.0], (len(angles), 1))
    for name in ("bennett", "bricard", "parallelogram"):
        m, (q, v) = (parallelogram(), folding) if name == "parallelogram" else (model(name), turn(name))
        plans = PlanLibrary(m, METHOD if name == "bennett" else "coordinate-reduction")
        generic, rank = plans.generic, m.nv - m.mobility().freedom
        by_generic = 0
        for one in q[::5]:
            selected = plans.start(0.0, one)
            assert selected is not None
            assert selected.loop_plan.rank == rank
            assert selected.loop_plan == generic.loop_plan or plans.conditioning(generic.loop_plan, 0.0, one) < generic.limit
            assert plans.conditioning(selected.loop_plan, 0.0, one) >= selected.limit
            by_generic += selected.limit == generic.limit and selected.loop_plan == generic.loop_plan
        assert 0 < by_generic <= len(q[::5])
        if name != "bennett":  # others are ill-conditioned somewhere
            assert by_generic < len(q[::5])
        settled = settled_states(m, np.zeros(len(q)), q, v)
        assert settled[3].all()
        assert set(settled[2].tolist()) == {rank}
        for i in range(0, len(q), 7):
            alone = settled_states(m, np.zeros(1), q[i : i + 1], v[i : i + 1])
            assert alone[0].tobytes() == settled[0][i].tobytes()


@pytest.mark.parametrize("method", ["fully-recursive/joint", "coordinate-reduction"])
def test_runs_by_pivots_alone_move_as_those_by_plans(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    m, (q, v) = EXAMPLES["bennett"](), (x[::11] for x in turn("bennett"))
    expected = ct.rollout(model("bennett"), q, v, step=1e-3, steps=600, every=60, method=method)
    monkeypatch.setattr(PlanLibrary, "generic", property(lambda plans: plans.pivoted(0.0, q[0], 0)))
    runs = ct.rollout(m, q, v, step=1e-3, steps=600, every=60, method=method)
    assert not runs.failed.any()
    assert opening(m, runs.q) < 1e-10
    assert relative(runs.q, expected.q) < 1e-6
    alone = ct.rollout(m, q[4], v[4], step=1e-3, steps=600, every=60, method=method)
    assert alone.q.tobytes() == runs.q[4].tobytes()


@pytest.mark.parametrize("kind", ["table", "controller"])
def test_forces_over_time_go_on_where_constraints_change(kind: str) -> None:
    """As a whole, and piece by piece from where the piece before ended."""
    m = model("bennett")
    q, v = (x[::17] for x in turn("bennett"))
    table = 0.05 * np.random.default_rng(0).normal(size=(len(q), 6, m.nv))
    whole = ct.rollout(m, q, v, table, 1e-3, 600)
    if kind == "controller":
        table = np.broadcast_to(table[:1], table.shape)

        def held(t: Any, q: Any, v: Any) -> Any:
            force = table[0, 0]
            for k in range(1, 6):
                force = [ct.where(t > 0.1 * k - 1e-9, a, b) for a, b in zip(table[0, k], force, strict=True)]
            return force

        whole = ct.rollout(m, q, v, held, 1e-3, 600, integrator="midpoint")
    for k in range(6):
        integrator = "rk4" if kind == "table" else "midpoint"
        part = ct.rollout(m, q, v, table[:, k], 1e-3, 100, start=0.1 * k, integrator=integrator)
        q, v = part.q[:, -1], part.v[:, -1]
        assert relative(whole.q[:, 100 * (k + 1)], q) < 1e-5  # which set holds the loops matters to the error of a step


def test_states_must_close_the_loops_and_keep_them_closed() -> None:
    m = model("four-bar")
    q, _ = (x[:12].reshape(3, 4, -1) for x in turn("four-bar"))
    wrong = q.copy()
    wrong[1, 2, 1] += 1e-3
    wrong[2, 3, 1] += 1e-2
    with pytest.raises(ct.ArgumentError, match=r"rollout: q0\[1, 2\] leaves loop 'pin' of .* open, by .*m\.assemble\(guess=q0\)"):
        ct.rollout(m, wrong, step=1e-3, steps=1)
    with pytest.raises(ct.ArgumentError, match=r"rollout: q0 leaves loop 'pin'"):
        ct.ensemble(m, m.neutral(), step=1e-3, steps=1)
    given = np.random.default_rng(0).normal(size=q.shape)
    opens = r"v0{} would open the loops of model 'four-bar', at a rate of .*m\.project_velocity\(q0, v0\)"
    for function in (ct.rollout, ct.ensemble):
        with pytest.raises(ct.ArgumentError, match=opens.format(r"\[0, 0\]")):
            function(m, q, given, step=1e-3, steps=1)
    v = np.array([[m.project_velocity(*state) for state in zip(*row, strict=True)] for row in zip(q, given, strict=True)])
    wrong = v.copy()
    wrong[1, 3, 0] *= 1.0 + 1e-5
    with pytest.raises(ct.ArgumentError, match=opens.format(r"\[1, 3\]")):
        ct.rollout(m, q, wrong, step=1e-3, steps=1)
    with pytest.raises(ct.ArgumentError, match=opens.format("")):
        ct.simulate(m, q[1, 3], wrong[1, 3], until=1.0)
    fd = ct.forward_dynamics(m)  # which refuses the same states
    with pytest.raises(ct.ArgumentError, match=r"state \(1, 3\) would open"):
        fd(q, wrong, np.zeros(3))

    runs = ct.rollout(m, q + 1e-8, v * (1.0 + 1e-8), step=1e-3, steps=1)  # off by rounding
    assert opening(m, runs.q) < 1e-13
    for i in np.ndindex(3, 4):
        assert relative(runs.v[i][0], v[i]) < 1e-6
        run = ct.simulate(m, q[i] + 1e-8, v[i] * (1.0 + 1e-8), step=1e-3, until=1e-3)
        assert relative(runs.v[i], run.v) < 1e-6


def test_a_crank_rate_alone_is_refused_as_forward_dynamics_refuses_it() -> None:
    m = model("four-bar")
    q = m.assemble(crank=1.0)
    with pytest.raises(ct.ArgumentError, match=r"simulate: v0 would open the loops of model 'four-bar', .*m\.project_velocity\(q0, v0\)"):
        ct.simulate(m, q, [1.0, 0.0, 0.0], until=1.0)
    run = ct.simulate(m, q, m.project_velocity(q, crank=1.0), until=0.1)
    assert run.v[0, 0] == pytest.approx(1.0, rel=1e-14)


def flat(after: float) -> tuple[ct.Model, np.ndarray, np.ndarray]:
    """A parallelogram, and velocities at which it comes to its change point after a time, without forces."""
    m = parallelogram(gravity=(0, 0, 0))
    q = m.assemble(guess=[1.0, -1.0, 1.0], crank=1.0)
    return m, q, m.project_velocity(q, crank=-1.0 / after)


def test_a_trajectory_that_comes_to_a_singular_configuration_fails_and_leaves_its_neighbours_alone() -> None:
    m, q, v = flat(0.5)
    speeds = np.array([0.3, 1.0, 0.7, 1.003, 2.0, 0.9])[:, None]  # the second and the fifth end a step there
    runs = ct.rollout(m, q, speeds * v, step=0.01, steps=100, every=2)
    assert runs.failed.tolist() == [False, True, False, False, True, False]
    assert runs.reason.tolist() == ["", "singular", "", "", "singular", ""]
    assert runs.failed_step.tolist() == [-1, 49, -1, -1, 24, -1]
    for i in (1, 4):
        good = runs.failed_step[i] // 2 + 1
        assert np.isnan(runs.q[i, good:]).all()
        assert relative(runs.q[i, :good, 0], 1.0 + speeds[i] * v[0] * runs.t[:good]) < 1e-12
    good = ~runs.failed
    assert relative(runs.q[good][..., 0], 1.0 + speeds[good] * v[0] * runs.t) < 1e-10  # through it, and on
    assert np.abs(runs.q[good][..., 0] + runs.q[good][..., 1]).max() < 1e-10  # on their branch
    assert same(ct.rollout(m, q, speeds[good] * v, step=0.01, steps=100, every=2), part(runs, good))
    with pytest.raises(ct.SimulationError, match=r"comes to a singular configuration after t = 0\.49 s, where the constraints") as caught:
        ct.simulate(m, q, v, step=0.01, until=1.0)
    trajectory: Any = caught.value.trajectory
    assert relative(trajectory.q[::2], runs.q[1, :25]) < 1e-12


def part(runs: ct.Rollout, which: np.ndarray) -> ct.Rollout:
    return ct.Rollout(runs.t, runs.q[which], runs.v[which], runs.failed_step[which], runs.reason[which], runs.stopped_step[which])


def test_a_trajectory_that_begins_at_a_singular_configuration_fails_at_once() -> None:
    m, q, v = flat(0.5)
    runs = ct.rollout(m, [np.zeros(3), q, [1e-7, -1e-7, 1e-7]], v, step=0.01, steps=4)
    assert runs.reason.tolist() == ["singular", "", "singular"]
    assert runs.failed_step.tolist() == [0, -1, 0]
    assert np.isfinite(runs.q[:, 0]).all()
    assert opening(m, runs.q[:, 0]) < 1e-13
    with pytest.raises(ct.SimulationError, match=r"q0 is a singular configuration, .*; start from another one"):
        ct.simulate(m, [1e-7, -1e-7, 1e-7], v, until=1.0)


def test_what_is_not_finite_is_not_taken_for_singular() -> None:
    m = EXAMPLES["four-bar"]()
    m.add_force("push", lambda t, q, v: np.array([np.exp(4.0 * v[0] * v[0]), 0.0, 0.0]))
    q = m.assemble(crank=1.0)
    runs = ct.rollout(m, q, [np.zeros(3), m.project_velocity(q, crank=12.0)], step=1e-3, steps=3)
    assert runs.reason.tolist() == ["", "not finite"]
    with pytest.raises(ct.SimulationError, match=r"the state is not finite after t = .*, first the velocity of"):
        ct.simulate(m, q, m.project_velocity(q, crank=12.0), step=1e-3, until=0.1)


def test_steps_that_lead_too_far_from_the_loops_are_not_taken_for_singular() -> None:
    m = model("bricard")
    q, v = (x[60] for x in turn("bricard"))
    runs = ct.rollout(m, q, [v, 150.0 * v], step=1e-3, steps=40)
    assert runs.reason.tolist() == ["", "not closed"]
    with pytest.raises(ct.SimulationError, match=r"leads so far from the loops that they do not close again; use a smaller step"):
        ct.simulate(m, q, 150.0 * v, step=1e-3, until=0.04)


def test_an_implicit_step_that_is_not_solved_is_not_taken_for_singular() -> None:
    m = EXAMPLES["four-bar"]()
    m.add_force("wild", lambda t, q, v: np.array([1e5 * np.sin(1e5 * q[0]), 0.0, 0.0]))
    runs = ct.rollout(m, m.assemble(crank=1.0), step=0.01, steps=3, integrator="implicit-midpoint")
    assert runs.reason == "not solved"


def test_loops_of_a_set_of_constraints_are_compiled_once_and_go_with_their_model(monkeypatch: pytest.MonkeyPatch) -> None:
    m = EXAMPLES["bennett"]()
    q, v = (x[::20] for x in turn("bennett"))
    made = []
    compiled = System._iteration
    monkeypatch.setattr(System, "_iteration", lambda system: made.append(system.loop_solver.loop_plan) or compiled(system))
    ct.rollout(m, q, v, step=1e-3, steps=400)
    assert len(made) == len(set(made)) > 1
    ct.rollout(m, q[::-1], v[::-1], step=1e-3, steps=400)
    assert len(made) == len(set(made))
    gone = weakref.ref(m)
    del m, made[:]
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(("name", "method"), [(name, method) for name in ("bennett", "watt") for method in closing_methods(model(name))])
def test_every_method_that_closes_loops_gives_the_same_motion(name: str, method: str) -> None:
    m = model(name)
    q, v = (x[::24] for x in turn(name))
    runs = ct.rollout(m, q, v, step=5e-4, steps=600, every=100, method=method)
    assert not runs.failed.any()
    assert opening(m, runs.q) < 1e-10
    assert relative(runs.q, ct.rollout(m, q, v, step=5e-4, steps=600, every=100).q) < 1e-6
    run = ct.simulate(m, q[1], v[1], until=0.3, method=method, rtol=1e-9)
    assert relative(run.q[-1], runs.q[1, -1]) < 1e-6
    assert np.abs(run.energy_change).max() < 1e-7
    alone = ct.rollout(m, q[2], v[2], step=5e-4, steps=600, every=100, method=method)
    assert alone.q.tobytes() == runs.q[2].tobytes()


# --- change points


@pytest.mark.parametrize("distance", [3e-3, 1e-3, 1e-4, 3e-5])
def test_fixed_steps_that_end_near_a_change_point_pass_it(distance: float) -> None:
    m, q, v = flat(1.0)
    run = ct.simulate(m, q, v, step=(1.0 - distance) / 100, until=1.5)
    assert np.abs(run.q[:, 0]).min() == pytest.approx(distance, rel=1e-6)
    assert opening(m, run.q) < 1e-13
    assert relative(run.q[:, 0], 1.0 - run.t) < 1e-10
    assert np.abs(run.energy_change).max() < 1e-9


def test_adaptive_steps_stop_at_a_singular_configuration_only_where_they_must_end_there() -> None:
    m, q, v = flat(1.0)
    with pytest.raises(ct.SimulationError, match=r"comes to a singular configuration after t = 0\.9999") as caught:
        ct.simulate(m, q, v, until=1.0)
    trajectory: Any = caught.value.trajectory
    assert 1.0 - 1e-4 < trajectory.t[-1] < 1.0
    assert opening(m, trajectory.q) < 1e-13
    run = ct.simulate(m, q, v, until=2.0, largest_step=0.25)  # steps that would end there
    assert relative(run.q[-1], [-1.0, 1.0, -1.0]) < 1e-10


# --- samples in between


@pytest.mark.parametrize("name", ["four-bar", "bennett", "quarter-car"])
def test_samples_at_given_times_and_interpolated_ones_close_the_loops(name: str) -> None:
    m = model(name)
    q, v = turn(name) if name != "quarter-car" else (m.assemble()[None], np.zeros((1, m.nv)))
    times: Any = np.linspace(0.0, 1.0, 201)
    exact = ct.simulate(m, q[0], v[0], until=1.0, rtol=1e-11, record=times)
    given = ct.simulate(m, q[0], v[0], until=1.0, record=times)
    called = ct.simulate(m, q[0], v[0], until=1.0, record=times, controller=ct.python(lambda t, q, v: np.zeros(m.nv)))
    between = ct.simulate(m, q[0], v[0], until=1.0).at(times)
    coarse = ct.simulate(m, q[0], v[0], until=1.0, record=8).at(times)
    for run, error in ((exact, 1e-9), (given, 1e-5), (called, 1e-5), (between, 1e-5), (coarse, 0.2)):
        assert opening(m, run.q) < 1e-10
        assert rates(m, run.q, run.v) < 1e-9
        assert relative(run.q, exact.q) < error
    if name == "bennett":
        assert given.info["switches"] > 0  # each sample by the constraints of its time


def test_samples_at_a_singular_configuration_are_those_of_the_motion() -> None:
    m, q, v = flat(1.0)
    times: Any = 1.0 + np.array([-1e-6, -1e-8, 0.0, 1e-9, 1e-7])
    event = ct.Event("flat", lambda t, q, v: q[0], "record")
    runs = [ct.simulate(m, q, v, until=2.0, record=times), ct.simulate(m, q, v, until=2.0, events=[event])]
    states = [*zip(runs[0].q, runs[0].v, strict=True), *((x.q, x.v) for x in runs[1].events)]
    assert runs[1].events[0].t == pytest.approx(1.0, abs=1e-10)
    for position, velocity in states:
        assert np.abs(position).max() < 2e-6
        assert velocity == pytest.approx([-1.0, 1.0, -1.0], abs=1e-6)
    assert runs[0].vdot is not None
    assert np.abs(runs[0].vdot).max() < 1e-3
    stopped = ct.simulate(m, q, v, until=2.0, events=[ct.Event("flat", lambda t, q, v: q[0])])
    assert stopped.vdot is not None
    assert np.isnan(stopped.vdot[-1]).all()  # not unique
    near = stopped.t[-1] - 1e-3
    assert relative(stopped.at(near).q[0], (1.0 - near) * np.array([1.0, -1.0, 1.0])) < 1e-9


def test_motions_with_open_loops_are_interpolated_as_they_are() -> None:
    m = model("four-bar")
    q = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    run = Trajectory(m, np.array([0.0, 1.0]), q, np.array([[1.0, 0.0, 0.0]] * 2))
    assert run.at(0.5).q[0] == pytest.approx([0.5, 0.0, 0.0])


# --- events


def test_an_impact_changes_velocities_by_the_least_kinetic_energy() -> None:
    """A hammer on the crank: the loops pass the blow on to the other bodies."""
    m = model("four-bar")
    q = m.assemble(crank=1.0)

    def hit(t: float, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return q, v + np.array([-8.0, 0.0, 0.0])

    wall = ct.Event("wall", lambda t, q, v: q[0] - 2.0, hit, direction=1)
    top = ct.Event("top", lambda t, q, v: v[2], "record")
    for controller in (None, ct.python(lambda t, q, v: np.zeros(3))):
        run = ct.simulate(m, q, until=2.0, events=[wall, top], controller=controller)
        walls = [event for event in run.events if event.name == "wall"]
        assert len(walls) > 1
        assert len(run.events) > len(walls)
        assert opening(m, run.q) < 1e-10
        assert rates(m, run.q, run.v) < 1e-10
        for event in run.events:
            assert opening(m, event.q) < 1e-10
            assert rates(m, event.q, event.v) < 1e-10
        for event in walls:
            i = int(np.searchsorted(run.t, event.t))
            assert run.t[i] == event.t
            assert relative(run.v[i], m.project_velocity(event.q, event.v + np.array([-8.0, 0.0, 0.0]))) < 1e-10
            assert abs(run.q[i] - event.q).max() < 1e-14


def test_positions_that_an_event_sets_must_close_the_loops() -> None:
    m = model("four-bar")
    q = m.assemble(crank=1.0)

    def event(action: Any) -> ct.Event:
        return ct.Event("move", lambda t, q, v: q[0] - 1.5, action, direction=1)

    says = r"event 'move': its action returned q, which leaves loop 'pin' .*; return m\.assemble\(guess=q\)"
    with pytest.raises(ct.ArgumentError, match=says):
        ct.simulate(m, q, until=1.0, events=[event(lambda t, q, v: (q + np.array([0.1, 0.0, 0.0]), v))])
    other = m.assemble(guess=[0.5, -2.0, -2.0], crank=0.5)  # on the other branch
    run = ct.simulate(m, q, until=1.0, events=[event(lambda t, q, v: (other + 1e-8, v))])
    i = int(np.searchsorted(run.t, run.events[0].t))
    assert relative(run.q[i], other) < 1e-7
    assert opening(m, run.q) < 1e-13
    assert rates(m, run.q, run.v) < 1e-10


def test_an_event_may_lead_to_where_other_constraints_must_hold() -> None:
    """From where the plan of the run is good to where it is weak, near a change point."""
    m, q, v = flat(1.0)
    there, rates_there = 0.05 * np.array([1.0, -1.0, 1.0]), np.array([1.0, -1.0, 1.0])
    jump = ct.Event("jump", lambda t, q, v: t - 0.01, lambda t, _, __: (there, rates_there))
    run = ct.simulate(m, q, v, until=0.02, events=[jump])
    straight = ct.simulate(m, there, rates_there, start=0.01, until=0.02)
    assert run.info["switches"] > 0
    assert relative(run.q[-1], straight.q[-1]) < 1e-8
    assert opening(m, run.q) < 1e-12


# --- checkpoints


def assert_same(one: Trajectory, other: Trajectory) -> None:
    for name in ("t", "q", "v", "vdot", "tau"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    assert [event.t for event in one.events] == [event.t for event in other.events]
    for name in ("steps", "rejected", "stopped", "switches"):
        assert one.info[name] == other.info[name]


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["adaptive", "fixed", "python", "times", "events"])
def test_a_run_that_is_cut_goes_on_to_the_same_bits(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From every checkpoint, before and after other constraints took over."""
    m = model("bennett")
    q, v = (x[0] for x in turn("bennett"))
    settings: dict[str, Any] = {"until": 1.5}
    if kind == "fixed":
        settings |= {"step": 2e-3, "integrator": "dormand-prince"}
    elif kind == "python":
        settings |= {"until": 1.0, "rtol": 1e-10, "controller": ct.python(lambda t, q, v: np.zeros(m.nv))}
    elif kind == "times":
        settings |= {"record": np.linspace(0.0, 1.5, 40)}
    elif kind == "events":
        settings |= {"events": [ct.Event("knock", lambda t, q, v: np.sin(7.0 * t), lambda t, q, v: (q, 0.9 * v + 0.1))]}
    kept = []
    save = Checkpoint.save

    def save_and_keep(self: Checkpoint, run: Any) -> None:
        save(self, run)
        kept.append((tmp_path / f"{len(kept)}.npz", len(run.plans)))
        shutil.copy(self.path, kept[-1][0])

    monkeypatch.setattr(Checkpoint, "save", save_and_keep)
    whole = ct.simulate(m, q, v, **settings, checkpoint=tmp_path / "run.npz", checkpoint_every=0.0)
    monkeypatch.undo()
    assert whole.info["switches"] > 0
    numbers = [number for _, number in kept]
    assert numbers[0] < numbers[-1]
    chosen = sorted({0, len(kept) // 2, len(kept) - 1, int(np.argmax(np.array(numbers) > 1))})
    for i in chosen:
        assert_same(ct.simulate(m, q, v, **settings, resume=kept[i][0]), whole)
    assert_same(ct.simulate(m, q, v, **settings), whole)


def test_constraints_that_return_are_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    m = model("bricard")
    q, v = (x[0] for x in turn("bricard"))
    made = []
    native = sys.modules["catena.simulation.system"]
    iteration = native.Iteration
    monkeypatch.setattr(native, "Iteration", lambda *arguments: made.append(1) or iteration(*arguments))
    run = ct.simulate(m, q, v, until=2.0)
    assert len(made) < run.info["switches"] + 1


def hinged(a: float, b: float, c: float, d: float) -> ct.Model:
    """A planar four-bar of these lengths: crank, coupler, rocker and the ground's."""
    m = ct.Model("four-bar", gravity=(0.3, -9.81, 0))
    for name, length, parent, x in (("crank", a, "ground", 0), ("coupler", b, "crank", a), ("rocker", c, "ground", d)):
        m.add(name, ct.rod(length, mass=1 + length), ct.Revolute("z"), parent=parent, at=(x, 0, 0))
    m.close("pin", ct.Revolute("z"), "coupler", "rocker", at_a=(b, 0, 0), at_b=(c, 0, 0))
    return m


def crossed(angle: float) -> np.ndarray:
    """Positions of the parallelogram 0.5, 1, 0.5, 1 on its crossed branch."""
    tip = 0.5 * np.array([np.cos(angle), np.sin(angle)])
    away = np.array([1.0, 0.0]) - tip
    far = np.hypot(*away)
    coupler = np.arctan2(away[1], away[0]) - np.arccos((1 + far * far - 0.25) / (2 * far))
    end = tip + [np.cos(coupler), np.sin(coupler)]
    return np.array([angle, coupler - angle, np.arctan2(end[1], end[0] - 1)])


def ended(m: ct.Model, q: np.ndarray, v: np.ndarray, method: str) -> tuple[Any, str]:
    """Return a run of 3 s, or what there is of it and why it stopped."""
    try:
        return ct.simulate(m, q, v, until=3.0, method=method), "not singular"
    except ct.SimulationError as error:
        return error.trajectory, str(error)


@pytest.mark.parametrize("method", ["coordinate-reduction", "denoc", "fully-recursive/joint", "fully-recursive/centroid"])
def test_runs_that_come_to_a_flat_configuration_keep_their_energy_or_stop(method: str) -> None:
    """Constraints that vanish there are small beside others, not beside themselves."""
    kite, flattened = hinged(1.0, 1.0, 0.6, 0.6), hinged(0.5, 1.0, 0.5, 1.0)
    q = kite.assemble(guess=[1.75197874, -2.16282529, 1.34113219])
    starts = [
        (kite, q, kite.project_velocity(q, [-1.17368967, 0.69713437, -1.65024498])),
        (flattened, crossed(1.5), flattened.project_velocity(crossed(1.5), crank=1.2)),
    ]
    for m, q, v in starts:
        run, why = ended(m, q, v, method)
        assert "singular" in why
        assert np.abs(run.energy_change).max() < 1e-6


@pytest.mark.parametrize("method", ["coordinate-reduction", "denoc", "fully-recursive/joint"])
def test_the_conditioning_of_plans_falls_with_the_square_of_the_distance_from_a_flat_configuration(method: str) -> None:
    plans = PlanLibrary(hinged(0.5, 1.0, 0.5, 1.0).frozen(), method)
    found = [plans.conditioning(plans.generic.loop_plan, 0.0, d * np.array([1.0, -1.0, 1.0])) for d in (1e-2, 1e-4, 1e-6)]
    np.testing.assert_allclose(np.array(found) / found[0], [1.0, 1e-4, 1e-8], rtol=0.05)
    for d in (1e-2, 1e-4):
        compiled = plans.conditioning_of(plans.generic.loop_plan, 0.0, d * np.array([1.0, -1.0, 1.0]))
        assert abs(compiled / plans.conditioning(plans.generic.loop_plan, 0.0, d * np.array([1.0, -1.0, 1.0])) - 1.0) < 1e-6


def test_all_methods_roll_out_alike_on_the_folded_branch_of_a_kite() -> None:
    m = hinged(1.0, 1.0, 0.6, 0.6)
    q = m.assemble(guess=[-1.2, np.pi, np.pi])  # the coupler lies on the crank, the rocker on the ground
    v = m.project_velocity(q, crank=1.0)
    runs = [ct.rollout(m, q[None], v[None], step=1e-3, steps=300, method=method) for method in closing_methods(m)]
    energy = ct.energy(m)
    for run in runs:
        assert not run.failed.any()
        assert relative(run.q, runs[0].q) < 1e-6
        total = np.sum(energy(run.q[0], run.v[0]), axis=0)
        assert np.ptp(total) < 1e-7
