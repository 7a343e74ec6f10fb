"""Families of mechanisms with loops, for exploration: random ones, and special ones, whose symmetry, equal lengths, folds, masses, places
or sizes are what loop solvers trip over.

A family makes a mechanism from a random generator. `mechanism(name, seed)` is the one of a seed; variants of a family change masses, size
or place, and are named behind it: "cranks+light+far".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from tests import mechanisms

import catena as ct
from catena.examples import EXAMPLES
from catena.spatial import Rigid


class Sample(NamedTuple):
    """A mechanism, its size [m], and angles at which its joints are likely to be in a special position; none where there are no such."""

    model: ct.Model
    size: float
    angles: tuple[float, ...] = ()


#: Angles at which equal links fold, align or stand upright.
FOLDS = (0.0, np.pi, -np.pi, np.pi / 2, -np.pi / 2, np.pi / 3, -np.pi / 3, 2 * np.pi / 3, -2 * np.pi / 3)

Rng = np.random.Generator


class Plane:
    """A planar linkage that grows bar by bar: revolute joints about z, bars along x."""

    def __init__(self, name: str, rng: Rng) -> None:
        self.m, self.rng, self._loops = ct.Model(name, gravity=(0.6, -9.5, -1.1)), rng, 0

    def bar(self, name: str, length: float, parent: str = "ground", at: Any = (0.0, 0.0), joint: Any = None) -> str:
        """Hang a bar by a revolute joint, or another."""
        mass = float(self.rng.uniform(0.5, 2.0))
        self.m.add(name, ct.rod(max(length, 0.05), mass), joint or ct.Revolute("z"), parent=parent, at=(*at, 0.0))
        return name

    def pin(self, a: str, at_a: Any, b: str, at_b: Any, joint: Any = None) -> None:
        """Close a loop by a pin."""
        self._loops += 1
        self.m.close(f"pin{self._loops}", joint or ct.Revolute("z"), a, b, (*at_a, 0.0), (*at_b, 0.0))

    def dyad(self, name: str, a: str, at_a: Any, b: str, at_b: Any, lengths: tuple[float, float]) -> tuple[str, str]:
        """Two bars that lead from a point to another."""
        first = self.bar(f"{name}a", lengths[0], a, at_a)
        second = self.bar(f"{name}b", lengths[1], b, at_b)
        self.pin(first, (lengths[0], 0.0), second, (lengths[1], 0.0))
        return first, second

    def four_bar(self, ground: float, crank: float, coupler: float, rocker: float) -> None:
        """A four-bar on the ground."""
        self.bar("crank", crank)
        self.bar("coupler", coupler, "crank", (crank, 0.0))
        self.bar("rocker", rocker, at=(ground, 0.0))
        self.pin("coupler", (coupler, 0.0), "rocker", (rocker, 0.0))

    def sample(self, angles: tuple[float, ...] = FOLDS) -> Sample:
        return Sample(self.m, 1.0, angles)


# special: symmetric, equal, folded


def cranks(rng: Rng) -> Sample:
    """Two to six equal parallel cranks on one bar, in equal or random places; the bar may be as long as a crank."""
    plane, count = Plane("cranks", rng), int(rng.integers(2, 7))
    length = float(rng.choice([0.5, 1.0, rng.uniform(0.3, 1.2)]))
    places = np.arange(count) * 1.0 if rng.random() < 0.5 else np.concatenate([[0.0], np.sort(rng.uniform(0.2, 2.0, count - 1))])
    first = plane.bar("crank0", length)
    bar = plane.bar("bar", float(places[-1]), first, (length, 0.0))
    for i in range(1, count):
        crank = plane.bar(f"crank{i}", length, at=(float(places[i]), 0.0))
        plane.pin(bar, (float(places[i]), 0.0), crank, (length, 0.0))
    return plane.sample()


def polygon(rng: Rng) -> Sample:
    """A closed chain of four to seven equal bars; one of them is the ground, and a bar may be longer by the length of another."""
    plane, count = Plane("polygon", rng), int(rng.integers(4, 8))
    lengths = np.ones(count)
    if rng.random() < 0.3:
        lengths[rng.integers(count)] = 2.0
    parent, at, cut = "ground", (0.0, 0.0), int(rng.integers(1, count - 1))
    for i in range(cut):
        parent = plane.bar(f"bar{i}", lengths[i], parent, at)
        at = (lengths[i], 0.0)
    end, end_at = parent, at
    parent, at = "ground", (lengths[-1], 0.0)
    for i in range(count - 2, cut - 1, -1):
        parent = plane.bar(f"bar{i}", lengths[i], parent, at)
        at = (lengths[i], 0.0)
    plane.pin(end, end_at, parent, at)
    return plane.sample()


def kite(rng: Rng) -> Sample:
    """A four-bar whose lengths are equal in pairs: a kite or a parallelogram, which fold onto a line."""
    a, b = float(rng.uniform(0.5, 1.5)), float(rng.uniform(0.5, 1.5))
    ground, crank, coupler, rocker = [(a, a, b, b), (a, b, b, a), (a, b, a, b), (a, a, a, a)][rng.integers(4)]
    plane = Plane("kite", rng)
    plane.four_bar(ground, crank, coupler, rocker)
    return plane.sample()


def change_point(rng: Rng) -> Sample:
    """A four-bar that can lie flat: the longest and the shortest bar are as long as the two others."""
    short, a = float(rng.uniform(0.3, 0.6)), float(rng.uniform(0.7, 1.0))
    long = float(rng.uniform(1.05, 1.4))
    lengths = rng.permutation([short, a, long + a - short if rng.random() < 0.5 else long, long])
    lengths[int(np.argmax(lengths))] = np.sort(lengths)[1:3].sum() - lengths.min()
    ground, crank, coupler, rocker = (float(x) for x in lengths)
    plane = Plane("change point", rng)
    plane.four_bar(ground, crank, coupler, rocker)
    return plane.sample()


def scissors(rng: Rng) -> Sample:
    """One to three scissors on top of each other, on a slider."""
    plane, stages = Plane("scissors", rng), int(rng.integers(1, 4))
    half = 0.5
    left = plane.bar("left0", 2 * half)
    right = plane.bar("right0", 2 * half, left, (half, 0.0))  # its frame is at the middle pin
    plane.m.add("foot", ct.point_mass(1.0), ct.Prismatic("x"))
    plane.pin(right, (-half, 0.0), "foot", (0.0, 0.0))
    for i in range(1, stages):
        above_left = plane.bar(f"left{i}", 2 * half, right, (half, 0.0))
        above_right = plane.bar(f"right{i}", 2 * half, above_left, (half, 0.0))
        plane.pin(above_right, (-half, 0.0), left, (2 * half, 0.0))
        left, right = above_left, above_right
    return plane.sample()


def lattice(rng: Rng) -> Sample:
    """A ladder of equal squares of bars, with as many loops as squares."""
    plane, count = Plane("lattice", rng), int(rng.integers(1, 5))
    length = 1.0
    parents = ("ground", (0.0, 0.0)), ("ground", (length, 0.0))
    for i in range(count):
        (a, at_a), (b, at_b) = parents
        left, right = plane.bar(f"left{i}", length, a, at_a), plane.bar(f"right{i}", length, b, at_b)
        rung = plane.bar(f"rung{i}", length, left, (length, 0.0))
        plane.pin(rung, (length, 0.0), right, (length, 0.0))
        parents = (left, (length, 0.0)), (right, (length, 0.0))
    return plane.sample()


def slider(rng: Rng) -> Sample:
    """A slider-crank whose crank and rod are equally long, so that the piston can stand on the crank's axis; or one on two rods."""
    plane = Plane("slider-crank", rng)
    crank = plane.bar("crank", 0.5)
    plane.bar("rod", 0.5, crank, (0.5, 0.0))
    plane.m.add("piston", ct.point_mass(1.0), ct.Prismatic("x"))
    plane.pin("rod", (0.5, 0.0), "piston", (0.0, 0.0))
    if rng.random() < 0.5:
        plane.m.add("cross", ct.point_mass(1.0), ct.Prismatic("y"))
        plane.pin("rod", (-0.5, 0.0), "cross", (0.0, 0.0))
    return plane.sample()


def mirrored(rng: Rng) -> Sample:
    """A linkage of dyads and its mirror image, with lengths and places of a small set, and a bar or a gear between the two."""
    plane = Plane("mirrored", rng)
    lengths = (0.5, 1.0, 1.0, 1.0, 1.5)
    count = int(rng.integers(1, 3))
    reach, spread = float(rng.choice([0.5, 1.0])), [tuple(map(float, rng.choice(lengths, 2))) for _ in range(count)]
    ends = []
    for side in (-1.0, 1.0):
        name = "l" if side < 0 else "r"
        first = plane.bar(f"{name}0", 1.0, at=(side * reach, 0.0))
        tip, at = first, (1.0, 0.0)
        for i, pair in enumerate(spread):
            tip, _ = plane.dyad(f"{name}{i + 1}", tip, at, "ground", (side * (reach + 1.0 + i), 0.0), pair)
            at = (pair[0], 0.0)
        ends.append((tip, at))
    kind = rng.integers(3)
    if kind == 0:
        plane.m.couple("gear", {"l0": 1.0, "r0": 1.0})
    elif kind == 1:
        bar = plane.bar("bridge", 2 * reach, "l0", (1.0, 0.0))
        plane.pin(bar, (2 * reach, 0.0), "r0", (1.0, 0.0))
    return plane.sample()


def grid(rng: Rng) -> Sample:
    """A four-bar with further dyads on its bars, all lengths and places on a grid: many assembly modes, some folded."""
    plane = Plane("grid", rng)
    ground, crank, coupler, rocker = (float(x) for x in rng.choice([1.0, 1.0, 2.0, 0.5], 4))
    plane.four_bar(ground, crank, coupler, rocker)
    bodies = ["ground", "crank", "coupler", "rocker"]
    for i in range(int(rng.integers(0, 3))):
        a, b = rng.choice(len(bodies), 2, replace=False)
        at_a, at_b = ((float(x), float(y)) for x, y in rng.choice([0.0, 0.5, 1.0], (2, 2)))
        plane.dyad(f"dyad{i}", bodies[a], at_a, bodies[b], at_b, tuple(map(float, rng.choice([1.0, 1.0, 1.5, 0.5], 2))))
        bodies += [f"dyad{i}a", f"dyad{i}b"]
    return plane.sample()


def truss(rng: Rng) -> Sample:
    """A parallelogram or a square with diagonals: rigid, or movable though overconstrained, with a pendulum on it."""
    plane = Plane("truss", rng)
    plane.bar("left", 1.0)
    plane.bar("top", 1.0, "left", (1.0, 0.0))
    plane.bar("right", 1.0, at=(1.0, 0.0))
    plane.pin("top", (1.0, 0.0), "right", (1.0, 0.0))
    for i, kind in enumerate(rng.integers(3, size=rng.integers(1, 3))):
        if kind == 0:  # parallel to the ground, at half height
            plane.bar(f"middle{i}", 1.0, "left", (0.5, 0.0))
            plane.pin(f"middle{i}", (1.0, 0.0), "right", (0.5, 0.0))
        elif kind == 1:  # parallel to the sides
            plane.bar(f"middle{i}", 1.0, at=(0.5, 0.0))
            plane.pin(f"middle{i}", (1.0, 0.0), "top", (0.5, 0.0))
        else:
            plane.dyad(f"middle{i}", "left", (0.5, 0.0), "top", (0.5, 0.0), (0.5, 0.5))
    plane.bar("pendulum", 0.7, "top", (0.3, 0.0))
    return plane.sample()


def closed_ring(name: str, lengths: Any, twists: Any, rng: Rng) -> ct.Model:
    """A ring of revolute joints about z, with lengths along x and twists about it, as Denavit and Hartenberg have them; the last closes."""
    m, parent, at = ct.Model(name, gravity=(0.6, -1.1, -9.5)), "ground", ct.Pose()
    for i, (length, twist) in enumerate(zip(lengths, twists, strict=True)):
        ahead = ct.Pose((float(length), 0.0, 0.0), rpy=(float(twist), 0.0, 0.0))
        if i == len(lengths) - 1:  # the last bar is the ground
            m.close("loop", ct.Revolute("z"), parent, "ground", at_a=at, at_b=Rigid(ahead.R, ahead.p).inverse())
            break
        m.add(f"link{i}", mechanisms.body(rng, 0.2), ct.Revolute("z"), parent=parent, at=at)
        parent, at = f"link{i}", ahead
    return m


def spatial(rng: Rng) -> Sample:
    """A ring in space that moves though counting says it is rigid: Bennett, Bricard, Goldberg's spherical and equal ones, folded or not."""
    kind, right = int(rng.integers(5)), np.pi / 2
    if kind == 0:
        alpha, beta = rng.uniform(0.3, 1.2, 2)
        a = float(rng.uniform(0.4, 1.0))
        b = a * np.sin(beta) / np.sin(alpha)
        lengths, twists = (a, b, a, b), (alpha, beta, alpha, beta)
    elif kind == 1:
        lengths, twists = (1.0,) * 6, (right, -right) * 3  # threefold symmetric
    elif kind == 2:
        alpha = float(rng.uniform(0.4, 1.5))
        lengths, twists = (0.0,) * 4, (alpha,) * 4 if rng.random() < 0.5 else (alpha, 0.8 * alpha, alpha, 0.8 * alpha)
    elif kind == 3:
        a, b, c = (float(x) for x in rng.uniform(0.4, 1.0, 3))
        lengths, twists = (a, b, c, a, b, c), (right, right, right, -right, -right, -right)  # line-symmetric
    else:
        alpha = float(rng.uniform(0.4, 1.2))
        lengths, twists = (1.0,) * 4, (alpha, -alpha) * 2
    return Sample(closed_ring("ring", lengths, twists, rng), 1.0, FOLDS)


def sarrus(rng: Rng) -> Sample:
    """A plate on two or three hinged pairs of equal plates, which lift it straight."""
    m, legs = ct.Model("sarrus"), int(rng.integers(2, 4))
    turns = [2.0 * np.pi * i / 3.0 if legs == 3 else 0.5 * np.pi * i for i in range(legs)]
    for i, turn in enumerate(turns):
        at = ct.Pose((0.5 * np.cos(turn), 0.5 * np.sin(turn), 0.0), rpy=(0, 0, turn))
        m.add(f"lower{i}", ct.rod(1.0, mass=1.0), ct.Revolute("y"), at=at)
        m.add(f"upper{i}", ct.rod(1.0, mass=1.0), ct.Revolute("y"), parent=f"lower{i}", at=(1, 0, 0))
        if i == 0:
            m.add("plate", ct.box(0.5, 0.5, 0.1, mass=2.0), ct.Revolute("y"), parent="upper0", at=(1, 0, 0))
            continue
        first = ct.Pose((0.5 * np.cos(turns[0]), 0.5 * np.sin(turns[0]), 0.0), rpy=(0, 0, turns[0]))
        on_plate = Rigid(first.R, first.p).inverse() @ Rigid(at.R, at.p)
        m.close(f"hinge{i}", ct.Revolute("y"), f"upper{i}", "plate", at_a=(1, 0, 0), at_b=on_plate)
    return Sample(m, 1.0, FOLDS)


def geared(rng: Rng) -> Sample:
    """Bars that gears couple, in a loop or not: equal or opposite turns, redundant couplings, a rack."""
    plane = Plane("geared", rng)
    plane.bar("a", 1.0)
    plane.bar("b", 1.0, at=(1.0, 0.0))
    ratio = float(rng.choice([1.0, -1.0, 2.0]))
    plane.m.couple("ab", {"a": 1.0, "b": ratio})
    if rng.random() < 0.5:
        plane.dyad("d", "a", (1.0, 0.0), "b", (1.0, 0.0), (1.0, 1.0))
    if rng.random() < 0.5:
        plane.bar("c", 0.5, at=(2.0, 0.0))
        plane.m.couple("bc", {"b": 1.0, "c": 1.0})
        plane.m.couple("ac", {"a": 1.0, "c": -ratio})
    if rng.random() < 0.3:
        plane.m.add("rack", ct.point_mass(1.0), ct.Prismatic("x"))
        plane.m.couple("rack", {"a": 0.3, "rack": -1.0})
    return plane.sample()


def known(rng: Rng) -> Sample:
    """One of the built-in mechanisms with loops."""
    names = [name for name in EXAMPLES if name not in ("delta", "stewart-ucu") and EXAMPLES[name]().has_loops]
    m = EXAMPLES[names[rng.integers(len(names))]]()
    return Sample(m, 0.5)


# random


class Space:
    """A model that grows chain by chain of any joints; all loops are closed at q = 0, where `frames` has the bodies in the world."""

    def __init__(self, rng: Rng, options: bool) -> None:
        self.rng, self.options, self.m = rng, options, ct.Model("random", gravity=(0.6, -1.1, -9.5))
        self.frames: dict[str, Rigid] = {"ground": ct.Pose()}
        self.count = 0

    def joint(self, kinds: Any, options: bool) -> Any:
        kind = str(self.rng.choice(kinds))
        return mechanisms.JOINTS[kind](self.rng, **(mechanisms.options_of(kind, self.rng) if options else {}))

    def hang(self, by: Any, parent: str) -> str:
        at, name = mechanisms.place(self.rng), f"body{self.count}"
        self.count += 1
        self.m.add(name, mechanisms.body(self.rng), by, parent=parent, at=self.frames[parent].inverse() @ at)
        self.frames[name] = at
        return name

    def close(self, a: str, b: str, kinds: Any) -> None:
        at, name = mechanisms.place(self.rng), f"loop{len(self.m.loops)}"
        if self.rng.random() < 0.1:
            other = mechanisms.place(self.rng)
            length = float(np.linalg.norm(other.p - at.p))
            self.m.close(name, ct.Distance(length), a, b, self.frames[a].inverse() @ at, self.frames[b].inverse() @ other)
        else:
            self.m.close(name, self.joint(kinds, False), a, b, self.frames[a].inverse() @ at, self.frames[b].inverse() @ at)


_TREE = ("revolute",) * 4 + ("prismatic", "helical", "cylindrical", "universal", "planar", "spherical")
_CLOSING = ("revolute",) * 3 + ("prismatic", "helical", "cylindrical", "universal", "planar", "spherical", "spherical")


def anything(rng: Rng) -> Sample:
    """A random tree of two to nine bodies, on the ground or floating, closed by one to three joints of any kind, and couplings."""
    space = Space(rng, options=bool(rng.random() < 0.2))
    floating = rng.random() < 0.2
    names = [space.hang(ct.Free(), "ground")] if floating else ["ground"]
    for _ in range(int(rng.integers(3, 8))):
        parent = names[-1] if rng.random() < 0.7 else names[rng.integers(len(names))]
        names.append(space.hang(space.joint(_TREE, space.options), parent))
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        a, b = rng.choice(len(names), 2, replace=False)
        space.close(names[a], names[b], _CLOSING)
    plain = [name for name in space.m.q_names if "." not in name]
    if len(plain) > 2 and rng.random() < 0.2:
        a, b = (str(x) for x in rng.choice(plain, 2, replace=False))
        space.m.couple("gear", {a: 1.0, b: float(rng.uniform(-2, 2))})
    return Sample(space.m, 1.0)


def planar(rng: Rng) -> Sample:
    """A random planar linkage: a four-bar or five-bar, and dyads on it, one of them with a slider at times."""
    plane = Plane("planar", rng)
    points = [("ground", (0.0, 0.0)), ("ground", (1.0, 0.0))]
    crank = plane.bar("crank", float(rng.uniform(0.3, 0.8)))
    points.append((crank, (float(rng.uniform(0.3, 0.8)), float(rng.uniform(-0.2, 0.2)))))
    for i in range(int(rng.integers(1, 4))):
        a, b = rng.choice(len(points), 2, replace=False)
        (body_a, at_a), (body_b, at_b) = points[a], points[b]
        if body_a == body_b:
            continue
        lengths = float(rng.uniform(0.6, 1.3)), float(rng.uniform(0.6, 1.3))
        first, second = plane.dyad(f"dyad{i}", body_a, at_a, body_b, at_b, lengths)
        points += [(first, (lengths[0], float(rng.uniform(-0.3, 0.3)))), (second, (lengths[1], 0.0))]
    if not plane.m.has_loops:
        plane.dyad("dyad", crank, (0.5, 0.0), "ground", (1.0, 0.0), (1.0, 1.0))
    return plane.sample(())


def legs(rng: Rng) -> Sample:
    """A platform on two to four random legs."""
    space = Space(rng, options=False)
    kinds = [("universal", "prismatic", "spherical"), ("revolute", "revolute", "spherical"), ("revolute", "universal", "universal"),
             ("spherical", "prismatic", "universal"), ("revolute", "spherical", "spherical")]  # fmt: skip
    first, platform = kinds[rng.integers(len(kinds))], "ground"
    for kind in first:
        platform = space.hang(space.joint((kind,), False), platform)
    for _ in range(int(rng.integers(1, 3))):
        word, tip = kinds[rng.integers(len(kinds))], "ground"
        for kind in word[:-1]:
            tip = space.hang(space.joint((kind,), False), tip)
        space.close(tip, platform, (word[-1],))
    return Sample(space.m, 1.0)


RANDOM: dict[str, Callable[[Rng], Sample]] = {"anything": anything, "planar": planar, "legs": legs}

SPECIAL: dict[str, Callable[[Rng], Sample]] = {
    "cranks": cranks, "polygon": polygon, "kite": kite, "change point": change_point, "scissors": scissors, "lattice": lattice,
    "slider": slider, "mirrored": mirrored, "grid": grid, "truss": truss, "spatial": spatial, "sarrus": sarrus, "geared": geared,
    "known": known,
}  # fmt: skip

FAMILIES = RANDOM | SPECIAL


# variants: another mechanism of the same kinematics up to scale


def _rebuilt(
    sample: Sample, rng: Rng, *, scale: float = 1.0, base: Any = None, mass: Callable[[], float] | None = None, turned: bool = False
) -> Sample:
    """The mechanism with other lengths, on a mount, and with other masses."""
    old = sample.model
    m = ct.Model(old.name, gravity=old.gravity, friction_speed=old.friction_speed)
    if base is not None:
        m.add("mount", ct.Body(0.0), ct.Fixed(), at=base)
    floor = "ground" if base is None else "mount"
    for link in old.links:
        factor = 1.0 if mass is None else mass()
        body = link.body
        body = ct.Body(body.mass * factor, np.array(body.com) * scale, np.array(body.inertia) * factor * scale**2)
        m.add(link.name, body, _resized(link.joint, scale), parent=floor if link.parent == "ground" else link.parent,
              at=ct.Pose(link.at.p * scale, matrix=link.at.R))  # fmt: skip
    for loop in old.loops:
        joint = ct.Distance(loop.joint.length * scale) if isinstance(loop.joint, ct.Distance) else _resized(loop.joint, scale)
        ends = [floor if end == "ground" else end for end in (loop.a, loop.b)]
        m.close(loop.name, joint, *ends, *(ct.Pose(at.p * scale, matrix=at.R) for at in (loop.at_a, loop.at_b)))
    units = dict(zip(old.q_names, old.q_units, strict=True))
    for coupling in old.couplings:
        largest = max(unit == "m" for unit in (units[name] for name, _ in coupling.coefficients))
        m.couple(coupling.name, {name: c * (scale if largest and units[name] != "m" else 1.0) for name, c in coupling.coefficients})
    return Sample(m, sample.size * scale, sample.angles)


def _resized(joint: Any, scale: float) -> Any:
    return ct.Helical(joint.axis, joint.pitch * scale) if isinstance(joint, ct.Helical) else type(joint)(**_axes(joint))


def _axes(joint: Any) -> dict[str, Any]:
    return {name: getattr(joint, name) for name in ("axis", "axis1", "axis2") if hasattr(joint, name)}


def light(sample: Sample, rng: Rng) -> Sample:
    """Some of the bodies weigh a millionth."""
    return _rebuilt(sample, rng, mass=lambda: 1e-6 if rng.random() < 0.4 else 1.0)


def ratios(sample: Sample, rng: Rng) -> Sample:
    """Masses differ by up to a million."""
    return _rebuilt(sample, rng, mass=lambda: float(10.0 ** rng.uniform(-3.0, 3.0)))


def far(sample: Sample, rng: Rng) -> Sample:
    """It stands up to a thousand times its size away from the origin, and askew."""
    place = rng.normal(size=3) * sample.size * 10.0 ** rng.uniform(1.0, 3.0)
    return _rebuilt(sample, rng, base=ct.Pose(place, quat=rng.normal(size=4)))


def tiny(sample: Sample, rng: Rng) -> Sample:
    """It is a thousandth as large."""
    return _rebuilt(sample, rng, scale=1e-3)


def huge(sample: Sample, rng: Rng) -> Sample:
    """It is a thousand times as large."""
    return _rebuilt(sample, rng, scale=1e3)


VARIANTS: dict[str, Callable[[Sample, Rng], Sample]] = {"light": light, "ratios": ratios, "far": far, "tiny": tiny, "huge": huge}


def name_of(seed: int) -> str:
    """Return the name of the mechanism of a seed: three of five are of a special family, and one of three has variants."""
    rng = np.random.default_rng([seed, 1])
    families = list(SPECIAL if rng.random() < 0.6 else RANDOM)
    parts = [families[rng.integers(len(families))]]
    if rng.random() < 0.4:
        parts += [str(x) for x in rng.choice(list(VARIANTS), rng.choice([1, 1, 2]), replace=False)]
    return "+".join(parts)


def mechanism(name: str, seed: int) -> Sample:
    """Return the mechanism of a name and a seed."""
    family, *variants = name.split("+")
    rng = np.random.default_rng([seed, 2])
    sample = FAMILIES[family](rng)
    for variant in variants:
        sample = VARIANTS[variant](sample, rng)
    return sample


def is_special(name: str) -> bool:
    """Return whether a mechanism is not merely random."""
    return name not in RANDOM
