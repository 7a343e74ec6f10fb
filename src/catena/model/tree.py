"""The tree, which formulations read: moving bodies in order, in canonical frames, with fixed bodies merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from catena.graph import Elimination, SaddlePoint, SaddlePointSolution, Trace
from catena.model.motions import CustomMotion, DrivenMotion, Motion
from catena.model.placed import (
    PlacedBushing,
    PlacedClosure,
    PlacedContact,
    PlacedCoupling,
    PlacedForce,
    PlacedPointForce,
    PlacedSpring,
)
from catena.spatial import Array, Factor, Placement, Rigid, vanishes
from catena.spatial.inertias import moved

#: Systems whose solution takes up to this many operations are traced entry by entry. Measured on forward dynamics in batches of 2048, the
#: loop over rows takes 1.20 of the time on a chain of 5 bodies, 1.05 on one of 12 (926 operations), 0.97 on 14, 0.88 on 20, 0.78 on 24.
ENTRY_BY_ENTRY = 1000

#: Turns of the loop over a path that make a region. Measured on chains of 32 to 128 bodies, against one turn: 1.1 to 1.3 times as fast for
#: the mass matrix, 1.3 to 2 times for its triangular factors.
STRIDE = 6

#: How many times as heavy as a body the mass may be that a child regroups to it. Mass that was regrouped over many joints does not enter
#: their dynamics, but the terms that do are rounded to its size. Measured on chains of 12 bodies, the last 1e6 times as heavy as the first:
#: accelerations by articulated bodies are right to 6e-10 without this limit, to 5e-13 with it, to 3e-14 without regrouping; forces always
#: to 2e-16.
HEAVIER = 1e3


def _no_mark() -> None:
    """Do nothing: outside a trace there is nothing to mark."""


@dataclass(frozen=True)
class Tree:
    """Moving bodies k = 0 … n - 1, parents before children; the ground is -1. With loops it is a spanning tree, and `closures` and
    `couplings` are its constraints.

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
    friction_speed: np.ndarray
    armature: np.ndarray
    lower: np.ndarray  # stops, along the velocity coordinates; infinite where there is none
    upper: np.ndarray
    stop_stiffness: np.ndarray
    stop_damping: np.ndarray
    springs: tuple[PlacedSpring, ...]
    forces: tuple[PlacedForce, ...]
    frames: Mapping[str, tuple[int, Rigid]]  # of every body and frame the user named: moving body and the user's frame in it
    added: frozenset[int] = frozenset()  # bodies whose inertias are more than those of rigid bodies
    kept: tuple[bool, ...] | None = None  # bodies that regroup nothing, where masses do not tell
    given: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))  # scalars for numbers of the model, by path
    closures: tuple[PlacedClosure, ...] = ()
    couplings: tuple[PlacedCoupling, ...] = ()
    bushings: tuple[PlacedBushing, ...] = ()
    point_forces: tuple[PlacedPointForce, ...] = ()
    contacts: tuple[PlacedContact, ...] = ()
    mark: Callable[[], None] = _no_mark
    solver: Callable[[Array, Array, Sequence[int]], Array] | None = None  # how a trace solves a system with the zeros of a tree
    saddle_solver: Callable[..., SaddlePointSolution] | None = None  # how a trace solves a saddle point

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "frames": dict(self.frames), "given": dict(self.given)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, **{name: MappingProxyType(state[name]) for name in ("frames", "given")})
        read_only(self)

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

    def strided(self) -> Iterator[int]:
        """Yield the bodies, parents first. A few turns are a region of the trace, for loops that do little in each."""
        for k in range(self.n):
            if k % STRIDE == 0:
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
    def regrouped(self) -> tuple[np.ndarray, ...]:
        """Inertias that move the joints as `M` do, with fewer entries: from the tips inward, the part that no rate of a joint feels is
        moved to its parent.

        Along the joints all forces, momenta and energies are the same; those of a single body, and across a joint, are not.
        """
        return self._regrouping[0]

    @property
    def keeping(self) -> tuple[bool, ...]:
        """Which bodies keep all their inertia."""
        return self._regrouping[1]

    @cached_property
    def _regrouping(self) -> tuple[tuple[np.ndarray, ...], tuple[bool, ...]]:
        M, keeping = list(self.M), [False] * self.n
        for k in reversed(range(self.n)):
            parent, (outer, inner) = self.parent[k], self.motion[k].regroupable(M[k])
            if parent >= 0:
                keeping[k] = bool(outer[3, 3] > HEAVIER * self.M[parent][3, 3] > 0.0) if self.kept is None else self.kept[k]
                if keeping[k]:
                    continue
                M[parent] = M[parent] + moved(inner, self.before[k])
            M[k] = M[k] - outer
        return read_only(tuple(M)), tuple(keeping)

    def marked(
        self,
        mark: Callable[[], None],
        solver: Callable[[Array, Array, Sequence[int]], Array] | None = None,
        saddle_solver: Callable[..., SaddlePointSolution] | None = None,
    ) -> Tree:
        """Return the tree whose loops call `mark` at each turn, and whose systems are solved by `solver` and `saddle_solver`."""
        return replace(self, mark=mark, solver=solver, saddle_solver=saddle_solver)

    def traced(self, trace: Trace, mark: Callable[[], None] | None = None) -> Tree:
        """Return the tree as a trace records what is done with it."""
        return self.marked(trace.mark if mark is None else mark, trace.solve, trace.saddle_point)

    def weightless(self) -> Tree:
        """Return the tree without gravity."""
        return replace(self, gravity=np.zeros(3))

    @cached_property
    def driven(self) -> bool:
        """Whether joints are driven, so that the tree moves with time: then take it `at` a time."""
        return any(isinstance(motion, DrivenMotion) for motion in self.motion)

    @property
    def custom(self) -> tuple[str, ...]:
        """The bodies whose joints are functions of users."""
        return tuple(name for name, motion in zip(self.names, self.motion, strict=True) if isinstance(motion, CustomMotion))

    def at(self, t: Any) -> Tree:
        """Return the tree at a time, of any scalar, with the positions and velocities of its driven joints at this time."""
        return self._drives(lambda motion: motion.at(t))

    def resting(self) -> Tree:
        """Return the tree in which driven joints are at rest where they are."""
        return self._drives(DrivenMotion.resting)

    def starting(self) -> Tree:
        """Return the tree at rest whose driven joints accelerate as fast as they move here: so velocities follow from momenta."""
        return self._drives(DrivenMotion.starting)

    def moving(self) -> Tree:
        """Return the tree in which the motion of driven joints is in Duals, which carry its rates."""
        return self._drives(DrivenMotion.moving)

    def _drives(self, change: Callable[[DrivenMotion], DrivenMotion]) -> Tree:
        if not self.driven:
            return self
        return replace(self, motion=tuple(change(motion) if isinstance(motion, DrivenMotion) else motion for motion in self.motion))

    @property
    def resists(self) -> bool:
        """Whether passive and applied forces may depend on velocities: dampers, friction, stops, functions."""
        stops = any(self.stopped(x) for x in (*self.lower, *self.upper))
        dampers = [self.damping, self.friction, *(spring.damping for spring in self.springs)]
        dampers += [x for bushing in self.bushings for x in (bushing.damping, bushing.turning_damping)]
        acting = self.forces or self.point_forces or self.contacts
        return bool(acting) or stops or not all(vanishes(x) for x in dampers)

    @property
    def loaded(self) -> bool:
        """Whether springs, bushings, contacts or forces from functions act on the bodies, or along the joints."""
        return bool(self.springs or self.bushings or self.forces or self.point_forces or self.contacts)

    def with_added(self, added: Mapping[int, Any]) -> Tree:
        """Return the tree in which bodies resist acceleration by more than their inertia: by symmetric matrices, 6 x 6, in their frames."""
        own, regrouped = ([M + added[k] if k in added else M for k, M in enumerate(all_)] for all_ in (self.M, self.regrouped))
        tree = replace(self, M=tuple(own), added=self.added | set(added))
        tree.__dict__["_regrouping"] = tuple(regrouped), self.keeping  # what was added is felt by no joint in the way of an inertia
        return tree

    @staticmethod
    def stopped(limit: Any) -> bool:
        """Return whether there is a stop: a limit is a number that is finite, or traced."""
        return not isinstance(limit, float) or bool(np.isfinite(limit))

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

    def saddle_point(self, M: Array, f: Array, J: Array, g: Array, tolerance: Any, most: int | None = None) -> SaddlePointSolution:
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
        """Return the placement of body k in its parent."""
        return Placement((*self.before[k].factors, *self.motion[k].placement(q[self.q_slices[k]]).factors))

    def joint_matrix(self, k: int, q: Array) -> Array:
        """Return S of body k's joint, 6 x nv, in the frame of body k."""
        return self.motion[k].matrix(q[self.q_slices[k]])

    def joint_drift(self, k: int) -> Array:
        """Return the motion of body k's joint without rates, Omega_t of [NLT03] (13), in the frame of body k; zero unless it is driven."""
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
    if isinstance(x, (float, int, str)):
        pass
    elif isinstance(x, np.ndarray):
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
