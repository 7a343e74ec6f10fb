"""Runs of one mechanism: `simulate`."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from catena.errors import ArgumentError, SimulationError
from catena.model import Mechanism
from catena.model.parameters import VALUES_BY_NAME, WRENCHES_BY_NAME
from catena.model.values import by_name
from catena.simulation.arguments import check_state, moving, number
from catena.simulation.checkpoint import Checkpoint, restore
from catena.simulation.events import Event
from catena.simulation.inputs import Function, controls_of_run
from catena.simulation.interrupts import interruptible, noted_interrupts
from catena.simulation.outcome import react, trajectory, trouble, warn_of_gain
from catena.simulation.progress import progress
from catena.simulation.run import RTOL, Run, RunSettings, Snapshot
from catena.simulation.stepping import EVENT, FINISHED, LOOKED, OPENED, RUNNING, STOPPED, WEAKENED, run_in_python
from catena.simulation.stiffness import StiffnessWatch
from catena.simulation.trajectory import Trajectory

#: Rows of the buffer that a run in machine code fills before Python looks at it.
_ROWS = 4096

#: Time that a run in machine code takes before Python looks at it [s].
_LOOK = 0.1


def simulate(
    m: Mechanism,
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
    controls: Any = None,
    events: Sequence[Event] = (),
    record: int | Sequence[float] | None = None,
    rtol: float = RTOL,
    atol: float | None = None,
    largest_step: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 30.0,
    resume: str | os.PathLike[str] | None = None,
    show_progress: bool | None = None,
    every: float | None = None,
    parameters: Mapping[str, Any] | None = None,
    wrenches: Mapping[str, Any] | None = None,
) -> Trajectory:
    """Return the motion of a mechanism from the state (q0, v0) at `start` to the time `until` [s].

    - `q0` and `v0` of a model with loops close these, and keep them closed: `m.assemble` and `m.project_velocity` find such.
    - `step` [s] fixes the step size; without it, an integrator with an error estimate adapts its steps to `rtol` and `atol` (a hundredth of
      rtol, unless given). Errors are measured in 1 rad or the size of the mechanism, those of velocities by their own size.
    - `integrator`: "semi-implicit-euler", "midpoint", "rk4", "bogacki-shampine", "dormand-prince", "dop853"; linearly implicit in friction,
      dampers, springs and stops of joints, "rang-angermann"; implicit, "implicit-midpoint", "gauss-legendre-4", "gauss-legendre-6";
      symplectic, on canonical momenta and without loops, "symplectic-euler", "stormer-verlet", "symplectic-midpoint",
      "symplectic-gauss-4", "symplectic-gauss-6"; or "scipy:Radau", "scipy:BDF", "scipy:LSODA". "auto" is "dormand-prince", with a fixed
      step "rk4"; "rang-angermann" where passive forces are too fast for explicit steps, and for fixed steps of models with contacts; or
      "symplectic-gauss-4" over 100,000 fixed steps and more of a model that conserves energy. `info["why"]` says why it is not the default.
    - `tau`: constant joint forces (nv), or a pair (times, values) that is interpolated linearly; `controller`: a function
      (t, q, v) -> tau that is traced and compiled, or `ct.python(function)` to be called step by step.
    - `controls` of `m.actuators` in place of joint forces: constant, a pair (times, values) that is interpolated linearly, a function
      (t, q, v) -> controls like a controller, or "hold": servos of position hold q0, and motors are off.
    - `events`: `ct.Event` conditions that stop, record or reset; a change of sign is noticed if it is there at the end of a step, so with
      events adaptive steps are at most a hundredth of the run, or `largest_step`; with functions of time they are so too. They end where
      conditions on time in the graphs of forces, controllers, controls, wrenches and driven joints switch.
    - `record`: how many steps there are from sample to sample (1), or the times of the samples; these come from shorter steps of the
      same integrator, with functions that are called from Python by interpolation.
    - `parameters` has other numbers of the model, by the paths of `m.parameters`.
    - `wrenches` has moments [N m] and forces [N] at the origins of bodies, in the world's axes, by the bodies' names: (6,) each, or
      functions of (t, q, v), traced or marked like controllers.
    - `checkpoint` names a file that is written every `checkpoint_every` seconds and at the end; `resume` continues from such a file, to a
      later `until` as well.

    Ctrl-C ends the run and returns what there is.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> run = ct.simulate(m, [0.1], until=2.0)
    >>> abs(run.energy_change).max() < 1e-7
    np.True_
    >>> m.add_actuator("servo", "arm", kp=200.0, kv=20.0)
    >>> run = ct.simulate(m, [0.1], until=2.0, controls=[0.5])
    >>> run["arm"][-1].round(3), run.tau[-1].round(2)
    (np.float64(0.477), array([4.51]))
    """
    if parameters := by_name("simulate: parameters", parameters, VALUES_BY_NAME):
        m = moving(m, "simulate").with_values(parameters)
    if wrenches := by_name("simulate: wrenches", wrenches, WRENCHES_BY_NAME):
        m = moving(m, "simulate").pushed(wrenches, "simulate")
    if controls is not None:
        if tau is not None or controller is not None:
            raise ArgumentError("both controls and tau or controller are given; give one of them, or ct.actuator_forces in a controller")
        m = moving(m, "simulate")
        controller = controls_of_run(m, controls, check_state(m, q0, v0)[0], number("start", start), number("until", until))
    settings = RunSettings.of(m, q0, v0, start, until, step, method, integrator, tau, controller, events, record, rtol, atol, largest_step)
    if settings.scipy_method:
        from catena.simulation.with_scipy import integrate

        if checkpoint is not None or resume is not None:
            raise ArgumentError("SciPy's integrators write no checkpoints; use one of catena's integrators for checkpoint= and resume=")
        return integrate(Run(settings), show_progress)
    if every is not None:  # as it was called, where in rollouts every means steps
        warnings.warn("simulate: every= is now checkpoint_every=, the seconds between checkpoints", DeprecationWarning, stacklevel=2)
        checkpoint_every = every
    file = Checkpoint(checkpoint, checkpoint_every) if checkpoint is not None else None
    return completed(Run(settings), file, resume, show_progress)


def completed(
    run: Run, file: Checkpoint | None = None, resume: str | os.PathLike[str] | None = None, show_progress: bool | None = False
) -> Trajectory:
    """Return the motion of a run to its end, with checkpoints in a file, and from one to resume."""
    began = time.perf_counter()
    if run.settings.in_python:
        run.begin()
    else:
        interruptible(run.prepare)
    if file is not None:
        file.belong(run)
    if resume is not None:
        restore(run, resume)
    try:
        stopped = _run_to_end(run, file, show_progress)
        if file is not None and stopped != "end":
            file.save(run)
    except SimulationError as error:
        error.trajectory = trajectory(run, "error", time.perf_counter() - began)
        error.args = (f"{error}; the motion up to there is in error.trajectory",)
        raise
    motion = trajectory(run, stopped, time.perf_counter() - began)
    warn_of_gain(run, motion)
    return motion


def _advance(run: Run, buffer: np.ndarray, iterations: int) -> None:
    """Advance a run by so many iterations at most; its records go to a buffer."""
    arguments = (run.state, run.table, run.constants, buffer, iterations)
    if run.settings.in_python:
        with np.errstate(all="ignore"):  # a state that is not finite ends the run
            run_in_python(run.system.python_attempt(), *arguments)
    else:
        run.system.iteration().run(*arguments)


def _run_to_end(run: Run, file: Checkpoint | None, show: bool | None) -> str:
    """Advance a run to its end with checkpoints on the way and there, and return why it stopped."""
    given, watch = run.settings, StiffnessWatch()
    most = 1 if given.in_python and file is not None else 2**40  # the last step is not taken again where Python's functions would see it
    iterations = min(64, most)
    buffer = np.empty((1, _ROWS, run.system.stepping.record.size))

    def attempts() -> float:
        return run.number("steps") + run.number("rejected")

    with noted_interrupts() as interrupted, progress(run.model.name, given.start, given.until, show) as report:
        try:
            while True:
                looked, before, then = time.perf_counter(), attempts(), run.snapshot() if file is not None else None
                _advance(run, buffer, run.know_rows(iterations))
                run.collect(buffer)
                code = int(run.state[0, 0])
                if code in (WEAKENED, OPENED, LOOKED):
                    if not run.change_plan(code):
                        raise run.singular() if code == WEAKENED else trouble(run, code)
                    code = RUNNING
                code = react(run) if code == EVENT else code
                run.state[0, 0] = code
                report(run.time, int(run.number("steps")))
                if code == STOPPED:
                    return f"event '{run.occurrences[-1].name}'"
                if code == FINISHED:
                    if file is not None and then is not None:
                        _save_before_last_step(run, file, then, buffer, round(attempts() - before))
                    return "end"
                if code != RUNNING:
                    raise trouble(run, code)
                if interrupted():
                    return "interrupted"
                run.check_end()
                watch.look(run)
                spent = time.perf_counter() - looked
                if spent > 2.0 * _LOOK:
                    iterations = max(1, iterations // 2)
                elif spent < 0.5 * _LOOK and attempts() - before >= iterations:
                    iterations = min(iterations * 2, most)
                if file is not None:
                    file.save_if_due(run)
        except KeyboardInterrupt:
            run.collect(buffer)
            return "interrupted"


def _save_before_last_step(run: Run, file: Checkpoint, then: Snapshot, buffer: np.ndarray, attempts: int) -> None:
    """Save the state before the last of some attempts at steps, from where the run can go on to a later end."""
    end = run.snapshot()
    run.put_back(then)
    if attempts > 1:
        _advance(run, buffer, attempts - 1)
        run.collect(buffer)
    file.save(run)
    run.put_back(end)
