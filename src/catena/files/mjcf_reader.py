"""Reads MJCF, by MuJoCo's own compiler: bodies, joints with their passive forces, gravity, and equalities as loops (`mjcf_loops`).

Positions count from MuJoCo's `qpos0`: the neutral position of the model is the one in which the file shows the robot, and in which its
equalities hold. So a hinge or slider with a `ref` has q = qpos - ref, and a free body's pose is relative to where the file puts it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from catena.errors import ModelError, ModelFileError
from catena.files import mjcf_actuators, mjcf_loops
from catena.files.mjcf_source import Source
from catena.files.mjcf_unsupported import unsupported
from catena.files.xml_reader import LARGEST, Element
from catena.loops.assembly import NEARLY, loop_residuals
from catena.model.bodies import Body, Geometry
from catena.model.builder import Builder
from catena.model.joints import Fixed, Free, Joint, Prismatic, Revolute, Spherical
from catena.model.pose import Pose, rpy
from catena.model.wording import UNSUPPORTED, short, unused, without
from catena.spatial import quaternion_inverse, quaternion_product, rotation


class Reader(Source):
    """An MJCF file on its way to a model."""

    def __init__(self, root: Element, ignore: Collection[str], contact: bool = False) -> None:
        super().__init__(root, ignore)
        self._contact = contact  # whether contact is read
        self.carriers: dict[int, str] = {}  # the body that the coordinate of a hinge or slider is named after, by the joint
        self.left_out: list[str] = []
        self.unread: dict[str, list[str]] = {}  # what catena cannot represent and is asked to leave out, by its kind
        self._taken = {*self.names}

    def model(self) -> Builder:
        compiled = self.compiled
        gravity = np.zeros(3) if self.disabled("GRAVITY") else compiled.opt.gravity
        name = self.root.attributes.get("model", "").strip() or Path(self.root.file).stem
        model = self.root.build(Builder, name, gravity.tolist())
        mjcf_loops.check_ignored(self)
        self._check_supported()
        for body in range(1, compiled.nbody):
            element = self.element({"body"}, self.names[body])
            self._check_numbers(element, body)
            element.attempt(self._add, model, body)
        self._add_sites(model)
        mjcf_loops.add(model, self)
        mjcf_actuators.add(model, self)
        model.parts.keyframes |= self._keyframes(model)
        model.parts.notes += self._notes()
        self._set_home(model)
        return model

    def _set_home(self, model: Builder) -> None:
        """Set home to the keyframe "home", or the first, if it closes the loops or nearly so."""
        name = "home" if "home" in model.parts.keyframes else next(iter(model.parts.keyframes), None)
        if name is None:
            return
        q = model.parts.keyframes[name]
        if model.has_loops:
            try:
                residuals = loop_residuals(model, q)
            except ModelError:
                return  # the error is raised where the model is used
            if not residuals.sizes.max() <= NEARLY:
                by = f"{residuals.sizes.max():.2g}"
                model.parts.notes.append(f"keyframe '{name}' is not home, for the closure residual of loop '{residuals.worst}' is {by}")
                return
        model.home = q
        model.parts.notes.append(f"home is the keyframe '{name}'")

    def _check_supported(self) -> None:
        """Refuse everything that would change the motion, that catena cannot represent, and that is not to be ignored."""
        first: Element | None = None
        refused: dict[str, list[str]] = {}
        for what, element, said in unsupported(self):
            if what == "contact" and self._contact:
                continue
            if what in self.ignore:
                self.left_out.append(f"{what} ({said})")
            elif UNSUPPORTED in self.ignore:
                self.unread.setdefault(what.partition(":")[0], []).append(said)
            else:
                first = first or element
                refused.setdefault(what, []).append(said)
        if first is not None:
            ground = "; contact='ground' (--contact ground) keeps what touches the ground" if "contact" in refused else ""
            every = f"; ignore='{UNSUPPORTED}' leaves out all of it" if len(refused) > 1 else ""
            listed = "; ".join(f"{what} ({', '.join(said[:3])}{', …' if said[3:] else ''})" for what, said in refused.items())
            raise ModelFileError(
                f"{first.file}:{first.line}: catena cannot represent this, which changes the motion in MuJoCo: {listed}; "
                f"{without(*self.ignore, *refused)}{every}{ground}"
            )

    def _add(self, model: Builder, body: int) -> None:
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
            joint, source = self._joint(i), self.joint_element(i)
            here = Pose.of(at @ Pose(anchor - where))
            last = i == joints[-1]
            carrier = name if last else unused(self.joint_name(i), self._taken)
            self.carriers[i] = carrier
            if named := self.name(self.objects.joint, i):
                model.parts.joint_names[carrier] = named
            source.build(model.add, carrier, rigid if last else Body(0.0), joint, parent, here, Pose(anchor) if last else Pose())
            parent, at, where = carrier, Pose(), anchor

    def _add_sites(self, model: Builder) -> None:
        """Add the sites that have names as frames."""
        c = self.compiled
        for i in range(c.nsite):
            if name := self.name(self.objects.site, i):
                element, at = self.element({"site"}, name), np.concatenate([c.site_pos[i], c.site_quat[i]])
                if not (np.abs(at) <= LARGEST).all():
                    element.fail(f"pos or quat {short(at.tolist())} is not finite, or goes beyond {LARGEST:g}; give finite numbers")
                free = unused(name, self._taken)
                if free != name:
                    model.parts.notes.append(f"site '{name}' is frame '{free}', for a body has its name")
                element.build(model.add_frame, free, self.names[c.site_bodyid[i]], Pose(at[:3], quat=at[3:]))

    def _check_numbers(self, element: Element, body: int) -> None:
        """Refuse numbers of a body and its joints that are not finite, or too large."""
        c, first = self.compiled, self.compiled.body_jntadr[body]
        joints, dofs = (slice(at, at + count) for at, count in ((first, c.body_jntnum[body]), (c.body_dofadr[body], c.body_dofnum[body])))
        given = {f"body_{key}": body for key in ("pos", "quat", "mass", "ipos", "iquat", "inertia")}
        given |= {f"jnt_{key}": joints for key in ("pos", "axis", "stiffness", "range")} if c.body_jntnum[body] else {}
        given |= {f"dof_{key}": dofs for key in ("damping", "armature", "frictionloss")} if c.body_jntnum[body] else {}
        for key, at in given.items():
            numbers = np.asarray(getattr(c, key)[at])
            if not (np.abs(numbers) <= LARGEST).all():
                what = key.partition("_")[2]
                element.fail(f"{what} {short(numbers.tolist())} is not finite, or goes beyond {LARGEST:g}; give finite numbers")

    def _joint(self, i: int) -> Joint:
        c, kinds = self.compiled, self.joint_kinds
        kind, at, start = int(c.jnt_type[i]), self.dofs(i), int(c.jnt_qposadr[i])
        source = self.joint_element(i)
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
                ends = [x[start : start + 7] for x in (c.qpos0, c.qpos_spring)]
                options["rest"] = self._relative(*ends) if kind == kinds.free else ends[1][:4].tolist()
            return source.build(Spherical if kind == kinds.ball else Free, **options)
        zero = float(c.qpos0[start])
        if spring:
            options["rest"] = float(c.qpos_spring[start]) - zero
        limited = getattr(c, "jnt_actfrclimited", None)
        if limited is not None and limited[i] and c.jnt_actfrcrange[i][0] == -c.jnt_actfrcrange[i][1] and c.jnt_actfrcrange[i][1] > 0.0:
            options["effort"] = float(c.jnt_actfrcrange[i][1])
        if c.jnt_limited[i] and not self.disabled("LIMIT") and not self._leaves("limits"):
            options["limits"] = tuple((c.jnt_range[i] - zero).tolist())
        return source.build(Revolute if kind == kinds.hinge else Prismatic, axis=c.jnt_axis[i], **options)

    def _leaves(self, what: str) -> bool:
        """Return whether something that catena represents is to be ignored, and enter it in the notes."""
        if what in self.ignore:
            self.left_out.append(what)
        return what in self.ignore or self.disabled("CONSTRAINT")

    def _keyframes(self, model: Builder) -> dict[str, np.ndarray]:
        """Return the positions of the file's keyframes, in the model's coordinates."""
        c, keyframes = self.compiled, {}
        for k in range(c.nkey):
            q, at = model.neutral(), 0
            for i in range(c.njnt):
                start, kind = int(c.jnt_qposadr[i]), int(c.jnt_type[i])
                size = {self.joint_kinds.free: 7, self.joint_kinds.ball: 4}.get(kind, 1)
                position, home = c.key_qpos[k, start : start + size], c.qpos0[start : start + size]
                q[at : at + size] = position if size == 4 else self._relative(home, position) if size == 7 else position - home
                at += size
            keyframes[self.name(self.objects.key, k) or f"key{k}"] = model.normalised(q)
        return keyframes

    @staticmethod
    def _relative(home: np.ndarray, pose: np.ndarray) -> list[float]:
        """Return the position of a free joint in its frame at home, of both poses in the world."""
        turn = quaternion_product(quaternion_inverse(home[3:]), pose[3:])
        return [*(rotation(home[3:]).T @ (pose[:3] - home[:3])).tolist(), *np.asarray(turn, dtype=float).tolist()]

    def _looks(self, body: int) -> tuple[Geometry, ...]:
        """Return the shapes of a body to show: those that MuJoCo shows, of the groups 0 to 2, without planes and height fields."""
        c, kinds, looks = self.compiled, self.geom_kinds, []
        geoms = range(c.body_geomadr[body], c.body_geomadr[body] + c.body_geomnum[body]) if c.body_geomnum[body] else ()
        for i in geoms:
            if c.geom_group[i] > 2 or c.geom_rgba[i][3] == 0.0:
                continue
            x, y, z = c.geom_size[i].tolist()
            center, R = tuple(c.geom_pos[i].tolist()), rotation(c.geom_quat[i])
            painted = c.mat_rgba[c.geom_matid[i]] if c.geom_matid[i] >= 0 else c.geom_rgba[i]
            red, green, blue = (float(f"{part:.6g}") for part in painted[:3])  # of single precision
            colour = (red, green, blue)
            solids = {
                kinds.sphere: ("sphere", (x,), {}), kinds.box: ("box", (2.0 * x, 2.0 * y, 2.0 * z), {"rpy": rpy(R)}),
                kinds.cylinder: ("cylinder", (2.0 * y, x), {"axis": tuple(R[:, 2].tolist())}),
                kinds.capsule: ("capsule", (2.0 * y, x), {"axis": tuple(R[:, 2].tolist())}),
                kinds.ellipsoid: ("ellipsoid", (x, y, z), {"rpy": rpy(R)}),
            }  # fmt: skip
            if c.geom_type[i] == kinds.mesh:
                looks.append(replace(self._mesh(i, Pose(c.geom_pos[i], quat=c.geom_quat[i])), colour=colour))
            elif int(c.geom_type[i]) in solids:
                kind, size, turn = solids[int(c.geom_type[i])]
                looks.append(Geometry(kind, size, center, colour=colour, **turn))
        return tuple(looks)

    def _mesh(self, geom: int, at: Pose) -> Geometry:
        """Return a mesh to look at; MuJoCo moves meshes to their centre of mass and principal axes, which is undone here."""
        c, k = self.compiled, int(self.compiled.geom_dataid[geom])
        place = at @ Pose(c.mesh_pos[k], quat=c.mesh_quat[k]).inverse()
        key = c.paths[c.mesh_pathadr[k] :].split(b"\0")[0].decode(errors="replace") if c.mesh_pathadr[k] >= 0 else ""
        path = self.text.paths.get(Path(key).name, "")
        return Geometry("mesh", tuple(c.mesh_scale[k].tolist()), tuple(place.p.tolist()), rpy=rpy(place.R), file=path)

    def _notes(self) -> list[str]:
        c = self.compiled
        notes = [f"MuJoCo warns: {text}" for text in dict.fromkeys(self.warned)]
        if self.left_out:
            notes.append("ignored as asked: " + ", ".join(dict.fromkeys(self.left_out)))
        if self.unread:
            listed = (f"{what} ({said[0]}{f' and {len(said) - 1} more' if said[1:] else ''})" for what, said in self.unread.items())
            notes.append("left out, for catena cannot represent it: " + ", ".join(listed))
        shifted = [(self.carriers[i], c.qpos0[c.jnt_qposadr[i]]) for i in range(c.njnt) if self.dofs(i).stop - self.dofs(i).start == 1]
        if moved := [f"{name} {zero:.6g}" for name, zero in shifted if zero]:
            notes.append(f"coordinates are MuJoCo's less their ref: {', '.join(moved)}")
        if any(c.jnt_type == self.joint_kinds.free):
            notes.append("positions of free bodies count from where the file puts them; velocities are (angular, linear) in their axes")
        if c.jnt_limited.any() and not self.disabled("LIMIT") and "limits" not in self.ignore:
            notes.append(f"limits ({int(c.jnt_limited.sum())} joints) are stops of catena's stiffness, not of MuJoCo's solref and solimp")
        return notes
