"""The command `catena`: a demonstration, what a model is made of, its motion, its methods side by side, and its kernels as files."""

from catena.cli import bench, cite, compare, demo, export, info, simulate
from catena.cli.app import app

__all__ = ["app", "bench", "cite", "compare", "demo", "export", "info", "simulate"]
