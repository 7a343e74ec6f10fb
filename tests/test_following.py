"""What follows parameters of one's own: a model at some values of them is the model that is built with these numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.referee import relative

import catena as ct

pytestmark = pytest.mark.evaluated

#: The value that a parameter is made with, and the one that it has in the end.
FIRST, LAST = 0.7, 0.3


def base(gravity: Any = (0.0, 0.3, -9.81)) -> ct.Model:
    m = ct.Model("base", gravity=gravity)
    m.add("arm", ct.rod(0.5, mass=1.0), ct.Revolute("y"))
    m.add("hand", ct.box(0.1, 0.2, 0.3, mass=0.5), ct.Universal("x", "z"), parent="arm", at=(0.5, 0, 0))
    return m


def tied(m: ct.Model, path: str, value: Any) -> ct.Model:
    """Return a model whose number follows a formula, or has a value."""
    if not m.parts.own:
        return m.with_values({path: value})
    m.tie(path, value)
    return m


def custom(a: Any) -> ct.Custom:
    return ct.Custom(lambda q: (np.eye(3), np.array([q[0], 0.0, a * q[0] ** 2])), 1, damping=a)


#: What can be added to a model with a parameter.
ADDED: dict[str, Callable[[ct.Model, Any], Any]] = {
    "joint force": lambda m, a: m.add_force("f", lambda t, q, v: -a * v),
    "force on a body": lambda m, a: m.add_force("f", lambda t, q, v: [a, 0.0, a * t], body="hand", point=(a, 0.0, 0.1)),
    "force on a point": lambda m, a: m.add_point_force("f", "hand", (0.1, a, 0.0), lambda t, position, velocity: -a * velocity),
    "force along a line": lambda m, a: m.add_line_force("f", "ground", "hand", lambda t, x, rate: a * x, (a, 0.0, 1.0), (0.0, a, 0.1)),
    "body": lambda m, a: m.add("more", ct.box(a, 0.2, 0.1, mass=a), ct.Revolute("x", damping=a, rest=a, stiffness=2.0), "hand", (0, 0, a)),
    "body turned": lambda m, a: m.add(
        "more", ct.box(0.3, 0.2, 0.1, mass=a), ct.Revolute("x"), "hand", ct.Pose((0, 0, a), rpy=(a, 0.1, 0.0))
    ),
    "spring": lambda m, a: m.add_spring("s", "ground", "hand", (0.0, a, 1.0), (0.0, 0.0, a), stiffness=10.0 * a, damping=a, length=a),
    "bushing": lambda m, a: m.add_bushing("b", "arm", "hand", (0.5, a, 0.0), stiffness=9.0 * a, turning_damping=(a, 1.0, 2.0)),
    "contact": lambda m, a: m.add_contact("c", "hand", ct.Geometry("sphere", (a,)), height=a, stiffness=50.0, friction=a, slip_speed=a),
    "contact of a body": lambda m, a: (m.add("ball", ct.sphere(a, mass=1.0), ct.Fixed(), "hand"), m.add_contact("c", "ball", height=0.4)),
    "contact of shapes": lambda m, a: [
        m.add_contact(kind, "hand", ct.Geometry(kind, tuple(a * x for x in size), (a, 0.0, 0.0)), height=0.5, slip_speed=0.1)
        for kind, size in (("capsule", (1.0, 0.5)), ("box", (1.0, 0.8, 0.5)), ("cylinder", (0.5, 1.0)), ("ellipsoid", (1.0, 0.5, 0.8)))
    ],
    "contact of two bodies": lambda m, a: m.add_contact(
        "c", "arm", ct.Geometry("sphere", (0.3,)), against="hand", against_shape=ct.Geometry("sphere", (a,)), slip_speed=0.1
    ),
    "contact under the weight": lambda m, a: (
        m.add("load", ct.sphere(0.3, mass=a), ct.Fixed(), "hand"),
        m.add_contact("c", "load", height=0.5, slip_speed=0.1),
    ),
    "driven joint": lambda m, a: m.add(
        "more", ct.box(0.3, 0.2, 0.1, mass=a), ct.Driven(ct.Revolute("x", damping=a), lambda t: a * np.sin(t)), "hand"
    ),
    "custom joint": lambda m, a: m.add("more", ct.point_mass(a), custom(a), "hand"),
    "loop": lambda m, a: (
        m.add("more", ct.box(0.3, 0.2, 0.1, mass=a), ct.Free()),
        m.close("pin", ct.Spherical(), "hand", "more", (0.0, a, 0.0)),
    ),
    "rope": lambda m, a: (m.add("more", ct.box(0.3, 0.2, 0.1, mass=1.0), ct.Free()), m.close("rope", ct.Distance(a), "hand", "more")),
    "coupling": lambda m, a: (
        m.add("more", ct.box(0.3, 0.2, 0.1, mass=1.0), ct.Revolute("z")),
        m.couple("gear", {"arm": a, "more": 1.0}, offset=a),
    ),
    "on a frame": lambda m, a: (
        m.add_frame("tip", "hand", (0.0, a, 0.2)),
        m.add_spring("s", "ground", "tip", at_b=(a, 0.0, 0.0), stiffness=5.0),
        m.add_point_force("f", "tip", (0.1, 0.0, 0.0), lambda t, position, velocity: -a * velocity),
        m.add("more", ct.box(0.3, 0.2, 0.1, mass=1.0), ct.Revolute("z"), parent="tip"),
    ),
    "gravity": lambda m, a: tied(m, "gravity", [0.0, a, -9.81]),
    "tie": lambda m, a: tied(m, "hand.mass", 2.0 * a),
    "on a tied frame": lambda m, a: (
        m.add_frame("tip", "hand", (0.0, 0.1, 0.2)),
        x := tied(m, "tip.at.xyz", [0.0, a, 0.2]),
        x.add_spring("s", "ground", "tip", at_b=(0.1, 0.0, 0.0), stiffness=5.0),
        x,
    )[-1],
}


def added(m: ct.Model, how: str, a: Any) -> ct.Model:
    found = ADDED[how](m, a)
    return found if isinstance(found, ct.Model) else m


def results(m: ct.Model, values: dict[str, float] | None = None) -> list[np.ndarray]:
    """Return dynamics of a model at one state, with values of parameters as inputs of kernels."""
    rng, names, given = np.random.default_rng(3), tuple(values or ()), values or {}
    timed = {"t": 0.4} if m.driven_names else {}
    fd, inverse, energy, mass = (
        make(m, parameters=names) for make in (ct.forward_dynamics, ct.inverse_dynamics, ct.energy, ct.mass_matrix)
    )
    q, v, tau = m.random(rng), 0.3 * rng.normal(size=m.nv), rng.normal(size=m.nv)
    if m.has_loops:
        now = m.with_values(values) if values else m
        q = now.assemble(guess=q, **timed)
        v = now.project_velocity(q, v, **timed)

    def call(kernel: Any, *arguments: Any) -> Any:
        return kernel(*((0.4,) if kernel.inputs[0].name == "t" else ()), *arguments, **given)

    vdot = call(fd, q, v, tau)
    found = [vdot, call(inverse, q, v, vdot), *call(energy, q, v), call(mass, q)]
    if m.driven_names:
        found.append(call(ct.driving_forces(m, parameters=names), q, v, tau))
    return found


def same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert relative(a, b) < 1e-10


@pytest.mark.parametrize("how", ADDED)
def test_what_is_added_after_values_were_given_follows_them(how: str) -> None:
    m = base()
    a = m.parameter("a", FIRST)
    m = m.with_values({"a": LAST})
    expected = results(added(base(), how, LAST))
    m = added(m, how, a)
    same(results(m), expected)
    same(results(m, {"a": LAST}), expected)
    same(results(m.with_values({"a": 0.5}).with_values({"a": LAST})), expected)


@pytest.mark.parametrize("how", ADDED)
def test_what_follows_a_parameter_is_what_is_built_with_its_value(how: str) -> None:
    m = base()
    m = added(m, how, m.parameter("a", FIRST))
    expected = results(added(base(), how, LAST))
    same(results(m.with_values({"a": LAST})), expected)
    same(results(m, {"a": LAST}), expected)
    renamed = m.copy()
    renamed.rename("a", "b")
    same(results(renamed.with_values({"b": LAST})), expected)
    same(results(renamed, {"b": LAST}), expected)


@pytest.mark.parametrize("how", ADDED)
def test_it_does_so_where_it_is_attached_and_scaled(how: str) -> None:
    m = base()
    m = added(m, how, m.parameter("a", FIRST))
    pose = ct.Pose((0.1, 0.2, 0.3), rpy=(0.0, 0.0, 0.4))
    whole, expected = ct.Model("whole", gravity=m.gravity), ct.Model("whole", gravity=m.gravity)
    whole.attach(m, prefix="x_", at=pose)
    expected.attach(added(base(), how, LAST), prefix="x_", at=pose)
    same(results(whole.with_values({"x_a": LAST})), results(expected))
    whole.scale(2.0, 3.0)
    expected.scale(2.0, 3.0)
    same(results(whole.with_values({"x_a": LAST})), results(expected))


@pytest.mark.parametrize("how", [how for how in ADDED if "force" not in how and how not in ("driven joint", "custom joint", "on a frame")])
def test_it_does_so_after_a_file(how: str, tmp_path: Any) -> None:
    m = base()
    m = added(m, how, m.parameter("a", FIRST)).with_values({"a": 0.5})
    m.save(tmp_path / "m.toml")
    loaded = ct.load(tmp_path / "m.toml")
    for one, other in zip(m.links, loaded.links, strict=True):
        assert one.body.geometry == other.body.geometry
    same(results(loaded), results(m))
    expected = added(base(), how, LAST)
    same(results(loaded.with_values({"a": LAST})), results(expected))
    for one, other in zip(loaded.with_values({"a": LAST}).links, expected.links, strict=True):
        assert one.body.geometry == other.body.geometry


def doors(m: ct.Model, a: Any, values: dict[str, float] | None = None) -> list[np.ndarray]:
    """Return what functions given to runs make of a model."""
    q, v, found, options = [0.3, 0.1, -0.2], [0.1, 0.2, 0.3], list[Any](), {"parameters": values} if values else {}
    controls = np.full((10, 3), 0.1)

    def cost(t: Any, q: Any, v: Any, tau: Any) -> Any:
        return a * (q @ q) + tau @ tau

    def final(t: Any, q: Any, v: Any) -> Any:
        return a * v[0]

    watched = ct.rollout(m, q, v, controls, 0.01, 10, stop=lambda t, q, v: t > 0.1 * a, observe=lambda t, q, v: a * v, **options)
    found += [watched.observed, watched.stopped_step]
    gradient = ct.rollout_gradient(m, q, v, controls, step=0.01, steps=10, cost=cost, final_cost=final, **options)
    found += [gradient.value, gradient.q0, gradient.controls]
    gradient = ct.simulate_gradient(m, q, v, until=0.1, step=0.01, cost=cost, final_cost=final, **options)
    found += [gradient.value, gradient.v0]
    pushed = {"hand": lambda t, q, v: [0.0, a, 0.0, a, 0.0, t]}
    reset = ct.Event("reset", lambda t, q, v: t - 0.05 * a, lambda t, q, v: (q, [a, 0.0, 0.0]))
    run = ct.simulate(m, q, v, until=0.1, step=0.01, wrenches=pushed, controller=lambda t, q, v: -a * v, events=[reset], **options)
    found += [run.q[-1], run.v[-1]]
    if not values:
        motion = ct.ilqr(m, q, v, controls=controls, step=0.01, cost=cost, final_cost=final, iterations=1)
        found += [motion.costs]
    return found


def test_functions_of_runs_are_bound_to_the_model_they_are_used_with() -> None:
    """At all doors, functions read the values of the model that runs, or those that the run is given."""
    m = base()
    a = m.parameter("a", FIRST)
    with pytest.warns(ct.ConvergenceWarning):
        expected = doors(base(), LAST)
    with pytest.warns(ct.ConvergenceWarning):
        same(doors(m.with_values({"a": LAST}), a), expected)
    same(doors(m, a, {"a": LAST}), expected[:-1])


def test_functions_marked_python_read_the_values_of_the_run() -> None:
    m = base()
    a = m.parameter("a", FIRST)
    m.add_force("f", ct.python(lambda t, q, v: -float(a) * v if False else [-x * (a * 1.0) for x in v]))
    expected = base()
    expected.add_force("f", lambda t, q, v: -LAST * v)
    for run in (
        ct.simulate(m, [0.3, 0, 0], until=0.1, step=0.01, parameters={"a": LAST}),
        ct.simulate(m.with_values({"a": LAST}), [0.3, 0, 0], until=0.1, step=0.01),
    ):
        assert relative(run.q, ct.simulate(expected, [0.3, 0, 0], until=0.1, step=0.01).q) < 1e-12


def test_whether_a_force_depends_on_time_does_not_depend_on_the_value_that_is_an_input() -> None:
    m = base()
    k = m.parameter("k", 0.0)
    m.add_force("shake", lambda t, q, v: k * np.cos(3.0 * t) * np.ones(3))
    expected = base()
    expected.add_force("shake", lambda t, q, v: 2.0 * np.cos(3.0 * t) * np.ones(3))
    state = [0.3, 0.1, -0.2], [0.1, 0.2, 0.3], np.zeros(3)
    found = ct.forward_dynamics(m, parameters="k")(0.4, *state, k=2.0)
    assert relative(found, ct.forward_dynamics(expected)(0.4, *state)) < 1e-12


@pytest.mark.parametrize("path", ["a", "tip.at.xyz", "tip.at"])
def test_wrenches_act_on_frames_wherever_these_are(path: str) -> None:
    """A wrench on a frame is one on the frame of the model built with the numbers, in all kernels and runs."""
    m = base()
    a = m.parameter("a", FIRST)
    m.add_frame("tip", "hand", ct.Pose((0.1, a if path == "a" else 0.7, 0.0)))
    plain = base()
    plain.add_frame("tip", "hand", ct.Pose((0.1, LAST, 0.0)))
    value = {"a": LAST, "tip.at.xyz": [0.1, LAST, 0.0], "tip.at": [0.1, LAST, 0.0, 0.0, 0.0, 0.0]}[path]
    wrench, state = np.array([[0.1, 0.2, 0.3, 1.0, 2.0, 3.0]]), ([0.3, 0.1, -0.2], [0.1, 0.2, 0.3])
    for make, more in ((ct.forward_dynamics, 1), (ct.inverse_dynamics, 1), (ct.bias_force, 0)):
        arguments = (*state, *([[0.3, 0.2, 0.1]] * more))
        expected = make(plain, wrenches="tip")(*arguments, wrench)
        assert relative(make(m, wrenches="tip", parameters=path)(*arguments, wrench, value), expected) < 1e-12
        if path == "a":
            assert relative(make(m.with_values({"a": LAST}), wrenches="tip")(*arguments, wrench), expected) < 1e-12
    runs = [
        ct.rollout(x, *state, step=0.01, steps=5, wrenches={"tip": wrench[0]}, parameters=given).q
        for x, given in ((m, {path: value}), (plain, None))
    ]
    assert relative(*runs) < 1e-12


def test_formulas_of_numbers_of_numpy_go_through_a_file(tmp_path: Any) -> None:
    m = base()
    a = m.parameter("a", FIRST)
    m.tie("hand.mass", np.float64(0.3) * a / np.float32(0.5) + np.int64(1))
    m.save(tmp_path / "m.toml")
    assert ct.load(tmp_path / "m.toml").with_values({"a": 2.0}).links[1].body.mass == pytest.approx(2.2)


@pytest.mark.parametrize(
    ("add", "says"),
    [
        (lambda m, a: ct.Spherical(rest=(a, 0, 0, 1)), "spherical rest .* cannot follow parameters, for it is a quaternion"),
        (lambda m, a: m.add_contact("c", "hand", exponent=1 + a), "contact 'c': exponent .* is not offered; give 1, or 1.5"),
        (lambda m, a: m.add_contact("c", "hand", penetration=a), "contact 'c': penetration .* cannot follow parameters; take their .value"),
        (lambda m, a: ct.Geometry("box", (1, 1, 1), rpy=(a, 0, 0)), "geometry 'box': rpy .* cannot follow parameters; take their .value"),
        (lambda m, a: ct.Geometry("rod", (1,), axis=(a, 0, 0)), "geometry 'rod': axis .* cannot follow parameters; take their .value"),
    ],
)
def test_what_cannot_follow_is_refused_where_it_is_given(add: Any, says: str) -> None:
    m = base()
    with pytest.raises(ct.ModelError, match=says):
        add(m, m.parameter("a", FIRST))


def test_locking_a_joint_leaves_the_formulas_of_others() -> None:
    """Of bodies whose names begin alike, and of a body that is locked, all but its place."""
    m = base()
    a = m.parameter("a", FIRST)
    m.add("arm.b", ct.box(a, 0.2, 0.1, mass=a), ct.Revolute("x", damping=a), "arm", (0, 0, a))
    expected = base()
    expected.add("arm.b", ct.box(LAST, 0.2, 0.1, mass=LAST), ct.Revolute("x", damping=LAST), "arm", (0, 0, LAST))
    for one in (m, expected):
        one.lock({"arm": 0.3})
    same(results(m.with_values({"a": LAST})), results(expected))
    for one in (m, expected):
        one.lock({"arm.b": 0.1})
    same(results(m.with_values({"a": LAST})), results(expected))


def test_a_custom_joint_that_follows_parameters_is_not_locked() -> None:
    m = base()
    m.add("bead", ct.point_mass(1.0), custom(m.parameter("a", FIRST)), "hand")
    m.add("pearl", ct.point_mass(1.0), custom(0.2), "hand")
    m.lock(pearl=0.1)
    with pytest.raises(ct.ModelError, match="lock: the custom joint of 'bead' follows parameters, and its pose would not"):
        m.lock(bead=0.1)


@pytest.mark.parametrize(("old", "new"), [("coil", "steel"), ("pin", "bolt"), ("tip", "end"), ("c", "floor"), ("gear", "mesh")])
def test_formulas_go_with_the_thing_that_is_renamed(old: str, new: str) -> None:
    """A spring, loop, frame, contact or coupling shares its name with an actuator, whose name stays, or which has none of its numbers."""
    m = base()
    a = m.parameter("a", FIRST)
    m.add("more", ct.box(a, 0.2, 0.1, mass=1.0), ct.Free())
    m.add_frame("tip", "hand", (0.0, 0.0, a))
    m.add_spring("coil", "ground", "tip", (0.0, a, 0.0), stiffness=a)
    m.add_contact("c", "more", ct.Geometry("sphere", (a,)), height=a, slip_speed=0.1)
    m.close("pin", ct.Spherical(), "hand", "more", (0.0, a, 0.0))
    m.couple("gear", {"arm": a, "hand.angle1": 1.0}, offset=0.3 * a)
    m.add_actuator(old, "arm")
    expected = results(m.with_values({"a": LAST}))
    m.rename(old, new)
    assert all(path.partition(".")[0] != old for path in m.parameters())
    same(results(m.with_values({"a": LAST})), expected)
    m.rename(old, "motor")
    same(results(m.with_values({"a": LAST})), expected)


def test_removing_a_thing_takes_its_formulas_along_and_leaves_those_of_others() -> None:
    m = base()
    a = m.parameter("a", FIRST)
    m.add("more", ct.box(a, 0.2, 0.1, mass=1.0), ct.Revolute("x"))
    m.add_spring("coil", "ground", "more", stiffness=a)
    m.add_actuator("coil", "arm")
    m.add("more.yet", ct.box(a, 0.2, 0.1, mass=a), ct.Revolute("x"))
    m.remove("more")
    assert [one.name for one in m.actuators] == ["coil"]
    assert {path.rpartition(".")[0] for path, x in m.parameters().items() if x.follows} == {"more.yet", "more.yet.geometry.0"}
    assert m.with_values({"a": LAST}).links[-1].body.mass == LAST


def test_keyframes_and_names_of_joints_go_through_a_file(tmp_path: Any) -> None:
    (tmp_path / "m.xml").write_text("""<mujoco model="m"><worldbody><body name="base"><freejoint name="floating"/><geom size="0.1"/>
        <body name="arm"><joint name="the elbow" axis="0 1 0"/><geom size="0.1" pos="0.3 0 0"/></body></body></worldbody>
        <keyframe><key name="home" qpos="0 0 1 1 0 0 0 0.3"/><key name="bent 2" qpos="0 1 0 0 0 0 2 0.7"/></keyframe></mujoco>""")
    m = ct.load(tmp_path / "m.xml", contact="ignore")
    m.save(tmp_path / "m.toml")
    loaded = ct.load(tmp_path / "m.toml")
    assert loaded.joint_names == m.joint_names != {}
    assert list(loaded.keyframes) == list(m.keyframes) == ["home", "bent 2"]
    for name, q in m.keyframes.items():
        np.testing.assert_array_equal(loaded.keyframes[name], q)
    assert loaded.home is not None
    for text, says in (
        ("[keyframes]\nhome = [1.0]", r"m\.toml:2: keyframes\.home: model .*: keyframe 'home' .* has shape \(1,\)"),
        ("[joint_names]\nleg = 'hip'", r"m\.toml:2: joint_names\.leg: no body is named 'leg'"),
    ):
        (tmp_path / "m.toml").write_text(f"{text}\n[[body]]\nname = 'arm'\nmass = 1.0\njoint = {{ type = 'free' }}\n")
        with pytest.raises(ct.ModelFileError, match=says):
            ct.load(tmp_path / "m.toml")


def test_urdf_says_that_it_cannot_hold_parameters_home_and_keyframes(tmp_path: Any) -> None:
    m = ct.Model("arm")
    m.add("upper", ct.rod(m.parameter("length", FIRST), mass=1.0), ct.Revolute("y"))
    m.home = [0.3]
    told = r"URDF cannot hold parameter 'length', home; save the model as \.toml, or .*, or give ignore=\('parameters', 'home'\)"
    with pytest.raises(ct.ModelFileError, match=told):
        m.save(tmp_path / "m.urdf")
    m.save(tmp_path / "m.urdf", ignore=("parameters", "home"))
    assert ct.load(tmp_path / "m.urdf").links[0].body.com == m.links[0].body.com
    with pytest.raises(ct.ModelFileError, match="ignore='limits' is not known; give some of parameters, home, keyframes"):
        m.save(tmp_path / "m.urdf", ignore="limits")
    with pytest.raises(ct.ModelFileError, match="ignore='home' is not known; leave it out, for TOML holds everything"):
        m.save(tmp_path / "m.toml", ignore="home")


def test_a_function_that_makes_no_joint_with_other_values_is_refused() -> None:
    for joint, says in (
        (lambda a: ct.Custom(lambda q: (np.eye(3), np.array([a * q[0], 0.0, 0.0])), 1), "its 1 coordinates are not independent"),
        (lambda a: ct.Driven(ct.Prismatic("x"), lambda t: np.log(a + t)), "driven motion .*; give a function that is finite there"),
    ):
        m = base()
        m.add("bead", ct.point_mass(1.0), joint(m.parameter("a", FIRST)), "hand")
        with pytest.raises(ct.ModelError, match=says), np.errstate(all="ignore"):
            m.with_values({"a": 0.0})


def test_places_on_frames_that_are_turned_by_parameters_follow_these() -> None:
    """In a frame that a parameter turns, and of an attached model there."""

    def made(a: Any, m: ct.Model) -> ct.Model:
        m.add_frame("tip", "hand", ct.Pose((0.0, a, 0.2), rpy=(0.0, a, 0.3)))
        m.add("more", ct.box(0.3, 0.2, 0.1, mass=1.0), ct.Revolute("z"), parent="tip", at=(0.1, a, 0.0))
        m.add_spring("s", "ground", "tip", at_b=(a, 0.1, 0.0), stiffness=5.0)
        other = ct.Model("other")
        other.add("yet", ct.box(0.3, 0.2, 0.1, mass=1.0), ct.Revolute("x"), at=(0.1, 0.2, 0.3))
        m.attach(other, to="tip", at=(0.0, 0.0, 0.1))
        return m

    m, expected = base(), made(LAST, base())
    m = made(m.parameter("a", FIRST), m)
    same(results(m.with_values({"a": LAST})), results(expected))
    same(results(m, {"a": LAST}), results(expected))
    with pytest.raises(ct.ModelError, match="'tip', a frame: its angles follow parameters, and would have to be combined"):
        m.add_frame("end", "tip", ct.Pose((0, 0, 0), rpy=(0.1, 0, 0)))


def test_a_checkpoint_belongs_to_the_values_of_its_parameters(tmp_path: Any) -> None:
    m = base()
    a = m.parameter("a", FIRST)
    m.add_force("f", ct.python(lambda t, q, v: [-x * a for x in v]))
    ct.simulate(m, [0.3, 0, 0], until=0.1, step=0.01, checkpoint=tmp_path / "run")
    with pytest.raises(ct.CatenaError):
        ct.simulate(m.with_values({"a": LAST}), [0.3, 0, 0], until=0.2, step=0.01, resume=tmp_path / "run")


def test_options_of_driven_joints_are_not_identified() -> None:
    m = base()
    m.add("ring", ct.point_mass(1.0), ct.Driven(ct.Prismatic("x", damping=0.1), lambda t: 0.1 * t), "hand")
    with pytest.raises(ct.ArgumentError, match=r"joint forces do not depend on 'ring\.damping', for the joint is driven"):
        ct.identify(m, ["ring.damping"], *np.zeros((4, 20, 3)), t=np.linspace(0.0, 1.0, 20))
