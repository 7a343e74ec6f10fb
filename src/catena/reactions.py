"""Reactions: the wrench that every joint transmits, also those that close loops, and which of them are not unique; what driving takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from catena.assembly import loop_units
from catena.closed import Plans, flags, plans_of
from catena.constrained import ConstrainedKernel
from catena.formulations import METHODS
from catena.formulations.applied_forces import applied_forces
from catena.formulations.constraints import closing_wrenches, constraint_jacobian
from catena.formulations.inverse import newton_euler
from catena.formulations.joint_forces import passive_force
from catena.formulations.partition import Closed, Partition
from catena.mobility import mobility, usual
from catena.model import Driven, Model, Tree
from catena.model.releasing import free_slices, free_tree, with_driven
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
        if not self._model.has_loops:
            return np.ones((len(self.joints), 6), dtype=bool)
        found = mobility(self._model)
        m, q, still = self._model.at(found.t), found.q, np.zeros(self._model.nv)
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


class DrivingKernel(ConstrainedKernel):
    """The function (t, q, v, tau) -> what driven joints take, along the coordinates in `names`.

    >>> m = ct.Model("slide")
    >>> m.add("cart", ct.point_mass(2.0), ct.Driven(ct.Prismatic("x"), lambda t: t**2))
    >>> force = ct.driving_forces(m)
    >>> force.names, force(0.0, [], [], [])
    (('cart',), array([4.]))
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates that are driven."""
        return self._model.driven_names


class _Moved(NamedTuple):
    """A state solved: accelerations, the wrenches of closing joints on their bodies a and b, and the flags of the state."""

    vdot: Any
    closing: list[Any]
    flag: Any


def _plan(m: Model, method: str, q: Any) -> Plans:
    """Return the plans of a method for a configuration, which are none where there are no loops."""
    return plans_of(m, method, q) if m.has_loops else Plans((), Partition(()))


def _moved(m: Model, tree: Tree, method: str, solve: Callable[..., Any], chosen: Plans, t: Any, q: Any, v: Any, tau: Any) -> _Moved:
    """Return how a mechanism moves under joint forces, and what that takes in the joints that close its loops."""
    force, wrenches = acting_forces(tree, t, q, v)
    if not m.has_loops:
        return _Moved(solve(tree, q, v, tau + force, wrenches), [], 0.0)
    closes = METHODS[method].closes
    assert closes is not None
    vdot = closes.forward_dynamics(tree, q, v, tau + force, wrenches, plan=chosen.dynamics).vdot
    closed = Closed(tree, q, chosen.coordinates)
    lacking = newton_euler.inverse_dynamics(tree, q, v, vdot, wrenches) - tau - force
    multipliers = closed.multipliers(lacking, np.array(loop_units(m)))
    return _Moved(vdot, closing_wrenches(tree, q, multipliers), flags(m, closed, v=v))


def _kernel(kind: Any, m: Model, name: str, output: str, function: Callable[..., Any], method: str, *described: Any) -> Any:
    """Return the kernel of a kind of `function(tree, chosen, t, q, v, tau) -> output, flags`."""
    check_forces(m, name)

    def make(chosen: Plans) -> Kernel:
        def timed(tree: Tree, *arguments: Any) -> Any:
            return function(tree, chosen, *(arguments if m.time_dependent else (0.0, *arguments)))

        inputs = ("t", "q", "v", "tau") if m.time_dependent else ("q", "v", "tau")
        return traced_kernel(m, name, inputs, (output, "flags"), timed, *described)

    return kind(m, usual(m), lambda m, q: _plan(m, method, q), make)


def joint_wrenches(m: Model, method: str, described: str, solve: Callable[..., Any], references: tuple[str, ...]) -> WrenchKernel:
    """Return the kernel of all joint wrenches, with accelerations by a method."""
    whole = m.tree(weld=False)

    def function(tree: Tree, chosen: Plans, t: Any, q: Any, v: Any, tau: Any) -> Any:
        vdot, closing, flag = _moved(m, tree, method, solve, chosen, t, q, v, tau)
        unwelded = whole.marked(tree.mark, tree.solver).at(t)
        return _wrenches(m, unwelded, q, v, vdot, closing, applied_forces(unwelded, t, q, v)[1]), flag

    return _kernel(WrenchKernel, m, "joint_wrenches", "wrenches", function, method, described, references)


def driving_forces(m: Model, method: str, described: str, solve: Callable[..., Any], references: tuple[str, ...]) -> DrivingKernel:
    """Return the kernel of what driven joints take, with accelerations by a method."""
    whole = free_tree(m)
    driven = [i for link, _, at in free_slices(m) if isinstance(link.joint, Driven) for i in range(at.start, at.stop)]

    def function(tree: Tree, chosen: Plans, t: Any, q: Any, v: Any, tau: Any) -> Any:
        vdot, closing, flag = _moved(m, tree, method, solve, chosen, t, q, v, tau)
        free = whole.marked(tree.mark, tree.solver)
        q_all, v_all, vdot_all = with_driven(m, t, q, v, vdot)
        loads = _loads(tree, applied_forces(tree, t, q, v)[1], closing)
        force = newton_euler.inverse_dynamics(free, q_all, v_all, vdot_all, loads) - passive_force(free, q_all, v_all)
        return force[driven], flag

    return _kernel(DrivingKernel, m, "driving_forces", "force", function, method, described, references)


def _loads(tree: Tree, acting: Any, closing: list[Any]) -> list[Any]:
    """Return what acts on the bodies: wrenches from outside, if any, and those of the closing joints, on a and on b."""
    (loads,) = tree.columns(1)
    loads[:] = [np.zeros(6) for _ in loads] if acting is None else [np.zeros(6) if wrench is None else wrench for wrench in acting]
    for closure, on_ends in zip(tree.closures, closing, strict=True):
        for k, place, wrench in zip((closure.a, closure.b), (closure.at_a, closure.at_b), on_ends, strict=True):
            loads[k] = loads[k] + place.force(wrench)
    return loads


def _wrenches(m: Model, tree: Tree, q: Any, v: Any, vdot: Any, closing: list[Any], acting: Any) -> Any:
    """Return the wrenches of all joints of a tree whose fixed joints are joints; `closing` are those of the closures, on a and on b."""
    across = newton_euler.joint_wrenches(tree, q, v, vdot, _loads(tree, acting, closing))[1]
    found = []
    for link in m.links:
        k, frame = tree.frames[link.name]
        joint = frame @ Rigid(link.outer.R, link.outer.p)
        found.append(joint.inverse().force(across[k]))
    return np.stack([*found, *(on_b for _, on_b in closing)])
