"""Identification: the regressor against inverse dynamics, base parameters against counts, estimates against their own bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests import mechanisms
from tests.referee import relative

import catena as ct
from catena.examples import EXAMPLES

pytestmark = pytest.mark.evaluated

LINKAGES = ("slider-crank", "four-bar", "watt", "peaucellier", "bennett", "five-bar-robot", "planar-3rrr", "quarter-car", "double-wishbone")


def parameters(m: ct.Model, joints: Any = None) -> np.ndarray:
    """The parameters of a model as a vector."""
    return np.array(list(ct.linear_parameters(m, joints).values()))


# --- the regressor


@given(mechanisms.moving_trees(6))
def test_regressor_times_parameters_is_inverse_dynamics(moving: tuple[ct.Model, np.ndarray, np.ndarray, np.ndarray]) -> None:
    m, *state = moving
    Y = ct.regressor(m)
    assert Y.labels["pi"] == tuple(ct.linear_parameters(m))
    assert relative(Y(*state) @ parameters(m), ct.inverse_dynamics(m)(*state)) < 1e-11


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["arm", "humanoid", "gallery"])
def test_compiled_it_is_too_in_batches(name: str) -> None:
    m = mechanisms.SHARED[name]()
    state = mechanisms.state(m, 1, (5,))
    assert relative(ct.regressor(m)(*state) @ parameters(m), ct.inverse_dynamics(m)(*state)) < 1e-11


def test_stops_and_springs_and_forces_act_besides() -> None:
    m = mechanisms.tree(3, 4)
    state = mechanisms.state(m, 3)
    hung = mechanisms.tree(3, 4)
    hung.add_spring("coil", "ground", m.body_names[-1], at_a=(0.3, 0, 0), stiffness=20.0, damping=1.0, length=0.1)
    assert relative(ct.regressor(hung)(*state), ct.regressor(m)(*state)) < 1e-14


@pytest.mark.parametrize("name", LINKAGES)
def test_with_loops_it_gives_the_forces_along_independent_coordinates(name: str) -> None:
    m, rng = EXAMPLES[name](), np.random.default_rng(0)
    heavier = m.with_values({f"{body}.mass": 0.5 + 2.0 * m.parameters()[f"{body}.mass"].value for body in m.body_names})
    Y = ct.regressor(m)
    by = ct.reduced(m, Y.labels["regressor"])
    q = m.assemble()
    v = m.project_velocity(q, rng.normal(size=m.nv))
    vdot = by.accelerations(q, v, rng.normal(size=len(by.names)))
    tau, more = (by.basis(q).T @ ct.inverse_dynamics(model)(q, v, vdot) for model in (m, heavier))
    if not m.springs:
        assert relative(Y(q, v, vdot) @ parameters(m), tau) < 1e-11
    assert relative(Y(q, v, vdot) @ (parameters(heavier) - parameters(m)), more - tau, float(np.abs(tau).max())) < 1e-11


def test_motors_as_many_as_degrees_of_freedom_give_these_forces() -> None:
    m = EXAMPLES["five-bar-robot"]()
    motors = ["leg2_proximal", "leg1_proximal"]
    by = ct.reduced(m, motors)
    q = m.assemble()
    v = by.rates(q, [0.5, -1.0])
    vdot = by.accelerations(q, v, [2.0, 1.0])
    Y = ct.regressor(m, actuated=motors)
    tau = ct.inverse_dynamics(m, actuated=motors)(q, v, vdot)
    assert Y.labels["regressor"] == tuple(motors)
    assert relative(Y(q, v, vdot) @ parameters(m), tau[[m.v_names.index(name) for name in motors]]) < 1e-11


def test_more_motors_leave_the_choice_of_rows_to_the_regressor() -> None:
    m = EXAMPLES["four-bar"]()
    Y = ct.regressor(m, actuated=["crank", "rocker"])
    assert len(Y.labels["regressor"]) == 1
    assert Y.labels["regressor"][0] in ("crank", "rocker")


def test_states_that_open_the_loops_are_refused() -> None:
    m = EXAMPLES["four-bar"]()
    with pytest.raises(ct.ArgumentError, match="acceleration of the state would open the loops"):
        ct.regressor(m)(m.assemble(), np.zeros(3), np.ones(3))


def test_columns_of_joints_are_those_named() -> None:
    m = ct.Model("cart")
    m.add("cart", ct.point_mass(1.0), ct.Cylindrical("x", damping=(0.1, 0.2)))
    assert list(ct.linear_parameters(m))[10:] == ["cart.damping.angle", "cart.damping.shift"]
    assert list(ct.linear_parameters(m, ["friction"]))[10:] == ["cart.friction.angle", "cart.friction.shift"]
    with pytest.raises(ct.ArgumentError, match="did you mean 'damping'"):
        ct.regressor(m, joints=["dampin"])
    with pytest.raises(ct.ArgumentError, match="would move freely"):
        ct.regressor(m, actuated=["cart.angle"])
