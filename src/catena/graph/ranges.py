"""Ranges of a graph's values over intervals of one input: interval arithmetic, without outward rounding.

A condition has the range 0 to 0 where it is false, 1 to 1 where it holds, and 0 to 1 where both may be. What is not known has all numbers
for its range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Range = tuple[Any, Any]


def _hull(*values: Any) -> Range:
    """Return the range between some values; of what is not a number, all numbers."""
    least, most = values[0], values[0]
    for value in values[1:]:
        least, most = np.minimum(least, value), np.maximum(most, value)
    return np.where(np.isnan(least), -np.inf, least), np.where(np.isnan(most), np.inf, most)


def _product(a: Range, b: Range) -> Range:
    return _hull(*(x * y for x in a for y in b))


def _quotient(a: Range, b: Range) -> Range:
    least, most = _hull(*(x / y for x in a for y in b))
    pole = (b[0] <= 0.0) & (b[1] >= 0.0)
    return np.where(pole, -np.inf, least), np.where(pole, np.inf, most)


def _size(a: Range) -> Range:
    least, most = _hull(np.abs(a[0]), np.abs(a[1]))
    return np.where((a[0] < 0.0) & (a[1] > 0.0), 0.0, least), most


def _sine(a: Range, ahead: float = 0.0) -> Range:
    """Return the range of the sine, or of the cosine, which is a quarter of a turn ahead."""
    turns = [(x + ahead) / (2.0 * np.pi) for x in a]
    least, most = _hull(*(np.sin(x + ahead) for x in a))
    crest, trough = (np.floor(turns[1] - part) > np.floor(turns[0] - part) for part in (0.25, 0.75))
    return np.where(trough, -1.0, least), np.where(crest, 1.0, most)


def _angle(y: Range, x: Range) -> Range:
    least, most = _hull(*(np.arctan2(b, a) for b in y for a in x))
    around = (y[0] <= 0.0) & (y[1] >= 0.0) & (x[0] <= 0.0)
    return np.where(around, -np.pi, least), np.where(around, np.pi, most)


def _power(a: Range, b: Range) -> Range:
    least, most = _hull(*(np.power(x, y) for x in a for y in b))
    unknown = a[0] <= 0.0
    return np.where(unknown, -np.inf, least), np.where(unknown, np.inf, most)


def _less(a: Range, b: Range) -> Range:
    return np.where(a[1] < b[0], 1.0, 0.0), np.where(a[0] < b[1], 1.0, 0.0)


def _at_most(a: Range, b: Range) -> Range:
    return np.where(a[1] <= b[0], 1.0, 0.0), np.where(a[0] <= b[1], 1.0, 0.0)


def _equal(a: Range, b: Range) -> Range:
    same = (a[0] == a[1]) & (b[0] == b[1]) & (a[0] == b[0])
    return np.where(same, 1.0, 0.0), np.where((a[0] <= b[1]) & (b[0] <= a[1]), 1.0, 0.0)


def _chosen(condition: Range, a: Range, b: Range) -> Range:
    always, never = condition[0] == 1.0, condition[1] == 0.0
    ends = zip(a, b, (np.minimum, np.maximum), strict=True)
    least, most = (np.where(always, x, np.where(never, y, extreme(x, y))) for x, y, extreme in ends)
    return least, most


def _rising(function: Callable[[Any], Any]) -> Callable[[Range], Range]:
    return lambda a: _hull(function(a[0]), function(a[1]))


#: The range of every operation, of the ranges of its operands.
RANGES: dict[str, Callable[..., Range]] = {
    "add": lambda a, b: _hull(a[0] + b[0], a[1] + b[1]), "sub": lambda a, b: _hull(a[0] - b[1], a[1] - b[0]),
    "mul": _product, "div": _quotient, "neg": lambda a: (-a[1], -a[0]), "abs": _size, "floor": _rising(np.floor),
    "sqrt": _rising(lambda x: np.sqrt(np.maximum(x, 0.0))), "sin": _sine, "cos": lambda a: _sine(a, 0.5 * np.pi),
    "exp": _rising(np.exp), "log": _rising(lambda x: np.log(np.maximum(x, 0.0))), "tanh": _rising(np.tanh), "atan2": _angle, "pow": _power,
    "min": lambda a, b: (np.minimum(a[0], b[0]), np.minimum(a[1], b[1])),
    "max": lambda a, b: (np.maximum(a[0], b[0]), np.maximum(a[1], b[1])), "select": _chosen,
    "lt": _less, "le": _at_most, "eq": _equal, "not": lambda a: (1.0 - a[1], 1.0 - a[0]),
    "and": lambda a, b: (np.minimum(a[0], b[0]), np.minimum(a[1], b[1])),
    "or": lambda a, b: (np.maximum(a[0], b[0]), np.maximum(a[1], b[1])),
}  # fmt: skip


def ranges(nodes: Sequence[Any], wanted: Sequence[int], least: Array, most: Array) -> list[Range]:
    """Return the ranges of all nodes up to the last that is wanted, of those that it needs, over intervals of the only input."""
    needed, stack = set(), list(wanted)
    while stack:
        i = stack.pop()
        if i not in needed:
            needed.add(i)
            stack += [] if nodes[i][0] in ("const", "input") else nodes[i][1:]
    found: dict[int, Range] = {}
    with np.errstate(all="ignore"):
        for i in sorted(needed):
            op, *operands = nodes[i]
            if op == "const":
                found[i] = (operands[0], operands[0])
            elif op == "input":
                found[i] = (least, most)
            else:
                found[i] = RANGES[op](*(found[j] for j in operands))
    return [found[i] for i in wanted]
