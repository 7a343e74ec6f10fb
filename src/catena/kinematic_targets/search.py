"""The search of inverse kinematics: damped Gauss-Newton steps on many lanes, compiled as one iteration.

Residuals and coordinates are without units, as `loops.scaling` has them; closure residuals of loops are rows like those of targets. A lane
goes from its guess, and where that leads nowhere from one start of a table after the other; it ends when its targets are met.

    here     meaning
    q        the positions to evaluate in this turn; `best` those with the least cost since the start, `least` those of all starts
    r, J     residual and its Jacobian at q, weighted
    H, g     J^T J and J^T r at `best`
    cost     r^T r
    off      the largest residual at `best`, squared, as a multiple of its tolerance squared
    damping  factor of the cost that is added to the diagonal of H: it goes to zero with the cost, so that steps become Newton's
    z        step towards the posture, of which only that part is taken that leaves the residual alone
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.formulations.loops.basic_constraints import closure_residual
from catena.formulations.loops.constraints import constraint_jacobian
from catena.formulations.loops.coupled_loops import all_loops
from catena.graph import Graph, Trace, maximum, minimum, where
from catena.kinematic_targets.targets import ROWS, Target, residual
from catena.loops.scaling import coordinate_units, loop_owners, mechanism_size
from catena.model import Mechanism
from catena.model.parameters import entry_of
from catena.native.iteration import Iteration
from catena.spatial import Factor
from catena.tolerances import CLOSED

#: Weight of closure residuals against targets: where targets cannot be met, loops are left open by little, and closed afterwards.
_LOOPS = 10.0

#: The first damping; its factors after a step that lowered the cost, and after one that did not; the largest.
_FIRST, _DOWN, _UP, _MOST = 0.3, 0.5, 3.0, 1e8

#: The part of the largest entry of the diagonal that is added to it at least, and the longest step along a coordinate [rad, or sizes].
_FLOOR, _LONGEST = 1e-11, 1.0

#: Turns after which the cost must have fallen to a part, or the start is given up; below a cost, it need only have fallen to the last: near
#: singular positions steps converge slowly.
_PATIENCE, _PROGRESS, _NEAR, _SLOW = 6.0, 0.3, 1e-4, 0.95

#: Turns towards the posture at most, and those after which steps are half as long; the longest step, the shortest, and the part of the
#: diagonal that is added to it; then turns back onto the targets.
_POSTURES, _SLOWER, _STRIDE, _ARRIVED, _HELD, _POLISHED = 80.0, 20.0, 0.3, 1e-7, 1e-7, 8.0

#: Systems up to this size are solved entry by entry.
_SMALL = 12

#: No cost yet, and no limit.
NONE = 1e300

#: What a lane does; and how it ends.
_SEARCHING, _POSING, _POLISHING = 0.0, 1.0, 2.0
GOES_ON, MET, GIVEN_UP = 0.0, 1.0, 2.0

_NUMBERS = ("done", "row", "table", "phase", "cost", "off", "damping", "turns", "count", "mark", "least_cost")


class _Lane(NamedTuple):
    """The state of a lane; the first three steer the iteration, and `table` is the number of the next start."""

    done: Any
    row: Any
    table: Any
    phase: Any
    cost: Any
    off: Any
    damping: Any
    turns: Any
    count: Any
    mark: Any
    least_cost: Any
    q: Any
    best: Any
    least: Any
    H: Any
    g: Any


class Search:
    """The compiled search of a model for targets of one structure, with or without a posture."""

    def __init__(self, m: Mechanism, targets: tuple[Target, ...], posture: bool) -> None:
        self._model, self._targets, self._posture = m, targets, posture
        self._coordinates, self._size = coordinate_units(m), mechanism_size(m) or 1.0
        self._units = np.array([unit for _, unit in loop_owners(m, None)]) if m.has_loops else np.zeros(0)
        #: Places of positions in q and of their rates in v that have limits.
        self.limited = [
            (at_q.start + i, at_v.start + i)
            for link, at_q, at_v in m.slices()
            if link.joint.limits is not None
            for i in range(link.joint.nv)
        ]
        sizes = dict.fromkeys(_NUMBERS, 1) | dict.fromkeys(("q", "best", "least"), m.nq)
        self.state = _places(sizes | {"H": m.nv * (m.nv + 1) // 2, "g": m.nv})
        sizes = {"t": 1, "tolerance": 1, "starts": 1, "lower": len(self.limited), "upper": len(self.limited), "free": m.nv}
        sizes |= {"posture": m.nq if posture else 0} | {entry_of(path): m.parameters()[path].value.size for path in m.varied}
        sizes |= {f"numbers {i}": target.numbers.shape[-1] for i, target in enumerate(targets)}
        self.constants = _places(sizes | {f"weights {i}": ROWS[target.kind] for i, target in enumerate(targets)})
        self.iteration = Iteration(self._graph())

    # the search of many lanes

    def run(self, guess: np.ndarray, starts: np.ndarray, constants: np.ndarray, turns: int) -> np.ndarray:
        """Return the states of lanes from guesses (N, nq), where they ended after so many turns at most."""
        state = np.zeros((len(guess), self._end(self.state)))
        for name, value in (("q", guess), ("best", guess), ("least", guess), ("cost", NONE), ("off", NONE), ("least_cost", NONE),
                            ("mark", NONE), ("damping", _FIRST)):  # fmt: skip
            state[:, self.state[name]] = value
        going, round_ = np.arange(len(state)), 10
        for _ in range(0, turns, round_):  # lanes that have ended leave their places in vectors to others
            part, own = np.ascontiguousarray(state[going]), np.ascontiguousarray(constants[going])
            self.iteration.run(part, starts[None], own, np.zeros((len(part), 1, 1)), round_)
            state[going] = part
            going = going[part[:, 0] == GOES_ON]
            if not len(going):
                break
        return state

    @staticmethod
    def _end(places: dict[str, slice]) -> int:
        return max(at.stop for at in places.values())

    @property
    def constants_size(self) -> int:
        """Number of constants of a lane."""
        return self._end(self.constants)

    # a turn of it, traced

    def _graph(self) -> Graph:
        m, trace = self._model, Trace("inverse kinematics")
        state, start = trace.input("state", (self._end(self.state),)), trace.input("row", (m.nq,))
        constants = trace.input("constants", (self.constants_size,))
        given = {name: constants[at] for name, at in self.constants.items()}
        lane = _Lane(*(state[at.start] if name in _NUMBERS else state[at] for name, at in self.state.items()))
        trace.mark()
        r, J, off = self._residual(trace, lane.q, given)
        trace.mark()
        cost, (H, g) = _dot(r, r), _products(J, r)
        taken = where(cost < lane.cost, 1.0, where(lane.phase == _POSING, 1.0, 0.0)) > 0.5
        now = lane._replace(
            cost=where(taken, cost, lane.cost),
            off=where(taken, off, lane.off),
            best=_where(taken, lane.q, lane.best),
            H=_where(taken, H, lane.H),
            g=_where(taken, g, lane.g),
            damping=lane.damping * where(taken, _DOWN, _UP),
            turns=lane.turns + 1.0,
            count=lane.count + 1.0,
        )
        trace.mark()
        step = self._step(trace, now, given)
        trace.mark()
        moved = self._within(m.moved(now.best, step * self._coordinates), given)
        longest = _largest(step)
        after = self._after(now, given, self._within(self._held(start, now.best, given), given), moved, longest)
        entries = [x for part in after for x in np.atleast_1d(np.asarray(part, dtype=object))]
        return trace.graph(state=np.array(entries, dtype=object), record=[lane.done])

    def _residual(self, trace: Trace, q: Any, given: dict[str, Any]) -> tuple[Any, Any, Any]:
        """Return r and J, weighted and without units, and the square of the largest residual as a multiple of its tolerance's."""
        m = self._model
        numbers = {path: given[entry_of(path)].reshape(m.parameters()[path].shape) for path in m.varied}
        tree = m.tree_with(numbers).traced(trace).at(given["t"][0])
        values: list[Any] = []
        rows: list[Any] = []
        off: Any = 0.0
        for i, target in enumerate(self._targets):
            found, weights = residual(tree, q, target, given[f"numbers {i}"]), given[f"weights {i}"]
            squares = {False: 0.0, True: 0.0}
            for value, row, length, weight in zip(found.values, found.jacobian, found.lengths, weights, strict=True):
                scale = weight * (1.0 / self._size if length else 1.0)
                values.append(scale * value)
                rows.append(scale * (row * self._coordinates))
                squares[length] = squares[length] + where(weight > 0.0, value * value, 0.0)
            for square in squares.values():
                off = maximum(off, square / (given["tolerance"][0] * given["tolerance"][0]))
        if m.has_loops:
            columns = list(all_loops(tree).columns)
            found, J = constraint_jacobian(tree, q, closure_residual)
            for value, row, unit in zip(found, J, self._units, strict=True):
                whole = np.zeros(m.nv).astype(object)
                whole[columns] = row * self._coordinates[columns] * (_LOOPS / unit)
                values.append(value * (_LOOPS / unit))
                rows.append(whole)
                off = maximum(off, value * value * (1.0 / (CLOSED * unit) ** 2))
        return np.array(values, dtype=object), np.stack(rows), off

    def _step(self, trace: Trace, now: _Lane, given: dict[str, Any]) -> Any:
        """Return the step from `best`: that of least squares, damped, with coordinates at limits that it would leave held."""
        m, n = self._model, self._model.nv
        largest: Any = 0.0
        for i in range(n):
            largest = maximum(largest, now.H[_at(i, i)])
        damping = now.damping * now.cost + _FLOOR * largest + 1e-300
        pull, longest, outward = -now.g, _LONGEST, -now.g
        if self._posture:
            posing = now.phase == _POSING
            damping = where(posing, _HELD * largest + 1e-300, damping)
            z = m.difference(now.best, given["posture"]) / self._coordinates
            share = 1.0 / (1.0 + now.count / _SLOWER)  # less and less, lest the steps overshoot where the targets bend the way
            pull = pull + where(posing, damping * share, 0.0) * z
            outward = _where(posing, np.zeros(n), outward)
            longest = where(posing, _STRIDE, _LONGEST)
        free, step = [given["free"][i] for i in range(n)], outward
        for _ in range(3 if self._posture and self.limited else 1):
            for k, (i, j) in enumerate(self.limited):
                x, low, high = now.best[i], given["lower"][k], given["upper"][k]
                free[j] = free[j] * where(x <= low, where(outward[j] < 0.0, 0.0, 1.0), 1.0)
                free[j] = free[j] * where(x >= high, where(outward[j] > 0.0, 0.0, 1.0), 1.0)
            step = outward = self._solved(trace, now.H, damping, free, pull, largest)
        return step * minimum(1.0, longest / (_largest(step) + 1e-300))

    def _solved(self, trace: Trace, H: Any, damping: Any, free: list[Any], pull: Any, largest: Any) -> Any:
        """Return the solution of the damped system for the coordinates that are free; zero for others."""
        n = len(free)
        A, b = np.empty((n, n), dtype=object), np.empty(n, dtype=object)
        for i in range(n):
            b[i] = free[i] * pull[i]
            for j in range(i):
                A[i, j] = A[j, i] = free[i] * free[j] * H[_at(i, j)]
            A[i, i] = free[i] * H[_at(i, i)] + damping + (1.0 - free[i]) * largest
        return Factor(A).solve(b) if n <= _SMALL else trace.solve(A, b, range(-1, n - 1))

    def _held(self, start: Any, best: Any, given: dict[str, Any]) -> Any:
        """Return a start at which joints with coordinates that are fixed stay as they are."""
        found = np.array(start, dtype=object)
        for _, at_q, at_v in self._model.slices():
            free: Any = 1.0
            for j in range(at_v.start, at_v.stop):
                free = minimum(free, given["free"][j])
            found[at_q] = _where(free > 0.5, start[at_q], best[at_q]) if at_v.stop > at_v.start else start[at_q]
        return found

    def _within(self, q: Any, given: dict[str, Any]) -> Any:
        """Return positions moved to their limits where they are beyond them."""
        moved = np.array(q, dtype=object)
        for k, (i, _) in enumerate(self.limited):
            moved[i] = maximum(given["lower"][k], minimum(given["upper"][k], moved[i]))
        return moved

    def _after(self, now: _Lane, given: dict[str, Any], start: Any, moved: Any, longest: Any) -> _Lane:
        """Return what becomes of a lane: it goes on with the step, begins again, turns to the posture, or ends."""
        searching = now.phase == _SEARCHING
        met = where(now.off <= 1.0, 1.0, 0.0)
        judged = now.count >= _PATIENCE
        enough = where(now.cost < _NEAR, _SLOW, _PROGRESS) * now.mark
        stuck = where(judged, where(now.cost > enough, 1.0, 0.0), where(now.damping > _MOST, 1.0, 0.0))
        least = where(now.cost < now.least_cost, 1.0, met) > 0.5
        going = now._replace(
            q=moved,
            count=where(judged, 0.0, now.count),
            mark=where(judged, now.cost, now.mark),
            least=_where(least, now.best, now.least),
            least_cost=where(least, now.cost, now.least_cost),
        )
        again = going._replace(
            q=start, cost=NONE, off=NONE, mark=NONE, damping=_FIRST, count=0.0, table=now.table + 1.0,
            done=where(now.table >= given["starts"][0], GIVEN_UP, GOES_ON),
        )  # fmt: skip
        if not self._posture:
            return _choose(met > 0.5, going._replace(done=MET), _choose(stuck > 0.5, again, going))
        poses = going._replace(q=now.best, phase=_POSING, count=0.0)
        search = _choose(met > 0.5, poses, _choose(stuck > 0.5, again, going))
        arrived = where(now.count >= _POSTURES, 1.0, where(longest <= _ARRIVED, 1.0, 0.0))
        polishes = now._replace(q=now.best, phase=_POLISHING, count=0.0, cost=NONE, off=NONE, damping=1e-6)
        pose = _choose(arrived > 0.5, polishes, now._replace(q=moved))
        ended = now._replace(done=MET)  # at the positions that met the targets before, where these do not
        polish = _choose(met > 0.5, ended._replace(least=now.best), _choose(now.count >= _POLISHED, ended, now._replace(q=moved)))
        return _choose(searching, search, _choose(now.phase == _POSING, pose, polish))


def _places(sizes: dict[str, int]) -> dict[str, slice]:
    ends = np.cumsum(list(sizes.values())).tolist()
    return {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends, strict=True)}


def _at(i: int, j: int) -> int:
    """Return where an entry of the lower triangle is."""
    return i * (i + 1) // 2 + j


def _products(J: Any, r: Any) -> tuple[Any, Any]:
    """Return the lower triangle of J^T J, row by row, and J^T r."""
    columns = J.T
    H = [_dot(columns[i], columns[j]) for i in range(len(columns)) for j in range(i + 1)]
    return np.array(H, dtype=object), np.array([_dot(column, r) for column in columns], dtype=object)


def _dot(a: Any, b: Any) -> Any:
    return sum((x * y for x, y in zip(a, b, strict=True)), 0.0)


def _largest(x: Any) -> Any:
    found: Any = 0.0
    for entry in x:
        found = maximum(found, abs(entry))
    return found


def _where(condition: Any, a: Any, b: Any) -> Any:
    return np.array([where(condition, x, y) for x, y in zip(a, b, strict=True)], dtype=object)


def _choose(condition: Any, a: _Lane, b: _Lane) -> _Lane:
    parts = (_where(condition, x, y) if isinstance(x, np.ndarray) else where(condition, x, y) for x, y in zip(a, b, strict=True))
    return _Lane(*parts)
