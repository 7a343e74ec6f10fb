"""The neighbourhood of a state: its independent coordinates, and how accelerations change along them."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any

import numpy as np

from catena.kernels.derivatives import forward_dynamics_derivatives
from catena.kernels.dynamics import forward_dynamics
from catena.kernels.reduced import reduced
from catena.loops.mobility import partition
from catena.model import Free, Mechanism, Spherical
from catena.spatial import cross_motion


class Neighbourhood:
    """Changes of a state that keep the loops closed, by independent coordinates x and their rates; without loops these are all.

    Positions change by `basis` x, and velocities by `basis` times the change of the rates and by `bend` x.
    """

    def __init__(self, m: Mechanism, q: np.ndarray, v: np.ndarray, t: float = 0.0, preferred: Collection[int] = ()) -> None:
        self.m, self.q, self.v, self.t = m, q, v, t
        self.preferred = preferred

    def moved(self, q: np.ndarray) -> Neighbourhood:
        """Return the neighbourhood of other positions, with the same independent coordinates; nothing is compiled again."""
        other = Neighbourhood(self.m, q, self.v, self.t, self.preferred)
        other.__dict__.update(independent=self.independent)
        if self.m.has_loops:
            other.__dict__.update(_reduced=self._reduced)
        return other

    @cached_property
    def turned_basis(self) -> np.ndarray:
        """How N changes along the independent positions (independent, nv, independent), the first axis that of the positions."""
        return self._reduced.basis.jvp("q")(*self._timed(bool(self.m.driven_names)), self.q, self.basis.T)[1]

    @cached_property
    def independent(self) -> list[int]:
        """The independent velocity coordinates, by number: those preferred, as far as can be."""
        if not self.m.has_loops:
            return list(range(self.m.nv))
        dependent = partition(self.m.at(self.t), self.q, last=tuple(self.preferred)).dependent
        return [j for j in range(self.m.nv) if j not in dependent]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the independent coordinates."""
        return tuple(self.m.v_names[j] for j in self.independent)

    @cached_property
    def _reduced(self) -> Any:
        return reduced(self.m, self.names, at=self.q)

    def _timed(self, time_dependent: bool) -> tuple[float, ...]:
        return (self.t,) if time_dependent else ()

    @cached_property
    def basis(self) -> np.ndarray:
        """N (nv, independent)."""
        if not self.m.has_loops:
            return np.eye(self.m.nv)
        return self._reduced.basis(*self._timed(bool(self.m.driven_names)), self.q)

    @cached_property
    def bend(self) -> np.ndarray:
        """How velocities change along the independent positions, where independent rates stay (nv, independent)."""
        if not self.m.has_loops:
            return np.zeros((self.m.nv, self.m.nv))
        state = (*self._timed(bool(self.m.driven_names)), self.q, self.v[self.independent])
        return self._reduced.rates.jvp("q")(*state, self.basis.T)[1].T

    @cached_property
    def turning(self) -> np.ndarray:
        """How the coordinates of a change of position change where velocities do not: directions of rotations turn with their joint."""
        found = np.zeros((self.m.nv, self.m.nv))
        for link, _, at in self.m.slices():
            v = self.v[at]
            if isinstance(link.joint, Spherical):
                v = np.concatenate([v, np.zeros(3)])
            elif not isinstance(link.joint, Free):
                continue
            found[at, at] = -np.stack([cross_motion(v, unit) for unit in np.eye(6)], axis=1)[: link.joint.nv, : link.joint.nv]
        return (found @ self.basis)[self.independent]

    def accelerations(self, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return vdot, and its derivatives along independent positions, along independent rates, and by joint forces."""
        m = self.m
        state = (*self._timed(m.time_dependent), self.q, self.v, tau)
        if not m.has_loops:
            return forward_dynamics_derivatives(m)(*state)[:4]
        kernel, none = forward_dynamics(m, at=self.q).jvp(("q", "v", "tau")), np.zeros(m.nv)
        N = self.basis.T
        vdot, by_q = kernel(*state, N, self.bend.T, none)
        by_v, by_tau = kernel(*state, none, N, none)[1], kernel(*state, none, none, np.eye(m.nv))[1]
        return vdot[0], by_q.T, by_v.T, by_tau.T
