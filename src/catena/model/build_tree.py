"""From a model to its tree: fixed bodies welded, canonical frames chosen, inertias, forces and loops moved into them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.errors import ModelError
from catena.model import canonical
from catena.model.closures import Closure, Coupling, constraints
from catena.model.driven import Driven, undriven
from catena.model.forces import Applied, Spring
from catena.model.joints import Fixed, Joint
from catena.model.motions import DenseMotion, DrivenMotion, Motion, clean
from catena.model.placed import PlacedClosure, PlacedCoupling, PlacedForce, PlacedSpring
from catena.model.tree import Tree, read_only
from catena.spatial import Placement, Rigid, centroid
from catena.spatial.inertias import dusted, moved

if TYPE_CHECKING:
    from catena.model.mechanism import Mechanism
    from catena.model.spanning_tree import Link

_IDENTITY = Rigid(np.eye(3), np.zeros(3))


def build(model: Mechanism, weld: bool = True) -> Tree:
    """Return the tree in canonical frames, with inertias, forces and loops in them; fixed bodies are part of their carriers, if `weld`."""
    links = [link for link in model.links if not (weld and isinstance(link.joint, Fixed))]
    if not links:
        raise ModelError(f"model '{model.name}' has no moving body; add one with a joint other than Fixed")
    carried, inertia = _carried(model.links, links)
    parent = [carried[link.parent][0] for link in links]
    joints = [link.joint for link in links]
    before, motions, frames = _canonical(joints, parent, [carried[link.parent][1] @ link.at for link in links], inertia)
    named = {name: (k, frames[k].inverse() @ pose) for name, (k, pose) in carried.items()}
    names = [link.name for link in links]
    places = [(at_q, at_v) for link, at_q, at_v in model.slices() if link.name in names]
    gravity = np.array(model.gravity)

    def gather(option: str) -> np.ndarray:
        return np.concatenate([getattr(joint, option) for joint in joints])

    tree = Tree(
        names=tuple(names),
        parent=tuple(parent),
        before=tuple(before),
        motion=tuple(motions),
        M=tuple(moved(inertia[k], frames[k].inverse()) for k in range(len(links))),
        q_slices=tuple(at_q for at_q, _ in places),
        v_slices=tuple(at_v for _, at_v in places),
        nq=model.nq,
        nv=model.nv,
        gravity=dusted(frames[-1].R.T @ gravity, float(np.abs(gravity).max())),
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


def _carried(links: Sequence[Link], moving: Sequence[Link]) -> tuple[dict[str, tuple[int, Rigid]], list[np.ndarray]]:
    """Return the moving body that carries each body, and its place in that joint frame; and all inertias there, last the ground's."""
    index = {link.name: k for k, link in enumerate(moving)}
    carried: dict[str, tuple[int, Rigid]] = {"ground": (-1, _IDENTITY)}
    inertia = [np.zeros((6, 6)) for _ in range(len(moving) + 1)]
    for link in links:
        if link.name in index:
            carried[link.name] = (index[link.name], link.inward)
        else:
            k, pose = carried[link.parent]
            carried[link.name] = (k, pose @ link.at @ link.inward)
        k, pose = carried[link.name]
        inertia[k] = inertia[k] + pose.inertia(link.body.matrix()).astype(float)
    return carried, inertia


def _canonical(
    joints: Sequence[Joint], parent: Sequence[int], at: Sequence[Rigid], inertia: Sequence[np.ndarray]
) -> tuple[list[Placement], list[Motion], list[Rigid]]:
    """Return the constant placements before the joints, the motions of the joints, and the canonical frames in the user's frames.

    Frames point ahead to the first child, or to the centre of mass. Driven joints have the frames that they would have if they were free.
    The last frame is the ground's.
    """
    motions: list[Any] = [undriven(joint).motion() for joint in joints]
    towards: list[Rigid | None] = [None] * (len(joints) + 1)
    for k in reversed(range(len(joints))):
        if not isinstance(motions[k], DenseMotion) or parent[k] < 0:
            towards[parent[k]] = at[k] @ Rigid(motions[k].inner, np.zeros(3))
    frames: list[Rigid] = [_IDENTITY] * (len(joints) + 1)
    frames[-1] = towards[-1] or _IDENTITY
    for k in range(len(joints)):
        motions[k], frames[k] = canonical.outer_frame(motions[k], towards[k], centroid(inertia[k]))

    before = []
    for k, joint in enumerate(joints):
        inner = Rigid(motions[k].inner, np.zeros(3))
        scale = max(np.abs(at[k].p).max(), np.abs(frames[parent[k]].p).max())
        placement, motions[k] = canonical.connect(frames[parent[k]].inverse() @ at[k] @ inner, motions[k], scale)
        before.append(placement)
        if isinstance(joint, Driven):
            motions[k] = DrivenMotion(motions[k], joint.given)
    return before, motions, frames


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


def placed_coupling(coupling: Coupling, model: Mechanism) -> PlacedCoupling:
    """Return a coupling with the places of its coordinates in q and v; refuse other names, and coordinates that are not plain numbers."""
    places = model.coordinate_places
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
