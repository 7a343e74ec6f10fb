"""A mechanism with loops by its independent coordinates: what the others do, and its equations of motion in as many unknowns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any

import numpy as np

from catena.assembly import TOLERANCE, coordinate_units
from catena.closed import apart_by, coordinates, flags, largest, places
from catena.constrained import ConstrainedKernel
from catena.errors import ArgumentError, ModelError, SingularWarning
from catena.formulations.inverse import newton_euler
from catena.formulations.mass import composite_body
from catena.formulations.partition import Closed, Partition
from catena.mobility import mobility, partition, usual
from catena.model import Model, Tree
from catena.native import Kernel
from catena.references import REFERENCES
from catena.tracing import dynamics_kernel, frozen, traced_kernel

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

    All take batches. But for `positions`, they are compiled when they are first used. Where joints are driven, they take t before the rest,
    but `positions(x, guess, t)`; rates have what the driven joints do besides N rate.
    """

    def __init__(self, m: Model, independent: Collection[str] | None = None) -> None:
        m = frozen(m, "reduced")
        if not m.has_loops:
            raise ModelError(f"reduced: model '{m.name}' has no loops, and all its coordinates are independent; use ct.mass_matrix")
        found = mobility(m)
        self.model, self._usual = m, usual(m)
        self._at = list(coordinates(m, found.independent if independent is None else independent, "reduced: independent"))
        self.names: tuple[str, ...] = tuple(m.v_names[i] for i in self._at)
        if len(set(self._at)) != found.freedom:
            raise ModelError(
                f"reduced: {len(set(self._at))} independent coordinates are named, and model '{m.name}' has {found.freedom} degrees of "
                f"freedom; name as many, such as {', '.join(map(repr, found.independent))}"
            )
        left = set(range(m.nv)) - set(self._at) - set(self._plan(*self._usual).dependent)
        if left:
            raise ModelError(
                f"reduced: {', '.join(self.names)} do not determine {', '.join(m.v_names[i] for i in sorted(left))} of model '{m.name}'; "
                f"name other coordinates, such as {', '.join(map(repr, found.independent))}"
            )

    def __repr__(self) -> str:
        return f"<Reduced '{self.model.name}': {self.model.nv} coordinates from {', '.join(self.names)}>"

    def _plan(self, m: Model, q: Any) -> Partition:
        return partition(m, q, never=self._at)

    @cached_property
    def rates(self) -> ConstrainedKernel:
        """The function (q, rate) -> v."""
        return self._kernel("rates", ("q", "rate"), "v", lambda closed, rate: closed.rates(self._spread(rate)))

    @cached_property
    def basis(self) -> ConstrainedKernel:
        """The function q -> N (nv, freedom), with v = N rate."""
        return self._kernel("basis", ("q",), "basis", self._basis)

    @cached_property
    def mass_matrix(self) -> ConstrainedKernel:
        """The function q -> mass matrix (freedom, freedom), with which kinetic energy is rate @ mass @ rate / 2."""

        def function(closed: Closed) -> Any:
            N = self._basis(closed)
            return N.T @ composite_body.mass_matrix(closed.tree, closed.q) @ N

        return self._kernel("mass_matrix", ("q",), "mass", function)

    @cached_property
    def accelerations(self) -> ConstrainedKernel:
        """The function (q, v, acceleration) -> vdot."""

        def make(chosen: Partition) -> Kernel:
            def function(tree: Tree, q: Any, v: Any, acceleration: Any) -> Any:
                closed = Closed(tree, q, chosen)
                return closed.accelerations(v, self._spread(acceleration)), flags(self.model, closed, v=v)

            inputs, outputs = ("q", "v", "acceleration"), ("vdot", "flags")
            return traced_kernel(self.model, "accelerations", inputs, outputs, function, _METHOD, _SOURCE, self._shapes)

        return self._constrained(make)

    @cached_property
    def bias_force(self) -> ConstrainedKernel:
        """The function (q, v) -> bias, with mass @ acceleration + bias = N.T @ tau; where a force depends on time, (t, q, v) -> bias."""

        def make(chosen: Partition) -> Kernel:
            def function(tree: Tree, q: Any, v: Any, force: Any, wrenches: Any) -> Any:
                closed = Closed(tree, q, chosen)
                vdot = closed.accelerations(v, np.zeros(self.model.nv))
                bias = closed.on_independent(newton_euler.inverse_dynamics(tree, q, v, vdot, wrenches) - force)
                return bias[self._at], flags(self.model, closed, v=v)

            return dynamics_kernel(self.model, "bias_force", ("q", "v"), ("bias", "flags"), function, _METHOD, _SOURCE)

        return self._constrained(make)

    def positions(self, x: Any, guess: Any = None, t: Any = None) -> np.ndarray:
        """Return the positions (..., nq) that close the loops, with the independent coordinates x (..., freedom).

        They are followed from a guess, which picks the branch; without one, from a configuration that closes the loops. A guess that does
        not close them is closed first, with its own independent coordinates. Where joints are driven, the positions are those at the times
        t (...), 0 if not given; without a guess they are followed from t = 0. Of values that are not finite they are NaN.
        """
        m = self.model
        times = np.asarray(0.0 if t is None else t, dtype=float)
        places = self._places()
        x = np.asarray(x, dtype=float)
        if x.shape[-1:] != (len(places),):
            raise ArgumentError(f"positions: x has the shape {x.shape}; give (..., {len(places)}), the values of {', '.join(self.names)}")
        start = m.assemble() if guess is None else np.asarray(guess, dtype=float)
        if start.shape[-1:] != (m.nq,):
            raise ArgumentError(f"positions: guess has the shape {start.shape}; give (..., {m.nq})")
        batch = np.broadcast_shapes(x.shape[:-1], start.shape[:-1], times.shape)
        times = np.broadcast_to(times, batch).reshape(-1)
        first = times if guess is not None else np.zeros(len(times))
        x = np.broadcast_to(x, (*batch, len(places))).reshape(len(times), len(places))
        start = np.broadcast_to(start, (*batch, m.nq)).reshape(len(times), m.nq)
        start, found = start.copy(), np.full(start.shape, np.nan)
        left = np.flatnonzero(np.isfinite(np.column_stack([x, start, times])).all(axis=1))
        if guess is not None and len(left):
            closed, sure = self._walk(start[left], start[left][:, places], places, 1, first[left], first[left], SURE * NEWTON)
            start[left] = np.where(sure[:, None], closed, start[left])
        for steps in WALKS[0 if guess is not None else 1 :]:
            if not len(left):
                break
            walked, sure = self._walk(start[left], x[left], places, steps, first[left], times[left])
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

    # --- how

    def _walk(
        self, q: np.ndarray, x: np.ndarray, places: list[int], steps: int, since: np.ndarray, until: np.ndarray, most: float = SURE
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return where the loops lead as the independent coordinates move to x, and which states kept to their branch all the way.

        They do where no step moves an independent coordinate by more than a radian, or corrects one by more than `most`.
        """
        q, nq = q.copy(), self.model.nq
        first = q[:, places]
        sure = (np.abs(x - first) <= steps * MOVE * coordinate_units(self.model)[self._at]).all(axis=1)
        apart = np.zeros(len(q))
        for i in range(1, steps + 1):
            q[:, places] = first + (i / steps) * (x - first) if i < steps else x
            times = since + (i / steps) * (until - since) if i < steps else until
            moved = np.zeros(len(q))
            for _ in range(NEWTON if sure.any() else 0):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SingularWarning)  # a walk that comes to such a state does not go on
                    found = self._newton(*((times[sure], q[sure]) if self.model.driven_names else (q[sure],)))
                size = found[:, nq]
                q[sure], moved[sure], apart[sure] = found[:, :nq], moved[sure] + size, found[:, nq + 1]
                sure &= np.isfinite(moved) & (moved < most)
                if not sure.any() or size.max() < 1e-14:
                    break
        return q, sure & (apart <= TOLERANCE)

    @cached_property
    def _newton(self) -> ConstrainedKernel:
        """One step of Newton's: q -> (q that is nearer, how far it is away, how far apart the loops are at q)."""
        m = self.model
        columns = coordinate_units(m)

        def function(closed: Closed) -> Any:
            change, apart = closed.correction(), apart_by(m, closed)
            return np.array([*m.chart(closed.q, change), largest(change * (1.0 / columns)), apart], dtype=object)

        return self._kernel("positions", ("q",), "q_next", function, opened=False)

    def _kernel(
        self, name: str, inputs: tuple[str, ...], output: str, function: Callable[..., Any], opened: bool = True
    ) -> ConstrainedKernel:  # fmt: skip
        def make(chosen: Partition) -> Kernel:
            def traced(tree: Tree, q: Any, *rest: Any) -> Any:
                closed = Closed(tree, q, chosen)
                return function(closed, *rest), flags(self.model, closed, opened=opened)

            return traced_kernel(self.model, name, inputs, (output, "flags"), traced, _METHOD, _SOURCE, self._shapes)

        return self._constrained(make)

    def _constrained(self, make: Callable[[Partition], Kernel]) -> ConstrainedKernel:
        return ConstrainedKernel(self.model, self._usual, self._plan, make)

    @property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("rate", "acceleration"), (len(self._at),))

    def _spread(self, x: Any) -> Any:
        """Return a vector of all velocity coordinates, with x in the place of the independent ones."""
        spread = np.zeros(self.model.nv).astype(object)
        spread[self._at] = x
        return spread

    def _basis(self, closed: Closed) -> Any:
        return closed.basis()[:, self._at]

    def _places(self) -> list[int]:
        """Return where the independent coordinates are among the positions."""
        return places(self.model, self._at, "positions")


def reduced(m: Model, independent: Collection[str] | None = None) -> Reduced:
    """Return a mechanism with loops by its independent coordinates: kinematics of the others, mass matrix and bias in as many unknowns.

    `independent` names as many velocity coordinates as the mechanism has degrees of freedom; without it, those of `m.mobility()`.

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
    return Reduced(m, independent)
