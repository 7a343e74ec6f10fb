"""Laws of every joint: what its coordinates mean, S and bias as derivatives of the pose, moving on its manifold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests import mechanisms
from tests.referee import derivative, joint_bias, joint_matrix, joint_pose, planar_axes, quaternion_matrix, relative, turn

import catena as ct
from catena.formulations.frames import poses
from catena.model import Joint
from catena.model.joints import JOINTS

pytestmark = [pytest.mark.evaluated, pytest.mark.quick]

#: Joints of every kind: general axes, and the axes that users write most.
CASES: dict[str, Joint] = {kind: make(np.random.default_rng(7)) for kind, make in mechanisms.JOINTS.items()}
CASES |= {f"revolute {axis}": ct.Revolute(axis) for axis in ("x", "y", "z", "-x", "-y", "-z")}
CASES |= {f"prismatic {axis}": ct.Prismatic(axis) for axis in ("x", "-y", "z")}
CASES |= {f"planar {axis}": ct.Planar(axis) for axis in ("x", "y", "z", "-z")}
CASES |= {"universal xy": ct.Universal("x", "y"), "universal zx": ct.Universal("z", "x"), "universal -yz": ct.Universal("-y", "z")}
CASES |= {"universal tilted": ct.Universal((1, 0, 0), (1, 1e-3, 0)), "universal obtuse": ct.Universal((0, 0, 1), (0, 1, -2))}
CASES |= {"helical z": ct.Helical("z", pitch=0.01), "helical of pitch 0": ct.Helical("y"), "cylindrical x": ct.Cylindrical("x")}

every_joint = pytest.mark.parametrize("name", CASES)
few = settings(max_examples=6)  # states for each of the many cases


def alone(joint: Joint, at: Any = (0.0, 0.0, 0.0)) -> ct.Model:
    """A model with this joint only."""
    m = ct.Model("alone")
    m.add("body", mechanisms.body(np.random.default_rng(3)), joint, at=at)
    return m


def pose(m: ct.Model, q: Any) -> np.ndarray:
    """The user's pose of the only body."""
    return np.asarray(poses(m.tree(), np.asarray(q, dtype=float), m.body_names), dtype=float)[0]


def user_matrix(m: ct.Model, q: Any) -> np.ndarray:
    """S of the only joint at the user's frame, from the tree's canonical one."""
    _, offset = m.tree().frames["body"]
    S = np.asarray(m.tree().joint_matrix(0, q), dtype=float)
    return np.stack([offset.motion(column) for column in S.T], axis=1).astype(float)


def twist(T: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """The body twist of a pose with a given rate."""
    turning, moving = T[:3, :3].T @ rate[:3, :3], T[:3, :3].T @ rate[:3, 3]
    assert np.abs(turning + turning.T).max() < 1e-9 * max(1.0, np.abs(turning).max())
    return np.array([turning[2, 1], turning[0, 2], turning[1, 0], *moving])


def test_every_kind_of_joint_is_in_the_cases() -> None:
    assert {type(joint) for joint in CASES.values()} == set(JOINTS.values()) - {ct.Fixed}


@every_joint
def test_pose_equals_what_the_coordinates_mean(name: str) -> None:
    joint, at = CASES[name], ct.Pose((0.3, -0.2, 0.5), rpy=(0.4, 0.5, 0.6))
    m = alone(joint, at)
    for seed in range(3):
        q = m.random(seed)
        R, p = joint_pose(joint, q)
        expected = at.matrix() @ np.block([[R, p[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]])
        assert relative(pose(m, q), expected) < 1e-14


@every_joint
def test_neutral_pose_is_the_joint_frame(name: str) -> None:
    at = ct.Pose((0.3, -0.2, 0.5), rpy=(0.4, 0.5, 0.6))
    m = alone(CASES[name], at)
    assert relative(pose(m, m.neutral()), at.matrix()) < 1e-15
    assert np.array_equal(CASES[name].neutral(), m.neutral())


@every_joint
@few
@given(seed=mechanisms.seeds)
def test_rotation_is_orthonormal(name: str, seed: int) -> None:
    m = alone(CASES[name])
    R = pose(m, m.random(seed))[:3, :3]
    assert relative(R @ R.T, np.eye(3)) < 1e-14
    assert np.linalg.det(R) > 0.0


@every_joint
@few
@given(seed=mechanisms.seeds)
def test_joint_matrix_equals_the_derivative_of_the_pose_along_integrate(name: str, seed: int) -> None:
    m = alone(CASES[name])
    q, v, _ = mechanisms.state(m, seed)
    rate = derivative(lambda t: pose(m, m.integrate(q, t * v)))
    assert relative(user_matrix(m, q) @ v, twist(pose(m, q), rate), scale=1.0) < 1e-11
    assert relative(user_matrix(m, q), joint_matrix(CASES[name], q)) < 1e-13


@every_joint
@few
@given(seed=mechanisms.seeds)
def test_bias_equals_the_derivative_of_the_joint_velocity(name: str, seed: int) -> None:
    m = alone(CASES[name])
    q, v, _ = mechanisms.state(m, seed)
    tree = m.tree()
    bias = np.asarray(tree.joint_bias(0, q, v), dtype=float)
    by_differences = derivative(lambda t: np.asarray(tree.joint_matrix(0, m.integrate(q, t * v)) @ v, dtype=float))
    scale = max(1.0, v @ v)
    assert relative(bias, by_differences, scale) < 1e-11
    assert relative(tree.frames["body"][1].motion(bias), joint_bias(CASES[name], q, v), scale) < 1e-11


@every_joint
@few
@given(seed=mechanisms.seeds)
def test_difference_undoes_integrate_and_integrate_undoes_difference(name: str, seed: int) -> None:
    m = alone(CASES[name])
    q, v, _ = mechanisms.state(m, seed)
    if isinstance(CASES[name], (ct.Spherical, ct.Free)):
        v[:3] *= min(1.0, 3.0 / np.linalg.norm(v[:3]))  # beyond half a turn another rotation is shorter
    assert relative(m.difference(q, m.integrate(q, v)), v) < 1e-13
    other = m.random(seed + 1)
    reached = m.integrate(q, m.difference(q, other))
    assert relative(pose(m, reached), pose(m, other)) < 1e-13
    assert np.abs(m.difference(q, q)).max() < 1e-15
    assert relative(m.integrate(q, np.zeros(m.nv)), q) < 1e-15


@pytest.mark.parametrize("name", ["spherical", "free"])
@pytest.mark.parametrize("size", [1e-200, 1e-16, 1e-9, 1e-6, 1e-3, 3.1415, np.pi - 1e-9])
@few
@given(seed=mechanisms.seeds)
def test_difference_undoes_integrate_for_tiny_and_half_turns(name: str, size: float, seed: int) -> None:
    m = alone(CASES[name])
    q, v, _ = mechanisms.state(m, seed)
    v[:3] *= size / np.linalg.norm(v[:3])
    back = m.difference(q, m.integrate(q, v))
    assert np.abs(back[:3] - v[:3]).max() < 1e-15 + 1e-14 * size  # rounding of the quaternion itself: 1e-16 of a turn
    assert relative(back[3:], v[3:]) < 1e-13


@every_joint
@few
@given(seed=mechanisms.seeds)
def test_steps_along_one_direction_add_up(name: str, seed: int) -> None:
    """Constant rates run through a one-parameter group: two steps of 0.3 and 0.7 are one step of 1."""
    m = alone(CASES[name])
    q, v, _ = mechanisms.state(m, seed)
    assert relative(pose(m, m.integrate(m.integrate(q, 0.3 * v), 0.7 * v)), pose(m, m.integrate(q, v))) < 1e-14


@every_joint
def test_batches_equal_one_by_one(name: str) -> None:
    m = alone(CASES[name])
    q, v, _ = mechanisms.state(m, 5, batch=(2, 3))
    moved, rates = m.integrate(q, v), m.difference(q[:, :1], q)
    assert moved.shape == (2, 3, m.nq)
    assert rates.shape == (2, 3, m.nv)
    for i in np.ndindex(2, 3):
        assert relative(moved[i], m.integrate(q[i], v[i])) < 1e-15
        assert relative(rates[i], m.difference(q[i[0], 0], q[i])) < 1e-15


@pytest.mark.parametrize("joint", [ct.Spherical(), ct.Free()], ids=["spherical", "free"])
@pytest.mark.parametrize("size", [1e-4, 0.02, 1.0])
def test_quaternions_stay_unit_over_many_steps(joint: Joint, size: float) -> None:
    rng = np.random.default_rng(0)
    q = np.array([joint.random(rng) for _ in range(50)])
    v = size * rng.normal(size=(50, joint.nv))
    for _ in range(2_000):
        q = joint.integrate(q, v)
    assert np.abs(np.linalg.norm(q[:, -4:], axis=1) - 1.0).max() < 1e-15


# what the coordinates mean, one by one (DESIGN §3)


def test_revolute_turns_by_the_right_hand_rule() -> None:
    T = pose(alone(ct.Revolute("z")), [np.pi / 2])
    assert relative(T[:3, :3] @ [1, 0, 0], np.array([0.0, 1.0, 0.0])) < 1e-15
    assert relative(pose(alone(ct.Revolute("-z")), [0.3]), pose(alone(ct.Revolute("z")), [-0.3])) < 1e-15
    assert relative(pose(alone(ct.Revolute((0, 0, 1e-200))), [0.3]), pose(alone(ct.Revolute("z")), [0.3])) < 1e-15


def test_helical_advances_by_its_pitch_per_radian() -> None:
    T = pose(alone(ct.Helical("x", pitch=0.25)), [2.0])
    assert relative(T, np.block([[turn((1, 0, 0), 2.0), np.array([[0.5], [0], [0]])], [np.array([[0, 0, 0, 1.0]])]])) < 1e-15


def test_cylindrical_is_angle_then_displacement() -> None:
    T = pose(alone(ct.Cylindrical("y")), [0.7, 0.4])
    assert relative(T[:3, :3], turn((0, 1, 0), 0.7)) < 1e-15
    assert relative(T[:3, 3], np.array([0, 0.4, 0])) < 1e-15


def test_universal_turns_about_its_first_axis_in_the_parent_and_its_second_in_the_child() -> None:
    T = pose(alone(ct.Universal("x", "y")), [np.pi / 2, np.pi / 2])
    assert relative(T[:3, :3], turn((1, 0, 0), np.pi / 2) @ turn((0, 1, 0), np.pi / 2)) < 1e-15
    assert relative(T[:3, :3] @ [0, 1, 0], np.array([0, 0, 1.0])) < 1e-15  # the second axis, carried by the first


@pytest.mark.parametrize(("axis", "x", "y"), [("z", "x", "y"), ("x", "y", "z"), ("y", "z", "x")])
def test_planar_slides_in_the_parents_axes_before_it_turns(axis: str, x: str, y: str) -> None:
    units = dict(zip("xyz", np.eye(3), strict=True))
    T = pose(alone(ct.Planar(axis)), [0.3, 0.5, 1.2])
    assert relative(T[:3, 3], 0.3 * units[x] + 0.5 * units[y]) < 1e-15
    assert relative(T[:3, :3], turn(units[axis], 1.2)) < 1e-15


@given(seed=mechanisms.seeds)
def test_planar_axes_are_perpendicular_to_its_normal_and_right_handed(seed: int) -> None:
    normal = mechanisms.unit(np.random.default_rng(seed))
    m = alone(ct.Planar(normal))
    x, y = (pose(m, unit)[:3, 3] for unit in ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]))
    assert relative(np.cross(x, y), normal) < 1e-14
    assert abs(np.linalg.norm(x) - 1.0) + abs(x @ normal) < 1e-14
    assert relative(np.stack(planar_axes(normal)), np.stack([x, y])) < 1e-14


def test_spherical_quaternion_takes_the_child_to_the_parent_and_its_rate_is_in_the_childs_axes() -> None:
    m = alone(ct.Spherical())
    q = m.random(1)
    assert relative(pose(m, q)[:3, :3], quaternion_matrix(q)) < 1e-15
    after = pose(m, m.integrate(q, [0.0, 0.2, 0.0]))[:3, :3]
    assert relative(after, quaternion_matrix(q) @ turn((0, 1, 0), 0.2)) < 1e-15
    assert relative(pose(m, -q), pose(m, q)) < 1e-15


def test_free_twist_is_in_the_childs_axes() -> None:
    m = alone(ct.Free())
    q = m.random(1)
    T = pose(m, q)
    assert relative(T[:3, 3], q[:3]) < 1e-15
    assert relative(T[:3, :3], quaternion_matrix(q[3:])) < 1e-15
    moved = pose(m, m.integrate(q, [0, 0, 0, 0.1, 0.2, 0.3]))
    assert relative(moved[:3, 3], q[:3] + T[:3, :3] @ [0.1, 0.2, 0.3]) < 1e-15
    half = m.integrate(m.neutral(), [0, 0, np.pi, 1.0, 0, 0])  # a half circle of radius 1 / pi
    assert relative(pose(m, half)[:3, 3], np.array([0, 2.0 / np.pi, 0])) < 1e-15


@pytest.mark.parametrize("name", [n for n, j in CASES.items() if isinstance(j, ct.Custom)])
def test_custom_pose_equals_the_users_function(name: str) -> None:
    joint = CASES[name]
    m = alone(joint)
    q = m.random(2)
    R, p = joint_pose(joint, q)
    assert relative(pose(m, q)[:3], np.column_stack([R, p])) < 1e-15


def test_custom_helicoid_equals_the_helical_joint() -> None:
    ours, custom = alone(ct.Helical("x", pitch=0.2)), alone(ct.Custom(mechanisms.helicoid))
    for seed in range(5):
        q, v, _ = mechanisms.state(ours, seed)
        assert relative(pose(custom, q), pose(ours, q)) < 1e-15
        assert relative(user_matrix(custom, q), user_matrix(ours, q)) < 1e-15
        assert np.abs(np.asarray(custom.tree().joint_bias(0, q, v), dtype=float)).max() < 1e-15


NAMES = {
    "revolute": (("b",), ("b",)),
    "prismatic": (("b",), ("b",)),
    "helical": (("b",), ("b",)),
    "cylindrical": (("b.angle", "b.shift"), None),
    "universal": (("b.angle1", "b.angle2"), None),
    "planar": (("b.x", "b.y", "b.angle"), None),
    "spherical": (("b.qw", "b.qx", "b.qy", "b.qz"), ("b.wx", "b.wy", "b.wz")),
    "free": (("b.x", "b.y", "b.z", "b.qw", "b.qx", "b.qy", "b.qz"), ("b.wx", "b.wy", "b.wz", "b.vx", "b.vy", "b.vz")),
    "cam": (("b",), ("b",)),
    "helicoid": (("b",), ("b",)),
    "plate": (("b.turn", "b.tilt"), None),
}


@pytest.mark.parametrize("kind", mechanisms.JOINTS)
def test_names_follow_the_coordinates(kind: str) -> None:
    m, joint = ct.Model(), CASES[kind]
    m.add("base", ct.point_mass(1.0), ct.Fixed())
    m.add("b", ct.point_mass(1.0), joint, parent="base")
    q_names, v_names = NAMES[kind]
    assert (m.q_names, m.v_names) == (q_names, v_names or q_names)
    assert (m.nq, m.nv) == (joint.nq, joint.nv) == (len(m.q_names), len(m.v_names))
    assert len(joint.q_units) == joint.nq


def test_custom_coordinates_without_names_are_counted() -> None:
    m = ct.Model()
    m.add("b", ct.point_mass(1.0), ct.Custom(mechanisms.rolling_plate, 2))
    assert m.q_names == m.v_names == ("b.q0", "b.q1")


@every_joint
def test_random_coordinates_are_within_a_turn_and_a_metre(name: str) -> None:
    joint, rng = CASES[name], np.random.default_rng(0)
    q = np.array([joint.random(rng) for _ in range(200)])
    for column, unit in zip(q.T, joint.q_units, strict=True):
        limit = np.pi if unit == "rad" else 1.0
        assert 0.5 * limit < np.abs(column).max() <= limit
    if isinstance(joint, (ct.Spherical, ct.Free)):
        assert np.abs(np.linalg.norm(q[:, -4:], axis=1) - 1.0).max() < 1e-15


@pytest.mark.parametrize("kind", mechanisms.JOINTS)
def test_repr_shows_what_was_given(kind: str) -> None:
    rng = np.random.default_rng(0)
    joint = mechanisms.JOINTS[kind](rng, damping=0.25)
    assert repr(joint).startswith(type(joint).__name__ + "(")
    assert "damping=0.25" in repr(joint)
    assert "stiffness" not in repr(joint)
    if kind not in ("cam", "helicoid", "plate"):
        assert eval(repr(joint), vars(ct)) == joint


def test_a_weld_takes_no_options():
    with pytest.raises(ct.ModelError, match=r"fixed damping 1\.0: the joint does not move"):
        ct.Fixed(damping=1.0)
    assert repr(ct.Fixed()) == "Fixed()"


def test_random_positions_come_in_any_number():
    m = ct.Model()
    m.add("ball", ct.sphere(0.1, mass=1.0), ct.Spherical())
    q = m.random(0, size=5)
    assert q.shape == (5, 4)
    assert np.abs(np.linalg.norm(q, axis=1) - 1.0).max() < 1e-15
    assert np.array_equal(q[0], m.random(0))


def balls_and_a_free_body(stiffness: float = 3.0) -> ct.Model:
    """A free body on springs that carries two balls, one of them on a spring."""
    rng = np.random.default_rng(5)
    m = ct.Model("balls")
    m.add("base", mechanisms.body(rng), ct.Free(stiffness=stiffness))
    m.add("first", mechanisms.body(rng), ct.Spherical(stiffness=stiffness, damping=0.1), parent="base", at=(0.3, 0.1, 0.0))
    m.add("second", mechanisms.body(rng), ct.Spherical(), parent="base", at=(-0.3, 0.1, 0.2))
    return m


#: The kernels that users make, and what they take besides q.
KERNELS: dict[str, tuple[str, ...]] = {
    "forward_dynamics": ("v", "v"), "inverse_dynamics": ("v", "v"), "mass_matrix": (), "bias_force": ("v",), "momenta": ("v",),
    "gravity_force": (), "coriolis_force": ("v",), "passive_force": ("v",), "coriolis_matrix": ("v",),
    "energy": ("v",), "poses": (), "velocities": ("v",), "hamiltonian_dynamics": ("v", "v"), "joint_wrenches": ("v", "v"),
}  # fmt: skip


@pytest.mark.parametrize("closed", [False, True], ids=["tree", "loop"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_quaternion_of_any_length_is_the_rotation_of_its_direction(kernel: str, closed: bool) -> None:
    """Kernels of a state equal those of the same state with longer or shorter quaternions; one of length 0 stays alone with its NaN."""
    m = balls_and_a_free_body()
    if closed:
        m.close("rod", ct.Distance(0.7), "first", "second", at_a=(0.1, 0.3, 0.2), at_b=(0.2, -0.1, 0.1))
    rng = np.random.default_rng(2)
    q = m.assemble(m.random(rng))
    given = [m.project_velocity(q, rng.normal(size=m.nv)) if name == "v" else rng.normal(size=m.nv) for name in KERNELS[kernel]]
    if closed and kernel == "inverse_dynamics":
        given[1] = ct.forward_dynamics(m)(q, given[0], rng.normal(size=m.nv))
    scaled = np.array([q] * 3)
    for length, own in zip((1.0, 0.5, 3.0), scaled, strict=True):
        for _, at, _ in m.slices():
            own[at][-4:] *= length
    function = getattr(ct, kernel)(m)
    found = function(scaled, *given)
    for part in found if isinstance(found, tuple) else (found,):
        assert relative(part[1:], np.broadcast_to(part[0], part[1:].shape)) < 1e-12
    if closed:
        return
    scaled[1, -4:] = 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        broken = function(scaled, *given)
    for part, whole in zip(*(x if isinstance(x, tuple) else (x,) for x in (broken, found)), strict=True):
        assert np.array_equal(part[[0, 2]], whole[[0, 2]])


@pytest.mark.parametrize("length", [0.5, 3.0])
def test_moving_from_a_quaternion_of_any_length_equals_moving_from_one_of_length_1(length: float) -> None:
    m = balls_and_a_free_body()
    rng = np.random.default_rng(3)
    q, other, v = m.random(rng), m.random(rng), rng.normal(size=m.nv)
    longer = q.copy()
    for _, at, _ in m.slices():
        longer[at][-4:] *= length
    for move in (m.integrate, m.chart, m.cayley):
        assert relative(move(longer, v), move(q, v)) < 1e-14
    assert relative(m.difference(longer, other), m.difference(q, other)) < 1e-13
    for change in (m.chart_rate, m.cayley_velocity, m.cayley_momentum):
        assert relative(change(longer, 0.3 * v, v), change(q, 0.3 * v, v)) < 1e-14
    for see in (m.momentum_in_parent_axes, m.momentum_in_child_axes):
        assert relative(see(longer, v), see(q, v)) < 1e-14
    step = 1e-6  # along the rate the position moves as along the velocity
    for at in (q, longer):
        assert np.abs(m.difference(at + step * m.rate(at, v), at - step * m.rate(at, v)) / (-2.0 * step) - v).max() < 1e-8
