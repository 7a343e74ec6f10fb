"""From a function of a model's tree to a compiled kernel; the constructors of kernels share it.

Passive forces in the joints (springs, dampers, friction, stops) and applied forces on the bodies (springs, functions) are added here, so
that the formulations deal with joint forces and wrenches only. Where a force depends on time, the kernels that it enters take t as their
first argument; where a joint is driven, all kernels do, and functions of the tree have it at that time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from catena.errors import ArgumentError, ModelError
from catena.formulations.applied_forces import applied_forces
from catena.formulations.joint_forces import passive_force
from catena.graph import Graph, Port, Trace, without_collection
from catena.graph.differentiated import Chart
from catena.kernels.included import PARTS, acting
from catena.model import Mechanism, Tree
from catena.model.coordinates import PositionChart
from catena.model.parameters import inputs
from catena.model.values import coordinates
from catena.native import Kernel, compile_graph

#: Paths of numbers of a model, such as "hand.mass": inputs of its kernels after the others, which may be left out.
Parameters = str | Sequence[str]

#: Inputs and outputs along the velocity coordinates.
_ALONG_V = ("v", "tau", "vdot", "p", "pdot", "bias", "mass", "gravity_force", "coriolis_force", "passive_force", "coriolis_matrix")

#: Names of bodies: `wrenches` (bodies, 6), the moment [N m] and the force [N] at the origin of each, in the world's axes, are an input.
Bodies = str | Sequence[str]


def frozen(m: Mechanism, name: str, parameters: Parameters = (), wrenches: Bodies = (), at: Any = None) -> Mechanism:
    """Return a model as it is now, so that later changes do not matter; refuse what is not a model.

    Wrenches on the bodies that are named, and the numbers of the model that `parameters` name by path, are inputs of its kernels, after the
    others. `at` is the configuration that the kernel is made for, where one is given.
    """
    if not isinstance(m, Mechanism):
        raise ModelError(f"{name}: {m!r} is not a model; give a ct.Model")
    m = m.frozen()
    if isinstance(at, str):
        raise ArgumentError(f"{name}: at = {at!r} is a name, and a configuration is wanted; parameters are named by parameters={at!r}")
    if at is not None:
        coordinates(f"{name}: at", at, m.q_names, m.name)
    return m.varying(parameters, name, wrenches) if any(inputs(name, parameters, wrenches)) else m


def check_forces(m: Mechanism, name: str) -> None:
    """Refuse forces that only Python can call."""
    for force in m.python_forces:
        raise ModelError(
            f"{name}: force '{force.name}' is marked ct.python, and a compiled kernel cannot call it; use it in ct.simulate, "
            "or give a function that can be traced, without the mark"
        )


def traced_kernel(
    m: Mechanism,
    name: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    function: Callable[..., Any],
    method: str = "",
    references: tuple[str, ...] = (),
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    quick: bool = False,
    weld: bool = True,
) -> Kernel:
    """Return the kernel of `function(tree, *inputs)`, traced and compiled; inputs have nv entries, but t, q, and those with a shape.

    Where joints are driven, t comes before the inputs, and the function has the tree at that time. Without `weld`, bodies on fixed joints
    are bodies of their own in this tree.
    """
    started = time.perf_counter()
    graph, eager = traced_graph(m, name, inputs, outputs, function, shapes, weld)
    return graph_kernel(m, graph, method, references, time.perf_counter() - started, eager, quick)


def traced_graph(
    m: Mechanism,
    name: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    function: Callable[..., Any],
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    weld: bool = True,
) -> tuple[Graph, Callable[..., Any]]:
    """Return the graph of a function as in `traced_kernel`, and the function of numbers."""
    if m.tree().driven and inputs[0] != "t":

        def timed(tree: Tree, t: Any, *rest: Any) -> Any:
            return function(tree, *rest)

        return traced_graph(m, name, ("t", *inputs), outputs, timed, shapes, weld)
    known = {"t": (), "q": (m.nq,), **(shapes or {})}
    trace = Trace(name)
    arguments = [trace.input(i, known.get(i, (m.nv,))) for i in inputs]
    given = m.given_inputs(trace)
    trace.mark()
    with without_collection():
        results = function(m.tree_with(given, weld).traced(trace).at(arguments[0]), *arguments)

    def eager(*arrays: Any) -> Any:
        arrays = tuple(np.asarray(x, dtype=float) for x in arrays)
        tree = m.tree_with(dict(zip(m.varied, arrays[len(inputs) :], strict=False)), weld)
        return function(tree.at(arrays[0]), *arrays[: len(inputs)])

    return trace.graph(**dict(zip(outputs, results if isinstance(results, tuple) else (results,), strict=True))), eager


def graph_kernel(
    m: Mechanism,
    graph: Graph,
    method: str,
    references: tuple[str, ...],
    seconds: float,
    function: Callable[..., Any] | None = None,
    quick: bool = False,
) -> Kernel:
    """Return the kernel of a graph that was traced for a mechanism, with what it knows of coordinates."""
    return compile_graph(
        graph, method=method, references=references, trace_seconds=seconds, function=function, model=m.name,
        labels=_labels(m, (*graph.inputs, *graph.outputs)), quick=quick, charts=charts(m),
        defaults={path: m.parameters()[path].value for path in m.varied},
    )  # fmt: skip


def charts(m: Mechanism) -> dict[str, Chart]:
    """Return the directions of positions, also of those that a kernel leads to, where they are not simply the rates."""
    chart = PositionChart.of(m)
    return {} if chart is None else {"q": chart, "q_next": chart}


def _labels(m: Mechanism, ports: Sequence[Port]) -> dict[str, tuple[str, ...]]:
    """Return what the entries of inputs and outputs are, along their first axis: coordinates, bodies, joints or loops."""
    loops = tuple(closure.name for closure in m.loops)
    known = {
        "q": m.q_names, **dict.fromkeys(_ALONG_V, m.v_names), "poses": m.body_names,
        "wrenches": (*m.body_names, *loops), "error": (*loops, *(coupling.name for coupling in m.couplings)), "force": m.driven_names,
    }  # fmt: skip
    return {port.name: known[port.name] for port in ports if port.name in known and port.shape[:1] == (len(known[port.name]),)}


def dynamics_kernel(
    m: Mechanism,
    name: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    function: Callable[..., Any],
    method: str,
    references: tuple[str, ...],
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    velocities: Callable[..., Any] | None = None,
    quick: bool = False,
    parts: Collection[str] = PARTS,
) -> Kernel:
    """Return the kernel of `function(tree, *inputs, force, wrenches)`, with those passive and applied forces that are among the `parts`.

    The inputs begin with q and v; or with q and what the velocities follow from, by `velocities(tree, q, x)`.
    """
    inputs, forced = with_forces(m, name, inputs, function, velocities, parts)
    return traced_kernel(m, name, inputs, outputs, forced, method, references, shapes, quick)


def dynamics_graph(m: Mechanism, name: str, inputs: tuple[str, ...], outputs: tuple[str, ...], function: Callable[..., Any]) -> Graph:
    """Return the graph of the kernel that `dynamics_kernel` makes; nothing is compiled."""
    inputs, forced = with_forces(m, name, inputs, function)
    return traced_graph(m, name, inputs, outputs, forced)[0]


def with_forces(
    m: Mechanism,
    name: str,
    inputs: tuple[str, ...],
    function: Callable[..., Any],
    velocities: Callable[..., Any] | None = None,
    parts: Collection[str] = PARTS,
) -> tuple[tuple[str, ...], Callable[..., Any]]:
    """Return inputs and function of the tree and these, of a function that has passive and applied forces after them."""
    if "forces" in parts:
        check_forces(m, name)
    timed = m.time_dependent

    def forced(tree: Tree, *arguments: Any) -> Any:
        t, q, x, *rest = arguments if timed else (0.0, *arguments)
        v = x
        if velocities is not None:  # traced before the rest, which has them too, only if they matter
            v = velocities(tree, q, x) if tree.resists else np.zeros(tree.nv)
        force, wrenches = acting_forces(acting(tree, parts), t, q, v)
        return function(tree, q, x, *rest, force, wrenches)

    return (("t", *inputs) if timed else inputs), forced


def acting_forces(tree: Tree, t: Any, q: Any, v: Any) -> tuple[Any, Any]:
    """Return the passive and applied forces: joint forces, and wrenches on the bodies."""
    force, wrenches = applied_forces(tree, t, q, v)
    return passive_force(tree, q, v) + force, wrenches
