"""Models that are put together: a model attached to another, and other names of things."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.model import parameters
from catena.model.bodies import Body
from catena.model.forces import PartCoordinates
from catena.model.mechanism import Mechanism
from catena.model.parts import Parts
from catena.model.placements import Followed
from catena.model.pose import Pose, following
from catena.model.renaming import Renaming, singular, tables
from catena.model.sections import hung
from catena.model.spanning_tree import Link, Loose, coordinate_names, take_names
from catena.model.wording import choice
from catena.scalars.expression import names

#: Tables of things that share one set of names, as `m.parameters` names their numbers.
_SHARING = (("springs", "bushings", "contacts", "forces", "point_forces"), ("closures", "couplings", "connections"))


def attached(m: Mechanism, other: Mechanism, to: str, at: Pose, prefix: str, joint: Any, shared: Collection[str]) -> Parts:
    """Return the parts of a mechanism with another attached to a body of it."""
    to, place = m.carrier(to, "attach: to names body")
    at = parameters.at_values(at, m.parts.own)
    joint = None if joint is None else parameters.at_values(joint, m.parts.own)
    found = Followed.given(place).then(Followed.given(at), "attach: at")
    at = following(found.pose, found.formulas())
    if isinstance(m.parts.added.get(to), Loose):
        m = Mechanism(hung(m))
    other = _with_shared(m, other, shared)
    first = Mechanism(with_own_coordinates(m))  # what functions take now is theirs
    parts = first.parts
    if joint is not None:
        base = Link(f"{prefix}base", Body(0.0), joint, to, at)
        _check_free(first, (base.name,), "body", parts.added, prefix)
        parts.ties |= parameters.tied(m, f"attach: joint of '{base.name}'", {f"{base.name}.{k}": x for k, x in joint.tied.items()})
        parts.ties |= parameters.tied(m, "attach: at", {f"{base.name}.at.{key}": x for key, x in at.tied.items()})
        parts.added[base.name] = base
        first, to, at = Mechanism(parts), base.name, Pose()
    else:
        parameters.tied(m, "attach: at", at.tied)
    own = {name: name if name in shared else prefix + name for name in other.parts.own}
    bodies = {name: prefix + name for name in other.parts.added}
    placed = Mechanism(_on(Mechanism(with_own_coordinates(other)), Followed.given(at)))
    added = Renaming(placed, {**bodies, "ground": to}, own, lambda kind, name: prefix + name).parts()
    _check_names(first, added, prefix, shared)
    positions = _positions(m, placed, bodies)
    parts.added |= added.added
    for kind, table in tables(added).items():
        setattr(parts, kind, {**getattr(parts, kind), **table})
    parts.own |= {name: value for name, value in added.own.items() if name not in parts.own}
    parts.ties |= added.ties
    parts.joint_names |= {name: prefix + given for name, given in added.joint_names.items()}
    parts.notes = [*parts.notes, *(f"{other.name}: {note}" for note in other.parts.notes)]
    whole = Mechanism(parts)
    parts.keyframes, parts.home = positions(whole, prefix)
    return parts


def with_own_coordinates(m: Mechanism) -> Parts:
    """Return the parts of a mechanism in which functions take the coordinates that there are now, whatever is added."""
    parts = m.parts.opened()
    for name, force in parts.forces.items():
        parts.forces[name] = force if force.part is not None else replace(force, part=PartCoordinates(m.q_names, m.v_names))
    return parts


def _with_shared(m: Mechanism, other: Mechanism, shared: Collection[str]) -> Mechanism:
    """Return another mechanism whose shared parameters have the values that they have in the first."""
    shared = (shared,) if isinstance(shared, str) else tuple(shared)
    for name in shared:
        if name not in other.parts.own:
            raise ModelError(f"attach: shared names {name!r}, which is no parameter of model '{other.name}'; {_choice(name, other)}")
    values = {name: m.parts.own[name] for name in shared if name in m.parts.own}
    for name, value in values.items():
        if value.shape != other.parts.own[name].shape:
            raise ModelError(f"attach: parameter '{name}' has shape {value.shape} here and {other.parts.own[name].shape} in '{other.name}'")
    return Mechanism(parameters.replaced(other, values)) if values else other


def _choice(name: str, m: Mechanism) -> str:
    return choice(name, m.parts.own) if m.parts.own else "it has none"


def _on(m: Mechanism, at: Followed) -> Parts:
    """Return the parts of a mechanism with everything that is on the ground placed in a frame that stands there."""
    parts = m.parts.opened()
    ties = parts.ties

    def moved(pose: Pose, path: str, what: str) -> Pose:
        found = at.then(Followed.of(pose, path, ties), f"attach: {what}")
        for key in (path, f"{path}.xyz", f"{path}.rpy"):
            ties.pop(key, None)
        ties.update(found.ties(path))
        return found.pose

    for path in ("gravity", "friction_speed"):
        ties.pop(path, None)
    for name, link in parts.added.items():
        if isinstance(link, Link) and link.parent == "ground":
            parts.added[name] = replace(link, at=moved(link.at, f"{name}.at", f"body '{name}'"))
    for kind in tables(parts):
        things: dict[str, Any] = getattr(parts, kind)
        for name in things:
            for end, place in (("a", "at_a"), ("b", "at_b"), ("body", "at"), ("parent", "at")):
                pose = getattr(things[name], place, None)
                if getattr(things[name], end, None) == "ground" and isinstance(pose, Pose):
                    things[name] = replace(things[name], **{place: moved(pose, f"{name}.{place}", f"'{name}'")})
    for things, end, key in ((parts.springs, "a", "at_a"), (parts.springs, "b", "at_b"), (parts.point_forces, "other", "at_other")):
        for name, thing in things.items():
            if getattr(thing, end) == "ground":
                path, point = f"{name}.{key}", np.array(getattr(thing, key))
                followed = at.point(ties.pop(path, point))
                if names(followed):
                    ties[path] = np.array(followed, dtype=object)
                things[name] = replace(thing, **{key: tuple((at.pose.p + at.pose.R @ point).tolist())})
    return parts


def _check_names(m: Mechanism, added: Parts, prefix: str, shared: Collection[str]) -> None:
    """Refuse names that both models have."""
    _check_free(m, added.added, "body", {**m.parts.added, **m.parts.frames}, prefix)
    _check_free(m, added.frames, "frame", {**m.parts.added, **m.parts.frames}, prefix)
    known = set[str]().union(*(coordinate_names(link) for link in m.links))
    for link in added.added.values():
        if isinstance(link, Link):
            take_names(link, known)
    here, there = tables(m.parts), tables(added)
    for kinds in (*_SHARING, *((kind,) for kind in here if not any(kind in kinds for kinds in _SHARING))):
        for kind in kinds:
            for taken in kinds:
                _check_free(m, there[kind], singular(kind), here[taken], prefix)
    for name in added.own:
        if name in m.parts.own and name not in shared:
            raise ModelError(
                f"attach: model '{m.name}' has a parameter '{name}' already; give prefix=, or shared=('{name}',) where it is to be the same"
            )
        if not name.isidentifier():
            raise ModelError(f"attach: parameter {name!r} is not a name; give a prefix of letters, digits and underscores, such as 'left_'")
        if name not in m.parts.own and name in m.parameters():
            raise ModelError(f"attach: model '{m.name}' has a number '{name}' already; give prefix=")


def _check_free(m: Mechanism, given: Collection[str], kind: str, taken: Mapping[str, Any], prefix: str) -> None:
    for name in given:
        if name in taken or name == "ground":
            told = f"prefix {prefix!r} leaves it so" if prefix else "none is given"
            raise ModelError(f"attach: model '{m.name}' has a {kind} '{name}' already; give a prefix, such as prefix='left_' ({told})")


def _positions(m: Mechanism, other: Mechanism, bodies: Mapping[str, str]) -> Any:
    """Return the function that makes keyframes and home of the whole model of those that its two parts have."""
    theirs, _ = Renaming(other, bodies, {}, lambda kind, name: name).coordinates()
    first, second = (dict(zip(x.q_names, x.neutral() if x.home is None else x.home, strict=True)) for x in (m, other))
    renamed = {theirs[name]: x for name, x in second.items()}

    def made(whole: Mechanism, prefix: str) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
        def joined(q: Mapping[str, float]) -> np.ndarray:
            return np.array([q.get(name, x) for name, x in zip(whole.q_names, whole.neutral(), strict=True)])

        frames = {name: joined({**renamed, **dict(zip(m.q_names, q, strict=True))}) for name, q in m.keyframes.items()}
        for name, q in other.keyframes.items():
            own = {theirs[key]: x for key, x in zip(other.q_names, q, strict=True)}
            frames[prefix + name if prefix + name not in frames else f"{other.name} {name}"] = joined({**first, **own})
        home = None if m.home is None and other.home is None else joined({**first, **renamed})
        return frames, home

    return made


def renamed(m: Mechanism, old: str, new: str) -> Parts:
    """Return the parts of a mechanism in which a thing has another name: a body where one has this name, or else what has it."""
    kinds = [kind for kind, table in tables(m.parts).items() if old in table]
    if not isinstance(new, str) or not new.strip():
        raise ModelError(f"rename: {new!r} is not a name; give a non-empty string")
    if old == new:
        return m.parts.opened()
    if old in m.parts.added:
        if new in (*m.parts.added, "ground"):
            raise ModelError(f"rename: a body is named '{new}' already; give another name")
        found = Renaming(m, {old: new}, {}, lambda kind, name: name).parts()
    elif kinds:
        for sharing in next((sharing for sharing in _SHARING if kinds[0] in sharing), (kinds[0],)):
            if new in getattr(m.parts, sharing):
                raise ModelError(f"rename: {singular(sharing)} '{new}' is there already; give another name")
        found = Renaming(m, {}, {}, lambda kind, name: new if kind == kinds[0] and name == old else name).parts()
    elif old in m.parts.own:
        if not new.isidentifier() or new in m.parameters():
            raise ModelError(f"rename: parameter '{old}' cannot be named {new!r}; give a free name of letters, digits and underscores")
        found = Renaming(m, {}, {name: new if name == old else name for name in m.parts.own}, lambda kind, name: name).parts()
    else:
        known = [*m.parts.added, *(name for table in tables(m.parts).values() for name in table), *m.parts.own]
        raise ModelError(f"rename: model '{m.name}' has nothing named {old!r}; {choice(old, known)}")
    names_of_coordinates: set[str] = set()
    for link in Mechanism(found).links:
        take_names(link, names_of_coordinates)
    return found
