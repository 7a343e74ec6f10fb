"""Spanning trees: links, loose bodies and connections become a tree of links, and the joints that close loops."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ModelError
from catena.model.bodies import Body
from catena.model.closures import Closure, Distance, check_closing
from catena.model.driven import Driven, undriven
from catena.model.joints import Custom, Cylindrical, Fixed, Helical, Joint, Prismatic, Revolute, Universal
from catena.model.motions import as_rigid
from catena.model.pose import Pose
from catena.spatial import Rigid


@dataclass(frozen=True)
class Link:
    """A body with its joint and its place: the joint frame `at` in the parent's frame, and `outer` in the body's own frame.

    For a body that was added with its joint, `outer` is the identity unless `at_body` was given.
    """

    name: str
    body: Body
    joint: Joint
    parent: str
    at: Pose
    outer: Pose = field(default_factory=Pose)

    @property
    def inward(self) -> Rigid:
        """The body's frame in its joint frame."""
        return Rigid(self.outer.R.T, 0.0 - self.outer.R.T @ self.outer.p)


@dataclass(frozen=True)
class Loose:
    """A body without a joint of its own, to be hung by connections."""

    name: str
    body: Body


@dataclass(frozen=True)
class Connection(Closure):
    """A joint between bodies a and b of a graph, described like one that closes a loop. b plays the child."""


class SpanningTree(NamedTuple):
    """The links of the spanning tree of a graph of bodies, parents first, and the joints that close loops."""

    links: tuple[Link, ...]
    closures: tuple[Closure, ...]


def coordinate_name(body: str, label: str) -> str:
    """Return the name of a coordinate: that of the body, and the joint's own label where it has several."""
    return f"{body}.{label}" if label else body


def coordinate_names(link: Link) -> set[str]:
    """Return the names of the coordinates that a link has, or would have if it were not driven."""
    joint = undriven(link.joint)
    return {coordinate_name(link.name, label) for label in (*joint.q_labels, *joint.v_labels)}


def placed(joints: Iterable[tuple[Link, Joint]]) -> Iterator[tuple[Link, slice, slice]]:
    """Yield links with the places of the coordinates of joints, which follow each other."""
    at_q = at_v = 0
    for link, joint in joints:
        yield link, slice(at_q, at_q + joint.nq), slice(at_v, at_v + joint.nv)
        at_q, at_v = at_q + joint.nq, at_v + joint.nv


def check_not_welded(closure: Closure, links: Mapping[str, Link | Loose]) -> None:
    """Refuse a closure between bodies that are welded together."""
    a, b = (_carrier(name, links) for name in (closure.a, closure.b))
    if a == b:
        raise ModelError(
            f"loop '{closure.name}': '{closure.a}' and '{closure.b}' are welded together by fixed joints, so that they cannot move against "
            "each other; leave the loop out, or name bodies that move"
        )


def _carrier(name: str, links: Mapping[str, Link | Loose]) -> str:
    while isinstance(link := links.get(name), Link) and isinstance(link.joint, Fixed):
        name = link.parent
    return name


def spanning_tree(added: Mapping[str, Link | Loose], connections: Sequence[Connection], closures: Sequence[Closure]) -> SpanningTree:
    """Return the links of a model in order, and all its closures.

    A maximum spanning tree hangs the loose bodies: a connection weighs as much as its joint has constraints, so that joints with few
    constraints close the loops; of equal ones the earlier hangs a body. Custom and driven joints, which have no basic constraints, come
    first; distances only close loops.
    """
    links = {name: link for name, link in added.items() if isinstance(link, Link)}
    chosen = _maximum_spanning_tree(added, connections)
    names = {connection.name for connection in chosen}
    for link in _outward(added, links, chosen):
        links[link.name] = link
    if missing := [name for name in added if name not in links]:
        listed = ", ".join(f"'{name}'" for name in missing)
        raise ModelError(
            f"{'bodies' if missing[1:] else 'body'} {listed}: no joint leads from there to the ground; connect one of them, such as by "
            f"m.connect('ground', '{missing[0]}', ct.Free()), which lets it move freely, or give it its joint in m.add"
        )
    known: set[str] = set()
    for link in links.values():
        take_names(link, known)
    all_closures = list(closures)
    for connection in connections:
        if connection.name not in names:
            check_closing(f"connection '{connection.name}', which closes a loop", connection.joint)
            all_closures.append(Closure(**connection.__dict__))
    for closure in all_closures:
        check_not_welded(closure, links)
    return SpanningTree(tuple(links.values()), tuple(all_closures))


def _maximum_spanning_tree(added: Mapping[str, Link | Loose], connections: Sequence[Connection]) -> list[Connection]:
    """Return the connections of a maximum spanning tree, heaviest first; the bodies that have a joint are one with the ground."""
    group = {name: "ground" if isinstance(link, Link) else name for name, link in added.items()} | {"ground": "ground"}

    def root(name: str) -> str:
        while group[name] != name:
            group[name] = name = group[group[name]]
        return name

    def weight(connection: Connection) -> int:
        """Return the number of constraints of the joint; custom and driven joints are wanted most in the tree, distances not at all."""
        joint = connection.joint
        return -1 if isinstance(joint, Distance) else 7 if isinstance(joint, (Custom, Driven)) else 6 - joint.nv

    chosen = []
    for connection in sorted(connections, key=weight, reverse=True):
        a, b = root(connection.a), root(connection.b)
        if a != b and isinstance(connection.joint, Joint):
            group[a] = b
            chosen.append(connection)
    return chosen


def _outward(added: Mapping[str, Link | Loose], hung: Mapping[str, Link], chosen: Sequence[Connection]) -> list[Link]:
    """Return the links of loose bodies, breadth first from the ground and the bodies that hang, in the order in which bodies were added."""
    beside: dict[str, dict[str, Connection]] = {name: {} for name in ("ground", *added)}
    for connection in chosen:
        beside[connection.a][connection.b] = beside[connection.b][connection.a] = connection
    position = {name: i for i, name in enumerate(added)}
    reached, links = {"ground", *hung}, []
    queue = deque(["ground", *hung])
    while queue:
        parent = queue.popleft()
        for name in sorted(beside[parent].keys() - reached, key=position.__getitem__):
            links.append(_link(added[name], parent, beside[parent][name]))
            reached.add(name)
            queue.append(name)
    return links


def _link(loose: Link | Loose, parent: str, connection: Connection) -> Link:
    """Return a body that a connection hangs on its parent."""
    assert isinstance(connection.joint, Joint)
    if connection.a == parent:
        return Link(loose.name, loose.body, connection.joint, parent, connection.at_a, connection.at_b)
    return Link(loose.name, loose.body, _reversed(connection, connection.joint), parent, connection.at_b, connection.at_a)


def take_names(link: Link, known: set[str]) -> None:
    """Enter the names of a link's coordinates in those that are known; refuse a link that has one of these."""
    names = coordinate_names(link)
    if taken := names & known:
        raise ModelError(f"body '{link.name}': another body has a coordinate named '{min(taken)}' already; give the body another name")
    known |= names


def _reversed(connection: Connection, joint: Joint) -> Joint:
    """Return the joint by which a hangs on b, where a connection says how b hangs on a."""
    if isinstance(joint, (Revolute, Prismatic, Helical, Cylindrical)):
        return replace(joint, axis=tuple(-x for x in joint.axis))
    if isinstance(joint, Universal):
        swapped = {f.name: value[::-1] for f in fields(Joint) if (value := getattr(joint, f.name)) is not None}
        return replace(joint, **swapped, axis1=tuple(-x for x in joint.axis2), axis2=tuple(-x for x in joint.axis1))
    if isinstance(joint, Custom):
        return replace(joint, function=Inverse(joint.function))
    if isinstance(joint, Driven):
        if isinstance(joint.joint, (Revolute, Prismatic, Helical, Cylindrical, Custom)):
            return Driven(_reversed(connection, joint.joint), joint.function)
        raise ModelError(
            f"connection '{connection.name}': '{connection.a}' hangs on '{connection.b}', and a driven {joint.joint.kind} joint would need "
            f"another motion that way round; connect them in the order '{connection.b}', '{connection.a}', with at_a and at_b swapped"
        )
    a, b = connection.a, connection.b
    for option, value in joint.options().items():
        raise ModelError(
            f"connection '{connection.name}': '{a}' hangs on '{b}', and {option} {value!r} of a {joint.kind} joint would mean another "
            f"force that way round; connect them in the order '{b}', '{a}', with at_a and at_b swapped"
        )
    return joint


@dataclass(frozen=True)
class Inverse:
    """A pose function turned round: where the parent stands in the child."""

    function: Callable[[Any], Any]

    def __call__(self, q: Any) -> Rigid:
        pose = as_rigid(self.function(q))
        return Rigid(np.asarray(pose.R), np.asarray(pose.p)).inverse()
