"""Reads URDF: links and joints, mimic joints as couplings, and loops in two dialects (`urdf_loops`).

The root link is fixed to the ground, or moves freely. A body has the name of its link, and so do its coordinates; q follows the joints of
the file. Only the file beside it that names loops is opened as well; of meshes the names are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from catena.files import urdf_loops
from catena.files.body_order import parents_first
from catena.files.urdf_shapes import materials, shapes
from catena.files.xml_reader import Element
from catena.model import values
from catena.model.bodies import Body
from catena.model.builder import Builder
from catena.model.joints import Fixed, Free, Joint, Planar, Prismatic, Revolute, Spherical, Universal
from catena.model.wording import UNSUPPORTED, choice, no_such, short, without

#: A limit this far away does not limit.
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

#: Elements by which Gazebo changes the motion, and their text where they do not.
_GAZEBO = {"turnGravityOff": "false", "gravity": "true", "springStiffness": "0", "dampingFactor": "0"}


class Reader:
    """A URDF file on its way to a model; `root` is its root element."""

    def __init__(self, root: Element, floating_base: bool, ignore: Collection[str]) -> None:
        self.root, self.floating_base, self.ignore = root, floating_base, ignore
        self.ignored: dict[str, list[str]] = {}
        self.noted: list[str] = []
        if root.tag != "robot":
            root.fail(f"the file begins with <{root.tag}>; a URDF file begins with <robot>")
        for element in root:
            self._check(element)
        self._materials = materials(root)
        self.links = self._named("link")
        self.joints = self._named("joint")
        self.parents = self._parents()
        self._above = {link: self.joints[name].need("parent").word("link") for link, name in self.parents.items()}
        self.types = {name: joint.word("type", among=TYPES) for name, joint in self.joints.items()}

    def model(self) -> Builder:
        base = self._root_link()
        name = self.root.name or Path(self.root.file).stem
        model = self.root.build(Builder, name if name.strip() else "robot")
        side = urdf_loops.Side.beside(self) if not self._ignores("closed_loop") else None
        if side is not None:
            self.types |= side.types
        if base == "ground":
            if self.floating_base:
                self.links[base].fail("this link is the ground, which does not move; rename it, or leave out floating_base")
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
        self._check_ignored()
        model.parts.notes += self._notes(model)
        return model

    def _check_ignored(self) -> None:
        """Refuse to ignore by its name what does not exist, and note what else there is nothing of."""
        for asked in self.ignore:
            kind, colon, name = asked.partition(":")
            if colon and name not in self.ignored.get(kind, ()):
                there = [f"mimic:{joint}" for joint in self.joints if self.joints[joint].only("mimic") is not None]
                there += [f"{e.tag}:{e.attributes.get('name')}" for e in self.root if e.tag in ("loop", "coupling")]
                remedy = choice(asked, there) if there else "there is no loop, coupling or mimic; leave it out"
                self.root.fail(f"ignore names {short(asked)}, which is not in the file; {remedy}")
            if not colon and asked not in (*self.ignored, UNSUPPORTED):
                self.noted.append(f"ignore names {short(asked)}, of which there is nothing in the file")

    def carried(self, joint: str) -> str:
        """Return the link that a joint carries."""
        return self.joints[joint].need("child").word("link")

    def _named(self, tag: str) -> dict[str, Element]:
        named: dict[str, Element] = {}
        for element in self.root:
            if element.tag == tag:
                name = element.word("name")
                if name in named:
                    element.fail(f"line {named[name].line} has this name already; give each {tag} its own name")
                named[name] = element
        if tag == "link" and not named:
            self.root.fail("there is no <link>; add one")
        return named

    def _ignores(self, what: str, name: str | None = None, unsupported: bool = False) -> bool:
        """Return whether something is to be ignored, by what it is, by its name too, or as unsupported; and enter it in the notes."""
        if what in self.ignore or f"{what}:{name}" in self.ignore or (unsupported and UNSUPPORTED in self.ignore):
            self.ignored.setdefault(what, []).append(name or "")
            return True
        return False

    def _check(self, element: Element) -> None:
        """Refuse an element, or one in it, that may change the motion and is not read."""
        within = "robot" if element.parent is self.root else element.parent.tag if element.parent else ""
        if element.tag == "gazebo" and not self._ignores("gazebo", unsupported=True):
            for child in element:
                plain = _GAZEBO.get(child.tag)
                if plain is None and child.tag.partition(":")[0] != "joint":
                    continue
                if plain is None or child.text.strip().lower() not in (plain, "1" if plain == "true" else "0", "", "0.0"):
                    child.fail(
                        f"in Gazebo {short(child.text.strip())} changes the motion, and is not read; say it in URDF, or {without('gazebo')}"
                    )
        elif element.tag.startswith("xacro:"):
            element.fail("this is a macro of xacro; expand the file with the command xacro first")
        elif element.tag not in _READ[within] | _SILENT[within] and not self._ignores(element.tag, unsupported=True):
            element.fail(
                f"<{element.tag}> is not known in a <{within}>, and may change the motion; {choice(element.tag, sorted(_READ[within]))}, "
                f"or {without(element.tag)}"
            )
        if within == "robot" and element.tag in ("link", "joint"):
            for child in element:
                self._check(child)

    def _parents(self) -> dict[str, str]:
        """Return the joint of every link that has one."""
        joint_of: dict[str, str] = {}
        for name, joint in self.joints.items():
            for end in ("parent", "child"):
                element = joint.need(end)
                element.known("link")
                link = element.word("link")
                if link not in self.links:
                    element.fail(no_such("link", link, self.links))
                if end == "child":
                    if link in joint_of:
                        element.fail(
                            f"joint '{joint_of[link]}' at line {self.joints[joint_of[link]].line} carries link {short(link)} already; "
                            "a link has one parent, and loops are closed by <loop>"
                        )
                    joint_of[link] = name
        return joint_of

    def parent(self, link: str) -> str | None:
        return self._above.get(link)

    def _root_link(self) -> str:
        roots = [name for name in self.links if name not in self.parents]
        if not roots:
            self.root.fail("every link is the child of a joint, so that they form a circle; leave one of the joints out")
        if roots[1:]:
            self.links[roots[1]].fail(f"no joint carries this link, nor {short(roots[0])}; a robot has one root: add a joint")
        if "ground" in self.links and roots[0] != "ground":
            self.links["ground"].fail("'ground' is the name of the fixed frame; rename the link")
        return roots[0]

    def _order(self, base: str) -> list[str]:
        """Return all links but the base as their joints stand in the file, but a parent that stands further down before its first child."""

        def refuse(cycle: list[str]) -> NoReturn:
            joint = self.joints[self.parents[cycle[0]]]
            joint.fail(f"link {short(cycle[0])} hangs on itself, in a circle of joints; hang it on another link")

        return parents_first([base, *map(self.carried, self.joints)], self.parent, refuse)[1:]

    def _add(self, model: Builder, link: str) -> None:
        name = self.parents[link]
        element = self.joints[name]
        joint = self._joint(element, self.types[name])
        parent = self.parent(link)
        assert parent is not None
        element.build(model.add, link, self._body(self.links[link]), joint, parent, element.build(element.pose))
        model.parts.joint_names[link] = name

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
        if kind in ("revolute", "continuous", "prismatic"):
            options |= self._largest(element)
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
                f"lower {lower:g} is not below upper {upper:g}; give the smaller number first, make the joint fixed, or {without('limits')}"
            )
        return lower if lower > -NO_LIMIT else None, upper if upper < NO_LIMIT else None

    def _largest(self, element: Element) -> dict[str, float]:
        """Return the limits of effort and velocity that a joint has."""
        limit = element.only("limit")
        if limit is None:
            return {}
        given = {key: limit.number(key) for key in ("effort", "velocity") if key in limit.attributes}
        return {key: most for key, most in given.items() if 0.0 < most < NO_LIMIT}  # programs write 0, -1 and huge numbers for no limit

    def _body(self, link: Element) -> Body:
        looks, inertial = shapes(link, self._materials), link.only("inertial")
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

    def _mimic(self, model: Builder, name: str, joint: Element) -> None:
        mimic = joint.only("mimic")
        if mimic is None or self._ignores("mimic", name):
            return
        mimic.known("joint", "multiplier", "offset")
        other = mimic.word("joint")
        if other not in self.joints:
            mimic.fail(no_such("joint", other, self.joints))
        if other == name:
            mimic.fail("the joint mimics itself; name another joint")
        if self.types[name] in ("fixed", "FIXED"):
            model.parts.notes.append(f"joint {short(name)} is fixed, and mimics nothing")
            return
        for which in (name, other):
            if self.types[which] not in ("revolute", "continuous", "prismatic"):
                kind = self.types[which]
                mimic.fail(f"joint {short(which)} is {kind}; only revolute, continuous and prismatic joints mimic and are mimicked")
        multiplier, offset = mimic.number("multiplier", 1.0), mimic.number("offset", 0.0)
        coefficients = {self.carried(name): 1.0} | ({self.carried(other): -multiplier} if multiplier else {})
        mimic.build(model.couple, name, coefficients, offset)

    def _notes(self, model: Builder) -> list[str]:
        """Return the notes on a file: what was ignored, and what is not part of the model."""
        notes = list(self.noted)
        if self.ignored:
            notes.append("ignored as asked: " + ", ".join(_listed(what, names) for what, names in self.ignored.items()))
        within = Counter(element.tag for element in self.root.all())
        if within.get("collision"):
            notes.append(f"nothing collides: {within['collision']} collision shapes are not part of the motion")
        limits = [limit for joint in self.joints.values() if (limit := joint.only("limit")) is not None]
        if capped := sum(bool({"effort", "velocity"} & limit.attributes.keys()) for limit in limits):
            notes.append(
                f"limits of effort and velocity ({capped} joints) are not enforced by themselves: actuators and catena.environments keep "
                "to those of effort, ct.excitation to those of velocity, and run.exceeded() checks a run"
            )
        silent = sorted((_SILENT["robot"] | _SILENT["link"] | _SILENT["joint"] | {"gazebo"}) - {"material"})
        if unread := [f"{tag} ({within[tag]})" for tag in silent if within.get(tag) and tag not in self.ignored]:
            notes.append("not read, without a part in the motion here: " + ", ".join(unread))
        known = {"name", "type", "independent", "lower", "upper", "effort", "velocity", "damping", "friction"}
        unknown = {f"{e.tag} {key}" for joint in self.joints.values() for e in (joint, *joint) if e.tag in ("joint", "limit", "dynamics")
               for key in e.attributes if key not in known}  # fmt: skip
        if unknown:
            notes.append("attributes that URDF does not have were not read: " + ", ".join(sorted(unknown)))
        free = [name for name, joint in self.joints.items() if joint.attributes.get("independent", "").lower() == "true"]
        if free and model.has_loops:
            listed = ", ".join(self.carried(name) for name in free)
            notes.append(f"the file calls these coordinates independent, as ct.reduced takes them: {listed}")
        return notes


def _listed(what: str, names: list[str]) -> str:
    """Return what was ignored, by name where there are names."""
    given = ", ".join(map(short, filter(None, names)))
    return f"{what} ({given or len(names)})"
