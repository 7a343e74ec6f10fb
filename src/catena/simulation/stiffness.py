"""How fast the passive forces of a mechanism act: friction, dampers, springs and stops, bushings, contacts and servos, beside the steps.

At a configuration they are linearised where they are steepest: friction at rest, stops at their limits, contacts under the weight. With
the mass matrix M, dampings D and stiffnesses K along velocities that keep the loops closed, the fastest decay has the rate
max eig(M^-1 D), the fastest oscillation sqrt(max eig(M^-1 K)). An explicit integrator is stable for steps of about two time constants at
most. Motions that have no inertia at a configuration, as where axes of rotation meet in the line of a rod, have no rates there.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from catena.errors import StiffnessWarning
from catena.formulations.force_slopes import steepest
from catena.formulations.loops.constraints import constraint_jacobian
from catena.formulations.mass.composite_body import mass_matrix
from catena.loops.mobility import generic, rank
from catena.loops.scaling import coordinate_units, loop_units
from catena.model import Mechanism
from catena.model.actuators import Actuation
from catena.model.builder import STANDARD_GRAVITY
from catena.model.placed import PlacedBushing, PlacedContact, PlacedSpring

if TYPE_CHECKING:
    from catena.simulation.run import Run

#: What forces of bodies are called.
_KINDS = {PlacedSpring: "spring", PlacedBushing: "bushing", PlacedContact: "contact"}

#: Explicit steps of more than so many time constants are not stable.
STABLE = 2.0

#: An adaptive run is stiff where more than so many time constants fit into it, or into a second of it: about where "dormand-prince" begins
#: to take more steps than "rang-angermann". Measured on arms of one to six links, at rest, sliding and stopping, with rates of 3e3 to 9e5.
_MANY = 1e4

#: Steps after which a run is looked at for the first time; and the part of the time constant of the fastest decay that the mean step of
#: "dormand-prince" has where stability holds it down: its limit is 3.3, and steps are on average a third of it or more.
_WATCHED, _HELD_DOWN = 10_000.0, 1.0


#: The inertia of a motion, relative to the largest, and the eigenvalue of the scaled mass matrix that are rounding.
_NO_INERTIA, _SINGULAR = 1e-15, 1e-12

#: Configurations that are tried for one at which the mass matrix is regular.
_TRIED = 6


class Fastest(NamedTuple):
    """The fastest passive force: its rate [1/s], the joint that it acts in most or the spring or contact that it is, and what it is."""

    rate: float
    name: str
    cause: str

    def __str__(self) -> str:
        return f"{self.cause} '{self.name}' has a time constant of {1.0 / self.rate:.2g} s"


def fastest_decay(m: Mechanism, t: float, q: np.ndarray, servos: Actuation | None = None) -> Fastest | None:
    """Return the fastest decay by friction, dampers and the actuators that act, at a configuration; or none."""
    tree = m.tree()
    slopes = {"friction of joint": tree.friction / tree.friction_speed, "damping of joint": tree.damping}
    slopes |= {} if servos is None else {"the actuator of joint": servos.slopes(q, np.zeros(m.nv), servos.holding(q))[1]}
    return _fastest(m, t, q, slopes, [(force, D) for force, _, D in _of_bodies(m, t, q)], 1.0)


def fastest(m: Mechanism, t: float, q: np.ndarray, servos: Actuation | None = None) -> Fastest | None:
    """Return the fastest decay by friction and dampers, or oscillation by springs and stops, at a configuration; or none.

    With actuators that act, also by these.
    """
    tree = m.tree()
    stops = np.where(np.isfinite(tree.lower) | np.isfinite(tree.upper), tree.stop_stiffness, 0.0)
    slopes = {"the spring of joint": tree.stiffness, "the stop of joint": stops}
    slopes |= {} if servos is None else {"the actuator of joint": servos.slopes(q, np.zeros(m.nv), servos.holding(q))[0]}
    candidates = (fastest_decay(m, t, q, servos), _fastest(m, t, q, slopes, [(force, K) for force, K, _ in _of_bodies(m, t, q)], 0.5))
    return max((one for one in candidates if one is not None), key=lambda one: one.rate, default=None)


def fastest_of_model(m: Mechanism, servos: Actuation | None = None) -> Fastest | None:
    """Return what `fastest` finds at a generic configuration: it depends on the model alone, and on whether servos act."""

    def make() -> Fastest | None:
        now, q = generic(m) if m.has_loops else (m, _inertial(m))
        return fastest(now, now.instant, q, servos)

    return m.once("fastest passive force", (servos is None,), make) if servos is not None or _passive(m) else None


def _passive(m: Mechanism) -> bool:
    """Return whether a model has passive forces."""
    tree = m.tree()
    of_joints = (tree.damping, tree.friction, tree.stiffness, np.isfinite(tree.lower), np.isfinite(tree.upper))
    return bool(m.springs or m.bushings or m.contacts) or any(x.any() for x in of_joints)


def _inertial(m: Mechanism) -> np.ndarray:
    """Return a configuration of a tree at which all motions have inertia: the neutral one, or else a random one."""
    rng = np.random.default_rng(0)
    tried = (m.neutral() if n == 0 else m.random_nearby(rng) for n in range(_TRIED))
    return next((q for q in tried if _motions(m, m.instant, q).shape[1] == m.nv), m.neutral())


def _of_bodies(m: Mechanism, t: float, q: np.ndarray) -> list[tuple[Any, np.ndarray, np.ndarray]]:
    """Return the springs, bushings and contacts of bodies, with their slopes by displacement and by velocity."""
    gravity = float(np.linalg.norm(m.gravity)) or STANDARD_GRAVITY
    return list(steepest(m.at(t).tree(), q, gravity * sum(link.body.mass for link in m.links)))


def _fastest(
    m: Mechanism, t: float, q: np.ndarray, slopes: dict[str, np.ndarray], of_bodies: list[tuple[Any, np.ndarray]], power: float
) -> Fastest | None:
    """Return the fastest of forces, with slopes along their own coordinates or as matrices; its rate is a power of the largest
    eigenvalue.
    """
    slope = np.sum(list(slopes.values()), axis=0)
    total = sum((matrix for _, matrix in of_bodies), np.diag(slope))
    if not total.any():
        return None
    motions = _motions(m, t, q)
    if not motions.size:
        return None
    values, vectors = np.linalg.eigh(motions.T @ total @ motions)
    moves = motions @ vectors[:, -1]
    moving, rate = slope * moves**2, max(float(values[-1]), 0.0) ** power
    shares: dict[tuple[str, str], float] = {}
    for force, matrix in of_bodies:
        key = (force.name, _KINDS[type(force)])
        shares[key] = shares.get(key, 0.0) + float(moves @ matrix @ moves)
    if shares and max(shares.values()) > moving.max():
        return Fastest(rate, *max(shares, key=lambda key: shares[key]))
    at = int(np.argmax(moving))
    joint = next(link.name for link, _, at_v in m.slices() if at_v.start <= at < at_v.stop)
    cause = max(slopes, key=lambda name: slopes[name][at])
    return Fastest(rate, m.joint_names.get(joint, joint), cause)


def _motions(m: Mechanism, t: float, q: np.ndarray) -> np.ndarray:
    """Return the motions with inertia that keep the loops closed at a configuration, a column each: orthogonal, of unit inertia."""
    along = _along(m, t, q)
    mass = along.T @ np.asarray(mass_matrix(m.at(t).tree(), q), dtype=float) @ along
    inertia = mass.diagonal()
    size = np.divide(1.0, np.sqrt(inertia), out=np.zeros(len(inertia)), where=inertia > _NO_INERTIA * inertia.max(initial=0.0))
    values, vectors = np.linalg.eigh(mass * np.outer(size, size))
    some = values > _SINGULAR
    return along @ (size[:, None] * vectors[:, some] / np.sqrt(values[some]))


def _along(m: Mechanism, t: float, q: np.ndarray) -> np.ndarray:
    """Return a basis of the velocities that keep the loops closed at a configuration, a column each."""
    units = coordinate_units(m)
    if not m.has_loops:
        return np.diag(units)
    now = m.at(t)
    J = np.asarray(constraint_jacobian(now.tree(), q)[1], dtype=float) * units / np.array(loop_units(m))[:, None]
    return units[:, None] * np.linalg.svd(J)[2][rank(now, q) :].T


def stiff(
    m: Mechanism, start: float, until: float, step: float | None, q: np.ndarray, servos: Actuation | None = None
) -> Fastest | None:
    """Return the passive force that makes a run stiff: with a fixed step beyond its stability, else by many time constants that settle.

    Actuators that act count with these.
    """
    force = fastest_decay(m, start, q, servos) if step is None else fastest(m, start, q, servos)
    if force is None or force.rate <= (_MANY / min(until - start, 1.0) if step is None else STABLE / step):
        return None
    return force


def warn_of(force: Fastest, what: str, integrator: str, step: float | None) -> None:
    """Warn of an explicit integrator for a stiff run."""
    most = STABLE / force.rate
    given = f"and takes about {1.0 / most:,.0f} of them per second where it settles" if step is None else f"not {step:.2g} s"
    raised = {"friction of joint": "friction_speed", "contact": "slip_speed"}.get(force.cause)
    remedy = f"; raise {raised} if so steep a friction is not meant" if raised else ""
    warnings.warn(
        f"{what}: {force}, and '{integrator}' is stable with steps up to about {most:.2g} s, {given}; use integrator='auto' or "
        f"'rang-angermann', which treat passive forces implicitly{remedy}",
        StiffnessWarning,
        stacklevel=4,
    )


class StiffnessWatch:
    """Watches the steps of an adaptive run by an explicit integrator, and warns once where stability holds them down, not accuracy.

    That is where forces from functions or controllers fall steeply with a velocity. A step of size h is at the limit where the slope of
    the accelerations by velocities has an eigenvalue of about -2 / h or below.
    """

    def __init__(self) -> None:
        self._next = _WATCHED

    def look(self, run: Run) -> None:
        """Look at a run once it has taken many steps, and again when it has taken ten times as many."""
        given = run.settings
        if not given.adaptive or given.integrator.stable or given.in_python or given.stiffest is not None:
            return  # which is known already
        if run.number("steps") < self._next:
            return
        self._next *= 10.0
        t, q, v = run.here
        along = _along(run.model, t, q)
        size = 1e-6 * max(np.abs(v).max(), 1e-3)
        around = v + size * np.concatenate([np.zeros((1, len(v))), along.T])
        a = run.evaluate(np.full(len(around), t), np.tile(q, (len(around), 1)), around)[0]
        slope = np.linalg.lstsq(along, (a[1:] - a[0]).T / size, rcond=None)[0]
        if not np.isfinite(slope).all():
            return
        values, vectors = np.linalg.eig(slope)
        decay = np.real(values)
        at, h = int(np.argmin(decay)), (t - given.start) / run.number("steps")
        if -decay[at] * h > _HELD_DOWN:
            name = run.model.v_names[int(np.argmax(np.abs(along @ vectors[:, at])))]
            warnings.warn(
                f"simulate '{run.model.name}': forces on '{name}' that fall with its velocity decay in {-1.0 / decay[at]:.2g} s, so "
                f"that '{given.integrator.name}' is stable only with steps of about {h:.2g} s, {run.number('steps'):,.0f} so far up to "
                f"t = {t:.4g} s; give the force as damping or friction of a joint, which integrator='auto' treats implicitly, make it less "
                "steep, or use 'implicit-midpoint' with a fixed step, without loops also 'scipy:Radau'",
                StiffnessWarning,
                stacklevel=4,
            )
            self._next = np.inf
