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
from catena.view.framing import Framing
from catena.view.guard import guarded
from catena.view.scene import MASS, SPRING, Box, Scene
from catena.view.shapes import Mesh, arrow, sphere

if TYPE_CHECKING:
    import viser

#: What can be shown besides the bodies.
SHOWN = ("frames", "centres", "forces")
LABELS = {"frames": "frames", "centres": "centres of mass", "forces": "forces"}


def new_server(host: str = "127.0.0.1", port: int = 8080, title: str | None = None) -> viser.ViserServer:
    """Return a server of a page that shows a scene, which pages of others cannot open, nor make public."""
    viser = optional_package("viser", "3D views need viser", 'pip install "catena[view]"')
    from viser._messages import ShareUrlDisconnect, ShareUrlRequest

    with _silence(), guarded(host):  # viser prints its address, as `view` does
        server = viser.ViserServer(host=host, port=port, label=title, verbose=False)
    for asked in (ShareUrlRequest, ShareUrlDisconnect):  # of a public address, which nobody who looks may ask for
        server._websock_server.unregister_handler(asked)
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
    """The nodes of a scene, on a server; the camera sees the space of `framed`, `away` times as far as would do.

    A mechanism that is followed stays where it is on the page, and the ground moves: the camera is the user's. Frames and centres of mass
    are nodes of their bodies, and move with them. `scale` is the length of the arrow of 1 N [m].
    """

    def __init__(self, server: viser.ViserServer, scene: Scene, framed: Framing, shown: Collection[str] = (), away: float = 1.0) -> None:
        self.server, self.scene, self.scale = server, scene, 0.0
        names = [*(f"/bodies/{_node(name)}" for name in scene.model.body_names), "/ground"]
        self.bodies = [server.scene.add_frame(name, show_axes=False) for name in names]
        self._set_camera(framed.box, away)
        self._add_grids(framed)
        for part in scene.parts:
            self._add_mesh(f"{names[part.body]}/{_node(part.name)}", part.mesh, part.colour, flat=len(part.mesh.faces) < 5000)
        lines = scene.lines(scene.places(0.0, scene.neutral))
        self.lines = server.scene.add_line_segments("/springs", lines, SPRING, thickness=0.015 * scene.size) if len(lines) else None
        ball = sphere(0.02 * scene.size)
        massive = [(name, link.body.com) for name, link in zip(names[:-1], scene.model.links, strict=True) if link.body.mass]
        #: The nodes of what is shown besides the bodies, by its name.
        self.extras: dict[str, list[Any]] = {
            "frames": self._add_frames(names),
            "centres": [self._add_mesh(f"{name}/centre of mass", ball, MASS, at=com) for name, com in massive],
            "forces": [],  # made when there are some
        }
        self.shown = {name: name in shown for name in SHOWN}
        for name in SHOWN:
            self.set_visible(name, self.shown[name])

    def set_visible(self, name: str, visible: bool) -> None:
        """Show or hide the frames, the centres of mass or the forces."""
        self.shown[name] = visible
        for node in self.extras[name]:
            node.visible = visible

    def show(self, t: float, q: np.ndarray, forces: np.ndarray | None = None, shift: np.ndarray | None = None) -> None:
        """Show a position, with the forces (K, 2, 3) of `Scene.forces` if they are given; the camera has moved by a shift."""
        places = self.scene.places(t, q)
        shift = np.zeros(3) if shift is None else shift
        places[:, :3, 3] -= shift
        turns = _quaternions(places[:, :3, :3])
        with self.server.atomic():
            for node, place, turn in zip(self.bodies, places, turns, strict=True):
                node.position, node.wxyz = place[:3, 3], turn
            if self.wall.visible:  # it goes along with the camera, its lines do not
                self.wall.position = self._behind - self._wall_axes[:2].T @ (self._wall_axes[:2] @ shift)
            if self.lines is not None:
                self.lines.points = self.scene.lines(places).astype(np.float32)
            if forces is not None and len(forces):
                self._show_forces(forces - np.stack([shift, np.zeros(3)]))

    def set_framing(self, framed: Framing) -> None:
        """Show the grids that tell a motion."""
        self.wall.visible = framed.rises
        for node in self.floors:
            node.visible = bool(self.scene.planes) or not framed.rises

    def _show_forces(self, forces: np.ndarray) -> None:
        """Show arrows; the longest so far is half the scene's size, unless a scale was given."""
        points, forces = np.nan_to_num(forces[:, 0]), np.nan_to_num(forces[:, 1])
        sizes = np.linalg.norm(forces, axis=1)
        if sizes.max(initial=0.0) * self.scale > 3.1 * self.scene.size or not self.scale:
            self.scale = 0.5 * self.scene.size / sizes.max(initial=0.0) if sizes.any() else 0.0
        along = np.stack([upright(force) if size > 0.0 else np.eye(3) for force, size in zip(forces, sizes, strict=True)])
        given: dict[str, Any] = {
            "batched_wxyzs": _quaternions(along).astype(np.float32),
            "batched_positions": points.astype(np.float32),
            "batched_scales": np.maximum(self.scale * sizes, 1e-9).astype(np.float32),
        }
        if not self.extras["forces"]:
            mesh, colours = arrow(), np.array(self.scene.force_colours(len(forces)), dtype=np.uint8)
            look: dict[str, Any] = {"batched_colors": colours, "lod": "off", "cast_shadow": False, "visible": self.shown["forces"]}
            faces = mesh.faces.astype(np.uint32)
            self.extras["forces"] = [self.server.scene.add_batched_meshes_simple("/forces", mesh.vertices, faces, **given, **look)]
        for name, value in given.items():
            setattr(self.extras["forces"][0], name, value)

    def _set_camera(self, box: Box, away: float) -> None:
        view, first = painter.camera(box), self.server.initial_camera
        first.position, first.look_at, first.fov = view.target + away * (view.eye - view.target), view.target, painter.VIEW
        first.near, first.far = 1e-3 * box.radius, 1e3 * box.radius

    def _add_grids(self, framed: Framing) -> None:
        """Add the planes that bodies may touch, or one below all, and a wall, which is seen where the camera goes up or down."""
        box = framed.box
        step = painter.rounded(box.radius / 2.0)
        look: dict[str, Any] = {"cell_size": step, "section_size": 5.0 * step, "cell_color": painter.GRID, "section_color": painter.GRID}
        look |= {"infinite_grid": True, "fade_distance": 15.0 * box.radius}
        fill: dict[str, Any] = {"plane_color": painter.GROUND, "plane_opacity": 1.0 if self.scene.planes else 0.0}
        below = (np.array([0.0, 0.0, framed.floor]), np.eye(3))
        self.floors = [
            self.server.scene.add_grid(f"/ground/floor{i or ''}", position=point, wxyz=_quaternions(axes.T[None])[0], **look, **fill)
            for i, (point, axes) in enumerate(self.scene.planes or [below])
        ]
        self._behind, self._wall_axes = painter.wall(painter.camera(box, wall=True))
        self.wall = self.server.scene.add_grid("/wall", wxyz=_quaternions(self._wall_axes.T[None])[0], **look)
        self.set_framing(framed)

    def _add_frames(self, names: list[str]) -> list[Any]:
        """Return the frames of the bodies, and those that the model names, with their names."""
        unit, model = 0.15 * self.scene.size, self.scene.model
        size: dict[str, Any] = {"axes_length": unit, "axes_radius": 0.05 * unit}
        frames: list[Any] = [self.server.scene.add_frame(f"{name}/frame", **size) for name in names[:-1]]
        on = dict(zip((*model.body_names, "ground"), names, strict=True))
        for frame in model.frames:
            name = f"{on[frame.body]}/frame {_node(frame.name)}"
            turn = _quaternions(frame.at.R[None])[0]
            frames.append(self.server.scene.add_frame(name, **size, position=frame.at.p, wxyz=turn))
            frames.append(self.server.scene.add_label(f"{name}/name", frame.name))
        return frames

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
