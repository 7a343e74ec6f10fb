"""Public constructors of kernels.

Each function traces its formulation on the model's tree, compiles the graph and returns a `Kernel`, or a `ConstrainedKernel` where the
model has loops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.formulations import METHODS
from catena.formulations.contact import contact_forces as _contact_forces
from catena.formulations.inverse import newton_euler
from catena.formulations.joint_forces import energy as _energy
from catena.formulations.kinematics import velocities as body_velocities
from catena.formulations.kinematics import world_frames
from catena.formulations.loops.basic_constraints import closure_residual
from catena.formulations.loops.constraints import constraint_jacobian
from catena.graph import Graph, Trace
from catena.graph.functions import maximum
from catena.graph.stages import split
from catena.kernels import loop_dynamics as closed
from catena.kernels import reactions
from catena.kernels.included import Include, included, moving
from catena.kernels.iterative import IterativeKernel
from catena.kernels.methods import Solution, solution
from catena.kernels.named_coordinates import coordinates
from catena.kernels.planned import ConstrainedKernel
from catena.kernels.tracing import Bodies, Parameters, dynamics_graph, dynamics_kernel, frozen, traced_kernel
from catena.loops.scaling import loop_owners
from catena.model import Mechanism, Tree
from catena.model.driven_trees import undriven_tree, with_driven_coordinates
from catena.native import Kernel, compile_graph
from catena.references import REFERENCES


def forward_dynamics(
    m: Mechanism, method: str = "auto", at: Any = None, parameters: Parameters = (), wrenches: Bodies = ()
) -> Kernel | IterativeKernel | ConstrainedKernel:
    """Return the kernel (q, v, tau) -> vdot: the accelerations of the mechanism under joint forces tau.

    Gravity, the joints' own springs, dampers, friction and stops, and the model's springs and forces act in addition to tau. Where a
    force depends on time or a joint is driven (`m.time_dependent`), the kernel is (t, q, v, tau) -> vdot.

    With loops the code is made for the configuration `at` (nq), which closes them, or for a generic one: states at which the choice of
    dependent coordinates that is good there does not hold are right as well, and take longer.

    Where `wrenches` names bodies, a further input `wrenches` (bodies, 6) has the moment [N m] and the force [N] at the origin of each, in
    the world's axes; then come the numbers of the model that `parameters` names, by the paths of `m.parameters`. All of these may be left
    out of a call: wrenches are zero then, and numbers those of the model.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"))
    >>> ct.forward_dynamics(m)([0.0], [0.0], [0.0])
    array([9.81])
    >>> ct.forward_dynamics(m, wrenches="arm")([0.0], [0.0], [0.0], wrenches=[[0, -9.81, 0, 0, 0, 0]])
    array([0.])
    """
    m = frozen(m, "forward_dynamics", parameters, wrenches, at)
    by = solution("forward_dynamics", method, m)
    if METHODS[by.name].iterates:
        return _iterative(m, by)
    if m.has_loops:
        return closed.forward_dynamics(m, by, at)
    return dynamics_kernel(m, "forward_dynamics", ("q", "v", "tau"), ("vdot",), _of_tree(by), by.method, by.references)


def forward_dynamics_graph(m: Mechanism) -> tuple[str, Graph]:
    """Return the method and the graph of the kernel that `forward_dynamics` makes; nothing is compiled."""
    m = frozen(m, "forward_dynamics")
    by = solution("forward_dynamics", "auto", m)
    if m.has_loops:
        return by.method, closed.forward_dynamics_graph(m, by)
    return by.method, dynamics_graph(m, "forward_dynamics", ("q", "v", "tau"), ("vdot",), _of_tree(by))


def _of_tree(by: Solution) -> Callable[..., Any]:
    def function(tree: Tree, q: Any, v: Any, tau: Any, force: Any, wrenches: Any) -> Any:
        return by.function(tree, q, v, tau + force, wrenches)

    return function


def _iterative(m: Mechanism, by: Solution) -> IterativeKernel:
    """Return forward dynamics by conjugate gradients on compiled products."""

    def right(tree: Tree, q: Any, v: Any, tau: Any, force: Any, wrenches: Any) -> Any:
        return tau + force - newton_euler.bias_force(tree, q, v, wrenches)

    kernel = dynamics_kernel(m, "forward_dynamics", ("q", "v", "tau"), ("vdot",), right, by.method, by.references)
    direct: Any = partial(forward_dynamics, m, "articulated-body")
    return IterativeKernel(direct, kernel, *(staged(m, part.__name__, part) for part in METHODS[by.name].iterates))


def staged(m: Mechanism, name: str, function: Callable[..., Any]) -> tuple[Kernel, Kernel]:
    """Return `function(tree, q, x)` as two kernels: q -> what depends on q alone, and that with x -> the result; driven, (t, q) for q."""
    trace = Trace(name)
    held = ("t", "q") if m.tree().driven else ("q",)
    *t, q = (trace.input(name, () if name == "t" else (m.nq,)) for name in held)
    given = m.given_inputs(trace)
    tree, x = m.tree_with(given).marked(trace.mark), trace.input("x", (m.nv,))
    first, second = split(trace.graph(result=function(tree.at(*t) if t else tree, q, x)), (*held, *given))
    return compile_graph(first), compile_graph(second)


def inverse_dynamics(
    m: Mechanism,
    method: str = "auto",
    actuated: Collection[str] | None = None,
    at: Any = None,
    parameters: Parameters = (),
    wrenches: Bodies = (),
    include: Include = None,
) -> Kernel | ConstrainedKernel:
    """Return the kernel (q, v, vdot) -> tau: the joint forces that give the accelerations vdot.

    Passive and applied forces count as in `forward_dynamics`, stops and contacts among them; where a force depends on time or a joint is
    driven, the kernel is (t, q, v, vdot) -> tau. `include` names what counts besides M vdot, as in `bias_force`.

    With loops `actuated` names the coordinates that motors act on, without it all; tau is zero on the others. Where there are more of them
    than degrees of freedom, tau is the one of least norm. vdot must keep the loops closed, as `ct.reduced(m).accelerations` does.
    `at` is as in `forward_dynamics`; whether the motors hold the mechanism is decided there.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"))
    >>> ct.inverse_dynamics(m)([0.0], [0.0], [0.0])
    array([-9.81])
    >>> from catena.examples import four_bar
    >>> m = four_bar()
    >>> tau = ct.inverse_dynamics(m, actuated=["crank"])(m.assemble(crank=1.0), np.zeros(3), np.zeros(3))
    >>> tau.round(3)
    array([-6.584,  0.   ,  0.   ])
    """
    m = frozen(m, "inverse_dynamics", parameters, wrenches, at)
    parts = included(m, "inverse_dynamics", include)
    by = solution("inverse_dynamics", method, m)
    by = by._replace(function=moving(by.function, parts))
    if m.has_loops:
        return closed.inverse_dynamics(m, actuated, by, at, parts)
    moved = m.v_names if actuated is None else [m.v_names[i] for i in coordinates(m, actuated, "inverse_dynamics: actuated")]
    if set(m.v_names) - set(moved):
        free = ", ".join(name for name in m.v_names if name not in moved)
        raise ModelError(f"inverse_dynamics: model '{m.name}' has no loops, and {free} would move freely; leave actuated= out")

    def function(tree: Tree, q: Any, v: Any, vdot: Any, force: Any, wrenches: Any) -> Any:
        return by.function(tree, q, v, vdot, wrenches) - force

    return dynamics_kernel(m, "inverse_dynamics", ("q", "v", "vdot"), ("tau",), function, by.method, by.references, parts=parts)


def mass_matrix(m: Mechanism, method: str = "auto", parameters: Parameters = ()) -> Kernel:
    """Return the kernel q -> mass matrix (nv, nv), armatures included; where a joint is driven, (t, q) -> mass matrix.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(2.0, at=(0.5, 0, 0)), ct.Revolute("y", armature=0.1))
    >>> ct.mass_matrix(m)([0.0])
    array([[0.6]])
    """
    m = frozen(m, "mass_matrix", parameters)
    _, name, solve, references = solution("mass_matrix", method, m)
    return traced_kernel(m, "mass_matrix", ("q",), ("mass",), solve, name, references)


def momenta(m: Mechanism, parameters: Parameters = ()) -> Kernel:
    """Return the kernel (q, v) -> p: the canonical momenta, mass matrix times v.

    Where joints are driven, the kernel is (t, q, v) -> p, and p has the momenta of what they move besides.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(2.0, at=(1, 0, 0)), ct.Revolute("y"))
    >>> ct.momenta(m)([0.0], [3.0])
    array([6.])
    """
    m = frozen(m, "momenta", parameters)
    _, name, solve, references = solution("momenta", "auto", m)
    return traced_kernel(m, "momenta", ("q", "v"), ("p",), solve, name, (*references, REFERENCES["NLT03"]))


def velocities(m: Mechanism, at: Any = None, parameters: Parameters = ()) -> Kernel | ConstrainedKernel:
    """Return the kernel (q, p) -> v: the velocities that belong to the canonical momenta p, without the mass matrix.

    With loops v keeps these closed, whatever p is: momenta that differ by what the constraints can take up have the same velocities. Where
    joints are driven, the kernel is (t, q, p) -> v. `at` is as in `forward_dynamics`.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(2.0, at=(1, 0, 0)), ct.Revolute("y"))
    >>> ct.velocities(m)([0.0], [6.0])
    array([3.])
    """
    m = frozen(m, "velocities", parameters, at=at)
    by = solution("velocities", "auto", m)
    if m.has_loops:
        return closed.velocities(m, by, at)
    return traced_kernel(m, "velocities", ("q", "p"), ("v",), by.function, by.method, by.references)


def hamiltonian_dynamics(m: Mechanism, at: Any = None, parameters: Parameters = (), wrenches: Bodies = ()) -> Kernel | ConstrainedKernel:
    """Return the kernel (q, p, tau) -> (v, pdot): Hamilton's equations, under joint forces tau.

    p are the canonical momenta of `ct.momenta`, conjugate to v; those of `Spherical` and `Free` joints belong to rates that are no
    derivatives of coordinates, and their pdot has the terms of Euler's equations. Passive and applied forces count as in
    `forward_dynamics`; where a force depends on time or a joint is driven, the kernel is (t, q, p, tau) -> (v, pdot).

    With loops the constraints hold at the level of velocities: v keeps them closed, and p is M v and the impulses that they have taken up.
    Integrated, p leaves M v, and M v may take its place at any time. `at` is as in `forward_dynamics`.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(2.0, at=(1, 0, 0)), ct.Revolute("y"))
    >>> ct.hamiltonian_dynamics(m)([0.0], [6.0], [0.0])
    (array([3.]), array([19.62]))
    """
    m = frozen(m, "hamiltonian_dynamics", parameters, wrenches, at)
    by = solution("hamiltonian_dynamics", "auto", m)
    if m.has_loops:
        return closed.hamiltonian_dynamics(m, by, at)
    velocities = solution("velocities", "auto", m).function

    def function(tree: Tree, q: Any, p: Any, tau: Any, force: Any, wrenches: Any) -> Any:
        return by.function(tree, q, p, tau + force, wrenches)

    inputs, outputs = ("q", "p", "tau"), ("v", "pdot")
    return dynamics_kernel(m, "hamiltonian_dynamics", inputs, outputs, function, by.method, by.references, velocities=velocities)


def energy(m: Mechanism, parameters: Parameters = ()) -> Kernel:
    """Return the kernel (q, v) -> (kinetic, potential) energy [J]; gravity's potential is 0 at the world's origin.

    The potential is that of gravity, of springs in and outside of the joints, of stops, bushings and contacts; forces from functions have
    none. Where a joint is driven, the kernel is (t, q, v) -> (kinetic, potential), with what that joint and its rotor hold.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(2.0, at=(0, 0, 1)), ct.Revolute("y"))
    >>> [float(e) for e in ct.energy(m)([0.0], [1.0])]
    [1.0, 19.62]
    """
    m = frozen(m, "energy", parameters)
    if not m.driven_names:
        return traced_kernel(m, "energy", ("q", "v"), ("kinetic", "potential"), _energy)

    def function(tree: Tree, t: Any, q: Any, v: Any) -> Any:
        q, v, _ = with_driven_coordinates(m, tree, t, q, v, v)
        return _energy(undriven_tree(m, tree), q, v)

    return traced_kernel(m, "energy", ("t", "q", "v"), ("kinetic", "potential"), function)


def contact_forces(m: Mechanism, parameters: Parameters = ()) -> Kernel:
    """Return the kernel (q, v) -> (contacts, 3): the force of each contact on its body [N], in the world's axes, as `m.contacts` are.

    It is the sum over the points that touch. Where a joint is driven, the kernel is (t, q, v) -> force.

    >>> m = ct.Model("ball")
    >>> m.add("ball", ct.sphere(0.1, mass=2.0), ct.Free())
    >>> m.add_contact("floor", "ball", stiffness=1e4)
    >>> ct.contact_forces(m)([0, 0, 0.099, 1, 0, 0, 0], np.zeros(6)).round(6) + 0.0
    array([[ 0.,  0., 10.]])
    """
    m = frozen(m, "contact_forces", parameters)
    if not m.contacts:
        raise ModelError(f"contact_forces: model '{m.name}' has no contact; add one by m.add_contact")

    def function(tree: Tree, q: Any, v: Any) -> Any:
        return np.array([sum((f for f, _ in points), np.zeros(3)) for points in _touching(tree, q, v)])

    return traced_kernel(m, "contact_forces", ("q", "v"), ("forces",), function)


def contact_points(m: Mechanism) -> Kernel:
    """Return the kernel (q, v) -> (points, 2, 3): where each point of a contact is that may touch, and the force on it [N], in the world.

    Points are in the order of `m.contacts`. Where a joint is driven, the kernel is (t, q, v) -> points.
    """

    def function(tree: Tree, q: Any, v: Any) -> Any:
        return np.array([(place, force) for points in _touching(tree, q, v) for force, place in points])

    return traced_kernel(frozen(m, "contact_points"), "contact_points", ("q", "v"), ("points",), function)


def _touching(tree: Tree, q: Any, v: Any) -> list[list[tuple[Any, Any]]]:
    """Return the forces of the points of each contact, and their places."""
    _, _, V = body_velocities(tree, q, v)
    frames = world_frames(tree, q)
    return [list(_contact_forces(tree, contact, frames, V)) for contact in tree.contacts]


def loop_error(m: Mechanism, parameters: Parameters = ()) -> Kernel:
    """Return the kernel q -> how far each loop and coupling is from being closed, in the order of `m.loops`, then `m.couplings`.

    The largest entry of the closure residual: lengths [m], and differences of directions, which are angles [rad]
    where they are small. Where a joint is driven, the kernel is (t, q) -> error.

    >>> m = ct.Model("gears")
    >>> m.add("small", ct.cylinder(0.05, 0.1, mass=1.0), ct.Revolute("z"))
    >>> m.add("large", ct.cylinder(0.05, 0.2, mass=4.0), ct.Revolute("z"), at=(0.3, 0, 0))
    >>> m.couple("mesh", {"small": 1.0, "large": 2.0})
    >>> ct.loop_error(m)([[0.5, -0.25], [0.5, 0.0]])
    array([[0. ],
           [0.5]])
    """
    m = frozen(m, "loop_error", parameters)
    if not m.has_loops:
        raise ModelError(f"loop_error: model '{m.name}' has no loops; close one by m.close, or couple coordinates by m.couple")
    owners = loop_owners(m)

    def function(tree: Tree, q: Any) -> Any:
        values, _ = constraint_jacobian(tree, q, closure_residual)
        errors: list[Any] = [0.0] * (max(i for i, _ in owners) + 1)
        for value, (i, unit) in zip(values, owners, strict=True):
            errors[i] = maximum(errors[i], abs(value) * (1.0 / unit))
        return np.array(errors, dtype=object)

    return traced_kernel(m, "loop_error", ("q",), ("error",), function)


def joint_wrenches(
    m: Mechanism, method: str = "auto", at: Any = None, parameters: Parameters = (), wrenches: Bodies = (), axes: str = "body"
) -> reactions.WrenchKernel:
    """Return the kernel (q, v, tau) -> (joints, 6): what each joint transmits, (moment [N m], force [N]).

    The joints are those of the bodies in the order they were added, then those that close loops, in the order of `m.loops`. A wrench is
    that of the parent on the body, for a closing joint that of body a on body b, about the joint's point on it. `axes` says in which axes:
    "body", those of that body's frame; "joint", those of the joint's frame on the body, `at_body` or `at_b`; or "world". What drives or
    loads the joint is part of it. Where constraints are redundant, some reactions are a matter of how stiff the parts are, and not unique
    for rigid ones: the solution of least norm is given. `unique` (joints, 6) says which components all solutions share at the
    configuration `at`, which is as in `forward_dynamics`; on other branches these may be others, which `unique_at(q)` tells. Where a force
    depends on time or a joint is driven, the kernel is (t, q, v, tau) -> (joints, 6).

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(2.0, at=(1, 0, 0)), ct.Revolute("y"))
    >>> ct.joint_wrenches(m)([np.pi / 2], [3.0], [0.0]).round(3) + 0.0
    array([[  0.  ,   0.  ,   0.  , -37.62,   0.  ,   0.  ]])
    """
    m = frozen(m, "joint_wrenches", parameters, wrenches, at)
    return reactions.joint_wrenches(m, solution("forward_dynamics", method, m, traced=True), at, axes)


def driving_forces(
    m: Mechanism, method: str = "auto", at: Any = None, parameters: Parameters = (), wrenches: Bodies = ()
) -> reactions.DrivingKernel:
    """Return the kernel (t, q, v, tau) -> force: what it takes to drive the driven joints, along their coordinates `m.driven_names`.

    It is what the joint's motor gives, torques [N m] along angles and forces [N] along displacements: against the inertia of all that moves
    with the joint, gravity, and the damping, stiffness, friction, armature and stops of the joint itself. `at` is as in
    `forward_dynamics`.

    >>> m = ct.Model("hoist")
    >>> m.add("cabin", ct.point_mass(100.0), ct.Driven(ct.Prismatic("z"), lambda t: 0.5 * t**2))
    >>> ct.driving_forces(m)(2.0, [], [], [])
    array([1081.])
    """
    m = frozen(m, "driving_forces", parameters, wrenches, at)
    if not m.driven_names:
        raise ModelError(f"driving_forces: no joint of model '{m.name}' is driven; drive one by ct.Driven(joint, motion)")
    return reactions.driving_forces(m, solution("forward_dynamics", method, m, traced=True), at)
