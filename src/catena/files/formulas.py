"""Formulas of parameters as text, such as "0.5 * length": what model files hold of numbers that follow others."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.model.wording import short
from catena.scalars.expression import Expression

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip
_FUNCTIONS = {
    f.__name__: f for f in (np.sin, np.cos, np.tan, np.sqrt, np.exp, np.log, np.tanh, np.arcsin, np.arccos, np.arctan, np.arctan2)
}
_REMEDY = f"write it with numbers, parameters, + - * / **, brackets, and {', '.join(_FUNCTIONS)}"


def written(value: Any, known: Mapping[str, Any]) -> Any:
    """Return numbers and expressions as lists of numbers and texts, or say what a file cannot hold; parameters are known by name."""
    if isinstance(value, np.ndarray) and value.ndim:
        return [written(entry, known) for entry in value]
    entry = value[()] if isinstance(value, np.ndarray) else value
    if not isinstance(entry, Expression):
        return float(entry)
    read(repr(entry), known)
    return repr(entry)


def read(value: Any, known: Mapping[str, Any]) -> Any:
    """Return what texts in lists, numbers and texts say, with parameters by name."""
    if isinstance(value, list):
        return [read(entry, known) for entry in value]
    if not isinstance(value, str):
        return value
    try:
        return _evaluated(ast.parse(value.strip(), mode="eval").body, known)
    except (SyntaxError, IndexError, TypeError, RecursionError, ArithmeticError, MemoryError):
        raise ModelError(f"formula {short(value)} cannot be read; {_REMEDY}") from None


def _evaluated(node: ast.AST, known: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=bool() | complex() | str() | bytes() | None):
            pass
        case ast.Constant(value=number) if isinstance(number, (int, float)):
            return float(number)
        case ast.Name(id=name):
            if name in known:
                return known[name]
            raise ModelError(f"formula names {name!r}, which is no parameter; choose from {', '.join(map(repr, known)) or '[parameters]'}")
        case ast.Subscript(value=ast.Name(id=name), slice=at) if name in known:
            return known[name][_index(at)]
        case ast.UnaryOp(op=ast.USub(), operand=x):
            return -_evaluated(x, known)
        case ast.BinOp(left=a, op=op, right=b) if type(op) in _BINARY:
            return _BINARY[type(op)](_evaluated(a, known), _evaluated(b, known))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_evaluated(x, known) for x in arguments))
    raise TypeError


def _index(node: ast.AST) -> Any:
    """Return the number of an entry, such as 0 or -1, or its numbers, such as 1, 2."""
    match node:
        case ast.Tuple(elts=parts):
            return tuple(_index(part) for part in parts)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=at)) if type(at) is int:
            return -at
        case ast.Constant(value=at) if type(at) is int:
            return at
    raise TypeError
