"""Derivatives by central differences, to compare with; with loops, along motions that keep these closed.

The step is the cube root of the rounding, 6e-6, so that about ten digits are right: of unit steps along velocity coordinates, rates and
forces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from catena.formulations.loops.constraints import constraint_jacobian, constraint_motion
from catena.loops.assembly import assemble, project_velocity
from catena.loops.mobility import mobility
from catena.model import Mechanism
from catena.scalars.dual import moving, part

STEP = float(np.cbrt(np.finfo(float).eps))

States = dict[str, np.ndarray]


class CentralDifferences:
    """The values of a kernel of the dynamics and their derivatives by its inputs, t last, as the kernels of derivatives return them.

    With loops the columns of positions and velocities are along motions of the mechanism, as `along_motions` has them, without that of t.

    >>> from catena.comparison.differences import CentralDifferences
    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> vdot, by_q, by_v, by_tau = CentralDifferences(m, ct.forward_dynamics(m))([0.0], [0.0], [0.0])
    >>> by_q.round(6)
    array([[-9.81]])
    """

    order = "O(n^2)"

    def __init__(self, m: Mechanism, kernel: Any) -> None:
        self.m, self.kernel, self.inputs, self.by_state = m, kernel, kernel.inputs, m.has_loops
        self.cached = kernel.cached
        self.names = [port.name for port in kernel.inputs]
        self.by = [name for name in self.names if name != "t"] + ["t"] * ("t" in self.names and not m.has_loops)
        moved = {"t": 1} | (dict.fromkeys(("q", "v"), mobility(m).freedom) if m.has_loops else {})
        columns = sum(moved.get(name, m.nv) for name in self.by)
        counts = {kind: (1 + 2 * columns) * count for kind, count in kernel.operations.items()}
        self.operations = Counter(counts) + Counter({"add": m.nv * columns, "mul": m.nv * columns})

    def __call__(self, *arrays: Any, out: Any = None) -> tuple[np.ndarray, ...]:
        """Return values and derivatives at one state, or at a batch of states."""
        known = {name: np.asarray(x, dtype=float) for name, x in zip(self.names, arrays, strict=True)}
        values = self.kernel(*known.values())
        found = (values, *(self._by(name, known) for name in self.by))
        if out is not None:
            for target, one in zip(out, found, strict=True):
                target[...] = one
        return found

    def _by(self, name: str, known: States) -> np.ndarray:
        if self.m.has_loops and name in ("q", "v"):
            return (
                self._along_motions(name, known) if known["q"].ndim == 1 else np.stack([self._along_motions(name, x) for x in each(known)])
            )
        if name == "t":
            return (self._values(known, t=known["t"] + STEP) - self._values(known, t=known["t"] - STEP)) / (2.0 * STEP)
        batch = {key: x[..., None, :] if key != "t" else x[..., None] for key, x in known.items()}
        moved = [self._moved(name, batch[name], sign * STEP * np.eye(self.m.nv)) for sign in (1.0, -1.0)]
        ahead, behind = (self._values(batch, **{name: x}) for x in moved)
        return np.swapaxes((ahead - behind) / (2.0 * STEP), -1, -2)

    def _values(self, known: States, **changed: np.ndarray) -> np.ndarray:
        return self.kernel(*({**known, **changed}[name] for name in self.names))

    def _moved(self, name: str, x: np.ndarray, change: np.ndarray) -> np.ndarray:
        return self.m.integrate(x, change) if name == "q" else x + change

    def _along_motions(self, name: str, state: States) -> np.ndarray:
        """Return the columns of a state along its motions, which are closed again after a step."""
        m, t = self.m, float(state.get("t", 0.0))
        columns = []
        for dq, dv in zip(*(directions.T for directions in motions(m, state)), strict=True):
            ends = []
            for step in (STEP, -STEP):
                q, v = state["q"], state["v"] + step * (dv if name == "q" else dq)
                if name == "q":
                    q = assemble(m, m.integrate(q, step * dq), t=t)
                    v = project_velocity(m, q, v, t=t)
                ends.append(self._values(state, q=q, v=v))
            columns.append((ends[0] - ends[1]) / (2.0 * STEP))
        return np.stack(columns, axis=1)


def each(known: States) -> Iterator[States]:
    """Yield the states of a batch."""
    for i in range(len(known["q"])):
        yield {name: x[i] for name, x in known.items()}


def motions(m: Mechanism, state: States) -> tuple[np.ndarray, np.ndarray]:
    """Return changes of positions that keep the loops closed, an orthonormal basis (nv, freedom), and the least changes of velocities that
    keep the velocity consistent along each.

    >>> from catena.comparison.differences import motions
    >>> m = examples.four_bar()
    >>> q = m.assemble(crank=1.0)
    >>> dq, dv = motions(m, {"q": q, "v": m.project_velocity(q, crank=2.0)})
    >>> bool(ct.loop_error(m)(m.integrate(q, 1e-4 * dq[:, 0])).max() < 1e-8)
    True
    """
    q, v = state["q"], state["v"]
    tree = m.tree().at(float(state.get("t", 0.0)))
    J, rank = np.asarray(constraint_jacobian(tree, q)[1], dtype=float), m.nv - mobility(m).freedom
    left, sizes, right = np.linalg.svd(J)
    dq = right[rank:].T
    opening = [part(constraint_motion(tree, moving(q, m.rate(q, column)), v)[0], "derivative") for column in dq.T]
    dv = -(right[:rank].T / sizes[:rank]) @ left[:, :rank].T @ np.array(opening, dtype=float).reshape(-1, len(J)).T
    return dq, dv


def along_motions(m: Mechanism, known: States, results: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Return values and derivatives of a mechanism with loops: by positions and by velocities along its motions, and by forces.

    Those of trees are returned as they are.
    """
    if not m.has_loops:
        return results
    values, by_q, by_v, by_force = results[:4]
    dq, dv = (np.stack(directions) for directions in zip(*(motions(m, state) for state in each(known)), strict=True))
    return values, by_q @ dq + by_v @ dv, by_v @ dq, by_force
