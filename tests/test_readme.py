"""What the pages for newcomers show is what happens."""

import contextlib
import io
import linecache
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import catena as ct
from catena import cli
from catena.examples import EXAMPLES
from catena.formulations import AUTO
from catena.model.joints import JOINTS
from catena.simulation.integrators.steps import INTEGRATORS

ROOT = Path(__file__).parents[1]
README, OVERVIEW, HOW_TO = ((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/overview.md", "docs/how-to.md"))
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("docs/**/*.md")))]
RUN = [page for page in PAGES if "```python" in (ROOT / page).read_text(encoding="utf-8")]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)


@pytest.mark.pages
@pytest.mark.parametrize("page", RUN)
def test_code_prints_what_stands_below_it(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the code writes files
    text = (ROOT / page).read_text(encoding="utf-8")
    pairs = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", text, re.M | re.S)
    assert len(pairs) == len(blocks(text, "python")) >= 1
    for robot in blocks(text, "xml"):
        Path("robot.urdf").write_text(robot, encoding="utf-8")
    namespace = {"__name__": "__main__"}
    for i, (code, expected) in enumerate(pairs):
        printed, name = io.StringIO(), f"<{page}, block {i}>"
        linecache.cache[name] = len(code), None, code.splitlines(keepends=True), name  # messages show lines of the code, as in a notebook
        with contextlib.redirect_stdout(printed):
            exec(compile(code, name, "exec"), namespace)
        assert printed.getvalue() == expected
    if page.startswith("docs/tutorials/"):
        shown = re.findall(r"\]\(\.\./pictures/([^)]+)\)", text)
        assert shown
        assert all(Path(picture).is_file() for picture in shown)  # the code of the page draws what the page shows


@pytest.mark.quick
def test_first_example_is_short():
    lines = [line for line in blocks(README, "python")[0].splitlines() if line.strip()]
    assert len(lines) <= 10


@pytest.mark.quick
def test_make_targets_exist():
    targets = re.findall(r"^ {4}make (\w+)", README, re.M)
    assert targets == ["demo", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)


@pytest.mark.pages
def test_commands_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    EXAMPLES["arm"]().save("arm.toml")
    listed = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    commands = [*re.findall(r"`catena ([^`-][^`]*)`", README + OVERVIEW), *re.findall(r"^ {4}catena (?!demo)(.+)$", listed, re.M)]
    assert len(commands) >= 10
    for command in dict.fromkeys(commands):
        shorter = ["--most", "8"] if command.startswith("compare") and "--plot" in command else []
        shorter += ["--seconds", "0"] if command.startswith("bench") else []
        arguments, _, file = command.partition(" > ")
        done = CliRunner().invoke(cli.app, [*arguments.split(), *shorter])
        assert done.exit_code in ((0, 1) if "--fail-above" in command else (0,)), command  # times without repeats may be slower
        if file:
            Path(file).write_text(done.stdout, encoding="utf-8")


@pytest.mark.quick
def test_every_public_name_in_the_text_exists_and_every_function_is_named():
    for name in re.findall(r"`ct\.(\w+)", README + OVERVIEW + HOW_TO):
        assert hasattr(ct, name), name
    for function in ("forward_dynamics", "inverse_dynamics", "mass_matrix", "bias_force", "gravity_force",
                     "coriolis_force", "passive_force", "coriolis_matrix", "momenta", "velocities",
                     "hamiltonian_dynamics", "energy", "poses", "jacobian"):  # fmt: skip
        assert f"`ct.{function}(m" in OVERVIEW


@pytest.mark.quick
def test_every_joint_and_method_has_its_row():
    for joint in JOINTS.values():
        assert re.search(rf"^\| `{joint.__name__}\(", OVERVIEW, re.M), joint
    assert "| `Driven(joint, motion)` |" in OVERVIEW
    for method in ct.methods():
        row = re.search(rf"^\| `{method}`(?:, `\w+`)* \| (.*?) \|", OVERVIEW, re.M)
        assert row, method
        solved = {problem.strip().replace(" ", "_") for problem in re.split("[;,]", row[1])}
        assert solved == {problem for problem in AUTO if method in ct.methods(problem)}


@pytest.mark.quick
def test_every_command_has_its_row():
    listed = re.findall(r"^\| `(\w+)` \| ", OVERVIEW.partition("## The command line")[2].partition("\n## ")[0], re.M)
    shown = CliRunner().invoke(cli.app, ["--help"]).stdout.partition("Commands:\n")[2]
    assert listed == [line.split()[0] for line in shown.splitlines() if line.strip()]


@pytest.mark.quick
def test_every_integrator_is_named():
    for integrator in INTEGRATORS:
        assert f'`"{integrator}"`' in OVERVIEW, integrator


@pytest.mark.quick
def test_operation_counts_are_those_of_the_kernels():
    (counts,) = re.findall(r"of a 7-joint arm takes ([\d,]+) operations, of a chain of 30 links ([\d,]+)", README)
    kernels = [ct.forward_dynamics(EXAMPLES[name]()) for name in ("arm", "chain")]
    assert counts == tuple(f"{sum(kernel.operations.values()):,}" for kernel in kernels)


@pytest.mark.quick
@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), target


@pytest.mark.quick
def test_paths_in_contributing_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in re.findall(r"`((?:\w+/)*\w+\.py|\w+/)`", text):
        if path != "utils.py":
            assert any((ROOT / base / path).exists() for base in ("src/catena", "")), path
    for room in (ROOT / "src" / "catena").iterdir():
        if not room.name.startswith("__") and (room.is_dir() or room.suffix == ".py"):
            assert f"`{room.name}{'/' if room.is_dir() else ''}`" in text, room


@pytest.mark.quick
def test_changelog_lists_every_public_name():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{ct.__version__}]" in text
    for name in (*JOINTS.values(), ct.Model, ct.Body, ct.Pose, ct.load, ct.jacobian):
        assert f"`{name.__name__}`" in text
    for name in (*EXAMPLES, *ct.methods()):
        assert f"`{name}`" in text
