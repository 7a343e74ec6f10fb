"""Inverse kinematics: positions at which frames are where they shall be."""

from catena.kinematic_targets.solve import InverseKinematics as InverseKinematics
from catena.kinematic_targets.solve import inverse_kinematics as inverse_kinematics
from catena.kinematic_targets.targets import Target as Target
