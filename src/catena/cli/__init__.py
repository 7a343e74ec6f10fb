"""The command `catena`: what a model is made of, how it moves and looks, its methods and their times, its kernels as files."""

from importlib import import_module
from types import ModuleType

from catena.cli.app import COMMANDS, app

__all__ = ["app"]


def __getattr__(name: str) -> ModuleType:
    """Return the module of a command, when it is first used."""
    if name in COMMANDS:
        return import_module(f"catena.cli.{name}")
    raise AttributeError(f"module 'catena.cli' has no attribute {name!r}")
