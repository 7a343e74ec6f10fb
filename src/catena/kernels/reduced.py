"""A mechanism with loops by its independent coordinates: what the others do, and its equations of motion in as many unknowns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from catena.errors import ArgumentError, ModelError, SingularWarning
from catena.formulations.inverse import newton_euler
from catena.formulations.loops.dependence import DependentMap
from catena.formulations.loops.partitions import CoordinatePartition
from catena.formulations.loops.pivoted_constraints import PivotedMap
from catena.formulations.mass import composite_body
from catena.kernels.named_coordinates import coordinates, places, spread
from catena.kernels.planned import ConstrainedKernel, planned_kernel
from catena.kernels.state_flags import flags, following_flags
from catena.kernels.tracing import Parameters, dynamics_kernel, frozen, traced_kernel
from catena.loops.assembly import assemble, assemble_all
from catena.loops.conditioning import largest, largest_residual, measures
from catena.loops.mobility import mobility, partition, rank
from catena.loops.plan_library import configuration
from catena.loops.scaling import coordinate_units
from catena.model import Mechanism, Tree
from catena.model.parameters import given_values
from catena.references import REFERENCES
from catena.tolerances import CLOSED

#: Steps in which positions are followed from a known configuration to those asked for; each number is tried where the one before fails.
WALKS = (1, 32, 256)

#: Steps of Newton's at most; how far the independent coordinates may move at one of the steps of a walk, and the others be corrected,
#: relative to size or in radians.
NEWTON, MOVE, SURE = 20, 1.0, 0.3

_METHOD, _SOURCE = "coordinate partitioning", (REFERENCES["WH82"],)


class Reduced:
    """The independent coordinates of a mechanism, and functions of arrays that lead from them to all others, and back.

    With x the independent coordinates, named by `names`:

        positions(x)                         -> q     that closes the loops
        rates(q, rate)                       -> v
        accelerations(q, v, acceleration)    -> vdot
        basis(q)                             -> N     (nv, freedom), v = N rate
        mass_matrix(q)                       -> mass  (freedom, freedom)
        bias_force(q, v)                     -> bias  mass @ acceleration + bias = N.T @ tau
        sensitivity(path)(q)                 -> dq    (nv, ...) by a number of the model, x held

    All take batches. But for `positions`, they are compiled when they are first used. Where joints are driven, they take t before the rest,
    but `positions(x, guess, t)`; rates have what the driven joints do besides N rate.
    """

    def __init__(self, m: Mechanism, independent: Collection[str] | None = None, at: Any = None, parameters: Parameters = ()) -> None:
        m = frozen(m, "reduced", parameters, at=at)
        if not m.has_loops:
            raise ModelError(f"reduced: model '{m.name}' has no loops, and all its coordinates are independent; use ct.mass_matrix")
        self.model = m
        named = None if independent is None else coordinates(m, independent, "reduced: independent")

        def determine(now: Mechanism, q: Any) -> bool:
            return len(partition(now, q, never=named or ()).dependent) == m.nv - len(set(named or ())) == rank(now, q)

        self.made_for = configuration(m, at) if named is None else configuration(m, at, determine)
        self._start = None if at is None else self.made_for[1]
        found = mobility(*self.made_for)
        self._at = list(coordinates(m, found.independent, "reduced: independent") if named is None else named)
        self.names: tuple[str, ...] = tuple(m.v_names[i] for i in self._at)
        if len(set(self._at)) != found.freedom:
            raise ModelError(
                f"reduced: {len(set(self._at))} independent coordinates are named, and model '{m.name}' has {found.freedom} degrees of "
                f"freedom; name as many, such as {', '.join(map(repr, found.independent))}"
            )
        left = set(range(m.nv)) - set(self._at) - set(self._plan(*self.made_for).dependent)
        if left:
            raise ModelError(
                f"reduced: {', '.join(self.names)} do not determine {', '.join(m.v_names[i] for i in sorted(left))} of model '{m.name}'; "
                f"name other coordinates, such as {', '.join(map(repr, found.independent))}, or give at=q on another branch"
            )

    def __repr__(self) -> str:
        return f"<Reduced {self.model.name!r}: {self.model.nv} coordinates from {', '.join(self.names)}>"

    def _plan(self, m: Mechanism, q: Any) -> CoordinatePartition:
        return partition(m, q, never=self._at)

    @cached_property
    def rates(self) -> ConstrainedKernel:
        """The function (q, rate) -> v."""
        return self.kernel("rates", ("q", "rate"), "v", lambda closed, rate: closed.rates(spread(self.model, self._at, rate)))

    @cached_property
    def basis(self) -> ConstrainedKernel:
        """The function q -> N (nv, freedom), with v = N rate."""
        return self.kernel("basis", ("q",), "basis", lambda closed: closed.basis()[:, self._at])

    @cached_property
    def mass_matrix(self) -> ConstrainedKernel:
        """The function q -> mass matrix (freedom, freedom), with which kinetic energy is rate @ mass @ rate / 2."""

        def function(closed: Any) -> Any:
            N = closed.basis()[:, self._at]
            return N.T @ composite_body.mass_matrix(closed.tree, closed.q) @ N

        return self.kernel("mass_matrix", ("q",), "mass", function)

    @cached_property
    def accelerations(self) -> ConstrainedKernel:
        """The function (q, v, acceleration) -> vdot."""

        def function(closed: Any, v: Any, acceleration: Any) -> Any:
            return closed.accelerations(v, spread(self.model, self._at, acceleration))

        return self.kernel("accelerations", ("q", "v", "acceleration"), "vdot", function)

    @cached_property
    def bias_force(self) -> ConstrainedKernel:
        """The function (q, v) -> bias, with mass @ acceleration + bias = N.T @ tau; where a force depends on time, (t, q, v) -> bias."""

        def function(closed: Any, v: Any, force: Any, wrenches: Any) -> Any:
            vdot = closed.accelerations(v, np.zeros(self.model.nv))
            bias = closed.on_independent(newton_euler.inverse_dynamics(closed.tree, closed.q, v, vdot, wrenches) - force)
            return bias[self._at]

        return self.kernel("bias_force", ("q", "v"), "bias", function, acting=True)

    def positions(self, x: Any, /, guess: Any = None, t: Any = None, **parameters: Any) -> np.ndarray:
        """Return the positions (..., nq) that close the loops, with the independent coordinates x (..., freedom).

        They are followed from a guess, which picks the branch; without one, from the configuration that the reduction was made for, or
        another that closes the loops. A guess that does not close them is closed first, with its own independent coordinates. Where joints
        are driven, the positions are those at the times t (...), 0 if not given; without a guess they are followed from t = 0. Of
        values that are not finite they are NaN. Numbers of the model that the reduction was made with as parameters may be given by name,
        with leading axes; the start is then led to each geometry first, and positions of one that does not go together are NaN.
        """
        m = self.model
        for path in parameters.keys() - {*m.varied}:
            raise ArgumentError(f"positions: '{path}' is not a parameter of the reduction; name it in ct.reduced(m, parameters=[...])")
        times = np.asarray(0.0 if t is None else t, dtype=float)
        at = places(m, self._at, "positions")
        x = np.asarray(x, dtype=float)
        if x.shape[-1:] != (len(at),):
            raise ArgumentError(f"positions: x has the shape {x.shape}; give (..., {len(at)}), the values of {', '.join(self.names)}")
        start = np.asarray(guess if guess is not None else assemble(m) if self._start is None else self._start, dtype=float)
        if start.shape[-1:] != (m.nq,):
            raise ArgumentError(f"positions: guess has the shape {start.shape}; give (..., {m.nq})")
        known = {path: m.parameters()[path] for path in m.varied}
        values = {path: known[path].value for path in known} | given_values(m, parameters, "positions")
        if parameters:
            if start.ndim > 1:
                raise ArgumentError(f"positions: with parameters, give one guess ({m.nq},); it has the shape {start.shape}")
            start = assemble_all(m, {path: values[path] for path in parameters}, start, {}, None)
        batch = np.broadcast_shapes(x.shape[:-1], start.shape[:-1], times.shape)
        given = [np.broadcast_to(values[path], (*batch, *known[path].shape)).reshape(-1, *known[path].shape) for path in known]
        times = np.broadcast_to(times, batch).reshape(-1)
        first = times if guess is not None else np.zeros(len(times))
        x = np.broadcast_to(x, (*batch, len(at))).reshape(len(times), len(at))
        start = np.broadcast_to(start, (*batch, m.nq)).reshape(len(times), m.nq)
        start, found = start.copy(), np.full(start.shape, np.nan)
        left = np.flatnonzero(np.isfinite(np.column_stack([x, start, times])).all(axis=1))
        if guess is not None and len(left):
            own = [number[left] for number in given]
            closed, sure = self._walk(start[left], start[left][:, at], at, 1, first[left], first[left], own, SURE * NEWTON)
            start[left] = np.where(sure[:, None], closed, start[left])
        for steps in WALKS[0 if guess is not None else 1 :]:
            if not len(left):
                break
            walked, sure = self._walk(start[left], x[left], at, steps, first[left], times[left], [number[left] for number in given])
            found[left[sure]] = walked[sure]
            left = left[~sure]
        if len(left):
            values = ", ".join(f"{name} = {value:g}" for name, value in zip(self.names, x[left[0]], strict=True))
            values += f"{', ' if values else ''}t = {times[left[0]]:g} s" if m.driven_names else ""
            raise ModelError(
                f"positions: {len(left)} of {len(x)} cannot be reached from the start, the first with {values}: a loop of model "
                f"'{m.name}' opens, or a singular configuration is on the way; give values within reach, or a guess that is nearer"
            )
        return found.reshape(*batch, m.nq)

    def sensitivity(self, path: str) -> ConstrainedKernel:
        """Return the kernel q -> dq_d... (nv, ...): how positions change with a number of the model while the loops stay closed.

        The number is one that the reduction was made with as a parameter; independent coordinates stay. The change of a quaternion is that
        along its velocities. What follows of a result r of (q, number) is the sum of its derivative by the number, and of that by q times
        this one.

        >>> from catena.examples import four_bar
        >>> crank = ct.reduced(four_bar(), ["crank"], parameters=["pin.at_b.xyz"])
        >>> q = crank.positions([1.0])
        >>> crank.sensitivity("pin.at_b.xyz")(q).round(3) + 0.0
        array([[0.   , 0.   , 0.   ],
               [1.151, 0.   , 0.   ],
               [0.95 , 0.   , 1.667]])
        """
        if path not in self.model.varied:
            raise ArgumentError(f"sensitivity: '{path}' is not a parameter of the reduction; name it in ct.reduced(m, parameters=[...])")
        return self._correction.jacobian("change", path)

    @cached_property
    def _correction(self) -> ConstrainedKernel:
        """How far the dependent coordinates are from closing the loops; by a number of the model, it changes as they do."""
        return self.kernel("sensitivity", ("q",), "change", lambda closed: closed.correction())

    # --- how

    def _walk(
        self, q: np.ndarray, x: np.ndarray, places: list[int], steps: int, since: np.ndarray, until: np.ndarray,
        given: Sequence[np.ndarray], most: float = SURE,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Return where the loops lead as the independent coordinates move to x, and which states kept to their branch all the way.

        They do where no step moves an independent coordinate by more than a radian, or corrects one by more than `most`.
        """
        q, nq = q.copy(), self.model.nq
        first = q[:, places]
        sure = (np.abs(x - first) <= steps * MOVE * coordinate_units(self.model)[self._at]).all(axis=1)
        open_by = np.zeros(len(q))
        for i in range(1, steps + 1):
            q[:, places] = first + (i / steps) * (x - first) if i < steps else x
            times = since + (i / steps) * (until - since) if i < steps else until
            moved = np.zeros(len(q))
            for _ in range(NEWTON if sure.any() else 0):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SingularWarning)  # a walk that comes to such a state does not go on
                    own = [number[sure] for number in given]
                    found = self._newton(*((times[sure],) if self.model.driven_names else ()), q[sure], *own)
                size = found[:, nq]
                q[sure], moved[sure], open_by[sure] = found[:, :nq], moved[sure] + size, found[:, nq + 1]
                sure &= np.isfinite(moved) & (moved < most)
                if not sure.any() or size.max() < 1e-14:
                    break
        return q, sure & (open_by <= CLOSED)

    @cached_property
    def _newton(self) -> ConstrainedKernel:
        """One step of Newton's: q -> (q that is nearer, how far it is away, closure residual at q)."""
        m = self.model
        columns = coordinate_units(m)

        def function(closed: Any) -> Any:
            change = closed.correction()
            open_by = largest_residual(m, closed) if isinstance(closed, DependentMap) else largest(closed.loops.values)
            return np.array([*m.moved(closed.q, change), largest(change * (1.0 / columns)), open_by], dtype=object)

        return self.kernel("positions", ("q",), "q_next", function, opened=False)

    def kernel(
        self, name: str, inputs: tuple[str, ...], output: str, function: Callable[..., Any], opened: bool = True, acting: bool = False,
        references: tuple[str, ...] = _SOURCE,
    ) -> ConstrainedKernel:  # fmt: skip
        """Return the kernel of a function of the solved constraints and of the inputs after q; if `acting`, also of the forces that act."""
        m = self.model

        def given(what: str, rest: tuple[Any, ...]) -> Any:
            return rest[inputs.index(what) - 1] if what in inputs else None

        def planned(chosen: CoordinatePartition) -> Any:
            def traced(tree: Tree, q: Any, *rest: Any) -> Any:
                closed = DependentMap(tree, q, chosen)
                return function(closed, *rest), flags(m, closed, given("v", rest), given("vdot", rest), opened)

            return traced

        def pivoted(tree: Tree, q: Any, *rest: Any) -> Any:
            following = PivotedMap(tree, q, self._at, measures(m), determined=not opened)
            result = function(following, *rest)
            return result, following_flags(m, following, given("v", rest), opened)

        kernel = partial(dynamics_kernel if acting else traced_kernel, m, name, inputs, (output, "flags"))
        shapes = dict.fromkeys(("rate", "acceleration"), (len(self._at),))
        make = partial(kernel, method=_METHOD, references=references, shapes=shapes)
        return planned_kernel(m, self.made_for, self._plan, planned, pivoted, make)


def reduced(m: Mechanism, independent: Collection[str] | None = None, at: Any = None, parameters: Parameters = ()) -> Reduced:
    """Return a mechanism with loops by its independent coordinates: kinematics of the others, mass matrix and bias in as many unknowns.

    `independent` names as many velocity coordinates as the mechanism has degrees of freedom; without it, those of `m.mobility()`.
    Degrees of freedom are counted at the configuration `at` (nq), which closes the loops, or at a generic one; the code is made for it.

    >>> from catena.examples import four_bar
    >>> m = four_bar()
    >>> crank = ct.reduced(m, ["crank"])
    >>> q = crank.positions(np.linspace(0.5, 2.5, 5)[:, None])
    >>> q.round(3)[:2]
    array([[ 0.5  , -0.052,  1.293],
           [ 1.   , -0.655,  1.398]])
    >>> v = crank.rates(q, [2.0])
    >>> crank.mass_matrix(q).shape, crank.bias_force(q, v).shape
    ((5, 1, 1), (5, 1))
    """
    return Reduced(m, independent, at, parameters)
