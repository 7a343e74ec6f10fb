"""Rigid bodies and the shapes that make them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from catena.errors import InertiaWarning, ModelError
from catena.model import values
from catena.scalars.expression import expressed
from catena.spatial import rigid_inertia


@dataclass(frozen=True)
class Geometry:
    """A shape to look at, and to touch with in contacts.

    `center` and `axis` are in the body frame, sizes in metres; `size` and `center` may follow parameters.

    Boxes, ellipsoids and meshes are turned by `rpy`, roll, pitch and yaw [rad] about the axes of the body. A mesh has the scale of its
    three axes as its size, and in `file` what a model file says of where it is; it is looked for when it is shown. `colour` is red, green
    and blue from 0 to 1.
    """

    kind: str
    size: tuple[float, ...]
    center: tuple[float, float, float] = (0.0, 0.0, 0.0)
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    rpy: tuple[float, float, float] = (0.0, 0.0, 0.0)
    file: str = ""
    colour: tuple[float, float, float] | None = None
    folder: str | None = None  # where a mesh is, if not where the model's are
    tied: ClassVar[Mapping[str, Any]] = {}  # expressions that size and centre follow, by name

    def __post_init__(self) -> None:
        for name in ("axis", "rpy", "colour"):
            if expressed(value := getattr(self, name)):
                raise ModelError(f"geometry '{self.kind}': {name} {value!r} cannot follow parameters; take their .value")
        values.take(self, "size", "center")
        for name in ("size", "center", "axis", "rpy", "colour"):  # lists and arrays could change later
            if isinstance(value := getattr(self, name), (list, np.ndarray)):
                object.__setattr__(self, name, tuple(np.asarray(value).tolist()))

    def following(self, ties: Mapping[str, Any], path: str) -> Geometry:
        """Return the shape with the formulas that a model has for it, by its path."""
        found = replace(self)
        object.__setattr__(found, "tied", {key: ties[at] for key in ("size", "center") if (at := f"{path}.{key}") in ties})
        return found


@dataclass(frozen=True, eq=False)
class Body:
    """A rigid body: mass [kg], centre of mass [m] and inertia [kg m^2] about it, both in the body frame.

    >>> ct.Body(2.0, com=(0.1, 0, 0), inertia=np.diag([0.01, 0.02, 0.02])).mass
    2.0
    """

    mass: float
    com: Any = (0.0, 0.0, 0.0)
    inertia: Any = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    geometry: tuple[Geometry, ...] = ()
    tied: ClassVar[Mapping[str, Any]] = {}  # expressions that the numbers of a body follow, by name

    def __post_init__(self) -> None:
        values.take(self, "mass", "com", "inertia")
        mass = values.number("body mass", self.mass, least=0.0)
        inertia = values.array("body inertia", self.inertia, (3, 3))
        scale = np.abs(inertia).max()
        skewness = np.abs(inertia - inertia.T).max()
        if skewness > 1e-9 * scale:
            raise ModelError(f"body inertia {inertia.tolist()} is not symmetric (off by {skewness:.3g}); give a symmetric matrix")
        inertia = 0.5 * (inertia + inertia.T)
        moments = np.linalg.eigvalsh(inertia)
        if moments[0] < -1e-9 * scale:
            raise ModelError(
                f"body inertia {inertia.tolist()} has the negative principal moment {moments[0]:.3g}; "
                "give the (positive semidefinite) inertia about the centre of mass"
            )
        if moments[2] > (moments[0] + moments[1]) * (1.0 + 1e-6) + 1e-9 * scale:
            warnings.warn(
                f"body inertia with principal moments {', '.join(f'{m:.4g}' for m in moments)} belongs to no real body "
                "(the largest exceeds the sum of the other two); it is used as given",
                InertiaWarning,
                stacklevel=3,
            )
        object.__setattr__(self, "mass", mass)
        object.__setattr__(self, "com", tuple(values.array("body com", self.com, (3,)).tolist()))
        inertia.setflags(write=False)
        object.__setattr__(self, "inertia", inertia)
        object.__setattr__(self, "geometry", tuple(self.geometry))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.inertia.setflags(write=False)  # which copies and pickles of arrays forget

    def matrix(self) -> np.ndarray:
        """Return the 6 x 6 inertia at the origin of the body frame."""
        return rigid_inertia(self.mass, np.array(self.com), self.inertia)


def _along(axis: Any, along: float, across: float) -> np.ndarray:
    """Return the inertia of a body of revolution about an axis."""
    a = np.array(values.direction("axis", axis))
    outer = np.outer(a, a)
    return along * outer + across * (np.eye(3) - outer)


def _looks(kind: str, size: tuple[Any, ...], com: Any, axis: tuple[float, float, float] = (0.0, 0.0, 1.0)) -> tuple[Geometry, ...]:
    """Return the shape of a body to look at, centred at its centre of mass."""
    center = values.array(f"{kind} com", values.plain(com), (3,)).tolist()
    return (Geometry(kind, size, com if expressed(com) else tuple(center), axis),)


def rod(length: float, mass: float, axis: Any = "x") -> Body:
    """Return a slender rod from the origin along an axis.

    >>> ct.rod(0.5, mass=2.0).com
    (0.25, 0.0, 0.0)
    """
    length, mass = values.checked("rod length", length, above=0.0), values.checked("rod mass", mass, least=0.0)
    a = values.direction("rod axis", axis)
    com = (0.5 * length * a[0], 0.5 * length * a[1], 0.5 * length * a[2])
    return Body(mass, com, _along(a, 0.0, mass * length**2 / 12.0), _looks("rod", (length,), com, a))


def box(x: float, y: float, z: float, mass: float, com: Any = (0.0, 0.0, 0.0)) -> Body:
    """Return a solid box with edges x, y, z [m] along the body axes, centred at `com`.

    >>> ct.box(1.0, 1.0, 1.0, mass=6.0).inertia.diagonal().tolist()
    [1.0, 1.0, 1.0]
    """
    x, y, z = (values.checked(f"box {n}", v, above=0.0) for n, v in zip("xyz", (x, y, z), strict=True))
    mass = values.checked("box mass", mass, least=0.0)
    inertia = mass / 12.0 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y])
    return Body(mass, com, inertia, _looks("box", (x, y, z), com))


def cylinder(length: float, radius: float, mass: float, axis: Any = "z", com: Any = (0.0, 0.0, 0.0)) -> Body:
    """Return a solid cylinder about an axis, centred at `com`.

    >>> ct.cylinder(1.0, 0.2, mass=2.0).inertia[2, 2].round(3)
    np.float64(0.04)
    """
    length, radius = values.checked("cylinder length", length, above=0.0), values.checked("cylinder radius", radius, above=0.0)
    mass = values.checked("cylinder mass", mass, least=0.0)
    a = values.direction("cylinder axis", axis)
    inertia = _along(a, 0.5 * mass * radius**2, mass * (3.0 * radius**2 + length**2) / 12.0)
    return Body(mass, com, inertia, _looks("cylinder", (length, radius), com, a))


def sphere(radius: float, mass: float, com: Any = (0.0, 0.0, 0.0)) -> Body:
    """Return a solid sphere, centred at `com`.

    >>> ct.sphere(0.5, mass=1.0).inertia[0, 0].round(3)
    np.float64(0.1)
    """
    radius, mass = values.checked("sphere radius", radius, above=0.0), values.checked("sphere mass", mass, least=0.0)
    return Body(mass, com, 0.4 * mass * radius**2 * np.eye(3), _looks("sphere", (radius,), com))


def point_mass(mass: float, at: Any = (0.0, 0.0, 0.0)) -> Body:
    """Return a body with all its mass in one point.

    >>> ct.point_mass(3.0, at=(0, 0, 1)).com
    (0.0, 0.0, 1.0)
    """
    return Body(values.checked("point mass", mass, least=0.0), at)
