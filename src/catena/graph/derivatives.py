"""Derivatives of graphs, as graphs: tangents, along directions of the inputs, and adjoints, from cotangents of the outputs.

    tangent   z = f(a, b)   ->   dz = f_a da + f_b db           in the order of the graph, each region with its own tangents
    adjoint   z = f(a, b)   ->   a_bar += f_a z_bar, b_bar += f_b z_bar      in reverse order, after all values

The factors f_a, f_b are the `PARTIALS` beside the table of operations. A choice follows the branch that is taken. Systems of equations
are differentiated implicitly, and cost one more solution of the same system:

    A x = b                         A dx = db - dA x                        w = A^-1 x_bar,  b_bar += w,  A_bar -= w x^T

Regions of a graph are regions of its derivatives, so that bodies that are alike share code there too. Both functions work inside a trace;
derivatives of derivatives come from graphs that were made of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from catena.graph.elimination import Elimination, Entry
from catena.graph.functions import where
from catena.graph.graph import SYSTEMS, Graph, Subgraph, operands_of
from catena.graph.linear_system import LinearSystem
from catena.graph.operations import CONDITION, CONDITIONS, OPERATIONS, PARTIALS
from catena.graph.saddle_point import SaddlePoint
from catena.graph.scalar import Condition
from catena.graph.trace import Trace, object_array

#: Operations whose value, or slope, need not be finite; in a branch that is not taken this must not spoil the other.
_UNBOUNDED = ("div", "sqrt", "exp", "log", "pow")


def tangents(trace: Trace, graph: Graph, arguments: Sequence[Any], directions: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the entries of all outputs, and their derivatives along directions; of all inputs, entry by entry.

    Arguments are traced scalars, directions may be numbers.
    """
    replay = _Replay(trace, graph, arguments)
    assert len(directions) == len(arguments)
    changes: list[Any] = []
    for i, (op, *operands) in enumerate(graph.nodes):
        along = [changes[j] for j in operands] if op not in ("const", "input") else []
        if isinstance(op, Subgraph) and any(_counts(d) for d in along):
            changes.append(replay.differentiate_subgraph(i, along))
            continue
        replay.compute(i)
        if op == "input":
            changes.append(directions[operands[0]])
        elif op == "const" or op in CONDITIONS or not any(_counts(d) for d in along):
            changes.append(0.0)
        elif isinstance(op, SYSTEMS):
            changes.append(_SYSTEMS[type(op)].tangent(replay, i, along))
        elif isinstance(op, Entry):
            changes.append(along[0][op.unknown])
        else:
            changes.append(replay.tangent(i, along))
    trace.mark()
    results = [i for result in graph.results for i in result]
    return [replay.values[i] for i in results], [changes[i] for i in results]


def adjoints(
    trace: Trace, graph: Graph, arguments: Sequence[Any], cotangents: Sequence[Any], wrt: Collection[int] | None = None
) -> tuple[list[Any], list[Any]]:
    """Return the entries of all outputs, and the gradients by all entries of the inputs of what cotangents of the outputs weigh.

    Gradients are wanted by the entries `wrt`, without it by all; those by others are 0.
    """
    replay = _Replay(trace, graph, arguments)
    for i in range(len(graph.nodes)):
        replay.compute(i)
    results = [i for result in graph.results for i in result]
    active = _depending(graph, wrt)
    bars: list[Any] = [0.0] * len(graph.nodes)
    for i, cotangent in zip(results, cotangents, strict=True):
        bars[i] = bars[i] + cotangent
    unsafe = _unsafe(graph)

    def give(j: int, contribution: Any) -> None:
        if active[j]:
            bars[j] = bars[j] + contribution

    gradients: list[Any] = [0.0] * sum(port.size for port in graph.inputs)
    for region in reversed(graph.regions):
        trace.mark()
        for i in reversed(region):
            op, *operands = graph.nodes[i]
            bar = bars[i]
            if op == "const" or not active[i] or not _counts(bar):
                continue
            if op == "input":
                gradients[operands[0]] = gradients[operands[0]] + bar
            elif isinstance(op, Entry):
                system = operands[0]
                entries = bars[system] if isinstance(bars[system], list) else [0.0] * graph.nodes[system][0].entries
                entries[op.unknown] = entries[op.unknown] + bar
                bars[system] = entries
            elif isinstance(op, SYSTEMS):
                for j, contribution in zip(operands, _SYSTEMS[type(op)].adjoint(replay, i, bar), strict=True):
                    give(j, contribution)
            else:
                for j, contribution in replay.adjoint(i, bar, i in unsafe):
                    give(j, contribution)
    trace.mark()
    return [replay.values[i] for i in results], gradients


def _counts(x: Any) -> bool:
    """Return whether a derivative is not zero at every state."""
    return isinstance(x, list) or not (isinstance(x, float) and x == 0.0)


def _depending(graph: Graph, wrt: Collection[int] | None) -> list[bool]:
    """Return which nodes depend on entries of the inputs, or on any."""
    found: list[bool] = []
    for op, *operands in graph.nodes:
        if op == "input":
            found.append(wrt is None or operands[0] in wrt)
        else:
            found.append(op != "const" and op not in CONDITIONS and any(found[j] for j in operands))
    return found


def _unsafe(graph: Graph) -> frozenset[int]:
    """Return the nodes that a choice may leave out and whose slopes need not be finite there: 0 times them must stay 0."""
    if not any(node[0] in ("select", "min", "max") for node in graph.nodes):
        return frozenset()
    nodes = graph.nodes
    left_out = [False] * len(nodes)
    for i in reversed(range(len(nodes))):
        if left_out[i] or nodes[i][0] in ("select", "min", "max"):
            for j in operands_of(nodes[i]):
                left_out[j] = True
    unbounded: list[bool] = []
    for op, *operands in nodes:
        unbounded.append(op in _UNBOUNDED or (op not in ("const", "input") and any(unbounded[j] for j in operands)))
    return frozenset(i for i in range(len(nodes)) if left_out[i] and unbounded[i])


class _Replay:
    """A graph computed again in a trace, node by node, with the rules of its operations."""

    def __init__(self, trace: Trace, graph: Graph, arguments: Sequence[Any]) -> None:
        assert len(arguments) == sum(port.size for port in graph.inputs), f"graph '{graph.name}' is given other inputs than its own"
        self.trace, self.graph, self.arguments = trace, graph, arguments
        self.values: list[Any] = []  # numbers, scalars; systems and conditions as the scalars of their nodes
        self._marks = frozenset(graph.marks)

    def compute(self, i: int) -> None:
        """Compute the next node."""
        if i in self._marks:
            self.trace.mark()
        op, *operands = self.graph.nodes[i]
        if op == "const":
            self.values.append(operands[0])
        elif op == "input":
            self.values.append(self.arguments[operands[0]])
        elif isinstance(op, Entry) and isinstance(self.values[operands[0]], list):
            self.values.append(self.values[operands[0]][op.unknown])
        else:
            self.values.append(self.trace.node(op, *[self.trace.index(self.values[j]) for j in operands]))

    def _operands(self, i: int) -> list[Any]:
        op, *operands = self.graph.nodes[i]
        types = OPERATIONS[op].operands
        return [
            Condition(self.trace, self.values[j].index) if type_ is CONDITION else self.values[j]
            for j, type_ in zip(operands, types, strict=True)
        ]

    def tangent(self, i: int, along: Sequence[Any]) -> Any:
        """Return the derivative of a node, of directions of its operands."""
        op = self.graph.nodes[i][0]
        partials = PARTIALS[op](*self._operands(i), self.values[i])
        if OPERATIONS[op].kind == "choice":
            return where(partials, along[-2], along[-1])
        total: Any = 0.0
        for slope, direction in zip(partials, along, strict=True):
            if _counts(direction):
                total = total + slope * direction
        return total

    def adjoint(self, i: int, bar: Any, unsafe: bool) -> list[tuple[int, Any]]:
        """Return what a node gives to the gradients by its operands."""
        op, *operands = self.graph.nodes[i]
        partials = PARTIALS[op](*self._operands(i), self.values[i])
        if OPERATIONS[op].kind == "choice":
            return [(operands[-2], where(partials, bar, 0.0)), (operands[-1], where(partials, 0.0, bar))]
        found = [(j, slope * bar) for j, slope in zip(operands, partials, strict=True)]
        return [(j, where(bar == 0.0, 0.0, x)) for j, x in found] if unsafe else found

    def entries(self, i: int) -> list[Any]:
        """Return the entries of the solution of a system that was computed."""
        value = self.values[i]
        if isinstance(value, list):
            return value
        return [self.trace.node(Entry(k), value.index) for k in range(self.graph.nodes[i][0].entries)]

    def operands(self, i: int) -> Any:
        """Return the operands of a system that was computed."""
        return _array([self.values[j] for j in self.graph.nodes[i][1:]])

    def differentiate_subgraph(self, i: int, along: Sequence[Any]) -> list[Any]:
        """Compute the next node, which is a subgraph, together with the derivatives of its outputs, and return these."""
        if i in self._marks:
            self.trace.mark()
        op, *operands = self.graph.nodes[i]
        entries = self.trace.system(_derivative(op, "tangent"), [*(self.values[j] for j in operands), *along])
        self.values.append(entries[: op.entries])
        return entries[op.entries :]


class _EliminationRule:
    """A x = b, with the zeros of a tree."""

    @staticmethod
    def tangent(replay: _Replay, i: int, along: Sequence[Any]) -> list[Any]:
        op: Elimination = replay.graph.nodes[i][0]
        x, operands = replay.entries(i), replay.operands(i)
        right = [along[start] for start in op.starts]
        for k, start in enumerate(op.starts):
            for j, column in op.path(k):
                change = along[start + column]
                if _counts(change):
                    right[k] = right[k] - change * x[j]
                    right[j] = right[j] - change * x[k] if j != k else right[j]
        return replay.trace.system(op, _with_right(op, operands, right))

    @staticmethod
    def adjoint(replay: _Replay, i: int, bars: Sequence[Any]) -> list[Any]:
        op: Elimination = replay.graph.nodes[i][0]
        x, operands = replay.entries(i), replay.operands(i)
        w = replay.trace.system(op, _with_right(op, operands, bars))
        found: list[Any] = [0.0] * op.size
        for k, start in enumerate(op.starts):
            found[start] = w[k]
            for j, column in op.path(k):
                found[start + column] = -(w[k] * x[j]) if j == k else -(w[k] * x[j] + w[j] * x[k])
        return found


def _with_right(op: Elimination, operands: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """Return the operands with another right-hand side."""
    changed = list(operands)
    for start, value in zip(op.starts, right, strict=True):
        changed[start] = value
    return changed


class _SaddlePointRule:
    """M x + J^T y = f, J x = g; what is known of the rank and the residual is not differentiated."""

    @staticmethod
    def tangent(replay: _Replay, i: int, along: Sequence[Any]) -> list[Any]:
        op: SaddlePoint = replay.graph.nodes[i][0]
        M, _, J, _, tolerance, most = op.matrices(replay.operands(i))
        dM, df, dJ, dg, _, _ = op.matrices(_array(along))
        solved = op.unpacked(_array(replay.entries(i)))
        right = df - _product(dM, solved.x) - _product(dJ.T, solved.y)
        entries = replay.trace.system(op, op.operands(M, right, J, dg - _product(dJ, solved.x), tolerance, most))
        determined = op.columns * (op.unknowns + op.constraints)
        return [*entries[:determined], *[0.0] * (op.entries - determined)]

    @staticmethod
    def adjoint(replay: _Replay, i: int, bars: Sequence[Any]) -> list[Any]:
        op: SaddlePoint = replay.graph.nodes[i][0]
        M, _, J, _, tolerance, most = op.matrices(replay.operands(i))
        solved, bar = op.unpacked(_array(replay.entries(i))), op.unpacked(_array(bars))
        back = op.unpacked(_array(replay.trace.system(op, op.operands(M, bar.x, J, bar.y, tolerance, most))))
        outer = _product(back.x, solved.x.T)
        M_bar = [-(outer[a, b] + outer[b, a]) if a != b else -outer[a, a] for a in range(op.unknowns) for b in range(a + 1)]
        J_bar = -(_product(back.y, solved.x.T) + _product(solved.y, back.x.T))
        return [*J_bar.T.ravel(), *back.y.T.ravel(), *M_bar, *back.x.T.ravel(), 0.0, 0.0]


def _array(entries: Sequence[Any]) -> Any:
    return object_array(entries, (len(entries),))


def _product(A: Any, B: Any) -> Any:
    """Return A B of entries of which many are the number 0."""
    found = np.zeros((A.shape[0], B.shape[1])).astype(object)
    for i, j in np.ndindex(found.shape):
        found[i, j] = sum((a * b for a, b in zip(A[i], B[:, j], strict=True) if _counts(a) and _counts(b)), 0.0)
    return found


class _LinearSystemRule:
    """A X = B."""

    @staticmethod
    def tangent(replay: _Replay, i: int, along: Sequence[Any]) -> list[Any]:
        op: LinearSystem = replay.graph.nodes[i][0]
        A, _ = op.matrices(replay.operands(i))
        dA, dB = op.matrices(_array(along))
        X = object_array(replay.entries(i), (op.unknowns, op.columns))
        return replay.trace.system(op, [*A.ravel(), *(dB - _product(dA, X)).ravel()])

    @staticmethod
    def adjoint(replay: _Replay, i: int, bars: Sequence[Any]) -> list[Any]:
        op: LinearSystem = replay.graph.nodes[i][0]
        A, _ = op.matrices(replay.operands(i))
        X = object_array(replay.entries(i), (op.unknowns, op.columns))
        B_bar = object_array(replay.trace.system(op, [*A.T.ravel(), *bars]), (op.unknowns, op.columns))
        return [*(-_product(B_bar, X.T)).ravel(), *B_bar.ravel()]


class _SubgraphRule:
    """A graph inside the graph; its tangents are computed together with it."""

    @staticmethod
    def adjoint(replay: _Replay, i: int, bars: Sequence[Any]) -> list[Any]:
        return replay.trace.system(_derivative(replay.graph.nodes[i][0], "adjoint"), [*replay.operands(i), *bars])


_SYSTEMS: dict[type, Any] = {
    Elimination: _EliminationRule, SaddlePoint: _SaddlePointRule, LinearSystem: _LinearSystemRule, Subgraph: _SubgraphRule,
}  # fmt: skip

#: The derivatives of subgraphs, as long as these are in use.
_derived: WeakKeyDictionary[Subgraph, dict[str, Subgraph]] = WeakKeyDictionary()


def _derivative(subgraph: Subgraph, kind: str) -> Subgraph:
    """Return a derivative of a subgraph, all flat; made once.

    Its "tangent" is (inputs, directions) -> (outputs, their derivatives), its "adjoint" (inputs, cotangents) -> gradients.
    """
    made = _derived.setdefault(subgraph, {})
    if kind not in made:
        trace, graph = Trace(f"{subgraph.graph.name}, {kind}"), subgraph.graph
        inputs = list(trace.input("inputs", (subgraph.size,)))
        if kind == "tangent":
            values, changes = tangents(trace, graph, inputs, list(trace.input("directions", (subgraph.size,))))
            outputs = {"values": values, "changes": changes}
        else:
            outputs = {"gradients": adjoints(trace, graph, inputs, list(trace.input("cotangents", (subgraph.entries,))))[1]}
        made[kind] = Subgraph(trace.graph(**outputs).check(), subgraph.quick)
    return made[kind]
