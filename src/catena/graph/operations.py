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
    partials: Callable[..., Any] = lambda *values: ()  # derivatives by its operands, of these and the result; of a choice the condition


_N, _C = NUMBER, CONDITION


# derivatives of z = f(a, b) by a and b; square roots and angles have the slope 0 where they have none


def _by_sum(a: Any, b: Any, z: Any) -> tuple[Any, Any]:
    return 1.0, 1.0


def _by_rest(a: Any, b: Any, z: Any) -> tuple[Any, Any]:
    return 1.0, -1.0


def _by_sign(a: Any, z: Any) -> tuple[Any]:
    return (-1.0,)


def _by_size(a: Any, z: Any) -> tuple[Any]:
    return (where(a < 0.0, -1.0, 1.0),)


def _by_product(a: Any, b: Any, z: Any) -> tuple[Any, Any]:
    return b, a


def _by_ratio(a: Any, b: Any, z: Any) -> tuple[Any, Any]:
    inverse = 1.0 / b
    return inverse, -z * inverse


def _by_root(a: Any, z: Any) -> tuple[Any]:
    return (where(z > 0.0, 0.5 / z, 0.0),)


def _by_angle(a: Any, b: Any, z: Any) -> tuple[Any, Any]:
    square = a * a + b * b
    inverse = where(square > 0.0, 1.0 / square, 0.0)
    return b * inverse, -a * inverse


def _by_power(a: Any, b: Any, z: Any) -> tuple[Any, Any]:
    return b * a ** (b - 1.0), where(a > 0.0, z * np.log(a), 0.0)


# whether a choice of two numbers is the first


def _smaller(a: Any, b: Any, z: Any) -> Any:
    return a <= b


def _larger(a: Any, b: Any, z: Any) -> Any:
    return a >= b


#: All operations by name. Functions of the C library have its names.
OPERATIONS: dict[str, Operation] = {
    "add": Operation("add", (_N, _N), _N, np.add, "fadd {flags} {number} {0}, {1}", "{0} + {1}", "plus", "{0} + {1}", _by_sum),
    "sub": Operation("add", (_N, _N), _N, np.subtract, "fsub {flags} {number} {0}, {1}", "{0} - {1}", "minus", "{0} - {1}", _by_rest),
    "mul": Operation("mul", (_N, _N), _N, np.multiply, "fmul {flags} {number} {0}, {1}", "{0} * {1}", "times", "{0} * {1}", _by_product),
    "div": Operation("div", (_N, _N), _N, np.divide, "fdiv {flags} {number} {0}, {1}", "{0} / {1}", "rdivide", "{0} / {1}", _by_ratio),
    "neg": Operation("neg", (_N,), _N, np.negative, "fneg {flags} {number} {0}", "-{0}", "neg", "-{0}", _by_sign),
    "abs": Operation("neg", (_N,), _N, np.abs, "@llvm.fabs", "fabs({0})", "fabs", "jnp.abs({0})", _by_size),
    "sqrt": Operation("sqrt", (_N,), _N, np.sqrt, "@llvm.sqrt", "sqrt({0})", "sqrt", "jnp.sqrt({0})", _by_root),
    "sin": Operation("trig", (_N,), _N, np.sin, "@sincos", "sin({0})", "sin", "jnp.sin({0})", lambda a, z: (np.cos(a),)),
    "cos": Operation("trig", (_N,), _N, np.cos, "@sincos", "cos({0})", "cos", "jnp.cos({0})", lambda a, z: (-np.sin(a),)),
    "exp": Operation("function", (_N,), _N, np.exp, "@lanewise", "exp({0})", "exp", "jnp.exp({0})", lambda a, z: (z,)),
    "log": Operation("function", (_N,), _N, np.log, "@lanewise", "log({0})", "log", "jnp.log({0})", lambda a, z: (1.0 / a,)),
    "tanh": Operation("function", (_N,), _N, np.tanh, "@lanewise", "tanh({0})", "tanh", "jnp.tanh({0})", lambda a, z: (1.0 - z * z,)),
    "atan2": Operation("function", (_N, _N), _N, np.arctan2, "@lanewise2", "atan2({0}, {1})", "atan2", "jnp.arctan2({0}, {1})", _by_angle),
    "pow": Operation("function", (_N, _N), _N, np.power, "@lanewise2", "pow({0}, {1})", "power", "jnp.power({0}, {1})", _by_power),
    "min": Operation("choice", (_N, _N), _N, np.minimum, "@llvm.minimum", "@_smaller({0}, {1})", "fmin", "jnp.minimum({0}, {1})", _smaller),
    "max": Operation("choice", (_N, _N), _N, np.maximum, "@llvm.maximum", "@_larger({0}, {1})", "fmax", "jnp.maximum({0}, {1})", _larger),
    "select": Operation(
        "choice", (_C, _N, _N), _N, np.where,
        "select {condition} {0}, {number} {1}, {number} {2}", "{0} ? {1} : {2}", "if_else", "jnp.where({0}, {1}, {2})",
        lambda condition, a, b, z: condition,
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
