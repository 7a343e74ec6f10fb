"""Paths that coordinates follow over time, the joint forces that keep a mechanism on them, and motions of least cost."""

from catena.control.cartesian import CartesianPath, cartesian_path
from catena.control.computed_torque import computed_torque
from catena.control.ilqr import OptimalMotion, ilqr
from catena.control.paths import Path, Point, cycloidal, polynomial, trapezoidal

__all__ = [
    "CartesianPath", "OptimalMotion", "Path", "Point", "cartesian_path", "computed_torque", "cycloidal", "ilqr", "polynomial",
    "trapezoidal",
]  # fmt: skip
