"""Random mechanisms and states for the tests, with meaningful knobs, and Hypothesis strategies on top of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import catena as ct
from catena.examples import EXAMPLES
from catena.formulations import METHODS
from catena.model import Joint

settings.register_profile(
    "catena", max_examples=30, deadline=None, derandomize=True, print_blob=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("catena")


def unit(rng: np.random.Generator) -> np.ndarray:
    """Return a direction, uniform on the sphere."""
    vector = rng.normal(size=3)
    return vector / np.linalg.norm(vector)


def cam(q: Any) -> Any:
    """A follower that slides along a curve and turns with it: a Custom joint of one coordinate."""
    c, s, o = np.cos(0.5 * q[0]), np.sin(0.5 * q[0]), 0.0
    return np.array([[c, -s, o], [s, c, o], [o, o, 1.0]]), np.array([q[0], 0.1 * np.sin(2.0 * q[0]), 0.05 * q[0] ** 2])


def helicoid(q: Any) -> Any:
    """A screw of 0.2 m/rad about x, as a 4 x 4 matrix."""
    c, s, o = np.cos(q[0]), np.sin(q[0]), 0.0
    return np.array([[1.0, o, o, 0.2 * q[0]], [o, c, -s, o], [o, s, c, o], [o, o, o, 1.0]])


def rolling_plate(q: Any) -> Any:
    """A plate that turns about z, then tilts about x while its origin moves on a saddle: a Custom joint of two coordinates."""
    (c1, c2), (s1, s2) = (np.cos(q[0]), np.cos(q[1])), (np.sin(q[0]), np.sin(q[1]))
    turn = np.array([[c1, -s1, 0.0], [s1, c1, 0.0], [0.0, 0.0, 1.0]])
    tilt = np.array([[1.0, 0.0, 0.0], [0.0, c2, -s2], [0.0, s2, c2]])
    return turn @ tilt, np.array([0.3 * s1, 0.2 * q[1], 0.1 * q[0] * q[1]])


#: A joint of every kind, with random axes; the keywords are the options that all joints take.
JOINTS: dict[str, Callable[..., Joint]] = {
    "revolute": lambda rng, **options: ct.Revolute(unit(rng), **options),
    "prismatic": lambda rng, **options: ct.Prismatic(unit(rng), **options),
    "helical": lambda rng, **options: ct.Helical(unit(rng), pitch=rng.uniform(-0.5, 0.5), **options),
    "cylindrical": lambda rng, **options: ct.Cylindrical(unit(rng), **options),
    "universal": lambda rng, **options: ct.Universal(*_skew_axes(rng), **options),
    "planar": lambda rng, **options: ct.Planar(unit(rng), **options),
    "spherical": lambda rng, **options: ct.Spherical(**options),
    "free": lambda rng, **options: ct.Free(**options),
    "cam": lambda rng, **options: ct.Custom(cam, 1, **options),
    "helicoid": lambda rng, **options: ct.Custom(helicoid, 1, **options),
    "plate": lambda rng, **options: ct.Custom(rolling_plate, ("turn", "tilt"), **options),
}  # fmt: skip

SIMPLE = ("revolute", "prismatic", "helical")

#: The examples, each made once: their mobility, plans and kernels are shared by the tests of a process. Nobody may change them.
SHARED: dict[str, Callable[[], ct.Model]] = {name: cache(make) for name, make in EXAMPLES.items()}


def _skew_axes(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return two axes between 30 and 150 degrees apart."""
    while True:
        first, second = unit(rng), unit(rng)
        if np.linalg.norm(np.cross(first, second)) > 0.5:
            return first, second


def options_of(kind: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return random damping, stiffness, rest position, friction and armature for a kind of joint."""
    plain = JOINTS[kind](np.random.default_rng(0))
    stiffness: Any = rng.uniform(0.0, 5.0, plain.nv)
    if kind in ("spherical", "free"):
        stiffness = np.repeat(rng.uniform(0.0, 5.0, plain.nv // 3), 3)
    rest = plain.random(rng)
    return {
        "damping": rng.uniform(0.0, 2.0, plain.nv), "stiffness": stiffness, "rest": rest if plain.nq > 1 else rest[0],
        "friction": rng.uniform(0.0, 1.0, plain.nv), "armature": rng.uniform(0.0, 0.3, plain.nv),
    }  # fmt: skip


def body(rng: np.random.Generator, size: float = 0.3) -> ct.Body:
    """Return a body of a few kilograms with a full inertia, that of a cloud of points of the given size [m]."""
    masses = rng.uniform(0.2, 1.0, 6)
    points = rng.uniform(-size, size, (6, 3)) + rng.uniform(-size, size, 3)
    com = masses @ points / masses.sum()
    about = points - com
    inertia = sum(m * ((p @ p) * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, about, strict=True))
    return ct.Body(masses.sum(), com, inertia)


def place(rng: np.random.Generator, geometry: str = "general") -> ct.Pose:
    """Return where a joint sits: anywhere, at right angles along one axis, or right at its parent's origin."""
    if geometry == "general":
        return ct.Pose(rng.uniform(-0.6, 0.6, 3), quat=rng.normal(size=4))
    if geometry == "aligned":
        offset = np.zeros(3)
        offset[rng.integers(3)] = rng.choice([-0.5, 0.0, 0.5])
        return ct.Pose(offset, rpy=rng.integers(-1, 3, 3) * np.pi / 2)
    return ct.Pose()


def tree(
    seed: int | np.random.Generator,
    bodies: int = 5,
    kinds: Sequence[str] = tuple(JOINTS),
    *,
    branching: float = 0.4,
    geometry: str = "general",
    fixed: float = 0.2,
    options: bool = False,
    floating: bool = False,
    in_turn: bool = False,
    gravity: Any = (0.6, -1.1, -9.5),
) -> ct.Model:
    """Return a random tree.

    `bodies` counts the moving ones; a body hangs on a random earlier one (or the ground) with probability `branching`, else on the last.
    `fixed` is the probability that a welded body comes in between; the ground carries one too. `options` adds damping, stiffness,
    friction and armature to the joints. `floating` hangs all on one free body instead of the ground. `in_turn` takes the kinds of joints
    one after the other instead of at random.
    """
    rng = np.random.default_rng(seed)
    m = ct.Model("tree", gravity=gravity)
    names = ["ground"]
    if floating:
        m.add("base", body(rng), ct.Free())
        names = ["base"]
    for i in range(bodies):
        parent = names[rng.integers(len(names))] if rng.random() < branching else names[-1]
        if rng.random() < fixed:
            m.add(f"weld{i}", body(rng), ct.Fixed(), parent=parent, at=place(rng))
            parent = f"weld{i}"
            names.append(parent)
        kind = kinds[i % len(kinds) if in_turn else rng.integers(len(kinds))]
        joint = JOINTS[kind](rng, **(options_of(kind, rng) if options else {}))
        m.add(f"body{i}", body(rng), joint, parent=parent, at=place(rng, geometry))
        names.append(f"body{i}")
    return m


def chain(seed: int, bodies: int, kinds: Sequence[str] = ("revolute",), **knobs: Any) -> ct.Model:
    """Return a random chain: a tree without branches or welds."""
    return tree(seed, bodies, kinds, **{"branching": 0.0, "fixed": 0.0, **knobs})


def denavit_hartenberg(bodies: int, seed: int = 0) -> ct.Model:
    """Return a chain of revolute joints about z, each placed by a general screw about x on the last, with full inertias."""
    rng = np.random.default_rng(seed)
    m = ct.Model(f"chain of {bodies}")
    parent = "ground"
    for k in range(bodies):
        turn, shift, length = rng.uniform(0.3, 1.2), rng.uniform(0.1, 0.5), rng.uniform(0.1, 0.5)
        at = ct.Pose((length, -shift * np.sin(turn), shift * np.cos(turn)), rpy=(turn, 0.0, 0.0))
        m.add(f"link{k}", body(rng), ct.Revolute("z"), parent=parent, at=at)
        parent = f"link{k}"
    return m


def state(m: ct.Model, seed: int | np.random.Generator = 0, batch: tuple[int, ...] = ()) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random q, v and a vector that may stand for tau or vdot."""
    rng = np.random.default_rng(seed)
    q = np.array([m.random(rng) for _ in range(int(np.prod(batch)))]).reshape(*batch, m.nq)
    return q, rng.normal(size=(*batch, m.nv)), rng.normal(size=(*batch, m.nv))


seeds = st.integers(0, 2**32 - 1)


@st.composite
def trees(draw: st.DrawFn, most: int = 8, kinds: Sequence[str] = tuple(JOINTS), options: bool | None = None, **knobs: Any) -> ct.Model:
    """A strategy of random trees: size, joints, branching, geometry and options are drawn, the numbers come from a drawn seed."""
    chosen = draw(st.lists(st.sampled_from(list(kinds)), min_size=1, max_size=4, unique=True))
    drawn = {
        "branching": draw(st.sampled_from([0.0, 0.3, 1.0])),
        "geometry": draw(st.sampled_from(["general", "general", "aligned", "origin"])),
        "fixed": draw(st.sampled_from([0.0, 0.3])),
        "options": draw(st.booleans()) if options is None else options,
    }
    return tree(draw(seeds), draw(st.integers(1, most)), chosen, **{**drawn, **knobs})


@st.composite
def moving_trees(draw: st.DrawFn, most: int = 8, **knobs: Any) -> tuple[ct.Model, np.ndarray, np.ndarray, np.ndarray]:
    """A strategy of trees with a state: model, q, v, and a vector that may stand for tau or vdot."""
    m = draw(trees(most, **knobs))
    return (m, *state(m, draw(seeds)))


def closing_methods(m: ct.Model) -> list[str]:
    """Return the methods that close the loops of a model."""
    return [name for name, method in METHODS.items() if method.closes and not method.why_unsuitable(m.tree())]


def double_rocker() -> ct.Model:
    """A planar four-bar whose crank comes to a dead centre, where its rate does not tell the others."""
    m = ct.Model("double rocker", gravity=(0, -9.81, 0))
    m.add("crank", ct.rod(0.8, mass=1.6), ct.Revolute("z"))
    m.add("coupler", ct.rod(0.3, mass=0.6), ct.Revolute("z"), parent="crank", at=(0.8, 0, 0))
    m.add("rocker", ct.rod(0.4, mass=0.8), ct.Revolute("z"), at=(1, 0, 0))
    m.close("pin", ct.Revolute("z"), "coupler", "rocker", at_a=(0.3, 0, 0), at_b=(0.4, 0, 0))
    return m


def at_dead_centre(m: ct.Model, count: int) -> np.ndarray:
    """Return positions of the double rocker at the dead centre of its crank, and next to it."""
    crank = np.arccos((0.8**2 + 1.0 - 0.7**2) / (2.0 * 0.8))  # coupler and rocker in line
    coupler = np.arctan2(-0.8 * np.sin(crank), 1.0 - 0.8 * np.cos(crank))
    q = np.array([crank, coupler - crank, coupler + np.pi])
    return np.array([m.assemble(guess=q + turn * np.array([0.0, 1.0, -0.75])) for turn in np.linspace(0.0, 1e-4, count)])
