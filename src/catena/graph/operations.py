"""The operations of the traced scalar, each once: what it takes and gives, what it counts as, how it is computed and how it is written.

Whatever treats operations one by one reads this table: the graph checks, counts and evaluates by it, `derivatives` differentiates by it,
`native` and `export` write by it. Operations that solve systems of equations have sizes, and are classes of their own; see `elimination`
and `saddle_point`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from catena.graph.functions import where

#: Types of operands and results.
NUMBER, CONDITION = "number", "condition"

#: Nodes of a graph that are not operations: a number, and an entry of an input.
LEAVES = ("const", "input")


class Operation(NamedTuple):
    """A row of the table; in texts {0}, {1}, … stand for the operands."""

    kind: str  # what it counts as; negations are free where they meet a sum or a product, so they count apart
    operands: tuple[str, ...]
    result: str
    numpy: Callable[..., Any]
    llvm: str  # an instruction on vectors {number} or {condition}, or a function to call: LLVM's, or @sincos or @lanewise of the C library
    c: str  # @ stands for the name of the export
    casadi: str  # the name of its function, or of Python's operator where it has none
    jax: str


_N, _C = NUMBER, CONDITION

#: All operations by name. Functions of the C library have its names.
OPERATIONS: dict[str, Operation] = {
    "add": Operation("add", (_N, _N), _N, np.add, "fadd {flags} {number} {0}, {1}", "{0} + {1}", "plus", "{0} + {1}"),
    "sub": Operation("add", (_N, _N), _N, np.subtract, "fsub {flags} {number} {0}, {1}", "{0} - {1}", "minus", "{0} - {1}"),
    "mul": Operation("mul", (_N, _N), _N, np.multiply, "fmul {flags} {number} {0}, {1}", "{0} * {1}", "times", "{0} * {1}"),
    "div": Operation("div", (_N, _N), _N, np.divide, "fdiv {flags} {number} {0}, {1}", "{0} / {1}", "rdivide", "{0} / {1}"),
    "neg": Operation("neg", (_N,), _N, np.negative, "fneg {flags} {number} {0}", "-{0}", "neg", "-{0}"),
    "abs": Operation("neg", (_N,), _N, np.abs, "@llvm.fabs", "fabs({0})", "fabs", "jnp.abs({0})"),
    "floor": Operation("function", (_N,), _N, np.floor, "@llvm.floor", "floor({0})", "floor", "jnp.floor({0})"),
    "sqrt": Operation("sqrt", (_N,), _N, np.sqrt, "@llvm.sqrt", "sqrt({0})", "sqrt", "jnp.sqrt({0})"),
    "sin": Operation("trig", (_N,), _N, np.sin, "@sincos", "sin({0})", "sin", "jnp.sin({0})"),
    "cos": Operation("trig", (_N,), _N, np.cos, "@sincos", "cos({0})", "cos", "jnp.cos({0})"),
    "exp": Operation("function", (_N,), _N, np.exp, "@lanewise", "exp({0})", "exp", "jnp.exp({0})"),
    "log": Operation("function", (_N,), _N, np.log, "@lanewise", "log({0})", "log", "jnp.log({0})"),
    "tanh": Operation("function", (_N,), _N, np.tanh, "@lanewise", "tanh({0})", "tanh", "jnp.tanh({0})"),
    "atan2": Operation("function", (_N, _N), _N, np.arctan2, "@lanewise2", "atan2({0}, {1})", "atan2", "jnp.arctan2({0}, {1})"),
    "pow": Operation("function", (_N, _N), _N, np.power, "@lanewise2", "pow({0}, {1})", "power", "jnp.power({0}, {1})"),
    "min": Operation("choice", (_N, _N), _N, np.minimum, "@llvm.minimum", "@_smaller({0}, {1})", "fmin", "jnp.minimum({0}, {1})"),
    "max": Operation("choice", (_N, _N), _N, np.maximum, "@llvm.maximum", "@_larger({0}, {1})", "fmax", "jnp.maximum({0}, {1})"),
    "select": Operation(
        "choice", (_C, _N, _N), _N, np.where,
        "select {condition} {0}, {number} {1}, {number} {2}", "{0} ? {1} : {2}", "if_else", "jnp.where({0}, {1}, {2})",
    ),
    "lt": Operation("choice", (_N, _N), _C, np.less, "fcmp olt {number} {0}, {1}", "{0} < {1}", "lt", "{0} < {1}"),
    "le": Operation("choice", (_N, _N), _C, np.less_equal, "fcmp ole {number} {0}, {1}", "{0} <= {1}", "le", "{0} <= {1}"),
    "eq": Operation("choice", (_N, _N), _C, np.equal, "fcmp oeq {number} {0}, {1}", "{0} == {1}", "eq", "{0} == {1}"),
    "and": Operation("choice", (_C, _C), _C, np.logical_and, "and {condition} {0}, {1}", "{0} && {1}", "logic_and", "{0} & {1}"),
    "or": Operation("choice", (_C, _C), _C, np.logical_or, "or {condition} {0}, {1}", "{0} || {1}", "logic_or", "{0} | {1}"),
    "not": Operation("choice", (_C,), _C, np.logical_not, "xor {condition} {0}, {true}", "!{0}", "logic_not", "~{0}"),
}  # fmt: skip

#: The operations whose results are conditions.
CONDITIONS = frozenset(name for name, operation in OPERATIONS.items() if operation.result is CONDITION)


def _by_ratio(a: Any, b: Any, z: Any) -> tuple[Any, Any]:
    inverse = 1.0 / b
    return inverse, -z * inverse


def _by_angle(a: Any, b: Any, z: Any) -> tuple[Any, Any]:
    square = a * a + b * b
    inverse = where(square > 0.0, 1.0 / square, 0.0)
    return b * inverse, -a * inverse


#: Derivatives of an operation z = f(a, b) by a and b; square roots and angles have the slope 0 where they have none. Of a choice, whether
#: it is the first number.
PARTIALS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b, z: (1.0, 1.0), "sub": lambda a, b, z: (1.0, -1.0), "mul": lambda a, b, z: (b, a), "div": _by_ratio,
    "neg": lambda a, z: (-1.0,), "abs": lambda a, z: (where(a < 0.0, -1.0, 1.0),), "floor": lambda a, z: (0.0,),
    "sqrt": lambda a, z: (where(z > 0.0, 0.5 / z, 0.0),),
    "sin": lambda a, z: (np.cos(a),), "cos": lambda a, z: (-np.sin(a),), "exp": lambda a, z: (z,), "log": lambda a, z: (1.0 / a,),
    "tanh": lambda a, z: (1.0 - z * z,), "atan2": _by_angle,
    "pow": lambda a, b, z: (b * a ** (b - 1.0), where(a > 0.0, z * np.log(a), 0.0)),
    "min": lambda a, b, z: a <= b, "max": lambda a, b, z: a >= b, "select": lambda condition, a, b, z: condition,
}  # fmt: skip
