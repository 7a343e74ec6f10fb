"""A pole on a cart and a double pendulum are swung up by one motor each: by gradients, by iLQR, and held upright by a regulator.

The same cost, forces to begin with and limits go to SciPy's L-BFGS-B, with the gradient of `ct.rollout_gradient`, and to `ct.ilqr`, which
also has the feedback along the motion. From a start that is a few degrees off, the forces alone miss; with the feedback they arrive, and a
linear-quadratic regulator from `ct.linearize` holds on. Run it with the path of a picture, or it writes swing_up.png to the current
folder. With a second path, such as swing_up.mp4, it writes a film of each as well, swing_up-cart-pole.mp4 and swing_up-double-pendulum.mp4.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scipy.linalg import solve_continuous_are
from scipy.optimize import minimize

import catena as ct
from catena.examples import cart_pole, double_pendulum

STEP, HOLD = 0.02, 2.0  # [s]
BLUE, RED, GREEN = "#0072B2", "#D55E00", "#009E73"


class Task(NamedTuple):
    """A mechanism that hangs, and shall stand at the end of a time [s]: the names of its coordinates, and the limit of its one motor."""

    model: ct.Model
    names: tuple[str, str]
    motor: str
    limit: float  # [N], [N m]
    hanging: np.ndarray
    standing: np.ndarray
    duration: float
    first: Callable[[np.ndarray], np.ndarray]  # the force to begin with, over time
    final_cost: Callable[[Any, Any, Any], Any]
    off: np.ndarray  # of another start

    @property
    def steps(self) -> int:
        return round(self.duration / STEP)

    @property
    def at(self) -> int:
        return self.model.v_names.index(self.motor)

    def controls(self, force: np.ndarray) -> np.ndarray:
        """Return joint forces with those of the motor, and none on the other joint."""
        return np.outer(force, np.eye(2)[self.at])

    def nearest(self, q: np.ndarray) -> np.ndarray:
        """Return the upright position with the turns that positions have."""
        turns = np.where(np.array(self.model.q_units) == "rad", np.round((q - self.standing) / (2.0 * np.pi)), 0.0)
        return self.standing + 2.0 * np.pi * turns

    def away(self, q: np.ndarray) -> float:
        """Return the largest angle from upright [degrees]."""
        return float(np.degrees(np.abs(q - self.nearest(q))[np.array(self.model.q_units) == "rad"].max()))


TASKS = (
    Task(
        cart_pole(), ("cart [m]", "pole [rad]"), "cart", 10.0, np.array([0.0, np.pi]), np.zeros(2), 2.0,
        lambda t: 2.0 * np.sin(2.0 * np.pi * t), lambda t, q, v: 100.0 * (1.0 - np.cos(q[1])) + 10.0 * q[0] ** 2 + v @ v,
        np.radians([0.0, 10.0]),
    ),
    Task(
        double_pendulum(), ("upper [rad]", "lower [rad]"), "lower", 10.0, np.array([0.5 * np.pi, 0.0]), np.array([-0.5 * np.pi, 0.0]), 4.0,
        lambda t: 2.0 * np.sin(2.0 * t), lambda t, q, v: 100.0 * (2.0 + np.sin(q[0]) + np.sin(q[0] + q[1])) + 5.0 * (v @ v),
        np.radians([3.0, -3.0]),
    ),
)  # fmt: skip


def effort(t, q, v, tau):
    """Return what a step costs: 0.01 times the integral of the squared force."""
    return 0.01 * STEP * (tau @ tau)


def by_gradients(task: Task) -> tuple[np.ndarray, float, int, float]:
    """Return the forces that L-BFGS-B finds, their cost, the iterations, and the time of one [s].

    The weight of the end grows from search to search: with all of it at once, searches often end far from upright.
    """
    force, bounds = task.first(STEP * np.arange(task.steps)), [(-task.limit, task.limit)] * task.steps
    value, count, seconds = 0.0, 0, 0.0
    for weight in (0.03, 0.3, 1.0):

        def objective(force, weight=weight):
            found = ct.rollout_gradient(
                task.model, task.hanging, controls=task.controls(force), step=STEP, steps=task.steps, cost=effort,
                final_cost=lambda t, q, v: weight * task.final_cost(t, q, v),
            )  # fmt: skip
            return float(found.value), found.controls[:, task.at]

        objective(force)  # compiles
        begun = time.perf_counter()
        found = minimize(objective, force, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 300, "maxcor": 30})
        force, value, count, seconds = found.x, found.fun, count + found.nit, seconds + time.perf_counter() - begun
    return force, value, count, seconds / count


def by_ilqr(task: Task) -> ct.OptimalMotion:
    """Return the motion that iLQR finds."""
    first = task.controls(task.first(STEP * np.arange(task.steps)))
    return ct.ilqr(
        task.model, task.hanging, None, first, step=STEP, cost=effort, final_cost=task.final_cost, actuated=[task.motor],
        limits=(-task.limit, task.limit), tolerance=1e-4,
    )  # fmt: skip


def regulator(task: Task, upright: np.ndarray) -> Callable[[Any, Any, Any], Any]:
    """Return the controller that holds the mechanism upright, by the linear-quadratic regulator of its linearisation."""
    A, B = ct.linearize(task.model, upright, actuated=[task.motor])
    gain = (B.T @ solve_continuous_are(A, B, np.diag([10.0, 10.0, 1.0, 1.0]), [[1.0]]))[0]

    def law(t, q, v):
        force = -gain[:2] @ (q - upright) - gain[2:] @ v
        return np.eye(2)[task.at] * ct.maximum(-task.limit, ct.minimum(task.limit, force))

    return law


def run(task: Task, start: np.ndarray, motion: ct.OptimalMotion, feedback: bool) -> ct.Trajectory:
    """Return the run from a start at rest, first along the motion, then with the regulator."""
    m, move = task.model, ct.stepper(task.model, STEP)
    q, v, tau = [start], [np.zeros(2)], []
    for k in range(task.steps):
        tau.append(motion.force(k, q[k], v[k]) if feedback else motion.controls[k])
        for states, state in zip((q, v), move(q[k], v[k], tau[k]), strict=True):
            states.append(state)
    law = regulator(task, task.nearest(q[-1]))
    held = ct.rollout(m, q[-1], v[-1], law, step=STEP, steps=round(HOLD / STEP), start=task.duration)
    tau += [np.asarray(law(0.0, *state), dtype=float) for state in zip(held.q, held.v, strict=True)]
    t = np.concatenate([motion.t, held.t[1:]])
    return ct.Trajectory(m, t, np.concatenate([q, held.q[1:]]), np.concatenate([v, held.v[1:]]), tau=np.array(tau))


def strobe(axes: Axes, task: Task, motion: ct.OptimalMotion) -> None:
    """Draw the mechanism at equal times of the motion, the later the darker, and the path of its tip."""
    frames = ct.poses(task.model)(motion.q)
    length, along = (0.5, 2) if task.motor == "cart" else (1.0, 0)
    tip = frames[:, 1, :3, 3] + length * frames[:, 1, :3, along]
    axes.plot(tip[:, 0], tip[:, 2], color=RED, linewidth=0.9, alpha=0.8, zorder=1)
    chosen = np.unique(np.linspace(0, task.steps, 17).astype(int))
    for k, shade in zip(chosen, np.linspace(0.82, 0.0, len(chosen)), strict=True):
        points = np.stack([frames[k, 0, :3, 3], frames[k, 1, :3, 3], tip[k]])[:, [0, 2]]
        if task.motor == "cart":
            if k in (0, task.steps):
                axes.add_patch(Rectangle(points[0] - [0.15, 0.05], 0.3, 0.1, facecolor="none", edgecolor=str(shade), linewidth=1.2))
            points = points[1:]
        axes.plot(*points.T, "-", color=str(shade), linewidth=2.2, solid_capstyle="round", zorder=2)
        axes.plot(*points[:-1].T, "o", color="white", markeredgecolor=str(shade), markersize=3.5, zorder=3)
    axes.set(aspect="equal", xlabel="x [m]", ylabel="z [m]")


def main() -> None:
    figure = Figure(figsize=(11.0, 6.6), layout="constrained")
    films = []
    for task, (shape, angles, forces) in zip(TASKS, figure.subplots(2, 3, width_ratios=(1.0, 1.15, 1.15)), strict=True):
        m, unit = task.model, "N" if task.motor == "cart" else "N m"
        force, value, count, seconds = by_gradients(task)
        print(f"{m.name}, L-BFGS-B: cost {value:.3f} after {count} iterations, {1e3 * seconds:.1f} ms each")
        begun = time.perf_counter()
        motion = by_ilqr(task)
        seconds = (time.perf_counter() - begun) / motion.iterations
        print(f"{m.name}, iLQR: cost {motion.cost:.3f} after {motion.iterations} iterations, {1e3 * seconds:.1f} ms each")
        end = ct.rollout(m, task.hanging, None, task.controls(force), step=STEP, steps=task.steps).q[-1]
        print(f"{m.name}: {task.away(end):.1f} and {task.away(motion.q[-1]):.1f} degrees from upright after {task.duration:g} s")
        runs = {law: run(task, task.hanging + task.off, motion, law == "with feedback") for law in ("forces alone", "with feedback")}
        for law, found in runs.items():
            arrived, held = task.away(found.q[task.steps]), task.away(found.q[-1])
            print(f"{m.name}, another start, {law}: {arrived:.1f} degrees from upright, {held:.1f} after {HOLD:g} s more")
        controlled = runs["with feedback"]
        films.append(controlled)

        strobe(shape, task, motion)
        shape.set_title(f"{m.name}, every {task.duration / 16:.3g} s", fontsize="medium")
        for i, color in ((0, BLUE), (1, RED)):
            angles.plot(motion.t, motion.q[:, i], color=color, linewidth=4.0, alpha=0.25)
            angles.plot(controlled.t, controlled.q[:, i], color=color, linewidth=1.2, label=task.names[i])
        angles.set_title("iLQR (wide), and from another start", fontsize="medium")
        forces.step(motion.t[:-1], force, where="post", color=GREEN, linewidth=1.0, label="L-BFGS-B")
        forces.step(motion.t[:-1], motion.controls[:, task.at], where="post", color=BLUE, linewidth=4.0, alpha=0.25, label="iLQR")
        forces.step(controlled.t, controlled.tau[:, task.at], where="post", color=BLUE, linewidth=1.2, label="from another start")
        forces.set_title(f"motor [{unit}]", fontsize="medium")
        forces.set_ylim(-1.5 * task.limit, 1.1 * task.limit)
        side = "right" if task.motor == "cart" else "left"
        for axes, edge, corner in ((angles, "bottom", f"upper {side}"), (forces, "top", "lower right")):
            axes.axvspan(task.duration, task.duration + HOLD, color="0.94", zorder=0)
            at = axes.get_ylim()[edge == "top"]
            axes.text(task.duration + 0.5 * HOLD, at, "held", ha="center", va=edge, fontsize="small", color="0.4")
            axes.set(xlabel="time [s]", xlim=(0.0, task.duration + HOLD))
            axes.legend(fontsize="small", loc=corner)
            axes.grid(alpha=0.25)
        shape.grid(alpha=0.25)
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "swing_up.png", dpi=100)
    if len(sys.argv) > 2:
        path = Path(sys.argv[2])
        for film in films:
            film.animate(path.with_stem(f"{path.stem}-{film.model.name}"), size=(360, 270))


if __name__ == "__main__":
    main()
