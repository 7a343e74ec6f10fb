"""The version of catena."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("catena")
except PackageNotFoundError:  # running from a source tree that was not installed
    __version__ = "0+unknown"
