"""Joints from a user's own function of their coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.graph import Graph, Trace
from catena.model.joints.base import Joint
from catena.model.motions import CustomMotion, as_rigid
from catena.model.user_functions import Role
from catena.model.wording import short
from catena.scalars import expression


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
        for name in ("coordinates", "q_labels", "v_labels"):
            object.__setattr__(self, name, tuple(names))
        for name in ("q_units", "v_units"):
            object.__setattr__(self, name, ("",) * len(names))
        super().__post_init__()
        self.check()

    def check(self) -> None:
        """Refuse a function that gives no rigid placement or does not move with each coordinate."""
        role = Role(
            "custom function", {"q": self.nq}, "a 4 x 4 matrix or a pair (R, p)", (), ModelError, ModelError, marked=False,
            chance="draw random numbers before, for a pose follows from q alone",
        )  # fmt: skip
        if not callable(self.function):
            raise ModelError(f"custom function {self.function!r} is not a function; give a function of q that returns {role.returns}")
        role.check_signature(self.function)
        rng = np.random.default_rng(0)
        for q in (rng.uniform(-0.5, 0.5, self.nq) for _ in range(3)):
            with expression.values({}), role.explained(self.function, traced=False):
                value = expression.settled(self.function(q.copy()))
            try:
                pose = as_rigid(value)
                R, p = np.asarray(pose.R, dtype=float), np.asarray(pose.p, dtype=float)
            except (TypeError, ValueError, IndexError) as error:
                raise role.wrong(self.function, short(value)) from error
            if value is not pose and not isinstance(value, tuple) and not np.array_equal(np.asarray(value)[3:], [[0, 0, 0, 1]]):
                raise role.wrong(self.function, f"{np.asarray(value).tolist()}, which does not end in the row (0, 0, 0, 1)")
            if R.shape != (3, 3) or p.shape != (3,) or not (np.isfinite(R).all() and np.isfinite(p).all()):
                raise ModelError(
                    f"custom function at q = {q.tolist()} gives R {R.tolist()}, p {p.tolist()}; return a 4 x 4 matrix or a pair (R, p)"
                )
            if np.abs(R @ R.T - np.eye(3)).max() > 1e-9 or np.linalg.det(R) < 0.0:
                raise ModelError(f"custom function at q = {q.tolist()} gives R {R.tolist()}, which is not a rotation; make R orthonormal")
            with role.explained(self.function, traced=True):
                S = np.asarray(self.motion().matrix(q), dtype=float)
                self.motion().bias(q, np.ones(self.nv))
                self._graph()
            if np.linalg.matrix_rank(S, tol=1e-9) < self.nv:
                raise ModelError(f"custom function: its {self.nv} coordinates are not independent at q = {q.tolist()}; use fewer")

        role.repeated(self.function, self._graph)

    def _graph(self) -> Graph:
        trace = Trace("custom")
        pose = self.motion().pose(trace.input("q", (self.nq,)))
        return trace.graph(R=pose.R, p=pose.p)

    def motion(self) -> CustomMotion:
        return CustomMotion(function=self.function)
