"""Where and why code of a user cannot be traced: the line, the construct in its syntax tree, and what to write instead."""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import inspect
import linecache
import math
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any, NamedTuple

import numpy as np

from catena.errors import CatenaError, TraceError

#: Code that is not the user's.
_CATENA = str(Path(__file__).parents[1])
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")

#: How errors of Python and NumPy speak of traced values, and how those of catena do that say nothing of the construct.
_TRACED = re.compile(r"\b(Scalar|Condition|TracedArray|Dual)\b|only integers, slices|[Oo]bject arrays|dtype\('O'\)|ObjectDType")
_UNSPECIFIC = re.compile("traced value has no|comparison of traced values|does not take traced values")


class Trouble(NamedTuple):
    """Why code cannot be traced, what to write instead, and whether a construct of it is to blame."""

    reason: str
    remedy: str
    construct: bool = True


_GENERAL = "write it with arithmetic, NumPy's functions and np.where(condition, a, b)"


def trouble(error: Exception) -> Trouble | None:
    """Return why a function cannot be traced, of the error that it ended with; None for an error of its own."""
    told, _, remedy = str(error).partition("; ")
    if isinstance(error, CatenaError) and not _UNSPECIFIC.search(told):
        return Trouble(told, remedy or _GENERAL, False)
    spot = _spot(error)
    inside = isinstance(error, TypeError) and spot is not None and spot.tb_next is not None and _frames(error)[-1] is not spot
    if not isinstance(error, CatenaError) and not _TRACED.search(str(error)) and not inside:
        return None
    for construct in () if spot is None else _constructs(spot):
        found = _explained(construct, str(error))
        if found is not None:
            return found
    if isinstance(error, TraceError):
        return Trouble(told, remedy or _GENERAL)
    return Trouble(f"{type(error).__name__}: {_TRACED.sub('traced value', str(error))}", _GENERAL)


def place(error: BaseException) -> str:
    """Return the line of the user's code that an error comes from, as tracebacks have it; nothing where it is not known."""
    spot = _spot(error)
    if spot is None:
        return ""
    return _placed(spot.tb_frame.f_code, spot.tb_lineno)


def home(function: Any, returns: bool = False) -> str:
    """Return the line on which a function is written, or on which it returns if there is one such line, as tracebacks have it."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):  # an object that can be called
        function = type(function).__call__
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        return ""
    lines = {line for line in _returning(code) if line is not None} if returns else set()
    return _placed(code, lines.pop() if len(lines) == 1 else code.co_firstlineno)


def _returning(code: CodeType) -> Iterator[int | None]:
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        if sys.version_info >= (3, 11):
            line = instruction.positions.lineno if instruction.positions else None
        elif instruction.starts_line is not None:
            line = instruction.starts_line
        if instruction.opname in ("RETURN_VALUE", "RETURN_CONST"):
            yield line


def _placed(code: CodeType, line: int) -> str:
    source = linecache.getline(code.co_filename, line).strip()
    return f'\n  File "{code.co_filename}", line {line}, in {code.co_name}' + (f"\n    {source}" if source else "")


def _frames(error: BaseException) -> list[TracebackType]:
    """Return the frames of an error that are not catena's."""
    found, frame = [], error.__traceback__
    while frame is not None:
        if not _is_under(frame.tb_frame.f_code.co_filename, _CATENA):
            found.append(frame)
        frame = frame.tb_next
    return found


def _spot(error: BaseException) -> TracebackType | None:
    """Return the last frame of an error that is the user's own."""
    return next((frame for frame in reversed(_frames(error)) if not _is_library(frame.tb_frame.f_code.co_filename)), None)


def _is_library(file: str) -> bool:
    generated = file.startswith(("<frozen", "<__array")) or file.endswith(".pyx")
    return generated or bool(_INSTALLED.search(file)) or any(_is_under(file, path) for path in _LIBRARIES)


def _is_under(file: str, folder: str) -> bool:
    return Path(file).is_relative_to(folder)


def _positions(spot: TracebackType) -> tuple[int | None, ...] | None:
    """Return first line, last line, first and last column that a frame stopped at; Python knows them from 3.11 on."""
    if sys.version_info < (3, 11):
        return None
    found = list(spot.tb_frame.f_code.co_positions())[spot.tb_lasti // 2]
    return None if None in found else found


def _constructs(spot: TracebackType) -> list[_Construct]:
    """Return the nodes of the syntax tree that a frame stopped at, innermost first; without columns all that begin on its line."""
    lines = linecache.getlines(spot.tb_frame.f_code.co_filename, spot.tb_frame.f_globals)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return []
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    at, found = _positions(spot), []
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.stmt)):
            ends = (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
            if ends == at or (at is None and node.lineno == spot.tb_lineno):
                found.append(_Construct(node, parents, spot, at is not None))
    return found[::-1]


class _Construct:
    """An expression or a statement of the user's code that could not be traced; one that may be so, unless it is `exact`."""

    def __init__(self, node: ast.AST, parents: dict[ast.AST, ast.AST], spot: TracebackType, exact: bool) -> None:
        self.node, self.parents, self._frame, self.exact = node, parents, spot.tb_frame, exact

    def meaning(self, node: ast.AST) -> Any:
        """Return what a name, or a name in a module, stands for; None for all else."""
        if isinstance(node, ast.Name):
            frame = self._frame
            return frame.f_locals.get(node.id, frame.f_globals.get(node.id, getattr(builtins, node.id, None)))
        if isinstance(node, ast.Attribute):
            module = self.meaning(node.value)
            return getattr(module, node.attr, None) if isinstance(module, ModuleType) else None
        return None


    def draws(self, node: ast.AST) -> bool:
        """Return whether a function draws random numbers of NumPy."""
        generator = self.meaning(node.value) if isinstance(node, ast.Attribute) else getattr(self.meaning(node), "__self__", None)
        return generator is np.random or isinstance(generator, (np.random.Generator, np.random.RandomState))


def _explained(construct: _Construct, error: str) -> Trouble | None:
    """Return what the construct is that cannot be traced, and what to write instead."""
    node = construct.node
    chosen = _decision(construct)
    if chosen is not None:
        return chosen
    if isinstance(node, ast.Call):
        return _call(construct, node)
    if isinstance(node, ast.Subscript) and (construct.exact or isinstance(node.ctx, ast.Store)):
        if isinstance(node.ctx, ast.Store) and "index" not in error:
            array = ast.unparse(node.value)
            return Trouble(
                f"`{array}` is an array of floats, which cannot hold traced values",
                f"make it of its entries, {array} = np.stack([...]), or so that it holds these, {array} = np.zeros_like(q, shape=...)",
            )
        return Trouble(
            f"`{ast.unparse(node)}` has a traced index",
            "write np.interp(x, points, values) for a table, or np.select(conditions, values) for a choice",
        )
    if isinstance(node, ast.AugAssign):
        target, sign = ast.unparse(node.target), _SIGNS.get(type(node.op), "+")
        return Trouble(
            f"`{target}` is an array of floats, which cannot hold traced values",
            f"write {target} = {target} {sign} {ast.unparse(node.value)}",
        )
    if isinstance(node, ast.Attribute):
        remedy = f"leave .{node.attr}() out" if node.attr in _CONVERSIONS else _GENERAL
        return Trouble(f"a traced value has no .{node.attr}", remedy)
    if isinstance(node, (ast.JoinedStr, ast.FormattedValue)):
        return Trouble("a traced value has no digits to be formatted", "leave the text out")
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.BitXor):
            return Trouble("`^` is not a power in Python", f"write {ast.unparse(ast.BinOp(node.left, ast.Pow(), node.right))}")
        if isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            return Trouble(
                f"`{_SIGNS[type(node.op)]}` combines conditions, and binds closer than comparisons",
                "put each comparison in brackets, (a > b) & (c > d)",
            )
        if "Condition" in error:
            return Trouble(f"`{ast.unparse(node)}` computes with a condition", "write np.where(condition, 1.0, 0.0) for it")
    if isinstance(node, ast.Compare) and any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
        return Trouble("`in` compares traced values", "compare with one after the other, (x == a) | (x == b)")
    if isinstance(node, ast.Compare) and "comparison" in error:
        return _stacked(ast.unparse(node))
    return None


_SIGNS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|",
}  # fmt: skip


def _stacked(text: str) -> Trouble:
    return Trouble(
        f"`{text}` compares the entries of an array that np.array made of traced values", "make that array with np.stack([...]) instead"
    )


def _decision(construct: _Construct) -> Trouble | None:
    """Return what to write for a decision on a traced value; None if the construct is none."""
    node, parents = construct.node, construct.parents
    top, logical = node, isinstance(node, ast.BoolOp) or (isinstance(node, ast.Compare) and len(node.ops) > 1)
    while isinstance(parent := parents.get(top), ast.BoolOp) or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)):
        top, logical = parent, True
    logical = logical or (isinstance(top, ast.UnaryOp) and isinstance(top.op, ast.Not))
    condition, parent = _condition(top), parents.get(top)
    if isinstance(parent, ast.IfExp) and parent.test is top:
        text = f"np.where({condition}, {ast.unparse(parent.body)}, {ast.unparse(parent.orelse)})"
        return Trouble("`if` decides on a traced value", f"write {text}")
    if isinstance(parent, ast.If) and parent.test is top:
        return Trouble("`if` decides on a traced value", f"write np.where({condition}, a, b), with the results of both branches")
    if isinstance(parent, ast.While) and parent.test is top:
        return Trouble(
            "`while` decides on a traced value",
            "repeat a fixed number of times, for _ in range(n), and choose with np.where(condition, a, b) inside",
        )
    if isinstance(parent, ast.Assert) and parent.test is top:
        return Trouble("`assert` decides on a traced value", "leave the assertion out")
    if isinstance(parent, ast.comprehension) and top in parent.ifs:
        return Trouble("`if` decides on a traced value", f"take all entries, and write np.where({condition}, a, b) for each")
    if logical:
        return Trouble("`and`, `or`, `not` and chains of comparisons need truth values, and traced values have none", f"write {condition}")
    return None


def _condition(node: ast.AST) -> str:
    """Return a condition as it is written on traced values."""
    if isinstance(node, ast.BoolOp):
        return (" & " if isinstance(node.op, ast.And) else " | ").join(_bracketed(value) for value in node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"~{_bracketed(node.operand)}"
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        values = [node.left, *node.comparators]
        pairs = [ast.Compare(values[i], [op], [values[i + 1]]) for i, op in enumerate(node.ops)]
        return " & ".join(f"({ast.unparse(pair)})" for pair in pairs)
    return ast.unparse(node)


def _bracketed(node: ast.AST) -> str:
    text = _condition(node)
    return text if isinstance(node, (ast.Name, ast.Call)) else f"({text})"


#: NumPy's names of functions that `math` names otherwise.
_OF_MATH = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "fabs": "abs", "dist": "linalg.norm"}

#: Functions of `math` that NumPy has for traced values.
_TRACEABLE = frozenset((
    "sin", "cos", "tan", "sqrt", "exp", "log", "tanh", "sinh", "cosh", "exp2", "log2", "log10", "cbrt", "hypot", "floor", "ceil", "trunc",
    "fmod", "copysign", "degrees", "radians", "isnan", "isfinite", "isinf", "asin", "acos", "atan", "atan2", "fabs",
))  # fmt: skip

#: What to write instead of functions of NumPy, by name; {} stands for their arguments.
_OF_NUMPY = {
    "pinv": "write A.T @ np.linalg.solve(A @ A.T, x) for a matrix with independent rows",
    "lstsq": "write np.linalg.solve(A.T @ A, A.T @ b) for a matrix with independent columns",
    "sort": "write np.minimum and np.maximum of the entries", "median": "write np.minimum and np.maximum of the entries",
    "argmax": "write np.where(a > b, x, y) with what belongs to either",
    "argmin": "write np.where(a < b, x, y) with what belongs to either",
    "argsort": "write np.where(a > b, x, y) with what belongs to either",
    "searchsorted": "write np.interp(x, points, values) for a table, or np.select(conditions, values)",
    "digitize": "write np.interp(x, points, values) for a table, or np.select(conditions, values)",
    "piecewise": "write np.select(conditions, values)", "round": "write np.floor(x + 0.5)", "rint": "write np.floor(x + 0.5)",
    "around": "write np.floor(x + 0.5)", "log1p": "write np.log(1.0 + x)", "expm1": "write np.exp(x) - 1.0",
    "sinc": "write np.where(x == 0.0, 1.0, np.sin(x) / x), with x guarded in the quotient",
}  # fmt: skip

_CONVERSIONS = ("array", "asarray", "asanyarray", "ascontiguousarray", "float64", "float32", "astype", "item", "asfarray")


def _call(construct: _Construct, node: ast.Call) -> Trouble | None:
    """Return why a call cannot be traced, and what to write instead."""
    written, function = ast.unparse(node.func), construct.meaning(node.func)
    arguments = [f"np.stack([{ast.unparse(x)[1:-1]}])" if isinstance(x, ast.GeneratorExp) else ast.unparse(x) for x in node.args]
    listed = ", ".join(arguments)
    for known, told in _BUILTIN:
        if function is known:
            return told(arguments)
    module, name = getattr(function, "__module__", None) or "", getattr(function, "__name__", written.rpartition(".")[2])
    if module == "math":
        if name == "pow":
            return Trouble("functions of math take floats", f"write ({arguments[0]}) ** ({arguments[-1]})")
        if name in _TRACEABLE:
            return Trouble("functions of math take floats", f"write np.{_OF_MATH.get(name, name)}({listed})")
        return Trouble("functions of math take floats", _GENERAL)
    if not construct.exact:
        return None
    if construct.draws(node.func):
        return Trouble("random numbers are drawn once, while the function is traced", "draw them before, as a table over time")
    if module.startswith("numpy") or isinstance(function, np.ufunc):
        known = written.startswith(("np.", "numpy."))
        called = "np." + written.partition(".")[2] if known else f"np.{name}"
        if name in _CONVERSIONS:
            return Trouble("traced values cannot be made floats", f"leave the conversion out, as in np.stack([...]), in place of {called}")
        if name in _OF_NUMPY:
            return Trouble(f"{called} does not take traced values", _OF_NUMPY[name])
        if name in _COMPARING:
            return _stacked(f"{written}({listed})")
        return Trouble(f"{called} does not take traced values", _GENERAL)
    name = written.rpartition(".")[2]
    if isinstance(node.func, ast.Attribute) and function is None:
        if name in _CONVERSIONS:
            return Trouble("traced values cannot be made floats", f"leave .{name}({listed}) out")
        if name == "format":
            return Trouble("a traced value has no digits to be formatted", "leave the text out")
        if name in _OF_NUMPY:
            return Trouble(f".{name}() does not take traced values", _OF_NUMPY[name])
    return Trouble(
        f"`{written}({listed})` computes with floats, and a traced value is none",
        "write it with NumPy's functions, or tabulate it before the function and write np.interp(x, points, values)",
    )


_COMPARING = ("minimum", "maximum", "fmin", "fmax", "clip", "where", "sign", "max", "min", "amax", "amin", "any", "all", "select", "interp",
              "logical_and", "logical_or", "logical_not", "heaviside", "greater", "less", "greater_equal", "less_equal")  # fmt: skip


def _extremum(name: str) -> Callable[[list[str]], Trouble]:
    def told(arguments: list[str]) -> Trouble:
        text = f"np.{name}({arguments[0]})" if len(arguments) == 1 else functools.reduce(
            lambda a, b: f"np.{name}imum({a}, {b})", arguments
        )
        return Trouble(f"{name}() decides on a traced value", f"write {text}")

    return told


#: Functions of Python on traced values: why not, and what to write, given the texts of their arguments.
_BUILTIN: tuple[tuple[Any, Callable[[list[str]], Trouble]], ...] = (
    (min, _extremum("min")), (max, _extremum("max")),
    (any, lambda x: Trouble("any() decides on traced values", f"write np.any({x[0]})")),
    (all, lambda x: Trouble("all() decides on traced values", f"write np.all({x[0]})")),
    (float, lambda x: Trouble("a traced value cannot be made a float", f"leave float() out: {x[0]}")),
    (int, lambda x: Trouble("a traced value cannot be made an integer", f"write np.trunc({x[0]})")),
    (math.trunc, lambda x: Trouble("a traced value cannot be made an integer", f"write np.trunc({x[0]})")),
    (round, lambda x: Trouble("a traced value has no digits to be rounded", f"write np.floor({x[0]} + 0.5)")),
    (bool, lambda x: Trouble("a traced value has no truth value", f"write the comparison itself: {x[0]} != 0.0")),
    (complex, lambda x: Trouble("traced values are real", "write real and imaginary parts by themselves")),
    (range, lambda x: Trouble("a traced value cannot count the passes of a loop", "give range() a fixed number")),
    (sorted, lambda x: Trouble("sorted() decides on traced values", "write np.minimum and np.maximum of the entries")),
    (format, lambda x: Trouble("a traced value has no digits to be formatted", "leave the text out")),
)  # fmt: skip
