"""The constraints of a group of loops as functions of its own coordinates, for many states at once, one row each.

A few states are computed in floats, by the formulation; more by its graph, which NumPy evaluates. Machine code is made where a function is
called so often, or for so many states, that compiling it is cheaper. Which it is depends on the arguments alone: so the same arguments have
the same results, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from catena.formulations.loops.basic_constraints import closure_residual
from catena.formulations.loops.constraints import constraint_jacobian, constraint_motion
from catena.graph import Graph, Trace
from catena.loops.local_trees import Part, local_tree
from catena.model import Mechanism
from catena.model.tree import Tree
from catena.native import Kernel, compile_graph

#: States up to which floats are faster than a graph that has to be traced first.
_FEW = 3

#: Nodes of a graph times states above which machine code is made.
_MANY = 1_000_000


class ConstraintFunctions:
    """The constraints of a local tree, which is a part of that of a model. Results have units."""

    def __init__(self, m: Mechanism, part: Part, tree: Tree) -> None:
        self._model, self._part, self.tree = m, part, tree

    def residual(self, q: np.ndarray, often: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the closure residual and its Jacobian at positions (N, nq), by machine code where it is computed `often`.

        Of a mechanism that varies some of its numbers, these may follow the positions: each row is then of its own geometry.
        """
        if self.tree.driven:  # every time is a model of its own, for which no graph is traced
            return self._by_floats(_residual, q)
        given = self._split(q)
        if often or len(q) * len(self._residual.nodes) > _MANY:
            return self._residual_kernel(*given)
        return self._residual.evaluate(*given)  # type: ignore[return-value]

    def residual_at(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the closure residual and its Jacobian at positions (N, nq) that are looked at once."""
        return self._by_floats(_residual, q) if self._few(q) else self.residual(q)

    def jacobian_at(self, q: np.ndarray) -> np.ndarray:
        """Return the Jacobian of the constraints at positions (N, nq)."""
        return self._by_floats(constraint_jacobian, q)[1] if self._few(q) else self._jacobian.evaluate(q)[0]

    def motion_at(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rates of the constraints at states (N, nq), (N, nv), and the right-hand sides of their accelerations."""
        return self._by_floats(constraint_motion, q, v) if self._few(q) else self._motion.evaluate(q, v)  # type: ignore[return-value]

    def _few(self, q: np.ndarray) -> bool:
        return self.tree.driven or len(q) <= _FEW

    def _by_floats(self, function: Callable[..., Any], *states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second = zip(*(function(self.tree, *state) for state in zip(*states, strict=True)), strict=True)
        return np.array(first, dtype=float), np.array(second, dtype=float)

    def _split(self, q: np.ndarray) -> Sequence[np.ndarray]:
        """Return positions and the numbers of a geometry, the model's own where there are none."""
        if not self._model.varied:
            return [q]
        known = [self._model.parameters()[path].value for path in self._model.varied]
        if q.shape[1] == self.tree.nq:
            return [q, *known]
        parts = np.split(q, np.cumsum([self.tree.nq, *(value.size for value in known)])[:-1], axis=1)
        return [parts[0], *(part.reshape(len(q), *value.shape) for part, value in zip(parts[1:], known, strict=True))]

    @cached_property
    def _residual(self) -> Graph:
        trace = Trace("closure residual")
        q, given = trace.input("q", (self.tree.nq,)), self._model.given_inputs(trace)
        tree = local_tree(self._model.tree_with(given), self._part) if given else self.tree
        values, J = _residual(tree.marked(trace.mark, trace.solve), q)
        return trace.graph(values=values, jacobian=J)

    @cached_property
    def _residual_kernel(self) -> Kernel:
        return compile_graph(self._residual)

    @cached_property
    def _jacobian(self) -> Graph:
        trace = Trace("constraint Jacobian")
        q = trace.input("q", (self.tree.nq,))
        return trace.graph(jacobian=constraint_jacobian(self.tree.marked(trace.mark, trace.solve), q)[1])

    @cached_property
    def _motion(self) -> Graph:
        trace = Trace("constraint motion")
        q, v = trace.input("q", (self.tree.nq,)), trace.input("v", (self.tree.nv,))
        rates, right = constraint_motion(self.tree.marked(trace.mark, trace.solve), q, v)
        return trace.graph(rates=rates, right=right)


def _residual(tree: Tree, q: Any) -> tuple[Any, Any]:
    return constraint_jacobian(tree, q, closure_residual)
