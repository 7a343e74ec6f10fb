"""Examples of parallel robots: a platform, or a tip, that several legs with a motor each move together.

Sizes and masses are round numbers of typical machines, but for the five-bar robot, whose data are those of [SS01] §VI. Where nothing else
is said, the loops are closed at q = 0. None has friction or damping. `ACTUATED` names the coordinates that have motors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.examples.bars import bars, meet
from catena.facade import Model
from catena.model import Body, Cylindrical, Free, Joint, Pose, Prismatic, Revolute, Spherical, Universal, box, cylinder, rod

#: The coordinates that the motors of the parallel robots act on, by the name of the robot.
ACTUATED: dict[str, tuple[str, ...]] = {
    "five-bar-robot": ("leg1_proximal", "leg2_proximal"),
    "planar-3rrr": tuple(f"leg{i}_proximal" for i in (1, 2, 3)),
    "spherical-3rrr": tuple(f"leg{i}_proximal" for i in (1, 2, 3)),
    "delta": tuple(f"leg{i}_arm" for i in (1, 2, 3)),
    "delta-ruu": tuple(f"leg{i}_arm" for i in (1, 2, 3)),
    "stewart-ups": tuple(f"leg{i}_upper" for i in range(1, 7)),
    "stewart-ucu": tuple(f"leg{i}_upper.shift" for i in range(1, 7)),
}


def five_bar_robot() -> Model:
    """Return the five-bar planar manipulator of [SS01] §VI: two legs of two bars, which hold a tip between them.

    It stands upright; angles turn upwards, and all bars are level at q = 0, where the loop is open. The motors are at the feet, 1.2 m
    apart. 2 degrees of freedom; 3 of the 5 constraints are redundant, because the robot is planar.

    >>> m = examples.five_bar_robot()
    >>> q = m.assemble([0.5, 0.9, 0.5, 1.7], leg1_proximal=np.radians(30), leg2_proximal=np.radians(30))
    >>> q.round(3)  # the tip is above
    array([0.524, 0.181, 0.524, 1.642])
    """
    lengths, masses, feet = ((0.6, 1.1), (0.7, 0.8)), ((3.0, 1.6), (2.0, 1.1)), (0.0, 1.2)
    m = Model("five-bar-robot")
    for i in (0, 1):
        proximal, distal = (rod(length, mass=mass) for length, mass in zip(lengths[i], masses[i], strict=True))
        m.add(f"leg{i + 1}_proximal", proximal, Revolute("-y"), at=(feet[i], 0.0, 0.0))
        m.add(f"leg{i + 1}_distal", distal, Revolute("-y"), parent=f"leg{i + 1}_proximal", at=(lengths[i][0], 0.0, 0.0))
    m.close("tip", Revolute("-y"), "leg1_distal", "leg2_distal", at_a=(lengths[0][1], 0.0, 0.0), at_b=(lengths[1][1], 0.0, 0.0))
    return m


def planar_3rrr() -> Model:
    """Return a 3-RRR robot: a platform on a table, moved by three legs of two bars each.

    The hinges are upright; the motors are at the feet, on a circle of 0.35 m, and bars are 0.2 m long. 3 degrees of freedom; 6 of the 10
    constraints are redundant, because the robot is planar.

    >>> m = examples.planar_3rrr()
    >>> m.mobility().freedom, m.mobility().redundant
    (3, 6)
    """
    legs = []
    for foot, pin in zip(_circle(0.35, 90, 210, 330), _circle(0.10, 90, 210, 330), strict=True):
        elbow = np.append(meet(foot[:2], 0.20, pin[:2], 0.20), 0.0)
        links = bars(0.5, (0, 0, 0), elbow - foot), bars(0.4, (0, 0, 0), pin - elbow)
        legs.append(((foot, elbow, pin), ("z", "z", "z"), links))
    return _three_legs("planar-3rrr", legs, cylinder(0.01, 0.10, mass=0.8, com=-legs[0][0][2]))


def spherical_3rrr() -> Model:
    """Return a spherical 3-RRR robot: a camera that three legs turn about a point, as in the Agile Eye.

    All hinges point to the origin, which the camera turns about; those of a link are at right angles. At q = 0 every motor turns the camera
    about one axis. 3 degrees of freedom; 6 of the 10 constraints are redundant, because all motions are turns about one point.

    >>> m = examples.spherical_3rrr()
    >>> m.mobility().freedom, m.mobility().redundant
    (3, 6)
    """
    legs = []
    for motor, elbow, pin in np.eye(3)[[[0, 2, 1], [1, 0, 2], [2, 1, 0]]]:
        links = bars(0.25, 0.14 * motor, 0.14 * elbow), bars(0.15, 0.12 * elbow, 0.12 * pin)
        legs.append((np.zeros((3, 3)), (motor, elbow, pin), links))
    return _three_legs("spherical-3rrr", legs, box(0.06, 0.06, 0.08, mass=0.4, com=(0.0, 0.0, 0.02)))


def delta(rods: float = 0.12) -> Model:
    """Return a Delta robot: three arms above carry a platform by pairs of parallel rods, so that it moves without turning.

    Rods have a universal joint at the arm and a ball at the platform, so that they do not spin. Arms of 0.35 m are level at q = 0, and
    positive angles lower them; the six rods are 0.8 m long and weigh `rods` [kg] each, and the platform is free in the tree. 3 degrees of
    freedom, no redundant constraints.

    >>> m = examples.delta()
    >>> m.mobility().freedom, m.mobility().redundant
    (3, 0)
    """
    base, arm, length, radius, apart = 0.20, 0.35, 0.80, 0.05, 0.10
    across = base + arm - radius
    height = np.sqrt(length**2 - across**2)
    m = Model("delta")
    m.add("platform", cylinder(0.02, 0.06, mass=0.5), Free(), at=(0.0, 0.0, -height))
    for i, outward in enumerate(_circle(1.0, 0, 120, 240), start=1):
        along = np.cross([0.0, 0.0, 1.0], outward)
        reach = -across * outward - [0.0, 0.0, height]
        m.add(f"leg{i}_arm", bars(1.2, (0, 0, 0), arm * outward), Revolute(along), at=base * outward)
        for side, shift in (("left", 0.5 * apart * along), ("right", -0.5 * apart * along)):
            name = f"leg{i}_{side}"
            joint = Universal(along, np.cross(along, reach))
            m.add(name, bars(rods, (0, 0, 0), reach), joint, parent=f"leg{i}_arm", at=arm * outward + shift)
            m.close(f"{name}_ball", Spherical(), name, "platform", at_a=reach, at_b=radius * outward + shift)
    return m


def delta_ruu() -> Model:
    """Return a Delta robot with one rod to each arm, between universal joints (3-RUU).

    Sizes and masses are those of `delta`, a rod with the mass of two; the universal joints of a rod have parallel axes, so that the
    platform does not turn. The platform hangs on the first leg. 3 degrees of freedom, no redundant constraints.

    >>> m = examples.delta_ruu()
    >>> m.mobility().freedom, m.mobility().redundant
    (3, 0)
    """
    base, arm, length, radius = 0.20, 0.35, 0.80, 0.05
    across = base + arm - radius
    m = Model("delta-ruu")
    for i, outward in enumerate(_circle(1.0, 0, 120, 240), start=1):
        along = np.cross([0.0, 0.0, 1.0], outward)
        reach = -across * outward - [0.0, 0.0, np.sqrt(length**2 - across**2)]
        across_rod = np.cross(along, reach)
        m.add(f"leg{i}_arm", bars(1.2, (0, 0, 0), arm * outward), Revolute(along), at=base * outward)
        m.add(f"leg{i}_rod", bars(0.24, (0, 0, 0), reach), Universal(along, across_rod), parent=f"leg{i}_arm", at=arm * outward)
        if i == 1:
            platform = cylinder(0.02, 0.06, mass=0.5, com=-radius * outward)
            m.add("platform", platform, Universal(across_rod, along), parent="leg1_rod", at=reach)
        else:
            place = radius * (outward - [1.0, 0.0, 0.0])  # from the end of the first rod
            m.close(f"leg{i}_end", Universal(across_rod, along), f"leg{i}_rod", "platform", at_a=reach, at_b=place)
    return m


def stewart_ups() -> Model:
    """Return a Stewart-Gough platform: six legs that grow and shrink, on universal joints below and balls above (6-UPS).

    The platform is free in the tree, and stands 0.6 m above the feet at q = 0; `leg1_upper` and the others are the changes of length. 6
    degrees of freedom, no redundant constraints.

    >>> m = examples.stewart_ups()
    >>> m.mobility().freedom, m.mobility().redundant
    (6, 0)
    """
    return _stewart(Model("stewart-ups"), Prismatic("z"), Spherical())


def stewart_ucu() -> Model:
    """Return a Stewart-Gough platform whose legs turn in themselves, between universal joints at both ends (6-UCU).

    Sizes and masses are those of `stewart_ups`; `leg1_upper.shift` and the others are the changes of length. 6 degrees of freedom, no
    redundant constraints.

    >>> m = examples.stewart_ucu()
    >>> m.mobility().freedom, m.mobility().redundant
    (6, 0)
    """
    return _stewart(Model("stewart-ucu"), Cylindrical("z"), Universal("y", "x"))


def stewart_floating() -> Model:
    """Return a Stewart-Gough platform whose base floats freely, as on a spacecraft (6-UPS).

    Sizes and masses are those of `stewart_ups`; the base is a disk of 60 kg, and the platform is free on it in the tree. 12 degrees of
    freedom, no redundant constraints.

    >>> m = examples.stewart_floating()
    >>> m.mobility().freedom, m.mobility().redundant
    (12, 0)
    """
    m = Model("stewart-floating")
    m.add("base", cylinder(0.04, 0.55, mass=60.0), Free())
    return _stewart(m, Prismatic("z"), Spherical(), "base")


def _stewart(m: Model, along: Joint, above: Joint, base: str = "ground") -> Model:
    """Return a model with a platform on six legs, which stand on a body; joints are along each leg, where z is, and above, to close it."""
    height, half = 0.60, 0.35  # of the platform above the feet, and of each part of a leg
    feet = _circle(0.50, 12, 108, 132, 228, 252, 348)
    ends = _circle(0.30, 48, 72, 168, 192, 288, 312)
    m.add("platform", cylinder(0.03, 0.32, mass=20.0), Free(), parent=base, at=(0.0, 0.0, height))
    for i, (foot, end) in enumerate(zip(feet, ends, strict=True), start=1):
        reach = end + [0.0, 0.0, height] - foot
        length = float(np.linalg.norm(reach))
        z = reach / length
        x = np.cross([0.0, 0.0, 1.0], z)
        x = x / np.linalg.norm(x)
        axes = np.stack([x, np.cross(z, x), z], axis=1)
        lower, upper = f"leg{i}_lower", f"leg{i}_upper"
        place = Pose(foot, matrix=axes)
        m.add(lower, cylinder(half, 0.030, mass=3.0, com=(0.0, 0.0, 0.5 * half)), Universal("x", "y"), parent=base, at=place)
        m.add(upper, cylinder(half, 0.015, mass=1.5, com=(0.0, 0.0, length - 0.5 * half)), along, parent=lower)
        m.close(f"leg{i}_end", above, upper, "platform", at_a=(0.0, 0.0, length), at_b=Pose(end, matrix=axes))
    return m


def _three_legs(name: str, legs: Any, platform: Body) -> Model:
    """Return a robot of legs with three hinges, of each their places in the world where q = 0, their axes, and the two links between.

    The platform hangs on the first leg, and its frame is there; the others close loops to it.
    """
    m = Model(name)
    (_, _, first), *_ = legs[0]
    for i, ((foot, elbow, pin), axes, (proximal, distal)) in enumerate(legs, start=1):
        motor, middle, last = map(Revolute, axes)
        m.add(f"leg{i}_proximal", proximal, motor, at=foot)
        m.add(f"leg{i}_distal", distal, middle, parent=f"leg{i}_proximal", at=elbow - foot)
        if i == 1:
            m.add("platform", platform, last, parent="leg1_distal", at=pin - elbow)
        else:
            m.close(f"leg{i}_pin", last, f"leg{i}_distal", "platform", at_a=pin - elbow, at_b=pin - first)
    return m


def _circle(radius: float, *degrees: float) -> np.ndarray:
    """Return points on a circle about z, by their angles from x."""
    angles = np.radians(degrees)
    return radius * np.stack([np.cos(angles), np.sin(angles), np.zeros(len(angles))], axis=1)
