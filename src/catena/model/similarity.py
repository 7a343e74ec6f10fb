"""Models of another size that move alike: lengths by a factor, times by its root, for gravity stays the same."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.model import parameters
from catena.model.actuators import Actuator
from catena.model.bodies import Body, Geometry
from catena.model.composition import with_own_coordinates
from catena.model.driven import Driven, Harmonic, undriven
from catena.model.joints import Custom, Helical, Joint
from catena.model.mechanism import Mechanism
from catena.model.motions import as_rigid
from catena.model.parts import Parts
from catena.model.renaming import tables
from catena.model.spanning_tree import Link, coordinate_name
from catena.model.user_functions import Wrapped, wrapped
from catena.spatial import Rigid

#: Tables of things whose scales are known.
_KNOWN = {"bushings", "contacts", "frames", "point_forces", "springs", "forces", "closures", "couplings", "connections", "actuators"}


@dataclass(frozen=True)
class Similarity:
    """Factors of lengths and masses, and what follows from them with gravity as it is: of times, energies and the rest."""

    length: float
    mass: float

    @property
    def time(self) -> float:
        return float(np.sqrt(self.length))

    @property
    def energy(self) -> float:
        return self.mass * self.length

    def positions(self, units: tuple[str, ...]) -> np.ndarray:
        """Return the factors of coordinates of these units: lengths, and numbers without one."""
        return np.array([self.length if unit in ("m", "m/s") else 1.0 for unit in units])

    def options(self, joint: Joint) -> dict[str, np.ndarray]:
        """Return the factors of the options of a joint."""
        Q, E, T = self.positions(joint.v_units), self.energy, self.time
        return {
            "damping": E * T / Q**2, "stiffness": E / Q**2, "friction": E / Q, "armature": E * T**2 / Q**2, "stop_stiffness": E / Q**2,
            "stop_damping": T / Q, "effort": E / Q, "velocity": Q / T, "rest": self.positions(joint.q_units), "lower": Q, "upper": Q,
        }  # fmt: skip

    def unit(self, units: np.ndarray) -> float:
        """Return the factor of a sum of coordinates: that of lengths, if one is among them."""
        return float(units.max() if self.length > 1.0 else units.min())


def scaled(m: Mechanism, s: Similarity) -> Parts:
    """Return the parts of a mechanism of another size."""
    for kind, table in tables(m.parts).items():
        if table and kind not in _KNOWN:
            raise ModelError(f"scale: {kind} of model '{m.name}' cannot be scaled; remove them first, and add them again")
    factors = _factors(m, s)
    free = with_own_coordinates(m)
    free.ties = {}
    untied = Mechanism(free)
    numbers = untied.parameters()
    whole = [path for path in numbers if not path.endswith((".at", ".at_a", ".at_b", ".at_body")) or f"{path}.xyz" not in numbers]
    changed = {path: numbers[path].value * factors[path] for path in whole if path in factors and not np.array_equal(factors[path], 1.0)}
    parts = parameters.replaced(untied, changed)
    followed = parameters.ties(m)
    parts.ties = {path: np.array(np.asarray(factors.get(path, 1.0)) * x, dtype=object) for path, x in followed.items()}
    for name, added in parts.added.items():
        joint = {"joint": _joint(added.joint, s)} if isinstance(added, Link) else {}
        parts.added[name] = replace(added, body=_body(added.body, s), **joint)
    for name, connection in parts.connections.items():
        if isinstance(connection.joint, Joint):
            parts.connections[name] = replace(connection, joint=_joint(connection.joint, s))
    for name, closure in parts.closures.items():
        if isinstance(closure.joint, Helical):
            parts.closures[name] = replace(closure, joint=_joint(closure.joint, s))
    for name, contact in parts.contacts.items():
        shapes, against = (tuple(_look(look, s.length) for look in looks) for looks in (contact.shapes, contact.against_shapes))
        points = tuple(tuple(s.length * x for x in point) for point in contact.points)
        parts.contacts[name] = replace(contact, shapes=shapes, against_shapes=against, points=points)
    q, v = s.positions(m.q_units), s.positions(m.v_units)
    units = dict(zip(m.q_names, q, strict=True)), dict(zip(m.v_names, v, strict=True))
    for name, force in parts.forces.items():
        assert force.part is not None
        of_q, of_v = (np.array([by[x] if isinstance(x, str) else 1.0 for x in own]) for by, own in zip(units, force.part, strict=True))
        result = s.energy / of_v if force.body is None else None
        parts.forces[name] = replace(force, function=wrapped(force.function, lambda f, a=(of_q, of_v, result): _Force(f, s, *a)))
    for name, force in parts.point_forces.items():
        parts.point_forces[name] = replace(force, function=wrapped(force.function, lambda f: _PointForce(f, s)))
    parts.friction_speed = _friction_speed(m, s)
    parts.actuators = {name: _actuator(one, s, units[0]) for name, one in parts.actuators.items()}
    parts.home = None if parts.home is None else parts.home * q
    parts.keyframes = {name: frame * q for name, frame in parts.keyframes.items()}
    return parts


def _friction_speed(m: Mechanism, s: Similarity) -> float | tuple[float, float]:
    """Return the speed over which friction is smoothed in another size: of angles and of displacements, or of the kind that there is."""
    turning, sliding = np.broadcast_to(m.friction_speed, 2) * [1.0 / s.time, s.length / s.time]
    kinds = {unit == "m/s" for link in m.links for unit in undriven(link.joint).v_units}
    if len(kinds) == 2 or isinstance(m.friction_speed, tuple):
        return (float(turning), float(sliding))
    return float(sliding if kinds == {True} else turning)


def _factors(m: Mechanism, s: Similarity) -> dict[str, Any]:
    """Return the factors of the numbers of a mechanism, by path, but for its own parameters, gravity and the speed of friction."""
    E, T, L = s.energy, s.time, s.length
    found: dict[str, Any] = {}

    def pose(path: str) -> None:
        found.update({path: np.array([L, L, L, 1.0, 1.0, 1.0]), f"{path}.xyz": L})

    q = {}
    for link in m.links:
        name, joint = link.name, undriven(link.joint)
        found |= {f"{name}.mass": s.mass, f"{name}.com": L, f"{name}.inertia": s.mass * L**2}
        pose(f"{name}.at")
        pose(f"{name}.at_body")
        found |= {f"{name}.{key}": x[0] if len(x) == 1 else x for key, x in s.options(joint).items() if len(x)}
        q |= {coordinate_name(name, label): x for label, x in zip(joint.q_labels, s.positions(joint.q_units), strict=True)}
    for frame in m.frames:
        pose(f"{frame.name}.at")
    for closure in m.loops:
        pose(f"{closure.name}.at_a")
        pose(f"{closure.name}.at_b")
        found[f"{closure.name}.length"] = L
    for coupling in m.couplings:
        K = s.unit(np.array([q[key] for key, _ in coupling.coefficients]))
        found |= {f"{coupling.name}.{key}": K / q[key] for key, _ in coupling.coefficients} | {f"{coupling.name}.offset": K}
    for spring in m.springs:
        found |= {f"{spring.name}.{key}": L for key in ("at_a", "at_b", "length")}
        found |= {f"{spring.name}.stiffness": E / L**2, f"{spring.name}.damping": E * T / L**2, f"{spring.name}.cubic": E / L**4}
    for bushing in m.bushings:
        pose(f"{bushing.name}.at_a")
        pose(f"{bushing.name}.at_b")
        scales = {"stiffness": E / L**2, "damping": E * T / L**2, "turning_stiffness": E, "turning_damping": E * T}
        found |= {f"{bushing.name}.{key}": x for key, x in scales.items()}
    for contact in m.contacts:
        scales = {"stiffness": E / L ** (1.0 + contact.exponent), "dissipation": T / L, "slip_speed": L / T, "height": L}
        found |= {f"{contact.name}.{key}": x for key, x in scales.items()}
    found |= {f"{force.name}.{key}": L for force in m.point_forces for key in ("at", "at_other")}
    found |= {f"{force.name}.point": L for force in m.forces if force.body is not None}
    L = s.length
    return found | {path: L for path, *_ in parameters.looks(m)}


def _body(body: Body, s: Similarity) -> Body:
    return replace(body, geometry=tuple(_look(look, s.length) for look in body.geometry)) if body.geometry else body


def _look(look: Geometry, length: float) -> Geometry:
    return replace(look, size=tuple(length * x for x in look.size), center=tuple(length * x for x in look.center))


def _joint(joint: Joint, s: Similarity) -> Joint:
    """Return a joint with what is not among the numbers of a model: limits with one end, largest forces and speeds, pitch, functions."""
    if isinstance(joint, Driven):
        inner, Q = _joint(joint.joint, s), s.positions(joint.joint.q_units)
        if isinstance(joint.function, Harmonic):
            rates = {"offset": Q, "rate": Q / s.time, "amplitude": Q, "frequency": 1.0 / s.time, "phase": 1.0}
            parts = {f.name: _one(np.asarray(getattr(joint.function, f.name)) * rates[f.name]) for f in fields(Harmonic)}
            return Driven(inner, Harmonic(**parts))
        return Driven(inner, _Motion(joint.function, s.time, tuple(Q.tolist())))
    factors, changed = s.options(joint), dict[str, Any]()
    for option in ("effort", "velocity"):
        if getattr(joint, option) is not None:
            changed[option] = tuple((np.array(getattr(joint, option)) * factors[option]).tolist())
    partial = not (np.isfinite(joint.lower).all() and np.isfinite(joint.upper).all())
    if joint.limits is not None and partial:
        numbered = [np.isfinite(end).all() for end in (joint.lower, joint.upper)]  # those are numbers of the model, and scaled
        ends = [end if done else end * factors["lower"] for end, done in zip((joint.lower, joint.upper), numbered, strict=True)]
        changed["limits"] = list(zip(*(end.tolist() for end in ends), strict=True))
    if joint.rest is not None and joint.nq != joint.nv:
        changed["rest"] = tuple((np.array(joint.rest) * factors["rest"]).tolist())
    if isinstance(joint, Helical):
        changed["pitch"] = joint.pitch * s.length
    if isinstance(joint, Custom):
        changed["function"] = _Pose(joint.function, s.length)
    return replace(joint, **changed) if changed else joint


def _one(x: Any) -> Any:
    x = np.asarray(x)
    return float(x.ravel()[0]) if x.size == 1 else x.tolist()


def _actuator(one: Actuator, s: Similarity, q: dict[str, float]) -> Actuator:
    """Return an actuator of another size: controls of servos are positions or velocities, those of others stay what they are."""
    K = s.unit(np.array([q[key] for key, _ in one.coefficients]))
    force = s.energy / K
    by = np.array([1.0, 1.0 / K, s.time / K]) * force
    g, (_, b1, b2) = one.gain[0], one.bias
    control = K if g and g == -b1 else K / s.time if g and g == -b2 else 1.0
    limits = {
        "control_limits": None if one.control_limits is None else tuple(control * x for x in one.control_limits),
        "force_limits": None if one.force_limits is None else tuple(force * x for x in one.force_limits),
    }
    gain, bias = tuple((np.array(one.gain) * by / control).tolist()), tuple((np.array(one.bias) * by).tolist())
    return replace(one, coefficients=tuple((key, x * K / q[key]) for key, x in one.coefficients), gain=gain, bias=bias, **limits)


@dataclass(frozen=True)
class _Force(Wrapped):
    """A function of a force, of time and state in another size: its result is a joint force, or a force or wrench."""

    function: Any
    s: Similarity
    q: np.ndarray
    v: np.ndarray
    result: np.ndarray | None

    def __call__(self, t: Any, q: Any, v: Any) -> Any:
        value = np.asarray(self.function(t / self.s.time, q / self.q, v * (self.s.time / self.v)))
        if self.result is not None:
            return value * self.result
        force = self.s.energy / self.s.length
        return value * np.array([self.s.energy] * 3 + [force] * 3 if len(value) == 6 else [force] * 3)


@dataclass(frozen=True)
class _PointForce(Wrapped):
    """A function of a force on a point, of where it is and how it moves, or of a tension, in another size."""

    function: Any
    s: Similarity

    def __call__(self, t: Any, place: Any, rate: Any, *spin: Any) -> Any:
        s = self.s
        value = self.function(t / s.time, place / s.length, rate * (s.time / s.length), *(x * s.time for x in spin))
        if np.ndim(value) == 0:
            return value * (s.energy / s.length)
        factors = [s.energy / s.length] * 3
        return np.asarray(value) * np.array(factors if len(value) == 3 else [s.energy] * 3 + factors)


@dataclass(frozen=True)
class _Motion(Wrapped):
    """A motion of a driven joint in another size."""

    function: Any
    time: float
    q: tuple[float, ...]

    def __call__(self, t: Any) -> Any:
        x = self.function(t / self.time)
        return x * self.q[0] if np.ndim(x) == 0 else [entry * by for entry, by in zip(x, self.q, strict=True)]


@dataclass(frozen=True)
class _Pose(Wrapped):
    """The pose of a joint from a function, in another size."""

    function: Any
    length: float

    def __call__(self, q: Any) -> Any:
        pose = as_rigid(self.function(q))
        return Rigid(np.asarray(pose.R), np.asarray(pose.p) * self.length)
