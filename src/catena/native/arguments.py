"""What a kernel says about its arguments: names, shapes, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from catena.errors import ArgumentError
from catena.graph import Port


def described(ports: Sequence[Port]) -> str:
    """Return names and core shapes.

    >>> described([Port("t", ()), Port("poses", (8, 4, 4))])
    '(t: scalar), (poses: 8x4x4)'
    """
    return ", ".join(f"({port.name}: {'x'.join(map(str, port.shape)) or 'scalar'})" for port in ports)


def ordered(name: str, ports: Sequence[Port], arrays: tuple, named: dict[str, Any], defaults: Mapping[str, Any]) -> tuple:
    """Return the arguments in order, of which the later ones may be given by name, or say which are missing or unknown.

    Those that have a default may be left out.
    """
    names = [port.name for port in ports]
    takes = f"kernel '{name}' takes {described(ports) or 'no arguments'}"
    if len(arrays) > len(names):
        raise ArgumentError(f"{takes}, and got {len(arrays)} arguments; outputs are given as out=...")
    for key in named:
        if key not in names:
            raise ArgumentError(f"{takes}; it has no argument '{key}'")
        if key in names[: len(arrays)]:
            raise ArgumentError(f"{takes}; argument '{key}' is given twice")
    named = {**defaults, **named}
    missing = [key for key in names[len(arrays) :] if key not in named]
    if missing:
        raise ArgumentError(f"{takes}; missing: {', '.join(missing)}")
    return (*arrays, *(named[key] for key in names[len(arrays) :]))


def explained(name: str, inputs: Sequence[Port], outputs: Sequence[Port], arrays: tuple, out: Any, error: Exception) -> ArgumentError:
    """Return the error that names the argument at fault, what it is and what it should be."""
    batches: list[tuple[str, tuple[int, ...]]] = []
    for port, given in zip(inputs, arrays, strict=True):
        try:
            array = np.asarray(given)
        except Exception as problem:
            return ArgumentError(f"kernel '{name}': argument '{port.name}' is not an array: {problem}")
        fault = _fault(port, array)
        if fault:
            return ArgumentError(f"kernel '{name}': argument '{port.name}' {fault}")
        batches.append((port.name, array.shape[: array.ndim - len(port.shape)]))
    try:
        batch = np.broadcast_shapes(*[shape for _, shape in batches])
    except ValueError:
        listed = ", ".join(f"{key} {shape}" for key, shape in batches)
        return ArgumentError(f"kernel '{name}': the leading axes of the arguments do not broadcast together: {listed}")
    given_out = out if isinstance(out, tuple) else (out,)
    if out is not None and len(given_out) != len(outputs):
        return ArgumentError(
            f"kernel '{name}': out= takes a tuple of {len(outputs)} arrays, {described(outputs)}, and got {len(given_out)}"
        )
    for port, target in zip(outputs, given_out, strict=False):
        if target is None:
            continue
        if not isinstance(target, np.ndarray):
            return ArgumentError(f"kernel '{name}': out= of '{port.name}' is a {type(target).__name__}; give a NumPy array")
        if not np.can_cast(np.float64, target.dtype, "same_kind"):
            return ArgumentError(f"kernel '{name}': out= of '{port.name}' has type {target.dtype}, which cannot hold float64")
        if not target.flags.writeable:
            return ArgumentError(f"kernel '{name}': out= of '{port.name}' is read-only")
        if target.shape[max(0, target.ndim - len(port.shape)) :] != port.shape or target.ndim < len(batch) + len(port.shape):
            return ArgumentError(f"kernel '{name}': out= of '{port.name}' has shape {target.shape}; the result has {batch + port.shape}")
    return ArgumentError(f"kernel '{name}': {error}")


def _fault(port: Port, array: np.ndarray) -> str:
    """Return what keeps an array from being this argument, or nothing."""
    if array.dtype.kind not in "biuf":
        reason = "complex numbers are not supported" if array.dtype.kind == "c" else "give real numbers"
        return f"has type {array.dtype}, and takes float64; {reason}"
    if not np.can_cast(array.dtype, np.float64, "safe"):
        return f"has type {array.dtype}, and takes float64; convert it with .astype(float)"
    if array.ndim < len(port.shape) or array.shape[array.ndim - len(port.shape) :] != port.shape:
        tail = "a scalar per state" if not port.shape else f"(..., {', '.join(map(str, port.shape))})"
        return f"has shape {array.shape}, and takes {tail}"
    return ""


def with_empty(function: Callable[..., Any], inputs: Sequence[Port], outputs: Sequence[Port]) -> Callable[..., Any]:
    """Return a function for kernels with arguments or results of no entries, which NumPy's gufuncs do not know.

    The gufunc has an axis of one entry wherever there is none; it neither reads nor writes it.
    """

    def run(*arrays: Any, out: Any = None) -> Any:
        given = []
        for port, array in zip(inputs, arrays, strict=True):
            value = np.asarray(array)
            if not port.size:
                if value.ndim < len(port.shape) or value.shape[value.ndim - len(port.shape) :] != port.shape:
                    raise ValueError(f"shape {value.shape} does not end in {port.shape}")
                value = np.broadcast_to(0.0, (*value.shape[: value.ndim - len(port.shape)], *padded(port.shape)))
            given.append(value)
        results = function(*given)
        values = []
        for port, value in zip(outputs, results if len(outputs) > 1 else (results,), strict=True):
            batch = np.shape(value)[: np.ndim(value) - len(port.shape)]
            values.append(value if port.size else np.zeros(batch + port.shape))
        if out is not None:
            targets = out if isinstance(out, tuple) else (out,)
            for target, value in zip(targets, values, strict=True):
                np.copyto(target, value)
            values = list(targets)
        return tuple(values) if len(values) > 1 else values[0]

    return run


def padded(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape that has one entry along each axis that has none.

    >>> padded((0, 3))
    (1, 3)
    """
    return tuple(extent or 1 for extent in shape)
