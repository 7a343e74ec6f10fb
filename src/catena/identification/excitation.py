"""Paths that excite the base parameters: finite Fourier series whose regressor is well conditioned. [SGTOD97]

Each coordinate moves by

    q(t) = center + sum over k of a_k cos(k w t) + b_k sin(k w t),   w = 2 pi / duration,

with rate and acceleration zero at t = 0, where it begins and ends. Amplitudes r_k = |(a_k, b_k)| bound the motion at all times: positions
by the sum of r_k about the centre, rates by that of k w r_k, accelerations by that of k^2 w^2 r_k.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from catena.control.paths import Path
from catena.errors import ArgumentError, ModelError
from catena.identification.base import base_parameters, states
from catena.kernels.tracing import frozen
from catena.model import Mechanism
from catena.model.values import floats
from catena.simulation.arguments import positive

#: Samples of a period for each harmonic, rows of the regressor for each base parameter at least; steps of each search.
_SAMPLES, _ROWS, _STEPS = 8, 3, 150

#: Amplitudes are rounded at zero by this part of the range, so that their bounds are smooth.
_ROUND = 1e-6


class FourierPath(Path):
    """A path of finite Fourier series, which begins and ends at rest in the same place; as a `Path` it stands still before and after.

    `cosines` and `sines` (harmonics, nv) are its coefficients about `center`, `condition` is the condition number of the regressor of base
    parameters along it, whose columns are scaled by those over random states.
    """

    def __init__(self, center: np.ndarray, cosines: np.ndarray, sines: np.ndarray, duration: float, condition: float) -> None:
        self.center, self.cosines, self.sines, self.condition = center, cosines, sines, condition
        start = center + cosines.sum(axis=0)
        super().__init__(start, start, duration, self._at)

    def __repr__(self) -> str:
        return f"<FourierPath of {len(self.sines)} harmonics in {self.duration:g} s, condition number {self.condition:.3g}>"

    def _at(self, t: Any) -> tuple[Any, Any, Any]:
        position, rate, acceleration = self.center + 0.0 * t, 0.0 * self.center * t, 0.0 * self.center * t
        for k, (a, b) in enumerate(zip(self.cosines, self.sines, strict=True), 1):
            w = 2.0 * np.pi * k / self.duration
            c, s = np.cos(w * t), np.sin(w * t)
            position = position + a * c + b * s
            rate = rate + w * (b * c - a * s)
            acceleration = acceleration - w * w * (a * c + b * s)
        return position, rate, acceleration


def excitation(
    m: Mechanism, duration: float, *, harmonics: int = 5, reach: Any = 1.0, max_rate: Any = None, max_acceleration: Any = None,
    joints: Collection[str] | None = None, starts: int = 3, seed: int = 0,
) -> FourierPath:  # fmt: skip
    """Return a path of a tree on which joint forces tell its base parameters well: the regressor has a small condition number.

    It takes `duration` [s] and has so many `harmonics`. Positions stay within the limits of the joints, and those without limits within
    `reach` [rad, or m] of home, or of zero; rates within `max_rate` and the `velocity` of the joints, accelerations within
    `max_acceleration`. Each is a number, or one for each coordinate. `joints` names options of joints among the parameters, as in
    `ct.base_parameters`. The search is by exact derivatives, from several random `starts`; the best is taken.

    >>> m = ct.Model("double pendulum")
    >>> m.add("upper", ct.rod(1.0, mass=2.0), ct.Revolute("y", limits=(-2, 0)))
    >>> m.add("lower", ct.rod(1.0, mass=3.0), ct.Revolute("y"), parent="upper", at=(1, 0, 0))
    >>> path = ct.excitation(m, 4.0, max_rate=3.0)
    >>> q, v, vdot = path(np.linspace(0.0, 4.0, 400))
    >>> bool((q[:, 0] >= -2.0).all()), bool((np.abs(q[:, 1]) <= 1.0).all()), bool((np.abs(v) <= 3.0).all())
    (True, True, True)
    >>> path.condition < 10.0
    True
    """
    m = frozen(m, "excitation")
    problem = _Problem(
        m, positive("excitation: duration", duration, "give a time above 0 [s]"), harmonics, reach, max_rate, max_acceleration, joints
    )
    rng = np.random.default_rng(seed)
    if starts < 1:
        raise ArgumentError(f"excitation: starts = {starts} is not positive; give 1 or more")
    return min((problem.searched(rng) for _ in range(starts)), key=lambda path: path.condition)


class _Problem:
    """The search for a path: unknowns are centres and coefficients, as parts of the range of each coordinate."""

    def __init__(
        self, m: Mechanism, duration: float, harmonics: int, reach: Any, max_rate: Any, max_acceleration: Any, joints: Any
    ) -> None:
        if m.has_loops:
            raise ModelError(
                f"excitation: model '{m.name}' has loops; move its motors along paths of your own, and make states by ct.reduced"
            )
        if m.nq != m.nv:
            name = next(link.name for link in m.links if link.joint.nq != link.joint.nv)
            raise ModelError(f"excitation: the positions of joint '{name}' of model '{m.name}' are not plain numbers; hold it by ct.Fixed")
        if harmonics < 2:
            raise ArgumentError(f"excitation: harmonics = {harmonics} do not begin and end at rest; give 2 or more")
        self.m, self.duration, self.harmonics = m, duration, harmonics
        middle = np.zeros(m.nv) if m.home is None else m.home
        reach = _limits("reach", reach, m.nv)
        lower, upper = (np.concatenate([getattr(link.joint, end) for link in m.links]) for end in ("lower", "upper"))
        self.lower = np.where(np.isfinite(lower), lower, np.minimum(middle, upper) - reach)
        self.upper = np.where(np.isfinite(upper), upper, np.maximum(middle, lower) + reach)
        self.range = 0.5 * (self.upper - self.lower)
        self.k = np.arange(1, harmonics + 1)
        w = 2.0 * np.pi / duration * self.k
        speeds = np.concatenate([link.joint.most_velocity for link in m.links])
        speeds = speeds if max_rate is None else np.minimum(_limits("max_rate", max_rate, m.nv), speeds)
        accelerations = None if max_acceleration is None else _limits("max_acceleration", max_acceleration, m.nv)
        bounds = [(w, speeds if np.isfinite(speeds).any() else None), (w**2, accelerations)]
        #: what amplitudes are multiplied by, as a part of what they may be (bounds, harmonics, nv)
        self.rates = np.array([np.outer(f, self.range) / most for f, most in bounds if most is not None])
        self.rates = self.rates.reshape(-1, harmonics, m.nv)
        from scipy.linalg import null_space  # which takes long to import, as below

        self.still = null_space(w[None] ** 2), null_space(w[None])  # coefficients of cosines and sines that begin at rest
        self.base = base_parameters(m, joints=joints)
        if not self.base.number:
            raise ModelError(f"excitation: joint forces of model '{m.name}' depend on none of its parameters")
        self.columns = columns = list(self.base.columns)
        over = self.base.regressor(*states(m, m.v_names, len(self.base.parameters)))[:, :, columns]
        self.scale = 1.0 / np.linalg.norm(over.reshape(-1, len(columns)), axis=0)
        count = max(_SAMPLES * harmonics, -(-_ROWS * len(columns) // m.nv))
        self.t = duration * np.arange(count) / count
        phase = np.outer(self.t, w)
        c, s = np.cos(phase), np.sin(phase)
        #: positions, rates and accelerations of the cosines and sines, (3, samples, harmonics)
        self.of_cosines, self.of_sines = np.array([c, -w * s, -(w**2) * c]), np.array([s, w * c, -(w**2) * s])
        self.gradient = self.base.regressor.vjp(("q", "v", "vdot"))

    def coefficients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return centres, cosines and sines, as parts of the ranges."""
        x = x.reshape(-1, self.m.nv)
        return x[0], self.still[0] @ x[1 : self.harmonics], self.still[1] @ x[self.harmonics :]

    def objective(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the logarithm of the condition number, and its gradient."""
        center, a, b = self.coefficients(x)
        q, v, vdot = (np.einsum("psk,kn->psn", self.of_cosines, a) + np.einsum("psk,kn->psn", self.of_sines, b)) * self.range
        q = q + 0.5 * (self.lower + self.upper) + center * self.range
        state = (*((self.t,) if self.m.driven_names else ()), q, v, vdot)
        Y = self.base.regressor(*state)
        left, sizes, right = np.linalg.svd((Y[:, :, self.columns] * self.scale).reshape(-1, len(self.columns)), full_matrices=False)
        bar = np.zeros(Y.shape)
        own = np.outer(left[:, 0], right[0]) / sizes[0] - np.outer(left[:, -1], right[-1]) / sizes[-1]
        bar[:, :, self.columns] = own.reshape(*Y.shape[:2], -1) * self.scale
        by = np.array(self.gradient(*state, bar)) * self.range
        by_a, by_b = (np.einsum("psk,psn->kn", of, by) for of in (self.of_cosines, self.of_sines))
        slope = np.concatenate([by[0].sum(axis=0)[None], self.still[0].T @ by_a, self.still[1].T @ by_b])
        return float(np.log(sizes[0] / sizes[-1])), slope.ravel()

    def room(self, x: np.ndarray) -> np.ndarray:
        """Return what is left of each bound, as a part of it."""
        center, a, b = self.coefficients(x)
        r = np.sqrt(a * a + b * b + _ROUND**2)
        return np.concatenate([1.0 - center - r.sum(axis=0), 1.0 + center - r.sum(axis=0), (1.0 - (self.rates * r).sum(axis=1)).ravel()])

    def room_slope(self, x: np.ndarray) -> np.ndarray:
        """Return its derivative."""
        _, a, b = self.coefficients(x)
        n, r = self.m.nv, np.sqrt(a * a + b * b + _ROUND**2)
        slopes = []
        for center, factors in ((-1.0, np.ones_like(r)), (1.0, np.ones_like(r)), *((0.0, f) for f in self.rates)):
            parts = [np.full((1, n), center), -self.still[0].T @ (factors * a / r), -self.still[1].T @ (factors * b / r)]
            whole = np.concatenate(parts)  # each bound of a coordinate depends on its own unknowns only
            slopes += [(whole * np.eye(n)[j]).ravel() for j in range(n)]
        return np.array(slopes)

    def within(self, x: np.ndarray) -> np.ndarray:
        """Return unknowns that keep all bounds: amplitudes that are too large are smaller."""
        n = self.m.nv
        center, a, b = self.coefficients(x)
        center = np.clip(center, -0.9, 0.9)
        r = np.sqrt(a * a + b * b + _ROUND**2)
        used = np.max([r.sum(axis=0) / (1.0 - np.abs(center)), *(self.rates * r).sum(axis=1)], axis=0)
        return np.concatenate([center[None], x.reshape(-1, n)[1:] / np.maximum((1.0 + _ROUND) * used, 1.0)]).ravel()

    def searched(self, rng: np.random.Generator) -> FourierPath:
        """Return the path that a search from a random start comes to."""
        from scipy.optimize import minimize

        n = self.m.nv
        first = rng.normal(size=(2 * self.harmonics - 1, n))
        first[0] = 0.2 * rng.uniform(-1.0, 1.0, n)
        bounds: Any = {"type": "ineq", "fun": self.room, "jac": self.room_slope}
        options = {"maxiter": _STEPS, "ftol": 1e-4}
        found = minimize(self.objective, self.within(first.ravel()), jac=True, method="SLSQP", constraints=[bounds], options=options)
        x = self.within(found.x)
        center, a, b = self.coefficients(x)
        condition = float(np.exp(self.objective(x)[0]))
        return FourierPath(0.5 * (self.lower + self.upper) + center * self.range, a * self.range, b * self.range, self.duration, condition)


def _limits(what: str, given: Any, count: int) -> np.ndarray:
    """Return a positive number for each coordinate."""
    found = floats(f"excitation: {what}", given, f"give a number, or {count}")
    if found.shape not in ((), (count,)) or not (np.isfinite(found).all() and (found > 0.0).all()):
        raise ArgumentError(f"excitation: {what} = {found.tolist()}; give a number above 0, or {count}, one for each coordinate")
    return np.broadcast_to(found, (count,))
