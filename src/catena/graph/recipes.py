"""Recipes: what a straight-line function does to traced scalars, written down once and done again.

Bodies that are alike go through the same operations with other numbers. The first few times the function itself runs. Then it is run on
scalars of a trace of their own, with generic numbers in the place of the model's, and the nodes that it leaves there are written as a
function of Python that enters the same nodes, in the same order, into any trace. A recipe holds for all arguments of the same *form*: the
same shapes, zeros, ones and minus ones at the same places, the same entries alike, and the same signs and factors outside of the scalars,
which is all that arithmetic of scalars looks at. What else it looks at is asked as the recipe is followed: whether two scalars are the
same node, or what is computed one that was given, whether the reverse of a difference is known, whether a number that was computed is 0
or 1. Where the answer is another than it was, the recipe is left, and the function runs: it finds the nodes that were entered up to there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations_with_replacement, islice
from types import FunctionType
from typing import Any

import numpy as np

from catena.graph.node_table import ALONE, BITS, CONST
from catena.graph.scalar import ADD, DIV, MUL, NEG, SUB, Scalar
from catena.graph.trace import Trace
from catena.spatial.placements import Placement, Rigid, Screw
from catena.spatial.solves import Factor
from catena.spatial.straight_line import Recorder

#: How many times a function runs on arguments of a form before its recipe is written, which takes as long as some dozens of runs.
BEFORE = 24

#: Recipes that are held at most.
MOST = 4096

#: Numbers between these sizes have products with all their digits.
_SMALL, _LARGE = 1e-100, 1e100

_ADD, _SUB, _MUL, _DIV, _NEG = (code >> 2 * BITS for code in (ADD, SUB, MUL, DIV, NEG))

#: Numbers that arithmetic of scalars looks at, and what stands for them in a form.
_EXACT = {0.0: "0", 1.0: "1", -1.0: "-1"}

#: By form: how many times it was met, then its recipe, or None where there is none.
_recipes: dict[tuple, Any] = {}


def follow(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Return a function of arguments, by its recipe where there is one."""
    shapes: list[Any] = []
    entries: list[Any] = []
    form = _form(entries) if _flatten(arguments, shapes, entries) else None
    if form is None:
        return function(*arguments)
    trace, tokens, nodes, numbers = form
    key = (function, tuple(shapes), tokens)
    recipe = _recipes.get(key, 0)
    if type(recipe) is int:
        if len(_recipes) > MOST:
            _recipes.clear()
        _recipes[key] = recipe + 1 if recipe < BEFORE else _recorded(function, arguments, trace, nodes, numbers)
        return function(*arguments)
    if recipe is not None:
        steps, made = recipe
        result = steps(trace, nodes, numbers)
        if result is not None:
            return _rebuilt(made, iter(result))
    return function(*arguments)


Recorder.call = follow

#: What arguments and results are made of besides arrays and tuples: the attributes, and what makes one of these.
_RECORDS: dict[type, tuple[tuple[str, ...], Callable[..., Any]]] = {
    Placement: (("factors",), Placement),
    Rigid: (("R", "p"), Rigid),
    Screw: (("axis", "c", "s", "d"), Screw),
    Factor: (("L", "w"), Factor.of),
}


def _flatten(x: Any, shapes: list[Any], entries: list[Any]) -> bool:
    """Enter what something is made of, and its scalars, and return whether all of it is known."""
    kind = type(x)
    if kind is np.ndarray:
        shapes.append(x.shape)
        entries += x.ravel().tolist()
    elif kind is Screw:
        shapes.append(x.axis)
        entries += (x.c, x.s, x.d)
    elif kind is Scalar or isinstance(x, float):
        shapes.append(Scalar)
        entries.append(x)
    elif isinstance(x, tuple):
        shapes += (kind, len(x))
        for part in x:
            if not _flatten(part, shapes, entries):
                return False
    elif kind in _RECORDS:
        shapes.append(kind)
        for name in _RECORDS[kind][0]:
            if not _flatten(getattr(x, name), shapes, entries):
                return False
    else:
        shapes.append((kind, x))
        return kind in (int, bool, str, FunctionType) or x is None
    return True


def _rebuilt(x: Any, entries: Iterator[Any]) -> Any:
    """Return something that is made like x, of other scalars."""
    kind = type(x)
    if kind is np.ndarray:
        array = np.empty(x.size, x.dtype)
        array[:] = list(islice(entries, x.size))
        return array.reshape(x.shape)
    if kind is Scalar or isinstance(x, float):
        return next(entries)
    if isinstance(x, tuple):
        parts = [_rebuilt(part, entries) for part in x]
        return tuple(parts) if kind is tuple else kind(*parts)
    if kind in _RECORDS:
        names, make = _RECORDS[kind]
        return make(*[_rebuilt(getattr(x, name), entries) for name in names])
    return x


def _form(entries: list[Any]) -> tuple[Trace, tuple, dict[int, int], list[float]] | None:
    """Return the trace of some entries, what tells their form, and the nodes and numbers that a recipe takes; or None for other entries."""
    trace: Any = None
    nodes: dict[int, int] = {}
    numbers: dict[float, int] = {}
    tokens: list[Any] = []
    for x in entries:
        kind = type(x)
        if kind is float and x in _EXACT:
            tokens.append(_EXACT[x])
        elif kind is Scalar:
            if x.trace is not trace:
                if trace is not None:
                    return None
                trace = x.trace
            i = x.index
            known = nodes.get(i)
            if known is None:
                known = _structure(trace, i, nodes, numbers)
                if known is None:
                    return None
            tokens.append(known)
        elif isinstance(x, float):
            if x in _EXACT:
                tokens.append(_EXACT[x])
            elif _SMALL < abs(x) < _LARGE:
                tokens.append(-1 - numbers.setdefault(float(x), len(numbers)))
            else:
                return None
        else:
            return None
    if trace is None:
        return None
    return trace, tuple(tokens), nodes, list(numbers)


def _structure(trace: Trace, i: int, nodes: dict[int, int], numbers: dict[float, int]) -> Any:
    """Return what tells the form of a scalar that is met first, and enter it, after what is inside of its sign or factor."""
    codes = trace.codes
    code = codes[i]
    op, first = code >> 2 * BITS, code >> BITS & ALONE
    token: Any = "x"
    if op == CONST:
        return None
    if op == _NEG or (op == _MUL and codes[code & ALONE] >> 2 * BITS == CONST):
        inside = nodes.get(first)
        if inside is None:
            inside = _structure(trace, first, nodes, numbers)
            if inside is None or (op == _MUL and inside != "x"):
                return None
        elif op == _MUL and trace.factor(trace.scalar(first)) is not None:
            return None
        if op == _NEG:
            token = ("-", inside)
        else:
            factor = trace.value(code & ALONE)
            if not _SMALL < abs(factor) < _LARGE:
                return None
            token = ("*", inside, numbers.setdefault(factor, len(numbers)))
    nodes[i] = len(nodes)
    return token


def _recorded(function: Callable[..., Any], arguments: tuple, trace: Trace, nodes: Iterable[int], numbers: list[float]) -> tuple | None:
    """Return the recipe of a function for arguments of one form, with something made like the result; None where it is not written."""
    text, made = _written(function, arguments, trace, nodes, numbers, np.random.default_rng(7).uniform(0.3, 0.9, len(numbers)).tolist())
    if not text:
        return None
    names: dict[str, Any] = {}
    exec(compile(text, f"<recipe of {function.__qualname__}>", "exec"), names)
    return names["recipe"], made


def _written(
    function: Callable[..., Any], arguments: tuple, trace: Trace, nodes: Iterable[int], numbers: list[float], generic: list[float]
) -> tuple[str, Any]:
    """Return the text of a recipe, written with generic numbers, and the result for these; no text where it cannot be written."""
    scratch = Trace("recipe")
    given = scratch.input("x", (len([*nodes]),))
    number_at = dict(zip(numbers, generic, strict=True))
    scalar_at: dict[int, Scalar] = {}
    for k, i in enumerate(nodes):
        code = trace.codes[i]
        op, first, last = code >> 2 * BITS, code >> BITS & ALONE, code & ALONE
        if op == _NEG:
            scalar_at[i] = -scalar_at[first]
        elif op == _MUL and trace.codes[last] >> 2 * BITS == CONST:
            scalar_at[i] = scalar_at[first] * number_at[trace.value(last)]
        else:
            scalar_at[i] = given[k]

    def replaced(x: Any) -> Any:
        return scalar_at[x.index] if type(x) is Scalar else x if x in _EXACT else number_at[x]

    entries: list[Any] = []
    _flatten(arguments, [], entries)
    writer = _Writer(scratch, generic, [scalar_at[i].index for i in nodes])
    made = function(*_rebuilt(arguments, map(replaced, entries)))
    results: list[Any] = []
    if not _flatten(made, [], results) or not writer.enter():
        return "", None
    outputs = [writer.output(x) for x in results]
    return (writer.text(outputs) if all(outputs) else ""), made


class _Writer:
    """Writes the nodes of a scratch trace as a function of Python: `a0`, … are the nodes given, `n0`, … the numbers, `t0`, … new nodes."""

    def __init__(self, scratch: Trace, generic: Sequence[float], given: Sequence[int]) -> None:
        self.scratch, self.start = scratch, len(scratch.codes)
        self.names = {i: f"a{k}" for k, i in enumerate(given)}
        self.count, self.numbers = len(given), len(generic)
        self.lines: list[str] = []
        self.outputs: dict[str, str] = {}
        self.expressions = _expressions(generic)
        for i in range(self.start):  # numbers of factors, whose nodes exist
            if scratch.codes[i] >> 2 * BITS == CONST:
                self.names[i] = f"t{i}"
                self.lines.append(f"t{i} = number({self.expressions[scratch.value(i)][0]})")

    def enter(self) -> bool:
        """Write what enters the nodes of the function, and return whether that can be written."""
        return all(self._enter(i) for i in range(self.start, len(self.scratch.codes)))

    def _enter(self, i: int) -> bool:
        codes, names, lines = self.scratch.codes, self.names, self.lines
        op, first, last = codes[i] >> 2 * BITS, codes[i] >> BITS & ALONE, codes[i] & ALONE
        t = names[i] = f"t{i}"
        if op == CONST:
            expression, computed = self.expressions.get(self.scratch.value(i), (_literal(self.scratch.value(i)), False))
            if computed:
                lines.append(f"m = {expression}")
                lines.append(f"if not {sys.float_info.min!r} <= abs(m) < 1e300 or m == 1.0 or m == -1.0: return None")
                expression = "m"
            lines.append(f"{t} = number({expression})")
            return bool(expression)
        a, b = names.get(first), names.get(last)
        alone = last == ALONE
        numeric = not alone and CONST in (codes[first] >> 2 * BITS, codes[last] >> 2 * BITS)
        code = f"{op << 2 * BITS} | {a} << {BITS} | {ALONE if alone else b}"
        if op in (_ADD, _MUL) and not numeric:
            code = f"{code} if {a} < {b} else {op << 2 * BITS} | {b} << {BITS} | {a}"
        elif op not in (_ADD, _SUB, _MUL, _DIV) and not alone:
            return False
        if op in (_ADD, _SUB, _DIV) and not numeric:
            lines.append(f"if {a} == {b}: return None")
        if op == _SUB and not numeric:
            lines.append(f"if {SUB} | {b} << {BITS} | {a} in known: return None")
        lines += [f"k = {code}", f"{t} = get(k)", f"if {t} is None:", f"    {t} = known[k] = len(codes)", "    append(k)"]
        lines.append(f"elif {t} in nodes: return None")
        return a is not None and (alone or b is not None)

    def output(self, x: Any) -> str:
        """Return the expression of an entry of the result, or nothing."""
        if type(x) is Scalar:
            name = self.names[x.index]
            if name not in self.outputs:
                self.outputs[name] = f"o{len(self.outputs)}"
                self.lines.append(f"{self.outputs[name]} = scalar({name})")
            return self.outputs[name]
        return self.expressions.get(x, (_literal(x), False))[0]

    def text(self, outputs: Sequence[str]) -> str:
        """Return the function."""
        head = ["known, codes, number, scalar = trace.known, trace.codes, trace.number, trace.scalar"]
        head.append("get, append = known.get, codes.append")
        taken = [f"{', '.join(f'a{k}' for k in range(self.count))}, = nodes"]
        if self.numbers:
            taken.append(f"{', '.join(f'n{k}' for k in range(self.numbers))}, = numbers")
        lines = [*head, *taken, *self.lines, f"return [{', '.join(outputs)}]"]
        return "def recipe(trace, nodes, numbers):\n" + "".join(f"    {line}\n" for line in lines)


def _literal(x: float) -> str:
    """Return a number that stands in the code of the function, or nothing: these are whole, or simple fractions; zeros have no sign."""
    return repr(float(x) + 0.0) if abs(x) < 64.0 and (16.0 * x).is_integer() else ""


def _expressions(generic: Sequence[float]) -> dict[float, tuple[str, bool]]:
    """Return what numbers may be made of generic ones, by value, and whether they are computed."""
    found: dict[float, tuple[str, bool]] = {}

    def enter(value: float, text: str, computed: bool = True) -> None:
        found.setdefault(value, (text, computed))
        found.setdefault(-value, (f"-({text})" if computed else f"-{text}", computed))

    for k, x in enumerate(generic):
        enter(x, f"n{k}", False)
    for k, x in enumerate(generic):
        enter(2.0 * x, f"2.0 * n{k}")
        enter(0.5 * x, f"0.5 * n{k}")
        enter(1.0 / x, f"1.0 / n{k}")
    for (i, x), (j, y) in combinations_with_replacement(enumerate(generic), 2):
        enter(x * y, f"n{i} * n{j}")
        enter(2.0 * (x * y), f"2.0 * (n{i} * n{j})")
        enter(x + y, f"n{i} + n{j}")
        enter(x - y, f"n{i} - n{j}")
    found.pop(0.0, None)
    return found
