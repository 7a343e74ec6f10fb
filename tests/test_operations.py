"""Operation counts, pinned: a change of any of these numbers is a change of speed, for better or worse.

What is counted: additions and subtractions, multiplications and divisions of the traced formulation, for the whole of what the kernel
computes from q, v and tau, or from q, p and tau. Sines and cosines (two per revolute joint) are given apart; negations are not counted, as
they fold into the additions that follow. The mechanism is the general Denavit-Hartenberg chain: revolute joints, each placed by a turn
about and a shift along x and z on the last one, bodies with full inertias, gravity, no passive joint forces.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from tests import mechanisms
from tests.referee import relative

import catena as ct
from catena.formulations import METHODS
from catena.formulations.linear.reference_points import states
from catena.graph import Graph, Trace, program_of
from catena.graph.passes import arranged
from catena.spatial import Factor, gain, minus_product, skew, symmetric


@cache
def graph(problem: str, method: str, bodies: int) -> Graph:
    trace = Trace(problem)
    names = ("q",) if problem == "mass_matrix" else ("q", "v", "x")
    arguments = [trace.input(name, (bodies,)) for name in names]
    tree = mechanisms.denavit_hartenberg(bodies).tree()
    found = METHODS[method].solves[problem](tree.marked(trace.mark), *arguments)
    return trace.graph(r=np.concatenate(found) if isinstance(found, tuple) else found)


def kinds(problem: str, method: str, bodies: int) -> tuple[int, int]:
    """Additions; multiplications and divisions."""
    counts = graph(problem, method, bodies).operations
    assert set(counts) <= {"add", "mul", "div", "neg", "trig"}, "an operation that this file does not count"
    return counts["add"], counts["mul"] + counts.get("div", 0)


def arithmetic(problem: str, method: str, bodies: int) -> int:
    """Additions, multiplications and divisions."""
    return sum(kinds(problem, method, bodies))


#: Operations of each method on a chain of n bodies: for a chain of 7, and for every further body.
LINEAR = {
    ("forward_dynamics", "articulated-body"): (2066, 379),
    ("hamiltonian_dynamics", "canonical-momenta"): (1669, 314),
    ("forward_dynamics", "fully-recursive/centroid"): (3365, 609),
    ("forward_dynamics", "fully-recursive/joint"): (3097, 561),
    ("forward_dynamics", "fully-recursive/origin"): (3097, 552),
    ("inverse_dynamics", "newton-euler"): (1002, 176),
}

#: Operations of methods that grow faster: for chains of 4, 7 and 12 bodies.
GROWING = {
    ("mass_matrix", "composite-body"): (237, 795, 2345),
    ("mass_matrix", "composite-body/one-frame"): (392, 1010, 2260),
    ("forward_dynamics", "composite-body"): (736, 1992, 5112),
}


@pytest.mark.parametrize(("problem", "method"), LINEAR)
def test_operations_grow_by_the_same_count_with_every_body(problem: str, method: str) -> None:
    at_seven, further = LINEAR[problem, method]
    counts = {n: arithmetic(problem, method, n) for n in (3, 4, 5, 6, 7, 8, 12, 13, 30)}
    assert counts == {n: at_seven + further * (n - 7) for n in counts}
    trigonometry = {n: graph(problem, method, n).operations["trig"] for n in counts}
    assert trigonometry == {n: 2 * n for n in counts}


#: [NLT03] Table 1: additions and multiplications of n bodies, each as a number for every body and one for all.
TABLE = {
    "Featherstone": ((275, -18), (336, -220)),
    "Vukobratovic": ((231, -294), (249, -272)),
    "Valasek": ((206, -345), (226, -343)),
    "Rein": ((195, -247), (216, -317)),
    "Naudet-Lefeber": ((178, -230), (185, -245)),
}


@pytest.mark.parametrize("bodies", [*range(3, 12), 20, 30, 45, 60])  # counts grow in proportion, as the tests above say
def test_operations_are_below_every_row_of_the_table(bodies: int) -> None:
    """[NLT03] Table 1: canonical momenta below all rows, articulated bodies below all that give accelerations; of either kind, too."""
    rows = {name: tuple(each * bodies + all_ for each, all_ in row) for name, row in TABLE.items()}
    accelerations = kinds("forward_dynamics", "articulated-body", bodies)
    momenta = kinds("hamiltonian_dynamics", "canonical-momenta", bodies)
    for name, row in rows.items():
        assert sum(momenta) < sum(row)
        assert name == "Naudet-Lefeber" or sum(accelerations) < sum(row)
    assert all(own < other for own, other in zip(momenta, rows["Naudet-Lefeber"], strict=True))
    assert all(own < other for own, other in zip(accelerations, rows["Rein"], strict=True))


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


#: Pieces of code of a chain, however long it is, and passes over its bodies.
BLOCKS = dict(zip(LINEAR, ((13, 3), (12, 3), (13, 3), (15, 3), (13, 3), (11, 3)), strict=True))


@pytest.mark.parametrize(("problem", "method"), BLOCKS)
def test_blocks_of_a_chain_do_not_grow(problem: str, method: str) -> None:
    blocks, passes = BLOCKS[problem, method]
    programs = {n: program_of(graph(problem, method, n)) for n in (7, 13, 30)}
    assert {n: len(program.blocks) for n, program in programs.items()} == dict.fromkeys(programs, blocks)
    calls = {n: len(program.calls) for n, program in programs.items()}
    assert calls[30] - calls[13] == 17 * passes


def test_a_chain_takes_few_more_slots_than_it_has_values_at_a_time() -> None:
    """At the tip's turn back: sine and cosine, bias acceleration (5), gain and joint acceleration (6)."""
    slots = {n: arranged(program_of(graph("forward_dynamics", "articulated-body", n)), 3 * n, 0)[0].slots for n in (30, 90)}
    assert slots[90] - slots[30] == 60 * 13
    assert slots[30] < 30 * 13 + 80


def test_blocks_of_the_mass_matrix_do_not_grow() -> None:
    counts = {n: len(program_of(graph("mass_matrix", "composite-body", n)).blocks) for n in (18, 24, 36)}
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


# what the reference point of [KY03] saves, in multiplications for a further body: the paper says 36 + 6 n for a joint of n coordinates

#: Multiplications for a further body of a chain: at the centroid, the joint and the origin.
MULTIPLICATIONS = {
    "revolute": (316, 295, 292),
    "cylindrical": (408, 387, 384),
    "universal": (513, 483, 489),
    "spherical": (638, 542, 614),
    "free": (1101, 1005, 1077),
}


def repeated(kind: str, bodies: int) -> ct.Model:
    """A chain of one kind of joint; of revolute joints it is the Denavit-Hartenberg chain."""
    return mechanisms.denavit_hartenberg(bodies) if kind == "revolute" else mechanisms.chain(1, bodies, (kind,))


def multiplications(function: Callable[..., Any], kind: str) -> int:
    """Multiplications of a function of (tree, q, v, tau) for a further body."""
    counts = []
    for bodies in (8, 9):
        tree, trace = repeated(kind, bodies).tree(), Trace("multiplications")
        arguments = [trace.input(name, (size,)) for name, size in (("q", tree.nq), ("v", tree.nv), ("tau", tree.nv))]
        counts.append(trace.graph(r=function(tree.marked(trace.mark), *arguments)).operations["mul"])
    return counts[1] - counts[0]


def as_printed(tree: Any, q: Any, v: Any, tau: Any, reference: str) -> Any:
    """Forward dynamics by (28)-(30) as they stand: B1 a matrix, M and M_21 shifted before the joint is eliminated."""
    _, state = states(tree, q, v, reference)
    shifts = [skew([factor.d for factor in one.B1.factors]) for one in state]
    B1 = [np.block([[np.eye(3), np.zeros((3, 3))], [-r, np.eye(3)]]) for r in shifts]
    M, Q = [one.M for one in state], [one.Q for one in state]
    M22, Q2, K, Y_rate = tree.columns(4)
    vdot = tree.vector()
    for k in tree.inward():
        p, at, B2 = tree.parent[k], tree.v_slices[k], state[k].B2
        free = Q[k] - M[k] @ state[k].D
        U = M[k] @ B2
        Q1, Q2[k] = B1[k].T @ free, tau[at] + B2.T @ free
        M11, M21, joint = symmetric(B1[k].T @ (M[k] @ B1[k])), U.T @ B1[k], B2.T @ U + np.diag(tree.armature[at])
        M22[k] = Factor(joint)
        K[k] = gain(M21.T, joint, M22[k])
        M[p] = M[p] + minus_product(M11, K[k], M21.T)
        Q[p] = Q[p] + Q1 - K[k] @ Q2[k]
    Y_rate[-1] = np.zeros(6)
    for k in tree.outward():
        at, inboard = tree.v_slices[k], Y_rate[tree.parent[k]]
        vdot[at] = M22[k].solve(Q2[k]) - K[k].T @ inboard
        Y_rate[k] = B1[k] @ inboard + state[k].B2 @ vdot[at] + state[k].D
    return vdot


@pytest.mark.parametrize("kind", MULTIPLICATIONS)
def test_multiplications_at_the_reference_points_are_pinned(kind: str) -> None:
    methods = [METHODS[f"fully-recursive/{reference}"] for reference in ("centroid", "joint", "origin")]
    counts = tuple(multiplications(method.solves["forward_dynamics"], kind) for method in methods)
    assert counts == MULTIPLICATIONS[kind]
    assert counts[0] - counts[2] == 30 + 6 + 6 + 6 - 24  # M, Q, Ydot and D at the centroid, less the mass matrix and force of (36)


@pytest.mark.parametrize("kind", MULTIPLICATIONS)
def test_origin_saves_33_and_6_for_every_coordinate_where_the_recursion_is_as_printed(kind: str) -> None:
    """The paper's 36 + 6 n, with M_11 for 39 instead of 48, and 6 more for D of the centroid."""
    n = repeated(kind, 1).nv
    at_centroid, at_origin = (multiplications(partial(as_printed, reference=reference), kind) for reference in ("centroid", "origin"))
    assert at_centroid - at_origin == 36 + 6 * n - (48 - 39) + 6
    assert at_origin == MULTIPLICATIONS[kind][2]


@pytest.mark.parametrize("reference", ["centroid", "joint", "origin"])
def test_recursion_as_printed_equals_the_method(reference: str) -> None:
    for seed in range(5):
        m = mechanisms.tree(seed, 6, options=True)
        arguments = mechanisms.state(m, seed)
        expected = METHODS[f"fully-recursive/{reference}"].solves["forward_dynamics"](m.tree(), *arguments)
        assert relative(as_printed(m.tree(), *arguments, reference), expected) < 1e-11
