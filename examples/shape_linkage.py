"""A four-bar is shaped by gradients: a finger on its coupler pushes parcels along a table, and goes back above them.

For half of the crank's turn the finger shall move along the table at constant speed, then return in a low arch. A four-bar can only come
near to this. Ten numbers of it are parameters of the model: least squares find them with the exact derivative of the finger's path, in
which the joints follow the lengths. Run it with the path of a picture, or it writes shape_linkage.png to the current folder.
"""

import sys

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import least_squares

import catena as ct

STROKE, LIFT = 0.3, 0.06  # [m]

# Three slacks above zero let the crank turn fully (Grashof), whatever the rest is: so every design within simple bounds goes together.
NAMES = ("crank", "slack1", "slack2", "slack3", "pivot x", "pivot z", "tilt", "phase", "finger x", "finger z")
START = np.array([0.08, 0.15, 0.10, 0.10, 0.10, -0.25, 3.0, 1.2, 0.25, 0.10])
LOWEST = np.array([0.03, 0.03, 0.03, 0.03, -0.5, -0.5, -np.inf, -np.inf, -0.5, -0.5])
HIGHEST = np.array([0.20, 0.50, 0.50, 0.50, 0.5, -0.1, np.inf, np.inf, 0.5, 0.5])


def linkage() -> ct.Model:
    """Return the four-bar; its numbers follow the parameter "design"."""
    m = ct.Model("pusher")
    crank, slack1, slack2, slack3, x, z, tilt, phase, along, across = m.parameter("design", START)
    coupler, rocker, ground = crank + 0.5 * (slack1 + slack3), crank + 0.5 * (slack1 + slack2), crank + 0.5 * (slack2 + slack3)
    hinge = ct.Revolute("y")
    m.add("frame", ct.point_mass(0.0), ct.Fixed(), at=ct.Pose((x, 0, z), rpy=(0, tilt, 0)))
    m.add("crank", ct.rod(crank, mass=0.2), hinge, parent="frame", at=ct.Pose(rpy=(0, phase, 0)))
    m.add("coupler", ct.rod(coupler, mass=0.5), hinge, parent="crank", at=(crank, 0, 0))
    m.add("rocker", ct.rod(rocker, mass=0.4), hinge, parent="frame", at=(ground, 0, 0))
    m.add("finger", ct.point_mass(0.1), ct.Fixed(), parent="coupler", at=(along, 0, across))
    m.close("pin", hinge, "coupler", "rocker", at_a=(coupler, 0, 0), at_b=(rocker, 0, 0))
    return m


def wanted(turn: np.ndarray) -> np.ndarray:
    """Return where the finger shall be (..., 2), x and z, at parts of a turn from 0 to 1."""
    u = (2.0 * turn) % 1.0  # of the push, then of the return, which begins and ends at the speed of the push
    back = 0.5 - u + np.sin(2.0 * np.pi * u) / np.pi
    x = STROKE * np.where(turn < 0.5, u - 0.5, back)
    return np.stack([x, np.where(turn < 0.5, 0.0, 0.5 * LIFT * (1.0 - np.cos(2.0 * np.pi * u)))], axis=-1)


class Path:
    """The path of the finger for a design, less the path wanted, and its derivative by the design."""

    def __init__(self, m: ct.Model, turn: np.ndarray) -> None:
        self.finger, self.angles, self.wanted = m.body_names.index("finger"), 2.0 * np.pi * turn[:, None], wanted(turn)
        self.weights = np.where(turn < 0.5, 1.0, 0.4)[:, None]  # the push matters more than the return
        self.crank = ct.reduced(m, ["crank"], parameters="design")
        self.poses = ct.poses(m, parameters="design")
        self.slopes = self.poses.jacobian("poses", ("q", "design"))
        self.follow = self.crank.sensitivity("design")

    def positions(self, design: np.ndarray) -> np.ndarray:
        """Return the joint angles at all angles of the crank."""
        return self.crank.positions(self.angles, design=design)

    def off(self, design: np.ndarray) -> np.ndarray:
        """Return how far the finger is from where it shall be (angles, 2)."""
        return self.poses(self.positions(design), design)[:, self.finger, [0, 2], 3] - self.wanted

    def residual(self, design: np.ndarray) -> np.ndarray:
        return (self.weights * self.off(design)).ravel()

    def jacobian(self, design: np.ndarray) -> np.ndarray:
        q = self.positions(design)
        by_q, by_design = (slope[:, self.finger, [0, 2], 3] for slope in self.slopes(q, design))
        total = by_design + by_q @ self.follow(q, design)  # the joints follow the lengths, the crank held
        return (self.weights[..., None] * total).reshape(-1, len(design))


def draw(axes: Axes, m: ct.Model, path: Path, design: np.ndarray, title: str) -> None:
    """Draw the linkage at three angles of the crank, the path of its finger every 15 degrees, and the path wanted."""
    fine = np.linspace(0.0, 1.0, 241)
    q = path.crank.positions(2.0 * np.pi * fine[:, None], design=design)
    frames = dict(zip(m.body_names, np.moveaxis(path.poses(q, design), 1, 0), strict=True))
    arm = m.with_values({"design": design}).parameters()["pin.at_a.xyz"].value
    crank, coupler, rocker, finger = (frames[name][:, [0, 2], 3] for name in ("crank", "coupler", "rocker", "finger"))
    pin = (frames["coupler"] @ [*arm, 1.0])[:, [0, 2]]
    axes.axhspan(-0.012, 0.0, color="0.85", linewidth=0.0, zorder=0)
    axes.plot(*wanted(fine).T, color="0.6", linewidth=3.5, solid_capstyle="round", label="wanted")
    axes.plot(*finger.T, color="#D55E00", linewidth=1.2, label="finger, every 15° of the crank")
    axes.plot(*finger[::10].T, ".", color="#D55E00", markersize=5.0)
    for i, alpha in ((20, 0.3), (100, 0.3), (60, 1.0)):
        axes.fill(*np.transpose([coupler[i], pin[i], finger[i]]), facecolor="#9CCBEA", edgecolor="#0072B2", alpha=alpha, linewidth=1.2)
        for end, other in ((crank, coupler), (rocker, pin)):
            axes.plot(*np.transpose([end[i], other[i]]), color="#0072B2", linewidth=2.5, alpha=alpha, solid_capstyle="round")
        axes.plot(*np.transpose([coupler[i], pin[i]]), "o", color="white", markeredgecolor="#0072B2", markersize=4.5, alpha=alpha)
    axes.plot(*np.transpose([crank[0], rocker[0]]), "^", color="0.3", markersize=7)
    axes.text(-0.26, -0.016, "table", fontsize="small", color="0.4", va="top")
    axes.set_aspect("equal")
    axes.set(xlabel="x [m]", ylabel="z [m]", xlim=(-0.27, 0.27), ylim=(-0.42, 0.14))
    axes.set_title(title, fontsize="medium")
    axes.grid(alpha=0.25)


def main() -> None:
    m = linkage()
    turn = np.arange(60) / 60
    path = Path(m, turn)
    found = least_squares(path.residual, START, path.jacobian, (LOWEST, HIGHEST), x_scale="jac")
    push = turn < 0.5
    before, after = (np.sqrt(np.mean(np.sum(path.off(design)[push] ** 2, axis=1))) for design in (START, found.x))
    print(f"{found.njev} iterations: the finger is off the push by {1e3 * before:.1f} mm before, {1e3 * after:.1f} mm after (rms)")
    print(f"least Grashof slack: {1e3 * found.x[1:4].min():.0f} mm")
    for name, value in zip(NAMES, found.x, strict=True):
        unit, value = ("degrees", np.degrees(value) % 360.0) if name in ("tilt", "phase") else ("mm", 1e3 * value)
        print(f"{name:10}{value:8.1f} {unit}")

    figure = Figure(figsize=(11.0, 4.1), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.0, 1.0, 0.85))
    draw(left, m, path, START, f"before: {1e3 * before:.0f} mm off the push (rms)")
    draw(middle, m, path, found.x, f"after {found.njev} iterations: {1e3 * after:.1f} mm")
    middle.legend(loc="lower left", fontsize="small", frameon=False)
    for off, color, label in zip(1e3 * path.off(found.x)[push].T, ("#0072B2", "#D55E00"), ("along the table", "height"), strict=True):
        right.plot(360.0 * turn[push], off, color=color, linewidth=1.2, label=label)
    right.set(xlabel="crank [degrees]", ylabel="finger, off the push [mm]", xlim=(0, 180), xticks=range(0, 181, 30), ylim=(-5, 5))
    right.set_title("after: the push", fontsize="medium")
    right.legend(fontsize="small", frameon=False)
    right.grid(alpha=0.25)
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "shape_linkage.png", dpi=100)


if __name__ == "__main__":
    main()
