"""Joints that turn about fixed axes and slide along them: hinges, sliders, screws, and what is made of these; and the weld."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from catena.errors import ModelError
from catena.model import values
from catena.model.joints.base import Joint
from catena.model.motions import Factor, FixedMotion, Motion, ScrewMotion
from catena.model.pose import frame_along


@dataclass(frozen=True, repr=False)
class Fixed(Joint):
    """A weld: the child is part of the parent.

    >>> ct.Fixed().nv
    0
    """

    q_labels = v_labels = q_units = v_units = ()

    def motion(self) -> Motion:
        return FixedMotion()


@dataclass(frozen=True, repr=False)
class _AxisJoint(Joint):
    """A joint about or along one axis."""

    axis: Any = "z"
    factors: ClassVar[tuple[Factor, ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "axis", values.direction(f"{self.kind} axis", self.axis))

    def _factors(self) -> tuple[Factor, ...]:
        return self.factors

    def motion(self) -> Motion:
        frame = frame_along(self.axis)
        return ScrewMotion(self._factors(), inner=frame, outer=frame)


@dataclass(frozen=True, repr=False)
class Revolute(_AxisJoint):
    """A hinge: the angle [rad] about an axis.

    >>> ct.Revolute("y", damping=0.1).axis
    (0.0, 1.0, 0.0)
    """

    factors = (Factor(2, (1.0,), (0.0,)),)


@dataclass(frozen=True, repr=False)
class Prismatic(_AxisJoint):
    """A slider: the displacement [m] along an axis.

    >>> ct.Prismatic("x").q_units
    ('m',)
    """

    factors = (Factor(2, (0.0,), (1.0,)),)
    q_units = ("m",)
    v_units = ("m/s",)


@dataclass(frozen=True, repr=False)
class Helical(_AxisJoint):
    """A screw: the angle [rad] about an axis, with `pitch` metres of displacement per radian.

    >>> ct.Helical("z", pitch=0.002).pitch
    0.002
    """

    pitch: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pitch", values.number("helical pitch", self.pitch))

    def _factors(self) -> tuple[Factor, ...]:
        return (Factor(2, (1.0,), (self.pitch,)),)


@dataclass(frozen=True, repr=False)
class Cylindrical(_AxisJoint):
    """A hinge that slides: the angle [rad] about and the displacement [m] along one axis.

    >>> ct.Cylindrical("z").nv
    2
    """

    factors = (Factor(2, (1.0, 0.0), (0.0, 1.0)),)
    q_labels = v_labels = ("angle", "shift")
    q_units = ("rad", "m")
    v_units = ("rad/s", "m/s")


@dataclass(frozen=True, repr=False)
class Planar(_AxisJoint):
    """Sliding and turning on a plane with the given normal: (x, y, angle).

    x and y [m] are along the parent's axes; for a normal other than z they are the next two axes in the order x, y, z, x, made
    perpendicular to the normal (normal x: y and z; normal y: z and x), the second turned so that x, y and the normal are right-handed
    (normal -z: x and -y). Then the angle [rad] about the normal.

    >>> ct.Planar("z").q_labels
    ('x', 'y', 'angle')
    """

    factors = (
        Factor(0, (0.0, 0.0, 0.0), (1.0, 0.0, 0.0)),
        Factor(1, (0.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
        Factor(2, (0.0, 0.0, 1.0), (0.0, 0.0, 0.0)),
    )
    q_labels = v_labels = ("x", "y", "angle")
    q_units = ("m", "m", "rad")
    v_units = ("m/s", "m/s", "rad/s")


@dataclass(frozen=True, repr=False)
class Universal(Joint):
    """Two hinges at one point: the angle [rad] about axis1, fixed in the parent, then about axis2, fixed in the child.

    >>> ct.Universal("x", "y").nv
    2
    """

    axis1: Any = "x"
    axis2: Any = "y"
    q_labels = v_labels = ("angle1", "angle2")
    q_units = ("rad", "rad")
    v_units = ("rad/s", "rad/s")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "axis1", values.direction("universal axis1", self.axis1))
        object.__setattr__(self, "axis2", values.direction("universal axis2", self.axis2))
        if np.linalg.norm(np.cross(self.axis1, self.axis2)) < 1e-8:
            raise ModelError(f"universal axes {self.axis1} and {self.axis2} are parallel; give two different directions")

    def motion(self) -> Motion:
        z1, z2 = np.array(self.axis1), np.array(self.axis2)
        x = np.cross(z1, z2)
        x = x / np.linalg.norm(x)
        inner = np.stack([x, np.cross(z1, x), z1], axis=1)
        outer = np.stack([x, np.cross(z2, x), z2], axis=1)
        between = float(np.arctan2(np.linalg.norm(np.cross(z1, z2)), z1 @ z2))
        hinges = (Factor(2, (1.0, 0.0), (0.0, 0.0)), Factor(0, (0.0, 0.0), (0.0, 0.0), turn0=between), Factor(2, (0.0, 1.0), (0.0, 0.0)))
        return ScrewMotion(hinges, inner=inner, outer=outer)
