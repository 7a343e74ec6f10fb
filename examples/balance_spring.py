"""A spring is shaped by gradients: it balances the weight of a lamp on a parallelogram over all of its range.

The mean square of the torque that holds the lamp is minimised over stiffness, free length and both ends of the spring, with exact
derivatives. A spring of free length 0 balances the weight exactly: its stiffness times the distances of both ends from the hinge, k a b, is
the moment of the weight, m g l. A spring of 0.1 m free length comes near to it. Run it with the path of a picture, or it writes
balance_spring.png to the current folder.
"""

import sys

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import OptimizeResult, least_squares

import catena as ct

ANGLES = np.radians(np.linspace(-45.0, 70.0, 116))
AT_REST = np.zeros(3)

# stiffness [N/m], free length [m], and x and z [m] of both ends: on the post, and on the arm
NAMES = ("stiffness", "free length", "post x", "post z", "arm x", "arm z")
START = np.array([300.0, 0.12, 0.0, 0.15, 0.15, 0.0])
LOWEST = np.array([50.0, 0.0, -0.15, 0.05, 0.05, -0.05])
HIGHEST = np.array([3000.0, 0.3, 0.15, 0.30, 0.40, 0.05])


def lamp() -> ct.Model:
    """Return a lamp on two parallel rods, arm and stay, so that its head does not turn; the spring follows the parameter "spring"."""
    m = ct.Model("lamp")
    stiffness, length, post_x, post_z, arm_x, arm_z = m.parameter("spring", START)
    hinge = ct.Revolute("-y")  # positive angles lead upwards
    m.add("arm", ct.rod(0.45, mass=0.4), hinge)
    m.add("stay", ct.rod(0.45, mass=0.3), hinge, at=(0, 0, 0.06))
    m.add("head", ct.Body(0.9, com=(0.12, 0, -0.02)), hinge, parent="arm", at=(0.45, 0, 0))
    m.close("pin", hinge, "head", "stay", at_a=(0, 0, 0.06), at_b=(0.45, 0, 0))
    m.add_spring("coil", "ground", "arm", (post_x, 0, post_z), (arm_x, 0, arm_z), stiffness=stiffness, length=length)
    return m


class Holding:
    """The torque on the arm [N m] that holds the lamp at all angles, and its derivative by the numbers of the spring."""

    def __init__(self, m: ct.Model) -> None:
        self.q = ct.reduced(m, ["arm"]).positions(ANGLES[:, None])
        self.hold = ct.inverse_dynamics(m, actuated=["arm"], parameters="spring")
        self.by_spring = self.hold.jacobian("tau", "spring")

    def torque(self, spring: np.ndarray) -> np.ndarray:
        return self.hold(self.q, AT_REST, AT_REST, spring)[:, 0]

    def jacobian(self, spring: np.ndarray) -> np.ndarray:
        return self.by_spring(self.q, AT_REST, AT_REST, spring)[:, 0]

    def balanced(self, shortest: float) -> OptimizeResult:
        """Return the spring of least torque whose free length is at least so long [m]."""
        bounds = (np.array([LOWEST[0], shortest, *LOWEST[2:]]), HIGHEST)
        return least_squares(self.torque, START, self.jacobian, bounds, x_scale=HIGHEST - LOWEST, xtol=1e-12, ftol=1e-12, gtol=1e-12)


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def draw(axes: Axes, m: ct.Model, holding: Holding, spring: np.ndarray) -> None:
    """Draw the lamp at three angles, with its spring."""
    post, end = spring[2:4], np.array([spring[4], 0.0, spring[5], 1.0])
    poses = ct.poses(m)(holding.q)
    axes.plot([0, 0], [-0.3, max(0.06, post[1])], color="0.3", linewidth=5.0, solid_capstyle="butt")
    axes.plot([-0.12, 0.12], [-0.3, -0.3], color="0.3", linewidth=7.0)
    for i, alpha in ((0, 0.3), (len(ANGLES) - 1, 0.3), (60, 1.0)):
        frames = dict(zip(m.body_names, poses[i], strict=True))
        head = frames["head"][[0, 2], 3]
        for foot, tip in ((frames["arm"][[0, 2], 3], head), (frames["stay"][[0, 2], 3], head + [0, 0.06])):
            axes.plot(*np.transpose([foot, tip]), color="#0072B2", linewidth=2.5, alpha=alpha, solid_capstyle="round")
        axes.plot(*np.transpose([head, head + [0, 0.06]]), "o-", color="#0072B2", markersize=4, linewidth=2.0, alpha=alpha)
        shade = np.array([[0.0, 0.03], [0.09, 0.03], [0.07, 0.01], [0.05, -0.06], [0.19, -0.06], [0.17, 0.01], [0.15, 0.03], [0.09, 0.03]])
        axes.fill(*(head + shade).T, facecolor="#F0E442", edgecolor="#0072B2", linewidth=1.2, alpha=alpha)
        lug, hook = (frames["arm"] @ (end * [1, 0, 0, 1]))[[0, 2]], (frames["arm"] @ end)[[0, 2]]
        axes.plot(*np.transpose([lug, hook]), color="#0072B2", linewidth=2.0, alpha=alpha)
        along = hook - post
        across = np.array([-along[1], along[0]]) / np.linalg.norm(along)
        wire = np.linspace(0.0, 1.0, 41)[:, None]
        swing = 0.011 * np.where((wire > 0.12) & (wire < 0.88), (-1.0) ** np.arange(41)[:, None], 0.0)
        axes.plot(*(post + wire * along + swing * across).T, color="#D55E00", linewidth=1.1, alpha=alpha)
        axes.plot(*np.transpose([post, hook]), ".", color="#D55E00", markersize=6, alpha=alpha)
    axes.set_aspect("equal")
    axes.set(xlabel="x [m]", ylabel="z [m]", xlim=(-0.15, 0.72), ylim=(-0.5, 0.56))
    axes.set_title("with the best spring of 0.1 m", fontsize="medium")
    axes.grid(alpha=0.25)


def main() -> None:
    m = lamp()
    holding = Holding(m)
    alone, first = holding.torque(np.array([0.0, *START[1:]])), holding.torque(START)
    ideal, real = holding.balanced(0.0), holding.balanced(0.1)
    print(f"torque that holds the lamp: {rms(alone):.3f} N m without a spring, {rms(first):.3f} with the first (rms)")
    for name, found in (("free length from 0 on", ideal), ("free length from 0.1 m on", real)):
        print(f"{name}: {rms(found.fun):.2g} N m after {found.njev} iterations")
        print("   " + ", ".join(f"{what} {value:.4g}" for what, value in zip(NAMES, found.x, strict=True)))
    stiffness, _, *ends = ideal.x
    (post_x, post_z), (arm_x, arm_z) = ends[:2], ends[2:]
    moment = 9.81 * (0.4 * 0.225 + 0.3 * 0.225 + 0.9 * 0.45)
    print(f"k a b = {stiffness * (post_z * arm_x - post_x * arm_z):.6f} N m, m g l = {moment:.6f} N m")

    figure = Figure(figsize=(10.0, 4.8), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(0.85, 1.0))
    draw(figure.add_subplot(grid[:, 0]), m, holding, real.x)
    upper, lower = figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])
    degrees = np.degrees(ANGLES)
    for torque, color, label in (
        (alone, "0.6", "without a spring"),
        (first, "#56B4E9", "first spring"),
        (real.fun, "#D55E00", "best of 0.1 m"),
        (ideal.fun, "#009E73", "best of free length 0"),
    ):
        upper.plot(degrees, torque, color=color, linewidth=1.5, label=label)
    lower.plot(degrees, 1e3 * real.fun, color="#D55E00", linewidth=1.5)
    lower.plot(degrees, 1e3 * ideal.fun, color="#009E73", linewidth=1.5)
    upper.set(ylabel="holding torque [N m]", ylim=(-0.5, 9.0))
    upper.legend(fontsize="small", frameon=False, ncols=2, loc="upper left")
    lower.set(xlabel="arm [degrees]", ylabel="the same [mN m]")
    for axes in (upper, lower):
        axes.set(xlim=(-45, 70))
        axes.grid(alpha=0.25)
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "balance_spring.png", dpi=100)


if __name__ == "__main__":
    main()
