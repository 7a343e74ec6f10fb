"""Motions of frames agree with differences of poses; centre of mass and momentum with sums over bodies; and what frames stand for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import catena as ct
from catena import examples
from catena.errors import ArgumentError, ModelError
from catena.examples import EXAMPLES

pytestmark = [pytest.mark.quick, pytest.mark.evaluated]

STEP = 1e-5


def walker() -> ct.Model:
    """A tree that floats, with branches, fixed bodies, a massless one and frames; something of it is fixed to the ground."""
    m = ct.Model("walker")
    m.add("post", ct.box(0.1, 0.2, 0.3, mass=7.0, com=(0.1, 0.0, 0.2)), ct.Fixed(), at=(1, 2, 3))
    m.add("trunk", ct.box(0.3, 0.2, 0.5, mass=9.0), ct.Free(), at=ct.Pose((0, 0, 1), rpy=(0.1, 0.2, 0.3)))
    m.add("pack", ct.box(0.1, 0.3, 0.2, mass=2.0), ct.Fixed(), parent="trunk", at=ct.Pose((-0.2, 0, 0.1), rpy=(0.3, 0, 0.1)))
    for side, y in (("left", 0.1), ("right", -0.1)):
        m.add(f"{side} thigh", ct.rod(0.4, mass=3.0, axis="-z"), ct.Spherical(), parent="trunk", at=(0, y, -0.25))
        m.add(f"{side} shank", ct.rod(0.4, mass=2.0, axis="-z"), ct.Revolute("y", damping=0.1), parent=f"{side} thigh", at=(0, 0, -0.4))
        m.add(f"{side} ankle", ct.Body(0.0), ct.Fixed(), parent=f"{side} shank", at=(0, 0, -0.4))
        m.add_frame(f"{side} sole", f"{side} ankle", at=ct.Pose((0.05, 0, -0.02), rpy=(0.2, -0.1, 0.4)))
    m.add("tail", ct.rod(0.3, mass=1.0), ct.Driven(ct.Revolute("z"), lambda t: 0.3 * np.sin(2.0 * t)), parent="pack", at=(-0.1, 0, 0))
    m.add("tip", ct.sphere(0.05, mass=0.5), ct.Helical("x", pitch=0.1), parent="tail", at=(0.3, 0, 0))
    return m


MODELS = {"walker": walker, "gallery": examples.gallery, "four-bar": examples.four_bar}


def state(m: ct.Model, seed: int = 0) -> tuple[tuple, tuple, tuple, tuple]:
    """Return (t, q), (t, q, v), (t, q, v, vdot) without t where nothing is driven; and the same two at times a step later and earlier."""
    rng = np.random.default_rng(seed)
    q, v, vdot = m.random(rng), rng.normal(size=m.nv), rng.normal(size=m.nv)
    near = []
    for h in (STEP, -STEP):
        time = (0.7 + h,) if m.driven_names else ()
        near.append((*time, m.integrate(q, h * v + 0.5 * h * h * vdot), v + h * vdot))
    time = (0.7,) if m.driven_names else ()
    return (*time, q), (*time, q, v), (*time, q, v, vdot), tuple(near)


def rotation_rate(R: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Return the angular velocity of a rotation with a rate."""
    turning = rate @ R.T
    return np.array([turning[2, 1], turning[0, 2], turning[1, 0]])


@pytest.mark.parametrize("name", MODELS)
def test_motions_of_frames_agree_with_differences_of_poses(name: str) -> None:
    m = MODELS[name]()
    names = [*m.body_names, *(frame.name for frame in m.frames), "ground"]
    _, moving, accelerated, (later, earlier) = state(m)
    rng = np.random.default_rng(1)
    for frame, other in [rng.choice(names, 2) for _ in range(12)] + [(names[-2], "ground")]:
        point, both = rng.normal(size=3), ct.poses(m, of=[str(frame), str(other)])
        seen = (m, str(frame), point)
        options = {"relative_to": str(other), "axes": str(other)}

        def place(state: tuple, both: ct.Kernel = both) -> np.ndarray:
            of_frame, of_other = both(*state[:-1])
            return np.linalg.inv(of_other) @ of_frame

        rate = (place(later) - place(earlier)) / (2.0 * STEP)
        expected = np.concatenate([rotation_rate(place(moving)[:3, :3], rate[:3, :3]), rate[:3, :3] @ point + rate[:3, 3]])
        velocity, acceleration = ct.frame_velocity(*seen, **options), ct.frame_acceleration(*seen, **options)
        np.testing.assert_allclose(velocity(*moving), expected, atol=1e-7)
        expected = (velocity(*later) - velocity(*earlier)) / (2.0 * STEP)
        np.testing.assert_allclose(acceleration(*accelerated), expected, atol=3e-7)


@pytest.mark.parametrize("name", MODELS)
def test_motions_of_frames_in_all_axes_are_one_vector_and_the_jacobian_gives_them(name: str) -> None:
    m = MODELS[name]()
    names = [*m.body_names, *(frame.name for frame in m.frames), "ground"]
    at, moving, accelerated, _ = state(m)
    *_, v, vdot = accelerated
    rest = (*at, 0.0 * v)
    rng = np.random.default_rng(2)
    for frame, other, third in (map(str, rng.choice(names, 3)) for _ in range(8)):
        point, whole = rng.normal(size=3), {}
        for axes in ("world", "body", third):
            options = {"axes": axes, "relative_to": other}
            J = ct.jacobian(m, frame, point, **options)(*at)
            velocity, acceleration, bias = (
                make(m, frame, point, **options) for make in (ct.frame_velocity, ct.frame_acceleration, ct.bias_acceleration)
            )
            np.testing.assert_allclose(J @ v + velocity(*rest), velocity(*moving), atol=1e-12)
            np.testing.assert_allclose(J @ vdot + bias(*moving), acceleration(*accelerated), atol=1e-12)
            R = np.eye(3) if axes == "world" else ct.poses(m, of=frame if axes == "body" else axes)(*at)[:3, :3]
            whole[axes] = [R @ x for x in np.reshape([velocity(*moving), acceleration(*accelerated)], (4, 3))]
        for a, b in itertools.combinations(whole.values(), 2):
            np.testing.assert_allclose(a, b, atol=1e-12)


def test_the_bias_acceleration_is_the_rate_of_the_jacobian_times_v() -> None:
    m = examples.gallery()
    (q,), (_, v), _, _ = state(m)
    for other in ("ground", "door"):
        J = ct.jacobian(m, "drone", (0.1, 0.2, 0.3), relative_to=other, axes="world" if other == "ground" else other)
        _, rate = J.jvp("q")(q, v)
        bias = ct.bias_acceleration(m, "drone", (0.1, 0.2, 0.3), relative_to=other, axes="world" if other == "ground" else other)
        np.testing.assert_allclose(rate @ v, bias(q, v), atol=1e-12)


def test_relative_jacobians_have_no_columns_of_joints_that_move_both_bodies() -> None:
    m = ct.Model("chain")
    for i in range(5):
        m.add(f"{i}", ct.rod(1.0, mass=1.0), ct.Revolute((1, i, 2)), parent=f"{i - 1}" if i else "ground", at=(1, 0, 0))
    J = ct.jacobian(m, "4", relative_to="1")(np.linspace(0.1, 0.5, 5))
    assert not J[:, :2].any()
    assert np.abs(J[:, 2:]).max(axis=0).min() > 0.1


def bodies(m: ct.Model, of: str | None) -> list[str]:
    """Return the bodies of a subtree, by the parents of links."""
    parents = {link.name: link.parent for link in m.links}
    fixed = {"ground"}
    for link in m.links:
        if isinstance(link.joint, ct.Fixed) and link.parent in fixed:
            fixed.add(link.name)
    found = []
    for name in m.body_names:
        above = [name]
        while above[-1] != "ground":
            above.append(parents[above[-1]])
        if of in above if of is not None else name not in fixed:
            found.append(name)
    return found


def summed(m: ct.Model, of: str | None, moving: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Return the centre of mass and the momentum about it, as a sum over bodies."""
    links = {link.name: link.body for link in m.links}
    mass, moment, linear, parts = 0.0, np.zeros(3), np.zeros(3), []
    for name in bodies(m, of):
        body = links[name]
        T = ct.poses(m, of=name)(*moving[:-1])
        velocity = ct.frame_velocity(m, name, body.com)(*moving)
        c, R = T[:3, :3] @ body.com + T[:3, 3], T[:3, :3]
        mass, moment, linear = mass + body.mass, moment + body.mass * c, linear + body.mass * velocity[3:]
        parts.append((c, body.mass * velocity[3:], R @ body.inertia @ R.T @ velocity[:3]))
    center = moment / mass
    return center, np.concatenate([sum(L + np.cross(c - center, p) for c, p, L in parts), linear])


@pytest.mark.parametrize("name", MODELS)
def test_centre_of_mass_and_momentum_agree_with_sums_over_bodies(name: str) -> None:
    m = MODELS[name]()
    at, moving, accelerated, (later, earlier) = state(m)
    v = moving[-1]
    rest = (*at, 0.0 * v)
    for of in (None, "ground", *m.body_names):
        if not any(link.body.mass for link in m.links if link.name in bodies(m, of)):
            with pytest.raises(ModelError, match="have no mass"):
                ct.center_of_mass(m, of=of)
            continue
        center, momentum = summed(m, of, moving)
        mass = sum(link.body.mass for link in m.links if link.name in bodies(m, of))
        position, velocity, acceleration, J = (
            ct.center_of_mass(m, what, of=of) for what in ("position", "velocity", "acceleration", "jacobian")
        )
        np.testing.assert_allclose(position(*at), center, atol=1e-12)
        np.testing.assert_allclose(velocity(*moving), momentum[3:] / mass, atol=1e-12)
        np.testing.assert_allclose(J(*at) @ v + velocity(*rest), velocity(*moving), atol=1e-12)
        np.testing.assert_allclose(acceleration(*accelerated), (velocity(*later) - velocity(*earlier)) / (2.0 * STEP), atol=1e-7)
        h, rate, A = (ct.centroidal_momentum(m, what, of=of) for what in ("momentum", "rate", "matrix"))
        np.testing.assert_allclose(h(*moving), momentum, atol=1e-11)
        np.testing.assert_allclose(A(*at) @ v + h(*rest), momentum, atol=1e-11)
        np.testing.assert_allclose(rate(*accelerated), (h(*later) - h(*earlier)) / (2.0 * STEP), atol=1e-6)


def test_the_rate_of_momentum_is_the_sum_of_forces_from_outside() -> None:
    m = ct.Model("walker", gravity=(0.3, -0.2, -9.81))
    m.add("trunk", ct.box(0.3, 0.2, 0.5, mass=9.0), ct.Free())
    m.add("leg", ct.rod(0.8, mass=3.0), ct.Revolute("y", stiffness=3.0, damping=0.2), parent="trunk", at=(0.1, 0, -0.2))
    m.add_frame("foot", "leg", at=(0.8, 0, 0))
    push = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    m.add_force("push", lambda t, q, v: push, body="foot")
    (q,), (_, v), _, _ = state(m)
    vdot = ct.forward_dynamics(m)(q, v, [0, 0, 0, 0, 0, 0, 5.0])
    arm = ct.poses(m, of="foot")(q)[:3, 3] - ct.center_of_mass(m)(q)
    force = push[3:] + 12.0 * np.array(m.gravity)
    expected = np.concatenate([push[:3] + np.cross(arm, push[3:]), force])
    np.testing.assert_allclose(ct.centroidal_momentum(m, "rate")(q, v, vdot), expected, atol=1e-10)


def test_kernels_take_batches_and_parameters_and_have_derivatives() -> None:
    m = ct.Model("arm")
    length = m.parameter("length", 0.5)
    m.add("upper", ct.rod(length, mass=2.0), ct.Revolute("z"))
    m.add("fore", ct.rod(0.4, mass=1.0), ct.Revolute("y"), parent="upper", at=(length, 0, 0))
    m.add_frame("tip", "fore", at=ct.Pose((0.4, 0, 0), rpy=(0.1, 0.2, 0.3)))
    rng = np.random.default_rng(3)
    q, v, lengths = rng.normal(size=(5, 2)), rng.normal(size=(5, 2)), rng.uniform(0.3, 0.8, 5)
    places = rng.normal(size=(5, 6))
    many = ct.frame_velocity(m, "tip", parameters=("length", "tip.at"))(q, v, length=lengths, **{"tip.at": places})
    centers = ct.center_of_mass(m, "jacobian", parameters="length")(q, length=lengths)
    for i in range(5):
        one = m.with_values({"length": lengths[i], "tip.at": places[i]})
        np.testing.assert_allclose(ct.frame_velocity(one, "tip")(q[i], v[i]), many[i], atol=1e-12)
        np.testing.assert_allclose(ct.center_of_mass(one, "jacobian")(q[i]), centers[i], atol=1e-12)
    by_q = ct.center_of_mass(m).jacobian("position", "q")
    np.testing.assert_allclose(by_q(q), ct.center_of_mass(m, "jacobian")(q), atol=1e-12)
    by_v = ct.frame_velocity(m, "tip").jacobian("velocity", "v")
    np.testing.assert_allclose(by_v(q, v), ct.jacobian(m, "tip")(q), atol=1e-12)


def test_a_frame_stands_for_a_body_and_a_place_on_it() -> None:
    place = ct.Pose((0.3, 0.1, -0.2), rpy=(0.2, 0.3, -0.4))
    models = []
    for named in (True, False):
        m = ct.Model("both")
        m.add("crank", ct.rod(0.5, mass=1.0), ct.Revolute("y"))
        m.add("slider", ct.sphere(0.1, mass=1.0), ct.Free())
        if named:
            m.add_frame("hook", "crank", at=place)
            m.add_frame("eye", "ground", at=(0, 0, 2))
        crank, at, point = ("hook", ct.Pose((0.1, 0, 0)), (0.1, 0, 0)) if named else ("crank", place @ ct.Pose((0.1, 0, 0)), None)
        point = (place @ ct.Pose((0.1, 0, 0))).p if point is None else point
        m.add("load", ct.sphere(0.1, mass=1.0), ct.Spherical(), parent=crank, at=at)
        m.close("rod", ct.Distance(1.0), crank, "slider", at_a=at)
        m.add_spring("coil", "eye" if named else "ground", crank, at_a=(0, 0, 0) if named else (0, 0, 2), at_b=point, stiffness=20.0)
        m.add_force("wind", lambda t, q, v: np.array([1.0, 2.0, 3.0]), body=crank, point=point)
        models.append(m)
    q, v = models[0].assemble(), np.random.default_rng(0).normal(size=models[0].nv)
    tau = np.zeros(models[0].nv)
    named, plain = (ct.forward_dynamics(m)(q, m.project_velocity(q, v), tau) for m in models)
    np.testing.assert_allclose(named, plain, atol=1e-11)
    steps = [ct.stepper(m, 1e-6, wrenches=where) for m, where in zip(models, ("hook", "crank"), strict=True)]
    R, force = ct.poses(models[0], of="crank")(q)[:3, :3], np.array([1.0, 2.0, 3.0])
    loads = [[[0, 0, 0, *force]], [[*np.cross(R @ place.p, force), *force]]]
    first, second = (step(q, 0.0 * v, tau, wrenches=load)[1] for step, load in zip(steps, loads, strict=True))
    np.testing.assert_allclose(first, second, atol=1e-11)


def test_frames_are_saved_and_read_again(tmp_path) -> None:
    m = walker()
    tree = ct.Model("tree")
    for link in m.links[1:4]:
        tree.add(link.name, link.body, ct.Revolute("x"), parent="ground" if link.parent == "ground" else link.parent, at=link.at)
    for place in (ct.Pose((0.1, 0.2, 0.3), rpy=(0.1, 0.2, 0.3)), ct.Pose((1, 0, 0), quat=(1, 2, 3, 4))):
        tree.add_frame(f"frame {len(tree.frames)}", "pack", at=place)
    tree.add_frame("mark", "ground", at=(1, 1, 1))
    q = np.array([0.1, 0.2, 0.3])
    expected = ct.poses(tree, of=[frame.name for frame in tree.frames])(q)
    for end in ("toml", "urdf"):
        tree.save(tmp_path / f"tree.{end}")
        again = ct.load(tmp_path / f"tree.{end}")
        np.testing.assert_allclose(ct.poses(again, of=[frame.name for frame in tree.frames])(q), expected, atol=1e-12)
    assert [(frame.name, frame.body) for frame in ct.load(tmp_path / "tree.toml").frames] == [(f.name, f.body) for f in tree.frames]
    file = tmp_path / "wrong.toml"
    file.write_text((tmp_path / "tree.toml").read_text().replace('body = "pack"', 'body = "pick"', 1))
    with pytest.raises(ct.ModelFileError, match=r"wrong.toml:\d+: frame\[0\].body of 'frame 0': no body is named 'pick'; did you mean"):
        ct.load(file)


def test_sites_of_mjcf_are_frames(tmp_path) -> None:
    file = tmp_path / "arm.xml"
    file.write_text("""
    <mujoco><worldbody><site name="mark" pos="1 2 3"/>
      <body name="arm" pos="0 0 1"><joint name="hinge" axis="0 1 0" pos="0.1 0 0"/><geom size="0.1" mass="1"/>
        <site name="tip" pos="0.5 0 0" euler="0 90 0"/><site name="arm" pos="0.2 0 0"/><site pos="9 9 9"/></body>
    </worldbody></mujoco>""")
    m = ct.load(file)
    assert [(frame.name, frame.body) for frame in m.frames] == [("mark", "ground"), ("tip", "arm"), ("arm.2", "arm")]
    assert any("site 'arm' is frame 'arm.2'" in note for note in m.notes)
    T = ct.poses(m, of="tip")([0.0])
    np.testing.assert_allclose(T, [[0, 0, 1, 0.5], [0, 1, 0, 0], [-1, 0, 0, 1], [0, 0, 0, 1]], atol=1e-12)


def test_what_cannot_be_is_said() -> None:
    m = walker()
    for build, says in (
        (lambda: m.add_frame("tail", "trunk"), "frame 'tail': a body has this name already; give each body and frame its own name"),
        (lambda: m.add_frame("ground", "trunk"), "the ground has this name"),
        (lambda: m.add_frame("x", "nobody"), "frame 'x' names body 'nobody', which is not in model 'walker'"),
        (lambda: m.add_frame("x", "trunk", at=(1, 2)), "frame 'x': pose xyz"),
        (lambda: m.add("left sole", ct.Body(1.0), ct.Fixed()), "body 'left sole': a frame has this name already"),
        (lambda: m.frozen().add_frame("x", "trunk"), "is frozen"),
        (lambda: ct.frame_velocity(m, "nobody"), "frame_velocity names body 'nobody'"),
        (lambda: ct.jacobian(m, "tail", axes="local"), "axes are 'world', 'body' or those of a body; they name 'local'"),
        (lambda: ct.jacobian(m, "tail", relative_to="nobody"), "relative_to names body 'nobody'"),
        (lambda: ct.center_of_mass(m, of="nobody"), "of names body 'nobody'"),
    ):
        with pytest.raises(ModelError, match=says):
            build()
    with pytest.raises(ArgumentError, match="'jacobean' is none of its results; did you mean 'jacobian'"):
        ct.center_of_mass(m, "jacobean")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in EXAMPLES if EXAMPLES[name]().loops][:4])
def test_velocities_that_keep_loops_closed_move_both_ends_of_a_joint_alike(name: str) -> None:
    m = EXAMPLES[name]()
    q = m.assemble()
    v = m.project_velocity(q, np.random.default_rng(4).normal(size=m.nv))
    for loop in m.loops:
        if isinstance(loop.joint, (ct.Revolute, ct.Spherical, ct.Universal)):
            ends = [ct.frame_velocity(m, body, at.p)(q, v)[3:] for body, at in ((loop.a, loop.at_a), (loop.b, loop.at_b))]
            np.testing.assert_allclose(*ends, atol=1e-9)
