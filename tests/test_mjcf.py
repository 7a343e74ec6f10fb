"""An MJCF file and the model made of it say the same as MuJoCo: trees to 1e-10, loops in the limit of hard constraints."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from tests.file_peers import MuJoCo
from tests.referee import relative
from tests.test_files import assert_same_joint, assert_same_pose

import catena as ct

pytestmark = [pytest.mark.evaluated, pytest.mark.quick]

TREE = """\
<mujoco model="every joint">
  <compiler angle="radian"/>
  <option gravity="0.5 -1 -9.6"><flag contact="disable"/></option>
  <default><geom density="500"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="drone" pos="0 0 1" quat="1 0.2 0 0.1">
      <freejoint name="air"/>
      <geom name="hull" type="box" size="0.2 0.1 0.05" pos="0.05 0 0" euler="0.1 0.2 0.3"/>
      <body name="arm" pos="0.2 0 0.1" euler="0.3 -0.2 0.1">
        <joint name="turn" axis="0 1 1" pos="-0.1 0 0.02" ref="0.4" range="-1 2" limited="true" damping="0.3" armature="0.1"/>
        <geom type="cylinder" size="0.03 0.2" pos="0.1 0 0"/>
        <body name="eye" pos="0 0.1 0"><geom type="sphere" size="0.02"/></body>
        <body name="ball" pos="0.3 0 0">
          <joint name="socket" type="ball" pos="0 0 0.05" damping="0.2" armature="0.02" stiffness="0.7"/>
          <inertial pos="0 0.1 0" mass="0.7" fullinertia="0.02 0.03 0.025 0.001 -0.002 0.0015"/>
        </body>
      </body>
    </body>
    <body name="cart" pos="1 0 0" euler="0 0 0.5">
      <joint name="x" type="slide" axis="1 0 0" damping="1" stiffness="3" springref="0.2" ref="0.1"/>
      <joint name="y" type="slide" axis="0 1 0" pos="0.1 0.2 0.3"/>
      <joint name="spin" axis="0 0.3 1" pos="0.2 0.1 0" frictionloss="0.4"/>
      <joint name="tilt" axis="1 0 0" pos="0 0 0.3" armature="0.2"/>
      <geom type="box" size="0.1 0.2 0.3" pos="0 0.05 0"/>
      <body pos="0 0 0.4"><joint axis="0 1 0" ref="-0.5"/><geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/></body>
    </body>
  </worldbody>
  <actuator><motor name="m" joint="spin"/></actuator>
  <keyframe><key name="home" qpos="0.1 0.2 1.3 1 0 0 0.5  0.6  1 0.1 0 0  0.3 0.2 0.1 0.5 0.7"/></keyframe>
</mujoco>
"""


def read(text: str, folder: Path, **options: Any) -> ct.Model:
    file = folder / "robot.xml"
    file.write_text(text, encoding="utf-8")
    return ct.load(file, **options)


def turned(x: float, y: float, z: float) -> np.ndarray:
    """MuJoCo's Euler angles: about the axes as they turn."""
    return ct.Pose(rpy=(x, 0, 0)).R @ ct.Pose(rpy=(0, y, 0)).R @ ct.Pose(rpy=(0, 0, z)).R


def states(m: ct.Model, count: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return m.random(rng, count), rng.normal(size=(count, m.nv)), rng.normal(size=(count, m.nv))


def assert_equals_mujoco(file: Path, m: ct.Model) -> None:
    """Inverse and forward dynamics, and where the bodies are, without MuJoCo's constraints."""
    q, v, x = states(m)
    peer = MuJoCo(file, m)
    for kernel, theirs in ((ct.inverse_dynamics(m), peer.inverse), (ct.forward_dynamics(m), peer.forward)):
        for ours, *state in zip(kernel(q, v, x), q, v, x, strict=True):
            assert relative(ours, theirs(*state)) < 1e-10
    for name, pose in peer.poses(q[0]).items():
        if name:
            np.testing.assert_allclose(ct.poses(m)(q[0])[m.body_names.index(name)], pose, rtol=0, atol=1e-12)


# --- trees


def test_every_joint_equals_mujoco(tmp_path):
    m = read(TREE, tmp_path, ignore=("frictionloss", "limits"))
    assert {link.joint.kind for link in m.links} == {"free", "revolute", "prismatic", "spherical", "fixed"}
    assert_equals_mujoco(tmp_path / "robot.xml", m)


def test_what_a_file_says_is_in_the_model(tmp_path):
    m = read(TREE, tmp_path)
    links = {link.name: link for link in m.links}
    assert list(links) == ["drone", "arm", "eye", "ball", "x", "y", "spin", "cart", "body6"]
    assert (m.name, m.gravity) == ("every joint", (0.5, -1.0, -9.6))
    assert m.joint_names == {
        "drone": "air", "arm": "turn", "ball": "socket", "x": "x", "y": "y", "spin": "spin", "cart": "tilt",
    }  # fmt: skip
    turn = links["arm"].joint
    np.testing.assert_allclose(turn.limits, [(-1.4, 1.6)], rtol=1e-15)
    assert (turn.damping, turn.armature) == ((0.3,), (0.1,))
    assert_same_pose(links["arm"].outer, ct.Pose((-0.1, 0, 0.02)))
    assert links["spin"].joint.friction == (0.4,)
    np.testing.assert_allclose(links["x"].joint.rest, 0.1, rtol=1e-15)
    assert [links[name].body.mass for name in ("x", "y", "spin")] == [0.0, 0.0, 0.0]
    assert_same_joint(links["eye"].joint, ct.Fixed())
    (hull,) = links["drone"].body.geometry
    assert (hull.kind, hull.size, hull.center) == ("box", (0.4, 0.2, 0.1), (0.05, 0.0, 0.0))
    np.testing.assert_allclose(ct.Pose(rpy=hull.rpy).R, turned(0.1, 0.2, 0.3), rtol=0, atol=1e-14)


def test_neutral_position_is_that_of_the_file(tmp_path):
    m = read(TREE, tmp_path)
    peer = MuJoCo(tmp_path / "robot.xml", m)
    np.testing.assert_allclose(peer.state(m.neutral(), np.zeros(m.nv))[0], peer.model.qpos0, rtol=0, atol=1e-15)
    assert any(note == "coordinates are MuJoCo's less their ref: arm 0.4, x 0.1, body6 -0.5" for note in m.notes)


def test_keyframes_are_positions(tmp_path):
    m = read(TREE, tmp_path)
    assert list(m.keyframes) == ["home"]
    peer = MuJoCo(tmp_path / "robot.xml", m)
    expected = np.array(peer.model.key_qpos[0])
    for at in (slice(3, 7), slice(8, 12)):
        expected[at] /= np.linalg.norm(expected[at])
    np.testing.assert_allclose(peer.state(m.keyframes["home"], np.zeros(m.nv))[0], expected, rtol=0, atol=1e-14)


def test_the_keyframe_home_or_the_first_is_home(tmp_path):
    m = read(TREE, tmp_path)
    np.testing.assert_array_equal(m.home, m.keyframes["home"])
    assert "home is the keyframe 'home'" in m.notes
    keys = '<keyframe><key name="down" qpos="0.4"/><key name="{}" qpos="0.9"/></keyframe>'
    for second, angle in (("up", 0.4), ("home", 0.9)):
        arm = '<body><joint axis="0 1 0"/><geom size="0.1" pos="1 0 0"/></body>'
        text = f"<mujoco><worldbody>{arm}</worldbody>{keys.format(second)}</mujoco>"
        assert read(text, tmp_path).home == pytest.approx([angle])
    assert read(linkage(CONNECT), tmp_path).home is None


def test_a_keyframe_that_leaves_a_loop_open_is_not_home(tmp_path):
    at = read(linkage(CONNECT), tmp_path).assemble(crank=0.3)
    refs = np.array([0.0, 0.0, 0.0, 0.2])  # of the wheel
    for aside, home in ((0.0, True), (1e-3, True), (0.5, False)):
        qpos = at + refs + [aside, 0.0, 0.0, 0.0]
        key = f'<keyframe><key name="stand" qpos="{" ".join(map(repr, qpos.tolist()))}"/></keyframe></mujoco>'
        m = read(linkage(CONNECT).replace("</mujoco>", key), tmp_path)
        assert (m.home is not None) is home
        if home:
            assert np.abs(m.assemble() - m.home).max() < 5.0 * aside + 1e-9
        else:
            assert any(note.startswith("keyframe 'stand' is not home, for the closure residual of loop 'pin' is ") for note in m.notes)


def random_file(seed: int) -> str:
    """A random tree of bodies with up to three joints each."""
    rng = np.random.default_rng(seed)

    def numbers(*shape: int) -> str:
        return " ".join(f"{x:.6f}" for x in rng.normal(size=shape).ravel())

    def body(depth: int) -> str:
        joints = ""
        kinds = rng.choice(["hinge", "slide", "ball"], size=rng.integers(0, 3), replace=False)
        for kind in sorted(kinds, key=["slide", "hinge", "ball"].index):  # in MuJoCo no rotation follows a ball
            springs = f'stiffness="{rng.uniform(0, 3):.3f}" damping="{rng.uniform(0, 1):.3f}" armature="{rng.uniform(0, 0.2):.3f}"'
            own = "" if kind == "ball" else f'axis="{numbers(3)}" ref="{rng.normal():.3f}" springref="{rng.normal():.3f}"'
            joints += f'<joint type="{kind}" pos="{numbers(3)}" {own} {springs}/>'
        inner = "".join(body(depth - 1) for _ in range(rng.integers(1, 3))) if depth else ""
        mass = f'<inertial mass="{rng.uniform(0.5, 2):.3f}" pos="{numbers(3)}" quat="{numbers(4)}" diaginertia="0.2 0.3 0.4"/>'
        return f'<body pos="{numbers(3)}" quat="{numbers(4)}">{joints}{mass}{inner}</body>'

    free = body(1).replace(">", '><joint type="free" stiffness="2" damping="0.3"/>', 1)
    free = re.sub(r'(<joint type="free"[^>]*/>)((<joint type="(?:hinge|slide|ball)"[^>]*/>)*)', r"\1", free, count=1)
    return f'<mujoco><compiler angle="radian"/><worldbody>{body(2)}{free}</worldbody></mujoco>'


@pytest.mark.parametrize("seed", range(5))
def test_random_trees_equal_mujoco(seed, tmp_path):
    assert_equals_mujoco(tmp_path / "robot.xml", read(random_file(seed), tmp_path))


def test_options_that_are_switched_off(tmp_path):
    flags = '<flag contact="disable" gravity="disable" spring="disable" damper="disable" frictionloss="disable" limit="disable"/>'
    m = read(TREE.replace('<flag contact="disable"/>', flags), tmp_path)
    assert m.gravity == (0.0, 0.0, 0.0)
    assert not m.changes_energy
    assert not any(any(link.joint.stiffness) for link in m.links)
    assert_equals_mujoco(tmp_path / "robot.xml", m)


def test_files_that_are_included(tmp_path):
    (tmp_path / "part.xml").write_text('<mujocoinclude><body name="b"><joint/><geom size="0.1" contype="1"/></body></mujocoinclude>')
    text = '<mujoco><worldbody>\n<geom type="plane" size="1 1 1"/>\n<include file="part.xml"/></worldbody></mujoco>'
    with pytest.raises(ct.ModelFileError, match=r"robot\.xml:2: .* contact \(such as of a geom of 'ground' and a geom of 'b'\)"):
        read(text, tmp_path)
    assert read(text, tmp_path, ignore="contact").body_names == ("b",)


def test_saved_as_toml_and_as_urdf(tmp_path):
    m = read(TREE, tmp_path)
    m.save(tmp_path / "robot.toml")
    back = ct.load(tmp_path / "robot.toml")
    q, v, x = states(m)
    np.testing.assert_allclose(ct.forward_dynamics(back)(q, v, x), ct.forward_dynamics(m)(q, v, x), rtol=1e-9, atol=1e-9)
    with pytest.raises(ct.ModelFileError, match=r"URDF cannot hold gravity .*, the spherical joint of body 'ball'"):
        m.save(tmp_path / "robot.urdf")


# --- loops

LINKS = """\
<mujoco model="linkage">
  <compiler angle="radian"/>
  <option><flag contact="disable"/></option>
  <worldbody>
    <body name="crank"><joint name="crank" axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
      <body name="coupler" pos="0.3 0 0" euler="0 -0.6 0"><joint name="coupler" axis="0 1 0" damping="0.1"/>
        <geom type="capsule" size="0.02" fromto="0 0 0 0.8 0 0"/><site name="tip" pos="0.8 0 0" euler="0.1 0.2 0.3"/></body>
    </body>
    <body name="rocker" pos="1 0 0" euler="0 -1.4 0"><joint name="rocker" {rocker}/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0.5 0 0"/><site name="top" pos="0.5 0 0"/></body>
    <body name="wheel" pos="0 1 0"><joint name="wheel" axis="0 1 0" ref="0.2"/><geom type="cylinder" size="0.1 0.02" pos="0.05 0 0"/></body>
  </worldbody>
  <equality>
    {equality}
  </equality>
</mujoco>
"""


def linkage(equality: str, rocker: str = 'axis="0 1 0"') -> str:
    return LINKS.format(equality=equality, rocker=rocker)


CONNECT = '<connect name="pin" body1="coupler" body2="rocker" anchor="0.8 0 0"/>'
SECOND = '<connect name="other" body1="coupler" body2="rocker" anchor="0.8 0.1 0"/>'
THIRD = '<connect name="third" body1="coupler" body2="rocker" anchor="0.8 0.1 0.1"/>'
GEARS = '<joint name="gears" joint1="wheel" joint2="crank" polycoef="0 2.5 0 0 0"/>'


def hard(file: Path, m: ct.Model, q: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Accelerations at rest under hard constraints: by MuJoCo's mass matrix, constraint Jacobian and forces."""
    peer = MuJoCo(file, m, constraints=True)
    peer.model.opt.jacobian = 0
    peer.data = mujoco.MjData(peer.model)
    T, _ = peer.put(q, np.zeros(m.nv))
    peer.data.qfrc_applied[:] = T @ tau
    mujoco.mj_forward(peer.model, peer.data)
    J = peer.data.efc_J.reshape(-1, peer.model.nv)[: peer.data.ne]
    inverse = np.zeros((peer.model.nv, peer.model.nv))
    mujoco.mj_solveM(peer.model, peer.data, inverse, np.eye(peer.model.nv))
    force = np.linalg.lstsq(J @ inverse @ J.T, -J @ peer.data.qacc_smooth, rcond=1e-10)[0]
    return T.T @ (peer.data.qacc_smooth + inverse @ J.T @ force)


@pytest.mark.parametrize(
    ("equality", "rocker", "kinds"),
    [
        (CONNECT, 'axis="0 1 0"', ["spherical"]),
        (CONNECT + SECOND, 'type="free"', ["revolute"]),
        (CONNECT + SECOND + THIRD, 'type="free"', ["fixed"]),
        ('<weld name="glue" body1="coupler" body2="rocker" anchor="0.1 0 0"/>', 'type="free"', ["fixed"]),
        ('<weld body1="coupler" body2="rocker" anchor="0.1 0 0" torquescale="0"/>', 'type="free"', ["spherical"]),
        ('<weld body1="coupler" body2="rocker" anchor="0.1 0 0" torquescale="0.01"/>', 'type="free"', ["fixed"]),
        (CONNECT + GEARS, 'axis="0 1 0"', ["spherical"]),
        (GEARS, 'axis="0 1 0"', []),
        ('<joint joint1="wheel" polycoef="0 0 0 0 0"/>', 'axis="0 1 0"', []),
    ],
)  # fmt: skip
def test_loops_equal_mujoco_in_the_hard_limit(equality, rocker, kinds, tmp_path):
    m = read(linkage(equality, rocker), tmp_path)
    assert [loop.joint.kind for loop in m.loops] == kinds
    q = m.assemble()
    np.testing.assert_allclose(q, m.neutral(), rtol=0, atol=1e-12)  # MuJoCo's equalities hold in its qpos0
    tau = np.random.default_rng(1).normal(size=m.nv)
    expected = hard(tmp_path / "robot.xml", m, q, tau)
    for method in ("coordinate-reduction", "fully-recursive/joint"):
        assert relative(ct.forward_dynamics(m, method)(q, np.zeros(m.nv), tau), expected) < 1e-8


def test_mujoco_comes_near_as_its_constraints_harden(tmp_path):
    """The difference shrinks like one less the impedance."""
    m = read(linkage(CONNECT + GEARS), tmp_path)
    q, tau = m.assemble(), np.array([1.0, -2.0, 0.5, 0.3])
    ours = ct.forward_dynamics(m)(q, np.zeros(m.nv), tau)
    peer = MuJoCo(tmp_path / "robot.xml", m, constraints=True)
    apart = []
    for impedance in (0.9, 0.99, 0.999, 0.9999):
        peer.model.eq_solimp[:, :2] = impedance
        apart.append(relative(peer.forward(q, np.zeros(m.nv), tau), ours))
    assert apart[-1] < 1e-2
    for one, next_one in itertools.pairwise(apart):
        assert 5.0 < one / next_one < 15.0


def test_two_connects_on_a_line_are_a_hinge_and_said_to_be(tmp_path):
    m = read(linkage(CONNECT + SECOND, 'type="free"'), tmp_path)
    assert "the connects 'pin', 'other' of 'coupler' and 'rocker' are a hinge" in m.notes
    assert (m.mobility().constraints, m.mobility().redundant) == (5, 0)
    run = ct.simulate(m, m.assemble(), until=0.5)
    assert ct.loop_error(m)(run.q).max() < 1e-10


def test_one_connect_twice_is_one_ball(tmp_path):
    m = read(linkage(CONNECT + CONNECT.replace("pin", "again")), tmp_path)
    assert [loop.joint.kind for loop in m.loops] == ["spherical"]


def test_sites_are_connected_where_they_are(tmp_path):
    m = read(linkage('<connect site1="tip" site2="top"/>'), tmp_path)
    (loop,) = m.loops
    assert_same_pose(loop.at_a, ct.Pose((0.8, 0, 0)))
    assert_same_pose(loop.at_b, ct.Pose((0.5, 0, 0)))
    m = read(linkage('<weld site1="tip" site2="top"/>'), tmp_path)
    (loop,) = m.loops
    assert loop.joint.kind == "fixed"
    np.testing.assert_allclose(loop.at_a.R, turned(0.1, 0.2, 0.3), rtol=0, atol=1e-14)
    m = read(linkage('<weld site1="tip" site2="top" torquescale="0"/>'), tmp_path)
    (loop,) = m.loops
    assert loop.joint.kind == "spherical"
    assert_same_pose(loop.at_a, ct.Pose((0.8, 0, 0)))


def test_coupling_counts_from_the_refs(tmp_path):
    m = read(linkage('<joint joint1="wheel" joint2="crank" polycoef="0.1 2 0 0 0"/>'), tmp_path)
    (coupling,) = m.couplings
    assert (coupling.coefficients, coupling.offset) == ((("wheel", 1.0), ("crank", -2.0)), 0.1)


def test_equalities_that_are_not_active_or_ignored(tmp_path):
    m = read(linkage(CONNECT.replace("name=", 'active="false" name=') + GEARS), tmp_path)
    assert (len(m.loops), len(m.couplings)) == (0, 1)
    assert "equalities that are not active in the file (1) are not in the model" in m.notes
    m = read(linkage(CONNECT + GEARS), tmp_path, ignore="equality")
    assert not m.has_loops
    assert any("ignored as asked: equality (connect 'pin', joint 'gears')" in note for note in m.notes)


def test_equalities_are_ignored_by_name(tmp_path):
    """What is ignored by name goes, and nothing else; what is not there cannot be ignored."""
    text = linkage(CONNECT + GEARS)
    m = read(text, tmp_path, ignore="equality:pin")
    assert (len(m.loops), len(m.couplings)) == (0, 1)
    assert any("ignored as asked: equality (connect 'pin')" in note for note in m.notes)
    m = read(text, tmp_path, ignore=("equality:gears",))
    assert (len(m.loops), len(m.couplings)) == (1, 0)
    with pytest.raises(ct.ModelFileError, match=r"ignore names 'equality:pn', which is not in the file; did you mean 'equality:pin'\?"):
        read(text, tmp_path, ignore="equality:pn")


# --- what is not honoured


def bodies(more: str = "", option: str = '<flag contact="disable"/>') -> str:
    chain = '<geom name="h" size="0.1"/><body name="d" pos="1 0 0"><joint name="l"/><geom size="0.1"/></body>'
    return (
        f'<mujoco>\n<option>{option}</option>\n<worldbody>\n<body name="b"><joint name="j"/>\n<geom name="g" size="0.1"/>\n'
        f'<body name="c" pos="1 0 0"><joint name="k"/>{chain}</body></body>\n</worldbody>\n{more}\n</mujoco>'
    )


PAIR = '<contact><exclude body1="b" body2="d"/><pair geom1="g" geom2="h"/></contact>'
MUSCLE = '<actuator>\n<muscle name="biceps" joint="j" lengthrange="0 1"/></actuator>'
INTEGRATOR = '<actuator>\n<intvelocity joint="j" kp="10" actrange="-1 1"/></actuator>'
TENDON = '<tendon>\n<fixed name="t" stiffness="3"><joint joint="j" coef="1"/></fixed></tendon>'
CURVED = '<equality>\n<joint joint1="j" joint2="k" polycoef="0 1 1 0 0"/></equality>'

HONOURED = [
    ("contact", bodies(option=""), r":5: .*contact \(such as of geom 'g' and a geom of 'd'\)"),
    ("contact", bodies(option="", more=PAIR), r":5: .*geom 'g' and geom 'h'"),
    ("actuator", bodies(more=MUSCLE), r":9: .*actuator \(biceps with a state"),
    ("actuator", bodies(more=INTEGRATOR), r":9: .*with a state"),
    ("tendon", bodies(more=TENDON), r":9: .*'t' with stiffness"),
    ("fluid", bodies().replace("<option>", '<option density="1.2">'), r":2: .*fluid \(density 1.2"),
    ("gravcomp", bodies().replace('name="b"', 'name="b" gravcomp="1"'), r":4: .*gravcomp \(of body 'b'"),
    ("mocap", bodies().replace("<worldbody>", '<worldbody><body name="hand" mocap="true"/>'), r":3: .*mocap \(body 'hand'"),
    ("limits", bodies().replace('name="j"', 'name="j" type="ball" limited="true" range="0 60"'), r":4: .*limits \(of joint 'j'"),
    ("armature", bodies().replace('name="j"', 'name="j" type="free" armature="1"'), r":4: .*armature \(of joint 'j', which is free"),
    ("frictionloss", bodies().replace('name="j"', 'name="j" type="free" frictionloss="1"'), r":4: .*frictionloss \(of joint 'j'"),
    ("equality:equality0", bodies(more=CURVED), r":9: .*joints that is not linear"),
]


@pytest.mark.parametrize(("what", "text", "message"), HONOURED, ids=[f"{what}{i}" for i, (what, _, _) in enumerate(HONOURED)])
def test_what_is_not_honoured_is_an_error_unless_ignored(what, text, message, tmp_path):
    remedy = rf".*load with ignore=\('{what}',\), on the command line --ignore {what}(; contact='ground' .*)?$"
    with pytest.raises(ct.ModelFileError, match=rf"robot\.xml{message}.*{remedy}"):
        read(text, tmp_path)
    m = read(text, tmp_path, ignore=what)
    assert any(note.startswith(f"ignored as asked: {what.partition(':')[0]} (") for note in m.notes)


def test_all_that_is_not_honoured_is_named_at_once(tmp_path):
    text = bodies(option="", more=INTEGRATOR).replace('name="b"', 'name="b" gravcomp="1"')
    with pytest.raises(ct.ModelFileError, match=r"ignore=\('tendon', 'contact', 'actuator', 'gravcomp'\)"):
        read(text, tmp_path, ignore="tendon")


def test_one_word_leaves_out_all_that_catena_cannot_represent(tmp_path):
    text = bodies(option="", more=INTEGRATOR + TENDON).replace('name="b"', 'name="b" gravcomp="1"')
    with pytest.raises(ct.ModelFileError, match="ignore='unsupported' leaves out all of it"):
        read(text, tmp_path)
    m = read(text, tmp_path, ignore="unsupported")
    left = "contact (such as of geom 'g' and a geom of 'd'), actuator (actuator0 with a state), tendon ('t' with stiffness)"
    left += ", gravcomp (of body 'b')"
    assert f"left out, for catena cannot represent it: {left}" in m.notes
    assert read(bodies(option=""), tmp_path, contact="ignore").nv == 3
    with pytest.raises(ct.ModelFileError, match="contact = 'no' is not known; give 'ignore' or 'ground', or leave it out"):
        read(text, tmp_path, contact="no")


def test_actuators_are_read_unless_ignored(tmp_path):
    m = read(TREE, tmp_path)
    assert [(one.name, one.coefficients) for one in m.actuators] == [("m", (("spin", 1.0),))]
    assert any(note.startswith("1 actuators act where controls are given") for note in m.notes)
    m = read(TREE, tmp_path, actuators="ignore")
    assert not m.actuators
    assert "ignored as asked: actuator (1)" in m.notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<mujoco>\n<worldbody><bdy/></worldbody></mujoco>", r":2: MuJoCo does not take the file: .*bdy"),
        ('<mujoco>\n<worldbody>\n<body name="b"><joint/></body></worldbody></mujoco>', r":3: MuJoCo does not take the file: .*mass"),
        ('<mujoco>\n<worldbody><geom\nsize="-1"/></worldbody></mujoco>', r":\d: MuJoCo does not take the file"),
        ("<mujoco>\n<worldbody></mujoco>", r":2: not XML at column 14: mismatched tag"),
        ('<mujoco>\n<worldbody><replicate count="1000000"/></worldbody></mujoco>', r":2: <replicate>: count '1000000' is more than"),
        ('<mujoco>\n<size memory="1000G"/></mujoco>', r":2: <size>: memory '1000G' is more than 1 GiB; give less"),
        ('<mujoco>\n<include file="/dev/zero"/></mujoco>', r":2: <include>: file '/dev/zero' is not an ordinary file"),
        ('<mujoco>\n<worldbody><body name="ground"/></worldbody></mujoco>', r":2: body 'ground': 'ground' is the name of the"),
        ('<mujoco>\n<include file="robot.xml"/></mujoco>', r":2: <include>: file '.*' is part of the model already"),
    ],
)  # fmt: skip
def test_errors_name_file_and_line(text, message, tmp_path):
    with pytest.raises(ct.ModelFileError, match=rf"robot\.xml{message}"):
        read(text, tmp_path)


def test_floating_base_is_said_in_the_file(tmp_path):
    with pytest.raises(ct.ModelFileError, match=r"robot\.xml:1: floating_base is for URDF; give the root body a <freejoint/>"):
        read(TREE, tmp_path, floating_base=True)


def test_without_mujoco(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ct.MissingPackageError, match=r'reading MJCF needs MuJoCo, which is not installed; pip install "catena\[files\]"'):
        read(TREE, tmp_path)


@pytest.mark.parametrize("what", ["equality:", "coupling:gears", "equality:geers"])
def test_what_is_not_in_the_file_cannot_be_ignored_by_name(what, tmp_path):
    with pytest.raises(ct.ModelFileError, match=rf"ignore names '{what}', which is not in the file; .*equality:gears"):
        read(linkage(CONNECT + GEARS), tmp_path, ignore=what)
