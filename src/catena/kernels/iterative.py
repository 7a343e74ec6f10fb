"""Forward dynamics by conjugate gradients, as a compiled iteration of products with the mass matrix.

Many states iterate side by side, in lanes. What the products need of the configurations alone is computed before.
"""

from __future__ import annotations

import pickle
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from catena.errors import ArgumentError, ConvergenceWarning
from catena.formulations.quadratic.conjugate_gradient import TOLERANCE
from catena.graph import Trace, where
from catena.native import Iteration, Kernel, arguments
from catena.native.differentiable import Differentiable
from catena.tables import facts

_Stages = tuple[Kernel, Kernel]  # q, or (t, q) -> what depends on it alone; that and a vector -> a vector

#: States that iterate together at most, and iterations after which those that have ended leave their places to others.
_TOGETHER, _ROUND = 1024, 8

#: The numbers of a state before its vectors x, r, p: the first three steer the iteration.
_NUMBERS = ("done", "row", "table", "count", "z_r")

#: No z.r yet.
_NONE = 1e300


class IterativeKernel(Differentiable):
    """A function of arrays that is solved by iteration, state by state; called like a `Kernel`, and described like one.

    `tolerance` is the residual |M vdot - (tau - C)| at which a state counts as solved, as a part of |tau - C|; set it to what is needed.
    After a call `iterations` and `residual` have a number for every state of the batch; states that did not reach the tolerance in ten
    times as many iterations as coordinates raise a `ConvergenceWarning`. Derivatives are those of a method that does not iterate.

    >>> from catena.examples import chain
    >>> m = chain(6)
    >>> fd = ct.forward_dynamics(m, method="conjugate-gradient")
    >>> vdot = fd(m.neutral(), np.zeros(6), np.ones(6))
    >>> bool(fd.iterations <= 10 and fd.residual <= 1e-10)
    True
    """

    def __init__(self, direct: Callable[[], Kernel], right: Kernel, product: _Stages, precondition: _Stages | None = None) -> None:
        self.name, self.method, self.references = right.name, right.method, right.references
        self.inputs, self.outputs, self.signature = right.inputs, right.outputs, right.signature
        self.tolerance = TOLERANCE
        self.iterations: np.ndarray = np.zeros((), dtype=int)
        self.residual: np.ndarray = np.zeros(())
        self._right, self._product, self._precondition = right, product, precondition
        self.labels, self.charts, self._derivatives, self._direct = right.labels, right.charts, {}, direct
        self.defaults = right.defaults
        self._parts = (right, *product, *(precondition or ()))
        _ = self._iteration  # so that no call compiles

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Return vdot for arrays given in the order of `inputs`, or by name; `out=` takes the array to write to."""
        if named or len(arrays) != len(self.inputs):
            arrays = arguments.ordered(self.name, self.inputs, arrays, named, self.defaults)
        right = self._right(*arrays)
        batch, n = right.shape[:-1], right.shape[-1]
        given = dict(zip((port.name for port in self.inputs), arrays, strict=True))
        held = [np.asarray(given[port.name], dtype=float) for port in self._product[0].inputs]
        held = [np.broadcast_to(x, (*batch, *port.shape)) for x, port in zip(held, self._product[0].inputs, strict=True)]
        flat, at = right.reshape(-1, n), [x.reshape(-1, *port.shape) for x, port in zip(held, self._product[0].inputs, strict=True)]
        # a call has arrays of its own until it is done: other threads may call, too
        vdot, iterations, residual = np.full_like(flat, np.nan), np.zeros(len(flat), dtype=int), np.full(len(flat), np.nan)
        finite = np.isfinite(flat).all(axis=1)
        for x in at:
            finite = finite & np.isfinite(x).all(axis=tuple(range(1, x.ndim)))
        states = np.flatnonzero(finite)
        for first in range(0, len(states), _TOGETHER):
            some = states[first : first + _TOGETHER]
            vdot[some], iterations[some], residual[some] = self._solve([x[some] for x in at], flat[some])
        vdot, iterations, residual, finite = vdot.reshape(right.shape), *(x.reshape(batch) for x in (iterations, residual, finite))
        self.iterations, self.residual = iterations, residual
        bad = finite & ~(residual <= self.tolerance)
        if np.any(bad):
            worst = np.unravel_index(np.argmax(np.where(bad, residual, 0.0)), bad.shape)
            warnings.warn(
                f"{self.name} by {self.method}: {np.count_nonzero(bad)} of {bad.size} states did not reach the tolerance "
                f"{self.tolerance:g} in {10 * n} iterations; the worst, {tuple(map(int, worst))}, has a residual of "
                f"{residual[worst]:.1e}. Raise `tolerance`, or take a method that does not iterate",
                ConvergenceWarning,
                stacklevel=2,
            )
        target: Any = out[0] if isinstance(out, tuple) and len(out) == 1 else out
        if target is None:
            return vdot
        try:
            np.copyto(target, vdot, casting="same_kind")
        except (TypeError, ValueError) as error:
            raise arguments.explained(self.name, self.inputs, self.outputs, arrays, out, error) from error
        return target

    def _solve(self, at: list[np.ndarray], right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the solutions at some states, the numbers of iterations and the residuals."""
        count, n = right.shape
        held = [stages[0](*at) for stages in self._stages]
        constants = np.concatenate([*held, right, np.full((count, 1), self.tolerance)], axis=1)
        state = np.zeros((count, len(_NUMBERS) + 3 * n))
        state[:, _NUMBERS.index("z_r")] = _NONE
        state[:, len(_NUMBERS) + n : len(_NUMBERS) + 2 * n] = right
        going = np.arange(count)
        for _ in range(0, 10 * n, _ROUND):
            part = np.ascontiguousarray(state[going])
            self._iteration.run(part, np.zeros((1, 1, 1)), np.ascontiguousarray(constants[going]), np.zeros((len(part), 1, 1)), _ROUND)
            state[going] = part
            going = going[part[:, 0] == 0.0]
            if not len(going):
                break
        vdot = state[:, len(_NUMBERS) : len(_NUMBERS) + n]
        size, left = (np.linalg.norm(x, axis=1) for x in (right, self._product[1](held[0], vdot) - right))
        residual = np.divide(left, size, out=np.zeros(count), where=size > 0.0)
        return vdot, state[:, _NUMBERS.index("count")].astype(int), residual

    @property
    def _stages(self) -> tuple[_Stages, ...]:
        return (self._product,) if self._precondition is None else (self._product, self._precondition)

    @cached_property  # made anew where a pickle lands
    def _iteration(self) -> Iteration:
        """The compiled iteration: J91 (30), see `catena.formulations.quadratic.conjugate_gradient`."""
        n, trace = self.outputs[0].size, Trace("conjugate gradients")
        sizes = [stages[0].outputs[0].size for stages in self._stages]
        state = trace.input("state", (len(_NUMBERS) + 3 * n,))
        trace.input("row", (1,))
        constants = trace.input("constants", (sum(sizes) + n + 1,))
        *held, right, (tolerance,) = np.split(constants, np.cumsum([*sizes, n]))
        done, row, table, count, z_r = state[: len(_NUMBERS)]
        x, r, p = np.split(state[len(_NUMBERS) :], 3)
        over = r @ r <= tolerance * tolerance * (right @ right)
        z = r if self._precondition is None else self._precondition[1](held[1], r)
        new = z @ r
        p_new = z + (new / z_r) * p
        Mp = self._product[1](held[0], p_new)
        s = new / (p_new @ Mp)
        vectors = ((x, x + s * p_new), (r, r - s * Mp), (p, p_new))
        kept = [where(over, old, now) for before, after in vectors for old, now in zip(before, after, strict=True)]
        numbers = [where(over, 1.0, done), row, table, where(over, count, count + 1.0), where(over, z_r, new)]
        return Iteration(trace.graph(state=[*numbers, *kept], record=[done]))

    def _derived(self, transform: Any, labels: dict[str, tuple[str, ...]]) -> Kernel:
        if self._direct is None:
            raise ArgumentError(f"{self.name}: the model could not be pickled with the kernel; take derivatives before")
        return self._direct()._derived(transform, labels)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__ | {"_derivatives": {}}
        state.pop("_iteration", None)
        try:
            pickle.dumps(self._direct)
        except Exception:  # functions defined inside others, which pickle cannot name
            state["_direct"] = None
        return state

    @property
    def operations(self) -> dict[str, int]:
        """Number of operations by kind of one iteration: a product, and the preconditioner where there is one."""
        total: Counter[str] = Counter()
        for stages in self._stages:
            total.update(stages[1].operations)
        return dict(sorted(total.items()))

    @property
    def seconds(self) -> dict[str, float]:
        """Time to trace, optimise and compile all parts [s]."""
        total: Counter[str] = Counter()
        for part in (*self._parts, self._iteration):
            total.update(part.seconds)  # type: ignore[arg-type]
        return dict(total)

    @property
    def llvm(self) -> str:
        """The code of a product with the mass matrix, before it is optimised."""
        return self._product[1].llvm

    def cite(self) -> str:
        """Return the sources of the method, one a line."""
        return "\n".join(self.references)

    def _repr_html_(self) -> str:
        operations = f"{sum(self.operations.values()):,} an iteration"
        return facts(self.name.replace("_", " "), {"method": self.method, "arguments": self.signature, "operations": operations}).html()

    def __repr__(self) -> str:
        return f"<IterativeKernel {self.name} by {self.method}: {self.signature}; {sum(self.operations.values())} operations an iteration>"
