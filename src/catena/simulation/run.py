"""A run: its settings, checked, and its state as it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ArgumentError, SimulationError
from catena.loops.assembly import assemble, project_velocity
from catena.loops.plan_library import MADE_ON_THE_WAY, Selected, Since
from catena.loops.projection import LoopPlan, Projected, projection_kernel
from catena.model import Mechanism
from catena.model.user_functions import python
from catena.simulation.arguments import MOST_STEPS, check_span, check_state, check_step, moving, number, positive, recording
from catena.simulation.events import Event, State
from catena.simulation.flows import Flow
from catena.simulation.inputs import Input, controller_role
from catena.simulation.integrators.steps import Integrator
from catena.simulation.integrators.steps import integrator as integrator_of
from catena.simulation.loop_states import check_closed, check_velocities
from catena.simulation.stepping import LOOKED, smallest_step
from catena.simulation.stiffness import Fastest, stiff, warn_of
from catena.simulation.switches import Switches, time_graphs, uses_time
from catena.simulation.system import System
from catena.simulation.trajectory import Occurrence, Trajectory
from catena.tolerances import SINGULAR

#: Fixed steps from which on "auto" takes a symplectic method for a mechanism that keeps its energy, and the most degrees of freedom of it.
_LONG, _MOST = 100_000, 12

#: Explicit methods of SciPy.
EXPLICIT_OF_SCIPY = ("RK23", "RK45", "DOP853")

#: Relative tolerance of adaptive runs, unless given; the absolute one is this part of it.
RTOL, _ABSOLUTE = 1e-8, 1e-2

#: Steps after which a run judges by their size whether it can come to its end.
_STEPS_TO_JUDGE = 1_000

#: Rows of the table that are found at a time.
_ROWS_AHEAD = 2**14

#: Steps after which a run without a plan of its loops looks for one.
LOOK = 64


@dataclass(frozen=True)
class RunSettings:
    """What a run is to do: `largest` is the largest step, `every` how many steps make a sample, `times` when samples are wanted."""

    model: Mechanism
    q0: np.ndarray
    v0: np.ndarray
    start: float
    until: float
    step: float | None
    method: str
    integrator: Integrator
    why: str  # why the integrator is not the default one, if "auto" chose it
    stiffest: Fastest | None  # the passive force that makes the run stiff
    scipy_method: str  # that of SciPy, if it is to integrate
    input: Input
    events: tuple[Event, ...]
    every: float
    times: np.ndarray | None
    rtol: float
    atol: float
    largest: float
    given_largest: float | None  # the largest step, if it does not follow from the length of the run

    @property
    def adaptive(self) -> bool:
        """Whether steps adapt to the tolerances."""
        return self.step is None

    @property
    def in_python(self) -> bool:
        """Whether something must be called from Python at every step."""
        return self.input.in_python or any(isinstance(event.function, python) for event in self.events)

    @staticmethod
    def of(
        m: Mechanism, q0: Any, v0: Any, start: Any, until: Any, step: Any, method: str, integrator: Any, tau: Any, controller: Any,
        events: Any, record: Any, rtol: Any, atol: Any, largest_step: Any,
    ) -> RunSettings:  # fmt: skip
        """Return the settings, or say what is wrong with an argument."""
        m = moving(m, "simulate")
        q0, v_start = check_state(m, q0, v0)
        start, until = number("start", start), number("until", until)
        if until <= start:
            raise ArgumentError(f"until = {until:g} s is not after the start at {start:g} s; give a later time")
        check_span(start, until)
        if isinstance(events, Event) or not isinstance(events, Sequence):
            raise ArgumentError(f"events {events!r} is not a list of events; give [ct.Event(name, function), …]")
        for event in events:
            if not isinstance(event, Event):
                raise ArgumentError(f"event {event!r} is not an event; give ct.Event(name, function)")
        events = tuple(event.bound(m) for event in events)
        rtol = number("rtol", rtol)
        atol = number("atol", _ABSOLUTE * rtol if atol is None else atol)
        if not 0.0 < rtol < 1.0 or not atol > 0.0:
            raise ArgumentError(f"rtol = {rtol:g}, atol = {atol:g} cannot be met; give 0 < rtol < 1 and atol > 0")
        every, times = recording(record, start, until)
        input_ = Input(m, tau, controller)
        for event in events:
            if not isinstance(event.function, python):
                event.role(m.nq, m.nv).graph(event.function)
        if callable(controller) and not isinstance(controller, python):
            controller_role(m).graph(controller)
        graphs = time_graphs(m, input_.controller)
        step, largest = _step_sizes(start, until, step, largest_step, bool(events) or input_.in_python or any(map(uses_time, graphs)))
        if step is None:
            input_.switches = Switches(graphs, start, until)
        if not isinstance(integrator, str):
            raise ArgumentError(f"integrator {integrator!r} is not a name; give one such as 'dormand-prince'")
        scipy_method = integrator.removeprefix("scipy:") if integrator.startswith("scipy:") else ""
        if m.has_loops:
            if scipy_method:
                raise ArgumentError(
                    f"integrator 'scipy:{scipy_method}' does not keep the loops of model '{m.name}' closed; use 'dormand-prince'"
                )
            time = f", t={start:g}" if m.driven_names else ""
            check_closed(m, start, q0[None], (), "simulate: q0", f"start from m.assemble(guess=q0{time})")
            q0 = assemble(m, q0, t=start)
            if v0 is not None:
                check_velocities(m, start, q0[None], v_start[None], (), "simulate: v0")
            v_start = project_velocity(m, q0, v_start, t=start)
        servos = input_.servos
        stiffest = stiff(m, start, until, step, q0, None if servos is None else servos.actuation)
        name, why = integrator, ""
        if integrator == "auto" or scipy_method:
            name, why = _automatic(m, start, until, step, stiffest, input_.acts)
        made = integrator_of(name, m)
        if stiffest is not None and (scipy_method in EXPLICIT_OF_SCIPY if scipy_method else not made.stable):
            warn_of(stiffest, f"simulate '{m.name}'", integrator, step)
        if step is None and not made.adaptive:
            raise ArgumentError(f"integrator '{name}' does not choose its steps; give step=, the step size in seconds")
        return RunSettings(
            m, q0, v_start, start, until, step, method, made, why, stiffest, scipy_method, input_, events, every, times, rtol, atol,
            largest, None if largest_step is None else largest,
        )


def _step_sizes(start: float, until: float, step: Any, largest_step: Any, watched: bool) -> tuple[float | None, float]:
    """Return the size of fixed steps, if it is given, and the largest of adaptive ones."""
    remedy = "give a step size above 0 [s], or leave it out"
    size = None if step is None else positive("step", step, f"{remedy} for adaptive steps")
    most = (until - start) / (100.0 if watched else 1.0)  # events and functions of time are seen where steps are
    largest = most if largest_step is None else positive("largest_step", largest_step, remedy)
    if size is not None and largest_step is not None:
        raise ArgumentError(f"step = {size:g} s fixes the steps, and largest_step = {largest:g} s limits adaptive ones; give one of them")
    for name, given, value in (("step", step, size), ("largest_step", largest_step, largest)):
        if given is not None and value is not None:
            check_step(name, value, start, until)
    return size, largest


def _automatic(m: Mechanism, start: float, until: float, step: float | None, stiffest: Fastest | None, acts: bool) -> tuple[str, str]:
    """Return the integrator of "auto", and why it is not the default one."""
    if stiffest is not None:
        return "rang-angermann", f"auto: {stiffest}, too short for explicit steps"
    if step is not None and m.contacts:
        return "rang-angermann", "auto: its fixed steps gain no energy from contacts"
    if step is None:
        return "dormand-prince", ""
    steps = (until - start) / step
    if not (acts or m.has_loops or m.changes_energy) and steps >= _LONG and m.nv <= _MOST:
        return "symplectic-gauss-4", f"auto: the model keeps its energy, over {steps:,.0f} steps"
    return "rk4", ""


class Snapshot(NamedTuple):
    """Where a run was."""

    state: np.ndarray
    samples: list[np.ndarray]
    occurrences: list[Occurrence]
    plans: list[Since]


class Run:
    """The state of a run, and what can be asked at it. Between calls of machine code its state is one vector, named by the stepping."""

    def __init__(self, settings: RunSettings) -> None:
        self.settings, self.model = settings, settings.model
        events = [event.value for event in settings.events]
        self.system = System(
            self.model, settings.integrator, settings.method, settings.input, settings.adaptive, events, in_python=settings.in_python
        )
        self.samples: list[np.ndarray] = []
        self.occurrences: list[Occurrence] = []
        self.plans: list[Since] = []  # those of the loops, one after the other

    def begin(self) -> None:
        """Put the run at its start."""
        given, stepping = self.settings, self.system.stepping
        if given.input.switches:
            given.input.switches.search(_ROWS_AHEAD, given.start)
        self.table = given.input.known_rows(given.start, given.until)
        parts: dict[str, Any] = {
            "until": given.until, "step": given.step or 0.0, "every": given.every, "rtol": given.rtol, "atol": given.atol,
            "largest": given.largest, "tau": given.input.constant,
        }  # fmt: skip
        self.constants = stepping.constants.join(parts).astype(float)[None]
        self.state = np.zeros((1, stepping.state.size))
        self.at = stepping.state.at
        if self.model.has_loops:
            selected = self.system.plans.start(given.start, given.q0)
            if selected is None:
                raise SimulationError(
                    f"simulate '{self.model.name}': q0 is a singular configuration, where constraints of loops depend on each other and "
                    "the motion could go on in several ways; start from another one"
                )
            self._use(given.start, selected)
            if given.adaptive:
                self.set(crossing=-np.inf)
        self.restart(given.start, given.q0, given.v0)
        a, _, g = self.evaluate(given.start, given.q0, given.v0)
        if not np.isfinite(a).all():
            at = int(np.argmin(np.isfinite(a)))
            raise SimulationError(
                f"simulate '{self.model.name}': the acceleration of '{self.model.v_names[at]}' is {a[at]} at the start, "
                f"t = {given.start:g} s; look at the initial state, the forces and the masses"
            )
        for event, value in zip(given.events, g, strict=True):
            if not np.isfinite(value):
                raise SimulationError(f"event '{event.name}' is {value} at the start, t = {given.start:g} s; give a finite function")
        self.set(h=given.step if given.step is not None else self._first_step(a))

    def prepare(self) -> None:
        """Put the run at its start, and compile it before it begins; where that takes long, all that it may need on the way and at its end.

        That is what solves loops if the plan does not, steps to events and to the times of samples, and the conditioning of plans.
        """
        self.begin()
        self.system.iteration()
        if self.model.nv <= MADE_ON_THE_WAY:
            return
        plans: list[LoopPlan | None] = [None]
        if self.plans:
            first = self.selected.loop_plan
            plans = [first, *self.system.plans.alternatives(first)]
        for plan in reversed(plans):  # that of the start is in use afterwards
            if plan is not None:
                self.system.use(plan)
                projection_kernel(self.model, self.system.method, plan)
            self.system.iteration()
            self.system.start()
            if self.settings.events or self.settings.times is not None:
                self.system.step()

    def check_end(self) -> None:
        """Refuse to go on where the end is further away than a run could ever come, by the steps that it has taken."""
        given, steps = self.settings, self.number("steps")
        if steps < _STEPS_TO_JUDGE:
            return
        mean = (self.time - given.start) / steps
        if given.until - self.time > MOST_STEPS * mean:
            raise SimulationError(
                f"simulate '{self.model.name}': until = {given.until:g} s takes {(given.until - self.time) / mean:.1e} steps of {mean:.2g} "
                f"s, as they are at t = {self.time:.9g} s, more than {MOST_STEPS:.0e}; give an earlier time"
            )

    # --- going back

    def snapshot(self) -> Snapshot:
        """Return all that changes as the run goes."""
        return Snapshot(self.state.copy(), list(self.samples), list(self.occurrences), list(self.plans))

    def put_back(self, then: Snapshot) -> None:
        """Put the run where it was."""
        self.state[:] = then.state
        self.samples, self.occurrences = list(then.samples), list(then.occurrences)
        self.replay(then.plans)

    # --- entries of the state, by name

    def set(self, **values: Any) -> None:
        for name, value in values.items():
            self.state[0, self.at[name]] = value

    def get(self, name: str) -> np.ndarray:
        """Return a copy of entries of the state."""
        return self.state[0, self.at[name]].copy()

    def number(self, name: str) -> float:
        """Return one entry of the state."""
        return float(self.state[0, self.at[name].start])

    @property
    def time(self) -> float:
        return self.number("t")

    @property
    def here(self) -> State:
        """The time and state that the run has come to."""
        return State(self.time, self.get("q"), self.get("v"))

    def before(self) -> tuple[State, np.ndarray, np.ndarray]:
        """Return time and state, acceleration and event functions at the start of the last step, for runs with events."""
        nq, nv = self.model.nq, self.model.nv
        t, q, v, a, g = np.split(self.get("before"), np.cumsum([1, nq, nv, nv]))
        return State(float(t[0]), q, v), a, g

    def restart(self, t: float, q: np.ndarray, v: np.ndarray) -> None:
        """Go on from a state, with a sample there."""
        if self.samples and len(self.samples[-1]) and self.samples[-1][-1, 0] >= t:
            self.samples[-1] = self.samples[-1][:-1]
        self.set(t=t, anchor=t, count=0.0, since=0.0, table=float(self._row_number(t)), q=q, v=v)
        if known := {"a", "g"} & self.at.keys():
            a, _, g = self.evaluate(t, q, v)
            self.set(**{name: {"a": a, "g": g}[name] for name in known})

    def collect(self, buffer: np.ndarray) -> None:
        """Take the records that machine code has written."""
        rows = int(self.state[0, 1])
        if rows:
            self.samples.append(buffer[0, :rows].copy())
        self.state[0, 1] = 0.0

    # --- the motion from a state

    def evaluate(
        self, t: Any, q: np.ndarray, v: np.ndarray, row: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return acceleration, input and event functions at a state; unless something is called from Python, also at many.

        A row of the table is that of the time, unless it is given.
        """
        row = self._row(t) if row is None else row
        if self.settings.in_python:
            flow = self.system.python_flow(row, self.constants[0])
            events = np.array([float(event.value(t, q, v)) for event in self.settings.events])
            return flow.acceleration(t, q, v), flow.force(t, q, v), events
        return self.system.start()(t, q, v, row, self.constants[0])

    def approach(self, t: float, q: np.ndarray, v: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the time within which no stop or contact is entered by more than the tolerance sees, their gaps and the rates of these."""
        if not self.system.one_sided:
            return np.inf, np.zeros(0), np.zeros(0)
        a = self.evaluate(t, q, v)[0]
        time, gap, rate = self.flow(t).evaluate("approach", t, q, v, a, self.near)
        return max(float(time), 64.0 * smallest_step(t, self.settings.until)), gap, rate

    @property
    def near(self) -> float:
        """The length by which a step may enter a stop or a contact."""
        return self.system.stepping.near({"rtol": self.settings.rtol})

    def flow(self, t: float, row: np.ndarray | None = None) -> Flow:
        """Return the flow at a time, in floats."""
        return self.system.python_flow(self._row(t) if row is None else row, self.constants[0])

    def stepped(self, t: Any, q: np.ndarray, v: np.ndarray, a: np.ndarray, h: Any) -> tuple[Any, ...]:
        """Return the results of `System.step`; unless something is called from Python, also of many steps."""
        row = self._row(t + 0.5 * h)
        if not self.settings.in_python:
            return self.system.step()(t, q, v, a, h, row, self.constants[0])
        step = self.settings.integrator.advance(self.system.python_flow(row, self.constants[0]), t, q, v, a, h)
        state = (np.asarray(step.q, dtype=float), np.asarray(step.v, dtype=float))
        return state if step.free is None else (*state, step.conditioning, *step.free)

    def reached(self, t: float, q: np.ndarray, v: np.ndarray, a: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the state at a time h after the start of the last step: after a step of that size."""
        if h == 0.0:
            return q, v
        q1, v1, *held = self.stepped(t, q, v, a, h)
        if held and not held[0] > SINGULAR:  # no plan serves there; from both ends of the step
            end = self.here
            ends = [[t, end.t], [q, end.q], [v, end.v], [a, self.evaluate(*end)[0]]]
            between = Trajectory(self.model, *map(np.array, ends)).at(t + h)
            return between.q[0], between.v[0]
        return q1, v1

    def know_rows(self, count: int) -> int:
        """Know so many rows of the table from the one in use on, or less; return how many steps these are enough for."""
        given, switches = self.settings, self.settings.input.switches
        if not switches:
            return count
        ahead = self.table.shape[1] - self._row_number(self.time)
        if not switches.complete and ahead <= min(count, _ROWS_AHEAD):
            switches.search(_ROWS_AHEAD, self.time)
            self.table = given.input.known_rows(given.start, given.until)
            ahead = self.table.shape[1] - self._row_number(self.time)
        return count if switches.complete else min(count, int(ahead))

    def row_at(self, t: float) -> tuple[np.ndarray, float]:
        """Return the row of the table that holds from a time on, and until when."""
        row, at = self._row(t), self.settings.input.row.at
        return row, float(row[at["t_next"]][0]) if "t_next" in at else np.inf

    def _row_number(self, t: Any) -> Any:
        if "t_start" not in self.settings.input.row.at:
            return np.zeros(np.shape(t), dtype=int)
        return np.maximum(np.searchsorted(self.table[0, :, 0], t, side="right") - 1, 0)

    def _row(self, t: Any) -> np.ndarray:
        """Return the row of the table that holds at a time, or at each of many."""
        return self.table[0, self._row_number(t)]

    def _first_step(self, a: np.ndarray) -> float:
        """Return a first step size, from the sizes of the velocity and the acceleration, as Hairer, Norsett and Wanner propose."""
        given, m = self.settings, self.model
        scale = given.atol + given.rtol * np.maximum(np.abs(given.v0), 1.0)
        size, slope = np.sqrt(np.mean((given.v0 / scale) ** 2)), np.sqrt(np.mean((a / scale) ** 2))
        guess = min(1e-6 if min(size, slope) < 1e-5 else 0.01 * size / slope, given.largest)
        v1 = given.v0 + guess * a
        a1, _, _ = self.evaluate(given.start + guess, m.chart(given.q0, guess * m.chart_rate(given.q0, 0.0 * v1, v1)), v1)
        bend = np.sqrt(np.mean(((a1 - a) / scale) ** 2)) / guess
        largest = max(slope, bend)
        second = max(1e-6, guess * 1e-3) if largest <= 1e-15 else (0.01 / largest) ** (1.0 / (given.integrator.order + 1))
        return float(min(100.0 * guess, second, given.largest)) if np.isfinite(second) else guess

    # --- the plans of the loops

    @property
    def selected(self) -> Selected:
        return self.plans[-1].selected

    def _use(self, t: float, selected: Selected) -> None:
        """Use a plan from a time on."""
        self.plans.append(Since(t, selected))
        if self.settings.adaptive:
            self.set(root=0.0)  # that of another plan says nothing
        self.set(limit=selected.limit, look=LOOK if selected.loop_plan.plan is None else np.inf)
        self.system.use(selected.loop_plan)

    def replay(self, plans: Sequence[Since]) -> None:
        """Take the plans that were in use from times on; the last is in use."""
        self.plans = list(plans)
        if plans:
            self.system.use(self.selected.loop_plan)

    def change_plan(self, code: int) -> bool:
        """Return whether the run can go on: by pivots where a plan fails, and by a plan again where one serves."""
        t, q, library = self.time, self.get("q"), self.system.plans
        loop_plan = self.selected.loop_plan
        if loop_plan.plan is not None:
            self._use(t, library.pivoted(t, q, loop_plan.rank))
            return True
        if code != LOOKED:
            return False
        last = next((used.selected for used in reversed(self.plans) if used.selected.loop_plan.plan is not None), library.generic)
        better = library.resumed(last, t, q) if last.loop_plan.rank == loop_plan.rank else None
        if better is not None:
            self._use(t, better)
        self.set(look=LOOK if better is None else np.inf)
        return True

    def conditioning(self, t: float, q: np.ndarray) -> float:
        """Return the conditioning of the plan in use at a configuration."""
        project = projection_kernel(self.model, self.system.method, self.selected.loop_plan)
        return float(Projected(*project(t, q, np.zeros(self.model.nv))).signed)

    def closed(self, t: float, q: np.ndarray, v: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return a state put on the constraints of the loops, its velocity the nearest by kinetic energy. Refuse q that opens them.

        Another plan is in use from there on where need be, as on another branch.
        """
        check_closed(self.model, t, q[None], (), name, f"return m.assemble(guess=q{', t=t' if self.model.driven_names else ''})")
        q = assemble(self.model, q, t=t)
        if not self.conditioning(t, q) >= self.selected.limit:
            # by the plans that there are, where one takes long to make
            made = [used.selected for used in self.plans if used.selected.loop_plan.plan is not None]
            selected = self.system.plans.start(t, q, None if self.model.nv <= MADE_ON_THE_WAY else made)
            if selected is None:
                raise self.singular()
            self._use(t, selected)
        return q, project_velocity(self.model, q, v, t=t)

    def singular(self) -> SimulationError:
        """Return the error of a run whose loops leave open how it goes on."""
        return SimulationError(
            f"simulate '{self.model.name}': the motion comes to a singular configuration after t = {self.time:.9g} s, where the "
            "constraints of its loops depend on each other and it could go on in several ways"
        )
