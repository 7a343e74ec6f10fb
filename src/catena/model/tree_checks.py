"""Checks of a tree: loops have joints that can follow the driven ones, and every joint moves inertia."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from catena.errors import ModelError
from catena.formulations.loops.closure_kinematics import loop_bodies
from catena.model.tree import Tree
from catena.spatial import Rigid, skew
from catena.spatial.placements import blocks


def check_following(tree: Tree) -> None:
    """Refuse a loop around which all joints are driven: no joint could follow."""
    for closure in tree.closures:
        if all(tree.v_slices[k].start == tree.v_slices[k].stop for k in loop_bodies(tree, closure)):
            raise ModelError(f"loop '{closure.name}': all joints around it are driven, and none can follow; leave it out, or drive fewer")


def _force_matrix(placement: Rigid) -> np.ndarray:
    """Return the matrix that takes forces of the child to the parent frame."""
    turned = skew(placement.p) @ placement.R
    return blocks(placement.R, turned, np.zeros((3, 3)), placement.R).astype(float)


def check_determined(tree: Tree, rng: np.random.Generator, random: Callable[[np.random.Generator], np.ndarray]) -> None:
    """Refuse a tree in which a joint moves nothing that has inertia, whatever the configuration.

    With loops the tree alone must move, too: the recursions go over it, and divide by the inertia that each joint feels.

    The inertia each joint feels, with all joints outboard of it free, is computed at two random configurations, and measured by the
    inertia it would feel with them locked: so the size of the mechanism and of its units do not matter.
    """
    stuck = {k for k, at in enumerate(tree.v_slices) if at.start < at.stop}
    tree = tree.at(0.0)
    for _ in range(2):
        if not stuck:
            return
        q = random(rng)
        P, R = [np.array(M) for M in tree.M], [np.array(M) for M in tree.M]
        here = set()
        for k in reversed(range(tree.n)):
            S = np.asarray(tree.joint_matrix(k, q), dtype=float)
            U, armature = P[k] @ S, tree.armature[tree.v_slices[k]]
            turning, moving = np.linalg.norm(R[k][:3, :3]), np.linalg.norm(R[k][3:, 3:])
            size = np.sqrt(turning * (S[:3] ** 2).sum(axis=0) + moving * (S[3:] ** 2).sum(axis=0) + armature)
            unit = 1.0 / np.where(size > 0.0, size, 1.0)
            D = unit[:, None] * (S.T @ U + np.diag(armature)) * unit
            felt, axes = np.linalg.eigh(D) if len(D) != 1 else (D[0], D**0)
            if k in stuck and felt[0] <= 1e-12:
                here.add(k)
            if tree.parent[k] >= 0:
                p, F = tree.parent[k], _force_matrix(tree.placement(k, q).rigid())
                moves = np.abs(felt) > 1e-12 * np.abs(felt).max(initial=0.0)
                G = (U * unit) @ axes[:, moves]
                P[p] = P[p] + F @ (P[k] - (G / felt[moves]) @ G.T) @ F.T
                R[p] = R[p] + F @ R[k] @ F.T
        stuck &= here
    if stuck:
        name = tree.names[max(stuck)]
        if tree.closures or tree.couplings:
            raise ModelError(
                f"joint of body '{name}': it moves no mass, and the loops that may determine its motion do not count here; give '{name}' a "
                "small mass or inertia, or the joint an armature, or close the loop by ct.Distance(length) in place of a rod without mass"
            )
        raise ModelError(
            f"joint of body '{name}': it moves no mass, so its motion is undetermined; "
            f"give '{name}' or a body that moves with it mass or inertia, or give the joint an armature"
        )
