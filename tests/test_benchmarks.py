"""Every benchmark runs, briefly: what is shipped works. Its figures decide nothing here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.brief

FOLDER = Path(__file__).parent.parent / "benchmarks"

#: The scripts, with what makes them brief; `machine.py` is what they share.
BRIEF = {
    "closed_robots.py": ("--quick",), "contact.py": ("--quick", "--film", "film.gif"),
    "derivatives.py": ("--quick",), "dynamics.py": ("--quick",), "environments.py": ("--quick",),
    "fingerprints.py": ("--examples", "pendulum,four-bar", "OUT"), "kinematics.py": ("--quick",),
    "ladder.py": ("--quick", "--most", "5"), "loops.py": ("--quick",),
    "methods.py": ("--quick", "--most", "16"), "operations.py": (), "operators.py": ("--quick",), "parameters.py": ("--quick",),
    "robots.py": (), "simulation.py": ("--quick",), "steps.py": ("--quick",), "symplectic.py": ("--quick",),
}  # fmt: skip


def test_every_script_is_listed() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == {*BRIEF, "machine.py"}


@pytest.mark.parametrize("name", BRIEF)
def test_a_benchmark_runs(name: str, tmp_path: Path) -> None:
    arguments = [str(tmp_path / "out.json") if argument == "OUT" else argument for argument in BRIEF[name]]
    done = subprocess.run([sys.executable, str(FOLDER / name), *arguments], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout or (tmp_path / "out.json").exists()
