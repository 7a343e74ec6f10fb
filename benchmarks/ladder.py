"""Growth with the number of loops: a ladder of k four-bars, each on the coupler of the last; catena beside its peers, one run, one core.

    python benchmarks/ladder.py [--quick] [--most LOOPS] [--json FILE] [--others]
    python benchmarks/ladder.py --making [--most LOOPS] [--json FILE]
    python benchmarks/ladder.py --plot FILE

Forward dynamics by `coordinate-reduction` and, as far as it compiles in a minute, by `fully-recursive/joint`, microseconds per state of a
batch; and of Pinocchio (`lcaba`, `constraintDynamics`; see loops.py for their settings) and MuJoCo (`mj_forward` with `connect`
constraints). With `--others` the peers are Drake (a discrete step, SAP, with ball constraints) and Exudyn (a step of its implicit
integrator, planar bodies, sparse), which must be installed. Peers are called from Python state by state; what such a call costs is taken
off Pinocchio's times as in loops.py. Times are minima over repeats that take turns. `--plot` draws what benchmarks/results.json has.

Before anything is timed, the accelerations of all are compared: at moving states; from rest for Drake, whose step leaves out what
velocities do to the loops, and for Exudyn, where they are read from the way of the first millisecond. Residuals are those of the loops'
accelerations, J vdot - g, relative to the largest sum of the sizes of their terms.

Operations are those for the accelerations alone, without the checks that loops are closed. With `--making` it is measured how long the
kernel takes from the first body on, with its first call and an empty cache, for ladders of up to 10,000 loops, part by part: time of the
processor, which others that use the machine do not change, and the largest memory of the process.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import machine
import mujoco
import numpy as np
import pinocchio as pin
import results
from loops import Peer, called
from simulation import mujoco_model

import catena as ct
from catena.comparison import disagreement, exponent, polynomial
from catena.formulations import METHODS
from catena.formulations.loops.closure_kinematics import ClosureKinematics
from catena.graph import Trace
from catena.loops.plan_library import plan_of

SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
REDUCTION, MULTIPLIERS = "coordinate-reduction", "fully-recursive/joint"

#: The largest ladder of each: beyond, the multipliers take minutes to compile, and Pinocchio tens of gigabytes; MuJoCo and Drake take long.
MOST = {MULTIPLIERS: 20, "lcaba": 100, "constraintDynamics": 100, "MuJoCo": 200, "Drake": 200, "Exudyn": 1000}

#: How far each may be from catena: Pinocchio iterates, and the constraints of MuJoCo and Drake give way.
AGREE = {MULTIPLIERS: 1e-9, "lcaba": 1e-6, "constraintDynamics": 1e-9, "MuJoCo": 1e-2, "Drake": 1e-2, "Exudyn": 1e-3}

#: What they are called among the figures.
TITLES = {
    REDUCTION: "catena, coordinate-reduction", MULTIPLIERS: "catena, fully-recursive/joint", "lcaba": "Pinocchio lcaba",
    "constraintDynamics": "Pinocchio constraintDynamics", "MuJoCo": "MuJoCo", "Drake": "Drake, a step", "Exudyn": "Exudyn, a step",
}  # fmt: skip

#: Ladders on which operations are counted for their polynomials; they are exact from 4 loops on.
COUNTED = (4, 5, 6, 8, 12, 16, 24, 32, 40)

#: Ladders whose making is measured.
MADE = (100, 300, 1000, 3000, 10_000)

State = tuple[np.ndarray, np.ndarray, np.ndarray]


# the mechanism


def ladder(k: int) -> ct.Model:
    """Return k four-bars in series: the first on the ground, the others each on the coupler of the last. Joints are depth first."""
    m = ct.Model(f"ladder of {k}")
    bases: list[tuple[str, float]] = [("ground", 0.0), *((f"coupler{i}", 0.1) for i in range(k - 1))]
    for i, (base, height) in enumerate(bases):
        m.add(f"crank{i}", _bar(0.5, 1.0, "z"), ct.Revolute("y"), base, (0.0, 0.0, height))
        m.add(f"coupler{i}", _bar(1.0, 2.0, "x"), ct.Revolute("y"), f"crank{i}", (0.0, 0.0, 0.5))
    for i, (base, height) in reversed([*enumerate(bases)]):
        m.add(f"rocker{i}", _bar(0.6, 1.2, "z"), ct.Revolute("y"), base, (1.0, 0.0, height))
    for i in range(k):
        m.close(f"pin{i}", ct.Revolute("y"), f"coupler{i}", f"rocker{i}", at_a=(1.0, 0.0, 0.0), at_b=(0.0, 0.0, 0.6))
    return m


def _bar(length: float, mass: float, axis: str) -> ct.Body:
    along = np.array([letter == axis for letter in "xyz"])
    return ct.box(*np.where(along, length, 0.04), mass=mass, com=tuple(np.where(along, 0.5 * length, 0.0)))


def states(k: int, count: int) -> State:
    """Return q, v and tau that close the loops: each loop has a state of a single four-bar, drawn from 200 along a turn."""
    rng = np.random.default_rng(1)
    m = ladder(1)
    q, found = m.assemble(), []
    v = m.project_velocity(q, [1.0, 0.0, 0.0])
    for _ in range(200):
        v = m.project_velocity(q, v)
        q = m.assemble(m.integrate(q, 0.05 * v / np.abs(v).max()))
        found.append((q, m.project_velocity(q, rng.normal(size=3))))
    drawn = rng.integers(len(found), size=(count, k))

    def spread(x: np.ndarray) -> np.ndarray:
        x = x[drawn]
        return np.concatenate([x[:, :, :2].reshape(count, 2 * k), x[:, ::-1, 2]], axis=1)

    return (*(spread(np.stack(x)) for x in zip(*found, strict=True)), rng.normal(size=(count, 3 * k)))  # type: ignore[return-value]


def residual(m: ct.Model, state: State, vdot: np.ndarray) -> float:
    """Return how far accelerations are from keeping the loops closed: J vdot - g, relative to the largest sum of the sizes of its terms."""
    q, v, _ = state
    worst, size = 0.0, 0.0
    for closure in m.tree().closures:
        loop = ClosureKinematics(m.tree(), q, closure)
        columns, right = loop.jacobian()[1], loop.motion(v)[1].astype(float)
        J, own = np.stack([column.astype(float) for column in columns.values()], axis=1), vdot[[*columns]]
        worst = max(worst, np.abs(J @ own - right).max())
        size = max(size, (np.abs(J) @ np.abs(own) + np.abs(right)).max())
    return worst / size


# the peers: each returns the accelerations of a state, and what is timed for a state


def pinocchio(m: ct.Model, name: str) -> Callable[..., np.ndarray]:
    """Return forward dynamics by Pinocchio."""
    return Peer(m, redundant=True).solver(name)


def mujoco_forward(m: ct.Model) -> Callable[..., np.ndarray]:
    """Return forward dynamics by MuJoCo: Newton's solver, with constraints as stiff as they can be."""
    model = mujoco_model(m)
    model.eq_solimp[:] = 0.9999, 0.9999, 0.001, 0.5, 2.0
    data = mujoco.MjData(model)

    def solve(q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, v, tau
        mujoco.mj_forward(model, data)
        return data.qacc

    return solve


def drake_step(m: ct.Model, step: float = 1e-3) -> Callable[..., np.ndarray]:
    """Return the mean acceleration over a discrete step of Drake."""
    plants, trees, maths = (importlib.import_module(f"pydrake.{name}") for name in ("multibody.plant", "multibody.tree", "math"))
    plant = plants.MultibodyPlant(step)
    plant.SetUseSampledOutputPorts(False)  # else a step cannot be asked for on its own
    plant.set_discrete_contact_approximation(plants.DiscreteContactApproximation.kSap)
    plant.mutable_gravity_field().set_gravity_vector(np.array(m.gravity))
    bodies = {"ground": plant.world_body()}
    for link in m.links:
        inertia = trees.RotationalInertia(*np.diag(np.array(link.body.inertia)))
        spatial = trees.SpatialInertia.MakeFromCentralInertia(link.body.mass, np.array(link.body.com), inertia)
        bodies[link.name] = plant.AddRigidBody(link.name, spatial)
        place = maths.RigidTransform(np.array(link.at.p))
        frame = plant.AddFrame(trees.FixedOffsetFrame(f"{link.name}_at", bodies[link.parent].body_frame(), place))
        plant.AddJoint(trees.RevoluteJoint(link.name, frame, bodies[link.name].body_frame(), [0, 1, 0]))
    for loop in m.loops:
        plant.AddBallConstraint(bodies[loop.a], np.array(loop.at_a.p), bodies[loop.b], np.array(loop.at_b.p))
    plant.Finalize()
    joints = [plant.GetJointByName(link.name) for link in m.links]
    positions = np.array([joint.position_start() for joint in joints])
    velocities = plant.num_positions() + np.array([joint.velocity_start() for joint in joints])
    context, port = plant.CreateDefaultContext(), plant.get_applied_generalized_force_input_port()
    state, force, order = np.zeros(2 * m.nv), port.FixValue(context, np.zeros(m.nv)), np.argsort(velocities)

    def solve(q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        state[positions], state[velocities] = q, v
        context.SetDiscreteState(state)
        force.GetMutableData().get_mutable_value().set_value(tau[order])
        return (plant.EvalUniquePeriodicDiscreteUpdate(context).get_vector(0).value()[velocities] - v) / step

    return solve


class Exudyn:
    """A ladder at rest in Exudyn: planar bodies by their own coordinates, hinges as constraints; x and z are the axes of the plane."""

    def __init__(self, m: ct.Model, q: np.ndarray, tau: np.ndarray) -> None:
        self.m, self._exudyn = m, importlib.import_module("exudyn")
        items = importlib.import_module("exudyn.itemInterface")
        self._container = self._exudyn.SystemContainer()  # keeps the system alive
        self.system = system = self._container.AddSystem()
        bodies, nodes, centres = {"ground": system.AddObject(items.ObjectGround())}, {}, {"ground": np.zeros(2)}
        poses, torques = {"ground": (np.zeros(2), 0.0)}, dict.fromkeys((link.name for link in m.links), 0.0)
        for link, angle, torque in zip(m.links, q.tolist(), tau.tolist(), strict=True):
            origin, turned = poses[link.parent]
            origin, turned = origin + _turned(turned, _plane(link.at.p)), turned - angle  # about y, z is before x
            poses[link.name], centres[link.name] = (origin, turned), _plane(link.body.com)
            place = [*(origin + _turned(turned, centres[link.name])), turned]
            nodes[link.name] = system.AddNode(items.NodeRigidBody2D(referenceCoordinates=place))
            inertia = float(np.array(link.body.inertia)[1, 1])
            body = items.ObjectRigidBody2D(mass=link.body.mass, inertia=inertia, nodeNumber=nodes[link.name])
            bodies[link.name] = system.AddObject(body)
            torques[link.name] -= torque
            if link.parent != "ground":
                torques[link.parent] += torque
        pins = [(link.parent, _plane(link.at.p), link.name, np.zeros(2)) for link in m.links]
        for a, at_a, b, at_b in [*pins, *((loop.a, _plane(loop.at_a.p), loop.b, _plane(loop.at_b.p)) for loop in m.loops)]:
            places = [(bodies[name], [*(at - centres[name]), 0.0]) for name, at in ((a, at_a), (b, at_b))]
            markers = [system.AddMarker(items.MarkerBodyPosition(bodyNumber=body, localPosition=at)) for body, at in places]
            system.AddObject(items.ObjectJointRevolute2D(markerNumbers=markers))
        for name, torque in torques.items():
            mass = system.AddMarker(items.MarkerBodyMass(bodyNumber=bodies[name]))
            system.AddLoad(items.LoadMassProportional(markerNumber=mass, loadVector=[m.gravity[0], m.gravity[2], 0.0]))
            angle = system.AddMarker(items.MarkerNodeCoordinate(nodeNumber=nodes[name], coordinate=2))
            system.AddLoad(items.LoadCoordinate(markerNumber=angle, load=torque))
        system.Assemble()

    def run(self, steps: int, step: float = 1e-4) -> None:
        """Take steps of the generalised-alpha method from the start."""
        settings = self._exudyn.SimulationSettings()
        settings.timeIntegration.numberOfSteps, settings.timeIntegration.endTime = steps, steps * step
        settings.timeIntegration.verboseMode, settings.solution.file.write = 0, False
        settings.timeIntegration.generalizedAlpha.spectralRadius = 0.9
        settings.timeIntegration.newton.useModifiedNewton = True
        settings.linearSolver.solverType = self._exudyn.LinearSolverType.EigenSparse
        self.system.SolveDynamic(settings)

    def accelerations(self, steps: int = 20, time: float = 1e-3) -> np.ndarray:
        """Return the accelerations from rest, by the way of the first millisecond."""
        self.run(steps, time / steps)
        turned = dict(zip((link.name for link in self.m.links), self.system.systemData.GetODE2Coordinates()[2::3], strict=True))
        relative = [turned[link.name] - turned.get(link.parent, 0.0) for link in self.m.links]
        return -2.0 * np.array(relative) / time**2


def _plane(x: Any) -> np.ndarray:
    return np.array([x[0], x[2]])


def _turned(angle: float, x: np.ndarray) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([c * x[0] - s * x[1], s * x[0] + c * x[1]])


# measuring


def peers(others: bool) -> tuple[str, ...]:
    """Return the names of those beside `coordinate-reduction`."""
    return ("Drake", "Exudyn") if others else (MULTIPLIERS, "lcaba", "constraintDynamics", "MuJoCo")


def measure(k: int, seconds: float, names: Sequence[str]) -> results.Row:
    """Return the figures of a ladder of k loops, beside those with these names."""
    m, count, few = ladder(k), max(32, min(4096, 200_000 // k)), max(2, min(100, 500 // k))
    q, v, tau = states(k, count)
    kernels = {name: ct.forward_dynamics(m, name) for name in (REDUCTION, *names) if name in METHODS and k <= MOST.get(name, k)}
    solved = {name: kernel(q, v, tau) for name, kernel in kernels.items()}
    turns: dict[str, Callable[[], object]] = {name: partial(kernels[name], q, v, tau, out=solved[name]) for name in kernels}
    calls = dict.fromkeys(turns, count)
    figures: dict[str, Any] = {"loops": k, "states": count}
    resting, moving = [(x, np.zeros_like(x), f) for x, _, f in zip(q, v, tau, strict=True)], [*zip(q, v, tau, strict=True)]
    checked = range(min(few, 4))
    runs: dict[str, Callable[[], object]] = {}

    def check(name: str, accelerations: Sequence[np.ndarray], among: list[State]) -> None:
        found, expected = np.stack(accelerations), kernels[REDUCTION](*map(np.stack, zip(*among[: len(accelerations)], strict=True)))
        figures[f"residual_{name}"] = max(residual(m, among[i], found[i]) for i in range(len(found)))
        if name != REDUCTION:
            off = figures[f"disagreement_{name}"] = disagreement(expected, found)
            assert off < AGREE[name], (name, k, off)

    for name in kernels:
        check(name, [solved[name][i].copy() for i in checked], moving)
    for name in names:
        if name == MULTIPLIERS or k > MOST[name]:
            continue
        if name == "Exudyn":
            system = Exudyn(m, q[0], tau[0])
            check(name, [system.accelerations()], resting)
            runs = {"Exudyn, 10 steps": partial(system.run, 10), "Exudyn, 40 steps": partial(system.run, 40)}
            continue
        makers = {"MuJoCo": mujoco_forward, "Drake": drake_step}
        solve = makers[name](m) if name in makers else pinocchio(m, name)
        among = resting if name == "Drake" else moving
        check(name, [np.array(solve(*among[i])) for i in checked], among)
        turns[name], calls[name] = partial(called, solve, moving[:few]), few
    if "lcaba" in turns:
        model = Peer(m, redundant=True).model
        pool, data, result = pin.ModelPool(model, 1), model.createData(), np.zeros((m.nv, few), order="F")
        columns = [np.asfortranarray(x[:few].T) for x in (q, v, tau)]
        turns["aba"] = partial(called, partial(pin.aba, model, data), moving[:few])
        turns["aba in parallel"] = lambda: pin.abaInParallel(1, pool, *columns, result)
    best = machine.fastest(turns, seconds) | (machine.fastest(runs, seconds) if runs else {})  # runs would clear the caches for others
    us = {name: best[name] / calls[name] * 1e6 for name in calls}
    if "aba" in best:
        figures["overhead_us"] = (best["aba"] - best["aba in parallel"]) / few * 1e6
        us |= {name: us[name] - figures["overhead_us"] for name in ("lcaba", "constraintDynamics")}
    if "Exudyn, 10 steps" in best:
        us["Exudyn"] = (best["Exudyn, 40 steps"] - best["Exudyn, 10 steps"]) / 30 * 1e6
    return results.row(m.name, "forward dynamics, batch", us.pop(REDUCTION), {TITLES[name]: us[name] for name in us}, **figures)


def operations(k: int, method: str) -> int:
    """Return how many operations a method takes for the accelerations of a ladder."""
    m, trace, closes = ladder(k), Trace("count"), METHODS[method].closes
    assert closes is not None
    q, v, tau = (trace.input(name, (size,)) for name, size in (("q", m.nq), ("v", m.nv), ("tau", m.nv)))
    solved = closes.forward_dynamics(m.tree().marked(trace.mark, trace.solve), q, v, tau, plan=plan_of(m, method, m.mobility().q))
    return sum(trace.graph(vdot=solved.vdot).operations.values())


def making(k: int) -> results.Row:
    """Return the processor's time for making forward dynamics of a ladder, in a new process, with its parts [s] and its memory [MB]."""
    code = (
        "import json, resource, sys, time\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from ladder import REDUCTION, ct, ladder, np\n"
        "from catena.loops.mobility import generic\n"
        "from catena.loops.plan_library import plan_of\n"
        "times, began = {}, time.process_time()\n"
        "def timed(name, function):\n"
        "    start = time.process_time()\n"
        "    result = function()\n"
        "    times[name] = time.process_time() - start\n"
        "    return result\n"
        f"m = timed('model', lambda: ladder({k}))\n"
        "timed('tree', m.tree)\n"
        "now, q = timed('configuration', lambda: generic(m))\n"
        "timed('plan', lambda: plan_of(now, REDUCTION, q))\n"
        "kernel = timed('trace and compile', lambda: ct.forward_dynamics(m, REDUCTION))\n"
        "times['trace and compile'] -= times['plan']  # which is made again\n"
        "timed('first call', lambda: kernel(q, np.zeros(m.nv), np.zeros(m.nv)))\n"
        "times['in all'] = time.process_time() - began - times['plan']\n"
        "times['MB'] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0\n"
        "print(json.dumps(times))\n"
    )
    parts = machine.in_new_process(code, "off")
    memory, in_all = parts.pop("MB"), parts.pop("in all")
    figures = {f"{name.replace(' ', '_')}_s": seconds for name, seconds in parts.items()}
    return results.row(f"ladder of {k}", "make forward dynamics", 1e6 * in_all, loops=k, memory_mb=memory, **figures)


def grown(rows: Sequence[results.Row]) -> results.Row:
    """Return how the times grow with the number of loops: exponents over the upper half of the sizes."""
    found = {}
    for name in (REDUCTION, *MOST):
        points = [(row["figures"]["loops"], time) for row in rows if (time := of(row, TITLES[name])) is not None]
        if len(points) >= 3:
            found[TITLES[name]] = exponent(*map(list, zip(*points, strict=True)))
    return results.row("ladders", "growth", **found)


def of(row: results.Row, title: str) -> float | None:
    """Return a time of a row: catena's own, or of what stands beside it."""
    return row["catena"] if title == TITLES[REDUCTION] else row.get("peers", {}).get(title)


def counted(sizes: Sequence[int]) -> list[results.Row]:
    """Return the operations of the two methods as polynomials, and how those of the first grow."""
    rows = []
    for name in (REDUCTION, MULTIPLIERS):
        coefficients = polynomial(COUNTED, [operations(k, name) for k in COUNTED])
        rows.append(results.row("ladders", f"operations of {name}", operations=power_text(coefficients)))
    many = [k for k in sizes if k >= COUNTED[0]]
    if len(many) >= 3:
        rows[0]["figures"]["operations_exponent"] = exponent(many, [operations(k, REDUCTION) for k in many])
    return rows


def draw(facts: dict[str, Any], path: Path) -> None:
    """Draw the times over the number of loops that a file of results has, with the exponents of the upper half of the sizes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from catena.view.panels import LINES

    entries = [facts["benchmarks"][name]["rows"] for name in ("ladder", "ladder-others") if name in facts["benchmarks"]]
    measured = [[row for row in rows if "catena" in row] for rows in entries]
    exponents = {}
    for rows in measured:
        exponents = grown(rows)["figures"] | exponents
    figure = Figure(figsize=(9.0, 5.5), layout="constrained", dpi=120)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    titles = [TITLES[name] for name in (REDUCTION, *MOST) if TITLES[name] in exponents]
    for i, name in enumerate(titles):
        rows = next(rows for rows in measured if any(of(row, name) is not None for row in rows))
        points = [(row["figures"]["loops"], time) for row in rows if (time := of(row, name)) is not None]
        axes.loglog(*zip(*points, strict=True), color=LINES[i % len(LINES)], marker="o", markersize=3.5, linewidth=2.2 if i == 0 else 1.4)
        text, right = f"{name}, $k^{{{exponents[name]:.2f}}}$", TITLES["constraintDynamics"]
        look = {"color": LINES[i % len(LINES)], "fontsize": "small", "ha": "right" if name == right else "left"}
        place = {TITLES[MULTIPLIERS]: (6, 12), right: (-6, 6)}.get(name, (6, 0))  # there is a line on the right of these
        axes.annotate(text, points[-1], place, textcoords="offset points", va="center", **look)
    axes.set_xlim(0.8, 2e4)
    axes.set_xticks([1, 10, 100, 1000])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("Forward dynamics of a ladder of k four-bars, one core", loc="left", fontsize="medium")
    axes.set_xlabel("number of loops k", fontsize="small")
    axes.set_ylabel("time per state or step [µs]", fontsize="small")
    axes.grid(alpha=0.3, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def power_text(coefficients: Sequence[Any]) -> str:
    """Return a polynomial in k, the highest power first."""
    terms = [f"{c} k^{i}" if i else f"{c}" for i, c in enumerate(coefficients)]
    return " + ".join(reversed(terms)).replace("+ -", "- ").replace("k^1", "k")


def main() -> None:
    """Measure, print and write the figures, or draw those that are there."""
    parser = results.parser(__doc__)
    parser.add_argument("--most", type=int, help="loops of the largest ladder")
    parser.add_argument("--making", action="store_true", help="measure how long kernels take to make, and nothing else")
    parser.add_argument("--others", action="store_true", help="measure beside Drake and Exudyn, and no others")
    parser.add_argument("--plot", type=Path, help="draw the times of benchmarks/results.json to this file, and measure nothing")
    options = parser.parse_args()
    if options.plot:
        draw(results.read(results.RESULTS), options.plot)
        return
    most = options.most or (5 if options.quick else None)
    if options.making:
        rows = [making(k) for k in MADE if k <= (options.most or (MADE[1] if options.quick else MADE[-1]))]
        if len(rows) > 2:
            exponent_ = exponent([row["figures"]["loops"] for row in rows], [row["catena"] for row in rows])
            rows.append(results.row("ladders", "growth", time_exponent=exponent_))
        results.report("making", rows, options)
        return
    sizes = [k for k in SIZES if k <= (most or SIZES[-1])]
    rows = [measure(k, 1.0 if options.quick else 8.0, peers(options.others)) for k in sizes]
    rows += [grown(rows)] if options.others else [grown(rows), *counted(sizes)]
    results.report("ladder-others" if options.others else "ladder", rows, options)


if __name__ == "__main__":
    main()
