"""Derivatives through motions: how a cost depends on all that they begin with, backward, and how states do along one change, forward.

Rollouts store their states; where there are too many, those at the beginnings of segments, which are run again on the way back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ArgumentError, SimulationError
from catena.model.parameters import VALUES_BY_NAME, Parameter, entry_of, given_values
from catena.model.values import by_name, floats
from catena.simulation.arguments import moving
from catena.simulation.differentiated_steps import Bars, Cost, DifferentiatedSteps, Motion
from catena.simulation.ensemble import in_chunks
from catena.simulation.inputs import Controls, Function, Input
from catena.simulation.integrators.steps import integrator as integrator_of
from catena.simulation.rollout import PlansUsed, PlanUse, Rollout, RolloutSettings, controls_or_forces, thread_count
from catena.simulation.run import RTOL, Run, RunSettings
from catena.simulation.simulate import completed
from catena.simulation.stepping import Counted, Layout
from catena.simulation.system import System
from catena.simulation.trajectory import Trajectory

#: Numbers of states that are stored at once; of longer runs, segments of about the square root of the steps.
_STORED = 2**24


class MotionGradient(NamedTuple):
    """A cost of motions, and its gradient: by the first positions along velocities, the first velocities, controls, and parameters by path.

    Leading axes are those of the motion; what trajectories share has the sum of their gradients. `motion` is the `Rollout` or the
    `Trajectory`, unless it is too long to be kept.
    """

    value: np.ndarray
    q0: np.ndarray
    v0: np.ndarray
    controls: np.ndarray | None
    parameters: dict[str, np.ndarray]
    noise: Any
    motion: Rollout | Trajectory | None


class MotionSensitivity(NamedTuple):
    """How motions change: positions along velocities, (..., samples, nv), and velocities, (..., samples, nv); and the motions."""

    q: np.ndarray
    v: np.ndarray
    motion: Rollout


def rollout_gradient(
    m: Any,
    q0: Any,
    v0: Any = None,
    controls: Any = None,
    *,
    step: float,
    steps: int,
    cost: Cost | None = None,
    final_cost: Function | None = None,
    start: float = 0.0,
    integrator: str = "auto",
    method: str = "auto",
    threads: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    noise: Any = None,
    stop: Function | None = None,
    executor: Any = None,
    chunk: int | None = None,
    show_progress: bool | None = None,
    tau: Any = None,
) -> MotionGradient:
    """Return the cost of rollouts, and its gradient by all that they begin with.

    The cost is the sum of `cost(t, q, v, tau)` over the beginnings of all steps, tau being the joint forces put in there, and of
    `final_cost(t, q, v)` at the end; both are traced. The other arguments are those of `ct.rollout`; with `executor` and `chunk`,
    trajectories are computed in chunks as by `ct.ensemble`. Joint forces are `tau`, or `controls` of a model without
    actuators; their gradient is `controls`. A trajectory that stops costs nothing from there on, and has its final cost
    there. Gradients are exact for the steps as they are made: they are found backwards, by the adjoint of the compiled step, at about four
    times the cost of the rollout.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> found = ct.rollout_gradient(m, [0.5], controls=np.zeros((100, 1)), step=0.01, steps=100, final_cost=lambda t, q, v: q[0])
    >>> found.value.round(4), found.q0.round(4), found.controls.shape
    (np.float64(-0.4992), array([-0.9927]), (100, 1))
    """
    given = RolloutSettings.of(m, q0, v0, controls, step, steps, 1, start, integrator, method, parameters, noise, stop, tau=tau)
    controls = controls if tau is None else tau
    _check_costs("rollout_gradient", cost, final_cost)
    if executor is None and chunk is None:
        found = _gradient(given, thread_count(threads), cost=cost, final_cost=final_cost)
    else:
        task = partial(_gradient, cost=cost, final_cost=final_cost, keep=False)
        found = _Found.joined([part for _, part in in_chunks(given, task, executor, chunk, show_progress)])
    batch, layout = given.batch, Layout((), given.row)
    by_rows = {name: found.rows[..., at] for name, at in layout.at.items()}
    by_controls = None
    if "tau" in by_rows:
        held = np.shape(controls)[-2] if np.ndim(controls) > max(np.ndim(q0), np.ndim(v0)) else None
        by_controls = _summed(_held(by_rows["tau"], held), batch, np.shape(controls))
    known, values = given.model.parameters(), {path: np.shape(x) for path, x in (parameters or {}).items()}
    by_values = {path: x.reshape(len(x), *known[path].shape) for path in values for x in (found.bars.constants[entry_of(path)],)}
    return MotionGradient(
        found.value.reshape(batch),
        _summed(found.bars.q, batch, (*np.shape(q0)[:-1], given.model.nv)),
        _summed(found.bars.v, batch, (*batch, given.model.nv) if v0 is None else np.shape(v0)),
        by_controls,
        {path: _summed(by_values[path], batch, shape) for path, shape in values.items()},
        _by_noise(noise, by_rows, batch, known),
        None if found.rollout is None else given.shaped(found.rollout),
    )


def _by_noise(noise: Any, rows: Mapping[str, np.ndarray], batch: tuple[int, ...], known: Mapping[str, Parameter]) -> Any:
    """Return gradients in the form in which noise was given."""
    if not isinstance(noise, Mapping):
        return None if noise is None else _summed(_held(rows["noise"], np.shape(noise)[-2]), batch, np.shape(noise))
    found = {}
    for path, x in noise.items():
        shape = known[path].shape
        held = _held(rows[entry_of(path)], np.shape(x)[np.ndim(x) - 1 - len(shape)])
        found[path] = _summed(held.reshape((*held.shape[:2], *shape)), batch, np.shape(x))
    return found


def rollout_sensitivity(
    m: Any,
    q0: Any,
    v0: Any = None,
    controls: Any = None,
    *,
    step: float,
    steps: int,
    along: Mapping[str, Any],
    start: float = 0.0,
    integrator: str = "auto",
    method: str = "auto",
    threads: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    tau: Any = None,
) -> MotionSensitivity:
    """Return how rollouts change along a change of what they begin with, at the end of every step.

    `along` has the changes by name, each with the shape of what it changes: "q0", along velocities, (..., nv); "v0"; "tau", or "controls"
    where joint forces are given as such; and
    numbers of the model by path, which must be among `parameters`. Leading axes broadcast with those of the states, so that several
    directions are an axis of `along`. The other arguments are those of `ct.rollout`. Sensitivities are exact for the steps as they are
    made: the tangent of the compiled step is taken along them.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> found = ct.rollout_sensitivity(m, [0.5], step=0.01, steps=100, along={"q0": [1.0]})
    >>> found.q.shape, found.q[-1].round(4)
    ((101, 1), array([-0.9927]))
    """
    model, what = moving(m, "rollout_sensitivity"), "rollout_sensitivity"
    parameters = by_name(f"{what}: parameters", parameters, VALUES_BY_NAME)
    along = by_name(f"{what}: along", along, "give a mapping, such as {'q0': [1.0]}")
    by, controls, _ = controls_or_forces(model, what, controls, tau, None)
    n, timed = model.nv, np.ndim(controls) > max(np.ndim(q0), np.ndim(v0))
    shapes: dict[str, tuple[int, ...]] = {"q0": (n,), "v0": (n,)}
    if controls is not None and not callable(controls):
        controls = np.asarray(controls, dtype=float)[(..., slice(None), slice(None)) if timed else (..., None, slice(None))]
        shapes[by] = controls.shape[-2:]
    entries = {name: name for name in shapes}  # by the names that `along` may have
    for path in model.varying(tuple(parameters), what).varied:
        if path in along and path in entries:
            raise ArgumentError(f"{what}: along '{path}' may be the parameter or where motions begin; give the parameter another name")
        shapes[entry_of(path)] = model.parameters()[path].shape
        entries.setdefault(path, entry_of(path))
    changes = {}
    for name, x in along.items():
        if name not in entries:
            raise ArgumentError(f"{what}: along '{name}' changes nothing that is given; give some of {', '.join(entries)}")
        shape = shapes[entries[name]]
        x = floats(f"{what}: along '{name}'", x, "give numbers")
        x = x[..., None, :] if name == by and not timed and x.ndim else x
        if x.shape[x.ndim - len(shape) :] != shape or not np.isfinite(x).all():
            raise ArgumentError(f"{what}: along '{name}' has shape {np.shape(along[name])}; give finite numbers, (..., {shape})")
        changes[entries[name]] = x
    begins = {"q0": np.asarray(q0, dtype=float), "v0": np.zeros(n) if v0 is None else np.asarray(v0, dtype=float)}
    axes = [x.shape[:-1] for x in begins.values()] + [x.shape[: x.ndim - len(shapes[name])] for name, x in changes.items()]
    try:
        batch = np.broadcast_shapes(*axes)
    except ValueError:
        raise ArgumentError(f"{what}: leading axes {', '.join(map(str, axes))} do not broadcast; give axes that are equal or 1") from None
    if isinstance(controls, np.ndarray):
        controls = np.broadcast_to(controls, np.broadcast_shapes(controls.shape, (*batch, *controls.shape[-2:])))
    first = np.broadcast_to(begins["q0"], (*batch, begins["q0"].shape[-1]))
    given = RolloutSettings.of(m, first, v0, None, step, steps, 1, start, integrator, method, parameters, tau=controls)
    flat = {}
    for name, shape in shapes.items():
        flat[name] = np.broadcast_to(changes.get(name, np.zeros(shape)), (*given.batch, *shape)).reshape(len(given.q), *shape)
    steps_of, (rollout, plans) = DifferentiatedSteps(_system(given), None, None), given.run_with_plans(thread_count(threads))
    motion = _motion(given, rollout, plans, 0, np.full(len(given.q), given.steps))
    changed = [np.zeros((len(given.q), 0)), *(flat[name].reshape(len(given.q), -1) for name in steps_of.constants.sizes)]
    rows = np.repeat(flat[by], given.steps // given.table.shape[1], axis=1) if "tau" in given.row else np.zeros((1, given.steps, 0))
    found = steps_of.along(motion, _constants(given), flat["q0"], flat["v0"], rows, np.concatenate(changed, axis=1), thread_count(threads))
    found = found.reshape(*given.batch, given.steps + 1, 2 * n)
    return MotionSensitivity(found[..., :n], found[..., n:], given.shaped(rollout))


def simulate_gradient(
    m: Any,
    q0: Any,
    v0: Any = None,
    *,
    until: float,
    step: float,
    cost: Cost | None = None,
    final_cost: Function | None = None,
    start: float = 0.0,
    method: str = "auto",
    integrator: str = "auto",
    tau: Any = None,
    controller: Function | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> MotionGradient:
    """Return the cost of a motion that `ct.simulate` finds with steps of one size, and its gradient by all that it begins with.

    The cost is the integral of `cost(t, q, v, tau)` over time, by the trapezoidal rule, and `final_cost(t, q, v)` at the end; both are
    traced. The other arguments are those of `ct.simulate`; gradients by `tau`, constant or values over time, are `controls`.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> found = ct.simulate_gradient(m, [0.5], until=1.0, step=0.01, cost=lambda t, q, v, tau: q[0] ** 2)
    >>> found.value.round(4), found.q0.round(4)
    (np.float64(0.123), array([0.4853]))
    """
    _check_costs("simulate_gradient", cost, final_cost)
    if step is None:
        raise ArgumentError("simulate_gradient: step is None; give the size of the steps [s], for steps that adapt have no derivative")
    parameters = by_name("simulate_gradient: parameters", parameters, VALUES_BY_NAME)
    model = moving(m, "simulate_gradient").varying(tuple(parameters), "simulate_gradient")
    values = given_values(model, parameters, "simulate_gradient")
    if integrator != "auto":
        integrator_of(integrator, model)
    changed = model.with_values(values) if values else model
    made = Run(RunSettings.of(changed, q0, v0, start, until, step, method, integrator, tau, controller, (), None, RTOL, None, None))
    run = completed(made)
    if run.info["stopped"] != "end":
        raise SimulationError(f"simulate_gradient: the run ended at {run.t[-1]:g} s: {run.info['stopped']}; let it come to its end")
    input_ = Input(model, tau, controller)
    if input_.in_python:
        raise ArgumentError("simulate_gradient: a function marked ct.python cannot be differentiated; give one that can be traced")
    system = System(model, integrator_of(run.info["integrator"], model), method, input_)
    steps_of = DifferentiatedSteps(system, cost, final_cost, integral=True)
    count = len(run.t) - 1
    table, rows, pieces = input_.table(start, until)[0], np.zeros((1, count, 0)), np.zeros(count, dtype=int)
    if input_.times is not None:
        pieces = np.clip(np.searchsorted(table[:, 0], run.t[:-1] + 0.5 * np.diff(run.t), side="right") - 1, 0, len(table) - 1)
        rows = table[pieces][None]
    motion = Motion(run.q[None], run.v[None], run.t[:-1], np.diff(run.t), rows, np.ones((1, count), dtype=bool), _plans_of_run(made, run.t))
    constants = np.concatenate([input_.constant, *(x.ravel() for x in values.values())])[None]
    value, bars, by_rows = _differentiated(steps_of, motion, constants, run.t[-1:], rows[:, -1])
    by_tau: Any = None
    if input_.times is not None and input_.values is not None:
        by_tau = np.zeros(input_.values.shape)
        first, slope = (by_rows[0][:, system.stepping.row.at[name]] for name in ("first", "slope"))
        at = pieces + len(input_.times) - 1 - len(table)  # rows before the start are not in the table
        rate = slope / np.diff(input_.times)[at][:, None]
        np.add.at(by_tau, at, first - rate)
        np.add.at(by_tau, at + 1, rate)
    elif tau is not None:
        by_tau = bars.constants["tau"][0]
    by_values = {path: bars.constants[entry_of(path)][0].reshape(x.shape) for path, x in values.items()}
    return MotionGradient(value[0], bars.q[0], bars.v[0], by_tau, by_values, None, run)


def _plans_of_run(run: Run, t: np.ndarray) -> list[PlanUse]:
    """Return the plans of the loops by which a run made the steps that begin at times t."""
    used = [(since.selected.loop_plan, np.searchsorted(t, since.t)) for since in run.plans] or [(None, 0)]
    return [PlanUse(plan, np.zeros(1, dtype=int), np.array([first])) for plan, first in used]


def _check_costs(what: str, cost: Any, final_cost: Any) -> None:
    if cost is None and final_cost is None:
        raise ArgumentError(f"{what}: neither cost nor final_cost is given; give a function to be differentiated")


def _differentiated(
    steps_of: DifferentiatedSteps, motion: Motion, constants: np.ndarray, t: np.ndarray, row: np.ndarray
) -> tuple[np.ndarray, Bars, np.ndarray]:
    """Return the cost of a whole motion that ends at times t, its gradient, and that by the rows of inputs."""
    value, bars, by_row = steps_of.final(t, motion.q[:, -1], motion.v[:, -1], row, constants)
    bars, by_rows = steps_of.back(motion, constants, bars, 1)
    by_rows[:, -1] += by_row
    return value + steps_of.value(motion, constants), bars, by_rows


# rollouts


class _Found(NamedTuple):
    """The cost of trajectories in one row, and its gradient, also by the rows of inputs of all steps (N, steps, entries)."""

    value: np.ndarray
    bars: Bars
    rows: np.ndarray
    rollout: Rollout | None

    @staticmethod
    def joined(parts: list[_Found]) -> _Found:
        """Return several as one."""
        by = [part.bars for part in parts]
        constants = {name: np.concatenate([one.constants[name] for one in by]) for name in by[0].constants}
        bars = Bars(np.concatenate([one.q for one in by]), np.concatenate([one.v for one in by]), constants)
        return _Found(np.concatenate([part.value for part in parts]), bars, np.concatenate([part.rows for part in parts]), None)


def _system(given: RolloutSettings) -> System:
    controls = Controls(given.model, given.row, given.controller)
    return System(given.model, integrator_of(given.integrator, given.model), given.method, controls, clock=Counted)


def _constants(given: RolloutSettings) -> np.ndarray:
    """Return the numbers of the model that stay, (N, entries)."""
    count = len(given.q)
    return np.concatenate([np.zeros((count, 0)), *(np.broadcast_to(x, (count, x.shape[1])) for x in given.parameters.values())], axis=1)


def _motion(given: RolloutSettings, rollout: Rollout, plans: PlansUsed, first: int, ends: np.ndarray) -> Motion:
    """Return steps of a rollout that begin with a number; trajectories end after so many steps in all."""
    count = rollout.q.shape[1] - 1
    numbers = first + np.arange(count)
    t, h = given.start + numbers * given.step, np.full(count, given.step)
    return Motion(rollout.q, rollout.v, t, h, _step_rows(given, numbers), numbers < ends[:, None], plans.uses)


def _step_rows(given: RolloutSettings, numbers: np.ndarray) -> np.ndarray:
    """Return the rows of inputs of steps, (N or 1, steps, entries)."""
    return given.table[:, numbers // (given.steps // given.table.shape[1])]


def _gradient(given: RolloutSettings, threads: int, *, cost: Cost | None, final_cost: Function | None, keep: bool = True) -> _Found:
    """Return the cost of rollouts and its gradient; the rollouts too, if they are stored as a whole and kept."""
    steps_of, constants = DifferentiatedSteps(_system(given), cost, final_cost), _constants(given)
    count, width = len(given.q), given.model.nq + given.model.nv
    length = given.steps if count * given.steps * width <= _STORED else max(1, math.isqrt(given.steps))
    begins = range(0, given.steps, length)
    ends, q, v = np.full(count, given.steps), given.q, given.v
    stored: list[tuple[np.ndarray, np.ndarray, PlansUsed | None]] = []
    value, segment, plans = np.zeros(count), None, None
    for k in begins:
        stored.append((q, v, plans))
        ended = ends <= k
        segment = rollout, plans = _segment(given, q, v, k, length, threads, ended, plans)
        ends = np.where(rollout.stopped & ~ended, k + rollout.stopped_step, ends)
        value += steps_of.value(_motion(given, rollout, plans, k, ends), constants)
        q, v = rollout.q[:, -1].copy(), rollout.v[:, -1].copy()
    last = np.maximum(ends - 1, 0)
    rows = np.broadcast_to(given.table, (count, *given.table.shape[1:]))[np.arange(count), last // (given.steps // given.table.shape[1])]
    by_end, bars, by_row = steps_of.final(given.start + ends * given.step, q, v, rows, constants)
    value += by_end
    by_rows = np.empty((count, given.steps, steps_of.row.size))
    for k, (q, v, before) in reversed(list(zip(begins, stored, strict=True))):
        if segment is None:
            segment = _segment(given, q, v, k, length, threads, ends <= k, before)
        bars, by_rows[:, k : k + length] = steps_of.back(_motion(given, *segment, k, ends), constants, bars, threads)
        segment = segment if len(begins) == 1 else None
    by_rows[np.arange(count), last] += by_row
    return _Found(value, bars, by_rows, segment[0] if keep and segment is not None else None)


def _segment(
    given: RolloutSettings, q: np.ndarray, v: np.ndarray, first: int, length: int, threads: int, ended: np.ndarray, before: PlansUsed | None
) -> tuple[Rollout, PlansUsed]:
    """Return some steps of a rollout, from states at the beginning of these, which go on with the plans of the segment `before`."""
    last = min(first + length, given.steps)
    if (first, last) == (0, given.steps):
        return given.run_with_plans(threads)
    table = np.ascontiguousarray(_step_rows(given, np.arange(first, last)))
    some = replace(given, q=q, v=v, table=table, start=given.start + first * given.step, steps=last - first)
    return some.run_with_plans(threads, ended, before)


def _held(rows: np.ndarray, count: int | None) -> np.ndarray:
    """Return gradients by so many rows of a table, each held over several steps, from those of the steps (N, steps, entries).

    None stands for one row without an axis of time.
    """
    held = rows.reshape(len(rows), count or 1, rows.shape[1] // (count or 1), rows.shape[-1]).sum(axis=2)
    return held[:, 0] if count is None else held


def _summed(x: np.ndarray, batch: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Return gradients (N, ...) of a batch in the shape of what was given, with sums where it was shared."""
    whole = x.reshape((*batch, *x.shape[1:]))
    whole = whole.sum(axis=tuple(range(whole.ndim - len(shape))))
    return whole.sum(axis=tuple(i for i, n in enumerate(shape) if n != whole.shape[i]), keepdims=True)
