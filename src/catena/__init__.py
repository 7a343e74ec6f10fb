"""catena: recursive multibody dynamics. Describe a mechanism; get its equations of motion as fast NumPy functions."""

from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version

from catena.errors import (
    ArgumentError,
    CatenaError,
    CompileError,
    InertiaWarning,
    MethodError,
    ModelError,
    ModelFileError,
    TraceError,
)
from catena.graph import atan2, maximum, minimum, where
from catena.kernels import (
    bias_force,
    energy,
    forward_dynamics,
    inverse_dynamics,
    jacobian,
    mass_matrix,
    methods,
    momenta,
    poses,
)
from catena.model import (
    Body,
    Custom,
    Cylindrical,
    Fixed,
    Free,
    Geometry,
    Helical,
    Model,
    Planar,
    Pose,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
    box,
    cylinder,
    point_mass,
    rod,
    sphere,
)
from catena.model.files import load
from catena.native import Kernel

try:
    __version__ = _version("catena")
except _PackageNotFoundError:  # running from a source tree that was not installed
    __version__ = "0+unknown"

__all__ = [
    "ArgumentError", "Body", "CatenaError", "CompileError", "Custom", "Cylindrical", "Fixed", "Free", "Geometry", "Helical",
    "InertiaWarning", "Kernel", "MethodError", "Model", "ModelError", "ModelFileError", "Planar", "Pose", "Prismatic", "Revolute",
    "Spherical", "TraceError", "Universal", "atan2", "bias_force", "box", "cylinder", "energy", "forward_dynamics", "inverse_dynamics",
    "jacobian", "load", "mass_matrix", "maximum", "methods", "minimum", "momenta", "point_mass", "poses", "rod", "sphere", "where",
]  # fmt: skip
