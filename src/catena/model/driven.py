"""Driven joints: their coordinates are a given function of time, and the force that this takes is a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.graph import Graph, Trace
from catena.model import values
from catena.model.joints import Joint
from catena.model.manifolds import unit
from catena.model.motions import DrivenMotion, Given, Motion
from catena.model.untraceable import place
from catena.model.user_functions import Role
from catena.scalars import expression
from catena.scalars.dual import Dual, part

_CHANCE = "draw random numbers before, and write np.interp(t, times, values) for a table of them"
_SMOOTH = "give a function that is finite there, with two derivatives"


@dataclass(frozen=True, repr=False, init=False)
class Driven(Joint):
    """A joint that is driven: its coordinates are `motion(t)`, a function of the time [s], and none are left in q, v and tau.

    `joint` is any joint with coordinates. The function returns one number, or as many as the joint has positions; it is traced, and
    differentiated twice. A quaternion is brought to length 1. Options belong to `joint`: they do not change the motion, but the force that
    it takes, which `ct.driving_forces` computes.

    >>> m = ct.Model("crane")
    >>> m.add("trolley", ct.point_mass(50.0), ct.Driven(ct.Prismatic("x"), lambda t: 0.5 * np.sin(2.0 * t)))
    >>> m.add("load", ct.point_mass(10.0, at=(0, 0, -3)), ct.Revolute("y"), parent="trolley")
    >>> m.q_names, m.driven_names
    (('load',), ('trolley',))
    >>> ct.forward_dynamics(m)(0.25, [0.0], [0.0], [0.0]).round(4)
    array([-0.3196])
    """

    joint: Joint
    function: Callable[[Any], Any]
    q_labels = v_labels = q_units = v_units = ()

    def __init__(self, joint: Joint, motion: Callable[[Any], Any]) -> None:
        if not isinstance(joint, Joint) or type(joint) is Joint:
            raise ModelError(f"driven joint {joint!r} is not a joint; give one such as ct.Revolute('z')")
        if not joint.nv:
            raise ModelError(f"driven joint {joint!r} has no coordinates to be driven; give one that has, such as ct.Revolute('z')")
        if not callable(motion):
            raise ModelError(f"driven motion {motion!r} is not a function; give a function of the time, such as lambda t: 0.1 * np.sin(t)")
        object.__setattr__(self, "joint", joint)
        object.__setattr__(self, "function", motion)
        object.__setattr__(self, "tied", joint.tied)
        super().__post_init__()
        self.check()

    def __repr__(self) -> str:
        return f"Driven({self.joint!r}, {self.function!r})"

    def check(self) -> None:
        """Refuse a function that does not give the joint's coordinates, is not smooth at t = 0, or cannot be traced."""
        self.joint.check()
        self._role.check_signature(self.function)
        try:
            with np.errstate(all="ignore"):
                self._coordinates(0.0)
                given = [np.asarray(x, dtype=float) for x in self.given(0.0)]
        except (ArithmeticError, ModelError) as error:
            cause = error.__cause__ if isinstance(error, ModelError) else error  # of a derivative
            if not isinstance(cause, ArithmeticError):
                raise
            raise ModelError(f"driven motion at t = 0: {type(cause).__name__}: {cause}; {_SMOOTH}{place(cause)}") from cause
        for what, value in zip(("coordinates", "velocities", "accelerations"), given, strict=True):
            if not np.isfinite(value).all():
                raise ModelError(f"driven motion gives {what} {value.tolist()} at t = 0; {_SMOOTH}")
        self._role.repeated(self.function, self._graph)

    def _graph(self) -> Graph:
        trace = Trace("driven motion")
        return trace.graph(**self.given(trace.input("t"))._asdict())

    @property
    def _role(self) -> Role:
        """What the function is to be."""
        nq = self.joint.nq
        returns = "one number" if nq == 1 else f"{nq} numbers: {', '.join(self.joint.q_labels)}"
        shapes = ((nq,), ()) if nq == 1 else ((nq,),)
        return Role("driven motion", {"t": None}, returns, shapes, ModelError, ModelError, marked=False, chance=_CHANCE)

    def _coordinates(self, t: Any) -> Any:
        """Return the coordinates at a time, of any scalar."""
        with expression.values({}):
            x = np.array(self._role.value(self.function, t), dtype=object).reshape(-1)
        return x if self.joint.nq == self.joint.nv else np.concatenate([x[:-4], unit(x[-4:])])

    def given(self, t: Any) -> Given:
        """Return the joint's coordinates, velocities and accelerations at a time, of any scalar."""
        now = t[()] if isinstance(t, np.ndarray) else t  # NumPy would make an array of a Dual
        x = self._coordinates(Dual(Dual(now, 1.0), Dual(1.0, 0.0)))
        q, rate = part(x, "value"), part(x, "derivative")  # each with its derivative
        v = self.joint.velocity_of(q, rate)
        return Given(part(q, "value"), part(v, "value"), part(v, "derivative"))

    def motion(self) -> Motion:
        free = self.joint.motion()
        assert not isinstance(free, DrivenMotion)
        return DrivenMotion(free, self.given)


@dataclass(frozen=True)
class Harmonic:
    """A motion for `Driven`: offset + rate t + amplitude sin(frequency t + phase), which model files can hold.

    Each is one number, or one for each position of the joint: [rad] or [m], rates per second, and `frequency` in rad/s.

    >>> ct.Driven(ct.Revolute("y"), ct.Harmonic(offset=0.1, rate=6.28))
    Driven(Revolute(axis=(0.0, 1.0, 0.0)), Harmonic(offset=0.1, rate=6.28))
    """

    offset: float | Sequence[float] = 0.0
    rate: float | Sequence[float] = 0.0
    amplitude: float | Sequence[float] = 0.0
    frequency: float | Sequence[float] = 0.0
    phase: float | Sequence[float] = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            what = f"harmonic {field.name}"
            many = isinstance(value, (list, tuple, np.ndarray)) and np.ndim(value) > 0
            plain = tuple(values.array(what, value, (len(value),)).tolist()) if many else values.number(what, value)
            object.__setattr__(self, field.name, plain)
        if len({len(x) for x in self._parts() if isinstance(x, tuple)}) > 1:
            raise ModelError(f"{self!r} has parts of different lengths; give one number, or one for each position of the joint")

    def __repr__(self) -> str:
        return f"Harmonic({', '.join(f'{name}={value!r}' for name, value in self.given().items())})"

    def _parts(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))

    def given(self) -> dict[str, Any]:
        """Return the parts that are not zero, by name."""
        return {field.name: part for field, part in zip(fields(self), self._parts(), strict=True) if np.any(part)}

    def __call__(self, t: Any) -> Any:
        """Return the coordinates at a time."""
        if not any(isinstance(part, tuple) for part in self._parts()):
            return _harmonic(t, *self._parts())
        return [_harmonic(t, *part) for part in zip(*np.broadcast_arrays(*self._parts()), strict=True)]


def _harmonic(t: Any, offset: float, rate: float, amplitude: float, frequency: float, phase: float) -> Any:
    return float(offset) + float(rate) * t + float(amplitude) * np.sin(float(frequency) * t + float(phase))


def undriven(joint: Joint) -> Joint:
    """Return the joint that a driven one drives, free to move; other joints as they are."""
    return joint.joint if isinstance(joint, Driven) else joint
