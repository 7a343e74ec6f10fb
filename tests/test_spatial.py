"""Identities of spatial vectors, placements, inertias, rotations and derivatives. Tolerances are relative to the largest entry."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import mechanisms
from tests.referee import hat, quaternion_matrix, relative, rotation_vector, turn

from catena import spatial
from catena.scalars.dual import Dual, part
from catena.spatial import (
    Factor,
    Placement,
    Rigid,
    Screw,
    carried,
    cross_force,
    cross_motion,
    gain,
    gyroscopic,
    minus_product,
    rigid_inertia,
    symmetric,
    welded,
)

pytestmark = pytest.mark.quick

ROUNDING = 1e-14


def generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def random_screw(rng: np.random.Generator) -> Screw:
    """A screw with a general turn and shift, or without one of them."""
    angle, shift = rng.uniform(-4.0, 4.0) * rng.integers(2), rng.uniform(-2.0, 2.0) * rng.integers(2)
    return Screw(int(rng.integers(3)), float(np.cos(angle)), float(np.sin(angle)), float(shift))


def random_rigid(rng: np.random.Generator) -> Rigid:
    return Rigid(turn(mechanisms.unit(rng), rng.uniform(-3.0, 3.0)), rng.normal(size=3))


def random_inertia(rng: np.random.Generator) -> np.ndarray:
    """A symmetric 6 x 6 matrix, as an articulated body has: not that of a rigid body."""
    A = rng.normal(size=(6, 6))
    return A @ A.T


def dense(X: Any) -> np.ndarray:
    """The 6 x 6 matrix that takes motions from parent to child, from its definition."""
    rigid = X.rigid()
    R, p = rigid.R, rigid.p
    return np.block([[R.T, np.zeros((3, 3))], [-R.T @ hat(p), R.T]])


PLACEMENTS = {
    "screw": random_screw,
    "rigid": random_rigid,
    "placement": lambda rng: Placement([random_screw(rng), random_rigid(rng), random_screw(rng), random_screw(rng)]),
    "empty placement": lambda rng: Placement(()),
}


@pytest.mark.parametrize("kind", PLACEMENTS)
@given(seed=mechanisms.seeds)
def test_placement_equals_its_dense_matrix(kind: str, seed: int) -> None:
    rng = generator(seed)
    X = PLACEMENTS[kind](rng)
    matrix, V, f, P = dense(X), rng.normal(size=6), rng.normal(size=6), random_inertia(rng)
    assert relative(X.motion(V), matrix @ V) < ROUNDING
    assert relative(X.force(f), matrix.T @ f) < ROUNDING
    moved = np.asarray(X.inertia(P), dtype=float)
    assert relative(moved, matrix.T @ P @ matrix) < ROUNDING
    assert np.array_equal(moved, moved.T)


@given(seed=mechanisms.seeds)
def test_placement_of_columns_equals_placement_of_each(seed: int) -> None:
    rng = generator(seed)
    X, S = PLACEMENTS["placement"](rng), rng.normal(size=(6, 3))
    assert relative(X.motions(S), dense(X) @ S) < ROUNDING
    assert relative(X.forces(S), dense(X).T @ S) < ROUNDING
    assert X.motions(S[:, :0]).shape == X.forces(S[:, :0]).shape == (6, 0)


@pytest.mark.parametrize("kind", PLACEMENTS)
@given(seed=mechanisms.seeds)
def test_power_is_the_same_on_both_sides(kind: str, seed: int) -> None:
    rng = generator(seed)
    X, V, f = PLACEMENTS[kind](rng), rng.normal(size=6), rng.normal(size=6)
    assert abs(X.force(f) @ V - f @ X.motion(V)) < ROUNDING * 100.0


@pytest.mark.parametrize("kind", PLACEMENTS)
@given(seed=mechanisms.seeds)
def test_kinetic_energy_is_the_same_on_both_sides(kind: str, seed: int) -> None:
    rng = generator(seed)
    X, V, P = PLACEMENTS[kind](rng), rng.normal(size=6), random_inertia(rng)
    outside = X.motion(V) @ P @ X.motion(V)
    assert abs(V @ np.asarray(X.inertia(P), dtype=float) @ V - outside) < 100.0 * ROUNDING * outside


@given(seed=mechanisms.seeds)
def test_placements_compose_as_their_matrices_do(seed: int) -> None:
    rng = generator(seed)
    X, Y = random_rigid(rng), random_rigid(rng)
    assert relative(dense(X @ Y), dense(Y) @ dense(X)) < ROUNDING
    assert relative((X @ Y).matrix(), X.matrix() @ Y.matrix()) < ROUNDING
    assert relative((X @ X.inverse()).matrix(), np.eye(4)) < ROUNDING
    assert relative((X.inverse() @ X).matrix(), np.eye(4)) < ROUNDING
    screws = [random_screw(rng) for _ in range(4)]
    whole = np.linalg.multi_dot([screw.rigid().matrix() for screw in screws])
    assert relative(Placement(screws).rigid().matrix(), whole) < ROUNDING
    assert relative((X @ Placement(screws)).matrix(), X.matrix() @ whole) < ROUNDING


@given(seed=mechanisms.seeds)
def test_velocities_and_forces_at_two_points_of_a_body(seed: int) -> None:
    """[J91] (1)-(5): the shift phi(l) between points of one body, its inverse and its semigroup."""
    rng = generator(seed)
    V, f, (arm, further) = rng.normal(size=6), rng.normal(size=6), rng.normal(size=(2, 3))
    shift = Rigid(np.eye(3), arm)
    at_point = shift.motion(V)
    assert relative(at_point, np.concatenate([V[:3], V[3:] + np.cross(V[:3], arm)])) < ROUNDING  # (1), (4)
    assert relative(shift.force(f), np.concatenate([f[:3] + np.cross(arm, f[3:]), f[3:]])) < ROUNDING
    phi = np.block([[np.eye(3), hat(arm)], [np.zeros((3, 3)), np.eye(3)]])  # (3)
    assert relative(dense(shift), phi.T) < ROUNDING
    assert relative(dense(shift.inverse()), np.linalg.inv(phi).T) < ROUNDING  # (5)
    assert relative((shift @ Rigid(np.eye(3), further)).p, arm + further) < ROUNDING


@given(seed=mechanisms.seeds)
def test_newton_and_euler_at_the_centre_of_mass_equal_those_at_another_point(seed: int) -> None:
    """[J91] (6)-(11): with accelerations alpha of points, M alpha + b; catena's spatial acceleration is alpha - (0, omega x v)."""
    rng = generator(seed)
    V, alpha, arm, body = rng.normal(size=6), rng.normal(size=6), rng.normal(size=3), mechanisms.body(rng)
    omega = V[:3]
    M_com = rigid_inertia(body.mass, np.zeros(3), body.inertia)
    M = Rigid(np.eye(3), arm).inertia(M_com)
    assert relative(M, rigid_inertia(body.mass, arm, body.inertia)) < ROUNDING  # (10)
    at_com = np.concatenate([alpha[:3], alpha[3:] + np.cross(alpha[:3], arm) + np.cross(omega, np.cross(omega, arm))])
    f_com = M_com @ at_com + np.concatenate([np.cross(omega, body.inertia @ omega), np.zeros(3)])  # (7), (8)
    f = Rigid(np.eye(3), arm).force(f_com)  # (9)
    b = np.concatenate([np.cross(omega, M[:3, :3] @ omega), body.mass * np.cross(omega, np.cross(omega, arm))])  # (11)
    assert relative(f, M @ alpha + b) < 10.0 * ROUNDING
    spatial_acceleration = alpha - np.concatenate([np.zeros(3), np.cross(omega, V[3:])])
    assert relative(f, M @ spatial_acceleration + gyroscopic(M, V)) < 10.0 * ROUNDING


@given(seed=mechanisms.seeds)
def test_cross_products_are_rates_of_placements(seed: int) -> None:
    """V x is the rate of a motion carried along by V, V x* that of a force; they are adjoint, and placements keep them."""
    rng = generator(seed)
    V, W, f = rng.normal(size=(3, 6))
    generator_matrix = np.block([[hat(V[:3]), np.zeros((3, 3))], [hat(V[3:]), hat(V[:3])]])
    assert relative(cross_motion(V, W), generator_matrix @ W) < ROUNDING
    assert relative(cross_force(V, f), -generator_matrix.T @ f) < ROUNDING
    assert np.abs(cross_motion(V, V)).max() < ROUNDING
    assert relative(cross_motion(V, W), -cross_motion(W, V)) < ROUNDING
    assert abs(cross_motion(V, W) @ f + W @ cross_force(V, f)) < 100.0 * ROUNDING
    X = random_rigid(rng)
    assert relative(X.motion(cross_motion(V, W)), cross_motion(X.motion(V), X.motion(W))) < 10.0 * ROUNDING


@given(seed=mechanisms.seeds)
def test_jacobi_identity(seed: int) -> None:
    U, V, W = generator(seed).normal(size=(3, 6))
    cycle = cross_motion(U, cross_motion(V, W)) + cross_motion(V, cross_motion(W, U)) + cross_motion(W, cross_motion(U, V))
    assert np.abs(cycle).max() < 100.0 * ROUNDING


@given(seed=mechanisms.seeds)
def test_rigid_inertia_equals_that_of_its_points(seed: int) -> None:
    rng = generator(seed)
    masses, points = rng.uniform(0.1, 1.0, 7), rng.normal(size=(7, 3))
    com = masses @ points / masses.sum()
    about_com = sum(m * hat(p - com).T @ hat(p - com) for m, p in zip(masses, points, strict=True))
    by_points = np.zeros((6, 6))
    for m, p in zip(masses, points, strict=True):
        velocity = np.hstack([-hat(p), np.eye(3)])  # of the point, from the twist at the origin
        by_points += m * velocity.T @ velocity
    M = rigid_inertia(masses.sum(), com, about_com)
    assert relative(M, by_points) < ROUNDING
    X = random_rigid(rng)  # the same body in another frame, by moving its points
    moved = rigid_inertia(masses.sum(), X.R @ com + X.p, X.R @ about_com @ X.R.T)
    assert relative(X.inertia(M), moved) < 10.0 * ROUNDING


@pytest.mark.parametrize("kind", ["placement", "empty placement"])
@given(seed=mechanisms.seeds)
def test_rigid_bodies_are_carried_and_welded_as_any_inertia_is_and_stay_exactly_rigid(kind: str, seed: int) -> None:
    rng = generator(seed)
    X, M, other = PLACEMENTS[kind](rng), *(symmetric(mechanisms.body(rng).matrix()) for _ in range(2))
    moved = np.asarray(carried(X, M), dtype=float)
    assert relative(moved, dense(X).T @ M @ dense(X)) < 10.0 * ROUNDING
    together = np.asarray(welded(moved, other), dtype=float)
    assert relative(together, moved + other) < ROUNDING
    for one in (moved, together):
        assert np.array_equal(one, one.T)
        assert np.array_equal(one[:3, 3:], -one[:3, 3:].T)
        assert np.array_equal(one[3:, 3:], one[3, 3] * np.eye(3))


@given(seed=mechanisms.seeds)
def test_gyroscopic_force_equals_the_cross_product_of_velocity_and_momentum(seed: int) -> None:
    rng = generator(seed)
    M, V = mechanisms.body(rng).matrix(), rng.normal(size=6)
    assert relative(gyroscopic(M, V), cross_force(V, M @ V)) < 10.0 * ROUNDING
    assert abs(gyroscopic(M, V) @ V) < 100.0 * ROUNDING * np.abs(M).max()  # it does no work


@given(seed=mechanisms.seeds, size=st.integers(1, 6), columns=st.integers(1, 6))
def test_minus_product_equals_numpy(seed: int, size: int, columns: int) -> None:
    rng = generator(seed)
    P, U, D = (rng.normal(size=shape) for shape in ((size, size), (size, columns), (columns, columns)))
    P, D = P + P.T, D @ D.T + np.eye(columns)
    G = U @ np.linalg.inv(D)
    result = minus_product(P, G, U)
    assert relative(result, P - U @ np.linalg.solve(D, U.T), scale=np.abs(G).max() * np.abs(U).max()) < 100.0 * ROUNDING
    assert np.array_equal(result, result.T)


@given(seed=mechanisms.seeds, size=st.integers(1, 20))
def test_factor_solves_as_numpy_does(seed: int, size: int) -> None:
    rng = generator(seed)
    A, x = rng.normal(size=(size, size)), rng.normal(size=size)
    D = A @ A.T + size * np.eye(size)
    assert relative(Factor(D).solve(x), np.linalg.solve(D, x)) < 100.0 * ROUNDING


@given(seed=mechanisms.seeds)
def test_factor_keeps_zeros_between_branches(seed: int) -> None:
    """Two branches on a root: their entries of M and of its factor L are zero, so they cost nothing when traced."""
    rng = generator(seed)
    D = np.diag(rng.uniform(4.0, 5.0, 5))
    for i, j in ((1, 0), (2, 0), (2, 1), (3, 0), (4, 0), (4, 3)):
        D[i, j] = D[j, i] = rng.uniform(0.1, 0.5)
    L = Factor(D).L
    assert all(L[i, j] == 0.0 for i, j in ((3, 1), (3, 2), (4, 1), (4, 2)))


@given(seed=mechanisms.seeds, columns=st.integers(1, 6))
def test_gain_equals_numpy_and_is_exact_on_rows_of_the_matrix(seed: int, columns: int) -> None:
    rng = generator(seed)
    A = rng.normal(size=(columns, columns))
    D = A @ A.T + np.eye(columns)
    U = np.vstack([rng.normal(size=(2, columns)), D[::-1]])
    G = gain(U, D, Factor(D))
    assert relative(G, np.linalg.solve(D, U.T).T) < 100.0 * ROUNDING
    assert np.array_equal(G[2:], np.eye(columns)[::-1])


def test_empty_columns_stack_to_an_empty_matrix() -> None:
    assert spatial.stack_columns([]).shape == (6, 0)


# rotations

ANGLES = (0.0, 1e-300, 1e-160, 1e-20, 1e-9, 1e-3, 1.0, 3.0, math.pi - 1e-3, math.pi - 1e-9, math.pi - 1e-15)


@pytest.mark.parametrize("angle", ANGLES)
@given(seed=mechanisms.seeds)
def test_quaternion_exponential_equals_rodrigues_and_logarithm_undoes_it(angle: float, seed: int) -> None:
    vector = angle * mechanisms.unit(generator(seed))
    quaternion = spatial.quaternion_exp(vector)
    assert abs(np.linalg.norm(quaternion) - 1.0) < 4e-16
    axis = vector / angle if angle else np.array([1.0, 0.0, 0.0])
    assert np.abs(spatial.rotation(quaternion) - turn(axis, angle)).max() < ROUNDING
    back = spatial.quaternion_log(quaternion)
    assert np.abs(back - vector).max() <= ROUNDING * angle
    assert np.abs(spatial.quaternion_log(-quaternion) - vector).max() <= ROUNDING * angle  # both signs are one rotation


@given(seed=mechanisms.seeds)
def test_logarithm_is_the_shortest_rotation(seed: int) -> None:
    rng = generator(seed)
    quaternion = rng.normal(size=4)
    quaternion /= np.linalg.norm(quaternion)
    vector = spatial.quaternion_log(quaternion)
    assert np.linalg.norm(vector) <= math.pi * (1.0 + 1e-15)
    assert relative(vector, rotation_vector(quaternion_matrix(quaternion))) < 1e-10  # the referee's loses digits near pi
    again = spatial.quaternion_exp(vector)
    assert min(np.abs(again - quaternion).max(), np.abs(again + quaternion).max()) < ROUNDING


@given(seed=mechanisms.seeds)
def test_quaternion_product_equals_the_product_of_matrices(seed: int) -> None:
    a, b = generator(seed).normal(size=(2, 4))
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    product = spatial.quaternion_product(a, b)
    assert relative(spatial.rotation(product), spatial.rotation(a) @ spatial.rotation(b)) < ROUNDING
    assert relative(spatial.rotation(a), quaternion_matrix(a)) < ROUNDING
    assert relative(spatial.quaternion_product(a, spatial.quaternion_inverse(a)), np.array([1.0, 0.0, 0.0, 0.0])) < ROUNDING
    assert relative(spatial.rotation(spatial.quaternion_inverse(a)), spatial.rotation(a).T) < ROUNDING


def test_quaternion_functions_over_batches_equal_one_by_one() -> None:
    a, b = generator(0).normal(size=(2, 4, 3, 4))
    vectors = generator(1).normal(size=(4, 3, 3))
    for i in np.ndindex(4, 3):
        assert np.array_equal(spatial.quaternion_product(a, b)[i], spatial.quaternion_product(a[i], b[i]))
        assert np.array_equal(spatial.quaternion_inverse(a)[i], spatial.quaternion_inverse(a[i]))
        assert relative(spatial.quaternion_exp(vectors)[i], spatial.quaternion_exp(vectors[i])) < ROUNDING
        assert relative(spatial.quaternion_log(a)[i], spatial.quaternion_log(a[i])) < ROUNDING


# derivatives

#: Functions of one number with their first and second derivative.
FUNCTIONS: dict[str, tuple[Any, Any, Any]] = {
    "sum": (lambda x: 2.0 + x - 3.0 + (1.0 - x) + x, lambda x: 1.0, lambda x: 0.0),
    "product": (lambda x: 3.0 * x * x * 0.5, lambda x: 3.0 * x, lambda x: 3.0),
    "quotient": (lambda x: (1.0 + x) / (2.0 + x * x) / 4.0, lambda x: 0.25 * (2.0 - 2.0 * x - x * x) / (2.0 + x * x) ** 2,
                 lambda x: 0.5 * (x**3 + 3.0 * x**2 - 6.0 * x - 2.0) / (2.0 + x * x) ** 3),
    "inverse": (lambda x: 1.0 / x, lambda x: -1.0 / x**2, lambda x: 2.0 / x**3),
    "negative": (lambda x: -(-x * x), lambda x: 2.0 * x, lambda x: 2.0),
    "cube": (lambda x: x**3, lambda x: 3.0 * x**2, lambda x: 6.0 * x),
    "square": (np.square, lambda x: 2.0 * x, lambda x: 2.0),
    "power 1.5": (lambda x: x**1.5, lambda x: 1.5 * x**0.5, lambda x: 0.75 * x**-0.5),
    "power -2": (lambda x: x**-2, lambda x: -2.0 * x**-3, lambda x: 6.0 * x**-4),
    "power 0": (lambda x: x**0, lambda x: 0.0, lambda x: 0.0),
    "power 1": (lambda x: x**1, lambda x: 1.0, lambda x: 0.0),
    "sqrt": (np.sqrt, lambda x: 0.5 / math.sqrt(x), lambda x: -0.25 * x**-1.5),
    "sin": (np.sin, math.cos, lambda x: -math.sin(x)),
    "cos": (np.cos, lambda x: -math.sin(x), lambda x: -math.cos(x)),
    "tan": (np.tan, lambda x: 1.0 / math.cos(x) ** 2, lambda x: 2.0 * math.tan(x) / math.cos(x) ** 2),
    "exp": (np.exp, math.exp, math.exp),
    "log": (np.log, lambda x: 1.0 / x, lambda x: -1.0 / x**2),
    "tanh": (np.tanh, lambda x: 1.0 / math.cosh(x) ** 2, lambda x: -2.0 * math.tanh(x) / math.cosh(x) ** 2),
    "arctan2": (lambda x: np.arctan2(x, 2.0), lambda x: 2.0 / (4.0 + x * x), lambda x: -4.0 * x / (4.0 + x * x) ** 2),
    "arctan": (np.arctan, lambda x: 1.0 / (1.0 + x * x), lambda x: -2.0 * x / (1.0 + x * x) ** 2),
    "arcsin": (np.arcsin, lambda x: (1.0 - x * x) ** -0.5, lambda x: x * (1.0 - x * x) ** -1.5),
    "arccos": (np.arccos, lambda x: -((1.0 - x * x) ** -0.5), lambda x: -x * (1.0 - x * x) ** -1.5),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("x", [0.1, 0.37, 0.9])
def test_dual_derivatives_equal_those_of_the_textbook(name: str, x: float) -> None:
    function, first, second = FUNCTIONS[name]
    once = function(Dual(x, 2.0))
    assert float(part(once, "value")) == pytest.approx(float(function(x)), rel=ROUNDING)
    assert float(part(once, "derivative")) == pytest.approx(2.0 * first(x), rel=ROUNDING, abs=ROUNDING)
    twice = part(function(Dual(Dual(x, 3.0), 2.0)), "derivative")
    assert float(part(twice, "derivative")) == pytest.approx(6.0 * second(x), rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.0, 1.0])
def test_dual_powers_are_differentiable_at_zero(exponent: float) -> None:
    twice = Dual(Dual(0.0, 1.0), 1.0) ** exponent
    first, second = (float(part(part(twice, name), "derivative")) for name in ("value", "derivative"))
    assert (first, second) == (1.0 if exponent == 1 else 0.0, 2.0 if exponent == 2 else 0.0)


def test_dual_to_an_array_of_powers_equals_the_powers_one_by_one() -> None:
    powers = Dual(1.5, 1.0) ** np.arange(4)
    assert part(powers, "value").tolist() == [1.0, 1.5, 2.25, 3.375]
    assert part(powers, "derivative").tolist() == [0.0, 1.0, 3.0, 6.75]


@given(seed=mechanisms.seeds)
def test_dual_derivative_of_numpy_code_equals_the_complex_step(seed: int) -> None:
    rng = generator(seed)
    A, x, direction = rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=4)

    def function(x: Any) -> Any:
        y = np.sin(A @ x) * x[::-1] - 0.3 / (2.0 + np.cos(x))
        return np.array([y @ x, np.exp(-0.1 * (y @ y)), y[0] * y[1] / (1.0 + y[2] ** 2), np.sqrt(3.0 + y[3] * y[3])])

    duals = np.array([Dual(a, b) for a, b in zip(x, direction, strict=True)])
    exact = np.imag(function(x + 1e-100j * direction)) / 1e-100
    assert relative(part(function(duals), "derivative"), exact) < 100.0 * ROUNDING
    assert relative(part(function(duals), "value"), function(x)) < 10.0 * ROUNDING


def test_dual_works_with_arrays_and_numbers_on_either_side() -> None:
    x, y = Dual(2.0, 1.0), np.array([1.0, 3.0])
    for result, derivatives in ((x + y, [1, 1]), (y + x, [1, 1]), (x - y, [1, 1]), (y - x, [-1, -1]), (x * y, [1, 3]), (y * x, [1, 3]),
                                (x / y, [1.0, 1.0 / 3.0]), (y / x, [-0.25, -0.75])):  # fmt: skip
        assert part(result, "derivative").tolist() == pytest.approx(derivatives)
    assert repr(x) == "Dual(2.0, 1.0)"
    assert part(np.array([x, 3.0], dtype=object), "derivative").tolist() == [1.0, 0.0]
