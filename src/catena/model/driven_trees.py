"""Mechanisms whose driven joints are elsewhere than at a time, and trees in which they are free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from catena.model.driven import Driven, undriven
from catena.model.mechanism import Mechanism
from catena.model.motions import DrivenMotion, Given
from catena.model.parameters import Numbers
from catena.model.spanning_tree import Link, SpanningTree, placed
from catena.model.tree import Tree


def with_driven_at(m: Mechanism, given: Sequence[Given]) -> Mechanism:
    """Return the mechanism with its driven joints at given positions, velocities and accelerations, in the order of the bodies."""
    if not m.driven_names:
        return m
    tree, remaining = m.at(m.instant).tree(), iter(given)
    motion = (replace(motion, given=next(remaining)) if isinstance(motion, DrivenMotion) else motion for motion in tree.motion)
    return m.with_tree(replace(tree, motion=tuple(motion)), m.instant)


def randomly_driven(m: Mechanism, rng: np.random.Generator) -> Mechanism:
    """Return the mechanism with its driven joints at rest at random positions."""
    return with_driven_at(m, [Given(joint.random(rng), np.zeros(joint.nv), np.zeros(joint.nv)) for _, joint in m.driven_joints()])


def undriven_tree(m: Mechanism, tree: Tree) -> Tree:
    """Return the tree in which driven joints are free, in the frames of a tree; without forces from functions of fewer coordinates."""

    def make() -> Mechanism:
        links, closures = m.frozen().spanning
        free = SpanningTree(tuple(replace(link, joint=undriven(link.joint)) for link in links), closures)
        return Mechanism(replace(m.frozen().parts, forces={}), spanning=free, varied=m.varied)

    free = m.once("undriven", (), make).tree_with(tree.given)
    return free.marked(tree.mark, tree.solver, tree.saddle_solver)


def undriven_slices(m: Mechanism) -> Iterator[tuple[Link, slice, slice]]:
    """Yield every body with the places of its coordinates in the undriven tree."""
    return placed((link, undriven(link.joint)) for link in m.links)


def with_driven_coordinates(m: Mechanism, tree: Tree, t: Any, q: Any, v: Any, vdot: Any) -> tuple[Any, Any, Any]:
    """Return positions, velocities and accelerations of the undriven tree: those that are driven among the others; for any scalar."""
    parts: list[tuple[Any, Any, Any]] = [(np.zeros(0), np.zeros(0), np.zeros(0))]
    numbers = Numbers.of(m, tree.given)
    for link, at_q, at_v in m.slices():
        parts.append(numbers.within(link.joint.given)(t) if isinstance(link.joint, Driven) else (q[at_q], v[at_v], vdot[at_v]))
    q, v, vdot = (np.concatenate(part) for part in zip(*parts, strict=True))
    return q, v, vdot
