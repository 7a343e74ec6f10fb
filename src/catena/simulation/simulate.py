"""Runs of one mechanism: `simulate`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from catena.errors import ArgumentError, SimulationError
from catena.model import Model
from catena.model.forces import python
from catena.simulation.arguments import check_moving, check_state, check_step, number, positive, recording
from catena.simulation.checkpoint import Checkpoint
from catena.simulation.closing import LOOK, MADE_ON_THE_WAY, SINGULAR, Chosen, Held, Hold, check_closed, check_velocities, lasting
from catena.simulation.events import Event, handle, undefined
from catena.simulation.interrupts import interruptible, noted_interrupts
from catena.simulation.iteration import EVENT, FINISHED, LOOKED, OPENED, RUNNING, STOPPED, UNDEFINED, WEAKENED, run_in_python
from catena.simulation.outcome import singular, trajectory, trouble
from catena.simulation.progress import progress
from catena.simulation.steps import integrator as integrator_of
from catena.simulation.stiffness import stiff, warn_of
from catena.simulation.system import Function, Input, System, check_traceable
from catena.simulation.trajectory import Occurrence, Trajectory

#: Rows of the buffer that a run in machine code fills before Python looks at it.
_ROWS = 4096

#: Time that a run in machine code takes before Python looks at it [s].
_LOOK = 0.1

#: Fixed steps from which on "auto" takes a symplectic method for a mechanism that keeps its energy, and the most degrees of freedom of it.
_LONG, _MOST = 100_000, 12

#: Explicit methods of SciPy.
EXPLICIT_OF_SCIPY = ("RK23", "RK45", "DOP853")

#: Relative tolerance of adaptive runs, unless given; the absolute one is this part of it.
_RTOL, _ABSOLUTE = 1e-8, 1e-2


def simulate(
    m: Model,
    q0: Any,
    v0: Any = None,
    *,
    until: float,
    start: float = 0.0,
    step: float | None = None,
    method: str = "auto",
    integrator: str = "auto",
    tau: Any = None,
    controller: Function | None = None,
    events: Sequence[Event] = (),
    record: int | Sequence[float] | None = None,
    rtol: float = _RTOL,
    atol: float | None = None,
    largest_step: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = 30.0,
    resume: str | os.PathLike[str] | None = None,
    show_progress: bool | None = None,
) -> Trajectory:
    """Return the motion of a mechanism from the state (q0, v0) at `start` to the time `until` [s].

    - `q0` and `v0` of a model with loops close these, and keep them closed: `m.assemble` and `m.project_velocity` find such.
    - `step` [s] fixes the step size; without it, an integrator with an error estimate adapts its steps to `rtol` and `atol` (a hundredth of
      rtol, unless given). Errors are measured in 1 rad or the size of the mechanism, those of velocities by their own size.
    - `integrator`: "semi-implicit-euler", "midpoint", "rk4", "bogacki-shampine", "dormand-prince", "dop853"; linearly implicit in friction,
      dampers, springs and stops of joints, "rang-angermann"; implicit, "implicit-midpoint", "gauss-legendre-4", "gauss-legendre-6";
      symplectic, on canonical momenta and without loops, "symplectic-euler", "stormer-verlet", "symplectic-midpoint",
      "symplectic-gauss-4", "symplectic-gauss-6"; or "scipy:Radau", "scipy:BDF", "scipy:LSODA". "auto" is "dormand-prince", with a fixed
      step "rk4"; "rang-angermann" where the passive forces of a joint are too fast for explicit steps; or "symplectic-gauss-4" over 100,000
      fixed steps and more of a model that keeps its energy. `info["why"]` says why it is not the usual one.
    - `tau`: constant joint forces (nv), or a pair (times, values) that is interpolated linearly; `controller`: a function
      (t, q, v) -> tau that is traced and compiled, or `ct.python(function)` to be called step by step.
    - `events`: `ct.Event` conditions that stop, record or reset; a change of sign is noticed if it is there at the end of a step, so with
      events adaptive steps are at most a hundredth of the run, or `largest_step`.
    - `record`: every how many steps a sample is kept (1), or the times at which samples are wanted; these come from shorter steps of the
      same integrator, with functions that are called from Python by interpolation.
    - `checkpoint` names a file that is written `every` so many seconds; `resume` continues from such a file.

    Ctrl-C ends the run and returns what there is.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> run = ct.simulate(m, [0.1], until=2.0)
    >>> abs(run.drift).max() < 1e-7
    np.True_
    """
    run = Run(m, q0, v0, start, until, step, method, integrator, tau, controller, events, record, rtol, atol, largest_step)
    if run.scipy_method:
        from catena.simulation.with_scipy import integrate

        if checkpoint is not None or resume is not None:
            raise ArgumentError("SciPy's integrators keep no checkpoints; use one of catena's integrators for checkpoint= and resume=")
        return integrate(run, show_progress)
    kept = Checkpoint.writable(checkpoint, every) if checkpoint is not None else None
    return run.go(kept, resume, show_progress)


class Run:
    """A run: its arguments, checked, and its state."""

    def __init__(
        self, m: Model, q0: Any, v0: Any, start: Any, until: Any, step: Any, method: str, integrator: Any, tau: Any, controller: Any,
        events: Any, record: Any, rtol: Any, atol: Any, largest_step: Any,
    ) -> None:  # fmt: skip
        if not isinstance(m, Model):
            raise ArgumentError(f"simulate: {m!r} is not a model; give a ct.Model")
        m = m.frozen()
        m.tree()  # refuses what cannot move
        check_moving(m, "simulate")
        self.model = m
        self.q0, self.v0 = check_state(m, q0, v0)
        self.start, self.until = number("start", start), number("until", until)
        if self.until <= self.start:
            raise ArgumentError(f"until = {self.until:g} s is not after the start at {self.start:g} s; give a later time")
        remedy = "give a step size above 0 [s], or leave it out"
        self.step = None if step is None else positive("step", step, f"{remedy} for adaptive steps")
        self.rtol = number("rtol", rtol)
        self.atol = number("atol", _ABSOLUTE * self.rtol if atol is None else atol)
        if not 0.0 < self.rtol < 1.0 or not self.atol > 0.0:
            raise ArgumentError(f"rtol = {self.rtol:g}, atol = {self.atol:g} cannot be met; give 0 < rtol < 1 and atol > 0")
        self.events = _checked(events)
        # a change of sign is seen if it is still there at the end of a step
        most = (self.until - self.start) / (100.0 if self.events else 1.0)
        self.largest = most if largest_step is None else positive("largest_step", largest_step, remedy)
        if step is not None and largest_step is not None:
            raise ArgumentError(
                f"step = {self.step:g} s fixes the steps, and largest_step = {self.largest:g} s limits adaptive ones; give one of them"
            )
        for name, size, given in (("step", self.step, step), ("largest_step", self.largest, largest_step)):
            if size is not None and given is not None:
                check_step(name, size, self.start, self.until)
        self.every, self.times = recording(record, self.start, self.until)
        self.input = Input(m, tau, controller)
        self.in_python = self.input.in_python or any(isinstance(event.function, python) for event in self.events)
        for event in self.events:
            if not isinstance(event.function, python):
                check_traceable(f"event '{event.name}'", event.function, m.nq, m.nv, (), "one number")
        if callable(controller) and not isinstance(controller, python):
            check_traceable("controller", controller, m.nq, m.nv, (m.nv,), f"{m.nv} joint forces, one for each entry of v")
        if not isinstance(integrator, str):
            raise ArgumentError(f"integrator {integrator!r} is not a name; give one such as 'dormand-prince'")
        self.scipy_method = integrator.removeprefix("scipy:") if integrator.startswith("scipy:") else ""
        if m.has_loops:
            if self.scipy_method:
                raise ArgumentError(
                    f"integrator 'scipy:{self.scipy_method}' does not keep the loops of model '{m.name}' closed; use 'dormand-prince'"
                )
            time = f", t={self.start:g}" if m.driven_names else ""
            check_closed(m, self.start, self.q0, "simulate: q0", f"start from m.assemble(guess=q0{time})")
            self.q0 = m.at(self.start).assemble(guess=self.q0)
            if v0 is not None:
                check_velocities(m, self.start, self.q0[None], self.v0[None], (), "simulate: v0")
            self.v0 = m.at(self.start).project_velocity(self.q0, self.v0)
        self.stiffest = stiff(m, self.start, self.until, self.step, self.q0)
        name, self.why = self._automatic() if integrator == "auto" or self.scipy_method else (integrator, "")
        self.integrator = integrator_of(name, m)
        if self.stiffest is not None and (self.scipy_method in EXPLICIT_OF_SCIPY if self.scipy_method else not self.integrator.stable):
            warn_of(self.stiffest, f"simulate '{m.name}'", integrator, self.step)
        self.adaptive = self.step is None
        if self.adaptive and not self.integrator.adaptive:
            raise ArgumentError(f"integrator '{name}' does not choose its steps; give step=, the step size in seconds")
        self.system = System(m, self.integrator, method, self.input, self.adaptive, [event.value for event in self.events])
        self.samples: list[np.ndarray] = []
        self.occurrences: list[Occurrence] = []
        self.holds: list[Held] = []  # how the loops are held, one after the other

    def _automatic(self) -> tuple[str, str]:
        """Return the integrator of "auto", and why it is not the usual one."""
        if self.stiffest is not None:
            return "rang-angermann", f"auto: {self.stiffest}, too short for explicit steps"
        if self.step is None:
            return "dormand-prince", ""
        m, steps = self.model, (self.until - self.start) / self.step
        kept = not (self.input.acts or m.has_loops or m.changes_energy)
        if kept and steps >= _LONG and m.nv <= _MOST:
            return "symplectic-gauss-4", f"auto: the model keeps its energy, over {steps:,.0f} steps"
        return "rk4", ""

    # --- the constants and the state of the loop, by name

    def begin(self) -> None:
        """Put the run at its start."""
        problem = self.system.problem
        self.table = self.input.table(self.start, self.until)
        parts: dict[str, Any] = {
            "until": self.until, "step": self.step or 0.0, "every": self.every, "rtol": self.rtol, "atol": self.atol,
            "largest": self.largest, "tau": self.input.constant,
        }  # fmt: skip
        self.constants = problem.constants.join(parts).astype(float)[None]
        self.state = np.zeros((1, problem.state.size))
        self.at = problem.state.at
        if self.model.has_loops:
            chosen = self.system.loops.start(self.start, self.q0)
            if chosen is None:
                raise SimulationError(
                    f"simulate '{self.model.name}': q0 is a singular configuration, where constraints of loops depend on each other and "
                    "the motion could go on in several ways; start from another one"
                )
            self._hold(self.start, chosen)
            if self.adaptive:
                self.set(crossing=-np.inf)
        self.restart(self.start, self.q0, self.v0)
        a, _, g = self.evaluate_at(self.start, self.q0, self.v0)
        if not np.isfinite(a).all():
            at = int(np.argmin(np.isfinite(a)))
            raise SimulationError(
                f"simulate '{self.model.name}': the acceleration of '{self.model.v_names[at]}' is {a[at]} at the start, "
                f"t = {self.start:g} s; look at the initial state, the forces and the masses"
            )
        for event, value in zip(self.events, g, strict=True):
            if not np.isfinite(value):
                raise SimulationError(f"event '{event.name}' is {value} at the start, t = {self.start:g} s; give a function that is finite")
        self.set(h=self.step if self.step is not None else self._first_step(a))

    def set(self, **values: Any) -> None:
        """Write entries of the state."""
        for name, value in values.items():
            self.state[0, self.at[name]] = value

    def get(self, name: str) -> np.ndarray:
        """Return entries of the state."""
        return self.state[0, self.at[name]]

    @property
    def time(self) -> float:
        """The time that the run has come to."""
        return float(self.get("t")[0])

    def before(self) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return t, q, v, acceleration and event functions at the start of the last step, for runs with events."""
        nq, nv = self.model.nq, self.model.nv
        t, q, v, a, g = np.split(self.get("before").copy(), np.cumsum([1, nq, nv, nv]))
        return float(t[0]), q, v, a, g

    def restart(self, t: float, q: np.ndarray, v: np.ndarray) -> None:
        """Go on from a state, with a sample there."""
        if self.samples and len(self.samples[-1]) and self.samples[-1][-1, 0] >= t:
            self.samples[-1] = self.samples[-1][:-1]
        self.set(t=t, anchor=t, count=0.0, since=0.0, table=float(self._row_number(t)), q=q, v=v)
        if "a" in self.at or "g" in self.at:
            a, _, g = self.evaluate_at(t, q, v)
            if "a" in self.at:
                self.set(a=a)
            if "g" in self.at:
                self.set(g=g)

    def evaluate_at(self, t: Any, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return acceleration, input and event functions at a state; unless something is called from Python, also at many."""
        if self.in_python:
            flow = self.system.called_flow(self._row(t), self.constants[0])
            return flow.acceleration(t, q, v), flow.force(t, q, v), np.array([float(event.value(t, q, v)) for event in self.events])
        return self.system.start()(t, q, v, self._row(t), self.constants[0])

    def _row_number(self, t: Any) -> Any:
        if self.input.times is None:
            return np.zeros(np.shape(t), dtype=int)
        return np.maximum(np.searchsorted(self.table[0, :, 0], t, side="right") - 1, 0)

    def _row(self, t: Any) -> np.ndarray:
        """Return the row of the table that holds at a time, or at each of many."""
        return self.table[0, self._row_number(t)]

    def _first_step(self, a: np.ndarray) -> float:
        """Return a first step size, from the sizes of the velocity and the acceleration, as Hairer, Norsett and Wanner propose."""
        order = self.integrator.order
        scale = self.atol + self.rtol * np.maximum(np.abs(self.v0), 1.0)
        size, slope = np.sqrt(np.mean((self.v0 / scale) ** 2)), np.sqrt(np.mean((a / scale) ** 2))
        guess = min(1e-6 if min(size, slope) < 1e-5 else 0.01 * size / slope, self.largest)
        v1 = self.v0 + guess * a
        a1, _, _ = self.evaluate_at(self.start + guess, self.model.chart(self.q0, guess * self.model.chart_rate(self.q0, 0.0 * v1, v1)), v1)
        bend = np.sqrt(np.mean(((a1 - a) / scale) ** 2)) / guess
        largest = max(slope, bend)
        second = max(1e-6, guess * 1e-3) if largest <= 1e-15 else (0.01 / largest) ** (1.0 / (order + 1))
        return float(min(100.0 * guess, second, self.largest)) if np.isfinite(second) else guess

    # --- the run

    def go(self, kept: Checkpoint | None, resume: Any, show: bool | None) -> Trajectory:
        """Return the trajectory of the whole run."""
        began = time.perf_counter()
        if self.in_python:
            self.begin()
            function = self.system.called_iteration()

            def advance(state: Any, table: Any, constants: Any, record: Any, iterations: int) -> None:
                with np.errstate(all="ignore"):  # what is not finite is told below
                    run_in_python(function, state, table, constants, record, iterations)
        else:
            interruptible(self._prepare)

            def advance(state: Any, table: Any, constants: Any, record: Any, iterations: int) -> None:
                self.system.iteration().run(state, table, constants, record, iterations)

        if kept is not None:
            kept.belong(self)
        if resume is not None:
            Checkpoint(resume, 0.0).restore(self)
        try:
            stopped = self._advance(advance, kept, show)
            if kept is not None:
                kept.save(self)
        except SimulationError as error:
            if error.trajectory is None:
                error.trajectory = trajectory(self, "error", time.perf_counter() - began)
            raise
        return trajectory(self, stopped, time.perf_counter() - began)

    def _prepare(self) -> None:
        """Put the run at its start, and compile it before it begins; where that takes long, all that it may need on the way and at its end.

        That is what holds loops if the plan does not, steps to events and to the times of samples, and what tells how well loops are held.
        """
        self.begin()
        self.system.iteration()
        if self.model.nv <= MADE_ON_THE_WAY:
            return
        holds: list[Hold | None] = [self.held.hold, *self.system.loops.others(self.held.hold)] if self.holds else [None]
        for hold in reversed(holds):  # that of the start is at hand afterwards
            if hold is not None:
                self.system.hold(hold)
                self.system.loops.projection(hold)
                if hold.plan is not None:
                    self.system.loops.holding(hold)
            self.system.iteration()
            self.system.start()
            if self.events or self.times is not None:
                self.system.step()

    def _advance(self, advance: Any, kept: Checkpoint | None, show: bool | None) -> str:
        """Advance to the end, and return why the run stopped."""
        iterations = 64
        buffer = np.empty((1, _ROWS, self.system.problem.record.size))
        with noted_interrupts() as interrupted, progress(self.model.name, self.start, self.until, show) as report:
            try:
                while True:
                    looked, attempts = time.perf_counter(), self._attempts()
                    advance(self.state, self.table, self.constants, buffer, iterations)
                    self._collect(buffer)
                    code = int(self.state[0, 0])
                    if code in (WEAKENED, OPENED, LOOKED):
                        self._hold_otherwise(code)
                        code = RUNNING
                    code = handle(self) if code == EVENT else code
                    if code == UNDEFINED:
                        raise undefined(self)
                    self.state[0, 0] = code
                    report(self.time, int(self.get("steps")[0]))
                    if code == STOPPED:
                        return f"event '{self.occurrences[-1].name}'"
                    if code == FINISHED:
                        return "end"
                    if code != RUNNING:
                        raise trouble(self, code)
                    if interrupted():
                        return "interrupted"
                    spent = time.perf_counter() - looked
                    if spent > 2.0 * _LOOK:
                        iterations = max(1, iterations // 2)
                    elif spent < 0.5 * _LOOK and self._attempts() - attempts >= iterations:
                        iterations = iterations * 2
                    if kept is not None:
                        kept.save_if_due(self)
            except KeyboardInterrupt:
                self._collect(buffer)
                return "interrupted"

    # --- the constraints of loops

    @property
    def held(self) -> Chosen:
        """How the loops are held."""
        return self.holds[-1].chosen

    def _hold(self, t: float, chosen: Chosen) -> None:
        """Hold the loops from a time on."""
        self.holds.append(Held(t, chosen))
        if self.adaptive:
            self.set(root=0.0)  # that of another hold says nothing
        self.set(limit=chosen.limit, look=LOOK if chosen.hold.plan is None else np.inf)
        self.system.hold(chosen.hold)

    def hold_again(self, holds: Sequence[Held]) -> None:
        """Hold the loops as they were held from times on; the last is at hand."""
        self.holds = list(holds)
        if holds:
            self.system.hold(self.held.hold)

    def _hold_otherwise(self, code: int) -> None:
        """Hold the loops by pivots where a plan loses its hold, and by a plan again where one is good."""
        t, q, loops = self.time, self.get("q").copy(), self.system.loops
        if self.held.hold.plan is not None:
            self._hold(t, loops.pivoted(t, q, self.held.hold.rank))
        elif code == LOOKED:
            last = next((held.chosen for held in reversed(self.holds) if held.chosen.hold.plan is not None), loops.usual)
            better = loops.better(last, t, q) if last.hold.rank == self.held.hold.rank else None
            if better is not None:
                self._hold(t, better)
            self.set(look=LOOK if better is None else np.inf)
        else:
            raise singular(self) if code == WEAKENED else trouble(self, code)

    def strength(self, t: float, q: np.ndarray) -> float:
        """Return how well the loops are held at a configuration."""
        return float(lasting(*self.system.loops.projection(self.held.hold)(t, q, np.zeros(self.model.nv))[2:]))

    def closed(self, t: float, q: np.ndarray, v: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return a state put on the constraints of the loops, its velocity the nearest by kinetic energy. Refuse q that opens them.

        The loops are held otherwise from there on where need be, as on another branch.
        """
        check_closed(self.model, t, q, name, f"return m.assemble(guess=q{', t=t' if self.model.driven_names else ''})")
        still = self.model.at(t)
        q = still.assemble(guess=q)
        if not self.strength(t, q) >= self.held.limit:
            # by the plans that there are, where one takes long to make
            small, made = self.model.nv <= MADE_ON_THE_WAY, [one.chosen for one in self.holds if one.chosen.hold.plan is not None]
            chosen = self.system.loops.start(t, q, None if small else made)
            if chosen is None:
                raise singular(self)
            self._hold(t, chosen)
        return q, still.project_velocity(q, v)

    def _attempts(self) -> int:
        return int(self.get("steps")[0] + self.get("rejected")[0])

    def _collect(self, buffer: np.ndarray) -> None:
        rows = int(self.state[0, 1])
        if rows:
            self.samples.append(buffer[0, :rows].copy())
        self.state[0, 1] = 0.0

    def reached(self, t: float, q: np.ndarray, v: np.ndarray, a: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the state at a time h after the start of the last step: after a step of that size."""
        if h == 0.0:
            return q, v
        q1, v1, *held = self.stepped(t, q, v, a, h)
        if held and not held[0] > SINGULAR:  # no plan holds it; from both ends of the step
            q_end, v_end = self.get("q").copy(), self.get("v").copy()
            ends = [[t, self.time], [q, q_end], [v, v_end], [a, self.evaluate_at(self.time, q_end, v_end)[0]]]
            between = Trajectory(self.model, *map(np.array, ends)).at(t + h)
            return between.q[0], between.v[0]
        return q1, v1

    def stepped(self, t: Any, q: np.ndarray, v: np.ndarray, a: np.ndarray, h: Any) -> tuple[Any, ...]:
        """Return the results of `System.step`; unless something is called from Python, also of many steps."""
        row = self._row(t + 0.5 * h)
        if not self.in_python:
            return self.system.step()(t, q, v, a, h, row, self.constants[0])
        step = self.integrator.advance(self.system.called_flow(row, self.constants[0]), t, q, v, a, h)
        state = (np.asarray(step.q, dtype=float), np.asarray(step.v, dtype=float))
        return state if step.free is None else (*state, step.strength, *step.free)


def _checked(events: Any) -> tuple[Event, ...]:
    if isinstance(events, Event) or not isinstance(events, Sequence):
        raise ArgumentError(f"events {events!r} is not a list of events; give [ct.Event(name, function), …]")
    for event in events:
        if not isinstance(event, Event):
            raise ArgumentError(f"event {event!r} is not an event; give ct.Event(name, function)")
    return tuple(events)
