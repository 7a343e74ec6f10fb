"""Positions that follow the lengths of a mechanism, and designs by gradients: against models built anew, differences and laws by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tests.referee import relative

import catena as ct
from catena.examples import EXAMPLES

pytestmark = pytest.mark.evaluated

EXAMPLE_SCRIPTS = Path(__file__).parents[1] / "examples"
LINKAGES = ("four-bar", "slider-crank", "five-bar-robot", "quarter-car", "delta-ruu", "stewart-ups")


def script(name: str) -> ModuleType:
    """A script of examples/, as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLE_SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def differences(function, x: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Derivatives by central differences, the last axis along x."""
    columns = []
    for i, step in enumerate(steps):
        unit = step * np.eye(len(x))[i]
        columns.append((function(x + unit) - function(x - unit)) / (2.0 * step))
    return np.stack(columns, axis=-1)


def test_positions_with_other_lengths_are_those_of_models_built_with_them() -> None:
    m, path = EXAMPLES["four-bar"](), "pin.at_b.xyz"
    crank = ct.reduced(m, ["crank"], parameters=[path])
    lengths = np.array([[0.55, 0.0, 0.0], [0.6, 0.0, 0.05], [0.7, 0.0, 0.0]])
    x = np.linspace(0.0, 2.0 * np.pi, 9)[:, None]
    q = crank.positions(x, **{path: lengths[:, None]})
    assert q.shape == (3, 9, 3)
    for one, length in zip(q, lengths, strict=True):
        built = m.with_values({path: length})
        assert ct.loop_error(built)(one).max() < 1e-12
        np.testing.assert_array_equal(one[:, 0], x[:, 0])
        near = ct.reduced(built, ["crank"]).positions(x, guess=one[0])
        np.testing.assert_allclose(near, one, atol=1e-11)
    np.testing.assert_allclose(crank.positions(x, guess=q[0, 0], **{path: lengths[0]}), q[0], atol=1e-11)


def test_positions_of_a_geometry_that_does_not_go_together_are_nan() -> None:
    m, path = EXAMPLES["four-bar"](), "pin.at_a.xyz"
    crank = ct.reduced(m, ["crank"], parameters=[path])
    with pytest.warns(ct.AssemblyWarning, match=r"geometry \(1, 0\): model 'four-bar' does not close"):
        q = crank.positions([[0.5], [1.0]], **{path: [[[1.0, 0, 0]], [[5.0, 0, 0]]]})
    assert np.isfinite(q[0]).all()
    assert np.isnan(q[1]).all()


def test_positions_refuse_parameters_that_the_reduction_was_made_without() -> None:
    crank = ct.reduced(EXAMPLES["four-bar"](), ["crank"], parameters=["pin.at_b.xyz"])
    with pytest.raises(ct.ArgumentError, match=r"'pin.at_a.xyz' is not a parameter of the reduction; name it in ct.reduced"):
        crank.positions([1.0], **{"pin.at_a.xyz": [1.0, 0.0, 0.0]})


@pytest.mark.parametrize("name", LINKAGES)
def test_positions_follow_lengths_as_differences_say(name: str) -> None:
    m, rng = EXAMPLES[name](), np.random.default_rng(1)
    known = m.parameters()
    ends = [path for path in known if path.endswith(".xyz") and np.abs(known[path].value).max() > 0.01]
    path = str(rng.choice([path for path in ends if ".at_b" in path] or ends))
    start, legs = m.assemble(), [leg for leg in m.v_names if leg.endswith("_upper")]
    r = ct.reduced(m, legs if name == "stewart-ups" else None, at=start, parameters=[path])
    value = known[path].value
    along = value / np.linalg.norm(value)  # longer and shorter
    follow = r.sensitivity(path)(start, value)
    assert follow.shape == (m.nv, 3)
    independent = [m.v_names.index(x) for x in r.names]
    np.testing.assert_array_equal(follow[independent], 0.0)
    x = np.array([start[m.q_names.index(x)] for x in r.names])
    small = 1e-5
    ends_at = [r.positions(x, guess=start, **{path: value + step * along}) for step in (small, -small)]
    difference = m.difference(ends_at[1], ends_at[0]) / (2.0 * small)
    assert np.abs(difference).max() > 1e-3
    np.testing.assert_allclose(follow @ along, difference, atol=1e-7 * (1.0 + np.abs(difference).max()))


@pytest.mark.parametrize("name", ["four-bar", "slider-crank", "five-bar-robot", "delta"])
def test_steps_of_newton_by_pivots_chosen_at_run_time_are_those_of_the_plan_far_from_closed_loops(name: str) -> None:
    m, rng = EXAMPLES[name](), np.random.default_rng(0)
    r, q = ct.reduced(m), m.assemble()
    opened = m.integrate(q, 0.05 * rng.normal(size=(20, m.nv)))
    assert ct.loop_error(m)(opened).max(axis=1).min() > 1e-3
    (by_plan, _), (by_pivots, _) = r._newton.planned(opened), r._newton._pivoted(opened)
    assert np.abs(by_plan[:, : m.nq] - opened).max() > 1e-3
    assert relative(by_pivots, by_plan) < 1e-9


def test_sensitivities_warn_of_dead_points_and_refuse_open_loops() -> None:
    m, path = EXAMPLES["four-bar"](), "pin.at_b.xyz"
    rocker = ct.reduced(m, ["rocker"], parameters=[path])
    reach = np.arccos((1.3**2 - 1.0 - 0.6**2) / (2.0 * 0.6))  # where crank and coupler are in line, 1.3 m long
    dead = np.array([np.arctan2(0.6 * np.sin(reach), 1.0 + 0.6 * np.cos(reach)), 0.0, reach])
    assert ct.loop_error(m)(dead).max() < 1e-12
    with pytest.warns(ct.SingularWarning, match=r"state \(1,\) of model 'four-bar' is singular"):
        rocker.sensitivity(path)(np.stack([m.assemble(crank=1.0), dead]))
    with pytest.raises(ct.ArgumentError, match="leaves loop 'pin' of model 'four-bar' open"):
        rocker.sensitivity(path)(dead + [0.0, 0.1, 0.0])


def test_the_derivative_of_the_linkage_that_is_shaped_equals_differences() -> None:
    shape = script("shape_linkage")
    path = shape.Path(shape.linkage(), np.arange(12) / 12)
    rng = np.random.default_rng(0)
    for design in (shape.START, shape.START + 0.01 * rng.normal(size=10)):
        expected = differences(path.residual, design, np.full(10, 1e-6))
        assert np.abs(path.jacobian(design) - expected).max() < 1e-8 * np.abs(expected).max()


def test_cranks_with_slack_turn_fully_whatever_the_design() -> None:
    shape = script("shape_linkage")
    m, rng = shape.linkage(), np.random.default_rng(0)
    crank = ct.reduced(m, ["crank"], parameters="design")
    designs = shape.START * np.ones((20, 1))
    designs[:, :4] = rng.uniform(shape.LOWEST[:4], shape.HIGHEST[:4], size=(20, 4))
    q = crank.positions(np.linspace(0.0, 2.0 * np.pi, 25)[:, None], design=designs[:, None])
    assert ct.loop_error(m, parameters="design")(q, designs[:, None]).max() < 1e-12


def test_the_derivative_of_the_holding_torque_equals_differences() -> None:
    balance = script("balance_spring")
    holding = balance.Holding(balance.lamp())
    expected = differences(holding.torque, balance.START, 1e-6 * (balance.HIGHEST - balance.LOWEST))
    np.testing.assert_allclose(holding.jacobian(balance.START), expected, rtol=1e-6, atol=1e-7)


def test_the_torque_of_the_lamp_is_that_of_its_weight_and_its_spring_by_hand() -> None:
    balance = script("balance_spring")
    holding = balance.Holding(balance.lamp())
    stiffness, length, post_x, post_z, arm_x, arm_z = balance.START
    c, s = np.cos(balance.ANGLES), np.sin(balance.ANGLES)
    weight = 9.81 * (0.4 * 0.225 + 0.3 * 0.225 + 0.9 * 0.45) * c
    hook = np.stack([c * arm_x - s * arm_z, s * arm_x + c * arm_z], axis=1)
    along = hook - [post_x, post_z]
    distance = np.linalg.norm(along, axis=1)
    pull = -stiffness * (1.0 - length / distance)[:, None] * along  # on the arm
    np.testing.assert_allclose(holding.torque(balance.START), weight - (hook[:, 0] * pull[:, 1] - hook[:, 1] * pull[:, 0]), rtol=1e-11)


def test_a_spring_of_no_free_length_balances_the_weight_exactly() -> None:
    """k a b = m g l: the law of the zero-length spring, which the search knows nothing of."""
    balance = script("balance_spring")
    found = balance.Holding(balance.lamp()).balanced(0.0)
    stiffness, length, post_x, post_z, arm_x, arm_z = found.x
    moment = 9.81 * (0.4 * 0.225 + 0.3 * 0.225 + 0.9 * 0.45)
    assert np.abs(found.fun).max() < 1e-6
    assert length < 1e-7
    assert stiffness * (post_z * arm_x - post_x * arm_z) == pytest.approx(moment, rel=1e-6)
    assert abs(stiffness * (post_x * arm_x + post_z * arm_z)) < 1e-6 * moment  # the two arms are at right angles where the lamp is level
