"""Runs by SciPy's integrators, on the same right-hand side."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from scipy import integrate as scipy_integrate

from catena.errors import ArgumentError, MethodError, SimulationError
from catena.model.coordinates import PositionChart
from catena.scalars.dual import moving, part
from catena.simulation.approach import passed
from catena.simulation.interrupts import noted_interrupts
from catena.simulation.progress import progress
from catena.simulation.run import EXPLICIT_OF_SCIPY, Run
from catena.simulation.trajectory import Trajectory

_IMPLICIT = ("Radau", "BDF", "LSODA")
_METHODS = (*EXPLICIT_OF_SCIPY, *_IMPLICIT)

#: By how much a step may be longer than the last.
_GROWTH = 10.0


class _NotFinite(Exception):
    """The right-hand side is not finite."""


def _jacobian(run: Run, t: float, q: np.ndarray, v: np.ndarray, row: np.ndarray | None = None) -> np.ndarray:
    """Return the derivatives of the rates of (q, v) by q and v; lengths of quaternions do not change, and do not count."""
    m, chart = run.model, PositionChart.of(run.model)
    near = run.flow(t, row).linearised(t, q, v, run.evaluate(t, q, v, row)[0])
    along = np.eye(m.nq) if chart is None else np.stack([chart.velocity(q, unit) for unit in np.eye(m.nq)], axis=1)
    turned = [i for link, at, _ in m.slices() if link.joint.nq != link.joint.nv for i in range(at.start, at.stop)]
    by_q = np.zeros((m.nq, m.nq))
    for i in turned:
        by_q[:, i] = part(m.rate(moving(q, np.eye(m.nq)[i]), v), "derivative")
    by_v = m.rate(np.tile(q, (m.nv, 1)), np.eye(m.nv)).T
    slopes = -np.linalg.solve(near.inertia, np.concatenate([near.stiffness @ along, near.damping], axis=1))
    return np.concatenate([np.concatenate([by_q, by_v], axis=1), slopes])


def integrate(run: Run, show: bool | None = None) -> Trajectory:
    """Return the trajectory of a run by an integrator of SciPy.

    SciPy knows no manifolds: quaternions are integrated as four numbers, and brought to unit length where they are used.
    """
    given = run.settings
    if given.scipy_method not in _METHODS:
        raise MethodError(f"integrator 'scipy:{given.scipy_method}' is unknown; choose scipy: with {', '.join(_METHODS)}")
    if given.events or given.step is not None:
        raise ArgumentError("SciPy's integrators take neither step= nor events here; use one of catena's integrators for these")
    began = time.perf_counter()
    run.begin()
    m, nq = run.model, run.model.nq

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        q = m.normalised(y[:nq])
        result = np.concatenate([m.rate(q, y[nq:]), run.evaluate(t, q, y[nq:], row)[0]])
        if not np.isfinite(result).all():  # SciPy would search for a step without end
            names = (*m.q_names, *m.v_names)
            raise _NotFinite(f"the rate of '{names[int(np.argmin(np.isfinite(result)))]}' is not finite at t = {t:.9g} s")
        return result

    options: dict[str, Any] = {"rtol": max(given.rtol, 1e-13), "atol": given.atol, "max_step": given.largest}
    if given.scipy_method in _IMPLICIT:
        options["jac"] = lambda t, y: _jacobian(run, t, m.normalised(y[:nq]), y[nq:], row)

    def begun(t: float, y: np.ndarray, end: float, first: float | None = None) -> Any:
        evaluations.append(0 if not evaluations else int(solver.nfev))
        return getattr(scipy_integrate, given.scipy_method)(slope, t, y, end, first_step=first, **options)

    def approach(t: float, y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        return run.approach(t, m.normalised(y[:nq]), y[nq:])

    evaluations: list[int] = []
    here, y_here = given.start, np.concatenate([given.q0, given.v0])
    row, switch = run.row_at(here)
    time_left, *gaps = approach(here, y_here)
    solver = begun(here, y_here, min(given.until, switch, here + time_left))
    wanted = [given.start] if given.times is None else list(given.times[given.times <= given.start])
    t, y = [wanted], [np.tile(y_here, (len(wanted), 1))]
    stopped, trouble, steps = "end", "", 0
    with noted_interrupts() as interrupted, progress(m.name, given.start, given.until, show) as report, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is in the message of the solver
        try:
            while here < given.until:
                with np.errstate(all="ignore"):
                    message = solver.step()
                if solver.status == "failed":
                    trouble = f"SciPy's {given.scipy_method} stopped at t = {solver.t:.9g} s: {message}"
                    break
                h = solver.t - here
                time_left, *later = approach(solver.t, solver.y)
                if len(gaps[0]) and passed(h, run.near, *gaps, *later):
                    solver = begun(here, y_here, here + 0.5 * h, 0.5 * h)
                    continue
                here, y_here, gaps, steps = float(solver.t), solver.y.copy(), later, steps + 1
                if given.times is None:
                    t.append([here])
                    y.append(y_here[None])
                else:
                    between = given.times[(given.times > solver.t_old) & (given.times <= here)]
                    if len(between):
                        t.append(list(between))
                        y.append(solver.dense_output()(between).T)
                report(here, steps)
                if interrupted():
                    stopped = "interrupted"
                    break
                if here >= switch:
                    run.set(t=here)
                    run.know_rows(1)
                    row, switch = run.row_at(here)
                end = min(given.until, switch, here + time_left)
                if solver.status == "finished" or end < min(solver.t_bound, here + _GROWTH * h):
                    solver = begun(here, y_here, end, min(h, end - here)) if here < given.until else solver
        except KeyboardInterrupt:
            stopped = "interrupted"
        except _NotFinite as error:
            trouble = str(error)
    times, states = np.concatenate(t), np.concatenate(y)
    if not len(times):  # it stopped before the first time that was wanted
        times, states = np.array([here]), y_here[None]
    q, v = m.normalised(states[:, :nq]), states[:, nq:]
    a, tau = (np.array(part) for part in zip(*(run.evaluate(*state)[:2] for state in zip(times, q, v, strict=True)), strict=True))
    info = {
        "integrator": f"scipy:{given.scipy_method}", "method": run.system.method, "steps": steps,
        "evaluations": sum(evaluations) + int(solver.nfev), "seconds": time.perf_counter() - began,
        "stopped": "error" if trouble else stopped,
    }  # fmt: skip
    trajectory = Trajectory(m, times, q, v, a, tau, info=info)
    if trouble:
        error = SimulationError(f"simulate '{m.name}': {trouble}; the motion up to there is in error.trajectory")
        error.trajectory = trajectory
        raise error
    return trajectory
