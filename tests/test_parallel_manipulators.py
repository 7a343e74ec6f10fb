"""Platforms on legs: kinematics, dynamics and complements against reduced coordinates, assemblies and postures, singular configurations."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from tests.referee import relative
from tests.test_parallel_robots import random_states

import catena as ct
from catena.examples import ACTUATED, EXAMPLES
from catena.formulations.linear import denoc
from catena.formulations.linear.platform_kinematics import Platform
from catena.graph import Trace
from catena.loops.platform_plans import platform_plan

pytestmark = pytest.mark.evaluated

ROBOTS = [name for name in ACTUATED if name != "delta"]
TOOLS = {"five-bar-robot": (1.1, 0.0, 0.0), "planar-3rrr": (0.0, -0.1, 0.0), "stewart-ups": (0.0, 0.0, 0.1)}


@cache
def robot(name: str) -> ct.ParallelManipulator:
    return ct.ParallelManipulator(EXAMPLES[name](), ACTUATED[name], tool=TOOLS.get(name, (0.0, 0.0, 0.0)))


@cache
def reduced(name: str) -> ct.Reduced:
    return ct.reduced(robot(name).model, ACTUATED[name])


def given(name: str) -> tuple[np.ndarray, ...]:
    """Return positions at random poses, and rates, accelerations and forces of the motors."""
    q, _, _ = random_states(name)
    return q, *np.random.default_rng(5).normal(size=(3, len(q), robot(name).freedom))


# kinematics


@pytest.mark.parametrize("name", ROBOTS)
def test_rates_and_accelerations_are_those_of_reduced_coordinates(name: str) -> None:
    q, rate, acceleration, _ = given(name)
    v = robot(name).rates(q, rate)
    assert relative(v, reduced(name).rates(q, rate)) < 1e-10
    assert relative(robot(name).accelerations(q, v, acceleration), reduced(name).accelerations(q, v, acceleration)) < 1e-10


@pytest.mark.parametrize("name", ROBOTS)
def test_the_jacobian_is_that_of_the_tool(name: str) -> None:
    q, rate, _, _ = given(name)
    found = (robot(name).jacobian(q) @ rate[..., None])[..., 0]
    v = robot(name).rates(q, rate)
    expected = ct.jacobian(robot(name).model, robot(name).platform, robot(name).tool)(q) @ v[..., None]
    assert relative(found, expected[..., 0]) < 1e-10


@pytest.mark.parametrize("name", ROBOTS)
def test_complements_map_the_rates_of_motors_to_all_twists(name: str) -> None:
    m = robot(name).model
    q, rate, _, _ = (x[0] for x in given(name))
    found = robot(name).complements(q)
    v = robot(name).rates(q, rate)
    assert len(found.names) == m.nv
    last = {found.names[n].split(".")[0]: n for n in range(m.nv)}  # of the coordinates of a joint, the last one's body is the joint's
    poses, names = ct.poses(m)(q), list(m.body_names)
    twists = (found.N @ rate).reshape(-1, 6)
    for body, n in last.items():
        omega, velocity = (ct.jacobian(m, body)(q) @ v).reshape(2, 3)
        at = poses[names.index(body), :3, 3]
        assert relative(twists[n], np.concatenate([omega, velocity - np.cross(omega, at)])) < 1e-9
    # the shapes of (16): triangular, full, and one block for each motor
    assert not (found.N_l * np.kron(np.triu(np.ones((m.nv, m.nv)), 1), np.ones((6, 6)))).any()
    blocks = found.N_d.reshape(-1, 6, robot(name).freedom)
    assert all(not np.delete(blocks[k], k, axis=1).any() and blocks[k, :, k].any() for k in range(robot(name).freedom))


# dynamics


@pytest.mark.parametrize("name", ROBOTS)
def test_dynamics_are_those_of_reduced_coordinates(name: str) -> None:
    q, rate, acceleration, tau = given(name)
    v = robot(name).rates(q, rate)
    mass, bias = reduced(name).mass_matrix(q), reduced(name).bias_force(q, v)
    assert relative(robot(name).mass_matrix(q), mass) < 1e-9
    expected = (mass @ acceleration[..., None])[..., 0] + bias
    assert relative(robot(name).inverse_dynamics(q, v, acceleration), expected) < 1e-9
    found = robot(name).forward_dynamics(q, v, tau)
    assert relative(found, np.linalg.solve(mass, (tau - bias)[..., None])[..., 0]) < 1e-9


@pytest.mark.parametrize("name", ["planar-3rrr", "stewart-ups"])
def test_motors_come_in_the_order_they_are_named(name: str) -> None:
    turned = ct.ParallelManipulator(robot(name).model, ACTUATED[name][::-1], tool=robot(name).tool)
    q, rate, acceleration, _ = given(name)
    v = turned.rates(q, rate[:, ::-1])
    assert relative(v, robot(name).rates(q, rate)) < 1e-12
    expected = robot(name).inverse_dynamics(q, v, acceleration)[:, ::-1]
    assert relative(turned.inverse_dynamics(q, v, acceleration[:, ::-1]), expected) < 1e-12
    assert relative(turned.jacobian(q), robot(name).jacobian(q)[..., ::-1]) < 1e-12
    one = turned.complements(q[0])
    assert relative(one.N, robot(name).complements(q[0]).N[:, ::-1]) < 1e-12


def test_springs_and_dampers_act_in_inverse_dynamics() -> None:
    m = EXAMPLES["planar-3rrr"]()
    m.add_spring("pull", "leg1_proximal", "platform", stiffness=40.0, damping=3.0, length=0.1)
    both = ct.ParallelManipulator(m, ACTUATED["planar-3rrr"]), ct.reduced(m, ACTUATED["planar-3rrr"])
    q, rate, acceleration, _ = given("planar-3rrr")
    v = both[0].rates(q, rate)
    expected = (both[1].mass_matrix(q) @ acceleration[..., None])[..., 0] + both[1].bias_force(q, v)
    assert relative(both[0].inverse_dynamics(q, v, acceleration), expected) < 1e-9
    assert relative(expected, robot("planar-3rrr").inverse_dynamics(q, v, acceleration)) > 1e-3


# cost


def legs(number: int, bodies: int) -> ct.Model:
    """A platform in a plane on legs of so many bars, the first of which carries it."""
    m, rng, first = ct.Model("legs"), np.random.default_rng(0), np.zeros(3)
    for i in range(number):
        foot = np.append(rng.normal(size=2), 0.0)
        pin = np.append(0.2 * rng.normal(size=2), 0.0)
        bend = np.sin(np.pi * np.arange(bodies + 1) / bodies)
        points = np.linspace(foot, pin, bodies + 1) + np.outer(bend, np.append(0.1 * rng.normal(size=2), 0.0))
        parent, before = "ground", np.zeros(3)
        for k in range(bodies):
            body = ct.sphere(0.1, mass=1.0, com=0.5 * (points[k + 1] - points[k]))
            m.add(f"leg{i}_{k}", body, ct.Revolute("z"), parent=parent, at=points[k] - before)
            parent, before = f"leg{i}_{k}", points[k]
        if i == 0:
            m.add("platform", ct.box(0.2, 0.2, 0.02, mass=1.0), ct.Revolute("z"), parent=parent, at=pin - before)
            first = pin
        else:
            m.close(f"pin{i}", ct.Revolute("z"), parent, "platform", at_a=pin - before, at_b=pin - first)
    return m


@pytest.mark.parametrize("problem", ["inverse_dynamics", "rates"])
def test_operations_grow_by_the_same_count_with_every_body_of_a_leg(problem: str) -> None:
    counts = []
    for bodies in (3, 4, 5, 6):
        m = legs(3, bodies)
        given = [m.v_names.index(f"leg{i}_{k}") for i in range(3) for k in range(bodies - 1)]
        counts.append(operations(m, given, problem))
    steps = np.diff(counts)
    assert steps[0] == steps[1] == steps[2] > 0


@pytest.mark.parametrize("problem", ["inverse_dynamics", "rates"])
def test_operations_grow_by_the_same_count_with_every_leg(problem: str) -> None:
    """A leg of three bars leaves the platform free, but for its motor; legs beyond the third have a second one, and follow."""
    counts = []
    for number in (4, 5, 6, 7):
        m = legs(number, 3)
        given = [m.v_names.index(f"leg{i}_{k}") for i in range(number) for k in range(2 if i < 3 else 1)]
        counts.append(operations(m, given, problem))
    steps = np.diff(counts)
    assert steps[0] == steps[1] == steps[2] > 0


def stewart(number: int, parts: int) -> ct.Model:
    """A platform in space on legs that slide, in so many parts, between universal joints and balls; in general geometry."""
    m, rng = ct.Model("stewart"), np.random.default_rng(0)
    m.add("platform", ct.cylinder(0.03, 0.32, mass=20.0), ct.Free(), at=(0.0, 0.0, 0.6))
    for i in range(number):
        foot = 0.5 * np.array([np.cos(i + 0.1), np.sin(i + 0.1), 0.0]) + 0.02 * rng.normal(size=3)
        end = 0.3 * np.array([np.cos(i + 0.6), np.sin(i + 0.6), 0.0]) + 0.02 * rng.normal(size=3)
        reach = end + [0.0, 0.0, 0.6] - foot
        z = reach / np.linalg.norm(reach)
        x = np.cross([0.0, 0.0, 1.0], z) / np.linalg.norm(z[:2])
        axes = np.stack([x, np.cross(z, x), z], axis=1)
        m.add(f"leg{i}_0", ct.cylinder(0.3, 0.03, mass=3.0, com=(0.0, 0.0, 0.15)), ct.Universal("x", "y"), at=ct.Pose(foot, matrix=axes))
        for k in range(parts):
            m.add(f"leg{i}_{k + 1}", ct.cylinder(0.3, 0.015, mass=1.5, com=(0.0, 0.0, 0.3)), ct.Prismatic("z"), parent=f"leg{i}_{k}")
        place = ct.Pose(end, matrix=axes)
        m.close(f"ball{i}", ct.Spherical(), f"leg{i}_{parts}", "platform", at_a=(0.0, 0.0, float(np.linalg.norm(reach))), at_b=place)
    return m


@pytest.mark.parametrize(("problem", "leg", "part"), [("rates", 495, 12), ("inverse_dynamics", 771, 70)])
def test_operations_of_a_stewart_platform_are_linear_in_legs_and_their_parts(problem: str, leg: int, part: int) -> None:
    """Legs beyond the sixth have no motor, and parts beyond the first have one each."""
    counts = []
    for number in (6, 7, 8, 9):
        m = stewart(number, 1)
        counts.append(operations(m, [m.v_names.index(f"leg{i}_1") for i in range(6)], problem))
    assert np.diff(counts).tolist() == [leg] * 3
    counts = []
    for parts in (2, 3, 4, 5):
        m = stewart(6, parts)
        counts.append(operations(m, [m.v_names.index(f"leg{i}_{k + 1}") for i in range(6) for k in range(parts)], problem))
    assert np.diff(counts).tolist() == [6 * part] * 3


def operations(m: ct.Model, given: list[int], problem: str) -> int:
    """Return the additions, multiplications and divisions of a problem with the given coordinates actuated."""
    plan, trace = platform_plan(m, m.assemble(), given), Trace(problem)
    q, v, x = (trace.input(name, (size,)) for name, size in (("q", m.nq), ("v", m.nv), ("x", len(given))))
    tree = m.tree().marked(trace.mark)
    if problem == "rates":
        found = Platform(tree, q, plan).rates(x)
    else:
        found, _ = denoc.inverse_dynamics(tree, q, v, x, np.zeros(m.nv), plan=plan)
    counts = trace.graph(found=found).operations
    return counts["add"] + counts["mul"] + counts["div"]


# positions


def test_a_five_bar_robot_has_two_assemblies_and_two_postures_a_leg() -> None:
    found = robot("five-bar-robot")
    x = np.radians([100.0, 60.0])
    tips = [place(found, q) for q in found.forward_kinematics(x, branches=True)]
    # circles of the distal bars about the elbows
    left, right = 0.6 * np.exp(1j * x[0]), 1.2 + 0.7 * np.exp(1j * x[1])
    across = right - left
    along = (1.1**2 - 0.8**2 + abs(across) ** 2) / (2.0 * abs(across))
    expected = [left + (along + side * 1j * np.sqrt(1.1**2 - along**2)) * across / abs(across) for side in (1.0, -1.0)]
    assert sorted([complex(*tip[[0, 2]]) for tip in tips], key=lambda z: z.imag) == pytest.approx(sorted(expected, key=lambda z: z.imag))
    postures = found.inverse_kinematics(tips[0], branches=True)
    assert len(postures) == 4
    assert np.array([place(found, q) for q in postures]) == pytest.approx(np.tile(tips[0], (4, 1)))
    assert min(np.abs(postures[:, [0, 2]] - x).max(axis=1)) < 1e-9


def place(found: ct.ParallelManipulator, q: np.ndarray) -> np.ndarray:
    """Return where the tool is."""
    pose = ct.poses(found.model)(q)[list(found.model.body_names).index(found.platform)]
    return pose[:3, :3] @ found.tool + pose[:3, 3]


def test_assemblies_of_a_planar_robot_are_those_of_its_closing_equation() -> None:
    """With its motors locked the platform hangs on three bars: the angles at which the third has its length, by a scan, are all."""
    found = robot("planar-3rrr")
    m, x = found.model, np.array([0.3, -0.2, 0.1])
    assemblies = found.forward_kinematics(x, branches=True)
    assert ct.loop_error(m)(assemblies).max() < 1e-12
    q = m.neutral()
    q[[m.q_names.index(name) for name in found.actuated]] = x
    poses, names = ct.poses(m)(q), list(m.body_names)
    elbows = [poses[names.index(f"leg{i}_distal"), :2, 3] for i in (1, 2, 3)]
    pins = [0.1 * np.array([np.cos(a), np.sin(a)]) for a in np.radians([90.0, 210.0, 330.0])]
    angles, roots = np.linspace(-np.pi, np.pi, 20001), 0

    def turned(angle: np.ndarray, point: np.ndarray) -> np.ndarray:
        return np.stack([np.cos(angle) * point[0] - np.sin(angle) * point[1], np.sin(angle) * point[0] + np.cos(angle) * point[1]], axis=-1)

    # for an angle of the platform, its middle is 0.2 m from two points: elbow less pin, for the first two legs
    centres = [elbow - turned(angles, pin) for elbow, pin in zip(elbows, pins, strict=True)]
    between = centres[1] - centres[0]
    apart = np.linalg.norm(between, axis=-1)
    height = np.sqrt(np.maximum(0.2**2 - 0.25 * apart**2, 0.0))
    normal = np.stack([-between[:, 1], between[:, 0]], axis=-1) / apart[:, None]
    for side in (1.0, -1.0):
        middle = 0.5 * (centres[0] + centres[1]) + side * height[:, None] * normal
        left = np.linalg.norm(middle - centres[2], axis=-1) - 0.2
        left[apart > 0.4] = np.nan
        roots += np.count_nonzero(left[1:] * left[:-1] < 0.0)
    assert len(assemblies) == roots > 1


def test_a_delta_robot_does_not_turn_in_two_of_its_assemblies() -> None:
    """Where it does not turn, the platform is where three balls about the elbows meet."""
    found = robot("delta-ruu")
    x = np.array([0.2, 0.3, 0.1])
    index = list(found.model.body_names).index("platform")
    poses = [ct.poses(found.model)(q)[index] for q in found.forward_kinematics(x, branches=True)]
    level = [pose[:3, 3] - [0.05, 0.0, 0.0] for pose in poses if np.abs(pose[:3, :3] - np.eye(3)).max() < 1e-9]
    assert len(level) == 2
    for i, angle in enumerate(x):
        outward = np.array([np.cos(np.radians(120.0 * i)), np.sin(np.radians(120.0 * i)), 0.0])
        elbow = (0.2 + 0.35 * np.cos(angle) - 0.05) * outward - [0.0, 0.0, 0.35 * np.sin(angle)]
        assert [np.linalg.norm(at - elbow) for at in level] == pytest.approx([0.8, 0.8])


def test_assemblies_of_the_other_robots_close_and_come_in_numbers_that_are_known() -> None:
    """A spherical 3-RRR robot has at most 8, a Stewart platform at most 40, and an even number."""
    for name, most in (("spherical-3rrr", 8), ("stewart-ups", 40)):
        q, _, _ = random_states(name)
        m = robot(name).model
        x = q[0][[m.q_names.index(motor) for motor in ACTUATED[name]]]
        found = robot(name).forward_kinematics(x, branches=True)
        assert 2 <= len(found) <= most
        assert len(found) % 2 == 0
        assert ct.loop_error(m)(found).max() < 1e-11
        assert np.abs(found[:, [m.q_names.index(motor) for motor in ACTUATED[name]]] - x).max() < 1e-12
        index = list(m.body_names).index("platform")
        near = np.abs(ct.poses(m)(found)[:, index] - ct.poses(m)(q[0])[index]).max(axis=(1, 2))
        assert near.min() < 1e-9


@pytest.mark.parametrize("name", ["planar-3rrr", "delta-ruu", "stewart-ups"])
def test_inverse_kinematics_leads_back(name: str) -> None:
    m, (q, _, _) = robot(name).model, random_states(name)
    index = list(m.body_names).index(robot(name).platform)
    wanted = ct.poses(m)(q)[:, index]
    found = robot(name).inverse_kinematics(wanted, guess=q)
    assert relative(found, q) < 1e-9
    far = robot(name).inverse_kinematics(wanted)
    assert ct.loop_error(m)(far).max() < 1e-11
    assert relative(ct.poses(m)(far)[:, index], wanted) < 1e-10


@pytest.mark.parametrize(("name", "number"), [("planar-3rrr", 8), ("spherical-3rrr", 8), ("stewart-ups", 64)])
def test_every_leg_has_two_postures(name: str, number: int) -> None:
    m, (q, _, _) = robot(name).model, random_states(name)
    index = list(m.body_names).index("platform")
    found = robot(name).inverse_kinematics(ct.poses(m)(q[1])[index], branches=True)
    assert len(found) == number
    assert ct.loop_error(m)(found).max() < 1e-11
    assert relative(ct.poses(m)(found)[:, index], np.tile(ct.poses(m)(q[1])[index], (number, 1, 1))) < 1e-10


# singular configurations


def test_a_five_bar_robot_is_singular_of_type_1_where_a_leg_is_stretched_and_of_type_2_where_its_distal_bars_are_in_line() -> None:
    found = robot("five-bar-robot")
    m = found.model
    stretched = m.assemble([0.7, 0.0, 0.2, 1.5], leg1_proximal=0.7, leg1_distal=0.0)
    near = found.singularities(stretched)
    assert near.type_1[0] < 1e-9 < 0.1 < near.type_1[1]
    assert near.type_2 > 0.1
    assert "leg1_proximal: " in found.explain(stretched)
    assert "singular: the motor moves without the platform" in found.explain(stretched)
    assert np.linalg.norm(found.jacobian(stretched)[3:, 0]) < 1e-9  # the first motor does not move the tip
    # elbows 1.9 m apart, so that the distal bars are stretched between them
    left, right = 0.6 * np.exp(1j * np.radians(150.0)), None
    for degrees in np.linspace(0.0, 90.0, 200001):
        right = 1.2 + 0.7 * np.exp(1j * np.radians(degrees))
        if abs(right - left) <= 1.9:
            break
    line = np.angle(right - left)
    guess = [np.radians(150.0), line - np.radians(150.0), np.radians(degrees), line + np.pi - np.radians(degrees)]
    q = m.assemble(guess)
    near = found.singularities(q)
    assert near.type_2 < 1e-3 < 0.05 < near.type_1.min()
    # the tip moves across the line
    assert abs(near.motion[3:] @ [np.cos(line), 0.0, np.sin(line)]) < 1e-2 * np.linalg.norm(near.motion[3:]) > 0.0
    assert "type 2" in found.explain(q)


def test_measures_do_not_depend_on_the_unit_of_length_and_come_in_batches() -> None:
    q, _, _ = random_states("planar-3rrr")
    found = robot("planar-3rrr").singularities(q)
    assert found.type_1.shape == (len(q), 3)
    assert found.type_2.shape == (len(q),)
    one = robot("planar-3rrr").singularities(q[2])
    assert relative(one.type_1, found.type_1[2]) < 1e-12
    assert abs(one.type_2 - found.type_2[2]) < 1e-12


def test_a_stewart_platform_is_singular_where_it_is_turned_by_a_right_angle() -> None:
    """Fichter's singularity: the platform turned by a quarter about the upright axis, where all legs meet one more line."""
    found = robot("stewart-ups")
    pose = np.eye(4)
    pose[:3, :3] = [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    pose[2, 3] = 0.6
    level = pose.copy()
    level[:3, :3] = np.eye(3)
    q = found.inverse_kinematics(np.stack([level, pose]), guess=found.model.neutral())
    near = found.singularities(q)
    assert near.type_2[1] < 1e-6 < 0.05 < near.type_2[0]
    assert "with all motors locked" in found.explain(q[1])


# errors


def test_what_is_no_platform_on_legs_is_refused() -> None:
    with pytest.raises(ct.ModelError, match="'delta' is not a platform on legs: body 'leg1_arm' is part of two legs"):
        ct.ParallelManipulator(EXAMPLES["delta"](), ACTUATED["delta"])
    with pytest.raises(ct.ModelError, match="it has no loops"):
        ct.ParallelManipulator(EXAMPLES["arm"](), ["joint1"])
    with pytest.raises(ct.ModelError, match="2 independent coordinates are named, and model 'planar-3rrr' has 3"):
        ct.ParallelManipulator(EXAMPLES["planar-3rrr"](), ACTUATED["planar-3rrr"][:2])
    with pytest.raises(ct.ArgumentError, match="tool is"):
        ct.ParallelManipulator(EXAMPLES["planar-3rrr"](), ACTUATED["planar-3rrr"], tool=(1.0, 2.0))
    with pytest.raises(ct.MethodError, match="'denoc' does not fit model 'watt': its loops do not close at one body"):
        ct.forward_dynamics(EXAMPLES["watt"](), "denoc")


def test_poses_out_of_reach_and_wrong_shapes_are_refused() -> None:
    found = robot("planar-3rrr")
    far = np.eye(4)
    far[0, 3] = 5.0
    for branches in (False, True):
        with pytest.raises(ct.ModelError, match="inverse_kinematics"):
            found.inverse_kinematics(far, branches=branches)
    with pytest.raises(ct.ModelError, match="cannot be assembled with leg1_proximal"):
        robot("five-bar-robot").forward_kinematics([np.pi, 0.0], branches=True)
    with pytest.raises(ct.ArgumentError, match=r"pose has the shape \(2,\)"):
        found.inverse_kinematics([1.0, 2.0])
    with pytest.raises(ct.ArgumentError, match=r"x has the shape \(2,\)"):
        found.forward_kinematics([1.0, 2.0], branches=True)
    with pytest.raises(ct.ArgumentError, match="guess has the shape"):
        found.inverse_kinematics(np.eye(4), guess=[1.0])
    with pytest.raises(ct.ArgumentError, match="q has the shape"):
        found.complements([1.0])


def test_positions_that_leave_a_loop_open_are_refused() -> None:
    """Singularities and complements name the state, the loop and the remedy, as the kernels do."""
    found = robot("planar-3rrr")
    q = found.model.assemble()
    open_at = q + 0.1
    remedy = r"leaves loop '\w+' of model 'planar-3rrr' open, by .* of its size or rad; .* m\.assemble\(guess=q\)"
    with pytest.raises(ct.ArgumentError, match=rf"singularities: state \(1,\) {remedy}"):
        found.singularities([q, open_at, q])
    with pytest.raises(ct.ArgumentError, match=f"singularities: the state {remedy}"):
        found.explain(open_at)
    with pytest.raises(ct.ArgumentError, match=f"complements: q {remedy}"):
        found.complements(open_at)
