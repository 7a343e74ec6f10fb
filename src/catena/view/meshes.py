"""Meshes from files, which are looked for near the model file and in the packages around it, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from catena.errors import MeshError, optional_package
from catena.view.shapes import Mesh

#: Size [bytes] beyond which a mesh is not shown.
LIMIT = 256 << 20


class Painted(NamedTuple):
    """Triangles of one colour, if they have one."""

    mesh: Mesh
    colour: tuple[int, int, int] | None


def load(name: str, folder: str | None) -> list[Painted]:
    """Return the mesh that a model file in a folder calls by this name, by its colours."""
    file = find(name, folder)
    if file.stat().st_size > LIMIT:
        raise MeshError(f"{file} holds more than {LIMIT >> 20} MiB; give a smaller mesh")
    trimesh = optional_package("trimesh", "meshes need trimesh", 'pip install "catena[view]"')
    try:
        loaded: Any = trimesh.load(str(file), force="scene", process=False)
        painted = [_painted(part) for part in loaded.dump() if hasattr(part, "faces") and len(part.faces)]
    except ImportError as error:
        raise MeshError(f"{file} is read by a package that is not installed ({error}); install it, or give an .stl or .obj file") from None
    except Exception as error:  # whatever a reader of one of many formats makes of a broken file
        raise MeshError(f"{file} cannot be read ({type(error).__name__}: {error}); check the file") from error
    if not painted or not all(np.isfinite(mesh.vertices).all() for mesh, _ in painted):
        raise MeshError(f"{file} holds no triangles; check the file")
    return painted


def _painted(part: Any) -> Painted:
    """Return a part of a mesh with its one colour, that of its material or of most of its faces."""
    mesh, visual, colour = Mesh(np.array(part.vertices, dtype=float), np.array(part.faces, dtype=int)), part.visual, None
    if visual.defined:
        red, green, blue = (int(channel) for channel in (visual.material if hasattr(visual, "material") else visual).main_color[:3])
        colour = (red, green, blue)
    return Painted(mesh, colour)


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
