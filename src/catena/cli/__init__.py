"""The command `catena`: what a model is made of, how it moves and looks, its methods and their times, its kernels as files."""

from catena.cli import bench, cite, compare, demo, export, info, simulate, sweep, view
from catena.cli.app import app

__all__ = ["app", "bench", "cite", "compare", "demo", "export", "info", "simulate", "sweep", "view"]
