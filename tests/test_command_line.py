"""The command behaves as commands do: examples of its help run, JSON is JSON, colours, exit codes, completion; and `catena bench`."""

import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.mechanisms import SHARED
from tests.processes import running
from tests.test_cli import COLLISION, PLAIN, ROBOT, SERVO, process, run
from tests.test_plots import made_up_growth
from typer.testing import CliRunner

import catena as ct
from catena import cli, comparison
from catena.cli.app import BROKEN_PIPE, BUG, FAILED, INTERRUPTED
from catena.comparison import growth_plot, peers
from catena.comparison.bench import KERNELS
from catena.examples import EXAMPLES
from catena.formulations import METHODS
from catena.simulation.integrators.steps import INTEGRATORS
from catena.view import panels

COMMANDS = ("demo", "info", "simulate", "sweep", "compare", "bench", "view", "export", "cite")

#: What makes an example of a help text short.
SHORTER = {"simulate": ["--until", "20ms"], "sweep": ["--until", "20ms"], "compare": ["--states", "2"], "bench": ["--seconds", "0"]}


@pytest.fixture(autouse=True)
def _examples_are_made_once(monkeypatch):
    monkeypatch.setattr(cli.info, "EXAMPLES", SHARED)


def examples(*command):
    """Return the examples in the help of a command."""
    code, output, _ = run(*command, "--help", columns=200)
    assert code == 0
    lines = re.search(r"^  Examples:\n(.*?)(?:\n\n|\Z)", output, re.M | re.S)[1].splitlines()
    return [re.split(r"\s{2,}", line.strip())[0].removeprefix("catena ") for line in lines]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the examples name, in which the demonstration and comparisons are short, and figures empty."""
    monkeypatch.chdir(tmp_path)
    for name in ("arm", "four-bar"):
        EXAMPLES[name]().save(f"{name}.toml")
    Path("robot.urdf").write_text(ROBOT.replace("</inertial>", f"</inertial>{COLLISION}", 1))
    Path("robot.xml").write_text(re.sub(r"  <actuator>.*</actuator>\n", "", SERVO, flags=re.S))
    Path("firmware").mkdir()
    ct.simulate(EXAMPLES["pendulum"](), [0.0], until=0.1).save("run.npz")
    monkeypatch.setattr(cli.demo, "REPEATS", 1)
    monkeypatch.setattr(cli.demo, "UNTIL", 1.0)
    monkeypatch.setattr(cli.demo, "LONG", 5.0)
    monkeypatch.setattr(cli.demo, "BATCH", 1000)
    for module in (panels, growth_plot):
        monkeypatch.setattr(module, "save", lambda figure, path, ending: Path(path).touch())
    monkeypatch.setattr(comparison, "compare", partial(comparison.compare, seconds=0.0))
    monkeypatch.setattr(comparison, "growth", lambda *_, **__: made_up_growth())


def outcome(text):
    """Return exit code, output and errors of an example, made short; the output is written to the file that the example names."""
    command, _, file = text.partition(">")
    arguments = shlex.split(command)
    code, output, errors = run(*arguments, *SHORTER.get(arguments[0] if arguments else "", []))
    if file:
        Path(file.strip()).write_text(output, encoding="utf-8")
    return code, output, errors


def needs(text):
    """Return the package that an example needs and that is not there."""
    return next((name for name in ("casadi", "jax") if f"export {name}" in text and importlib.util.find_spec(name) is None), None)


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_of_the_help_run(command, folder):
    listed = examples(command)
    assert listed
    for text in listed:
        assert text.startswith(command)
        if not needs(text):
            code, output, errors = outcome(text)
            assert code == 0, (text, errors)
            assert output
            if "--json" in text:
                json.loads(output)


def test_examples_of_the_command_itself_name_every_command(folder):
    listed = examples()
    assert {text.split()[0] for text in listed} == set(COMMANDS)
    for text in listed:
        if text.split()[0] in ("info", "simulate", "cite"):  # the others ran above
            assert outcome(text)[0] == 0, text


def test_every_command_is_listed_in_the_order_of_its_use():
    lines = run("--help")[1].partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines if line.strip()] == list(COMMANDS)
    assert not any(line.rstrip().endswith("...") for line in lines)


# --- JSON


@pytest.mark.parametrize("arguments", [
    ["info"], ["info", "pendulum"], ["info", "pendulum", "--parameters"], ["simulate", "pendulum", "--until", "0.1"],
    ["sweep", "pendulum", "--parameter", "arm.mass=1,2", "--measure", "torque"], ["compare", "pendulum", "--states", "2"],
    ["bench", "pendulum", "--seconds", "0"], ["view", "pendulum"], ["export", "c", "pendulum"], ["cite"], ["cite", "denoc"],
])  # fmt: skip
def test_json_is_all_that_is_printed(arguments, folder):
    code, output, errors = run(*arguments, "--json")
    assert (code, errors) == (0, "")
    json.loads(output, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_demo_in_json_says_what_it_says_in_text(folder):
    facts = json.loads(run("demo", "--json")[1])
    assert (facts["version"], facts["model"]) == (ct.__version__, "arm")
    assert all(check["difference"] < 1e-11 for check in facts["agreement"])
    for row in facts["kernels"]:
        problem, method = row["kernel"].split(", ")
        assert row["operations"] == getattr(ct, problem.replace(" ", "_"))(EXAMPLES["arm"](), method).operations
    assert facts["simulation"]["picture"] == "catena-demo.png"
    assert Path("catena-demo.png").exists()


def test_cite_in_json_has_every_reference():
    facts = json.loads(run("cite", "--json")[1])
    assert {name for entry in facts for name in entry["methods"]} == set(METHODS)
    assert json.loads(run("cite", "denoc", "--json")[1]) == [
        {"key": METHODS["denoc"].references[0], "methods": ["denoc"], "bibtex": run("cite", "denoc")[1].rstrip("\n")}
    ]


def test_an_error_leaves_the_output_empty_with_json_too():
    code, output, errors = run("info", "amr", "--json")
    assert (code, output) == (1, "")
    assert errors.startswith("error: 'amr' is neither")


def test_warnings_do_not_mix_with_json(folder):
    Path("odd.toml").write_text('[[body]]\nname = "a"\nmass = 1\ninertia = [1, 1, 5]\njoint = { type = "free" }\n')
    done = process("info", "odd.toml", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["nv"] == 6
    assert done.stderr.startswith(b"warning: odd.toml:1: ")


# --- colours


def on_a_terminal(*arguments, **environment):
    """Return what a command shows on a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    clean = {key: value for key, value in os.environ.items() if key not in PLAIN} | {"TERM": "xterm-256color", "COLUMNS": "100"}
    words = [sys.executable, "-m", "catena.cli", *arguments]
    with running(words, stdin=theirs, stdout=theirs, stderr=theirs, env={**clean, **environment}) as command:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
        command.wait(timeout=60)
    os.close(ours)
    return shown.decode()


def test_colours_are_for_terminals():
    shown = on_a_terminal("info", "pendulum")
    assert "\x1b[1mpendulum: " in shown
    error = on_a_terminal("info", "amr")
    assert re.search(r"\x1b\[1;31merror:\x1b\[0m 'amr' is neither", error)
    assert "\x1b" not in on_a_terminal("info", "pendulum", NO_COLOR="1")


def test_colours_elsewhere_are_for_those_who_ask():
    assert "\x1b" not in run("info", "pendulum")[1]
    for environment, escapes in (({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)):
        result = CliRunner().invoke(cli.app, ["info", "pendulum"], env={**PLAIN, **environment})
        assert ("\x1b[1m" in result.stdout) is escapes


# --- exit codes


def test_help_lists_the_exit_codes():
    output = run("--help")[1]
    listed = [int(code) for code in re.findall(r"^ {4}(\d+) +\S", output.partition("Exit codes:\n")[2], re.M)]
    assert listed == [0, 1, 2, BUG, INTERRUPTED, BROKEN_PIPE]


@pytest.mark.parametrize(("arguments", "hint"), [
    (["dmeo"], "no such command 'dmeo'; did you mean 'demo'? Choose from demo, info, "),
    (["simulate", "pendulum", "--untill", "1"], "no such option --untill; did you mean --until? See "),
    (["--versoin"], "no such option --versoin; did you mean --version? See "),
    (["export", "rust", "arm"], "'rust' is not one of 'c', 'casadi', 'jax'"),
])  # fmt: skip
def test_wrong_names_get_a_hint(arguments, hint):
    code, output, errors = run(*arguments)
    assert (code, output) == (2, "")
    assert hint in " ".join(errors.split())


def test_unexpected_errors_are_one_line_that_says_what_to_do(monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(cli.info, "find", fail)
    code, output, errors = run("info", "arm")
    assert (code, output) == (BUG, "")
    assert errors == "error: ZeroDivisionError: division by zero; this is a bug of catena: --debug shows where it is, for a report\n"
    with pytest.raises(ZeroDivisionError):
        run("info", "arm", "--debug")


def test_too_little_memory_is_no_bug(monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(cli.info, "find", fail)
    assert run("info", "arm") == (1, "", "error: there is not enough memory\n")


@pytest.mark.parametrize("arguments", [["info", "pendulum"], ["cite"]])
def test_nothing_is_said_of_a_pipe_that_is_closed(arguments):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "catena.cli", *arguments], stdout=write, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (BROKEN_PIPE, b"")


def test_interrupted_command_says_so(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "compare", interrupt)
    assert run("compare", "arm") == (INTERRUPTED, "", "interrupted\n")


def test_ctrl_c_ends_a_command(tmp_path):
    code = (
        "import time, pathlib\nfrom catena import cli, comparison\n"
        f"def slow(*_, **__):\n    pathlib.Path({str(tmp_path / 'began')!r}).touch()\n    while True:\n        time.sleep(0.01)\n"
        "comparison.compare = slow\ncli.app(['compare', 'pendulum'])\n"
    )
    with running([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        until = time.monotonic() + 60
        while not (tmp_path / "began").exists() and time.monotonic() < until:
            time.sleep(0.02)
        command.send_signal(signal.SIGINT)
        output, errors = command.communicate(timeout=60)
    assert (command.returncode, output, errors) == (INTERRUPTED, b"", b"interrupted\n")


# --- completion


def completed(*words):
    """Return what the shell offers after some words, of which the last is not complete."""
    environment = {"_CATENA_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(["catena", *words]), "COMP_CWORD": str(len(words))}
    return CliRunner().invoke(cli.app, [], prog_name="catena", env={**PLAIN, **environment}).stdout.split()


def test_the_shell_completes_commands_examples_files_and_names(folder):
    Path("models").mkdir()
    Path("models", "leg.toml").touch()
    Path("notes.txt").touch()
    assert completed("co") == ["compare"]
    assert completed("info", "four") == ["four-bar", "four-bar.toml"]
    assert completed("info", "") == [*EXAMPLES, "arm.toml", "four-bar.toml", "robot.urdf", "robot.xml", "firmware/", "models/"]
    assert completed("simulate", "models/") == ["models/leg.toml"]
    assert completed("simulate", "nowhere/") == []
    assert completed("cite", "artic") == ["articulated-body"]
    assert completed("simulate", "arm", "--integrator", "") == ["auto", *INTEGRATORS]
    assert completed("simulate", "arm", "--method", "a") == ["auto", "articulated-body", "armstrong"]
    assert completed("simulate", "arm", "--what", "q,re") == ["q,reactions"]
    assert completed("export", "c", "arm", "--what", "inv") == ["inverse-dynamics", "inverse-dynamics-derivatives"]
    assert completed("compare", "arm", "--what", "mass-matrix,inv") == [
        "mass-matrix,inverse-dynamics", "mass-matrix,inverse-dynamics-derivatives"
    ]  # fmt: skip
    assert completed("simulate", "pendulum", "--set-parameter", "arm.da") == ["arm.damping="]
    assert completed("sweep", "four-bar.toml", "--parameter", "grav") == ["gravity="]
    Path("broken.toml").write_text("[")
    assert completed("sweep", "broken.toml", "--parameter", "grav") == completed("sweep", "none.toml", "--parameter", "grav") == []
    assert completed("sweep", "pendulum", "--measure", "peak") == ["peak", "peak-velocity"]
    assert completed("export", "ca") == ["casadi"]
    assert "--install-completion" in run("--help")[1]


def test_completion_for_a_shell_can_be_shown():
    environment = {"_CATENA_COMPLETE": "source_zsh"}
    result = CliRunner().invoke(cli.app, [], prog_name="catena", env={**PLAIN, **environment})
    assert "#compdef catena" in result.stdout


# --- bench


@pytest.fixture(scope="module")
def timed():
    """The benches of some models, by name; times are as they are."""
    return {name: comparison.bench(EXAMPLES[name](), cores=2, seconds=0.0) for name in ("arm", "four-bar", "gallery")}


@pytest.mark.parametrize("name", ["arm", "four-bar", "gallery"])
def test_bench_has_the_kernels_of_the_model(name, timed):
    m, found = EXAMPLES[name](), timed[name]
    assert [row.kernel for row in found.rows] == list(KERNELS)[: None if m.has_loops else -1]
    assert (found.model, found.bodies, found.machine["cores"]) == (m.name, len(m.links), 2)
    assert found.freedom == (m.mobility().freedom if m.has_loops else m.nv)
    for row in found.rows:
        kernel = getattr(ct, row.kernel)(m)
        assert (row.method, row.operations) == (kernel.method, sum(kernel.operations.values()))
        assert min(row.single_us, row.batch_us, row.cores_us, row.trace_seconds, row.compile_seconds) > 0.0


def test_bench_puts_pinocchio_beside_trees_of_its_joints(timed):
    pytest.importorskip("pinocchio")
    assert timed["four-bar"].no_peer == "it is taken for trees without driven joints"
    assert timed["gallery"].no_peer == "it has no cylindrical joint, such as that of 'piston'"
    found = timed["arm"]
    assert found.no_peer == ""
    assert "pinocchio" in found.versions
    beside = {row.kernel: row.peer for row in found.rows if row.peer is not None}
    assert {name: peer.function for name, peer in beside.items()} == {
        "forward_dynamics": "aba", "inverse_dynamics": "rnea", "mass_matrix": "crba", "poses": "forwardKinematics",
        "energy": "computeMechanicalEnergy", "forward_dynamics_derivatives": "computeABADerivatives",
        "inverse_dynamics_derivatives": "computeRNEADerivatives",
    }  # fmt: skip
    for name, peer in beside.items():
        assert peer.single_us > 0.0
        assert (peer.batch_us is not None) == (peer.cores_us is not None) == (name in ("forward_dynamics", "inverse_dynamics"))
        assert (peer.disagreement is None) if name == "energy" else (peer.disagreement < 1e-11)


def test_what_acts_in_the_joints_is_given_to_pinocchio():
    pytest.importorskip("pinocchio")
    m = ct.Model("resisted")
    m.add("slide", ct.box(0.2, 0.1, 0.1, mass=2.0), ct.Prismatic("x", damping=2.0, stiffness=30.0, limits=(-0.5, 0.5)))
    joint = ct.Revolute("z", damping=0.5, friction=0.3)
    m.add("ball", ct.box(0.2, 0.1, 0.3, mass=1.0), ct.Spherical(), parent="slide", at=(0.1, 0, 0))
    m.add("arm", ct.rod(0.5, mass=1.0), joint, parent="ball", at=ct.Pose((0, 0.2, 0), rpy=(0.3, 0.1, 0)), at_body=(0.1, 0, 0.2))
    found = comparison.bench(m, seconds=0.0)
    assert [row.peer.disagreement < 1e-11 for row in found.rows if row.peer and row.peer.disagreement is not None] == [True] * 6


def test_models_that_pinocchio_does_not_have_are_told_why(monkeypatch):
    pytest.importorskip("pinocchio")
    m = EXAMPLES["pendulum"]()
    assert peers.why_not(m) == ""
    m.add_spring("coil", "ground", "arm", stiffness=1.0)
    assert peers.why_not(m) == "it has no springs between bodies, no compliant contact and no forces from functions"
    for joint, words in [(ct.Planar("x"), "its planar joints are in the plane of x and y"), (ct.Universal("x", (1, 1, 0)), "right angle")]:
        other = ct.Model("m")
        other.add("a", ct.sphere(0.1, mass=1.0), joint)
        assert words in peers.why_not(other)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert peers.why_not(m) == 'it is not installed (pip install "catena[peers]")'


def test_bench_in_text_has_the_figures_of_json(timed, monkeypatch):
    monkeypatch.setattr(comparison, "bench", lambda *_, **__: timed["arm"])
    facts = json.loads(run("bench", "--json")[1])
    code, output, errors = run("bench")
    assert (code, errors) == (0, "")
    assert max(len(line.rstrip()) for line in output.splitlines()) <= 80
    rows = {line.split()[0]: line.split()[1:] for line in output.splitlines() if line}
    assert facts["versions"]["catena"] == ct.__version__
    for row in facts["rows"]:
        operations, trace, compiled, *times = rows[cli.bench.short_name(row["kernel"])]
        assert operations == f"{row['operations']:,}"
        assert (trace, compiled.rstrip("*")) == (f"{row['trace_seconds']:.2f}", f"{row['compile_seconds']:.2f}")
        assert compiled.endswith("*") == row["cached"]
        assert times == [cli.compare.number_text(row[key]) for key in ("single_us", "batch_us", "cores_us")]
        if row["peer"]:
            shown = rows[row["peer"]["function"]]
            assert shown[0] == cli.compare.number_text(row["peer"]["single_us"])
            assert shown[1] == cli.bench.ratio_text(row["peer"]["single_us"] / row["single_us"])
    monkeypatch.setattr(comparison, "bench", lambda *_, **__: timed["four-bar"])
    assert f"Pinocchio is not timed: {timed['four-bar'].no_peer}\n" in run("bench", "four-bar")[1]


def rewritten(bench, path, **changed):
    """Write a bench as `catena bench --json` does, with times of batches that are multiplied, and other entries."""
    factor = changed.pop("batch", 1.0)
    rows = [replace(row, batch_us=factor * row.batch_us, spread=dict.fromkeys(row.spread, 0.1)) for row in bench.rows]
    path.write_text(json.dumps(asdict(replace(bench, rows=tuple(rows), **changed))), encoding="utf-8")
    return str(path)


def test_bench_beside_an_earlier_one_marks_what_is_beyond_the_noise(timed, monkeypatch, tmp_path):
    calm = replace(timed["arm"], rows=tuple(replace(row, spread=dict.fromkeys(row.spread, 0.1)) for row in timed["arm"].rows))
    calm = replace(calm, versions={"catena": ct.__version__, **calm.versions})  # as the command writes them
    monkeypatch.setattr(comparison, "bench", lambda *_, **__: calm)
    same, slower, faster = (rewritten(calm, tmp_path / f"{factor}.json", batch=factor) for factor in (1.2, 0.5, 2.0))
    code, output, errors = run("bench", "--compare", same, "--fail-above", "1.1")
    assert (code, errors) == (0, "")
    assert "no time changed beyond the noise" in output
    assert "measured otherwise" not in output
    for before, ratio, verdict in ((slower, "2.00", "slower"), (faster, "0.50", "faster")):
        code, output, errors = run("bench", "--compare", before)
        assert (code, errors) == (0, "")
        marked = [line.split() for line in output.splitlines() if line.endswith(("slower", "faster"))]
        assert [line[-2:] for line in marked] == [[ratio, verdict]] * len(calm.rows)
        assert {line[1] for line in marked} == {"batch"}
    facts = json.loads(run("bench", "--compare", slower, "--json")[1])
    assert {one["verdict"] for one in facts["compared"]["changes"] if one["name"].endswith("batch")} == {"slower"}
    assert run("bench", "--compare", slower, "--fail-above", "3")[0] == 0
    code, _, errors = run("bench", "--compare", slower, "--fail-above", "1.5")
    assert code == FAILED
    assert errors.startswith("error: slower by more than 1.5: forward_dynamics, batch, inverse_dynamics, batch, ")


def test_bench_beside_an_earlier_one_says_what_else_differs(timed, monkeypatch, tmp_path):
    monkeypatch.setattr(comparison, "bench", lambda *_, **__: timed["arm"])
    found = timed["arm"]
    versions = {"catena": ct.__version__, **found.versions, "numpy": "1.0"}
    other = rewritten(found, tmp_path / "other.json", machine=found.machine | {"processor": "Z80"}, versions=versions, bodies=6)
    processor = found.machine["processor"]
    told = f"processor Z80, now {processor}; numpy 1.0, now {found.versions['numpy']}; bodies 6, now 7"
    assert f"{other} was measured otherwise, so ratios mean little: {told}\n" in run("bench", "--compare", other)[1]


def test_bench_refuses_what_it_cannot_compare_with(timed, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "bench", lambda *_, **__: pytest.fail("nothing is measured before the file is read"))
    bad = tmp_path / "bad.json"
    for text in ("", "{", "[]", "{}", '{"rows": [{}]}', json.dumps(asdict(timed["arm"])).replace('"batch_us": ', '"batch_us": -')):
        bad.write_text(text, encoding="utf-8")
        code, output, errors = run("bench", "--compare", str(bad))
        assert (code, output) == (FAILED, "")
        assert errors.startswith(f"error: {bad}: this is not a bench of this version; write one by `catena bench MODEL --json > FILE`")
    assert "there is no such file; write it by" in run("bench", "--compare", str(tmp_path / "none.json"))[2]
    assert "cannot be read" in run("bench", "--compare", str(tmp_path))[2]
    other = rewritten(timed["four-bar"], tmp_path / "four-bar.json")
    message = f"error: {other}: this is a bench of 'four-bar', not of 'arm'; compare benches of one model"
    assert message in run("bench", "--compare", other)[2]
    assert "error: --fail-above is a factor of earlier times; give them by --compare FILE" in run("bench", "--fail-above", "2")[2]


def test_bench_refuses_no_cores():
    with pytest.raises(ct.ArgumentError, match="0 cores are too few; give at least 1"):
        comparison.bench(EXAMPLES["pendulum"](), cores=0)


def test_bench_of_states_that_close_the_loops_is_of_one_that_moves(timed):
    """The accelerations that inverse dynamics is given keep the loops closed; a warning would fail the test."""
    assert np.isfinite([row.single_us for row in timed["four-bar"].rows]).all()


def test_module_and_command_are_the_same():
    assert process("info", "--nope").stderr.decode().endswith("See catena info --help\n")
