"""Builds the package and tries it where nothing else is: `python tests/wheel.py DIST PYTHON...`, or `make wheel`.

The wheel is built of the source distribution, so that both are complete. Names and texts of the package index are checked by twine. For
every interpreter the wheel is installed with the extra `plot` into a new environment in a temporary folder, and called there: the command,
its demonstration, which draws, and `tests/test_smoke.py`.
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
    return run(commands / "python", "-I", "-W", "error", ROOT / "tests" / "test_smoke.py", cwd=empty)


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
