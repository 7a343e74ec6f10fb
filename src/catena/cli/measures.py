"""What `catena sweep` measures: forces, inertias, frequencies and positions of a model with many values of its numbers.

All values go through a kernel at once, and all runs are one rollout; equilibria alone are sought one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

import catena as ct
from catena.errors import ArgumentError, ModelError
from catena.facade import Model
from catena.model.wording import choice
from catena.simulation import Rollout, settings
from catena.simulation.trajectory import force_units

#: The most numbers that runs record; where there are more, samples are several steps apart.
_RECORDED = 20_000_000


@dataclass(frozen=True)
class Cases:
    """States of a model, each with its own numbers by path: q (N, nq), v (N, nv); how they run, and what is said of some of them."""

    model: Model
    numbers: dict[str, np.ndarray]
    q: np.ndarray
    v: np.ndarray
    until: float
    step: float
    integrator: str
    notes: list[tuple[int, str]] = field(default_factory=list)  # by the number of the case

    @property
    def paths(self) -> list[str]:
        """Which numbers vary."""
        return list(self.numbers)

    def call(self, kernel: Any) -> Any:
        """Return the result of a kernel at the start, at rest."""
        nothing = np.zeros(self.model.nv)
        known = {"t": 0.0, "q": self.q, "v": nothing, "vdot": nothing, **self.numbers}
        return kernel(*(known[port.name] for port in kernel.inputs))

    @cached_property
    def run(self) -> Rollout:
        """The motions of all cases."""
        m, steps = self.model, int(np.ceil(self.until / self.step * (1.0 - 1e-12)))
        every = -(-len(self.q) * steps * (m.nq + m.nv) // _RECORDED)
        steps = -(-steps // every) * every
        options = {"step": self.until / steps, "steps": steps, "every": every, "integrator": self.integrator}
        runs = ct.rollout(m, self.q, self.v if self.v.any() else None, parameters=self.numbers, **options)
        self.notes.extend((int(i), f"the run fails, {runs.reason[i]}; give a shorter --step") for i in np.flatnonzero(runs.failed))
        return runs


class Column(NamedTuple):
    """A measured quantity: the measure, what it is of, its unit, and its values (N,)."""

    measure: str
    of: str
    unit: str
    values: np.ndarray

    @property
    def name(self) -> str:
        return f"{self.measure} {self.of}".rstrip()


class Measure(NamedTuple):
    """A measure: the units of all that it can be of, by name; what it takes of these where none is named; and its values (N, names)."""

    units: Callable[[Model], dict[str, str]]
    default: Callable[[Model], Sequence[str]]
    values: Callable[[Cases, list[str]], np.ndarray]

    def columns(self, name: str, cases: Cases, of: Sequence[str]) -> list[Column]:
        """Return what is measured, of names or of all."""
        units, chosen = self.units(cases.model), list(of or self.default(cases.model))
        return [Column(name, one, units[one], x) for one, x in zip(chosen, self.values(cases, chosen).T, strict=True)]


def asked(m: Model, text: str) -> tuple[str, list[str]]:
    """Return the measure that WHAT or WHAT:NAME,... asks for, and what it is of; a body stands for all coordinates of its joint."""
    what, colon, rest = (part.strip() for part in text.partition(":"))
    if what not in MEASURES:
        raise ArgumentError(f"--measure {text}: there is no such measure; {choice(what, MEASURES)}")
    known, of = MEASURES[what].units(m), []
    joints = {link.name: (*m.q_names[at_q], *m.v_names[at_v]) for link, at_q, at_v in m.slices()}
    for name in (settings.name_by_body(m, part) for part in rest.split(",")) if colon else ():
        own = [name] if name in known else [one for one in joints.get(name, ()) if one in known]
        if not own:
            raise ArgumentError(
                f"--measure {text}: {what} is not of '{name}'; {'leave the name out' if '' in known else choice(name, known)}"
            )
        of += own
    return what, list(dict.fromkeys(of))


def _torque(cases: Cases, names: list[str]) -> np.ndarray:
    m = cases.model
    motors: Any = {"actuated": names} if m.has_loops else {}
    return cases.call(ct.inverse_dynamics(m, parameters=cases.paths, **motors))[:, [m.v_names.index(name) for name in names]]


def _inertia(cases: Cases, names: list[str]) -> np.ndarray:
    m = cases.model
    if m.has_loops:
        reduced = ct.reduced(m, names if len(names) == m.mobility().freedom else None, parameters=cases.paths)
        kernel, known = reduced.mass_matrix, reduced.names
    else:
        kernel, known = ct.mass_matrix(m, parameters=cases.paths), m.v_names
    for name in names:
        if name not in known:
            raise ArgumentError(f"--measure inertia:{name}: this coordinate follows {', '.join(known)}; name one of these, or as many")
    return np.diagonal(cases.call(kernel), axis1=-2, axis2=-1)[:, [known.index(name) for name in names]]


def _frequency(cases: Cases, names: list[str]) -> np.ndarray:
    found, stable = np.full((len(cases.q), 1), np.nan), dict[int, np.ndarray]()
    numbers = np.concatenate([x.reshape(len(cases.q), -1) for x in cases.numbers.values()], axis=1)
    numbers = numbers / (np.ptp(numbers, axis=0) + 1e-300)
    for i, q in enumerate(cases.q):
        m = cases.model.with_values({path: x[i] for path, x in cases.numbers.items()})
        nearest = min(stable, key=np.abs(numbers - numbers[i]).sum(axis=1).__getitem__, default=None)
        try:
            rest = ct.equilibrium(m, q if nearest is None else stable[nearest])
        except ModelError as error:
            cases.notes.append((i, str(error)))
            continue
        if rest.stability == "unstable":
            cases.notes.append((i, "the equilibrium is unstable; set a position near a stable one"))
            continue
        frequencies, stable[i] = ct.modes(m, rest.q).frequencies, rest.q
        found[i] = min(frequencies[frequencies > 0.0], default=np.nan)
    return found


def _coordinates(cases: Cases, names: list[str], q: np.ndarray, t: Any) -> np.ndarray:
    """Return coordinates and places of bodies (N, samples, names) at positions (N, samples, nq)."""
    m, values, known = cases.model, q, list(cases.model.q_names)
    if not {*names} <= {*known}:
        kernel = ct.poses(m, parameters=cases.paths)
        frames = kernel(*((t,) if m.driven_names else ()), q, *(x[:, None] for x in cases.numbers.values()))
        values, known = np.concatenate([q, frames[..., :3, 3].reshape(*q.shape[:2], -1)], axis=-1), [*known, *_places(m)]
    return values[..., [known.index(name) for name in names]]


def _velocities(cases: Cases, names: list[str]) -> np.ndarray:
    return cases.run.v[..., [cases.model.v_names.index(name) for name in names]]


def _places(m: Model) -> list[str]:
    return [f"{body}.{axis}" for body in m.body_names for axis in "xyz"]


def _all_positions(m: Model) -> dict[str, str]:
    return {**dict(zip(m.q_names, m.q_units, strict=True)), **{place: "m" for place in _places(m) if place not in m.q_names}}


def _by_velocity(units: Callable[[Model], Sequence[str]]) -> Callable[[Model], dict[str, str]]:
    return lambda m: dict(zip(m.v_names, units(m), strict=True))


def _inertia_units(m: Model) -> list[str]:
    return [{"rad/s": "kg m^2", "m/s": "kg"}.get(unit, "") for unit in m.v_units]


def _independent(m: Model) -> Sequence[str]:
    return m.mobility().independent if m.has_loops else m.v_names


def _position(of: Callable[[Cases, list[str]], np.ndarray]) -> Measure:
    return Measure(_all_positions, lambda m: m.q_names, of)


def _velocity(of: Callable[[np.ndarray], np.ndarray]) -> Measure:
    return Measure(_by_velocity(lambda m: m.v_units), lambda m: m.v_names, lambda cases, names: of(_velocities(cases, names)))


#: The measures by name.
MEASURES = {
    "torque": Measure(_by_velocity(lambda m: force_units(m.v_units)), _independent, _torque),
    "inertia": Measure(_by_velocity(_inertia_units), _independent, _inertia),
    "frequency": Measure(lambda m: {"": "Hz"}, lambda m: [""], _frequency),
    "position": _position(lambda cases, names: _coordinates(cases, names, cases.q[:, None], 0.0)[:, 0]),
    "final": _position(lambda cases, names: _coordinates(cases, names, cases.run.q[:, -1:], cases.run.t[-1:])[:, 0]),
    "peak": _position(lambda cases, names: np.abs(_coordinates(cases, names, cases.run.q, cases.run.t)).max(axis=1)),
    "final-velocity": _velocity(lambda v: v[:, -1]),
    "peak-velocity": _velocity(lambda v: np.abs(v).max(axis=1)),
}
