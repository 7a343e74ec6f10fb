"""From a model to its tree: fixed bodies welded, canonical frames chosen, inertias, forces and loops moved into them."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.errors import ModelError
from catena.model import canonical
from catena.model.driven import Driven, released
from catena.model.forces import Applied, Spring
from catena.model.inertias import com, dusted, moved
from catena.model.joints import Fixed
from catena.model.loops import Closure, Coupling, constraints
from catena.model.motions import DenseMotion, DrivenMotion, clean
from catena.model.tree import PlacedClosure, PlacedCoupling, PlacedForce, PlacedSpring, Tree, read_only
from catena.spatial import Rigid

if TYPE_CHECKING:
    from catena.model.model import Model

_IDENTITY = Rigid(np.eye(3), np.zeros(3))


def build(model: Model, weld: bool = True) -> Tree:
    """Return the tree: weld fixed bodies to their carriers, choose canonical frames, move the inertias into them.

    Without `weld`, fixed joints are joints like others, without coordinates.
    """
    links = [link for link in model.links if not (weld and isinstance(link.joint, Fixed))]
    if not links:
        raise ModelError(f"model '{model.name}' has no moving body; add one with a joint other than Fixed")
    index = {link.name: k for k, link in enumerate(links)}

    # where every named body stands in the joint frame of the moving body that carries it
    carried: dict[str, tuple[int, Rigid]] = {"ground": (-1, _IDENTITY)}
    inertia = [np.zeros((6, 6)) for _ in range(len(links) + 1)]
    for link in model.links:
        if link.name not in index:
            k, pose = carried[link.parent]
            carried[link.name] = (k, pose @ link.at @ link.inward)
        else:
            carried[link.name] = (index[link.name], link.inward)
        k, pose = carried[link.name]
        inertia[k] = inertia[k] + pose.inertia(link.body.matrix()).astype(float)
    parent = [carried[link.parent][0] for link in links]
    at = [carried[link.parent][1] @ link.at for link in links]

    # canonical frames, in the user's frames: ahead of the first child, or at the centre of mass; driven joints have those of free ones
    motions: list[Any] = [released(link.joint).motion() for link in links]
    towards: list[Rigid | None] = [None] * (len(links) + 1)
    for k in reversed(range(len(links))):
        if not isinstance(motions[k], DenseMotion) or parent[k] < 0:
            towards[parent[k]] = at[k] @ Rigid(motions[k].inner, np.zeros(3))
    frames: list[Rigid] = [_IDENTITY] * (len(links) + 1)
    frames[-1] = towards[-1] or _IDENTITY
    for k in range(len(links)):
        motions[k], frames[k] = canonical.outer_frame(motions[k], towards[k], com(inertia[k]))

    before = []
    for k in range(len(links)):
        inner = Rigid(motions[k].inner, np.zeros(3))
        scale = max(np.abs(at[k].p).max(), np.abs(frames[parent[k]].p).max())
        placement, motions[k] = canonical.connect(frames[parent[k]].inverse() @ at[k] @ inner, motions[k], scale)
        before.append(placement)

    places = [(at_q, at_v) for link, at_q, at_v in model._slices() if link.name in index]
    joints = [link.joint for link in links]
    for k, joint in enumerate(joints):
        if isinstance(joint, Driven):
            motions[k] = DrivenMotion(motions[k], joint.given)

    named = {name: (k, frames[k].inverse() @ pose) for name, (k, pose) in carried.items()}

    def gather(option: str) -> np.ndarray:
        return np.concatenate([getattr(joint, option) for joint in joints])

    tree = Tree(
        names=tuple(index),
        parent=tuple(parent),
        before=tuple(before),
        motion=tuple(motions),
        M=tuple(moved(inertia[k], frames[k].inverse()) for k in range(len(links))),
        q_slices=tuple(at_q for at_q, _ in places),
        v_slices=tuple(at_v for _, at_v in places),
        nq=model.nq,
        nv=model.nv,
        gravity=dusted(frames[-1].R.T @ np.array(model.gravity), float(np.abs(np.array(model.gravity)).max())),
        ground=frames[-1],
        ground_inertia=moved(inertia[-1], frames[-1].inverse()),
        damping=gather("damping"),
        stiffness=gather("stiffness"),
        rest=np.concatenate([joint.neutral() if joint.rest is None else joint.rest for joint in joints]),
        friction=gather("friction"),
        friction_speed=model.friction_speed,
        armature=gather("armature"),
        lower=gather("lower"),
        upper=gather("upper"),
        stop_stiffness=gather("stop_stiffness"),
        stop_damping=gather("stop_damping"),
        springs=tuple(_placed_spring(spring, named) for spring in model.springs),
        forces=tuple(_placed_force(force, model.nv, named) for force in model.forces if force.traced),
        frames=MappingProxyType(named),
        closures=tuple(_placed_closure(closure, named) for closure in model.loops),
        couplings=tuple(placed_coupling(coupling, model) for coupling in model.couplings),
    )
    return read_only(tree)


def _placed_spring(spring: Spring, frames: dict[str, tuple[int, Rigid]]) -> PlacedSpring:
    (a, in_a), (b, in_b) = frames[spring.a], frames[spring.b]
    at_a, at_b = in_a.p + in_a.R @ np.array(spring.at_a), in_b.p + in_b.R @ np.array(spring.at_b)
    return PlacedSpring(a, b, at_a, at_b, spring.stiffness, spring.damping, spring.length)


def _placed_force(force: Applied, nv: int, frames: dict[str, tuple[int, Rigid]]) -> PlacedForce:
    k, frame = (None, _IDENTITY) if force.body is None else frames[force.body]
    return PlacedForce(force.name, partial(force.value, nv), k, frame.p + frame.R @ np.array(force.point))


def _placed_closure(closure: Closure, frames: dict[str, tuple[int, Rigid]]) -> PlacedClosure:
    (a, in_a), (b, in_b) = frames[closure.a], frames[closure.b]
    return PlacedClosure(closure.name, a, b, _placed(in_a, closure.at_a), _placed(in_b, closure.at_b), constraints(closure.joint))


def _placed(frame: Rigid, at: Rigid) -> Rigid:
    """Return the pose `at` in a frame, without the dust of rounding, so that zeros fold away in traces."""
    pose = frame @ at
    turns = np.vectorize(clean, otypes=[float])(pose.R)
    return Rigid(turns, dusted(pose.p, float(max(np.abs(frame.p).max(), np.abs(at.p).max()))))


def placed_coupling(coupling: Coupling, model: Model) -> PlacedCoupling:
    """Return a coupling with the places of its coordinates in q and v; refuse names that are no coordinates, or not plain numbers."""
    places = model._coordinates_at()
    positions, velocities = [], []
    for name, coefficient in coupling.coefficients:
        if name not in places:
            plain = [known for known, (joint, *_) in places.items() if joint.nq == joint.nv]
            choice = f"choose from {', '.join(map(repr, plain))}" if plain else "add a joint whose positions are plain numbers"
            raise ModelError(f"coupling '{coupling.name}': {name!r} is not a coordinate of model '{model.name}'; {choice}")
        joint, at_q, at_v = places[name]
        if joint.nq != joint.nv:
            raise ModelError(
                f"coupling '{coupling.name}': '{name}' is a coordinate of a {joint.kind} joint, whose positions are not plain numbers; "
                "couple coordinates of other joints, or close a loop with m.close"
            )
        positions.append((at_q, coefficient))
        velocities.append((at_v, coefficient))
    return PlacedCoupling(coupling.name, tuple(velocities), tuple(positions), coupling.offset)
