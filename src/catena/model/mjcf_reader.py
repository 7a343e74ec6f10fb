"""Reads MJCF, by MuJoCo's own compiler: bodies, joints, what acts along them, gravity, and equalities as loops (`mjcf_loops`).

Positions count from MuJoCo's `qpos0`: the neutral position of the model is the one in which the file shows the robot, and in which its
equalities hold. So a hinge or slider with a `ref` has q = qpos - ref, and a free body's pose is relative to where the file puts it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from catena.errors import MissingPackageError, ModelFileError
from catena.model import mjcf_loops, xml_reader
from catena.model.bodies import Body, Geometry
from catena.model.joints import Fixed, Free, Joint, Prismatic, Revolute, Spherical
from catena.model.model import Model
from catena.model.pose import Pose, rpy
from catena.model.wording import short, without
from catena.model.xml_reader import Element
from catena.spatial import quaternion_inverse, quaternion_product, rotation

#: How deep files may include others, how large each may be [bytes], and how many times one thing may be repeated.
INCLUDES, LIMIT, REPEATED = 8, 64 * 2**20, 10_000

#: The most memory [bytes] that a file may reserve, and the largest number in other attributes of <size>.
MEMORY, SIZE = 2**30, 10**6

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50, "e": 2**60}


def model(root: Element, ignore: Collection[str]) -> Model:
    """Return the model of an MJCF file, of which the root element is given."""
    return Reader(root, ignore).model()


class Reader:
    """An MJCF file on its way to a model."""

    def __init__(self, root: Element, ignore: Collection[str]) -> None:
        if root.tag != "mujoco":
            root.fail(f"the file begins with <{root.tag}>; an MJCF file begins with <mujoco>, a URDF file with <robot>")
        self.root, self.ignore = root, ignore
        self.elements = [element for part in self._parts(root, 0) for element in part.all()]
        self._check_sizes()
        self.library = _mujoco(root.file)
        self.warned: list[str] = []
        self.compiled = self._compiled()
        enums = ("Joint", "Eq", "Obj", "Geom")
        self.joint_kinds, self.equality_kinds, self.objects, self.geom_kinds = (_numbers(getattr(self.library, f"mjt{e}")) for e in enums)
        self.names = self._body_names()
        self.carriers: dict[int, str] = {}  # the body that the coordinate of a hinge or slider is named after, by the joint

    def model(self) -> Model:
        """Return the model of the file."""
        compiled = self.compiled
        gravity = np.zeros(3) if self.disabled("GRAVITY") else compiled.opt.gravity
        name = self.root.attributes.get("model", "").strip() or Path(self.root.file).stem
        model = self.root.build(Model, name, gravity.tolist())
        self._check_honoured()
        for body in range(1, compiled.nbody):
            element = self.element({"body"}, self.names[body])
            self._check_numbers(element, body)
            element.attempt(self._add, model, body)
        mjcf_loops.add(model, self)
        model._keyframes |= self._keyframes(model)
        model._notes += self._notes()
        return model

    def disabled(self, flag: str) -> bool:
        """Return whether the file switches something off, by the name that MuJoCo has for it."""
        bits = vars(_numbers(self.library.mjtDisableBit))
        names = (flag.lower(), "passive") if flag in ("SPRING", "DAMPER") else (flag.lower(),)  # older versions switch both off at once
        return any(self.compiled.opt.disableflags & bits[name] for name in names if name in bits)

    def element(self, tags: Collection[str], name: str | None = None, index: int = 0) -> Element:
        """Return the element of a thing, by its name or its number among its kind, or the root where it is not found."""
        found = [element for element in self.elements if element.tag in tags and _in_model(element)]
        if name:
            found, index = [element for element in found if element.name == name], 0
        return found[index] if index < len(found) else self.root

    # before the compiler sees it

    def _parts(self, root: Element, depth: int) -> Iterator[Element]:
        """Yield the root of a file and of those that it includes, which must be ordinary files of limited size."""
        yield root
        for element in root.all():
            for key in ("file", "meshdir", "texturedir", "assetdir"):
                if key in element.attributes and "\0" in element.attributes[key]:
                    element.fail(f"{key} {short(element.attributes[key])} is not a path; give one")
            if "file" not in element.attributes:
                continue
            for folder in self._folders(element.tag):
                file = folder / element.attributes["file"]
                try:
                    if file.exists() and not file.is_file():
                        element.fail(f"{short(str(file))} is not an ordinary file; give one")
                except OSError:
                    element.fail(f"file {short(element.attributes['file'])} is not a path that the system takes; give one")
                if element.tag == "include" and file.is_file():
                    yield from self._included(element, file, depth)
                    break

    def _included(self, element: Element, file: Path, depth: int) -> Iterator[Element]:
        if depth >= INCLUDES:
            element.fail(f"files include each other more than {INCLUDES} deep; put them in one")
        try:
            with file.open("rb") as stream:
                content = stream.read(LIMIT + 1)
        except OSError as error:
            element.fail(f"{short(str(file))} cannot be read: {error.strerror}")
        if len(content) > LIMIT:
            element.fail(f"{short(str(file))} holds more than {LIMIT >> 20} MiB; give a smaller file")
        yield from self._parts(xml_reader.parsed(content, str(file)), depth + 1)

    def _folders(self, tag: str) -> list[Path]:
        own = Path(self.root.file).parent
        compilers = [element.attributes for element in self.root if element.tag == "compiler"]
        dirs = [given[key] for given in compilers for key in ("meshdir", "texturedir", "assetdir") if key in given]
        return [own] if tag == "include" else [own, *(own / folder for folder in dirs)]

    def _check_sizes(self) -> None:
        """Refuse what would take the compiler without end or without bounds."""
        for element in self.elements:
            for key in ("count", "nrow", "ncol", "width", "height", *(element.attributes if element.tag == "size" else ())):
                text = element.attributes.get(key)
                if text is None:
                    continue
                most = SIZE if element.tag == "size" else REPEATED
                number = re.match(r"\s*(\d+)\s*([kmgtpe]?)", text.lower())
                if key == "memory":
                    if number and int(number[1][:20]) * _UNITS[number[2]] > MEMORY:
                        element.fail(f"memory {short(text)} is more than {MEMORY >> 30} GiB; give less, or leave it out")
                    continue
                product = 1
                for word in re.findall(r"\d+", text)[:4]:
                    product *= max(1, int(word[:20]))
                if product > most:
                    element.fail(f"{key} {short(text)} is more than {most:,}; give less")

    def _compiled(self) -> Any:
        before = self.library.get_mju_user_warning()
        # else MuJoCo writes a log into the current folder
        self.library.set_mju_user_warning(lambda text: self.warned.append(" ".join(str(text).split())))
        try:
            return self.library.MjModel.from_xml_path(self.root.file)
        except ValueError as error:
            said = " ".join(str(error).split())
        except Exception as error:  # of MuJoCo's own kinds, such as FatalError
            if type(error).__module__.partition(".")[0] != "mujoco":
                raise
            said = " ".join(str(error).split())
        finally:
            self.library.set_mju_user_warning(before)
        line = re.search(r"line (\d+)", said)
        named = re.search(r"name '([^']+)'|name = '([^']+)'", said)
        at = self.root
        if not line and named:
            at = next((element for element in self.elements if element.name == (named[1] or named[2])), at)
        said = re.sub(r"^(XML )?Error: |, line \d+", "", said)
        number = line[1] if line else at.line
        raise ModelFileError(f"{at.file}:{number}: MuJoCo does not take the file: {said or 'no reason given'}; correct it")

    # what is not honoured

    def _check_honoured(self) -> None:
        """Refuse what would change the motion, has no place in a model, and is not to be ignored; all of it at once."""
        self.left_out: list[str] = []
        first: Element | None = None
        missing: dict[str, list[str]] = {}
        for what, element, said in self._unhonoured():
            if what in self.ignore:
                self.left_out.append(f"{what} ({said})")
            else:
                first = first or element
                missing.setdefault(what, []).append(said)
        if first is not None:
            listed = "; ".join(f"{what} ({', '.join(said[:3])}{', …' if said[3:] else ''})" for what, said in missing.items())
            raise ModelFileError(
                f"{first.file}:{first.line}: this changes the motion in MuJoCo, and has no place in a model: {listed}; take it out of the "
                f"file, or {without(*self.ignore, *missing)}"
            )

    def _unhonoured(self) -> Iterator[tuple[str, Element, str]]:
        c = self.compiled
        if pair := self._contact():
            names = [self._name(self.objects.geom, i) for i in pair]
            bodies = [self.names[c.geom_bodyid[i]] for i in pair]
            element = self.element({"geom"}, names[0]) if names[0] else self._first_geom(int(c.geom_bodyid[pair[0]]))
            called = [f"geom '{name}'" if name else f"a geom of '{body}'" for name, body in zip(names, bodies, strict=True)]
            yield "contact", element, f"such as of {' and '.join(called)}"
        acting: dict[str, list[int]] = {}
        for i in range(0 if self.disabled("ACTUATION") else c.nu):
            if acts := _acts(c, i):
                acting.setdefault(acts, []).append(i)
        for acts, which in acting.items():
            names = [self._name(self.objects.actuator, i) or str(i) for i in which]
            yield "actuator", self.element(_ACTUATORS, self._name(self.objects.actuator, which[0]), which[0]), f"{', '.join(names)} {acts}"
        for i in range(c.ntendon):
            forces = {key: getattr(c, f"tendon_{key}", None) for key in ("stiffness", "damping", "frictionloss", "limited", "armature")}
            if given := [key for key, entries in forces.items() if entries is not None and np.any(entries[i])]:
                name = self._name(self.objects.tendon, i)
                yield "tendon", self.element({"spatial", "fixed"}, name, i), f"'{name or i}' with {', '.join(given)}"
        if c.opt.density or c.opt.viscosity:
            yield "fluid", self.element({"option"}), f"density {c.opt.density:g}, viscosity {c.opt.viscosity:g}"
        for i in np.flatnonzero(c.body_gravcomp):
            yield "gravcomp", self.element({"body"}, self.names[i]), f"of body '{self.names[i]}'"
        for i in np.flatnonzero(c.body_mocapid >= 0):
            yield "mocap", self.element({"body"}, self.names[i]), f"body '{self.names[i]}', which stands still here"
        if c.nflex:
            yield "flex", self.element({"flex", "flexcomp", "composite"}), f"{c.nflex} of them"
        if c.nplugin:
            yield "plugin", self.element({"plugin", "instance"}), f"{c.nplugin} of them"
        for i in range(c.njnt):
            yield from self._unhonoured_joint(i)
        yield from mjcf_loops.unhonoured(self)

    def _unhonoured_joint(self, i: int) -> Iterator[tuple[str, Element, str]]:
        c, kinds = self.compiled, self.joint_kinds
        kind, at = int(c.jnt_type[i]), self._dofs(i)
        element, called = self._joint_element(i), f"of joint '{self._joint_name(i)}'"
        if kind in (kinds.ball, kinds.free) and c.jnt_limited[i] and not self.disabled("LIMIT"):
            yield "limits", element, f"{called}, whose position is a quaternion"
        if kind == kinds.free:
            if c.dof_armature[at].any():
                yield "armature", element, f"{called}, which is free"
            if c.dof_frictionloss[at].any() and not self.disabled("FRICTIONLOSS"):
                yield "frictionloss", element, f"{called}, which is free"
        for entry, name, off in (("jnt_stiffnesspoly", "stiffness", "SPRING"), ("dof_dampingpoly", "damping", "DAMPER")):
            poly = getattr(c, entry, None)
            if poly is not None and np.any(poly[i if entry[0] == "j" else at]) and not self.disabled(off):
                yield name, element, f"{called} that is not linear"
        if np.any(getattr(c, "jnt_springyield", np.zeros(c.njnt))[i]):
            yield "springyield", element, called

    def _first_geom(self, body: int) -> Element:
        within = self.element({"body"}, self.names[body]) if body else self.element({"worldbody"})
        return next((child for child in within if child.tag == "geom"), within)

    def _contact(self) -> tuple[int, int] | None:
        """Return two geoms that may collide, or none."""
        c = self.compiled
        if self.disabled("CONTACT") or self.disabled("CONSTRAINT"):
            return None
        if c.npair:
            return int(c.pair_geom1[0]), int(c.pair_geom2[0])
        excluded = {int(signature) for signature in c.exclude_signature}
        weld = c.body_weldid[c.geom_bodyid]
        above = c.body_weldid[c.body_parentid[weld]]
        geoms = np.flatnonzero((c.geom_contype != 0) | (c.geom_conaffinity != 0))
        for n, i in enumerate(geoms):
            others = geoms[n + 1 :]
            meet = (c.geom_contype[i] & c.geom_conaffinity[others]) | (c.geom_contype[others] & c.geom_conaffinity[i])
            may = (meet != 0) & (weld[i] != weld[others])
            if not self.disabled("FILTERPARENT"):
                child, parent = (weld[others] != 0) & (above[others] == weld[i]), (weld[i] != 0) & (above[i] == weld[others])
                may &= ~((child & (weld[i] != 0)) | (parent & (weld[others] != 0)))
            for j in others[may]:
                bodies = sorted((int(c.geom_bodyid[i]), int(c.geom_bodyid[j])))
                if (bodies[0] << 16) + bodies[1] not in excluded:
                    return int(i), int(j)
        return None

    # bodies and joints

    def _name(self, kind: Any, i: int) -> str:
        return self.library.mj_id2name(self.compiled, kind, int(i)) or ""

    def _body_names(self) -> list[str]:
        """Return the names of all bodies, of which the first is the ground; those without one are numbered."""
        given = [self._name(self.objects.body, i) for i in range(self.compiled.nbody)]
        taken = {*given}
        names = ["ground"]
        for i, name in enumerate(given[1:], start=1):
            if name == "ground":
                self.element({"body"}, name).fail("'ground' is the name of what stands still; rename the body")
            names.append(name or _unused(f"body{i}", taken))
        return names

    def _joint_name(self, i: int) -> str:
        return self._name(self.objects.joint, i) or f"{self.names[self.compiled.jnt_bodyid[i]]}.{i}"

    def _joint_element(self, i: int) -> Element:
        name = self._name(self.objects.joint, i)
        if name:
            return self.element({"joint", "freejoint"}, name)
        return self.element({"body"}, self.names[self.compiled.jnt_bodyid[i]])

    def _dofs(self, i: int) -> slice:
        """Return the places of a joint in MuJoCo's velocities."""
        kinds, kind = self.joint_kinds, self.compiled.jnt_type[i]
        count = {kinds.free: 6, kinds.ball: 3}.get(int(kind), 1)
        return slice(int(self.compiled.jnt_dofadr[i]), int(self.compiled.jnt_dofadr[i]) + count)

    def _add(self, model: Model, body: int) -> None:
        """Add a body; where it has several joints, bodies without mass between them, which bear their names."""
        c, name = self.compiled, self.names[body]
        element = self.element({"body"}, name)
        at, parent = Pose(c.body_pos[body], quat=c.body_quat[body]), self.names[c.body_parentid[body]]
        R = rotation(c.body_iquat[body])
        inertia = R @ np.diag(c.body_inertia[body]) @ R.T
        rigid = element.build(Body, float(c.body_mass[body]), c.body_ipos[body], 0.5 * (inertia + inertia.T), self._looks(body))
        joints = range(c.body_jntadr[body], c.body_jntadr[body] + c.body_jntnum[body])
        if not joints:
            element.build(model.add, name, rigid, Fixed(), parent, at)
        where = np.zeros(3)  # of the frame that `parent` has, in the body's own at the neutral position
        for i in joints:
            anchor = np.array(c.jnt_pos[i]) if c.jnt_type[i] != self.joint_kinds.free else np.zeros(3)
            joint, source = self._joint(i), self._joint_element(i)
            here = Pose.of(at @ Pose(anchor - where))
            last = i == joints[-1]
            carrier = name if last else _unused(self._joint_name(i), {*self.names, *model.body_names})
            self.carriers[i] = carrier
            source.build(model.add, carrier, rigid if last else Body(0.0), joint, parent, here, Pose(anchor) if last else Pose())
            parent, at, where = carrier, Pose(), anchor

    def _check_numbers(self, element: Element, body: int) -> None:
        """Refuse numbers of a body and its joints that are none, or beyond all bounds."""
        c, first = self.compiled, self.compiled.body_jntadr[body]
        joints, dofs = (slice(at, at + count) for at, count in ((first, c.body_jntnum[body]), (c.body_dofadr[body], c.body_dofnum[body])))
        given = {f"body_{key}": body for key in ("pos", "quat", "mass", "ipos", "iquat", "inertia")}
        given |= {f"jnt_{key}": joints for key in ("pos", "axis", "stiffness", "range")} if c.body_jntnum[body] else {}
        given |= {f"dof_{key}": dofs for key in ("damping", "armature", "frictionloss")} if c.body_jntnum[body] else {}
        for key, at in given.items():
            numbers = np.asarray(getattr(c, key)[at])
            if not (np.abs(numbers) <= xml_reader.LARGEST).all():
                what = key.partition("_")[2]
                element.fail(f"{what} {short(numbers.tolist())} is not finite, or goes beyond {xml_reader.LARGEST:g}; give finite numbers")

    def _joint(self, i: int) -> Joint:
        c, kinds = self.compiled, self.joint_kinds
        kind, at, start = int(c.jnt_type[i]), self._dofs(i), int(c.jnt_qposadr[i])
        source = self._joint_element(i)
        options: dict[str, Any] = {"armature": c.dof_armature[at]} if kind != kinds.free else {}
        if c.dof_damping[at].any() and not self.disabled("DAMPER"):
            options["damping"] = c.dof_damping[at]
        if c.dof_frictionloss[at].any() and kind != kinds.free and not self.disabled("FRICTIONLOSS") and not self._leaves("frictionloss"):
            options["friction"] = c.dof_frictionloss[at]
        spring = bool(c.jnt_stiffness[i]) and not self.disabled("SPRING")
        if spring:
            options["stiffness"] = float(c.jnt_stiffness[i])
        if kind in (kinds.ball, kinds.free):
            if spring:
                options["rest"] = self._rest(i, kind == kinds.free)
            return source.build(Spherical if kind == kinds.ball else Free, **options)
        zero = float(c.qpos0[start])
        if spring:
            options["rest"] = float(c.qpos_spring[start]) - zero
        if c.jnt_limited[i] and not self.disabled("LIMIT") and not self._leaves("limits"):
            options["limits"] = tuple((c.jnt_range[i] - zero).tolist())
        return source.build(Revolute if kind == kinds.hinge else Prismatic, axis=c.jnt_axis[i], **options)

    def _leaves(self, what: str) -> bool:
        """Return whether something that could be honoured is to be ignored, and keep it for the notes."""
        if what in self.ignore:
            self.left_out.append(what)
        return what in self.ignore or self.disabled("CONSTRAINT")

    def _rest(self, i: int, free: bool) -> list[float]:
        """Return where the spring of a ball or free joint rests, relative to the neutral position."""
        c, start = self.compiled, int(self.compiled.jnt_qposadr[i])
        if not free:
            return c.qpos_spring[start : start + 4].tolist()
        return self._relative(c.qpos0[start : start + 7], c.qpos_spring[start : start + 7])

    def _keyframes(self, model: Model) -> dict[str, np.ndarray]:
        """Return the positions of the file's keyframes, in the model's coordinates."""
        c, found = self.compiled, {}
        for k in range(c.nkey):
            q, at = model.neutral(), 0
            for i in range(c.njnt):
                start, kind = int(c.jnt_qposadr[i]), int(c.jnt_type[i])
                size = {self.joint_kinds.free: 7, self.joint_kinds.ball: 4}.get(kind, 1)
                own, home = c.key_qpos[k, start : start + size], c.qpos0[start : start + size]
                q[at : at + size] = own if size == 4 else self._relative(home, own) if size == 7 else own - home
                at += size
            found[self._name(self.objects.key, k) or f"key{k}"] = model.normalised(q)
        return found

    @staticmethod
    def _relative(home: np.ndarray, pose: np.ndarray) -> list[float]:
        """Return the position of a free joint in its frame at home, of both poses in the world."""
        turn = quaternion_product(quaternion_inverse(home[3:]), pose[3:])
        return [*(rotation(home[3:]).T @ (pose[:3] - home[:3])).tolist(), *np.asarray(turn, dtype=float).tolist()]

    def _looks(self, body: int) -> tuple[Geometry, ...]:
        """Return the shapes of a body to look at: all that are not for collisions alone, but those without a place."""
        c, kinds, looks = self.compiled, self.geom_kinds, []
        geoms = range(c.body_geomadr[body], c.body_geomadr[body] + c.body_geomnum[body]) if c.body_geomnum[body] else ()
        for i in geoms:
            x, y, z = c.geom_size[i].tolist()
            center, R = tuple(c.geom_pos[i].tolist()), rotation(c.geom_quat[i])
            if c.geom_type[i] == kinds.sphere:
                looks.append(Geometry("sphere", (x,), center))
            elif c.geom_type[i] == kinds.cylinder:
                looks.append(Geometry("cylinder", (2.0 * y, x), center, tuple(R[:, 2].tolist())))
            elif c.geom_type[i] == kinds.box:
                looks.append(Geometry("box", (2.0 * x, 2.0 * y, 2.0 * z), center, rpy=rpy(R)))
            elif c.geom_type[i] == kinds.mesh:
                looks.append(self._mesh(i, Pose(c.geom_pos[i], quat=c.geom_quat[i])))
        return tuple(looks)

    def _mesh(self, geom: int, at: Pose) -> Geometry:
        """Return a mesh to look at; MuJoCo moves meshes to their centre of mass and principal axes, which is undone."""
        c, k = self.compiled, int(self.compiled.geom_dataid[geom])
        own = at @ Pose(c.mesh_pos[k], quat=c.mesh_quat[k]).inverse()
        path = c.paths[c.mesh_pathadr[k] :].split(b"\0")[0].decode(errors="replace") if c.mesh_pathadr[k] >= 0 else ""
        return Geometry("mesh", tuple(c.mesh_scale[k].tolist()), tuple(own.p.tolist()), rpy=rpy(own.R), file=path)

    def _notes(self) -> list[str]:
        c = self.compiled
        notes = [f"MuJoCo warns: {text}" for text in dict.fromkeys(self.warned)]
        if self.left_out:
            notes.append("ignored as asked: " + ", ".join(dict.fromkeys(self.left_out)))
        shifted = [(self.carriers[i], c.qpos0[c.jnt_qposadr[i]]) for i in range(c.njnt) if self._dofs(i).stop - self._dofs(i).start == 1]
        if moved := [f"{name} {zero:.6g}" for name, zero in shifted if zero]:
            notes.append(f"coordinates are MuJoCo's less their ref: {', '.join(moved)}")
        if any(c.jnt_type == self.joint_kinds.free):
            notes.append("positions of free bodies count from where the file puts them; velocities are (angular, linear) in their axes")
        if c.jnt_limited.any() and not self.disabled("LIMIT") and "limits" not in self.ignore:
            notes.append(f"limits ({int(c.jnt_limited.sum())} joints) are stops of catena's stiffness, not of MuJoCo's solref and solimp")
        if c.nu:
            notes.append(f"{c.nu} actuators are not in the model: give their joint forces as tau")
        return notes


#: The elements of actuators.
_ACTUATORS = {"general", "motor", "position", "velocity", "intvelocity", "damper", "cylinder", "muscle", "adhesion", "dcmotor", "plugin"}


def _acts(c: Any, i: int) -> str:
    """Return what an actuator does by itself, without a control; nothing where it does nothing."""
    acts = []
    if c.actuator_biastype[i] and c.actuator_biasprm[i].any():
        acts.append("with a force of its own")
    if c.actuator_dyntype[i]:
        acts.append("with a state")
    for key in ("damping", "armature"):
        entries = getattr(c, f"actuator_{key}", None)
        if entries is not None and np.any(entries[i]):
            acts.append(f"with {key}")
    return " and ".join(acts)


def _numbers(enum: Any) -> SimpleNamespace:
    """Return the members of one of MuJoCo's enumerations as numbers, by their names without prefix."""
    return SimpleNamespace(**{name.partition("_")[2].lower(): int(member) for name, member in enum.__members__.items()})


def _in_model(element: Element) -> bool:
    """Return whether an element is one of the model's things, rather than a default of them."""
    at = element.parent
    while at is not None:
        if at.tag == "default":
            return False
        at = at.parent
    return True


def _unused(name: str, taken: Collection[str]) -> str:
    count, free = 2, name
    while free in taken:
        free, count = f"{name}.{count}", count + 1
    return free


def _mujoco(file: str) -> Any:
    try:
        import mujoco
    except ImportError:
        raise MissingPackageError(f'{file}: reading MJCF needs MuJoCo, which is not installed; pip install "catena[files]"') from None
    return mujoco
