"""Fixed steps through impacts: bodies that fall, spin and meet gain no energy, and every door takes the same steps."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.explorations import motions

import catena as ct
from catena.formulations.step_laws import normal_law

pytestmark = pytest.mark.evaluated

STEPS = (1e-3, 2e-3, 5e-3)


def ball(**options: Any) -> ct.Model:
    m = ct.Model("ball")
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Free())
    m.add_contact("floor", "ball", **options)
    return m


@pytest.mark.parametrize("exponent", [1.0, 1.5])
@pytest.mark.parametrize("kind", ["sphere", "box", "plate", "cylinder"])
def test_spinning_drops_gain_no_energy(kind: str, exponent: float) -> None:
    """Of a hundred drops at each step, with any friction, dissipation and stiffness, none gains one per cent at any time."""
    m, rng = motions.dropped(kind, exponent), np.random.default_rng(8)
    for step in STEPS:
        q, v, numbers = motions.drawn_drops(m, kind, rng, 100)
        runs = ct.rollout(m, q, v, None, step, round(0.8 / step), parameters=numbers)
        gains, rises = motions.energies(m, runs, numbers)
        assert not runs.failed.any()
        spared = 2 if kind == "cylinder" else 0  # which lands flat, and changes sides on its rim; ct.simulate warns of it
        assert np.sort(gains)[-1 - spared] < 0.01, step
        assert np.sort(rises)[-1 - spared] < 0.01, step


@pytest.mark.parametrize("step", STEPS)
def test_stops_of_light_links_that_impacts_close_gain_no_energy(step: float) -> None:
    """A marble with an arm of 3 g, whose joint has stops of 1e4 N m/rad: impacts throw it into these within a step."""
    m = motions.dropped("marble", hinged=True)
    q, v, numbers = motions.drawn_drops(m, "marble", np.random.default_rng(5), 100)
    runs = ct.rollout(m, q, v, None, step, round(0.6 / step), parameters=numbers, integrator="rang-angermann")
    slow = step * np.nan_to_num(np.abs(runs.v[..., :3])).max(axis=(1, 2)) < 0.5  # steps resolve the rotation
    assert np.count_nonzero(slow) > 70
    assert np.sort(motions.energies(m, runs, numbers)[1][slow])[-2] < 0.01


def test_friction_stops_the_slip_of_a_ball_and_does_not_reverse_it() -> None:
    """A drop from 0.6 m with a spin of 10 rad/s, by all doors; energy falls, and the ball comes to roll the way it spins."""
    m, q, v = ball(), np.array([0, 0, 0.6, 1, 0, 0, 0]), np.array([0, 10.0, 0, 0, 0, 0])
    run = ct.simulate(m, q, v, until=1.0, step=5e-3)
    assert run.info["integrator"] == "rang-angermann"
    assert np.diff(run.total_energy).max() < 1e-9
    assert (run.v[:, 1] > 0.0).all()
    rolled = ct.rollout(m, q, v, None, 5e-3, 200)
    assert_array_equal(rolled.q[-1], run.q[-1])
    step, state = ct.stepper(m, 5e-3), (q, v)
    for _ in range(200):
        state = step(*state, np.zeros(6))
    assert_allclose(state[0], rolled.q[-1], rtol=1e-9)
    exact = ct.simulate(m, q, v, until=1.0)
    assert_allclose(run.v[-1, 1], exact.v[-1, 1], rtol=0.1)


@pytest.mark.parametrize("adaptive", [False, True])
def test_an_impact_does_not_depend_on_the_axes_of_the_body(adaptive: bool) -> None:
    """A ball that is turned at the start falls, spins and slides as one that is not."""
    m, rng = ball(stiffness=8e4, dissipation=0.0, friction=0.5), np.random.default_rng(0)
    turning, moving = np.array([3.0, -5.0, 2.0]), np.array([0.5, 0.2, -4.0])
    ends = []
    for quat in (np.array([1.0, 0, 0, 0]), *rng.normal(size=(3, 4))):
        q = np.array([0, 0, 0.11, *(quat / np.linalg.norm(quat))])
        R = ct.poses(m)(q)[0, :3, :3]
        v = np.concatenate([R.T @ turning, R.T @ moving])
        run = ct.simulate(m, q, v, until=0.04, integrator="rang-angermann", **({} if adaptive else {"step": 5e-3}))
        R = ct.poses(m)(run.q[-1])[0, :3, :3]
        ends.append(np.concatenate([run.q[-1, :3], R @ run.v[-1, :3], R @ run.v[-1, 3:]]))
    assert_allclose(ends[1:], np.broadcast_to(ends[0], (3, 9)), atol=1e-4 if adaptive else 1e-9)


@pytest.mark.parametrize("speed", [2.0, 10.0, 30.0])
def test_fixed_steps_miss_no_ball_on_their_way(speed: float) -> None:
    """Smooth marbles of 1 cm that go up to 15 cm in a step: each strikes the other, momentum is kept, and they part more slowly."""
    m = ct.Model("marbles", gravity=(0, 0, 0))
    for name in ("one", "two"):
        m.add(name, ct.sphere(0.01, mass=0.01), ct.Free())
    m.add_contact("click", "one", against="two", stiffness=1e4, restitution=0.8, friction=0.0)
    rng, v = np.random.default_rng(0), np.zeros((50, 12))
    q = np.tile(m.neutral(), (50, 1))
    q[:, 0], q[:, 1], v[:, 3] = -rng.uniform(0.03, 0.5, 50), rng.uniform(-0.018, 0.018, 50), speed
    runs = ct.rollout(m, q, v, None, 5e-3, 4 + int(0.6 / (5e-3 * speed)), integrator="rang-angermann")
    energy = np.sum(ct.energy(m)(runs.q, runs.v), axis=0)
    one, two = runs.v[:, -1, 3:6], runs.v[:, -1, 9:]
    assert not runs.failed.any()
    assert energy.max() < energy[0, 0] * (1.0 + 1e-9)
    assert_allclose(one + two, np.tile([speed, 0, 0], (50, 1)), atol=1e-6 * speed)
    assert (np.linalg.norm(two, axis=1) > 1e-3 * speed).all()  # the other one is on its way
    assert (np.linalg.norm(two - one, axis=1) < speed).all()


def test_fixed_steps_see_what_drives_a_contact() -> None:
    """A ball at rest in the way of an elastic one that is driven goes off at twice its speed."""
    m = ct.Model("bat", gravity=(0, 0, 0))
    m.add("bat", ct.sphere(0.1, mass=1.0), ct.Driven(ct.Prismatic("x"), lambda t: 5.0 * t))
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Prismatic("x"), at=(0.46, 0, 0))
    m.add_contact("hit", "ball", against="bat", stiffness=1e5, dissipation=0.0)
    run = ct.simulate(m, [0.0], until=0.2, step=1e-3, integrator="rang-angermann")
    assert_allclose(run.v[-1, -1], 10.0, rtol=0.02)


def test_gradients_of_a_drop_are_those_of_differences() -> None:
    """Through the step that enters the contact, at 5 ms."""
    m = ball(restitution=0.5, exponent=1.5)
    q, v = np.array([0, 0, 0.2, 0.8, 0.6, 0, 0]), np.array([1.0, 8.0, 3.0, 0.5, 0.2, -0.3])

    def end(v: np.ndarray) -> float:
        return float(ct.rollout(m, q, v, None, 5e-3, 40, integrator="rang-angermann").q[-1] @ np.arange(7.0))

    found = ct.rollout_gradient(m, q, v, step=5e-3, steps=40, final_cost=lambda t, q, v: q @ np.arange(7.0), integrator="rang-angermann")
    differences = [(end(v + d) - end(v - d)) / 2e-6 for d in 1e-6 * np.eye(6)]
    assert_allclose(found.v0, differences, atol=1e-6 * np.abs(differences).max())


def test_runs_warn_of_energy_that_contacts_give() -> None:
    """A disc that lands flat on its rim in steps of 5 ms; steps of 1 ms do not gain, and say nothing."""
    m = ct.Model("disc")
    m.add("disc", ct.cylinder(0.2, 0.1, mass=1.0), ct.Free())
    m.add_contact("floor", "disc", friction=0.9, stiffness=5.2e3, dissipation=0.0)
    rng = np.random.default_rng(3)
    warned = 0
    for _ in range(30):
        q = np.array([0, 0, 0.15, 1.0, *rng.normal(scale=0.1, size=3)])
        v = np.array([*(10.0 * rng.normal(size=3)), 0, 0, -3.0])
        q[3:] /= np.linalg.norm(q[3:])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = ct.simulate(m, q, v, until=0.4, step=5e-3)
        total = run.total_energy
        rise = (total - np.minimum.accumulate(total)).max() / (total[0] - run.energy[1].min())
        assert bool(caught) == (rise > 0.01)
        assert all("only stops and contacts act: steps of 0.005 s are too long" in str(warning.message) for warning in caught)
        warned += bool(caught)
    assert warned


def test_a_law_takes_the_energy_that_a_surface_stores() -> None:
    """Up to the deepest point, from any depth, and gives back no more; always in contact, with an exponent of 1, it is the surface's."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        exponent, k, c, h = float(rng.choice([1.0, 1.5])), 10.0 ** rng.uniform(2, 6), rng.choice([0.0, 1.0, 10.0]), 1e-3
        d, ahead, further = 1e-2 * rng.normal(size=3)
        deepest = max(ahead, further)
        law, mean = normal_law(k, c, exponent, d, ahead, deepest, h)

        def stored(x: float, k: float = k, exponent: float = exponent) -> float:
            return k * max(x, 0.0) ** (exponent + 1.0) / (exponent + 1.0)

        assert min(law.stiffness, law.damping, mean) >= 0.0
        for x in np.linspace(d, deepest, 9)[1:]:
            work = law.push * (x - d) + 0.5 * law.stiffness * (x - d) ** 2
            if deepest > d:
                assert work >= stored(x) - stored(d) - 1e-12 * k * 1e-4
        assert_allclose(work, stored(deepest) - stored(d), rtol=1e-9, atol=1e-12 * k * 1e-4)
        if min(d, deepest) > 0.0 and exponent == 1.0:
            assert_allclose(law.stiffness, k, rtol=1e-9)
    for d in (0.0, 1e-3, -1e-3):  # at rest
        law, mean = normal_law(1e4, 2.0, 1.5, d, d, d, 1e-3)
        assert_allclose(mean, 1e4 * max(d, 0.0) ** 1.5)
        assert_allclose(law.stiffness, 1.5e4 * max(d, 0.0) ** 0.5)


@pytest.mark.parametrize("seed", range(2))
def test_drops_are_explored(seed: int) -> None:
    found = motions.guarded(motions.drops, seed)
    assert not found.failures, "\n".join(f"{failure.what}: {failure.detail}" for failure in found.failures)
    assert found.counts["dropped bodies"] == 50


@pytest.mark.parametrize("friction", [0.0, 0.01])
@pytest.mark.parametrize("step", [1e-3, 5e-3])
def test_smooth_contacts_gain_no_energy_either(friction, step):
    """A smooth elastic ball bounces on its stiffness alone, which explicit steps are stable for, and gain energy by."""
    m = ct.Model("ball")
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Free())
    m.add_contact("floor", "ball", friction=friction, dissipation=0.0, penetration=1e-4)
    q0, v0 = [0, 0, 0.4, 1, 0, 0, 0], [0, 5.0, 0, 0, 0, 0]
    run = ct.simulate(m, q0, v0, until=1.0, step=step)
    assert run.info["integrator"] == "rang-angermann"
    assert run.total_energy.max() < 1.001 * run.total_energy[0]
    np.testing.assert_allclose(ct.rollout(m, q0, v0, step=step, steps=round(1.0 / step)).q[-1], run.q[-1], atol=1e-12)
