"""Kinematics and inverse kinematics: catena beside Pinocchio and MuJoCo, same states and targets, one run, one core.

    python benchmarks/kinematics.py [--quick] [--json FILE]

First velocities and accelerations of a frame, its Jacobian, the centre of mass and the centroidal momentum, of a batch in one call, against
Pinocchio's functions, which are called from Python state by state. Times are minima over rounds in which both take turns.

Then inverse kinematics of random reachable poses of the arm of seven hinges: catena's one call; damped least squares as Pinocchio's
example has it, called from Python with the error and the Jacobian of its logarithm; and the same on MuJoCo's Jacobians. All begin at the
same positions, and begin again at the same random ones where they do not arrive, with the same limit of starts. A pose is solved where
position and rotation are within 1e-8. Last, Delta and Stewart platforms, whose loops catena closes in the same call.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("CATENA_CACHE_DIR", "off")

import machine
import mujoco
import numpy as np
import pinocchio as pin
import results

import catena as ct
from catena.comparison.peers import Pinocchio
from catena.examples import EXAMPLES

#: States of a batch, starts of inverse kinematics, steps of the peers from each, and what counts as solved [m, rad].
STATES, STARTS, STEPS, SOLVED = 1024, 40, 100, 1e-8

#: Where Pinocchio's example damps its steps, and how long they are.
DAMPING, SHARE = 1e-6, 1.0


def kernels(m: ct.Model, count: int, seconds: float) -> list[results.Row]:
    """Return the times of kernels of a tree for a state [us], and Pinocchio's."""
    peer, frame = Pinocchio(m), m.body_names[-1]
    rng = np.random.default_rng(0)
    q, v, vdot = m.random(rng, count), rng.normal(size=(count, m.nv)), rng.normal(size=(count, m.nv))
    model, data, (joint, _) = peer.model, peer.data, peer.carried[frame]
    theirs = []
    for state in zip(q, v, vdot, strict=True):
        position, T, drift = peer.state(*state[:2])
        theirs.append((position, T @ state[1], T @ state[2] + drift))
    world = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED

    def velocity(q: Any, v: Any, a: Any) -> None:
        pin.forwardKinematics(model, data, q, v)
        pin.getVelocity(model, data, joint, world)

    def acceleration(q: Any, v: Any, a: Any) -> None:
        pin.forwardKinematics(model, data, q, v, a)
        pin.getClassicalAcceleration(model, data, joint, world)

    cases: dict[str, tuple[ct.Kernel, tuple, Callable[..., Any]]] = {
        "frame_velocity": (ct.frame_velocity(m, frame), (q, v), velocity),
        "frame_acceleration": (ct.frame_acceleration(m, frame), (q, v, vdot), acceleration),
        "jacobian": (ct.jacobian(m, frame), (q,), lambda q, v, a: pin.computeJointJacobian(model, data, q, joint)),
        "center_of_mass": (ct.center_of_mass(m), (q,), lambda q, v, a: pin.centerOfMass(model, data, q, False)),
        "its jacobian": (ct.center_of_mass(m, "jacobian"), (q,), lambda q, v, a: pin.jacobianCenterOfMass(model, data, q, False)),
        "centroidal_momentum": (ct.centroidal_momentum(m), (q, v), lambda q, v, a: pin.computeCentroidalMomentum(model, data, q, v)),
        "its rate": (
            ct.centroidal_momentum(m, "rate"), (q, v, vdot),
            lambda q, v, a: pin.computeCentroidalMomentumTimeVariation(model, data, q, v, a),
        ),
        "its matrix": (ct.centroidal_momentum(m, "matrix"), (q,), lambda q, v, a: pin.ccrba(model, data, q, v)),
    }  # fmt: skip
    rows = []
    for name, (kernel, arrays, function) in cases.items():
        out = kernel(*arrays)

        def ours(kernel: Any = kernel, arrays: Any = arrays, out: Any = out) -> None:
            kernel(*arrays, out=out)

        def peers(function: Any = function) -> None:
            for state in theirs:
                function(*state)

        best = {key: 1e6 * value / count for key, value in machine.fastest({"catena": ours, "Pinocchio": peers}, seconds).items()}
        rows.append(results.row(m.name, name, best.pop("catena"), best, states=count))
    return rows


def by_pinocchio(m: ct.Model, T: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return positions by damped least squares, as in Pinocchio's example, with restarts."""
    peer = Pinocchio(m)
    model, data, (joint, offset) = peer.model, peer.data, peer.carried["hand"]
    found = np.zeros((len(T), m.nq))
    for i, matrix in enumerate(T):
        goal = pin.SE3(matrix[:3, :3], matrix[:3, 3]) * offset.inverse()
        for start in starts:
            q = start.copy()
            for _ in range(STEPS):
                pin.forwardKinematics(model, data, q)
                error = data.oMi[joint].actInv(goal)
                e = pin.log6(error).vector
                if np.abs(e).max() < 0.1 * SOLVED:
                    break
                J = -pin.Jlog6(error.inverse()) @ pin.computeJointJacobian(model, data, q, joint)
                q = pin.integrate(model, q, -SHARE * J.T @ np.linalg.solve(J @ J.T + DAMPING * np.eye(6), e))
            if np.abs(e).max() < 0.1 * SOLVED:
                break
        found[i] = q
    return found


def by_mujoco(m: ct.Model, T: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return positions by damped least squares on MuJoCo's Jacobians, with restarts; its coordinates are catena's."""
    bodies, close = "", ""
    for link in m.links:
        at, quat = " ".join(map(repr, link.at.p.tolist())), np.zeros(4)
        mujoco.mju_mat2Quat(quat, link.at.R.ravel())
        axis = " ".join(map(repr, link.joint.axis))  # type: ignore[attr-defined]
        bodies += f'<body name="{link.name}" pos="{at}" quat="{" ".join(map(repr, quat.tolist()))}">'
        bodies += f'<joint axis="{axis}"/><geom size="0.01" mass="1"/>'
        close += "</body>"
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{bodies}{close}</worldbody></mujoco>")
    data, body = mujoco.MjData(model), m.body_names.index("hand") + 1
    found, J, turn, quat = np.zeros((len(T), m.nq)), np.zeros((6, m.nv)), np.zeros(3), np.zeros(4)
    goal, back, apart = np.zeros(4), np.zeros(4), np.zeros(4)
    for i, matrix in enumerate(T):
        mujoco.mju_mat2Quat(goal, matrix[:3, :3].ravel())
        for start in starts:
            data.qpos[:] = start
            for _ in range(STEPS):
                mujoco.mj_kinematics(model, data)
                mujoco.mj_comPos(model, data)
                mujoco.mju_negQuat(back, data.xquat[body])
                mujoco.mju_mulQuat(apart, goal, back)
                mujoco.mju_quat2Vel(turn, apart, 1.0)
                e = np.concatenate([matrix[:3, 3] - data.xpos[body], turn])
                if np.abs(e).max() < 0.1 * SOLVED:
                    break
                mujoco.mj_jacBody(model, data, J[:3], J[3:], body)
                data.qpos += SHARE * J.T @ np.linalg.solve(J @ J.T + DAMPING * np.eye(6), e)
            if np.abs(e).max() < 0.1 * SOLVED:
                break
        found[i] = data.qpos
    return found


def arm(count: int, few: int) -> list[results.Row]:
    """Return how many poses of the arm are solved, and the mean time of each [us]; of the peers a few."""
    m = EXAMPLES["arm"]()
    rng = np.random.default_rng(1)
    T = ct.poses(m, of="hand")(m.random(rng, count))
    starts = np.concatenate([m.search_start()[None], m.random(rng, STARTS)])
    searches: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "catena": lambda T: ct.inverse_kinematics(m, {"hand": T}, starts=STARTS).q,
        "Pinocchio": lambda T: by_pinocchio(m, T, starts),
        "MuJoCo": lambda T: by_mujoco(m, T, starts),
    }
    searches["catena"](T[:8])  # which compiles
    us, figures = {}, {}
    for name, search in searches.items():
        goals = T if name == "catena" else T[:few]
        seconds, q = np.inf, np.zeros((0, m.nq))
        for _ in range(3 if name == "catena" else 1):
            started = time.perf_counter()
            q = search(goals)
            seconds = min(seconds, time.perf_counter() - started)
        off = np.abs(ct.poses(m, of="hand")(q) - goals).max(axis=(1, 2))
        us[name] = 1e6 * seconds / len(goals)
        figures |= {f"poses_{name}": len(goals), f"solved_{name}": int((off <= SOLVED).sum())}
    return [results.row(m.name, "inverse kinematics", us.pop("catena"), us, **figures)]


def platforms(count: int) -> list[results.Row]:
    """Return how many poses of platforms are solved, the mean time of each [us], and how far loops are open."""
    rows = []
    for name in ("delta", "stewart-ups"):
        m = EXAMPLES[name]()
        home, rng = m.assemble(), np.random.default_rng(2)
        q = np.array([m.assemble(guess=m.integrate(home, m.project_velocity(home, 0.15 * rng.normal(size=m.nv)))) for _ in range(count)])
        T = ct.poses(m, of="platform")(q)
        ct.inverse_kinematics(m, {"platform": T[:4]})
        started = time.perf_counter()
        found = ct.inverse_kinematics(m, {"platform": T})
        seconds = time.perf_counter() - started
        figures = {"poses_catena": count, "solved_catena": int(found.solved.sum()), "loop_error": float(ct.loop_error(m)(found.q).max())}
        rows.append(results.row(name, "inverse kinematics", 1e6 * seconds / count, **figures))
    return rows


def main() -> None:
    """Measure, print and write the figures."""
    options = results.parser(__doc__, "few states and targets, briefly, as a check").parse_args()
    seconds, count = (0.05, 64) if options.quick else (1.0, STATES)
    rows = [row for name in ("arm", "humanoid")[: 1 if options.quick else 2] for row in kernels(EXAMPLES[name](), count, seconds)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ct.ConvergenceWarning)
        rows += arm(20, 2) if options.quick else arm(1000, 200)
        rows += platforms(4 if options.quick else 100)
    results.report("kinematics", rows, options)


if __name__ == "__main__":
    main()
