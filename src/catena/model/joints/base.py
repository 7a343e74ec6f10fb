"""What all joints share: their options, and how their coordinates move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from catena.errors import ModelError
from catena.model import values
from catena.model.motions import Motion
from catena.scalars.expression import expressed

Options = float | Sequence[float]
Pair = Sequence[float | None]
Limits = Pair | Sequence[Pair | None] | None

#: Options of which there is one number for each velocity coordinate.
_PER_RATE = ("damping", "stiffness", "friction", "armature", "stop_stiffness", "stop_damping")


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
    - `effort`: the largest force of the joint's motor. Joint forces act as they are given; actuators and `catena.environments` keep to it.
    - `velocity`: the largest speed of the joint, which nothing enforces. `ct.excitation` keeps to it, and `run.exceeded()` tells where a
      run goes beyond it, or beyond `limits` and `effort`.
    """

    damping: Options = 0.0
    stiffness: Options = 0.0
    rest: Options | None = None
    friction: Options = 0.0
    armature: Options = 0.0
    limits: Limits = None
    stop_stiffness: Options = 1e4
    stop_damping: Options = 0.1
    effort: Options | None = None
    velocity: Options | None = None

    tied: ClassVar[Mapping[str, Any]] = {}  # expressions that the options of a joint follow, by name

    q_labels: ClassVar[tuple[str, ...]] = ("",)
    v_labels: ClassVar[tuple[str, ...]] = ("",)
    q_units: ClassVar[tuple[str, ...]] = ("rad",)
    v_units: ClassVar[tuple[str, ...]] = ("rad/s",)

    def __post_init__(self) -> None:
        if self.nq != self.nv and expressed(self.rest):
            raise ModelError(f"{self.kind} rest {self.rest!r} cannot follow parameters, for it is a quaternion; take their .value")
        values.take(self, *_PER_RATE, "rest")
        for name in _PER_RATE:
            object.__setattr__(self, name, self._per_rate(name, getattr(self, name)))
        if self.rest is not None:
            rest = values.array(f"{self.kind} rest", np.atleast_1d(self.rest), (self.nq,))
            object.__setattr__(self, "rest", tuple(rest.tolist()))
        for name, none in (("effort", "a motor without force moves nothing"), ("velocity", "a joint without speed does not move")):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, self._largest(name, getattr(self, name), none))
        if self.limits is not None:
            object.__setattr__(self, "limits", self._pairs(self.limits))
            if not all(self.stop_stiffness):  # type: ignore[arg-type]
                raise ModelError(f"{self.kind} stop_stiffness {self.stop_stiffness} stops nothing; give numbers above 0, or no limits")

    def __repr__(self) -> str:
        shown = {f.name: plain for f in fields(self) if (plain := self.plain(f.name)) != f.default and plain != ()}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def plain(self, name: str) -> Any:
        """Return a parameter or an option as it may be written: as one number where it is one for all coordinates."""
        value = getattr(self, name)
        alike = isinstance(value, tuple) and len(set(value)) == 1 and (name not in ("rest", "limits") or self.nq == 1)
        return value[0] if alike else value

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
        """Return the options that were given: those that differ from their defaults, as they may be written."""
        return {option.name: plain for option in fields(Joint) if (plain := self.plain(option.name)) != option.default and plain != ()}

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

    def _largest(self, name: str, value: Any, none: str) -> tuple[float, ...]:
        if self.nv == 0:
            raise ModelError(f"{self.kind} {name} {value!r}: the joint does not move; leave the option out")
        largest = self._per_rate(name, value)
        if not all(largest):
            raise ModelError(f"{self.kind} {name} {value!r}: {none}; give numbers above 0, or leave it out")
        return largest

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

    @property
    def most_effort(self) -> np.ndarray:
        """The largest forces of motors along the velocity coordinates, inf where there is no limit."""
        return np.full(self.nv, np.inf) if self.effort is None else np.array(self.effort, dtype=float)

    @property
    def most_velocity(self) -> np.ndarray:
        """The largest speeds along the velocity coordinates, inf where there is no limit."""
        return np.full(self.nv, np.inf) if self.velocity is None else np.array(self.velocity, dtype=float)

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

    # how positions move, as `Coordinates` describes it for all joints together; leading axes broadcast

    def integrate(self, q: Any, dv: Any) -> Any:
        return q + dv

    def difference(self, q0: Any, q1: Any) -> Any:
        return q1 - q0

    def normalised(self, q: Any) -> Any:
        return q

    def chart(self, q: Any, u: Any) -> Any:
        return q + u

    def chart_rate(self, q: Any, u: Any, v: Any) -> Any:
        return v

    def rate(self, q: Any, v: Any) -> Any:
        return v

    def velocity_of(self, q: Any, rate: Any) -> Any:
        """Return the velocity at which the position q changes at a rate: what `rate` undoes; for any scalar."""
        return rate

    def cayley(self, q: Any, u: Any) -> Any:
        return q + u

    def cayley_velocity(self, q: Any, u: Any, rate: Any) -> Any:
        return rate

    def cayley_momentum(self, q: Any, u: Any, p: Any) -> Any:
        return p

    def momentum_in_parent_axes(self, q: Any, p: Any) -> Any:
        return p

    def momentum_in_child_axes(self, q: Any, p: Any) -> Any:
        return p

    def check(self) -> None:
        """Refuse a joint whose function makes none, with the values of parameters that are in place."""

    def motion(self) -> Motion:
        """Return what the joint does to frames."""
        raise NotImplementedError
