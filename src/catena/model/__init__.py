"""Bodies, joints, loops and forces; the `Mechanism` that they make, and the `Tree` that the formulations read."""

from catena.model.bodies import Body, Geometry, box, cylinder, point_mass, rod, sphere
from catena.model.builder import Builder
from catena.model.closures import Closure, Coupling, Distance
from catena.model.contacts import Contact, dissipation_of, hull_points, restitution_of
from catena.model.driven import Driven, Harmonic
from catena.model.forces import Applied, Bushing, PointForce, Spring
from catena.model.joints import Custom, Cylindrical, Fixed, Free, Helical, Joint, Planar, Prismatic, Revolute, Spherical, Universal
from catena.model.mechanism import Mechanism
from catena.model.pose import Pose
from catena.model.tree import Tree
from catena.model.user_functions import python

__all__ = [
    "Applied", "Body", "Builder", "Bushing", "Closure", "Contact", "Coupling", "Custom", "Cylindrical", "Distance", "Driven", "Fixed",
    "Free", "Geometry", "Harmonic", "Helical", "Joint", "Mechanism", "Planar", "PointForce", "Pose", "Prismatic", "Revolute", "Spherical",
    "Spring", "Tree", "Universal", "box", "cylinder", "dissipation_of", "hull_points", "point_mass", "python", "restitution_of", "rod",
    "sphere",
]  # fmt: skip
