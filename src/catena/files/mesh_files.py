"""Files of meshes, which are looked for near the model file, or a folder that a TOML file names, in the packages around it, and nowhere
else.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

from catena.errors import MeshError


def find(name: str, folder: str | None) -> Path:
    """Return the file of a mesh, `package://name/…` in the package of this name, other paths from the folder of the model file.

    Packages are the folders above the model file, those beside them, and those in the folders of ROS_PACKAGE_PATH. A file outside of the
    model's package, or of the folder above it where it is in none, is not opened.
    """
    if folder is None:
        raise MeshError(f"mesh '{name}': the model was not read from a file, so that there is no folder to search")
    here = Path(folder)
    path = unquote(name.removeprefix("file://")) if name.startswith("file://") else name
    scheme, separator, rest = path.partition("://")
    if separator and scheme not in ("package", "model"):
        raise MeshError(f"mesh '{name}': {scheme}:// is not followed; give a path, or package://")
    package, _, inside = rest.partition("/")
    roots = _named(here, package) if separator else _near(here)
    places = [(root, root / inside if separator else here / path) for root in roots]
    for root, file in places:
        target = Path(os.path.realpath(file))
        if target.is_file() and target.is_relative_to(os.path.realpath(root)):
            return target
    if any(file.is_file() for _, file in places):
        raise MeshError(f"mesh '{name}' is outside of the package of the model file, and not opened; move it there")
    raise MeshError(f"mesh '{name}' was not found near {here}; put it there, or name the folder of its package in ROS_PACKAGE_PATH")


def _near(here: Path) -> list[Path]:
    """Return the folders in which the meshes of a model file may be: its own, its package or the folder above, and ROS_PACKAGE_PATH."""
    package = next((up for up in (here, *here.parents) if (up / "package.xml").is_file()), here.parent if here.parent.name else here)
    return [here, package, *_path()]


def _named(here: Path, package: str) -> list[Path]:
    """Return the folders that may be a package: those of its name above the model file, beside the ones above, or in ROS_PACKAGE_PATH."""
    ups = [up for up in (here, *here.parents) if up.name]
    return (
        [up for up in ups if up.name == package]
        + [up / package for up in ups]
        + [root if root.name == package else root / package for root in _path()]
    )


def _path() -> tuple[Path, ...]:
    return tuple(Path(entry) for entry in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if entry)
