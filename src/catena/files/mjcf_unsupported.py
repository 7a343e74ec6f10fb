"""What changes the motion in MuJoCo and catena cannot represent: contact, actuators with states, tendons, fluids and others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from catena.files import mjcf_actuators, mjcf_loops
from catena.files.mjcf_source import Source
from catena.files.xml_reader import Element


def unsupported(source: Source) -> Iterator[tuple[str, Element, str]]:
    """Yield the name by which each thing is ignored, its element, and what it is."""
    c = source.compiled
    if pair := _contact(source):
        names = [source.name(source.objects.geom, i) for i in pair]
        bodies = [source.names[c.geom_bodyid[i]] for i in pair]
        body = int(c.geom_bodyid[pair[0]])
        within = source.element({"body"}, source.names[body]) if body else source.element({"worldbody"})
        first = next((child for child in within if child.tag == "geom"), within)
        element = source.element({"geom"}, names[0]) if names[0] else first
        called = [f"geom '{name}'" if name else f"a geom of '{body}'" for name, body in zip(names, bodies, strict=True)]
        yield "contact", element, f"such as of {' and '.join(called)}"
    acting: dict[str, list[int]] = {}
    for i in mjcf_actuators.in_force(source):
        if (reason := mjcf_actuators.why_not(source, i)) and mjcf_actuators.acts(source, i):
            acting.setdefault(reason, []).append(i)
    for reason, which in acting.items():
        names = [mjcf_actuators.name(source, i) for i in which]
        more = f" and {len(names) - 5} more" if names[5:] else ""
        yield "actuator", mjcf_actuators.element(source, which[0]), f"{', '.join(names[:5])}{more} {reason}"
    for i in range(c.ntendon):
        forces = {key: getattr(c, f"tendon_{key}", None) for key in ("stiffness", "damping", "frictionloss", "limited", "armature")}
        if given := [key for key, entries in forces.items() if entries is not None and np.any(entries[i])]:
            name = source.name(source.objects.tendon, i)
            yield "tendon", source.element({"spatial", "fixed"}, name, i), f"'{name or i}' with {', '.join(given)}"
    if c.opt.density or c.opt.viscosity:
        yield "fluid", source.element({"option"}), f"density {c.opt.density:g}, viscosity {c.opt.viscosity:g}"
    for i in np.flatnonzero(c.body_gravcomp):
        yield "gravcomp", source.element({"body"}, source.names[i]), f"of body '{source.names[i]}'"
    for i in np.flatnonzero(c.body_mocapid >= 0):
        yield "mocap", source.element({"body"}, source.names[i]), f"body '{source.names[i]}', which would be fixed"
    if c.nflex:
        yield "flex", source.element({"flex", "flexcomp", "composite"}), f"{c.nflex} of them"
    if c.nplugin:
        yield "plugin", source.element({"plugin", "instance"}), f"{c.nplugin} of them"
    for i in range(c.njnt):
        yield from _of_joint(source, i)
    yield from mjcf_loops.unsupported(source)


def _of_joint(source: Source, i: int) -> Iterator[tuple[str, Element, str]]:
    c, kinds = source.compiled, source.joint_kinds
    kind, at = int(c.jnt_type[i]), source.dofs(i)
    element, called = source.joint_element(i), f"of joint '{source.joint_name(i)}'"
    if kind in (kinds.ball, kinds.free) and c.jnt_limited[i] and not source.disabled("LIMIT"):
        yield "limits", element, f"{called}, whose position is a quaternion"
    if kind == kinds.free:
        if c.dof_armature[at].any():
            yield "armature", element, f"{called}, which is free"
        if c.dof_frictionloss[at].any() and not source.disabled("FRICTIONLOSS"):
            yield "frictionloss", element, f"{called}, which is free"
    for entry, name, off in (("jnt_stiffnesspoly", "stiffness", "SPRING"), ("dof_dampingpoly", "damping", "DAMPER")):
        poly = getattr(c, entry, None)
        if poly is not None and np.any(poly[i if entry[0] == "j" else at]) and not source.disabled(off):
            yield name, element, f"{called} that is not linear"
    limited = getattr(c, "jnt_actfrclimited", None)
    if limited is not None and limited[i] and not source.disabled("ACTUATION"):
        lower, upper = c.jnt_actfrcrange[i]
        if kind in (kinds.ball, kinds.free) or lower != -upper:
            yield "actuatorfrcrange", element, f"{called}, which is not one largest force"
    if np.any(getattr(c, "jnt_springyield", np.zeros(c.njnt))[i]):
        yield "springyield", element, called


def _contact(source: Source) -> tuple[int, int] | None:
    """Return two geoms that may collide, or none."""
    c = source.compiled
    if source.disabled("CONTACT") or source.disabled("CONSTRAINT"):
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
        if not source.disabled("FILTERPARENT"):
            child, parent = (weld[others] != 0) & (above[others] == weld[i]), (weld[i] != 0) & (above[i] == weld[others])
            may &= ~((child & (weld[i] != 0)) | (parent & (weld[others] != 0)))
        for j in others[may]:
            bodies = sorted((int(c.geom_bodyid[i]), int(c.geom_bodyid[j])))
            if (bodies[0] << 16) + bodies[1] not in excluded:
                return int(i), int(j)
    return None
