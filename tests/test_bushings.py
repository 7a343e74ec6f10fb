"""Bushings turn as torsional springs do, and their moments are the slopes of their energy, however large the rotation."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.referee import derivative

import catena as ct

pytestmark = pytest.mark.evaluated


def pair(of_bushing: bool, k: float, d: float) -> ct.Model:
    """Two bodies on a hinge whose axis is askew, with a torsional spring and damper, of a bushing or of the joint."""
    m, axis = ct.Model("pair"), (1.0, 2.0, 2.0)
    m.add("a", ct.box(0.2, 0.3, 0.1, mass=2.0), ct.Free())
    place = ct.Pose((0.3, 0.1, 0), rpy=(0.3, -0.5, 0.2))
    hinge = ct.Revolute(axis) if of_bushing else ct.Revolute(axis, stiffness=k, damping=d)
    m.add("b", ct.box(0.1, 0.2, 0.3, mass=1.0), hinge, "a", place)
    if of_bushing:
        m.add_bushing("spring", "a", "b", place, turning_stiffness=k, turning_damping=d)
    return m


def test_a_bushing_on_a_hinge_is_a_torsional_spring_up_to_half_a_turn() -> None:
    """Forces, energies and derivatives are those of the spring of the joint, next to half a turn too; beyond it, of a whole turn less."""
    bushing, spring = (pair(which, 10.0, 0.3) for which in (True, False))
    forces, energies, slopes = ([make(m) for m in (bushing, spring)] for make in (
        ct.bias_force, ct.energy, lambda m: ct.bias_force(m).jacobian("bias", ("q", "v"))))  # fmt: skip
    rng = np.random.default_rng(3)
    for angle in (0.0, 1e-12, 1e-8, 1e-3, 1.0, -1.5, 2.0, 3.0, np.pi - 1e-9, 1e-9 - np.pi, 3.5, 5.0, -4.0):
        q, v = bushing.random(rng), rng.normal(size=7)
        q[-1] = angle
        shortest = q.copy()
        shortest[-1] = angle - 2.0 * np.pi * np.round(angle / (2.0 * np.pi))
        assert_allclose(forces[0](q, v), forces[1](shortest, v), rtol=0, atol=1e-12)
        assert_allclose(energies[0](q, v)[1], energies[1](shortest, v)[1], rtol=0, atol=1e-12)
        for ours, theirs in zip(slopes[0](q, v), slopes[1](shortest, v), strict=True):
            assert_allclose(ours, theirs, rtol=0, atol=1e-10)


def test_moments_of_a_bushing_are_the_slopes_of_its_energy_at_any_rotation() -> None:
    """With three stiffnesses, next to rest and next to half a turn about axes askew or along those of the frame; by differences."""
    m = ct.Model("ball", gravity=(0, 0, 0))
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Spherical())
    frame = ct.Pose(rpy=(0.4, -0.2, 0.7))
    m.add_bushing("mount", "ground", "ball", frame, frame, turning_stiffness=(3.0, 5.0, 8.0))
    moment, energy, rng = ct.bias_force(m), ct.energy(m), np.random.default_rng(0)
    for axis in (*np.eye(3), *rng.normal(size=(5, 3)), (1.0, 1.0, 0.0), (1.0, -1.0, 1.0)):
        for angle in (0.0, 1e-9, 1e-4, 0.5, 2.0, np.pi - 1e-3, np.pi - 1e-7):
            q = m.integrate(m.neutral(), angle * np.asarray(axis) / np.linalg.norm(axis))
            rates = [derivative(lambda t, q=q, e=e: energy(m.integrate(q, t * e), np.zeros(3))[1], step=1e-4) for e in np.eye(3)]
            if angle < np.pi - 1e-4:
                assert_allclose(moment(q, np.zeros(3)), rates, rtol=0, atol=1e-8)
            assert np.abs(moment(q, np.zeros(3))).max() <= 8.0 * np.pi * 2.0
            assert np.isfinite(moment.jacobian("bias", "q")(q, np.zeros(3))).all()
    expected = frame.R @ np.diag((3.0, 5.0, 8.0)) @ frame.R.T
    assert_allclose(moment.jacobian("bias", "q")(m.neutral(), np.zeros(3)), expected, rtol=0, atol=1e-12)


def test_energy_is_kept_while_a_body_tumbles_on_a_bushing() -> None:
    m = ct.Model("tumbling", gravity=(0, 0, 0))
    m.add("body", ct.box(0.2, 0.3, 0.4, mass=2.0), ct.Free())
    m.add_bushing("mount", "ground", "body", stiffness=(20.0, 30.0, 40.0), turning_stiffness=(1.0, 1.5, 2.0))
    q = m.integrate(m.neutral(), [1.2, -1.0, 0.8, 0.1, 0.0, 0.0])
    run = ct.simulate(m, q, until=5.0, rtol=1e-10, atol=1e-12)
    assert np.abs(m.difference(m.neutral(), run.q)[:, :3]).max() > 1.0
    assert np.abs(run.energy_change).max() < 1e-8
