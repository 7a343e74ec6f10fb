"""A body and all that it carries, where some coordinates outboard of it wait for their loops to be closed.

Source   [CA03] Critchley & Anderson, A generalized recursive coordinate reduction method, (20)-(22), (52)-(64), (86)-(102).
Frames   every quantity of body k is expressed in the frame of body k, at its joint.

    paper                    here     meaning
    u_k, k in dep_i          waiting  coordinates that wait for their loop to be closed
    I_hat^k, I_hat^{k;0}, F  H, h     force on (A, waiting) is H (A, waiting) + h: I_hat^k is the first block of H, I_hat^{k;0} stands for
                                      the blocks beside it
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catena.spatial import carried, straight_line, symmetric, welded


@dataclass(frozen=True)
class ArticulatedBody:
    """A body and all that it carries: the force on (A, waiting coordinates) is H (A, waiting) + h.

    While all coordinates outboard of it wait, the bodies are as if welded, and H[:6, :6] is the inertia of one `rigid` body.
    """

    waiting: tuple[int, ...]
    H: Any
    h: Any
    rigid: bool

    def loaded(self, b):
        """Return the body with the wrench b, which adds to h."""
        return replace(self, h=np.concatenate([self.h[:6] + b, self.h[6:]]))

    def places(self, coordinates):
        """Return the rows of H that coordinates have, which wait."""
        at = {j: i for i, j in enumerate(self.waiting, 6)}
        return tuple(at[j] for j in coordinates)

    def awaiting(self, coordinates):
        """Return the body where these coordinates wait too, which so far move nothing of it."""
        new = [j for j in coordinates if j not in self.waiting]
        if not new:
            return self
        H, h = _grown(len(self.h) + len(new), self.H, self.h)
        return ArticulatedBody((*self.waiting, *new), H, h, self.rigid)

    def inboard(self, S, coordinates, armature, tau):
        """Return the body inboard of its joint, whose coordinates wait: A is A_plus + S vdot."""
        body, own = self.awaiting(coordinates), list(coordinates)
        H, h = _inboard(body.places(own), S, armature[own], tau[own], body.H, body.h)
        return replace(body, H=H, h=h)

    def carrying(self, other, X, a):
        """Return the body as if welded to another, in whose frame A_plus is X A + a.

        What waits in both waits side by side, or adds up where it is the same.
        """
        body, rigid = self.awaiting(other.waiting), self.rigid and other.rigid
        at = (*range(6), *body.places(other.waiting))
        H, h = _welded(X, a, other.rigid, other.H, other.h, rigid, at, body.H, body.h)
        return ArticulatedBody(body.waiting, H, h, rigid)


@straight_line
def _grown(size, H, h):
    """Return H and h with rows of zeros behind."""
    n, larger_H, larger_h = len(h), np.zeros((size, size)).astype(object), np.zeros(size).astype(object)
    larger_H[:n, :n], larger_h[:n] = H, h
    return larger_H, larger_h


@straight_line
def _inboard(at, S, armature, tau, H, h):
    """Return H and h with the coordinates of a joint, whose inertia is D, at their places."""
    at, H, h = list(at), H.astype(object), h.astype(object)
    U = H[:, :6] @ S
    D = symmetric(S.T @ U[:6]) + np.diag(armature)
    H[:, at] = H[:, at] + U
    H[at] = H[at] + U.T
    H[np.ix_(at, at)] = H[np.ix_(at, at)] + D
    h[at] = h[at] + (S.T @ h[:6] - tau)
    return symmetric(H), h


@straight_line
def _welded(X, a, other_rigid, other_H, other_h, rigid, at, own_H, own_h):
    """Return H and h of a body and of another that is placed in its frame by X, and whose rows have these places."""
    other_H, other_h = _shifted(X, a, other_rigid, other_H, other_h)
    at, H, h = list(at), own_H.astype(object), own_h.astype(object)
    H[np.ix_(at, at)] = H[np.ix_(at, at)] + other_H
    h[at] = h[at] + other_h
    if rigid:
        H[:6, :6] = welded(own_H[:6, :6], other_H[:6, :6])
    return H, h


def _shifted(X, a, rigid, H, h):
    """Return H and h of a body in the frame of its parent."""
    H, h = H.astype(object), h + H[:, :6] @ a
    H[:6, :6] = carried(X, H[:6, :6]) if rigid else X.inertia(H[:6, :6])
    if len(h) > 6:
        H[:6, 6:] = X.forces(H[:6, 6:])
        H[6:, :6] = H[:6, 6:].T
    return H, np.concatenate([X.force(h[:6]), h[6:]])
