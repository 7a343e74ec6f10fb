"""Lengths and placements of mechanisms with loops, from measured positions: those that close the loops best.

Positions q with noise leave a closure residual r(q, x). To first order the smallest change of q that closes the loops has the length
|(J_q J_q^T)^-1/2 r|, which is minimised over x: weighted least squares, with weights that follow from the solution before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from catena.errors import ArgumentError
from catena.formulations.loops.basic_constraints import closure_residual
from catena.formulations.loops.constraints import constraint_jacobian
from catena.identification.base import grouped
from catena.identification.identified import Identified, check_told, enough, inverse_gram, minimised, samples
from catena.kernels.tracing import traced_kernel
from catena.loops.scaling import mechanism_size
from catena.model import Mechanism
from catena.tolerances import RANK

#: Solutions, each with the weights of the one before.
_PASSES = 4

#: Steps of Newton's by which positions are moved to those that close the loops.
_STEPS = 8

#: Rows of the residual that do not depend on positions, such as those across the plane of a planar linkage, hold exactly: they have the
#: weight of a position this part as noisy.
_EXACT = 1e-4

_FEWER = "Name fewer of them, for angles tell the proportions of a mechanism, not its size; or measure positions that are further apart"


def identify_geometry(given: Any, m: Mechanism, parameters: str | Collection[str], q: Any, t: Any, noise: Any) -> Identified:
    """Return lengths and placements from positions."""
    if not m.has_loops:
        raise ArgumentError(f"identify: model '{m.name}' has no loops, and positions alone tell nothing of it; give v, vdot and tau too")
    varied = m.varying(parameters, "identify")
    known, paths = m.parameters(), varied.varied
    if m.driven_names and t is None:
        raise ArgumentError(f"identify: joints of model '{m.name}' are driven; give the times of the samples, t")
    state = samples({**({"t": (t, 0)} if m.driven_names else {}), "q": (q, m.nq)})

    def function(tree: Any, q: Any) -> Any:
        return constraint_jacobian(tree, q, closure_residual)[0]

    kernel = traced_kernel(varied, "closure_residual", ("q",), ("residual",), function)
    slopes = kernel.jacobian("residual", ("q", *paths), values=True)
    shapes = [known[path].shape for path in paths]
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    names = tuple(f"{path}{label}" for path, shape in zip(paths, shapes, strict=True) for label in _labels(path, shape))
    before = np.concatenate([known[path].value.ravel() for path in paths])

    def by_path(x: np.ndarray) -> dict[str, Any]:
        return {path: x[a:b].reshape(shape) for path, shape, a, b in zip(paths, shapes, ends[:-1], ends[1:], strict=True)}

    def evaluated(x: np.ndarray, state: Sequence[np.ndarray] = state) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the residual, and its derivatives by positions and by the unknowns."""
        r, by_q, *by_x = slopes(*state, **by_path(x))
        return r, by_q, np.concatenate([d.reshape(*r.shape, -1) for d in by_x], axis=2)

    *time, closed = state
    for _ in range(_STEPS):  # lengths in proportion are alike where loops are closed, and not quite where they are not
        r, by_q, _ = evaluated(before, (*time, closed))
        closed = m.integrate(closed, -np.einsum("sij,sj->si", np.linalg.pinv(by_q, rcond=RANK), r))
    _, by_q, by_x = evaluated(before, (*time, closed))
    weights, noisy = _weights(by_q)
    equations = int(np.count_nonzero(noisy))
    enough(equations, len(names), "equations")
    angles = np.array([name.endswith((".roll", ".pitch", ".yaw")) for name in names])
    sizes = np.where(angles, 1.0, mechanism_size(m))
    check_told(names, grouped((weights @ by_x).reshape(-1, len(names)), range(len(names)), sizes), "these positions", _FEWER)

    def residual(x: np.ndarray) -> np.ndarray:
        return np.einsum("sij,sj->si", weights, evaluated(x)[0]).ravel()

    def jacobian(x: np.ndarray) -> np.ndarray:
        return (weights @ evaluated(x)[2]).reshape(-1, len(x))

    x = before
    for _ in range(_PASSES):
        weights, noisy = _weights(evaluated(x)[1])
        x = minimised(residual, jacobian, x)
    J, final = jacobian(x), residual(x)
    exact = np.linalg.matrix_rank(J[~noisy.ravel()] / np.linalg.norm(J, axis=0), tol=RANK) if not noisy.all() else 0
    freedom = equations - (len(x) - exact)
    deviation = np.sqrt(final @ final / freedom) if noise is None else float(noise)
    covariance = deviation**2 * inverse_gram(J)
    residuals = np.where(noisy, final.reshape(noisy.shape), 0.0)
    errors, values = by_path(np.sqrt(np.diag(covariance))), by_path(x)
    return Identified(values, errors, names, x, covariance, residuals, np.array([deviation]), before, given.with_values(values))


def _weights(by_q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return by what the residual of each sample is multiplied so that its noise is that of positions, and which rows have noise."""
    left, size, _ = np.linalg.svd(by_q)
    size = np.concatenate([size, np.zeros((len(size), left.shape[2] - size.shape[1]))], axis=1)
    noisy = size > RANK * size.max()
    return left.transpose(0, 2, 1) / np.where(noisy, size, _EXACT * size.max())[:, :, None], noisy


def _labels(path: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return what tells the entries of a number of the model apart."""
    if not shape:
        return ("",)
    both = (".x", ".y", ".z", ".roll", ".pitch", ".yaw")
    if path.endswith(".rpy"):
        return both[3:]
    return both[: shape[0]] if shape in ((3,), (6,)) else tuple(f".{i}" for i in range(int(np.prod(shape))))
