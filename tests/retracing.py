"""Every hit of a cache is made again and compared: a key that leaves out what the thing depends on is found where it serves another's.

Under `retraced`, what a cache returns is what it would return without a cache, or the test fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cached_property, partial
from types import FunctionType, MethodType
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import catena.graph.derivatives as graph_derivatives
from catena.graph import Graph, Subgraph
from catena.kernels.planned import ConstrainedKernel
from catena.model import Mechanism
from catena.model.cache import Cache
from catena.native import Iteration, Kernel
from catena.native.differentiable import Differentiable


class StaleError(AssertionError):
    """A cache returned what is not made of the same."""


@contextmanager
def retraced() -> Iterator[dict[str, int]]:
    """Make what caches return again at every hit, and compare; yield how many hits there were of each kind."""
    hits: dict[str, int] = {}
    again = threading.local()  # things that are made to compare with take others from caches as they are: these are hits of their own
    alike: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # functions of the same code and the same objects, which make the same

    def checked(kind: str, key: Any, found: Any, make: Callable[[], Any]) -> None:
        hits[kind] = hits.get(kind, 0) + 1
        origin = _origin(make)
        known = (kind, id(found), *map(id, origin))
        if getattr(again, "busy", False) or known in alike:
            return
        alike[known] = (found, *origin)  # which keeps them, and their identities
        again.busy = True
        try:
            difference = differing(found, make(), kind)
        finally:
            again.busy = False
        if difference:
            raise StaleError(f"cache '{kind}', with the key {key!r:.400}: {difference}")

    def get(self: Cache, kind: Hashable, key: Hashable, make: Callable[[], Any]) -> Any:
        made = []

        def first() -> Any:
            made.append(True)
            return make()

        found = cached(self, kind, key, first)
        if not made:
            checked(str(kind), key, found, make)
        return found

    def derived(self: Differentiable, key: tuple, transform: Any) -> Any:
        known = key in self._derivatives
        found = made(self, key, transform)
        if known:
            checked("derivative", key, found, lambda: self._derived(transform, self._labels()))
        return found

    def derivative(subgraph: Subgraph, kind: str) -> Subgraph:
        known = kind in graph_derivatives._derived.get(subgraph, {})
        found = of_subgraph(subgraph, kind)
        if known:
            checked(f"{kind} of a subgraph", subgraph, found, lambda: of_subgraph(Subgraph(subgraph.graph, subgraph.quick), kind))
        return found

    cached, made, of_subgraph = Cache.get, Differentiable._made, graph_derivatives._derivative
    with (
        mock.patch.object(Cache, "get", get),
        mock.patch.object(Differentiable, "_made", derived),
        mock.patch.object(graph_derivatives, "_derivative", derivative),
    ):
        yield hits


def _origin(make: Any) -> tuple[Any, ...]:
    """Return the code of a function, and all objects that it holds."""
    if isinstance(make, partial):
        return *_origin(make.func), *make.args, *make.keywords.values()
    if isinstance(make, MethodType):
        return *_origin(make.__func__), make.__self__
    if isinstance(make, FunctionType):
        return make.__code__, *(cell.cell_contents for cell in make.__closure__ or ())
    return (make,)


def differing(a: Any, b: Any, where: str = "it", seen: set[tuple[int, int]] | None = None) -> str:
    """Return where two things differ, in words; nothing where they are made alike."""
    seen = set() if seen is None else seen
    if a is b or (id(a), id(b)) in seen:
        return ""
    seen.add((id(a), id(b)))
    if type(a) is not type(b):
        return f"{where} is a {type(a).__name__}, made again a {type(b).__name__}"
    parts = _parts(a), _parts(b)
    if parts[0] is None or parts[1] is None:
        return "" if _equal(a, b) else f"{where} is {a!r:.200}, made again {b!r:.200}"
    if parts[0].keys() != parts[1].keys():
        return f"{where} has {list(parts[0])!r:.200}, made again {list(parts[1])!r:.200}"
    return next(filter(None, (differing(x, parts[1][name], f"{where}.{name}", seen) for name, x in parts[0].items())), "")


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return bool(a == b) or repr(a) == repr(b)  # what is not a number is equal too


def _parts(x: Any) -> Mapping[Any, Any] | None:
    """Return what a thing is made of, by name; None of what is compared as a whole."""
    if isinstance(x, Graph):
        return {"name": x.name, "inputs": x.inputs, "outputs": x.outputs, "results": x.results, "marks": x.marks, "nodes": _Nodes(x)}
    if isinstance(x, _Nodes):
        return x.parts()
    if isinstance(x, Subgraph):
        return {"graph": x.graph, "quick": x.quick}
    if isinstance(x, Kernel):
        return {name: getattr(x, name) for name in ("graph", "labels", "defaults", "charts", "model", "method", "_quick")}
    if isinstance(x, ConstrainedKernel):
        return {name: getattr(x, name) for name in ("planned", "_pivoted", "made_for", "plan", "_sound")}
    if isinstance(x, Iteration):
        return {"graph": x.graph}
    if isinstance(x, Mechanism):
        return {name: getattr(x, name) for name in ("parts", "time", "varied", "spanning")}
    if isinstance(x, np.ndarray):
        return dict(enumerate(x.ravel().tolist())) | {"shape": x.shape} if x.dtype == object else None
    if isinstance(x, Mapping):
        return x
    if isinstance(x, (list, tuple)) and not isinstance(x, _Whole):
        return dict(enumerate(x))
    if isinstance(x, FunctionType):
        cells = dict(zip(x.__code__.co_freevars, (cell.cell_contents for cell in x.__closure__ or ()), strict=True))
        return {"code": x.__code__, "defaults": x.__defaults__, **cells}
    if isinstance(x, partial):
        return {"function": x.func, "arguments": x.args, "named": x.keywords}
    if isinstance(x, MethodType):
        return {"function": x.__func__, "of": x.__self__}
    if is_dataclass(x):
        return {field.name: getattr(x, field.name) for field in fields(x)}
    if isinstance(x, Cache):
        return {}
    if type(x).__module__.startswith("catena"):
        names = [*getattr(type(x), "__slots__", ()), *getattr(x, "__dict__", ())]
        return {name: getattr(x, name) for name in names if not isinstance(getattr(type(x), name, None), cached_property)} or None
    return None


class _Nodes:
    """The nodes of a graph, with those that are systems one by one."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def parts(self) -> dict[Any, Any]:
        nodes = self.graph.nodes
        systems = {i: node[0] for i, node in enumerate(nodes) if isinstance(node[0], Subgraph)}
        return {"systems": systems, "others": _Whole([(None, *node[1:]) if i in systems else node for i, node in enumerate(nodes)])}


class _Whole(NamedTuple):
    """What is compared as a whole."""

    value: Any
