"""The algorithms of [J91]: they agree on random trees and on badly conditioned chains, and each does what is said of it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests import mechanisms
from tests.referee import Referee, relative

import catena as ct
from catena.examples import EXAMPLES, chain
from catena.formulations import METHODS
from catena.formulations.inertias import articulated_inertias, composite_inertias
from catena.formulations.kinematics import angular_velocities, bias_wrench, placements
from catena.formulations.linear import armstrong
from catena.formulations.quadratic.conjugate_gradient import TOLERANCE, conjugate_gradients, precondition, product
from catena.kernels.methods import CANDIDATES, automatic

pytestmark = pytest.mark.evaluated

EXACT = [name for name, method in METHODS.items() if not method.iterates]
ITERATIVE = [name for name, method in METHODS.items() if method.iterates]


def solve(problem: str, method: str, m: ct.Model, *arguments: Any) -> np.ndarray:
    return np.asarray(METHODS[method].solves[problem](m.tree(), *arguments), dtype=float)


def results(problem: str, m: ct.Model, *arguments: Any, names: list[str] = EXACT) -> dict[str, np.ndarray]:
    """What every method that fits gives."""
    tree = m.tree()
    fit = [name for name in names if problem in METHODS[name].solves and not METHODS[name].why_unsuitable(tree)]
    return {name: solve(problem, name, m, *arguments) for name in fit}


# all methods agree


@pytest.mark.parametrize("share", [*range(5), *(pytest.param(share, marks=pytest.mark.fuzz) for share in range(5, 20))])
def test_all_methods_agree_on_200_random_trees(share: int) -> None:
    """Trees of 1 to 60 bodies with all joints; every fourth has spherical joints only. Conjugate gradients on the small ones."""
    for seed in range(10 * share, 10 * share + 10):
        rng = np.random.default_rng(seed)
        bodies = int(np.exp(rng.uniform(0.0, np.log(61.0))))
        ball = {"kinds": ("spherical",)} if seed % 4 == 0 else {"options": True}
        m = mechanisms.tree(seed, bodies, branching=float(rng.uniform()), **ball)
        q, v, x = mechanisms.state(m, seed)
        for problem, arguments in (("mass_matrix", (q,)), ("inverse_dynamics", (q, v, x)), ("forward_dynamics", (q, v, x))):
            first, *others = results(problem, m, *arguments).values()
            assert others
            assert all(relative(other, first) < 1e-10 for other in others), (problem, seed)
        assert not ball.get("kinds") or "armstrong" in results("forward_dynamics", m, q, v, x)
        if bodies <= 12:
            mass, right = solve("mass_matrix", "composite-body", m, q), x - solve("bias_force", "newton-euler", m, q, v)
            for vdot in results("forward_dynamics", m, q, v, x, names=ITERATIVE).values():
                assert np.linalg.norm(mass @ vdot - right) < 2.0 * TOLERANCE * np.linalg.norm(right)


def badly_conditioned(which: str, kind: str, seed: int) -> ct.Model:
    """A chain of 12 bodies whose masses differ by a factor of a million."""
    masses = {
        "heavier outward": np.geomspace(1e-3, 1e3, 12), "lighter outward": np.geomspace(1e3, 1e-3, 12),
        "in turn": np.where(np.arange(12) % 2, 1e3, 1e-3), "heavy load": np.r_[np.full(11, 1e-3), 1e3],
    }[which]  # fmt: skip
    rng = np.random.default_rng(seed)
    m = ct.Model(which)
    for k, mass in enumerate(masses):
        joint = ct.Revolute(tuple(rng.normal(size=3))) if kind == "revolute" else ct.Spherical()
        at = ct.Pose(tuple(0.5 * rng.normal(size=3)), rpy=tuple(rng.normal(size=3)))
        body = ct.box(0.3, 0.2, 0.1, mass=float(mass), com=tuple(0.3 * rng.normal(size=3)))
        m.add(f"body{k}", body, joint, parent=f"body{k - 1}" if k else "ground", at=at)
    return m


@pytest.mark.parametrize("kind", ["revolute", "spherical"])
@pytest.mark.parametrize("which", ["heavier outward", "lighter outward", "in turn", "heavy load"])
def test_methods_agree_on_badly_conditioned_chains(which: str, kind: str) -> None:
    """In forces, to rounding, whatever the condition; in accelerations, to the condition number times rounding.

    Condition numbers reach 6e10. Measured: forces within 1e-15; accelerations within 5e-7, composite-body, and 5e-9, the others.
    """
    for seed in range(5):
        m = badly_conditioned(which, kind, seed)
        q, v, tau = mechanisms.state(m, seed)
        mass = solve("mass_matrix", "composite-body", m, q)
        first, *others = results("forward_dynamics", m, q, v, tau).values()
        for other in others:
            assert relative(mass @ other, mass @ first, scale=(np.abs(mass) @ np.abs(first)).max()) < 1e-14
            assert relative(other, first) < 2.2e-16 * np.linalg.cond(mass) + 1e-13


def test_mass_matrices_take_fewer_operations_the_more_structure_they_use() -> None:
    m = chain(12)
    direct, symmetric, composite = (sum(ct.mass_matrix(m, name).operations.values()) for name in ("direct", "symmetric", "composite-body"))
    assert direct > symmetric > composite


def test_mass_matrices_of_deep_trees_are_computed_in_one_frame_where_that_takes_fewer_operations() -> None:
    names = "composite-body/one-frame", "composite-body"
    one, composite = (lambda m, name=name: sum(ct.mass_matrix(m, name).operations.values()) for name in names)
    general = mechanisms.tree(0, 24, ("revolute",), branching=0.0)
    assert one(general) < composite(general)
    assert ct.mass_matrix(general).method.startswith("composite-body/one-frame (auto: ")
    assert one(chain(24)) > composite(chain(24))
    assert ct.mass_matrix(chain(24)).method.startswith("composite-body (auto: ")


# conjugate gradients


def test_conjugate_gradients_need_as_many_steps_as_coordinates() -> None:
    """[J91] (30), with the factor mended: in exact arithmetic; with little rounding here. As printed it does not converge."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(8, 8))
    A, right = A @ A.T + 8.0 * np.eye(8), rng.normal(size=8)
    steps: list[int] = []

    def multiply(x: np.ndarray) -> np.ndarray:
        steps.append(1)
        return A @ x

    x = conjugate_gradients(multiply, np.copy, right, 1e-12)
    assert len(steps) <= 8
    assert relative(A @ x, right) < 1e-12
    assert printed(A, np.diag(np.diag(A)), right, steps=8) > 1e-3


def printed(A: np.ndarray, preconditioner: np.ndarray, right: np.ndarray, steps: int) -> float:
    """The residual after (30) as it is printed: gamma = z.z / r.r of the step before."""
    x, r, p, last = np.zeros_like(right), right, np.zeros_like(right), np.inf
    for _ in range(steps):
        z = np.linalg.solve(preconditioner, r)
        gamma, last = z @ z / last, r @ r
        p = z + gamma * p
        s = z @ r / (p @ A @ p)
        x, r = x + s * p, r - s * (A @ p)
    return float(np.linalg.norm(A @ x - right) / np.linalg.norm(right))


@given(moving=mechanisms.moving_trees(options=True))
def test_product_and_preconditioner_equal_the_mass_matrix_and_its_diagonal_blocks(moving: Any) -> None:
    m, q, x, r = moving
    tree = m.tree()
    mass = solve("mass_matrix", "composite-body", m, q)
    assert relative(np.asarray(product(tree, q, x), dtype=float), mass @ x) < 1e-12
    X, S = placements(tree, q)
    R = composite_inertias(tree, X, tree.M)
    expected = np.zeros(m.nv)
    for k, at in enumerate(tree.v_slices):
        block = np.asarray(S[k].T @ R[k] @ S[k], dtype=float) + np.diag(tree.armature[at])
        assert relative(block, mass[at, at]) < 1e-12
        expected[at] = np.linalg.solve(mass[at, at], r[at])
    assert relative(np.asarray(precondition(tree, q, r), dtype=float), expected) < 1e-10


@pytest.mark.compiled
@pytest.mark.parametrize("method", ITERATIVE)
@pytest.mark.parametrize("example", ["arm", "humanoid", "gallery"])
def test_compiled_conjugate_gradients_reach_their_residual(method: str, example: str) -> None:
    m = EXAMPLES[example]()
    q, v, tau = mechanisms.state(m, 3, batch=(2, 3))
    run, exact = ct.forward_dynamics(m, method), ct.forward_dynamics(m, "articulated-body")
    vdot = run(q, v, tau)
    mass, right = ct.mass_matrix(m)(q), tau - ct.bias_force(m)(q, v)
    residual = np.linalg.norm(np.einsum("...ij,...j", mass, vdot) - right, axis=-1) / np.linalg.norm(right, axis=-1)
    assert run.iterations.shape == run.residual.shape == (2, 3)
    assert np.all((run.iterations > 0) & (run.residual <= run.tolerance) & (np.abs(residual - run.residual) < 1e-12))
    assert np.all(np.abs(vdot - exact(q, v, tau)) <= 1e-7 * np.abs(vdot).max())
    assert np.array_equal(run(q[0, 1], v[0, 1], tau[0, 1]), vdot[0, 1])
    out = np.empty_like(vdot)
    assert run(q, v=v, tau=tau, out=out) is out
    assert np.array_equal(out, vdot)
    assert run(q[:, :1], v[0], tau[0, 0]).shape == vdot.shape


def test_the_block_diagonal_saves_iterations_where_bodies_differ() -> None:
    m = badly_conditioned("lighter outward", "revolute", 0)
    q, v, tau = mechanisms.state(m, 0)
    plain, preconditioned = (ct.forward_dynamics(m, f"conjugate-gradient{kind}") for kind in ("", "/block-diagonal"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ct.ConvergenceWarning)
        plain(q, v, tau)
    preconditioned(q, v, tau)
    assert preconditioned.residual <= preconditioned.tolerance
    assert 1.5 * preconditioned.iterations < plain.iterations


@pytest.mark.parametrize(("bodies", "most"), [(8, 1), (24, 8)])
def test_articulated_bodies_that_know_the_next_joints_save_iterations_on_long_chains(bodies: int, most: int) -> None:
    m = chain(bodies)
    q, v, tau = mechanisms.state(m, 2, batch=(5,))
    plain, preconditioned = (ct.forward_dynamics(m, f"conjugate-gradient{kind}") for kind in ("", "/articulated"))
    expected = ct.forward_dynamics(m, "articulated-body")(q, v, tau)
    for run in (plain, preconditioned):
        assert relative(run(q, v, tau), expected) < 1e-7
    assert np.all(preconditioned.iterations <= most)
    assert np.all(plain.iterations >= bodies)


def test_a_tolerance_that_is_not_reached_is_told() -> None:
    m = badly_conditioned("heavy load", "spherical", 0)
    q, v, tau = mechanisms.state(m, 0, batch=(4,))
    run = ct.forward_dynamics(m, "conjugate-gradient")
    run.tolerance = 1e-17
    with pytest.warns(ct.ConvergenceWarning, match=r"4 of 4 states did not reach the tolerance 1e-17.*the worst, \(\d,\), has a residual"):
        run(q, v, tau)
    run.tolerance = 1e-6
    run(q, v, tau)
    assert np.all(run.residual <= 1e-6)


def test_a_mechanism_at_rest_needs_no_iteration_and_bad_states_stay_their_own() -> None:
    m = ct.Model("weightless", gravity=(0, 0, 0))
    m.add("arm", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
    run = ct.forward_dynamics(m, "conjugate-gradient")
    assert run(np.zeros(1), np.zeros(1), np.zeros(1)).tolist() == [0.0]
    assert run.iterations == 0
    both = run(np.zeros((2, 1)), np.zeros(1), [[np.nan], [1.0]])
    assert np.isnan(both[0, 0])
    assert both[1, 0] == pytest.approx(3.0, rel=1e-12)
    with pytest.raises(ct.ArgumentError, match="'q'"):
        run(np.zeros(2), np.zeros(1), np.zeros(1))


@pytest.mark.compiled
def test_methods_that_iterate_describe_themselves_and_are_not_simulated() -> None:
    m = chain(4)
    run = ct.forward_dynamics(m, "conjugate-gradient/block-diagonal")
    assert run.method == "conjugate-gradient/block-diagonal"
    assert "IterativeKernel forward_dynamics by conjugate-gradient/block-diagonal" in repr(run)
    assert run.signature == ct.forward_dynamics(m, "articulated-body").signature
    assert "J91" in run.cite()
    assert "define" in run.llvm
    assert run.seconds["compile"] >= 0.0
    plain = ct.forward_dynamics(m, "conjugate-gradient")
    assert sum(run.operations.values()) > sum(plain.operations.values()) > 0
    for door in (ct.simulate, ct.rollout):
        arguments = {"until": 0.1} if door is ct.simulate else {"v0": np.zeros(4), "controls": np.zeros((1, 4)), "step": 0.1, "steps": 1}
        with pytest.raises(ct.MethodError, match=r"'conjugate-gradient' iterates.*choose from 'auto', 'composite-body', 'innovations'"):
            door(m, m.neutral(), method="conjugate-gradient", **arguments)


def test_conjugate_gradients_feel_forces_that_depend_on_time() -> None:
    m = chain(3)
    m.add_force("push", lambda t, q, v: [np.sin(t), v[0], 1.0])
    state = (0.7, *mechanisms.state(m, 2))
    assert relative(ct.forward_dynamics(m, "conjugate-gradient")(*state), ct.forward_dynamics(m, "articulated-body")(*state)) < 1e-8


# Armstrong's recursion


def ball_tree(seed: int, bodies: int) -> ct.Model:
    return mechanisms.tree(seed, bodies, ("spherical",), branching=0.4)


@pytest.mark.parametrize("seed", range(10))
def test_armstrong_equals_the_referee_on_trees_of_spherical_joints(seed: int) -> None:
    m = ball_tree(seed, 1 + seed)
    q, v, tau = mechanisms.state(m, seed)
    expected = Referee(m).forward(q, v, tau)
    assert relative(solve("forward_dynamics", "armstrong", m, q, v, tau), expected) < 1e-10
    assert relative(ct.forward_dynamics(m, "armstrong")(q, v, tau), expected) < 1e-10


@pytest.mark.parametrize("seed", range(10))
def test_armstrong_coefficients_are_those_of_articulated_bodies(seed: int) -> None:
    """[J91] (49): P and z, split into angular and linear parts, against the quantities of (48). P a is left out of z, as in the code."""
    m = ball_tree(seed, 2 + seed)
    tree = m.tree()
    q, v, tau = mechanisms.state(m, seed)
    X, S, W, a = angular_velocities(tree, q, v)
    b = [bias_wrench(tree.M, k, W[k], None) for k in range(tree.n)]
    O_w, Y_w, O_F, Y_F, inverse, L = armstrong.coefficients(tree, X, a, b, tau)
    P, D, G = articulated_inertias(tree, X, S, tree.M)
    z = [*b, np.zeros(6)]
    for k in reversed(range(tree.n)):
        p = tree.parent[k]
        N = tau[tree.v_slices[k]]
        e = N - z[k][:3]
        plus = P[k] - G[k] @ S[k].T @ P[k]
        z[p] = z[p] + X[k].force(z[k] + plus @ a[k] + G[k] @ e)
        P11, P12, P22, z_N, z_F = (np.asarray(x, dtype=float) for x in (P[k][:3, :3], P[k][:3, 3:], P[k][3:, 3:], z[k][:3], z[k][3:]))
        turns = [(X[c].rigid().R, O_F[c]) for c in range(tree.n) if tree.parent[c] == k]
        carried = sum(np.asarray(R @ omega @ R.T, dtype=float) for R, omega in turns)
        for got, expected in (
            (inverse[k], P11), (L[k], -P12), (carried + tree.M[k][3:, 3:], P22),
            (O_w[k], -np.linalg.solve(P11, P12)), (O_F[k], P22 - P12.T @ np.linalg.solve(P11, P12)),
            (Y_w[k], np.linalg.solve(P11, N - z_N)), (Y_F[k], z_F + P12.T @ np.linalg.solve(P11, N - z_N)),
        ):  # fmt: skip
            assert relative(np.asarray(got, dtype=float), expected) < 1e-10
        assert relative(np.asarray(D[k].solve(e), dtype=float), np.linalg.solve(P11, N - z_N)) < 1e-10


def test_armstrong_refuses_other_joints_and_armatures() -> None:
    with pytest.raises(ct.MethodError, match=r"'armstrong' does not fit model 'chain': all joints must be spherical, and that of 'link1'"):
        ct.forward_dynamics(chain(3), "armstrong")
    m = ct.Model("geared")
    m.add("ball", ct.sphere(1.0, mass=1.0), ct.Spherical())
    m.add("arm", ct.box(1, 1, 1, mass=1.0), ct.Spherical(armature=0.1), parent="ball", at=(1, 0, 0))
    with pytest.raises(ct.MethodError, match=r"joints must have no armature, and that of 'arm' has one; choose from 'auto'"):
        ct.forward_dynamics(m, "armstrong")


# the choice of a method


def test_auto_takes_the_fewest_operations_of_a_shallow_mechanism_and_says_so() -> None:
    for m in (chain(2), chain(5), EXAMPLES["gallery"](), ball_tree(0, 2)):
        run = ct.forward_dynamics(m)
        name = run.method.split(" (auto: ")[0]
        assert name == automatic("forward_dynamics", m)[0]
        counts = {}
        for other in CANDIDATES:
            if not METHODS[other].why_unsuitable(m.tree()):
                counts[other] = sum(ct.forward_dynamics(m, other).operations.values())
                assert other in run.method
        if not any(link.joint.damping or link.joint.friction for link in m.links):
            assert f"(auto: {counts[name]:,} operations; " in run.method
        assert counts[name] == min(counts.values())


def test_auto_takes_the_linear_recursion_of_a_deep_mechanism_and_says_so() -> None:
    for m in (chain(8), EXAMPLES["humanoid"]()):
        assert automatic("forward_dynamics", m)[0] == "articulated-body"
        assert "(auto: the fastest where coordinates have a mean depth of 4.5 or more" in ct.forward_dynamics(m).method


def test_auto_says_why_for_every_problem() -> None:
    m = chain(3)
    for door, name in ((ct.inverse_dynamics, "newton-euler"), (ct.mass_matrix, "composite-body")):
        counts = {other: sum(door(m, other).operations.values()) for other in ct.methods(door.__name__)}
        assert counts[name] == min(counts.values())
        assert door(m).method == f"{name} (auto: the fewest operations of {len(counts)} methods, give or take one where bodies are few)"
    assert ct.bias_force(m).method == "newton-euler (auto: the only method)"
