"""The model: what a user builds, body by body."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.model import canonical, values
from catena.model.bodies import Body
from catena.model.forces import Applied, Spring
from catena.model.joints import Fixed, Joint
from catena.model.motions import DenseMotion
from catena.model.pose import Pose
from catena.model.tree import PlacedForce, PlacedSpring, Tree, check_determined
from catena.spatial import Rigid, skew

_IDENTITY = Rigid(np.eye(3), np.zeros(3))


@dataclass(frozen=True)
class Link:
    """A body with its joint and its place, as added."""

    name: str
    body: Body
    joint: Joint
    parent: str
    at: Pose


class Model:
    """A mechanism: bodies hung on the ground or on each other by joints.

    `gravity` [m/s^2] is in the ground's axes. `friction_speed` [rad/s or m/s] is the speed over which Coulomb friction is smoothed.

    >>> m = ct.Model("pendulum", gravity=(0, 0, -9.81))
    >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
    >>> m.q_names
    ('arm',)
    """

    def __init__(self, name: str = "model", gravity: Any = (0.0, 0.0, -9.81), friction_speed: float = 0.01) -> None:
        if not isinstance(name, str) or not name.strip():
            raise ModelError(f"model name {name!r} is not a name; give a non-empty string")
        self.name = name
        self._gravity = tuple(values.array("model gravity", gravity, (3,)).tolist())
        self._friction_speed = values.number("model friction_speed", friction_speed, above=0.0)
        self._links: dict[str, Link] = {}
        self._coordinates: set[str] = set()
        self._springs: dict[str, Spring] = {}
        self._forces: dict[str, Applied] = {}
        self._tree: Tree | None = None

    def __getstate__(self) -> dict[str, Any]:
        # the tree is built again where a pickle or a copy lands
        return {**self.__dict__, "_tree": None}

    def __repr__(self) -> str:
        return f"<Model '{self.name}': {len(self._links)} bodies, nq = {self.nq}, nv = {self.nv}>"

    def add(self, name: str, body: Body, joint: Joint, parent: str = "ground", at: Any = (0.0, 0.0, 0.0)) -> None:
        """Add a body, hung by a joint on its parent at a place in the parent's frame.

        `at` is a translation (x, y, z) or a `Pose`: the joint frame in the parent's body frame. The body's own frame coincides with it
        at the joint's neutral position.
        """
        if not isinstance(name, str) or not name.strip():
            raise ModelError(f"body name {name!r} is not a name; give a non-empty string")
        if name == "ground":
            raise ModelError("body 'ground': the ground is there already; give the body another name")
        if name in self._links:
            raise ModelError(f"body '{name}' is there already; give each body its own name")
        if not isinstance(body, Body):
            raise ModelError(f"body '{name}': {body!r} is not a body; give ct.Body(mass, com, inertia) or a shape such as ct.rod")
        if not isinstance(joint, Joint) or type(joint) is Joint:
            raise ModelError(f"body '{name}': {joint!r} is not a joint; give one such as ct.Revolute('z') or ct.Fixed()")
        self._known(parent, f"body '{name}' names parent")
        try:
            place = Pose.of(at)
        except ModelError as error:
            raise ModelError(f"body '{name}': {error}") from None
        own = {_coordinate(name, label) for label in (*joint.q_labels, *joint.v_labels)}
        if own & self._coordinates:
            taken = min(own & self._coordinates)
            raise ModelError(f"body '{name}': another body has a coordinate named '{taken}' already; give the body another name")
        self._coordinates |= own
        self._links[name] = Link(name, body, joint, parent, place)
        self._tree = None

    def add_spring(
        self,
        name: str,
        a: str,
        b: str,
        at_a: Any = (0.0, 0.0, 0.0),
        at_b: Any = (0.0, 0.0, 0.0),
        *,
        stiffness: float,
        damping: float = 0.0,
        length: float = 0.0,
    ) -> None:
        """Add a spring between a point of body a and a point of body b, of which one may be the ground.

        The points are in the frames of the bodies [m]. The spring pulls them together with the force `stiffness * (distance - length) +
        damping * rate`, where the rate is that of the distance. With `length` 0 it is linear in the distance vector. Otherwise the line
        of force has no direction where the points meet; there the force of the spring is zero, and the distance d is computed as
        sqrt(d^2 + 1e-300), which no distance above 1e-140 m feels.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> m.add_spring("coil", "ground", "arm", at_a=(0, 0, 1), at_b=(1, 0, 0), stiffness=50.0, damping=2.0, length=0.5)
        >>> m.springs[0].length
        0.5
        """
        self._check_load("spring", name)
        for body in (a, b):
            self._known(body, f"spring '{name}' names body")
        if a == b:
            raise ModelError(f"spring '{name}': both ends are on '{a}', which it cannot move; give two bodies")
        self._springs[name] = Spring(name, a, b, at_a, at_b, stiffness, damping, length)
        self._tree = None

    def add_force(self, name: str, function: Callable[[Any, Any, Any], Any], body: str | None = None, point: Any = (0.0, 0.0, 0.0)) -> None:
        """Add a force from a function of time, position and velocity: ordinary NumPy code that is traced and compiled with the rest.

        `function(t, q, v)` returns joint forces, one for each entry of v, and acts in addition to tau. With a body it returns a force (3
        entries [N]), or a moment and a force (6 entries [N m, N]), in the world's axes, on a point of the body, in the body's frame [m].

        A function cannot be traced if it takes decisions on t, q or v with `if`, or uses `float()` or `math` on them: write
        `catena.where(condition, a, b)` and NumPy's functions, or mark it with `ct.python`. What else it reads, such as a global
        variable, is read once, when a kernel is made.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> m.add_force("motor", lambda t, q, v: np.array([3.0 * np.sin(t) - 0.2 * v[0]]))
        >>> m.add_force("wind", lambda t, q, v: np.array([0.5, 0, 0]), body="arm", point=(1, 0, 0))
        >>> m.time_dependent
        True
        """
        self._check_load("force", name)
        if not callable(function):
            raise ModelError(f"force '{name}': {function!r} is not a function; give a function of (t, q, v)")
        if body is not None:
            self._known(body, f"force '{name}' names body")
            if body == "ground":
                raise ModelError(f"force '{name}' acts on the ground, which does not move; name another body")
        at = tuple(values.array(f"force '{name}': point", point, (3,)).tolist())
        if body is None and any(at):
            raise ModelError(
                f"force '{name}': point {at} has no body, so that these are joint forces; name the body, or leave the point out"
            )
        force = Applied(name, function, body, at)
        force.probe(self.neutral(), self.nv)
        if force.traced:
            force.uses_time(self.nq, self.nv)
        self._forces[name] = force
        self._tree = None

    def _check_load(self, kind: str, name: str) -> None:
        if not isinstance(name, str) or not name.strip():
            raise ModelError(f"{kind} name {name!r} is not a name; give a non-empty string")
        for known, there in (("spring", self._springs), ("force", self._forces)):
            if name in there:
                raise ModelError(f"{kind} '{name}': a {known} has this name already; give each spring and force its own name")

    @property
    def springs(self) -> tuple[Spring, ...]:
        """The springs between bodies, in the order they were added."""
        return tuple(self._springs.values())

    @property
    def forces(self) -> tuple[Applied, ...]:
        """The forces from functions, in the order they were added."""
        return tuple(self._forces.values())

    @property
    def python_forces(self) -> tuple[Applied, ...]:
        """The forces whose functions are marked with `ct.python`: called step by step, not compiled."""
        return tuple(force for force in self.forces if not force.traced)

    @property
    def time_dependent(self) -> bool:
        """Whether a traced force depends on time; kernels that it enters then take t as their first argument."""
        return any(force.uses_time(self.nq, self.nv) for force in self.forces if force.traced)

    def _known(self, name: str, who: str) -> None:
        if not isinstance(name, str) or (name != "ground" and name not in self._links):
            names = ", ".join(f"'{known}'" for known in ("ground", *self._links))
            raise ModelError(f"{who} {name!r}, which is not in model '{self.name}'; add it first, or choose from {names}")

    @property
    def gravity(self) -> tuple[float, ...]:
        """Acceleration of gravity [m/s^2], in the ground's axes."""
        return self._gravity

    @property
    def friction_speed(self) -> float:
        """Speed over which Coulomb friction is smoothed [rad/s or m/s]."""
        return self._friction_speed

    @property
    def links(self) -> tuple[Link, ...]:
        """The bodies with their joints and places, in the order they were added."""
        return tuple(self._links.values())

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the bodies, in the order they were added."""
        return tuple(self._links)

    @property
    def nq(self) -> int:
        """Number of position coordinates."""
        return sum(link.joint.nq for link in self.links)

    @property
    def nv(self) -> int:
        """Number of velocity coordinates: the degrees of freedom."""
        return sum(link.joint.nv for link in self.links)

    @property
    def q_names(self) -> tuple[str, ...]:
        """Names of the position coordinates: the body's name, and the coordinate's where a joint has several."""
        return tuple(_coordinate(link.name, label) for link in self.links for label in link.joint.q_labels)

    @property
    def v_names(self) -> tuple[str, ...]:
        """Names of the velocity coordinates: the body's name, and the coordinate's where a joint has several."""
        return tuple(_coordinate(link.name, label) for link in self.links for label in link.joint.v_labels)

    @property
    def q_units(self) -> tuple[str, ...]:
        """Units of the position coordinates; quaternions have none."""
        return tuple(unit for link in self.links for unit in link.joint.q_units)

    @property
    def v_units(self) -> tuple[str, ...]:
        """Units of the velocity coordinates."""
        return tuple(unit for link in self.links for unit in link.joint.v_units)

    def neutral(self) -> np.ndarray:
        """Return the position at which every body frame coincides with its joint frame."""
        return np.concatenate([np.zeros(0), *(link.joint.neutral() for link in self.links)])

    def random(self, rng: np.random.Generator | int | None = None, size: int | None = None) -> np.ndarray:
        """Return a random position, or `size` of them: angles within a turn, displacements within 1 m, rotations uniform.

        Coordinates with limits are drawn within them.
        """
        rng = np.random.default_rng(rng)
        if size is not None:
            return np.array([self.random(rng) for _ in range(size)]).reshape(size, self.nq)
        return np.concatenate([np.zeros(0), *(link.joint.random(rng) for link in self.links)])

    def _random_nearby(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random position with displacements of the size of the bodies that they move, rather than within 1 m."""
        q = self.random(rng)
        for link, at_q, _ in self._slices():
            mass, radius = link.body.mass, np.abs(link.at.p).max()
            if mass > 0.0:
                radius = max(radius, np.sqrt(np.trace(link.body.matrix()[:3, :3]) / mass))
            q[at_q] *= np.where(np.array(link.joint.q_units) == "m", radius or 1.0, 1.0)
        return q

    def integrate(self, q: Any, dv: Any) -> np.ndarray:
        """Return the position reached from q by moving with the rates dv for a unit of time; leading axes broadcast."""
        q, dv = self._array("q", q, self.nq), self._array("dv", dv, self.nv)
        q, dv = _broadcast(q, dv)
        moved = [link.joint.integrate(q[..., at_q], dv[..., at_v]) for link, at_q, at_v in self._slices()]
        return np.concatenate([q[..., :0], *moved], axis=-1)

    def difference(self, q0: Any, q1: Any) -> np.ndarray:
        """Return the rates that lead from q0 to q1 in a unit of time: `integrate(q0, difference(q0, q1))` is q1."""
        q0, q1 = _broadcast(self._array("q0", q0, self.nq), self._array("q1", q1, self.nq))
        rates = [link.joint.difference(q0[..., at_q], q1[..., at_q]) for link, at_q, _ in self._slices()]
        return np.concatenate([q0[..., :0], *rates], axis=-1)

    def normalised(self, q: Any) -> np.ndarray:
        """Return a position with its quaternions at length 1; leading axes broadcast."""
        q = np.array(q, dtype=float)
        for link, at_q, _ in self._slices():
            q[..., at_q] = link.joint.normalised(q[..., at_q])
        return q

    def chart(self, q: Any, u: Any) -> Any:
        """Return the position with the local coordinates u around q: rotation vectors for rotations, differences for the rest."""
        return np.concatenate([q[..., :0], *(link.joint.chart(q[..., at_q], u[..., at_v]) for link, at_q, at_v in self._slices())], axis=-1)

    def chart_rate(self, q: Any, u: Any, v: Any) -> Any:
        """Return the rate of the local coordinates u at the velocity v, where q is the position that they stand for."""
        rates = [link.joint.chart_rate(q[..., at_q], u[..., at_v], v[..., at_v]) for link, at_q, at_v in self._slices()]
        return np.concatenate([v[..., :0], *rates], axis=-1)

    def rate(self, q: Any, v: Any) -> Any:
        """Return dq/dt at the velocity v."""
        return np.concatenate([q[..., :0], *(link.joint.rate(q[..., at_q], v[..., at_v]) for link, at_q, at_v in self._slices())], axis=-1)

    def _array(self, name: str, value: Any, size: int) -> Any:
        array = np.asarray(value)
        if array.dtype.kind not in "buifO":
            raise ModelError(f"{name} {value!r} is not made of real numbers; model '{self.name}' takes (..., {size})")
        if array.dtype != object:
            array = array.astype(float)
        if array.ndim == 0 or array.shape[-1] != size:
            raise ModelError(f"{name} has shape {array.shape}; model '{self.name}' takes (..., {size})")
        return array

    def _slices(self) -> Iterator[tuple[Link, slice, slice]]:
        """Yield every body with the places of its coordinates in q and v."""
        at_q = at_v = 0
        for link in self.links:
            yield link, slice(at_q, at_q + link.joint.nq), slice(at_v, at_v + link.joint.nv)
            at_q, at_v = at_q + link.joint.nq, at_v + link.joint.nv

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a TOML file, which `ct.load` reads; an existing file is replaced in one step or left as it is."""
        from catena.model.files import save  # here, because files are made of models

        save(self, path)

    def tree(self) -> Tree:
        """Return the tree of the model, in canonical frames, checked; built once until the model changes."""
        if self._tree is None:
            tree = _build(self)
            check_determined(tree, np.random.default_rng(0), self._random_nearby)
            self._tree = tree
        return self._tree


def _coordinate(name: str, label: str) -> str:
    return f"{name}.{label}" if label else name


def _build(model: Model) -> Tree:
    """Return the tree: weld fixed bodies to their carriers, choose canonical frames, move the inertias into them."""
    links = [link for link in model.links if not isinstance(link.joint, Fixed)]
    if not links:
        raise ModelError(f"model '{model.name}' has no moving body; add one with a joint other than Fixed")
    index = {link.name: k for k, link in enumerate(links)}

    # where every named body stands in the user's frame of the moving body that carries it
    carried: dict[str, tuple[int, Rigid]] = {"ground": (-1, _IDENTITY)}
    inertia = [np.zeros((6, 6)) for _ in range(len(links) + 1)]
    for link in model.links:
        if isinstance(link.joint, Fixed):
            k, pose = carried[link.parent]
            carried[link.name] = (k, pose @ link.at)
        else:
            carried[link.name] = (index[link.name], _IDENTITY)
        k, pose = carried[link.name]
        inertia[k] = inertia[k] + pose.inertia(link.body.matrix()).astype(float)
    parent = [carried[link.parent][0] for link in links]
    at = [carried[link.parent][1] @ link.at for link in links]

    # canonical frames, in the user's frames: ahead of the first child, or at the centre of mass
    motions = [link.joint.motion() for link in links]
    towards: list[Rigid | None] = [None] * (len(links) + 1)
    for k in reversed(range(len(links))):
        if not isinstance(motions[k], DenseMotion) or parent[k] < 0:
            towards[parent[k]] = at[k] @ Rigid(motions[k].inner, np.zeros(3))
    frames: list[Rigid] = [_IDENTITY] * (len(links) + 1)
    frames[-1] = towards[-1] or _IDENTITY
    for k in range(len(links)):
        motions[k], frames[k] = canonical.outer_frame(motions[k], towards[k], _com(inertia[k]))

    before = []
    for k in range(len(links)):
        inner = Rigid(motions[k].inner, np.zeros(3))
        scale = max(np.abs(at[k].p).max(), np.abs(frames[parent[k]].p).max())
        placement, motions[k] = canonical.connect(frames[parent[k]].inverse() @ at[k] @ inner, motions[k], scale)
        before.append(placement)

    places = [(at_q, at_v) for link, at_q, at_v in model._slices() if link.name in index]
    joints = [link.joint for link in links]

    named = {name: (k, frames[k].inverse() @ pose) for name, (k, pose) in carried.items()}

    def gather(option: str) -> np.ndarray:
        return np.concatenate([getattr(joint, option) for joint in joints])

    return Tree(
        names=tuple(index),
        parent=tuple(parent),
        before=tuple(before),
        motion=tuple(motions),
        M=tuple(_moved(inertia[k], frames[k]) for k in range(len(links))),
        q_slices=tuple(at_q for at_q, _ in places),
        v_slices=tuple(at_v for _, at_v in places),
        nq=model.nq,
        nv=model.nv,
        gravity=_dusted(frames[-1].R.T @ np.array(model.gravity), float(np.abs(np.array(model.gravity)).max())),
        ground=frames[-1],
        ground_inertia=_moved(inertia[-1], frames[-1]),
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
        frames=named,
    )


def _placed_spring(spring: Spring, frames: dict[str, tuple[int, Rigid]]) -> PlacedSpring:
    (a, in_a), (b, in_b) = frames[spring.a], frames[spring.b]
    at_a, at_b = in_a.p + in_a.R @ np.array(spring.at_a), in_b.p + in_b.R @ np.array(spring.at_b)
    return PlacedSpring(a, b, at_a, at_b, spring.stiffness, spring.damping, spring.length)


def _placed_force(force: Applied, nv: int, frames: dict[str, tuple[int, Rigid]]) -> PlacedForce:
    k, frame = (None, _IDENTITY) if force.body is None else frames[force.body]
    return PlacedForce(force.name, partial(force.value, nv), k, frame.p + frame.R @ np.array(force.point))


def _broadcast(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two arrays with their leading axes broadcast."""
    try:
        batch = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    except ValueError:
        raise ModelError(f"the shapes {a.shape} and {b.shape} do not broadcast; give leading axes that are equal or 1") from None
    return np.broadcast_to(a, (*batch, a.shape[-1])), np.broadcast_to(b, (*batch, b.shape[-1]))


def _dusted(x: np.ndarray, scale: float) -> np.ndarray:
    """Return x with entries that are only the rounding of numbers as large as the scale set to zero."""
    return np.where(np.abs(x) <= 1e-14 * scale, 0.0, x)


def _com(M: np.ndarray) -> np.ndarray:
    """Return the centre of mass of an inertia; that of nothing is the origin."""
    return np.array([M[2, 4], M[0, 5], M[1, 3]]) / M[3, 3] if M[3, 3] > 0.0 else np.zeros(3)


def _moved(M: np.ndarray, frame: Rigid) -> np.ndarray:
    """Return a rigid-body inertia at another frame, and exactly so: symmetric, skew off-diagonal blocks, one mass."""
    length = float(max(np.abs(_com(M)).max(), np.abs(frame.p).max()))
    turning = max(float(np.abs(M[:3, :3]).max()), float(M[3, 3]) * length**2)
    M = frame.inverse().inertia(M).astype(float)
    mass = float(M[3, 3])
    h = _dusted(np.array([M[2, 4], M[0, 5], M[1, 3]]), mass * length)
    J = _dusted(0.5 * (M[:3, :3] + M[:3, :3].T), turning)
    return np.block([[J, skew(h)], [-skew(h), mass * np.eye(3)]])
