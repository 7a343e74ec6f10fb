"""Forward dynamics with loops: dependent coordinates are eliminated loop by loop inside the recursion, without multipliers.

Source   [CA03] Critchley & Anderson, A generalized recursive coordinate reduction method, §3 (23)-(64), §4 (65)-(102), §5 (103)-(111).
Frames   every quantity of body k is expressed in the frame of body k, at its joint; rows of a loop in the frame of its base.
Cost     O(n + m) for n bodies and m constraints, of which a bounded number is open at a body; nothing branches on a value.

    paper                      here       meaning
    u_k, k in dep_i            waiting    coordinates that wait for their loop to be closed
    P_k^k, S^k                 S, X       joint matrix; shift between parent and body
    I_hat^k, I_hat^{k;0}, F    H, h       force on (A, waiting) is H (A, waiting) + h: I_hat^k is the first block of H, I_hat^{k;0} stands
                                          for the blocks beside it
    M_hat^k, T^k               D, G       inertia and gain of the independent coordinates that are eliminated
    P_k^k of the phantom body  E          row of a constraint: what a unit rate of a coordinate does to it
    A_t of the phantom body    g          right-hand side of a constraint: E vdot = g
    Q^k                        1 / pivot  of a dependent coordinate
    R^k                        table      rows on what is left, once dependent coordinates are taken out of them
    X^k, Y^k, H^k              B          dependent coordinates follow independent ones by -B
    Z^k A_t                    beta       what dependent coordinates are where those rest

The paper opens a loop at its base, where a massless copy of the base, the phantom body, hangs on the last joint; and refers motions to the
base. Here the loop is open at its closing joint, wherever the tree has it, and its constraints stand for the phantom body: they are as
many as are independent, where the phantom always has six, and closing joints need no coordinates.

Seen from a body inward, an open loop is a few numbers: what the coordinates of the body and of all that it carries do to its constraints.
A coordinate more than these numbers need is independent. It is eliminated as in a tree, with dependent ones that keep what the loop sees
(B): H grows with the number of open constraints, not with the length of the loop. Where a constraint has met its last joint it gives a
coordinate that waits; when all have, H is a 6 x 6 inertia again. A moving base needs no care: where coordinates wait, the bodies that they
move are carried by the base as if welded, which is what the paper's hand-over to the base lacks.

Which coordinates depend, on what and where, is a matter of the configuration. It is decided outside, in a `Plan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from catena.formulations.constraints import Loop, coupling_rate, coupling_value, row_count
from catena.formulations.kinematics import bias_wrench, rest_acceleration, turnings
from catena.formulations.linear import cut_joints
from catena.spatial import Factor, gain, minus_product, reciprocal, symmetric


class Stage(NamedTuple):
    """What is eliminated at once: coordinates of a group of loops, which wait until then.

    `closed` has constraints that are complete here, each with the coordinate that follows from it; `held` has constraints that stay open,
    each with the coordinate that keeps it while those in `free` move. Both are in the order of elimination.
    """

    closed: tuple[tuple[int, int], ...] = ()
    held: tuple[tuple[int, int], ...] = ()
    free: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Constraints that are independent, and the stages at all bodies: outboard and inboard of their joints; last the ground's.

    Its length is the number of constraints. `reach` is what the velocity coordinates are measured by, where pivots are compared.
    """

    chosen: tuple[int, ...]
    outboard: tuple[tuple[Stage, ...], ...]
    inboard: tuple[tuple[Stage, ...], ...]
    reach: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.chosen)


class Solved(NamedTuple):
    """Accelerations; values and rates of all constraints, and what the accelerations leave of them; how well the plan fits.

    `pivots` has a list for each stage with loops, of (constraint, square of the pivot, square of its row), in the units of the constraint;
    and one of (None, 1, square of B), without units. The plan is weak where a pivot is small beside the largest row of its stage, or where
    dependent coordinates move by many times as much as independent ones.
    """

    vdot: Any
    values: Any
    rates: Any
    residual: Any
    pivots: Any


class Felt(NamedTuple):
    """What is felt of a body and all that it carries: the force on (A, waiting coordinates) is H (A, waiting) + h."""

    waiting: tuple[int, ...]
    H: Any
    h: Any


class Step(NamedTuple):
    """How coordinates are recovered: vdot[own] is known - on_A A - on_others vdot[others]; None is what vdot[own] is, or zero."""

    own: list[int]
    others: list[int]
    on_A: Any
    on_others: Any
    known: Any


def forward_dynamics(tree, q, v, tau, wrenches=None, *, plan):
    """Return the solution under the joint forces tau, with the dependent coordinates of the plan.

    `wrenches` act on the bodies: one (moment, force) for each body in its frame, at its origin, or None; last the ground's.
    """
    X, S, W, a = turnings(tree, q, v)
    loops = Loops(tree, q, v, plan.chosen, plan.reach)
    felt = [Felt((), M, np.zeros(6)) for M in (*tree.felt, np.zeros((6, 6)))]
    outboard, inboard, A = tree.columns(3)
    vdot = tree.vector()

    # inward: what each parent feels of the body through its joint; (20)-(22), (52)-(64), (86)-(102)
    for k in tree.inward():
        p = tree.parent[k]
        body = felt[k]._replace(h=np.concatenate([felt[k].h[:6] + bias_wrench(tree.felt, k, W[k], wrenches), felt[k].h[6:]]))
        body, outboard[k] = reduce(body, plan.outboard[k], loops)
        body = with_joint(body, tree, k, S[k], tau)
        body, inboard[k] = reduce(body, plan.inboard[k], loops)
        felt[p] = together(felt[p], shifted(body, X[k], a[k]))
    _, outboard[-1] = reduce(felt[-1], plan.outboard[-1], loops)
    tree.mark()

    # outward: accelerations; (59), (45), (99)
    A[-1] = rest_acceleration(tree)
    recover(outboard[-1], A[-1], vdot)
    for k in tree.outward():
        A_plus = X[k].motion(A[tree.parent[k]]) + a[k]
        recover(inboard[k], A_plus, vdot)
        A[k] = A_plus + S[k] @ vdot[tree.v_slices[k]]
        recover(outboard[k], A[k], vdot)
    return Solved(vdot, np.array(loops.values), np.array(loops.rates), loops.residual(vdot), loops.pivots)


def project(tree, q, v, moved, *, plan):
    """Return the state nearest to (q, v) that meets the constraints of the plan, by kinetic energy; all pivots; and all values."""
    q, v, pivots, values = cut_joints.project(tree, q, v, moved, reference="joint", plan=plan.chosen)
    own = forward_dynamics(tree, q, v, np.zeros(tree.nv), plan=plan).pivots
    return q, v, [*pivots, *own], values


def tree_dynamics(tree, q, v, tau, wrenches=None):
    """Return vdot of a tree: no coordinate waits, and the method is that of articulated bodies. (20)-(22)."""
    free = tuple((Stage(free=tuple(range(at.start, at.stop))),) for at in tree.v_slices)
    return forward_dynamics(tree, q, v, tau, wrenches, plan=Plan((), ((),) * (tree.n + 1), free, (1.0,) * tree.nv)).vdot


# the constraints


class Loops:
    """Values and rates of all constraints; rows E and right-hand sides g of those chosen, on the coordinates that wait.

    A row has the coordinates around its loop only: the motion of the base moves both ends alike. (23), (24), (47).
    """

    def __init__(self, tree, q, v, chosen, reach):
        self.tree, self.reach, self.whole = tree, reach, []
        self.values, self.rates, self.pivots = [], [], []
        self.E, self.g, self.seen = {}, {}, {}
        chosen = set(chosen)
        for closure in tree.closures:
            first = len(self.values)
            loop = Loop(tree, q, closure)
            value, columns = loop.jacobian()
            rate, right = loop.motion(v)
            self.values += [*value]
            self.rates += [*rate]
            self.whole.append((columns, right))
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
            self.seen.setdefault(j, set()).add(i)

    def residual(self, vdot):
        """Return what accelerations leave of all constraints, also of those that were not chosen."""
        found = []
        for columns, right in self.whole:
            self.tree.mark()
            found += [*(sum(column * vdot[j] for j, column in columns.items()) - right)]
        self.tree.mark()
        return np.array([*found, *(coupling_rate(coupling, vdot) for coupling in self.tree.couplings)])

    def dependent(self, pairs, rest):
        """Return B and beta: the rows of the pairs say that their coordinates are beta - B rest. (27)-(43), (65)-(81)."""
        number, coordinates = len(pairs), [*(j for _, j in pairs), *rest]
        table = np.array([[*(self.E[i].get(j, 0.0) for j in coordinates), self.g[i]] for i, _ in pairs], dtype=object)
        squares = [self.reach[j] ** 2 for j in coordinates]
        sizes = [sum(entry * entry * square for square, entry in zip(squares, row, strict=False)) for row in table]
        self.pivots.append([])
        for n, (i, _) in enumerate(pairs):
            self.pivots[-1].append((i, table[n, n] * table[n, n] * squares[n], sizes[n]))
            table[n, n + 1 :] = table[n, n + 1 :] * reciprocal(table[n, n])
            for other in range(n + 1, number):
                table[other, n + 1 :] = table[other, n + 1 :] - table[other, n] * table[n, n + 1 :]
        for n in reversed(range(number)):
            for other in range(n):
                table[other, number:] = table[other, number:] - table[other, n] * table[n, number:]
        B = table[:, number:-1]
        if number > 1:  # pivots that are not small one by one may be so together
            scale = [[reach / self.reach[j] for reach in (self.reach[other] for other in rest)] for _, j in pairs]
            self.pivots.append([(None, 1.0, sum(x * x for x in (B * np.array(scale)).ravel()))])
        return B, table[:, -1]

    def close(self, pairs, rest, B, beta):
        """Put the dependent coordinates of closed loops into the rows of those that stay open. (105), (106)."""
        for i, _ in pairs:
            for j in self.E.pop(i):
                self.seen[j].discard(i)
        for n, (_, dependent) in enumerate(pairs):
            for i in sorted(self.seen.pop(dependent)):
                entry = self.E[i].pop(dependent)
                self.g[i] = self.g[i] - entry * beta[n]
                for c, j in enumerate(rest):
                    self.E[i][j] = self.E[i].get(j, 0.0) - entry * B[n, c]
                    self.seen[j].add(i)


# inward


def with_joint(body, tree, k, S, tau):
    """Return what is felt of body k inboard of its joint, whose coordinates wait: A is A_plus + S vdot."""
    at, old = tree.v_slices[k], len(body.h)
    own = range(at.start, at.stop)
    T = np.eye(old + len(own)).astype(object)[:old]
    T[:6, old:] = S
    body = changed(body, (*body.waiting, *own), T)
    H, h = body.H.copy(), body.h.copy()
    for i, j in enumerate(own, old):
        H[i, i] = H[i, i] + tree.armature[j]
        h[i] = h[i] - tau[j]
    return Felt(body.waiting, H, h)


def changed(body, waiting, T, t=None):
    """Return what is felt in other coordinates: (A, waiting) of the body is T (A, waiting) + t."""
    h = body.h if t is None else body.h + body.H @ t
    return Felt(waiting, symmetric(T.T @ (body.H @ T)), T.T @ h)


def reduce(body, stages, loops):
    """Return what is felt once the coordinates of the stages are eliminated, and the steps that recover them."""
    steps = []
    for stage in stages:
        if stage.closed:  # (27)-(45): what waits follows from the loop
            dependent = [j for _, j in stage.closed]
            movers = [j for j in body.waiting if j not in dependent and any(j in loops.E[i] for i, _ in stage.closed)]
            B, beta = loops.dependent(stage.closed, movers)
            loops.close(stage.closed, movers, B, beta)
            body = followed(body, dependent, movers, B, beta)
            steps.append(Step(dependent, movers, None, B, beta))
        if stage.held:  # (65)-(81): what waits keeps the loop as it is
            dependent, movers = [j for _, j in stage.held], list(stage.free)
            B, _ = loops.dependent(stage.held, movers)
            body = followed(body, dependent, movers, B)
            steps.append(Step(dependent, movers, None, B, None))
        if stage.free:
            body, step = eliminated(body, stage.free)
            steps.append(step)
    return body, steps


def followed(body, dependent, movers, B, beta=None):
    """Return what is felt where dependent coordinates move by -B with others, and besides on their own; or by beta, and are known."""
    at = {j: i for i, j in enumerate(body.waiting, 6)}
    T, t = np.eye(len(body.h)).astype(object), np.zeros(len(body.h)).astype(object)
    for n, j in enumerate(dependent):
        T[at[j], [at[i] for i in movers]] = -B[n]
    if beta is None:
        return changed(body, body.waiting, T)
    t[[at[j] for j in dependent]] = beta
    left = [j for j in body.waiting if j not in dependent]
    return changed(body, tuple(left), T[:, [*range(6), *(at[j] for j in left)]], t)


def eliminated(body, free):
    """Return what is felt where coordinates are free. (59)-(64), (96)-(102)."""
    own = [6 + body.waiting.index(j) for j in free]
    rest = [i for i in range(len(body.h)) if i not in own]
    U, D, force = body.H[np.ix_(rest, own)], body.H[np.ix_(own, own)], body.h[own]
    factor = Factor(D)
    G = gain(U, D, factor)
    waiting = tuple(j for j in body.waiting if j not in free)
    felt = Felt(waiting, minus_product(body.H[np.ix_(rest, rest)], G, U), body.h[rest] - G @ force)
    return felt, Step(list(free), list(waiting), G[:6].T, G[6:].T, factor.solve(-force))


def shifted(body, X, a):
    """Return what is felt of a body in the frame of its parent, where A_plus is X A + a."""
    H, h = body.H.astype(object), body.h + body.H[:, :6] @ a
    H[:6, :6] = X.inertia(H[:6, :6])
    if body.waiting:
        H[:6, 6:] = X.forces(H[:6, 6:])
        H[6:, :6] = H[:6, 6:].T
    return Felt(body.waiting, H, np.concatenate([X.force(h[:6]), h[6:]]))


def together(one, other):
    """Return what is felt of two together; the coordinates that wait in both do so side by side."""
    m, n = len(one.waiting), len(other.waiting)
    H = np.zeros((6 + m + n, 6 + m + n)).astype(object)
    first, second = [*range(6 + m)], [*range(6), *range(6 + m, 6 + m + n)]
    h = np.zeros(6 + m + n).astype(object)
    for felt, at in ((one, first), (other, second)):
        H[np.ix_(at, at)] = H[np.ix_(at, at)] + felt.H
        h[at] = h[at] + felt.h
    return Felt((*one.waiting, *other.waiting), H, h)


# outward


def recover(steps, A, vdot):
    """Write the accelerations of the coordinates that the steps eliminated, for the acceleration A."""
    for step in reversed(steps):
        known = vdot[step.own] if step.known is None else step.known
        if step.others:
            known = known - step.on_others @ vdot[step.others]
        vdot[step.own] = known if step.on_A is None else known - step.on_A @ A
