"""Base parameters: the combinations of parameters that joint forces tell. [G91], with the counts of [MYO90].

The columns of the regressor over random states are taken one after the other, from the ground to the tips. A column that depends on those
before it adds its parameter to theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from catena.identification.regressor import independent, joint_options, linear_parameters, regressor
from catena.kernels.tracing import frozen
from catena.loops.mobility import configurations
from catena.loops.scaling import coordinate_units, mechanism_size
from catena.model import Mechanism
from catena.tolerances import COEFFICIENT, IDENTIFIABLE, NO_EFFECT

#: Rows of the regressor over random states, for each column; configurations at least, and states at each of those with loops.
_ROWS, _LEAST, _STATES = 3, 40, 4

#: How many times as far as independent coordinates others may move at these states, so that none is near a singular configuration.
_FOLLOW = 10.0


class Grouping(NamedTuple):
    """Columns that are independent, and the matrix by which all depend on them: columns = columns[:, kept] @ K."""

    kept: list[int]
    K: np.ndarray


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """The combinations of parameters that joint forces tell: `number` of them, pi_base = K pi, and joint forces Y[:, columns] @ pi_base.

    Each combination has the name of one parameter in it, from `parameters`, whose regressor Y has column `columns[i]`. `values` are those
    of the model. `combinations` has all of them in words, `without_effect` the parameters that no joint force depends on. Printed, it is a
    table.
    """

    parameters: tuple[str, ...]
    columns: tuple[int, ...]
    K: np.ndarray
    values: np.ndarray
    without_effect: tuple[str, ...]
    regressor: Any = field(repr=False)

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the combinations."""
        return tuple(self.parameters[i] for i in self.columns)

    @property
    def combinations(self) -> tuple[str, ...]:
        """The combinations in words."""
        return tuple(combination(row, self.parameters, first) for row, first in zip(self.K, self.columns, strict=True))

    def __str__(self) -> str:
        wide = max(map(len, self.names), default=0)
        lines = [f"{self.number} base parameters of {len(self.parameters)}"]
        for row, first, name, value in zip(self.K, self.columns, self.names, self.values, strict=True):
            lines.append(f"{name:{wide}} {value:12.5g}  = {combination(row, self.parameters, first, most=4)}")
        if self.without_effect:
            lines.append(f"without effect: {', '.join(self.without_effect)}")
        return "\n".join(lines)


def base_parameters(
    m: Mechanism, actuated: Collection[str] | None = None, at: Any = None, joints: Collection[str] | None = None
) -> BaseParameters:
    """Return the combinations of the parameters pi of `ct.linear_parameters(m, joints)` that joint forces tell.

    They are found by the rank of the regressor over random states. With loops they are those that forces on the coordinates `actuated`
    tell, of all without it; `at` is as in `ct.forward_dynamics`.

    >>> m = ct.Model("double pendulum")
    >>> m.add("upper", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
    >>> m.add("lower", ct.rod(1.0, mass=3.0), ct.Revolute("y"), parent="upper", at=(1, 0, 0))
    >>> base = ct.base_parameters(m)
    >>> base.number, base.combinations[0]
    (6, 'upper.first_moment.x + lower.mass')
    """
    m = frozen(m, "base_parameters", at=at)
    options = joint_options(m, joints)
    key = (None if actuated is None else tuple(actuated), None if at is None else tuple(np.asarray(at, dtype=float).tolist()), options)
    return m.once("base parameters", key, lambda: _base_parameters(m, actuated, at, options))


def _base_parameters(m: Mechanism, actuated: Collection[str] | None, at: Any, joints: tuple[str, ...]) -> BaseParameters:
    kernel = regressor(m, actuated, at, joints)
    bodies = len(m.body_names)
    names, pi = kernel.labels["pi"], np.array(list(linear_parameters(m, joints).values()))
    W = kernel(*states(m, kernel.labels["regressor"], len(names), at)).reshape(-1, len(names))
    kept, K = grouped(W, order(bodies, len(names)), sizes(bodies, len(names), mechanism_size(m)))
    none = tuple(name for name, column in zip(names, K.T, strict=True) if not column.any())
    return BaseParameters(names, tuple(kept), K, K @ pi, none, kernel)


def states(m: Mechanism, rows: Sequence[str], columns: int, at: Any = None) -> tuple[np.ndarray, ...]:
    """Return random states (t, q, v, vdot), or (q, v, vdot), enough of them for a regressor of so many columns."""
    rng = np.random.default_rng(0)
    count = max(_LEAST, -(-_ROWS * columns // max(len(rows), 1)))
    if not m.has_loops:
        t, q = rng.uniform(size=count), np.array([m.random_nearby(rng) for _ in range(count)])
        v, vdot = rng.normal(size=(2, count, m.nv))
        return (t, q, v, 3.0 * vdot) if m.driven_names else (q, v, 3.0 * vdot)
    by = independent(m, rows, at)
    reach = coordinate_units(m)
    own = reach[[m.v_names.index(name) for name in by.names]]
    walk = list(configurations(m, max(_LEAST, -(-count // _STATES)), None if at is None else by.made_for))
    t, q = (np.repeat(x, _STATES, axis=0) for x in (np.array([now.instant for now, _ in walk]), np.array([q for _, q in walk])))
    fits = by.basis.fits(*((t, q) if m.driven_names else (q,)))  # which leaves out singular states
    t, q = t[fits], q[fits]
    N = by.basis(*((t, q) if m.driven_names else (q,))) * own / reach[:, None]
    near = np.abs(N).max(axis=(1, 2), initial=1.0) <= _FOLLOW
    t, q = t[near], q[near]
    rate, acceleration = rng.normal(size=(2, len(q), len(own))) * own
    time = (t,) if m.driven_names else ()
    v = by.rates(*time, q, rate)
    return (*time, q, v, by.accelerations(*time, q, v, 3.0 * acceleration))


def order(bodies: int, columns: int) -> list[int]:
    """Return the columns in the order in which they are kept, where they can be: a body's mass after its other parameters."""
    inertial = [i for k in range(0, 10 * bodies, 10) for i in (*range(k + 1, k + 10), k)]
    return [*inertial, *range(10 * bodies, columns)]


def sizes(bodies: int, columns: int, length: float) -> np.ndarray:
    """Return by what columns are multiplied so that they compare: by the mechanism's size, as often as it is in the parameter's unit."""
    powers = np.concatenate([np.tile(np.repeat([0, 1, 2], [1, 3, 6]), bodies), np.ones(columns - 10 * bodies)])
    return length**powers


def grouped(W: np.ndarray, order: Sequence[int], size: np.ndarray) -> Grouping:
    """Return which columns of W are independent, taken in an order, and how all depend on them; `size` makes them comparable."""
    W = np.linalg.qr(W)[1] if len(W) > W.shape[1] else W
    norms = np.linalg.norm(W, axis=0)
    none = norms * size <= NO_EFFECT * (norms * size).max(initial=0.0)
    scale = np.where(none, 1.0, norms)
    W, kept = np.where(none, 0.0, W / scale), []
    Q = np.zeros((len(W), 0))
    for i in order:
        left = W[:, i] - Q @ (Q.T @ W[:, i])
        left = left - Q @ (Q.T @ left)
        if np.linalg.norm(left) > IDENTIFIABLE:
            kept.append(i)
            Q = np.column_stack([Q, left / np.linalg.norm(left)])
    kept = sorted(kept)
    K = np.linalg.lstsq(W[:, kept], W, rcond=None)[0] if kept else np.zeros((0, len(order)))
    K = np.where(np.abs(K) > COEFFICIENT, K, 0.0)
    K[:, kept] = np.eye(len(kept))
    return Grouping(kept, K * scale / scale[kept][:, None])


def combination(row: np.ndarray, names: Sequence[str], first: int, most: int | None = None) -> str:
    """Return a combination in words, the parameter that it is named after first; at most so many terms."""
    terms = [first, *(i for i in np.argsort(-np.abs(row), kind="stable") if row[i] and i != first)]
    text = ""
    for i in terms[:most]:
        factor = "" if abs(abs(row[i]) - 1.0) < COEFFICIENT else f"{abs(row[i]):.4g} "
        text += f"{' - ' if row[i] < 0.0 else ' + '}{factor}{names[i]}"
    left = 0 if most is None else max(len(terms) - most, 0)
    return text.removeprefix(" + ") + (f" + {left} more" if left else "")
