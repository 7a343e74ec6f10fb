"""The mechanism: bodies, joints, loops and forces that do not change. Kernels and runs are made of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.errors import ModelError, printable
from catena.graph import Trace, without_collection
from catena.model import parameters, values
from catena.model.actuators import Actuator
from catena.model.build_tree import build
from catena.model.cache import Cache
from catena.model.closures import Closure, Coupling
from catena.model.contacts import Contact
from catena.model.coordinates import Coordinates
from catena.model.driven import Driven
from catena.model.forces import Applied, Bushing, PointForce, Spring
from catena.model.frames import Frame
from catena.model.joints import Joint
from catena.model.motions import Given
from catena.model.parameters import Parameter
from catena.model.parts import Parts
from catena.model.placements import Followed
from catena.model.pose import Pose, following
from catena.model.spanning_tree import Connection, Link, Loose, SpanningTree, coordinate_name, spanning_tree
from catena.model.tree import Tree
from catena.model.tree_checks import check_determined, check_following

if TYPE_CHECKING:
    from typing_extensions import Self

#: Methods by which a `Model` changes; a mechanism refuses them.
_CHANGES = (
    "add", "add_frame", "connect", "close", "couple", "add_spring", "add_bushing", "add_contact", "add_force", "add_point_force",
    "add_line_force", "add_actuator", "parameter", "tie", "attach", "lock", "remove", "rename", "scale",
)  # fmt: skip


class _FrozenError(ModelError, AttributeError):
    """A mechanism was to be changed."""


class Mechanism(Coordinates):
    """A mechanism that does not change. `Builder`, which makes one, is read in the same way; `frozen` returns the mechanism of either.

    `once` caches what is made of a mechanism, for as long as the mechanism lives. `time` is set where the mechanism was taken `at` one.
    """

    def __init__(
        self, parts: Parts, *, spanning: SpanningTree | None = None, tree: Tree | None = None, time: float | None = None,
        varied: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """Make a mechanism of parts; a spanning tree, or a tree of the same bodies, replaces the one that follows from them."""
        self.__dict__.update(parts=parts, time=time, varied=varied, _tree=tree, _cache=Cache())
        if spanning is not None:
            self.__dict__["spanning"] = spanning

    parts: Parts
    time: float | None
    varied: tuple[str, ...]  # paths of the numbers that are inputs of its kernels
    _tree: Tree | None
    _cache: Cache

    # it does not change

    def __setattr__(self, name: str, value: Any) -> None:
        raise self._refused(f"{name} = …")

    if not TYPE_CHECKING:  # so that types are checked

        def __getattr__(self, name: str) -> Any:
            if name in _CHANGES:
                raise self._refused(name)
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _refused(self, change: str) -> _FrozenError:
        return _FrozenError(
            f"{change}: model '{self.name}' is frozen, as kernels and runs hold it, and cannot change; change the model that it was "
            "made of, or a copy, by copy.copy(model)"
        )

    def __reduce__(self) -> tuple:
        return _unpickled, (type(self), self.parts.opened(), self.time, self.varied)

    def frozen(self) -> Mechanism:
        """Return the mechanism itself, which does not change."""
        return self

    def once(self, kind: Hashable, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what `make` makes, from an earlier call where there was one with this kind and key.

        It belongs to the mechanism and goes with it, so that it may hold the mechanism. Different things are made at the same time.
        """
        return self.frozen()._cache.get(kind, key, make)

    def __repr__(self) -> str:
        count = f"<Model '{printable(self.name)}': {len(self.parts.added)} bodies"
        try:
            sizes = f"nq = {self.nq}, nv = {self.nv}"
        except ModelError:
            return f"{count}, incomplete>"  # loose bodies without a connection
        numbers = {"driven": len(self.driven_names), "loops": len(self.loops), "couplings": len(self.couplings)}
        return ", ".join([count, sizes, *(f"{what} = {number}" for what, number in numbers.items() if number)]) + ">"

    # bodies and joints

    @property
    def name(self) -> str:
        """The name."""
        return self.parts.name

    @property
    def gravity(self) -> tuple[float, ...]:
        """Acceleration of gravity [m/s^2], in the ground's axes."""
        return self.parts.gravity

    @property
    def friction_speed(self) -> float | tuple[float, float]:
        """Speed over which Coulomb friction is smoothed [rad/s or m/s]."""
        return self.parts.friction_speed

    @cached_property
    def spanning(self) -> SpanningTree:
        """The links of the spanning tree, and the joints that close loops."""
        return spanning_tree(self.parts.added, self.connections, tuple(self.parts.closures.values()))

    @property
    def links(self) -> tuple[Link, ...]:
        """The bodies with their joints and places, in the order of their coordinates: as they were added, loose ones last."""
        return self.spanning.links

    @property
    def added(self) -> tuple[Link | Loose, ...]:
        """The bodies as they were added, loose ones among them; `links` has the joints by which all of them hang."""
        return tuple(self.parts.added.values())

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the bodies, in the order of `links`."""
        return tuple(link.name for link in self.links)

    def check_body(self, name: str, who: str) -> None:
        """Refuse a name that is neither that of a body nor the ground; the message begins with `who`."""
        if not isinstance(name, str) or (name != "ground" and name not in self.parts.added):
            names = ", ".join(f"'{known}'" for known in ("ground", *self.parts.added, *self.parts.frames))
            raise ModelError(f"{who} {name!r}, which is not in model '{self.name}'; add it first, or choose from {names}")

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames, named places on bodies, in the order they were added.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> m.add_frame("tip", "arm", at=(1, 0, 0))
        >>> m.frames
        (Frame(name='tip', body='arm', at=Pose((1.0, 0.0, 0.0))),)
        """
        return tuple(self.parts.frames.values())

    def carrier(self, name: str, who: str) -> tuple[str, Pose]:
        """Return the body that a body, a frame or the ground stands for, and its place there with its formulas; `who` begins the message
        about others.
        """
        if isinstance(name, str) and name in self.parts.frames:
            frame = self.parts.frames[name]
            return frame.body, following(frame.at, Followed.of(frame.at, f"{name}.at", self.parts.ties).formulas())
        self.check_body(name, who)
        return name, Pose()

    # loops

    @property
    def connections(self) -> tuple[Connection, ...]:
        """The connections of bodies, in the order they were made; each is in `links` or in `loops`."""
        return tuple(self.parts.connections.values())

    @property
    def loops(self) -> tuple[Closure, ...]:
        """The joints that close loops: those of `close` in the order they were added, then those that connections leave."""
        return self.spanning.closures

    @property
    def couplings(self) -> tuple[Coupling, ...]:
        """The linear relations of coordinates, in the order they were added."""
        return tuple(self.parts.couplings.values())

    @property
    def has_loops(self) -> bool:
        """Whether loops are closed or coordinates coupled, so that the coordinates are not independent."""
        return bool(self.loops or self.couplings)

    # forces

    @property
    def springs(self) -> tuple[Spring, ...]:
        """The springs between bodies, in the order they were added."""
        return tuple(self.parts.springs.values())

    @property
    def forces(self) -> tuple[Applied, ...]:
        """The forces from functions of all coordinates, in the order they were added."""
        forces = self.parts.forces.values()
        whole = (force if force.part is None else force.of_whole(self.q_names, self.v_names) for force in forces)
        return tuple(replace(force, function=self.bound(force.function)) for force in whole)

    @property
    def bushings(self) -> tuple[Bushing, ...]:
        """The bushings between bodies, in the order they were added."""
        return tuple(self.parts.bushings.values())

    @property
    def point_forces(self) -> tuple[PointForce, ...]:
        """The forces from functions of where they act, in the order they were added."""
        return tuple(replace(force, function=self.bound(force.function)) for force in self.parts.point_forces.values())

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """The contacts, in the order they were added."""
        return tuple(self.parts.contacts.values())

    @property
    def python_forces(self) -> tuple[Applied, ...]:
        """The forces whose functions are marked with `ct.python`: called step by step, not compiled."""
        return tuple(force for force in self.forces if not force.traced)

    @property
    def changes_energy(self) -> tuple[str, ...]:
        """What may change the energy of the model, besides the joint forces tau; empty where energy is conserved.

        >>> m = ct.Model("door")
        >>> m.add("leaf", ct.box(0.8, 0.04, 2.0, mass=20.0), ct.Revolute("z", damping=1.5))
        >>> m.changes_energy
        ('damping',)
        """
        joints = [link.joint for link in self.links]
        causes = {
            "damping": any(any(joint.damping) for joint in joints),  # type: ignore[arg-type]
            "friction": any(any(joint.friction) for joint in joints),  # type: ignore[arg-type]
            "stops": any(np.isfinite([joint.lower, joint.upper]).any() for joint in joints),
            "damped springs": any(spring.damping for spring in self.springs),
            "damped bushings": any(any((*bushing.damping, *bushing.turning_damping)) for bushing in self.bushings),
            "contact": bool(self.contacts),
            "forces": bool(self.forces or self.point_forces),
            "driven joints": bool(self.driven_names),
        }
        return tuple(cause for cause, present in causes.items() if present)

    @property
    def actuators(self) -> tuple[Actuator, ...]:
        """The actuators, in the order of their controls."""
        return tuple(self.parts.actuators.values())

    # time, and joints that are driven

    @property
    def time_dependent(self) -> bool:
        """Whether a joint is driven or a traced force depends on time; kernels that these enter then take t as their first argument."""
        return self.once("time dependent", (), self._uses_time)

    def _uses_time(self) -> bool:
        def given(trace: Trace) -> dict[str, Any]:
            return self.given_inputs(trace, parameters.entry_of)

        if self.driven_names or any(force.uses_time(given) for force in self.point_forces):
            return True
        return any(force.uses_time(self.nq, self.nv, given) for force in self.forces if force.traced)

    @property
    def driven_names(self) -> tuple[str, ...]:
        """Names of the coordinates that are driven, as those of v would be: the forces that drive them are in this order.

        >>> m = ct.Model("shaker")
        >>> m.add("table", ct.point_mass(5.0), ct.Driven(ct.Prismatic("z"), lambda t: 0.01 * np.sin(60.0 * t)))
        >>> m.driven_names, m.nq
        (('table',), 0)
        """
        return tuple(coordinate_name(link.name, label) for link, joint in self.driven_joints() for label in joint.v_labels)

    @property
    def driven_units(self) -> tuple[str, ...]:
        """Units of the velocities of the coordinates that are driven."""
        return tuple(unit for _, joint in self.driven_joints() for unit in joint.v_units)

    def driven_joints(self) -> Iterator[tuple[Link, Joint]]:
        """Yield the bodies whose joints are driven, and these joints as they would be if they were free."""
        return ((link, link.joint.joint) for link in self.links if isinstance(link.joint, Driven))

    def driven_motion(self, t: Any) -> list[Given]:
        """Return the coordinates of driven joints, their velocities and accelerations, at a time of any scalar."""
        return [self.bound(link.joint.given)(t) for link in self.links if isinstance(link.joint, Driven)]

    def at(self, t: float) -> Mechanism:
        """Return the mechanism at a time [s]: its driven joints have the positions and velocities of this time."""
        m = self.frozen()
        return m.with_tree(m.tree().at(t), t) if m.driven_names else m

    def timed(self, t: float | None = None) -> Mechanism:
        """Return the mechanism at a time [s]: where none is given, at its own, or 0; itself where nothing is driven."""
        m = self.frozen()
        if not m.driven_names or (t is None and m.time is not None):
            return m
        return m.at(0.0 if t is None else values.number(f"model '{self.name}': t", t))

    @property
    def instant(self) -> float:
        """The time [s] of a model that was taken `at` one; 0 of others."""
        return self.time or 0.0

    def with_tree(self, tree: Tree, time: float) -> Mechanism:
        """Return the mechanism at a time, with another tree of the same bodies."""
        return type(self)(self.parts, spanning=self.spanning, tree=tree, time=time, varied=self.varied)

    # its numbers

    def parameters(self) -> dict[str, Parameter]:
        """Return every number of the model by path, with its value, shape and unit: those that `parameters=` of kernels may name.

        Placements are six numbers, x, y, z [m] and roll, pitch, yaw [rad], or by `.xyz` and `.rpy` three. `follows` names the parameters
        of `m.parameter` that a number follows; kernels take these in its place.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y", damping=0.1))
        >>> m.parameters()["arm.damping"]
        Parameter(path='arm.damping', value=array(0.1), unit='N m s/rad', follows='')
        """
        return dict(self.once("parameters", (), lambda: parameters.parameters(self)))

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Return a model with other numbers, given by the paths of `parameters`.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> m.with_values({"arm.mass": 3.0}).links[0].body.mass
        3.0
        """
        return type(self)(parameters.replaced(self, values).sealed())

    def varying(self, paths: Any, what: str, wrenches: Any = (), controls: bool = False) -> Mechanism:
        """Return the mechanism whose kernels take the numbers at these paths as further inputs; `what` takes them is named in errors.

        Where `wrenches` names bodies, the first of these inputs has a wrench on each; with `controls`, one before has those of actuators.
        """
        paths, wrenches = parameters.inputs(what, paths, wrenches)
        if wrenches:
            bodies = parameters.check_bodies(self, wrenches, what)
            parts = self.once("wrenches", bodies, lambda: parameters.with_wrenches(self, bodies).sealed())
            loaded = type(self.frozen())(parts, spanning=self.frozen().spanning, time=self.frozen().time)
            return loaded.varying((parameters.WRENCHES, *paths), what, controls=controls)
        if controls:
            parts = self.once("controls", (), lambda: parameters.with_controls(self, what).sealed())
            driven = type(self.frozen())(parts, spanning=self.frozen().spanning, time=self.frozen().time)
            return driven.varying((parameters.CONTROLS, *paths), what)
        m, chosen = self.frozen(), parameters.check(self, paths, what)
        if chosen == m.varied:
            return m
        return m.once("varying", chosen, lambda: type(m)(m.parts, spanning=m.spanning, time=m.time, varied=chosen))

    def bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the user's in which parameters of one's own have the values of this model, unless others are in place.

        Functions are bound where they are used: a model holds them as they were given.
        """
        return parameters.bind(function, self.parts.own)

    def pushed(self, wrenches: Mapping[str, Any], what: str) -> Self:
        """Return the mechanism with wrenches on bodies: (6,) each, or functions of (t, q, v); `what` takes them is told in errors."""
        return type(self)(parameters.pushed(self, wrenches, what).sealed())

    def given_inputs(self, trace: Trace, name: Callable[[str], str] = str) -> dict[str, Any]:
        """Return the numbers that are inputs of kernels as new inputs of a trace, by path, with a name that follows from it."""
        return {path: trace.input(name(path), self.parameters()[path].shape) for path in self.varied}

    def tree_with(self, given: Mapping[str, Any], weld: bool = True) -> Tree:
        """Return the tree in which scalars that are given by path stand for numbers of the model."""
        return build(self.frozen(), weld, given) if given else self.tree(weld)

    # the tree, which formulations read

    def tree(self, weld: bool = True) -> Tree:
        """Return the tree in canonical frames, checked, built once; without `weld`, bodies on fixed joints are bodies of their own."""
        m = self.frozen()
        if weld:
            return m._tree or m.once("tree", (), m._checked_tree)
        tree = build(m, weld=False)
        return tree if m.time is None else tree.at(m.time)

    def _checked_tree(self) -> Tree:
        with without_collection():
            tree = build(self)
            check_following(tree)
            check_determined(tree, np.random.default_rng(0), self.random_nearby)
        return tree if self.time is None else tree.at(self.time)

    # positions that were given

    @property
    def home(self) -> np.ndarray | None:
        """The positions at which searches begin; None stands for the neutral ones."""
        return None if self.parts.home is None else self.parts.home.copy()

    def search_start(self) -> np.ndarray:
        """Return where a search begins: at home, or at the neutral positions, moved to the limits of joints where they are beyond them."""
        if self.parts.home is None:
            q = self.neutral()
            for link, at_q, _ in self.slices():
                if link.joint.limits is not None:
                    q[at_q] = np.clip(q[at_q], link.joint.lower, link.joint.upper)
            return q
        if len(self.parts.home) != self.nq:
            raise ModelError(f"model '{self.name}': home has {len(self.parts.home)} positions and the model {self.nq}; set m.home again")
        return self.parts.home.copy()

    # of the file that it was read from

    @property
    def keyframes(self) -> dict[str, np.ndarray]:
        """Positions that a model file gives by name, near which loops are closed.

        >>> ct.Model("pendulum").keyframes
        {}
        """
        return {name: q.copy() for name, q in self.parts.keyframes.items()}

    @property
    def joint_names(self) -> dict[str, str]:
        """Names that a URDF or MJCF file gives to joints, by the bodies that they carry; coordinates have the names of the bodies.

        >>> ct.Model("pendulum").joint_names
        {}
        """
        return dict(self.parts.joint_names)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of a model file reports: what it recognised, and what of the file is not in the model.

        >>> ct.Model("pendulum").notes
        ()
        """
        return tuple(self.parts.notes)

    @property
    def folder(self) -> str | None:
        """The folder of the file that the mechanism was read from, where its meshes are."""
        return self.parts.folder


def _unpickled(kind: type[Mechanism], parts: Parts, time: float | None, varied: tuple[str, ...] = ()) -> Mechanism:
    """Return a mechanism that was pickled."""
    m = kind(parts.sealed(), varied=varied)
    return m if time is None else m.at(time)
