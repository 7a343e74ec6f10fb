"""Examples of walking robots whose motors act through rods. Axes are x ahead, y left, z up; the loops are closed at q = 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.examples.bars import bars
from catena.facade import Model
from catena.model import Body, Free, Revolute, Spherical, Universal, box, cylinder


def biped() -> Model:
    """Return a robot on two legs that floats freely, with its motors high up and light rods down to its knees and feet.

    Each leg has hinges for yaw, roll and pitch at the hip, a knee, and a universal joint at the ankle. Motors turn cranks on the legs: one
    pitches the thigh through a rod; one bends the knee through Watt's six-bar linkage, by two rods with a lever between them; two move the
    foot through a rod each. Rods of 50 g, beside a thigh of 5 kg, are on universal joints and end in balls. 48 coordinates, 30 constraints,
    18 degrees of freedom.

    >>> found = examples.biped().mobility()
    >>> found.coordinates, found.constraints, found.redundant, found.freedom
    (48, 30, 0, 18)
    """
    m = Model("biped")
    m.add("pelvis", box(0.18, 0.26, 0.20, mass=15.0, com=(0.0, 0.0, 0.14)), Free())
    for side, y in (("left", 1.0), ("right", -1.0)):
        _leg(m, side, y)
    return m


def _leg(m: Model, side: str, y: float) -> None:
    """Add a leg on the side of y to the pelvis."""
    out = np.array([0.0, y, 0.0])
    hip, knee, ankle = 0.12 * out, 0.12 * out + [0.15, 0.0, -0.39], 0.12 * out + [0.0, 0.0, -0.78]
    at = {"pelvis": np.zeros(3)}  # where bodies are at q = 0

    def add(name: str, body: Body, joint: Any, parent: str, place: np.ndarray) -> None:
        at[name] = place
        m.add(named(name), body, joint, parent=named(parent), at=place - at[parent])

    def named(name: str) -> str:
        return name if name == "pelvis" else f"{side} {name}"

    def crank(name: str, parent: str, pivot: np.ndarray, end: np.ndarray) -> None:
        add(name, bars(0.3, (0, 0, 0), end - pivot), Revolute("y"), parent, pivot)

    def rod(name: str, a: str, b: str, start: np.ndarray, end: np.ndarray) -> None:
        add(name, bars(0.05, (0, 0, 0), end - start), Universal("y", np.cross([0.0, 1.0, 0.0], end - start)), a, start)
        m.close(f"{named(name)} ball", Spherical(), named(name), named(b), at_a=end - start, at_b=end - at[b])

    def on(start: np.ndarray, end: np.ndarray, along: float, behind: float, aside: float) -> np.ndarray:
        """Return a point beside the way from start to end, so far along it [m], behind it and outwards."""
        way = (end - start) / np.linalg.norm(end - start)
        return start + along * way + behind * np.cross(way, [0.0, 1.0, 0.0]) + aside * out

    add("hip yaw", cylinder(0.08, 0.05, mass=1.5, com=(0.0, 0.0, 0.07)), Revolute("z"), "pelvis", hip)
    add("hip roll", cylinder(0.10, 0.05, mass=1.5, axis="x"), Revolute("x"), "hip yaw", hip)
    add("thigh", _limb(5.0, 0.055, knee - hip), Revolute("y"), "hip roll", hip)
    add("shin", _limb(2.5, 0.035, ankle - knee), Revolute("y"), "thigh", knee)
    add("foot", box(0.22, 0.09, 0.03, mass=1.0, com=(0.03, 0.0, -0.05)), Universal("y", "x"), "shin", ankle)

    # the hip's pitch: a crank above it, on the roll link
    above = hip + 0.07 * out + [-0.02, 0.0, 0.13]
    crank("hip crank", "hip roll", above, above + [-0.05, 0.0, 0.01])
    rod("hip rod", "hip crank", "thigh", above + [-0.05, 0.0, 0.01], on(hip, knee, 0.03, 0.06, 0.07))

    # the knee: from a crank on the thigh to a lever halfway down, and from there to the shin
    pivot, lever = on(hip, knee, 0.06, 0.0, -0.06), on(hip, knee, 0.22, 0.01, -0.06)
    upper, lower = on(hip, knee, 0.21, 0.075, -0.06), on(hip, knee, 0.235, 0.065, -0.06)
    crank("knee crank", "thigh", pivot, on(hip, knee, 0.05, 0.06, -0.06))
    add("knee lever", bars(0.15, (0, 0, 0), upper - lever, lower - lever), Revolute("y"), "thigh", lever)
    rod("upper knee rod", "knee crank", "knee lever", on(hip, knee, 0.05, 0.06, -0.06), upper)
    rod("lower knee rod", "knee lever", "shin", lower, on(knee, ankle, 0.02, 0.06, -0.06))

    # the ankle: cranks on both sides of the shin, one above the other
    for name, aside, along in (("outer", 0.05, 0.16), ("inner", -0.05, 0.08)):
        start = on(knee, ankle, along, 0.05, aside)
        crank(f"{name} ankle crank", "shin", on(knee, ankle, along + 0.01, 0.0, aside), start)
        rod(f"{name} ankle rod", f"{name} ankle crank", "foot", start, ankle + aside * out + [-0.06, 0.0, 0.0])


def _limb(mass: float, radius: float, reach: np.ndarray) -> Body:
    """Return a solid cylinder from the origin to a point."""
    return cylinder(float(np.linalg.norm(reach)), radius, mass=mass, axis=reach, com=0.5 * reach)
