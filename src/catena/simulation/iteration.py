"""A run as an iteration: the state of a run, one attempt at a step, and what it leaves on record.

The state is one vector, named by `Layout`; the attempt is a function of that vector on any scalar. Traced, it becomes a loop in machine
code (`catena.native.Iteration`); with callbacks that cannot be traced, the same function runs on floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from catena.graph import maximum, minimum, where
from catena.native.iterate import DONE, ROW, TABLE
from catena.simulation.closing import SINGULAR
from catena.simulation.flow import Step
from catena.simulation.solving import converged
from catena.simulation.steps import Integrator

Array = Any

#: Why a trajectory is no longer advanced.
RUNNING, FINISHED, NOT_FINITE, TOO_SMALL, EVENT, NOT_SOLVED, STOPPED, LOOKED, WEAKENED, OPENED, NO_WAY_ON, UNDEFINED = range(12)

#: Step sizes below this part of the time (near 0, of 1 s) are lost in rounding.
_SMALLEST_STEP = 1e-14

#: A step that ends this part of it, or less, before a mark goes to the mark: adaptive steps stretch, so that none is tiny; fixed ones only
#: make up for the rounding of the time.
_STRETCH, _SLACK = 1e-2, 1e-6

_HEAD = ("done", "row", "table", "t", "anchor", "count", "h", "since", "steps", "rejected")
_CONSTANTS = ("until", "step", "every", "rtol", "atol", "largest")
_NUMBERS = frozenset((*_HEAD, *_CONSTANTS, "limit", "look", "root", "crossing"))

#: From this root of the strength on a run is nearing a singular configuration, and steps are laid so that none of their stages is close to
#: it: one that is at least this part of the step away, or it is passed anyhow; they grow by no more than this for it.
_NEARING, _SHORTER, _LONGER = 0.3, 0.2, 1.2


class Layout:
    """Names for the entries of a vector."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes
        self.at: dict[str, slice] = {}
        start = 0
        for name, size in sizes.items():
            self.at[name] = slice(start, start + size)
            start += size
        self.size = start

    def split(self, vector: Array) -> dict[str, Any]:
        """Return the parts of a vector: numbers for the names that stand for one, else arrays."""
        return {name: vector[at.start] if name in _NUMBERS else vector[at] for name, at in self.at.items()}

    def join(self, parts: dict[str, Any]) -> Array:
        """Return the vector of named parts, of any scalar."""
        entries: list[Any] = []
        for name, size in self.sizes.items():
            entries += [parts[name]] if name in _NUMBERS else list(parts[name])
            assert len(entries) == self.at[name].stop, (name, size)
        vector = np.empty(self.size, dtype=object)
        for i, entry in enumerate(entries):
            vector[i] = entry
        return vector


@dataclass(frozen=True)
class Problem:
    """What a run is made of: the integrator, whether it adapts its steps, the force input and the event functions.

    `events` are functions of (t, q, v). With loops, the state has the `limit` of the strength down to which they are held, and the steps
    after which to `look` for another hold. Where steps adapt, it also has the `root` of the strength, which falls in proportion to the
    distance from a configuration that is singular, and the time of the `crossing` that this leads to expect.
    """

    nq: int
    nv: int
    integrator: Integrator
    adaptive: bool
    row: Layout  # of the table of inputs over time
    inputs: Layout  # of the constant inputs
    lengths: tuple[float, ...]  # what counts as a unit of each local coordinate in its error: 1 rad, or the size of the mechanism
    events: Sequence[Callable[[Any, Array, Array], Any]] = ()
    loops: bool = False

    @property
    def state(self) -> Layout:
        """Names of the entries of the state."""
        sizes = dict.fromkeys(_HEAD, 1) | {"q": self.nq, "v": self.nv}
        if self.integrator.reuses_last:
            sizes["a"] = self.nv
        if self.loops:
            sizes |= dict.fromkeys(("limit", "look", *(("root", "crossing") if self.adaptive else ())), 1)
        if self.events:
            sizes |= {"g": len(self.events), "before": 1 + self.nq + 2 * self.nv + len(self.events)}
        layout = Layout(sizes)
        assert [layout.at[name].start for name in ("done", "row", "table")] == [DONE, ROW, TABLE]
        return layout

    @property
    def constants(self) -> Layout:
        """Names of the entries of the constants."""
        return Layout(dict.fromkeys(_CONSTANTS, 1) | self.inputs.sizes)

    @property
    def record(self) -> Layout:
        """Names of the entries of a record: the start of a step."""
        return Layout({"t": 1, "q": self.nq, "v": self.nv, "a": self.nv, "tau": self.nv})


def attempt(problem: Problem, flow_of: Callable[[dict, dict], Any], state: Array, row: Array, constants: Array) -> tuple[Array, Array]:
    """Return the state after one attempt at a step, and the record of where it began."""
    x, table, c = problem.state.split(state), problem.row.split(row), problem.constants.split(constants)
    flow = flow_of(table, c)
    t, q, v = x["t"], x["q"], x["v"]

    # how far: to the next mark of the clock, the next row of the table or the end
    end = minimum(c["until"], table["t_next"][0]) if "t_next" in table else c["until"]
    size = _across(problem.integrator, x["h"], x["crossing"] - t) if problem.loops and problem.adaptive else x["h"]
    target = t + size if problem.adaptive else x["anchor"] + (x["count"] + 1.0) * c["step"]
    arrives = target >= end - (_STRETCH if problem.adaptive else _SLACK) * x["h"]
    t1 = where(arrives, end, target)
    h = t1 - t

    a = x["a"] if problem.integrator.reuses_last else flow.acceleration(t, q, v)
    step = problem.integrator.advance(flow, t, q, v, a, h)
    flow.mark()
    if problem.adaptive:
        finite = _finite(step)
        accepted, h_next = _judge(problem, c, x, step, h, finite)
        cut = arrives | (size < x["h"]) if problem.loops else arrives
        h_next = where(cut & accepted, maximum(h_next, x["h"]), h_next)  # a step cut short says nothing about the size
        h_next = minimum(h_next, c["largest"])
        weak = accepted & (step.strength < x["limit"]) if problem.loops else None
        if weak is not None:  # a shorter step may end better
            accepted, h_next = accepted & ~weak, where(weak, 0.5 * h, h_next)
        small = h_next < _SMALLEST_STEP * maximum(abs(t), minimum(abs(c["until"]), 1.0))
        code = where(small, float(TOO_SMALL), float(RUNNING))
        if weak is not None:
            code = where(weak & (x["limit"] > SINGULAR), float(WEAKENED), code)
    else:
        (accepted, code), h_next = verdict(problem.integrator, step, x.get("limit")), x["h"]
    if problem.loops:
        code = where(accepted & (x["look"] <= 1.0), float(LOOKED), code)
    code = where(accepted & (t1 >= c["until"]), float(FINISHED), code)

    new: dict[str, Any] = {
        "table": where(accepted & arrives, x["table"] + 1.0, x["table"]),
        "t": t1, "q": step.q, "v": step.v,
        "anchor": where(arrives, t1, x["anchor"]),
        "count": where(arrives, 0.0, x["count"] + 1.0),
        "since": where(x["since"] + 1.0 >= c["every"], 0.0, x["since"] + 1.0),
        "row": where(x["since"] <= 0.0, x["row"] + 1.0, x["row"]),
        "steps": x["steps"] + 1.0,
    }  # fmt: skip
    if problem.integrator.reuses_last:
        new["a"] = step.a
    if problem.loops:
        new["look"] = x["look"] - 1.0
        if problem.adaptive:
            new["root"] = root = np.sqrt(maximum(step.strength, 0.0))
            expected = t1 + h * root / maximum(x["root"] - root, 1e-300)
            new["crossing"] = where((root < _NEARING) & (root < x["root"]), expected, x["crossing"])
    if problem.events:
        new["g"] = np.array([g(t1, step.q, step.v) for g in problem.events], dtype=object)
        new["before"] = np.array([t, *q, *v, *a, *x["g"]], dtype=object)
        signs = zip(x["g"], new["g"], strict=True)
        crossed = _any([((before < 0.0) & (after >= 0.0)) | ((before > 0.0) & (after <= 0.0)) for before, after in signs])
        code = where(accepted & crossed, float(EVENT), code)
        defined = _all([(after >= 0.0) | (after < 0.0) for after in new["g"]])  # a function that is not a number has no sign to change
        code, h_next = (where(accepted, where(defined, x, lost), x) for x, lost in ((code, float(UNDEFINED)), (h_next, h)))
        accepted = accepted & defined
    kept = {name: chosen(accepted, value, x[name]) for name, value in new.items()}
    kept |= {"limit": x["limit"]} if problem.loops else {}
    kept |= {"done": code, "h": h_next, "rejected": where(accepted, x["rejected"], x["rejected"] + 1.0)}
    tau = flow.force(t, q, v)
    return problem.state.join(kept), problem.record.join({"t": t, "q": q, "v": v, "a": a, "tau": tau})


def _across(integrator: Integrator, h: Any, away: Any) -> Any:
    """Return the size of a step of about h where a singular configuration is expected after a time: in its widest gap between stages."""
    assert integrator.tableau is not None
    nodes = sorted({0.0, 1.0, *integrator.tableau.c})
    width, start = max((b - a, a) for a, b in pairwise(nodes))
    middle = start + 0.5 * width
    before = where(away < (1.0 + middle) * h, away - middle * h, h)
    return where(away > _SHORTER * h, where(away <= _LONGER * middle * h, away * (1.0 / middle), before), h)


def _finite(step: Step) -> Any:
    return total([*step.q, *step.v]) < 1e300


def verdict(integrator: Integrator, step: Step, limit: Any = None) -> tuple[Any, Any]:
    """Return whether a step of a fixed size is kept, and why the trajectory is no longer advanced if it is not.

    `limit` is the least strength of the constraints of loops.
    """
    good = finite = _finite(step)
    failed: Any = float(RUNNING)
    if integrator.implicit:
        solved = converged(step.correction)
        good = finite & solved
        failed = where(solved, float(RUNNING), float(NOT_SOLVED))
    code = where(finite, failed, float(NOT_FINITE))
    if limit is not None:  # also where they lead to what is not finite
        weak = step.strength < limit
        good, code = good & ~weak, where(weak, where(abs(step.strength) < limit, float(WEAKENED), float(OPENED)), code)
    return good, code


def _judge(problem: Problem, c: dict[str, Any], x: dict[str, Any], step: Any, h: Any, finite: Any) -> tuple[Any, Any]:
    """Return whether the error of a step is within the tolerance, and the size of the next step."""
    tableau = problem.integrator.tableau
    assert tableau is not None
    # local coordinates are measured by their units, velocities by their size
    sizes = [*problem.lengths, *[maximum(abs(w0), abs(w1)) for w0, w1 in zip(x["v"], step.v, strict=True)]]
    scales = [1.0 / (c["atol"] + c["rtol"] * size) for size in sizes]
    squares = [total([(e * s) * (e * s) for e, s in zip(errors, scales, strict=True)]) * (0.5 / problem.nv) for errors in step.errors]
    error = np.sqrt(squares[0])
    if len(squares) == 2:  # the second estimate tempers the first, as Hairer, Norsett and Wanner propose for their method of order 8
        error = squares[0] / np.sqrt(squares[0] + 0.01 * squares[1] + 1e-300)
    good = finite & (error <= 1.0)
    factor = 0.9 * np.exp(np.log(maximum(error, 1e-10)) * (-1.0 / (tableau.error_order + 1)))
    factor = where(finite & (error < 1e300), minimum(5.0, maximum(0.2, factor)), 0.1)
    return good, where(good, h * factor, minimum(h * factor, 0.9 * x["h"]))


def total(entries: Sequence[Any]) -> Any:
    """Return the sum of the sizes of entries, of any scalar."""
    result: Any = 0.0
    for entry in entries:
        result = result + abs(entry)
    return result


def _any(conditions: Sequence[Any]) -> Any:
    result = conditions[0]
    for condition in conditions[1:]:
        result = result | condition
    return result


def _all(conditions: Sequence[Any]) -> Any:
    result = conditions[0]
    for condition in conditions[1:]:
        result = result & condition
    return result


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
