"""Compliant contact, and forces that know where they act: against closed forms, and by the laws of energy, momentum and friction."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples.contact import dropped, standing
from numpy.testing import assert_allclose, assert_array_equal

import catena as ct
from catena.errors import ModelError, ModelFileError, StiffnessWarning, TraceError
from catena.examples import four_bar
from catena.formulations.applied_forces import applied_forces
from catena.formulations.derivatives.forces import acting_joint_forces
from catena.formulations.force_slopes import anchored_bodies, body_and_link_slopes
from catena.formulations.loops.constraints import constraint_jacobian
from catena.simulation.run import Run, RunSettings

G = 9.81


def free(body: ct.Body, name: str = "body", **options: Any) -> ct.Model:
    """Return a free body that may touch the ground."""
    m = ct.Model(name)
    m.add(name, body, ct.Free())
    m.add_contact("floor", name, **options)
    return m


def at(m: ct.Model, *position: float, quat: Any = (1.0, 0.0, 0.0, 0.0)) -> np.ndarray:
    """Return a position of a model whose first joint is free."""
    q = m.neutral()
    q[:3], q[3:7] = position, np.array(quat) / np.linalg.norm(quat)
    return q


SHAPES = {
    "sphere": (ct.sphere(0.1, mass=2.0), 0.1, 1),
    "box": (ct.box(0.2, 0.3, 0.1, mass=2.0), 0.05, 4),
    "cylinder": (ct.cylinder(0.3, 0.1, mass=2.0), 0.15, 1),
    "capsule": (ct.Body(2.0, inertia=0.02 * np.eye(3), geometry=(ct.Geometry("capsule", (0.3, 0.05), axis=(1, 0, 0)),)), 0.05, 2),
    "ellipsoid": (ct.Body(2.0, inertia=0.02 * np.eye(3), geometry=(ct.Geometry("ellipsoid", (0.3, 0.2, 0.1)),)), 0.1, 1),
    "points": (ct.Body(2.0, inertia=0.02 * np.eye(3)), 0.1, 3),
}
TRIANGLE = [[0.2, 0.0, -0.1], [-0.1, 0.2, -0.1], [-0.1, -0.2, -0.1], [0.0, 0.0, 0.2], [0.0, 0.0, 0.1]]


def jacobian(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, small: float = 1e-6) -> np.ndarray:
    """Return the derivative of a function by central differences."""
    return np.stack([(function(x + d) - function(x - d)) / (2.0 * small) for d in small * np.eye(len(x))], axis=1)


def touching(kind: str, **options: Any) -> ct.Model:
    return free(SHAPES[kind][0], kind, **({"points": TRIANGLE} if kind == "points" else {}), **options)


@pytest.mark.parametrize("exponent", [1.0, 1.5])
@pytest.mark.parametrize("kind", SHAPES)
def test_bodies_at_rest_are_as_deep_as_their_weight_over_the_stiffness(kind: str, exponent: float) -> None:
    body, reach, points = SHAPES[kind]
    m = touching(kind, exponent=exponent)
    depth = (body.mass * G / (points * m.contacts[0].stiffness)) ** (1.0 / exponent)
    assert_allclose(depth, 1e-3)
    q = at(m, 0.0, 0.0, reach - depth)
    assert_allclose(ct.forward_dynamics(m)(q, np.zeros(6), np.zeros(6)), 0.0, atol=1e-9 * G)
    assert_allclose(ct.contact_forces(m)(q, np.zeros(6)), [[0.0, 0.0, body.mass * G]], atol=1e-9)


@pytest.mark.parametrize("kind", SHAPES)
def test_dropped_bodies_come_to_rest_and_only_lose_energy(kind: str) -> None:
    m = touching(kind, restitution=0.1)
    run = ct.simulate(m, at(m, 0.0, 0.0, 0.5, quat=(0.9, 0.3, 0.2, 0.1)), [1.0, 2.0, 0.5, 0.4, 0.0, 0.0], until=3.0)
    energy = np.sum(ct.energy(m)(run.q, run.v), axis=0)
    assert np.diff(energy).max() <= 1e-7 * energy[0]
    # what may go on for long is rolling, and the wobble of a plate
    assert np.abs(run.v[-1]).max() < (1e-3 if kind in ("box", "points") else 20.0)
    assert run.q[:, 2].min() > -0.01


@pytest.mark.parametrize("restitution", [0.2, 0.5, 0.9])
def test_balls_bounce_by_the_square_of_the_restitution(restitution: float) -> None:
    """At the speed of the impact, with a stiffness at which the weight does nothing during it."""
    height = 1.0 / (2.0 * G)  # 1 m/s
    m = free(ct.sphere(0.1, mass=1.0), restitution=restitution, penetration=1e-8)
    run = ct.simulate(m, at(m, 0.0, 0.0, 0.1 + height), until=0.12, rtol=1e-9)
    away = int(np.flatnonzero((run.q[:, 2] > 0.1) & (run.v[:, 5] > 0.0))[0])  # the first sample on the way up
    assert_allclose(run.q[away, 2] - 0.1 + run.v[away, 5] ** 2 / (2.0 * G), restitution**2 * height, rtol=0.01)


def test_restitution_is_that_of_the_closed_form_at_other_speeds() -> None:
    c = ct.dissipation_of(0.5)
    for speed in (0.3, 1.0, 3.0):
        e = ct.restitution_of(c, speed)
        x = c * speed
        assert_allclose(x * (1.0 + e), np.log((1.0 + x) / (1.0 - e * x)), rtol=1e-9)
    assert ct.restitution_of(c, 0.3) > 0.5 > ct.restitution_of(c, 3.0)
    assert (ct.dissipation_of(1.0), ct.restitution_of(0.0)) == (0.0, 1.0)
    assert ct.dissipation_of(0.0) == ct.dissipation_of(0.01)


def test_blocks_slide_as_far_as_friction_lets_them() -> None:
    m = free(ct.box(0.4, 0.4, 0.02, mass=2.0), friction=0.5)
    run = ct.simulate(m, at(m, 0.0, 0.0, 0.009), [0, 0, 0, 2.0, 0, 0], until=1.0)
    assert_allclose(run.q[-1, 0], 2.0**2 / (2.0 * 0.5 * G), rtol=0.01)
    assert abs(run.v[-1, 3]) < 1e-6


def test_a_sliding_ball_ends_up_rolling_at_five_sevenths_of_its_speed() -> None:
    m = free(ct.sphere(0.1, mass=1.0), friction=0.3)
    run = ct.simulate(m, at(m, 0.0, 0.0, 0.099), [0, 0, 0, 1.0, 0, 0], until=1.0)
    speed = np.linalg.norm(ct.jacobian(m, "body")(run.q[-1])[3:] @ run.v[-1])
    assert_allclose(speed, 5.0 / 7.0, rtol=0.005)
    assert_allclose(abs(run.v[-1, 1]) * 0.1, 5.0 / 7.0, rtol=0.005)


@pytest.mark.parametrize("angle", [0.3, 0.45])
def test_a_block_on_a_slope_creeps_at_the_speed_of_the_law_or_slides(angle: float) -> None:
    """Below the angle of friction, arctan 0.4 = 0.38, at s r / sqrt(1 - r^2) with the ratio r of the pull to its limit."""
    slope = np.array([-np.sin(angle), 0.0, np.cos(angle)])
    m = free(ct.box(0.4, 0.4, 0.02, mass=2.0), friction=0.4, slip_speed=1e-3, normal=slope)
    turn = (np.cos(angle / 2), 0.0, -np.sin(angle / 2), 0.0)
    run = ct.simulate(m, at(m, *((0.01 - 1e-3 * np.cos(angle)) * slope), quat=turn), until=1.0)
    speed = np.linalg.norm(run.v[-1, 3:])
    ratio = np.tan(angle) / 0.4
    expected = 1e-3 * ratio / np.sqrt(1.0 - ratio**2) if ratio < 1.0 else G * (np.sin(angle) - 0.4 * np.cos(angle)) * 1.0
    assert_allclose(speed, expected, rtol=0.01)


def test_stiction_holds_what_rests_and_lets_go_what_slides() -> None:
    """On a slope between the two coefficients; creep and sliding are those of the closed forms."""
    m = ct.Model("block", gravity=(0.6 * G, 0, -G))
    m.add("block", ct.box(0.4, 0.4, 0.02, mass=2.0), ct.Free())
    m.add_contact("floor", "block", friction=0.5, stiction=0.3, slip_speed=1e-5)
    deep = 2.0 * G / (4.0 * m.contacts[0].stiffness)
    q = at(m, 0.0, 0.0, 0.01 - deep)
    held, sliding = (ct.simulate(m, q, [0, 0, 0, speed, 0, 0], until=2.0, step=5e-3) for speed in (0.0, 0.1))
    ratio = 0.6 / 0.8
    assert_allclose(held.v[-1, 3], 1e-5 * ratio / np.sqrt(1.0 - ratio**2), rtol=1e-3)
    assert_allclose(sliding.v[-1, 3], 0.1 + 2.0 * (0.6 - 0.5) * G, rtol=1e-3)
    speeds = np.zeros((400, 6))
    speeds[:, 3] = np.geomspace(1e-6, 1.0, 400)
    force = ct.contact_forces(m)(q, speeds)[:, 0]
    coefficient = -force[:, 0] / force[:, 2]
    assert 0.8 * (1.0 - np.sqrt(2.0) / 100.0) < coefficient.max() < 0.8
    assert_allclose(coefficient[-1], 0.5, rtol=1e-5)


def test_forces_are_within_the_cone_of_friction_and_never_pull() -> None:
    m = touching("box", friction=0.6)
    rng = np.random.default_rng(0)
    q = np.array([at(m, 0.0, 0.0, z, quat=rng.normal(size=4)) for z in rng.uniform(0.0, 0.2, 300)])
    force = ct.contact_forces(m)(q, rng.normal(size=(300, 6)))[:, 0]
    assert (force[:, 2] >= 0.0).all()
    assert (force[:, 2] > 0.0).any()
    assert (force[:, 2] == 0.0).any()
    assert (np.linalg.norm(force[:, :2], axis=1) <= 0.6 * force[:, 2] * (1.0 + 1e-12)).all()


def two_balls() -> ct.Model:
    m = ct.Model("balls", gravity=(0, 0, 0))
    m.add("a", ct.sphere(0.1, mass=1.0), ct.Free())
    m.add("b", ct.sphere(0.2, mass=3.0), ct.Free())
    m.add_contact("click", "a", against="b", restitution=0.7, friction=0.4)
    return m


def momentum(m: ct.Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return linear momentum, and the angular one about the world's origin."""
    total = np.zeros(6)
    for name, pose in zip(m.body_names, ct.poses(m)(q), strict=True):
        body = next(link.body for link in m.links if link.name == name)
        turning, moving = np.split(ct.jacobian(m, name, body.com)(q) @ v, 2)
        centre = pose[:3, :3] @ body.com + pose[:3, 3]
        spin = pose[:3, :3] @ body.inertia @ pose[:3, :3].T @ turning
        total += np.concatenate([body.mass * moving, spin + np.cross(centre, body.mass * moving)])
    return total


def test_two_balls_keep_their_momentum_and_lose_energy() -> None:
    m = two_balls()
    q = m.neutral()
    q[7:10] = 0.5, 0.1, 0.05
    v = np.array([0.0, 3.0, 5.0, 2.0, 0.3, 0.0, 1.0, 0.0, 0.0, -1.0, 0.0, 0.0])
    run = ct.simulate(m, q, v, until=0.5)
    assert_allclose(momentum(m, run.q[-1], run.v[-1]), momentum(m, q, v), atol=1e-6)
    energy = np.sum(ct.energy(m)(run.q, run.v), axis=0)
    assert np.diff(energy).max() < 1e-7 * energy[0]
    assert energy[-1] < 0.95 * energy[0]


def loaded(loops: bool = False) -> ct.Model:
    """Return a model with every kind of force that knows where it acts."""
    m = four_bar() if loops else ct.Model("loaded")
    if not loops:
        m.add("a", ct.box(0.2, 0.3, 0.1, mass=2.0), ct.Free())
        m.add("b", ct.sphere(0.12, mass=1.0), ct.Universal("x", "y"), parent="a", at=(0.3, 0, 0))
        m.add("c", ct.sphere(0.1, mass=1.0), ct.Free())
    a, b, c = m.body_names
    m.add_spring("stiffening", a, b, (0, 0.1, 0), (0.1, 0, 0), stiffness=30.0, damping=0.4, length=0.1, cubic=200.0)
    m.add_spring("cable", "ground", c, (0, 0.1, 1), (0.1, 0, 0), stiffness=40.0, damping=0.5, length=0.4, slack=True)
    m.add_spring("cubic", "ground", b, stiffness=5.0, cubic=3.0)
    m.add_bushing("mount", a, c, ct.Pose((0.1, 0, 0), rpy=(0.1, 0.2, 0.3)), stiffness=(20, 30, 40), damping=(1, 2, 3),
                  turning_stiffness=(3, 4, 5), turning_damping=0.2)  # fmt: skip
    m.add_bushing("foot", "ground", a, stiffness=20.0, turning_stiffness=(1.0, 2.0, 3.0), turning_damping=0.1)
    m.add_contact("floor", a, ct.Geometry("box", (0.2, 0.3, 0.4)), stiffness=300.0, friction=0.5, slip_speed=0.1, height=0.1)
    m.add_contact("rim", b, ct.Geometry("cylinder", (0.2, 0.3), axis=(0, 0.6, 0.8)), stiffness=200.0, friction=0.5, slip_speed=0.1)
    m.add_contact("egg", c, ct.Geometry("ellipsoid", (0.2, 0.3, 0.4)), stiffness=200.0, exponent=1.5, friction=0.3, slip_speed=0.1)
    ball = ct.Geometry("sphere", (0.4,))
    m.add_contact("click", a, ball, against=c, against_shape=ball, stiffness=200.0, friction=0.5, slip_speed=0.1)
    return m


def states(m: ct.Model, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    q = np.array([m.random(rng) for _ in range(count)])
    if not m.has_loops:
        q[:, :3], q[:, 9:12] = rng.uniform(-0.2, 0.3, (2, count, 3))
    return q, rng.normal(size=(count, m.nv))


def test_forces_do_the_work_that_their_energy_loses_where_nothing_dissipates() -> None:
    """The rate of the potential is the power of the forces, for springs, bushings and contacts of every shape."""
    m = loaded()
    for spring in m.parts.springs:
        m = m.with_values({f"{spring}.damping": 0.0})
    for bushing in m.parts.bushings:
        m = m.with_values({f"{bushing}.damping": np.zeros(3), f"{bushing}.turning_damping": np.zeros(3)})
    for contact in m.parts.contacts:
        m = m.with_values({f"{contact}.dissipation": 0.0, f"{contact}.friction": 0.0})
    weightless = m.with_values({"gravity": np.zeros(3)})
    tree, energy = weightless.tree(), ct.energy(weightless)
    for q, v in zip(*states(m, 12), strict=True):
        power = float(np.asarray(acting_joint_forces(tree, 0.0, q, v), dtype=float) @ v)
        rate = (energy(m.integrate(q, 1e-6 * v), v)[1] - energy(m.integrate(q, -1e-6 * v), v)[1]) / 2e-6
        assert_allclose(power, -rate, rtol=1e-6, atol=1e-6)


def test_dissipating_forces_only_take_power() -> None:
    m = loaded()
    weightless = m.with_values({"gravity": np.zeros(3)})
    tree, energy = weightless.tree(), ct.energy(weightless)
    lost = []
    for q, v in zip(*states(m, 30, seed=1), strict=True):
        power = float(np.asarray(acting_joint_forces(tree, 0.0, q, v), dtype=float) @ v)
        rate = (energy(m.integrate(q, 1e-6 * v), v)[1] - energy(m.integrate(q, -1e-6 * v), v)[1]) / 2e-6
        lost.append(power + rate)
    assert max(lost) < 1e-5
    assert min(lost) < -1e-2


def test_forces_between_two_bodies_are_opposite_and_have_one_line() -> None:
    """The third law: the wrenches of springs, bushings, contacts and functions between bodies cancel in the world."""
    m = ct.Model("pair", gravity=(0, 0, 0))
    for name in "ab":
        m.add(name, ct.sphere(0.3, mass=1.0), ct.Free())
    m.add_spring("spring", "a", "b", (0, 0.1, 0), (0.1, 0, 0), stiffness=30.0, damping=0.4, length=0.1, cubic=200.0, slack=True)
    m.add_bushing("mount", "a", "b", ct.Pose((0.1, 0, 0), rpy=(0.1, 0.2, 0.3)), stiffness=(20, 30, 40), damping=(1, 2, 3),
                  turning_stiffness=(3, 4, 5), turning_damping=0.2)  # fmt: skip
    m.add_contact("click", "a", against="b", stiffness=200.0)
    m.add_line_force("actuator", "a", "b", lambda t, length, rate: 3.0 * length - rate, (0.1, 0, 0), (0, 0.2, 0))
    rng = np.random.default_rng(0)
    for _ in range(5):
        q, v = m.random(rng), rng.normal(size=12)
        q[:3], q[7:10] = 0.2 * rng.normal(size=(2, 3))
        _, wrenches = applied_forces(m.tree(), 0.0, q, v)
        assert wrenches is not None
        poses, total = dict(zip(m.body_names, ct.poses(m)(q), strict=True)), np.zeros(6)
        for name, (k, frame) in m.tree().frames.items():
            if name != "ground":
                pose = ct.Pose(matrix=poses[name][:3, :3], xyz=poses[name][:3, 3]) @ frame.inverse()
                moment, force = pose.R @ wrenches[k][:3], pose.R @ wrenches[k][3:]
                total += np.concatenate([moment + np.cross(pose.p, force), force]).astype(float)
        assert_allclose(total, 0.0, atol=1e-10)


def test_derivatives_are_those_of_differences() -> None:
    m = loaded()
    kernel, fd = ct.forward_dynamics_derivatives(m), ct.forward_dynamics(m)
    for q, v in zip(*states(m, 4, seed=3), strict=True):
        vdot, by_q, by_v, _ = kernel(q, v, np.zeros(m.nv))
        assert_allclose(vdot, fd(q, v, np.zeros(m.nv)), rtol=1e-9)
        scale = np.abs(by_q).max()
        assert_allclose(by_q, jacobian(lambda d, q=q, v=v: fd(m.integrate(q, d), v, np.zeros(m.nv)), np.zeros(m.nv)), atol=1e-5 * scale)
        assert_allclose(by_v, jacobian(lambda u, q=q: fd(q, u, np.zeros(m.nv)), v), atol=1e-5 * np.abs(by_v).max())


@pytest.mark.parametrize("loops", [False, True])
def test_implicit_steps_see_the_slopes_of_forces(loops: bool) -> None:
    """Eased accelerations are those of the dense equations with J^T K J and J^T D J of bodies that the ground holds."""
    m = loaded(loops)
    rng = np.random.default_rng(0)
    q = m.assemble(crank=1.0) if loops else states(m, 1)[0][0]
    v = m.project_velocity(q, rng.normal(size=m.nv)) if loops else rng.normal(size=m.nv)
    run = Run(RunSettings.of(m, q, v, 0.0, 1.0, None, "auto", "rang-angermann", None, None, (), None, 1e-8, None, None))
    run.begin()
    slopes = run.system.kernel("slopes")(0.0, q, v)
    by_position, by_velocity, bodies = slopes[:3]
    acceleration, shift, rate = rng.normal(size=(3, m.nv))
    h = 0.02
    armature, added = h * by_velocity + h * h * by_position, h * bodies[:, 1] + h * h * bodies[:, 0]
    force = armature * acceleration + by_position * shift + by_velocity * rate
    force = force + run.system.kernel("opposed")(0.0, q, bodies, added, acceleration, shift, rate)
    found = run.system.kernel("eased")(0.0, q, armature, added, force)
    K, D = np.diag(by_position), np.diag(by_velocity)
    names = {k: name for name, (k, _) in m.tree().frames.items()}
    for k, (stiffness, damping) in zip(anchored_bodies(m.tree()), bodies, strict=True):
        frame = m.tree().frames[names[k]][1]
        pose = ct.poses(m)(q)[m.body_names.index(names[k])]
        J = ct.jacobian(m, names[k], frame.inverse().p)(q)
        R = pose[:3, :3] @ frame.R.T
        J = np.concatenate([R.T @ J[:3], R.T @ J[3:]])
        K, D = K + J.T @ stiffness @ J, D + J.T @ damping @ J
    more = h * D + h * h * K
    along = np.eye(m.nv)
    if loops:
        _, sizes, right = np.linalg.svd(np.asarray(constraint_jacobian(m.tree(), q)[1], dtype=float))
        along = right[int(np.count_nonzero(sizes > 1e-9 * sizes.max())) :].T
    force = more @ acceleration + K @ shift + D @ rate
    expected = along @ np.linalg.solve(along.T @ (ct.mass_matrix(m)(q) + more) @ along, along.T @ force)
    assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


def test_slopes_are_those_of_the_forces_where_these_only_move() -> None:
    """By velocities exactly; for a contact at rest by displacements too."""
    m = loaded()
    tree = m.tree()
    for q, v in zip(*states(m, 3, seed=5), strict=True):
        bodies, along, links = (np.asarray(x, dtype=float) for x in body_and_link_slopes(tree, q, v))
        J = {}
        for name, (k, frame) in tree.frames.items():
            if name != "ground":
                moved, pose = ct.jacobian(m, name, frame.inverse().p)(q), ct.poses(m)(q)[m.body_names.index(name)]
                R = pose[:3, :3] @ frame.R.T
                J[k] = np.concatenate([R.T @ moved[:3], R.T @ moved[3:]])
        D = sum(J[k].T @ pair[1] @ J[k] for k, pair in zip(anchored_bodies(tree), bodies, strict=True))
        for i, pair in enumerate(links):
            D = D + along[3 * i : 3 * i + 3].T @ pair[1] @ along[3 * i : 3 * i + 3]
        exact = -jacobian(lambda u, q=q: np.asarray(acting_joint_forces(tree, 0.0, q, u), dtype=float), v)
        symmetric = 0.5 * (exact + exact.T)  # friction changes with the normal velocity, too, which is left out
        assert np.linalg.norm(D - symmetric) < 0.5 * np.linalg.norm(symmetric)


def test_fixed_steps_land_where_adaptive_ones_do() -> None:
    m = touching("box")
    q = at(m, 0.0, 0.0, 0.3, quat=(0.9, 0.2, 0.3, 0.1))
    times = np.linspace(0.0, 0.8, 41).tolist()
    exact = ct.simulate(m, q, until=0.8, rtol=1e-9, record=times)
    run = ct.simulate(m, q, until=0.8, step=1e-3, record=times)
    assert "rang-angermann" in repr(run)
    assert_allclose(run.q, exact.q, atol=2e-3)
    rolled = ct.rollout(m, q, None, None, 1e-3, 800)
    assert_allclose(rolled.q[..., -1, :], exact.q[-1], atol=2e-3)


def test_stiff_springs_between_bodies_are_stable_and_fall_freely() -> None:
    """Their steps are a thousand times the period of the spring; explicit ones warn and name it."""
    m = ct.Model("pair")
    m.add("a", ct.point_mass(1.0), ct.Prismatic("z"))
    m.add("b", ct.point_mass(2.0), ct.Prismatic("z"), at=(0, 0, 1))
    m.add_spring("link", "a", "b", stiffness=1e9, damping=10.0, length=1.0)
    run = ct.simulate(m, [0.0, 1e-4], until=1.0, step=1e-2)
    assert_allclose(run.q[-1], -0.5 * G + 2e-4 / 3.0, atol=1e-6)
    with pytest.warns(StiffnessWarning, match="spring 'link' has a time constant"):
        ct.rollout(m, [0.0, 1e-4], None, None, 1e-2, 2, integrator="rk4")
    with pytest.warns(StiffnessWarning, match="contact 'floor' has a time constant .* raise slip_speed"):
        ct.simulate(touching("box"), at(touching("box"), 0, 0, 1), until=1e-2, step=1e-3, integrator="rk4")


def test_rollouts_take_friction_of_their_own() -> None:
    m = free(ct.box(0.4, 0.4, 0.02, mass=2.0))
    friction = np.array([0.3, 0.5, 0.8])
    v = np.array([0, 0, 0, 1.0, 0, 0])
    start = np.tile(at(m, 0, 0, 0.009), (3, 1))
    rolled = ct.rollout(m, start, np.tile(v, (3, 1)), None, 1e-3, 800, parameters={"floor.friction": friction})
    assert_allclose(rolled.q[:, -1, 0], 1.0 / (2.0 * friction * G), rtol=0.01)


def test_models_with_forces_are_saved_and_loaded(tmp_path: Path) -> None:
    for loops in (False, True):
        m = loaded(loops)
        file = tmp_path / "model.toml"
        m.save(file)
        other = ct.load(file)
        assert other.contacts == m.contacts
        assert other.springs == m.springs
        q, v = states(m, 3) if not loops else (m.assemble(crank=1.0)[None], np.zeros((1, m.nv)))
        assert_allclose(ct.forward_dynamics(other)(q, v, np.zeros(m.nv)), ct.forward_dynamics(m)(q, v, np.zeros(m.nv)), rtol=1e-12)
    m.add_point_force("drag", m.body_names[0], (0, 0, 0), lambda t, position, velocity: -velocity)
    with pytest.raises(ModelFileError, match="force 'drag' is made of Python code"):
        m.save(tmp_path / "not.toml")


def test_point_forces_know_where_they_act() -> None:
    """A force on a point is that of a function of q and v which computes the place itself."""

    def wind(t: Any, position: Any, velocity: Any) -> Any:
        return np.array([np.sin(t) + position[2], 0.2 * position[0], 0.0]) - 0.3 * velocity

    arm, same = ct.Model("arm"), ct.Model("arm")
    for m in (arm, same):
        m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
    arm.add_point_force("wind", "arm", (1, 0, 0), wind)

    def by_hand(t: Any, q: Any, v: Any) -> Any:
        zero = 0.0 * q[0]
        place = np.array([np.cos(q[0]), zero, -np.sin(q[0])])
        return wind(t, place, np.array([-np.sin(q[0]), zero, -np.cos(q[0])]) * v[0])

    same.add_force("wind", by_hand, body="arm", point=(1, 0, 0))
    assert arm.time_dependent
    assert_allclose(ct.forward_dynamics(arm)(0.3, [0.7], [2.0], [0.0]), ct.forward_dynamics(same)(0.3, [0.7], [2.0], [0.0]), rtol=1e-12)
    assert_allclose(ct.simulate(arm, [0.7], until=1.0).q[-1], ct.simulate(same, [0.7], until=1.0).q[-1], rtol=1e-6)


def test_a_propeller_pushes_along_its_body() -> None:
    m = ct.Model("craft", gravity=(0, 0, 0))
    m.add("hull", ct.box(1, 1, 1, mass=3.0), ct.Free())
    m.add("rotor", ct.cylinder(0.02, 0.2, mass=0.1), ct.Revolute("z"), parent="hull", at=(0, 0, 0.5))
    m.add_point_force("thrust", "rotor", (0, 0, 0), lambda t, p, v, spin: [0, 0, -1e-3 * spin[2] * abs(spin[2]), 0, 0, 0.01 * spin[2] ** 2],
                      axes="body")  # fmt: skip
    turned = np.array([0, 0, 0, np.cos(0.4), np.sin(0.4), 0, 0, 1.3])
    vdot = ct.forward_dynamics(m)(turned, [0, 0, 0, 0, 0, 0, 20.0], np.zeros(7))
    assert_allclose(vdot[3:6], [0.0, 0.0, 4.0 / 3.1], atol=1e-12)


def test_line_forces_pull_along_the_line() -> None:
    same = ct.Model("crane")
    same.add("load", ct.sphere(0.1, 2.0), ct.Free())
    same.add_spring("rope", "ground", "load", at_a=(0, 0, 2), stiffness=100.0, damping=5.0, length=1.0)
    m = ct.Model("crane")
    m.add("load", ct.sphere(0.1, 2.0), ct.Free())
    m.add_line_force("rope", "ground", "load", lambda t, length, rate: 100.0 * (length - 1.0) + 5.0 * rate, at_a=(0, 0, 2))
    q, v = at(m, 0.1, 0.2, 0.3), np.array([0, 0, 0, 0.1, 0.2, -1.0])
    assert_allclose(ct.forward_dynamics(m)(q, v, np.zeros(6)), ct.forward_dynamics(same)(q, v, np.zeros(6)), rtol=1e-12)


def test_mistakes_are_named() -> None:
    m = two_balls()
    cases: list[tuple[Any, str]] = [
        (lambda: m.add_contact("x", "a", against="a"), "cannot touch itself"),
        (lambda: m.add_contact("x", "ground", against="a"), "name the body first"),
        (lambda: m.add_contact("click", "a"), "a contact has this name already"),
        (lambda: m.add_contact("x", "a", ct.Geometry("box", (1, 1, 1)), against="b"), "a box touches the ground only"),
        (lambda: m.add_contact("x", "a", ct.Geometry("mesh", (1, 1, 1))), "hull_points"),
        (lambda: m.add_contact("x", "a", friction=-1.0), "friction -1 is below 0"),
        (lambda: m.add_contact("x", "a", slip_speed=0.0), "slip_speed 0 is not above 0"),
        (lambda: m.add_contact("x", "a", restitution=1.5), "would add energy"),
        (lambda: m.add_contact("x", "a", exponent=2.0), "exponent 2.0 is not offered"),
        (lambda: m.add_bushing("x", "a", "b"), "does nothing"),
        (lambda: m.add_bushing("x", "a", "b", stiffness=(1, 2)), "one for each axis"),
        (lambda: m.add_point_force("x", "ground", (0, 0, 0), lambda t, p, v: v), "acts on the ground"),
        (lambda: m.add_point_force("x", "a", (0, 0, 0), lambda t, p: p), "is called with"),
        (lambda: m.add_point_force("x", "a", (0, 0, 0), lambda t, p, v: v[:2]), "return a force"),
        (lambda: m.add_point_force("x", "a", (0, 0, 0), lambda t, p, v: v, axes="hull"), "give 'world' or 'body'"),
        (lambda: m.add_line_force("x", "a", "b", lambda t, length, rate: [1.0, 2.0]), "the tension"),
        (lambda: m.add_point_force("x", "a", (0, 0, 0), ct.python(lambda t, p, v: v)), "marked ct.python"),
    ]
    for call, says in cases:
        with pytest.raises((ModelError, TraceError), match=says):
            call()
    with pytest.raises((ModelError, TraceError), match=r"np\.where"):
        m.add_point_force("x", "a", (0, 0, 0), lambda t, p, v: v if v[0] > 0 else -v)


NONSENSE = (-1.0, float("nan"), float("inf"), "one", (1.0, 2.0), 1j)


@pytest.mark.parametrize(
    "name", ["friction", "stiction", "restitution", "penetration", "stiffness", "dissipation", "slip_speed", "exponent", "height", "normal"]
)
def test_contacts_refuse_numbers_that_mean_nothing(name: str) -> None:
    for value in NONSENSE[name == "height" :]:
        with pytest.raises(ModelError):
            two_balls().add_contact("x", "a", **{name: value})


@pytest.mark.parametrize("kind", ["sphere", "box", "capsule", "cylinder", "rod", "ellipsoid"])
def test_contacts_refuse_shapes_whose_numbers_mean_nothing(kind: str) -> None:
    """One size that is not above zero or not finite, one too many or too few, a place that is none, an axis without direction."""
    count = {"sphere": 1, "rod": 1, "box": 3, "ellipsoid": 3}.get(kind, 2)
    sizes: list[Any] = [(1.0,) * (count - 1) + (bad,) for bad in (-0.1, 0.0, float("nan"), float("inf"), "one", None)]
    sizes += [(1.0,) * (count + 1), (1.0,) * (count - 1), 1.0]
    shapes = [ct.Geometry(kind, size) for size in sizes]
    nan = float("nan")
    wrong: list[dict[str, Any]] = [
        {"center": (nan, 0, 0)}, {"center": (0, 0)}, {"axis": (0, 0, 0)}, {"axis": (nan, 0, 1)}, {"rpy": (0, nan, 0)},
    ]  # fmt: skip
    shapes += [ct.Geometry(kind, (1.0,) * count, **options) for options in wrong]
    for shape in shapes:
        with pytest.raises(ModelError, match=f"contact 'x': {kind}: "):
            two_balls().add_contact("x", "a", shape)
    for points in ((0, 0), [[1, 2, 3, 4]], "corner", 3.0, None, (0, nan, 0)):
        with pytest.raises(ModelError, match="contact 'x': points"):
            two_balls().add_contact("x", "a", points=points)


def test_a_shape_touches_alike_whatever_the_length_of_its_axis() -> None:
    def force(axis: tuple[float, float, float]) -> np.ndarray:
        m = ct.Model("capsule")
        m.add("body", ct.sphere(0.1, mass=1.0), ct.Free())
        m.add_contact("floor", "body", ct.Geometry("capsule", (1.0, 0.1), axis=axis))
        return ct.contact_forces(m)([0, 0, 0.35, 1, 0.3, 0.2, 0], np.zeros(6))

    assert_array_equal(force((0.0, 0.0, 2.0)), force((0.0, 0.0, 1.0)))


def test_a_box_at_rest_stays_where_it_is() -> None:
    m = touching("box")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = ct.simulate(m, at(m, 0.0, 0.0, 0.049), until=10.0, step=2e-3)
    assert np.abs(run.q[-1] - run.q[0]).max() < 1e-9


URDF = """
<robot name="walker">
  <link name="base">
    <inertial><mass value="5"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>
    <collision><geometry><box size="0.4 0.3 0.1"/></geometry></collision>
  </link>
  <joint name="hip" type="revolute">
    <parent link="base"/> <child link="foot"/> <origin xyz="0 0 -0.1"/> <axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/>
  </joint>
  <link name="foot">
    <inertial><mass value="1"/><inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>
    <collision><origin xyz="0 0 -0.2"/><geometry><sphere radius="0.05"/></geometry></collision>
    <collision><origin xyz="0.1 0 -0.2" rpy="1.57 0 0"/><geometry><cylinder radius="0.05" length="0.1"/></geometry></collision>
    <collision><geometry><mesh filename="tetrahedron.stl" scale="2 2 2"/></geometry></collision>
  </link>
</robot>
"""
STL = "solid t\n" + "".join(
    f"facet normal 0 0 0\nouter loop\n{''.join(f'vertex {x} {y} {z}{chr(10)}' for x, y, z in face)}endloop\nendfacet\n"
    for face in (
        ((0, 0, 0), (0.1, 0, 0), (0, 0.1, 0)), ((0, 0, 0), (0, 0.1, 0), (0, 0, 0.1)),
        ((0, 0, 0), (0, 0, 0.1), (0.1, 0, 0)), ((0.1, 0, 0), (0, 0, 0.1), (0, 0.1, 0)),
    )
) + "endsolid t\n"  # fmt: skip


def test_urdf_files_touch_the_ground_by_their_collisions(tmp_path: Path) -> None:
    pytest.importorskip("trimesh")
    file = tmp_path / "walker.urdf"
    file.write_text(URDF)
    (tmp_path / "tetrahedron.stl").write_text(STL)
    assert not ct.load(file, floating_base=True).contacts
    m = ct.load(file, floating_base=True, contact="ground")
    assert [(c.name, [shape.kind for shape in c.shapes]) for c in m.contacts] == [
        ("base.ground", ["box"]), ("foot.ground", ["sphere", "cylinder"])
    ]  # fmt: skip
    assert_allclose(m.contacts[1].points, [[0, 0, 0], [0, 0, 0.2], [0, 0.2, 0], [0.2, 0, 0]], atol=1e-7)
    assert any("2 bodies touch the ground" in note for note in m.notes)
    assert not any("nothing collides" in note for note in m.notes)
    m.save(tmp_path / "walker.toml")
    assert ct.load(tmp_path / "walker.toml").contacts == m.contacts
    with pytest.raises(ModelFileError, match="contact = 'walls' is not known"):
        ct.load(file, contact="walls")
    with pytest.raises(ModelFileError, match="contact= is for URDF and MJCF"):
        ct.load(tmp_path / "walker.toml", contact="ground")


MJCF = """
<mujoco model="things">
  <worldbody>
    <geom type="plane" size="5 5 1" pos="0 0 0.2" euler="0 10 0" friction="0.3 0 0"/>
    <body name="box" pos="0 0 1"><freejoint/><geom type="box" size="0.1 0.2 0.3" euler="10 20 30" mass="1" friction="0.6 0 0"/></body>
    <body name="egg" pos="1 0 1"><freejoint/><geom type="ellipsoid" size="0.1 0.2 0.3" mass="1" friction="0.1 0 0"/></body>
    <body name="ghost" pos="2 0 1"><freejoint/><geom type="sphere" size="0.1" mass="1" contype="0" conaffinity="0"/></body>
  </worldbody>
</mujoco>
"""


@pytest.mark.peers
def test_mjcf_files_touch_their_plane_at_the_depth_that_mujoco_finds(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    file = tmp_path / "things.xml"
    file.write_text(MJCF)
    with pytest.raises(ModelFileError, match="contact"):
        ct.load(file)
    m = ct.load(file, contact="ground")
    assert [(c.body, c.friction) for c in m.contacts] == [("box", 0.6), ("egg", 0.3)]
    assert not any("ignored" in note for note in m.notes)
    compiled = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(compiled)
    rng = np.random.default_rng(0)
    touched = 0
    for _ in range(20):
        q = m.neutral()
        for link, at_q, _ in m.slices():
            q[at_q][:3] = rng.uniform(-0.1, 0.1), rng.uniform(-0.1, 0.1), rng.uniform(-1.0, -0.6)
            q[at_q][3:] = rng.normal(size=4)
            assert link.joint.nq == 7
        q = m.normalised(q)
        data.qpos[:] = np.concatenate([[*(q[k : k + 3] + compiled.qpos0[k : k + 3]), *q[k + 3 : k + 7]] for k in (0, 7, 14)])
        mujoco.mj_forward(compiled, data)
        forces = ct.contact_forces(m)(q, np.zeros(m.nv))
        for i, (contact, body) in enumerate((("box", 1), ("egg", 2))):
            depths = [-c.dist for c in data.contact if body in compiled.geom_bodyid[[c.geom1, c.geom2]] and c.dist < 0]
            found = forces[i] @ m.contacts[i].normal / m.contacts[i].stiffness
            if contact == "egg":
                assert_allclose(found, sum(depths), atol=1e-6)
                touched += bool(depths)
            elif len(depths) < 4:  # MuJoCo keeps four corners at most
                assert_allclose(found, sum(depths), atol=1e-9)
                touched += bool(depths)
    assert touched > 10


@pytest.mark.peers
@pytest.mark.parametrize(
    ("margins", "pair"), [(("0.01", "0"), ""), (("0.01", "0.02"), ""), (("0", "0"), 'margin="0.03" friction="0.3 0.3 0 0 0"')]
)
def test_balls_rest_at_the_distance_that_mujoco_has_by_margins_and_pairs(tmp_path: Path, margins: tuple[str, str], pair: str) -> None:
    mujoco = pytest.importorskip("mujoco")
    off = 'contype="0" conaffinity="0"' if pair else ""
    file = tmp_path / "ball.xml"
    file.write_text(f"""
    <mujoco><option timestep="0.001"/><worldbody>
      <geom name="floor" type="plane" size="5 5 0.1" margin="{margins[0]}"/>
      <body name="ball" pos="0 0 0.15"><freejoint/><geom name="round" size="0.1" mass="1" margin="{margins[1]}" {off}/></body>
    </worldbody>{f'<contact><pair geom1="round" geom2="floor" {pair}/></contact>' if pair else ""}</mujoco>""")
    m = ct.load(file, contact="ground")
    assert m.contacts[0].friction == (0.3 if pair else 1.0)
    compiled = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(compiled)
    for _ in range(2000):
        mujoco.mj_step(compiled, data)
    assert_allclose(ct.simulate(m, m.neutral(), until=2.0, step=1e-3).q[-1, 2] + 0.15, data.qpos[2], atol=1e-3)


@pytest.mark.peers
def test_motions_are_those_of_mujoco_nearly(tmp_path: Path) -> None:
    """A box that slides and a ball that comes to roll, on MuJoCo's elliptic cones."""
    mujoco = pytest.importorskip("mujoco")
    file = tmp_path / "sliding.xml"
    file.write_text("""
    <mujoco><option timestep="0.001" cone="elliptic" impratio="10"/><default><geom friction="0.5 0 0"/></default><worldbody>
      <geom type="plane" size="5 5 0.1"/>
      <body name="box" pos="0 0.5 0.05"><freejoint/><geom type="box" size="0.2 0.2 0.05" mass="2"/></body>
      <body name="ball" pos="0 -0.5 0.1"><freejoint/><geom type="sphere" size="0.1" mass="1"/></body>
    </worldbody></mujoco>""")
    m = ct.load(file, contact="ground")
    v = np.zeros(12)
    v[[3, 9]] = 2.0, 1.0
    run = ct.simulate(m, m.neutral(), v, until=1.5, step=1e-3)
    compiled = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(compiled)
    data.qvel[[0, 6]] = 2.0, 1.0
    for _ in range(1500):
        mujoco.mj_step(compiled, data)
    assert_allclose([run.q[-1, 0], run.q[-1, 7]], data.qpos[[0, 7]], rtol=0.01)


def test_a_quadruped_a_box_and_a_ball_come_to_rest() -> None:
    m, q = dropped()
    run = ct.simulate(m, q, until=4.0, step=1e-3)
    energy = np.sum(ct.energy(m)(run.q, run.v), axis=0)
    assert np.diff(energy).max() < 1e-9 * energy[0]
    legs = [i for i, name in enumerate(m.v_names) if not name.startswith("ball")]
    assert np.abs(run.v[-1, legs]).max() < 2e-3  # the ball may roll; feet creep at less than two slip speeds
    assert_allclose(ct.contact_forces(m)(run.q[-1], run.v[-1])[:, 2].sum(), G * sum(link.body.mass for link in m.links), rtol=1e-3)


@pytest.mark.parametrize("step", [pytest.param(1e-3, marks=pytest.mark.long), 2e-3])
def test_a_biped_stands_for_ten_seconds(step: float) -> None:
    """48 coordinates, 30 constraints, two feet; its motors hold it by springs and dampers, and friction by less than its limit."""
    m, q = standing()
    run = ct.simulate(m, q, until=10.0, step=step)
    assert np.linalg.norm(run.q[-1, :3] - q[:3]) < 0.01
    assert np.abs(run.v[-1]).max() < 1e-4
    energy = np.sum(ct.energy(m)(run.q, run.v), axis=0)
    assert np.diff(energy).max() < 1e-8 * energy[0]
    forces = ct.contact_forces(m)(run.q[-1], run.v[-1])
    weight = G * sum(link.body.mass for link in m.links)
    assert_allclose(forces.sum(axis=0), [0.0, 0.0, weight], atol=1e-3 * weight)
    assert (np.linalg.norm(forces[:, :2], axis=1) < 0.5 * 0.8 * forces[:, 2]).all()


@pytest.mark.parametrize("integrator", ["rk4", "rang-angermann"])
def test_gradients_of_a_bounce_are_those_of_differences(integrator: str) -> None:
    """Where a ball is after an impact, by how it begins; the steps are the same in both."""
    m = free(ct.sphere(0.1, mass=1.0), restitution=0.6, exponent=1.5, friction=0.3, slip_speed=0.05)
    q, v = at(m, 0.0, 0.0, 0.15), np.array([0.0, 0.0, 0.0, 0.3, 0.0, -1.0])

    def end(v: np.ndarray) -> np.ndarray:
        q_end = ct.rollout(m, q, v, None, 2e-4, 600, integrator=integrator).q[-1]
        return np.array([q_end[0] + q_end[2]])

    found = ct.rollout_gradient(m, q, v, step=2e-4, steps=600, final_cost=lambda t, q, v: q[0] + q[2], integrator=integrator)
    assert_allclose(found.value, end(v)[0], rtol=1e-12)
    assert_allclose(found.v0, jacobian(end, v, 1e-6)[0], atol=1e-4)
    assert found.v0[5] < -0.005  # the faster down, the higher up


def test_forces_take_frames_for_bodies() -> None:
    def built(framed: bool) -> ct.Model:
        m = ct.Model("rod")
        m.add("rod", ct.box(1.0, 0.1, 0.2, mass=1.0), ct.Free())
        m.add_frame("tip", "rod", ct.Pose((1.0, 0.0, 0.0), rpy=(0.0, 0.3, 0.0)))
        turned = ct.Pose((1.0, 0.0, 0.0), rpy=(0.0, 0.3, 0.0))
        where, at, pose = ("tip", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)) if framed else ("rod", (1.0, 0.0, 0.0), turned)
        m.add_point_force("drag", where, at, lambda t, position, velocity: -0.3 * velocity)
        m.add_line_force("cable", "ground", where, lambda t, length, rate: 2.0 * length, at_b=at)
        m.add_bushing("mount", "ground", where, stiffness=(2.0, 3.0, 4.0), turning_stiffness=0.5, at_b=pose)
        return m

    q, v = np.array([0.1, 0.2, 0.3, 1.0, 0.1, 0.2, 0.3]), np.linspace(-0.3, 0.4, 6)
    found, expected = (ct.forward_dynamics(built(framed))(q, v, np.zeros(6)) for framed in (True, False))
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
