"""Random mechanisms with loops, of named structures: they have the freedom that counting says, and move as an independent solution says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests import mechanisms
from tests.mechanisms import closing_methods
from tests.referee import Referee, relative
from tests.test_constraints import CLOSING
from tests.test_linkages import walk

import catena as ct
from catena.examples import quarter_car
from catena.formulations import METHODS
from catena.formulations.linear import cut_joints
from catena.graph import Trace
from catena.loops.mobility import rank
from catena.loops.plan_library import plan_of
from catena.spatial import Rigid

pytestmark = pytest.mark.evaluated

#: Joints by their letters; F is fixed, and D a distance, which leaves five degrees of freedom.
KINDS = {
    "R": "revolute", "P": "prismatic", "H": "helical", "C": "cylindrical", "U": "universal", "E": "planar", "S": "spherical",
    "X": "cam", "Y": "plate",
}  # fmt: skip
FREEDOM = {"R": 1, "P": 1, "H": 1, "C": 2, "U": 2, "E": 3, "S": 3, "F": 0, "D": 5, "X": 1, "Y": 2}

#: Single loops in space: the joints on the way around. RSSR and RSSP, the slider-crank in space, have a coupler that spins idly.
RINGS = ("RRRRRRR", "RRRPRRR", "RSSR", "RSUR", "RSSP", "RCCC", "RRCRRCR", "RHRURRR", "RERRR", "PRSRP", "RRRFRRRR", "RURUD")


def joint(letter: str, rng: np.random.Generator, options: bool = False) -> Any:
    if letter == "F":
        return ct.Fixed()
    kind = KINDS[letter]
    return mechanisms.JOINTS[kind](rng, **(mechanisms.options_of(kind, rng) if options else {}))


class Builder:
    """A model that grows chain by chain; all loops are closed at q = 0, where `frames` has the bodies in the world."""

    def __init__(self, seed: int, *, floating: bool = False, options: bool = False) -> None:
        self.rng, self.options = np.random.default_rng(seed), options
        self.m = ct.Model("loops", gravity=(0.6, -1.1, -9.5))
        self.frames: dict[str, Rigid] = {"ground": ct.Pose()}
        self.freedom = 0
        if floating:
            self.hang("base", ct.Free(), "ground")

    def hang(self, name: str, by: Any, parent: str) -> str:
        """Hang a body on a joint, somewhere in the world."""
        at = mechanisms.place(self.rng)
        self.m.add(name, mechanisms.body(self.rng), by, parent=parent, at=self.frames[parent].inverse() @ at)
        self.frames[name] = at
        self.freedom += by.nv
        return name

    def chain(self, word: str, a: str, name: str) -> list[str]:
        """Hang bodies by the joints of a word, one on the other."""
        names = [a]
        for i, letter in enumerate(word):
            names.append(self.hang(f"{name}{i}", joint(letter, self.rng, self.options), names[-1]))
        return names[1:]

    def bridge(self, word: str, a: str, b: str, name: str, cut: int | None = None) -> None:
        """Lead from body a to body b, which may be the same, by the joints of a word; one of them, the last if none is said, closes."""
        cut = len(word) - 1 if cut is None else cut
        end_a = [a, *self.chain(word[:cut], a, name)][-1]
        end_b = [b, *self.chain(word[:cut:-1], b, f"{name}'")][-1]
        at, other = mechanisms.place(self.rng), mechanisms.place(self.rng)
        if word[cut] == "D":
            closing = ct.Distance(float(np.linalg.norm(other.p - at.p)))
        else:
            closing, other = joint(word[cut], self.rng), at
        self.m.close(name, closing, end_a, end_b, self.frames[end_a].inverse() @ at, self.frames[end_b].inverse() @ other)
        self.freedom += FREEDOM[word[cut]] - 6


def ring(word: str, cut: int, seed: int, **knobs: Any) -> Builder:
    built = Builder(seed, **knobs)
    built.bridge(word, "ground", "ground", "loop", cut)
    return built


def states(m: ct.Model, count: int, seed: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """States that close the loops, up to a radian and a metre away from q = 0, and joint forces."""
    rng = np.random.default_rng(seed)
    path = walk(m, m.neutral(), count, seed, size=1.0 / count)
    return [(q, m.project_velocity(q, rng.normal(size=m.nv)), rng.normal(size=m.nv)) for q in path]


def assert_moves_as_the_referee_says(built: Builder, seed: int, count: int = 2) -> None:
    m = built.m
    assert m.mobility().freedom == built.freedom
    for q, v, tau in states(m, count, seed):
        assert rank(m, q) == m.nv - built.freedom
        expected = Referee(m).forward_with_loops(q, v, tau)
        force = tau + Referee(m).passive(q, v)
        for name in closing_methods(m):
            found = METHODS[name].closes.forward_dynamics(m.tree(), q, v, force, plan=plan_of(m, name, q))  # type: ignore[union-attr]
            assert relative(np.asarray(found.vdot, dtype=float), expected) < 1e-9
            assert np.abs(np.asarray(found.rates, dtype=float)).max() < 1e-9


#: Every ring, cut at a joint of every kind that it has; no body hangs on a distance.
CUTS = [(word, word.index(letter)) for word in RINGS for letter in sorted(set(word)) if letter == "D" or "D" not in word]


@pytest.mark.parametrize(("word", "cut"), CUTS)
def test_rings_equal_the_referee_wherever_they_are_cut(word: str, cut: int) -> None:
    assert_moves_as_the_referee_says(ring(word, cut, seed=0), seed=1)


def in_series(seed: int) -> Builder:
    """A loop on a body of a loop on a body of a loop."""
    built = Builder(seed)
    built.bridge("RRRRRRR", "ground", "ground", "first")
    built.bridge("RSUR", "first3", "first3", "second", cut=1)
    built.bridge("RCCC", "second'0", "second'0", "third", cut=2)
    return built


def nested(seed: int) -> Builder:
    """A loop across a loop, and one across both: they share joints."""
    built = Builder(seed)
    built.bridge("RRURRCRR", "ground", "ground", "outer", cut=5)
    built.bridge("RSRU", "outer1", "outer'0", "inner", cut=1)
    built.bridge("RSS", "inner0", "outer3", "innermost", cut=1)
    return built


def floating(seed: int) -> Builder:
    """A free base that carries two loops, on one of which hangs an arm."""
    built = Builder(seed, floating=True)
    built.bridge("RRRRRRR", "base", "base", "left", cut=3)
    built.bridge("RSSR", "base", "left1", "right", cut=2)
    built.chain("RUS", "left'1", "arm")
    return built


def platform(seed: int) -> Builder:
    """A platform on six legs, each with a universal joint, a slider and a ball: six degrees of freedom."""
    built = Builder(seed)
    top = built.chain("UPS", "ground", "leg")[-1]
    for i in range(1, 6):
        built.bridge("UPS", "ground", top, f"leg {i} ")
    return built


def geared(seed: int) -> Builder:
    """A loop and a chain, with springs, dampers, friction and armatures in their joints, and gears between them."""
    built = Builder(seed, options=True)
    built.bridge("RRURRCR", "ground", "ground", "loop")
    built.chain("RH", "loop2", "tail")
    built.m.couple("gears", {"loop0": 1.0, "loop3": -0.7, "tail1": 2.0})
    built.freedom -= 1
    return built


COMPOUND = {"in series": in_series, "nested": nested, "floating": floating, "platform": platform, "geared": geared}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("structure", COMPOUND)
def test_compounds_of_loops_equal_the_referee(structure: str, seed: int) -> None:
    assert_moves_as_the_referee_says(COMPOUND[structure](seed), seed)


@pytest.mark.parametrize("structure", COMPOUND)
def test_kernels_of_compounds_equal_the_referee_in_batches(structure: str) -> None:
    m = COMPOUND[structure](2).m
    batch = states(m, 4, seed=2)
    vdot = ct.forward_dynamics(m)(*(np.stack(x) for x in zip(*batch, strict=True)))
    for row, one in zip(vdot, batch, strict=True):
        assert relative(row, Referee(m).forward_with_loops(*one)) < 1e-9


# graphs: bodies with frames of their own, connected in any order and direction


def graph(words: tuple[str, ...], seed: int) -> tuple[ct.Model, int]:
    """Loops through the ground and a common body, made of connections; joints that come to hang a on b are turned round."""
    rng = np.random.default_rng(seed)
    m = ct.Model("graph", gravity=(0.6, -1.1, -9.5))
    frames: dict[str, Rigid] = {"ground": ct.Pose(), "hub": mechanisms.place(rng)}
    m.add("hub", mechanisms.body(rng))
    wanted = []
    for w, word in enumerate(words):
        names = ["ground", *(f"body {w}.{i}" for i in range(len(word) - 1)), "hub"]
        for name in names[1:-1]:
            m.add(name, mechanisms.body(rng))
            frames[name] = mechanisms.place(rng)
        wanted += [(a, b, joint(letter, rng)) for a, b, letter in zip(names[:-1], names[1:], word, strict=True)]
    for i in rng.permutation(len(wanted)):
        a, b, by = wanted[i]
        a, b = (a, b) if rng.random() < 0.5 else (b, a)
        at = mechanisms.place(rng)
        m.connect(a, b, by, frames[a].inverse() @ at, frames[b].inverse() @ at)
    return m, sum(FREEDOM[letter] for word in words for letter in word) - 6 * (len(words) - 1)


def accelerations(referee: Referee, q: np.ndarray, v: np.ndarray, vdot: np.ndarray) -> np.ndarray:
    """The accelerations of all bodies, (angular, of the origin) one after the other."""
    K, S, gamma = referee.kinematics(q, v, referee.motion(q, v))
    return np.linalg.solve(K, S @ vdot + gamma)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("words", [("RRRR", "RHPR"), ("RUR", "SRP", "CRU"), ("RER", "RSC"), ("UPS",) * 3, ("RXR", "SYR")], ids="-".join)
def test_graphs_equal_the_referee_and_every_connection_holds(words: tuple[str, ...], seed: int) -> None:
    m, freedom = graph(words, seed)
    referee = Referee(m)
    assert any(np.abs(link.outer.p).max() > 0.0 for link in m.links)
    assert m.mobility().freedom == freedom
    for q, v, tau in states(m, 2, seed):
        assert relative(ct.poses(m)(q), referee.poses(q)) < 1e-13
        expected = referee.forward_with_loops(q, v, tau)
        for name in closing_methods(m):
            found = METHODS[name].closes.forward_dynamics(m.tree(), q, v, tau, plan=plan_of(m, name, q))  # type: ignore[union-attr]
            assert relative(np.asarray(found.vdot, dtype=float), expected) < 1e-9
        A, at = accelerations(referee, q, v, expected), referee.motion(q, v)
        for connection in m.connections:  # as the user wrote them, whether they hang a body, turned round or not, or close a loop
            K, S, gamma = referee.closing(connection, at)
            rates = np.linalg.lstsq(S, K @ A - gamma, rcond=None)[0] if S.size else np.zeros(0)
            assert relative(K @ A - S @ rates, gamma, scale=np.abs(A).max()) < 1e-9


# what the reference point of [KY03] saves: the paper says 36 + 6 n for a body on a joint of n coordinates, and 6 m for m constraints


REFERENCES = ("centroid", "joint", "origin")


def multiplications(m: ct.Model, reference: str) -> int:
    """Multiplications of forward dynamics with all constraints."""
    tree, trace = m.tree(), Trace("multiplications")
    arguments = [trace.input(name, (size,)) for name, size in (("q", tree.nq), ("v", tree.nv), ("tau", tree.nv))]
    chosen = range(sum(basic.rows for closure in tree.closures for basic in closure.constraints))
    solved = cut_joints.forward_dynamics(tree.marked(trace.mark), *arguments, reference=reference, plan=chosen)
    return trace.graph(vdot=solved.vdot).operations["mul"]


#: Constraints of a cut joint; multiplications for a further body of a loop of revolute joints: at the centroid, the joint and the origin.
FURTHER = {
    "distance": (1, (344, 320, 314)),
    "spherical": (3, (403, 373, 361)),
    "cylindrical": (4, (434, 401, 386)),
    "revolute": (5, (466, 430, 412)),
    "fixed": (6, (499, 460, 439)),
}


@pytest.mark.parametrize("closing", FURTHER)
def test_origin_saves_6_for_every_constraint_that_a_further_body_of_a_loop_carries(closing: str) -> None:
    """Besides the 24 of a tree, which `test_operations` accounts for."""
    counts = []
    for bodies in (8, 9):
        m, rng = mechanisms.denavit_hartenberg(bodies), np.random.default_rng(0)
        m.close("loop", CLOSING[closing], f"link{bodies - 1}", "ground", mechanisms.place(rng), mechanisms.place(rng))
        counts.append([multiplications(m, reference) for reference in REFERENCES])
    constraints, further = FURTHER[closing]
    assert tuple(b - a for a, b in zip(*counts, strict=True)) == further
    assert further[0] - further[2] == 24 + 6 * constraints


#: Multiplications for the suspension of [KY03] Fig. 3: at the centroid, the joint and the origin.
SUSPENSION = {"on the ground": (2148, 2096, 2181), "on a free chassis": (5430, 5199, 5139)}


def test_multiplications_of_the_suspension_are_pinned() -> None:
    fixed, moving = quarter_car(), ct.Model("moving")
    moving.add("chassis", ct.box(2.0, 1.5, 0.8, mass=300.0, com=(-0.5, -0.2, 0.5)), ct.Free())
    for link in fixed.links:
        moving.add(link.name, link.body, link.joint, "chassis" if link.parent == "ground" else link.parent, link.at)
    for loop in fixed.loops:
        moving.close(loop.name, loop.joint, loop.a, loop.b, loop.at_a, loop.at_b)
    counts = {
        name: tuple(multiplications(m, reference) for reference in REFERENCES)
        for name, m in zip(SUSPENSION, (fixed, moving), strict=True)
    }
    assert counts == SUSPENSION
