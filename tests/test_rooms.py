"""The rooms of the house: imports go one way, read from the source by `docs/rooms.py`."""

from __future__ import annotations

import importlib.util
import re
import sys
from graphlib import CycleError
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parent.parent
_spec = importlib.util.spec_from_file_location("rooms", ROOT / "docs" / "rooms.py")
assert _spec is not None
assert _spec.loader is not None
rooms = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rooms)

#: Packages of others that belong to one room.
PRIVATE = {
    "llvmlite": "native", "platformdirs": "native", "msgspec": "files", "yaml": "files", "mujoco": "files", "typer": "cli",
    "viser": "view", "trimesh": "view", "PIL": "view", "xarray": "simulation", "casadi": "export", "jax": "export",
    "gymnasium": "environments",
}  # fmt: skip


def test_rooms_can_be_sorted_so_that_each_imports_those_before_it_only() -> None:
    graph = rooms.edges()
    ordered = rooms.order(graph)
    assert sorted(ordered) == sorted(graph)
    assert all(ordered.index(other) < ordered.index(room) for room, others in graph.items() for other in others)
    assert rooms.cycles(graph) == []


def test_contributing_lists_the_rooms_in_such_an_order() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\*\*`(\w+)(?:/|\.py)`\*\*", text, flags=re.MULTILINE)
    graph = rooms.edges()
    assert sorted(listed) == sorted(graph)
    for room, others in graph.items():
        assert all(listed.index(other) < listed.index(room) for other in others), f"{room} imports {others}, some of which come after it"


def test_the_one_exception_is_needed() -> None:
    path, targets = rooms.EXCEPTION
    there = {rooms.room_of(name) for _, name in rooms.imported(rooms.SOURCE / path)}
    assert set(targets) <= there


@pytest.mark.parametrize("path", rooms.modules(), ids=lambda path: path.relative_to(rooms.SOURCE).as_posix())
def test_packages_of_others_stay_in_their_room(path: Path) -> None:
    here = rooms.room(path)
    for line, name in rooms.imported(path):
        package = rooms.room_of(name)
        assert PRIVATE.get(package, here) == here, f"{path}:{line}: only {PRIVATE[package]} may import {package}"


def test_the_picture_shows_the_rooms_as_they_are() -> None:
    graph = rooms.edges()
    drawn = re.findall(r'text-anchor="end">(\w+)</text>', rooms.PICTURE.read_text(encoding="utf-8"))
    assert drawn == rooms.order(graph), "draw it again: python docs/rooms.py"


def test_the_walk_sees_all_kinds_of_imports_and_every_cycle(tmp_path: Path) -> None:
    """The walk itself: absolute, relative, renamed and inner imports."""
    for name in ("graph", "native", "model"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "cli.py").write_text("from catena import graph")
    (tmp_path / "__init__.py").write_text("")
    file = tmp_path / "graph" / "seen.py"
    file.write_text(
        "import llvmlite.ir as ir\nfrom catena.native import Kernel\nfrom . import scalar\nfrom ..model import tree\n"
        "from catena import cli\ndef f():\n    import numpy.linalg\n"
    )
    found = [rooms.room_of(name, tmp_path) for _, name in rooms.imported(file, tmp_path)]
    assert found == ["llvmlite", "native", "graph", "model", "cli", "numpy"]
    assert rooms.room(file, tmp_path) == "graph"
    graph = rooms.edges(tmp_path)
    assert graph == {"graph": {"native", "model", "cli"}, "native": set(), "model": set(), "cli": {"graph"}}
    assert rooms.cycles(graph) == [{"graph", "cli"}]
    with pytest.raises(CycleError):
        rooms.order(graph)


def test_no_room_has_the_name_of_a_package_of_others() -> None:
    assert not set(rooms.edges()) & sys.stdlib_module_names
