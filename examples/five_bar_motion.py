"""The five-bar robot goes from point to point in 0.6 s with the least effort, the integral of its squared torques.

A quintic path of the motors with the torques of inverse dynamics is where the searches begin, and what they are compared with. SciPy's
SLSQP takes torques at 21 times, and meets the four conditions of the end exactly: one call of `ct.rollout_gradient` has the gradients of
the effort and of all conditions. `ct.ilqr` takes all torques, and the end as a part of its cost. Loops stay closed throughout. Run it with
the path of a picture, or it writes five_bar_motion.png to the current folder.
"""

import sys

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import minimize

import catena as ct
from catena.examples import ACTUATED, five_bar_robot

DURATION, STEP = 0.6, 0.005  # [s]
STEPS, KNOTS = round(DURATION / STEP), 21
BLUE, GREEN, GREY = "#0072B2", "#009E73", "0.5"
WIDE = {"SLSQP": {"linewidth": 5.0, "alpha": 0.35}}

m = five_bar_robot()
motors = ACTUATED["five-bar-robot"]
at = [m.v_names.index(motor) for motor in motors]
weights = m.parameter("weights", np.zeros(5))  # of the effort, and of the four conditions of the end


def place(first: float, second: float) -> np.ndarray:
    """Return the positions with the tip above, and the motors at two angles [degrees]."""
    angles = np.radians([first, second])
    return m.assemble([angles[0], -0.3, angles[1], 1.4], fixed=dict(zip(motors, angles, strict=True)))


begin, end = place(40.0, 20.0), place(120.0, 100.0)
# a torque at each knot, and a straight line between two; held over a step, it has the value at the middle
spline = np.stack([np.interp((np.arange(STEPS) + 0.5) / STEPS, np.linspace(0.0, 1.0, KNOTS), unit) for unit in np.eye(KNOTS)], axis=1)


def on_motors(torques: np.ndarray) -> np.ndarray:
    """Return joint forces with those of the motors, and none on the others."""
    return torques @ np.eye(m.nv)[at]


def quintic() -> tuple[np.ndarray, np.ndarray]:
    """Return the torques along a quintic path of the motors, and the positions (STEPS + 1, nq)."""
    legs, path = ct.reduced(m, motors), ct.polynomial(begin[at], end[at], DURATION)
    middle = STEP * (np.arange(STEPS) + 0.5)
    q = legs.positions(path(middle).position, guess=begin)
    v = legs.rates(q, path(middle).rate)
    torques = ct.inverse_dynamics(m, actuated=motors)(q, v, legs.accelerations(q, v, path(middle).acceleration))[:, at]
    return torques, legs.positions(path(STEP * np.arange(STEPS + 1)).position, guess=begin)


def by_gradients(first: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the torques of SLSQP, which begins with others, and its iterations."""
    known: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    def found(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return effort and conditions (5,), and their gradients (5, variables): five trajectories, each with one of the weights."""
        if x.tobytes() not in known:
            controls = on_motors(spline @ x.reshape(KNOTS, 2))
            result = ct.rollout_gradient(
                m, begin, controls=np.broadcast_to(controls, (5, STEPS, m.nv)), step=STEP, steps=STEPS, parameters={"weights": np.eye(5)},
                cost=lambda t, q, v, tau: weights[0] * STEP * (tau @ tau),
                final_cost=lambda t, q, v: weights[1:3] @ (q - end)[at] + weights[3:] @ v[at],
            )  # fmt: skip
            known.clear()
            known[x.tobytes()] = result.value, (spline.T @ result.controls[..., at]).reshape(5, -1)
        return known[x.tobytes()]

    knots = np.linalg.lstsq(spline, first, rcond=None)[0].ravel()
    scale = found(knots)[0][0]
    best = minimize(
        lambda x: found(x)[0][0] / scale, knots, jac=lambda x: found(x)[1][0] / scale,
        constraints={"type": "eq", "fun": lambda x: found(x)[0][1:], "jac": lambda x: found(x)[1][1:]}, method="SLSQP",
        options={"ftol": 1e-9, "maxiter": 200},
    )  # fmt: skip
    return spline @ best.x.reshape(KNOTS, 2), best.nit


def by_ilqr(first: np.ndarray) -> ct.OptimalMotion:
    """Return the motion of iLQR, which begins with these torques."""
    return ct.ilqr(
        m, begin, None, on_motors(first), step=STEP, actuated=motors, cost=lambda t, q, v, tau: STEP * (tau @ tau),
        final_cost=lambda t, q, v: 1e6 * ((q - end)[at] @ (q - end)[at]) + 1e4 * (v[at] @ v[at]),
    )  # fmt: skip


def tips(q: np.ndarray) -> np.ndarray:
    """Return the points of the bars (..., 5, 2), from foot to foot; the tip is the third."""
    frames = ct.poses(m)(q)
    tip = frames[..., 1, :3, 3] + 1.1 * frames[..., 1, :3, 0]
    return np.stack([frames[..., 0, :3, 3], frames[..., 1, :3, 3], tip, frames[..., 3, :3, 3], frames[..., 2, :3, 3]], axis=-2)[..., [0, 2]]


def shape(axes: Axes, motions: dict[str, np.ndarray], colors: dict[str, str]) -> None:
    """Draw the robot at both ends and on its way, and the paths of its tip."""
    q = motions["iLQR"]
    for k in np.linspace(0, STEPS, 7).astype(int):
        ends = k in (0, STEPS)
        axes.plot(*tips(q[k]).T, "o-", color="0.15" if ends else "0.8", linewidth=2.0 if ends else 1.0, markersize=4 if ends else 2.5)
    for name, q in motions.items():
        axes.plot(*tips(q)[:, 2].T, color=colors[name], **WIDE.get(name, {"linewidth": 1.6}), label=name)
    axes.set(aspect="equal", xlabel="x [m]", ylabel="z [m]", ylim=(-0.35, 1.45), title="the robot by iLQR, and paths of its tip")


def main() -> None:
    torques, moved = quintic()
    found, count = by_gradients(torques)
    motion = by_ilqr(torques)
    forces = {"quintic": torques, "SLSQP": found, "iLQR": motion.controls[:, at]}
    run = ct.rollout(m, begin, None, on_motors(found), step=STEP, steps=STEPS)
    positions = {"quintic": moved, "SLSQP": run.q, "iLQR": motion.q}
    effort = {name: STEP * (x**2).sum() for name, x in forces.items()}
    print(f"quintic path: effort {effort['quintic']:.1f} N² m² s")
    for name, iterations in (("SLSQP", count), ("iLQR", motion.iterations)):
        less = 100.0 * (1.0 - effort[name] / effort["quintic"])
        off = np.degrees(np.abs(positions[name][-1] - end).max())
        print(f"{name}: effort {effort[name]:.1f} N² m² s, {less:.1f} % less, after {iterations} iterations; {off:.4f} degrees off the end")
    closed = max(ct.loop_error(m)(q).max() for q in positions.values())
    print(f"loops are closed to 1e-12 m: {bool(closed < 1e-12)}")

    colors = {"quintic": GREY, "SLSQP": GREEN, "iLQR": BLUE}
    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    left, first, second = figure.subplots(1, 3, width_ratios=(1.25, 1.0, 1.0))
    shape(left, positions, colors)
    left.legend(fontsize="small", loc="lower center", ncols=3)
    t = STEP * (np.arange(STEPS) + 0.5)
    for i, axes in enumerate((first, second)):
        for name, color in colors.items():
            axes.plot(t, forces[name][:, i], color=color, **WIDE.get(name, {"linewidth": 1.4}), label=f"{name}: {effort[name]:.0f} N² m² s")
        axes.set(xlabel="time [s]", xlim=(0.0, DURATION), title=f"torque of motor {i + 1} [N m]")
    low = min(axes.get_ylim()[0] for axes in (first, second))
    high = max(axes.get_ylim()[1] for axes in (first, second))
    for axes in (first, second):
        axes.set_ylim(low, high)
    second.legend(title="effort of both", fontsize="small", title_fontsize="small")
    for axes in (left, first, second):
        axes.title.set_fontsize("medium")
        axes.grid(alpha=0.25)
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "five_bar_motion.png", dpi=100)


if __name__ == "__main__":
    main()
