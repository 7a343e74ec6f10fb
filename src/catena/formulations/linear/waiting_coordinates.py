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

from catena.spatial import carried, symmetric, welded


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

    def inboard(self, S, coordinates, armature, tau):
        """Return the body inboard of its joint, whose coordinates wait: A is A_plus + S vdot."""
        U, own = self.H[:, :6] @ S, list(coordinates)
        D = symmetric(S.T @ U[:6]) + np.diag(armature[own])
        H = np.concatenate([np.concatenate([self.H, U], axis=1), np.concatenate([U.T, D], axis=1)])
        h = np.concatenate([self.h, S.T @ self.h[:6] - tau[own]])
        return ArticulatedBody((*self.waiting, *coordinates), H, h, self.rigid)

    def shifted(self, X, a):
        """Return the body in the frame of its parent, where A_plus is X A + a."""
        H, h = self.H.astype(object), self.h + self.H[:, :6] @ a
        H[:6, :6] = carried(X, H[:6, :6]) if self.rigid else X.inertia(H[:6, :6])
        if self.waiting:
            H[:6, 6:] = X.forces(H[:6, 6:])
            H[6:, :6] = H[:6, 6:].T
        return replace(self, H=H, h=np.concatenate([X.force(h[:6]), h[6:]]))

    def __add__(self, other):
        """Return two bodies as if welded; what waits in both waits side by side."""
        m, n = len(self.waiting), len(other.waiting)
        H, h = np.zeros((6 + m + n, 6 + m + n)).astype(object), np.zeros(6 + m + n).astype(object)
        first, second = [*range(6 + m)], [*range(6), *range(6 + m, 6 + m + n)]
        for body, at in ((self, first), (other, second)):
            H[np.ix_(at, at)] = H[np.ix_(at, at)] + body.H
            h[at] = h[at] + body.h
        rigid = self.rigid and other.rigid
        if rigid:
            H[:6, :6] = welded(self.H[:6, :6], other.H[:6, :6])
        return ArticulatedBody((*self.waiting, *other.waiting), H, h, rigid)
