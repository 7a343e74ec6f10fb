"""Mechanisms with loops: catena beside Pinocchio, same states, one run, one core; the reference points of [KY03]; and runs of 100 s.

    python benchmarks/loops.py [--quick] [--json FILE]

Forward dynamics of a four-bar, of a suspension (the example `quarter-car` without its spring), of a ring of seven hinges of general
geometry, one of whose bodies is cut and welded, and of a Stewart platform (6-UPS), whose inverse dynamics by `denoc` are measured beside
the same figures. Batches have 10,000 states that close the loops. Pinocchio closes the same loops between
points (the hinge in the plane, balls) or frames (the weld), by `constraintDynamics` and by `lcaba`, with the least iterations that give
1e-7: one with mu = 0, or 1e-12 where constraints are redundant; two with mu = 1e-6 for `lcaba`. It has no loop in C++ over states, so it is
called from Python state by state; a second figure leaves out the overhead of a call, taken as that of `pin.aba` over a state of
`pin.abaInParallel` on the same tree. Its disagreement with catena is that of first calls on fresh data: on the ring, `lcaba` of Pinocchio
4.1 is wrong at every other call. Times are minima over repeats that take turns.

Last, the examples that conserve energy are simulated for 100 s at default settings, a four-bar that turns and a parallelogram that passes
change points for 1,000 s: the largest error of the loops, and the energy change. With `--quick` they run for a hundredth of that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import machine
import numpy as np
import pinocchio as pin
import results
from dynamics import chain

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


def measure(m: ct.Model, redundant: bool, seconds: float) -> list[results.Row]:
    """Return the figures of a mechanism."""
    fd = ct.forward_dynamics(m)
    q, v, tau = states(m, STATES)
    out = np.empty_like(v)
    fd(q, v, tau, out=out)
    peer = Peer(m, redundant)
    swapped = peer.velocities
    theirs = list(zip(peer.positions(q), v[:, swapped], tau[:, swapped], strict=True))[:CALLED]
    figures: dict[str, Any] = {"coordinates": m.nv, "loops": len(m.loops)}
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
        figures[f"disagreement_{name}"] = float(np.abs(solved - out[:50]).max() / np.abs(solved).max())
        turns[name] = partial(called, peer.solver(name), theirs)
    inverse_off = None
    if m.name in ACTUATED:
        robot = ct.ParallelManipulator(m, ACTUATED[m.name])
        motors = [m.v_names.index(name) for name in robot.actuated]
        wanted = fd(q, v, tau * np.isin(np.arange(m.nv), motors))[:, motors].copy()
        needed = robot.inverse_dynamics(q, v, wanted)
        inverse_off = float(np.abs(needed - tau[:, motors]).max() / np.abs(tau).max())
        turns["inverse"] = partial(robot.inverse_dynamics, q, v, wanted, out=needed)
        turns["inverse, one call"] = partial(called, robot.inverse_dynamics, [(*one[:2], wanted[0].copy())] * CALLED)
    best = machine.fastest(turns, seconds)
    calls = {name: best[name] / CALLED * 1e6 for name in peer.mu}
    figures["overhead_us"] = (best["aba"] - best["aba in parallel"]) / CALLED * 1e6
    inside = {f"Pinocchio {name}": us - figures["overhead_us"] for name, us in calls.items()}
    single = {f"Pinocchio {name}": us for name, us in calls.items()}
    rows = [
        results.row(m.name, "forward dynamics, batch", best["catena"] / STATES * 1e6, inside, **figures),
        results.row(m.name, "forward dynamics, one call", best["one call"] / CALLED * 1e6, single),
    ]
    if inverse_off is not None:  # beside the forward dynamics of the peer, which has no inverse ones with loops
        us = {name: best[name] * 1e6 for name in ("inverse", "inverse, one call")}
        title = "inverse dynamics by denoc"
        rows.append(results.row(m.name, f"{title}, batch", us["inverse"] / STATES, inside, disagreement_forward=inverse_off))
        rows.append(results.row(m.name, f"{title}, one call", us["inverse, one call"] / CALLED, single))
    return rows


def reference_points(m: ct.Model, seconds: float) -> list[results.Row]:
    """Return the time of a state of a batch [us], and the multiplications, at the three reference points."""
    q, v, tau = states(m, STATES)
    kernels = {reference: ct.forward_dynamics(m, f"fully-recursive/{reference}") for reference in REFERENCES}
    out = np.empty_like(v)
    best = machine.fastest({name: partial(kernel, q, v, tau, out=out) for name, kernel in kernels.items()}, seconds)
    return [
        results.row(m.name, f"fully-recursive/{name}, batch", best[name] / STATES * 1e6, multiplications=kernel.operations["mul"])
        for name, kernel in kernels.items()
    ]


def parallelogram() -> ct.Model:
    """Return a parallelogram, which passes change points where it lies flat."""
    m = ct.Model("parallelogram")
    m.add("crank", ct.rod(0.4, mass=1.0), ct.Revolute("y"))
    m.add("coupler", ct.rod(1.0, mass=2.0), ct.Revolute("y"), parent="crank", at=(0.4, 0, 0))
    m.add("rocker", ct.rod(0.4, mass=1.0), ct.Revolute("y"), at=(1.0, 0, 0))
    m.close("pin", ct.Revolute("y"), "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.4, 0, 0))
    return m


def simulated(title: str, m: ct.Model, start: dict[str, float], rates: dict[str, float], until: float, **options: Any) -> results.Row:
    """Return what becomes of loops and energy in a run."""
    q = m.assemble(fixed=start)
    run = ct.simulate(m, q, m.project_velocity(q, fixed=rates), until=until, **options)
    steps, seconds = run.info["steps"], run.info["seconds"]
    figures = {"steps": steps, "switches": run.info["switches"], "loop_error": float(ct.loop_error(m)(run.q).max())}
    figures |= {"energy_change": float(np.abs(run.energy_change).max()), "until_s": until, "run_s": seconds}
    return results.row(title, "a step of a run", 1e6 * seconds / steps, **figures)


def main() -> None:
    """Measure, print and write the figures."""
    options = results.parser(__doc__).parse_args()
    seconds, until = (1.0, 1.0) if options.quick else (6.0, 100.0)
    mechanisms = (EXAMPLES["four-bar"](), True), (suspension(), False), (ring(), False), (EXAMPLES["stewart-ups"](), False)
    rows = [row for m, redundant in mechanisms for row in measure(m, redundant, seconds)]
    rows += [row for m in (suspension(), suspension(ct.Free())) for row in reference_points(m, seconds / 2)]
    rows += [simulated(title, EXAMPLES[name](), *start, until=until) for title, (name, *start) in STARTS.items()]
    for m, start, rate in ((EXAMPLES["four-bar"](), 0.3, 15.0), (parallelogram(), 1.0, 11.0)):
        rows.append(simulated(f"{m.name}, {rate:g} rad/s", m, {"crank": start}, {"crank": rate}, 10.0 * until, rtol=1e-10))
    results.report("loops", rows, options)


if __name__ == "__main__":
    main()
