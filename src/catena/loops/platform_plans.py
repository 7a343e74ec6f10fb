"""Plans of platforms on legs: which motions the platform has, which joints are actuated, which constraints of the legs are independent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.formulations.linear.platform_kinematics import Platform
from catena.formulations.linear.platform_structure import Leg, PlatformPlan, PlatformStructure, platform_structure
from catena.formulations.loops.basic_constraints import constraint_rows, ends, row_ranges
from catena.formulations.loops.closure_kinematics import branch_motion, branch_placements, velocity_coordinates
from catena.formulations.loops.constraints import constraint_jacobian
from catena.loops.assembly import project_velocity
from catena.loops.mobility import configurations, partition, pivots
from catena.loops.scaling import coordinate_units, loop_sizes, loop_units, mechanism_size
from catena.model import Mechanism, Tree
from catena.tolerances import ZERO

#: Steps of the walk on which the motions of a platform are found.
_STEPS = 6


def platform_plan(m: Mechanism, q: Any, actuated: Collection[int] | None = None, afloat: bool = True) -> PlatformPlan:
    """Return the plan for a configuration that closes the loops, with the coordinates that are actuated, or others that are independent.

    Where the platform's own joint leaves it free, its motions are the rates of that joint, if `afloat`.
    """
    tree, q = m.tree(), np.asarray(q, dtype=float)
    found = platform_structure(tree)
    if isinstance(found, str):
        raise ModelError(f"model '{m.name}' is not a platform on legs: {found}")
    if actuated is None:
        dependent = partition(m, q).dependent
        actuated = [j for j in range(m.nv) if j not in dependent]
    number, basis = _motions(m, q, found)
    carrying = velocity_coordinates(tree, found.legs[0][0])
    free = found.legs[0][0] == (found.platform,) and len(carrying) == len(basis) == 6 and not set(carrying) & set(actuated)
    space = None if afloat and free else basis
    unit, sizes, units = coordinate_units(m), loop_sizes(m), np.array(loop_units(m))
    platform, _ = _leg(tree, q, found.legs[0][0])
    legs, rows, chosen = [], row_ranges(tree.closures), []
    for bodies, closure in found.legs:
        leg = velocity_coordinates(tree, bodies)
        given = tuple(j for j in leg if j in actuated)
        if closure is None:
            legs.append(Leg(bodies, None, basis, given))
            continue
        ends_at = tree.closures[closure]
        tip, columns = _leg(tree, q, bodies)
        sides = (platform, tip) if ends_at.a == found.platform else (tip, platform)
        _, r_a, r_b = constraint_rows(ends_at.constraints, ends(ends_at.at_a, ends_at.at_b, *sides, np.eye(3)))
        on_platform, on_tip = (r_a, r_b) if ends_at.a == found.platform else (r_b, r_a)
        both = np.concatenate([on_platform @ np.array(basis).reshape(-1, 6).T, on_tip @ columns], axis=1).astype(float)
        both = both * np.concatenate([np.ones(len(basis)), unit[leg]]) / units[rows[closure], None]
        rank, order = pivots(both.T)
        independent = tuple(sorted(int(i) for i in order[:rank]))
        weights = tuple(float(sizes[closure] / units[rows[closure][i]]) for i in independent)
        legs.append(Leg(bodies, closure, independent, given, weights, sizes[closure]))
        chosen += [rows[closure][i] for i in independent]
    plan = PlatformPlan(found.platform, tuple(legs), space, tuple(chosen), number, tuple(unit.tolist()))
    with np.errstate(all="ignore"):  # where the plan is of no use, its pivots say so
        return replace(plan, stiffness=tuple(np.maximum(Platform(tree, q, plan).stiffness().astype(float), 1e-300).tolist()))


def explanation(m: Mechanism, plan: PlatformPlan) -> str:
    """Return a plan in words: what each leg is made of, and which of its coordinates are given."""
    tree, names = m.tree(), m.v_names
    lines = [f"platform '{tree.names[plan.platform]}' with {plan.motions} motions"]
    for leg in plan.legs[1 if plan.space is None else 0 :]:
        way = ", ".join(f"'{tree.names[k]}'" for k in leg.bodies) or "the ground"
        end = "carries the platform" if leg.closure is None else f"ends at '{tree.closures[leg.closure].name}'"
        given = f"; {', '.join(names[j] for j in leg.actuated)} given" if leg.actuated else ""
        lines.append(f"leg {way} {end}{given}")
    return "\n".join(lines)


def _motions(m: Mechanism, q: np.ndarray, found: PlatformStructure) -> tuple[int, Any]:
    """Return how many motions the platform has, and a basis of all twists that the leg which carries it can give it.

    The twists are those at the ground's origin. Both are spans over several configurations: the former on the branch that q is on, where
    all loops are closed, the latter of what the joints of the leg do, whatever the others let them. What driven joints do is part of both.
    """
    bodies = found.legs[0][0]
    twists, joints = [], []
    for now, place in configurations(m, _STEPS, (m, q)):
        tree = now.tree()
        _, columns = _leg(tree, place, bodies)
        _, sizes, right = np.linalg.svd(np.asarray(constraint_jacobian(tree, place)[1], dtype=float))
        free = right[np.count_nonzero(sizes > ZERO * sizes.max(initial=0.0)) :]
        twists.append(columns @ free.T[velocity_coordinates(tree, bodies)])
        joints.append(columns)
        if m.driven_names:
            v = project_velocity(now, place)
            _, along = branch_placements(tree, place, bodies)
            moved, drift = (branch_motion(tree, place, rates, along)[0] for rates in (v, np.zeros(m.nv)))
            twists.append(np.asarray(moved, dtype=float)[:, None])
            joints.append(np.asarray(drift, dtype=float)[:, None])
    scale = np.repeat([1.0, 1.0 / mechanism_size(m)], 3)[:, None]
    return len(_basis(np.concatenate(twists, axis=1), scale)), _basis(np.concatenate(joints, axis=1), scale)


def _basis(columns: np.ndarray, scale: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """Return a basis of a space, with as many zeros as it can have."""
    left, sizes, _ = np.linalg.svd(columns * scale, full_matrices=False)
    basis = left[:, sizes > ZERO * sizes.max(initial=0.0)].T
    for i in range(len(basis)):  # reduced to echelon form, by the largest entries
        c = int(np.argmax(np.abs(basis[i:]).max(axis=0) > 0.5 * np.abs(basis[i:]).max()))
        n = i + int(np.argmax(np.abs(basis[i:, c])))
        basis[[i, n]] = basis[[n, i]]
        basis[i] = basis[i] / basis[i, c]
        others = np.arange(len(basis)) != i
        basis[others] -= np.outer(basis[others, c], basis[i])
    basis = np.where(np.abs(basis) < ZERO, 0.0, basis) / scale[:, 0]
    return tuple(tuple(float(x) for x in row / np.abs(row).max()) for row in basis)


def _leg(tree: Tree, q: np.ndarray, bodies: tuple[int, ...]) -> tuple[Any, np.ndarray]:
    """Return where the last body of a leg stands, and what unit rates of the leg's coordinates add to its twist, at the ground's origin."""
    place, along = branch_placements(tree, q, bodies)
    return place, np.concatenate([np.zeros((6, 0)), *(S for _, S in along.values())], axis=1).astype(float)
