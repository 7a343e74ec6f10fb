"""The tree: what the formulations read of a model. Moving bodies in order, canonical frames, fixed bodies merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ModelError
from catena.graph import Elimination, SaddlePoint, Solution, Trace
from catena.model.inertias import moved
from catena.model.motions import DrivenMotion, Motion
from catena.spatial import Array, Factor, Placement, Rigid

#: Systems whose solution takes up to this many operations are traced entry by entry. Measured on forward dynamics in batches of 2048, the
#: loop over rows takes 1.20 of the time on a chain of 5 bodies, 1.05 on one of 12 (926 operations), 0.97 on 14, 0.88 on 20, 0.78 on 24.
ENTRY_BY_ENTRY = 1000

#: Turns of the loop over a path that make a region. Measured on chains of 32 to 128 bodies, against one turn: 1.1 to 1.3 times as fast for
#: the mass matrix, 1.3 to 2 times for its triangular factors.
STRIDE = 6

#: How many times as heavy as a body what a child passes on to it may be. Mass that was passed on over many joints takes no part in what
#: they do, but all that does is rounded to it. Measured on chains of 12 bodies, the last 1e6 times as heavy as the first: accelerations by
#: articulated bodies are right to 6e-10 without this limit, to 5e-13 with it, to 3e-14 where nothing is passed on; forces always to 2e-16.
HEAVIER = 1e3


def _no_mark() -> None:
    """Do nothing: outside a trace there is nothing to mark."""


class PlacedSpring(NamedTuple):
    """A spring between a point of body a and one of body b, each in the frame of its body [m]."""

    a: int
    b: int
    at_a: np.ndarray
    at_b: np.ndarray
    stiffness: float
    damping: float
    length: float


class PlacedForce(NamedTuple):
    """A force from a function of (t, q, v): nv joint forces without a body, else (moment, force) on a point of it in the world's axes."""

    name: str
    function: Callable[[Any, Any, Any], Any]
    body: int | None
    point: np.ndarray


class Basic(NamedTuple):
    """One basic constraint of [KY03] Table 3, between joint frames on two bodies a and b.

    `u` is fixed in the joint frame on a, `w` in that on b, each in the axes of its frame; p_a and p_b are the origins of the frames.

        kind    rows  the constraint
        s       3     p_b - p_a = 0: the points coincide
        d1      1     u . w = value: two directions keep their angle
        d2      1     u . (p_b - p_a) = 0
        ss      1     |p_b - p_a|^2 = value^2: the points keep their distance [m]
        screw   1     w . (cos(s) e2 - sin(s) e1) = 0, with s = z . (p_b - p_a) / value

    In a screw, z is `axis`, fixed in the joint frame on a; e1 = u and e2 = z x u are perpendicular to it, as is w, which agrees with u
    at zero angle; `value` is the pitch [m/rad]. The row is the sine of the angle of b about z less the angle s that belongs to its
    displacement. What a kind does not use is zero.
    """

    kind: str
    u: np.ndarray
    w: np.ndarray
    value: float
    axis: np.ndarray

    @property
    def rows(self) -> int:
        """Number of scalar equations."""
        return 3 if self.kind == "s" else 1


class PlacedClosure(NamedTuple):
    """A joint that closes a loop: body b's joint frame moves against body a's as a child moves against its parent.

    `at_a` and `at_b` are the joint frames in the canonical frames of the bodies; -1 is the ground.
    """

    name: str
    a: int
    b: int
    at_a: Rigid
    at_b: Rigid
    constraints: tuple[Basic, ...]


class PlacedCoupling(NamedTuple):
    """A linear relation of coordinates: the sum of coefficient times position is the offset, that of coefficient times velocity zero."""

    name: str
    coefficients: tuple[tuple[int, float], ...]  # velocity coordinate, coefficient
    positions: tuple[tuple[int, float], ...]  # position coordinate, coefficient
    offset: float


@dataclass(frozen=True)
class Tree:
    """Moving bodies k = 0 … n - 1, parents before children; the ground is -1. With loops it is a spanning tree, and `closures` and
    `couplings` say what holds besides.

    Lists made by `columns` have n + 1 entries, the last for the ground, so that `x[parent]` needs no case of its own.
    """

    names: tuple[str, ...]
    parent: tuple[int, ...]
    before: tuple[Placement, ...]  # constant factors from the parent's frame to the joint
    motion: tuple[Motion, ...]
    M: tuple[np.ndarray, ...]  # 6 x 6 inertias at the body frames
    q_slices: tuple[slice, ...]
    v_slices: tuple[slice, ...]
    nq: int
    nv: int
    gravity: np.ndarray  # in the ground's canonical frame [m/s^2]
    ground: Rigid  # the ground's canonical frame in the world
    ground_inertia: np.ndarray  # of bodies welded to the ground, at its canonical frame
    damping: np.ndarray
    stiffness: np.ndarray
    rest: np.ndarray
    friction: np.ndarray
    friction_speed: float
    armature: np.ndarray
    lower: np.ndarray  # stops, along the velocity coordinates; infinite where there is none
    upper: np.ndarray
    stop_stiffness: np.ndarray
    stop_damping: np.ndarray
    springs: tuple[PlacedSpring, ...]
    forces: tuple[PlacedForce, ...]
    frames: Mapping[str, tuple[int, Rigid]]  # of every body the user named: moving body and the user's frame in it
    closures: tuple[PlacedClosure, ...] = ()
    couplings: tuple[PlacedCoupling, ...] = ()
    mark: Callable[[], None] = _no_mark
    solver: Callable[[Array, Array, Sequence[int]], Array] | None = None  # how a trace solves a system with the zeros of a tree
    saddle_solver: Callable[..., Solution] | None = None  # how a trace solves a saddle point

    @property
    def n(self) -> int:
        """Number of moving bodies."""
        return len(self.parent)

    def outward(self) -> Iterator[int]:
        """Yield the bodies, parents first. Each turn of the loop is a region of the trace."""
        for k in range(self.n):
            self.mark()
            yield k
        self.mark()

    def inward(self) -> Iterator[int]:
        """Yield the bodies, children first. Each turn of the loop is a region of the trace."""
        for k in reversed(range(self.n)):
            self.mark()
            yield k
        self.mark()

    def path(self, k: int) -> Iterator[int]:
        """Yield k, its parent, and so on to the last body before the ground. A few turns are a region of the trace."""
        self.mark()
        while k >= 0:
            yield k
            k = self.parent[k]
            if k >= 0 and self.depth[k] % STRIDE == STRIDE - 1:  # at the same bodies on all paths, so that they share regions
                self.mark()

    @cached_property
    def depth(self) -> tuple[int, ...]:
        """Number of bodies between each body and the ground."""
        depth: list[int] = []
        for parent in self.parent:
            depth.append(0 if parent < 0 else depth[parent] + 1)
        return tuple(depth)

    @cached_property
    def felt(self) -> tuple[np.ndarray, ...]:
        """Inertias that move the joints as `M` do, with fewer entries: from the tips inward, what a joint does not feel is its parent's.

        Along the joints all forces, momenta and energies are the same; what a single body has, or a joint carries across, is not.
        """
        M = list(self.M)
        for k in reversed(range(self.n)):
            parent, (outer, inner) = self.parent[k], self.motion[k].unfelt(M[k])
            if parent >= 0:
                if outer[3, 3] > HEAVIER * self.M[parent][3, 3] > 0.0:
                    continue
                M[parent] = M[parent] + moved(inner, self.before[k])
            M[k] = M[k] - outer
        return read_only(tuple(M))

    def marked(
        self,
        mark: Callable[[], None],
        solver: Callable[[Array, Array, Sequence[int]], Array] | None = None,
        saddle_solver: Callable[..., Solution] | None = None,
    ) -> Tree:
        """Return the tree with loops that call `mark` at each turn, and systems that are solved by `solver(A, x, parents)`, saddle points
        by `saddle_solver(M, f, J, g, tolerance, most)`.
        """
        return replace(self, mark=mark, solver=solver, saddle_solver=saddle_solver)

    def traced(self, trace: Trace, mark: Callable[[], None] | None = None) -> Tree:
        """Return the tree as a trace records what is done with it."""
        return self.marked(trace.mark if mark is None else mark, trace.solve, trace.saddle_point)

    def weightless(self) -> Tree:
        """Return the tree without gravity."""
        return replace(self, gravity=np.zeros(3))

    @property
    def driven(self) -> bool:
        """Whether joints are driven, so that the tree moves with time: then it is to be taken `at` a time."""
        return any(isinstance(motion, DrivenMotion) for motion in self.motion)

    def at(self, t: Any) -> Tree:
        """Return the tree at a time, of any scalar: what is driven stands and moves as it does then."""
        return self._drives(lambda motion: motion.at(t))

    def resting(self) -> Tree:
        """Return the tree in which what is driven stands still where it is."""
        return self._drives(DrivenMotion.resting)

    def starting(self) -> Tree:
        """Return the tree in which what is driven stands still, and accelerates as it moves in this one: so velocities follow from momenta
        like accelerations from forces.
        """
        return self._drives(DrivenMotion.starting)

    def moving(self) -> Tree:
        """Return the tree in which what is driven is in Duals, which carry its rates."""
        return self._drives(DrivenMotion.moving)

    def _drives(self, change: Callable[[DrivenMotion], DrivenMotion]) -> Tree:
        if not self.driven:
            return self
        return replace(self, motion=tuple(change(motion) if isinstance(motion, DrivenMotion) else motion for motion in self.motion))

    @property
    def resists(self) -> bool:
        """Whether what acts by itself may depend on velocities: dampers, friction, stops, functions."""
        joints = (self.damping, self.friction, np.isfinite(self.lower), np.isfinite(self.upper))
        return bool(self.forces) or any(spring.damping for spring in self.springs) or any(np.any(x) for x in joints)

    @property
    def v_parent(self) -> tuple[int, ...]:
        """For every velocity coordinate the one before it on the way to the ground, -1 where there is none."""
        last = [-1] * (self.n + 1)  # the coordinate nearest to each body, inboard of it; last the ground's
        parents: list[int] = []
        for k in range(self.n):
            last[k] = last[self.parent[k]]
            for i in range(self.nv)[self.v_slices[k]]:
                parents.append(last[k])
                last[k] = i
        return tuple(parents)

    def solve(self, A: Array, x: Array) -> Array:
        """Return A^-1 x of a symmetric positive definite matrix, nv x nv, with zeros between the branches of this tree."""
        parents = self.v_parent
        if self.solver is None or sum(Elimination(parents).operations.values()) <= ENTRY_BY_ENTRY:
            return Factor(A).solve(x)
        return self.solver(A, x, parents)

    def saddle_point(self, M: Array, f: Array, J: Array, g: Array, tolerance: Any, most: int | None = None) -> Solution:
        """Return the solution of a saddle point, (n, n), (n, k), (m, n), (m, k), with pivots from a tolerance on, and so many at most."""
        most = min(J.shape) if most is None else most
        if self.saddle_solver is not None:
            return self.saddle_solver(M, f, J, g, tolerance, most)
        system = SaddlePoint(len(M), len(J), f.shape[1])
        return system.unpacked(system.solution([np.asarray(x, dtype=float) for x in system.operands(M, f, J, g, tolerance, most)]))

    def columns(self, count: int) -> list[list[Any]]:
        """Return lists with a place for every body and, last, for the ground."""
        return [[None] * (self.n + 1) for _ in range(count)]

    def vector(self) -> Array:
        """Return an empty vector of nv entries, of any scalar."""
        return np.zeros(self.nv).astype(object)

    def placement(self, k: int, q: Array) -> Placement:
        """Return where body k stands in its parent."""
        return Placement((*self.before[k].factors, *self.motion[k].placement(q[self.q_slices[k]]).factors))

    def joint_matrix(self, k: int, q: Array) -> Array:
        """Return S of body k's joint, 6 x nv, in the frame of body k."""
        return self.motion[k].matrix(q[self.q_slices[k]])

    def joint_drift(self, k: int) -> Array:
        """Return what body k's joint does by itself, Omega_t of [NLT03] (13), in the frame of body k; zero unless it is driven."""
        return self.motion[k].drift()

    def joint_bias(self, k: int, q: Array, v: Array) -> Array:
        """Return dS/dt v of body k's joint, and the rate of its drift, in the frame of body k."""
        return self.motion[k].bias(q[self.q_slices[k]], v[self.v_slices[k]])

    def joint_turn(self, k: int, q: Array, v: Array) -> Array:
        """Return dS/dt of body k's joint as it is seen from the parent, 6 x nv, in the frame of body k."""
        return self.motion[k].turn(q[self.q_slices[k]], v[self.v_slices[k]])

    def deflection(self, k: int, q: Array) -> Array:
        """Return how far joint k is from its rest position, along its velocity coordinates."""
        where = self.q_slices[k]
        return self.motion[k].deflection(q[where], self.rest[where])


def read_only(x: Any) -> Any:
    """Return what a tree is made of with all its arrays read-only: trees are shared, and found again by their identity."""
    if isinstance(x, np.ndarray):
        x.setflags(write=False)
    elif isinstance(x, Rigid):
        read_only((x.R, x.p))
    elif isinstance(x, Placement):
        read_only(x.factors)
    elif isinstance(x, tuple):
        for part in x:
            read_only(part)
    elif isinstance(x, Mapping) or (is_dataclass(x) and not isinstance(x, type)):
        read_only(tuple((x if isinstance(x, Mapping) else vars(x)).values()))
    return x


def check_following(tree: Tree) -> None:
    """Refuse a loop around which all joints are driven: nothing is left that could follow."""
    for closure in tree.closures:
        a, b = (set(tree.path(k)) for k in (closure.a, closure.b))
        if all(tree.v_slices[k].start == tree.v_slices[k].stop for k in a ^ b):
            raise ModelError(
                f"loop '{closure.name}': all joints around it are driven, and none is left that could follow; leave the loop out, or drive "
                "fewer joints"
            )


def check_determined(tree: Tree, rng: np.random.Generator, random: Callable[[np.random.Generator], np.ndarray]) -> None:
    """Refuse a tree in which a joint moves nothing that has inertia, whatever the configuration.

    With loops the tree alone must move, too: the recursions go over it, and divide by the inertia that each joint feels.

    The inertia each joint feels, with all joints outboard of it free, is computed at two random configurations, and measured by the
    inertia it would feel with them locked: so the size of the mechanism and of its units do not matter.
    """
    stuck = {k for k, at in enumerate(tree.v_slices) if at.start < at.stop}
    tree = tree.at(0.0)
    for _ in range(2):
        if not stuck:
            return
        q = random(rng)
        P, R = [np.array(M) for M in tree.M], [np.array(M) for M in tree.M]
        here = set()
        for k in reversed(range(tree.n)):
            S = np.asarray(tree.joint_matrix(k, q), dtype=float)
            U, armature = P[k] @ S, tree.armature[tree.v_slices[k]]
            turning, moving = np.linalg.norm(R[k][:3, :3]), np.linalg.norm(R[k][3:, 3:])
            size = np.sqrt(turning * (S[:3] ** 2).sum(axis=0) + moving * (S[3:] ** 2).sum(axis=0) + armature)
            unit = 1.0 / np.where(size > 0.0, size, 1.0)
            D = np.outer(unit, unit) * (S.T @ U + np.diag(armature))
            if k in stuck and np.linalg.eigvalsh(D)[0] <= 1e-12:
                here.add(k)
            if tree.parent[k] >= 0:
                placement, p = tree.placement(k, q).rigid(), tree.parent[k]
                left = P[k] - U @ (np.outer(unit, unit) * np.linalg.pinv(D, rcond=1e-12, hermitian=True)) @ U.T
                P[p] = P[p] + placement.inertia(left).astype(float)
                R[p] = R[p] + placement.inertia(R[k]).astype(float)
        stuck &= here
    if stuck:
        name = tree.names[max(stuck)]
        if tree.closures or tree.couplings:
            raise ModelError(
                f"joint of body '{name}': it moves no mass, and the loops that may determine its motion do not count here; give '{name}' a "
                "small mass or inertia, or the joint an armature, or close the loop by ct.Distance(length) in place of a rod without mass"
            )
        raise ModelError(
            f"joint of body '{name}': it moves no mass, so its motion is undetermined; "
            f"give '{name}' or a body that moves with it mass or inertia, or give the joint an armature"
        )
