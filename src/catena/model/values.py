"""Reading numbers from users: each reader returns clean floats or says what was wrong with the value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from catena.errors import ArgumentError, CatenaError, ModelError
from catena.model.wording import short
from catena.scalars.expression import expressed, resolved

_AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


def floats(what: str, value: Any, remedy: str, error: type[CatenaError] = ArgumentError) -> np.ndarray:
    """Return value as a new array of floats; text, complex numbers and None are refused, which NumPy would cast."""
    if expressed(value):
        raise error(f"{what} {value!r} cannot follow parameters; take their .value")
    try:
        array = np.array(value)
        if array.dtype.kind not in "buifO" or (array.dtype == object and any(entry is None for entry in array.flat)):
            raise TypeError
        return array.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise error(f"{what} {value!r} is not made of real numbers; {remedy}") from None


def names_of(what: str, given: Any, remedy: str) -> tuple[Any, ...]:
    """Return names that a user gives, one or several, or say that something else was given, such as values."""
    if given is None or isinstance(given, str):
        return () if given is None else (given,)
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise ArgumentError(f"{what} = {short(given)}: these are values, and names are wanted; {remedy}")
    return tuple(given)


def by_name(what: str, given: Any, remedy: str) -> Mapping[str, Any]:
    """Return values that a user gives by name, or say that something else was given, such as names alone."""
    if given is None or isinstance(given, Mapping):
        return given or {}
    raise ArgumentError(f"{what} = {short(given)}: values by name are wanted; {remedy}")


def leading_axes(what: str, shapes: Mapping[str, tuple[int, ...]], error: type[CatenaError]) -> tuple[int, ...]:
    """Return the leading axes that arrays have together, or say which of theirs do not agree."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        given = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise error(f"{what}leading axes do not broadcast: {given}; give axes that are equal or 1") from None


def coordinates(what: str, value: Any, names: Sequence[str], model: str) -> np.ndarray:
    """Return value as an array of finite floats, one for each of the coordinates of a model that are named."""
    listed = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    result = floats(what, value, f"give {len(names)}: {listed}")
    if result.shape != (len(names),):
        raise ArgumentError(f"{what} has shape {result.shape}; model '{model}' takes {len(names)} numbers: {listed}")
    for name, entry in zip(names, result, strict=True):
        if not np.isfinite(entry):
            raise ArgumentError(f"{what}: '{name}' is {entry}; give finite numbers")
    return result


def array(what: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return value as a finite float array of the given shape."""
    result = floats(what, value, f"give {_form(shape)}", ModelError)
    if result.shape != shape:
        raise ModelError(f"{what} {value!r} has shape {result.shape}; give {_form(shape)}")
    if not np.isfinite(result).all():
        raise ModelError(f"{what} {value!r} is not finite; give {_form(shape)}")
    return result


def number(what: str, value: Any, least: float | None = None, above: float | None = None) -> float:
    """Return value as a finite float, at least `least` or above `above` if given."""
    result = value if type(value) is float and isfinite(value) else float(array(what, value, ()))
    if least is not None and result < least:
        raise ModelError(f"{what} {result:g} is below {least:g}; give {least:g} or more")
    if above is not None and result <= above:
        raise ModelError(f"{what} {result:g} is not above {above:g}; give a larger number")
    return result


def speeds(what: str, value: Any) -> float | tuple[float, float]:
    """Return value as a speed above zero, or as two: along angles [rad/s] and along displacements [m/s]."""
    if np.ndim(value) == 0:
        return number(what, value, above=0.0)
    turning, sliding = (number(what, x, above=0.0) for x in array(what, value, (2,)).tolist())
    return turning, sliding


def take(part: Any, *names: str) -> None:
    """Put numbers in place of the expressions among attributes of a part, and keep these as `part.tied`, by name."""
    tied = {name: np.array(value, dtype=object) for name in names if expressed(value := getattr(part, name))}
    for name, expressions in tied.items():
        object.__setattr__(part, name, plain(expressions))
    if tied:
        object.__setattr__(part, "tied", tied)


def plain(x: Any) -> Any:
    """Return numbers with the values of expressions in their place."""
    if not expressed(x):
        return x
    value = np.array(resolved(x), dtype=float)
    return value if value.shape else float(value)


def checked(what: str, value: Any, least: float | None = None, above: float | None = None) -> Any:
    """Return value as a finite float like `number`, or as the expression that it is."""
    result = number(what, plain(value), least, above)
    return value if expressed(value) else result


def direction(what: str, value: Any) -> tuple[float, float, float]:
    """Return a unit vector from "x", "-y", … or any 3-vector that is not zero."""
    if isinstance(value, str):
        name = value.strip().lower()
        sign, name = (-1.0 if name[:1] == "-" else 1.0), (name[1:] if name[:1] in ("+", "-") else name)
        if name not in _AXES:
            raise ModelError(f"{what} {value!r} is unknown; give 'x', 'y', 'z', '-x', '-y', '-z' or a 3-vector")
        unit = sign * np.array(_AXES[name])
    else:
        vector = array(what, value, (3,))
        size = np.abs(vector).max()
        if size == 0.0:
            raise ModelError(f"{what} {tuple(vector.tolist())} has no direction; give a non-zero 3-vector")
        unit = normalised(vector)
    x, y, z = (unit + 0.0).tolist()
    return (x, y, z)


def normalised(vector: np.ndarray) -> np.ndarray:
    """Return a vector that is not zero at length 1; one that has this length to rounding stays as it is."""
    if abs(np.linalg.norm(vector) - 1.0) <= 1e-15:
        return vector
    vector = vector / np.abs(vector).max()  # first, so that tiny and huge vectors do not under- or overflow
    return vector / np.linalg.norm(vector)


def _form(shape: tuple[int, ...]) -> str:
    return "one finite number" if shape == () else f"{' x '.join(map(str, shape))} finite numbers"
