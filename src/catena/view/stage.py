"""A scene in viser: its nodes, which are moved to the places of a state."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import rich

from catena.errors import optional_package
from catena.model.pose import upright
from catena.view import painter
from catena.view.scene import FORCE, MASS, SPRING, Box, Scene
from catena.view.shapes import Mesh, arrow, sphere

if TYPE_CHECKING:
    import viser

#: What can be shown besides the bodies.
SHOWN = ("frames", "centres", "forces")


def new_server(host: str = "127.0.0.1", port: int = 8080, title: str | None = None) -> viser.ViserServer:
    """Return a server of a page that shows a scene."""
    viser = optional_package("viser", "3D views need viser", 'pip install "catena[view]"')
    with _silence():  # viser prints its address, as `view` does
        server = viser.ViserServer(host=host, port=port, label=title, verbose=False)
    server.scene.set_up_direction("+z")
    return server


def stop(server: viser.ViserServer) -> None:
    """Stop a server, in silence."""
    with _silence():
        server.stop()


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep viser from printing: to the output, and in notebooks, where rich displays what it prints."""
    console = rich.get_console()
    quiet, console.quiet = console.quiet, True
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        console.quiet = quiet


class Stage:
    """The nodes of a scene, on a server; the camera sees the whole of `box`, the space that the scene takes.

    Frames, centres of mass and forces are nodes of their bodies, and move with them. `scale` is the length of the arrow of 1 N [m].
    """

    def __init__(self, server: viser.ViserServer, scene: Scene, box: Box, shown: Collection[str] = (), away: float = 1.0) -> None:
        self.server, self.scene, self.scale = server, scene, 0.0
        self._set_camera(box, away)
        names = [f"/bodies/{_node(name)}" for name in scene.model.body_names]
        self.bodies = [server.scene.add_frame(name, show_axes=False) for name in names]
        for part in scene.parts:
            self._add_mesh(f"{names[part.body]}/{_node(part.name)}", part.mesh, part.colour, flat=len(part.mesh.faces) < 5000)
        lines = scene.lines(scene.places(0.0, scene.neutral))
        self.lines = server.scene.add_line_segments("/springs", lines, SPRING, thickness=0.015 * scene.size) if len(lines) else None
        #: The nodes of what is shown besides the bodies, by its name.
        unit, ball = 0.15 * scene.size, sphere(0.02 * scene.size)
        massive = [(name, link.body.com) for name, link in zip(names, scene.model.links, strict=True) if link.body.mass]
        self.extras: dict[str, list[Any]] = {
            "frames": [server.scene.add_frame(f"{name}/frame", axes_length=unit, axes_radius=0.05 * unit) for name in names],
            "centres": [self._add_mesh(f"{name}/centre of mass", ball, MASS, at=com) for name, com in massive],
            "forces": self._add_forces(),
        }
        for name in SHOWN:
            self.set_visible(name, name in shown)

    def set_visible(self, name: str, visible: bool) -> None:
        """Show or hide the frames, the centres of mass or the forces."""
        for node in self.extras[name]:
            node.visible = visible

    def show(self, t: float, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> None:
        """Show a state; forces only where they are visible."""
        places = self.scene.places(t, q)
        turns = _quaternions(places[:, :3, :3])
        with self.server.atomic():
            for k, node in enumerate(self.bodies):
                node.position, node.wxyz = places[k, :3, 3], turns[k]
            if self.lines is not None:
                self.lines.points = self.scene.lines(places).astype(np.float32)
            if any(node.visible for node in self.extras["forces"]):
                self._show_forces(self.scene.forces(t, q, v, tau)[:, 1], places)

    def _show_forces(self, forces: np.ndarray, places: np.ndarray) -> None:
        """Turn and stretch the arrows; the longest so far is half the scene's size, unless a scale was given."""
        sizes = np.nan_to_num(np.linalg.norm(forces, axis=1))
        if sizes.max(initial=0.0) * self.scale > self.scene.size or not self.scale:
            self.scale = 0.5 * self.scene.size / sizes.max(initial=0.0) if sizes.any() else 0.0
        for node, body, force, size in zip(self.extras["forces"], self.scene.loaded_bodies, forces, sizes, strict=True):
            if size > 0.0:
                node.wxyz = _quaternions(upright(places[body, :3, :3].T @ force)[None])[0]
            node.scale = max(float(self.scale * size), 1e-9)

    def _set_camera(self, box: Box, away: float) -> None:
        view, first = painter.camera(box), self.server.initial_camera
        first.position, first.look_at, first.fov = view.target + away * (view.eye - view.target), view.target, painter.VIEW
        first.near, first.far = 1e-3 * box.radius, 1e3 * box.radius
        step, wide = painter.rounded(box.radius / 2.0), 12.0 * box.radius
        look = {"cell_color": painter.GRID, "section_color": painter.GRID, "fade_distance": 15.0 * box.radius}
        below = np.array([0.0, 0.0, painter.floor(box)])
        for i, (point, axes) in enumerate(self.scene.planes or [(below, np.eye(3))]):  # those that bodies may touch, or one below all
            at = box.centre - (axes[2] @ (box.centre - point)) * axes[2]
            turn = tuple(_quaternions(axes.T[None])[0])
            name = f"/floor{i or ''}"
            self.server.scene.add_grid(name, wide, wide, cell_size=step, section_size=5.0 * step, position=at, wxyz=turn, **look)

    def _add_forces(self) -> list[Any]:
        names = [f"{_node(name)}, force" for name in self.scene.loaded_names]
        on = [self.bodies[body].name if body >= 0 else "" for body in self.scene.loaded_bodies]
        at = self.scene.loaded_points
        return [self._add_mesh(f"{node}/{name}", arrow(), FORCE, at=point) for node, name, point in zip(on, names, at, strict=True)]

    def _add_mesh(self, name: str, mesh: Mesh, colour: tuple[int, int, int], flat: bool = False, at: Any = (0.0, 0.0, 0.0)) -> Any:
        points, faces = mesh.vertices.astype(np.float32), mesh.faces.astype(np.uint32)
        return self.server.scene.add_mesh_simple(name, points, faces, color=colour, flat_shading=flat, side="double", position=at)


def _quaternions(turns: np.ndarray) -> np.ndarray:
    """Return rotations as quaternions (w, x, y, z)."""
    from scipy.spatial.transform import Rotation  # here, because the import takes half a second

    return np.roll(Rotation.from_matrix(turns).as_quat(), 1, axis=1)


def _node(name: str) -> str:
    """Return a name without the slashes that separate nodes."""
    return name.replace("/", "∕")
