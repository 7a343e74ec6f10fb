"""Mutated and malformed URDF, YAML and MJCF files: each gives a model, or an error of catena that names file and line.

`CATENA_MUTATIONS=2000 pytest tests/test_malformed.py` tries so many of each kind, in place of 200.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.test_mjcf import CONNECT, GEARS, SECOND, bodies, linkage
from tests.test_mjcf import TREE as MJCF
from tests.test_urdf import LOOP, bars, frames
from tests.test_urdf import TREE as URDF

import catena as ct

pytestmark = pytest.mark.fuzz

COUPLING = '<coupling name="belt"><predecessor link="coupler"/><successor link="rocker"/><ratio value="3"/></coupling>'
SIDE = "closed_loop: [['end_A', 'end_B']]\ntype: ['3d']\nname_mot: ['ground-crank']\njoint_name: [ground-rocker]\njoint_type: [SPHERICAL]\n"

SEEDS = {
    "urdf": [URDF, bars(LOOP.format("revolute")), bars(COUPLING)],
    "yaml": [SIDE],
    "xml": [MJCF, linkage(CONNECT + SECOND + GEARS, 'type="free"'), bodies(more="<contact/>")],
}

#: What takes the place of a part of a file.
PIECES = [
    "", " ", '"', "<", ">", "/", "&", "&amp;", "&a;", "'", "\0", "\x07", "\ud800", "\n\n", "é", "０", "-", "0", "1e999", "nan", "inf",
    "-1", "1e-320", "1e300",
    "1_0", "0x10", "99999999999999999999", "ground", "base", "arm", "crank", "true", "<a>", "</a>", "<link/>", "<joint/>",
    "<robot>", "<!--", "-->", "<![CDATA[", "]]>", "<?x?>", '<!DOCTYPE a [<!ENTITY b "b">]>', "[", "]", "{", "}", "- ", ": ", "*a", "&a ",
    "!!python/object:os.system ", "%", "name=", 'name="arm"', "type=", "free", "ball", "fixed", "weld", "1 2 3", "0 0 0",
    '<include file="/dev/zero"/>', 'file="/"',
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, kind: str) -> bytes:
    """A file of a kind with up to six changes: parts taken out, put in, doubled or exchanged, or bytes of no encoding."""
    text = draw(st.sampled_from(SEEDS[kind]))
    for _ in range(draw(st.integers(1, 6))):
        tokens = [match.span() for match in re.finditer(r"[\w.+-]+|<[^<>]*>|\s+|.", text)]
        at = draw(st.integers(0, len(tokens) - 1))
        to = min(len(tokens) - 1, at + draw(st.sampled_from([0, 0, 0, 1, 3, 20])))
        start, end = tokens[at][0], tokens[to][1]
        match draw(st.sampled_from(["replace", "replace", "insert", "double", "exchange", "cut", "character"])):
            case "replace":
                text = text[:start] + draw(st.sampled_from(PIECES)) + text[end:]
            case "insert":
                text = text[:start] + draw(st.sampled_from(PIECES)) + text[start:]
            case "double":
                text = text[:end] + text[start:]
            case "exchange":
                other = draw(st.integers(0, len(tokens) - 1))
                text = text[:start] + text[slice(*tokens[other])] + text[end:]
            case "cut":
                text = text[:start]
            case "character":
                text = text[:start] + draw(st.characters()) + text[start + 1 :]
        if not text:
            break
    content = text.encode("utf-8", "surrogatepass")
    return content if draw(st.integers(0, 20)) else content[: len(content) // 2] + b"\xff\xfe" + content[len(content) // 2 :]


@pytest.mark.filterwarnings("ignore::catena.InertiaWarning")
@pytest.mark.parametrize("kind", SEEDS)
def test_mutated_file_gives_a_model_or_an_error_with_file_and_line(kind, tmp_path):
    file = tmp_path / ("robot.xml" if kind == "xml" else "robot.urdf")
    if kind == "yaml":
        file.write_text(frames())
    changed = file.with_suffix(f".{kind}")
    counts = {True: 0, False: 0}

    @settings(max_examples=int(os.environ.get("CATENA_MUTATIONS", "200")), deadline=10_000, derandomize=True, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(content=mutated(kind), ignore=st.sampled_from([(), ("contact", "actuator", "limits", "mimic", "equality")]))
    def check(content: bytes, ignore: tuple[str, ...]) -> None:
        changed.write_bytes(content)
        counts[assert_read(file, changed, ignore)] += 1

    check()
    assert min(counts.values()) > 0  # some are read, some are not


def assert_read(file: Path, changed: Path, ignore: tuple[str, ...]) -> bool:
    """Return whether a file gives a model, and check the error where it does not."""
    m = loaded(file, ignore)
    if isinstance(m, str):
        assert re.match(rf"{re.escape(str(changed.with_suffix('')))}\.(urdf|yaml|xml):\d+: ", m), m
        assert len(m) < 5000
        return False
    assert m.nv >= 0
    with contextlib.suppress(ct.ModelError):  # such as of a joint that moves no mass
        m.tree()
    return True


def loaded(file: Path, ignore: tuple[str, ...] = ()) -> ct.Model | str:
    """Return the model of a file, or what the error says."""
    try:
        return ct.load(file, ignore=ignore)
    except ct.ModelFileError as error:
        return str(error)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.urdf", b""), ("empty.xml", b""), ("space.urdf", b"  \n "), ("bytes.urdf", bytes(range(256))), ("only.urdf", b"<robot/>"),
        ("utf16.urdf", "<robot/>".encode("utf-16")), ("null.urdf", b"<robot>\0</robot>"), ("text.urdf", b"<robot>text</robot>"),
        ("only.xml", b"<mujoco/>"),
        ("laughs.urdf", b'<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><robot name="&b;"/>'),
        ("outside.urdf", b'<!DOCTYPE l [<!ENTITY a SYSTEM "file:///etc/passwd">]><robot name="&a;"/>'),
        ("attributes.urdf", b"<robot " + b" ".join(b'a%d="1"' % i for i in range(100_000)) + b"/>"),
        ("long.urdf", b'<robot name="' + b"a" * 10_000_000 + b'"><link/></robot>'),
        ("numbers.urdf", b'<robot><link name="a"><inertial><mass value="' + b"1 " * 3_000_000 + b'"/></inertial></link></robot>'),
        ("comment.urdf", b"<!--" + b"-" * 5_000_000), ("depth.xml", b"<mujoco>" + b"<body>" * 1_000_000),
        ("links.urdf", b"<robot>" + b"<link/>" * 1_000_000),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_malformed_file_gives_an_error_with_file_and_line(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    said = loaded(tmp_path / name)
    if name == "only.xml":  # a world without bodies
        assert isinstance(said, ct.Model)
        assert said.nv == 0
    else:
        assert isinstance(said, str)
        assert re.match(rf"{re.escape(str(tmp_path / name))}:\d+: ", said)
        assert len(said) < 5000


def test_long_circle_of_joints(tmp_path):
    count = 5000
    links = "".join(f'<link name="{i}"/>' for i in range(count + 1))
    joints = "".join(f'<joint name="{i}" type="fixed"><parent link="{i}"/><child link="{(i + 1) % count}"/></joint>' for i in range(count))
    (tmp_path / "robot.urdf").write_text(f"<robot>{links}{joints}</robot>")
    with pytest.raises(ct.ModelFileError, match="hangs on itself, in a circle"):
        ct.load(tmp_path / "robot.urdf")


def test_long_chain(tmp_path):
    count = 3000
    links = "".join(f'<link name="{i}"/>' for i in range(count + 1))
    joints = "".join(f'<joint name="{i}" type="fixed"><parent link="{i}"/><child link="{i + 1}"/></joint>' for i in reversed(range(count)))
    (tmp_path / "robot.urdf").write_text(f"<robot>{links}{joints}</robot>")
    assert len(ct.load(tmp_path / "robot.urdf").links) == count + 1
