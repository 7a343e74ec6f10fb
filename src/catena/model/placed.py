"""Forces and loops of a tree, placed in the canonical frames of its bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from catena.spatial import Rigid


class PlacedSpring(NamedTuple):
    """A spring between a point of body a and one of body b, each in the frame of its body [m]."""

    name: str
    a: int
    b: int
    at_a: np.ndarray
    at_b: np.ndarray
    stiffness: float
    damping: float
    length: float
    cubic: float
    slack: bool


class PlacedBushing(NamedTuple):
    """A bushing between a frame of body a and one of body b, each in the frame of its body; numbers along the axes of the frame on a."""

    name: str
    a: int
    b: int
    at_a: Rigid
    at_b: Rigid
    stiffness: np.ndarray
    damping: np.ndarray
    turning_stiffness: np.ndarray
    turning_damping: np.ndarray


class PlacedPointForce(NamedTuple):
    """A force on a point of a body in its frame [m], whose axes are turned by R; or with another body a tension between two points."""

    name: str
    function: Callable[..., Any]
    in_body: bool
    body: int
    point: np.ndarray
    R: np.ndarray
    other: int | None
    at_other: np.ndarray


class PlacedContact(NamedTuple):
    """Spheres (centre, radius) and ellipsoids (centre, E) of body a against a plane of the world, or against spheres of body b."""

    name: str
    a: int
    b: int
    spheres: tuple[tuple[np.ndarray, float], ...]
    ellipsoids: tuple[tuple[np.ndarray, np.ndarray], ...]
    others: tuple[tuple[np.ndarray, float], ...]  # none against the plane
    normal: np.ndarray
    height: float
    stiffness: float
    dissipation: float
    friction: float
    stiction: float
    slip_speed: float
    exponent: float


class PlacedForce(NamedTuple):
    """A force from a function of (t, q, v): nv joint forces without a body, else (moment, force) on a point of it in the world's axes."""

    name: str
    function: Callable[[Any, Any, Any], Any]
    body: int | None
    point: np.ndarray


class Basic(NamedTuple):
    """One basic constraint of [KY03] Table 3, between joint frames on two bodies a and b.

    `u` is fixed in the joint frame on a, `w` in that on b, each in the axes of its frame; p_a and p_b are the origins of the frames.

        kind    rows  the constraint
        s       3     p_b - p_a = 0: the points coincide
        d1      1     u . w = value: two directions keep their angle
        d2      1     u . (p_b - p_a) = 0
        ss      1     |p_b - p_a|^2 = value^2: the points keep their distance [m]
        screw   1     w . (cos(s) e2 - sin(s) e1) = 0, with s = z . (p_b - p_a) / value

    In a screw, z is `axis`, fixed in the joint frame on a; e1 = u and e2 = z x u are perpendicular to it, as is w, which agrees with u
    at zero angle; `value` is the pitch [m/rad]. The row is the sine of the angle of b about z less the angle s that belongs to its
    displacement. What a kind does not use is zero.
    """

    kind: str
    u: np.ndarray = np.zeros(3)
    w: np.ndarray = np.zeros(3)
    value: float = 0.0
    axis: np.ndarray = np.zeros(3)

    @property
    def rows(self) -> int:
        return 3 if self.kind == "s" else 1


class PlacedClosure(NamedTuple):
    """A joint that closes a loop: body b's joint frame moves against body a's as a child moves against its parent.

    `at_a` and `at_b` are the joint frames in the canonical frames of the bodies; -1 is the ground.
    """

    name: str
    a: int
    b: int
    at_a: Rigid
    at_b: Rigid
    constraints: tuple[Basic, ...]


class PlacedCoupling(NamedTuple):
    """A linear relation of coordinates: the sum of coefficient times position is the offset, that of coefficient times velocity zero."""

    name: str
    coefficients: tuple[tuple[int, float], ...]  # velocity coordinate, coefficient
    positions: tuple[tuple[int, float], ...]  # position coordinate, coefficient
    offset: float
