"""Parameters from measurements, by least squares, with standard errors."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ArgumentError
from catena.identification.base import base_parameters, grouped, states
from catena.identification.geometry import identify_geometry
from catena.identification.identified import Identified, check_told, enough, inverse_gram, minimised, samples
from catena.identification.nearest import nearest
from catena.identification.regressor import independent, joint_options, regressor
from catena.identification.unknowns import Unknowns
from catena.kernels.dynamics import inverse_dynamics
from catena.kernels.named_coordinates import coordinates
from catena.kernels.tracing import frozen
from catena.model import Mechanism
from catena.model.values import floats

_EXCITE = "Measure a motion that excites them, as ct.excitation(m, duration) does"
_FEWER = 'Name fewer of them, or give parameters="base"'


def identify(
    m: Any, parameters: str | Collection[str], q: Any, v: Any = None, vdot: Any = None, tau: Any = None, *, t: Any = None,
    actuated: Collection[str] | None = None, joints: Collection[str] | None = None, noise: Any = None,
) -> Identified:  # fmt: skip
    """Return parameters of a model from measured motions and joint forces, or from positions alone, by least squares.

    From positions q, velocities v, accelerations vdot (samples, nv) and joint forces tau (samples, nv):

    - `parameters="base"`: the base parameters of `ct.base_parameters(m, actuated, joints=joints)`, by linear least squares.
    - a list of bodies, "hand", or of paths of `m.parameters()`: mass, com and inertia of bodies, and damping, stiffness, friction and
      armature of joints. Bodies have inertias that real bodies can have [RW22], joints have no negative numbers.

    With loops, `actuated` names the coordinates with motors; tau of others does not count. States must close the loops: `ct.reduced` makes
    them of the motors' coordinates. Where the mechanism depends on time, give times t (samples). Noise of tau is estimated for each
    coordinate, and the equations weighted by it, unless `noise`, its standard deviation, is given: a number, or one for each row of the
    regressor.

    From positions q (samples, nq) alone: lengths and placements of a mechanism with loops, such as "pin.at_b.xyz" or "rod.length", by the
    closure residual. All joints are measured, with noise of the same standard deviation.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y", damping=0.1))
    >>> rng = np.random.default_rng(0)
    >>> q, v, vdot = rng.normal(size=(3, 200, 1))
    >>> heavier = m.with_values({"arm.mass": 2.5, "arm.damping": 0.3})
    >>> tau = ct.inverse_dynamics(heavier)(q, v, vdot) + 0.01 * rng.normal(size=(200, 1))
    >>> found = ct.identify(m, ["arm.mass", "arm.damping"], q, v, vdot, tau)
    >>> print(found)
    arm.mass         2.50003 +- 0.0002     (2)
    arm.damping     0.301073 +- 0.0007     (0.1)
    200 samples, noise 0.01
    """
    given, m = m, frozen(m, "identify")
    if v is None and vdot is None and tau is None:
        return identify_geometry(given, m, parameters, q, t, noise)
    if v is None or vdot is None or tau is None:
        raise ArgumentError("identify: give q, v, vdot and tau, or q alone for the geometry of loops")
    if m.time_dependent and t is None:
        raise ArgumentError(f"identify: model '{m.name}' depends on time; give the times of the samples, t")
    unknown = None if isinstance(parameters, str) and parameters == "base" else Unknowns(m, parameters)
    arrays = {"t": (t, 0)} if m.time_dependent else {}
    measured = _Measured(m, {**arrays, "q": (q, m.nq), "v": (v, m.nv), "vdot": (vdot, m.nv), "tau": (tau, m.nv)}, actuated, noise)
    return _base(given, measured, joint_options(m, joints)) if unknown is None else _named(given, measured, unknown)


class _Measured:
    """Measured states and joint forces: how these differ from those of the model, along the rows of the regressor (samples, rows)."""

    def __init__(self, m: Mechanism, arrays: dict[str, tuple[Any, int]], actuated: Collection[str] | None, noise: Any) -> None:
        self.m, self.actuated = m, actuated
        *time, q, v, vdot, tau = samples(arrays)
        self.state = (*(time if m.driven_names else ()), q, v, vdot)
        expected, self._mixing = inverse_dynamics(m)(*time, q, v, vdot), None
        if m.has_loops:
            by = independent(m, actuated)
            motors = list(coordinates(m, m.v_names if actuated is None else actuated, "identify: actuated"))
            N = by.basis(*self.state[:-2])
            self.force = np.einsum("sij,si->sj", N[:, motors], tau[:, motors]) - np.einsum("sij,si->sj", N, expected)
            if len(motors) > len(by.names):  # noise of several motors is in each row
                self._mixing = np.linalg.qr(N[:, motors])[1].transpose(0, 2, 1)
                self.force = self._unmixed(self.force[:, :, None])[:, :, 0]
        else:
            self.force = tau - expected
        rows = self.force.shape[1]
        self.noise = None if noise is None else np.broadcast_to(floats("identify: noise", noise, "give a number"), (rows,))
        if self.noise is not None and not (self.noise > 0.0).all():
            raise ArgumentError(f"identify: noise {self.noise.tolist()} is not positive; give standard deviations, or leave it out")

    def _unmixed(self, x: np.ndarray) -> np.ndarray:
        """Return rows whose noise is independent."""
        return x if self._mixing is None else np.linalg.solve(self._mixing, x)

    def columns(self, kernel: Any, columns: list[int]) -> np.ndarray:
        """Return columns of the regressor (samples, rows, columns)."""
        return self._unmixed(kernel(*self.state)[:, :, columns])


class _Fit(NamedTuple):
    """A solution, the change of pi that it is, the factor R of the weighted columns, what is left, and the noise of each row."""

    solution: np.ndarray
    change: np.ndarray
    R: np.ndarray
    left: np.ndarray
    noise: np.ndarray


def _fitted(measured: _Measured, X: np.ndarray, unknowns: int, solve: Callable[..., tuple[np.ndarray, np.ndarray]]) -> _Fit:
    """Return the fit of X times the change of pi to the forces; `solve(R, y)` minimises |R change - y|. [G91], weighted by the noise.

    Noise that is not given is estimated for each row from a first solution with equal weights.
    """
    enough(measured.force.size, unknowns, "equations")
    count, rows = measured.force.shape

    def solved(noise: np.ndarray) -> _Fit:
        weighted = np.concatenate([X, measured.force[:, :, None]], axis=2) / noise[:, None]
        R = np.linalg.qr(weighted.reshape(-1, X.shape[2] + 1))[1]
        solution, change = solve(R[:, :-1], R[:, -1])
        return _Fit(solution, change, R[:, :-1], measured.force - X @ change, noise)

    def deviation(left: np.ndarray) -> np.ndarray:
        return np.maximum(np.sqrt((left**2).sum(axis=0) / (count - unknowns / rows)), np.finfo(float).tiny)

    if measured.noise is not None:
        return solved(measured.noise)
    return solved(deviation(solved(np.ones(rows)).left))


def _base(given: Any, measured: _Measured, joints: tuple[str, ...]) -> Identified:
    """Return the base parameters, by linear least squares."""
    base = base_parameters(measured.m, measured.actuated, joints=joints)
    X = measured.columns(base.regressor, list(base.columns))
    enough(measured.force.size, base.number, "equations")
    check_told(base.names, grouped(X.reshape(-1, base.number), range(base.number), np.ones(base.number)), "the samples", _EXCITE)

    def solve(R: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        change = np.linalg.lstsq(R, y, rcond=None)[0]
        return change, change

    fit = _fitted(measured, X, base.number, solve)
    values, covariance = base.values + fit.change, inverse_gram(fit.R)
    errors = np.sqrt(np.diag(covariance))
    model = nearest(given, base, joints, values, errors)
    by_name, errors_by_name = (dict(zip(base.names, x.tolist(), strict=True)) for x in (values, errors))
    return Identified(by_name, errors_by_name, base.names, values, covariance, fit.left, fit.noise, base.values, model)


def _named(given: Any, measured: _Measured, unknown: Unknowns) -> Identified:
    """Return parameters that are named, with inertias of real bodies."""
    m, count = measured.m, len(unknown.names)
    kernel = regressor(m, measured.actuated, joints=unknown.joints)
    X = measured.columns(kernel, unknown.columns)
    by_phi = unknown.at(unknown.start)[3]
    told = grouped((X @ by_phi).reshape(-1, count), range(count), unknown.sizes)
    if len(told.kept) < count:  # because of the samples, or in any motion
        at_random = kernel(*states(m, kernel.labels["regressor"], count))[:, :, unknown.columns] @ by_phi
        check_told(unknown.names, grouped(at_random.reshape(-1, count), range(count), unknown.sizes), "joint forces", _FEWER)
        enough(measured.force.size, count, "equations")
        check_told(unknown.names, told, "the samples", _EXCITE)

    def solve(R: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        def jacobian(theta: np.ndarray) -> np.ndarray:
            _, by_theta, _, by_phi = unknown.at(theta)
            return R @ by_phi @ by_theta

        theta = minimised(lambda theta: R @ unknown.at(theta)[2] - y, jacobian, unknown.start, unknown.lowest)
        return theta, unknown.at(theta)[2]

    fit = _fitted(measured, X, count, solve)
    values, by_theta, _, by_phi = unknown.at(fit.solution)
    covariance = by_theta @ inverse_gram(fit.R @ by_phi @ by_theta) @ by_theta.T
    by_path = unknown.by_path(values)
    errors = unknown.by_path(np.sqrt(np.diag(covariance)))
    names = tuple(unknown.names)
    return Identified(by_path, errors, names, values, covariance, fit.left, fit.noise, unknown.values, given.with_values(by_path))
