"""Where runs begin, from the options that say so."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from catena.cli.random_state import random_position, random_velocity
from catena.errors import ArgumentError, AssemblyWarning
from catena.facade import Model
from catena.model import Free
from catena.simulation import settings


class Start(NamedTuple):
    """Where to begin: positions and velocities; with loops, these are a guess, of which the coordinates in `fixed` and `rates` are held.

    Velocities that are not in `rates` are zero, or random where there is a generator.
    """

    q: np.ndarray | None
    v: np.ndarray
    fixed: dict[str, float]
    rates: dict[str, float]
    rng: np.random.Generator | None = None

    @staticmethod
    def of(
        m: Model, set_: list[str] | None, set_velocity: list[str] | None = None, random: int | None = None, keyframe: str | None = None
    ) -> Start:
        """Return the start that options ask for."""
        positions, velocities = settings.by_body(m, set_ or []), settings.by_body(m, set_velocity or [])
        rng = None if random is None or keyframe is not None else np.random.default_rng(random)
        guess = _keyframe(m, keyframe) if keyframe is not None else None if rng is None else random_position(m, rng)
        q, v = settings.position(m, positions, m.search_start() if guess is None else guess), settings.velocity(m, velocities)
        named = {_name(text) for text in velocities}
        rates = {name: x for link, _, at in m.slices() for name, x in zip(m.v_names[at], v[at], strict=True) if named & {name, link.name}}
        if not m.has_loops:
            return Start(q, v, {}, rates, rng)
        plain = {name for link, at, _ in m.slices() if link.joint.nq == link.joint.nv for name in (link.name, *m.q_names[at])}
        fixed, guessed = ([text for text in positions if (_name(text) in plain) is fixed] for fixed in (True, False))
        if guessed:
            guess = settings.position(m, guessed, m.search_start() if guess is None else guess)
        marked = settings.position(m, fixed, np.full(m.nq, np.nan))
        held = {name: x for name, x in zip(m.q_names, marked, strict=True) if not np.isnan(x)}
        return Start(guess, v, held, rates, rng)

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
            v = self.v if self.rng is None else random_velocity(m, self.q, self.rng)
            return self.q, np.array([self.rates.get(name, x) for name, x in zip(m.v_names, v, strict=True)])
        q = m.assemble(self.q, self.fixed)
        return q, m.project_velocity(q, None if self.rng is None else random_velocity(m, q, self.rng), fixed=self.rates)


def with_base_held(m: Model, hold: bool | None) -> tuple[Model, str | None]:
    """Return a model whose free body that carries the others is fixed, and its name; unless told, where nothing touches the ground."""
    carrying = {link.parent for link in m.links}
    bases = [(link.name, at) for link, at, _ in m.slices() if isinstance(link.joint, Free) and link.name in carrying]
    if hold and len(bases) != 1:
        found = "has no free body that carries others" if not bases else f"has several: {', '.join(name for name, _ in bases)}"
        raise ArgumentError(f"--hold-base is for a robot with one base that floats, and model '{m.name}' {found}; leave it out")
    if hold is False or len(bases) != 1 or (hold is None and m.contacts):
        return m, None
    ((name, at),) = bases
    held = m.copy()
    held.lock({name: m.search_start()[at]})
    return held, name


def _keyframe(m: Model, name: str) -> np.ndarray:
    if name not in m.keyframes:
        there = f"choose from {', '.join(m.keyframes)}" if m.keyframes else "it has none, so leave --keyframe out"
        raise ArgumentError(f"--keyframe {name}: model '{m.name}' has no keyframe of this name; {there}")
    return m.keyframes[name]


def _name(setting: str) -> str:
    return setting.rpartition("=")[0].strip()
