"""Parallel manipulators: platforms on legs with motors, their kinematics, dynamics and singularities."""

from catena.parallel.manipulator import Complements as Complements
from catena.parallel.manipulator import ParallelManipulator as ParallelManipulator
from catena.parallel.manipulator import Singularities as Singularities
