"""The joints, as users write them: coordinates, manifold operations, options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from catena.errors import ModelError
from catena.graph import Trace
from catena.model import values
from catena.model.manifolds import (
    cayley_momentum,
    cayley_rotation,
    cayley_velocity,
    difference_pose,
    difference_rotation,
    integrate_pose,
    integrate_rotation,
    quaternion_rate,
    rotation_rate,
    turned,
)
from catena.model.motions import CustomMotion, Factor, FixedMotion, FreeMotion, Motion, ScrewMotion, SphericalMotion, as_rigid
from catena.spatial import quaternion_inverse, quaternion_product, rotation

Options = float | Sequence[float]
Pair = Sequence[float | None]
Limits = Pair | Sequence[Pair | None] | None


@dataclass(frozen=True, kw_only=True)
class Joint:
    """A joint between a parent and a child body, with options that every joint takes.

    An option is one number for all of the joint's velocity coordinates or one per coordinate; forces act along them, torques [N m] along
    angles and forces [N] along displacements.

    - `damping`: force `-damping * v`.
    - `stiffness`: force `-stiffness * (q - rest)`; `rest` holds coordinates and is the neutral position if not given. For `Spherical` and
      `Free` the deflection of rotations is the rotation vector from `rest`, in the child's axes.
    - `friction`: Coulomb friction `-friction * v / sqrt(v^2 + s^2)`, smoothed over the model's `friction_speed` s.
    - `armature`: inertia of a geared rotor, added to the diagonal of the mass matrix.
    - `limits`: a pair (lower, upper) of a coordinate, None for none; a joint with several coordinates takes a list with a pair or None for
      each. A limit is a stiff stop: d beyond it, entered at the rate d', the force back is `stop_stiffness * d * (1 + stop_damping * d')`
      and never pulls (Hunt and Crossley). It stores the energy `stop_stiffness * d^2 / 2`. `Spherical` and `Free` have no limits.
    """

    damping: Options = 0.0
    stiffness: Options = 0.0
    rest: Options | None = None
    friction: Options = 0.0
    armature: Options = 0.0
    limits: Limits = None
    stop_stiffness: Options = 1e4
    stop_damping: Options = 0.1

    q_labels: ClassVar[tuple[str, ...]] = ("",)
    v_labels: ClassVar[tuple[str, ...]] = ("",)
    q_units: ClassVar[tuple[str, ...]] = ("rad",)
    v_units: ClassVar[tuple[str, ...]] = ("rad/s",)

    def __post_init__(self) -> None:
        for name in ("damping", "stiffness", "friction", "armature", "stop_stiffness", "stop_damping"):
            object.__setattr__(self, name, self._per_rate(name, getattr(self, name)))
        if self.rest is not None:
            object.__setattr__(self, "rest", self._position("rest", self.rest))
        if self.limits is not None:
            object.__setattr__(self, "limits", self._pairs(self.limits))
            if not all(self.stop_stiffness):  # type: ignore[arg-type]
                raise ModelError(f"{self.kind} stop_stiffness {self.stop_stiffness} stops nothing; give numbers above 0, or no limits")

    def __repr__(self) -> str:
        shown = []
        for f in fields(self):
            value = getattr(self, f.name)
            alike = isinstance(value, tuple) and len(set(value)) == 1 and (f.name not in ("rest", "limits") or self.nq == 1)
            plain = value[0] if alike else value
            if plain != f.default and plain != ():
                shown.append(f"{f.name}={plain!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    @property
    def kind(self) -> str:
        """The joint's name in messages and files."""
        return type(self).__name__.lower()

    @property
    def nq(self) -> int:
        """Number of position coordinates."""
        return len(self.q_labels)

    @property
    def nv(self) -> int:
        """Number of velocity coordinates: the degrees of freedom."""
        return len(self.v_labels)

    def options(self) -> dict[str, Any]:
        """Return the options that were given: those that differ from their defaults, as one number where all entries are alike."""
        given = {}
        for option in fields(Joint):
            value = getattr(self, option.name)
            if value != option.default and not (isinstance(value, tuple) and all(entry == option.default for entry in value)):
                given[option.name] = value[0] if isinstance(value, tuple) and len(set(value)) == 1 else value
        return given

    def _per_rate(self, name: str, value: Any) -> tuple[float, ...]:
        what = f"{self.kind} {name}"
        if self.nv == 0 and np.any(np.asarray(value) != Joint.__dataclass_fields__[name].default):
            raise ModelError(f"{what} {value!r}: the joint does not move; leave the option out")
        try:
            entries = [value] * self.nv if np.ndim(value) == 0 else list(value)
        except TypeError:
            entries = [value]
        if len(entries) != self.nv:
            raise ModelError(f"{what} {value!r} has {len(entries)} entries; give one number or {self.nv}")
        return tuple(values.number(what, entry, least=0.0) for entry in entries)

    def _position(self, name: str, value: Any) -> tuple[float, ...]:
        return tuple(values.array(f"{self.kind} {name}", np.atleast_1d(value), (self.nq,)).tolist())

    def _pairs(self, value: Any) -> tuple[tuple[float | None, float | None], ...] | None:
        """Return limits as a pair for each coordinate, or None where there are none at all."""
        what = f"{self.kind} limits {value!r}"
        if self.nq != self.nv:
            raise ModelError(f"{what}: the coordinates are a quaternion, which has no lower and upper end; leave the option out")
        if self.nv == 0:
            raise ModelError(f"{what}: the joint does not move; leave the option out")
        form = "(lower, upper)" if self.nv == 1 else f"{self.nv} pairs (lower, upper), or None, one for each coordinate"
        try:
            entries = list(value)
            if self.nv == 1 and len(entries) == 2:
                entries = [entries]
            pairs = [(None, None) if pair is None else tuple(pair) for pair in entries]
        except TypeError:
            raise ModelError(f"{what} are not pairs; give {form}, None for none") from None
        if len(pairs) != self.nv or any(len(pair) != 2 for pair in pairs):
            raise ModelError(f"{what} do not fit the {self.nv} coordinates; give {form}, None for none")
        result = tuple((self._limit(lower, -np.inf), self._limit(upper, np.inf)) for lower, upper in pairs)
        for lower, upper in result:
            if lower is not None and upper is not None and lower >= upper:
                raise ModelError(f"{what}: lower {lower:g} is not below upper {upper:g}; give the smaller number first")
        return None if all(pair == (None, None) for pair in result) else result

    def _limit(self, value: Any, none: float) -> float | None:
        if value is None or (isinstance(value, (float, np.floating)) and value == none):
            return None
        return values.number(f"{self.kind} limits", value)

    @property
    def lower(self) -> np.ndarray:
        """Lower limits along the velocity coordinates, -inf where there is none."""
        return np.array([-np.inf if low is None else low for low, _ in self.limits or [(None, None)] * self.nv], dtype=float)  # type: ignore[misc]

    @property
    def upper(self) -> np.ndarray:
        """Upper limits along the velocity coordinates, inf where there is none."""
        return np.array([np.inf if high is None else high for _, high in self.limits or [(None, None)] * self.nv], dtype=float)  # type: ignore[misc]

    def neutral(self) -> np.ndarray:
        """Return the coordinates at which the child frame coincides with the joint frame."""
        return np.zeros(self.nq)

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """Return random coordinates: angles within a turn, displacements within 1 m, rotations uniform; or within the limits."""
        spread = np.array([np.pi if unit == "rad" else 1.0 for unit in self.q_units])
        if self.limits is None:
            return rng.uniform(-spread, spread)
        lower, upper = self.lower, self.upper
        between = np.isfinite(lower) & np.isfinite(upper)
        low = np.where(between, lower, np.minimum(np.maximum(-spread, lower), upper - spread))
        high = np.where(between, upper, np.maximum(np.minimum(spread, upper), lower + spread))
        return rng.uniform(low, high)

    def integrate(self, q: Any, dv: Any) -> Any:
        """Return the coordinates reached from q by moving with the rates dv for a unit of time; leading axes broadcast."""
        return q + dv

    def difference(self, q0: Any, q1: Any) -> Any:
        """Return the rates that lead from q0 to q1 in a unit of time; leading axes broadcast."""
        return q1 - q0

    def normalised(self, q: Any) -> Any:
        """Return the coordinates with a quaternion at length 1; leading axes broadcast."""
        return q

    def chart(self, q: Any, u: Any) -> Any:
        """Return the position with the local coordinates u around q; leading axes broadcast."""
        return q + u

    def chart_rate(self, q: Any, u: Any, v: Any) -> Any:
        """Return the rate of the local coordinates u at the velocity v, where q is the position they stand for."""
        return v

    def rate(self, q: Any, v: Any) -> Any:
        """Return dq/dt at the velocity v; leading axes broadcast."""
        return v

    def velocity(self, q: Any, rate: Any) -> Any:
        """Return the velocity at which the position q changes at a rate: what `rate` undoes; for any scalar."""
        return rate

    def cayley(self, q: Any, u: Any) -> Any:
        """Return the position with the Cayley coordinates u around q; leading axes broadcast."""
        return q + u

    def cayley_velocity(self, q: Any, u: Any, rate: Any) -> Any:
        """Return the velocity v at which the Cayley coordinates u change at a rate, where q is the position they stand for."""
        return rate

    def cayley_momentum(self, q: Any, u: Any, p: Any) -> Any:
        """Return the momenta conjugate to the Cayley coordinates u, where p are conjugate to v and q is the position they stand for."""
        return p

    def outside(self, q: Any, p: Any) -> Any:
        """Return the momenta p as they are seen from the parent, in axes that do not turn with the joint."""
        return p

    def inside(self, q: Any, p: Any) -> Any:
        """Return the momenta of which p is seen from the parent."""
        return p

    def motion(self) -> Motion:
        """Return what the joint does to frames."""
        raise NotImplementedError


def _frame(axis: tuple[float, float, float]) -> np.ndarray:
    """Return a rotation whose z axis is the given direction; for z, x and y it permutes the axes."""
    z = np.array(axis)
    largest = int(np.argmax(np.abs(z)))
    x = np.zeros(3)
    x[(largest + 1) % 3] = 1.0
    x = x - (x @ z) * z
    x = x / np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


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
        frame = _frame(self.axis)
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


def _unit_quaternion(what: str, q: Any) -> tuple[float, ...]:
    size = float(np.linalg.norm(q))
    if abs(size - 1.0) > 1e-6:
        raise ModelError(f"{what} {tuple(q)} has length {size:.6g}; give a unit quaternion (w, x, y, z)")
    return tuple(values.normalised(np.asarray(q)).tolist())


def _random_quaternion(rng: np.random.Generator) -> np.ndarray:
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


@dataclass(frozen=True, repr=False)
class Spherical(Joint):
    """A ball joint: q is a unit quaternion (w, x, y, z), child to parent; v is the angular velocity in the child's axes [rad/s].

    A quaternion of another length stands for the same rotation; `m.normalised(q)` brings it to 1.

    >>> ct.Spherical().neutral()
    array([1., 0., 0., 0.])
    """

    q_labels = ("qw", "qx", "qy", "qz")
    v_labels = ("wx", "wy", "wz")
    q_units = ("", "", "", "")
    v_units = ("rad/s", "rad/s", "rad/s")

    def __post_init__(self) -> None:
        super().__post_init__()
        _isotropic("spherical", self.stiffness, {"rotation": slice(0, 3)})
        if self.rest is not None:
            object.__setattr__(self, "rest", _unit_quaternion("spherical rest", self.rest))

    def neutral(self) -> np.ndarray:
        return np.array([1.0, 0.0, 0.0, 0.0])

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return _random_quaternion(rng)

    def integrate(self, q: Any, dv: Any) -> Any:
        return integrate_rotation(q, dv)

    def difference(self, q0: Any, q1: Any) -> Any:
        return difference_rotation(q0, q1)

    def normalised(self, q: Any) -> Any:
        return q / np.linalg.norm(q, axis=-1, keepdims=True)

    def chart(self, q: Any, u: Any) -> Any:
        return integrate_rotation(q, u)

    def chart_rate(self, q: Any, u: Any, v: Any) -> Any:
        return rotation_rate(u, v)

    def rate(self, q: Any, v: Any) -> Any:
        return quaternion_rate(q, v)

    def velocity(self, q: Any, rate: Any) -> Any:
        return 2.0 * quaternion_product(quaternion_inverse(q), rate)[1:]

    def cayley(self, q: Any, u: Any) -> Any:
        return cayley_rotation(q, u)

    def cayley_velocity(self, q: Any, u: Any, rate: Any) -> Any:
        return cayley_velocity(u, rate)

    def cayley_momentum(self, q: Any, u: Any, p: Any) -> Any:
        return cayley_momentum(u, p)

    def outside(self, q: Any, p: Any) -> Any:
        return turned(q, p)

    def inside(self, q: Any, p: Any) -> Any:
        return turned(quaternion_inverse(q), p)

    def motion(self) -> Motion:
        return SphericalMotion()


@dataclass(frozen=True, repr=False)
class Free(Joint):
    """No constraint: q = (x, y, z, w, qx, qy, qz), v = (angular, linear) body twist in the child's axes.

    >>> ct.Free().nq, ct.Free().nv
    (7, 6)
    """

    q_labels = ("x", "y", "z", "qw", "qx", "qy", "qz")
    v_labels = ("wx", "wy", "wz", "vx", "vy", "vz")
    q_units = ("m", "m", "m", "", "", "", "")
    v_units = ("rad/s", "rad/s", "rad/s", "m/s", "m/s", "m/s")

    def __post_init__(self) -> None:
        super().__post_init__()
        _isotropic("free", self.stiffness, {"rotation": slice(0, 3), "translation": slice(3, 6)})
        if self.rest is not None:
            rest = tuple(self.rest)  # type: ignore[arg-type]
            object.__setattr__(self, "rest", (*rest[:3], *_unit_quaternion("free rest", rest[3:])))

    def neutral(self) -> np.ndarray:
        return np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return np.concatenate([rng.uniform(-1.0, 1.0, 3), _random_quaternion(rng)])

    def integrate(self, q: Any, dv: Any) -> Any:
        return integrate_pose(q, dv)

    def difference(self, q0: Any, q1: Any) -> Any:
        return difference_pose(q0, q1)

    def normalised(self, q: Any) -> Any:
        return np.concatenate([q[..., :3], q[..., 3:] / np.linalg.norm(q[..., 3:], axis=-1, keepdims=True)], axis=-1)

    def chart(self, q: Any, u: Any) -> Any:
        return np.concatenate([q[..., :3] + u[..., 3:], integrate_rotation(q[..., 3:], u[..., :3])], axis=-1)

    def chart_rate(self, q: Any, u: Any, v: Any) -> Any:
        return np.concatenate([rotation_rate(u[..., :3], v[..., :3]), turned(q[..., 3:], v[..., 3:])], axis=-1)

    def rate(self, q: Any, v: Any) -> Any:
        return np.concatenate([turned(q[..., 3:], v[..., 3:]), quaternion_rate(q[..., 3:], v[..., :3])], axis=-1)

    def velocity(self, q: Any, rate: Any) -> Any:
        turning = 2.0 * quaternion_product(quaternion_inverse(q[3:]), rate[3:])[1:]
        return np.concatenate([turning, rotation(q[3:]).T @ rate[:3]])

    def cayley(self, q: Any, u: Any) -> Any:
        return np.concatenate([q[..., :3] + u[..., 3:], cayley_rotation(q[..., 3:], u[..., :3])], axis=-1)

    def cayley_velocity(self, q: Any, u: Any, rate: Any) -> Any:
        shift = turned(quaternion_inverse(q[..., 3:]), rate[..., 3:])
        return np.concatenate([cayley_velocity(u[..., :3], rate[..., :3]), shift], axis=-1)

    def cayley_momentum(self, q: Any, u: Any, p: Any) -> Any:
        return np.concatenate([cayley_momentum(u[..., :3], p[..., :3]), turned(q[..., 3:], p[..., 3:])], axis=-1)

    def outside(self, q: Any, p: Any) -> Any:
        return np.concatenate([turned(q[..., 3:], p[..., :3]), turned(q[..., 3:], p[..., 3:])], axis=-1)

    def inside(self, q: Any, p: Any) -> Any:
        inverse = quaternion_inverse(q[..., 3:])
        return np.concatenate([turned(inverse, p[..., :3]), turned(inverse, p[..., 3:])], axis=-1)

    def motion(self) -> Motion:
        return FreeMotion()


def _isotropic(kind: str, stiffness: Any, parts: dict[str, slice]) -> None:
    for name, where in parts.items():
        if len(set(stiffness[where])) > 1:
            raise ModelError(
                f"{kind} stiffness {stiffness} differs between the axes of the {name}, which has no potential; "
                "give one value for all three"
            )


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
class Custom(Joint):
    """A joint from a function of its coordinates: `function(q)` returns the child's pose in the joint frame.

    The pose is a 4 x 4 matrix or a pair (R, p), written with NumPy on the `coordinates` entries of q; catena differentiates it. The
    velocity coordinates are the rates of q.

    >>> cam = ct.Custom(lambda q: (np.eye(3), np.array([q[0], 0.1 * np.sin(q[0]), 0.0])), coordinates=1)
    >>> cam.nv
    1
    """

    function: Callable[[Any], Any] = lambda q: np.eye(4)
    coordinates: int | Sequence[str] = 1

    def __post_init__(self) -> None:
        if isinstance(self.coordinates, (int, np.integer)):
            names = [""] if self.coordinates == 1 else [f"q{i}" for i in range(self.coordinates)]
        else:
            names = list(map(str, self.coordinates)) if isinstance(self.coordinates, (tuple, list)) else []
        if not 1 <= len(names) <= 6 or len(set(names)) != len(names):
            raise ModelError(f"custom coordinates {self.coordinates!r}: give their number, 1 to 6, or as many different names")
        object.__setattr__(self, "coordinates", tuple(names))
        super().__post_init__()
        self._check()

    def _check(self) -> None:
        """Refuse a function that gives no rigid placement or does not move with each coordinate."""
        rng = np.random.default_rng(0)
        for q in (rng.uniform(-0.5, 0.5, self.nq) for _ in range(3)):
            try:
                value = self.function(q)
                pose = as_rigid(value)
                R, p = np.asarray(pose.R, dtype=float), np.asarray(pose.p, dtype=float)
                if value is not pose and not isinstance(value, tuple) and not np.array_equal(np.asarray(value)[3:], [[0, 0, 0, 1]]):
                    raise ValueError(f"{np.asarray(value).tolist()} does not end in the row (0, 0, 0, 1)")
            except Exception as error:
                raise ModelError(f"custom function failed at q = {q.tolist()}: {error}; return a 4 x 4 matrix or a pair (R, p)") from error
            if R.shape != (3, 3) or p.shape != (3,) or not (np.isfinite(R).all() and np.isfinite(p).all()):
                raise ModelError(
                    f"custom function at q = {q.tolist()} gives R {R.tolist()}, p {p.tolist()}; return a 4 x 4 matrix or a pair (R, p)"
                )
            if np.abs(R @ R.T - np.eye(3)).max() > 1e-9 or np.linalg.det(R) < 0.0:
                raise ModelError(f"custom function at q = {q.tolist()} gives R {R.tolist()}, which is not a rotation; make R orthonormal")
            try:
                S = np.asarray(self.motion().matrix(q), dtype=float)
                self.motion().bias(q, np.ones(self.nv))
                self.motion().placement(Trace("custom").input("q", (self.nq,)))
            except Exception as error:
                raise ModelError(
                    f"custom function has no derivative at q = {q.tolist()}: {error}; "
                    "write it with arithmetic and NumPy's functions, without math, float() or `if` on q"
                ) from error
            if np.linalg.matrix_rank(S, tol=1e-9) < self.nv:
                raise ModelError(
                    f"custom function: at q = {q.tolist()} its {self.nv} coordinates do not move the child independently; use fewer"
                )

    @property
    def q_labels(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.coordinates  # type: ignore[return-value]

    @property
    def v_labels(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.coordinates  # type: ignore[return-value]

    @property
    def q_units(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("",) * len(self.coordinates)  # type: ignore[arg-type]

    @property
    def v_units(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("",) * len(self.coordinates)  # type: ignore[arg-type]

    def motion(self) -> Motion:
        return CustomMotion(function=self.function)


#: Every joint type, by its name in files.
JOINTS: dict[str, type[Joint]] = {
    kind.__name__.lower(): kind
    for kind in (Revolute, Prismatic, Helical, Cylindrical, Universal, Planar, Spherical, Free, Fixed, Custom)
}

