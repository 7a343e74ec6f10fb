"""What lengths are measured by: the loops' own sizes, wherever a mechanism stands and wherever the frames of its bodies are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.referee import Referee, relative

import catena as ct
from catena.examples import EXAMPLES
from catena.loops.assembly import loop_residuals
from catena.loops.scaling import coordinate_units, loop_sizes, loop_units, mechanism_size
from catena.model import Distance
from catena.spatial import Rigid

pytestmark = [pytest.mark.evaluated, pytest.mark.quick]

LOOPED = sorted(name for name, make in EXAMPLES.items() if make().has_loops)


def rebuilt(m: ct.Model, frames: dict[str, Rigid]) -> ct.Model:
    """The same mechanism, where a point x in the frame of a body becomes frames[body] x; of bodies that are not named it stays."""

    def at(body: str, place: Any) -> ct.Pose:
        placed = frames.get(body, Rigid(np.eye(3), np.zeros(3))) @ place
        return ct.Pose(placed.p, matrix=placed.R)

    new = ct.Model(m.name, gravity=m.gravity)
    for link in m.links:
        frame = frames.get(link.name, Rigid(np.eye(3), np.zeros(3)))
        inertia = frame.R @ link.body.inertia @ frame.R.T
        body = ct.Body(link.body.mass, frame.p + frame.R @ link.body.com, 0.5 * (inertia + inertia.T))
        new.add(link.name, body, link.joint, link.parent, at(link.parent, link.at), at(link.name, link.outer))
    for loop in m.loops:
        new.close(loop.name, loop.joint, loop.a, loop.b, at(loop.a, loop.at_a), at(loop.b, loop.at_b))
    for coupling in m.couplings:
        new.couple(coupling.name, dict(coupling.coefficients), coupling.offset)
    return new


def units(m: ct.Model) -> np.ndarray:
    return np.concatenate([[mechanism_size(m)], loop_sizes(m), loop_units(m), coordinate_units(m)])


@pytest.mark.parametrize("name", LOOPED)
def test_units_of_a_mechanism_equal_those_of_the_mechanism_elsewhere(name: str) -> None:
    m = EXAMPLES[name]()
    away = rebuilt(m, {"ground": Rigid(ct.Pose(rpy=(0.3, -0.2, 1.0)).R, np.array([1000.0, -200.0, 50.0]))})
    np.testing.assert_allclose(units(away), units(m), rtol=1e-10)


@pytest.mark.parametrize("name", LOOPED)
def test_units_of_a_mechanism_do_not_depend_on_the_frames_of_its_bodies(name: str) -> None:
    m, rng = EXAMPLES[name](), np.random.default_rng(1)
    frames = {body: Rigid(ct.Pose(rpy=rng.normal(size=3)).R, 100.0 * rng.normal(size=3)) for body in m.body_names}
    np.testing.assert_allclose(units(rebuilt(m, frames)), units(m), rtol=1e-10)


@pytest.mark.parametrize("name", LOOPED)
def test_units_are_lengths_of_the_mechanism(name: str) -> None:
    """A mechanism that is ten times as large has units ten times as large where they are lengths, and the same elsewhere."""
    m = EXAMPLES[name]()
    larger = ct.Model(m.name)
    for link in m.links:
        body = ct.Body(link.body.mass, 10.0 * np.array(link.body.com), 100.0 * link.body.inertia)
        at, outer = (ct.Pose(10.0 * pose.p, matrix=pose.R) for pose in (link.at, link.outer))
        larger.add(link.name, body, link.joint, link.parent, at, outer)
    for loop in m.loops:
        joint = Distance(10.0 * loop.joint.length) if isinstance(loop.joint, Distance) else loop.joint
        larger.close(loop.name, joint, loop.a, loop.b, *(ct.Pose(10.0 * pose.p, matrix=pose.R) for pose in (loop.at_a, loop.at_b)))
    sizes, larger_sizes = (np.array([mechanism_size(own), *loop_sizes(own)]) for own in (m, larger))
    np.testing.assert_allclose(larger_sizes, 10.0 * sizes, rtol=1e-10)
    factors = np.where(np.array(m.v_units) == "m/s", 10.0, 1.0)
    np.testing.assert_allclose(coordinate_units(larger), factors * coordinate_units(m), rtol=1e-10)


def test_loops_of_one_mechanism_have_their_own_sizes() -> None:
    """A linkage of 10 mm on an arm of 3 m is measured by its own bars."""
    m = ct.Model("arm with a gripper")
    m.add("arm", ct.rod(3.0, mass=1.0), ct.Revolute("y"))
    for name, x in (("left", 3.0), ("right", 3.01)):
        m.add(name, ct.rod(0.004, mass=0.01), ct.Revolute("y"), parent="arm", at=(x, 0, 0))
    m.add("bar", ct.rod(0.008, mass=0.01), ct.Revolute("y"), parent="left", at=(0.004, 0, 0))
    m.close("pin", ct.Revolute("y"), "bar", "right", at_a=(0.008, 0, 0), at_b=(0.004, 0, 0))
    m.add("slide", ct.point_mass(0.1), ct.Prismatic("x"))
    m.couple("gear", {"slide": 2.0, "arm": 4.0})
    np.testing.assert_allclose(loop_sizes(m), [0.01])
    assert mechanism_size(m) == 3.01
    np.testing.assert_allclose(loop_units(m), [0.01, 0.01, 0.01, 1.0, 1.0, 6.02])
    np.testing.assert_allclose(coordinate_units(m), [1.0, 1.0, 1.0, 1.0, 3.01])


@pytest.mark.parametrize("chain", [("ground", "ground"), ("ground", "a"), ("ground", "a", "b")])
@pytest.mark.parametrize("end", ["ground", "a"])
def test_loops_of_free_joints_alone_equal_the_referee(chain: tuple[str, ...], end: str) -> None:
    """Free bodies on the ground and on each other, the last one held by a hinge; free joints have no place that a size is measured from."""
    m = ct.Model("free bodies")
    for name, parent in zip("abc", chain, strict=False):
        m.add(name, ct.box(0.3, 0.2, 0.1, mass=2.0), ct.Free(), parent)
    last = m.body_names[-1]
    m.close("pin", ct.Revolute("y"), end, last, at_a=(0.3, 0, 0), at_b=(0, 0.2, 0))
    rng = np.random.default_rng(2)
    q = m.assemble(guess=m.random(rng))
    v, tau = m.project_velocity(q, rng.normal(size=m.nv)), rng.normal(size=m.nv)
    assert np.isfinite(loop_sizes(m)).all()
    assert m.mobility(q).freedom == m.nv - 5
    assert relative(ct.forward_dynamics(m)(q, v, tau), Referee(m).forward_with_loops(q, v, tau)) < 1e-9


def test_a_loop_without_lengths_is_measured_by_the_mechanism() -> None:
    assert set(loop_sizes(EXAMPLES["spherical-3rrr"]())) == {mechanism_size(EXAMPLES["spherical-3rrr"]())}


# tolerances


def small_four_bar(x: float) -> ct.Model:
    """A four-bar of 10 mm that stands at x."""
    m = ct.Model("small four-bar")
    m.add("crank", ct.rod(0.003, mass=0.015), ct.Revolute("y"), at=(x, 0, 0))
    m.add("coupler", ct.rod(0.01, mass=0.05), ct.Revolute("y"), parent="crank", at=(0.003, 0, 0))
    m.add("rocker", ct.rod(0.006, mass=0.03), ct.Revolute("y"), at=(x + 0.01, 0, 0))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(0.01, 0, 0), at_b=(0.006, 0, 0))
    return m


#: Kernels and what they take besides q.
KERNELS: dict[str, int] = {"forward_dynamics": 2, "inverse_dynamics": 2, "hamiltonian_dynamics": 2, "velocities": 1, "joint_wrenches": 2}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("x", [0.0, 1000.0])
def test_an_open_loop_is_refused_wherever_it_stands(kernel: str, x: float) -> None:
    m = small_four_bar(x)
    q, rest = m.assemble(crank=1.0), [np.zeros(3)] * KERNELS[kernel]
    assert loop_residuals(m, q).sizes.max() < 1e-10
    function = getattr(ct, kernel)(m)
    function(q, *rest)
    with pytest.raises(ct.ArgumentError, match="leaves loop 'pin' of model 'small four-bar' open"):
        function(q + [0.0, 0.01, 0.0], *rest)


def test_simulate_and_rollout_refuse_an_open_loop_wherever_it_stands() -> None:
    m = small_four_bar(1000.0)
    q = m.assemble(crank=1.0)
    opened = q + [0.0, 0.01, 0.0]
    with pytest.raises(ct.ArgumentError, match="leaves loop 'pin' of model 'small four-bar' open"):
        ct.simulate(m, opened, until=0.01)
    with pytest.raises(ct.ArgumentError, match=r"leaves loop 'pin' of model 'small four-bar' open"):
        ct.rollout(m, np.array([q, opened]), step=1e-4, steps=2)
    assert len(ct.simulate(m, q, until=0.001)) > 1


def test_a_small_loop_on_a_large_mechanism_is_refused_in_a_batch_too() -> None:
    m = small_four_bar(0.0)
    m.add("boom", ct.rod(50.0, mass=1.0), ct.Revolute("y"), at=(0, 1, 0))
    m.add("tip", ct.rod(1.0, mass=1.0), ct.Revolute("y"), parent="boom", at=(50, 0, 0))
    q = m.assemble(crank=1.0)
    with pytest.raises(ct.ArgumentError, match=r"leaves loop 'pin' of model 'small four-bar' open"):
        ct.rollout(m, np.array([q, q + [0.0, 1e-4, 0.0, 0.0, 0.0]]), step=1e-4, steps=2)


def test_a_small_loop_far_from_the_frame_of_its_base_closes_as_far_as_rounding_lets_it() -> None:
    """Ten millimetres, at 1 km from another mechanism on the same ground."""
    m = small_four_bar(1000.0)
    far = ct.Model("two")
    far.add("pendulum", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
    for link in m.links:
        far.add(link.name, link.body, link.joint, link.parent, link.at, link.outer)
    loop = m.loops[0]
    far.close(loop.name, replace(loop.joint), loop.a, loop.b, loop.at_a, loop.at_b)
    for crank in (0.5, 2.0, -1.0):
        q = far.assemble(crank=crank)
        assert loop_residuals(far, q).sizes.max() < 1e-10
