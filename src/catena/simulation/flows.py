"""The flow of a mechanism under its inputs: what integrators evaluate, traced, or called from Python.

An evaluation is a function of the tree and of arrays. Traced, it becomes a subgraph, whose code is the same in all stages of a step; where
a controller or a force must be called from Python, it becomes a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.formulations.approach import gaps
from catena.formulations.derivatives.forces import force_derivatives
from catena.formulations.derivatives.inverse_dynamics import inverse_dynamics_derivatives
from catena.formulations.force_slopes import anchored_bodies, body_and_link_slopes, link_count, opposing
from catena.formulations.joint_forces import passive_slopes
from catena.formulations.linear import articulated_body, canonical_momenta
from catena.formulations.step_laws import (
    depths,
    law_force,
    on_the_way,
    pair_count,
    separations,
    step_law,
    stop_law_slopes,
    without_one_sided,
)
from catena.graph import Subgraph, Trace, maximum, minimum
from catena.kernels.tracing import acting_forces
from catena.loops.projection import Projected, projection_kernel, projection_subgraph
from catena.model import Mechanism, Tree
from catena.model.parameters import entry_of
from catena.model.simple_joints import with_simple_joints
from catena.model.user_functions import own_array
from catena.scalars import expression
from catena.simulation.approach import within
from catena.simulation.integrators.flow import Linearised, Part

if TYPE_CHECKING:
    from catena.simulation.system import System

Array = Any


def accelerations(system: System, tree: Tree, t: Any, q: Array, v: Array, tau: Array) -> dict[str, Array]:
    """Return vdot under joint forces, without the forces that are called from Python."""
    force, wrenches = acting_forces(tree, t, q, v)
    return {"vdot": system.solve(tree, q, v, tau + force, wrenches)}


def stage(system: System, tree: Tree, t: Any, q: Array, v: Array, tau: Array) -> dict[str, Array]:
    """Return vdot like `accelerations`, without one-sided forces, which are among the joint forces."""
    return accelerations(system, without_one_sided(tree), t, q, v, tau)


def momenta(system: System, tree: Tree, t: Any, q: Array, v: Array, tau: Array) -> dict[str, Array]:
    """Return the momenta and their rates under joint forces, without the forces that are called from Python."""
    force, wrenches = acting_forces(tree, t, q, v)
    p, pdot = canonical_momenta.momentum_rates(tree, q, v, tau + force, wrenches)
    return {"p": p, "pdot": pdot}


def velocities(system: System, tree: Tree, t: Any, q: Array, p: Array) -> dict[str, Array]:
    """Return v, the velocities that belong to canonical momenta, where nothing is driven."""
    return {"v": canonical_momenta.velocities(tree.resting(), q, p)}


def linearised(system: System, tree: Tree, t: Any, q: Array, v: Array, vdot: Array) -> dict[str, Array]:
    """Return the derivatives of the joint forces of a tree by accelerations, by velocities, and by positions along velocities."""
    simple = with_simple_joints(tree)
    assert simple is not None
    _, by_q, by_v, mass = inverse_dynamics_derivatives(simple, q, v, vdot)
    force_by_q, force_by_v = force_derivatives(tree, t, q, v, system.model.rate)
    return {"mass": mass, "by_v": by_v - force_by_v, "by_q": by_q - force_by_q}


def here(system: System, tree: Tree, t: Any, q: Array) -> dict[str, Array]:
    """Return how deep the one-sided forces are entered, negative where they are apart, and the vectors between centres of spheres."""
    return {"depths": depths(tree, q)} | ({"separations": separations(tree, q)} if pair_count(tree) else {})


def ahead(system: System, tree: Tree, t: Any, q: Array, separations: Array | None) -> dict[str, Array]:
    """Return the depths at the end of a step, those on the way there at most, and at which part of the way one looks at directions."""
    end = depths(tree, q)
    deepest, middle, passing = on_the_way(tree, q, end, separations)
    return {"depths": end, "deepest": deepest, "middle": middle, "passing": passing}


def law(
    system: System, tree: Tree, t: Any, q: Array, mean: Array, here: Array, ahead: Array, deepest: Array, passing: Array, h: Any
) -> dict[str, Array]:
    """Return the linear laws of one-sided forces for a step, in which velocities are about the `mean`."""
    return {"law": step_law(tree, q, mean, here, ahead, deepest, passing, h)}


def pushes(system: System, tree: Tree, t: Any, q: Array, v: Array, law: Array, deeper: Array) -> dict[str, Array]:
    """Return the joint forces of one-sided forces by their laws, so much deeper than at the start of a step."""
    return {"force": law_force(tree, q, law, v, deeper)}


def slopes(system: System, tree: Tree, t: Any, q: Array, v: Array, law: Array | None) -> dict[str, Array]:
    """Return how fast passive forces fall with positions and velocities: of joints, actuators, and what springs, bushings, contacts hold.

    A law stands for the one-sided forces of a fixed step.
    """
    fixed = not system.stepping.adaptive
    by_position, by_velocity = passive_slopes(tree if law is None else without_one_sided(tree), q, v, fixed)
    if law is not None:
        own = stop_law_slopes(tree, q, law)
        by_position, by_velocity = by_position + own[0], by_velocity + own[1]
    if (servos := system.input.servos) is not None:
        own = servos.actuation.slopes(q, v, servos.given(t, own_array(q), own_array(v)), bounds=fixed)
        by_position, by_velocity = by_position + own[0], by_velocity + own[1]
    results = {"by_position": by_position, "by_velocity": by_velocity}
    if anchored_bodies(tree) or link_count(tree):
        bodies, along, links = body_and_link_slopes(tree, q, v, law)
        results |= {name: x for name, x in (("bodies", bodies), ("along", along), ("links", links)) if x.size}
    return results


def eased(system: System, tree: Tree, t: Any, q: Array, armature: Array, added: Array | None, force: Array) -> dict[str, Array]:
    """Return the accelerations from rest under joint forces alone, with more armature, and more inertia of anchored bodies, that keep the
    loops closed.
    """
    return {"vdot": _easing(system, tree, q, armature, added)(force)}


def responses(system: System, tree: Tree, t: Any, q: Array, armature: Array, added: Array | None, along: Array) -> dict[str, Array]:
    """Return the accelerations of the links' unit forces, eased like those of `eased`."""
    solve = _easing(system, tree, q, armature, added)
    return {"responses": np.array([solve(row) for row in along])}


def _easing(system: System, tree: Tree, q: Array, armature: Array, added: Array | None) -> Callable[[Array], Array]:
    tree = tree.resting().weightless()
    tree = replace(tree, armature=tree.armature + armature)
    if added is not None:
        tree = tree.with_added(dict(zip(anchored_bodies(tree), added, strict=True)))
    solver = system.loop_solver
    solve = articulated_body.forward_dynamics if solver is None else solver.forward_dynamics
    return lambda force: solve(tree, q, np.zeros(tree.nv), force, None)


def opposed(
    system: System, tree: Tree, t: Any, q: Array, bodies: Array, added: Array, acceleration: Array, shift: Array, rate: Array
) -> dict[str, Array]:
    """Return the joint forces by which anchored bodies resist an acceleration by more inertia, a shift and a rate by their slopes."""
    return {"force": opposing(tree.resting(), q, (added, bodies[:, 0], bodies[:, 1]), acceleration, shift, rate)}


def approach(system: System, tree: Tree, t: Any, q: Array, v: Array, vdot: Array, near: Any) -> dict[str, Any]:
    """Return the time within which no stop or contact is entered by more than a length, their gaps, and the rates of these."""
    found = gaps(tree, q, v, vdot)
    return {"within": within(found, near), "gap": found.gap, "rate": found.rate}


#: The evaluations by name, with their arguments after t and q.
EVALUATIONS = {
    "accelerations": (accelerations, ("v", "tau")), "stage": (stage, ("v", "tau")), "here": (here, ()), "ahead": (ahead, ("separations",)),
    "law": (law, ("mean", "here", "ahead", "deepest", "passing", "h")), "pushes": (pushes, ("v", "law", "deeper")),
    "momenta": (momenta, ("v", "tau")), "velocities": (velocities, ("p",)),
    "linearised": (linearised, ("v", "vdot")), "slopes": (slopes, ("v", "law")),
    "eased": (eased, ("armature", "added", "force")), "responses": (responses, ("armature", "added", "along")),
    "approach": (approach, ("v", "vdot", "near")), "opposed": (opposed, ("bodies", "added", "acceleration", "shift", "rate")),
}  # fmt: skip

#: What evaluations, and derivatives of these, depend on besides the model, its functions, the method and the plan of the loops: properties
#: of the system.
READS: dict[str, tuple[str, ...]] = dict.fromkeys(EVALUATIONS, ()) | {
    "slopes": ("looks_ahead", "adaptive", "servos"), "gradients": ("responds",), "controller": ("controls",),
}  # fmt: skip


#: The change in a position [rad or m] and a velocity by which functions that are called from Python are differentiated.
_SMALL = 1e-7


@cache
def _product(size: int) -> Subgraph:
    """Return the product of a square matrix and a vector."""
    trace = Trace("product")
    A, x = trace.input("A", (size, size)), trace.input("x", (size,))
    rows = []
    for row in A:
        trace.mark()
        rows.append(row @ x)
    return Subgraph(trace.graph(y=np.array(rows)))


class Flow:
    """What a step needs of a system, for one row of the table and set of constants: in floats, with the controller and the marked forces
    called from Python.
    """

    def __init__(self, system: System, row: dict[str, Any], constants: dict[str, Any]) -> None:
        self.model: Mechanism = system.model
        self.system, self._row, self._constants = system, row, constants
        known = system.model.parameters() if system.model.varied else {}
        numbers = {**constants, **row}
        self._given = [np.reshape(numbers[entry_of(path)], known[path].shape) for path in system.model.varied]

    def mark(self) -> None:
        """Begin a new region of the trace."""

    def time(self, t: Any) -> Any:
        """Return the time at which functions are evaluated: within the row of the table, on this side of the switches at its ends."""
        return minimum(maximum(t, self._row["t_from"][0]), self._row["t_to"][0]) if "t_from" in self._row else t

    def force(self, t: Any, q: Array, v: Array) -> Array:
        """Return the joint forces put in."""
        q, v = np.asarray(q, dtype=float), np.asarray(v, dtype=float)
        return np.asarray(self._put_in(float(t), q, v), dtype=float)

    def _put_in(self, t: Any, q: Array, v: Array) -> Array:
        with self._values():
            return self.system.input.force(self.time(t), q, v, self._row, self._constants)

    def _values(self) -> Any:
        """Return the context in which functions of the user's have the numbers of the model as they are here."""
        return expression.values(dict(zip(self.model.varied, self._given, strict=True)))

    def value(self, function: Callable[..., Any], t: Any, *arrays: Array) -> Any:
        """Return what a function of the user's gives for a time and arrays."""
        with self._values():
            return expression.settled(function(t, *map(own_array, arrays)))

    def joint_forces(self, t: Any, q: Array, v: Array) -> Array:
        """Return the joint forces put in, and those of forces that are called from Python."""
        q, v = np.asarray(q, dtype=float), np.asarray(v, dtype=float)
        tau = self.force(t, q, v)
        for applied, kernel in self.system.called:
            value = np.asarray(applied.value(self.model.nv, float(self.time(t)), q, v), dtype=float)
            tau = tau + (value if kernel is None else kernel(*((t, q) if self.model.driven_names else (q,))).T @ value)
        return tau

    def evaluate(self, name: str, *arguments: Any) -> Any:
        """Return the results of an evaluation, several as a tuple; arguments that the system does not have are None."""
        t, *rest = arguments
        return self.system.kernel(name)(*(np.asarray(x, dtype=float) for x in (self.time(t), *rest, *self._given) if x is not None))

    def named(self, name: str, *arguments: Any) -> dict[str, Any]:
        """Return the results of an evaluation by name, those that the system has."""
        results = self.evaluate(name, *arguments)
        outputs = self.system.outputs(name)
        return dict(zip(outputs, results if len(outputs) > 1 else (results,), strict=True))

    def acceleration(self, t: Any, q: Array, v: Array, pushes: Array | None = None) -> Array:
        """Return the accelerations; with `pushes` in place of the one-sided forces."""
        tau = self.joint_forces(t, q, v)
        return self.evaluate("accelerations", t, q, v, tau) if pushes is None else self.evaluate("stage", t, q, v, tau + pushes)

    def momenta(self, t: Any, q: Array, v: Array) -> tuple[Array, Array]:
        """Return the canonical momenta p, and dp/dt."""
        return self.evaluate("momenta", t, q, v, self.joint_forces(t, q, v))

    def linearised(self, t: Any, q: Array, v: Array, a: Array) -> Linearised:
        """Return how the accelerations a of a state change with it."""
        if self.system.recursive:
            inertia, damping, stiffness = self.evaluate("linearised", t, q, v, a)
            response = None
        else:
            vdot = self.named("gradients", t, q, v, self.joint_forces(t, q, v))
            inertia, damping, stiffness = np.eye(self.model.nv), -vdot["dvdot_dv"], -vdot["dvdot_dq"]
            response = vdot.get("dvdot_dtau")
        put_in = self.force_gradients(t, q, v)
        if put_in is not None:
            by_q, by_v = (by if response is None else response @ by for by in put_in)
            damping, stiffness = damping - by_v, stiffness - by_q
        return Linearised(inertia, damping, stiffness)

    def force_gradients(self, t: Any, q: Array, v: Array) -> Sequence[Array] | None:
        """Return the derivatives of `joint_forces` by positions along velocities, and by velocities; None where they do not change."""
        if self.system.input.controller is None and not self.system.called:
            return None
        if not self.system.input.in_python:
            return self.evaluate("controller", t, q, v)
        force, units = self.joint_forces(t, q, v), _SMALL * np.eye(self.model.nv)
        by_q = [self.joint_forces(t, self.model.integrate(q, unit), v) - force for unit in units]
        by_v = [self.joint_forces(t, q, v + unit) - force for unit in units]
        return [np.transpose(by) / _SMALL for by in (by_q, by_v)]

    def project(self, t: Any, q: Array, v: Array) -> Projected | None:
        """Return the state nearest to (q, v) that meets the constraints, with their conditioning; or None where there are none."""
        solver = self.system.loop_solver
        return None if solver is None else Projected(*self._projected((self.model, solver.method, solver.loop_plan), t, q, v))

    def _projected(self, of: tuple[Any, ...], t: Any, q: Array, v: Array) -> Any:
        return projection_kernel(*of)(self.time(t), np.asarray(q, dtype=float), np.asarray(v, dtype=float), *self._given)

    def solved(self, A: Array, B: Array) -> Array:
        """Return A^-1 B, two matrices; not numbers where A is singular, as machine code has it."""
        try:
            return np.linalg.solve(np.asarray(A, dtype=float), np.asarray(B, dtype=float))
        except np.linalg.LinAlgError:  # the step is not solved
            return np.full(np.shape(B), np.nan)

    def product(self, A: Array, x: Array) -> Array:
        """Return A x, of a large matrix."""
        return A @ x

    def apply(self, part: Part, *arguments: Any) -> tuple[Any, ...]:
        """Return the results of a part of a step, which is code of its own."""
        return tuple(np.asarray(x, dtype=float) for x in part(self, *arguments))

    def jacobian(self, part: Part, *arguments: Any) -> Array:
        """Return the derivative of its first result by its last argument."""
        *before, x = arguments
        first = self.apply(part, *arguments)[0]
        return np.stack([(self.apply(part, *before, x + unit)[0] - first) / _SMALL for unit in _SMALL * np.eye(len(x))], axis=1)


class TracedFlow(Flow):
    """The flow in a trace, where nothing is called from Python."""

    def __init__(self, system: System, trace: Trace, row: dict[str, Any], constants: dict[str, Any]) -> None:
        super().__init__(system, row, constants)
        self._trace = trace

    def mark(self) -> None:
        self._trace.mark()

    def force(self, t: Any, q: Array, v: Array) -> Array:
        return self._put_in(t, q, v)

    joint_forces = force

    def evaluate(self, name: str, *arguments: Any) -> Any:
        t, *rest = arguments
        results = self._trace.call(self.system.subgraph(name), self.time(t), *(x for x in rest if x is not None), *self._given)
        return results[0] if len(results) == 1 else results

    def force_gradients(self, t: Any, q: Array, v: Array) -> Sequence[Array] | None:
        return None if self.system.input.controller is None else self.evaluate("controller", t, q, v)

    def _projected(self, of: tuple[Any, ...], t: Any, q: Array, v: Array) -> Any:
        return self._trace.call(projection_subgraph(*of), self.time(t), q, v, *self._given)

    def solved(self, A: Array, B: Array) -> Array:
        return self._trace.linear_system(A, B)

    def product(self, A: Array, x: Array) -> Array:
        return self._trace.call(_product(len(x)), A, x)[0]

    def apply(self, part: Part, *arguments: Any) -> tuple[Any, ...]:
        return self._called(part, arguments)

    def jacobian(self, part: Part, *arguments: Any) -> Array:
        return self._called(part, arguments, derived=True)[0]

    def _called(self, part: Part, arguments: Sequence[Any], derived: bool = False) -> tuple[Any, ...]:
        code = self.system.part(part, arguments, self._row, self._constants, derived)
        return self._trace.call(code, *arguments, *self._row.values(), *self._constants.values())
