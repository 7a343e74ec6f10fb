"""Hamilton's equations against those of Newton and Euler, and the laws of canonical momenta."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests import mechanisms
from tests.referee import relative

import catena as ct
from catena.examples import EXAMPLES
from catena.formulations import kinematics
from catena.formulations.inverse import newton_euler
from catena.formulations.linear import articulated_body, canonical_momenta
from catena.formulations.loops.constraints import constraint_jacobian
from catena.scalars.dual import moving, part
from catena.spatial import Rigid, cross_force

pytestmark = [pytest.mark.evaluated, pytest.mark.quick]


def floats(x: Any) -> np.ndarray:
    return np.asarray(x, dtype=float)


@given(mechanisms.moving_trees())
def test_velocities_undo_momenta(moved: Any) -> None:
    m, q, v, _ = moved
    tree = m.tree()
    assert relative(floats(canonical_momenta.velocities(tree, q, newton_euler.momenta(tree, q, v))), v) < 1e-10


@given(mechanisms.moving_trees())
def test_rates_of_momenta_are_the_derivatives_of_the_momenta(moved: Any) -> None:
    """Along the motion that articulated bodies give: d(M v)/dt by dual numbers."""
    m, q, v, tau = moved
    tree = m.tree()
    wrenches = [np.random.default_rng(k).normal(size=6) for k in range(tree.n + 1)]
    vdot = articulated_body.forward_dynamics(tree, q, v, tau, wrenches)
    p = newton_euler.momenta(tree, q, v)
    wanted = part(newton_euler.momenta(tree, moving(q, m.rate(q, v)), moving(v, vdot)), "derivative")
    found_v, found = canonical_momenta.hamiltonian_dynamics(tree, q, p, tau, wrenches)
    assert relative(floats(found_v), v) < 1e-10
    assert relative(floats(found), floats(wanted)) < 1e-9


@given(mechanisms.moving_trees(kinds=("revolute", "prismatic", "helical", "cylindrical", "universal", "planar", "plate"), options=False))
def test_hamiltons_equations_are_the_gradient_of_the_energy(moved: Any) -> None:
    """v = dH/dp and pdot = -dH/dq, by differences; for joints whose rates are those of their coordinates."""
    m, q, v, _ = moved
    energy, velocities = ct.energy(m), ct.velocities(m)
    p = ct.momenta(m)(q, v)

    def hamiltonian(q: Any, p: Any) -> Any:
        return sum(energy(q, velocities(q, p)))

    step = 1e-5 * np.eye(m.nv)
    slopes = [hamiltonian(q + step, p) - hamiltonian(q - step, p), hamiltonian(q, p + step) - hamiltonian(q, p - step)]
    by_q, by_p = (slope / 2e-5 for slope in slopes)
    found_v, found = ct.hamiltonian_dynamics(m)(q, p, np.zeros(m.nv))
    scale = max(1.0, np.abs(by_q).max())
    assert relative(found_v, by_p) < 1e-6
    assert np.abs(found + by_q).max() < 1e-6 * scale


@pytest.mark.parametrize("seed", range(4))
def test_what_acts_by_itself_enters_the_kernel(seed: int) -> None:
    """Damping, springs, friction, a spring between bodies and a force over time: pdot agrees with M vdot + dM/dt v."""
    m = mechanisms.tree(seed, 5, options=True)
    m.add_spring("tie", "body0", "body3", stiffness=40.0, damping=2.0, length=0.3)
    m.add_force("push", lambda t, q, v: 0.3 * np.sin(t) * v)
    q, v, tau = mechanisms.state(m, seed)
    p, tree = ct.momenta(m)(q, v), m.tree()
    found_v, pdot = ct.hamiltonian_dynamics(m)(0.7, q, p, tau)
    vdot = ct.forward_dynamics(m)(0.7, q, v, tau)
    wanted = floats(part(newton_euler.momenta(tree, moving(q, m.rate(q, v)), moving(v, vdot)), "derivative"))
    assert relative(found_v, v) < 1e-10
    assert relative(pdot, wanted) < 1e-9
    assert relative(ct.forward_dynamics(m, "canonical-momenta")(0.7, q, v, tau), vdot) < 1e-10


def test_a_free_body_keeps_its_momentum_in_space() -> None:
    """Momenta of a free joint are in the body's axes: they turn against it."""
    m = ct.Model("body", gravity=(0, 0, 0))
    m.add("body", mechanisms.body(np.random.default_rng(3)), ct.Free())
    q, v, _ = mechanisms.state(m, 1)
    p = ct.momenta(m)(q, v)
    _, pdot = ct.hamiltonian_dynamics(m)(q, p, np.zeros(6))
    moment = np.cross(p[:3], v[:3]) + np.cross(p[3:], v[3:])
    assert relative(pdot, np.concatenate([moment, np.cross(p[3:], v[:3])])) < 1e-12


# --- loops

LOOPS = ("four-bar", "slider-crank", "quarter-car", "peaucellier", "watt", "bennett", "bricard")


@pytest.mark.parametrize("name", LOOPS)
def test_momenta_of_a_mechanism_with_loops_move_as_its_accelerations_say(name: str) -> None:
    """(7) gives back v, whatever the constraints have taken up; (8) is the rate of M v + J^T sigma, but for what they take up next."""
    m, rng = EXAMPLES[name](), np.random.default_rng(0)
    tree, q = m.tree(), m.mobility().q
    v, tau = m.project_velocity(q, rng.normal(size=m.nv)), rng.normal(size=m.nv)
    J = floats(constraint_jacobian(tree, q)[1])
    sigma = rng.normal(size=len(J))
    p = ct.momenta(m)(q, v) + J.T @ sigma
    found_v, pdot = ct.hamiltonian_dynamics(m)(q, p, tau)
    assert relative(found_v, v) < 1e-10
    assert relative(ct.velocities(m)(q, p), v) < 1e-10
    q_moving, vdot = moving(q, m.rate(q, v)), ct.forward_dynamics(m)(q, v, tau)
    own = floats(part(newton_euler.momenta(tree, q_moving, moving(v, vdot)), "derivative"))
    turning = floats(part(constraint_jacobian(tree, q_moving)[1], "derivative"))
    rest = pdot - own - turning.T @ sigma
    taken_up = J.T @ np.linalg.lstsq(J.T, rest, rcond=1e-9)[0]
    assert np.abs(rest - taken_up).max() < 1e-9 * max(1.0, np.abs(rest).max())


def test_a_batch_of_momenta_with_loops_gives_each_state_what_it_gets_alone() -> None:
    m = EXAMPLES["four-bar"]()
    q = np.array([m.assemble(crank=x) for x in (0.3, 1.0, 2.0, 4.0)])
    p = np.random.default_rng(0).normal(size=(4, m.nv))
    kernel = ct.hamiltonian_dynamics(m)
    v, pdot = kernel(q, p, np.zeros(3))
    for i in range(4):
        alone = kernel(q[i], p[i], np.zeros(3))
        assert (alone[0] == v[i]).all()
        assert (alone[1] == pdot[i]).all()
    with pytest.raises(ct.ArgumentError, match="hamiltonian_dynamics: the state leaves loop 'pin' of model 'four-bar' open"):
        kernel(q[0] + 0.1, p[0], np.zeros(3))


def test_loops_drift_less_by_momenta_than_by_accelerations() -> None:
    """Neither is projected: by accelerations the loop opens with the square of time, by momenta hardly where M v replaces p."""
    m = EXAMPLES["four-bar"]()
    n, q, zero = m.nv, m.assemble(crank=1.0), np.zeros(m.nv)
    forward, hamilton, momenta, velocities = ct.forward_dynamics(m), ct.hamiltonian_dynamics(m), ct.momenta(m), ct.velocities(m)
    flows = {
        "accelerations": lambda y: np.concatenate([y[n:], forward(y[:n], y[n:], zero)]),
        "momenta": lambda y: np.concatenate(hamilton(y[:n], y[n:], zero)),
        "M v": lambda y: np.concatenate(hamilton(y[:n], y[n:], zero)),
    }  # fmt: skip
    errors = {}
    for name, flow in flows.items():
        y, h, found = np.concatenate([q, zero]), 4e-4, []
        for i in range(10_000):
            k1 = flow(y)
            k2 = flow(y + 0.5 * h * k1)
            k3 = flow(y + 0.5 * h * k2)
            y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + flow(y + h * k3))
            if name == "M v":
                y[n:] = momenta(y[:n], velocities(y[:n], y[n:]))
            if (i + 1) % 5000 == 0:
                found.append(float(ct.loop_error(m)(y[:n]).max()))
        errors[name] = found
    (early, late) = errors["accelerations"]
    assert 3.0 < late / early < 5.0
    assert errors["momenta"][1] < 0.5 * late
    assert max(errors["M v"]) < 0.05 * late


# --- reactions


@pytest.mark.parametrize("seed", range(4))
def test_reactions_are_what_articulated_momenta_lack(seed: int) -> None:
    """(28): T_r = dP*/dt + Omega x P* - T*, along Hamilton's equations, is the wrench across each joint; and S^T T_r the joint force."""
    m = mechanisms.tree(seed, 6, fixed=0.0)
    q, v, tau = mechanisms.state(m, seed)
    tree, p = m.tree(), ct.momenta(m)(q, v)
    _, pdot = ct.hamiltonian_dynamics(m)(q, p, tau)
    X, S, V = kinematics.velocities(tree, q, v)
    q_moving = moving(q, m.rate(q, v))
    X_moving, _, along = kinematics.velocities(tree, q_moving, canonical_momenta.velocities(tree, q_moving, moving(p, pdot)))
    along = [*(M @ along[k] for k, M in enumerate(tree.M)), np.zeros(6)]  # the momenta of single bodies, then P*
    for k in reversed(range(tree.n)):
        along[tree.parent[k]] = along[tree.parent[k]] + X_moving[k].force(along[k])
    bodies = [*tree.M, tree.ground_inertia]
    mass, moment = [M[3, 3] for M in bodies], [np.array([M[2, 4], M[0, 5], M[1, 3]]) for M in bodies]
    for k in reversed(range(tree.n)):
        mass[tree.parent[k]] = mass[tree.parent[k]] + mass[k]
        moment[tree.parent[k]] = moment[tree.parent[k]] + X[k].moment(moment[k], mass[k])
    g = [*(None for _ in range(tree.n)), tree.gravity]
    wanted = []
    for k in range(tree.n):
        g[k] = X[k].direction(g[tree.parent[k]])
        P, rate = (floats(part(along[k], which)) for which in ("value", "derivative"))
        weight = np.concatenate([np.cross(floats(moment[k]), floats(g[k])), mass[k] * floats(g[k])])
        wanted.append(rate + floats(cross_force(V[k], P)) - weight)
        assert relative(floats(S[k]).T @ wanted[k], tau[tree.v_slices[k]]) < 1e-8
    found = ct.joint_wrenches(m, "canonical-momenta")(q, v, tau)
    for k, link in enumerate(m.links):
        joint = tree.frames[link.name][1] @ Rigid(link.outer.R, link.outer.p)
        assert relative(found[k], floats(joint.inverse().force(wanted[k]))) < 1e-8
