"""Linear systems of full matrices: machine code against NumPy, derivatives, and lanes that repeat each other."""

from __future__ import annotations

import numpy as np
import pytest
from tests.referee import relative

from catena import ExportError, export_c
from catena.graph import Graph, LinearSystem, Trace
from catena.graph.differentiated import adjoint_graph, tangent_graph
from catena.native import compile_graph
from catena.native.llvm import machine


def solving(n: int, k: int) -> Graph:
    trace = Trace("system")
    A, B = trace.input("A", (n, n)), trace.input("B", (n, k))
    return trace.graph(X=trace.linear_system(A, B)).check()


def system(n: int, k: int, *batch: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n + k)
    return rng.normal(size=(*batch, n, n)), rng.normal(size=(*batch, n, k))


@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 3), (7, 1), (8, 8), (9, 17), (33, 5)])
@pytest.mark.parametrize("count", [1, 3, 8, 19])
def test_solutions_in_machine_code_equal_numpys(n: int, k: int, count: int) -> None:
    A, B = system(n, k, count)
    X = compile_graph(solving(n, k))(A, B)
    assert relative(A @ X, B) < 1e-12 * np.linalg.cond(A).max()
    assert relative(X, np.linalg.solve(A, B)) < 1e-14 * np.linalg.cond(A).max()
    np.testing.assert_allclose(solving(n, k).evaluate(A, B)[0], np.linalg.solve(A, B))


@pytest.mark.parametrize("lanes", [2, 4])
def test_other_processors(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    host = machine.host()._replace(lanes=lanes)
    monkeypatch.setattr(machine, "host", lambda: host)
    A, B = system(11, 4, 7)
    assert relative(compile_graph(solving(11, 4))(A, B), np.linalg.solve(A, B)) < 1e-11


def test_states_that_repeat_others_and_singular_ones_leave_their_neighbours_alone() -> None:
    A, B = system(5, 2, 6)
    A[1], B[1] = A[0], B[0]
    A[3] = 0.0
    A[4, 0, 0] = np.nan
    B[2] = B[1]
    X = compile_graph(solving(5, 2))(A, B)
    for i in (0, 1, 2, 5):
        np.testing.assert_allclose(X[i], np.linalg.solve(A[i], B[i]), rtol=1e-10)
    np.testing.assert_array_equal(X[0], X[1])
    assert not np.isfinite(X[3]).any()
    assert not np.isfinite(X[4]).all()
    assert np.isnan(solving(5, 2).evaluate(A, B)[0][3:5]).all()


def test_a_pivot_of_zero_is_exchanged() -> None:
    A = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 0.0], [0.0, 1e-20, 1.0]])
    np.testing.assert_allclose(compile_graph(solving(3, 3))(A, A), np.eye(3), atol=1e-15)


def test_derivatives_along_directions_and_from_cotangents_equal_those_of_the_inverse() -> None:
    n, k = 6, 3
    A, B = system(n, k, 4)
    dA, dB = system(n, k + n, 4)[0], system(n + 1, k, 4)[1][:, :n]
    X = np.linalg.solve(A, B)
    expected = np.linalg.solve(A, dB - dA @ X)
    graph = solving(n, k)
    _, change = compile_graph(tangent_graph(graph, ["A", "B"], {}))(A, B, dA, dB)
    assert relative(change, expected) < 1e-11
    bar = np.random.default_rng(1).normal(size=X.shape)
    A_bar, B_bar = compile_graph(adjoint_graph(graph, ["A", "B"], {}))(A, B, bar)
    left, right = (bar * expected).sum(axis=(1, 2)), (A_bar * dA).sum(axis=(1, 2)) + (B_bar * dB).sum(axis=(1, 2))
    np.testing.assert_allclose(left, right, rtol=1e-10)


def test_systems_are_counted_and_refused_where_they_cannot_be() -> None:
    assert LinearSystem(2, 1).operations == {"add": 3, "div": 2, "mul": 6}
    assert not LinearSystem(0, 1).well_formed
    with pytest.raises(ExportError, match="run time"):
        export_c(compile_graph(solving(3, 1)))
