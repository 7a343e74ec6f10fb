"""Derivatives of forward and inverse dynamics: by recursions for trees, of the kernels themselves for mechanisms with loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.formulations.derivatives.forces import acting_joint_forces, force_derivatives
from catena.formulations.inverse import newton_euler
from catena.formulations.linear import articulated_body
from catena.kernels import loop_derivatives
from catena.kernels.dynamics import forward_dynamics, inverse_dynamics
from catena.kernels.methods import TANGENTS, Solution, solution
from catena.kernels.planned import ConstrainedKernel
from catena.kernels.tracing import Bodies, Parameters, check_forces, frozen, traced_kernel
from catena.model import Mechanism, Tree
from catena.model.simple_joints import with_simple_joints
from catena.native import Kernel
from catena.scalars.dual import Dual, part


def forward_dynamics_derivatives(
    m: Mechanism, method: str = "auto", at: Any = None, parameters: Parameters = (), wrenches: Bodies = ()
) -> Kernel | ConstrainedKernel:
    """Return the kernel (q, v, tau) -> (vdot, its derivatives by q, by v and by tau): accelerations, and three matrices (nv, nv).

    The last is the inverse of the mass matrix; with loops, of what they leave of it. Derivatives by positions are along the velocity
    coordinates: a column for each entry of v. With loops the matrices hold for changes of the state that keep these closed; `at` is as in
    `forward_dynamics`. `ct.methods("forward_dynamics_derivatives")` lists the methods. Passive and applied forces are included. Where a
    force depends on time or a joint is driven, the kernel is (t, q, v, tau) -> (vdot, by q, by v, by tau, by t).

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y", damping=0.5))
    >>> vdot, by_q, by_v, by_tau = ct.forward_dynamics_derivatives(m)([0.0], [0.0], [0.0])
    >>> by_q, by_v, by_tau
    (array([[-9.81]]), array([[-0.5]]), array([[1.]]))
    """
    name = "forward_dynamics_derivatives"
    m = frozen(m, name, parameters, wrenches, at)
    check_forces(m, name)
    wrt = ("q", "v", "tau", *(("t",) if m.time_dependent else ()))
    chosen = solution(name, method, m)
    if m.has_loops:
        return loop_derivatives.forward_dynamics_derivatives(m, at)
    if chosen.name == TANGENTS:
        return forward_dynamics(m).jacobian("vdot", wrt, values=True, name=name)

    def function(tree: Tree, *arguments: Any) -> Any:
        t, q, v, tau = arguments if m.time_dependent else (0.0, *arguments)
        force = acting_joint_forces(tree, t, q, v)
        found = chosen.function(_simple(tree), q, v, tau + force, *force_derivatives(tree, t, q, v, m.rate))
        return (*found, _by_time(tree, t, q, v, tau)) if m.time_dependent else found

    def _by_time(tree: Tree, t: Any, q: Any, v: Any, tau: Any) -> Any:
        later = Dual(t[()] if isinstance(t, np.ndarray) else t, 1.0)
        tree = tree.at(later)
        return part(articulated_body.forward_dynamics(tree, q, v, tau + acting_joint_forces(tree, later, q, v)), "derivative")

    return _kernel(m, name, ("q", "v", "tau"), ("vdot", *(f"dvdot_d{x}" for x in wrt)), function, chosen)


def inverse_dynamics_derivatives(
    m: Mechanism, method: str = "auto", parameters: Parameters = (), wrenches: Bodies = ()
) -> Kernel | ConstrainedKernel:
    """Return the kernel (q, v, vdot) -> (tau, its derivatives by q, by v and by vdot): joint forces, and three matrices (nv, nv).

    The last is the mass matrix. Derivatives by positions are along the velocity coordinates; passive and applied forces are included. With
    loops, all joints are actuated. `ct.methods("inverse_dynamics_derivatives")` lists the methods. Where a force depends on time or a joint
    is driven, the kernel is (t, q, v, vdot) -> (tau, by q, by v, by vdot, by t).

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y", damping=0.5))
    >>> tau, by_q, by_v, mass = ct.inverse_dynamics_derivatives(m)([0.0], [0.0], [0.0])
    >>> by_q, by_v, mass
    (array([[9.81]]), array([[0.5]]), array([[1.]]))
    """
    name = "inverse_dynamics_derivatives"
    m = frozen(m, name, parameters, wrenches)
    check_forces(m, name)
    wrt = ("q", "v", "vdot", *(("t",) if m.time_dependent else ()))
    chosen = solution(name, method, m)
    if chosen.name == TANGENTS:
        return inverse_dynamics(m).jacobian("tau", wrt, values=True, name=name)

    def function(tree: Tree, *arguments: Any) -> Any:
        t, q, v, vdot = arguments if m.time_dependent else (0.0, *arguments)
        tau, by_q, by_v, mass = chosen.function(_simple(tree), q, v, vdot)
        force_by_q, force_by_v = force_derivatives(tree, t, q, v, m.rate)
        found = tau - acting_joint_forces(tree, t, q, v), by_q - force_by_q, by_v - force_by_v, mass
        return (*found, _by_time(tree, t, q, v, vdot)) if m.time_dependent else found

    def _by_time(tree: Tree, t: Any, q: Any, v: Any, vdot: Any) -> Any:
        later = Dual(t[()] if isinstance(t, np.ndarray) else t, 1.0)
        tree = tree.at(later)
        return part(newton_euler.inverse_dynamics(tree, q, v, vdot) - acting_joint_forces(tree, later, q, v), "derivative")

    return _kernel(m, name, ("q", "v", "vdot"), ("tau", *(f"dtau_d{x}" for x in wrt)), function, chosen)


def _kernel(m: Mechanism, name: str, inputs: tuple[str, ...], outputs: tuple[str, ...], function: Any, chosen: Solution) -> Kernel:
    shapes = {f"d{x}": (m.nv, m.nv) for x in outputs}
    inputs = ("t", *inputs) if m.time_dependent else inputs
    return traced_kernel(m, name, inputs, outputs, function, chosen.method, chosen.references, shapes)


def _simple(tree: Tree) -> Tree:
    simple = with_simple_joints(tree)
    assert simple is not None
    return simple
