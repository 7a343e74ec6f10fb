"""The joints, as users write them: parameters and options, coordinates with labels and units, and how positions move."""

from catena.model.joints.base import Joint
from catena.model.joints.custom import Custom
from catena.model.joints.quaternions import Free, Spherical
from catena.model.joints.screws import Cylindrical, Fixed, Helical, Planar, Prismatic, Revolute, Universal

__all__ = [
    "JOINTS", "Custom", "Cylindrical", "Fixed", "Free", "Helical", "Joint", "Planar", "Prismatic", "Revolute", "Spherical", "Universal",
]  # fmt: skip

#: Every joint type, by its name in files.
JOINTS: dict[str, type[Joint]] = {
    kind.__name__.lower(): kind for kind in (Revolute, Prismatic, Helical, Cylindrical, Universal, Planar, Spherical, Free, Fixed, Custom)
}
