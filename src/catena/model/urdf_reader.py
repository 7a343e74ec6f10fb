"""Reads URDF: links and joints, mimic joints as couplings, and loops in two dialects (`urdf_loops`).

The root link stands on the ground, or moves freely. A body bears the name of its link, and so do its coordinates; q follows the joints of
the file. No other file is opened than the one beside it that names loops: of meshes the names are kept.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from catena.model import urdf_loops, values
from catena.model.bodies import Body, Geometry
from catena.model.joints import Fixed, Free, Joint, Planar, Prismatic, Revolute, Spherical, Universal
from catena.model.model import Model
from catena.model.wording import choice, short, without
from catena.model.xml_reader import Element

#: A limit as far away as this is none.
NO_LIMIT = 1e9

#: Types of joints; those of a side-file are in capitals.
TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")

#: Elements that have no part in the motion, by what they are in; and those that are read.
_SILENT = {
    "robot": {"material", "transmission", "sensor", "ros2_control", "mujoco", "verbose"},
    "link": {"sensor", "contact", "collision_checking", "self_collision_checking", "self_filter", "surface", "verbose"},
    "joint": {"safety_controller", "calibration"},
}
_READ = {
    "robot": {"link", "joint", "loop", "coupling", "gazebo"},
    "link": {"inertial", "visual", "collision"},
    "joint": {"origin", "parent", "child", "axis", "limit", "dynamics", "joint_properties", "mimic"},
}

#: What Gazebo does to the motion: its element, and what it says where it does nothing.
_GAZEBO = {"turnGravityOff": "false", "gravity": "true", "springStiffness": "0", "dampingFactor": "0"}


class Reader:
    """A URDF file on its way to a model."""

    def __init__(self, root: Element, floating_base: bool, ignore: Collection[str]) -> None:
        self.root, self.floating_base, self.ignore = root, floating_base, ignore
        self.ignored: dict[str, list[str]] = {}
        self.noted: list[str] = []
        if root.tag != "robot":
            root.fail(f"the file begins with <{root.tag}>; a URDF file begins with <robot>")
        for element in root:
            self._check(element)
        self.links = self._named("link")
        self.joints = self._named("joint")
        self.parents = self._parents()
        self._above = {link: self.joints[name].need("parent").word("link") for link, name in self.parents.items()}
        self.types: dict[str, str] = {}
        for name, joint in self.joints.items():
            self.types[name] = joint.word("type", among=TYPES)

    def model(self) -> Model:
        """Return the model of the file."""
        base = self._root_link()
        name = self.root.name or Path(self.root.file).stem
        model = self.root.build(Model, name if name.strip() else "robot")
        side = urdf_loops.Side.beside(self) if not self._ignores("closed_loop") else None
        if side is not None:
            self.types |= side.types
        if base == "ground":
            if self.floating_base:
                self.links[base].fail("this link is the ground, and stands still; rename it, or leave out floating_base")
        else:
            joint = Free() if self.floating_base else Fixed()
            self.links[base].build(model.add, base, self._body(self.links[base]), joint)
        for link in self._order(base):
            self._add(model, link)
        for name, joint in self.joints.items():
            self._mimic(model, name, joint)
        for element in self.root:
            if element.tag in ("loop", "coupling") and not self._ignores(element.tag, element.attributes.get("name")):
                urdf_loops.add(model, self, element)
        if side is not None:
            side.close(model)
        model._notes += self._notes(model)
        return model

    def carried(self, joint: str) -> str:
        """Return the link that a joint carries."""
        return self.joints[joint].need("child").word("link")

    def _named(self, tag: str) -> dict[str, Element]:
        found: dict[str, Element] = {}
        for element in self.root:
            if element.tag == tag:
                name = element.word("name")
                if name in found:
                    element.fail(f"line {found[name].line} has this name already; give each {tag} its own name")
                found[name] = element
        if tag == "link" and not found:
            self.root.fail("there is no <link>; add one")
        return found

    def _ignores(self, what: str, name: str | None = None) -> bool:
        """Return whether something is to be ignored, by what it is or by its name too; and keep it for the notes."""
        if what in self.ignore or f"{what}:{name}" in self.ignore:
            self.ignored.setdefault(what, []).append(name or "")
            return True
        return False

    def _check(self, element: Element) -> None:
        """Refuse an element, or one in it, that may change the motion and is not understood."""
        within = "robot" if element.parent is self.root else element.parent.tag if element.parent else ""
        if element.tag == "gazebo" and not self._ignores("gazebo"):
            for child in element:
                plain = _GAZEBO.get(child.tag)
                if plain is None and child.tag.partition(":")[0] != "joint":
                    continue
                if plain is None or child.text.strip().lower() not in (plain, "1" if plain == "true" else "0", "", "0.0"):
                    child.fail(
                        f"in Gazebo {short(child.text.strip())} changes the motion, and it is not read; say it in URDF, or "
                        f"{without('gazebo')}"
                    )
        elif element.tag.startswith("xacro:"):
            element.fail("this is a macro of xacro; expand the file with the command xacro first")
        elif element.tag not in _READ[within] | _SILENT[within] and not self._ignores(element.tag):
            element.fail(
                f"<{element.tag}> is not known in a <{within}>, and may change the motion; {choice(element.tag, sorted(_READ[within]))}, "
                f"or {without(element.tag)}"
            )
        if within == "robot" and element.tag in ("link", "joint"):
            for child in element:
                self._check(child)

    def _parents(self) -> dict[str, str]:
        """Return the joint of every link that has one."""
        found: dict[str, str] = {}
        for name, joint in self.joints.items():
            for end in ("parent", "child"):
                element = joint.need(end)
                element.known("link")
                link = element.word("link")
                if link not in self.links:
                    element.fail(f"there is no link {short(link)}; {choice(link, self.links)}")
                if end == "child":
                    if link in found:
                        element.fail(
                            f"joint '{found[link]}' at line {self.joints[found[link]].line} carries link {short(link)} already; a link has "
                            "one parent, and loops are closed by <loop>"
                        )
                    found[link] = name
        return found

    def parent(self, link: str) -> str | None:
        """Return the parent of a link."""
        return self._above.get(link)

    def _root_link(self) -> str:
        roots = [name for name in self.links if name not in self.parents]
        if not roots:
            self.root.fail("every link is the child of a joint, so that they form a circle; leave one of the joints out")
        if roots[1:]:
            self.links[roots[1]].fail(
                f"no joint carries this link, nor {short(roots[0])}; a robot has one root: join them, such as by a fixed joint"
            )
        if "ground" in self.links and roots[0] != "ground":
            self.links["ground"].fail("'ground' is the name of what stands still; rename the link")
        return roots[0]

    def _order(self, base: str) -> list[str]:
        """Return the links as their joints stand in the file, but a parent that stands further down right before its first child."""
        order: dict[str, None] = {base: None}
        for name in self.joints:
            path: dict[str, None] = {}
            link = self.carried(name)
            while link not in order:
                if link in path:
                    joint = self.joints[self.parents[link]]
                    joint.fail(f"link {short(link)} hangs on itself, in a circle of joints; hang it on another link")
                path[link] = None
                above = self.parent(link)
                assert above is not None
                link = above
            order.update(dict.fromkeys(reversed(path)))
        return list(order)[1:]

    def _add(self, model: Model, link: str) -> None:
        name = self.parents[link]
        element = self.joints[name]
        joint = self._joint(element, self.types[name])
        parent = self.parent(link)
        assert parent is not None
        element.build(model.add, link, self._body(self.links[link]), joint, parent, element.build(element.pose))
        model._joint_names[link] = name

    def _joint(self, element: Element, kind: str) -> Joint:
        options: dict[str, Any] = {}
        if kind in ("fixed", "FIXED"):
            return Fixed()
        for tag in ("dynamics", "joint_properties"):
            dynamics = element.only(tag)
            for option in ("damping", "friction"):
                if dynamics is not None and dynamics.number(option, 0.0) and not self._ignores(option):
                    options[option] = dynamics.build(values.number, option, dynamics.number(option), 0.0)
        if kind in ("revolute", "prismatic") and (limits := self._limits(element)) is not None:
            options["limits"] = limits
        if kind in ("floating", "SPHERICAL"):
            return element.build({"floating": Free, "SPHERICAL": Spherical}[kind], **options)
        if kind in urdf_loops.UNIVERSAL:
            return element.build(Universal, *urdf_loops.UNIVERSAL[kind], **options)
        axis, at = (1.0, 0.0, 0.0), element.only("axis")
        if at is not None:
            at.known("xyz")
            axis = at.build(values.direction, f"{kind} axis", at.numbers("xyz", 3))
        return element.build({"prismatic": Prismatic, "planar": Planar}.get(kind, Revolute), axis=axis, **options)

    def _limits(self, element: Element) -> tuple[float | None, float | None] | None:
        limit = element.only("limit")
        if limit is None or not {"lower", "upper"} & limit.attributes.keys():
            return None
        lower, upper = limit.number("lower", 0.0), limit.number("upper", 0.0)
        if self._ignores("limits"):
            return None
        if lower >= upper:
            limit.fail(
                f"lower {lower:g} is not below upper {upper:g}; give the smaller number first, make the joint fixed, or "
                f"{without('limits')}"
            )
        return lower if lower > -NO_LIMIT else None, upper if upper < NO_LIMIT else None

    def _body(self, link: Element) -> Body:
        looks = tuple(replace(look, colour=self._colour(shape)) for shape in self._shapes(link) if (look := _geometry(shape)) is not None)
        inertial = link.only("inertial")
        if inertial is None:
            return Body(0.0, geometry=looks)
        mass, inertia = inertial.need("mass"), inertial.need("inertia")
        mass.known("value")
        inertia.known("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        for child in inertial:
            if child.tag not in ("mass", "inertia", "origin"):
                child.fail(f"<{child.tag}> is not known in an <inertial>; {choice(child.tag, ('mass', 'inertia', 'origin'))}")
        at = inertial.build(inertial.pose)
        xx, yy, zz = (inertia.number(key) for key in ("ixx", "iyy", "izz"))
        xy, xz, yz = (inertia.number(key, 0.0) for key in ("ixy", "ixz", "iyz"))
        if max(map(abs, (xx, yy, zz, xy, xz, yz))) < 1e-15:  # what a program left of nothing
            xx = yy = zz = xy = xz = yz = 0.0
        moments = at.R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ at.R.T
        return inertial.build(Body, mass.number("value"), at.p, 0.5 * (moments + moments.T), looks)

    def _shapes(self, link: Element) -> list[Element]:
        """Return the shapes of a link to look at: the visual ones, or those of collisions where there are none."""
        for tag in ("visual", "collision"):
            if shapes := [child for child in link if child.tag == tag]:
                return shapes
        return []

    def _colour(self, shape: Element) -> tuple[float, float, float] | None:
        """Return the colour of a shape: that of its material, or of the material of this name elsewhere in the file."""
        material = next((child for child in shape if child.tag == "material"), None)
        if material is None:
            return None
        return _painted(material) or self._materials.get(material.attributes.get("name", ""))

    @cached_property
    def _materials(self) -> dict[str, tuple[float, float, float]]:
        named = [element for element in self.root.all() if element.tag == "material" and element.attributes.get("name")]
        return {element.attributes["name"]: colour for element in named if (colour := _painted(element)) is not None}

    def _mimic(self, model: Model, name: str, joint: Element) -> None:
        mimic = joint.only("mimic")
        if mimic is None or self._ignores("mimic", name):
            return
        mimic.known("joint", "multiplier", "offset")
        other = mimic.word("joint")
        if other not in self.joints:
            mimic.fail(f"there is no joint {short(other)}; {choice(other, self.joints)}")
        if other == name:
            mimic.fail("the joint mimics itself; name another joint")
        if self.types[name] in ("fixed", "FIXED"):
            model._notes.append(f"joint {short(name)} is fixed, and mimics nothing")
            return
        for which in (name, other):
            if self.types[which] not in ("revolute", "continuous", "prismatic"):
                kind = self.types[which]
                mimic.fail(f"joint {short(which)} is {kind}; only revolute, continuous and prismatic joints mimic and are mimicked")
        multiplier, offset = mimic.number("multiplier", 1.0), mimic.number("offset", 0.0)
        coefficients = {self.carried(name): 1.0} | ({self.carried(other): -multiplier} if multiplier else {})
        mimic.build(model.couple, name, coefficients, offset)

    def _notes(self, model: Model) -> list[str]:
        """Return what is to be said of a file that was read."""
        notes = list(self.noted)
        if self.ignored:
            notes.append("ignored as asked: " + ", ".join(_listed(what, names) for what, names in self.ignored.items()))
        within: dict[str, int] = {}
        for element in self.root.all():
            within[element.tag] = within.get(element.tag, 0) + 1
        if within.get("collision"):
            notes.append(f"nothing collides: {within['collision']} collision shapes are not part of the motion")
        limits = [limit for joint in self.joints.values() if (limit := joint.only("limit")) is not None]
        if capped := sum(bool({"effort", "velocity"} & limit.attributes.keys()) for limit in limits):
            notes.append(f"limits of effort and velocity ({capped} joints) are not applied: joint forces act as they are given")
        silent = sorted((_SILENT["robot"] | _SILENT["link"] | _SILENT["joint"] | {"gazebo"}) - {"material"})
        if unread := [f"{tag} ({within[tag]})" for tag in silent if within.get(tag) and tag not in self.ignored]:
            notes.append("not read, without a part in the motion here: " + ", ".join(unread))
        known = {"name", "type", "independent", "lower", "upper", "effort", "velocity", "damping", "friction"}
        own = {f"{e.tag} {key}" for joint in self.joints.values() for e in (joint, *joint) if e.tag in ("joint", "limit", "dynamics")
               for key in e.attributes if key not in known}  # fmt: skip
        if own:
            notes.append("attributes that URDF does not have were not read: " + ", ".join(sorted(own)))
        free = [name for name, joint in self.joints.items() if joint.attributes.get("independent", "").lower() == "true"]
        if free and model.has_loops:
            listed = ", ".join(self.carried(name) for name in free)
            notes.append(f"the file calls these coordinates independent, as ct.reduced takes them: {listed}")
        return notes


def _geometry(shape: Element) -> Geometry | None:
    """Return the shape of a <visual> or <collision>, none where there is no place for it."""
    at, geometry = shape.build(shape.pose), shape.need("geometry")
    if len(geometry.children) != 1:
        geometry.fail(f"there are {len(geometry.children)} shapes; give one of <box>, <cylinder>, <sphere> and <mesh>")
    (own,) = geometry
    center: tuple[float, float, float] = tuple(at.p.tolist())  # type: ignore[assignment]
    if own.tag == "sphere":
        return Geometry("sphere", (_size(own, "radius"),), center)
    if own.tag == "cylinder":
        axis: tuple[float, float, float] = tuple(at.R[:, 2].tolist())  # type: ignore[assignment]
        return Geometry("cylinder", (_size(own, "length"), _size(own, "radius")), center, axis)
    rpy = _rpy(shape)
    if own.tag == "box":
        size = own.numbers("size", 3)
        if min(size) <= 0.0:
            own.fail(f"size {short(own.attributes['size'])} is not above 0; give three lengths")
        return Geometry("box", size, center, rpy=rpy)
    if own.tag == "mesh":
        return Geometry("mesh", own.numbers("scale", 3, (1.0, 1.0, 1.0)), center, rpy=rpy, file=own.word("filename"))
    return None


def _listed(what: str, names: list[str]) -> str:
    """Return what was ignored, by name where there are names."""
    given = ", ".join(map(short, filter(None, names)))
    return f"{what} ({given or len(names)})"


def _painted(material: Element) -> tuple[float, float, float] | None:
    """Return the colour that a <material> gives itself."""
    colour = material.only("color")
    if colour is None:
        return None
    red, green, blue, _ = (min(max(part, 0.0), 1.0) for part in colour.numbers("rgba", 4))
    return red, green, blue


def _size(shape: Element, key: str) -> float:
    size = shape.number(key)
    if size <= 0.0:
        shape.fail(f"{key} {size:g} is not above 0; give a length")
    return size


def _rpy(shape: Element) -> tuple[float, float, float]:
    origin = shape.only("origin")
    roll, pitch, yaw = (0.0, 0.0, 0.0) if origin is None else origin.numbers("rpy", 3, (0.0, 0.0, 0.0))
    return roll, pitch, yaw


def model(root: Element, floating_base: bool, ignore: Collection[str]) -> Model:
    """Return the model of a URDF file, of which the root element is given."""
    return Reader(root, floating_base, ignore).model()


