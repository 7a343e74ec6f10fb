"""Mechanisms with loops: catena beside Pinocchio, same states, one run, one core; the reference points of [KY03]; and runs of 100 s.

    python benchmarks/loops.py [--quick] [--runs] [--json FILE]

Forward dynamics of a four-bar, of a suspension (the example `quarter-car` without its spring), of a ring of seven hinges of general
geometry, one of whose bodies is cut and welded, and of a Stewart platform (6-UPS), whose inverse dynamics by `denoc` are measured beside
the same figures. Batches have 10,000 states that close the loops. Pinocchio closes the same loops between
points (the hinge in the plane, balls) or frames (the weld), by `constraintDynamics` and by `lcaba`, with the least iterations that give
1e-7: one with mu = 0, or 1e-12 where constraints are redundant; two with mu = 1e-6 for `lcaba`. It has no loop in C++ over states, so it is
called from Python state by state; a second figure leaves out the overhead of a call, taken as that of `pin.aba` over a state of
`pin.abaInParallel` on the same tree. Its disagreement with catena is that of first calls on fresh data: on the ring, `lcaba` of Pinocchio
4.1 is wrong at every other call. Times are minima over repeats that take turns.

`--runs` simulates the examples that conserve energy for 100 s at default settings, a four-bar that turns and a parallelogram that passes
change points for 1,000 s, and tells the largest error of the loops and the energy change
of the energy.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import machine
import numpy as np
import pinocchio as pin
from dynamics import chain
from rich.console import Console
from rich.table import Table

import catena as ct
from catena.examples import ACTUATED, EXAMPLES

STATES, CALLED = 10_000, 500  # states of a batch, and those of them with which functions are called one by one
REFERENCES = ("centroid", "joint", "origin")

#: Starts of the runs, the positions and rates of coordinates; and of Bricard's ring again, from where it turns inside out.
STARTS: dict[str, tuple[str, dict[str, float], dict[str, float]]] = {
    "slider-crank": ("slider-crank", {}, {"crank": 20.0}),
    "four-bar": ("four-bar", {"crank": 1.0}, {}),
    "jansen-leg": ("jansen-leg", {}, {}),
    "watt": ("watt", {}, {}),
    "stephenson": ("stephenson", {}, {}),
    "peaucellier": ("peaucellier", {"crank": 0.6}, {}),
    "bennett": ("bennett", {"link1": 2.6}, {}),
    "bricard": ("bricard", {"link2": -3.5}, {}),
    "bricard, turning inside out": ("bricard", {}, {}),
}


def suspension(chassis: Any = None) -> ct.Model:
    """Return the example `quarter-car` without its spring; with a joint, on a chassis that hangs by it."""
    full = EXAMPLES["quarter-car"]()
    m = ct.Model("suspension" if chassis is None else "suspension on a chassis")
    base = "ground"
    if chassis is not None:
        base = "chassis"
        m.add(base, ct.box(2.0, 1.5, 0.8, mass=300.0, com=(-0.5, -0.2, 0.5)), chassis)
    for link in full.links:
        m.add(link.name, link.body, link.joint, base if link.parent == "ground" else link.parent, link.at)
    for loop in full.loops:
        m.close(loop.name, loop.joint, loop.a, loop.b, loop.at_a, loop.at_b)
    return m


def ring() -> ct.Model:
    """Return a ring of seven hinges of general geometry, one of whose bodies is cut and welded."""
    m = chain(7)
    m.name = "ring of seven hinges"
    end = ct.poses(m)(np.zeros(7))[-1]
    m.close("weld", ct.Fixed(), "body6", "ground", at_b=ct.Pose(end[:3, 3], matrix=end[:3, :3]))
    return m


def states(m: ct.Model, count: int, different: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return q, v and tau that close the loops, over and over: `different` ones along a motion, or within the workspace of a robot."""
    rng = np.random.default_rng(1)
    if m.name in ACTUATED:  # within the workspace: the motors within 0.05 m of their middle
        motors = ct.reduced(m, ACTUATED[m.name])
        poses = motors.positions(rng.uniform(-0.05, 0.05, (different, len(motors.names))))
        drawn = poses, motors.rates(poses, rng.normal(size=(different, len(motors.names)))), rng.normal(size=(different, m.nv))
        return tuple(np.resize(x, (count, x.shape[1])) for x in drawn)  # type: ignore[return-value]
    q = m.mobility().q
    v, found = m.project_velocity(q, rng.normal(size=m.nv)), []
    for _ in range(different):
        v = m.project_velocity(q, v)
        q = m.assemble(m.integrate(q, 0.02 * v / np.abs(v).max()))
        found.append((q, m.project_velocity(q, rng.normal(size=m.nv)), rng.normal(size=m.nv)))
    return tuple(np.resize(np.stack(x), (count, len(x[0]))) for x in zip(*found, strict=True))  # type: ignore[return-value]


class Peer:
    """A model in Pinocchio: joints in catena's order, which is depth first, loops between points or frames."""

    def __init__(self, m: ct.Model, redundant: bool) -> None:
        self.m, self.model = m, pin.Model()
        self.model.gravity.linear = np.array(m.gravity)
        self.index = {"ground": 0}
        for link in m.links:
            place = pin.SE3(link.at.R, link.at.p)
            index = self.model.addJoint(self.index[link.parent], self._joint(link.joint), place, link.name)
            inertia = pin.Inertia(link.body.mass, np.array(link.body.com), np.array(link.body.inertia))
            self.model.appendBodyToJoint(index, inertia, pin.SE3.Identity())
            self.index[link.name] = index
        self.mu = {"constraintDynamics": 1e-12 if redundant else 0.0, "lcaba": 1e-6}

    @staticmethod
    def _joint(joint: Any) -> Any:
        if isinstance(joint, ct.Revolute):
            return pin.JointModelRevoluteUnaligned(np.array(joint.axis))
        if isinstance(joint, ct.Universal):
            return pin.JointModelUniversal(np.array(joint.axis1), np.array(joint.axis2))
        if isinstance(joint, ct.Prismatic):
            return pin.JointModelPrismaticUnaligned(np.array(joint.axis))
        if isinstance(joint, ct.Free):
            return pin.JointModelFreeFlyer()
        assert isinstance(joint, ct.Spherical)
        return pin.JointModelSpherical()

    def constraints(self, name: str) -> tuple[Any, Any, Any]:
        """Return the loops as constraints, room for their results, and the settings of a solver."""
        constraints, results = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        for loop in self.m.loops:
            kind = pin.ContactType.CONTACT_6D if isinstance(loop.joint, ct.Fixed) else pin.ContactType.CONTACT_3D
            ends = (self.index[loop.a], pin.SE3(loop.at_a.R, loop.at_a.p), self.index[loop.b], pin.SE3(loop.at_b.R, loop.at_b.p))
            constraints.append(pin.RigidConstraintModel(kind, self.model, *ends, pin.ReferenceFrame.LOCAL))
            results.append(constraints[-1].createData())
        return constraints, results, pin.ProximalSettings(1e-10, 1e-10, self.mu[name], 2 if name == "lcaba" else 1)

    def solver(self, name: str) -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
        """Return forward dynamics with loops, on data of its own."""
        (constraints, results, settings), data = self.constraints(name), self.model.createData()
        if name == "lcaba":
            pin.computeJointMinimalOrdering(self.model, data, constraints)
        else:
            pin.initConstraintDynamics(self.model, data, constraints, results)
        model, function = self.model, getattr(pin, name)
        return lambda q, v, tau: function(model, data, q, v, tau, constraints, results, settings)

    def positions(self, q: np.ndarray) -> np.ndarray:
        """Return q as Pinocchio has it: quaternions with the real part last."""
        order, at = [], 0
        for link in self.m.links:
            own = [*range(at, at + link.joint.nq)]
            first = {ct.Spherical: 0, ct.Free: 3}.get(type(link.joint), link.joint.nq)
            order += own[:first] + own[first + 1 :] + own[first : first + 1]
            at += link.joint.nq
        return q[:, order]

    @property
    def velocities(self) -> list[int]:
        """Which of catena's velocity coordinates are Pinocchio's, and back: free bodies have their linear velocity first."""
        order, at = [], 0
        for link in self.m.links:
            half = 3 if isinstance(link.joint, ct.Free) else 0
            order += [*range(at + half, at + link.joint.nv), *range(at, at + half)]
            at += link.joint.nv
        return order


def called(function: Callable[..., object], arguments: list[tuple[np.ndarray, ...]]) -> None:
    """Call a function with one state after the other."""
    for state in arguments:
        function(*state)


def measure(m: ct.Model, redundant: bool, seconds: float) -> dict[str, Any]:
    """Return the figures of a mechanism."""
    fd = ct.forward_dynamics(m)
    q, v, tau = states(m, STATES)
    out = np.empty_like(v)
    fd(q, v, tau, out=out)
    peer = Peer(m, redundant)
    swapped = peer.velocities
    theirs = list(zip(peer.positions(q), v[:, swapped], tau[:, swapped], strict=True))[:CALLED]
    row: dict[str, Any] = {"mechanism": m.name, "method": fd.method, "disagreement": {}}
    one = q[0].copy(), v[0].copy(), tau[0].copy()
    pool, data = pin.ModelPool(peer.model, 1), peer.model.createData()
    columns = [np.asfortranarray(np.stack(x).T) for x in zip(*theirs, strict=True)]
    result = np.zeros((m.nv, CALLED), order="F")
    turns: dict[str, Callable[[], object]] = {
        "catena": partial(fd, q, v, tau, out=out),
        "one call": partial(called, fd, [one] * CALLED),
        "aba": partial(called, partial(pin.aba, peer.model, data), theirs),
        "aba in parallel": lambda: pin.abaInParallel(1, pool, *columns, result),
    }
    for name in peer.mu:
        solved = np.array([np.array(peer.solver(name)(*state)) for state in theirs[:50]])[:, np.argsort(swapped)]
        row["disagreement"][name] = float(np.abs(solved - out[:50]).max() / np.abs(solved).max())
        turns[name] = partial(called, peer.solver(name), theirs)
    if m.name in ACTUATED:
        robot = ct.ParallelManipulator(m, ACTUATED[m.name])
        motors = [m.v_names.index(name) for name in robot.actuated]
        wanted = fd(q, v, tau * np.isin(np.arange(m.nv), motors))[:, motors].copy()
        needed = robot.inverse_dynamics(q, v, wanted)
        row["inverse_disagreement"] = float(np.abs(needed - tau[:, motors]).max() / np.abs(tau).max())
        turns["inverse"] = partial(robot.inverse_dynamics, q, v, wanted, out=needed)
        turns["inverse, one call"] = partial(called, robot.inverse_dynamics, [(*one[:2], wanted[0].copy())] * CALLED)
    best = machine.fastest(turns, seconds)
    if "inverse" in best:
        row["inverse_us"] = {"batch": best["inverse"] / STATES * 1e6, "one call": best["inverse, one call"] / CALLED * 1e6}
    row["batch_us"] = best["catena"] / STATES * 1e6
    row["call_us"] = {name: best[name] / CALLED * 1e6 for name in ("one call", *peer.mu)}
    row["overhead_us"] = (best["aba"] - best["aba in parallel"]) / CALLED * 1e6
    return row


def reference_points(m: ct.Model, seconds: float) -> dict[str, Any]:
    """Return the time of a state of a batch [us], and the multiplications, at the three reference points."""
    q, v, tau = states(m, STATES)
    kernels = {reference: ct.forward_dynamics(m, f"fully-recursive/{reference}") for reference in REFERENCES}
    out = np.empty_like(v)
    best = machine.fastest({name: partial(kernel, q, v, tau, out=out) for name, kernel in kernels.items()}, seconds)
    return {
        "mechanism": m.name,
        "batch_us": {name: best[name] / STATES * 1e6 for name in kernels},
        "multiplications": {name: kernel.operations["mul"] for name, kernel in kernels.items()},
    }


def parallelogram() -> ct.Model:
    """Return a parallelogram, which passes change points where it lies flat."""
    m = ct.Model("parallelogram")
    m.add("crank", ct.rod(0.4, mass=1.0), ct.Revolute("y"))
    m.add("coupler", ct.rod(1.0, mass=2.0), ct.Revolute("y"), parent="crank", at=(0.4, 0, 0))
    m.add("rocker", ct.rod(0.4, mass=1.0), ct.Revolute("y"), at=(1.0, 0, 0))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.4, 0, 0))
    return m


def simulated(title: str, m: ct.Model, start: dict[str, float], rates: dict[str, float], until: float, **options: Any) -> dict[str, Any]:
    """Return what becomes of loops and energy in a run."""
    q = m.assemble(fixed=start)
    run = ct.simulate(m, q, m.project_velocity(q, fixed=rates), until=until, **options)
    return {
        "run": title,
        "until": until,
        "steps": run.info["steps"],
        "switches": run.info["switches"],
        "loop_error": float(ct.loop_error(m)(run.q).max()),
        "energy_change": float(np.abs(run.energy_change).max()),
        "seconds": run.info["seconds"],
    }


def main() -> None:
    """Measure, print the tables, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter repeats")
    parser.add_argument("--runs", action="store_true", help="simulate the examples for 100 s as well (minutes)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    seconds = 1.0 if options.quick else 10.0
    console = Console(width=150)
    console.print(f"catena {ct.__version__}, commit {machine.commit()}; pinocchio {pin.__version__}; {machine.description()}")
    mechanisms = (EXAMPLES["four-bar"](), True), (suspension(), False), (ring(), False), (EXAMPLES["stewart-ups"](), False)
    rows = [measure(m, redundant, seconds) for m, redundant in mechanisms]
    table = Table(
        "forward dynamics, us", "catena batch", "constraintDynamics*", "ratio", "lcaba*", "ratio", "catena one call", "constraintDynamics",
        "lcaba", "overhead", "disagreement",
    )  # fmt: skip
    for row in rows:
        call, inside = row["call_us"], {name: row["call_us"][name] - row["overhead_us"] for name in ("constraintDynamics", "lcaba")}
        table.add_row(
            row["mechanism"], f"{row['batch_us']:.3g}",
            *(text for name in inside for text in (f"{inside[name]:.3g}", f"{inside[name] / row['batch_us']:.1f}")),
            *(f"{call[name]:.3g}" for name in ("one call", *inside)), f"{row['overhead_us']:.2g}",
            ", ".join(f"{row['disagreement'][name]:.0e}" for name in inside),
        )  # fmt: skip
    console.print(table)
    console.print("* a call from Python, less the overhead of a call")
    table = Table("inverse dynamics by denoc, us", "batch", "constraintDynamics* / batch", "lcaba* / batch", "one call", "disagreement")
    for row in rows:
        if "inverse_us" in row:
            inside = [row["call_us"][name] - row["overhead_us"] for name in ("constraintDynamics", "lcaba")]
            batch, one = row["inverse_us"].values()
            ratios = (f"{peer / batch:.1f}" for peer in inside)
            table.add_row(row["mechanism"], f"{batch:.3g}", *ratios, f"{one:.3g}", f"{row['inverse_disagreement']:.0e}")
    console.print(table)
    points = [reference_points(m, seconds / 2) for m in (suspension(), suspension(ct.Free()))]
    table = Table("reference point, us in a batch (multiplications)", *REFERENCES, "origin / centroid")
    for row in points:
        cells = [f"{row['batch_us'][name]:.3g} ({row['multiplications'][name]:,})" for name in REFERENCES]
        table.add_row(row["mechanism"], *cells, f"{row['batch_us']['origin'] / row['batch_us']['centroid']:.2f}")
    console.print(table)
    runs = [simulated(title, EXAMPLES[name](), *start, until=100.0) for title, (name, *start) in STARTS.items()] if options.runs else []
    if runs:
        for m, start, rate in ((EXAMPLES["four-bar"](), 0.3, 15.0), (parallelogram(), 1.0, 11.0)):
            runs.append(simulated(f"{m.name}, 1,000 s, rtol 1e-10", m, {"crank": start}, {"crank": rate}, 1000.0, rtol=1e-10))
        table = Table("100 s", "steps", "switches", "largest loop error", "energy change", "time, s")
        for row in runs:
            errors = f"{row['loop_error']:.0e}", f"{row['energy_change']:.0e}"
            cells = f"{row['steps']:,}", str(row["switches"]), *errors, f"{row['seconds']:.2f}"
            table.add_row(row["run"], *cells)
        console.print(table)
    if options.json:
        figures = {"commit": machine.commit(), "machine": machine.description(), "rows": rows, "reference points": points, "runs": runs}
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
