"""A platform on legs at a state: its motion, and the rates of all joints, from those of the actuated joints.

Source   [SS01] Saha & Schiehlen, Recursive kinematics and dynamics for closed loop multibody systems, §IV (7), (14).
         (8)-(13): `leg_kinematics`.
Frames   that of the ground: motions and forces at its origin, where the propagation of twists, A, is the identity.
Cost     O(m) for m bodies of a leg, O(n) for n legs, and the factors of a matrix of the size of the platform's motions

    paper   here     meaning
    t_e     B y      twist of the platform, in coordinates y of the motions that the mechanism has
    p_i     columns  what a unit rate of coordinate i adds to the twists of all bodies outboard of it
    Phi, J  F, J     (14): F y = -(sum of what the legs give), y = J theta_dot

A leg of the paper ends in a body that is part of the platform. In catena one leg carries the platform, and its end is the platform; the
others end at joints that close loops. Such a joint has no coordinates: its constraints are what is left of the closure where the paper has
eliminated its rates, so that the projections begin with as many rows as the joint has constraints, not with six.

For mechanisms whose platforms have fewer than six motions, all in planes or about one point, Phi of (14a) is singular in six dimensions.
B is a basis of the motions that the leg which carries the platform can give it in any configuration, seen at a fixed point: the platform
has no others, on whatever branch it is. Phi is singular on B where a motion is left to the platform with its actuated joints held. Where no
leg carries the platform and its own joint leaves it free, y are the rates of that joint, and B its joint matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.formulations.linear.leg_kinematics import FreePlatform, LegKinematics
from catena.formulations.loops.basic_constraints import constraint_rows, ends, right_hand_sides, row_ranges
from catena.formulations.loops.closure_kinematics import branch_motion, branch_placements, velocity_coordinates
from catena.formulations.loops.solutions import LoopSolution
from catena.spatial import Factor, Rigid, columns, reciprocal, symmetric


class Platform:
    """A platform on legs at a state: how its legs and its joints move with the actuated ones.

    With velocities v, `rates` are accelerations. `units` measure the constraints of all loops, if lengths and angles are to be compared;
    they are not for accelerations.
    """

    def __init__(self, tree, q, plan, v=None, units=None):
        self.tree, self.plan = tree, plan
        self.place = {j: n for n, j in enumerate(j for leg in plan.legs for j in leg.actuated)}
        self._move_bodies(q, v)

        # y: coordinates of the platform's motions, or the rates of the joint that it is free in
        if plan.space is None:
            self.B = np.stack([self.columns[j] for j in velocity_coordinates(tree, [plan.platform])], axis=1)
        else:
            self.B = np.array(plan.space).reshape(-1, 6).T

        self.legs, self.closures, self._values, self._rates = [], [], [np.zeros(0)], [np.zeros(0)]
        for leg in plan.legs:
            tree.mark()
            self.legs.append(self._carrying_leg(leg) if leg.closure is None else self._closing_leg(leg, v, units))
        self.values, self.constraint_rates = np.concatenate(self._values), np.concatenate(self._rates)

        # (14a)
        tree.mark()
        self.F = np.sum([symmetric(leg.projected @ leg.K) for leg in self.legs], axis=0)
        self.factor = Factor(self.F)
        # without units
        self.pivots = [[pivot] for leg in self.legs for pivot in leg.pivots]
        for i, (w, size) in enumerate(zip(self.factor.w, plan.stiffness, strict=False)):
            self.pivots.append([(None, reciprocal(w * size), self.F[i, i] * (1.0 / size))])

    def _move_bodies(self, q, v):
        """Find placements, velocities and bias accelerations of the last bodies of all legs, and the columns of all coordinates. (7)."""
        tree, rest = self.tree, {-1: np.zeros(6)}
        self._placements, self._V, bias, self.columns = {-1: Rigid(np.eye(3), np.zeros(3))}, rest, dict(rest), {}
        for leg in self.plan.legs:
            tree.mark()
            placement, along = branch_placements(tree, q, leg.bodies)
            if leg.bodies:
                tip = leg.bodies[-1]
                self._placements[tip] = placement
                self._V[tip], bias[tip] = branch_motion(tree, q, np.zeros(tree.nv) if v is None else v, along)
            for k, (_, S) in along.items():
                self.columns |= dict(zip(velocity_coordinates(tree, [k]), S.T, strict=True))
        self.end = self._placements[self.plan.platform]
        self._known = self._V if v is None else bias  # rates, or accelerations, where the joints have none

    def _carrying_leg(self, leg):
        """Return the leg that carries the platform: its tip moves with the platform."""
        coordinates = velocity_coordinates(self.tree, leg.bodies)
        if self.plan.space is None:
            return FreePlatform(leg, velocity_coordinates(self.tree, [self.plan.platform]))
        on_tip = np.array(leg.rows).reshape(-1, 6)
        known = on_tip @ self._known[self.plan.platform]
        return LegKinematics(leg, coordinates, -on_tip, on_tip, self.B, self.columns, known, self.plan.reach)

    def _closing_leg(self, leg, v, units):
        """Return a leg that ends at a closing joint: the constraints of that joint tie its tip to the platform."""
        tree, closure, V = self.tree, self.tree.closures[leg.closure], self._V
        at = ends(closure.at_a, closure.at_b, self._placements[closure.a], self._placements[closure.b], np.eye(3))
        value, r_a, r_b = constraint_rows(closure.constraints, at)
        self._values.append(value)
        self._rates.append(r_a @ V[closure.a] + r_b @ V[closure.b])
        g = np.zeros(len(value)) if v is None else right_hand_sides(closure.constraints, at, V[closure.a], V[closure.b])
        sides = (r_a, closure.a), (r_b, closure.b)
        self.closures.append((closure, r_a, r_b, sum(r @ self._known[k] for r, k in sides) - g))

        (on_platform, _), (on_tip, tip) = sides if closure.a == self.plan.platform else sides[::-1]
        chosen, weights = list(leg.rows), np.array(leg.weights)
        if units is not None:
            rows = row_ranges(tree.closures)[leg.closure]
            weights = 1.0 / np.array([units[rows[i]] for i in chosen])
        on_platform, on_tip = on_platform[chosen] * weights[:, None], on_tip[chosen] * weights[:, None]
        known = on_tip @ self._known[tip]
        if v is not None:
            drift = self._known[self.plan.platform] if self.plan.space is None else np.zeros(6)
            known = known + on_platform @ drift - g[chosen] * weights
        coordinates = velocity_coordinates(tree, leg.bodies)
        return LegKinematics(leg, coordinates, on_platform, on_tip, self.B, self.columns, known, self.plan.reach)

    def of_leg(self, leg, theta):
        """Return the part of a vector of all actuated joints that belongs to a leg."""
        return theta[[self.place[j] for j in leg.leg.actuated]]

    def motion(self, theta):
        """Return y for rates, or accelerations, of the actuated joints. (14a)."""
        return -self.factor.solve(sum(leg.projected @ (leg.given @ self.of_leg(leg, theta) + leg.known) for leg in self.legs))

    def jacobian(self):
        """Return J and y0 of y = J theta_dot + y0. (14b)."""
        right = np.zeros((len(self.F), len(self.place) + 1)).astype(object)
        for leg in self.legs:
            at = [*(self.place[j] for j in leg.leg.actuated), -1]
            right[:, at] = right[:, at] - leg.projected @ np.concatenate([leg.given, leg.known[:, None]], axis=1)
        solved = columns(self.factor.solve, right)
        return solved[:, :-1], solved[:, -1]

    def rates(self, theta):
        """Return the rates, or accelerations, of all joints for those of the actuated ones. (11b), (12b)."""
        return self.joint_rates(self.motion(theta), theta)

    def joint_rates(self, y, theta):
        """Return the rates, or accelerations, of all joints for those of the platform and of the actuated ones."""
        rates = self.tree.vector()
        for leg in self.legs:
            self.tree.mark()
            own = self.of_leg(leg, theta)
            rates[leg.coordinates] = leg.rates(leg.K @ y + leg.given @ own + leg.known, own)
        return rates

    def forces(self, w):
        """Return what forces w on all joints are on the actuated ones: the transpose of `rates`. IDA-2, IDA-3: (22), (24)."""
        on_actuated, on_y = np.zeros(len(self.place)).astype(object), np.zeros(len(self.F))
        for leg in self.legs:
            self.tree.mark()
            share, on_actuated[[self.place[j] for j in leg.leg.actuated]] = leg.forces(w[leg.coordinates])
            on_y = on_y + share
        self.tree.mark()
        z = self.factor.solve(on_y)
        for leg in self.legs:
            at = [self.place[j] for j in leg.leg.actuated]
            on_actuated[at] = on_actuated[at] - leg.given.T @ (leg.projected.T @ z)
        return on_actuated

    def solution(self, vdot):
        """Return the solution with accelerations, or rates, of all joints, and what these leave of all constraints."""
        tips: dict[int, Any] = {-1: np.zeros(6)}
        for leg in self.plan.legs:
            if leg.bodies:
                moved = (self.columns[j] * vdot[j] for j in velocity_coordinates(self.tree, leg.bodies))
                tips[leg.bodies[-1]] = sum(moved, np.zeros(6))
        self.tree.mark()
        residual = [r_a @ tips[closure.a] + r_b @ tips[closure.b] + known for closure, r_a, r_b, known in self.closures]
        return LoopSolution(vdot, self.values, self.constraint_rates, np.concatenate([np.zeros(0), *residual]), self.pivots)

    def stiffness(self):
        """Return the diagonal of F before passive joints are eliminated."""
        legs = [leg for leg in self.legs if isinstance(leg, LegKinematics)]
        return np.sum([np.zeros(len(self.F)), *((leg.K * leg.K).sum(axis=0) for leg in legs)], axis=0)
