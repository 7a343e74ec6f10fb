"""Positions at which a mechanism rests."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from catena.analysis.linearization import joint_forces, linear_system
from catena.analysis.neighbourhood import Neighbourhood
from catena.errors import ModelError
from catena.kernels.bias_forces import bias_force
from catena.kernels.named_coordinates import coordinates, places
from catena.kernels.tracing import check_forces, frozen
from catena.loops.assembly import assemble
from catena.model import Mechanism
from catena.simulation.arguments import check_state

#: Steps of Newton's, the longest of them [rad, or m], the change of position below which it has arrived, and the part of the first forces,
#: or of the stiffness, that may be left there.
_STEPS, _LONGEST, _ARRIVED, _BALANCED = 100, 0.5, 1e-11, 1e-8

#: Starts that are tried where the search from the guess does not arrive, and the part of the largest eigenvalue that counts as none.
_STARTS, _NONE = 8, 1e-6


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """Positions q at rest under the joint forces tau, which are those given and those that hold the coordinates with free forces.

    `stability` is "stable", "unstable" or "neutral", where coordinates with free forces are held: how the mechanism goes on from a small
    push, by the eigenvalues [1/s] of its linearisation. A mechanism without damping that swings about its equilibrium is stable.
    """

    q: np.ndarray
    tau: np.ndarray
    stability: str
    eigenvalues: np.ndarray


def equilibrium(
    m: Mechanism, guess: Any = None, tau: Any = None, *, free: Collection[str] = (), t: float = 0.0, seed: int = 0
) -> Equilibrium:
    """Return positions at which a mechanism rests, near a guess; without one the search begins at `m.home`.

    `tau` are joint forces (nv), zero if not given. Coordinates named by `free` stay where they are in the guess, and the joint forces that
    this takes are found. Loops stay closed. Where the search from the guess does not arrive, it goes on from random positions within the
    joints' limits; stops are springs, on which a mechanism can rest.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> rest = ct.equilibrium(m, [0.5])
    >>> rest.q.round(9) + 0.0, rest.stability
    (array([0.]), 'stable')
    >>> ct.equilibrium(m, [3.0]).stability
    'unstable'
    >>> ct.equilibrium(m, [0.5], free=["arm"]).tau.round(3)
    array([4.703])
    """
    m = frozen(m, "equilibrium")
    check_forces(m, "equilibrium")
    force = joint_forces(m, tau)
    held = coordinates(m, free, "equilibrium: free")
    start = m.search_start() if guess is None else check_state(m, guess, None, ("guess", "v"))[0]
    fixed = {m.q_names[i]: float(start[i]) for i in places(m, held, "equilibrium: free")}
    start = assemble(m, start, fixed, t) if m.has_loops else start
    search = _Search(m, force, held, fixed, t)
    rng = np.random.default_rng(seed)
    near = Neighbourhood(m, start, np.zeros(m.nv), t, held)
    for _ in range(_STARTS):
        found = search.from_start(near)
        if found is not None:
            return search.found(found)
        start = m.random(rng)
        for name, value in fixed.items():
            start[m.q_names.index(name)] = value
        try:
            near = near.moved(assemble(m, start, fixed, t) if m.has_loops else start)
        except ModelError:  # these cannot be closed; the next may
            continue
    raise ModelError(
        f"equilibrium: the search for a position of rest of model '{m.name}' arrives from none of {_STARTS} starts; give a guess that is "
        "nearer, joint forces that hold it, or name in free= coordinates whose joint forces may be anything"
    )


class _Search:
    """A search for positions at rest, by Newton's method on the independent coordinates that are not held."""

    def __init__(self, m: Mechanism, tau: np.ndarray, held: Collection[int], fixed: dict[str, float], t: float) -> None:
        self.m, self.tau, self.held, self.fixed, self.t = m, tau, held, fixed, t
        self.bias = bias_force(m)
        self.slope = self.bias.jvp("q")
        self.time = (t,) if m.time_dependent else ()

    def _moving(self, near: Neighbourhood) -> list[int]:
        """Return which of the independent coordinates are not held."""
        return [i for i, j in enumerate(near.independent) if j not in self.held]

    def from_start(self, near: Neighbourhood) -> Neighbourhood | None:
        """Return where the search arrives, if it does."""
        moving, damping = self._moving(near), 0.0
        if not moving:
            return near
        right, K = self._equations(near, moving)
        least = _BALANCED * max(np.abs(right).max(), np.abs(K).max())
        for _ in range(_STEPS):
            scale = np.abs(K).max() or 1.0
            damped = np.vstack([K, damping * scale * np.eye(len(moving))])
            step = -np.linalg.lstsq(damped, np.append(right, np.zeros(len(moving))), rcond=1e-12)[0]
            longest = np.abs(step).max()
            step = step * min(1.0, _LONGEST / longest) if longest else step
            ahead = self._moved(near, moving, step)
            if ahead is not None:
                right_ahead, K_ahead = self._equations(ahead, moving)
                rounding = longest <= 1e-9  # the last steps are in rounding, and need not come nearer
                if np.linalg.norm(right_ahead) <= np.linalg.norm(right) * (1.5 if rounding else 1.0):
                    near, right, K, damping = ahead, right_ahead, K_ahead, 0.2 * damping if damping > 1e-6 else 0.0
                    if longest <= _ARRIVED:
                        return near if np.abs(right).max() <= least else None
                    continue
            damping = max(4.0 * damping, 1e-3)
            if damping > 1e6:
                return None
        return None

    def _moved(self, near: Neighbourhood, moving: list[int], step: np.ndarray) -> Neighbourhood | None:
        m = self.m
        q = m.integrate(near.q, near.basis[:, moving] @ step)
        if m.has_loops:
            try:
                q = assemble(m, q, self.fixed, self.t)
            except ModelError:  # too long a step
                return None
        return near.moved(q)

    def _equations(self, near: Neighbourhood, moving: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return the forces that are not balanced along the coordinates that move, and their derivatives along these."""
        N = near.basis[:, moving]
        bias, slope = self.slope(*self.time, near.q, np.zeros(self.m.nv), N.T)
        load, K = bias[0] - self.tau, N.T @ slope.T
        if self.m.has_loops:  # directions turn as the mechanism moves, and with them what the constraints take up
            K = K + np.einsum("kji,j->ik", near.turned_basis[np.ix_(moving, range(self.m.nv), moving)], load)
        return N.T @ load, K

    def found(self, near: Neighbourhood) -> Equilibrium:
        """Return the equilibrium, with what holds it and how it goes on."""
        m, moving = self.m, self._moving(near)
        load = self.bias(*self.time, near.q, np.zeros(m.nv)) - self.tau
        tau = self.tau.copy()
        for i, j in enumerate(near.independent):
            if j in self.held:
                tau[j] += near.basis[:, i] @ load
        linear = linear_system(near, *near.accelerations(tau)[1:3])
        rows = [*moving, *[len(near.independent) + i for i in moving]]
        values: Any = np.linalg.eigvals(linear[np.ix_(rows, rows)]) if moving else np.zeros(0, dtype=complex)
        least = _NONE * np.abs(values).max(initial=0.0)
        bounded = "neutral" if (np.abs(values) <= least).any() else "stable"
        return Equilibrium(near.q, tau, "unstable" if (values.real > least).any() else bounded, values)
