"""The shapes of a URDF file, and their colours."""

from __future__ import annotations

from dataclasses import replace

from catena.files.xml_reader import Element
from catena.model.bodies import Geometry
from catena.model.wording import short

Colour = tuple[float, float, float]


def materials(root: Element) -> dict[str, Colour]:
    """Return the colours of the materials of a file by their names."""
    named = [element for element in root.all() if element.tag == "material" and element.attributes.get("name")]
    return {element.attributes["name"]: colour for element in named if (colour := _painted(element)) is not None}


def shapes(link: Element, materials: dict[str, Colour]) -> tuple[Geometry, ...]:
    """Return the shapes of a link to show: the visual ones, or those of collisions where there are none."""
    for tag in ("visual", "collision"):
        if elements := [child for child in link if child.tag == tag]:
            shown = ((element, shape) for element in elements if (shape := _geometry(element)) is not None)
            return tuple(replace(shape, colour=_colour(element, materials)) for element, shape in shown)
    return ()


def collisions(link: Element) -> tuple[Geometry, ...]:
    """Return the shapes by which a link collides."""
    return tuple(shape for child in link if child.tag == "collision" and (shape := _geometry(child)) is not None)


def _colour(shape: Element, materials: dict[str, Colour]) -> Colour | None:
    """Return the colour of a shape: that of its material, or of the material of this name elsewhere in the file."""
    material = next((child for child in shape if child.tag == "material"), None)
    return None if material is None else _painted(material) or materials.get(material.attributes.get("name", ""))


def _geometry(shape: Element) -> Geometry | None:
    """Return the shape of a <visual> or <collision>; None for kinds of shapes that are not shown."""
    at, geometry = shape.build(shape.pose), shape.need("geometry")
    if len(geometry.children) != 1:
        geometry.fail(f"there are {len(geometry.children)} shapes; give one of <box>, <cylinder>, <sphere> and <mesh>")
    (solid,) = geometry
    center: tuple[float, float, float] = tuple(at.p.tolist())  # type: ignore[assignment]
    if solid.tag == "sphere":
        return Geometry("sphere", (_size(solid, "radius"),), center)
    if solid.tag == "cylinder":
        axis: tuple[float, float, float] = tuple(at.R[:, 2].tolist())  # type: ignore[assignment]
        return Geometry("cylinder", (_size(solid, "length"), _size(solid, "radius")), center, axis)
    origin = shape.only("origin")
    roll, pitch, yaw = (0.0, 0.0, 0.0) if origin is None else origin.numbers("rpy", 3, (0.0, 0.0, 0.0))
    rpy = (roll, pitch, yaw)
    if solid.tag == "box":
        size = solid.numbers("size", 3)
        if min(size) <= 0.0:
            solid.fail(f"size {short(solid.attributes['size'])} is not above 0; give three lengths")
        return Geometry("box", size, center, rpy=rpy)
    if solid.tag == "mesh":
        return Geometry("mesh", solid.numbers("scale", 3, (1.0, 1.0, 1.0)), center, rpy=rpy, file=solid.word("filename"))
    return None


def _painted(material: Element) -> Colour | None:
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
