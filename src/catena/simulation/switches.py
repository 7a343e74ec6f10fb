"""When functions of a run switch: the times at which conditions on time, in the graphs of forces, controllers and drives, change.

Of a function that is linear in time between two conditions the time follows at once. Others are enclosed: the ranges of a graph over an
interval show whether a condition may change in it, and what may is halved until it is as short as rounding. So none is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from catena.graph import Graph
from catena.graph.graph import operands_of
from catena.graph.ranges import RANGES, Range, ranges
from catena.model import Mechanism
from catena.model.user_functions import python, traced

#: Where the functions of a run switch, to this part of the time, or of a thousandth of the run.
_RESOLUTION = 2.0**-46

#: Functions are evaluated no nearer to a switch than so many resolutions; switches within four of these are one.
_AWAY = 4.0

#: Intervals that are looked at together, and the switches that are searched for at a time.
_MOST = 2**15

#: Halvings after which intervals that are still too many, as where a function touches its condition, are taken as they are.
_HALVINGS = 30

#: Halvings that find the first number at which a condition has changed.
_TO_ROUNDING = 60


class _Condition(NamedTuple):
    """An operation with two sides, by its number among the nodes of a graph: it compares its operands, or is the floor of one."""

    node: int
    op: str
    operands: tuple[int, ...]

    def state(self, found: dict[int, Range]) -> Range:
        """Return the range of its state, from those of its operands."""
        if self.op == "floor":
            return RANGES["floor"](found[self.operands[0]])
        if self.op == "le":
            return RANGES["le"](*(found[i] for i in self.operands))
        a, b = found[self.operands[0]], (0.0, 0.0)
        return RANGES["lt"](a, b if self.op in ("abs", "atan2") else found[self.operands[1]])


#: The operations that switch. Where two numbers are equal, but for steps of the floor, is no span of time.
_SWITCHING = ("lt", "le", "min", "max", "abs", "floor", "atan2")


class _OfTime:
    """The conditions of a graph that depend on nothing but time, its first input."""

    def __init__(self, graph: Graph) -> None:
        self.nodes = graph.nodes
        linear: list[tuple[float, float] | None] = []  # a + b t
        timed: list[bool] = []
        self.lines: list[tuple[str, float, float]] = []
        self.others: list[_Condition] = []
        for i, node in enumerate(self.nodes if uses_time(graph) else ()):
            op, operands = node[0], operands_of(node)
            known = node == ("input", 0) or op == "const" or (op in RANGES and all(timed[j] for j in operands))
            timed.append(known)
            linear.append(_line(node, linear) if known else None)
            if not known or op not in _SWITCHING or linear[i] is not None:
                continue
            sides = [linear[j] for j in operands]
            if op in ("abs", "atan2"):
                sides[1:] = [(0.0, 0.0)]
            if None in sides:
                self.others.append(_Condition(i, op, operands))
                continue
            (a, b), (c, d) = sides if len(sides) == 2 else (sides[0], (0.0, 0.0))  # type: ignore[misc]
            if b != d:
                self.lines.append((op, a - c, b - d))

    def crossings(self, start: float, end: float) -> np.ndarray | None:
        """Return when conditions that are linear in time change between two times; None where these are too many."""
        roots = [np.array([-a / b for op, a, b in self.lines if op != "floor"])]
        for op, a, b in self.lines:
            if op == "floor":
                first, last = sorted((a + b * start, a + b * end))
                if last - first > _MOST:
                    return None
                roots.append((np.arange(np.ceil(first), np.floor(last) + 1.0) - a) / b)
        times = np.concatenate(roots)
        return times[(times > start) & (times <= end)]

    def states(self, least: np.ndarray, most: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ranges of the states of the other conditions over intervals, (conditions, intervals) each."""
        wanted = sorted({j for one in self.others for j in one.operands})
        found = dict(zip(wanted, ranges(self.nodes, wanted, least, most), strict=True))
        states = [[np.broadcast_to(x, least.shape) for x in one.state(found)] for one in self.others]
        return np.array([x for x, _ in states]), np.array([x for _, x in states])

    def enclosed(self, start: float, end: float, resolution: Callable[[np.ndarray], np.ndarray]) -> np.ndarray | None:
        """Return when the other conditions change between two times, to a resolution of these; None where these are too many."""
        if not self.others:
            return np.zeros(0)
        edges = np.linspace(start, end, 65)
        least, most = edges[:-1], edges[1:]
        for k in range(100):
            states = self.states(least, most)
            open_ = (states[0] != states[1]).any(axis=0)
            least, most = least[open_], most[open_]
            if (most - least <= resolution(most)).all():
                break
            if len(least) > _MOST:
                if k < _HALVINGS:
                    return None
                break
            middle = 0.5 * (least + most)
            least, most = np.concatenate([least, middle]), np.concatenate([middle, most])
        at_least, at_most = (self.states(x, x)[0] for x in (least, most))
        changed = (at_least != at_most).any(axis=0)
        least, most, before = least[changed], most[changed], at_least[:, changed]
        for _ in range(_TO_ROUNDING if len(least) else 0):
            middle = 0.5 * (least + most)
            same = (self.states(middle, middle)[0] == before).all(axis=0)
            least, most = np.where(same, middle, least), np.where(same, most, middle)
        return most


def _line(node: tuple, linear: Sequence[tuple[float, float] | None]) -> tuple[float, float] | None:
    """Return a and b where a node is a + b t; `linear` has those of the nodes before."""
    op = node[0]
    if op == "input":
        return (0.0, 1.0)
    if op == "const":
        return (node[1], 0.0)
    sides = [linear[j] for j in node[1:]]
    if None in sides or op not in ("add", "sub", "neg", "mul", "div"):
        return None
    (a, b), (c, d) = sides if len(sides) == 2 else (sides[0], (0.0, 0.0))  # type: ignore[misc]
    if op == "neg":
        return (-a, -b)
    if op in ("add", "sub"):
        return (a + c, b + d) if op == "add" else (a - c, b - d)
    if op == "mul":
        return (a * c, b * c + a * d) if b == 0.0 or d == 0.0 else None
    return (a / c, b / c) if d == 0.0 and c != 0.0 else None


def time_graphs(m: Mechanism, controller: Any) -> list[Graph]:
    """Return the graphs of all that a mechanism and a controller do over time, with the time first; not of functions called from Python."""

    def graph(function: Any) -> Graph:
        return traced(function, m.nq, m.nv, m.given_inputs)

    def of_model() -> list[Graph]:
        drives = graph(lambda t, q, v: np.concatenate([np.zeros(0), *(given.q for given in m.driven_motion(t))]))
        forces = [graph(force.function) for force in m.forces if force.traced]
        return [drives, *forces, *(force.role.graph(force.function) for force in m.point_forces)]

    controllers = [] if controller is None or isinstance(controller, python) else [controller]
    return [*m.once("time graphs", (), of_model), *map(graph, controllers)]


def uses_time(graph: Graph) -> bool:
    """Return whether a graph depends on its first input."""
    return ("input", 0) in graph.nodes


class Switches:
    """The times from `start` to `until` at which functions with these graphs, of time first, switch; found as a run comes to need them."""

    def __init__(self, graphs: Sequence[Graph], start: float, until: float) -> None:
        self._parts = [part for part in map(_OfTime, graphs) if part.lines or part.others]
        self.start, self.until = start, until
        self.times, self._searched, self._span = np.zeros(0), start, until - start

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def complete(self) -> bool:
        """Whether all are found."""
        return self._searched >= self.until

    def away(self, t: Any) -> Any:
        """Return how near to a switch at a time functions may be evaluated."""
        return _AWAY * self._resolution(t)

    def _resolution(self, t: Any) -> Any:
        return _RESOLUTION * np.maximum(np.abs(t), 1e-3 * (self.until - self.start))

    def search(self, count: int, t: float) -> None:
        """Find so many after a time, or all that there are."""
        while not self.complete and np.sum(self.times > t) < count:
            end = min(self._searched + self._span, self.until)
            found = self._between(self._searched, end)
            if found is None:
                self._span *= 0.25
                continue
            times = np.sort(np.concatenate([self.times, found]))
            near = np.diff(times, prepend=self.start) <= 4.0 * self.away(times)
            self.times, self._searched = times[~near & (times < self.until - 4.0 * self.away(self.until))], end
            self._span *= 2.0

    def _between(self, start: float, end: float) -> np.ndarray | None:
        found = [np.zeros(0)]
        for part in self._parts:
            for times in (part.crossings(start, end), part.enclosed(start, end, self._resolution)):
                if times is None:
                    return None
                found.append(times)
        return np.concatenate(found)
