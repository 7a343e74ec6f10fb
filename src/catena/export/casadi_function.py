"""Kernels as CasADi functions: the graph node by node in CasADi's scalars, so that CasADi differentiates what is computed here.

With loops there is a function for each plan, and a switch that takes the next one where a plan is ill-conditioned, and computes no other.
"""

from __future__ import annotations

import operator
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from catena.atomic_files import as_path, replacing
from catena.errors import ExportError
from catena.export.exported import REFUSED, Exported, argument_names, exported, package
from catena.graph import OPERATIONS, Elimination, Entry, Graph, Port, Subgraph


def export_casadi(kernel: Any, folder: str | os.PathLike[str] | None = None, *, name: str | None = None, plans: int | None = None) -> Any:
    """Return a kernel as a `casadi.Function`, and write it to a folder, if one is given, as `name.casadi` for `casadi.Function.load`.

    Arguments and results have the kernel's names. Arrays of more than two axes are stacked along the first. With loops a further result,
    `flags`, is 0 where the others are to be trusted; the plans that the kernel knows are tried in turn, at most so many as `plans`. Needs
    the package casadi.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"))
    >>> forward = ct.export_casadi(ct.forward_dynamics(m))
    >>> forward
    Function(pendulum_forward_dynamics:(q,v,tau)->(vdot) SXFunction)
    >>> float(forward(0.0, 0.0, 0.0))
    9.81
    """
    casadi = package("casadi")
    out = exported(kernel, name, plans)
    if not casadi.Function.check_name(out.name):
        raise ExportError(f"'{out.name}' is not a name for CasADi; give one without two underscores in a row that is not null, jac or hess")
    functions = [_function(casadi, out, graph, k) for k, graph in enumerate(out.graphs)]
    made = functions[0] if len(functions) == 1 else _switched(casadi, out.name, functions)
    if folder is not None:
        path = as_path(folder, ExportError) / f"{out.name}.casadi"
        with tempfile.TemporaryDirectory() as place, replacing(path, ExportError) as stream:
            file = Path(place, "function.casadi")
            made.save(str(file))
            stream.write(file.read_bytes())
    return made


def _function(casadi: Any, out: Exported, graph: Graph, k: int) -> Any:
    inputs, outputs = argument_names(graph.inputs), argument_names(graph.outputs, tuple(argument_names(graph.inputs)))
    symbols = [casadi.SX.sym(name, *_extents(port)) for port, name in zip(graph.inputs, inputs, strict=True)]
    entries = iter(_entries(casadi, graph, [x for symbol in symbols for x in symbol.T.elements()]))
    results = []
    for port in graph.outputs:
        rows, columns = _extents(port)
        flat = casadi.vertcat(*[next(entries) for _ in range(port.size)]) if port.size else casadi.SX(0, 1)
        results.append(casadi.reshape(flat, columns, rows).T)
    name = out.name if len(out.graphs) == 1 else f"{out.name}_plan{k}"
    return casadi.Function(name, symbols, results, inputs, outputs)


def _entries(casadi: Any, graph: Graph, arguments: Sequence[Any]) -> list[Any]:
    """Return the entries of all outputs of a graph, of those of its inputs."""
    operations = {name: getattr(casadi, row.casadi, None) or getattr(operator, row.casadi) for name, row in OPERATIONS.items()}
    values: list[Any] = []
    for op, *operands in graph.nodes:
        if op == "const":
            values.append(casadi.SX(operands[0]))
        elif op == "input":
            values.append(arguments[operands[0]])
        elif isinstance(op, Elimination):
            values.append(_solution(op, [values[i] for i in operands]))
        elif isinstance(op, Subgraph):
            values.append(_entries(casadi, op.graph, [values[i] for i in operands]))
        elif isinstance(op, Entry):
            values.append(values[operands[0]][op.unknown])
        else:
            values.append(operations[op](*[values[i] for i in operands]))
    return [values[i] for result in graph.results for i in result]


def _extents(port: Port) -> tuple[int, int]:
    """Return rows and columns of an argument or result."""
    if len(port.shape) < 2:
        return port.size, 1
    return port.size // port.shape[-1] if port.size else 0, port.shape[-1]


def _solution(elimination: Elimination, operands: Sequence[Any]) -> list[Any]:
    """Return the solution of a system with the zeros of a tree, by the elimination written out."""
    ends = [start + depth + 2 for start, depth in zip(elimination.starts, elimination.depth, strict=True)]
    rows = [list(operands[start:end]) for start, end in zip(elimination.starts, ends, strict=True)]
    for k in reversed(range(len(rows))):
        row, ancestor = rows[k], elimination.parent[k]
        for i in range(len(row) - 2, 0, -1):
            factor, other = row[i] / row[-1], rows[ancestor]
            rows[ancestor] = [x - factor * y for x, y in zip(other, row[: i + 1], strict=True)]
            ancestor = elimination.parent[ancestor]
    solved: list[Any] = []
    paths: list[list[Any]] = []
    for row, parent in zip(rows, elimination.parent, strict=True):
        above = paths[parent] if parent >= 0 else []
        rest = row[0]
        for entry, known in zip(row[1:-1], above, strict=True):
            rest = rest - entry * known
        solved.append(rest / row[-1])
        paths.append([*above, solved[-1]])
    return solved


def _switched(casadi: Any, name: str, functions: Sequence[Any]) -> Any:
    """Return the function that takes the results of the first function whose plan is good, or of the last."""
    inputs, outputs = functions[0].name_in(), functions[0].name_out()

    def symbols(function: Any) -> tuple[list[Any], list[Any]]:
        ins = [casadi.MX.sym(inputs[i], function.sparsity_in(i)) for i in range(function.n_in())]
        return ins, [casadi.MX.sym(outputs[i], *function.size_out(i)) for i in range(function.n_out())]

    made = functions[-1]
    for k in reversed(range(len(functions) - 1)):
        arguments, results = symbols(functions[k])
        following = casadi.Function(f"{name}_next{k}", [*arguments, *results], made.call(arguments))
        staying = casadi.Function(f"{name}_stay{k}", [*arguments, *results], results)
        choice = casadi.Function.if_else(f"{name}_choice{k}", following, staying)
        *_, flags = called = functions[k].call(arguments)
        weak = casadi.logic_and(flags > REFUSED, casadi.fmod(flags, REFUSED + 1) == 0)
        made = casadi.Function(f"{name}_from{k}" if k else name, arguments, choice.call([weak, *arguments, *called]), inputs, outputs)
    return made
