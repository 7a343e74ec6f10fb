"""Forward dynamics with loops: dependent coordinates are eliminated loop by loop inside the recursion, without multipliers.

Source   [CA03] Critchley & Anderson, A generalized recursive coordinate reduction method, §3 (23)-(64), §4 (65)-(102), §5 (103)-(111).
Frames   every quantity of body k is expressed in the frame of body k, at its joint; rows of a loop in the frame of its base.
Cost     O(n + m) for n bodies and m constraints, of which a bounded number is open at a body; nothing branches on a value.

    paper                    here        meaning
    P_k^k, S^k               S, X        joint matrix; shift between parent and body
    I_hat^k, I_hat^{k;0}, F  body: H, h  inertia and force of a body and all that it carries, see `waiting_coordinates`
    M_hat^k, T^k             D, G        inertia and gain of the independent coordinates that are eliminated
    X^k, Y^k, H^k; Z^k A_t   B; beta     dependent coordinates are beta - B times the others, see `open_constraints`

The paper opens a loop at its base, where a massless copy of the base, the phantom body, hangs on the last joint; and refers motions to the
base. Here the loop is open at its closing joint, wherever the tree has it, and its constraints stand for the phantom body: they are as
many as are independent, where the phantom always has six, and closing joints need no coordinates.

Seen from a body inward, an open loop is a few numbers: what the coordinates of the body and of all that it carries do to its constraints.
A coordinate more than these numbers need is independent. It is eliminated as in a tree, while dependent ones keep what the loop sees (B):
H grows with the number of open constraints, not with the length of the loop. Where a constraint has met its last joint it determines a
coordinate that waits; when all have, H is a 6 x 6 inertia again. A loop may be closed before: its independent coordinates then wait, also
those of joints further in, and the dependent ones are replaced by them as soon as they are met. A moving base needs no care: where
coordinates wait, the bodies that they move are carried by the base as if welded, which is what the paper's hand-over to the base lacks.

Which coordinates depend, on what and where, is a matter of the configuration. It is decided outside, in a `ReductionPlan`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.formulations.kinematics import angular_velocities, bias_wrench, rest_acceleration
from catena.formulations.linear.open_constraints import OpenConstraints
from catena.formulations.linear.reduction_plan import EliminationStage, ReductionPlan
from catena.formulations.linear.waiting_coordinates import ArticulatedBody
from catena.formulations.loops.closure_kinematics import velocity_coordinates
from catena.formulations.loops.solutions import LoopSolution
from catena.spatial import Factor, gain, minus_product, straight_line, symmetric


def forward_dynamics(tree, q, v, tau, wrenches=None, *, plan):
    """Return the solution under the joint forces tau, with the dependent coordinates of the plan."""
    X, S, W, a = angular_velocities(tree, q, v)
    loops = OpenConstraints(tree, q, v, plan.chosen, plan.reach)
    body = [ArticulatedBody((), M, np.zeros(6), k not in tree.added) for k, M in enumerate((*tree.regrouped, np.zeros((6, 6))))]
    outboard, inboard, A = tree.columns(3)
    vdot = tree.vector()

    # inward: what each parent feels of the body through its joint; (20)-(22), (52)-(64), (86)-(102)
    for k in tree.inward():
        p = tree.parent[k]
        body[k] = body[k].loaded(bias_wrench(tree.regrouped, k, W[k], wrenches))
        body[k], outboard[k] = reduce(body[k], plan.outboard[k], loops)
        body[k] = body[k].inboard(S[k], velocity_coordinates(tree, [k]), tree.armature, tau)
        body[k], inboard[k] = reduce(body[k], plan.inboard[k], loops)
        body[p] = body[p].carrying(body[k], X[k], a[k])
    _, outboard[-1] = reduce(body[-1], plan.outboard[-1], loops)
    tree.mark()

    # outward: accelerations; (59), (45), (99)
    A[-1] = rest_acceleration(tree)
    recover(outboard[-1], A[-1], vdot)
    for k in tree.outward():
        A_plus = X[k].motion(A[tree.parent[k]]) + a[k]
        recover(inboard[k], A_plus, vdot)
        A[k] = A_plus + S[k] @ vdot[tree.v_slices[k]]
        recover(outboard[k], A[k], vdot)
    return LoopSolution(vdot, np.array(loops.values), np.array(loops.rates), loops.residual(vdot), loops.pivots)


class Recovery(NamedTuple):
    """How eliminated coordinates are recovered: vdot[eliminated] is known - on_A A - on_others vdot[others].

    Where `known` is None, what vdot[eliminated] is so far stands for it; where `on_A` is None, A has no part.
    """

    eliminated: list[int]
    others: list[int]
    on_A: Any
    on_others: Any
    known: Any


def reduce(body, stages, loops):
    """Return the body once the coordinates of the stages are eliminated, and how they are recovered."""
    body, recoveries = replaced(body, loops)
    for stage in stages:
        if stage.closed:  # (27)-(45): the loop determines coordinates that wait, or will
            others = loops.others(stage.closed, body.waiting)
            loops.close(stage.closed, others, *loops.dependent(stage.closed, others))
            body, more = replaced(body, loops)
            recoveries += more
        if stage.held:  # (65)-(81): coordinates that wait keep the loop as it is
            dependent, others = [j for _, j in stage.held], list(stage.free)
            B, _ = loops.dependent(stage.held, others)
            body = substituted(body, dependent, others, B)
            recoveries.append(Recovery(dependent, others, None, B, None))
        if stage.free:  # (59)-(64), (96)-(102)
            loops.release(stage.free)
            body, recovery = eliminated(body, stage.free)
            recoveries.append(recovery)
    return body, recoveries


def replaced(body, loops):
    """Return the body with the others for all that depend on them by loops that are closed, and how these are recovered. (27)-(45)."""
    recoveries = []
    while found := [loops.group[j] for j in body.waiting if j in loops.group]:
        every, others, B, beta = loops.closed[min(found)]  # later loops may be closed by others of earlier ones
        at = [n for n, j in enumerate(every) if j in body.waiting]
        dependent, B, beta = [every[n] for n in at], B[at], beta[at]
        body = substituted(body.awaiting(others), dependent, others, B, beta)
        recoveries.append(Recovery(dependent, others, None, B, beta))
    return body, recoveries


def substituted(body, dependent, others, B, beta=None):
    """Return the body with beta - B others for dependent coordinates; without beta, these move by -B others and besides on their own."""
    waiting = body.waiting if beta is None else tuple(j for j in body.waiting if j not in dependent)
    gone, kept, rest = map(body.places, (dependent, others, waiting))
    H, h = _substituted(gone, kept, (*range(6), *rest), B, beta, body.H, body.h)
    return ArticulatedBody(waiting, H, h, body.rigid)


@straight_line
def _substituted(gone, kept, rest, B, beta, H, h):
    gone, kept = list(gone), list(kept)
    H, h = H.astype(object), (h if beta is None else h + H[:, gone] @ beta).astype(object)
    H[:, kept] = H[:, kept] - H[:, gone] @ B
    H[kept], h[kept] = H[kept] - B.T @ H[gone], h[kept] - B.T @ h[gone]
    return symmetric(H)[np.ix_(rest, rest)], h[list(rest)]


def eliminated(body, free):
    """Return the body where independent coordinates are free, and how they are recovered. (59)-(64), (96)-(102)."""
    H, h, G, known = _eliminated(body.places(free), body.H, body.h)
    waiting = tuple(j for j in body.waiting if j not in free)
    return ArticulatedBody(waiting, H, h, rigid=False), Recovery(list(free), list(waiting), G[:6].T, G[6:].T, known)


@straight_line
def _eliminated(at, H, h):
    rest = [i for i in range(len(h)) if i not in at]
    U, D, force = H[np.ix_(rest, at)], H[np.ix_(at, at)], h[list(at)]
    factor = Factor(D)
    G = gain(U, D, factor)
    return minus_product(H[np.ix_(rest, rest)], G, U), h[rest] - G @ force, G, factor.solve(-force)


def recover(recoveries, A, vdot):
    """Write the accelerations of eliminated coordinates, for the acceleration A; the last first. (45), (59), (99)."""
    for step in reversed(recoveries):
        known = vdot[step.eliminated] if step.known is None else step.known
        if step.others:
            known = known - step.on_others @ vdot[step.others]
        vdot[step.eliminated] = known if step.on_A is None else known - step.on_A @ A


def tree_dynamics(tree, q, v, tau, wrenches=None):
    """Return vdot of a tree: no coordinate waits, and the method is that of articulated bodies. (20)-(22)."""
    free = tuple((EliminationStage(free=tuple(range(at.start, at.stop))),) for at in tree.v_slices)
    return forward_dynamics(tree, q, v, tau, wrenches, plan=ReductionPlan((), ((),) * (tree.n + 1), free, (1.0,) * tree.nv)).vdot
