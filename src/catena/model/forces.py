"""Forces beyond those of the joints: springs between points, and forces from functions of time and state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from catena.errors import ModelError
from catena.graph import Trace
from catena.model import values
from catena.model.user_functions import Role, Wrapped, joint_forces, own_array, python
from catena.scalars import expression


@dataclass(frozen=True)
class Spring:
    """A spring with a damper between a point of body a and a point of body b, each in its body's frame [m].

    It pulls the points together with the force `stiffness * (distance - length) + damping * rate`, the rate being that of the distance.
    """

    name: str
    a: str
    b: str
    at_a: Any
    at_b: Any
    stiffness: float
    damping: float
    length: float
    tied: ClassVar[Mapping[str, Any]] = {}  # expressions that its numbers follow, by name

    def __post_init__(self) -> None:
        values.take(self, "at_a", "at_b", "stiffness", "damping", "length")
        for key in ("at_a", "at_b"):
            object.__setattr__(self, key, tuple(values.array(f"spring '{self.name}': {key}", getattr(self, key), (3,)).tolist()))
        for key in ("stiffness", "damping", "length"):
            object.__setattr__(self, key, values.number(f"spring '{self.name}': {key}", getattr(self, key), least=0.0))
        if not self.stiffness and not self.damping:
            raise ModelError(f"spring '{self.name}': stiffness and damping are 0, so that it does nothing; give one of them")


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

    def uses_time(self, nq: int, nv: int) -> bool:
        """Return whether the force depends on time, by its trace; refuse a function that cannot be traced."""
        return ("input", 0) in self.role(nq, nv).graph(self.function).nodes


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
