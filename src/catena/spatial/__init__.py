"""Vectors, placements and inertias of rigid bodies, on any scalar.

Everything here takes NumPy arrays whose entries are floats or traced scalars; nothing branches on a traced value.
"""

from catena.spatial.inertias import (
    carried,
    centroid,
    first_moment,
    gyroscopic,
    inertia_matrix,
    minus_product,
    rigid_inertia,
    symmetric,
    welded,
)
from catena.spatial.placements import Placement, Rigid, Screw
from catena.spatial.rotations import (
    quaternion_exp,
    quaternion_inverse,
    quaternion_log,
    quaternion_product,
    rotation,
    rotation_rate,
    rotation_vector,
)
from catena.spatial.solves import LU, Factor, gain, reciprocal
from catena.spatial.straight_line import straight_line
from catena.spatial.vectors import Array, columns, cross, cross_force, cross_motion, plain, skew, stack_columns, vanishes

__all__ = [
    "LU", "Array", "Factor", "Placement", "Rigid", "Screw", "carried", "centroid", "columns", "cross", "cross_force", "cross_motion",
    "first_moment", "gain", "gyroscopic", "inertia_matrix", "minus_product", "plain", "quaternion_exp", "quaternion_inverse",
    "quaternion_log", "quaternion_product", "reciprocal", "rigid_inertia", "rotation", "rotation_rate", "rotation_vector", "skew",
    "stack_columns", "straight_line", "symmetric", "vanishes", "welded",
]  # fmt: skip
