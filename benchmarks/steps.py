"""Steps called from Python, and gradients through a thousand of them: catena beside MuJoCo, Pinocchio and MJX, in one run on one core.

    python benchmarks/steps.py [--quick] [--json FILE] [steps] [million] [gradients] [memory] [mjx]

`steps`: a step of 1 ms of one state by `ct.stepper`, called in a loop in Python, also with arrays to write to; `mj_step` from Python, Euler
or RK4, without contacts; and a loop around `pin.aba`, or `pin.constraintDynamics` where there are loops, with `pin.integrate`. MuJoCo
closes loops by its constraints between points, with their default stiffness, and Pinocchio by accelerations alone. Then 1,000 states
stepped at once. "spread" is the largest difference of positions after 50 steps, of MuJoCo's and of Pinocchio's.

`million`: a million RK4 steps of a four-bar whose crank turns, in a loop in Python: the largest error of its loop on the way and at the
end, and the largest change of the energy; the same steps by MuJoCo and by Pinocchio. Our error is the rounding of the angles, which grow
with the turns.

`gradients`: `ct.rollout_gradient` of a cost over 1,000 RK4 steps by all controls, beside `ct.rollout` of the same motion; and how far the
gradient along random directions is from central differences, and from sensitivities that go forward step by step, by `jvp` of the stepper.

`memory`: the most memory that Python and NumPy hold at once for the gradient of a long run, its controls and result included.

`mjx`: the gradient of the arm's cost through steps of MJX, by `jax.lax.scan`; it needs `jax` and `mujoco-mjx`. It stores the
states, as catena does, and computes the rest of a step again on the way back; numbers have double precision.

Without names all parts but `mjx` are run, which is by itself and takes minutes to compile. Times are minima over repeats that take turns.
"""

from __future__ import annotations

import importlib
import os
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import loops
import machine
import mujoco
import numpy as np
import pinocchio as pin
import results
from simulation import STEP, arm, mujoco_model

import catena as ct
from catena.examples import EXAMPLES

STATES, CALLED = 1000, 50  # states of a batch, and steps of a loop that is timed
INTEGRATORS = {"semi-implicit-euler": mujoco.mjtIntegrator.mjINT_EULER, "rk4": mujoco.mjtIntegrator.mjINT_RK4}

State = tuple[np.ndarray, np.ndarray]


def mechanism(name: str) -> ct.Model:
    """Return a mechanism without what acts in its joints."""
    return arm() if name == "arm" else EXAMPLES[name]()


def states(m: ct.Model, count: int) -> State:
    """Return states that close the loops."""
    if m.has_loops:
        q, v, _ = loops.states(m, count)
        return q, 0.3 * v
    rng = np.random.default_rng(1)
    return rng.uniform(-1.0, 1.0, (count, m.nq)), 0.5 * rng.normal(size=(count, m.nv))


class InMuJoCo:
    """A mechanism in MuJoCo, with its state."""

    def __init__(self, m: ct.Model, integrator: str) -> None:
        self.model = mujoco_model(m)
        self.model.opt.integrator = INTEGRATORS[integrator]
        self.data, self.origin, first = mujoco.MjData(self.model), np.zeros(m.nq), m.links[0]
        self.free = isinstance(first.joint, ct.Free)
        if self.free:  # whose position is that in the world
            self.origin[:3] = first.at.p

    def put(self, q: np.ndarray, v: np.ndarray) -> None:
        """Begin at a state of catena: the velocity of a free body is angular before linear there, in the axes of the body."""
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:], self.data.qvel[:] = q + self.origin, v
        if self.free:
            R = np.zeros(9)
            mujoco.mju_quat2Mat(R, q[3:7])
            self.data.qvel[:3], self.data.qvel[3:6] = R.reshape(3, 3) @ v[3:6], v[:3]

    def run(self, q: np.ndarray, v: np.ndarray, steps: int) -> np.ndarray:
        """Return positions after so many steps, each called from Python."""
        self.put(q, v)
        model, data, step = self.model, self.data, mujoco.mj_step
        for _ in range(steps):
            step(model, data)
        return data.qpos - self.origin


class InPinocchio:
    """A mechanism in Pinocchio, and steps as its users write them."""

    def __init__(self, m: ct.Model, integrator: str) -> None:
        self.peer, self.rk4 = loops.Peer(m, redundant=m.name == "four-bar"), integrator == "rk4"
        model = self.model = self.peer.model
        data, tau = model.createData(), np.zeros(model.nv)
        if m.has_loops:
            solver = self.peer.solver("constraintDynamics")
            self.acceleration: Callable[..., np.ndarray] = lambda q, v: np.array(solver(q, v, tau))
        else:
            self.acceleration = lambda q, v: pin.aba(model, data, q, v, tau).copy()

    def state(self, q: np.ndarray, v: np.ndarray) -> State:
        """Return a state of catena as Pinocchio has it."""
        return self.peer.positions(q[None])[0], v[self.peer.velocities]

    def run(self, q: np.ndarray, v: np.ndarray, steps: int) -> State:
        """Return Pinocchio's state after so many steps."""
        model, a, move, h = self.model, self.acceleration, pin.integrate, STEP
        for _ in range(steps):
            if not self.rk4:
                v = v + h * a(q, v)
                q = move(model, q, h * v)
                continue
            a1 = a(q, v)
            v2 = v + (0.5 * h) * a1
            a2 = a(move(model, q, (0.5 * h) * v), v2)
            v3 = v + (0.5 * h) * a2
            a3 = a(move(model, q, (0.5 * h) * v2), v3)
            v4 = v + h * a3
            a4 = a(move(model, q, h * v3), v4)
            q = move(model, q, (h / 6.0) * (v + 2.0 * v2 + 2.0 * v3 + v4))
            v = v + (h / 6.0) * (a1 + 2.0 * a2 + 2.0 * a3 + a4)
        return q, v


def stepped(move: Any, q: np.ndarray, v: np.ndarray, tau: np.ndarray, steps: int) -> State:
    """Return the state after so many steps of catena."""
    for _ in range(steps):
        q, v = move(q, v, tau)
    return q, v


def one_step(name: str, integrator: str, seconds: float) -> results.Row:
    """Return the times of a step [us], and how far the peers' motions are from ours."""
    m = mechanism(name)
    move, theirs, loop = ct.stepper(m, STEP, integrator), InMuJoCo(m, integrator), InPinocchio(m, integrator)
    qs, vs = states(m, STATES)
    tau, out = np.zeros(m.nv), (np.empty_like(qs), np.empty_like(vs))
    q, v = qs[0].copy(), vs[0].copy()
    start = loop.state(q, v)

    def written() -> None:
        here, there = (q, v), (np.empty(m.nq), np.empty(m.nv))
        spare = np.empty(m.nq), np.empty(m.nv)
        for _ in range(CALLED):
            move(*here, tau, out=there)
            here, there, spare = there, spare, there

    end, _ = stepped(move, q, v, tau, CALLED)
    spread = {
        "spread_MuJoCo": float(np.abs(theirs.run(q, v, CALLED) - end).max()),
        "spread_Pinocchio": float(np.abs(loop.run(*start, CALLED)[0] - loop.state(end, v)[0]).max()),
    }
    best = machine.fastest(
        {
            "catena": lambda: stepped(move, q, v, tau, CALLED), "out": written, "MuJoCo": lambda: theirs.run(q, v, CALLED),
            "Pinocchio": lambda: loop.run(*start, CALLED), "batch": lambda: move(qs, vs, tau, out=out),
        }, seconds,
    )  # fmt: skip
    us = {key: 1e6 * value / (STATES if key == "batch" else CALLED) for key, value in best.items()}
    peers = {peer: us[peer] for peer in ("MuJoCo", "Pinocchio")}
    return results.row(name, f"a step by {integrator}", us["catena"], peers, out_us=us["out"], batch_us=us["batch"], **spread)


def million(steps: int) -> results.Row:
    """Return how far the loop of a four-bar opens over RK4 steps, how its energy changes, and the time of a step [us]."""
    m, samples = mechanism("four-bar"), 1000
    q = m.assemble(crank=0.3)
    v, tau, every = m.project_velocity(q, crank=15.0), np.zeros(m.nv), steps // samples
    move, theirs, loop = ct.stepper(m, STEP, "rk4"), InMuJoCo(m, "rk4"), InPinocchio(m, "rk4")
    opened, energy = ct.loop_error(m), ct.energy(m)
    kinetic = float(energy(q, v)[0])
    theirs.put(q, v)

    def in_mujoco(q: np.ndarray, v: np.ndarray) -> State:
        for _ in range(every):
            mujoco.mj_step(theirs.model, theirs.data)
        return theirs.data.qpos.copy(), theirs.data.qvel.copy()

    us, figures = {}, {}
    runs: dict[str, Callable[[np.ndarray, np.ndarray], State]] = {
        "catena": lambda q, v: stepped(move, q, v, tau, every), "MuJoCo": in_mujoco, "Pinocchio": lambda q, v: loop.run(q, v, every),
    }  # fmt: skip
    for name, run in runs.items():
        way = [(q, v)]
        began = time.perf_counter()
        for _ in range(samples):
            way.append(run(*way[-1]))
        seconds = time.perf_counter() - began
        qs, vs = (np.array(x) for x in zip(*way, strict=True))
        errors, total = opened(qs).reshape(len(qs), -1).max(axis=1), np.sum(energy(qs, vs), axis=0)
        change = float(np.abs(total - total[0]).max() / kinetic)
        us[name] = 1e6 * seconds / steps
        figures |= {f"loop_error_{name}": float(errors.max()), f"end_error_{name}": float(errors[-1]), f"energy_change_{name}": change}
        figures |= {f"turns_{name}": float(abs(qs[-1, 0] - q[0]) / (2.0 * np.pi))}
    return results.row(m.name, "many steps by rk4", us.pop("catena"), us, steps=steps, **figures)


def cost(t: Any, q: Any, v: Any, tau: Any) -> Any:
    """Return what a step costs."""
    return 1e-3 * (q @ q + v @ v) + 1e-4 * (tau @ tau)


def final_cost(t: Any, q: Any, v: Any) -> Any:
    """Return what the end costs."""
    return q @ q + v @ v


def problem(name: str, steps: int, runs: int = 1) -> tuple[ct.Model, dict[str, Any]]:
    """Return a mechanism, and the arguments of its rollouts."""
    m, rng = mechanism(name), np.random.default_rng(0)
    q, v = (x[0] if runs == 1 else x for x in states(m, runs))
    shape = (steps, m.nv) if runs == 1 else (runs, steps, m.nv)
    return m, {"q0": q, "v0": v, "controls": rng.normal(size=shape), "step": STEP, "steps": steps, "integrator": "rk4", "threads": 1}


def along(function: Callable[..., Any], point: tuple[Any, ...], direction: tuple[Any, ...]) -> float:
    """Return the derivative of an analytic function along a direction, by a complex step."""
    small = 1e-30
    return float(function(0.0, *(x + 1j * small * dx for x, dx in zip(point, direction, strict=True))).imag / small)


def checks(m: ct.Model, given: dict[str, Any], gradient: np.ndarray, directions: int) -> dict[str, float]:
    """Return how far a gradient is, along random directions, from central differences and from sensitivities that go forward."""
    rng, small = np.random.default_rng(1), 1e-6
    tangent, controls = ct.stepper(m, STEP, "rk4").jvp(), given["controls"]

    def value(controls: np.ndarray) -> float:
        way = ct.rollout(m, **given | {"controls": controls})
        running = sum(cost(0.0, *row) for row in zip(way.q[:-1], way.v[:-1], controls, strict=True))
        return float(running + final_cost(0.0, way.q[-1], way.v[-1]))

    worst = {"off_differences": 0.0, "off_forward": 0.0}
    for _ in range(directions):
        direction = rng.normal(size=controls.shape)
        backward = float((gradient * direction).sum())
        difference = (value(controls + small * direction) - value(controls - small * direction)) / (2.0 * small)
        q, v, dq, dv, forward = given["q0"], given["v0"], np.zeros(m.nv), np.zeros(m.nv), 0.0
        for tau, dtau in zip(controls, direction, strict=True):
            forward += along(cost, (q, v, tau), (dq, dv, dtau))
            q, v, dq, dv = tangent(q, v, tau, dq, dv, dtau)
        forward += along(final_cost, (q, v), (dq, dv))
        for key, other in (("off_differences", difference), ("off_forward", forward)):
            worst[key] = max(worst[key], abs(backward - other) / abs(backward))
    return worst


def gradients(name: str, runs: int, steps: int, directions: int, seconds: float) -> list[results.Row]:
    """Return the times of rollouts and of their gradients, and how far these are from others."""
    m, given = problem(name, steps, runs)
    began = time.perf_counter()
    found = ct.rollout_gradient(m, **given, cost=cost, final_cost=final_cost)
    first = time.perf_counter() - began
    assert found.controls is not None
    best = machine.fastest(
        {
            "rollout": lambda: ct.rollout(m, **given),
            "gradient": lambda: ct.rollout_gradient(m, **given, cost=cost, final_cost=final_cost),
        }, seconds,
    )  # fmt: skip
    figures = {"runs": runs, "steps": steps, "controls": found.controls.size, "first_s": first}
    figures["times_rollout"] = best["gradient"] / best["rollout"]
    figures |= checks(m, given, found.controls, directions) if runs == 1 else {}
    of = f"{runs} run{'s' if runs > 1 else ''}"
    return [
        results.row(name, f"rollout of {of}", 1e6 * best["rollout"]),
        results.row(name, f"gradient of {of}", 1e6 * best["gradient"], **figures),
    ]


def memory(name: str, runs: int, steps: int) -> results.Row:
    """Return the most memory held at once [MB], by a rollout and by its gradient, with what is returned."""
    compiled, given = problem(name, 10, runs)
    ct.rollout_gradient(compiled, **given, cost=cost, final_cost=final_cost)
    _, given = problem(name, steps, runs)
    figures: dict[str, Any] = {"runs": runs, "steps": steps, "controls_mb": given["controls"].nbytes / 1e6}
    work: dict[str, Callable[[], Any]] = {
        "rollout": lambda: ct.rollout(compiled, **given),
        "gradient": lambda: ct.rollout_gradient(compiled, **given, cost=cost, final_cost=final_cost),
    }
    for key, function in work.items():
        tracemalloc.start()
        function()
        figures[f"{key}_mb"] = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
    return results.row(name, f"memory of {runs} run{'s' if runs > 1 else ''}", **figures)


def beside_mjx(steps: int, seconds: float) -> list[results.Row]:
    """Return the times of the arm's rollout and gradient by catena and by MJX."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core for XLA too
    jax: Any = importlib.import_module("jax")
    mjx: Any = importlib.import_module("mujoco.mjx")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    m, given = problem("arm", steps)
    peer = mujoco_model(m)
    model, blank = mjx.put_model(peer), mjx.make_data(peer)

    def step(state: Any, tau: Any) -> Any:
        q, v = state
        data = mjx.step(model, blank.replace(qpos=q, qvel=v, qfrc_applied=tau))
        return (data.qpos, data.qvel), cost(0.0, q, v, tau)

    def value(controls: Any) -> Any:
        start = jax.numpy.array(given["q0"]), jax.numpy.array(given["v0"])
        (q, v), running = jax.lax.scan(jax.checkpoint(step), start, controls)
        return running.sum() + final_cost(0.0, q, v)

    controls, first, compiled = jax.numpy.array(given["controls"]), {}, {}
    for key, function in (("rollout", value), ("gradient", jax.value_and_grad(value))):
        began = time.perf_counter()
        compiled[key] = jax.jit(function).lower(controls).compile()
        first[key] = time.perf_counter() - began
    found = ct.rollout_gradient(m, **given, cost=cost, final_cost=final_cost)
    theirs = compiled["gradient"](controls)
    assert found.controls is not None
    best = machine.fastest(
        {
            "rollout": lambda: ct.rollout(m, **given),
            "gradient": lambda: ct.rollout_gradient(m, **given, cost=cost, final_cost=final_cost),
            "mjx rollout": lambda: compiled["rollout"](controls).block_until_ready(),
            "mjx gradient": lambda: compiled["gradient"](controls)[1].block_until_ready(),
        }, seconds, 3,
    )  # fmt: skip
    difference = np.abs(found.controls - np.array(theirs[1])).max() / np.abs(found.controls).max()
    return [
        results.row("arm", key, 1e6 * best[key], {"MJX": 1e6 * best[f"mjx {key}"]}, steps=steps, compile_s=first[key], **off)
        for key, off in (("rollout", {}), ("gradient", {"disagreement": float(difference)}))
    ]


def main() -> None:
    """Measure, print and write the figures."""
    parts = ("steps", "million", "gradients", "memory", "mjx")
    parser = results.parser(__doc__, "fewer steps, shorter repeats")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(parts)}")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(parts):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; choose from {', '.join(parts)}")
    chosen = options.parts or parts[:-1]
    if "mjx" in chosen and len(chosen) > 1:
        parser.error("mjx is measured by itself")
    quick, two = options.quick, ("arm", "four-bar")
    seconds, steps = (0.3, 50) if quick else (5.0, 1000)
    cases = [(name, integrator) for name in ("arm", "four-bar", "stewart-ups") for integrator in INTEGRATORS]
    work: dict[str, Callable[[], list[results.Row]]] = {
        "steps": lambda: [one_step(*case, seconds) for case in cases],
        "million": lambda: [million(2000 if quick else 10**6)],
        "gradients": lambda: [row for name in two for runs in (1, 64) for row in gradients(name, runs, steps, 3, seconds)],
        "memory": lambda: [memory(name, runs, 200 if quick else 10**5) for name in two for runs in (1, 16)],
        "mjx": lambda: beside_mjx(10 if quick else steps, 3.0 * seconds),
    }
    rows = [row for part in parts if part in chosen for row in work[part]()]
    results.report("steps-mjx" if "mjx" in chosen else "steps", rows, options)


if __name__ == "__main__":
    main()
