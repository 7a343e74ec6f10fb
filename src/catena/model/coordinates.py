"""The coordinates of a mechanism: their names, units and places, and how positions move on the manifolds of the joints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.model.joints import Joint
from catena.model.spanning_tree import Link, coordinate_name, placed


class Coordinates:
    """The coordinates of bodies on joints, in the order of `links`."""

    @property
    def name(self) -> str:
        """The name of the mechanism, for messages."""
        raise NotImplementedError

    @property
    def links(self) -> tuple[Link, ...]:
        """The bodies with their joints and places, in the order of their coordinates: as they were added, loose ones last."""
        raise NotImplementedError

    @property
    def nq(self) -> int:
        """Number of position coordinates."""
        return sum(link.joint.nq for link in self.links)

    @property
    def nv(self) -> int:
        """Number of velocity coordinates: the degrees of freedom, where there are no loops."""
        return sum(link.joint.nv for link in self.links)

    @property
    def q_names(self) -> tuple[str, ...]:
        """Names of the position coordinates: the body's name, and the coordinate's where a joint has several."""
        return tuple(coordinate_name(link.name, label) for link in self.links for label in link.joint.q_labels)

    @property
    def v_names(self) -> tuple[str, ...]:
        """Names of the velocity coordinates: the body's name, and the coordinate's where a joint has several."""
        return tuple(coordinate_name(link.name, label) for link in self.links for label in link.joint.v_labels)

    @property
    def q_units(self) -> tuple[str, ...]:
        """Units of the position coordinates; quaternions have none."""
        return tuple(unit for link in self.links for unit in link.joint.q_units)

    @property
    def v_units(self) -> tuple[str, ...]:
        """Units of the velocity coordinates."""
        return tuple(unit for link in self.links for unit in link.joint.v_units)

    def slices(self) -> Iterator[tuple[Link, slice, slice]]:
        """Yield every body with the places of its coordinates in q and v."""
        return placed((link, link.joint) for link in self.links)

    def quaternions(self) -> Iterator[tuple[Link, slice]]:
        """Yield every body whose joint has a quaternion, with the place of that in q: the last four coordinates of the joint."""
        return ((link, slice(at_q.stop - 4, at_q.stop)) for link, at_q, _ in self.slices() if link.joint.nq != link.joint.nv)

    @cached_property
    def coordinate_places(self) -> dict[str, tuple[Joint, int, int]]:
        """The joint of every position coordinate, and its places in q and v, by the coordinate's name."""
        places = {}
        for link, at_q, at_v in self.slices():
            for i, label in enumerate(link.joint.q_labels):
                places[coordinate_name(link.name, label)] = (link.joint, at_q.start + i, at_v.start + i)
        return places

    def neutral(self) -> np.ndarray:
        """Return the position at which the two frames of every joint coincide; loops need not be closed there."""
        return np.concatenate([np.zeros(0), *(link.joint.neutral() for link in self.links)])

    def random(self, rng: np.random.Generator | int | None = None, size: int | None = None) -> np.ndarray:
        """Return a random position, or `size` of them: angles within a turn, displacements within 1 m, rotations uniform; within limits.

        Loops and couplings need not hold there; `m.assemble(m.random())` is a position at which they do.
        """
        rng = np.random.default_rng(rng)
        if size is not None:
            return np.array([self.random(rng) for _ in range(size)]).reshape(size, self.nq)
        return np.concatenate([np.zeros(0), *(link.joint.random(rng) for link in self.links)])

    def random_nearby(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random position with displacements of the size of the bodies that they move, rather than within 1 m."""
        q = self.random(rng)
        for link, at_q, _ in self.slices():
            if "m" not in link.joint.q_units:
                continue
            mass, radius = link.body.mass, max(np.abs(link.at.p).max(), np.abs(link.outer.p).max())
            if mass > 0.0:
                radius = max(radius, np.sqrt(np.trace(link.body.matrix()[:3, :3]) / mass))
            q[at_q] *= np.where(np.array(link.joint.q_units) == "m", radius or 1.0, 1.0)
        return q

    def integrate(self, q: Any, dv: Any) -> np.ndarray:
        """Return the position reached from q by moving with the rates dv for a unit of time; leading axes broadcast."""
        q, dv = _broadcast(self.checked("q", q, self.nq), self.checked("dv", dv, self.nv))
        return self._joined(q, lambda joint, at_q, at_v: joint.integrate(q[..., at_q], dv[..., at_v]))

    def difference(self, q0: Any, q1: Any) -> np.ndarray:
        """Return the rates that lead from q0 to q1 in a unit of time: `integrate(q0, difference(q0, q1))` is q1."""
        q0, q1 = _broadcast(self.checked("q0", q0, self.nq), self.checked("q1", q1, self.nq))
        return self._joined(q0, lambda joint, at_q, at_v: joint.difference(q0[..., at_q], q1[..., at_q]))

    def normalised(self, q: Any) -> np.ndarray:
        """Return a position with its quaternions at length 1; leading axes broadcast."""
        q = np.array(q, dtype=float)
        return self._joined(q, lambda joint, at_q, at_v: joint.normalised(q[..., at_q]))

    def rate(self, q: Any, v: Any) -> Any:
        """Return dq/dt at the velocity v."""
        return self._joined(q, lambda joint, at_q, at_v: joint.rate(q[..., at_q], v[..., at_v]))

    # local coordinates and momenta, by which integrators move: unchecked, for any scalar

    def chart(self, q: Any, u: Any) -> Any:
        """Return the position with the local coordinates u around q: rotation vectors for rotations, differences for the rest."""
        return self._joined(q, lambda joint, at_q, at_v: joint.chart(q[..., at_q], u[..., at_v]))

    def chart_rate(self, q: Any, u: Any, v: Any) -> Any:
        """Return the rate of the local coordinates u at the velocity v, where q is the position that they stand for."""
        return self._joined(v, lambda joint, at_q, at_v: joint.chart_rate(q[..., at_q], u[..., at_v], v[..., at_v]))

    def moved(self, q: Any, change: Any) -> Any:
        """Return the position reached by a small change along the velocities: `integrate` to first order, without functions of angles."""
        return self.chart(q, self.chart_rate(q, np.zeros(self.nv), change))

    def cayley(self, q: Any, u: Any) -> Any:
        """Return the position with the Cayley coordinates u around q: 2 tan(angle / 2) along the axes of rotations, else differences."""
        return self._joined(q, lambda joint, at_q, at_v: joint.cayley(q[..., at_q], u[..., at_v]))

    def cayley_velocity(self, q: Any, u: Any, rate: Any) -> Any:
        """Return the velocity v at which the Cayley coordinates u change at a rate, where q is the position that they stand for."""
        return self._joined(rate, lambda joint, at_q, at_v: joint.cayley_velocity(q[..., at_q], u[..., at_v], rate[..., at_v]))

    def cayley_momentum(self, q: Any, u: Any, p: Any) -> Any:
        """Return the momenta conjugate to the Cayley coordinates u, where p are conjugate to v and q is the position that u stands for."""
        return self._joined(p, lambda joint, at_q, at_v: joint.cayley_momentum(q[..., at_q], u[..., at_v], p[..., at_v]))

    def momentum_in_parent_axes(self, q: Any, p: Any) -> Any:
        """Return the momenta p, conjugate to v, in the axes of the parents, which do not turn with the joints."""
        return self._joined(p, lambda joint, at_q, at_v: joint.momentum_in_parent_axes(q[..., at_q], p[..., at_v]))

    def momentum_in_child_axes(self, q: Any, p: Any) -> Any:
        """Return the momenta conjugate to v, where p are these momenta in the axes of the parents."""
        return self._joined(p, lambda joint, at_q, at_v: joint.momentum_in_child_axes(q[..., at_q], p[..., at_v]))

    def _joined(self, like: Any, part: Callable[[Joint, slice, slice], Any]) -> Any:
        """Return what a function of every joint and its places in q and v returns, joined to an array with the leading axes of `like`."""
        parts = [part(link.joint, at_q, at_v) for link, at_q, at_v in self.slices()]
        return np.concatenate([like[..., :0], *parts], axis=-1)

    def checked(self, name: str, value: Any, size: int) -> Any:
        """Return a value as an array of real numbers or traced scalars whose last axis has a size; `name` is that of the argument."""
        array = np.asarray(value)
        if array.dtype.kind not in "buifO":
            raise ModelError(f"{name} {value!r} is not made of real numbers; model '{self.name}' takes (..., {size})")
        if array.dtype != object:
            array = array.astype(float)
        if array.ndim == 0 or array.shape[-1] != size:
            raise ModelError(f"{name} has shape {array.shape}; model '{self.name}' takes (..., {size})")
        return array


def _broadcast(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two arrays with their leading axes broadcast."""
    try:
        batch = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    except ValueError:
        raise ModelError(f"the shapes {a.shape} and {b.shape} do not broadcast; give leading axes that are equal or 1") from None
    return np.broadcast_to(a, (*batch, a.shape[-1])), np.broadcast_to(b, (*batch, b.shape[-1]))


@dataclass(frozen=True)
class PositionChart:
    """Directions of the positions q of a mechanism, with an entry for each of v: those of a quaternion are the tangents of `m.integrate`.

    `parts` has the number of positions of each joint, and for rotations the joint itself, which turns directions into rates of positions.
    """

    parts: tuple[tuple[int, Joint | None], ...]

    @staticmethod
    def of(m: Coordinates) -> PositionChart | None:
        """Return the chart of a mechanism, if its positions change otherwise than at the rates v."""
        joints = [link.joint for link in m.links]
        if all(joint.nq == joint.nv for joint in joints):
            return None
        return PositionChart(tuple((joint.nq, None if joint.nq == joint.nv else type(joint)()) for joint in joints))

    @property
    def size(self) -> int:
        """Number of velocity coordinates."""
        return sum(nq if joint is None else joint.nv for nq, joint in self.parts)

    def rate(self, q: Any, u: Any) -> Any:
        """Return how the positions change along u."""
        parts, at_q, at_v = [], 0, 0
        for nq, joint in self.parts:
            nv = nq if joint is None else joint.nv
            own = u[at_v : at_v + nv]
            parts.append(own if joint is None else joint.rate(q[at_q : at_q + nq], own))
            at_q, at_v = at_q + nq, at_v + nv
        return np.concatenate(parts)

    def velocity(self, q: Any, rate: Any) -> Any:
        """Return the direction in which the positions change at a rate."""
        parts, at = [], 0
        for nq, joint in self.parts:
            own = rate[at : at + nq]
            parts.append(own if joint is None else joint.velocity_of(q[at : at + nq], own))
            at += nq
        return np.concatenate(parts)
