"""Wrenches on bodies as inputs: the same as forces of the model, and as what Jacobians make of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.referee import relative

import catena as ct
from catena.examples import EXAMPLES

pytestmark = pytest.mark.evaluated

NAMES = ["arm", "four-bar", "quarter-car"]


def start(name: str) -> tuple[ct.Model, tuple[str, str], np.ndarray, np.ndarray, np.random.Generator]:
    m, rng = EXAMPLES[name](), np.random.default_rng(0)
    q = m.assemble() if m.has_loops else m.random(rng)
    return m, (m.body_names[-1], m.body_names[0]), q, m.project_velocity(q, rng.normal(size=m.nv)), rng


@pytest.mark.parametrize("name", NAMES)
def test_wrenches_are_joint_forces_by_jacobians(name: str) -> None:
    m, bodies, q, v, rng = start(name)
    tau, wrenches = rng.normal(size=m.nv), rng.normal(size=(2, 6))
    equal = tau + sum(ct.jacobian(m, body)(q).T @ wrench for body, wrench in zip(bodies, wrenches, strict=True))
    pushed, plain = ct.forward_dynamics(m, wrenches=bodies), ct.forward_dynamics(m)
    assert [port.name for port in pushed.inputs] == ["q", "v", "tau", "wrenches"]
    assert relative(pushed(q, v, tau, wrenches), plain(q, v, equal)) < 1e-11
    assert relative(pushed(q, v, tau), plain(q, v, tau)) < 1e-12
    vdot = plain(q, v, tau)
    back = ct.inverse_dynamics(m, wrenches=bodies)(q, v, vdot, wrenches)
    if not m.has_loops:
        assert relative(back, tau - (equal - tau)) < 1e-11
    again = ct.forward_dynamics(m, wrenches=bodies)(q, v, back, wrenches)
    assert relative(again, vdot) < 1e-10
    assert relative(ct.bias_force(m, wrenches=bodies)(q, v, wrenches), ct.bias_force(m)(q, v) - (equal - tau)) < 1e-11


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_by_wrenches_are_those_by_joint_forces(name: str) -> None:
    m, bodies, q, v, rng = start(name)
    tau, wrenches = rng.normal(size=m.nv), rng.normal(size=(2, 6))
    pushed = ct.forward_dynamics(m, wrenches=bodies)
    by_wrenches = pushed.jacobian("vdot", "wrenches")(q, v, tau, wrenches)
    by_tau = pushed.jacobian("vdot", "tau")(q, v, tau, wrenches)
    jacobians = np.concatenate([ct.jacobian(m, body)(q) for body in bodies])
    assert relative(by_wrenches.reshape(m.nv, 12), by_tau @ jacobians.T) < 1e-10
    found = ct.forward_dynamics_derivatives(m, wrenches=bodies)(q, v, tau, wrenches)
    forced = EXAMPLES[name]()
    for body, wrench in zip(bodies, wrenches, strict=True):
        forced.add_force(f"on {body}", lambda t, q, v, w=wrench: w, body=body)
    for mine, other in zip(found, ct.forward_dynamics_derivatives(forced)(q, v, tau), strict=True):
        assert relative(mine, other) < 1e-12


def test_wrenches_are_carried_by_the_joints() -> None:
    m = ct.Model("post")
    m.add("post", ct.point_mass(2.0, at=(0, 0, 1)), ct.Revolute("y"))
    found = ct.joint_wrenches(m, wrenches="post")([0.0], [0.0], [0.0], wrenches=[[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]])
    plain = ct.joint_wrenches(m)([0.0], [0.0], [2.0])  # the moment along the joint moves it
    assert relative(found[0] - plain[0], [-1.0, -2.0, -3.0, -10.0, -20.0, -30.0]) < 1e-12


@pytest.mark.parametrize("name", ["arm", "four-bar"])
def test_runs_with_wrenches_are_those_of_models_with_forces(name: str) -> None:
    m, (body, _), q, v, rng = start(name)
    wrench = 0.3 * rng.normal(size=6)
    forced = EXAMPLES[name]()
    forced.add_force("push", lambda t, q, v: wrench * np.cos(3.0 * t), body=body)
    run = ct.simulate(m, q, v, until=0.1, step=1e-3, wrenches={body: lambda t, q, v: wrench * np.cos(3.0 * t)})
    assert relative(run.q[-1], ct.simulate(forced, q, v, until=0.1, step=1e-3).q[-1]) < 1e-12
    steady = EXAMPLES[name]()
    steady.add_force("push", lambda t, q, v: wrench, body=body)
    wanted = ct.simulate(steady, q, v, until=0.1, step=1e-3).q[-1]
    assert relative(ct.simulate(m, q, v, until=0.1, step=1e-3, wrenches={body: wrench}).q[-1], wanted) < 1e-12
    table = np.stack([np.zeros((10, 6)), np.broadcast_to(wrench, (10, 6))])
    options: dict[str, Any] = {"step": 1e-3, "steps": 100}
    runs = ct.rollout(m, np.stack([q, q]), v, wrenches={body: table}, **options)
    assert relative(runs.q[0, -1], ct.rollout(m, q, v, **options).q[-1]) < 1e-12
    assert relative(runs.q[1, -1], ct.rollout(m, q, v, wrenches={body: wrench}, **options).q[-1]) < 1e-12
    assert relative(runs.q[1, -1], wanted) < 1e-9


@pytest.mark.parametrize(
    ("wrenches", "message"),
    [
        (["ground"], "wrenches name 'ground', which does not move"),
        (["hand", "hand"], "wrenches name 'hand', twice"),
        ("paw", "wrenches name body 'paw'"),
    ],
)
def test_bodies_that_cannot_be_pushed_are_refused(wrenches: Any, message: str) -> None:
    with pytest.raises(ct.CatenaError, match=message):
        ct.forward_dynamics(EXAMPLES["arm"](), wrenches=wrenches)


def test_wrenches_of_another_shape_are_refused() -> None:
    m = EXAMPLES["arm"]()
    with pytest.raises(ct.CatenaError, match=r"simulate: wrenches\['hand'\]"):
        ct.simulate(m, np.zeros(7), until=0.1, wrenches={"hand": [1.0, 2.0, 3.0]})
    with pytest.raises(ct.ArgumentError, match=r"rollout: wrenches\['hand'\] has shape \(3,\); give a moment and a force"):
        ct.rollout(m, np.zeros(7), step=1e-3, steps=1, wrenches={"hand": [1.0, 2.0, 3.0]})
    with pytest.raises(ct.ModelError, match="kernels have an input of this name"):
        m.parameter("wrenches", 1.0)
