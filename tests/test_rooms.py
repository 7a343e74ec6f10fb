"""The rooms of the house: who may import whom (DESIGN §1), read from the source."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import catena

SOURCE = Path(catena.__file__).parent

#: What each room may import besides itself and Python's own library. A room is a module or a folder of catena.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "atomic": {"errors"},
    "spatial": {"numpy"},
    "dual": {"numpy"},
    "references": set(),
    "tolerances": set(),
    # graph: whether a user's function can be traced
    # assembly, mobility, view: `Model.assemble`, `Model.draw` and others call them, inside the method
    "model": {"spatial", "dual", "graph", "errors", "atomic", "assembly", "mobility", "view", "numpy", "msgspec", "tomli"}
    | {"yaml", "mujoco"},  # where files of other formats are read
    "formulations": {"spatial", "dual", "tolerances", "numpy"},
    "graph": {"numpy", "errors"},
    "native": {"graph", "errors", "numpy", "llvmlite", "platformdirs"},
    "registry": {"model", "kept", "formulations", "graph", "native", "closed", "errors", "references"},
    "iterative": {"formulations", "native", "errors", "numpy", "scipy"},
    "kept": {"model"},
    "scaling": {"model", "kept", "formulations", "numpy"},
    "loop_groups": {"model", "kept", "formulations", "graph", "native", "scaling", "tolerances", "numpy"},
    "assembly": {"model", "formulations", "scaling", "tolerances", "loop_groups", "spatial", "errors", "numpy"},
    "mobility": {"model", "kept", "formulations", "scaling", "tolerances", "assembly", "errors", "numpy", "scipy"},
    "tracing": {"model", "formulations", "graph", "native", "errors", "numpy"},
    "constrained": {"model", "formulations", "graph", "native", "scaling", "assembly", "mobility", "errors", "numpy"},
    "planning": {"model", "formulations", "scaling", "assembly", "mobility", "errors", "numpy"},
    "platforms": {"model", "kept", "formulations", "scaling", "assembly", "mobility", "errors", "numpy"},
    "closed": {"model", "formulations", "graph", "native", "scaling", "assembly", "mobility", "planning", "platforms", "tracing"}
    | {"constrained", "tolerances"}
    | {"errors", "numpy"},
    "reactions": {"model", "formulations", "native", "scaling", "assembly", "mobility", "tracing", "constrained", "closed", "spatial"}
    | {"tolerances", "errors", "numpy"},
    "reduced": {"model", "formulations", "graph", "native", "scaling", "assembly", "mobility", "tracing", "constrained", "closed", "errors"}
    | {"tolerances", "references", "numpy"},
    "kernels": {"model", "formulations", "graph", "native", "scaling", "assembly", "registry", "iterative", "tracing", "constrained"}
    | {"closed"}
    | {"reactions", "errors", "references", "numpy"},
    # catena: its version; casadi and jax are imported where they are asked for, by name
    "export": {"graph", "native", "constrained", "iterative", "errors", "atomic", "catena"},
    "spatial_operators": {"model", "kept", "formulations", "graph", "native", "errors", "references", "numpy", "scipy"},
    "examples": {"model", "numpy"},
    "comparison": {"model", "formulations", "native", "registry", "iterative", "kernels", "examples", "errors", "numpy"},
    # view: `Trajectory.plot` calls it, inside the method; matplotlib: the type of what it returns
    "simulation": {"model", "formulations", "graph", "native", "scaling", "assembly", "mobility", "planning", "closed", "registry"}
    | {"kernels", "tolerances"}
    | {"kept", "tracing", "spatial", "dual", "errors"}
    | {"atomic", "view"}
    | {"numpy", "scipy", "rich", "xarray", "matplotlib", "cloudpickle"},
    "parallel": {"model", "formulations", "native", "scaling", "assembly", "mobility", "tracing", "constrained", "closed", "platforms"}
    | {"reduced"}
    | {"spatial", "errors", "references", "numpy"},
    "control": {"model", "formulations", "graph", "scaling", "assembly", "tracing", "closed", "reduced", "simulation", "errors", "numpy"},
    "view": {"model", "assembly", "kernels", "simulation", "comparison", "spatial", "errors", "atomic", "numpy", "scipy", "matplotlib"}
    | {"PIL", "viser", "trimesh"},
    # the package itself: what `import catena` offers
    "catena": {"errors", "model", "graph", "control", "parallel", "reduced", "registry", "kernels", "native", "export", "simulation"}
    | {"spatial_operators"},
}

#: Rooms that may import everything, and that nothing may import.
LAST = {"cli", "__main__"}

#: Packages of others that belong to one room.
PRIVATE = {"llvmlite": "native", "platformdirs": "native", "msgspec": "model", "yaml": "model", "mujoco": "model", "typer": "cli"}
PRIVATE |= {"viser": "view", "trimesh": "view", "PIL": "view"}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room(path: Path) -> str:
    """The room of a source file."""
    first = path.relative_to(SOURCE).parts[0]
    return "catena" if first == "__init__.py" else first.removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and full name of every import of a file, also those inside functions; names as `catena.graph.Trace`."""
    package = ["catena", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{prefix}.{alias.name}") for alias in node.names)


def rooms_of(name: str) -> str:
    """The room or package that an imported name belongs to: `catena.graph.Trace` to `graph`, `numpy.linalg` to `numpy`."""
    first, *rest = name.split(".")
    if first != "catena":
        return first
    known = {*ALLOWED, *LAST}
    return rest[0] if rest and rest[0] in known else "catena"


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_imports_equal_the_table(path: Path) -> None:
    here = room(path)
    assert here in ALLOWED or here in LAST, f"{path.name} is in no room of the table; put it in one, or add its room to DESIGN §1 and here"
    for line, name in imported(path):
        there = rooms_of(name)
        if there == here or there in sys.stdlib_module_names or there == "__future__":
            continue
        assert there not in LAST, f"{path}:{line}: nothing may import {there}"
        assert PRIVATE.get(there, here) == here or here in LAST, f"{path}:{line}: only {PRIVATE[there]} may import {there}"
        if here in ALLOWED:
            assert there in ALLOWED[here], f"{path}:{line}: {here} may not import {there}"


def test_every_room_of_the_table_exists() -> None:
    found = {room(path) for path in modules()}
    assert set(ALLOWED) <= found


def test_the_walk_sees_all_kinds_of_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk itself: absolute, relative, renamed and inner imports."""
    monkeypatch.setattr(f"{__name__}.SOURCE", tmp_path)
    folder = tmp_path / "graph"
    folder.mkdir()
    file = folder / "seen.py"
    file.write_text(
        "import llvmlite.ir as ir\nfrom catena.native import Kernel\nfrom . import scalar\nfrom ..model import tree\n"
        "from catena import cli\ndef f():\n    import numpy.linalg\n"
    )
    assert [rooms_of(name) for _, name in imported(file)] == ["llvmlite", "native", "graph", "model", "cli", "numpy"]
    assert room(file) == "graph"
