"""What is made of a model stays what it was, whatever becomes of the model: kernels, reduced models, manipulators, controllers and runs.

A frozen model does not change, and goes with all that was made for it when nobody holds it.
"""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.mechanisms import at_dead_centre, double_rocker

import catena as ct
from catena.examples import chain, five_bar_robot, four_bar, gallery, peaucellier
from catena.facade import INTERNAL
from catena.model.driven_trees import undriven_tree
from catena.spatial import Placement, Rigid

#: All ways to change a model, one after the other, by what of `Model` does it.
CHANGES: dict[str, Callable[[ct.Model], None]] = {
    "name": lambda m: setattr(m, "name", "changed"),
    "add": lambda m: _add(m),
    "connect": lambda m: _connect(m),
    "add_spring": lambda m: m.add_spring("changed spring", "ground", m.body_names[0], at_b=(0.1, 0.2, 0.3), stiffness=70.0),
    "add_frame": lambda m: m.add_frame("changed frame", m.body_names[-1], at=(0.1, 0.2, 0.3)),
    "add_force": lambda m: m.add_force("changed force", lambda t, q, v: np.array([9.0, 8.0, 7.0]), body=m.body_names[-1]),
    "add_point_force": lambda m: m.add_point_force("changed pull", m.body_names[-1], (0.1, 0, 0), lambda t, p, v: [3.0, 2.0, 1.0]),
    "add_line_force": lambda m: m.add_line_force("changed rope", "ground", m.body_names[-1], lambda t, length, rate: 5.0, (0, 0.3, 2)),
    "add_bushing": lambda m: m.add_bushing("changed bushing", "ground", m.body_names[0], (0.1, 0.2, 0.3), stiffness=60.0),
    "add_contact": lambda m: m.add_contact("changed contact", m.body_names[0], points=[(0.1, 0.2, 0.3)], height=5.0, stiffness=9.0),
    "couple": lambda m: m.couple("changed coupling", {"changed": 1.0, "loose": 2.0}),
    "home": lambda m: setattr(m, "home", m.random(3)),
    "parameter": lambda m: m.parameter("changed", 2.0),
    "tie": lambda m: m.tie(f"{m.body_names[0]}.mass", 3.0 * m.parameter("changed_too", 2.0)),
    "add_actuator": lambda m: m.add_actuator("changed actuator", "changed", kp=3.0),
    "attach": lambda m: m.attach(chain(2), to="changed", prefix="attached_"),
    "lock": lambda m: m.lock({next(name for name in m.body_names if name.startswith("attached_")): 0.3}),
    "remove": lambda m: m.remove(next(name for name in reversed(m.body_names) if name.startswith("attached_"))),
    "rename": lambda m: m.rename("weight", "heavier"),
    "scale": lambda m: m.scale(1.5),
    "close": lambda m: m.close("changed loop", ct.Distance(0.7), "changed", "loose", at_b=(0.0, 0.1, 0.0)),
}


def _add(m: ct.Model) -> None:
    last = m.body_names[-1]
    m.add("weight", ct.sphere(0.2, mass=50.0), ct.Fixed(), parent=last, at=(0.1, 0.2, 0.3))
    m.add("changed", ct.box(0.1, 0.2, 0.3, mass=3.0), ct.Revolute("y"), parent=last, at=(0.2, 0, 0))


def _connect(m: ct.Model) -> None:
    m.add("loose", ct.box(0.3, 0.2, 0.1, mass=2.0))
    m.connect("ground", "loose", ct.Revolute("y"), at_a=(0.5, 0, 0))


#: What of `Model` only reads it.
READS = {
    "actuators", "added", "assemble", "at", "body_names", "bushings", "changes_energy", "connections", "contacts", "copy", "couplings",
    "difference", "draw", "driven_names", "driven_units", "forces", "frames", "friction_speed", "frozen", "gravity", "has_loops",
    "integrate", "joint_names", "keyframes", "links", "loops", "mobility", "neutral", "normalised", "notes", "nq", "nv", "parameters",
    "point_forces", "project_velocity", "python_forces", "q_names", "q_units", "random", "rate", "save", "springs", "submodel", "time",
    "time_dependent", "tree", "v_names", "v_units", "view", "with_values",
}  # fmt: skip


def test_every_part_of_a_model_reads_or_changes_it() -> None:
    m = ct.Model("any")
    assert {name for name in dir(m) if not name.startswith("_")} == READS | CHANGES.keys()
    assert all(hasattr(m, name) for name in INTERNAL), "a name that is gone need not be hidden"


# what is made of a model


def states(m: ct.Model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a batch of states and joint forces, with the loops closed."""
    rng = np.random.default_rng(4)
    if m.has_loops:
        q = np.array([m.assemble(guess=m.random(rng)) for _ in range(8)])
        if m.name == "double rocker":
            q[2:6] = at_dead_centre(m, 4)
        v = np.array([m.project_velocity(x, rng.normal(size=m.nv)) for x in q])
    else:
        q, v = m.random(rng, 8), rng.normal(size=(8, m.nv))
    return q, v, rng.normal(size=(8, m.nv))


def crane() -> ct.Model:
    m = ct.Model("crane")
    m.add("trolley", ct.point_mass(50.0), ct.Driven(ct.Prismatic("x"), lambda t: 0.5 * np.sin(2.0 * t)))
    m.add("load", ct.point_mass(10.0, at=(0, 0, -3)), ct.Revolute("y"), parent="trolley")
    return m


def rates_of(m: ct.Model, v: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    return v[:, [m.v_names.index(name) for name in names]]


def reduced_parts(found: Any, m: ct.Model, q: Any, v: Any, tau: Any) -> list[Any]:
    rate = rates_of(m, v, found.names)
    return [
        found.rates(q, rate), found.basis(q), found.mass_matrix(q), found.accelerations(q, v, rate), found.bias_force(q, v),
        found.positions(q[0, [found.model.q_names.index(name) for name in found.names]] + 0.01, guess=q[0]),
    ]  # fmt: skip


def manipulator_parts(found: Any, m: ct.Model, q: Any, v: Any, tau: Any) -> list[Any]:
    rate = rates_of(m, v, found.actuated)
    x = found.forward_kinematics([0.5, 0.5])
    return [
        found.rates(q, rate), found.jacobian(q), found.accelerations(q, v, rate), found.inverse_dynamics(q, v, rate), found.mass_matrix(q),
        found.forward_dynamics(q, v, rate), *found.singularities(q), *found.complements(x)[:3], x,
        found.inverse_kinematics(ct.poses(found.model)(x)[m.body_names.index(found.platform)], guess=x),
    ]  # fmt: skip


def operator_parts(found: Any, *_: Any) -> list[Any]:
    unit, last = np.eye(found.mass.shape[0]), found.bodies[-1]
    return [found.mass @ unit, found.mass_inverse @ unit, found.log_det_mass, found.operational_inertia_inverse(last), found.psi]


def trajectory_parts(run: Any, *_: Any) -> list[Any]:
    parts = [run.q, run.v, *run.energy, run.energy_change, run.reactions, run.at([0.015]).q]
    return [*parts, run.loop_error] if run.loop_names else parts


def called(kernel: Any, m: ct.Model, q: Any, v: Any, tau: Any) -> list[Any]:
    """Return the results of a kernel, whichever of t, q, v and tau it takes, and what it knows besides."""
    known = {"t": 0.3, "q": q, "v": v, "tau": tau, "vdot": tau, "p": tau}
    if kernel.name == "inverse_dynamics" and m.has_loops:
        known["vdot"] = ct.forward_dynamics(m)(q, v, tau)
    found = kernel(*(known[port.name] for port in kernel.inputs))
    return [*(found if isinstance(found, tuple) else (found,)), getattr(kernel, "unique", 0.0)]


#: Models, and what is made of each: how, and what it gives.
LOOPS = (four_bar, double_rocker, peaucellier)
MADE: dict[str, tuple[Callable[[], ct.Model], Callable[[ct.Model], Any], Callable[..., list[Any]]]] = {
    "iterative": (lambda: chain(3), lambda m: ct.forward_dynamics(m, "conjugate-gradient"), called),
    "jacobian": (lambda: chain(3), lambda m: ct.jacobian(m, "link2", (0.1, 0, 0)), called),
    "operators": (lambda: chain(3), lambda m: ct.operators(m, np.array([0.1, 0.2, 0.3])), operator_parts),
    "driving_forces": (crane, ct.driving_forces, called),
    "forward_dynamics, driven": (crane, ct.forward_dynamics, called),
    "energy, driven": (crane, ct.energy, called),
    "run": (lambda: chain(3), lambda m: ct.simulate(m, np.zeros(3), until=0.02, step=0.01), trajectory_parts),
    "run with loops": (four_bar, lambda m: ct.simulate(m, m.assemble(crank=1.0), until=0.02, step=0.01), trajectory_parts),
    "ParallelManipulator": (
        five_bar_robot, lambda m: ct.ParallelManipulator(m, ["leg1_proximal", "leg2_proximal"]), manipulator_parts,
    ),
    "multipliers": (peaucellier, lambda m: ct.forward_dynamics(m, "fully-recursive/joint"), called),
    "computed_torque": (
        four_bar, lambda m: ct.computed_torque(m, ct.cycloidal(1.0, 2.0, duration=2.0), ["crank"]),
        lambda found, m, q, v, tau: [found(0.5, q[0], v[0])],
    ),
    "inverse_dynamics, actuated": (four_bar, lambda m: ct.inverse_dynamics(m, actuated=["crank"]), called),
}  # fmt: skip
for _name in ("forward_dynamics", "inverse_dynamics", "momenta", "velocities", "hamiltonian_dynamics", "energy", "joint_wrenches", "poses"):
    MADE[_name] = (lambda: chain(3), getattr(ct, _name), called)
for _name in ("mass_matrix", "bias_force", "gravity_force", "coriolis_force", "passive_force", "coriolis_matrix"):
    MADE[_name] = (lambda: chain(3), getattr(ct, _name), called)
for _loop in LOOPS:  # of which but the first have states that the first plan does not serve
    for _name in ("forward_dynamics", "velocities", "hamiltonian_dynamics", "joint_wrenches", "loop_error", "inverse_dynamics"):
        MADE[f"{_name} of {_loop.__name__}"] = (_loop, getattr(ct, _name), called)
    MADE[f"reduced {_loop.__name__}"] = (_loop, ct.reduced, reduced_parts)


@pytest.mark.filterwarnings("ignore::catena.SingularWarning")
@pytest.mark.parametrize("name", MADE)
def test_what_is_made_of_a_model_is_what_it_was_after_every_change_of_it(name: str) -> None:
    build, make, results = MADE[name]
    same, m = build(), build()
    q, v, tau = states(same)
    expected = results(make(same), same, q, v, tau)
    made = make(m)
    for change in CHANGES.values():
        change(m)
    assert m.nv > same.nv
    for found, wanted in zip(results(made, same, q, v, tau), expected, strict=True):
        assert np.asarray(found, dtype=float).tobytes() == np.asarray(wanted, dtype=float).tobytes()


# frozen models


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("taken", ["frozen", "at a time", "of a run", "pickled"])
def test_a_frozen_model_refuses_every_change_and_says_what_to_do(change: str, taken: str) -> None:
    m = {"at a time": crane, "pickled": four_bar}.get(taken, lambda: chain(3))()
    frozen = {
        "frozen": lambda: m.frozen(), "at a time": lambda: m.at(1.0), "pickled": lambda: pickle.loads(pickle.dumps(m.frozen())),
        "of a run": lambda: ct.simulate(m, np.zeros(3), until=0.01).model,
    }[taken]()  # fmt: skip
    before = frozen.body_names
    with pytest.raises(ct.ModelError, match=r"is frozen, .* or a copy, by copy\.copy\(model\)"):
        CHANGES[change](frozen)
    assert frozen.body_names == before


def test_a_model_that_does_not_change_has_one_frozen_model() -> None:
    m = four_bar()
    first = m.frozen()
    m.assemble(crank=1.0)
    ct.forward_dynamics(m)
    assert m.frozen() is first
    assert first.frozen() is first
    assert m.tree() is first.tree()
    seen = [first]
    for change in CHANGES.values():
        change(m)
        assert all(m.frozen() is not one for one in seen)
        seen.append(m.frozen())


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
@pytest.mark.parametrize("frozen", [False, True])
def test_copies_of_models_change_on_their_own(copied: Callable[[Any], Any], frozen: bool) -> None:
    m = four_bar()
    other = copied(m.frozen() if frozen else m)
    q = m.assemble(crank=1.0)
    assert ct.forward_dynamics(other)(q, np.zeros(3), np.ones(3)).tobytes() == ct.forward_dynamics(m)(q, np.zeros(3), np.ones(3)).tobytes()
    for change in CHANGES.values():
        change(other)
    assert m.nv == 3
    assert m.name == "four-bar"
    assert not m.springs


def test_pickles_of_models_are_as_frozen_as_the_models() -> None:
    m = four_bar()
    one, two = (pickle.loads(pickle.dumps(x)) for x in (m, m.frozen()))
    assert one.frozen() is not one
    assert two.frozen() is two
    for arrays in (one, two):
        assert not any(x.flags.writeable for link in arrays.links for x in (link.body.inertia, link.at.R, link.at.p))


def test_a_model_at_a_time_is_not_the_model() -> None:
    m = crane()
    still = m.at(1.0)
    m.add("hook", ct.point_mass(5.0), ct.Revolute("x"), parent="load")
    assert still.body_names == ("trolley", "load")
    plain = chain(3)
    assert plain.at(1.0) is plain.frozen()


def arrays_in(x: Any) -> list[np.ndarray]:
    """Return all arrays that a tree is made of."""
    if isinstance(x, np.ndarray):
        return [x]
    if isinstance(x, Rigid):
        return [x.R, x.p]
    if isinstance(x, Placement):
        return arrays_in(x.factors)
    if isinstance(x, (tuple, list)):
        return [array for part in x for array in arrays_in(part)]
    if hasattr(x, "values") and callable(x.values):
        return arrays_in(tuple(x.values()))
    return arrays_in(tuple(vars(x).values())) if is_dataclass(x) else []


@pytest.mark.parametrize("build", [gallery, four_bar, crane])
def test_arrays_of_trees_bodies_and_poses_are_read_only(build: Callable[[], ct.Model]) -> None:
    m = build()
    m.add_spring("coil", "ground", m.body_names[0], at_b=(0.1, 0.2, 0.3), stiffness=70.0)
    for tree in (m.tree(), m.tree(weld=False), undriven_tree(m, m.tree()), m.tree().at(0.5)):
        found = [*arrays_in(tree), *tree.regrouped]
        assert len(found) > 20
        assert not any(array.flags.writeable for array in found if array.dtype != object)
        with pytest.raises(TypeError):
            tree.frames["ground"] = None  # type: ignore[index]
    for link in m.links:
        assert not link.body.inertia.flags.writeable
        for pose in (link.at, link.outer):
            assert not any(x.flags.writeable for x in (pose.R, pose.p))
            with pytest.raises(ct.ModelError, match="cannot change"):
                pose.p = np.ones(3)


def test_what_a_user_gave_can_change_afterwards() -> None:
    inertia, com, place = np.diag([1.0, 2.0, 2.0]), np.array([0.1, 0.0, 0.0]), np.array([0.5, 0.0, 0.0])
    gravity = np.array([0.0, 0.0, -1.0])
    axis, damping, point = np.array([0.0, 1.0, 0.0]), np.array([0.3]), np.array([0.0, 0.0, 1.0])

    def build() -> ct.Model:
        m = ct.Model("given", gravity=gravity)
        m.add("arm", ct.Body(2.0, com, inertia), ct.Revolute(axis, damping=damping), at=place)
        m.add_spring("coil", "ground", "arm", at_a=point, at_b=point, stiffness=3.0)
        m.add_force("push", lambda t, q, v: np.array([1.0, 2.0, 3.0]), body="arm", point=point)
        return m

    m = build()
    expected = ct.forward_dynamics(m)([0.3], [0.2], [0.1])
    for array in (inertia, com, place, gravity, axis, damping, point):
        array *= 1.5
    assert ct.forward_dynamics(m)([0.3], [0.2], [0.1]) == expected
    assert ct.forward_dynamics(build())([0.3], [0.2], [0.1]) != expected


def test_a_tool_is_the_one_that_was_given() -> None:
    tool = np.array([0.1, 0.0, 0.0])
    robot = ct.ParallelManipulator(five_bar_robot(), ["leg1_proximal", "leg2_proximal"], tool=tool)
    q = robot.forward_kinematics([0.5, 0.5])
    expected = ct.ParallelManipulator(five_bar_robot(), ["leg1_proximal", "leg2_proximal"], tool=(0.1, 0.0, 0.0)).jacobian(q)
    tool[:] = 5.0
    with pytest.raises(ValueError, match="read-only"):
        robot.tool[0] = 5.0
    assert robot.jacobian(q).tobytes() == expected.tobytes()


def test_runs_go_on_with_the_model_that_they_hold(tmp_path: Path) -> None:
    m = four_bar()
    q0 = m.assemble(crank=1.0)
    whole = ct.simulate(m, q0, until=0.04, step=0.01)
    saved = tmp_path / "part.npz"
    part = ct.simulate(m, q0, until=0.04, step=0.01, checkpoint=saved, checkpoint_every=0.0)
    assert part.model is m.frozen()
    for model in (m, part.model, pickle.loads(pickle.dumps(m)), copy.deepcopy(part.model)):
        again = ct.simulate(model, q0, until=0.04, step=0.01, resume=saved)
        assert again.q.tobytes() == whole.q.tobytes()
    file = tmp_path / "run.npz"
    part.save(file)
    loaded = ct.Trajectory.load(file)
    assert loaded.q.tobytes() == part.q.tobytes()
    assert loaded.model.frozen() is loaded.model
    part.model.draw(tmp_path / "model.png", q=part.q[-1])
    assert (tmp_path / "model.png").stat().st_size > 0


# what is made for a model once


def test_a_model_goes_with_all_that_was_made_for_it() -> None:
    def made() -> tuple[weakref.ref, weakref.ref]:
        m = chain(3)
        m.add_force("own", lambda t, q, v: -0.1 * np.arange(float(m.nv)) * v)  # which holds the model
        ct.simulate(m, np.zeros(3), until=0.02, step=0.01)
        ct.rollout(m, np.zeros((2, 3)), step=0.01, steps=2)
        ct.operators(m, np.zeros(3)).mass @ np.ones(3)
        ct.forward_dynamics(m)
        m.once("test", (), lambda: m)
        return weakref.ref(m), weakref.ref(m.frozen())

    references = made()
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_two_threads_that_ask_for_one_thing_get_one() -> None:
    m, together, made = chain(3), threading.Barrier(4), []

    def ask(_: int) -> Any:
        together.wait()
        return m.once("test", "one", lambda: made.append(1) or object())

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(4)))
    assert len(made) == 1
    assert all(one is found[0] for one in found)


@pytest.mark.parametrize("apart", ["models", "kinds", "keys"])
def test_different_things_are_made_at_the_same_time(apart: str) -> None:
    models = [chain(3), chain(3)] if apart == "models" else [chain(3)] * 2
    kinds = ["one", "two"] if apart == "kinds" else ["one"] * 2
    keys = ["one", "two"] if apart == "keys" else ["one"] * 2
    together = threading.Barrier(2, timeout=20.0)  # broken if one waits for the other to be made
    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(lambda at: at[0].once(*at[1:], together.wait), zip(models, kinds, keys, strict=True))) == [0, 1]


def test_what_fails_is_tried_again() -> None:
    m = chain(3)
    with pytest.raises(ZeroDivisionError):
        m.once("test", (), lambda: 1 / 0)
    assert m.once("test", (), lambda: 5) == 5
