"""Mass matrix column by column: the joint forces that a unit acceleration of one coordinate needs.

Source   [J91] Jain, Unified formulation of dynamics for serial rigid multibody systems, §3, direct method (23); for trees.
Frames   every quantity of body k is expressed in the frame of body k, at its joint.
Cost     O(n) for each column, O(n^2) in all; every entry off the diagonal is computed twice, by two different sums.
"""

from __future__ import annotations

import numpy as np

from catena.formulations.inverse.newton_euler import at_rest
from catena.formulations.kinematics import placements


def mass_matrix(tree, q):
    """Return the mass matrix, nv x nv, symmetric but for rounding."""
    X, S = placements(tree, q)
    return np.stack([at_rest(tree, X, S, unit) for unit in np.eye(tree.nv)], axis=1)
