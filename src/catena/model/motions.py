"""What a joint does to frames, as functions of the joint's own coordinates q and rates v.

A motion leads from the joint's inner frame to its outer frame. `inner` turns the joint frame, fixed in the parent, into the inner frame;
`outer` turns the user's child frame into the outer frame. Here the axes of screw joints become z.

    placement    the outer frame in the inner frame
    matrix       S, which maps v to the motion of the child relative to the parent, in the outer frame
    bias         dS/dt v, the acceleration at constant rates; where the joint is driven, with the rate of the drift
    turn         dS/dt as the parent sees it; the child sees S x (S v) less
    drift        the motion without rates, Omega_t of [NLT03] (13); zero unless the joint is driven
    deflection   how far q is from a rest position, along v
    regroupable  the part of an inertia M of the child that no rate feels, S^T M = 0, and that is the same in the inner frame at all
                 positions, so that it may belong to the parent; in the outer and in the inner frame
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from catena.graph import traced_array
from catena.model.manifolds import difference_rotation
from catena.scalars import expression
from catena.scalars.dual import Dual, moving, part
from catena.spatial import Array, Placement, Rigid, Screw, cross_motion, first_moment, inertia_matrix, rotation, stack_columns
from catena.spatial.inertias import moved

_EYE = np.eye(3)


class Factor(NamedTuple):
    """One screw of a joint: angle and shift are linear in the coordinates, `turn . q + turn0` and `slide . q + slide0`."""

    axis: int
    turn: tuple[float, ...]
    slide: tuple[float, ...]
    turn0: float = 0.0
    slide0: float = 0.0

    def screw(self, q: Array) -> Screw:
        angle, shift = _linear(self.turn, q, self.turn0), _linear(self.slide, q, self.slide0)
        return Screw(self.axis, *clean_turn(np.cos(angle), np.sin(angle)), shift)

    def twist(self, dof: int) -> Array:
        """Return the motion of a unit rate of one coordinate, in this factor's frame."""
        column = np.zeros(6)
        column[self.axis], column[3 + self.axis] = self.turn[dof], self.slide[dof]
        return column


def _linear(weights: tuple[float, ...], q: Array, offset: float) -> Any:
    total: Any = offset
    for weight, x in zip(weights, q, strict=True):
        if weight:
            total = weight * x + total
    return total


def clean(x: Any, scale: float = 1.0) -> Any:
    """Return a number without the dust of rounding next to 0, 1 and -1 (times the scale); traced values as they are."""
    if isinstance(x, float):
        for exact in (0.0, scale, -scale):
            if abs(x - exact) <= 1e-14 * scale:
                return exact
        return float(x)
    return x


def clean_turn(cosine: Any, sine: Any) -> tuple[Any, Any]:
    """Return cosine and sine without the dust of rounding next to quarter turns, both or none; traced values as they are."""
    if isinstance(cosine, float) and isinstance(sine, float):
        if abs(sine) <= 1e-14:
            return (1.0 if cosine > 0.0 else -1.0), 0.0
        if abs(cosine) <= 1e-14:
            return 0.0, (1.0 if sine > 0.0 else -1.0)
    return cosine, sine


class _Undeformed:
    """What most motions share: S constant in the child, no drift, positions that are differences, and nothing to regroup."""

    def bias(self, q: Array, v: Array) -> Array:
        return np.zeros(6)

    def drift(self) -> Array:
        return np.zeros(6)

    def deflection(self, q: Array, rest: Array) -> Array:
        return q - rest

    def regroupable(self, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((6, 6)), np.zeros((6, 6))


@dataclass(frozen=True)
class ScrewMotion(_Undeformed):
    """A motion made of screws about coordinate axes."""

    factors: tuple[Factor, ...]
    inner: np.ndarray = field(default_factory=lambda: _EYE)
    outer: np.ndarray = field(default_factory=lambda: _EYE)

    def placement(self, q: Array) -> Placement:
        return Placement(factor.screw(q) for factor in self.factors)

    def _twists(self, q: Array) -> list[list[Array]]:
        """Return, factor by factor, the columns of unit rates in the outer frame."""
        columns = [[factor.twist(dof) for dof in range(len(q))] for factor in self.factors]
        for i, factor in enumerate(self.factors[1:], 1):
            later = factor.screw(q)
            for earlier in columns[:i]:
                earlier[:] = [later.motion(column) if np.any(column != 0.0) else column for column in earlier]
        return columns

    def matrix(self, q: Array) -> Array:
        return stack_columns([sum(columns[1:], columns[0]) for columns in zip(*self._twists(q), strict=True)])

    def bias(self, q: Array, v: Array) -> Array:
        if sum(any(f.turn) or any(f.slide) for f in self.factors) < 2:
            return np.zeros(6)
        moving = [(f, t) for f, t in zip(self.factors, self._twists(q), strict=True) if any(f.turn) or any(f.slide)]
        rates = [sum(column * rate for column, rate in zip(columns, v, strict=True)) for _, columns in moving]
        total = np.zeros(6)
        inner = np.zeros(6)
        for rate in rates:
            total = total + cross_motion(inner, rate)
            inner = inner + rate
        return total

    def turn(self, q: Array, v: Array) -> Array:
        columns, inner = np.zeros((6, len(q))), np.zeros(6)
        for twists in self._twists(q):
            columns = columns + stack_columns([cross_motion(inner, column) for column in twists])
            inner = inner + sum(column * rate for column, rate in zip(twists, v, strict=True))
        return columns

    def regroupable(self, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        turning = [factor for factor in self.factors if any(factor.turn)]
        slides = any(any(factor.slide) for factor in self.factors)
        J, h, mass = np.zeros((3, 3)), np.zeros(3), 0.0
        if not turning:
            J = M[:3, :3]
        elif turning == [self.factors[-1]]:  # about z: what is alike in all directions around it, and where nothing slides all on it
            J = M[1, 1] * np.diag([1.0, 1.0, 0.0])
            if not slides:
                h, mass = first_moment(M) * np.array([0.0, 0.0, 1.0]), M[3, 3]
        elif not slides and all(factor.slide0 == 0.0 for factor in self.factors[1:-1]):  # mass where the axes meet
            shift, mass = self.factors[-1].slide0, M[3, 3]
            J, h = mass * shift * shift * np.diag([1.0, 1.0, 0.0]), mass * np.array([0.0, 0.0, -shift])
        outer = inertia_matrix(J, h, mass)
        return outer, moved(outer, self.placement(np.zeros(len(self.factors[0].turn))))

    def slide_inner(self, angle: float, shift: float) -> ScrewMotion | None:
        """Return the motion that begins with a fixed screw about z, if its first factor can take it up."""
        first = self.factors[0]
        if first.axis != 2:
            return None
        return replace(self, factors=(first._replace(turn0=first.turn0 + angle, slide0=first.slide0 + shift), *self.factors[1:]))

    def slide_outer(self, angle: float, shift: float) -> ScrewMotion:
        """Return the motion that ends with a fixed screw about z; the last factor of every screw joint is about z."""
        last = self.factors[-1]
        return replace(self, factors=(*self.factors[:-1], last._replace(turn0=last.turn0 + angle, slide0=last.slide0 + shift)))


@dataclass(frozen=True)
class DenseMotion(_Undeformed):
    """A motion with a dense rotation; `before` is a constant placement between the inner frame and the joint."""

    before: Rigid = field(default_factory=lambda: Rigid(_EYE, np.zeros(3)))
    inner = outer = _EYE

    def pose(self, q: Array) -> Rigid:
        raise NotImplementedError

    def placement(self, q: Array) -> Placement:
        return Placement([self.before @ self.pose(q)])

    def matrix(self, q: Array) -> Array:
        raise NotImplementedError

    def turn(self, q: Array, v: Array) -> Array:
        S = self.matrix(q)
        return stack_columns([cross_motion(S @ v, column) for column in S.T])


class FixedMotion(DenseMotion):
    """None."""

    def pose(self, q: Array) -> Rigid:
        return Rigid(_EYE, np.zeros(3))

    def matrix(self, q: Array) -> Array:
        return np.zeros((6, 0))

    def regroupable(self, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return M, moved(M, self.before)


class SphericalMotion(DenseMotion):
    """All rotations; the rates are the angular velocity in the child's axes."""

    def pose(self, q: Array) -> Rigid:
        return Rigid(rotation(q), np.zeros(3))

    def matrix(self, q: Array) -> Array:
        return np.eye(6)[:, :3]

    def regroupable(self, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        outer = inertia_matrix(np.zeros((3, 3)), np.zeros(3), M[3, 3])  # mass at the centre
        return outer, moved(outer, self.before)

    def deflection(self, q: Array, rest: Array) -> Array:
        return difference_rotation(rest, q)


class FreeMotion(DenseMotion):
    """All motions; the rates are the twist at the child's origin in the child's axes."""

    def pose(self, q: Array) -> Rigid:
        return Rigid(rotation(q[3:]), q[:3])

    def matrix(self, q: Array) -> Array:
        return np.eye(6)

    def deflection(self, q: Array, rest: Array) -> Array:
        return np.concatenate([difference_rotation(rest[3:], q[3:]), rotation(q[3:]).T @ (q[:3] - rest[:3])])


@dataclass(frozen=True)
class CustomMotion(DenseMotion):
    """A motion from a user's function of the coordinates; S and bias by differentiation."""

    function: Callable[[Array], Any] = lambda q: np.eye(4)

    def pose(self, q: Array) -> Rigid:
        with expression.values({}):
            return as_rigid(expression.settled(self.function(traced_array(np.asarray(q)))))

    def _twist(self, q: Array, v: Array) -> Array:
        pose = self.pose(moving(q, v))
        R = part(pose.R, "value")
        turning, sliding = R.T @ part(pose.R, "derivative"), R.T @ part(pose.p, "derivative")
        return np.array([turning[2, 1], turning[0, 2], turning[1, 0], *sliding], dtype=object)

    def matrix(self, q: Array) -> Array:
        return stack_columns([self._twist(q, unit) for unit in np.eye(len(q))])

    def bias(self, q: Array, v: Array) -> Array:
        return part(self._twist(moving(q, v), v), "derivative")

    def turn(self, q: Array, v: Array) -> Array:
        changes = stack_columns([part(self._twist(moving(q, v), unit), "derivative") for unit in np.eye(len(q))])
        return changes + super().turn(q, v)


Undriven = ScrewMotion | DenseMotion


class Given(NamedTuple):
    """What a driven joint does at a time: its coordinates, their velocities and accelerations."""

    q: Array
    v: Array
    vdot: Array


@dataclass(frozen=True)
class DrivenMotion(_Undeformed):
    """A motion whose coordinates are given over time, so that none are left. It moves at a time: `at` binds it to one."""

    free: Undriven
    motion: Callable[[Any], Given]
    given: Given | None = None
    t: Any = None

    def at(self, t: Any) -> DrivenMotion:
        """Return the motion at a time, of any scalar."""
        return replace(self, given=self.motion(t), t=t)

    def resting(self) -> DrivenMotion:
        """Return the motion where it stands still."""
        now = self._now()
        return replace(self, given=Given(now.q, 0.0 * now.v, 0.0 * now.vdot))

    def starting(self) -> DrivenMotion:
        """Return the motion where it stands still, with the velocities for accelerations."""
        now = self._now()
        return replace(self, given=Given(now.q, 0.0 * now.v, now.v))

    def moving(self) -> DrivenMotion:
        """Return the motion in Duals, which carry the rates of all that it has."""
        self._now()
        return self.at(Dual(self.t[()] if isinstance(self.t, np.ndarray) else self.t, 1.0))

    def _now(self) -> Given:
        assert self.given is not None, "a driven joint moves at a time: tree.at(t)"
        return self.given

    def placement(self, q: Array) -> Placement:
        return self.free.placement(self._now().q)

    def matrix(self, q: Array) -> Array:
        return np.zeros((6, 0))

    def drift(self) -> Array:
        return self.free.matrix(self._now().q) @ self._now().v

    def bias(self, q: Array, v: Array) -> Array:
        now = self._now()
        return self.free.bias(now.q, now.v) + self.free.matrix(now.q) @ now.vdot

    def turn(self, q: Array, v: Array) -> Array:
        return np.zeros((6, 0))

    def deflection(self, q: Array, rest: Array) -> Array:
        return np.zeros(0)


Motion = Undriven | DrivenMotion


def as_rigid(value: Any) -> Rigid:
    """Return a placement from a 4 x 4 matrix, a pair (R, p) or a Rigid."""
    if isinstance(value, Rigid):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return Rigid(np.asarray(value[0]), np.asarray(value[1]))
    matrix = np.asarray(value)
    return Rigid(matrix[:3, :3], matrix[:3, 3])
