"""Parameters that users name, as unknowns of a least-squares problem."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from catena.errors import ArgumentError
from catena.formulations.inverse.regressor import ENTRIES
from catena.identification import inertias
from catena.identification.regressor import JOINT_OPTIONS, linear_parameters
from catena.loops.scaling import mechanism_size
from catena.model import Mechanism
from catena.model import parameters as numbers
from catena.model.values import names_of

#: What a body's ten numbers are, by the path of the model's number.
PARTS = {"mass": slice(0, 1), "com": slice(1, 4), "inertia": slice(4, 10)}

_LABELS = {"mass": ("",), "com": (".x", ".y", ".z"), "inertia": tuple(f".{'xyz'[i]}{'xyz'[j]}" for i, j in ENTRIES)}


class Unknowns:
    """Numbers of bodies and joints that joint forces are to tell: as theta, which has no bounds but those of joints, as the model's phi.

    `paths` are those of the model, `names` those of single numbers, `joints` the options of joints among them. All the parameters pi that
    belong to them have the numbers `columns`.
    """

    def __init__(self, m: Mechanism, named: Collection[str]) -> None:
        given = names_of("identify: parameters", named, "give paths of m.parameters(), names of bodies, or 'base'")
        bodies = set(m.body_names)
        paths = [path for x in given for path in ([f"{x}.{part}" for part in PARTS] if x in bodies else [x])]
        self.paths = numbers.check(m, paths, "identify")
        if not self.paths:
            raise ArgumentError("identify: no parameter is named; give paths of m.parameters(), names of bodies, or 'base'")
        split = {path: path.rsplit(".", 1) for path in self.paths}
        driven = {link.name for link, _ in m.driven_joints()}
        for path, (owner, what) in split.items():
            if what not in (*PARTS, *JOINT_OPTIONS) or owner not in bodies:
                raise ArgumentError(
                    f"identify: joint forces are not linear in '{path}'; name bodies, or their mass, com, inertia, "
                    f"{', '.join(JOINT_OPTIONS)}; lengths of loops are identified from positions alone, without v, vdot and tau"
                )
            if what in JOINT_OPTIONS and owner in driven:
                raise ArgumentError(f"identify: joint forces do not depend on '{path}', for the joint is driven; leave it out")
        self.model = m
        self.joints = tuple(option for option in JOINT_OPTIONS if any(what == option for _, what in split.values()))
        self._all = list(linear_parameters(m, self.joints))
        self._bodies = [link for link in m.links if any(owner == link.name and what in PARTS for owner, what in split.values())]
        self._options = [path for path, (_, what) in split.items() if what in JOINT_OPTIONS]
        self.columns, self.names, free = [], [], []
        for link in self._bodies:
            first = self._all.index(f"{link.name}.mass")
            for what, at in PARTS.items():
                if f"{link.name}.{what}" in self.paths:
                    free += range(len(self.columns) + at.start, len(self.columns) + at.stop)
                    self.names += [f"{link.name}.{what}{label}" for label in _LABELS[what]]
            self.columns += range(first, first + 10)
        for path in self._options:
            own = [i for i, name in enumerate(self._all) if name == path or name.startswith(f"{path}.")]
            free += range(len(self.columns), len(self.columns) + len(own))
            self.names += [self._all[i] for i in own]
            self.columns += own
        self.free = np.array(free)
        length = mechanism_size(m)
        starts = [inertias.start(link.body, length) for link in self._bodies]
        self.nominal = np.array(list(linear_parameters(m, self.joints).values()))[self.columns]
        self._whole = np.concatenate([*starts, self.nominal[10 * len(self._bodies) :]])
        exact = [np.array([link.body.mass, *link.body.com, *inertias.packed(np.asarray(link.body.inertia))]) for link in self._bodies]
        self.values = np.concatenate([*exact, self.nominal[10 * len(self._bodies) :]])[self.free]  # of the model
        sizes = [length ** np.repeat([0, 1, 2], [1, 3, 6]) for _ in self._bodies]
        self.sizes = np.concatenate([*sizes, np.full(len(self._whole) - 10 * len(self._bodies), length)])[self.free]

    @property
    def bodies(self) -> int:
        """How many bodies have numbers among them."""
        return len(self._bodies)

    @property
    def start(self) -> np.ndarray:
        """The values of theta with which a search begins."""
        return self._whole[self.free]

    @property
    def lowest(self) -> np.ndarray:
        """The lower bounds of theta: numbers of joints are not negative."""
        return np.where(self.free >= 10 * len(self._bodies), 0.0, -np.inf)

    def at(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return phi and its derivative by theta, and the change of pi from the model's and its derivative by phi, where theta is free."""
        whole = self._whole.copy()
        whole[self.free] = theta
        phi, pi, by_theta, by_phi = whole.copy(), whole.copy(), np.eye(len(whole)), np.eye(len(whole))
        for k, link in enumerate(self._bodies):
            at = slice(10 * k, 10 * k + 10)
            found, by_theta[at, at] = inertias.physical(whole[at])
            phi[at] = self._held(link, found)
            pi[at], by_phi[at, at] = inertias.linear(phi[at])
        return phi[self.free], by_theta[np.ix_(self.free, self.free)], pi - self.nominal, by_phi[:, self.free]

    def _held(self, link: Any, phi: np.ndarray) -> np.ndarray:
        """Return phi of a body with what is not named as the model has it, exactly."""
        own = np.array([link.body.mass, *link.body.com, *inertias.packed(np.asarray(link.body.inertia))])
        for what, at in PARTS.items():
            if f"{link.name}.{what}" in self.paths:
                own[at] = phi[at]
        return own

    def by_path(self, x: np.ndarray) -> dict[str, Any]:
        """Return values of single numbers by path, in the shapes of the model."""
        found: dict[str, Any] = {}
        for path in self.paths:
            own = np.array([value for name, value in zip(self.names, x, strict=True) if name == path or name.startswith(f"{path}.")])
            known = self.model.parameters()[path].shape
            found[path] = inertias.unpacked(own) if known == (3, 3) else own.reshape(known)
        return found
