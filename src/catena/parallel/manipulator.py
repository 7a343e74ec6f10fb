"""A platform on legs with motors: kinematics, dynamics and singularities by decoupled natural orthogonal complements."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ArgumentError, ModelError
from catena.formulations.frames import jacobian as _jacobian
from catena.formulations.inverse import newton_euler
from catena.formulations.linear import denoc
from catena.formulations.linear.platform_kinematics import Platform
from catena.formulations.linear.platform_structure import PlatformPlan, requirement
from catena.formulations.loops.closure_kinematics import velocity_coordinates
from catena.formulations.loops.pivoted_constraints import PivotedMap
from catena.formulations.mass import composite_body
from catena.kernels.named_coordinates import coordinates, places, spread
from catena.kernels.planned import ConstrainedKernel, planned_kernel
from catena.kernels.reduced import Reduced
from catena.kernels.state_flags import following_flags, solved_flags
from catena.kernels.tracing import Parameters, dynamics_kernel, frozen, traced_kernel
from catena.loops.assembly import left_open, loop_residuals
from catena.loops.conditioning import largest, measures
from catena.loops.platform_plans import explanation, platform_plan
from catena.loops.scaling import coordinate_units, loop_units, mechanism_size
from catena.model import Mechanism, Pose, Tree
from catena.native import Kernel
from catena.parallel.positions import Positions
from catena.references import REFERENCES
from catena.spatial import Factor, cross
from catena.tolerances import CLOSED, LOOSE, NAMED_SINGULAR, ZERO

_METHOD, _SOURCE = "denoc", (REFERENCES["SS01"],)


class Singularities(NamedTuple):
    """How near states are to singular ones, as numbers from 0, which is singular, to 1.

    `type_1` (..., motors): the sine of the angle between what a motor does at the end of its leg and what the leg's passive joints can do
    there; at 0 the motor moves without the platform. Where there are fewer motors than motions of the platform, its tool is meant in its
    place. `type_2` (...): the square root of the ratio between the softest and the stiffest motion of the platform with all motors locked;
    at 0 it can move with `motion` (..., 6), its angular velocity and the velocity of its tool, in the world's axes.
    """

    type_1: np.ndarray
    type_2: np.ndarray
    motion: np.ndarray


class Complements(NamedTuple):
    """The three matrices that lead from the rates of the motors to the twists of all bodies: N_l N_c N_d.

    Every coordinate, named by `names`, has a body of its own, and every six rows belong to one: angular velocity, and velocity of the point
    of the body that is at the world's origin, in the world's axes.
    """

    N_l: np.ndarray
    N_c: np.ndarray
    N_d: np.ndarray
    names: tuple[str, ...]

    @property
    def N(self) -> np.ndarray:
        """The product of the three."""
        return self.N_l @ self.N_c @ self.N_d


class ParallelManipulator:
    """A platform on legs with motors, recognised in a model; `actuated` names the coordinates that the motors move.

    With x the actuated coordinates, in the order they are named:

        forward_kinematics(x)                    -> q      that closes the loops, or all of them
        inverse_kinematics(pose)                 -> q      with the platform there, or all of them
        rates(q, rate)                           -> v
        accelerations(q, v, acceleration)        -> vdot
        jacobian(q)                              -> J      (6, motors): angular velocity, and velocity of the tool, in the world's axes
        inverse_dynamics(q, v, acceleration)     -> tau    of the motors
        mass_matrix(q)                           -> mass   generalised inertia, on the motors
        forward_dynamics(q, v, tau)              -> acceleration of the motors
        singularities(q), complements(q)

    All but `complements` take batches; functions of q, v are compiled when they are first used. `tool` is a point of the platform, in its
    frame [m]. Passive and applied forces count as in `ct.forward_dynamics`.

    >>> from catena.examples import planar_3rrr
    >>> robot = ct.ParallelManipulator(planar_3rrr(), ["leg1_proximal", "leg2_proximal", "leg3_proximal"])
    >>> robot.platform, len(robot.legs), robot.freedom
    ('platform', 3, 3)
    >>> q = robot.forward_kinematics([0.1, 0.2, -0.1])
    >>> robot.jacobian(q).shape, robot.inverse_dynamics(q, np.zeros(7), np.zeros(3)).shape
    ((6, 3), (3,))
    """

    def __init__(
        self, m: Mechanism, actuated: Collection[str], tool: Any = (0.0, 0.0, 0.0), at: Any = None, parameters: Parameters = ()
    ) -> None:
        m = frozen(m, "ParallelManipulator", parameters, at=at)
        if m.driven_names:
            raise ModelError(f"ParallelManipulator: '{m.driven_names[0]}' of model '{m.name}' is driven; leave it free, and actuate it")
        reason = requirement(m.tree())
        if reason:
            raise ModelError(f"ParallelManipulator: model '{m.name}' is not a platform on legs: {reason}")
        self.model = m
        self._reduced = Reduced(m, actuated, at)
        self.actuated = self._reduced.names
        self._at = list(coordinates(m, self.actuated, "ParallelManipulator: actuated"))
        self.tool = np.array(tool, dtype=float)
        if self.tool.shape != (3,) or not np.isfinite(self.tool).all():
            raise ArgumentError(f"ParallelManipulator: tool is {tool!r}; give a point (x, y, z) of the platform, in its frame [m]")
        self.tool.setflags(write=False)  # kernels are made later
        self._for = self._reduced.made_for
        self._generic_plan = self._plan(*self._for)
        order = [j for leg in self._generic_plan.legs for j in leg.actuated]
        #: where the motors of the plan are among those of the user, and back
        self._of_plan = [self._at.index(j) for j in order]
        self._of_user = [order.index(j) for j in self._at]

    @property
    def platform(self) -> str:
        """Name of the body that the legs hold."""
        return self.model.tree().names[self._generic_plan.platform]

    @property
    def legs(self) -> tuple[tuple[str, ...], ...]:
        """Names of the bodies of each leg, from the base on; a leg that carries the platform comes first, and ends with it."""
        names = self.model.tree().names
        legs = self._generic_plan.legs[1 if self._generic_plan.space is None else 0 :]
        return tuple(tuple(names[k] for k in leg.bodies) for leg in legs)

    @property
    def freedom(self) -> int:
        """Number of degrees of freedom, and of motors."""
        return len(self._at)

    def __repr__(self) -> str:
        return f"<ParallelManipulator {self.model.name!r}: platform '{self.platform}', {len(self.legs)} legs, {self.freedom} motors>"

    def explain(self, q: Any = None) -> str:
        """Return what the robot is made of, in words; and at positions q, how near it is to singular ones."""
        text = explanation(self.model, self._generic_plan)
        if q is None:
            return text
        found = self.singularities(np.asarray(q, dtype=float).reshape(self.model.nq))
        lines = [text]
        for name, measure in zip(self.actuated, found.type_1, strict=True):
            state = "singular: the motor moves without the platform" if measure < NAMED_SINGULAR else "regular"
            lines.append(f"type 1, {name}: {measure:.3g}, {state}")
        turn, shift = (", ".join(f"{x:.3g}" for x in part) for part in (found.motion[:3], found.motion[3:]))
        loose = f"with all motors locked the platform can turn along ({turn}) while its tool moves along ({shift})"
        lines.append(f"type 2: {found.type_2:.3g}, {f'singular: {loose}' if found.type_2 < NAMED_SINGULAR else 'regular'}")
        return "\n".join(lines)

    # positions

    def forward_kinematics(self, x: Any, guess: Any = None, branches: bool = False, **parameters: Any) -> np.ndarray:
        """Return positions (..., nq) that close the loops with the motors at x (..., motors): the one that is followed from a guess.

        With `branches`, x is (motors,), and all ways to assemble the robot are returned, (ways, nq): one for each pose of the platform that
        a search over many starts comes to. Numbers of the model that the robot was made with as parameters may be given by name.

        >>> from catena.examples import five_bar_robot
        >>> robot = ct.ParallelManipulator(five_bar_robot(), ["leg1_proximal", "leg2_proximal"])
        >>> robot.forward_kinematics([0.5, 0.5], branches=True).shape  # the tip above, or below
        (2, 4)
        """
        if not branches:
            return self._reduced.positions(x, guess, **parameters)
        if parameters:
            raise ArgumentError("forward_kinematics: branches are those of the model's own numbers; search those of m.with_values(...)")
        x = np.asarray(x, dtype=float)
        if x.shape != (self.freedom,):
            raise ArgumentError(f"forward_kinematics: x has the shape {x.shape}; with branches, give ({self.freedom},)")
        at = places(self.model, self._at, "forward_kinematics")

        def start(rng: np.random.Generator, number: int) -> np.ndarray:
            q = self.model.random(rng, number)
            q[:, at] = x
            return q

        found = self._positions.all(start, lambda q: [self._pose_key(q)], held=self._at)
        if not found:
            values = ", ".join(f"{name} = {value:g}" for name, value in zip(self.actuated, x, strict=True))
            raise ModelError(f"forward_kinematics: model '{self.model.name}' cannot be assembled with {values}; give values within reach")
        return self._sorted(found[0])

    def inverse_kinematics(self, pose: Any, guess: Any = None, branches: bool = False) -> np.ndarray:
        """Return positions (..., nq) with the platform at poses (..., 4, 4), or with the tool at places (..., 3): those next to a guess.

        Without a guess, they are led from a configuration that closes the loops, or else from random ones. With `branches`, one pose is
        given, and all postures are returned, (postures, nq): one for each set of positions of the motors.

        >>> from catena.examples import planar_3rrr
        >>> robot = ct.ParallelManipulator(planar_3rrr(), ["leg1_proximal", "leg2_proximal", "leg3_proximal"])
        >>> q = robot.inverse_kinematics(ct.poses(robot.model)(robot.model.neutral())[2], branches=True)
        >>> q.shape  # every leg bends to either side
        (8, 7)
        """
        m = self.model
        wanted = np.asarray(pose.matrix() if isinstance(pose, Pose) else pose, dtype=float)
        if wanted.shape[-2:] != (4, 4) and wanted.shape[-1:] != (3,):
            raise ArgumentError(
                f"inverse_kinematics: pose has the shape {wanted.shape}; give poses of the platform (..., 4, 4), or places of the tool, "
                "(..., 3)"
            )
        core = (4, 4) if wanted.shape[-2:] == (4, 4) else (3,)
        batch = wanted.shape[: -len(core)]
        if branches:
            if batch:
                raise ArgumentError(f"inverse_kinematics: pose has the shape {wanted.shape}; with branches, give one")
            # with the platform in place, legs are free of each other
            legs = [leg.actuated for leg in self._generic_plan.legs] if core == (4, 4) else [self._at]
            found = self._positions.all(m.random, lambda q: [self._motor_key(q, motors) for motors in legs], wanted)
            if not found:
                raise ModelError(f"inverse_kinematics: '{self.platform}' cannot get to {wanted.tolist()}; give a pose within reach")
            return self._sorted(found[0] if core == (3,) else self._combined(found))
        given = self._for[1] if guess is None else np.asarray(guess, dtype=float)
        if given.shape[-1:] != (m.nq,):
            raise ArgumentError(f"inverse_kinematics: guess has the shape {given.shape}; give (..., {m.nq})")
        batch = np.broadcast_shapes(batch, given.shape[:-1])
        wanted = np.broadcast_to(wanted, (*batch, *core)).reshape(-1, *core)
        q, left = self._positions.settle(np.broadcast_to(given, (*batch, m.nq)).reshape(-1, m.nq), wanted)
        for i in np.flatnonzero(left > CLOSED):
            tried, open_by = self._positions.settle(m.random(0, 64), wanted[i]) if guess is None else (q[[i]], left[[i]])
            q[i] = tried[np.argmin(open_by)]
            if open_by.min() > CLOSED:
                raise ModelError(
                    f"inverse_kinematics: '{self.platform}' does not get to {wanted[i].tolist()}, {open_by.min():.2g} of the robot's size "
                    "or rad are left; give a pose within reach, or a guess that is nearer"
                )
        return q.reshape(*batch, m.nq)

    @cached_property
    def _positions(self) -> Positions:
        return Positions(self.model, self.platform, self.tool)

    def _pose_key(self, q: np.ndarray) -> np.ndarray:
        """Return what tells ways to assemble the robot apart: the pose of the platform."""
        pose = self._positions.pose(q)
        pose[..., :3, 3] /= mechanism_size(self.model)
        return pose[..., :3, :].reshape(len(q), -1)

    def _combined(self, postures: list[np.ndarray]) -> np.ndarray:
        """Return all positions that postures of the legs can be put together to."""
        combined = np.array(list(product(*(range(len(own)) for own in postures))))
        q = postures[0][combined[:, 0]].copy()
        tree = self.model.tree()
        for number, (leg, own) in enumerate(zip(self._generic_plan.legs, postures, strict=True)):
            for k in leg.bodies:
                q[:, tree.q_slices[k]] = own[combined[:, number]][:, tree.q_slices[k]]
        return q

    def _motor_key(self, q: np.ndarray, motors: Collection[int]) -> np.ndarray:
        """Return what tells postures apart: the positions of motors, without whole turns."""
        found = [np.zeros(len(q))]
        for i in motors:
            x = q[:, places(self.model, [i], "inverse_kinematics")[0]]
            found += [x] if self.model.v_units[i] == "m/s" else [np.cos(x), np.sin(x)]
        return np.stack(found, axis=1)

    def _sorted(self, q: np.ndarray) -> np.ndarray:
        """Return positions with angles within half a turn of zero, in the order of their coordinates."""
        q = q.copy()
        for joint, i, j in self.model.coordinate_places.values():
            if joint.nq == joint.nv and self.model.v_units[j] != "m/s":
                q[:, i] -= 2.0 * np.pi * np.round(q[:, i] / (2.0 * np.pi))
        return q[np.lexsort(np.round(q, 9).T[::-1])]

    # kernels

    @cached_property
    def rates(self) -> ConstrainedKernel:
        """The function (q, rate) -> v. (7)-(13)."""

        def planned(platform: Platform, q: Any, rate: Any) -> Any:
            v = platform.rates(rate[self._of_plan])
            return v, v

        return self._kinematics("rates", "v", planned, lambda closed, x: closed.rates(spread(self.model, self._at, x)), ("q", "rate"))

    @cached_property
    def jacobian(self) -> ConstrainedKernel:
        """The function q -> J (6, motors), with J rate the angular velocity of the platform and the velocity of its tool. (14)."""

        def planned(platform: Platform, q: Any) -> Any:
            J, _ = platform.jacobian()
            return self._at_tool(platform) @ J[:, self._of_user], self._probed(platform, J)

        def pivoted(following: PivotedMap) -> Any:
            return _jacobian(following.tree, following.q, self.platform, self.tool) @ following.basis()[:, self._at]

        return self._kinematics("jacobian", "jacobian", planned, pivoted)

    @cached_property
    def mass_matrix(self) -> ConstrainedKernel:
        """The function q -> generalised inertia (motors, motors). (26)-(34)."""

        def planned(platform: Platform, q: Any) -> Any:
            mass = denoc.generalised_inertia(platform, q)[np.ix_(self._of_user, self._of_user)]
            return mass, self._probed(platform, platform.jacobian()[0])

        def pivoted(following: PivotedMap) -> Any:
            N = following.basis()[:, self._at]
            return N.T @ composite_body.mass_matrix(following.tree, following.q) @ N

        return self._kinematics("mass_matrix", "mass", planned, pivoted)

    @cached_property
    def accelerations(self) -> ConstrainedKernel:
        """The function (q, v, acceleration) -> vdot."""

        def planned(tree: Tree, plan: PlatformPlan, q: Any, v: Any, acceleration: Any) -> Any:
            platform = Platform(tree, q, plan, v)
            vdot = platform.rates(acceleration[self._of_plan])
            return vdot, platform.solution(vdot)

        def pivoted(following: PivotedMap, v: Any, acceleration: Any) -> Any:
            return following.accelerations(v, spread(self.model, self._at, acceleration))

        return self._kernel("accelerations", ("q", "v", "acceleration"), "vdot", planned, pivoted)

    @cached_property
    def inverse_dynamics(self) -> ConstrainedKernel:
        """The function (q, v, acceleration) -> tau of the motors. (19)-(24)."""

        def planned(tree: Tree, plan: PlatformPlan, q: Any, v: Any, acceleration: Any, force: Any, wrenches: Any) -> Any:
            tau, solved = denoc.inverse_dynamics(tree, q, v, acceleration[self._of_plan], force, wrenches, plan=plan)
            return tau[self._of_user], solved

        def pivoted(following: PivotedMap, v: Any, acceleration: Any, force: Any, wrenches: Any) -> Any:
            vdot = following.accelerations(v, spread(self.model, self._at, acceleration))
            return following.on_independent(newton_euler.inverse_dynamics(following.tree, following.q, v, vdot, wrenches) - force)[self._at]

        return self._kernel("inverse_dynamics", ("q", "v", "acceleration"), "tau", planned, pivoted, acting=True)

    @cached_property
    def forward_dynamics(self) -> ConstrainedKernel:
        """The function (q, v, tau) -> acceleration of the motors, under their joint forces tau."""

        def planned(tree: Tree, plan: PlatformPlan, q: Any, v: Any, tau: Any, force: Any, wrenches: Any) -> Any:
            solved = denoc.forward_dynamics(tree, q, v, spread(self.model, self._at, tau) + force, wrenches, plan=plan)
            return solved.vdot[self._at], solved

        def pivoted(following: PivotedMap, v: Any, tau: Any, force: Any, wrenches: Any) -> Any:
            tree, q = following.tree, following.q
            N, vdot = following.basis()[:, self._at], following.accelerations(v, np.zeros(tree.nv))
            left = spread(self.model, self._at, tau) + force - newton_euler.inverse_dynamics(tree, q, v, vdot, wrenches)
            return Factor(N.T @ composite_body.mass_matrix(tree, q) @ N).solve(N.T @ left)

        return self._kernel("forward_dynamics", ("q", "v", "tau"), "acceleration", planned, pivoted, acting=True)

    # singularities, complements

    def singularities(self, q: Any) -> Singularities:
        """Return how near positions (..., nq) are to singular ones, of type 1 and of type 2; refuse those that leave a loop open.

        >>> from catena.examples import planar_3rrr
        >>> robot = ct.ParallelManipulator(planar_3rrr(), ["leg1_proximal", "leg2_proximal", "leg3_proximal"])
        >>> near = robot.singularities(robot.forward_kinematics([0.1, 0.2, -0.1]))
        >>> near.type_1.shape, bool(0.0 < near.type_2 < 1.0)
        ((3,), True)
        """
        q = np.asarray(q, dtype=float)
        lost = ~np.isfinite(q).all(axis=-1, keepdims=True)  # NumPy would refuse the whole batch
        gram, squares, F, B, at_tool, open_by = self._measures(np.where(lost, self._for[1], q))
        for at in np.argwhere(open_by > LOOSE).tolist():
            raise ArgumentError(left_open(self.model, f"singularities: {f'state {tuple(at)}' if at else 'the state'}", q[tuple(at)]))
        sizes = np.sqrt(np.maximum(squares, 1e-300))
        gram = gram / (sizes[..., :, None] * sizes[..., None, :])
        type_1 = np.zeros(squares.shape)
        for leg in self._generic_plan.legs:
            own = [self._at.index(j) for j in leg.actuated]
            if own:
                type_1[..., own] = np.linalg.eigvalsh(gram[..., own, :][..., own])[..., :1]
            if own and leg.closure is None and self._generic_plan.space is not None and self.freedom < self._generic_plan.motions:
                given = [n for n, j in enumerate(velocity_coordinates(self.model.tree(), leg.bodies)) if j in leg.actuated]
                passive = np.delete(at_tool, given, axis=-1)
                moved = at_tool[..., given] / np.maximum(np.linalg.norm(at_tool[..., given], axis=-2, keepdims=True), 1e-300)
                left = moved - passive @ (np.linalg.pinv(passive, rcond=ZERO) @ moved)
                type_1[..., own] = np.linalg.eigvalsh(np.swapaxes(left, -1, -2) @ left)[..., :1]
        weight = np.repeat([1.0, 1.0 / mechanism_size(self.model) ** 2], 3)
        inverse = np.linalg.inv(np.linalg.cholesky(np.swapaxes(B, -1, -2) * weight @ B))
        squared, along = np.linalg.eigh(inverse @ F @ np.swapaxes(inverse, -1, -2))
        motion = (B @ (np.swapaxes(inverse, -1, -2) @ along[..., :1]))[..., 0]
        soft = np.maximum(squared[..., 0], 0.0) / np.maximum(squared[..., -1], 1e-300)
        type_1 = np.sqrt(np.clip(type_1, 0.0, 1.0))
        return Singularities(np.where(lost, np.nan, type_1), np.where(lost[..., 0], np.nan, np.sqrt(soft)), np.where(lost, np.nan, motion))

    @cached_property
    def _measures(self) -> Kernel:
        """The function q -> what is left of the motors' columns in their legs, of what squares; Phi of (14a), and the motions it is for."""
        scale = np.repeat([1.0, 1.0 / mechanism_size(self.model)], 3)
        first, *others = self._generic_plan.legs
        if self._generic_plan.space is not None:  # rows that are orthonormal, lengths in sizes of the mechanism
            left, sizes, _ = np.linalg.svd(np.array(first.rows).T * scale[:, None], full_matrices=False)
            basis = left[:, sizes > ZERO * sizes[0]].T * scale
            first = first._replace(rows=tuple(map(tuple, basis.tolist())))
        plan, units = replace(self._generic_plan, legs=(first, *others)), loop_units(self.model)

        def function(tree: Tree, q: Any) -> Any:
            platform = Platform(tree, q, plan, units=units)
            gram, squares = np.zeros((self.freedom, self.freedom)).astype(object), np.zeros(self.freedom).astype(object)
            for leg in platform.legs:
                own = [self._at.index(j) for j in leg.leg.actuated]
                if own:
                    gram[np.ix_(own, own)] = leg.given.T @ leg.Phi @ leg.given
                    squares[own] = [column @ column for column in leg.given.T]
            point = self._point(platform)
            at_tool = [platform.columns[j][3:] + cross(platform.columns[j][:3], point) for j in platform.legs[0].coordinates]
            open_by = largest(platform.values * (1.0 / np.array(units)))
            return gram, squares, platform.F, self._at_tool(platform), np.stack(at_tool, axis=1), open_by

        outputs = ("gram", "squares", "F", "motions", "at_tool", "open_by")
        return traced_kernel(self.model, "singularities", ("q",), outputs, function, _METHOD, _SOURCE)

    def complements(self, q: Any) -> Complements:
        """Return N_l, N_c and N_d at positions q that close the loops. (15)-(17).

        >>> from catena.examples import five_bar_robot
        >>> robot = ct.ParallelManipulator(five_bar_robot(), ["leg1_proximal", "leg2_proximal"])
        >>> found = robot.complements(robot.forward_kinematics([0.5, 0.5]))
        >>> found.N_l.shape, found.N_c.shape, found.N_d.shape, found.N.shape
        ((24, 24), (24, 12), (12, 2), (24, 2))
        """
        m, q = self.model, np.asarray(q, dtype=float)
        if q.shape != (m.nq,):
            raise ArgumentError(f"complements: q has the shape {q.shape}; give ({m.nq},)")
        if not loop_residuals(m, q).sizes.max(initial=0.0) <= LOOSE:
            raise ArgumentError(left_open(m, "complements: q", q))
        tree = m.tree()
        N_l, N_c, N_d, own = denoc.complements(Platform(tree, q, platform_plan(m, q, self._at, afloat=False)))
        to_world = np.stack([tree.ground.inverse().motion(unit) for unit in np.eye(6)], axis=1).astype(float)
        bodies, motors = (np.kron(np.eye(number), to_world) for number in (len(own), self.freedom))
        back = np.linalg.inv(motors)
        order = np.ravel([range(6 * n, 6 * n + 6) for n in self._of_user])
        return Complements(
            bodies @ N_l @ np.linalg.inv(bodies),
            (bodies @ N_c @ back)[:, order],
            (motors @ N_d)[order][:, self._of_user],
            tuple(m.v_names[j] for j in own),
        )

    # how

    def _plan(self, m: Mechanism, q: Any) -> PlatformPlan:
        return platform_plan(m, q, self._at)

    def _at_tool(self, platform: Platform) -> Any:
        """Return the motions of the platform as those of its tool, in the world's axes."""
        point, R = self._point(platform), platform.tree.ground.R
        return np.stack([np.concatenate([R @ x[:3], R @ (x[3:] + cross(x[:3], point))]) for x in platform.B.T], axis=1)

    def _point(self, platform: Platform) -> Any:
        """Return where the tool is, from the ground's origin."""
        _, offset = platform.tree.frames[self.platform]
        return platform.end.p + platform.end.R @ (offset.p + offset.R @ self.tool)

    def _kinematics(
        self, name: str, output: str, planned: Callable[..., Any], pivoted: Callable[..., Any], inputs: tuple[str, ...] = ("q",)
    ) -> ConstrainedKernel:  # fmt: skip
        """Return the kernel of a function of the platform at q, which also gives rates that are to keep the loops closed."""

        def solved(tree: Tree, plan: PlatformPlan, q: Any, *rest: Any) -> Any:
            platform = Platform(tree, q, plan)
            result, rates = planned(platform, q, *rest)
            return result, platform.solution(rates)

        return self._kernel(name, inputs, output, solved, pivoted)

    def _kernel(
        self,
        name: str,
        inputs: tuple[str, ...],
        output: str,
        planned: Callable[..., Any],
        pivoted: Callable[..., Any],
        acting: bool = False,
    ) -> ConstrainedKernel:
        """Return the kernel of `planned(tree, plan, *inputs) -> result, solution`; where that does not fit, of `pivoted(following, …)`,
        whose coordinates follow the motors by pivots chosen at run time. If `acting`, both take the forces and wrenches that act.
        """
        m = self.model

        def of_plan(plan: PlatformPlan) -> Any:
            def function(tree: Tree, q: Any, *rest: Any) -> Any:
                result, solved = planned(tree, plan, q, *rest)
                return result, solved_flags(m, solved, tree, rest[0] if "v" in inputs else None)

            return function

        def of_pivots(tree: Tree, q: Any, *rest: Any) -> Any:
            following = PivotedMap(tree, q, self._at, measures(m))
            result = pivoted(following, *rest)
            return result, following_flags(m, following, rest[0] if "v" in inputs else None)

        kernel = partial(dynamics_kernel if acting else traced_kernel, m, name, inputs, (output, "flags"))
        shapes = dict.fromkeys(("rate", "acceleration", "tau"), (self.freedom,))
        make = partial(kernel, method=_METHOD, references=_SOURCE, shapes=shapes)
        return planned_kernel(m, self._for, self._plan, of_plan, of_pivots, make, partial(explanation, m))

    def _probed(self, platform: Platform, J: Any) -> Any:
        """Return the rates of all joints for generic ones of the motors, where J leads from these to the platform."""
        rates = np.cos(2.0 + 3.0 * np.arange(self.freedom)) * coordinate_units(self.model)[self._at][self._of_plan]
        return platform.joint_rates(J @ rates, rates)
