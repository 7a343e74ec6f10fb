"""Examples of wheel suspensions. Axes are x ahead, y left, z up; hard points are where q = 0, at which the loops are closed."""

from __future__ import annotations

import numpy as np

from catena.examples.bars import bars
from catena.facade import Model
from catena.model import Free, Revolute, Spherical, Universal, box, cylinder


def quarter_car() -> Model:
    """Return the front left suspension of a car, with five links, on a chassis that stands still.

    The suspension of [KY03] §3: a lower wishbone on a hinge, the knuckle with its wheel on a ball joint of the wishbone, two upper links
    and a tie rod on universal joints; balls at their outer ends close the loops to the knuckle. 10 coordinates, 9 constraints, 1 degree of
    freedom. A spring with a damper stands on the wishbone, on which the wheel hangs near q = 0.

    >>> m = examples.quarter_car()
    >>> found = m.mobility()
    >>> found.coordinates, found.constraints, found.redundant, found.freedom
    (10, 9, 0, 1)
    """
    front, rear, ball = np.array([0.16, 0.36, 0.225]), np.array([-0.16, 0.35, 0.215]), np.array([0.005, 0.70, 0.20])
    wheel, foot = np.array([0.0, 0.76, 0.30]), np.array([0.0, 0.58, 0.225])
    links = {
        "front link": (0.9, np.array([0.13, 0.42, 0.505]), np.array([0.02, 0.66, 0.52])),
        "rear link": (0.9, np.array([-0.15, 0.41, 0.490]), np.array([-0.05, 0.66, 0.515])),
        "tie rod": (0.7, np.array([-0.13, 0.37, 0.265]), np.array([-0.14, 0.69, 0.26])),
    }
    m = Model("quarter-car")
    m.add("wishbone", bars(4.0, (0, 0, 0), ball - rear, front - rear), Revolute(front - rear), at=rear)
    m.add("knuckle", cylinder(0.20, 0.30, mass=36.0, axis="y", com=wheel - ball), Spherical(), parent="wishbone", at=ball - rear)
    for name, (mass, inner, outer) in links.items():
        m.add(name, bars(mass, (0, 0, 0), outer - inner), Universal("x", "z"), at=inner)
        m.close(f"{name} ball", Spherical(), name, "knuckle", at_a=outer - inner, at_b=outer - ball)
    m.add_spring("strut", "ground", "wishbone", (0.0, 0.46, 0.60), foot - rear, stiffness=25e3, damping=1500.0, length=0.37)
    return m


def double_wishbone() -> Model:
    """Return a car that stands on its front wheels' suspension by double wishbones, and on springs behind.

    The chassis moves freely. On either side it carries a lower and an upper wishbone on hinges and a tie rod on a universal joint; the
    knuckle with its wheel is on the ball joint of the lower wishbone, and balls close its loops to the upper one and to the tie rod.
    Tyres are springs in all directions; two springs with dampers stand for the rear axle. 20 coordinates, 12 constraints, 8 degrees of
    freedom.

    >>> m = examples.double_wishbone()
    >>> found = m.mobility()
    >>> found.coordinates, found.constraints, found.redundant, found.freedom
    (20, 12, 0, 8)
    """
    m = Model("double-wishbone")
    m.add("chassis", box(3.6, 1.5, 0.8, mass=1000.0, com=(-1.2, 0.0, 0.55)), Free())
    for side, y in (("left", 1.0), ("right", -1.0)):
        mirror = np.array([1.0, y, 1.0])
        low = mirror * [[0.15, 0.35, 0.22], [-0.20, 0.35, 0.21], [0.0, 0.71, 0.19]]
        high = mirror * [[0.10, 0.45, 0.50], [-0.16, 0.45, 0.485], [-0.02, 0.66, 0.53]]
        inner, outer, behind = mirror * [[-0.14, 0.38, 0.25], [-0.15, 0.70, 0.24], [-2.6, 0.70, 0.35]]
        wheel, patch, top, foot = mirror * [[0.0, 0.76, 0.31], [0.0, 0.77, 0.0], [0.0, 0.48, 0.68], [0.0, 0.60, 0.21]]
        (_, lower_rear, lower_ball), (_, upper_rear, upper_ball) = low, high
        lower, upper, knuckle, rod = (f"{side} {part}" for part in ("lower wishbone", "upper wishbone", "knuckle", "tie rod"))
        for name, mass, (front, rear, ball) in ((lower, 4.0, low), (upper, 2.5, high)):
            m.add(name, bars(mass, (0, 0, 0), ball - rear, front - rear), Revolute(front - rear), parent="chassis", at=rear)
        tyred = cylinder(0.20, 0.31, mass=38.0, axis="y", com=wheel - lower_ball)
        m.add(knuckle, tyred, Spherical(), parent=lower, at=lower_ball - lower_rear)
        m.add(rod, bars(0.8, (0, 0, 0), outer - inner), Universal("x", "z"), parent="chassis", at=inner)
        m.close(f"{side} upper ball", Spherical(), upper, knuckle, at_a=upper_ball - upper_rear, at_b=upper_ball - lower_ball)
        m.close(f"{side} rod end", Spherical(), rod, knuckle, at_a=outer - inner, at_b=outer - lower_ball)
        m.add_spring(f"{side} strut", "chassis", lower, top, foot - lower_rear, stiffness=35e3, damping=2500.0, length=0.60)
        m.add_spring(f"{side} tyre", "ground", knuckle, patch + [0.0, 0.0, 0.0155], patch - lower_ball, stiffness=200e3)
        m.add_spring(f"{side} rear", "ground", "chassis", behind + [0.0, 0.0, 0.075], behind, stiffness=30e3, damping=2000.0)
    return m
