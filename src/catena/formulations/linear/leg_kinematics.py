"""Legs of a platform at a state: the rates of their joints from those of the platform and of the actuated joints.

Source   [SS01] Saha & Schiehlen, Recursive kinematics and dynamics for closed loop multibody systems, §IV (8)-(13).
Frames   that of the ground: motions and forces at its origin, where the propagation of twists, A, is the identity.
Cost     O(m) for m bodies of a leg

    paper          here      meaning
    Phi_i, Phi_2   Phi       what of the closure of a leg is left once the passive joints outboard of i, or all, have been eliminated
    p_i            g         what a unit rate of coordinate i does to the closure
    p~_i, delta_i  p, d      column of coordinate i in what is left, and its square
    t_e'           residual  K y + g theta_dot + known: what of the closure is left to the passive joints
"""

from __future__ import annotations

import numpy as np

from catena.spatial import minus_product, reciprocal


class LegKinematics:
    """A leg whose closure says: K y + given theta_dot + known + g times the passive rates = 0.

    y are coordinates of the platform's motion, theta_dot the rates of the actuated joints, and `known` is what is given besides.
    """

    def __init__(self, leg, coordinates, on_platform, on_tip, B, columns, known, reach):
        self.leg, self.coordinates, self.known = leg, coordinates, known
        self.on_platform, self.on_tip, self.K = on_platform, on_tip, on_platform @ B
        self.g = {j: on_tip @ columns[j] for j in coordinates}
        self.given = np.stack([self.g[j] for j in leg.actuated], axis=1) if leg.actuated else np.zeros((len(known), 0))
        self.scaled, self.pivots = {}, []

        # inward: (11c), (11d), (12c), (12d)
        Phi = np.eye(len(known))
        for j in reversed([j for j in coordinates if j not in leg.actuated]):
            p = Phi @ self.g[j]
            d = p @ p
            self.scaled[j] = p * reciprocal(d)
            unit = (reach[j] / leg.size) ** 2
            self.pivots.append((None, d * unit, self.g[j] @ self.g[j] * unit))
            Phi = minus_product(Phi, self.scaled[j][:, None], p[:, None])
        self.Phi = Phi
        self.projected = self.K.T @ Phi

    def rates(self, residual, theta):
        """Return the rates of all joints; `residual` is K y + given theta_dot + known, of vectors or of columns."""
        rates = []

        # outward: (11b), (12b)
        for j in self.coordinates:
            if j in self.leg.actuated:
                rates.append(theta[self.leg.actuated.index(j)])
            else:
                rates.append(-(self.scaled[j] @ residual))
                residual = residual + np.multiply.outer(self.g[j], rates[-1])
        return np.array(rates, dtype=object).reshape(len(self.coordinates), *np.shape(residual)[1:])

    def forces(self, w):
        """Return what forces w on all joints are on y, and on the actuated joints: the transpose of `rates`."""
        on_residual, on_actuated = np.zeros(len(self.known)), {}

        # inward: (22), (23)
        for n, j in reversed(list(enumerate(self.coordinates))):
            if j in self.leg.actuated:
                on_actuated[j] = w[n]
            else:
                on_residual = on_residual - self.scaled[j] * (w[n] + self.g[j] @ on_residual)
        actuated = np.array([on_actuated[j] + self.g[j] @ on_residual for j in self.leg.actuated], dtype=object)
        return self.K.T @ on_residual, actuated


class FreePlatform:
    """In place of the leg that carries the platform, where its own joint leaves it free: y are the rates of that joint."""

    def __init__(self, leg, coordinates):
        n = len(coordinates)
        self.leg, self.coordinates, self.pivots = leg, coordinates, []
        self.K, self.given, self.known = np.eye(n), np.zeros((n, 0)), np.zeros(n)
        self.projected = np.zeros((n, n))

    def rates(self, residual, theta):
        return residual

    def forces(self, w):
        return w, np.zeros(0)
