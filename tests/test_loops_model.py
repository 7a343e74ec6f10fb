"""Loops in the model: basic constraints against the joints they stand for, their places against the user's, graphs against trees."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import minimum_spanning_tree
from tests import mechanisms
from tests.referee import joint_matrix, joint_pose, relative, turn

import catena as ct
from catena import ModelError
from catena.formulations import METHODS
from catena.formulations.frames import poses
from catena.formulations.joint_forces import energy
from catena.formulations.kinematics import world_frames
from catena.model import Joint
from catena.model.closures import CLOSING, constraints
from catena.model.joints import JOINTS
from catena.model.placed import Basic
from catena.spatial import Rigid

pytestmark = [pytest.mark.evaluated, pytest.mark.quick]

#: Joints that close loops by basic constraints, with random axes.
CLOSERS: dict[str, Callable[..., Joint]] = {
    **{kind: make for kind, make in mechanisms.JOINTS.items() if kind in CLOSING},
    "fixed": lambda rng: ct.Fixed(),
    "screw without pitch": lambda rng: ct.Helical(mechanisms.unit(rng), pitch=0.0),
}


def values(basics: tuple[Basic, ...], a: Rigid, b: Rigid) -> np.ndarray:
    """The constraints as the docstring of Basic defines them, between joint frames a and b in the world."""
    entries: list[float] = []
    d = b.p - a.p
    for basic in basics:
        u, w = a.R @ basic.u, b.R @ basic.w
        match basic.kind:
            case "s":
                entries += list(d)
            case "d1":
                entries.append(u @ w - basic.value)
            case "d2":
                entries.append(u @ d)
            case "ss":
                entries.append(d @ d - basic.value**2)
            case "screw":
                z = a.R @ basic.axis
                s = z @ d / basic.value
                entries.append(w @ (np.cos(s) * np.cross(z, u) - np.sin(s) * u))
            case other:
                raise NotImplementedError(other)
    return np.array(entries)


def twisted(frame: Rigid, twist: np.ndarray) -> Rigid:
    """A frame moved by a small twist, in its own axes."""
    angle = float(np.linalg.norm(twist[:3]))
    R = turn(twist[:3] / angle, angle) if angle else np.eye(3)
    return frame @ Rigid(R, twist[3:])


def slopes(basics: tuple[Basic, ...], a: Rigid, b: Rigid, step: float = 1e-5) -> np.ndarray:
    """Rates of the constraints with the six motions of b, in b's axes."""
    columns = [values(basics, a, twisted(b, step * e)) - values(basics, a, twisted(b, -step * e)) for e in np.eye(6)]
    return np.stack(columns, axis=1) / (2.0 * step)


def somewhere(rng: np.random.Generator) -> Rigid:
    return mechanisms.place(rng)


def loop_of(joint: Any, at_a: Any = (0, 0, 0), at_b: Any = (0, 0, 0)) -> ct.Model:
    m = ct.Model("loop")
    m.add("left", ct.box(1.0, 2.0, 3.0, mass=1.0), ct.Free())
    m.add("right", ct.box(1.0, 2.0, 3.0, mass=1.0), ct.Free())
    m.close("pin", joint, "left", "right", at_a, at_b)
    return m


# the tables of basic constraints


def test_every_joint_but_free_and_custom_closes_loops() -> None:
    assert set(CLOSING) == {*JOINTS, "distance"} - {"free", "custom"}
    assert set(CLOSERS) >= set(CLOSING) - {"distance"}


@pytest.mark.parametrize("kind", CLOSERS)
@given(seed=mechanisms.seeds)
def test_constraints_of_a_joint_equal_its_motions(kind: str, seed: int) -> None:
    """They vanish wherever the joint leads, and of all six motions next to it, they allow those of the joint and no other."""
    rng = np.random.default_rng(seed)
    joint = CLOSERS[kind](rng)
    basics = constraints(joint)
    assert sum(basic.rows for basic in basics) == 6 - joint.nv
    q, a = joint.random(rng), somewhere(rng)
    b = a @ Rigid(*joint_pose(joint, q))
    assert np.abs(values(basics, a, b)).max() < 1e-14
    J = slopes(basics, a, b)
    pitch = abs(joint.pitch) if isinstance(joint, ct.Helical) and joint.pitch else 1.0
    assert J.shape == (6 - joint.nv, 6)
    assert np.abs(J @ joint_matrix(joint, q)).max(initial=0.0) < 1e-8 * max(1.0, 1.0 / pitch**3)
    assert np.linalg.matrix_rank(J, tol=1e-3) == 6 - joint.nv


def test_constraints_of_a_distance_vanish_at_its_length_only() -> None:
    rng = np.random.default_rng(0)
    basics = constraints(ct.Distance(0.7))
    a = somewhere(rng)
    b = Rigid(somewhere(rng).R, a.p + 0.7 * mechanisms.unit(rng))
    assert np.abs(values(basics, a, b)).max() < 1e-15
    assert np.linalg.matrix_rank(slopes(basics, a, b), tol=1e-3) == 1
    further = Rigid(b.R, b.p + 0.1 * (b.p - a.p))
    assert values(basics, a, further) == pytest.approx([0.77**2 - 0.7**2])


@pytest.mark.parametrize("pitch", [0.3, -0.05])
def test_row_of_a_screw_is_the_sine_of_the_angle_that_is_missing(pitch: float) -> None:
    axis = mechanisms.unit(np.random.default_rng(1))
    *_, screw = constraints(ct.Helical(axis, pitch=pitch))
    a = somewhere(np.random.default_rng(2))
    for angle, missing in ((0.4, 0.0), (2.0, 1e-3), (9.0, -0.7)):
        b = a @ Rigid(turn(axis, angle + missing), pitch * angle * axis)
        assert values((screw,), a, b)[0] == pytest.approx(math.sin(missing), abs=1e-14)


@pytest.mark.parametrize("kind", CLOSERS)
def test_directions_of_constraints_are_unit_vectors_or_zero(kind: str) -> None:
    for basic in constraints(CLOSERS[kind](np.random.default_rng(3))):
        lengths = [np.linalg.norm(vector) for vector in (basic.u, basic.w, basic.axis)]
        wanted = {"s": (0, 0, 0), "d1": (1, 1, 0), "d2": (1, 0, 0), "ss": (0, 0, 0), "screw": (1, 1, 1)}[basic.kind]
        assert lengths == pytest.approx(wanted)


# places in the tree


@given(moving=mechanisms.moving_trees(options=False), seed=mechanisms.seeds)
def test_joint_frames_in_canonical_frames_equal_the_users(moving: Any, seed: int) -> None:
    m, q, *_ = moving
    rng = np.random.default_rng(seed)
    names = ["ground", *m.body_names]
    for i in range(3):
        a, b = map(str, rng.permutation(names)[:2])
        if m.tree().frames[a][0] != m.tree().frames[b][0]:  # not welded together
            m.close(f"pin{i}", ct.Spherical(), a, b, mechanisms.place(rng), mechanisms.place(rng))
    tree = m.tree()
    frames = world_frames(tree, q)
    for closure, placed in zip(m.loops, tree.closures, strict=True):
        assert placed.name == closure.name
        for body, at, k, pose in ((closure.a, closure.at_a, placed.a, placed.at_a), (closure.b, closure.at_b, placed.b, placed.at_b)):
            stands = np.eye(4) if body == "ground" else np.asarray(poses(tree, q, [body]), dtype=float)[0]
            assert relative(np.asarray((frames[k] @ pose).matrix(), dtype=float), stands @ at.matrix(), 1.0) < 1e-13


@pytest.mark.parametrize("kind", CLOSERS)
def test_a_closure_vanishes_where_the_tree_leads_as_its_joint_would(kind: str) -> None:
    """The body that a joint would hang hangs freely instead, at the place where the joint would put it; a is the parent."""
    rng = np.random.default_rng(4)
    joint = CLOSERS[kind](rng)
    at_a, at_b = mechanisms.place(rng), mechanisms.place(rng)
    m = loop_of(joint, at_a, at_b)
    left = ct.Free().random(rng)
    q_joint = joint.random(rng)
    right = Rigid(*joint_pose(ct.Free(), left)) @ at_a @ Rigid(*joint_pose(joint, q_joint)) @ at_b.inverse()
    q = np.concatenate([left, _free_coordinates(right)])
    tree = m.tree()
    frames = world_frames(tree, q)
    (closure,) = tree.closures
    assert np.abs(values(closure.constraints, frames[closure.a] @ closure.at_a, frames[closure.b] @ closure.at_b)).max() < 1e-12


def _free_coordinates(pose: Rigid) -> np.ndarray:
    """The coordinates of a free joint at a pose."""
    K = np.zeros((4, 4))
    R = np.asarray(pose.R, dtype=float)
    K[0, 0], K[1:, 1:] = np.trace(R), R + R.T - np.trace(R) * np.eye(3)
    K[0, 1:] = K[1:, 0] = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    return np.concatenate([np.asarray(pose.p, dtype=float), np.linalg.eigh(K)[1][:, -1]])


def test_a_custom_joint_closes_no_loop_and_is_hung_by_connect() -> None:
    cam = ct.Custom(mechanisms.cam, 1)
    with pytest.raises(ct.ModelError, match=r"loop 'pin': a custom joint closes no loop.*let m\.connect choose"):
        loop_of(cam)
    m = ct.Model("follower")
    for name in ("cam", "lever"):
        m.add(name, ct.rod(0.5, mass=1.0))
    m.connect("ground", "lever", ct.Revolute("y"), (1, 0, 0))
    m.connect("cam", "lever", ct.Spherical(), (0.5, 0, 0), (0.5, 0, 0))
    m.connect("ground", "cam", cam)
    assert [link.joint.kind for link in m.links] == ["custom", "revolute"]
    assert [type(closure.joint) for closure in m.loops] == [ct.Spherical]


def test_closing_a_loop_changes_nothing_of_the_tree_itself() -> None:
    m = mechanisms.tree(7, 4, fixed=0.0)
    before = m.tree()
    q, v, tau = mechanisms.state(m, 0)
    vdot = METHODS["articulated-body"].solves["forward_dynamics"](before, q, v, tau)
    assert not m.has_loops
    assert (before.closures, before.couplings) == ((), ())
    m.close("pin", ct.Distance(1.0), "ground", m.body_names[-1])
    after = m.tree()
    assert m.has_loops
    assert len(after.closures) == 1
    assert (m.nq, m.nv) == (before.nq, before.nv)
    assert np.array_equal(METHODS["articulated-body"].solves["forward_dynamics"](after, q, v, tau), vdot)


def test_couplings_hold_the_places_of_their_coordinates() -> None:
    m = ct.Model("mixed")
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Spherical())
    m.add("weld", ct.sphere(0.1, mass=1.0), ct.Fixed(), parent="ball", at=(0.1, 0, 0))
    m.add("rack", ct.sphere(0.1, mass=1.0, com=(0.1, 0, 0)), ct.Cylindrical("x"))
    m.add("gear", ct.cylinder(0.1, 0.1, mass=1.0), ct.Revolute("z"))
    m.couple("mesh", {"rack.shift": 1.0, "gear": -0.1}, offset=0.3)
    assert m.couplings[0].coefficients == (("rack.shift", 1.0), ("gear", -0.1))
    assert repr(m) == "<Model 'mixed': 4 bodies, nq = 7, nv = 6, couplings = 1>"
    (coupling,) = m.tree().couplings
    assert [(m.q_names[i], c) for i, c in coupling.positions] == list(m.couplings[0].coefficients)
    assert [(m.v_names[i], c) for i, c in coupling.coefficients] == list(m.couplings[0].coefficients)
    assert (coupling.name, coupling.offset) == ("mesh", 0.3)


# refusals


def four_bar(close: bool = True) -> ct.Model:
    m = ct.Model("four-bar")
    m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y"))
    m.add("coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
    m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), at=(1.0, 0, 0))
    m.add("plate", ct.sphere(0.1, mass=1.0), ct.Fixed(), parent="coupler", at=(0.5, 0, 0))
    m.add("stone", ct.sphere(0.1, mass=1.0), ct.Fixed())
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Spherical(), parent="rocker")
    m.add_spring("coil", "ground", "ball", stiffness=1.0)
    if close:
        m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.6, 0, 0))
        m.couple("gears", {"crank": 1.0, "rocker": -2.0})
    return m


def slider_crank(rod: ct.Body | None, **options: Any) -> ct.Model:
    """A crank and a piston, with a rod between them: a body, or nothing but a distance."""
    m = ct.Model("slider-crank")
    m.add("crank", ct.rod(0.3, mass=1.0), ct.Revolute("y"))
    m.add("piston", ct.point_mass(1.0), ct.Prismatic("x"))
    if rod is None:
        m.close("rod", ct.Distance(0.5), "crank", "piston", at_a=(0.3, 0, 0))
    else:
        m.add("rod", rod, ct.Revolute("y", **options), parent="crank", at=(0.3, 0, 0))
        m.close("pin", ct.Revolute("y"), "rod", "piston", at_a=(0.5, 0, 0))
    return m


def test_a_body_without_mass_in_a_loop_is_refused_with_what_to_do() -> None:
    massless = r"joint of body 'rod': it moves no mass, and the loops that may .* small mass .* armature, .* ct\.Distance\(length\)"
    with pytest.raises(ModelError, match=massless):
        slider_crank(ct.Body(0.0)).tree()
    geared = ct.Model("geared")
    geared.add("motor", ct.cylinder(0.1, 0.1, mass=1.0), ct.Revolute("z"))
    geared.add("rod", ct.Body(0.0), ct.Revolute("z"))
    geared.couple("mesh", {"motor": 1.0, "rod": 2.0})
    with pytest.raises(ModelError, match=massless):
        geared.tree()
    pendulum = ct.Model("pendulum")
    pendulum.add("rod", ct.Body(0.0), ct.Revolute("y"))
    with pytest.raises(ModelError, match=r"joint of body 'rod': it moves no mass, so its motion is undetermined; "):
        pendulum.tree()


def test_remedies_for_a_rod_without_mass_agree() -> None:
    """A distance, and a rod whose mass or armature goes to zero: they differ as the mass does."""

    def accelerations(m: ct.Model) -> np.ndarray:
        q = m.assemble(guess=[1.0, 0.6, -1.5][: m.nq], crank=1.0)
        assert q[1] == pytest.approx(0.3 * np.cos(1.0) + np.sqrt(0.5**2 - (0.3 * np.sin(1.0)) ** 2), rel=1e-12)
        return ct.forward_dynamics(m)(q, m.project_velocity(q, crank=2.0), np.zeros(m.nv))[:2]

    exact = accelerations(slider_crank(None))
    for part in (1e-3, 1e-6):
        by_mass = accelerations(slider_crank(ct.rod(0.5, mass=part)))
        by_armature = accelerations(slider_crank(ct.Body(0.0), armature=part))
        assert 1e-2 * part < relative(by_mass, exact) < part
        assert 1e-2 * part < relative(by_armature, exact) < 100.0 * part


PIN: dict[str, Any] = {"name": "other", "joint": ct.Revolute("y"), "a": "coupler", "b": "rocker"}

NOT_CLOSED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "empty name": ({"name": ""}, ("loop name ''", "non-empty")),
    "name of the wrong type": ({"name": 3}, ("loop name 3", "non-empty string")),
    "name of a loop": ({"name": "pin"}, ("loop 'pin'", "a loop has this name already", "its own name")),
    "name of a coupling": ({"name": "gears"}, ("loop 'gears'", "a coupling has this name already", "its own name")),
    "joint of the wrong type": ({"joint": "revolute"}, ("loop 'other'", "'revolute'", "ct.Revolute", "ct.Distance")),
    "joint class": ({"joint": ct.Revolute}, ("loop 'other'", "not a joint")),
    "joint of no kind": ({"joint": Joint()}, ("loop 'other'", "Joint()")),
    "free joint": ({"joint": ct.Free()}, ("loop 'other'", "free joint", "closes nothing", "leave it out")),
    "unknown body a": ({"a": "leg"}, ("loop 'other'", "'leg'", "'four-bar'", "'crank'")),
    "unknown body b": ({"b": None}, ("loop 'other'", "None", "'crank'")),
    "one body": ({"b": "coupler"}, ("loop 'other'", "both ends are on 'coupler'", "two bodies")),
    "the ground twice": ({"a": "ground", "b": "ground"}, ("loop 'other'", "both ends are on 'ground'")),
    "welded bodies": ({"b": "plate"}, ("loop 'other'", "'coupler' and 'plate' are welded", "leave the loop out")),
    "welded to the ground": ({"a": "stone", "b": "ground"}, ("loop 'other'", "'stone' and 'ground' are welded")),
    "place of two numbers": ({"at_a": (1, 0)}, ("loop 'other'", "at_a", "(1, 0)", "3 finite numbers")),
    "place nan": ({"at_b": (1, 0, math.nan)}, ("loop 'other'", "at_b", "nan", "not finite")),
    "damping": ({"joint": ct.Revolute("y", damping=0.25)}, ("loop 'other'", "damping 0.25", "m.add_spring", "m.add_force")),
    "stiffness": ({"joint": ct.Spherical(stiffness=3)}, ("loop 'other'", "stiffness 3.0", "m.add_spring")),
    "friction": ({"joint": ct.Universal("x", "y", friction=(0, 1))}, ("loop 'other'", "friction (0.0, 1.0)", "m.add_force")),
    "armature": ({"joint": ct.Prismatic("x", armature=2)}, ("loop 'other'", "armature 2.0", "leave it out")),
    "limits": ({"joint": ct.Prismatic("x", limits=(0, 1))}, ("loop 'other'", "limits (0.0, 1.0)", "leave it out")),
    "rest": ({"joint": ct.Prismatic("x", rest=0.5)}, ("loop 'other'", "rest 0.5", "leave it out")),
    "stops": ({"joint": ct.Prismatic("x", stop_damping=0)}, ("loop 'other'", "stop_damping 0.0", "leave it out")),
}


@pytest.mark.parametrize("case", NOT_CLOSED)
def test_a_failed_close_says_why_and_leaves_the_model_as_it_was(case: str) -> None:
    changes, parts = NOT_CLOSED[case]
    m = four_bar()
    before, tree = m.loops, m.tree()
    with pytest.raises(ModelError) as caught:
        m.close(**{**PIN, **changes})
    for part in parts:
        assert part in str(caught.value)
    assert m.loops == before
    assert m.tree() is tree
    m.close(**PIN)
    assert [loop.name for loop in m.loops] == ["pin", "other"]
    assert len(m.tree().closures) == 2


NOT_COUPLED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "empty name": ({"name": " "}, ("coupling name ' '", "non-empty")),
    "name of a coupling": ({"name": "gears"}, ("coupling 'gears'", "a coupling has this name already")),
    "name of a loop": ({"name": "pin"}, ("coupling 'pin'", "a loop has this name already")),
    "no coefficients": ({"coefficients": {}}, ("coupling 'other'", "{}", "relate nothing", "give a dict")),
    "a list": ({"coefficients": [1.0]}, ("coupling 'other'", "[1.0]", "give a dict")),
    "zero": ({"coefficients": {"crank": 1.0, "rocker": 0.0}}, ("coupling 'other'", "'rocker' is 0", "leave 'rocker' out")),
    "nan": ({"coefficients": {"crank": math.nan}}, ("coupling 'other'", "'crank' nan", "not finite")),
    "text": ({"coefficients": {"crank": "1"}}, ("coupling 'other'", "'crank' '1'", "real numbers")),
    "unknown coordinate": ({"coefficients": {"leg": 1.0}}, ("coupling 'other'", "'leg'", "'four-bar'", "'crank', 'coupler', 'rocker'")),
    "a number as a name": ({"coefficients": {0: 1.0}}, ("coupling 'other'", "0 is not the name", "m.q_names")),
    "a quaternion": ({"coefficients": {"ball.qx": 1.0}}, ("coupling 'other'", "'ball.qx'", "spherical joint", "m.close")),
    "a welded body": ({"coefficients": {"plate": 1.0}}, ("coupling 'other'", "'plate' is not a coordinate")),
    "offset inf": ({"offset": math.inf}, ("coupling 'other'", "offset inf", "not finite")),
}


@pytest.mark.parametrize("case", NOT_COUPLED)
def test_a_failed_coupling_says_why_and_leaves_the_model_as_it_was(case: str) -> None:
    changes, parts = NOT_COUPLED[case]
    good = {"name": "other", "coefficients": {"crank": 1.0, "rocker": -2.0}}
    m = four_bar()
    before, tree = m.couplings, m.tree()
    with pytest.raises(ModelError) as caught:
        m.couple(**{**good, **changes})
    for part in parts:
        assert part in str(caught.value)
    assert m.couplings == before
    assert m.tree() is tree
    m.couple(**good)  # type: ignore[arg-type]
    assert len(m.tree().couplings) == 2


@pytest.mark.parametrize(("length", "part"), [(0.0, "ct.Spherical()"), (-1.0, "below 0"), (math.nan, "not finite"), ("1", "real numbers")])
def test_a_distance_is_a_length(length: Any, part: str) -> None:
    with pytest.raises(ModelError) as caught:
        ct.Distance(length)
    assert "distance length" in str(caught.value)
    assert part in str(caught.value)


def test_no_body_hangs_on_a_distance() -> None:
    m = four_bar()
    with pytest.raises(ModelError, match=r"body 'bob': Distance\(0\.5\) closes a loop and hangs no body; .*m\.close\(name, Distance"):
        m.add("bob", ct.sphere(0.1, mass=1.0), ct.Distance(0.5))  # type: ignore[arg-type]


def test_a_model_and_its_pickle_have_the_same_loops() -> None:
    m = four_bar()
    m.tree()
    copy = pickle.loads(pickle.dumps(m))
    assert repr(copy) == repr(m) == "<Model 'four-bar': 6 bodies, nq = 7, nv = 6, loops = 1, couplings = 1>"
    assert copy.couplings == m.couplings
    assert copy.tree().closures[0].constraints[0].kind == "s"


# graphs


def user_poses(m: ct.Model, q: Any) -> dict[str, np.ndarray]:
    result = dict(zip(m.body_names, np.asarray(poses(m.tree(), np.asarray(q, dtype=float), m.body_names), dtype=float), strict=True))
    return {"ground": np.eye(4), **result}


def gap(m: ct.Model, q: Any, name: str) -> Any:
    """Where the joint frame on b of a loop stands in that on a."""
    at = user_poses(m, q)
    loop = next(loop for loop in m.loops if loop.name == name)
    return np.linalg.inv(at[loop.a] @ loop.at_a.matrix()) @ at[loop.b] @ loop.at_b.matrix()


def graph(*connections: tuple[Any, ...], bodies: str = "abc") -> ct.Model:
    m = ct.Model("graph")
    for name in bodies:
        m.add(name, ct.box(0.1, 0.2, 0.3, mass=1.0))
    for a, b, joint, *rest in connections:
        m.connect(a, b, joint, *rest)
    return m


def test_a_four_bar_as_a_graph_equals_one_by_hand() -> None:
    """The same pins, the same frames; the graph hangs the rocker on the coupler and closes its other pin."""
    m = ct.Model("graph")
    for name, length in (("crank", 0.3), ("coupler", 1.0), ("rocker", 0.6)):
        m.add(name, ct.rod(length, mass=5 * length))
    y = ct.Revolute("y")
    m.connect("ground", "crank", y)
    m.connect("crank", "coupler", y, at_a=(0.3, 0, 0))
    m.connect("coupler", "rocker", y, at_a=(1.0, 0, 0), at_b=(0.6, 0, 0))
    m.connect("ground", "rocker", y, at_a=(1.0, 0, 0), name="pin")
    hand = ct.Model("hand")
    hand.add("crank", ct.rod(0.3, mass=1.5), y)
    hand.add("coupler", ct.rod(1.0, mass=5.0), y, parent="crank", at=(0.3, 0, 0))
    hand.add("rocker", ct.rod(0.6, mass=3.0), y, at=(1.0, 0, 0))
    hand.close("joint", y, "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.6, 0, 0))
    assert repr(m) == "<Model 'graph': 3 bodies, nq = 3, nv = 3, loops = 1>"
    # a closed configuration, by the cosine rule: the crank points up
    crank = 0.9
    tip = 0.3 * np.array([np.cos(crank), np.sin(crank)])
    diagonal = np.array([1.0, 0.0]) - tip
    reach = np.linalg.norm(diagonal)
    bend = np.arccos((reach**2 + 1.0 - 0.36) / (2 * reach))
    coupler = np.arctan2(diagonal[1], diagonal[0]) + bend
    end = tip + np.array([np.cos(coupler), np.sin(coupler)])
    rocker = np.arctan2(end[1], end[0] - 1.0)
    q_hand = -np.array([crank, coupler - crank, rocker])
    q_graph = -np.array([crank, coupler - crank, rocker - coupler])
    assert relative(gap(hand, q_hand, "joint")[:3, 3], np.zeros(3), 1.0) < 1e-14
    assert relative(gap(m, q_graph, "pin")[:3, 3], np.zeros(3), 1.0) < 1e-14
    for name in hand.body_names:
        assert relative(user_poses(m, q_graph)[name], user_poses(hand, q_hand)[name]) < 1e-14
    kinetic, potential = energy(m.tree(), q_graph, np.array([1.0, 0.0, 0.0]))
    # the crank alone turns in neither tree: all follow; in the hand-built one the rocker stands still
    assert potential == pytest.approx(energy(hand.tree(), q_hand, np.zeros(3))[1], rel=1e-13)
    assert kinetic == pytest.approx(energy(hand.tree(), q_hand, np.array([1.0, 0.0, 0.0]))[0] + _rocker_energy(m, q_graph), rel=1e-12)


def _rocker_energy(m: ct.Model, q: np.ndarray) -> float:
    """Kinetic energy of the rocker when the whole mechanism turns about the origin's y axis at 1 rad/s."""
    at = user_poses(m, q)["rocker"]
    body = next(link.body for link in m.links if link.name == "rocker")
    com = at[:3, :3] @ np.array(body.com) + at[:3, 3]
    inertia = (at[:3, :3] @ body.inertia @ at[:3, :3].T)[1, 1]
    return 0.5 * (body.mass * (com[0] ** 2 + com[2] ** 2) + inertia)


def test_a_platform_on_six_legs_closes_at_its_ball_joints() -> None:
    m, hand = ct.Model("graph"), ct.Model("hand")
    angles = np.arange(6) * np.pi / 3
    feet = [np.array([np.cos(x), np.sin(x), 0.0]) for x in angles]
    heads = [0.5 * foot + 0.02 * i * np.array([0, 1, 0]) for i, foot in enumerate(feet)]
    universal, slider, ball = ct.Universal("x", "y"), ct.Prismatic("z"), ct.Spherical()
    rod = ct.cylinder(0.6, 0.02, mass=1.0, com=(0, 0, 0.3))
    m.add("platform", ct.cylinder(0.05, 0.5, mass=10.0))
    for i in range(6):
        m.add(f"lower{i}", rod)
        m.add(f"upper{i}", rod)
    for i in range(6):
        m.connect(f"upper{i}", "platform", ball, at_a=(0, 0, 0.6), at_b=heads[i])
    for i in range(6):
        m.connect(f"lower{i}", f"upper{i}", slider, at_a=(0, 0, 0.3))
        m.connect("ground", f"lower{i}", universal, at_a=feet[i])
    for i in range(6):
        hand.add(f"lower{i}", rod, universal, at=feet[i])
    for i in range(6):
        hand.add(f"upper{i}", rod, slider, parent=f"lower{i}", at=(0, 0, 0.3))
    hand.add("platform", ct.cylinder(0.05, 0.5, mass=10.0), ct.Free())
    for i in range(6):
        hand.close(f"upper{i}-platform", ball, f"upper{i}", "platform", at_a=(0, 0, 0.6), at_b=heads[i])
    assert m.body_names == hand.body_names  # breadth first: ground, lower legs, upper legs, platform
    assert (m.nv, len(m.loops)) == (6 * 3 + 3, 5)
    assert [loop.name for loop in m.loops] == [f"upper{i}-platform" for i in range(1, 6)]
    assert sum(basic.rows for closure in m.tree().closures for basic in closure.constraints) == 15
    rng = np.random.default_rng(0)
    q = m.random(rng)
    at = user_poses(m, q)
    platform = Rigid(at["platform"][:3, :3], at["platform"][:3, 3])
    q_hand = np.concatenate([q[:18], _free_coordinates(platform)])
    for name in hand.body_names:
        assert relative(user_poses(hand, q_hand)[name], at[name]) < 1e-13
    for loop in m.loops:
        assert relative(gap(m, q, loop.name), gap(hand, q_hand, loop.name)) < 1e-13
    assert np.abs(gap(hand, q_hand, "upper0-platform")[:3, 3]).max() < 1e-13


def _around(joint: Joint, q: np.ndarray) -> np.ndarray:
    """The coordinates of a joint that is turned round, where those of the joint as it was written are q."""
    R, p = joint_pose(joint, q)
    inverse = Rigid(R, p).inverse()
    match joint:
        case ct.Universal():
            return q[::-1]
        case ct.Spherical():
            return q * np.array([1.0, -1.0, -1.0, -1.0])
        case ct.Free():
            return _free_coordinates(inverse)
        case ct.Planar():
            plain = [joint_pose(joint, e)[1] for e in np.eye(3)[:2]]
            return np.array([inverse.p @ plain[0], inverse.p @ plain[1], -q[2]])
    return q


@pytest.mark.parametrize("kind", [*mechanisms.JOINTS, "fixed"])
@given(seed=mechanisms.seeds)
def test_a_connection_means_the_same_whichever_body_hangs(kind: str, seed: int) -> None:
    """Bodies p and c, joined by a joint from c to p, where c comes to hang on p; p moves against c as the joint says."""
    rng = np.random.default_rng(seed)
    joint = {**mechanisms.JOINTS, **CLOSERS}[kind](rng)
    at_p, at_c, place = (mechanisms.place(rng) for _ in range(3))
    p, c = mechanisms.body(rng), mechanisms.body(rng)
    models = []
    for turned in (False, True):
        m = ct.Model("pair")
        m.add("p", p, ct.Universal("x", "y"), at=place)
        m.add("c", c)
        if turned:
            m.connect("c", "p", joint, at_a=at_c, at_b=at_p)
        else:
            m.connect("p", "c", joint, at_a=at_p, at_b=at_c)
        assert [(link.name, link.parent) for link in m.links] == [("p", "ground"), ("c", "p")]
        models.append(m)
    straight, turned = models
    q_joint = joint.random(rng)
    R, moved = joint_pose(joint, q_joint)
    base = rng.normal(size=2)

    at = user_poses(straight, np.concatenate([base, q_joint]))
    between = np.linalg.inv(at["p"] @ at_p.matrix()) @ at["c"] @ at_c.matrix()
    assert relative(between, Rigid(R, moved).matrix(), 1.0) < 1e-13

    at = user_poses(turned, np.concatenate([base, _around(joint, q_joint)]))
    between = np.linalg.inv(at["c"] @ at_c.matrix()) @ at["p"] @ at_p.matrix()
    assert relative(between, Rigid(R, moved).matrix(), 1.0) < 1e-12


SAME_COORDINATES = ("revolute", "prismatic", "helical", "cylindrical", "universal", "cam", "helicoid", "plate")


@pytest.mark.parametrize("kind", SAME_COORDINATES)
@given(seed=mechanisms.seeds)
def test_options_mean_the_same_whichever_body_hangs(kind: str, seed: int) -> None:
    """One body on the ground, connected either way, or added with its inertia in the joint frame: the same dynamics."""
    rng = np.random.default_rng(seed)
    body, at_c, place = mechanisms.body(rng), mechanisms.place(rng), mechanisms.place(rng)
    plain = mechanisms.JOINTS[kind](rng)
    options = {**mechanisms.options_of(kind, rng), "limits": [(-0.5, 0.4)] * plain.nv}
    joint = replace(plain, **options)
    straight, added, turned = (ct.Model("one", gravity=(1, 2, 3)) for _ in range(3))
    straight.add("c", body)
    straight.connect("ground", "c", joint, at_a=place, at_b=at_c)
    inward = at_c.inverse()
    moved = ct.Body(body.mass, inward.p + inward.R @ np.array(body.com), inward.R @ body.inertia @ inward.R.T)
    added.add("c", moved, joint, at=place)
    turned.add("c", body)
    turned.connect("c", "ground", joint, at_a=at_c, at_b=place)
    q, v, tau = mechanisms.state(straight, seed)
    forward = [_forward(m, q, v, tau) for m in (straight, added)]
    assert relative(*forward) < 1e-11
    # the joint turned round, as it would be written by hand, has the same coordinates and the same options
    back = turned.links[0].joint
    order = slice(None, None, -1) if kind == "universal" else slice(None)
    for name in ("damping", "stiffness", "rest", "friction", "armature", "limits"):
        assert getattr(back, name) == getattr(joint, name)[order]
    assert relative(_mass(turned, q[order])[order, order], _mass_of_inverse(turned, joint, q, at_c, place, body)) < 1e-11


def _forward(m: ct.Model, q: Any, v: Any, tau: Any) -> np.ndarray:
    return np.asarray(METHODS["articulated-body"].solves["forward_dynamics"](m.tree(), q, v, tau), dtype=float)


def _mass(m: ct.Model, q: Any) -> np.ndarray:
    return np.asarray(METHODS["composite-body"].solves["mass_matrix"](m.tree(), q), dtype=float)


def _mass_of_inverse(m: ct.Model, joint: Joint, q: np.ndarray, at_c: ct.Pose, place: ct.Pose, body: ct.Body) -> np.ndarray:
    """The mass matrix of a body on the ground, where a joint leads from the body to the ground."""
    S = joint_matrix(joint, q)  # the ground against the body, in the ground's joint frame
    R, p = joint_pose(joint, q)
    pose = at_c @ Rigid(R, p)  # the ground's joint frame in the body
    columns = []
    for s in S.T:
        omega, velocity = -pose.R @ s[:3], -pose.R @ s[3:]
        at_origin = velocity - np.cross(omega, pose.p)
        columns.append(np.concatenate([omega, at_origin]))
    twists = np.stack(columns, axis=1)
    return twists.T @ body.matrix() @ twists + np.diag(joint.armature)  # type: ignore[arg-type]


NO_GRAPH: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "loose body": (lambda: graph(bodies="a"), ("body 'a'", "no joint leads", "m.connect('ground', 'a', ct.Free())", "m.add")),
    "loose island": (
        lambda: graph(("a", "b", ct.Fixed()), ("ground", "c", ct.Free())), ("bodies 'a', 'b'", "no joint leads", "connect one of them")),
    "distance alone": (lambda: graph(("ground", "a", ct.Distance(1.0)), bodies="a"), ("body 'a'", "no joint leads")),
    "no place": (lambda: graph(("ground", "a", ct.Free(), 0)), ("connection 'ground-a'", "at_a", "pose xyz 0", "3 finite numbers")),
    "a free joint too many": (
        lambda: graph(("a", "ground", ct.Free()), ("ground", "a", ct.Spherical()), bodies="a"),
        ("connection 'a-ground'", "free joint", "closes nothing", "leave it out")),
    "options of a closing joint": (
        lambda: graph(("ground", "a", ct.Spherical()), ("a", "ground", ct.Spherical(damping=1)), bodies="a"),
        ("connection 'a-ground', which closes a loop", "damping 1.0", "m.add_spring")),
    "welded circle": (
        lambda: graph(("ground", "a", ct.Fixed()), ("a", "b", ct.Fixed()), ("ground", "b", ct.Fixed()), bodies="ab"),
        ("loop 'ground-b'", "welded together")),
    "options turned round": (
        lambda: graph(("a", "ground", ct.Spherical(damping=1)), bodies="a"),
        ("connection 'a-ground'", "'a' hangs on 'ground'", "damping 1.0", "in the order 'ground', 'a', with at_a and at_b swapped")),
    "name twice": (
        lambda: graph(("ground", "a", ct.Spherical()), ("ground", "a", ct.Spherical())),
        ("connection 'ground-a'", "a connection has this name already", "its own name")),
    "unknown body": (lambda: graph(("ground", "leg", ct.Fixed())), ("connection 'ground-leg'", "'leg'", "add it first")),
    "one body": (lambda: graph(("a", "a", ct.Fixed())), ("connection 'a-a'", "both ends are on 'a'")),
    "no joint": (lambda: graph(("ground", "a", None)), ("connection 'ground-a'", "None is not a joint")),
    "coupling before connections": (lambda: graph().couple("gears", {"a": 1.0}), ("bodies 'a', 'b', 'c'", "no joint leads")),
    "hung on a loose body": (
        lambda: graph().add("d", ct.Body(1.0), ct.Fixed(), parent="a"),
        ("body 'd'", "'a' is loose", "m.connect('a', 'd', joint)")),
    "a place without a joint": (lambda: graph().add("d", ct.Body(1.0), at=(1, 0, 0)), ("body 'd'", "(1, 0, 0)", "no joint")),
    "a parent without a joint": (lambda: graph().add("d", ct.Body(1.0), parent="a"), ("body 'd'", "'a'", "no joint")),
    "two coordinates of one name": (
        lambda: graph(("ground", "a", ct.Universal("x", "y")), ("ground", "a.angle1", ct.Revolute("x")), bodies=["a", "a.angle1"]),  # type: ignore[arg-type]
        ("body 'a.angle1'", "a coordinate named 'a.angle1'", "another name")),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_GRAPH)
def test_a_graph_that_makes_no_mechanism_is_refused(case: str) -> None:
    call, parts = NO_GRAPH[case]
    with pytest.raises(ModelError) as caught:
        call().tree()
    for part in parts:
        assert part in str(caught.value)


def test_a_model_without_all_connections_can_be_looked_at_and_completed() -> None:
    m = graph(("a", "b", ct.Revolute("x")), bodies="ab")
    assert repr(m) == "<Model 'graph': 2 bodies, incomplete>"
    m.connect("ground", "b", ct.Free())
    assert repr(m) == "<Model 'graph': 2 bodies, nq = 8, nv = 7>"
    assert m.q_names[0] == "b.x"
    assert m.tree().n == 2


def test_a_coupling_whose_coordinate_a_later_connection_takes_away_is_refused() -> None:
    m = graph(("ground", "a", ct.Cylindrical("x")), bodies="a")
    m.couple("lock", {"a.shift": 1.0}, offset=0.2)
    assert m.tree().couplings[0].positions == ((1, 1.0),)
    m.connect("ground", "a", ct.Revolute("x"), name="hinge")
    with pytest.raises(ModelError, match=r"coupling 'lock': 'a\.shift' is not a coordinate of model 'graph'; choose from 'a'"):
        m.tree()


def test_bodies_with_joints_come_first_and_loose_ones_follow_breadth_first() -> None:
    m = ct.Model("mixed")
    body = ct.box(0.1, 0.2, 0.3, mass=1.0)
    m.add("last", body)
    m.add("hung", body, ct.Revolute("x"))
    m.add("near", body)
    m.add("also", body, ct.Revolute("x"), parent="hung")
    m.connect("last", "near", ct.Revolute("y"))
    m.connect("near", "also", ct.Revolute("z"))
    m.connect("last", "ground", ct.Spherical())
    assert m.body_names == ("hung", "also", "near", "last")
    assert [loop.name for loop in m.loops] == ["last-ground"]
    assert [link.name for link in m.added] == ["last", "hung", "near", "also"]


@given(data=st.data())
def test_the_spanning_tree_weighs_the_most(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(mechanisms.seeds))
    names = ["ground", *(f"b{i}" for i in range(data.draw(st.integers(1, 6))))]
    m = ct.Model("random")
    for name in names[1:]:
        m.add(name, mechanisms.body(rng))
    kinds = [kind for kind in mechanisms.JOINTS if kind in JOINTS and kind != "free"]
    weights = np.zeros((len(names), len(names)))
    count = data.draw(st.integers(len(names), 3 * len(names)))
    for i in range(count):
        # the first connections reach every body
        a, b = (i + 1, int(rng.integers(i + 1))) if i + 1 < len(names) else map(int, rng.permutation(len(names))[:2])
        joint = mechanisms.JOINTS[kinds[rng.integers(len(kinds))]](rng)
        m.connect(names[a], names[b], joint, mechanisms.place(rng), mechanisms.place(rng), name=f"c{i}")
        weights[min(a, b), max(a, b)] = max(weights[min(a, b), max(a, b)], 6 - joint.nv)
    assert sum(6 - link.joint.nv for link in m.links) == -minimum_spanning_tree(-weights).sum()
    assert len(m.loops) == count - len(m.links)
    assert sorted(m.body_names) == sorted(names[1:])
    seen = {"ground"}
    for link in m.links:
        assert link.parent in seen
        seen.add(link.name)
