"""Doors refuse what they do not understand: values where names are meant, names where values are, and what two doors read differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catena as ct
from catena.environments import Task
from catena.examples import four_bar, planar_3rrr

pytestmark = pytest.mark.quick

VALUES, WRENCHES = {"arm.mass": 50.0}, {"arm": [0.0, 0.0, 0.0, 0.0, 0.0, 9.81]}


def arm() -> ct.Model:
    m = ct.Model("pendulum")
    m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
    return m


def task(**options: Any) -> Task:
    functions = {"observe": lambda q: q, "reward": lambda q: q[0], "reset": lambda random: (np.zeros(1), np.zeros(1))}
    return Task(arm(), **{"step": 0.1, "efforts": 1.0, **functions, **options})


#: Kernels by the names of their constructors, whose `parameters` are paths, and whose `wrenches`, where they take some, are names.
OF_PARAMETERS = (
    "forward_dynamics", "inverse_dynamics", "hamiltonian_dynamics", "bias_force", "passive_force", "gravity_force", "coriolis_force",
    "coriolis_matrix", "forward_dynamics_derivatives", "inverse_dynamics_derivatives", "joint_wrenches", "mass_matrix", "momenta",
    "velocities", "energy", "poses", "center_of_mass", "centroidal_momentum",
)  # fmt: skip
OF_WRENCHES = (
    "forward_dynamics", "inverse_dynamics", "hamiltonian_dynamics", "bias_force", "passive_force", "forward_dynamics_derivatives",
    "inverse_dynamics_derivatives", "joint_wrenches",
)  # fmt: skip
AT = ("forward_dynamics", "inverse_dynamics", "hamiltonian_dynamics", "velocities", "joint_wrenches", "forward_dynamics_derivatives",
      "regressor", "base_parameters")  # fmt: skip


def run(name: str, **given: Any) -> Any:
    cost = lambda t, q, v: q[0]  # noqa: E731
    if name == "simulate":
        return ct.simulate(arm(), [0.0], until=0.1, **given)
    if name == "simulate_gradient":
        return ct.simulate_gradient(arm(), [0.0], until=0.1, step=0.1, final_cost=cost, **given)
    if name == "rollout_sensitivity":
        return ct.rollout_sensitivity(arm(), [0.0], step=0.1, steps=1, **{"along": {}, **given})
    more = {"final_cost": cost} if name == "rollout_gradient" else {}
    return getattr(ct, name)(arm(), [0.0], step=0.1, steps=1, **more, **given)


#: Values where names are meant: the door, and the argument that is told.
NAMES: dict[str, tuple[Callable[[], Any], str]] = {
    **{f"{name}, parameters": (lambda f=name: getattr(ct, f)(arm(), parameters=VALUES), "parameters") for name in OF_PARAMETERS},
    **{f"{name}, wrenches": (lambda f=name: getattr(ct, f)(arm(), wrenches=WRENCHES), "wrenches") for name in OF_WRENCHES},
    "a number": (lambda: ct.forward_dynamics(arm(), parameters=50.0), "parameters"),
    "loop_error": (lambda: ct.loop_error(four_bar(), parameters={"crank.mass": 1.0}), "parameters"),
    "reduced": (lambda: ct.reduced(four_bar(), parameters={"crank.mass": 1.0}), "parameters"),
    "reduced, independent": (lambda: ct.reduced(four_bar(), independent={"crank": 1.0}), "independent"),
    "platform": (lambda: ct.ParallelManipulator(planar_3rrr(), {"leg1": 1.0}), "independent"),
    "jacobian": (lambda: ct.jacobian(arm(), "arm", parameters=VALUES), "parameters"),
    "frame_velocity": (lambda: ct.frame_velocity(arm(), "arm", parameters=VALUES), "parameters"),
    "stepper": (lambda: ct.stepper(arm(), 0.1, parameters=VALUES), "parameters"),
    "stepper, wrenches": (lambda: ct.stepper(arm(), 0.1, wrenches=WRENCHES), "wrenches"),
    "inverse_dynamics, actuated": (lambda: ct.inverse_dynamics(arm(), actuated={"arm": 1.0}), "actuated"),
    "identify": (lambda: ct.identify(arm(), VALUES, [[0.0]], [[0.0]], [[0.0]], [[0.0]]), "parameters"),
    "identify of loops": (lambda: ct.identify(four_bar(), {"crank.at": 1.0}, np.zeros((3, 3))), "parameters"),
    "regressor": (lambda: ct.regressor(arm(), joints={"damping": 1.0}), "joints"),
    "linearize": (lambda: ct.linearize(arm(), [0.0], actuated={"arm": 1.0}), "actuated"),
    "equilibrium": (lambda: ct.equilibrium(arm(), free={"arm": 1.0}), "free"),
    "ilqr": (lambda: ct.ilqr(arm(), [0.0], None, np.zeros((2, 1)), step=0.1, cost=lambda *x: x[3][0], actuated={"arm": 1.0}), "actuated"),
    "computed_torque": (lambda: ct.computed_torque(arm(), ct.cycloidal(0, 1, 1.0), actuated={"arm": 1.0}), "actuated"),
    "inverse_kinematics": (lambda: ct.inverse_kinematics(arm(), {"arm": [1, 0, 0]}, fixed={"arm": 0.0}), "fixed"),
    "task": (lambda: task(efforts=None, actuated={"arm": 2.0}), "actuated"),
}


@pytest.mark.parametrize("door", NAMES)
def test_values_where_names_are_meant_are_refused(door: str) -> None:
    """A kernel takes names, and values in each call: those of a mapping would be dropped."""
    give, argument = NAMES[door]
    with pytest.raises(ct.ArgumentError, match=rf"{argument} = .*: these are values, and names are wanted; give "):
        give()


@pytest.mark.parametrize("given", ["arm.mass", ["arm.mass"]])
@pytest.mark.parametrize("door", ["simulate", "rollout", "ensemble", "rollout_gradient", "rollout_sensitivity", "simulate_gradient"])
def test_names_where_values_are_meant_are_refused(door: str, given: Any) -> None:
    with pytest.raises(ct.ArgumentError, match=r"parameters = .*: values by name are wanted; give a mapping by path, such as \{'arm.mass'"):
        run(door, parameters=given)


@pytest.mark.parametrize(
    ("give", "told"),
    [
        (lambda: run("simulate", wrenches=["arm"]), "simulate: wrenches = .* a mapping by body"),
        (lambda: run("rollout", wrenches="arm"), "rollout: wrenches = 'arm': .* a mapping by body"),
        (lambda: run("rollout_sensitivity", along=["q0"]), r"along = \['q0'\]: .* such as \{'q0'"),
        (lambda: arm().with_values(["arm.mass"]), "with_values: values = .* a mapping by path"),
        (lambda: ct.inverse_kinematics(arm(), {"arm": [1, 0, 0]}, parameters="arm.mass"), "parameters = 'arm.mass': values by name"),
        (lambda: task(parameters=["arm.mass"]), "task: parameters = .* a mapping by path"),
        (lambda: run("rollout", noise="arm.mass"), "noise 'arm.mass' is not made of real numbers"),
        (lambda: ct.stepper(arm(), 0.1, controls=[1.0]), r"controls = \[1.0\] is neither True nor False; give True, and"),
        (lambda: ct.forward_dynamics(arm())([0.0], [0.0], [0.0], parameters=VALUES), "it has no argument 'parameters'"),
    ],
)
def test_names_elsewhere_are_refused(give: Callable[[], Any], told: str) -> None:
    with pytest.raises(ct.ArgumentError, match=told):
        give()


@pytest.mark.parametrize("m", [arm(), four_bar()], ids=["tree", "loops"])
@pytest.mark.parametrize("name", AT)
def test_a_configuration_is_one(name: str, m: ct.Model) -> None:
    """A path that is given as the configuration of a kernel was ignored."""
    make = getattr(ct, name)
    with pytest.raises(ct.ArgumentError, match=r"at = 'arm.mass' is a name, and a configuration is wanted; .* parameters='arm.mass'"):
        make(m, at="arm.mass")
    with pytest.raises(ct.ArgumentError, match=f"at has shape .*takes {m.nq} numbers"):
        make(m, at=np.zeros(m.nq + 1))
    make(m, at=m.assemble())


def test_names_may_be_in_any_sequence() -> None:
    for paths in ("arm.mass", ["arm.mass"], ("arm.mass",), np.array(["arm.mass"]), {"arm.mass"}):
        assert ct.forward_dynamics(arm(), parameters=paths).inputs[-1].name == "arm.mass"
    inputs = ct.mass_matrix(arm(), parameters=np.array(["arm.mass", "gravity"])).inputs
    assert [port.name for port in inputs] == ["q", "arm.mass", "gravity"]


# --- joint forces and controls


def motor() -> ct.Model:
    """Return a pendulum whose motor has a gear of 10: a control of 1 is 10 N m."""
    m = arm()
    m.add_actuator("motor", "arm", gear=10.0)
    return m


def end(t: Any, q: Any, v: Any) -> Any:
    return q[0]


STEPS: dict[str, Any] = {"step": 0.01, "steps": 10}

#: Runs by joint forces, in every form; of controls the doors take, and what they return.
FORCES: dict[str, Callable[..., Any]] = {
    "rollout": lambda m, **given: ct.rollout(m, [0.1], **STEPS, **given).q,
    "ensemble": lambda m, **given: ct.ensemble(m, [0.1], **STEPS, **given).q,
    "rollout_gradient": lambda m, **given: ct.rollout_gradient(m, [0.1], **STEPS, final_cost=end, **given).q0,
    "rollout_sensitivity": lambda m, **given: ct.rollout_sensitivity(m, [0.1], **STEPS, along={"v0": [1.0]}, **given).q,
    "ilqr": lambda m, **given: ct.ilqr(
        m, [0.1], **{name: np.broadcast_to(x, (10, 1)) for name, x in given.items()}, step=0.01, cost=lambda t, q, v, tau: tau[0] ** 2
    ).q,
}  # fmt: skip


@pytest.mark.parametrize("door", FORCES)
def test_controls_of_a_model_with_actuators_are_not_taken_for_joint_forces(door: str) -> None:
    """`simulate` takes 1 as 10 N m of the motor; what other doors took for 1 N m is refused, and joint forces are `tau` at all of them."""
    run, force = FORCES[door], [1.0]
    with pytest.raises(ct.ArgumentError, match="model 'pendulum' has actuators, and controls may be theirs; give joint forces as tau="):
        run(motor(), controls=force)
    for m in (arm(), motor()):  # joint forces, whether actuators are there or not
        np.testing.assert_array_equal(run(m, tau=force), run(arm(), controls=force))
    with pytest.raises(ct.ArgumentError, match="both tau and controls are given"):
        run(motor(), tau=force, controls=force)


@pytest.mark.parametrize("door", ["rollout", "ensemble"])
def test_controls_are_those_of_simulate(door: str) -> None:
    run = FORCES[door]
    steps = ct.simulate(motor(), [0.1], until=0.1, step=0.01, integrator="rk4", controls=[1.0]).q
    np.testing.assert_allclose(run(motor(), controls=[1.0], actuators=True, integrator="rk4"), steps, rtol=1e-12)
    np.testing.assert_allclose(run(motor(), tau=[10.0], integrator="rk4"), steps, rtol=1e-12)
    with pytest.raises(ct.ArgumentError, match="both tau and actuators=True are given"):
        run(motor(), tau=[10.0], actuators=True)
    with pytest.raises(ct.ArgumentError, match=r"actuators = \[1.0\] is neither True nor False"):
        run(motor(), actuators=[1.0])


def test_joint_forces_have_every_form_and_their_gradient() -> None:
    table = np.linspace(-1.0, 1.0, 5)[:, None]
    for tau in (table, lambda t, q, v: [-q[0]], np.ones(1)):
        np.testing.assert_array_equal(ct.rollout(motor(), [0.1], tau=tau, **STEPS).q, ct.rollout(arm(), [0.1], None, tau, **STEPS).q)
    found, same = (
        ct.rollout_gradient(m, [0.1], **STEPS, final_cost=end, **{name: table}) for m, name in ((motor(), "tau"), (arm(), "controls"))
    )
    np.testing.assert_array_equal(found.controls, same.controls)
    along, same = (
        ct.rollout_sensitivity(m, [0.1], **STEPS, **{name: table}, along={name: table})
        for m, name in ((motor(), "tau"), (arm(), "controls"))
    )
    np.testing.assert_array_equal(along.q, same.q)
    with pytest.raises(ct.ArgumentError, match="tau has shape"):
        ct.rollout(motor(), [0.1], tau=[1.0, 2.0], **STEPS)
