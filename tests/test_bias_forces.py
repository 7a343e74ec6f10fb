"""The parts of the bias force and of inverse dynamics: their sum is the whole, and each has only what its name says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests import mechanisms
from tests.referee import relative
from tests.test_driven import driven

import catena as ct
from catena.examples import EXAMPLES, four_bar
from catena.kernels.included import PARTS, PASSIVE

pytestmark = pytest.mark.evaluated


def loaded(driving: tuple[str, ...] = ()) -> ct.Model:
    """A tree with everything that acts: springs, bushings, friction, stops that are entered, contacts that touch, forces of time."""
    m = mechanisms.tree(3, 5, ("revolute", "spherical", "prismatic", "universal"), options=True, in_turn=True)
    m = driven(m, driving) if driving else m
    m.add("last", mechanisms.body(np.random.default_rng(0)), ct.Revolute("x", limits=(-0.01, 0.01), friction=0.3), parent="body3")
    m.add_spring("coil", "ground", "last", at_a=(0, 0, 1), stiffness=20.0, damping=0.5, length=1.0, slack=True)
    m.add_bushing("rubber", "body1", "last", stiffness=9.0, damping=0.2, turning_stiffness=3.0, turning_damping=0.1)
    m.add_contact("floor", "last", points=[(0.1, 0, 0)], height=20.0, stiffness=10.0, dissipation=0.01)
    m.add_force("wind", lambda t, q, v: np.array([np.cos(t), v[0], 0.2]), body="last")
    m.add_point_force("drag", "body2", (0.1, 0.2, 0), lambda t, position, velocity: -0.3 * velocity)
    return m


def looped() -> ct.Model:
    m = four_bar()
    m.add_spring("coil", "ground", "rocker", at_a=(0, 0, 1), at_b=(0.3, 0, 0), stiffness=20.0, damping=0.5, length=1.0)
    return m


MODELS = {"tree": loaded, "driven": lambda: loaded(("body1", "body2")), "loop": looped}


def state(m: ct.Model, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    rng = np.random.default_rng(seed)
    q = m.assemble(guess=m.random(rng)) if m.has_loops else m.random(rng)
    v = m.project_velocity(q, rng.normal(size=m.nv)) if m.has_loops else rng.normal(size=m.nv)
    if not m.has_loops:
        q[-1], v[-1] = 0.03, 0.2  # into the stop
    return {"t": 0.3, "q": q, "v": v}, rng.normal(size=m.nv)


def of(kernel: Any, known: dict[str, Any], **more: Any) -> np.ndarray:
    return kernel(*(known[port.name] for port in kernel.inputs if port.name in known), **more)


@pytest.mark.parametrize("name", MODELS)
def test_the_bias_force_is_the_sum_of_its_parts(name: str) -> None:
    """Gravity, velocities and passive forces, and the latter one by one; with parameters and wrenches, too."""
    m = MODELS[name]()
    known, _ = state(m, 1)
    body = m.body_names[-1]
    path, wrench = f"{body}.mass", np.array([[0.1, 0.2, 0.3, 1.0, 2.0, 3.0]])
    given = {path: 2.5}
    whole = of(ct.bias_force(m, path, body), known, wrenches=wrench, **given)
    passive = of(ct.passive_force(m, path, body), known, wrenches=wrench, **given)
    total = of(ct.gravity_force(m, path), known, **given) + of(ct.coriolis_force(m, path), known, **given) + passive
    assert relative(total, whole, scale=np.abs(passive).max()) < 1e-13
    parts = {part: of(ct.bias_force(m, path, include=part), known, **given) for part in PARTS}
    parts["forces"] = of(ct.bias_force(m, path, body, include="forces"), known, wrenches=wrench, **given)
    assert relative(sum(parts.values()), whole, scale=np.abs(passive).max()) < 1e-13
    assert relative(sum(parts[part] for part in PASSIVE), passive) < 1e-13
    if name != "loop":
        assert all(np.abs(part).max() > 1e-3 for part in parts.values())


@pytest.mark.parametrize("name", MODELS)
def test_inverse_dynamics_is_mass_times_acceleration_and_the_parts_that_are_included(name: str) -> None:
    m = MODELS[name]()
    known, x = state(m, 2)
    inertial = {key: value for key, value in known.items() if key != "v"}
    N = ct.reduced(m).basis(known["q"]) if m.has_loops else np.eye(m.nv)  # with loops, forces are the same that do the same work
    known["vdot"] = ct.reduced(m).accelerations(known["q"], known["v"], x[:1]) if m.has_loops else x
    mass = of(ct.mass_matrix(m), inertial)
    for include in ((), "gravity", ("gravity", "coriolis"), ("springs", "stops"), PARTS):
        expected = mass @ known["vdot"] + of(ct.bias_force(m, include=include), known)
        found = of(ct.inverse_dynamics(m, include=include), known)
        assert relative(N.T @ found, N.T @ expected, scale=np.abs(expected).max() + 1.0) < 1e-12


def test_the_motion_of_drives_is_in_the_coriolis_force() -> None:
    """Held where they are, drives add nothing to it; their acceleration does, and gravity is that of where they are."""
    m = ct.Model("crane")
    m.add("trolley", ct.point_mass(50.0), ct.Driven(ct.Prismatic("x"), lambda t: 0.5 * t**2))
    m.add("load", ct.point_mass(10.0, at=(0, 0, -2)), ct.Revolute("y"), parent="trolley")
    assert ct.coriolis_force(m)(3.0, [0.0], [0.0]) == pytest.approx([-20.0], rel=1e-12)  # 10 kg at 1 m/s^2, 2 m below
    assert ct.gravity_force(m)(3.0, [0.1]) == pytest.approx([10.0 * 9.81 * 2.0 * np.sin(0.1)], rel=1e-12)
    assert ct.coriolis_matrix(m)(3.0, [0.0], [0.0]).tolist() == [[0.0]]


def test_gravity_is_held_on_the_motors_of_a_mechanism_with_loops() -> None:
    """Inverse dynamics of gravity alone keeps a four-bar at rest where it is."""
    m = four_bar()
    q = m.assemble(crank=1.0)
    hold = ct.inverse_dynamics(m, actuated=["crank"], include="gravity")
    run = ct.simulate(m, q, until=0.5, controller=lambda t, q, v: hold(q, 0.0 * v, 0.0 * v))
    assert np.abs(run.q - q).max() < 1e-9


def test_names_that_are_not_parts_are_refused() -> None:
    m = EXAMPLES["arm"]()
    for door in (ct.bias_force, ct.inverse_dynamics):
        with pytest.raises(ct.ArgumentError, match=r"include names 'gravitation', .*did you mean 'gravity'"):
            door(m, include="gravitation")
        with pytest.raises(ct.ArgumentError, match=r"wrenches are forces, which include=.'gravity'. leaves out; add 'forces'"):
            door(m, wrenches="hand", include=["gravity"])


def test_forces_that_only_python_can_call_are_left_out_with_the_forces() -> None:
    m = EXAMPLES["pendulum"]()
    m.add_force("measured", ct.python(lambda t, q, v: [1.0]))
    with pytest.raises(ct.ModelError, match=r"marked ct\.python"):
        ct.bias_force(m)
    assert ct.bias_force(m, include="gravity").inputs == ct.bias_force(m, include=("gravity", "stops")).inputs
    assert ct.gravity_force(m)(m.neutral()).shape == (1,)
