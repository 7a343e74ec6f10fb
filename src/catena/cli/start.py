"""Where runs begin, from the options that say so."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from catena.errors import ArgumentError, AssemblyWarning
from catena.facade import Model
from catena.simulation import settings


class Start(NamedTuple):
    """Where to begin: positions and velocities; with loops, these are a guess, of which the coordinates in `fixed` and `rates` are held."""

    q: np.ndarray | None
    v: np.ndarray
    fixed: dict[str, float]
    rates: dict[str, float]

    @staticmethod
    def of(
        m: Model, set_: list[str] | None, set_velocity: list[str] | None = None, random: int | None = None, keyframe: str | None = None
    ) -> Start:
        """Return the start that options ask for."""
        positions, velocities = settings.by_body(m, set_ or []), settings.by_body(m, set_velocity or [])
        guess = _keyframe(m, keyframe) if keyframe is not None else None if random is None else m.random(random)
        q, v = settings.position(m, positions, m.search_start() if guess is None else guess), settings.velocity(m, velocities)
        if not m.has_loops:
            return Start(q, v, {}, {})
        plain = {name for link, at, _ in m.slices() if link.joint.nq == link.joint.nv for name in (link.name, *m.q_names[at])}
        fixed, guessed = ([text for text in positions if (_name(text) in plain) is fixed] for fixed in (True, False))
        if guessed:
            guess = settings.position(m, guessed, m.search_start() if guess is None else guess)
        marked = settings.position(m, fixed, np.full(m.nq, np.nan))
        held = {name: x for name, x in zip(m.q_names, marked, strict=True) if not np.isnan(x)}
        named = {_name(text) for text in velocities}
        rates = {name: x for link, _, at in m.slices() for name, x in zip(m.v_names[at], v[at], strict=True) if named & {name, link.name}}
        return Start(guess, v, held, rates)

    def states(self, m: Model, numbers: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the start states (N, nq), (N, nv) of a model with other numbers, by path and with a leading axis.

        Positions of a geometry that does not close its loops are NaN, and its velocities zero.
        """
        count = len(next(iter(numbers.values())))
        if not m.has_loops:
            assert self.q is not None
            return np.tile(self.q, (count, 1)), np.tile(self.v, (count, 1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssemblyWarning)  # NaN says it
            q = m.assemble(self.q, self.fixed, parameters=numbers)
        v = np.zeros((count, m.nv))
        for i in np.flatnonzero(np.isfinite(q).all(axis=1)) if self.rates or m.driven_names else ():
            v[i] = m.with_values({path: x[i] for path, x in numbers.items()}).project_velocity(q[i], fixed=self.rates)
        return q, v

    def state(self, m: Model) -> tuple[np.ndarray, np.ndarray]:
        """Return the start state; where there are loops, one that closes them and has the coordinates that are set."""
        if not m.has_loops:
            assert self.q is not None
            return self.q, self.v
        q = m.assemble(self.q, self.fixed)
        return q, m.project_velocity(q, fixed=self.rates)


def _keyframe(m: Model, name: str) -> np.ndarray:
    if name not in m.keyframes:
        there = f"choose from {', '.join(m.keyframes)}" if m.keyframes else "it has none, so leave --keyframe out"
        raise ArgumentError(f"--keyframe {name}: model '{m.name}' has no keyframe of this name; {there}")
    return m.keyframes[name]


def _name(setting: str) -> str:
    return setting.rpartition("=")[0].strip()
