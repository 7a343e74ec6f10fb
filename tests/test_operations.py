"""Operation counts, pinned: a change of any of these numbers is a change of speed, for better or worse.

What is counted: additions and subtractions, multiplications and divisions of the traced formulation, for the whole of what the kernel
computes from q, v and tau. Sines and cosines (two per revolute joint) are given apart; negations are not counted, as they fold into the
additions that follow. The mechanism is the general Denavit-Hartenberg chain: revolute joints, each placed by a turn about and a shift along
x and z on the last one, bodies with full inertias, gravity, no passive joint forces.
"""

from __future__ import annotations

from functools import cache

import pytest
from tests import mechanisms

from catena.formulations import METHODS
from catena.graph import Graph, Trace, partition


@cache
def graph(problem: str, method: str, bodies: int) -> Graph:
    trace = Trace(problem)
    names = ("q",) if problem == "mass_matrix" else ("q", "v", "x")
    arguments = [trace.input(name, (bodies,)) for name in names]
    tree = mechanisms.denavit_hartenberg(bodies).tree()
    return trace.graph(r=METHODS[method].solves[problem](tree.marked(trace.mark), *arguments))


def arithmetic(problem: str, method: str, bodies: int) -> int:
    """Additions, multiplications and divisions."""
    counts = graph(problem, method, bodies).operations
    assert set(counts) <= {"add", "mul", "div", "neg", "trig"}, "an operation that this file does not count"
    return counts["add"] + counts["mul"] + counts.get("div", 0)


#: Operations of each method on a chain of n bodies: for a chain of 7, and for every further body.
LINEAR = {
    ("forward_dynamics", "articulated-body"): (2286, 418),
    ("inverse_dynamics", "newton-euler"): (1296, 229),
}

#: Operations of methods that grow faster: for chains of 4, 7 and 12 bodies.
GROWING = {
    ("mass_matrix", "composite-body"): (350, 1100, 2990),
    ("forward_dynamics", "composite-body"): (986, 2596, 6326),
}


@pytest.mark.parametrize(("problem", "method"), LINEAR)
def test_operations_grow_by_the_same_count_with_every_body(problem: str, method: str) -> None:
    at_seven, further = LINEAR[problem, method]
    counts = {n: arithmetic(problem, method, n) for n in (3, 4, 5, 6, 7, 8, 12, 13, 30)}
    assert counts == {n: at_seven + further * (n - 7) for n in counts}
    trigonometry = {n: graph(problem, method, n).operations["trig"] for n in counts}
    assert trigonometry == {n: 2 * n for n in counts}


def test_a_further_articulated_body_costs_440_operations_at_most() -> None:
    problem, method = "forward_dynamics", "articulated-body"
    assert arithmetic(problem, method, 8) - arithmetic(problem, method, 7) <= 440


@pytest.mark.parametrize(("problem", "method"), GROWING)
def test_operations_of_the_dense_methods_are_pinned(problem: str, method: str) -> None:
    assert tuple(arithmetic(problem, method, n) for n in (4, 7, 12)) == GROWING[problem, method]


@pytest.mark.parametrize("seed", range(1, 6))
def test_operations_do_not_depend_on_the_numbers_of_the_mechanism(seed: int) -> None:
    """Entries that vanish for every mechanism of this form are exact zeros, not rounding that depends on its numbers."""
    trace = Trace("forward_dynamics")
    arguments = [trace.input(name, (5,)) for name in ("q", "v", "tau")]
    tree = mechanisms.denavit_hartenberg(5, seed).tree()
    other = trace.graph(r=METHODS["articulated-body"].solves["forward_dynamics"](tree.marked(trace.mark), *arguments))
    assert other.operations == graph("forward_dynamics", "articulated-body", 5).operations


@pytest.mark.parametrize(("problem", "method", "blocks"), [(*key, count) for key, count in zip(LINEAR, (13, 11), strict=True)])
def test_blocks_of_a_chain_do_not_grow(problem: str, method: str, blocks: int) -> None:
    programs = {n: partition(graph(problem, method, n)) for n in (7, 13, 30)}
    assert {n: len(program.blocks) for n, program in programs.items()} == dict.fromkeys(programs, blocks)
    calls = {n: len(program.calls) for n, program in programs.items()}
    assert calls[30] - calls[13] == 17 * 3  # three passes over the bodies


def test_blocks_of_the_mass_matrix_do_not_grow() -> None:
    counts = {n: len(partition(graph("mass_matrix", "composite-body", n)).blocks) for n in (18, 24, 36)}
    assert len(set(counts.values())) == 1, counts


def test_zeros_between_branches_cost_nothing() -> None:
    """Two arms of three on the ground: their mass matrix costs twice that of one arm, and its factors too."""
    arm, pair = mechanisms.denavit_hartenberg(3), mechanisms.denavit_hartenberg(3)
    for link in arm.links:
        parent = link.parent if link.parent == "ground" else f"other {link.parent}"
        pair.add(f"other {link.name}", link.body, link.joint, parent=parent, at=link.at)
    counts = []
    for m in (arm, pair):
        trace = Trace("mass_matrix")
        traced = trace.graph(r=METHODS["composite-body"].solves["mass_matrix"](m.tree().marked(trace.mark), trace.input("q", (m.nv,))))
        counts.append(traced.operations["add"] + traced.operations["mul"])
    assert counts[1] == 2 * counts[0]
