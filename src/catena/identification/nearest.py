"""The model nearest to another whose base parameters are given: base parameters leave open what a body's own numbers are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from catena.identification import inertias
from catena.identification.base import BaseParameters
from catena.identification.unknowns import Unknowns

#: Weights of the distance from the model's own numbers, beside the squares of deviations in standard errors; the last counts. Solutions
#: with each begin at the one before, for Newton's steps from afar are short where no real bodies have the base parameters.
_DRAWN = tuple(10.0**k for k in range(3, -7, -1))

#: Newton's steps at most, the shortest part of one, and the decrease at which they end: less than a standard error could show.
_STEPS, _SHORTEST, _DONE = 50, 1e-9, 1e-9

#: Numbers of joints that are zero in the model begin with this.
_LEAST = 1e-6


def nearest(given: Any, base: BaseParameters, joints: tuple[str, ...], values: np.ndarray, errors: np.ndarray) -> Any:
    """Return the model with these base parameters, and with inertias of real bodies: the one of least divergence from the model's own.

    Where no real bodies have these base parameters, others within few standard errors take their place.
    """
    m = given.frozen()
    felt = [name for k, name in enumerate(m.body_names) if base.K[:, 10 * k : 10 * k + 10].any()]
    options = [f"{link.name}.{option}" for link in m.links for option in joints if link.joint.nv]
    unknown = Unknowns(m, [*felt, *options])
    bodies = unknown.bodies
    K, wanted = base.K[:, unknown.columns] / errors[:, None], values / errors
    start = unknown.at(unknown.start)[2] + unknown.nominal
    own = start[10 * bodies :]
    near = np.divide(1.0, own, out=np.zeros(len(own)), where=own > 0.0)  # numbers of joints that are zero draw nothing
    start[10 * bodies :] = np.maximum(own, _LEAST)

    def evaluated(pi: np.ndarray, drawn: float) -> tuple[float, np.ndarray, np.ndarray]:
        off, rest = K @ pi - wanted, pi[10 * bodies :]
        if (rest <= 0.0).any():
            return np.inf, pi, K
        away = float(np.sum(rest * near - np.log(rest)))
        by = np.concatenate([np.zeros(10 * bodies), near - 1.0 / rest])
        second = np.diag(np.concatenate([np.zeros(10 * bodies), 1.0 / rest**2]))
        for k in range(bodies):
            own = slice(10 * k, 10 * k + 10)
            further, by[own], second[own, own] = inertias.divergence(pi[own], start[own])
            away += further
        return float(0.5 * off @ off) + drawn * away, K.T @ off + drawn * by, K.T @ K + drawn * second

    pi = start
    for drawn in _DRAWN:
        pi = _least(lambda pi, drawn=drawn: evaluated(pi, drawn), pi)
    phi = np.concatenate([*(inertias.unlinear(x) for x in pi[: 10 * bodies].reshape(-1, 10)), pi[10 * bodies :]])
    return given.with_values(unknown.by_path(phi[unknown.free]))


def _least(function: Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]], x: np.ndarray) -> np.ndarray:
    """Return where a convex function is least, of which value, gradient and Hessian are known, by Newton's steps that are halved."""
    value, gradient, hessian = function(x)
    for _ in range(_STEPS):
        scale = 1.0 / np.sqrt(np.diag(hessian))
        step = -scale * np.linalg.solve(hessian * np.outer(scale, scale), scale * gradient)
        decrease = float(-gradient @ step)
        part = 1.0
        while decrease > _DONE and part > _SHORTEST:
            found = function(x + part * step)
            if found[0] <= value - 0.1 * part * decrease:
                break
            part *= 0.5
        else:
            return x
        x, (value, gradient, hessian) = x + part * step, found
    return x
