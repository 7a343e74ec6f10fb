"""Triangles of the shapes that bodies are shown as, around their own origin."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from catena.model.pose import upright

#: Corners of what is round.
AROUND = 24


class Mesh(NamedTuple):
    """Triangles: points (V, 3), and the points of each triangle (F, 3), counter-clockwise from outside."""

    vertices: np.ndarray
    faces: np.ndarray

    def moved(self, R: np.ndarray, p: np.ndarray) -> Mesh:
        """Return the mesh turned by R, then shifted by p."""
        return Mesh(self.vertices @ np.asarray(R).T + p, self.faces)

    def scaled(self, scale: tuple[float, ...]) -> Mesh:
        """Return the mesh with its axes stretched; a reflection turns the triangles round, so that outside stays outside."""
        faces = self.faces if np.prod(scale) > 0.0 else self.faces[:, ::-1]
        return Mesh(self.vertices * np.array(scale), faces)


def box(x: float, y: float, z: float) -> Mesh:
    """Return a box with edges x, y, z, each side cut into pieces that are about as long as wide.

    >>> volume(box(1.0, 2.0, 3.0)).round(9)
    np.float64(6.0)
    """
    edges = np.array([x, y, z])
    sides = []
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        pieces = [int(np.clip(round(edges[n] / edges.min()), 1, 8)) for n in (i, j)]
        for sign in (1.0, -1.0):
            flat = _grid(*pieces)
            vertices = np.empty((len(flat.vertices), 3))
            vertices[:, i], vertices[:, j], vertices[:, k] = flat.vertices[:, 0], sign * flat.vertices[:, 1], 0.5 * sign
            sides.append(Mesh(vertices * edges, flat.faces))
    return joined(sides)


def cylinder(length: float, radius: float) -> Mesh:
    """Return a cylinder about z.

    >>> volume(cylinder(1.0, 1.0)).round(2)
    np.float64(3.11)
    """
    return _turned([(0.0, -0.5 * length), *_straight(length, radius), (0.0, 0.5 * length)])


def capsule(length: float, radius: float) -> Mesh:
    """Return a cylinder about z with half balls on its ends, which are not part of the length."""
    angles = np.linspace(0.0, 0.5 * np.pi, AROUND // 4 + 1)
    cap = [(radius * np.cos(a), 0.5 * length + radius * np.sin(a)) for a in angles[1:-1]]
    below = [(r, -z) for r, z in reversed(cap)]
    return _turned([(0.0, -0.5 * length - radius), *below, *_straight(length, radius), *cap, (0.0, 0.5 * length + radius)])


def sphere(radius: float) -> Mesh:
    """Return a ball.

    >>> volume(sphere(1.0)).round(1)
    np.float64(4.1)
    """
    angles = np.linspace(-0.5 * np.pi, 0.5 * np.pi, AROUND // 2 + 1)
    return _turned([(0.0, -radius), *((radius * np.cos(a), radius * np.sin(a)) for a in angles[1:-1]), (0.0, radius)])


def between(a: np.ndarray, b: np.ndarray, radius: float) -> Mesh:
    """Return a cylinder from a point to another."""
    along = np.asarray(b, dtype=float) - a
    return cylinder(float(np.linalg.norm(along)), radius).moved(upright(along), 0.5 * (np.asarray(a) + b))


def arrow() -> Mesh:
    """Return an arrow of length 1 along z."""
    return _turned([(0.0, 0.0), (0.02, 0.0), (0.02, 0.8), (0.055, 0.8), (0.0, 1.0)])


def joined(meshes: list[Mesh]) -> Mesh:
    """Return several meshes as one."""
    starts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    return Mesh(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate([mesh.faces + start for mesh, start in zip(meshes, starts, strict=False)]),
    )


def coarser(mesh: Mesh, most: int) -> Mesh:
    """Return a mesh of at most about so many triangles: points in the same cell of a grid become one."""
    pieces = 64
    while len(mesh.faces) > most and pieces > 4:
        low, span = mesh.vertices.min(axis=0), max(float(np.ptp(mesh.vertices, axis=0).max()), 1e-300)
        cells = np.floor((mesh.vertices - low) / span * pieces).astype(int)
        _, first, cell = np.unique(cells, axis=0, return_index=True, return_inverse=True)
        faces = cell.reshape(-1)[mesh.faces]
        whole = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
        mesh = Mesh(mesh.vertices[first], np.unique(faces[whole], axis=0))
        pieces = pieces * 3 // 4
    return mesh


def volume(mesh: Mesh) -> np.float64:
    """Return the volume that a closed mesh encloses."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    return np.float64(np.sum(np.cross(a, b) * c) / 6.0)


def _straight(length: float, radius: float) -> list[tuple[float, float]]:
    """Return the outline of a cylinder's side, cut into pieces so that what is long is sorted by depth as what is short."""
    pieces = int(np.clip(length / (4.0 * radius), 1, 12))
    return [(radius, z) for z in np.linspace(-0.5 * length, 0.5 * length, pieces + 1)]


def _turned(outline: list[tuple[float, float]]) -> Mesh:
    """Return the body that an outline (radius, z) makes when it turns about z; it begins and ends on the axis."""
    angles = np.arange(AROUND) * (2.0 * np.pi / AROUND)
    around = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rings = [np.column_stack([r * around, np.full(AROUND, z)]) for r, z in outline[1:-1]]
    vertices = np.concatenate([[[0.0, 0.0, outline[0][1]]], *rings, [[0.0, 0.0, outline[-1][1]]]])
    here, there = np.arange(AROUND), (np.arange(AROUND) + 1) % AROUND
    last = 1 + AROUND * (len(rings) - 1)
    faces = [np.column_stack([np.zeros(AROUND, dtype=int), 1 + there, 1 + here])]
    for k in range(len(rings) - 1):
        low, high = 1 + AROUND * k, 1 + AROUND * (k + 1)
        faces += [np.column_stack([low + here, low + there, high + there]), np.column_stack([low + here, high + there, high + here])]
    faces += [np.column_stack([last + here, last + there, np.full(AROUND, len(vertices) - 1)])]
    return Mesh(vertices, np.concatenate(faces))


def _grid(columns: int, rows: int) -> Mesh:
    """Return a square of side 1 around the origin in the plane, in pieces."""
    x, y = np.meshgrid(np.linspace(-0.5, 0.5, columns + 1), np.linspace(-0.5, 0.5, rows + 1))
    corner = (np.arange(rows)[:, None] * (columns + 1) + np.arange(columns)).ravel()
    right, above = corner + 1, corner + columns + 1
    faces = np.concatenate([np.column_stack([corner, right, above + 1]), np.column_stack([corner, above + 1, above])])
    return Mesh(np.column_stack([x.ravel(), y.ravel()]), faces)
