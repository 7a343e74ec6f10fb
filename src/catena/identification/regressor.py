"""The parameters that joint forces are linear in, and the regressor, their matrix."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from catena.errors import ArgumentError, ModelError
from catena.formulations.inverse.regressor import ENTRIES, inertial_regressor, joint_regressor
from catena.kernels.named_coordinates import coordinates
from catena.kernels.planned import ConstrainedKernel
from catena.kernels.reduced import Reduced
from catena.kernels.tracing import frozen, traced_kernel
from catena.loops.mobility import partition
from catena.loops.plan_library import configuration
from catena.model import Mechanism, Tree
from catena.model.values import names_of
from catena.model.wording import no_such
from catena.native import Kernel
from catena.references import REFERENCES

#: Options of joints that joint forces are linear in, in the order of the columns of `joint_regressor`.
JOINT_OPTIONS = ("damping", "stiffness", "friction", "armature")

#: The ten inertial parameters of a body: mass, first moment, and inertia at the origin of its frame.
INERTIAL = ("mass", *(f"first_moment.{i}" for i in "xyz"), *(f"inertia.{'xyz'[i]}{'xyz'[j]}" for i, j in ENTRIES))


def linear_parameters(m: Mechanism, joints: Collection[str] | None = None) -> dict[str, float]:
    """Return the parameters pi by name, with their values in the model: joint forces are linear in them.

    They are, for every body that was named, its mass [kg], first moment, mass times centre of mass [kg m], and inertia at the origin of its
    frame [kg m^2], both in the axes of its frame; then the options of the joints that are named in `joints`, of "damping", "stiffness",
    "friction" and "armature". Without it they are those that some joint of the model has.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.rod(1.0, mass=3.0), ct.Revolute("y", damping=0.1))
    >>> pi = ct.linear_parameters(m)
    >>> list(pi)[:4], pi["arm.inertia.yy"], pi["arm.damping"]
    (['arm.mass', 'arm.first_moment.x', 'arm.first_moment.y', 'arm.first_moment.z'], 1.0, 0.1)
    """
    m = frozen(m, "linear_parameters")
    found: dict[str, float] = {}
    for link in m.links:
        body, M = link.body, link.body.matrix()
        values = (body.mass, *(body.mass * np.array(body.com)), *(M[i, j] for i, j in ENTRIES))
        found |= {f"{link.name}.{name}": float(x) for name, x in zip(INERTIAL, values, strict=True)}
    for name, option, i in _joint_columns(m, joint_options(m, joints)):
        found[name] = float(np.concatenate([np.asarray(getattr(link.joint, option), dtype=float) for link in m.links])[i])
    return found


def joint_options(m: Mechanism, joints: Collection[str] | None) -> tuple[str, ...]:
    """Return the options of joints that are parameters: those given, or those that some joint has."""
    if joints is None:
        return tuple(option for option in JOINT_OPTIONS if any(np.any(getattr(link.joint, option)) for link in m.links))
    names = names_of("joints", joints, f"give some of {', '.join(JOINT_OPTIONS)}")
    for name in names:
        if name not in JOINT_OPTIONS:
            raise ArgumentError(f"joints: {no_such('option', name, JOINT_OPTIONS)}")
    return tuple(option for option in JOINT_OPTIONS if option in names)


def _joint_columns(m: Mechanism, options: Collection[str]) -> Iterator[tuple[str, str, int]]:
    """Yield name, option and coordinate of the parameters of joints, joint by joint."""
    for link, _, at in m.slices():
        for option in options:
            for i, label in zip(range(at.start, at.stop), link.joint.v_labels, strict=True):
                yield ".".join(filter(None, (link.name, option, label))), option, i


def regressor(
    m: Mechanism, actuated: Collection[str] | None = None, at: Any = None, joints: Collection[str] | None = None
) -> Kernel | ConstrainedKernel:
    """Return the kernel (q, v, vdot) -> Y, with joint forces tau = Y pi for the parameters pi of `ct.linear_parameters(m, joints)`.

    The columns are named by `kernel.labels["pi"]`. Stops, springs between bodies and applied forces act besides, and do not depend on pi.
    Where a joint is driven, the kernel is (t, q, v, vdot) -> Y.

    With loops only forces along the motions that keep these closed can be told: N^T tau = Y pi, with v = N rate for as many independent
    coordinates as there are degrees of freedom, which name the rows, `kernel.labels["regressor"]`. They are chosen from those that
    `actuated` names; where motors act on these alone, N^T tau is the motors' forces. `at` is as in `ct.forward_dynamics`.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.rod(1.0, mass=3.0), ct.Revolute("y"))
    >>> Y = ct.regressor(m)
    >>> pi = list(ct.linear_parameters(m).values())
    >>> (Y([0.3], [1.0], [2.0]) @ pi).round(3), ct.inverse_dynamics(m)([0.3], [1.0], [2.0]).round(3)
    (array([-12.058]), array([-12.058]))
    """
    m = frozen(m, "regressor", at=at)
    chosen = joint_options(m, joints)
    columns = list(_joint_columns(m, chosen))

    def function(tree: Tree, q: Any, v: Any, vdot: Any) -> Any:
        passive = joint_regressor(tree, q, v, vdot)
        joint = np.zeros((m.nv, len(columns))).astype(object)
        for c, (_, option, i) in enumerate(columns):
            joint[i, c] = passive[i, JOINT_OPTIONS.index(option)]
        return np.concatenate([inertial_regressor(tree, q, v, vdot, m.body_names), joint], axis=1)

    source = (REFERENCES["AAH86"],)
    if m.has_loops:
        by = independent(m, actuated, at)
        rows = list(coordinates(m, by.names, "regressor"))

        def reduced(closed: Any, v: Any, vdot: Any) -> Any:
            return closed.basis()[:, rows].T @ function(closed.tree, closed.q, v, vdot)

        kernel: Any = by.kernel("regressor", ("q", "v", "vdot"), "regressor", reduced, references=(*source, REFERENCES["WH82"]))
        kernel.labels["regressor"] = by.names
    else:
        moved = coordinates(m, m.v_names if actuated is None else actuated, "regressor: actuated")
        if left := [name for i, name in enumerate(m.v_names) if i not in moved]:
            raise ArgumentError(f"regressor: model '{m.name}' has no loops, and {', '.join(left)} would move freely; leave actuated= out")
        kernel = traced_kernel(m, "regressor", ("q", "v", "vdot"), ("regressor",), function, references=source)
        kernel.labels["regressor"] = m.v_names
    kernel.labels["pi"] = tuple(linear_parameters(m, chosen))
    return kernel


def independent(m: Mechanism, actuated: Collection[str] | None, at: Any = None) -> Reduced:
    """Return a mechanism with loops by independent coordinates that are actuated."""
    if actuated is None:
        return Reduced(m, None, at)
    motors = coordinates(m, actuated, "regressor: actuated")

    def free(m: Mechanism, q: Any) -> list[int]:
        return sorted(set(range(m.nv)) - set(partition(m, q, last=motors).dependent))

    left = free(*configuration(m, at, lambda m, q: set(free(m, q)) <= set(motors)))
    if moving := [m.v_names[i] for i in left if i not in motors]:
        raise ModelError(
            f"regressor: with {', '.join(actuated)} actuated, {', '.join(moving)} of model '{m.name}' would move freely; name it too, or "
            "other coordinates, in actuated="
        )
    return Reduced(m, [m.v_names[i] for i in motors if i in left], at)
