"""Paths that coordinates follow over time, and the joint forces that keep a mechanism on them."""

from catena.control.cartesian import CartesianPath, cartesian_path
from catena.control.computed_torque import computed_torque
from catena.control.paths import Path, Point, cycloidal, polynomial, trapezoidal

__all__ = ["CartesianPath", "Path", "Point", "cartesian_path", "computed_torque", "cycloidal", "polynomial", "trapezoidal"]
