"""Inertia that a joint does not feel is its parent's: all that happens along the joints stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests import mechanisms
from tests.referee import relative
from tests.test_unified import badly_conditioned

import catena as ct
from catena.formulations import METHODS
from catena.model.tree import HEAVIER, Tree
from catena.spatial import first_moment, inertia_matrix

pytestmark = [pytest.mark.evaluated, pytest.mark.quick]

#: The joints of which the unfelt part is known, and how many of the ten numbers of an inertia it has.
UNFELT = {"revolute": 3, "prismatic": 6, "helical": 1, "cylindrical": 1, "universal": 1, "planar": 1, "spherical": 1, "free": 0}

PROBLEMS = {
    "mass_matrix": "composite-body", "inverse_dynamics": "newton-euler", "momenta": "newton-euler", "velocities": "canonical-momenta",
    "forward_dynamics": "articulated-body", "hamiltonian_dynamics": "canonical-momenta",
}  # fmt: skip


def plain(m: ct.Model) -> Tree:
    """The tree in which every body keeps its inertia."""
    tree = m.tree().marked(lambda: None)
    tree.__dict__["felt"] = tree.M
    return tree


def solved(problem: str, tree: Tree, q: Any, v: Any, x: Any) -> np.ndarray:
    arguments = {"mass_matrix": (q,), "momenta": (q, v), "velocities": (q, v)}.get(problem, (q, v, x))
    found = METHODS[PROBLEMS[problem]].solves[problem](tree, *arguments)
    return np.asarray(np.concatenate(found) if isinstance(found, tuple) else found, dtype=float)


@pytest.mark.parametrize("problem", PROBLEMS)
@given(moving=mechanisms.moving_trees())
def test_regrouped_and_plain_inertias_agree(problem: str, moving: Any) -> None:
    m, q, v, x = moving
    assert relative(solved(problem, m.tree(), q, v, x), solved(problem, plain(m), q, v, x)) < 1e-12


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(
    ("kinds", "branching"), [(("prismatic",), 0.0), (("prismatic", "revolute"), 0.0), (("revolute", "spherical"), 0.6)]
)
def test_regrouped_and_plain_inertias_agree_on_chains_and_branches(problem: str, kinds: tuple[str, ...], branching: float) -> None:
    for seed in range(4):
        m = mechanisms.tree(seed, 15, kinds, branching=branching)
        state = mechanisms.state(m, seed)
        assert relative(solved(problem, m.tree(), *state), solved(problem, plain(m), *state)) < 1e-12


@given(moving=mechanisms.moving_trees())
def test_every_method_agrees_with_plain_inertias_under_wrenches(moving: Any) -> None:
    """Wrenches act on the bodies as they are, whatever inertia is felt of them."""
    m, q, v, tau = moving
    wrenches = [np.random.default_rng(k).normal(size=6) for k in range(m.tree().n + 1)]
    expected = METHODS["articulated-body"].solves["forward_dynamics"](plain(m), q, v, tau, wrenches)
    for name, method in METHODS.items():
        if "forward_dynamics" in method.solves and method.general:
            found = method.solves["forward_dynamics"](m.tree(), q, v, tau, wrenches)
            assert relative(np.asarray(found, dtype=float), np.asarray(expected, dtype=float)) < 1e-10, name


# what a joint does not feel


def basis() -> list[np.ndarray]:
    """The ten inertias of one number each: rotational inertia, first moment, mass."""
    unit = np.eye(3)
    turning = [np.outer(unit[i], unit[j]) + np.outer(unit[j], unit[i]) for i in range(3) for j in range(i + 1)]
    return [
        *(inertia_matrix(J, np.zeros(3), 0.0) for J in turning), *(inertia_matrix(np.zeros((3, 3)), h, 0.0) for h in unit),
        inertia_matrix(np.zeros((3, 3)), np.zeros(3), 1.0),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", UNFELT)
def test_unfelt_part_is_all_that_no_rate_feels_and_no_position_changes(kind: str) -> None:
    for seed in range(3):
        m = mechanisms.chain(seed, 2, ("revolute", kind), in_turn=True)
        m.add("load", mechanisms.body(np.random.default_rng(seed)), ct.Revolute("x"), parent="body1", at=(0.2, -0.3, 0.4))
        tree, positions = m.tree(), [m.random(np.random.default_rng(s)) for s in range(5)]
        rates = np.concatenate([np.asarray(tree.joint_matrix(1, q), dtype=float).T for q in positions])

        def carried(K: np.ndarray, q: Any, tree: Tree = tree) -> np.ndarray:
            """K of body 1 in the frame of its parent."""
            return tree.placement(1, q).inertia(K).astype(float)

        def shown(K: np.ndarray, rates: np.ndarray = rates, positions: Any = positions) -> np.ndarray:
            """What the rates feel of K, and how it changes with the positions."""
            changes = [carried(K, q) - carried(K, positions[0]) for q in positions]
            return np.concatenate([np.ravel(part) for part in (rates @ K, *changes)])

        parts = [tree.motion[1].regroupable(K) for K in basis()]
        for outer, inner in parts:
            assert np.abs(shown(outer)).max() < 1e-13
            assert relative(tree.before[1].inertia(inner).astype(float), carried(outer, positions[0]), scale=1.0) < 1e-13
        free = 10 - np.linalg.matrix_rank(np.array([shown(K) for K in basis()]), tol=1e-9)
        found = np.linalg.matrix_rank(np.array([np.ravel(outer) for outer, _ in parts]), tol=1e-9)
        assert free == found == UNFELT[kind]


def test_three_numbers_of_every_revolute_body_become_zero() -> None:
    *inner, last = mechanisms.denavit_hartenberg(8).tree().regrouped
    for M in (*inner, last):
        assert M[3, 3] == first_moment(M)[2] == M[1, 1] == 0.0
        assert np.count_nonzero(M) == (12 if M is last else 16)  # the last body has its centre of mass over the x axis


@pytest.mark.parametrize("geometry", ["general", "aligned", "origin"])
def test_felt_inertias_have_the_form_of_rigid_bodies(geometry: str) -> None:
    for seed in range(5):
        for M in mechanisms.tree(seed, 12, geometry=geometry).tree().regrouped:
            assert np.array_equal(M, inertia_matrix(M[:3, :3], first_moment(M), M[3, 3]))
            assert np.array_equal(M, M.T)


def test_bodies_take_no_more_than_a_thousand_times_their_mass() -> None:
    """Chains whose masses grow outward; a massless body in between hands on what it is given."""
    for ratio, kept in ((0.5 * HEAVIER, 0.0), (2.0 * HEAVIER, 2.0 * HEAVIER)):
        m = ct.Model("load")
        m.add("base", ct.box(0.1, 0.1, 0.1, mass=1.0), ct.Revolute("x"))
        m.add("cross", ct.Body(0.0), ct.Revolute("y"), parent="base", at=(0.3, 0.0, 0.0))
        m.add("load", ct.box(0.1, 0.1, 0.1, mass=ratio), ct.Revolute("z"), parent="cross")
        assert [M[3, 3] for M in m.tree().regrouped] == [0.0, kept, 0.0]


@pytest.mark.parametrize("kind", ["revolute", "spherical"])
@pytest.mark.parametrize("which", ["heavier outward", "lighter outward", "in turn", "heavy load"])
def test_regrouping_loses_no_digits_on_badly_conditioned_chains(which: str, kind: str) -> None:
    """Forces by articulated bodies against those of plain inertias. Measured: both within 2e-16 of what longer numbers give."""
    for seed in range(5):
        m = badly_conditioned(which, kind, seed)
        state = mechanisms.state(m, seed)
        mass = solved("mass_matrix", plain(m), *state)
        first, second = (solved("forward_dynamics", tree, *state) for tree in (plain(m), m.tree()))
        assert relative(mass @ second, mass @ first, scale=(np.abs(mass) @ np.abs(first)).max()) < 2e-15
