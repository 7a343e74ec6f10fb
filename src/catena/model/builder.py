"""The builder of mechanisms, body by body."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.errors import ArgumentError, ModelError
from catena.locks import lock
from catena.model import closures, parameters, values
from catena.model.actuators import actuator, check_coordinates
from catena.model.bodies import Body, Geometry
from catena.model.build_tree import placed_coupling
from catena.model.closures import Closure, Distance
from catena.model.contacts import Contact, carrying, check_exponent, check_shapes, dissipation_of
from catena.model.forces import Applied, Bushing, PointForce, Spring
from catena.model.frames import Frame
from catena.model.joints import Joint
from catena.model.mechanism import Mechanism
from catena.model.parts import Parts
from catena.model.placements import Followed
from catena.model.pose import Pose, following
from catena.model.spanning_tree import Connection, Link, Loose, check_not_welded, coordinate_names, take_names
from catena.model.user_functions import python
from catena.model.wording import short
from catena.scalars import expression
from catena.scalars.expression import Expression, expressed
from catena.spatial import Rigid

if TYPE_CHECKING:
    from typing_extensions import Self

_freezing = lock()

#: That of a model without gravity, whose stiffnesses of contact follow from a weight [m/s^2].
STANDARD_GRAVITY = 9.81


class Builder(Mechanism):
    """A mechanism that can still change: bodies, joints, loops and forces are added one by one; `frozen` returns it as it is now."""

    _frozen_type: type[Mechanism] = Mechanism

    def __init__(self, name: str = "model", gravity: Any = (0.0, 0.0, -9.81), friction_speed: Any = 0.01) -> None:
        checked = tuple(values.array("model gravity", gravity, (3,)).tolist())
        self._set(Parts(_text("model", name), checked, values.speeds("model friction_speed", friction_speed)))

    def _set(self, parts: Parts) -> None:
        super().__init__(parts)
        self._changed()
        links = [link for link in parts.added.values() if isinstance(link, Link)]
        self.__dict__.update(_coordinate_names=set().union(*map(coordinate_names, links)), _frozen=None)

    _coordinate_names: set[str]
    _frozen: Mechanism | None

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """Return a model of parts, which belong to it from here on."""
        model = object.__new__(cls)
        model._set(parts)
        return model

    def __reduce__(self) -> tuple:
        return type(self).of, (self.parts,)

    def __copy__(self) -> Self:
        return self.of(self.parts.opened())

    @property
    def name(self) -> str:
        """The name."""
        return super().name

    @name.setter
    def name(self, name: str) -> None:
        self.parts.name = _text("model", name)

    def frozen(self) -> Mechanism:
        """Return the mechanism as it is now; as long as nothing changes, it is the same object."""
        with _freezing:
            if self._frozen is None or not self.parts.same(self._frozen.parts):
                self._frozen = self._frozen_type(self.parts.sealed(), spanning=self.__dict__.get("spanning"))
            return self._frozen

    def _changed(self) -> None:
        """Forget the spanning tree and the coordinates of the bodies and joints that there were before a change."""
        for name in ("spanning", "coordinate_places"):
            self.__dict__.pop(name, None)

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

        `at` is a translation (x, y, z) or a `Pose`: the joint frame in the frame of the parent, a body or a frame on one. At the joint's
        neutral position it coincides with `at_body`, the joint frame in the body's own frame: its origin, if not given.

        Without a joint the body is loose, and has to be hung by `connect`.

        >>> m = ct.Model("double pendulum")
        >>> m.add("upper", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> m.add("lower", ct.rod(1.0, mass=2.0), ct.Revolute("y"), parent="upper", at=(1, 0, 0))
        >>> m.body_names
        ('upper', 'lower')
        """
        self._check_new(name, body, joint, parent)
        try:
            place, outer = Pose.of(at), self._taken(Pose.of(at_body))
            body, joint = self._taken(body), None if joint is None else self._taken(joint)
        except ModelError as error:
            raise ModelError(f"body '{name}': {error}") from None
        parent, place = self._on_body(f"body '{name}' names parent", parent, place)
        if joint is None:
            if parent != "ground" or not all(np.array_equal(pose.matrix(), np.eye(4)) for pose in (place, outer)):
                further = "" if np.array_equal(outer.matrix(), np.eye(4)) else f" and at_body {at_body!r}"
                raise ModelError(
                    f"body '{name}': parent '{parent}' and at {at!r}{further} are given, but no joint; "
                    "give one such as ct.Revolute('z') or ct.Fixed()"
                )
            added = Loose(name, body)
        else:
            added = Link(name, body, joint, parent, place, outer)
            take_names(added, self._coordinate_names)
        tied = self._tied(f"body '{name}'", name, body, joint, at=place, at_body=outer)
        self.parts.added[name] = added
        self.parts.ties.update(tied)
        self._changed()

    def _check_new(self, name: str, body: Body, joint: Joint | None, parent: str) -> None:
        """Refuse a body without a name of its own, with a joint that cannot hang it, or on a parent that is not known or loose."""
        _text("body", name)
        if name == "ground":
            raise ModelError("body 'ground': the ground is there already; give the body another name")
        self._check_place("body", name)
        if not isinstance(body, Body):
            raise ModelError(f"body '{name}': {body!r} is not a body; give ct.Body(mass, com, inertia) or a shape such as ct.rod")
        if isinstance(joint, Distance):
            raise ModelError(
                f"body '{name}': {joint!r} closes a loop and hangs no body; give the body another joint, such as ct.Free(), "
                f"and hold it by m.close(name, {joint!r}, '{parent}', '{name}')"
            )
        if joint is not None and (not isinstance(joint, Joint) or type(joint) is Joint):
            raise ModelError(f"body '{name}': {joint!r} is not a joint; give one such as ct.Revolute('z') or ct.Fixed()")
        parent, _ = self.carrier(parent, f"body '{name}' names parent")
        if joint is not None and isinstance(self.parts.added.get(parent), Loose):
            raise ModelError(
                f"body '{name}': its parent '{parent}' is loose, and may come to hang on '{name}'; give '{parent}' its joint, "
                f"or add '{name}' without one as well and say m.connect('{parent}', '{name}', joint)"
            )

    def add_frame(self, name: str, body: str, at: Any = (0.0, 0.0, 0.0)) -> None:
        """Add a frame: a named place on a body, or on the ground.

        `at` is a translation (x, y, z) or a `Pose`: the frame in the body's own, or in another frame. The name of a frame stands for that
        of a body wherever there is a point: in `ct.jacobian`, `ct.frame_velocity`, `ct.poses` and other kernels, in targets of
        `ct.inverse_kinematics`, for the ends of springs and loops, forces, wrenches, and as a parent. Bodies, joints, loops, springs and
        forces are placed where the frame is when they are added.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> m.add_frame("tip", "arm", at=(1, 0, 0))
        >>> ct.poses(m, of="tip")([np.pi / 2])[:3, 3].round(3) + 0.0
        array([ 0.,  0., -1.])
        """
        _text("frame", name)
        if name == "ground":
            raise ModelError("frame 'ground': the ground has this name; give the frame another")
        self._check_place("frame", name)
        try:
            place = Pose.of(at)
        except ModelError as error:
            raise ModelError(f"frame '{name}': {error}") from None
        body, place = self._on_body(f"frame '{name}' names body", body, place)
        tied = self._tied(f"frame '{name}'", name, at=place)
        self.parts.frames[name] = Frame(name, body, place)
        self.parts.ties.update(tied)
        self._changed()

    def _on_body(self, who: str, name: str, at: Pose) -> tuple[str, Pose]:
        """Return the body that a body or a frame stands for, and a pose in it that is given in the body or frame."""
        body, place = self.carrier(name, who)
        if name == body:
            return body, self._taken(at)
        found = Followed.given(place).then(Followed.given(at), f"{who} {name!r}, a frame")
        return body, self._taken(following(found.pose, found.formulas()))

    def _taken(self, part: Any) -> Any:
        """Return a part that a user gives, with the values that the parameters of this model have."""
        return parameters.at_values(part, self.parts.own)

    def _as_here(self) -> Any:
        """Return the context in which formulas, and functions of the user's, have the values that the parameters of this model have."""
        return expression.values(self.parts.own)

    def _point_on_body(self, what: str, name: str, point: Any) -> tuple[str, Any]:
        """Return the body that a body or a frame stands for, and a point in it that is given in the body or frame."""
        body, place = self.carrier(name, f"{what} names body")
        if name == body:
            return body, point
        given = np.array(point, dtype=object) if expressed(point) else values.array(f"{what}: point", point, (3,))
        return body, tuple((place @ Rigid(np.eye(3), given)).p)

    def connect(
        self, a: str, b: str, joint: Joint | Distance, at_a: Any = (0.0, 0.0, 0.0), at_b: Any = (0.0, 0.0, 0.0), name: str | None = None
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
        joint, (a, b), ends = self._ends(f"connection '{name}'", joint, a, b, at_a, at_b)
        tied = self._tied(f"connection '{name}'", name, joint, at_a=ends[0], at_b=ends[1])
        self.parts.connections[name] = Connection(name, joint, a, b, *ends)
        self.parts.ties.update(tied)
        self._changed()

    def close(self, name: str, joint: Joint | Distance, a: str, b: str, at_a: Any = (0.0, 0.0, 0.0), at_b: Any = (0.0, 0.0, 0.0)) -> None:
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
        joint, (a, b), ends = self._ends(f"loop '{name}'", joint, a, b, at_a, at_b)
        closures.check_closing(f"loop '{name}'", joint)
        closure = Closure(name, joint, a, b, *ends)
        check_not_welded(closure, self.parts.added)
        tied = self._tied(f"loop '{name}'", name, joint, at_a=ends[0], at_b=ends[1])
        self.parts.closures[name] = closure
        self.parts.ties.update(tied)
        self._changed()

    def _ends(self, what: str, joint: Any, a: str, b: str, at_a: Any, at_b: Any) -> tuple[Any, tuple[str, str], tuple[Pose, Pose]]:
        """Return a joint, two bodies and the joint frames on them, checked."""
        closures.check_joint(what, joint)
        for body in (a, b):
            self.carrier(body, f"{what} names body")
        on_a = self._on_body(f"{what} names body", a, closures.closing_pose(what, "at_a", at_a))
        on_b = self._on_body(f"{what} names body", b, closures.closing_pose(what, "at_b", at_b))
        if on_a[0] == on_b[0]:
            raise ModelError(f"{what}: both ends are on '{on_a[0]}', which cannot move against itself; give two bodies")
        return self._taken(joint), (on_a[0], on_b[0]), (on_a[1], on_b[1])

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
        with self._as_here():
            coupling = closures.coupling(name, coefficients, offset)
        placed_coupling(coupling, self)
        tied = parameters.tied(self, f"coupling '{name}'", {f"{name}.{key}": x for key, x in coupling.tied.items()})
        self.parts.couplings[name] = coupling  # the spanning tree stays the same
        self.parts.ties.update(tied)

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
        cubic: float = 0.0,
        slack: bool = False,
    ) -> None:
        """Add a spring between a point of body a and a point of body b, of which one may be the ground.

        The points are in the frames of the bodies [m]. The spring pulls them together with the force `stiffness * s + cubic * s**3 +
        damping * rate`, where s = distance - length is the stretch and the rate is that of the distance. With `length` 0 it is linear in
        the distance vector. Otherwise the line of force has no direction where the points meet; there the force of the spring is zero, and
        the distance d is computed as sqrt(d^2 + 1e-300), which no distance above 1e-140 m feels.

        One that may go `slack`, as a cable does, pulls where s is positive and is without force where it is not; what its damper adds or
        takes away is at most what the spring pulls.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> m.add_spring("coil", "ground", "arm", at_a=(0, 0, 1), at_b=(1, 0, 0), stiffness=50.0, damping=2.0, length=0.5)
        >>> m.springs[0].length
        0.5
        """
        self._check_load("spring", name)
        a, at_a = self._point_on_body(f"spring '{name}'", a, at_a)
        b, at_b = self._point_on_body(f"spring '{name}'", b, at_b)
        if a == b:
            raise ModelError(f"spring '{name}': both ends are on '{a}', which it cannot move; give two bodies")
        with self._as_here():
            spring = Spring(name, a, b, at_a, at_b, stiffness, damping, length, cubic, slack)
        tied = self._tied(f"spring '{name}'", name, spring)
        self.parts.springs[name] = spring
        self.parts.ties.update(tied)
        self._changed()

    def add_bushing(
        self,
        name: str,
        a: str,
        b: str,
        at_a: Any = (0.0, 0.0, 0.0),
        at_b: Any = (0.0, 0.0, 0.0),
        *,
        stiffness: Any = 0.0,
        damping: Any = 0.0,
        turning_stiffness: Any = 0.0,
        turning_damping: Any = 0.0,
    ) -> None:
        """Add a bushing between a frame of body a and a frame of body b, of which one may be the ground: springs and dampers in all axes.

        `at_a` and `at_b` are translations or Poses, at which the bushing is without force when they coincide. `stiffness` [N/m] and
        `damping` [N s/m] are along the axes of the frame on a, `turning_stiffness` [N m/rad] and `turning_damping` [N m s/rad] about them:
        one number, or three. About one axis it is a torsional spring: its moment is linear in the angle. At half a turn the moment changes
        its sign, for beyond it the way back is shorter the other way round; the `stiffness` of a joint counts whole turns.

        >>> m = ct.Model("engine")
        >>> m.add("block", ct.box(0.4, 0.6, 0.5, mass=120.0), ct.Free())
        >>> m.add_bushing("mount", "ground", "block", stiffness=(2e5, 2e5, 8e5), damping=800.0, turning_stiffness=500.0)
        >>> m.bushings[0].stiffness
        (200000.0, 200000.0, 800000.0)
        """
        self._check_load("bushing", name)
        who = f"bushing '{name}' names body"
        a, first = self._on_body(who, a, closures.closing_pose(f"bushing '{name}'", "at_a", at_a))
        b, second = self._on_body(who, b, closures.closing_pose(f"bushing '{name}'", "at_b", at_b))
        if a == b:
            raise ModelError(f"bushing '{name}': both ends are on '{a}', which it cannot move; give two bodies")
        ends = first, second
        with self._as_here():
            bushing = Bushing(name, a, b, *ends, stiffness, damping, turning_stiffness, turning_damping)
        tied = self._tied(f"bushing '{name}'", name, bushing, at_a=ends[0], at_b=ends[1])
        self.parts.bushings[name] = bushing
        self.parts.ties.update(tied)
        self._changed()

    def add_contact(
        self,
        name: str,
        body: str,
        shape: Geometry | Sequence[Geometry] | None = None,
        *,
        points: Any = (),
        against: str = "ground",
        against_shape: Geometry | Sequence[Geometry] | None = None,
        normal: Any = (0.0, 0.0, 1.0),
        height: float = 0.0,
        friction: float = 0.8,
        stiction: float = 0.0,
        restitution: float = 0.2,
        penetration: float = 1e-3,
        stiffness: float | None = None,
        dissipation: float | None = None,
        slip_speed: float = 1e-3,
        exponent: float = 1.0,
    ) -> None:
        """Add contact of a body with a plane of the ground, z = 0 if no other is given, or of spheres with those of another body.

        The body touches by its `shape`, one or several `ct.Geometry`: spheres, capsules, boxes, cylinders, ellipsoids and rods; by `points`
        of it [m], such as `ct.hull_points` finds of a mesh; or, where neither is given, by the shapes that it is shown with. The plane has
        a `normal` in the ground's axes, and a `height` along it [m]. `against` names another body; then both have spheres.

        `friction` is Coulomb's coefficient, smoothed over the `slip_speed` [m/s]: a body under a tangential force of half its limit creeps
        at 0.58 of it. Below about 100 slip speeds the coefficient is larger by `stiction`: a body at rest needs a larger force to begin to
        slide than to go on. `restitution` is the ratio of speeds after and before an impact at 1 m/s; it is larger for slower ones.
        `penetration` [m] is the depth under the weight of the whole model. In place of these two, the `stiffness` [N/m] of a point and
        `dissipation` [s/m] may be given: the normal force is `stiffness * d**exponent * (1 + dissipation * rate)`, with `exponent` 1, or
        1.5 as Hertz has it. Add the bodies first, whose weight is taken.

        >>> m = ct.Model("ball")
        >>> m.add("ball", ct.sphere(0.1, mass=1.0), ct.Free())
        >>> m.add_contact("floor", "ball", restitution=0.8)
        >>> ct.forward_dynamics(m)([0, 0, 0.099, 1, 0, 0, 0], np.zeros(6), np.zeros(6)).round(6) + 0.0  # at rest, 1 mm deep
        array([0., 0., 0., 0., 0., 0.])
        """
        self._check_load("contact", name)
        what = f"contact '{name}'"
        for end in (body, against):
            self.check_body(end, f"{what} names body")
        if body == against:
            raise ModelError(f"{what}: both sides are '{body}', which cannot touch itself; give two bodies, the ground last")
        if body == "ground":
            raise ModelError(f"{what}: the ground touches '{against}'; name the body first, and the ground in against=")
        between = against != "ground"
        exponent = check_exponent(what, exponent)
        points = values.floats(f"{what}: points", points, "give n x 3", ModelError)
        if points.size and (points.ndim > 2 or points.shape[-1:] != (3,)):
            raise ModelError(f"{what}: points have shape {points.shape}; give one point (x, y, z) or more, n x 3")
        points = points.reshape(-1, 3)
        if between and len(points):
            raise ModelError(f"{what}: points touch the ground only; give spheres on both bodies")
        shapes = self._touching(what, body, shape, between) if shape is not None or not len(points) else ()
        others = self._touching(what, against, against_shape, True) if between else ()
        if against_shape is not None and not between:
            raise ModelError(f"{what}: against_shape is that of another body, and none is named; give against=, or leave it out")
        k = stiffness
        if k is None:
            depth = values.number(f"{what}: penetration", penetration, above=0.0)
            k = self._weight(what) / (carrying(shapes, len(points)) * depth**exponent)
        with self._as_here():
            contact = Contact(
                name, body, against, shapes, points, others, k, dissipation_of(restitution) if dissipation is None else dissipation,
                friction, stiction, slip_speed, exponent, normal, height,
            )  # fmt: skip
        tied = self._tied(what, name, contact)
        self.parts.contacts[name] = contact
        self.parts.ties.update(tied)
        self._changed()

    def _weight(self, what: str) -> Any:
        """Return the weight of the model [N], or its formula where masses or gravity follow parameters."""
        ties = parameters.ties(self)
        mass = sum(ties.get(f"{link.name}.mass", np.array(link.body.mass))[()] for link in self.parts.added.values())
        if not sum(link.body.mass for link in self.parts.added.values()):
            raise ModelError(f"{what}: the model has no mass, so that no stiffness follows from the penetration; give stiffness=")
        if not any(self.gravity):
            return mass * STANDARD_GRAVITY
        return mass * np.sqrt(sum(x * x for x in ties.get("gravity", np.array(self.gravity, dtype=object))))

    def _touching(self, what: str, body: str, shape: Any, spheres_only: bool) -> tuple[Geometry, ...]:
        """Return the shapes by which a body touches: those that are given, or its own."""
        if shape is None:
            shapes: Sequence[Any] = self.parts.added[body].body.geometry
            if not shapes:
                raise ModelError(f"{what}: body '{body}' has no shape; give shape=, such as ct.Geometry('sphere', (0.1,)), or points=")
            shapes = [look.following(self.parts.ties, f"{body}.geometry.{i}") for i, look in enumerate(shapes)]
        else:
            shapes = tuple(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else (shape,)
        return tuple(map(self._taken, check_shapes(what, shapes, spheres_only)))

    def add_point_force(self, name: str, body: str, at: Any, function: Callable[..., Any], axes: str = "world") -> None:
        """Add a force on a point of a body, from a function of the time and of where the point is and how it moves.

        `function(t, position, velocity)` has the position [m] and the velocity [m/s] of the point in the world, and returns the force on it
        (3 entries [N]), or a moment and a force (6 entries [N m, N]). One that takes a fourth argument, `spin`, has the angular velocity
        of the body [rad/s] too. With `axes="body"` the velocity, the spin, the force and the moment are in the axes of the body.

        The function is traced and compiled like that of `add_force`.

        >>> m = ct.Model("glider")
        >>> m.add("wing", ct.box(0.2, 1.0, 0.01, mass=0.5), ct.Free())
        >>> m.add_point_force("drag", "wing", (0, 0, 0), lambda t, position, velocity: -0.3 * velocity)
        >>> def propeller(t, position, velocity, spin):
        ...     return np.array([-2e-7 * spin[0] * abs(spin[0]), 0, 0, 1e-5 * spin[0] * spin[0], 0, 0])
        >>> m.add_point_force("propeller", "wing", (0.1, 0, 0), propeller, axes="body")
        >>> [force.name for force in m.point_forces]
        ['drag', 'propeller']
        """
        self._check_load("force", name)
        body, at = self._point_on_body(f"force '{name}'", body, at)
        if body == "ground":
            raise ModelError(f"force '{name}' acts on the ground, which does not move; name another body")
        if axes not in ("world", "body"):
            raise ModelError(f"force '{name}': axes {axes!r} are unknown; give 'world' or 'body'")
        point, tied = self._point(f"force '{name}'", f"{name}.at", at)
        self._add_point_force(PointForce(name, function, body, point, axes), tied)

    def add_line_force(
        self, name: str, a: str, b: str, function: Callable[..., Any], at_a: Any = (0.0, 0.0, 0.0), at_b: Any = (0.0, 0.0, 0.0)
    ) -> None:
        """Add a force along the line between a point of body a and one of body b, from a function of the time, their distance and its rate.

        `function(t, length, rate)` returns the tension [N], which pulls the points together where it is positive: a cable, a tyre, a
        hydraulic cylinder. It is traced and compiled like that of `add_force`.

        >>> m = ct.Model("crane")
        >>> m.add("boom", ct.rod(2.0, mass=40.0), ct.Revolute("y"))
        >>> m.add_line_force("hoist", "ground", "boom", lambda t, length, rate: 2e4 * (length - 1.5) + 500.0 * rate, (0, 0, 2), (2, 0, 0))
        >>> m.point_forces[0].other
        'ground'
        """
        self._check_load("force", name)
        a, at_a = self._point_on_body(f"force '{name}'", a, at_a)
        b, at_b = self._point_on_body(f"force '{name}'", b, at_b)
        if a == b:
            raise ModelError(f"force '{name}': both ends are on '{a}', which it cannot move; give two bodies")
        ends = ((b, at_b), (a, at_a)) if a == "ground" else ((a, at_a), (b, at_b))
        (first, tied), (second, more) = (
            self._point(f"force '{name}'", f"{name}.{key}", end[1]) for key, end in zip(("at", "at_other"), ends, strict=True)
        )
        self._add_point_force(PointForce(name, function, ends[0][0], first, "world", ends[1][0], second), tied | more)

    def _point(self, what: str, path: str, at: Any) -> tuple[tuple[float, ...], dict[str, Any]]:
        """Return a point of a force, and the formula that it follows, by path."""
        tied = parameters.tied(self, what, {path: at} if expressed(at) else {})
        with self._as_here():
            return tuple(values.array(f"{what}: {path.rpartition('.')[2]}", values.plain(at), (3,)).tolist()), tied

    def _add_point_force(self, force: PointForce, tied: Mapping[str, Any]) -> None:
        if not callable(force.function):
            wanted = ", ".join(force.role.arguments)
            raise ModelError(f"force '{force.name}': {force.function!r} is not a function; give a function of ({wanted})")
        if isinstance(force.function, python):
            raise ModelError(f"force '{force.name}': the function is marked ct.python; give one that can be traced, or take m.add_force")
        with self._as_here():
            force.uses_time()  # traces the function
        self.parts.point_forces[force.name] = force
        self.parts.ties.update(tied)
        self._changed()

    def add_force(self, name: str, function: Callable[[Any, Any, Any], Any], body: str | None = None, point: Any = (0.0, 0.0, 0.0)) -> None:
        """Add a force from a function of time, position and velocity: ordinary NumPy code that is traced and compiled with the rest.

        `function(t, q, v)` returns joint forces, one for each entry of v, and acts in addition to tau. With a body it returns a force (3
        entries [N]), or a moment and a force (6 entries [N m, N]), in the world's axes, on a point of the body, in the body's frame [m].

        A function cannot be traced if it takes decisions on t, q or v with `if`, or uses `float()` or `math` on them: write
        `np.where(condition, a, b)` and NumPy's functions, or mark it with `ct.python`; the message has the line, and what to write
        there. What else it reads, such as a global variable, is read once, when a kernel is made; a function that computes something else
        when it is called again, with random numbers, a clock or a counter, is refused.

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
            body, point = self._point_on_body(f"force '{name}'", body, point)
            if body == "ground":
                raise ModelError(f"force '{name}' acts on the ground, which does not move; name another body")
        at, tied = self._point(f"force '{name}'", f"{name}.point", point)
        if body is None and any(at):
            raise ModelError(f"force '{name}': point {at} has no body, so these are joint forces; name the body, or leave the point out")
        force = Applied(name, function, body, at)
        with self._as_here():
            force.probe(self.neutral(), self.nv)
            if force.traced:
                force.uses_time(self.nq, self.nv)
        self.parts.forces[name] = force
        self.parts.ties.update(tied)
        self._changed()

    def add_actuator(
        self,
        name: str,
        of: str | Mapping[str, float],
        *,
        gear: float | None = None,
        gain: Any = None,
        bias: Any = None,
        kp: float | None = None,
        kv: float | None = None,
        control_limits: Any = None,
        force_limits: Any = None,
    ) -> None:
        """Add an actuator of a coordinate, or of several with their gears: it turns a control u into joint forces.

        Its length is the sum of gear times coordinate, and its force `gain * u + bias`, times the gear along each coordinate. `gain` and
        `bias` are numbers, or three: a constant, and by the length and its rate. Without them it is a motor, whose force is u. With `kp`
        it is a servo of position, `kp * (u - length) - kv * rate`; with `kv` alone one of velocity, `kv * (u - rate)`. Forces stay within
        `force_limits`, and with those of other actuators within the `effort` of the joint; controls count within `control_limits`.

        Actuators act where controls are given, `ct.stepper(m, step, controls=True)` and `ct.actuator_forces(m)`; other kernels take the
        joint forces tau.

        >>> m = ct.Model("arm")
        >>> m.add("upper", ct.rod(0.5, mass=2.0), ct.Revolute("y"))
        >>> m.add("lower", ct.rod(0.5, mass=1.0), ct.Revolute("y", effort=8.0), parent="upper", at=(0.5, 0, 0))
        >>> m.add_actuator("shoulder", "upper", kp=100.0, kv=10.0)
        >>> m.add_actuator("elbow", "lower", gear=50.0, control_limits=(-1, 1))
        >>> ct.actuator_forces(m)([0.2, 0.0], [0.0, 0.0], [0.5, 0.1])
        array([30.,  5.])
        """
        _check_name("actuator", name, {"actuator": self.parts.actuators}, "each actuator")
        made = actuator(name, of, gear, gain, bias, kp, kv, control_limits, force_limits)
        check_coordinates(made, self)
        self.parts.actuators[name] = made

    def parameter(self, name: str, value: Any) -> Any:
        """Add a parameter of one's own: a number, or an array of numbers, that other numbers and functions of the model follow.

        Use what is returned like a number: in shapes, placements and options of joints, in formulas of these, and in functions of forces,
        motions and controllers. `m.parameters` lists it by its name, and kernels take it with `parameters=`.

        >>> m = ct.Model("pendulum")
        >>> length = m.parameter("length", 0.5)
        >>> m.add("rod", ct.rod(length, mass=1.0), ct.Revolute("y"))
        >>> m.add("bob", ct.point_mass(2.0), ct.Fixed(), parent="rod", at=(length, 0, 0))
        >>> ct.mass_matrix(m, parameters="length")([0.0], length=[0.5, 1.0]).ravel()
        array([0.58333333, 2.33333333])
        """
        return parameters.new(self, name, value)

    def tie(self, path: str, value: Any) -> None:
        """Let a number of the model, by its path in `m.parameters`, follow parameters of one's own.

        >>> m = ct.Model("pendulum")
        >>> m.add("rod", ct.rod(0.5, mass=1.0), ct.Revolute("y"))
        >>> weight = m.parameter("weight", 2.0)
        >>> m.tie("rod.mass", 0.5 * weight)
        >>> m.with_values({"weight": 6.0}).links[0].body.mass
        3.0
        """
        known = {at: parameters.Parameter(at, np.array(x), unit) for at, x, unit in parameters.looks(self)} | self.parameters()
        try:
            parameters.check(self, (path,), "tie", known)
        except ArgumentError as error:
            raise ModelError(str(error)) from None
        form = "one number" if not known[path].shape else f"numbers of the shape {known[path].shape}"
        try:
            given = np.array(value, dtype=object)
        except ValueError:
            raise ModelError(f"tie: {path} is {form}, and {short(value)} is of none; give a formula for each number") from None
        if given.shape not in ((), known[path].shape):
            raise ModelError(f"tie: {path} is {form}, and the value has the shape {given.shape}; give a formula for each number")
        for entry in given.flat:
            if not isinstance(entry, (Expression, int, float, np.number)):
                raise ModelError(f"tie: {path} = {short(entry)} is neither a formula nor a number; give one")
        found = parameters.tied(self, "tie", {path: value})
        with self._as_here():
            now = np.broadcast_to(values.plain(value), known[path].shape)
        self._set(parameters.replaced(self.frozen(), {path: now}, known))
        self.parts.ties.update(found)

    def _tied(self, what: str, name: str, *parts: Any, **poses: Pose) -> dict[str, Any]:
        """Return the expressions that numbers of parts and poses follow, by path."""
        return parameters.tied(self, what, parameters.formulas(name, *parts, **poses))

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Return a model with other numbers, given by the paths of `m.parameters`; it can be changed further.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> m.with_values({"arm.mass": 3.0}).links[0].body.mass
        3.0
        """
        return self.of(parameters.replaced(self.frozen(), values))

    def _check_place(self, kind: str, name: str) -> None:
        _check_name(kind, name, {"body": self.parts.added, "frame": self.parts.frames}, "each body and frame")

    def _check_load(self, kind: str, name: str) -> None:
        there = {"spring": self.parts.springs, "bushing": self.parts.bushings, "contact": self.parts.contacts, "force": self.parts.forces}
        _check_name(kind, name, there, "each spring, bushing, contact and force")
        _check_name(kind, name, {"force": self.parts.point_forces}, "each spring, bushing, contact and force")

    def _check_loop(self, kind: str, name: str) -> None:
        there = {"loop": self.parts.closures, "coupling": self.parts.couplings, "connection": self.parts.connections}
        _check_name(kind, name, there, "each loop, coupling and connection")

    @property
    def home(self) -> np.ndarray | None:
        """The positions at which searches begin; None stands for the neutral ones.

        `assemble` begins there, and with it `mobility`, kernels and views. Set it where the search from the neutral positions does not
        close the loops, or closes them on the wrong branch. It is saved in TOML files, and read from the keyframe "home" of MJCF files, or
        the first.

        >>> m = ct.Model("four-bar")
        >>> m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y"))
        >>> m.add("coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
        >>> m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), at=(1, 0, 0))
        >>> m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1, 0, 0), at_b=(0.6, 0, 0))
        >>> m.home = m.assemble([1.0, 0.5, 2.0])
        >>> bool(np.allclose(m.assemble(), m.home))
        True
        """
        return super().home

    @home.setter
    def home(self, q: Any) -> None:
        self.parts.home = None if q is None else self.checked_position("home", q)

    def checked_position(self, what: str, q: Any) -> np.ndarray:
        """Return a position of the model, or say what is wrong with `what` it is."""
        position = values.array(f"model '{self.name}': {what}", q, (self.nq,))
        for link, at in self.quaternions():
            if not position[at].any():
                raise ModelError(f"model '{self.name}': {what} of body '{link.name}' is not a rotation; give a unit quaternion")
        return self.normalised(position)


def _text(kind: str, name: Any) -> str:
    """Return a name; refuse one that is not text, or is empty."""
    if not isinstance(name, str) or not name.strip():
        raise ModelError(f"{kind} name {name!r} is not a name; give a non-empty string")
    return name


def _check_name(kind: str, name: str, there: Mapping[str, Mapping[str, Any]], each: str) -> None:
    """Refuse a name that is not text, or that is taken."""
    _text(kind, name)
    for known, taken in there.items():
        if name in taken:
            article = "an" if known[0] in "aeiou" else "a"
            raise ModelError(f"{kind} '{name}': {article} {known} has this name already; give {each} its own name")
