"""Equalities of MJCF files as loops: `connect` is a ball joint, `weld` a fixed one, `joint` a coupling of coordinates.

MuJoCo holds equalities by stiff springs; here they hold exactly. It multiplies the rotation that a weld holds by `torquescale`: any value
but 0 holds it, and with 0 the weld is a connect. Several connects between two bodies are one joint: at points on one line a hinge, at
others a weld. MuJoCo's compiler gives the points on both bodies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from catena.files.xml_reader import LARGEST, Element
from catena.model.builder import Builder
from catena.model.joints import Fixed, Revolute, Spherical
from catena.model.pose import Pose, frame_along
from catena.model.wording import choice, short

if TYPE_CHECKING:
    from catena.files.mjcf_reader import Reader
    from catena.files.mjcf_source import Source

#: Distance up to which points are at one place or on one line, relative to their distances from each other.
SAME = 1e-9

#: Where the `torquescale` of a weld is in its data.
_TORQUE_SCALE = 10


class Connect(NamedTuple):
    """An equality that holds a point of one body at a point of another."""

    number: int
    a: int
    b: int
    at_a: np.ndarray
    at_b: np.ndarray


def unsupported(reader: Source) -> Iterator[tuple[str, Element, str]]:
    """Yield the equalities that catena cannot represent."""
    c, kinds = reader.compiled, reader.equality_kinds
    for i in _active(reader):
        if c.eq_type[i] not in (kinds.connect, kinds.weld, kinds.joint):
            kind = next(name for name, number in vars(kinds).items() if number == c.eq_type[i])
            yield f"equality:{_name(reader, i)}", _element(reader, i), f"of kind {kind}"
        elif c.eq_type[i] == kinds.joint and c.eq_data[i, 2:5].any():
            yield f"equality:{_name(reader, i)}", _element(reader, i), "of joints that is not linear"


def add(model: Builder, reader: Reader) -> None:
    """Add the equalities of a file to a model, as loops and couplings."""
    c, kinds = reader.compiled, reader.equality_kinds
    connects: dict[tuple[int, int], list[Connect]] = {}
    for i in _active(reader):
        if not np.abs(c.eq_data[i]).max() <= LARGEST:
            _element(reader, i).fail(f"a number is not finite, or goes beyond {LARGEST:g}; give finite numbers")
        (a, b, sites), data = _ends(reader, i), c.eq_data[i]
        if c.eq_type[i] == kinds.weld and data[_TORQUE_SCALE] != 0.0:
            at_a, at_b = sites or (Pose(data[3:6], quat=data[6:10]), Pose(data[0:3]))
            _element(reader, i).build(model.close, _name(reader, i), Fixed(), reader.names[a], reader.names[b], at_a, at_b)
        elif c.eq_type[i] in (kinds.connect, kinds.weld):
            on_a, on_b = (data[0:3], data[3:6]) if c.eq_type[i] == kinds.connect else (data[3:6], data[0:3])
            at_a, at_b = sites or (Pose(on_a), Pose(on_b))
            connects.setdefault((a, b), []).append(Connect(i, a, b, at_a.p, at_b.p))
        elif c.eq_type[i] == kinds.joint and not c.eq_data[i, 2:5].any():
            _couple(model, reader, i)
    for group in connects.values():
        _close(model, reader, group)
    dropped = [i for i in _in_force(reader) if _ignored(reader, i)]
    if dropped:
        words = {number: kind for kind, number in vars(kinds).items()}
        listed = ", ".join(f"{words[int(c.eq_type[i])]} {short(_name(reader, i))}" for i in dropped)
        reader.left_out.append(f"equality ({listed})")
    if inactive := c.neq - len(_in_force(reader)):
        model.parts.notes.append(f"equalities that are not active in the file ({inactive}) are not in the model")
    if model.loops or model.couplings:
        model.parts.notes.append("equalities hold exactly, not by MuJoCo's solref and solimp")


def _active(reader: Source) -> list[int]:
    """Return the equalities that are to be in the model."""
    return [i for i in _in_force(reader) if not _ignored(reader, i)]


def _in_force(reader: Source) -> list[int]:
    """Return the equalities that are active in the file."""
    c = reader.compiled
    if reader.disabled("EQUALITY") or reader.disabled("CONSTRAINT"):
        return []
    return [int(i) for i in range(c.neq) if c.eq_active0[i]]


def _ignored(reader: Source, i: int) -> bool:
    return "equality" in reader.ignore or f"equality:{_name(reader, i)}" in reader.ignore


def check_ignored(reader: Source) -> None:
    """Refuse to ignore by its name what does not exist."""
    names = [_name(reader, i) for i in range(reader.compiled.neq)]
    for what in reader.ignore:
        kind, colon, name = what.partition(":")
        if colon and (kind != "equality" or name not in names):
            listed = [f"equality:{known}" for known in names]
            remedy = choice(what, listed) if names else "there are no equalities; leave it out"
            reader.element({"equality"}).fail(f"ignore names {short(what)}, which is not in the file; {remedy}")


def _name(reader: Source, i: int) -> str:
    return reader.name(reader.objects.equality, i) or f"equality{i}"


def _element(reader: Source, i: int) -> Element:
    listed = [element for element in reader.elements if element.parent is not None and element.parent.tag == "equality"]
    return listed[i] if i < len(listed) and len(listed) == reader.compiled.neq else reader.element({"equality"})


def _ends(reader: Reader, i: int) -> tuple[int, int, tuple[Pose, ...]]:
    """Return the bodies of an equality and, where it is between sites, the places of these on the bodies."""
    c = reader.compiled
    a, b = int(c.eq_obj1id[i]), int(c.eq_obj2id[i])
    if getattr(c, "eq_objtype", None) is None or c.eq_objtype[i] != reader.objects.site:
        return a, b, ()
    return int(c.site_bodyid[a]), int(c.site_bodyid[b]), tuple(Pose(c.site_pos[k], quat=c.site_quat[k]) for k in (a, b))


def _close(model: Builder, reader: Reader, group: list[Connect]) -> None:
    """Close the loop of all connects between two bodies, by the joint that they make together."""
    element, first = _element(reader, group[0].number), group[0]
    a, b = reader.names[first.a], reader.names[first.b]
    offsets_a, offsets_b = (np.array([getattr(one, end) - getattr(first, end) for one in group]) for end in ("at_a", "at_b"))
    size = max(1e-6, np.abs(offsets_a).max())
    # the same figure of points on both bodies: all their distances agree
    same = np.abs(offsets_a @ offsets_a.T - offsets_b @ offsets_b.T).max() <= SAME * size**2
    joint: Any = Spherical()
    at_a, at_b = Pose(first.at_a), Pose(first.at_b)
    if group[1:] and same:
        lengths = np.linalg.svd(offsets_a, compute_uv=False)
        if lengths[0] <= SAME:
            group = group[:1] if np.abs(offsets_b).max() <= SAME else group
        elif lengths[1] <= SAME * lengths[0]:
            k = int(np.argmax(np.linalg.norm(offsets_a, axis=1)))
            joint = Revolute("z")
            axes = [frame_along(offset / np.linalg.norm(offset)) for offset in (offsets_a[k], offsets_b[k])]
            at_a, at_b = Pose(first.at_a, matrix=axes[0]), Pose(first.at_b, matrix=axes[1])
        else:
            joint, at_a, at_b = Fixed(), Pose(first.at_a, matrix=_fitted(offsets_b, offsets_a)), Pose(first.at_b)
    if group[1:] and not isinstance(joint, Spherical):
        listed = ", ".join(f"'{_name(reader, one.number)}'" for one in group)
        model.parts.notes.append(f"the connects {listed} of '{a}' and '{b}' are {'a hinge' if isinstance(joint, Revolute) else 'a weld'}")
        element.build(model.close, _name(reader, first.number), joint, a, b, at_a, at_b)
        return
    for one in group:
        _element(reader, one.number).build(model.close, _name(reader, one.number), Spherical(), a, b, one.at_a, one.at_b)


def _fitted(points: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Return the rotation that takes points nearest to others."""
    u, _, vt = np.linalg.svd(to.T @ points)
    return u @ np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))]) @ vt


def _couple(model: Builder, reader: Reader, i: int) -> None:
    """Couple the joints of a linear equality: y - y0 = a + b (x - x0), and coordinates count from y0 and x0 already."""
    c, kinds = reader.compiled, reader.joint_kinds
    y, x = int(c.eq_obj1id[i]), int(c.eq_obj2id[i])
    element = _element(reader, i)
    for k in (y, x):
        if k >= 0 and c.jnt_type[k] not in (kinds.hinge, kinds.slide):
            element.fail("a joint with several coordinates cannot be coupled; name hinges and sliders")
    offset, ratio = c.eq_data[i, 0], c.eq_data[i, 1] if x >= 0 else 0.0
    if x == y:
        element.fail("a joint is coupled to itself; name two joints")
    coefficients = {reader.carriers[y]: 1.0} | ({reader.carriers[x]: -float(ratio)} if ratio else {})
    element.build(model.couple, _name(reader, i), coefficients, float(offset))
