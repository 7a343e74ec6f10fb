"""Numbers of a model as inputs of kernels: against the model that is built with these numbers."""

from __future__ import annotations

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
            assert relative(a, b) < 1e-11, (make.__name__, list(values))


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
    values = {"body1.mass": np.array(2.5), "body3.at": np.array([0.3, 0.0, -0.2, 0.1, 0.2, 0.3]), "body2.inertia": np.diag([0.1, 0.2, 0.25])}
    built, (q, v, x) = m.with_values(values), mechanisms.state(m, 1)
    makers = {
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
