"""Parts of models: joints that are locked, bodies that are removed, and a part of a model as a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.formulations.loops.basic_constraints import closure_residual, ends
from catena.graph import Trace
from catena.model import parameters, values
from catena.model.closures import Closure, constraints
from catena.model.driven import Driven, Harmonic
from catena.model.forces import Applied, PartCoordinates
from catena.model.joints import Custom, Fixed, Joint
from catena.model.mechanism import Mechanism
from catena.model.parts import Parts
from catena.model.placed import PlacedClosure
from catena.model.placements import Followed
from catena.model.pose import Pose
from catena.model.renaming import BODIES, singular, tables
from catena.model.spanning_tree import Link, Loose, check_not_welded
from catena.model.wording import choice
from catena.scalars import expression
from catena.scalars.expression import names
from catena.spatial import Rigid

#: Closure residual up to which locked joints leave a loop closed, relative to lengths and in radians; and a coupling, of its terms.
_CLOSED = 1e-6


def hung(m: Mechanism) -> Parts:
    """Return the parts of a mechanism with the joints of its spanning tree in place of connections."""
    parts = m.parts.opened()
    if any(isinstance(added, Loose) for added in parts.added.values()) or parts.connections:
        parts.added = {link.name: link for link in m.links}
        parts.closures = {closure.name: Closure(closure.name, closure.joint, closure.a, closure.b, closure.at_a, closure.at_b)
                          for closure in m.loops}  # fmt: skip
        parts.ties, parts.connections = parameters.ties(m), {}
    return parts


def locked(m: Mechanism, given: Mapping[str, Any]) -> Parts:
    """Return the parts of a mechanism in which joints are fixed at positions."""
    parts = hung(m)
    owners = parameters.owners(Mechanism(parts.opened()))
    held_q: dict[str, str | float] = {}
    held_v: dict[str, str | float] = {}
    for name, value in given.items():
        link = _lockable(m, parts, name)
        q = _position(link.name, link.joint, value)
        at_q, at_v = next((at_q, at_v) for other, at_q, at_v in m.slices() if other.name == name)
        held_q |= dict(zip(m.q_names[at_q], q.tolist(), strict=True))
        held_v |= dict.fromkeys(m.v_names[at_v], 0.0)
        path = f"{name}.at"
        _check_does_not_follow(m, link)
        with expression.values(m.parts.own):
            moved = Pose.of(joint_pose(link.joint, q))
        found = Followed.of(link.at, path, parts.ties).then(Followed(moved), f"lock: body '{name}'")
        stay = ("mass", "com", "inertia", "at_body", "geometry")
        for key in [key for key in parts.ties if owners[key][:2] == ("added", name) and owners[key][2].split(".")[0] not in stay]:
            del parts.ties[key]  # of the place, which is another, and of options
        parts.ties |= found.ties(path)
        parts.added[name] = replace(link, joint=Fixed(), at=found.pose)
    _hold_couplings(parts, held_q)
    _drop(parts.actuators, lambda one: any(key in held_q for key, _ in one.coefficients), parts, "lock", "actuator")
    _keep_functions(m, parts, held_q, held_v)
    _keep_positions(m, parts, held_q)
    for name, closure in list(parts.closures.items()):
        if _welded(closure, parts):
            _check_closed(closure, parts)
            _drop(parts.closures, lambda one, name=name: one.name == name, parts, "lock", "loop")
    _drop_ties(parts, owners)
    return parts


def _lockable(m: Mechanism, parts: Parts, name: str) -> Link:
    """Return the body of a joint that can be locked."""
    link = parts.added.get(name)
    if not isinstance(link, Link):
        owner = next((link.name for link in m.links if name.startswith(f"{link.name}.")), None)
        if owner in parts.added and name in m.q_names:
            raise ModelError(
                f"lock: '{name}' is one of several coordinates of its joint; lock all of them, {owner}=(…), or hold this one by "
                f"m.couple('hold', {{'{name}': 1.0}}, offset=value)"
            )
        raise ModelError(f"lock: model '{m.name}' has no joint '{name}'; {choice(name, [x.name for x in m.links if x.joint.nv])}")
    if isinstance(link.joint, Driven) or not link.joint.nv:
        raise ModelError(f"lock: the joint of '{name}' is {link.joint.kind}, and has no coordinate to lock; leave it out")
    return link


def _check_does_not_follow(m: Mechanism, link: Link) -> None:
    """Refuse a custom joint whose function reads parameters, for its pose would no longer follow them."""
    if not isinstance(link.joint, Custom):
        return
    trace, nq = Trace("custom"), link.joint.nq
    q = trace.input("q", (nq,))
    with expression.values({name: trace.input(name, value.shape) for name, value in m.parts.own.items()}):
        pose = link.joint.motion().placement(q).rigid()
    if any(kind == "input" and at >= nq for kind, at, *_ in trace.graph(R=pose.R, p=pose.p).nodes):
        raise ModelError(
            f"lock: the custom joint of '{link.name}' follows parameters, and its pose would not; hang the body by ct.Fixed() at a place "
            "that follows them"
        )


def _position(name: str, joint: Joint, value: Any) -> np.ndarray:
    q = values.array(f"lock: '{name}'", np.atleast_1d(np.asarray(value, dtype=object)), (joint.nq,))
    if joint.nq != joint.nv and not q[-4:].any():
        raise ModelError(f"lock: '{name}': {value!r} is not a rotation; give a unit quaternion")
    return np.asarray(joint.normalised(q), dtype=float)


def joint_pose(joint: Joint, q: np.ndarray) -> Rigid:
    """Return the frame of the child in the joint frame."""
    motion: Any = joint.motion()
    moved = motion.placement(q).rigid()
    turned = Rigid(motion.inner @ np.asarray(moved.R, dtype=float), motion.inner @ np.asarray(moved.p, dtype=float))
    return Rigid(turned.R @ motion.outer.T, turned.p)


def _hold_couplings(parts: Parts, held: Mapping[str, Any]) -> None:
    """Put numbers in place of locked coordinates in couplings; what is left without a coordinate must hold."""
    for name, coupling in list(parts.couplings.items()):
        if not any(key in held for key, _ in coupling.coefficients):
            continue
        taken = sum(x * held[key] for key, x in coupling.coefficients if key in held)
        rest = tuple((key, x) for key, x in coupling.coefficients if key not in held)
        formulas = [(parts.ties.pop(f"{name}.{key}", np.array(x))[()] * held[key]) for key, x in coupling.coefficients if key in held]
        follows = parts.ties.pop(f"{name}.offset", np.array(coupling.offset))[()] - sum(formulas)
        if rest:
            parts.couplings[name] = replace(coupling, coefficients=rest, offset=coupling.offset - taken)
            if names(follows):
                parts.ties[f"{name}.offset"] = np.array(follows, dtype=object)
            continue
        off = abs(taken - coupling.offset)
        if off > _CLOSED * max(1.0, *(abs(x * held[key]) for key, x in coupling.coefficients)):
            raise ModelError(f"lock: coupling '{name}' is off by {off:.3g} at these positions; lock positions at which it holds")
        del parts.couplings[name]
        parts.notes.append(f"lock: coupling '{name}' holds by the locked joints, and is left out")


def _welded(closure: Closure, parts: Parts) -> bool:
    try:
        check_not_welded(closure, parts.added)
    except ModelError:
        return True
    return False


def _check_closed(closure: Closure, parts: Parts) -> None:
    """Refuse a loop that is open between bodies that are welded together."""
    placed = PlacedClosure(closure.name, -1, -1, closure.at_a, closure.at_b, constraints(closure.joint))
    a, b = (_in_carrier(name, parts) for name in (closure.a, closure.b))
    found = ends(placed.at_a, placed.at_b, a, b, np.eye(3))
    off = float(np.abs(np.asarray(closure_residual(placed.constraints, found)[0], dtype=float)).max())
    if off > _CLOSED * max(1.0, float(np.abs(found.p_a).max())):
        raise ModelError(f"lock: loop '{closure.name}' is open by {off:.3g} at these positions; lock positions of m.assemble(...)")


def _in_carrier(name: str, parts: Parts) -> Rigid:
    """Return the frame of a body in that of the moving body, or the ground, that it is welded to."""
    place = Rigid(np.eye(3), np.zeros(3))
    while isinstance(link := parts.added.get(name), Link) and isinstance(link.joint, Fixed):
        place, name = Rigid(link.at.R, link.at.p) @ link.inward @ place, link.parent
    return place


def descendants(m: Mechanism, bodies: Collection[str]) -> tuple[str, ...]:
    """Return bodies with everything that hangs on them, in the order of the links."""
    found = set(bodies)
    for link in m.links:
        if link.parent in found:
            found.add(link.name)
    return tuple(link.name for link in m.links if link.name in found)


def removed(m: Mechanism, bodies: Collection[str]) -> Parts:
    """Return the parts of a mechanism without bodies and everything that hangs on them."""
    for body in bodies:
        m.check_body(body, "remove names body")
        if body == "ground":
            raise ModelError("remove: the ground cannot be removed; name a body")
    gone = descendants(m, bodies)
    return _without(m, hung(m), gone, "remove")


def submodel(m: Mechanism, bodies: Collection[str]) -> Parts:
    """Return the parts of a model of bodies and everything that hangs on them; its ground stands for the body that these hang on."""
    for body in bodies:
        m.check_body(body, "submodel names body")
    if "ground" in bodies or not bodies:
        raise ModelError("submodel: name one body or more, but not the ground; a copy of the whole model is m.copy()")
    kept = descendants(m, bodies)
    parents = {link.parent: link.name for link in m.links if link.name in kept and link.parent not in kept}
    if len(parents) > 1:
        listed = ", ".join(f"'{child}' on '{parent}'" for parent, child in parents.items())
        raise ModelError(f"submodel: the bodies hang on different ones, {listed}; name bodies that hang on one, or this one too")
    (base,) = parents
    parts = hung(m)
    if base != "ground":
        for kind in tables(parts):  # the ground, before it is another
            _drop(getattr(parts, kind), lambda one: "ground" in _bodies(one), parts, "submodel", singular(kind))
        for name, link in parts.added.items():
            if isinstance(link, Link) and name in kept and link.parent == base:
                parts.added[name] = replace(link, parent="ground")
        for kind, table in tables(parts).items():
            for name, entry in table.items():
                if moved := [end for end in ("a", "b") if getattr(entry, end, None) == base]:
                    getattr(parts, kind)[name] = replace(entry, **dict.fromkeys(moved, "ground"))
    return _without(m, parts, tuple(name for name in m.body_names if name not in kept), "submodel")


def _without(m: Mechanism, parts: Parts, gone: Collection[str], what: str) -> Parts:
    """Return parts without bodies, and without what names them or their coordinates; notes tell what else went."""
    q: dict[str, str | float] = {}
    v: dict[str, str | float] = {}
    start = m.neutral() if m.home is None else m.home
    for link, at_q, at_v in m.slices():
        if link.name in gone:
            q |= dict(zip(m.q_names[at_q], start[at_q].tolist(), strict=True))
            v |= dict.fromkeys(m.v_names[at_v], 0.0)
    owners = parameters.owners(Mechanism(parts.opened()))
    for body in gone:
        del parts.added[body]
        parts.joint_names.pop(body, None)

    def names_one(entry: Any) -> bool:
        return any(body in gone for body in _bodies(entry)) or any(key in q for key, _ in getattr(entry, "coefficients", ()))

    for kind in tables(parts):
        _drop(getattr(parts, kind), names_one, parts, what, singular(kind))
    _keep_functions(m, parts, q, v, what)
    _keep_positions(m, parts, q)
    _drop_ties(parts, owners)
    if what == "submodel" and not _has_functions(parts):
        used = set[str]().union(*map(names, parts.ties.values()))
        parts.own = {name: value for name, value in parts.own.items() if name in used}
    return parts


def _bodies(entry: Any) -> list[str]:
    """Return the bodies that a spring, loop, force or other thing names."""
    return [body for key in BODIES if isinstance(body := getattr(entry, key, None), str)]


def _has_functions(parts: Parts) -> bool:
    """Return whether there are functions of the user's, which may use any parameter."""
    joints = [link.joint for link in parts.added.values() if isinstance(link, Link)]
    moving = any(isinstance(joint, Driven) and not isinstance(joint.function, Harmonic) for joint in joints)
    moving = moving or bool(parts.forces) or bool(parts.point_forces)
    return moving or any(isinstance(getattr(joint, "joint", joint), Custom) for joint in joints)


def _drop(table: dict[str, Any], which: Callable[[Any], bool], parts: Parts, what: str, kind: str) -> None:
    """Take things out of a table, and note it."""
    gone = [name for name, entry in table.items() if which(entry)]
    for name in gone:
        del table[name]
    if gone:
        many = ("s", "were") if gone[1:] else ("", "was")
        parts.notes.append(f"{what}: {kind}{many[0]} {', '.join(map(repr, gone))} {many[1]} left out")


def _drop_ties(parts: Parts, owners: Mapping[str, tuple[str, str, str]]) -> None:
    """Forget the formulas of things that are gone, by the owners of numbers."""
    for path in list(parts.ties):
        table, name, key = owners[path]
        if key and name not in getattr(parts, table):
            del parts.ties[path]


def _keep_functions(m: Mechanism, parts: Parts, q: Mapping[str, Any], v: Mapping[str, Any], what: str = "") -> None:
    """Give functions of forces numbers for the coordinates that are gone; with `what`, leave out those that depend on them."""
    lost = []
    for name, force in parts.forces.items():
        seen = force.part or PartCoordinates(m.q_names, m.v_names)
        parts.forces[name] = replace(force, part=seen.where(q, v))
        acts = force.body is not None or any(isinstance(x, str) for x in seen.where(q, v).v)
        if not acts or (what and _depends(replace(force, part=seen), q, v)):
            lost.append(name)
    _drop(parts.forces, lambda force: force.name in lost, parts, what or "lock", "force")


def _depends(force: Applied, q: Collection[str], v: Collection[str]) -> bool:
    assert force.part is not None
    at_q, at_v = ([k for k, x in enumerate(own) if x in gone] for own, gone in zip(force.part, (q, v), strict=True))
    return bool(at_q or at_v) and force.depends_on(at_q, at_v)


def _keep_positions(m: Mechanism, parts: Parts, gone: Collection[str]) -> None:
    """Take coordinates out of home and keyframes."""
    stays = [k for k, name in enumerate(m.q_names) if name not in gone]
    parts.home = None if parts.home is None else parts.home[stays]
    parts.keyframes = {name: q[stays] for name, q in parts.keyframes.items()}
