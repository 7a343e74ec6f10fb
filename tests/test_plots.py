"""A figure and its run show the same; figures need no display and are written whole."""

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

import catena as ct
from catena.comparison import Comparison, Growth, Line, Row
from catena.errors import MissingPackageError, TrajectoryFileError
from catena.examples import EXAMPLES, chain
from catena.simulation.trajectory import Occurrence, Trajectory

matplotlib = pytest.importorskip("matplotlib")

from catena.comparison import growth_plot  # noqa: E402
from catena.view import panels, plots  # noqa: E402


def moving(m, samples=50, **options):
    """Return a made-up motion in which every coordinate differs."""
    t = np.linspace(0.0, 2.0, samples)
    rates = 0.3 + 0.1 * np.arange(m.nv)
    v = 0.4 * np.cos(t[:, None] + np.arange(m.nv)) * rates
    q = np.array([m.integrate(m.neutral(), 0.3 * np.sin(s * rates)) for s in t])
    return Trajectory(m, t, q, v, -v, v, info={"integrator": "rk4", "method": "articulated-body"}, **options)


def at_samples(line, run):
    """The points of a line at the samples of its run, of which it has every one."""
    points = line.get_xydata()
    kept = np.isin(points[:, 0], run.t)
    np.testing.assert_array_equal(points[kept, 0], run.t)
    return points[kept, 1]


def remarks(figure):
    """What is said below the panels, without the breaks of its lines."""
    return " ".join(text.get_text().strip() for text in figure.texts)


def lines(axes):
    """The lines of a panel that show the run: those with a name."""
    return {line.get_label(): line for line in axes.get_lines() if not line.get_label().startswith("_")}


@pytest.mark.parametrize("what", ["q", "v", "vdot", "tau"])
@pytest.mark.parametrize("name", list(EXAMPLES))
def test_every_coordinate_is_drawn_once_under_its_name_and_unit(name, what):
    run = moving(EXAMPLES[name]())
    _, values, names, units = next(entry for entry in run._quantities() if entry[0] == what)
    drawn = {}
    for axes in run.plot(what=what).axes:
        assert lines(axes).keys() == {text.get_text() for text in axes.get_legend().get_texts()}
        for label, line in lines(axes).items():
            assert label not in drawn
            drawn[label] = (axes.get_ylabel(), at_samples(line, run))
    assert sorted(drawn) == sorted(names)
    for i, (label, unit) in enumerate(zip(names, units, strict=True)):
        shown, points = drawn[label]
        assert (f"[{unit}]" in shown) if unit else ("[" not in shown)
        np.testing.assert_array_equal(points, values[:, i])


def test_lines_follow_the_motion_between_few_samples():
    m = ct.Model("thrown", gravity=(0, 0, -9.81))
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Free())
    v0 = [0.4, -0.3, 0.5, 1.0, 0.0, 2.0]
    run = ct.simulate(m, m.neutral(), v0, until=1.0, record=np.linspace(0.0, 1.0, 9))
    (height,) = (lines(axes)["ball.z"] for axes in run.plot(what="q").axes if "ball.z" in lines(axes))
    t, z = height.get_xydata().T
    assert len(t) > plots.POINTS
    np.testing.assert_allclose(z, 2.0 * t - 0.5 * 9.81 * t**2, atol=1e-6)
    assert height.get_markevery() == np.flatnonzero(np.isin(t, run.t)).tolist()
    kinetic = lines(run.plot(what="energy").axes[0])["kinetic"].get_ydata()
    exact = ct.simulate(m, m.neutral(), v0, until=1.0, record=t)
    np.testing.assert_allclose(kinetic, exact.energy[0], rtol=1e-6)


def test_lines_are_straight_where_samples_do_not_tell_the_motion():
    m = EXAMPLES["double-pendulum"]()
    sparse = ct.simulate(m, [-0.8, 0.3], until=10.0, record=np.linspace(0.0, 10.0, 11))
    m = ct.Model("spinning")
    m.add("top", ct.box(0.1, 0.2, 0.3, mass=1.0), ct.Spherical())
    spinning = ct.simulate(m, m.neutral(), [0.0, 0.0, 200.0], until=1.0, record=np.linspace(0.0, 1.0, 9))
    for run in (sparse, spinning):
        for axes in run.plot(what="v").axes:
            for line in lines(axes).values():
                np.testing.assert_array_equal(line.get_xdata(), run.t)


@pytest.mark.parametrize("record", [None, np.linspace(0.0, 0.8, 31)])
def test_corners_at_events_stay_sharp(record):
    m = ct.Model("bouncing", gravity=(0, 0, -9.81))
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Prismatic("z"))
    hit = ct.Event("hit", lambda t, q, v: q[0], direction=-1, action=lambda t, q, v: (q, -0.5 * v))
    run = ct.simulate(m, [1.0], until=0.8, events=[hit], record=record)
    fall = np.sqrt(2.0 / 9.81)
    t, v = lines(run.plot(what="v").axes[0])["ball"].get_xydata().T
    if record is None:  # the jump itself is drawn
        (before,) = np.flatnonzero(np.diff(v) > 1.0)
        np.testing.assert_allclose((t[before], t[before + 1]), fall, rtol=1e-9)
        np.testing.assert_allclose((v[before], v[before + 1]), (-9.81 * fall, 0.5 * 9.81 * fall), rtol=1e-9)
    else:  # it is between two samples, with nothing made up
        (between,) = np.flatnonzero(np.diff(v) > 0.5)
        assert {t[between], t[between + 1]} <= {*run.t}
    assert run.energy_causes == ("events",)


def test_what_does_not_change_is_a_remark_and_no_panel():
    m = EXAMPLES["biped"]()
    run = ct.simulate(m, m.assemble(), until=0.2)
    figure = run.plot()
    assert [axes.get_ylabel() for axes in figure.axes] == ["displacement [m]", "velocity [m/s]", "energy [J]"]
    said = remarks(figure)
    assert "Positions that do not change: pelvis.qw at 1; pelvis.qx, pelvis.qy and pelvis.qz at 0; left hip yaw, " in said
    assert "Velocities that do not change: pelvis.wx, pelvis.wy, pelvis.wz, left hip yaw, left hip roll and 40 others at 0 rad/s" in said
    assert "Energy change: rounding, up to " in said
    assert "Loop error: rounding, up to " in said


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_lines_of_a_panel_can_be_told_apart(name):
    for axes in moving(EXAMPLES[name]()).plot(what=("q", "v")).axes:
        looks = [(line.get_color(), line.get_linestyle()) for line in lines(axes).values()]
        assert len(set(looks)) == len(looks) <= panels.FEW


def test_units_and_quaternions_have_panels_of_their_own():
    labels = [axes.get_ylabel() for axes in moving(EXAMPLES["gallery"]()).plot().axes]
    assert labels == [
        "angle [rad]", "displacement [m]", "quaternion", "coordinate", "angular velocity [rad/s]", "velocity [m/s]", "v of coordinate",
        "energy [J]", "energy change [%]",
    ]  # fmt: skip


def test_coordinates_of_a_body_stay_in_one_panel():
    parts = panels.parts([f"body{i // 4}.q{i % 4}" for i in range(28)])
    assert [i for part in parts for i in part] == list(range(28))
    assert all(part.start % 4 == 0 for part in parts)
    assert len(parts) == 4
    assert panels.parts(["a.x"] * 20) == [range(20)]


def test_very_many_coordinates_are_one_bundle():
    figure = moving(chain(60)).plot(what="q")
    (axes,) = figure.axes
    assert len(axes.get_lines()) == 60
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert (names[0], names[-1], len(names)) == ("link1", "link60", panels.FEW)
    assert axes.get_title(loc="right") == "60 coordinates"


def test_energies_and_their_change_are_those_of_the_run():
    run = ct.simulate(EXAMPLES["double-pendulum"](), [-0.8, 0.3], until=1.0)
    energy, change = run.plot(what=("energy", "energy_change")).axes
    for label, values in {"kinetic": run.energy[0], "potential": run.energy[1], "total": run.total_energy}.items():
        np.testing.assert_array_equal(at_samples(lines(energy)[label], run), values)
    np.testing.assert_array_equal(change.get_lines()[0].get_xydata().T, (run.t, run.energy_change))
    assert change.get_yscale() == "symlog"
    scale = max(np.abs(run.total_energy).max(), np.ptp(run.energy[0]))
    before, after = change.get_title(loc="left").split(" J: ")
    assert (before.rpartition(" ")[0], after) == ("Energy change, relative to", "the error of the integrator")
    assert float(before.split()[-1]) == pytest.approx(scale, rel=5e-3)
    with pytest.warns(DeprecationWarning, match="'energy_change'"):
        assert run.plot(what="drift").axes[0].get_ylabel() == "energy change"
    with pytest.warns(DeprecationWarning, match="energy_change"):
        assert run.drift is run.energy_change


def test_the_plot_says_what_changes_the_energy():
    m = ct.Model("door")
    m.add("leaf", ct.box(0.8, 0.04, 2.0, mass=20.0), ct.Revolute("z", damping=1.5, friction=0.5, limits=(-1.0, 1.0)))
    swung = ct.simulate(m, [0.0], [0.5], until=0.5)
    (axes,) = swung.plot(what="energy_change").axes
    assert axes.get_title(loc="left").endswith(" J: dissipated by damping and friction")  # the stops are not reached
    np.testing.assert_allclose(at_samples(axes.get_lines()[0], swung), 100.0 * swung.energy_change, rtol=1e-12)
    slammed = ct.simulate(m, [0.9], [2.0], until=0.5)
    assert slammed.energy_causes == ("damping", "friction", "stops")
    pushed = ct.simulate(m, [0.0], [0.5], until=0.5, tau=[1.0])
    (axes,) = pushed.plot(what="energy_change").axes
    assert axes.get_title(loc="left").endswith("dissipated by damping and friction; work of joint forces")


def test_figure_says_what_was_run():
    figure = moving(EXAMPLES["pendulum"]()).plot()
    assert figure.get_suptitle() == "pendulum – rk4, articulated-body"
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "", "", "time [s]"]
    assert figure.axes[0].get_xlim() == (0.0, 2.0)


def test_events_are_lines_in_every_panel_and_named_once():
    run = moving(EXAMPLES["pendulum"]())
    events = tuple(Occurrence(name, t, run.q[0], run.v[0]) for name, t in (("hit", 0.5), ("stop", 1.0), ("hit", 1.5)))
    figure = moving(EXAMPLES["pendulum"](), events=events).plot(what=("q", "v"))
    for axes in figure.axes:
        drawn = {tuple(line.get_xdata()[::3]) for line in axes.get_lines() if np.nanmax(line.get_ydata()) == 1.0}
        assert drawn == {(0.5, 1.5), (1.0,)}
    shown = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes]
    assert shown == [["arm", "hit", "stop"], ["arm"]]


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")])
def test_figure_is_written_as_its_ending_says(ending, start, tmp_path):
    file = tmp_path / f"run.{ending}"
    moving(EXAMPLES["top"]()).plot(file)
    assert file.read_bytes().startswith(start)
    assert os.listdir(tmp_path) == [file.name]


def test_failure_while_writing_keeps_the_old_figure(tmp_path, monkeypatch):
    file = tmp_path / "run.png"
    file.write_text("old")
    run = moving(EXAMPLES["pendulum"]())

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(TrajectoryFileError, match=r"run\.png: cannot be written: no space left on device; nothing was changed"):
        run.plot(file)
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["run.png"]


def test_requests_that_cannot_be():
    run = moving(EXAMPLES["pendulum"]())
    bare = Trajectory(run.model, run.t, run.q, run.v)
    for what, message in [
        ("speed", "'speed' is not a quantity of a trajectory; choose from q, v, vdot, tau, driving_force, energy, energy_change, "
         "loop_error, reactions, phase$"),
        (("q", 3), "3 is not a quantity"),
        ("tau", "holds no tau"),
        (("q", "vdot"), "holds no vdot"),
        ("loop_error", "holds no loop_error; leave it out of `what`"),
        ((), "`what` is empty"),
    ]:
        with pytest.raises(ct.ArgumentError, match=message):
            bare.plot(what=what)
    for path, message in [
        ("run.gif", r"is written as \.png, \.svg or \.pdf, not as '\.gif'"),
        ("run", "change the ending"),
        (3, "not a path"),
    ]:
        with pytest.raises(TrajectoryFileError, match=message):
            run.plot(path)


def test_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackageError, match=r'plots need matplotlib, which is not installed; pip install "catena\[view\]"'):
        moving(EXAMPLES["pendulum"]()).plot()


def test_figures_need_no_display_and_no_pyplot(tmp_path):
    code = (
        "import sys, numpy as np, catena as ct\nfrom catena.examples import EXAMPLES\nfrom catena.simulation.trajectory import Trajectory\n"
        "t = np.linspace(0.0, 1.0, 9)[:, None]\nrun = Trajectory(EXAMPLES['pendulum'](), t[:, 0], t, t)\n"
        "assert 'matplotlib' not in sys.modules\nrun.plot(sys.argv[1])\nassert 'matplotlib.pyplot' not in sys.modules\n"
    )
    environment = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "MPLBACKEND")}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run.png")], check=True, env=environment)
    assert (tmp_path / "run.png").exists()


@pytest.mark.parametrize("samples", [1, 2, panels.POINTS, panels.POINTS + 1, 10 * panels.POINTS + 7])
def test_thinned_line_keeps_ends_and_extremes(samples):
    t = np.linspace(0.0, 1.0, samples)
    x = np.random.default_rng(0).normal(size=samples)
    chosen = panels.extremes(x)
    kept_t, kept_x = t[chosen], x[chosen]
    assert len(kept_t) <= panels.POINTS + 2
    assert (kept_t[0], kept_t[-1], kept_x.min(), kept_x.max()) == (t[0], t[-1], x.min(), x.max())
    assert (np.diff(kept_t) > 0.0).all()
    assert set(zip(kept_t, kept_x, strict=True)) <= set(zip(t, x, strict=True))
    if samples <= panels.POINTS:
        assert len(kept_t) == samples


def test_thinned_line_lives_with_gaps():
    t = np.linspace(0.0, 1.0, 20000)
    x = np.where((t > 0.3) & (t < 0.6), np.nan, np.sin(50.0 * t))
    chosen = panels.extremes(x)
    kept_t, kept_x = t[chosen], x[chosen]
    assert np.isnan(kept_x).any()
    assert np.nanmax(kept_x) == np.nanmax(x)
    assert not np.isfinite(kept_x[(kept_t > 0.3) & (kept_t < 0.6)]).any()


def test_a_thinned_way_keeps_the_extremes_of_both_columns():
    q, v = np.random.default_rng(1).normal(size=(2, 50_000))
    kept = panels.extremes(q, v)
    assert len(kept) <= panels.POINTS + 2
    assert (np.diff(kept) > 0).all()
    assert (kept[0], kept[-1]) == (0, len(q) - 1)
    for x in (q, v):
        assert (x[kept].min(), x[kept].max()) == (x.min(), x.max())


def test_strange_runs_are_drawn(tmp_path):
    m = ct.Model("a $strange_{ name$")
    m.add("_hidden$^", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"))
    m.add("two\nlines é", ct.point_mass(1.0, at=(1, 0, 0)), ct.Prismatic("x"), parent="_hidden$^")
    still = Trajectory(m, [0.0], [[0.0, 0.0]], [[0.0, 0.0]])
    broken = Trajectory(m, [0.0, 1.0, 2.0], [[0.0, 0.0], [np.nan, 1.0], [np.inf, 2.0]], np.zeros((3, 2)))
    for run in (still, broken):
        figure = run.plot(tmp_path / "run.svg")
        assert len(figure.axes[0].get_legend().get_texts()) == 1


# --- loops, reactions, phase portraits


def falling(m, until=0.2):
    """Return a short run of a mechanism from an assembled position."""
    return ct.simulate(m, m.assemble(), until=until, show_progress=False)


def test_loop_errors_are_drawn_by_name_and_unit_on_a_log_axis():
    m = EXAMPLES["four-bar"]()
    m.add("idler", ct.cylinder(0.1, 0.1, mass=1.0), ct.Revolute("y"))
    m.add("bar", ct.rod(0.5, mass=1.0), ct.Prismatic("x"))
    m.add("bob", ct.rod(0.5, mass=1.0), ct.Revolute("y"), parent="bar")
    m.close("rope", ct.Distance(0.5), "ground", "bob", at_b=(0.5, 0, 0))
    m.couple("mesh", {"crank": 1.0, "idler": 2.0})
    m.couple("rack", {"idler": 0.1, "bar": 1.0})
    t = np.linspace(0.0, 1.0, 9)
    q = np.outer(0.1 + t, 1.0 + np.arange(m.nq))  # closes nothing
    run = Trajectory(m, t, q, np.zeros((9, m.nv)))
    np.testing.assert_array_equal(run.loop_error, ct.loop_error(m)(q))
    drawn = {label: (axes, line) for axes in run.plot(what="loop_error").axes for label, line in lines(axes).items()}
    units = {"pin": "m or rad", "rope": "m", "mesh": "rad", "rack": "m or rad"}
    assert run.loop_names == tuple(units)
    assert drawn.keys() == units.keys()
    for i, (name, unit) in enumerate(units.items()):
        axes, line = drawn[name]
        assert axes.get_ylabel() == f"error [{unit}]"
        assert axes.get_yscale() == "log"
        np.testing.assert_array_equal(line.get_ydata(), run.loop_error[:, i])
        assert axes.get_ylim()[0] < run.loop_error[:, i].min() <= run.loop_error[:, i].max() < axes.get_ylim()[1]


def test_loop_errors_that_are_rounding_are_a_remark(tmp_path):
    m = ct.Model("gears")
    m.add("a", ct.cylinder(0.1, 0.1, mass=1.0), ct.Revolute("z"))
    m.add("b", ct.cylinder(0.1, 0.1, mass=1.0), ct.Revolute("z"))
    m.couple("mesh", {"a": 1.0, "b": 1.0})
    figure = Trajectory(m, [0.0, 1.0], np.zeros((2, 2)), np.zeros((2, 2))).plot(tmp_path / "run.png", what="loop_error")
    assert (figure.axes, remarks(figure)) == ([], "gears Loop error: rounding, up to 0.0e+00 rad")


def test_default_shows_the_loop_error_where_there_are_loops():
    for name, shown in (("four-bar", True), ("pendulum", False)):
        assert ("Loop error" in remarks(falling(EXAMPLES[name]()).plot())) == shown


@pytest.mark.parametrize("name", ["double-pendulum", "four-bar", "slider-crank", "quarter-car"])
def test_reactions_are_sizes_of_what_is_unique(name):
    m = EXAMPLES[name]()
    run = falling(m)
    kernel = ct.joint_wrenches(m)
    time = (run.t,) if m.time_dependent else ()
    wrenches = kernel(*time, run.q, run.v, np.zeros(run.v.shape))
    np.testing.assert_array_equal(run.reactions, np.where(kernel.unique, wrenches, np.nan))
    assert run.reaction_names == kernel.joints
    figure = run.plot(what="reactions")
    drawn = {(axes.get_ylabel(), label): line for axes in figure.axes for label, line in lines(axes).items()}
    expected = {}
    for i, joint in enumerate(kernel.joints):
        for label, at in (("force [N]", slice(3, 6)), ("moment [N m]", slice(0, 3))):
            if kernel.unique[i, at].any():
                expected[label, joint] = np.linalg.norm(wrenches[:, i, at][:, kernel.unique[i, at]], axis=1)
    flat = max(sizes.max() for (label, _), sizes in expected.items() if label == "moment [N m]") < 1e-10
    assert flat == (name in ("double-pendulum", "four-bar"))  # all in a plane, and no torque
    assert flat == ("Moments in the joints: zero, to rounding" in remarks(figure))
    expected = {key: sizes for key, sizes in expected.items() if key[0] == "force [N]" or not flat}
    assert drawn.keys() == expected.keys()
    for key, line in drawn.items():
        np.testing.assert_allclose(at_samples(line, run), expected[key], rtol=1e-12)
    notes = {axes.get_ylabel(): axes.get_title(loc="right") for axes in figure.axes}
    if not kernel.unique.all():
        moments = "components y; the others are not unique"
        assert notes == {"force [N]": "components x, z; the others are not unique", **({} if flat else {"moment [N m]": moments})}
        assert remarks(figure).endswith(f"to rounding; {moments}" if flat else "")
    else:
        assert set(notes.values()) == {""}


def test_joints_without_a_unique_component_are_left_out_and_counted(monkeypatch):
    m = EXAMPLES["four-bar"]()
    run = falling(m)
    monkeypatch.setattr(Trajectory, "_fine", lambda self, *_, **__: self)
    wrenches = np.ones((len(run), 4, 6))
    wrenches[:, 0, 3:] = np.nan
    wrenches[:, 1, 3:5] = np.nan
    monkeypatch.setitem(run.__dict__, "reactions", wrenches)
    force, moment = run.plot(what="reactions").axes
    assert list(lines(force)) == ["coupler (z)", "rocker", "pin"]
    assert force.get_title(loc="right") == "components in brackets; the others are not unique; not unique: crank"
    assert list(lines(moment)) == ["crank", "coupler", "rocker", "pin"]
    assert moment.get_title(loc="right") == ""


def test_phase_portraits_are_velocity_over_position_with_start_and_end():
    m = EXAMPLES["gallery"]()
    run = moving(m)
    figure = run.plot(what="phase")
    rated = [link for link in m.links if link.joint.nq == link.joint.nv]
    names = [name for link, at, _ in m.slices() if link in rated for name in m.q_names[at]]
    assert [axes.get_title(loc="left") for axes in figure.axes] == names
    for axes, name in zip(figure.axes, names, strict=True):
        way, first, last = axes.get_lines()
        i, j = m.q_names.index(name), m.v_names.index(name)
        expected = np.stack([run.q[:, i], run.v[:, j]], axis=1)
        np.testing.assert_array_equal(way.get_xydata(), expected)
        assert (first.get_xydata().tolist(), last.get_xydata().tolist()) == (expected[:1].tolist(), expected[-1:].tolist())
        for unit, text in ((m.q_units[i], axes.get_xlabel()), (m.v_units[j], axes.get_ylabel())):
            assert (f"[{unit}]" in text) if unit else ("[" not in text)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["start", "end"]


def test_of_very_many_phase_portraits_some_are_shown():
    figure = moving(chain(60)).plot(what="phase")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert (titles[0], titles[-1], len(titles)) == ("link1", "link60", plots.PHASES)
    assert figure.axes[0].get_title(loc="right") == "12 of 60 coordinates"


def test_bodies_without_rates_have_no_phase_portrait():
    with pytest.raises(ct.ArgumentError, match="holds no phase"):
        moving(EXAMPLES["top"]()).plot(what="phase")


def test_panels_follow_what_was_asked_for(tmp_path):
    figure = moving(EXAMPLES["double-pendulum"]()).plot(tmp_path / "run.png", what=("q", "phase", "energy"))
    assert [axes.get_xlabel() for axes in figure.axes] == ["time [s]", "angle [rad]", "angle [rad]", "time [s]"]
    assert figure.axes[0].get_xlim() == figure.axes[3].get_xlim() == (0.0, 2.0)


@pytest.mark.parametrize("what", [("q", "v", "vdot"), ("q", "v", "vdot", "energy"), ("q", "v", "vdot", "tau"), ("q", "energy")])
def test_panels_have_times_below_them_or_in_a_panel_of_the_same_width_below(what):
    """Six, seven, eight and three panels, in two columns or in one; the last of an odd number is as wide as both."""
    axes = moving(EXAMPLES["cart-pole"]()).plot(what=what).axes
    assert len(axes) == {3: 6, 4: 7 if "energy" in what else 8, 2: 3}[len(what)]
    for panel in axes:
        place = panel.get_position()
        below = [other.get_position() for other in axes if other.get_position().y1 < place.y0]
        nearest = max((box for box in below if box.x0 < place.x1 and box.x1 > place.x0), key=lambda box: box.y1, default=None)
        aligned = nearest is not None and np.allclose([nearest.x0, nearest.x1], [place.x0, place.x1])
        assert panel.xaxis.get_tick_params()["labelbottom"] == (not aligned)


# --- growth


def made_up_growth():
    """Return a growth with a line of each order, two of them close to each other."""
    n = (8, 16, 32, 64)
    orders = {"cubic": 3.0, "square": 2.0, "square/again": 2.0, "$line_": 1.0}
    lines = tuple(
        Line(name, f"O(n^{power:.0f})", n, tuple(1e-3 * x**power for x in n), tuple(9.0 * x**power for x in n), power, power + 0.25)
        for name, power in orders.items()
    )
    return Growth("chain", (), lines, (), {})


def made_up_comparison():
    rows = [("forward_dynamics", "cubic"), ("forward_dynamics", "unknown"), ("mass_matrix", "square")]
    return Comparison("a _{model$", 3, 12, 0, tuple(Row(*names, "O(n)", 1, 0.0, 700.0, 5.0, 0.5, 0.1, False) for names in rows), (), ())


def test_growth_is_drawn_line_by_line_under_name_and_exponent():
    found = made_up_growth()
    time, operations = growth_plot.plot_growth(found).axes
    for axes, quantity, more in ((time, "batch_us", 0.0), (operations, "operations", 0.25)):
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert axes.get_xlabel() == "number of bodies n"
        drawn = axes.get_lines()
        assert len({line.get_color() for line in drawn}) == len(drawn) == 4
        for line, given in zip(drawn, found.lines, strict=True):
            np.testing.assert_array_equal(line.get_xydata(), np.stack([given.bodies, getattr(given, quantity)], axis=1))
        texts = [text.get_text() for text in axes.texts]
        assert [text.splitlines()[-1] for text in texts] == [
            f"$n^{{{line.time_exponent + more:.2f}}}$, O(n{mark})" for line, mark in zip(found.lines, ("³", "²", "²", "^1"), strict=True)
        ]
        assert [text.get_color() for text in axes.texts] == [line.get_color() for line in drawn]
    assert [axes.get_ylabel() for axes in (time, operations)] == ["time per state [µs]", "operations per state"]


def test_names_of_lines_do_not_overlap():
    figure = growth_plot.plot_growth(made_up_growth())
    figure.draw_without_rendering()
    for axes in figure.axes:
        boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: box.y0)
        for lower, upper in pairwise(boxes):
            assert lower.y1 <= upper.y0 + 1.0  # pixels


def test_model_beside_the_growth_is_marked_where_it_was_measured(tmp_path):
    file = tmp_path / "growth.png"
    beside = made_up_comparison()
    time, operations = growth_plot.plot_growth(made_up_growth(), file, beside=beside).axes
    for axes, value in ((time, 0.5), (operations, 700.0)):
        marks = [line.get_xydata().tolist() for line in axes.get_lines() if line.get_marker() == "D"]
        assert marks == [[[12.0, value]], []]  # what has no line of its own is left out; the last is for the legend
        assert [text.get_text() for text in axes.get_legend().get_texts()] == [r"a _{model\$, 12 degrees of freedom"]
    from matplotlib.image import imread

    picture = imread(file)
    assert picture.std() > 0.05
    assert os.listdir(tmp_path) == [file.name]


def test_growth_that_cannot_be_drawn(monkeypatch):
    with pytest.raises(TrajectoryFileError, match=r"is written as \.png, \.svg or \.pdf, not as '\.gif'"):
        growth_plot.plot_growth(made_up_growth(), "growth.gif")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackageError, match="plots need matplotlib"):
        growth_plot.plot_growth(made_up_growth())


@pytest.mark.parametrize("seed", range(5))
def test_heights_are_moved_apart_and_no_further(seed):
    heights = np.random.default_rng(seed).uniform(0.0, 4.0, size=6)
    placed = growth_plot._spread(heights, 0.5)
    assert (np.argsort(placed) == np.argsort(heights)).all()
    assert np.diff(np.sort(placed)).min() >= 0.5 - 1e-9
    np.testing.assert_allclose(growth_plot._spread(placed, 0.5), placed, atol=1e-9)
    assert placed.mean() == pytest.approx(heights.mean())
