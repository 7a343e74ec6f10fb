"""Functions of mechanisms with loops: kernels for plans, such as sets of independent constraints, and the choice of one for each state."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sized
from typing import Any

import numpy as np

from catena.assembly import gap
from catena.errors import ArgumentError, SingularWarning
from catena.formulations.constraints import constraint_jacobian
from catena.model import Model
from catena.native import Kernel

#: Flags of a state: a loop is open; a velocity, an acceleration opens it; the plan is weak; no plan is sound.
OPEN, OPENING, BREAKING, WEAK, SINGULAR = 1, 2, 4, 8, 16


class ConstrainedKernel:
    """A function of arrays for a mechanism with loops; called like a `Kernel`, and described like one.

    One kernel is compiled for the plan that is good at most configurations. A state at which it is weak is solved with a kernel for a plan
    made for it; where none is sound, a `SingularWarning` names the state. States that do not close the loops are refused.

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
        q: np.ndarray,
        plan: Callable[[np.ndarray], Any],
        make: Callable[[Any], Kernel],
        explain: Callable[[Any], str] = repr,
    ) -> None:
        self._model, self._plan, self._make, self._explain = m, plan, make, explain
        self._usual: Sized = plan(q)
        self._first = first = make(self._usual)
        self._kernels = {self._usual: first}
        self.name, self.method, self.references, self.function = first.name, first.method, first.references, first.function
        self.inputs, self.outputs = first.inputs, first.outputs[:1]
        self.operations, self.seconds, self.llvm, self.graph = first.operations, first.seconds, first.llvm, first.graph
        self.cached, self.merged, self.lanes = first.cached, first.merged, first.lanes
        self.signature = first.signature.rsplit(", ", 1)[0]

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Return the result for arrays given in the order of `inputs`, or by name; `out=` takes the array to write to."""
        result, flags = self._first(*arrays, out=None if out is None else (out, None), **named)
        if flags.any() if isinstance(flags, np.ndarray) else flags:
            result = self._again(result, flags, arrays, named)
        return result

    @property
    def plan(self) -> str:
        """The plan that is good at most configurations, in words."""
        return self._explain(self._usual)

    def cite(self) -> str:
        """Return the sources of the method, one a line."""
        return self._first.cite()

    def __repr__(self) -> str:
        return repr(self._first).replace("<Kernel", "<ConstrainedKernel")

    def _again(self, result: Any, flags: Any, arrays: tuple, named: dict[str, Any]) -> Any:
        """Return the result, with the states that were flagged solved by kernels made for them, or say what is wrong with them."""
        given = dict(zip((port.name for port in self.inputs), arrays, strict=False)) | named
        batch = np.shape(flags)
        states = {
            port.name: np.broadcast_to(np.asarray(given[port.name], dtype=float), (*batch, *port.shape)) for port in self.inputs
        }
        for i in zip(*np.nonzero(np.atleast_1d(flags)), strict=True):
            i = i if batch else ()
            state = {name: x[i] for name, x in states.items()}
            self._check(int(np.asarray(flags)[i]), state, i)
            plan = self._plan(state["q"])
            if plan not in self._kernels:
                self._kernels[plan] = self._make(plan)
            solved, left = self._kernels[plan](*state.values())
            self._check(int(left), state, i)
            if len(plan) < len(self._usual) or int(left) & SINGULAR:
                warnings.warn(
                    f"{self.name}: {_which(i)} of model '{self._model.name}' is singular: {len(plan)} of its constraints are independent, "
                    f"and {len(self._usual)} are elsewhere; what is asked is not determined there",
                    SingularWarning,
                    stacklevel=3,
                )
            result[i] = solved
        return result

    def _check(self, flag: int, state: dict[str, np.ndarray], i: tuple) -> None:
        """Refuse a state that does not close the loops; rates and accelerations that are not numbers are left to the plan."""
        if flag & OPEN:
            found = gap(self._model, state["q"])
            raise ArgumentError(
                f"{self.name}: {_which(i)} leaves loop '{found.worst}' of model '{self._model.name}' open, by {found.sizes.max():.2g} of "
                "its size or rad; give positions that close the loops, by m.assemble(guess=q)"
            )
        if flag & OPENING:
            J = np.asarray(constraint_jacobian(self._model.tree(), state["q"])[1], dtype=float)
            raise ArgumentError(
                f"{self.name}: the velocity of {_which(i)} would open the loops of model '{self._model.name}', at a rate of "
                f"{np.abs(J @ state['v']).max():.2g}; give velocities that keep them closed, by m.project_velocity(q, v)"
            )
        if flag & BREAKING:
            raise ArgumentError(
                f"{self.name}: the acceleration of {_which(i)} would open the loops of model '{self._model.name}'; give one that keeps "
                "them closed, by ct.reduced(m).accelerations(q, v, acceleration)"
            )


def _which(i: tuple) -> str:
    return f"state {tuple(map(int, i))}" if i else "the state"
