"""Forward dynamics by conjugate gradients: SciPy's iteration on compiled products with the mass matrix."""

from __future__ import annotations

import pickle
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from catena.errors import ArgumentError, ConvergenceWarning
from catena.formulations.quadratic.conjugate_gradient import TOLERANCE
from catena.native import Kernel, arguments
from catena.native.differentiable import Differentiable
from catena.tables import facts

_Stages = tuple[Kernel, Kernel]  # q, or (t, q) -> what depends on it alone; that and a vector -> a vector


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

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Return vdot for arrays given in the order of `inputs`, or by name; `out=` takes the array to write to."""
        if named or len(arrays) != len(self.inputs):
            arrays = arguments.ordered(self.name, self.inputs, arrays, named, self.defaults)
        right = self._right(*arrays)
        batch, n = right.shape[:-1], right.shape[-1]
        given = dict(zip((port.name for port in self.inputs), arrays, strict=True))
        held = [np.asarray(given[port.name], dtype=float) for port in self._product[0].inputs]
        held = [np.broadcast_to(x, (*batch, *port.shape)) for x, port in zip(held, self._product[0].inputs, strict=True)]
        # a call has arrays of its own until it is done: other threads may call, too
        vdot, iterations, residual = np.full_like(right, np.nan), np.zeros(batch, dtype=int), np.full(batch, np.nan)
        finite = np.isfinite(right).all(axis=-1)
        for x in held:
            finite = finite & np.isfinite(x).all(axis=tuple(range(len(batch), x.ndim)))
        for state in zip(*np.nonzero(finite), strict=True) if batch else [()] * int(finite):
            vdot[state], iterations[state], residual[state] = self._solve([x[state] for x in held], right[state])
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

    def _solve(self, at: list[np.ndarray], right: np.ndarray) -> tuple[np.ndarray, int, float]:
        """Return the solution at one state, the number of iterations and the residual."""
        from scipy.sparse.linalg import cg

        size = float(np.linalg.norm(right))
        if size == 0.0:
            return np.zeros(right.shape), 0, 0.0
        product, precondition = (self._at(stages, at, right.size) for stages in (self._product, self._precondition))
        count = Counter()
        vdot, _ = cg(
            product, right, rtol=self.tolerance, atol=0.0, maxiter=10 * right.size, M=precondition, callback=lambda _: count.update("i")
        )
        return vdot, count["i"], float(np.linalg.norm(product @ vdot - right)) / size

    @staticmethod
    def _at(stages: _Stages | None, at: list[np.ndarray], n: int) -> Any:
        """Return the linear operator of two stages at a configuration."""
        from scipy.sparse.linalg import LinearOperator

        if stages is None:
            return None
        held = stages[0](*at)
        return LinearOperator((n, n), matvec=lambda x: stages[1](held, x), dtype=float)  # type: ignore[call-arg]

    def _derived(self, transform: Any, labels: dict[str, tuple[str, ...]]) -> Kernel:
        if self._direct is None:
            raise ArgumentError(f"{self.name}: the model could not be pickled with the kernel; take derivatives before")
        return self._direct()._derived(transform, labels)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__ | {"_derivatives": {}}
        try:
            pickle.dumps(self._direct)
        except Exception:  # functions defined inside others, which pickle cannot name
            state["_direct"] = None
        return state

    @property
    def operations(self) -> dict[str, int]:
        """Number of operations by kind of one iteration: a product, and the preconditioner where there is one."""
        total: Counter[str] = Counter()
        for stages in (self._product, self._precondition):
            total.update(stages[1].operations if stages else {})
        return dict(sorted(total.items()))

    @property
    def seconds(self) -> dict[str, float]:
        """Time to trace, optimise and compile all parts [s]."""
        total: Counter[str] = Counter()
        for part in self._parts:
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
