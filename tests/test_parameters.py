"""Numbers of a model as inputs of kernels: against the model that is built with these numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests import mechanisms
from tests.referee import relative

import catena as ct
from catena.examples import EXAMPLES

pytestmark = pytest.mark.evaluated


def other(m: ct.Model, path: str, rng: np.random.Generator) -> np.ndarray:
    """Another value of a number, of the same size; zeros change too."""
    known = m.parameters()[path]
    value = np.array(known.value)
    if path.endswith(".inertia"):
        spread = rng.normal(size=(3, 3)) * np.sqrt(0.1 * max(np.abs(value).max(), 1e-3))
        extra = spread @ spread.T
        return value + np.trace(extra) * np.eye(3) - extra
    if path.endswith((".mass", "ness", "damping", "friction", "armature", "length", "speed")):
        return value * rng.uniform(0.8, 1.2, size=value.shape) + rng.uniform(0.01, 0.05, size=value.shape)
    return value + 0.1 * rng.normal(size=value.shape)


def varied(m: ct.Model, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Some numbers of a model, with other values."""
    known = [path for path in m.parameters() if not path.endswith((".lower", ".upper"))]
    chosen: dict[str, np.ndarray] = {}
    for path in rng.permutation(known):
        whole = path.removesuffix(".xyz").removesuffix(".rpy")
        if len(chosen) < count and not any(p.removesuffix(".xyz").removesuffix(".rpy") == whole for p in chosen):
            chosen[str(path)] = other(m, str(path), rng)
    return chosen


def agree(m: ct.Model, values: dict[str, np.ndarray], q: np.ndarray, v: np.ndarray, x: np.ndarray) -> None:
    built = m.with_values(values)
    vdot = ct.forward_dynamics(built)(q, v, x)
    for make in (ct.forward_dynamics, ct.inverse_dynamics, ct.mass_matrix, ct.energy, ct.poses):
        kernel, expected = make(m, parameters=list(values)), make(built)
        arguments = (q, v, vdot if make is ct.inverse_dynamics else x)[: len(expected.inputs)]
        found, wanted = (x if isinstance(x, tuple) else (x,) for x in (kernel(*arguments, **values), expected(*arguments)))
        for a, b in zip(found, wanted, strict=True):
            assert relative(a, b) < 1e-12, (make.__name__, list(values))


@pytest.mark.parametrize("seed", range(12))
def test_kernels_with_parameters_equal_those_of_the_model_with_these_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = mechanisms.tree(seed, 5, options=seed % 2 == 0, geometry=("general", "aligned", "none")[seed % 3])
    if seed % 3 == 0:
        m.add_spring("coil", "ground", m.body_names[-1], at_a=(0.3, 0, 0), stiffness=20.0, damping=1.0, length=0.0)
    agree(m, varied(m, rng, 8), *mechanisms.state(m, seed))


LOOPS = ("four-bar", "suspension", "stewart-ups", "slider-crank")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [name for name in LOOPS if name in EXAMPLES])
def test_with_loops_they_do_too(name: str, seed: int) -> None:
    rng, m = np.random.default_rng(seed), EXAMPLES[name]()
    values = {path: value for path, value in varied(m, rng, 12).items() if ".at" not in path}
    for path in rng.permutation([path for path in m.parameters() if path.endswith(".xyz")])[:4]:  # longer or shorter: loops still close
        values[str(path)] = m.parameters()[str(path)].value * rng.uniform(0.9, 1.1)
    built = m.with_values(values)
    q = built.assemble(guess=m.assemble())
    v = built.project_velocity(q, rng.normal(size=m.nv))
    agree(m, values, q, v, rng.normal(size=m.nv))


def test_every_trajectory_of_a_rollout_has_its_own_numbers() -> None:
    m, rng = EXAMPLES["arm"](), np.random.default_rng(0)
    hand = m.body_names[-1]
    masses, damping = rng.uniform(0.5, 2.0, size=6), 0.3
    q = m.random(rng, 6)
    runs = ct.rollout(m, q, step=1e-3, steps=50, parameters={f"{hand}.mass": masses, f"{hand}.damping": damping})
    again = ct.ensemble(m, q, step=1e-3, steps=50, chunk=4, parameters={f"{hand}.mass": masses, f"{hand}.damping": damping})
    np.testing.assert_array_equal(again.q, runs.q)
    for i, mass in enumerate(masses):
        built = m.with_values({f"{hand}.mass": mass, f"{hand}.damping": damping})
        np.testing.assert_allclose(runs.q[i], ct.rollout(built, q[i], step=1e-3, steps=50).q, atol=1e-12)


def test_every_linkage_of_a_rollout_has_its_own_geometry() -> None:
    m = EXAMPLES["four-bar"]()
    lengths, masses = np.array([[0.5, 0.0, 0.0], [0.6, 0.0, 0.0], [0.7, 0.0, 0.1]]), np.array([1.0, 3.0])
    values = {"pin.at_b.xyz": lengths[:, None], "rocker.mass": masses}
    q = m.assemble(crank=1.0, parameters=values)
    built = [[m.with_values({"pin.at_b.xyz": length, "rocker.mass": mass}) for mass in masses] for length in lengths]
    v = np.array([[one.project_velocity(q[i, j], crank=2.0) for j, one in enumerate(row)] for i, row in enumerate(built)])
    runs = ct.rollout(m, q, v, step=1e-3, steps=100, parameters=values)
    assert runs.q.shape == (3, 2, 101, 3)
    for i, row in enumerate(built):
        for j, one in enumerate(row):
            np.testing.assert_allclose(runs.q[i, j], ct.rollout(one, q[i, j], v[i, j], step=1e-3, steps=100).q, atol=1e-12)
            own = {"pin.at_b.xyz": lengths[i], "rocker.mass": masses[j]}
            alone = ct.rollout(m, q[i, j], v[i, j], step=1e-3, steps=100, parameters=own)
            np.testing.assert_array_equal(alone.q, runs.q[i, j])
    with pytest.raises(ct.ArgumentError, match=r"q0\[0, 0\] leaves loop 'pin' of model 'four-bar' open"):
        ct.rollout(m, q[1, 0], step=1e-3, steps=1, parameters=values)
    with pytest.raises(ct.ArgumentError, match=r"v0\[0, 0\] would open the loops"):
        ct.rollout(m, q, v[1, 0], step=1e-3, steps=1, parameters=values)


def test_geometries_are_assembled_together_and_each_as_its_own_model() -> None:
    m = EXAMPLES["four-bar"]()
    lengths = np.array([[0.5, 0.0, 0.0], [0.6, 0.0, 0.0], [0.7, 0.0, 0.1]])
    q = m.assemble(crank=1.0, parameters={"pin.at_b.xyz": lengths})
    assert q.shape == (3, 3)
    for one, length in zip(q, lengths, strict=True):
        built = m.with_values({"pin.at_b.xyz": length})
        assert ct.loop_error(built)(one).max() < 1e-13
        assert one[0] == 1.0
        np.testing.assert_allclose(ct.loop_error(m, parameters="pin.at_b.xyz")(one, length), 0.0, atol=1e-13)
        np.testing.assert_allclose(built.assemble(guess=one, crank=1.0), one, atol=1e-12)
    np.testing.assert_allclose(m.assemble(crank=1.0, parameters={"pin.at_b.xyz": lengths[0]}), q[0], atol=1e-12)


def test_a_geometry_that_does_not_go_together_is_told_and_leaves_the_others_alone() -> None:
    m = EXAMPLES["four-bar"]()
    with pytest.warns(ct.AssemblyWarning, match=r"geometry \(1,\): model 'four-bar' does not close"):
        q = m.assemble(crank=1.0, parameters={"pin.at_b.xyz": [[0.6, 0, 0], [0.01, 0, 0], [0.62, 0, 0]]})
    assert np.isnan(q[1]).all()
    assert np.isfinite(q[[0, 2]]).all()


def test_sensitivities_of_a_linkage_by_a_length_equal_differences() -> None:
    m = EXAMPLES["four-bar"]()
    path, small = "pin.at_b.xyz", 1e-6
    q = m.assemble(crank=1.0)
    v = m.project_velocity(q, crank=2.0)
    by_mass = ct.forward_dynamics(m, parameters="rocker.mass").jacobian("vdot", "rocker.mass")(q, v, np.ones(3))
    mass = m.parameters()["rocker.mass"].value
    ends = [ct.forward_dynamics(m, parameters="rocker.mass")(q, v, np.ones(3), mass + step) for step in (small, -small)]
    np.testing.assert_allclose(by_mass, (ends[0] - ends[1]) / (2 * small), rtol=1e-6, atol=1e-8)
    assert ct.loop_error(m, parameters=path).jacobian("error", path)(q).shape == (1, 3)


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        (["rocker.mas"], r"'rocker.mas' is not a number of model 'four-bar'; did you mean 'rocker.mass'"),
        (["rocker.at", "rocker.at.xyz"], "given twice"),
        (["nothing"], "is not a number"),
    ],
)
def test_paths_that_name_no_number_are_refused(paths: list[str], says: str) -> None:
    with pytest.raises(ct.ArgumentError, match=says):
        ct.forward_dynamics(EXAMPLES["four-bar"](), parameters=paths)


@pytest.mark.parametrize("method", ct.methods("forward_dynamics"))
def test_all_methods_take_parameters(method: str) -> None:
    m = mechanisms.chain(3, 4, ("revolute", "prismatic"))
    values = {"body1.mass": np.array(2.5), "body2.at.xyz": np.array([0.3, 0.0, -0.2]), "gravity": np.array([1.0, 2.0, -5.0])}
    q, v, tau = mechanisms.state(m, 1)
    try:
        expected = ct.forward_dynamics(m.with_values(values), method)(q, v, tau)
    except ct.MethodError:
        pytest.skip("for other mechanisms")
    assert relative(ct.forward_dynamics(m, method, parameters=list(values))(q, v, tau, **values), expected) < 1e-9


def test_all_kernels_of_trees_take_parameters() -> None:
    m = mechanisms.tree(4, 4, ("revolute", "spherical", "universal"), options=True)
    values = {
        "body1.mass": np.array(2.5),
        "body3.at": np.array([0.3, 0.0, -0.2, 0.1, 0.2, 0.3]),
        "body2.inertia": np.diag([0.1, 0.2, 0.25]),
    }
    built, (q, v, x) = m.with_values(values), mechanisms.state(m, 1)
    makers = {
        ct.gravity_force: (q,), ct.coriolis_force: (q, v), ct.passive_force: (q, v), ct.coriolis_matrix: (q, v),
        ct.bias_force: (q, v), ct.momenta: (q, v), ct.velocities: (q, x), ct.hamiltonian_dynamics: (q, x, x), ct.poses: (q,),
        ct.joint_wrenches: (q, v, x), ct.forward_dynamics_derivatives: (q, v, x), ct.inverse_dynamics_derivatives: (q, v, x),
        lambda m, **more: ct.jacobian(m, "body3", (0.1, 0, 0), **more): (q,),
    }  # fmt: skip
    for make, arguments in makers.items():
        found, wanted = make(m, parameters=list(values))(*arguments, **values), make(built)(*arguments)
        for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, wanted)), strict=True):
            assert relative(a, b) < 1e-10


def test_a_run_takes_other_numbers() -> None:
    m = EXAMPLES["four-bar"]()
    q = m.assemble(crank=1.0, parameters={"pin.at_b.xyz": [0.65, 0, 0]})
    run = ct.simulate(m, q, until=0.2, parameters={"pin.at_b.xyz": [0.65, 0, 0], "rocker.mass": 5.0})
    built = m.with_values({"pin.at_b.xyz": [0.65, 0, 0], "rocker.mass": 5.0})
    np.testing.assert_array_equal(run.q, ct.simulate(built, q, until=0.2).q)
    assert run.model.links[2].body.mass == 5.0


def test_the_crank_of_a_linkage_with_other_lengths() -> None:
    m = EXAMPLES["four-bar"]()
    values = {"pin.at_b.xyz": np.array([0.65, 0.0, 0.0]), "crank.mass": np.array(2.0)}
    built, crank = m.with_values(values), ct.reduced(m, ["crank"], parameters=list(values))
    q = built.assemble(crank=0.7)
    np.testing.assert_allclose(crank.mass_matrix(q, **values), ct.reduced(built, ["crank"]).mass_matrix(q), rtol=1e-11)
    np.testing.assert_allclose(crank.rates(q, [1.0], **values), ct.reduced(built, ["crank"]).rates(q, [1.0]), rtol=1e-11)


def test_sensitivities_of_positions_reactions_and_motor_forces_are_total_derivatives() -> None:
    m, path, small = EXAMPLES["four-bar"](), "pin.at_b.xyz", 1e-5
    own = m.parameters()[path].value
    crank = ct.reduced(m, ["crank"], parameters=[path])
    q = crank.positions([1.0])
    by_length = crank.sensitivity(path)(q)
    wrenches, inverse = ct.joint_wrenches(m, parameters=path), ct.inverse_dynamics(m, parameters=path)
    still = np.zeros(m.nv)
    found = [
        kernel.jacobian(name, path)(q, still, still) + kernel.jacobian(name, "q")(q, still, still) @ by_length
        for kernel, name in ((wrenches, "wrenches"), (inverse, "tau"))
    ]
    for k in (0, 2):
        ends = []
        for step in (small, -small):
            built = m.with_values({path: own + step * np.eye(3)[k]})
            at = ct.reduced(built, ["crank"]).positions([1.0], guess=q)
            ends.append((at, ct.joint_wrenches(built)(at, still, still), ct.inverse_dynamics(built)(at, still, still)))
        slopes = [(a - b) / (2.0 * small) for a, b in zip(*ends, strict=True)]
        np.testing.assert_allclose(by_length[:, k], slopes[0], atol=1e-8)
        np.testing.assert_allclose(found[0][..., k], slopes[1], atol=1e-6)
        np.testing.assert_allclose(found[1][..., k], slopes[2], atol=1e-6)


def test_positions_follow_from_independent_coordinates_for_each_geometry() -> None:
    m, x = EXAMPLES["four-bar"](), np.linspace(0.0, 2.0, 4)[:, None]
    lengths = np.array([[0.55, 0.0, 0.0], [0.65, 0.0, 0.0]])
    q = ct.reduced(m, ["crank"], parameters="pin.at_b.xyz").positions(x, **{"pin.at_b.xyz": lengths[:, None]})
    for found, length in zip(q, lengths, strict=True):
        np.testing.assert_allclose(found, ct.reduced(m.with_values({"pin.at_b.xyz": length}), ["crank"]).positions(x), atol=1e-12)


def test_many_states_share_what_follows_from_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    m, rng = EXAMPLES["arm"](), np.random.default_rng(0)
    hand = m.body_names[-1]
    kernel = ct.forward_dynamics(m, parameters=[f"{hand}.mass", f"{hand}.at"])
    state = [rng.normal(size=(2, 9, m.nv)) for _ in range(3)]
    values = {f"{hand}.mass": np.array([[1.0], [2.0]]), f"{hand}.at": rng.normal(size=(2, 1, 6))}
    alone = kernel(*state, **values)
    monkeypatch.setattr("catena.native.kernel.STAGED", 4)
    out = np.empty_like(alone)
    assert relative(kernel(*state, **values, out=out), alone) < 1e-12
    assert relative(out, alone) < 1e-12
    assert relative(kernel(*state), ct.forward_dynamics(m)(*state)) < 1e-12


# --- parameters of the user's own


def lamp(length: Any, stiffness: Any, tilt: Any, drag: Any, make: Callable[[ct.Model, str, float], Any]) -> ct.Model:
    """A mechanism in which four numbers are used everywhere that a number may be, as numbers or by parameters of one's own."""
    m = ct.Model("lamp")
    named = {"length": length, "stiffness": stiffness, "tilt": tilt, "drag": drag}
    length, stiffness, tilt, drag = (make(m, name, value) for name, value in named.items())
    m.add("post", ct.cylinder(0.3, 0.1 * length, mass=2.0 * drag), ct.Revolute("z", damping=drag, armature=0.1 * drag))
    m.add("rod", ct.rod(length, mass=1.0 + length, axis="x"), ct.Universal(stiffness=(stiffness, 2.0)), parent="post", at=(0, 0, length))
    m.add("box", ct.box(length, 0.1, 0.2, mass=1.0), ct.Fixed(), parent="rod", at=ct.Pose((length, 0, 0), rpy=(0.1, tilt, np.sin(tilt))))
    m.add("ball", ct.sphere(0.2 * length, mass=0.5), ct.Spherical(stiffness=stiffness), parent="box", at_body=(0.1 * length, 0, 0))
    m.add("drop", ct.point_mass(drag, at=(length, 0, 0)), ct.Prismatic("x", rest=0.1 * length), parent="rod", at=(0, length**2, 0))
    cam = ct.Custom(lambda q: (np.eye(3), np.array([q[0], length * np.sin(q[0]), tilt])), coordinates=1)
    m.add("cam", ct.box(0.1, 0.1, 0.1, mass=0.3), cam, parent="rod")
    m.add("shaker", ct.point_mass(0.4), ct.Driven(ct.Prismatic("z"), lambda t: length * np.sin(drag * t)), parent="post", at=(0.2, 0, 0))
    m.add_spring("coil", "ground", "box", at_b=(0, 0.5 * length, 0), stiffness=stiffness, damping=drag, length=0.2 * length)
    m.add_force("air", lambda t, q, v: [ct.where(x > 0.0, tilt, 0.0) - ct.maximum(length, drag) * np.sin(t) - drag * x for x in v])
    return m


def test_parameters_of_ones_own_stand_wherever_numbers_do() -> None:
    own = lamp(0.5, 20.0, 0.3, 0.4, lambda m, name, value: m.parameter(name, value))
    paths, rng = ["length", "stiffness", "tilt", "drag"], np.random.default_rng(0)
    kernel, energy = ct.forward_dynamics(own, parameters=paths), ct.energy(own, parameters=paths)
    for values in ((0.5, 20.0, 0.3, 0.4), (0.7, 5.0, 0.0, 0.2), (0.3, 30.0, -1.0, 0.8)):
        plain = lamp(*values, make=lambda m, name, value: value)
        q, v = plain.random(rng), rng.normal(size=plain.nv)
        expected = ct.forward_dynamics(plain)(0.7, q, v, v)
        given = dict(zip(paths, values, strict=True))
        assert relative(kernel(0.7, q, v, v, **given), expected) < 1e-11
        assert relative(ct.forward_dynamics(own.with_values(given))(0.7, q, v, v), expected) < 1e-11
        for found, wanted in zip(energy(0.7, q, v, **given), ct.energy(plain)(0.7, q, v), strict=True):
            assert relative(found, wanted) < 1e-11
        runs = (ct.simulate(own, q, v, until=0.05, parameters=given), ct.simulate(plain, q, v, until=0.05))
        np.testing.assert_allclose(*(run.q[-1] for run in runs), atol=1e-9)


def test_linkages_follow_parameters_of_ones_own() -> None:
    def built(make: Callable[[ct.Model, str, float], Any], a: float, b: float) -> ct.Model:
        m = ct.Model("linkage")
        x, y = make(m, "x", a), make(m, "y", b)
        for name, length in (("crank", x), ("coupler", 1.0), ("rocker", 0.6)):
            m.add(name, ct.rod(length, mass=5.0))
        m.connect("ground", "crank", ct.Revolute("y"))
        m.connect("coupler", "crank", ct.Revolute("y", damping=0.1 * y), at_b=(x, 0, 0))  # hangs the coupler, the other way round
        m.connect("coupler", "rocker", ct.Revolute("y"), at_a=(1, 0, 0), at_b=(0.6, 0, 0))
        m.connect("rocker", "ground", ct.Revolute("y"), at_b=(y, 0, 0))
        m.add("wheel", ct.cylinder(0.1, 0.2, mass=1.0, axis="y"), ct.Revolute("y"))
        m.couple("mesh", {"crank": x, "wheel": -1.0}, offset=0.1 * y)
        m.add("bob", ct.sphere(0.1, mass=1.0, com=(0.1, 0, 0)), ct.Free())
        m.close("string", ct.Distance(2.0 * x), "ground", "bob")
        return m

    own = built(lambda m, name, value: m.parameter(name, value), 0.3, 1.0)
    assert {path for path, known in own.parameters().items() if known.follows} >= {"coupler.at.xyz", "coupler.damping", "string.length"}
    for a, b in ((0.3, 1.0), (0.35, 1.1)):
        plain = built(lambda m, name, value: value, a, b)
        q = plain.assemble(guess=own.assemble(crank=1.0), crank=1.0)
        v = plain.project_velocity(q, np.ones(plain.nv))
        expected = ct.forward_dynamics(plain)(q, v, v)
        assert relative(ct.forward_dynamics(own, parameters=["x", "y"])(q, v, v, a, b), expected) < 1e-10
        assert ct.loop_error(own, parameters=["x", "y"])(q, a, b).max() < 1e-12


def test_gains_of_a_controller_may_be_parameters() -> None:
    m = EXAMPLES["pendulum"]()
    gains = m.parameter("gains", [2.0, 0.1])

    def controller(t: Any, q: Any, v: Any) -> Any:
        return -gains[0] * q - gains[1] * v

    several, q, options = np.array([[2.0, 0.1], [5.0, 0.3]]), m.random(0), {"step": 1e-3, "integrator": "rk4"}
    runs = ct.rollout(m, q, controls=controller, steps=200, parameters={"gains": several}, **options)
    for found, chosen in zip(runs.q, several, strict=True):
        plain = ct.rollout(EXAMPLES["pendulum"](), q, controls=lambda t, q, v, k=chosen: -k[0] * q - k[1] * v, steps=200, **options)
        np.testing.assert_allclose(found, plain.q, atol=1e-12)
        run = ct.simulate(m, q, controller=controller, until=0.2, parameters={"gains": chosen}, **options)
        np.testing.assert_allclose(run.q[-1], plain.q[-1], atol=1e-10)


def test_files_hold_parameters_and_formulas(tmp_path: Any) -> None:
    m = ct.Model("arm")
    x, y = m.parameter("x", 0.5), m.parameter("y", [1.0, 2.0])
    m.add("rod", ct.rod(x, mass=y[1]), ct.Revolute("y", damping=0.1 * y[0]))
    m.add("box", ct.box(0.1, x, 0.1, mass=1.0), ct.Universal(stiffness=y), parent="rod", at=ct.Pose((x, 0, 0), rpy=(0, 0, np.sin(-x / 2))))
    m.add_spring("coil", "ground", "box", at_b=((-x) ** 2, (-2.0) ** 2 * x, 0), stiffness=20.0 * y[0], length=np.sqrt(x))
    table = m.parameter("table", np.arange(1.0, 13.0).reshape(3, 4))
    m.add("ball", ct.sphere(0.1, mass=table[2, 3] - x), ct.Fixed(), parent="box")
    file, state = tmp_path / "arm.toml", [np.full(3, 0.2)] * 3
    m.save(file)
    again = ct.load(file)
    for values in ({}, {"x": 0.7}, {"x": 0.2, "y": [2.0, 3.0]}):
        found, wanted = (ct.forward_dynamics(each.with_values(values))(*state) for each in (again, m))
        np.testing.assert_array_equal(found, wanted)
    file.write_text(file.read_text().replace('"0.1 * y[0]"', '"0.1 * z"'))
    with pytest.raises(ct.ModelFileError, match=r"ties.rod.damping.*'z', which is no parameter"):
        ct.load(file)


@pytest.mark.parametrize("formula", ["__import__('os')", "x.real", "x +", "[x]", "x if x else 1", "9**9**9**9", "x[3]", "'x'", "1 / 0"])
def test_formulas_of_files_are_arithmetic_only(formula: str, tmp_path: Any) -> None:
    m, file = ct.Model("arm"), tmp_path / "arm.toml"
    m.add("rod", ct.rod(0.5, mass=m.parameter("x", 0.5)), ct.Revolute("y"))
    m.save(file)
    file.write_text(file.read_text().replace('"rod.mass" = "x"', f'"rod.mass" = "{formula}"'))
    with pytest.raises(ct.ModelFileError, match="ties"):
        ct.load(file)


ENTRIES = [
    "y[a]", "y[0:1]", "y[:]", "y[None]", "y[True]", "y[...]", "y[[0]]", "y[0.0]", "y[1j]", "y['a']", "y[2]", "y[-3]", "y[10**9]",
    "y[1 - 1]", "y[0][0]",
    "y[0, 0]", "y[()]", "y", "2 * y", "y[0] * y", "sqrt(y)", "a[0]", "a[()]", "c[0]", "c[0, :]", "c[0, a]", "c[0, None]", "c",
]  # fmt: skip


@pytest.mark.parametrize("formula", ENTRIES)
def test_a_formula_of_a_number_takes_single_entries(formula: str, tmp_path: Any) -> None:
    m, file = ct.Model("arm"), tmp_path / "arm.toml"
    a, y, c = m.parameter("a", 0.0), m.parameter("y", [1.0, 2.0]), m.parameter("c", [[3.0, 4.0]])
    m.add("rod", ct.rod(0.5, mass=a + y[-1] + c[0, 1]), ct.Revolute("y"))
    m.save(file)
    kept = file.read_text()
    assert ct.load(file).links[0].body.mass == 6.0
    for path, text in (("rod.mass", f'"{formula}"'), ("rod.com", f'["{formula}", 0, 0]')):
        file.write_text(re.sub(rf'(?m)^"{path}" = .*$', "", kept) + f'"{path}" = {text}\n')
        with pytest.raises(ct.ModelFileError, match=r"arm\.toml:\d+: ties"):
            ct.load(file)


@pytest.mark.parametrize("value", ["vector", ["vector", 0, 0], [[1.0, 2.0], 0, 0], ["x", 0, None], ["x", 0, "text"], ["x"], []])
def test_ties_of_another_shape_or_of_no_numbers_are_refused(value: Any) -> None:
    m = ct.Model("arm")
    known = {"x": m.parameter("x", 0.5), "vector": m.parameter("vector", [1.0, 2.0])}
    m.add("rod", ct.rod(0.5, mass=1.0), ct.Revolute("y"))

    def filled(entry: Any) -> Any:
        return [filled(each) for each in entry] if isinstance(entry, list) else known.get(entry, entry) if isinstance(entry, str) else entry

    with pytest.raises(ct.ModelError, match=r"tie: rod\.com"):
        m.tie("rod.com", filled(value))


def _run(m: ct.Model, **parameters: Any) -> Any:
    return ct.rollout(m, [0.0], step=1e-3, steps=2, parameters={path.replace("__", "."): value for path, value in parameters.items()})


REFUSED: dict[str, tuple[Callable[[ct.Model, Any], Any], str]] = {
    "another model": (lambda m, x: ct.Model("other").add("rod", ct.rod(x, mass=1.0), ct.Revolute("y")), "'x', which is no parameter of"),
    "as a float": (lambda m, x: m.assemble(guess=[float(x)]), "no plain number"),
    "in an axis": (lambda m, x: ct.Revolute((x, 0, 1)), "cannot follow parameters"),
    "in a choice": (lambda m, x: 1.0 if x > 0.0 else 2.0, "no truth value"),
    "the name of a number": (lambda m, x: m.parameter("gravity", 1.0), "has a number of this name"),
    "no name": (lambda m, x: m.parameter("a b", 1.0), "not a name"),
    "not finite": (lambda m, x: m.parameter("y", np.inf), "not finite"),
    "a number to follow": (lambda m, x: m.tie("arm.mass", 2.0), "follows no parameter"),
    "an unknown number": (lambda m, x: m.tie("arm.mas", x), "did you mean"),
    "what follows": (lambda m, x: ct.forward_dynamics(m, parameters="arm.com"), "'arm.com' follows x; name x instead"),
    "what follows, set": (lambda m, x: m.with_values({"arm.com": (1.0, 0.0, 0.0)}), "follows x"),
    "a mass below zero": (lambda m, x: m.with_values({"arm.mass": -1.0}), "below 0"),
    "masses below zero": (lambda m, x: _run(m, arm__mass=[1.0, -1.0]), r"mass\[1\] = -1"),
    "an inertia of no body": (lambda m, x: _run(m, tip__inertia=np.diag([1.0, 1.0, 3.0])), "belongs to no body"),
    "not symmetric": (lambda m, x: _run(m, tip__inertia=np.eye(3) + np.eye(3, k=1)), "not symmetric"),
    "another shape": (lambda m, x: _run(m, gravity=[1.0, 2.0]), "has shape"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_parameter_is_refused(case: str) -> None:
    m = ct.Model("pendulum")
    x = m.parameter("x", 0.5)
    m.add("arm", ct.rod(x, mass=1.0), ct.Revolute("y"))
    m.add("tip", ct.sphere(0.1, mass=1.0), ct.Fixed(), parent="arm", at=(x, 0, 0))
    function, says = REFUSED[case]
    with pytest.raises((ct.ModelError, ct.ArgumentError), match=says):
        function(m, x)


def test_a_kernel_gives_nan_for_a_mass_below_zero_and_leaves_the_others_alone() -> None:
    m = EXAMPLES["four-bar"]()
    q = m.assemble(crank=1.0)
    found = ct.forward_dynamics(m, parameters="crank.mass")(q, np.zeros(3), np.ones(3), [1.0, -1.0])
    assert np.isnan(found[1]).all()
    np.testing.assert_allclose(found[0], ct.forward_dynamics(m.with_values({"crank.mass": 1.0}))(q, np.zeros(3), np.ones(3)), rtol=1e-12)


@pytest.mark.parametrize("name", ["q", "v", "tau", "vdot", "t", "out"])
def test_parameters_cannot_have_the_names_of_inputs(name: str) -> None:
    with pytest.raises(ct.ModelError, match=f"parameter '{name}': kernels have an input of this name"):
        ct.Model("pendulum").parameter(name, 1.0)


def test_frozen_models_refuse_new_parameters_and_ties() -> None:
    m = EXAMPLES["arm"]()
    m.parameter("load", 1.0)
    for change in ("parameter", "tie"):
        with pytest.raises(ct.ModelError, match=f"^{change}: model 'arm' is frozen"):
            getattr(m.frozen(), change)


def test_what_a_body_looks_like_follows_its_lengths() -> None:
    m = ct.Model("shapes")
    length, radius = m.parameter("length", 0.5), m.parameter("radius", 0.1)
    m.add("rod", ct.rod(length, mass=1.0), ct.Revolute("y"))
    m.add("drum", ct.cylinder(2.0 * length, radius, mass=1.0, com=(0, 0, length)), ct.Revolute("y"))
    m.add("box", ct.box(0.1, length, 0.2, mass=1.0), ct.Revolute("y"))
    plain = ct.Model("shapes")
    plain.add("rod", ct.rod(0.8, mass=1.0), ct.Revolute("y"))
    plain.add("drum", ct.cylinder(1.6, 0.1, mass=1.0, com=(0, 0, 0.8)), ct.Revolute("y"))
    plain.add("box", ct.box(0.1, 0.8, 0.2, mass=1.0), ct.Revolute("y"))
    for built in (m.with_values({"length": 0.8}), m.with_values({"length": 0.7}).with_values({"length": 0.8})):
        for link, other in zip(built.links, plain.links, strict=True):
            assert link.body.geometry == other.body.geometry


def test_the_stiffest_trajectory_chooses_the_integrator() -> None:
    m = ct.Model("damped")
    m.add("arm", ct.rod(1.0, mass=1.0), ct.Revolute("y", damping=0.1))
    runs = ct.rollout(m, [0.5], [1.0], step=1e-2, steps=100, parameters={"arm.damping": [0.1, 500.0]})
    alone = ct.rollout(m.with_values({"arm.damping": 500.0}), [0.5], [1.0], step=1e-2, steps=100)
    np.testing.assert_allclose(runs.q[1], alone.q, atol=1e-12)


def test_a_number_that_is_tied_has_the_value_of_its_formula() -> None:
    m = EXAMPLES["arm"]()
    load = m.parameter("load", 0.8)
    hand = m.body_names[-1]
    for path, formula, value in ((f"{hand}.mass", 2.0 * load, 1.6), (f"{hand}.damping", 0.1 + load, 0.9)):
        m.tie(path, formula)
        assert m.parameters()[path].value == pytest.approx(value)
        assert m.frozen().parameters()[path].value == pytest.approx(value)
    assert m.links[-1].body.mass == pytest.approx(1.6)
    state = mechanisms.state(m, 0)
    assert relative(ct.forward_dynamics(m)(*state), ct.forward_dynamics(m, parameters="load")(*state)) < 1e-12
