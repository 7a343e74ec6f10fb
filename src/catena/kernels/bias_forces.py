"""Constructors of the kernels of what a motion takes besides M vdot: the bias force, its parts, and the Coriolis matrix."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from catena.kernels.included import PASSIVE, Include, included, moving
from catena.kernels.methods import solution
from catena.kernels.tracing import Bodies, Parameters, dynamics_kernel, frozen, traced_kernel
from catena.model import Mechanism, Tree
from catena.native import Kernel


def bias_force(m: Mechanism, parameters: Parameters = (), wrenches: Bodies = (), include: Include = None) -> Kernel:
    """Return the kernel (q, v) -> joint forces that hold the motion at vdot = 0.

    Coriolis, centrifugal, gyroscopic and gravity forces, less what acts in the joints and on the bodies: with the mass matrix M,
    tau = M vdot + bias_force. Where a force depends on time or a joint is driven, the kernel is (t, q, v) -> bias. With loops, the forces
    are those of the tree, as its mass matrix is.

    `include` names what counts; it is all that, unless given:

        "gravity"    weight
        "coriolis"   what velocities bring about, and the motion of driven joints
        "springs"    springs and dampers of joints and between bodies, and bushings
        "friction"   friction of joints
        "stops"      limits of joints
        "contacts"   contacts of bodies
        "forces"     functions, such as those of m.add_force, and `wrenches`

    A controller that cancels stops and contacts pushes through them: name the others, or use `ct.gravity_force`, `ct.coriolis_force`.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y", stiffness=2.0, limits=(-1, 1)))
    >>> ct.bias_force(m)([0.5], [0.0]).round(3), ct.bias_force(m, include="gravity")([0.5], [0.0]).round(3)
    (array([-7.609]), array([-8.609]))
    """
    m = frozen(m, "bias_force", parameters, wrenches)
    return _bias_force(m, "bias_force", "bias", included(m, "bias_force", include))


def _bias_force(m: Mechanism, name: str, output: str, parts: Collection[str]) -> Kernel:
    _, method, solve, references = solution("bias_force", "auto", m)

    def function(tree: Tree, q: Any, v: Any, force: Any, wrenches: Any) -> Any:
        return moving(solve, parts)(tree, q, v, wrenches) - force

    return dynamics_kernel(m, name, ("q", "v"), (output,), function, method, references, parts=parts)


def gravity_force(m: Mechanism, parameters: Parameters = ()) -> Kernel:
    """Return the kernel q -> joint forces that hold the mechanism at rest against gravity alone, a part of `bias_force`.

    Springs, stops and contacts do not count, so that a controller may cancel gravity by it, wherever the joints are. With loops, the forces
    are those of the tree; `ct.inverse_dynamics(m, actuated=names, include="gravity")`, at rest, has them on the motors alone. Where a joint
    is driven, the kernel is (t, q) -> gravity_force.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y", stiffness=2.0, limits=(-1, 1)))
    >>> ct.gravity_force(m)([1.2]).round(3)
    array([-3.555])
    """
    m = frozen(m, "gravity_force", parameters)
    _, name, solve, references = solution("gravity_force", "auto", m)
    return traced_kernel(m, "gravity_force", ("q",), ("gravity_force",), solve, name, references)


def coriolis_force(m: Mechanism, parameters: Parameters = ()) -> Kernel:
    """Return the kernel (q, v) -> joint forces that velocities take at vdot = 0, a part of `bias_force`.

    Coriolis, centrifugal and gyroscopic forces. Where joints are driven, the kernel is (t, q, v) -> coriolis_force, with what their
    velocities and accelerations take of the other joints.

    >>> m = ct.Model("double pendulum")
    >>> m.add("upper", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"))
    >>> m.add("lower", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"), parent="upper", at=(1, 0, 0))
    >>> ct.coriolis_force(m)([0.0, np.pi / 2], [2.0, 0.0])
    array([0., 4.])
    """
    m = frozen(m, "coriolis_force", parameters)
    _, name, solve, references = solution("coriolis_force", "auto", m)
    return traced_kernel(m, "coriolis_force", ("q", "v"), ("coriolis_force",), solve, name, references)


def passive_force(m: Mechanism, parameters: Parameters = (), wrenches: Bodies = ()) -> Kernel:
    """Return the kernel (q, v) -> joint forces that hold against passive and applied forces, a part of `bias_force`.

    These are springs, dampers, friction and stops, contacts, and forces from functions, with `wrenches` as in `forward_dynamics`. The sign
    is that of `bias_force`: gravity_force + coriolis_force + passive_force = bias_force. Where a force depends on time or a joint is
    driven, the kernel is (t, q, v) -> passive_force. `ct.bias_force(m, include=...)` has them one by one.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y", stiffness=2.0, damping=0.1))
    >>> ct.passive_force(m)([0.5], [1.0])
    array([1.1])
    """
    m = frozen(m, "passive_force", parameters, wrenches)
    return _bias_force(m, "passive_force", "passive_force", PASSIVE)


def coriolis_matrix(m: Mechanism, parameters: Parameters = ()) -> Kernel:
    """Return the kernel (q, v) -> C (nv, nv), with C v = coriolis_force and dM/dt - 2 C skew: the Coriolis matrix.

    Of joints whose velocities are rates of coordinates it is that of the Christoffel symbols. With loops, it is that of the tree. Where
    joints are driven, the kernel is (t, q, v) -> C, and `coriolis_force` has what their motion takes besides C v.

    >>> m = ct.Model("double pendulum")
    >>> m.add("upper", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"))
    >>> m.add("lower", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"), parent="upper", at=(1, 0, 0))
    >>> ct.coriolis_matrix(m)([0.0, np.pi / 2], [2.0, 1.0])
    array([[-1., -3.],
           [ 2.,  0.]])
    """
    m = frozen(m, "coriolis_matrix", parameters)
    _, name, solve, references = solution("coriolis_matrix", "auto", m)
    return traced_kernel(m, "coriolis_matrix", ("q", "v"), ("coriolis_matrix",), solve, name, references)
