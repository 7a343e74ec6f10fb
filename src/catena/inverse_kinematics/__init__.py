"""Inverse kinematics: positions at which frames are where they shall be."""

from catena.inverse_kinematics.solve import InverseKinematics as InverseKinematics
from catena.inverse_kinematics.solve import inverse_kinematics as inverse_kinematics
from catena.inverse_kinematics.targets import Target as Target
