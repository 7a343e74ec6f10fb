"""The Coriolis matrix C, of which C v are the Coriolis, centrifugal and gyroscopic joint forces, and dM/dt - 2 C is skew.

Source   [EW21] Echeandia, Wensing, Numerical methods to compute the Coriolis matrix and Christoffel symbols for rigid-body systems, §3;
         for trees.
Frames   every quantity is expressed in the frame of the body on the ground that carries the others.
Cost     O(n d), d the depth of the tree; nothing branches on a value, so the function can be traced.

    paper    here  meaning
    S, dS    S, T  joint matrix, and its rate as the ground sees it
    IC, BC   I, B  inertia of a body and all that it carries, and the matrix of its velocity-dependent force; `drag` is 2 B

C is the sum over the bodies of J^T (I dJ + B J), with J the Jacobian of a body; an entry needs the sums beyond the outer of two joints.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from catena.formulations.derivatives.common_frame import crossed, drag, inertia, kinematics
from catena.formulations.kinematics import moved_motion
from catena.spatial import columns


def coriolis_matrix(tree, q, v):
    """Return C, nv x nv, along the velocity coordinates; where joints are driven, C v lacks what their motion adds."""
    S, V, _, _, frames = kinematics(tree, q, v)
    T, I, B = tree.columns(3)  # noqa: E741

    # outward: rates of the joint matrices, and each body by itself
    for k in tree.outward():
        p = tree.parent[k]
        turn = columns(partial(moved_motion, frames[k]), tree.joint_turn(k, q, v))
        T[k] = turn if p < 0 else crossed(V[p], S[k]) + turn
        I[k] = inertia(frames[k], tree.regrouped[k])
        _, B[k] = drag(I[k], V[k])

    # inward: the same of each body and all that it carries
    for k in tree.inward():
        p = tree.parent[k]
        if p >= 0:
            I[p], B[p] = I[p] + I[k], B[p] + B[k]

    # then each joint with itself and with those that carry it
    C = np.zeros((tree.nv, tree.nv)).astype(object)
    for k in range(tree.n):
        at = range(tree.v_slices[k].start, tree.v_slices[k].stop)
        momenta, rows = columns(I[k].momentum, S[k]), [B[k].row(s) for s in S[k].T]
        forces = columns(I[k].momentum, T[k]) + 0.5 * columns(lambda s, B=B[k]: B.force(s[:3]), S[k])
        for j in tree.path(k):
            for b, column in enumerate(range(tree.v_slices[j].start, tree.v_slices[j].stop)):
                for a, row in enumerate(at):
                    C[row, column] = momenta[:, a] @ T[j][:, b] + 0.5 * (rows[a] @ S[j][:3, b])
                    if j != k:
                        C[column, row] = S[j][:, b] @ forces[:, a]
    return C
