"""The command `catena`: a demonstration, what a model is made of, its motion, and its methods side by side."""

from catena.cli import cite, compare, demo, info, simulate
from catena.cli.app import app

__all__ = ["app", "cite", "compare", "demo", "info", "simulate"]
