"""What the user wrote: bodies, joints, their checks, and the `Tree` that the formulations read."""

from catena.model.bodies import Body, Geometry, box, cylinder, point_mass, rod, sphere
from catena.model.driven import Driven, Harmonic
from catena.model.forces import Applied, Spring, python
from catena.model.joints import (
    Custom,
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Joint,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
)
from catena.model.loops import Closure, Coupling, Distance
from catena.model.model import Model
from catena.model.pose import Pose
from catena.model.tree import Tree

__all__ = [
    "Applied", "Body", "Closure", "Coupling", "Custom", "Cylindrical", "Distance", "Driven", "Fixed", "Free", "Geometry", "Harmonic",
    "Helical", "Joint", "Model", "Planar", "Pose", "Prismatic", "Revolute", "Spherical", "Spring", "Tree", "Universal", "box", "cylinder",
    "point_mass", "python", "rod", "sphere",
]  # fmt: skip
