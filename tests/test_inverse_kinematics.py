"""Inverse kinematics undoes poses, directions and centres of mass; limits are kept, loops closed; and what cannot be reached is said."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import catena as ct
from catena import examples
from catena.errors import ArgumentError, ConvergenceWarning, ModelError
from catena.graph import Trace
from catena.kinematic_targets.targets import rotation_vector
from catena.spatial import quaternion_exp, rotation

PARALLEL = ("delta", "delta_ruu", "stewart_ups", "five_bar_robot", "planar_3rrr", "spherical_3rrr")
LARGE = pytest.param("stewart_floating", marks=pytest.mark.long)


def limited_arm() -> ct.Model:
    """Seven hinges with limits, and a tool."""
    m, parent, quarter = ct.Model("limited arm"), "ground", np.pi / 2
    places = [
        ((0, 0, 0.333), 0.0, (-2.9, 2.9)), ((0, 0, 0), -quarter, (-1.76, 1.76)), ((0, -0.316, 0), quarter, (-2.9, 2.9)),
        ((0.0825, 0, 0), quarter, (-3.07, -0.07)), ((-0.0825, 0.384, 0), -quarter, (-2.9, 2.9)), ((0, 0, 0), quarter, (-0.02, 3.75)),
        ((0.088, 0, 0), quarter, (-2.9, 2.9)),
    ]  # fmt: skip
    for i, (xyz, roll, limits) in enumerate(places):
        joint = ct.Revolute("z", limits=limits)
        m.add(f"link{i}", ct.sphere(0.1, mass=1.0), joint, parent=parent, at=ct.Pose(xyz, rpy=(roll, 0, 0)))
        parent = f"link{i}"
    m.add_frame("tool", parent, at=ct.Pose((0, 0, 0.1), rpy=(0.1, 0.2, 0.3)))
    return m


def limits(m: ct.Model) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.concatenate([getattr(link.joint, end) for link in m.links]) for end in ("lower", "upper"))  # type: ignore[return-value]


def test_rotation_vectors_are_those_of_their_rotations_up_to_half_a_turn() -> None:
    rng = np.random.default_rng(0)
    axes = [*np.eye(3), *rng.normal(size=(20, 3))]
    for axis in axes:
        for angle in (0.0, 1e-12, 1e-6, 0.3, 1.5, 3.0, np.pi - 1e-9):
            turn = angle * axis / np.linalg.norm(axis)
            found = np.asarray(rotation_vector(rotation(quaternion_exp(turn))), dtype=float)
            np.testing.assert_allclose(found, turn, atol=1e-12)
        half = np.asarray(rotation_vector(rotation(np.array([0.0, *axis]))), dtype=float)
        np.testing.assert_allclose(np.linalg.norm(half), np.pi, atol=1e-12)
        np.testing.assert_allclose(np.cross(half, axis), 0.0, atol=1e-8)


@pytest.mark.parametrize("make", [examples.arm, limited_arm])
def test_a_thousand_poses_of_an_arm_are_reached_within_its_limits(make) -> None:
    m = make()
    frame = "tool" if m.frames else "hand"
    T = ct.poses(m, of=frame)(m.random(np.random.default_rng(1), 1000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = ct.inverse_kinematics(m, {frame: T.reshape(10, 100, 4, 4)})
    assert found.q.shape == (10, 100, 7)
    assert found.solved.mean() >= 0.995
    q, solved = found.q.reshape(-1, 7), found.solved.ravel()
    np.testing.assert_allclose(ct.poses(m, of=frame)(q[solved]), T[solved], atol=1e-8)
    lower, upper = limits(m)
    assert ((q >= lower) & (q <= upper)).all()


def test_a_target_is_met_alike_alone_and_among_others() -> None:
    m = limited_arm()
    T = ct.poses(m, of="tool")(m.random(np.random.default_rng(6), 30))
    posture = 0.5 * (limits(m)[0] + limits(m)[1])
    many = ct.inverse_kinematics(m, {"tool": T}, posture=posture)
    for i in (0, 7, 29):
        one = ct.inverse_kinematics(m, {"tool": T[i]}, posture=posture)
        np.testing.assert_array_equal(one.q, many.q[i])
        assert (one.solved, one.turns) == (many.solved[i], many.turns[i])


def test_a_solution_near_the_guess_is_the_one_found() -> None:
    m = limited_arm()
    q = m.random(np.random.default_rng(2), 50)
    near = np.clip(q + 0.01, *limits(m))
    found = ct.inverse_kinematics(m, {"tool": ct.poses(m, of="tool")(q)}, guess=near)
    assert found.solved.all()
    assert np.abs(found.q - near).max(axis=1).mean() < 0.05
    assert found.turns.max() < 30


def test_a_posture_is_approached_as_far_as_the_targets_allow() -> None:
    m, posture = examples.arm(), np.array([0.1, 0.5, -0.2, 1.0, 0.3, 0.8, 0.2])
    T = ct.poses(m, of="hand")(posture + 0.3 * np.random.default_rng(3).normal(size=(40, 7)))
    found = ct.inverse_kinematics(m, {"hand": T}, guess=posture, posture=posture)
    assert found.solved.all()
    # at the least distance, the way to the posture is across what moves the hand
    J, left = ct.jacobian(m, "hand")(found.q), []
    for matrix, q in zip(J, found.q, strict=True):
        _, sizes, rows = np.linalg.svd(matrix)
        assert sizes[-1] > 1e-4
        left.append(abs(rows[-1] @ (posture - q)))
    assert np.median(left) < 1e-5
    assert max(left) < 1e-2


@pytest.mark.parametrize("name", [*PARALLEL, LARGE])
def test_platforms_are_posed_with_their_loops_closed(name: str) -> None:
    m = getattr(examples, name)()
    rng, home = np.random.default_rng(4), m.assemble()
    q = np.array([m.assemble(guess=m.integrate(home, m.project_velocity(home, 0.1 * rng.normal(size=m.nv)))) for _ in range(12)])
    platform = "platform" if "platform" in m.body_names else m.body_names[-1]
    T = ct.poses(m, of=platform)(q)
    found = ct.inverse_kinematics(m, {platform: T})
    assert found.solved.all()
    np.testing.assert_allclose(ct.poses(m, of=platform)(found.q), T, atol=1e-8)
    assert ct.loop_error(m)(found.q).max() <= 2e-12


def test_loops_are_closed_also_where_a_target_is_out_of_reach() -> None:
    m = examples.four_bar()
    with pytest.warns(ConvergenceWarning, match="could not be reached"):
        found = ct.inverse_kinematics(m, {"rocker": ct.Pose((5, 0, 0))}, starts=3)
    assert not found.solved
    assert ct.loop_error(m)(found.q).max() <= 1e-11


def test_directions_weights_points_and_other_bodies() -> None:
    m = examples.arm()
    point = (0.1, 0.0, 0.2)
    down = ct.Target("hand", direction=(0, 0, -2.0), axis="x")
    place = ct.Target("hand", position=(0.4, 0.2, np.nan_to_num(0.3)), point=point, weight=(1, 1, 0))
    turned = ct.Target("elbow", rotation=ct.Pose(rpy=(0.2, 0.8, 0.1)).R, weight=(0, 0, 1))
    found = ct.inverse_kinematics(m, [down, place, turned])
    T, elbow = ct.poses(m, of=["hand", "elbow"])(found.q)
    np.testing.assert_allclose(T[:3, 0], (0, 0, -1), atol=1e-8)
    np.testing.assert_allclose((T[:3, :3] @ point + T[:3, 3])[:2], (0.4, 0.2), atol=1e-8)
    assert abs(np.asarray(rotation_vector(elbow[:3, :3] @ turned.value.T), dtype=float)[2]) < 1e-8
    between = ct.inverse_kinematics(m, [ct.Target("hand", position=(0.25, 0.1, 0.3), relative_to="shoulder2")])
    T, base = ct.poses(m, of=["hand", "shoulder2"])(between.q)
    np.testing.assert_allclose(base[:3, :3].T @ (T[:3, 3] - base[:3, 3]), (0.25, 0.1, 0.3), atol=1e-8)


def test_a_humanoid_shifts_its_weight_with_its_feet_in_place() -> None:
    m = examples.humanoid()
    q = m.neutral()
    feet = ("left foot", "right foot")
    T, center = ct.poses(m, of=feet)(q), ct.center_of_mass(m)(q) + (0.03, 0.02, -0.06)
    targets = [*(ct.Target(foot, pose=pose) for foot, pose in zip(feet, T, strict=True)), ct.Target.center_of_mass(center)]
    found = ct.inverse_kinematics(m, targets, guess=q)
    assert found.solved
    np.testing.assert_allclose(ct.center_of_mass(m)(found.q), center, atol=1e-8)
    np.testing.assert_allclose(ct.poses(m, of=feet)(found.q), T, atol=1e-8)
    np.testing.assert_allclose(m.normalised(found.q), found.q, atol=1e-12)


def test_fixed_coordinates_stay_and_driven_ones_are_at_their_time() -> None:
    m = examples.arm()
    guess = m.random(np.random.default_rng(5), 20)
    position = ct.poses(m, of="hand")(guess)[:, :3, 3] + 0.02
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = ct.inverse_kinematics(m, {"hand": position}, guess=guess, fixed=("elbow", "wrist"))
    at = [m.q_names.index(name) for name in ("elbow", "wrist")]
    np.testing.assert_array_equal(found.q[:, at], guess[:, at])
    assert found.solved.mean() > 0.5
    crane = ct.Model("crane")
    crane.add("trolley", ct.point_mass(5.0), ct.Driven(ct.Prismatic("x"), lambda t: 0.5 * np.sin(t)))
    crane.add("boom", ct.rod(1.0, mass=1.0), ct.Revolute("y"), parent="trolley")
    crane.add("jib", ct.rod(1.0, mass=1.0), ct.Revolute("y"), parent="boom", at=(1, 0, 0))
    for t in (0.0, 1.0):
        found = ct.inverse_kinematics(crane, ct.Target("jib", point=(1, 0, 0), position=(1.0, 0.0, 0.5)), t=t)
        T = ct.poses(crane, of="jib")(t, found.q)
        np.testing.assert_allclose(T[:3, 0] + T[:3, 3], (1.0, 0.0, 0.5), atol=1e-8)


def test_what_cannot_be_reached_is_said_and_nearest() -> None:
    m = ct.Model("arm")
    m.add("upper", ct.rod(1.0, mass=1.0), ct.Revolute("z", limits=(-1.0, 1.0)))
    m.add("fore", ct.rod(1.0, mass=1.0), ct.Revolute("z"), parent="upper", at=(1, 0, 0))
    m.add_frame("tip", "fore", at=(1, 0, 0))
    with pytest.warns(ConvergenceWarning, match=r"1 of 2 sets of targets could not be reached; the worst, at \(1,\): 'tip', position: 1 m"):
        found = ct.inverse_kinematics(m, {"tip": [(1.5, 0.5, 0), (3, 0, 0)]})
    np.testing.assert_array_equal(found.solved, (True, False))
    np.testing.assert_allclose(found.position_errors[1], [1.0], atol=1e-6)
    np.testing.assert_allclose(found.q[1] % (2.0 * np.pi) % (2.0 * np.pi - 1e-3), 0.0, atol=1e-3)
    assert "not reached" in found.explain(1)
    assert found.explain(0).startswith("reached after")
    assert "1 of 2 solved" in repr(found)
    with pytest.warns(ConvergenceWarning):
        beyond = ct.inverse_kinematics(m, {"tip": (-2.0, 0, 0)})
    assert abs(beyond.q[0]) == 1.0
    assert ct.inverse_kinematics(m, {"tip": (-2.0 + 1e-3, 0, 0)}, limits=False).solved
    for call, error, says in (
        (lambda: ct.inverse_kinematics(m, {"top": (1, 0, 0)}), ModelError, "a target names body 'top'"),
        (lambda: ct.inverse_kinematics(m, []), ArgumentError, "are none"),
        (lambda: ct.inverse_kinematics(m, {"tip": (1, 0)}), ArgumentError, r"position has shape \(2,\)"),
        (lambda: ct.Target("tip"), ArgumentError, "nothing is given"),
        (lambda: ct.Target("tip", rotation=2.0 * np.eye(3)), ArgumentError, "is not a rotation"),
        (lambda: ct.Target("tip", direction=(0, 0, 0)), ArgumentError, "a direction is zero"),
        (lambda: ct.Target("tip", position=(1, 0, 0), weight=(1, 2)), ArgumentError, "weight"),
        (lambda: ct.inverse_kinematics(m, {"tip": np.zeros((3, 3))}, guess=np.zeros((2, 2))), ArgumentError, "do not agree"),
        (lambda: ct.inverse_kinematics(m, {"tip": (1, 0, 0)}, guess=[0.0]), ArgumentError, "guess has shape"),
        (lambda: ct.inverse_kinematics(m, {"tip": (1, 0, 0)}, starts=-1), ArgumentError, "starts"),
        (lambda: ct.inverse_kinematics(m, {"tip": (1, 0, 0)}, fixed="hand"), ModelError, "fixed names 'hand'"),
        (lambda: found.explain(), ArgumentError, "give the index of one"),
    ):
        with pytest.raises(error, match=says):
            call()


# paths through way points


@pytest.mark.parametrize("name", ["arm", "delta", "stewart_ups"])
def test_frames_follow_their_way_points_on_arms_and_platforms(name: str) -> None:
    m = getattr(examples, name)()
    frame = "hand" if name == "arm" else "platform"
    guess = np.array([0.1, 0.5, -0.2, 1.0, 0.3, 0.8, 0.2]) if name == "arm" else m.assemble()
    first = ct.poses(m, of=frame)(guess)
    poses = [ct.Pose(first[:3, 3], matrix=first[:3, :3])]
    for shift, turn in (((0.03, 0.0, 0.02), (0.1, 0.0, 0.0)), ((0.03, 0.04, 0.0), (0.1, 0.1, 0.0))):
        poses.append(ct.Pose(first[:3, 3] + shift, matrix=first[:3, :3] @ ct.Pose(rpy=(0, 0, 0) if name == "delta" else turn).R))
    motors = None if name == "arm" else [one for one in m.v_names if one.endswith("arm" if name == "delta" else "upper")]
    path = ct.cartesian_path(m, frame, poses, 1.5, names=motors, guess=guess, tolerance=1e-5)
    assert path.deviation <= 1e-5
    T = ct.poses(m, of=frame)(path.q)
    for pose in poses[:1] + poses[-1:]:
        assert np.abs(T - pose.matrix()).max(axis=(1, 2)).min() <= 1e-8
    if name == "arm":
        T = ct.poses(m, of=frame)(path(np.linspace(0.0, 1.5, 3001)).position)
    assert np.abs(T - poses[1].matrix()).max(axis=(1, 2)).min() <= (1e-4 if name == "arm" else 0.02)
    # its rates are those of its positions, at rest at both ends, also where it is traced
    at, h = np.linspace(0.113, 1.4, 7), 1e-5
    np.testing.assert_allclose((path(at + h).position - path(at - h).position) / (2.0 * h), path(at).rate, atol=1e-7)
    np.testing.assert_allclose((path(at + h).rate - path(at - h).rate) / (2.0 * h), path(at).acceleration, atol=1e-5)
    np.testing.assert_allclose([path(0.0).rate, path(1.5).rate], 0.0, atol=1e-12)
    trace = Trace("path")
    traced = path(trace.input("t"))
    graph = trace.graph(position=traced.position, rate=traced.rate, acceleration=traced.acceleration)
    for t in at:
        for one, other in zip(graph.evaluate(t), path(float(t)), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12)


def test_a_way_that_leaves_the_reach_is_refused() -> None:
    m = examples.arm()
    with pytest.raises(ModelError, match="cannot follow its way at t = "):
        ct.cartesian_path(m, "hand", [(0.5, 0, 0.5), (1.8, 0, 0.5)], 1.0)
    for waypoints, says in (([(1, 2, 3)], "two or more"), ([(0.5, 0, 0.5), (0.5, 0, 0.5)], "are the same")):
        with pytest.raises(ArgumentError, match=says):
            ct.cartesian_path(m, "hand", waypoints, 1.0)


def test_targets_are_met_by_other_geometries() -> None:
    """Each set of targets has lengths of its own: as of models with these numbers, of a tree and of a loop."""
    m, lengths = examples.arm(), np.array([0.05, 0.1, 0.2])
    m.add_frame("tool", "hand", at=(0, 0, 0.1))
    place = {"tool": ct.Pose((0.4, 0.2, 0.5), rpy=(0.1, 2.0, 0.0))}
    at = np.stack([[0.0, 0.0, x] for x in lengths])
    found = ct.inverse_kinematics(m, place, parameters={"tool.at.xyz": at})
    assert found.solved.shape == (3,)
    for q, x in zip(found.q, at, strict=True):
        np.testing.assert_allclose(ct.poses(m.with_values({"tool.at.xyz": x}), of="tool")(q), place["tool"].matrix(), atol=1e-8)
    bar, rocker = examples.four_bar(), np.array([0.55, 0.65])
    positions = {"pin.at_b.xyz": np.stack([[x, 0.0, 0.0] for x in rocker])}
    up = ct.Target("crank", direction=(0.0, 0.0, -1.0), axis="x")
    found = ct.inverse_kinematics(bar, up, parameters=positions)
    assert found.solved.all()
    with pytest.warns(ConvergenceWarning, match="could not be reached"):
        far = ct.inverse_kinematics(bar, {"rocker": ct.Pose((5, 0, 0))}, parameters=positions, starts=2)
    for q in (found.q, far.q):
        for one, x in zip(q, positions["pin.at_b.xyz"], strict=True):
            assert ct.loop_error(bar.with_values({"pin.at_b.xyz": x}))(one).max() < 1e-9
    with pytest.raises(ct.ArgumentError, match="limits cannot be parameters"):
        ct.inverse_kinematics(limited_arm(), {"tool": (0.3, 0.1, 0.2)}, parameters={f"{limited_arm().body_names[0]}.upper": 1.0})
    with pytest.raises(ct.ArgumentError, match="of targets, guess and parameters do not agree"):
        ct.inverse_kinematics(m, place, np.zeros((2, 7)), parameters={"tool.at.xyz": at})


def test_a_cartesian_path_has_as_few_knots_as_its_tolerance_takes():
    """Knots are doubled until the frame is near its way; where they do not suffice, a warning says how far it is."""
    m, way = examples.arm(), [(0.5, 0.0, 0.5), (0.5, 0.3, 0.5)]
    rough = ct.cartesian_path(m, "hand", way, 2.0)
    assert (len(rough.times), rough.deviation < 1e-5) == (17, True)
    found = {tolerance: ct.cartesian_path(m, "hand", way, 2.0, tolerance=tolerance) for tolerance in (1e-6, 1e-7)}
    for tolerance, path in found.items():
        assert path.deviation <= tolerance
    assert [len(path.times) for path in found.values()] == [33, 65]
    exactly = ct.cartesian_path(m, "hand", way, 2.0, tolerance=rough.deviation)
    assert len(exactly.times) == 17
    with pytest.warns(ConvergenceWarning, match=r"'hand' is \S+ m or rad from its way at 512 knots"):
        ct.cartesian_path(m, "hand", [(0.5, 0.0, 0.5), (0.5, 0.3, 0.5), (0.5, 0.0, 0.5)], 2.0, tolerance=1e-15)
