"""The kernels behind the operators: compiled on first use, and shared by all operators of a model.

A product has two stages: the first takes the configuration, and what it holds serves the second for any number of vectors. Products with
the factors of the mass matrix share their first stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from catena.formulations import operational_space
from catena.formulations import operators as formulas
from catena.formulations.quadratic.conjugate_gradient import product
from catena.graph import Graph, Trace
from catena.graph.stages import split
from catena.model import Mechanism, Tree
from catena.native import Kernel, compile_graph
from catena.references import REFERENCES


def _factored(tree: Tree, q: Any, x: Any) -> dict[str, Any]:
    """Return the products with the factors of the mass matrix."""
    factors = formulas.factors(tree, q)
    return {
        "mass_inverse": formulas.mass_inverse(tree, factors, x),
        "mass_sqrt": formulas.root(tree, factors, x),
        "mass_sqrt_adjoint": formulas.root_transposed(tree, factors, x),
        "mass_inverse_sqrt": formulas.root_inverse_transposed(tree, factors, x),
        "mass_inverse_sqrt_adjoint": formulas.root_inverse(tree, factors, x),
    }


_FAMILIES: dict[str, Callable[..., dict[str, Any]]] = {"mass": lambda tree, q, x: {"mass": product(tree, q, x)}, "factored": _factored}


def family(product: str) -> str:
    """Return the name of the products that share a first stage with this one."""
    return "mass" if product == "mass" else "factored"


def stages(m: Mechanism, family: str) -> tuple[Graph, Graph]:
    """Return the graphs of both stages of a family, the second with an output for each product."""
    inputs = {"q": m.nq, "x": m.nv}
    return m.once("stages of operators", family, lambda: split(_traced(m, family, inputs, _FAMILIES[family]), ["q"]))


def first_stage(m: Mechanism, family: str) -> Kernel:
    """Return the kernel q -> held of a family."""
    return m.once("first stage of operators", family, lambda: _compiled(stages(m, family)[0]))


def second_stage(m: Mechanism, product: str) -> Kernel:
    """Return the kernel (held, x) -> product."""
    return m.once("second stage of operators", product, lambda: _compiled(_only(stages(m, family(product))[1], product)))


def log_det_mass(m: Mechanism) -> Kernel:
    """Return the kernel q -> logarithm of the determinant of the mass matrix."""

    def function(tree: Tree, q: Any) -> dict[str, Any]:
        return {"log_det": formulas.log_det_mass(tree, formulas.factors(tree, q))}

    return m.once("log_det_mass", (), lambda: _compiled(_traced(m, "log_det_mass", {"q": m.nq}, function)))


def operational_inverse(m: Mechanism, body: str) -> Kernel:
    """Return the kernel (q, point) -> inverse operational inertia of a point of a body."""

    def function(tree: Tree, q: Any, point: Any) -> dict[str, Any]:
        return {"inverse": operational_space.operational_inverse(tree, q, body, point)}

    inputs = {"q": m.nq, "point": 3}
    # a kind of its own for each body, so that none takes the place of another
    return m.once(("operational_inverse", body), (), lambda: _compiled(_traced(m, "operational_inverse", inputs, function)))


def _traced(m: Mechanism, name: str, inputs: dict[str, int], function: Callable[..., dict[str, Any]]) -> Graph:
    """Return the graph of a function of a model's tree and of vectors with these names and sizes."""
    trace = Trace(name)
    arguments = [trace.input(key, (size,)) for key, size in inputs.items()]
    return trace.graph(**function(m.tree().marked(trace.mark), *arguments))


def _only(graph: Graph, output: str) -> Graph:
    """Return the graph with one of its outputs, and what that needs."""
    at = [port.name for port in graph.outputs].index(output)
    return replace(graph, name=output, outputs=(graph.outputs[at],), results=(graph.results[at],)).drop_dead()


def _compiled(graph: Graph) -> Kernel:
    return compile_graph(graph, references=(REFERENCES["J91"],))
