"""Examples of linkages: mechanisms with loops, of one degree of freedom each.

Where nothing else is said, the loops are closed at q = 0. None has friction or damping, so that energy is conserved.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.examples.bars import bars, meet
from catena.facade import Model
from catena.model import Body, Pose, Prismatic, Revolute, cylinder, rod


def slider_crank() -> Model:
    """Return a crank that drives a piston through a connecting rod.

    The crank, with its counterweight, turns about y and stands upright at q = 0; the piston slides along x. Throw 45 mm, rod 150 mm. 1
    degree of freedom; 3 of the 5 constraints are redundant, because the linkage is planar.

    >>> m = examples.slider_crank()
    >>> m.assemble(guess=[1.5, -1.3, 0.05], crank=np.pi / 2)[-1].round(4)  # from there to top dead centre
    np.float64(0.0519)
    """
    throw, length = 0.045, 0.150
    reach = np.sqrt(length**2 - throw**2)
    m = Model("slider-crank")
    m.add("crank", Body(3.0, com=(0.0, 0.0, -0.004), inertia=np.diag([0.0042, 0.0075, 0.0042])), Revolute("y"))
    m.add("rod", bars(0.6, (0, 0, 0), (reach, 0, -throw)), Revolute("y"), parent="crank", at=(0.0, 0.0, throw))
    m.add("piston", cylinder(0.06, 0.043, mass=0.45, axis="x", com=(0.01, 0.0, 0.0)), Prismatic("x"), at=(reach, 0.0, 0.0))
    m.close("pin", Revolute("y"), "rod", "piston", at_a=(reach, 0.0, -throw))
    return m


def four_bar() -> Model:
    """Return a crank and a rocker, joined by a coupler.

    Crank 0.3 m, coupler 1.0 m, rocker 0.6 m, 1.0 m between the hinges, which turn about y: the crank goes all the way round. At q = 0 the
    links are level and the loop is open; `m.assemble(crank=...)` closes it. 1 degree of freedom, 3 redundant constraints.

    >>> m = examples.four_bar()
    >>> m.mobility().freedom, m.mobility().independent
    (1, ('crank',))
    """
    m = Model("four-bar")
    m.add("crank", rod(0.3, mass=1.5), Revolute("y"))
    m.add("coupler", rod(1.0, mass=5.0), Revolute("y"), parent="crank", at=(0.3, 0.0, 0.0))
    m.add("rocker", rod(0.6, mass=3.0), Revolute("y"), at=(1.0, 0.0, 0.0))
    m.close("pin", Revolute("y"), "coupler", "rocker", at_a=(1.0, 0.0, 0.0), at_b=(0.6, 0.0, 0.0))
    return m


def watt() -> Model:
    """Return Watt's six-bar linkage: two four-bar linkages in a row.

    The rocker of the first is a triangle, which is the crank of the second. 1 degree of freedom, 6 redundant constraints.

    >>> m = examples.watt()
    >>> m.mobility().freedom, m.mobility().redundant
    (1, 6)
    """
    points = {
        "A": (0.0, 0.0), "B": (0.05, 0.15), "C": (0.55, 0.40), "D": (0.50, 0.0), "E": (0.80, 0.25), "F": (1.30, 0.45), "G": (1.20, 0.0),
    }  # fmt: skip
    bodies = {
        "crank": ("ground", "AB"),
        "coupler": ("crank", "BC"),
        "triangle": ("ground", "DCE"),
        "link": ("triangle", "EF"),
        "output": ("ground", "GF"),
    }
    return _planar("watt", 2.0, points, bodies, {"C": ("coupler", "triangle"), "F": ("link", "output")})


def stephenson() -> Model:
    """Return Stephenson's six-bar linkage: a four-bar linkage whose coupler moves a link on a rocker of its own.

    The coupler is a triangle. 1 degree of freedom, 6 redundant constraints.

    >>> m = examples.stephenson()
    >>> m.mobility().freedom, m.mobility().redundant
    (1, 6)
    """
    points = {
        "A": (0.0, 0.0), "B": (0.05, 0.15), "C": (0.55, 0.40), "D": (0.50, 0.0), "E": (0.30, 0.55), "F": (0.85, 0.60), "G": (0.95, 0.10),
    }  # fmt: skip
    bodies = {
        "crank": ("ground", "AB"),
        "coupler": ("crank", "BCE"),
        "rocker": ("ground", "DC"),
        "link": ("coupler", "EF"),
        "output": ("ground", "GF"),
    }
    return _planar("stephenson", 2.0, points, bodies, {"C": ("coupler", "rocker"), "F": ("link", "output")})


def peaucellier() -> Model:
    """Return the linkage of Peaucellier and Lipkin, which draws a straight line.

    The pen is where the two lower bars meet; it moves along x, exactly. The linkage hangs down at q = 0 and swings about there as a
    pendulum, as long as the crank stays within 82 degrees, where it is stretched. 1 degree of freedom, 9 redundant constraints.

    >>> m = examples.peaucellier()
    >>> bar, end = m.body_names.index("left lower"), [*m.loops[2].at_a.p, 1.0]
    >>> pen = [ct.poses(m)(m.assemble(crank=angle))[bar] @ end for angle in (-0.5, 0.2)]
    >>> [point[2].round(12) for point in pen]
    [np.float64(-0.525), np.float64(-0.525)]
    """
    long, short, reach = 0.5, 0.2, 0.4  # O to a side, side to crank and pen, O to the crank's end
    pen = (long**2 - short**2) / reach
    down = 0.5 * (reach + pen)
    aside = np.sqrt(long**2 - down**2)
    points = {"O": (0, 0), "P": (0, -0.5 * reach), "B": (0, -reach), "L": (-aside, -down), "R": (aside, -down), "D": (0, -pen)}
    bodies = {
        "crank": ("ground", "PB"),
        "left": ("ground", "OL"),
        "right": ("ground", "OR"),
        "left upper": ("left", "LB"),
        "right upper": ("right", "RB"),
        "left lower": ("left", "LD"),
        "right lower": ("right", "RD"),
    }
    pins = {"L-B": ("crank", "left upper"), "R-B": ("crank", "right upper"), "D": ("left lower", "right lower")}
    return _planar("peaucellier", 1.0, points, bodies, pins)


def jansen_leg() -> Model:
    """Return a leg of Theo Jansen's beach animals.

    It has the classical proportions, at 1 cm a unit. The crank turns about y at the origin and stands upright at q = 0; the foot is the
    last of the shin's three points, and stays on the ground for a third of a turn. 1 degree of freedom, 9 redundant constraints.

    >>> m = examples.jansen_leg()
    >>> m.mobility().freedom, m.mobility().redundant
    (1, 9)
    """
    a, b, c, d, e, f, g, h, i, j, k, low, crank = 38.0, 41.5, 39.3, 40.1, 55.8, 39.4, 36.7, 65.7, 49.0, 50.0, 61.9, 7.8, 15.0
    origin, hinge, end = np.zeros(2), np.array([-a, -low]), np.array([0.0, crank])
    top = meet(hinge, b, end, j)
    knee = meet(end, k, hinge, c)
    back = meet(hinge, d, top, e)
    heel = meet(knee, g, back, f)
    foot = meet(knee, i, heel, h)
    named = {"O": origin, "A": end, "B": hinge, "C": top, "D": back, "E": knee, "F": heel, "G": foot}
    points = {name: tuple(0.01 * point) for name, point in named.items()}
    bodies = {
        "crank": ("ground", "OA"),
        "upper rod": ("crank", "AC"),
        "thigh": ("ground", "BCD"),
        "lower rod": ("crank", "AE"),
        "lever": ("ground", "BE"),
        "strut": ("thigh", "DF"),
        "shin": ("lever", "EFG"),
    }
    pins = {"C": ("upper rod", "thigh"), "E": ("lower rod", "lever"), "F": ("strut", "shin")}
    return _planar("jansen-leg", 0.5, points, bodies, pins)


def bennett() -> Model:
    """Return Bennett's linkage: four hinges in space, which are neither parallel nor meet.

    Opposite links are equal, and lengths are as the sines of the twists: a / sin(alpha) = b / sin(beta). Counting constraints says -2
    degrees of freedom; it has 1, and 3 redundant constraints.

    >>> m = examples.bennett()
    >>> m.mobility().freedom, m.mobility().redundant
    (1, 3)
    """
    a, b = 0.25, 0.40
    alpha, beta = np.arcsin(2.0 * a), np.arcsin(2.0 * b)
    first = 0.5 * np.pi
    second = 2.0 * np.arctan(np.sin(0.5 * (alpha + beta)) / np.sin(0.5 * (beta - alpha)) / np.tan(0.5 * first))
    return _ring("bennett", (a, b, a, b), (alpha, beta, alpha, beta), (first, second, -first, -second))


def bricard() -> Model:
    """Return a threefold symmetric linkage of Bricard: six equal links, each with its hinges at right angles.

    Twists are +90 and -90 degrees in turn; the ring turns inside out, over and over. Counting constraints says 0 degrees of freedom; it has
    1, and 1 redundant constraint.

    >>> m = examples.bricard()
    >>> m.mobility().freedom, m.mobility().redundant
    (1, 1)
    """
    right = 0.5 * np.pi
    return _ring("bricard", (0.2,) * 6, (right, -right) * 3, (right, right) * 3)


def _planar(
    name: str, density: float, points: dict[str, Any], bodies: dict[str, tuple[str, str]], pins: dict[str, tuple[str, str]]
) -> Model:
    """Return a linkage in the plane of x and z, of bars of a density [kg/m], with hinges about y.

    `points` are given where q = 0. A body has a parent and the letters of its points, and hangs by the first. A pin closes a loop between
    two bodies; its last letter is its point.
    """
    at = {letter: np.array([x, 0.0, z], dtype=float) for letter, (x, z) in points.items()}
    origin = {"ground": np.zeros(3)}
    m = Model(name)
    for body, (parent, letters) in bodies.items():
        origin[body] = at[letters[0]]
        corners = [at[letter] - origin[body] for letter in letters]
        ends = [*corners[1:], corners[0]] if len(corners) > 2 else corners[1:]
        length = sum(float(np.linalg.norm(end - start)) for start, end in zip(corners, ends, strict=False))
        m.add(body, bars(density * length, *corners), Revolute("y"), parent=parent, at=origin[body] - origin[parent])
    for pin, (a, b) in pins.items():
        point = at[pin[-1]]
        m.close(pin, Revolute("y"), a, b, at_a=point - origin[a], at_b=point - origin[b])
    return m


def _ring(name: str, lengths: Any, twists: Any, angles: Any) -> Model:
    """Return a ring of links with lengths and twists between their hinges, the last the ground; q = 0 at the `angles` of the hinges."""
    steps = [Pose((length, 0.0, 0.0), rpy=(twist, 0.0, 0.0)) for length, twist in zip(lengths, twists, strict=True)]
    turns = [Pose(rpy=(0.0, 0.0, angle)) for angle in angles]
    m = Model(name)
    for k, length in enumerate(lengths[:-1]):
        body = cylinder(length, 0.01, mass=2.0 * length, axis="x", com=(0.5 * length, 0.0, 0.0))
        parent, at = (f"link{k}", steps[k - 1] @ turns[k]) if k else ("ground", turns[0])
        m.add(f"link{k + 1}", body, Revolute("z"), parent=parent, at=at)
    m.close("ring", Revolute("z"), f"link{len(lengths) - 1}", "ground", at_a=steps[-2], at_b=steps[-1].inverse())
    return m
