"""Mechanisms by their independent coordinates: kinematics of the others, equations of motion, and inverse dynamics with loops."""

from __future__ import annotations

import numpy as np
import pytest
from tests.referee import relative
from tests.test_closed_loops import four_bar, parallelogram, ring
from tests.test_reactions import LOOPS, state

import catena as ct
from catena.examples import EXAMPLES, peaucellier, slider_crank
from catena.examples import four_bar as example_four_bar
from catena.loops.mobility import partition

pytestmark = pytest.mark.evaluated


@pytest.mark.parametrize("name", LOOPS)
def test_the_reduced_equations_are_those_of_the_whole(name: str) -> None:
    m = EXAMPLES[name]()
    r = ct.reduced(m)
    q, v, tau = state(m, 4)
    at = [m.v_names.index(x) for x in r.names]
    N, mass, bias = r.basis(q), r.mass_matrix(q), r.bias_force(q, v)
    assert relative(r.rates(q, v[at]), v) < 1e-12
    assert relative(N @ v[at], v) < 1e-12
    assert v[at] @ mass @ v[at] / 2.0 == pytest.approx(ct.energy(m)(q, v)[0], rel=1e-12)
    acceleration = np.linalg.solve(mass, N.T @ tau - bias)
    vdot = ct.forward_dynamics(m)(q, v, tau)
    assert relative(acceleration, vdot[at]) < 1e-9
    assert relative(r.accelerations(q, v, acceleration), vdot) < 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_rings_in_space_reduce(seed: int) -> None:
    m = ring("spherical", seed)
    r = ct.reduced(m)
    q, v, tau = state(m, seed)
    N = r.basis(q)
    assert N.shape == (m.nv, m.mobility().freedom)
    acceleration = np.linalg.solve(r.mass_matrix(q), N.T @ tau - r.bias_force(q, v))
    assert relative(r.accelerations(q, v, acceleration), ct.forward_dynamics(m)(q, v, tau)) < 1e-9


@pytest.mark.parametrize("name", LOOPS)
def test_inverse_dynamics_undoes_forward_dynamics(name: str) -> None:
    m = EXAMPLES[name]()
    q, v, tau = state(m, 5)
    forward = ct.forward_dynamics(m)
    vdot = forward(q, v, tau)
    independent = m.mobility().independent
    driven = ct.inverse_dynamics(m, actuated=independent)(q, v, vdot)
    least = ct.inverse_dynamics(m)(q, v, vdot)
    assert all(driven[i] == 0.0 for i, x in enumerate(m.v_names) if x not in independent)
    for found in (driven, least):
        assert relative(forward(q, v, found), vdot) < 1e-9
    assert np.linalg.norm(least) <= min(np.linalg.norm(driven), np.linalg.norm(tau)) * (1.0 + 1e-12)


def test_forces_of_least_norm_have_no_part_that_does_nothing() -> None:
    m = four_bar()
    q, v, tau = state(m, 6)
    vdot = ct.forward_dynamics(m)(q, v, tau)
    found = ct.inverse_dynamics(m, actuated=("crank", "rocker"))(q, v, vdot)
    assert found[1] == 0.0
    N = ct.reduced(m).basis(q)[[0, 2]]
    idle = np.linalg.svd(N.T)[2][1]  # forces on crank and rocker that move nothing
    assert abs(idle @ found[[0, 2]]) < 1e-12


def test_motors_that_do_not_hold_the_mechanism_are_refused() -> None:
    m = EXAMPLES["double-wishbone"]()
    with pytest.raises(ct.ModelError, match=r"with 2 of 20 coordinates actuated, .* would move freely, for it has 8 degrees"):
        ct.inverse_dynamics(m, actuated=["left lower wishbone", "right lower wishbone"])
    with pytest.raises(ct.ModelError, match=r"actuated names 'crnk', which is not a velocity coordinate of model .*; choose from crank"):
        ct.inverse_dynamics(four_bar(), actuated=["crnk"])
    with pytest.raises(ct.ModelError, match=r"actuated is 'crank'; give a sequence of names, such as \('crank',\)"):
        ct.inverse_dynamics(four_bar(), actuated="crank")
    tree = ct.Model("arm")
    tree.add("a", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
    tree.add("b", ct.rod(1.0, mass=1.0), ct.Revolute("y"), parent="a", at=(1, 0, 0))
    with pytest.raises(ct.ModelError, match=r"model 'arm' has no loops, and b would move freely; leave actuated= out"):
        ct.inverse_dynamics(tree, actuated=["a"])


def test_motion_that_would_open_loops_is_refused() -> None:
    m = four_bar()
    q, v, _ = state(m, 7)
    inverse = ct.inverse_dynamics(m, actuated=["crank"])
    with pytest.raises(ct.ArgumentError, match=r"the acceleration of the state would open the loops of model 'four-bar'"):
        inverse(q, v, np.ones(3))
    with pytest.raises(ct.ArgumentError, match=r"the velocity of the state would open the loops"):
        inverse(q, np.ones(3), np.ones(3))
    with pytest.raises(ct.ArgumentError, match=r"rates: the state leaves loop 'pin' of model 'four-bar' open"):
        ct.reduced(m).rates(q + 0.1, [1.0])


def test_a_motor_loses_its_hold_at_a_dead_point() -> None:
    """A slider-crank stretched out: no force on the piston turns the crank."""
    m = slider_crank()
    dead = m.assemble(guess=[1.5, -1.3, 0.05], crank=np.pi / 2)
    inverse = ct.inverse_dynamics(m, actuated=["piston"])
    with pytest.warns(ct.SingularWarning, match=r"inverse_dynamics: the state of model 'slider-crank' is singular"):
        found = inverse(dead, np.zeros(3), np.zeros(3))
    assert np.isnan(found).all()
    near = m.assemble(guess=dead, crank=np.pi / 2 - 1e-3)
    turning = ct.reduced(m, ["crank"]).accelerations(near, np.zeros(3), [1.0])
    hold = inverse(near, np.zeros(3), turning)
    assert abs(hold[m.v_names.index("piston")]) > 1e2
    assert relative(ct.forward_dynamics(m)(near, np.zeros(3), hold), turning) < 1e-9


def test_positions_follow_a_branch_over_the_whole_range() -> None:
    m = example_four_bar()
    crank = ct.reduced(m, ["crank"])
    x = np.linspace(0.0, 4.0 * np.pi, 721)[:, None]
    q = crank.positions(x)
    assert q.shape == (721, 3)
    assert np.array_equal(q[:, 0], x[:, 0])
    assert ct.loop_error(m)(q).max() < 1e-12
    assert np.abs(np.diff(q, axis=0)).max() < 0.1  # no jumps
    assert relative(np.sin(q[360]), np.sin(q[0])) < 1e-9  # a turn of the crank brings all back
    rates = crank.rates(q, [1.0])
    assert relative((q[2:] - q[:-2]) / (x[2] - x[0]), rates[1:-1]) < 1e-3
    other = crank.positions([1.0], guess=[1.0, -2.0, -2.0])
    assert np.abs(other - crank.positions([1.0])).max() > 0.5
    assert ct.loop_error(m)(other).max() < 1e-12


def test_positions_far_from_a_guess_keep_to_its_branch() -> None:
    """One guess for a whole path: what is followed from it is continuous, and nothing is wound up by turns."""
    m = example_four_bar()
    x = -np.radians(np.linspace(30.0, 390.0, 721))[:, None]
    start = m.assemble([-0.5, -0.2, -1.4], crank=x[0, 0])
    q = ct.reduced(m, ["crank"]).positions(x, guess=start)
    np.testing.assert_allclose(q[0], start, rtol=0, atol=1e-12)
    assert np.abs(np.diff(q, axis=0)).max() < 0.05
    np.testing.assert_allclose(q[-1] - q[0], [-2.0 * np.pi, 2.0 * np.pi, 0.0], rtol=0, atol=1e-9)


def test_a_point_of_peaucelliers_linkage_goes_straight() -> None:
    m = peaucellier()
    r = ct.reduced(m)
    middle = m.assemble()[[m.q_names.index(name) for name in r.names]]
    q = r.positions(middle + np.linspace(-0.2, 0.2, 41)[:, None])
    frames = ct.poses(m)(q)[:, m.body_names.index("left lower")]
    pen = frames[:, :3, :3] @ m.loops[2].at_a.p + frames[:, :3, 3]
    assert np.ptp(pen[:, 2]) < 1e-10
    assert np.ptp(pen[:, 0]) > 0.1


def test_values_out_of_reach_are_named() -> None:
    m = ct.Model("rocker")
    m.add("crank", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
    m.add("coupler", ct.rod(0.5, mass=1.0), ct.Revolute("y"), parent="crank", at=(1.0, 0, 0))
    m.add("rocker", ct.rod(0.6, mass=1.0), ct.Revolute("y"), at=(1.0, 0, 0))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(0.5, 0, 0), at_b=(0.6, 0, 0))
    crank = ct.reduced(m, ["crank"])
    with pytest.raises(ct.ModelError, match=r"positions: 2 of 3 cannot be reached from the start, the first with crank = 2: a loop"):
        crank.positions([[0.5], [2.0], [3.0]])
    with pytest.raises(ct.ArgumentError, match=r"positions: x has the shape \(2,\); give \(\.\.\., 1\), the values of crank"):
        crank.positions([0.5, 0.6])


def test_independent_coordinates_must_be_as_many_as_freedoms_and_determine_the_rest() -> None:
    m = four_bar()
    with pytest.raises(ct.ModelError, match=r"reduced: 2 independent coordinates are named, and model 'four-bar' has 1 degrees of freedom"):
        ct.reduced(m, ["crank", "rocker"])
    tree = ct.Model("arm")
    tree.add("a", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
    with pytest.raises(ct.ModelError, match=r"reduced: model 'arm' has no loops"):
        ct.reduced(tree)
    two = ct.Model("two")
    for k in range(2):
        two.add(f"a{k}", ct.rod(1.0, mass=1.0), ct.Revolute("y"), at=(0, k, 0))
        two.add(f"b{k}", ct.rod(1.0, mass=1.0), ct.Revolute("y"), at=(0.5, k, 0))
        two.couple(f"c{k}", {f"a{k}": 1.0, f"b{k}": 2.0})
    with pytest.raises(ct.ModelError, match=r"reduced: a0, b0 do not determine b1|a1"):
        ct.reduced(two, ["a0", "b0"])
    assert ct.reduced(two, ["a0", "b1"]).positions([0.4, 0.3]) == pytest.approx([0.4, -0.2, -0.6, 0.3])


def test_other_constraints_are_taken_where_those_planned_are_weak() -> None:
    """A four-bar that stands in the x-z plane is planned at one configuration; a batch over the whole turn is right everywhere."""
    m = parallelogram()
    r = ct.reduced(m, ["crank"])
    angles = np.linspace(0.1, 2.0 * np.pi + 0.1, 200)
    q = np.stack([angles, -angles, angles], axis=1)
    N = r.basis(q)[..., 0]
    assert relative(N, np.broadcast_to([1.0, -1.0, 1.0], N.shape)) < 1e-9


def test_a_partition_keeps_what_it_is_told() -> None:
    m = EXAMPLES["double-wishbone"]()
    q = m.mobility().q
    plain = partition(m, q)
    assert len(plain.groups) == 2
    assert len(plain) == 12
    kept = partition(m, q, never=plain.dependent[:1])
    assert plain.dependent[0] not in kept.dependent
    assert len(kept) == 12
    last = partition(m, q, last=plain.dependent)
    assert set(last.dependent) - set(plain.dependent)
