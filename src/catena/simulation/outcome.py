"""What becomes of a run: how it goes on after an event, its trajectory, or what went wrong."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from catena.errors import SimulationError, StiffnessWarning
from catena.simulation.events import Crossing, reaction, undefined
from catena.simulation.run import Run
from catena.simulation.stepping import EVENT, FINISHED, NOT_FINITE, NOT_SOLVED, OPENED, RUNNING, STOPPED, TOO_SMALL, UNDEFINED
from catena.simulation.trajectory import DISSIPATING, Trajectory
from catena.tolerances import SINGULAR

#: Runs warn of energy that stops and contacts give from this part on of what there was above the lowest position.
_GAIN = 0.01


def react(run: Run) -> int:
    """Return how a run goes on after a step in which event functions changed their signs."""
    start, a, g = run.before()
    outcome = reaction(run.settings.events, run, Crossing(start, a, g, run.time, run.get("g")), run.occurrences)
    run.occurrences += outcome.occurrences
    if outcome.state is None:
        return FINISHED if run.time >= run.settings.until else RUNNING
    if outcome.stops:
        run.set(**outcome.state._asdict())
        return STOPPED
    run.restart(*outcome.state)
    for i, sign in outcome.signs.items():
        run.state[0, run.at["g"].start + i] = sign
    return RUNNING if outcome.state.t < run.settings.until else FINISHED


def trajectory(run: Run, stopped: str, seconds: float) -> Trajectory:
    """Return what has been recorded, and the state now."""
    t, q, v = run.here
    if int(run.state[0, 0]) == EVENT:  # interrupted before it was clear what happens in the last step
        (t, q, v), _, _ = run.before()
    a, tau, _ = run.evaluate(t, q, v)
    if run.plans and not run.conditioning(t, q) > SINGULAR:
        a = np.full_like(a, np.nan)  # it could go on in several ways
    rows = np.concatenate([*run.samples, np.concatenate([[t], q, v, a, tau])[None]])
    rows = rows[rows[:, 0] > np.concatenate([[-np.inf], np.maximum.accumulate(rows[:-1, 0])])]
    info = {
        "integrator": run.settings.integrator.name, "method": run.system.method, "steps": int(run.number("steps")),
        "rejected": int(run.number("rejected")), "seconds": seconds, "stopped": stopped,
    }  # fmt: skip
    if run.settings.why:
        info["why"] = run.settings.why
    if run.model.has_loops:
        info["switches"] = len(run.plans) - 1
    layout = run.system.stepping.record.at
    parts = [rows[:, layout[name]] for name in ("t", "q", "v", "a", "tau")]
    if run.settings.times is not None:
        times = run.settings.times[run.settings.times <= rows[-1, 0]]
        if not len(times):
            times = rows[-1:, 0]  # it stopped before the first: the state that it came to
        if not run.settings.in_python:
            parts = _at(run, times, *parts)
        else:
            whole = Trajectory(run.model, parts[0][:, 0], *parts[1:], info=info, events=tuple(run.occurrences))
            return whole if len(whole) == 1 else whole.at(times)
    return Trajectory(run.model, parts[0].reshape(-1), *parts[1:], info=info, events=tuple(run.occurrences))


def warn_of_gain(run: Run, motion: Trajectory) -> None:
    """Warn of a run of fixed steps that gained energy from stops and contacts, where nothing else could give any."""
    if run.settings.adaptive or not (run.model.contacts or "stops" in run.model.changes_energy):
        return
    if not set(motion.energy_causes) <= set(DISSIPATING):
        return
    total = motion.total_energy
    gain, scale = total - np.minimum.accumulate(total), total[0] - motion.energy[1].min()
    at = int(np.argmax(gain > _GAIN * scale))
    if gain[at] > _GAIN * scale:
        warnings.warn(
            f"simulate '{run.model.name}': the energy rises by {gain.max() / scale:.0%} of what there was, first at t = "
            f"{motion.t[at]:.4g} s, and only stops and contacts act: steps of {run.settings.step:.2g} s are too long for them; take a "
            "smaller step, or none for adaptive ones",
            StiffnessWarning,
            stacklevel=3,
        )


def _at(run: Run, times: np.ndarray, t: np.ndarray, q: np.ndarray, v: np.ndarray, a: np.ndarray, tau: np.ndarray) -> list[np.ndarray]:
    """Return the samples at other times: by steps of the integrator from the samples before them."""
    k = np.searchsorted(t[:, 0], times, side="right") - 1
    parts = [times, *(part[k] for part in (q, v, a, tau))]
    between = times > t[k, 0]
    singular = np.zeros(len(times), dtype=bool)
    for since, until in _stretches(run):
        here = np.flatnonzero(between & (t[k, 0] >= since) & (t[k, 0] < until))
        if len(here):
            at, i = times[here], k[here]
            q_at, v_at, *held = run.stepped(t[i, 0], q[i], v[i], a[i], at - t[i, 0])
            singular[here] = ~(held[0] > SINGULAR) if held else False
            for part, values in zip(parts[1:], (q_at, v_at, *run.evaluate(at, q_at, v_at)[:2]), strict=True):
                part[here] = values
    if singular.any():  # no plan serves these
        across = Trajectory(run.model, t[:, 0], q, v, a, tau, events=tuple(run.occurrences)).at(times[singular])
        for part, values in zip(parts[1:], (across.q, across.v, across.vdot, across.tau), strict=True):
            part[singular] = values
    return parts


def _stretches(run: Run) -> Iterator[tuple[float, float]]:
    """Yield the spans of time over which a plan of the loops was in use, with it in use."""
    if not run.plans:
        yield -np.inf, np.inf
        return
    for used, until in zip(run.plans, [*(later.t for later in run.plans[1:]), np.inf], strict=True):
        run.system.use(used.selected.loop_plan)
        yield used.t, until


def trouble(run: Run, code: int) -> SimulationError:
    """Return the error of a run that cannot go on; it carries the trajectory up to the last good state."""
    (t, q, v), h, names = run.here, run.number("h"), run.model.v_names
    if code == UNDEFINED:
        end, error = undefined(run.settings.events, run, run.here, h)
        run.set(**end._asdict())
        return error
    if code == TOO_SMALL and run.plans and run.number("limit") <= SINGULAR:
        return run.singular()
    if code == TOO_SMALL:
        h = 10.0 * h  # the step that was refused
    with np.errstate(all="ignore"):
        a = run.evaluate(t, q, v)[0]
        q_next, v_next, *_ = run.stepped(t, q, v, a, h)
        ahead = run.evaluate(t + h, run.model.chart(q, h * run.model.chart_rate(q, 0.0 * v, v)), v)[0]
    worst = names[int(np.argmax(np.abs(a)))]
    if code == NOT_FINITE or not np.isfinite([*a, *ahead, *q_next, *v_next]).all():
        # where it comes from: an acceleration here or a step ahead, else what the step leads to
        cause = next((x for x in (a, ahead, v_next) if not np.isfinite(x).all()), v_next)
        bad = names[int(np.argmax(np.where(np.isfinite(cause), np.abs(cause), np.inf)))]
        remedy = "look at the forces there" if run.settings.adaptive else "use a smaller step, or no step= for adaptive ones"
        text = f"the state is not finite after t = {t:.9g} s, first the velocity of '{bad}'; {remedy}"
    elif code == TOO_SMALL:
        text = (
            f"the step size fell to {0.1 * h:.3g} s at t = {t:.9g} s, where '{worst}' has the largest acceleration, "
            f"{np.abs(a).max():.3g}; the motion is not smooth there, or rtol and atol are too small"
        )
    elif code == OPENED:
        text = (
            f"the step after t = {t:.9g} s leads so far from the loops that they do not close again; use a smaller step, or no step= for "
            "adaptive ones"
        )
    else:
        assert code == NOT_SOLVED
        text = (
            f"the equations of the implicit step at t = {t:.9g} s were not solved; '{worst}' has the largest acceleration, "
            f"{np.abs(a).max():.3g}; use a smaller step"
        )
    return SimulationError(f"simulate '{run.model.name}': {text}")
