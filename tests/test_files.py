"""A model and its file say the same; a file that cannot be read says where and why."""

import contextlib
import copy
import os
import re
import stat
import warnings
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import catena as ct
from catena import cli
from catena.examples import EXAMPLES, gallery
from catena.files import formats as files
from catena.files import toml_writer
from catena.files.toml_records import CLOSING_RECORDS
from catena.model.bodies import Geometry
from catena.model.forces import BUSHING_NUMBERS
from catena.model.joints import JOINTS

pytestmark = pytest.mark.quick

GOOD = """\
# two links
[model]
name = "arms"
gravity = [0, 0, -9.81]

[[body]]
name = "upper"
shape = { type = "rod", length = 1.0, mass = 2.0 }
joint = { type = "revolute", axis = "y" }

[[body]]
name = "lower"
parent = "upper"
at = [1.0, 0, 0]
mass = 1.5
com = [0.2, 0, 0]
inertia = [0.1, 0.2, 0.2]
[body.joint]
type = "universal"
damping = [0.1, 0.2]
"""


def assert_same(a, b):
    """Two models agree in everything that a user said; directions and rotations to rounding, the rest to the last bit."""
    assert (a.name, a.gravity, a.friction_speed) == (b.name, b.gravity, b.friction_speed)
    assert [(link.name, link.parent) for link in a.links] == [(link.name, link.parent) for link in b.links]
    assert a.springs == b.springs
    assert a.couplings == b.couplings
    assert a.actuators == b.actuators
    assert [(frame.name, frame.body) for frame in a.frames] == [(frame.name, frame.body) for frame in b.frames]
    for one, two in zip(a.frames, b.frames, strict=True):
        assert_same_pose(one.at, two.at)
    for ours, theirs in ((a.bushings, b.bushings), (a.contacts, b.contacts)):
        assert [one.name for one in ours] == [two.name for two in theirs]
        for one, two in zip(ours, theirs, strict=True):
            for key in (f.name for f in fields(one)):
                assert_same_number(getattr(one, key), getattr(two, key))
    for ours, theirs in ((a.loops, b.loops), (a.connections, b.connections)):
        assert [(x.name, x.a, x.b) for x in ours] == [(x.name, x.a, x.b) for x in theirs]
        for one, two in zip(ours, theirs, strict=True):
            assert_same_pose(one.at_a, two.at_a)
            assert_same_pose(one.at_b, two.at_b)
            assert_same_joint(one.joint, two.joint)
    for one, two in zip(a.links, b.links, strict=True):
        assert_same_pose(one.at, two.at)
        assert_same_pose(one.outer, two.outer)
        assert (one.body.mass, one.body.com) == (two.body.mass, two.body.com)
        np.testing.assert_array_equal(one.body.inertia, two.body.inertia)
        assert [(g.kind, g.size, g.center) for g in one.body.geometry] == [(g.kind, g.size, g.center) for g in two.body.geometry]
        for g, h in zip(one.body.geometry, two.body.geometry, strict=True):
            np.testing.assert_allclose(g.axis, h.axis, rtol=0, atol=1e-15)
        assert_same_joint(one.joint, two.joint)


def assert_same_pose(one, two):
    np.testing.assert_array_equal(one.p, two.p)
    np.testing.assert_allclose(one.R, two.R, rtol=0, atol=2e-15)


def assert_same_number(one, two):
    if isinstance(one, ct.Pose):
        assert_same_pose(one, two)
    elif isinstance(one, tuple) and any(isinstance(x, Geometry) for x in one):
        assert [(g.kind, g.size, g.center) for g in one] == [(g.kind, g.size, g.center) for g in two]
    elif isinstance(one, str):
        assert one == two
    else:
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-15 * (len(one) == 3 if isinstance(one, tuple) else 0))


def assert_same_joint(one, two):
    assert type(one) is type(two)
    for f in fields(one):
        x, y = getattr(one, f.name), getattr(two, f.name)
        if f.name.startswith("axis") or (f.name == "rest" and x):
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-15 * (1.0 + np.abs(x).max()))
        else:
            assert x == y, f.name


def round_trip(m, folder):
    file = Path(folder, "model.toml")
    m.save(file)
    return ct.load(file)


def read(text, folder):
    """Return the model of a text, read from the file model.toml."""
    file = Path(folder, "model.toml")
    file.write_text(text, encoding="utf-8")
    return ct.load(file)


# --- round trips


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "gallery"])
def test_example_survives_its_file(name, tmp_path):
    assert_same(EXAMPLES[name](), round_trip(EXAMPLES[name](), tmp_path))


def test_gallery_survives_its_file_but_for_the_custom_joint(tmp_path):
    m = gallery(custom=False)
    assert {link.joint.kind for link in m.links} == set(JOINTS) - {"custom"}
    assert_same(m, round_trip(m, tmp_path))


def test_saved_model_moves_like_the_original(tmp_path):
    m = gallery(custom=False)
    rng = np.random.default_rng(0)
    q, v, tau = m.random(rng), rng.normal(size=m.nv), rng.normal(size=m.nv)
    vdot = ct.forward_dynamics(m)(q, v, tau)
    np.testing.assert_allclose(ct.forward_dynamics(round_trip(m, tmp_path))(q, v, tau), vdot, rtol=1e-12, atol=1e-12 * np.abs(vdot).max())


_numbers = st.floats(-1e6, 1e6, allow_subnormal=False)
_vectors = st.tuples(_numbers, _numbers, _numbers)
_positive = st.floats(1e-6, 1e6)
_axes = st.sampled_from(["x", "y", "z", "-x", "-y", "-z"]) | _vectors.filter(lambda a: max(map(abs, a)) > 1e-3)
_rotations = st.tuples(*[st.floats(-1.0, 1.0)] * 4).filter(lambda q: np.linalg.norm(q) > 0.1).map(lambda q: np.array(q) / np.linalg.norm(q))
_names = st.text(min_size=1, max_size=8).filter(lambda s: s.strip() and s != "ground" and s.isprintable() | ("\n" in s))


@st.composite
def _joints(draw):
    kind = draw(st.sampled_from([joint for name, joint in JOINTS.items() if name != "custom"]))
    plain = kind()
    if plain.nv == 0:
        return plain  # takes no options
    options = {}
    for option in ("damping", "friction", "armature"):
        if draw(st.booleans()):
            options[option] = draw(_positive) if draw(st.booleans()) else draw(st.tuples(*[_positive] * plain.nv))
    if draw(st.booleans()):
        options["stiffness"] = draw(_positive)
        if kind is ct.Spherical:
            options["rest"] = tuple(draw(_rotations))
        elif kind is ct.Free:
            options["rest"] = (*draw(_vectors), *draw(_rotations))
        else:
            options["rest"] = draw(st.tuples(*[_numbers] * plain.nq))
    if plain.nq == plain.nv and draw(st.booleans()):
        ends = st.tuples(st.floats(-10.0, -1.0) | st.none(), st.floats(1.0, 10.0) | st.none()) | st.none()
        pair = draw(ends)
        options["limits"] = pair if plain.nv == 1 else [pair, *(draw(ends) for _ in range(plain.nv - 1))]
        options["stop_stiffness"] = draw(_positive) if draw(st.booleans()) else draw(st.tuples(*[_positive] * plain.nv))
        options["stop_damping"] = draw(st.floats(0.0, 10.0))
    own = {f.name for f in fields(kind)} - {f.name for f in fields(ct.Fixed)}
    for name in sorted(own):
        options[name] = draw(_numbers if name == "pitch" else _axes)
    try:
        return kind(**options)
    except ct.ModelError:  # the axes of a universal joint happened to be parallel
        return kind(**{name: value for name, value in options.items() if not name.startswith("axis")})


@st.composite
def _plain_joints(draw):
    """Joints without options, which may close loops; a distance among them."""
    kind = draw(st.sampled_from(list(CLOSING_RECORDS)))
    if kind == "distance":
        return ct.Distance(draw(_positive))
    own = {"axis1": "x", "axis2": "y"} if kind == "universal" else {}
    own |= {} if kind in ("universal", "spherical", "fixed") else {"axis": draw(_axes)}
    return JOINTS[kind](**own, **({"pitch": draw(_numbers)} if kind == "helical" else {}))


@st.composite
def _bodies(draw):
    mass = draw(_positive)
    shape = draw(st.sampled_from(["rod", "box", "cylinder", "sphere", "point", "body"]))
    size, com = (draw(_positive) for _ in range(3)), draw(_vectors)
    match shape:
        case "rod":
            return ct.rod(next(size), mass, draw(_axes))
        case "box":
            return ct.box(*size, mass, com)
        case "cylinder":
            return ct.cylinder(next(size), next(size), mass, draw(_axes), com)
        case "sphere":
            return ct.sphere(next(size), mass, com)
        case "point":
            return ct.point_mass(mass, com)
    R = ct.Pose(quat=draw(_rotations)).R
    a, b, c = size
    looks = tuple(ct.sphere(1.0, 1.0, com).geometry) * draw(st.integers(0, 2))
    return ct.Body(mass, com, R @ np.diag([b + c, a + c, a + b]) @ R.T, looks)


_poses = (
    st.builds(ct.Pose, _vectors)
    | st.builds(lambda p, rpy: ct.Pose(p, rpy=rpy), _vectors, st.tuples(*[st.floats(-7.0, 7.0)] * 3))
    | st.builds(lambda p, rpy: ct.Pose(p, rpy=rpy), _vectors, st.tuples(*[st.integers(-4, 4).map(lambda k: k * np.pi / 2)] * 3))
    | st.builds(lambda p, quat: ct.Pose(p, quat=quat), _vectors, _rotations)
)


@st.composite
def _models(draw):
    m = ct.Model(draw(_names), draw(_vectors), draw(_positive))
    for name in draw(st.lists(_names, max_size=5, unique=True)):
        m.add(name, draw(_bodies()), draw(_joints()), draw(st.sampled_from(["ground", *m.body_names])), draw(_poses))
    for name in draw(st.lists(_names, max_size=3, unique=True)) if m.links else []:
        a, b = draw(st.permutations(["ground", *m.body_names]))[:2]
        damping, length = draw(st.just(0.0) | _positive), draw(st.just(0.0) | _positive)
        m.add_spring(name, a, b, draw(_vectors), draw(_vectors), stiffness=draw(_positive), damping=damping, length=length)
    m = draw(_looped(m)) if draw(st.booleans()) else m
    return draw(_equipped(m)) if m.links else m


@st.composite
def _equipped(draw, m):
    """A model with frames, bushings, contacts and actuators on top."""
    bodies, plain = st.sampled_from(m.body_names), [name for name, (joint, *_) in m.coordinate_places.items() if joint.nq == joint.nv]
    for i in range(draw(st.integers(0, 2))):
        m.add_frame(f"a frame {i}", draw(bodies | st.just("ground")), draw(_poses))
    for i in range(draw(st.integers(0, 2))):
        a, b = draw(st.permutations(["ground", *m.body_names]))[:2]
        numbers = {key: draw(_positive | st.tuples(_positive, _positive, _positive)) for key in BUSHING_NUMBERS if draw(st.booleans())}
        m.add_bushing(f"bushing {i}", a, b, draw(_poses), draw(_poses), **(numbers or {"stiffness": 1.0}))
    for i in range(draw(st.integers(0, 2))):
        options = {"stiffness": draw(_positive), "friction": draw(st.floats(0.0, 2.0)), "exponent": draw(st.sampled_from([1.0, 1.5]))}
        options |= {"normal": draw(_axes), "height": draw(_numbers)} if draw(st.booleans()) else {}
        shapes = draw(st.lists(st.sampled_from([ct.sphere(0.1, 1.0).geometry[0], ct.box(1.0, 2.0, 3.0, 1.0).geometry[0]]), max_size=2))
        points = draw(st.lists(_vectors, min_size=0 if shapes else 1, max_size=3))
        m.add_contact(f"contact {i}", draw(bodies), tuple(shapes), points=points, restitution=draw(st.floats(0.05, 0.9)), **options)
    for i in range(draw(st.integers(0, 2)) if plain else 0):
        gears = {name: draw(_positive) for name in draw(st.lists(st.sampled_from(plain), min_size=1, max_size=3, unique=True))}
        options = {key: draw(_numbers | _vectors) for key in ("gain", "bias") if draw(st.booleans())}
        options |= {key: (draw(st.floats(-9.0, -1.0)), draw(st.floats(1.0, 9.0))) for key in ("control_limits", "force_limits")
                    if draw(st.booleans())}  # fmt: skip
        m.add_actuator(f"actuator {i}", gears, **options)
    return m


@st.composite
def _looped(draw, m):
    """A model with loose bodies, connections, loops and couplings on top; what is refused, such as a loop of welded bodies, is left out."""
    for i in range(draw(st.integers(0, 3))):
        m.add(f"loose {i}", draw(_bodies()))
        hanging = draw(_plain_joints().filter(lambda joint: not isinstance(joint, ct.Distance)))
        other = draw(st.sampled_from(["ground", *(link.name for link in m.added[:-1])]))
        m.connect(other, f"loose {i}", hanging, draw(_poses), draw(_poses), name=draw(st.none() | st.just(f"connection.{i}")))
    for i in range(draw(st.integers(0, 3)) if m.added else 0):
        a, b = draw(st.permutations(["ground", *m.body_names]))[:2]
        trial = copy.deepcopy(m)
        with contextlib.suppress(ct.ModelError):
            trial.close(f"loop {i}", draw(_plain_joints()), a, b, draw(_poses), draw(_poses))
            assert trial.loops  # which refuses those of welded bodies
            m = trial
    plain = [name for link in m.links if link.joint.nq == link.joint.nv for name in m.q_names if name.split(".")[0] == link.name]
    for i in range(draw(st.integers(0, 2)) if plain else 0):
        names = draw(st.lists(st.sampled_from(plain), min_size=1, max_size=3, unique=True))
        m.couple(f"gears {i}", {name: draw(_positive) for name in names}, draw(_numbers))
    return m


@settings(max_examples=150, deadline=None, derandomize=True)
@given(_models())
def test_random_model_survives_its_file(tmp_path_factory, m):
    assert_same(m, round_trip(m, tmp_path_factory.mktemp("files")))


@pytest.mark.parametrize("name", ['"', "\\", "a\nb", "\t", "\x7f", "\x01 é", "é", "机械臂", "🦾", "[[body]]", "# no comment", "'''", '"""'])
def test_any_name_survives(name, tmp_path):
    m = ct.Model(f"m{name}")
    m.add(f"a{name}", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"))
    m.add(f"b{name}", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"), parent=f"a{name}")
    assert_same(m, round_trip(m, tmp_path))


def test_shapes_are_saved_as_shapes_and_letters_as_letters(tmp_path):
    m = read(GOOD, tmp_path)
    text = toml_writer.text(m)
    assert 'shape = { type = "rod", length = 1.0, mass = 2.0, axis = "x" }' in text
    assert 'joint = { type = "revolute", axis = "y" }' in text
    assert "inertia = [0.1, 0.2, 0.2]" in text
    assert "damping = [0.1, 0.2]" in text


def test_right_angles_are_saved_as_angles():
    m = ct.Model()
    for i, rpy in enumerate([(np.pi / 2, 0, 0), (0, np.pi / 2, 0), (0.1, -np.pi / 2, 0), (1.0, 2.0, 3.0)]):
        m.add(f"b{i}", ct.point_mass(1.0), ct.Free(), at=ct.Pose((1, 2, 3), rpy=rpy))
    assert toml_writer.text(m).count("rpy = [") == 4
    assert "rpy = [1.5707963267948966, 0.0, 0.0]" in toml_writer.text(m).replace("-0.0", "0.0")


# --- what a file may leave out, and its order


def test_defaults_are_those_of_python(tmp_path):
    m = read('[[body]]\nname = "a"\nmass = 1\njoint = { type = "free" }', tmp_path)
    n = ct.Model()
    n.add("a", ct.Body(1.0), ct.Free())
    assert_same(m, n)
    assert_same(read("", tmp_path), ct.Model())


@pytest.mark.parametrize(
    "rotation", ["quat = [1, 1, 0, 0]", "matrix = [[1, 0, 0], [0, 0, -1], [0, 1, 0]]", "rpy = [1.5707963267948966, 0, 0]"]
)
def test_rotations_can_be_said_in_three_ways(rotation, tmp_path):
    m = read(f'[[body]]\nname = "a"\nat = {{ xyz = [1, 2, 3], {rotation} }}\nmass = 1\njoint = {{ type = "free" }}', tmp_path)
    expected = ct.Pose((1, 2, 3), rpy=(np.pi / 2, 0, 0)).matrix()
    np.testing.assert_allclose(m.links[0].at.matrix(), expected, atol=1e-15)


def bodies(pairs):
    return "".join(f'[[body]]\nname = "{name}"\nparent = "{parent}"\nmass = 1\njoint = {{ type = "free" }}\n' for name, parent in pairs)


@pytest.mark.parametrize(("pairs", "order"), [
    ([("a", "ground"), ("b", "a"), ("c", "ground")], "abc"),
    ([("b", "a"), ("c", "ground"), ("a", "ground")], "abc"),
    ([("d", "c"), ("c", "b"), ("b", "a"), ("a", "ground"), ("e", "d")], "abcde"),
    ([("c", "ground"), ("a", "ground"), ("b", "c")], "cab"),
])  # fmt: skip
def test_parent_may_stand_below_its_child(pairs, order, tmp_path):
    assert "".join(read(bodies(pairs), tmp_path).body_names) == order


def test_long_chain_in_reverse_order(tmp_path):
    count = 3000
    pairs = [(f"b{i}", f"b{i - 1}" if i else "ground") for i in reversed(range(count))]
    assert read(bodies(pairs), tmp_path).body_names == tuple(f"b{i}" for i in range(count))


def test_byte_order_mark_and_windows_lines_are_read(tmp_path):
    file = tmp_path / "model.toml"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert_same(ct.load(file), read(GOOD, tmp_path))


def test_path_may_be_a_string_or_a_path(tmp_path, monkeypatch):
    read(GOOD, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert_same(ct.load("model.toml"), ct.load(tmp_path / "model.toml"))


# --- errors: what is replaced in the good file, and what the message says after the file's name

ERRORS = [
    # keys and kinds
    ('name = "arms"', 'nmae = "arms"', ":3: model.nmae: unknown key; did you mean 'name'?"),
    ("[model]", "[mdoel]", ":2: mdoel: unknown key; did you mean 'model'?"),
    ('name = "arms"', "name = 3", ":3: model.name: 3 is not a string; give a string"),
    ('name = "arms"', 'name = " "', ":3: model.name: model name ' ' is not a name"),
    ('name = "arms"', "friction_speed = 0", ":3: model.friction_speed: model friction_speed 0 is not above 0"),
    ("[0, 0, -9.81]", "[0, 0]", ":4: model.gravity: model gravity [0, 0] has shape (2,); give 3 finite numbers"),
    ("[0, 0, -9.81]", "[0, 0, inf]", ":4: model.gravity: model gravity [0, 0, inf] is not finite"),
    ("[0, 0, -9.81]", '[0, 0, "g"]', ":4: model.gravity[2]: 'g' is not a number; give a number"),
    ('name = "upper"\n', "", ":6: body[0]: key 'name' is missing; add it"),
    ('joint = { type = "revolute", axis = "y" }\n', "", ":6: body[0] of 'upper': key 'joint' is missing; add it"),
    ('parent = "upper"', 'praent = "upper"', ":13: body[1].praent of 'lower': unknown key; did you mean 'parent'?"),
    # joints
    ('"revolute"', '"revolut"', ":9: body[0].joint.type of 'upper': 'revolut' is not a joint; did you mean 'revolute'? Choose from "),
    ('"revolute"', "7", ":9: body[0].joint.type of 'upper': 7 is not a joint; choose from 'revolute', "),
    ('type = "revolute", ', "", ":9: body[0].joint of 'upper': key 'type' is missing; choose from 'revolute', "),
    ('"revolute"', '"custom"', ":9: body[0].joint.type of 'upper': a custom joint is made of Python code"),
    ('axis = "y"', 'axis = "w"', ":9: body[0].joint.axis of 'upper': revolute axis 'w' is unknown; give 'x', "),
    ('axis = "y"', "axis = [0, 0, 0]", ":9: body[0].joint.axis of 'upper': revolute axis (0.0, 0.0, 0.0) has no direction"),
    ('axis = "y"', "axis = 2", ":9: body[0].joint.axis of 'upper': 2 is not a string or an array"),
    ('axis = "y"', 'axsi = "y"', ":9: body[0].joint.axsi of 'upper': unknown key; did you mean 'axis'?"),
    ("[0.1, 0.2]", "[0.1, 0.2, 0.3]", ":20: body[1].joint.damping of 'lower': universal damping [0.1, 0.2, 0.3] has 3 entries"),
    ("[0.1, 0.2]", "-1", ":20: body[1].joint.damping of 'lower': universal damping -1 is below 0"),
    ("[0.1, 0.2]", "true", ":20: body[1].joint.damping of 'lower': True is not a number or an array"),
    ("[0.1, 0.2]", '"0.1"', ":20: body[1].joint.damping of 'lower': '0.1' is not a number or an array"),
    # bodies
    ("mass = 1.5", "mass = -1.5", ":15: body[1].mass of 'lower': body mass -1.5 is below 0"),
    ("mass = 1.5", "mass = 1" + "0" * 400, ":15: body[1].mass of 'lower': 10000000000000000000000"),
    ("mass = 1.5\n", "", ":11: body[1] of 'lower': neither 'mass' nor 'shape' is given"),
    ("[0.1, 0.2, 0.2]", "[0.1, 0.2, -0.2]", ":17: body[1].inertia of 'lower': body inertia"),
    ("[0.1, 0.2, 0.2]", "[[1, 2, 3], [2, 1]]", ":17: body[1].inertia of 'lower': body inertia [[1, 2, 3], [2, 1]] is not made"),
    ("[0.1, 0.2, 0.2]", "[[1, 2, 3], [4, 5, 6], [7, 8, 9]]", ":17: body[1].inertia of 'lower': body inertia"),
    ("length = 1.0, ", "", ":8: body[0].shape of 'upper': key 'length' is missing"),
    ("length = 1.0", "length = 0", ":8: body[0].shape.length of 'upper': rod length 0 is not above 0"),
    ('"rod"', '"rot"', ":8: body[0].shape.type of 'upper': 'rot' is not a shape; did you mean 'rod'?"),
    ('name = "upper"', 'name = "upper"\nmass = 1', ":9: body[0].shape of 'upper': both 'shape' and 'mass' are given"),
    ("mass = 1.5", 'mass = 1.5\ngeometry = [{ type = "blob", size = [1] }]', ":16: body[1].geometry[0].type of 'lower': 'blob' is no"),
    ("mass = 1.5", 'mass = 1.5\ngeometry = [{ type = "box", size = [1] }]', ":16: body[1].geometry[0].size of 'lower': geometry size [1]"),
    # places and parents
    ("at = [1.0, 0, 0]", "at = [1.0, 0]", ":14: body[1].at of 'lower': pose xyz [1.0, 0] has shape (2,)"),
    ("at = [1.0, 0, 0]", "at = { ypr = [1, 0, 0] }", ":14: body[1].at.ypr of 'lower': unknown key; "),
    ("at = [1.0, 0, 0]", "at = { quat = [0, 0, 0, 0] }", ":14: body[1].at.quat of 'lower': pose quat [0, 0, 0, 0] has no direction"),
    ("at = [1.0, 0, 0]", "at = { rpy = [0, 0, 0], quat = [1, 0, 0, 0] }", ":14: body[1].at of 'lower': pose: rpy="),
    ('parent = "upper"', 'parent = "uper"', ":13: body[1].parent of 'lower': no body is named 'uper'; did you mean 'upper'?"),
    ('parent = "upper"', 'parent = "lower"', ":13: body[1].parent of 'lower': the parents form a cycle, 'lower' -> 'lower'"),
    ('name = "lower"', 'name = "upper"', ":12: body[1].name of 'upper': body[0] has this name already"),
    ('name = "lower"', 'name = "ground"', ":12: body[1].name of 'ground': body 'ground': the ground is there already"),
    ('name = "lower"', 'name = ""', ":12: body[1].name of '': body name '' is not a name"),
    # not TOML
    ("mass = 1.5", "mass =", ":15: not TOML at column 7: "),
    ("mass = 1.5", "mass = 1.5\nmass = 1.5", ": not TOML"),
    ("damping = [0.1, 0.2]", "damping = [0.1, 0.2", ":20: not TOML: Unclosed array"),
]  # fmt: skip


SPRUNG = f"""{GOOD}
[[spring]]
name = "coil"
a = "ground"
b = "lower"
at_b = [0.4, 0, 0]
stiffness = 30

[[spring]]
name = "damper"
a = "upper"
b = "lower"
stiffness = 0
damping = 2.0
length = 0.1
"""

SPRING_ERRORS = [
    ('name = "coil"\n', "", ":22: spring[0]: key 'name' is missing; add it"),
    ("stiffness = 30\n", "", ":22: spring[0] of 'coil': key 'stiffness' is missing; add it"),
    ("stiffness = 30", "stifness = 30", ":27: spring[0].stifness of 'coil': unknown key; did you mean 'stiffness'?"),
    ("stiffness = 30", "stiffness = -30", ":27: spring[0].stiffness of 'coil': spring 'coil': stiffness -30 is below 0"),
    ("stiffness = 30", "stiffness = inf", ":27: spring[0].stiffness of 'coil': spring 'coil': stiffness inf is not finite"),
    ('a = "ground"', 'a = "grond"', ":24: spring[0].a of 'coil': no body is named 'grond'; did you mean 'ground'?"),
    ('a = "ground"', 'a = "lower"', ":22: spring[0] of 'coil': spring 'coil': both ends are on 'lower'"),
    ("at_b = [0.4, 0, 0]", "at_b = [0.4, 0]", ":26: spring[0].at_b of 'coil': spring 'coil': at_b [0.4, 0] has shape (2,)"),
    ("damping = 2.0", "damping = -2", ":34: spring[1].damping of 'damper': spring 'damper': damping -2 is below 0"),
    ("length = 0.1", "lenght = 0.1", ":35: spring[1].lenght of 'damper': unknown key; did you mean 'length'?"),
    ('name = "damper"', 'name = "coil"', ":30: spring[1].name of 'coil': spring 'coil': a spring has this name already"),
    ('axis = "y"', "limits = [1, 0]", ":9: body[0].joint.limits of 'upper': revolute limits [1, 0]: lower 1 is not below upper 0"),
    ('axis = "y"', "limits = 1", ":9: body[0].joint.limits of 'upper': 1 is not an array"),
    ('axis = "y"', "limits = [nan, 0]", ":9: body[0].joint.limits of 'upper': revolute limits nan is not finite"),
    ("[0.1, 0.2]", "0\nlimits = [0, 1]", ":21: body[1].joint.limits of 'lower': universal limits [0, 1] are not pairs; give 2 pairs"),
]  # fmt: skip


def test_springs_and_limits_are_read(tmp_path):
    m = read(SPRUNG.replace('axis = "y"', 'axis = "y", limits = [-inf, 2]'), tmp_path)
    assert m.links[0].joint.limits == ((None, 2.0),)
    n = read(GOOD.replace('axis = "y"', 'axis = "y", limits = [-inf, 2]'), tmp_path)
    n.add_spring("coil", "ground", "lower", at_b=(0.4, 0, 0), stiffness=30.0)
    n.add_spring("damper", "upper", "lower", stiffness=0.0, damping=2.0, length=0.1)
    assert_same(m, n)
    assert "limits = [-inf, 2.0]" in toml_writer.text(m)
    assert "stop_stiffness" not in toml_writer.text(m)


@pytest.mark.parametrize(("old", "new", "message"), SPRING_ERRORS)
def test_error_of_a_spring_or_limit_names_file_place_and_remedy(old, new, message, tmp_path):
    assert SPRUNG.count(old) == 1
    with pytest.raises(ct.ModelFileError) as caught:
        read(SPRUNG.replace(old, new), tmp_path)
    assert str(caught.value).removeprefix(str(tmp_path / "model.toml")).startswith(message)


LOOPED = f"""{GOOD}
[[body]]
name = "arch"
mass = 1
com = [0.1, 0, 0]

[[body]]
name = "brace"
mass = 1

[[connection]]
a = "arch"
b = "lower"
at_a = {{ xyz = [0, 0, 0.3], rpy = [0, 0, 1] }}
joint = {{ type = "planar" }}

[[connection]]
name = "weld"
a = "brace"
b = "ground"
joint = {{ type = "cylindrical", axis = "x", damping = 0.2 }}

[[connection]]
a = "arch"
b = "ground"
joint = {{ type = "distance", length = 0.7 }}

[[loop]]
name = "pin"
a = "upper"
b = "ground"
at_b = [0.4, 0, 0]
joint = {{ type = "helical", axis = "y", pitch = 0.1 }}

[[coupling]]
name = "gears"
coefficients = {{ upper = 1.5, "lower.angle1" = -2 }}
offset = 0.25
"""

LOOP_ERRORS = [
    # loops
    ('name = "pin"\n', "", ":48: loop[0]: key 'name' is missing; add it"),
    ('name = "pin"', 'name = "weld"', ":49: loop[0].name of 'weld': loop 'weld': a connection has this name already"),
    ('a = "upper"', 'a = "uper"', ":50: loop[0].a of 'pin': no body is named 'uper'; did you mean 'upper'?"),
    ('a = "upper"', 'a = "ground"', ":48: loop[0] of 'pin': loop 'pin': both ends are on 'ground'"),
    ("at_b = [0.4, 0, 0]", "at_b = [0.4, 0]", ":52: loop[0].at_b of 'pin': pose xyz [0.4, 0] has shape (2,)"),
    ("at_b = [0.4, 0, 0]", "at_c = [0.4, 0]", ":52: loop[0].at_c of 'pin': unknown key; did you mean 'at_b'?"),
    ('"helical", axis = "y", pitch = 0.1', '"free"', ":53: loop[0].joint.type of 'pin': 'free' is not a closing joint; choose from "),
    ('"helical", axis = "y", pitch = 0.1', '"custom"', ":53: loop[0].joint.type of 'pin': a custom joint is made of Python code"),
    ("pitch = 0.1", "ptich = 0.1", ":53: loop[0].joint.ptich of 'pin': unknown key; did you mean 'pitch'?"),
    ("pitch = 0.1", "damping = 0.1", ":53: loop[0].joint.damping of 'pin': loop 'pin': damping 0.1 acts along a coordinate"),
    # couplings
    ("upper = 1.5", "uper = 1.5", ":57: coupling[0].coefficients.uper of 'gears': no coordinate is named 'uper'; did you mean 'upper'?"),
    ("upper = 1.5", "upper = 0", ":57: coupling[0].coefficients.upper of 'gears': coupling 'gears': coefficient of 'upper' is 0"),
    ("upper = 1.5", "upper = nan", ":57: coupling[0].coefficients.upper of 'gears': coupling 'gears': coefficient of 'upper' nan is not"),
    ("upper = 1.5", 'upper = "1.5"', ":57: coupling[0].coefficients.upper of 'gears': '1.5' is not a number; give a number"),
    ("upper = 1.5", "upper = true", ":57: coupling[0].coefficients.upper of 'gears': True is not a number"),
    ('"lower.angle1"', "lower.angle1", ":57: coupling[0].coefficients.lower of 'gears': {'angle1': -2} is not a number; write a name that"),
    ('{ upper = 1.5, "lower.angle1" = -2 }', "{}", ":57: coupling[0].coefficients of 'gears': coupling 'gears': coefficients {}"),
    ('{ upper = 1.5, "lower.angle1" = -2 }', "3", ":57: coupling[0].coefficients of 'gears': 3 is not a table; give a table"),
    ("offset = 0.25", "offset = inf", ":58: coupling[0].offset of 'gears': coupling 'gears': offset inf is not finite"),
    ('name = "gears"', 'name = "pin"', ":56: coupling[0].name of 'pin': coupling 'pin': a loop has this name already"),
    # connections
    ('name = "weld"', "name = 3", ":38: connection[1].name: 3 is not a string"),
    ('name = "weld"', 'name = "arch-lower"', ":38: connection[1].name of 'arch-lower': connection 'arch-lower': a connection has"),
    ("length = 0.7", "length = 0", ":46: connection[2].joint.length: distance length 0 holds two points together"),
    ('type = "planar"', 'type = "plane"', ":35: connection[0].joint.type: 'plane' is not a joint; did you mean 'planar'?"),
    ('b = "lower"', 'b = "lowr"', ":33: connection[0].b: no body is named 'lowr'; did you mean 'lower'?"),
    ('joint = { type = "planar" }\n', "", ":31: connection[0]: key 'joint' is missing; add it"),
    ('b = "lower"', 'b = "ground"', ":43: connection[2]: connection 'arch-ground': a connection has this name already"),
    ('type = "planar"', 'type = "distance", length = 1', ":22: body[2] of 'arch': body 'arch': no joint leads from there to the ground"),
    ('type = "planar"', 'type = "planar", damping = 1', ":31: connection[0]: connection 'arch-lower': 'arch' hangs on 'lower'"),
    ('name = "brace"', 'name = "brase"', ":27: body[3] of 'brase': key 'joint' is missing; add it, or connect the body"),
    ('name = "brace"', 'name = "brace"\nat = [1, 0, 0]', ":29: body[3].at of 'brace': body 'brace': parent 'ground' and at "),
]  # fmt: skip


def test_loops_couplings_and_connections_are_read(tmp_path):
    m = read(LOOPED, tmp_path)
    n = read(GOOD, tmp_path)
    n.add("arch", ct.Body(1.0, (0.1, 0, 0)))
    n.add("brace", ct.Body(1.0))
    n.connect("arch", "lower", ct.Planar("z"), at_a=ct.Pose((0, 0, 0.3), rpy=(0, 0, 1)))
    n.connect("brace", "ground", ct.Cylindrical("x", damping=0.2), name="weld")
    n.connect("arch", "ground", ct.Distance(0.7))
    n.close("pin", ct.Helical("y", pitch=0.1), "upper", "ground", at_b=(0.4, 0, 0))
    n.couple("gears", {"upper": 1.5, "lower.angle1": -2.0}, offset=0.25)
    assert_same(m, n)
    assert_same(m, round_trip(m, tmp_path))
    assert [loop.name for loop in m.loops] == ["pin", "arch-ground"]
    assert 'coefficients = { upper = 1.5, "lower.angle1" = -2.0 }' in toml_writer.text(m)
    assert 'joint = { type = "distance", length = 0.7 }' in toml_writer.text(m)


@pytest.mark.parametrize(("old", "new", "message"), LOOP_ERRORS)
def test_error_of_a_loop_names_file_place_and_remedy(old, new, message, tmp_path):
    assert LOOPED.count(old) == 1
    with pytest.raises(ct.ModelFileError) as caught:
        read(LOOPED.replace(old, new), tmp_path)
    text = str(caught.value).removeprefix(str(tmp_path / "model.toml"))
    assert text.startswith(message)
    assert "; " in text  # the remedy


def test_model_that_is_not_connected_cannot_be_saved(tmp_path):
    m = ct.Model()
    m.add("a", ct.Body(1.0))
    with pytest.raises(ct.ModelFileError, match=r"model\.toml: body 'a': no joint leads from there to the ground; connect"):
        m.save(tmp_path / "model.toml")


def test_custom_joint_of_a_connection_cannot_be_saved(tmp_path):
    m = EXAMPLES["double-pendulum"]()
    m.add("follower", ct.Body(1.0, inertia=np.eye(3)))
    m.connect("ground", "follower", ct.Custom(lambda q: (np.eye(3), np.array([q[0], 0.0, 0.0]))), name="cam")
    with pytest.raises(ct.ModelFileError, match=r"connection 'cam': a custom joint is made of Python code"):
        m.save(tmp_path / "model.toml")


@pytest.mark.parametrize(("old", "new", "message"), ERRORS)
def test_error_names_file_place_and_remedy(old, new, message, tmp_path):
    assert GOOD.count(old) == 1
    with pytest.raises(ct.ModelFileError) as caught:
        read(GOOD.replace(old, new), tmp_path)
    text = str(caught.value).removeprefix(str(tmp_path / "model.toml"))
    if message.startswith(": not TOML"):  # parsers differ in which line they name
        assert ": not TOML" in text
    else:
        assert text.startswith(message)
    assert "; " in text  # the remedy


def test_cycle_is_named(tmp_path):
    with pytest.raises(ct.ModelFileError, match=r"body\[2\]\.parent of 'b': the parents form a cycle, 'b' -> 'c' -> 'd' -> 'b';"):
        read(bodies([("a", "ground"), ("x", "b"), ("b", "c"), ("c", "d"), ("d", "b")]), tmp_path)


def test_place_is_named_without_a_line_where_tables_are_inline(tmp_path):
    text = 'body = [\n  { name = "a", mass = 1, joint = { type = "free" } },\n  { name = "b", mass = -1, joint = { type = "free" } },\n]'
    with pytest.raises(ct.ModelFileError, match=r"model\.toml: body\[1\]\.mass of 'b': body mass -1 is below 0"):
        read(text, tmp_path)


@pytest.mark.parametrize("text", ["body = 3", "model = 3", "body = [3]", "[body]\nname = 3"])
def test_wrong_outline_is_an_error(text, tmp_path):
    with pytest.raises(ct.ModelFileError, match=r"model\.toml:\d: (body|model)|model\.toml: body\[0\]"):
        read(text, tmp_path)


def test_warning_of_an_inertia_names_file_and_body(tmp_path):
    with pytest.warns(ct.InertiaWarning, match=r"model\.toml:11: body\[1\] of 'lower': .* belongs to no real body"):
        read(GOOD.replace("[0.1, 0.2, 0.2]", "[0.1, 0.1, 0.9]"), tmp_path)


def test_file_that_is_not_there(tmp_path):
    with pytest.raises(ct.ModelFileError, match=r"none\.toml: there is no such file; check the path"):
        ct.load(tmp_path / "none.toml")


def test_folder_is_no_file(tmp_path):
    with pytest.raises(ct.ModelFileError, match=r"this is a folder; give a \.toml, \.urdf or \.xml file"):
        ct.load(tmp_path)


@pytest.mark.parametrize("value", [None, 3, ["a.toml"]])
def test_path_of_the_wrong_kind(value):
    with pytest.raises(ct.ModelFileError, match="is not a path; give a string"):
        ct.load(value)


@pytest.mark.parametrize("name", ["arm.sdf", "arm.xacro", "arm.yaml", "arm"])
def test_other_formats_are_refused_by_name(name, tmp_path):
    (tmp_path / name).write_text("<robot/>")
    with pytest.raises(ct.ModelFileError, match=rf"{name}: .* reads \.toml, \.urdf, \.xml, \.mjcf"):
        ct.load(tmp_path / name)
    with pytest.raises(ct.ModelFileError, match=rf"{name}: .* writes \.toml, \.urdf"):
        EXAMPLES["pendulum"]().save(tmp_path / name)
    assert (tmp_path / name).read_text() == "<robot/>"


def test_bytes_that_are_not_utf8(tmp_path):
    file = tmp_path / "model.toml"
    file.write_bytes(b'[model]\nname = "\xff"\n')
    with pytest.raises(ct.ModelFileError, match=r"model\.toml:2: byte 0xff is not UTF-8; save the file as UTF-8"):
        ct.load(file)


def test_file_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LIMIT", 1 << 20)
    with pytest.raises(ct.ModelFileError, match="holds more than 1 MiB"):
        read("#" * ((1 << 20) + 1), tmp_path)
    read("#" * (1 << 20), tmp_path)


DEEP = ["a = " + "[" * 20_000, "a" + ".a" * 20_000 + " = 1", "[a" + ".a" * 100_000 + "]", "[['a'" + ". 'a'" * 100_000 + "]]\nb = 1"]


@pytest.mark.parametrize("text", [*DEEP, "b = { a" + ".a" * 100_000 + " = 1 }"], ids=["array", "key", "table", "tables", "inline"])
def test_deep_nesting(text, tmp_path):
    with pytest.raises(ct.ModelFileError, match="nested too deeply"):
        read(text, tmp_path)


def test_integer_of_thousands_of_digits(tmp_path):
    with pytest.raises(ct.ModelFileError, match=r"with too many digits|has more than 64 bits"):
        read("a = 1" + "0" * 5000, tmp_path)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_damaged_file_gives_a_model_or_an_error_of_catena(tmp_path_factory, data):
    """Cut, doubled or overwritten text never ends in an exception of Python's own."""
    good = data.draw(st.sampled_from([GOOD, LOOPED]))
    start = data.draw(st.integers(0, len(good)))
    stop = data.draw(st.integers(start, min(len(good), start + 30)))
    junk = data.draw(st.sampled_from(["", '"', "[", "]", "{", "=", "nan", "-1", "[[body]]\n", "true", "'", "\n", "1979-05-27", "0x10"]))
    text = good[:start] + junk + good[stop:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ct.InertiaWarning)
        with contextlib.suppress(ct.ModelFileError):
            read(text, tmp_path_factory.mktemp("files"))


# --- saving


def test_custom_joint_cannot_be_saved_and_the_old_file_stays(tmp_path):
    file = tmp_path / "model.toml"
    file.write_text("old")
    with pytest.raises(ct.ModelFileError, match=r"model\.toml: body 'cam': a custom joint is made of Python code, which a"):
        gallery().save(file)
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["model.toml"]


def test_unknown_geometry_cannot_be_saved(tmp_path):
    m = ct.Model()
    m.add("a", ct.Body(1.0, geometry=(Geometry("mesh", (1.0,)),)), ct.Free())
    with pytest.raises(ct.ModelFileError, match=r"body 'a': geometry 'mesh' of size \(1\.0,\) cannot be saved"):
        m.save(tmp_path / "model.toml")


def test_name_that_utf8_cannot_hold(tmp_path):
    with pytest.raises(ct.ModelFileError, match="cannot be written as UTF-8; rename it"):
        ct.Model("\ud800").save(tmp_path / "model.toml")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failure_in_the_middle_keeps_the_old_file(step, tmp_path, monkeypatch):
    file = tmp_path / "model.toml"
    file.write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(ct.ModelFileError, match="cannot be written: no space left on device; nothing was changed"):
        EXAMPLES["pendulum"]().save(file)
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["model.toml"]


def test_interruption_in_the_middle_keeps_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "model.toml"
    file.write_text("old")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        EXAMPLES["pendulum"]().save(file)
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["model.toml"]


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(ct.ModelFileError, match=r"make the folder '.*none' first"):
        EXAMPLES["pendulum"]().save(tmp_path / "none" / "model.toml")


@pytest.mark.skipif(os.name == "nt", reason="permissions and links of POSIX")
def test_permissions_and_links_stay(tmp_path):
    file, link = tmp_path / "model.toml", tmp_path / "link.toml"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    EXAMPLES["pendulum"]().save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert ct.load(file).name == "pendulum"


# --- the page that describes the format


def test_files_in_the_documentation_can_be_read(tmp_path):
    page = (Path(__file__).parents[1] / "docs" / "files.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in page.split("```toml\n")[1:]]
    assert len(blocks) >= 2
    kinds = {link.joint.kind for block in blocks for link in read(block, tmp_path).links}
    assert kinds == set(JOINTS) - {"custom"}
    models = [read(block, tmp_path) for block in blocks]
    for what in ("loops", "couplings", "connections"):
        assert any(getattr(m, what) for m in models)
    for kind in (*JOINTS, "distance"):
        assert f"`{kind}`" in page


def test_robot_of_the_documentation_moves(tmp_path, monkeypatch):
    """The commands of the page about robots and of the README, from the file that the page shows to a picture and a film."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[1] / "docs" / "robots.md").read_text(encoding="utf-8")
    Path("robot.urdf").write_text(page.split("```xml\n")[1].split("```")[0], encoding="utf-8")
    commands = [line.split() for line in page.splitlines() if line.startswith("    ")][:5]
    assert [command[0] for command in commands] == ["python3", ".", "pip", "catena", "catena"]
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    assert [line.split() for line in readme.splitlines() if line.startswith("    catena")] == commands[3:]
    for _, *arguments in commands[3:]:
        assert CliRunner().invoke(cli.app, arguments).exit_code == 0, arguments
    assert Path("robot.png").stat().st_size > 10_000
    assert "<title>two-link arm</title>" in Path("robot.html").read_text(encoding="utf-8")


# the precision of files


def four_bar_file(folder: Path, kind: str, aside: float) -> Path:
    """A four-bar whose loop is open by a length across its plane, which no motion closes, in a file of a kind."""
    file = folder / f"four_bar.{'urdf' if kind in ('urdf+', 'yaml') else kind}"
    if kind == "toml":
        m = ct.Model("four-bar")
        m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y"))
        m.add("coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
        m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), at=(1, 0, 0))
        m.close("pin", ct.Spherical(), "coupler", "rocker", at_a=(1, 0, 0), at_b=(0.6, aside, 0))
        m.save(file)
        return file
    if kind == "xml":
        hinge, shape = '<joint axis="0 1 0"/>', '<geom size="0.05" mass="1" contype="0" conaffinity="0"/>'
        file.write_text(
            f'<mujoco model="four-bar"><worldbody><body name="crank">{hinge}{shape}<body name="coupler" pos="0.3 0 0">{hinge}{shape}'
            f'<site name="a" pos="1 0 0"/></body></body><body name="rocker" pos="1 0 0">{hinge}{shape}'
            f'<site name="b" pos="0.6 {aside!r} 0"/></body></worldbody>'
            '<equality><connect name="pin" site1="a" site2="b"/></equality></mujoco>'
        )
        return file
    inertial = '<inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial>'
    links = "".join(f'<link name="{name}">{inertial}</link>' for name in ("crank", "coupler", "rocker"))
    hung = (("crank", "base", 0.0), ("coupler", "crank", 0.3), ("rocker", "base", 1.0))
    joints = "".join(
        f'<joint name="to_{child}" type="continuous"><parent link="{parent}"/><child link="{child}"/><origin xyz="{x} 0 0"/>'
        '<axis xyz="0 1 0"/></joint>'
        for child, parent, x in hung
    )
    if kind == "urdf+":
        more = (
            '<loop name="pin" type="spherical"><predecessor link="coupler"><origin xyz="1 0 0"/></predecessor>'
            f'<successor link="rocker"><origin xyz="0.6 {aside!r} 0"/></successor></loop>'
        )
    else:
        ends = (("end_a", "coupler", "1 0 0"), ("end_b", "rocker", f"0.6 {aside!r} 0"))
        more = "".join(
            f'<link name="{name}"/><joint name="to_{name}" type="fixed"><parent link="{on}"/><child link="{name}"/>'
            f'<origin xyz="{at}"/></joint>'
            for name, on, at in ends
        )
        (folder / "four_bar.yaml").write_text("closed_loop: [[end_a, end_b]]\ntype: [3d]\n")
    file.write_text(f'<robot name="four-bar"><link name="base"/>{links}{joints}{more}</robot>')
    return file


FORMATS = ("toml", "urdf+", "yaml", "xml")


@pytest.mark.parametrize("kind", FORMATS)
def test_loops_close_to_the_precision_of_their_file(kind, tmp_path):
    """What eight decimals leave open is taken up by the closing frame, and told."""
    file = four_bar_file(tmp_path, kind, 1e-8)
    m = ct.load(file)
    (loop,) = m.loops
    assert any(re.fullmatch(rf"loop '{loop.name}' closes in the file but for 1\.0e-08 of its size or rad, .*", note) for note in m.notes)
    for crank in (0.5, 2.0, -1.5):
        q = m.assemble(crank=crank)
        assert ct.loop_error(m)(q).max() < 1e-12
    assert m.mobility().freedom == 1
    exact = ct.load(four_bar_file(tmp_path, kind, 0.0))
    assert not any("closes in the file" in note for note in exact.notes)
    ours, theirs = (ct.forward_dynamics(own)(q, np.zeros(3), np.ones(3)) for own in (m, exact))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    m.save(tmp_path / "again.toml")
    again = ct.load(tmp_path / "again.toml")
    assert not any("closes in the file" in note for note in again.notes)
    np.testing.assert_allclose(again.assemble(crank=0.5), m.assemble(crank=0.5), atol=1e-12)


@pytest.mark.parametrize("kind", FORMATS)
def test_tolerance_says_how_much_of_a_loop_may_be_taken_up(kind, tmp_path):
    file = four_bar_file(tmp_path, kind, 1e-3)
    remedy = r"where this is the precision of the file, load it with tolerance=0\.002"
    with pytest.raises(ct.ModelError, match=rf"open by 0\.001 m or 0\.001 rad; .*; {remedy}"):
        ct.load(file).assemble()
    m = ct.load(file, tolerance=0.002)
    assert ct.loop_error(m)(m.assemble(crank=1.0)).max() < 1e-12
    with pytest.raises(ct.ModelError, match="does not close"):
        ct.load(four_bar_file(tmp_path, kind, 1e-8), tolerance=0.0).assemble()
    for wrong in (-1.0, np.nan, "much"):
        with pytest.raises(ct.ModelFileError, match=r"load: tolerance .*; give"):
            ct.load(file, tolerance=wrong)  # type: ignore[arg-type]


def test_a_connection_takes_up_what_is_left_of_its_loop(tmp_path):
    m = ct.Model("four-bar")
    for name, length in (("crank", 0.3), ("coupler", 1.0), ("rocker", 0.6)):
        m.add(name, ct.rod(length, mass=5 * length))
    m.connect("ground", "crank", ct.Revolute("y"))
    m.connect("crank", "coupler", ct.Revolute("y"), at_a=(0.3, 0, 0))
    m.connect("coupler", "rocker", ct.Spherical(), at_a=(1, 0, 0), at_b=(0.6, 2e-7, 0))
    m.connect("rocker", "ground", ct.Revolute("y"), at_b=(1, 0, 0))
    m.save(tmp_path / "four_bar.toml")
    with pytest.raises(ct.ModelError, match="does not close"):
        m.assemble()
    read = ct.load(tmp_path / "four_bar.toml")
    assert ct.loop_error(read)(read.assemble()).max() < 1e-12
    assert any(note.startswith("loop 'coupler-rocker' closes in the file but for 2.0e-07") for note in read.notes)


def askew(folder: Path, quarter: str) -> Path:
    """A planar four-bar of hinges in a URDF file whose frames are turned by a quarter turn, as it is written in the file."""
    inertial = '<inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial>'
    hung = (
        ("crank", "base", "0 0 0", f"{quarter} 0 0", "0 0 1"),
        ("coupler", "crank", "0.3 0 0", "0 0 0.5", "0 0 1"),
        ("rocker", "base", "1 0 0", f"0 {quarter} 0", "0 1 0"),
    )
    parts = "".join(
        f'<link name="{child}">{inertial}</link><joint name="to_{child}" type="continuous"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/></joint>'
        for child, parent, xyz, rpy, axis in hung
    )
    loop = (
        f'<loop name="pin" type="revolute"><predecessor link="coupler"><origin xyz="1 0 0" rpy="-{quarter} 0 0"/></predecessor>'
        '<successor link="rocker"><origin xyz="0.6 0 0"/></successor><axis xyz="0 1 0"/></loop>'
    )
    file = folder / f"askew{len(quarter)}.urdf"
    file.write_text(f'<robot name="askew"><link name="base"/>{parts}{loop}</robot>')
    return file


@pytest.mark.parametrize("quarter", ["1.5707963268", "1.57079633", "1.570796", "1.5708"])
def test_a_planar_loop_whose_axes_are_parallel_to_the_digits_of_its_file_moves(quarter, tmp_path):
    m, exact = ct.load(askew(tmp_path, quarter)), ct.load(askew(tmp_path, repr(np.pi / 2)))
    assert exact.notes == ()
    assert any(note.startswith("entries of rotations and axes below 1e-") for note in m.notes)
    assert m.mobility().freedom == 1
    fd, other = ct.forward_dynamics(m), ct.forward_dynamics(exact)
    for crank in (-2.0, 0.5, 1.5):
        q = exact.assemble(crank=crank)
        assert ct.loop_error(m)(m.assemble(q)).max() < 1e-12
        np.testing.assert_allclose(fd(m.assemble(q), np.zeros(3), np.ones(3)), other(q, np.zeros(3), np.ones(3)), rtol=1e-4)


def test_axes_of_driven_joints_are_read_to_the_digits_of_their_file(tmp_path):
    """A four-bar driven by its crank, whose frame is turned by a quarter turn to six digits."""
    m = ct.Model("driven")
    m.add("crank", ct.rod(0.3, mass=1.0), ct.Driven(ct.Revolute("z"), ct.Harmonic(rate=1.0)), at=ct.Pose(rpy=(1.570796, 0, 0)))
    m.add("coupler", ct.rod(1.0, mass=1.0), ct.Revolute("z"), parent="crank", at=(0.3, 0, 0))
    m.add("rocker", ct.rod(0.6, mass=1.0), ct.Revolute("y"), at=(1, 0, 0))
    back = ct.Pose((1, 0, 0), rpy=(-1.570796, 0, 0))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=back, at_b=(0.6, 0, 0))
    m.save(tmp_path / "driven.toml")
    read = ct.load(tmp_path / "driven.toml")
    assert any(note.startswith("entries of rotations and axes below 1e-06") for note in read.notes)
    assert read.mobility().freedom == 0
    assert ct.loop_error(read)(1.0, read.assemble(t=1.0)).max() < 1e-12


def test_digits_on_which_the_freedom_of_a_mechanism_depends_are_noted(tmp_path):
    """A spatial linkage that moves for its exact lengths and twists only."""
    EXAMPLES["bennett"]().save(tmp_path / "exact.toml")
    text = (tmp_path / "exact.toml").read_text()
    (tmp_path / "rounded.toml").write_text(re.sub(r"0\.\d{10,}", lambda number: f"{float(number[0]):.7f}", text))
    assert ct.load(tmp_path / "exact.toml").notes == ()
    m = ct.load(tmp_path / "rounded.toml")
    assert any("with more digits in the file the mechanism may have as many more degrees of freedom" in note for note in m.notes)


def test_home_survives_its_file(tmp_path):
    m = EXAMPLES["quarter-car"]()
    m.home = m.assemble(wishbone=0.1)
    m.save(tmp_path / "car.toml")
    again = ct.load(tmp_path / "car.toml")
    assert np.array_equal(again.home, m.home)
    with pytest.raises(ct.ModelFileError, match=r"model\.toml:3: model\.home: model 'a': home .* has shape \(2,\); give 1 finite numbers"):
        read('[model]\nname = "a"\nhome = [1, 2]\n[[body]]\nname = "b"\nmass = 1\njoint = { type = "prismatic", axis = "x" }\n', tmp_path)
