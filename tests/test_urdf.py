"""A URDF file and the model made of it say the same: against Pinocchio, against models built in Python, there and back."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio
import pytest
from tests import mechanisms
from tests.file_peers import Pinocchio
from tests.referee import relative
from tests.test_files import assert_same, assert_same_joint, assert_same_pose

import catena as ct
from catena.files import xml_reader
from catena.model.bodies import Geometry

pytestmark = [pytest.mark.evaluated, pytest.mark.quick]

INERTIAL = '<inertial><origin xyz="0.1 0.02 -0.03" rpy="0.3 -0.2 0.5"/><mass value="1.5"/>\
<inertia ixx="0.02" ixy="0.001" ixz="-0.002" iyy="0.03" iyz="0.0015" izz="0.025"/></inertial>'

TREE = f"""\
<?xml version="1.0"?>
<robot name="every joint">
  <material name="grey"><color rgba="0.5 0.5 0.5 1"/></material>
  <link name="base">{INERTIAL}</link>
  <link name="mast">{INERTIAL}
    <visual><origin xyz="0 0 0.2" rpy="0 1.5707963267948966 0"/><geometry><cylinder length="0.4" radius="0.05"/></geometry></visual>
    <collision><geometry><box size="1 1 1"/></geometry></collision>
  </link>
  <link name="arm">{INERTIAL}
    <visual name="case"><origin xyz="0.1 0 0" rpy="0.1 0.2 0.3"/><geometry><box size="0.2 0.1 0.05"/></geometry></visual>
    <visual><geometry><mesh filename="package://arm/arm.stl" scale="0.001 0.001 0.001"/></geometry></visual>
  </link>
  <link name="wheel">{INERTIAL}<collision><geometry><sphere radius="0.1"/></geometry></collision></link>
  <link name="slide">{INERTIAL}</link>
  <link name="finger">{INERTIAL}</link>
  <link name="tool"/>
  <link name="puck">{INERTIAL}</link>
  <link name="drone">{INERTIAL}</link>
  <joint name="weld" type="fixed">
    <origin xyz="0 0 0.1" rpy="0.4 0 0"/> <parent link="base"/> <child link="mast"/>
  </joint>
  <joint name="elbow" type="revolute">
    <origin xyz="0.3 0 0.1" rpy="0.1 0.2 -0.3"/> <parent link="mast"/> <child link="arm"/> <axis xyz="0 1 1"/>
    <limit lower="-1.5" upper="2" effort="10" velocity="3"/> <dynamics damping="0.3" friction="0.2"/>
    <safety_controller k_velocity="1" k_position="1" soft_lower_limit="-1" soft_upper_limit="1"/>
  </joint>
  <joint name="axle" type="continuous">
    <origin xyz="0.2 0.1 0"/> <parent link="arm"/> <child link="wheel"/> <limit effort="1" velocity="1"/>
  </joint>
  <joint name="rail" type="prismatic">
    <origin rpy="0 0 0.7"/> <parent link="arm"/> <child link="slide"/> <axis xyz="0 0 1"/>
    <limit lower="0" upper="0.4" effort="1" velocity="1"/>
  </joint>
  <joint name="squeeze" type="prismatic">
    <parent link="slide"/> <child link="finger"/> <axis xyz="0 -1 0"/> <limit lower="-1" upper="1" effort="1" velocity="1"/>
    <mimic joint="rail" multiplier="0.5" offset="0.02"/>
  </joint>
  <joint name="flange" type="fixed"> <origin xyz="0 0 0.1"/> <parent link="finger"/> <child link="tool"/> <axis xyz="0 0 0"/> </joint>
  <joint name="table" type="planar"> <origin xyz="1 0 0"/> <parent link="base"/> <child link="puck"/> <axis xyz="0 0 1"/> </joint>
  <joint name="air" type="floating"> <origin xyz="0 1 0" rpy="0 0 1"/> <parent link="base"/> <child link="drone"/> </joint>
  <gazebo reference="arm"><mu1>0.2</mu1><turnGravityOff>false</turnGravityOff></gazebo>
  <transmission name="t"><type>x</type></transmission>
</robot>
"""


def read(text: str, folder: Path, **options: Any) -> ct.Model:
    file = folder / "robot.urdf"
    file.write_text(text, encoding="utf-8")
    return ct.load(file, **options)


def states(m: ct.Model, count: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return m.random(rng, count), rng.normal(size=(count, m.nv)), rng.normal(size=(count, m.nv))


def assert_equals_pinocchio(file: Path, m: ct.Model, floating_base: bool = False) -> None:
    q, v, x = states(m)
    peer = Pinocchio(file, m, floating_base)
    for kernel, theirs in ((ct.inverse_dynamics(m), peer.inverse), (ct.forward_dynamics(m), peer.forward)):
        for ours, *state in zip(kernel(q, v, x), q, v, x, strict=True):
            assert relative(ours, theirs(*state)) < 1e-10


# --- trees


@pytest.mark.parametrize("floating_base", [False, True])
def test_every_joint_equals_pinocchio(tmp_path, floating_base):
    m = read(TREE, tmp_path, floating_base=floating_base, ignore="mimic")
    assert {link.joint.kind for link in m.links} == {"fixed", "revolute", "prismatic", "planar", "free"}
    assert_equals_pinocchio(tmp_path / "robot.urdf", m, floating_base)


def test_what_a_file_says_is_in_the_model(tmp_path):
    m = read(TREE, tmp_path)
    links = {link.name: link for link in m.links}
    assert list(links) == ["base", "mast", "arm", "wheel", "slide", "finger", "tool", "puck", "drone"]
    assert m.name == "every joint"
    assert links["base"].parent == "ground"
    elbow = links["arm"].joint
    assert (elbow.limits, elbow.damping, elbow.friction, elbow.effort) == (((-1.5, 2.0),), (0.3,), (0.2,), (10.0,))
    np.testing.assert_allclose(elbow.axis, np.array([0, 1, 1]) / np.sqrt(2.0), rtol=1e-15)
    assert elbow.velocity == (3.0,)
    assert_same_joint(links["wheel"].joint, ct.Revolute("x", effort=1.0, velocity=1.0))
    assert_same_joint(links["slide"].joint, ct.Prismatic("z", limits=(0, 0.4), effort=1.0, velocity=1.0))
    assert_same_pose(links["drone"].at, ct.Pose((0, 1, 0), rpy=(0, 0, 1)))
    (mimic,) = m.couplings
    assert (mimic.name, mimic.coefficients, mimic.offset) == ("squeeze", (("finger", 1.0), ("slide", -0.5)), 0.02)
    turn = ct.Pose(rpy=(0.3, -0.2, 0.5)).R
    own = np.array([[0.02, 0.001, -0.002], [0.001, 0.03, 0.0015], [-0.002, 0.0015, 0.025]])
    np.testing.assert_allclose(links["arm"].body.inertia, turn @ own @ turn.T, rtol=1e-14)
    assert links["arm"].body.com == (0.1, 0.02, -0.03)
    assert links["tool"].body.mass == 0.0


@pytest.mark.parametrize("written", ["0", "-1", "1e9", "1e12"])
def test_efforts_that_say_nothing_are_no_limits(tmp_path, written):
    m = read(TREE.replace('effort="10"', f'effort="{written}"'), tmp_path)
    assert {link.name: link.joint.effort for link in m.links if link.joint.effort} == dict.fromkeys(("wheel", "slide", "finger"), (1.0,))


@pytest.mark.parametrize("option", ["effort", "velocity"])
def test_efforts_and_velocities_are_saved_and_read_again(tmp_path, option):
    m = ct.Model("arm")
    m.add("upper", ct.rod(0.5, mass=1.0), ct.Revolute("y", **{option: 30.0}))
    m.add("lower", ct.rod(0.5, mass=1.0), ct.Revolute("y", **{option: 8.0}, limits=(-2.0, 2.0)), parent="upper", at=(0.5, 0, 0))
    m.add("hand", ct.rod(0.1, mass=0.2), ct.Prismatic("x"), parent="lower", at=(0.5, 0, 0))
    for name in ("arm.urdf", "arm.toml"):
        m.save(tmp_path / name)
        read_again = ct.load(tmp_path / name)
        assert [getattr(link.joint, option) for link in read_again.links][-3:] == [(30.0,), (8.0,), None]
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Spherical(**{option: (1.0, 2.0, 3.0)}), parent="hand")
    m.save(tmp_path / "arm.toml")
    assert getattr(ct.load(tmp_path / "arm.toml").links[-1].joint, option) == (1.0, 2.0, 3.0)
    for wrong in (0.0, -1.0, (1.0, 2.0)):
        with pytest.raises(ct.ModelError, match=option):
            ct.Revolute("y", **{option: wrong})
    with pytest.raises(ct.ModelError, match="does not move"):
        ct.Fixed(**{option: 1.0})


def test_warnings_that_are_alike_are_one_with_a_count(tmp_path):
    inertial = '<inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="{}" ixy="0" ixz="0" iyz="0"/></inertial>'
    links = "\n".join(f'<link name="l{i}">{inertial.format(1.0 + i)}</link>' for i in range(5))
    joints = "\n".join(
        f'<joint name="j{i}" type="continuous"><parent link="l{i - 1}"/><child link="l{i}"/></joint>' for i in range(1, 5)
    )
    with pytest.warns(ct.InertiaWarning) as caught:
        read(f'<robot name="r">\n{links}\n{joints}</robot>', tmp_path)
    assert len(caught) == 1
    assert re.search(r"robot\.urdf:2: .*belongs to no real body .*\(and 4 more like this\)", str(caught[0].message))
    assert caught[0].filename == __file__


def test_elements_that_are_not_known_can_be_left_out_at_once(tmp_path):
    text = TREE.replace("</robot>", "<rope/><gazebo><turnGravityOff>true</turnGravityOff></gazebo></robot>")
    with pytest.raises(ct.ModelFileError, match="rope"):
        read(text, tmp_path)
    notes = "\n".join(read(text, tmp_path, ignore="unsupported").notes)
    assert "rope (1)" in notes
    assert "gazebo" in notes


def test_shapes_are_kept_to_look_at(tmp_path):
    looks = {link.name: link.body.geometry for link in read(TREE, tmp_path).links}
    (mast,) = looks["mast"]
    assert (mast.kind, mast.size, mast.center) == ("cylinder", (0.4, 0.05), (0.0, 0.0, 0.2))
    np.testing.assert_allclose(mast.axis, (1, 0, 0), atol=1e-15)
    assert looks["arm"] == (
        Geometry("box", (0.2, 0.1, 0.05), (0.1, 0.0, 0.0), rpy=(0.1, 0.2, 0.3)),
        Geometry("mesh", (0.001, 0.001, 0.001), file="package://arm/arm.stl"),
    )
    assert looks["wheel"] == (Geometry("sphere", (0.1,)),)


def test_notes_tell_what_was_not_read(tmp_path):
    notes = "\n".join(read(TREE, tmp_path, ignore=("mimic", "limits", "friction")).notes)
    assert "ignored as asked: friction (1), limits (3), mimic ('squeeze')" in notes
    assert "nothing collides: 2 collision shapes" in notes
    assert "limits of effort and velocity (4 joints) are not enforced by themselves" in notes
    assert "gazebo (1), safety_controller (1), transmission (1)" in notes


def test_ignored_things_are_not_in_the_model(tmp_path):
    m = read(TREE, tmp_path, ignore=["mimic", "limits", "friction", "damping"])
    assert not m.couplings
    assert not m.changes_energy


def test_order_is_that_of_the_joints_with_parents_first(tmp_path):
    text = '<robot name="r">' + "".join(f'<link name="{name}"/>' for name in "abcd")
    joints = (("c", "d"), ("a", "b"), ("b", "c"))
    text += "".join(f'<joint name="{p}{c}" type="continuous"><parent link="{p}"/><child link="{c}"/></joint>' for p, c in joints)
    assert read(text + "</robot>", tmp_path).body_names == ("a", "b", "c", "d")


def test_root_named_ground_is_the_ground(tmp_path):
    text = TREE.replace('"base"', '"ground"')
    assert read(text, tmp_path).body_names[0] == "mast"
    with pytest.raises(ct.ModelFileError, match=r"robot\.urdf:4: link 'ground': this link is the ground, which does not move; rename it"):
        read(text, tmp_path, floating_base=True)


def test_limits_that_are_none(tmp_path):
    text = TREE.replace('lower="-1.5" upper="2"', 'lower="-1e10" upper="2"')
    assert {link.name: link for link in read(text, tmp_path).links}["arm"].joint.limits == ((None, 2.0),)
    text = TREE.replace('lower="-1.5" upper="2" ', "")
    assert {link.name: link for link in read(text, tmp_path).links}["arm"].joint.limits is None


def test_mimic_of_a_fixed_joint_is_noted(tmp_path):
    text = TREE.replace('<child link="tool"/>', '<child link="tool"/> <mimic joint="rail"/>')
    m = read(text, tmp_path)
    assert len(m.couplings) == 1
    assert "joint 'flange' is fixed, and mimics nothing" in m.notes


def test_inertia_that_a_program_left_of_nothing_is_none(tmp_path):
    inertia = 'ixx="0.02" ixy="0.001" ixz="-0.002" iyy="0.03" iyz="0.0015" izz="0.025"'
    assert inertia in TREE
    text = TREE.replace(inertia, 'ixx="-1e-20" ixy="1e-20" iyy="0" izz="0"', 1)
    assert not read(text, tmp_path).links[0].body.inertia.any()


def test_robot_in_an_xml_file(tmp_path):
    (tmp_path / "robot.xml").write_text(TREE)
    assert_same(ct.load(tmp_path / "robot.xml"), read(TREE, tmp_path))


# --- there and back


def random_tree(seed: int) -> ct.Model:
    rng = np.random.default_rng(seed)
    m = ct.Model(f"random {seed} <&>\"'")
    names = ["ground"]
    kinds = ("revolute", "prismatic", "planar", "free", "fixed")
    for i in range(8):
        options: dict[str, Any] = {}
        kind = kinds[rng.integers(len(kinds))]
        if kind != "fixed":
            options = {"damping": float(rng.choice([0.0, 0.3])), "friction": float(rng.choice([0.0, 0.1]))}
        if kind in ("revolute", "prismatic") and rng.random() < 0.5:
            options["limits"] = [(-0.5, 0.7), (None, 1.0), (-2.0, None)][rng.integers(3)]
        if kind in ("planar", "fixed"):
            joint: Any = ct.Planar("z", **options) if kind == "planar" else ct.Fixed()
        else:
            joint = mechanisms.JOINTS[kind](rng, **options)
        m.add(f"body {i}", mechanisms.body(rng), joint, names[rng.integers(len(names))], mechanisms.place(rng))
        names.append(f"body {i}")
    m.add("wheel", ct.cylinder(0.1, 0.3, mass=1.0), ct.Revolute("z"), parent=names[-1])
    m.add("gear", ct.box(0.1, 0.2, 0.3, mass=1.0), ct.Revolute("x"), parent=names[-1])
    m.couple("mesh", {"gear": 2.0, "wheel": 1.0}, offset=0.5)
    return m


@pytest.mark.parametrize("seed", range(6))
def test_tree_survives_its_urdf_file(seed, tmp_path):
    m = random_tree(seed)
    m.save(tmp_path / "robot.urdf")
    back = ct.load(tmp_path / "robot.urdf")
    (mesh,) = back.couplings
    assert (mesh.coefficients, mesh.offset) == ((("gear", 1.0), ("wheel", 0.5)), 0.25)
    assert [(link.name, link.parent) for link in m.links] == [(link.name, link.parent) for link in back.links]
    for one, two in zip(m.links, back.links, strict=True):
        np.testing.assert_allclose(one.at.matrix(), two.at.matrix(), rtol=0, atol=2e-15)
        assert (one.body.mass, one.body.com) == (two.body.mass, two.body.com)
        np.testing.assert_array_equal(one.body.inertia, two.body.inertia)
        assert_same_joint(one.joint, two.joint)


@pytest.mark.parametrize("seed", range(2))
def test_saved_tree_equals_pinocchio(seed, tmp_path):
    random_tree(seed).save(tmp_path / "robot.urdf")
    assert_equals_pinocchio(tmp_path / "robot.urdf", ct.load(tmp_path / "robot.urdf", ignore="mimic"))


def test_file_survives_writing(tmp_path):
    m = read(TREE, tmp_path)
    m.save(tmp_path / "again.urdf")
    back = ct.load(tmp_path / "again.urdf")
    assert [(c.coefficients, c.offset) for c in back.couplings] == [(c.coefficients, c.offset) for c in m.couplings]
    assert [link.parent for link in back.links] == [link.parent for link in m.links]
    assert back.joint_names == m.joint_names
    assert m.joint_names["arm"] == "elbow"
    for one, two in zip(m.links, back.links, strict=True):
        for g, h in zip(one.body.geometry, two.body.geometry, strict=True):
            assert (g.kind, g.size, g.center, g.file) == (h.kind, h.size, h.center, h.file)
            np.testing.assert_allclose((*g.axis, *g.rpy), (*h.axis, *h.rpy), rtol=0, atol=1e-15)


def test_body_away_from_its_joint_moves_alike(tmp_path):
    m = ct.Model("door")
    edge = ct.Pose((0.4, 0, 0), rpy=(0.2, 0, 0))
    m.add("leaf", ct.box(0.8, 0.04, 2.0, mass=20.0), ct.Revolute("z", damping=1.0), at=(1, 0, 0), at_body=edge)
    m.add("knob", ct.point_mass(0.2, at=(0.1, 0, 0)), ct.Revolute("y"), parent="leaf", at=(-0.3, 0, 0))
    m.save(tmp_path / "door.urdf")
    back = ct.load(tmp_path / "door.urdf")
    q, v, x = states(m)
    np.testing.assert_allclose(ct.inverse_dynamics(back)(q, v, x), ct.inverse_dynamics(m)(q, v, x), rtol=1e-12, atol=1e-12)
    places = [[n.body_names.index(name) for name in ("leaf", "knob")] for n in (m, back)]
    np.testing.assert_allclose(ct.poses(back)(q)[:, places[1]], ct.poses(m)(q)[:, places[0]], rtol=0, atol=1e-14)


def test_file_names_all_that_urdf_cannot_hold(tmp_path):
    m = ct.Model("rich", gravity=(0, 0, -1.62), friction_speed=0.1)
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Spherical())
    m.add("cart", ct.box(1, 1, 1, mass=1.0), ct.Prismatic("x", stiffness=3.0, armature=0.1, friction=0.2))
    m.add("puck", ct.box(1, 1, 1, mass=1.0), ct.Planar("z", damping=(1.0, 1.0, 0.1), limits=((0, 1), None, None)))
    m.add("a", ct.rod(1, mass=1.0), ct.Revolute("y"))
    m.add("b", ct.rod(1, mass=1.0), ct.Revolute("y"), parent="a", at=(1, 0, 0))
    m.add("c", ct.rod(1, mass=1.0), ct.Revolute("y"), at=(1, 0, 0))
    m.close("pin", ct.Revolute("y"), "b", "c", at_a=(1, 0, 0), at_b=(1, 0, 0))
    m.couple("three", {"a": 1.0, "b": 1.0, "cart": 1.0})
    m.add_spring("coil", "ground", "cart", stiffness=1.0)
    m.add_force("wind", lambda t, q, v: 0.0 * v)
    (tmp_path / "rich.urdf").write_text("as it was")
    with pytest.raises(ct.ModelFileError, match=r"rich\.urdf: URDF cannot hold .*; save the model as \.toml") as caught:
        m.save(tmp_path / "rich.urdf")
    for thing in (
        "gravity (0.0, 0.0, -1.62)", "friction_speed 0.1", "spring 'coil'", "force 'wind'", "loop 'pin'", "coupling 'three'",
        "the spherical joint of body 'ball'", "stiffness of body 'cart'", "armature of body 'cart'", "limits of body 'puck'",
        "damping (1.0, 1.0, 0.1) of body 'puck'",
    ):  # fmt: skip
        assert thing in str(caught.value)
    assert (tmp_path / "rich.urdf").read_text() == "as it was"


def test_name_that_xml_cannot_hold(tmp_path):
    m = ct.Model("bell")
    m.add("a\x07", ct.sphere(0.1, mass=1.0), ct.Free())
    with pytest.raises(ct.ModelFileError, match=r"m\.urdf: name 'a\\x07_joint' has the character '\\x07', which XML cannot hold"):
        m.save(tmp_path / "m.urdf")


def test_model_of_a_urdf_file_survives_its_toml_file(tmp_path):
    m = read(TREE, tmp_path)
    m.save(tmp_path / "robot.toml")
    back = ct.load(tmp_path / "robot.toml")
    assert_same(m, back)
    assert [link.body.geometry for link in back.links][2] == [link.body.geometry for link in m.links][2]


# --- loops


def link(name: str) -> str:
    inertial = '<origin xyz="0.5 0 0"/><mass value="2"/><inertia ixx="0.01" ixy="0" ixz="0" iyy="0.2" iyz="0" izz="0.2"/>'
    return f'<link name="{name}"><inertial>{inertial}</inertial></link>'


def hinge(parent: str, child: str, xyz: str, more: str = "", own: str = "") -> str:
    return (
        f'<joint name="{parent}-{child}" type="continuous" {own}><origin xyz="{xyz}"/><parent link="{parent}"/><child link="{child}"/>'
        f'<axis xyz="0 1 0"/>{more}</joint>'
    )


def bars(extra: str = "") -> str:
    """A crank with a coupler, and a rocker beside them."""
    links = "\n".join(link(name) for name in ("crank", "coupler", "rocker"))
    joints = [
        hinge("ground", "crank", "0 0 0", own='independent="true"'),
        hinge("crank", "coupler", "0.4 0 0", own='independent="false"'),
        hinge("ground", "rocker", "1.0 0 0.1"),
    ]
    return "\n".join(['<robot name="four-bar">', '<link name="ground"/>', links, *joints, extra, "</robot>", ""])


def bars_in_python() -> ct.Model:
    m = ct.Model("four-bar")
    body = ct.Body(2.0, (0.5, 0, 0), np.diag([0.01, 0.2, 0.2]))
    m.add("crank", body, ct.Revolute("y"))
    m.add("coupler", body, ct.Revolute("y"), parent="crank", at=(0.4, 0, 0))
    m.add("rocker", body, ct.Revolute("y"), at=(1.0, 0, 0.1))
    return m


LOOP = """<loop name="pin" type="{}">
  <predecessor link="coupler"><origin xyz="1.0 0 0"/></predecessor>
  <successor link="rocker"><origin xyz="0.8 0 0" rpy="0 0.3 0"/></successor>
  <axis xyz="0 1 0"/>
</loop>"""


@pytest.mark.parametrize(
    ("kind", "joint"),
    [
        ("revolute", ct.Revolute("y")), ("continuous", ct.Revolute("y")), ("spherical", ct.Spherical()), ("planar", ct.Planar("y")),
        ("cylindrical", ct.Cylindrical("y")), ("prismatic", ct.Prismatic("y")), ("fixed", ct.Fixed()),
    ],
)  # fmt: skip
def test_loop_equals_close(kind, joint, tmp_path):
    m = bars_in_python()
    m.close("pin", joint, "coupler", "rocker", (1, 0, 0), ct.Pose((0.8, 0, 0), rpy=(0, 0.3, 0)))
    assert_same(read(bars(LOOP.format(kind)), tmp_path), m)


def test_four_bar_of_a_file_turns(tmp_path):
    m = read(bars(LOOP.format("revolute")), tmp_path)
    assert "the file calls these coordinates independent, as ct.reduced takes them: crank" in m.notes
    assert ct.reduced(m, ["crank"]).names == ("crank",)
    run = ct.simulate(m, m.assemble(crank=-1.0), until=1.0)
    assert ct.loop_error(m)(run.q).max() < 1e-10


def test_coupling_is_of_the_paths_from_the_common_ancestor(tmp_path):
    """Ratio times the sum of the coordinates to the predecessor is the sum of those to the successor."""
    text = '<coupling name="belt"><predecessor link="coupler"/><successor link="rocker"/><ratio value="3"/></coupling>'
    m = bars_in_python()
    m.couple("belt", {"coupler": 3.0, "crank": 3.0, "rocker": -1.0})
    assert_same(read(bars(text), tmp_path), m)
    text = '<coupling name="belt"><predecessor link="coupler"/><successor link="crank"/><ratio value="3"/></coupling>'
    m = bars_in_python()
    m.couple("belt", {"coupler": 3.0})
    assert_same(read(bars(text), tmp_path), m)


def frames(extra: str = "") -> str:
    """The same with a frame at the end of the coupler and of the rocker."""
    ends = "".join(
        f'<link name="{name}"/>\n<joint name="{name}_frame" type="fixed"><origin xyz="{x} 0 0"/>'
        f'<parent link="{on}"/><child link="{name}"/></joint>\n'
        for name, on, x in (("end_A", "coupler", 1.0), ("end_B", "rocker", 0.8))
    )
    return bars(ends + extra)


@pytest.mark.parametrize(("kind", "joint"), [("3d", ct.Spherical()), ("6d", ct.Fixed()), ("3D", ct.Spherical())])
def test_side_file_closes_loops(kind, joint, tmp_path):
    (tmp_path / "robot.yaml").write_text(f"closed_loop: [['end_A', 'end_B_frame']]\ntype: ['{kind}']\nname_mot: ['ground-crank']\n")
    m = read(frames(), tmp_path)
    (loop,) = m.loops
    assert (loop.a, loop.b) == ("end_A", "end_B")
    assert_same_joint(loop.joint, joint)
    assert "motors, by their coordinates: crank" in m.notes
    if kind == "3d":
        run = ct.simulate(m, m.assemble(crank=-1.0), until=0.5)
        assert ct.loop_error(m)(run.q).max() < 1e-10
        other = bars_in_python()
        other.close("pin", joint, "coupler", "rocker", (1, 0, 0), (0.8, 0, 0))
        q, v = run.q[-1], run.v[-1]
        ours, theirs = (ct.forward_dynamics(n)(q, v, np.ones(3)) for n in (m, other))
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ["3d", "6d"])
def test_side_file_equals_pinocchio_with_the_same_frames(kind, tmp_path):
    (tmp_path / "robot.yaml").write_text(f"closed_loop: [[end_A, end_B]]\ntype: [{kind}]\n")
    m = read(frames().replace('name="ground-rocker" type="continuous"', 'name="ground-rocker" type="floating"'), tmp_path)
    peer = Pinocchio(tmp_path / "robot.urdf", m)
    ends = [peer.model.frames[peer.model.getFrameId(name)] for name in ("end_A", "end_B")]
    places = [value for end in ends for value in (end.parentJoint, end.placement)]
    contact = pinocchio.ContactType.CONTACT_3D if kind == "3d" else pinocchio.ContactType.CONTACT_6D
    constraints, results = pinocchio.StdVec_RigidConstraintModel(), pinocchio.StdVec_RigidConstraintData()
    constraints.append(pinocchio.RigidConstraintModel(contact, peer.model, *places, pinocchio.ReferenceFrame.LOCAL))
    results.append(constraints[0].createData())
    pinocchio.initConstraintDynamics(peer.model, peer.data, constraints, results)
    rng = np.random.default_rng(0)
    q = m.assemble(m.integrate(m.neutral(), 0.3 * rng.normal(size=m.nv)))
    v, tau = m.project_velocity(q, rng.normal(size=m.nv)), rng.normal(size=m.nv)
    position, T, drift = peer.state(q, v)
    settings = pinocchio.ProximalSettings(1e-14, 1e-14, 0.0, 1)
    theirs = pinocchio.constraintDynamics(peer.model, peer.data, position, T @ v, T @ tau, constraints, results, settings)
    assert relative(ct.forward_dynamics(m)(q, v, tau), T.T @ (theirs - drift)) < 1e-10


def test_side_file_changes_joints(tmp_path):
    text = "closed_loop: []\nname_mot:\njoint_name: [ground-crank, crank-coupler, ground-rocker]\njoint_type: [SPHERICAL, CARDAN, FIXED]\n"
    (tmp_path / "robot.yaml").write_text(text)
    joints = {link.name: link.joint for link in read(frames(), tmp_path).links}
    assert_same_joint(joints["crank"], ct.Spherical())
    assert_same_joint(joints["coupler"], ct.Universal("x", "y"))
    assert_same_joint(joints["rocker"], ct.Fixed())
    assert read(frames(), tmp_path, ignore="closed_loop").nv == 3


@pytest.mark.parametrize("axes", ["XY", "XZ", "YX", "YZ", "ZX", "ZY"])
def test_universal_joints_of_side_files_turn_about_two_axes(axes, tmp_path):
    (tmp_path / "robot.yaml").write_text(f"closed_loop: []\njoint_name: [crank-coupler]\njoint_type: [UJOINT_{axes}]\n")
    joints = {link.name: link.joint for link in read(frames(), tmp_path).links}
    assert_same_joint(joints["coupler"], ct.Universal(*axes.lower()))


@pytest.mark.parametrize("name", ["loops.yaml", "robot.yml", "other.YAML"])
def test_a_side_file_of_another_name_is_read_where_it_is_the_only_one_that_fits(name, tmp_path):
    (tmp_path / name).write_text("closed_loop: [[end_A, end_B]]\ntype: [3d]\n")
    (tmp_path / "gains.yaml").write_text("controllers: {gain: 3}\n")
    m = read(frames(), tmp_path)
    assert [loop.name for loop in m.loops] == ["end_A-end_B"]
    assert f"1 loop is closed by {tmp_path / name}" in m.notes
    m = read(frames(), tmp_path, ignore="closed_loop")
    assert not m.loops
    assert "ignored as asked: closed_loop (1)" in m.notes


def test_side_files_of_other_names_that_do_not_fit_are_refused_or_noted(tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text("closed_loop: [[end_A, end_C]]\n")
    remedy = r"correct the name, .* or load with ignore=\('closed_loop',\)"
    with pytest.raises(ct.ModelFileError, match=rf"other\.yaml:1: the file names loops, .* there is no link 'end_C'; {remedy}"):
        read(frames(), tmp_path)
    other.write_text("closed_loop: [[left, right]]\n")
    m = read(frames(), tmp_path)
    assert not m.loops
    assert f"{other} names loops between frames that are not in the file, and was not read" in m.notes
    for name in ("other.yaml", "third.yaml"):
        (tmp_path / name).write_text("closed_loop: [[end_A, end_B]]\n")
    with pytest.raises(ct.ModelFileError, match=r"other\.yaml and .*third\.yaml name loops of this file; call one of them robot\.yaml"):
        read(frames(), tmp_path)
    (tmp_path / "third.urdf").write_text("<robot/>")  # whose loops these are
    m = read(frames(), tmp_path)
    assert len(m.loops) == 1
    assert f"{tmp_path / 'third.yaml'} names loops of another URDF file, by its name, and was not read" in m.notes


def test_other_yaml_files_are_not_read(tmp_path):
    (tmp_path / "robot.yaml").write_text("controllers: {gain: 3")
    assert not read(frames(), tmp_path).loops


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("closed_loop: [[a, end_B]]", ":1: there is no link 'a'; choose from"),
        ("closed_loop:\n  - [end_A]", ":2: a loop is closed by two frames, and here are 1; give a pair"),
        ("closed_loop: [[end_A, end_B]]\ntype: [4d]", ":2: type '4d' of a loop is unknown; give '3d' or '6d'"),
        ("closed_loop: [[end_A, end_B]]\ntype: [3d, 3d]", ":2: there are 1 loops and 2 types"),
        ("closed_loop: 3", ":1: closed_loop is not a list"),
        ("closed_loop: [end_A, end_B", ":1: not YAML: "),
        ("closed_loop: []\nclosed_loop: []", ":2: key 'closed_loop' is there already"),
        ("closed_loop: []\nname_mot: [motor]", ":2: there is no joint 'motor'"),
        ("closed_loop: []\njoint_name: [a]", ":2: there are 1 entries of joint_name and 0 of joint_type"),
        ("closed_loop: []\njoint_name: [ground-crank]\njoint_type: [BALL]", ":3: joint type 'BALL' is unknown; choose from 'SPHERICAL'"),
        ("closed_loop: [[crank, crank]]", ":1: loop 'crank-crank': both ends are on 'crank'"),
        ("- closed_loop", ":1: this is not a table"),
        ("closed_loop: " + "[" * 5000, ":1: lists are nested too deeply"),
    ],
)
def test_errors_of_side_files_name_file_and_line(text, message, tmp_path):
    (tmp_path / "robot.yaml").write_text(text)
    with pytest.raises(ct.ModelFileError, match=re.escape(f"robot.yaml{message}")):
        read(frames(), tmp_path)


def test_side_file_without_pyyaml(tmp_path, monkeypatch):
    (tmp_path / "robot.yaml").write_text("closed_loop: [[end_A, end_B]]")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ct.MissingPackageError, match=r'needs PyYAML, which is not installed; pip install "catena\[files\]"'):
        read(frames(), tmp_path)


# --- errors

WRONG = [
    ('<child link="tool"/>', '<child link="tol"/>', ": <child> of joint 'flange': there is no link 'tol'; did you mean 'tool'?"),
    ('name="rail" type="prismatic"', 'name="rail" type="slider"', ": joint 'rail': type 'slider' is unknown; choose from 'revolute'"),
    ('name="rail" ', "", ": <joint>: attribute 'name' is missing; add it"),
    ('name="rail" ', 'name="axle" ', ": joint 'axle': line {axle} has this name already"),
    ('<link name="puck">', '<link name="drone">', "+1: link 'drone': line {puck} has this name already"),
    ('<mass value="1.5"/>', '<mass value="heavy"/>', ": <mass> of link 'base': value 'heavy' is not a finite number; give a"),
    ('<mass value="1.5"/>', '<mass value="-1.5"/>', ": body mass -1.5 is below 0; give 0 or more"),
    ('<mass value="1.5"/>', '<mass value="1e999"/>', ": <mass> of link 'base': value '1e999' goes beyond 1e+50"),
    ('<mass value="1.5"/>', "", ": <inertial> of link 'base': <mass> is missing; add it"),
    ('<mass value="1.5"/>', '<mass value="1.5"/><mass value="2"/>', ": <mass> of link 'base': this is the second <mass>"),
    ('<mass value="1.5"/>', '<mass valeu="1.5"/>', ": <mass> of link 'base': unknown attribute 'valeu'; did you mean 'value'?"),
    ('ixx="0.02"', 'ixx="-0.02"', ": body inertia [["),
    ('iyy="0.03" ', "", ": <inertia> of link 'base': attribute 'iyy' is missing; add it"),
    ('<axis xyz="0 1 1"/>', '<axis xyz="0 0 0"/>', ": revolute axis (0.0, 0.0, 0.0) has no direction; give a non-zero 3-vector"),
    ('<axis xyz="0 1 1"/>', '<axis xyz="0 1"/>', ": <axis> of joint 'elbow': xyz '0 1' is not 3 finite numbers"),
    ('<axis xyz="0 1 1"/>', '<axis xyz="0 1 1 1"/>', ": <axis> of joint 'elbow': xyz '0 1 1 1' is not 3 finite numbers"),
    ('<axis xyz="0 1 1"/>', '<axis xyz="0 1_0 1"/>', ": <axis> of joint 'elbow': xyz '0 1_0 1' is not 3 finite numbers"),
    ('lower="-1.5"', 'lower="3"', ": <limit> of joint 'elbow': lower 3 is not below upper 2; give the smaller number first"),
    ('damping="0.3"', 'damping="-0.3"', ": damping -0.3 is below 0; give 0 or more"),
    ('joint="rail" ', 'joint="reel" ', ": <mimic> of joint 'squeeze': there is no joint 'reel'; choose from 'weld'"),
    ('joint="rail" ', 'joint="squeeze" ', ": <mimic> of joint 'squeeze': the joint mimics itself"),
    ('joint="rail" ', 'joint="air" ', ": <mimic> of joint 'squeeze': joint 'air' is floating; only revolute"),
    ('<parent link="base"/> <child link="mast"/>', '<parent link="tool"/> <child link="mast"/>', "-1: joint 'weld': link 'mast' hangs"),
    ('<child link="wheel"/>', '<child link="slide"/>', "+3: <child> of joint 'rail': joint 'axle' at line {axle} carries link"),
    ('<link name="tool"/>', '<link name="tool"/><link name="loose"/>', ": link 'loose': no joint carries this link, nor 'base'"),
    ('<link name="tool"/>', '<link name="tool"><spring k="3"/></link>', ": <spring> of link 'tool': <spring> is not known in a <link>"),
    ('<link name="tool"/>', '<link name="tool"/><tendon/>', ": <tendon>: <tendon> is not known in a <robot>, and may change the motion"),
    ('<link name="tool"/>', '<link name="tool"/><xacro:arm/>', ": <xacro:arm>: this is a macro of xacro; expand the file"),
    ("<turnGravityOff>false", "<turnGravityOff>true", ": <turnGravityOff>: in Gazebo 'true' changes the motion"),
    ('<box size="0.2 0.1 0.05"/>', '<box size="0.2 0.1 0"/>', ": <box> of visual 'case': size '0.2 0.1 0' is not above 0"),
    ('<sphere radius="0.1"/>', '<sphere radius="-0.1"/>', ": <sphere> of link 'wheel': radius -0.1 is not above 0"),
    ('<sphere radius="0.1"/>', "", ": <geometry> of link 'wheel': there are 0 shapes"),
    ("</robot>", "", "+1: not XML at column 1: no element found"),
    ('<robot name="every joint">', '<robot name="every joint"><link>', "+41: not XML at column 3: mismatched tag"),
    ('<robot name="every joint">', '<!DOCTYPE r [<!ENTITY a "b">]><robot name="every joint">', ": a document type (<!DOCTYPE>)"),
    ('<?xml version="1.0"?>', '<?xml version="1.0" encoding="klingon"?>', ": "),
]


def line(text: str) -> int:
    """The line of the sample in which a text first stands."""
    return TREE[: TREE.index(text)].count("\n") + 1


@pytest.mark.parametrize(("old", "new", "message"), WRONG, ids=[message for _, _, message in WRONG])
def test_errors_name_file_line_and_remedy(old, new, message, tmp_path):
    """The line is that of the change, or as many further as the message begins with."""
    further, _, rest = message.partition(":")
    said = rest.format(axle=line('name="axle"'), puck=line('name="puck"'))
    with pytest.raises(ct.ModelFileError, match=re.escape(f"robot.urdf:{line(old) + int(further or 0)}:{said}")):
        read(TREE.replace(old, new, 1), tmp_path)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (LOOP.format("screw"), ":9: loop 'pin': type 'screw' is unknown; choose from"),
        (LOOP.format("revolute").replace('link="rocker"', 'link="rokcer"'), ":11: <successor> of loop 'pin': there is no link 'rokcer'"),
        (LOOP.format("revolute").replace('link="rocker"', 'link="coupler"'), ":9: loop 'pin': both ends are on 'coupler'"),
        (LOOP.format("revolute").replace('xyz="0 1 0"', 'xyz="0 0 0"'), ":9: revolute axis (0.0, 0.0, 0.0) has no direction"),
        ('<coupling name="c"><predecessor link="crank"/><successor link="rocker"/></coupling>', ":9: coupling 'c': <ratio> is missing"),
        ('<coupling name="c"><successor link="rocker"/></coupling>', ":9: coupling 'c': <predecessor> is missing"),
    ],
)
def test_errors_of_loops_name_file_and_line(extra, message, tmp_path):
    with pytest.raises(ct.ModelFileError, match=re.escape(f"robot.urdf{message}")):
        read(bars(extra), tmp_path)


def test_deep_and_large_files_are_refused(tmp_path, monkeypatch):
    with pytest.raises(ct.ModelFileError, match=r"robot\.urdf:2: elements are nested more than 100 deep"):
        read("<robot>\n" + "<a>" * 100_000, tmp_path)
    monkeypatch.setattr(xml_reader, "ELEMENTS", 100)
    with pytest.raises(ct.ModelFileError, match=r"robot\.urdf:1: there are more than 100 elements; give a smaller file"):
        read("<robot>" + "<link/>" * 1000, tmp_path)


def test_other_xml_is_refused(tmp_path):
    with pytest.raises(ct.ModelFileError, match=r"robot\.urdf:2: <sdf>: the file begins with <sdf>; an MJCF file begins with <mujoco>"):
        read("\n<sdf/>", tmp_path)


def test_options_of_load_are_checked(tmp_path):
    m = ct.Model("m")
    m.save(tmp_path / "m.toml")
    with pytest.raises(ct.ModelFileError, match="floating_base and ignore are for URDF and MJCF"):
        ct.load(tmp_path / "m.toml", floating_base=True)
    with pytest.raises(ct.ModelFileError, match="ignore: 3 is not a name"):
        read(TREE, tmp_path, ignore=(3,))


PLAIN = "closed_loop: [[end_A, end_B]]\ntype: [3d]\n"
WRITTEN = {
    "quoted": PLAIN.replace("closed_loop", '"closed_loop"').encode(),
    "flow": b"{closed_loop: [[end_A, end_B]], type: [3d]}",
    "indented": b"  closed_loop: [[end_A, end_B]]\n  type: [3d]\n",
    "byte order mark": b"\xef\xbb\xbf" + PLAIN.encode(),
    "UTF-16": PLAIN.encode("utf-16"),
}


@pytest.mark.parametrize("how", WRITTEN)
@pytest.mark.parametrize("name", ["robot.yaml", "loops.yaml"])
def test_side_files_are_read_however_they_are_written(how, name, tmp_path):
    (tmp_path / name).write_bytes(WRITTEN[how])
    assert len(read(frames(), tmp_path).loops) == 1


def test_a_comment_in_one_side_file_does_not_hide_another(tmp_path):
    (tmp_path / "robot.yaml").write_text("# closed_loop is in loops.yaml\nname_mot: []\n")
    (tmp_path / "loops.yaml").write_text(PLAIN)
    (tmp_path / "notes.yaml").write_text("not: [YAML, closed_loop")
    m = read(frames(), tmp_path)
    assert len(m.loops) == 1
    assert any("notes.yaml speaks of closed_loop and was not read" in note for note in m.notes)


def test_what_is_not_in_the_file_cannot_be_ignored(tmp_path):
    for what in ("loop:missing", "mimic:"):
        with pytest.raises(ct.ModelFileError, match=rf"ignore names '{what}', which is not in the file; "):
            read(frames(), tmp_path, ignore=what)
    assert "ignore names 'lop', of which there is nothing in the file" in read(frames(), tmp_path, ignore="lop").notes
