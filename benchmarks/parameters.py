"""Numbers of a model as inputs: forward dynamics of 7-joint arms with other bodies in every state, and rollouts beside MuJoCo.

    python benchmarks/parameters.py [--quick] [--json FILE]

The arms are that of the examples, whose axes meet at right angles, and a chain of general geometry. Every state of a batch of 4,096 has its
own masses and inertias of all bodies; then its own centres of mass as well, and its own placements of all joints. Figures are microseconds
for a state, minima over repeats that take turns, and in times of the kernel whose numbers are fixed. MuJoCo has a model for each
environment: `mujoco.rollout` with as many models, and a loop in Python that sets masses and inertias, calls `mj_setConst` and `mj_forward`.
All motions are compared first.
"""

from __future__ import annotations

import argparse
import copy
import json
from pathlib import Path
from typing import Any

import machine
import mujoco
import numpy as np
from dynamics import chain
from mujoco import rollout as mujoco_rollout
from rich.console import Console
from rich.table import Table
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


def kernels(m: ct.Model, seconds: float) -> dict[str, Any]:
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
    best = machine.fastest(runs, seconds)
    return {
        "model": m.name, "us": {name: best[name] / STATES * 1e6 for name in SETS},
        "operations": {name: sum(made[name].operations.values()) for name in SETS},
    }  # fmt: skip


def beside_mujoco(m: ct.Model, environments: int, steps: int, seconds: float) -> dict[str, Any]:
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
    return {"model": m.name, "environments": environments, "steps": steps, "us": each, "spread": spread, "difference": off}


def main() -> None:
    """Measure, print the tables, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter repeats, fewer environments")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    seconds, environments, steps = (0.4, 32, 20) if options.quick else (20.0, STATES, 100)
    general = chain(7)
    general.name = "general chain"
    console = Console(width=140, highlight=False, markup=False)
    rows = [kernels(m, seconds) for m in (arm(), general)]
    table = Table("us a state", *SETS, title=f"forward dynamics, commit {machine.commit()}, {machine.description()}")
    for row in rows:
        own = row["us"]["fixed"]
        table.add_row(row["model"], *(f"{row['us'][s]:.3g} ({row['us'][s] / own:.2f}; {row['operations'][s]:,} operations)" for s in SETS))
    console.print(table)
    peers = [beside_mujoco(m, environments, steps, seconds) for m in (arm(), general)]
    table = Table("us", "a step of RK4", "mujoco.rollout", "ratio", "accelerations", "mj_setConst, mj_forward", "ratio")
    for row in peers:
        us = row["us"]
        first, second = us["mujoco rollout"] / us["rollout"], us["mj_setConst, mj_forward"] / us["kernel"]
        numbers = (us["rollout"], us["mujoco rollout"], first, us["kernel"], us["mj_setConst, mj_forward"], second)
        table.add_row(row["model"], *(f"{x:.3g}" for x in numbers))
    console.print(table)
    for row in peers:
        spread = f"positions differ by {row['spread']:.1e} after {steps} steps, accelerations by {row['difference']:.1e}"
        console.print(f"{row['model']}: {spread}")
    if options.json:
        options.json.write_text(json.dumps({"kernels": rows, "mujoco": peers}, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
