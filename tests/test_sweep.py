"""`catena sweep`: every row is what the library says of the model that is built with the numbers of that row."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.mechanisms import SHARED
from tests.test_cli import assert_is_picture, run

import catena as ct
from catena import cli
from catena.cli.parameter_settings import axes_of
from catena.examples import EXAMPLES
from catena.view import panels

pytestmark = pytest.mark.evaluated


@pytest.fixture(autouse=True)
def _examples_are_made_once(monkeypatch):
    monkeypatch.setattr(cli.info, "EXAMPLES", SHARED)


def swept(*arguments):
    """Return the columns of a sweep by name, and the warnings."""
    code, output, errors = run("sweep", *arguments, "--json")
    assert code == 0, errors
    facts = json.loads(output)
    table = np.array(facts["rows"], dtype=float)
    return {(column["name"], column["unit"]): x for column, x in zip(facts["columns"], table.T, strict=True)}, errors


def test_torque_and_inertia_of_a_tree():
    m, rest = EXAMPLES["double-pendulum"](), np.zeros(2)
    found, _ = swept("double-pendulum", "--parameter", "lower.mass=1:3:3", "--parameter", "lower.at.x=0.5,80cm", "--measure", "torque",
                     "--measure", "inertia:upper", "--set", "upper=20deg")  # fmt: skip
    assert list(found) == [
        ("lower.mass", "kg"), ("lower.at.x", "m"), ("torque upper", "N m"), ("torque lower", "N m"), ("inertia upper", "kg m^2")
    ]  # fmt: skip
    rows = np.array(list(found.values())).T
    assert rows[:, :2].tolist() == [[mass, x] for mass in (1.0, 2.0, 3.0) for x in (0.5, 0.8)]
    q = [np.radians(20.0), 0.0]
    for mass, x, *measured in rows:
        built = m.with_values({"lower.mass": mass, "lower.at.xyz": [x, 0.0, 0.0]})
        expected = [*ct.inverse_dynamics(built)(q, rest, rest), ct.mass_matrix(built)(q)[0, 0]]
        np.testing.assert_allclose(measured, expected, rtol=1e-12)


def test_forces_inertias_and_positions_of_linkages_that_are_closed_one_by_one():
    m = EXAMPLES["four-bar"]()
    found, errors = swept("four-bar", "--parameter", "pin.at_b.x=0.55:0.65:3", "--parameter", "rocker.mass=1,5", "--set", "crank=60deg",
                          "--measure", "torque:crank", "--measure", "inertia", "--measure", "inertia:rocker",
                          "--measure", "position:rocker,coupler.z")  # fmt: skip
    assert errors == ""
    names = ["pin.at_b.x", "rocker.mass", "torque crank", "inertia crank", "inertia rocker", "position rocker", "position coupler.z"]
    assert [name for name, _ in found] == names
    for x, mass, *measured in np.array(list(found.values())).T:
        built = m.with_values({"pin.at_b.xyz": [x, 0.0, 0.0], "rocker.mass": mass})
        q = built.assemble(guess=m.assemble(crank=np.radians(60.0)), crank=np.radians(60.0))
        tau = ct.inverse_dynamics(built, actuated=["crank"])(q, np.zeros(3), np.zeros(3))
        inertias = [ct.reduced(built, [name]).mass_matrix(q)[0, 0] for name in ("crank", "rocker")]
        np.testing.assert_allclose(measured, [tau[0], *inertias, q[2], ct.poses(built)(q)[1, 2, 3]], rtol=1e-9)


def test_frequency_is_that_of_the_equilibrium():
    m = EXAMPLES["pendulum"]()
    found, _ = swept("pendulum", "--parameter", "arm.mass=1:3:3", "--measure", "frequency", "--set", "arm=80deg")
    mass, frequency = found.values()
    body = m.links[0].body
    about = body.inertia[1][1] + mass * body.com[0] ** 2
    np.testing.assert_allclose(frequency, np.sqrt(mass * 9.81 * body.com[0] / about) / (2.0 * np.pi), rtol=1e-9)


def test_frequency_about_an_unstable_equilibrium_is_empty():
    found, errors = swept("pendulum", "--parameter", "arm.mass=1,2,3,4", "--measure", "frequency", "--set", "arm=-90deg")
    assert np.isnan(found["frequency", "Hz"]).all()
    assert errors == (
        "warning: the equilibrium is unstable; set a position near a stable one: arm.mass = 1; arm.mass = 2; arm.mass = 3; and 1 more; "
        "these cells stay empty\n"
    )


@pytest.mark.parametrize("name", ["double-pendulum", "four-bar"])
def test_measures_of_runs_are_those_of_rollouts(name):
    m = EXAMPLES[name]()
    path, first, last = ("pin.at_b.x", m.body_names[0], "rocker") if m.has_loops else ("lower.at.x", "upper", "lower")
    found, _ = swept(name, "--parameter", f"{path}=0.55:0.65:2", "--set", f"{first}=1", "--set-velocity", f"{first}=0.5", "--until", "50ms",
                     "--step", "3ms", "--measure", f"final:{last},{last}.z", "--measure", f"peak:{first}", "--measure", "final-velocity",
                     "--measure", f"peak-velocity:{last}")  # fmt: skip
    for x, *measured in np.array(list(found.values())).T:
        built = m.with_values({path.replace(".x", ".xyz"): [x, 0.0, 0.0]})
        q = built.assemble(guess=m.assemble(**{first: 1.0}), **{first: 1.0}) if m.has_loops else np.array([1.0, 0.0])
        v = built.project_velocity(q, **{first: 0.5}) if m.has_loops else np.array([0.5, 0.0])
        runs = ct.rollout(built, q, v, step=0.05 / 17, steps=17)
        place = ct.poses(built)(runs.q[-1])[-1, 2, 3]
        expected = [runs.q[-1, -1], place, np.abs(runs.q[:, 0]).max(), *runs.v[-1], np.abs(runs.v[:, -1]).max()]
        np.testing.assert_allclose(measured, expected, rtol=1e-9, atol=1e-12)


def test_a_geometry_that_does_not_close_is_an_empty_cell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["four-bar", "--parameter", "pin.at_b.x=0.01,0.6", "--measure", "torque:crank", "--set", "crank=1", "--csv", "t.csv"]
    found, errors = swept(*arguments)
    assert errors == "warning: the loops do not close: pin.at_b.x = 0.01; this cell stays empty\n"
    assert np.isnan(found["torque crank", "N m"]).tolist() == [True, False]
    head, empty, full, end = Path("t.csv").read_text().split("\n")
    assert (head, empty, end) == ("pin.at_b.x [m],torque crank [N m]", "0.01,", "")
    assert [float(x) for x in full.split(",")] == [0.6, found["torque crank", "N m"][1]]
    code, output, errors = run("sweep", "four-bar", "--parameter", "pin.at_b.x=0.01,0.02", "--measure", "torque", "--set", "crank=1")
    assert (code, output) == (1, "")
    assert "closes its loops with none of the values" in errors


def test_a_run_that_fails_is_an_empty_cell():
    found, errors = swept("pendulum", "--parameter", "gravity.x=0,1e308", "--measure", "final", "--until", "10ms", "--set", "arm=1")
    assert np.isnan(found["final arm", "rad"]).tolist() == [False, True]
    assert errors == "warning: the run fails, not finite; give a shorter --step: gravity.x = 1e+308; this cell stays empty\n"


def test_the_table_is_printed_in_parts_where_it_is_too_wide():
    arguments = ["sweep", "arm", "--parameter", "hand.mass=0,2", "--measure", "torque", "--random", "1"]
    narrow, wide = (run(*arguments, columns=columns)[1] for columns in (40, 200))
    assert wide.count("hand.mass") == 1
    assert narrow.count("hand.mass") > 2
    assert all(len(line) <= 40 for line in narrow.splitlines())
    assert {*narrow.split()} == {*wide.split()}
    found, _ = swept(*arguments[1:])
    assert all(f"{x:.6g}" in wide.split() for column in found.values() for x in column)


def figure(monkeypatch, *arguments):
    """Return the figure that a sweep draws."""
    drawn, save = [], panels.save
    monkeypatch.setattr(panels, "save", lambda figure, *rest: drawn.append(figure) or save(figure, *rest))
    assert run("sweep", *arguments)[0] == 0
    return drawn[0]


def test_one_parameter_is_drawn_as_lines(tmp_path, monkeypatch):
    path = tmp_path / "p.png"
    drawn = figure(monkeypatch, "double-pendulum", "--parameter", "lower.mass=3,1,2", "--measure", "torque", "--measure", "inertia:upper",
                   "--plot", str(path))  # fmt: skip
    assert_is_picture(path)
    torque, inertia = drawn.axes
    assert [axes.get_ylabel() for axes in drawn.axes] == ["torque [N m]", "inertia upper [kg m^2]"]
    assert inertia.get_xlabel() == "lower.mass [kg]"
    assert [text.get_text() for text in torque.get_legend().get_texts()] == ["upper", "lower"]
    assert torque.lines[0].get_xdata().tolist() == [1.0, 2.0, 3.0]
    found, _ = swept("double-pendulum", "--parameter", "lower.mass=1,2,3", "--measure", "torque")
    np.testing.assert_allclose(torque.lines[0].get_ydata(), found["torque upper", "N m"], rtol=1e-12)


def test_two_parameters_are_drawn_as_a_map(tmp_path, monkeypatch):
    path = tmp_path / "p.png"
    grid = [
        "--parameter",
        "lower.mass=3,1",
        "--parameter",
        "upper.mass=1:2:3",
        "--parameter",
        "gravity.z=-1.62",
        "--measure",
        "torque:upper",
    ]
    drawn = figure(monkeypatch, "double-pendulum", *grid, "--plot", str(path))
    assert_is_picture(path)
    axes, bar = drawn.axes
    assert (axes.get_xlabel(), axes.get_ylabel(), bar.get_ylabel()) == ("lower.mass [kg]", "upper.mass [kg]", "torque upper [N m]")
    assert drawn.get_suptitle() == "double-pendulum, gravity.z = -1.62 m/s^2"
    found, _ = swept("double-pendulum", *grid)
    expected = found["torque upper", "N m"].reshape(2, 3)[::-1]
    np.testing.assert_allclose(axes.collections[0].get_array().reshape(3, 2), expected.T, rtol=1e-12)


@pytest.mark.parametrize(("arguments", "message"), [
    (["--parameter", "arm.mas=1:2:3", "--measure", "torque"], "--parameter: 'arm.mas' is not a number of model 'pendulum'; did you mean "),
    (["--parameter", "arm.mass=1:2:x", "--measure", "torque"], "--parameter arm.mass=1:2:x: 'x' is not a number of values; give a whole "),
    (["--parameter", "arm.mass=1:2:1", "--measure", "torque"], "--parameter arm.mass=1:2:1: '1' is not a number of values; give a whole "),
    (["--parameter", "arm.mass=1:2", "--measure", "torque"], "--parameter arm.mass: '1:2' is not a number with a unit; give one such as "),
    (["--parameter", "arm.mass=-1:2:4", "--measure", "torque"], "--parameter arm.mass=-1:2:4: body mass -1 is below 0; give 0 or more"),
    (["--parameter", "gravity=1:2:3", "--measure", "torque"],
     "--parameter gravity=1:2:3: gravity has 3 numbers; vary one of them, by gravity. and one of x, y, z"),
    (["--parameter", "arm.at.x=1,2", "--parameter", "arm.at.xyz.x=1", "--measure", "torque"],
     "--parameter arm.at.xyz.x=1: arm.at.xyz.x is given twice; leave one of them out"),
    (["--parameter", "arm.mass=1,2", "--measure", "torqe"],
     "--measure torqe: there is no such measure; did you mean 'torque'? Choose from "),
    (["--parameter", "arm.mass=1,2", "--measure", "torque:amr"],
     "--measure torque:amr: torque is not of 'amr'; did you mean 'arm'? Choose "),
    (["--parameter", "arm.mass=1,2", "--measure", "frequency:arm"],
     "--measure frequency:arm: frequency is not of 'arm'; leave the name out"),
    (["--parameter", "arm.mass=1,2", "--measure", "final", "--step", "0"], "--step 0: give a time above 0, up to --until 1"),
    (["--parameter", "arm.mass=1,2", "--measure", "final", "--plot", "p.gif"], "--plot p.gif: the file must end in .png or .svg or .pdf"),
    (["--parameter", "arm.mass=1,2", "--parameter", "gravity.x=1,2", "--parameter", "gravity.y=1,2", "--measure", "torque", "--plot",
      "p.png"], "--plot p.png: a plot shows one or two parameters, not 3; vary fewer, or use --csv"),
])  # fmt: skip
def test_wrong_sweeps_are_refused(arguments, message):
    code, output, errors = run("sweep", "pendulum", *arguments)
    assert (code, output) == (1, "")
    assert errors.startswith(f"error: {message}")
    assert errors.count("\n") == 1


def test_inertia_along_a_coordinate_that_follows_others_is_refused():
    code, _, errors = run("sweep", "five-bar-robot", "--parameter", "gravity.x=0,1", "--measure", f"inertia:{dependent()}")
    assert code == 1
    assert "this coordinate follows" in errors


def dependent():
    return EXAMPLES["five-bar-robot"]().mobility().dependent[0]


def test_entries_of_joints_with_several_coordinates_are_numbered():
    m = ct.Model("block")
    m.add("block", ct.box(0.1, 0.1, 0.1, mass=1.0), ct.Free(damping=0.1))
    (axis,) = axes_of(m, ["block.damping.5=1,2"])
    assert axis.target.number.path == "block.damping"
    assert axis.target.entries == ((5,),)


def test_a_note_names_three_cases_and_counts_the_others():
    values = "0.01,0.011,0.012,0.013,0.014,0.6"
    _, errors = swept("four-bar", "--parameter", f"pin.at_b.x={values}", "--measure", "torque:crank", "--set", "crank=1")
    assert errors == (
        "warning: the loops do not close: pin.at_b.x = 0.01; pin.at_b.x = 0.011; pin.at_b.x = 0.012; and 2 more; these cells stay empty\n"
    )
    _, errors = swept("four-bar", "--parameter", "pin.at_b.x=0.01,0.011,0.012,0.6", "--measure", "torque:crank", "--set", "crank=1")
    assert "more" not in errors
