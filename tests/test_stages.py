"""A graph in two stages computes what it computes in one, to the last bit; the first stage takes all that can be known first."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests import mechanisms
from tests.test_graph import run, steps

import catena as ct
from catena import TraceError
from catena.formulations.inverse.newton_euler import momenta
from catena.formulations.linear.articulated_body import forward_dynamics
from catena.graph import Graph, Trace, program_of
from catena.graph.operations import CONDITIONS, LEAVES
from catena.graph.stages import split
from catena.native import compile_graph

pytestmark = pytest.mark.quick

NAMES = ("a", "b", "c")


def traced(code: Any) -> Graph:
    """A random program on two scalars and a pair; the last results are its outputs."""
    trace = Trace("random")
    values = [trace.input("a"), *trace.input("b", (2,)), trace.input("c")]
    *rest, last = run(code, values, trace.mark)
    return trace.graph(rest=np.array(rest), last=last)


def staged(graph: Graph, held: Any, arguments: dict[str, Any]) -> tuple[np.ndarray, ...]:
    """What the two stages return in turn."""
    first, second = split(graph, held)
    (kept,) = first.evaluate(*[arguments[port.name] for port in first.inputs])
    return second.evaluate(kept, *[arguments[port.name] for port in second.inputs[1:]])


def same(a: tuple[np.ndarray, ...], b: tuple[np.ndarray, ...]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))


@given(code=steps, seed=mechanisms.seeds)
def test_two_stages_equal_one(code: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arguments = {"a": rng.normal(), "b": rng.normal(size=2), "c": rng.normal()}
    graph = traced(code)
    whole = graph.evaluate(*arguments.values())
    for count in range(4):
        for held in combinations(NAMES, count):
            assert same(staged(graph, held, arguments), whole)


@given(code=steps)
def test_the_second_stage_computes_nothing_that_could_be_held_but_conditions(code: Any) -> None:
    graph = traced(code)
    first, second = split(graph, ("a", "c"))
    assert [port.name for port in first.inputs] == ["a", "c"]
    assert [port.name for port in second.inputs] == ["held", "b"]
    assert second.outputs == graph.outputs
    held = second.inputs[0].size
    early: list[bool] = []
    for op, *operands in second.nodes:
        early.append(op == "const" or (op == "input" and operands[0] < held) or (op != "input" and all(early[j] for j in operands)))
        assert op in (*LEAVES, *CONDITIONS) or not early[-1]
    used = {node[1] for node in second.nodes if node[0] == "input"}
    assert used >= set(range(held)), "a value is held that nothing needs"
    assert len(set(first.results[0])) == held, "a value is held twice"


@given(code=steps)
def test_each_operation_is_in_one_stage_but_for_conditions(code: Any) -> None:
    graph = traced(code)
    first, second = split(graph, ("b",))
    for kind, count in graph.operations.items():
        if kind != "choice":
            assert first.operations.get(kind, 0) + second.operations.get(kind, 0) == count


def test_with_nothing_held_the_second_stage_is_the_graph() -> None:
    trace = Trace("all late")
    x = trace.input("x", (3,))
    graph = trace.graph(r=x @ x + 2.0)
    first, second = split(graph, ())
    assert first.inputs == ()
    assert first.outputs[0].shape == (0,)
    assert not first.operations
    assert second.operations == graph.operations
    assert compile_graph(second)(compile_graph(first)(), [1.0, 2.0, 3.0]) == 16.0


def test_with_all_held_the_second_stage_hands_on() -> None:
    trace = Trace("all early")
    x = trace.input("x", (3,))
    graph = trace.graph(r=np.array([x[0] * x[1], x[2], 5.0, x[2]]))
    first, second = split(graph, ["x"])
    assert (first.operations, second.operations) == (graph.operations, {})
    assert first.outputs[0].shape == (2,)
    assert compile_graph(second)(compile_graph(first)([2.0, 3.0, 4.0])).tolist() == [6.0, 4.0, 5.0, 4.0]


def test_a_held_input_that_is_needed_later_is_handed_on_and_numbers_stay_numbers() -> None:
    trace = Trace("handed on")
    q, x = trace.input("q", (2,)), trace.input("x")
    first, second = split(trace.graph(r=np.array([q[1] * x + 3.0, 7.0])), ["q"])
    assert first.outputs[0].shape == (1,)
    assert [node[1] for node in second.nodes if node[0] == "const"] == [3.0, 7.0]
    assert second.evaluate(*first.evaluate([1.0, 2.0]), 10.0)[0].tolist() == [23.0, 7.0]


def test_a_condition_on_held_values_is_taken_again() -> None:
    trace = Trace("choice")
    q, x = trace.input("q", (2,)), trace.input("x")
    condition = (np.sin(q[0]) < q[1]) & ~(q[1] == 0.25)
    graph = trace.graph(r=ct.where(condition, x, -x), s=ct.where(condition, q[0], q[1]))
    first, second = split(graph, ["q"])
    assert second.operations["choice"] == 5  # lt, eq, not, and, select
    for q0, q1 in ((0.0, 1.0), (2.0, 0.0), (0.1, 0.25)):
        assert same(second.evaluate(*first.evaluate([q0, q1]), 3.0), graph.evaluate([q0, q1], 3.0))


def test_names_that_cannot_be_are_refused() -> None:
    trace = Trace("names")
    graph = trace.graph(r=trace.input("held") * trace.input("x"))
    with pytest.raises(TraceError, match=r"'names': it has no input 'y' that could be held; choose from held, x"):
        split(graph, ["y"])
    with pytest.raises(TraceError, match=r"'names': the name 'held' of an input"):
        split(graph, ["x"])
    assert split(graph, ["held"])[1].evaluate(2.0 * np.ones(1), 3.0) == (6.0,)


# mechanisms


def product(m: ct.Model) -> Graph:
    trace = Trace("product")
    q, x = trace.input("q", (m.nq,)), trace.input("x", (m.nv,))
    return trace.graph(r=momenta(m.tree().marked(trace.mark), q, x))


@given(moving=mechanisms.moving_trees(most=5))
def test_two_stages_of_a_mechanism_equal_one(moving: Any) -> None:
    m, q, v, tau = moving
    trace = Trace("forward_dynamics")
    arguments = [trace.input(name, (size,)) for name, size in (("q", m.nq), ("v", m.nv), ("tau", m.nv))]
    graph = trace.graph(vdot=forward_dynamics(m.tree().marked(trace.mark), *arguments))
    for held in (("q",), ("q", "v"), ("tau",)):
        assert same(staged(graph, held, {"q": q, "v": v, "tau": tau}), graph.evaluate(q, v, tau))


@pytest.mark.parametrize("bodies", [5, 60])
def test_compiled_stages_equal_the_graph(bodies: int) -> None:
    m = mechanisms.denavit_hartenberg(bodies)
    q, x, _ = mechanisms.state(m, 3)
    graph = product(m)
    first, second = map(compile_graph, split(graph, ["q"]))
    assert second.merged is (bodies == 5)
    columns = np.stack([x, -2.0 * x, 0.0 * x])
    expected = graph.evaluate(q, columns)[0]
    assert np.abs(second(first(q), columns) - expected).max() < 1e-12 * np.abs(expected).max()


def test_regions_are_kept_so_that_like_bodies_share_blocks_in_both_stages() -> None:
    stages = [split(product(mechanisms.denavit_hartenberg(n)), ["q"]) for n in (20, 40)]
    for first, second in stages:
        assert len(first.regions) >= 20
        assert len(second.regions) > 20
    short, long = (program_of(second) for _, second in stages)
    assert len(long.blocks) == len(short.blocks)
    assert len(long.calls) == len(short.calls) + 40  # outward and inward, for each body
