"""Numbers of a model as inputs: forward dynamics of 7-joint arms with other bodies in every state, and rollouts beside MuJoCo.

    python benchmarks/parameters.py [--quick] [--json FILE]

The arms are that of the examples, whose axes meet at right angles, and a chain of general geometry. Every state of a batch of 4,096 has its
own masses and inertias of all bodies; then its own centres of mass as well, and its own placements of all joints. Figures are microseconds
for a state, minima over repeats that take turns, and in times of the kernel whose numbers are fixed. MuJoCo has a model for each
environment: `mujoco.rollout` with as many models, and a loop in Python that sets masses and inertias, calls `mj_setConst` and `mj_forward`.
All motions are compared first.
"""

from __future__ import annotations

import copy
from typing import Any

import machine
import mujoco
import numpy as np
import results
from dynamics import chain
from mujoco import rollout as mujoco_rollout
from simulation import STEP, arm, mujoco_model

import catena as ct

STATES = 4096

#: What is varied of every body and its joint.
SETS = {
    "fixed": (), "masses, inertias": ("mass", "inertia"), "and centres": ("mass", "inertia", "com"),
    "and placements": ("mass", "inertia", "com", "at"),
}  # fmt: skip


def values(m: ct.Model, kinds: tuple[str, ...], count: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return numbers of all bodies for so many states: scaled masses and inertias, shifted and turned frames."""
    found = {}
    for name in m.body_names:
        for kind in kinds:
            own = m.parameters()[f"{name}.{kind}"].value
            scale = rng.uniform(0.8, 1.2, size=(count,) + (1,) * own.ndim)
            found[f"{name}.{kind}"] = own * scale if kind in ("mass", "inertia") else own + 0.02 * rng.normal(size=(count, *own.shape))
    return found


def kernels(m: ct.Model, seconds: float) -> list[results.Row]:
    """Return times and operations of forward dynamics with more and more numbers as inputs."""
    rng = np.random.default_rng(0)
    state = [rng.normal(size=(STATES, m.nv)) for _ in range(3)]
    given = {name: values(m, kinds, STATES, rng) for name, kinds in SETS.items()}
    made = {name: ct.forward_dynamics(m, parameters=list(given[name])) for name in SETS}
    out = np.empty((STATES, m.nv))
    for name in SETS:
        built = ct.forward_dynamics(m.with_values({path: x[7] for path, x in given[name].items()}))(*(x[7] for x in state))
        off = np.abs(made[name](*state, *given[name].values())[7] - built).max() / np.abs(built).max()
        assert off < 1e-11, (name, off)
    runs = {name: lambda name=name: made[name](*state, *given[name].values(), out=out) for name in SETS}
    us = {name: time / STATES * 1e6 for name, time in machine.fastest(runs, seconds).items()}
    figures = {name: {"operations": sum(made[name].operations.values()), "times_fixed": us[name] / us["fixed"]} for name in SETS}
    return [results.row(m.name, f"forward dynamics, batch, {name}", us[name], **figures[name]) for name in SETS]


def beside_mujoco(m: ct.Model, environments: int, steps: int, seconds: float) -> list[results.Row]:
    """Return times of steps and of accelerations where every environment has its own masses and inertias."""
    rng = np.random.default_rng(1)
    q, v = rng.uniform(-1.0, 1.0, (environments, m.nq)), 0.5 * rng.normal(size=(environments, m.nv))
    scale = rng.uniform(0.8, 1.2, size=(environments, len(m.links)))
    given: dict[str, Any] = {f"{link.name}.mass": link.body.mass * scale[:, k] for k, link in enumerate(m.links)}
    given |= {f"{link.name}.inertia": link.body.inertia * scale[:, k, None, None] for k, link in enumerate(m.links)}
    peer = mujoco_model(m)
    data, models = mujoco.MjData(peer), [copy.copy(peer) for _ in range(environments)]
    masses, moments = peer.body_mass.copy(), peer.body_inertia.copy()

    def put(model: mujoco.MjModel, i: int) -> None:
        model.body_mass[1:] = masses[1:] * scale[i]
        model.body_inertia[1:] = moments[1:] * scale[i][:, None]
        mujoco.mj_setConst(model, data)

    for i, model in enumerate(models):
        put(model, i)
    states, out = np.concatenate([np.zeros((environments, 1)), q, v], axis=1), np.zeros((environments, steps, 1 + m.nq + m.nv))
    runner, kernel = mujoco_rollout.Rollout(nthread=0), ct.forward_dynamics(m, parameters=list(given))
    nothing = np.zeros((environments, m.nv))

    def in_turn() -> np.ndarray:
        found = np.empty((environments, m.nv))
        for i in range(environments):
            put(peer, i)
            data.qpos[:], data.qvel[:] = q[i], v[i]
            mujoco.mj_forward(peer, data)
            found[i] = data.qacc
        return found

    def ours() -> ct.Rollout:
        return ct.rollout(m, q, v, step=STEP, steps=steps, threads=1, parameters=given)

    theirs = runner.rollout(models, [data], states, nstep=steps, state=out)[0]
    spread = float(np.abs(ours().q[:, -1] - theirs[:, -1, 1 : 1 + m.nq]).max())
    accelerations = kernel(q, v, nothing, *given.values())
    off = float(np.abs(accelerations - in_turn()).max() / np.abs(accelerations).max())
    best = machine.fastest(
        {
            "rollout": ours, "mujoco rollout": lambda: runner.rollout(models, [data], states, nstep=steps, state=out),
            "kernel": lambda: kernel(q, v, nothing, *given.values()), "mj_setConst, mj_forward": in_turn,
        }, seconds,
    )  # fmt: skip
    each = {name: time / environments * 1e6 / (steps if "rollout" in name else 1) for name, time in best.items()}
    figures = {"environments": environments, "steps": steps}
    peers = {"mujoco.rollout": each["mujoco rollout"]}, {"mj_setConst, mj_forward": each["mj_setConst, mj_forward"]}
    return [
        results.row(m.name, "a step of RK4, own masses", each["rollout"], peers[0], **figures, spread=spread),
        results.row(m.name, "forward dynamics, own masses", each["kernel"], peers[1], environments=environments, disagreement=off),
    ]


def main() -> None:
    """Measure, print and write the figures."""
    options = results.parser(__doc__, "shorter repeats, fewer environments").parse_args()
    seconds, environments, steps = (0.4, 32, 20) if options.quick else (10.0, STATES, 100)
    general = chain(7)
    general.name = "general chain"
    models = arm(), general
    rows = [row for m in models for row in kernels(m, seconds)]
    results.report("parameters", rows + [row for m in models for row in beside_mujoco(m, environments, steps, seconds)], options)


if __name__ == "__main__":
    main()
