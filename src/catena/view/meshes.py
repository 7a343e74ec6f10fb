"""Meshes from files, with their colours."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.errors import MeshError, optional_package
from catena.files.mesh_files import find
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
