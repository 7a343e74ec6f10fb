"""Forward dynamics with loops: joints are cut, and multipliers hold the constraints of the cut joints.

Source   [KY03] Kang & Yoon, On the improvement of a fully recursive formulation, (37)-(46).
Frames   those of `reference_points`: the axes of the ground's frame, every body at its reference point.
Cost     O(n m + m^3) for n bodies and m constraints

    paper        here     meaning
    Phi_Z        row      row of the Jacobian on the velocity state of a body; after (40) of the body and all that it carries, joints free
    Phi_Z2       c        the same on the joint's own coordinates; a coupling adds its coefficients here
    Phi_lambda   A        reduced matrix
    gamma        gamma    right-hand side
    lambda       force    multipliers

Rows of redundant constraints are left out by the plan: which rows are independent is a matter of the configuration, and is decided outside.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.formulations.constraints import base, coupling_rate, coupling_value, ends, right, rows
from catena.formulations.linear.fully_recursive import accelerate, eliminate
from catena.formulations.linear.reference_points import states
from catena.spatial import Factor, Rigid, cross, reciprocal


class Solved(NamedTuple):
    """Accelerations and multipliers; values and rates of all constraints, and what the accelerations leave of them; pivots of the chosen.

    Each pivot is compared with the entry of its own row: both depend on masses. `rows` has the chosen constraints on the velocity
    coordinates, where joints outboard of each are free: they vanish where those of the Jacobian do.
    """

    vdot: Any
    force: Any
    values: Any
    rates: Any
    residual: Any
    pivots: Any
    rows: Any


def forward_dynamics(tree, q, v, tau, wrenches=None, *, reference, plan):
    """Return the solution under the joint forces tau, with the constraints whose numbers are in the plan.

    `wrenches` act on the bodies: one (moment, force) for each body in its frame, at its origin, or None; last the ground's.
    """
    motion, state = states(tree, q, v, reference, wrenches)
    M22, G, Q2 = eliminate(tree, state, tau)
    loops = _Constraints(tree, q, v, motion, state, reference)
    carried, c = _transfer(tree, state, G, *loops.chosen(plan))
    A, left = _reduced(tree, state, M22, Q2, carried, c, [loops.gamma[i] for i in plan])
    factor = Factor(A)
    force = factor.solve(left)
    vdot, Y_rate = _accelerations(tree, state, M22, G, Q2, c, force)
    rows = {row: _on_coordinates(tree, c, i) for i, row in enumerate(plan)}
    return Solved(vdot, force, loops.values, loops.rates, loops.residual(vdot, Y_rate), _pivots(plan, A, factor), rows)


def project(tree, q, v, moved, *, reference, plan):
    """Return the state nearest to (q, v) that meets the constraints of the plan, by kinetic energy; their pivots; and all values.

    Positions move by `moved(q, change)` in two steps of Newton's, which take an error e to about e^4.
    """
    for _ in range(2):
        change, _, _ = _change(tree, q, np.zeros(tree.nv), reference, plan, of_rates=False)
        q = moved(q, change)
    change, pivots, values = _change(tree, q, v, reference, plan, of_rates=True)
    return q, v + change, pivots, values


def _change(tree, q, v, reference, chosen, of_rates):
    """Return the smallest change that takes the values of the chosen constraints, or their rates, to zero; their pivots, and all values."""
    motion, state = states(tree, q, v, reference)
    M22, G, _ = eliminate(tree, state, np.zeros(tree.nv))
    loops = _Constraints(tree, q, v, motion, state, reference)
    _, c = _transfer(tree, state, G, *loops.chosen(chosen))
    still = [np.zeros(at.stop - at.start) for at in tree.v_slices]
    left = -(loops.rates if of_rates else loops.values)[list(chosen)]
    A, _ = _reduced(tree, state, M22, still, {}, c, left)
    factor = Factor(A)
    at_rest = [body._replace(D=np.zeros(6)) for body in state]
    return _accelerations(tree, at_rest, M22, G, still, c, factor.solve(left))[0], _pivots(chosen, A, factor), loops.values


def _on_coordinates(tree, c, i):
    """Return a constraint of the plan on the velocity coordinates that it moves, those outboard of each free."""
    found = {}
    for (k, own), entries in c.items():
        if own == i:
            found |= dict(zip(range(tree.v_slices[k].start, tree.v_slices[k].stop), entries, strict=True))
    return found


def _pivots(chosen, A, factor):
    """Return of each constraint what those after it leave of its entry in the reduced matrix, and that entry; each for itself."""
    return [[(row, reciprocal(w), A[i, i])] for i, (row, w) in enumerate(zip(chosen, factor.w, strict=True))]


class _Constraints:
    """Values and rates of all constraints, their rows on bodies and joints, by number, and right-hand sides. (37), (44)."""

    def __init__(self, tree, q, v, motion, state, reference):
        self.tree, self.on_bodies, self.on_joints, self.gamma = tree, {}, {}, []
        values, rates = [], []
        for closure in tree.closures:
            tree.mark()
            bodies = [(k, motion[k]) for k in (closure.a, closure.b)]
            on_a, on_b = (Rigid(body.A, body.r) for _, body in bodies)
            at = ends(closure, on_a, on_b, motion[base(tree, closure)].A)
            value, *r = rows(closure, at)
            V = [np.concatenate([body.omega, body.r_rate - cross(body.omega, body.r)]) for _, body in bodies]
            values.append(value)
            rates.append(r[0] @ V[0] + r[1] @ V[1])
            for i, total in enumerate(right(closure, at, *V)):
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
        """Return the rows of the plan, counted as there."""
        place = {row: i for i, row in enumerate(plan)}
        on_bodies = {(k, place[i]): row for (k, i), row in self.on_bodies.items() if i in place}
        return on_bodies, {place[i]: row for i, row in self.on_joints.items() if i in place}

    def residual(self, vdot, Y_rate):
        """Return what accelerations leave of all constraints."""
        found = -np.array(self.gamma, dtype=object)
        self.tree.mark()
        for (k, i), row in self.on_bodies.items():
            found[i] = found[i] + row @ Y_rate[k]
        for i, row in self.on_joints.items():
            found[i] = found[i] + sum(c * vdot[j] for j, c in row.items())
        return found


def _at_reference(row, body, state, reference):
    """Return a row, given at the origin, at the reference point, and what that adds to its right-hand side. (45)."""
    if reference == "origin":
        return row, 0.0
    point, force = body.r - state.e, row[3:]
    return np.concatenate([row[:3] - cross(point, force), force]), force @ cross(body.omega, state.Y[3:])


def _transfer(tree, state, G, on_bodies, on_joints):
    """Return the rows on all bodies, joints free, and on the joints. (39), (40)."""
    carried, c = dict(on_bodies), {}
    for k in tree.inward():
        p, at, (B1, B2, *_) = tree.parent[k], tree.v_slices[k], state[k]
        own = range(at.start, at.stop)
        for i in sorted({i for body, i in carried if body == k} | {i for i, row in on_joints.items() if any(j in row for j in own)}):
            row = carried.get((k, i), np.zeros(6))
            c[k, i] = B2.T @ row
            if i in on_joints:
                c[k, i] = c[k, i] + np.array([on_joints[i].get(j, 0.0) for j in own])
            if p >= 0:
                shifted = B1.force(row - G[k] @ c[k, i])
                carried[p, i] = carried[p, i] + shifted if (p, i) in carried else shifted
    return carried, c


def _reduced(tree, state, M22, Q2, carried, c, gamma):
    """Return the reduced matrix and its right-hand side. (41)."""
    m = len(gamma)
    A, left = np.zeros((m, m)).astype(object), np.array(gamma, dtype=object)
    for k in tree.inward():
        here = [i for i in range(m) if (k, i) in c]
        solved = {i: M22[k].solve(c[k, i]) for i in here}
        for i in here:
            left[i] = left[i] - solved[i] @ Q2[k]
            if (k, i) in carried:
                left[i] = left[i] - carried[k, i] @ state[k].D
            for j in here:
                if j <= i:
                    A[i, j] = A[j, i] = A[i, j] + solved[i] @ c[k, j]
    return A, left


def _accelerations(tree, state, M22, G, Q2, c, force):
    """Return vdot, and the derivatives of the velocity states. (43): the joint forces with what the multipliers add to them."""
    load = list(Q2)
    for k, i in c:
        load[k] = load[k] + c[k, i] * force[i]
    return accelerate(tree, state, M22, G, load)
