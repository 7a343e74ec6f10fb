"""Putting mechanisms together: cranks lead linkages along one branch, a guess picks it, and units of length make no difference."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from tests import mechanisms
from tests.test_constraints import CLOSING, looped

import catena as ct
from catena.assembly import _groups, coordinate_units, gap, loop_owners, loop_units
from catena.examples import EXAMPLES
from catena.formulations.constraints import apart, constraint_jacobian

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
    assert max(gap(m, x).sizes.max() for x in q) < 1e-12
    slopes = []
    for x in q:
        J = _groups(m)[0].apart(x)[1]
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
    assert gap(m, over).sizes.max() < 1e-12
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
    assert gap(m, far).sizes.max() < 1e-12


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
    assert gap(m, q).sizes.max() < 1e-12


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
    assert len(owners) == len(constraint_jacobian(m.tree(), q, apart)[0])
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
        values, J = _groups(m)[0].apart(q)
        found.append((gap(m, q).sizes, values, J * coordinate_units(m)))
    for metres, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, metres, rtol=1e-10, atol=1e-12)
    assert found[0][0].max() > 0.01


def test_the_gap_of_a_distance_is_a_length() -> None:
    m = ct.Model("string")
    m.add("bob", ct.sphere(0.1, mass=1.0), ct.Planar("y"))
    m.close("string", ct.Distance(2.0), "ground", "bob", at_a=(0, 0, 4.0))
    assert gap(m, m.neutral()).sizes.tolist() == [0.5]  # 4 m instead of 2 m, in a mechanism of 4 m
    assert ct.loop_error(m)(m.assemble())[0] < 1e-12
