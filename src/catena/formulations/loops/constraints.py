"""The constraints of a tree: those of all closures, each in the frame of its loop's base, then those of all couplings.

here   meaning
Phi    values of the constraints
J      Jacobian of the constraints
Phi_t  rates of the constraints where all velocities are zero: what driven joints do to them
"""

from __future__ import annotations

import numpy as np

from catena.formulations.loops.basic_constraints import constraint_rows, row_count, row_ranges
from catena.formulations.loops.closure_kinematics import ClosureKinematics
from catena.formulations.loops.coupled_loops import all_loops


def coupling_value(coupling, q):
    """Return the value of a coupling."""
    return sum(c * q[i] for i, c in coupling.positions) - coupling.offset


def coupling_rate(coupling, v):
    """Return the rate of a coupling; of accelerations, its second rate."""
    return sum(c * v[i] for i, c in coupling.coefficients)


def row_names(tree):
    """Return, for each constraint, the name of the loop or coupling that it belongs to."""
    return [closure.name for closure in tree.closures for _ in range(row_count(closure))] + [coupling.name for coupling in tree.couplings]


def constraint_jacobian(tree, q, rows=constraint_rows, group=None):
    """Return Phi and J of a group of loops, or of all, on its coordinates; `rows` may also be `closure_residual`."""
    group = all_loops(tree) if group is None else group
    place = {j: c for c, j in enumerate(group.columns)}
    values, J = [np.zeros(0)], [np.zeros((0, len(place)))]
    for i in group.closures:
        value, columns = ClosureKinematics(tree, q, tree.closures[i]).jacobian(rows)
        block = np.zeros((len(value), len(place))).astype(object)
        for j, column in columns.items():
            block[:, place[j]] = column
        values.append(value)
        J.append(block)
    tree.mark()
    for i in group.couplings:
        row = np.zeros((1, len(place))).astype(object)
        for j, c in tree.couplings[i].coefficients:
            row[0, place[j]] = c
        values.append(np.array([coupling_value(tree.couplings[i], q)]))
        J.append(row)
    return np.concatenate(values), np.concatenate(J)


def constraint_motion(tree, q, v, group=None):
    """Return the rates of the constraints of a group of loops, or of all, and the right-hand sides g of J vdot = g.

    With driven joints the constraints depend on time: the rates have Phi_t, and the right-hand sides its rate.
    """
    group = all_loops(tree) if group is None else group
    both = [ClosureKinematics(tree, q, tree.closures[i]).motion(v) for i in group.closures]
    tree.mark()
    rates = [coupling_rate(tree.couplings[i], v) for i in group.couplings]
    return np.concatenate([*(rate for rate, _ in both), np.array(rates)]), np.concatenate([*(g for _, g in both), np.zeros(len(rates))])


def closing_wrenches(tree, q, multipliers):
    """Return what the multipliers of all constraints do at each closure: the wrenches on a and on b, each in the joint frame there."""
    rows = zip(tree.closures, row_ranges(tree.closures), strict=True)
    return [ClosureKinematics(tree, q, closure).wrenches(multipliers[list(own)]) for closure, own in rows]
