"""The command `catena`: a demonstration, what a model is made of, and its motion."""

from catena.cli import demo, info, simulate
from catena.cli.app import app

__all__ = ["app", "demo", "info", "simulate"]
