"""Parts of a mechanism under other names: of bodies, and with them of coordinates, paths and formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from catena.model import parameters
from catena.model.bodies import Body
from catena.model.driven import Driven, Harmonic, undriven
from catena.model.forces import Applied, PointForce
from catena.model.joints import Custom
from catena.model.mechanism import Mechanism
from catena.model.parts import Parts
from catena.model.pose import Pose, plain
from catena.model.spanning_tree import Link, coordinate_name
from catena.model.user_functions import wrapped
from catena.scalars.expression import renaming, with_names

#: Fields of things that name bodies.
BODIES = ("a", "b", "body", "parent", "other", "against")

#: Tables of parts that are not things with names of their own.
_OTHERS = ("added", "own", "ties", "keyframes", "joint_names")


def tables(parts: Parts) -> dict[str, Mapping[str, Any]]:
    """Return the tables of springs, forces, loops and other things that name bodies or coordinates."""
    named = {f.name: getattr(parts, f.name) for f in fields(parts)}
    return {kind: table for kind, table in named.items() if isinstance(table, Mapping) and kind not in _OTHERS}


def singular(kind: str) -> str:
    """Return what a thing of a table is called."""
    return "loop" if kind == "closures" else kind.removesuffix("s")


@dataclass(frozen=True)
class Renaming:
    """New names by old ones: of bodies, of own parameters, all or none, and of other things by their kind; bodies not there keep theirs."""

    m: Mechanism
    bodies: Mapping[str, str]
    own: Mapping[str, str]
    thing: Callable[[str, str], str]

    def body(self, name: str) -> str:
        return self.bodies.get(name, name)

    def coordinates(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return new names of positions and of velocities by old ones, with those that driven joints would have."""
        found: tuple[dict[str, str], dict[str, str]] = ({}, {})
        for link in self.m.links:
            joint = undriven(link.joint)
            for names, labels in zip(found, (joint.q_labels, joint.v_labels), strict=True):
                names |= {coordinate_name(link.name, label): coordinate_name(self.body(link.name), label) for label in labels}
        return found

    def parts(self) -> Parts:
        """Return the parts under their new names."""
        parts, (q, v) = self.m.parts.opened(), self.coordinates()
        parts.added = {}
        for added in self.m.parts.added.values():
            renamed = replace(added, name=self.body(added.name), body=self._body(added.body))
            if isinstance(renamed, Link):
                ends = {"at": plain(renamed.at), "outer": plain(renamed.outer)}
                renamed = replace(renamed, parent=self.body(renamed.parent), joint=self._joint(renamed.joint), **ends)
            parts.added[renamed.name] = renamed
        for kind, table in tables(self.m.parts).items():
            setattr(parts, kind, {self.thing(kind, name): self._entry(kind, entry, q, v) for name, entry in table.items()})
        parts.own = {self.own.get(name, name): value for name, value in parts.own.items()}
        paths = self._paths()
        parts.ties = {paths(path): with_names(x, self.own) for path, x in parts.ties.items()}
        parts.joint_names = {self.body(name): joint for name, joint in parts.joint_names.items()}
        return parts

    def _body(self, body: Body) -> Body:
        """Return a body whose meshes are found from another model."""
        if not any(look.kind == "mesh" for look in body.geometry):
            return body
        looks = copy(body)  # without another check of its numbers
        found = (replace(look, folder=look.folder or self.m.folder) if look.kind == "mesh" else look for look in body.geometry)
        object.__setattr__(looks, "geometry", tuple(found))
        return looks

    def _function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the user's in which own parameters have their new names."""
        if all(old == new for old, new in self.own.items()) or isinstance(function, Harmonic):
            return function
        return wrapped(function, lambda plain: renaming(plain, self.own))

    def _joint(self, joint: Any) -> Any:
        """Return a joint whose function knows own parameters by their new names."""
        if isinstance(joint, Driven):
            inner, function = self._joint(joint.joint), self._function(joint.function)
            return joint if inner is joint.joint and function is joint.function else Driven(inner, function)
        function = self._function(joint.function) if isinstance(joint, Custom) else None
        return joint if function is None or function is joint.function else replace(joint, function=function)

    def _entry(self, kind: str, entry: Any, q: Mapping[str, str], v: Mapping[str, str]) -> Any:
        """Return a spring, force, loop or other thing whose fields name bodies and coordinates by their new names."""
        assert is_dataclass(entry)
        changed: dict[str, Any] = {}
        for field in fields(entry):
            value = getattr(entry, field.name)
            if field.name == "name":
                changed["name"] = self.thing(kind, value)
            elif field.name in BODIES and isinstance(value, str):
                # a plane that bodies touch stays that of the ground
                changed[field.name] = value if (field.name, value) == ("against", "ground") else self.body(value)
            elif field.name == "coefficients":
                changed[field.name] = tuple((q.get(key, key), x) for key, x in value)
            elif isinstance(value, Pose):
                changed[field.name] = plain(value)
        if isinstance(entry, Applied):
            changed["part"] = None if entry.part is None else entry.part.where(q, v)
        if isinstance(entry, (Applied, PointForce)):
            changed["function"] = self._function(entry.function)
        if (joint := getattr(entry, "joint", None)) is not None:
            changed["joint"] = self._joint(joint)
        return replace(entry, **changed)  # type: ignore[type-var]

    def _paths(self) -> Callable[[str], str]:
        """Return the function from paths of numbers to their new ones."""
        q, _ = self.coordinates()
        known: dict[str, str] = {}
        for path, (kind, name, key) in parameters.owners(self.m).items():
            owner = self.body(name) if kind == "added" else self.thing(kind, name)
            known[path] = f"{owner}.{q.get(key, key) if kind == 'couplings' else key}" if key else path

        def renamed(path: str) -> str:
            if path in known:
                return known[path]
            hanging = max((name for name in self.m.parts.connections if path.startswith(f"{name}.")), key=len)  # they hang a body
            return self.thing("connections", hanging) + path.removeprefix(hanging)

        return renamed
