"""Public constructors of kernels of motion: poses, velocities and accelerations of frames, centre of mass, momentum.

A body or a frame of the model names what moves. With loops, q and v are those of the spanning tree, as in all kernels, and velocities that
keep the loops closed are for the caller to give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from catena.errors import ArgumentError, ModelError
from catena.formulations import centroidal, frames
from catena.kernels.tracing import Parameters, frozen, traced_kernel
from catena.model import Fixed, Mechanism, Tree
from catena.model.values import array
from catena.model.wording import choice
from catena.native import Kernel


def poses(m: Mechanism, parameters: Parameters = (), of: str | Sequence[str] | None = None) -> Kernel:
    """Return the kernel q -> (bodies, 4, 4): where every body's frame stands in the world, in the order bodies were added.

    `of` names bodies and frames, whose poses come in this order; of a single name, the kernel is q -> (4, 4). Where a joint is driven, the
    kernel is (t, q) -> poses.

    >>> m = ct.Model("slider")
    >>> m.add("cart", ct.point_mass(1.0), ct.Prismatic("x"))
    >>> m.add_frame("hook", "cart", at=(0.2, 0, 0.1))
    >>> ct.poses(m)([0.5])[0, :3, 3]
    array([0.5, 0. , 0. ])
    >>> ct.poses(m, of="hook")([0.5])[:3, 3]
    array([0.7, 0. , 0.1])
    """
    m = frozen(m, "poses", parameters)
    if of is None:
        return traced_kernel(m, "poses", ("q",), ("poses",), lambda tree, q: frames.poses(tree, q, m.body_names))
    names = (of,) if isinstance(of, str) else tuple(of)
    for name in names:
        m.carrier(name, "poses of")
    if isinstance(of, str):
        return traced_kernel(m, "poses", ("q",), ("pose",), lambda tree, q: frames.poses(tree, q, names)[0])
    if not names:
        raise ArgumentError("poses: of= names no body or frame; name one, or leave it out for all bodies")
    return traced_kernel(m, "poses", ("q",), ("frame_poses",), lambda tree, q: frames.poses(tree, q, names))


def frame_velocity(
    m: Mechanism,
    frame: str,
    point: Any = (0.0, 0.0, 0.0),
    *,
    axes: str = "world",
    relative_to: str = "ground",
    parameters: Parameters = (),
) -> Kernel:
    """Return the kernel (q, v) -> (6): angular velocity of a body or frame [rad/s], and velocity of a point in it [m/s].

    `point` is in the frame [m]. `axes` says in which axes: "world", "body", those of the frame itself, or the name of a body or frame.
    With `relative_to` another body, they are the velocities that an observer on that body sees. Where a joint is driven, the kernel is
    (t, q, v) -> velocity.

    >>> m = ct.Model("arm")
    >>> m.add("upper", ct.rod(1.0, mass=1.0), ct.Revolute("z"))
    >>> m.add("fore", ct.rod(1.0, mass=1.0), ct.Revolute("z"), parent="upper", at=(1, 0, 0))
    >>> ct.frame_velocity(m, "fore", (1, 0, 0))([0.0, 0.0], [1.0, 2.0]) + 0.0
    array([0., 0., 3., 0., 4., 0.])
    >>> ct.frame_velocity(m, "fore", (1, 0, 0), relative_to="upper")([0.0, 0.0], [1.0, 2.0]) + 0.0
    array([0., 0., 2., 0., 2., 0.])
    """
    m, seen = _seen(m, "frame_velocity", frame, point, axes, relative_to, parameters)
    return traced_kernel(m, "frame_velocity", ("q", "v"), ("velocity",), lambda tree, q, v: frames.velocity(tree, q, v, *seen))


def frame_acceleration(
    m: Mechanism,
    frame: str,
    point: Any = (0.0, 0.0, 0.0),
    *,
    axes: str = "world",
    relative_to: str = "ground",
    parameters: Parameters = (),
) -> Kernel:
    """Return the kernel (q, v, vdot) -> (6): angular acceleration of a body or frame [rad/s^2], and acceleration of a point in it [m/s^2].

    The arguments are those of `ct.frame_velocity`. The acceleration is that of the point, the second derivative of its position for an
    observer on the ground, or on the body `relative_to`; `axes` only says along which axes it is given. Gravity is not part of it. Where a
    joint is driven, the kernel is (t, q, v, vdot) -> acceleration.

    >>> m = ct.Model("arm")
    >>> m.add("upper", ct.rod(1.0, mass=1.0), ct.Revolute("z"))
    >>> ct.frame_acceleration(m, "upper", (1, 0, 0))([0.0], [2.0], [3.0]) + 0.0
    array([ 0.,  0.,  3., -4.,  3.,  0.])
    """
    m, seen = _seen(m, "frame_acceleration", frame, point, axes, relative_to, parameters)

    def function(tree: Tree, q: Any, v: Any, vdot: Any) -> Any:
        return frames.acceleration(tree, q, v, vdot, *seen)

    return traced_kernel(m, "frame_acceleration", ("q", "v", "vdot"), ("acceleration",), function)


def jacobian(
    m: Mechanism,
    body: str,
    point: Any = (0.0, 0.0, 0.0),
    parameters: Parameters = (),
    *,
    axes: str = "world",
    relative_to: str = "ground",
) -> Kernel:
    """Return the kernel q -> J (6, nv) with J v = (angular velocity of the body, velocity of the point), in the world's axes.

    `body` may be a frame; `point` is in its frame [m]. `axes` and `relative_to` are those of `ct.frame_velocity`, of which J is the
    matrix. Where a joint is driven, the kernel is (t, q) -> J, and what such joints do is not in J v. With loops J has a column for each
    velocity of the spanning tree; `ct.reduced(m).velocities` gives those that keep the loops closed.

    >>> m = ct.Model("arm")
    >>> m.add("upper", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("z"))
    >>> ct.jacobian(m, "upper", point=(1, 0, 0))([0.0]).T + 0.0
    array([[0., 0., 1., 0., 1., 0.]])
    """
    m, seen = _seen(m, "jacobian", body, point, axes, relative_to, parameters)
    return traced_kernel(m, "jacobian", ("q",), ("jacobian",), lambda tree, q: frames.jacobian(tree, q, *seen))


def bias_acceleration(
    m: Mechanism,
    frame: str,
    point: Any = (0.0, 0.0, 0.0),
    *,
    axes: str = "world",
    relative_to: str = "ground",
    parameters: Parameters = (),
) -> Kernel:
    """Return the kernel (q, v) -> (6): the accelerations of a frame at vdot = 0, in the world's axes dJ/dt v.

    With `ct.jacobian` of the same arguments, J vdot + bias_acceleration is `ct.frame_acceleration`. Where a joint is driven, the kernel is
    (t, q, v) -> acceleration, with what that joint does.

    >>> m = ct.Model("arm")
    >>> m.add("upper", ct.rod(1.0, mass=1.0), ct.Revolute("z"))
    >>> ct.bias_acceleration(m, "upper", (1, 0, 0))([0.0], [2.0]) + 0.0
    array([ 0.,  0.,  0., -4.,  0.,  0.])
    """
    m, seen = _seen(m, "bias_acceleration", frame, point, axes, relative_to, parameters)

    def function(tree: Tree, q: Any, v: Any) -> Any:
        return frames.acceleration(tree, q, v, np.zeros(tree.nv), *seen)

    return traced_kernel(m, "bias_acceleration", ("q", "v"), ("acceleration",), function)


def _seen(
    m: Mechanism, what: str, frame: str, point: Any, axes: str, relative_to: str, parameters: Parameters
) -> tuple[Mechanism, tuple[str, np.ndarray, str, str]]:
    """Return the model, frozen, and a frame with a point in it, axes, and what it moves against, checked."""
    m = frozen(m, what, parameters)
    m.carrier(frame, f"{what} names body")
    m.carrier(relative_to, f"{what}: relative_to names body")
    if axes not in ("world", "body"):
        m.carrier(axes, f"{what}: axes are 'world', 'body' or those of a body; they name")
    return m, (frame, array(f"{what} point", point, (3,)), axes, relative_to)


#: What there is of a centre of mass and of a momentum: inputs of the kernel, name of its output, formulation.
_CENTER: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "position": (("q",), centroidal.center_of_mass),
    "velocity": (("q", "v"), centroidal.center_of_mass_velocity),
    "acceleration": (("q", "v", "vdot"), centroidal.center_of_mass_acceleration),
    "jacobian": (("q",), centroidal.center_of_mass_jacobian),
}
_MOMENTUM: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "momentum": (("q", "v"), centroidal.momentum),
    "rate": (("q", "v", "vdot"), centroidal.momentum_rate),
    "matrix": (("q",), centroidal.momentum_matrix),
}


def center_of_mass(
    m: Mechanism,
    what: Literal["position", "velocity", "acceleration", "jacobian"] = "position",
    *,
    of: str | None = None,
    parameters: Parameters = (),
) -> Kernel:
    """Return the kernel q -> (3): the centre of mass of all bodies that move [m], in the world.

    `what` may be its "velocity", (q, v) -> (3), its "acceleration", (q, v, vdot) -> (3), or its "jacobian", q -> (3, nv), which maps v to
    the velocity. `of` names a body: then it is the centre of mass of this body and all that hang on it, in the spanning tree; of "ground",
    of all bodies with those that are fixed to the ground. Where a joint is driven, t comes first.

    >>> m = ct.Model("arm")
    >>> m.add("upper", ct.rod(1.0, mass=1.0), ct.Revolute("z"))
    >>> m.add("fore", ct.rod(1.0, mass=3.0), ct.Revolute("z"), parent="upper", at=(1, 0, 0))
    >>> ct.center_of_mass(m)([0.0, 0.0]) + 0.0
    array([1.25, 0.  , 0.  ])
    >>> ct.center_of_mass(m, "jacobian", of="fore")([0.0, 0.0]) + 0.0
    array([[0. , 0. ],
           [1.5, 0.5],
           [0. , 0. ]])
    """
    return _of_bodies(m, "center_of_mass", _CENTER, what, of, parameters)


def centroidal_momentum(
    m: Mechanism, what: Literal["momentum", "rate", "matrix"] = "momentum", *, of: str | None = None, parameters: Parameters = ()
) -> Kernel:
    """Return the kernel (q, v) -> (6): angular momentum of all bodies about their centre of mass [N m s], and linear momentum [N s].

    `what` may be its "rate", (q, v, vdot) -> (6), which is the sum of all forces on the bodies from outside, or its "matrix",
    q -> (6, nv), which maps v to the momentum. `of` is that of `ct.center_of_mass`. Results are in the world's axes; armatures, which have
    no axis in space, have no part in them. Where a joint is driven, t comes first, and what it does is not in the matrix.

    >>> m = ct.Model("arm")
    >>> m.add("upper", ct.rod(1.0, mass=12.0), ct.Revolute("z"))
    >>> ct.centroidal_momentum(m)([0.0], [2.0]) + 0.0
    array([ 0.,  0.,  2.,  0., 12.,  0.])
    """
    return _of_bodies(m, "centroidal_momentum", _MOMENTUM, what, of, parameters)


def _of_bodies(
    m: Mechanism,
    name: str,
    known: dict[str, tuple[tuple[str, ...], Callable[..., Any]]],
    what: str,
    of: str | None,
    parameters: Parameters,
) -> Kernel:
    """Return the kernel of a centre of mass or a momentum."""
    m = frozen(m, name, parameters)
    if what not in known:
        raise ArgumentError(f"{name}: {what!r} is none of its results; {choice(what, known)}")
    if of is not None:
        m.check_body(of, f"{name}: of names body")
    weld = not any(link.name == of and isinstance(link.joint, Fixed) for link in m.links)
    if not sum(inertia[3, 3] for inertia in centroidal.chosen_inertias(m.tree(weld), of)) > 0.0 and not m.varied:
        raise ModelError(f"{name}: {'the bodies' if of is None else f'body {of!r} and what hangs on it'} have no mass; name another body")
    inputs, solve = known[what]

    def function(tree: Tree, *given: Any) -> Any:
        return solve(tree, *given, centroidal.chosen_inertias(tree, of))

    return traced_kernel(m, name, inputs, (what,), function, weld=weld)
