"""The spatial operators satisfy the identities of [J91], and the products equal them.

Tolerances are relative to the largest entry of what is compared, or to the scale of the terms that make it up.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from scipy.sparse.linalg import LinearOperator, cg, eigsh, svds
from tests import mechanisms
from tests.referee import Referee, relative

import catena as ct
from catena.examples import arm, chain, gallery, humanoid
from catena.formulations import operators as formulas
from catena.formulations.frames import jacobian
from catena.formulations.inverse.newton_euler import bias_force, inverse_dynamics
from catena.formulations.kinematics import rest_acceleration, velocities
from catena.formulations.linear.articulated_body import forward_dynamics
from catena.formulations.mass.composite_body import mass_matrix
from catena.formulations.operational_space import operational_inverse
from catena.spatial import cross_motion, gyroscopic
from catena.spatial_operators import kernels

pytestmark = pytest.mark.evaluated

TOLERANCE = 1e-10

PRODUCTS = ("mass", "mass_inverse", "mass_sqrt", "mass_inverse_sqrt")


def floats(x: Any) -> np.ndarray:
    return np.asarray(x, dtype=float)


def mass_of(m: ct.Model, q: Any) -> np.ndarray:
    return floats(mass_matrix(m.tree(), q))


def armature_of(m: ct.Model) -> np.ndarray:
    return np.diag(m.tree().armature)


def bias_terms(m: ct.Model, ops: ct.Operators, q: Any, v: Any) -> tuple[np.ndarray, np.ndarray]:
    """Bias accelerations a and gyroscopic forces b of all bodies in the user's frames; gravity is in a of the bodies on the ground."""
    tree = m.tree()
    X, S, V = velocities(tree, q, v)
    rows_a, rows_b = [], []
    for k, name in enumerate(ops.bodies):
        frame = tree.frames[name][1]
        a = cross_motion(V[k], S[k] @ v[tree.v_slices[k]]) + tree.joint_bias(k, q, v)
        lifted = a + X[k].motion(rest_acceleration(tree)) if tree.parent[k] < 0 else a
        rows_a.append(frame.motion(lifted))
        rows_b.append(frame.inverse().force(gyroscopic(tree.M[k], V[k])))
    return floats(np.concatenate(rows_a)), floats(np.concatenate(rows_b))


def square(ops: ct.Operators) -> tuple[np.ndarray, np.ndarray]:
    """[I + H phi K] and [I - H psi K]."""
    one = np.eye(len(ops.H))
    return one + ops.H @ ops.phi @ ops.K, one - ops.H @ ops.psi @ ops.K


# the dense operators


@given(moving=mechanisms.moving_trees())
def test_velocities_equal_those_of_the_bodies_in_the_users_frames(moving: Any) -> None:
    """(18), (21): V = E_phi* V + H* v = phi* H* v, against the referee."""
    m, q, v, _ = moving
    ops = ct.operators(m, q)
    V = ops.phi.T @ ops.H.T @ v
    assert relative(V, ops.E_phi.T @ V + ops.H.T @ v) < TOLERANCE
    referee = Referee(m)
    at = referee.motion(q, v)
    expected = [part for name in ops.bodies for i in [referee.index[name]] for part in (at.R[i].T @ at.omega[i], at.R[i].T @ at.v[i])]
    assert relative(V, np.concatenate(expected)) < TOLERANCE


@given(moving=mechanisms.moving_trees(fixed=0.0))
def test_inertias_equal_those_of_the_bodies_in_the_users_frames(moving: Any) -> None:
    m, q, _, _ = moving
    blocks = [link.body.matrix() for link in m.links]
    M = ct.operators(m, q).M
    for k, block in enumerate(blocks):
        at = slice(6 * k, 6 * k + 6)
        assert relative(M[at, at], block) < TOLERANCE
    assert np.count_nonzero(M) <= 36 * len(blocks)


@given(moving=mechanisms.moving_trees(options=False, gravity=(0.0, 0.0, 0.0)))
def test_forces_satisfy_the_newton_euler_equations(moving: Any) -> None:
    """(18), (21) with a and b: accelerations, forces across the joints, joint forces and the bias force."""
    m, q, v, vdot = moving
    ops = ct.operators(m, q)
    a, b = bias_terms(m, ops, q, v)
    alpha = ops.phi.T @ (ops.H.T @ vdot + a)
    f = ops.phi @ (ops.M @ alpha + b)
    assert relative(alpha, ops.E_phi.T @ alpha + ops.H.T @ vdot + a) < TOLERANCE
    assert relative(f, ops.E_phi @ f + ops.M @ alpha + b) < TOLERANCE
    assert relative(ops.H @ f, floats(inverse_dynamics(m.tree(), q, v, vdot))) < TOLERANCE
    C = ops.H @ ops.phi @ (ops.M @ ops.phi.T @ a + b)
    assert relative(C, floats(bias_force(m.tree(), q, v)), scale=np.abs(ops.H @ f).max()) < TOLERANCE


@given(moving=mechanisms.moving_trees())
def test_phi_and_psi_are_the_sums_of_nilpotent_shifts(moving: Any) -> None:
    """(19), (20), (53), (54)."""
    m, q, _, _ = moving
    ops = ct.operators(m, q)
    n = len(ops.bodies)
    for E, closure in ((ops.E_phi, ops.phi), (ops.E_psi, ops.psi)):
        power, total = np.eye(6 * n), np.zeros((6 * n, 6 * n))
        for _ in range(n):
            total, power = total + power, power @ E
        assert np.array_equal(power, np.zeros_like(power))
        assert relative(closure, total) < TOLERANCE
        assert relative(closure @ (np.eye(6 * n) - E), np.eye(6 * n), scale=np.abs(closure).max()) < TOLERANCE
        assert np.array_equal(closure, np.triu(closure))
    parents = m.tree().parent
    shifts = {(k // 6, j // 6) for k, j in np.argwhere(ops.E_phi)}
    assert shifts == {(p, k) for k, p in enumerate(parents) if p >= 0}


@given(moving=mechanisms.moving_trees(options=False))
def test_generalised_forces_of_bae_and_haug(moving: Any) -> None:
    """(50)-(52), at rest: Q = phi^-1 f, H phi (M alpha - Q) = 0, and P alpha = f - z = Q + L, where L is what is passed on of f - z+."""
    m, q, T, _ = moving
    ops = ct.operators(m, q)
    vdot = np.linalg.solve(mass_of(m, q), T)
    alpha = ops.phi.T @ ops.H.T @ vdot
    f = ops.phi @ ops.M @ alpha
    Q = f - ops.E_phi @ f
    size = np.abs(f).max()
    assert relative(ops.phi @ Q, f) < TOLERANCE
    assert relative(ops.H @ ops.phi @ Q, T, size) < TOLERANCE
    assert relative(ops.H @ ops.phi @ (ops.M @ alpha), ops.H @ ops.phi @ Q, size) < TOLERANCE
    z = ops.psi @ ops.K @ T
    z_plus = z + ops.G @ (T - ops.H @ z)
    L = ops.E_phi @ (f - z_plus)
    scale = max(size, np.abs(z).max())
    assert relative(ops.P @ alpha, f - z, scale) < TOLERANCE
    assert relative(ops.P @ alpha, Q + L, scale) < TOLERANCE


@given(moving=mechanisms.moving_trees())
def test_composite_inertias(moving: Any) -> None:
    """Lemma 3.1 (26), (27), and the mass matrix of (28)."""
    m, q, _, _ = moving
    ops = ct.operators(m, q)
    tilde = ops.phi - np.eye(len(ops.phi))
    assert relative(ops.M, ops.R - ops.E_phi @ ops.R @ ops.E_phi.T, scale=np.abs(ops.R).max()) < TOLERANCE
    whole = ops.phi @ ops.M @ ops.phi.T
    parts = ops.R + tilde @ ops.R + ops.R @ tilde.T
    assert relative(whole, parts) < TOLERANCE
    for factored in (whole, parts):
        assert relative(ops.H @ factored @ ops.H.T + armature_of(m), mass_of(m, q)) < TOLERANCE
    assert relative(mass_of(m, q), Referee(m).mass_matrix(q)) < TOLERANCE


@given(moving=mechanisms.moving_trees())
def test_composite_forces(moving: Any) -> None:
    """Lemma 3.2: f = R alpha + y, y = phi~ R H* vdot."""
    m, q, _, vdot = moving
    ops = ct.operators(m, q)
    tilde = ops.phi - np.eye(len(ops.phi))
    alpha = ops.phi.T @ ops.H.T @ vdot
    f, y = ops.phi @ ops.M @ alpha, tilde @ ops.R @ ops.H.T @ vdot
    assert relative(f, ops.R @ alpha + y, scale=np.abs(y).max()) < TOLERANCE
    assert relative(y, ops.E_phi @ (y + ops.R @ ops.H.T @ vdot)) < TOLERANCE  # (29)


@given(moving=mechanisms.moving_trees())
def test_articulated_quantities_are_made_of_each_other(moving: Any) -> None:
    """(32), (33), (39), (53), and the recursion of (45): what armatures leave as it is."""
    m, q, _, _ = moving
    ops = ct.operators(m, q)
    one = np.eye(len(ops.phi))
    assert relative(ops.D, ops.H @ ops.P @ ops.H.T + armature_of(m)) < TOLERANCE
    assert relative(ops.G @ ops.D, ops.P @ ops.H.T) < TOLERANCE
    assert relative(ops.K, ops.E_phi @ ops.G) < TOLERANCE
    assert relative(ops.tau, ops.G @ ops.H) < TOLERANCE
    assert relative(ops.tau_bar, one - ops.G @ ops.H) < TOLERANCE
    assert relative(ops.E_psi, ops.E_phi @ ops.tau_bar) < TOLERANCE
    size = np.abs(ops.P).max()
    assert relative(ops.M, ops.P - ops.E_psi @ ops.P @ ops.E_phi.T, scale=size) < TOLERANCE  # (40)
    assert relative(ops.P @ ops.tau_bar.T, ops.tau_bar @ ops.P, scale=size) < TOLERANCE  # (41)
    assert relative(ops.M, ops.P - ops.E_phi @ ops.P @ ops.E_phi.T + ops.K @ ops.D @ ops.K.T, scale=size) < TOLERANCE


@given(moving=mechanisms.moving_trees(options=False))
def test_projections_without_armatures(moving: Any) -> None:
    """(38), tau^2 = tau, (41), (42)."""
    m, q, _, _ = moving
    ops = ct.operators(m, q)
    assert not armature_of(m).any()
    size, inertia = np.abs(ops.tau).max() ** 2, np.abs(ops.P).max()
    assert relative(ops.tau_bar.T @ ops.H.T, np.zeros_like(ops.H.T), scale=size) < TOLERANCE
    assert relative(ops.H @ ops.P @ ops.tau_bar.T, np.zeros_like(ops.H), scale=inertia) < TOLERANCE
    assert relative(ops.tau @ ops.tau, ops.tau, scale=size) < TOLERANCE
    assert relative(ops.tau_bar @ ops.tau_bar, ops.tau_bar, scale=size) < TOLERANCE
    scale = inertia * size
    assert relative(ops.tau_bar @ ops.P @ ops.tau_bar.T, ops.tau_bar @ ops.P, scale=scale) < TOLERANCE
    assert relative(ops.E_psi @ ops.P @ ops.E_psi.T + ops.M, ops.P, scale=scale) < TOLERANCE


def test_with_an_armature_tau_is_no_projection() -> None:
    m = ct.Model("wheel")
    m.add("wheel", ct.sphere(0.1, mass=1.0), ct.Revolute("z", armature=0.5))
    tau = ct.operators(m, [0.0]).tau
    assert np.abs(tau @ tau - tau).max() > 1e-3


@given(moving=mechanisms.moving_trees())
def test_square_factors_and_inverses(moving: Any) -> None:
    """Lemmas 6.1, 6.2, 6.3, 6.4 and (57), (58), (59); with and without armatures."""
    m, q, _, _ = moving
    ops = ct.operators(m, q)
    one, joints = np.eye(len(ops.phi)), np.eye(m.nv)
    tilde = ops.phi - one
    mass, D_inverse = mass_of(m, q), np.linalg.inv(ops.D)
    factor, inverse = square(ops)
    assert relative(one - ops.E_psi, one - ops.E_phi + ops.K @ ops.H) < TOLERANCE  # 6.1
    assert relative(np.linalg.inv(ops.psi), np.linalg.inv(ops.phi) + ops.K @ ops.H) < TOLERANCE
    assert relative(factor @ ops.D @ factor.T, mass) < TOLERANCE  # 6.2
    scale = np.abs(factor).max() * np.abs(inverse).max()
    assert relative(factor @ inverse, joints, scale=scale) < TOLERANCE  # 6.3
    assert relative(inverse @ factor, joints, scale=scale) < TOLERANCE
    assert relative(inverse.T @ D_inverse @ inverse, np.linalg.inv(mass)) < TOLERANCE  # 6.4
    assert relative(inverse @ ops.H @ ops.phi, ops.H @ ops.psi, scale=np.abs(inverse).max() * np.abs(ops.phi).max()) < TOLERANCE  # (57)
    assert relative(ops.psi @ ops.M @ ops.phi.T, ops.psi @ ops.P + ops.P @ tilde.T, scale=np.abs(ops.P).max()) < TOLERANCE  # (58)
    left = inverse.T @ D_inverse @ ops.H @ ops.P @ tilde.T  # (59)
    assert relative(left, inverse.T @ ops.K.T @ ops.phi.T, scale=np.abs(ops.K.T @ ops.phi.T).max()) < TOLERANCE
    assert relative(left, ops.K.T @ ops.psi.T, scale=np.abs(ops.K.T @ ops.phi.T).max()) < TOLERANCE


@given(moving=mechanisms.moving_trees())
def test_articulated_body_algorithm_at_rest(moving: Any) -> None:
    """(55) and the expressions below it, the force decomposition (31), and the recursions (43), (46)."""
    m, q, _, T = moving
    ops = ct.operators(m, q)
    _, inverse = square(ops)
    z = ops.psi @ ops.K @ T
    e = T - ops.H @ z
    nu = np.linalg.solve(ops.D, e)
    alpha = ops.psi.T @ ops.H.T @ nu
    vdot = nu - ops.K.T @ alpha
    assert relative(vdot, np.linalg.solve(mass_of(m, q), T)) < TOLERANCE
    assert relative(vdot, inverse.T @ np.linalg.solve(ops.D, inverse @ T)) < TOLERANCE
    assert relative(alpha, ops.phi.T @ ops.H.T @ vdot) < TOLERANCE
    size = max(np.abs(z).max(), np.abs(ops.P @ alpha).max())
    assert relative(z, ops.E_psi @ z + ops.K @ T) < TOLERANCE
    assert relative(z, ops.E_phi @ (z + ops.G @ e)) < TOLERANCE
    assert relative(ops.phi @ ops.M @ alpha, ops.P @ alpha + z, scale=size) < TOLERANCE  # (31)
    assert relative(vdot, nu - ops.G.T @ ops.E_phi.T @ alpha) < TOLERANCE


@given(moving=mechanisms.moving_trees(options=False))
def test_forward_dynamics_with_velocity_terms(moving: Any) -> None:
    """(56), Lemma 6.5 (which ends in K* psi* a) and the recursions of (60), with spatial accelerations, gravity included."""
    m, q, v, T = moving
    ops = ct.operators(m, q)
    a, b = bias_terms(m, ops, q, v)
    _, inverse = square(ops)
    expected = floats(forward_dynamics(m.tree(), q, v, T))
    C = ops.H @ ops.phi @ (b + ops.M @ ops.phi.T @ a)
    assert relative(inverse.T @ np.linalg.solve(ops.D, inverse @ (T - C)), expected) < TOLERANCE
    force = T - ops.H @ ops.psi @ (ops.K @ T + b + ops.P @ a)
    assert relative(inverse.T @ np.linalg.solve(ops.D, force) - ops.K.T @ ops.psi.T @ a, expected) < TOLERANCE

    z = np.zeros(len(a))
    for k in reversed(range(len(ops.bodies))):  # a body's rows of z are complete once its children's are
        rows = slice(6 * k, 6 * k + 6)
        e = T - ops.H @ z
        z[rows] = (ops.E_phi @ (z + ops.G @ e) + ops.P @ a + b)[rows]
    nu = np.linalg.solve(ops.D, T - ops.H @ z)
    alpha, vdot = np.zeros(len(a)), np.zeros(m.nv)
    for k, at in enumerate(m.tree().v_slices):
        rows = slice(6 * k, 6 * k + 6)
        plus = ops.E_phi.T @ alpha
        vdot[at] = (nu - ops.G.T @ plus)[at]
        alpha[rows] = (plus + ops.H.T @ vdot + a)[rows]
    assert relative(vdot, expected) < TOLERANCE


@given(moving=mechanisms.moving_trees(options=True))
def test_forward_dynamics_with_armatures(moving: Any) -> None:
    """Lemma 6.5 holds with armatures as it stands."""
    m, q, v, T = moving
    ops = ct.operators(m, q)
    a, b = bias_terms(m, ops, q, v)
    _, inverse = square(ops)
    force = T - ops.H @ ops.psi @ (ops.K @ T + b + ops.P @ a)
    vdot = inverse.T @ np.linalg.solve(ops.D, force) - ops.K.T @ ops.psi.T @ a
    assert relative(vdot, floats(forward_dynamics(m.tree(), q, v, T))) < TOLERANCE


def test_dense_operators_are_made_once_and_read_only() -> None:
    ops = ct.operators(arm(), np.zeros(7))
    for name in ("E_phi", "phi", "E_psi", "psi", "H", "M", "R", "P", "tau", "tau_bar", "D", "G", "K"):
        dense = getattr(ops, name)
        assert getattr(ops, name) is dense
        with pytest.raises(ValueError, match="read-only"):
            dense[0, 0] = 1.0


# products, eagerly


@given(moving=mechanisms.moving_trees())
def test_recursions_equal_the_dense_factors(moving: Any) -> None:
    """W = [I + H phi K] D^(1/2), its inverse and transposes, M^-1, and the logarithm of the determinant."""
    m, q, _, _ = moving
    tree, ops, mass = m.tree(), ct.operators(m, q), mass_of(m, q)
    factors = formulas.factors(tree, q)

    def matrix(product: Any) -> np.ndarray:
        return np.stack([floats(product(tree, factors, unit)) for unit in np.eye(m.nv)], axis=1)

    W, V = matrix(formulas.root), matrix(formulas.root_inverse_transposed)
    assert relative(W @ W.T, mass) < TOLERANCE
    assert relative(W, np.linalg.cholesky(mass[::-1, ::-1])[::-1, ::-1]) < TOLERANCE  # upper triangular, with a positive diagonal
    factor, inverse = square(ops)
    C = np.zeros((m.nv, m.nv))
    for at, block in zip(tree.v_slices, factors.C, strict=False):
        C[at, at] = floats(block)
    assert relative(C @ C.T, ops.D) < TOLERANCE
    assert relative(W, factor @ C) < TOLERANCE
    assert relative(V, inverse.T @ np.linalg.inv(C).T) < TOLERANCE
    assert relative(V @ V.T, np.linalg.inv(mass)) < TOLERANCE
    assert relative(matrix(formulas.root_transposed), W.T) < TOLERANCE
    assert relative(matrix(formulas.root_inverse), V.T) < TOLERANCE
    assert relative(matrix(formulas.mass_inverse), np.linalg.inv(mass)) < TOLERANCE
    assert float(formulas.log_det_mass(tree, factors)) == pytest.approx(np.linalg.slogdet(mass)[1], rel=TOLERANCE, abs=TOLERANCE)


@given(moving=mechanisms.moving_trees())
def test_operational_inverse_equals_the_jacobian_around_the_inverse_mass_matrix(moving: Any) -> None:
    m, q, _, _ = moving
    mass, point = mass_of(m, q), np.array([0.1, -0.2, 0.3])
    for name in (m.body_names[0], m.body_names[-1]):
        J = floats(jacobian(m.tree(), q, name, point))
        value = floats(operational_inverse(m.tree(), q, name, point))
        assert np.array_equal(value, value.T)
        assert relative(value, J @ np.linalg.solve(mass, J.T)) < TOLERANCE


# products, compiled


def weighed_chain() -> ct.Model:
    return mechanisms.chain(3, 24, mechanisms.SIMPLE, options=True)


MODELS: dict[str, Any] = {
    "arm": arm, "gallery": gallery, "humanoid": humanoid, "weighed chain": weighed_chain,
    "tree": lambda: mechanisms.tree(7, 5), "weighed tree": lambda: mechanisms.tree(8, 11, in_turn=True, options=True),
    "floating": lambda: mechanisms.tree(9, 2, floating=True), "slider": lambda: mechanisms.chain(0, 1, ["prismatic"], geometry="origin"),
}  # fmt: skip


@cache
def case(name: str) -> SimpleNamespace:
    """A model, its operators at a random configuration, and its mass matrix there."""
    m = MODELS[name]()
    q = m.random(11)
    return SimpleNamespace(m=m, q=q, ops=ct.operators(m, q), mass=mass_of(m, q))


@pytest.mark.compiled
@pytest.mark.parametrize("name", MODELS)
def test_compiled_products_equal_dense_ones(name: str) -> None:
    at = case(name)
    ops, mass = at.ops, at.mass
    factors, inverse = np.linalg.cholesky(mass[::-1, ::-1])[::-1, ::-1], np.linalg.inv(mass)
    dense = {"mass": mass, "mass_inverse": inverse, "mass_sqrt": factors, "mass_inverse_sqrt": np.linalg.inv(factors).T}
    X = np.random.default_rng(2).normal(size=(at.m.nv, 19))
    for product in PRODUCTS:
        operator, matrix = getattr(ops, product), dense[product]
        assert isinstance(operator, LinearOperator)
        assert operator.shape == matrix.shape
        assert operator.dtype == float
        for A, B in ((operator, matrix), (operator.H, matrix.T), (operator.T, matrix.T)):
            expected = B @ X
            assert relative(A @ X, expected) < TOLERANCE
            assert relative(A @ X[:, 0], expected[:, 0]) < TOLERANCE
            assert (A @ X[:, :1]).shape == (at.m.nv, 1)
            assert relative(A @ np.asfortranarray(X), expected) < TOLERANCE
            assert (A @ X[:, :0]).shape == (at.m.nv, 0)
    assert ops.log_det_mass == pytest.approx(np.linalg.slogdet(mass)[1], rel=TOLERANCE, abs=TOLERANCE)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("product", PRODUCTS)
def test_adjoints(name: str, product: str) -> None:
    operator = getattr(case(name).ops, product)
    x, y = np.random.default_rng(4).normal(size=(2, operator.shape[0]))
    left, right = x @ (operator @ y), (operator.H @ x) @ y
    scale = np.linalg.norm(x) * np.linalg.norm(operator @ y)
    assert abs(left - right) < TOLERANCE * scale


def test_products_take_numbers_of_any_kind() -> None:
    at = case("arm")
    whole, x = np.arange(7), np.random.default_rng(0).normal(size=7)
    assert relative(at.ops.mass @ whole, at.mass @ whole) < TOLERANCE
    assert relative(at.ops.mass @ x.astype(np.float32), at.mass @ x.astype(np.float32)) < TOLERANCE
    turned = at.ops.mass_sqrt @ (x + 2j * x[::-1])
    assert relative(turned.imag, 2.0 * (at.ops.mass_sqrt @ x[::-1])) < TOLERANCE
    assert relative(turned.real, at.ops.mass_sqrt @ x) < TOLERANCE
    with pytest.raises(ValueError):
        at.ops.mass @ np.ones(8)


def test_scipy_solves_and_finds_eigenvalues_with_the_operators() -> None:
    at = case("humanoid")
    ops, mass, nv = at.ops, at.mass, at.m.nv
    b = np.random.default_rng(5).normal(size=nv)
    x, left = cg(ops.mass, b, rtol=1e-12, M=ops.mass_inverse)
    assert left == 0
    assert relative(x, np.linalg.solve(mass, b)) < 1e-8
    exact = np.linalg.eigvalsh(mass)
    assert relative(np.sort(eigsh(ops.mass, k=4, return_eigenvectors=False)), exact[-4:]) < TOLERANCE
    assert relative(np.sort(eigsh(ops.mass_inverse, k=4, return_eigenvectors=False)), np.sort(1.0 / exact[:4])) < 1e-8
    assert relative(np.sort(svds(ops.mass_sqrt, k=3, return_singular_vectors=False)) ** 2, exact[-3:]) < 1e-8
    stiffness = np.diag(np.linspace(1.0, 3.0, nv))  # modes of springs in the joints: stiffness x = omega^2 mass x
    modes = np.sort(eigsh(stiffness, k=3, M=ops.mass, Minv=ops.mass_inverse, return_eigenvectors=False))
    assert relative(modes, np.sort(np.linalg.eigvals(np.linalg.solve(mass, stiffness)).real)[-3:]) < 1e-8


def test_operators_combine() -> None:
    at = case("weighed tree")
    ops, x = at.ops, np.random.default_rng(6).normal(size=at.m.nv)
    assert relative((ops.mass_inverse @ ops.mass) @ x, x) < 1e-9
    assert relative((ops.mass_sqrt @ ops.mass_sqrt.H) @ x, ops.mass @ x) < TOLERANCE
    assert relative((ops.mass_inverse_sqrt @ ops.mass_inverse_sqrt.H) @ x, ops.mass_inverse @ x) < TOLERANCE
    assert relative((ops.mass_sqrt.H @ ops.mass_inverse_sqrt) @ x, x) < TOLERANCE
    assert relative((2.0 * ops.mass - ops.mass) @ x, ops.mass @ x) < TOLERANCE


# operational inertia


@pytest.mark.parametrize(
    ("name", "body", "point"),
    [("arm", "hand", (0.0, 0.0, 0.0)), ("arm", "hand", (0.1, -0.2, 0.3)), ("humanoid", "left foot", (0.1, 0.0, -0.05)),
     ("floating", "base", (0.5, 0.0, 0.0))],
)  # fmt: skip
def test_operational_inertia_equals_that_of_the_jacobian(name: str, body: str, point: Any) -> None:
    at = case(name)
    J, mass = ct.jacobian(at.m, body, point)(at.q), ct.mass_matrix(at.m)(at.q)
    expected = J @ np.linalg.solve(mass, J.T)
    inverse = at.ops.operational_inertia_inverse(body, point)
    assert relative(inverse, expected) < TOLERANCE
    assert relative(at.ops.operational_inertia(body, point), np.linalg.inv(expected)) < 1e-9
    assert relative(inverse @ at.ops.operational_inertia(body, point), np.eye(6)) < 1e-9


def welded() -> ct.Model:
    """The arm with a tool welded to its hand, a post welded to the ground, and a motor behind each joint."""
    m = arm()
    m.add("tool", ct.sphere(0.05, mass=0.4), ct.Fixed(), parent="hand", at=ct.Pose((0.1, 0.0, 0.2), rpy=(0.3, -0.2, 0.5)))
    m.add("post", ct.box(0.1, 0.1, 1.0, mass=5.0), ct.Fixed(), at=(1.0, 0.0, 0.0))
    m.add("flap", ct.rod(0.3, mass=0.2), ct.Revolute("z", armature=0.2), parent="post")
    return m


def test_operational_inertia_of_welded_bodies() -> None:
    m = welded()
    q = m.random(3)
    ops, point = ct.operators(m, q), (0.02, 0.03, -0.04)
    assert ops.bodies == m.body_names[:7] + ("flap",)
    J = ct.jacobian(m, "tool", point)(q)
    expected = J @ np.linalg.solve(ct.mass_matrix(m)(q), J.T)
    assert relative(ops.operational_inertia_inverse("tool", point), expected) < TOLERANCE
    assert relative(ops.operational_inertia("tool", point), np.linalg.inv(expected)) < 1e-9
    for still in ("post", "ground"):
        assert np.array_equal(ops.operational_inertia_inverse(still), np.zeros((6, 6)))
        with pytest.raises(ct.ArgumentError, match=f"body '{still}' can move in 0 of 6 directions"):
            ops.operational_inertia(still)


def test_a_force_on_a_point_accelerates_it_by_the_inverse_operational_inertia() -> None:
    """Forward dynamics with a force on the hand, less that without, seen at the hand."""
    m, q = arm(), np.linspace(-1.0, 1.0, 7)
    wrench = np.array([0.3, -0.2, 0.1, 4.0, 5.0, -6.0])
    ops, J = ct.operators(m, q), ct.jacobian(m, "hand", (0.0, 0.1, 0.0))(q)
    plain = ct.forward_dynamics(m)(q, np.zeros(7), np.zeros(7))
    m.add_force("push", lambda t, q, v: wrench, body="hand", point=(0.0, 0.1, 0.0))
    pushed = ct.forward_dynamics(m)(q, np.zeros(7), np.zeros(7))
    assert relative(J @ (pushed - plain), ops.operational_inertia_inverse("hand", (0.0, 0.1, 0.0)) @ wrench) < 1e-9


@pytest.mark.parametrize(
    ("m", "body", "rank"),
    [(chain(3), "link3", 3), (mechanisms.chain(1, 3, ["prismatic"]), "body2", 3), (mechanisms.chain(2, 1, ["free"]), "body0", 6)],
)
def test_operational_inertia_needs_all_six_directions(m: ct.Model, body: str, rank: int) -> None:
    ops = ct.operators(m, m.random(0))
    assert np.linalg.matrix_rank(ops.operational_inertia_inverse(body), tol=1e-12) == rank
    if rank == 6:
        ops.operational_inertia(body)
        return
    with pytest.raises(ct.ArgumentError, match=f"body '{body}' can move in {rank} of 6 directions .* use operational_inertia_inverse"):
        ops.operational_inertia(body)


def test_an_arm_that_is_stretched_out_has_no_operational_inertia() -> None:
    """A chain that is straight along x cannot move along x, however many hinges it has."""
    m = chain(9)
    assert ct.operators(m, m.random(1)).operational_inertia("link9").shape == (6, 6)
    with pytest.raises(ct.ArgumentError, match="can move in 5 of 6 directions"):
        ct.operators(m, np.zeros(9)).operational_inertia("link9")


# what comes in


def test_what_is_not_a_configuration_is_refused() -> None:
    m = arm()
    with pytest.raises(ct.ModelError, match=r"operators: 'arm' is not a model; give a ct.Model"):
        ct.operators("arm", np.zeros(7))  # type: ignore[arg-type]
    for q in (np.zeros(6), np.zeros((1, 7)), 0.0):
        with pytest.raises(ct.ArgumentError, match=r"operators: q has shape .*; model 'arm' takes 7 numbers"):
            ct.operators(m, q)
    for q in ("q", [1j] * 7, [[0.0], [1.0, 2.0]]):
        with pytest.raises(ct.ArgumentError, match=r"operators: q .* is not made of real numbers; give 7"):
            ct.operators(m, q)
    with pytest.raises(ct.ArgumentError, match="operators: q: 'upper' is nan; give finite numbers"):
        ct.operators(m, [0.0, 0.0, np.nan, 0.0, 0.0, 0.0, 0.0])
    ops = ct.operators(m, np.zeros(7))
    with pytest.raises(ct.ModelError, match=r"operational_inertia names body 'foot', which is not in model 'arm'; choose from .*'hand'"):
        ops.operational_inertia("foot")
    with pytest.raises(ct.ModelError, match="operational_inertia_inverse point"):
        ops.operational_inertia_inverse("hand", (1.0, 2.0))
    post = ct.Model("post")
    post.add("post", ct.point_mass(1.0), ct.Fixed())
    with pytest.raises(ct.ModelError, match="no moving body"):
        ct.operators(post, [])


def test_the_configuration_is_kept_as_it_was_given() -> None:
    m, q = arm(), np.zeros(7)
    ops = ct.operators(m, q)
    q[0] = 1.0
    assert np.array_equal(ops.q, np.zeros(7))
    with pytest.raises(ValueError, match="read-only"):
        ops.q[0] = 1.0
    assert repr(ops) == "<Operators of 'arm': 7 bodies, nv = 7>"


def test_a_quaternion_of_any_length_stands_for_its_rotation() -> None:
    m = mechanisms.chain(5, 2, ["spherical"])
    q = 1.1 * m.random(0)
    ops = ct.operators(m, q)
    assert relative(ops.mass @ np.eye(6), mass_of(m, m.normalised(q))) < TOLERANCE


def test_operators_of_a_model_share_kernels_until_the_model_changes() -> None:
    m = chain(4)
    first, second = ct.operators(m, np.zeros(4)), ct.operators(m, np.ones(4))
    assert relative(first.mass @ np.eye(4), mass_of(m, np.zeros(4))) < TOLERANCE
    assert relative(second.mass @ np.eye(4), mass_of(m, np.ones(4))) < TOLERANCE
    before = m.frozen()
    assert kernels.second_stage(before, "mass") is kernels.second_stage(m, "mass")
    m.add("tip", ct.sphere(0.1, mass=1.0), ct.Revolute("x"), parent="link4", at=(1.0, 0.2, 0.0))
    assert kernels.second_stage(m, "mass") is not kernels.second_stage(before, "mass")
    assert (first.mass @ np.eye(4)).shape == (4, 4)  # of the model as it was
    assert ct.operators(m, np.zeros(5)).mass.shape == (5, 5)


def test_kernels_go_with_their_model() -> None:
    m = chain(2)
    ops = ct.operators(m, np.zeros(2))
    for product in PRODUCTS:
        getattr(ops, product) @ np.ones(2)
    _ = ops.log_det_mass, ops.operational_inertia_inverse("link2")
    kernel = weakref.ref(kernels.second_stage(m, "mass"))
    assert kernel() is not None
    del ops, m
    gc.collect()
    assert kernel() is None


def test_scipy_waits_for_the_first_product() -> None:
    code = (
        "import sys, catena as ct\nfrom catena.examples import chain\nops = ct.operators(chain(2), [0.1, 0.2])\n"
        "ops.psi, ops.log_det_mass, ops.operational_inertia_inverse('link2')\n"
        "assert 'scipy' not in sys.modules\nops.mass\nassert 'scipy' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# cost


@pytest.mark.parametrize("product", [*PRODUCTS, "mass_sqrt_adjoint", "mass_inverse_sqrt_adjoint"])
def test_the_second_stage_is_linear_in_the_number_of_bodies(product: str) -> None:
    def count(n: int) -> int:
        second = kernels._only(kernels.stages(chain(n), kernels.family(product))[1], product)
        return sum(second.operations.values())

    counts = [count(n) for n in (12, 24, 48)]  # whole turns of the axes z, y, x
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])


def test_the_second_stage_of_the_inverse_is_a_small_part_of_the_whole() -> None:
    m = mechanisms.denavit_hartenberg(20)
    first, second = kernels.stages(m, "factored")
    second = kernels._only(second, "mass_inverse")
    assert sum(second.operations.values()) < 89 * m.nv  # shifts of a force and a motion, 64, and 25 across the hinge; the whole takes 230
    assert first.outputs[0].size <= 11 * m.nv  # sine and cosine, five of the gain, the pivot and its roots
