"""The loops of a run: the constraints that hold it, and when others must take over."""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.assembly import gap, loop_units
from catena.errors import ArgumentError, SimulationError
from catena.formulations import METHODS
from catena.graph import maximum
from catena.kernels import LOOSE, weaker
from catena.mobility import independent_rows
from catena.model import Model, Tree

Array = Any

#: Constraints hold until they are this much less independent than where they were chosen, the square of a sine; at most until `_WEAK`.
_WORSE, _WEAK = 1e-2, 1e-6

#: Constraints that are not chosen must be met to this, relative to the mechanism's size or in radians.
_APART = 1e-11

#: A configuration at which the best constraints are less independent than this is singular.
_SINGULAR = 1e-10


class Closing:
    """The constraints that hold the loops of a model near a configuration, by a method."""

    def __init__(self, model: Model, method: str, q: Array, t: float) -> None:
        closes = METHODS[method].closes
        assert closes is not None
        self.model, self.closes = model, closes
        self.rows = independent_rows(model, q)
        with np.errstate(all="ignore"):
            _, _, pivots, _ = closes.project(model.tree(), q, np.zeros(model.nv), model.chart, plan=self.rows)
        self.units = np.array(loop_units(model))
        (stage,) = pivots
        left, sizes = (np.array([float(row[n]) / self.units[row[0]] ** 2 for row in stage]) for n in (1, 2))
        weak = left.min() / sizes.max()
        if not weak > _SINGULAR:
            raise SimulationError(
                f"simulate '{model.name}': the configuration at t = {t:.9g} s is singular: its constraints are no longer independent of "
                "each other; the motion up to there is in error.trajectory"
            )
        self.limit = min(_WEAK, _WORSE * weak)

    def forward_dynamics(self, tree: Tree, q: Array, v: Array, tau: Array, wrenches: Any) -> Array:
        """Return vdot."""
        return self.closes.forward_dynamics(tree, q, v, tau, wrenches, plan=self.rows).vdot

    def project(self, tree: Tree, q: Array, v: Array) -> tuple[Array, Array, Any]:
        """Return the state nearest to (q, v) that meets the constraints, and whether others must take over before it.

        They must where those chosen are hardly independent, and where others are not met: there the mechanism would leave its branch.
        """
        q, v, pivots, values = self.closes.project(tree, q, v, self.model.chart, plan=self.rows)
        apart: Any = 0.0
        for value, unit in zip(values, self.units, strict=True):
            apart = maximum(apart, abs(value) * (1.0 / unit))
        return q, v, weaker(pivots, self.units, self.limit) | (apart > _APART)


def check_closed(model: Model, q: np.ndarray) -> None:
    """Refuse a start that does not close the loops."""
    found = gap(model, q)
    if not found.sizes.max(initial=0.0) <= LOOSE:
        raise ArgumentError(
            f"simulate: q0 leaves loop '{found.worst}' of model '{model.name}' open, by {found.sizes.max():.2g} of its size or rad; "
            "start from m.assemble(guess=q0)"
        )
