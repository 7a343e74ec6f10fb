"""The constraints of cut joints, on the velocity states of bodies at their reference points.

Source   [KY03] Kang & Yoon, On the improvement of a fully recursive formulation, (37), (44)-(46); basic constraints: `basic_constraints`.
Frames   those of `reference_points`: the axes of the ground's frame, every body at its reference point.
Cost     O(m) for m constraints

    paper   here       meaning
    Phi_Z   on_bodies  rows of the Jacobian on the velocity states of bodies, by body and constraint
    -       on_joints  coefficients of couplings on velocity coordinates, by constraint
    gamma   gamma      right-hand sides
"""

from __future__ import annotations

import numpy as np

from catena.formulations.loops.basic_constraints import constraint_rows, ends, right_hand_sides
from catena.formulations.loops.closure_kinematics import base
from catena.formulations.loops.constraints import coupling_rate, coupling_value
from catena.spatial import Rigid, cross


class CutConstraints:
    """Values and rates of all constraints, their rows on bodies and joints, by number, and right-hand sides. (37), (44)."""

    def __init__(self, tree, q, v, motion, state, reference):
        self.tree, self.on_bodies, self.on_joints, self.gamma = tree, {}, {}, []
        values, rates = [], []
        for closure in tree.closures:
            tree.mark()
            bodies = [(k, motion[k]) for k in (closure.a, closure.b)]
            on_a, on_b = (Rigid(body.A, body.r) for _, body in bodies)
            at = ends(closure.at_a, closure.at_b, on_a, on_b, motion[base(tree, closure)].A)
            value, *r = constraint_rows(closure.constraints, at)
            V = [np.concatenate([body.omega, body.r_rate - cross(body.omega, body.r)]) for _, body in bodies]
            values.append(value)
            rates.append(r[0] @ V[0] + r[1] @ V[1])
            for i, total in enumerate(right_hand_sides(closure.constraints, at, *V)):
                for (k, body), row in zip(bodies, r, strict=True):
                    if k >= 0:
                        at_reference, moved = _at_reference(row[i], body, state[k], reference)
                        self.on_bodies[k, len(self.gamma)] = at_reference
                        total = total + moved
                self.gamma.append(total)
        for coupling in tree.couplings:
            values.append(np.array([coupling_value(coupling, q)]))
            rates.append(np.array([coupling_rate(coupling, v)]))
            self.on_joints[len(self.gamma)] = dict(coupling.coefficients)
            self.gamma.append(0.0)
        tree.mark()
        self.values, self.rates = np.concatenate(values), np.concatenate(rates)

    def chosen(self, plan):
        """Return the rows of the plan on bodies and on joints, numbered as in the plan."""
        place = {row: i for i, row in enumerate(plan)}
        on_bodies = {(k, place[i]): row for (k, i), row in self.on_bodies.items() if i in place}
        return on_bodies, {place[i]: row for i, row in self.on_joints.items() if i in place}

    def residual(self, vdot, Y_rate):
        """Return what accelerations leave of all constraints."""
        residual = -np.array(self.gamma, dtype=object)
        self.tree.mark()
        for (k, i), row in self.on_bodies.items():
            residual[i] = residual[i] + row @ Y_rate[k]
        for i, row in self.on_joints.items():
            residual[i] = residual[i] + sum(c * vdot[j] for j, c in row.items())
        return residual


def _at_reference(row, body, state, reference):
    """Return a row, given at the origin, at the reference point, and what that adds to its right-hand side. (45)."""
    if reference == "origin":
        return row, 0.0
    point, force = body.r - state.e, row[3:]
    return np.concatenate([row[:3] - cross(point, force), force]), force @ cross(body.omega, state.Y[3:])
