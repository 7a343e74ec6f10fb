"""Forward dynamics with loops: joints are cut, and multipliers hold the constraints of the cut joints.

Source   [KY03] Kang & Yoon, On the improvement of a fully recursive formulation, (38)-(43). Rows and right-hand sides: `cut_constraints`.
Frames   those of `reference_points`: the axes of the ground's frame, every body at its reference point.
Cost     O(n m + m^3) for n bodies and m constraints

    paper        here         meaning
    Phi_Z        row          row of the Jacobian on the velocity state of a body; after (40) of all that it carries too, joints free
    Phi_Z2       c            the same on the joint's own coordinates; a coupling adds its coefficients here
    Phi_lambda   A            reduced matrix
    gamma        gamma        right-hand side
    lambda       multipliers  multipliers

Rows of redundant constraints are left out by the plan: which rows are independent is a matter of the configuration, and is decided outside.
"""

from __future__ import annotations

import numpy as np

from catena.formulations.linear.cut_constraints import CutConstraints
from catena.formulations.linear.fully_recursive import accelerate, eliminate
from catena.formulations.linear.reference_points import states
from catena.formulations.loops.closure_kinematics import velocity_coordinates
from catena.formulations.loops.solutions import LoopSolution
from catena.spatial import Factor, reciprocal


def forward_dynamics(tree, q, v, tau, wrenches=None, *, reference, plan):
    """Return the solution under the joint forces tau, with the constraints whose numbers are in the plan."""
    motion, state = states(tree, q, v, reference, wrenches)
    M22, G, Q2 = eliminate(tree, state, tau)
    loops = CutConstraints(tree, q, v, motion, state, reference)
    carried, c = transfer(tree, state, G, *loops.chosen(plan))
    A, right = reduced(tree, state, M22, Q2, carried, c, [loops.gamma[i] for i in plan])
    factor = Factor(A)
    multipliers = factor.solve(right)
    vdot, Y_rate = accelerations(tree, state, M22, G, Q2, c, multipliers)
    rows = {row: {} for row in plan}  # on the velocity coordinates, those outboard of each free
    for (k, i), entries in c.items():
        rows[plan[i]] |= dict(zip(velocity_coordinates(tree, [k]), entries, strict=True))
    residual = loops.residual(vdot, Y_rate)
    return LoopSolution(vdot, loops.values, loops.rates, residual, _pivots(plan, A, factor), multipliers, rows)


def transfer(tree, state, G, on_bodies, on_joints):
    """Return the rows on all bodies, joints free, and on the joints."""
    carried, c = dict(on_bodies), {}

    # inward: (39), (40)
    for k in tree.inward():
        p, (B1, B2, *_), coordinates = tree.parent[k], state[k], velocity_coordinates(tree, [k])
        coupled = {i for i, row in on_joints.items() if any(j in row for j in coordinates)}
        for i in sorted({i for body, i in carried if body == k} | coupled):
            row = carried.get((k, i), np.zeros(6))
            c[k, i] = B2.T @ row
            if i in on_joints:
                c[k, i] = c[k, i] + np.array([on_joints[i].get(j, 0.0) for j in coordinates])
            if p >= 0:
                shifted = B1.force(row - G[k] @ c[k, i])
                carried[p, i] = carried[p, i] + shifted if (p, i) in carried else shifted
    return carried, c


def reduced(tree, state, M22, Q2, carried, c, gamma):
    """Return the reduced matrix and its right-hand side."""
    m = len(gamma)
    A, right = np.zeros((m, m)).astype(object), np.array(gamma, dtype=object)

    # inward: (41)
    for k in tree.inward():
        here = [i for i in range(m) if (k, i) in c]
        solved = {i: M22[k].solve(c[k, i]) for i in here}
        for i in here:
            right[i] = right[i] - solved[i] @ Q2[k]
            if (k, i) in carried:
                right[i] = right[i] - carried[k, i] @ state[k].D
            for j in here:
                if j <= i:
                    A[i, j] = A[j, i] = A[i, j] + solved[i] @ c[k, j]
    return A, right


def accelerations(tree, state, M22, G, Q2, c, multipliers):
    """Return vdot, and the derivatives of the velocity states: the multipliers add to the joint forces. (43)."""
    load = list(Q2)
    for k, i in c:
        load[k] = load[k] + c[k, i] * multipliers[i]
    return accelerate(tree, state, M22, G, load)


def project(tree, q, v, moved, *, reference, plan):
    """Return the state nearest to (q, v) that meets the constraints of the plan, by kinetic energy; their pivots; and all values.

    Positions move by `moved(q, change)` in two steps of Newton's, which take an error e to about e^4.
    """
    for _ in range(2):
        change, _, _ = _change(tree, q, np.zeros(tree.nv), reference, plan, of_rates=False)
        q = moved(q, change)
    change, pivots, values = _change(tree, q, v, reference, plan, of_rates=True)
    return q, v + change, pivots, values


def _change(tree, q, v, reference, plan, of_rates):
    """Return the smallest change that takes the values of the chosen constraints, or their rates, to zero; their pivots, and all values."""
    motion, state = states(tree, q, v, reference)
    M22, G, _ = eliminate(tree, state, np.zeros(tree.nv))
    loops = CutConstraints(tree, q, v, motion, state, reference)
    _, c = transfer(tree, state, G, *loops.chosen(plan))
    no_force = [np.zeros(at.stop - at.start) for at in tree.v_slices]
    right = -(loops.rates if of_rates else loops.values)[list(plan)]
    A, _ = reduced(tree, state, M22, no_force, {}, c, right)
    factor = Factor(A)
    at_rest = [body._replace(D=np.zeros(6)) for body in state]
    return accelerations(tree, at_rest, M22, G, no_force, c, factor.solve(right))[0], _pivots(plan, A, factor), loops.values


def _pivots(plan, A, factor):
    """Return of each constraint what those after it leave of its entry in the reduced matrix, and that entry; each for itself."""
    return [[(row, reciprocal(w), A[i, i])] for i, (row, w) in enumerate(zip(plan, factor.w, strict=True))]
