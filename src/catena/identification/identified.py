"""What an identification returns, and how measurements are read."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from catena.errors import ArgumentError, ConvergenceWarning
from catena.identification.base import Grouping, combination
from catena.model.values import floats


@dataclass(frozen=True, eq=False)
class Identified:
    """Parameters from measurements: `values` and standard `errors` by path, or by the name of a base parameter; printed, a table.

    `names` are those of single numbers, such as "hand.com.x", in the order of `estimate` and `covariance`; inertias are about the centre of
    mass, as in `m.parameters()`. `residual` is what the estimate leaves of the measurements: joint forces (samples, rows), or positions
    [rad, m], by least squares. `noise` is the standard deviation of the measurements, estimated or given, `model` the model with these
    numbers. With `parameters="base"` it is a model that has the base parameters found, and the rest near its own.
    """

    values: dict[str, Any]
    errors: dict[str, Any]
    names: tuple[str, ...]
    estimate: np.ndarray
    covariance: np.ndarray
    residual: np.ndarray
    noise: np.ndarray
    before: np.ndarray
    model: Any = field(repr=False)

    def __str__(self) -> str:
        wide = max(map(len, self.names))
        errors = np.sqrt(np.diag(self.covariance))
        lines = [
            f"{name:{wide}} {value:12.6g} +- {error:<10.2g} ({before:.6g})"
            for name, value, error, before in zip(self.names, self.estimate, errors, self.before, strict=True)
        ]
        return "\n".join([*lines, f"{len(self.residual)} samples, noise {np.sqrt(np.mean(self.noise**2)):.2g}"])


def samples(arrays: Mapping[str, tuple[Any, int]]) -> list[np.ndarray]:
    """Return measurements, each with its number of columns, as arrays of as many rows; or say what is wrong with one."""
    found: list[np.ndarray] = []
    for name, (given, count) in arrays.items():
        x = floats(f"identify: {name}", given, "give numbers")
        shape = (*x.shape[:1], count) if count else x.shape[:1]
        if x.ndim != (2 if count else 1) or x.shape != shape:
            raise ArgumentError(f"identify: {name} has the shape {x.shape}; give (samples{f', {count}' if count else ''})")
        if found and len(x) != len(found[0]):
            raise ArgumentError(f"identify: {name} has {len(x)} samples, and {next(iter(arrays))} has {len(found[0])}; give as many")
        if not np.isfinite(x).all():
            raise ArgumentError(f"identify: sample {np.argwhere(~np.isfinite(x))[0][0]} of {name} is not finite; leave it out")
        found.append(x)
    return found


def check_told(names: Sequence[str], groups: Grouping, what: str, remedy: str) -> None:
    """Refuse unknowns that something does not tell, and name the combinations that it tells in their place."""
    if len(groups.kept) == len(names):
        return
    none = [name for name, column in zip(names, groups.K.T, strict=True) if not column.any()]
    mixed = [combination(row, names, i, most=6) for row, i in zip(groups.K, groups.kept, strict=True) if np.count_nonzero(row) > 1]
    words = [f"{', '.join(none)} {'has' if len(none) == 1 else 'have'} no effect"] if none else []
    words += [f"only {', '.join(mixed)} can be told"] if mixed else []
    raise ArgumentError(f"identify: {what} do not tell all of these parameters: {'; '.join(words)}. {remedy}")


def enough(count: int, unknowns: int, what: str) -> None:
    """Refuse too few equations."""
    if count <= unknowns:
        raise ArgumentError(f"identify: {count} {what} are too few for {unknowns} parameters and their errors; give more samples")


def inverse_gram(J: np.ndarray) -> np.ndarray:
    """Return (J^T J)^-1, by columns of length 1."""
    scale = np.linalg.norm(J, axis=0)
    inverse = np.linalg.pinv(J / scale)
    return inverse @ inverse.T / np.outer(scale, scale)


def minimised(residual: Any, jacobian: Any, start: np.ndarray, lowest: Any = -np.inf) -> np.ndarray:
    """Return where the sum of squares of a residual, in standard deviations, is least: to 1e-8 of it, less than the errors could show."""
    from scipy.optimize import least_squares

    found = least_squares(residual, start, jacobian, (lowest, np.inf), x_scale="jac", xtol=1e-10, ftol=1e-8, gtol=1e-13)
    if found.status == 0:
        warnings.warn(f"identify: the search does not end within {found.nfev} evaluations", ConvergenceWarning, stacklevel=5)
    return found.x
