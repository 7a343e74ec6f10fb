"""Runs of models over time."""

from catena.simulation.ensemble import ensemble
from catena.simulation.events import Event
from catena.simulation.gradient import MotionGradient, MotionSensitivity, rollout_gradient, rollout_sensitivity, simulate_gradient
from catena.simulation.rollout import Rollout, rollout
from catena.simulation.simulate import simulate
from catena.simulation.stepper import stepper
from catena.simulation.trajectory import Occurrence, Trajectory

__all__ = [
    "Event", "MotionGradient", "MotionSensitivity", "Occurrence", "Rollout", "Trajectory", "ensemble", "rollout", "rollout_gradient",
    "rollout_sensitivity", "simulate", "simulate_gradient", "stepper",
]  # fmt: skip
