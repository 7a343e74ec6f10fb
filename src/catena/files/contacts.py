"""Contacts with the ground from model files: URDF's <collision> and MJCF's geoms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from catena.errors import MeshError, MissingPackageError, ModelError, optional_package
from catena.files.mesh_files import find
from catena.files.mjcf_source import Source
from catena.files.urdf_shapes import collisions
from catena.files.xml_reader import Element
from catena.model.bodies import Geometry
from catena.model.builder import Builder
from catena.model.contacts import hull_points
from catena.model.pose import Pose, rpy
from catena.spatial import rotation


def from_urdf(model: Builder, links: dict[str, Element]) -> None:
    """Let the collision shapes of a URDF file touch the ground z = 0; meshes by corners of their convex hulls."""
    unread = []
    for name, link in links.items():
        shapes, points = [], []
        for shape in collisions(link):
            if shape.kind != "mesh":
                shapes.append(shape)
                continue
            try:
                points.append(_mesh_points(shape, model.parts.folder))
            except (MeshError, MissingPackageError) as error:
                unread.append(str(error))
        _add(model, name, shapes, points)
    if unread:
        model.parts.notes.append(f"{len(unread)} meshes have no contact: {unread[0]}")
    _note(model)


def from_mjcf(model: Builder, source: Source) -> None:
    """Let the geoms of an MJCF file touch the plane of its ground, or z = 0: with the larger friction of both and at the distance that
    follows from their margins, as MuJoCo has it; and those of a <pair> with the plane, with the pair's own numbers.
    """
    c, kinds = source.compiled, source.geom_kinds
    planes = [i for i in range(c.ngeom) if c.geom_type[i] == kinds.plane and c.geom_bodyid[i] == 0]
    if planes[1:]:
        model.parts.notes.append(f"of {len(planes)} planes of the ground, the first has contact")
    plane = planes[0] if planes else None
    normal, height, least = np.array([0.0, 0.0, 1.0]), 0.0, 0.0
    if plane is not None:
        normal = rotation(c.geom_quat[plane])[:, 2]
        height, least = float(normal @ c.geom_pos[plane]), float(c.geom_friction[plane][0])
    paired = _paired(source, plane)
    unknown = 0
    for body in range(1, c.nbody):
        found: dict[tuple[float, float], tuple[list[Geometry], list[np.ndarray]]] = {}
        for i in range(c.body_geomadr[body], c.body_geomadr[body] + c.body_geomnum[body]) if c.body_geomnum[body] else ():
            meets = c.geom_contype[i] or c.geom_conaffinity[i]
            if plane is not None:
                meets = (c.geom_contype[i] & c.geom_conaffinity[plane]) | (c.geom_contype[plane] & c.geom_conaffinity[i])
            if not (meets or i in paired) or c.body_weldid[body] == 0:
                continue
            begins = _distance(source.library, *((float(c.geom_margin[k]), float(c.geom_gap[k])) for k in (i, plane) if k is not None))
            shapes, points = found.setdefault(paired.get(i, (max(least, float(c.geom_friction[i][0])), begins)), ([], []))
            solid = _solid(source, i)
            if isinstance(solid, Geometry):
                shapes.append(solid)
            elif solid is not None:
                points.append(solid)
            else:
                unknown += 1
        for (friction, begins), (shapes, points) in found.items():
            _add(model, source.names[body], shapes, points, normal=normal, height=height + begins, friction=friction)
    if unknown:
        model.parts.notes.append(f"{unknown} geoms of kinds that catena cannot represent have no contact")
    _note(model)


@cache
def _distance(mujoco: Any, *margins: tuple[float, float]) -> float:
    """Return the distance at which MuJoCo lets two geoms touch, by the margin and gap of each; versions of it add them up or take one."""
    if not any(margin for margin, _ in margins):
        return 0.0
    spheres = "".join(f'<body><freejoint/><geom size="1" margin="{margin}" gap="{gap}"/></body>' for margin, gap in (*margins, (0.0, 0.0)))
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{spheres}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return float(data.contact[0].includemargin)  # of the first two


def _paired(source: Source, plane: int | None) -> dict[int, tuple[float, float]]:
    """Return the friction of geoms that a <pair> lets touch a plane, and the distance at which they do."""
    c, pairs = source.compiled, {}
    for k in range(c.npair):
        ends = int(c.pair_geom1[k]), int(c.pair_geom2[k])
        if plane in ends:
            begins = _distance(source.library, (float(c.pair_margin[k]), float(c.pair_gap[k])))
            pairs[ends[0] if ends[1] == plane else ends[1]] = (float(c.pair_friction[k][0]), begins)
    return pairs


def _solid(source: Source, i: int) -> Geometry | np.ndarray | None:
    """Return a geom as a shape in the frame of its body, or by the corners of its convex hull."""
    c, kinds = source.compiled, source.geom_kinds
    x, y, z = c.geom_size[i].tolist()
    centre, R = tuple(c.geom_pos[i].tolist()), rotation(c.geom_quat[i])
    axis = tuple(R[:, 2].tolist())
    if c.geom_type[i] == kinds.mesh:
        k = int(c.geom_dataid[i])
        vertices = c.mesh_vert[c.mesh_vertadr[k] : c.mesh_vertadr[k] + c.mesh_vertnum[k]].astype(float)
        return hull_points(vertices @ R.T + c.geom_pos[i])
    solids: dict[int, tuple[str, tuple[float, ...], dict[str, Any]]] = {
        kinds.sphere: ("sphere", (x,), {}), kinds.box: ("box", (2.0 * x, 2.0 * y, 2.0 * z), {"rpy": rpy(R)}),
        kinds.cylinder: ("cylinder", (2.0 * y, x), {"axis": axis}), kinds.capsule: ("capsule", (2.0 * y, x), {"axis": axis}),
        kinds.ellipsoid: ("ellipsoid", (x, y, z), {"rpy": rpy(R)}),
    }  # fmt: skip
    if int(c.geom_type[i]) not in solids:
        return None
    kind, size, turned = solids[int(c.geom_type[i])]
    return Geometry(kind, size, centre, **turned)


def _add(model: Builder, body: str, shapes: Sequence[Geometry], points: Sequence[np.ndarray], **options: Any) -> None:
    """Add the contact of a body with the ground, if it has shapes."""
    if not shapes and not points:
        return
    taken = [name for name in model.parts.contacts if name.startswith(f"{body}.ground")]
    name = f"{body}.ground{len(taken) + 1 if taken else ''}"
    model.add_contact(name, body, tuple(shapes), points=np.concatenate(points) if points else (), **options)


def _note(model: Builder) -> None:
    """Say in the notes what touches, in place of what they say of contact that is not read."""
    count = len(model.contacts)
    model.parts.notes[:] = [note for note in model.parts.notes if not note.startswith("nothing collides")]
    if not count:
        raise ModelError("contact='ground': the file has no shape that touches the ground; leave contact= out")
    model.parts.notes.append(f"{count} bodies touch the ground, by catena's compliant contact; bodies do not touch each other")


def _mesh_points(shape: Geometry, folder: str | None) -> np.ndarray:
    """Return the corners of the convex hull of a mesh, in the frame of its body."""
    file = find(shape.file, folder)
    trimesh = optional_package("trimesh", "meshes need trimesh", 'pip install "catena[view]"')
    try:
        vertices = np.asarray(trimesh.load(str(file), force="mesh", process=False).vertices, dtype=float)
    except Exception as error:  # whatever a reader of one of many formats makes of a broken file
        raise MeshError(f"{file} cannot be read ({type(error).__name__}: {error}); check the file") from error
    return hull_points((vertices * shape.size) @ Pose(rpy=shape.rpy).R.T + np.array(shape.center))
