"""The view: shapes against their volumes, scenes against the kernels, loops that stay closed under the hand, films against their runs."""

from __future__ import annotations

import struct
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence
from typer.testing import CliRunner

import catena as ct
from catena.cli import app
from catena.errors import ArgumentError, MeshError, MissingPackageError, TrajectoryFileError, ViewWarning
from catena.examples import EXAMPLES
from catena.model import Geometry
from catena.view import animation, meshes, painter, shapes
from catena.view.animation import frames
from catena.view.framing import framing
from catena.view.posing import Posing
from catena.view.scene import COLOURS, Box, Scene

pytestmark = pytest.mark.evaluated

BALL = 4.0 / 3.0 * np.pi


def pendulum() -> ct.Model:
    m = ct.Model("pendulum")
    m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
    return m


@pytest.mark.parametrize(
    ("mesh", "volume"),
    [
        (shapes.box(1.0, 2.0, 3.0), 6.0),
        (shapes.cylinder(2.0, 0.5), 0.5 * np.pi),
        (shapes.capsule(2.0, 0.5), 0.5 * np.pi + BALL * 0.5**3),
        (shapes.sphere(0.5), BALL * 0.5**3),
        (shapes.between(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 5.0]), 0.5), 0.5 * np.pi),
        (shapes.sphere(1.0).scaled((1.0, 2.0, -3.0)), 6.0 * BALL),
    ],
    ids=["box", "cylinder", "capsule", "sphere", "between", "mirrored ellipsoid"],
)
def test_volume_of_triangles_equals_that_of_the_shape(mesh: shapes.Mesh, volume: float) -> None:
    """Triangles turned inside out would count as negative; what is round loses a few percent to its corners."""
    assert 0.95 * volume < shapes.volume(mesh) < (1.0 + 1e-12) * volume
    edges = np.sort(np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]]), axis=1)
    corners, place = np.unique(mesh.vertices.round(12), axis=0, return_inverse=True)
    _, count = np.unique(np.sort(place.reshape(-1)[edges], axis=1), axis=0, return_counts=True)
    assert (count == 2).all()
    assert len(corners) > 7


def test_fewer_triangles_keep_the_volume() -> None:
    fine = shapes.joined([shapes.sphere(1.0).moved(np.eye(3), np.array([3.0 * k, 0.0, 0.0])) for k in range(20)])
    coarse = shapes.coarser(fine, 2000)
    assert len(coarse.faces) <= 2000 < len(fine.faces)
    assert shapes.volume(coarse) == pytest.approx(shapes.volume(fine), rel=0.5)
    assert np.ptp(coarse.vertices, axis=0) == pytest.approx(np.ptp(fine.vertices, axis=0), rel=0.1)


@pytest.mark.parametrize("name", EXAMPLES)
def test_scenes_of_the_examples_show_every_body_where_the_kernel_puts_it(name: str) -> None:
    m = EXAMPLES[name]()
    scene = Scene(m)
    q = np.stack([m.random(seed) for seed in (0, 1)])
    places = scene.places(0.0, q)
    np.testing.assert_array_equal(places[:, :-1], ct.poses(m)(q))
    assert {part.body for part in scene.parts} == set(range(len(m.links)))
    box = scene.box(places)
    points = [places[i, part.body] @ (*part.mesh.vertices[0], 1.0) for i in (0, 1) for part in scene.parts]
    assert all(((box.low - 1e-9 <= point[:3]) & (point[:3] <= box.high + 1e-9)).all() for point in points)
    pixels, far = painter.camera(box).seen(np.array(points)[:, :3], (400, 300))
    assert (far > 0.0).all()
    assert ((pixels >= 0.0) & (pixels <= (400.0, 300.0))).all(), "the camera sees all of it"


def test_every_shape_takes_the_space_of_its_size() -> None:
    at, axis = (0.1, 0.2, 0.3), (1.0, 0.0, 0.0)
    looks = {
        Geometry("box", (0.2, 0.4, 0.6), at): (0.2, 0.4, 0.6),
        Geometry("box", (0.2, 0.4, 0.6), at, rpy=(0.0, 0.0, 0.5 * np.pi)): (0.4, 0.2, 0.6),
        Geometry("cylinder", (1.0, 0.2), at, axis): (1.0, 0.4, 0.4),
        Geometry("capsule", (1.0, 0.2), at, axis): (1.4, 0.4, 0.4),
        Geometry("sphere", (0.3,), at): (0.6, 0.6, 0.6),
        Geometry("ellipsoid", (0.1, 0.2, 0.3), at): (0.2, 0.4, 0.6),
    }
    for look, size in looks.items():
        m = ct.Model("look")
        m.add("body", ct.Body(1.0, inertia=np.eye(3), geometry=(look,)), ct.Free())
        box = Scene(m).box(Scene(m).places(0.0, m.neutral()))
        assert box.centre == pytest.approx(at, abs=1e-12)
        assert box.high - box.low == pytest.approx(size, rel=0.02)


def test_forces_of_the_scene_carry_the_weight() -> None:
    m = ct.Model("two")
    m.add("upper", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
    m.add("lower", ct.rod(1.0, mass=1.0), ct.Revolute("y"), parent="upper", at=(1, 0, 0))
    point, force = np.swapaxes(Scene(m).forces(0.0, np.array([np.pi / 2, 0.0]), np.zeros(2), np.zeros(2)), 0, 1)
    np.testing.assert_allclose(point, [[0.0, 0.0, 0.0], [0.0, 0.0, -1.0]], atol=1e-12)
    np.testing.assert_allclose(force, [[0.0, 0.0, 3 * 9.81], [0.0, 0.0, 9.81]], atol=1e-12)


def test_forces_of_loops_balance_the_weight_in_the_world() -> None:
    """What the ground's joints exert on a linkage at rest for an instant is its weight less mass times acceleration."""
    m = EXAMPLES["four-bar"]()
    q, still = m.assemble(crank=1.0), np.zeros(3)
    forces = Scene(m).forces(0.0, q, still, still)[:, 1]
    names = Scene(m).loaded_names
    grounded = [i for i, name in enumerate(names) if name in m.body_names and m.links[i].parent == "ground"]
    vdot = ct.forward_dynamics(m)(q, still, still)
    pull = sum(link.body.mass * (ct.jacobian(m, link.name, link.body.com)(q)[3:] @ vdot - m.gravity) for link in m.links)
    np.testing.assert_allclose(forces[grounded].sum(axis=0)[[0, 2]], np.asarray(pull)[[0, 2]], atol=1e-9)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if EXAMPLES[name]().has_loops])
def test_a_moved_coordinate_takes_the_others_along_and_leaves_the_independent_ones(name: str) -> None:
    posing = Posing(EXAMPLES[name]())
    error = ct.loop_error(posing.model)
    handles = [handle for handle in posing.handles if handle.independent]
    assert handles
    for handle in handles:
        others = {other.name: posing.value(other.name) for other in handles if other != handle and other.name[:-2] == handle.name[:-2]}
        wanted = posing.value(handle.name) + 0.01 * (handle.upper - handle.lower)
        before = posing.q.copy()
        assert posing.move(handle.name, wanted)
        assert posing.value(handle.name) == pytest.approx(wanted, abs=1e-12)
        assert error(posing.q).max() < 1e-10
        assert np.abs(posing.model.difference(before, posing.q)).max() < 1.0, "it stays on its branch"
        for other, value in others.items():
            assert posing.value(other) == pytest.approx(value, abs=1e-9)


def test_a_coordinate_goes_as_far_as_the_loops_let_it() -> None:
    m = EXAMPLES["four-bar"]()  # a crank that turns, a rocker that does not
    posing = Posing(m, m.assemble(crank=1.0))
    assert not posing.move("rocker", 3.0)
    assert ct.loop_error(m)(posing.q).max() < 1e-10
    assert posing.move("crank", 1.1)


def test_ranges_are_what_a_linkage_reaches() -> None:
    """The rocker of a four-bar turns back where crank and coupler are in line, stretched and folded: by the law of cosines."""
    m = EXAMPLES["four-bar"]()
    crank, coupler, rocker = (link.body.geometry[0].size[0] for link in m.links)
    base = float(np.linalg.norm(m.links[2].at.p - m.links[0].at.p))
    cosines = [(base**2 + rocker**2 - (coupler + sign * crank) ** 2) / (2.0 * base * rocker) for sign in (-1.0, 1.0)]
    ends = np.sort(np.pi - np.arccos(cosines))
    handles = {handle.name: handle for handle in Posing(m, m.assemble(crank=1.0)).handles}
    assert (handles["crank"].lower, handles["crank"].upper) == (-np.pi, np.pi)
    assert (handles["rocker"].lower, handles["rocker"].upper) == pytest.approx(ends, abs=5e-3)


def test_ranges_end_where_the_loops_would_open() -> None:
    """Peaucellier's crank turns until the cell is stretched; a little beyond, nothing assembles."""
    m = EXAMPLES["peaucellier"]()
    (handle,) = (handle for handle in Posing(m).handles if handle.independent)
    for end in (handle.lower, handle.upper):
        posing = Posing(m)
        assert posing.move(handle.name, 0.99 * end)
        assert not posing.move(handle.name, 1.01 * end)


def test_stops_of_dependent_joints_end_ranges() -> None:
    m = EXAMPLES["four-bar"]()
    free = {handle.name: handle for handle in Posing(m, m.assemble(crank=1.0)).handles}["rocker"]
    stopped = ct.Model("stopped")
    for link in m.links:
        joint = ct.Revolute("y", limits=(free.lower, free.lower + 0.5)) if link.name == "rocker" else link.joint
        stopped.add(link.name, link.body, joint, parent=link.parent, at=link.at)
    (pin,) = m.loops
    stopped.close("pin", pin.joint, pin.a, pin.b, at_a=pin.at_a, at_b=pin.at_b)
    handles = {handle.name: handle for handle in Posing(stopped, m.assemble(crank=0.3)).handles}
    assert handles["rocker"].upper == pytest.approx(free.lower + 0.5, abs=0.01)
    assert handles["crank"].upper < 3.0


@pytest.mark.parametrize("turn", ["roll", "pitch", "yaw"])
def test_a_ball_in_a_loop_is_moved_by_roll_pitch_and_yaw_and_the_rest_follows(turn: str) -> None:
    """It comes to where the independent coordinate, moved by itself, takes it."""
    there = Posing(EXAMPLES["quarter-car"]())
    assert there.move("wishbone", -0.1)
    posing = Posing(EXAMPLES["quarter-car"]())
    handle = next(handle for handle in posing.handles if handle.name == f"knuckle.{turn}")
    assert not handle.independent
    assert posing.move(handle.name, there.value(handle.name))
    assert ct.loop_error(posing.model)(posing.q).max() < 1e-10
    np.testing.assert_allclose(posing.model.difference(posing.q, there.q), 0.0, atol=1e-6)


def test_balls_and_free_bodies_are_moved_by_roll_pitch_and_yaw() -> None:
    m = EXAMPLES["humanoid"]()
    posing = Posing(m)
    for name, x in (("pelvis.roll", 0.3), ("pelvis.pitch", -0.4), ("pelvis.yaw", 0.5), ("pelvis.x", 2.0)):
        assert posing.move(name, x)
    expected = ct.Pose((2.0, 0.0, 0.0), rpy=(0.3, -0.4, 0.5)).matrix()
    base = m.links[0].at.matrix()
    np.testing.assert_allclose(ct.poses(m)(posing.q)[0], base @ expected, atol=1e-12)


def stl(path: Path, mesh: shapes.Mesh) -> None:
    """Write a mesh as a binary STL file."""
    corners = mesh.vertices[mesh.faces]
    rows = b"".join(struct.pack("<12fH", 0.0, 0.0, 0.0, *triangle.ravel(), 0) for triangle in corners)
    path.write_bytes(bytes(80) + struct.pack("<I", len(corners)) + rows)


URDF = """<robot name="r"><link name="base"/><link name="arm">
  <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  <visual><origin xyz="0 0 1"/><geometry><mesh filename="{file}" scale="0.001 0.001 -0.001"/></geometry>
    <material name="red"><color rgba="1 0 0 1"/></material></visual></link>
  <joint name="j" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint></robot>"""


def test_meshes_of_an_attached_model_are_found_from_the_file_of_the_whole(tmp_path: Path) -> None:
    """Also where the folder of all is moved, and in the files of runs."""
    for name in ("arm", "hand"):
        (tmp_path / "old" / name / "meshes").mkdir(parents=True)
        stl(tmp_path / "old" / name / "meshes" / f"{name}.stl", shapes.box(100.0, 200.0, 300.0))
        (tmp_path / "old" / name / f"{name}.urdf").write_text(URDF.format(file=f"meshes/{name}.stl"))
    arm, hand = (ct.load(tmp_path / "old" / name / f"{name}.urdf") for name in ("arm", "hand"))
    arm.attach(hand, to=arm.body_names[-1], at=(0, 0, 0.3), prefix="hand_")
    (tmp_path / "old" / "whole").mkdir()
    arm.save(tmp_path / "old" / "whole" / "robot.toml")
    arm.save(tmp_path / "old" / "arm" / "robot.toml")
    (tmp_path / "old").rename(tmp_path / "new")
    for folder in ("whole", "arm"):
        m = ct.load(tmp_path / "new" / folder / "robot.toml")
        assert sum(part.name.startswith("mesh") for part in Scene(m).parts) == 2
        ct.simulate(m, m.neutral(), until=0.01).save(tmp_path / "run.npz")
        assert sum(part.name.startswith("mesh") for part in Scene(ct.Trajectory.load(tmp_path / "run.npz").model).parts) == 2
    assert (tmp_path / "new" / "arm" / "robot.toml").read_text().count('folder = "../hand"') == 1


@pytest.mark.parametrize("file", ["package://my_robot/meshes/arm.stl", "../meshes/arm.stl", "{folder}/my_robot/meshes/arm.stl"])
def test_meshes_are_found_in_their_package_and_shown_to_scale(tmp_path: Path, file: str) -> None:
    for folder in ("urdf", "meshes"):
        (tmp_path / "my_robot" / folder).mkdir(parents=True)
    stl(tmp_path / "my_robot" / "meshes" / "arm.stl", shapes.box(100.0, 200.0, 300.0))
    robot = tmp_path / "my_robot" / "urdf" / "r.urdf"
    robot.write_text(URDF.format(file=file.format(folder=tmp_path)))
    scene = Scene(ct.load(robot))
    (part,) = (part for part in scene.parts if part.name.startswith("mesh"))
    assert part.colour == (255, 0, 0)
    assert shapes.volume(part.mesh) == pytest.approx(0.1 * 0.2 * 0.3, rel=1e-6)
    assert part.mesh.vertices.mean(axis=0) == pytest.approx((0.0, 0.0, 1.0), abs=1e-6)


def test_meshes_in_the_package_path_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere" / "my_robot").mkdir(parents=True)
    stl(tmp_path / "elsewhere" / "my_robot" / "arm.stl", shapes.sphere(1.0))
    (tmp_path / "here").mkdir()
    with pytest.raises(MeshError, match=r"was not found near .*ROS_PACKAGE_PATH"):
        meshes.find("package://my_robot/arm.stl", str(tmp_path / "here"))
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(tmp_path / "elsewhere"))
    assert meshes.find("package://my_robot/arm.stl", str(tmp_path / "here")).name == "arm.stl"


def test_meshes_outside_of_the_package_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    stl(tmp_path / "secret.stl", shapes.sphere(1.0))
    here = str(tmp_path / "a" / "b" / "c")
    (tmp_path / "a" / "b" / "c" / "link.stl").symlink_to(tmp_path / "secret.stl")
    for name in ("../../../secret.stl", f"{tmp_path}/secret.stl", "link.stl", "package://c/../../../secret.stl"):
        with pytest.raises(MeshError, match="outside of the package"):
            meshes.find(name, here)
    with pytest.raises(MeshError, match="http:// is not followed"):
        meshes.find("http://somewhere/arm.stl", here)


@pytest.mark.parametrize("name", ["../x/a.stl", "./a.stl", "/a.stl", "../a.stl", "..", "a/../../x/a.stl"])
@pytest.mark.parametrize("scheme", ["package", "model"])
def test_a_package_is_a_folder_of_that_name(tmp_path: Path, scheme: str, name: str) -> None:
    for folder in ("robot", "x", "a"):
        (tmp_path / folder).mkdir()
        stl(tmp_path / folder / "a.stl", shapes.sphere(1.0))
    stl(tmp_path / "a.stl", shapes.sphere(1.0))
    (tmp_path / "robot" / "package.xml").touch()
    with pytest.raises(MeshError, match=r"is not the name of a package|outside of the package"):
        meshes.find(f"{scheme}://{name}", str(tmp_path / "robot"))


NAMES = ["a\0.stl", "package://a\0/b", "package://a/\0", "file://%00", "x" * 5000, "package://" + "x" * 5000, "a/" * 3000]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_no_system_takes_are_not_found(tmp_path: Path, name: str) -> None:
    with pytest.raises(MeshError, match=r"is not a path that the system takes|was not found") as caught:
        meshes.find(name, str(tmp_path))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("content", [b"", b"solid\nfacet", b"\0" * 84, b"not a mesh" * 100])
def test_a_broken_mesh_is_a_warning_and_the_body_is_shown_without_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "arm.stl").write_bytes(content)
    (tmp_path / "r.urdf").write_text(URDF.format(file="arm.stl"))
    m = ct.load(tmp_path / "r.urdf")
    with pytest.warns(ViewWarning, match=r"shown without some meshes: .*arm\.stl"):
        scene = Scene(m)
    assert [part.name for part in scene.parts] == ["body"]


def test_colours_and_shapes_are_kept_in_files(tmp_path: Path) -> None:
    looks = (Geometry("capsule", (0.5, 0.1), colour=(0.2, 0.4, 0.6)), Geometry("ellipsoid", (0.1, 0.2, 0.3), rpy=(0.1, 0.2, 0.3)))
    m = ct.Model("looks")
    m.add("arm", ct.Body(1.0, inertia=np.eye(3), geometry=looks), ct.Revolute("y"))
    m.save(tmp_path / "m.toml")
    assert ct.load(tmp_path / "m.toml").links[0].body.geometry == looks
    with pytest.raises(ct.ModelFileError, match=r"ellipsoid .* is not a shape of URDF"):
        m.save(tmp_path / "m.urdf")
    (tmp_path / "bad.toml").write_text((tmp_path / "m.toml").read_text().replace("0.6]", "1.6]"))
    with pytest.raises(ct.ModelFileError, match=r"colour \[0\.2, 0\.4, 1\.6\] is not between 0 and 1"):
        ct.load(tmp_path / "bad.toml")


def test_the_nearest_body_is_what_a_picture_shows() -> None:
    """A ball before another hides it, from whichever side the camera looks."""
    m = ct.Model("balls")
    m.add("left", ct.sphere(0.3, mass=1.0), ct.Free())
    m.add("right", ct.sphere(0.3, mass=1.0), ct.Free(), at=(0.0, 2.0, 0.0))
    scene = Scene(m)
    places = scene.places(0.0, m.neutral())
    for sign, nearest in ((-1.0, 0), (1.0, 1)):
        axes = np.array([[-sign, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, sign, 0.0]])
        view = painter.Camera(np.array([0.0, 1.0, 0.0]), np.array([0.0, 1.0 + 6.0 * sign, 0.0]), axes)
        colour = np.array(painter.picture(scene, places, view, -1.0, (200, 160)).getpixel((100, 80)), dtype=float)
        hue = np.array(COLOURS[nearest], dtype=float)
        assert np.abs(colour / colour.max() - hue / hue.max()).max() < 0.05


def test_the_body_is_seen_where_it_is() -> None:
    m = pendulum()
    scene = Scene(m)
    blank = None
    for q in (0.0, 1.0, 2.0, -1.0):
        places = scene.places(0.0, np.array([q]))
        view = painter.camera(scene.box(scene.places(0.0, np.linspace(-3.0, 3.0, 50)[:, None])))
        image = np.asarray(painter.picture(scene, places, view, -1.2, (200, 160)), dtype=int)
        (pixel,), _ = view.seen(scene.centres(places), (200, 160))
        colour = image[int(pixel[1]), int(pixel[0])]
        assert colour[2] > colour[0] + 20, "the arm is blue"
        blank = image if blank is None else blank
    assert not np.array_equal(blank, image)


def flight(speed: float, until: float = 2.0) -> tuple[Scene, np.ndarray]:
    """A ball thrown sideways, which falls and shakes, at 25 pictures a second: the scene and its places."""
    m = ct.Model("thrown")
    m.add("hull", ct.sphere(0.3, mass=1.0), ct.Free())
    t = np.arange(0.0, until, 0.04)
    q = np.tile(m.neutral(), (len(t), 1))
    q[:, 0], q[:, 2] = speed * t + 0.02 * (-1.0) ** np.arange(len(t)), -0.5 * 9.81 * t**2
    return Scene(m), Scene(m).places(t, q)


def test_a_mechanism_that_travels_is_followed_and_one_that_stays_is_framed() -> None:
    scene, places = flight(3.0)
    framed = framing(scene, places, 25.0)
    assert framed.rises
    assert framed.box.radius < 2.5 * 0.3 * np.sqrt(3.0), "it is large in the picture"
    view, shaking = painter.camera(framed.box, framed.rises), 0.02
    for place, shift in zip(places, framed.shifts, strict=True):
        pixels, _ = view.moved(shift).seen(place[:1, :3, 3], (400, 400))
        assert np.abs(pixels - 200.0).max() < 100.0
    assert np.abs(np.diff(framed.shifts[:, 0], n=2)).max() < 0.1 * shaking, "the camera does not shake with it"
    each = framing(scene, places)
    np.testing.assert_allclose(each.shifts, scene.centre(places), atol=1e-12)
    swing = Scene(pendulum())
    turned = swing.places(0.0, np.linspace(0.0, 2.0 * np.pi, 50)[:, None])
    still = framing(swing, turned, 25.0)
    assert not still.rises
    assert not still.shifts.any()
    np.testing.assert_array_equal(still.box, swing.box(turned))


def test_the_camera_stays_where_a_state_is_not_a_number() -> None:
    scene, places = flight(3.0)
    places[[0, 20]] = np.nan
    shifts = framing(scene, places).shifts
    assert np.isfinite(shifts).all()
    np.testing.assert_array_equal(shifts[20], shifts[19])


def test_the_grid_rests_while_the_camera_moves() -> None:
    """Lines of the grid are at whole multiples of its step in the world, wherever the camera is."""
    view = painter.camera(Box(np.full(3, -1.0), np.ones(3)), wall=True)
    for by in (np.zeros(3), np.array([0.3, -7.7, 2.2])):
        moved = view.moved(by)
        for point, axes in (painter.wall(moved), (np.zeros(3), np.eye(3))):
            lines, edge = painter._grid(moved, point, axes)
            across = (lines - point) @ axes[:2].T
            step = painter.rounded(0.6 / 5.0 * np.linalg.norm(view.eye - view.target))
            turns = across / step
            assert ((np.abs(turns[:, 0] - turns[:, 1]) < 1e-9) & (np.abs(turns[:, 0] - turns[:, 0].round()) < 1e-9)).any(axis=1).all()
            np.testing.assert_allclose(axes[:2] @ (edge.mean(axis=0) - moved.target), 0.0, atol=1e-9)
    np.testing.assert_allclose(axes[2] @ edge.T, 0.0, atol=1e-12)


def test_what_is_behind_the_camera_is_cut_off() -> None:
    view = painter.Camera(np.zeros(3), np.array([0.0, -1.0, 0.0]), np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]]))
    square = np.array([(-1.0, -3.0, 0.0), (1.0, -3.0, 0.0), (1.0, 1.0, 0.0), (-1.0, 1.0, 0.0)])
    assert sorted(map(tuple, view.before(square).round(9))) == [(-1.0, -0.95, 0.0), (-1.0, 1.0, 0.0), (1.0, -0.95, 0.0), (1.0, 1.0, 0.0)]
    np.testing.assert_allclose(view.before(square[1:3]), [(1.0, -0.95, 0.0), (1.0, 1.0, 0.0)])
    np.testing.assert_allclose(view.before(square[2:]), square[2:])
    assert len(view.before(square[:2])) == 0


def test_forces_of_contacts_are_where_bodies_touch_and_carry_them() -> None:
    m = ct.Model("box")
    m.add("box", ct.box(0.2, 0.3, 0.1, mass=3.0), ct.Free())
    m.add_contact("floor", "box", stiffness=1e4)
    q = m.neutral()
    q[:3] = 0.4, 0.5, 0.049
    forces = Scene(m).forces(0.0, q, np.zeros(6), np.zeros(6))
    assert forces.shape == (1 + 8, 2, 3)
    touching = forces[1:][forces[1:, 1, 2] > 0.0]
    np.testing.assert_allclose(touching[:, 0], [(0.4 + x, 0.5 + y, -0.001) for x in (-0.1, 0.1) for y in (-0.15, 0.15)], atol=1e-12)
    np.testing.assert_allclose(forces[:, 1].sum(axis=0), ct.contact_forces(m)(q, np.zeros(6))[0], atol=1e-12)


def test_a_ground_that_bodies_touch_is_drawn_at_its_height(tmp_path: Path) -> None:
    def ground(height: float | None) -> np.ndarray:
        m = ct.Model("ball")
        m.add("ball", ct.sphere(0.2, mass=1.0), ct.Free(), at=(0, 0, 1.2))
        if height is not None:
            m.add_contact("floor", "ball", height=height)
        m.draw(tmp_path / "ball.png")
        with Image.open(tmp_path / "ball.png") as image:
            return (np.asarray(image) == painter.GROUND).all(axis=2)

    assert not ground(None).any()
    low, high = (np.argwhere(ground(height))[:, 0].min() for height in (0.9, 1.0))
    assert low > high, "a higher ground is higher in the picture"


def count(path: Path) -> int:
    with Image.open(path) as film_file:
        return film_file.n_frames


def test_films_have_the_pictures_of_their_run(tmp_path: Path) -> None:
    run = ct.simulate(pendulum(), [0.0], until=1.0)
    run.animate(tmp_path / "p.gif", size=(160, 120), fps=20, show=("forces", "centres", "frames"))
    with Image.open(tmp_path / "p.gif") as film_file:
        assert film_file.info["duration"] == 50
        pictures = [np.asarray(picture.convert("RGB")).astype(int) for picture in ImageSequence.Iterator(film_file)]
    assert len(pictures) == 21
    assert all(np.abs(one - two).max() > 50 for one, two in pairwise(pictures)), "it moves"
    run.animate(tmp_path / "slow.gif", size=(160, 120), fps=20, speed=2.0)
    assert count(tmp_path / "slow.gif") == 11


def test_the_ground_has_its_colour_in_all_pictures_of_a_film(tmp_path: Path) -> None:
    m = ct.Model("ball")
    m.add("ball", ct.sphere(0.1, mass=2.0), ct.Free())
    m.add_contact("floor", "ball")
    run = ct.simulate(m, [0, 0, 0.2, 1, 0, 0, 0], until=0.2, step=5e-3)
    run.animate(tmp_path / "p.gif", size=(160, 120), show="forces")
    with Image.open(tmp_path / "p.gif") as film_file:
        pictures = [np.asarray(picture.convert("RGB")).astype(int) for picture in ImageSequence.Iterator(film_file)]
    grounds = [np.count_nonzero((picture == painter.GROUND).all(axis=2)) for picture in pictures]
    assert min(grounds) > 0.2 * 160 * 120
    assert all((picture[0, 0] == painter.BACKGROUND).all() for picture in pictures)


def test_frames_are_the_run_at_their_times() -> None:
    run = ct.simulate(pendulum(), [0.0], until=1.0)
    film_run = frames(run, 30.0, 0.5)
    np.testing.assert_allclose(film_run.t, np.append(np.arange(60), 60) / 60.0, atol=1e-12)
    np.testing.assert_array_equal(film_run.q, run.at(film_run.t).q)
    with pytest.raises(ArgumentError, match=r"has 30,000,001 pictures; give speed=0\.0015 or more"):
        frames(run, 30.0, 1e-6)


@pytest.mark.skipif(animation.shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_mp4_films_are_made_by_ffmpeg(tmp_path: Path) -> None:
    run = ct.simulate(pendulum(), [0.0], until=0.4)
    run.animate(tmp_path / "p.mp4", size=(160, 120))
    content = (tmp_path / "p.mp4").read_bytes()
    assert content[4:8] == b"ftyp"
    assert content.count(b"moov") == 1


def test_without_ffmpeg_there_is_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(animation.shutil, "which", lambda name: None)
    monkeypatch.setattr(animation.importlib.util, "find_spec", lambda name: None)
    run = ct.simulate(pendulum(), [0.0], until=0.4)
    with pytest.raises(MissingPackageError, match=r"ffmpeg.* is not installed; install it, or write a \.gif or \.html"):
        run.animate(tmp_path / "p.mp4")
    assert list(tmp_path.iterdir()) == []


def test_pages_hold_all_that_they_need(tmp_path: Path) -> None:
    m = EXAMPLES["quarter-car"]()
    m.name = "<quarter & car>"
    run = ct.simulate(m, m.assemble(), until=0.2)
    run.animate(tmp_path / "p.html", show=("forces",))
    page = (tmp_path / "p.html").read_text()
    assert "<title>&lt;quarter &amp; car&gt;</title>" in page
    assert not any(f"<script src={quote}" in page or f"<link rel=stylesheet href={quote}" in page for quote in ("", '"', "'"))
    assert len(page) < 1_500_000


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": "p.avi"}, r"p\.avi: a film is written as \.html, \.gif or \.mp4"),
        ({"path": "p.gif", "fps": 0}, "fps 0 is not above 0"),
        ({"path": "p.gif", "speed": float("nan")}, "speed nan is not above 0"),
        ({"path": "p.gif", "size": (10, 10)}, r"size \(10, 10\) is not that of a picture"),
        ({"path": "p.mp4", "size": (161, 120)}, "even sizes"),
        ({"path": "p.gif", "show": ("names",)}, "'names' cannot be shown; choose from frames, centres, forces"),
        ({"path": "nowhere/p.gif"}, "nowhere"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_cannot_be_filmed_is_refused(tmp_path: Path, given: dict, message: str) -> None:
    run = ct.simulate(pendulum(), [0.0], until=0.1)
    with pytest.raises((ArgumentError, TrajectoryFileError), match=message):
        run.animate(tmp_path / given.pop("path"), **given)
    assert list(tmp_path.iterdir()) == []


def test_a_film_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ct.simulate(pendulum(), [0.0], until=0.2)
    (tmp_path / "p.gif").write_bytes(b"old")
    monkeypatch.setattr(painter, "picture", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run.animate(tmp_path / "p.gif")
    assert (tmp_path / "p.gif").read_bytes() == b"old"


def test_states_that_are_not_numbers_are_left_out_of_films(tmp_path: Path) -> None:
    from catena.simulation import Trajectory

    run = Trajectory(pendulum(), [0.0, 0.1, 0.2], q=[[0.0], [np.nan], [0.5]], v=[[0.0], [np.nan], [0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        run.animate(tmp_path / "p.gif", size=(160, 120), fps=10)
    assert count(tmp_path / "p.gif") == 3


def test_positions_that_leave_a_loop_open_are_shown_with_a_warning(tmp_path: Path) -> None:
    m = EXAMPLES["four-bar"]()
    q = m.assemble(crank=1.0)
    m.draw(tmp_path / "closed.png", q)
    m.draw(tmp_path / "closed.png")
    with pytest.warns(ViewWarning, match=r"q leaves loop 'pin' of model 'four-bar' open, by 0\.092 of its size or rad"):
        m.draw(tmp_path / "open.png", q + [0.0, 0.1, 0.0])
    with pytest.warns(ViewWarning, match="leaves loop 'pin'"):
        Posing(m, q + [0.0, 0.1, 0.0])


def test_a_model_is_drawn_from_the_command_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["view", "four-bar", "--set", "crank=60deg", "--picture", str(tmp_path / "p.png")])
    assert done.exit_code == 0, done.output
    EXAMPLES["four-bar"]().draw(tmp_path / "same.png", EXAMPLES["four-bar"]().assemble(crank=np.pi / 3))
    with Image.open(tmp_path / "p.png") as first, Image.open(tmp_path / "same.png") as second:
        one, two = np.asarray(first), np.asarray(second)
    np.testing.assert_array_equal(one, two)
    assert one.shape == (480, 640, 3)
    wrong = CliRunner().invoke(app, ["view", "four-bar", "--picture", str(tmp_path / "p.jpg")])
    assert wrong.exit_code == 1
    assert "written as .png, not as '.jpg'" in wrong.output


def test_frames_of_a_model_are_drawn_with_their_names(tmp_path: Path) -> None:
    m = ct.Model("pendulum")
    m.add("arm", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
    m.draw(tmp_path / "without.png", [0.3], size=(160, 120))
    plain = (tmp_path / "without.png").read_bytes()
    m.draw(tmp_path / "axes.png", [0.3], size=(160, 120), frames=True)
    m.add_frame("tip", "arm", at=ct.Pose((1, 0, 0), rpy=(0, 0, np.pi / 2)))
    m.draw(tmp_path / "off.png", [0.3], size=(160, 120))
    m.draw(tmp_path / "tip.png", [0.3], size=(160, 120), frames=True)
    assert (tmp_path / "off.png").read_bytes() == plain
    assert len({(tmp_path / name).read_bytes() for name in ("off.png", "axes.png", "tip.png")}) == 3
    scene = Scene(m)
    triad = animation._triads(scene, scene.places(0.0, np.array([0.3])))[3:]
    place = ct.poses(m, of="tip")([0.3])
    for i, arrow in enumerate(triad):
        np.testing.assert_allclose(arrow.start, place[:3, 3], atol=1e-12)
        np.testing.assert_allclose((arrow.end - arrow.start) / (0.1 * scene.size), place[:3, i], atol=1e-12)
    assert [arrow.name for arrow in triad] == ["", "", "tip"]


def test_sliders_have_the_units_and_ranges_of_their_coordinates() -> None:
    """Turns go half a turn around, but for the pitch; lengths as far as the model is large; joints with limits to these."""
    m = ct.Model("floating")
    m.add("hull", ct.box(0.3, 0.2, 0.1, mass=1.0), ct.Free())
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Spherical(), parent="hull")
    m.add("slide", ct.point_mass(1.0), ct.Prismatic("x"), parent="ball")
    m.add("flap", ct.rod(0.2, mass=1.0), ct.Revolute("z", limits=(-0.3, 0.4)), parent="slide")
    handles = {handle.name: handle for handle in Posing(m).handles}
    assert {name: handle.unit for name, handle in handles.items()} == {
        **{f"hull.{turn}": "rad" for turn in ("roll", "pitch", "yaw")}, **{f"hull.{axis}": "m" for axis in "xyz"},
        **{f"ball.{turn}": "rad" for turn in ("roll", "pitch", "yaw")}, "slide": "m", "flap": "rad",
    }  # fmt: skip
    for name, handle in handles.items():
        far = handles["slide"].upper if handle.unit == "m" else np.pi / 2 if name.endswith("pitch") else np.pi
        assert (handle.lower, handle.upper) == ((-0.3, 0.4) if name == "flap" else (-far, far)), name
