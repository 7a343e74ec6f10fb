"""Pairs of features, crossed: what a model is made of, how it comes to its numbers, and where it is computed with.

The numbers of a model are given twice: as numbers, and as formulas of parameters of its own that have other values at first. How these come
to their values is a *story*; what is computed is a *door*. The same door must give the same with both models.
"""

from __future__ import annotations

import contextlib
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tests.explorations.report import Report, near

import catena as ct

Rng = np.random.Generator

#: Kernels agree to this, relative to their size, and runs to that.
KERNELS, RUNS = 1e-9, 1e-6


class Numbers:
    """The numbers of a model: floats, or formulas of parameters whose `values` are given later."""

    def __init__(self, rng: Rng, m: ct.Model, own: bool) -> None:
        self.rng, self.m, self.own = rng, m, own
        self.values: dict[str, float] = {}
        self._made: list[tuple[Any, float]] = []

    def __call__(self, nominal: float, change: float = 0.3) -> Any:
        """Return a number near a nominal one, which may follow a parameter that others follow, too."""
        number = nominal * float(self.rng.uniform(0.8, 1.2))
        if self._made and self.rng.random() < 0.3:
            parameter, value = self._made[self.rng.integers(len(self._made))]
            return parameter * (number / value)
        offset = 0.25 * number * int(self.rng.integers(0, 2))
        value = (number - offset) / 0.5
        parameter: Any = value
        if self.own:
            name = f"p{len(self._made)}"
            parameter = self.m.parameter(name, value * self.rng.uniform(1.0 - change, 1.0 + change))
            self.values[name] = value
        else:
            self.rng.uniform()
        self._made.append((parameter, value))
        return 0.5 * parameter + offset

    def vector(self, *nominal: float) -> tuple:
        return tuple(self(x) if x else 0.0 for x in nominal)


X = Numbers

# what a model begins with


def _arm(m: ct.Model, x: X) -> None:
    length = x(0.5)
    m.add("a", ct.rod(length, mass=x(2.0)), ct.Revolute("y", damping=x(0.1)))
    m.add("a.b", ct.box(x(0.2), 0.1, 0.3, mass=x(1.0)), ct.Revolute("z"), parent="a", at=(length, 0.0, 0.0))
    m.add("c", ct.cylinder(0.4, x(0.05), mass=1.0), ct.Prismatic("x", stiffness=x(20.0)), parent="a.b", at=(0.1, 0.0, x(0.1)))


def _four_bar(m: ct.Model, x: X) -> None:
    crank = x(0.3, 0.05)
    m.add("a", ct.rod(crank, mass=x(1.5)), ct.Revolute("y"))
    m.add("a.b", ct.rod(1.0, mass=5.0), ct.Revolute("y", damping=x(0.2)), parent="a", at=(crank, 0, 0))
    m.add("c", ct.rod(0.6, mass=x(3.0)), ct.Revolute("y"), at=(x(1.0, 0.05), 0, 0))
    m.close("pin", ct.Revolute("y"), "a.b", "c", at_a=(1.0, 0, 0), at_b=(0.6, 0, 0))


def _slider_crank(m: ct.Model, x: X) -> None:
    crank = x(0.2, 0.05)
    m.add("a", ct.rod(crank, mass=x(1.0)), ct.Revolute("y"))
    m.add("a.b", ct.rod(0.8, mass=x(2.0)), ct.Revolute("y"), parent="a", at=(crank, 0, 0))
    m.add("c", ct.point_mass(x(1.0)), ct.Prismatic("x", friction=x(0.3)))
    m.close("pin", ct.Spherical(), "a.b", "c", at_a=(0.8, 0, 0))


def _geared(m: ct.Model, x: X) -> None:
    m.add("a", ct.cylinder(0.05, x(0.2), mass=x(1.0)), ct.Revolute("z", armature=x(0.05)))
    m.add("a.b", ct.cylinder(0.05, 0.1, mass=1.0), ct.Revolute("z"), at=(0.3, 0, 0))
    m.add("c", ct.rod(x(0.4), mass=x(0.5)), ct.Revolute("y"), parent="a.b", at=(0.1, 0, 0))
    m.couple("gear", {"a": 1.0, "a.b": 2.0})


def _floating(m: ct.Model, x: X) -> None:
    m.add("a", ct.box(0.4, 0.3, x(0.2), mass=x(5.0)), ct.Free())
    m.add("a.b", ct.rod(x(0.4), mass=x(0.7)), ct.Spherical(damping=x(0.2)), parent="a", at=x.vector(0.2, 0.1, 0.0))
    m.add("c", ct.sphere(x(0.1), mass=1.0), ct.Fixed(), parent="a.b", at=(0.4, 0.0, 0.0))


def _driven(m: ct.Model, x: X) -> None:
    swing = x(0.3)
    m.add("a", ct.rod(0.3, mass=x(1.0)), ct.Driven(ct.Revolute("y", damping=x(0.5)), lambda t: swing * np.sin(3.0 * t)))
    m.add("a.b", ct.rod(x(0.5), mass=1.0), ct.Universal("x", "y"), parent="a", at=(0.3, 0, 0))
    m.add("c", ct.rod(0.3, mass=x(1.0)), ct.Helical("x", pitch=0.1), parent="a.b", at=(0.5, 0, 0))


def _planar(m: ct.Model, x: X) -> None:
    radius = x(0.3)
    m.add("a", ct.box(0.2, 0.2, 0.2, mass=x(1.0)), ct.Planar("z", damping=x(0.1)))
    m.add("a.b", ct.sphere(x(0.1), mass=x(0.5)), ct.Cylindrical("z"), parent="a")
    bow = ct.Custom(lambda q: (np.eye(3), np.array([radius * np.sin(q[0]), 0.0, radius * (1.0 - np.cos(q[0]))])), 1)
    m.add("c", ct.point_mass(x(0.4)), bow, parent="a.b", at=(0, 0, 0.2))


BASES: dict[str, Callable[[ct.Model, X], None]] = {
    "arm": _arm, "four-bar": _four_bar, "slider-crank": _slider_crank, "geared": _geared, "floating": _floating, "driven": _driven,
    "planar": _planar,
}  # fmt: skip

# what is added


def _joint_force(m: ct.Model, x: X) -> None:
    k = x(0.7)
    m.add_force("joints", lambda t, q, v: -k * v)


def _body_force(m: ct.Model, x: X) -> None:
    k = x(0.7)
    m.add_force("push", lambda t, q, v: [k, 0.2 * k * q[0], 0.0], body="c", point=x.vector(0.1, 0.0, 0.1))


def _timed_force(m: ct.Model, x: X) -> None:
    k = x(0.7)
    m.add_force("timed", lambda t, q, v: [0.0, k * np.cos(3.0 * t), k], body="a.b")


def _drag(m: ct.Model, x: X) -> None:
    k = x(0.2)
    m.add_point_force("drag", "c", (0.1, 0.0, x(0.1)), lambda t, position, velocity: -k * velocity)


def _cable(m: ct.Model, x: X) -> None:
    k = x(30.0)
    m.add_line_force("cable", "ground", "c", lambda t, length, rate: k * length + rate, x.vector(0.0, 1.0, 1.5), x.vector(0.1, 0.0, 0.0))


def _spring(m: ct.Model, x: X) -> None:
    m.add_spring("coil", "a", "ground", x.vector(0.1, 0.0, 0.0), x.vector(0.3, 0.4, 1.0), stiffness=x(30.0), damping=x(0.3), length=x(0.2))


def _hard_spring(m: ct.Model, x: X) -> None:
    m.add_spring("hard", "a.b", "ground", (0, 0, 0), (0.3, 0.4, -1.0), stiffness=x(30.0), cubic=x(10.0), slack=True, length=0.2)


def _bushing(m: ct.Model, x: X) -> None:
    m.add_bushing("rubber", "a", "a.b", x.vector(0.2, 0.0, 0.0), stiffness=x(20.0), damping=x(0.5), turning_stiffness=x(2.0))


def _floor(m: ct.Model, x: X) -> None:
    shape = ct.Geometry("capsule", (x(0.2), x(0.1)), x.vector(0.1, 0.0, 0.0))
    m.add_contact("floor", "c", shape, height=x(0.5), friction=x(0.6), stiffness=x(500.0), dissipation=x(0.5), slip_speed=x(0.05))


def _ball(m: ct.Model, x: X) -> None:
    m.add("ball", ct.sphere(x(0.15), mass=x(0.5)), ct.Fixed(), parent="c", at=(0.05, 0.0, 0.0))
    m.add_contact("bounce", "ball", height=0.4, penetration=0.02, slip_speed=0.05)


def _balls(m: ct.Model, x: X) -> None:
    m.add("first", ct.sphere(x(0.3), mass=0.5), ct.Fixed(), parent="a")
    m.add("second", ct.sphere(0.3, mass=x(0.5)), ct.Fixed(), parent="c")
    m.add_contact("click", "first", against="second", penetration=0.05, slip_speed=0.05)


def _tip(m: ct.Model, x: X) -> None:
    m.add("tip", ct.rod(x(0.2), mass=x(0.3)), ct.Revolute("y", stiffness=x(3.0), rest=x(0.2)), parent="c", at=x.vector(0.1, 0.0, 0.1))


def _stopped(m: ct.Model, x: X) -> None:
    joint = ct.Revolute("y", limits=(-0.3, 0.4), stop_stiffness=x(100.0), stop_damping=x(0.1), friction=x(0.1))
    m.add("flap", ct.rod(0.2, mass=0.3), joint, parent="a")


def _rocker(m: ct.Model, x: X) -> None:
    swing = x(0.2)
    joint = ct.Driven(ct.Prismatic("z", stiffness=x(3.0)), lambda t: swing * t)
    m.add("shaken", ct.point_mass(x(0.3)), joint, parent="a.b", at=(0.1, 0, 0))


def _bead(m: ct.Model, x: X) -> None:
    k = x(0.4)
    joint = ct.Custom(lambda q: (np.eye(3), np.array([q[0], 0.0, k * q[0] ** 2])), 1, damping=x(0.1))
    m.add("bead", ct.point_mass(x(0.2)), joint, parent="c")


def _strut(m: ct.Model, x: X) -> None:
    m.add("strut", ct.box(0.1, 0.2, 0.1, mass=x(0.5)), ct.Planar("y"), parent="a", at=(0.1, 0.0, 0.3))
    m.close("rope", ct.Distance(x(0.4, 0.05)), "strut", "a", at_b=x.vector(0.1, 0.0, 0.0))


def _wheels(m: ct.Model, x: X) -> None:
    m.add("w1", ct.cylinder(0.02, 0.1, mass=x(0.3)), ct.Revolute("z", damping=x(0.1)), parent="a")
    m.add("w2", ct.cylinder(0.02, x(0.1), mass=0.3), ct.Revolute("z"), parent="a", at=(0.2, 0, 0))
    m.couple("mesh", {"w1": 1.0, "w2": -1.5})


def _raised(m: ct.Model, x: X) -> None:
    height = x(0.05)
    if x.own:
        m.tie("a.at.xyz", [0.0, 0.0, height])
    else:
        x.m = m.with_values({"a.at.xyz": [0.0, 0.0, height]})


def _weight(m: ct.Model, x: X) -> None:
    gravity = x(4.0)
    if x.own:
        m.tie("gravity", [0.0, gravity, -8.0])
    else:
        x.m = m.with_values({"gravity": [0.0, gravity, -8.0]})


def _framed(m: ct.Model, x: X) -> None:
    m.add_frame("mark", "c", x.vector(0.1, 0.0, 0.1))
    m.add_spring("marked", "ground", "mark", x.vector(0.0, 0.0, 1.0), stiffness=x(20.0))
    m.add_point_force("held", "mark", (0.0, 0.1, 0.0), lambda t, position, velocity: -0.3 * velocity)


def _motor(m: ct.Model, x: X) -> None:
    m.add_actuator("motor", _single(m)[0], gear=3.0)


def _servo(m: ct.Model, x: X) -> None:
    m.add_actuator("coil", _single(m)[-1], kp=20.0, kv=1.0)


def _single(m: ct.Model) -> list[str]:
    """Return the coordinates that actuators can have."""
    names = [name for name in m.q_names if name in m.v_names]
    if not names:
        raise ct.ModelError("no coordinate has an actuator")
    return names


FEATURES: dict[str, Callable[[ct.Model, X], None]] = {
    "joint force": _joint_force, "body force": _body_force, "timed force": _timed_force, "drag": _drag, "cable": _cable, "spring": _spring,
    "hard spring": _hard_spring, "bushing": _bushing, "floor": _floor, "ball": _ball, "balls": _balls, "tip": _tip, "stopped": _stopped,
    "shaken": _rocker, "bead": _bead, "strut": _strut, "wheels": _wheels, "raised": _raised, "weight": _weight, "motor": _motor,
    "servo": _servo, "framed": _framed,
}  # fmt: skip


#: What model files can hold.
IN_FILES = {
    *("arm", "four-bar", "slider-crank", "geared", "floating"),
    *("spring", "hard spring", "bushing", "floor", "ball", "balls", "tip", "stopped", "strut", "wheels", "raised", "weight"),
    *("motor", "servo"),
}


class Case(NamedTuple):
    """A model that follows parameters, the values that these are still to be given, and the gain that functions of runs read."""

    m: ct.Model
    values: dict[str, float]
    gain: Any


# how a model comes to its numbers


def _given(case: Case, rng: Rng) -> Case:
    return Case(case.m.with_values(case.values), {}, case.gain)


def _as_inputs(case: Case, rng: Rng) -> Case:
    return case


def _some_as_inputs(case: Case, rng: Rng) -> Case:
    now = {path: value for path, value in case.values.items() if rng.random() < 0.5}
    return Case(case.m.with_values(now), {path: value for path, value in case.values.items() if path not in now}, case.gain)


def _file(m: ct.Model) -> ct.Model:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.toml"
        m.save(path)
        return ct.load(path)


def _saved(case: Case, rng: Rng) -> Case:
    return Case(_file(case.m).with_values(case.values), {}, case.gain)


def _saved_later(case: Case, rng: Rng) -> Case:
    return Case(_file(case.m.with_values(case.values)), {}, case.gain)


def _saved_for_inputs(case: Case, rng: Rng) -> Case:
    return Case(_file(case.m), case.values, case.gain)


def _attached(case: Case, rng: Rng) -> Case:
    if "gravity" in case.m.parts.ties:
        raise ct.ModelError("gravity does not go along")
    m = ct.Model(case.m.name, gravity=case.m.gravity, friction_speed=case.m.friction_speed)
    m.attach(case.m, prefix="x_")
    values = {f"x_{path}": value for path, value in case.values.items()}
    return Case(m.with_values(values), {}, None) if rng.random() < 0.5 else Case(m, values, None)


def _renamed(case: Case, rng: Rng) -> Case:
    m = case.m.copy()
    m.rename("a", "shank")
    return Case(m.with_values(case.values), {}, case.gain)


def _parameter_renamed(case: Case, rng: Rng) -> Case:
    name = str(rng.choice(list(case.values)))
    m = case.m.copy()
    m.rename(name, "renamed")
    return Case(m, {"renamed" if path == name else path: value for path, value in case.values.items()}, None)


def _copied(case: Case, rng: Rng) -> Case:
    return Case(case.m.copy().with_values(case.values), {}, case.gain)


def _cut(case: Case, rng: Rng) -> Case:
    m = case.m.copy()
    m.add("spare", ct.point_mass(1.0), ct.Prismatic("x"), parent="c")
    m.add("spare.more", ct.point_mass(1.0), ct.Revolute("x"), parent="spare")
    m.remove("spare", "spare.more")
    return Case(m.with_values(case.values), {}, case.gain)


def _scaled(case: Case, rng: Rng) -> Case:
    m = case.m.copy()
    m.scale(2.0, 3.0)
    m.scale(0.5, 1.0 / 3.0)
    return Case(m.with_values(case.values), {}, case.gain)


def _placed(case: Case, rng: Rng) -> Case:
    """Attach the model to a frame of another one, at the ground's place, and take a part that was added there away again."""
    if "gravity" in case.m.parts.ties:
        raise ct.ModelError("gravity does not go along")
    m = ct.Model(case.m.name, gravity=case.m.gravity, friction_speed=case.m.friction_speed)
    m.add_frame("stand", "ground", (0.3, 0.0, 0.0))
    m.attach(case.m, to="stand", at=(-0.3, 0.0, 0.0), prefix="y_")
    return Case(m, {f"y_{path}": value for path, value in case.values.items()}, None)


def _locked(case: Case, rng: Rng) -> Case:
    """Lock a joint and take away what it carries."""
    m = case.m.copy()
    carrier = m.body_names[-1]
    m.add(f"{carrier}.b", ct.point_mass(1.0), ct.Revolute("x"), parent=carrier)
    m.add(f"{carrier}.b.c", ct.point_mass(1.0), ct.Revolute("x"), parent=f"{carrier}.b")
    m.lock({f"{carrier}.b": 0.3})
    m.remove(f"{carrier}.b")
    return Case(m, case.values, case.gain)


def _in_file(case: Case, rng: Rng) -> Case:
    return Case(_file(case.m), case.values, case.gain)


def _in_other_names(case: Case, rng: Rng) -> Case:
    """Rename a thing that is no body, and back, and a parameter."""
    m = case.m.copy()
    things = [*m.springs, *m.bushings, *m.contacts, *m.loops, *m.couplings, *m.frames, *m.actuators, *m.point_forces, *m.forces]
    if things:
        name = things[rng.integers(len(things))].name
        m.rename(name, f"{name}'")
    name = str(rng.choice(list(case.values)))
    m.rename(name, f"{name}_new")
    return Case(m, {f"{path}_new" if path == name else path: value for path, value in case.values.items()}, None)


def _tuned(case: Case, rng: Rng) -> Case:
    """Give all parameters values that are not those of the end."""
    return Case(case.m.with_values({path: 1.1 * value for path, value in case.values.items()}), case.values, case.gain)


def _smaller(case: Case, rng: Rng) -> Case:
    m = case.m.copy()
    m.scale(2.0, 3.0)
    m.scale(0.5, 1.0 / 3.0)
    return Case(m, case.values, case.gain)


def _several(case: Case, rng: Rng) -> Case:
    """Let some of these follow each other, and give the values in the end, or leave them as inputs."""
    changes = [_placed, _locked, _in_other_names, _tuned, _smaller]
    try:
        _file(case.m)
        changes.append(_in_file)
    except ct.ModelFileError:  # there are functions
        pass
    for i in rng.choice(len(changes), 3, replace=False):
        case = changes[i](case, rng)
    return _given(case, rng) if rng.random() < 0.5 else case


STORIES: dict[str, Callable[[Case, Rng], Case]] = {
    "given": _given, "inputs": _as_inputs, "some inputs": _some_as_inputs, "saved": _saved, "saved later": _saved_later,
    "saved for inputs": _saved_for_inputs, "attached": _attached, "renamed": _renamed, "parameter renamed": _parameter_renamed,
    "copied": _copied, "cut": _cut, "scaled": _scaled, "several": _several,
}  # fmt: skip

# what is computed


class At(NamedTuple):
    """A state and what goes with it."""

    t: float
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray


def _kernel(make: Callable[..., Any], names: str) -> Callable[[Case, At], Any]:
    def door(case: Case, at: At) -> Any:
        kernel = make(case.m, parameters=tuple(case.values))
        arguments = [getattr(at, name) for name in names]
        if kernel.inputs[0].name == "t":
            arguments = [at.t, *arguments]
        return kernel(*arguments, **case.values)

    return door


def _derivative(case: Case, at: At) -> Any:
    kernel = ct.forward_dynamics(case.m, parameters=tuple(case.values))
    timed = [at.t] if case.m.time_dependent or case.m.driven_names else []
    return [kernel.jacobian("vdot", name)(*timed, at.q, at.v, at.u, **case.values) for name in ("q", "v", "tau")]


def _with_wrenches(case: Case, at: At) -> Any:
    bodies = [frame.name for frame in case.m.frames if frame.body != "ground"] or [case.m.body_names[-1]]
    kernel = ct.forward_dynamics(case.m, parameters=tuple(case.values), wrenches=bodies)
    timed = [at.t] if kernel.inputs[0].name == "t" else []
    return kernel(*timed, at.q, at.v, at.u, wrenches=np.tile([0.1, -0.2, 0.3, 1.0, -2.0, 3.0], (len(bodies), 1)), **case.values)


def _stepper(case: Case, at: At) -> Any:
    controls = bool(case.m.actuators)
    kernel = ct.stepper(case.m, 2e-3, substeps=3, parameters=tuple(case.values), controls=controls)
    timed = [at.t] if case.m.time_dependent or case.m.driven_names else []
    return kernel(*timed, at.q, at.v, at.u[: len(case.m.actuators)] if controls else at.u, **case.values)


def _simulate(case: Case, at: At, **options: Any) -> Any:
    run = ct.simulate(case.m, at.q, at.v, until=at.t + 0.05, start=at.t, parameters=case.values or None, **options)
    return [run.q[-1], run.v[-1], run.vdot[-1]]


def _controlled(case: Case, at: At, integrator: str = "auto") -> Any:
    gain = case.gain
    events = [ct.Event("level", lambda t, q, v: v[0] - gain * at.v[0], "record")]
    return _simulate(case, at, controller=lambda t, q, v: -gain * v, events=events, step=2e-3, integrator=integrator)


def _pushed(case: Case, at: At) -> Any:
    gain = case.gain
    return _simulate(case, at, wrenches={case.m.body_names[-1]: lambda t, q, v: [0.0, 0.0, 0.0, gain, 0.0, gain * t]}, step=2e-3)


def _rollout(case: Case, at: At, **options: Any) -> Any:
    q, v = np.array([at.q, at.q]), np.array([at.v, 0.5 * at.v])
    if case.m.has_loops:
        v[1] = 0.5 * at.v if not case.m.driven_names else at.v
    run = ct.rollout(case.m, q, v, None, 2e-3, 20, tau=np.tile(at.u, (2, 20, 1)), start=at.t, parameters=case.values or None, **options)
    return [run.q, run.v]


def _watched(case: Case, at: At) -> Any:
    gain = case.gain
    run = ct.rollout(
        case.m, at.q, at.v, None, 2e-3, 20, tau=np.tile(at.u, (20, 1)), start=at.t, parameters=case.values or None,
        stop=lambda t, q, v: t - at.t > 0.02 * gain, observe=lambda t, q, v: gain * v,
    )  # fmt: skip
    return [run.observed] if hasattr(run, "observed") else [run.q]


def _gradient(case: Case, at: At) -> Any:
    gain = case.gain
    result = ct.rollout_gradient(
        case.m, at.q, at.v, tau=np.tile(at.u, (10, 1)), step=2e-3, steps=10, start=at.t, parameters=case.values or None,
        cost=lambda t, q, v, tau: gain * (q[0] ** 2 + v @ v), final_cost=lambda t, q, v: gain**2 * v[0],
    )  # fmt: skip
    return [result.value, result.q0, result.v0, result.controls]


def _simulated_gradient(case: Case, at: At) -> Any:
    gain = case.gain
    result = ct.simulate_gradient(
        case.m, at.q, at.v, until=at.t + 0.02, step=2e-3, start=at.t, parameters=case.values or None,
        cost=lambda t, q, v, tau: gain * (q[0] ** 2 + v @ v), final_cost=lambda t, q, v: gain**2 * v[0],
    )  # fmt: skip
    return [result.value, result.q0, result.v0]


def _run(**options: Any) -> Callable[[Case, At], Any]:
    return lambda case, at: _simulate(case, at, **options)


DOORS: dict[str, Callable[[Case, At], Any]] = {
    "forward dynamics": _kernel(ct.forward_dynamics, "qvu"), "inverse dynamics": _kernel(ct.inverse_dynamics, "qvu"),
    "gravity force": _kernel(ct.gravity_force, "q"), "coriolis force": _kernel(ct.coriolis_force, "qv"),
    "passive force": _kernel(ct.passive_force, "qv"), "coriolis matrix": _kernel(ct.coriolis_matrix, "qv"),
    "mass matrix": _kernel(ct.mass_matrix, "q"), "bias force": _kernel(ct.bias_force, "qv"), "energy": _kernel(ct.energy, "qv"),
    "poses": _kernel(ct.poses, "q"), "momenta": _kernel(ct.momenta, "qv"), "joint wrenches": _kernel(ct.joint_wrenches, "qvu"),
    "wrenches": _with_wrenches, "derivatives": _kernel(ct.forward_dynamics_derivatives, "qvu"),
    "inverse derivatives": _kernel(ct.inverse_dynamics_derivatives, "qvu"), "jacobians": _derivative, "stepper": _stepper,
    "simulate": _run(), "simulate, implicit": _run(integrator="rang-angermann"),
    "simulate, fixed": _run(step=2e-3), "simulate, fixed, implicit": _run(step=2e-3, integrator="rang-angermann"),
    "simulate, gauss": _run(step=2e-3, integrator="gauss-legendre-4"), "controlled": _controlled, "pushed": _pushed,
    "rollout": _rollout, "watched": _watched, "rollout gradient": _gradient, "simulate gradient": _simulated_gradient,
}  # fmt: skip

#: Doors whose functions read the gain.
READ_GAIN = ("controlled", "pushed", "watched", "rollout gradient", "simulate gradient")


def build(rng_seed: Any, base: str, features: tuple[str, ...], own: bool, between: bool = False) -> Case:
    """Return a model of a base with features; `between` gives the values before the last feature."""
    m = ct.Model(base, gravity=(0.4, 0.2, -9.5))
    x = Numbers(np.random.default_rng(rng_seed), m, own)
    gain = x(0.8)
    BASES[base](m, x)
    for i, feature in enumerate(features):
        if between and i == len(features) - 1:
            m = x.m = m.with_values(x.values)
            x.values.clear()
        FEATURES[feature](m, x)
        m = x.m
    return Case(m, x.values, gain)


def explore(seed: int, base: str = "", features: tuple[str, ...] = (), story: str = "", door: str = "") -> Report:
    """Return what a pair of features shows, drawn by the seed unless named."""
    rng = np.random.default_rng([seed, 11])
    drawn_story = str(rng.choice([*STORIES, "between", "between", "several", "several", "several"]))
    drawn_door = str(rng.choice(list(DOORS)))
    story, door = story or drawn_story, door or drawn_door
    bases, added = ([n for n in names if n in IN_FILES or not story.startswith("saved")] for names in (BASES, FEATURES))
    drawn = str(rng.choice(bases)), tuple(map(str, rng.choice(added, 2, replace=False)))
    base, features = base or drawn[0], features or drawn[1]
    name = f"{base} + {' + '.join(features)}, {story}, {door}"
    report = Report(name, seed)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        try:
            plain = build(seed, base, features, own=False)
            plain.m.tree()
            at = _state(plain.m, rng)
            if door.startswith("inverse") and plain.m.has_loops:  # accelerations that keep the loops closed
                at = at._replace(u=DOORS["forward dynamics"](plain, at))
            expected = DOORS[door](plain, at)
        except (ct.ModelError, ct.ArgumentError, ct.SimulationError, ct.MethodError, ct.TraceError) as error:
            report.counts[f"no reference: {door}: {str(error)[:60]}"] += 1
            return report
        except Exception:
            report.fail("reference", traceback.format_exc(limit=-4))
            return report
        try:
            case = build(seed, base, features, own=True, between=story == "between")
            case = _given(case, rng) if story == "between" else STORIES[story](case, rng)
            if case.gain is None:
                case = Case(case.m, case.values, plain.gain)
        except (ct.ModelError, ct.ArgumentError, ct.ModelFileError) as error:
            report.counts[f"refused: {str(error)[:60]}"] += 1
            return report
        except Exception:
            report.fail(f"story {story}", traceback.format_exc(limit=-4))
            return report
        try:
            found = DOORS[door](case, at)
        except Exception:
            report.fail(door, traceback.format_exc(limit=-4))
            return report
    report.counts["pairs of features"] += 1
    report.counts[f"story {story}"] += 1
    report.counts[f"door {door}"] += 1
    tolerance = KERNELS if door in list(DOORS)[:11] else RUNS
    for part, (a, b) in enumerate(zip(_parts(found), _parts(expected), strict=True)):
        if not near(a, b) <= tolerance:
            report.fail(door, f"result {part} differs by {near(a, b):.1e}")
            break
    return report


def _parts(result: Any) -> list[np.ndarray]:
    return [np.asarray(x, dtype=float) for x in (result if isinstance(result, (tuple, list)) else [result])]


def _state(m: ct.Model, rng: Rng) -> At:
    """Return a random state that closes the loops."""
    t = 0.3
    timed = {"t": t} if m.driven_names else {}
    q, v = m.random(rng), rng.normal(size=m.nv)
    if m.has_loops:
        for _ in range(5):
            with contextlib.suppress(ct.ModelError):
                q = m.assemble(guess=m.random(rng), **timed)
                break
        else:
            q = m.assemble(**timed)
        v = m.project_velocity(q, v, **timed)
    return At(t, q, v, rng.normal(size=m.nv))
