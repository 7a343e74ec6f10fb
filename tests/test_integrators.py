"""Integrators: their tables against the order conditions, their measured orders, symmetry and stability."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

import catena as ct
from catena.examples import EXAMPLES, top
from catena.simulation import with_scipy
from catena.simulation.integrators import solving, symplectic
from catena.simulation.integrators.steps import INTEGRATORS
from catena.simulation.integrators.tableaus import TABLEAUS, Tableau
from catena.simulation.run import Run, RunSettings

pytestmark = pytest.mark.evaluated

#: The methods that solve equations in every step, and those of them that are symmetric in time; the latter on momenta are stable too.
IMPLICIT = [name for name, integrator in INTEGRATORS.items() if integrator.implicit]
SYMMETRIC = [name for name in IMPLICIT if name != "symplectic-euler"]
STABLE = [name for name in SYMMETRIC if name != "stormer-verlet"]


# --- tables


def rooted_trees(order):
    """Return the rooted trees with so many nodes, each the sorted tuple of its branches."""
    if order == 1:
        return [()]
    found = set()
    for smaller in rooted_trees(order - 1):
        found |= set(grafted(smaller))
    return sorted(found)


def grafted(tree):
    """Yield the trees that one more leaf makes of a tree."""
    yield tuple(sorted([*tree, ()]))
    for i, branch in enumerate(tree):
        for grown in grafted(branch):
            yield tuple(sorted([*tree[:i], grown, *tree[i + 1 :]]))


def size(tree):
    return 1 + sum(size(branch) for branch in tree)


def density(tree):
    return size(tree) * prod(density(branch) for branch in tree)


def weights_of(tree, a):
    """Return the elementary weights of the stages."""
    product = np.ones(len(a))
    for branch in tree:
        product = product * (a @ weights_of(branch, a))
    return product


def square(tableau):
    return np.array([[*row, *[0.0] * (tableau.stages - len(row))] for row in tableau.a])


@pytest.mark.parametrize("name", TABLEAUS)
def test_tableau_meets_the_order_conditions_up_to_order_8_and_no_more(name):
    tableau = TABLEAUS[name]
    a, b = square(tableau), np.array(tableau.b)
    assert [len(rooted_trees(order)) for order in range(1, 9)] == [1, 1, 2, 4, 9, 20, 48, 115]
    for order in range(1, tableau.order + 1):
        for tree in rooted_trees(order):
            assert b @ weights_of(tree, a) == pytest.approx(1.0 / density(tree), abs=1e-13), tree
    missed = [abs(b @ weights_of(tree, a) - 1.0 / density(tree)) for tree in rooted_trees(tableau.order + 1)]
    assert max(missed) > 1e-8


@pytest.mark.parametrize("name", [name for name, tableau in TABLEAUS.items() if tableau.error])
def test_error_weights_are_those_of_a_method_of_the_order_they_claim(name):
    tableau = TABLEAUS[name]
    a, error = square(tableau), np.array(tableau.error)
    if name == "dop853":  # Hairer's estimate of order 5, tempered by one of order 3, which makes 7 of them
        orders = ((error, 5), (np.array(tableau.second), 3))
        assert tableau.error_order == 2 * 5 - 3
    else:
        orders = ((error, tableau.error_order),)
    for weights, last in orders:
        for order in range(1, last + 1):
            assert max(abs(weights @ weights_of(tree, a)) for tree in rooted_trees(order)) < 1e-13
        assert max(abs(weights @ weights_of(tree, a)) for tree in rooted_trees(last + 1)) > 1e-8


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"c": (0.0, 0.4)}, "rows do not add up to the nodes"),
        ({"order": 3}, r"do not integrate t\^2"),
        ({"c": (0.0,)}, "do not fit"),
        ({"error": (1.0, 1.0)}, "add up to 0"),
        ({"error": (1.0,)}, "as many as the stages"),
    ],
)
def test_wrong_tableaus_are_refused(change, says):
    right = {"name": "mine", "order": 2, "a": ((), (0.5,)), "b": (0.0, 1.0), "c": (0.0, 0.5)}
    assert not Tableau(**right).implicit
    with pytest.raises(ct.MethodError, match=says):
        Tableau(**(right | change))


# --- measured orders


def ball_chain(bodies=3):
    m = ct.Model("ball chain")
    body = ct.Body(1.2, com=(0.05, 0.02, -0.2), inertia=((0.24, 0.03, -0.02), (0.03, 0.3, 0.01), (-0.02, 0.01, 0.18)))
    for k in range(bodies):
        m.add(f"link{k}", body, ct.Spherical(), parent=f"link{k - 1}" if k else "ground", at=(0.0, 0.0, -0.4 if k else 0.0))
    return m


def free_body():
    m = ct.Model("free body")
    m.add("body", ct.Body(1.3, com=(0.1, -0.2, 0.05), inertia=((1.0, 0.1, 0.05), (0.1, 2.0, -0.1), (0.05, -0.1, 2.5))), ct.Free())
    return m


def distance(m, run, reference):
    return float(np.linalg.norm(np.concatenate([m.difference(reference.q[-1], run.q[-1]), run.v[-1] - reference.v[-1]])))


#: Models with the time of a run [s], and by order the steps in which it shows.
SYSTEMS = {"spherical chain": (ball_chain(), 2.0), "free body": (free_body(), 2.0)}
STEPS = {1: (400, 800, 1600), 2: (200, 400, 800), 3: (80, 160, 320), 4: (40, 80, 160)}
STEPS_OF = {
    "spherical chain": STEPS | {5: (160, 320, 640), 6: (50, 80, 120), 8: (56, 72, 96)},
    "free body": STEPS | {5: (20, 40, 80), 6: (12, 18, 26), 8: (6, 8, 12)},
}


@pytest.fixture(scope="module")
def references():
    """The state at the start and at the end, where two methods must agree."""
    found = {}
    for name, (m, until) in SYSTEMS.items():
        rng = np.random.default_rng(1)
        q, v = m.integrate(m.neutral(), 0.5 * rng.normal(size=m.nv)), 1.5 * rng.normal(size=m.nv)
        fine = ct.simulate(m, q, v, until=until, integrator="dop853", step=until / 400)
        other = ct.simulate(m, q, v, until=until, rtol=1e-13)
        assert distance(m, fine, other) < 1e-11
        found[name] = (q, v, fine)
    return found


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_measured_order_is_the_nominal_one(integrator, system, references):
    m, until = SYSTEMS[system]
    q, v, reference = references[system]
    order = INTEGRATORS[integrator].order
    counts = STEPS_OF[system][order]
    runs = [ct.simulate(m, q, v, until=until, integrator=integrator, step=until / count) for count in counts]
    errors = [distance(m, run, reference) for run in runs]
    measured = np.polyfit(np.log(counts), -np.log(errors), 1)[0]
    assert errors[0] < 0.5
    assert errors[-1] > 1e-13  # above rounding, so that there is an order to see
    assert measured == pytest.approx(order, abs=0.2), (measured, errors)
    # no integrator leaves the unit quaternions
    at = list(m.q_names).index("link0.qw" if system == "spherical chain" else "body.qw")
    for run in runs:
        assert np.abs(np.linalg.norm(run.q[:, at : at + 4], axis=1) - 1.0).max() < 1e-15


def test_quaternions_stay_of_unit_length_over_many_turns():
    m = free_body()
    run = ct.simulate(m, m.neutral(), [0.0, 20.0, 5.0, 0.0, 0.0, 0.0], until=200.0, step=0.01, integrator="midpoint", record=100)
    assert run.info["steps"] == 20000
    assert np.abs(np.linalg.norm(run.q[:, 3:], axis=1) - 1.0).max() < 1e-15


# --- the implicit methods


def reversed_motion(m, q, v, integrator, step, count):
    there = ct.simulate(m, q, v, until=step * count, step=step, integrator=integrator)
    back = ct.simulate(m, there.q[-1], -there.v[-1], until=step * count, step=step, integrator=integrator)
    return np.abs(np.concatenate([m.difference(q, back.q[-1]), -back.v[-1] - v])).max()


@pytest.mark.parametrize("integrator", SYMMETRIC)
@pytest.mark.parametrize("system", SYSTEMS)
def test_symmetric_methods_come_back_in_reversed_time(integrator, system, references):
    m, _ = SYSTEMS[system]
    q, v, _ = references[system]
    assert reversed_motion(m, q, v, integrator, 0.04, 20) < 1e-11
    for other in ("rk4", "symplectic-euler"):  # which are not symmetric
        assert reversed_motion(m, q, v, other, 0.04, 20) > 1e-8


@pytest.mark.parametrize("integrator", SYMMETRIC)
def test_symmetric_methods_keep_the_energy_of_a_heavy_top(integrator):
    """Its error wobbles and does not grow; with local coordinates around the start of each step it did, by a factor of 10."""
    m = top()
    q = m.integrate(m.neutral(), [0.4, 0.0, 0.0])
    parts = {}
    for name in (integrator, "rk4"):
        run = ct.simulate(m, q, [1.0, 0.5, 60.0], until=200.0, step=0.01, integrator=name, record=10)
        parts[name] = [np.abs(run.energy_change[part]).max() for part in (slice(0, 200), slice(-200, None))]
    early, late = parts[integrator]
    assert late < 1.05 * early < (1e-2 if INTEGRATORS[integrator].canonical else 3e-3)
    assert parts["rk4"][1] > 2.0 * parts["rk4"][0]


@pytest.fixture
def stiff():
    """A pendulum with a spring of 1e6 N m/rad and a strong damper, let go of beside its rest."""
    m = ct.Model("stiff")
    m.add("arm", ct.rod(1.0, mass=1.0), ct.Revolute("y", stiffness=1e6, damping=3e3))
    m.add("tip", ct.rod(1.0, mass=1.0), ct.Revolute("y"), parent="arm", at=(1.0, 0.0, 0.0))
    return m


@pytest.mark.parametrize("integrator", STABLE)
def test_implicit_methods_stay_bounded_where_explicit_ones_blow_up(integrator, stiff):
    step = 0.01  # the fastest rate is about 3e3 * 12 / s
    implicit = ct.simulate(stiff, [1e-3, 0.5], until=2.0, step=step, integrator=integrator)
    assert np.abs(implicit["arm"]).max() <= 1.001e-3
    exact = ct.simulate(stiff, [1e-3, 0.5], until=2.0, integrator="scipy:Radau", rtol=1e-8)
    assert abs(implicit["tip"][-1] - exact["tip"][-1]) < (1e-3 if integrator.endswith("midpoint") else 5e-4)
    says = r"simulate 'stiff': damping of joint 'arm' has a time constant of .* s, and '.*' is stable with steps up to .* not 0\.01 s; use"
    for explicit in ("rk4", "midpoint", "dormand-prince"):
        with pytest.warns(ct.StiffnessWarning, match=says), pytest.raises(ct.SimulationError, match="not finite") as caught:
            ct.simulate(stiff, [1e-3, 0.5], until=2.0, step=step, integrator=explicit)
        assert np.isfinite(caught.value.trajectory.q).all()


@pytest.mark.parametrize("integrator", IMPLICIT)
def test_plain_iteration_agrees_with_newton_iteration(integrator, monkeypatch):
    m = ball_chain(2)
    rng = np.random.default_rng(2)
    q, v = m.random(rng), rng.normal(size=m.nv)
    newton = ct.simulate(m, q, v, until=0.2, step=0.01, integrator=integrator)
    monkeypatch.setattr(solving, "LARGEST_JACOBIAN", 0)
    monkeypatch.setattr(solving, "matrix", None)
    monkeypatch.setattr(symplectic, "_EXACT", 0)
    plain = ct.simulate(ball_chain(2), q, v, until=0.2, step=0.01, integrator=integrator)  # another model: runs of one are compiled once
    assert distance(m, plain, newton) < 1e-13


def test_plain_iteration_says_where_it_does_not_converge(stiff, monkeypatch):
    monkeypatch.setattr(solving, "LARGEST_JACOBIAN", 0)
    with pytest.raises(ct.SimulationError, match=r"not solved|not finite") as caught:
        ct.simulate(stiff, [1e-3, 0.5], until=1.0, step=0.01, integrator="implicit-midpoint")
    assert caught.value.trajectory.t[-1] < 1.0


def test_implicit_step_that_is_too_large_is_refused():
    m = top()
    with pytest.raises(ct.SimulationError, match=r"implicit step at t = 0 s were not solved; .*use a smaller step") as caught:
        ct.simulate(m, m.integrate(m.neutral(), [0.4, 0.0, 0.0]), [1.0, 0.5, 60.0], until=5.0, step=0.03, integrator="gauss-legendre-4")
    assert caught.value.trajectory.info["stopped"] == "error"


@pytest.mark.parametrize("integrator", [name for name in IMPLICIT if INTEGRATORS[name].stable])
def test_implicit_step_is_solved_at_rest_under_a_large_preload(integrator):
    """Large forces that cancel but for rounding: the acceleration is noise, and so is every correction."""
    m = ct.Model("preload", gravity=(0, 0, 0))
    m.add("cart", ct.point_mass(1.0), ct.Prismatic("x"))
    m.add_spring("spring", "ground", "cart", at_a=(-1.1, 0, 0), stiffness=1e8, length=0.3)
    run = ct.simulate(m, [0.0], tau=[0.8e8], until=1.0, step=0.01, integrator=integrator)
    assert np.abs(run.vdot).max() > 0.0
    # 100 steps that each round a position of 1.1 m, and are 100 times as long as the oscillation of the spring lets them be
    assert np.abs(run["cart"]).max() < 100 * 100 * 2.2e-16


# derivatives within steps


def _controller(t, q, v):
    return np.array([np.sin(t) - 3.0 * q[i % len(q)] * v[i] - v[i] ** 3 for i in range(len(v))])


def _run(m, controller):
    q = m.assemble() if m.has_loops else m.random(3)
    return Run(RunSettings.of(m, q, None, 0.0, 1.0, 0.01, "auto", "implicit-midpoint", None, controller, (), None, 1e-6, 1e-9, None))


def _models():
    tree = ct.Model("tree", gravity=(0.3, 0.2, -9.8))
    tree.add("base", ct.box(2.0, 0.4, 0.3, 0.2), ct.Free())
    tree.add("ball", ct.box(1.0, 0.1, 0.3, 0.2), ct.Spherical(damping=3.0), "base", (0.2, 0, 0))
    tree.add("slide", ct.box(1.0, 0.1, 0.1, 0.2), ct.Prismatic("y", stiffness=50.0, friction=2.0), "ball", (0, 0, 0.2))
    tree.add("cross", ct.box(0.5, 0.1, 0.1, 0.1), ct.Universal("x", "y"), "base", (-0.2, 0, 0))
    tree.add_spring("spring", "ground", "cross", stiffness=1e3, damping=10.0, length=0.3)
    return {"tree": tree, "four-bar": EXAMPLES["four-bar"](), "arm": EXAMPLES["arm"]()}


@pytest.mark.parametrize("controller", [None, _controller, ct.python(_controller)], ids=["none", "traced", "called"])
@pytest.mark.parametrize("name", _models())
def test_derivatives_of_a_flow_are_those_of_its_accelerations(name, controller):
    m = _models()[name]
    run = _run(m, controller)
    run.begin()
    t, q = 0.3, run.settings.q0
    v = 0.1 * np.random.default_rng(5).normal(size=m.nv)
    flow = run.flow(t)
    near = flow.linearised(t, q, v, flow.acceleration(t, q, v))
    by_q, by_v, small = np.empty((m.nv, m.nv)), np.empty((m.nv, m.nv)), 1e-6
    for i, unit in enumerate(small * np.eye(m.nv)):
        by_q[:, i] = (flow.acceleration(t, m.integrate(q, unit), v) - flow.acceleration(t, m.integrate(q, -unit), v)) / (2 * small)
        by_v[:, i] = (flow.acceleration(t, q, v + unit) - flow.acceleration(t, q, v - unit)) / (2 * small)
    for expected, found in ((by_q, near.stiffness), (by_v, near.damping)):
        np.testing.assert_allclose(-np.linalg.solve(near.inertia, found), expected, atol=1e-6 * (1.0 + np.abs(expected).max()))


def _stiff_chain(bodies):
    m, parent = ct.Model("chain", gravity=(4.0, 3.0, -8.0)), "ground"
    for i in range(bodies):
        m.add(f"b{i}", ct.box(1.0, 0.05, 0.05, 0.1), ct.Revolute("xy"[i % 2], stiffness=1e5, damping=10.0), parent, (0, 0, 0.1 * (i > 0)))
        parent = f"b{i}"
    return m


@pytest.mark.parametrize("integrator", ["implicit-midpoint", "gauss-legendre-4", "symplectic-midpoint"])
def test_stiff_steps_of_large_mechanisms_are_solved(integrator):
    """30 coordinates, steps that are 30 times as long as plain iteration can take."""
    m = _stiff_chain(30)
    run = ct.simulate(m, np.zeros(30), until=0.02, step=1e-3, integrator=integrator)
    exact = ct.simulate(m, np.zeros(30), until=0.02, integrator="rang-angermann", rtol=1e-8, atol=1e-11)
    assert np.abs(run.q[-1] - exact.q[-1]).max() < (1e-3 if integrator == "gauss-legendre-4" else 0.02) * np.abs(exact.q).max()


@pytest.mark.parametrize("method", ["Radau", "BDF"])
def test_implicit_integrators_of_scipy_get_exact_derivatives(method, monkeypatch):
    m = _models()["tree"]
    q, v = m.random(3), 0.3 * np.ones(m.nv)
    calls = []
    monkeypatch.setattr(with_scipy, "_jacobian", lambda *a, original=with_scipy._jacobian: calls.append(1) or original(*a))
    run = ct.simulate(m, q, v, until=0.1, integrator=f"scipy:{method}", rtol=1e-7, atol=1e-9)
    reference = ct.simulate(m, q, v, until=0.1, integrator="dormand-prince", rtol=1e-11, atol=1e-12)
    assert calls
    np.testing.assert_allclose(run.q[-1], reference.q[-1], atol=1e-4)


def test_derivatives_for_scipy_equal_differences_of_rates():
    m = _models()["tree"]
    run = _run(m, _controller)
    run.begin()
    q, v, small = run.settings.q0, 0.3 * np.ones(m.nv), 1e-6

    def rates(y):
        return np.concatenate([m.rate(m.normalised(y[: m.nq]), y[m.nq :]), run.evaluate(0.2, m.normalised(y[: m.nq]), y[m.nq :])[0]])

    y = np.concatenate([q, v])
    expected = np.stack([(rates(y + unit) - rates(y - unit)) / (2 * small) for unit in small * np.eye(len(y))], axis=1)
    found = with_scipy._jacobian(run, 0.2, q, v)
    along = np.zeros((len(y), 2 * m.nv))  # directions that keep the lengths of quaternions
    along[: m.nq, : m.nv] = np.stack([m.rate(q, unit) for unit in np.eye(m.nv)], axis=1)
    along[m.nq :, m.nv :] = np.eye(m.nv)
    np.testing.assert_allclose(found @ along, expected @ along, atol=1e-6 * np.abs(expected).max())
