"""Putting mechanisms together: cranks lead linkages along one branch, a guess picks it, and units of length make no difference."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from tests import mechanisms
from tests.test_constraints import CLOSING, looped

import catena as ct
from catena.examples import EXAMPLES
from catena.formulations.loops.basic_constraints import closure_residual
from catena.formulations.loops.constraints import constraint_jacobian
from catena.loops.assembly import loop_residuals
from catena.loops.groups import LoopGroup, loop_groups
from catena.loops.scaling import coordinate_units, loop_owners, loop_units

pytestmark = [pytest.mark.evaluated, pytest.mark.quick]

#: Cranks and their ranges: more than a turn where they go round, else up to 1 % from where the linkage is stretched.
RANGES: dict[str, tuple[str, float, float]] = {
    "slider-crank": ("crank", -2.0 * np.pi, 2.0 * np.pi),
    "four-bar": ("crank", -np.pi, 2.0 * np.pi),
    "jansen-leg": ("crank", -np.pi, np.pi),
    "peaucellier": ("crank", -0.99 * 2.0 * np.arccos(0.75), 0.99 * 2.0 * np.arccos(0.75)),
    "bennett": ("link1", -np.pi, 2.0 * np.pi),
}


@cache
def sweep(name: str) -> tuple[ct.Model, np.ndarray, np.ndarray]:
    """An example, 100 values of its crank, and the configurations that are found for each of them from nothing else."""
    m = EXAMPLES[name]()
    crank, first, last = RANGES[name]
    angles = np.linspace(first, last, 100)
    return m, angles, np.array([m.assemble(fixed={crank: angle}) for angle in angles])


@pytest.mark.parametrize("name", RANGES)
def test_assembly_is_continuous_in_the_crank(name: str) -> None:
    """It closes for every value of the crank, does not jump, and is nowhere near a place where branches meet."""
    m, angles, q = sweep(name)
    crank = m.q_names.index(RANGES[name][0])
    others = [i for i in range(m.nv) if i != crank]
    assert np.array_equal(q[:, crank], angles)
    assert max(loop_residuals(m, x).sizes.max() for x in q) < 1e-12
    slopes = []
    for x in q:
        J = loop_groups(m)[0].residual(x)[1] / coordinate_units(m)
        sizes = np.linalg.svd(J[:, others], compute_uv=False)
        assert sizes[m.nv - 2] > 0.01 * sizes[0]
        slopes.append(np.linalg.lstsq(J[:, others], -J[:, crank], rcond=1e-9)[0])
    # a cubic from place to place with the slopes that the loops give: what a jump would miss by radians
    h, slope = angles[1] - angles[0], np.array(slopes)
    middle = 0.5 * (q[:-2] + q[2:])[:, others] + 0.5 * h * (slope[:-2] - slope[2:])
    steepest = np.abs(slope[1:-1]).max(axis=1)
    assert (np.abs(q[1:-1][:, others] - middle).max(axis=1) < 0.05 * np.maximum(1.0, steepest)).all()


def test_the_piston_of_a_slider_crank_stays_on_its_side() -> None:
    _, angles, q = sweep("slider-crank")
    throw, length = 0.045, 0.150
    reach = np.sqrt(length**2 - throw**2)
    np.testing.assert_allclose(q[:, 2], throw * np.sin(angles) + np.sqrt(length**2 - (throw * np.cos(angles)) ** 2) - reach, atol=1e-12)
    rod = np.arcsin(throw * np.cos(angles) / length) - np.arcsin(throw / length)  # against the ground; it does not turn with the crank
    np.testing.assert_allclose(q[:, 1], rod - angles, atol=1e-12)


def test_a_guess_on_the_other_side_keeps_the_piston_there() -> None:
    m = EXAMPLES["slider-crank"]()
    throw, length = 0.045, 0.150
    reach = np.sqrt(length**2 - throw**2)
    over = [0.0, np.pi - 2.0 * np.arcsin(throw / length), -2.0 * reach]  # the rod turned over: it points the other way
    assert loop_residuals(m, over).sizes.max() < 1e-12
    for angle in np.linspace(-3.0, 3.0, 13):
        piston = throw * np.sin(angle) - np.sqrt(length**2 - (throw * np.cos(angle)) ** 2) - reach
        assert m.assemble(over, crank=angle)[2] == pytest.approx(piston, abs=1e-12)


def test_bennett_follows_its_relation_from_one_end_to_the_other() -> None:
    _, angles, q = sweep("bennett")
    alpha, beta = np.arcsin(0.5), np.arcsin(0.8)
    constant = np.sin(0.5 * (alpha + beta)) / np.sin(0.5 * (beta - alpha))
    first, second = 0.25 * np.pi + 0.5 * angles, np.arctan(constant) + 0.5 * q[:, 1]
    np.testing.assert_allclose(np.sin(first) * np.sin(second), constant * np.cos(first) * np.cos(second), atol=1e-11)
    np.testing.assert_allclose(q[:, 2], -angles, atol=1e-11)


def test_the_pen_of_peaucellier_follows_the_crank_by_inversion() -> None:
    """Pen and end of the crank are on one ray, and the product of their distances is the difference of the squared lengths."""
    m, angles, q = sweep("peaucellier")
    bar, end = m.body_names.index("left lower"), np.array([*m.loops[2].at_a.p, 1.0])
    pen = ct.poses(m)(q)[:, bar] @ end
    np.testing.assert_allclose(pen[:, 2], -0.525, atol=1e-11)
    np.testing.assert_allclose(pen[:, 0], -0.525 * np.tan(0.5 * angles), atol=1e-11)


def four_bar() -> ct.Model:
    return EXAMPLES["four-bar"]()


def test_results_are_on_the_branch_on_which_nothing_is_fixed() -> None:
    m = four_bar()
    start = m.assemble()
    np.testing.assert_allclose(m.assemble(crank=start[0]), start, atol=1e-12)
    near = m.assemble(crank=start[0] + 1e-6)
    assert np.abs(near - start).max() < 1e-5


def test_a_guess_is_followed_where_it_leads() -> None:
    """Of the two ways to close the loop with the crank at 1 rad, the one on the side of the guess, however rough that is."""
    m = four_bar()
    up, down = m.assemble(crank=1.0), m.assemble([1.0, -2.0, -2.0], crank=1.0)
    assert abs(up[2] - down[2]) > 2.0
    for guess, wanted in (([0.0, -1.5, -1.2], down), ([1.0, -1.5, -1.2], down), ([2.0, -1.5, 1.6], up), ([0.0, *up[1:]], up)):
        np.testing.assert_allclose(m.assemble(guess, crank=1.0), wanted, atol=1e-12)


def test_whole_turns_are_walked_from_the_neutral_position_and_taken_as_they_are_from_a_guess() -> None:
    m = four_bar()
    q, turn = m.assemble(crank=1.0), 2.0 * np.pi
    np.testing.assert_allclose(m.assemble(crank=1.0 + turn), q + [turn, -turn, 0.0], atol=1e-11)
    np.testing.assert_allclose(m.assemble(q, crank=1.0 + turn), q + [turn, 0.0, 0.0], atol=1e-11)
    far = m.assemble(crank=1e5)  # more turns than are walked
    assert far[0] == 1e5
    assert loop_residuals(m, far).sizes.max() < 1e-12


def test_an_unreachable_value_is_refused_with_the_place_where_the_way_ends() -> None:
    """Crank and coupler in line are 1.3 m long: there the rocker of 0.6 m turns back."""
    m = four_bar()
    least = np.pi - np.arccos((1.0 + 0.6**2 - 1.3**2) / (2.0 * 0.6))
    with pytest.raises(ct.ModelError, match=rf"with rocker = 0: led there from the guess it stops at rocker = {least:.4g}, and the best"):
        m.assemble(rocker=0.0)
    assert m.assemble(rocker=least + 1e-3)[2] == least + 1e-3


def test_values_that_the_branch_does_not_reach_are_found_on_another() -> None:
    m = four_bar()
    q = m.assemble(rocker=-1.5)  # the rocker cannot pass between, but the mechanism can be put together there
    assert q[2] == -1.5
    assert loop_residuals(m, q).sizes.max() < 1e-12


def test_several_fixed_coordinates_are_led_together() -> None:
    """Two cranks that stand upright at first, and two arms that meet above them: at the upper one of the two places they can."""
    m = ct.Model("five-bar")
    for name, x in (("left", 0.0), ("right", 0.5)):
        m.add(name, ct.rod(0.4, mass=1.0), ct.Revolute("y"), at=ct.Pose((x, 0, 0), rpy=(0.0, -np.pi / 2, 0.0)))
        m.add(f"{name} arm", ct.rod(0.6, mass=1.0), ct.Revolute("y"), parent=name, at=(0.4, 0, 0))
    m.close("pin", ct.Revolute("y"), "left arm", "right arm", at_a=(0.6, 0, 0), at_b=(0.6, 0, 0))
    for left, right in ((-0.6, 0.9), (0.5, -0.6), (1.2, 1.2), (-1.0, -0.7)):
        q = m.assemble([0.0, 0.4, 0.0, -0.4], left=left, right=right)
        assert q[[0, 2]].tolist() == [left, right]
        elbows = np.array([[0.4 * np.sin(left), 0.4 * np.cos(left)], [0.5 + 0.4 * np.sin(right), 0.4 * np.cos(right)]])
        across = elbows[1] - elbows[0]
        up = np.array([-across[1], across[0]]) / np.linalg.norm(across)
        pin = elbows.mean(axis=0) + np.sqrt(0.6**2 - 0.25 * (across @ across)) * up
        found = ct.poses(m)(q)[1] @ np.array([0.6, 0.0, 0.0, 1.0])
        np.testing.assert_allclose(found[[0, 2]], pin, atol=1e-12)


def test_coordinates_and_rates_that_make_no_sense_are_named() -> None:
    m = EXAMPLES["quarter-car"]()
    with pytest.raises(ct.ModelError, match=r"assemble: wishbone nan is not finite"):
        m.assemble(wishbone=np.nan)
    with pytest.raises(ct.ModelError, match=r"coordinate 'knuckle\.qx' is part of a quaternion and cannot be fixed alone; give a guess"):
        m.assemble(fixed={"knuckle.qx": 0.1})
    with pytest.raises(ct.ModelError, match=r"model 'quarter-car' has no velocity 'knuckle\.qx'; choose from wishbone, knuckle\.wx, "):
        m.project_velocity(m.assemble(), fixed={"knuckle.qx": 0.1})
    with pytest.raises(ct.ModelError, match=r"project_velocity: wishbone inf is not finite"):
        m.project_velocity(m.assemble(), wishbone=np.inf)


def test_rates_of_ball_joints_are_kept_by_name() -> None:
    m = EXAMPLES["quarter-car"]()
    q = m.assemble(wishbone=0.1)
    by_wishbone = m.project_velocity(q, wishbone=2.0)
    spin = by_wishbone[m.v_names.index("knuckle.wz")]
    np.testing.assert_allclose(m.project_velocity(q, fixed={"knuckle.wz": spin}), by_wishbone, rtol=1e-9)


# what constraints are measured by


@pytest.mark.parametrize("kind", CLOSING)
def test_every_value_has_its_unit_and_its_loop(kind: str) -> None:
    m = looped(CLOSING[kind], 1)
    q = m.random(1)
    assert len(loop_units(m)) == len(constraint_jacobian(m.tree(), q)[0])
    owners = [i for i, _ in loop_owners(m)]
    assert len(owners) == len(constraint_jacobian(m.tree(), q, closure_residual)[0])
    assert owners == [0] * (len(owners) - 1) + [1]  # the loop, then the coupling


def chain(joint: Any, scale: float, seed: int) -> tuple[ct.Model, np.ndarray]:
    """Three bodies on joints of all kinds of coordinates, and a closing joint, in metres or in another unit; and a configuration."""
    rng = np.random.default_rng(seed)

    def place() -> ct.Pose:
        at = mechanisms.place(rng)
        return ct.Pose(scale * at.p, matrix=at.R)

    m = ct.Model("chain")
    m.add("a", ct.rod(0.8 * scale, mass=1.0), ct.Spherical(), at=place())
    m.add("b", ct.rod(0.5 * scale, mass=1.0), ct.Cylindrical("y"), parent="a", at=place())
    m.add("c", ct.rod(0.3 * scale, mass=1.0), ct.Universal("x", "y"), parent="b", at=place())
    m.close("loop", joint, "ground", "c", place(), place())
    return m, m.random(seed) * np.where(np.array(m.q_units) == "m", scale, 1.0)


@pytest.mark.parametrize("kind", CLOSING)
def test_gaps_and_jacobians_do_not_depend_on_the_unit_of_length(kind: str) -> None:
    found = []
    for scale in (1.0, 1000.0):
        joint = {"distance": ct.Distance(1.3 * scale), "helical": ct.Helical((1, 1, 1), pitch=0.3 * scale)}.get(kind, CLOSING[kind])
        m, q = chain(joint, scale, 3)
        values, J = loop_groups(m)[0].residual(q)
        found.append((loop_residuals(m, q).sizes, values, J))
    for metres, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, metres, rtol=1e-10, atol=1e-12)
    assert found[0][0].max() > 0.01


def test_the_gap_of_a_distance_is_a_length() -> None:
    m = ct.Model("string")
    m.add("bob", ct.sphere(0.1, mass=1.0), ct.Planar("y"))
    m.close("string", ct.Distance(2.0), "ground", "bob", at_a=(0, 0, 4.0))
    assert loop_residuals(m, m.neutral()).sizes.tolist() == [0.5]  # 4 m instead of 2 m, in a mechanism of 4 m
    assert ct.loop_error(m)(m.assemble())[0] < 1e-12


# home


def test_assembly_mobility_and_kernels_begin_at_home() -> None:
    """The two branches of a four-bar: what is asked without a guess is on the branch of home."""
    m = four_bar()
    upper = m.assemble(crank=1.0)
    lower = m.assemble(-upper)  # mirrored, on the other branch
    assert np.abs(m.assemble(lower, crank=1.0) - upper).max() > 0.5
    for home in (upper, lower):
        m.home = home
        np.testing.assert_allclose(m.assemble(), home, atol=1e-12)
        assert np.abs(m.mobility().q - home).max() < 0.4  # a generic configuration nearby
        np.testing.assert_allclose(m.assemble(crank=1.1), m.assemble(home, crank=1.1), atol=1e-11)
    m.home = None
    assert m.home is None
    np.testing.assert_allclose(m.assemble(), four_bar().assemble(), atol=1e-12)


def far_slider() -> ct.Model:
    """A slider-crank on a carriage of a coordinate that has to be a thousand times its size."""
    m = ct.Model("far slider")
    m.add("carriage", ct.point_mass(1.0), ct.Prismatic("x"))
    m.add("crank", ct.rod(0.1, mass=1.0), ct.Revolute("y"), parent="carriage")
    m.add("rod", ct.rod(0.2, mass=1.0), ct.Revolute("y"), parent="crank", at=(0.1, 0, 0))
    m.add("piston", ct.point_mass(1.0), ct.Prismatic("x"), parent="carriage")
    m.close("pin", ct.Revolute("y"), "rod", "piston", at_a=(0.2, 0, 0))
    m.couple("far away", {"carriage": 1.0, "piston": 1.0}, offset=300.0)
    return m


def test_a_mechanism_that_only_a_guess_closes_has_kernels_once_home_is_there() -> None:
    m = far_slider()
    with pytest.raises(ct.ModelError, match="does not close"):
        ct.forward_dynamics(m)
    home = m.assemble([299.8, 1.0, -1.5, 0.2])
    m.home = home
    fd = ct.forward_dynamics(m)
    vdot = fd(home, np.zeros(4), np.zeros(4))
    assert abs(vdot[0] + vdot[3]) < 1e-9 * np.abs(vdot).max()
    assert ct.simulate(m, m.assemble(), until=0.01).t[-1] == 0.01


@pytest.mark.parametrize(
    ("home", "message"),
    [
        ([0.0, 0.0], r"home \[0\.0, 0\.0\] has shape \(2,\); give 5 finite numbers"),
        ([0.0, np.nan, 0.0, 0.0, 1.0], r"home .* is not finite"),
        ("neutral", r"home 'neutral' is not made of real numbers"),
        (np.zeros(5), r"home of body 'ball' is not a rotation; give a unit quaternion"),
    ],
)
def test_a_home_that_makes_no_sense_is_named(home: Any, message: str) -> None:
    m = ct.Model("crane")
    m.add("trolley", ct.point_mass(5.0), ct.Prismatic("x"))
    m.add("ball", ct.point_mass(2.0, at=(0, 0, -1)), ct.Spherical(), parent="trolley")
    with pytest.raises(ct.ModelError, match=message):
        m.home = home
    m.home = [0.5, 2.0, 0.0, 0.0, 0.0]
    assert m.home is not None
    assert m.home.tolist() == [0.5, 1.0, 0.0, 0.0, 0.0]
    m.home[0] = 7.0  # of a copy
    assert m.assemble().tolist() == [0.5, 1.0, 0.0, 0.0, 0.0]
    m.add("hook", ct.point_mass(1.0), ct.Revolute("x"), parent="ball")
    with pytest.raises(ct.ModelError, match=r"home has 5 positions and the model 6; set m\.home again"):
        m.assemble()


# limits


def limited_four_bar(**limits: tuple[float, float]) -> ct.Model:
    m = ct.Model("limited four-bar")
    m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y", limits=limits.get("crank")))
    m.add("coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y", limits=limits.get("coupler")), parent="crank", at=(0.3, 0, 0))
    m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y", limits=limits.get("rocker")), at=(1, 0, 0))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.6, 0, 0))
    return m


def within(m: ct.Model, q: np.ndarray) -> bool:
    """Whether positions are within all limits."""
    return all(
        bool((link.joint.lower <= q[at]).all() and (q[at] <= link.joint.upper).all()) for link, at, _ in m.slices() if link.joint.limits
    )


@pytest.mark.parametrize("rocker", [(0.5, 2.9), (-2.9, -0.5), (-2.0, -1.0), (1.2, 2.0)])
def test_assembled_positions_keep_to_limits_where_that_is_possible(rocker: tuple[float, float]) -> None:
    """On both branches, from the neutral positions, from random ones, and with the crank held."""
    m = limited_four_bar(rocker=rocker, crank=(-4.0, 4.0))
    starts = [None, *(m.random(seed) for seed in range(10)), m.assemble() + [0.0, 0.0, 3.0]]
    for start in starts:
        q = m.assemble(start)
        assert within(m, q)
        assert loop_residuals(m, q).sizes.max() < 1e-12
    middle = float(m.assemble()[0])
    assert within(m, m.assemble(crank=middle))


def test_limits_that_cannot_be_kept_are_named() -> None:
    m = limited_four_bar(rocker=(-0.1, 0.1), crank=(-4.0, 4.0))
    with pytest.warns(ct.LimitWarning, match=r"that close the loops within all limits; rocker = .*, outside -0\.1 to 0\.1"):
        q = m.assemble()
    assert loop_residuals(m, q).sizes.max() < 1e-12
    assert not within(m, q)
    m.assemble(q)  # a guess that closes the loops is taken as it is, and so is a value that is asked for
    m.assemble(rocker=float(q[2]))


def test_limits_of_joints_that_are_in_no_loop_are_kept_too() -> None:
    m = limited_four_bar()
    m.add("knee", ct.rod(0.3, mass=1.0), ct.Revolute("y", limits=(-2.0, -0.4)), at=(0, 1, 0))
    assert m.assemble()[3] == -0.4
    tree = ct.Model("leg")
    tree.add("knee", ct.rod(0.3, mass=1.0), ct.Revolute("y", limits=(0.3, None)))
    assert tree.assemble().tolist() == [0.3]
    assert tree.assemble([0.1]).tolist() == [0.1]


# searching in batches, and in machine code


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["four-bar", "stewart-ups", "delta", "double-wishbone"])
def test_residuals_by_graphs_and_compiled_equal_those_of_the_formulation(name: str) -> None:
    m = EXAMPLES[name]()
    q = m.random(np.random.default_rng(0), 3)
    for loops in loop_groups(m):
        at = q[:, loops.positions]
        for many in (loops.residual(at), loops.residual(at, often=True)):
            for i, own in enumerate(zip(*many, strict=True)):
                for ours, theirs in zip(loops.residual(at[i]), own, strict=True):
                    np.testing.assert_allclose(theirs, ours, rtol=1e-11, atol=1e-12)


def test_a_batch_settles_where_each_of_its_configurations_does() -> None:
    m = EXAMPLES["double-wishbone"]()
    (loops, *_) = loop_groups(m)
    rng = np.random.default_rng(0)
    free = np.ones(len(loops.columns), dtype=bool)
    q = np.array([m.integrate(m.assemble(), 0.2 * rng.normal(size=m.nv)) for _ in range(4)])[:, loops.positions]
    together, values = loops.settle(q, free)
    assert loops.closed(together, values).all()
    for one, own in zip(q, together, strict=True):
        np.testing.assert_allclose(loops.settle(one[None], free)[0][0], own, atol=1e-9)


def test_a_loop_that_cannot_close_is_given_up_after_few_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start ends where it comes to a minimum or makes no progress."""
    m = ct.Model("too short")
    m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y"))
    m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), at=(1, 0, 0))
    m.close("rod", ct.Distance(5.0), "crank", "rocker", at_a=(0.3, 0, 0), at_b=(0.6, 0, 0))
    evaluated = []
    residual = LoopGroup.residual
    monkeypatch.setattr(LoopGroup, "residual", lambda loops, q, *often, **by: evaluated.append(q.size) or residual(loops, q, *often, **by))
    with pytest.raises(ct.ModelError, match=r"the best of 21 starts leaves loop 'rod' open by 3\.1 m or 0\.62 rad"):
        m.assemble()
    assert sum(evaluated) < 21 * 60 * m.nq


# regular configurations come first


@pytest.mark.compiled  # results are compared bit for bit
def test_random_guesses_do_not_end_on_double_roots() -> None:
    """Guesses out of reach lead to rods in gimbal lock, where the constraints of a Delta robot depend on each other."""
    m = EXAMPLES["delta"]()
    (loops,) = loop_groups(m)
    guesses = m.random(np.random.default_rng(0), 60)
    ends, values = loops.settle(guesses, np.ones(m.nv, dtype=bool))
    singular = [i for i in np.flatnonzero(loops.closed(ends, values)) if not loops.regular(ends[[i]])[0]]
    assert len(singular) > 1
    for i in singular:
        q = m.assemble(guesses[i])
        assert not m.mobility(q).singular
        np.testing.assert_array_equal(EXAMPLES["delta"]().assemble(guesses[i]), q)
        np.testing.assert_allclose(m.assemble(ends[i]), ends[i], atol=1e-6)  # a guess that closes the loops is meant


# the rank of velocities is a matter of geometry


def test_projected_velocities_keep_loops_closed_whatever_the_masses() -> None:
    """A coupler a million times lighter than the crank moves as one of another mass does."""
    found = []
    for mass in (5.0, 5e-6):
        m = ct.Model("four-bar")
        m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y"))
        m.add("coupler", ct.rod(1.0, mass=mass), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
        m.add("rocker", ct.rod(0.6, mass=mass), ct.Revolute("y"), at=(1, 0, 0))
        m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.6, 0, 0))
        found.append(m.project_velocity(m.assemble(crank=1.0), crank=2.0))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


def test_projected_velocities_are_finite_where_a_motion_has_no_mass() -> None:
    """A thin rod on two balls spins about its axis with hardly any inertia; velocities that keep the loops closed stay as they are."""
    m = ct.Model("massless spin")
    m.add("crank", ct.rod(0.3, mass=1.0), ct.Revolute("z"))
    m.add("rod", ct.Body(1e-3, (0.5, 0, 0), np.diag([1e-14, 1e-4, 1e-4])), ct.Spherical(), parent="crank", at=(0.3, 0, 0))
    m.add("slider", ct.point_mass(1.0), ct.Prismatic("x"))
    m.close("ball", ct.Spherical(), "rod", "slider", at_a=(1, 0, 0))
    q = m.assemble(crank=0.7)
    v = m.project_velocity(q, np.ones(m.nv))
    assert np.abs(v).max() < 10.0
    assert np.abs(constraint_jacobian(m.tree(), q)[1].astype(float) @ v).max() < 1e-12
    np.testing.assert_allclose(m.project_velocity(q, v), v, atol=1e-12)


def test_positions_that_leave_a_loop_open_are_refused_wherever_they_matter() -> None:
    from catena.examples import four_bar

    m = four_bar()
    q = m.assemble(crank=1.0) + [0.0, 0.01, 0.0]
    for call in (m.mobility, m.project_velocity, lambda q: ct.forward_dynamics(m, at=q)):
        with pytest.raises(ct.ModelError, match=r"leaves loop 'pin' of model 'four-bar' open, by .*; give positions that close the loops"):
            call(q)


@pytest.mark.parametrize("count", [3, 10])
def test_velocities_of_many_states_are_projected_as_each_alone(count: int) -> None:
    m, rng = mechanisms.SHARED["quarter-car"](), np.random.default_rng(1)
    q = np.stack([m.assemble(wishbone=x) for x in np.linspace(-0.1, 0.1, count)])
    v, rate = rng.normal(size=(2, count, m.nv)), rng.normal(size=(2, count))
    found = m.project_velocity(q, v, wishbone=rate)
    assert found.shape == (2, count, m.nv)
    for k in np.ndindex(2, count):
        np.testing.assert_allclose(found[k], m.project_velocity(q[k[1]], v[k], wishbone=rate[k]), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(m.project_velocity(q, wishbone=2.0)[1], m.project_velocity(q[1], wishbone=2.0), rtol=1e-10, atol=1e-12)
    q[2, 0] += 0.1
    with pytest.raises(ct.ModelError, match=r"project_velocity: q\[2\] leaves loop"):
        m.project_velocity(q)
    with pytest.raises(ct.ModelError, match=r"leading axes do not broadcast: q \(\d+,\), v \(\d+,\)"):
        m.project_velocity(q, np.zeros((count + 1, m.nv)))
