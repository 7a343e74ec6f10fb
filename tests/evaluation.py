"""Kernels whose graphs NumPy evaluates, node by node, until they are called so often that compiling them is cheaper.

Laws of formulations, plans and models are about graphs: compiling each of them took most of the time of these tests. That machine code
equals its graph is a law of its own (`test_kernel_laws.py`, `test_formulations.py`, `test_native.py`, `test_linkages.py`). Tests that are
marked `evaluated` have the kernels of this file. In tests that are marked `compiled`, and in all files without a mark, kernels are machine
code. Runs and rollouts are machine code everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from catena.graph import Graph
from catena.native import Kernel, kernel
from catena.native.llvm import machine
from catena.native.single_call import nothing

#: The evaluations of a graph that cost as much as compiling it, about.
CALLS = 60

_evaluating = False


def choose(item: pytest.Item) -> None:
    """Let a test have the kernels that its marks say."""
    evaluate(bool(item.get_closest_marker("evaluated")) and not item.get_closest_marker("compiled"))


def evaluate(on: bool) -> None:
    """Let kernels that are made from here on be evaluated, or be machine code."""
    global _evaluating
    _evaluating = on
    kernel.Kernel = EvaluatedKernel if on else Kernel


class EvaluatedKernel(Kernel):
    """A kernel whose first calls evaluate its graph.

    It becomes machine code where it is called often, or with arguments that do not fit, or by a test that is marked `compiled`.
    """

    def __init__(
        self, graph: Graph, method: str = "", references: tuple = (), trace_seconds: float = 0.0, function: Any = None, model: str = "",
        labels: Any = None, quick: bool = False, charts: Any = None, defaults: Any = None,
    ) -> None:  # fmt: skip
        self._given = graph, method, references, trace_seconds, function, model, labels, quick, charts, defaults
        self.charts, self.defaults, self._derivatives = dict(charts or {}), dict(defaults or {}), {}
        self.graph, self.name, self.inputs, self.outputs = graph, graph.name, graph.inputs, graph.outputs
        self.method, self.references, self.function, self.model, self.labels = method, references, function, model, dict(labels or {})
        self.lanes, self.seconds = machine.host().lanes, {"trace": trace_seconds, "lower": 0.0, "optimise": 0.0, "compile": 0.0}
        self._count, self._left, self._run, self._quick = len(graph.inputs), CALLS, self._evaluate, quick

    def __getattr__(self, name: str) -> Any:
        """Return what only machine code has; where graphs are evaluated, there is no text of it."""
        if name.startswith("__") or "_given" not in self.__dict__ or "ufunc" in self.__dict__:
            raise AttributeError(name)
        if _evaluating and name in ("llvm", "cached", "merged"):
            return "" if name == "llvm" else False
        self._compile()
        return getattr(self, name)

    def _compile(self) -> None:
        super().__init__(*self._given)
        self.__dict__.pop("_one", None)
        self.__dict__.pop("_one_into", None)

    def for_one_state(self, *, given: bool, flagged: bool = False) -> Any:
        return super().for_one_state(given=given, flagged=flagged) if "ufunc" in self.__dict__ else nothing

    def _evaluate(self, *arrays: Any, **named: Any) -> Any:
        self._left -= 1
        values = None if named or self._left < 0 or not _evaluating else self._values(arrays)
        if values is None:
            self._compile()
            return self._run(*arrays, **named)
        found = tuple(x if x.ndim else x[()] for x in self.graph.evaluate(*values))
        return found[0] if len(found) == 1 else found

    def _values(self, arrays: tuple) -> list[np.ndarray] | None:
        """Return the arguments as arrays, or None where they do not fit."""
        batches = []
        try:
            values = [np.asarray(x) for x in arrays]
            for x, port in zip(values, self.inputs, strict=True):
                core = x.ndim - len(port.shape)
                if x.dtype.kind not in "fiu" or core < 0 or x.shape[core:] != port.shape:
                    return None
                batches.append(x.shape[:core])
            np.broadcast_shapes(*batches)
        except (TypeError, ValueError):  # not arrays, or of axes that do not fit together: the kernel says so
            return None
        return values
