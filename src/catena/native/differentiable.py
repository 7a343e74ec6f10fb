"""Derivatives of kernels, as kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from catena.graph import Graph, Port
from catena.graph.differentiated import Chart, adjoint_graph, jacobian_graph, named, tangent_graph


class Differentiable(ABC):
    """A kernel whose graph can be differentiated.

    Derivatives by positions q are along the velocity coordinates, one column for each entry of v: those of a quaternion are the tangents of
    `m.integrate`. With loops, they hold for changes of the state that keep these closed.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    labels: dict[str, tuple[str, ...]]
    charts: dict[str, Chart]
    _derivatives: dict[Any, Any]

    @abstractmethod
    def _derived(self, transform: Callable[[Graph, Collection[str]], Graph], labels: dict[str, tuple[str, ...]]) -> Any:
        """Return the kernel of another graph, which a function makes of this one's and of the outputs that are carried along."""

    def jacobian(self, output: str | Sequence[str], wrt: str | Sequence[str], values: bool = False, name: str = "") -> Any:
        """Return the kernel with the same inputs -> the matrix of derivatives of an output by an input, `d{output}_d{wrt}`.

        Several names of either give several matrices, those of the first output first; with `values`, the outputs come before them. The
        kernel may be given a `name`.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
        >>> ct.forward_dynamics(m).jacobian("vdot", "q")([0.0], [0.0], [0.0])
        array([[-9.81]])
        """
        outputs, names = _names(output), _names(wrt)
        for one in outputs:
            named(self.name, self.outputs, one, "output")
        self._check_inputs(names)

        def transform(graph: Graph, carried: Collection[str]) -> Graph:
            found = jacobian_graph(graph, outputs, names, self.charts, carried, values)
            return replace(found, name=name) if name else found

        return self._made(("jacobian", outputs, names, values, name), transform)

    def jvp(self, wrt: str | Sequence[str] | None = None) -> Any:
        """Return the kernel (inputs, directions d…) -> (outputs, their derivatives d… along the directions).

        There are directions of the inputs `wrt`, without it of all; they broadcast like the inputs.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"))
        >>> kernel = ct.forward_dynamics(m).jvp("tau")
        >>> kernel.signature
        '(q: 1), (v: 1), (tau: 1), (dtau: 1) -> (vdot: 1), (dvdot: 1)'
        >>> kernel([0.0], [0.0], [0.0], [2.0])
        (array([9.81]), array([2.]))
        """
        names = self._all(wrt)
        return self._made(("jvp", names), lambda graph, carried: tangent_graph(graph, names, self.charts, carried))

    def vjp(self, wrt: str | Sequence[str] | None = None) -> Any:
        """Return the kernel (inputs, cotangents …_bar of the outputs) -> gradients …_bar by the inputs `wrt`, without it by all.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
        >>> kernel = ct.forward_dynamics(m).vjp()
        >>> kernel.signature
        '(q: 1), (v: 1), (tau: 1), (vdot_bar: 1) -> (q_bar: 1), (v_bar: 1), (tau_bar: 1)'
        >>> kernel([0.0], [0.0], [0.0], [1.0])
        (array([-9.81]), array([0.]), array([1.]))
        """
        names = self._all(wrt)
        return self._made(("vjp", names), lambda graph, carried: adjoint_graph(graph, names, self.charts, carried))

    def _all(self, wrt: str | Sequence[str] | None) -> tuple[str, ...]:
        names = tuple(port.name for port in self.inputs) if wrt is None else _names(wrt)
        self._check_inputs(names)
        return names

    def _check_inputs(self, names: tuple[str, ...]) -> None:
        for name in names:
            named(self.name, self.inputs, name, "input")

    def _made(self, key: tuple, transform: Callable[[Graph, Collection[str]], Graph]) -> Any:
        if key not in self._derivatives:
            self._derivatives[key] = self._derived(transform, self._labels())
        return self._derivatives[key]

    def _labels(self) -> dict[str, tuple[str, ...]]:
        """Return the names of entries, of directions and cotangents too; along a chart they are those of velocities."""
        found = dict(self.labels)
        for port in (*self.inputs, *self.outputs):
            names = self.labels.get("v") if port.name in self.charts else self.labels.get(port.name)
            if names is not None:
                found |= {f"d{port.name}": names, f"{port.name}_bar": names}
        return found


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
