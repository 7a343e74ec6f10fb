"""The command `catena` says what the library says, in plain text and in JSON, and fails with one line."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import catena as ct
from catena import cli
from catena.examples import EXAMPLES

PLAIN = {"NO_COLOR": None, "FORCE_COLOR": None, "TTY_COMPATIBLE": None, "COLUMNS": None, "TERM": "xterm-256color"}


def run(*arguments, columns=None):
    """Return exit code, output and error output of a command."""
    result = CliRunner().invoke(cli.app, list(arguments), env={**PLAIN, "COLUMNS": columns and str(columns)})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def process(*arguments, **environment):
    """Return the finished process of a command, its output in a pipe."""
    clean = {key: value for key, value in os.environ.items() if key not in PLAIN}
    return subprocess.run(
        [sys.executable, "-m", "catena.cli", *arguments],
        capture_output=True, env={**clean, **environment}, timeout=300, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def demo():
    code, output, errors = run("demo")
    assert (code, errors) == (0, "")
    return output


def section(text, title):
    """Return the lines under a title, up to the next blank line."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(title))
    end = next((i for i in range(start, len(lines)) if not lines[i].strip()), len(lines))
    return [line.rstrip() for line in lines[start + 1 : end]]


# --- demo


def test_demo_shows_the_topology(demo):
    m = EXAMPLES["arm"]()
    rows = section(demo, "The model 'arm': 7 bodies, 7 degrees of freedom, 21.9 kg")
    assert rows[0].split() == ["body", "joint", "axis", "q", "v"]
    assert rows[1] == "ground"
    shown = [row.replace("└─", "").split() for row in rows[2:]]
    axes = ["z", "y", "z", "-y", "z", "y", "z"]
    assert shown == [[name, "revolute", axes[i], str(i), str(i)] for i, name in enumerate(m.body_names)]


def test_demo_finds_agreement(demo):
    rows = section(demo, "Agreement over 1,000 random states")
    differences = [float(row.split()[-1]) for row in rows[1:]]
    assert len(differences) == 3
    assert all(0.0 <= difference < 1e-11 for difference in differences)


def test_demo_would_find_disagreement():
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert cli._disagreement(a, a) == 0.0
    assert cli._disagreement(a, a + [[0.0, 0.0], [0.4, 0.0]]) == pytest.approx(0.1)


def test_demo_counts_the_operations_of_the_kernels(demo):
    rows = section(demo, "Operations for one state")
    kinds = rows[0].split()[1:]
    for row in rows[1:]:
        problem, method, *counts = re.fullmatch(r"(.*), (\S+)((?: +[\d,]+)+)", row).groups()
        kernel = getattr(ct, problem.replace(" ", "_"))(EXAMPLES["arm"](), method)
        numbers = [int(count.replace(",", "")) for count in counts[0].split()]
        assert dict(zip(kinds, numbers, strict=True)) == {
            **dict.fromkeys(kinds, 0), **kernel.operations, "total": sum(kernel.operations.values())
        }  # fmt: skip
    assert {row.split(",")[0] for row in rows[1:]} == {"forward dynamics", "inverse dynamics", "mass matrix"}


def test_demo_takes_times(demo):
    rows = section(demo, "Times on one core")
    assert len(rows) == 5
    for row in rows[1:]:
        found = re.fullmatch(r".* \d+\.\d\d s +(?:from cache|\d+\.\d\d s) +(\d+\.\d+) us +(\d+\.\d+) us", row)
        assert found, row
        single, batch = map(float, found.groups())
        assert 0.0 < single < 1e5
        assert 0.0 < batch < 1e5


def test_demo_is_plain_and_within_80_columns(demo):
    assert "\x1b" not in demo
    assert max(len(line.rstrip()) for line in demo.splitlines()) <= 80


def test_demo_ends_with_code_that_runs(demo, capsys):
    assert "\n".join(section(demo, "Try next, in Python")) == cli.NEXT
    exec(compile(cli.NEXT, "hint", "exec"), {})
    printed = np.array(capsys.readouterr().out.strip(" []\n").split(), dtype=float)
    state = np.full(7, 0.3), np.zeros(7), np.zeros(7)
    np.testing.assert_allclose(printed, ct.forward_dynamics(EXAMPLES["arm"]())(*state), rtol=1e-6)
    command = demo.rstrip().splitlines()[-1].partition(": catena ")[2].split()
    assert run(*command)[0] == 0


@pytest.mark.parametrize("columns", [50, 200])
def test_demo_on_other_widths(columns):
    code, output, _ = run("demo", columns=columns)
    assert code == 0
    code_lines = set(cli.NEXT.splitlines())
    assert max(len(line.rstrip()) for line in output.splitlines() if line not in code_lines) <= columns
    assert code_lines <= set(output.splitlines())  # not broken, so that it can be copied


def test_demo_without_unicode():
    done = process("demo", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "`- shoulder1" in done.stdout.decode("ascii")


# --- info


def test_info_without_argument_lists_the_examples():
    code, output, _ = run("info")
    assert code == 0
    for name, make in EXAMPLES.items():
        assert re.search(rf"^{name} +{len(make().links)} +{make().nv} +\S", output, re.M)
    listed = json.loads(run("info", "--json")[1])
    assert [entry["name"] for entry in listed] == list(EXAMPLES)
    assert all(entry["description"] for entry in listed)


@pytest.mark.parametrize("name", EXAMPLES)
def test_info_in_json_says_what_the_model_says(name):
    m = EXAMPLES[name]()
    code, output, _ = run("info", name, "--json")
    facts = json.loads(output)
    assert code == 0
    assert (facts["name"], facts["bodies"], facts["nq"], facts["nv"]) == (name, len(m.links), m.nq, m.nv)
    assert sum(facts["joints"].values()) == len(m.links)
    assert facts["mass"] == pytest.approx(sum(link.body.mass for link in m.links))
    assert facts["gravity"] == list(m.gravity)
    assert [c["name"] for c in facts["q"]] == list(m.q_names)
    assert [c["name"] for c in facts["v"]] == list(m.v_names)
    kernel = ct.forward_dynamics(m)
    assert facts["forward_dynamics"] == {
        "method": kernel.method, "operations": kernel.operations, "total": sum(kernel.operations.values())
    }  # fmt: skip


def test_info_of_the_humanoid_counts_depth_branches_and_units():
    facts = json.loads(run("info", "humanoid", "--json")[1])
    assert facts["depth"] == 4  # pelvis, thigh, shank, foot
    assert facts["branches"] == {"pelvis": 3, "torso": 3}
    assert facts["joints"] == {"free": 1, "spherical": 5, "universal": 3, "revolute": 4, "fixed": 2}
    assert facts["placements"]["dense"] == 6  # the free and the ball joints
    units = {c["name"]: c["unit"] for c in facts["v"]}
    assert (units["pelvis.wx"], units["pelvis.vx"], units["left shank"]) == ("rad/s", "m/s", "rad/s")
    assert {c["name"]: c["unit"] for c in facts["q"]}["pelvis.qw"] == ""


def test_info_of_the_gallery_names_options():
    facts = json.loads(run("info", "gallery", "--json")[1])
    assert facts["options"]["stiffness"] == ["drawer", "cardan", "ball"]
    assert facts["options"]["armature"] == ["screw"]
    output = run("info", "gallery")[1]
    assert "stiffness on 3" in output
    assert "friction smoothed over 0.02 rad/s or m/s" in " ".join(output.split())


def test_info_in_text_has_the_facts():
    code, output, _ = run("info", "humanoid")
    assert code == 0
    assert "\x1b" not in output
    text = " ".join(output.split())
    for part in (
        "joints free 1, spherical 5, universal 3, revolute 4, fixed 2", "freedom nq = 37, nv = 31", "mass 72.4 kg",
        "gravity (0, 0, -9.81) m/s^2", "options none", "branches pelvis (3), torso (3)", "36 right foot.angle2 rad",
        "30 right foot.angle2 rad/s",
    ):  # fmt: skip
        assert part in text


def test_info_of_a_file(tmp_path):
    file = tmp_path / "top.toml"
    EXAMPLES["top"]().save(file)
    from_file, example = (json.loads(run("info", where, "--json")[1]) for where in (str(file), "top"))
    assert from_file.pop("description") == f"from {file}"
    example.pop("description")
    assert from_file == example


def test_info_cuts_long_lists(tmp_path):
    m = ct.Model("crowd")
    for i in range(11):
        m.add(f"b{i}", ct.sphere(0.1, mass=1.0), ct.Free())
    m.save(tmp_path / "crowd.toml")
    output = run("info", str(tmp_path / "crowd.toml"))[1]
    assert "and 17 more; --json lists all" in output
    assert len(json.loads(run("info", str(tmp_path / "crowd.toml"), "--json")[1])["q"]) == 77


def test_names_are_printed_as_they_are(tmp_path):
    m = ct.Model("[bold]x[/bold] :smile:")
    m.add("[red]arm", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
    m.save(tmp_path / "m.toml")
    output = run("info", str(tmp_path / "m.toml"))[1]
    assert "[bold]x[/bold] :smile:" in output
    assert "[red]arm" in output


# --- help, version, errors


def test_version():
    assert run("--version") == (0, f"catena {ct.__version__}\n", "")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_has_examples(arguments):
    code, output, _ = run(*arguments)
    assert code == 0
    for line in ("catena demo", "catena info humanoid", "catena info arm.toml --json"):
        assert line in output
    for command in ("demo", "info"):
        code, output, _ = run(command, "--help")
        assert code == 0
        assert "Example" in output


ERRORS = [
    (["info", "amr"], "error: 'amr' is neither a built-in example nor a file; examples are arm, pendulum, "),
    (["info", "none.toml"], "error: none.toml: there is no such file"),
    (["info", "bad.toml"], "error: bad.toml:3: body[0].mass of 'a': body mass -1 is below 0; give 0 or more"),
    (["info", "arm.urdf"], "error: arm.urdf: a URDF file is not understood"),
    (["info", "empty.toml"], "error: model 'model' has no moving body"),
    (["info", "."], "error: .: this is a folder"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text('[[body]]\nname = "a"\nmass = -1\njoint = { type = "free" }\n')
    Path("empty.toml").write_text("")
    Path("arm.urdf").write_text("<robot/>")


@pytest.mark.parametrize(("arguments", "message"), ERRORS)
def test_error_is_one_line_and_exit_code_1(arguments, message, folder):
    code, output, errors = run(*arguments)
    assert (code, output) == (1, "")
    assert errors.startswith(message)
    assert errors.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--debug", "info", "none.toml"], ["info", "none.toml", "--debug"]])
def test_debug_shows_the_traceback(arguments, folder):
    with pytest.raises(ct.ModelFileError):
        run(*arguments)
    done = process(*arguments)
    assert done.returncode == 1
    assert b"Traceback" in done.stderr


@pytest.mark.parametrize("arguments", [["dmeo"], ["info", "--nope"], ["info", "arm", "more"], ["--nope"]])
def test_wrong_usage_is_exit_code_2(arguments):
    code, output, errors = run(*arguments)
    assert (code, output) == (2, "")
    assert errors.startswith("Usage: ")


def test_warning_is_one_line(folder):
    Path("odd.toml").write_text('[[body]]\nname = "a"\nmass = 1\ninertia = [1, 1, 5]\njoint = { type = "free" }\n')
    done = process("info", "odd.toml")
    assert done.returncode == 0
    assert re.fullmatch(r"warning: odd\.toml:1: body\[0\] of 'a': .* belongs to no real body .*\n", done.stderr.decode())


def test_name_that_the_terminal_cannot_show(folder):
    Path("name.toml").write_text('[[body]]\nname = "é"\nmass = 1\ninertia = [1, 1, 1]\njoint = { type = "free" }\n', encoding="utf-8")
    done = process("info", "name.toml", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert b"?.qw" in done.stdout


def test_command_is_installed():
    from importlib.metadata import entry_points

    (entry,) = entry_points(group="console_scripts", name="catena")
    assert entry.load() is cli.app
