"""Groups of loops that are alike: what is computed once for all of them is what each has by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catena as ct
from catena.formulations.loops.basic_constraints import closure_residual
from catena.formulations.loops.constraints import constraint_jacobian
from catena.formulations.loops.coupled_loops import coupled_loops
from catena.loops.assembly import loop_residuals, moved_along
from catena.loops.groups import alike_groups, loop_groups
from catena.loops.local_trees import signed
from catena.loops.mobility import generic, independent_rows, regular, scaled_blocks
from catena.loops.reduction_plans import reduction_plan
from catena.loops.scaling import coordinate_units, loop_owners, loop_units

pytestmark = [pytest.mark.evaluated, pytest.mark.quick]


def ladder(rockers: Any = (0.6,) * 6, mark: bool = False) -> ct.Model:
    """Return four-bars, each on the coupler of the last; with a mark, couplings and a ball joint on the last coupler too."""
    m, base = ct.Model("ladder"), "ground"
    for i, rocker in enumerate(rockers):
        m.add(f"crank{i}", ct.box(0.1, 0.1, 0.5, mass=1.0, com=(0, 0, 0.25)), ct.Revolute("y"), base)
        m.add(f"coupler{i}", ct.box(1.0, 0.1, 0.1, mass=2.0, com=(0.5, 0, 0)), ct.Revolute("y"), f"crank{i}", (0, 0, 0.5))
        m.add(f"rocker{i}", ct.box(0.1, 0.1, rocker, mass=1.2, com=(0, 0, rocker / 2)), ct.Revolute("y"), base, (1, 0, 0))
        m.close(f"pin{i}", ct.Revolute("y"), f"coupler{i}", f"rocker{i}", at_a=(1, 0, 0), at_b=(0, 0, rocker))
        base = f"coupler{i}"
    if mark:
        m.add("gear1", ct.sphere(0.1, mass=1.0), ct.Revolute("x"), base)
        m.add("gear2", ct.sphere(0.1, mass=1.0), ct.Revolute("x"), base)
        m.couple("mesh", {"gear1": 1.0, "gear2": 2.0})
        m.add("bob", ct.box(0.1, 0.2, 0.3, mass=1.0), ct.Spherical(), base)
        m.close("rod", ct.Distance(0.9), base, "bob", at_a=(0.5, 0.5, 0), at_b=(0.3, 0, 0))
    return m


def scattered(m: ct.Model, seed: int) -> np.ndarray:
    """Return positions that close the loops, other ones for each group."""
    return m.assemble(m.integrate(m.assemble(), 0.3 * np.random.default_rng(seed).normal(size=m.nv)))


def test_groups_are_alike_where_their_constraints_are() -> None:
    assert sorted(len(alike.numbers) for alike in alike_groups(ladder(mark=True))) in ([1, 1, 1, 5], [1, 1, 6])
    other = alike_groups(ladder((0.6, 0.6, 0.6, 0.6, 0.7)))
    assert all(4 not in alike.numbers or len(alike.numbers) == 1 for alike in other)
    assert signed((1.0, np.ones(3), ladder)) == signed((np.float64(1.0), np.ones(3), ladder))
    assert signed(lambda: 0) != signed(lambda: 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_residuals_and_jacobians_of_alike_groups_are_those_of_the_whole_tree(seed: int) -> None:
    """The whole tree is evaluated in floats; alike groups by a graph of one of them."""
    m = ladder(mark=True)
    q = m.random(seed)
    tree, rows, columns = m.tree(), np.array(loop_units(m)), coordinate_units(m)
    values = constraint_jacobian(tree, q, closure_residual)[0].astype(float)
    expected = np.zeros(len(m.loops) + len(m.couplings))
    for (i, unit), value in zip(loop_owners(m, None), values, strict=True):
        expected[i] = max(expected[i], abs(value / unit))
    (rod,) = (i for i, loop in enumerate(m.loops) if loop.name == "rod")
    found = dict(zip(*loop_residuals(m, q), strict=True))
    names = [*(loop.name for loop in m.loops), *(coupling.name for coupling in m.couplings)]
    for i, name in enumerate(names):
        if i != rod:  # a distance is compared as such
            assert found[name] == pytest.approx(expected[i], rel=1e-12, abs=1e-14)
    blocks = scaled_blocks(m, q)
    longest = 0.0
    for group in coupled_loops(tree):
        J = constraint_jacobian(tree, q, group=group)[1].astype(float)
        J = J * columns[list(group.columns)] / rows[list(group.rows)][:, None]
        longest = max(longest, np.linalg.norm(J, axis=1).max())
    for group, block in zip(coupled_loops(tree), blocks, strict=True):
        J = constraint_jacobian(tree, q, group=group)[1].astype(float)
        J = J * columns[list(group.columns)] / rows[list(group.rows)][:, None]
        np.testing.assert_allclose(block * max(longest, 1.0), J, rtol=1e-11, atol=1e-13)


def test_alike_groups_assemble_and_move_as_each_does_alone() -> None:
    m, alone = ladder(), ladder((0.6,))
    rng = np.random.default_rng(0)
    guess, step = m.integrate(m.neutral(), 0.5 * rng.normal(size=m.nv)), 0.2 * rng.normal(size=m.nv)
    q = m.assemble(guess)
    then = moved_along(m, q, step)
    assert loop_residuals(m, q).sizes.max() < 1e-12
    assert loop_residuals(m, then).sizes.max() < 1e-12
    assert regular(m, q)
    for loops in loop_groups(m):
        own = alone.assemble(guess[loops.positions])
        np.testing.assert_allclose(q[loops.positions], own, atol=1e-10)
        np.testing.assert_allclose(then[loops.positions], moved_along(alone, own, step[loops.columns]), atol=1e-10)


def test_a_folded_group_among_alike_ones_is_singular() -> None:
    """Parallelograms on each other, one of them flat: its constraints depend on each other there alone."""
    m = ladder((0.5,) * 6)
    assert max(len(alike.numbers) for alike in alike_groups(m)) >= 5
    q = np.array([[a, -a, a] for a in np.linspace(0.2, 1.2, 6)]).ravel()
    assert regular(m, q)
    assert m.mobility(q).freedom == 6
    q[6:9] = np.array([1.0, -1.0, 1.0]) * np.pi / 2
    assert not regular(m, q)
    found = m.mobility(q)
    assert found.singular
    assert found.freedom == 7


def test_one_of_many_loops_that_does_not_close_is_named() -> None:
    m = ladder((0.6, 0.6, 0.6, 0.6, 2.8, 0.6, 2.8))
    with pytest.raises(ct.ModelError, match=r"leaves loop 'pin4' open"):
        m.assemble()
    held = ladder().assemble(crank3=0.4)
    assert held[ladder().q_names.index("crank3")] == 0.4


@pytest.mark.parametrize("at", ["generic", "scattered"])
def test_plans_of_alike_groups_choose_what_each_would_alone(at: str) -> None:
    m, alone = ladder(), ladder((0.6,))
    q = generic(m)[1] if at == "generic" else scattered(m, 3)
    plan, rows = reduction_plan(m, q), independent_rows(m, q)
    pairs = {pair for stages in (*plan.outboard, *plan.inboard) for stage in stages for pair in stage.closed}
    assert plan.chosen == rows
    for loops in loop_groups(m):
        own = reduction_plan(alone, q[loops.positions])
        group = loops.group
        assert set(group.rows) & set(rows) == {group.rows[i] for i in own.chosen}
        closed = {pair for stages in (*own.outboard, *own.inboard) for stage in stages for pair in stage.closed}
        assert {(i, j) for i, j in pairs if i in group.rows} == {(group.rows[i], group.columns[j]) for i, j in closed}


def test_the_generic_configuration_of_alike_groups_is_alike() -> None:
    m = ladder()
    found = m.mobility()
    assert found.freedom == 6
    assert found.freedoms == (6,)
    assert not found.singular
    for alike in alike_groups(m):
        assert np.ptp(found.q[alike.positions], axis=0).max() == 0.0
    q = scattered(m, 1)
    v, tau = m.project_velocity(q, np.random.default_rng(2).normal(size=m.nv)), np.random.default_rng(3).normal(size=m.nv)
    both = [ct.forward_dynamics(m, method)(q, v, tau) for method in ("coordinate-reduction", "fully-recursive/joint")]
    np.testing.assert_allclose(*both, rtol=1e-8, atol=1e-8)
