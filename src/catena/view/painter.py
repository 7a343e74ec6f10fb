"""Pictures of a scene without a display: triangles from the farthest to the nearest, with one light, by Pillow.

Matplotlib's Poly3DCollection draws seams between triangles, takes more than twice as long, and would save only sorting and projection.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from catena.errors import optional_package
from catena.view.scene import SPRING, Box, Scene
from catena.view.shapes import between

if TYPE_CHECKING:
    from PIL.Image import Image

#: Angle of view [rad].
VIEW = np.deg2rad(36.0)

#: Pixels are drawn this many times as fine, and averaged.
FINE = 2

BACKGROUND, GROUND, GRID, INK = (255, 255, 255), (240, 242, 244), (222, 226, 230), (70, 74, 80)


class Camera(NamedTuple):
    """A camera: the point in the middle of its picture, its own position, and the axes of the picture (right, up, towards it).

    Behind the middle there may be a `wall` at a distance [m]: upright, and with a grid, which tells how far up or down a camera has moved.
    """

    target: np.ndarray
    eye: np.ndarray
    axes: np.ndarray
    wall: float | None = None

    def moved(self, by: np.ndarray) -> Camera:
        """Return the camera at another place, with the same direction."""
        return self._replace(target=self.target + by, eye=self.eye + by)

    def seen(self, points: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """Return pixels and distances of points in a picture of a size."""
        right, up, towards = np.moveaxis((points - self.eye) @ self.axes.T, -1, 0)
        far = np.maximum(-towards, 1e-9)
        scale = 0.5 * min(size) / np.tan(0.5 * VIEW)
        return np.stack([0.5 * size[0] + scale * right / far, 0.5 * size[1] - scale * up / far], axis=-1), far


    def before(self, corners: np.ndarray) -> np.ndarray:
        """Return the corners of what is before the camera of a line or a convex polygon."""
        near = 0.05 * float(np.linalg.norm(self.eye - self.target))
        depths = (self.eye - corners) @ self.axes[2] - near
        shown = []
        for k, (corner, depth) in enumerate(zip(corners, depths, strict=True)):
            if depth > 0.0:
                shown.append(corner)
            following = (k + 1) % len(corners)
            if depth * depths[following] < 0.0 and (len(corners) > 2 or following):
                shown.append(corner + depth / (depth - depths[following]) * (corners[following] - corner))
        return np.array(shown)


class Arrow(NamedTuple):
    """A line over a picture, from a point of the world to another, with a head unless it is not `pointed`; without length a dot."""

    start: np.ndarray
    end: np.ndarray
    colour: tuple[int, int, int]
    pointed: bool = True
    name: str = ""  # stands at its end


def camera(box: Box, wall: bool = False) -> Camera:
    """Return a camera that sees the whole of a space: from the side where it is flat, else from the front, right and above.

    A wall, if it is wanted, is behind the space.
    """
    span = box.high - box.low
    flat = int(np.argmin(span))
    if span[flat] < 0.35 * np.sort(span)[1]:
        look = {0: (1.0, -0.18, 0.12), 1: (-0.18, -1.0, 0.12), 2: (0.0, -0.35, 1.0)}[flat]
    else:
        look = (0.75, -1.0, 0.5)
    toward = np.array(look) / np.linalg.norm(look)
    right = np.cross((0.0, 0.0, 1.0), toward)
    right /= np.linalg.norm(right)
    axes = np.stack([right, np.cross(toward, right), toward])
    # as near as leaves all corners in the picture, with a margin
    corners = (box.corners - box.centre) @ axes.T
    far = np.max(np.abs(corners[:, :2]).max(axis=1) / np.tan(0.5 * VIEW) * 1.12 + corners[:, 2])
    return Camera(box.centre, box.centre + max(float(far), 1.05 * box.radius) * toward, axes, box.radius if wall else None)


def floor(box: Box) -> float:
    """Return the height of the floor, a little below a space."""
    return float(box.low[2]) - 0.02 * box.radius


def wall(view: Camera) -> tuple[np.ndarray, np.ndarray]:
    """Return the wall behind what a camera sees: a point of it, from which its grid is counted, and its axes, the last its normal."""
    right, up = view.axes[0], np.array([0.0, 0.0, 1.0])
    normal = np.cross(right, up)
    return (normal @ view.target - (view.wall or 0.0)) * normal, np.stack([right, up, normal])


def picture(
    scene: Scene, places: np.ndarray, view: Camera, ground: float, size: tuple[int, int], text: str = "", overlay: Collection[Arrow] = ()
) -> Image:
    """Return a picture of the bodies in their places, with lines, arrows and dots drawn over it."""
    optional_package("PIL", "pictures need Pillow", 'pip install "catena[plot]"')
    from PIL import Image, ImageDraw

    fine = (FINE * size[0], FINE * size[1])
    image = Image.new("RGB", fine, BACKGROUND)
    draw = ImageDraw.Draw(image)
    grids = [_grid(view, point, axes) for point, axes in scene.planes]
    for _, edge in grids:  # a ground that bodies may touch
        if len(corners := view.before(edge)) > 2:
            draw.polygon(view.seen(corners, fine)[0].ravel().tolist(), fill=GROUND)
    if view.wall is not None:
        level = max((point[2] for point, axes in scene.planes if axes[2, 2] == 1.0), default=-np.inf)
        grids.append(_grid(view, *wall(view), low=level))
    elif not grids:
        grids.append(_grid(view, np.array([0.0, 0.0, ground]), np.eye(3)))
    for lines, _ in grids:
        for line in lines:
            if len(ends := view.before(line)) > 1:
                draw.line([tuple(pixel) for pixel in view.seen(ends, fine)[0]], fill=GRID, width=FINE)
    for polygon, colour in _polygons(scene, places, view, fine):
        draw.polygon(polygon, fill=colour)
    for arrow in overlay:
        _draw_arrow(draw, view, fine, arrow)
    image = image.reduce(FINE)
    if text:
        ImageDraw.Draw(image).text((10, 8), text, fill=INK, font_size=14)
    return image


def _polygons(scene: Scene, places: np.ndarray, view: Camera, size: tuple[int, int]) -> Iterator[tuple[list[Any], tuple[int, int, int]]]:
    """Yield the corners of the triangles that face the eye with their shades, from the farthest to the nearest."""
    corners, colours = [], []
    for a, b in scene.lines(places):
        if np.isfinite((a, b)).all() and np.linalg.norm(b - a) > 0.0:
            rod = between(a, b, 0.008 * scene.size)
            corners.append(rod.vertices[rod.faces])
            colours.append(np.broadcast_to(np.array(SPRING, dtype=float), (len(rod.faces), 3)))
    for part in scene.light_parts:
        place = places[part.body]
        world = part.mesh.vertices @ place[:3, :3].T + place[:3, 3]
        corners.append(world[part.mesh.faces])
        colours.append(np.broadcast_to(np.array(part.colour, dtype=float), (len(part.mesh.faces), 3)))
    if not corners:
        return
    triangles, shades = np.concatenate(corners), np.concatenate(colours)
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    lengths = np.linalg.norm(normals, axis=1)
    normals /= np.where(lengths > 0.0, lengths, 1.0)[:, None]
    middles = triangles.mean(axis=1)
    facing = np.einsum("ij,ij->i", normals, view.eye - middles)
    pixels, far = view.seen(triangles, size)
    seen = (facing > 0.0) & (far.min(axis=1) > 1e-6) & (lengths > 0.0) & np.isfinite(pixels).all(axis=(1, 2))
    light = np.array([0.35, 0.55, 1.0]) @ view.axes
    shine = 0.5 + 0.5 * np.clip(normals @ (light / np.linalg.norm(light)), -0.3, 1.0)
    shades = np.clip(shades * shine[:, None], 0.0, 255.0).astype(int)
    for k in np.flatnonzero(seen)[np.argsort(-np.linalg.norm(middles[seen] - view.eye, axis=1), kind="stable")]:
        yield pixels[k].ravel().tolist(), tuple(shades[k].tolist())


def _grid(view: Camera, point: np.ndarray, axes: np.ndarray, low: float = -np.inf) -> tuple[np.ndarray, np.ndarray]:
    """Return the lines of a grid in a plane around a camera's target, above `low` along its second axis, and the corners of its edge.

    Squares are a power of ten times 1, 2 or 5, counted from the point: the grid rests when the camera moves, and its edge goes along.
    """
    distance, height = float(np.linalg.norm(view.eye - view.target)), abs(float(axes[2] @ (view.target - point)))
    step, reach = rounded(0.12 * distance), 0.6 * distance + 2.5 * min(max(height - 0.5 * distance, 0.0), 3.0 * distance)
    (left, right), (near, far) = ((middle - reach, middle + reach) for middle in axes[:2] @ (view.target - point))
    near, far = max(near, low), max(far, low)
    lines = [((x, near), (x, far)) for x in _multiples(step, left, right)] + [((left, y), (right, y)) for y in _multiples(step, near, far)]
    edge = np.array([(left, near), (right, near), (right, far), (left, far)])
    return point + np.array(lines) @ axes[:2], point + edge @ axes[:2]


def _multiples(step: float, low: float, high: float) -> np.ndarray:
    """Return the multiples of a step between two numbers."""
    return step * np.arange(np.ceil(low / step), np.floor(high / step) + 1.0)


def rounded(x: float) -> float:
    """Return the largest of 1, 2 or 5 times a power of ten that is not above x."""
    power = 10.0 ** np.floor(np.log10(x))
    return float(power * max(n for n in (1.0, 2.0, 5.0) if n * power <= x * (1.0 + 1e-12)))


def _draw_arrow(draw: Any, view: Camera, size: tuple[int, int], arrow: Arrow) -> None:
    """Draw an arrow, or a dot where it has no length."""
    ends = np.stack([arrow.start, arrow.end])
    if not np.isfinite(ends).all():
        return
    (a, b), _ = view.seen(ends, size)
    length, width = float(np.linalg.norm(b - a)), 2 * FINE
    if length < 1.0:
        draw.ellipse([*(a - 2 * width), *(a + 2 * width)], fill=arrow.colour)
        return
    if arrow.name:
        draw.text(tuple(b + 2 * width), arrow.name, fill=INK, font_size=11 * FINE)
    along = (b - a) / length
    across, head = np.array([-along[1], along[0]]), min(6.0 * width, 0.5 * length) if arrow.pointed else 0.0
    draw.line([tuple(a), tuple(b - 0.5 * head * along)], fill=arrow.colour, width=width)
    if head:
        corners = (b, b - head * along + 0.4 * head * across, b - head * along - 0.4 * head * across)
        draw.polygon(np.concatenate(corners).tolist(), fill=arrow.colour)
