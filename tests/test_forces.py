"""Springs, stops and forces from functions: against hand computations, the referee and MuJoCo, and by the laws of energy and momentum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests import mechanisms
from tests.referee import Referee, derivative, relative

import catena as ct
from catena.errors import ModelError, ModelFileError, TraceError
from catena.formulations import METHODS
from catena.formulations.applied_forces import applied_forces
from catena.formulations.joint_forces import passive_force

pytestmark = pytest.mark.evaluated

TOLERANCE = 1e-9
FORWARD = [name for name, method in METHODS.items() if method.general and "forward_dynamics" in method.solves]


def joint_load(t: Any, q: Any, v: Any) -> Any:
    """Joint forces that depend on everything."""
    return 0.3 * np.cos(t) - 0.2 * v * v + 0.1 * q[0]


def push(t: Any, q: Any, v: Any) -> Any:
    """A force in the world's axes."""
    return np.array([1.0 + 0.5 * np.sin(2.0 * t), -v[0], 0.3 * q[-1]])


def wrench(t: Any, q: Any, v: Any) -> Any:
    """A moment and a force in the world's axes."""
    return [0.4, -0.2 * v[-1], 0.1 * t, 2.0, 0.5 * q[0], -1.0]


def with_limits(m: ct.Model, seed: int) -> ct.Model:
    """Return a copy of a model whose joints stop early, so that most states are inside a stop."""
    rng = np.random.default_rng(seed)
    copy = ct.Model(m.name, m.gravity, m.friction_speed)
    for link in m.links:
        joint = link.joint
        if joint.nv and joint.nq == joint.nv:
            ends = np.sort(rng.uniform(-0.6, 0.6, (joint.nv, 2)), axis=1).tolist()
            pairs: list[Any] = [(None, ends[0][1]) if i else pair for i, pair in enumerate(ends)]
            joint = replace(joint, limits=pairs, stop_stiffness=rng.uniform(20, 60, joint.nv), stop_damping=rng.uniform(0, 1, joint.nv))
        copy.add(link.name, link.body, joint, link.parent, link.at)
    return copy


def loaded(m: ct.Model, seed: int = 0) -> ct.Model:
    """Return a copy of a model with stops, springs of every kind and forces of every kind."""
    rng = np.random.default_rng(seed)
    m = with_limits(m, seed)
    names = ["ground", *m.body_names]
    for i, options in enumerate([{"length": 0.3}, {"damping": 2.0}, {"damping": 1.0, "length": 0.7}, {}]):
        a, b = rng.choice(len(names), 2, replace=False)
        m.add_spring(f"spring{i}", names[a], names[b], rng.normal(size=3), rng.normal(size=3), stiffness=rng.uniform(1, 9), **options)
    m.add_force("joints", joint_load)
    m.add_force("push", push, body=names[-1], point=rng.normal(size=3))
    m.add_force("wrench", wrench, body=names[rng.integers(1, len(names))], point=rng.normal(size=3))
    return m


def run(m: ct.Model, problem: str, method: str, t: float, q: Any, v: Any, *x: Any) -> np.ndarray:
    """Return what a formulation gives with all that acts by itself, run on floats; vdot or tau."""
    tree = m.tree()
    force, wrenches = applied_forces(tree, t, q, v)
    force = force + passive_force(tree, q, v)
    solve = METHODS[method].solves[problem]
    result = solve(tree, q, v, x[0] + force, wrenches) if problem == "forward_dynamics" else solve(tree, q, v, *x, wrenches) - force
    return np.asarray(result, dtype=float)


# --- independent solutions


@pytest.mark.parametrize("length", [0.0, 0.2])
def test_spring_equals_hand_computation(length: float) -> None:
    """A slider along x, pulled by a spring from 0.3 m beside its track to a point 0.1 m up on it."""
    m = ct.Model("slider", gravity=(0, 0, 0))
    m.add("cart", ct.point_mass(2.0), ct.Prismatic("x"))
    m.add_spring("coil", "ground", "cart", at_a=(0, 0.3, 0), at_b=(0.1, 0, 0), stiffness=50.0, damping=4.0, length=length)
    x, rate = 0.4, 1.5
    distance = math.hypot(0.5, 0.3)
    tension = 50.0 * (distance - length) + 4.0 * (0.5 / distance) * rate
    vdot = ct.forward_dynamics(m)([x], [rate], [0.7])
    assert vdot == pytest.approx([(0.7 - tension * 0.5 / distance) / 2.0], rel=1e-13)
    kinetic, potential = ct.energy(m)([x], [rate])
    assert (kinetic, potential) == pytest.approx((rate**2, 25.0 * (distance - length) ** 2), rel=1e-13)


def test_forces_of_functions_equal_hand_computation() -> None:
    """A pendulum at an angle: a force on its tip, a moment and a joint force; the tip is where the world sees it."""
    m = ct.Model("pendulum", gravity=(0, 0, 0))
    m.add("arm", ct.point_mass(2.0, at=(0.5, 0, 0)), ct.Revolute("z"))
    m.add("tip", ct.point_mass(0.0), ct.Fixed(), parent="arm", at=ct.Pose((0.5, 0, 0), rpy=(0.3, 0.2, 0.1)))
    m.add_force("joint", lambda t, q, v: [0.1 * q[0] - 0.3 * v[0]])
    m.add_force("tip", lambda t, q, v: (3.0, 5.0, 7.0), body="tip")
    m.add_force("twist", lambda t, q, v: (11.0, 13.0, 17.0, 0.0, 0.0, 0.0), body="arm", point=(9, 9, 9))
    q, v = 0.8, 1.2
    torque = 0.1 * q - 0.3 * v + 0.5 * (math.cos(q) * 5.0 - math.sin(q) * 3.0) + 17.0
    assert ct.forward_dynamics(m)([q], [v], [0.0]) == pytest.approx([torque / 0.5], rel=1e-13)
    assert ct.bias_force(m)([q], [v]) == pytest.approx([-torque], rel=1e-13)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_stop_equals_hand_computation(side: float) -> None:
    m = ct.Model("slider", gravity=(0, 0, 0))
    m.add("cart", ct.point_mass(2.0), ct.Prismatic("x", limits=(-0.5, 0.5), stop_stiffness=300.0, stop_damping=0.2))
    forward, energy = ct.forward_dynamics(m), ct.energy(m)
    for rate, factor in ((0.0, 1.0), (1.0, 1.2), (-1.0, 0.8), (-5.0, 0.0), (-9.0, 0.0)):
        vdot = forward([side * 0.6], [side * rate], [0.0])
        assert vdot == pytest.approx([-side * 300.0 * 0.1 * factor / 2.0], rel=1e-12, abs=1e-300)
        assert energy([side * 0.6], [side * rate])[1] == pytest.approx(1.5, rel=1e-12)
        assert forward([side * 0.5], [side * rate], [0.0]) == 0.0
        assert energy([side * 0.5], [side * rate])[1] == 0.0


@given(moving=mechanisms.moving_trees(most=6))
@pytest.mark.parametrize("method", FORWARD)
def test_forward_dynamics_equals_the_referee(method: str, moving: Any) -> None:
    m, q, v, x = moving
    m = loaded(m, seed=len(m.links))
    assert relative(run(m, "forward_dynamics", method, 0.7, q, v, x), Referee(m).forward(q, v, x, 0.7)) < 1e-7


@given(moving=mechanisms.moving_trees(most=6))
def test_inverse_dynamics_and_energy_equal_the_referee(moving: Any) -> None:
    m, q, v, x = moving
    m = loaded(m, seed=len(m.links))
    assert relative(run(m, "inverse_dynamics", "newton-euler", 0.7, q, v, x), Referee(m).inverse(q, v, x, 0.7)) < 1e-8
    energy = ct.energy(m).function
    assert energy is not None
    assert relative(energy(q, v), Referee(m).energy(q, v)) < TOLERANCE


def test_springs_equal_mujoco() -> None:
    """A tendon between two sites is MuJoCo's spring."""
    mujoco = pytest.importorskip("mujoco")
    from tests.test_peers import MuJoCo

    class WithTendons(MuJoCo):
        """MuJoCo with a tendon for every spring."""

        def _bodies(self, parent: str) -> str:
            ends = [(s.name, end, body, at) for s in self.m.springs for end, body, at in (("a", s.a, s.at_a), ("b", s.b, s.at_b))]
            sites = "".join(f'<site name="{name}{end}" pos="{self._text(at)}"/>' for name, end, body, at in ends if body == parent)
            return sites + super()._bodies(parent)

        def __init__(self, m: ct.Model) -> None:
            super().__init__(m)
            tendons = "".join(
                f'<spatial name="{s.name}" stiffness="{s.stiffness!r}" damping="{s.damping!r}" springlength="{s.length!r}">'
                f'<site site="{s.name}a"/><site site="{s.name}b"/></spatial>'
                for s in m.springs
            )
            text = (
                '<mujoco><compiler angle="radian" inertiafromgeom="false" autolimits="false"/>'
                f'<option gravity="{self._text(m.gravity)}"><flag contact="disable"/></option>'
                f"<worldbody>{self._bodies('ground')}</worldbody><tendon>{tendons}</tendon></mujoco>"
            )
            self.model = mujoco.MjModel.from_xml_string(text)
            self.data = mujoco.MjData(self.model)

    rng = np.random.default_rng(3)
    m = mechanisms.tree(3, 5, ("revolute", "prismatic", "spherical"), fixed=0.0)
    m.add("floater", mechanisms.body(rng), ct.Free())
    m.add_spring("first", "body1", "body4", (0.1, 0.2, 0.3), (0.4, 0, -0.1), stiffness=30.0, damping=2.0, length=0.4)
    m.add_spring("second", "ground", "floater", (1, 0, 0), (0, 0.2, 0), stiffness=20.0, damping=3.0)
    peer, forward = WithTendons(m), ct.forward_dynamics(m)
    for seed in range(5):
        q, v, tau = mechanisms.state(m, seed)
        assert relative(forward(q, v, tau), peer.forward(q, v, tau)) < TOLERANCE


# --- laws


@given(moving=mechanisms.moving_trees(most=6))
def test_all_methods_agree_and_inverse_undoes_forward(moving: Any) -> None:
    m, q, v, tau = moving
    m = loaded(m, seed=len(m.links))
    results = [run(m, "forward_dynamics", method, 0.3, q, v, tau) for method in FORWARD]
    for vdot in results:
        assert relative(vdot, results[0]) < 1e-7
        assert relative(run(m, "inverse_dynamics", "newton-euler", 0.3, q, v, vdot), tau, np.abs(m.tree().M).max()) < 1e-7


def dissipated(m: ct.Model, t: float, q: np.ndarray, v: np.ndarray) -> float:
    """Return the power of all that has no potential."""
    referee = Referee(m)
    at = referee.motion(q, v)
    power = 0.0
    for link, at_q, at_v in m.slices():
        x, rate, joint = q[at_q], v[at_v], link.joint
        power -= np.array(joint.damping) @ rate**2 + np.array(joint.friction) @ (rate**2 / np.sqrt(rate**2 + m.friction_speed**2))
        if joint.limits is not None:
            stiffness, damping = np.array(joint.stop_stiffness), np.array(joint.stop_damping)
            for side, depth in ((1.0, x - joint.upper), (-1.0, joint.lower - x)):
                spring = stiffness * np.maximum(depth, 0.0)
                total = spring * np.maximum(1.0 + damping * side * rate, 0.0)
                power -= (total - spring) @ (side * rate)
    for spring in m.springs:
        _, xa, va = referee.place(at, spring.a, spring.at_a)
        _, xb, vb = referee.place(at, spring.b, spring.at_b)
        power -= spring.damping * ((xb - xa) @ (vb - va) / np.linalg.norm(xb - xa)) ** 2
    for force in m.forces:
        value = np.asarray(force.function(t, q, v), dtype=float)
        if force.body is None:
            power += value @ v
        else:
            i, _, velocity = referee.place(at, force.body, force.point)
            power += value[-3:] @ velocity + (value[:3] @ at.omega[i] if value.size == 6 else 0.0)
    return float(power)


@given(moving=mechanisms.moving_trees(most=5))
def test_power_equals_the_rate_of_energy(moving: Any) -> None:
    m, q, v, tau = moving
    m = loaded(m, seed=len(m.links))
    t = 0.4
    vdot = run(m, "forward_dynamics", "articulated-body", t, q, v, tau)
    energy = ct.energy(m).function
    assert energy is not None
    rate = derivative(lambda s: sum(energy(m.integrate(q, s * v + 0.5 * s * s * vdot), v + s * vdot)), 1e-3 / (1.0 + np.abs(vdot).max()))
    power = tau @ v + dissipated(m, t, q, v)
    scale = np.abs(tau) @ np.abs(v) + abs(power) + sum(map(abs, energy(q, v))) * (1.0 + np.abs(vdot).max())
    assert abs(rate - power) < 1e-7 * scale


def test_a_spring_leaves_the_momentum_of_a_floating_pair_as_it_is() -> None:
    m = ct.Model("pair", gravity=(0, 0, 0))
    rng = np.random.default_rng(0)
    m.add("one", mechanisms.body(rng), ct.Free())
    m.add("two", mechanisms.body(rng), ct.Free(), at=mechanisms.place(rng))
    m.add("hat", mechanisms.body(rng), ct.Fixed(), parent="two", at=mechanisms.place(rng))
    m.add_spring("tie", "one", "hat", (0.1, 0.2, 0.3), (0.3, -0.2, 0.1), stiffness=40.0, damping=3.0, length=0.2)
    m.add_spring("band", "two", "one", (0.4, 0, 0), stiffness=10.0, damping=1.0)
    referee, forward = Referee(m), ct.forward_dynamics(m)
    for seed in range(5):
        q, v, _ = mechanisms.state(m, seed)
        vdot = forward(q, v, np.zeros(m.nv))
        rate = derivative(lambda s, q=q, v=v, a=vdot: referee.momentum(m.integrate(q, s * v + 0.5 * s * s * a), v + s * a))
        assert np.abs(vdot).max() > 1.0
        assert np.abs(rate).max() < 1e-9 * np.abs(vdot).max()


def test_a_force_changes_momentum_by_itself() -> None:
    """On a floating body the rate of the total momentum is the force, and its moment about the world's origin."""
    m = ct.Model("drone", gravity=(0, 0, 0))
    rng = np.random.default_rng(1)
    m.add("drone", mechanisms.body(rng), ct.Free(), at=mechanisms.place(rng))
    m.add("arm", mechanisms.body(rng), ct.Revolute("x"), parent="drone", at=(0.2, 0.1, 0))
    m.add_force("thrust", lambda t, q, v: np.array([1.0, 2.0, 3.0]), body="arm", point=(0.1, 0.2, 0.3))
    q, v, _ = mechanisms.state(m, 4)
    vdot = ct.forward_dynamics(m)(q, v, np.zeros(m.nv))
    rate = derivative(lambda s: Referee(m).momentum(m.integrate(q, s * v + 0.5 * s * s * vdot), v + s * vdot))
    point = (ct.poses(m)(q)[1] @ [0.1, 0.2, 0.3, 1.0])[:3]
    assert rate == pytest.approx(np.array([*np.cross(point, [1.0, 2.0, 3.0]), 1.0, 2.0, 3.0]), rel=1e-9, abs=1e-9)


@given(moving=mechanisms.moving_trees(most=4))
def test_stops_never_pull(moving: Any) -> None:
    m, q, v, _ = moving
    m = with_limits(m, 1)
    bare = ct.Model("bare", m.gravity, m.friction_speed)
    for link in m.links:
        bare.add(link.name, link.body, replace(link.joint, limits=None), link.parent, link.at)
    for scale in (0.0, 1.0, 10.0, -10.0):
        force = passive_force(m.tree(), q, scale * v) - passive_force(bare.tree(), q, scale * v)
        for link, at_q, at_v in m.slices():
            if link.joint.limits is not None:
                above, below = q[at_q] > link.joint.upper, q[at_q] < link.joint.lower
                assert (force[at_v][above] <= 0.0).all()
                assert (force[at_v][below] >= 0.0).all()
                assert (force[at_v][~above & ~below] == 0.0).all()


# --- kernels


@pytest.mark.compiled
@pytest.mark.parametrize("bodies", [4, 30])
def test_kernels_equal_the_eager_run_and_the_referee(bodies: int) -> None:
    m = loaded(mechanisms.tree(5, bodies, options=True))
    assert m.time_dependent
    q, v, x = mechanisms.state(m, 1, (7,))
    t = np.linspace(0.0, 2.0, 7)
    doors: dict[str, tuple[Callable[..., ct.Kernel], tuple[Any, ...]]] = {
        "forward_dynamics": (ct.forward_dynamics, (x,)), "inverse_dynamics": (ct.inverse_dynamics, (x,)), "bias_force": (ct.bias_force, ())
    }  # fmt: skip
    for door, rest in doors.values():
        kernel = door(m)
        assert [port.name for port in kernel.inputs][:3] == ["t", "q", "v"]
        batch = kernel(t, q, v, *rest)
        assert kernel.function is not None
        for i in range(7):
            assert relative(batch[i], kernel.function(t[i], q[i], v[i], *(y[i] for y in rest))) < TOLERANCE
    forward = ct.forward_dynamics(m)(t, q, v, x)
    assert relative(ct.inverse_dynamics(m)(t, q, v, forward), x, np.abs(forward).max()) < TOLERANCE
    mass = (ct.mass_matrix(m)(q) @ forward[..., None])[..., 0]
    assert relative(mass + ct.bias_force(m)(t, q, v), x, np.abs(mass).max()) < TOLERANCE
    assert relative(forward[3], Referee(m).forward(q[3], v[3], x[3], t[3])) < 1e-6


def one_joint(joint: ct.model.Joint | None = None) -> ct.Model:
    m = ct.Model("one")
    m.add("arm", ct.rod(1.0, mass=2.0), joint or ct.Revolute("y"))
    return m


def test_only_time_dependent_forces_make_kernels_take_time() -> None:
    m = one_joint()
    m.add_force("still", lambda t, q, v: np.array([0.0 * t + q[0]]))
    assert not m.time_dependent
    assert ct.forward_dynamics(m).signature == "(q: 1), (v: 1), (tau: 1) -> (vdot: 1)"
    m.add_force("moving", lambda t, q, v: np.array([np.sin(t)]))
    assert m.time_dependent
    assert ct.forward_dynamics(m).signature == "(t: scalar), (q: 1), (v: 1), (tau: 1) -> (vdot: 1)"
    assert ct.inverse_dynamics(m).signature == "(t: scalar), (q: 1), (v: 1), (vdot: 1) -> (tau: 1)"
    assert ct.bias_force(m).signature == "(t: scalar), (q: 1), (v: 1) -> (bias: 1)"
    assert ct.mass_matrix(m).signature == "(q: 1) -> (mass: 1x1)"
    assert ct.energy(m).signature == "(q: 1), (v: 1) -> (kinetic: scalar), (potential: scalar)"
    t = np.array([0.0, 1.0])
    assert ct.inverse_dynamics(m)(t, [0.0], [0.0], [0.0])[:, 0] == pytest.approx(-9.81 - np.sin(t))


def test_a_spring_without_free_length_needs_no_root() -> None:
    for damping in (0.0, 2.0):
        m = one_joint()
        m.add_spring("coil", "ground", "arm", (0, 0, 1), (1, 0, 0), stiffness=3.0, damping=damping)
        assert "sqrt" not in ct.forward_dynamics(m).operations
        assert "sqrt" not in ct.energy(m).operations


@pytest.mark.parametrize("distance", [0.0, 1e-320, 1e-200, 1e-150, 1e-100, 1e-20, 1e-9])
@pytest.mark.parametrize("length", [0.0, 0.3])
def test_spring_of_no_length_is_finite(length: float, distance: float) -> None:
    m = ct.Model("slider", gravity=(0, 0, 0))
    m.add("cart", ct.point_mass(1.0), ct.Prismatic("x"))
    m.add_spring("coil", "ground", "cart", stiffness=7.0, damping=2.0, length=length)
    (vdot,) = ct.forward_dynamics(m)([distance], [1.0], [0.0])
    assert np.isfinite(vdot)
    if distance == 0.0:
        assert vdot == 0.0
    if distance >= 1e-100:
        assert vdot == pytest.approx(-7.0 * (distance - length) - 2.0, rel=1e-12)
    assert ct.energy(m)([distance], [1.0])[1] == pytest.approx(3.5 * (distance - length) ** 2)


def test_forces_cost_nothing_where_they_do_not_act() -> None:
    """A force on the second body costs the same on a chain of 4 as on one of 9."""
    added = []
    for bodies in (4, 9):
        m = mechanisms.denavit_hartenberg(bodies)
        before = sum(ct.forward_dynamics(m).operations.values())
        m.add_spring("coil", "ground", "link1", (0, 0, 1), (0.1, 0.2, 0.3), stiffness=3.0, damping=1.0, length=0.1)
        m.add_force("push", push, body="link1")
        added.append(sum(ct.forward_dynamics(m).operations.values()) - before)
    assert added[0] == added[1]


def test_a_spring_between_welded_bodies_does_nothing() -> None:
    m = one_joint()
    m.add("hat", ct.point_mass(0.1), ct.Fixed(), parent="arm", at=(0, 0, 1))
    plain = ct.forward_dynamics(m)
    m.add_spring("coil", "arm", "hat", stiffness=8.0)
    assert ct.forward_dynamics(m).graph.nodes == plain.graph.nodes
    assert ct.energy(m)([0.3], [0.1])[1] - 4.0 == pytest.approx(9.81 * (-np.sin(0.3) + 0.1 * np.cos(0.3)))


def test_functions_get_arrays_of_their_own() -> None:
    m = one_joint()

    def greedy(t: Any, q: Any, v: Any) -> Any:
        q[0] = 5.0
        v[:] = 0.0
        return v

    expected = ct.forward_dynamics(m)([0.2], [0.3], [0.1])
    m.add_force("greedy", greedy)
    kernel = ct.forward_dynamics(m)
    assert kernel([0.2], [0.3], [0.1]) == expected
    assert kernel.function is not None
    q = np.array([0.2])
    kernel.function(q, np.array([0.3]), np.array([0.1]))
    assert q[0] == 0.2


# --- limits of joints


@pytest.mark.parametrize("kind", [kind for kind in mechanisms.JOINTS if kind not in ("spherical", "free")])
def test_limits_act_on_each_coordinate(kind: str) -> None:
    plain = mechanisms.JOINTS[kind](np.random.default_rng(0))
    for c in range(plain.nv):
        pairs: list[Any] = [None] * plain.nv
        pairs[c] = (-0.2, 0.3)
        joint = mechanisms.JOINTS[kind](np.random.default_rng(0), limits=pairs, stop_stiffness=10.0, stop_damping=0.0)
        m = ct.Model("one")
        m.add("body", mechanisms.body(np.random.default_rng(1)), joint)
        q = np.full(m.nq, 0.5)
        expected = np.zeros(m.nv)
        expected[c] = -2.0
        assert np.asarray(passive_force(m.tree(), q, np.ones(m.nv)), dtype=float) == pytest.approx(expected)
        assert replace(joint) == joint
        if not isinstance(joint, ct.Custom):
            assert eval(repr(joint), vars(ct)) == joint


def test_random_positions_are_within_limits() -> None:
    m = ct.Model("limits")
    m.add("both", ct.rod(1.0, mass=1.0), ct.Revolute("y", limits=(10.0, 10.5)))
    m.add("lower", ct.rod(1.0, mass=1.0), ct.Revolute("y", limits=(-0.5, None)))
    m.add("far", ct.rod(1.0, mass=1.0), ct.Revolute("y", limits=(100.0, math.inf)))
    m.add("upper", ct.rod(1.0, mass=1.0), ct.Prismatic("y", limits=(None, -7.0)))
    m.add("plane", ct.rod(1.0, mass=1.0), ct.Planar("y", limits=[None, (0.1, 0.2), (None, 0.0)]))
    q = m.random(0, size=500)
    lower = [10.0, -0.5, 100.0, -9.0, -1.0, 0.1, -np.pi]
    upper = [10.5, np.pi, 104.0, -7.0, 1.0, 0.2, 0.0]
    assert ((q >= lower) & (q <= upper)).all()
    assert (np.ptp(q, axis=0) > 0.09).all()


def test_no_limits_are_no_limits() -> None:
    for limits in (None, (None, None), (-math.inf, math.inf), [(None, None)], [None]):
        assert ct.Revolute("y", limits=limits) == ct.Revolute("y")
    assert ct.Cylindrical(limits=(None, None)) == ct.Cylindrical()
    assert ct.Revolute(limits=[(0, 1)]) == ct.Revolute(limits=(0, 1))
    m = one_joint(ct.Revolute("y", stop_stiffness=5.0))
    assert ct.forward_dynamics(m).operations == ct.forward_dynamics(one_joint()).operations


WRONG_LIMITS: dict[str, tuple[Callable[[], Any], str]] = {
    "upside down": (lambda: ct.Revolute(limits=(1, -1)), r"revolute limits \(1, -1\): lower 1 is not below upper -1.*smaller number first"),
    "empty": (lambda: ct.Revolute(limits=(1, 1)), "lower 1 is not below upper 1"),
    "one number": (lambda: ct.Revolute(limits=1.0), r"limits 1\.0 are not pairs; give \(lower, upper\)"),
    "three numbers": (lambda: ct.Revolute(limits=(1, 2, 3)), "are not pairs"),
    "a pair for two": (lambda: ct.Cylindrical(limits=(-1, 1)), "are not pairs; give 2 pairs"),
    "too many pairs": (lambda: ct.Cylindrical(limits=[None, None, None]), "do not fit the 2 coordinates; give 2 pairs"),
    "a triple": (lambda: ct.Cylindrical(limits=[None, (1, 2, 3)]), "do not fit the 2 coordinates"),
    "not a number": (lambda: ct.Revolute(limits=(0, math.nan)), "revolute limits nan is not finite"),
    "inf below": (lambda: ct.Revolute(limits=(math.inf, None)), "revolute limits inf is not finite"),
    "text": (lambda: ct.Revolute(limits=("a", "b")), "not made of real numbers"),
    "ball": (lambda: ct.Spherical(limits=[(0, 1)] * 3), "spherical limits .* quaternion.*leave the option out"),
    "free": (lambda: ct.Free(limits=[None] * 6), "free limits .* quaternion.*leave the option out"),
    "weld": (lambda: ct.Fixed(limits=(0, 1)), "fixed limits .* does not move"),
    "weld's stop": (lambda: ct.Fixed(stop_stiffness=3.0), "fixed stop_stiffness 3.0: the joint does not move"),
    "soft stop": (lambda: ct.Revolute(limits=(0, 1), stop_stiffness=0.0), r"revolute stop_stiffness \(0.0,\) stops nothing.*above 0"),
    "negative damping": (lambda: ct.Revolute(limits=(0, 1), stop_damping=-1.0), "revolute stop_damping -1 is below 0"),
}


@pytest.mark.parametrize("case", WRONG_LIMITS)
def test_wrong_limits_are_refused(case: str) -> None:
    make, message = WRONG_LIMITS[case]
    with pytest.raises(ModelError, match=message):
        make()


# --- checks at the door


def spring(**changes: Any) -> Callable[[ct.Model], None]:
    arguments: dict[str, Any] = {"name": "coil", "a": "ground", "b": "arm", "stiffness": 1.0, **changes}
    return lambda m: m.add_spring(**arguments)


def force(function: Any, **more: Any) -> Callable[[ct.Model], None]:
    return lambda m: m.add_force(**{"name": "gust", "function": function, **more})


def zero(t: Any, q: Any, v: Any) -> Any:
    return 0.0 * v


WRONG: dict[str, tuple[Callable[[ct.Model], None], str]] = {
    "no name": (spring(name=""), "spring name '' is not a name"),
    "name of a spring": (spring(name="there"), "spring 'there': a spring has this name already.*own name"),
    "name of a force": (spring(name="pull"), "spring 'pull': a force has this name already"),
    "force by the name of a spring": (force(zero, name="there"), "force 'there': a spring has this name already"),
    "force by the name of a force": (force(zero, name="pull"), "force 'pull': a force has this name already"),
    "unknown body": (spring(a="leg"), "spring 'coil' names body 'leg', which is not in model.*choose from 'ground', 'arm'"),
    "one body": (spring(a="arm"), "spring 'coil': both ends are on 'arm'.*give two bodies"),
    "two numbers": (spring(at_a=(1, 2)), r"spring 'coil': at_a \(1, 2\) has shape \(2,\); give 3"),
    "infinite point": (spring(at_b=(1, 2, math.inf)), "spring 'coil': at_b .* is not finite"),
    "negative stiffness": (spring(stiffness=-1), "spring 'coil': stiffness -1 is below 0"),
    "negative damping": (spring(damping=-1), "spring 'coil': damping -1 is below 0"),
    "negative length": (spring(length=-1), "spring 'coil': length -1 is below 0"),
    "stiffness not finite": (spring(stiffness=math.nan), "spring 'coil': stiffness nan is not finite"),
    "nothing": (spring(stiffness=0.0), "spring 'coil': stiffness and damping are 0"),
    "no function": (force(3.0), "force 'gust': 3.0 is not a function"),
    "force on an unknown body": (force(zero, body="leg"), "force 'gust' names body 'leg', which is not in model"),
    "force on the ground": (force(zero, body="ground"), "force 'gust' acts on the ground, which does not move"),
    "point without a body": (force(zero, point=(1, 0, 0)), r"force 'gust': point \(1.0, 0.0, 0.0\) has no body"),
    "bad point": (force(zero, body="arm", point="x"), "force 'gust': point 'x' is not made of real numbers"),
    "number": (force(lambda t, q, v: 1.0), "force 'gust' returned 1.0; return 2 joint forces"),
    "nothing returned": (force(lambda t, q, v: None), "force 'gust' returned None; return 2 joint forces"),
    "too many": (force(lambda t, q, v: [1, 2, 3]), r"force 'gust' returned an array of shape \(3,\); return 2 joint forces"),
    "ragged": (force(lambda t, q, v: [1, [2, 3]]), r"force 'gust' returned \[1, \[2, 3\]\]"),
    "text": (force(lambda t, q, v: "north"), "force 'gust' returned 'north'"),
    "objects": (force(lambda t, q, v: [None, None]), "force 'gust' returned None among its entries; return 2 joint forces"),
    "joint forces on a body": (force(zero, body="arm"), r"force 'gust' returned .*shape \(2,\); return a force \(3 entries\) or"),
    "wrong arguments": (force(lambda q, v: v), r"force 'gust' takes \(q, v\), but is called with \(t, q, v\); write lambda t, q, v"),
    "own error": (force(lambda t, q, v: {}["x"]), "force 'gust' raised KeyError: 'x'"),
    "python: own error": (force(ct.python(lambda t, q, v: {}["x"])), "force 'gust' raised KeyError: 'x'"),
    "python: shape": (force(ct.python(lambda t, q, v: 1.0)), "force 'gust' returned 1.0"),
    "python: no function": (lambda m: force(ct.python(3))(m), "ct.python: 3 is not a function"),  # type: ignore[arg-type]
}

UNTRACED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "if": lambda t, q, v: v if q[0] > 0.0 else 2.0 * v,
    "and": lambda t, q, v: [np.where(t > 0.0 and t < 1.0, 1.0, 0.0), 0.0],
    "float": lambda t, q, v: [float(q[0]), 0.0],
    "math": lambda t, q, v: [math.sin(q[0]), 0.0],
    "round": lambda t, q, v: [round(t), 0.0],
    "float array": lambda t, q, v: np.asarray(v, dtype=float),
}


def model() -> ct.Model:
    m = one_joint()
    m.add("cart", ct.point_mass(1.0), ct.Prismatic("x", limits=(0, 1)), parent="arm")
    m.add_spring("there", "ground", "arm", at_b=(1, 0, 0), stiffness=1.0)
    m.add_force("pull", zero)
    return m


def assert_untouched(m: ct.Model, tree: Any) -> None:
    assert ([s.name for s in m.springs], [f.name for f in m.forces]) == (["there"], ["pull"])
    assert m.tree() is tree


@pytest.mark.parametrize("case", WRONG)
def test_wrong_springs_and_forces_are_refused_and_change_nothing(case: str) -> None:
    m = model()
    tree = m.tree()
    add, message = WRONG[case]
    with pytest.raises(ModelError, match=message):
        add(m)
    assert_untouched(m, tree)


@pytest.mark.parametrize("case", UNTRACED)
def test_functions_that_cannot_be_traced_say_why_and_what_to_do(case: str) -> None:
    m = model()
    tree = m.tree()
    says = r"force 'gust' cannot be traced: .*; (write|leave) .*, or mark the function ct\.python\(function\)\n"
    with pytest.raises(TraceError, match=says):
        m.add_force("gust", UNTRACED[case])
    assert_untouched(m, tree)
    m.add_force("gust", ct.python(UNTRACED[case]))
    assert m.tree() is not tree
    assert [f.name for f in m.python_forces] == ["gust"]
    assert [f.name for f in m.forces] == ["pull", "gust"]


def test_choices_can_be_traced() -> None:
    m = one_joint()
    m.add_force("switch", lambda t, q, v: [ct.where(t > 1.0, ct.maximum(v[0], 0.0), 3.0)])
    assert ct.inverse_dynamics(m)([0.0, 2.0, 2.0], [0.0], [[1.0], [1.0], [-1.0]], [0.0])[:, 0] == pytest.approx([-12.81, -10.81, -9.81])


def test_a_function_may_be_singular_at_the_neutral_position() -> None:
    m = one_joint()
    m.add_force("decay", lambda t, q, v: [1.0 / t + q[0] / np.sqrt(q @ q)])
    assert ct.inverse_dynamics(m)(2.0, [1e-9], [0.0], [0.0]) == pytest.approx([-9.81 - 1.5])


def test_marked_forces_are_refused_in_the_kernels_that_they_enter() -> None:
    m = one_joint()
    m.add_force("gust", ct.python(lambda t, q, v: [1.0 if t > 1.0 else 0.0]))
    for door in (ct.forward_dynamics, ct.inverse_dynamics, ct.bias_force):
        with pytest.raises(ModelError, match=f"{door.__name__}: force 'gust' is marked ct.python.*ct.simulate"):
            door(m)
    assert not m.time_dependent
    assert ct.mass_matrix(m)([0.0]).shape == (1, 1)
    assert ct.energy(m)([0.0], [0.0]) == pytest.approx((0.0, 0.0), abs=1e-12)
    assert "python(" in repr(m.forces[0].function)
    assert m.forces[0].value(1, 2.0, np.zeros(1), np.zeros(1)) == [1.0]


def test_bodies_added_after_a_force_are_noticed() -> None:
    m = one_joint()
    m.add_force("motor", lambda t, q, v: [-v[0]])
    m.add_force("wind", lambda t, q, v: [1.0, 0.0, 0.0], body="arm")
    ct.forward_dynamics(m)
    m.add("cart", ct.point_mass(1.0), ct.Prismatic("x"), parent="arm")
    with pytest.raises(ModelError, match=r"force 'motor' returned .*shape \(1,\); return 2 joint forces.*add all bodies before the force"):
        ct.forward_dynamics(m)


def test_dependence_on_time_may_come_with_a_body() -> None:
    m = one_joint()
    m.add_force("shake", lambda t, q, v: [np.sin(t) * np.sum(q[1:]), 0.0, 0.0], body="arm")
    assert not m.time_dependent
    m.add("cart", ct.point_mass(1.0), ct.Prismatic("x"), parent="arm")
    assert m.time_dependent
    assert ct.forward_dynamics(m).signature.startswith("(t: scalar)")


def test_records_do_not_change() -> None:
    m = model()
    for record in (m.springs[0], m.forces[0]):
        with pytest.raises(FrozenInstanceError):
            record.name = "other"  # type: ignore[misc]
    assert m.springs[0].at_b == (1.0, 0.0, 0.0)
    assert (m.forces[0].body, m.forces[0].point) == (None, (0.0, 0.0, 0.0))


def test_a_model_with_a_force_cannot_be_saved(tmp_path: Any) -> None:
    with pytest.raises(ModelFileError, match="force 'pull' is made of Python code, which a file cannot hold"):
        model().save(tmp_path / "model.toml")
    assert not (tmp_path / "model.toml").exists()
