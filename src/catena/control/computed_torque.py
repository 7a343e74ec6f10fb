"""Control by computed torque [SS01] (37): joint forces by inverse dynamics, of an acceleration that leads back to a path."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from catena.control.paths import Point
from catena.errors import ArgumentError, ModelError
from catena.formulations.inverse import newton_euler
from catena.formulations.loops.coupled_loops import coupled_loops
from catena.formulations.loops.dependence import DependentMap
from catena.formulations.loops.partitions import CoordinatePartition, GroupPartition
from catena.graph import Scalar
from catena.kernels.included import PARTS, acting
from catena.kernels.named_coordinates import coordinates, places
from catena.kernels.reduced import reduced
from catena.kernels.tracing import acting_forces, check_forces, frozen
from catena.loops.scaling import loop_units
from catena.model import Mechanism, Tree
from catena.model.values import floats

#: What the joint forces cancel besides the inertia. Not stops and contacts: an arm beyond a stop would be pushed on through it.
CANCELLED = tuple(part for part in PARTS if part not in ("stops", "contacts"))


class ComputedTorque:
    """A controller (t, q, v) -> tau that keeps the actuated coordinates of a model on a path; `names` are theirs."""

    def __init__(
        self, m: Mechanism, path: Callable[[Any], Any], names: tuple[str, ...], at: tuple[int, ...], bandwidth: np.ndarray
    ) -> None:
        m = m.frozen()
        self.model, self.path, self.names, self.bandwidth = m, path, names, bandwidth
        self.bandwidth.setflags(write=False)
        self._at = list(at)
        self._places = places(m, self._at, "computed_torque")
        self._tree = m.tree()
        self._weights = 1.0 / np.array(loop_units(m)) ** 2
        self._partition = CoordinatePartition(tuple(self._group(loops) for loops in coupled_loops(self._tree)))

    def __repr__(self) -> str:
        return f"<ComputedTorque of {self.model.name!r} on {', '.join(self.names)}>"

    def __call__(self, t: Any, q: Any, v: Any) -> Any:
        """Return the joint forces at a time and a state that closes the loops."""
        q, v = np.asarray(q), np.asarray(v)
        trace = next((x.trace for x in (t, *q, *v) if isinstance(x, Scalar)), None)
        tree = self._tree if trace is None else self._tree.traced(trace)
        tau = self._force(tree, t, q, v)
        return tau.astype(float) if trace is None else tau

    def _force(self, tree: Tree, t: Any, q: Any, v: Any) -> Any:
        wanted = self.wanted(t)
        away, parting = q[self._places] - wanted.position, v[self._at] - wanted.rate
        acceleration = tree.vector()
        acceleration[self._at] = wanted.acceleration - 2.0 * self.bandwidth * parting - self.bandwidth**2 * away
        closed = DependentMap(tree, q, self._partition, self._weights)
        vdot = closed.accelerations(v, acceleration)
        force, wrenches = acting_forces(acting(tree, CANCELLED), t, q, v)
        return closed.on_independent(newton_euler.inverse_dynamics(tree, q, v, vdot, wrenches) - force)

    def wanted(self, t: Any) -> Point:
        """Return position, rate and acceleration of the path at a time, one for each actuated coordinate."""
        return Point(*(np.array(part, dtype=object).reshape(len(self._at)) for part in self.path(t)))

    def _group(self, loops: Any) -> GroupPartition:
        """Return a group of loops with all constraints, in which coordinates that are not actuated depend on those that are."""
        dependent = tuple(j for j in loops.columns if j not in self._at)
        return GroupPartition(loops, loops.rows, (), dependent, tuple(j for j in loops.columns if j in self._at))


def computed_torque(
    m: Mechanism, path: Callable[[Any], Any], actuated: Collection[str] | None = None, bandwidth: Any = 1.0
) -> ComputedTorque:
    """Return the controller (t, q, v) -> tau that keeps coordinates on a path, by the forces that their accelerations take [SS01] (37).

    `path(t)` gives position, rate and acceleration of the actuated coordinates, as `ct.cycloidal` and others do. `actuated` names them: of
    a mechanism with loops as many as it has degrees of freedom; without loops they are all. The forces give a coordinate x the acceleration

        path's - 2 bandwidth (rate - path's) - bandwidth^2 (x - path's),

    so that what is off the path decays as exp(-bandwidth t), whatever the mechanism. `bandwidth` [1/s] is a number, or one for each.

    They cancel gravity, Coriolis forces, springs, dampers, friction and forces from functions. Stops and contacts they never cancel: these
    push back, and the path is left there.

    >>> m = examples.four_bar()
    >>> path = ct.cycloidal(1.0, 2.0, duration=2.0)
    >>> run = ct.simulate(m, m.assemble(crank=1.1), until=2.0, controller=ct.computed_torque(m, path, ["crank"], bandwidth=10.0))
    >>> abs(run["crank"][-1] - 2.0) < 1e-6
    np.True_
    """
    m = frozen(m, "computed_torque")
    check_forces(m, "computed_torque")
    if not callable(path):
        raise ArgumentError(f"computed_torque: path {path!r} is not a function; give one of t, such as ct.cycloidal(start, end, duration)")
    if actuated is None and m.has_loops:
        raise ModelError(f"computed_torque: model '{m.name}' has loops; name the coordinates that have motors by actuated=")
    names = m.v_names if actuated is None else tuple(actuated)
    driven = coordinates(m, names if actuated is None else actuated, "computed_torque: actuated")
    if len(set(driven)) < len(driven):
        raise ModelError(f"computed_torque: actuated names a coordinate twice, of {', '.join(names)}; name each once")
    if m.has_loops:
        reduced(m, names)  # says what is wrong with them
    elif len(driven) < m.nv:
        free = ", ".join(name for name in m.v_names if name not in names)
        raise ModelError(f"computed_torque: model '{m.name}' has no loops, and {free} would move freely; name all coordinates, or none")
    wide = floats("computed_torque: bandwidth", bandwidth, "give numbers above zero [1/s]")
    if wide.shape not in ((), (len(names),)) or not (np.isfinite(wide) & (wide > 0.0)).all():
        raise ArgumentError(
            f"computed_torque: bandwidth is {wide.tolist()}; give a number above zero [1/s], or one for each of {', '.join(names)}"
        )
    point = path(0.0)
    shapes = [np.shape(part) for part in point] if isinstance(point, (tuple, list)) else []
    allowed = {(len(names),), *([()] if len(names) == 1 else [])}
    if len(shapes) != 3 or not set(shapes) <= allowed:
        raise ArgumentError(f"computed_torque: path(0.0) is {point!r}; give three: position, rate and acceleration of {', '.join(names)}")
    return ComputedTorque(m, path, names, driven, wide)
