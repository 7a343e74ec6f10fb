"""The loops' part of coordinate reduction: dependent coordinates from the constraints of loops that are still open.

Source   [CA03] Critchley & Anderson, A generalized recursive coordinate reduction method, (23)-(51), (65)-(81), (103)-(111).
Frames   joint coordinates; rows of a loop in the frame of its base.
Cost     O(m) for m constraints, of which a bounded number is open at a body

    paper                      here       meaning
    P_k^k of the phantom body  E          row of a constraint: what a unit rate of a coordinate does to it
    A_t of the phantom body    g          right-hand side of a constraint: E vdot = g
    Q^k                        1 / pivot  of a dependent coordinate
    R^k                        table      rows on the other coordinates, once dependent ones are taken out of them
    X^k, Y^k, H^k              B          dependent coordinates are beta - B times the others
    Z^k A_t                    beta       dependent coordinates where the others are zero
"""

from __future__ import annotations

import numpy as np

from catena.formulations.loops.basic_constraints import row_count
from catena.formulations.loops.closure_kinematics import ClosureKinematics
from catena.formulations.loops.constraints import coupling_rate, coupling_value
from catena.spatial import reciprocal, straight_line


class OpenConstraints:
    """Values and rates of all constraints; rows E and right-hand sides g of those chosen, while they are open.

    A row has the coordinates around its loop only: the motion of the base moves both ends alike. (23), (24), (47).
    """

    def __init__(self, tree, q, v, chosen, reach):
        self.tree, self.reach, self._closures = tree, reach, []
        self.values, self.rates, self.pivots = [], [], []
        self.E, self.g, self._rows_of = {}, {}, {}
        self.closed, self.group = [], {}  # what `close` was given, and which of these a dependent coordinate is in
        chosen = set(chosen)
        for closure in tree.closures:
            first = len(self.values)
            kinematics = ClosureKinematics(tree, q, closure)
            value, columns = kinematics.jacobian()
            rate, right = kinematics.motion(v)
            self.values += [*value]
            self.rates += [*rate]
            self._closures.append((columns, right))
            for i in range(row_count(closure)):
                if first + i in chosen:
                    self._open(first + i, {j: column[i] for j, column in columns.items()}, right[i])
        tree.mark()
        for coupling in tree.couplings:
            if len(self.values) in chosen:
                self._open(len(self.values), dict(coupling.coefficients), 0.0)
            self.values.append(coupling_value(coupling, q))
            self.rates.append(coupling_rate(coupling, v))

    def _open(self, i, row, right):
        self.E[i], self.g[i] = row, right
        for j in row:
            self._rows_of.setdefault(j, set()).add(i)

    def dependent(self, pairs, others):
        """Return B and beta: by the constraints of the pairs, their coordinates are beta - B others. (27)-(43), (65)-(81)."""
        coordinates = [*(j for _, j in pairs), *others]
        table = np.array([[*(self.E[i].get(j, 0.0) for j in coordinates), self.g[i]] for i, _ in pairs], dtype=object)
        B, beta, pivots, sizes, growth = _solved(np.array([self.reach[j] for j in coordinates]), table)
        self.pivots.append([(i, pivot, size) for (i, _), pivot, size in zip(pairs, pivots, sizes, strict=True)])
        if len(pairs) > 1:  # pivots that are not small one by one may be so together
            self.pivots.append([(None, 1.0, growth)])
        return B, beta

    def others(self, pairs, waiting):
        """Return the coordinates that those of the pairs depend on: first those that wait."""
        seen = dict.fromkeys(j for i, _ in pairs for j in self.E[i])
        for _, dependent in pairs:
            seen.pop(dependent, None)
        return [*(j for j in waiting if j in seen), *(j for j in seen if j not in waiting)]

    def close(self, pairs, others, B, beta):
        """Put the dependent coordinates of closed loops into the rows of those that stay open. (105), (106)."""
        dependent = [j for _, j in pairs]
        self.group |= dict.fromkeys(dependent, len(self.closed))
        self.closed.append((dependent, others, B, beta))
        for i, _ in pairs:
            for j in self.E.pop(i):
                self._rows_of[j].discard(i)
        for n, (_, dependent) in enumerate(pairs):
            for i in sorted(self._rows_of.pop(dependent)):
                entry = self.E[i].pop(dependent)
                self.g[i] = self.g[i] - entry * beta[n]
                for c, j in enumerate(others):
                    self.E[i][j] = self.E[i].get(j, 0.0) - entry * B[n, c]
                    self._rows_of[j].add(i)

    def release(self, free):
        """Take coordinates that were eliminated out of the rows, which others hold."""
        for j in free:
            for i in self._rows_of.pop(j, ()):
                del self.E[i][j]

    def residual(self, vdot):
        """Return what accelerations leave of all constraints, also of those that were not chosen."""
        residual = []
        for columns, right in self._closures:
            self.tree.mark()
            residual += [*(sum(column * vdot[j] for j, column in columns.items()) - right)]
        self.tree.mark()
        return np.array([*residual, *(coupling_rate(coupling, vdot) for coupling in self.tree.couplings)])


@straight_line
def _solved(reach, table):
    """Return B and beta of the rows of some constraints; the squares of their pivots and rows, and of all of B, with such a reach."""
    number, squares, table = len(table), reach**2, table.copy()
    sizes = [sum(entry * entry * square for square, entry in zip(squares, row, strict=False)) for row in table]
    pivots = []
    for n in range(number):  # (34), (36)
        pivots.append(table[n, n] * table[n, n] * squares[n])
        table[n, n + 1 :] = table[n, n + 1 :] * reciprocal(table[n, n])
        for below in range(n + 1, number):
            table[below, n + 1 :] = table[below, n + 1 :] - table[below, n] * table[n, n + 1 :]
    for n in reversed(range(number)):  # (41)-(43)
        for above in range(n):
            table[above, number:] = table[above, number:] - table[above, n] * table[n, number:]
    B = table[:, number:-1]
    growth = sum(x * x for x in (B * (reach[number:] / reach[:number, None])).ravel()) if number > 1 else 0.0
    return B, table[:, -1], np.array(pivots), np.array(sizes), growth
