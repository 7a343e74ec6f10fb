"""Writes URDF, which `urdf_reader` reads: trees, and couplings of two coordinates as mimic joints."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import numpy as np

from catena.errors import ModelError
from catena.files.urdf_reader import NO_LIMIT
from catena.model.bodies import Body, Geometry
from catena.model.joints import Fixed, Free, Joint, Planar, Prismatic, Revolute
from catena.model.mechanism import Mechanism
from catena.model.pose import Pose, rpy, upright
from catena.model.spanning_tree import Link
from catena.model.wording import unused

#: What URDF calls the joints, without limits.
_TYPES: dict[type[Joint], str] = {Revolute: "continuous", Prismatic: "prismatic", Fixed: "fixed", Free: "floating", Planar: "planar"}

#: How thick a rod is drawn, relative to its length: URDF has no lines.
_THICK = 0.01


#: What a file may be without, for the model moves alike.
IGNORED = ("parameters", "home", "keyframes")


def text(model: Mechanism, ignore: Collection[str] = ()) -> str:
    """Return a model as URDF; the error of one that URDF cannot hold lists everything that is in the way, but for what is to be ignored."""
    mimics, others = _mimics(model)
    found = {
        "parameters": [f"parameter '{name}'" for name in model.parts.own], "home": [] if model.home is None else ["home"],
        "keyframes": [f"keyframe '{name}'" for name in model.keyframes],
    }  # fmt: skip
    unheld = [kind for kind in IGNORED if found[kind] and kind not in ignore]
    missing = [*_missing(model), *others, *(thing for kind in unheld for thing in found[kind])]
    if missing:
        remedy = f", or give ignore={tuple(unheld)!r} for a file without {' and '.join(unheld)}" if unheld else ""
        raise ModelError(f"URDF cannot hold {', '.join(missing)}; save the model as .toml, or take these out{remedy}")
    hanging = [link for link in model.links if link.parent == "ground"]
    base = hanging[0] if len(hanging) == 1 and isinstance(hanging[0].joint, Fixed) and _plain(hanging[0].at) else None
    taken, joints = {"ground", *model.body_names, *(frame.name for frame in model.frames)}, {*model.joint_names.values()}
    names = {link.name: model.joint_names.get(link.name) or unused(f"{link.name}_joint", joints) for link in model.links}
    lines = ['<?xml version="1.0"?>', f"<robot name={_quoted(model.name)}>"]
    if base is None:
        lines.append('  <link name="ground"/>')
    for link in model.links:
        carried = link.name
        if link is not base:
            if not _plain(link.outer):  # the joint is elsewhere in the body: a link without mass between them
                carried = unused(f"{link.name}_carrier", taken)
                lines += [f"  <link name={_quoted(carried)}/>"]
            lines += _joint(link, carried, mimics, names)
        if carried != link.name:
            lines += _fixed(unused(f"{link.name}_frame", joints), carried, link.name, Pose.of(link.inward))
        lines += _link(link.name, link.body)
    for frame in model.frames:  # a link without mass
        carried = base.name if base is not None and frame.body == "ground" else frame.body
        lines += [f"  <link name={_quoted(frame.name)}/>"]
        lines += _fixed(unused(f"{frame.name}_joint", joints), carried, frame.name, frame.at)
    return "\n".join([*lines, "</robot>", ""])


def _missing(model: Mechanism) -> Iterator[str]:
    """Yield everything of a model that URDF cannot hold."""
    if model.gravity != (0.0, 0.0, -9.81):
        yield f"gravity {model.gravity}"
    if model.friction_speed != 0.01 and "friction" in model.changes_energy:
        yield f"friction_speed {model.friction_speed}"
    for kind, things in (
        ("spring", model.springs), ("bushing", model.bushings), ("contact", model.contacts), ("force", model.forces),
        ("force", model.point_forces), ("loop", model.loops), ("actuator", model.actuators),
    ):
        yield from (f"{kind} '{thing.name}'" for thing in things)
    for link in model.links:
        joint, whose = link.joint, f"of body '{link.name}'"
        if type(joint) not in _TYPES:
            yield f"the {joint.kind} joint {whose}"
            continue
        for option, value in joint.options().items():
            if option == "limits" and isinstance(joint, Planar):
                yield f"limits {whose}"
            elif option in ("damping", "friction") and isinstance(value, tuple):
                yield f"{option} {value} {whose}"
            elif option not in (
                "limits", "damping", "friction", "rest", *(("effort", "velocity") if isinstance(joint, (Revolute, Prismatic)) else ())
            ):  # fmt: skip
                yield f"{option} {whose}"


def _mimics(model: Mechanism) -> tuple[dict[str, tuple[str, float, float]], list[str]]:
    """Return the mimic joints: by body the body of the other joint, multiplier and offset; and the couplings that are none."""
    simple = {link.name for link in model.links if isinstance(link.joint, (Revolute, Prismatic))}
    mimics: dict[str, tuple[str, float, float]] = {}
    others = []
    for coupling in model.couplings:
        names = [name for name, _ in coupling.coefficients]
        free = [i for i, name in enumerate(names) if name not in mimics]
        if len(names) != 2 or not simple >= {*names} or not free:
            others.append(f"coupling '{coupling.name}'")
            continue
        (name, a), (other, b) = (coupling.coefficients[i] for i in (free[0], 1 - free[0]))
        mimics[name] = (other, -b / a, coupling.offset / a)
    return mimics, others


def _joint(link: Link, carried: str, mimics: dict[str, tuple[str, float, float]], names: dict[str, str]) -> list[str]:
    joint, options = link.joint, link.joint.options()
    limited = isinstance(joint, Prismatic) or "limits" in options
    kind = "revolute" if limited and isinstance(joint, Revolute) else _TYPES[type(joint)]
    lines = [f"  <joint name={_quoted(names[link.name])} type={_quoted(kind)}>", *(f"    {line}" for line in _origin(link.at))]
    lines += [f"    <parent link={_quoted(link.parent)}/>", f"    <child link={_quoted(carried)}/>"]
    if isinstance(joint, (Revolute, Prismatic, Planar)):
        lines.append(f'    <axis xyz="{_numbers(joint.axis)}"/>')
    most = " ".join(f'{option}="{options.get(option, NO_LIMIT)!r}"' for option in ("effort", "velocity"))
    if limited:
        lower, upper = max(-NO_LIMIT, float(joint.lower[0])), min(NO_LIMIT, float(joint.upper[0]))
        lines.append(f'    <limit lower="{lower!r}" upper="{upper!r}" {most}/>')
    elif "effort" in options or "velocity" in options:
        lines.append(f"    <limit {most}/>")
    if acting := [f'{option}="{options[option]!r}"' for option in ("damping", "friction") if option in options]:
        lines.append(f"    <dynamics {' '.join(acting)}/>")
    if link.name in mimics:
        other, multiplier, offset = mimics[link.name]
        lines.append(f'    <mimic joint={_quoted(names[other])} multiplier="{multiplier!r}" offset="{offset!r}"/>')
    return [*lines, "  </joint>"]


def _fixed(name: str, parent: str, child: str, at: Pose) -> list[str]:
    ends = [f"    <parent link={_quoted(parent)}/>", f"    <child link={_quoted(child)}/>"]
    return [f'  <joint name={_quoted(name)} type="fixed">', *(f"    {line}" for line in _origin(at)), *ends, "  </joint>"]


def _link(name: str, body: Body) -> list[str]:
    lines = []
    if body.mass or body.inertia.any():
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = body.inertia.tolist()
        moments = zip(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), (xx, xy, xz, yy, yz, zz), strict=True)
        lines += ["<inertial>", *(f"  {line}" for line in _origin(Pose(body.com))), f'  <mass value="{body.mass!r}"/>']
        lines += ["  <inertia " + " ".join(f'{key}="{value!r}"' for key, value in moments) + "/>", "</inertial>"]
    for look in body.geometry:
        lines += _visual(look)
    if not lines:
        return [f"  <link name={_quoted(name)}/>"]
    return [f"  <link name={_quoted(name)}>", *(f"    {line}" for line in lines), "  </link>"]


def _visual(look: Geometry) -> list[str]:
    at = Pose(look.center, rpy=look.rpy)
    if look.kind == "ellipsoid":
        raise ModelError(f"an ellipsoid of size {look.size} is not a shape of URDF; leave it out of the geometry, or save as .toml")
    if look.kind == "sphere":
        shape = f'<sphere radius="{look.size[0]!r}"/>'
    elif look.kind in ("cylinder", "rod", "capsule"):
        length, radius = (look.size[0], _THICK * look.size[0]) if look.kind == "rod" else look.size
        at = Pose(look.center, matrix=upright(np.array(look.axis)))
        shape = f'<cylinder length="{length!r}" radius="{radius!r}"/>'
    elif look.kind == "mesh":
        shape = f'<mesh filename={_quoted(look.file)} scale="{_numbers(look.size)}"/>'
    else:
        shape = f'<box size="{_numbers(look.size)}"/>'
    colour = [] if look.colour is None else [f'  <material name=""><color rgba="{_numbers((*look.colour, 1.0))}"/></material>']
    return ["<visual>", *(f"  {line}" for line in _origin(at)), f"  <geometry>{shape}</geometry>", *colour, "</visual>"]


def _origin(at: Pose) -> list[str]:
    if _plain(at):
        return []
    turn = "" if np.array_equal(at.R, np.eye(3)) else f' rpy="{_numbers(rpy(at.R))}"'
    return [f'<origin xyz="{_numbers(at.p)}"{turn}/>']


def _plain(at: Pose) -> bool:
    return np.array_equal(at.matrix(), np.eye(4))


def _numbers(entries: Collection[float] | np.ndarray) -> str:
    return " ".join(repr(float(x)) for x in entries)


def _quoted(name: str) -> str:
    from xml.sax.saxutils import quoteattr  # here, because it imports what Python has for the web

    if unfit := re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", name):
        raise ModelError(f"name {name!r} has the character {unfit[0]!r}, which XML cannot hold; rename it")
    return quoteattr(name, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
