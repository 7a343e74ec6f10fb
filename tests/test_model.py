"""The doors of the model: each refusal with its message; and the tree: the same physics in canonical frames as in the user's."""

from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests import mechanisms
from tests.referee import Referee, quaternion_matrix, relative, turn

import catena as ct
from catena import InertiaWarning, ModelError
from catena.formulations import METHODS
from catena.formulations.frames import poses
from catena.formulations.joint_forces import energy
from catena.model import Joint

pytestmark = [pytest.mark.evaluated, pytest.mark.quick]

NAN, INF = math.nan, math.inf


def pendulum(**settings: Any) -> ct.Model:
    m = ct.Model("pendulum", **settings)
    m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
    return m


#: A good body to add to the pendulum.
HAND: dict[str, Any] = {"name": "hand", "body": ct.sphere(0.1, mass=1.0), "joint": ct.Revolute("x"), "parent": "arm", "at": (1.0, 0.0, 0.0)}

#: What may be wrong with it, and what the message must hold: the thing, the value and the remedy.
NOT_ADDED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "empty name": ({"name": " "}, ("body name ' '", "non-empty")),
    "name of the wrong type": ({"name": None}, ("body name None", "non-empty string")),
    "the ground's name": ({"name": "ground"}, ("body 'ground'", "another name")),
    "name twice": ({"name": "arm"}, ("body 'arm'", "already", "its own name")),
    "unknown parent": ({"parent": "leg"}, ("body 'hand'", "'leg'", "'pendulum'", "'ground', 'arm'")),
    "itself as a parent": ({"parent": "hand"}, ("body 'hand'", "'hand'", "add it first")),
    "parent that is no name": ({"parent": ["arm"]}, ("body 'hand'", "['arm']", "'ground', 'arm'")),
    "parent None": ({"parent": None}, ("body 'hand'", "None", "'ground', 'arm'")),
    "body of the wrong type": ({"body": 2.0}, ("body 'hand'", "2.0", "ct.Body")),
    "joint of the wrong type": ({"joint": "revolute"}, ("body 'hand'", "'revolute'", "ct.Revolute")),
    "joint class instead of a joint": ({"joint": ct.Fixed}, ("body 'hand'", "ct.Fixed()")),
    "joint of no kind": ({"joint": Joint()}, ("body 'hand'", "Joint()", "ct.Revolute")),
    "place of two numbers": ({"at": (1, 0)}, ("body 'hand'", "(1, 0)", "3 finite numbers")),
    "place inf": ({"at": (1, 0, INF)}, ("body 'hand'", "inf", "not finite")),
    "place of strings": ({"at": ("1", "0", "0")}, ("body 'hand'", "('1', '0', '0')", "real numbers")),
    "place None": ({"at": None}, ("body 'hand'", "None", "3 finite numbers")),
}


def custom(function: Any, coordinates: Any = 1) -> Callable[[], Any]:
    return lambda: ct.Custom(function, coordinates)


def slide(q: Any) -> Any:
    return np.eye(3), np.array([q[0], 0.0, 0.0])


#: What a user may get wrong, and what the message must hold: the thing, the value and the remedy.
REFUSED: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    # models
    "model without a name": (lambda: ct.Model(""), ("model name ''", "non-empty")),
    "model named by a number": (lambda: ct.Model(3), ("model name 3", "non-empty string")),  # type: ignore[arg-type]
    "gravity of two numbers": (lambda: ct.Model(gravity=(0, -9.81)), ("gravity (0, -9.81)", "shape (2,)", "3 finite numbers")),
    "gravity nan": (lambda: ct.Model(gravity=(0, 0, NAN)), ("gravity", "nan", "not finite")),
    "friction speed 0": (lambda: ct.Model(friction_speed=0.0), ("friction_speed 0", "not above 0", "larger")),
    "friction speed nan": (lambda: ct.Model(friction_speed=NAN), ("friction_speed nan", "not finite")),
    # bodies
    "negative mass": (lambda: ct.Body(-1.0), ("mass -1", "below 0", "0 or more")),
    "mass nan": (lambda: ct.Body(NAN), ("mass nan", "not finite")),
    "mass inf": (lambda: ct.Body(INF), ("mass inf", "not finite")),
    "mass None": (lambda: ct.Body(None), ("mass None", "one finite number")),  # type: ignore[arg-type]
    "mass in a list": (lambda: ct.Body([1.0]), ("mass [1.0]", "shape (1,)", "one finite number")),  # type: ignore[arg-type]
    "mass as text": (lambda: ct.Body("2"), ("mass '2'", "real numbers")),  # type: ignore[arg-type]
    "complex mass": (lambda: ct.Body(1j), ("mass 1j", "real numbers")),  # type: ignore[arg-type]
    "mass beyond floats": (lambda: ct.Body(10**400), ("mass", "finite number")),
    "complex com": (lambda: ct.Body(1.0, np.array([1j, 0, 0])), ("com", "real numbers")),
    "ragged com": (lambda: ct.Body(1.0, [[1], 2, 3]), ("com", "3 finite numbers")),
    "com nan": (lambda: ct.Body(1.0, (0, NAN, 0)), ("com", "not finite")),
    "com of two numbers": (lambda: ct.Body(1.0, (0, 1)), ("com", "shape (2,)")),
    "inertia of a vector": (lambda: ct.Body(1.0, inertia=(1, 1, 1)), ("inertia", "shape (3,)", "3 x 3")),
    "inertia nan": (lambda: ct.Body(1.0, inertia=np.diag([1, 1, NAN])), ("inertia", "not finite")),
    "asymmetric inertia": (lambda: ct.Body(1.0, inertia=[[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]), ("inertia", "not symmetric", "0.1")),
    "indefinite inertia": (lambda: ct.Body(1.0, inertia=np.diag([1, 1, -0.5])), ("inertia", "negative principal moment -0.5", "about")),
    "indefinite by products": (lambda: ct.Body(1.0, inertia=[[1, 2, 0], [2, 1, 0], [0, 0, 2]]), ("negative principal moment -1",)),
    "rod of length 0": (lambda: ct.rod(0.0, 1.0), ("rod length 0", "not above 0")),
    "rod of negative mass": (lambda: ct.rod(1.0, -1.0), ("rod mass -1", "below 0")),
    "rod along nothing": (lambda: ct.rod(1.0, 1.0, axis=(0, 0, 0)), ("rod axis (0.0, 0.0, 0.0)", "no direction")),
    "box of edge 0": (lambda: ct.box(1.0, 0.0, 1.0, 1.0), ("box y 0", "not above 0")),
    "box nan": (lambda: ct.box(1.0, 1.0, NAN, 1.0), ("box z nan", "not finite")),
    "box com": (lambda: ct.box(1.0, 1.0, 1.0, 1.0, com=(1,)), ("box com (1,)",)),
    "cylinder of radius -1": (lambda: ct.cylinder(1.0, -1.0, 1.0), ("cylinder radius -1",)),
    "cylinder of length inf": (lambda: ct.cylinder(INF, 1.0, 1.0), ("cylinder length inf",)),
    "cylinder axis": (lambda: ct.cylinder(1.0, 1.0, 1.0, axis="w"), ("cylinder axis 'w'",)),
    "sphere of radius 0": (lambda: ct.sphere(0.0, 1.0), ("sphere radius 0",)),
    "sphere of mass nan": (lambda: ct.sphere(1.0, NAN), ("sphere mass nan",)),
    "point of negative mass": (lambda: ct.point_mass(-2.0), ("point mass -2",)),
    "point nowhere": (lambda: ct.point_mass(1.0, at=(NAN, 0, 0)), ("nan", "not finite")),
    # poses
    "pose xyz": (lambda: ct.Pose((1, 2)), ("pose xyz (1, 2)", "3 finite numbers")),
    "pose rpy": (lambda: ct.Pose(rpy=(1, 2)), ("pose rpy (1, 2)",)),
    "pose rpy nan": (lambda: ct.Pose(rpy=(1, 2, NAN)), ("pose rpy", "not finite")),
    "pose quat of zeros": (lambda: ct.Pose(quat=(0, 0, 0, 0)), ("pose quat (0, 0, 0, 0)", "no direction", "(w, x, y, z)")),
    "pose quat of three": (lambda: ct.Pose(quat=(1, 0, 0)), ("pose quat (1, 0, 0)", "4 finite numbers")),
    "pose quat inf": (lambda: ct.Pose(quat=(1, 0, 0, INF)), ("pose quat", "not finite")),
    "pose matrix 2 x 2": (lambda: ct.Pose(matrix=np.eye(2)), ("pose matrix", "shape (2, 2)")),
    "pose matrix scaled": (lambda: ct.Pose(matrix=1.1 * np.eye(3)), ("pose matrix", "not a rotation", "2.1e-01", "orthonormal")),
    "pose matrix mirrored": (lambda: ct.Pose(matrix=np.diag([1, 1, -1])), ("pose matrix", "not a rotation", "orthonormal")),
    "pose rotation twice": (lambda: ct.Pose(rpy=(0, 0, 1), quat=(1, 0, 0, 0)), ("rpy=(0, 0, 1)", "more than once", "one of them")),
    # joints
    "axis of zeros": (lambda: ct.Revolute((0, 0, 0)), ("revolute axis (0.0, 0.0, 0.0)", "no direction", "non-zero 3-vector")),
    "axis w": (lambda: ct.Prismatic("w"), ("prismatic axis 'w'", "unknown", "'-z'")),
    "axis --x": (lambda: ct.Revolute("--x"), ("revolute axis '--x'", "unknown")),
    "axis +-x": (lambda: ct.Revolute("+-x"), ("revolute axis '+-x'", "unknown")),
    "empty axis": (lambda: ct.Helical(""), ("helical axis ''", "unknown")),
    "axis of two numbers": (lambda: ct.Cylindrical((1, 0)), ("cylindrical axis (1, 0)", "shape (2,)")),
    "axis nan": (lambda: ct.Planar((0, 0, NAN)), ("planar axis", "not finite")),
    "axis None": (lambda: ct.Revolute(None), ("revolute axis None",)),
    "pitch nan": (lambda: ct.Helical("z", pitch=NAN), ("helical pitch nan", "not finite")),
    "parallel axes": (lambda: ct.Universal("x", (2, 0, 0)), ("(1.0, 0.0, 0.0) and (1.0, 0.0, 0.0)", "parallel", "different")),
    "opposite axes": (lambda: ct.Universal("x", "-x"), ("(1.0, 0.0, 0.0) and (-1.0, 0.0, 0.0)", "parallel")),
    "second axis": (lambda: ct.Universal("x", (0, 0, 0)), ("universal axis2", "no direction")),
    "negative damping": (lambda: ct.Revolute("z", damping=-0.1), ("revolute damping -0.1", "below 0", "0 or more")),
    "negative stiffness": (lambda: ct.Revolute("z", stiffness=-1), ("revolute stiffness -1", "below 0")),
    "negative friction": (lambda: ct.Prismatic("z", friction=-1), ("prismatic friction -1", "below 0")),
    "negative armature": (lambda: ct.Prismatic("z", armature=-1), ("prismatic armature -1", "below 0")),
    "damping nan": (lambda: ct.Spherical(damping=NAN), ("spherical damping nan", "not finite")),
    "damping None": (lambda: ct.Revolute("z", damping=None), ("revolute damping None",)),  # type: ignore[arg-type]
    "damping as text": (lambda: ct.Revolute("z", damping="much"), ("revolute damping 'much'",)),  # type: ignore[arg-type]
    "damping of two": (lambda: ct.Spherical(damping=(1, 2)), ("spherical damping (1, 2)", "2 entries", "one number or 3")),
    "damping of none": (lambda: ct.Spherical(damping=()), ("spherical damping ()", "0 entries")),
    "rest of two": (lambda: ct.Revolute("z", rest=(1, 2)), ("revolute rest", "shape (2,)", "1 finite numbers")),
    "rest inf": (lambda: ct.Revolute("z", rest=INF), ("revolute rest", "not finite")),
    "rest that is no quaternion": (lambda: ct.Spherical(rest=(1, 1, 0, 0)), ("spherical rest", "length 1.41421", "unit quaternion")),
    "free rest that is no quaternion": (lambda: ct.Free(rest=(0, 0, 0, 0, 0, 0, 0)), ("free rest", "length 0", "unit quaternion")),
    "stiffness by axes of a ball": (lambda: ct.Spherical(stiffness=(1, 2, 3)), ("spherical stiffness (1.0, 2.0, 3.0)", "one value")),
    "stiffness by axes of a body": (lambda: ct.Free(stiffness=(1, 1, 1, 1, 2, 3)), ("free stiffness", "translation", "one value")),
    # custom joints
    "no function": (custom(3), ("custom function", "3", "4 x 4 matrix or a pair")),
    "function that raises": (custom(lambda q: q[7]), ("custom function raised IndexError", "index 7", "q has 1 entry")),
    "function of nothing": (custom(lambda q: None), ("custom function", "4 x 4 matrix or a pair")),
    "3 x 3 matrix": (custom(lambda q: np.eye(3)), ("custom function", "4 x 4 matrix or a pair")),
    "short translation": (custom(lambda q: (np.eye(3), q)), ("custom function", "4 x 4 matrix or a pair")),
    "bottom row": (custom(lambda q: np.array([[1, 0, 0, q[0]], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 2.0]])), ("custom", "4 x 4")),
    "pose that is not finite": (custom(lambda q: (np.eye(3), np.array([q[0], NAN, 0]))), ("custom function", "nan")),
    "stretched rotation": (custom(lambda q: ((1 + q[0]) * np.eye(3), np.zeros(3))), ("custom function", "not a rotation", "orthonormal")),
    "mirror": (custom(lambda q: (np.diag([1, 1, -1.0]), np.array([q[0], 0, 0]))), ("not a rotation",)),
    "function that stands still": (custom(lambda q: np.eye(4)), ("custom function", "are not independent", "use fewer")),
    "two coordinates, one motion": (custom(lambda q: (np.eye(3), np.array([q[0] + q[1], 0, 0])), 2), ("2 coordinates", "use fewer")),
    "function that takes floats only": (
        custom(lambda q: (np.eye(3), np.array([math.sin(q[0]), 0, 0]))),
        ("custom function cannot be traced", "math", *(["write np.sin(q[0])"] if sys.version_info >= (3, 11) else []))),
    "function that asks for a value": (
        custom(lambda q: (np.eye(3), np.array([q[0] if q[0] > 0 else -q[0], 0, 0]))),
        ("custom function cannot be traced", "`if`", "write np.where(q[0] > 0, q[0], -q[0])")),
    "no coordinates": (custom(slide, 0), ("custom coordinates 0", "1 to 6")),
    "seven coordinates": (custom(slide, 7), ("custom coordinates 7", "1 to 6")),
    "half a coordinate": (custom(slide, 1.5), ("custom coordinates 1.5", "1 to 6")),
    "coordinates None": (custom(slide, None), ("custom coordinates None", "1 to 6")),
    "coordinates in one word": (custom(slide, "angle"), ("custom coordinates 'angle'", "names")),
    "coordinates twice": (custom(mechanisms.rolling_plate, ("a", "a")), ("custom coordinates ('a', 'a')", "different names")),
    # trees
    "no body": (lambda: ct.Model("void").tree(), ("model 'void'", "no moving body", "Fixed")),
    "state of the wrong size": (lambda: pendulum().integrate([0.0, 0.0], [0.0]), ("q has shape (2,)", "'pendulum'", "(..., 1)")),
    "rates of the wrong size": (lambda: pendulum().integrate([0.0], 0.0), ("dv has shape ()", "(..., 1)")),
    "state of text": (lambda: pendulum().integrate(["a"], [0.0]), ("q ['a']", "real numbers", "(..., 1)")),
    "complex state": (lambda: pendulum().integrate([1j], [0.0]), ("q [1j]", "real numbers")),
    "state None": (lambda: pendulum().integrate(None, [0.0]), ("q has shape ()",)),
    "batches that do not fit": (
        lambda: pendulum().integrate(np.zeros((2, 1)), np.zeros((3, 1))), ("(2, 1)", "(3, 1)", "do not broadcast")),
    "difference of batches that do not fit": (
        lambda: pendulum().difference(np.zeros((2, 1)), np.zeros((3, 1))), ("(2, 1)", "(3, 1)", "do not broadcast")),
    "difference of the wrong size": (lambda: pendulum().difference([0.0], [0.0, 1.0]), ("q1 has shape (2,)",)),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_by_name_value_and_remedy(case: str) -> None:
    call, parts = REFUSED[case]
    with pytest.raises(ModelError) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("case", NOT_ADDED)
def test_a_failed_add_says_why_and_leaves_the_model_as_it_was(case: str) -> None:
    changes, parts = NOT_ADDED[case]
    m = pendulum()
    before, tree = m.links, m.tree()
    with pytest.raises(ModelError) as caught:
        m.add(**{**HAND, **changes})
    for part in parts:
        assert part in str(caught.value)
    assert m.links == before
    assert m.tree() is tree
    m.add(**HAND)
    assert m.body_names == ("arm", "hand")
    assert m.tree().n == 2


def test_a_body_added_later_is_in_the_next_tree() -> None:
    m = pendulum()
    first = m.tree()
    m.add(**HAND)
    assert (first.n, m.tree().n) == (1, 2)


@pytest.mark.parametrize(("attribute", "value"), [("gravity", (0.0, 0.0, 0.0)), ("friction_speed", 1.0)])
def test_settings_of_a_model_cannot_change_behind_its_tree(attribute: str, value: Any) -> None:
    m = pendulum()
    m.tree()
    with pytest.raises(AttributeError):
        setattr(m, attribute, value)


# inertias


@pytest.mark.parametrize("moments", [(1.0, 1.0, 2.1), (0.0, 0.0, 1.0), (5.0, 1.0, 1.0)])
def test_inertia_of_no_real_body_is_used_with_a_warning(moments: tuple[float, ...]) -> None:
    with pytest.warns(InertiaWarning, match="belongs to no real body"):
        body = ct.Body(1.0, inertia=np.diag(moments))
    assert np.array_equal(body.inertia, np.diag(moments))


def test_inertia_at_the_edge_of_the_triangle_inequality_is_silent() -> None:
    for body in (ct.Body(1.0, inertia=np.diag([1.0, 1.0, 2.0])), ct.rod(1.0, mass=1.0), ct.rod(1.0, 1.0, axis=(1, 1, 1))):
        assert np.linalg.eigvalsh(body.inertia)[0] > -1e-15


def test_inertia_that_is_symmetric_but_for_rounding_is_made_symmetric() -> None:
    body = ct.Body(1.0, inertia=[[1.0, 0.1 + 1e-12, 0.0], [0.1, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert np.array_equal(body.inertia, body.inertia.T)
    with pytest.raises(ValueError, match="read-only"):
        body.inertia[0, 0] = 2.0


def test_body_keeps_its_own_copy_of_the_inertia() -> None:
    inertia = np.eye(3)
    body = ct.Body(1.0, inertia=inertia)
    inertia[0, 0] = 7.0
    assert body.inertia[0, 0] == 1.0


def test_shapes_equal_the_textbook() -> None:
    assert relative(ct.rod(2.0, 3.0).inertia, np.diag([0.0, 1.0, 1.0])) < 1e-15
    assert ct.rod(2.0, 3.0, axis="-y").com == (0.0, -1.0, 0.0)
    assert relative(ct.box(1.0, 2.0, 3.0, 12.0).inertia, np.diag([13.0, 10.0, 5.0])) < 1e-15
    assert relative(ct.cylinder(2.0, 1.0, 12.0, axis="y").inertia, np.diag([7.0, 6.0, 7.0])) < 1e-15
    assert relative(ct.sphere(2.0, 5.0).inertia, 8.0 * np.eye(3)) < 1e-15
    assert not ct.point_mass(3.0, at=(1, 2, 3)).inertia.any()
    for body in (ct.box(1, 1, 1, 1, com=(1, 2, 3)), ct.cylinder(1, 1, 1, com=(1, 2, 3)), ct.sphere(1, 1, com=(1, 2, 3))):
        assert body.com == (1.0, 2.0, 3.0)


# poses


@given(seed=mechanisms.seeds)
def test_poses_by_rpy_quaternion_and_matrix_are_the_same_rotation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    roll, pitch, yaw = rng.uniform(-3.0, 3.0, 3)
    R = turn((0, 0, 1), yaw) @ turn((0, 1, 0), pitch) @ turn((1, 0, 0), roll)
    assert relative(ct.Pose(rpy=(roll, pitch, yaw)).R, R) < 1e-14
    assert relative(ct.Pose(matrix=R).R, R) < 1e-14
    quaternion = rng.normal(size=4)
    assert relative(ct.Pose(quat=1e-150 * quaternion).R, quaternion_matrix(quaternion / np.linalg.norm(quaternion))) < 1e-14
    nearly = ct.Pose(matrix=R + 1e-8 * rng.normal(size=(3, 3))).R
    assert relative(nearly @ nearly.T, np.eye(3)) < 1e-14


def test_a_place_may_be_a_product_of_poses() -> None:
    first, second = ct.Pose((1, 0, 0), rpy=(0, 0, np.pi / 2)), ct.Pose((1, 0, 0))
    m = ct.Model()
    m.add("arm", ct.rod(1.0, mass=1.0), ct.Revolute("z"), at=first @ second)
    assert relative(m.links[0].at.matrix(), first.matrix() @ second.matrix()) < 1e-15


def test_a_pose_cannot_change_behind_the_model() -> None:
    at, offset = ct.Pose((1, 0, 0), rpy=(0, 0, 1)), np.array([1.0, 0.0, 0.0])
    m = ct.Model()
    m.add("arm", ct.rod(1.0, mass=1.0), ct.Revolute("z"), at=at)
    m.add("hand", ct.rod(1.0, mass=1.0), ct.Revolute("z"), at=offset)
    offset[0] = 5.0
    assert m.links[1].at.p.tolist() == [1.0, 0.0, 0.0]
    for array in (at.p, at.R, m.links[0].at.p):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5.0


# massless bodies: only where the motion stays determined


def massless(joint: Joint, child: Joint, at: Any = (0.3, 0.2, 0.1), **options: Any) -> ct.Model:
    """A massless link with a heavy body on it."""
    m = ct.Model("massless")
    m.add("link", ct.Body(0.0), joint)
    m.add("load", mechanisms.body(np.random.default_rng(1)), child, parent="link", at=at, **options)
    return m


DETERMINED: dict[str, Callable[[], ct.Model]] = {
    "massless link that carries a load": lambda: massless(ct.Revolute("z"), ct.Revolute("x")),
    "massless slider that carries a load": lambda: massless(ct.Prismatic("x"), ct.Prismatic("y")),
    "massless hinge next to a parallel one, apart": lambda: massless(ct.Revolute("z"), ct.Revolute("z"), at=(0.5, 0, 0)),
    "massless link with an armature": lambda: massless(ct.Revolute("z", armature=0.1), ct.Revolute("z"), at=(0, 0, 0)),
    "massless link with a welded load": lambda: massless(ct.Spherical(), ct.Fixed()),
    "end that only an armature moves": lambda: _end(ct.Body(0.0), ct.Revolute("z", armature=1e-6)),
    "rotor without mass": lambda: _end(ct.Body(0.0, inertia=1e-3 * np.eye(3)), ct.Revolute("z")),
    "point mass off the axis": lambda: _end(ct.point_mass(1.0, at=(0.1, 0, 0)), ct.Revolute("z")),
    "point mass on a slider": lambda: _end(ct.point_mass(1.0), ct.Prismatic("z")),
    "point mass on a nut": lambda: _end(ct.point_mass(1.0), ct.Helical("z", pitch=0.1)),
    "gear of a micrometre": lambda: _end(ct.cylinder(1e-6, 1e-6, mass=1e-14), ct.Revolute("z")),
    "gears of micrometres on a plate": lambda: _pair(1e-6, 1e-14),
    "wheels of kilometres": lambda: _pair(1e4, 1e12),
    "ball with a planet's mass": lambda: _end(ct.sphere(6.4e6, mass=6e24), ct.Free()),
    "mote of dust": lambda: _end(ct.sphere(1e-9, mass=1e-24), ct.Free()),
    "house on a planet": lambda: _on(ct.sphere(6.4e6, mass=6e24), ct.Free(), ct.sphere(1.0, mass=1e3), ct.Revolute("z"), (6.4e6, 0, 0)),
    "mote on a bench": lambda: _on(ct.box(1, 1, 1, mass=10.0), ct.Free(), ct.sphere(1e-9, mass=1e-24), ct.Revolute("z"), (0.5, 0, 0)),
}


def _end(body: ct.Body, joint: Joint) -> ct.Model:
    m = ct.Model("end")
    m.add("base", ct.sphere(1.0, mass=1.0), ct.Free())
    m.add("end", body, joint, at=(0.5, 0.1, 0.0))
    return m


def _on(first: ct.Body, joint: Joint, second: ct.Body, other: Joint, at: Any) -> ct.Model:
    m = ct.Model("on")
    m.add("first", first, joint)
    m.add("second", second, other, parent="first", at=at)
    return m


def _pair(size: float, mass: float) -> ct.Model:
    wheel = ct.cylinder(size, size, mass=mass)
    return _on(wheel, ct.Revolute("z"), wheel, ct.Revolute("z"), (2.0 * size, 0, 0))


@pytest.mark.parametrize("case", DETERMINED)
def test_motion_that_is_determined_is_accepted(case: str) -> None:
    m = DETERMINED[case]()
    q, v, tau = mechanisms.state(m, 3)
    vdot = np.asarray(METHODS["articulated-body"].solves["forward_dynamics"](m.tree(), q, v, tau), dtype=float)
    assert np.isfinite(vdot).all()
    back = np.asarray(METHODS["newton-euler"].solves["inverse_dynamics"](m.tree(), q, v, vdot), dtype=float)
    mass = np.asarray(METHODS["composite-body"].solves["mass_matrix"](m.tree(), q), dtype=float)
    assert relative(back, tau, scale=np.abs(mass).max() * (v @ v)) < 1e-10


UNDETERMINED: dict[str, tuple[Callable[[], ct.Model], str]] = {
    "massless end": (lambda: _end(ct.Body(0.0), ct.Revolute("z")), "end"),
    "massless end on a slider": (lambda: _end(ct.Body(0.0), ct.Prismatic("z")), "end"),
    "massless end on a ball": (lambda: _end(ct.Body(0.0), ct.Spherical()), "end"),
    "point mass on its axis": (lambda: _end(ct.point_mass(1.0, at=(0, 0, 1)), ct.Revolute("z")), "end"),
    "point mass on a skew axis through it": (lambda: _end(ct.point_mass(1.0, at=(0.1, 0.2, 0.3)), ct.Revolute((1, 2, 3))), "end"),
    "rod along its axis": (lambda: _end(ct.rod(1.0, mass=1.0), ct.Revolute("x")), "end"),
    "rod on a ball joint": (lambda: _end(ct.rod(1.0, mass=1.0), ct.Spherical()), "end"),
    "point mass that may turn": (lambda: _end(ct.point_mass(1.0, at=(0.1, 0.2, 0.3)), ct.Free()), "end"),
    "two hinges on one axis, a massless link between": (lambda: massless(ct.Revolute("z"), ct.Revolute("z"), at=(0, 0, 0.5)), "link"),
    "ball with a hinge through it, a massless link between": (lambda: massless(ct.Spherical(), ct.Revolute("x"), at=(0.3, 0, 0)), "link"),
    "massless link with a free load": (lambda: massless(ct.Revolute("z"), ct.Free()), "link"),
    "free massless link with a load on a hinge": (lambda: massless(ct.Free(), ct.Revolute("x")), "link"),
    "two sliders along one line": (lambda: massless(ct.Prismatic("x"), ct.Prismatic("x")), "link"),
}


@pytest.mark.parametrize("case", UNDETERMINED)
def test_motion_that_is_undetermined_is_refused(case: str) -> None:
    make, name = UNDETERMINED[case]
    m = make()
    with pytest.raises(ModelError, match=f"joint of body '{name}'.*undetermined.*give.*mass or inertia.*armature"):
        m.tree()
    assert m.body_names  # and the model is still there


def test_a_model_of_welded_bodies_only_has_no_tree() -> None:
    m = ct.Model("statue")
    m.add("foot", ct.sphere(1.0, mass=1.0), ct.Fixed())
    with pytest.raises(ModelError, match="model 'statue' has no moving body"):
        m.tree()
    m.add("head", ct.sphere(1.0, mass=1.0), ct.Revolute("z"), parent="foot")
    assert m.tree().names == ("head",)


# the tree


def eager(problem: str, m: ct.Model, *arguments: Any, method: str = "") -> np.ndarray:
    """The result of a formulation on the model's tree, in floats."""
    solutions = {name: entry.solves[problem] for name, entry in METHODS.items() if problem in entry.solves}
    solve = solutions[method] if method else next(iter(solutions.values()))
    return np.asarray(solve(m.tree(), *arguments), dtype=float)


def assert_equals_referee(m: ct.Model, seed: int = 0, tolerance: float = 1e-12) -> None:
    """Poses, mass matrix, inverse dynamics and energies of the tree equal those of the referee, relative to the largest entry.

    The mass matrix is compared entry by entry with the inertias on its diagonal, so that large bodies do not hide small ones.
    """
    referee = Referee(m)
    q, v, vdot = mechanisms.state(m, seed)
    size = max(1.0, max(float(np.abs(link.at.p).max()) for link in m.links))
    assert relative(np.asarray(poses(m.tree(), q, m.body_names), dtype=float), referee.poses(q), size) < 1e-14
    mass, expected = eager("mass_matrix", m, q), referee.mass_matrix(q)
    unit = 1.0 / np.sqrt(np.diag(expected))
    assert relative(mass * np.outer(unit, unit), expected * np.outer(unit, unit)) < tolerance
    tau = referee.inverse(q, v, vdot)
    scale = np.sqrt(np.diag(expected)) * np.linalg.norm(unit * tau)  # a force of one joint, next to what all joints feel
    assert relative((eager("inverse_dynamics", m, q, v, vdot)) / scale, tau / scale, 1.0) < tolerance
    kinetic, potential = energy(m.tree(), q, v)
    expected_kinetic, expected_potential = referee.energy(q, v)
    assert kinetic == pytest.approx(expected_kinetic, rel=tolerance)
    weight = sum(link.body.mass for link in m.links) * 10.0 * size
    assert potential == pytest.approx(expected_potential, rel=tolerance, abs=1e-14 * weight)


@given(seed=mechanisms.seeds)
def test_fixed_bodies_equal_one_merged_body(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second, third = (mechanisms.body(rng) for _ in range(3))
    weld, further, hinge = (mechanisms.place(rng) for _ in range(3))
    apart = ct.Model("apart", gravity=(1, 2, 3))
    apart.add("base", first, ct.Free())
    apart.add("weld", second, ct.Fixed(), parent="base", at=weld)
    apart.add("further", third, ct.Fixed(), parent="weld", at=further)
    apart.add("tip", first, ct.Revolute("z"), parent="further", at=hinge)

    masses, points, tensors = [], [], []
    for body, pose in ((first, ct.Pose()), (second, weld), (third, weld @ further)):
        masses.append(body.mass)
        points.append(pose.p + pose.R @ np.array(body.com))
        tensors.append(pose.R @ body.inertia @ pose.R.T)
    com = np.array(masses) @ np.array(points) / sum(masses)
    about = [m * ((d @ d) * np.eye(3) - np.outer(d, d)) for m, d in zip(masses, np.array(points) - com, strict=True)]
    merged = ct.Model("merged", gravity=(1, 2, 3))
    merged.add("base", ct.Body(sum(masses), com, sum(tensors) + sum(about)), ct.Free())
    whole = weld @ further @ hinge
    merged.add("tip", first, ct.Revolute("z"), parent="base", at=ct.Pose(whole.p, matrix=whole.R))

    q, v, x = mechanisms.state(merged, seed)
    assert apart.tree().names == ("base", "tip")
    assert relative(eager("mass_matrix", apart, q), eager("mass_matrix", merged, q)) < 1e-13
    assert relative(eager("forward_dynamics", apart, q, v, x), eager("forward_dynamics", merged, q, v, x)) < 1e-12


def test_bodies_welded_to_the_ground_have_potential_energy_and_poses_but_no_motion() -> None:
    m = pendulum()
    m.add("stone", ct.sphere(0.5, mass=4.0, com=(0, 0, 1)), ct.Fixed(), at=(0, 0, 2))
    m.add("pebble", ct.sphere(0.5, mass=1.0), ct.Fixed(), parent="stone", at=(0, 0, 1))
    m.add("leaf", ct.sphere(0.5, mass=1.0), ct.Prismatic("x"), parent="pebble", at=(0, 0, 1))
    assert_equals_referee(m)
    q, v = np.zeros(2), np.zeros(2)
    assert energy(m.tree(), q, v)[1] - energy(pendulum().tree(), q[:1], v[:1])[1] == pytest.approx(9.81 * (4 * 3 + 1 * 3 + 1 * 4))


TILTS = (0.0, 1e-15, 1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.5, math.pi / 2)


@pytest.mark.parametrize("far", [0.0, 1e3])
@pytest.mark.parametrize("turned", [0.0, math.pi], ids=["parallel", "opposite"])
@pytest.mark.parametrize("tilt", TILTS)
def test_nearly_parallel_axes_equal_the_referee(tilt: float, turned: float, far: float) -> None:
    """The common normal of nearly parallel axes may be far away; a body a kilometre off must not hide that from the frames."""
    rng = np.random.default_rng(1)
    m = ct.Model("tilted")
    m.add("root", mechanisms.body(rng), ct.Revolute("x"))
    m.add("first", mechanisms.body(rng), ct.Revolute("z"), parent="root", at=(0.1, 0.1, 0.1))
    m.add("second", mechanisms.body(rng), ct.Revolute("z"), parent="first", at=ct.Pose((0.1, 0.05, 0.02), rpy=(turned, tilt, 0.0)))
    m.add("third", mechanisms.body(rng), ct.Helical("z", 0.1), parent="second", at=ct.Pose((0.1, 0.2, 0.0), rpy=(turned + tilt, tilt, 1.0)))
    m.add("fourth", mechanisms.body(rng), ct.Prismatic("z"), parent="third", at=ct.Pose((0.0, -0.2, 0.3), rpy=(tilt, 0.0, 0.3)))
    m.add("fifth", mechanisms.body(rng), ct.Universal("x", "y"), parent="fourth", at=ct.Pose((0.1, 0.0, 0.3), rpy=(0.3, tilt, 0.3)))
    if far:
        m.add("far", mechanisms.body(rng), ct.Revolute("y"), at=(far, 0.0, 0.0))
    assert_equals_referee(m)


AXES = ("x", "y", "z", "-x", "-y", "-z")


@pytest.mark.parametrize("first", AXES)
@pytest.mark.parametrize("second", AXES)
def test_axes_along_the_coordinate_axes_equal_the_referee(first: str, second: str) -> None:
    """Parallel, opposite, intersecting and coincident axes, with offsets along each of them and none."""
    rng = np.random.default_rng(2)
    for offset in ((0, 0, 0), (0.5, 0, 0), (0, 0.5, 0), (0, 0, -0.5)):
        m = ct.Model("aligned", gravity=(1, 2, 3))
        m.add("a", mechanisms.body(rng), ct.Revolute(first))
        m.add("b", mechanisms.body(rng), ct.Revolute(second), parent="a", at=offset)
        m.add("c", mechanisms.body(rng), ct.Prismatic(first), parent="b", at=offset)
        m.add("d", mechanisms.body(rng), ct.Cylindrical(second), parent="c", at=offset)
        assert_equals_referee(m, tolerance=1e-13)


@pytest.mark.parametrize("second", mechanisms.JOINTS)
@pytest.mark.parametrize("first", mechanisms.JOINTS)
def test_every_joint_on_every_joint_equals_the_referee(first: str, second: str) -> None:
    rng = np.random.default_rng(4)
    m = ct.Model("pair", gravity=(1, 2, 3))
    m.add("a", mechanisms.body(rng), mechanisms.JOINTS[first](rng), at=mechanisms.place(rng))
    m.add("b", mechanisms.body(rng), mechanisms.JOINTS[second](rng), parent="a", at=mechanisms.place(rng))
    m.add("c", mechanisms.body(rng), mechanisms.JOINTS[first](rng), parent="a", at=mechanisms.place(rng))
    assert_equals_referee(m)


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_mechanisms_of_any_size_equal_the_referee(size: float) -> None:
    rng = np.random.default_rng(5)
    m = ct.Model("sized")
    for k, kind in enumerate(("revolute", "prismatic", "universal", "spherical", "revolute", "planar")):
        place = mechanisms.place(rng)
        body = mechanisms.body(rng)
        scaled = ct.Body(body.mass * size**3, size * np.array(body.com), body.inertia * size**5)
        at = ct.Pose(size * place.p, matrix=place.R)
        m.add(f"b{k}", scaled, mechanisms.JOINTS[kind](rng), parent=f"b{k - 1}" if k else "ground", at=at)
    assert_equals_referee(m, tolerance=1e-11)


def test_a_small_mechanism_far_from_the_origin_equals_the_same_at_the_origin() -> None:
    """The second of two arms stands a kilometre away: nothing in it is measured against that kilometre."""
    near, far = ct.Model("near"), ct.Model("far")
    for m, x in ((near, 0.0), (far, 1e3)):
        rng = np.random.default_rng(6)
        m.add("first", mechanisms.body(rng, 1e-3), ct.Revolute("z"))
        m.add("base", mechanisms.body(rng, 1e-3), ct.Revolute((1, 2, 3)), at=(x, 0, 0))
        m.add("tip", mechanisms.body(rng, 1e-3), ct.Revolute((1, 2, 3.001)), parent="base", at=(1e-3, 2e-11, 0))
    q, v, x = mechanisms.state(near, 1)
    assert relative(eager("mass_matrix", near, q), eager("mass_matrix", far, q)) < 1e-12
    assert relative(eager("forward_dynamics", near, q, v, x), eager("forward_dynamics", far, q, v, x)) < 1e-10


@given(moving=mechanisms.moving_trees(options=False))
def test_random_trees_equal_the_referee(moving: Any) -> None:
    assert_equals_referee(moving[0])


@given(seed=mechanisms.seeds)
def test_the_order_of_siblings_changes_nothing_but_the_order_of_coordinates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = {name: (mechanisms.body(rng), ct.Revolute(mechanisms.unit(rng)), mechanisms.place(rng)) for name in "abcd"}
    parents = {"a": "ground", "b": "a", "c": "a", "d": "ground"}
    models = []
    for order in ("abcd", "dacb"):
        m = ct.Model()
        for name in order:
            body, joint, at = parts[name]
            m.add(name, body, joint, parent=parents[name], at=at)
        models.append(m)
    q, v, x = mechanisms.state(models[0], seed)
    shuffled = [3, 0, 2, 1]
    other = eager("forward_dynamics", models[1], q[shuffled], v[shuffled], x[shuffled])
    assert relative(other, eager("forward_dynamics", models[0], q, v, x)[shuffled]) < 1e-11


def test_turning_the_world_changes_nothing() -> None:
    """The whole mechanism and gravity, turned and moved together, give the same motion."""
    rng = np.random.default_rng(8)
    turned = ct.Pose((1.0, 2.0, 3.0), quat=rng.normal(size=4))
    straight = mechanisms.tree(9, 5, fixed=0.0, branching=0.0)
    moved = ct.Model("moved", gravity=turned.R @ np.array(straight.gravity))
    for link in straight.links:
        at = turned @ link.at if link.parent == "ground" else link.at
        moved.add(link.name, link.body, link.joint, parent=link.parent, at=ct.Pose(at.p, matrix=at.R))
    q, v, x = mechanisms.state(straight, 1)
    assert relative(eager("forward_dynamics", straight, q, v, x), eager("forward_dynamics", moved, q, v, x)) < 1e-12


# the model's own accessors


def test_model_accessors() -> None:
    m = ct.Model("robot")
    m.add("base", ct.sphere(1.0, mass=1.0), ct.Free())
    m.add("plate", ct.sphere(1.0, mass=1.0), ct.Fixed(), parent="base")
    m.add("arm", ct.rod(1.0, mass=1.0), ct.Universal("x", "y"), parent="plate", at=(0, 0, 1))
    assert m.body_names == ("base", "plate", "arm")
    assert (m.nq, m.nv) == (9, 8)
    assert repr(m) == "<Model 'robot': 3 bodies, nq = 9, nv = 8>"
    assert m.q_names[-2:] == m.v_names[-2:] == ("arm.angle1", "arm.angle2")
    assert m.neutral().tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert np.array_equal(m.random(3), m.random(np.random.default_rng(3)))
    assert not np.array_equal(m.random(3), m.random(4))
    q, v, _ = mechanisms.state(m, 0, batch=(4,))
    assert m.integrate(q, v[0]).shape == (4, 9)
    assert m.integrate(q[0], np.zeros((5, 1, 8))).shape == (5, 1, 9)
    assert m.difference(q, q[0]).shape == (4, 8)


def test_two_coordinates_never_have_one_name() -> None:
    m = ct.Model()
    m.add("b", ct.sphere(0.1, mass=1.0), ct.Universal("x", "y"))
    with pytest.raises(ct.ModelError, match=r"body 'b\.angle1': another body has a coordinate named 'b\.angle1' already"):
        m.add("b.angle1", ct.sphere(0.1, mass=1.0), ct.Revolute("z"))
    assert m.body_names == ("b",)


def test_a_model_and_its_pickle_have_the_same_dynamics() -> None:
    m = ct.Model()
    m.add("b", ct.box(1.0, 2.0, 3.0, mass=1.0), ct.Universal("x", "y", damping=0.1))
    m.tree()
    copy = pickle.loads(pickle.dumps(m))
    q, v = m.random(0), np.array([1.0, 2.0])
    assert np.array_equal(ct.bias_force(copy)(q, v), ct.bias_force(m)(q, v))


def test_trees_and_operators_can_be_pickled_and_stay_read_only():
    import copy
    import pickle

    from catena.examples import arm

    m = arm()
    q = m.random(0)
    for made in (pickle.loads(pickle.dumps(m.tree())), copy.deepcopy(m.tree())):
        assert made.names == m.tree().names
        assert dict(made.frames).keys() == dict(m.tree().frames).keys()
        assert not made.M[0].flags.writeable
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(ct.operators(m, q))).M, ct.operators(m, q).M)
