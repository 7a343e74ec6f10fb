"""Every operation of the table gives the same in NumPy, as machine code, in C, in CasADi and in JAX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.test_export import Compiled, jax, needs_casadi, needs_compiler

import catena as ct
from catena.graph import OPERATIONS, Graph, Port
from catena.graph.operations import CONDITION
from catena.native import Kernel, compile_graph
from catena.native.llvm.layout import LIBRARY

pytestmark = pytest.mark.quick

__all__ = ["jax"]  # a fixture

#: Three operands each: both orders of size, equal ones, both signs, and within the reach of all functions.
STATES = np.array([[0.3, 0.7, 0.2], [0.9, 0.4, 1.5], [0.5, 0.5, 0.5], [0.1, 2.5, 0.5], [3.0, 0.25, 7.0]])


def every_operation() -> Graph:
    """Return the graph of each operation once, on numbers x or on whether they are above 1/2; a result that is a condition is 1 or 0."""
    nodes: list[tuple] = [*(("input", i) for i in range(3)), ("const", 1.0), ("const", 0.0), ("const", 0.5)]
    above = [len(nodes) + i for i in range(3)]
    nodes += [("lt", 5, i) for i in range(3)]
    results = []
    for name, operation in OPERATIONS.items():
        nodes.append((name, *(above[i] if type_ == CONDITION else i for i, type_ in enumerate(operation.operands))))
        if operation.result == CONDITION:
            nodes.append(("select", len(nodes) - 1, 3, 4))
        results.append(len(nodes) - 1)
    return Graph("operations", tuple(nodes), (Port("x", (3,)),), (Port("results", (len(results),)),), (tuple(results),)).check()


@pytest.fixture
def kernel() -> Kernel:
    return compile_graph(every_operation())


def agree(found: Any, x: np.ndarray) -> None:
    (expected,) = every_operation().evaluate(x)
    for name, got, want in zip(OPERATIONS, np.ravel(found), expected, strict=True):
        assert abs(got - want) <= 4e-16 * max(1.0, abs(want)), (name, x, got, want)


@pytest.mark.parametrize("x", STATES)
def test_machine_code_equals_numpy(x: np.ndarray, kernel: Kernel) -> None:
    agree(kernel(x), x)


@needs_compiler
def test_c_equals_numpy(kernel: Kernel, tmp_path: Path) -> None:
    compiled = Compiled(kernel, tmp_path)
    for x in STATES:
        agree(compiled(x)[1][0], x)


@needs_casadi
def test_casadi_equals_numpy(kernel: Kernel) -> None:
    function = ct.export_casadi(kernel)
    for x in STATES:
        agree(np.array(function(x)), x)


def test_jax_equals_numpy(kernel: Kernel, jax: Any) -> None:
    function = ct.export_jax(kernel)
    for x in STATES:
        agree(np.array(function(x)), x)


def test_numpy_and_the_texts_take_as_many_operands_as_the_table_says() -> None:
    for name, operation in OPERATIONS.items():
        operands = [np.array([1, 0], dtype=bool if type_ == CONDITION else float) for type_ in operation.operands]
        with np.errstate(all="ignore"):
            assert operation.numpy(*operands).dtype == (bool if operation.result == CONDITION else float), name
        for form in (operation.c, operation.jax, *([] if operation.llvm[0] == "@" else [operation.llvm])):
            assert all(form.count(f"{{{i}}}") == (i < len(operands)) for i in range(4)), (name, form)


def test_the_library_begins_with_sine_and_cosine_which_far_arguments_fall_back_on() -> None:
    assert LIBRARY[:2] == ("sin", "cos")
