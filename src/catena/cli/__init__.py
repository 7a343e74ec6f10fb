"""The command `catena`: a demonstration, what a model is made of, its motion, its methods side by side, its kernels as files, and the
model in the browser."""

from catena.cli import cite, compare, demo, export, info, simulate, view
from catena.cli.app import app

__all__ = ["app", "cite", "compare", "demo", "export", "info", "simulate", "view"]
