"""Reactions: the wrench that every joint transmits, closing joints included, which components are unique; and driving forces."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from catena.errors import ArgumentError
from catena.formulations import METHODS
from catena.formulations.applied_forces import applied_forces
from catena.formulations.cubic import all_constraints
from catena.formulations.inverse import newton_euler
from catena.formulations.joint_forces import passive_force
from catena.formulations.kinematics import world_frames
from catena.formulations.loops.constraints import closing_wrenches, constraint_jacobian
from catena.formulations.loops.dependence import DependentMap
from catena.formulations.loops.partitions import CoordinatePartition
from catena.graph.functions import where
from catena.kernels.methods import Solution
from catena.kernels.planned import ConstrainedKernel, planned_kernel
from catena.kernels.state_flags import flags, pivoted_flags, solved_flags
from catena.kernels.tracing import acting_forces, check_forces, traced_kernel
from catena.loops.assembly import closing, loop_residuals
from catena.loops.conditioning import measures
from catena.loops.plan_library import WithCoordinates, configuration, eliminated, plan_with_coordinates
from catena.loops.scaling import coordinate_units, loop_units
from catena.model import Driven, Mechanism, Tree
from catena.model.driven_trees import undriven_slices, undriven_tree, with_driven_coordinates
from catena.model.parameters import Numbers
from catena.model.wording import choice
from catena.spatial import Rigid
from catena.tolerances import ZERO

#: In which axes wrenches of joints are given: those of the body, of the joint's frame on the body, or of the world.
AXES = ("body", "joint", "world")


class WrenchKernel(ConstrainedKernel):
    """The function (q, v, tau) -> wrenches of all joints; `joints` has their names.

    >>> from catena.examples import four_bar
    >>> wrenches = ct.joint_wrenches(four_bar())
    >>> wrenches.joints
    ('crank', 'coupler', 'rocker', 'pin')
    >>> wrenches.unique[3]
    array([False,  True, False,  True, False,  True])
    """

    axes = "body"  #: in which axes the wrenches are: "body", "joint" or "world"

    def __reduce__(self) -> tuple:
        return (*super().__reduce__(), {"axes": self.axes})

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints: bodies in the order they were added, then loops."""
        return self.labels["wrenches"]

    @cached_property
    def unique(self) -> np.ndarray:
        """Which components of the wrenches all solutions share (joints, 6), at the configuration `made_for` of the kernel's plan.

        On a branch where other constraints are redundant, other components are unique: `unique_at(q)` tells them.
        """
        return self.unique_at(self.made_for)

    def unique_at(self, q: Any, t: float | None = None) -> np.ndarray:
        """Return which components of the wrenches all solutions share (joints, 6), at positions q that close the loops.

        Where joints are driven, the positions are those of the time t [s]; that of the kernel's plan if not given.

        >>> m = ct.Model("parallelogram")
        >>> for name, x in (("left", 0.0), ("right", 1.0)):
        ...     m.add(name, ct.rod(0.3, mass=1.0), ct.Revolute("y"), at=(x, 0, 0))
        >>> m.add("coupler", ct.rod(1.0, mass=2.0), ct.Revolute("y"), parent="left", at=(0.3, 0, 0))
        >>> m.close("pin", ct.Revolute("y"), "coupler", "right", at_a=(1, 0, 0), at_b=(0.3, 0, 0))
        >>> wrenches = ct.joint_wrenches(m)
        >>> wrenches.unique[3, 3:], wrenches.unique_at([0.0, 0.0, 0.0])[3, 3:]  # flat: the force along the bars is not unique
        (array([ True, False,  True]), array([False, False,  True]))
        """
        if self._model is None:
            raise ArgumentError(
                f"{self.name}: model '{self.model}' has functions that pickle cannot carry, so that the kernel came without it; "
                "ask for what is unique where it was made"
            )
        if not self._model.has_loops:
            return np.ones((len(self.joints), 6), dtype=bool)
        m = self._model.timed(t)
        q, now = closing(m, f"{self.name}: q", q), np.zeros(m.nv)
        units = np.array(loop_units(m))
        J = np.asarray(constraint_jacobian(m.tree(), q)[1], dtype=float) * coordinate_units(m) / units[:, None]
        left, sizes, _ = np.linalg.svd(J)
        rank = int(np.count_nonzero(sizes > loop_residuals(m, q).tolerance * sizes.max(initial=1.0)))

        def wrenches(multipliers: np.ndarray) -> np.ndarray:
            tree = m.tree(weld=False)
            closing = closing_wrenches(m.tree(), q, multipliers)
            return np.asarray(_wrenches(m, tree, q, now, now, closing, None, self.axes), dtype=float)

        none = wrenches(np.zeros(len(units)))
        added = [np.abs(wrenches(own / units) - none) for own in left.T[rank:]]
        most = max((x.max() for x in added), default=0.0)
        return np.all([np.ones(none.shape, dtype=bool), *(x <= ZERO * most for x in added)], axis=0)


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
        return self.labels["force"]


def _moved(m: Mechanism, by: Solution, tree: Tree, chosen: WithCoordinates | None, t: Any, q: Any, v: Any, tau: Any) -> tuple[Any, ...]:
    """Return accelerations, the wrenches of closing joints on their bodies a and b, and flags; without plans, by pivots at run time."""
    force, wrenches = acting_forces(tree, t, q, v)
    if not m.has_loops:
        return by.function(tree, q, v, tau + force, wrenches), [], 0.0
    if chosen is None:
        solved = all_constraints.forward_dynamics(tree, q, v, tau + force, wrenches, measures=measures(m))
        return solved.vdot, closing_wrenches(tree, q, -solved.multipliers), pivoted_flags(solved, v)
    closes = METHODS[by.name].closes
    assert closes is not None
    solved = closes.forward_dynamics(tree, q, v, tau + force, wrenches, plan=chosen.plan)
    closed = DependentMap(tree, q, chosen.coordinates)
    constraint_forces = newton_euler.inverse_dynamics(tree, q, v, solved.vdot, wrenches) - tau - force
    multipliers = closed.multipliers(constraint_forces, np.array(loop_units(m)))
    moved, held = solved_flags(m, solved, tree, v, eliminated(by.name, chosen.plan)), flags(m, closed, v=v)
    return solved.vdot, closing_wrenches(tree, q, multipliers), where(moved > 0.0, moved, held)


def _kernel(kind: Any, m: Mechanism, name: str, output: str, function: Callable[..., Any], by: Solution, at: Any) -> Any:
    """Return the kernel of a kind of `function(tree, chosen, t, q, v, tau) -> output, flags`."""
    check_forces(m, name)

    def planned(chosen: WithCoordinates | None) -> Any:
        def timed(tree: Tree, *arguments: Any) -> Any:
            return function(tree, chosen, *(arguments if m.time_dependent else (0.0, *arguments)))

        return timed

    inputs = ("t", "q", "v", "tau") if m.time_dependent else ("q", "v", "tau")
    make = partial(traced_kernel, m, name, inputs, (output, "flags"), method=by.method, references=by.references)

    def plan(m: Mechanism, q: Any) -> WithCoordinates:
        return plan_with_coordinates(m, by.name, q) if m.has_loops else WithCoordinates((), CoordinatePartition(()))

    return planned_kernel(m, configuration(m, at), plan, planned, planned(None), make, kind=kind)


def joint_wrenches(m: Mechanism, by: Solution, at: Any, axes: str) -> WrenchKernel:
    """Return the kernel of all joint wrenches in some axes, with accelerations by a method."""
    if axes not in AXES:
        raise ArgumentError(f"joint_wrenches: axes are {axes!r}; {choice(axes, AXES)}")

    def function(tree: Tree, chosen: WithCoordinates | None, t: Any, q: Any, v: Any, tau: Any) -> Any:
        vdot, closing, flag = _moved(m, by, tree, chosen, t, q, v, tau)
        unwelded = m.tree_with(tree.given, weld=False).marked(tree.mark, tree.solver, tree.saddle_solver).at(t)
        return _wrenches(m, unwelded, q, v, vdot, closing, applied_forces(unwelded, t, q, v)[1], axes), flag

    kernel = _kernel(WrenchKernel, m, "joint_wrenches", "wrenches", function, by, at)
    kernel.axes = axes
    return kernel


def driving_forces(m: Mechanism, by: Solution, at: Any) -> DrivingKernel:
    """Return the kernel of what driven joints take, with accelerations by a method."""
    driven = [i for link, _, at in undriven_slices(m) if isinstance(link.joint, Driven) for i in range(at.start, at.stop)]

    def function(tree: Tree, chosen: WithCoordinates | None, t: Any, q: Any, v: Any, tau: Any) -> Any:
        vdot, closing, flag = _moved(m, by, tree, chosen, t, q, v, tau)
        free = undriven_tree(m, tree)
        q_all, v_all, vdot_all = with_driven_coordinates(m, tree, t, q, v, vdot)
        loads = _loads(tree, applied_forces(tree, t, q, v)[1], closing)
        force = newton_euler.inverse_dynamics(free, q_all, v_all, vdot_all, loads) - passive_force(free, q_all, v_all)
        return force[driven], flag

    return _kernel(DrivingKernel, m, "driving_forces", "force", function, by, at)


def _loads(tree: Tree, acting: Any, closing: list[Any]) -> list[Any]:
    """Return what acts on the bodies: wrenches from outside, if any, and those of the closing joints, on a and on b."""
    (loads,) = tree.columns(1)
    loads[:] = [np.zeros(6) for _ in loads] if acting is None else [np.zeros(6) if wrench is None else wrench for wrench in acting]
    for closure, on_ends in zip(tree.closures, closing, strict=True):
        for k, place, wrench in zip((closure.a, closure.b), (closure.at_a, closure.at_b), on_ends, strict=True):
            loads[k] = loads[k] + place.force(wrench)
    return loads


def _wrenches(m: Mechanism, tree: Tree, q: Any, v: Any, vdot: Any, closing: list[Any], acting: Any, axes: str) -> Any:
    """Return the wrenches of all joints of a tree whose fixed joints are joints; `closing` are those of the closures, on a and on b."""
    across = newton_euler.joint_wrenches(tree, q, v, vdot, _loads(tree, acting, closing))[1]
    found, numbers = [], Numbers(tree.given)  # body, frame of the joint in the canonical frame of its body, and wrench in that frame
    for link in m.links:
        k, frame = tree.frames[link.name]
        joint = frame @ numbers.pose(f"{link.name}.at_body", Rigid(link.outer.R, link.outer.p))
        found.append((k, frame, joint, joint.inverse().force(across[k])))
    for closure, loop, (_, on_b) in zip(tree.closures, m.loops, closing, strict=True):
        k, frame = tree.frames[loop.b]
        found.append((k, frame, closure.at_b, on_b))
    if axes == "joint":
        return np.stack([wrench for *_, wrench in found])
    world = world_frames(tree, q) if axes == "world" else None
    return np.stack([_turned((frame.R.T if world is None else world[k].R) @ joint.R, wrench) for k, frame, joint, wrench in found])


def _turned(R: Any, wrench: Any) -> Any:
    """Return a wrench in other axes, about the same point."""
    return np.concatenate([R @ wrench[:3], R @ wrench[3:]])
