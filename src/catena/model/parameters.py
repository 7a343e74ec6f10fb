"""The numbers of a mechanism by path, such as "hand.mass": what they are, and others in their place.

A number that another scalar stands for, such as an input of a kernel, is never looked at: which entries are zero and which axes are aligned
is taken from the numbers that stay.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from catena.errors import ArgumentError, ModelError
from catena.model import contacts, forces
from catena.model.actuators import Actuation, Controlled
from catena.model.bodies import Body, Geometry
from catena.model.closures import Distance
from catena.model.contacts import Contact
from catena.model.driven import Driven, undriven
from catena.model.forces import Applied
from catena.model.joints import Custom, Joint
from catena.model.parts import Parts
from catena.model.pose import Pose, following, from_rpy, rpy
from catena.model.spanning_tree import Link, Loose
from catena.model.user_functions import wrapped
from catena.model.values import array, by_name, floats, names_of, speeds
from catena.scalars import expression
from catena.scalars.expression import Named, expressed, names, resolved, within
from catena.spatial import Rigid

if TYPE_CHECKING:
    from catena.model.mechanism import Mechanism

#: Options of joints that are parameters, by the unit of a force along an angle and along a displacement.
OPTIONS = {
    "damping": ("N m s/rad", "N s/m"), "stiffness": ("N m/rad", "N/m"), "friction": ("N m", "N"), "armature": ("kg m^2", "kg"),
    "stop_stiffness": ("N m/rad", "N/m"), "stop_damping": ("s/rad", "s/m"),
}  # fmt: skip

#: The numbers of a shape that may follow parameters; and the shapes of a contact, as they are named in files and paths.
SHAPED = ("size", "center")
CONTACT_SHAPES = {"shapes": "shape", "against_shapes": "against_shape"}

#: What to give where values of parameters, and wrenches, are wanted.
VALUES_BY_NAME = "give a mapping by path, such as {'arm.mass': 3.0}"
WRENCHES_BY_NAME = "give a mapping by body, such as {'arm': [0, 0, 0, 0, 0, 9.81]}"

#: The parameter of wrenches on bodies, (bodies, 6), and that of controls of actuators.
WRENCHES, CONTROLS = "wrenches", "controls"

#: Inputs of kernels, whose names no parameter may have.
INPUTS = ("t", "q", "v", "vdot", "tau", "p", "rate", "acceleration", "out", WRENCHES, CONTROLS)


class Parameter(NamedTuple):
    """A number of a model, or several: the path by which it is named, its value and its unit."""

    path: str
    value: np.ndarray
    unit: str
    follows: str = ""  # parameters of the user's own that it follows

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, () of a single number."""
        return self.value.shape


def parameters(m: Mechanism) -> dict[str, Parameter]:
    """Return all numbers of a mechanism by path, bodies and their joints first."""
    found: dict[str, Parameter] = {}
    follow = {path: ", ".join(sorted(names(x))) for path, x in ties(m).items()}
    for path, value, unit in _numbers(m):
        if path in found:
            raise ArgumentError(f"model '{m.name}': '{path}' names two numbers; give bodies, loops and springs names of their own")
        array = np.array(value, dtype=float)
        array.setflags(write=False)
        found[path] = Parameter(path, array, unit, follow.get(path, ""))
    return found


def entry_of(path: str) -> str:
    """Return the name of a number of a mechanism among other entries or inputs, which have names without a dot."""
    return f"given.{path}"


def new(m: Mechanism, name: Any, value: Any) -> Any:
    """Enter a parameter of the user's own in a model, and return it for use in formulas."""
    what = f"parameter {name!r}"
    if not isinstance(name, str) or not name.isidentifier():
        raise ModelError(f"{what}: this is not a name; give letters, digits and underscores, such as 'length'")
    if name in INPUTS:
        raise ModelError(f"{what}: kernels have an input of this name; give another name, such as '{name}0'")
    if name in m.parameters():
        raise ModelError(f"{what}: model '{m.name}' has a number of this name already; give another name")
    array = floats(what, value, "give a finite number, or an array of such", ModelError)
    if not np.isfinite(array).all():
        raise ModelError(f"{what}: {value!r} is not finite; give a finite number, or an array of such")
    return _entered(m.parts, name, array)


def _entered(parts: Parts, name: str, array: np.ndarray) -> Any:
    """Enter a parameter in parts, and return it for use in formulas."""
    array.setflags(write=False)
    parts.own[name] = array
    found = np.empty(array.shape, dtype=object)
    for at, x in np.ndenumerate(array):
        found[at] = Named(name, at, float(x))
    return found if array.shape else found[()]


def inputs(what: str, paths: Any, bodies: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the paths of numbers, and the names of bodies with wrenches, that are inputs of a kernel; refuse values in their place."""
    return (
        names_of(f"{what}: parameters", paths, "give the paths alone, and the values in each call, or use m.with_values"),
        names_of(f"{what}: wrenches", bodies, "give the names of bodies alone, and the moments and forces in each call"),
    )


def check_bodies(m: Mechanism, bodies: Any, what: str) -> tuple[str, ...]:
    """Return bodies and frames on which wrenches act, by name, or say which are none, or named twice."""
    bodies = tuple(bodies)
    for body in bodies:
        carrier, _ = m.carrier(body, f"{what}: wrenches name body")
        if carrier == "ground" or bodies.count(body) > 1:
            why = "which does not move; leave it out" if carrier == "ground" else "twice; name it once"
            raise ArgumentError(f"{what}: wrenches name '{body}', {why}")
    return bodies


def with_wrenches(m: Mechanism, bodies: tuple[str, ...]) -> Parts:
    """Return the parts of a mechanism with a parameter of wrenches on bodies: moment and force in the world's axes, at a body's origin."""
    parts = m.parts.opened()
    rows = _entered(parts, WRENCHES, np.zeros((len(bodies), 6)))
    for name, row in zip(bodies, rows, strict=True):
        force = f"{WRENCHES}.{name}"
        parts.forces[force] = Applied(force, partial(_constant, row), name, (0.0, 0.0, 0.0))  # which may be a frame, wherever it is
    return parts


def pushed(m: Mechanism, wrenches: Mapping[str, Any], what: str) -> Parts:
    """Return the parts of a mechanism with wrenches on bodies by name: (6,) each, or functions of (t, q, v)."""
    parts = m.parts.opened()
    for body, wrench in zip(check_bodies(m, wrenches, what), wrenches.values(), strict=True):
        name = f"{WRENCHES}.{body}"
        if not callable(wrench):
            wrench = partial(_constant, array(f"{what}: wrenches['{body}']", wrench, (6,)))
        force = Applied(name, wrench, body, (0.0, 0.0, 0.0))
        bound = replace(force, function=m.bound(wrench))
        bound.probe(m.neutral(), m.nv)
        if bound.traced:
            bound.uses_time(m.nq, m.nv)
        parts.forces[name] = force
    return parts


def with_controls(m: Mechanism, what: str) -> Parts:
    """Return the parts of a mechanism with a parameter of controls, and the joint forces that its actuators make of them."""
    actuation, parts = Actuation.of(m, what), m.parts.opened()
    controls = _entered(parts, CONTROLS, np.zeros(len(m.actuators)))
    parts.forces[CONTROLS] = Applied(CONTROLS, Controlled(actuation, controls), None, (0.0, 0.0, 0.0))
    return parts


def _constant(value: Any, t: Any, q: Any, v: Any) -> Any:
    return value


def tied(m: Mechanism, what: str, found: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return expressions that numbers shall follow, by path, or say which are none, or of parameters of another model."""
    for path, x in found.items():
        if not expressed(x):
            raise ModelError(f"{what}: {path} = {x!r} follows no parameter; give a formula of those that m.parameter returned")
        for name in names(x) - m.parts.own.keys():
            raise ModelError(f"{what}: {path} follows '{name}', which is no parameter of model '{m.name}'; add it by m.parameter")
    return {path: np.array(x, dtype=object) for path, x in found.items()}


def ties(m: Mechanism) -> dict[str, np.ndarray]:
    """Return the expressions that numbers follow, by path; those of connections that hang a body by the paths of the body."""
    found = dict(m.parts.ties)
    for name, (child, turned) in _hanging(m).items() if found else ():
        places = {"at_a": "at_body", "at_b": "at"} if turned else {"at_a": "at", "at_b": "at_body"}
        for path in [path for path in found if path.startswith(f"{name}.")]:
            key, _, rest = path.removeprefix(f"{name}.").partition(".")
            value = found.pop(path)
            swapped = turned and key in OPTIONS and value.ndim == 1  # the two angles of a universal joint
            found[".".join(filter(None, (child, places.get(key, key), rest)))] = value[::-1] if swapped else value
    return found


def _hanging(m: Mechanism) -> dict[str, tuple[str, bool]]:
    """Return of each connection that hangs a body this body, and whether it hangs a on b."""
    parents, closing = {link.name: link.parent for link in m.links}, {closure.name for closure in m.loops}
    found = {}
    for name, connection in m.parts.connections.items():
        for parent, child in ((connection.a, connection.b), (connection.b, connection.a)):
            if name not in closing and isinstance(m.parts.added.get(child), Loose) and parents.get(child) == parent:
                found[name] = (child, child == connection.a)
    return found


def owners(m: Mechanism) -> dict[str, tuple[str, str, str]]:
    """Return of each number, by path, the table of parts that its owner is in, the owner's name, and the rest of the path."""
    return {path: (table, name, key) for path, table, name, key, *_ in _owned(m)}


def _numbers(m: Mechanism) -> Iterator[tuple[str, Any, str]]:
    """Yield path, value and unit of the numbers of a model; of shapes, those that follow parameters."""
    shown = {path for path, *_ in looks(m)} - m.parts.ties.keys()
    return ((path, value, unit) for path, _, _, _, value, unit in _owned(m) if path not in shown)


def looks(m: Mechanism) -> Iterator[tuple[str, Any, str]]:
    """Yield path, value and unit of the sizes and centres of shapes, of bodies and of contacts."""
    return ((path, value, unit) for path, _, _, _, value, unit in _of_shapes(m))


def _owned(m: Mechanism) -> Iterator[tuple[str, str, str, str, Any, str]]:
    """Yield of each number its path, the table of its owner, the owner's name, the rest of the path, value and unit."""
    for table, name, numbers in _by_owner(m):
        yield from ((f"{name}.{key}", table, name, key, value, unit) for key, value, unit in numbers)
    yield from _of_shapes(m)
    yield from ((name, "own", name, "", value, "N m, N" if name == WRENCHES else "") for name, value in m.parts.own.items())
    yield "friction_speed", "", "friction_speed", "", m.friction_speed, "rad/s or m/s"
    yield "gravity", "", "gravity", "", m.gravity, "m/s^2"


def _of_shapes(m: Mechanism) -> Iterator[tuple[str, str, str, str, Any, str]]:
    shapes = [("added", added.name, "geometry", added.body.geometry) for added in m.added]
    shapes += [("contacts", one.name, key, getattr(one, field)) for one in m.contacts for field, key in CONTACT_SHAPES.items()]
    for table, name, key, found in shapes:
        for i, look in enumerate(found):
            yield from ((f"{name}.{key}.{i}.{part}", table, name, f"{key}.{i}.{part}", getattr(look, part), "m") for part in SHAPED)


def _by_owner(m: Mechanism) -> Iterator[tuple[str, str, Iterable[tuple[str, Any, str]]]]:
    """Yield the table of parts, the name, and the numbers of bodies with their joints, frames, loops and forces."""
    yield from (("added", link.name, _of_link(link)) for link in m.links)
    yield from (("frames", frame.name, _pose("at", frame.at)) for frame in m.frames)
    for closure in m.loops:
        length = [("length", closure.joint.length, "m")] if isinstance(closure.joint, Distance) else []
        table = "connections" if closure.name in m.parts.connections else "closures"
        yield table, closure.name, (*_pose("at_a", closure.at_a), *_pose("at_b", closure.at_b), *length)
    for coupling in m.couplings:
        yield "couplings", coupling.name, [*((key, x, "") for key, x in coupling.coefficients), ("offset", coupling.offset, "")]
    for spring in m.springs:
        units = {"at_a": "m", "at_b": "m", **forces.SPRING_NUMBERS}
        yield "springs", spring.name, [(key, getattr(spring, key), unit) for key, unit in units.items()]
    for bushing in m.bushings:
        numbers = ((key, getattr(bushing, key), unit) for key, unit in forces.BUSHING_NUMBERS.items())
        yield "bushings", bushing.name, (*_pose("at_a", bushing.at_a), *_pose("at_b", bushing.at_b), *numbers)
    for contact in m.contacts:
        yield "contacts", contact.name, [(key, getattr(contact, key), unit) for key, unit in contacts.NUMBERS.items()]
    for point_force in m.point_forces:
        ends = ("at",) if point_force.other is None else ("at", "at_other")
        yield "point_forces", point_force.name, [(key, getattr(point_force, key), "m") for key in ends]
    for force in m.forces:
        if force.body is not None:
            yield "forces", force.name, [("point", force.point, "m")]


def _of_link(link: Link) -> Iterator[tuple[str, Any, str]]:
    body, joint = link.body, undriven(link.joint)
    yield from (("mass", body.mass, "kg"), ("com", body.com, "m"), ("inertia", body.inertia, "kg m^2"))
    yield from _pose("at", link.at)
    yield from _pose("at_body", link.outer)
    if joint.nv == 0:
        return
    for option, units in OPTIONS.items():
        yield option, _one(getattr(joint, option)), _units(units[unit != "rad/s"] for unit in joint.v_units)
    if joint.nq == joint.nv:
        rest = joint.neutral() if joint.rest is None else joint.rest
        for option, values in (("rest", rest), ("lower", joint.lower), ("upper", joint.upper)):
            if np.isfinite(values).all():
                yield option, _one(values), _units(joint.q_units)


def _pose(path: str, pose: Rigid) -> Iterator[tuple[str, Any, str]]:
    angles = rpy(pose.R)
    yield from ((path, (*pose.p, *angles), "m, rad"), (f"{path}.xyz", pose.p, "m"), (f"{path}.rpy", angles, "rad"))


def _one(values: Any) -> Any:
    """Return the only entry of several numbers, or all."""
    values = np.asarray(values, dtype=float)
    return values[0] if len(values) == 1 else values


def _units(units: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(units))


def check(m: Mechanism, paths: Any, what: str, known: Mapping[str, Parameter] | None = None) -> tuple[str, ...]:
    """Return paths of numbers of a mechanism, or say which is none, or named twice; of those that are `known`, if these are given."""
    known, taken = (m.parameters() if paths else {}) if known is None else known, set[str]()
    for path in paths:
        if path not in known:
            close = difflib.get_close_matches(str(path), known, 3)
            remedy = f"did you mean {' or '.join(map(repr, close))}?" if close else "m.parameters() and catena info --parameters list all"
            raise ArgumentError(f"{what}: {path!r} is not a number of model '{m.name}'; {remedy}")
        for one in (path, f"{path}.xyz", f"{path}.rpy", path.removesuffix(".xyz").removesuffix(".rpy")):
            if one in known and (source := known[one].follows):
                raise ArgumentError(f"{what}: {path!r} follows {source}; name {source} instead")
        for one in (path, *(path.removesuffix(f".{part}") for part in ("xyz", "rpy") if path.endswith(f".{part}"))):
            if one in taken:
                raise ArgumentError(f"{what}: '{path}' is given twice, also as part of '{one}'; leave one of them out")
        taken.add(path)
    return tuple(paths)


def given_values(m: Mechanism, values: Mapping[str, Any], what: str) -> dict[str, np.ndarray]:
    """Return values of numbers as arrays of floats with any leading axes, or say what is wrong with one."""
    known, found = m.parameters() if values else {}, {}
    for path, value in values.items():
        shape = known[path].shape
        form = "x".join(map(str, shape)) or "single"
        array = floats(f"{what}: {path}", value, f"give {form} numbers")
        if array.ndim < len(shape) or array.shape[array.ndim - len(shape) :] != shape:
            raise ArgumentError(f"{what}: {path} has shape {array.shape}; give {shape}, or more axes before")
        for bad, says in ((~np.isfinite(array), "is not finite; give finite numbers"), *_impossible(path, array)):
            if bad.any():
                at = tuple(int(i) for i in np.argwhere(bad)[0])
                raise ArgumentError(f"{what}: {path}{list(at) or ''} = {array[at].tolist()} {says}")
        found[path] = array
    return found


def _impossible(path: str, array: np.ndarray) -> Iterator[tuple[np.ndarray, str]]:
    """Yield which values of a number no body or joint can have, and why."""
    kind = path.rpartition(".")[2]
    if kind in ("mass", "length", "friction_speed", *OPTIONS, *forces.SPRING_NUMBERS, *forces.BUSHING_NUMBERS, "dissipation", "stiction"):
        yield array < 0.0, "is below 0; give 0 or more"
    if kind == "slip_speed":
        yield array <= 0.0, "is not above 0; give a small speed"
    if kind == "inertia":
        scale = np.abs(array).max(axis=(-2, -1))
        yield np.abs(array - array.swapaxes(-2, -1)).max(axis=(-2, -1)) > 1e-9 * scale, "is not symmetric; give a symmetric matrix"
        moments = np.linalg.eigvalsh(array)
        yield moments[..., 0] < -1e-9 * scale, "has a negative principal moment; give the inertia about the centre of mass"
        excess = moments[..., 2] - moments[..., 0] - moments[..., 1]
        yield excess > 1e-6 * moments[..., 2] + 1e-9 * scale, (
            "belongs to no body, for the largest principal moment exceeds the sum of the others; give the inertia about the centre of mass"
        )


class Numbers:
    """The numbers of a mechanism, but for those that others stand for, by path; those that are `varied` may become others.

    `own` are the parameters of the user's own, with what stands for them.
    """

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        self.given, self.varied, self.own = dict(given or {}), set[str](), dict[str, Any]()

    @staticmethod
    def of(m: Mechanism, given: Mapping[str, Any] | None) -> Numbers:
        """Return the numbers of a mechanism; what follows the user's own parameters is varied and given with them."""
        found = Numbers(given)
        found.varied.update(m.varied)
        found.own = {name: found.given.get(name, value) for name, value in m.parts.own.items()}
        for path, x in ties(m).items():
            if not names(x).isdisjoint(m.varied):
                found.varied.add(path)
                if not names(x).isdisjoint(found.given):
                    found.given[path] = _shaped(resolved(x, found.own), m.parameters()[path].shape)
        return found

    def within(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the user's in which own parameters are what they are here."""
        return bind(function, self.own)

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

    def rpy(self, path: str, own: Rigid) -> Any:
        """Return roll, pitch and yaw of a placement."""
        return self.given[path][3:] if path in self.given else self.given.get(f"{path}.rpy", np.array(rpy(own.R)))


def varies(*values: Any) -> bool:
    """Return whether another scalar than a float stands for one of several numbers or placements."""
    return any(varies(x.R, x.p) if isinstance(x, Rigid) else np.asarray(x).dtype == object for x in values)


def replaced(m: Mechanism, values: Mapping[str, Any], known: Mapping[str, Parameter] | None = None) -> Parts:
    """Return the parts of a mechanism with other numbers, by path: those of `m.parameters`, or others that are `known`."""
    known, parts = m.parameters() if known is None else known, m.parts.opened()
    values = by_name("with_values: values", values, VALUES_BY_NAME)
    check(m, values, "with_values", known)
    arrays = {}
    for path, value in values.items():
        arrays[path] = array(f"model '{m.name}': {path}", value, known[path].shape)
    own = {name: arrays.pop(name) for name in parts.own if name in arrays}
    parts.own |= own
    for path, x in ties(m).items() if own else ():
        if not names(x).isdisjoint(own):
            arrays[path] = array(f"model '{m.name}': {path}", _shaped(resolved(x, parts.own), known[path].shape), known[path].shape)
    numbers, hanging = Numbers(arrays), _hanging(m)

    def pose(path: str, own: Pose) -> Pose:
        return Pose.of(numbers.pose(path, own))

    for name, added in parts.added.items():
        body = added.body
        inertial = {what: numbers.get(f"{name}.{what}", getattr(body, what)) for what in ("mass", "com", "inertia")}
        body = body if not any(f"{name}.{what}" in arrays for what in inertial) else replace(body, **inertial)
        if (found := _looks(body.geometry, f"{name}.geometry", numbers)) is not body.geometry:
            body = replace(body, geometry=found)
        if isinstance(added, Link):
            changed = {"at": pose(f"{name}.at", added.at), "outer": pose(f"{name}.at_body", added.outer)}
            if own:
                with expression.values(parts.own):
                    added.joint.check()
            parts.added[name] = replace(added, body=body, joint=_joint(added.joint, name, numbers), **changed)
        else:
            parts.added[name] = replace(added, body=body)
    for name, frame in parts.frames.items():
        parts.frames[name] = replace(frame, at=pose(f"{name}.at", frame.at))
    for name, connection in parts.connections.items():
        ends: dict[str, Pose] = {"at_a": connection.at_a, "at_b": connection.at_b}
        joint: Any = connection.joint
        if name in hanging:
            child, turned = hanging[name]
            inner, outer = ("at_b", "at_a") if turned else ("at_a", "at_b")
            ends[inner], ends[outer] = pose(f"{child}.at", ends[inner]), pose(f"{child}.at_body", ends[outer])
            joint = _joint(joint, child, numbers)
        ends = {end: pose(f"{name}.{end}", at) for end, at in ends.items()}
        parts.connections[name] = replace(connection, joint=_closing(joint, name, numbers), **ends)
    for name, closure in parts.closures.items():
        ends = {end: pose(f"{name}.{end}", getattr(closure, end)) for end in ("at_a", "at_b")}
        parts.closures[name] = replace(closure, joint=_closing(closure.joint, name, numbers), **ends)
    for name, coupling in parts.couplings.items():
        coefficients = tuple((key, float(numbers.get(f"{name}.{key}", value))) for key, value in coupling.coefficients)
        parts.couplings[name] = replace(coupling, coefficients=coefficients, offset=float(numbers.get(f"{name}.offset", coupling.offset)))
    for name, spring in parts.springs.items():
        options = {key: numbers.get(f"{name}.{key}", getattr(spring, key)) for key in ("at_a", "at_b", *forces.SPRING_NUMBERS)}
        parts.springs[name] = replace(spring, **options)
    for name, bushing in parts.bushings.items():
        ends = {end: pose(f"{name}.{end}", getattr(bushing, end)) for end in ("at_a", "at_b")}
        options = {key: numbers.get(f"{name}.{key}", getattr(bushing, key)) for key in forces.BUSHING_NUMBERS}
        parts.bushings[name] = replace(bushing, **ends, **options)
    for name, contact in parts.contacts.items():
        options = {key: numbers.get(f"{name}.{key}", getattr(contact, key)) for key in contacts.NUMBERS}
        parts.contacts[name] = replace(with_shapes(contact, numbers), **options)
    for name, point_force in parts.point_forces.items():
        points = {key: tuple(numbers.get(f"{name}.{key}", np.array(getattr(point_force, key))).tolist()) for key in ("at", "at_other")}
        parts.point_forces[name] = replace(point_force, **points)
    for name, force in parts.forces.items():
        point = tuple(numbers.get(f"{name}.point", np.array(force.point)).tolist())
        parts.forces[name] = replace(force, point=point)
    parts.gravity = tuple(numbers.get("gravity", np.array(parts.gravity)).tolist())
    parts.friction_speed = speeds("model friction_speed", numbers.get("friction_speed", parts.friction_speed))
    return parts


def _shaped(x: Any, shape: tuple[int, ...]) -> Any:
    """Return numbers in another shape, or one number for all."""
    array = np.broadcast_to(np.array(x, dtype=object), shape)
    return array if shape else array[()]


def at_values(part: Any, given: Mapping[str, Any]) -> Any:
    """Return a part, checked, with the numbers that its formulas have with these values of parameters; it keeps its formulas."""
    if not given:
        return part
    with expression.values(given):
        if isinstance(part, Pose):
            R = from_rpy(resolved(part.tied["rpy"])) if "rpy" in part.tied else part.R
            return following(Rigid(np.array(R, dtype=float), np.array(resolved(part.tied.get("xyz", part.p)), dtype=float)), part.tied)
        if isinstance(part, Driven):
            return Driven(at_values(part.joint, given), part.function)
        numbers = dict(part.tied)
        if isinstance(part, Body) and any(look.tied for look in part.geometry):
            numbers["geometry"] = tuple(at_values(look, given) for look in part.geometry)
        return replace(part, **numbers) if numbers or isinstance(part, Custom) else part


def formulas(name: str, *parts: Any, **poses: Pose) -> dict[str, Any]:
    """Return the formulas that the numbers of parts follow, by path: of bodies, joints, springs, contacts, and poses by their key."""
    found = {f"{name}.{key}": x for part in parts for key, x in getattr(part, "tied", {}).items()}
    found |= {f"{name}.{place}.{key}": x for place, pose in poses.items() for key, x in pose.tied.items()}
    for part in parts:
        shapes = {"geometry": part.geometry} if isinstance(part, Body) else {}
        shapes |= {key: getattr(part, field) for field, key in CONTACT_SHAPES.items()} if isinstance(part, Contact) else {}
        for key, looks in shapes.items():
            found |= {f"{name}.{key}.{i}.{at}": x for i, look in enumerate(looks) for at, x in look.tied.items()}
    return found


def bind(function: Callable[..., Any], given: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a function of the user's in which own parameters have these values; the mark of those that are not traced stays."""
    if not given:
        return function
    return wrapped(function, lambda plain: within(plain, given))


def with_shapes(contact: Contact, numbers: Numbers) -> Contact:
    """Return a contact whose shapes have other sizes and centres, of any scalar."""
    changed = {field: _looks(getattr(contact, field), f"{contact.name}.{key}", numbers) for field, key in CONTACT_SHAPES.items()}
    return replace(contact, **changed) if any(found is not getattr(contact, field) for field, found in changed.items()) else contact


def _looks(shapes: tuple[Geometry, ...], path: str, numbers: Numbers) -> tuple[Geometry, ...]:
    """Return shapes with other sizes and centres; themselves where these are as they were."""
    given = [{part: numbers.given[at] for part in SHAPED if (at := f"{path}.{i}.{part}") in numbers.given} for i in range(len(shapes))]
    return tuple(replace(look, **x) if x else look for look, x in zip(shapes, given, strict=True)) if any(given) else shapes


def _joint(joint: Joint, name: str, numbers: Numbers) -> Joint:
    """Return a joint with other options."""
    if isinstance(joint, Driven):
        inner = _joint(joint.joint, name, numbers)
        return joint if inner is joint.joint else Driven(inner, joint.function)
    given = {option: numbers.given.get(f"{name}.{option}") for option in (*OPTIONS, "rest")}
    options: dict[str, Any] = {option: np.atleast_1d(value).tolist() for option, value in given.items() if value is not None}
    if any(f"{name}.{end}" in numbers.given for end in ("lower", "upper")):
        ends = (numbers.several(f"{name}.lower", joint.lower), numbers.several(f"{name}.upper", joint.upper))
        options["limits"] = [tuple(pair) for pair in np.stack(ends, axis=1).tolist()]
    return replace(joint, **options) if options else joint


def _closing(joint: Any, name: str, numbers: Numbers) -> Any:
    return Distance(float(numbers.get(f"{name}.length", joint.length))) if isinstance(joint, Distance) else joint
