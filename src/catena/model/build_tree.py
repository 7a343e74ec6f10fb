"""From a model to its tree: fixed bodies welded, canonical frames chosen, inertias, forces and loops moved into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from catena.errors import ModelError
from catena.graph import where
from catena.model import canonical
from catena.model.closures import Closure, Coupling, Distance, constraints
from catena.model.contacts import NUMBERS, Contact, spheres
from catena.model.driven import Driven, undriven
from catena.model.forces import BUSHING_NUMBERS, SPRING_NUMBERS, Applied, Bushing, PointForce, Spring
from catena.model.joints import Fixed, Joint
from catena.model.motions import CustomMotion, DenseMotion, DrivenMotion, Motion, clean
from catena.model.parameters import Numbers, varies, with_shapes
from catena.model.placed import (
    PlacedBushing,
    PlacedClosure,
    PlacedContact,
    PlacedCoupling,
    PlacedForce,
    PlacedPointForce,
    PlacedSpring,
)
from catena.model.tree import Tree, read_only
from catena.spatial import Placement, Rigid, centroid, plain, rigid_inertia, symmetric
from catena.spatial.inertias import dusted, moved

if TYPE_CHECKING:
    from catena.model.mechanism import Mechanism
    from catena.model.spanning_tree import Link

_IDENTITY = Rigid(np.eye(3), np.zeros(3))


def build(model: Mechanism, weld: bool = True, given: Mapping[str, Any] | None = None) -> Tree:
    """Return the tree in canonical frames, with inertias, forces and loops in them; fixed bodies are part of their carriers, if `weld`.

    Scalars that are `given` by path stand for numbers of the model. Canonical frames follow from the numbers that the model does not vary.
    """
    numbers = Numbers.of(model, given)
    links = [link for link in model.links if not (weld and isinstance(link.joint, Fixed))]
    if not links:
        raise ModelError(f"model '{model.name}' has no moving body; add one with a joint other than Fixed")
    carried, bodies = _carried(model.links, links, numbers)
    parent = [carried[link.parent].body for link in links]
    joints = [link.joint for link in links]
    at = [carried[link.parent].moved(numbers, f"{link.name}.at", link.at) for link in links]
    totals = [_total(parts) for parts in bodies]
    centres = [_centre(parts, total) for parts, total in zip(bodies, totals, strict=True)]
    before, motions, frames = _canonical(joints, parent, at, centres, numbers)
    named = {name: (place.body, frames[place.body].inverse() @ place.pose) for name, place in carried.items()}
    for frame in model.frames:
        body, pose = named[frame.body]
        named[frame.name] = (body, pose @ numbers.pose(f"{frame.name}.at", frame.at))
    names = [link.name for link in links]
    moving = set(names)
    places = [(at_q, at_v) for link, at_q, at_v in model.slices() if link.name in moving]
    gravity = numbers.get("gravity", np.array(model.gravity))

    def gather(option: str) -> Any:
        own = [getattr(joint, option) for joint in joints]
        if option == "rest":
            own = [joint.neutral() if rest is None else rest for joint, rest in zip(joints, own, strict=True)]
        moving = [not isinstance(joint, Driven) for joint in joints]  # the options of others are part of the force that drives them
        given = zip(names, own, moving, strict=True)
        return np.concatenate([numbers.several(f"{name}.{option}", np.asarray(x)) if free else np.asarray(x) for name, x, free in given])

    tree = Tree(
        names=tuple(names),
        parent=tuple(parent),
        before=tuple(before),
        motion=tuple(motions),
        M=tuple(_inertia(bodies[k], totals[k], frames[k].inverse()) for k in range(len(links))),
        q_slices=tuple(at_q for at_q, _ in places),
        v_slices=tuple(at_v for _, at_v in places),
        nq=model.nq,
        nv=model.nv,
        gravity=_dusted(frames[-1].R.T @ gravity, gravity),
        ground=frames[-1],
        ground_inertia=_inertia(bodies[-1], totals[-1], frames[-1].inverse()),
        damping=gather("damping"),
        stiffness=gather("stiffness"),
        rest=gather("rest"),
        friction=gather("friction"),
        friction_speed=_friction_speeds(numbers.get("friction_speed", model.friction_speed), model.v_units),
        armature=gather("armature"),
        lower=gather("lower"),
        upper=gather("upper"),
        stop_stiffness=gather("stop_stiffness"),
        stop_damping=gather("stop_damping"),
        springs=tuple(_placed_spring(spring, named, numbers) for spring in model.springs),
        forces=tuple(_placed_force(force, model.nv, named, numbers) for force in model.forces if force.traced),
        bushings=tuple(_placed_bushing(bushing, named, numbers) for bushing in model.bushings),
        point_forces=tuple(_placed_point_force(force, named, numbers) for force in model.point_forces),
        contacts=tuple(_placed_contact(contact, named, numbers) for contact in model.contacts),
        frames=MappingProxyType(named),
        closures=tuple(_placed_closure(closure, named, numbers) for closure in model.loops),
        couplings=tuple(placed_coupling(coupling, model, numbers) for coupling in model.couplings),
        kept=_kept(model.tree(), at) if numbers.given and weld else None,
        given=MappingProxyType(numbers.given),
    )
    return read_only(tree)


def _friction_speeds(speed: Any, units: Sequence[str]) -> np.ndarray:
    """Return the speed over which friction is smoothed along each coordinate: one for all, or one for angles and one for displacements."""
    of_kind = (speed, speed) if np.ndim(speed) == 0 else speed
    return plain(np.array([of_kind[int(unit == "m/s")] for unit in units], dtype=object))


class _Place(NamedTuple):
    """A frame in the joint frame of a moving body; whether numbers that it comes from are varied, and whether its rotation is.

    One to which a placement leads whose rotation is varied is `first`, and from there a translation and roll, pitch and yaw.
    """

    body: int
    pose: Rigid
    moves: bool = False
    turns: bool = False
    first: Rigid = _IDENTITY
    shift: Any = None
    rpy: Any = None

    def moved(self, numbers: Numbers, path: str, own: Rigid) -> _Place:
        """Return a frame that a placement leads to from this one."""
        pose = numbers.pose(path, own)
        place = _Place(self.body, self.pose @ pose, self.moves or numbers.moves(path), self.turns or numbers.turns(path))
        return place._replace(first=self.pose, shift=pose.p, rpy=numbers.rpy(path, own)) if numbers.turns(path) else place


class _Part(NamedTuple):
    """A body that moves with others: mass, centre of mass, inertia about it, frame; whether its mass, and its centre, are varied."""

    mass: Any
    com: Any
    inertia: Any
    place: _Place
    weighs: bool
    shifts: bool


def _carried(links: Sequence[Link], moving: Sequence[Link], numbers: Numbers) -> tuple[dict[str, _Place], list[list[_Part]]]:
    """Return the moving body that carries each body, and its place in that joint frame; and what these are made of, last the ground."""
    index = {link.name: k for k, link in enumerate(moving)}
    carried: dict[str, _Place] = {"ground": _Place(-1, _IDENTITY)}
    bodies: list[list[_Part]] = [[] for _ in range(len(moving) + 1)]
    for link in links:
        name = link.name
        place = _Place(index[name], _IDENTITY) if name in index else carried[link.parent].moved(numbers, f"{name}.at", link.at)
        outer, path = numbers.pose(f"{name}.at_body", link.outer), f"{name}.at_body"
        inward = Rigid(outer.R.T, 0.0 - outer.R.T @ outer.p)
        place = place._replace(pose=place.pose @ inward, moves=place.moves or numbers.moves(path), turns=place.turns or numbers.turns(path))
        carried[name] = place
        body, vary = link.body, numbers.vary
        own = (("mass", body.mass), ("com", np.array(body.com)), ("inertia", body.inertia))
        mass, com, inertia = (numbers.get(f"{name}.{what}", value) for what, value in own)
        if varies(mass):  # what is given to a kernel may be no mass
            mass = where(mass >= 0.0, mass, np.nan)
        bodies[place.body].append(_Part(mass, com, inertia, place, vary(f"{name}.mass"), place.moves or vary(f"{name}.com")))
    return carried, bodies


def _kept(own: Tree, at: Sequence[_Place]) -> tuple[bool, ...]:
    """Return which bodies keep their inertia: as with the model's own numbers, and where moving it past varied ones would take more."""
    return tuple(keeps or place.moves for keeps, place in zip(own.keeping, at, strict=True))


def _total(parts: Sequence[_Part]) -> np.ndarray | None:
    """Return the inertia of all parts at the joint frame, None where numbers that it comes from are varied."""
    if any(varies(part.mass, part.com, part.inertia, part.place.pose) for part in parts):
        return None
    inertias = (part.place.pose.inertia(rigid_inertia(part.mass, part.com, part.inertia)).astype(float) for part in parts)
    return sum(inertias, np.zeros((6, 6)))


def _centre(parts: Sequence[_Part], total: np.ndarray | None) -> np.ndarray | None:
    """Return the centre of mass in the joint frame, None where it is varied."""
    if any(part.shifts for part in parts) or (len(parts) > 1 and any(part.weighs for part in parts)):
        return None
    if len(parts) == 1 and parts[0].weighs:
        return parts[0].place.pose.p + parts[0].place.pose.R @ parts[0].com
    if total is None:
        total = _total([part._replace(inertia=np.zeros((3, 3))) if varies(part.inertia) else part for part in parts])
    return centroid(total)


def _inertia(parts: Sequence[_Part], total: np.ndarray | None, frame: Rigid) -> Any:
    """Return the inertia of all parts at a frame in which the joint frame is given."""
    if total is not None:
        return moved(total, frame)
    total = np.zeros((6, 6))
    for part in parts:
        place = frame @ part.place.pose
        com = _dusted(place.p + place.R @ part.com, place.p, part.com)
        turned = _dusted(place.R @ (0.5 * (part.inertia + part.inertia.T)) @ place.R.T, part.inertia)
        total = total + rigid_inertia(part.mass, com, symmetric(turned))
    return total


def _dusted(x: Any, *sources: Any) -> Any:
    """Return numbers without what is only the rounding of those that they come from; other scalars as they are."""
    return x if varies(x) else dusted(x, float(max(np.abs(source).max() for source in sources)))


def _canonical(
    joints: Sequence[Joint], parent: Sequence[int], at: Sequence[_Place], centres: Sequence[np.ndarray | None], numbers: Numbers
) -> tuple[list[Placement], list[Motion], list[Rigid]]:
    """Return the constant placements before the joints, the motions of the joints, and the canonical frames in the user's frames.

    Frames point ahead to the first child, or to the centre of mass. Driven joints have the frames that they would have if they were free.
    The last frame is the ground's.
    """
    motions: list[Any] = [undriven(joint).motion() for joint in joints]
    motions = [replace(x, function=numbers.within(x.function)) if isinstance(x, CustomMotion) else x for x in motions]
    towards: list[Rigid | None] = [None] * (len(joints) + 1)
    for k in reversed(range(len(joints))):
        if (not isinstance(motions[k], DenseMotion) or parent[k] < 0) and not at[k].moves:
            towards[parent[k]] = at[k].pose @ Rigid(motions[k].inner, np.zeros(3))
    frames: list[Rigid] = [_IDENTITY] * (len(joints) + 1)
    frames[-1] = towards[-1] or _IDENTITY
    for k in range(len(joints)):
        motions[k], frames[k] = canonical.outer_frame(motions[k], towards[k], centres[k])

    before = []
    for k, joint in enumerate(joints):
        back, inner = frames[parent[k]].inverse(), motions[k].inner
        pose = back @ at[k].pose @ Rigid(inner, np.zeros(3))
        if at[k].rpy is not None:
            placement, motions[k] = canonical.connect_turned(back @ at[k].first, at[k].shift, at[k].rpy, inner, motions[k])
        elif at[k].turns and not isinstance(motions[k], DenseMotion):
            placement = Placement([pose])
        elif at[k].moves:
            placement, motions[k] = canonical.connect_varied(pose, motions[k])
        else:
            scale = max(np.abs(at[k].pose.p).max(), np.abs(frames[parent[k]].p).max())
            placement, motions[k] = canonical.connect(pose, motions[k], scale)
        before.append(placement)
        if isinstance(joint, Driven):
            motions[k] = DrivenMotion(motions[k], numbers.within(joint.given))
    return before, motions, frames


def _placed_spring(spring: Spring, frames: dict[str, tuple[int, Rigid]], numbers: Numbers) -> PlacedSpring:
    (a, in_a), (b, in_b) = frames[spring.a], frames[spring.b]
    at_a, at_b = (numbers.get(f"{spring.name}.{end}", np.array(getattr(spring, end))) for end in ("at_a", "at_b"))
    options = {option: numbers.get(f"{spring.name}.{option}", getattr(spring, option)) for option in SPRING_NUMBERS}
    return PlacedSpring(spring.name, a, b, in_a.p + in_a.R @ at_a, in_b.p + in_b.R @ at_b, **options, slack=spring.slack)


def _placed_bushing(bushing: Bushing, frames: dict[str, tuple[int, Rigid]], numbers: Numbers) -> PlacedBushing:
    (a, in_a), (b, in_b) = frames[bushing.a], frames[bushing.b]
    at_a, at_b = (numbers.pose(f"{bushing.name}.{end}", getattr(bushing, end)) for end in ("at_a", "at_b"))
    options = {option: numbers.get(f"{bushing.name}.{option}", np.array(getattr(bushing, option))) for option in BUSHING_NUMBERS}
    return PlacedBushing(bushing.name, a, b, _placed(in_a, at_a), _placed(in_b, at_b), **options)


def _placed_point_force(force: PointForce, frames: dict[str, tuple[int, Rigid]], numbers: Numbers) -> PlacedPointForce:
    body, frame = frames[force.body]
    other, behind = (None, _IDENTITY) if force.other is None else frames[force.other]
    at, at_other = (numbers.get(f"{force.name}.{end}", np.array(getattr(force, end))) for end in ("at", "at_other"))
    points = frame.p + frame.R @ at, behind.p + behind.R @ at_other
    return PlacedPointForce(
        force.name, numbers.within(force.value), force.axes == "body", body, points[0], frame.R, other, points[1]
    )


def _placed_contact(contact: Contact, frames: dict[str, tuple[int, Rigid]], numbers: Numbers) -> PlacedContact:
    (a, in_a), (b, in_b) = frames[contact.body], frames[contact.against]
    contact = with_shapes(contact, numbers)
    options = {option: numbers.get(f"{contact.name}.{option}", getattr(contact, option)) for option in NUMBERS}
    normal = np.asarray(options.pop("normal"))
    normal = normal / np.sqrt(normal @ normal) if varies(normal) else normal

    def moved(centre: np.ndarray) -> Any:
        return _dusted(in_a.p + in_a.R @ centre, in_a.p, centre)

    rounds = tuple((moved(centre), radius) for centre, radius in contact.spheres())
    solids = tuple((moved(centre), symmetric(_dusted(in_a.R @ E @ in_a.R.T, E))) for centre, E in contact.ellipsoids())
    others = tuple((in_b.p + in_b.R @ centre, radius) for shape in contact.against_shapes for centre, radius in spheres(shape))
    return PlacedContact(contact.name, a, b, rounds, solids, others, normal, exponent=contact.exponent, **options)


def _placed_force(force: Applied, nv: int, frames: dict[str, tuple[int, Rigid]], numbers: Numbers) -> PlacedForce:
    k, frame = (None, _IDENTITY) if force.body is None else frames[force.body]
    point = numbers.get(f"{force.name}.point", np.array(force.point))
    return PlacedForce(force.name, numbers.within(partial(force.value, nv)), k, frame.p + frame.R @ point)


def _placed_closure(closure: Closure, frames: dict[str, tuple[int, Rigid]], numbers: Numbers) -> PlacedClosure:
    (a, in_a), (b, in_b) = frames[closure.a], frames[closure.b]
    at_a, at_b = (numbers.pose(f"{closure.name}.{end}", getattr(closure, end)) for end in ("at_a", "at_b"))
    basic = constraints(closure.joint)
    if isinstance(closure.joint, Distance):
        basic = tuple(one._replace(value=numbers.get(f"{closure.name}.length", one.value)) for one in basic)
    return PlacedClosure(closure.name, a, b, _placed(in_a, at_a), _placed(in_b, at_b), basic)


def _placed(frame: Rigid, at: Rigid) -> Rigid:
    """Return the pose `at` in a frame, without the dust of rounding, so that zeros fold away in traces."""
    pose = frame @ at
    turns = pose.R if varies(pose.R) else np.vectorize(clean, otypes=[float])(pose.R)
    return Rigid(turns, _dusted(pose.p, frame.p, at.p))


def placed_coupling(coupling: Coupling, model: Mechanism, numbers: Numbers | None = None) -> PlacedCoupling:
    """Return a coupling with the places of its coordinates in q and v; refuse other names, and coordinates that are not plain numbers."""
    places, numbers = model.coordinate_places, numbers or Numbers()
    positions, velocities = [], []
    for name, coefficient in coupling.coefficients:
        if name not in places:
            plain = [known for known, (joint, *_) in places.items() if joint.nq == joint.nv]
            choice = f"choose from {', '.join(map(repr, plain))}" if plain else "add a joint whose positions are plain numbers"
            raise ModelError(f"coupling '{coupling.name}': {name!r} is not a coordinate of model '{model.name}'; {choice}")
        joint, at_q, at_v = places[name]
        if joint.nq != joint.nv:
            raise ModelError(
                f"coupling '{coupling.name}': '{name}' is a coordinate of a {joint.kind} joint, whose positions are not plain numbers; "
                "couple coordinates of other joints, or close a loop with m.close"
            )
        coefficient = numbers.get(f"{coupling.name}.{name}", coefficient)
        positions.append((at_q, coefficient))
        velocities.append((at_v, coefficient))
    return PlacedCoupling(coupling.name, tuple(velocities), tuple(positions), numbers.get(f"{coupling.name}.offset", coupling.offset))
