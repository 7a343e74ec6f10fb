"""Driven joints: a joint that is driven agrees with a free one whose acceleration is prescribed, in every method; and what follows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import mechanisms
from tests.mechanisms import closing_methods
from tests.test_random_loops import RINGS, in_series, nested, ring
from typer.testing import CliRunner

import catena as ct
from catena import cli
from catena.comparison import compare
from catena.examples import ACTUATED, EXAMPLES, four_bar, slider_crank
from catena.formulations import METHODS
from catena.formulations.kinematics import velocities, world_frames
from catena.formulations.loops.constraints import constraint_jacobian, constraint_motion
from catena.loops.plan_library import plan_of
from catena.model import Joint
from catena.model.driven_trees import undriven_slices, with_driven_coordinates
from catena.spatial import Screw

pytestmark = pytest.mark.evaluated


class Wave:
    """Coordinates a + b t + c sin(w t + p), with their derivatives; a quaternion is whatever these are, brought to length 1."""

    def __init__(self, count: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.a, self.b, self.c, self.w, self.p = rng.uniform(0.2, 1.0, (5, count)) * [[1.0], [0.3], [0.5], [2.0], [1.0]]

    def __call__(self, t):
        waves = [a + b * t + c * np.sin(w * t + p) for a, b, c, w, p in zip(self.a, self.b, self.c, self.w, self.p, strict=True)]
        return waves[0] if len(waves) == 1 else waves

    def derivatives(self, t):
        turn = self.w * t + self.p
        rate, bend = self.b + self.c * self.w * np.cos(turn), -self.c * self.w**2 * np.sin(turn)
        return np.atleast_1d(self(t)), rate, bend


def driven(m: ct.Model, names, seed: int = 0, **motions) -> ct.Model:
    """Return a model with the joints of some bodies driven, by waves unless a motion is given."""
    made = ct.Model(m.name, gravity=m.gravity)
    for i, link in enumerate(m.links):
        joint: Joint = link.joint
        if link.name in names:
            joint = ct.Driven(joint, motions.get(link.name, Wave(joint.nq, seed + i)))
        made.add(link.name, link.body, joint, link.parent, link.at)
    for s in m.springs:
        made.add_spring(s.name, s.a, s.b, s.at_a, s.at_b, stiffness=s.stiffness, damping=s.damping, length=s.length)
    for loop in m.loops:
        made.close(loop.name, loop.joint, loop.a, loop.b, loop.at_a, loop.at_b)
    for coupling in m.couplings:
        made.couple(coupling.name, dict(coupling.coefficients), coupling.offset)
    return made


def prescribed(free: ct.Model, m: ct.Model, t, q, v, tau):
    """Return vdot and the driving forces by the free model: its mass matrix, bias and constraints, with accelerations prescribed."""
    q_all, v_all, vdot_all = (np.asarray(x, dtype=float) for x in with_driven_coordinates(m, m.tree(), t, q, v, np.zeros(m.nv)))
    at = [i for link, _, where in undriven_slices(m) if isinstance(link.joint, ct.Driven) for i in range(where.start, where.stop)]
    rest = [i for i in range(free.nv) if i not in at]
    M, C = ct.mass_matrix(free)(q_all), ct.bias_force(free)(q_all, v_all)
    J, right = np.zeros((0, free.nv)), np.zeros(0)
    if free.has_loops:
        tree = free.tree()
        J, right = (np.asarray(x, dtype=float) for x in (constraint_jacobian(tree, q_all)[1], constraint_motion(tree, q_all, v_all)[1]))
    load = tau - C[rest] - M[np.ix_(rest, at)] @ vdot_all[at]
    K = np.block([[M[np.ix_(rest, rest)], J[:, rest].T], [J[:, rest], np.zeros((len(J), len(J)))]])
    x = np.linalg.lstsq(K, np.concatenate([load, right - J[:, at] @ vdot_all[at]]), rcond=1e-12)[0]
    vdot_all[rest] = x[: len(rest)]
    return vdot_all[rest], (M @ vdot_all + C + J.T @ x[len(rest) :])[at]


def near(found, expected, tolerance=1e-10):
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    assert np.abs(np.asarray(found, dtype=float) - expected).max(initial=0.0) <= tolerance * scale


KINDS = [*mechanisms.JOINTS]
SOLVING = [name for name in ct.methods("forward_dynamics") if name not in ("armstrong", "denoc")]  # those fit no such tree


def three(kind: str, options: bool = True) -> ct.Model:
    """Return a chain of three bodies with a joint of a kind in the middle."""
    return mechanisms.chain(5, 3, ("revolute", kind, "universal"), in_turn=True, options=options)


@pytest.mark.parametrize("kind", KINDS)
def test_every_joint_driven_is_the_free_joint_with_its_acceleration_prescribed(kind):
    free = three(kind)
    m = driven(free, ["body1"])
    q, v, tau = mechanisms.state(m, 3)
    for t in (0.0, 0.7):
        vdot, force = prescribed(free, m, t, q, v, tau)
        near(ct.forward_dynamics(m)(t, q, v, tau), vdot)
        near(ct.driving_forces(m)(t, q, v, tau), force)


@pytest.mark.parametrize("method", SOLVING)
def test_every_method_with_driven_joints_is_the_free_model_with_accelerations_prescribed(method):
    free = mechanisms.tree(8, 7, ("revolute", "planar", "spherical", "helical", "universal"), in_turn=True, branching=0.4, options=True)
    m = driven(free, ["body1", "body2", "body6"])
    q, v, tau = mechanisms.state(m, 4)
    vdot, force = prescribed(free, m, 0.4, q, v, tau)
    kernel = ct.forward_dynamics(m, method)
    near(kernel(0.4, q, v, tau), vdot, 1e-8 if method.startswith("conjugate") else 1e-10)
    if not method.startswith("conjugate"):
        near(ct.driving_forces(m, method)(0.4, q, v, tau), force)
        near(kernel.function(0.4, q, v, tau), vdot)  # the eager run


@given(mechanisms.trees(6, options=True), mechanisms.seeds, st.floats(0.0, 3.0))
def test_random_trees_with_driven_joints(free, seed, t):
    rng = np.random.default_rng(seed)
    moving = [link.name for link in free.links if link.joint.nv]
    m = driven(free, [name for name in moving if rng.random() < 0.5] or moving[:1], seed % 1000)
    q, v, tau = mechanisms.state(m, seed)
    vdot, force = prescribed(free, m, t, q, v, tau)
    near(ct.forward_dynamics(m)(t, q, v, tau), vdot, 1e-9)
    near(ct.driving_forces(m)(t, q, v, tau), force, 1e-9)
    near(ct.inverse_dynamics(m)(t, q, v, vdot), tau, 1e-9)


@pytest.mark.parametrize("method", ct.methods("inverse_dynamics"))
def test_inverse_dynamics_undoes_forward_dynamics(method):
    m = driven(three("cylindrical"), ["body1"])
    q, v, tau = mechanisms.state(m, 6, (5,))
    t = np.linspace(0.0, 2.0, 5)
    vdot = ct.forward_dynamics(m)(t, q, v, tau)
    near(ct.inverse_dynamics(m, method)(t, q, v, vdot), tau)
    near((ct.mass_matrix(m)(t, q) @ vdot[..., None])[..., 0] + ct.bias_force(m)(t, q, v), tau)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_driven_joint_does_by_itself_is_the_rate_of_its_poses(kind):
    m = driven(three(kind), ["body0", "body1"])
    q, v, _ = mechanisms.state(m, 1)
    t, h = 0.3, 1e-5
    tree = m.tree().at(t)
    V = velocities(tree, q, v)[2]
    ahead, behind = (world_frames(m.tree().at(t + s), m.integrate(q, s * v)) for s in (h, -h))
    here = world_frames(tree, q)
    for k in range(tree.n):
        R = np.asarray(here[k].R, dtype=float)
        turning = R.T @ np.asarray(ahead[k].R - behind[k].R, dtype=float) / (2 * h)
        moving = R.T @ np.asarray(ahead[k].p - behind[k].p, dtype=float) / (2 * h)
        near([turning[2, 1], turning[0, 2], turning[1, 0], *moving], np.asarray(V[k], dtype=float), 1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_given_velocities_and_accelerations_are_derivatives(kind):
    joint = mechanisms.JOINTS[kind](np.random.default_rng(2))
    wave = Wave(joint.nq)
    found, t, h = ct.Driven(joint, wave), 0.6, 1e-4
    now, ahead, behind = (found.given(s) for s in (t, t + h, t - h))
    q0, q1 = (np.asarray(x.q, dtype=float) for x in (behind, ahead))
    near(joint.difference(q0, q1) / (2 * h), np.asarray(now.v, dtype=float), 1e-6)
    near((ahead.v - behind.v) / (2 * h), np.asarray(now.vdot, dtype=float), 1e-6)
    if joint.nq == joint.nv:
        for given, wanted in zip(now, wave.derivatives(t), strict=True):
            near(given, wanted, 1e-14)


def test_work_of_forces_and_drives_changes_the_energy():
    free = mechanisms.tree(3, 5, ("revolute", "prismatic", "planar"), in_turn=True, options=True, fixed=0.0)
    plain = ct.Model("no friction", gravity=free.gravity)
    for link in free.links:
        options = {name: getattr(link.joint, name) for name in ("damping", "stiffness", "rest", "armature")}
        plain.add(link.name, link.body, type(link.joint)(link.joint.axis, **options), link.parent, link.at)
    m = driven(plain, ["body1", "body2"])
    q, v, tau = mechanisms.state(m, 5)
    t, h, energy = 0.8, 1e-4, ct.energy(m)
    vdot, force = ct.forward_dynamics(m)(t, q, v, tau), ct.driving_forces(m)(t, q, v, tau)
    total = [sum(energy(t + s, m.integrate(q, s * v + 0.5 * s * s * vdot), v + s * vdot)) for s in (h, -h)]
    rates = np.concatenate([given.v for given in m.driven_motion(t)]).astype(float)
    losses = np.concatenate([joint.damping for _, joint in m.driven_joints()]) @ rates**2 + m.tree().damping @ v**2
    near((total[0] - total[1]) / (2 * h), tau @ v + force @ rates - losses, 1e-7)


def test_momenta_are_derivatives_of_the_kinetic_energy():
    m = driven(three("spherical"), ["body1"])
    q, v, _ = mechanisms.state(m, 2)
    kinetic = [[ct.energy(m)(0.5, q, v + s * e)[0] for s in (1e-3, -1e-3)] for e in np.eye(m.nv)]
    near(ct.momenta(m)(0.5, q, v), np.diff(kinetic, axis=1)[:, 0] / -2e-3, 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_hamiltons_equations_with_driven_joints(kind):
    m = driven(three(kind), ["body1"])
    q, v, tau = mechanisms.state(m, 2)
    t, h = 0.5, 1e-4
    p, vdot = ct.momenta(m)(t, q, v), ct.forward_dynamics(m)(t, q, v, tau)
    near(ct.velocities(m)(t, q, p), v)
    found, rate = ct.hamiltonian_dynamics(m)(t, q, p, tau)
    near(found, v)
    ahead, behind = (ct.momenta(m)(t + s, m.integrate(q, s * v + 0.5 * s * s * vdot), v + s * vdot) for s in (h, -h))
    near(rate, (ahead - behind) / (2 * h), 1e-6)


def test_joint_wrenches_hold_the_driving_force():
    m = driven(three("prismatic", options=False), ["body1"])
    q, v, tau = mechanisms.state(m, 2)
    wrench = ct.joint_wrenches(m)(0.2, q, v, tau)[1]
    axis = np.array(m.links[1].joint.joint.axis)
    near(axis @ wrench[3:], ct.driving_forces(m)(0.2, q, v, tau)[0])


def test_kernels_take_time_where_they_depend_on_it_and_only_there():
    m = driven(three("revolute"), ["body1"])
    for kernel in (ct.poses(m), ct.energy(m), ct.mass_matrix(m), ct.momenta(m), ct.jacobian(m, "body2"), ct.joint_wrenches(m)):
        assert kernel.inputs[0].name == "t", kernel
    forced = three("revolute")
    forced.add_force("push", lambda t, q, v: np.sin(t) + 0.0 * v)
    assert ct.forward_dynamics(forced).inputs[0].name == "t"
    assert ct.poses(forced).inputs[0].name == ct.energy(forced).inputs[0].name == "q"


def test_driven_revolute_joints_stay_screws():
    free = mechanisms.denavit_hartenberg(6)
    m = driven(free, ["link2"], link2=lambda t: t)
    tree = m.tree().at(0.3)
    assert all(isinstance(factor, Screw) for k in range(tree.n) for factor in tree.placement(k, np.zeros(5)).factors)
    counts = [sum(ct.forward_dynamics(x, "articulated-body").operations.values()) for x in (free, m)]
    assert counts[1] <= counts[0]


def test_operators_at_a_time():
    m = driven(three("revolute"), ["body1"])
    q, v, _ = mechanisms.state(m, 2)
    near(ct.operators(m, q, t=0.4).mass @ v, ct.mass_matrix(m)(0.4, q) @ v)


# loops


def drives():
    """Yield models with loops, free and with joints that are driven."""
    free = four_bar()
    yield "driven crank", free, driven(free, ["crank"], crank=lambda t: 1.0 + 0.4 * np.sin(2.0 * t))
    free = slider_crank()
    yield "driven slider-crank", free, driven(free, [free.links[0].name], **{free.links[0].name: lambda t: 0.7 + 3.0 * t})
    base = ct.Model("moving base")
    base.add("base", ct.box(0.5, 0.3, 0.2, mass=4.0), ct.Planar("y"))
    base.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y", damping=0.1), parent="base")
    base.add("coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
    base.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), parent="base", at=(1, 0, 0))
    base.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1, 0, 0), at_b=(0.6, 0, 0))
    yield "driven base", base, driven(base, ["base"], base=lambda t: [0.2 * np.sin(3.0 * t), 0.1 * t * t, 0.3 * np.sin(t)])
    within = ct.Model("driven inside")
    within.add("a", ct.rod(0.5, mass=1.0), ct.Revolute("y"))
    within.add("b", ct.rod(0.6, mass=1.0), ct.Revolute("y"), parent="a", at=(0.5, 0, 0))
    within.add("c", ct.rod(0.6, mass=1.0), ct.Prismatic("x", damping=2.0), parent="b", at=(0.6, 0, 0))
    within.add("d", ct.rod(0.7, mass=1.0), ct.Revolute("y"), at=(1.0, 0, 0))
    within.close("pin", ct.Revolute("y"), "c", "d", at_b=(0.7, 0, 0))
    yield "driven inside", within, driven(within, ["c"], c=lambda t: 0.1 + 0.05 * np.cos(4.0 * t))


DRIVES = {name: (free, m) for name, free, m in drives()}


def closed_state(m, t, seed=0):
    rng = np.random.default_rng(seed)
    q = m.assemble(t=t)
    return q, m.project_velocity(q, rng.normal(size=m.nv), t=t), rng.normal(size=m.nv)


@pytest.mark.parametrize(("name", "method"), [(name, method) for name in DRIVES for method in closing_methods(DRIVES[name][1])])
def test_loops_with_driven_joints_are_the_free_ones_with_accelerations_prescribed(name, method):
    free, m = DRIVES[name]
    for t in (0.0, 0.35):
        q, v, tau = closed_state(m, t)
        assert ct.loop_error(m)(t, q).max() < 1e-11
        vdot, force = prescribed(free, m, t, q, v, tau)
        near(ct.forward_dynamics(m, method)(t, q, v, tau), vdot)
        near(ct.driving_forces(m, method)(t, q, v, tau), force)
        near(ct.forward_dynamics(m, method).function(t, q, v, tau)[0], vdot)


def spatial_loops():
    """Yield random loops in space that are closed at q = 0, cut at their last joint, with the bodies to drive."""
    yield from ((word, ring(word, len(word) - 1, seed=0).m, ["loop0"]) for word in RINGS)
    yield "floating", ring("RSUR", 3, seed=3, floating=True).m, ["base"]
    yield "in series", in_series(1).m, ["first0", "second0"]
    yield "nested", nested(1).m, ["outer0"]


SPATIAL = {name: (free, bodies) for name, free, bodies in spatial_loops()}


@pytest.mark.parametrize("name", SPATIAL)
def test_loops_in_space_with_driven_joints_are_free_ones_with_accelerations_prescribed(name):
    free, bodies = SPATIAL[name]
    rng, t = np.random.default_rng(0), 0.2
    joints = {link.name: link.joint for link in free.links}
    motions = {body: leaving(joints[body].neutral(), rng.uniform(0.3, 0.6, joints[body].nq)) for body in bodies}
    m = driven(free, bodies, **motions)
    q = m.assemble(t=t)
    v, tau = m.project_velocity(q, rng.normal(size=m.nv), t=t), rng.normal(size=m.nv)
    vdot, force = prescribed(free, m, t, q, v, tau)
    for method in closing_methods(m):
        solve = METHODS[method].closes.forward_dynamics
        found = solve(m.tree().at(t), q, v, tau, plan=plan_of(m.at(t), method, q))
        near(found.vdot, vdot, 1e-9)
        near(found.rates, np.zeros(len(found.rates)), 1e-11)
    near(ct.driving_forces(m)(t, q, v, tau), force, 1e-8)


def leaving(start, rates):
    return lambda t: [a + b * np.sin(t) for a, b in zip(start, rates, strict=True)]


@pytest.mark.parametrize("name", [name for name, make in EXAMPLES.items() if (m := make()).has_loops and not m.connections and m.nv <= 7])
def test_linkages_with_a_driven_joint_are_free_ones_with_its_acceleration_prescribed(name):
    free = EXAMPLES[name]()
    found = free.mobility()
    names = ACTUATED.get(name, found.independent)
    link, at_q, _ = next((x, q, v) for x, q, v in free.slices() if x.joint.nv == 1 and free.v_names[v.start] in names)
    offset = found.q[at_q.start]
    m = driven(free, [link.name], **{link.name: lambda t: offset + 0.05 * np.sin(4.0 * t)})
    assert m.mobility().freedom == found.freedom - 1
    q, rng = np.delete(found.q, at_q.start), np.random.default_rng(0)
    for t in (0.0, 0.05, 0.1, 0.2):
        q = m.assemble(guess=q, t=t)
    v, tau = m.project_velocity(q, rng.normal(size=m.nv), t=t), rng.normal(size=m.nv)
    vdot, force = prescribed(free, m, t, q, v, tau)
    for method in closing_methods(m):
        near(ct.forward_dynamics(m, method)(t, q, v, tau), vdot, 1e-8)
        near(ct.driving_forces(m, method)(t, q, v, tau), force, 1e-8)
    run = ct.simulate(m, q, v, start=t, until=t + 0.3)
    assert ct.loop_error(m)(run.t, run.q).max() < 1e-9


@pytest.mark.parametrize("name", DRIVES)
@pytest.mark.parametrize("impulse", [0.0, 0.7])
def test_hamiltons_equations_of_loops_with_driven_joints(name, impulse):
    _, m = DRIVES[name]
    t, h = 0.35, 1e-4
    q, v, tau = closed_state(m, t)
    J = np.asarray(constraint_jacobian(m.tree().at(t), q)[1], dtype=float)
    p = ct.momenta(m)(t, q, v) + impulse * J.T @ np.ones(len(J))
    found, rate = ct.hamiltonian_dynamics(m)(t, q, p, tau)
    near(found, v)
    near(ct.velocities(m)(t, q, p), v)
    vdot = ct.forward_dynamics(m)(t, q, v, tau)
    places = [m.at(t + s).assemble(guess=m.integrate(q, s * v + 0.5 * s * s * vdot)) for s in (h, -h)]
    ahead, behind = (ct.velocities(m)(t + s, at, p + s * rate) for s, at in zip((h, -h), places, strict=True))
    near((ahead - behind) / (2 * h), vdot, 1e-5)


@pytest.mark.parametrize("name", DRIVES)
def test_projected_velocities_keep_loops_closed(name):
    _, m = DRIVES[name]
    q, v, _ = closed_state(m, 0.35, 1)
    rates = constraint_motion(m.tree().at(0.35), q, v)[0]
    near(rates, np.zeros(len(rates)), 1e-12)
    h = 1e-6
    later = [ct.loop_error(m)(0.35 + s, m.integrate(q, s * v)).max() for s in (h, -h)]
    assert max(later) < 1e-10  # of second order


def test_a_driven_four_bar_is_kinematic():
    free, m = DRIVES["driven crank"]
    assert m.mobility().freedom == 0
    assert free.mobility().freedom == 1
    crank = ct.reduced(free, ["crank"])
    follow = ct.reduced(m)
    t = np.linspace(0.0, 3.0, 7)
    turn, rate, bend = 1.0 + 0.4 * np.sin(2.0 * t), 0.8 * np.cos(2.0 * t), -1.6 * np.sin(2.0 * t)
    q = crank.positions(turn[:, None])
    v = crank.rates(q, rate[:, None])
    vdot = crank.accelerations(q, v, bend[:, None])
    near(follow.positions(np.zeros((7, 0)), t=t), q[:, 1:], 1e-9)
    near(follow.rates(t, q[:, 1:], np.zeros((7, 0))), v[:, 1:], 1e-9)
    near(follow.accelerations(t, q[:, 1:], v[:, 1:], np.zeros((7, 0))), vdot[:, 1:], 1e-8)
    near(ct.forward_dynamics(m)(t, q[:, 1:], v[:, 1:], np.zeros((7, 2))), vdot[:, 1:], 1e-8)
    torque = ct.inverse_dynamics(free, actuated=["crank"])(q, v, vdot)
    near(ct.driving_forces(m)(t, q[:, 1:], v[:, 1:], np.zeros((7, 2)))[:, 0], torque[:, 0], 1e-8)


def test_loops_that_share_a_driven_joint_only_are_apart():
    m = ct.Model("two sides")
    m.add("crank", ct.rod(0.3, mass=1.5), ct.Driven(ct.Revolute("y"), ct.Harmonic(1.0, 2.0)))
    for name, x in (("left", -1.0), ("right", 1.0)):
        m.add(f"{name} coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
        m.add(f"{name} rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), at=(x, 0, 0))
        m.close(f"{name} pin", ct.Revolute("y"), f"{name} coupler", f"{name} rocker", at_a=(1, 0, 0), at_b=(0.6, 0, 0))
    assert m.mobility().coupled == (("left pin",), ("right pin",))
    run = ct.simulate(m, m.assemble(), until=0.5)
    assert ct.loop_error(m)(run.t, run.q).max() < 1e-10
    q, v, tau = closed_state(m, 0.2)
    vdot, force = prescribed(released_model(m), m, 0.2, q, v, tau)
    near(ct.forward_dynamics(m)(0.2, q, v, tau), vdot)
    near(ct.driving_forces(m)(0.2, q, v, tau), force)


def released_model(m):
    """Return a model with its driven joints free."""
    free = ct.Model(m.name, gravity=m.gravity)
    for link in m.links:
        free.add(link.name, link.body, getattr(link.joint, "joint", link.joint), link.parent, link.at)
    for loop in m.loops:
        free.close(loop.name, loop.joint, loop.a, loop.b, loop.at_a, loop.at_b)
    return free


def test_states_that_leave_a_driven_loop_open_are_refused():
    _, m = DRIVES["driven crank"]
    fd, q = ct.forward_dynamics(m), m.assemble(t=0.0)
    v = m.project_velocity(q, t=0.0)
    with pytest.raises(ct.ArgumentError, match=r"open.*m\.assemble\(guess=q, t=0\.5\)"):
        fd(0.5, q, v, np.zeros(2))
    with pytest.raises(ct.ArgumentError, match=r"would open the loops.*m\.project_velocity\(q, v, t=0\)"):
        fd(0.0, q, np.zeros(2), np.zeros(2))


# runs


def test_a_pendulum_on_a_driven_pivot_moves_as_its_equation_says():
    from scipy.integrate import solve_ivp

    m = ct.Model("pivot")
    m.add("pivot", ct.Body(0.0), ct.Driven(ct.Prismatic("x"), lambda t: 0.3 * np.sin(5.0 * t)))
    m.add("arm", ct.point_mass(1.0, at=(0, 0, -2)), ct.Revolute("-y"), parent="pivot")
    run = ct.simulate(m, [0.2], until=4.0, rtol=1e-10)

    def slope(t, y):
        return [y[1], (-9.81 * np.sin(y[0]) + 7.5 * np.sin(5.0 * t) * np.cos(y[0])) / 2.0]

    expected = solve_ivp(slope, (0.0, 4.0), [0.2, 0.0], rtol=1e-12, atol=1e-12, t_eval=run.t[1:-1]).y
    near(run.q[1:-1, 0], expected[0], 1e-8)
    near(run.v[1:-1, 0], expected[1], 1e-8)


def test_work_of_the_drive_is_the_change_of_energy_over_a_run():
    from scipy.integrate import simpson

    m = driven(mechanisms.chain(4, 3), ["body1"])
    run = ct.simulate(m, np.zeros(2), until=2.0, record=np.linspace(0.0, 2.0, 401))
    near(simpson(run.driving_power, x=run.t), run.total_energy[-1] - run.total_energy[0], 1e-7)
    assert run.driving_force.shape == (401, 1)
    assert run.driven_names == ("body1",)


def test_driving_forces_are_plotted():
    pytest.importorskip("matplotlib")
    run = ct.simulate(driven(mechanisms.chain(4, 3), ["body1"]), np.zeros(2), until=0.2)
    axes = run.plot(what=("q", "energy", "driving_force")).axes
    assert [one.get_title(loc="left") or one.get_title() for one in axes][-1] == "Driving forces"
    with pytest.raises(ct.ArgumentError, match="holds no driving_force"):
        ct.simulate(mechanisms.chain(4, 2), np.zeros(2), until=0.1).plot(what="driving_force")


@pytest.mark.parametrize("name", DRIVES)
def test_runs_of_driven_loops_stay_closed(name):
    _, m = DRIVES[name]
    run = ct.simulate(m, m.assemble(t=0.2), start=0.2, until=1.2)
    assert ct.loop_error(m)(run.t, run.q).max() < 1e-9
    between = run.at(0.5 * (run.t[1:] + run.t[:-1]))
    assert ct.loop_error(m)(between.t, between.q).max() < 1e-9


def test_a_run_of_a_driven_slider_crank_follows_its_motion():
    free, m = DRIVES["driven slider-crank"]
    run = ct.simulate(m, m.assemble(), until=4.0, rtol=1e-9)
    q = ct.reduced(free, [free.links[0].name]).positions((0.7 + 3.0 * run.t)[:, None])
    near(run.q, q[:, 1:], 1e-9)


def test_assembling_at_a_time_stays_on_the_branch_of_the_run():
    _, m = DRIVES["driven slider-crank"]
    times = np.linspace(0.0, 6.0, 9)
    run = ct.simulate(m, m.assemble(), until=6.0, record=times)
    for t, q in zip(times, run.q, strict=True):
        near(ct.poses(m)(t, m.assemble(t=t)), ct.poses(m)(t, q), 1e-7)


@pytest.mark.parametrize("name", ["driven base", "driven crank"])
def test_rollouts_are_runs_with_fixed_steps(name):
    _, m = DRIVES[name]
    q0 = m.assemble(t=0.1)
    run = ct.simulate(m, q0, start=0.1, until=0.6, step=0.005)
    rolled = ct.rollout(m, q0, step=0.005, steps=100, start=0.1)
    near(rolled.q[-1], run.q[-1], 1e-11)
    many = ct.ensemble(m, np.stack([q0, q0]), step=0.005, steps=100, start=0.1, chunk=1)
    near(many.q[1, -1], run.q[-1], 1e-11)


@pytest.mark.parametrize("integrator", ["implicit-midpoint", "gauss-legendre-4", "dop853", "semi-implicit-euler", "scipy:Radau"])
def test_integrators_agree_on_a_driven_tree(integrator):
    m = driven(mechanisms.chain(4, 3), ["body0"])
    expected = ct.simulate(m, np.zeros(2), until=0.5, rtol=1e-11).q[-1]
    fixed = {} if integrator in ("dop853", "scipy:Radau") else {"step": 1e-3}
    order = {"semi-implicit-euler": 1e-2, "implicit-midpoint": 1e-5, "scipy:Radau": 1e-6}.get(integrator, 1e-8)
    near(ct.simulate(m, np.zeros(2), until=0.5, integrator=integrator, **fixed).q[-1], expected, order)


def test_events_and_checkpoints_of_driven_loops(tmp_path):
    _, m = DRIVES["driven base"]
    q0 = m.assemble()
    stop = ct.Event("low", lambda t, q, v: q[0] - q0[0] - 0.2)
    whole = ct.simulate(m, q0, until=1.0, checkpoint=tmp_path / "run.npz", checkpoint_every=0.0)
    again = ct.simulate(m, q0, until=1.0, resume=tmp_path / "run.npz")
    assert np.array_equal(whole.q, again.q)
    found = ct.simulate(m, q0, until=3.0, events=[stop])
    if found.events:
        assert abs(found.q[-1, 0] - q0[0] - 0.2) < 1e-9


def test_python_forces_on_driven_models():
    m, called = (driven(mechanisms.chain(4, 3), ["body0"]) for _ in range(2))
    push = lambda t, q, v: np.array([0.0, 0.0, 1.0 + t])  # noqa: E731
    m.add_force("push", push, body="body2", point=(0.1, 0, 0))
    called.add_force("push", ct.python(push), body="body2", point=(0.1, 0, 0))
    near(ct.simulate(called, np.zeros(2), until=0.2).q[-1], ct.simulate(m, np.zeros(2), until=0.2).q[-1], 1e-10)


@pytest.mark.parametrize("m", [driven(three("revolute"), ["body1"]), DRIVES["driven base"][1]])
def test_methods_are_compared_on_driven_models(m):
    found = compare(m, states=5, seconds=0.0, problems=["forward_dynamics", "mass_matrix"])
    assert all(row.disagreement < 1e-7 for row in found.rows)


def test_the_command_tells_of_driven_joints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    m = driven(four_bar(), ["crank"], crank=ct.Harmonic(1.0, 2.0))
    m.save("driven.toml")
    told = json.loads(CliRunner().invoke(cli.app, ["info", "driven.toml", "--json"]).output)
    assert told["joints"] == {"driven": 1, "revolute": 2}
    assert told["freedom"] == 0
    told = json.loads(CliRunner().invoke(cli.app, ["simulate", "driven.toml", "--until", "1", "--json"]).output)
    assert told["energy"]["changed_by"] == ["driven joints"]
    assert told["loop_error"] < 1e-9
    assert CliRunner().invoke(cli.app, ["info", "driven.toml"]).exit_code == 0


def test_trajectories_of_driven_models_are_kept_in_files(tmp_path):
    m = driven(four_bar(), ["crank"], crank=ct.Harmonic(1.0, 2.0))
    run = ct.simulate(m, m.assemble(), until=0.3)
    run.save(tmp_path / "run.npz")
    again = ct.Trajectory.load(tmp_path / "run.npz")
    assert np.array_equal(again.q, run.q)
    assert np.array_equal(again.driving_force, run.driving_force)


# the doors


def test_models_that_are_driven_altogether_have_kernels_and_no_runs():
    m = ct.Model("hoist")
    m.add("cabin", ct.point_mass(100.0), ct.Driven(ct.Prismatic("z"), lambda t: 0.5 * t**2))
    t, none = np.array([0.0, 2.0]), np.zeros((2, 0))
    near(ct.poses(m)(t, none)[:, 0, 2, 3], [0.0, 2.0])
    near(ct.driving_forces(m)(t, none, none, none), [[1081.0], [1081.0]])
    assert ct.forward_dynamics(m)(t, none, none, none).shape == (2, 0)
    for run in (lambda: ct.simulate(m, [], until=1.0), lambda: ct.rollout(m, [], step=0.1, steps=2)):
        with pytest.raises(ct.ArgumentError, match=r"has no coordinates.*ct\.poses\(m\)\(t, \[\]\)"):
            run()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ct.Driven("revolute", np.sin), "is not a joint"),
        (lambda: ct.Driven(ct.Fixed(), np.sin), "no coordinates to be driven"),
        (lambda: ct.Driven(ct.Driven(ct.Revolute("z"), np.sin), np.sin), "no coordinates to be driven"),
        (lambda: ct.Driven(ct.Revolute("z"), 3.0), "is not a function"),
        (lambda: ct.Driven(ct.Revolute("z"), lambda t: [t, t]), "return one number"),
        (lambda: ct.Driven(ct.Planar("z"), lambda t: [t, t]), "return 3 numbers: x, y, angle"),
        (lambda: ct.Driven(ct.Revolute("z"), lambda t: "fast"), "driven motion returned 'fast'; return one number"),
        (lambda: ct.Driven(ct.Revolute("z"), lambda t: np.log(t)), "finite"),
        (lambda: ct.Driven(ct.Revolute("z"), lambda t: np.sqrt(t)), "finite|failed"),
        (lambda: ct.Driven(ct.Revolute("z"), lambda t: __import__("math").sin(t)), "computes with floats.*NumPy's functions"),
        (lambda: ct.Driven(ct.Revolute("z"), lambda t: 1.0 if t > 0 else 0.0), r"cannot be traced: .*write np\.where\(t > 0, 1\.0, 0\.0\)"),
        (lambda: ct.driving_forces(four_bar()), "no joint of model 'four-bar' is driven"),
    ],
)
def test_what_cannot_be_driven_is_refused(make, message):
    with pytest.raises(ct.ModelError, match=message):
        make()


def test_motions_may_choose_between_pieces():
    joint = ct.Driven(ct.Revolute("z"), lambda t: ct.where(t < 1.0, t**3, 3.0 * t - 2.0))
    for t, wanted in ((0.5, (0.125, 0.75, 3.0)), (2.0, (4.0, 3.0, 0.0))):
        near(np.concatenate(joint.given(t)), np.array(wanted), 1e-15)
    smooth = ct.Driven(ct.Revolute("z"), lambda t: ct.minimum(t, 1.0) ** 2 + ct.maximum(t, 1.0))
    near(np.concatenate(smooth.given(0.5)), np.array([1.25, 1.0, 2.0]), 1e-15)


def test_closing_by_a_driven_joint_and_loops_that_cannot_follow_are_refused():
    free = four_bar()
    with pytest.raises(ct.ModelError, match="closes no loop"):
        free.close("again", ct.Driven(ct.Revolute("y"), np.sin), "crank", "rocker")
    m = driven(free, ["crank", "coupler", "rocker"])
    with pytest.raises(ct.ModelError, match="all joints around it are driven"):
        ct.forward_dynamics(m)


def test_connections_hang_bodies_by_driven_joints():
    m = ct.Model("connected")
    for name, length in (("crank", 0.3), ("coupler", 1.0), ("rocker", 0.6)):
        m.add(name, ct.rod(length, mass=5 * length))
    m.connect("crank", "ground", ct.Driven(ct.Revolute("y"), lambda t: 1.0 + t), at_a=(0.3, 0, 0), at_b=(0.3, 0, 0))
    m.connect("crank", "coupler", ct.Revolute("y"))
    m.connect("coupler", "rocker", ct.Revolute("y"), at_a=(1, 0, 0), at_b=(0.6, 0, 0))
    m.connect("rocker", "ground", ct.Revolute("y"), at_b=(1, 0, 0))
    assert m.driven_names == ("crank",)
    assert m.mobility().freedom == 0
    turned = ct.poses(m)(0.0, m.assemble())[0]
    near(turned[0, 0], np.cos(1.0), 1e-12)
    assert turned[0, 2] == pytest.approx(-np.sin(1.0))  # against the axis: the ground turns on the crank


def test_files_hold_harmonic_motions_and_no_functions(tmp_path):
    m = driven(four_bar(), ["crank"])
    with pytest.raises(ct.ModelError, match="motion of a driven joint is Python code, which a file cannot hold"):
        m.save(tmp_path / "m.toml")
    path = tmp_path / "harmonic.toml"
    for motion in (ct.Harmonic(), ct.Harmonic(1.0, 2.0), ct.Harmonic(amplitude=0.2, frequency=3.0, phase=0.5)):
        m = driven(four_bar(), ["crank"], crank=motion)
        m.save(path)
        assert ct.load(path).links[0].joint == m.links[0].joint
    m = ct.Model("plate")
    m.add("plate", ct.point_mass(1.0), ct.Driven(ct.Planar("z", damping=0.5), ct.Harmonic(amplitude=(0.1, 0.2, 0), frequency=9.0)))
    m.add("arm", ct.rod(1.0, mass=1.0), ct.Revolute("y"), parent="plate")
    m.save(path)
    assert ct.load(path).links[0].joint == m.links[0].joint
    assert np.array_equal(ct.poses(ct.load(path))(0.3, [0.1]), ct.poses(m)(0.3, [0.1]))


@pytest.mark.parametrize(
    ("motion", "message"),
    [
        ("{ speed = 1.0 }", "unknown key"),
        ('{ rate = "fast" }', "is not"),
        ("{ rate = [1.0, 2.0] }", "return one number"),
        ("{ rate = nan }", "not finite"),
        ("{ rate = [1.0, 2.0], phase = [1.0] }", "different lengths"),
    ],
)
def test_files_with_wrong_motions_are_refused_with_their_place(motion, message, tmp_path):
    path = tmp_path / "m.toml"
    path.write_text(f'[[body]]\nname = "a"\nmass = 1.0\njoint = {{ type = "revolute", motion = {motion} }}\n')
    with pytest.raises(ct.ModelFileError, match=rf"m\.toml:4: body\[0\]\.joint\.motion.*{message}"):
        ct.load(path)


def test_a_leg_whose_only_joint_is_driven_leads_a_platform_as_other_methods_say() -> None:
    """A bar on three cranks, of which the middle one is driven: its leg has no coordinate of its own."""
    m = ct.Model("three cranks")
    for name, x in (("left", 0.0), ("middle", 0.5), ("right", 1.0)):
        joint = ct.Revolute("y")
        m.add(name, ct.rod(0.3, mass=1.0), ct.Driven(joint, lambda t: 0.7 + t + t * t) if name == "middle" else joint, at=(x, 0, 0))
    m.add("bar", ct.rod(1.0, mass=2.0), ct.Revolute("y"), parent="left", at=(0.3, 0, 0))
    for name, x in (("middle", 0.5), ("right", 1.0)):
        m.close(f"{name} pin", ct.Revolute("y"), "bar", name, at_a=(x, 0, 0), at_b=(0.3, 0, 0))
    q = m.assemble([0.7, 0.7, -0.7])
    v = m.project_velocity(q)
    np.testing.assert_allclose(ct.forward_dynamics(m, "denoc")(0.0, q, v, np.ones(3)), [2.0, 2.0, -2.0], atol=1e-12)


def test_a_kernel_is_made_for_a_configuration_at_the_time_zero_of_a_drive() -> None:
    """The slide that carries the rocker moves, so a configuration closes the loops at one time only."""
    m = ct.Model("moving pivot")
    m.add("crank", ct.rod(0.2, mass=1.0), ct.Revolute("y"))
    m.add("coupler", ct.rod(0.5, mass=1.0), ct.Revolute("y"), parent="crank", at=(0.2, 0, 0))
    m.add("slide", ct.point_mass(1.0), ct.Driven(ct.Prismatic("x"), lambda t: 0.5 + 0.05 * np.cos(3.0 * t)))
    m.add("rocker", ct.rod(0.4, mass=1.0), ct.Revolute("y"), parent="slide")
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(0.5, 0, 0), at_b=(0.4, 0, 0))
    q, v = m.assemble(guess=[1.0, -1.5, -1.5], t=0.0), np.zeros(3)
    for make in (ct.forward_dynamics, ct.joint_wrenches):
        given = (q, v, v)
        np.testing.assert_allclose(make(m, at=q)(0.0, *given), make(m)(0.0, *given), rtol=1e-10, atol=1e-10)
    later = m.assemble(guess=q, t=0.9)
    with pytest.raises(ct.CatenaError, match="at"):
        ct.forward_dynamics(m, at=later)
