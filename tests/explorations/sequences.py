"""Two calls in one process, one after the other, against the second alone: what a call leaves behind must not change the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests import test_branches
from tests.explorations.motions import Rng
from tests.explorations.report import Report, near

import catena as ct
from catena.examples import EXAMPLES

State = tuple[np.ndarray, np.ndarray]

MODELS: dict[str, Callable[[], ct.Model]] = {
    **{name: EXAMPLES[name] for name in ("four-bar", "double-pendulum", "slider-crank", "arm", "planar-five-bar") if name in EXAMPLES},
    "cranks": lambda: test_branches.cranks(3),
}


def _options(m: ct.Model, rng: Rng) -> dict[str, Any]:
    """Draw what a run is given."""
    gain, nv = float(rng.choice([0.5, 2.0])), m.nv
    options: dict[str, Any] = {}
    kind = int(rng.integers(5))
    if kind == 1:
        options["controller"] = lambda t, q, v: -gain * v
    elif kind == 2:
        options["controller"] = ct.python(lambda t, q, v: -gain * v)
    elif kind == 3:
        options["tau"] = np.full(nv, gain)
    kind = int(rng.integers(4))
    if kind == 1:
        options["events"] = [ct.Event("level", lambda t, q, v: q[0] - gain, "record")]
    elif kind == 2:
        options["events"] = [ct.Event("level", ct.python(lambda t, q, v: float(v[0]) - gain), "record")]
    if rng.random() < 0.4:
        options["parameters"] = {f"{m.links[0].name}.mass": gain}
    if rng.random() < 0.3:
        options["wrenches"] = {m.links[-1].name: [0.1, 0.0, 0.0, 0.0, gain, 0.0]}
    return options


def _simulate(m: ct.Model, at: State, rng: Rng) -> Any:
    integrator = str(rng.choice(["auto", "rk4", "gauss-legendre-4", "rang-angermann", "dormand-prince", "implicit-midpoint"]))
    step = None if integrator in ("auto", "dormand-prince") and rng.random() < 0.5 else 2e-3
    run = ct.simulate(m, *at, until=0.02, step=step, integrator=integrator, **_options(m, rng))
    return run.q, run.v, run.tau


def _rollout(m: ct.Model, at: State, rng: Rng) -> Any:
    options = _options(m, rng)
    for name in ("tau", "events", "controller"):
        options.pop(name, None)
    gain = float(rng.choice([0.5, 2.0]))
    kind = int(rng.integers(3))
    controls = [None, np.full((10, m.nv), gain), lambda t, q, v: -gain * v][kind]
    if rng.random() < 0.3:
        options["stop"] = lambda t, q, v: t > 0.01 * gain
    if rng.random() < 0.3:
        options["observe"] = lambda t, q, v: gain * q
    run = ct.rollout(m, *at, None, 2e-3, 10, tau=controls, integrator=str(rng.choice(["rk4", "gauss-legendre-4", "auto"])), **options)
    return tuple(x for x in (run.q, run.v, run.observed) if x is not None)


def _stepper(m: ct.Model, at: State, rng: Rng) -> Any:
    kernel = ct.stepper(m, float(rng.choice([1e-3, 2e-3])), integrator=str(rng.choice(["rk4", "gauss-legendre-4", "rang-angermann"])))
    return kernel(*at, np.full(m.nv, 0.3))


def _gradient(m: ct.Model, at: State, rng: Rng) -> Any:
    gain, controls = float(rng.choice([0.5, 2.0])), rng.normal(size=(5, m.nv))
    parameters = {f"{m.links[0].name}.mass": gain} if rng.random() < 0.4 else None
    found = ct.rollout_gradient(
        m, *at, tau=controls, step=2e-3, steps=5, cost=lambda t, q, v, tau: gain * q @ q, parameters=parameters,
        integrator=str(rng.choice(["rk4", "gauss-legendre-4"])),
    )  # fmt: skip
    return found.value, found.q0, found.controls


def _forward(m: ct.Model, at: State, rng: Rng) -> Any:
    paths = [f"{m.links[0].name}.mass", "gravity"][: int(rng.integers(0, 3))]
    kernel = ct.forward_dynamics(m, parameters=paths, wrenches=[m.links[-1].name] if rng.random() < 0.4 else ())
    wrench = {"wrenches": np.arange(6.0)[None]} if any(port.name == "wrenches" for port in kernel.inputs) else {}
    return (kernel(*at, np.full(m.nv, 0.3), **wrench),)


def _derivatives(m: ct.Model, at: State, rng: Rng) -> Any:
    paths = [f"{m.links[0].name}.mass", "gravity"][: int(rng.integers(0, 3))]
    return ct.forward_dynamics_derivatives(m, parameters=paths)(*at, np.full(m.nv, 0.3))


def _equilibrium(m: ct.Model, at: State, rng: Rng) -> Any:
    return (ct.equilibrium(m, at[0]).q,)


def _linearize(m: ct.Model, at: State, rng: Rng) -> Any:
    return tuple(ct.linearize(m, *at))[:2]


CALLS: dict[str, Callable[[ct.Model, State, Rng], Any]] = {
    "simulate": _simulate, "rollout": _rollout, "stepper": _stepper, "gradient": _gradient, "forward": _forward,
    "derivatives": _derivatives, "equilibrium": _equilibrium, "linearize": _linearize,
}  # fmt: skip


def sequences(report: Report, rng: Rng) -> None:
    """The second of two calls gives what it gives alone, in a model that was made anew; but for rounding, for kernels may be evaluated."""
    name = str(rng.choice(list(MODELS)))
    names = [str(rng.choice(list(CALLS), p=[0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05])) for _ in range(2)]
    seeds = rng.integers(2**31, size=3)

    def call(m: ct.Model, i: int) -> Any:
        own = np.random.default_rng(seeds[i])
        try:
            return CALLS[names[i]](m, _state(m, np.random.default_rng(seeds[2])), own)
        except (ct.SimulationError, ct.ArgumentError, ct.ModelError, ct.MethodError) as error:
            return (np.frombuffer(f"{type(error).__name__} {error}"[:60].ljust(60).encode(), dtype=np.uint8),)

    alone, both = MODELS[name](), MODELS[name]()
    expected = call(alone, 1)
    call(both, 0)
    found = call(both, 1)
    for part, (a, b) in enumerate(zip(found, expected, strict=True)):
        if not near(a, b) < 1e-12:
            report.fail("sequences", f"{name}: {names[1]} after {names[0]} differs in result {part}: {_told(a)} against {_told(b)}")
            return


def _told(x: Any) -> str:
    return bytes(x).decode() if getattr(x, "dtype", None) == np.uint8 else str(np.ravel(x)[:4])


def _state(m: ct.Model, rng: Rng) -> State:
    if m.has_loops:
        q = m.assemble()
        return q, m.project_velocity(q, rng.normal(size=m.nv))
    return m.random(rng), rng.normal(size=m.nv)


EXPLORATIONS = {"sequences": sequences}
