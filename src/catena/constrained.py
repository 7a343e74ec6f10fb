"""Functions of mechanisms with loops: kernels for plans, such as sets of independent constraints, and the choice of one for each state."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sized
from functools import cached_property
from typing import Any

import numpy as np

from catena.assembly import gap
from catena.errors import ArgumentError, SingularWarning
from catena.formulations.constraints import constraint_motion
from catena.mobility import configurations
from catena.model import Model
from catena.native import Kernel

#: Flags of a state: a loop is open; a velocity, an acceleration opens it; the plan is weak; no plan is sound.
OPEN, OPENING, BREAKING, WEAK, SINGULAR = 1, 2, 4, 8, 16

#: How many further plans are tried before one is made for a state; steps of the walk on which they are found.
_FURTHER, _STEPS = 3, 16


class ConstrainedKernel:
    """A function of arrays for a mechanism with loops; called like a `Kernel`, and described like one.

    One kernel is compiled for the plan that is good at most configurations. A state at which it is weak is solved with the first of a few
    further plans that is not, or else with one made for it; where none is sound, a `SingularWarning` names the state. States that do not
    close the loops are refused.

    >>> from catena.examples import four_bar
    >>> m = four_bar()
    >>> fd = ct.forward_dynamics(m)
    >>> q = m.assemble(crank=1.0)
    >>> fd(q, np.zeros(3), np.zeros(3)).shape
    (3,)
    """

    def __init__(
        self,
        m: Model,
        at: tuple[Model, np.ndarray],
        plan: Callable[[Model, np.ndarray], Any],
        make: Callable[[Any], Kernel],
        explain: Callable[[Any], str] = repr,
    ) -> None:
        self._model, self._plan, self._make, self._explain = m, plan, make, explain
        self._usual: Sized = plan(*at)
        self._first = first = make(self._usual)
        self._kernels = {self._usual: first}
        self.name, self.method, self.references, self.function = first.name, first.method, first.references, first.function
        self.model, self.labels = first.model, first.labels
        self.inputs, self.outputs = first.inputs, first.outputs[:-1]
        self.operations, self.seconds, self.llvm, self.graph = first.operations, first.seconds, first.llvm, first.graph
        self.cached, self.merged, self.lanes = first.cached, first.merged, first.lanes
        self.signature = first.signature.rsplit(", ", 1)[0]

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Return the results for arrays given in the order of `inputs`, or by name; `out=` takes the arrays to write to."""
        given = None if out is None else (*(out if len(self.outputs) > 1 else (out,)), None)
        *results, flags = self._first(*arrays, out=given, **named)
        if flags.any() if isinstance(flags, np.ndarray) else flags:
            self._again(results, flags, arrays, named)
        return results[0] if len(results) == 1 else tuple(results)

    @property
    def has_loops(self) -> bool:
        """Whether there are loops, which states must close; without, no state has flags."""
        return self._model.has_loops

    @property
    def plan(self) -> str:
        """The plan that is good at most configurations, in words."""
        return self._explain(self._usual)

    def kernels(self, most: int | None = None) -> tuple[Kernel, ...]:
        """Return the kernels that states are solved with, in the order they are tried, at most so many; their last output are the flags.

        They are those of the plan that is good at most configurations, of the further ones, and of those that were made for states so far.
        """
        plans = (self._usual,)
        if self.has_loops and most != 1:
            made = [plan for plan in self._kernels if len(plan) == len(self._usual)]
            plans = tuple(dict.fromkeys((self._usual, *self._further, *made)))[:most]
        return tuple(self._kernel(plan) for plan in plans)

    def _kernel(self, plan: Any) -> Kernel:
        if plan not in self._kernels:
            self._kernels[plan] = self._make(plan)
        return self._kernels[plan]

    def cite(self) -> str:
        """Return the sources of the method, one a line."""
        return self._first.cite()

    def __repr__(self) -> str:
        return repr(self._first).replace("<Kernel", "<ConstrainedKernel")

    def _again(self, results: list[Any], flags: Any, arrays: tuple, named: dict[str, Any]) -> None:
        """Solve the states that were flagged by kernels made for them, or say what is wrong with them."""
        given = dict(zip((port.name for port in self.inputs), arrays, strict=False)) | named
        batch = np.shape(flags)
        whole, flags = (results, flags) if batch else ([x[None] for x in results], np.atleast_1d(flags))
        at = np.nonzero(flags)
        states = {x.name: np.broadcast_to(np.asarray(given[x.name], dtype=float), (*flags.shape, *x.shape))[at] for x in self.inputs}
        solved, left = [x[at] for x in whole], flags[at].astype(int)
        names = [f"state {i}" for i in zip(*(index.tolist() for index in at), strict=True)] if batch else ["the state"]

        def solve(plan: Any, which: Any) -> None:
            *found, left[which] = self._kernel(plan)(*(x[which] for x in states.values()))
            for x, own in zip(solved, found, strict=True):
                x[which] = own

        for i in np.flatnonzero(left & (OPEN | OPENING | BREAKING)):
            self._refuse(int(left[i]), {name: x[i] for name, x in states.items()}, names[i])
        for plan in self._further:
            if left.any():
                solve(plan, np.flatnonzero(left))
        plans: dict[Any, list[int]] = {}
        for i in np.flatnonzero(left).tolist():
            plans.setdefault(self._plan(self._at({name: x[i] for name, x in states.items()}), states["q"][i]), []).append(i)
        for plan, which in plans.items():
            solve(plan, which)
            for i in which:
                if len(plan) < len(self._usual) or left[i] & SINGULAR:
                    warnings.warn(
                        f"{self.name}: {names[i]} of model '{self._model.name}' is singular: {len(plan)} of its constraints are "
                        f"independent, and {len(self._usual)} are elsewhere; what is asked is not determined there",
                        SingularWarning,
                        stacklevel=3,
                    )
        for x, own in zip(whole, solved, strict=True):
            x[at] = own

    @cached_property
    def _further(self) -> tuple[Any, ...]:
        """Plans that are good at other configurations, to try where the usual one is weak."""
        found = {self._usual: None}
        for at in configurations(self._model, _STEPS):
            plan = self._plan(*at)
            if len(plan) == len(self._usual):
                found[plan] = None
            if len(found) > _FURTHER:
                break
        return tuple(found)[1:]

    def _at(self, state: dict[str, Any]) -> Model:
        """Return the model at the time of a state."""
        return self._model.at(float(state["t"])) if "t" in state else self._model

    def _refuse(self, flag: int, state: dict[str, np.ndarray], name: str) -> None:
        """Refuse a state that does not close the loops."""
        m = self._at(state)
        time = f", t={m._instant:g}" if m.driven_names else ""
        if flag & OPEN:
            found = gap(m, state["q"])
            raise ArgumentError(
                f"{self.name}: {name} leaves loop '{found.worst}' of model '{self._model.name}' open, by {found.sizes.max():.2g} of "
                f"its size or rad; give positions that close the loops, by m.assemble(guess=q{time})"
            )
        if flag & OPENING:
            rates = np.asarray(constraint_motion(m.tree(), state["q"], state["v"])[0], dtype=float)
            raise ArgumentError(
                f"{self.name}: the velocity of {name} would open the loops of model '{self._model.name}', at a rate of "
                f"{np.abs(rates).max():.2g}; give velocities that keep them closed, by m.project_velocity(q, v{time})"
            )
        raise ArgumentError(
            f"{self.name}: the acceleration of {name} would open the loops of model '{self._model.name}'; give one that keeps "
            "them closed, by ct.reduced(m).accelerations(q, v, acceleration)"
        )
