"""What is imported, and when: the command and `import catena` wait for nothing that they do not need."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import catena as ct
from catena import public_names
from catena.cli.app import COMMANDS

pytestmark = pytest.mark.quick

SOURCE = Path(public_names.__file__).parent

#: Packages that take long to import, and not everyone who builds a model needs.
HEAVY = ("IPython", "casadi", "gymnasium", "jax", "llvmlite", "matplotlib", "multiprocessing", "mujoco", "rich", "scipy", "ssl", "trimesh",
         "typer", "viser", "xarray")  # fmt: skip


def printed(code: str) -> list[str]:
    """The words that code prints in a process of its own."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout.split()


def imported(code: str) -> set[str]:
    """The packages and the rooms of catena that code imports, in a process of its own, beyond those of the interpreter."""
    return {*printed(f"import sys\nbefore = {{*sys.modules}}\n{code}\nprint(*({{*sys.modules}} - before), sep='\\n')")}


def test_importing_catena_imports_none_of_its_rooms() -> None:
    modules = imported("import catena")
    assert {name for name in modules if name.startswith("catena")} == {"catena"}
    assert "numpy" not in modules


def test_public_names_import_no_package_that_kernels_runs_or_pictures_alone_need() -> None:
    modules = imported("import catena; catena.Model")
    assert "catena.public_names" in modules
    assert not {name.partition(".")[0] for name in modules} & {*HEAVY}


def test_facts_of_a_model_need_no_compiler() -> None:
    modules = imported("from catena.examples import arm; from catena.kernels.dynamics import forward_dynamics_graph as g; g(arm())")
    assert not {name.partition(".")[0] for name in modules} & {*HEAVY}


def test_the_help_imports_none_of_the_rooms_but_the_command() -> None:
    run = "from catena.cli import app\ntry:\n    app(['--help'], prog_name='catena')\nexcept SystemExit:\n    pass"
    modules = imported(run)
    rooms = {name.split(".")[1] for name in modules if name.startswith("catena.")}
    assert rooms == {"cli", "errors"}
    assert not {"numpy", "rich.console"} & modules


def test_commands_are_the_modules_that_enter_one() -> None:
    entering = {path.stem for path in (SOURCE / "cli").glob("*.py") if "@app.command" in path.read_text(encoding="utf-8")}
    assert {*COMMANDS} == entering


def test_catena_offers_every_public_name_however_it_is_asked_for() -> None:
    assert sorted(ct.__all__) == ct.__all__ == public_names.__all__
    assert {*dir(ct)} == {*ct.__all__, "__version__", "environments"}
    assert all(getattr(ct, name) is getattr(public_names, name) for name in ct.__all__)
    assert printed("from catena import *; print(simulate.__module__)") == ["catena.simulation.simulate"]
    assert printed("from catena import Model; print(Model.__module__)") == ["catena.facade"]
    assert printed("import catena.examples; print(catena.inverse_kinematics.__module__)") == ["catena.kinematic_targets.solve"]
    assert printed("import catena; print(catena.examples.__name__, catena.simulation.__name__)") == ["catena.examples", "catena.simulation"]


def test_public_names_are_imported_in_one_place_and_all_listed() -> None:
    tree = ast.parse((SOURCE / "public_names.py").read_text(encoding="utf-8"))
    names = [alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(names) == public_names.__all__


def test_no_room_has_the_name_of_a_public_name() -> None:
    """Importing the room would hide the name."""
    rooms = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert not rooms & {*ct.__all__}


def test_names_that_are_not_there_are_refused() -> None:
    for name in ("nonsense", "__wrapped__", "_private"):
        with pytest.raises(AttributeError, match=f"module 'catena' has no attribute '{name}'"):
            getattr(ct, name)


def test_a_pickle_loads_where_only_catena_is_imported(tmp_path: Path) -> None:
    file = tmp_path / "body.pickle"
    file.write_bytes(pickle.dumps([ct.Revolute("y"), ct.Target, ct.simulate]))
    words = printed(f"import catena, pickle; print(pickle.load(open({str(file)!r}, 'rb'))[0].kind)")
    assert words == ["revolute"]


def test_examples_of_a_module_run_alone() -> None:
    """A module `equilibrium` does not take the place of `ct.equilibrium`."""
    command = [sys.executable, "-m", "pytest", "-q", str(SOURCE / "analysis" / "equilibrium.py")]
    done = subprocess.run(command, cwd=SOURCE.parents[1], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
