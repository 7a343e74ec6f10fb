"""Mechanisms of `families`, three states each on branches that random starts lead to, all kernels and methods against `loop_referee`.

A failure prints a script that reproduces it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from tests.explorations.report import Report, near, warned
from tests.families import Sample, is_special, mechanism, name_of
from tests.loop_referee import Configuration, LoopReferee, closure, rate_of_momentum
from tests.mechanisms import closing_methods

import catena as ct

#: Results agree to this, relative to their size, and to the conditioning of what is asked where that is worse than the second.
AGREES, CONDITION = 1e-8, 1e-15

#: States of a mechanism, and starts that are tried to find them.
STATES, STARTS = 3, 12


class State(NamedTuple):
    """A state that closes the loops, joint forces, and what the referee says of its configuration."""

    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray
    at: Configuration

    @property
    def certain(self) -> bool:
        """Whether the referee is sure that the state is regular."""
        return self.at.clear and self.at.regular is True

    @property
    def scale(self) -> float:
        """A thousandth of the accelerations without loops: where these hold a joint, rounding is measured by it."""
        return 1e-3 * float(np.abs(np.linalg.solve(self.at.mass, self.at.force(self.v, self.tau))).max(initial=0.0))

    def tolerance(self) -> float:
        """The part of their size to which results are determined."""
        return max(AGREES, CONDITION * self.at.conditioning**2 * self.at.mass_conditioning)


# states


def states(sample: Sample, rng: np.random.Generator, report: Report) -> list[State]:
    """States on branches that random and special starts lead to, each apart from the others."""
    m, found = sample.model, []
    referee = LoopReferee(m, sample.size)
    reach = referee.reach
    for n in range(STARTS):
        if len(found) == STATES:
            break
        try:
            q = _started(m, sample, rng, n)
        except ct.ModelError:
            report.counts["starts that lead nowhere"] += 1
            continue
        if any(np.abs(_difference(m, q, other.q) / reach).max() < 1e-3 for other in found):
            continue
        residual = np.abs(closure(referee, q)[0]).max(initial=0.0)
        if not residual < 1e-9:
            report.fail("assemble", f"leaves the loops open by {residual:.1e}", script(m, q))
            continue
        at = referee.at(q)
        v = at.velocity(rng.normal(size=m.nv) * reach)
        if not at.clear:  # and what counts as a motion depends on a threshold
            v = m.project_velocity(q, v)
        found.append(State(q, v, rng.normal(size=m.nv) / reach, at))
    return found


def _difference(m: ct.Model, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
    return np.concatenate([link.joint.difference(q0[a], q1[a]) for link, a, _ in m.slices()]) if m.nv else np.zeros(0)


def _started(m: ct.Model, sample: Sample, rng: np.random.Generator, number: int) -> np.ndarray:
    """Return a configuration: the default one, or from a start where angles are special, all the same, or random."""
    if number == 0:
        return m.assemble()
    angles = np.array([unit == "rad" and "." not in name for name, unit in zip(m.q_names, m.q_units, strict=True)])
    guess = m.random(rng)
    if sample.size != 1.0:
        guess = np.where(np.array(m.q_units) == "m", guess * sample.size, guess)
    if sample.angles and number % 3:
        special = rng.choice(sample.angles, size=m.nq)
        if number % 3 == 1:
            special = special + rng.normal(scale=0.2, size=m.nq)
        guess = np.where(angles, special, guess)
    return m.assemble(guess=guess)


# checks: each compares one kind of kernel with the referee


def compare(
    report: Report, what: str, state: State, found: Any, expect: Callable[[], Any], singular: list[str], m: ct.Model
) -> None:
    """Compare a result with the referee's, at a state, both without units."""
    report.counts[what] += 1
    if not state.certain:
        report.counts[f"{what}, at states that are singular or not clear"] += 1
        if not singular and state.at.clear and state.at.regular is False and not np.isfinite(found).all():
            report.fail(what, "is not finite at a singular state, without a warning", script(m, state.q, state.v, state.tau))
        return
    expected = expect()
    text = script(m, state.q, state.v, state.tau, expected)
    if singular:
        report.fail(what, f"warns at a regular state: {singular[0]}", text)
    elif not near(found, expected, state.scale) <= state.tolerance():
        report.fail(what, f"differs by {near(found, expected, state.scale):.1e} (tolerance {state.tolerance():.1e})", text)


def check_mobility(m: ct.Model, some: list[State], report: Report) -> None:
    for state in some:
        if state.at.clear:
            found = m.mobility(state.q)
            report.counts["mobility"] += 1
            if found.freedom != state.at.freedom:
                report.fail("mobility", f"has {found.freedom} degrees of freedom, not {state.at.freedom}", script(m, state.q))
            if state.at.regular is not None and found.singular == state.at.regular:
                report.fail("mobility", f"singular is {found.singular}, and regular {state.at.regular}", script(m, state.q))
    found = m.mobility()
    at = some[0].at.referee.at(found.q)
    if at.clear and found.freedom != at.freedom:
        report.fail("mobility", f"has {found.freedom} degrees of freedom, not {at.freedom}, where it says", script(m, found.q))


def check_forward(m: ct.Model, some: list[State], report: Report, method: str = "auto") -> None:
    fd = ct.forward_dynamics(m, method)
    q, v, tau = (np.array([getattr(s, x) for s in some]) for x in ("q", "v", "tau"))
    with warned() as singular:
        batch = fd(q, v, tau)
    what = f"forward dynamics, {method}"
    for i, state in enumerate(some):
        own = [text for text in singular if f"state ({i},)" in text]
        reach = state.at.referee.reach
        expect = partial(state.at.accelerations, state.v, state.tau)
        compare(report, what, state, batch[i] / reach, lambda expect=expect, reach=reach: expect() / reach, own, m)
    report.counts["states off the plan"] += int(np.count_nonzero(~np.asarray(fd.fits(q, v, tau)))) if hasattr(fd, "fits") else 0


def check_methods(m: ct.Model, some: list[State], report: Report) -> None:
    """Two of the methods that close loops."""
    methods = closing_methods(m)
    for method in np.random.default_rng(report.seed).choice(methods, min(2, len(methods)), replace=False):
        check_forward(m, some, report, str(method))


def check_inverse(m: ct.Model, some: list[State], report: Report) -> None:
    at = some[0].at
    rng = np.random.default_rng(report.seed)
    names = m.mobility(some[0].q).independent
    extra = [str(x) for x in rng.choice(m.v_names, rng.integers(0, 2), replace=False)]
    actuated = list(dict.fromkeys([*names, *extra]))
    try:
        kernel = ct.inverse_dynamics(m, actuated=actuated, at=some[0].q)
    except ct.ModelError as error:
        if some[0].certain and at.freedom:
            report.fail("inverse dynamics", f"refuses motors that hold the mechanism: {error}", script(m, some[0].q))
        return
    on = np.array([name in actuated for name in m.v_names])
    for state in some:
        if not state.certain:
            continue
        referee, reach = state.at.referee, state.at.referee.reach
        x, _ = state.at.particular(state.v)
        vdot = reach * (x + state.at.basis @ np.random.default_rng(0).normal(size=state.at.freedom))
        with warned() as singular:
            tau = kernel(state.q, state.v, vdot)
        report.counts["inverse dynamics"] += 1
        N = state.at.basis
        s = np.linalg.svd((N * on[:, None]), compute_uv=False)
        held = len(s) == 0 or s.min() > 1e-3
        if not held:
            continue
        full = reach * referee.inverse(state.q, state.v, vdot)
        expected = np.zeros(m.nv)
        # least norm, without units as catena measures them: compare work on every motion, and the norm
        if singular or not np.isfinite(tau).all():
            report.fail("inverse dynamics", f"warns or is not finite at a regular state: {singular}", script(m, state.q, state.v, vdot))
            continue
        lost = near(N.T @ (reach * tau), N.T @ full, scale=np.abs(full).max())
        expected = np.linalg.lstsq((N[on]).T, N.T @ full, rcond=None)[0]
        if lost > state.tolerance() / min(s.min(initial=1.0), 1.0) ** 2 or np.abs(tau[~on]).max(initial=0.0) > 0.0:
            report.fail("inverse dynamics", f"differs by {lost:.1e}, {actuated}", script(m, state.q, state.v, vdot))
        elif len(actuated) == state.at.freedom and near((reach * tau)[on], expected, np.abs(full).max()) > 1e3 * state.tolerance():
            report.fail("inverse dynamics", f"is not that of the referee, {actuated}", script(m, state.q, state.v, vdot))


def check_reduced(m: ct.Model, some: list[State], report: Report) -> None:
    if not some[0].certain or not some[0].at.freedom:
        return
    try:
        r = ct.reduced(m, at=some[0].q)
    except ct.ModelError as error:
        report.fail("reduced", f"refused: {error}", script(m, some[0].q))
        return
    own = [m.v_names.index(name) for name in r.names]
    for state in some:
        referee, reach, N = state.at.referee, state.at.referee.reach, state.at.basis
        s = np.linalg.svd(N[own], compute_uv=False)
        if not state.certain or state.at.freedom != len(own) or s.min(initial=1.0) < 1e-2:
            continue
        report.counts["reduced"] += 1
        basis = (reach[:, None] * N) @ np.linalg.inv(N[own] * reach[own][:, None])
        mass = basis.T @ referee.mass_matrix(state.q) @ basis
        rate = np.random.default_rng(1).normal(size=len(own)) * reach[own]
        x, _ = state.at.particular(state.v)
        vdot = reach * x + basis @ (rate - (reach * x)[own])
        with warned() as singular:
            found = {
                "rates": (r.rates(state.q, rate), basis @ rate), "basis": (r.basis(state.q), basis), "mass": (r.mass_matrix(state.q), mass),
                "accelerations": (r.accelerations(state.q, state.v, rate), vdot),
                "bias": (r.bias_force(state.q, state.v), basis.T @ referee.inverse(state.q, state.v, vdot) - mass @ rate),
            }  # fmt: skip
        if singular:
            report.fail("reduced", f"warns at a regular state: {singular[0]}", script(m, state.q, state.v))
        tolerance = 100.0 * state.tolerance() / s.min() ** 2
        full = np.abs(basis).max() * np.abs(referee.inverse(state.q, state.v, vdot)).max() + np.abs(mass @ rate).max()
        for name, (a, b) in found.items():
            if near(a, b, full if name == "bias" else 0.0) > tolerance:
                report.fail("reduced", f"{name} differs by {near(a, b):.1e}", script(m, state.q, state.v))


def check_hamiltonian(m: ct.Model, some: list[State], report: Report) -> None:
    kernel, velocities = ct.hamiltonian_dynamics(m), ct.velocities(m)
    for state in some:
        referee, reach, N = state.at.referee, state.at.referee.reach, state.at.basis
        p = referee.mass_matrix(state.q) @ state.v
        with warned() as singular:
            v, pdot = kernel(state.q, p, state.tau)
            again = velocities(state.q, p)
        compare(report, "velocities", state, again / reach, partial(np.divide, state.v, reach), singular, m)
        compare(report, "hamiltonian dynamics", state, v / reach, partial(np.divide, state.v, reach), singular, m)
        if state.certain and state.at.freedom:
            a = state.at.accelerations(state.v, state.tau)
            expected = N.T @ (reach * rate_of_momentum(referee, state.q, state.v, a))
            scale = np.abs(reach * pdot).max(initial=0.0) + np.abs(state.at.mass @ (a / reach)).max(initial=0.0)
            if near(N.T @ (reach * pdot), expected, scale) > max(1e-7, state.tolerance()):
                report.fail("hamiltonian dynamics", f"pdot differs by {near(N.T @ (reach * pdot), expected, scale):.1e}",
                            script(m, state.q, p, state.tau))  # fmt: skip


def check_wrenches(m: ct.Model, some: list[State], report: Report) -> None:
    for state in some[:2]:
        kernel = ct.joint_wrenches(m, at=state.q, axes="joint")
        with warned() as singular:
            found = kernel(state.q, state.v, state.tau)
        report.counts["joint wrenches"] += 1
        if not state.certain:
            continue
        if singular:
            report.fail("joint wrenches", f"warns at a regular state: {singular[0]}", script(m, state.q, state.v, state.tau))
            continue
        expected, unique = state.at.reactions(state.v, state.tau)
        scale = np.abs(expected).max()
        wrong = kernel.unique & unique & (np.abs(found - expected) > 1e3 * state.tolerance() * scale)
        if wrong.any():
            report.fail("joint wrenches", f"differ by {np.abs(found - expected)[wrong].max() / scale:.1e}",
                        script(m, state.q, state.v, state.tau))  # fmt: skip
        doubtful = kernel.unique & ~unique
        if doubtful.any():
            report.fail("joint wrenches", f"{np.count_nonzero(doubtful)} components are called unique and are not", script(m, state.q))


def check_run(m: ct.Model, some: list[State], report: Report) -> None:
    """A run of a fifth of a second, or what the mechanism does in it, keeps the loops closed, and stops at singular states only."""
    for state in some[:2]:
        if not (state.certain and state.at.freedom):
            continue
        referee, reach = state.at.referee, state.at.referee.reach
        a = np.abs(state.at.accelerations(state.v, state.tau) / reach).max()
        span = 0.3 / max(np.sqrt(a), np.abs(state.v / reach).max(), 1e-3)
        report.counts["runs"] += 1
        text = script(m, state.q, state.v)
        try:
            run = ct.simulate(m, state.q, state.v, until=span)
        except ct.SimulationError as error:
            stopped = getattr(error, "trajectory", None)
            if "singular" in str(error) and stopped is not None:
                at = referee.at(stopped.q[-1])
                least = at.values[min(at.rank, state.at.rank) - 1] / at.values[0]
                if least > 1e-3 and at.rank == state.at.rank:
                    report.fail("simulate", f"stops as singular where the least singular value is {least:.1e}: {error}", text)
                else:
                    report.counts["runs that came to a singular configuration"] += 1
            else:
                report.fail("simulate", str(error), text)
            continue
        open_by = np.abs(closure(referee, run.q[-1])[0]).max(initial=0.0)
        if open_by > 1e-9:
            report.fail("simulate", f"leaves the loops open by {open_by:.1e}", text)
        if not m.changes_energy:
            energies = np.array([referee.energy(q, v) for q, v in zip(run.q[:: len(run.t) - 1], run.v[:: len(run.t) - 1], strict=True)])
            change, most = abs(np.diff(energies.sum(axis=1))[0]), np.abs(energies - energies[0]).max() + energies[:, 0].max()
            if change > 1e-5 * most:
                report.fail("simulate", f"changes the energy by {change / most:.1e}", text)


CHECKS: dict[str, Callable[[ct.Model, list[State], Report], None]] = {
    "methods": check_methods, "inverse": check_inverse, "reduced": check_reduced, "hamiltonian": check_hamiltonian,
    "wrenches": check_wrenches, "run": check_run,
}  # fmt: skip

#: How often each check is made; runs compile most.
SHARES = (0.3, 0.15, 0.15, 0.15, 0.15, 0.1)


def explore(seed: int, name: str | None = None, checks: Any = None) -> Report:
    """Return what the mechanism of a seed shows: mobility, forward dynamics, and one further check, or those given."""
    name = name_of(seed) if name is None else name
    report, rng = Report(name, seed), np.random.default_rng([seed, 3])
    try:
        sample = mechanism(name, seed)
        m = sample.model
        m.tree()
    except ct.ModelError as error:
        report.counts[f"refused: {error}"[:40]] += 1
        return report
    try:
        some = states(sample, rng, report)
        if not some:
            report.counts["mechanisms that do not close"] += 1
            return report
        report.counts["mechanisms"] += 1
        report.counts["states"] += len(some)
        report.counts["special"] += is_special(name)
        report.counts["singular states"] += sum(s.at.clear and s.at.regular is False for s in some)
        report.counts["unclear states"] += sum(not s.at.clear or s.at.regular is None for s in some)
        try:
            m.assemble()
        except ct.ModelError:
            m.home = some[0].q
        check_mobility(m, some, report)
        check_forward(m, some, report)
        for check in [str(rng.choice(list(CHECKS), p=SHARES))] if checks is None else checks:
            CHECKS[check](m, some, report)
    except Exception:
        report.fail("error", traceback.format_exc(limit=-6))
    return report


def script(m: ct.Model, q: Any, v: Any = None, tau: Any = None, expected: Any = None) -> str:
    """Return a script that makes the mechanism and the state."""
    from catena.files.toml_writer import text

    try:
        described = text(m)
    except ct.ModelError:
        described = "# the model is made of Python code"
    lines = [
        "import pathlib, tempfile", "import numpy as np", "import catena as ct", "",
        "path = pathlib.Path(tempfile.mkdtemp()) / 'model.toml'", f'path.write_text("""\n{described}""")', "m = ct.load(path)",
    ]  # fmt: skip
    for name, value in (("q", q), ("v", v), ("tau", tau), ("expected", expected)):
        if value is not None:
            lines.append(f"{name} = np.array({np.asarray(value, dtype=float).tolist()})")
    lines.append("print(m.mobility(q))" if v is None else "print(ct.forward_dynamics(m)(q, v, tau), m.mobility(q))")
    return "\n".join(lines)
