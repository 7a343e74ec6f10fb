"""Fingerprints of all kernels of the built-in examples, and the results of short runs: to prove that a change of the code is neutral.

    python benchmarks/fingerprints.py before.json              on the old commit
    python benchmarks/fingerprints.py after.json before.json   on the new one: prints what differs, and exits with 1 if something does
    python benchmarks/fingerprints.py --examples arm,four-bar some.json

Only public names are used, so that the same script serves both commits. A kernel is its graph (operations, operands, numbers, regions), the
number of its operations, and its results at three states; a run is its last state. Graphs are told apart by a hash. Results are compared
to 1e-12 where graphs differ, to the last bit where they are equal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import catena as ct
from catena.examples import ACTUATED, EXAMPLES

#: Examples whose runs are compared, with the integrators that are not the default.
RUNS = {
    "arm": ("auto", "rk4", "gauss-legendre-4", "symplectic-gauss-4", "rang-angermann"), "four-bar": ("auto", "rk4"), "top": ("auto", "rk4"),
    "quarter-car": ("auto", "rang-angermann"), "gallery": ("auto",), "stewart-ups": ("auto",), "bennett": ("auto",),
}  # fmt: skip


def states(m: ct.Model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three states, with joint forces."""
    rng = np.random.default_rng(5)
    if m.has_loops:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            q = np.array([m.assemble(guess=m.integrate(m.assemble(), 0.1 * rng.normal(size=m.nv))) for _ in range(3)])
        v = np.array([m.project_velocity(x, rng.normal(size=m.nv)) for x in q])
    else:
        q, v = m.random(rng, 3), rng.normal(size=(3, m.nv))
    return q, v, rng.normal(size=(3, m.nv))


def kernels(name: str, m: ct.Model) -> Iterator[tuple[str, Callable[[], Any], tuple[Any, ...]]]:
    """Yield the kernels of a model: name, constructor, arguments."""
    q, v, tau = states(m)
    for method in ct.methods("forward_dynamics"):
        yield f"forward_dynamics/{method}", lambda method=method: ct.forward_dynamics(m, method), (q, v, tau)
    yield "forward_dynamics/auto", lambda: ct.forward_dynamics(m), (q, v, tau)
    for method in ct.methods("inverse_dynamics"):
        yield f"inverse_dynamics/{method}", lambda method=method: ct.inverse_dynamics(m, method), (q, v, np.zeros_like(v))
    for method in ct.methods("mass_matrix"):
        yield f"mass_matrix/{method}", lambda method=method: ct.mass_matrix(m, method), (q,)
    yield "bias_force", lambda: ct.bias_force(m), (q, v)
    yield "gravity_force", lambda: ct.gravity_force(m), (q,)
    yield "coriolis_force", lambda: ct.coriolis_force(m), (q, v)
    yield "passive_force", lambda: ct.passive_force(m), (q, v)
    yield "coriolis_matrix", lambda: ct.coriolis_matrix(m), (q, v)
    yield "energy", lambda: ct.energy(m), (q, v)
    yield "momenta", lambda: ct.momenta(m), (q, v)
    yield "velocities", lambda: ct.velocities(m), (q, ct.momenta(m)(q, v))
    yield "hamiltonian_dynamics", lambda: ct.hamiltonian_dynamics(m), (q, ct.momenta(m)(q, v), tau)
    yield "poses", lambda: ct.poses(m), (q,)
    yield "jacobian", lambda: ct.jacobian(m, m.body_names[-1], (0.1, 0.2, 0.3)), (q,)
    yield "joint_wrenches", lambda: ct.joint_wrenches(m), (q, v, tau)
    if not m.has_loops:
        return
    yield "loop_error", lambda: ct.loop_error(m), (q,)
    r = ct.reduced(m)
    rate = v[:, [m.v_names.index(x) for x in r.names]]
    yield "reduced.rates", lambda: r.rates, (q, rate)
    yield "reduced.mass_matrix", lambda: r.mass_matrix, (q,)
    yield "reduced.bias_force", lambda: r.bias_force, (q, v)
    if name in ACTUATED:
        try:
            robot = ct.ParallelManipulator(m, actuated=ACTUATED[name])
        except ct.ModelError:  # legs that share bodies
            return
        yield "manipulator.inverse_dynamics", lambda: robot.inverse_dynamics, (q, v, np.zeros_like(v))
        yield "manipulator.jacobian", lambda: robot.jacobian, (q,)


def fingerprint(kernel: Any) -> str:
    """Return the hash of a kernel's graph."""
    graph = getattr(kernel, "graph", None)
    if graph is None:
        return ""
    parts = (graph.nodes, graph.inputs, graph.outputs, graph.results, graph.marks)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def numbers(results: Any) -> list[str]:
    """Return results as text that keeps every bit."""
    parts = results if isinstance(results, tuple) else (results,)
    return [float(x).hex() for part in parts for x in np.ravel(np.asarray(part, dtype=float))]


def collected(names: Sequence[str]) -> dict[str, Any]:
    """Return the kernels and runs of examples."""
    found: dict[str, Any] = {}
    for name in names:
        m = EXAMPLES[name]()
        for kernel_name, constructor, arguments in kernels(name, m):
            try:
                kernel = constructor()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found[f"{name} {kernel_name}"] = {
                        "graph": fingerprint(kernel), "operations": sum(getattr(kernel, "operations", {"": 0}).values()),
                        "results": numbers(kernel(*arguments)),
                    }  # fmt: skip
            except (ct.CatenaError, AttributeError) as error:
                found[f"{name} {kernel_name}"] = {"error": f"{type(error).__name__}"}
        for integrator in RUNS.get(name, ()):
            q, v, _ = (x[0] for x in states(m))
            run = ct.simulate(m, q, v, until=0.1, integrator=integrator, step=None if integrator in ("auto", "rang-angermann") else 1e-3)
            found[f"{name} simulate/{integrator}"] = {"results": numbers((run.q[-1], run.v[-1])), "steps": int(run.info["steps"])}
        if name in RUNS:
            q, v, tau = states(m)
            many = ct.rollout(m, q, v, tau, step=1e-3, steps=20)
            found[f"{name} rollout"] = {"results": numbers((many.q[:, -1], many.v[:, -1]))}
        print(name, file=sys.stderr, flush=True)
    return found


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return what differs, one line each."""
    lines = [f"{key}: only before" for key in before.keys() - after.keys()] + [f"{key}: only after" for key in after.keys() - before.keys()]
    for key in sorted(before.keys() & after.keys()):
        a, b = before[key], after[key]
        for what in ("graph", "operations", "steps", "error"):
            if a.get(what) != b.get(what):
                lines.append(f"{key}: {what} {a.get(what)} became {b.get(what)}")
        x, y = (np.array([float.fromhex(text) for text in entry.get("results", [])]) for entry in (a, b))
        if a.get("results") != b.get("results"):
            far = np.abs(x - y).max(initial=0.0) / max(np.abs(x).max(initial=0.0), 1e-300) if x.shape == y.shape else np.inf
            exact = a.get("graph") and a.get("graph") == b.get("graph")
            if exact or not far <= 1e-12:
                lines.append(f"{key}: results differ by {far:.1e}")
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fingerprints of kernels and runs, to prove that a change is neutral.")
    parser.add_argument("after", type=pathlib.Path, help="the file to write")
    parser.add_argument("before", nargs="?", type=pathlib.Path, help="a file of another commit, to compare with")
    parser.add_argument("--examples", type=lambda text: text.split(","), default=list(EXAMPLES), help="names of examples, by commas")
    options = parser.parse_args()
    after = collected(options.examples)
    options.after.write_text(json.dumps(after, indent=1))
    if options.before is not None:
        lines = differences(json.loads(options.before.read_text()), after)
        print("\n".join(lines) or f"{len(after)} kernels and runs: no difference")
        sys.exit(bool(lines))
