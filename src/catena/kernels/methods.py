"""Which method solves what: names and models in, functions out; and the choice of `method="auto"`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from catena.errors import MethodError
from catena.formulations import ALIASES, AUTO, METHODS
from catena.formulations.loops.coupled_loops import coupled_loops
from catena.graph import Trace
from catena.loops.assembly import assemble
from catena.loops.plan_library import plan_of
from catena.model import Mechanism, Tree
from catena.model.simple_joints import with_simple_joints
from catena.references import REFERENCES

#: Below this mean depth of a coordinate, the number of coordinates between it and the ground, the operations say which of the candidates
#: solves forward dynamics; above, it is the articulated-body method. Measured on chains: with 7 bodies, a mean depth of 4, composite bodies
#: take 0.9 times as long, with 8 bodies as long, and more beyond.
DEPTH = 4.5

#: Above this mean depth the operations say whether the mass matrix is computed in one frame, where an entry takes 11 of them, and a body
#: more. On chains of general geometry that is so from 12 bodies on; it is faster from 20, and with 100 takes 0.6 times as long.
ONE_FRAME, DEEP = "composite-body/one-frame", 10.0

#: What `method="auto"` takes for forward dynamics with loops; and what it compares it with where a group of loops has more coordinates than
#: `LONG` for each of them and the mechanism no more than `COUNTED`: multipliers of long loops can cost less than to carry their constraints
#: along. Counted: of loops of general hinges in space, multipliers can win from 14 hinges a loop on.
LOOPS, MULTIPLIERS = "coordinate-reduction", "fully-recursive/joint"
LONG, COUNTED = 10, 64

#: Among which methods of forward dynamics it chooses for trees. Others lose digits far from the origin, are slower, or save an operation or
#: two where there are two coordinates.
CANDIDATES = ("articulated-body", "composite-body")

#: Problems whose solutions are matrices of derivatives; the method that differentiates the kernel itself, and fits every model; and up to
#: how many coordinates the operations say which recursion has the derivatives of forward dynamics: beyond, articulated bodies take fewer.
#: Measured: 6,300 through the mass matrix against 7,900 on an arm of 7 joints, 86,000 against 55,000 on a floating tree of 24 coordinates.
DERIVATIVES = ("forward_dynamics_derivatives", "inverse_dynamics_derivatives")
TANGENTS, FEW = "derivatives/tangents", 20


#: A method whose trace grows to so many times the nodes of the best one is given up. Nodes that nothing needs are more or less the same
#: part of all traces of a model: on the examples, the share of those that are operations differs by up to 1.4 times between methods.
SURPLUS = 2


class Solution(NamedTuple):
    """How a problem is solved: the method, in which words it was chosen, its function, and its references."""

    name: str
    method: str
    function: Callable[..., Any]
    references: tuple[str, ...]


def methods(problem: str | None = None) -> tuple[str, ...]:
    """Return the names of the methods that solve a problem, or of all; wherever one is given, `aba`, `rnea` and `crba` are understood too.

    >>> ct.methods("inverse_dynamics")
    ('newton-euler', 'composite-inverse')
    """
    problems = dict.fromkeys(known for method in METHODS.values() for known in method.solves)
    if problem is not None and problem not in problems:
        raise MethodError(f"'{problem}' is not a problem that catena solves; choose from {', '.join(problems)}")
    return tuple(name for name, method in METHODS.items() if problem is None or problem in method.solves)


def fitting(problem: str, m: Mechanism) -> tuple[str, ...]:
    """Return the names of the methods that solve a problem of this model."""
    return tuple(name for name in methods(problem) if not why_unsuitable(problem, name, m))


def why_unsuitable(problem: str, name: str, m: Mechanism) -> str:
    """Return why a method of a problem does not fit a model, or nothing."""
    method = METHODS[name]
    for_trees = method.closes is None if problem == "forward_dynamics" else problem in DERIVATIVES and name != TANGENTS
    if m.has_loops and for_trees:
        return "the method is for trees, and the model has loops"
    return method.why_unsuitable(m.tree())


def solution(problem: str, method: str, m: Mechanism, *, traced: bool = False) -> Solution:
    """Return how a method, by its full or short name, solves a problem of a model, or say why not; `traced` refuses iterations."""
    if method == "auto":
        name, why = automatic(problem, m)
        return _solution(problem, name, f"{name} (auto: {why})")
    method = ALIASES.get(method, method) if isinstance(method, str) else method
    why = _misfit(problem, method, m, traced)
    if why:
        fit = [name for name in fitting(problem, m) if not (traced and METHODS[name].iterates)]
        raise MethodError(f"{problem}: '{method}' {why}; choose from {', '.join(repr(name) for name in ('auto', *fit))}")
    return _solution(problem, method, method)


def _solution(problem: str, name: str, described: str) -> Solution:
    method = METHODS[name]
    return Solution(name, described, method.solves[problem], tuple(REFERENCES[key] for key in method.references))


def _misfit(problem: str, name: str, m: Mechanism, traced: bool) -> str:
    """Return why a method does not solve a problem of this model, or nothing."""
    if not isinstance(name, str) or name not in METHODS:
        return "is not a method of catena"
    method = METHODS[name]
    if problem not in method.solves:
        return f"solves {', '.join(method.solves)}"
    if traced and method.iterates:
        return "iterates until it converges, and cannot be part of a compiled run"
    why = why_unsuitable(problem, name, m)
    return f"does not fit model '{m.name}': {why}" if why else ""


def automatic(problem: str, m: Mechanism) -> tuple[str, str]:
    """Return the method of least cost for a problem of this model, and why it is; it is found once."""
    return m.once("automatic", problem, lambda: _automatic(problem, m))


def _automatic(problem: str, m: Mechanism) -> tuple[str, str]:
    if problem == "forward_dynamics" and m.has_loops:
        return _automatic_with_loops(m)
    if problem in DERIVATIVES:
        return _automatic_derivatives(problem, m)
    default = AUTO[problem]
    others = [name for name in fitting(problem, m) if name != default and not METHODS[name].iterates]
    tree = m.tree()
    depth = _mean_depth(tree)
    if problem == "mass_matrix" and depth > DEEP:
        solves = {name: METHODS[name].solves[problem] for name in (default, ONE_FRAME)}
        return _fewest(tree, {name: lambda tree, q, v, tau, solve=solve: solve(tree, q) for name, solve in solves.items()})
    if problem != "forward_dynamics":
        fewest = f"the fewest operations of {len(others) + 1} methods, give or take one where bodies are few"
        return default, fewest if others else "the only method"
    if depth >= DEPTH:
        return default, f"the fastest where coordinates have a mean depth of {DEPTH:g} or more, and here it is {depth:.1f}"
    solves = {name: METHODS[name].solves[problem] for name in CANDIDATES if name == default or name in others}
    return _fewest(tree, solves)


def _automatic_with_loops(m: Mechanism) -> tuple[str, str]:
    tree = m.tree()
    if m.nv > COUNTED or all(len(group.columns) <= LONG * max(1, len(group.closures)) for group in coupled_loops(tree)):
        return LOOPS, "no multipliers, and a cost that grows with the number of loops"
    now, solves = m.at(0.0), {}
    q = assemble(now)
    for name in (LOOPS, MULTIPLIERS):
        closes = METHODS[name].closes
        assert closes is not None
        solve = partial(closes.forward_dynamics, plan=plan_of(now, name, q))
        solves[name] = lambda *state, solve=solve: solve(*state).vdot
    return _fewest(tree, solves)


def _automatic_derivatives(problem: str, m: Mechanism) -> tuple[str, str]:
    recursions = [name for name in fitting(problem, m) if name != TANGENTS]
    if not recursions:
        return TANGENTS, "the only method that fits"
    default, none = AUTO[problem], np.zeros((m.nv, m.nv))
    if len(methods(problem)) == 2:
        return default, f"fewer operations than {TANGENTS}"
    if m.nv > FEW:
        return default, f"the fewest operations where there are more than {FEW} coordinates"

    def solved_by(name: str) -> Callable[..., Any]:
        solve = METHODS[name].solves[problem]
        return lambda tree, *state: np.concatenate(solve(with_simple_joints(tree), *state, none, none), axis=None)

    return _fewest(m.tree(), {name: solved_by(name) for name in recursions})


def _mean_depth(tree: Tree) -> float:
    """Return how many coordinates there are on average from the ground to a coordinate, with it."""
    entries, inboard = 0, [0] * (tree.n + 1)
    for k, at in enumerate(tree.v_slices):
        own, before = at.stop - at.start, inboard[tree.parent[k]]
        entries += own * before + own * (own + 1) // 2
        inboard[k] = before + own
    return entries / max(1, tree.nv)


def _fewest(tree: Tree, solves: Mapping[str, Callable[..., Any]]) -> tuple[str, str]:
    """Return the first of the methods with the fewest operations, and what all take; those that take many more are not traced in full."""
    best, fewest, most, others = "", 0, None, []
    for name, function in solves.items():
        count, nodes = _operations(tree, function, most)
        if count is None:
            others.append(f"{name} more than {fewest:,}")
        elif not best or count < fewest:
            others += [f"{best} {fewest:,}"] if best else []
            best, fewest, most = name, count, SURPLUS * nodes
        else:
            others.append(f"{name} {count:,}")
    return best, f"{fewest:,} operations; {', '.join(others)}"


def _operations(tree: Tree, function: Callable[..., Any], most: int | None) -> tuple[int | None, int]:
    """Return how many operations a function of (tree, q, v, tau) takes, None where its trace grows beyond `most` nodes; and its nodes."""
    trace = Trace("count")
    q, v, tau = trace.input("q", (tree.nq,)), trace.input("v", (tree.nv,)), trace.input("tau", (tree.nv,))

    def mark() -> None:
        if most is not None and len(trace.codes) > most:
            raise _Surplus
        trace.mark()

    try:
        result = function(tree.traced(trace, mark).at(trace.input("t")), q, v, tau)
    except _Surplus:
        return None, len(trace.codes)
    return sum(trace.graph(result=result).operations.values()), len(trace.codes)


class _Surplus(Exception):
    """A trace grows beyond what can be the shortest."""
