"""What joints transmit: bodies obey Newton and Euler under it, and where it is not unique that is said."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from tests import mechanisms
from tests.referee import relative

import catena as ct
from catena.examples import EXAMPLES

pytestmark = pytest.mark.evaluated

LOOPS = [name for name, make in EXAMPLES.items() if make().has_loops]


def state(m: ct.Model, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    q = m.assemble(guess=m.integrate(m.assemble(), 0.2 * rng.normal(size=m.nv)))
    return q, m.project_velocity(q, rng.normal(size=m.nv)), rng.normal(size=m.nv)


def world(pose: np.ndarray, wrench: np.ndarray) -> np.ndarray:
    """A wrench in a frame, about the world's origin in the world's axes."""
    moment, force = pose[:3, :3] @ wrench[:3], pose[:3, :3] @ wrench[3:]
    return np.concatenate([moment + np.cross(pose[:3, 3], force), force])


def momentum(m: ct.Model, q: np.ndarray, v: np.ndarray) -> dict[str, np.ndarray]:
    """Angular momentum about the world's origin, and momentum, of every body."""
    poses = dict(zip(m.body_names, ct.poses(m)(q), strict=True))
    found = {}
    for link in m.links:
        omega, at_com = np.split(ct.jacobian(m, link.name, link.body.com)(q) @ v, 2)
        R, com = poses[link.name][:3, :3], (poses[link.name] @ [*link.body.com, 1.0])[:3]
        found[link.name] = np.concatenate(
            [R @ np.array(link.body.inertia) @ R.T @ omega + np.cross(com, link.body.mass * at_com), link.body.mass * at_com]
        )
    return found


def in_axes(axes: str, body: np.ndarray, joint: np.ndarray) -> np.ndarray:
    """The frame of a wrench: the joint's point on the body, and the axes."""
    frame = body @ joint
    frame[:3, :3] = {"body": body, "joint": frame, "world": np.eye(4)}[axes][:3, :3]
    return frame


def lacking(m: ct.Model, q: np.ndarray, v: np.ndarray, vdot: np.ndarray, wrenches: np.ndarray, axes: str = "body") -> float:
    """How far the bodies are from Newton's and Euler's laws, relative to the wrenches: momenta are differentiated along the motion."""
    poses = dict(zip(m.body_names, ct.poses(m)(q), strict=True)) | {"ground": np.eye(4)}
    total = {name: np.zeros(6) for name in poses}
    for link, wrench in zip(m.links, wrenches, strict=False):
        acts = world(in_axes(axes, poses[link.name], link.outer.matrix()), wrench)
        total[link.name] += acts
        total[link.parent] -= acts
    for closure, wrench in zip(m.loops, wrenches[len(m.links) :], strict=True):
        acts = world(in_axes(axes, poses[closure.b], closure.at_b.matrix()), wrench)
        total[closure.b] += acts
        total[closure.a] -= acts
    for link in m.links:
        weight = link.body.mass * np.array(m.gravity)
        total[link.name] += np.concatenate([np.cross((poses[link.name] @ [*link.body.com, 1.0])[:3], weight), weight])
    h = 1e-5
    after, before = (momentum(m, m.integrate(q, s * v + 0.5 * s * s * vdot), v + s * vdot) for s in (h, -h))
    off = max(np.abs((after[name] - before[name]) / (2.0 * h) - total[name]).max() for name in after)
    return off / max(1.0, np.abs(wrenches).max())


@pytest.mark.parametrize("name", [name for name in LOOPS if name not in ("quarter-car", "double-wishbone")])
def test_bodies_of_linkages_obey_newton_and_euler(name: str) -> None:
    m = EXAMPLES[name]()
    q, v, tau = state(m, 1)
    assert lacking(m, q, v, ct.forward_dynamics(m)(q, v, tau), ct.joint_wrenches(m)(q, v, tau)) < 1e-7


@pytest.mark.parametrize("seed", range(4))
def test_bodies_of_trees_obey_newton_and_euler_also_welded_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = mechanisms.tree(rng, 7, ("revolute", "prismatic", "spherical", "universal"), branching=0.4, fixed=0.4, floating=seed % 2 == 1)
    q, v, tau = m.random(rng), rng.normal(size=m.nv), rng.normal(size=m.nv)
    wrenches = ct.joint_wrenches(m)
    assert wrenches.unique.all()
    assert wrenches.joints == m.body_names
    assert lacking(m, q, v, ct.forward_dynamics(m)(q, v, tau), wrenches(q, v, tau)) < 1e-7


def askew(seed: int, closed: bool) -> ct.Model:
    """A random chain whose joints have frames of their own on both bodies; closed by a ball joint, or its end free."""
    rng, m, parent = np.random.default_rng(seed), ct.Model("askew"), "ground"
    for i, kind in enumerate(("spherical", "revolute", "universal", "prismatic", "spherical")):
        body, at, at_body = mechanisms.body(rng), mechanisms.place(rng), mechanisms.place(rng)
        m.add(f"body{i}", body, mechanisms.JOINTS[kind](rng), parent, at, at_body=at_body)
        parent = f"body{i}"
    if closed:
        end = mechanisms.place(rng)
        start = ct.Pose((ct.poses(m)(m.random(rng))[-1] @ ct.Pose.of(end).matrix())[:3, 3], rpy=rng.normal(size=3))
        m.close("ball", ct.Spherical(), "ground", parent, start, end)
    return m


@pytest.mark.parametrize("axes", ["body", "joint", "world"])
@pytest.mark.parametrize("closed", [False, True], ids=["chain", "loop"])
def test_bodies_obey_newton_and_euler_under_wrenches_in_all_axes(closed: bool, axes: str) -> None:
    """Of random mechanisms whose joints are askew on their bodies: wrenches, weight and rate of momentum of each body balance."""
    for seed in range(3):
        m = askew(seed, closed)
        q, v, tau = state(m, seed) if closed else mechanisms.state(m, seed)
        wrenches = ct.joint_wrenches(m, axes=axes)
        assert (wrenches.axes, wrenches.unique.all()) == (axes, True)
        assert lacking(m, q, v, ct.forward_dynamics(m)(q, v, tau), wrenches(q, v, tau), axes) < 1e-7


def test_what_is_unique_is_told_in_the_axes_that_are_asked_for() -> None:
    """Of a planar four-bar, forces in the plane and the moment across it: that is z of the joints' frames and y of the bodies'."""
    m, across = ct.Model("four-bar"), (-np.pi / 2, 0, 0)
    for name, length, parent, x in (("crank", 0.3, "ground", 0.0), ("coupler", 1.0, "crank", 0.3), ("rocker", 0.6, "ground", 1.0)):
        at, at_body = (ct.Pose(place, rpy=across) for place in ((x, 0, 0), (0, 0, 0)))
        m.add(name, ct.rod(length, mass=1.0), ct.Revolute("z"), parent, at, at_body=at_body)
    m.close("pin", ct.Revolute("z"), "coupler", "rocker", ct.Pose((1, 0, 0), rpy=across), ct.Pose((0.6, 0, 0), rpy=across))
    plane = {"body": [False, True, False, True, False, True], "world": [False, True, False, True, False, True]}
    plane["joint"] = [False, False, True, True, True, False]
    for axes, unique in plane.items():
        kernel = ct.joint_wrenches(m, axes=axes)
        for one in (kernel, pickle.loads(pickle.dumps(kernel))):
            assert one.axes == axes
            assert (one.unique == unique).all()
    with pytest.raises(ct.ArgumentError, match="axes are 'parent'; choose from 'body', 'joint', 'world'"):
        ct.joint_wrenches(m, axes="parent")


@pytest.mark.parametrize("name", [name for name in LOOPS if any(isinstance(link.joint, ct.Revolute) for link in EXAMPLES[name]().links)])
def test_wrenches_along_joints_are_what_drives_them(name: str) -> None:
    """The share of a hinge's wrench about its axis is tau, with what acts in the joint."""
    m = EXAMPLES[name]()
    q, v, tau = state(m, 2)
    found = ct.joint_wrenches(m)(q, v, tau)
    for link, _, at_v in m.slices():
        if isinstance(link.joint, ct.Revolute):
            assert not any(np.any(getattr(link.joint, option)) for option in ("armature", "damping", "stiffness", "friction"))
            about = found[m.body_names.index(link.name), :3] @ np.asarray(link.joint.axis)
            assert about == pytest.approx(tau[at_v][0], abs=1e-9 * max(1.0, np.abs(found).max()))


def test_closing_joints_transmit_nothing_along_their_freedom() -> None:
    m = EXAMPLES["quarter-car"]()
    q, v, tau = state(m, 3)
    found = ct.joint_wrenches(m)
    wrenches = found(q, v, tau)
    for closure, wrench in zip(m.loops, wrenches[len(m.links) :], strict=True):
        assert isinstance(closure.joint, ct.Spherical)
        assert np.abs(wrench[:3]).max() < 1e-9
        assert np.abs(wrench[3:]).max() > 1.0
    assert found.unique.all()


def square(order: str) -> ct.Model:
    """A four-bar whose cut is at one of its joints: the same mechanism, with other coordinates."""
    m = ct.Model("square")
    for name, mass in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
        m.add(name, ct.rod(0.5, mass=mass))
    ends: dict[str, tuple[Any, ...]] = {
        "1": ("ground", "a", (0, 0, 0), (0, 0, 0)), "2": ("a", "b", (0.5, 0, 0), (0, 0, 0)), "3": ("b", "c", (0.5, 0, 0), (0.5, 0, 0)),
        "4": ("ground", "c", (0.4, 0, 0), (0, 0, 0)),
    }  # fmt: skip
    for at in order:
        a, b, at_a, at_b = ends[at]
        m.connect(a, b, ct.Revolute("y"), at_a, at_b, name=f"hinge{at}")
    return m


def test_what_is_unique_is_the_same_wherever_the_loop_is_cut() -> None:
    found = {}
    for order in ("1234", "1243", "1342"):
        m = square(order)
        guesses = (m.assemble(guess=m.random(seed), a=-1.0) for seed in range(50))
        end = m.body_names.index("c")
        q = next(q for q in guesses if (ct.poses(m)(q)[end] @ [0.5, 0, 0, 1])[0] > 0.5)  # one of two branches
        wrenches = ct.joint_wrenches(m)
        assert not wrenches.unique.all()
        assert (wrenches.unique == [False, True, False, True, False, True]).all()  # in the plane
        forces = wrenches(q, np.zeros(3), np.zeros(3))[:, [3, 5]]
        found[order] = np.sort(np.linalg.norm(forces, axis=1))
    for sizes in found.values():
        assert sizes == pytest.approx(found["1234"], rel=1e-9)


def test_two_rods_side_by_side_share_the_load() -> None:
    """A lever held by two equal rods at one place: each alone would do, and the solution of least norm has half in each."""
    m = ct.Model("lever")
    m.add("lever", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
    for name in ("left", "right"):
        m.close(name, ct.Distance(1.0), "ground", "lever", at_a=(1, 0, 1), at_b=(1, 0, 0))
    wrenches = ct.joint_wrenches(m)
    found = wrenches(np.zeros(1), np.zeros(1), np.zeros(1))
    assert wrenches.joints == ("lever", "left", "right")
    expected = 0.25 * 2.0 * 9.81  # half the weight of the lever, in two rods
    assert found[1:, 5] == pytest.approx([expected, expected])
    assert found[0, 5] == pytest.approx(9.81)
    assert wrenches.unique[0].all()
    assert wrenches.unique[1:, 5].tolist() == [False, False]


def test_reactions_of_a_slider_crank_by_hand() -> None:
    """At rest, stretched out and level: the piston carries its weight and half of the rod's on its guide."""
    m = ct.Model("slider-crank")
    m.add("crank", ct.rod(0.2, mass=1.0), ct.Revolute("y"))
    m.add("rod", ct.rod(0.5, mass=2.0), ct.Revolute("y"), parent="crank", at=(0.2, 0, 0))
    m.add("piston", ct.point_mass(3.0), ct.Prismatic("x"))
    m.close("pin", ct.Revolute("y"), "rod", "piston", at_a=(0.5, 0, 0))
    q = m.assemble(guess=[0.0, 0.0, 0.7])
    hold = ct.inverse_dynamics(m, actuated=["crank"])(q, np.zeros(3), np.zeros(3))
    assert hold == pytest.approx([-0.2 * 9.81 - 0.1 * 9.81, 0.0, 0.0])  # half the rod at the crank's end, and the crank's own weight
    found = ct.joint_wrenches(m)(q, np.zeros(3), hold)
    assert found[2, 5] == pytest.approx((3.0 + 1.0) * 9.81)
    assert found[3, 5] == pytest.approx(-1.0 * 9.81)  # the rod on the piston
    assert found[0, 5] == pytest.approx((1.0 + 1.0) * 9.81)
    batch = ct.joint_wrenches(m)(np.stack([q, q]), np.zeros(3), hold)
    assert relative(batch[1], found) < 1e-15


def test_forces_that_depend_on_time_enter() -> None:
    m = ct.Model("pushed", gravity=(0, 0, 0))
    m.add("cart", ct.point_mass(1.0), ct.Prismatic("x"))
    m.add("box", ct.point_mass(2.0), ct.Fixed(), parent="cart", at=(0, 0, 1))
    m.add_force("push", lambda t, q, v: np.array([0.0, t, 0.0]), body="box")
    found = ct.joint_wrenches(m)(3.0, [0.0], [0.0], [6.0])
    assert found[1].round(12).tolist() == [0.0, 0.0, 0.0, 4.0, -3.0, 0.0]  # 2 kg at 2 m/s^2, and against the push
    assert found[0].round(12).tolist() == [3.0, 4.0, 0.0, 6.0, -3.0, 0.0]


def test_which_components_are_unique_is_asked_at_positions_of_a_time_that_close_the_loops() -> None:
    m = ct.Model("driven four-bar")
    m.add("crank", ct.rod(0.3, mass=1.5), ct.Driven(ct.Revolute("y"), lambda t: 1.0 + t))
    m.add("coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
    m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), at=(1.0, 0, 0))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.6, 0, 0))
    wrenches = ct.joint_wrenches(m)
    q = m.assemble(t=0.5)
    assert wrenches.unique_at(q, t=0.5)[3].tolist() == [False, True, False, True, False, True]
    with pytest.raises(ct.ModelError, match=r"joint_wrenches: q leaves loop 'pin' of model 'driven four-bar' open"):
        wrenches.unique_at(q, t=0.0)
    run = ct.simulate(m, m.assemble(t=0.0), until=0.2)
    assert np.isfinite(run.reactions[:, 3, 3]).all()
