"""Positions of mechanisms with loops that meet further conditions: from a guess, or all that a search over many starts comes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from catena.assembly import coordinate_units, loop_owners, mechanism_size
from catena.formulations.constraints import apart, constraint_jacobian
from catena.formulations.frames import jacobian, poses
from catena.model import Model
from catena.tracing import traced_kernel

#: Where all conditions are met to this, relative to the mechanism's size or in radians, they are met.
MET = 1e-12

#: Steps from a start at most; starts that are tried together; how often at least every solution must have been found before a search ends,
#: and after how many starts it ends anyway, or where nothing was found at all.
_STEPS, _TOGETHER, _OFTEN, _STARTS, _NOTHING = 80, 256, 4, 16384, 1024

#: Solutions that differ by less than this are one.
_SAME = 1e-6


class Target:
    """Where a body is wanted: poses (..., 4, 4), or places (..., 3) of a point on it."""

    def __init__(self, m: Model, body: str, point: np.ndarray, wanted: np.ndarray) -> None:
        self.wanted, self.size = wanted, mechanism_size(m)
        self._point = point
        self._poses = traced_kernel(m, "pose", ("q",), ("pose",), lambda tree, q: poses(tree, q, (body,))[0])
        self._jacobian = traced_kernel(m, "jacobian", ("q",), ("jacobian",), lambda tree, q: jacobian(tree, q, body, point))

    def rows(self, q: np.ndarray, which: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return how far the body is from where it is wanted, and the Jacobian of that; `which` picks from several targets."""
        wanted = self.wanted if self.wanted.shape in ((3,), (4, 4)) else self.wanted[which]
        pose, J = self._poses(q), self._jacobian(q)
        R, at = pose[..., :3, :3], pose[..., :3, 3] + pose[..., :3, :3] @ self._point
        if wanted.shape[-1] == 3:
            return (at - wanted) / self.size, J[..., 3:, :] / self.size
        left = _turn(R @ np.swapaxes(wanted[..., :3, :3], -1, -2))
        place = wanted[..., :3, 3] + wanted[..., :3, :3] @ self._point
        return np.concatenate([left, (at - place) / self.size], axis=-1), J / np.repeat([1.0, self.size], 3)[:, None]


def _turn(R: np.ndarray) -> np.ndarray:
    """Return vectors of turns along their axes, as long as twice the sine of half the angle, so that they do not vanish at half a turn."""
    axis = np.stack([R[..., 2, 1] - R[..., 1, 2], R[..., 0, 2] - R[..., 2, 0], R[..., 1, 0] - R[..., 0, 1]], axis=-1)
    cosine = np.clip(0.5 * (np.trace(R, axis1=-2, axis2=-1) - 1.0), -1.0, 1.0)
    return axis / np.sqrt(np.maximum(2.0 * (1.0 + cosine), 1e-12))[..., None]


class Positions:
    """Solves for positions that close the loops of a model, with velocity coordinates that do not move, and a target."""

    def __init__(self, m: Model, held: list[int], target: Target | None = None) -> None:
        self.model, self.target = m, target
        self._free = np.array([j for j in range(m.nv) if j not in held])
        self._units = np.array([unit for _, unit in loop_owners(m, mechanism_size(m))])
        self._columns = coordinate_units(m)

        def function(tree: Any, q: Any) -> Any:
            return constraint_jacobian(tree, q, apart)

        self._loops = traced_kernel(m, "loops", ("q",), ("values", "jacobian"), function)

    def apart(self, q: np.ndarray, which: Any = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Return what is left of all conditions at positions (n, nq), and the Jacobian on the coordinates that may move.

        `which` of several targets they are for.
        """
        values, J = self._loops(q)
        values, J = values / self._units, J / self._units[:, None]
        if self.target is not None:
            more, rows = self.target.rows(q, which)
            values, J = np.concatenate([values, more], axis=-1), np.concatenate([J, rows], axis=-2)
        return values, (J * self._columns)[..., self._free]

    def settle(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return positions (n, nq) led from those given by damped steps of Gauss and Newton, and how far the conditions are met."""
        q = q.copy()
        values, J = self.apart(q)
        size = np.linalg.norm(values, axis=1)
        damping = np.ones(len(q))
        for _ in range(_STEPS):
            going = np.flatnonzero((np.abs(values).max(axis=1, initial=0.0) > 0.1 * MET) & (damping < 1e6))
            if not len(going):
                break
            U, s, V = np.linalg.svd(J[going], full_matrices=False)
            least = np.maximum(damping[going] * size[going] ** 2, 1e-30 * s[:, 0] ** 2)[:, None]
            along = np.einsum("nij,ni->nj", U, values[going]) * s / (s * s + least)
            step = np.zeros((len(going), self.model.nv))
            step[:, self._free] = -np.einsum("nji,nj->ni", V, along)
            longest = np.abs(step).max(axis=1, initial=0.0)
            step *= (np.minimum(1.0, 1.0 / np.maximum(longest, 1e-300)))[:, None] * self._columns
            there = self.model.integrate(q[going], step)
            new, J_new = self.apart(there, going)
            now = np.linalg.norm(new, axis=1)
            better = now < size[going]
            kept = going[better]
            q[kept], values[kept], J[kept], size[kept] = there[better], new[better], J_new[better], now[better]
            damping[going] *= np.where(better, 0.3, 4.0)
        return q, np.abs(values).max(axis=1, initial=0.0)

    def all(
        self, start: Callable[[np.random.Generator, int], np.ndarray], keys: Callable[[np.ndarray], list[np.ndarray]]
    ) -> list[np.ndarray]:
        """Return all positions that starts lead to, for each part of the mechanism: those with the same key of a part are one for it.

        The search ends when each was found a few times.
        """
        rng = np.random.default_rng(0)
        parts: list[_Found] = []
        for n in range(_STARTS // _TOGETHER):
            if not parts and n * _TOGETHER >= _NOTHING:
                break
            q, left = self.settle(start(rng, _TOGETHER))
            q = q[left <= MET]
            if not len(q):
                continue
            own = keys(q)
            parts = parts or [_Found() for _ in own]
            for part, key in zip(parts, own, strict=True):
                part.add(q, key)
            if min(min(part.hits) for part in parts) >= _OFTEN:
                break
        return [np.stack(part.positions) for part in parts]


class _Found:
    """Positions that were found, each once, their keys, and how often."""

    def __init__(self) -> None:
        self.positions: list[np.ndarray] = []
        self.keys: list[np.ndarray] = []
        self.hits: list[int] = []

    def add(self, q: np.ndarray, keys: np.ndarray) -> None:
        for one, key in zip(q, keys, strict=True):
            same = [n for n, known in enumerate(self.keys) if np.abs(known - key).max(initial=0.0) < _SAME]
            if same:
                self.hits[same[0]] += 1
            else:
                self.positions.append(one)
                self.keys.append(key)
                self.hits.append(1)
