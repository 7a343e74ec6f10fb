"""The fully recursive formulation of [KY03]: states of bodies at three reference points, and the recursion that they share.

Positions are taken from `world_frames`, which shares nothing with the states but the placements of the joints. Tolerances are relative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests import mechanisms
from tests.referee import Referee, derivative, relative

import catena as ct
from catena.formulations import METHODS
from catena.formulations.inertias import articulated_inertias
from catena.formulations.inverse.newton_euler import inverse_dynamics
from catena.formulations.kinematics import placements, world_frames
from catena.formulations.linear import articulated_body
from catena.formulations.linear.fully_recursive import accelerate, eliminate, forward_dynamics
from catena.formulations.linear.reference_points import shift, states
from catena.graph import Trace
from catena.spatial import centroid

pytestmark = pytest.mark.evaluated

REFERENCES = ("centroid", "joint", "origin")


def skew(a: Any) -> np.ndarray:
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def dense(r: Any) -> np.ndarray:
    """The matrix of a shift by r of motions: (w, u) to (w, u + w x r)."""
    return np.block([[np.eye(3), np.zeros((3, 3))], [-skew(r), np.eye(3)]])


def matrix(placement: Any) -> np.ndarray:
    return np.stack([np.asarray(placement.motion(unit), dtype=float) for unit in np.eye(6)], axis=1)


def centroids(tree: Any, q: Any) -> np.ndarray:
    """The centroids of all bodies, seen from the ground's frame."""
    frames = [tree.ground.inverse() @ frame for frame in world_frames(tree, q)[:-1]]
    return np.array([frame.R @ centroid(M) + frame.p for frame, M in zip(frames, tree.M, strict=True)], dtype=float)


def to_centroids(tree: Any, q: Any, reference: str) -> np.ndarray:
    """The centroids of all bodies, seen from the reference points."""
    joints = np.array([(tree.ground.inverse() @ frame).p for frame in world_frames(tree, q)[:-1]], dtype=float)
    return centroids(tree, q) - {"centroid": centroids(tree, q), "joint": joints, "origin": 0.0 * joints}[reference]


def numbers(x: Any) -> np.ndarray:
    return np.asarray(x, dtype=float)


@pytest.mark.parametrize("reference", REFERENCES)
@given(moving=mechanisms.moving_trees(most=5))
def test_velocity_states_equal_the_derivative_of_positions(reference: str, moving: Any) -> None:
    """(20)-(23), (31), (32)."""
    m, q, v, _ = moving
    tree = m.tree()
    motion, state = states(tree, q, v, reference)
    rates = derivative(lambda t: centroids(tree, m.integrate(q, t * v)))
    for k, rate in enumerate(rates):
        s = to_centroids(tree, q, reference)[k]
        turning = derivative(lambda t, k=k: numbers(states(tree, m.integrate(q, t * v), v, reference)[0][k].A)) @ numbers(motion[k].A).T
        omega = np.array([turning[2, 1], turning[0, 2], turning[1, 0]])
        assert relative(numbers(state[k].Y), np.concatenate([omega, rate - np.cross(omega, s)]), scale=1.0) < 1e-9


@pytest.mark.parametrize("reference", REFERENCES)
@given(moving=mechanisms.moving_trees())
def test_states_at_a_point_and_at_the_centroid_differ_by_a_shift(reference: str, moving: Any) -> None:
    """(5) and (8): Y^c = T Y, M = T^T M^c T, Q = T^T (Q^c - M^c Tdot Y)."""
    m, q, v, _ = moving
    tree = m.tree()
    _, at_centroid = states(tree, q, v, "centroid")
    _, at_point = states(tree, q, v, reference)
    arms = to_centroids(tree, q, reference)
    rates = derivative(lambda t: to_centroids(tree, m.integrate(q, t * v), reference))
    for k in range(tree.n):
        Y, M, Q = (numbers(x) for x in (at_point[k].Y, at_point[k].M, at_point[k].Q))
        Y_c, M_c, Q_c = (numbers(x) for x in (at_centroid[k].Y, at_centroid[k].M, at_centroid[k].Q))
        T, T_rate = dense(arms[k]), dense(rates[k]) - np.eye(6)
        assert relative(T @ Y, Y_c) < 1e-12
        assert relative(T.T @ M_c @ T, M) < 1e-12
        assert relative(T.T @ (Q_c - M_c @ T_rate @ Y), Q) < 1e-9
        assert np.array_equal(M, M.T)
        assert not M_c[:3, 3:].any()


@pytest.mark.parametrize("reference", REFERENCES)
@given(moving=mechanisms.moving_trees())
def test_velocity_states_obey_their_recursion(reference: str, moving: Any) -> None:
    """(24), and B1 is the identity for the origin (33)."""
    m, q, v, _ = moving
    tree = m.tree()
    _, state = states(tree, q, v, reference)
    for k, at in enumerate(tree.v_slices):
        B1, B2 = matrix(state[k].B1), numbers(state[k].B2)
        assert relative(B1 @ state[tree.parent[k]].Y + B2 @ v[at], numbers(state[k].Y), scale=1.0) < 1e-12
        assert reference != "origin" or np.array_equal(B1, np.eye(6))


@pytest.mark.parametrize("reference", REFERENCES)
@given(moving=mechanisms.moving_trees(most=5))
def test_velocity_square_term_equals_the_derivative_of_the_velocity_transformations(reference: str, moving: Any) -> None:
    """(27), (35): D = dB1/dt Y_i + dB2/dt v, along a motion of constant joint velocities."""
    m, q, v, _ = moving
    tree = m.tree()

    def transformed(t: float) -> np.ndarray:
        _, moved = states(tree, m.integrate(q, t * v), v, reference)
        return np.array([matrix(moved[k].B1) @ inboard[k] + numbers(moved[k].B2) @ v[at] for k, at in enumerate(tree.v_slices)])

    _, state = states(tree, q, v, reference)
    inboard = [numbers(state[p].Y) for p in tree.parent]
    D = np.array([numbers(one.D) for one in state[:-1]])
    assert relative(D, derivative(transformed), scale=1.0) < 1e-9


@pytest.mark.parametrize("reference", REFERENCES)
@given(moving=mechanisms.moving_trees(most=5))
def test_accelerations_equal_the_derivative_of_the_velocity_states(reference: str, moving: Any) -> None:
    """(26), (30), (34), along the motion that the joint forces give."""
    m, q, v, tau = moving
    tree = m.tree()
    _, state = states(tree, q, v, reference)
    vdot, Y_rate = accelerate(tree, state, *eliminate(tree, state, tau))
    vdot = numbers(vdot)

    def velocities(t: float) -> np.ndarray:
        return np.array([numbers(one.Y) for one in states(tree, m.integrate(q, t * v), v + t * vdot, reference)[1]])

    assert relative(np.array([numbers(rate) for rate in Y_rate]), derivative(velocities), scale=1.0) < 1e-9


@given(moving=mechanisms.moving_trees())
def test_joint_inertias_are_those_of_articulated_bodies(moving: Any) -> None:
    """M_22 of (28) is D of [J91], whatever the reference point."""
    m, q, v, tau = moving
    tree = m.tree()
    _, D, _ = articulated_inertias(tree, *placements(tree, q), tree.M)
    for reference in REFERENCES:
        M22, _, _ = eliminate(tree, states(tree, q, v, reference)[1], tau)
        for k, at in enumerate(tree.v_slices):
            for unit in np.eye(at.stop - at.start):
                assert relative(M22[k].solve(unit), D[k].solve(unit)) < 1e-9


def test_shift_of_the_origin_takes_no_operations() -> None:
    """(33): what passes B1 comes out as the same traced scalars."""
    m = mechanisms.denavit_hartenberg(3)
    tree, trace = m.tree(), Trace("shift")
    q, v = trace.input("q", (3,)), trace.input("v", (3,))
    x, P = trace.input("x", (6,)), trace.input("P", (6, 6))
    P = np.array([[P[max(i, j), min(i, j)] for j in range(6)] for i in range(6)])
    _, state = states(tree, q, v, "origin")
    before = len(trace.nodes)
    for one in state[:-1]:
        for result, expected in ((one.B1.motion(x), x), (one.B1.force(x), x), (one.B1.inertia(P), P)):
            assert all(a is b for a, b in zip(result.flat, expected.flat, strict=True))
    assert len(trace.nodes) == before


def test_shift_is_made_of_cross_products() -> None:
    rng = np.random.default_rng(0)
    r, V, f, L = rng.normal(size=3), rng.normal(size=6), rng.normal(size=6), rng.normal(size=(6, 6))
    P = L @ L.T
    assert relative(shift(r).motion(V), np.concatenate([V[:3], V[3:] + np.cross(V[:3], r)])) < 1e-15
    assert relative(shift(r).force(f), np.concatenate([f[:3] + np.cross(r, f[3:]), f[3:]])) < 1e-15
    assert relative(shift(r).inertia(P), dense(r).T @ P @ dense(r)) < 1e-14


def knee() -> ct.Model:
    """A body without mass between two that have it, and one with rotational inertia alone."""
    m = ct.Model("knee", gravity=(0.3, 0.2, -9.0))
    rng = np.random.default_rng(4)
    m.add("thigh", mechanisms.body(rng), ct.Revolute("z"))
    m.add("kneecap", ct.Body(0.0), ct.Revolute("x"), parent="thigh", at=mechanisms.place(rng))
    m.add("shank", mechanisms.body(rng), ct.Revolute("y"), parent="kneecap", at=mechanisms.place(rng))
    m.add("flywheel", ct.Body(0.0, inertia=np.diag([0.1, 0.2, 0.25])), ct.Spherical(), parent="kneecap", at=mechanisms.place(rng))
    return m


def test_bodies_without_mass_have_their_origin_for_a_centroid() -> None:
    m = knee()
    q, v, tau = mechanisms.state(m, 1)
    tree = m.tree()
    expected = Referee(m).forward(q, v, tau)
    for reference in REFERENCES:
        assert relative(numbers(forward_dynamics(tree, q, v, tau, reference=reference)), expected) < 1e-11
    _, at_centroid = states(tree, q, v, "centroid")
    _, at_joint = states(tree, q, v, "joint")
    massless = [k for k in range(tree.n) if tree.M[k][3, 3] == 0.0]
    assert [tree.names[k] for k in massless] == ["kneecap", "flywheel"]
    for k in massless:
        assert np.array_equal(numbers(at_centroid[k].Y), numbers(at_joint[k].Y))
        assert np.array_equal(numbers(at_centroid[k].M), numbers(at_joint[k].M))


@pytest.mark.parametrize("reference", REFERENCES)
@given(seed=mechanisms.seeds)
def test_floating_trees_equal_the_referee(reference: str, seed: int) -> None:
    m = mechanisms.tree(seed, 5, floating=True)
    q, v, tau = mechanisms.state(m, seed)
    assert relative(numbers(forward_dynamics(m.tree(), q, v, tau, reference=reference)), Referee(m).forward(q, v, tau)) < 1e-10


def test_distance_costs_the_origin_digits_and_the_other_points_none() -> None:
    """At a distance d the inertia about the origin is d^2 times as large, and so is its rounding."""
    m = mechanisms.tree(2, 4, floating=True)
    tree = m.tree()
    q, v, tau = mechanisms.state(m, 3)
    for distance, lost in ((0.0, 1.0), (1e2, 1e4), (1e4, 1e8)):
        q[:3] = distance
        expected = numbers(articulated_body.forward_dynamics(tree, q, v, tau))
        error = {point: relative(numbers(forward_dynamics(tree, q, v, tau, reference=point)), expected) for point in REFERENCES}
        assert error["centroid"] < 1e-13
        assert error["joint"] < 1e-13
        assert error["origin"] < 1e-13 * lost
    assert error["origin"] > 1e-9


@pytest.mark.parametrize("reference", REFERENCES)
@given(moving=mechanisms.moving_trees(), seed=mechanisms.seeds)
def test_inverse_dynamics_under_the_same_wrenches_undoes_forward_dynamics(reference: str, moving: Any, seed: int) -> None:
    m, q, v, tau = moving
    tree, rng = m.tree(), np.random.default_rng(seed)
    wrenches: list[Any] = [rng.normal(size=6) if rng.random() < 0.7 else None for _ in range(tree.n + 1)]
    vdot = forward_dynamics(tree, q, v, tau, wrenches, reference=reference)
    back = numbers(inverse_dynamics(tree, q, v, numbers(vdot), wrenches))
    bias = numbers(inverse_dynamics(tree, q, v, np.zeros(m.nv), wrenches))
    assert relative(back, tau, scale=np.abs(bias).max()) < 1e-10


def test_a_wrench_on_a_body_is_a_force_at_its_centroid() -> None:
    """A force through the centroid of a free body gives it the acceleration F / m there, and no turning."""
    m = ct.Model("stone", gravity=(0, 0, 0))
    m.add("stone", mechanisms.body(np.random.default_rng(1)), ct.Free())
    tree = m.tree()
    q, force = m.random(2), np.array([1.0, -2.0, 0.5])
    wrench = np.concatenate([np.cross(centroid(tree.M[0]), force), force])
    for reference in REFERENCES:
        vdot = numbers(forward_dynamics(tree, q, np.zeros(6), np.zeros(6), [wrench, None], reference=reference))
        assert relative(vdot, np.concatenate([np.zeros(3), force / tree.M[0][3, 3]])) < 1e-13


@pytest.mark.compiled
@pytest.mark.parametrize("reference", REFERENCES)
def test_compiled_kernels_say_where_they_come_from(reference: str) -> None:
    m = mechanisms.tree(5, 6, options=True)
    q, v, tau = mechanisms.state(m, 6, (7,))
    run = ct.forward_dynamics(m, f"fully-recursive/{reference}")
    assert "KY03" in run.references[0]
    assert METHODS[run.method].order("forward_dynamics") == "O(n)"
    assert relative(run(q, v, tau), ct.forward_dynamics(m, "articulated-body")(q, v, tau)) < 1e-10
