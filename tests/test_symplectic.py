"""Symplectic integrators: what they keep, and what other integrators do not."""

from __future__ import annotations

import sys
from functools import cache
from itertools import product

import numpy as np
import pytest
from tests.test_integrators import ball_chain, distance, free_body

import catena as ct
from catena.examples import EXAMPLES
from catena.formulations.linear import canonical_momenta
from catena.simulation.integrators.steps import INTEGRATORS

pytestmark = pytest.mark.evaluated

SYMPLECTIC = [name for name, integrator in INTEGRATORS.items() if integrator.canonical]
ORDERS = {name: INTEGRATORS[name].order for name in SYMPLECTIC}


def hinges(bodies=3):
    m = ct.Model("hinges")
    for k in range(bodies):
        body = ct.Body(1.0, (0.05, 0.0, 0.3), np.diag([0.2, 0.3, 0.25]))
        m.add(f"link{k}", body, ct.Revolute("zyx"[k % 3]), f"link{k - 1}" if k else "ground", (0.0, 0.0, 0.5 if k else 0.0))
    return m


def floating(gravity=(0.0, 0.0, 0.0)):
    """A free body that carries one on a ball joint, and that one on a hinge."""
    m = ct.Model("floating", gravity=gravity)
    inertia = ((0.3, 0.02, 0.0), (0.02, 0.25, 0.01), (0.0, 0.01, 0.4))
    m.add("base", ct.Body(2.0, (0.1, 0.0, 0.2), inertia), ct.Free())
    m.add("ball", ct.Body(1.0, (0.0, 0.1, 0.3), inertia), ct.Spherical(), "base", (0.0, 0.2, 0.3))
    m.add("hinge", ct.Body(1.0, (0.2, 0.0, 0.1), inertia), ct.Revolute("x"), "ball", (0.0, 0.0, 0.5))
    return m


MODELS = {"hinges": hinges(), "ball joints": ball_chain(2), "free body": free_body(), "floating": floating((0.0, 0.0, -9.81))}


def state(m, seed=3, turn=0.5, speed=2.0):
    rng = np.random.default_rng(seed)
    return m.integrate(m.neutral(), turn * rng.normal(size=m.nv)), speed * rng.normal(size=m.nv)


velocities, momenta = cache(ct.velocities), cache(ct.momenta)


# --- canonical coordinates around a position: Cayley coordinates u and their momenta


def coordinates(m, centre, q):
    """The Cayley coordinates of q around a position, by Newton's iteration."""
    u = np.zeros(m.nv)
    for _ in range(6):
        here = m.cayley(centre, u)
        rest = m.difference(here, q)  # small, so that it is a velocity over a unit of time
        rates = np.array([m.cayley_velocity(here, u, unit) for unit in np.eye(m.nv)]).T
        u = u + np.linalg.solve(rates, rest)
    return u


def from_canonical(m, centre, z):
    u, conjugate = np.split(z, 2)
    q = m.cayley(centre, u)
    matrix = np.array([m.cayley_momentum(q, u, unit) for unit in np.eye(m.nv)]).T
    return q, velocities(m)(q, np.linalg.solve(matrix, conjugate))


def to_canonical(m, centre, q, v):
    u = coordinates(m, centre, q)
    return np.concatenate([u, m.cayley_momentum(q, u, momenta(m)(q, v))])


def step_jacobian(m, q, v, integrator, step):
    """The derivatives of a step in canonical coordinates around its start and around its end, by differences of order 4."""
    settings = {"step": step, "steps": 1, "integrator": integrator, "threads": 1}
    end, small = ct.rollout(m, q, v, **settings).q[-1], 1e-4
    z = to_canonical(m, q, q, v)
    starts = [from_canonical(m, q, z + k * small * unit) for unit in np.eye(2 * m.nv) for k in (1, -1, 2, -2)]
    runs = ct.rollout(m, *map(np.array, zip(*starts, strict=True)), **settings)
    assert not runs.failed.any()
    ends = np.array([to_canonical(m, end, *x) for x in zip(runs.q[:, -1], runs.v[:, -1], strict=True)]).reshape(2 * m.nv, 4, -1)
    return ((8.0 * (ends[:, 0] - ends[:, 1]) - (ends[:, 2] - ends[:, 3])) / (12.0 * small)).T


def defect(J):
    n = len(J) // 2
    omega = np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])
    return np.abs(J.T @ omega @ J - omega).max() / np.abs(J).max() ** 2


OTHERS = ("rk4", "implicit-midpoint", "gauss-legendre-4", "semi-implicit-euler")


@pytest.mark.parametrize(("name", "integrator"), [*product(MODELS, SYMPLECTIC), *product(["hinges", "free body"], OTHERS)])
def test_step_keeps_the_symplectic_form_and_those_of_other_methods_do_not(name, integrator):
    m = MODELS[name]
    found = defect(step_jacobian(m, *state(m), integrator, 0.04))
    if integrator in SYMPLECTIC:
        assert found < 1e-8
    else:
        assert found > 5e-8


@pytest.mark.parametrize("integrator", SYMPLECTIC)
def test_poincare_invariant_of_a_loop_of_states_is_kept(integrator):
    """The sum of p dq round a loop of states: a loop of 64 of them, and its derivatives by their Fourier series."""
    m = hinges()
    q, v = state(m)
    count, around = 64, np.exp(2j * np.pi * np.arange(64) / 64)
    p = momenta(m)(q, v)
    loop_q = q + 0.1 * np.real(around[:, None] * np.array([1.0, 1j, -1.0 + 1j]))
    loop_p = p + 0.1 * np.real(around[:, None] * np.array([1j, 1.0, 0.5]))

    def invariant(q, v):
        waves = 2j * np.pi * np.fft.fftfreq(count, 1.0 / count)[:, None]
        return np.mean(np.sum(momenta(m)(q, v) * np.real(np.fft.ifft(waves * np.fft.fft(q, axis=0), axis=0)), axis=1))

    start = invariant(loop_q, velocities(m)(loop_q, loop_p))
    changes = {}
    for name in (integrator, "rk4", "semi-implicit-euler"):
        runs = ct.rollout(m, loop_q, velocities(m)(loop_q, loop_p), step=0.05, steps=10, integrator=name)
        changes[name] = abs(invariant(runs.q[:, -1], runs.v[:, -1]) / start - 1.0)
    assert abs(start) > 1e-2
    assert changes[integrator] < 1e-9
    assert changes["rk4"] > 1e-6
    assert changes["semi-implicit-euler"] > 1e-3


# --- integrals of the motion


def total_momentum(m, q, v):
    """Linear momentum, and angular momentum about the origin, of a mechanism on a free joint."""
    outside = m.momentum_in_parent_axes(q, momenta(m)(q, v))
    return np.concatenate([outside[..., 3:6], outside[..., :3] + np.cross(q[..., :3], outside[..., 3:6])], axis=-1)


@pytest.mark.parametrize("integrator", SYMPLECTIC)
def test_momentum_and_angular_momentum_of_a_floating_mechanism_are_kept_to_rounding(integrator):
    m = floating()
    q, v = state(m)
    runs = {name: ct.simulate(m, q, v, until=10.0, step=0.01, integrator=name) for name in (integrator, "rk4", "implicit-midpoint")}
    changes = {name: np.ptp(total_momentum(m, run.q, run.v), axis=0).max() for name, run in runs.items()}
    assert changes[integrator] < 1e-11
    assert changes["rk4"] > 1e-8
    assert changes["implicit-midpoint"] > 1e-6


@pytest.mark.parametrize("integrator", SYMPLECTIC)
@pytest.mark.parametrize("name", ["hinges", "ball joints"])
def test_energy_error_of_many_steps_has_no_trend(name, integrator):
    """By a line through 20,000 steps: what it rises is small beside what the error wobbles; with rk4 it is half of it and more
    for hinges, and on balls, whose motion is chaotic and takes rk4 up and down, at least more than with the symplectic methods."""
    m = MODELS[name]
    q, v = state(m, speed=0.5, turn=0.3 if name == "hinges" else 0.5)
    if name == "hinges":
        q[1] += np.pi  # hanging
    risen = {}
    for method in (integrator, "rk4"):
        run = ct.simulate(m, q, v, until=400.0, step=0.02, integrator=method, record=4)
        error = run.total_energy - run.total_energy[0]
        slope = np.polyfit(run.t, error, 1)[0]
        risen[method] = abs(slope) * run.t[-1] / np.ptp(error)
    assert risen[integrator] < 0.15
    assert risen["rk4"] > (0.5 if name == "hinges" else risen[integrator])


# --- agreement


@pytest.mark.parametrize("name", EXAMPLES)
def test_momenta_and_their_rates_from_velocities_equal_hamiltons_equations(name):
    m = EXAMPLES[name]()
    tree = m.tree()
    q, v = state(m)
    tau = np.random.default_rng(4).normal(size=m.nv)
    p, pdot = (np.asarray(x, dtype=float) for x in canonical_momenta.momentum_rates(tree, q, v, tau))
    back, same = (np.asarray(x, dtype=float) for x in canonical_momenta.hamiltonian_dynamics(tree, q, p, tau))
    assert np.allclose(back, v, rtol=1e-9, atol=1e-9)
    assert np.allclose(pdot, same, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(pdot).max()))
    if not m.has_loops:
        assert np.allclose(p, ct.mass_matrix(m)(q) @ v, rtol=1e-9, atol=1e-11)


def forced():
    """A free body with a damped hinge, a damped spring and a force over time and state."""
    m = free_body()
    m.add("damped", ct.Body(0.5, (0.0, 0.0, 0.2), 0.1 * np.eye(3)), ct.Revolute("y", damping=0.3), "body", (0.1, 0.0, 0.2))
    m.add_spring("spring", "ground", "body", at_b=(0.0, 0.1, 0.0), stiffness=30.0, damping=2.0, length=0.4)

    def push(t, q, v):
        return np.array([0.0, 0.0, 0.0, np.sin(3.0 * t), 0.2 * v[0], 1.0])

    m.add_force("push", push, body="damped", point=(0.0, 0.0, 0.1))
    return m


def law(t, q, v):
    return np.cos(2.0 * t) * np.eye(7)[6] - 0.1 * v


@pytest.fixture(scope="module")
def moved():
    m = forced()
    q, v = state(m)
    return m, q, v, ct.simulate(m, q, v, until=1.0, rtol=1e-12, integrator="dop853", controller=law)


@pytest.mark.parametrize("integrator", SYMPLECTIC)
def test_order_is_kept_under_damping_springs_controllers_and_forces_over_time(integrator, moved):
    m, q, v, exact = moved
    counts = {1: (400, 800), 2: (100, 200), 4: (40, 80), 6: (25, 40)}[ORDERS[integrator]]
    errors = [distance(m, ct.simulate(m, q, v, until=1.0, step=1.0 / n, integrator=integrator, controller=law), exact) for n in counts]
    measured = np.log(errors[0] / errors[1]) / np.log(counts[1] / counts[0])
    assert measured == pytest.approx(ORDERS[integrator], abs=0.3), errors


@pytest.mark.parametrize("integrator", SYMPLECTIC)
def test_what_is_called_from_python_equals_what_is_compiled(integrator):
    def pulled(function):
        m = ball_chain(1)
        m.add_force("pull", function, body="link0", point=(0.0, 0.0, -0.3))
        return m

    def pull(t, q, v):
        return np.array([0.0, 0.1 * v[1], 0.0, np.sin(3.0 * t), 0.2 * v[0], 1.0])

    def law(t, q, v):
        return np.array([np.cos(2.0 * t), 0.0, 0.0]) - 0.1 * v

    m = pulled(pull)
    q, v = state(m)
    runs = [
        ct.simulate(model, q, v, until=0.1, step=0.02, integrator=integrator, controller=controller)
        for model, controller in ((m, law), (pulled(ct.python(pull)), law), (m, ct.python(law)))
    ]
    for run in runs[1:]:
        assert distance(m, run, runs[0]) < 1e-12


def test_large_mechanisms_are_solved_by_plain_iteration_and_keep_their_energy():
    m = EXAMPLES["chain"]()
    assert m.nv > 24
    q = 0.3 * np.random.default_rng(5).normal(size=m.nv)
    runs = [ct.simulate(m, q, until=0.1, step=0.002, integrator=name) for name in ("symplectic-midpoint", "rk4")]
    assert distance(m, *runs) < 1e-2
    assert np.abs(runs[0].energy_change).max() < 1e-5


# --- derivatives, parameters and wrenches


def pushed():
    """A ball that carries a damped hinge, under a damped spring, a stop, friction and a force over time and state."""
    m = ct.Model("pushed", gravity=(0.0, 0.3, -9.81), friction_speed=0.2)
    m.add("ball", ct.Body(2.0, (0.1, 0.0, 0.2), np.diag([0.3, 0.25, 0.4])), ct.Spherical(damping=0.2))
    hinge = ct.Revolute("y", friction=0.3, limits=(-0.3, 0.1), stop_stiffness=20.0, stop_damping=0.02)
    m.add("hinge", ct.Body(0.5, (0.0, 0.1, 0.2), 0.1 * np.eye(3)), hinge, "ball", (0.1, 0.0, 0.2))
    m.add_spring("spring", "ground", "hinge", at_b=(0.0, 0.1, 0.0), stiffness=30.0, damping=2.0, length=0.4)
    m.add_force("push", lambda t, q, v: [0.0, np.sin(3.0 * t), 0.2 * v[0], q[4], 0.0, 1.0], body="hinge", point=(0.0, 0.0, 0.1))
    return m


#: Numbers that are given to `pushed`.
NUMBERS = {"hinge.mass": 0.6, "ball.com": np.array([0.15, 0.05, 0.1]), "spring.stiffness": 35.0, "gravity": np.array([0.1, 0.0, -9.0])}


def costs(t, q, v, tau):
    return v @ v + np.sin(t) * (tau @ tau) + q[4] ** 2


def slope(function, size=1e-5):
    """The derivative at 0 of a function, by differences of order 4."""
    at = {k: np.asarray(function(k * size)) for k in (-2, -1, 1, 2)}
    return (8.0 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12.0 * size)


class Changed:
    """A start, controls and numbers that change along a line."""

    def __init__(self, m, steps):
        rng = np.random.default_rng(5)
        self.m, (self.q, self.v) = m, state(m)
        self.u = rng.normal(size=(steps, m.nv))
        self.along = {"q0": rng.normal(size=m.nv), "v0": rng.normal(size=m.nv), "controls": rng.normal(size=self.u.shape)}
        self.along |= {path: rng.normal(size=np.shape(value)) for path, value in NUMBERS.items()}

    def at(self, s):
        numbers = {path: value + s * self.along[path] for path, value in NUMBERS.items()}
        q, v = self.m.integrate(self.q, s * self.along["q0"]), self.v + s * self.along["v0"]
        return q, v, self.u + s * self.along["controls"], numbers

    def total(self, found):
        """Return the slope along the line by a gradient."""
        by = {"q0": found.q0, "v0": found.v0, "controls": found.controls} | found.parameters
        return sum(np.sum(by[name] * change) for name, change in self.along.items())


@pytest.mark.parametrize("integrator", SYMPLECTIC)
def test_gradients_and_sensitivities_of_motions_equal_differences(integrator):
    m = pushed()
    line = Changed(m, 5)
    final, settings = (lambda t, q, v: v[3] + q @ q), {"step": 0.01, "integrator": integrator}

    def moved(s):
        q, v, u, numbers = line.at(s)
        return ct.rollout_gradient(m, q, v, u, steps=5, cost=costs, final_cost=final, parameters=numbers, **settings)

    found = moved(0.0)
    assert line.total(found) == pytest.approx(slope(lambda s: moved(s).value), rel=1e-8)
    q, v, u, numbers = line.at(0.0)
    along = ct.rollout_sensitivity(m, q, v, u, steps=5, along=line.along, parameters=numbers, **settings)
    ends = slope(lambda s: moved(s).motion.v[-1])
    assert np.allclose(along.v[-1], ends, rtol=0.0, atol=1e-8 * np.abs(ends).max())
    turned = slope(lambda s: m.difference(found.motion.q[-1], moved(s).motion.q[-1]))
    assert np.allclose(along.q[-1], turned, rtol=0.0, atol=1e-8 * np.abs(turned).max())


@pytest.mark.parametrize("integrator", ["symplectic-euler", "symplectic-midpoint"])
def test_gradients_of_simulations_under_constant_forces_and_laws_equal_differences(integrator):
    m = pushed()
    line = Changed(m, 1)

    def moved(s, law):
        q, v, u, numbers = line.at(s)
        put_in = {"controller": lambda t, q, v: np.cos(2.0 * t) - 0.3 * v} if law else {"tau": u[0]}
        return ct.simulate_gradient(m, q, v, until=0.05, step=0.01, cost=costs, parameters=numbers, integrator=integrator, **put_in)

    for law in (False, True):
        found = moved(0.0, law)
        total = line.total(found._replace(controls=np.zeros(m.nv) if law else found.controls))
        assert total == pytest.approx(slope(lambda s, law=law: moved(s, law).value), rel=1e-8)


@pytest.mark.parametrize("integrator", SYMPLECTIC)
def test_stepper_with_parameters_and_wrenches_is_that_of_the_model_with_these_and_has_its_derivatives(integrator):
    m = pushed()
    q, v = state(m)
    tau, push = np.array([0.1, -0.2, 0.3, 0.4]), np.array([[0.3, 0.2, -0.4, 1.0, 2.0, -3.0]])
    move = ct.stepper(m, 0.02, integrator, substeps=2, wrenches="hinge", parameters=list(NUMBERS))
    found = move(0.3, q, v, tau, push, *NUMBERS.values())
    same = m.with_values(NUMBERS)
    held, span = {"hinge": lambda t, q, v: list(push[0])}, {"start": 0.3, "until": 0.32, "step": 0.01}
    run = ct.simulate(same, q, v, tau=tau, integrator=integrator, wrenches=held, **span)
    assert np.allclose(found[0], run.q[-1], rtol=0.0, atol=1e-14)
    assert np.allclose(found[1], run.v[-1], rtol=0.0, atol=1e-13)
    inputs, rng = {"q": q, "v": v, "tau": tau, "wrenches": push, **NUMBERS}, np.random.default_rng(2)
    along = {name: rng.normal(size=m.nv if name == "q" else np.shape(x)) for name, x in inputs.items()}

    def moved(s):
        changed = {name: inputs[name] + s * along[name] for name in inputs if name != "q"}
        return move(0.3, m.integrate(q, s * along["q"]), *changed.values())[1]

    by = move.jvp(list(inputs))(0.3, *inputs.values(), *along.values())
    assert np.allclose(by[3], slope(moved), rtol=0.0, atol=1e-8 * np.abs(by[3]).max())


@pytest.mark.parametrize("integrator", ["symplectic-euler", "symplectic-gauss-4"])
def test_optimal_motion_has_a_gradient_of_0(integrator):
    m = hinges(2)
    final = lambda t, q, v: 100.0 * (q - 0.3) @ (q - 0.3) + v @ v  # noqa: E731
    cost = lambda t, q, v, tau: 1e-2 * tau @ tau  # noqa: E731
    settings = {"step": 0.02, "integrator": integrator, "cost": cost, "final_cost": final}
    found = ct.ilqr(m, np.zeros(2), controls=np.zeros((20, 2)), tolerance=1e-12, **settings)
    first, last = (ct.rollout_gradient(m, np.zeros(2), None, u, steps=20, **settings) for u in (np.zeros((20, 2)), found.controls))
    assert np.abs(last.controls).max() < 1e-4 * np.abs(first.controls).max()


def test_gradients_of_runs_and_rollouts_of_one_cost_are_compiled_apart():
    """Forces are held by rows in one, and constant in the other; numbers of the model are in both."""
    m = hinges(1)
    given = {"step": 0.01, "final_cost": lambda t, q, v: v[0], "integrator": "rk4", "parameters": {"link0.mass": 1.2}}
    held = ct.rollout_gradient(m, [0.3], [0.1], np.ones((3, 1)), steps=3, **given)
    run = ct.simulate_gradient(m, [0.3], [0.1], until=0.03, tau=[1.0], **given)
    assert run.value == pytest.approx(held.value, rel=1e-13)
    assert run.q0 == pytest.approx(held.q0, rel=1e-12)
    assert run.controls == pytest.approx(held.controls.sum(axis=0), rel=1e-12)


# --- doors


@pytest.mark.parametrize("integrator", SYMPLECTIC)
def test_loops_and_adaptive_steps_are_refused(integrator):
    m = EXAMPLES["four-bar"]()
    says = rf"integrator '{integrator}' steps from momenta to momenta, and does not keep the loops of model 'four-bar' closed; use"
    with pytest.raises(ct.MethodError, match=says):
        ct.simulate(m, m.assemble(), until=1.0, step=0.01, integrator=integrator)
    with pytest.raises(ct.MethodError, match=says):
        ct.rollout(m, m.assemble(), step=0.01, steps=10, integrator=integrator)
    with pytest.raises(ct.ArgumentError, match=rf"integrator '{integrator}' does not choose its steps; give step="):
        ct.simulate(hinges(), np.zeros(3), until=1.0, integrator=integrator)


def test_auto_takes_a_symplectic_method_for_long_runs_that_keep_the_energy_and_says_so(monkeypatch):
    monkeypatch.setattr(sys.modules["catena.simulation.run"], "_LONG", 50)
    m = hinges()
    q, _ = state(m)

    def run(m=m, steps=50, **settings):
        return ct.simulate(m, q, until=0.001 * steps, **({"step": 0.001} | settings))

    long = run()
    assert long.info["integrator"] == "symplectic-gauss-4"
    assert long.info["why"] == "auto: the model keeps its energy, over 50 steps"
    assert "symplectic-gauss-4" in repr(long)
    usual = {
        "short": run(steps=49),
        "forces": run(tau=np.ones(3)),
        "controller": run(controller=lambda t, q, v: -v),
        "chosen": run(integrator="rk4"),
    }
    assert {name: other.info["integrator"] for name, other in usual.items()} == dict.fromkeys(usual, "rk4")
    assert run(step=None).info["integrator"] == "dormand-prince"
    assert not any("why" in other.info for other in usual.values())
    damped = hinges(2)
    damped.add("link2", ct.rod(0.3, 1.0), ct.Revolute("y", damping=0.1), "link1", (0.0, 0.0, 0.5))
    assert run(damped).info["integrator"] == "rk4"


def test_auto_takes_the_symplectic_method_from_100000_steps_on():
    m = ct.Model("pendulum")
    m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    run = ct.simulate(m, [2.0], until=1000.0, step=0.01, record=1000)
    assert (run.info["integrator"], run.info["steps"]) == ("symplectic-gauss-4", 100_000)
    assert np.abs(run.energy_change).max() < 1e-7
    assert ct.simulate(m, [2.0], until=999.0, step=0.01, record=1000).info["integrator"] == "rk4"
