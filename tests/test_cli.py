"""The command `catena` says what the library says, in plain text and in JSON, and fails with one line."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.mechanisms import SHARED
from typer.testing import CliRunner

import catena as ct
from catena import cli, comparison
from catena.cli.app import COMMANDS
from catena.examples import EXAMPLES
from catena.formulations import METHODS
from catena.references import REFERENCES
from catena.simulation import settings
from catena.spatial import rotation

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


@pytest.fixture(autouse=True)
def _examples_are_made_once(monkeypatch):
    monkeypatch.setattr(cli.info, "EXAMPLES", SHARED)


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory):
    """The folder in which the demonstration ran."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def demo(demo_folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(demo_folder)
        code, output, errors = run("demo")
    assert (code, errors) == (0, "")
    return output


def section(text, title):
    """Return the lines under a title, up to the next blank line."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(title))
    end = next((i for i in range(start, len(lines)) if not lines[i].strip()), len(lines))
    return [line.rstrip() for line in lines[start + 1 : end]]


def unbroken(lines):
    """Return the lines of a table; a name that ends with a slash goes on in the line below, and is put together."""
    return re.sub(r"^(\S+/) (.*)\n  (\S+)$", r"\1\3 \2", "\n".join(lines), flags=re.M).splitlines()


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
    assert comparison.disagreement(a, a) == 0.0
    assert comparison.disagreement(a, a + [[0.0, 0.0], [0.4, 0.0]]) == pytest.approx(0.1)


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
    assert "\n".join(section(demo, "Try next, in Python")) == cli.demo.NEXT
    exec(compile(cli.demo.NEXT, "hint", "exec"), {})
    printed = np.array(capsys.readouterr().out.strip(" []\n").split(), dtype=float)
    state = np.full(7, 0.3), np.zeros(7), np.zeros(7)
    np.testing.assert_allclose(printed, ct.forward_dynamics(EXAMPLES["arm"]())(*state), rtol=1e-6)
    command = demo.rstrip().splitlines()[-1].partition(": catena ")[2].split()
    assert run(*command)[0] == 0


def test_demo_simulates_and_draws(demo, demo_folder):
    rows = dict(row.split(maxsplit=1) for row in section(demo, "Simulation of 'double-pendulum', 10 s"))
    again = ct.simulate(EXAMPLES["double-pendulum"](), cli.demo.START, until=cli.demo.UNTIL)
    assert rows["steps"] == f"{again.info['steps']:,}, and {again.info['rejected']:,} rejected"
    assert float(rows["energy"].split()[1]) == pytest.approx(np.abs(again.energy_change).max(), rel=0.1)
    assert 0.0 < float(re.search(r"([\d.]+) us a step", rows["time"])[1]) < 1e4
    assert rows["picture"] == "catena-demo.png, in the current folder"
    assert [path.name for path in demo_folder.iterdir()] == ["catena-demo.png"]
    assert_is_picture(demo_folder / "catena-demo.png")


def assert_is_picture(path):
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(content[i : i + 4], "big") for i in (16, 20))
    assert 600 <= width <= 4000
    assert 400 <= height <= 6000
    assert 20_000 < len(content) < 2_000_000


@pytest.mark.parametrize("trouble", ["no matplotlib", "no place"])
def test_demo_goes_on_without_a_picture(trouble, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if trouble == "no matplotlib":
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    else:
        Path("catena-demo.png").mkdir()
    code, output, errors = run("demo")
    assert (code, errors) == (0, "")
    text = " ".join(output.split())
    assert "picture none: " + ("plots need matplotlib" if trouble == "no matplotlib" else "catena-demo.png: ") in text
    assert "Try next" in text


@pytest.mark.parametrize("columns", [50, 200])
def test_demo_on_other_widths(columns, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, output, _ = run("demo", columns=columns)
    assert code == 0
    code_lines = {*cli.demo.NEXT.splitlines(), output.rstrip().splitlines()[-1]}
    assert max(len(line.rstrip()) for line in output.splitlines() if line not in code_lines) <= columns
    assert code_lines <= set(output.splitlines())  # not broken, so that it can be copied


def test_demo_without_unicode(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = process("demo", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "`- shoulder1" in done.stdout.decode("ascii")


# --- info


def freedom(m):
    return m.mobility().freedom if m.has_loops else m.nv


@pytest.mark.evaluated
def test_info_without_argument_lists_the_examples():
    code, output, _ = run("info")
    assert code == 0
    for name, make in SHARED.items():
        assert re.search(rf"^{name} +{len(make().links)} +{make().nv} +{freedom(make())} +\S", output, re.M)
    listed = json.loads(run("info", "--json")[1])
    assert [entry["name"] for entry in listed] == list(EXAMPLES)
    assert [entry["freedom"] for entry in listed] == [freedom(make()) for make in SHARED.values()]
    assert all(entry["description"] for entry in listed)


@pytest.mark.evaluated
@pytest.mark.parametrize("name", EXAMPLES)
def test_info_in_json_says_what_the_model_says(name):
    m = SHARED[name]()
    code, output, _ = run("info", name, "--json")
    facts = json.loads(output)
    assert code == 0
    assert (facts["name"], facts["bodies"], facts["nq"], facts["nv"]) == (name, len(m.links), m.nq, m.nv)
    assert facts["freedom"] == freedom(m)
    assert [(loop["name"], loop["joint"], loop["a"], loop["b"]) for loop in facts["loops"]] == [
        (loop.name, loop.joint.kind, loop.a, loop.b) for loop in m.loops
    ]
    assert (facts["mobility"] is not None) == m.has_loops
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
        "joints free 1, spherical 5, universal 3, revolute 4, fixed 2", "freedom 31 degrees of freedom; nq = 37, nv = 31", "mass 72.4 kg",
        "gravity (0, 0, -9.81) m/s^2", "options none", "branches pelvis (3), torso (3)", "36 right foot.angle2 rad",
        "30 right foot.angle2 rad/s",
    ):  # fmt: skip
        assert part in text


def test_info_of_a_mechanism_with_loops():
    facts = json.loads(run("info", "jansen-leg", "--json")[1])
    assert facts["freedom"] == 1
    assert facts["loops"][2] == {
        "name": "F", "joint": "revolute", "a": "strut", "b": "shin", "base": "ground", "bodies": ["strut", "thigh", "lever", "shin"],
        "constraints": 5,
    }  # fmt: skip
    assert facts["mobility"] == {
        "constraints": 15, "redundant": 9, "independent": ["crank"], "dependent": list(EXAMPLES["jansen-leg"]().v_names[1:]),
        "coupled": [["C", "E", "F"]],
    }  # fmt: skip
    output = run("info", "jansen-leg")[1]
    text = " ".join(output.split())
    for part in (
        "freedom 1 degree of freedom; nq = 7, nv = 7", "constraints 15, of which 9 redundant", "independent crank",
        "dependent upper rod, thigh, lower rod, lever, strut, shin", "coupled C, E, F",
    ):  # fmt: skip
        assert part in text
    assert section(output, "Loops")[1:] == [
        "C     revolute   ground  upper rod, crank, thigh              5",
        "E     revolute   ground  lower rod, crank, lever              5",
        "F     revolute   ground  strut, thigh, lever, shin            5",
    ]
    assert "Loops" not in run("info", "arm")[1]


def geared():
    m = ct.Model("geared")
    m.add("table", ct.cylinder(0.1, 0.5, mass=10.0), ct.Revolute("z"))
    m.add("pinion", ct.cylinder(0.05, 0.1, mass=1.0), ct.Revolute("z"), parent="table")
    m.add("wheel", ct.cylinder(0.05, 0.2, mass=4.0), ct.Revolute("z"), parent="table", at=(0.3, 0, 0))
    m.add("slide", ct.sphere(0.1, mass=1.0), ct.Cylindrical("z"))
    m.add("bob", ct.sphere(0.1, mass=2.0), ct.Spherical(), parent="table", at=(0, 0, -1))
    m.couple("mesh", {"pinion": 1.0, "wheel": 2.0})
    m.couple("rack", {"slide.shift": 1.0, "wheel": -0.5}, offset=0.25)
    m.couple("lock", {"table": 1.0}, offset=0.5)
    return m


def test_info_names_couplings_and_what_shares_joints_with_what(tmp_path):
    geared().save(tmp_path / "geared.toml")
    facts = json.loads(run("info", str(tmp_path / "geared.toml"), "--json")[1])
    assert facts["couplings"] == [
        {"name": "mesh", "coefficients": {"pinion": 1, "wheel": 2}, "offset": 0},
        {"name": "rack", "coefficients": {"slide.shift": 1, "wheel": -0.5}, "offset": 0.25},
        {"name": "lock", "coefficients": {"table": 1}, "offset": 0.5},
    ]
    assert (facts["loops"], facts["freedom"], facts["mobility"]["coupled"]) == ([], 5, [["mesh", "rack"], ["lock"]])
    assert "table" in facts["mobility"]["dependent"]
    text = " ".join(run("info", str(tmp_path / "geared.toml"))[1].split())
    assert "couplings mesh (1 pinion + 2 wheel = 0); rack (1 slide.shift - 0.5 wheel = 0.25); lock (1 table = 0.5)" in text
    assert "coupled mesh, rack mass" in text


def test_info_of_a_file(tmp_path):
    file = tmp_path / "top.toml"
    EXAMPLES["top"]().save(file)
    from_file, example = (json.loads(run("info", where, "--json")[1]) for where in (str(file), "top"))
    assert from_file.pop("description") == f"from {file}"
    example.pop("description")
    assert from_file == example


def test_info_names_limits_springs_and_forces(tmp_path):
    m = EXAMPLES["double-pendulum"]()
    last = m.body_names[-1]
    m.add("slide", ct.sphere(0.1, mass=1.0), ct.Cylindrical(limits=[None, (-0.5, None)]), parent=last)
    m.add_spring("coil", "ground", "slide", at_a=(0, 0, 1), stiffness=5.0)
    m.add_frame("eye", "slide", at=(0.1, 0, 0))
    m.save(tmp_path / "sprung.toml")
    facts = json.loads(run("info", str(tmp_path / "sprung.toml"), "--json")[1])
    assert facts["limits"] == {"slide.shift": [-0.5, None]}
    assert facts["springs"] == [
        {
            "name": "coil", "a": "ground", "b": "slide", "at_a": [0, 0, 1], "at_b": [0, 0, 0], "stiffness": 5, "damping": 0, "length": 0,
            "cubic": 0, "slack": False,
        }
    ]  # fmt: skip
    assert facts["forces"] == []
    assert [(frame["name"], frame["body"], frame["at"][0][3]) for frame in facts["frames"]] == [("eye", "slide", 0.1)]
    text = " ".join(run("info", str(tmp_path / "sprung.toml"))[1].split())
    for part in ("frames eye (on slide)", "limits slide.shift -0.5..inf", "springs coil (ground to slide)", "forces none"):
        assert part in text


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


# --- parameters


@pytest.mark.evaluated
def test_info_lists_the_parameters_of_the_library():
    m = EXAMPLES["four-bar"]()
    listed = json.loads(run("info", "four-bar", "--parameters", "--json")[1])
    assert [entry["path"] for entry in listed] == list(m.parameters())
    for entry, known in zip(listed, m.parameters().values(), strict=True):
        assert (entry["value"], entry["unit"], entry["follows"]) == (known.value.tolist(), known.unit, "")
    text = run("info", "four-bar", "--parameters")[1]
    assert re.search(r"^gravity +0,0,-9\.81 +m/s\^2 *$", text, re.M)
    assert re.search(r"^rocker\.inertia +0,0\.09,0\.09 \(diagonal\) +kg m\^2 *$", text, re.M)


def test_info_says_what_parameters_follow(tmp_path):
    m = ct.Model("pendulum")
    length = m.parameter("length", 0.5)
    m.add("arm", ct.point_mass(2.0, at=(length, 0, 0)), ct.Revolute("y"))
    m.save(tmp_path / "m.toml")
    file = str(tmp_path / "m.toml")
    assert re.search(r"^arm\.com +0\.5,0,0 +m +length *$", run("info", file, "--parameters")[1], re.M)
    listed = json.loads(run("info", file, "--parameters", "--json", "--set-parameter", "length=0.7")[1])
    assert {entry["path"]: entry["value"] for entry in listed if entry["path"] in ("length", "arm.com")} == {
        "length": 0.7, "arm.com": [0.7, 0.0, 0.0]
    }  # fmt: skip
    code, _, errors = run("info", file, "--set-parameter", "arm.com=1,0,0")
    assert (code, errors) == (1, "error: --set-parameter: 'arm.com' follows length; name length instead\n")


@pytest.mark.parametrize(("given", "values"), [
    (["arm.mass=500g"], {"arm.mass": 0.5}),
    (["arm.mass=3", "arm.mass=2"], {"arm.mass": 2.0}),
    (["gravity=0,0,-1.62"], {"gravity": [0.0, 0.0, -1.62]}),
    (["gravity.z=-1.62", "gravity.x=1"], {"gravity": [1.0, 0.0, -1.62]}),
    (["arm.at=0,10cm,0,0,0,90deg"], {"arm.at": [0.0, 0.1, 0.0, 0.0, 0.0, np.pi / 2]}),
    (["arm.at.y=10cm", "arm.at.yaw=90deg"], {"arm.at.xyz": [0.0, 0.1, 0.0], "arm.at.rpy": [0.0, 0.0, np.pi / 2]}),
    (["arm.inertia=0.1,0.2,0.2"], {"arm.inertia": np.diag([0.1, 0.2, 0.2])}),
    (["arm.inertia=0.1,0.01,0,0.01,0.2,0,0,0,0.2"], {"arm.inertia": [[0.1, 0.01, 0.0], [0.01, 0.2, 0.0], [0.0, 0.0, 0.2]]}),
    (["arm.inertia=1,1,1", "arm.inertia.xy=0.1"], {"arm.inertia": [[1.0, 0.1, 0.0], [0.1, 1.0, 0.0], [0.0, 0.0, 1.0]]}),
])  # fmt: skip
def test_set_parameter_is_with_values(given, values):
    options = [word for setting in given for word in ("--set-parameter", setting)]
    listed = json.loads(run("info", "pendulum", "--parameters", "--json", *options)[1])
    built = EXAMPLES["pendulum"]().with_values(values)
    for entry in listed:
        np.testing.assert_allclose(entry["value"], built.parameters()[entry["path"]].value, atol=1e-15, err_msg=entry["path"])


def test_simulate_takes_other_numbers(tmp_path):
    file = str(tmp_path / "run.npz")
    found = summary("four-bar", "--set", "crank=60deg", "--set-parameter", "pin.at_b.x=650mm", "--set-parameter", "rocker.mass=5",
                    "--until", "0.2", "--save", file)  # fmt: skip
    m = EXAMPLES["four-bar"]().with_values({"pin.at_b.xyz": [0.65, 0.0, 0.0], "rocker.mass": 5.0})
    expected = ct.simulate(m, m.assemble(crank=np.radians(60.0)), until=0.2)
    assert list(found["q"].values()) == expected.q[-1].tolist()
    assert ct.Trajectory.load(file).model.links[2].body.mass == 5.0


@pytest.mark.evaluated
def test_other_commands_take_other_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = ["--set-parameter", "arm.mass=3", "--json"]
    for name, arguments in (("bench", ["--seconds", "0"]), ("compare", ["--states", "2"])):
        seen = []
        module = getattr(comparison, name)
        monkeypatch.setattr(comparison, name, lambda m, *rest, module=module, seen=seen, **more: seen.append(m) or module(m, *rest, **more))
        assert run(name, "pendulum", *arguments, *other)[0] == 0
        assert seen[0].links[0].body.mass == 3.0
    assert run("export", "c", "pendulum", *other)[0] == 0
    heavy = Path("pendulum_forward_dynamics.c").read_text()
    ct.export_c(ct.forward_dynamics(EXAMPLES["pendulum"]().with_values({"arm.mass": 3.0})), tmp_path)
    assert Path("pendulum_forward_dynamics.c").read_text() == heavy
    assert run("export", "c", "pendulum", "--json")[0] == 0
    assert Path("pendulum_forward_dynamics.c").read_text() != heavy
    drawn = []
    monkeypatch.setattr(ct.Model, "draw", lambda m, path, q: drawn.append(m.links[0].at.p.tolist()))
    assert run("view", "pendulum", "--picture", "p.png", "--set-parameter", "arm.at.x=0.5", "--json")[0] == 0
    assert drawn == [[0.5, 0.0, 0.0]]


# --- simulate


def summary(*arguments):
    """Return what `simulate --json` prints."""
    code, output, errors = run("simulate", *arguments, "--json")
    assert (code, errors) == (0, "")
    return json.loads(output)


def test_simulate_is_the_run_of_the_library():
    m = EXAMPLES["double-pendulum"]()
    expected = ct.simulate(m, np.radians([-45.0, 30.0]), [0.0, np.pi], until=2.0, rtol=1e-6, atol=1e-9)
    found = summary(
        "double-pendulum", "--set", "upper=-45deg", "--set", "lower=30deg", "--set-velocity", "lower=30rpm",
        "--until", "2000ms", "--rtol", "1e-6", "--atol", "1e-9",
    )  # fmt: skip
    assert list(found["q"].values()) == pytest.approx(expected.q[-1].tolist(), rel=1e-12)
    assert list(found["v"].values()) == pytest.approx(expected.v[-1].tolist(), rel=1e-12)
    assert list(found["q"]) == list(m.q_names)
    assert list(found["v"]) == list(m.v_names)
    assert (found["start"], found["end"], found["stopped"]) == (0.0, 2.0, "end")
    for key in ("integrator", "method", "steps", "rejected"):
        assert found[key] == expected.info[key]
    assert found["samples"] == len(expected)
    assert found["energy"]["start"] == pytest.approx(expected.total_energy[0])
    assert found["energy"]["change"] == pytest.approx(np.abs(expected.energy_change).max(), rel=1e-6)
    assert found["energy"]["changed_by"] == []
    assert (found["freedom"], found["loop_error"], found["switches"]) == (2, None, 0)
    assert found["files"] == {}


def test_simulate_with_fixed_steps_and_another_method():
    options = ["--step", "10ms", "--integrator", "midpoint", "--method", "composite-body", "--record", "20"]
    found = summary("pendulum", "--until", "1", *options)
    assert (found["steps"], found["samples"]) == (100, 6)
    assert (found["integrator"], found["method"]) == ("midpoint", "composite-body")
    expected = ct.simulate(EXAMPLES["pendulum"](), [0.0], until=1.0, step=0.01, integrator="midpoint")
    assert found["q"]["arm"] == pytest.approx(expected["arm"][-1], rel=1e-12)


def test_simulate_records_at_times(tmp_path):
    file = tmp_path / "run.npz"
    assert summary("pendulum", "--until", "0.35", "--record", "100ms", "--save", str(file))["samples"] == 4
    np.testing.assert_allclose(ct.Trajectory.load(file).t, [0.0, 0.1, 0.2, 0.3], atol=1e-12)
    assert summary("pendulum", "--until", "0.3", "--record", "0.1s")["samples"] == 4  # 3 * 0.1 is a little more than 0.3


def test_simulate_begins_at_random_but_for_what_is_set(tmp_path):
    m = EXAMPLES["arm"]()
    (q, v), (same, _), (other, _) = (start(tmp_path, "arm", "--random", seed) for seed in ("7", "7", "8"))
    np.testing.assert_array_equal(q, same)
    assert (q != other).all()
    q_set, v_set = start(tmp_path, "arm", "--random", "7", "--set", "wrist=0.25", "--set-velocity", "elbow=-2")
    np.testing.assert_array_equal(q_set, np.where(np.array(m.q_names) == "wrist", 0.25, q))
    assert v_set[m.v_names.index("elbow")] == -2.0
    assert (v_set != 0.0).all()
    assert (v != 0.0).all()


def test_a_random_start_moves_at_a_speed_that_fits_the_size(tmp_path):
    """The fastest body, by the Jacobians, at the speed after a fall of a twentieth of the size; models of other sizes move alike."""
    speeds = {}
    for length in (0.1, 1.0):
        m = EXAMPLES["arm"]()
        m.scale(length)
        m.save(tmp_path / "arm.toml")
        q, v = start(tmp_path, str(tmp_path / "arm.toml"), "--random", "3")
        points = [ct.jacobian(m, link.name, point=point)(q)[3:] @ v for link in m.links for point in (link.body.com, (0, 0, 0))]
        speeds[length] = max(np.linalg.norm(points, axis=1))
    assert 0.5 < speeds[1.0] < 1.5
    np.testing.assert_allclose(speeds[0.1], np.sqrt(0.1) * speeds[1.0], rtol=1e-6)


def test_a_random_start_keeps_to_largest_velocities(tmp_path):
    m = ct.Model("slow")
    m.add("arm", ct.rod(1.0, mass=1.0), ct.Revolute("y", velocity=0.2))
    m.save(tmp_path / "slow.toml")
    np.testing.assert_allclose(np.abs(start(tmp_path, str(tmp_path / "slow.toml"), "--random", "0")[1]), 0.2)


def test_the_base_of_a_floating_robot_is_held_where_it_starts_at_random_in_the_air():
    m = EXAMPLES["humanoid"]()
    base = m.links[0].name
    short = ("humanoid", "--until", "0.001")
    found = summary(*short, "--random", "0")
    assert found["held"] == base
    assert found["freedom"] == m.nv - 6
    assert summary(*short)["held"] is None
    assert summary(*short, "--random", "0", "--free-base")["freedom"] == m.nv
    assert summary(*short, "--hold-base")["held"] == base
    output = run("simulate", *short, "--random", "0")[1]
    assert f"{base} is held; --free-base lets it move" in output
    assert "random (seed 0), bodies at up to" in output
    code, _, errors = run("simulate", "arm", "--hold-base")
    assert code == 1
    assert "has no free body that carries others" in errors


def test_a_robot_that_touches_the_ground_is_not_held(tmp_path):
    m = ct.Model("hopper")
    m.add("trunk", ct.box(0.2, 0.2, 0.2, mass=5.0), ct.Free())
    m.add("leg", ct.rod(0.3, mass=1.0, axis="z"), ct.Revolute("y"), parent="trunk", at=(0, 0, -0.4))
    m.home = [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.1]
    for contacts, held in ((False, "trunk"), (True, None)):
        if contacts:
            m.add_contact("floor", "trunk")
        m.save(tmp_path / "hopper.toml")
        found = summary(str(tmp_path / "hopper.toml"), "--random", "0", "--until", "0.001")
        assert (found["held"], found["freedom"]) == (held, m.nv - 6 * (held is not None))


def start(tmp_path, *arguments):
    """Return the state with which a run of the command begins."""
    file = tmp_path / "start.npz"
    summary(*arguments, "--until", "0.001", "--save", str(file))
    run = ct.Trajectory.load(file)
    return run.q[0], run.v[0]


def test_simulate_closes_loops_first_and_is_the_run_of_the_library():
    m = EXAMPLES["four-bar"]()
    q = m.assemble(crank=np.pi / 3)
    v = m.project_velocity(q, crank=np.pi)
    expected = ct.simulate(m, q, v, until=2.0)
    arguments = ["four-bar", "--set", "crank=60deg", "--set-velocity", "crank=30rpm", "--until", "2"]
    found = summary(*arguments)
    assert list(found["q"].values()) == pytest.approx(expected.q[-1].tolist(), rel=1e-9)
    assert list(found["v"].values()) == pytest.approx(expected.v[-1].tolist(), rel=1e-9)
    assert (found["freedom"], found["switches"]) == (1, 0)
    assert 0.0 < found["loop_error"] < 1e-12
    text = " ".join(run("simulate", *arguments)[1].split())
    for part in ("four-bar: 1 degree of freedom", f"loops closure residual up to {found['loop_error']:.1e} m or rad State"):
        assert part in text


def test_what_is_set_is_held_where_loops_are_closed(tmp_path):
    """Zero as well, although it is what coordinates are that are not set; all others follow."""
    m = EXAMPLES["four-bar"]()
    q, v = start(tmp_path, "four-bar", "--set", "crank=0", "--set-velocity", "crank=0")
    np.testing.assert_allclose(q, m.assemble(crank=0.0), atol=1e-12)
    assert (q[0], v.tolist()) == (0.0, [0.0, 0.0, 0.0])
    q, v = start(tmp_path, "four-bar", "--set", "rocker=1.5", "--set-velocity", "rocker=0.5")
    assert q[2] == pytest.approx(1.5, abs=1e-12)
    np.testing.assert_allclose(v, m.project_velocity(q, rocker=0.5), rtol=1e-9)
    q, v = start(tmp_path, "four-bar")
    np.testing.assert_allclose(q, m.assemble(), atol=1e-12)


def test_whole_joints_are_held_and_ball_joints_are_a_guess(tmp_path):
    m = geared()
    m.save(tmp_path / "geared.toml")
    model = str(tmp_path / "geared.toml")
    settings_ = ["--set", "slide=90deg,150mm", "--set", "bob.rpy=0,20deg,0", "--set-velocity", "bob=0,0,3", "--set-velocity", "slide=1,2"]
    q, v = start(tmp_path, model, *settings_)
    at = dict(zip(m.q_names, q.tolist(), strict=True))
    assert (at["slide.angle"], at["slide.shift"]) == pytest.approx((np.pi / 2, 0.15))
    assert (at["wheel"], at["pinion"], at["table"]) == pytest.approx((-0.2, 0.4, 0.5))
    assert (at["bob.qw"], at["bob.qy"]) == pytest.approx((np.cos(np.radians(10)), np.sin(np.radians(10))))
    rates = dict(zip(m.v_names, v.tolist(), strict=True))
    assert (rates["bob.wz"], rates["slide.angle"], rates["slide.shift"]) == pytest.approx((3.0, 1.0, 2.0))
    assert (rates["wheel"], rates["pinion"], rates["table"]) == pytest.approx((4.0, -8.0, 0.0))
    m = EXAMPLES["quarter-car"]()
    q, _ = start(tmp_path, "quarter-car", "--set", "knuckle.rpy=0,5deg,0")
    np.testing.assert_allclose(q, m.assemble(settings.position(m, ["knuckle.rpy=0,5deg,0"])), atol=1e-10)


def test_a_random_start_closes_the_loops(tmp_path):
    m = EXAMPLES["watt"]()
    q, v = start(tmp_path, "watt", "--random", "5")
    assert np.abs(ct.loop_error(m)(q)).max() < 1e-12
    np.testing.assert_allclose(m.project_velocity(q, v), v, atol=1e-12)
    assert np.abs(v).max() > 0.1
    q, v = start(tmp_path, "watt", "--random", "5", "--set", "crank=20deg", "--set-velocity", "crank=2")
    assert np.abs(ct.loop_error(m)(q)).max() < 1e-12
    np.testing.assert_allclose([q[m.q_names.index("crank")], v[m.v_names.index("crank")]], [np.radians(20.0), 2.0])


def test_a_random_start_keeps_to_the_limits(tmp_path):
    """A crank whose rocker has stops: the loops are closed between them, and beyond them no state begins."""
    m = ct.Model("stopped four-bar")
    m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y"))
    m.add("coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
    m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y", limits=(-2.4, -0.6)), at=(1, 0, 0))
    m.add("arm", ct.rod(0.6, mass=3.0), ct.Revolute("y", limits=(0.5, 0.7)), at=(2, 0, 0))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.6, 0, 0))
    m.save(tmp_path / "stopped.toml")
    for arguments in ([], *(["--random", str(seed)] for seed in range(6))):
        q, _ = start(tmp_path, str(tmp_path / "stopped.toml"), *arguments)
        assert -2.4 <= q[2] <= -0.6
        assert 0.5 <= q[3] <= 0.7


def test_simulate_and_view_begin_at_home(tmp_path):
    m = EXAMPLES["four-bar"]()
    m.home = m.assemble(-m.assemble(crank=1.0))
    m.save(tmp_path / "home.toml")
    q, _ = start(tmp_path, str(tmp_path / "home.toml"))
    np.testing.assert_allclose(q, m.home, atol=1e-12)
    arm = EXAMPLES["arm"]()
    arm.home = arm.random(3)
    arm.save(tmp_path / "arm.toml")
    q, _ = start(tmp_path, str(tmp_path / "arm.toml"), "--set", "wrist=0.25")
    np.testing.assert_allclose(q, np.where(np.array(arm.q_names) == "wrist", 0.25, arm.home), atol=1e-12)


def test_tolerance_of_loops_is_an_option(tmp_path):
    m = ct.Model("open four-bar")
    m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y"))
    m.add("coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
    m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), at=(1, 0, 0))
    m.close("pin", ct.Spherical(), "coupler", "rocker", at_a=(1, 0, 0), at_b=(0.6, 0.001, 0))
    file = str(tmp_path / "open.toml")
    m.save(file)
    code, _, errors = run("info", file)
    assert code == 1
    assert "load it with tolerance=0.002" in errors
    facts = json.loads(run("info", file, "--tolerance", "0.002", "--json")[1])
    assert facts["freedom"] == 1
    assert any("takes up" in note for note in facts["notes"])


def test_simulate_tells_how_often_other_constraints_took_over(monkeypatch):
    simulate = ct.simulate

    def restless(*arguments, **options):
        done = simulate(*arguments, **options)
        return ct.Trajectory(done.model, done.t, done.q, done.v, info={**done.info, "switches": 1234})

    monkeypatch.setattr(ct, "simulate", restless)
    assert summary("four-bar", "--until", "0.1")["switches"] == 1234
    assert "; the set of dependent coordinates changed 1,234 times" in " ".join(run("simulate", "four-bar", "--until", "0.1")[1].split())


def test_a_linkage_that_begins_at_a_special_place_has_the_freedom_that_it_has_elsewhere(tmp_path):
    """Flat, a parallelogram could go on in two ways."""
    m = ct.Model("parallelogram")
    m.add("crank", ct.rod(0.4, mass=1.0), ct.Revolute("y"))
    m.add("coupler", ct.rod(1.0, mass=2.0), ct.Revolute("y"), parent="crank", at=(0.4, 0, 0))
    m.add("rocker", ct.rod(0.4, mass=1.0), ct.Revolute("y"), at=(1.0, 0, 0))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.4, 0, 0))
    done = ct.simulate(m, m.assemble([0.1, -0.1, 0.1], crank=0.1), until=0.1)
    q = done.q.copy()
    q[0] = 0.0
    assert m.mobility(q[0]).freedom == 2
    assert cli.simulate._summary(ct.Trajectory(m, done.t, q, done.v, info=done.info), None, {})["freedom"] == 1


def test_simulate_knows_what_changes_the_energy(tmp_path):
    m = EXAMPLES["double-pendulum"]()
    m.add("slide", ct.sphere(0.1, mass=1.0), ct.Prismatic(damping=1.0, friction=0.1, limits=(-1, 1e-4)), parent=m.body_names[-1])
    m.add_spring("coil", "ground", "slide", stiffness=5.0, damping=0.1)
    m.save(tmp_path / "m.toml")
    arguments = [str(tmp_path / "m.toml"), "--until", "0.1"]
    assert summary(*arguments)["energy"]["changed_by"] == ["damping", "friction", "stops", "damped springs"]
    assert "% (dissipated by damping, friction, stops and damped springs)" in " ".join(run("simulate", *arguments)[1].split())


def test_simulate_in_text_says_what_it_says_in_json(tmp_path):
    arguments = ["top", "--set", "top.rpy=20deg,0,0", "--set-velocity", "top=0,0,1500rpm", "--until", "0.5"]
    found = summary(*arguments)
    code, output, errors = run("simulate", *arguments)
    assert (code, errors) == (0, "")
    text = " ".join(output.split())
    for part in (
        "top: 3 degrees of freedom", "time 0 to 0.5 s", f"steps {found['steps']:,}, and {found['rejected']:,} rejected (dormand-prince, ",
        f"{found['samples']:,} samples", f"energy change {found['energy']['change']:.1e}", "State at 0.5 s",
        f"top.qw {found['q']['top.qw']:.6g} ", "top.wz 157.08 rad/s",
    ):  # fmt: skip
        assert part in text
    assert "\x1b" not in output


def test_simulate_cuts_long_lists(tmp_path):
    m = ct.Model("crowd")
    for i in range(6):
        m.add(f"b{i}", ct.sphere(0.1, mass=1.0), ct.Free())
    m.save(tmp_path / "crowd.toml")
    assert "and 18 more; --json lists all" in run("simulate", str(tmp_path / "crowd.toml"), "--until", "0.1")[1]


def test_simulate_goes_on_from_a_checkpoint(tmp_path):
    arguments = ["pendulum", "--set", "arm=30deg", "--step", "10ms"]
    summary(*arguments, "--until", "1", "--checkpoint", str(tmp_path / "run.npz"))
    longer, whole = (summary(*arguments, "--until", "2", *more) for more in (["--resume", str(tmp_path / "run.npz")], []))
    assert {**longer, "seconds": 0.0} == {**whole, "seconds": 0.0}


def test_simulate_draws_and_saves(tmp_path, monkeypatch):
    pytest.importorskip("xarray")
    monkeypatch.chdir(tmp_path)
    arguments = ["cart-pole", "--set", "pole=10deg", "--until", "1", "--plot", "p.png", "--save", "s.nc", "--csv", "c.csv"]
    found = summary(*arguments)
    assert found["files"] == {"plot": "p.png", "save": "s.nc", "csv": "c.csv"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.csv", "p.png", "s.nc"]
    assert_is_picture(tmp_path / "p.png")
    loaded = ct.Trajectory.load("s.nc")
    assert loaded.model.body_names == EXAMPLES["cart-pole"]().body_names
    assert loaded.q[0].tolist() == [0.0, np.radians(10.0)]
    assert dict(zip(loaded.q_names, loaded.q[-1].tolist(), strict=True)) == found["q"]
    head, *rows = Path("c.csv").read_text().splitlines()
    assert head.startswith("t [s],q cart [m],q pole [rad],")
    assert len(rows) == len(loaded) == found["samples"]
    assert "--plot p.png --save s.nc --csv c.csv" in " ".join(run("simulate", *arguments)[1].split())


def test_simulate_draws_what_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = []
    plot = ct.Trajectory.plot
    monkeypatch.setattr(ct.Trajectory, "plot", lambda self, path, what=None: asked.append(what) or plot(self, path, what))
    summary("four-bar", "--until", "0.1", "--plot", "p.png", "--what", "q, energy,phase")
    assert asked == [["q", "energy", "phase"]]
    assert_is_picture(tmp_path / "p.png")


def test_run_that_fails_is_saved_up_to_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, output, errors = run("simulate", "arm", "--step", "1s", "--set", "elbow=1", "--until", "100", "--save", "s.npz", "--json")
    assert code == 1
    assert errors.splitlines()[-1].startswith("error: simulate 'arm': the state is not finite after t = ")
    assert "error.trajectory" not in errors
    found = json.loads(output, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert found["stopped"] == "error"
    assert ct.Trajectory.load("s.npz").t[-1] == found["end"] < 100.0


def test_interrupted_run_is_saved_and_exit_code_130(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    simulate = ct.simulate

    def interrupted(*arguments, **options):
        done = simulate(*arguments, **options)
        return ct.Trajectory(done.model, done.t, done.q, done.v, info={**done.info, "stopped": "interrupted"})

    monkeypatch.setattr(ct, "simulate", interrupted)
    code, output, _ = run("simulate", "pendulum", "--until", "1", "--save", "s.npz")
    assert code == 130
    assert "stopped: interrupted" in output
    assert Path("s.npz").exists()


@pytest.mark.parametrize("package", ["matplotlib", "xarray"])
def test_missing_package_is_named_before_the_run(package, tmp_path, monkeypatch):
    monkeypatch.setattr(cli.simulate.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(ct, "simulate", lambda *_, **__: pytest.fail("the run began"))
    option = {"matplotlib": "--plot=a.png", "xarray": "--save=a.nc"}[package]
    code, output, errors = run("simulate", "arm", option)
    assert (code, output) == (1, "")
    assert re.fullmatch(rf'error: .* needs {package}, which is not installed; pip install "catena\[\w+\]"\n', errors)


# --- compare


@pytest.fixture(scope="module")
def measured():
    """A comparison and a growth, measured once: times differ from run to run."""
    return comparison.compare(EXAMPLES["arm"](), states=20, seconds=0.0), comparison.growth([2, 3, 4], seconds=0.0)


@pytest.fixture
def fixed(measured, monkeypatch):
    """Let the command find what was measured already, and record what it asked for."""
    asked = []
    for name, value in zip(("compare", "growth"), measured, strict=True):
        monkeypatch.setattr(comparison, name, lambda *given, name=name, value=value, **options: asked.append((name, *given)) or value)
    return asked


def number(text):
    return float(text.replace(",", "").rstrip("*"))


@pytest.mark.evaluated
@pytest.mark.parametrize(("columns", "cached"), [(None, False), (200, True)])
def test_compare_in_text_has_the_figures_of_json(columns, cached, fixed, measured, monkeypatch):
    found, _ = measured
    found = dataclasses.replace(found, rows=(*found.rows[:-1], dataclasses.replace(found.rows[-1], cached=cached)))
    monkeypatch.setattr(comparison, "compare", lambda *given, **options: found)
    code, output, errors = run("compare", "arm", columns=columns)
    assert (code, errors) == (0, "")
    facts = json.loads(run("compare", "arm", "--json")[1])
    assert [row["method"] for row in facts["rows"]] == [row.method for row in found.rows]
    assert (facts["model"], facts["bodies"], facts["freedom"], facts["growth"], facts["files"]) == ("arm", 7, 7, None, {})
    text = " ".join(output.split())
    for problem, reference in comparison.REFERENCE.items():
        rows = {}
        for line in unbroken(section(output, problem.replace("_", " ").capitalize() + ", 20 random states")):
            shown = re.fullmatch(r"(\S+) +(O\(\S+\)) +(\S+) +(\S+) +(\S+) +(\S+) +(\S+)", line)
            if shown:
                rows[shown[1]] = shown.groups()[1:]
        listed = [row for row in facts["rows"] if row["problem"] == problem]
        assert len(rows) == len(listed)
        for row in listed:
            order, differs, operations, single, batch, build = rows[row["method"]]
            assert order == row["order"]
            if row["method"] == reference:
                assert differs == "reference"
            else:
                assert float(differs) == pytest.approx(row["disagreement"], rel=0.06)
            for text_of, value in ((operations, row["operations"]), (single, row["single_us"]), (batch, row["batch_us"])):
                assert number(text_of) == pytest.approx(value, rel=6e-3)
            assert number(build) == pytest.approx(row["build_seconds"], abs=6e-3)
            assert build.endswith("*") == row["cached"]
            if row["iterations"] is not None:
                told = f"{row['method']}, on 8 states: {row['iterations']:.1f} iterations on average, residual up to {row['residual']:.1e}"
                assert told in text
    for choice in facts["automatic"]:
        assert f"auto takes {choice['method']}: {choice['why']}" in text
    for peer in facts["peers"]:
        assert f"Pinocchio's {peer['function']} differs by {peer['disagreement']:.1e}, on 8 states" in text
    assert (f"Pinocchio is not compared: {facts['no_peer']}" in text) == (not facts["peers"])
    assert "armstrong does not fit: all joints must be spherical, and that of 'shoulder1' is not" in text
    assert ("* with code from the cache" in text) == any(row["cached"] for row in facts["rows"])
    assert "\x1b" not in output
    assert max(len(line.rstrip()) for line in output.splitlines()) <= (columns or 80)


def test_compare_measures_what_the_library_measures(tmp_path):
    EXAMPLES["double-pendulum"]().save(tmp_path / "m.toml")
    code, output, errors = run("compare", str(tmp_path / "m.toml"), "--states", "5", "--seed", "3", "--json")
    assert (code, errors) == (0, "")
    facts = json.loads(output)
    expected = comparison.compare(EXAMPLES["double-pendulum"](), states=5, seed=3, seconds=0.0)
    assert facts["seed"] == 3
    for row, again in zip(facts["rows"], expected.rows, strict=True):
        for key in ("problem", "method", "order", "states", "disagreement", "operations", "iterations", "residual"):
            assert row[key] == getattr(again, key), key


@pytest.mark.evaluated
def test_compare_takes_the_problems_that_are_named(fixed):
    run("compare", "pendulum", "--what", "mass-matrix, forward-dynamics-derivatives")
    run("compare", "pendulum")
    assert [given[4] for given in fixed] == [("mass_matrix", "forward_dynamics_derivatives"), tuple(comparison.REFERENCE)]


@pytest.mark.evaluated
def test_compare_notes_what_did_not_converge(measured, monkeypatch):
    found, _ = measured
    rows = tuple(dataclasses.replace(row, note="2 of 8 states stayed" if row.iterations else "", residual=np.nan) for row in found.rows)
    monkeypatch.setattr(comparison, "compare", lambda *_, **__: dataclasses.replace(found, rows=rows))
    assert "; 2 of 8 states stayed" in " ".join(run("compare", "arm")[1].split())
    facts = json.loads(run("compare", "arm", "--json")[1], parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert {row["residual"] for row in facts["rows"]} == {None}


@pytest.mark.evaluated
def test_compare_draws_and_tells_the_growth(fixed, measured, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, grown = measured
    code, output, errors = run("compare", "arm", "--plot", "growth.png", "--seed", "4")
    assert (code, errors) == (0, "")
    assert_is_picture(tmp_path / "growth.png")
    assert ("growth", comparison.sizes(128), 4) in fixed
    facts = json.loads(run("compare", "arm", "--plot", "growth.png", "--json")[1])
    assert facts["files"] == {"plot": "growth.png"}
    shown = unbroken(section(output, "Growth of forward dynamics, chains of 2 to 4 bodies")[1:])
    rows = {row.split()[0]: row.split()[1:] for row in shown}
    for line, given in zip(facts["growth"]["lines"], grown.lines, strict=True):
        assert line == json.loads(json.dumps(dataclasses.asdict(given)))
        time, operations, *exact = rows[line["method"]]
        assert (time, operations) == (f"n^{line['time_exponent']:.2f}", f"n^{line['operations_exponent']:.2f}")
        coefficients = facts["growth"]["polynomials"].get(line["method"])
        assert " ".join(exact) == ("" if coefficients is None else cli.compare.polynomial_text(tuple(coefficients)))
    crossings = section(output, "Cheaper from this number of bodies on")[1:]
    assert len(crossings) == 3
    assert len(facts["growth"]["crossings"]) == 6
    for row, one in zip(crossings, grown.crossings, strict=False):
        assert row.split()[:2] == [one.cheaper, one.than]
        assert cli.compare.crossing_text(one) in row
    assert output.rstrip().endswith("--plot  growth.png")


@pytest.mark.evaluated
def test_compare_measures_growth_without_a_picture(fixed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, output, _ = run("compare", "arm", "--most", "24")
    assert code == 0
    assert ("growth", comparison.sizes(24), 0) in fixed
    assert "Growth of forward dynamics" in output
    assert list(tmp_path.iterdir()) == []
    fixed.clear()
    assert "Growth" not in run("compare", "arm")[1]
    assert [name for name, *_ in fixed] == ["compare"]


@pytest.mark.parametrize(
    ("bodies", "between", "text"),
    [(6.42, (6, 8), "6.4 (6 to 8)"), (None, (None, 2), "from 2, the least"), (None, (128, None), "not up to 128")],
)
def test_crossing_in_words(bodies, between, text):
    assert cli.compare.crossing_text(comparison.Crossing("operations", "a", "b", bodies, between)) == text


@pytest.mark.evaluated
def test_compare_shows_on_a_terminal_what_it_does(measured, monkeypatch):
    def slow(*_, report, **__):
        report("building the [bold]kernels")
        return measured[0]

    monkeypatch.setattr(comparison, "compare", slow)
    result = CliRunner().invoke(cli.app, ["compare", "arm", "--json"], env={**PLAIN, "FORCE_COLOR": "1", "COLUMNS": "120"})
    assert "building the [bold]kernels" in result.stderr
    assert json.loads(result.stdout)["model"] == "arm"


def test_compare_without_matplotlib_is_refused_before_measuring(monkeypatch):
    monkeypatch.setattr(cli.simulate.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(comparison, "compare", lambda *_, **__: pytest.fail("the measuring began"))
    code, output, errors = run("compare", "arm", "--plot", "a.png")
    assert (code, output) == (1, "")
    assert errors == 'error: --plot a.png: this needs matplotlib, which is not installed; pip install "catena[plot]"\n'


# --- cite


@pytest.mark.parametrize("method", METHODS)
def test_cite_prints_the_reference_of_a_method(method):
    assert run("cite", method) == (0, "\n\n".join(REFERENCES[key] for key in METHODS[method].references) + "\n", "")


def test_every_reference_has_the_fields_that_bibtex_requires():
    required = {
        "article": {"author", "title", "journal", "year"}, "book": {"author", "title", "publisher", "year"},
        "inproceedings": {"author", "title", "booktitle", "year"}, "unpublished": {"author", "title", "note", "year"},
    }  # fmt: skip
    for key, entry in REFERENCES.items():
        kind, named = re.match(r"@(\w+)\{(\w+),", entry).groups()
        fields = dict(re.findall(r"^  (\w+) *= \{(.+?)\},$", entry, re.MULTILINE | re.DOTALL))
        assert named == key
        assert required[kind] <= fields.keys()
        assert entry.count("{") == entry.count("}")


def test_cite_prints_every_reference_once():
    code, output, errors = run("cite")
    assert (code, errors) == (0, "")
    keys = list(dict.fromkeys(key for method in METHODS.values() for key in method.references))
    assert re.findall(r"^@\w+\{(\w+),$", output, re.M) == keys
    named = [name for line in output.splitlines() if line.startswith("% ") for name in line[2:].split(", ")]
    assert sorted(named) == sorted(name for name, method in METHODS.items() for _ in method.references)
    for key in keys:
        assert REFERENCES[key] in output


# --- settings


def all_joints():
    return EXAMPLES["gallery"]()


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_coordinate_can_be_set_by_its_name(name):
    m = EXAMPLES[name]()
    rng = np.random.default_rng(0)
    v = rng.normal(size=m.nv)
    np.testing.assert_array_equal(settings.velocity(m, [f"{n}={float(x)!r}" for n, x in zip(m.v_names, v, strict=True)]), v)
    q = m.random(rng)
    texts = []
    for link, at, _ in m.slices():
        if "qw" in link.joint.q_labels:
            first = at.stop - 4
            texts.append(f"{link.name}.quat={','.join(map(repr, (3.0 * q[first : at.stop]).tolist()))}")
            at = slice(at.start, first)
        texts += [f"{n}={float(x)!r}" for n, x in zip(m.q_names[at], q[at], strict=True)]
    np.testing.assert_allclose(settings.position(m, texts), q, rtol=1e-15, atol=1e-16)


def test_joint_can_be_set_as_a_whole():
    m = all_joints()
    q = dict(zip(m.q_names, settings.position(m, ["piston=90deg,5mm", "puck=1,2,0.5turn"]).tolist(), strict=True))
    assert (q["piston.angle"], q["piston.shift"]) == pytest.approx((np.pi / 2, 0.005))
    assert (q["puck.x"], q["puck.y"], q["puck.angle"]) == pytest.approx((1.0, 2.0, np.pi))
    v = dict(zip(m.v_names, settings.velocity(m, ["drone=1,2,3deg/s,4,5,6mm/s"]).tolist(), strict=True))
    assert [v[f"drone.{x}"] for x in ("wx", "wy", "wz", "vx", "vy", "vz")] == pytest.approx([1, 2, np.radians(3), 4, 5, 0.006])


def test_rpy_of_a_setting_equals_rpy_of_a_pose():
    m = all_joints()
    q = settings.position(m, ["drone.rpy=10deg,-0.2,170deg", "drone.y=-20cm"])
    at = m.q_names.index("drone.x")
    pose = ct.Pose((0, -0.2, 0), rpy=(np.radians(10), -0.2, np.radians(170)))
    np.testing.assert_allclose(rotation(q[at + 3 : at + 7]), pose.R, atol=1e-15)
    np.testing.assert_allclose(q[at : at + 3], pose.p)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("90deg", "rad", np.pi / 2), ("-1.5e1 deg", "rad", -np.pi / 12), ("90°", "rad", np.pi / 2), ("2turn", "rad", 4 * np.pi),
        (".5", "rad", 0.5), ("250mrad", "rad", 0.25), ("5mm", "m", 0.005), ("5.cm", "m", 0.05), ("3um", "m", 3e-6),
        ("60rpm", "rad/s", 2 * np.pi), ("36km/h", "m/s", 10.0), ("+2", "", 2.0), ("2min", "s", 120.0),
    ],
)  # fmt: skip
def test_quantity_has_its_unit(text, unit, value):
    assert settings.quantity("x", text, unit) == pytest.approx(value, rel=1e-14)


def test_later_setting_wins_and_names_may_hold_signs():
    m = ct.Model("odd")
    m.add("a=b.c", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
    assert settings.position(m, ["a=b.c=1", "a=b.c=2"]).tolist() == [2.0]


# --- help, version, errors


def test_version():
    assert run("--version") == (0, f"catena {ct.__version__}\n", "")


def test_without_arguments_the_first_commands_are_printed():
    code, output, errors = run()
    assert (code, errors) == (0, "")
    named = re.findall(r"^  catena (\w+)", output, re.M)
    assert len(named) > 4
    assert {*named} <= {*COMMANDS}
    assert len(output.splitlines()) < 15
    assert "catena --help" in output


@pytest.mark.parametrize("arguments", [("--help",), ("-h",)])
def test_help_has_examples(arguments):
    code, output, _ = run(*arguments)
    assert code == 0
    for line in (
        "catena demo", "catena info humanoid", "catena info arm.toml --json", "catena simulate pendulum", "catena compare arm",
        "catena export c arm", "catena cite articulated-body", "catena bench arm",
    ):  # fmt: skip
        assert line in output


ERRORS = [
    (["info", "amr"], "error: 'amr' is neither a built-in example nor a file; did you mean 'arm'? Choose from 'arm', 'pendulum', "),
    (["info", "none.toml"], "error: none.toml: there is no such file"),
    (["info", "bad.toml"], "error: bad.toml:3: body[0].mass of 'a': body mass -1 is below 0; give 0 or more"),
    (["info", "arm.sdf"], "error: arm.sdf: an SDF file is not understood"),
    (["info", "empty.toml"], "error: model 'model' has no moving body"),
    (["info", "."], "error: .: this is a folder"),
    (["simulate", "amr"], "error: 'amr' is neither a built-in example nor a file; did you mean 'arm'? Choose from 'arm', 'pendulum', "),
    (["simulate", "empty.toml"], "error: model 'model' has no moving body"),
    (["simulate", "pendulum", "--set", "amr=1"], "error: model 'pendulum' has no position 'amr'; did you mean 'arm'? Choose from 'arm'"),
    (["simulate", "pendulum", "--set-velocity", "x=1"], "error: model 'pendulum' has no velocity 'x'; choose from 'arm'"),
    (["simulate", "humanoid", "--set", "knee=1"], "error: model 'humanoid' has no position 'knee'; "),
    (["simulate", "top", "--set", "top.qw=1"], "error: model 'top' has no position 'top.qw'; did you mean 'top.quat'? Choose from"),
    (["simulate", "top", "--set", "top.rpy=1,2"], "error: 'top.rpy=1,2': top.rpy takes 3 numbers, not 2"),
    (["simulate", "top", "--set", "top.quat=0,0,0,0"], "error: quaternion (0.0, 0.0, 0.0, 0.0) has no direction; give (w, x, y, z) with"),
    (["simulate", "pendulum", "--set", "arm"], "error: setting 'arm' is not NAME=VALUE; give one such as arm=0.5"),
    (["simulate", "pendulum", "--set", "arm=5mm"], "error: arm: unit 'mm' does not fit; choose from rad, mrad, deg, turn"),
    (["simulate", "gallery", "--set", "cam=5mm"], "error: cam: unit 'mm' does not fit; give a number without a unit"),
    (["simulate", "pendulum", "--set", "arm=nan"], "error: arm: 'nan' is not a number with a unit; give one such as 0.5 or 30deg"),
    (["simulate", "pendulum", "--set", "arm=1e999"], "error: arm: 1e999 is too large; give a finite number"),
    (["simulate", "four-bar", "--set", "rocker=0"],
     "error: model 'four-bar' does not close with rocker = 0: led there from the guess it stops at rocker = 1.292, and the best of"),
    (["simulate", "four-bar", "--set-velocity", "crank=1", "--set-velocity", "rocker=1rpm"],
     "error: model 'four-bar': no velocity keeps the loops closed with crank = 1, rocker = 0.10472; fix fewer rates"),
    (["simulate", "four-bar", "--set", "cranc=1"], "error: model 'four-bar' has no position 'cranc'; did you mean 'crank'?"),
    (["simulate", "pendulum", "--until", "-1"], "error: until = -1"),
    (["simulate", "pendulum", "--until", "soon"], "error: --until: 'soon' is not a number with a unit; give one such as 10 or 10ms"),
    (["simulate", "pendulum", "--step", "0"], "error: step = 0"),
    (["simulate", "pendulum", "--integrator", "list"], "error: integrator 'list' is unknown; choose from "),
    (["simulate", "pendulum", "--method", "magic"], "error: forward_dynamics: 'magic' is not a method of catena; choose from "),
    (["simulate", "pendulum", "--record", "0.1"], "error: --record 0.1: are these steps or seconds? "),
    (["simulate", "pendulum", "--record", "11s"], "error: --record 11s: give a time between 0 and 10 s, "),
    (["simulate", "pendulum", "--record", "0"], "error: record = 0"),
    (["simulate", "pendulum", "--plot", "run.gif"], "error: --plot run.gif: the file must end in .png or .svg or .pdf; "),
    (["simulate", "pendulum", "--save", "run.csv"], "error: --save run.csv: the file must end in .npz or .nc; "),
    (["simulate", "pendulum", "--csv", "none/run.csv"], "error: --csv none/run.csv: there is no folder 'none'; make it first"),
    (["compare", "amr"], "error: 'amr' is neither a built-in example nor a file; did you mean 'arm'? Choose from 'arm', 'pendulum', "),
    (["compare", "empty.toml"], "error: model 'model' has no moving body"),
    (["compare", "arm", "--plot", "growth.gif"], "error: --plot growth.gif: the file must end in .png or .svg or .pdf; "),
    (["compare", "arm", "--plot", "growth"], "error: --plot growth: the file must end in .png or .svg or .pdf; "),
    (["compare", "arm", "--plot", "none/growth.png"], "error: --plot none/growth.png: there is no folder 'none'; make it first"),
    (["cite", "auto"], "error: 'auto' is not a method but a choice among them; give the name that catena compare MODEL prints"),
    (["cite", "magic"], "error: 'magic' is not a method of catena; choose from 'newton-euler', "),
    (["cite", "articulated"], "error: 'articulated' is not a method of catena; did you mean 'articulated-body'? Choose from "),
    (["simulate", "pendulum", "--what", "q"], "error: --what q: nothing is drawn; add --plot FILE"),
    (["simulate", "pendulum", "--what", "q,speed", "--plot", "run.png"],
     "error: plot: 'speed' is not a quantity of a trajectory; choose from q, v, vdot, tau, "),
    (["simulate", "top", "--what", "phase", "--plot", "run.png"], "error: plot: this trajectory holds no phase; leave it out of `what`"),
    (["export", "c", "arm", "--what", "forward"],
     "error: --what forward: there is no such kernel; did you mean 'forward-dynamics'? Choose from "),
    (["simulate", "pendulum", "--set-parameter", "arm.mas=1"],
     "error: --set-parameter: 'arm.mas' is not a number of model 'pendulum'; did you mean 'arm.mass'"),
    (["info", "pendulum", "--set-parameter", "x=1"],
     "error: --set-parameter: 'x' is not a number of model 'pendulum'; m.parameters() and catena info --parameters list all"),
    (["info", "pendulum", "--set-parameter", "arm.mass"], "error: --set-parameter arm.mass: this is not PATH=VALUE; give one such as "),
    (["info", "pendulum", "--set-parameter", "arm.mass=much"],
     "error: --set-parameter arm.mass: 'much' is not a number with a unit; give one such as 2 or 500g"),
    (["info", "pendulum", "--set-parameter", "arm.damping=much"],
     "error: --set-parameter arm.damping: 'much' is not a number with a unit; give one such as 0.5"),
    (["info", "pendulum", "--set-parameter", "gravity=1,2"],
     "error: --set-parameter gravity=1,2: gravity takes 3 numbers, not 2; it is 0,0,-9.81 in the model"),
    (["info", "pendulum", "--set-parameter", "gravity.z=1,2"],
     "error: --set-parameter gravity.z=1,2: gravity.z takes 1 number, not 2; it is -9.81 in the model"),
    (["info", "pendulum", "--set-parameter", "arm.inertia=1,2"],
     "error: --set-parameter arm.inertia=1,2: arm.inertia takes 9 numbers, or 3 on the diagonal, not 2; it is "),
    (["info", "pendulum", "--set-parameter", "arm.mass=-1"], "error: --set-parameter arm.mass=-1: body mass -1 is below 0; give 0 or more"),
    (["info", "pendulum", "--set-parameter", "arm.at=0,0,0,0,0,0", "--set-parameter", "arm.at.x=1"],
     "error: --set-parameter: 'arm.at.xyz' is given twice, also as part of 'arm.at'; leave one of them out"),
    (["info", "--parameters"], "error: --parameters and --set-parameter are for a model; give its file, or the name of an example"),
    (["bench", "amr"], "error: 'amr' is neither a built-in example nor a file; did you mean 'arm'? Choose from 'arm', 'pendulum', "),
    (["bench", "empty.toml"], "error: model 'model' has no moving body"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text('[[body]]\nname = "a"\nmass = -1\njoint = { type = "free" }\n')
    Path("empty.toml").write_text("")
    Path("arm.sdf").write_text("<robot/>")


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


@pytest.mark.parametrize("arguments", [
    ["dmeo"], ["info", "--nope"], ["info", "arm", "more"], ["--nope"], ["compare"], ["compare", "arm", "--states", "0"],
    ["compare", "arm", "--most", "7"],
])  # fmt: skip
def test_wrong_usage_is_exit_code_2(arguments):
    code, output, errors = run(*arguments)
    assert (code, output) == (2, "")
    assert re.fullmatch(r"error: [^\n]+ --help\n", errors)


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


# --- robots from files


ROBOT = """\
<robot name="arm">
  <link name="base"><inertial><mass value="5"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
  <link name="upper"><inertial><origin xyz="0.2 0 0"/><mass value="2"/><inertia ixx="0.01" iyy="0.03" izz="0.03"/></inertial></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/></joint>
</robot>
"""

COLLISION = '<collision><geometry><sphere radius="0.1"/></geometry></collision>'

SERVO = """\
<mujoco model="servo">
  <worldbody>
    <body name="arm"><joint name="j" axis="0 1 0"/><geom size="0.1" pos="0.3 0 0"/></body>
  </worldbody>
  <actuator>
    <position name="p" joint="j" kp="3"/>
  </actuator>
  <keyframe><key name="home" qpos="0.7"/></keyframe>
</mujoco>
"""


def test_urdf_files_are_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("arm.urdf").write_text(ROBOT.replace("</robot>", '<transmission name="t"/></robot>'))
    facts = json.loads(run("info", "arm.urdf", "--json")[1])
    assert (facts["nv"], facts["bodies"]) == (1, 2)
    assert facts["notes"] == ["not read, without a part in the motion here: transmission (1)"]
    assert "Notes on the file" in run("info", "arm.urdf")[1]
    assert json.loads(run("info", "arm.urdf", "--floating-base", "--json")[1])["nv"] == 7
    assert facts["q"] == [{"name": "upper", "unit": "rad", "joint": "shoulder"}]
    assert "0  upper  rad   shoulder" in run("info", "arm.urdf")[1]
    heavy = [run("info", "arm.urdf", "--set-parameter", f"{name}.at.x=2", "--parameters")[1] for name in ("upper", "shoulder")]
    assert heavy[0] == heavy[1]
    assert re.search(r"^upper\.at\.xyz +2,0,0 ", heavy[0], re.M)
    for name in ("upper", "shoulder"):
        summary = json.loads(run("simulate", "arm.urdf", "--set", f"{name}=30deg", "--until", "1ms", "--json")[1])
        assert summary["q"]["upper"] == pytest.approx(np.pi / 6, abs=1e-4)
    assert json.loads(run("compare", "arm.urdf", "--floating-base", "--states", "3", "--json")[1])["freedom"] == 7
    assert json.loads(run("export", "c", "arm.urdf", "--floating-base", "--json")[1])["inputs"]["v"] == [7]


def test_mjcf_files_are_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("servo.xml").write_text(SERVO)
    facts = json.loads(run("info", "servo.xml", "--json")[1])
    assert [(one["name"], one["coefficients"]) for one in facts["actuators"]] == [("p", {"arm": 1.0})]
    Path("servo.xml").write_text(SERVO.replace('<position name="p"', '<intvelocity actrange="-1 1" name="p"'))
    code, _, errors = run("info", "servo.xml")
    assert code == 1
    assert errors.startswith("error: servo.xml:6: catena cannot represent this, which changes the motion in MuJoCo: actuator (p with")
    assert "--ignore actuator" in errors
    for what, note in (("actuator", "ignored as asked: actuator"), ("unsupported", "left out, for catena cannot represent it: actuator")):
        facts = json.loads(run("info", "servo.xml", "--ignore", what, "--json")[1])
        assert facts["nv"] == 1
        assert f"{note} (p with a state)" in facts["notes"]
    arguments = ["simulate", "servo.xml", "--ignore", "actuator", "--until", "1ms", "--json", "--keyframe"]
    assert json.loads(run(*arguments, "home")[1])["q"]["arm"] == pytest.approx(0.7, abs=1e-4)
    assert json.loads(run(*arguments[:-1])[1])["q"]["arm"] == pytest.approx(0.7, abs=1e-4)  # which is home
    code, _, errors = run(*arguments, "away")
    assert (code, errors) == (1, "error: --keyframe away: model 'servo' has no keyframe of this name; choose from home\n")


@pytest.mark.parametrize("option", [[], ["--actuators"]])
def test_actuators_act_as_in_python(tmp_path, monkeypatch, option):
    """A servo of a file is off, or holds the start, where `ct.simulate` has it off, or holds."""
    monkeypatch.chdir(tmp_path)
    m = ct.Model("servo")
    m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
    m.add_actuator("p", "arm", kp=300.0, kv=30.0)
    m.save("servo.toml")
    run = ct.simulate(ct.load("servo.toml"), [0.0], until=1.0, rtol=1e-8, atol=1e-10, controls="hold" if option else None)
    found = summary("servo.toml", "--until", "1", *option)
    assert found["q"]["arm"] == run.q[-1, 0]
    assert found["controls"] == ({"p": 0.0} if option else None)
    assert abs(run.q[-1, 0]) > 1.0 or option


def test_servos_of_a_file_hold_its_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("servo.xml").write_text(SERVO.replace('kp="3"', 'kp="3000" kv="300"'))
    arguments = ["servo.xml", "--until", "1"]
    assert abs(summary(*arguments)["q"]["arm"] - 0.7) > 0.3
    found = summary(*arguments, "--actuators")
    assert found["controls"] == {"p": pytest.approx(0.7)}
    assert found["q"]["arm"] == pytest.approx(0.7, abs=0.01)
    assert found["energy"]["changed_by"] == ["joint forces"]
    assert summary(*arguments, "--control", "p=0.2")["q"]["arm"] == pytest.approx(0.2, abs=0.01)
    assert abs(summary(*arguments, "--no-actuators")["q"]["arm"] - 0.7) > 0.3
    assert re.search(r"^controls +p 0\.7 *$", run("simulate", *arguments, "--actuators")[1], re.M)
    for wrong, told in ((["--control", "x=1"], "no actuator 'x'"), (["--control", "p=1", "--no-actuators"], "leaves them out")):
        code, _, errors = run("simulate", *arguments, *wrong)
        assert code == 1
        assert told in errors


def test_contact_of_files_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("arm.urdf").write_text(ROBOT.replace("</inertial>", f"</inertial>{COLLISION}", 1))
    options = ["arm.urdf", "--floating-base", "--contact", "ground"]
    assert [one["body"] for one in json.loads(run("info", *options, "--json")[1])["contacts"]] == ["base"]
    start = ["--set", "base.z=0.1", "--until", "0.5", "--step", "2ms"]
    assert summary(*options, *start)["q"]["base.z"] == pytest.approx(0.1, abs=0.003)
    assert summary(*options[:-2], *start)["q"]["base.z"] < -1.0
    Path("servo.xml").write_text(SERVO.replace("<worldbody>", '<worldbody><geom type="plane" size="1 1 1" pos="0 0 -2"/>'))
    assert "--contact ground" in run("info", "servo.xml")[2]
    notes = json.loads(run("info", "servo.xml", "--contact", "ground", "--json")[1])["notes"]
    assert "1 bodies touch the ground, by catena's compliant contact; bodies do not touch each other" in notes
    assert not any("ignored" in note for note in notes)
    notes = json.loads(run("info", "servo.xml", "--contact", "ignore", "--json")[1])["notes"]
    assert any("ignored as asked: contact" in note for note in notes)
    assert "give 'ignore' or 'ground'" in run("info", "arm.urdf", "--contact", "floor")[2]


def test_options_of_files_are_not_for_examples():
    code, _, errors = run("info", "arm", "--ignore", "contact")
    assert code == 1
    assert "'arm' is a built-in example, and --floating-base, --ignore, --contact and --tolerance are for files; leave them out" in errors
    assert "--tolerance are for files" in run("info", "arm", "--tolerance", "1e-3")[2]
