"""The scene of a model: the parts of its bodies, and the places of bodies, springs and forces in a state.

The pictures of `painter` and the live view of `viewer` show the same scene.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from catena.errors import MeshError, MissingPackageError, ViewWarning
from catena.kernels.dynamics import contact_points, joint_wrenches
from catena.kernels.kinematics import poses
from catena.model import Geometry, Mechanism, Pose
from catena.model.closures import Distance
from catena.model.driven import undriven
from catena.model.pose import upright
from catena.view import meshes, shapes
from catena.view.meshes import Painted
from catena.view.shapes import Mesh

#: Colours of bodies that have none, in turn: easy to tell apart for all eyes, and light enough to show their shading.
COLOURS = ((74, 144, 196), (224, 135, 70), (96, 170, 130), (200, 130, 170), (120, 190, 220), (226, 180, 80), (150, 150, 165))

#: Triangles of one part beyond which it is drawn with fewer in pictures and films.
MOST = 6000

METAL = (92, 96, 104)
FORCE = (200, 40, 60)
CONTACT = (120, 50, 170)
SPRING = (110, 110, 120)
MASS = (30, 30, 30)


class Part(NamedTuple):
    """Triangles in the frame of a body, which is given by its index in `Model.body_names`."""

    body: int
    name: str
    mesh: Mesh
    colour: tuple[int, int, int]


class Box(NamedTuple):
    """The space that something takes: its lowest and its highest corner."""

    low: np.ndarray
    high: np.ndarray

    @property
    def centre(self) -> np.ndarray:
        return 0.5 * (self.low + self.high)

    @property
    def corners(self) -> np.ndarray:
        return np.stack(np.meshgrid(*np.stack([self.low, self.high], axis=1)), axis=-1).reshape(-1, 3)

    @property
    def radius(self) -> float:
        return max(0.5 * float(np.linalg.norm(self.high - self.low)), 1e-6)


class Scene:
    """The parts of a model, and where they are."""

    def __init__(self, model: Mechanism) -> None:
        self.model = model
        self.neutral = model.neutral()
        self._poses = poses(model)
        self._number = {name: k for k, name in enumerate(model.body_names)} | {"ground": -1}
        #: A length typical of the model: half the diagonal of the box of its joints and centres of mass, at the neutral position.
        self.size = self._size()
        self.parts = tuple(self._parts())

    # --- places

    def places(self, t: Any, q: Any) -> np.ndarray:
        """Return the poses of the bodies, and last that of the ground: (..., bodies + 1, 4, 4)."""
        bodies = self._call(self._poses, t, q)
        ground = np.broadcast_to(np.eye(4), (*bodies.shape[:-3], 1, 4, 4))
        return np.concatenate([bodies, ground], axis=-3)

    def centres(self, places: np.ndarray) -> np.ndarray:
        """Return the centres of mass of the bodies that have mass: (..., bodies, 3)."""
        chosen = [k for k, link in enumerate(self.model.links) if link.body.mass]
        return _points(places[..., chosen, :, :], np.array([self.model.links[k].body.com for k in chosen]).reshape(-1, 3))

    def lines(self, places: np.ndarray) -> np.ndarray:
        """Return the ends of springs, and of loops that a `Distance` closes: (..., lines, 2, 3)."""
        ends = [(s.a, s.at_a, s.b, s.at_b) for s in self.model.springs]
        ends += [(c.a, c.at_a.p, c.b, c.at_b.p) for c in self.model.loops if isinstance(c.joint, Distance)]
        if not ends:
            return np.zeros((*places.shape[:-3], 0, 2, 3))
        first, second = (
            _points(places[..., [self._number[end[k]] for end in ends], :, :], np.array([end[k + 1] for end in ends], dtype=float))
            for k in (0, 2)
        )
        return np.stack([first, second], axis=-2)

    def forces(self, t: Any, q: Any, v: Any, tau: Any) -> np.ndarray:
        """Return the forces [N] of the joints on their bodies, then of the points of contacts, as points and vectors in the world.

        Their shape is (..., forces, 2, 3).
        """
        loops = self.model.loops
        force = self._call(self._wrenches, t, q, v, tau)[..., 3:]
        bodies = [*range(len(self.model.links)), *(self._number[loop.b] for loop in loops)]
        points = np.array([*(link.outer.p for link in self.model.links), *(loop.at_b.p for loop in loops)])
        on = self.places(t, q)[..., bodies, :, :]
        joints = np.stack([_points(on, points), force], axis=-2)
        return np.concatenate([joints, self._call(self._contacts, t, q, v)], axis=-3) if self.model.contacts else joints

    @property
    def loaded_names(self) -> list[str]:
        """Names of the joints that exert forces: those of the bodies, then those of the loops."""
        return [*self.model.body_names, *(loop.name for loop in self.model.loops)]

    def force_scale(self, forces: np.ndarray) -> float:
        """Return the length of the arrow of 1 N [m] over a run (N, forces, 2, 3).

        The largest force of a time is half the scene's size on the median of times with forces, for impacts are short; the longest arrow
        is at most three times the size.
        """
        largest = np.nan_to_num(np.linalg.norm(forces[:, :, 1], axis=-1)).max(axis=1, initial=0.0)
        largest = largest[largest > 0.0]
        return float(min(0.5 * self.size / np.median(largest), 3.0 * self.size / largest.max())) if len(largest) else 0.0

    def force_colours(self, count: int) -> list[tuple[int, int, int]]:
        """Return the colours of the arrows of so many forces: those of joints, then those of contacts."""
        joints = len(self.model.links) + len(self.model.loops)
        return [FORCE if k < joints else CONTACT for k in range(count)]

    @property
    def planes(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The planes of the ground that bodies may touch: a point of each, and its axes, the last its normal."""
        found = dict.fromkeys((contact.normal, contact.height) for contact in self.model.contacts if contact.against == "ground")
        return [(height * np.array(normal), upright(np.array(normal)).T) for normal, height in found]

    def spaces(self, places: np.ndarray) -> np.ndarray:
        """Return the lowest and the highest corner of the space that the parts take in each of the places (N, ...): (N, 2, 3)."""
        corners = [
            _points(places[:, part.body], Box(part.mesh.vertices.min(axis=0), part.mesh.vertices.max(axis=0)).corners[:, None])
            for part in self.parts
        ]
        ends = self.lines(places).reshape(len(places), -1, 3)
        points = np.concatenate([*(np.swapaxes(points, 0, 1) for points in corners), ends], axis=1)
        if not points.shape[1]:
            return np.broadcast_to([np.full(3, -self.size), np.full(3, self.size)], (len(places), 2, 3))
        return np.stack([points.min(axis=1), points.max(axis=1)], axis=1)

    def box(self, places: np.ndarray) -> Box:
        """Return the space that the parts take in all of the places."""
        spaces = self.spaces(places.reshape(-1, *places.shape[-3:]))
        spaces = spaces[np.isfinite(spaces).all(axis=(1, 2))]
        if not len(spaces):
            return Box(np.full(3, -self.size), np.full(3, self.size))
        return Box(spaces[:, 0].min(axis=0), spaces[:, 1].max(axis=0))

    def centre(self, places: np.ndarray) -> np.ndarray:
        """Return the centre of mass of the whole, or the middle of what is shown where nothing has mass, in each of the places: (N, 3)."""
        masses = np.array([link.body.mass for link in self.model.links if link.body.mass])
        if not len(masses):
            return self.spaces(places).mean(axis=1)
        return np.einsum("k,nki->ni", masses / masses.sum(), self.centres(places))

    @cached_property
    def _wrenches(self) -> Any:
        return joint_wrenches(self.model, axes="world")

    @cached_property
    def _contacts(self) -> Any:
        return contact_points(self.model)

    def _call(self, kernel: Any, t: Any, *given: Any) -> np.ndarray:
        """Return what a kernel has for a time, if it takes one, and other inputs."""
        return kernel(*((t,) if kernel.inputs[0].name == "t" else ()), *given)

    # --- parts

    @cached_property
    def light_parts(self) -> list[Part]:
        """The parts, with fewer triangles where they have very many."""
        return [part._replace(mesh=shapes.coarser(part.mesh, MOST)) for part in self.parts]

    def _size(self) -> float:
        places = self.places(0.0, self.neutral)
        points = [places[self._number[link.parent]] @ (*link.at.p, 1.0) for link in self.model.links]
        points += [places[k] @ (*link.body.com, 1.0) for k, link in enumerate(self.model.links)]
        shapes = [look for link in self.model.links for look in link.body.geometry if look.kind != "mesh"]  # those of meshes are scales
        return max(0.5 * float(np.linalg.norm(np.ptp(np.array(points), axis=0))), *(0.5 * max(shape.size) for shape in shapes), 1e-3)

    def _parts(self) -> list[Part]:
        parts, unseen = [], []
        for k, link in enumerate(self.model.links):
            default = COLOURS[k % len(COLOURS)]
            shown = 0
            for i, look in enumerate(link.body.geometry):
                try:
                    pieces = self._look(look)
                except (MeshError, MissingPackageError) as error:
                    unseen.append(str(error))
                    continue
                if look.colour is not None:
                    red, green, blue = (round(255 * part) for part in look.colour)
                    pieces = [Painted(shapes.joined([mesh for mesh, _ in pieces]), (red, green, blue))]
                for j, (mesh, colour) in enumerate(pieces):
                    parts.append(Part(k, f"{look.kind} {i + 1}.{j + 1}", mesh, colour or default))
                shown += 1
            if not shown and (mesh := self._skeleton(k)) is not None:
                parts.append(Part(k, "body", mesh, default))
            hidden = any(look.kind == "mesh" for look in link.body.geometry)
            if not hidden and (mesh := self._joint(undriven(link.joint), link.outer)) is not None:
                parts.append(Part(k, "joint", mesh, METAL))
        for loop in self.model.loops:
            body, at = (loop.a, loop.at_a) if loop.b == "ground" else (loop.b, loop.at_b)
            if (mesh := self._joint(loop.joint, at)) is not None:
                parts.append(Part(self._number[body], f"joint {loop.name}", mesh, METAL))
        if unseen:
            more = f", and {len(unseen) - 1} more" if len(unseen) > 1 else ""
            warnings.warn(f"model '{self.model.name}' is shown without some meshes: {unseen[0]}{more}", ViewWarning, stacklevel=2)
        return parts

    def _look(self, look: Geometry) -> list[Painted]:
        """Return the triangles of a shape in the frame of its body, with the colours that a mesh brings with it."""
        centre, turn = np.array(look.center), Pose(rpy=look.rpy).R
        if look.kind == "mesh":
            found = meshes.load(look.file, look.folder or self.model.folder)
            return [Painted(mesh.scaled(look.size).moved(turn, centre), colour) for mesh, colour in found]
        if look.kind == "box":
            return [Painted(shapes.box(*look.size).moved(turn, centre), None)]
        if look.kind == "ellipsoid":
            return [Painted(shapes.sphere(1.0).scaled(look.size).moved(turn, centre), None)]
        along = upright(np.array(look.axis))
        if look.kind == "rod":
            (length,) = look.size
            return [Painted(shapes.cylinder(length, min(0.025 * length, 0.02 * self.size)).moved(along, centre), None)]
        make = {"cylinder": shapes.cylinder, "capsule": shapes.capsule, "sphere": shapes.sphere}[look.kind]
        return [Painted(make(*look.size).moved(along, centre), None)]

    def _skeleton(self, k: int) -> Mesh | None:
        """Return the mesh of a body without shapes: rods from its joint to others and to its centre of mass, which is a ball."""
        link, name = self.model.links[k], self.model.body_names[k]
        joint = link.outer.p
        ends = [other.at.p for other in self.model.links if other.parent == name]
        ends += [at.p for loop in self.model.loops for body, at in ((loop.a, loop.at_a), (loop.b, loop.at_b)) if body == name]
        ends += [np.array(link.body.com)] if link.body.mass else []
        thick = 0.012 * self.size
        rods = [shapes.between(joint, end, thick) for end in ends if np.linalg.norm(end - joint) > thick]
        heaviest = max(other.body.mass for other in self.model.links)
        balls = [shapes.sphere(0.06 * self.size * (link.body.mass / heaviest) ** (1 / 3)).moved(np.eye(3), np.array(link.body.com))]
        pieces = rods + (balls if link.body.mass else [])
        return shapes.joined(pieces) if pieces else None

    def _joint(self, joint: Any, at: Pose) -> Mesh | None:
        """Return the mesh of a joint: pins along the axes about which it turns, a block that slides, a ball."""
        unit = 0.03 * self.size
        if joint.kind in ("revolute", "helical", "cylindrical", "universal"):
            axes = [getattr(joint, key) for key in ("axis", "axis1", "axis2") if hasattr(joint, key)]
            mesh = shapes.joined([shapes.cylinder(3.0 * unit, unit).moved(upright(np.array(axis)), np.zeros(3)) for axis in axes])
        elif joint.kind == "prismatic":
            mesh = shapes.box(2.0 * unit, 2.0 * unit, 3.0 * unit).moved(upright(np.array(joint.axis)), np.zeros(3))
        elif joint.kind == "spherical":
            mesh = shapes.sphere(1.3 * unit)
        else:
            return None
        return mesh.moved(at.R, at.p)


def _points(places: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return points of frames in the world."""
    return np.einsum("...ij,...j->...i", places[..., :3, :3], points) + places[..., :3, 3]
