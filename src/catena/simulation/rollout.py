"""Many trajectories at once: `rollout`, a loop of fixed steps in machine code, with lanes over trajectories and threads over groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from catena.errors import ArgumentError
from catena.loops.plan_library import Selected
from catena.loops.projection import LoopPlan
from catena.model import Mechanism
from catena.model.actuators import acting
from catena.model.forces import BUSHING_NUMBERS, SPRING_NUMBERS
from catena.model.parameters import CONTROLS, OPTIONS, VALUES_BY_NAME, WRENCHES, WRENCHES_BY_NAME, entry_of, given_values, ties
from catena.model.parameters import check as check_paths
from catena.model.user_functions import CONDITION, Role
from catena.model.values import by_name, floats, leading_axes
from catena.native import Iteration
from catena.native.thread_parts import share, stop_event
from catena.native.thread_parts import thread_count as set_thread_count
from catena.scalars.expression import names
from catena.simulation.arguments import check_step, count, flag, moving, normalise, number, positive
from catena.simulation.inputs import Controls, Function, Input, actuated, controller_role
from catena.simulation.integrators.steps import integrator as integrator_of
from catena.simulation.loop_states import check_closed, check_velocities, settled
from catena.simulation.run import LOOK
from catena.simulation.stepping import (
    FINISHED,
    LOOKED,
    NO_WAY_ON,
    NOT_FINITE,
    NOT_SOLVED,
    OPENED,
    RUNNING,
    STOPPED,
    WEAKENED,
    Counted,
    Layout,
)  # fmt: skip
from catena.simulation.stiffness import STABLE, fastest_of_model, warn_of
from catena.simulation.system import System

#: Steps that machine code takes, over all trajectories of a call, before Python looks whether to go on: about 0.1 s of an arm.
_STEPS = 200_000

#: Work below so many steps is not worth a thread.
_LEAST = 2_000

_REASONS = {FINISHED: "", STOPPED: "", NOT_FINITE: "not finite", NOT_SOLVED: "not solved", OPENED: "not closed", NO_WAY_ON: "singular"}


@dataclass(frozen=True, repr=False)
class Rollout:
    """Trajectories: positions q (..., samples, nq) and velocities v (..., samples, nv) at the times t (samples,).

    A trajectory that failed holds NaN from its failure on: `failed` (...) tells which, `failed_step` the step that failed, counted from 0,
    or -1, and `reason` why: "not finite"; "not solved", the equations of an implicit step; "not closed", the loops of a mechanism after a
    step that led too far from them; "singular", where loops leave open how the mechanism goes on.

    A trajectory that met the condition `stop` stays where it did: `stopped` tells which, `stopped_step` after how many steps, or -1.
    Where something else was observed, `observed` (..., samples, ...) has it, and q and v only the last state, (..., 1, nq) and (..., 1, nv)
    of each.
    """

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    failed_step: np.ndarray
    reason: np.ndarray
    stopped_step: np.ndarray
    observed: np.ndarray | None = None

    @property
    def parts(self) -> tuple[Any, ...]:
        """All but the times."""
        return self.q, self.v, self.failed_step, self.reason, self.stopped_step, self.observed

    @property
    def failed(self) -> np.ndarray:
        """Which trajectories failed."""
        return self.failed_step >= 0

    @property
    def stopped(self) -> np.ndarray:
        """Which trajectories met the condition to stop."""
        return self.stopped_step >= 0

    def __repr__(self) -> str:
        shape = self.q.shape[:-2]
        failed, stopped = int(np.count_nonzero(self.failed)), int(np.count_nonzero(self.stopped))
        trouble = f"; {failed} failed, first at step {self.failed_step[self.failed].min()}" if failed else ""
        trouble += f"; {stopped} stopped, first after {self.stopped_step[self.stopped].min()} steps" if stopped else ""
        return f"<Rollout {shape}: {len(self.t)} samples from {self.t[0]:g} s to {self.t[-1]:g} s{trouble}>"


def rollout(
    m: Mechanism,
    q0: Any,
    v0: Any = None,
    controls: Any = None,
    step: float | None = None,
    steps: int | None = None,
    *,
    every: int = 1,
    start: float = 0.0,
    integrator: str = "auto",
    method: str = "auto",
    threads: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    noise: Any = None,
    stop: Function | None = None,
    observe: Function | None = None,
    wrenches: Mapping[str, Any] | None = None,
    actuators: bool = False,
    tau: Any = None,
) -> Rollout:
    """Return trajectories from the states (q0, v0), of so many steps of one size [s]: a loop in machine code, on all cores.

    The leading axes of q0 (..., nq), v0 (..., nv) and the joint forces broadcast as in NumPy. `tau` are the joint forces:

    - None: none; v0 = None: at rest;
    - (nv,), or (..., nv) with as many leading axes as the states: constant, the same or for each trajectory;
    - (..., K, nv), with more leading axes than the states have: over time; each of the K rows is held for steps / K steps;
    - a function (t, q, v) -> tau, which is traced and compiled.

    Of a model without actuators `controls` are the joint forces too. Of one with actuators they are controls of `m.actuators`, as those of
    `ct.simulate`, one for each, in the same forms; say so by `actuators=True`, for in other doors they are joint forces yet. None are
    zeros then.

    States of a model with loops must close these: positions by `m.assemble`, velocities by `m.project_velocity`.

    A sample is recorded `every` so many steps, besides the first. `integrator` names one of those of `ct.simulate`; steps are always fixed.
    "auto" is "rk4", or "rang-angermann" for models with contacts, and where friction, dampers, springs or stops are too fast for the step.
    `parameters` has values of numbers of the model, by the paths of `m.parameters`: one for all trajectories, or with leading axes that
    broadcast like those of the states.

    `noise` changes from step to step: joint forces (..., K, nv) that are added to the controls, with rows as in these; or a mapping of such
    tables by path, (..., K, shape), of numbers that forces and controllers depend on: parameters of your own, gravity, springs, friction.
    `wrenches` has moments and forces at the origins of bodies, in the world's axes, by the bodies' names: constant (..., 6) or over time
    (..., K, 6), as controls are. `stop(t, q, v)` is a condition, such as `abs(q[0]) > 2.0`: a trajectory ends with the first step that
    meets it, and stays there. `observe(t, q, v)` is an array that is recorded in place of the state; of numbers that `noise` changes, a
    sample has those of the step that led to it. Both are traced and compiled.

    `threads` limits the threads. The result does not depend on them, and every trajectory is, bit for bit, the one that it would be alone.
    The loop is compiled once for a model and its settings, and cached until the model changes.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"))
    >>> runs = ct.rollout(m, np.linspace(-1, 1, 100)[:, None], step=0.01, steps=200)
    >>> runs.q.shape, runs.failed.any()
    ((100, 201, 1), np.False_)
    >>> low = ct.rollout(m, [1.0], step=0.01, steps=200, stop=lambda t, q, v: q[0] < 0.0, observe=lambda t, q, v: -np.cos(q))
    >>> low
    <Rollout (): 201 samples from 0 s to 2 s; 1 stopped, first after 54 steps>
    >>> low.observed[[0, -1], 0].round(3)
    array([-0.54, -1.  ])
    """
    given = RolloutSettings.of(
        m, q0, v0, controls, step, steps, every, start, integrator, method, parameters, noise, stop, observe, wrenches,
        actuators, tau,
    )  # fmt: skip
    return given.shaped(given.run(thread_count(threads)))


@dataclass(frozen=True)
class RolloutSettings:
    """The arguments of a rollout, checked, with the trajectories in one row: q (N, nq), v (N, nv), the table (N or 1, K, entries).

    Rows of the table have what `row` names, with its entries: controls as "tau", "noise", and numbers of the model by path.
    """

    model: Mechanism
    batch: tuple[int, ...]
    q: np.ndarray
    v: np.ndarray
    at_rest: bool  # no velocities were given
    table: np.ndarray
    row: dict[str, int]
    controller: Function | None
    step: float
    steps: int
    every: int
    start: float
    integrator: str
    method: str
    parameters: dict[str, np.ndarray]  # by path, (N or 1, entries)
    stop: Function | None
    observe: Function | None

    @staticmethod
    def of(
        m: Mechanism, q0: Any, v0: Any, controls: Any, step: Any, steps: Any, every: Any, start: Any, integrator: str, method: str,
        parameters: Mapping[str, Any] | None = None, noise: Any = None, stop: Function | None = None, observe: Function | None = None,
        wrenches: Mapping[str, Any] | None = None, actuators: bool | None = None, tau: Any = None,
    ) -> RolloutSettings:  # fmt: skip
        """Return the settings, or say what is wrong with an argument; `actuators` is None of doors that take joint forces alone."""
        m = moving(m, "rollout")
        by, controls, actuators = controls_or_forces(m, "rollout", controls, tau, actuators)
        if actuators and callable(controls):
            controls, actuators = actuated(m, controls, "rollout", marked=False), False
        parameters = by_name("rollout: parameters", parameters, VALUES_BY_NAME)
        wrenches = by_name("rollout: wrenches", wrenches, WRENCHES_BY_NAME)
        changing = noise if isinstance(noise, Mapping) else {}
        for path in changing:
            _check_changing(m, path, parameters)
        m, axes = m.varying((*parameters, *changing), "rollout", tuple(wrenches), actuators), max(map(np.ndim, (q0, v0))) - 1
        inputs = [_wrenches(wrenches, axes)]
        if actuators:
            inputs.append(_actuator_controls(m, controls, axes))
            controls = None
        for given, timed in inputs:
            changing, parameters = {**(given if timed else {}), **changing}, {**({} if timed else given), **parameters}
        values = given_values(m, parameters, "rollout")
        for force in m.python_forces:
            raise ArgumentError(
                f"rollout: force '{force.name}' is marked ct.python, and machine code cannot call it; use ct.simulate, "
                "or give a function that can be traced, without the mark"
            )
        if integrator != "auto":
            integrator_of(integrator, m)
        if step is None or steps is None:
            raise ArgumentError(f"rollout: {'step' if step is None else 'steps'} is missing; give the size of a step [s] and their number")
        step_size = positive("step", step, "give a step size above 0, in seconds")
        steps, every = count("steps", steps), count("every", every)
        if steps % every:
            raise ArgumentError(f"every = {every} does not divide steps = {steps}; the last sample would be lost, give a divisor")
        start = number("start", start)
        check_step("step", step_size, start, start + steps * step_size)
        integrator = chosen_integrator(_stiffest(m, values), integrator, step_size, "rollout", controls)
        q, v = _array("q0", q0, m.nq, m), np.zeros(m.nv) if v0 is None else _array("v0", v0, m.nv, m)
        normalise(m, q, "q0")
        table, controller = _controls(m, controls, steps, axes, by)
        tables = {} if table is None else {"tau": table}
        if noise is not None and not isinstance(noise, Mapping):
            tables["noise"] = _rows("noise", _array("noise", noise, m.nv, m), 1, steps)
        told = {"tau": by, "noise": "noise"}  # what tables are called in messages
        for path, x in given_values(m, changing, "rollout: noise").items():
            name = path if path in (WRENCHES, CONTROLS) else f"noise '{path}'"
            tables[entry_of(path)], told[entry_of(path)] = _rows(name, x, len(m.parameters()[path].shape), steps), name
        stop, observe = (None if function is None else m.bound(function) for function in (stop, observe))
        _check_functions(m, stop, observe)
        shapes = {"q0": q.shape[:-1], "v0": v.shape[:-1], **{told[name]: x.shape[:-2] for name, x in tables.items()}}
        for path, value in values.items():
            name = path if path in (WRENCHES, CONTROLS) else f"parameters '{path}'"
            shapes[name] = value.shape[: value.ndim - len(m.parameters()[path].shape)]
        batch = leading_axes("", shapes, ArgumentError)
        q, v = (np.ascontiguousarray(np.broadcast_to(x, (*batch, x.shape[-1]))).reshape(-1, x.shape[-1]) for x in (q, v))
        flat = {}
        for path, value in values.items():
            size = m.parameters()[path].value.size
            shared = value.size == size
            flat[path] = (value if shared else np.broadcast_to(value, (*batch, *m.parameters()[path].shape))).reshape(-1, size)
        made = RolloutSettings(
            m, batch, q, v, v0 is None, _table(tables, batch), {name: x.shape[-1] for name, x in tables.items()}, controller, step_size,
            steps, every, start, integrator, method, flat, stop, observe,
        )  # fmt: skip
        if m.has_loops:
            made._check_loops()
        return made

    def _check_loops(self) -> None:
        """Refuse states that do not close the loops, or open them."""
        m, time = self.model, f", t={self.start:g}" if self.model.driven_names else ""
        numbers, given = f", parameters={{{', '.join(map(repr, m.varied))}: …}}" if m.varied else "", self.given()
        remedy = f"start from m.assemble(guess=q0{time}{numbers})"
        check_closed(m, self.start, self.q, self.batch, "rollout: q0", remedy, given)
        if not self.at_rest:
            check_velocities(m, self.start, self.q, self.v, self.batch, "rollout: v0", given)

    def given(self, at: Any = slice(None)) -> list[np.ndarray]:
        """Return the numbers that are varied, of some trajectories, (N or 1, ...); those that change from step to step as at the first."""
        known = self.model.parameters() if self.model.varied else {}
        held = self.parameters
        numbers = {path: held[path] if path in held else self.part_of_rows(entry_of(path))[:, 0] for path in self.model.varied}
        return [(x if len(x) == 1 else x[at]).reshape(-1, *known[path].shape) for path, x in numbers.items()]

    def part_of_rows(self, name: str) -> np.ndarray:
        """Return a part of the rows of the table, (N or 1, K, entries)."""
        return self.table[..., Layout((), self.row).at[name]]

    @property
    def times(self) -> np.ndarray:
        return self.start + np.arange(0, self.steps + 1, self.every) * self.step

    def part(self, at: slice) -> dict[str, Any]:
        """Return what the settings of some of the trajectories have else: their states, rows of the table, and numbers."""
        parameters = {path: x if len(x) == 1 else x[at] for path, x in self.parameters.items()}
        return {"q": self.q[at], "v": self.v[at], "table": self.table if len(self.table) == 1 else self.table[at], "parameters": parameters}

    def shaped(self, flat: Rollout) -> Rollout:
        """Return trajectories in one row with the leading axes of the arguments."""
        parts: list[Any] = [None if x is None else x.reshape((*self.batch, *x.shape[1:])) for x in flat.parts]
        return Rollout(flat.t, *parts)

    def run(self, threads: int, ended: np.ndarray | None = None) -> Rollout:
        """Return the trajectories, in one row; those that have `ended` stay where they are."""
        return self.run_with_plans(threads, ended)[0]

    def run_with_plans(self, threads: int, ended: np.ndarray | None = None, before: PlansUsed | None = None) -> tuple[Rollout, PlansUsed]:
        """Return the trajectories as `run` does, and the plans that they used; they go on with those that they used `before`."""
        work = _Work(self, threads)
        groups = work.begin(ended, before)
        while groups:
            plan = next(iter(groups))
            which = groups.pop(plan)
            if len(which):
                work.advance(plan, which)
                for other, at in work.regrouped(plan, which):
                    groups[other] = np.union1d(groups.get(other, at), at)
        steering = {name: work.part(name).copy() for name in ("limit", "look") if self.model.has_loops}
        return work.rollout(), PlansUsed(work.used, steering)


class PlanUse(NamedTuple):
    """A plan of the loops, or None for trees; which trajectories use it, and from which step on each, until it uses another."""

    plan: LoopPlan | None
    which: np.ndarray
    first: np.ndarray


class PlansUsed(NamedTuple):
    """The plans that trajectories used, one after the other; and the entries of their states that say how long the last ones serve."""

    uses: list[PlanUse]
    steering: dict[str, np.ndarray]


_Groups = dict[LoopPlan | None, np.ndarray]  # numbers of trajectories by the plan of their loops


class _Work:
    """The states of a rollout, advanced by machine code, and its samples.

    Trajectories go in groups, by the plan of their loops; those of trees are one. The generic plan is used where it serves, and pivots
    elsewhere: so the choice does not depend on other trajectories.
    """

    def __init__(self, given: RolloutSettings, threads: int) -> None:
        m, count = given.model, len(given.q)
        self.given, self.threads = given, threads
        controls, integrator = Controls(m, given.row, given.controller), integrator_of(given.integrator, m)
        self.system = System(m, integrator, given.method, controls, clock=Counted, stop=given.stop, observe=given.observe)
        self.layout = self.system.stepping.state
        self.state = np.zeros((count, self.layout.size))
        self.samples = np.empty((count, given.steps // given.every + 1, self.system.stepping.record.size))
        self.used: list[PlanUse] = []

    def part(self, name: str) -> np.ndarray:
        """Return a part of all states."""
        return self.state[:, self.layout.at[name]]

    def begin(self, ended: np.ndarray | None, before: PlansUsed | None) -> _Groups:
        """Put all trajectories at their start, and return the groups to advance, but for those that have ended."""
        q, v = self.given.q, self.given.v
        groups: _Groups = {None: np.arange(len(self.state))}
        if not self.given.model.has_loops:
            self.used.append(PlanUse(None, groups[None], np.zeros(len(self.state), dtype=int)))
        elif before is not None:
            groups = self._resumed(before)
        elif len(q):
            t = self._times()
            q, v, ranks, regular = settled(self.given.model, t, q, v, self.given.given())
            self.part("done")[~regular, 0] = NO_WAY_ON
            groups = self._assigned(np.flatnonzero(regular), ranks[regular], q, t)
        self.part("q")[:], self.part("v")[:] = q, v
        first = self._begun(q, v)

        def record(part: slice) -> None:  # by threads, for the system hands out memory where it is written first
            self.samples[part, 0] = first[part]

        share(record, _parts(len(first), -(-len(first) // self.threads)), self.threads)
        if ended is not None:
            self.part("done")[ended, 0] = STOPPED
        stopped = self.part("done")[:, 0] == STOPPED
        return {plan: which[~stopped[which]] for plan, which in groups.items()}

    def _resumed(self, before: PlansUsed) -> _Groups:
        """Let trajectories go on with the plans that they had, and return the groups; some are to look for another at once."""
        for name, entries in before.steering.items():
            self.part(name)[:] = entries
        last = np.full(len(self.state), -1)
        for k, use in enumerate(before.uses):
            last[use.which] = k
        self.part("done")[last < 0, 0] = NO_WAY_ON
        groups: _Groups = {}
        looking, t = self.part("look")[:, 0] <= 0.0, self._times()
        for k, use in enumerate(before.uses):
            on, anew = (np.flatnonzero((last == k) & chosen) for chosen in (~looking, looking))
            self.used.append(PlanUse(use.plan, on, np.zeros(len(on), dtype=int)))
            assert use.plan is not None
            for plan, at in ((use.plan, on), *self._assigned(anew, np.full(len(anew), use.plan.rank), self.given.q, t).items()):
                groups[plan] = np.union1d(groups.get(plan, at), at)
        return groups

    def _begun(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return what goes on record of the first states; those that meet the condition to stop are done."""
        given = self.given
        if given.stop is None and given.observe is None:
            return np.concatenate([q, v], axis=1)
        stops, observed = self.system.first()(given.start, q, v, given.table[:, 0], self._constants())
        self.part("done")[stops > 0.0, 0] = STOPPED
        return np.concatenate([q, v], axis=1) if given.observe is None else observed

    def regrouped(self, plan: LoopPlan | None, which: np.ndarray) -> Iterator[tuple[LoopPlan | None, np.ndarray]]:
        """Yield the groups in which those trajectories of a group go on whose plan fails, or that look for one again."""
        if plan is None:  # there are no loops
            return
        code = self.part("done")[which, 0]
        weak, looking = which[code >= WEAKENED], which[code == LOOKED]
        if plan.plan is not None and len(weak):
            yield self._use(weak, self.system.plans.pivoted(self.given.start, self.given.q[weak[0]], plan.rank))
        elif len(weak):
            codes = self.part("done")[weak, 0]
            self.part("done")[weak, 0] = np.where(codes == OPENED, OPENED, NO_WAY_ON)
        if len(looking):
            yield from self._assigned(looking, np.full(len(looking), plan.rank), self.part("q"), self._times()).items()

    def _assigned(self, which: np.ndarray, ranks: np.ndarray, q: np.ndarray, t: np.ndarray) -> _Groups:
        """Let trajectories with so many independent constraints use the plans of their states, and return these groups."""
        chosen = self.system.plans.of_states(ranks, t[which], q[which], self.given.given(which))
        return dict(self._use(which[at], selected) for selected, at in chosen)

    def _times(self) -> np.ndarray:
        """Return the times that trajectories have come to."""
        return self.given.start + self.part("count")[:, 0] * self.given.step

    def _use(self, at: np.ndarray, selected: Selected) -> tuple[LoopPlan, np.ndarray]:
        """Let trajectories go on with a plan, and return these as a group."""
        self.part("limit")[at, 0] = selected.limit
        self.part("look")[at, 0] = LOOK if selected.loop_plan.plan is None else np.inf
        self.part("done")[at, 0] = RUNNING
        self.used.append(PlanUse(selected.loop_plan, at, self.part("count")[at, 0].astype(int)))
        return selected.loop_plan, at

    def advance(self, plan: LoopPlan | None, which: np.ndarray) -> None:
        """Advance a group of trajectories with the same plan as far as that goes."""
        given = self.given
        if plan is not None:
            self.system.use(plan)
        iteration, table, constant = self.system.iteration(), given.table, self._constants()
        stop = stop_event()

        def advance(part: slice) -> None:
            at: Any = which[part]
            if at[-1] - at[0] == len(at) - 1:  # neighbours, which need not be copied
                at = slice(at[0], at[-1] + 1)
            rows = table if len(table) == 1 else table[at]
            state, samples = self.state[at], self.samples[at, 1:]
            iterations = max(1, _STEPS // len(state))
            while not stop.is_set() and (state[:, 0] == RUNNING).any():
                iteration.run(state, rows, constant if len(constant) == 1 else constant[at], samples, iterations)
            if not isinstance(at, slice):
                self.state[at], self.samples[at, 1:] = state, samples

        share(advance, thread_parts(len(which), given.steps, self.threads, iteration), self.threads, stop)

    def _constants(self) -> np.ndarray:
        """Return what is constant over the steps, (N or 1, entries)."""
        given, layout = self.given, self.system.stepping.constants
        since = given.steps // given.table.shape[1]
        constants = {"anchor": given.start, "step": given.step, "every": given.every, "steps": given.steps, "since": since}
        constants |= {entry_of(path): value[0] for path, value in given.parameters.items()}
        constant = layout.join(constants).astype(float)[None]
        own = {path: value for path, value in given.parameters.items() if len(value) > 1}
        if own:
            constant = np.tile(constant, (len(self.state), 1))
            for path, value in own.items():
                constant[:, layout.at[entry_of(path)]] = value
        return constant

    def rollout(self) -> Rollout:
        """Return the trajectories, with NaN from where they failed, and those that stopped staying there."""
        given, m = self.given, self.given.model
        codes, count, rows = (self.part(name)[:, 0].astype(int) for name in ("done", "count", "row"))
        stopped = np.where(codes == STOPPED, count, -1)
        failed = np.where((codes == FINISHED) | (codes == STOPPED), -1, count)
        for i in np.flatnonzero(failed >= 0):
            self.samples[i, failed[i] // given.every + 1 :] = np.nan
        for i in np.flatnonzero(stopped >= 0):
            self.samples[i, rows[i] + 1 :] = self.samples[i, rows[i]]
        reason = np.array([_REASONS[code] for code in codes], dtype=f"<U{max(map(len, _REASONS.values()))}")
        if given.observe is None:
            return Rollout(given.times, self.samples[..., : m.nq], self.samples[..., m.nq :], failed, reason, stopped)
        q, v = (np.where(failed[:, None] >= 0, np.nan, self.part(name))[:, None] for name in ("q", "v"))
        shape = self.system.observed_shape
        return Rollout(given.times, q, v, failed, reason, stopped, self.samples.reshape((*self.samples.shape[:2], *shape)))


def thread_parts(count: int, steps: int, threads: int, iteration: Iteration) -> list[slice]:
    """Return the trajectories in parts for threads: whole groups of lanes, several parts a thread where there are enough."""
    if threads == 1 or count * steps < _LEAST:
        size = count
    elif count <= threads * iteration.together:
        size = _raised(-(-count // threads), iteration.lanes)
    else:
        size = _raised(-(-count // (4 * threads)), iteration.together)
    return _parts(count, size)


def _parts(count: int, size: int) -> list[slice]:
    """Return so many trajectories in parts of a size; the last one may be smaller."""
    return [slice(i, min(i + size, count)) for i in range(0, count, max(size, 1))]


def _raised(number: int, factor: int) -> int:
    return -(-number // factor) * factor


def thread_count(threads: int | None) -> int:
    """Return how many threads to use: so many, or as many as `ct.threads` says."""
    return set_thread_count() if threads is None else count("threads", threads)


def _stiffest(m: Mechanism, values: Mapping[str, np.ndarray]) -> Mechanism:
    """Return the mechanism with the largest of the springs, dampers and friction that trajectories have, and the smallest of the masses."""
    chosen = {}
    for path, value in values.items():
        if not value.size:  # of no trajectories
            continue
        kind, shape = path.rpartition(".")[2], m.parameters()[path].shape
        least = kind in ("mass", "armature", "slip_speed")
        if least or kind in {*OPTIONS, *SPRING_NUMBERS, *BUSHING_NUMBERS, "dissipation", "stiction"} - {"length"}:
            axes = tuple(range(value.ndim - len(shape)))
            chosen[path] = value.min(axis=axes) if least else value.max(axis=axes)
    return m.with_values(chosen) if chosen else m


def chosen_integrator(m: Mechanism, name: str, step: float, what: str, controller: Function | None = None) -> str:
    """Return the integrator by its name; "auto" goes by the model and the step, and so does not depend on other trajectories."""
    if name != "auto" and integrator_of(name, m).stable:
        return name
    servos = acting(m, controller)
    stiffest = fastest_of_model(m, None if servos is None else servos.actuation)
    explicit = stiffest is None or stiffest.rate * step <= STABLE
    if name == "auto":
        return "rk4" if explicit and not m.contacts else "rang-angermann"
    if stiffest is None or explicit:
        return name
    warn_of(stiffest, f"{what} '{m.name}'", name, step)
    return name


def controls_or_forces(m: Mechanism, what: str, controls: Any, tau: Any, actuators: Any) -> tuple[str, Any, bool]:
    """Return the argument that has joint forces or controls, its value, and whether these are controls of actuators.

    Refuse controls of a model with actuators that may be either; `actuators` is None where a door takes joint forces alone.
    """
    theirs = actuators is not None and flag(f"{what}: actuators", actuators, "give True, and the controls as controls=")
    if tau is not None and (controls is not None or theirs):
        other = "controls" if controls is not None else "actuators=True"
        raise ArgumentError(f"{what}: both tau and {other} are given; give joint forces as tau=, or controls of m.actuators, alone")
    if m.actuators and controls is not None and not theirs:
        also = "" if actuators is None else ", or add actuators=True for controls of these, as ct.simulate takes them"
        raise ArgumentError(f"{what}: model '{m.name}' has actuators, and controls may be theirs; give joint forces as tau={also}")
    return ("controls", controls, theirs) if tau is None else ("tau", tau, False)


def _controls(m: Mechanism, controls: Any, steps: int, axes: int, by: str) -> tuple[np.ndarray | None, Function | None]:
    """Return the table of joint forces (..., K, nv), or the controller; `by` is the argument that has them."""
    if controls is None:
        return None, None
    if callable(controls):
        if Input(m, None, controls).in_python:
            raise ArgumentError("rollout: the controller is marked ct.python, and machine code cannot call it; use ct.simulate")
        controls = m.bound(controls)
        controller_role(m, marked=False).graph(controls)
        return None, controls
    table = _array(by, controls, m.nv, m)
    if table.ndim - 1 <= axes:
        return table[..., None, :], None
    return _rows(by, table, 1, steps, f", or constant {by} with as many leading axes as q0"), None


def _actuator_controls(m: Mechanism, controls: Any, axes: int) -> tuple[dict[str, np.ndarray], bool]:
    """Return controls as a parameter, (..., actuators) or over time (..., K, actuators), and whether they are over time."""
    size = len(m.actuators)
    given = np.zeros(size) if controls is None else floats("controls", controls, f"give (..., {size}), one for each of m.actuators")
    if given.ndim == 0 or given.shape[-1] != size:
        raise ArgumentError(f"controls have shape {given.shape}; model '{m.name}' has {size} actuators, and takes (..., {size})")
    return {CONTROLS: given}, given.ndim - 1 > axes


def _wrenches(wrenches: Mapping[str, Any], axes: int) -> tuple[dict[str, np.ndarray], bool]:
    """Return wrenches on bodies as one parameter, (..., bodies, 6) or over time (..., K, bodies, 6), and whether it is over time."""
    given = [floats(f"rollout: wrenches['{body}']", x, "give (..., 6)") for body, x in wrenches.items()]
    for body, x in zip(wrenches, given, strict=True):
        if x.ndim == 0 or x.shape[-1] != 6:
            raise ArgumentError(f"rollout: wrenches['{body}'] has shape {x.shape}; give a moment and a force, (..., 6)")
    timed = any(x.ndim - 1 > axes for x in given)
    given = [x[..., None, :] if timed and x.ndim - 1 <= axes else x for x in given]
    return ({WRENCHES: np.stack(np.broadcast_arrays(*given), axis=-2)} if given else {}), timed


def _rows(name: str, table: np.ndarray, axes: int, steps: int, remedy: str = "") -> np.ndarray:
    """Return a table (..., K, entries) of rows over time, of numbers that have so many axes; or say why it is none."""
    rows = table.shape[-axes - 1] if table.ndim > axes else 0
    if not rows or steps % rows:
        raise ArgumentError(
            f"{name} of shape {table.shape} have {rows} rows over time, which do not divide {steps} steps; "
            f"give a number of rows that does{remedy}"
        )
    return table.reshape((*table.shape[: table.ndim - axes], math.prod(table.shape[table.ndim - axes :])))


def _table(tables: Mapping[str, np.ndarray], batch: tuple[int, ...]) -> np.ndarray:
    """Return several tables (..., K, entries) as one, (N or 1, K, entries), with as many rows as all of them can be held over."""
    rows = math.lcm(*(x.shape[-2] for x in tables.values()))
    shared = all(x.size == x.shape[-2] * x.shape[-1] for x in tables.values())
    axes = () if shared else batch
    whole = [np.zeros((*axes, rows, 0))]
    for x in tables.values():
        held = np.repeat(x.reshape(x.shape[-2:]) if shared else x, rows // x.shape[-2], axis=-2)
        whole.append(np.broadcast_to(held, (*axes, *held.shape[-2:])))
    joined = np.concatenate(whole, axis=-1)
    return joined.reshape(math.prod(axes), rows, joined.shape[-1])


def _check_changing(m: Mechanism, path: str, parameters: Mapping[str, Any]) -> None:
    """Refuse a number that must not change while a mechanism moves, such as a length of it."""
    if path in parameters:
        raise ArgumentError(f"rollout: '{path}' is given in parameters and in noise; leave one of them out")
    check_paths(m, (path,), "rollout: noise")
    kind, own = path.rpartition(".")[2], m.parts.own
    moved = [name for name, x in ties(m).items() if path in names(x)]
    if not (path in (*own, "gravity", "friction_speed") or kind in OPTIONS) or moved:
        why = f"'{moved[0]}' follows it" if moved else "it is part of the bodies or of where they are"
        raise ArgumentError(
            f"rollout: noise '{path}' cannot change while the model moves: {why}; "
            "give numbers of forces, gravity, or parameters that only functions of forces and controllers use"
        )


def _check_functions(m: Mechanism, stop: Any, observe: Any) -> None:
    """Refuse functions that cannot be traced, or return something else."""
    state = {"t": None, "q": m.nq, "v": m.nv}
    if observe is not None:
        Role("observe", state, "an array of numbers", None, marked=False).graph(observe)
    if stop is not None:
        Role("stop", state, "a condition, such as q[0] > 1.0", CONDITION, marked=False).graph(stop)


def _array(name: str, value: Any, size: int, m: Mechanism) -> np.ndarray:
    array = floats(name, value, f"give an array (..., {size})")
    if array.ndim == 0 or array.shape[-1] != size:
        raise ArgumentError(f"{name} has shape {array.shape}; model '{m.name}' takes (..., {size})")
    finite = np.isfinite(array)
    if not finite.all():
        at = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise ArgumentError(f"{name}{list(at)} = {array[at]} is not finite; give finite numbers")
    return array
