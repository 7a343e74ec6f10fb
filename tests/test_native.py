"""The compiled kernel agrees with the graph it was made of, state by state, however it is called."""

import copy
import ctypes
import gc
import math
import mmap
import os
import pickle
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catena.errors import ArgumentError
from catena.graph import OPERATIONS, Graph, Port, Subgraph, Trace, division, where
from catena.graph import atan2 as traced_atan2
from catena.graph.operations import CONDITION, CONDITIONS
from catena.native import Kernel, compile_graph, single_call, thread_parts, threads
from catena.native.llvm import functions, machine, tables
from catena.native.thread_parts import share

LANES = machine.host().lanes
BATCHES = (0, 1, 2, LANES - 1, LANES, LANES + 1, 2 * LANES + 1, 1000)


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch):
    monkeypatch.setenv("CATENA_CACHE_DIR", "off")


def by_regions(graph: Graph) -> Kernel:
    """Return the kernel that a large graph would get."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(division, "MERGE", -1)
        patch.setattr(division, "MERGE_SMALL", -1)
        return compile_graph(graph)


def chain(length: int, seed: int = 0) -> Graph:
    """Return a graph of like regions, with values that pass from each to the next and back, as in a recursion over bodies."""
    numbers = np.random.default_rng(seed).uniform(0.5, 1.5, (length, 2))
    trace = Trace("chain")
    q, v = trace.input("q", (length,)), trace.input("v", (length,))
    outward, kept = 0.1, []
    for k in range(length):
        trace.mark()
        s, c = np.sin(q[k]), np.cos(q[k])
        outward = c * outward + s * v[k] * numbers[k, 0] + 0.3 * numbers[k, 1]
        kept.append((outward, s))
    inward, results = 0.2, []
    for k in reversed(range(length)):
        trace.mark()
        inward = kept[k][1] * inward + np.sqrt(1.0 + kept[k][0] ** 2) / (2.0 + inward * inward)
        results.append(inward)
    trace.mark()
    return trace.graph(w=np.array(results[::-1], dtype=object), total=outward)


@pytest.fixture(scope="module")
def small() -> Kernel:
    return compile_graph(chain(3))


@pytest.fixture(scope="module")
def large() -> Kernel:
    """A kernel by regions whose scratch memory is too large for the stack."""
    made = by_regions(chain(300))
    assert made.blocks < 10 < made.calls
    return made


def assert_close(got: np.ndarray, expected: np.ndarray) -> None:
    """Fused operations and another order of rounding are all that may differ."""
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


def states(length: int, *batch: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    q, v = np.random.default_rng(seed).uniform(-2.0, 2.0, (2, *batch, length))
    return q, v


# --- operations -------------------------------------------------------------------------------------------------------------------------

VALUES = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5, math.inf, -math.inf, math.nan, 1e6, -3e7, 1e22]),
    st.floats(-100.0, 100.0, allow_subnormal=False),
)


@st.composite
def graphs(draw) -> Graph:
    """Return a graph of any operations whose outputs are all its numbers; a condition shows as 1 or 0."""
    nodes: list[tuple] = [*(("input", i) for i in range(4)), ("const", 1.0), ("const", 0.0)]
    nodes += [("const", draw(st.floats(-3.0, 3.0, allow_subnormal=False))) for _ in range(2)]
    plain, truth = list(range(len(nodes))), []
    for _ in range(draw(st.integers(3, 25))):
        op = draw(st.sampled_from(sorted(OPERATIONS)))
        if CONDITION in OPERATIONS[op].operands and not truth:
            op = "lt"
        pools = [truth if type_ == CONDITION else plain for type_ in OPERATIONS[op].operands]
        operands = [draw(st.sampled_from(pool)) for pool in pools]
        (truth if op in CONDITIONS else plain).append(len(nodes))
        nodes.append((op, *operands))
        if op in CONDITIONS:
            plain.append(len(nodes))
            nodes.append(("select", len(nodes) - 1, 4, 5))
    marks = tuple(sorted(draw(st.sets(st.integers(8, len(nodes)), max_size=4))))
    return Graph("any", tuple(nodes), (Port("x", (3,)), Port("y", ())), (Port("all", (len(plain),)),), (tuple(plain),), marks).check()


def check_operations(graph: Graph, results: np.ndarray) -> None:
    """Compare every number with NumPy's result for the operands that the kernel itself computed."""
    values = {i: results[:, k] for k, i in enumerate(graph.results[0])}
    for i, node in enumerate(graph.nodes):
        if node[0] in CONDITIONS:
            values.setdefault(i, values.get(i + 1, np.zeros(0)))
    with np.errstate(all="ignore"):
        for i, (op, *operands) in enumerate(graph.nodes):
            if op in ("const", "input"):
                continue
            given, got = [values[j] for j in operands], values[i]
            expected = np.asarray(OPERATIONS[op].numpy(*given), dtype=float)
            sizes = [np.abs(x) for x in given]
            # reciprocals may be shared between divisions, which costs range at the ends
            usual = np.all([(x == 0) | ~np.isfinite(x) | ((x > 1e-150) & (x < 1e150)) for x in sizes], axis=0)
            if op in ("add", "sub"):
                room = 4e-16 * (sizes[0] + sizes[1])
            elif op == "atan2":
                room, usual = 1e-15 * np.abs(expected), usual & (given[0] != 0)  # the sign of zero is not kept
            else:
                room = 1e-15 * np.abs(expected) + (2e-16 if op in ("sin", "cos") else 0.0)
            same = (np.abs(got - expected) <= room) | (got == expected) | (np.isnan(got) & np.isnan(expected)) | ~usual
            if op == "div":
                same |= (np.abs(expected) == math.inf) & (np.abs(got) == math.inf) & (given[1] == 0)
            assert same.all(), (i, op, [x[~same] for x in given], got[~same], expected[~same])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(graph=graphs(), data=st.data())
def test_every_operation_equals_numpys(graph, data):
    batch = data.draw(st.sampled_from([1, 3, LANES, 2 * LANES + 1]))
    rows = data.draw(st.lists(st.lists(VALUES, min_size=4, max_size=4), min_size=batch, max_size=batch))
    array = np.array(rows)
    for made in (compile_graph(graph), by_regions(graph)):
        values = made(array[:, :3], array[:, 3])
        check_operations(graph, values)
        for i in range(batch):
            np.testing.assert_array_equal(made(array[i, :3], array[i, 3]), values[i], err_msg="a state depends on its neighbours")


@pytest.mark.parametrize("op", sorted(OPERATIONS))
def test_operation_equals_numpys_on_a_grid(op):
    points = np.array([0.0, 0.5, -0.5, 1.0, -2.0, 3.75, 700.0, -1e5, math.inf, -math.inf, math.nan])
    arity = len(OPERATIONS[op].operands)
    mesh = np.stack(np.meshgrid(*[points] * arity, indexing="ij"), axis=-1).reshape(-1, arity)
    nodes = (*(("input", i) for i in range(arity)), (op, *range(arity)))
    graph = Graph(op, nodes, (Port("x", (arity,)),), (Port("all", (arity + 1,)),), (tuple(range(arity + 1)),))
    check_operations(graph, compile_graph(graph)(mesh))


def test_smooth_graph_equals_evaluation():
    graph = chain(20)
    q, v = states(20, 1000)
    for made in (compile_graph(graph), by_regions(graph)):
        for got, expected in zip(made(q, v), graph.evaluate(q, v), strict=True):
            assert_close(got, expected)


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("plain", [False, True], ids=["this processor", "its plainest ancestor"])
def test_other_processors(lanes, plain, monkeypatch):
    host = machine.host()._replace(lanes=lanes, x86=False)  # flags are cleared by the C library
    if plain and machine.host().x86:
        host = host._replace(processor="x86-64", features="")  # two lanes in a register, nothing fused
    monkeypatch.setattr(machine, "host", lambda: host)
    graph = chain(20)
    q, v = states(20, 2 * lanes + 1)
    q[1], q[2], v[3] = 1e9, functions.REACH, math.nan
    for made in (compile_graph(graph), by_regions(graph)):
        with np.errstate(all="raise"):
            results = made(q, v)
        for got, expected in zip(results, graph.evaluate(q, v), strict=True):
            assert_close(got, expected)


def test_condition_that_leaves_a_region():
    trace = Trace("switch")
    x, y = trace.input("x"), trace.input("y")
    above = x > y
    trace.mark()
    first = where(above, x, 2.0 * y)
    trace.mark()
    graph = trace.graph(a=first, b=where(above & (x < 3.0), traced_atan2(y, x), 7.0))
    x, y = np.random.default_rng(0).uniform(-5, 5, (2, 50))
    for got, expected in zip(by_regions(graph)(x, y), graph.evaluate(x, y), strict=True):
        assert_close(got, expected)


# --- sine and cosine --------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["of an input", "of a value"])
def turn(request) -> Kernel:
    trace = Trace("turn")
    x, zero = trace.input("x"), trace.input("zero")
    if request.param == "of a value":
        x = x + zero
    return compile_graph(trace.graph(s=np.sin(x), c=np.cos(x), z=zero))


def test_angles_that_are_computed_first():
    trace = Trace("angles")
    x, y = trace.input("x", (3,)), trace.input("y")
    trace.mark()
    arguments = [
        x[0],
        x[1] + 0.5,
        x[1] - 0.25,
        0.75 - x[2],
        2.0 * x[0],
        3.0 * x[2] + 1.0,
        1.0 - 3.0 * x[2],
        (x[0] + 1.0) * 2.0,
        x[0] * x[1],
    ]
    sines = [np.sin(a) for a in arguments]
    trace.mark()
    # an angle that is used for itself, a sine that is a result, and sines of all but the same form
    mixed = sum(arguments[1:4]) * np.cos(arguments[1]) + sines[2]
    value = y
    for k in range(4):
        trace.mark()
        value = np.sin(value + 0.1 * k) * 1.5
    trace.mark()
    graph = trace.graph(sines=np.array([*sines, sines[0]], dtype=object), mixed=mixed, value=value, cosine=np.cos(y))
    q, y = np.random.default_rng(4).uniform(-3, 3, (9, 3)), np.linspace(-1, 1, 9)
    for made in (compile_graph(graph), by_regions(graph)):
        for got, expected in zip(made(q, y), graph.evaluate(q, y), strict=True):
            assert_close(got, expected)
    assert "sincos_once(<" in by_regions(trace.graph(value=value)).llvm


def units(got: np.ndarray, exact: np.ndarray) -> float:
    return float(np.max(np.abs(got - exact) / np.spacing(np.abs(exact.astype(float)))))


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs a longer double as the reference")
def test_sine_and_cosine_are_exact_to_two_units(turn):
    random = np.random.default_rng(2)
    quarters = np.concatenate([np.arange(-3000, 3000), random.integers(-(2**20) + 2, 2**20 - 2, 20000)]) * (np.pi / 2)
    sets = [random.uniform(-r, r, 50000) for r in (0.9, 4.0, 100.0, 1e4, functions.REACH)]
    sets += [quarters, np.nextafter(quarters, np.inf), quarters + 1e-9, quarters / 2, 10.0 ** random.uniform(-300, 0, 1000)]
    for x in sets:
        s, c, _ = turn(x, 0.0)
        assert units(s, np.sin(x.astype(np.longdouble))) < 1.3
        assert units(c, np.cos(x.astype(np.longdouble))) < 1.3


def test_huge_angles_equal_the_c_library(turn):
    x = np.array([1e7, -1e22, 0.5, 1e300, functions.REACH * 1.0001, -0.0, 3.0])
    s, c, _ = turn(x, 0.0)
    np.testing.assert_allclose(s, [math.sin(value) for value in x], rtol=5e-16, atol=0)
    np.testing.assert_allclose(c, [math.cos(value) for value in x], rtol=5e-16, atol=0)


@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf, 1e300])
def test_a_strange_state_leaves_its_neighbours_alone(strange, small, large):
    for made, length in ((small, 3), (large, 300)):
        q, v = states(length, 2 * LANES + 3)
        plain = made(q, v)
        for state in (0, LANES - 1, LANES, 2 * LANES + 2):
            disturbed = q.copy()
            disturbed[state] = strange
            others = np.arange(len(q)) != state
            for got, expected in zip(made(disturbed, v), plain, strict=True):
                np.testing.assert_array_equal(got[others], expected[others])
                assert abs(strange) == 1e300 or np.isnan(got[state]).any()


def test_no_warnings_for_results_that_are_not_finite():
    trace = Trace("risky")
    x = trace.input("x")
    made = compile_graph(trace.graph(a=1.0 / x, b=np.sqrt(x), c=np.log(x), d=np.exp(1e3 * x)))
    with np.errstate(all="raise"):
        a, b, _, d = made(np.array([0.0, -1.0, 1.0]))
    assert a[0] == np.inf
    assert np.isnan(b[1])
    assert d[2] == np.inf
    # flags that were there before are NumPy's to see
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        np.divide(1.0, np.zeros(3))


# --- calls ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", BATCHES)
def test_batch_equals_one_by_one(batch, small, large):
    for made, length in ((small, 3), (large, 300)):
        q, v = states(length, min(batch, 50) if length > 3 else batch)
        w, total = made(q, v)
        assert w.shape == q.shape
        assert total.shape == q.shape[:-1]
        for i in range(len(q)):
            one, sum_one = made(q[i], v[i])
            np.testing.assert_array_equal(one, w[i])
            assert sum_one == total[i]


def test_regions_equal_one_block():
    graph = chain(9)
    q, v = states(9, 31)
    for got, expected in zip(by_regions(graph)(q, v), compile_graph(graph)(q, v), strict=True):
        assert_close(got, expected)


def test_large_regions_are_cut(monkeypatch):
    graph = chain(40)
    whole = Graph(graph.name, graph.nodes, graph.inputs, graph.outputs, graph.results)
    monkeypatch.setattr(division, "LARGEST", 100)
    made = by_regions(whole)
    assert made.calls == -(-len(graph.nodes) // 100)
    q, v = states(40, 5)
    assert_close(made(q, v)[0], graph.evaluate(q, v)[0])


def test_broadcasting(small):
    q, v = states(3, 5, 1)[0], states(3, 4)[1]
    w, _ = small(q, v)
    assert w.shape == (5, 4, 3)
    np.testing.assert_array_equal(w, small(*(x.copy() for x in np.broadcast_arrays(q, v)))[0])
    assert small(states(3)[0], v)[0].shape == (4, 3)
    assert small(np.zeros((0, 3)), np.zeros((7, 1, 3)))[0].shape == (7, 0, 3)


def test_memory_layouts(small):
    q, v = states(3, 6, 5)
    expected = small(q, v)[0]
    wide = np.zeros((6, 5, 9))
    wide[..., ::3] = q
    unaligned = np.frombuffer(b"x" + q.tobytes(), dtype=np.uint8)[1:].view(float).reshape(q.shape)
    layouts = [np.asfortranarray(q), wide[..., ::3], q[::-1, ::-1][::-1, ::-1], np.flip(np.flip(q, -1).copy(), -1), unaligned]
    layouts.append(q.astype(">f8"))
    for array in layouts:
        np.testing.assert_array_equal(small(array, v)[0], expected)
    np.testing.assert_array_equal(small(q[::-1], v[::-1])[0], expected[::-1])
    np.testing.assert_array_equal(small(q[:, 1:4], v[:, 1:4])[0], expected[:, 1:4])
    np.testing.assert_array_equal(small(np.broadcast_to(q[0, 0], q.shape), v)[0], small(q[0, 0], v)[0])


def test_outputs_given(small):
    q, v = states(3, 11)
    expected = small(q, v)
    w, total = np.empty((11, 3)), np.empty(11)
    returned = small(q, v, out=(w, total))
    assert returned[0] is w
    np.testing.assert_array_equal(w, expected[0])
    np.testing.assert_array_equal(total, expected[1])
    strided = np.full((11, 2, 3), 5.0)
    small(q, v, out=(strided[:, 1], total))
    np.testing.assert_array_equal(strided[:, 1], expected[0])
    assert (strided[:, 0] == 5.0).all()
    single = np.empty((11, 3), dtype=np.float32)
    small(q, v, out=(single, None))
    np.testing.assert_array_equal(single, expected[0].astype(np.float32))


def test_output_may_overlap_inputs(small):
    memory = np.random.default_rng(3).uniform(-1, 1, (12, 3))
    v = states(3, 10)[1]
    expected = small(memory[:10].copy(), v)[0]
    small(memory[:10], v, out=(memory[2:], None))
    np.testing.assert_array_equal(memory[2:], expected)
    again = small(memory[:10].copy(), v)[0]
    small(memory[:10], v, out=(memory[:10], None))
    np.testing.assert_array_equal(memory[:10], again)


def test_other_number_types(small):
    q = np.array([[1, 2, 3], [4, 5, 6]])
    expected = small(q.astype(float), q.astype(float))[0]
    for kind in (np.int64, np.int8, np.float32, np.uint16):
        np.testing.assert_array_equal(small(q.astype(kind), q.tolist())[0], expected)
    assert small([True, False, True], [0, 0, 0])[0].dtype == float


def test_outputs_that_are_numbers_or_inputs():
    trace = Trace("plain")
    x, s, a = trace.input("x", (3,)), trace.input("s"), trace.input("a", (2, 3))
    made = compile_graph(trace.graph(one=1.0, s=s, twice=np.array([s, s, 2.5], dtype=object), a=a.T, x=x[::-1]))
    for batch in ((), (1,), (5,), (2, 3)):
        rng = np.random.default_rng(0)
        x, s, a = rng.normal(size=(*batch, 3)), rng.normal(size=batch), rng.normal(size=(*batch, 2, 3))
        one, s_out, twice, a_out, x_out = made(x, s, a)
        np.testing.assert_array_equal(one, np.ones(batch))
        np.testing.assert_array_equal(s_out, s)
        np.testing.assert_array_equal(twice[..., 2], np.full(batch, 2.5))
        np.testing.assert_array_equal(a_out, np.swapaxes(a, -1, -2))
        np.testing.assert_array_equal(x_out, x[..., ::-1])


def test_arguments_without_entries():
    trace = Trace("nothing")
    q, x = trace.input("q", (0,)), trace.input("x", (2,))
    made = compile_graph(trace.graph(q=q, y=2.0 * x, m=np.zeros((2, 0))))
    q, y, m = made(np.zeros((5, 0)), np.ones((3, 1, 2)))
    assert (q.shape, y.shape, m.shape) == ((3, 5, 0), (3, 5, 2), (3, 5, 2, 0))
    assert (y == 2.0).all()
    with pytest.raises(ArgumentError, match=r"'q' has shape \(3,\), and takes \(\.\.\., 0\)"):
        made(np.zeros(3), np.ones(2))
    np.testing.assert_array_equal(compile_graph(Trace("number").graph(z=np.ones(3)))(), np.ones(3))


# --- arguments that do not fit -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: f(np.ones(3)), "takes \\(q: 3\\), \\(v: 3\\); missing: v"),
        (lambda f: f(), "missing: q, v"),
        (lambda f: f(np.ones(3), np.ones(3), np.ones(3)), "got 3 arguments; outputs are given as out"),
        (lambda f: f(np.ones(4), np.ones(3)), "argument 'q' has shape \\(4,\\), and takes \\(..., 3\\)"),
        (lambda f: f(np.ones(3), 1.0), "argument 'v' has shape \\(\\), and takes"),
        (lambda f: f(np.ones((2, 3)), np.ones((5, 3))), "do not broadcast together: q \\(2,\\), v \\(5,\\)"),
        (lambda f: f(np.ones(3) * 1j, np.ones(3)), "argument 'q' has type complex128, and takes float64"),
        (lambda f: f(np.ones(3), ["a", "b", "c"]), "argument 'v' has type <U1"),
        (lambda f: f(np.ones(3), [None, 1, 2]), "argument 'v' has type object"),
        (lambda f: f(np.ones(3), [[1.0], [1.0, 2.0]]), "argument 'v' is not an array"),
        (lambda f: f(np.ones(3), w=np.ones(3)), "has no argument 'w'"),
        (lambda f: f(np.ones(3), q=np.ones(3)), "'q' is given twice"),
        (lambda f: f(np.ones(3), np.ones(3), v=np.ones(3)), "'v' is given twice"),
        (lambda f: f(np.ones(3), np.ones(3), out=np.ones(3)), "out= takes a tuple of 2 arrays"),
        (lambda f: f(np.ones(3), np.ones(3), out=(np.ones(4), None)), "out= of 'w' has shape \\(4,\\); the result has \\(3,\\)"),
        (lambda f: f(np.ones(3), np.ones(3), out=(np.ones(3, np.int64), None)), "out= of 'w' has type int64"),
        (lambda f: f(np.ones(3), np.ones(3), out=([0, 0, 0], None)), "out= of 'w' is a list"),
        (lambda f: f(np.ones((2, 3)), np.ones(3), out=(np.ones(3), None)), "the result has \\(2, 3\\)"),
    ],
)
def test_wrong_arguments_are_named(call, message, small):
    with pytest.raises(ArgumentError, match=message):
        call(small)


def test_arguments_by_name(small):
    q, v = states(3, 4)
    expected = small(q, v)[0]
    np.testing.assert_array_equal(small(v=v, q=q)[0], expected)
    np.testing.assert_array_equal(small(q, v=v)[0], expected)
    w = np.empty_like(q)
    small(q, v=v, out=(w, None))
    np.testing.assert_array_equal(w, expected)


# --- life -------------------------------------------------------------------------------------------------------------------------------


def test_what_a_kernel_tells():
    made = compile_graph(chain(3), method="plain", references=("[A] One", "[B] Two"), trace_seconds=0.5, function=chain)
    assert made.signature == "(q: 3), (v: 3) -> (w: 3), (total: scalar)"
    assert made.operations == made.graph.operations
    assert made.seconds["trace"] == 0.5
    assert {"trace", "optimise", "compile"} <= set(made.seconds)
    assert made.cite() == "[A] One\n[B] Two"
    assert made.function is chain
    assert made.ufunc.signature == "(3),(3)->(3),()"
    assert "define void @loop" in made.llvm
    assert "loop:" in made.assembly
    for part in ("chain by plain", made.signature, "operations", f"{LANES} lanes", "1 block"):
        assert part in repr(made)


def test_copies_and_pickles(small):
    assert copy.deepcopy(small) is small
    assert copy.copy(small) is small
    again = pickle.loads(pickle.dumps(compile_graph(chain(3), method="plain", function=lambda: None)))
    assert again.method == "plain"
    q, v = states(3, 5)
    np.testing.assert_array_equal(again(q, v)[0], small(q, v)[0])


def test_a_ufunc_outlives_its_kernel():
    made = compile_graph(chain(4))
    q, v = states(4, 9)
    expected = made(q, v)[0]
    function = made.ufunc
    code = weakref.ref(machine.compiled(made.llvm, ("loop",))[0])
    del made
    gc.collect()
    for _ in range(10):
        compile_graph(chain(1))  # would take the place of freed tables
    np.testing.assert_array_equal(function(q, v)[0], expected)
    assert code() is not None
    del function
    gc.collect()
    assert code() is None, "machine code is never freed"


def test_same_shape_shares_code():
    first, second = by_regions(chain(20, seed=1)), by_regions(chain(35, seed=2))
    assert first.llvm == second.llvm
    assert second.cached
    for made, length in ((first, 20), (second, 35)):
        q, v = states(length, 6)
        assert_close(made(q, v)[0], made.graph.evaluate(q, v)[0])
    # small ones too, whatever their numbers
    assert compile_graph(chain(3, seed=1)).llvm == compile_graph(chain(3, seed=2)).llvm


def test_threads_do_not_disturb_each_other(large, small):
    failures: list[BaseException] = []

    def hammer(seed: int) -> None:
        try:
            for made, length in ((large, 300), (small, 3)):
                q, v = states(length, 23, seed=seed)
                expected = made.graph.evaluate(q, v)[0]
                for _ in range(20):
                    assert_close(made(q, v)[0], expected)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=hammer, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_threads_may_compile_at_once():
    made: dict[int, np.ndarray] = {}

    def build(length: int) -> None:
        made[length] = compile_graph(chain(length))(*states(length, 3))[0]

    threads = [threading.Thread(target=build, args=(length,)) for length in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for length in (1, 2, 3, 4):
        assert_close(made[length], chain(length).evaluate(*states(length, 3))[0])


def test_no_memory_is_an_error(monkeypatch):
    refuse = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(lambda size: None)
    address = ctypes.cast(refuse, ctypes.c_void_p).value
    functions_without = tables.library() | {"malloc": address}
    monkeypatch.setattr(tables, "library", lambda: functions_without)
    made = by_regions(chain(300))
    for batch in ((), (5,), (3000,)):
        with pytest.raises(MemoryError, match="scratch"):
            made(*states(300, *batch))
    assert by_regions(chain(4))(*states(4))[0].shape == (4,), "a small kernel needs none"


@pytest.mark.parametrize("x", [-2.0, -1.01, 0.0, 0.5, 3.0])
@pytest.mark.parametrize("power", [0.0, 1.0, 3.0, 65.0, -4.0, 0.3])
def test_powers_equal_numpys_with_traced_and_large_exponents(x, power):
    trace = Trace("powers")
    a, b = trace.input("a"), trace.input("b")
    kernel = compile_graph(trace.graph(traced=a**b, large=a**65, huge=a**-301))
    with np.errstate(all="ignore"):
        expected = np.power(x, power), np.power(x, 65.0), np.power(x, -301.0)
    np.testing.assert_allclose(kernel(x, power), expected, rtol=1e-14)


def test_a_subgraph_is_compiled_once_and_equals_what_it_stands_for():
    inner = Trace("inner")
    x, y = inner.input("x", (2,)), inner.input("y")
    part = Subgraph(inner.graph(s=np.sin(x) * y, t=x[0] / (1.0 + y * y)))
    kernels = []
    for turns in (1, 3):
        trace = Trace(f"outer{turns}")
        a, b = trace.input("a", (2,)), trace.input("b")
        for _ in range(turns):
            a, b = trace.call(part, a, b + 1.0)
        kernels.append(compile_graph(trace.graph(a=a, b=b)))
    a, b = np.linspace(-1.0, 1.0, 14).reshape(7, 2), np.linspace(0.5, 2.0, 7)
    for kernel, turns in zip(kernels, (1, 3), strict=True):
        u, w = a, b
        for _ in range(turns):
            u, w = np.sin(u) * (w + 1.0)[:, None], u[:, 0] / (1.0 + (w + 1.0) ** 2)
        for found in (kernel(a, b), kernel.graph.evaluate(a, b)):
            np.testing.assert_allclose(found[0], u, rtol=1e-13)
            np.testing.assert_allclose(found[1], w, rtol=1e-13)
    assert kernels[1].operations["trig"] == 3 * kernels[0].operations["trig"]
    assert "fdiv" not in kernels[1].llvm  # it is in the code of the subgraph


# --- one state, without the gufunc


@pytest.fixture(scope="module")
def mixed() -> Kernel:
    """A kernel of a number, a vector and a matrix with a vector, a number and a matrix for results."""
    trace = Trace("mixed")
    t, x, A = trace.input("t"), trace.input("x", (3,)), trace.input("A", (2, 3))
    return compile_graph(trace.graph(y=A @ x * t, s=np.sin(t) + x[0], B=A * 2.0))


def one_state() -> tuple:
    rng = np.random.default_rng(5)
    return 0.3, rng.normal(size=3), rng.normal(size=(2, 3))


def same(results: tuple, expected: tuple) -> None:
    for found, wanted in zip(results, expected, strict=True):
        assert type(found) is type(wanted)
        assert np.array_equal(found, wanted)


def test_one_state_equals_the_gufunc_to_the_bit(mixed):
    t, x, A = one_state()
    for number in (t, np.float64(t), np.array(t)):
        found = mixed._one(number, x, A)
        assert found is not NotImplemented
        same(found, mixed.ufunc(t, x, A))
        assert all(part.flags.owndata and part.flags.writeable for part in (found[0], found[2]))


def test_one_state_is_written_to_arrays_that_are_given(mixed):
    t, x, A = one_state()
    y, s, B = np.zeros(2), np.zeros(()), np.zeros((2, 3))
    found = mixed(t, x, A, out=(y, s, B))
    assert [id(part) for part in found] == [id(y), id(s), id(B)]
    same(found[::2], mixed.ufunc(t, x, A)[::2])
    assert s == mixed.ufunc(t, x, A)[1]
    assert mixed._one_into(t, x, A, y, s, A) is NotImplemented  # B and A share memory
    assert mixed._one_into(t, x, A, y, s, None) is NotImplemented
    locked = np.zeros(2)
    locked.flags.writeable = False
    assert mixed._one_into(t, x, A, locked, s, B) is NotImplemented


class Special(np.ndarray):
    """A class of arrays of someone else."""


@pytest.mark.parametrize(
    "change",
    [
        lambda t, x, A: (1, x, A),
        lambda t, x, A: (True, x, A),
        lambda t, x, A: (np.float32(0.5), x, A),
        lambda t, x, A: ([t], x, A),
        lambda t, x, A: (t, list(x), A),
        lambda t, x, A: (t, x.astype(np.float32), A),
        lambda t, x, A: (t, x.astype(">f8"), A),
        lambda t, x, A: (t, np.repeat(x, 2)[::2], A),
        lambda t, x, A: (t, x[::-1], A),
        lambda t, x, A: (t, x, np.asfortranarray(A)),
        lambda t, x, A: (t, x.view(Special), A),
        lambda t, x, A: (t, np.frombuffer(b"\0" + x.tobytes(), dtype=np.uint8)[1:].view(float), A),
        lambda t, x, A: (t, x[None], A),
        lambda t, x, A: (t, 0.5, A),
        lambda t, x, A: (t, x, A[:1]),
        lambda t, x, A: (t, x, A, np.zeros(2), np.zeros(()), np.zeros((2, 3))),
        lambda t, x, A: (t, x),
        lambda t, x, A: (),
        lambda t, x, A: (t, None, A),
    ],
)
def test_arguments_that_are_not_as_they_should_be_go_to_the_gufunc(mixed, change):
    assert mixed._one(*change(*one_state())) is NotImplemented


def test_calls_of_one_state_leave_nothing_behind(mixed):
    given = (*one_state(), np.zeros(2), np.zeros(()), np.zeros((2, 3)))
    counted = [*given[1:], np.dtype(float), NotImplemented]

    def calls():
        for _ in range(100):
            mixed._one(*given[:3])
            mixed._one_into(*given)
            mixed._one(1, 2, 3)
        return [sys.getrefcount(x) for x in counted]

    before = calls()
    assert all(after - first < 50 for after, first in zip(calls(), before, strict=True))


def test_a_function_of_one_state_outlives_its_kernel():
    trace = Trace("short lived")
    x = trace.input("x", (2,))
    one = compile_graph(trace.graph(y=3.0 * x))._one
    gc.collect()
    assert one(np.ones(2)).tolist() == [3.0, 3.0]


def test_kernels_are_freed():
    trace = Trace("freed")
    x = trace.input("x", (2,))
    kernel = compile_graph(trace.graph(y=5.0 * x))
    kernel(np.ones(2))
    gone = weakref.ref(kernel)
    del kernel
    assert gone() is None


# --- threads


@pytest.fixture
def parts(monkeypatch) -> list[int]:
    """The numbers of parts that calls were shared in, since it was cleared."""
    counts: list[int] = []

    def counted(run, parts, number):
        several = list(parts)
        counts.append(len(several))
        share(run, several, number)

    monkeypatch.setattr(thread_parts, "share", counted)
    return counts


@pytest.mark.parametrize("shape", [(40_000,), (30, 1500), (50, 1, 1200), (LANES * 7000 + 3,)])
def test_threads_share_a_batch_and_change_nothing(small, shape, parts):
    q, v = states(3, *shape)
    one_state, first = v[(0,) * (v.ndim - 1)], q[:1]
    expected = small(q, v)
    held, whole = small(q, one_state), small(first, v)
    assert not parts, "one thread does it"
    with threads(3):
        same(small(q, v), expected)
        out = tuple(np.empty_like(x) for x in expected)
        assert small(q, v, out=out)[0] is out[0]
        same(out, expected)
        same(small(q, one_state), held)
        same(small(first, v), whole)
        assert len(parts) == 4
        assert min(parts) > 1
        parts.clear()
        moved = q.copy()
        small(moved, v, out=(moved, None))  # what is read is written, or an array is left to the kernel: by one thread
        same(small(q, v, out=(None, out[1])), expected)
        np.testing.assert_array_equal(moved, expected[0])
        assert not parts
        with pytest.raises(ArgumentError, match="argument 'v' has shape"):
            small(q, v[..., :2])


def test_threads_share_a_batch_that_has_one_result(parts):
    trace = Trace("one result")
    x = trace.input("x", (3,))
    kernel = compile_graph(trace.graph(y=np.sin(x) * x[0]))
    at = states(3, 50_000)[0]
    expected, out = kernel(at), np.empty_like(at)
    with threads(2):
        np.testing.assert_array_equal(kernel(at), expected)
        assert kernel(at, out=out) is out
        assert len(parts) == 2
        assert min(parts) > 1
        np.testing.assert_array_equal(out, expected)
        part = at.copy()
        kernel(part[1:], out=part[:-1])  # reads what it writes a state later
        np.testing.assert_array_equal(part[:-1], expected[1:])
        assert len(parts) == 2


@pytest.mark.parametrize("name", ["SHAPE", "BUFFER", "NDIM", "TYPE", "FLAGS"])
def test_objects_of_another_layout_are_left_to_numpy(name, monkeypatch):
    """A field of arrays that lies elsewhere is noticed before machine code reads it."""
    monkeypatch.setattr(single_call, "_known_layout", single_call._known_layout.__wrapped__)
    assert single_call._known_layout()
    fields = {key: getattr(single_call, key) for key in ("SHAPE", "BUFFER", "NDIM", "TYPE", "FLAGS")}
    monkeypatch.setattr(single_call, name, next(at for at in fields.values() if at != fields[name]))
    assert not single_call._known_layout()
    kernel = compile_graph(chain(2, seed=7))
    assert kernel._one(*states(2)) is NotImplemented
    same(kernel(*states(2)), kernel.ufunc(*states(2)))


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "two"])
def test_a_number_of_threads_that_is_none_is_refused(number):
    with pytest.raises(ArgumentError, match="not a number of threads"):
        threads(number)


@pytest.mark.parametrize(("value", "told"), [("x", "CATENA_THREADS = 'x'"), ("0", "CATENA_THREADS = 0"), ("1.5", "= '1.5'"), (" 2 ", "2")])
def test_the_variable_of_threads_is_read_where_it_is_used(value, told):
    """A number that is none leaves the import alone, and is named with its value where calls are shared."""
    code = """
import catena as ct
from catena.native.thread_parts import thread_count
ct.Model("pendulum")
try:
    print(thread_count())
except ct.ArgumentError as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], env={**os.environ, "CATENA_THREADS": value}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert told in ended.stdout
    assert told == "2" or "set it to a whole number from 1 on, or unset it" in ended.stdout


@pytest.mark.parametrize("states", BATCHES)
def test_states_whose_memories_are_large_are_computed_one_group_at_a_time(states, monkeypatch):
    trace = Trace("f")
    x = trace.input("x", (3,))
    graph = trace.graph(y=np.sin(x[0]) * x[1] + x[2])
    at = np.random.default_rng(0).normal(size=(states, 3))
    expected = by_regions(graph)(at)
    monkeypatch.setattr(machine, "TOGETHER", 0)
    np.testing.assert_array_equal(by_regions(graph)(at), expected)


def test_threads_share_parts_and_all_are_done():
    done = []
    share(done.append, range(100), 3)
    assert sorted(done) == list(range(100))
    share(done.append, [], 3)
    assert len(done) == 100


def test_an_error_in_a_part_comes_out_and_no_part_begins_after_it():
    begun = []

    def run(part: int) -> None:
        begun.append(part)
        if part == 3:
            raise ValueError("the third")
        time.sleep(0.01)

    for number in (1, 2, 4):
        begun.clear()
        with pytest.raises(ValueError, match="the third"):
            share(run, range(50), number)
        assert len(begun) < 12


def test_after_an_error_what_runs_in_other_threads_is_stopped_and_ends_first():
    begun, stopped, ended = threading.Event(), threading.Event(), []
    caller = threading.current_thread()

    def run(part: int) -> None:
        if threading.current_thread() is caller:
            assert begun.wait(10.0)
            raise KeyboardInterrupt
        begun.set()
        assert stopped.wait(10.0)
        time.sleep(0.05)
        ended.append(part)

    with pytest.raises(KeyboardInterrupt):
        share(run, range(10), 2, stopped)
    assert len(ended) == 1


def test_parts_that_share_their_own_work_do_not_wait_for_each_other():
    done = []
    share(lambda i: share(lambda j: done.append((i, j)), range(5), 2), range(20), 2)
    assert sorted(done) == [(i, j) for i in range(20) for j in range(5)]


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("regions", [False, True])
def test_operands_of_all_sizes_are_copied_and_nothing_beside_them(lanes, regions, monkeypatch):
    host = machine.host()._replace(lanes=lanes)
    monkeypatch.setattr(machine, "host", lambda: host)
    for size in range(1, 2 * lanes + 4):
        trace = Trace("copies")
        x, y = trace.input("x", (size,)), trace.input("y", (size, 2))
        graph = trace.graph(a=x + y[:, 0], b=np.stack([y[:, 1], -y[:, 0], x], axis=1))
        kernel = (by_regions if regions else compile_graph)(graph)
        for count in (1, lanes, 4 * lanes + 3):
            x, y = np.random.default_rng(size).normal(size=(count, size)), np.random.default_rng(count).normal(size=(count, size, 2))
            wide_a, wide_b = np.full((count, size + 3), 7.0), np.full((count, size * 3 + 2), 7.0)
            a, b = wide_a[:, :size], wide_b[:, : 3 * size].reshape(count, size, 3)
            assert np.may_share_memory(b, wide_b)
            kernel(x, y, out=(a, b))
            np.testing.assert_array_equal(a, x + y[:, :, 0])
            np.testing.assert_array_equal(b, np.stack([y[:, :, 1], -y[:, :, 0], x], axis=2))
            assert np.all(wide_a[:, size:] == 7.0)
            assert np.all(wide_b[:, 3 * size :] == 7.0)


def test_batches_at_the_end_of_the_memory_are_read_no_further(small):
    """What is fetched ahead may lie beyond the arrays: a processor ignores it where there is no memory."""
    page = mmap.PAGESIZE
    for count in (1, 2 * LANES, 7 * LANES + 1):
        given = []
        for port in small.inputs:
            size = 8 * count * port.size
            memory = mmap.mmap(-1, -(-size // page) * page)
            given.append(np.frombuffer(memory, dtype=float)[-count * port.size :].reshape(count, *port.shape))
            given[-1][:] = np.random.default_rng(count).normal(size=given[-1].shape)
        expected = small(*map(np.copy, given))
        for one, other in zip(small(*given), expected, strict=True):
            np.testing.assert_array_equal(one, other)
