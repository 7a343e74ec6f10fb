"""Positions of mechanisms with loops that meet further conditions: from a guess, or all that a search over many starts comes to."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property, partial

import numpy as np

from catena.formulations.frames import jacobian, poses
from catena.formulations.loops.basic_constraints import closure_residual
from catena.formulations.loops.constraints import constraint_jacobian
from catena.kernels.tracing import traced_kernel
from catena.loops.scaling import coordinate_units, loop_owners, mechanism_size
from catena.model import Mechanism
from catena.native import Kernel
from catena.tolerances import CLOSED

#: Steps from a start at most; starts that are tried together; how often at least every solution must have been found before a search ends,
#: and after how many starts it ends anyway, or where nothing was found at all.
_STEPS, _TOGETHER, _OFTEN, _STARTS, _NOTHING = 80, 256, 4, 16384, 1024

#: Solutions that differ by less than this are one.
_SAME = 1e-6


def _turn(R: np.ndarray) -> np.ndarray:
    """Return vectors of turns along their axes, as long as twice the sine of half the angle, so that they do not vanish at half a turn."""
    axis = np.stack([R[..., 2, 1] - R[..., 1, 2], R[..., 0, 2] - R[..., 2, 0], R[..., 1, 0] - R[..., 0, 1]], axis=-1)
    cosine = np.clip(0.5 * (np.trace(R, axis1=-2, axis2=-1) - 1.0), -1.0, 1.0)
    return axis / np.sqrt(np.maximum(2.0 * (1.0 + cosine), 1e-12))[..., None]


class Positions:
    """Solves for positions that close the loops of a model, and put a body, or a point on it, where it is wanted.

    A target is poses (..., 4, 4) of the body, or places (..., 3) of the point; coordinates may be held, by their numbers.
    """

    def __init__(self, m: Mechanism, body: str, point: np.ndarray) -> None:
        self.model, self._body, self._point, self._size = m, body, point, mechanism_size(m)
        self._units = np.array([unit for _, unit in loop_owners(m, None)])
        self._columns = coordinate_units(m)

    @cached_property
    def pose(self) -> Kernel:
        """The function q -> pose of the body."""
        return traced_kernel(self.model, "pose", ("q",), ("pose",), lambda tree, q: poses(tree, q, (self._body,))[0])

    @cached_property
    def _jacobian(self) -> Kernel:
        """The function q -> Jacobian of the body and the point."""
        return traced_kernel(self.model, "jacobian", ("q",), ("jacobian",), lambda tree, q: jacobian(tree, q, self._body, self._point))

    @cached_property
    def _loops(self) -> Kernel:
        """The function q -> the closure residual of all loops, and its Jacobian."""
        function = partial(constraint_jacobian, rows=closure_residual)
        return traced_kernel(self.model, "loops", ("q",), ("values", "jacobian"), function)

    def _away(self, q: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how far the body is from where it is wanted, and the Jacobian of that."""
        pose, J = self.pose(q), self._jacobian(q)
        R, at = pose[..., :3, :3], pose[..., :3, 3] + pose[..., :3, :3] @ self._point
        if wanted.shape[-1] == 3:
            return (at - wanted) / self._size, J[..., 3:, :] / self._size
        left = _turn(R @ np.swapaxes(wanted[..., :3, :3], -1, -2))
        place = wanted[..., :3, 3] + wanted[..., :3, :3] @ self._point
        return np.concatenate([left, (at - place) / self._size], axis=-1), J / np.repeat([1.0, self._size], 3)[:, None]

    def _residual(self, q: np.ndarray, wanted: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return what is left of all conditions at positions (n, nq), and its Jacobian, all without units."""
        values, J = self._loops(q)
        values, J = values / self._units, J / self._units[:, None]
        if wanted is not None:
            more, rows = self._away(q, wanted)
            values, J = np.concatenate([values, more], axis=-1), np.concatenate([J, rows], axis=-2)
        return values, J * self._columns

    def settle(self, q: np.ndarray, wanted: np.ndarray | None = None, held: Collection[int] = ()) -> tuple[np.ndarray, np.ndarray]:
        """Return positions (n, nq) led by damped Gauss-Newton steps to one target, or one each, and how far they meet the conditions."""
        q, free = q.copy(), [j for j in range(self.model.nv) if j not in held]
        if wanted is not None:
            wanted = np.broadcast_to(wanted, (len(q), *wanted.shape[-1 if wanted.shape[-1] == 3 else -2 :]))
        values, J = self._residual(q, wanted)
        size = np.linalg.norm(values, axis=1)
        damping = np.ones(len(q))
        for _ in range(_STEPS):
            going = np.flatnonzero((np.abs(values).max(axis=1, initial=0.0) > 0.1 * CLOSED) & (damping < 1e6))
            if not len(going):
                break
            U, s, V = np.linalg.svd(J[going][..., free], full_matrices=False)
            least = np.maximum(damping[going] * size[going] ** 2, 1e-30 * s[:, 0] ** 2)[:, None]
            along = np.einsum("nij,ni->nj", U, values[going]) * s / (s * s + least)
            step = np.zeros((len(going), self.model.nv))
            step[:, free] = -np.einsum("nji,nj->ni", V, along)
            longest = np.abs(step).max(axis=1, initial=0.0)
            step *= (np.minimum(1.0, 1.0 / np.maximum(longest, 1e-300)))[:, None] * self._columns
            there = self.model.integrate(q[going], step)
            new, J_new = self._residual(there, None if wanted is None else wanted[going])
            now = np.linalg.norm(new, axis=1)
            better = now < size[going]
            improved = going[better]
            q[improved], values[improved], J[improved], size[improved] = there[better], new[better], J_new[better], now[better]
            damping[going] *= np.where(better, 0.3, 4.0)
        return q, np.abs(values).max(axis=1, initial=0.0)

    def all(
        self,
        start: Callable[[np.random.Generator, int], np.ndarray],
        keys: Callable[[np.ndarray], list[np.ndarray]],
        wanted: np.ndarray | None = None,
        held: Collection[int] = (),
    ) -> list[np.ndarray]:
        """Return, for each part of the mechanism, all positions with different keys that starts lead to, until each was found often."""
        rng = np.random.default_rng(0)
        parts: list[_Found] = []
        for n in range(_STARTS // _TOGETHER):
            if not parts and n * _TOGETHER >= _NOTHING:
                break
            q, left = self.settle(start(rng, _TOGETHER), wanted, held)
            q = q[left <= CLOSED]
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
