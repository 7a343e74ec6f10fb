"""Equilibria, linearisation and modes: against simulated motions, known formulas, and each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import eigh, expm, solve_continuous_are
from tests.mechanisms import tree

import catena as ct
from catena.examples import ACTUATED, cart_pole, double_pendulum, five_bar_robot, four_bar

pytestmark = pytest.mark.evaluated


def floating() -> ct.Model:
    """A ball joint and a free body, which turn as they move."""
    m = ct.Model("floating")
    m.add("base", ct.box(0.3, 0.4, 0.5, mass=3.0), ct.Free(damping=0.3))
    m.add("arm", ct.box(0.1, 0.2, 0.6, mass=1.0, com=(0.1, 0, 0.3)), ct.Spherical(damping=0.1), parent="base", at=(0.1, 0, 0.2))
    return m


CASES = {"double pendulum": double_pendulum, "four-bar": four_bar, "floating": floating, "tree": lambda: tree(5, 4)}


def state_of(m: ct.Model, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    q = m.assemble(guess=m.random(rng)) if m.has_loops else m.random(rng)
    v = 0.5 * rng.normal(size=m.nv)
    return q, m.project_velocity(q, v) if m.has_loops else v, rng.normal(size=m.nv)


@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_a_linear_system_is_what_runs_do_that_begin_nearby(build: Any) -> None:
    m = build()
    q, v, tau = state_of(m, 1)
    linear = ct.linearize(m, q, v, tau)
    own = [m.v_names.index(name) for name in linear.names]
    h, size = 1e-3, 1e-4
    options = {"until": h, "step": h / 4, "integrator": "gauss-legendre-6"}
    middle = ct.simulate(m, q, v, tau=tau, **options)
    rng, whole = np.random.default_rng(2), expm(linear.A * h)
    for _ in range(3):
        x = rng.normal(size=(2, len(own)))
        ends = []
        for sign in (size, -size):
            start = m.integrate(q, sign * linear.basis @ x[0])
            start = m.assemble(guess=start, fixed={n: float(start[m.q_names.index(n)]) for n in linear.names}) if m.has_loops else start
            speed = v.copy()
            speed[own] += sign * x[1]
            if m.has_loops:
                speed = m.project_velocity(start, v, {n: float(speed[i]) for n, i in zip(linear.names, own, strict=True)})
            run = ct.simulate(m, start, speed, tau=tau, **options)
            ends.append(np.concatenate([m.difference(middle.q[-1], run.q[-1])[own], run.v[-1][own]]))
        found = (ends[0] - ends[1]) / (2.0 * size)
        # the system changes along the motion, by a part h of it
        assert np.abs(found - whole @ x.ravel()).max() < 0.02 * np.abs((whole - np.eye(len(whole))) @ x.ravel()).max() + 1e-6


@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_columns_for_joint_forces_are_the_inverse_of_the_mass_matrix(build: Any) -> None:
    m = build()
    q, v, _ = state_of(m, 3)
    linear = ct.linearize(m, q, v)
    N = linear.basis
    expected = np.linalg.solve(N.T @ ct.mass_matrix(m)(q) @ N, N.T)
    assert np.abs(linear.B[len(N.T) :] - expected).max() < 1e-10 * np.abs(expected).max()
    assert np.abs(linear.B[: len(N.T)]).max() == 0.0


def test_a_step_is_the_solution_over_it() -> None:
    m = cart_pole()
    continuous, discrete = ct.linearize(m, [0.0, np.pi]), ct.linearize(m, [0.0, np.pi], step=0.05)
    assert np.allclose(discrete.A, expm(0.05 * continuous.A), rtol=1e-12)
    x, u = np.array([0.1, -0.2, 0.3, 0.4]), np.array([1.0, -2.0])
    fine = x.copy()
    for _ in range(20_000):  # by short steps
        fine = fine + 0.05 / 20_000 * (continuous.A @ fine + continuous.B @ u)
    assert np.abs(discrete.A @ x + discrete.B @ u - fine).max() < 1e-4


@pytest.mark.parametrize("build", [cart_pole, four_bar, floating])
def test_feedback_is_part_of_the_system(build: Any) -> None:
    m = build()
    q, v, _ = state_of(m, 4)
    rng = np.random.default_rng(5)
    gain_q, gain_v = rng.normal(size=(m.nv, m.nq)), rng.normal(size=(m.nv, m.nv))
    linear = ct.linearize(m, q, v, controller=lambda t, x, y: -(gain_q @ x) - gain_v @ y)
    held = ct.linearize(m, q, v, -(gain_q @ q) - gain_v @ v)
    count = len(linear.names)
    h = 1e-6
    changes = np.array([(m.integrate(q, h * u) - m.integrate(q, -h * u)) / (2.0 * h) for u in linear.basis.T]).T
    expected = held.A.copy()
    expected[count:, count:] -= (held.B[count:] @ gain_v @ linear.basis)
    if m.has_loops:  # velocities of dependent coordinates change along positions too
        assert np.abs(linear.A[count:, count:] - expected[count:, count:]).max() < 1e-8 * np.abs(expected).max()
    else:
        expected[count:, :count] -= held.B[count:] @ gain_q @ changes
        assert np.abs(linear.A - expected).max() < 1e-8 * np.abs(expected).max()


def test_an_optimal_gain_balances_a_cart_pole() -> None:
    m = cart_pole()
    up = ct.equilibrium(m, [0.0, np.pi - 0.2])
    assert up.stability in ("unstable", "neutral")
    A, B = ct.linearize(m, up.q, actuated=["cart"])
    gain = B.T @ solve_continuous_are(A, B, np.eye(4), np.eye(1))
    assert (np.linalg.eigvals(A - B @ gain).real < 0.0).all()

    def balance(t: Any, q: Any, v: Any) -> Any:
        return np.array([-(gain @ np.concatenate([q - up.q, v]))[0], 0.0], dtype=object)

    run = ct.simulate(m, up.q + [0.1, 0.2], until=12.0, controller=balance)
    assert np.abs(run.q[-1] - up.q).max() < 1e-3


# equilibria


@pytest.mark.parametrize("seed", range(6))
def test_equilibria_are_at_rest_and_stable_ones_are_minima_of_energy(seed: int) -> None:
    m = tree(seed, 4, ["revolute", "spherical", "universal"], options=False)
    rest = ct.equilibrium(m, m.random(seed))
    none = np.zeros(m.nv)
    assert np.abs(ct.forward_dynamics(m)(rest.q, none, rest.tau)).max() < 1e-7
    potential, rng = ct.energy(m), np.random.default_rng(seed)
    here = potential(rest.q, none)[1]
    around = [potential(m.integrate(rest.q, 1e-2 * u / np.linalg.norm(u)), none)[1] - here for u in rng.normal(size=(40, m.nv))]
    if rest.stability == "stable":
        assert min(around) > 0.0
    if min(around) < -1e-6 * abs(here):
        assert rest.stability == "unstable"


def test_free_joint_forces_hold_a_mechanism_where_it_is() -> None:
    m = five_bar_robot()
    motors = ACTUATED[m.name]
    q = m.assemble()
    held = ct.equilibrium(m, q, free=motors)
    assert np.abs(held.q - q).max() < 1e-9
    assert np.abs(ct.forward_dynamics(m)(held.q, np.zeros(m.nv), held.tau)).max() < 1e-8
    others = [i for i, name in enumerate(m.v_names) if name not in motors]
    assert np.abs(held.tau[others]).max() == 0.0


def test_a_linkage_rests_where_its_energy_is_least() -> None:
    m = four_bar()
    rest = ct.equilibrium(m)
    assert rest.stability == "stable"
    angles = np.linspace(0.0, 2.0 * np.pi, 200)
    crank = ct.reduced(m, ["crank"])
    heights = ct.energy(m)(crank.positions(angles[:, None], guess=rest.q), np.zeros(3))[1]
    assert ct.energy(m)(rest.q, np.zeros(3))[1] <= heights.min() + 1e-9


def test_what_never_rests_is_refused() -> None:
    m = ct.Model("sled")
    m.add("sled", ct.point_mass(1.0), ct.Prismatic("z"))
    with pytest.raises(ct.ModelError, match="arrives from none of 8 starts; give a guess that is nearer"):
        ct.equilibrium(m, [0.0])
    with pytest.raises(ct.ModelError, match=r"is not at rest at q: it accelerates by 9\.8"):
        ct.modes(m, [0.0])


# modes


def test_modes_are_those_of_mass_and_stiffness() -> None:
    m = double_pendulum()
    rest = ct.equilibrium(m, [1.4, 0.1])
    K = ct.bias_force(m).jacobian("bias", "q")(rest.q, np.zeros(2))
    squares, shapes = eigh(K, ct.mass_matrix(m)(rest.q))
    found = ct.modes(m, rest.q)
    assert np.allclose(found.frequencies, np.sqrt(squares) / (2.0 * np.pi), rtol=1e-10)
    for mode, shape in zip(found, shapes.T, strict=True):
        assert np.allclose(mode.shape, shape / shape[np.argmax(np.abs(shape))], atol=1e-9)
    assert np.abs(found.dampings).max() < 1e-12


def test_a_mode_is_a_run_of_small_size() -> None:
    m = four_bar()
    rest = ct.equilibrium(m)
    (mode,) = ct.modes(m, rest.q)
    small = mode.motion(1e-4, cycles=2.0, samples=9)
    assert ct.loop_error(m)(small.q).max() < 1e-9
    run = ct.simulate(m, small.q[0], until=small.t[-1], record=small.t.tolist())
    assert np.abs(run.q - small.q).max() < 1e-7


def test_damping_and_modes_without_oscillation() -> None:
    m = ct.Model("door")
    m.add("leaf", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("z", stiffness=4.0, damping=2.0))
    m.add("latch", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("z", stiffness=1.0, damping=5.0), at=(0, 0, 1))
    found = ct.modes(m, [0.0, 0.0])
    slow = (-5.0 - np.sqrt(21.0)) / 2.0, (-5.0 + np.sqrt(21.0)) / 2.0
    assert np.allclose([mode.eigenvalue for mode in found], [*slow, -1.0 + 1j * np.sqrt(3.0)])
    assert np.isclose(found[2].damping, 0.5)
    assert found[0].damping == 1.0


def test_modes_are_shown(tmp_path: Any) -> None:
    m = double_pendulum()
    mode = ct.modes(m, ct.equilibrium(m, [1.4, 0.1]).q)[1]
    mode.animate(tmp_path / "mode.gif", size=(80, 80), cycles=1.0)
    mode.draw(tmp_path / "mode.png", size=(80, 60))
    from PIL import Image

    with Image.open(tmp_path / "mode.png") as picture:
        assert picture.size == (240, 60)
    with Image.open(tmp_path / "mode.gif") as film:
        assert film.n_frames > 20  # type: ignore[attr-defined]


def test_arguments_are_checked_at_the_door() -> None:
    m = cart_pole()
    for call, says in (
        (lambda: ct.linearize(m, [0.0]), "q has shape"),
        (lambda: ct.linearize(m, [0.0, 0.0], tau=[1.0]), "tau has shape"),
        (lambda: ct.linearize(m, [0.0, 0.0], actuated=["wheel"]), "'wheel'"),
        (lambda: ct.linearize(m, [0.0, 0.0], step=-1.0), "step = -1.0 is not a positive time"),
        (lambda: ct.linearize(m, [0.0, 0.0], tau=[0.0, 0.0], controller=lambda t, q, v: q), "both tau and controller"),
        (lambda: ct.linearize(m, [0.0, 0.0], controller=lambda t, q, v: q[:1]), r"controller returned an array of shape \(1,\); return 2"),
        (lambda: ct.equilibrium(m, free=["wheel"]), "'wheel'"),
    ):
        with pytest.raises(ct.CatenaError, match=says):
            call()
