"""The stepping loop: one attempt at a step, on any scalar, as a function from the state of a trajectory to its next state.

The state is one vector, named by a `Layout`. Traced, the attempt becomes a loop in machine code (`catena.native.Iteration`), over one
trajectory or many; with functions that cannot be traced, the same attempt runs on floats. A `Stepping` puts it together: an integrator, a
clock, control of the step size, the constraints of loops, events, and what goes on record.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from catena.graph import maximum, minimum, where
from catena.graph.trace import object_array
from catena.native.iteration import DONE, ROW, TABLE
from catena.simulation.approach import NEAR, passed
from catena.simulation.integrators.flow import Step
from catena.simulation.integrators.solving import converged
from catena.simulation.integrators.steps import Integrator
from catena.tolerances import SINGULAR

Array = Any

#: Why a trajectory is no longer advanced.
RUNNING, FINISHED, NOT_FINITE, TOO_SMALL, EVENT, NOT_SOLVED, STOPPED, LOOKED, WEAKENED, OPENED, NO_WAY_ON, UNDEFINED = range(12)

#: Step sizes below this part of the time (near 0, of 1 s) are lost in rounding.
_SMALLEST_STEP = 1e-14

#: A step that ends this part of it, or less, before a mark goes to the mark: adaptive steps stretch, so that none is tiny; fixed ones only
#: make up for the rounding of the time.
_STRETCH, _SLACK = 1e-2, 1e-6

#: From this root of the conditioning on a run is nearing a singular configuration, and steps are laid so that none of their stages is close
#: to it: one that is at least this part of the step away, or it is passed anyhow; they grow by no more than this for it.
_NEARING, _SHORTER, _LONGER = 0.3, 0.2, 1.2


class Layout:
    """Names for the entries of a vector; those of `numbers` stand for one entry, the others for an array."""

    def __init__(self, numbers: Sequence[str], arrays: dict[str, int]) -> None:
        self.sizes = dict.fromkeys(numbers, 1) | arrays
        self._numbers = frozenset(numbers)
        edges = accumulate(self.sizes.values(), initial=0)
        self.at = {name: slice(start, stop) for name, (start, stop) in zip(self.sizes, pairwise(edges), strict=True)}
        self.size = sum(self.sizes.values())

    def split(self, vector: Array) -> dict[str, Any]:
        """Return the parts of a vector by name."""
        return {name: vector[at.start] if name in self._numbers else vector[at] for name, at in self.at.items()}

    def join(self, parts: dict[str, Any]) -> Array:
        """Return the vector of named parts, of any scalar."""
        entries: list[Any] = []
        for name, at in self.at.items():
            entries += [parts[name]] if name in self._numbers else list(parts[name])
            assert len(entries) == at.stop, name
        return object_array(entries, (self.size,))


class Span(NamedTuple):
    """The time over which a step goes, and whether it arrives at a mark: the end of the run, or of a row of the table."""

    t: Any
    t1: Any
    arrives: Any

    @property
    def h(self) -> Any:
        return self.t1 - self.t


class Timed:
    """The clock of a run to a time `until`. Rows of the table hold for spans of time; `every` so many steps the start goes on record."""

    state = ("t", "anchor", "count", "h", "since", "steps", "rejected")
    constants = ("until", "step", "every", "rtol", "atol", "largest")

    @staticmethod
    def span(stepping: Stepping, x: dict[str, Any], table: dict[str, Any], c: dict[str, Any]) -> Span:
        """Return how far to go: to the next mark of the clock, the next row of the table or the end."""
        end = minimum(c["until"], table["t_next"][0]) if "t_next" in table else c["until"]
        target = x["t"] + stepping.size(x) if stepping.adaptive else x["anchor"] + (x["count"] + 1.0) * c["step"]
        arrives = target >= end - (_STRETCH if stepping.adaptive else _SLACK) * x["h"]
        return Span(x["t"], where(arrives, end, target), arrives)

    @staticmethod
    def after(span: Span, x: dict[str, Any], c: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return whether the run ends with a step, and the entries of the clock after it."""
        arrives, count = span.arrives, x["since"] + 1.0
        return span.t1 >= c["until"], {
            "table": where(arrives, x["table"] + 1.0, x["table"]),
            "t": span.t1,
            "anchor": where(arrives, span.t1, x["anchor"]),
            "count": where(arrives, 0.0, x["count"] + 1.0),
            "since": where(count >= c["every"], 0.0, count),
            "row": where(x["since"] <= 0.0, x["row"] + 1.0, x["row"]),
            "steps": x["steps"] + 1.0,
        }

    @staticmethod
    def record(nq: int, nv: int) -> Layout:
        """Return the names of the entries of a record: the start of a step."""
        return Layout(("t",), {"q": nq, "v": nv, "a": nv, "tau": nv})


class Counted:
    """The clock of so many `steps` of one size. Rows of the table hold for equally many; `every` so many the end goes on record."""

    state = ("count",)
    constants = ("anchor", "step", "every", "steps", "since")

    @staticmethod
    def span(stepping: Stepping, x: dict[str, Any], table: dict[str, Any], c: dict[str, Any]) -> Span:
        """Return the time of a step."""
        return Span(c["anchor"] + x["count"] * c["step"], c["anchor"] + (x["count"] + 1.0) * c["step"], False)

    @staticmethod
    def after(span: Span, x: dict[str, Any], c: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return whether a step is the last, and the entries of the clock after it."""
        count = x["count"] + 1.0
        return count >= c["steps"], {
            "row": where(count >= (x["row"] + 1.0) * c["every"], x["row"] + 1.0, x["row"]),
            "table": where(count >= (x["table"] + 1.0) * c["since"], x["table"] + 1.0, x["table"]),
            "count": count,
        }

    @staticmethod
    def record(nq: int, nv: int) -> Layout:
        """Return the names of the entries of a record: the end of a step."""
        return Layout((), {"q": nq, "v": nv})


@dataclass(frozen=True)
class Stepping:
    """What the steps of a trajectory are made of.

    `events`, `stop` and `observe` are functions of (t, q, v). With loops, the state has the `limit` of the conditioning down to which their
    plan serves, and the steps after which to `look` for another. Where steps adapt, it also has the `root` of the conditioning, which falls
    in proportion to the distance from a configuration that is singular, and the time of the `crossing` that this leads to expect.
    """

    nq: int
    nv: int
    integrator: Integrator
    adaptive: bool
    clock: type[Timed] | type[Counted]
    row: Layout  # of the table of inputs over time
    inputs: dict[str, int]  # the constant inputs, by name
    lengths: tuple[float, ...]  # what counts as a unit of each local coordinate in its error: 1 rad, or the size of the mechanism
    events: Sequence[Callable[[Any, Array, Array], Any]] = ()
    loops: bool = False
    stop: Callable[[Any, Array, Array], Any] | None = None  # where a trajectory ends, a condition
    observe: Callable[[Any, Array, Array], Any] | None = None  # what goes on record in place of the state
    observed: int = 0  # its entries
    approaches: bool = False  # whether stops or contacts bound the steps by their approach

    @property
    def reuses_last(self) -> bool:
        """Whether a step begins with the acceleration that the last one ended with; other rows of a table would change it."""
        return self.integrator.reuses_last and self.clock is Timed and "t_from" not in self.row.at

    @property
    def state(self) -> Layout:
        steering = ("limit", "look", *(("root", "crossing") if self.adaptive else ())) if self.loops else ()
        arrays = {"q": self.nq, "v": self.nv}
        if self.reuses_last:
            arrays["a"] = self.nv
        if self.events:
            arrays |= {"g": len(self.events), "before": 1 + self.nq + 2 * self.nv + len(self.events)}
        layout = Layout(("done", "row", "table", *self.clock.state, *steering), arrays)
        assert [layout.at[name].start for name in ("done", "row", "table")] == [DONE, ROW, TABLE]
        return layout

    @property
    def constants(self) -> Layout:
        return Layout(self.clock.constants, self.inputs)

    @property
    def record(self) -> Layout:
        return self.clock.record(self.nq, self.nv) if self.observe is None else Layout((), {"observed": self.observed})

    def size(self, x: dict[str, Any]) -> Any:
        """Return the size of an adaptive step, before it is cut to a mark."""
        return _across(self.integrator, x["h"], x["crossing"] - x["t"]) if self.loops else x["h"]

    def near(self, c: dict[str, Any]) -> Any:
        """Return the length by which a step may enter a stop or a contact: what the tolerance does not see."""
        return minimum(c["rtol"], NEAR) * min(self.lengths)


def attempt(stepping: Stepping, flow_of: Callable[[dict, dict], Any], state: Array, row: Array, constants: Array) -> tuple[Array, Array]:
    """Return the state after one attempt at a step, and the record that goes with it."""
    x, table, c = stepping.state.split(state), stepping.row.split(row), stepping.constants.split(constants)
    flow = flow_of(table, c)
    span = stepping.clock.span(stepping, x, table, c)
    t, q, v = span.t, x["q"], x["v"]

    a = x["a"] if stepping.reuses_last else flow.acceleration(t, q, v)
    gaps: Sequence[Array] = ()
    if stepping.approaches:
        time, *gaps = flow.evaluate("approach", t, q, v, a, stepping.near(c))
        x = {**x, "h": minimum(x["h"], maximum(time, 64.0 * smallest_step(t, c["until"])))}
        span = stepping.clock.span(stepping, x, table, c)
    t1 = span.t1
    step = stepping.integrator.advance(flow, t, q, v, a, span.h)
    flow.mark()
    result: dict[str, Any] = {}
    if stepping.adaptive:
        accepted, code, result["h"] = _adapted(stepping, c, x, step, span)
        if stepping.approaches:
            near = stepping.near(c)
            _, *later = flow.evaluate("approach", t1, step.q, step.v, a, near)
            through = accepted & passed(span.h, near, *gaps, *later)
            accepted, result["h"] = accepted & ~through, where(through, 0.5 * span.h, result["h"])
    else:
        accepted, code = verdict(stepping.integrator, step, x.get("limit"))
        result |= {"h": x["h"]} if "h" in x else {}
    new: dict[str, Any] = {"q": step.q, "v": step.v}
    if stepping.reuses_last:
        new["a"] = step.a
    if stepping.loops:
        code = where(accepted & (x["look"] <= 1.0), float(LOOKED), code)
        new["look"], result["limit"] = x["look"] - 1.0, x["limit"]
        if stepping.adaptive:
            new["root"] = root = np.sqrt(maximum(step.conditioning, 0.0))
            expected = t1 + span.h * root / maximum(x["root"] - root, 1e-300)
            new["crossing"] = where((root < _NEARING) & (root < x["root"]), expected, x["crossing"])
    ends, entries = stepping.clock.after(span, x, c)
    new |= entries
    code = where(accepted & ends, float(FINISHED), code)
    if stepping.events:
        new["g"] = np.array([g(t1, step.q, step.v) for g in stepping.events], dtype=object)
        new["before"] = np.array([t, *q, *v, *a, *x["g"]], dtype=object)
        signs = zip(x["g"], new["g"], strict=True)
        changes = [((before < 0.0) & (after >= 0.0)) | ((before > 0.0) & (after <= 0.0)) for before, after in signs]
        crossed = reduce(operator.or_, changes)
        code = where(accepted & crossed, float(EVENT), code)
        # a function that is not a number has no sign to change
        defined = reduce(operator.and_, [(after >= 0.0) | (after < 0.0) for after in new["g"]])
        code = where(accepted, where(defined, code, float(UNDEFINED)), code)
        result["h"] = where(accepted, where(defined, result["h"], span.h), result["h"])
        accepted = accepted & defined
    if stepping.stop is not None:  # what it ends with goes on record
        stops = accepted & flow.value(stepping.stop, t1, step.q, step.v)
        code, new["row"] = where(stops, float(STOPPED), code), where(stops, x["row"] + 1.0, new["row"])
    # a trajectory that fails keeps its last state: sines of what is not finite would slow its neighbours down
    result |= {name: chosen(accepted, value, x[name]) for name, value in new.items()} | {"done": code}
    if "rejected" in x:
        result["rejected"] = where(accepted, x["rejected"], x["rejected"] + 1.0)
    if stepping.observe is not None:
        return stepping.state.join(result), np.ravel(flow.value(stepping.observe, t1, step.q, step.v))
    if stepping.clock is Counted:
        return stepping.state.join(result), np.concatenate([step.q, step.v])
    return stepping.state.join(result), stepping.record.join({"t": t, "q": q, "v": v, "a": a, "tau": flow.force(t, q, v)})


def _adapted(stepping: Stepping, c: dict[str, Any], x: dict[str, Any], step: Step, span: Span) -> tuple[Any, Any, Any]:
    """Return whether an adaptive step is accepted, why the trajectory is no longer advanced if it is not, and the size of the next step."""
    h = span.h
    accepted, h_next = _judge(stepping, c, x, step, h)
    cut = span.arrives | (stepping.size(x) < x["h"]) if stepping.loops else span.arrives
    h_next = where(cut & accepted, maximum(h_next, x["h"]), h_next)  # a step cut short says nothing about the size
    h_next = minimum(h_next, c["largest"])
    weak = accepted & (step.conditioning < x["limit"]) if stepping.loops else None
    if weak is not None:  # a shorter step may end better
        accepted, h_next = accepted & ~weak, where(weak, 0.5 * h, h_next)
    small = h_next < smallest_step(span.t, c["until"])
    code = where(small, float(TOO_SMALL), float(RUNNING))
    if weak is not None:
        code = where(weak & (x["limit"] > SINGULAR), float(WEAKENED), code)
    return accepted, code, h_next


def smallest_step(t: Any, until: Any) -> Any:
    """Return the size of steps below which they are lost in rounding, in a run to a time."""
    return _SMALLEST_STEP * maximum(abs(t), minimum(abs(until), 1.0))


def _across(integrator: Integrator, h: Any, away: Any) -> Any:
    """Return the size of a step of about h where a singular configuration is expected after a time: in its widest gap between stages."""
    assert integrator.tableau is not None
    nodes = sorted({0.0, 1.0, *integrator.tableau.c})
    width, start = max((b - a, a) for a, b in pairwise(nodes))
    middle = start + 0.5 * width
    before = where(away < (1.0 + middle) * h, away - middle * h, h)
    return where(away > _SHORTER * h, where(away <= _LONGER * middle * h, away * (1.0 / middle), before), h)


def _finite(step: Step) -> Any:
    return sum(map(abs, [*step.q, *step.v]), 0.0) < 1e300


def verdict(integrator: Integrator, step: Step, limit: Any = None) -> tuple[Any, Any]:
    """Return whether a fixed step is accepted, with a conditioning of `limit` at least; and why the trajectory ends if it is not."""
    good = finite = _finite(step)
    failed: Any = float(RUNNING)
    if integrator.implicit:
        solved = converged(step.correction)
        good = finite & solved
        failed = where(solved, float(RUNNING), float(NOT_SOLVED))
    code = where(finite, failed, float(NOT_FINITE))
    if limit is not None:  # also where they lead to what is not finite
        weak = step.conditioning < limit
        good, code = good & ~weak, where(weak, where(abs(step.conditioning) < limit, float(WEAKENED), float(OPENED)), code)
    return good, code


def _judge(stepping: Stepping, c: dict[str, Any], x: dict[str, Any], step: Step, h: Any) -> tuple[Any, Any]:
    """Return whether the error of a step is within the tolerance, and the size of the next step."""
    tableau, finite = stepping.integrator.tableau, _finite(step)
    assert tableau is not None
    # local coordinates are measured by their units, velocities by their size
    sizes = [*stepping.lengths, *[maximum(abs(w0), abs(w1)) for w0, w1 in zip(x["v"], step.v, strict=True)]]
    scales = [1.0 / (c["atol"] + c["rtol"] * size) for size in sizes]
    parts = [[abs((e * s) * (e * s)) for e, s in zip(errors, scales, strict=True)] for errors in step.errors]
    squares = [sum(errors, 0.0) * (0.5 / stepping.nv) for errors in parts]
    error = np.sqrt(squares[0])
    if len(squares) == 2:  # the second estimate tempers the first, as Hairer, Norsett and Wanner propose for their method of order 8
        error = squares[0] / np.sqrt(squares[0] + 0.01 * squares[1] + 1e-300)
    good = finite & (error <= 1.0)
    factor = 0.9 * np.exp(np.log(maximum(error, 1e-10)) * (-1.0 / (tableau.error_order + 1)))
    factor = where(finite & (error < 1e300), minimum(5.0, maximum(0.2, factor)), 0.1)
    return good, where(good, h * factor, minimum(h * factor, 0.9 * x["h"]))


def chosen(condition: Any, new: Any, old: Any) -> Any:
    """Return the new entries where the condition holds, else the old ones."""
    if np.ndim(new) == 0 and not isinstance(new, np.ndarray):
        return where(condition, new, old)
    return np.array([where(condition, a, b) for a, b in zip(new, old, strict=True)], dtype=object)


def run_in_python(
    function: Callable[..., tuple[Array, Array]], state: Array, table: Array, constants: Array, record: Array, iterations: int
) -> None:
    """Advance one trajectory as `catena.native.Iteration.run` does, calling the function on floats."""
    for _ in range(iterations):
        if state[0, DONE] != RUNNING or state[0, ROW] >= record.shape[1]:
            return
        row = int(state[0, ROW])
        at = min(int(state[0, TABLE]), table.shape[1] - 1)
        new, entry = function(state[0], table[0, at], constants[0])
        if new[ROW] > row:
            record[0, row] = np.asarray(entry, dtype=float)
        state[0] = np.asarray(new, dtype=float)
