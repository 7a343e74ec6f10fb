"""States of mechanisms with loops: checked where runs begin, and put on the constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ArgumentError
from catena.formulations.cubic import all_constraints
from catena.formulations.loops.constraints import constraint_motion
from catena.kernels.dynamics import loop_error
from catena.kernels.state_flags import pivoted_flags
from catena.loops.assembly import loop_residuals
from catena.loops.conditioning import largest, measures, opens
from catena.loops.projection import traced_state
from catena.loops.scaling import loop_sizes, loop_units
from catena.model import Mechanism, Tree
from catena.native import Kernel, compile_graph
from catena.tolerances import LOOSE, SINGULAR


class Settled(NamedTuple):
    """States put on the constraints; how many of these are independent there, and which states are regular."""

    q: np.ndarray
    v: np.ndarray
    ranks: np.ndarray
    regular: np.ndarray

    @staticmethod
    def by(kernel: Kernel, *arrays: Any, **named: Any) -> Settled:
        """Return what the kernel of `settling` has for states, given in its order or by name."""
        q, v, ranks, least, flags = kernel(*arrays, **named)
        return Settled(q, v, ranks.astype(int), (flags == 0.0) & (least**2 > SINGULAR))


def settling(m: Mechanism) -> Kernel:
    """Return the kernel that puts states (t, q, v) on the constraints, and finds how many of these are independent."""

    def make() -> Kernel:
        trace, tree, q, v = traced_state("settled", m)
        q, v, _, _ = all_constraints.project(tree, q, v, m.moved, measures=measures(m))
        solved = all_constraints.forward_dynamics(tree, q, v, np.zeros(m.nv), measures=measures(m))
        flag = pivoted_flags(solved, v)
        return compile_graph(trace.graph(q=q, v=v, rank=solved.rank, least=solved.least, flag=flag))

    return m.once("settled", (), make)


def settled(m: Mechanism, t: np.ndarray, q: np.ndarray, v: np.ndarray, given: Sequence[np.ndarray] = ()) -> Settled:
    """Return states (N, nq), (N, nv) at times (N,) put on the constraints.

    Numbers that the model varies are `given`, as in all that follows.
    """
    return Settled.by(settling(m), t, q, v, *given)


def opening(m: Mechanism, t: Any, q: np.ndarray, given: Sequence[np.ndarray] = ()) -> np.ndarray:
    """Return how far the loops are open at configurations (N, nq) at times (N,): the worst, as a length [m] or an angle [rad]."""
    return m.once("loop error", (), lambda: loop_error(m))(*((t,) if m.driven_names else ()), q, *given).max(axis=-1)


def check_velocities(
    m: Mechanism, t: float, q: np.ndarray, v: np.ndarray, batch: tuple[int, ...], name: str, given: Sequence[np.ndarray] = ()
) -> None:
    """Refuse velocities (N, nv) that open the loops at positions (N, nq) which close them at a time, as kernels do."""
    units = np.array(loop_units(m))

    def rates(tree: Tree, q: Any, v: Any) -> Any:
        return largest(constraint_motion(tree, q, v)[0] * (1.0 / units))

    def make() -> Kernel:
        trace, *state = traced_state("loop rates", m)
        return compile_graph(trace.graph(rate=rates(*state)))

    # one state is not worth compiling for
    compiled = len(q) > 1 or m.varied
    speeds = m.once("loop rates", (), make)(t, q, v, *given) if compiled else np.array([float(rates(m.tree().at(t), *q, *v))])
    opening = np.flatnonzero(opens(speeds, np.abs(v).sum(axis=1)))
    if len(opening):
        at = [int(k) for k in np.unravel_index(opening[0], batch)] or ""
        time = f", t={t:g}" if m.driven_names else ""
        raise ArgumentError(
            f"{name}{at} would open the loops of model '{m.name}', at a rate of {speeds[opening[0]]:.2g}; give velocities that keep them "
            f"closed, by m.project_velocity(q0, v0{time})"
        )


def check_closed(
    m: Mechanism, t: float, q: np.ndarray, batch: tuple[int, ...], name: str, remedy: str, given: Sequence[np.ndarray] = ()
) -> None:
    """Refuse positions (N, nq) that do not close the loops at a time."""
    suspects: Any = range(len(q))
    if len(q) > 1:  # what is not clear at once is looked at one by one
        suspects = np.flatnonzero(~(opening(m, t, q, given) <= LOOSE * min((1.0, *loop_sizes(m)))))
    for i in suspects:
        values = {path: x[min(i, len(x) - 1)] for path, x in zip(m.varied, given, strict=True)}
        residual = loop_residuals((m.with_values(values) if values else m).at(t), q[i])
        if not residual.sizes.max(initial=0.0) <= LOOSE:
            at = [int(k) for k in np.unravel_index(i, batch)] or ""
            by = f"by {residual.sizes.max():.2g} of its size or rad"
            raise ArgumentError(f"{name}{at} leaves loop '{residual.worst}' of model '{m.name}' open, {by}; {remedy}")
