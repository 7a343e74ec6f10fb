"""Forward dynamics of platforms on legs, by decoupled natural orthogonal complements.

Source   [SS01] Saha & Schiehlen, Recursive kinematics and dynamics for closed loop multibody systems, §IV (7)-(17), §V (18)-(34).
Frames   that of the ground: motions and forces at its origin, where the propagation of twists, A, is the identity.
Cost     O(m) for m bodies of a leg, O(n) for n legs, and the factors of two matrices, of the size of the platform's motions and of n.

    paper              here   meaning
    t_e                B y    twist of the platform, in coordinates y of the motions that the mechanism has
    p_i                a      what a unit rate of coordinate i adds to the twists of all bodies outboard of it
    Phi_i              Phi    what of the closure of a leg is left once the passive joints outboard of i have been eliminated
    p~_i, delta_i      p, d   column of coordinate i in what is left, and its square
    Phi, J             F, J   (14): y = J theta_dot
    N_l                -      tree: the twists of the bodies from the rates of all joints
    N_c                R      rates of all joints of a leg from y and the rates of its actuated ones, with y = J theta_dot
    N_d                place  of the actuated joints in theta
    M~, M-             M, H   inertia of a leg on the rates of all its joints, by composite bodies; on y and its actuated joints
    I, tau - C thetad  GIM, f generalised inertia (26), and the force on theta

The twists of a leg are those of a serial chain at the rates (11b), (12b), so that N_l^T w and N_l^T M N_l (IDA-1, FDA-1) are forces and
inertias of the tree, without loops; what is special to the platform comes after.

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

from catena.formulations.constraints import arm, arm_motion, ends, right, rows
from catena.formulations.inverse.newton_euler import bias_force
from catena.formulations.linear import cut_joints
from catena.formulations.mass.composite_body import mass_matrix
from catena.spatial import Factor, Rigid, minus_product, symmetric


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
    """A leg whose passive joints follow y and its actuated joints: what is left of its closure, and the rates of all its joints.

    The closure says K y + g theta_dot = 0 for what is left, and the same with `known` added for accelerations. Row i of `rates` has what
    y, theta_dot and 1, which stands for what is known, give coordinate i of the leg.
    """

    Phi: Any
    K: Any
    g: Any
    known: Any
    coordinates: list[int]
    rates: Any
    pivots: list[tuple[Any, Any]]


class Motion:
    """How the legs move: where their last bodies stand, and what their joints do."""

    def __init__(self, tree, q, v, plan):
        self.tree, self.columns = tree, {}
        #: of the bodies where legs end: places, velocities, and accelerations where all joints move at constant rates
        self.places, self.V, self.bias = {-1: Rigid(np.eye(3), np.zeros(3))}, {-1: np.zeros(6)}, {-1: np.zeros(6)}
        for leg in plan.legs:
            tree.mark()
            place, along = arm(tree, q, leg.bodies)
            if leg.bodies:
                tip = leg.bodies[-1]
                self.places[tip], (self.V[tip], self.bias[tip]) = place, arm_motion(tree, q, v, along)
            for k, (_, S) in along.items():
                self.columns |= dict(zip(coordinates(tree, [k]), S.T, strict=True))


def coordinates(tree, bodies):
    """Return the velocity coordinates of bodies, in order."""
    return [j for k in bodies for j in range(tree.v_slices[k].start, tree.v_slices[k].stop)]


def forward_dynamics(tree, q, v, tau, wrenches=None, *, plan):
    """Return the solution under the joint forces tau, for the actuated joints of the plan.

    `wrenches` act on the bodies: one (moment, force) for each body in its frame, at its origin, or None; last the ground's.
    """
    motion = Motion(tree, q, v, plan)
    closures = [_closure(motion, closure) for closure in tree.closures]
    legs = [_follow(motion, plan, leg, closures) for leg in plan.legs]
    J, y0, place, pivots = _platform(tree, plan, legs)

    # (26), (30), (34): inertias and forces on y and theta, leg by leg
    M, bias = mass_matrix(tree, q), bias_force(tree, q, v, wrenches)
    r, n = J.shape
    on_y, f_y = np.zeros((r, r)).astype(object), np.zeros(r).astype(object)
    GIM, f = np.zeros((n, n)).astype(object), np.zeros(n).astype(object)
    for leg, left in zip(plan.legs, legs, strict=True):
        tree.mark()
        R, at = left.rates, left.coordinates
        load = M[np.ix_(at, at)] @ R
        H = symmetric(R[:, :-1].T @ load[:, :-1])
        h = R[:, :-1].T @ (tau[at] - bias[at] - load[:, -1])
        own = [place[j] for j in leg.actuated]
        on_y, f_y = on_y + H[:r, :r], f_y + h[:r]
        crossed = J.T @ H[:r, r:]
        GIM[:, own] = GIM[:, own] + crossed
        GIM[own] = GIM[own] + crossed.T
        GIM[np.ix_(own, own)] = GIM[np.ix_(own, own)] + H[r:, r:]
        f[own] = f[own] + h[r:] - H[r:, :r] @ y0
    tree.mark()
    thetadd = Factor(GIM + symmetric(J.T @ (on_y @ J))).solve(f + J.T @ (f_y - on_y @ y0))
    ydot = J @ thetadd + y0

    # (11b), (12b): all joints
    vdot = tree.vector()
    for leg, left in zip(plan.legs, legs, strict=True):
        vdot[left.coordinates] = left.rates @ np.concatenate([ydot, thetadd[[place[j] for j in leg.actuated]], np.ones(1)])
    values, rates = (np.concatenate([x[i] for x in closures]) for i in range(2))
    return Solved(vdot, values, rates, pivots)


def project(tree, q, v, chart, *, plan):
    """Return the state nearest to (q, v) that meets the constraints of the plan, by kinetic energy; all pivots; and all values."""
    q, v, pivots, values = cut_joints.project(tree, q, v, chart, reference="joint", plan=plan.chosen)
    own = forward_dynamics(tree, q, v, np.zeros(tree.nv), plan=plan).pivots
    return q, v, [*pivots, *own], values


def _closure(motion, closure):
    """Return values and rates of a closure, its rows on the motions of body a and of body b, and its right-hand side."""
    at = ends(closure, motion.places[closure.a], motion.places[closure.b], np.eye(3))
    value, r_a, r_b = rows(closure, at)
    V_a, V_b = motion.V[closure.a], motion.V[closure.b]
    return value, r_a @ V_a + r_b @ V_b, r_a, r_b, right(closure, at, V_a, V_b)


def _follow(motion, plan, leg, closures):
    """Return what is left of the closure of a leg, and the rates of its joints. (11), (12)."""
    motion.tree.mark()
    B = np.array(plan.space).T
    if leg.closure is None:
        on_tip = np.array(leg.rows)
        K, known = -on_tip @ B, on_tip @ motion.bias[plan.platform]
    else:
        closure = motion.tree.closures[leg.closure]
        _, _, r_a, r_b, gamma = (x[list(leg.rows)] for x in closures[leg.closure])
        (K, _), (on_tip, tip) = ((r_a, closure.a), (r_b, closure.b))[:: 1 if closure.a == plan.platform else -1]
        K, known = K @ B, on_tip @ motion.bias[tip] - gamma
    own = coordinates(motion.tree, leg.bodies)
    g = {j: on_tip @ motion.columns[j] for j in own}

    # inward: (11c), (11d), (12c), (12d)
    Phi, p, scaled, pivots = np.eye(len(known)), {}, {}, []
    for j in reversed([j for j in own if j not in leg.actuated]):
        p[j] = Phi @ g[j]
        d = p[j] @ p[j]
        scaled[j] = p[j] * (1.0 / d)
        pivots.append((d, g[j] @ g[j]))
        Phi = minus_product(Phi, scaled[j][:, None], p[j][:, None])

    # outward: (11b), (12b)
    given = np.stack([g[j] for j in leg.actuated], axis=1) if leg.actuated else np.zeros((len(known), 0))
    left = np.concatenate([K, given, known[:, None]], axis=1)
    units, rates = np.eye(left.shape[1])[B.shape[1] :], []
    for j in own:
        if j in leg.actuated:
            rates.append(units[leg.actuated.index(j)])
        else:
            rates.append(-(scaled[j] @ left))
            left = left + np.outer(g[j], rates[-1])
    return Followed(Phi, K, given, known, own, np.stack(rates) if rates else np.zeros((0, left.shape[1])), pivots)


def _platform(tree, plan, legs):
    """Return J and y0, with y = J theta_dot and dy/dt = J thetadd + y0; the places of the actuated joints in theta; and pivots. (14)."""
    tree.mark()
    place = {j: n for n, j in enumerate(j for leg in plan.legs for j in leg.actuated)}
    r = len(plan.space)
    F, right, pivots = np.zeros((r, r)).astype(object), np.zeros((r, len(place) + 1)).astype(object), []
    for leg, left in zip(plan.legs, legs, strict=True):
        projected = left.K.T @ left.Phi
        F = F + symmetric(projected @ left.K)
        at = [*(place[j] for j in leg.actuated), -1]
        right[:, at] = right[:, at] - projected @ np.concatenate([left.g, left.known[:, None]], axis=1)
        pivots += [[(plan.chosen[0], *pair)] for pair in left.pivots]
    factor = Factor(F)
    pivots += [[(plan.chosen[0], 1.0 / w, F[i, i])] for i, w in enumerate(factor.w)]
    solved = np.stack([factor.solve(column) for column in right.T], axis=1)
    return solved[:, :-1], solved[:, -1], place, pivots
