"""How fast the passive forces of a mechanism act: friction, dampers, springs and stops, beside the steps of a run.

At a configuration they are linearised where they are steepest: friction at rest, stops at their limits. With the mass matrix M, dampings D
and stiffnesses K along velocities that keep the loops closed, the fastest decay has the rate max eig(M^-1 D), the fastest oscillation
sqrt(max eig(M^-1 K)). An explicit integrator is stable for steps of about two time constants at most.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from catena.errors import StiffnessWarning
from catena.formulations.constraints import constraint_jacobian
from catena.formulations.mass.composite_body import mass_matrix
from catena.mobility import rank
from catena.model import Model
from catena.scaling import coordinate_units, loop_units

#: Explicit steps of more than so many time constants are not stable.
STABLE = 2.0

#: An adaptive run is stiff where more than so many time constants fit into it, or into a second of it: about where "dormand-prince" begins
#: to take more steps than "rang-angermann". Measured on arms of one to six links, at rest, sliding and stopping, with rates of 3e3 to 9e5.
_MANY = 1e4


class Fastest(NamedTuple):
    """The fastest passive force: its rate [1/s], the joint that it acts in most, and what it is."""

    rate: float
    joint: str
    cause: str

    def __str__(self) -> str:
        return f"{self.cause} of joint '{self.joint}' has a time constant of {1.0 / self.rate:.2g} s"


def fastest_decay(m: Model, t: float, q: np.ndarray) -> Fastest | None:
    """Return the fastest decay by friction and dampers at a configuration, or none."""
    tree = m.tree()
    return _fastest(m, t, q, {"friction": tree.friction / tree.friction_speed, "damping": tree.damping}, 1.0)


def fastest(m: Model, t: float, q: np.ndarray) -> Fastest | None:
    """Return the fastest decay by friction and dampers, or oscillation by springs and stops, at a configuration; or none."""
    tree = m.tree()
    stops = np.where(np.isfinite(tree.lower) | np.isfinite(tree.upper), tree.stop_stiffness, 0.0)
    found = (fastest_decay(m, t, q), _fastest(m, t, q, {"the spring": tree.stiffness, "the stop": stops}, 0.5))
    return max((one for one in found if one is not None), key=lambda one: one.rate, default=None)


def _fastest(m: Model, t: float, q: np.ndarray, slopes: dict[str, np.ndarray], power: float) -> Fastest | None:
    """Return the fastest of forces with slopes along their own coordinates; its rate is a power of the largest eigenvalue."""
    from scipy.linalg import eigh  # here, because it takes longer to import than the rest of catena

    slope = np.sum(list(slopes.values()), axis=0)
    if not slope.any():
        return None
    still = m.at(t)
    tree, units = still.tree(), coordinate_units(m)
    along = np.diag(units)
    if m.has_loops:
        J = np.asarray(constraint_jacobian(tree, q)[1], dtype=float) * units / np.array(loop_units(m))[:, None]
        along = units[:, None] * np.linalg.svd(J)[2][rank(still, q) :].T
    if not along.size:
        return None
    mass = along.T @ np.asarray(mass_matrix(tree, q), dtype=float) @ along
    size = 1.0 / np.sqrt(mass.diagonal())
    values, vectors = eigh((along.T * slope) @ along * np.outer(size, size), mass * np.outer(size, size))
    moving = slope * (along @ (size * vectors[:, -1])) ** 2
    at = int(np.argmax(moving))
    joint = next(link.name for link, _, at_v in m._slices() if at_v.start <= at < at_v.stop)
    cause = max(slopes, key=lambda name: slopes[name][at])
    return Fastest(float(values[-1]) ** power, m.joint_names.get(joint, joint), cause)


def stiff(m: Model, start: float, until: float, step: float | None, q: np.ndarray) -> Fastest | None:
    """Return the passive force that makes a run stiff: with a fixed step beyond its stability, else by many time constants that settle."""
    found = fastest_decay(m, start, q) if step is None else fastest(m, start, q)
    if found is None or found.rate <= (_MANY / min(until - start, 1.0) if step is None else STABLE / step):
        return None
    return found


def warn_of(found: Fastest, what: str, integrator: str, step: float | None) -> None:
    """Warn of an explicit integrator for a stiff run."""
    most = STABLE / found.rate
    given = f"and takes about {1.0 / most:,.0f} of them per second where it settles" if step is None else f"not {step:.2g} s"
    remedy = "; raise friction_speed if so steep a friction is not meant" if found.cause == "friction" else ""
    warnings.warn(
        f"{what}: {found}, and '{integrator}' is stable with steps up to about {most:.2g} s, {given}; use integrator='auto' or "
        f"'rang-angermann', which treat passive forces implicitly{remedy}",
        StiffnessWarning,
        stacklevel=4,
    )
