"""Targets of inverse kinematics: where frames, points, directions and the centre of mass shall be; their residuals, on any scalar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ArgumentError
from catena.formulations.centroidal import center_of_mass, center_of_mass_jacobian, chosen_inertias
from catena.formulations.frames import jacobian, poses
from catena.graph import where
from catena.model import Mechanism, Tree
from catena.model.values import array, direction, floats
from catena.spatial import Rigid, cross, quaternion_log

#: How many numbers a target of each kind has, and rows of the residual.
_NUMBERS = {"pose": (4, 4), "position": (3,), "rotation": (3, 3), "direction": (3,)}
ROWS = {"pose": 6, "position": 3, "rotation": 3, "direction": 3}


@dataclass(frozen=True, eq=False)
class Target:
    """Where a body or frame shall be: one of a pose, a position, a rotation, or a direction.

    `pose` is a `Pose` or a 4 x 4 matrix, `position` that of a `point` of the frame [m], `rotation` a 3 x 3 matrix, `direction` a vector
    along which the frame's `axis` shall point. All may have leading axes, of many targets at once. They are in the world, or where
    `relative_to` names a body or frame, in this one. `weight` says how much the target counts against others that cannot be met at the
    same time: a number, or one for each row, 3, of a pose 6, about x, y, z and along x, y, z; 0 leaves a row out.

    >>> ct.Target("hand", position=(0.3, 0, 0.5), weight=(1, 1, 0))  # anywhere along z
    Target('hand', position)
    >>> ct.Target.center_of_mass((0, 0, 0.8))
    Target(center of mass, position)
    """

    frame: str | None
    kind: str = field(init=False)
    pose: Any = None
    position: Any = None
    rotation: Any = None
    direction: Any = None
    axis: Any = "z"
    point: Any = (0.0, 0.0, 0.0)
    relative_to: str = "ground"
    of: str | None = field(default=None, kw_only=True)
    weight: Any = 1.0
    value: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        what = f"target of {self.called}"
        given = {kind: value for kind in _NUMBERS if (value := getattr(self, kind)) is not None}
        if len(given) != 1:
            names = ", ".join(f"{kind}=" for kind in given) or "nothing"
            raise ArgumentError(f"{what}: {names} is given; give one of pose=, position=, rotation=, direction=")
        (kind, value), = given.items()
        value = value.matrix() if isinstance(value, Rigid) else floats(f"{what}: {kind}", value, "give numbers")
        shape = _NUMBERS[kind]
        if value.shape[max(value.ndim - len(shape), 0) :] != shape or not np.isfinite(value).all():
            raise ArgumentError(f"{what}: {kind} has shape {value.shape}; give finite numbers of shape (..., {', '.join(map(str, shape))})")
        value = np.asarray(value, dtype=float)
        if kind in ("pose", "rotation"):
            R = value[..., :3, :3]
            off = np.abs(R @ R.swapaxes(-1, -2) - np.eye(3)).max(initial=0.0)
            if off > 1e-6 or (np.linalg.det(R) < 0.0).any():
                raise ArgumentError(f"{what}: the {kind} is not a rotation (R R^T is off by {off:.1e}); give orthonormal matrices")
        if kind == "direction":
            length = np.linalg.norm(value, axis=-1, keepdims=True)
            if not length.all():
                raise ArgumentError(f"{what}: a direction is zero; give vectors that are not")
            value = value / length
        weight = floats(f"{what}: weight", self.weight, "give a number, or one for each row")
        if weight.shape not in ((), (ROWS[kind],)) or not (np.isfinite(weight) & (weight >= 0.0)).all():
            raise ArgumentError(f"{what}: weight {self.weight!r} is not a number of 0 or more, or {ROWS[kind]} of them")
        for name, checked in (
            ("kind", kind), ("value", value), ("weight", np.broadcast_to(weight, (ROWS[kind],))),
            ("point", tuple(array(f"{what}: point", self.point, (3,)).tolist())), ("axis", direction(f"{what}: axis", self.axis)),
        ):  # fmt: skip
            object.__setattr__(self, name, checked)

    @classmethod
    def center_of_mass(cls, position: Any, *, of: str | None = None, weight: Any = 1.0) -> Target:
        """Return the target of the centre of mass of all that moves, or of a body and all that hang on it; see `ct.center_of_mass`.

        >>> m = ct.Model("balance")
        >>> m.add("leg", ct.rod(1.0, mass=1.0, axis="z"), ct.Revolute("y"))
        >>> m.add("body", ct.rod(1.0, mass=1.0, axis="z"), ct.Revolute("y"), parent="leg", at=(0, 0, 1))
        >>> found = ct.inverse_kinematics(m, [ct.Target.center_of_mass((0, 0, 0.8), weight=(1, 0, 1))], guess=[0.1, 0.2])
        >>> ct.center_of_mass(m)(found.q).round(9) + 0.0
        array([0. , 0. , 0.8])
        """
        return cls(None, position=position, of=of, weight=weight)

    @property
    def called(self) -> str:
        """What the target is of."""
        return repr(self.frame) if self.frame is not None else "center of mass" + (f" of {self.of!r}" if self.of else "")

    def __repr__(self) -> str:
        return f"Target({self.called}, {self.kind})"

    @property
    def structure(self) -> tuple:
        """What the code for a target depends on."""
        return (self.frame, self.kind, self.axis, self.point, self.relative_to, self.of)

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes."""
        return self.value.shape[: self.value.ndim - len(_NUMBERS[self.kind])]

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the target along one axis, after the leading ones."""
        if self.kind == "pose":
            parts = (self.value[..., :3, :3].reshape(*self.batch, 9), self.value[..., :3, 3])
            return np.concatenate(parts, axis=-1)
        return self.value.reshape(*self.batch, -1)


def checked_targets(m: Mechanism, targets: Any) -> tuple[Target, ...]:
    """Return targets as a tuple, whose frames a model has; a mapping gives poses or positions by the names of frames."""
    if isinstance(targets, Target):
        targets = (targets,)
    elif isinstance(targets, Mapping):
        targets = tuple(_short(name, value) for name, value in targets.items())
    if not isinstance(targets, Sequence) or not targets or not all(isinstance(target, Target) for target in targets):
        raise ArgumentError(f"inverse_kinematics: targets {targets!r} are none; give ct.Target's, or poses by names of frames")
    for target in targets:
        for name in (target.frame, target.relative_to):
            if name is not None:
                m.carrier(name, "inverse_kinematics: a target names body")
        if target.of is not None:
            m.check_body(target.of, "inverse_kinematics: a target is the center of mass of")
    return tuple(targets)


def _short(name: str, value: Any) -> Target:
    if isinstance(value, Rigid):
        return Target(name, pose=value)
    numbers = floats(f"target of {name!r}", value, "give a ct.Pose, 4 x 4 matrices, or positions")
    return Target(name, pose=numbers) if numbers.shape[-2:] == (4, 4) else Target(name, position=numbers)


class Residual(NamedTuple):
    """How far a target is from being met, row by row: rotations first [rad], then lengths [m]; and its Jacobian, rows x nv."""

    values: Any
    jacobian: Any
    lengths: tuple[bool, ...]


def residual(tree: Tree, q: Any, target: Target, numbers: Any) -> Residual:
    """Return the residual of a target whose numbers are given, of any scalar."""
    if target.frame is None:
        M = chosen_inertias(tree, target.of)
        return Residual(center_of_mass(tree, q, M) - numbers, center_of_mass_jacobian(tree, q, M), (True,) * 3)
    point, against = np.array(target.point), target.relative_to
    J = jacobian(tree, q, target.frame, point, "world" if against == "ground" else against, against)
    R, p = _placed(tree, q, target.frame, against)
    if target.kind == "direction":
        u = R @ np.array(target.axis)
        columns = [cross(J[:3, c], u) for c in range(tree.nv)]
        return Residual(u - numbers, np.stack(columns, axis=1), (False,) * 3)
    shift = p + R @ point - numbers[-3:]
    if target.kind == "position":
        return Residual(shift, J[3:], (True,) * 3)
    turn = rotation_vector(R @ numbers[:9].reshape(3, 3).T)
    if target.kind == "rotation":
        return Residual(turn, J[:3], (False,) * 3)
    return Residual(np.concatenate([turn, shift]), J, (False,) * 3 + (True,) * 3)


def _placed(tree: Tree, q: Any, name: str, against: str) -> tuple[Any, Any]:
    """Return rotation and origin of a frame, in the world or in another frame."""
    if against == "ground":
        (T,) = poses(tree, q, [name])
        return T[:3, :3], T[:3, 3]
    T, other = poses(tree, q, [name, against])
    return other[:3, :3].T @ T[:3, :3], other[:3, :3].T @ (T[:3, 3] - other[:3, 3])


def rotation_vector(R: Any) -> Any:
    """Return the rotation vector of a matrix, of any scalar and up to half a turn: by the largest entry of its quaternion."""
    x, y, z, trace = R[0, 0], R[1, 1], R[2, 2], R[0, 0] + R[1, 1] + R[2, 2]
    a, b, c = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    xy, xz, yz = R[0, 1] + R[1, 0], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1]
    found = [1.0 + trace, a, b, c]
    largest = trace
    for entry, other in ((x, [a, 1.0 + x - y - z, xy, xz]), (y, [b, xy, 1.0 - x + y - z, yz]), (z, [c, xz, yz, 1.0 - x - y + z])):
        bigger = entry > largest
        found = [where(bigger, new, old) for new, old in zip(other, found, strict=True)]
        largest = where(bigger, entry, largest)
    return quaternion_log(np.array(found, dtype=object))
