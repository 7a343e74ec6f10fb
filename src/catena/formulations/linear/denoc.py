"""Kinematics and dynamics of platforms on legs, by decoupled natural orthogonal complements.

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

For mechanisms whose platforms have fewer than six motions, all in planes or about one point, Phi of (14a) is singular in six dimensions.
B is a basis of the motions that the leg which carries the platform can give it in any configuration, seen at a fixed point: the platform
has no others, on whatever branch it is. Phi is singular on B where a motion is left to the platform with its actuated joints held. Where no
leg carries the platform and its own joint leaves it free, y are the rates of that joint, and B its joint matrix.

Which joints are actuated is part of the plan: as many as there are degrees of freedom, on any legs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from catena.formulations.constraints import arm, arm_motion, branch, ends, right, row_count, rows
from catena.formulations.inverse import newton_euler
from catena.formulations.inverse.newton_euler import bias_force
from catena.formulations.linear import cut_joints
from catena.formulations.mass.composite_body import mass_matrix
from catena.spatial import Factor, Rigid, minus_product, reciprocal, symmetric


class Leg(NamedTuple):
    """A leg: its bodies from the base on; the closure at its end, or None where it carries the platform, which then is its last body.

    `rows` are the constraints of the closure that are independent, or a basis of the motions that the leg gives the platform; `actuated`
    are the coordinates that are given. `weights` turn the values of the rows into lengths, to be compared with `size`.
    """

    bodies: tuple[int, ...]
    closure: int | None
    rows: tuple[Any, ...]
    actuated: tuple[int, ...]
    weights: tuple[float, ...] = ()
    size: float = 1.0


@dataclass(frozen=True)
class Plan:
    """The platform, the legs, and a basis of the platform's motions, or none where its joint leaves it free.

    `chosen` are the constraints of all legs, and give the plan's length. `motions` counts the motions that the platform has on the branch
    of the plan: no more than the basis has. Pivots are compared with squares of lengths: `reach` is what the velocity coordinates are
    measured by, and `stiffness` what F has on its diagonal before passive joints are eliminated, where the plan was made.
    """

    platform: int
    legs: tuple[Leg, ...]
    space: tuple[tuple[float, ...], ...] | None
    chosen: tuple[int, ...]
    motions: int
    reach: tuple[float, ...]
    stiffness: tuple[float, ...] = ()

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
    legs: list[Any] = [(tuple(branch(tree, platform, -1)), None)]
    for i, closure in enumerate(tree.closures):
        legs.append((tuple(branch(tree, closure.b if closure.a == platform else closure.a, -1)), i))
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


def lacking(tree):
    """Return what a tree lacks to be a platform on legs, or nothing."""
    found = structure(tree)
    return found if isinstance(found, str) else ""


class Solved(NamedTuple):
    """Accelerations; values and rates of all constraints, and what the accelerations leave of them; pivots as in `coordinate_reduction`."""

    vdot: Any
    values: Any
    rates: Any
    residual: Any
    pivots: Any


def coordinates(tree, bodies):
    """Return the velocity coordinates of bodies, in order."""
    return [j for k in bodies for j in range(tree.v_slices[k].start, tree.v_slices[k].stop)]


class Followed:
    """A leg whose passive joints follow the platform and the actuated joints.

    Its closure says K y + g theta_dot + known = 0 for what is left once the passive joints are eliminated: K y for the platform, g for the
    actuated joints, and `known` for what is given besides.
    """

    def __init__(self, leg, own, on_platform, on_tip, B, columns, known, reach):
        self.leg, self.coordinates, self.known = leg, own, known
        self.on_platform, self.on_tip, self.K = on_platform, on_tip, on_platform @ B
        self.g = {j: on_tip @ columns[j] for j in own}
        self.given = np.stack([self.g[j] for j in leg.actuated], axis=1) if leg.actuated else np.zeros((len(known), 0))
        self.scaled, self.pivots = {}, []

        # inward: (11c), (11d), (12c), (12d)
        Phi = np.eye(len(known))
        for j in reversed([j for j in own if j not in leg.actuated]):
            p = Phi @ self.g[j]
            d = p @ p
            self.scaled[j] = p * reciprocal(d)
            unit = (reach[j] / leg.size) ** 2
            self.pivots.append((None, d * unit, self.g[j] @ self.g[j] * unit))
            Phi = minus_product(Phi, self.scaled[j][:, None], p[:, None])
        self.Phi = Phi
        self.projected = self.K.T @ Phi

    def rates(self, left, theta):
        """Return the rates of all joints, outward: (11b), (12b); left is K y + g theta_dot + known, of vectors or of columns."""
        found = []
        for j in self.coordinates:
            if j in self.leg.actuated:
                found.append(theta[self.leg.actuated.index(j)])
            else:
                found.append(-(self.scaled[j] @ left))
                left = left + np.multiply.outer(self.g[j], found[-1])
        return np.array(found, dtype=object).reshape(len(self.coordinates), *np.shape(left)[1:])

    def forces(self, w):
        """Return what forces w on all joints are on y, and on the actuated joints: the transpose of `rates`, inward."""
        on_left, on_given = np.zeros(len(self.known)), {}
        for n, j in reversed(list(enumerate(self.coordinates))):
            if j in self.leg.actuated:
                on_given[j] = w[n]
            else:
                on_left = on_left - self.scaled[j] * (w[n] + self.g[j] @ on_left)
        own = np.array([on_given[j] + self.g[j] @ on_left for j in self.leg.actuated], dtype=object)
        return self.K.T @ on_left, own


class Afloat:
    """What carries a platform whose joint leaves it free: y are the rates of that joint, and nothing is left to follow. As `Followed`."""

    def __init__(self, leg, own):
        self.leg, self.coordinates, self.pivots = leg, own, []
        self.K, self.given, self.known = np.eye(len(own)), np.zeros((len(own), 0)), np.zeros(len(own))
        self.projected = np.zeros((len(own), len(own)))

    def rates(self, left, theta):
        return left

    def forces(self, w):
        return w, np.zeros(0)


class Platform:
    """A platform on legs at a state: how its legs and its joints follow the actuated ones.

    With velocities v, accelerations follow; without, rates. `units` measure the constraints of all loops, if lengths and angles are to be
    compared; they are not for accelerations.
    """

    def __init__(self, tree, q, plan, v=None, units=None):
        self.tree, self.plan = tree, plan
        first = np.cumsum([0, *map(row_count, tree.closures)])
        self.place = {j: n for n, j in enumerate(j for leg in plan.legs for j in leg.actuated)}
        places, V, bias = {-1: Rigid(np.eye(3), np.zeros(3))}, {-1: np.zeros(6)}, {-1: np.zeros(6)}
        self.columns = {}
        for leg in plan.legs:
            tree.mark()
            place, along = arm(tree, q, leg.bodies)
            if leg.bodies:
                tip = leg.bodies[-1]
                places[tip], (V[tip], bias[tip]) = place, arm_motion(tree, q, np.zeros(tree.nv) if v is None else v, along)
            for k, (_, S) in along.items():
                self.columns |= dict(zip(coordinates(tree, [k]), S.T, strict=True))

        # what y is: coordinates of the platform's motions, or the rates of the joint that it is free in
        free = coordinates(tree, [plan.platform])
        afloat = plan.space is None
        B = np.stack([self.columns[j] for j in free], axis=1) if afloat else np.array(plan.space).reshape(-1, 6).T
        adrift = bias[plan.platform] if afloat else np.zeros(6)
        self.B, self.end = B, places[plan.platform]

        # the closures: values and rates, and what moves them besides the joints
        self.legs, self.closures, values, rates = [], [], [np.zeros(0)], [np.zeros(0)]
        for leg in plan.legs:
            tree.mark()
            if leg.closure is None and afloat:
                self.legs.append(Afloat(leg, free))
                continue
            if leg.closure is None:
                on_tip = np.array(leg.rows).reshape(-1, 6)
                on_platform, known = -on_tip, on_tip @ (V if v is None else bias)[plan.platform]
            else:
                closure = tree.closures[leg.closure]
                at = ends(closure, places[closure.a], places[closure.b], np.eye(3))
                value, r_a, r_b = rows(closure, at)
                rate = r_a @ V[closure.a] + r_b @ V[closure.b]
                values.append(value)
                rates.append(rate)
                g = np.zeros(len(value)) if v is None else right(closure, at, V[closure.a], V[closure.b])
                known = sum(r @ (V if v is None else bias)[k] for r, k in ((r_a, closure.a), (r_b, closure.b)))
                self.closures.append((closure, r_a, r_b, known - g))
                (on_platform, _), (on_tip, tip) = ((r_a, closure.a), (r_b, closure.b))[:: 1 if closure.a == plan.platform else -1]
                chosen = list(leg.rows)
                on_platform, on_tip = on_platform[chosen], on_tip[chosen]
                weights = np.array(leg.weights)
                if units is not None:
                    weights = 1.0 / np.array(units)[first[leg.closure] + np.array(chosen, dtype=int)]
                on_platform, on_tip = on_platform * weights[:, None], on_tip * weights[:, None]
                known = on_tip @ (V if v is None else bias)[tip]
                if v is not None:
                    known = known + on_platform @ adrift - g[chosen] * weights
            self.legs.append(Followed(leg, coordinates(tree, leg.bodies), on_platform, on_tip, B, self.columns, known, plan.reach))
        self.values, self.opening = np.concatenate(values), np.concatenate(rates)

        # (14a)
        tree.mark()
        self.F = np.sum([symmetric(leg.projected @ leg.K) for leg in self.legs], axis=0)
        self.factor = Factor(self.F)
        # without units
        self.pivots = [[pivot] for leg in self.legs for pivot in leg.pivots]
        for i, (w, size) in enumerate(zip(self.factor.w, plan.stiffness, strict=False)):
            self.pivots.append([(None, reciprocal(w * size), self.F[i, i] * (1.0 / size))])

    def stiffness(self):
        """Return the diagonal of F before passive joints are eliminated."""
        return np.sum([np.zeros(len(self.F)), *((leg.K * leg.K).sum(axis=0) for leg in self.legs if isinstance(leg, Followed))], axis=0)

    def solved(self, vdot):
        """Return the solution with accelerations, or rates, of all joints."""
        return Solved(vdot, self.values, self.opening, self.residual(vdot), self.pivots)

    def residual(self, vdot):
        """Return what accelerations, or rates, of all joints leave of all constraints."""
        moved: dict[int, Any] = {-1: np.zeros(6)}
        for leg in self.plan.legs:
            if leg.bodies:
                moved[leg.bodies[-1]] = sum(self.columns[j] * vdot[j] for j in coordinates(self.tree, leg.bodies))
        self.tree.mark()
        found = [r_a @ moved[closure.a] + r_b @ moved[closure.b] + known for closure, r_a, r_b, known in self.closures]
        return np.concatenate([np.zeros(0), *found])

    def own(self, leg, theta):
        """Return what the actuated joints of a leg have of a vector for all of them."""
        return theta[[self.place[j] for j in leg.leg.actuated]]

    def motion(self, theta):
        """Return y for rates, or accelerations, of the actuated joints. (14a)."""
        return -self.factor.solve(sum(leg.projected @ (leg.given @ self.own(leg, theta) + leg.known) for leg in self.legs))

    def jacobian(self):
        """Return J and y0 of y = J theta_dot + y0. (14b)."""
        right = np.zeros((len(self.F), len(self.place) + 1)).astype(object)
        for leg in self.legs:
            at = [*(self.place[j] for j in leg.leg.actuated), -1]
            right[:, at] = right[:, at] - leg.projected @ np.concatenate([leg.given, leg.known[:, None]], axis=1)
        solved = np.stack([self.factor.solve(column) for column in right.T], axis=1)
        return solved[:, :-1], solved[:, -1]

    def rates(self, theta):
        """Return the rates, or accelerations, of all joints for those of the actuated ones. (11b), (12b)."""
        return self.follow(self.motion(theta), theta)

    def follow(self, y, theta):
        """Return the rates, or accelerations, of all joints for those of the platform and of the actuated ones."""
        found = self.tree.vector()
        for leg in self.legs:
            self.tree.mark()
            own = self.own(leg, theta)
            found[leg.coordinates] = leg.rates(leg.K @ y + leg.given @ own + leg.known, own)
        return found

    def forces(self, w):
        """Return what forces w on all joints are on the actuated ones: the transpose of `rates`. IDA-2, IDA-3: (22), (24)."""
        found, on_y = np.zeros(len(self.place)).astype(object), np.zeros(len(self.F))
        for leg in self.legs:
            self.tree.mark()
            share, found[[self.place[j] for j in leg.leg.actuated]] = leg.forces(w[leg.coordinates])
            on_y = on_y + share
        self.tree.mark()
        z = self.factor.solve(on_y)
        for leg in self.legs:
            at = [self.place[j] for j in leg.leg.actuated]
            found[at] = found[at] - leg.given.T @ (leg.projected.T @ z)
        return found


def inverse_dynamics(tree, q, v, acceleration, force, wrenches=None, *, plan):
    """Return the joint forces that the actuated joints of the plan need for their accelerations, where `force` acts on all joints; and the
    solution of the kinematics.

    `wrenches` act on the bodies: one (moment, force) for each body in its frame, at its origin, or None; last the ground's.
    """
    platform = Platform(tree, q, plan, v)
    vdot = platform.rates(acceleration)
    tau = platform.forces(newton_euler.inverse_dynamics(tree, q, v, vdot, wrenches) - force)
    return tau, platform.solved(vdot)


def generalised_inertia(platform, q):
    """Return the inertia on the actuated joints of a platform at q. (26)."""
    return _inertia(platform, platform.jacobian()[0], mass_matrix(platform.tree, q))[0]


def forward_dynamics(tree, q, v, tau, wrenches=None, *, plan):
    """Return the solution under the joint forces tau, for the actuated joints of the plan.

    `wrenches` act on the bodies: one (moment, force) for each body in its frame, at its origin, or None; last the ground's.
    """
    platform = Platform(tree, q, plan, v)
    J, y0 = platform.jacobian()
    GIM, f = _inertia(platform, J, mass_matrix(tree, q), y0, tau - bias_force(tree, q, v, wrenches))
    thetadd = Factor(GIM).solve(f)
    return platform.solved(platform.follow(J @ thetadd + y0, thetadd))


def _inertia(platform, J, M, y0=None, force=None):
    """Return inertia, and force if given, on the actuated joints, from those on all joints. FDA-2, FDA-3: (30), (34)."""
    r, n = J.shape
    on_y, f_y = np.zeros((r, r)).astype(object), np.zeros(r).astype(object)
    GIM, f = np.zeros((n, n)).astype(object), np.zeros(n).astype(object)
    for leg in platform.legs:
        platform.tree.mark()
        at, own = leg.coordinates, [platform.place[j] for j in leg.leg.actuated]
        columns = [leg.K, leg.given] if force is None else [leg.K, leg.given, leg.known[:, None]]
        left = np.concatenate(columns, axis=1)
        R = leg.rates(left, np.eye(left.shape[1])[r:])
        load = M[np.ix_(at, at)] @ R
        H = symmetric(R[:, : r + len(own)].T @ load[:, : r + len(own)])
        on_y = on_y + H[:r, :r]
        crossed = J.T @ H[:r, r:]
        GIM[:, own] = GIM[:, own] + crossed
        GIM[own] = GIM[own] + crossed.T
        GIM[np.ix_(own, own)] = GIM[np.ix_(own, own)] + H[r:, r:]
        if force is not None:
            h = R[:, :-1].T @ (force[at] - load[:, -1])
            f_y, f[own] = f_y + h[:r], f[own] + h[r:] - H[r:, :r] @ y0
    platform.tree.mark()
    GIM = GIM + symmetric(J.T @ (on_y @ J))
    return GIM, None if force is None else f + J.T @ (f_y - on_y @ y0)


def project(tree, q, v, moved, *, plan):
    """Return the state nearest to (q, v) that meets the constraints of the plan, by kinetic energy; all pivots; and all values."""
    q, v, pivots, values = cut_joints.project(tree, q, v, moved, reference="joint", plan=plan.chosen)
    return q, v, [*pivots, *Platform(tree, q, plan).pivots], values


def complements(platform):
    """Return N_l, N_c, N_d and the coordinates whose bodies they are for, at the origin of the ground. (15)-(17).

    Every velocity coordinate has a body of its own: joints of several coordinates are products of joints with one. The factor
    (1/delta_i) p_i p~_i^T of (15), which (16c) lost, is in N_c.
    """
    own = [j for leg in platform.legs for j in leg.coordinates]
    at = {j: slice(6 * n, 6 * n + 6) for n, j in enumerate(own)}
    given = {j: slice(6 * n, 6 * n + 6) for j, n in platform.place.items()}
    bodies, motors = 6 * len(own), 6 * len(given)
    N_l, N_c, N_d = np.zeros((bodies, bodies)), np.zeros((bodies, motors)), np.zeros((motors, len(given)))

    # t_e from the twists that the actuated joints give: (14a), as (16e) has it
    to_platform = np.zeros((6, 6 * len(given)))
    for leg in platform.legs:
        for j in leg.leg.actuated:
            columns = [platform.B @ platform.factor.solve(-(leg.projected @ x)) for x in leg.on_tip.T]
            to_platform[:, given[j]] = np.stack(columns, axis=1)
    for leg in platform.legs:
        before = None
        for n, j in enumerate(leg.coordinates):
            Psi = np.eye(6)
            if j in leg.leg.actuated:
                N_c[at[j], given[j]] = np.eye(6)
                N_d[given[j], platform.place[j]] = platform.columns[j]
            else:
                row, column = leg.scaled[j], platform.columns[j]
                on_own = np.outer(column, row @ leg.on_tip).astype(float)
                Psi = Psi - on_own
                N_c[at[j]] = -np.outer(column, row @ leg.on_platform @ to_platform)
                for k in leg.leg.actuated:
                    if leg.coordinates.index(k) > n:
                        N_c[at[j], given[k]] -= on_own
            if before is not None:
                N_l[at[j]] = Psi @ N_l[at[before]]
            N_l[at[j], at[j]] = np.eye(6)
            before = j
    return N_l, N_c, N_d, own
