"""Laws of the formulations: run eagerly on floats over many random trees, and through compiled kernels on a few.

Tolerances are relative to the largest entry of what is compared, or to the scale of the terms that make it up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from tests import mechanisms
from tests.referee import Referee, derivative, relative

import catena as ct
from catena.formulations import ALIASES, AUTO, METHODS
from catena.formulations.frames import jacobian, poses
from catena.formulations.joint_forces import energy, passive_force
from catena.graph import Trace
from catena.kernels.methods import DERIVATIVES
from catena.references import REFERENCES

#: Every method of every problem that fits every tree and can be traced, as the registry says; the others are in test_unified.py.
SOLUTIONS = [(p, name) for name, method in METHODS.items() if method.general for p in method.solves if p not in DERIVATIVES]
FORWARD = [name for problem, name in SOLUTIONS if problem == "forward_dynamics"]
INVERSE = [name for problem, name in SOLUTIONS if problem == "inverse_dynamics"]
MASS = [name for problem, name in SOLUTIONS if problem == "mass_matrix"]

#: What each problem takes.
ARGUMENTS = {
    "forward_dynamics": ("q", "v", "tau"), "inverse_dynamics": ("q", "v", "vdot"), "mass_matrix": ("q",),
    "bias_force": ("q", "v"), "gravity_force": ("q",), "coriolis_force": ("q", "v"), "coriolis_matrix": ("q", "v"),
    "momenta": ("q", "v"), "velocities": ("q", "p"),
    "hamiltonian_dynamics": ("q", "p", "tau"),
}  # fmt: skip


def solve(problem: str, m: ct.Model, *arguments: Any, method: str = "auto") -> np.ndarray:
    """The bare formulation on the model's tree, in floats: no passive joint forces."""
    name = AUTO[problem] if method == "auto" else method
    return np.asarray(METHODS[name].solves[problem](m.tree(), *arguments), dtype=float)


def passive(m: ct.Model, q: Any, v: Any) -> np.ndarray:
    return np.asarray(passive_force(m.tree(), q, v), dtype=float)


def assume_smooth_springs(m: ct.Model, q: Any) -> None:
    """Leave out states next to half a turn from rest, where the shortest way back, and so the spring's energy, has a kink."""
    for link, stretch in zip(m.links, Referee(m).deflections(q), strict=True):
        if isinstance(link.joint, (ct.Spherical, ct.Free)):
            assume(np.linalg.norm(stretch[:3]) < np.pi - 0.1)


def pose(m: ct.Model, q: Any) -> np.ndarray:
    return np.asarray(poses(m.tree(), q, m.body_names), dtype=float)


def test_every_problem_of_the_registry_is_known_here() -> None:
    assert {problem for problem, _ in SOLUTIONS} == set(ARGUMENTS) == set(AUTO) - set(DERIVATIVES)
    assert all(AUTO[problem] in METHODS and problem in METHODS[AUTO[problem]].solves for problem in AUTO)
    assert all({*method.references} <= {*REFERENCES} and method.references and method.cost for method in METHODS.values())


# laws over random trees, eagerly


@pytest.mark.parametrize("forward", FORWARD)
@pytest.mark.parametrize("inverse", INVERSE)
@given(moving=mechanisms.moving_trees())
def test_inverse_undoes_forward(forward: str, inverse: str, moving: Any) -> None:
    m, q, v, tau = moving
    vdot = solve("forward_dynamics", m, q, v, tau, method=forward)
    back = solve("inverse_dynamics", m, q, v, vdot, method=inverse)
    assert relative(back, tau, scale=np.abs(solve("bias_force", m, q, v)).max()) < 1e-10


@pytest.mark.parametrize("forward", FORWARD)
@pytest.mark.parametrize("inverse", INVERSE)
@given(moving=mechanisms.moving_trees())
def test_forward_undoes_inverse(forward: str, inverse: str, moving: Any) -> None:
    m, q, v, vdot = moving
    tau = solve("inverse_dynamics", m, q, v, vdot, method=inverse)
    assert relative(solve("forward_dynamics", m, q, v, tau, method=forward), vdot) < 1e-10


@pytest.mark.quick
@pytest.mark.parametrize("problem", [p for p, count in Counter(p for p, _ in SOLUTIONS).items() if count > 1])
@given(moving=mechanisms.moving_trees())
def test_all_methods_agree(problem: str, moving: Any) -> None:
    m, *state = moving
    arguments = state[: len(ARGUMENTS[problem])]
    first, *others = (solve(problem, m, *arguments, method=name) for p, name in SOLUTIONS if p == problem)
    for other in others:
        assert relative(other, first) < 1e-10


@pytest.mark.parametrize("method", MASS)
@given(moving=mechanisms.moving_trees())
def test_mass_matrix_is_symmetric_and_positive_definite(method: str, moving: Any) -> None:
    m, q, _, _ = moving
    mass = solve("mass_matrix", m, q, method=method)
    if method == "direct":  # computes every entry twice
        assert relative(mass, mass.T) < 1e-14
    else:
        assert np.array_equal(mass, mass.T)
    np.linalg.cholesky(mass)
    assert np.linalg.eigvalsh(mass)[0] > 1e-12 * np.abs(mass).max()


@pytest.mark.parametrize("method", MASS)
@given(moving=mechanisms.moving_trees())
def test_mass_matrix_equals_inverse_dynamics_of_unit_accelerations(method: str, moving: Any) -> None:
    m, q, _, _ = moving
    rest = np.zeros(m.nv)
    bias = solve("bias_force", m, q, rest)
    columns = [solve("inverse_dynamics", m, q, rest, unit) - bias for unit in np.eye(m.nv)]
    assert relative(np.stack(columns, axis=1), solve("mass_matrix", m, q, method=method), scale=np.abs(bias).max()) < 1e-12


@given(moving=mechanisms.moving_trees())
def test_momenta_equal_mass_matrix_times_velocity(moving: Any) -> None:
    m, q, v, _ = moving
    assert relative(solve("momenta", m, q, v), solve("mass_matrix", m, q) @ v) < 1e-12


@given(moving=mechanisms.moving_trees())
def test_kinetic_energy_equals_half_the_momenta_times_velocity(moving: Any) -> None:
    m, q, v, _ = moving
    assert energy(m.tree(), q, v)[0] == pytest.approx(0.5 * v @ solve("mass_matrix", m, q) @ v, rel=1e-12)


@given(moving=mechanisms.moving_trees())
def test_bias_force_equals_inverse_dynamics_at_zero_acceleration(moving: Any) -> None:
    m, q, v, _ = moving
    assert relative(solve("bias_force", m, q, v), solve("inverse_dynamics", m, q, v, np.zeros(m.nv))) < 1e-14


@given(moving=mechanisms.moving_trees(options=False))
def test_bias_force_is_that_of_gravity_and_that_of_velocities(moving: Any) -> None:
    m, q, v, _ = moving
    bias = solve("bias_force", m, q, v)
    assert relative(solve("gravity_force", m, q) + solve("coriolis_force", m, q, v), bias) < 1e-13
    at_rest = solve("gravity_force", m, q)
    assert relative(at_rest, solve("bias_force", m, q, np.zeros(m.nv))) < 1e-14
    potential = derivative(lambda t: float(energy(m.tree(), m.integrate(q, t * v), 0.0 * v)[1]), step=0.001)
    assert at_rest @ v == pytest.approx(potential, abs=1e-9 * max(1.0, abs(energy(m.tree(), q, v)[1])))


@given(moving=mechanisms.moving_trees())
def test_coriolis_matrix_times_velocity_is_the_force_and_its_double_differs_from_the_rate_of_the_mass_by_a_skew_matrix(moving: Any) -> None:
    m, q, v, _ = moving
    C, force = solve("coriolis_matrix", m, q, v), solve("coriolis_force", m, q, v)
    scale = np.abs(solve("mass_matrix", m, q)).max() * np.abs(v).max()
    assert relative(C @ v, force, scale=scale * np.abs(v).max()) < 1e-12
    rate = derivative(lambda t: solve("mass_matrix", m, m.integrate(q, t * v)), step=0.001)
    rest = rate - 2.0 * C
    assert relative(rest, -rest.T, scale=scale) < 1e-9


@given(seed=mechanisms.seeds)
def test_coriolis_matrix_of_rates_of_coordinates_is_that_of_the_christoffel_symbols(seed: int) -> None:
    """Half of dM_ij/dq_k + dM_ik/dq_j - dM_jk/dq_i, times v_k, where velocities are rates of coordinates."""
    m = mechanisms.tree(seed, 4, ("revolute", "prismatic", "helical", "cylindrical", "universal", "planar"))
    q, v, _ = mechanisms.state(m, seed)
    mass = solve("mass_matrix", m, q)
    D = np.stack([derivative(lambda t, e=e: solve("mass_matrix", m, q + t * e), step=0.001) for e in np.eye(m.nv)], axis=2)
    expected = 0.5 * (D + np.swapaxes(D, 1, 2) - np.moveaxis(D, 2, 0)) @ v
    assert relative(solve("coriolis_matrix", m, q, v), expected, scale=np.abs(mass).max() * np.abs(v).max()) < 1e-9


@given(moving=mechanisms.moving_trees())
def test_inverse_dynamics_equals_mass_matrix_times_acceleration_and_bias(moving: Any) -> None:
    m, q, v, vdot = moving
    expected = solve("mass_matrix", m, q) @ vdot + solve("bias_force", m, q, v)
    assert relative(solve("inverse_dynamics", m, q, v, vdot), expected) < 1e-12


@given(moving=mechanisms.moving_trees(options=True))
def test_power_equals_the_rate_of_energy(moving: Any) -> None:
    """tau . v, less what dampers and friction take, is the rate of kinetic and potential energy along the motion."""
    m, q, v, tau = moving
    assume_smooth_springs(m, q)
    tree = m.tree()
    vdot = solve("forward_dynamics", m, q, v, tau + passive(m, q, v))
    rate = derivative(lambda t: float(sum(energy(tree, m.integrate(q, t * v), v + t * vdot))), step=0.001)
    dissipated = tree.damping @ v**2 + tree.friction @ (v**2 / np.sqrt(v**2 + m.friction_speed**2))
    terms = [*energy(tree, q, v), np.abs(tau * v).max(), dissipated, np.abs(v * vdot).max()]
    assert tau @ v - dissipated == pytest.approx(rate, abs=1e-9 * np.abs(terms).max())


@given(moving=mechanisms.moving_trees(options=True))
def test_damping_and_friction_take_power_and_springs_do_not(moving: Any) -> None:
    m, q, v, _ = moving
    assume_smooth_springs(m, q)
    tree = m.tree()
    at_rest = passive(m, q, np.zeros(m.nv))
    taken = v @ (passive(m, q, v) - at_rest)
    assert taken <= 0.0
    potential = derivative(lambda t: float(energy(tree, m.integrate(q, t * v), 0.0 * v)[1]), step=0.001)
    gravity = v @ solve("bias_force", m, q, np.zeros(m.nv))
    assert gravity - v @ at_rest == pytest.approx(potential, abs=1e-9 * max(1.0, abs(energy(tree, q, v)[1])))
    assert relative(passive(m, q, -v) - at_rest, at_rest - passive(m, q, v)) < 1e-12


@given(seed=mechanisms.seeds)
def test_momentum_of_a_floating_tree_changes_by_gravity_only(seed: int) -> None:
    m = mechanisms.tree(seed, 5, floating=True, options=True)
    q, v, tau = mechanisms.state(m, seed)
    tau[:6] = 0.0  # joint forces within the tree are inner forces
    vdot = solve("forward_dynamics", m, q, v, tau + passive(m, q, v))
    referee, g = Referee(m), np.array(m.gravity)
    rate = derivative(lambda t: referee.momentum(m.integrate(q, t * v), v + t * vdot), step=0.001)
    weight = np.zeros(6)
    for link, T in zip(m.links, referee.poses(q), strict=True):
        com = T[:3, :3] @ np.array(link.body.com) + T[:3, 3]
        weight += link.body.mass * np.concatenate([np.cross(com, g), g])
    terms = np.abs(referee.momentum(q, v)).max() + np.abs(weight).max()
    assert relative(rate, weight, scale=terms) < 1e-9


@given(seed=mechanisms.seeds)
def test_momenta_of_the_floating_base_are_the_momentum_of_the_whole_tree(seed: int) -> None:
    m = mechanisms.tree(seed, 4, floating=True)
    q, v, _ = mechanisms.state(m, seed)
    base = Referee(m).poses(q)[0]
    total = Referee(m).momentum(q, v)
    R, p = base[:3, :3], base[:3, 3]
    in_base = np.concatenate([R.T @ (total[:3] - np.cross(p, total[3:])), R.T @ total[3:]])
    assert relative(solve("momenta", m, q, v)[:6], in_base) < 1e-12


@given(moving=mechanisms.moving_trees(most=6), seed=mechanisms.seeds)
def test_jacobian_equals_the_derivative_of_the_poses(moving: Any, seed: int) -> None:
    m, q, v, _ = moving
    rng = np.random.default_rng(seed)
    which, point = int(rng.integers(len(m.body_names))), rng.normal(size=3)
    J = np.asarray(jacobian(m.tree(), q, m.body_names[which], point), dtype=float)
    T, rate = pose(m, q)[which], derivative(lambda t: pose(m, m.integrate(q, t * v))[which])
    turning = rate[:3, :3] @ T[:3, :3].T
    expected = np.array([turning[2, 1], turning[0, 2], turning[1, 0], *(rate[:3, :3] @ point + rate[:3, 3])])
    assert relative(J @ v, expected, scale=1.0) < 1e-10
    by_referee = Referee(m).jacobian(q)[which]
    arm = T[:3, :3] @ point
    by_referee[3:] += np.cross(by_referee[:3].T, arm).T
    assert relative(J, by_referee, scale=1.0) < 1e-12


@given(moving=mechanisms.moving_trees())
def test_poses_equal_composition_by_hand(moving: Any) -> None:
    m, q, _, _ = moving
    assert relative(pose(m, q), Referee(m).poses(q)) < 1e-13


@pytest.mark.quick
@pytest.mark.parametrize("method", FORWARD)
@given(moving=mechanisms.moving_trees())
def test_forward_dynamics_equals_the_referee(method: str, moving: Any) -> None:
    m, q, v, tau = moving
    vdot = solve("forward_dynamics", m, q, v, tau + passive(m, q, v), method=method)
    assert relative(vdot, Referee(m).forward(q, v, tau)) < 1e-10


@pytest.mark.parametrize("method", INVERSE)
@given(moving=mechanisms.moving_trees())
def test_inverse_dynamics_and_passive_forces_equal_the_referee(method: str, moving: Any) -> None:
    m, q, v, vdot = moving
    referee = Referee(m)
    assert relative(passive(m, q, v), referee.passive(q, v)) < 1e-10  # the referee's rotation vector loses digits near half a turn
    assert relative(solve("inverse_dynamics", m, q, v, vdot, method=method) - passive(m, q, v), referee.inverse(q, v, vdot)) < 1e-10


@pytest.mark.parametrize(("problem", "method"), SOLUTIONS)
@given(moving=mechanisms.moving_trees(most=5))
def test_traced_graph_equals_the_eager_run(problem: str, method: str, moving: Any) -> None:
    m, *state = moving
    arguments = dict(zip(ARGUMENTS[problem], state, strict=False))
    trace = Trace(problem)
    inputs = [trace.input(name, value.shape) for name, value in arguments.items()]
    graph = trace.graph(r=METHODS[method].solves[problem](m.tree().marked(trace.mark), *inputs)).check()
    eager = solve(problem, m, *arguments.values(), method=method)
    assert relative(graph.evaluate(*arguments.values())[0], eager) < 1e-12


@pytest.mark.parametrize(("problem", "method"), SOLUTIONS)
def test_formulations_leave_their_arguments_alone(problem: str, method: str) -> None:
    m = mechanisms.tree(3, 6, options=True)
    arguments = mechanisms.state(m, 4)[: len(ARGUMENTS[problem])]
    copies, inertias = [x.copy() for x in arguments], [M.copy() for M in m.tree().M]
    first = solve(problem, m, *arguments, method=method)
    assert np.array_equal(solve(problem, m, *arguments, method=method), first)
    assert all(np.array_equal(a, b) for a, b in zip(arguments, copies, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(m.tree().M, inertias, strict=True))


@pytest.mark.parametrize("bodies", [30, 60])
@pytest.mark.parametrize("branching", [0.0, 0.5])
def test_large_trees_obey_the_laws(bodies: int, branching: float) -> None:
    """Forward accelerations of long chains are ill-conditioned, so forces are compared: what two accelerations differ by, in forces."""
    m = mechanisms.tree(bodies, bodies, branching=branching, options=True)
    q, v, tau = mechanisms.state(m, 1)
    mass, bias = solve("mass_matrix", m, q), solve("bias_force", m, q, v)
    np.linalg.cholesky(mass)
    results = [solve("forward_dynamics", m, q, v, tau, method=name) for name in FORWARD]
    scale = max(np.abs(bias).max(), (np.abs(mass) @ np.abs(results[0])).max())
    for vdot in results:
        assert relative(solve("inverse_dynamics", m, q, v, vdot), tau, scale) < 1e-10
        assert relative(mass @ vdot, mass @ results[0], scale) < 1e-10
    referee = Referee(m)
    assert relative(mass, referee.mass_matrix(q)) < 1e-12
    assert relative(bias - passive(m, q, v), referee.inverse(q, v, np.zeros(m.nv))) < 1e-10


# what passive forces are, one by one


def one(joint: ct.model.Joint, **settings: Any) -> ct.Model:
    m = ct.Model("one", gravity=(0, 0, 0), **settings)
    m.add("body", ct.sphere(0.5, mass=2.0), joint)
    return m


def test_damper_spring_and_friction_push_back() -> None:
    joint = ct.Prismatic("x", damping=0.5, stiffness=10.0, rest=0.2, friction=3.0)
    q, v = np.array([0.5]), np.array([2.0])
    expected = -0.5 * 2.0 - 10.0 * 0.3 - 3.0 * 2.0 / np.hypot(2.0, 0.25)
    assert passive(one(joint, friction_speed=0.25), q, v) == pytest.approx([expected], rel=1e-14)
    assert passive(one(joint), 0.0 * q + 0.2, 0.0 * v).tolist() == [0.0]


def test_friction_reaches_its_limit_soon() -> None:
    m = one(ct.Revolute("x", friction=2.0), friction_speed=0.01)
    assert passive(m, np.zeros(1), np.array([0.1]))[0] == pytest.approx(-2.0 * 0.995, rel=1e-4)
    assert passive(m, np.zeros(1), np.array([1e6]))[0] == pytest.approx(-2.0, rel=1e-15)


def test_armature_adds_to_the_diagonal() -> None:
    plain = mechanisms.tree(1, 4)
    geared = ct.Model("geared", gravity=plain.gravity)
    for k, link in enumerate(plain.links):
        geared.add(link.name, link.body, replace(link.joint, armature=0.5 + k), parent=link.parent, at=link.at)
    q = plain.random(0)
    difference = solve("mass_matrix", geared, q) - solve("mass_matrix", plain, q)
    assert relative(difference, np.diag([0.5 + k for k, link in enumerate(plain.links) for _ in range(link.joint.nv)])) < 1e-12


def test_springs_of_rotations_pull_back_along_the_rotation_vector() -> None:
    rest = ct.Spherical().random(np.random.default_rng(0))
    m = one(ct.Spherical(stiffness=4.0, rest=rest))
    for turn in (np.array([0.3, -0.2, 0.1]), np.array([0.0, 0.0, 3.0]), np.array([1e-9, 0.0, 0.0])):
        q = ct.Spherical().integrate(np.array(m.links[0].joint.rest), turn)
        assert np.abs(passive(m, q, np.zeros(3)) + 4.0 * turn).max() < 1e-14  # the rounding of the quaternion
        assert energy(m.tree(), q, np.zeros(3))[1] == pytest.approx(2.0 * turn @ turn, rel=1e-6)


# compiled kernels

MODELS: dict[str, Callable[[], ct.Model]] = {
    "tree of every joint": lambda: mechanisms.tree(11, len(mechanisms.JOINTS), branching=0.5, in_turn=True, options=True),
    "aligned arm": lambda: mechanisms.chain(12, 6, ("revolute", "prismatic"), geometry="aligned"),
}

KERNELS: dict[str, Callable[[ct.Model], ct.Kernel]] = {
    **{f"forward_dynamics {name}": lambda m, name=name: ct.forward_dynamics(m, name) for name in FORWARD},
    **{f"inverse_dynamics {name}": lambda m, name=name: ct.inverse_dynamics(m, name) for name in INVERSE},
    **{f"mass_matrix {name}": lambda m, name=name: ct.mass_matrix(m, name) for name in MASS},
    "bias_force": ct.bias_force, "gravity_force": ct.gravity_force, "coriolis_force": ct.coriolis_force,
    "coriolis_matrix": ct.coriolis_matrix, "passive_force": ct.passive_force, "momenta": ct.momenta, "energy": ct.energy, "poses": ct.poses,
    "jacobian": lambda m: ct.jacobian(m, m.body_names[-1], (0.1, 0.2, 0.3)),
}  # fmt: skip


@cache
def model(name: str) -> ct.Model:
    return MODELS[name]()


@cache
def kernel(name: str, which: str) -> ct.Kernel:
    return KERNELS[name](model(which))


def outputs(result: Any) -> list[np.ndarray]:
    return [np.asarray(x, dtype=float) for x in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("which", MODELS)
@pytest.mark.parametrize("name", KERNELS)
def test_kernel_equals_eager_run_and_batch_equals_one_by_one(name: str, which: str) -> None:
    m, run = model(which), kernel(name, which)
    state = mechanisms.state(m, 21, batch=(3, 4))[: len(run.inputs)]
    batch = outputs(run(*state))
    for i in np.ndindex(3, 4):
        arguments = [x[i] for x in state]
        for whole, alone, eager in zip(batch, outputs(run(*arguments)), outputs(run.function(*arguments)), strict=True):
            assert relative(alone, eager) < 1e-12
            assert np.array_equal(whole[i], alone)


@pytest.mark.parametrize("which", MODELS)
def test_kernels_obey_the_laws_on_batches(which: str) -> None:
    m = model(which)
    q, v, tau = mechanisms.state(m, 22, batch=(50,))
    mass, bias = (kernel(name, which)(*arguments) for name, arguments in (("mass_matrix composite-body", (q,)), ("bias_force", (q, v))))
    scale = np.abs(bias).max()
    for forward in FORWARD:
        vdot = kernel(f"forward_dynamics {forward}", which)(q, v, tau)
        for inverse in INVERSE:
            assert relative(kernel(f"inverse_dynamics {inverse}", which)(q, v, vdot), tau, scale) < 1e-10
        assert relative(np.einsum("kij,kj->ki", mass, vdot) + bias, tau, scale) < 1e-10
    assert np.array_equal(mass, np.swapaxes(mass, 1, 2))
    momenta, (kinetic, _) = kernel("momenta", which)(q, v), kernel("energy", which)(q, v)
    assert relative(momenta, np.einsum("kij,kj->ki", mass, v)) < 1e-12
    assert relative(kinetic, 0.5 * np.einsum("ki,ki->k", momenta, v)) < 1e-12


@pytest.mark.parametrize("which", MODELS)
def test_kernels_equal_the_referee(which: str) -> None:
    m = model(which)
    referee = Referee(m)
    for seed in range(5):
        q, v, x = mechanisms.state(m, seed)
        for method in FORWARD:
            assert relative(kernel(f"forward_dynamics {method}", which)(q, v, x), referee.forward(q, v, x)) < 1e-10
        for method in INVERSE:
            assert relative(kernel(f"inverse_dynamics {method}", which)(q, v, x), referee.inverse(q, v, x)) < 1e-10
        assert relative(kernel("bias_force", which)(q, v), referee.inverse(q, v, 0.0 * v)) < 1e-10
        for method in MASS:
            assert relative(kernel(f"mass_matrix {method}", which)(q), referee.mass_matrix(q)) < 1e-12
        assert relative(kernel("poses", which)(q), referee.poses(q)) < 1e-13
        assert relative(np.array(kernel("energy", which)(q, v)), np.array(referee.energy(q, v))) < 1e-12
        assert relative(kernel("momenta", which)(q, v), referee.mass_matrix(q) @ v) < 1e-12


@pytest.mark.parametrize("bodies", [30, 60])
def test_large_kernels_equal_the_eager_run(bodies: int) -> None:
    """These are compiled by regions. Accelerations are compared by the forces that they differ by."""
    m = mechanisms.tree(bodies, bodies, ("revolute", "prismatic", "universal", "spherical"), branching=0.3)
    q, v, tau = mechanisms.state(m, 2)
    run = ct.forward_dynamics(m)
    mass = solve("mass_matrix", m, q)
    eager, fast = np.asarray(run.function(q, v, tau), dtype=float), run(q, v, tau)
    assert relative(mass @ fast, mass @ eager, scale=(np.abs(mass) @ np.abs(eager)).max()) < 1e-12
    batch = run(np.stack([q] * 5), v, tau)
    assert all(np.array_equal(row, fast) for row in batch)


# the doors of the kernels


def small() -> ct.Model:
    m = ct.Model("small")
    m.add("arm", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
    return m


@pytest.mark.parametrize("door", [ct.forward_dynamics, ct.inverse_dynamics, ct.mass_matrix])
def test_unknown_methods_are_refused_with_those_that_fit(door: Any) -> None:
    with pytest.raises(ct.MethodError, match=rf"{door.__name__}: 'magic' is not a method of catena; choose from 'auto', '"):
        door(small(), "magic")
    for name, method in METHODS.items():
        if door.__name__ not in method.solves:
            with pytest.raises(ct.MethodError, match=rf"{door.__name__}: '{name}' solves .*; choose from 'auto'"):
                door(small(), name)
    with pytest.raises(ct.MethodError, match=r"\['auto'\]"):
        door(small(), ["auto"])


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_no_model_is_refused(name: str) -> None:
    door: Any = KERNELS[name] if name != "jacobian" else lambda m: ct.jacobian(m, "ground")
    with pytest.raises(ct.ModelError, match=r"'small' is not a model; give a ct\.Model"):
        door("small")
    with pytest.raises(ct.ModelError, match="model 'empty' has no moving body"):
        door(ct.Model("empty"))


def test_jacobian_refuses_unknown_bodies_and_bad_points() -> None:
    with pytest.raises(ct.ModelError, match=r"jacobian names body 'leg'.*'ground', 'arm'"):
        ct.jacobian(small(), "leg")
    with pytest.raises(ct.ModelError, match="jacobian point"):
        ct.jacobian(small(), "arm", (0, 0))
    with pytest.raises(ct.ModelError, match="not a model"):
        ct.jacobian("small", "arm")  # type: ignore[arg-type]
    assert not ct.jacobian(small(), "ground")([0.3]).any()


def test_results_that_do_not_depend_on_the_state_fill_the_batch() -> None:
    """A single pendulum has a constant mass matrix; without gravity it has no bias force."""
    m = ct.Model("weightless", gravity=(0, 0, 0))
    m.add("arm", ct.point_mass(2.0, at=(1, 0, 0)), ct.Revolute("y"))
    assert ct.mass_matrix(m)(np.zeros((3, 2, 1))).tolist() == np.full((3, 2, 1, 1), 2.0).tolist()
    assert ct.bias_force(m)(np.zeros((3, 1)), np.ones(1)).tolist() == np.zeros((3, 1)).tolist()


def test_methods_lists_the_registry() -> None:
    assert ct.methods() == tuple(METHODS)
    assert ct.methods("forward_dynamics") == tuple(name for name, method in METHODS.items() if "forward_dynamics" in method.solves)
    with pytest.raises(ct.MethodError, match=r"'magic' is not a problem that catena solves; choose from .*forward_dynamics"):
        ct.methods("magic")


def test_kernels_know_their_method_and_where_it_comes_from() -> None:
    for name in FORWARD:
        run = ct.forward_dynamics(small(), name)
        assert run.method == name
        assert run.references == tuple(REFERENCES[key] for key in METHODS[name].references)
    assert ct.inverse_dynamics(small()).method.startswith(AUTO["inverse_dynamics"] + " (auto: ")
    assert REFERENCES["NLT03"] in ct.momenta(small()).references


@pytest.mark.parametrize("door", [ct.forward_dynamics, ct.inverse_dynamics, ct.mass_matrix])
@pytest.mark.parametrize("short", ALIASES)
def test_short_names_are_the_methods_that_they_stand_for(short: str, door: Any) -> None:
    if door.__name__ not in METHODS[ALIASES[short]].solves:
        with pytest.raises(ct.MethodError, match=rf"{door.__name__}: '{ALIASES[short]}' solves "):
            door(small(), short)
        return
    run, named = door(small(), short), door(small(), ALIASES[short])
    assert run.method == named.method == ALIASES[short]
    assert run.graph.nodes == named.graph.nodes
    assert short not in ct.methods()


def test_short_names_serve_runs() -> None:
    assert ct.simulate(small(), [0.3], until=0.01, method="aba").info["method"] == "articulated-body"


def test_papers_name_modules_and_tests_that_exist() -> None:
    root = Path(__file__).parent.parent
    named = set(re.findall(r"`((?:catena|tests|benchmarks)/[\w/]+\.py)`", (root / "docs" / "papers.md").read_text(encoding="utf-8")))
    assert named
    assert not [path for path in sorted(named) if not (root / "src" / path).is_file() and not (root / path).is_file()]
