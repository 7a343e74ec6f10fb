"""Forces beyond those of the joints: springs and bushings between bodies, and forces from functions of the state, or of where they act."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from catena.errors import ModelError
from catena.graph import Trace
from catena.model import values
from catena.model.pose import Pose
from catena.model.user_functions import Role, Wrapped, joint_forces, own_array, plain, python
from catena.scalars import expression

#: The numbers of springs and of bushings that are parameters, with their units.
SPRING_NUMBERS = {"stiffness": "N/m", "damping": "N s/m", "length": "m", "cubic": "N/m^3"}
BUSHING_NUMBERS = {"stiffness": "N/m", "damping": "N s/m", "turning_stiffness": "N m/rad", "turning_damping": "N m s/rad"}


@dataclass(frozen=True)
class Spring:
    """A spring with a damper between a point of body a and a point of body b, each in its body's frame [m].

    It pulls the points together with the force `stiffness * s + cubic * s**3 + damping * rate` at the stretch s = distance - length, the
    rate being that of the distance. One that may go `slack` never pushes: it pulls where s is positive, its damper by no more than the
    rest of it.
    """

    name: str
    a: str
    b: str
    at_a: Any
    at_b: Any
    stiffness: float
    damping: float
    length: float
    cubic: float = 0.0
    slack: bool = False
    tied: ClassVar[Mapping[str, Any]] = {}  # expressions that its numbers follow, by name

    def __post_init__(self) -> None:
        values.take(self, "at_a", "at_b", *SPRING_NUMBERS)
        for key in ("at_a", "at_b"):
            object.__setattr__(self, key, tuple(values.array(f"spring '{self.name}': {key}", getattr(self, key), (3,)).tolist()))
        for key in SPRING_NUMBERS:
            object.__setattr__(self, key, values.number(f"spring '{self.name}': {key}", getattr(self, key), least=0.0))
        if not isinstance(self.slack, bool):
            raise ModelError(f"spring '{self.name}': slack {self.slack!r} is neither True nor False; give one of them")
        if not self.stiffness and not self.damping and not self.cubic:
            raise ModelError(f"spring '{self.name}': stiffness and damping are 0, so that it does nothing; give one of them")
        if self.slack and not self.stiffness and not self.cubic:
            raise ModelError(f"spring '{self.name}': the damper of one that may go slack pulls no more than its spring; give a stiffness")


@dataclass(frozen=True)
class Bushing:
    """A bushing between a frame of body a and a frame of body b: stiffness and damping along and about the axes of the frame on a.

    With d the place of b's frame in a's, and u its rotation vector there, angle times axis, its energy is that of springs at d and at u, so
    that about one axis the moment is linear in the angle. u is the shortest such vector: at half a turn the moment changes its sign, and
    beyond, it pulls back the other way round.
    """

    name: str
    a: str
    b: str
    at_a: Pose
    at_b: Pose
    stiffness: Any
    damping: Any
    turning_stiffness: Any
    turning_damping: Any
    tied: ClassVar[Mapping[str, Any]] = {}  # expressions that its numbers follow, by name

    def __post_init__(self) -> None:
        what = f"bushing '{self.name}'"
        values.take(self, *BUSHING_NUMBERS)
        for key in BUSHING_NUMBERS:
            given = values.floats(f"{what}: {key}", getattr(self, key), "give one number, or one for each axis", ModelError)
            if given.shape not in ((), (3,)) or not np.isfinite(given).all() or (given < 0.0).any():
                raise ModelError(f"{what}: {key} {getattr(self, key)!r} is not one number of 0 or more, nor three; give one for each axis")
            object.__setattr__(self, key, tuple(np.broadcast_to(given, (3,)).tolist()))
        if not any(any(getattr(self, key)) for key in BUSHING_NUMBERS):
            raise ModelError(f"{what}: all its numbers are 0, so that it does nothing; give a stiffness or a damping")


@dataclass(frozen=True)
class PointForce:
    """A force from a function of the time, and of the position and velocity of a point of a body, and the angular velocity of the body.

    All but the position are in the world's axes, or in the body's own. With `other` it is the tension between the point and one of another
    body, from a function of the time, their distance and its rate.
    """

    name: str
    function: Callable[..., Any]
    body: str
    at: tuple[float, ...]
    axes: str = "world"
    other: str | None = None
    at_other: tuple[float, ...] = (0.0, 0.0, 0.0)

    @property
    def role(self) -> Role:
        """What the function is to be."""
        what = f"force '{self.name}'"
        if self.other is not None:
            return Role(what, {"t": None, "length": None, "rate": None}, "the tension [N], one number", ((),), ModelError, marked=False)
        returns = f"a force (3 entries) or a moment and a force (6 entries), in the {self.axes}'s axes"
        arguments = {"t": None, "position": 3, "velocity": 3, **({"spin": 3} if self._takes_spin() else {})}
        return Role(what, arguments, returns, ((3,), (6,)), ModelError, marked=False)

    def _takes_spin(self) -> bool:
        """Return whether the function has a place for the angular velocity."""
        try:
            parameters = inspect.signature(plain(self.function)).parameters.values()
        except (TypeError, ValueError):  # some functions that are not written in Python do not tell
            return False
        return sum(x.default is x.empty and x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD) for x in parameters) > 3

    def value(self, *arguments: Any) -> Any:
        """Return the function's result: a wrench (moment, force) of 6 entries on the point, or the tension; for any scalar."""
        role = self.role
        with expression.values({}):
            given = (x if np.ndim(x) == 0 else own_array(x) for x in arguments[: len(role.arguments)])
            array = role.value(self.function, *given)
        if self.other is not None:
            return array[()]
        return np.concatenate([np.zeros(3), array]) if array.shape == (3,) else array

    def uses_time(self, given: Callable[[Trace], Mapping[str, Any]] = lambda trace: {}) -> bool:
        """Return whether the force depends on time, by its trace; a function that cannot be traced is refused."""
        return ("input", 0) in self.role.graph(self.function, given).nodes


class PartCoordinates(NamedTuple):
    """The q and v that a function of a part of a model takes: coordinates of the model by name, and numbers where joints are locked."""

    q: tuple[str | float, ...]
    v: tuple[str | float, ...]

    def where(self, q: Mapping[str, str | float], v: Mapping[str, str | float]) -> PartCoordinates:
        """Return those with other names, or numbers, in place of coordinates."""
        return PartCoordinates(*(tuple(by.get(x, x) if isinstance(x, str) else x for x in own) for own, by in ((self.q, q), (self.v, v))))


@dataclass(frozen=True)
class Applied:
    """A force from a function of (t, q, v): joint forces, or with a body a force or wrench on a point of it, in the world's axes.

    Where the function was made for a part of the model, `part` has the coordinates that it takes; else it takes all.
    """

    name: str
    function: Callable[[Any, Any, Any], Any]
    body: str | None
    point: tuple[float, ...]
    part: PartCoordinates | None = None

    def of_whole(self, q_names: Sequence[str], v_names: Sequence[str]) -> Applied:
        """Return the force with a function of all coordinates of a model."""
        if self.part is None:
            return self
        at_q, at_v = (
            tuple(names.index(x) if isinstance(x, str) else x for x in own)
            for names, own in zip((tuple(q_names), tuple(v_names)), self.part, strict=True)
        )
        whole = _OfWhole(replace(self, part=None), at_q, at_v, len(v_names))
        return replace(self, function=whole if self.traced else python(whole), part=None)

    @property
    def traced(self) -> bool:
        """Whether the function is traced and compiled, rather than called step by step."""
        return not isinstance(self.function, python)

    def role(self, nq: int, nv: int) -> Role:
        """Return what the function is to be."""
        shapes: tuple[tuple[int, ...], ...]
        if self.body is not None:
            returns, shapes = "a force (3 entries) or a moment and a force (6 entries), in the world's axes", ((3,), (6,))
        else:
            returns, shapes = f"{joint_forces(nv)}, and add all bodies before the force", ((nv,),)
        return Role(f"force '{self.name}'", {"t": None, "q": nq, "v": nv}, returns, shapes, ModelError)

    def value(self, nv: int, t: Any, q: Any, v: Any) -> Any:
        """Return the function's result: nv joint forces, or with a body a wrench (moment, force) of 6 entries; for any scalar."""
        with expression.values({}):
            array = self.role(len(q), nv).value(self.function, t, own_array(q), own_array(v))
        return np.concatenate([np.zeros(3), array]) if self.body is not None and array.shape == (3,) else array

    def probe(self, q: np.ndarray, nv: int) -> None:
        """Refuse a function that fails with numbers, or returns something else than a force."""
        role = self.role(len(q), nv)
        role.check_signature(self.function)
        try:
            with np.errstate(all="ignore"):
                self.value(nv, 0.0, q, np.zeros(nv))
        except Exception as error:
            own = error if error.__cause__ is None else error.__cause__
            if isinstance(own, ArithmeticError):  # such as a division by t or by a distance that is 0 here, but not where the motion goes
                return
            if isinstance(error, ModelError) or self.traced:
                raise
            raise role.failure(self.function, error, traced=False) from error

    def depends_on(self, q: Collection[int], v: Collection[int]) -> bool:
        """Return whether the force has to do with some of the coordinates that its function takes; one that is not traced may always.

        Of joint forces, those along these coordinates do not count.
        """
        if not self.traced:
            return True
        assert self.part is not None
        nq, nv = map(len, self.part)
        trace = Trace("force")
        t, *state = trace.input("t"), trace.input("q", (nq,)), trace.input("v", (nv,))
        value = self.value(nv, t, *state)
        rest = value if self.body is not None else [x for k, x in enumerate(value) if k not in v]
        nodes = trace.graph(rest=rest).nodes
        return any(("input", 1 + k) in nodes for k in q) or any(("input", 1 + nq + k) in nodes for k in v)

    def uses_time(self, nq: int, nv: int, given: Callable[[Trace], Mapping[str, Any]] = lambda trace: {}) -> bool:
        """Return whether the force depends on time, by its trace; refuse a function that cannot be traced."""
        return ("input", 0) in self.role(nq, nv).graph(self.function, given).nodes


@dataclass(frozen=True)
class _OfWhole(Wrapped):
    """The function of a force of a part, called with the coordinates of the whole model: their places there, or numbers."""

    force: Applied
    at_q: tuple[int | float, ...]
    at_v: tuple[int | float, ...]
    nv: int

    @property
    def function(self) -> Callable[..., Any]:  # type: ignore[override]
        return self.force.function

    def __call__(self, t: Any, q: Any, v: Any) -> Any:
        value = self.force.value(len(self.at_v), t, _taken(q, self.at_q), _taken(v, self.at_v))
        if self.force.body is not None:
            return value
        forces: Any = np.full(self.nv, 0.0, dtype=value.dtype)
        for at, x in zip(self.at_v, value, strict=True):
            if isinstance(at, int):
                forces[at] = x
        return forces


def _taken(x: Any, places: tuple[int | float, ...]) -> Any:
    return np.array([x[at] if isinstance(at, int) else at for at in places], dtype=np.asarray(x).dtype)
