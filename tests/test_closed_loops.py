"""Mechanisms with loops: they come together, and move as an independent solution says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests import mechanisms
from tests.mechanisms import closing_methods
from tests.referee import Referee, relative
from tests.test_constraints import CLOSING

import catena as ct
from catena.formulations import METHODS
from catena.formulations.linear import cut_joints
from catena.formulations.loops.constraints import constraint_jacobian
from catena.loops import plan_library
from catena.loops.assembly import assemble, loop_residuals, project_velocity
from catena.loops.mobility import mobility
from catena.loops.plan_library import plan_of

pytestmark = [pytest.mark.evaluated, pytest.mark.quick]

CLOSES = [name for name, method in METHODS.items() if method.closes]


def four_bar() -> ct.Model:
    m = ct.Model("four-bar")
    m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y"))
    m.add("coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
    m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), parent="ground", at=(1.0, 0, 0))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.6, 0, 0))
    return m


def ring(kind: str, seed: int) -> ct.Model:
    """A ring of bodies on random joints that the closing joint leaves some freedom, on the ground or on a floating base."""
    rng = np.random.default_rng(seed)
    m = mechanisms.tree(rng, 8, ("revolute", "universal", "cylindrical", "spherical"), branching=0.0, fixed=0.1, floating=seed % 2 == 1)
    start = "base" if seed % 2 else "ground"
    m.close("loop", CLOSING[kind], "body7", start, mechanisms.place(rng), mechanisms.place(rng))
    return m


def state(m: ct.Model, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A random state that closes the loops, and joint forces."""
    rng = np.random.default_rng(seed)
    q = assemble(m, m.random(rng), {})
    return q, project_velocity(m, q, rng.normal(size=m.nv), {}), rng.normal(size=m.nv)


@pytest.mark.parametrize("kind", CLOSING)
@pytest.mark.parametrize("seed", range(4))
def test_random_rings_equal_the_referee(kind: str, seed: int) -> None:
    m = ring(kind, seed)
    q, v, tau = state(m, seed)
    assert loop_residuals(m, q).sizes.max() < 1e-12
    expected = Referee(m).forward_with_loops(q, v, tau)
    for name in closing_methods(m):
        found = METHODS[name].closes.forward_dynamics(m.tree(), q, v, tau, plan=plan_of(m, name, q))  # type: ignore[union-attr]
        assert relative(np.asarray(found.vdot, dtype=float), expected) < 1e-9
        assert np.abs(np.asarray(found.rates, dtype=float)).max() < 1e-9


@pytest.mark.compiled
@pytest.mark.parametrize("method", CLOSES)
def test_kernels_of_a_four_bar_equal_the_referee_in_batches(method: str) -> None:
    m = four_bar()
    states = [state(m, seed) for seed in range(6)]
    run = ct.forward_dynamics(m, method)
    q, v, tau = (np.stack(x) for x in zip(*states, strict=True))
    vdot = run(q, v, tau)
    for row, one in zip(vdot, states, strict=True):
        assert relative(row, Referee(m).forward_with_loops(*one)) < 1e-9
        assert np.array_equal(run(*one), row)
    out = np.empty_like(vdot)
    assert run(q, v, tau, out=out) is out
    assert np.array_equal(out, vdot)


def test_a_four_bar_has_one_freedom_and_three_redundant_constraints() -> None:
    found = mobility(four_bar())
    assert (found.freedom, found.coordinates, found.constraints, found.redundant) == (1, 3, 5, 3)
    assert found.independent == ("crank",)
    assert [(loop.name, loop.base, loop.constraints) for loop in found.loops] == [("pin", "ground", 5)]
    assert found.coupled == (("pin",),)


def test_assembly_keeps_what_is_fixed_and_stays_near_the_guess() -> None:
    m = four_bar()
    up = assemble(m, None, {"crank": 1.0})
    assert up[0] == 1.0
    down = assemble(m, [1.0, -2.0, -2.0], {"crank": 1.0})
    assert loop_residuals(m, down).sizes.max() < 1e-12
    assert abs(up[1] - down[1]) > 0.5  # the two branches


def test_parts_that_cannot_meet_are_named() -> None:
    m = ct.Model("far")
    m.add("a", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
    m.add("b", ct.rod(1.0, mass=1.0), ct.Revolute("y"), at=(5, 0, 0))
    m.close("link", ct.Distance(1.0), "a", "b", at_a=(1, 0, 0), at_b=(1, 0, 0))
    with pytest.raises(ct.ModelError, match=r"model 'far' does not close: .* leaves loop 'link' open by 2 m"):
        assemble(m, None, {})
    with pytest.raises(ct.ModelError, match=r"model 'far' has no coordinate 'c'; choose from a, b"):
        assemble(m, None, {"c": 1.0})


def test_projected_velocities_keep_loops_closed_at_the_rate_asked() -> None:
    m = four_bar()
    q = assemble(m, None, {"crank": 0.7})
    v = project_velocity(m, q, np.zeros(3), {"crank": 2.0})
    J = np.asarray(constraint_jacobian(m.tree(), q)[1], dtype=float)
    assert v[0] == 2.0
    assert np.abs(J @ v).max() < 1e-12
    again = project_velocity(m, q, v, {})
    assert relative(again, v) < 1e-12
    with pytest.raises(ct.ModelError, match=r"no velocity keeps the loops closed with crank = 1, rocker = 1; fix fewer rates"):
        project_velocity(m, q, np.zeros(3), {"crank": 1.0, "rocker": 1.0})


def test_states_that_do_not_close_are_refused() -> None:
    m = four_bar()
    run = ct.forward_dynamics(m)
    q, v, tau = state(m, 0)
    with pytest.raises(ct.ArgumentError, match=r"the state leaves loop 'pin' of model 'four-bar' open"):
        run(q + 0.01, v, tau)
    with pytest.raises(ct.ArgumentError, match=r"the velocity of state \(1,\) would open the loops"):
        run(np.stack([q, q]), np.stack([v, v + 0.1]), tau)


def test_gears_turn_together() -> None:
    m = ct.Model("gears", gravity=(0, 0, 0))
    m.add("small", ct.cylinder(0.05, 0.1, mass=1.0), ct.Revolute("z"))
    m.add("large", ct.cylinder(0.05, 0.2, mass=4.0), ct.Revolute("z"), at=(0.3, 0, 0))
    m.couple("mesh", {"small": 1.0, "large": 2.0})
    run = ct.forward_dynamics(m)
    q = assemble(m, None, {"large": 0.3})
    assert q.tolist() == [-0.6, 0.3]
    vdot = run(q, [-2.0, 1.0], [1.0, 0.0])
    small, large = 0.5 * 1.0 * 0.1**2, 0.5 * 4.0 * 0.2**2
    assert vdot[0] == pytest.approx(1.0 / (small + large / 4.0), rel=1e-12)
    assert vdot[1] == pytest.approx(-0.5 * vdot[0], rel=1e-12)
    assert relative(vdot, Referee(m).forward_with_loops(q, np.array([-2.0, 1.0]), np.array([1.0, 0.0]))) < 1e-9


def test_the_constraints_of_a_plan_serve_every_reference_point() -> None:
    m = four_bar()
    run: Any = ct.forward_dynamics(m, "fully-recursive/joint")
    q, v, tau = state(m, 1)
    generic = plan_of(m, "fully-recursive/joint", run.made_for)
    other = cut_joints.forward_dynamics(m.tree(), q, v, tau, reference="origin", plan=generic)
    assert relative(np.asarray(other.vdot, dtype=float), run(q, v, tau)) < 1e-12


@pytest.mark.parametrize("method", [name for name in CLOSES if name.startswith("fully-recursive")])
def test_plans_of_other_constraints_give_the_same_accelerations(method: str) -> None:
    """Two of the five constraints of Bennett's linkage are independent; configurations differ in which two are taken."""
    m = bennett()
    states = [state(m, seed) for seed in range(12)]
    plans = {plan_of(m, method, q): None for q, _, _ in states}
    assert len(plans) > 1
    for q, v, tau in states:
        expected = Referee(m).forward_with_loops(q, v, tau)
        for plan in plans:
            found = METHODS[method].closes.forward_dynamics(m.tree(), q, v, tau, plan=plan)  # type: ignore[union-attr]
            assert relative(np.asarray(found.vdot, dtype=float), expected) < 1e-9


def test_other_coordinates_are_dependent_where_those_of_the_generic_plan_are_not_determined() -> None:
    """At the dead centre of its crank a double rocker moves, and the rate of the crank does not tell how."""
    m = mechanisms.double_rocker()
    run: Any = ct.forward_dynamics(m, "coordinate-reduction")
    generic = plan_of(m, "coordinate-reduction", run.made_for)
    for i, q in enumerate(mechanisms.at_dead_centre(m, 3)):
        rng = np.random.default_rng(i)
        v, tau = m.project_velocity(q, rng.normal(size=3)), rng.normal(size=3)
        assert plan_of(m, "coordinate-reduction", q) != generic
        assert not run.fits(q, v, tau)
        assert relative(run(q, v, tau), Referee(m).forward_with_loops(q, v, tau)) < 1e-9


def test_methods_for_trees_refuse_loops() -> None:
    m = four_bar()
    with pytest.raises(ct.MethodError, match=r"'articulated-body' does not fit model 'four-bar': the method is for trees.*fully-recursive"):
        ct.forward_dynamics(m, "articulated-body")


# runs


def turntable() -> ct.Model:
    """A four-bar on a turntable: the base of the loop turns."""
    m = ct.Model("turntable")
    m.add("table", ct.cylinder(0.1, 0.5, mass=10.0), ct.Revolute("z"))
    m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y"), parent="table")
    m.add("coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
    m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), parent="table", at=(1.0, 0, 0))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.6, 0, 0))
    return m


def largest_gap(m: ct.Model, run: ct.Trajectory) -> float:
    return max(float(loop_residuals(m, q).sizes.max()) for q in run.q[:: max(1, len(run) // 200)])


def bennett(a: float = 1.0, b: float = 1.4, alpha: float = 0.7) -> ct.Model:
    """Bennett's linkage: four hinges in space that move although counting says they do not; three of five constraints are redundant."""
    beta = float(np.arcsin(b / a * np.sin(alpha)))
    m = ct.Model("bennett")
    parent, at = "ground", ct.Pose()
    for name, length, twist in (("first", a, alpha), ("second", b, beta), ("third", a, alpha)):
        m.add(name, ct.rod(length, mass=1.0), ct.Revolute("z"), parent=parent, at=at)
        parent, at = name, ct.Pose((length, 0, 0), rpy=(twist, 0, 0))
    m.close("pin", ct.Revolute("z"), "third", "ground", at_a=at, at_b=ct.Pose((-b, 0, 0), rpy=(-beta, 0, 0)))
    return m


def test_a_loop_on_a_turning_base_needs_no_other_constraints() -> None:
    m = turntable()
    run: Any = ct.forward_dynamics(m)
    states = []
    for i, angle in enumerate(np.linspace(0.0, 2.0 * np.pi, 9)):
        q = m.assemble(table=angle, crank=1.0)
        states.append((q, m.project_velocity(q, np.random.default_rng(i).normal(size=4)), np.arange(4.0)))
    q, v, tau = (np.stack(x) for x in zip(*states, strict=True))
    vdot = run(q, v, tau)
    assert run.fits(q, v, tau).all()
    for row, one in zip(vdot, states, strict=True):
        assert relative(row, Referee(m).forward_with_loops(*one)) < 1e-9
        assert relative(run(*one), row) < 1e-9


def test_a_four_bar_runs_for_100_s_with_its_loop_closed_and_its_energy_kept() -> None:
    m = four_bar()
    run = ct.simulate(m, m.assemble(crank=1.0), until=100.0)
    assert largest_gap(m, run) < 1e-10
    assert np.abs(run.energy_change).max() < 1e-6


def test_a_run_on_a_turning_base_keeps_energy_and_spin() -> None:
    m = turntable()
    q = m.assemble(crank=1.0)
    v = m.project_velocity(q, table=3.0, crank=0.0)
    run = ct.simulate(m, q, v, until=5.0, rtol=1e-9)
    assert run["table"][-1] > 2.0 * np.pi
    assert run.info["switches"] == 0
    assert largest_gap(m, run) < 1e-10
    assert np.abs(run.energy_change).max() < 1e-7
    spin = ct.momenta(m)(run.q, run.v)[:, 0]  # nothing turns the table but its load
    assert relative(spin, np.full(len(run), spin[0])) < 1e-7


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit-euler", "implicit-midpoint"])
def test_fixed_steps_stay_on_the_loop(integrator: str) -> None:
    m = four_bar()
    run = ct.simulate(m, m.assemble(crank=1.0), until=1.0, step=0.005, integrator=integrator)
    fine = ct.simulate(m, m.assemble(crank=1.0), until=1.0, rtol=1e-10)
    assert largest_gap(m, run) < 1e-10
    assert relative(run.q[-1], fine.q[-1]) < {"rk4": 1e-5, "semi-implicit-euler": 0.1, "implicit-midpoint": 1e-2}[integrator]


def test_a_controller_in_python_gives_the_same_run() -> None:
    m = four_bar()

    def brake(t: Any, q: Any, v: Any) -> Any:
        return np.array([-0.5 * v[0], 0.0, 0.0])

    start, most = m.assemble(crank=1.0), 0.01  # what is called from Python may depend on time, and bounds steps by a hundredth of the run
    runs = [ct.simulate(m, start, until=1.0, largest_step=most, controller=c) for c in (brake, ct.python(brake))]
    assert relative(runs[0].q[-1], runs[1].q[-1]) < 1e-9
    assert runs[0].energy_change[-1] < 0.0


def test_a_start_that_does_not_close_is_refused() -> None:
    m = four_bar()
    with pytest.raises(ct.ArgumentError, match=r"q0 leaves loop 'pin' of model 'four-bar' open, by .*m\.assemble\(guess=q0\)"):
        ct.simulate(m, m.neutral(), until=1.0)
    with pytest.raises(ct.ArgumentError, match=r"'scipy:Radau' does not keep the loops of model 'four-bar' closed"):
        ct.simulate(m, m.assemble(), until=1.0, integrator="scipy:Radau")


def test_when_constraints_take_over_the_motion_stays_continuous(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made to look for others long before it is needed, a run comes to the same end."""
    m = four_bar()
    q = m.assemble(crank=1.0)
    v = m.project_velocity(q, crank=6.0)
    plain = ct.simulate(m, q, v, until=1.0, rtol=1e-9)
    monkeypatch.setattr(plan_library, "PLAN_WEAK", 1.0)
    monkeypatch.setattr(plan_library, "PLAN_WORSE", 0.99)
    restless = ct.simulate(four_bar(), q, v, until=1.0, rtol=1e-9)
    assert plain.info["switches"] == 0 < restless.info["switches"]
    assert relative(plain.q[-1], restless.q[-1]) < 1e-7
    assert largest_gap(m, restless) < 1e-10


def parallelogram(**options: Any) -> ct.Model:
    m = ct.Model("parallelogram", **options)
    m.add("crank", ct.rod(0.4, mass=1.0), ct.Revolute("y"))
    m.add("coupler", ct.rod(1.0, mass=2.0), ct.Revolute("y"), parent="crank", at=(0.4, 0, 0))
    m.add("rocker", ct.rod(0.4, mass=1.0), ct.Revolute("y"), at=(1.0, 0, 0))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.4, 0, 0))
    return m


def test_a_parallelogram_passes_its_change_points_on_its_branch() -> None:
    m = parallelogram()
    q = m.assemble(guess=[1.0, -1.0, 1.0], crank=1.0)
    run = ct.simulate(m, q, m.project_velocity(q, crank=20.0), until=5.0)
    assert np.ptp(run.q[:, 0]) > 10.0 * np.pi  # it turns through many of them
    assert np.abs(run.q[:, 0] + run.q[:, 1]).max() < 1e-10  # the coupler stays parallel to the ground
    assert largest_gap(m, run) < 1e-10
    assert np.abs(run.energy_change).max() < 1e-6


def test_a_run_stops_at_a_singular_configuration_and_keeps_what_it_has() -> None:
    """Steps that lead exactly to the change point of a parallelogram, from where it could go on in two ways."""
    m = parallelogram(gravity=(0, 0, 0))
    q = m.assemble(guess=[1.0, -1.0, 1.0], crank=1.0)
    with pytest.raises(ct.SimulationError, match=r"simulate 'parallelogram': .* singular.*error\.trajectory") as caught:
        ct.simulate(m, q, m.project_velocity(q, crank=-1.0), until=2.0, integrator="rk4", step=0.01)
    run: Any = caught.value.trajectory
    assert run.t[-1] == pytest.approx(0.99)
    assert run.q[-1] == pytest.approx([0.01, -0.01, 0.01])
    with pytest.warns(ct.SingularWarning, match=r"the state of model 'parallelogram' is singular: its loops leave open"):
        ct.forward_dynamics(m)(np.zeros(3), np.zeros(3), np.zeros(3))


def test_bennetts_linkage_turns_through_the_flat_configurations() -> None:
    m = bennett()
    found = m.mobility()
    assert (found.freedom, found.constraints, found.redundant) == (1, 5, 3)
    q = m.assemble(guess=[1.0, -2.0, 1.0])
    run = ct.simulate(m, q, m.project_velocity(q, first=3.0), until=5.0)
    assert np.abs(np.sin(run.q)).min() < 1e-2
    assert largest_gap(m, run) < 1e-10
    assert np.abs(run.energy_change).max() < 1e-6


def test_planar_loops_may_stand_askew() -> None:
    """What rounding leaves of a redundant constraint is no constraint."""
    plain = four_bar()
    rpy = (0.3, -0.7, 1.1)
    m = ct.Model("askew", gravity=ct.Pose(rpy=rpy).R @ (0, 0, -9.81))
    m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y"), at=ct.Pose(rpy=rpy))
    m.add("coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
    m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), at=ct.Pose(ct.Pose(rpy=rpy).R @ (1.0, 0, 0), rpy=rpy))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.6, 0, 0))
    assert (m.mobility().freedom, m.mobility().redundant) == (1, 3)
    runs = [ct.simulate(model, model.assemble(crank=1.0), until=1.0, rtol=1e-10) for model in (plain, m)]
    assert relative(runs[1].q[-1], runs[0].q[-1]) < 1e-7


def test_loop_errors_are_the_distances_between_the_ends() -> None:
    m = four_bar()
    q = m.assemble(crank=1.0)
    error = ct.loop_error(m)
    assert error(q).shape == (1,)
    assert error(q)[0] < 1e-14
    moved = q + np.array([0.0, 0.0, 0.01])
    ends = [ct.poses(m)(moved)[i] @ np.array([*point, 1.0]) for i, point in ((1, (1.0, 0, 0)), (2, (0.6, 0, 0)))]
    assert error(moved)[0] == pytest.approx(np.abs(ends[0] - ends[1])[:3].max(), rel=1e-9)
    plain = ct.Model()
    plain.add("arm", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
    with pytest.raises(ct.ModelError, match=r"loop_error: model 'model' has no loops"):
        ct.loop_error(plain)
