"""The numbers of a mechanism by path, such as "hand.mass": what they are, and others in their place.

A number that another scalar stands for, such as an input of a kernel, is never looked at: which entries are zero and which axes are aligned
is taken from the numbers that stay.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from catena.errors import ArgumentError
from catena.model.closures import Distance
from catena.model.driven import undriven
from catena.model.joints import Joint
from catena.model.parts import Parts
from catena.model.pose import Pose, from_rpy, rpy
from catena.model.spanning_tree import Link, Loose
from catena.model.values import array, floats, number
from catena.spatial import Rigid

if TYPE_CHECKING:
    from catena.model.mechanism import Mechanism

#: Options of joints that are parameters, by the unit of a force along an angle and along a displacement.
OPTIONS = {
    "damping": ("N m s/rad", "N s/m"), "stiffness": ("N m/rad", "N/m"), "friction": ("N m", "N"), "armature": ("kg m^2", "kg"),
    "stop_stiffness": ("N m/rad", "N/m"), "stop_damping": ("s/rad", "s/m"),
}  # fmt: skip


class Parameter(NamedTuple):
    """A number of a model, or several: the path by which it is named, its value and its unit."""

    path: str
    value: np.ndarray
    unit: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, () of a single number."""
        return self.value.shape


def parameters(m: Mechanism) -> dict[str, Parameter]:
    """Return all numbers of a mechanism by path, bodies and their joints first."""
    found: dict[str, Parameter] = {}
    for path, value, unit in _numbers(m):
        if path in found:
            raise ArgumentError(f"model '{m.name}': '{path}' names two numbers; give bodies, loops and springs names of their own")
        array = np.array(value, dtype=float)
        array.setflags(write=False)
        found[path] = Parameter(path, array, unit)
    return found


def _numbers(m: Mechanism) -> Iterator[tuple[str, Any, str]]:
    for link in m.links:
        name, body, joint = link.name, link.body, undriven(link.joint)
        yield from ((f"{name}.mass", body.mass, "kg"), (f"{name}.com", body.com, "m"), (f"{name}.inertia", body.inertia, "kg m^2"))
        yield from _pose(f"{name}.at", link.at)
        yield from _pose(f"{name}.at_body", link.outer)
        if joint is not link.joint or joint.nv == 0:
            continue
        for option, units in OPTIONS.items():
            yield f"{name}.{option}", _one(getattr(joint, option)), _units(units[unit != "rad/s"] for unit in joint.v_units)
        if joint.nq == joint.nv:
            rest = joint.neutral() if joint.rest is None else joint.rest
            for option, values in (("rest", rest), ("lower", joint.lower), ("upper", joint.upper)):
                if np.isfinite(values).all():
                    yield f"{name}.{option}", _one(values), _units(joint.q_units)
    for closure in m.loops:
        yield from _pose(f"{closure.name}.at_a", closure.at_a)
        yield from _pose(f"{closure.name}.at_b", closure.at_b)
        if isinstance(closure.joint, Distance):
            yield f"{closure.name}.length", closure.joint.length, "m"
    for coupling in m.couplings:
        for coordinate, coefficient in coupling.coefficients:
            yield f"{coupling.name}.{coordinate}", coefficient, ""
        yield f"{coupling.name}.offset", coupling.offset, ""
    for spring in m.springs:
        yield from ((f"{spring.name}.at_a", spring.at_a, "m"), (f"{spring.name}.at_b", spring.at_b, "m"))
        for option, unit in (("stiffness", "N/m"), ("damping", "N s/m"), ("length", "m")):
            yield f"{spring.name}.{option}", getattr(spring, option), unit
    for force in m.forces:
        if force.body is not None:
            yield f"{force.name}.point", force.point, "m"
    yield "friction_speed", m.friction_speed, "rad/s or m/s"
    yield "gravity", m.gravity, "m/s^2"


def _pose(path: str, pose: Rigid) -> Iterator[tuple[str, Any, str]]:
    angles = rpy(pose.R)
    yield from ((path, (*pose.p, *angles), "m, rad"), (f"{path}.xyz", pose.p, "m"), (f"{path}.rpy", angles, "rad"))


def _one(values: Any) -> Any:
    """Return the only entry of several numbers, or all."""
    values = np.asarray(values, dtype=float)
    return values[0] if len(values) == 1 else values


def _units(units: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(units))


def check(m: Mechanism, paths: Any, what: str) -> tuple[str, ...]:
    """Return paths of numbers of a mechanism, or say which is none, or named twice."""
    if isinstance(paths, str):
        paths = (paths,)
    known, taken = parameters(m), set[str]()
    for path in paths:
        if path not in known:
            close = difflib.get_close_matches(str(path), known, 3)
            remedy = f"did you mean {' or '.join(map(repr, close))}?" if close else "m.parameters() lists all"
            raise ArgumentError(f"{what}: {path!r} is not a number of model '{m.name}'; {remedy}")
        for one in (path, *(path.removesuffix(f".{part}") for part in ("xyz", "rpy") if path.endswith(f".{part}"))):
            if one in taken:
                raise ArgumentError(f"{what}: '{path}' is given twice, also as part of '{one}'; leave one of them out")
        taken.add(path)
    return tuple(paths)


def given_values(m: Mechanism, values: Mapping[str, Any], what: str) -> dict[str, np.ndarray]:
    """Return values of numbers as arrays of floats with any leading axes, or say what is wrong with one."""
    known, found = parameters(m), {}
    for path, value in values.items():
        shape = known[path].shape
        form = "x".join(map(str, shape)) or "single"
        array = floats(f"{what}: {path}", value, f"give {form} numbers")
        if array.ndim < len(shape) or array.shape[array.ndim - len(shape) :] != shape:
            raise ArgumentError(f"{what}: {path} has shape {array.shape}; give {shape}, or more axes before")
        if not np.isfinite(array).all():
            raise ArgumentError(f"{what}: {path} is not finite; give finite numbers")
        found[path] = array
    return found


class Numbers:
    """The numbers of a mechanism, but for those that others stand for, by path; those that are `varied` may become others."""

    def __init__(self, given: Mapping[str, Any] | None = None, varied: Iterable[str] = ()) -> None:
        self.given, self.varied = dict(given or {}), {*varied}

    def vary(self, *paths: str) -> bool:
        """Return whether one of several numbers is varied."""
        return not self.varied.isdisjoint(paths)

    def moves(self, path: str) -> bool:
        """Return whether a placement is varied."""
        return self.vary(path, f"{path}.xyz", f"{path}.rpy")

    def turns(self, path: str) -> bool:
        """Return whether the rotation of a placement is varied."""
        return self.vary(path, f"{path}.rpy")

    def get(self, path: str, own: Any) -> Any:
        """Return a number or several."""
        return self.given.get(path, own)

    def several(self, path: str, own: np.ndarray) -> np.ndarray:
        """Return several numbers, of which there may be only one."""
        return np.atleast_1d(self.given[path]) if path in self.given else own

    def pose(self, path: str, own: Rigid) -> Rigid:
        """Return a placement."""
        if path in self.given:
            given = self.given[path]
            return Rigid(from_rpy(given[3:]), given[:3])
        turned, moved = self.given.get(f"{path}.rpy"), self.given.get(f"{path}.xyz")
        if turned is None and moved is None:
            return own
        return Rigid(own.R if turned is None else from_rpy(turned), own.p if moved is None else moved)


def varies(*values: Any) -> bool:
    """Return whether another scalar than a float stands for one of several numbers or placements."""
    return any(varies(x.R, x.p) if isinstance(x, Rigid) else np.asarray(x).dtype == object for x in values)


def replaced(m: Mechanism, values: Mapping[str, Any]) -> Parts:
    """Return the parts of a mechanism with other numbers, by path."""
    known, parts = parameters(m), m.parts.opened()
    check(m, values, "with_values")
    arrays = {}
    for path, value in values.items():
        arrays[path] = array(f"model '{m.name}': {path}", value, known[path].shape)
    numbers, links = Numbers(arrays), {link.name: link for link in m.links}

    def pose(path: str, own: Pose) -> Pose:
        return Pose.of(numbers.pose(path, own))

    for name, added in parts.added.items():
        own = added.body
        inertial = {what: numbers.get(f"{name}.{what}", getattr(own, what)) for what in ("mass", "com", "inertia")}
        body = own if not any(f"{name}.{what}" in arrays for what in inertial) else replace(own, **inertial)
        if isinstance(added, Link):
            changed = {"at": pose(f"{name}.at", added.at), "outer": pose(f"{name}.at_body", added.outer)}
            parts.added[name] = replace(added, body=body, joint=_joint(added.joint, name, numbers), **changed)
        else:
            parts.added[name] = replace(added, body=body)
    for name, connection in parts.connections.items():
        ends = {"at_a": connection.at_a, "at_b": connection.at_b}
        joint: Any = connection.joint
        for a, b, own, other in ((connection.a, connection.b, "at_a", "at_b"), (connection.b, connection.a, "at_b", "at_a")):
            link = links.get(b)
            if link is not None and isinstance(m.parts.added[b], Loose) and link.parent == a and name not in {c.name for c in m.loops}:
                ends[own], ends[other] = pose(f"{b}.at", ends[own]), pose(f"{b}.at_body", ends[other])
                joint = _joint(joint, b, numbers)
        ends = {end: pose(f"{name}.{end}", at) for end, at in ends.items()}
        parts.connections[name] = replace(connection, joint=_closing(joint, name, numbers), **ends)
    for name, closure in parts.closures.items():
        ends = {end: pose(f"{name}.{end}", getattr(closure, end)) for end in ("at_a", "at_b")}
        parts.closures[name] = replace(closure, joint=_closing(closure.joint, name, numbers), **ends)
    for name, coupling in parts.couplings.items():
        coefficients = tuple((key, float(numbers.get(f"{name}.{key}", value))) for key, value in coupling.coefficients)
        parts.couplings[name] = replace(coupling, coefficients=coefficients, offset=float(numbers.get(f"{name}.offset", coupling.offset)))
    for name, spring in parts.springs.items():
        options = {key: numbers.get(f"{name}.{key}", getattr(spring, key)) for key in ("at_a", "at_b", "stiffness", "damping", "length")}
        parts.springs[name] = replace(spring, **options)
    for name, force in parts.forces.items():
        parts.forces[name] = replace(force, point=tuple(numbers.get(f"{name}.point", np.array(force.point)).tolist()))
    parts.gravity = tuple(numbers.get("gravity", np.array(parts.gravity)).tolist())
    parts.friction_speed = number("model friction_speed", numbers.get("friction_speed", parts.friction_speed), above=0.0)
    return parts


def _joint(joint: Joint, name: str, numbers: Numbers) -> Joint:
    """Return a joint with other options."""
    given = {option: numbers.given.get(f"{name}.{option}") for option in (*OPTIONS, "rest")}
    options = {option: np.atleast_1d(value).tolist() for option, value in given.items() if value is not None}
    if any(f"{name}.{end}" in numbers.given for end in ("lower", "upper")):
        ends = (numbers.several(f"{name}.lower", joint.lower), numbers.several(f"{name}.upper", joint.upper))
        options["limits"] = [tuple(pair) for pair in np.stack(ends, axis=1).tolist()]
    return replace(joint, **options) if options else joint


def _closing(joint: Any, name: str, numbers: Numbers) -> Any:
    return Distance(float(numbers.get(f"{name}.length", joint.length))) if isinstance(joint, Distance) else joint
