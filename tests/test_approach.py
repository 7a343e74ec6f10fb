"""Adaptive steps come to contacts and stops: by closed forms, and by what a motion passes between the ends of its steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catena as ct
from catena.examples import four_bar
from catena.formulations.approach import gaps
from catena.formulations.contact import touches
from catena.formulations.kinematics import world_frames

pytestmark = pytest.mark.evaluated

ADAPTIVE = ("dormand-prince", "bogacki-shampine", "rang-angermann", "dop853")
OF_SCIPY = ("scipy:RK45", "scipy:Radau", "scipy:BDF", "scipy:LSODA")


@pytest.fixture(scope="module")
def balls() -> ct.Model:
    m = ct.Model("balls", gravity=(0, 0, 0))
    for name in ("one", "two"):
        m.add(name, ct.sphere(0.1, mass=1.0), ct.Free())
    m.add_contact("click", "one", against="two", friction=0.0, stiffness=1e4, dissipation=0.0)
    return m


def towards(m: ct.Model, distance: float, speed: float) -> tuple[np.ndarray, np.ndarray]:
    q, v = m.neutral(), np.zeros(m.nv)
    q[0], v[3] = -distance, speed
    return q, v


@pytest.mark.parametrize("integrator", [*ADAPTIVE, *OF_SCIPY])
def test_equal_balls_that_meet_exchange_their_velocities(integrator: str, balls: ct.Model) -> None:
    for distance, until in ((3.0, 10.0), (30.0, 1000.0)):
        for rtol in (1e-8, 1e-11) if "scipy" not in integrator else (1e-8,):
            run = ct.simulate(balls, *towards(balls, distance, 1.0), until=until, integrator=integrator, rtol=rtol)
            assert abs(run.v[-1, 3]) < 1e4 * rtol, (distance, rtol)
            assert abs(run.v[-1, 9] - 1.0) < 1e4 * rtol, (distance, rtol)


def test_a_controller_in_python_and_samples_at_times_change_nothing(balls: ct.Model) -> None:
    given = towards(balls, 30.0, 1.0)
    called = ct.simulate(balls, *given, until=200.0, controller=ct.python(lambda t, q, v: np.zeros(12)))
    sampled = ct.simulate(balls, *given, until=200.0, record=[1.0, 100.0, 200.0])
    for run in (called, sampled):
        assert abs(run.v[-1, 9] - 1.0) < 1e-5


@pytest.mark.parametrize("integrator", [*ADAPTIVE, "scipy:RK45"])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_slide_comes_back_from_its_stops(side: float, integrator: str) -> None:
    m = ct.Model("slide", gravity=(0, 0, 0))
    m.add("slide", ct.point_mass(0.5), ct.Prismatic("x", limits=(-15.0, 15.0), stop_stiffness=1e5, stop_damping=0.0))
    run = ct.simulate(m, [0.0], [5.0 * side], until=5.0, integrator=integrator)
    assert abs(run.v[-1, 0] + 5.0 * side) < 1e-4
    assert run.info["steps"] < 1000


def test_a_ball_that_bounces_takes_few_steps() -> None:
    """About as many as its bounces take, which last a thousandth of its flight."""
    m = ct.Model("ball")
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Prismatic("z"))
    m.add_contact("floor", "ball", restitution=1.0, stiffness=1e7, friction=0.0)
    run = ct.simulate(m, [10.1], until=100.0)
    assert np.ptp(np.sum(ct.energy(m)(run.q, run.v), axis=0)) < 1e-4 * 98.1
    deep = m.links[0].body.mass * 9.81 / 1e7
    fall = np.sqrt(2.0 * 10.0 / 9.81)
    bounces = int(np.sum((run.v[1:, 0] > 0.0) & (run.v[:-1, 0] < 0.0)))
    assert bounces == round((100.0 - fall) / (2.0 * fall + np.pi * np.sqrt(deep / 9.81)))
    assert run.info["steps"] + run.info["rejected"] < 120 * bounces


def test_a_body_at_rest_takes_long_steps() -> None:
    m = ct.Model("box")
    m.add("box", ct.box(0.2, 0.3, 0.1, mass=3.0), ct.Free())
    m.add_contact("floor", "box")
    q = m.neutral()
    q[2], q[3:] = 0.06, np.array([1.0, 0.01, 0.02, 0.03]) / np.linalg.norm([1.0, 0.01, 0.02, 0.03])
    first, later = (ct.simulate(m, q, until=until, integrator="rang-angermann").info["steps"] for until in (2.0, 1000.0))
    assert later < 1.5 * first


SHAPES: dict[str, ct.Geometry] = {
    "sphere": ct.Geometry("sphere", (0.1,), (0.3, 0.1, 0)), "box": ct.Geometry("box", (0.5, 0.2, 0.02)),
    "rod": ct.Geometry("rod", (0.8,), axis=(1, 0, 0)), "capsule": ct.Geometry("capsule", (0.5, 0.05), axis=(1, 0, 0)),
    "cylinder": ct.Geometry("cylinder", (0.5, 0.1), axis=(1, 0, 0)), "ellipsoid": ct.Geometry("ellipsoid", (0.4, 0.2, 0.05)),
}  # fmt: skip


def turning(shape: ct.Geometry, rng: np.random.Generator) -> tuple[ct.Model, np.ndarray, np.ndarray]:
    """Return a body that flies and turns fast above the ground."""
    m = ct.Model("body", gravity=(0, 0, 0))
    m.add("body", ct.Body(1.0, inertia=np.diag([0.01, 0.03, 0.02])), ct.Free())
    m.add_contact("floor", "body", shape, friction=0.0, dissipation=0.0, stiffness=1e5)
    q, quat = m.neutral(), rng.normal(size=4)
    q[2], q[3:] = rng.uniform(0.6, 2.0), quat / np.linalg.norm(quat)
    return m, q, np.array([*rng.normal(scale=rng.choice([1.0, 30.0]), size=3), *rng.normal(size=2), -rng.uniform(0.01, 1.0)])


def swinging(rng: np.random.Generator) -> tuple[ct.Model, np.ndarray, np.ndarray]:
    """Return an arm whose tip may graze the ground."""
    m = ct.Model("arm")
    m.add("upper", ct.rod(0.5, mass=1.0), ct.Revolute("y", armature=1e-3))
    m.add("lower", ct.rod(0.3, mass=0.5), ct.Revolute("y", armature=1e-3), parent="upper", at=(0.5, 0, 0))
    tip = ct.Geometry("sphere", (0.02,), (0.3, 0, 0))
    m.add_contact("floor", "lower", tip, height=-rng.uniform(0.5, 0.82), friction=0.0, dissipation=0.0, stiffness=1e5)
    return m, rng.uniform(-0.3, 0.3, 2), rng.normal(scale=5.0, size=2)


def shaken(rng: np.random.Generator) -> tuple[ct.Model, np.ndarray, np.ndarray]:
    """Return a pendulum on a table that moves up and down, at times to where its tip meets the ground."""
    m, size = ct.Model("shaken"), rng.uniform(0.1, 0.5)
    m.add("table", ct.point_mass(1.0), ct.Driven(ct.Prismatic("z"), ct.Harmonic(amplitude=size, frequency=10.0 ** rng.uniform(-0.5, 1.5))))
    m.add("tip", ct.point_mass(1.0, at=(0.3, 0, 0)), ct.Revolute("y"), parent="table")
    tip = ct.Geometry("sphere", (0.02,), (0.3, 0, 0))
    m.add_contact("floor", "tip", tip, height=-0.32 - size * rng.uniform(0.5, 0.99), friction=0.0, dissipation=0.0, stiffness=1e5)
    return m, rng.uniform(-1.0, 1.0, 1), rng.normal(size=1)


def coupled(rng: np.random.Generator) -> tuple[ct.Model, np.ndarray, np.ndarray]:
    """Return a four-bar whose coupler may graze the ground."""
    m = four_bar()
    tip = ct.Geometry("sphere", (0.02,), (0.1, 0.0, 0.0))
    m.add_contact("floor", m.body_names[1], tip, height=rng.uniform(-0.3, 0.0), friction=0.0, dissipation=0.0, stiffness=1e5)
    q = m.assemble()
    return m, q, m.project_velocity(q, rng.normal(scale=10.0, size=m.nv))


KINDS = {**{name: lambda rng, shape=shape: turning(shape, rng) for name, shape in SHAPES.items()},
         "arm": swinging, "driven": shaken, "loop": coupled}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_touched_between_steps_that_touch_at_neither_end(kind: str) -> None:
    """Samples within the longest steps are in contact only where an end of the step is."""
    touched = 0
    for seed in range(6):
        rng = np.random.default_rng([seed, 5])
        m, q, v = KINDS[kind](rng)
        t: Any = (0.0,) if m.driven_names else ()
        if np.any(ct.contact_forces(m)(*t, q, v)):
            continue
        integrator = ADAPTIVE[(seed + len(kind)) // 3 % 4]
        options: dict[str, Any] = {"until": 3.0, "integrator": integrator, "rtol": 10.0 ** -rng.uniform(4.0, 7.0)}
        run = ct.simulate(m, q, v, **options)
        k = np.argsort(np.diff(run.t))[-300:]
        times = np.unique(run.t[k, None] + np.diff(run.t)[k, None] * np.linspace(0.1, 0.9, 9))
        within = ct.simulate(m, q, v, record=times.tolist(), **options)
        kernel = ct.contact_forces(m)
        forces, between = (
            np.abs(kernel(*((x.t,) if m.driven_names else ()), x.q, x.v)).reshape(len(x.t), -1).max(axis=1) for x in (run, within)
        )
        at = np.searchsorted(run.t, within.t, side="right") - 1
        ends = np.maximum(forces[at], forces[np.minimum(at + 1, len(forces) - 1)])
        assert not np.any((between > 1e-2) & (ends == 0.0)), (seed, options)
        touched += bool(forces.any())
    assert touched


def test_gaps_change_as_motions_say() -> None:
    """The rate and acceleration of a gap are its differences along a motion, for all shapes, driven joints and loops."""
    for kind, make in KINDS.items():
        m, q, v = make(np.random.default_rng(4))
        a = np.random.default_rng(5).normal(size=m.nv)
        if m.has_loops:
            a = ct.forward_dynamics(m)(q, v, a)
        found = gaps(m.tree().at(0.3), q, v, a)
        h, depths = 1e-4, []
        for x in (-h, 0.0, h):
            where = m.integrate(q, x * v + 0.5 * x * x * a)
            tree = m.tree().at(0.3 + x)
            depths.append([-touch.depth for contact in tree.contacts for touch in touches(contact, world_frames(tree, where))])
        before, now, after = np.array(depths, dtype=float)
        scale = 1.0 + np.abs(np.asarray(found.acceleration, dtype=float)).max()
        assert np.abs(np.asarray(found.gap, dtype=float) - now).max() < 1e-14, kind
        assert np.abs(np.asarray(found.rate, dtype=float) - (after - before) / (2.0 * h)).max() < 1e-5 * scale, kind
        assert np.abs(np.asarray(found.acceleration, dtype=float) - (after - 2.0 * now + before) / h**2).max() < 1e-4 * scale, kind
