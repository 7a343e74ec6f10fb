"""Builds the package and tries it where nothing else is: `python tests/wheel.py DIST PYTHON...`, or `make wheel`.

The wheel is built of the source distribution, so that both are complete. Names and texts of the package index are checked by twine. For
every interpreter the wheel is installed with the extra `plot` into a new environment in a temporary folder, and called there: the command,
its demonstration, and a mechanism that is described, compiled, checked, simulated, saved and loaded.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: Runs in the new environment, in an empty folder.
SMOKE = '''
import sys
from pathlib import Path

import numpy as np

import catena as ct
from catena.examples import four_bar

assert Path(ct.__file__).is_relative_to(sys.prefix), ct.__file__

# a thin rod of mass m and length l on a hinge at its end, level and at rest: vdot = (m g l / 2) / (m l^2 / 3)
m = ct.Model("rod")
m.add("rod", ct.rod(0.8, mass=2.0), ct.Revolute("y"))
assert abs(ct.forward_dynamics(m)([0.0], [0.0], [0.0])[0] - 1.5 * 9.81 / 0.8) < 1e-12

# released, it swings and keeps its energy
run = ct.simulate(m, [0.0], until=2.0)
energy = run.total_energy
assert abs(energy - energy[0]).max() < 1e-6 * 9.81
run.plot("rod.png")
assert Path("rod.png").stat().st_size > 1000

# a loop stays closed, and a file is the model
bar = four_bar()
run = ct.simulate(bar, bar.assemble(), until=1.0)
assert np.abs(run.loop_error).max() < 1e-9
bar.save("bar.toml")
assert ct.load("bar.toml").q_names == bar.q_names
print("catena", ct.__version__, "on Python", sys.version.split()[0], "with NumPy", np.__version__)
'''


def run(*command: str | Path, **options: object) -> str:
    """Return what a command prints; what it says of a failure is shown."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CATENA", "VIRTUAL_ENV"))}
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, env=environment, check=False, **options)  # type: ignore
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(map(str, command))} ended with {done.returncode}")
    return done.stdout


def environment(folder: Path, python: str, *packages: str) -> Path:
    """Return the folder of commands of a new environment with packages."""
    run(python, "-m", "venv", folder)
    commands = folder / ("Scripts" if os.name == "nt" else "bin")
    run(commands / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return commands


def built(dist: Path, folder: Path) -> Path:
    """Return the wheel, made by way of the source distribution; both are checked."""
    tools = environment(folder / "tools", sys.executable, "build", "twine")
    for old in dist.glob("catena-*"):
        old.unlink()
    run(tools / "python", "-m", "build", "--outdir", dist, ROOT)
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    print(run(tools / "twine", "check", "--strict", wheel, source), end="")
    packed = set(zipfile.ZipFile(wheel).namelist())
    files = (path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*") if path.is_file())
    kept = {path.as_posix() for path in files if "__pycache__" not in path.parts}
    missing = kept - packed
    more = {name for name in packed if not name.startswith("catena/") and ".dist-info/" not in name}
    assert not missing, f"the wheel lacks {sorted(missing)}"
    assert not more, f"the wheel has {sorted(more)} besides the package"
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "conftest.py", "tests/wheel.py", "docs/index.md", "CHANGELOG.md", "LICENSE"} <= names
    version = wheel.name.split("-")[1]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(version)}\]", changes, re.M), f"CHANGELOG.md has no section of {version}"
    return wheel


def tried(wheel: Path, python: str, folder: Path) -> str:
    """Return what the package says of itself in a new environment of an interpreter."""
    commands, empty = environment(folder / "environment", python, f"{wheel}[plot]"), folder / "empty"
    empty.mkdir()
    version = wheel.name.split("-")[1]
    assert version in run(commands / "catena", "--version", cwd=empty)
    run(commands / "catena", "demo", cwd=empty)
    assert (empty / "catena-demo.png").stat().st_size > 1000
    assert "crank" in run(commands / "catena", "info", "four-bar", cwd=empty)
    return run(commands / "python", "-I", "-W", "error", "-c", SMOKE, cwd=empty)


def main(dist: str, *pythons: str) -> None:
    """Build into a folder, and try the wheel on interpreters."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = built(Path(dist), Path(folder))
        for i, python in enumerate(pythons):
            place = Path(folder) / str(i)
            place.mkdir()
            print(tried(wheel.resolve(), python, place), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
