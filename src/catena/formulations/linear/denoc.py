"""Forward dynamics of platforms on legs, by decoupled natural orthogonal complements.

Source   [SS01] Saha & Schiehlen, Recursive kinematics and dynamics for closed loop multibody systems, §IV (7)-(17), §V (18)-(34).
Frames   the world's axes; motions and forces at its origin, where the propagation of twists, A, is the identity.
Cost     O(m) for m bodies of a leg, O(n) for n legs, and the factors of two matrices, of the size of the platform's motions and of n.

    paper              here   meaning
    t_e                B y    twist of the platform, in coordinates y of the motions that the mechanism has
    p_i                a      what a unit rate of coordinate i adds to the twists of all bodies outboard of it
    Phi_i              Phi    what of the closure of a leg is left once the passive joints outboard of i have been eliminated
    p~_i, delta_i      p, d   column of coordinate i in what is left, and its square
    Phi, J             F, J   (14): y = J theta_dot
    N_l N_c            T      twist of a body from y and the rates of the leg's actuated joints
    N_d                -      the actuated joints' place in theta
    M~, M-             H      inertia of a leg, on y and its actuated joints: IDA-1, IDA-2, FDA-1 and FDA-2 for all its bodies at once
    I, tau - C thetad  GIM, f  generalised inertia (26), and the force on theta

A leg of the paper ends in a body that is part of the platform. In catena one leg carries the platform, and its end is the platform; the
others end at joints that close loops. Such a joint has no coordinates: its constraints are what is left of the closure where the paper has
eliminated its rates, so that the projections begin with as many rows as the joint has constraints, not with six.

For mechanisms whose platforms have fewer than six motions, all in planes or about one point, Phi of (14a) is singular in six dimensions;
the motions of a mechanism that are seen at a fixed point are a space that does not change, and B is its basis.

Which joints are actuated is part of the plan: as many as there are degrees of freedom, on any legs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from catena.formulations.constraints import coupling_rate, coupling_value, ends, right, rows
from catena.formulations.kinematics import bias_wrench, velocities, world_frames
from catena.formulations.linear import cut_joints
from catena.spatial import Factor


class Leg(NamedTuple):
    """A leg: its bodies from the base on; the closure at its end, or None where it carries the platform, which then is its last body.

    `rows` are the constraints of the closure that are independent, or a basis of the motions that the leg gives the platform; `actuated`
    are the coordinates that are given.
    """

    bodies: tuple[int, ...]
    closure: int | None
    rows: tuple[Any, ...]
    actuated: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """The platform, the legs, and a basis of the platform's motions; `chosen` are the constraints of all legs, and give its length."""

    platform: int
    legs: tuple[Leg, ...]
    space: tuple[tuple[float, ...], ...]
    chosen: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.chosen)


class Structure(NamedTuple):
    """The platform, and the bodies of each leg from the base on, with the closure at its end; the first leg carries the platform."""

    platform: int
    legs: tuple[tuple[tuple[int, ...], int | None], ...]


def structure(tree):
    """Return the legs of a platform, or what a tree lacks to be one.

    A platform stands on legs that share no bodies: one carries it, the others end at joints that close loops with it.
    """
    if not tree.closures:
        return "it has no loops, and a platform stands on legs that close some"
    if tree.couplings:
        return f"coupling '{tree.couplings[0].name}' ties coordinates together, and legs are free of each other"
    shared = set.intersection(*({closure.a, closure.b} for closure in tree.closures)) - {-1}
    if not shared:
        return "its loops do not close at one body, the platform"
    found = [_legs(tree, platform) for platform in sorted(shared)]
    return next((legs for legs in found if isinstance(legs, Structure)), found[0])


def _legs(tree, platform):
    legs: list[Any] = [(_path(tree, platform), None)]
    for i, closure in enumerate(tree.closures):
        legs.append((_path(tree, closure.b if closure.a == platform else closure.a), i))
    used = set()
    for bodies, _ in legs:
        for k in bodies:
            if k in used:
                return f"body '{tree.names[k]}' is part of two legs, and legs share none"
            used.add(k)
    for k in range(tree.n):
        if k not in used:
            return f"body '{tree.names[k]}' is on no leg of the platform '{tree.names[platform]}'"
    return Structure(platform, tuple(legs))


def _path(tree, k):
    found = []
    while k >= 0:
        found.append(k)
        k = tree.parent[k]
    return tuple(reversed(found))


def lacking(tree):
    """Return what a tree lacks to be a platform on legs, or nothing."""
    found = structure(tree)
    return found if isinstance(found, str) else ""


class Solved(NamedTuple):
    """Accelerations; values and rates of all constraints; pivots as in `coordinate_reduction`."""

    vdot: Any
    values: Any
    rates: Any
    pivots: Any


class Followed(NamedTuple):
    """A leg whose passive joints follow y and its actuated joints: what is left of its closure, and the rates' rows by coordinate.

    The closure says K y + g theta_dot = 0 for what is left, and the same with `known` added for accelerations.
    """

    Phi: Any
    K: Any
    g: Any
    known: Any
    rates: dict[int, Any]
    pivots: list[tuple[Any, Any]]


class Motion:
    """How the bodies of a tree move, in the world's axes and at its origin: columns of the coordinates, velocities, biases, inertias."""

    def __init__(self, tree, q, v):
        self.tree, self.frames = tree, world_frames(tree, q)
        _, S, V, a = velocities(tree, q, v)
        self.columns, self.V, self.a, self.M = {}, [*V], [*a], [None] * (tree.n + 1)
        self.V[-1] = np.zeros(6)
        for k in tree.outward():
            to_world = self.frames[k].inverse()
            for n, j in enumerate(range(tree.v_slices[k].start, tree.v_slices[k].stop)):
                self.columns[j] = to_world.motion(S[k][:, n])
            self.V[k], self.a[k] = to_world.motion(V[k]), to_world.motion(a[k])
            self.M[k] = self.frames[k].inertia(tree.M[k])
        self.body = (V, tree.M)

    def coordinates(self, bodies):
        """Return the velocity coordinates of bodies, in order."""
        return [j for k in bodies for j in range(self.tree.v_slices[k].start, self.tree.v_slices[k].stop)]


def forward_dynamics(tree, q, v, tau, wrenches=None, *, plan):
    """Return the solution under the joint forces tau, for the actuated joints of the plan.

    `wrenches` act on the bodies: one (moment, force) for each body in its frame, at its origin, or None; last the ground's.
    """
    motion, B = Motion(tree, q, v), np.array(plan.space).T
    closures = [_closure(motion, closure) for closure in tree.closures]
    legs, pivots = [_follow(motion, plan, leg, B, closures) for leg in plan.legs], []
    theta = [j for leg in plan.legs for j in leg.actuated]
    place = {j: n for n, j in enumerate(theta)}

    # (14): y = J theta_dot, and what accelerations add
    tree.mark()
    r, n = B.shape[1], len(theta)
    F, on_theta, known = np.zeros((r, r)).astype(object), np.zeros((r, n)).astype(object), np.zeros(r).astype(object)
    for leg, left in zip(plan.legs, legs, strict=True):
        projected = left.K.T @ left.Phi
        F, known = F + projected @ left.K, known - projected @ left.known
        for c, j in enumerate(leg.actuated):
            on_theta[:, place[j]] = on_theta[:, place[j]] - projected @ left.g[:, c]
        pivots += [[(plan.chosen[0], *pair)] for pair in left.pivots]
    factor = Factor(F)
    pivots += [[(plan.chosen[0], 1.0 / w, F[i, i])] for i, w in enumerate(factor.w)]
    J, y0 = np.stack([factor.solve(on_theta[:, c]) for c in range(n)], axis=1), factor.solve(known)

    # (26), (30), (34): inertias and forces on y and theta, leg by leg
    on_y, f_y = _platform(motion, plan, B, wrenches)
    GIM, f = np.zeros((n, n)).astype(object), np.zeros(n).astype(object)
    for leg, left in zip(plan.legs, legs, strict=True):
        tree.mark()
        H, h = _inertia(motion, plan, leg, left, tau, wrenches)
        own = [place[j] for j in leg.actuated]
        on_y, f_y = on_y + H[:r, :r], f_y + h[:r]
        cross = J.T @ H[:r, r:]
        GIM[:, own] = GIM[:, own] + cross
        GIM[own] = GIM[own] + cross.T
        GIM[np.ix_(own, own)] = GIM[np.ix_(own, own)] + H[r:, r:]
        f[own] = f[own] - h[r:] - H[r:, :r] @ y0
    tree.mark()
    GIM = GIM + J.T @ on_y @ J
    thetadd = Factor(GIM).solve(f - J.T @ (f_y + on_y @ y0))
    ydot = J @ thetadd + y0

    # (11b), (12b): all joints
    vdot = tree.vector()
    for leg, left in zip(plan.legs, legs, strict=True):
        own = [place[j] for j in leg.actuated]
        x = np.concatenate([ydot, thetadd[own], np.ones(1)])
        for j, row in left.rates.items():
            vdot[j] = row @ x
    values = np.concatenate([*(value for value, *_ in closures), np.array([coupling_value(c, q) for c in tree.couplings])])
    rates = np.concatenate([*(rate for _, rate, *_ in closures), np.array([coupling_rate(c, v) for c in tree.couplings])])
    return Solved(vdot, values, rates, pivots)


def project(tree, q, v, chart, *, plan):
    """Return the state nearest to (q, v) that meets the constraints of the plan, by kinetic energy; all pivots; and all values."""
    q, v, pivots, values = cut_joints.project(tree, q, v, chart, reference="joint", plan=plan.chosen)
    own = forward_dynamics(tree, q, v, np.zeros(tree.nv), plan=plan).pivots
    return q, v, [*pivots, *own], values


def _closure(motion, closure):
    """Return values and rates of a closure, its rows on the motions of body a and of body b, and its right-hand side."""
    at = ends(closure, motion.frames[closure.a], motion.frames[closure.b], motion.frames[-1].R)
    value, r_a, r_b = rows(closure, at)
    V_a, V_b = motion.V[closure.a], motion.V[closure.b]
    return value, r_a @ V_a + r_b @ V_b, r_a, r_b, right(closure, at, V_a, V_b)


def _follow(motion, plan, leg, B, closures):
    """Return what is left of the closure of a leg, and the rates of its joints on y, its actuated joints, and what is known. (11), (12)."""
    tree = motion.tree
    tree.mark()
    if leg.closure is None:
        on_tip = np.array(leg.rows)
        on_platform, known = -on_tip @ B, np.zeros(len(on_tip))
    else:
        _, _, r_a, r_b, gamma = (x[list(leg.rows)] for x in closures[leg.closure])
        on_platform, on_tip = (r_a, r_b) if tree.closures[leg.closure].a == plan.platform else (r_b, r_a)
        on_platform, known = on_platform @ B, -gamma
    for k in leg.bodies:
        known = known + on_tip @ motion.a[k]
    g = {j: on_tip @ motion.columns[j] for j in motion.coordinates(leg.bodies)}
    passive = [j for j in g if j not in leg.actuated]

    # inward: (11c), (11d), (12c), (12d)
    Phi, p, d = np.eye(len(known)), {}, {}
    pivots = []
    for j in reversed(passive):
        p[j] = Phi @ g[j]
        d[j] = p[j] @ p[j]
        pivots.append((d[j], g[j] @ g[j]))
        Phi = Phi - np.outer(p[j] * (1.0 / d[j]), p[j])

    # outward: (11b), (12b)
    given = np.stack([g[j] for j in leg.actuated], axis=1) if leg.actuated else np.zeros((len(known), 0))
    left = np.concatenate([on_platform, given, known[:, None]], axis=1)
    size, rates = left.shape[1], {}
    for j in g:
        if j in leg.actuated:
            unit = np.zeros(size)
            unit[B.shape[1] + leg.actuated.index(j)] = 1.0
            rates[j] = unit
        else:
            rates[j] = -(p[j] * (1.0 / d[j])) @ left
            left = left + np.outer(g[j], rates[j])
    return Followed(Phi, on_platform, given, known, rates, pivots)


def _inertia(motion, plan, leg, left, tau, wrenches):
    """Return inertia and force of a leg without the platform, on y and its actuated joints; the force is less that of tau."""
    tree, size = motion.tree, left.K.shape[1] + len(leg.actuated)
    H, h = np.zeros((size, size)).astype(object), np.zeros(size).astype(object)
    T, b = np.zeros((6, size)), np.zeros(6)
    for k in leg.bodies:
        tree.mark()
        for j in motion.coordinates((k,)):
            row, at = left.rates[j][:size], left.rates[j][size]
            T, b = T + np.outer(motion.columns[j], row), b + motion.columns[j] * at
            H = H + tree.armature[j] * np.outer(row, row)
            h = h + row * (tree.armature[j] * at - tau[j])
        b = b + motion.a[k]
        if k != plan.platform:
            H = H + T.T @ (motion.M[k] @ T)
            h = h + T.T @ _force(motion, k, b, wrenches)
    return H, h


def _platform(motion, plan, B, wrenches):
    """Return inertia and force of the platform, on y."""
    return B.T @ (motion.M[plan.platform] @ B), B.T @ _force(motion, plan.platform, np.zeros(6), wrenches)


def _force(motion, k, A, wrenches):
    """Return the force that body k needs for the acceleration A, in the world's axes; gravity is an acceleration of the ground upward."""
    tree, frame = motion.tree, motion.frames[k]
    up = np.concatenate([np.zeros(3), -(tree.ground.R @ tree.gravity)])
    return motion.M[k] @ (A + up) + frame.force(bias_wrench(tree, k, motion.body[0][k], wrenches))
