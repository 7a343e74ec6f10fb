"""Evaluation in two stages: what depends on inputs that are known first is computed once, and held for many values of the others.

`split` cuts a graph in two. A value that depends on held inputs only, and that something later needs, crosses the cut in one flat array;
numbers stay numbers on both sides. A condition does not cross, since only numbers have places: it is taken again from held numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from catena.errors import TraceError
from catena.graph.graph import Graph, Port, operands_of, renumbered
from catena.graph.operations import CONDITIONS

HELD = "held"


def split(graph: Graph, held: Collection[str]) -> tuple[Graph, Graph]:
    """Return two graphs that are the given one in turn: (held inputs) -> held, then (held, other inputs) -> outputs.

    Regions of the graph are regions of both, as far as they have nodes there.

    >>> from catena.graph import Trace
    >>> trace = Trace("wave")
    >>> phase, x = trace.input("phase"), trace.input("x")
    >>> first, second = split(trace.graph(y=np.sin(phase) * x), held=["phase"])
    >>> first.operations, second.operations
    ({'trig': 1}, {'mul': 1})
    >>> second.evaluate(*first.evaluate(0.5 * np.pi), 3.0)
    (array(3.),)
    """
    names = [port.name for port in graph.inputs]
    for name in held:
        if name not in names:
            raise TraceError(f"graph '{graph.name}': it has no input '{name}' that could be held; choose from {', '.join(names)}")
    if HELD in names and HELD not in held:
        raise TraceError(f"graph '{graph.name}': the name '{HELD}' of an input is that of what the first stage returns; rename the input")

    nodes, count = graph.nodes, len(graph.nodes)
    early = [port.name in held for port in graph.inputs for _ in range(port.size)]

    # which nodes have to wait for inputs that are not held, and which the second stage computes
    late = [False] * count
    for i, (op, *operands) in enumerate(nodes):
        if op == "input":
            late[i] = not early[operands[0]]
        elif op != "const":
            late[i] = any(late[j] for j in operands)
    second = late.copy()
    for i in reversed(range(count)):
        if second[i]:
            for j in operands_of(nodes[i]):
                second[j] = second[j] or nodes[j][0] in CONDITIONS

    # what crosses the cut: operands and results of the second stage that it does not compute, numbers aside
    wanted = [j for i in range(count) if second[i] for j in operands_of(nodes[i])]
    wanted += [i for result in graph.results for i in result]
    crossing = [i for i in dict.fromkeys(wanted) if not second[i] and nodes[i][0] != "const"]

    first_graph = replace(
        graph,
        name=f"{graph.name}, first stage",
        inputs=tuple(port for port in graph.inputs if port.name in held),
        outputs=(Port(HELD, (len(crossing),)),),
        results=(tuple(crossing),),
        nodes=_with_inputs(nodes, early, 0),
    )

    # the second stage: the held values as inputs, then its own nodes in the order they had
    at = {i: k for k, i in enumerate(crossing)}
    later: list[tuple] = [("input", k) for k in range(len(crossing))]
    before = []
    for i, node in enumerate(_with_inputs(nodes, [not known for known in early], len(crossing))):
        before.append(len(later))
        if node[0] == "const" or second[i]:
            later.append(renumbered(node, at))
            at[i] = len(later) - 1
    before.append(len(later))
    second_graph = Graph(
        name=f"{graph.name}, second stage",
        nodes=tuple(later),
        inputs=(Port(HELD, (len(crossing),)), *(port for port in graph.inputs if port.name not in held)),
        outputs=graph.outputs,
        results=tuple(tuple(at[i] for i in result) for result in graph.results),
        marks=tuple(dict.fromkeys(before[mark] for mark in graph.marks)),
    )
    return first_graph.drop_dead().check(), second_graph.drop_dead().check()


def _with_inputs(nodes: tuple[tuple, ...], chosen: list[bool], start: int) -> tuple[tuple, ...]:
    """Return the nodes with the entries of the chosen inputs counted from `start`; the others stay, for nothing reads them."""
    place = {entry: k for k, entry in enumerate((entry for entry, choose in enumerate(chosen) if choose), start)}
    return tuple(("input", place.get(node[1], node[1])) if node[0] == "input" else node for node in nodes)
