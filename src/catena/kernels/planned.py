"""Kernels of mechanisms with loops: fast code that is made for a plan and checks itself, and code for any state where it does not fit."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np

from catena.errors import ArgumentError, SingularWarning
from catena.formulations.loops.constraints import constraint_motion
from catena.graph import Graph, Scalar, where
from catena.graph.arrays import by_entry
from catena.kernels.state_flags import BREAKING, OPEN, OPENING, SINGULAR, WEAK
from catena.loops.assembly import left_open
from catena.loops.mobility import configurations, regular
from catena.loops.scaling import loop_units
from catena.model import Mechanism
from catena.native import Kernel
from catena.native.arguments import described
from catena.native.differentiable import Differentiable
from catena.native.single_call import SingleCalls, nothing

#: How many plans go out with a kernel, and the steps of the walk on which they are found.
_PLANS_OUT, _STEPS = 4, 16

#: Pivots are chosen at run time by loops over dense matrices of so many entries at most; the states of larger mechanisms have their plan.
_DENSE = 200_000


class ConstrainedKernel(SingleCalls, Differentiable):
    """A function of arrays for a mechanism with loops; called like a `Kernel`, and described like one.

    The code is compiled for a plan: which coordinates depend on which, and which constraints are independent. Every result is checked
    against all constraints. A state that the plan does not fit, on another branch or near a point where the plan loses its hold, is solved
    by a second kernel, whose pivots are chosen at run time; a `SingularWarning` names the states at which the mechanism itself is singular.
    States that do not close the loops are refused.

    >>> from catena.examples import four_bar
    >>> m = four_bar()
    >>> fd = ct.forward_dynamics(m)
    >>> q = m.assemble(crank=1.0)
    >>> fd(q, np.zeros(3), np.zeros(3)).shape
    (3,)
    """

    def __init__(
        self,
        m: Mechanism | None,
        planned: Kernel,
        pivoted: Any,
        made_for: np.ndarray,
        plan: str = "",
        graphs: Callable[[int | None], tuple[Graph, ...]] | None = None,
        sound: bool = True,
    ) -> None:
        self._model, self._pivoted, self._graphs = m, pivoted, graphs
        self.planned = planned  #: the kernel of the plan, whose last output are the flags of the states
        self.made_for = made_for  #: the configuration of the plan
        self.plan = plan  #: in words
        self._sound = sound  # a plan that was made at a singular configuration lacks constraints wherever it seems to fit
        self.name, self.method, self.references, self.function = planned.name, planned.method, planned.references, planned.function
        self.model, self.labels, self.charts, self.defaults = planned.model, planned.labels, planned.charts, planned.defaults
        self._derivatives: dict[Any, Any] = {}
        self.inputs, self.outputs = planned.inputs, planned.outputs[:-1]
        self.operations, self.llvm, self.graph = planned.operations, planned.llvm, planned.graph
        self.seconds = planned.seconds
        self.cached, self.merged, self.lanes = planned.cached, planned.merged, planned.lanes
        self.signature = planned.signature.rsplit(", ", 1)[0]

    def for_one_state(self, *, given: bool) -> Callable[..., Any]:
        """Return the function of one state that raises no flag."""
        return self.planned.for_one_state(given=given, flagged=True) if self._sound else nothing

    def _general(self, arrays: tuple, out: Any, named: dict[str, Any]) -> Any:
        given = None
        if out is not None:
            out = out if isinstance(out, tuple) else (out,)
            given = (*out, None)
            # flagged states are solved again, from inputs that must still be there
            arrays, named = tuple(_separate(x, out) for x in arrays), {name: _separate(x, out) for name, x in named.items()}
        *results, flags = self.planned(*arrays, out=given, **named)
        if isinstance(flags, Scalar):  # in a trace; there states off the plan are not numbers
            results = [by_entry(partial(where, flags == 0.0, b=np.nan), x) for x in results]
            return results[0] if len(results) == 1 else tuple(results)
        flags = flags if self._sound else flags + WEAK
        if flags.any() if isinstance(flags, np.ndarray) else flags:
            self._again(results, flags, arrays, named)
        return results[0] if len(results) == 1 else tuple(results)

    def fits(self, *arrays: Any, **named: Any) -> Any:
        """Return whether the plan fits each state, so that it needs no pivots of its own."""
        return (self.planned(*arrays, **named)[-1] == 0.0) & self._sound

    @property
    def has_loops(self) -> bool:
        """Whether there are loops, which states must close; without, no state has flags."""
        return self._pivoted is not None or (self._model is not None and self._model.has_loops)

    def graphs(self, most: int | None = None) -> tuple[Graph, ...]:
        """Return graphs of the function for several plans, at most so many, in the order to try them; their last output are the flags."""
        return (self.planned.graph,) if self._graphs is None or most == 1 else self._graphs(most)

    def cite(self) -> str:
        """Return the sources of the method, one a line."""
        return self.planned.cite()

    def __repr__(self) -> str:
        flags = f", ({self.planned.outputs[-1].name}: scalar)"  # which are for this class alone
        return repr(self.planned).replace("<Kernel", f"<{type(self).__name__}").replace(flags, "", 1)

    def _repr_html_(self) -> str:
        return self.planned.table(outputs=described(self.outputs), plan=self.plan).html()

    def _derived(self, transform: Callable[[Graph, Collection[str]], Graph], labels: dict[str, tuple[str, ...]]) -> ConstrainedKernel:
        flags = (self.planned.outputs[-1].name,)
        return self.with_kernels(
            self.planned._derived(lambda graph, _: transform(graph, flags), labels), lambda graph: transform(graph, flags), labels
        )

    def with_kernels(
        self, planned: Kernel, transform: Callable[[Graph], Graph], labels: dict[str, tuple[str, ...]] | None = None
    ) -> ConstrainedKernel:
        """Return a kernel of the same plan and configuration that computes something else, also with pivots chosen at run time."""
        spare = None if self._pivoted is None else self._pivoted._derived(lambda graph, _: transform(graph), labels or planned.labels)
        return ConstrainedKernel(self._model, planned, spare, self.made_for, self.plan, None, self._sound)

    # a kernel never changes: copies are the kernel itself
    def __copy__(self) -> ConstrainedKernel:
        return self

    def __deepcopy__(self, memo: dict) -> ConstrainedKernel:
        return self

    def __reduce__(self) -> tuple:
        model: Mechanism | None = self._model
        try:
            pickle.dumps(model)
        except Exception:  # functions defined inside others, which pickle cannot name; refusals then name no loop
            model = None
        return type(self), (model, self.planned, self._pivoted, self.made_for, self.plan, None, self._sound)

    def _again(self, results: list[Any], flags: Any, arrays: tuple, named: dict[str, Any]) -> None:
        """Solve the states that were flagged by pivots chosen for them, or say what is wrong with them."""
        given = self.defaults | dict(zip((port.name for port in self.inputs), arrays, strict=False)) | named
        batch = np.shape(flags)
        whole, flags = (results, flags) if batch else ([x[None] for x in results], np.atleast_1d(flags))
        at = np.nonzero(flags)
        states = {x.name: np.broadcast_to(np.asarray(given[x.name], dtype=float), (*flags.shape, *x.shape))[at] for x in self.inputs}
        solved, left = [x[at] for x in whole], flags[at].astype(int)
        names = [f"state {i}" for i in zip(*(index.tolist() for index in at), strict=True)] if batch else ["the state"]

        finite = np.all([np.isfinite(x).reshape(len(left), -1).all(axis=1) for x in states.values()], axis=0)
        for x in solved:
            x[~finite] = np.nan
        left[~finite] = 0
        for i in np.flatnonzero(left & (OPEN | OPENING | BREAKING)):
            self._refuse(int(left[i]), {name: x[i] for name, x in states.items()}, names[i])
        rest = np.flatnonzero(left)
        if len(rest):
            if self._pivoted is None:
                raise ArgumentError(
                    f"{self.name}: the plan of the kernel does not fit {names[rest[0]]} of model '{self.model}', which is too large for "
                    "pivots chosen at run time; make a kernel for such states, with at=q"
                )
            *found, left[rest] = self._pivoted(**{name: x[rest] for name, x in states.items()})
            for x, own in zip(solved, found, strict=True):
                x[rest] = own
            for i in rest[left[rest] & SINGULAR > 0]:
                warnings.warn(
                    f"{self.name}: {names[i]} of model '{self.model}' is singular: its loops leave open there how it goes on, and what is "
                    "asked is not determined",
                    SingularWarning,
                    stacklevel=4,
                )
        for x, own in zip(whole, solved, strict=True):
            x[at] = own

    def _refuse(self, flag: int, state: dict[str, np.ndarray], name: str) -> None:
        """Refuse a state that does not close the loops."""
        t = float(state["t"]) if "t" in state else 0.0
        m = None if self._model is None else self._model.at(t)
        time = f", t={t:g}" if m is not None and m.driven_names else ""
        if flag & OPEN:
            unnamed = f"{self.name}: {name} leaves a loop of model '{self.model}' open; close it by m.assemble(guess=q)"
            raise ArgumentError(unnamed if m is None else left_open(m, f"{self.name}: {name}", state["q"]))
        if flag & OPENING:
            rate = ""
            if m is not None:
                rates = np.asarray(constraint_motion(m.tree(), state["q"], state["v"])[0], dtype=float)
                rate = f", at a rate of {np.abs(rates).max():.2g}"
            raise ArgumentError(
                f"{self.name}: the velocity of {name} would open the loops of model '{self.model}'{rate}; give velocities that keep them "
                f"closed, by m.project_velocity(q, v{time})"
            )
        raise ArgumentError(
            f"{self.name}: the acceleration of {name} would open the loops of model '{self.model}'; give one that keeps them closed, by "
            "ct.reduced(m).accelerations(q, v, acceleration)"
        )


def _separate(x: Any, out: tuple) -> Any:
    """Return an input that does not share memory with the arrays to write to."""
    if isinstance(x, np.ndarray):
        for y in out:
            if x is y:
                return x.copy()
            views = isinstance(y, np.ndarray) and (x.base is not None or y.base is not None)  # others share no memory
            if views and np.may_share_memory(x, y):
                return x.copy()
    return x


def planned_kernel(
    m: Mechanism,
    at: tuple[Mechanism, np.ndarray],
    plan: Callable[[Mechanism, np.ndarray], Any],
    planned: Callable[[Any], Any],
    pivoted: Any,
    make: Callable[..., Kernel],
    explain: Callable[[Any], str] = repr,
    kind: type[ConstrainedKernel] = ConstrainedKernel,
) -> Any:
    """Return the kernel of a function that is made for a plan, and of one whose pivots are chosen at run time.

    `plan(m, q)` is made at a configuration, which comes after the model at its time. `planned(plan)` and `pivoted` are functions of the
    tree, whose last result are flags; `make` makes kernels of them, `quick` where the code is for the few states off the plan.
    """
    first = plan(*at)

    def graphs(most: int | None) -> tuple[Graph, ...]:
        plans = {first: None}
        for now, q in configurations(m, _STEPS):
            plans |= {other: None for other in (plan(now, q),) if len(other) == len(first)}
            if len(plans) == (_PLANS_OUT if most is None else most):
                break
        return tuple(make(planned(other)).graph for other in plans)

    rows = len(loop_units(m))
    spare = make(pivoted, quick=True) if m.has_loops and m.nv * (m.nv + rows) <= _DENSE else None
    return kind(at[0], make(planned(first)), spare, at[1], explain(first), graphs if m.has_loops else None, regular(*at))
