"""What positions, velocities and constraints of a model are measured by: lengths by the size of their own loop, angles by 1 rad.

All sizes are distances between points of one body, so that neither where a mechanism stands in the world nor where the frames of its
bodies are has a part in them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from catena.formulations.loops.basic_constraints import direction_count
from catena.formulations.loops.closure_kinematics import loop_bodies
from catena.model import Free, Mechanism
from catena.model.driven import undriven
from catena.model.placed import Basic, PlacedClosure
from catena.model.tree import Tree

#: A loop that is smaller than this part of the mechanism is a point, but for rounding.
_POINT = 1e-9

#: Basic constraints whose values are lengths; those of the others are angles where they are small.
_LENGTHS = ("s", "d2", "ss")

#: A point on a body: the number of the body, of which -1 is the ground, and where it is in the frame of the body.
Point = tuple[int, np.ndarray]


class _Sizes(NamedTuple):
    """The size of a mechanism, of each of its loops, and what each velocity coordinate is measured by."""

    mechanism: float
    loops: tuple[float, ...]
    coordinates: np.ndarray


def mechanism_size(m: Mechanism) -> float:
    """Return the size of a mechanism [m]: the largest distance between two joints, or a joint and the centre of mass, of one body."""
    return _sizes(m).mechanism


def loop_sizes(m: Mechanism) -> tuple[float, ...]:
    """Return the size of each loop [m]: the largest distance, on one body around it, between the joints that hold the body in the loop.

    A loop without lengths, such as that of a spherical linkage, has the size of the mechanism. A free joint has no place of its own: it
    counts as the centre of the points at which the loops through it hold the body, and where these hold it at none, not at all.
    """
    return _sizes(m).loops


def coordinate_units(m: Mechanism) -> np.ndarray:
    """Return what the velocity coordinates are measured by: 1 for angles, for lengths the size of their largest loop, or the mechanism's.

    >>> from catena.examples import slider_crank
    >>> coordinate_units(slider_crank()).round(3).tolist()
    [1.0, 1.0, 0.15]
    """
    return _sizes(m).coordinates.copy()


def _sizes(m: Mechanism) -> _Sizes:
    return m.once("sizes", (), lambda: _measured(m))


def _measured(m: Mechanism) -> _Sizes:
    tree, joints = m.tree(), _joint_points(m)
    loops = [_around(tree, closure, joints) for closure in tree.closures]
    for k in {k for closure in tree.closures for k in loop_bodies(tree, closure)} - joints.keys():
        through = [loop for closure, loop in zip(tree.closures, loops, strict=True) if k in loop_bodies(tree, closure)]
        for body in (k, tree.parent[k]):
            points = [point for loop in through for own, point in loop if own == body]
            for loop in through if points else ():
                loop.append((body, np.mean(points, axis=0)))
    rods = [max((basic.value for basic in closure.constraints if basic.kind == "ss"), default=0.0) for closure in tree.closures]
    everything = [*(at for ends in joints.values() for at in ends), *(at for loop in loops for at in loop), *_centres(m)]
    size = max([_extent(everything), *rods]) or 1.0
    sizes, reach = [], np.zeros(m.nv)
    for closure, loop, rod in zip(tree.closures, loops, rods, strict=True):
        extent = max(_extent(loop), rod)
        sizes.append(extent if extent > _POINT * size else size)
        for k in loop_bodies(tree, closure):
            reach[tree.v_slices[k]] = np.maximum(reach[tree.v_slices[k]], sizes[-1])
    lengths = np.array([unit == "m/s" for unit in m.v_units], dtype=bool)
    return _Sizes(size, tuple(sizes), np.where(lengths, np.where(reach > 0.0, reach, size), 1.0))


def _joint_points(m: Mechanism) -> dict[int, tuple[Point, Point]]:
    """Return where the joint of every moving body is, on the body that carries it and on the body; free joints are nowhere."""
    tree, found = m.tree(), {}
    moving = set(tree.names)
    for link in m.links:
        if isinstance(undriven(link.joint), Free) or link.name not in moving:
            continue
        (a, in_a), (b, in_b) = tree.frames[link.parent], tree.frames[link.name]
        found[b] = (a, in_a.p + in_a.R @ link.at.p), (b, in_b.p + in_b.R @ link.outer.p)
    return found


def _centres(m: Mechanism) -> list[Point]:
    """Return the centres of mass of bodies that move."""
    placed = [(link, *m.tree().frames[link.name]) for link in m.links if link.body.mass > 0.0]
    return [(k, frame.p + frame.R @ np.array(link.body.com)) for link, k, frame in placed if k >= 0]


def _around(tree: Tree, closure: PlacedClosure, joints: dict[int, tuple[Point, Point]]) -> list[Point]:
    """Return the points at which bodies are held in a loop, the base too: those of the joints around it, and of the closing one."""
    points = [at for k in sorted(loop_bodies(tree, closure)) if k in joints for at in joints[k]]
    return [*points, (closure.a, closure.at_a.p), (closure.b, closure.at_b.p)]


def _extent(points: list[Point]) -> float:
    """Return the largest distance between two points on one body; less than their rounding is none."""
    largest, on = 0.0, {}
    for body, point in points:
        on.setdefault(body, []).append(point)
    for own in on.values():
        if len(own) == 1:
            continue
        at = np.array(own)
        away = np.linalg.norm(at[:, None] - at[None], axis=-1).max()
        largest = max(largest, away if away > 1e-12 * np.abs(at).max() else 0.0)
    return float(largest)


# what constraints are measured by


def _unit(basic: Basic, size: float) -> float:
    """Return what a value of a constraint is measured by, in a loop of a size [m]."""
    return {"s": size, "d2": size, "ss": 2.0 * basic.value * size}.get(basic.kind, 1.0)


def _coupling_units(m: Mechanism) -> list[float]:
    """Return what couplings are measured by: the largest coefficient times the unit of its coordinate."""
    units = coordinate_units(m)
    return [max(abs(c) * float(units[i]) for i, c in coupling.coefficients) for coupling in m.tree().couplings]


def loop_units(m: Mechanism) -> list[float]:
    """Return what the value of each constraint is measured by: the size of its loop for lengths, 1 for angles."""
    closures = zip(m.tree().closures, loop_sizes(m), strict=True)
    units = [_unit(basic, size) for closure, size in closures for basic in closure.constraints for _ in range(basic.rows)]
    return units + _coupling_units(m)


def loop_owners(m: Mechanism, size: float | None = 1.0) -> list[tuple[int, float]]:
    """Return, for every entry of the closure residual, the number of its loop, and what it is measured by.

    Lengths are measured by a size [m] and couplings by 1, or, where the size is None, both as `loop_units` has them.
    """
    found: list[tuple[int, float]] = []
    closures = m.tree().closures
    for i, (closure, own) in enumerate(zip(closures, loop_sizes(m) if size is None else [size] * len(closures), strict=True)):
        lengths = [_unit(basic, own) for basic in closure.constraints if basic.kind in _LENGTHS for _ in range(basic.rows)]
        found += [(i, unit) for unit in (*lengths, *[1.0] * direction_count(closure))]
    couplings = _coupling_units(m) if size is None else [1.0] * len(m.tree().couplings)
    return found + [(len(closures) + i, unit) for i, unit in enumerate(couplings)]


def loop_measures(m: Mechanism) -> tuple[str, ...]:
    """Return the unit of each closure residual: "m", "rad", "m or rad" where it has both; nothing where a coordinate has no unit."""
    units = dict(zip(m.q_names, m.q_units, strict=True))
    found = [{"m" if basic.kind in _LENGTHS else "rad" for basic in closure.constraints} for closure in m.tree().closures]
    found += [{units[name] for name, _ in coupling.coefficients} for coupling in m.couplings]
    return tuple("" if "" in measures else " or ".join(sorted(measures)) for measures in found)
