"""Coordinate reduction of [CA03]: mechanisms move as by multipliers and as an independent solution says; cost is linear in the loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from tests import mechanisms
from tests.referee import Referee, hat, relative
from tests.test_closed_loops import four_bar, parallelogram, turntable
from tests.test_linkages import walk
from tests.test_random_loops import Builder

import catena as ct
from catena.examples import EXAMPLES
from catena.formulations import METHODS
from catena.formulations.applied_forces import applied_forces
from catena.formulations.joint_forces import passive_force
from catena.formulations.linear.open_constraints import OpenConstraints
from catena.formulations.linear.reduction_plan import EliminationStage, ReductionPlan
from catena.formulations.loops.constraints import constraint_jacobian
from catena.graph import Trace, program_of
from catena.graph.passes import arranged
from catena.kernels.dynamics import forward_dynamics_graph
from catena.kernels.methods import automatic
from catena.kernels.tracing import dynamics_kernel
from catena.loops.conditioning import conditioning
from catena.loops.plan_library import plan_of
from catena.loops.reduction_plans import explanation
from catena.loops.scaling import loop_units
from catena.tolerances import PIVOT

pytestmark = pytest.mark.evaluated

METHOD, MULTIPLIERS = "coordinate-reduction", "fully-recursive/joint"
LOOPED = [name for name, make in EXAMPLES.items() if make().has_loops]

State = tuple[np.ndarray, np.ndarray, np.ndarray]


def ladder(k: int, floating: bool = False) -> ct.Model:
    """k four-bar linkages in series: each stands on the coupler of the last."""
    m = ct.Model(f"ladder of {k}")
    base, at = "ground", (0.0, 0.0, 0.0)
    if floating:
        m.add("base", ct.box(1.0, 0.5, 0.5, mass=20.0), ct.Free())
        base = "base"
    for i in range(k):
        m.add(f"crank{i}", ct.rod(0.5, mass=1.0, axis="z"), ct.Revolute("y"), parent=base, at=at)
        m.add(f"coupler{i}", ct.rod(1.0, mass=2.0), ct.Revolute("y"), parent=f"crank{i}", at=(0, 0, 0.5))
        m.add(f"rocker{i}", ct.rod(0.6, mass=1.2, axis="z"), ct.Revolute("y"), parent=base, at=(at[0] + 1.0, at[1], at[2]))
        m.close(f"pin{i}", ct.Revolute("y"), f"coupler{i}", f"rocker{i}", at_a=(1.0, 0, 0), at_b=(0, 0, 0.6))
        base, at = f"coupler{i}", (0.0, 0.0, 0.1)
    return m


def lattice(rows: int, columns: int) -> ct.Model:
    """Storeys of posts and beams in a plane: posts stand on the beams below, and neighbouring cells share a post."""
    m = ct.Model(f"lattice of {rows} x {columns}")
    below = [("ground", (float(c), 0.0, 0.0)) for c in range(columns + 1)]
    for r in range(rows):
        height = [0.5 + 0.05 * r + 0.03 * c for c in range(columns + 1)]
        m.add(f"post{r}.0", ct.rod(height[0], mass=1.0, axis="z"), ct.Revolute("y"), *below[0])
        parent, at = f"post{r}.0", (0.0, 0.0, height[0])
        for c in range(columns):
            m.add(f"beam{r}.{c}", ct.rod(1.0, mass=1.0), ct.Revolute("y"), parent, at)
            parent, at = f"beam{r}.{c}", (1.0, 0.0, 0.0)
        for c in range(1, columns + 1):
            m.add(f"post{r}.{c}", ct.rod(height[c], mass=1.0, axis="z"), ct.Revolute("y"), *below[c])
            m.close(f"cell{r}.{c}", ct.Revolute("y"), f"beam{r}.{c - 1}", f"post{r}.{c}", (1.0, 0, 0), (0, 0, height[c]))
        below = [(f"beam{r}.0", (0.0, 0.0, 0.1)), *((f"beam{r}.{c}", (1.0, 0.0, 0.1)) for c in range(columns))]
    return m


# agreement with multipliers and with an independent solution


def solved(m: ct.Model, method: str, q: Any, v: Any, tau: Any, plan: Any = None) -> Any:
    """The solution of a method, with what acts by itself; with the plan for q, where none is given."""
    tree = m.tree()
    force, wrenches = applied_forces(tree, 0.0, q, v)
    closes: Any = METHODS[method].closes
    plan = plan_of(m, method, q) if plan is None else plan
    return closes.forward_dynamics(tree, q, v, tau + passive_force(tree, q, v) + force, wrenches, plan=plan)


def accelerations(m: ct.Model, method: str, q: Any, v: Any, tau: Any, plan: Any = None) -> np.ndarray:
    return np.asarray(solved(m, method, q, v, tau, plan).vdot, dtype=float)


def states(m: ct.Model, q: np.ndarray, count: int, seed: int, size: float = 0.3) -> list[State]:
    """States that close the loops, along a motion, and joint forces."""
    rng = np.random.default_rng(seed)
    return [(x, m.project_velocity(x, rng.normal(size=m.nv)), rng.normal(size=m.nv)) for x in walk(m, q, count, seed, size)]


def assert_all_agree(m: ct.Model, some: list[State], referee: bool = True) -> None:
    for one in some:
        found = accelerations(m, METHOD, *one)
        assert relative(found, accelerations(m, MULTIPLIERS, *one)) < 1e-9
        if referee:
            assert relative(found, Referee(m).forward_with_loops(*one)) < 1e-9


@pytest.mark.parametrize("name", LOOPED)
def test_examples_move_as_by_multipliers_and_as_the_referee_says(name: str) -> None:
    m = EXAMPLES[name]()
    assert_all_agree(m, states(m, m.mobility().q, 4, seed=0))


def test_bodies_that_resist_by_more_than_their_inertia_move_as_the_projected_mass_matrix_says() -> None:
    """What is added to a body, as implicit steps do, is no rigid body's inertia, while its coordinates wait too."""
    m, rng = EXAMPLES["double-wishbone"](), np.random.default_rng(0)
    q, tau = m.assemble(), rng.normal(size=m.nv)
    tree = m.tree().weightless()
    added = {k: (A := rng.normal(size=(6, 6))) @ A.T for k in (1, tree.n - 1)}
    M, J = np.asarray(ct.mass_matrix(m)(q)), np.asarray(constraint_jacobian(tree, q)[1], dtype=float)
    motions = [np.zeros((6, m.nv)) for _ in range(tree.n + 1)]
    for k in tree.outward():
        motions[k] = np.asarray(tree.placement(k, q).motions(motions[tree.parent[k]]), dtype=float)
        motions[k][:, tree.v_slices[k]] += np.asarray(tree.joint_matrix(k, q), dtype=float)
    M = M + sum(motions[k].T @ A @ motions[k] for k, A in added.items())
    N = np.linalg.svd(J)[2][len(J) :].T
    closes: Any = METHODS[METHOD].closes
    found = closes.forward_dynamics(tree.with_added(added), q, np.zeros(m.nv), tau, plan=plan_of(m, METHOD, q)).vdot
    assert relative(np.asarray(found, dtype=float), N @ np.linalg.solve(N.T @ M @ N, N.T @ tau)) < 1e-10


@pytest.mark.parametrize(("rows", "columns"), [(1, 4), (3, 3), (6, 6)])
def test_lattices_move_as_by_multipliers(rows: int, columns: int) -> None:
    m = lattice(rows, columns)
    assert_all_agree(m, states(m, m.assemble(), 1, seed=0, size=0.1), referee=rows * columns < 10)


@pytest.mark.parametrize("floating", [False, True])
def test_ladders_move_as_by_multipliers_and_as_the_referee_says(floating: bool) -> None:
    m = ladder(4, floating)
    assert_all_agree(m, states(m, m.assemble(), 2, seed=0))


#: Random structures: on which of the bodies so far a loop begins and ends; the last are of the loop before.
STRUCTURES: dict[str, Callable[[np.random.Generator, list[str], list[str]], tuple[str, str]]] = {
    "shared base": lambda rng, names, last: (names[0], names[0]),
    "in series": lambda rng, names, last: (last[-1],) * 2,
    "nested": lambda rng, names, last: (last[0], last[-1]),
    "different bases": lambda rng, names, last: (names[0], str(rng.choice(names))),
    "coupled": lambda rng, names, last: (str(rng.choice(names)), str(rng.choice(names))),
}

#: Joints between the bodies of a loop, by the letters of `test_random_loops`, and those that close it.
JOINTS, CLOSING, FREEDOM = "RRRRPHCUES", "RPHCUESFD", {"R": 1, "P": 1, "H": 1, "C": 2, "U": 2, "E": 3, "S": 3, "F": 0, "D": 5}


def random_mechanism(structure: str, seed: int) -> ct.Model:
    """One to three loops of random joints, on the ground or on a floating base; each adds some freedom. Some have an arm, and gears."""
    rng = np.random.default_rng([seed, len(structure)])
    built = Builder(seed, floating=bool(rng.random() < 0.4), options=bool(rng.random() < 0.3))
    names = last = ["base" if built.m.links else "ground"]
    for loop in range(rng.integers(1, 4)):
        closing = str(rng.choice([*CLOSING]))
        word, freedom = "", FREEDOM[closing] - 6
        while freedom < 1 or len(word) < 2:
            word += str(rng.choice([*JOINTS]))
            freedom += FREEDOM[word[-1]]
        cut = int(rng.integers(1, len(word) + 1))
        a, b = STRUCTURES[structure](rng, names, last)
        before = len(built.m.links)
        built.bridge(word[:cut] + closing + word[cut:], a, b, f"loop{loop}.", cut)
        last = [link.name for link in built.m.links[before:]]
        names = [*names, *last]
    if rng.random() < 0.3:
        built.chain("RU", str(rng.choice(names)), "arm")
    single = [link.name for link in built.m.links if link.joint.nv == 1]
    if len(single) > 1 and built.freedom > 1 and rng.random() < 0.4:
        built.m.couple("gears", dict(zip(rng.choice(single, 2, replace=False).tolist(), (1.0, -0.6), strict=True)))
    return built.m


@pytest.mark.parametrize("seed", [*range(20), *(pytest.param(seed, marks=pytest.mark.fuzz) for seed in range(20, 40))])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_random_mechanisms_move_as_by_multipliers_and_as_the_referee_says(structure: str, seed: int) -> None:
    m = random_mechanism(structure, seed)
    some = states(m, m.neutral(), 1, seed)
    assert np.abs(some[0][1]).max() > 0.01  # it moves
    assert_all_agree(m, some)


def test_random_mechanisms_are_of_many_kinds() -> None:
    drawn = [random_mechanism(structure, seed) for structure in STRUCTURES for seed in range(40)]
    assert len(drawn) == 200
    assert len({type(loop.joint) for m in drawn for loop in m.loops}) == len(CLOSING)
    assert min(sum(len(m.loops) == count for m in drawn) for count in (1, 2, 3)) > 40
    assert sum(bool(m.couplings) for m in drawn) > 40
    assert sum(m.links[0].name == "base" for m in drawn) > 40
    plans = [plan_of(m, METHOD, m.neutral()) for m in drawn[::10]]
    assert sum(any(stage.held for stages in (*plan.inboard, *plan.outboard) for stage in stages) for plan in plans) > 2


# the equations as printed, on a ring of hinges


class Ring:
    """A loop of hinges as [CA03] describes it: body 0 is the base, body n the phantom on the closing hinge; world axes, mass centres."""

    def __init__(self, m: ct.Model, q: np.ndarray, v: np.ndarray) -> None:
        referee = Referee(m)
        at = referee.motion(q, v)
        K, _, gamma = referee.kinematics(q, v, at)
        known = [*np.linalg.solve(K, gamma).reshape(-1, 6), np.zeros(6)]  # at the origins of the bodies; the ground's is last
        self.floating = m.links[0].name == "base"
        which = range(len(m.links)) if self.floating else range(-1, len(m.links))
        loop, last = m.loops[0], len(m.links) - 1
        self.n = len(which)
        self.P, self.I, self.F, self.centre, self.A_t = [np.zeros(6)], [], [], [], []
        for k in which:
            body = m.links[k].body if k >= 0 else ct.Body(0.0)
            arm, omega, inertia = at.R[k] @ np.array(body.com), at.omega[k], at.R[k] @ body.inertia @ at.R[k].T
            self.centre.append(at.p[k] + arm)
            self.A_t.append(_moved(known[k], arm, omega))
            self.I.append(np.block([[inertia, np.zeros((3, 3))], [np.zeros((3, 3)), body.mass * np.eye(3)]]))
            self.F.append(np.concatenate([-np.cross(omega, inertia @ omega), body.mass * referee.gravity]) - self.I[-1] @ self.A_t[-1])
            if len(self.centre) > 1:
                axis = at.R[k] @ np.array(m.links[k].joint.axis)
                self.P.append(np.concatenate([axis, np.cross(axis, arm)]))
        arm = at.R[last] @ loop.at_a.p
        end, axis = at.p[last] + arm, at.R[last] @ loop.at_a.R @ np.array(loop.joint.axis)
        spin = at.omega[which[0]] - at.omega[last]  # of the closing hinge
        of_end = _moved(known[last], arm, at.omega[last]) + np.concatenate([np.cross(at.omega[last], spin), np.zeros(3)])
        self.P.append(np.concatenate([axis, np.cross(axis, self.centre[0] - end)]))
        self.closing = _moved(of_end, self.centre[0] - end, at.omega[which[0]]) - self.A_t[0]  # ^0A_t^n
        self.centre.append(self.centre[0])
        self.I.append(np.zeros((6, 6)))
        self.F.append(np.zeros(6))

    def shift(self, r: int, k: int) -> np.ndarray:
        """(^rS^k)^T, by which velocities are carried from body r to body k. (6)."""
        return np.block([[np.eye(3), np.zeros((3, 3))], [-hat(self.centre[k] - self.centre[r]), np.eye(3)]])


def _moved(A: np.ndarray, arm: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """The acceleration of another point of a body."""
    return A + np.concatenate([np.zeros(3), np.cross(A[:3], arm) + np.cross(omega, np.cross(omega, arm))])


def printed(ring: Ring, dependent: set[int], handed: str = "mended") -> np.ndarray:
    """u̇ by (23)-(102), with the misprints mended that `docs/papers.md` lists; the base's own six last, where it floats."""
    n, P, I, F, shift, U = ring.n, ring.P, ring.I, ring.F, ring.shift, np.eye(6)  # noqa: E741  the paper's letter
    p = min(dependent) - 1
    free = [k for k in range(p + 1, n + 1) if k not in dependent]

    # the closure, inward: (34), (36), (66), (76), (77)
    Q, X, W, R = {}, {}, {}, {n + 1: U}
    for k in range(n, p, -1):
        y = shift(k, n) @ P[k]
        Q[k] = 1.0 / (y @ R[k + 1] @ y)
        X[k] = -np.outer(P[k], Q[k] * y @ R[k + 1]) if k in dependent else np.zeros((6, 6))
        R[k] = R[k + 1] - np.outer(R[k + 1] @ y, Q[k] * y @ R[k + 1]) if k in dependent else R[k + 1]
        W[k] = shift(k - 1, k) + X[k] @ shift(k - 1, n)

    # all bodies by the last independent one: (73), (79)-(81)
    Y, Z, H = {p: U}, {p: np.zeros((6, 6))}, {p: {r: np.zeros((6, 6)) for r in free}}
    for k in range(p + 1, n + 1):
        G = {r: (U if r == k else X[k] @ shift(r, n) if r > k else np.zeros((6, 6))) for r in free}
        Y[k], Z[k] = W[k] @ Y[k - 1], X[k] + W[k] @ Z[k - 1]
        H[k] = {r: G[r] + W[k] @ H[k - 1][r] for r in free}

    # independent coordinates among the dependent ones: (87)-(98)
    outer = range(p + 1, n + 1)
    left = {k: F[k] - I[k] @ Z[k] @ ring.closing for k in outer}
    I_0 = np.array([P[r] @ sum(H[k][r].T @ I[k] @ shift(0, k) for k in outer) for r in free]).reshape(-1, 6)
    I_p = np.array([P[r] @ sum(H[k][r].T @ I[k] @ Y[k] for k in outer) for r in free]).reshape(-1, 6)
    F_M = np.array([P[r] @ sum(H[k][r].T @ left[k] for k in outer) for r in free])
    M = np.array([[P[r] @ sum(H[k][r].T @ I[k] @ H[k][s] for k in outer) @ P[s] for s in free] for r in free]).reshape(len(free), len(free))
    YH = np.array([sum(Y[k].T @ I[k] @ H[k][r] for k in outer) @ P[r] for r in free]).reshape(-1, 6).T

    # the virtual terminal body, then inward: (53)-(55), (100)-(102), (60)-(64)
    to_base, own, force = {}, {}, {}
    solve = partial(np.linalg.solve, M)
    to_base[p] = sum(Y[k].T @ I[k] @ shift(0, k) for k in range(p, n + 1)) - YH @ solve(I_0)
    own[p] = sum(Y[k].T @ I[k] @ Y[k] for k in range(p, n + 1)) - YH @ solve(I_p)
    force[p] = F[p] + sum(Y[k].T @ left[k] for k in outer) - YH @ solve(F_M)
    D = {}
    for j in range(p, 0, -1):
        D[j] = P[j] @ own[j] @ P[j]
        T = shift(j - 1, j).T @ (U - np.outer(own[j] @ P[j], P[j]) / D[j])
        to_base[j - 1] = I[j - 1] @ shift(0, j - 1) + T @ to_base[j]
        own[j - 1] = I[j - 1] + T @ own[j] @ shift(j - 1, j)
        force[j - 1] = F[j - 1] + T @ force[j]

    # the base: for the coordinates inboard of it the whole loop moves rigidly with it
    A, rates = np.zeros(6), {}
    if ring.floating and handed == "as printed":
        A = np.linalg.solve(own[0], force[0])
    elif ring.floating:
        c = np.array([P[j] @ to_base[j] for j in range(1, p + 1)]).reshape(-1, 6)
        inertia = sum(shift(0, k).T @ I[k] @ shift(0, k) for k in range(n + 1)) - sum(np.outer(c[j - 1], c[j - 1]) / D[j] for j in D)
        right = sum(shift(0, k).T @ left.get(k, F[k]) for k in range(n + 1)) - sum(c[j - 1] * (P[j] @ force[j]) / D[j] for j in D)
        A = np.linalg.solve(inertia - I_0.T @ solve(I_0), right - I_0.T @ solve(F_M))

    # outward: (59), (99), (67)
    at = np.zeros(6)
    for j in range(1, p + 1):
        rates[j] = -(P[j] @ (to_base[j] @ A + own[j] @ shift(j - 1, j) @ at - force[j])) / D[j]
        at = shift(j - 1, j) @ at + P[j] * rates[j]
    rates |= dict(zip(free, solve(-(I_0 @ A + I_p @ at - F_M)), strict=True))
    for k in outer:
        if k in dependent:
            seen = shift(k - 1, n) @ at + ring.closing + sum(shift(r, n) @ P[r] * rates[r] for r in free if r > k)
            rates[k] = -Q[k] * (shift(k, n) @ P[k]) @ R[k + 1] @ seen
        at = shift(k - 1, k) @ at + P[k] * rates[k]
    return np.array([rates[k] for k in range(1, n)])


#: Dependent coordinates of a ring of eight hinges: the last six, as in §3; others, as in §4.
DEPENDENT = [{3, 4, 5, 6, 7, 8}, {2, 4, 5, 6, 7, 8}, {2, 3, 4, 6, 7, 8}, {1, 2, 3, 5, 6, 8}]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("floating", [False, True])
def test_the_printed_equations_give_the_same_accelerations(floating: bool, seed: int) -> None:
    """And so does the plan that has their dependent coordinates."""
    built, base = Builder(seed, floating=floating), "base" if floating else "ground"
    built.bridge("RRRRRRRR", base, base, "loop")
    m, at = built.m, 6 if floating else 0
    for q, v, _ in states(m, m.neutral(), 2, seed):
        expected = accelerations(m, METHOD, q, v, np.zeros(m.nv))
        for dependent in DEPENDENT:
            assert relative(printed(Ring(m, q, v), dependent), expected[at:]) < 1e-9
            ours = [at + k - 1 for k in sorted(dependent)[:-1]]  # the closing hinge has no coordinate
            free = tuple(i for i in reversed(range(m.nv)) if i not in ours)
            stage = EliminationStage(closed=tuple(zip(plan_of(m, METHOD, q).chosen, ours, strict=True)), free=free)
            nothing = ((),) * m.tree().n
            plan = ReductionPlan(plan_of(m, METHOD, q).chosen, (*nothing, (stage,)), nothing, (1.0,) * m.nv)
            assert relative(accelerations(m, METHOD, q, v, np.zeros(m.nv), plan), expected) < 1e-9


def test_the_printed_hand_over_is_wrong_where_the_base_moves() -> None:
    """What follows (64) is right on the ground only; `docs/papers.md` has what is right on a moving base."""
    for floating in (False, True):
        built, base = Builder(0, floating=floating), "base" if floating else "ground"
        built.bridge("RRRRRRRR", base, base, "loop")
        ((q, v, _),) = states(built.m, built.m.neutral(), 1, seed=0)
        right, wrong = (printed(Ring(built.m, q, v), DEPENDENT[0], handed) for handed in ("mended", "as printed"))
        assert (relative(right, wrong) > 0.1) == floating


# the five-bar linkage of [CA03] §6


START = np.array([np.pi / 4, np.pi / 2, -np.pi / 2, 0.0])


def bars(m: ct.Model) -> ct.Model:
    """Two bars in a row that hang on the ground, and two that slide: of 1 m and 1 kg, in the plane of x and z, turning upwards."""
    m.add("bar1", ct.rod(1.0, mass=1.0), ct.Revolute("-y"))
    m.add("bar2", ct.rod(1.0, mass=1.0), ct.Revolute("-y"), "bar1", (1, 0, 0))
    return m


def slot(m: ct.Model) -> ct.Model:
    m.add("bar4", ct.rod(1.0, mass=1.0), ct.Prismatic("x"), "bar3", (1, 0, 0))
    m.close("slot", ct.Prismatic("x"), "bar4", "ground", (1, 0, 0), (2, 0, np.sqrt(2.0)))
    return m


def five_bar() -> ct.Model:
    """The linkage of Figure 6; the fifth joint closes the loop, so that q5 is no coordinate."""
    m = bars(ct.Model("five-bar"))
    m.add("bar3", ct.rod(1.0, mass=1.0), ct.Revolute("-y"), "bar2", ct.Pose((1, 0, 0), rpy=(0, np.pi / 4, 0)))
    return slot(m)


def two_loops(base: str) -> ct.Model:
    """The linkage with a fictitious joint that lets bar 3 move freely against the base: it is part of two loops, as in §5."""
    m = bars(ct.Model("two loops"))
    m.add("bar3", ct.rod(1.0, mass=1.0), ct.Planar("-y"), base)
    m.close("pin", ct.Revolute("-y"), "bar2", "bar3", (1, 0, 0))
    return slot(m)


#: The constraints of the slot in the plane: the angle of bar 4, and its height.
ANGLE, HEIGHT = 1, 3


def of_five_bar(closed: tuple[tuple[int, int], ...], free: tuple[int, ...], *, between: int | None = None) -> ReductionPlan:
    """A plan whose coordinates wait for the base; or in which one, between those that depend, is eliminated at bar 2."""
    held = () if between is None else (EliminationStage(held=closed, free=(between,)),)
    return ReductionPlan((ANGLE, HEIGHT), ((),) * 5, ((EliminationStage(closed=closed, free=free),), held, (), ()), (1.0,) * 4)


SINGULAR = of_five_bar(((ANGLE, 2), (HEIGHT, 3)), (1, 0))
WAITING = of_five_bar(((ANGLE, 2), (HEIGHT, 1)), (3, 0))
BETWEEN = of_five_bar(((ANGLE, 2), (HEIGHT, 1)), (0,), between=3)


def moved(m: ct.Model, method: str, plan: Any, q: np.ndarray, steps: int = 2000) -> np.ndarray:
    """Positions over 2 s from rest, by Runge and Kutta's steps of fourth order with a compiled kernel of the plan."""
    closes: Any = METHODS[method].closes

    def function(tree: Any, q: Any, v: Any, tau: Any, force: Any, wrenches: Any) -> Any:
        return closes.forward_dynamics(tree, q, v, tau + force, wrenches, plan=plan).vdot

    kernel = dynamics_kernel(m, "forward_dynamics", ("q", "v", "tau"), ("vdot",), function, method, ())
    slope, h = partial(kernel, tau=np.zeros(m.nv)), 2.0 / steps
    v, found = np.zeros(m.nv), [q]
    for _ in range(steps):
        a1, v2 = (a := slope(q, v)), v + h / 2 * a
        a2, v3 = (a := slope(q + h / 2 * v, v2)), v + h / 2 * a
        a3, v4 = (a := slope(q + h / 2 * v2, v3)), v + h * a
        a4 = slope(q + h * v3, v4)
        q, v = q + h / 6 * (v + 2 * v2 + 2 * v3 + v4), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        found.append(q)
    return np.array(found)


@cache
def by_multipliers() -> np.ndarray:
    return moved(five_bar(), MULTIPLIERS, plan_of(five_bar(), MULTIPLIERS, START), START)


def test_steps_of_the_five_bar_are_small_enough() -> None:
    run = ct.simulate(five_bar(), START, until=2.0, rtol=1e-11, atol=1e-12, record=np.linspace(0.0, 2.0, 21), method=MULTIPLIERS)
    assert np.abs(run.q - by_multipliers()[::100]).max() < 1e-9
    assert np.ptp(run.q, axis=0).min() > 0.3  # all coordinates move


def test_the_last_coordinates_of_the_five_bar_are_singular_and_the_pivots_tell() -> None:
    """Plain reduction takes 3, 4 and 5; where bar 3 is level, coordinate 4 does nothing to the slot."""
    m = five_bar()
    for q in by_multipliers()[::100]:
        rows = OpenConstraints(m.tree(), q, np.zeros(4), (ANGLE, HEIGHT), (1.0,) * 4).E
        assert abs(rows[HEIGHT][3]) < 1e-9 < abs(rows[HEIGHT][2])
    unit, tau = np.array(loop_units(m)), np.arange(4.0)
    for q in (START, by_multipliers()[-1]):
        v = m.project_velocity(m.assemble(q), bar1=1.0, bar4=2.0)
        expected = accelerations(m, METHOD, q, v, tau)
        for plan, singular in ((SINGULAR, True), (WAITING, False), (BETWEEN, False)):
            found = solved(m, METHOD, q, v, tau, plan)
            assert bool(conditioning(found.pivots, unit) < 1e-13) == singular
            assert bool(conditioning(found.pivots, unit) < PIVOT**2) == singular
            assert (relative(np.asarray(found.vdot, dtype=float), expected) > 1e-9) == singular
    with pytest.raises(ct.ModelError, match=r"reduced: bar1, bar2 do not determine bar4"):
        ct.reduced(m, ["bar1", "bar2"])


def test_the_selection_of_the_paper_is_singular_where_bar_2_is_upright() -> None:
    """The run passes there twice; kernels would take another plan."""
    m = five_bar()
    upright = np.cos(by_multipliers()[:, 0] + by_multipliers()[:, 1])
    assert np.sum(np.diff(np.sign(upright)) != 0) == 2
    first = np.arcsin(np.sqrt(2.0) - 1.0)
    q = np.array([first, np.pi / 2 - first, -np.pi / 4, 0.3])
    run: Any = ct.forward_dynamics(m, METHOD)
    tau = np.arange(4.0)
    with np.errstate(all="ignore"):
        assert conditioning(solved(m, METHOD, q, np.zeros(4), tau, WAITING).pivots, np.array(loop_units(m))) < PIVOT**2
    assert relative(run(q, np.zeros(4), tau), Referee(m).forward_with_loops(q, np.zeros(4), tau)) < 1e-9


@pytest.mark.parametrize("plan", [WAITING, BETWEEN], ids=["waiting", "between"])
def test_arbitrary_selection_moves_the_five_bar_as_multipliers_do(plan: ReductionPlan) -> None:
    """With 2, 3 and 5; and with coordinate 4 eliminated between them, as in §4."""
    assert relative(moved(five_bar(), METHOD, plan, START), by_multipliers()) < 1e-9


def test_the_planner_finds_the_selection_of_the_paper() -> None:
    m = five_bar()
    plan = plan_of(m, METHOD, START)
    assert {j + 1 for stages in plan.inboard for stage in stages for _, j in stage.closed} == {2, 3}
    assert relative(moved(m, METHOD, plan, START), by_multipliers()) < 1e-9
    assert explanation(m, plan).splitlines() == [
        "at the joint of 'bar3': loop 'slot' held, while bar4 moves; bar3 depends",
        "at the joint of 'bar1': loop 'slot' closed; bar3, bar2 depend",
    ]


@pytest.mark.parametrize(("base", "bases"), [("ground", ("ground", "ground")), ("bar1", ("bar1", "ground"))])
def test_coupled_loops_move_the_five_bar_as_multipliers_do(base: str, bases: tuple[str, str]) -> None:
    """With the same base, and with different ones, of which one moves."""
    m = two_loops(base)
    found = m.mobility()
    assert tuple(loop.base for loop in found.loops) == bases
    assert found.coupled == (("pin", "slot"),)
    q = m.assemble(bar1=START[0], bar2=START[1], bar4=START[3])
    path = moved(m, METHOD, plan_of(m, METHOD, q), q)
    assert relative(path[:, [0, 1, 5]], by_multipliers()[:, [0, 1, 3]]) < 1e-9


# kernels: a plan for every state


def turned(m: ct.Model, coordinate: str, count: int = 37) -> list[np.ndarray]:
    """Configurations over a turn of a coordinate."""
    q = first = m.mobility().q
    found = []
    for angle in np.linspace(0.0, 2.0 * np.pi, count):
        q = m.assemble(q, fixed={coordinate: first[m.q_names.index(coordinate)] + angle})
        found.append(q)
    return found


def dead_points() -> list[np.ndarray]:
    """The slider-crank around its dead points, where crank and rod are in line; at the first exactly."""
    m = EXAMPLES["slider-crank"]()
    q = m.assemble(guess=[1.5, -1.3, 0.05], crank=np.pi / 2)
    return [m.assemble(q, crank=np.pi / 2 + x) for x in (0.0, -1e-9, 1e-6, 1e-3, 0.1, np.pi)]


def double_rocker() -> ct.Model:
    """A four-bar in which no bar goes round: any two that meet come into line."""
    m = ct.Model("double rocker")
    m.add("crank", ct.rod(0.8, mass=1.5), ct.Revolute("y"))
    m.add("coupler", ct.rod(0.5, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.8, 0, 0))
    m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), at=(1.0, 0, 0))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(0.5, 0, 0), at_b=(0.6, 0, 0))
    return m


def in_line() -> list[np.ndarray]:
    """The double rocker where crank and coupler are in line, where coupler and rocker are, and around."""
    m, found = double_rocker(), []
    crank, rocker = _corner(1.0, 1.3, 0.6), np.pi - _corner(1.0, 0.6, 1.3)
    found.append(np.array([crank, 0.0, rocker]))
    crank, rocker = _corner(1.0, 0.8, 1.1), np.pi - _corner(1.0, 1.1, 0.8)
    found.append(np.array([crank, rocker - np.pi - crank, rocker]))
    return [m.assemble(q + [0, x, 0], coupler=q[1] + x) for q in found for x in (0.0, 1e-6, -1e-4, 0.01, 0.2, -0.3)]


def _corner(a: float, b: float, across: float) -> float:
    """The angle between two sides of a triangle."""
    return float(np.arccos((a**2 + b**2 - across**2) / (2.0 * a * b)))


WORKSPACES: dict[str, tuple[Callable[[], ct.Model], Callable[[], list[np.ndarray]]]] = {
    "four-bar": (four_bar, lambda: turned(four_bar(), "crank")),
    "turntable": (turntable, lambda: turned(turntable(), "crank", 19)),
    "slider-crank": (EXAMPLES["slider-crank"], dead_points),
    "double rocker": (double_rocker, in_line),
    "jansen-leg": (EXAMPLES["jansen-leg"], lambda: turned(EXAMPLES["jansen-leg"](), "crank", 73)[1::2]),
    "bennett": (EXAMPLES["bennett"], lambda: turned(EXAMPLES["bennett"](), "link1")),
    "bricard": (EXAMPLES["bricard"], lambda: walk(EXAMPLES["bricard"](), EXAMPLES["bricard"]().assemble(), 60, size=0.1)),
}


#: Mechanisms that one plan does not serve everywhere.
OTHERS = {"double rocker", "jansen-leg"}


@pytest.mark.parametrize("name", WORKSPACES)
def test_kernels_equal_the_referee_over_the_workspace(name: str) -> None:
    make, configurations = WORKSPACES[name]
    m, rng = make(), np.random.default_rng(0)
    q = np.stack(configurations())
    v, tau = np.stack([m.project_velocity(one, rng.normal(size=m.nv)) for one in q]), rng.normal(size=(len(q), m.nv))
    run: Any = ct.forward_dynamics(m, METHOD)
    vdot = run(q, v, tau)
    for row, *one in zip(vdot, q, v, tau, strict=True):
        assert relative(row, Referee(m).forward_with_loops(*one)) < 1e-9
    assert run.fits(q, v, tau).all() != (name in OTHERS)


@pytest.mark.parametrize("angle", [0.0, np.pi])
def test_a_parallelogram_moves_as_by_hand_close_to_its_change_points(angle: float) -> None:
    """Its coupler, of 2 kg, does not turn; two cranks of 0.4 m and 1 kg do."""
    m = parallelogram()
    run = ct.forward_dynamics(m, METHOD)
    rng = np.random.default_rng(0)
    for x in angle + np.array([1e-4, -1e-3, 1e-2, -0.1, 1.0]):
        tau, sense = rng.normal(size=3), np.array([1.0, -1.0, 1.0])
        force = tau @ sense + 9.81 * np.cos(x) * (2 * 0.2 * 1.0 + 0.4 * 2.0)
        expected = sense * force / (2 * 1.0 * 0.4**2 / 3 + 2.0 * 0.4**2)
        assert relative(run(sense * x, 2.0 * sense, tau), expected) < 1e-9


def test_a_singular_configuration_is_named() -> None:
    m = parallelogram()
    run = ct.forward_dynamics(m, METHOD)
    with pytest.warns(ct.SingularWarning, match=r"state \(1,\) of model 'parallelogram' is singular: its loops leave open"):
        run([[1.0, -1.0, 1.0], [0.0, 0.0, 0.0]], np.zeros(3), np.zeros(3))


PLANS: dict[str, tuple[Callable[[], ct.Model], list[str]]] = {
    "four-bar": (four_bar, ["on the ground: loop 'pin' closed; coupler, rocker depend"]),
    "turntable": (turntable, ["on 'table': loop 'pin' closed; coupler, rocker depend"]),
    "bennett": (EXAMPLES["bennett"], ["at the joint of 'link1': loop 'ring' closed; link3, link2 depend"]),
    "bricard": (EXAMPLES["bricard"], ["at the joint of 'link4': loop 'ring' closed; link5, link4, link3, link2 depend"]),
    "watt": (EXAMPLES["watt"], ["on the ground: loops 'C' and 'F' closed; coupler, crank, link, output depend"]),
    "ladder": (
        lambda: ladder(2),
        ["on 'coupler0': loop 'pin1' closed; coupler1, rocker1 depend", "on the ground: loop 'pin0' closed; coupler0, rocker0 depend"],
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_are_told_in_words(name: str) -> None:
    make, lines = PLANS[name]
    kernel: Any = ct.forward_dynamics(make(), METHOD)
    assert kernel.plan.splitlines() == lines


# operations


def operations(m: ct.Model, method: str, q: Any = None) -> int:
    """Operations of forward dynamics, without negations, which fold into additions; without what tells weak states."""
    trace = Trace("forward_dynamics")
    tree = m.tree().marked(trace.mark, trace.solve)
    arguments = [trace.input(name, (size,)) for name, size in (("q", m.nq), ("v", m.nv), ("tau", m.nv))]
    if m.has_loops:
        closes: Any = METHODS[method].closes
        vdot = closes.forward_dynamics(tree, *arguments, plan=plan_of(m, method, m.mobility().q if q is None else q)).vdot
    else:
        vdot = METHODS[method].solves["forward_dynamics"](tree, *arguments)
    return sum(count for kind, count in trace.graph(vdot=vdot).operations.items() if kind != "neg")


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in LOOPED])
def test_on_trees_operations_are_those_of_articulated_bodies(name: str) -> None:
    """But for what drops out across a hinge, which costs two operations here."""
    m = EXAMPLES[name]()
    assert 0 <= operations(m, METHOD) - operations(m, "articulated-body") <= 2 * m.nv


#: Operations of forward dynamics: by coordinate reduction, and by multipliers.
OPERATIONS = {
    "slider-crank": (97, 180),
    "four-bar": (121, 223),
    "quarter-car": (2014, 3736),
    "double-wishbone": (4356, 13346),
    "jansen-leg": (499, 899),
    "watt": (255, 481),
    "stephenson": (309, 556),
    "peaucellier": (418, 824),
    "bennett": (497, 972),
    "bricard": (929, 2467),
    "five-bar-robot": (224, 342),
    "planar-3rrr": (539, 839),
    "spherical-3rrr": (809, 1516),
    "delta": (4315, 10063),
    "delta-ruu": (2630, 4803),
    "stewart-ups": (4454, 10027),
    "stewart-ucu": (6650, 16157),
    "stewart-floating": (8755, 21105),
    "biped": (10514, 50475),
}


def test_operations_of_the_examples_are_pinned() -> None:
    found = {name: tuple(operations(EXAMPLES[name](), method) for method in (METHOD, MULTIPLIERS)) for name in LOOPED}
    reduction, multipliers = found["stewart-floating"]
    if reduction == 8754:  # two numbers of this symmetric robot are one where the processor's matrix products round alike
        found["stewart-floating"] = 8755, multipliers
    assert found == OPERATIONS


def further(make: Callable[[int], ct.Model], *counts: int) -> set[int]:
    """How many operations each step from one count to the next adds."""
    found = [operations(m := make(count), METHOD, m.assemble()) for count in counts]
    return {int(step) for step in np.diff(found)}


def test_every_further_loop_of_a_ladder_costs_the_same() -> None:
    assert further(ladder, 3, 4, 5, 6, 7) == {345}
    assert further(partial(ladder, floating=True), 3, 4, 5) == {593}
    assert further(lambda k: ladder(12 * k), 1, 2) == {12 * 345}
    kernels = [ct.forward_dynamics(ladder(k), METHOD).operations for k in (2, 3, 4)]
    assert {int(step) for step in np.diff([sum(kinds.values()) for kinds in kernels])} == {398}


def test_a_further_loop_of_a_ladder_takes_few_more_slots() -> None:
    """Of a loop there wait sines and cosines, velocities and joint forces at most, not its constraints."""
    graphs = {k: forward_dynamics_graph(ladder(k))[1] for k in (12, 36)}
    slots = {k: arranged(program_of(graph), 9 * k, 0)[0].slots for k, graph in graphs.items()}
    assert slots[36] - slots[12] < 20 * 24


def test_every_further_storey_of_a_lattice_costs_the_same() -> None:
    assert further(lambda rows: lattice(rows, 3), 4, 5, 6) == {1111}


def test_multipliers_of_a_ladder_cost_more_with_every_further_loop() -> None:
    found = [operations(m := ladder(k), MULTIPLIERS, m.assemble()) for k in (3, 4, 5, 6)]
    assert np.all(np.diff(found, 2) > 100)


@pytest.mark.parametrize(("hinges", "counts"), [(7, (2699, 5244)), (20, (18465, 16775))])
def test_multipliers_cost_less_on_a_long_ring_only(hinges: int, counts: tuple[int, int]) -> None:
    """One loop in space, closed by a fixed joint: it has six multipliers, however long it is."""
    m = mechanisms.denavit_hartenberg(hinges)
    q = m.random(np.random.default_rng(0))
    last = ct.poses(m)(q)[-1]
    m.close("ring", ct.Fixed(), f"link{hinges - 1}", "ground", at_b=ct.Pose(last[:3, 3], matrix=last[:3, :3]))
    assert (operations(m, METHOD, q), operations(m, MULTIPLIERS, q)) == counts


def rings(count: int, hinges: int) -> ct.Model:
    """Loops of general hinges in space, closed by fixed joints; each stands on two bodies of the one before, and shares joints with it."""
    rng = np.random.default_rng(0)
    m = ct.Model(f"{count} rings of {hinges}")
    bases, tips, half = ["ground", "ground"], [], hinges // 2
    for ring in range(count):
        ends = []
        for side, base in zip("ab", bases, strict=True):
            for i in range(half):
                at = ct.Pose(rng.uniform(-0.4, 0.4, 3), rpy=rng.uniform(-1.0, 1.0, 3))
                m.add(f"{side}{ring}.{i}", mechanisms.body(rng), ct.Revolute("z"), base, at)
                base = f"{side}{ring}.{i}"
            ends.append(base)
        tips.append(ends)
        bases = [f"b{ring}.{half // 2}", f"a{ring}.{half // 2}"]
    poses = dict(zip(m.body_names, ct.poses(m)(m.neutral()), strict=True))
    for ring, (a, b) in enumerate(tips):
        between = np.linalg.inv(poses[b]) @ poses[a]
        m.close(f"ring{ring}", ct.Fixed(), a, b, at_b=ct.Pose(between[:3, 3], matrix=between[:3, :3]))
    return m


@pytest.mark.parametrize(("count", "hinges", "chosen"), [(2, 8, METHOD), (1, 20, METHOD), (2, 20, MULTIPLIERS)])
def test_auto_takes_the_method_of_fewer_operations_of_long_loops_that_share_joints_too(count: int, hinges: int, chosen: str) -> None:
    m = rings(count, hinges)
    counts = {method: operations(m, method, m.assemble()) for method in (METHOD, MULTIPLIERS)}
    assert min(counts, key=counts.__getitem__) == chosen == automatic("forward_dynamics", m)[0]
