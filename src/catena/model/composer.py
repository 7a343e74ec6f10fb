"""The builder that puts models together and takes them apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from catena.errors import ModelError
from catena.model import composition, sections, values
from catena.model.builder import Builder
from catena.model.joints import Joint
from catena.model.mechanism import Mechanism
from catena.model.pose import Pose
from catena.model.similarity import Similarity, scaled


class Composer(Builder):
    """A builder whose mechanism can be attached to, cut, renamed and scaled."""

    def attach(
        self, other: Mechanism, to: str = "ground", at: Any = (0.0, 0.0, 0.0), prefix: str = "", joint: Joint | None = None,
        shared: str | Collection[str] = (),
    ) -> None:  # fmt: skip
        """Attach another model to a body of this one, or to the ground: its ground becomes the frame `at` of the body `to`.

        Bodies, joints, loops, couplings, springs, forces, actuators, parameters, keyframes and home come with it, as they are now; each
        name gets the `prefix`. With a `joint`, the other's ground is a body without mass, "base" after the prefix, that hangs by this
        joint. Parameters that are `shared` have no prefix: where this model has one of that name, the other follows it.

        Functions of forces go on taking the q and v of the model that they were made for; forces on bodies stay in the world's axes.
        Gravity and the speed of friction are those of this model.

        >>> gripper = ct.Model("gripper")
        >>> gripper.add("left", ct.box(0.02, 0.02, 0.1, mass=0.1, com=(0, 0, 0.05)), ct.Prismatic("y", limits=(0, 0.04)))
        >>> gripper.add("right", ct.box(0.02, 0.02, 0.1, mass=0.1, com=(0, 0, 0.05)), ct.Prismatic("-y", limits=(0, 0.04)))
        >>> gripper.couple("grip", {"left": 1.0, "right": -1.0})
        >>> arm = ct.Model("arm")
        >>> arm.add("upper", ct.rod(0.5, mass=2.0), ct.Revolute("y"))
        >>> arm.attach(gripper, to="upper", at=ct.Pose((0.5, 0, 0), rpy=(0, np.pi / 2, 0)), prefix="hand_")
        >>> arm.q_names, arm.couplings[0].coefficients
        (('upper', 'hand_left', 'hand_right'), (('hand_left', 1.0), ('hand_right', -1.0)))
        """
        if not isinstance(other, Mechanism):
            raise ModelError(f"attach: {other!r} is not a model; give a ct.Model, such as ct.load('gripper.urdf')")
        if not isinstance(prefix, str):
            raise ModelError(f"attach: prefix {prefix!r} is not text; give one such as 'left_'")
        if joint is not None and (not isinstance(joint, Joint) or type(joint) is Joint):
            raise ModelError(f"attach: {joint!r} is not a joint; give one such as ct.Revolute('z'), or leave it out")
        try:
            place = Pose.of(at)
        except ModelError as error:
            raise ModelError(f"attach: at: {error}") from None
        names = (shared,) if isinstance(shared, str) else tuple(shared)
        self._set(composition.attached(self.frozen(), other.frozen(), to, place, prefix, joint, names))

    def lock(self, positions: Mapping[str, Any] | None = None, /, **joints: Any) -> None:
        """Fix joints at positions, by the names of their bodies: a number, or one for each position of a joint that has several.

        The options of the joints go with them. In couplings and in functions of forces the locked coordinates are numbers; loops and
        couplings between bodies that no longer move must hold, and are left out. `notes` tells what was left out.

        >>> m = ct.Model("gears")
        >>> m.add("small", ct.cylinder(0.05, 0.1, mass=1.0), ct.Revolute("z"))
        >>> m.add("large", ct.cylinder(0.05, 0.2, mass=4.0), ct.Revolute("z"), at=(0.3, 0, 0))
        >>> m.add("hand", ct.rod(0.2, mass=0.1), ct.Revolute("y"), parent="large")
        >>> m.couple("mesh", {"small": 1.0, "large": 2.0})
        >>> m.lock(large=0.1)
        >>> m.q_names, m.couplings[0].coefficients, m.couplings[0].offset
        (('small', 'hand'), (('small', 1.0),), -0.2)
        """
        if positions is not None and not isinstance(positions, Mapping):
            raise ModelError(f"lock: {positions!r} is not a mapping; give positions by the names of bodies, such as {{'elbow': 0.5}}")
        given = {**(positions or {}), **joints}
        if given:
            self._set(sections.locked(self.frozen(), given))

    def remove(self, *bodies: str) -> None:
        """Remove bodies with everything that hangs on them, and what names these: loops, couplings, springs, forces, actuators.

        Functions of joint forces stay where the forces of what stays do not depend on coordinates that go. `notes` tells what went.

        >>> m = ct.Model("arm")
        >>> m.add("upper", ct.rod(0.5, mass=2.0), ct.Revolute("y"))
        >>> m.add("lower", ct.rod(0.5, mass=1.0), ct.Revolute("y"), parent="upper", at=(0.5, 0, 0))
        >>> m.add_spring("coil", "ground", "lower", stiffness=10.0)
        >>> m.remove("lower")
        >>> m.body_names, m.notes
        (('upper',), ("remove: spring 'coil' was left out",))
        """
        self._set(sections.removed(self.frozen(), bodies))

    def rename(self, old: str, new: str) -> None:
        """Give a body, or else a loop, coupling, spring, force, actuator or parameter, another name, wherever it is named.

        >>> m = ct.Model("arm")
        >>> m.add("link1", ct.rod(0.5, mass=2.0), ct.Revolute("y"))
        >>> m.add("link2", ct.rod(0.5, mass=1.0), ct.Revolute("y"), parent="link1", at=(0.5, 0, 0))
        >>> m.rename("link1", "upper")
        >>> m.q_names, m.links[1].parent
        (('upper', 'link2'), 'upper')
        """
        self._set(composition.renamed(self.frozen(), old, new))

    def scale(self, length: float, mass: float | None = None) -> None:
        """Make the model larger or smaller: lengths by a factor, masses by its cube, as of the same material, or by a factor `mass`.

        Gravity stays the same, so times go with the root of `length`. Everything is scaled so that the motion is alike: inertias,
        springs, dampers, friction, armature, efforts and velocities, motions of driven joints, and functions of forces, which go on
        taking times and coordinates of the first size. Own parameters stay, and what follows them is scaled. So is the speed of friction,
        but where it is that of angles and of displacements: then it stays, and friction is alike at higher speeds only.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y", stiffness=3.0))
        >>> m.scale(4.0)
        >>> m.links[0].body.mass, m.links[0].body.com, m.links[0].joint.stiffness
        (128.0, (2.0, 0.0, 0.0), (768.0,))
        """
        factor = values.number("scale: length", length, above=0.0)
        masses = factor**3 if mass is None else values.number("scale: mass", mass, above=0.0)
        self._set(scaled(self.frozen(), Similarity(factor, masses)))
