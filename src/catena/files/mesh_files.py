"""Files of meshes, which are looked for near the model file, or a folder that a TOML file names, in the packages around it, and nowhere
else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from catena.atomic_files import reason
from catena.errors import MeshError
from catena.model.wording import short


def find(name: str, folder: str | None) -> Path:
    """Return the file of a mesh, `package://name/…` in the package of this name, other paths from the folder of the model file.

    Packages are the folders above the model file, those beside them, and those in the folders of ROS_PACKAGE_PATH. A file outside of the
    model's package, or of the folder above it where it is in none, is not opened.
    """
    called = f"mesh {short(name)}"
    if folder is None:
        raise MeshError(f"{called}: the model was not read from a file, so that there is no folder to search")
    here = Path(folder)
    path = unquote(name.removeprefix("file://")) if name.startswith("file://") else name
    scheme, separator, rest = path.partition("://")
    if not separator:
        return allowed(called, [here / path], here)
    if scheme not in ("package", "model"):
        raise MeshError(f"{called}: {scheme}:// is not followed; give a path, or package://")
    package, _, inside = rest.partition("/")
    if package in ("", "..") or Path(package).name != package:
        raise MeshError(f"{called}: {short(package)} is not the name of a package; write package://name/path")
    return _first(called, here, [(root, root / inside) for root in _named(here, package)])


def allowed(called: str, files: Sequence[Path], here: Path) -> Path:
    """Return the first of these files that is there, if it is where files of a model file in the folder `here` may be; see `find`."""
    return _first(called, here, [(root, file) for file in files for root in _near(here)])


def _first(called: str, here: Path, places: Sequence[tuple[Path, Path]]) -> Path:
    """Return the first ordinary file that is in the folder beside it, links followed."""
    try:
        targets = [(os.path.realpath(root), Path(os.path.realpath(file))) for root, file in places]
        for root, target in targets:
            if target.is_file() and target.is_relative_to(root):
                return target
        there = [target for _, target in targets if target.exists()]
    except (OSError, ValueError) as cause:  # of a name that is too long, or has a NUL
        raise MeshError(f"{called} is not a path that the system takes ({reason(cause)}); give one") from None
    if there and not there[0].is_file():
        raise MeshError(f"{called} is not an ordinary file; give one")
    if there:
        raise MeshError(
            f"{called} is outside of the package of the model file, and not opened; move it there, or name its folder in ROS_PACKAGE_PATH"
        )
    raise MeshError(f"{called} was not found near {short(str(here))}; put it there, or name the folder of its package in ROS_PACKAGE_PATH")


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
