"""Reactions: the wrench that every joint transmits, also those that close loops; and which of them are not unique."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from catena.assembly import loop_units
from catena.closed import Plans, flags, plans_of
from catena.constrained import ConstrainedKernel
from catena.formulations import METHODS
from catena.formulations.applied_forces import applied_forces
from catena.formulations.constraints import closing_wrenches, constraint_jacobian
from catena.formulations.inverse import newton_euler
from catena.formulations.partition import Closed, Partition
from catena.mobility import mobility
from catena.model import Model, Tree
from catena.native import Kernel
from catena.spatial import Rigid
from catena.tracing import acting_forces, check_forces, traced_kernel

#: What redundant constraints add to a component of a wrench is rounding below this part of the largest.
_ROUNDING = 1e-9


class WrenchKernel(ConstrainedKernel):
    """The function (q, v, tau) -> wrenches of all joints; `joints` has their names.

    >>> from catena.examples import four_bar
    >>> wrenches = ct.joint_wrenches(four_bar())
    >>> wrenches.joints
    ('crank', 'coupler', 'rocker', 'pin')
    >>> wrenches.unique[3]
    array([False,  True, False,  True, False,  True])
    """

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints: bodies in the order they were added, then loops."""
        return (*self._model.body_names, *(closure.name for closure in self._model.loops))

    @cached_property
    def unique(self) -> np.ndarray:
        """Which components of the wrenches are the same in all solutions, (joints, 6), at most configurations."""
        m = self._model
        if not m.has_loops:
            return np.ones((len(self.joints), 6), dtype=bool)
        q, still = mobility(m).q, np.zeros(m.nv)
        units = np.array(loop_units(m))
        J = np.asarray(constraint_jacobian(m.tree(), q)[1], dtype=float) / units[:, None]
        left, sizes, _ = np.linalg.svd(J)
        rank = int(np.count_nonzero(sizes > 1e-9 * sizes.max(initial=0.0)))

        def wrenches(multipliers: np.ndarray) -> np.ndarray:
            tree = m.tree(weld=False)
            return np.asarray(_wrenches(m, tree, q, still, still, closing_wrenches(m.tree(), q, multipliers), None), dtype=float)

        none = wrenches(np.zeros(len(units)))
        added = [np.abs(wrenches(own / units) - none) for own in left.T[rank:]]
        most = max((x.max() for x in added), default=0.0)
        return np.all([np.ones(none.shape, dtype=bool), *(x <= _ROUNDING * most for x in added)], axis=0)


def joint_wrenches(m: Model, method: str, described: str, solve: Callable[..., Any], references: tuple[str, ...]) -> WrenchKernel:
    """Return the kernel of all joint wrenches, with accelerations by a method."""
    check_forces(m, "joint_wrenches")
    whole, units = m.tree(weld=False), np.array(loop_units(m) if m.has_loops else [])

    def plan(q: Any) -> Plans:
        return plans_of(m, method, q) if m.has_loops else Plans((), Partition(()))

    def make(chosen: Plans) -> Kernel:
        def function(tree: Tree, *arguments: Any) -> Any:
            t, q, v, tau = arguments if m.time_dependent else (0.0, *arguments)
            force, wrenches = acting_forces(tree, t, q, v)
            flag: Any = 0.0
            closing: list[Any] = []
            if m.has_loops:
                closes = METHODS[method].closes
                assert closes is not None
                vdot = closes.forward_dynamics(tree, q, v, tau + force, wrenches, plan=chosen.dynamics).vdot
                closed = Closed(tree, q, chosen.coordinates)
                lacking = newton_euler.inverse_dynamics(tree, q, v, vdot, wrenches) - tau - force
                closing, flag = closing_wrenches(tree, q, closed.multipliers(lacking, units)), flags(m, closed, v=v)
            else:
                vdot = solve(tree, q, v, tau + force, wrenches)
            unwelded = whole.marked(tree.mark, tree.solver)
            return _wrenches(m, unwelded, q, v, vdot, closing, applied_forces(unwelded, t, q, v)[1]), flag

        inputs = ("t", "q", "v", "tau") if m.time_dependent else ("q", "v", "tau")
        return traced_kernel(m, "joint_wrenches", inputs, ("wrenches", "flags"), function, described, references)

    q = mobility(m).q if m.has_loops else m.neutral()
    return WrenchKernel(m, q, plan, make)


def _wrenches(m: Model, tree: Tree, q: Any, v: Any, vdot: Any, closing: list[Any], acting: Any) -> Any:
    """Return the wrenches of all joints of a tree whose fixed joints are joints; `closing` are those of the closures, on a and on b."""
    (loads,) = tree.columns(1)
    loads[:] = [np.zeros(6) for _ in loads] if acting is None else [np.zeros(6) if wrench is None else wrench for wrench in acting]
    for closure, on_ends in zip(tree.closures, closing, strict=True):
        for k, place, wrench in zip((closure.a, closure.b), (closure.at_a, closure.at_b), on_ends, strict=True):
            loads[k] = loads[k] + place.force(wrench)
    across = newton_euler.joint_wrenches(tree, q, v, vdot, loads)[1]
    found = []
    for link in m.links:
        k, frame = tree.frames[link.name]
        joint = frame @ Rigid(link.outer.R, link.outer.p)
        found.append(joint.inverse().force(across[k]))
    return np.stack([*found, *(on_b for _, on_b in closing)])
