"""Every benchmark runs, briefly: what is shipped works. Its figures decide nothing here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from catena import examples

pytestmark = pytest.mark.brief

FOLDER = Path(__file__).parent.parent / "benchmarks"

#: The scripts, with what makes them brief; the others measure nothing by themselves.
BRIEF = dict.fromkeys((
    "closed_robots.py", "cores.py", "derivatives.py", "dynamics.py", "environments.py", "kinematics.py", "ladder.py", "loops.py",
    "methods.py", "operations.py", "operators.py", "parameters.py", "scale.py", "simulation.py", "steps.py", "symplectic.py",
), ("--quick",)) | {
    "all.py": ("--quick", "--only", "contact", "--json", "OUT"), "contact.py": ("--quick", "--film", "film.gif"),
    "fingerprints.py": ("--examples", "pendulum,four-bar", "OUT"), "robots.py": (),
    "shelf.py": ("SHELF", "--seconds", "0.05", "--pictures", "pictures"),
}  # fmt: skip


WALKER = """<robot name="walker">
  <link name="base">
    <inertial><mass value="5"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>
    <collision><geometry><box size="0.4 0.3 0.1"/></geometry></collision>
  </link>
  <joint name="hip" type="revolute">
    <parent link="base"/> <child link="foot"/> <origin xyz="0 0 -0.1"/> <axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/>
  </joint>
  <link name="foot">
    <inertial><mass value="1"/><inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>
    <collision><geometry><box size="0.3 0.3 0.02"/></geometry></collision>
  </link>
</robot>"""
STATE = """<robot name="walker"><group_state name="standing" group="all">
  <joint name="root_joint" value="0 0 1 0 0 0 1"/> <joint name="hip" value="0.1"/>
</group_state></robot>"""


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """Return a folder of robots: one that floats, one that begins in the ground, one without shapes that touch, and a broken file."""
    folder = tmp_path / "shelf"
    for name, text in (
        ("walks/walker.urdf", WALKER), ("walks/walker.srdf", STATE), ("fixed/walker.urdf", WALKER), ("broken.urdf", "<robot name='x'>"),
        ("bare.urdf", WALKER.replace("collision", "visual")), ("scene.xml", "<scene/>"),
    ):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    examples.four_bar().save(folder / "four-bar.toml")
    return folder


def test_every_script_is_listed() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == {*BRIEF, "machine.py", "pages.py", "results.py", "tables.py"}


@pytest.mark.parametrize("name", BRIEF)
def test_a_benchmark_runs(name: str, tmp_path: Path, shelf: Path) -> None:
    stand_for = {"OUT": str(tmp_path / "out.json"), "SHELF": str(shelf)}
    arguments = [stand_for.get(argument, argument) for argument in BRIEF[name]]
    done = subprocess.run([sys.executable, str(FOLDER / name), *arguments], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout or (tmp_path / "out.json").exists()


def test_every_robot_of_a_shelf_has_a_row(shelf: Path, tmp_path: Path) -> None:
    table = tmp_path / "shelf.md"
    script = [sys.executable, str(FOLDER / "shelf.py"), str(shelf), "--seconds", "1", "--markdown", str(table)]
    subprocess.run(script, capture_output=True, check=True)
    rows = {cells[1]: cells for line in table.read_text().splitlines()[2:] if (cells := [cell.strip() for cell in line.split("|")])}
    assert list(rows) == ["bare.urdf", "broken.urdf", "fixed/walker.urdf", "four-bar.toml", "walks/walker.urdf"]
    assert rows["bare.urdf"][12] == "at rest (no shapes that touch)"
    assert "not well-formed" in rows["broken.urdf"][12] or "XML" in rows["broken.urdf"][12]
    assert rows["fixed/walker.urdf"][12] == "at rest (ground lowered by 0.12 m)"
    assert rows["walks/walker.urdf"][2] == "free"
    assert rows["walks/walker.urdf"][11:13] == ["only lost", "at rest"]
    assert abs(float(rows["walks/walker.urdf"][8]) - 0.01 - 0.1 * np.cos(0.1)) < 2e-3  # the foot lies flat, and the base leans by 0.1 rad
