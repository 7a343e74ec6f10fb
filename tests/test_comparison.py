"""Comparisons equal what the kernels and the registry say; growth equals the laws that it is read from."""

import json
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest
from tests.mechanisms import closing_methods
from typer.testing import CliRunner

import catena as ct
from catena import cli
from catena.comparison import (
    REFERENCE,
    REFERENCE_WITH_LOOPS,
    compare,
    counted_polynomial,
    crossing,
    differences,
    disagreement,
    exponent,
    growth,
    methods,
    polynomial,
    sizes,
)
from catena.examples import EXAMPLES, chain
from catena.formulations import METHODS
from catena.kernels import iterative
from catena.kernels import methods as registry

pytestmark = pytest.mark.evaluated


def balls(count=3):
    """A chain of spherical joints."""
    m = ct.Model("balls")
    for i in range(count):
        m.add(f"b{i}", ct.box(0.5, 0.1, 0.2, mass=1.0), ct.Spherical(), parent=f"b{i - 1}" if i else "ground", at=(0.5 * bool(i), 0.0, 0.1))
    return m


DIFFERENCES = "central-differences"

MODELS = {**{name: EXAMPLES[name] for name in ("arm", "cart-pole", "top")}, "balls": balls}


@pytest.fixture(scope="module")
def found():
    """The comparisons of some models, by name."""
    return {name: compare(make(), states=40, seconds=0.0) for name, make in MODELS.items()}


# --- comparison


@pytest.mark.parametrize("name", MODELS)
def test_rows_and_lacks_are_all_methods_of_the_registry(name, found):
    m = MODELS[name]()
    for problem in REFERENCE:
        rows = [row.method for row in found[name].rows if row.problem == problem]
        lacking = {lack.method: lack.lacks for lack in found[name].lacking if lack.problem == problem}
        assert tuple(rows) == (*registry.fitting(problem, m), *methods.PROBLEMS[problem].beside)
        assert {*rows, *lacking} == {*registry.methods(problem), *methods.PROBLEMS[problem].beside}
        assert lacking == {method: METHODS[method].why_unsuitable(m.tree()) for method in lacking}
    assert (found[name].model, found[name].bodies, found[name].freedom) == (m.name, len(m.links), m.nv)


def test_armstrong_fits_spherical_joints_and_no_hinges(found):
    assert found["balls"].row("forward_dynamics", "armstrong").disagreement < 1e-12
    assert [(lack.problem, lack.method) for lack in found["arm"].lacking] == [("forward_dynamics", name) for name in ("armstrong", "denoc")]
    assert found["arm"].lacking[0].lacks == "all joints must be spherical, and that of 'shoulder1' is not"


@pytest.mark.parametrize("name", MODELS)
def test_all_methods_agree_with_the_reference(name, found):
    for row in found[name].rows:
        assert row.disagreement < (1e-6 if row.method == DIFFERENCES else 1e-7 if METHODS[row.method].iterates else 1e-10), row
        if row.method == REFERENCE[row.problem]:
            assert row.disagreement == 0.0
    others = [row for row in found["arm"].rows if row.method != REFERENCE[row.problem]]
    assert all(row.disagreement > 0.0 for row in others)  # compared with another, not with itself


@pytest.mark.parametrize("name", ["arm", "balls"])
def test_operations_are_those_of_the_kernels(name, found):
    m = MODELS[name]()
    for row in found[name].rows:
        if row.method == DIFFERENCES:
            continue
        once = sum(getattr(ct, row.problem)(m, row.method).operations.values())
        if METHODS[row.method].iterates:
            assert row.operations == pytest.approx(once * row.iterations)
            assert 1.0 <= row.iterations <= 10 * m.nv
            assert row.residual <= iterative.TOLERANCE
            assert row.states == 8
        else:
            assert (row.operations, row.iterations, row.residual) == (once, None, None)
            assert row.states == 40
        assert row.note == ""
        assert min(row.single_us, row.batch_us, row.build_seconds) > 0.0


def test_choice_of_auto_is_that_of_the_registry(found):
    for name, make in MODELS.items():
        assert [(c.problem, c.method, c.why) for c in found[name].automatic] == [(p, *registry.automatic(p, make())) for p in REFERENCE]


@pytest.mark.parametrize(("problem", "method"), [(problem, method) for problem in REFERENCE for method in registry.methods(problem)])
def test_order_is_one_power(problem, method):
    assert METHODS[method].order(problem) in ("O(n)", "O(n^2)", "O(n^3)")


# --- derivatives


@pytest.mark.parametrize("name", [*MODELS, "gallery", "four-bar", "bricard", "stewart-ups"])
def test_derivatives_equal_central_differences(name):
    m = MODELS.get(name, EXAMPLES.get(name))()
    found = compare(m, states=2, problems=registry.DERIVATIVES, seconds=0.0, with_peer=False)
    assert found.references == dict.fromkeys(registry.DERIVATIVES[: 1 if m.has_loops else 2], registry.TANGENTS)
    for problem in found.references:
        assert 0.0 < found.row(problem, DIFFERENCES).disagreement < 1e-6
        assert found.row(problem, registry.TANGENTS).disagreement == 0.0


def test_derivatives_that_depend_on_time_equal_central_differences():
    m = EXAMPLES["double-pendulum"]()
    m.add("cart", ct.point_mass(1.0), ct.Driven(ct.Prismatic("x"), ct.Harmonic(0.1, 3.0)))
    m.add("bob", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y", damping=0.1), parent="cart")
    assert m.time_dependent
    rows = compare(m, states=4, problems=registry.DERIVATIVES, seconds=0.0, with_peer=False).rows
    assert all(row.disagreement < (1e-7 if row.method == DIFFERENCES else 1e-12) for row in rows)
    assert len(rows) == 7


def test_motions_keep_positions_and_velocities_on_the_constraints():
    m, step = EXAMPLES["stewart-ups"](), 1e-5
    rng = np.random.default_rng(4)
    q = m.assemble(guess=m.integrate(m.assemble(), 0.1 * rng.normal(size=m.nv)))
    v = m.project_velocity(q, rng.normal(size=m.nv))
    dq, dv = differences.motions(m, {"q": q, "v": v})
    assert dq.shape == dv.shape == (m.nv, 6)
    np.testing.assert_allclose(dq.T @ dq, np.eye(6), atol=1e-12)
    for position, velocity in zip(dq.T, dv.T, strict=True):
        moved, rates = m.integrate(q, step * position), v + step * velocity
        assert ct.loop_error(m)(moved).max() < 10.0 * step**2
        closed = m.assemble(guess=moved)
        np.testing.assert_allclose(m.project_velocity(closed, rates), rates, atol=1e3 * step**2)


def test_models_of_many_coordinates_are_not_factored():
    why = registry.why_unsuitable("forward_dynamics_derivatives", "derivatives/mass-matrix", chain(41))
    assert why == "code grows with the cube of the coordinates: there may be 40, and there are 41"
    assert registry.automatic("forward_dynamics_derivatives", chain(41))[0] == "derivatives/articulated"


# --- Pinocchio beside them


def test_pinocchio_is_compared_on_every_problem(found):
    pytest.importorskip("pinocchio")
    for name in MODELS:
        assert found[name].no_peer == ""
        assert [peer.problem for peer in found[name].peers] == [*REFERENCE]
        assert all(peer.disagreement < 1e-11 and peer.states == 8 and not peer.why_not for peer in found[name].peers)


def test_what_pinocchio_has_not_is_told():
    pytest.importorskip("pinocchio")
    m = ct.Model("cross")
    m.add("cross", ct.box(0.1, 0.2, 0.3, mass=1.0), ct.Universal("x", "y"))
    mass, inverse = compare(m, 2, 0, ["mass_matrix", "inverse_dynamics_derivatives"], 0.0).peers
    assert mass.disagreement < 1e-12
    assert (inverse.function, inverse.disagreement) == ("computeRNEADerivatives", None)
    assert inverse.why_not.endswith("those of universal joints are not")
    assert compare(EXAMPLES["four-bar"](), 2, 0, ["mass_matrix"], 0.0).no_peer == "it is taken for trees without driven joints"


# --- comparison of mechanisms with loops

LOOPED = ("four-bar", "quarter-car", "peaucellier", "bricard")


@pytest.fixture(scope="module")
def closed():
    """The comparisons of mechanisms with loops, by name."""
    return {name: compare(EXAMPLES[name](), states=12, seconds=0.0) for name in LOOPED}


@pytest.mark.parametrize("name", LOOPED)
def test_freedom_with_loops_is_that_of_the_mobility(name, closed):
    m = EXAMPLES[name]()
    assert closed[name].freedom == m.mobility().freedom < m.nv
    assert closed[name].bodies == len(m.links)


@pytest.mark.parametrize("name", LOOPED)
def test_rows_with_loops_are_all_methods_that_close_them(name, closed):
    m, found = EXAMPLES[name](), closed[name]
    for problem in found.references:
        rows = tuple(row.method for row in found.rows if row.problem == problem)
        assert rows == (*registry.fitting(problem, m), *methods.PROBLEMS[problem].beside)
    forward = {row.method for row in found.rows if row.problem == "forward_dynamics"}
    assert forward == set(closing_methods(m))
    assert forward > {"coordinate-reduction", "fully-recursive/joint"}
    assert [*found.references] == [*REFERENCE_WITH_LOOPS] == [problem for problem in REFERENCE if "inverse" not in problem]


@pytest.mark.parametrize("name", LOOPED)
def test_methods_that_close_loops_agree_with_the_reference_among_them(name, closed):
    found = closed[name]
    assert found.references == REFERENCE_WITH_LOOPS
    for problem, reference in found.references.items():
        assert found.row(problem, reference).disagreement == 0.0
    others = [row for row in found.rows if row.problem == "forward_dynamics" and row.method != found.references[row.problem]]
    assert all(0.0 < row.disagreement < 1e-9 for row in others)  # compared with another, not with itself
    assert {row.states for row in found.rows if row.method != DIFFERENCES} == {12}


@pytest.mark.parametrize("name", LOOPED)
def test_sampled_states_close_the_loops_and_none_is_another(name):
    m = EXAMPLES[name]()
    sample = methods.sample(m, 12, 3)
    assert ct.loop_error(m)(sample["q"]).max() < 1e-10
    for q, v in zip(sample["q"], sample["v"], strict=True):
        np.testing.assert_allclose(m.project_velocity(q, v), v, atol=1e-9 * np.abs(v).max())
    assert len(np.unique(sample["q"].round(6), axis=0)) == 12
    np.testing.assert_array_equal(sample["q"], methods.sample(m, 12, 3)["q"])


def test_costs_with_loops_are_those_of_the_kernels_and_of_the_method(closed):
    m = EXAMPLES["four-bar"]()
    for row in closed["four-bar"].rows:
        assert row.method == DIFFERENCES or row.operations == sum(getattr(ct, row.problem)(m, row.method).operations.values())
        assert min(row.single_us, row.batch_us, row.build_seconds) > 0.0
    orders = {row.method: row.order for row in closed["four-bar"].rows if row.problem == "forward_dynamics"}
    assert orders.pop("coordinate-reduction") == "O(n + m)"
    assert set(orders.values()) == {"O(n + n m^2 + m^3)"}


@pytest.mark.parametrize("name", ["peaucellier", "bricard", "double-wishbone"])
def test_times_are_taken_where_the_plans_of_all_methods_fit(name, monkeypatch):
    timed = []

    def times(kernels, arguments, seconds):
        timed.append((kernels, arguments))
        return dict.fromkeys(kernels, 1.0), dict.fromkeys(kernels, 1.0)

    monkeypatch.setattr(methods, "_times", times)
    compare(EXAMPLES[name](), states=2, problems=["forward_dynamics"])
    ((kernels, arguments),) = timed
    for kernel in kernels.values():
        assert np.all(kernel.fits(*arguments))


def test_command_names_the_reference_and_the_freedom_with_loops():
    arguments = ["compare", "four-bar", "--states", "4"]
    text = CliRunner().invoke(cli.app, arguments, env={"COLUMNS": "120"}).output
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert text.startswith("four-bar: 3 bodies, 1 degree of freedom\n")
    assert "reference" in lines["fully-recursive/joint"]
    assert "0.0e+00" not in lines["fully-recursive/joint"]
    assert "O(n + m)" in lines["coordinate-reduction"]
    facts = json.loads(CliRunner().invoke(cli.app, [*arguments, "--json"]).output)
    assert facts["freedom"] == 1
    assert facts["references"] == REFERENCE_WITH_LOOPS
    assert {row["method"] for row in facts["rows"]} > {"coordinate-reduction", "fully-recursive/joint"}


def test_few_states_are_put_together_unless_told():
    rows = compare(EXAMPLES["four-bar"](), problems=["mass_matrix"], seconds=0.0).rows
    assert {row.states for row in rows} == {50}


def test_same_seed_gives_the_same_states(found):
    again, other = (compare(MODELS["arm"](), states=40, seed=seed, problems=["forward_dynamics"], seconds=0.0) for seed in (0, 1))
    for row in again.rows:
        assert row.disagreement == found["arm"].row("forward_dynamics", row.method).disagreement
    assert any(row.disagreement != found["arm"].row("forward_dynamics", row.method).disagreement for row in other.rows)


def test_forces_that_depend_on_time_are_compared():
    m = EXAMPLES["double-pendulum"]()
    m.add_force("push", lambda t, q, v: np.array([0.0, 0.0, np.sin(3.0 * t)]), body="lower")
    assert m.time_dependent
    rows = compare(m, states=20, seconds=0.0).rows
    assert all(row.disagreement < (1e-6 if row.method == DIFFERENCES else 1e-8) for row in rows)
    assert len(rows) == sum(len(registry.fitting(problem, m)) + len(methods.PROBLEMS[problem].beside) for problem in REFERENCE)


def test_forces_in_python_are_refused():
    m = EXAMPLES["double-pendulum"]()
    m.add_force("push", ct.python(lambda t, q, v: np.zeros(3)), body="lower")
    with pytest.raises(ct.ModelError, match=r"force 'push' is marked ct\.python"):
        compare(m, states=2, seconds=0.0)


def test_states_that_do_not_converge_are_noted_and_no_warning(monkeypatch):
    monkeypatch.setattr(iterative, "TOLERANCE", 1e-30)
    rows = compare(EXAMPLES["arm"](), states=3, problems=["forward_dynamics"], seconds=0.0).rows
    notes = {row.method: row.note for row in rows}
    assert notes["conjugate-gradient"] == "3 of 3 states did not reach the tolerance 1e-30"
    assert notes["articulated-body"] == ""


def test_comparisons_do_not_change(found):
    with pytest.raises(FrozenInstanceError):
        found["arm"].rows[0].operations = 0


def test_disagreement_is_relative_to_each_state():
    expected = np.array([[100.0, 1.0], [1.0, -2.0], [0.0, 0.0]])
    assert disagreement(expected, expected) == 0.0
    assert disagreement(expected, expected + [[1.0, 0.0], [0.0, 0.5], [0.0, 0.0]]) == 0.25
    assert disagreement(expected, expected + [[0.0, 0.0], [0.0, 0.0], [0.0, 3.0]]) == 3.0  # nothing to be relative to
    assert np.isnan(disagreement(expected, expected * np.nan))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"problems": ["energy"]}, "'energy' is not compared; choose from forward_dynamics, "), ({"states": 0}, "0 states are too few")],
)
def test_comparisons_that_cannot_be(options, message):
    with pytest.raises(ct.ArgumentError, match=message):
        compare(EXAMPLES["pendulum"](), **options)


def test_problems_that_loops_leave_open_are_refused():
    with pytest.raises(ct.ArgumentError, match="model 'four-bar' has loops; choose from forward_dynamics, mass_matrix, "):
        compare(EXAMPLES["four-bar"](), problems=["inverse_dynamics"])


# --- growth


def test_exponent_of_a_power_law_is_its_power():
    n = [8, 16, 32, 64, 128]
    for power in (1.0, 2.0, 2.5, 3.0):
        assert exponent(n, [0.37 * x**power for x in n]) == pytest.approx(power, rel=1e-13)
    assert exponent(n, [5.0, 700.0, 32.0**2, 64.0**2, 128.0**2]) == pytest.approx(2.0, rel=1e-13)  # the lower half does not count
    with pytest.raises(ct.ArgumentError, match="give at least 3"):
        exponent([8, 16], [1.0, 2.0])


def test_crossing_of_power_laws_is_where_they_meet():
    n = [2, 3, 4, 6, 8, 12, 16]
    linear, cubic = [100.0 * x for x in n], [4.0 * x**3 for x in n]
    assert crossing(n, linear, cubic) == (pytest.approx(5.0), (4, 6))
    assert crossing(n, cubic, linear) == (None, (16, None))  # cheaper at the smallest sizes, not in the end
    assert crossing(n, [0.5 * x for x in linear[:3]], linear[:3]) == (None, (None, 2))
    wavy = [0.1, 9.0, 0.1, 9.0, 0.1, 0.1, 0.1]
    assert crossing(n, wavy, [1.0] * 7)[1] == (6, 8)  # the last time counts


def test_polynomial_through_its_own_values_is_itself():
    n = [9, 12, 15, 18, 21, 24]
    cubic = (Fraction(-442), Fraction(1195, 6), Fraction(19, 2), Fraction(1, 3))
    assert polynomial(n, [sum(c * x**k for k, c in enumerate(cubic)) for x in n]) == cubic
    assert polynomial(n, [7] * 6) == (7,)
    with pytest.raises(ct.ArgumentError, match="no polynomial of degree 4 or less"):
        polynomial(n, [2**x for x in n])


@pytest.mark.parametrize(("method", "degree"), [("articulated-body", 1), ("innovations", 2), ("composite-body", 3)])
def test_counted_polynomial_has_the_degree_of_the_method_and_tells_the_counts(method, degree):
    coefficients = counted_polynomial(method)
    assert len(coefficients) == degree + 1
    assert coefficients[-1] > 0
    n = 48  # longer than any chain that was counted
    counted = sum(ct.forward_dynamics(chain(n), method).operations.values())
    assert sum(c * n**k for k, c in enumerate(coefficients)) == counted


def test_growth_is_read_from_its_comparisons():
    said = []
    found = growth([2, 3, 4, 6], seconds=0.0, report=said.append)
    assert [line.method for line in found.lines] == list(registry.fitting("forward_dynamics", chain(2)))
    for line in found.lines:
        rows = [one.row("forward_dynamics", line.method) for one in found.comparisons]
        assert line.bodies == (2, 3, 4, 6) == tuple(one.bodies for one in found.comparisons)
        assert (line.batch_us, line.operations) == (tuple(row.batch_us for row in rows), tuple(row.operations for row in rows))
        assert line.time_exponent == exponent(line.bodies[1:], line.batch_us[1:])
        assert line.operations_exponent == exponent(line.bodies[1:], line.operations[1:])
        assert line.order == METHODS[line.method].order("forward_dynamics")
    lines = {line.method: line for line in found.lines}
    for one in found.crossings:
        costs = (getattr(lines[name], one.quantity) for name in (one.cheaper, one.than))
        assert (one.bodies, one.between) == crossing((2, 3, 4, 6), *costs)
    assert {one.quantity for one in found.crossings} == {"batch_us", "operations"}
    assert set(found.polynomials) == {name for name in lines if not METHODS[name].iterates} > {"composite-body", "articulated-body"}
    assert "forward_dynamics of 'chain', 6 degrees of freedom: building innovations" in said


def test_sizes_end_where_they_are_told():
    assert sizes(8) == (2, 3, 4, 6, 8)
    assert sizes(512) == (2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512)
    with pytest.raises(ct.ArgumentError, match="give at least 8"):
        sizes(7)
