"""Simulation of 7-joint arms without contact, RK4 with steps of 1 ms: catena beside MuJoCo and Pinocchio, same motion, one run, one core.

    python benchmarks/simulation.py [--quick] [--json FILE]

MuJoCo runs its own loop in C (`mujoco.rollout`, one thread), Pinocchio a loop in Python around `pin.aba`: it has no other. Figures are
microseconds for a step of one trajectory, minima over repeats that take turns; "spread" is the largest difference of positions after 0.2 s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import machine
import mujoco
import numpy as np
import pinocchio as pin
import results
from dynamics import chain
from mujoco import rollout as mujoco_rollout

import catena as ct
from catena.comparison.peers import Pinocchio
from catena.examples import arm as example_arm

STEP = 1e-3


def arm() -> ct.Model:
    """Return the arm of the examples: its bodies and places, without what acts in its joints."""
    m, full = ct.Model("arm"), example_arm()
    for link in full.links:
        m.add(link.name, link.body, ct.Revolute(link.joint.axis), link.parent, link.at)  # type: ignore[attr-defined]
    return m


def plain_chain() -> ct.Model:
    """Return a chain of 7 links of 1 m, with axes z, y, x, … and full inertias: the chain of the baselines."""
    rng = np.random.default_rng(0)
    m, parent, at = ct.Model("plain chain"), "ground", (0.0, 0.0, 0.0)
    for k in range(7):
        root = rng.normal(size=(3, 3))
        inertia = 0.05 * (root @ root.T)
        m.add(f"link{k}", ct.Body(1.0, (0.0, 0.0, 0.5), inertia + np.trace(inertia) * np.eye(3)), ct.Revolute("zyx"[k % 3]), parent, at)
        parent, at = f"link{k}", (0.0, 0.0, 1.0)
    return m


def mujoco_model(m: ct.Model) -> mujoco.MjModel:
    """Return the same mechanism as a MuJoCo model: RK4, no contacts, no limits; loops by MuJoCo's constraints between points."""

    def numbers(values: Any) -> str:
        return " ".join(f"{x:.17g}" for x in np.ravel(values))

    def joints(joint: Any) -> str:
        if isinstance(joint, (ct.Free, ct.Spherical)):
            return f'<joint type="{"free" if isinstance(joint, ct.Free) else "ball"}"/>'
        axes = (joint.axis1, joint.axis2) if isinstance(joint, ct.Universal) else (joint.axis,)
        kind = "slide" if isinstance(joint, ct.Prismatic) else "hinge"
        return "".join(f'<joint type="{kind}" axis="{numbers(axis)}"/>' for axis in axes)

    children: dict[str, list[Any]] = {}
    for link in m.links:
        children.setdefault(link.parent, []).append(link)
    without = ("contact", "limit", "frictionloss", "actuation", "energy", *(() if m.has_loops else ("constraint", "equality")))
    flags = " ".join(f'{name}="disable"' for name in without)
    text = [
        f'<mujoco><compiler angle="radian" balanceinertia="false" boundmass="0" boundinertia="1e-12" inertiafromgeom="false"/>'
        f'<option timestep="{STEP}" integrator="RK4" gravity="{numbers(m.gravity)}"><flag {flags}/></option>'
        f"<worldbody>"
    ]
    quat, waiting = np.zeros(4), children["ground"][::-1]
    while waiting:
        link = waiting.pop()
        if link is None:
            text.append("</body>")
            continue
        mujoco.mju_mat2Quat(quat, np.ascontiguousarray(link.at.R).ravel())
        J = np.array(link.body.inertia)
        moments = np.diag(J), [J[0, 1], J[0, 2], J[1, 2]]
        inertia = f'fullinertia="{numbers(np.concatenate(moments))}"' if np.any(moments[1]) else f'diaginertia="{numbers(moments[0])}"'
        text.append(
            f'<body name="{link.name}" pos="{numbers(link.at.p)}" quat="{numbers(quat)}">{joints(link.joint)}'
            f'<inertial mass="{link.body.mass:.17g}" pos="{numbers(link.body.com)}" {inertia}/>'
        )
        waiting += [None, *children.get(link.name, [])[::-1]]
    text.append("</worldbody><equality>")
    text += [f'<connect body1="{loop.a}" body2="{loop.b}" anchor="0 0 0"/>' for loop in m.loops]
    model = mujoco.MjModel.from_xml_string("".join([*text, "</equality></mujoco>"]))
    for i, loop in enumerate(m.loops):
        model.eq_data[i, :6] = [*loop.at_a.p, *loop.at_b.p]
    return model


def pinocchio_rk4(model: pin.Model, q: np.ndarray, v: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the state after so many RK4 steps: a loop in Python, as a user of Pinocchio writes it."""
    data, tau, h, aba = model.createData(), np.zeros(model.nv), STEP, pin.aba
    q, v = q.copy(), v.copy()
    for _ in range(steps):
        a1 = aba(model, data, q, v, tau).copy()
        v2 = v + (0.5 * h) * a1
        a2 = aba(model, data, q + (0.5 * h) * v, v2, tau).copy()
        v3 = v + (0.5 * h) * a2
        a3 = aba(model, data, q + (0.5 * h) * v2, v3, tau).copy()
        v4 = v + h * a3
        a4 = aba(model, data, q + h * v3, v4, tau)
        q = q + (h / 6.0) * (v + 2.0 * v2 + 2.0 * v3 + v4)
        v = v + (h / 6.0) * (a1 + 2.0 * a2 + 2.0 * a3 + a4)
    return q, v


def measure(m: ct.Model, trajectories: int, steps: int, seconds: float) -> list[results.Row]:
    """Return the figures of one model."""
    rng = np.random.default_rng(1)
    q, v = rng.uniform(-1.0, 1.0, (trajectories, m.nq)), 0.5 * rng.normal(size=(trajectories, m.nv))
    peer, other = mujoco_model(m), Pinocchio(m).model
    data = mujoco.MjData(peer)
    states = np.concatenate([np.zeros((trajectories, 1)), q, v], axis=1)

    def ours(count: int, steps: int, threads: int = 1) -> Callable[[], ct.Rollout]:
        return lambda: ct.rollout(m, q[:count], v[:count], step=STEP, steps=steps, threads=threads)

    def theirs(count: int, steps: int) -> Callable[[], np.ndarray]:
        runner, out = mujoco_rollout.Rollout(nthread=0), np.zeros((count, steps, states.shape[1]))  # written to again and again
        return lambda: runner.rollout([peer], [data], states[:count], nstep=steps, state=out)[0]

    # the same motion, to begin with
    near = 200
    last, there = ours(4, near)(), theirs(4, near)()
    python = pinocchio_rk4(other, q[0], v[0], near)
    spread = {
        "spread_MuJoCo": float(np.abs(last.q[:, -1] - there[:, -1, 1 : 1 + m.nq]).max()),
        "spread_Pinocchio": float(np.abs(last.q[0, -1] - python[0]).max()),
    }
    few = 4000
    counts = {"catena": few, "MuJoCo": few, "Pinocchio": few // 40}
    single = {"catena": ours(1, few), "MuJoCo": theirs(1, few), "Pinocchio": lambda: pinocchio_rk4(other, q[0], v[0], few // 40)}
    one = {name: 1e6 * time / counts[name] for name, time in machine.fastest(single, seconds).items()}
    # MuJoCo's time is proportional to the trajectories: a tenth of them gives it as many turns
    counts = {"catena": trajectories, "two": trajectories, "MuJoCo": trajectories // 10}
    many = {"catena": ours(trajectories, steps), "two": ours(trajectories, steps, 2), "MuJoCo": theirs(counts["MuJoCo"], steps)}
    all_ = {name: 1e6 * time / (steps * counts[name]) for name, time in machine.fastest(many, 2 * seconds).items()}
    two = all_.pop("two")
    return [
        results.row(m.name, "a step of RK4, one trajectory", one.pop("catena"), one, **spread),
        results.row(m.name, "a step of RK4, many trajectories, two threads", two, speedup=all_["catena"] / two),
        results.row(m.name, "a step of RK4, many trajectories", all_.pop("catena"), all_, trajectories=trajectories, steps=steps),
    ]


def main() -> None:
    """Measure, print and write the figures."""
    options = results.parser(__doc__, "shorter repeats, fewer trajectories").parse_args()
    trajectories, steps, seconds = (200, 200, 1.0) if options.quick else (1000, 1000, 6.0)
    general = chain(7)
    general.name = "general chain"
    rows = [row for m in (plain_chain(), arm(), general) for row in measure(m, trajectories, steps, seconds)]
    results.report("simulation", rows, options)


if __name__ == "__main__":
    main()
