"""Linkages of equal lengths fold onto themselves and go on otherwise, with other freedom: every answer is that of the branch of its state.

Plans are made at one configuration. States on other branches equal an independent solution all the same, and singular ones are told.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from tests.loop_referee import LoopReferee
from tests.mechanisms import closing_methods
from tests.referee import Referee, relative
from tests.test_random_loops import RINGS, Builder, ring

import catena as ct
from catena.examples import delta
from catena.formulations.loops.constraints import constraint_jacobian
from catena.kernels.planned import ConstrainedKernel
from catena.loops.assembly import loop_residuals, moved_along
from catena.loops.groups import loop_groups
from catena.loops.mobility import rank, regular
from catena.loops.scaling import coordinate_units, loop_units
from catena.simulation.loop_states import settled

pytestmark = pytest.mark.evaluated

EXACT = 1e-8


def bar(m: ct.Model, name: str, length: float, parent: str = "ground", x: float = 0.0) -> None:
    m.add(name, ct.rod(length, mass=1.0 + length), ct.Revolute("z"), parent=parent, at=(x, 0, 0))


def pin(m: ct.Model, a: str, b: str, at_a: float, at_b: float) -> None:
    m.close(f"{a}-{b}", ct.Revolute("z"), a, b, at_a=(at_a, 0, 0), at_b=(at_b, 0, 0))


def four_bar(a: float, b: float, c: float, d: float) -> ct.Model:
    m = ct.Model("four-bar", gravity=(0.3, -9.81, 0))
    bar(m, "crank", a)
    bar(m, "coupler", b, "crank", a)
    bar(m, "rocker", c, x=d)
    pin(m, "coupler", "rocker", b, c)
    return m


def two_rhombi() -> ct.Model:
    """A rhombus, and two equal bars from its first joint to its third: where it is folded, these two meet, and the bars turn freely."""
    m = four_bar(1.0, 1.0, 1.0, 1.0)
    bar(m, "third", 0.7)
    bar(m, "fourth", 0.7, "third", 0.7)
    pin(m, "fourth", "coupler", 0.7, 1.0)
    return m


def cranks(number: int, length: float = 0.5) -> ct.Model:
    """Equal parallel cranks on one bar."""
    m = ct.Model(f"{number} cranks", gravity=(0.3, -9.81, 0))
    bar(m, "crank0", length)
    bar(m, "bar", number - 1.0, "crank0", length)
    for i in range(1, number):
        bar(m, f"crank{i}", length, x=float(i))
        pin(m, "bar", f"crank{i}", float(i), length)
    return m


def hub(legs: int) -> ct.Model:
    """Equal legs of two equal bars from one place to another: where the two places meet, every leg turns by itself."""
    m = ct.Model(f"hub of {legs}", gravity=(0.3, -9.81, 0))
    for i in range(legs):
        bar(m, f"inner{i}", 1.0)
        bar(m, f"outer{i}", 1.0, f"inner{i}", 1.0)
    for i in range(1, legs):
        pin(m, "outer0", f"outer{i}", 1.0, 1.0)
    return m


def ladder() -> ct.Model:
    """A rhombus on the coupler of a rhombus."""
    m = four_bar(1.0, 1.0, 1.0, 1.0)
    bar(m, "crank 2", 1.0, "coupler")
    bar(m, "coupler 2", 1.0, "crank 2", 1.0)
    bar(m, "rocker 2", 1.0, "coupler", 1.0)
    pin(m, "coupler 2", "rocker 2", 1.0, 1.0)
    return m


def spherical(*angles: float) -> ct.Model:
    """A four-bar on a sphere, by its angles."""
    m = ct.Model("spherical four-bar", gravity=(0.3, -1.0, -9.81))
    at = [ct.Pose((0, 0, 0), rpy=(0, angle, 0)) for angle in angles]
    for name, parent, place in (("a", "ground", ct.Pose()), ("b", "a", at[0]), ("c", "ground", at[3])):
        m.add(name, ct.box(0.3, 0.2, 0.1, mass=1.0, com=(0.2, 0.1, 0.3)), ct.Revolute("z"), parent=parent, at=place)
    m.close("pin", ct.Revolute("z"), "b", "c", at_a=at[1], at_b=at[2])
    return m


def slider() -> ct.Model:
    """A slider-crank of equal lengths: the slider stays on the axis of the crank, or moves."""
    m = ct.Model("slider-crank", gravity=(0.3, -9.81, 0))
    bar(m, "crank", 1.0)
    bar(m, "rod", 1.0, "crank", 1.0)
    m.add("slider", ct.box(0.1, 0.1, 0.1, mass=1.0), ct.Prismatic("x"))
    pin(m, "rod", "slider", 1.0, 0.0)
    return m


LINKAGES: dict[str, Callable[[], ct.Model]] = {
    "rhombus": lambda: four_bar(1.0, 1.0, 1.0, 1.0),
    "parallelogram": lambda: four_bar(0.5, 1.0, 0.5, 1.0),
    "kite": lambda: four_bar(1.0, 1.0, 0.6, 0.6),
    "galloping": lambda: four_bar(0.5, 1.0, 1.0, 0.5),
    "four cranks": lambda: cranks(4),
    "two rhombi": two_rhombi,
    "hub of 3": lambda: hub(3),
    "ladder": ladder,
    "spherical rhombus": lambda: spherical(0.7, 0.7, 0.7, 0.7),
    "spherical parallelogram": lambda: spherical(0.5, 0.9, 0.5, 0.9),
    "slider": slider,
}


@cache
def linkage(name: str) -> ct.Model:
    return LINKAGES[name]().frozen()


def jacobian(m: ct.Model, q: np.ndarray) -> np.ndarray:
    """The Jacobian of all constraints, without units."""
    J = np.asarray(constraint_jacobian(m.tree(), q)[1], dtype=float)
    return J * coordinate_units(m) / np.array(loop_units(m))[:, None]


def freedom(m: ct.Model, q: np.ndarray) -> int | None:
    """The dimension of the branch that a configuration is on, or None where that is singular, or nearly so.

    It is regular where the motions of the null space lead to configurations of the same rank.
    """
    _, sizes, right = np.linalg.svd(jacobian(m, q))
    rank = int(np.count_nonzero(sizes > 1e-3))
    if np.abs(sizes[rank:]).max(initial=0.0) > 1e-11:
        return None
    rng, free = np.random.default_rng(5), right[rank:]
    for _ in range(2 if len(free) else 0):
        step = free.T @ rng.normal(size=len(free))
        step *= 1e-3 / np.linalg.norm(step) * coordinate_units(m)
        there = moved_along(m, q, step)
        aside = np.abs((there - q - step) / coordinate_units(m)).max()
        if loop_residuals(m, there).sizes.max() > 1e-9 or aside > 1e-4 or np.linalg.matrix_rank(jacobian(m, there), 1e-7) != rank:
            return None
    return m.nv - rank


@cache
def configurations(name: str) -> tuple[tuple[np.ndarray, int], ...]:
    """Regular configurations that random starts lead to, with their freedom."""
    m, rng, found = linkage(name), np.random.default_rng(1), []
    for _ in range(9):
        q = m.assemble(guess=m.random(rng))
        for there in (q, moved_along(m, q, 0.3 * m.project_velocity(q, rng.normal(size=m.nv)))):
            own = freedom(m, there)
            if own is not None and loop_residuals(m, there).sizes.max() < 1e-11:
                found.append((there, own))
    assert len(found) > 4
    return tuple(found)


def states(name: str) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
    m, rng = linkage(name), np.random.default_rng(2)
    return [(q, m.project_velocity(q, rng.normal(size=m.nv)), rng.normal(size=m.nv), own) for q, own in configurations(name)]


CASES = [(name, method) for name in LINKAGES for method in closing_methods(LINKAGES[name]())]


def test_the_linkages_have_branches_on_which_the_usual_plan_does_not_fit() -> None:
    for name in ("rhombus", "kite", "two rhombi", "hub of 3", "spherical rhombus"):
        q, v, tau = (np.array(x) for x in zip(*(state[:3] for state in states(name)), strict=True))
        fd = ct.forward_dynamics(linkage(name), "coordinate-reduction")
        assert isinstance(fd, ConstrainedKernel)
        fits = fd.fits(q, v, tau)
        assert fits.any()
        assert not fits.all()
    for name, freedoms in (("two rhombi", {1, 2}), ("hub of 3", {2, 3})):
        assert {own for _, own in configurations(name)} == freedoms
        assert set(linkage(name).mobility().freedoms) == freedoms


@pytest.mark.parametrize(("name", "method"), CASES)
def test_forward_dynamics_equals_the_referee_on_every_branch(name: str, method: str) -> None:
    m = linkage(name)
    fd = ct.forward_dynamics(m, method)
    for q, v, tau, _ in states(name):
        assert relative(fd(q, v, tau), Referee(m).forward_with_loops(q, v, tau), scale=1e-6) < EXACT


@pytest.mark.parametrize("name", LINKAGES)
def test_reactions_equal_the_referee_in_their_unique_components_on_every_branch(name: str) -> None:
    m = linkage(name)
    wrenches = ct.joint_wrenches(m, axes="joint")
    for q, v, tau, _ in states(name):
        expected, unique = Referee(m).solve_with_loops(q, v, tau)[1], wrenches.unique_at(q)
        np.testing.assert_array_equal(unique, LoopReferee(m, 1.0).at(q).reactions(v, tau)[1])
        assert relative(np.where(unique, wrenches(q, v, tau), 0.0), np.where(unique, expected, 0.0)) < EXACT


@pytest.mark.parametrize("name", LINKAGES)
def test_mobility_at_a_configuration_is_the_dimension_of_its_branch(name: str) -> None:
    for q, own in configurations(name):
        found = linkage(name).mobility(q)
        assert (found.freedom, found.singular) == (own, False)


@pytest.mark.parametrize("name", LINKAGES)
def test_reduced_coordinates_and_motors_serve_the_branch_they_are_made_for(name: str) -> None:
    m = linkage(name)
    for q, v, tau, own in states(name)[::3]:
        vdot = Referee(m).forward_with_loops(q, v, tau)
        r = ct.reduced(m, at=q)
        at = [m.v_names.index(x) for x in r.names]
        N, mass, bias = r.basis(q), r.mass_matrix(q), r.bias_force(q, v)
        assert N.shape == (m.nv, own)
        assert np.abs(jacobian(m, q) @ (N / coordinate_units(m)[:, None])).max() < EXACT
        assert relative(r.rates(q, v[at]), v) < EXACT
        assert relative(r.accelerations(q, v, vdot[at]), vdot) < EXACT
        assert relative(mass, N.T @ Referee(m).mass_matrix(q) @ N) < EXACT
        assert relative(mass @ vdot[at] + bias, N.T @ tau, scale=np.abs(bias).max()) < EXACT
        held = ct.inverse_dynamics(m, actuated=r.names, at=q)(q, v, vdot)
        assert relative(N.T @ held, N.T @ tau, scale=np.abs(bias).max()) < EXACT


@pytest.mark.parametrize("name", LINKAGES)
def test_kernels_made_elsewhere_are_right_or_warn(name: str) -> None:
    """Those of coordinates that a user names: on another branch they may not determine the others."""
    m = linkage(name)
    r = ct.reduced(m)
    at, right = [m.v_names.index(x) for x in r.names], 0
    for q, v, tau, own in states(name):
        vdot = Referee(m).forward_with_loops(q, v, tau)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            rates, accelerations = r.rates(q, v[at]), r.accelerations(q, v, vdot[at])
        if not told:
            right += 1
            assert own == len(at)
            assert relative(rates, v) < EXACT
            assert relative(accelerations, vdot) < EXACT
    assert right


@pytest.mark.parametrize("name", [name for name in LINKAGES if name != "spherical parallelogram"])
def test_runs_begin_on_every_branch_and_go_on_as_the_referee_says(name: str) -> None:
    m = linkage(name)
    for q, v, _, _ in states(name)[::4]:
        run = ct.simulate(m, q, v, until=0.02, step=1e-3, integrator="rk4")
        expected = Referee(m).forward_with_loops(run.q[-1], run.v[-1], np.zeros(m.nv))
        assert run.vdot is not None
        assert relative(run.vdot[-1], expected) < EXACT
        kinetic, potential = ct.energy(m)(run.q, run.v)
        assert np.ptp(kinetic + potential) < 1e-6 * np.abs(potential).max()
        assert relative(ct.rollout(m, q, v, step=1e-3, steps=20).q[-1], run.q[-1]) < 1e-9


# singular configurations


FLAT = [name for name in LINKAGES if name not in ("kite", "two rhombi", "galloping", "slider")]


@pytest.mark.parametrize("name", FLAT)
def test_every_method_warns_where_a_linkage_is_flat(name: str) -> None:
    m = linkage(name)
    for method in closing_methods(m):
        with pytest.warns(ct.SingularWarning, match="is singular"):
            ct.forward_dynamics(m, method)(m.neutral(), np.zeros(m.nv), np.ones(m.nv))
    assert m.mobility(m.neutral()).singular


def test_a_folded_configuration_that_a_search_comes_to_is_singular() -> None:
    """It is a double root of the closure residual, and found to the square root of rounding."""
    m, folded = cranks(4), 0
    (loops,) = loop_groups(m)
    for q in loops.settle(np.array([m.random(seed) for seed in range(12)]), np.ones(m.nv, dtype=bool))[0]:
        sizes = np.linalg.svd(jacobian(m, q), compute_uv=False)
        if ((sizes > 1e-10) & (sizes < 5e-8)).any():
            folded += 1
            found = m.mobility(q)
            assert found.singular
            assert found.freedom > 1
            np.testing.assert_allclose(m.assemble(q.round(3)), q, atol=1e-2)  # a guess that nearly closes the loops is meant
            for method in closing_methods(m):
                with pytest.warns(ct.SingularWarning, match="is singular"):
                    ct.forward_dynamics(m, method)(q, np.zeros(m.nv), np.ones(m.nv))
    assert folded > 1


def test_a_mechanism_that_is_singular_wherever_it_closes_says_so_in_every_state() -> None:
    """A lever in line with the rod that holds it: the Jacobian vanishes, and what is left of it is rounding."""
    m = ct.Model("dead centre", gravity=(0.3, -9.81, 0))
    bar(m, "lever", 1.0)
    bar(m, "tip", 0.4, "lever", 1.0)
    m.close("rod", ct.Distance(0.6), "lever", "ground", at_a=(1, 0, 0), at_b=(1.6, 0, 0))
    assert m.mobility().singular
    for angle in (0.0, 1e-17, -1e-9):
        for method in closing_methods(m):
            fd = ct.forward_dynamics(m, method)
            assert isinstance(fd, ConstrainedKernel)
            assert not fd.fits([angle, 1.0], np.zeros(2), np.zeros(2))
            with pytest.warns(ct.SingularWarning, match="is singular"):
                fd([angle, 1.0], np.zeros(2), np.zeros(2))


def test_motions_that_move_no_mass_but_for_rounding_are_told() -> None:
    """A rod of a Delta robot in line with the first axis of its universal joint: it may spin, and slender rods have no inertia in that."""
    m, told = delta(), 0
    fd = ct.forward_dynamics(m)
    (loops,) = loop_groups(m)
    for q in loops.settle(np.array([m.random(seed) for seed in range(6)]), np.ones(m.nv, dtype=bool))[0]:
        if m.mobility(q).singular:
            told += 1
            with pytest.warns(ct.SingularWarning, match="is singular"):
                fd(q, np.zeros(m.nv), np.ones(m.nv))
        else:
            assert np.abs(fd(q, np.zeros(m.nv), np.ones(m.nv))).max() < 1e9
    assert told


# mobility of folded starts


@pytest.mark.parametrize("length", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("number", range(2, 8))
def test_parallel_cranks_have_one_degree_of_freedom(number: int, length: float) -> None:
    found = cranks(number, length).mobility()
    assert (found.freedom, found.freedoms, found.singular) == (1, (1,), False)


def test_a_regular_state_of_a_linkage_that_begins_folded_is_simulated() -> None:
    m = cranks(4)
    q = m.assemble(crank0=1.0)
    assert ct.simulate(m, q, until=0.1, step=0.01, integrator="rk4").t[-1] == pytest.approx(0.1)
    assert ct.rollout(m, q, np.zeros(m.nv), step=0.01, steps=10).q.shape == (11, m.nq)
    assert ct.reduced(m).names == ("crank0",)


def test_rates_that_cannot_be_are_named_with_the_remedy() -> None:
    m = four_bar(1.0, 1.0, 1.0, 1.0)
    m.couple("gear", {"crank": 1.0, "rocker": 1.0})
    for seed in range(8):
        q = m.assemble(guess=m.random(seed))
        m.project_velocity(q, np.random.default_rng(seed).normal(size=3))  # rest is always one
        with pytest.raises(ct.ModelError, match="no velocity keeps the loops closed with crank = 1, rocker = 2; fix fewer rates"):
            m.project_velocity(q, crank=1.0, rocker=2.0)


# platforms on legs


def free_base(word: str, cut: int | None = None) -> ct.Model:
    built = Builder(3, floating=True)
    built.bridge(word, "ground", "base", "leg", cut)
    return built.m


def rigid_chain() -> ct.Model:
    """A chain of two bars that two pins at one place hold to the ground."""
    m = ct.Model("rigid chain", gravity=(0.3, -9.81, 0))
    bar(m, "a", 1.0)
    bar(m, "b", 1.0, "a", 1.0)
    for name in ("one", "other"):
        m.close(name, ct.Revolute("z"), "b", "ground", at_a=(1, 0, 0), at_b=(1.2, 0, 0))
    return m


@pytest.mark.parametrize("build", [rigid_chain, lambda: free_base("RRRS"), lambda: free_base("UD")], ids=["rigid", "RRRS", "UD"])
def test_denoc_serves_rigid_chains_and_chains_to_free_bases(build: Callable[[], ct.Model]) -> None:
    m, rng = build(), np.random.default_rng(0)
    q = m.assemble()
    v, tau = m.project_velocity(q, rng.normal(size=m.nv)), rng.normal(size=m.nv)
    assert relative(ct.forward_dynamics(m, "denoc")(q, v, tau), Referee(m).forward_with_loops(q, v, tau), scale=1.0) < 1e-9


@pytest.mark.parametrize("name", ["parallelogram", "rhombus", "kite", "galloping", "four cranks", "hub of 3", "spherical rhombus"])
def test_a_platform_on_another_branch_moves_as_reduced_coordinates_say(name: str) -> None:
    m = linkage(name)
    motors = ct.reduced(m).names
    robot, at = ct.ParallelManipulator(m, motors), [m.v_names.index(x) for x in motors]
    served = 0
    for q, v, tau, own in states(name)[::2]:
        try:
            r = ct.reduced(m, motors, at=q)
        except ct.ModelError:  # they do not determine the others there
            with pytest.warns(ct.SingularWarning, match="is singular"):
                robot.rates(q, np.ones(len(at)))
            continue
        served += 1
        vdot = r.accelerations(q, v, tau[at])
        on_motors = r.mass_matrix(q) @ tau[at] + r.bias_force(q, v)
        assert own == len(at)
        assert relative(robot.rates(q, v[at]), v) < EXACT
        assert relative(robot.accelerations(q, v, tau[at]), vdot) < EXACT
        assert relative(robot.mass_matrix(q), r.mass_matrix(q)) < EXACT
        assert relative(robot.jacobian(q), ct.jacobian(m, robot.platform, (0, 0, 0))(q) @ r.basis(q)) < EXACT
        assert relative(robot.inverse_dynamics(q, v, tau[at]), on_motors) < EXACT
        assert relative(robot.forward_dynamics(q, v, on_motors), tau[at], scale=np.abs(on_motors).max()) < EXACT
        assert relative(robot.forward_kinematics(q[at], guess=q), q) < EXACT
        pose = ct.poses(m)(q)[m.body_names.index(robot.platform)]
        back = robot.inverse_kinematics(pose, guess=q)
        assert relative(ct.poses(m)(back)[m.body_names.index(robot.platform)], pose) < EXACT
        assert 1e-4 < robot.singularities(q).type_2 <= 1.0
        assert "type 2: " in robot.explain(q)
        twists = [ct.jacobian(m, body, (0, 0, 0))(q) @ r.basis(q) for body in robot.complements(q).names]  # of their origins
        for n, (body, twist) in enumerate(zip(robot.complements(q).names, twists, strict=True)):
            place = ct.poses(m)(q)[m.body_names.index(body)][:3, 3]
            at_origin = np.concatenate([twist[:3], twist[3:] - np.cross(twist[:3].T, place).T])
            assert relative(robot.complements(q).N[6 * n : 6 * n + 6], at_origin, scale=1.0) < EXACT
    assert served > 3


def test_a_platform_warns_at_a_flat_configuration() -> None:
    m = linkage("parallelogram")
    robot = ct.ParallelManipulator(m, ["crank"])
    q = m.neutral()
    for kernel, rest in ((robot.rates, 1), (robot.jacobian, 0), (robot.mass_matrix, 0)):
        with pytest.warns(ct.SingularWarning, match="is singular"):
            kernel(q, *[np.ones(1)] * rest)
    with pytest.warns(ct.SingularWarning, match="is singular"):
        robot.forward_dynamics(q, np.zeros(3), np.ones(1))
    assert robot.singularities(q).type_2 < 1e-6
    assert "singular: with all motors locked" in robot.explain(q)


def test_a_run_by_denoc_keeps_its_energy_on_the_crossed_branch() -> None:
    m = linkage("parallelogram")
    q = next(q for q, _ in configurations("parallelogram") if abs(np.sin(q[0] + q[1])) > 0.3)  # the coupler turns
    v = m.project_velocity(q, np.zeros(3), crank=1.0)
    run = ct.simulate(m, q, v, until=0.3, method="denoc", rtol=1e-10)
    kinetic, potential = ct.energy(m)(run.q, run.v)
    assert np.ptp(kinetic + potential) < 1e-7 * np.abs(potential).max()


# random mechanisms


@pytest.mark.parametrize("seed", range(12))
def test_random_rings_have_no_singular_warnings_on_other_branches(seed: int) -> None:
    word = RINGS[seed % len(RINGS)]
    m = ring(word, len(word) - 1, seed).m
    fd, rng, seen = ct.forward_dynamics(m), np.random.default_rng(seed), 0
    for _ in range(6):
        try:
            q = m.assemble(guess=m.random(rng))
        except ct.ModelError:
            continue
        sizes = np.linalg.svd(jacobian(m, q), compute_uv=False)
        if ((sizes > 1e-3) | (sizes < 1e-12)).all():
            seen += 1
            v, tau = m.project_velocity(q, rng.normal(size=m.nv)), rng.normal(size=m.nv)
            assert relative(fd(q, v, tau), Referee(m).forward_with_loops(q, v, tau)) < EXACT
    assert seen > 1


# the rank of a state


def folded_at_home() -> ct.Model:
    """A hub of three legs that are folded at home: kernels are made where each leg turns by itself."""
    m = hub(3)
    m.home = np.array([0.3, np.pi, 1.0, np.pi, 2.0, np.pi])
    return m


def unfolded(m: ct.Model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A state of more independent constraints than there are at home, and a velocity along which it may change."""
    q, rng = m.assemble(guess=[0.2, 1.2, 1.4, -1.2, 0.2, 1.2]), np.random.default_rng(3)
    assert (freedom(m, q), freedom(m, m.assemble())) == (2, 3)
    return q, m.project_velocity(q, rng.normal(size=m.nv)), m.project_velocity(q, rng.normal(size=m.nv))


@pytest.mark.parametrize("name", LINKAGES)
def test_many_states_have_the_ranks_that_each_has_alone(name: str) -> None:
    """Rollouts and steppers find them for many states at once, runs for one."""
    m = linkage(name)
    q, v = (np.array([state[i] for state in states(name)] + [x]) for i, x in ((0, m.neutral()), (1, np.zeros(m.nv))))
    at = np.array([loop_residuals(m, x).sizes.max() < 1e-9 for x in q])
    q, v = q[at], v[at]
    found = settled(m, np.zeros(len(q)), q, v)
    np.testing.assert_array_equal(found.regular, [regular(m, x) for x in q])
    np.testing.assert_array_equal(found.ranks[found.regular], [rank(m, x) for x in q[found.regular]])


@pytest.mark.compiled
@pytest.mark.parametrize("size", [1e-2, 1e-6])
def test_a_step_has_the_rank_of_its_state_whatever_the_rank_at_home(size: float) -> None:
    m = folded_at_home()
    q, v, _ = unfolded(m)
    expected = ct.rollout(m, q, v, step=size, steps=1, integrator="rk4")
    move = ct.stepper(m, size, "rk4")
    np.testing.assert_allclose(move(q, v, np.zeros(m.nv))[0], expected.q[-1], atol=1e-13)
    np.testing.assert_allclose(move(q, v, np.zeros(m.nv))[1], expected.v[-1], atol=1e-12)
    copied = pickle.loads(pickle.dumps(move))  # with what it met
    np.testing.assert_array_equal(copied(q, v, np.zeros(m.nv))[0], move(q, v, np.zeros(m.nv))[0])
    both = np.array([q, m.assemble()]), np.array([v, np.zeros(m.nv)])
    together = ct.rollout(m, *both, step=size, steps=1, integrator="rk4")
    np.testing.assert_allclose(move(*both, np.zeros(m.nv))[0], together.q[:, -1], atol=1e-13)


@pytest.mark.compiled
def test_derivatives_of_steps_have_the_rank_of_their_state() -> None:
    m = folded_at_home()
    q, v, along = unfolded(m)
    move, h = ct.stepper(m, 1e-2, "rk4"), 1e-5
    ahead, behind = (np.concatenate(move(q, m.project_velocity(q, v + s * along), np.zeros(m.nv))) for s in (h, -h))
    by_v = [matrix @ along for matrix in move.jacobian(("q_next", "v_next"), "v")(q, v, np.zeros(m.nv))]
    np.testing.assert_allclose(np.concatenate(by_v), (ahead - behind) / (2.0 * h), atol=1e-7)


@pytest.mark.parametrize("lengths", [(0.5, 1.2, 0.5, 1.2), (1.2, 0.5, 1.2, 0.5)])
def test_parallelograms_of_any_masses_move_as_their_one_angle_says(lengths: tuple[float, float, float, float]) -> None:
    """The coupler stays parallel to the ground, so that rates are along (1, -1, 1), nearly down to flat configurations."""
    m, along, rng = four_bar(*lengths), np.array([1.0, -1.0, 1.0]), np.random.default_rng(1)
    angle = rng.choice([0.0, np.pi], 200) + rng.choice([-1.0, 1.0], 200) * 10.0 ** rng.uniform(-3.3, 0.2, 200)
    q, v, tau = angle[:, None] * along, rng.normal(size=(200, 1)) * along, rng.normal(size=(200, 3))
    factors = 10.0 ** rng.uniform(-2.0, 2.0, size=(200, 3))
    masses = {f"{link.name}.mass": link.body.mass * x for link, x in zip(m.links, factors.T, strict=True)}
    masses |= {f"{link.name}.inertia": link.body.inertia * x[:, None, None] for link, x in zip(m.links, factors.T, strict=True)}
    M, C = (make(m, parameters=list(masses)) for make in (ct.mass_matrix, ct.bias_force))
    mass, force = M(q, **masses) @ along @ along, (tau - C(q, v, **masses)) @ along
    for method in closing_methods(m):
        found = ct.forward_dynamics(m, method, parameters=list(masses))(q, v, tau, **masses)
        assert np.abs(found / (force / mass)[:, None] - along).max() < 1e-8
