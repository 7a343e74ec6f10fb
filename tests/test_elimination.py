"""A system with the zeros of a tree is solved alike by the compiled loop, by the graph's evaluation and by NumPy, whatever the tree."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import mechanisms
from tests.referee import relative

import catena as ct
from catena import TraceError
from catena.examples import EXAMPLES
from catena.formulations import METHODS
from catena.graph import Elimination, Entry, Graph, Port, Trace, division
from catena.graph.elimination import preorder
from catena.graph.stages import split
from catena.native import Iteration, Kernel, compile_graph
from catena.native.llvm import machine
from catena.spatial import Factor

LANES = machine.host().lanes
TOLERANCE = 1e-12  # relative to the largest entry of a solution, for matrices with a condition below 100


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATENA_CACHE_DIR", "off")


@st.composite
def parents(draw: st.DrawFn, most: int = 24) -> list[int]:
    """A tree or forest of unknowns: chains, combs, stars and what is in between, with parents anywhere before their children."""
    size, straight = draw(st.integers(1, most)), draw(st.sampled_from([0.0, 0.5, 0.9, 1.0]))
    rng = np.random.default_rng(draw(mechanisms.seeds))
    return [k - 1 if rng.random() < straight else int(rng.integers(-1, k)) for k in range(size)]


def path(parent: Sequence[int], k: int) -> list[int]:
    """The unknowns from a root to k."""
    return [*path(parent, parent[k]), k] if k >= 0 else []


def system(parent: Sequence[int], *batch: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random matrices with the zeros of a tree, and right-hand sides: A = L^T L, where L has them too."""
    rng = np.random.default_rng(seed)
    L = np.zeros((*batch, len(parent), len(parent)))
    for k in range(len(parent)):
        for j in path(parent, k):
            L[..., k, j] = rng.uniform(1.0, 2.0, batch) if j == k else rng.uniform(-0.5, 0.5, batch) / np.sqrt(len(parent))
    return np.swapaxes(L, -1, -2) @ L, rng.normal(size=(*batch, len(parent)))


def solved(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.linalg.solve(A, x[..., None])[..., 0]


def solve_graph(parent: Sequence[int]) -> Graph:
    trace = Trace("solve")
    A, x = trace.input("A", (len(parent), len(parent))), trace.input("x", (len(parent),))
    return trace.graph(y=trace.solve(A, x, parent)).check()


_kept: dict[str, Kernel] = {}  # machine code lives as long as a kernel that uses it, and serves all systems


def compiled(graph: Graph) -> Kernel:
    """Return the kernel of a graph."""
    made = compile_graph(graph)
    _kept.setdefault(made.llvm, made)
    return made


def by_regions(graph: Graph) -> Kernel:
    """Return the kernel that a large graph would get."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(division, "MERGE", -1)
        patch.setattr(division, "MERGE_SMALL", -1)
        return compiled(graph)


# the loop, the evaluation and NumPy


@given(parent=parents(), seed=mechanisms.seeds, batch=st.sampled_from([(), (1,), (3,), (2 * LANES + 1,), (2, 3)]))
def test_solutions_of_the_loop_and_of_the_graph_equal_numpys(parent: list[int], seed: int, batch: tuple[int, ...]) -> None:
    graph = solve_graph(parent)
    A, x = system(parent, *batch, seed=seed)
    expected = solved(A, x)
    assert relative(graph.evaluate(A, x)[0], expected) < TOLERANCE
    made = compiled(graph)
    got = made(A, x)
    assert relative(got, expected) < TOLERANCE
    for state in np.ndindex(*batch):
        np.testing.assert_array_equal(made(A[state], x[state]), got[state])


@pytest.mark.parametrize("size", [*range(1, 14), 33, 128])
def test_chains_of_all_remainders_equal_numpy(size: int) -> None:
    parent = range(-1, size - 1)
    A, x = system(parent, LANES + 1)
    assert relative(compiled(solve_graph(parent))(A, x), solved(A, x)) < TOLERANCE


def test_only_entries_at_ancestors_are_read_and_arrays_may_be_strided() -> None:
    parent = [-1, 0, 1, 0, -1, 4, 4]
    A, x = system(parent, 9)
    read = np.zeros((7, 7), dtype=bool)
    for k in range(7):
        read[k, path(parent, k)] = True
    made = compiled(solve_graph(parent))
    expected = made(A, x)
    wide = np.full((18, 7, 14), np.nan)
    wide[::2, :, ::2] = np.where(read, A, np.nan)
    np.testing.assert_array_equal(made(wide[::2, :, ::2], np.asfortranarray(x)), expected)


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("plain", [False, True], ids=["this processor", "its plainest ancestor"])
def test_other_processors(lanes: int, plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    host = machine.host()._replace(lanes=lanes, x86=False)
    if plain and machine.host().x86:
        host = host._replace(processor="x86-64", features="")
    monkeypatch.setattr(machine, "host", lambda: host)
    parent = [-1, 0, 1, 2, 3, 4, 2, 6, 7, -1, 9]
    A, x = system(parent, 2 * lanes + 1)
    assert relative(compiled(solve_graph(parent))(A, x), solved(A, x)) < TOLERANCE


@given(parent=parents(12), seed=mechanisms.seeds, share=st.sampled_from([0.3, 1.0]))
def test_numbers_among_the_entries_equal_the_same_inputs(parent: list[int], seed: int, share: float) -> None:
    """Some, or all, of the matrix is known while tracing; a number that is used twice, and one that is a result, too."""
    rng = np.random.default_rng(seed)
    A, x = system(parent, seed=seed)
    trace = Trace("numbers")
    given_A, given_x = trace.input("A", A.shape), trace.input("x", x.shape)
    mixed = np.where(rng.random(A.shape) < share, A.astype(object), given_A)
    right = given_x.copy()
    right[-1] = A[-1, -1]
    x[-1] = A[-1, -1]
    graph = trace.graph(y=trace.solve(mixed, right, parent), number=A[-1, -1]).check()
    for made in (compiled(graph), by_regions(graph)):
        y, number = made(A, x)
        assert relative(y, solved(A, x)) < TOLERANCE
        assert number == A[-1, -1]
    assert relative(graph.evaluate(A, x)[0], solved(A, x)) < TOLERANCE


def test_a_system_of_numbers_alone_equals_numpy() -> None:
    parent = [-1, 0, 0, 2]
    A, x = system(parent)
    trace = Trace("known")
    graph = trace.graph(y=trace.solve(A, x, parent)).check()
    assert relative(compiled(graph)(), solved(A, x)) < TOLERANCE
    assert relative(graph.evaluate()[0], solved(A, x)) < TOLERANCE


def test_no_unknowns_have_no_solution() -> None:
    assert Trace("nothing").solve(np.zeros((0, 0)), np.zeros(0), []).shape == (0,)


def two_systems() -> Graph:
    """A second system, of another tree, whose right-hand side comes of the first solution, with work before, between and after."""
    trace = Trace("two")
    A, x = trace.input("A", (6, 6)), trace.input("x", (6,))
    first = trace.solve(A * 2.0, np.sin(x), [-1, 0, 1, 2, 3, 4])
    again = trace.solve(A * 2.0, np.sin(x), [-1, 0, 1, 2, 3, 4])
    assert all(a is b for a, b in zip(first, again, strict=True)), "an equal system is solved once"
    second = trace.solve(A + np.diag(np.cos(first)), 3.0 * first + x, [-1, 0, 1, 2, 3, 4])
    third = trace.solve(A[:3, :3], second[:3] + second[3:], [-1, 0, 1])
    return trace.graph(first=first, third=np.sin(third) * x[:3], last=third[::-1], x=x[0]).check()


def test_several_systems_in_one_graph_equal_numpy() -> None:
    graph = two_systems()
    A, x = system(range(-1, 5), 13)
    first = solved(2.0 * A, np.sin(x))
    second = solved(A + np.eye(6) * np.cos(first)[:, None], 3.0 * first + x)
    third = solved(A[:, :3, :3], second[:, :3] + second[:, 3:])
    expected = first, np.sin(third) * x[:, :3], third[:, ::-1], x[:, 0]
    for results in (graph.evaluate(A, x), compiled(graph)(A, x), by_regions(graph)(A, x)):
        for got, wanted in zip(results, expected, strict=True):
            assert relative(got, wanted) < TOLERANCE


def test_a_strange_state_leaves_its_neighbours_alone_without_a_warning() -> None:
    parent = [-1, 0, 1, 2, 3, 1, 5]
    A, x = system(parent, 2 * LANES + 3)
    made = compiled(solve_graph(parent))
    plain = made(A, x)
    for strange in (np.nan, np.inf, 0.0):
        disturbed = A.copy()
        disturbed[LANES] = strange
        with np.errstate(all="raise"):
            got = made(disturbed, x)
        others = np.arange(len(x)) != LANES
        np.testing.assert_array_equal(got[others], plain[others])
        assert not np.isfinite(got[LANES]).all()


@pytest.mark.parametrize("held", ["A", "x", "both"])
def test_two_stages_in_turn_equal_one(held: str) -> None:
    parent = [-1, 0, 1, 0, 3]
    A, x = system(parent, 6)
    trace = Trace("stages")
    inputs = {"A": trace.input("A", (5, 5)), "x": trace.input("x", (5,)), "z": trace.input("z", (5,))}
    graph = trace.graph(y=trace.solve(inputs["A"], np.sin(inputs["x"]), parent) * inputs["z"])
    names = ("A", "x") if held == "both" else (held,)
    first, second = split(graph, names)
    arrays = {"A": A, "x": x, "z": 2.0 * x}
    kept = compiled(first)(*(arrays[name] for name in names))
    got = compiled(second)(kept, *(array for name, array in arrays.items() if name not in names))
    assert relative(got, solved(A, np.sin(x)) * 2.0 * x) < TOLERANCE


# what is counted


class Counted:
    """A number that counts what is done to it."""

    def __init__(self, counts: Counter[str]) -> None:
        self.counts = counts

    def _done(self, kind: str) -> Counted:
        self.counts[kind] += 1
        return self

    def __sub__(self, other: Any) -> Counted:
        return self._done("add")

    def __mul__(self, other: Any) -> Counted:
        return self._done("mul")

    def __rtruediv__(self, other: Any) -> Counted:
        return self._done("div")


@given(parent=parents(16))
def test_operations_equal_those_of_an_elimination_that_is_counted(parent: list[int]) -> None:
    counts: Counter[str] = Counter()
    A, x, size = Counted(counts), Counted(counts), len(parent)
    for k in reversed(range(size)):  # every entry is the same counted number: only what is done to it matters
        w = 1.0 / A
        for i in path(parent, k)[:-1]:
            multiplier = A * w
            for _ in path(parent, i):
                A - multiplier * A
            x - multiplier * x
    for k in range(size):
        for _ in path(parent, k)[:-1]:
            x - A * x
        x * A
    graph = solve_graph(parent)
    assert {kind: n for kind, n in graph.operations.items() if n} == dict(counts)
    # the same, traced entry by entry
    trace = Trace("entries")
    inputs = trace.input("A", (size, size)), trace.input("x", (size,))
    masked = np.where([[j in path(parent, k) or k in path(parent, j) for j in range(size)] for k in range(size)], inputs[0], 0.0)
    assert trace.graph(y=Factor(masked).solve(inputs[1])).operations == dict(counts)


def test_a_system_is_a_region_of_its_own() -> None:
    trace = Trace("region")
    A, x = trace.input("A", (3, 3)), trace.input("x", (3,))
    graph = trace.graph(y=2.0 * trace.solve(A, x + 1.0, [-1, 0, 1]))
    assert [dict(counts) for counts in graph.operations_by_region] == [{"add": 3}, Elimination((-1, 0, 1)).operations, {"mul": 3}]


def test_what_no_output_needs_is_dropped() -> None:
    trace = Trace("dead")
    A, x = trace.input("A", (3, 3)), trace.input("x", (3,))
    dead = trace.solve(A, np.sin(x), [-1, 0, 1])
    live = trace.solve(A, x, [-1, 0, 1])
    assert len(dead) == 3
    graph = trace.graph(y=live[1]).check()
    operations = [node[0] for node in graph.nodes]
    assert operations == ["input"] * 9 + [Elimination((-1, 0, 1)), Entry(1)]  # six entries of the matrix and three of x
    A, x = system([-1, 0, 1], 5)
    assert relative(compiled(graph)(A, x), solved(A, x)[:, 1]) < TOLERANCE
    assert trace.graph(y=2.0).nodes == (("const", 2.0),)


@given(parent=parents())
def test_preorder_is_a_numbering_with_parents_first_and_subtrees_together(parent: list[int]) -> None:
    order = preorder(parent)
    assert sorted(order) == list(range(len(parent)))
    at = {k: i for i, k in enumerate(order)} | {-1: -1}
    assert Elimination(tuple(at[parent[k]] for k in order)).well_formed
    for k in range(len(parent)):
        below = sorted(at[j] for j in range(len(parent)) if k in path(parent, j))
        assert below == list(range(at[k], at[k] + len(below)))


CHAIN = Elimination((-1, 0))
GOOD = Graph(
    "good", (*(("input", i) for i in range(5)), (CHAIN, 0, 1, 2, 3, 4), (Entry(1), 5), ("lt", 0, 1)),
    (Port("x", (5,)),), (Port("y", ()),), ((6,),),
)  # fmt: skip

MALFORMED: dict[str, tuple[int, tuple]] = {
    "too few operands": (5, (CHAIN, 0, 1, 2, 3)),
    "too many operands": (5, (CHAIN, 0, 1, 2, 3, 4, 4)),
    "operand that comes later": (5, (CHAIN, 0, 1, 2, 3, 6)),
    "no unknowns": (5, (Elimination(()),)),
    "parent that comes later": (5, (Elimination((1, -1)), 0, 1, 2, 3, 4)),
    "no preorder": (5, (Elimination((-1, -1, 0)), 0, 1, 2, 3, 4, 0, 1)),
    "entry beyond the end": (6, (Entry(2), 5)),
    "negative entry": (6, (Entry(-1), 5)),
    "entry of a number": (6, (Entry(0), 4)),
    "entry of two": (6, (Entry(0), 5, 5)),
    "solution used as a number": (6, ("neg", 5)),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_systems_are_refused(case: str) -> None:
    assert GOOD.check() is GOOD
    place, node = MALFORMED[case]
    with pytest.raises(TraceError, match="graph 'good'"):
        replace(GOOD, nodes=(*GOOD.nodes[:place], node, *GOOD.nodes[place + 1 :])).check()


def test_conditions_and_solutions_are_no_entries_and_no_results() -> None:
    nodes = (*GOOD.nodes[:5], ("lt", 0, 1), (CHAIN, 0, 1, 2, 3, 5), (Entry(0), 6))
    for graph in (replace(GOOD, nodes=nodes, results=((7,),)), replace(GOOD, results=((5,),))):
        with pytest.raises(TraceError, match="graph 'good'"):
            graph.check()


# kernels


def test_code_serves_systems_of_any_size() -> None:
    first, second = (compiled(solve_graph(parent)) for parent in ([-1, 0, 1, 2, 3], [-1, 0, 0, 2, 2, -1, 5, 6, 7]))
    assert first.llvm == second.llvm
    assert second.cached


def test_a_pickled_kernel_equals_itself() -> None:
    made = compiled(two_systems())
    again = pickle.loads(pickle.dumps(made))
    A, x = system(range(-1, 5), 3)
    assert again.graph == made.graph
    for got, expected in zip(again(A, x), made(A, x), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_an_iteration_equals_its_steps_in_numpy() -> None:
    """A step solves a system whose entries come of the state, and takes sines of the solution."""
    size, parent = 5, [-1, 0, 1, 1, 3]
    A, _ = system(parent)
    trace = Trace("iteration")
    state, _, constants = trace.input("state", (3 + size,)), trace.input("row", (1,)), trace.input("constants", (size,))
    matrix = A + np.diag(state[3:] ** 2)
    y = trace.solve(matrix, np.cos(state[3:]) + constants, parent)
    after = np.sin(trace.solve(matrix, np.sin(y) + 1.0, parent)) + 0.1 * y
    graph = trace.graph(state=[0.0, state[1] + 1.0, 0.0, *after], record=[*y, *after])
    rng = np.random.default_rng(5)
    count, rows = 2 * LANES + 1, 4
    states = np.concatenate([np.zeros((count, 3)), rng.normal(size=(count, size))], axis=1)
    known, records = rng.normal(size=(count, size)), np.empty((count, rows, 2 * size))
    z = states[:, 3:].copy()
    Iteration(graph).run(states, np.zeros((1, 1, 1)), known, records, 100)
    for row in range(rows):
        matrices = A + np.eye(size) * (z**2)[:, None]
        y = solved(matrices, np.cos(z) + known)
        z = np.sin(solved(matrices, np.sin(y) + 1.0)) + 0.1 * y
        assert relative(records[:, row], np.concatenate([y, z], axis=1)) < 1e-11  # the last of four steps, each within 1e-12


# mechanisms


@pytest.fixture(params=["entry by entry", "by the loop"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("catena.model.tree.ENTRY_BY_ENTRY", -1 if request.param == "by the loop" else 10**9)
    return request.param


@given(m=mechanisms.trees())
def test_zeros_of_the_mass_matrix_are_those_of_the_tree_of_coordinates(m: ct.Model) -> None:
    parent = m.tree().v_parent
    assert len(parent) == m.nv
    mass = METHODS["composite-body"].solves["mass_matrix"](m.tree(), m.random(np.random.default_rng(0)))
    for k in range(m.nv):
        assert -1 <= parent[k] < k
        for j in range(k):
            assert mass[k, j] == 0.0 or j in path(parent, k)


@settings(max_examples=12)
@given(moving=mechanisms.moving_trees(most=6))
def test_forward_dynamics_by_the_loop_equals_plain_numpy(moving: tuple[ct.Model, np.ndarray, np.ndarray, np.ndarray]) -> None:
    m, q, v, tau = moving
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("catena.model.tree.ENTRY_BY_ENTRY", -1)
        made = ct.forward_dynamics(m, "composite-body")
    assert m.nv == 0 or any(isinstance(node[0], Elimination) for node in made.graph.nodes)
    mass = np.asarray(METHODS["composite-body"].solves["mass_matrix"](m.tree(), q), dtype=float)
    expected = np.linalg.solve(mass, tau - ct.bias_force(m)(q, v))
    condition = np.linalg.cond(mass) if m.nv else 1.0
    assert relative(made(q, v, tau), expected, scale=1e-3) < 1e-14 * max(condition, 100.0)


def test_a_short_system_is_traced_entry_by_entry_and_a_long_one_is_not() -> None:
    for name, loop in (("double-pendulum", False), ("gallery", False), ("chain", True), ("humanoid", True)):
        graph = ct.forward_dynamics(EXAMPLES[name](), "composite-body").graph
        assert any(isinstance(node[0], Elimination) for node in graph.nodes) == loop, name


def test_simulations_by_the_mass_matrix_equal_those_by_articulated_bodies(either_way: str) -> None:
    m = EXAMPLES["arm"]()
    q, v, _ = mechanisms.state(m, 3)
    first, second = (ct.simulate(m, q, v, until=0.2, step=0.01, method=method) for method in ("composite-body", "articulated-body"))
    assert relative(first.q, second.q) < 1e-9
    assert relative(first.v, second.v) < 1e-8


def test_rollouts_by_the_mass_matrix_equal_those_by_articulated_bodies(either_way: str) -> None:
    m = EXAMPLES["arm"]()
    q, v, _ = mechanisms.state(m, 4, (LANES + 2,))
    first, second = (ct.rollout(m, q, v, step=0.005, steps=20, method=method) for method in ("composite-body", "articulated-body"))
    assert relative(first.q, second.q) < 1e-9
