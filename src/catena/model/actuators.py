"""Actuators: what turns controls into joint forces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.errors import ArgumentError, ModelError
from catena.graph import maximum, minimum, where
from catena.model import values
from catena.model.user_functions import Role, Wrapped
from catena.scalars.expression import settled, within

if TYPE_CHECKING:
    from catena.model.coordinates import Coordinates
    from catena.model.mechanism import Mechanism

Pair = tuple[float, float]


@dataclass(frozen=True)
class Actuator:
    """An actuator of coordinates: a control u becomes joint forces, `gear * force` along each of its coordinates.

    Its length is the sum of gear times coordinate, and the force is affine in length and rate, within `force_limits`:
    `force = (gain . (1, length, rate)) * u + bias . (1, length, rate)`. Controls beyond `control_limits` count as these limits.
    """

    name: str
    coefficients: tuple[tuple[str, float], ...]  # coordinate, gear
    gain: tuple[float, ...] = (1.0, 0.0, 0.0)
    bias: tuple[float, ...] = (0.0, 0.0, 0.0)
    control_limits: Pair | None = None
    force_limits: Pair | None = None

    def force(self, length: Any, rate: Any, u: Any) -> Any:
        """Return the force at a length, its rate and a control, of any scalar."""
        (g, g1, g2), (b, b1, b2) = self.gain, self.bias
        u = _within(u, self.control_limits)
        return _within((g + g1 * length + g2 * rate) * u + (b + b1 * length + b2 * rate), self.force_limits)

    def slopes(self, length: Any, rate: Any, u: Any, bounds: bool) -> tuple[Any, Any]:
        """Return how fast the force falls with length and rate, none negative.

        Beyond the limits of the force these are 0; as `bounds`, by which long steps do not overshoot, secants from where there is no force.
        """
        (g, g1, g2), (b, b1, b2) = self.gain, self.bias
        u = _within(u, self.control_limits)
        part: Any = 1.0
        if self.force_limits is not None:
            force = (g + g1 * length + g2 * rate) * u + (b + b1 * length + b2 * rate)
            low, high = min(self.force_limits[0], 0.0), max(self.force_limits[1], 0.0)
            above, below = force > high, force < low
            part = where(above, high / where(above, force, 1.0), where(below, low / where(below, force, -1.0), 1.0))
            part = part if bounds else where(part < 1.0, 0.0, 1.0)
        return part * maximum(0.0, -(g1 * u + b1)), part * maximum(0.0, -(g2 * u + b2))


def _within(x: Any, limits: Pair | None) -> Any:
    return x if limits is None else minimum(maximum(x, limits[0]), limits[1])


def actuator(
    name: str, of: Any, gear: Any, gain: Any, bias: Any, kp: Any, kv: Any, control_limits: Any, force_limits: Any
) -> Actuator:  # fmt: skip
    """Return a checked actuator; which coordinates there are is not asked."""
    what = f"actuator '{name}'"
    if isinstance(of, Mapping):
        gears = {key: values.number(f"{what}: gear of '{key}'", value) for key, value in of.items()}
        if gear is not None:
            raise ModelError(f"{what}: gear {gear!r} is given with gears {of!r}; give one of them")
    else:
        gears = {of: 1.0 if gear is None else values.number(f"{what}: gear", gear)}
    if not gears or not all(gears.values()):
        raise ModelError(f"{what}: {gears!r} moves nothing; give coordinates with gears that are not 0, such as {{'elbow': 1.0}}")
    if kp is not None or kv is not None:
        if gain is not None or bias is not None:
            raise ModelError(f"{what}: kp and kv say the gain and the bias already; give either kp and kv, or gain and bias")
        damping = 0.0 if kv is None else values.number(f"{what}: kv", kv, least=0.0)
        stiffness = 0.0 if kp is None else values.number(f"{what}: kp", kp, least=0.0)
        gain, bias = (damping if kp is None else stiffness, 0.0, 0.0), (0.0, -stiffness, -damping)
    limits = {"control_limits": _pair(what, "control_limits", control_limits), "force_limits": _pair(what, "force_limits", force_limits)}
    return Actuator(name, tuple(gears.items()), _three(what, "gain", gain, 1.0), _three(what, "bias", bias, 0.0), **limits)


def _three(what: str, key: str, value: Any, default: float) -> tuple[float, ...]:
    """Return the numbers of a gain or bias: a constant, and by length and rate."""
    if value is None or np.ndim(value) == 0:
        return (default if value is None else values.number(f"{what}: {key}", value), 0.0, 0.0)
    return tuple(values.array(f"{what}: {key}", value, (3,)).tolist())


def _pair(what: str, key: str, value: Any) -> Pair | None:
    if value is None:
        return None
    lower, upper = values.array(f"{what}: {key}", value, (2,)).tolist()
    if lower >= upper:
        raise ModelError(f"{what}: {key} {value!r}: {lower:g} is not below {upper:g}; give the smaller number first")
    return lower, upper


def check_coordinates(made: Actuator, m: Coordinates) -> None:
    """Refuse an actuator of what is not a coordinate, or not a plain number."""
    for name, _ in made.coefficients:
        if name not in m.coordinate_places:
            plain = ", ".join(repr(known) for known, (joint, *_) in m.coordinate_places.items() if joint.nq == joint.nv)
            raise ModelError(f"actuator '{made.name}': {name!r} is not a coordinate of model '{m.name}'; choose from {plain or 'no names'}")
        joint = m.coordinate_places[name][0]
        if joint.nq != joint.nv:
            raise ModelError(
                f"actuator '{made.name}': '{name}' is a coordinate of a {joint.kind} joint, whose positions are not plain numbers; "
                "give joint forces as tau, or by m.add_force"
            )


@dataclass(frozen=True)
class Actuation:
    """The joint forces of all actuators of a mechanism: those of one coordinate are added, and limited by the `effort` of its joint."""

    actuators: tuple[Actuator, ...]
    places: tuple[tuple[tuple[int, int, float], ...], ...]  # of each actuator: position, velocity, gear
    effort: tuple[float, ...]

    @staticmethod
    def of(m: Mechanism, what: str) -> Actuation:
        """Return the actuation of a mechanism; `what` needs it is named where there is none."""
        if not m.actuators:
            raise ArgumentError(f"{what}: model '{m.name}' has no actuators that take controls; add some by m.add_actuator")
        places = [[(*m.coordinate_places[name][1:], gear) for name, gear in one.coefficients] for one in m.actuators]
        effort = [most for link in m.links for most in link.joint.most_effort.tolist()]
        return Actuation(m.actuators, tuple(map(tuple, places)), tuple(effort))

    def forces(self, q: Any, v: Any, u: Any) -> Any:
        """Return the joint forces at a state and controls, of any scalar."""
        tau: list[Any] = [0.0] * len(self.effort)
        for one, places, control in zip(self.actuators, self.places, settled(u), strict=True):
            length = sum((gear * q[at] for at, _, gear in places), 0.0)
            rate = sum((gear * v[at] for _, at, gear in places), 0.0)
            force = one.force(length, rate, control)
            for _, at, gear in places:
                tau[at] = tau[at] + gear * force
        moved = {at for places in self.places for _, at, _ in places}
        for at in moved:
            if np.isfinite(most := self.effort[at]):
                tau[at] = _within(tau[at], (-most, most))
        return np.array(tau, dtype=None if all(isinstance(x, float) for x in tau) else object)


    def slopes(self, q: Any, v: Any, u: Any, bounds: bool = False) -> tuple[Any, Any]:
        """Return how fast joint forces fall with positions and with velocities: of actuators of several coordinates, a diagonal bound."""
        found: tuple[list[Any], list[Any]] = ([0.0] * len(self.effort), [0.0] * len(self.effort))
        for one, places, control in zip(self.actuators, self.places, settled(u), strict=True):
            length = sum((gear * q[at] for at, _, gear in places), 0.0)
            rate = sum((gear * v[at] for _, at, gear in places), 0.0)
            gears = sum(abs(gear) for *_, gear in places)
            for slope, by in zip(one.slopes(length, rate, control, bounds), found, strict=True):
                for _, at, gear in places:
                    by[at] = by[at] + abs(gear) * gears * slope
        by_position, by_velocity = (np.array(by, dtype=None if all(isinstance(x, float) for x in by) else object) for by in found)
        return by_position, by_velocity

    def holding(self, q: Any) -> np.ndarray:
        """Return the controls by which no actuator has a force at rest at q, or the least that its limits allow: servos of position hold
        q, motors and servos of velocity have 0.
        """
        found = []
        for one, places in zip(self.actuators, self.places, strict=True):
            length = sum(gear * q[at] for at, _, gear in places)
            (g, g1, _), (b, b1, _) = one.gain, one.bias
            gain, bias = g + g1 * length, b + b1 * length
            found.append(_within(-bias / gain if bias and gain else 0.0, one.control_limits))
        return np.array(found, dtype=float)


@dataclass(frozen=True)
class Actuated(Wrapped):
    """A controller of controls as one of joint forces: a function of (t, q, v)."""

    actuation: Actuation
    function: Any
    role: Role

    def __call__(self, t: Any, q: Any, v: Any) -> Any:
        return self.actuation.forces(q, v, self.given(t, q, v))

    def given(self, t: Any, q: Any, v: Any) -> Any:
        """Return the controls."""
        return self.role.value(self.function, t, q, v)


@dataclass(frozen=True)
class Controlled:
    """A function of (t, q, v): the joint forces of actuators at controls that are parameters of the mechanism."""

    actuation: Actuation
    controls: Any

    def __call__(self, t: Any, q: Any, v: Any) -> Any:
        return self.actuation.forces(q, v, self.controls)

    def given(self, t: Any, q: Any, v: Any) -> Any:
        """Return the controls."""
        return self.controls


def acting(m: Mechanism, controller: Any) -> Actuated | Controlled | None:
    """Return what gives the actuators of a mechanism their controls in a run: its controller, or a parameter; None where they rest."""
    for function in (controller, *(force.function for force in m.forces)):
        while isinstance(function, within):
            function = function.function
        if isinstance(function, (Actuated, Controlled)):
            return function
    return None
