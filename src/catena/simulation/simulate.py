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
from catena.native import Iteration, Kernel
from catena.simulation.arguments import check_state, number, positive, recording
from catena.simulation.checkpoint import Checkpoint
from catena.simulation.closing import check_closed
from catena.simulation.events import Event, handle
from catena.simulation.interrupts import noted_interrupts
from catena.simulation.iteration import EVENT, FINISHED, NOT_FINITE, NOT_SOLVED, RUNNING, STOPPED, TOO_SMALL, WEAKENED, run_in_python
from catena.simulation.progress import progress
from catena.simulation.steps import integrator as integrator_of
from catena.simulation.system import Function, Input, System, check_traceable
from catena.simulation.trajectory import Occurrence, Trajectory

#: Rows of the buffer that a run in machine code fills before Python looks at it.
_ROWS = 4096

#: Time that a run in machine code takes before Python looks at it [s].
_LOOK = 0.1

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

    - `step` [s] fixes the step size; without it, an integrator with an error estimate adapts its steps to `rtol` and `atol` (a hundredth of
      rtol, unless given). Errors are measured in 1 rad or the size of the mechanism, those of velocities by their own size.
    - `integrator`: "semi-implicit-euler", "midpoint", "rk4", "bogacki-shampine", "dormand-prince", "dop853", "implicit-midpoint",
      "gauss-legendre-4", or "scipy:Radau", "scipy:BDF", "scipy:LSODA"; "auto" is "dormand-prince", or "rk4" with a fixed step.
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
        m.tree()  # refuses what cannot move
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
        name = ("rk4" if self.step is not None else "dormand-prince") if integrator == "auto" or self.scipy_method else integrator
        self.integrator = integrator_of(name)
        self.adaptive = self.step is None
        if self.adaptive and not self.integrator.adaptive:
            raise ArgumentError(f"integrator '{name}' does not choose its steps; give step=, the step size in seconds")
        self.system = System(m, self.integrator, method, self.input, self.adaptive, [event.function for event in self.events])
        if m.has_loops:
            if self.scipy_method:
                raise ArgumentError(
                    f"integrator 'scipy:{self.scipy_method}' does not keep the loops of model '{m.name}' closed; use 'dormand-prince'"
                )
            check_closed(m, self.q0)
            self.q0 = m.assemble(guess=self.q0)
            self.v0 = m.project_velocity(self.q0, self.v0)
            self.system.close(self.q0, self.start)
        self.iteration: Iteration | None = None
        self._start: Kernel | None = None
        self._step: Kernel | None = None
        self.samples: list[np.ndarray] = []
        self.occurrences: list[Occurrence] = []
        self.switches = 0  # how often other constraints took over
        self._closed_at: float | None = None  # when they did

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
            return flow.acceleration(t, q, v), flow.force(t, q, v), np.array([float(event.function(t, q, v)) for event in self.events])
        if self._start is None:
            self._start = self.system.start()
        return self._start(t, q, v, self._row(t), self.constants[0])

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
        self.begin()
        if self.in_python:
            function = self.system.called_iteration()

            def advance(state: Any, table: Any, constants: Any, record: Any, iterations: int) -> None:
                with np.errstate(all="ignore"):  # what is not finite is told below
                    run_in_python(function, state, table, constants, record, iterations)
        else:
            self.iteration = self.system.iteration()

            def advance(state: Any, table: Any, constants: Any, record: Any, iterations: int) -> None:
                assert self.iteration is not None
                self.iteration.run(state, table, constants, record, iterations)

        if resume is not None:
            Checkpoint(resume, 0.0).restore(self)
        try:
            stopped = self._advance(advance, kept, show)
            if kept is not None:
                kept.save(self)
        except SimulationError as error:
            if error.trajectory is None:
                error.trajectory = self.trajectory("error", time.perf_counter() - began)
            raise
        return self.trajectory(stopped, time.perf_counter() - began)

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
                    if code == WEAKENED:
                        self._close_otherwise()
                        code = RUNNING
                        self.state[0, 0] = code
                    if code == EVENT:
                        code = handle(self)
                        self.state[0, 0] = code
                    report(self.time, int(self.get("steps")[0]))
                    if code == STOPPED:
                        return f"event '{self.occurrences[-1].name}'"
                    if code == FINISHED:
                        return "end"
                    if code != RUNNING:
                        raise self._trouble(code)
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

    def _close_otherwise(self) -> None:
        """Hold the loops by other constraints from here on; the state stays."""
        before = self.system.closing
        self.system.close(self.get("q").copy(), self.time)
        assert before is not None
        assert self.system.closing is not None
        if self._closed_at == self.time and before.rows == self.system.closing.rows:
            raise SimulationError(
                f"simulate '{self.model.name}': the motion comes to a singular configuration after t = {self.time:.9g} s, where it could "
                "go on in several ways; the motion up to there is in error.trajectory"
            )
        self._closed_at = self.time
        self._start = self._step = None
        if self.iteration is not None:
            self.iteration = self.system.iteration()
        self.switches += 1

    def _attempts(self) -> int:
        return int(self.get("steps")[0] + self.get("rejected")[0])

    def _collect(self, buffer: np.ndarray) -> None:
        rows = int(self.state[0, 1])
        if rows:
            self.samples.append(buffer[0, :rows].copy())
        self.state[0, 1] = 0.0

    def reached(self, t: Any, q: np.ndarray, v: np.ndarray, a: np.ndarray, h: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the state after a step of any size; unless something is called from Python, also after many."""
        if np.ndim(h) == 0 and h == 0.0:
            return q, v
        row = self._row(t + 0.5 * h)
        if self.in_python:
            step = self.integrator.advance(self.system.called_flow(row, self.constants[0]), t, q, v, a, h)
            return np.asarray(step.q, dtype=float), np.asarray(step.v, dtype=float)
        if self._step is None:
            self._step = self.system.step()
        q1, v1, _ = self._step(t, q, v, a, h, row, self.constants[0])
        return q1, v1

    def _trouble(self, code: int) -> SimulationError:
        """Return the error of a run that cannot go on; it carries the trajectory up to the last good state."""
        t, h, q, v = self.time, float(self.get("h")[0]), self.get("q").copy(), self.get("v").copy()
        names = self.model.v_names
        if code == TOO_SMALL:
            h = 10.0 * h  # the step that was refused
        with np.errstate(all="ignore"):
            a = self.evaluate_at(t, q, v)[0]
            q_next, v_next = self.reached(t, q, v, a, h)
            ahead = self.evaluate_at(t + h, self.model.chart(q, h * self.model.chart_rate(q, 0.0 * v, v)), v)[0]
        worst = names[int(np.argmax(np.abs(a)))]
        if code == NOT_FINITE or not np.isfinite([*a, *ahead, *q_next, *v_next]).all():
            # where it comes from: an acceleration here or a step ahead, else what the step leads to
            cause = next((x for x in (a, ahead, v_next) if not np.isfinite(x).all()), v_next)
            bad = names[int(np.argmax(np.where(np.isfinite(cause), np.abs(cause), np.inf)))]
            remedy = "look at the forces there" if self.adaptive else "use a smaller step, or no step= for adaptive ones"
            text = f"the state is not finite after t = {t:.9g} s, first the velocity of '{bad}'; {remedy}"
        elif code == TOO_SMALL:
            text = (
                f"the step size fell to {0.1 * h:.3g} s at t = {t:.9g} s, where '{worst}' has the largest acceleration, "
                f"{np.abs(a).max():.3g}; the motion is not smooth there, or rtol and atol are too small"
            )
        else:
            assert code == NOT_SOLVED
            text = (
                f"the equations of the implicit step at t = {t:.9g} s were not solved; '{worst}' has the largest acceleration, "
                f"{np.abs(a).max():.3g}; use a smaller step"
            )
        return SimulationError(f"simulate '{self.model.name}': {text}; the motion up to there is in error.trajectory")

    # --- what it leaves

    def trajectory(self, stopped: str, seconds: float) -> Trajectory:
        """Return what has been recorded, and the state now."""
        t, q, v = self.time, self.get("q").copy(), self.get("v").copy()
        if int(self.state[0, 0]) == EVENT:  # interrupted before it was clear what happens in the last step
            t, q, v, _, _ = self.before()
        a, tau, _ = self.evaluate_at(t, q, v)
        rows = np.concatenate([*self.samples, np.concatenate([[t], q, v, a, tau])[None]])
        rows = rows[rows[:, 0] > np.concatenate([[-np.inf], np.maximum.accumulate(rows[:-1, 0])])]
        info = {
            "integrator": self.integrator.name, "method": self.system.method, "steps": int(self.get("steps")[0]),
            "rejected": int(self.get("rejected")[0]), "seconds": seconds, "stopped": stopped,
        }  # fmt: skip
        if self.model.has_loops:
            info["switches"] = self.switches
        layout = self.system.problem.record.at
        parts = [rows[:, layout[name]] for name in ("t", "q", "v", "a", "tau")]
        if self.times is not None:
            times = self.times[self.times <= rows[-1, 0]]
            if not len(times):
                times = rows[-1:, 0]  # it stopped before the first: the state that it came to
            if not self.in_python:
                parts = self._at(times, *parts)
            else:
                run = Trajectory(self.model, parts[0][:, 0], *parts[1:], info=info, events=tuple(self.occurrences))
                return run if len(run) == 1 else run.at(times)
        return Trajectory(self.model, parts[0].reshape(-1), *parts[1:], info=info, events=tuple(self.occurrences))

    def _at(self, times: np.ndarray, t: np.ndarray, q: np.ndarray, v: np.ndarray, a: np.ndarray, tau: np.ndarray) -> list[np.ndarray]:
        """Return the samples at other times: by steps of the integrator from the samples before them."""
        k = np.searchsorted(t[:, 0], times, side="right") - 1
        parts = [times, *(part[k] for part in (q, v, a, tau))]
        between = times > t[k, 0]
        if between.any():
            k, at = k[between], times[between]
            q_at, v_at = self.reached(t[k, 0], q[k], v[k], a[k], at - t[k, 0])
            for part, values in zip(parts[1:], (q_at, v_at, *self.evaluate_at(at, q_at, v_at)[:2]), strict=True):
                part[between] = values
        return parts


def _checked(events: Any) -> tuple[Event, ...]:
    if isinstance(events, Event) or not isinstance(events, Sequence):
        raise ArgumentError(f"events {events!r} is not a list of events; give [ct.Event(name, function), …]")
    for event in events:
        if not isinstance(event, Event):
            raise ArgumentError(f"event {event!r} is not an event; give ct.Event(name, function)")
    return tuple(events)
