"""The files of an MJCF model: those that it includes and names are found as MuJoCo finds them, in the folders of the model only."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import mujoco
import pytest
from tests.test_malformed import assert_read
from tests.test_mjcf import TREE, assert_equals_mujoco

import catena as ct
from catena.files import mesh_files

pytestmark = [pytest.mark.evaluated, pytest.mark.quick]

#: A pyramid that lies askew, so that its place tells which file was read.
PYRAMID = "v 0 0 0\nv {0} 0 0\nv 0 1 0\nv 0 0 2\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"

ROBOT = '<mujoco><option><flag contact="disable"/></option>{}<worldbody>{}</worldbody></mujoco>'
BODY = '<body name="b"><joint name="j" axis="0 1 0"/><geom type="mesh" mesh="m"/></body>'
PART = "<mujocoinclude>{}</mujocoinclude>"
BALL = '<body name="{0}"><joint name="{0}"/><geom size="0.{1}"/></body>'


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "robot.xml"


def mesh(file: str, more: str = "") -> str:
    return f'{more}<asset><mesh name="m" file="{file}"/></asset>'


MESHES = {"m.obj": PYRAMID.format(1), "sub/m.obj": PYRAMID.format(3), "sub/n.obj": PYRAMID.format(5), "sub/sub/m.obj": PYRAMID.format(7)}
INNER = ROBOT.format(mesh("m.obj", '<compiler meshdir="sub"/>'), BODY)
ATTACHED = '<asset><model name="s" file="sub/inner.xml"/></asset>'

#: The mesh that is meant, what stands in robot.xml, and more files.
LAYOUTS = {
    "beside": ("m.obj", mesh("m.obj"), {}),
    "without a name": ("m.obj", '<asset><mesh file="m.obj"/></asset>', {}),
    "meshdir": ("sub/m.obj", mesh("m.obj", '<compiler meshdir="./sub/"/>'), {}),
    "meshdir after the mesh": ("sub/m.obj", mesh("m.obj") + '<compiler meshdir="sub"/>', {}),
    "meshdir of two compilers": ("sub/m.obj", mesh("m.obj", '<compiler meshdir="sub"/><compiler angle="radian"/>'), {}),
    "assetdir": ("sub/n.obj", mesh("n.obj", '<compiler assetdir="sub"/>'), {}),
    "strippath": ("sub/n.obj", mesh("nowhere/n.obj", '<compiler meshdir="sub" strippath="true"/>'), {}),
    "dots": ("m.obj", mesh("../m.obj", '<compiler meshdir="sub"/>'), {}),
    "backslash": ("sub/m.obj", mesh("sub\\m.obj"), {}),
    "included": ("sub/n.obj", '<include file="sub/part.xml"/>', {"sub/part.xml": PART.format(mesh("n.obj"))}),
    "included, of the first file": ("m.obj", '<include file="sub/part.xml"/>', {"sub/part.xml": PART.format(mesh("m.obj"))}),
    "an included compiler": ("sub/n.obj", '<include file="c.xml"/>' + mesh("n.obj"), {"c.xml": PART.format('<compiler meshdir="sub"/>')}),
}




@pytest.mark.parametrize("layout", LAYOUTS)
def test_meshes_are_those_that_mujoco_finds(layout, tmp_path):
    meant, head, more = LAYOUTS[layout]
    file = written(tmp_path, {**MESHES, **more, "robot.xml": ROBOT.format(head, BODY)})
    m = ct.load(file)
    assert_equals_mujoco(file, m)
    (look,) = m.links[0].body.geometry
    assert mesh_files.find(look.file, m.folder) == tmp_path / meant  # as the view does


def test_parts_that_include_parts_and_models_within_models_equal_mujoco(tmp_path):
    parts = {
        "sub/part.xml": PART.format(BALL.format("x", 1) + '<include file="inner.xml"/><include file="both.xml"/>'),
        "sub/inner.xml": PART.format(BALL.format("y", 2)), "both.xml": PART.format(BALL.format("z", 3)),
        "sub/both.xml": PART.format(BALL.format("w", 4)),
    }  # fmt: skip
    file = written(tmp_path / "a", {**parts, "robot.xml": ROBOT.format("", '<include file="sub/part.xml"/>')})
    m = ct.load(file)
    assert m.body_names == ("x", "y", "z")
    assert_equals_mujoco(file, m)
    outer = ROBOT.format(ATTACHED, '<attach model="s" body="b" prefix="p"/>')
    file = written(tmp_path / "b", {**MESHES, "sub/inner.xml": INNER, "robot.xml": outer})
    m = ct.load(file)
    assert m.body_names == ("pb",)
    assert m.links[0].body.geometry[0].file == "sub/sub/m.obj"
    assert_equals_mujoco(file, m)


def test_errors_of_mujoco_name_the_line_of_the_included_file(tmp_path):
    file = written(tmp_path, {"robot.xml": ROBOT.format("", '<include file="part.xml"/>'), "part.xml": PART.format("\n\n<bdy/>")})
    with pytest.raises(ct.ModelFileError, match=r"part\.xml:3: MuJoCo does not take the file: .*bdy"):
        ct.load(file)


def test_names_are_what_they_are_in_mujoco(tmp_path):
    names = ("a'b", "a&quot;b&amp;&lt;&gt;", "a&#10;b&#9;c", "日本")
    file = written(tmp_path, {"robot.xml": ROBOT.format("", "".join(BALL.format(name, 1) for name in names))})
    model = mujoco.MjModel.from_xml_path(str(file))
    assert ct.load(file).body_names == tuple(model.body(i).name for i in range(1, model.nbody))


def test_textures_and_skins_are_not_read(tmp_path):
    textures = '<texture name="t" type="2d" file="none.png"/><texture name="u" type="2d" builtin="flat" width="9000" height="9000"/>'
    materials = '<material name="paint" texture="t" rgba="0.5 0.25 0 1"/><skin file="none.skn"/>'
    body = BALL.format("b", 1).replace("<geom", '<geom material="paint"')
    m = ct.load(written(tmp_path, {"robot.xml": ROBOT.format(f"<asset>{textures}{materials}</asset>", body)}))
    assert m.links[0].body.geometry[0].colour == (0.5, 0.25, 0.0)


def test_a_height_field_of_too_many_points_is_refused(tmp_path):
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (30_000).to_bytes(4, "big") * 2 + b"\x08\0\0\0\0"
    (tmp_path / "h.png").write_bytes(header)
    field = '\n<asset><hfield name="h" file="h.png" size="1 1 1 1"/></asset>'
    with pytest.raises(ct.ModelFileError, match=r"robot\.xml:2: hfield 'h': file 'h\.png' has more than 10,000,000 points"):
        ct.load(written(tmp_path, {"robot.xml": ROBOT.format(field, "")}))


OUTSIDE = {
    "include": ("", '<include file="{}/part.xml"/>'),
    "mesh": (mesh("{}/m.obj"), BODY),
    "meshdir": (mesh("m.obj", '<compiler meshdir="{}"/>'), BODY),
    "model": ('<asset><model name="s" file="{}/model.xml"/></asset>', '<attach model="s" body="a" prefix="p"/>'),
    "flexcomp": ("", '<flexcomp name="f" type="mesh" dim="2" file="{}/m.obj"/>'),
}


@pytest.mark.parametrize("kind", OUTSIDE)
@pytest.mark.parametrize("way", ["absolute", "dots", "link"])
def test_files_outside_of_the_package_are_not_opened_unless_their_folder_is_named(kind, way, tmp_path, monkeypatch):
    away = tmp_path / "away"
    ball = BALL.format("a", 1)
    written(away, {"part.xml": PART.format(ball), "m.obj": PYRAMID.format(1), "model.xml": ROBOT.format("", ball)})
    path = {"absolute": str(away), "dots": "../../away", "link": "linked"}[way]
    head, body = OUTSIDE[kind]
    file = written(tmp_path / "above" / "here", {"robot.xml": ROBOT.format(head.format(path), body.format(path))})
    (file.parent / "linked").symlink_to(away)
    with pytest.raises(ct.ModelFileError, match=r"robot\.xml:1: .* is outside of the package of the model file, and not opened"):
        ct.load(file)
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(away))
    assert ct.load(file, ignore="unsupported").nv == (12 if kind == "flexcomp" else 1)  # a flexible body's points are bodies


def test_a_file_that_makes_mujoco_fail_does_not_stand_in_the_way_of_the_next_one(tmp_path):
    equality = '<equality><connect anchor="" body1="x" body2="y"/></equality>'
    bad = ROBOT.replace("</mujoco>", f"\n{equality}</mujoco>").format("", BALL.format("x", 1) + BALL.format("y", 1))
    written(tmp_path, {"bad.xml": bad, "robot.xml": TREE})
    code = """\
import catena as ct
for file in ("bad.xml", "bad.xml", "robot.xml"):
    try:
        print(ct.load(file).nv)
    except ct.ModelFileError as error:
        print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    first, second, nv = ran.stdout.splitlines()
    assert re.match(r"bad\.xml:2: MuJoCo does not take the file: ", first)
    assert first == second
    assert int(nv) == 15


@pytest.mark.parametrize("value", ["", " ", "nan", "0 0"])
def test_any_attribute_that_says_nothing_gives_a_model_or_an_error_with_file_and_line(value, tmp_path):
    text = TREE.replace("</worldbody>", '</worldbody>\n<equality><connect name="c" anchor="0 0 0" body1="arm" body2="cart"/></equality>')
    for attribute in re.finditer(r'"([^"]*)"', text):
        changed = text[: attribute.start(1)] + value + text[attribute.end(1) :]
        written(tmp_path, {"robot.xml": changed})
        assert_read(tmp_path / "robot.xml", tmp_path / "robot.xml", ("unsupported",))


def test_numbers_that_are_none_are_refused_before_mujoco_compiles_them(tmp_path):
    """With a gravity of NaN, MuJoCo compiled without end."""
    written(tmp_path, {"robot.xml": re.sub(r'gravity="[^"]*"', 'gravity="nan 0 0"', TREE)})
    with pytest.raises(ct.ModelFileError, match=r"robot\.xml:\d+: .*gravity 'nan 0 0' is not a number; give finite numbers"):
        ct.load(tmp_path / "robot.xml")
