"""The traced scalar folds and shares as it says; graphs compute what the code they were traced from computes, however they are cut."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import mechanisms
from tests.referee import relative

import catena as ct
from catena import TraceError
from catena.formulations import METHODS
from catena.formulations.linear import coordinate_reduction
from catena.graph import OPERATIONS, Graph, Port, Program, Scalar, Subgraph, Trace, program_of, recipes
from catena.graph.call_order import in_order
from catena.graph.slots import reuse_slots
from catena.loops.mobility import generic
from catena.loops.plan_library import plan_of
from catena.native import compile_graph
from catena.scalars.dual import Dual
from catena.spatial import Factor, Placement, Rigid, Screw

pytestmark = pytest.mark.quick


def inputs(count: int = 3, name: str = "test") -> tuple[Trace, list[Any]]:
    trace = Trace(name)
    return trace, list(trace.input("x", (count,)))


def is_same(a: Any, b: Any) -> bool:
    """Whether two values are one traced scalar, or equal numbers."""
    return a is b or (type(a) is float and type(b) is float and a == b)


# folding

FOLDED: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "x + 0": lambda x, y: (x + 0.0, x),
    "0 + x": lambda x, y: (0 + x, x),
    "x - 0": lambda x, y: (x - 0.0, x),
    "0 - x": lambda x, y: (0.0 - x, -x),
    "x - x": lambda x, y: (x - x, 0.0),
    "x + x": lambda x, y: (x + x, 2.0 * x),
    "x * 0": lambda x, y: (x * 0.0, 0.0),
    "0 * x": lambda x, y: (0 * x, 0.0),
    "x * 1": lambda x, y: (x * 1.0, x),
    "1 * x": lambda x, y: (np.float64(1.0) * x, x),
    "x * -1": lambda x, y: (x * -1.0, -x),
    "x / 1": lambda x, y: (x / 1, x),
    "x / x": lambda x, y: (x / x, 1.0),
    "x / 4": lambda x, y: (x / 4.0, 0.25 * x),
    "0 / x": lambda x, y: (0.0 / x, 0.0),
    "numbers in a product": lambda x, y: (3.0 * (x * 2.0), 6.0 * x),
    "numbers that cancel": lambda x, y: (0.5 * (x * 2.0), x),
    "commuted sum": lambda x, y: (x + y, y + x),
    "commuted product": lambda x, y: (x * y, y * x),
    "commuted sum with a number": lambda x, y: (x + 2.0, 2.0 + x),
    "double negation": lambda x, y: (-(+(-x)), x),
    "plus": lambda x, y: (+x, x),
    "x + (-y)": lambda x, y: (x + (-y), x - y),
    "(-x) + y": lambda x, y: ((-x) + y, y - x),
    "(-x) + (-y)": lambda x, y: ((-x) + (-y), -(x + y)),
    "x - (-y)": lambda x, y: (x - (-y), x + y),
    "(-x) - y": lambda x, y: ((-x) - y, -(x + y)),
    "(-x) - (-y)": lambda x, y: ((-x) - (-y), y - x),
    "y - x after x - y": lambda x, y: (-(x - y), y - x),
    "(-x) * y": lambda x, y: ((-x) * y, -(x * y)),
    "(-x) * (-y)": lambda x, y: ((-x) * (-y), x * y),
    "(-x) * number": lambda x, y: ((-x) * 3.0, x * -3.0),
    "(-x) / y": lambda x, y: ((-x) / y, -(x / y)),
    "x / (-y)": lambda x, y: (x / (-y), -(x / y)),
    "(-x) / (-y)": lambda x, y: ((-x) / (-y), x / y),
    "number / (-x)": lambda x, y: (2.0 / (-x), (-2.0) / x),
    "number - (-x)": lambda x, y: (2.0 - (-x), x + 2.0),
    "sin(-x)": lambda x, y: (np.sin(-x), -np.sin(x)),
    "cos(-x)": lambda x, y: (np.cos(-x), np.cos(x)),
    "abs(-x)": lambda x, y: (abs(-x), abs(x)),
    "x ** 0": lambda x, y: (x**0, 1.0),
    "x ** 1": lambda x, y: (x**1, x),
    "x ** 2": lambda x, y: (x**2, x * x),
    "x ** 3": lambda x, y: (x**3, (x * x) * x),
    "x ** 4": lambda x, y: (x**4, (x * x) * (x * x)),
    "x ** 2.0": lambda x, y: (x**2.0, x * x),
    "x ** -1": lambda x, y: (x**-1, 1.0 / x),
    "x ** -2": lambda x, y: (x**-2, 1.0 / (x * x)),
    "x ** 0.5": lambda x, y: (x**0.5, np.sqrt(x)),
    "square": lambda x, y: (np.square(x), x * x),
    "x ** array": lambda x, y: ((x ** np.arange(4))[3], x**3),
    "tan": lambda x, y: (np.tan(x), np.sin(x) / np.cos(x)),
    "conjugate": lambda x, y: (np.conjugate(x), x),
    "where with equal branches": lambda x, y: (ct.where(x < y, y, y), y),
    "where with a known condition": lambda x, y: (ct.where(True, x, y), x),
    "minimum of equals": lambda x, y: (ct.minimum(x, x), x),
    "commuted minimum": lambda x, y: (ct.minimum(x, y), ct.minimum(y, x)),
    "commuted maximum": lambda x, y: (ct.maximum(x, 2.0), ct.maximum(2.0, x)),
}


@pytest.mark.parametrize("rule", FOLDED)
def test_equal_expressions_are_one_object(rule: str) -> None:
    _, (x, y, _) = inputs()
    a, b = FOLDED[rule](x, y)
    assert is_same(a, b), f"{a!r} is not {b!r}"


def test_equal_expressions_in_either_order_of_tracing_are_one_object() -> None:
    for rule, build in FOLDED.items():
        _, (x, y, _) = inputs()
        _, second = build(x, y)
        first, _ = build(x, y)
        assert is_same(first, second), rule


def test_nodes_are_made_once() -> None:
    trace, (x, y, z) = inputs()
    before = (x * y + z) * (x * y + z)
    count = len(trace.nodes)
    assert (y * x + z) * (z + x * y) is before
    assert len(trace.nodes) == count


def test_numbers_of_two_bodies_give_nodes_of_one_form() -> None:
    """A product keeps the sign of its number, so that -2 and 3 give the same operations."""
    operations = []
    for number in (-2.0, 3.0):
        trace, (x, y, _) = inputs()
        operations.append([node[0] for node in trace.graph(r=number * x + y).nodes])
    assert operations[0] == operations[1]


def test_constants_need_no_operations() -> None:
    trace, (x, _, _) = inputs()
    graph = trace.graph(r=np.array([3.0, x, 0.0 * x]))
    assert graph.operations == {}
    assert graph.evaluate(np.array([5.0, 6.0, 7.0]))[0].tolist() == [3.0, 5.0, 0.0]


# sums of multiples


def test_a_sum_of_multiples_that_is_only_multiplied_by_numbers_takes_a_product_less() -> None:
    """Turns about one axis by fixed angles, of which the last result is wanted, and what each leaves behind times a number."""
    rng = np.random.default_rng(0)
    turns, weights = rng.uniform(0.3, 1.2, 8), rng.normal(size=8)

    def turned(x: Any) -> list[Any]:
        y, z, seen = x[0], x[1], []
        for k, (angle, weight) in enumerate(zip(turns, weights, strict=True)):
            y, z = np.cos(angle) * y - np.sin(angle) * z + x[k % 3], np.sin(angle) * y + np.cos(angle) * z
            seen.append(weight * z)
        return [y, z, *seen]

    trace, x = inputs()
    graph = trace.graph(r=np.array(turned(x), dtype=object)).check()
    point = rng.normal(size=(5, 3))
    for found in (graph.evaluate(point)[0], compile_graph(graph)(point)):
        np.testing.assert_allclose(found, np.array(turned(point.T)).T, rtol=1e-13)
    assert graph.operations == {"add": 3 * 8, "mul": 5 * 8 - 7}  # all but the last, which is wanted as it is
    assert graph.nodes[:3] == (("input", 0), ("input", 1), ("input", 2))


@pytest.mark.parametrize("small", [1e-60, 1e-300, 5e-324])
def test_a_sum_of_multiples_is_not_scaled_by_numbers_that_cost_digits(small: float) -> None:
    trace, (x, y, _) = inputs()
    total = small * x + 3.0 * y
    graph = trace.graph(r=np.array([2.0 * total, 5.0 * total], dtype=object))
    np.testing.assert_allclose(graph.evaluate([1.0, 1e300, 0.0])[0], [6e300, 1.5e301], rtol=1e-15)


def test_sums_of_multiples_that_differ_in_their_numbers_share_a_block() -> None:
    trace = Trace("turns")
    x = trace.input("x", (6,))
    found = []
    for k, angle in enumerate((0.1, 0.8, 1.5)):  # whichever of the two numbers is the larger
        trace.mark()
        total = np.cos(angle) * x[2 * k] + np.sin(angle) * x[2 * k + 1]
        found += [x[2 * k] * x[2 * k + 1] + 2.0 * total, 7.0 * total]
    program = program_of(trace.graph(r=np.array(found, dtype=object)))
    assert (len(program.blocks), len(program.calls)) == (1, 3)


# what cannot be traced


@pytest.mark.parametrize(
    "code",
    [
        lambda x: bool(x), lambda x: float(x), lambda x: int(x), lambda x: [1, 2][x], lambda x: 1.0 if x else 2.0,
        lambda x: math.sin(x), lambda x: np.array([x], dtype=float), lambda x: range(x),
    ],
)  # fmt: skip
def test_asking_a_traced_value_for_a_number_names_the_remedy(code: Any) -> None:
    _, (x, _, _) = inputs()
    with pytest.raises(TraceError, match=r"traced value has no .*catena\.where"):
        code(x)


@pytest.mark.parametrize(
    "code",
    [
        lambda x, y: 1.0 if x < y else 2.0, lambda x, y: x < y < 3.0, lambda x, y: (x == y) or (y == x), lambda x, y: not (x >= y),
        lambda x, y: max(x, y), lambda x, y: sorted([x, y]), lambda x, y: x in [y],
    ],
)  # fmt: skip
def test_a_choice_by_a_traced_comparison_names_the_remedy(code: Any) -> None:
    _, (x, y, _) = inputs()
    with pytest.raises(TraceError, match=r"comparison of traced values.*catena\.where"):
        code(x, y)


def test_values_of_two_traces_do_not_mix() -> None:
    _, (x, _, _) = inputs(name="first")
    _, (y, _, _) = inputs(name="second")
    mixtures: list[Callable[[], Any]] = [
        lambda: x + y, lambda: x - y, lambda: x * y, lambda: x / y, lambda: x < y, lambda: ct.minimum(x, y), lambda: ct.atan2(x, y),
        lambda: ct.atan2(1.0, x) * y, lambda: ct.where(x < 1.0, x, y), lambda: x**y, lambda: (x < 1.0) & (y < 1.0),
    ]  # fmt: skip
    for mixture in mixtures:
        with pytest.raises(TraceError, match=r"first.*second|second.*first"):
            mixture()


def test_what_is_no_number_cannot_be_traced() -> None:
    trace, (x, _, _) = inputs()
    for value in ("1", None, 1j, [x]):
        with pytest.raises(TypeError):
            x + value  # type: ignore[operator]
    with pytest.raises(TraceError, match=r"'1' \(str\) cannot be part of a traced computation"):
        ct.maximum(x, "1")
    with pytest.raises(TraceError, match="Condition"):
        trace.graph(r=x < 1.0)
    with pytest.raises(TraceError, match="divided by the number 0"):
        x / 0.0


@pytest.mark.parametrize("power", [65, 66, 101, 1001, 4097, -65, -100, 2.0**40])
@pytest.mark.parametrize("base", [-1.01, -1.0, -0.99, 0.999, 1.0])
def test_whole_powers_of_negative_numbers_are_those_of_floats(base: float, power: float) -> None:
    trace = Trace("power")
    x = trace.input("x")
    graph = trace.graph(power=x**power)
    with np.errstate(all="ignore"):
        dual = Dual(np.float64(base), 1.0) ** power
        expected, slope = np.float64(base) ** power, power * np.float64(base) ** (power - 1)
    tolerance = 4e-16 * abs(power)  # as many products, each rounded
    for value in (graph.evaluate([base])[0], compile_graph(graph)(base), dual.value):
        np.testing.assert_allclose(value, expected, rtol=tolerance)
    np.testing.assert_allclose(dual.derivative, slope, rtol=tolerance)


@pytest.mark.parametrize("number", [1e-310, -1e-310, 5e-324, 5.5e-309, 1.7e308, -4.6e307, 1e-300, 3.0])
def test_a_quotient_by_a_number_is_that_of_floats_where_the_inverse_is_none(number: float) -> None:
    trace = Trace("quotient")
    x = trace.input("x")
    graph = trace.graph(plain=x / number, negative=-x / number, scaled=(3.0 * x) / number)
    for value in (1e-320, 3e-308, 1.1e-305, 0.7, 1e10, 1e300, 0.0):
        with np.errstate(all="ignore"):
            x = np.float64(value)
            expected = np.array([x / number, -x / number, (3.0 * x) / number])
            dual = Dual(x, x) / number
        for found in (np.array(graph.evaluate([value])), np.array(compile_graph(graph)(value))):
            np.testing.assert_allclose(found.ravel(), expected, rtol=1e-15, atol=1.5e-323)
        assert dual.value == dual.derivative == expected[0]


def test_factors_are_not_joined_where_their_product_is_no_number() -> None:
    trace = Trace("factors")
    x = trace.input("x")
    graph = trace.graph(large=x * 1e200 * 1e200, small=x * 1e-200 * 1e-200)
    for value, expected in ((1e-300, (1e100, 0.0)), (1e300, (math.inf, 1e-100))):
        for found in (graph.evaluate([value]), compile_graph(graph)(value)):
            np.testing.assert_allclose(np.array(found, dtype=float).ravel(), expected, rtol=1e-15)


def test_powers_beyond_the_integers() -> None:
    trace, (x, y, _) = inputs()
    graph = trace.graph(r=np.array([x**math.inf, x**y, 2.0**x, x**100, x**-0.5]))
    assert graph.evaluate([4.0, 0.5, 0.0])[0].tolist() == pytest.approx([math.inf, 2.0, 16.0, 4.0**100, 0.5], rel=1e-13)
    for base in (0.0, -2.0):
        with pytest.raises(TraceError, match="positive"):
            base**x


def test_traced_values_cannot_be_keys() -> None:
    _, (x, _, _) = inputs()
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)


def test_conditions_combine() -> None:
    trace, (x, y, z) = inputs()
    condition = ((x < y) & ~(y <= z)) | (x == z) | (x != x)
    graph = trace.graph(r=ct.where(condition, 1.0, 2.0))
    points = np.array(np.meshgrid([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [0.0, 1.0, 2.0])).reshape(3, -1).T
    expected = [1.0 if (a < b and not b <= c) or a == c else 2.0 for a, b, c in points]
    assert graph.evaluate(points)[0].tolist() == expected
    assert ((x < y) & True).index == (x < y).index
    assert ((x < y) & False) is False
    assert ((x < y) | True) is True
    assert (False | (x < y)).index == (x < y).index


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_equal_those_of_numbers(name: str) -> None:
    compare = COMPARISONS[name]
    trace, (x, y) = inputs(2)
    graph = trace.graph(r=np.array([ct.where(c, 1.0, 0.0) for c in (compare(x, y), compare(x, 1.0), compare(1.0, y))]))
    for a in (0.0, 1.0, 2.0):
        for b in (0.0, 1.0, 2.0):
            expected = [float(compare(a, b)), float(compare(a, 1.0)), float(compare(1.0, b))]
            assert graph.evaluate(np.array([a, b]))[0].tolist() == expected


def test_functions_on_numbers_equal_python() -> None:
    assert ct.where(np.array([True, False]), 1.0, 2.0).tolist() == [1.0, 2.0]
    assert (ct.minimum(1.0, 2.0), ct.maximum(1.0, 2.0)) == (1.0, 2.0)
    for y, x in ((1.0, -1.0), (-1.0, -1.0), (0.0, -1.0), (-0.0, -1.0)):
        assert ct.atan2(y, x) == math.atan2(y, x)
    trace, (x, _, _) = inputs()
    graph = trace.graph(r=np.array([ct.atan2(x, 2.0), ct.atan2(2.0, x)]))
    expected = [math.atan2(-3.0, 2.0), math.atan2(2.0, -3.0)]  # NumPy's own may differ from the C library's in the last place
    np.testing.assert_allclose(graph.evaluate([-3.0, 0.0, 0.0])[0], expected, rtol=4e-16)


# graphs compute what the code computes

#: Operations on a list of values so far; traced and plain values take the same code.
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "abs": abs, "square": np.square, "arctan": np.arctan,
    "exp": lambda x: np.exp(-x * x), "sqrt": lambda x: np.sqrt(x * x + 1.0), "log": lambda x: np.log(x * x + 0.5), "cube": lambda x: x**3,
    "inverse": lambda x: 1.0 / (x * x + 1.0), "half": lambda x: x / 2.0, "minus one": lambda x: x - 1.0, "from two": lambda x: 2.0 - x,
    "scaled": lambda x: -1.5 * x, "arcsin": lambda x: np.arcsin(0.5 * np.sin(x)), "arccos": lambda x: np.arccos(0.5 * np.cos(x)),
    "power": lambda x: (x * x + 1.0) ** 1.5, "exponent": lambda x: 2.0 ** np.tanh(x), "negative power": lambda x: (x * x + 1.0) ** -2,
}  # fmt: skip
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / (y * y + 1.0),
    "min": ct.minimum, "max": ct.maximum, "where": lambda x, y: ct.where(x < y, x + y, x - y),
    "choice": lambda x, y: ct.where((x <= y) & ~(x == 0.5), x, 3.0), "angle": lambda x, y: ct.atan2(x, y * y + 0.5),
}  # fmt: skip

steps = st.lists(st.tuples(st.sampled_from([*UNARY, *BINARY]), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=25)


def run(code: list[tuple[str, int, int]], values: list[Any], mark: Callable[[], None] = lambda: None) -> list[Any]:
    """Run a random program; the results are its last values. A mark after every third step cuts regions."""
    values = list(values)
    for count, (name, i, j) in enumerate(code):
        a, b = values[i % len(values)], values[j % len(values)]
        values.append(UNARY[name](a) if name in UNARY else BINARY[name](a, b))
        if count % 3 == 2:
            mark()
    return values[-4:]


def traced(code: list[tuple[str, int, int]]) -> Graph:
    trace, values = inputs()
    return trace.graph(r=np.array(run(code, values, trace.mark)))


def interpret(program: Program, arguments: np.ndarray) -> list[float]:
    """A tiny machine for programs that write to each slot once."""
    slots = worked(program, arguments, again=False)
    return [slots[i] for i in program.outputs]


def worked(program: Program, arguments: np.ndarray, again: bool) -> list[Any]:
    """What is in the slots once a program has run; they may be written `again`."""
    slots: list[Any] = [None] * program.slots
    slots[: len(arguments)] = arguments
    for call in program.calls:
        block = program.blocks[call.block]
        assert (len(call.reads), len(call.numbers), len(call.writes)) == (block.inputs, block.numbers, len(block.results))
        local = [slots[i] for i in call.reads] + list(call.numbers)
        assert all(value is not None for value in local), "a slot is read before it is written"
        for op, *operands in block.nodes:
            local.append(operands[0] if op == "const" else OPERATIONS[op].numpy(*[local[i] for i in operands]))
        for slot, result in zip(call.writes, block.results, strict=True):
            assert again or slots[slot] is None, "a slot is written twice"
            slots[slot] = local[result]
        for a, b in block.runs:
            assert call.writes[a:b] == tuple(range(call.writes[a], call.writes[a] + b - a))
        assert not {*call.reads} & {*call.writes}
    return slots


@given(code=steps, seed=mechanisms.seeds)
def test_evaluation_of_the_graph_equals_the_code_it_was_traced_from(code: Any, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=3)
    expected = np.array(run(code, list(x)), dtype=float)
    graph = traced(code).check()
    assert relative(graph.evaluate(x)[0], expected, scale=1e-3) < 1e-12


@given(code=steps, seed=mechanisms.seeds)
def test_programs_merged_and_by_regions_equal_the_graph(code: Any, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=3)
    graph = traced(code)
    expected = graph.evaluate(x)[0]
    for merge in (True, False):
        program = program_of(graph, merge=merge)
        assert interpret(program, x) == expected.tolist()
        nodes = sum(node[0] != "const" for call in program.calls for node in program.blocks[call.block].nodes)
        assert nodes == sum(graph.operations.values())
    assert len(program_of(graph, merge=True).blocks) <= 1


@given(code=steps, seed=mechanisms.seeds, kept=st.integers(0, 3))
def test_programs_in_another_order_and_in_fewer_slots_equal_the_graph(code: Any, seed: int, kept: int) -> None:
    x = np.random.default_rng(seed).normal(size=3)
    graph = traced(code)
    program = program_of(graph)
    short = reuse_slots(in_order(program), 3, kept)
    assert interpret(in_order(program), x) == graph.evaluate(x)[0].tolist()
    slots = worked(short, x, again=True)
    assert [slots[i] for i in short.outputs] == graph.evaluate(x)[0].tolist()
    assert slots[:kept] == x[:kept].tolist()
    assert short.slots <= program.slots


@given(code=steps)
def test_counts_by_region_add_up_and_dropping_dead_nodes_twice_changes_nothing(code: Any) -> None:
    graph = traced(code)
    total = sum((Counter(counts) for counts in graph.operations_by_region), Counter())
    assert dict(total) == graph.operations
    assert [i for region in graph.regions for i in region] == list(range(len(graph.nodes)))
    again = graph.drop_dead()
    assert (again.nodes, again.results, again.regions) == (graph.nodes, graph.results, graph.regions)


def test_evaluation_broadcasts_over_leading_axes() -> None:
    trace = Trace("batch")
    a, b = trace.input("a", (2,)), trace.input("b", (2, 2))
    graph = trace.graph(r=b @ a, s=a[0] * a[1])
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5, 1, 2)), rng.normal(size=(4, 2, 2))
    r, s = graph.evaluate(a, b)
    assert (r.shape, s.shape) == ((5, 4, 2), (5, 4))
    assert relative(r, np.einsum("jkl,ijl->ijk", b, np.broadcast_to(a, (5, 4, 2)))) < 1e-15
    assert repr(graph) == "<Graph batch: (a[2], b[2, 2]) -> (r[2], s[]), 7 operations, 1 regions>"


def test_dead_nodes_are_dropped() -> None:
    trace, (x, y, z) = inputs()
    np.sin(x * y) + z
    trace.mark()
    result = x + y
    graph = trace.graph(r=result)
    assert graph.operations == {"add": 1}
    assert graph.marks == (2,)
    assert [node[0] for node in graph.nodes] == ["input", "input", "add"]
    assert graph.evaluate([1.0, 2.0, 3.0])[0] == 3.0


# malformed graphs

GOOD = Graph("good", (("input", 0), ("const", 2.0), ("mul", 0, 1)), (Port("x", ()),), (Port("y", ()),), ((2,),))

MALFORMED: dict[str, Graph] = {
    "unknown operation": replace(GOOD, nodes=(("input", 0), ("const", 2.0), ("cosh", 0, 1))),
    "too few operands": replace(GOOD, nodes=(("input", 0), ("const", 2.0), ("mul", 0))),
    "too many operands": replace(GOOD, nodes=(("input", 0), ("const", 2.0), ("neg", 0, 1))),
    "operand that comes later": replace(GOOD, nodes=(("input", 0), ("neg", 2), ("mul", 0, 1))),
    "operand that is itself": replace(GOOD, nodes=(("input", 0), ("const", 2.0), ("mul", 0, 2))),
    "negative operand": replace(GOOD, nodes=(("input", 0), ("const", 2.0), ("mul", 0, -1))),
    "input that is not there": replace(GOOD, nodes=(("input", 1), ("const", 2.0), ("mul", 0, 1))),
    "negative input": replace(GOOD, nodes=(("input", -1), ("const", 2.0), ("mul", 0, 1))),
    "const without a number": replace(GOOD, nodes=(("input", 0), ("const",), ("mul", 0, 1))),
    "const that is no number": replace(GOOD, nodes=(("input", 0), ("const", "2"), ("mul", 0, 1))),
    "condition used as a number": replace(GOOD, nodes=(("input", 0), ("lt", 0, 0), ("mul", 0, 1))),
    "number used as a condition": replace(GOOD, nodes=(("input", 0), ("const", 2.0), ("select", 0, 1, 1))),
    "condition as a result": replace(GOOD, nodes=(("input", 0), ("const", 2.0), ("lt", 0, 1))),
    "result that is not there": replace(GOOD, results=((3,),)),
    "negative result": replace(GOOD, results=((-1,),)),
    "result of the wrong size": replace(GOOD, results=((2, 2),)),
    "output without a result": replace(GOOD, results=()),
    "result without an output": replace(GOOD, results=((2,), (2,))),
    "mark beyond the end": replace(GOOD, marks=(4,)),
}


def test_a_well_formed_graph_passes() -> None:
    assert GOOD.check() is GOOD
    assert replace(GOOD, marks=(3,)).check().evaluate(4.0)[0] == 8.0


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_graphs_are_refused(case: str) -> None:
    with pytest.raises(TraceError, match="graph 'good'"):
        MALFORMED[case].check()


# regions of a mechanism


def chain_graph(problem: str, method: str, bodies: int) -> Graph:
    """The traced formulation of a chain, with the marks of its loops."""
    m = mechanisms.denavit_hartenberg(bodies)
    trace = Trace(problem)
    arguments = [trace.input(name, (bodies,)) for name in ("q", "v", "tau")][: 1 if problem == "mass_matrix" else 3]
    return trace.graph(r=METHODS[method].solves[problem](m.tree().marked(trace.mark), *arguments))


@pytest.mark.parametrize(
    ("problem", "method"),
    [("forward_dynamics", "articulated-body"), ("inverse_dynamics", "newton-euler"), ("mass_matrix", "composite-body")],
)
def test_programs_of_a_mechanism_equal_its_graph_and_like_bodies_share_blocks(problem: str, method: str) -> None:
    graph = chain_graph(problem, method, 7)
    x = np.random.default_rng(0).normal(size=sum(port.size for port in graph.inputs))
    expected = graph.evaluate(*np.split(x, len(graph.inputs)))[0].ravel()
    for merge in (True, False):
        assert interpret(program_of(graph, merge=merge), x) == expected.tolist()
    program = program_of(graph)
    assert len(program.blocks) < len(program.calls)
    runs = Counter(call.block for call in program.calls)
    assert max(runs.values()) >= 4  # bodies in the middle of the chain run one block


def test_equal_regions_share_a_block_and_lift_their_numbers() -> None:
    trace, values = inputs(4)
    results = []
    for x, number in zip(values, (2.0, -3.0, 5.0, 7.0), strict=True):
        trace.mark()
        results.append(np.sin(number * x) + 4.0 * number)
    trace.mark()
    program = program_of(trace.graph(r=np.array(results)))
    assert len(program.blocks) == 1
    assert [call.numbers for call in program.calls] == [(2.0, 8.0), (-3.0, -12.0), (5.0, 20.0), (7.0, 28.0)]


def test_regions_with_other_operations_or_other_sharing_do_not_share_a_block() -> None:
    trace, (x, y, z, w) = inputs(4)
    results = []
    for expression in (lambda: x * y, lambda: z * z, lambda: x + y, lambda: z + w):
        trace.mark()
        results.append(expression())
    trace.mark()
    program = program_of(trace.graph(r=np.array(results)))
    assert [call.block for call in program.calls] == [0, 1, 2, 2]


def test_results_that_are_inputs_or_numbers_reach_the_outputs() -> None:
    trace, (x, y, _) = inputs()
    trace.mark()
    graph = trace.graph(r=np.array([x, 3.0, x * y, 3.0, y]))
    for merge in (True, False):
        assert interpret(program_of(graph, merge=merge), np.array([2.0, 5.0, 0.0])) == [2.0, 3.0, 10.0, 3.0, 5.0]


def test_a_condition_crosses_regions() -> None:
    trace, (x, y, _) = inputs()
    trace.mark()
    condition = x < y
    trace.mark()
    graph = trace.graph(r=ct.where(condition, x * y, x + y))
    for merge in (True, False):
        assert interpret(program_of(graph, merge=merge), np.array([2.0, 5.0, 0.0])) == [10.0]


def test_scalars_show_what_they_are() -> None:
    _, (x, y, _) = inputs(name="shown")
    assert repr(x) == "<traced input %0 of 'shown'>"
    assert repr(x * y) == "<traced mul %3 of 'shown'>"
    assert type(x) is Scalar


# recipes


@pytest.mark.parametrize("name", ["arm", "gallery", "humanoid", "four-bar", "stewart-ups"])
def test_recipes_enter_the_nodes_that_the_functions_themselves_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    m = ct.examples.EXAMPLES[name]()
    tree, solve = m.tree(), METHODS["articulated-body"].solves["forward_dynamics"]
    if m.has_loops:
        solve = partial(coordinate_reduction.forward_dynamics, plan=plan_of(m, "coordinate-reduction", generic(m)[1]))
    graphs = []
    for before in (10**9, 0, 0):  # never; from the second time on; and all of them written before
        monkeypatch.setattr(recipes, "BEFORE", before)
        trace = Trace("forward dynamics")
        state = [trace.input("q", (tree.nq,)), trace.input("v", (tree.nv,)), trace.input("tau", (tree.nv,))]
        solved = solve(tree.traced(trace), *state)
        graphs.append(trace.graph(vdot=solved.vdot if m.has_loops else solved))
    assert any(type(recipe) is tuple for recipe in recipes._recipes.values())
    assert graphs[0] == graphs[1] == graphs[2]


def test_a_recipe_keeps_tuples_placements_and_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "BEFORE", 0)

    def placed(X: Any, D: Any, both: Any) -> Any:
        return Rigid(np.eye(3), np.zeros(3)) @ X, Factor(D), (both[0] + both[1], 3, None)

    _, (a, b, c) = inputs()
    D = np.array([[a, 0.0], [0.0, b]], dtype=object)
    arguments = Placement([Screw(2, a, b, 0.5), Rigid(np.eye(3), np.array([0.0, 2.0, 0.0]))]), D, (np.array([a, c]), np.array([b, 0.25]))
    place, factor, (total, *rest) = placed(*arguments)
    for _ in range(3):
        again, same, (sums, *others) = recipes.follow(placed, arguments)
        pairs = zip((place.R, place.p, factor.L, factor.w, total), (again.R, again.p, same.L, same.w, sums), strict=True)
        assert all(x is y or x == y for one, other in pairs for x, y in zip(one.flat, other.flat, strict=True))
        assert others == rest
    assert any(key[0] is placed and type(recipe) is tuple for key, recipe in recipes._recipes.items())


def test_a_recipe_is_left_where_two_scalars_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "BEFORE", 0)

    def difference(x: Any) -> Any:
        return np.array([x[0] * x[1] - x[2], x[2] * 3.0], dtype=object)

    _, (a, b, c) = inputs()
    product = a * b
    for _ in range(3):
        assert is_same(recipes.follow(difference, (np.array([a, b, c]),))[0], a * b - c)
    assert recipes.follow(difference, (np.array([a, b, product]),))[0] == 0.0


def test_arguments_that_are_not_those_of_a_graph_are_refused() -> None:
    """Entries are laid out by the inputs of a graph: one too many, or one of another size, would shift all that come after it."""
    inner = Trace("inner")
    x, y = inner.input("x", (2,)), inner.input("y")
    called, trace = Subgraph(inner.graph(z=x * y)), Trace("outer")
    a, b = trace.input("a", (2,)), trace.input("b")
    assert trace.call(called, a, b)[0].shape == (2,)
    for wrong in ((a,), (a, b, b), (b, a), (a, a)):
        with pytest.raises(TraceError, match=r"graph .inner.: its inputs .* are given arrays of"):
            trace.call(called, *wrong)
