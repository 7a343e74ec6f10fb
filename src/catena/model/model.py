"""The model: what a user builds, body by body."""

from __future__ import annotations

import copy
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.errors import LimitWarning, ModelError
from catena.model import loops, values
from catena.model.bodies import Body
from catena.model.building import build, placed_coupling
from catena.model.cache import Cache
from catena.model.connections import Connection, Hung, Link, Loose, check_apart, coordinate_name, hang, placed
from catena.model.driven import Driven, released
from catena.model.forces import Applied, Spring
from catena.model.joints import Joint
from catena.model.loops import Closure, Coupling, Distance
from catena.model.motions import Given
from catena.model.pose import Pose
from catena.model.tree import Tree, check_determined, check_following

if TYPE_CHECKING:
    from catena.mobility import Mobility
    from catena.view.viewer import Viewer

#: Attributes that follow from the others: copies and pickles come without them.
_COMPUTED = ("_hung", "_places", "_tree", "_free", "_snapshot", "_cache")

_freezing = threading.Lock()


class Model:
    """A mechanism: bodies hung on the ground or on each other by joints, and loops of them closed by further joints.

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
        self._added: dict[str, Link | Loose] = {}
        self._coordinates: set[str] = set()
        self._springs: dict[str, Spring] = {}
        self._forces: dict[str, Applied] = {}
        self._closures: dict[str, Closure] = {}
        self._couplings: dict[str, Coupling] = {}
        self._connections: dict[str, Connection] = {}
        self._notes: list[str] = []
        self._keyframes: dict[str, np.ndarray] = {}
        self._home: np.ndarray | None = None
        self._joint_names: dict[str, str] = {}
        self._folder: str | None = None
        self._hung: Hung | None = None
        self._places: dict[str, tuple[Joint, int, int]] | None = None
        self._tree: Tree | None = None
        self._free: Tree | None = None
        self._time: float | None = None
        self._snapshot: Model | None = None
        self._cache = Cache()
        self._frozen = False

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _COMPUTED:
            self._changeable(f"{name.removeprefix('_')} = …")
        object.__setattr__(self, name, value)

    def _changeable(self, change: str) -> None:
        """Refuse a change of a model that is frozen."""
        if self.__dict__.get("_frozen", False):
            raise ModelError(
                f"{change}: model '{self.name}' is frozen, as kernels and runs hold it, and cannot change; change the model that it was "
                "made of, or a copy, by copy.copy(model)"
            )

    def frozen(self) -> Model:
        """Return the model as it is now, for good: changes of this one do not reach it, and what would change it is refused.

        Kernels and runs hold frozen models, so that what they compute stays what it was. As long as a model does not change, its frozen
        one is the same object, and what was compiled for it is found again. A copy, by `copy.copy` or `copy.deepcopy`, can be changed, also
        one of a frozen model; a frozen model that was pickled stays frozen.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> before = m.frozen()
        >>> m.frozen() is before and before.frozen() is before
        True
        >>> m.add("hand", ct.sphere(0.1, mass=1.0), ct.Fixed(), parent="arm", at=(1, 0, 0))
        >>> before.body_names, m.frozen() is before
        (('arm',), False)
        """
        if self._frozen:
            return self
        with _freezing:
            known, contents = self._snapshot, self._contents()
            if known is None or not _alike(contents, known._contents()):
                sealed = {name: _sealed(value) for name, value in contents.items()}
                self._snapshot = known = self._with(sealed, _frozen=True, _hung=self._hung)
            return known

    def _contents(self) -> dict[str, Any]:
        """Return the attributes that say what the model is."""
        return {name: value for name, value in self.__dict__.items() if name not in (*_COMPUTED, "_frozen")}

    def _with(self, contents: Mapping[str, Any], **others: Any) -> Model:
        """Return a model with these contents and attributes; others are yet to be computed."""
        model = object.__new__(type(self))
        model.__dict__.update(contents, **{**dict.fromkeys(_COMPUTED), "_cache": Cache(), "_frozen": False, **others})
        return model

    def __copy__(self) -> Model:
        return self._with({name: _open(value) for name, value in self._contents().items()})

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return self._with({name: copy.deepcopy(_open(value), memo) for name, value in self._contents().items()})

    def __getstate__(self) -> dict[str, Any]:
        return {**{name: _open(value) for name, value in self._contents().items()}, "_frozen": self._frozen}

    def __setstate__(self, state: dict[str, Any]) -> None:
        contents = {name: value for name, value in state.items() if name != "_frozen"}
        sealed = {name: _sealed(value) for name, value in contents.items()} if state["_frozen"] else contents
        self.__dict__.update(self._with(sealed, _frozen=state["_frozen"]).__dict__)

    def __repr__(self) -> str:
        count = f"<Model '{self.name}': {len(self._added)} bodies"
        try:
            sizes = f"nq = {self.nq}, nv = {self.nv}"
        except ModelError:
            return f"{count}, incomplete>"  # bodies that nothing hangs yet
        numbers = {"driven": len(self.driven_names), "loops": len(self.loops), "couplings": len(self.couplings)}
        return ", ".join([count, sizes, *(f"{what} = {number}" for what, number in numbers.items() if number)]) + ">"

    def _changed(self) -> None:
        self._hung = self._places = None

    def add(
        self,
        name: str,
        body: Body,
        joint: Joint | None = None,
        parent: str = "ground",
        at: Any = (0.0, 0.0, 0.0),
        at_body: Any = (0.0, 0.0, 0.0),
    ) -> None:
        """Add a body, hung by a joint on its parent at a place in the parent's frame.

        `at` is a translation (x, y, z) or a `Pose`: the joint frame in the parent's body frame. At the joint's neutral position it
        coincides with `at_body`, the joint frame in the body's own frame: its origin, if not given.

        Without a joint the body is loose, and has to be hung by `connect`.

        >>> m = ct.Model("double pendulum")
        >>> m.add("upper", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> m.add("lower", ct.rod(1.0, mass=2.0), ct.Revolute("y"), parent="upper", at=(1, 0, 0))
        >>> m.body_names
        ('upper', 'lower')
        """
        self._changeable(f"add '{name}'")
        if not isinstance(name, str) or not name.strip():
            raise ModelError(f"body name {name!r} is not a name; give a non-empty string")
        if name == "ground":
            raise ModelError("body 'ground': the ground is there already; give the body another name")
        if name in self._added:
            raise ModelError(f"body '{name}' is there already; give each body its own name")
        if not isinstance(body, Body):
            raise ModelError(f"body '{name}': {body!r} is not a body; give ct.Body(mass, com, inertia) or a shape such as ct.rod")
        if isinstance(joint, Distance):
            raise ModelError(
                f"body '{name}': {joint!r} closes a loop and hangs no body; give the body another joint, such as ct.Free(), "
                f"and hold it by m.close(name, {joint!r}, '{parent}', '{name}')"
            )
        if joint is not None and (not isinstance(joint, Joint) or type(joint) is Joint):
            raise ModelError(f"body '{name}': {joint!r} is not a joint; give one such as ct.Revolute('z') or ct.Fixed()")
        self._known(parent, f"body '{name}' names parent")
        try:
            place, outer = Pose.of(at), Pose.of(at_body)
        except ModelError as error:
            raise ModelError(f"body '{name}': {error}") from None
        if joint is None:
            if parent != "ground" or not all(np.array_equal(pose.matrix(), np.eye(4)) for pose in (place, outer)):
                own = "" if np.array_equal(outer.matrix(), np.eye(4)) else f" and at_body {at_body!r}"
                raise ModelError(
                    f"body '{name}': parent '{parent}' and at {at!r}{own} are given, but no joint; "
                    "give one such as ct.Revolute('z') or ct.Fixed()"
                )
            self._added[name] = Loose(name, body)
            self._changed()
            return
        if isinstance(self._added.get(parent), Loose):
            raise ModelError(
                f"body '{name}': its parent '{parent}' is loose, and may come to hang on '{name}'; give '{parent}' its joint, "
                f"or add '{name}' without one as well and say m.connect('{parent}', '{name}', joint)"
            )
        own = {coordinate_name(name, label) for label in (*released(joint).q_labels, *released(joint).v_labels)}
        if own & self._coordinates:
            taken = min(own & self._coordinates)
            raise ModelError(f"body '{name}': another body has a coordinate named '{taken}' already; give the body another name")
        self._coordinates |= own
        self._added[name] = Link(name, body, joint, parent, place, outer)
        self._changed()

    def connect(
        self,
        a: str,
        b: str,
        joint: Joint | Distance,
        at_a: Any = (0.0, 0.0, 0.0),
        at_b: Any = (0.0, 0.0, 0.0),
        name: str | None = None,
    ) -> None:
        """Connect two bodies by a joint, without saying which hangs on which, nor which joints close loops.

        `at_a` and `at_b` are translations or Poses: the joint frame in the frame of each body. b moves against a as a child against its
        parent. `name` is "a-b" if not given.

        When the model is used, a spanning tree is chosen: the ground, the bodies that were added with a joint, and from there the loose
        bodies. The joints with the most constraints hang bodies, of equal ones the earlier; the rest become `loops`. Bodies that were
        added with a joint keep their order; the loose ones follow breadth first, in the order in which they were added. Coordinates bear
        the name of the body that hangs by them.

        A joint that comes to hang a on b is turned round: the axes of a hinge, slider or screw are reversed, and its coordinates stay
        what they were; a universal joint of axes (1, 2) becomes one of axes (-2, -1), and its coordinates change places; those of planar,
        spherical and free joints describe the inverse motion, that of a against b.

        >>> m = ct.Model("four-bar")
        >>> for name, length in (("crank", 0.3), ("coupler", 1.0), ("rocker", 0.6)):
        ...     m.add(name, ct.rod(length, mass=5 * length))
        >>> m.connect("ground", "crank", ct.Revolute("y"))
        >>> m.connect("crank", "coupler", ct.Revolute("y"), at_a=(0.3, 0, 0))
        >>> m.connect("coupler", "rocker", ct.Revolute("y"), at_a=(1, 0, 0), at_b=(0.6, 0, 0))
        >>> m.connect("rocker", "ground", ct.Revolute("y"), at_b=(1, 0, 0))
        >>> [(link.name, link.parent) for link in m.links], [loop.name for loop in m.loops]
        ([('crank', 'ground'), ('coupler', 'crank'), ('rocker', 'coupler')], ['rocker-ground'])
        """
        name = f"{a}-{b}" if name is None else name
        self._check_loop("connection", name)
        self._connections[name] = Connection(name, joint, a, b, *self._ends(f"connection '{name}'", joint, a, b, at_a, at_b))
        self._changed()

    def close(
        self, name: str, joint: Joint | Distance, a: str, b: str, at_a: Any = (0.0, 0.0, 0.0), at_b: Any = (0.0, 0.0, 0.0)
    ) -> None:
        """Close a loop: a joint between bodies a and b, of which one may be the ground.

        `at_a` and `at_b` are translations or Poses: the joint frame in the frame of each body. b moves against a as a child against its
        parent. The joint is any but `Free`, `Custom` and `Driven`, or a `Distance`; it adds no coordinates to q and v, and takes no
        options.

        >>> m = ct.Model("four-bar")
        >>> m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y"))
        >>> m.add("coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
        >>> m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), at=(1, 0, 0))
        >>> m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1, 0, 0), at_b=(0.6, 0, 0))
        >>> m
        <Model 'four-bar': 3 bodies, nq = 3, nv = 3, loops = 1>
        """
        self._check_loop("loop", name)
        ends = self._ends(f"loop '{name}'", joint, a, b, at_a, at_b)
        loops.check_closing(f"loop '{name}'", joint)
        closure = Closure(name, joint, a, b, *ends)
        check_apart(closure, self._added)
        self._closures[name] = closure
        self._changed()

    def _ends(self, what: str, joint: Any, a: str, b: str, at_a: Any, at_b: Any) -> tuple[Pose, Pose]:
        """Return the joint frames on two bodies, checked like the joint and the bodies."""
        loops.check_joint(what, joint)
        for body in (a, b):
            self._known(body, f"{what} names body")
        if a == b:
            raise ModelError(f"{what}: both ends are on '{a}', which cannot move against itself; give two bodies")
        return loops.closing_pose(what, "at_a", at_a), loops.closing_pose(what, "at_b", at_b)

    def couple(self, name: str, coefficients: Mapping[str, float], offset: float = 0.0) -> None:
        """Couple coordinates, as gears do: the sum of coefficient times coordinate is the offset.

        The coordinates are named as in `q_names`; their joints are those whose positions are plain numbers, all but `Spherical` and
        `Free`. With connections, connect all bodies first: the spanning tree says which coordinates there are.

        >>> m = ct.Model("gears", gravity=(0, 0, 0))
        >>> m.add("pinion", ct.cylinder(0.02, 0.1, mass=1.0), ct.Revolute("z"))
        >>> m.add("wheel", ct.cylinder(0.02, 0.2, mass=4.0), ct.Revolute("z"), at=(0.3, 0, 0))
        >>> m.couple("mesh", {"pinion": 0.1, "wheel": 0.2})
        >>> m.has_loops
        True
        """
        self._check_loop("coupling", name)
        coupling = loops.coupling(name, coefficients, offset)
        placed_coupling(coupling, self)
        self._couplings[name] = coupling  # how bodies hang stays as it is

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
        self._changed()

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
        self._changed()

    def _check_load(self, kind: str, name: str) -> None:
        self._changeable(f"{kind} '{name}'")
        _check_name(kind, name, {"spring": self._springs, "force": self._forces}, "each spring and force")

    def _check_loop(self, kind: str, name: str) -> None:
        self._changeable(f"{kind} '{name}'")
        there = {"loop": self._closures, "coupling": self._couplings, "connection": self._connections}
        _check_name(kind, name, there, "each loop, coupling and connection")

    @property
    def loops(self) -> tuple[Closure, ...]:
        """The joints that close loops: those of `close` in the order they were added, then those that connections leave."""
        return self._hanging().closures

    @property
    def couplings(self) -> tuple[Coupling, ...]:
        """The linear relations of coordinates, in the order they were added."""
        return tuple(self._couplings.values())

    @property
    def connections(self) -> tuple[Connection, ...]:
        """The connections of bodies, in the order they were made; `links` and `loops` say what became of them."""
        return tuple(self._connections.values())

    @property
    def has_loops(self) -> bool:
        """Whether loops are closed or coordinates coupled, so that the coordinates are not independent."""
        return bool(self.loops or self.couplings)

    def assemble(
        self, guess: Any = None, fixed: Mapping[str, float] | None = None, t: float | None = None, **coordinates: float
    ) -> np.ndarray:
        """Return positions q that close all loops, near a guess; coordinates given by name keep their value.

        Where joints are driven, they stand as they do at the time t [s], 0 if not given; without a guess they are led there from t = 0.

        A guess picks the branch where parts can go together in several ways; without one the search begins at `home`.
        Coordinates are led from there to their values, so that the mechanism stays on its branch.
        Positions within the limits of the joints are preferred; a `LimitWarning` names those that are beyond them because no others were
        found.
        `fixed` takes names that Python does not, such as those of joints with several coordinates.

        >>> m = ct.Model("slider-crank")
        >>> m.add("crank", ct.rod(0.3, mass=1.0), ct.Revolute("y"))
        >>> m.add("rod", ct.rod(0.5, mass=1.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
        >>> m.add("piston", ct.point_mass(1.0), ct.Prismatic("x"))
        >>> m.close("pin", ct.Revolute("y"), "rod", "piston", at_a=(0.5, 0, 0))
        >>> m.assemble(crank=np.pi / 2).round(3)
        array([ 1.571, -2.214,  0.4  ])
        """
        from catena.assembly import assemble

        still, named = self._timed(t, coordinates)
        held = {**(fixed or {}), **named}
        q = assemble(still, guess, held)
        self._check_limits(q, guess, held)
        return q

    def _check_limits(self, q: np.ndarray, guess: Any, held: Mapping[str, float]) -> None:
        """Warn of coordinates that were moved beyond their limits to close loops; those that the user put there are not named."""
        given, beyond = self._start() if guess is None else np.asarray(guess, dtype=float), []
        for link, at, _ in self._slices():
            if link.joint.limits is not None:
                limits = zip(self.q_names[at], q[at], given[at], link.joint.lower, link.joint.upper, strict=True)
                beyond += [
                    f"{name} = {x:.4g}, outside {low:.4g} to {high:.4g}"
                    for name, x, before, low, high in limits
                    if name not in held and x != before and not low <= x <= high
                ]
        if beyond:
            warnings.warn(
                f"model '{self.name}': no positions were found that close the loops within all limits; {'; '.join(beyond)}; give a guess "
                "within the limits, or change them",
                LimitWarning,
                stacklevel=3,
            )

    @property
    def home(self) -> np.ndarray | None:
        """The positions at which the mechanism stands unless others are given; None stands for the neutral ones.

        `assemble` begins there, and with it `mobility`, kernels and views: where the search from the neutral positions does not close the
        loops, or on the wrong branch, home helps. It is saved in TOML files, and read from the keyframe "home" of MJCF files, or the first.

        >>> m = ct.Model("four-bar")
        >>> m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y"))
        >>> m.add("coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
        >>> m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), at=(1, 0, 0))
        >>> m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1, 0, 0), at_b=(0.6, 0, 0))
        >>> m.home = m.assemble([1.0, 0.5, 2.0])
        >>> bool(np.allclose(m.assemble(), m.home))
        True
        """
        return None if self._home is None else self._home.copy()

    @home.setter
    def home(self, q: Any) -> None:
        home = None
        if q is not None:
            home = values.array(f"model '{self.name}': home", q, (self.nq,))
            for link, at_q, _ in self._slices():
                if link.joint.nq != link.joint.nv and not home[at_q][-4:].any():
                    raise ModelError(f"model '{self.name}': home of body '{link.name}' is no rotation; give a unit quaternion")
            home = self.normalised(home)
        self._home = home
        self._tree = self._free = None  # so that what was made for the model begins at home, too

    def _start(self) -> np.ndarray:
        """Return where a search begins: at home, or at the neutral positions, moved to the limits of joints where they are beyond them."""
        if self._home is None:
            q = self.neutral()
            for link, at_q, _ in self._slices():
                if link.joint.limits is not None:
                    q[at_q] = np.clip(q[at_q], link.joint.lower, link.joint.upper)
            return q
        if len(self._home) != self.nq:
            raise ModelError(
                f"model '{self.name}': home has {len(self._home)} positions and the model now {self.nq}; set m.home again"
            )
        return self._home.copy()

    def project_velocity(
        self, q: Any, v: Any = None, fixed: Mapping[str, float] | None = None, t: float | None = None, **rates: float
    ) -> np.ndarray:
        """Return velocities that keep all loops closed at q, the nearest to v by kinetic energy; rates given by name are kept.

        Where joints are driven, they move as they do at the time t [s], 0 if not given.

        >>> m = ct.Model("gears")
        >>> m.add("small", ct.cylinder(0.05, 0.1, mass=1.0), ct.Revolute("z"))
        >>> m.add("large", ct.cylinder(0.05, 0.2, mass=4.0), ct.Revolute("z"), at=(0.3, 0, 0))
        >>> m.couple("mesh", {"small": 1.0, "large": 2.0})
        >>> m.project_velocity([0.0, 0.0], large=1.0)
        array([-2.,  1.])
        """
        from catena.assembly import project_velocity

        still, named = self._timed(t, rates)
        return project_velocity(still, q, np.zeros(self.nv) if v is None else v, {**(fixed or {}), **named})

    def _timed(self, t: float | None, named: dict[str, float]) -> tuple[Model, dict[str, float]]:
        """Return the model at a time, and the coordinates given by name, of which one may be named t where nothing is driven."""
        if not self.driven_names:
            return self.frozen(), named if t is None else {**named, "t": t}
        if t is None and self._time is not None:
            return self.frozen(), named
        return self.at(0.0 if t is None else values.number(f"model '{self.name}': t", t)), named

    def mobility(self, q: Any = None, t: float | None = None) -> Mobility:
        """Return what the loops leave the mechanism: degrees of freedom, redundant constraints, independent coordinates.

        At q, or at a configuration of its own choice that is not a special one. Where joints are driven, at the time t [s]; without it at
        0 with q, else at one of its own choice.

        >>> m = ct.Model("gears")
        >>> m.add("small", ct.cylinder(0.05, 0.1, mass=1.0), ct.Revolute("z"))
        >>> m.add("large", ct.cylinder(0.05, 0.2, mass=4.0), ct.Revolute("z"), at=(0.3, 0, 0))
        >>> m.couple("mesh", {"small": 1.0, "large": 2.0})
        >>> m.mobility().freedom
        1
        """
        from catena.mobility import mobility

        return mobility(self.frozen(), q, t)

    def _hanging(self) -> Hung:
        if self._hung is None:
            self._hung = hang(self._added, self.connections, tuple(self._closures.values()))
        return self._hung

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
        """Whether a joint is driven or a traced force depends on time; kernels that these enter then take t as their first argument."""
        return bool(self.driven_names) or any(force.uses_time(self.nq, self.nv) for force in self.forces if force.traced)

    @property
    def driven_names(self) -> tuple[str, ...]:
        """Names of the coordinates that are driven, as those of v would be: the forces that drive them are in this order.

        >>> m = ct.Model("shaker")
        >>> m.add("table", ct.point_mass(5.0), ct.Driven(ct.Prismatic("z"), lambda t: 0.01 * np.sin(60.0 * t)))
        >>> m.driven_names, m.nq
        (('table',), 0)
        """
        return tuple(coordinate_name(link.name, label) for link, joint in self._driven() for label in joint.v_labels)

    @property
    def driven_units(self) -> tuple[str, ...]:
        """Units of the velocities of the coordinates that are driven."""
        return tuple(unit for _, joint in self._driven() for unit in joint.v_units)

    def _driven(self) -> Iterator[tuple[Link, Joint]]:
        """Yield the bodies whose joints are driven, and these joints as they would be if they were free."""
        return ((link, link.joint.joint) for link in self.links if isinstance(link.joint, Driven))

    @property
    def _instant(self) -> float:
        """The time [s] of a model that was taken `at` one; 0 of others."""
        return self._time or 0.0

    def _given(self, t: Any) -> list[Given]:
        """Return what the joints that are driven do at a time, of any scalar."""
        return [link.joint.given(t) for link in self.links if isinstance(link.joint, Driven)]

    def at(self, t: float) -> Model:
        """Return the model, frozen, at a time [s], for what is asked of an instant: driven joints stand and move as they do then.

        >>> m = ct.Model("slider-crank")
        >>> m.add("crank", ct.rod(0.3, mass=1.0), ct.Driven(ct.Revolute("y"), lambda t: 2.0 * t))
        >>> m.add("rod", ct.rod(0.5, mass=1.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
        >>> m.add("piston", ct.point_mass(1.0), ct.Prismatic("x"))
        >>> m.close("pin", ct.Revolute("y"), "rod", "piston", at_a=(0.5, 0, 0))
        >>> m.at(np.pi / 4).assemble().round(3)  # the crank stands upright
        array([-2.214,  0.4  ])
        """
        m = self.frozen()
        if not m.driven_names:
            return m
        others = {"_time": t, "_hung": m._hung, "_tree": m.tree().at(t), "_free": m._free, "_frozen": True}
        return m._with(m._contents(), **others)

    @property
    def changes_energy(self) -> tuple[str, ...]:
        """What may change the energy of the model, besides joint forces that are put in; nothing where it is kept.

        >>> m = ct.Model("door")
        >>> m.add("leaf", ct.box(0.8, 0.04, 2.0, mass=20.0), ct.Revolute("z", damping=1.5))
        >>> m.changes_energy
        ('damping',)
        """
        options = [name for name in ("damping", "friction") if any(any(getattr(link.joint, name)) for link in self.links)]
        stops = ["stops"] if any(np.isfinite([link.joint.lower, link.joint.upper]).any() for link in self.links) else []
        springs = ["damped springs"] if any(spring.damping for spring in self.springs) else []
        return (*options, *stops, *springs, *(["forces"] if self.forces else []), *(["driven joints"] if self.driven_names else []))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of a model file has to say: what it recognised, and what of the file is not in the model.

        >>> ct.Model("pendulum").notes
        ()
        """
        return tuple(self._notes)

    @property
    def keyframes(self) -> dict[str, np.ndarray]:
        """Positions that a model file gives by name, near which loops are closed.

        >>> ct.Model("pendulum").keyframes
        {}
        """
        return {name: q.copy() for name, q in self._keyframes.items()}

    @property
    def joint_names(self) -> dict[str, str]:
        """Names that a URDF or MJCF file gives to joints, by the bodies that they carry; coordinates have the names of the bodies.

        >>> ct.Model("pendulum").joint_names
        {}
        """
        return dict(self._joint_names)

    def _known(self, name: str, who: str) -> None:
        if not isinstance(name, str) or (name != "ground" and name not in self._added):
            names = ", ".join(f"'{known}'" for known in ("ground", *self._added))
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
        """The bodies with their joints and places, in the order of their coordinates: as they were added, loose ones last."""
        return self._hanging().links

    @property
    def added(self) -> tuple[Link | Loose, ...]:
        """The bodies as they were added, loose ones among them; `links` says how all of them hang."""
        return tuple(self._added.values())

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the bodies, in the order of `links`."""
        return tuple(link.name for link in self.links)

    @property
    def nq(self) -> int:
        """Number of position coordinates."""
        return sum(link.joint.nq for link in self.links)

    @property
    def nv(self) -> int:
        """Number of velocity coordinates: the degrees of freedom, where there are no loops."""
        return sum(link.joint.nv for link in self.links)

    @property
    def q_names(self) -> tuple[str, ...]:
        """Names of the position coordinates: the body's name, and the coordinate's where a joint has several."""
        return tuple(coordinate_name(link.name, label) for link in self.links for label in link.joint.q_labels)

    @property
    def v_names(self) -> tuple[str, ...]:
        """Names of the velocity coordinates: the body's name, and the coordinate's where a joint has several."""
        return tuple(coordinate_name(link.name, label) for link in self.links for label in link.joint.v_labels)

    @property
    def q_units(self) -> tuple[str, ...]:
        """Units of the position coordinates; quaternions have none."""
        return tuple(unit for link in self.links for unit in link.joint.q_units)

    @property
    def v_units(self) -> tuple[str, ...]:
        """Units of the velocity coordinates."""
        return tuple(unit for link in self.links for unit in link.joint.v_units)

    def neutral(self) -> np.ndarray:
        """Return the position at which the two frames of every joint coincide; loops need not be closed there."""
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
            mass, radius = link.body.mass, max(np.abs(link.at.p).max(), np.abs(link.outer.p).max())
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

    def moved(self, q: Any, change: Any) -> Any:
        """Return the position reached from q by a small change in the coordinates of velocities, such as a step of Newton's.

        It is that of `integrate` to first order, without its functions of angles.
        """
        return self.chart(q, self.chart_rate(q, np.zeros(self.nv), change))

    def rate(self, q: Any, v: Any) -> Any:
        """Return dq/dt at the velocity v."""
        return np.concatenate([q[..., :0], *(link.joint.rate(q[..., at_q], v[..., at_v]) for link, at_q, at_v in self._slices())], axis=-1)

    def cayley(self, q: Any, u: Any) -> Any:
        """Return the position with the Cayley coordinates u around q: 2 tan(angle / 2) along the axes of rotations, else differences."""
        moved = [link.joint.cayley(q[..., at_q], u[..., at_v]) for link, at_q, at_v in self._slices()]
        return np.concatenate([q[..., :0], *moved], axis=-1)

    def cayley_velocity(self, q: Any, u: Any, rate: Any) -> Any:
        """Return the velocity v at which the Cayley coordinates u change at a rate, where q is the position that they stand for."""
        found = [link.joint.cayley_velocity(q[..., at_q], u[..., at_v], rate[..., at_v]) for link, at_q, at_v in self._slices()]
        return np.concatenate([rate[..., :0], *found], axis=-1)

    def cayley_momentum(self, q: Any, u: Any, p: Any) -> Any:
        """Return the momenta conjugate to the Cayley coordinates u, where p are conjugate to v and q is the position that u stands for."""
        found = [link.joint.cayley_momentum(q[..., at_q], u[..., at_v], p[..., at_v]) for link, at_q, at_v in self._slices()]
        return np.concatenate([p[..., :0], *found], axis=-1)

    def outside(self, q: Any, p: Any) -> Any:
        """Return the momenta p, conjugate to v, as they are seen from the parents, in axes that do not turn with the joints."""
        found = [link.joint.outside(q[..., at_q], p[..., at_v]) for link, at_q, at_v in self._slices()]
        return np.concatenate([p[..., :0], *found], axis=-1)

    def inside(self, q: Any, p: Any) -> Any:
        """Return the momenta, conjugate to v, that are seen as p from the parents."""
        found = [link.joint.inside(q[..., at_q], p[..., at_v]) for link, at_q, at_v in self._slices()]
        return np.concatenate([p[..., :0], *found], axis=-1)

    def _array(self, name: str, value: Any, size: int) -> Any:
        array = np.asarray(value)
        if array.dtype.kind not in "buifO":
            raise ModelError(f"{name} {value!r} is not made of real numbers; model '{self.name}' takes (..., {size})")
        if array.dtype != object:
            array = array.astype(float)
        if array.ndim == 0 or array.shape[-1] != size:
            raise ModelError(f"{name} has shape {array.shape}; model '{self.name}' takes (..., {size})")
        return array

    def _coordinates_at(self) -> dict[str, tuple[Joint, int, int]]:
        """Return of every position coordinate its joint, and its places in q and v."""
        if self._places is None:
            self._places = {}
            for link, at_q, at_v in self._slices():
                for i, label in enumerate(link.joint.q_labels):
                    self._places[coordinate_name(link.name, label)] = (link.joint, at_q.start + i, at_v.start + i)
        return self._places

    def _slices(self) -> Iterator[tuple[Link, slice, slice]]:
        """Yield every body with the places of its coordinates in q and v."""
        return placed((link, link.joint) for link in self.links)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that `ct.load` reads: TOML (.toml), which holds everything but Python code, or URDF (.urdf) for trees.

        An existing file is replaced in one step or left as it is.
        """
        from catena.model.files import save  # here, because files are made of models

        save(self, path)

    def draw(self, path: str | os.PathLike[str], q: Any = None, t: float = 0.0, size: tuple[int, int] = (640, 480)) -> None:
        """Write a picture (.png) of the model at q, where its loops are closed if not given; needs Pillow, `pip install "catena[plot]"`.

        >>> import pathlib, tempfile
        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     m.draw(pathlib.Path(folder, "pendulum.png"), q=[0.5])
        """
        from catena.view.animation import draw  # here, because the view is made of models and needs an optional package

        draw(self, path, q, t, size)

    def view(self, q: Any = None, *, port: int = 8080, browser: bool = True, wait: bool | None = None) -> Viewer:
        """Show the model in the browser, with its joints to move; loops stay closed. Needs viser: `pip install "catena[view]"`.

        The page is served on this machine alone, at a free `port` from the given one on, and opened unless `browser` is False. Scripts
        wait until Ctrl-C ends it, interactive sessions go on; `wait` says so, too.
        """
        from catena.view.viewer import view  # here, because the view is made of models and needs an optional package

        return view(self, q, port=port, browser=browser, wait=wait)

    def tree(self, weld: bool = True) -> Tree:
        """Return the tree of the model, in canonical frames, checked; built once until the model changes.

        Bodies on fixed joints are part of those that carry them; without `weld` they are bodies of their own.
        """
        if not self._frozen:
            return self.frozen().tree(weld)
        if weld and self._tree is None:
            self._tree = self._cache.get("tree", (), self._checked_tree)
        if weld and self._tree is not None:
            return self._tree
        return build(self, weld=False) if self._time is None else build(self, weld=False).at(self._time)

    def _checked_tree(self) -> Tree:
        tree = build(self)
        check_following(tree)
        check_determined(tree, np.random.default_rng(0), self._random_nearby)
        return tree if self._time is None else tree.at(self._time)


def _check_name(kind: str, name: str, there: Mapping[str, Mapping[str, Any]], each: str) -> None:
    """Refuse what is no name, and a name that is taken."""
    if not isinstance(name, str) or not name.strip():
        raise ModelError(f"{kind} name {name!r} is not a name; give a non-empty string")
    for known, taken in there.items():
        if name in taken:
            raise ModelError(f"{kind} '{name}': a {known} has this name already; give {each} its own name")


def _sealed(value: Any) -> Any:
    """Return a container of the same entries for a model that does not change; other values as they are."""
    if isinstance(value, Mapping):
        return MappingProxyType(dict(value))
    return list(value) if isinstance(value, list) else frozenset(value) if isinstance(value, set) else value


def _open(value: Any) -> Any:
    """Return what `_sealed` made a container of, or a copy of the container."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, list) else set(value) if isinstance(value, (set, frozenset)) else value


def _alike(a: Any, b: Any) -> bool:
    """Return whether two values are the same, or containers of the same ones in the same order."""
    if isinstance(a, Mapping):
        return list(a) == list(b) and all(map(_alike, a.values(), b.values()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_alike, a, b))
    return a is b or (isinstance(a, (str, int, float, set, frozenset)) and a == b)


def _broadcast(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two arrays with their leading axes broadcast."""
    try:
        batch = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    except ValueError:
        raise ModelError(f"the shapes {a.shape} and {b.shape} do not broadcast; give leading axes that are equal or 1") from None
    return np.broadcast_to(a, (*batch, a.shape[-1])), np.broadcast_to(b, (*batch, b.shape[-1]))
