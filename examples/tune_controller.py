"""The gains of a controller are tuned for 1,000 robots at once, and tried on 1,000 others.

The robots are arms of three joints that differ in masses, load, friction and damping, and in what disturbs their sensors. The
controller does not know these: it compensates the weight of the arm as designed, with a load that it assumes, and adds feedback of position
and rate for each joint. Its seven numbers are a parameter of the model. `ct.rollout_gradient` runs all robots, and has the sum of the
gradients of their costs by what they share; SciPy's L-BFGS-B does the rest. Run it with the path of a picture, or it writes
tune_controller.png to the current folder.
"""

import sys
import time

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize

import catena as ct

STEP, STEPS = 0.005, 300  # [s]
BLUE, RED = "#0072B2", "#D55E00"
FIRST = np.array([100.0, 100.0, 100.0, 10.0, 10.0, 10.0, 0.5])  # [N m/rad], [N m s/rad], [kg]
LIMITS = np.log([[10.0, 2000.0]] * 3 + [[1.0, 100.0]] * 3 + [[0.05, 5.0]])  # of the logarithms


def robot() -> ct.Model:
    """Return the arm; its masses, load, friction and damping are parameters."""
    m = ct.Model("arm")
    masses, load = m.parameter("masses", [6.0, 4.0, 2.5]), m.parameter("load", 1.5)
    friction, damping = m.parameter("friction", 0.6), m.parameter("damping", 0.3)

    def joint(axis: str) -> ct.Revolute:
        return ct.Revolute(axis, friction=friction, damping=damping, armature=0.1)

    m.add("base", ct.cylinder(0.3, 0.1, mass=masses[0], com=(0, 0, 0.15)), joint("z"))
    m.add("upper", ct.rod(0.5, mass=masses[1]), joint("-y"), parent="base", at=(0, 0, 0.3))
    m.add("lower", ct.rod(0.4, mass=masses[2]), joint("-y"), parent="upper", at=(0.5, 0, 0))
    m.add("hand", ct.point_mass(load), ct.Fixed(), parent="lower", at=(0.4, 0, 0))
    return m


def some(count: int, seed: int) -> dict[str, np.ndarray]:
    """Return the parameters of random robots."""
    rng = np.random.default_rng(seed)
    return {
        "masses": np.array([6.0, 4.0, 2.5]) * rng.uniform(0.8, 1.2, size=(count, 3)),
        "load": rng.uniform(0.0, 3.0, size=count),
        "friction": rng.uniform(0.2, 1.5, size=count),
        "damping": rng.uniform(0.1, 0.8, size=count),
        "phases": rng.uniform(0.0, 2.0 * np.pi, size=(count, 3)),
    }


path = ct.cycloidal([0.0, 0.2, 0.5], [1.2, 1.0, -1.0], duration=1.0)  # then it stands
weight = ct.gravity_force(robot(), parameters="load")
m = robot()
numbers, phases = m.parameter("controller", FIRST), m.parameter("phases", np.zeros(3))


def feedback(t, q, v):
    """Return the torques by positions and rates, as sensors measure them that hum at 30 Hz."""
    wanted, rate, _ = path(t)
    hum = 60.0 * np.pi * t + phases
    return numbers[:3] * (wanted - q - 0.01 * np.sin(hum)) + numbers[3:6] * (rate - v - 0.2 * np.cos(hum))


def controller(t, q, v):
    """Return the torques: the weight with the load that is assumed, and the feedback; within 150 N m."""
    return np.clip(weight(q, numbers[6]) + feedback(t, q, v), -150.0, 150.0)


def cost(t, q, v, tau):
    """Return the cost of a step: squares of what is off the path [rad], and of the feedback [N m]."""
    off, torques = q - path(t).position, feedback(t, q, v)
    return STEP * (100.0 * (off @ off) + 1e-3 * (torques @ torques))


def costs(values: np.ndarray, robots: dict[str, np.ndarray]) -> ct.MotionGradient:
    """Return the costs of robots with the numbers of a controller, and their gradient."""
    parameters = {**robots, "controller": values}
    return ct.rollout_gradient(m, path.start, controls=controller, step=STEP, steps=STEPS, cost=cost, parameters=parameters)


def objective(x: np.ndarray, robots: dict[str, np.ndarray]) -> tuple[float, np.ndarray]:
    """Return the mean cost by the logarithms of the numbers, which stay above zero."""
    found = costs(np.exp(x), robots)
    return float(found.value.mean()), found.parameters["controller"] * np.exp(x) / len(found.value)


def main() -> None:
    robots, others = some(1000, seed=0), some(1000, seed=1)
    costs(FIRST, robots)  # compiles
    begun = time.perf_counter()
    found = minimize(objective, np.log(FIRST), args=(robots,), jac=True, method="L-BFGS-B", bounds=LIMITS, options={"maxiter": 40})
    seconds = time.perf_counter() - begun
    tuned = np.exp(found.x)
    print(f"{found.nit} iterations, {seconds / found.nfev:.2f} s for the cost of 1,000 robots and its gradient")
    for name, value, unit in zip(("springs", "dampers", "load"), np.split(tuned, [3, 6]), ("N m/rad", "N m s/rad", "kg"), strict=True):
        print(f"{name}: {', '.join(f'{x:.1f}' for x in value)} {unit}")
    before, after = (costs(x, others).value for x in (FIRST, tuned))
    print(f"on others: mean cost {before.mean():.3f} before, {after.mean():.3f} after; worst {before.max():.3f} and {after.max():.3f}")
    print(f"better for {100.0 * np.mean(after < before):.1f} % of them")

    figure = Figure(figsize=(11.0, 4.0), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    bins = np.geomspace(0.8 * after.min(), 1.2 * before.max(), 60)
    t = STEP * np.arange(STEPS + 1)
    for values, found, color, name in ((FIRST, before, RED, "before"), (tuned, after, BLUE, "after")):
        left.hist(found, bins, color=color, alpha=0.7, label=f"{name}: mean {found.mean():.2f}")
        right.scatter(others["load"], found, s=3.0, color=color, alpha=0.5, linewidths=0.0)
        runs = ct.rollout(m, path.start, controls=controller, step=STEP, steps=STEPS, parameters={**others, "controller": values})
        off = np.degrees(np.abs(runs.q - path(t).position).max(axis=2))
        low, half, high = np.percentile(off, [5.0, 50.0, 95.0], axis=0)
        middle.fill_between(t, low, high, color=color, alpha=0.25, linewidth=0.0)
        middle.plot(t, half, color=color, linewidth=1.4, label=name)
    right.axvline(tuned[6], color="0.4", linewidth=0.8, linestyle="--")
    right.text(tuned[6] + 0.05, 0.02, "assumed", transform=right.get_xaxis_transform(), fontsize="small", color="0.3")
    left.set(xscale="log", xlabel="cost", ylabel="robots", title="1,000 other robots")
    middle.set(xlabel="time [s]", ylabel="largest of the joints [degrees]", xlim=(0.0, t[-1]), ylim=(0.0, None))
    middle.set_title("off the path: median, and 90 % of the robots")
    right.set(yscale="log", xlabel="load [kg]", ylabel="cost", xlim=(0.0, 3.0), title="cost of each robot, by its load")
    left.legend(fontsize="small")
    middle.legend(fontsize="small")
    for axes in (left, middle, right):
        axes.title.set_fontsize("medium")
        axes.grid(alpha=0.25)
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "tune_controller.png", dpi=100)


if __name__ == "__main__":
    main()
