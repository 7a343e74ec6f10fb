"""Events: functions of time and state whose change of sign stops a run, is recorded, or resets the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from catena.errors import ArgumentError, SimulationError
from catena.model.user_functions import Role, own_array
from catena.simulation.arguments import check_state
from catena.simulation.trajectory import Occurrence

if TYPE_CHECKING:
    from catena.model import Mechanism
    from catena.simulation.inputs import Function
    from catena.simulation.run import Run

#: Events closer than this happen at one time [s, or relative for times above 1 s].
_SIMULTANEOUS = 1e-12

#: Halvings by which a zero is found to rounding, whatever the function; Brent's method takes their square at most, at flat zeros.
_HALVINGS = 60

#: After a reset the function is zero, but for rounding: its sign is that of a moment later, this part of the step.
_MOMENT = 1e-7


class State(NamedTuple):
    """A time and the state there."""

    t: float
    q: np.ndarray
    v: np.ndarray


class Crossing(NamedTuple):
    """A step in which event functions changed their signs: where it began, with acceleration and functions there, and its end."""

    start: State
    a: np.ndarray
    g: np.ndarray
    t1: float
    g1: np.ndarray


class Reaction(NamedTuple):
    """What becomes of a crossing: occurrences; where the motion breaks, whether it stops, the state after, and signs a moment later."""

    occurrences: list[Occurrence]
    stops: bool = False
    state: State | None = None
    signs: dict[int, float] = {}  # noqa: RUF012


@dataclass(frozen=True)
class Event:
    """A function of (t, q, v) whose change of sign stops a run, is recorded, or resets the state.

    `action` is "stop", "record", or a function (t, q, v) -> (q, v) that gives the state to go on with. `direction` +1 or -1 takes only
    changes that rise or fall. The function is traced, unless it is marked with `ct.python`; the action is called as it is. With loops, the
    velocities it gives are changed by the least kinetic energy that keeps these closed, and its positions must close them. A function that
    is zero at the start has not changed its sign there; one whose sign another event's reset changes has. Of events at the same time, a
    stop comes before resets.

    >>> ct.Event("floor", lambda t, q, v: q[0], direction=-1).action
    'stop'
    """

    name: str
    function: Function
    action: str | Callable[[float, np.ndarray, np.ndarray], tuple[Any, Any]] = "stop"
    direction: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ArgumentError(f"event name {self.name!r} is not a name; give a non-empty string")
        if not callable(self.function):
            raise ArgumentError(f"event '{self.name}': {self.function!r} is not a function; give a function of (t, q, v)")
        if not callable(self.action) and self.action not in ("stop", "record"):
            raise ArgumentError(
                f"event '{self.name}': action {self.action!r} is unknown; give 'stop', 'record' or a function (t, q, v) -> (q, v)"
            )
        if self.direction not in (-1, 0, 1):
            raise ArgumentError(f"event '{self.name}': direction {self.direction!r} is not -1, 0 or 1; give one of them")
        self.role(0, 0).check_signature(self.function)
        if callable(self.action):
            Role(f"the action of event '{self.name}'", {"t": None, "q": 0, "v": 0}, "a pair (q, v)", ()).check_signature(self.action)

    def role(self, nq: int, nv: int) -> Role:
        """Return what the function is to be."""
        returns = "one number that changes its sign where the event happens, such as q[0] - 0.5"
        return Role(f"event '{self.name}'", {"t": None, "q": nq, "v": nv}, returns, ((),), instead=f"return {returns}")

    def bound(self, m: Mechanism) -> Event:
        """Return the event of a model, whose parameters its functions read."""
        return replace(self, function=m.bound(self.function), action=m.bound(self.action) if callable(self.action) else self.action)

    def value(self, t: Any, q: Any, v: Any) -> Any:
        """Return the function's result, of any scalar; the function has copies of q and v, which it may write to."""
        return self.role(len(q), len(v)).value(self.function, t, own_array(q), own_array(v))[()]

    def happened(self, before: float, after: float) -> bool:
        """Return whether the function changed its sign, in the direction that counts."""
        rises, falls = before < 0.0 <= after, before > 0.0 >= after
        return (rises and self.direction >= 0) or (falls and self.direction <= 0)

    def reset(self, motion: Run, t: float, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the state that the action gives."""
        assert callable(self.action)
        state = self.action(t, q.copy(), v.copy())
        if not isinstance(state, (tuple, list)) or len(state) != 2:
            raise ArgumentError(f"event '{self.name}': its action returned {state!r}; return the state to go on with, a pair (q, v)")
        what = f"event '{self.name}': its action returned q, which"
        q_new, v_new = check_state(motion.model, *state, names=(what, f"event '{self.name}': v"))
        return motion.closed(t, q_new, v_new, what) if motion.model.has_loops else (q_new, v_new)


def reaction(events: Sequence[Event], motion: Run, step: Crossing, earlier: Sequence[Occurrence]) -> Reaction:
    """Return what becomes of a step in which event functions changed their signs, after what occurred earlier."""
    crossed = [(_root(event, motion, step, i), i, event) for i, event in enumerate(events) if event.happened(step.g[i], step.g1[i])]
    crossed.sort(key=lambda entry: entry[0].t)
    breaks = [entry for entry in crossed if entry[2].action != "record"]
    if not breaks:
        return Reaction([Occurrence(event.name, *root) for root, _, event in crossed])

    # up to the first that breaks the motion, and what happens together with it
    t, q, v = breaks[0][0]
    end = t + _SIMULTANEOUS * max(1.0, abs(t))
    occurrences, together = [], []
    for root, i, event in crossed:
        if root.t <= end:
            at_once = event.action != "record" or root.t >= t - (end - t)
            occurrences.append(Occurrence(event.name, *((t, q, v) if at_once else root)))
            together += [i] if at_once else []
    stops = [events[i] for i in together if events[i].action == "stop"]
    q_new, v_new = q, v
    if not stops:
        for i in together:
            if events[i].action != "record":
                q_new, v_new = events[i].reset(motion, t, q_new, v_new)
        # the jump may change other signs; these events happen now, each once
        for i, event in enumerate(events):
            if i not in together and event.happened(_value(event, motion, t, q, v), _value(event, motion, t, q_new, v_new)):
                occurrences.append(Occurrence(event.name, t, q, v))
                together.append(i)
                if event.action == "stop":
                    stops.append(event)
                elif event.action != "record":
                    q_new, v_new = event.reset(motion, t, q_new, v_new)
    if stops:
        occurrences.sort(key=lambda occurrence: occurrence.t == t and occurrence.name == stops[0].name)  # the one that stops comes last
        return Reaction(occurrences, True, State(t, q_new, v_new))
    span = step.t1 - step.start.t
    moment = _MOMENT * span
    later = motion.stepped(t, q_new, v_new, motion.evaluate(t, q_new, v_new)[0], moment)[:2]
    signs = {i: _value(events[i], motion, t + moment, *later) for i in together}
    for i, sign in signs.items():
        if np.sign(sign) == -np.sign(step.g[i]) != 0.0:
            _refuse_gathering(events[i], motion, t, span, earlier)
    return Reaction(occurrences, False, State(t, q_new, v_new), signs)


def _value(event: Event, motion: Run, t: float, q: np.ndarray, v: np.ndarray) -> float:
    """Return an event function at a state; refuse to go on without its sign."""
    value = float(event.value(t, q, v))
    if np.isnan(value):
        raise _undefined(event, motion, t)
    return value


def undefined(events: Sequence[Event], motion: Run, here: State, h: float) -> tuple[State, SimulationError]:
    """Return where a motion ends whose next step, of size h, leads to where an event function is not a number; and the error."""
    a = motion.evaluate(*here)[0]

    def lost(h: float) -> Event | None:
        state = motion.reached(*here, a, h)
        return next((event for event in events if np.isnan(float(event.value(here.t + h, *state)))), None)

    good, bad, event = 0.0, h, lost(h)
    while bad - good > _MOMENT * h:
        middle = 0.5 * (good + bad)
        lost_event = lost(middle)
        good, bad, event = (middle, bad, event) if lost_event is None else (good, middle, lost_event)
    return State(here.t + good, *motion.reached(*here, a, good)), _undefined(event or events[0], motion, here.t + bad)


def _undefined(event: Event, motion: Run, t: float) -> SimulationError:
    return SimulationError(
        f"simulate '{motion.model.name}': the function of event '{event.name}' is not a number at t = {t:.9g} s, so that a change of its "
        "sign could be missed; give a function that is defined wherever the motion goes, on both sides of its zero: x, not sqrt(x)"
    )


def _refuse_gathering(event: Event, motion: Run, t: float, span: float, earlier: Sequence[Occurrence]) -> None:
    """Refuse to pass through an event that threw the motion back a moment ago: it comes to rest there, after ever more resets."""
    last = next((occurrence.t for occurrence in reversed(earlier) if occurrence.name == event.name), -np.inf)
    if callable(event.action) and t - last < 1e-3 * span:
        raise SimulationError(
            f"simulate '{motion.model.name}': event '{event.name}' happens ever faster, last at t = {t:.9g} s, and its resets no longer "
            "keep the motion from passing; add an event that stops the run before, such as one on the energy"
        )


def _root(event: Event, motion: Run, step: Crossing, i: int) -> State:
    """Return the time and state at which event function i is zero, by steps of other sizes from the same start."""
    from scipy.optimize import brentq  # here, because it takes longer to import than the rest of catena

    t0, before = step.start.t, np.sign(step.g[i])

    def value(h: float) -> float:
        return _value(event, motion, t0 + h, *motion.reached(*step.start, step.a, h))

    span = h = step.t1 - t0
    # right after a reset the function is zero, but for rounding, at the start of the step
    parts = span * np.array([0.0, 1e-9, 1e-8, *np.geomspace(1e-7, 0.9, 30)])
    lower = next((part for part in parts if np.sign(value(part)) == before), None)
    if lower is not None and np.sign(value(span)) != before:
        size = max(abs(value(lower)), abs(value(span)))  # only signs count: products of very small or large values would not keep them
        tolerances: Any = {"xtol": 1e-14 * max(1.0, span), "rtol": 1e-14, "maxiter": _HALVINGS**2}
        root: Any = brentq(lambda h: value(h) / size, lower, span, **tolerances)
        h = float(root)
    return State(t0 + h, *motion.reached(*step.start, step.a, h))
