"""Compliant contact: shapes of a body against a plane of the ground, or spheres against the spheres of another body."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from catena.errors import ModelError
from catena.graph import minimum
from catena.model import values
from catena.model.bodies import Geometry
from catena.model.pose import Pose

#: The numbers of a contact that are parameters, with their units.
NUMBERS = {"stiffness": "N/m", "dissipation": "s/m", "friction": "", "stiction": "", "slip_speed": "m/s", "normal": "", "height": "m"}

#: Half the thickness of the rim of a cylinder, relative to its radius: it rounds the edge on which a cylinder stands and tips.
RIM = 0.01

#: Speed of an impact [m/s] at which a restitution is given.
IMPACT_SPEED = 1.0

#: Restitutions between which a dissipation is found; 0 would take an infinite one.
LEAST_RESTITUTION, MOST_DISSIPATION = 0.01, 1e3

#: Points of a mesh at most: those furthest along so many directions.
_DIRECTIONS = np.array([d for d in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(d)])

#: The points that carry a body at rest, by the kind of a shape.
_CARRYING = {"box": 4, "capsule": 2, "rod": 2, "cylinder": 1, "sphere": 1, "ellipsoid": 1}

#: How many sizes [m] a shape has, and what they are, by its kind.
_SIZES = {
    "box": (3, "its 3 sides"), "capsule": (2, "(length, radius)"), "rod": (1, "(length,)"), "cylinder": (2, "(length, radius)"),
    "sphere": (1, "(radius,)"), "ellipsoid": (3, "its 3 half axes"),
}  # fmt: skip


@dataclass(frozen=True)
class Contact:
    """Contact of the shapes and points of a body with a plane of the ground, or of its spheres with those of another body.

    At a depth d that grows at the rate d', the normal force of a point is `stiffness * d**exponent * (1 + dissipation * d')`, and never
    pulls. Friction is `friction` times the normal force, against the sliding velocity u, by u / sqrt(u^2 + slip_speed^2).
    Near rest the coefficient is larger by `stiction`, of which the part 1 / (1 + (u / (100 slip_speed))^2) is left at the speed u.

    The plane has the unit `normal`, in the ground's axes, and its points p have `normal . p = height`.
    """

    name: str
    body: str
    against: str
    shapes: tuple[Geometry, ...]
    points: Any
    against_shapes: tuple[Geometry, ...]
    stiffness: float
    dissipation: float
    friction: float
    stiction: float
    slip_speed: float
    exponent: float
    normal: Any
    height: float
    tied: ClassVar[Mapping[str, Any]] = {}  # expressions that its numbers follow, by name

    def __post_init__(self) -> None:
        what = f"contact '{self.name}'"
        values.take(self, *NUMBERS)
        points = values.floats(f"{what}: points", self.points, "give one point (x, y, z) or more", ModelError).reshape(-1, 3)
        if not np.isfinite(points).all():
            raise ModelError(f"{what}: points {self.points!r} are not finite; give finite numbers")
        object.__setattr__(self, "points", tuple(map(tuple, points.tolist())))
        for key in ("stiffness", "slip_speed"):
            object.__setattr__(self, key, values.number(f"{what}: {key}", getattr(self, key), above=0.0))
        for key in ("dissipation", "friction", "stiction"):
            object.__setattr__(self, key, values.number(f"{what}: {key}", getattr(self, key), least=0.0))
        object.__setattr__(self, "height", values.number(f"{what}: height", self.height))
        object.__setattr__(self, "normal", values.direction(f"{what}: normal", self.normal))
        object.__setattr__(self, "exponent", check_exponent(what, self.exponent))

    def spheres(self) -> list[tuple[np.ndarray, float]]:
        """Return the centres and radii of the spheres, and of the points that touch, in the frame of the body."""
        found = [(np.array(point), 0.0) for point in self.points]
        for shape in self.shapes:
            found += spheres(shape)
        return found

    def ellipsoids(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the centres and shape matrices E of the ellipsoids x^T E^-1 x = 1 that touch, in the frame of the body."""
        return [one for shape in self.shapes for one in ellipsoids(shape)]


def spheres(shape: Geometry) -> list[tuple[np.ndarray, float]]:
    """Return the centres and radii of the spheres, and of the corners, by which a shape touches a plane."""
    centre, axis = np.array(shape.center), np.array(values.direction("axis", shape.axis))
    if shape.kind == "sphere":
        return [(centre, shape.size[0])]
    if shape.kind in ("capsule", "rod"):
        half = 0.5 * shape.size[0] * axis
        return [(centre + half, shape.size[-1] if shape.kind == "capsule" else 0.0),
                (centre - half, shape.size[-1] if shape.kind == "capsule" else 0.0)]  # fmt: skip
    if shape.kind == "box":
        R = Pose(rpy=shape.rpy).R
        corners = itertools.product((-0.5, 0.5), repeat=3)
        return [(centre + R @ (np.array(corner) * shape.size), 0.0) for corner in corners]
    return []


def ellipsoids(shape: Geometry) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the centres and shape matrices of the ellipsoids by which a shape touches a plane; the rims of a cylinder are flat ones."""
    centre, axis = np.array(shape.center), np.array(values.direction("axis", shape.axis))
    if shape.kind == "ellipsoid":
        R = Pose(rpy=shape.rpy).R
        return [(centre, R @ np.diag(np.square(shape.size)) @ R.T)]
    if shape.kind == "cylinder":
        length, radius = shape.size
        thin = minimum(RIM * radius, 0.5 * length)
        along = np.outer(axis, axis)
        E = radius**2 * (np.eye(3) - along) + thin**2 * along
        return [(centre + sign * (0.5 * length - thin) * axis, E) for sign in (1.0, -1.0)]
    return []


def carrying(shapes: Sequence[Geometry], points: int) -> int:
    """Return by how many points a body rests on a plane: those of one of its shapes, or half of the points that are given."""
    return max([(points + 1) // 2, 1, *(_CARRYING[shape.kind] for shape in shapes)])


def check_shapes(what: str, shapes: Sequence[Any], spheres_only: bool) -> tuple[Geometry, ...]:
    """Return the shapes that can touch, or say which cannot."""
    for shape in shapes:
        if not isinstance(shape, Geometry):
            raise ModelError(f"{what}: {shape!r} is not a shape; give one such as ct.Geometry('sphere', (0.1,))")
        if spheres_only and shape.kind != "sphere":
            raise ModelError(f"{what}: a {shape.kind} touches the ground only; give spheres on both bodies")
        if shape.kind not in _CARRYING:
            remedy = "give points= of its convex hull, as ct.hull_points(vertices) finds them" if shape.kind == "mesh" else "give another"
            raise ModelError(f"{what}: a {shape.kind} has no contact; {remedy}")
        _check_numbers(f"{what}: {shape.kind}", shape)
    return tuple(shapes)


def _check_numbers(what: str, shape: Geometry) -> None:
    """Refuse a shape whose numbers describe none."""
    count, named = _SIZES[shape.kind]
    sizes = values.floats(f"{what}: size", shape.size, f"give {named}", ModelError)
    if sizes.shape != (count,):
        raise ModelError(f"{what}: size {shape.size!r} has shape {sizes.shape}; give {named}")
    for size in sizes.tolist():
        values.number(f"{what}: size", size, above=0.0)
    values.array(f"{what}: center", shape.center, (3,))
    values.array(f"{what}: rpy", shape.rpy, (3,))
    values.direction(f"{what}: axis", shape.axis)


def check_exponent(what: str, exponent: Any) -> float:
    """Return the exponent of a normal force, or say that it is not offered."""
    if not np.isscalar(exponent) or exponent not in (1.0, 1.5):
        raise ModelError(f"{what}: exponent {exponent!r} is not offered; give 1, or 1.5 for spheres as Hertz has them")
    return float(exponent)  # type: ignore[arg-type]


def hull_points(vertices: Any) -> np.ndarray:
    """Return corners of the convex hull of a mesh: the vertices furthest along 26 directions, at most as many points.

    >>> ct.hull_points([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.2, 0.2, 0.2]])
    array([[0., 0., 0.],
           [0., 0., 1.],
           [0., 1., 0.],
           [1., 0., 0.]])
    """
    corners = values.floats("hull_points: vertices", vertices, "give points (x, y, z), n x 3")
    if corners.ndim != 2 or corners.shape[1] != 3 or not len(corners) or not np.isfinite(corners).all():
        raise ModelError(f"hull_points: vertices of shape {corners.shape} are not points; give finite numbers, n x 3")
    centred = corners - 0.5 * (corners.min(axis=0) + corners.max(axis=0))
    scale = np.maximum(np.abs(centred).max(axis=0), 1e-12 * np.abs(centred).max() or 1.0)  # so that flat and long meshes keep their corners
    return np.unique(corners[np.argmax((centred / scale) @ _DIRECTIONS.T, axis=0)], axis=0)


def restitution_of(dissipation: float, speed: float = IMPACT_SPEED) -> float:
    """Return the ratio e of the speeds after and before an impact at a speed [m/s], of the law of Hunt and Crossley with a dissipation.

    With x = dissipation * speed it solves x (1 + e) = ln((1 + x) / (1 - e x)), whatever the mass, the stiffness and the exponent are.

    >>> round(ct.restitution_of(1.0), 3)
    0.594
    """
    x = dissipation * speed
    if x == 0.0:
        return 1.0
    low, high = 0.0, min(1.0, (1.0 - 1e-15) / x)
    for _ in range(60):
        e = 0.5 * (low + high)
        low, high = (e, high) if np.log1p(x) - np.log1p(-e * x) < x * (1.0 + e) else (low, e)
    return 0.5 * (low + high)


def dissipation_of(restitution: float, speed: float = IMPACT_SPEED) -> float:
    """Return the dissipation [s/m] by which a body bounces with a restitution from an impact at a speed [m/s].

    A restitution of 0 would take an infinite one: the least is 0.01.

    >>> round(ct.dissipation_of(0.5), 3)
    1.433
    """
    restitution = values.number("restitution", restitution, least=0.0)
    if restitution > 1.0:
        raise ModelError(f"restitution {restitution:g} is above 1, and would add energy; give a number from 0 to 1")
    if restitution == 1.0:
        return 0.0
    low, high = 0.0, MOST_DISSIPATION
    wanted = max(restitution, LEAST_RESTITUTION)
    for _ in range(60):
        x = 0.5 * (low + high)
        low, high = (x, high) if restitution_of(x) > wanted else (low, x)
    return 0.5 * (low + high) / speed
