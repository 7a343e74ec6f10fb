"""Forces beyond those of the joints: springs between points, and forces from functions of time and state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from catena.errors import ModelError
from catena.model import values
from catena.model.user_functions import Role, joint_forces, own_array, python
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


@dataclass(frozen=True)
class Applied:
    """A force from a function of (t, q, v): joint forces, or with a body a force or wrench on a point of it, in the world's axes."""

    name: str
    function: Callable[[Any, Any, Any], Any]
    body: str | None
    point: tuple[float, ...]

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

    def uses_time(self, nq: int, nv: int) -> bool:
        """Return whether the force depends on time, by its trace; refuse a function that cannot be traced."""
        return ("input", 0) in self.role(nq, nv).graph(self.function).nodes
