"""Operations of forward dynamics beside Table 1 of [NLT03].

    python benchmarks/operations.py [--quick] [--json FILE]

The mechanism is that of the table: a chain of n bodies on revolute joints in general Denavit-Hartenberg geometry, with full inertias and no
passive joint forces. Counted are the additions and subtractions, and the multiplications and divisions, of the traced formulation: all that
a kernel computes from q, v and tau, or from q, p and tau, each expression once. Products with 0 and 1 are none. Sines and cosines, two for
each joint, are not counted, nor are changes of sign, which fold into additions. Numbers of the model alone are computed before. Counts are
taken from the traces of 3 to 12 and of 30 bodies, and are exactly linear in n.

A second table has the time of a state, in batches of 2,048 that write into given arrays, on one core: minima over repeats that take turns.
"""

from __future__ import annotations

from functools import partial

import machine
import numpy as np
import results

import catena as ct
from catena.examples import EXAMPLES
from catena.formulations import METHODS
from catena.graph import Trace

#: [NLT03] Table 1: additions and multiplications, each as a number for every body and one for all. Rein's total is printed as 411n - 669.
PUBLISHED = {
    "Featherstone": ((275, -18), (336, -220)),
    "Vukobratović": ((231, -294), (249, -272)),
    "Valášek": ((206, -345), (226, -343)),
    "Rein": ((195, -247), (216, -317)),
    "Naudet-Lefeber (momenta)": ((178, -230), (185, -245)),
}

#: What is counted of catena: title, problem, method.
COUNTED = (
    ("articulated-body", "forward_dynamics", "articulated-body"),
    ("canonical-momenta (momenta)", "hamiltonian_dynamics", "canonical-momenta"),
    ("newton-euler (inverse dynamics)", "inverse_dynamics", "newton-euler"),
)

SIZES = (*range(3, 13), 30)


def chain(bodies: int, gravity: tuple[float, float, float]) -> ct.Model:
    """Return a chain of revolute joints about z, each placed by a general screw about x on the last, with full inertias."""
    rng = np.random.default_rng(0)
    m = ct.Model(f"chain of {bodies}", gravity=gravity)
    parent = "ground"
    for k in range(bodies):
        turn, shift, length = rng.uniform(0.3, 1.2), rng.uniform(0.1, 0.5), rng.uniform(0.1, 0.5)
        about = np.diag(rng.uniform(0.2, 0.3, 3)) + 0.02
        at = ct.Pose((length, -shift * np.sin(turn), shift * np.cos(turn)), rpy=(turn, 0.0, 0.0))
        m.add(f"link{k}", ct.Body(rng.uniform(1.0, 3.0), rng.uniform(0.1, 0.3, 3), about), ct.Revolute("z"), parent=parent, at=at)
        parent = f"link{k}"
    return m


def count(problem: str, method: str, m: ct.Model) -> tuple[int, int]:
    """Return the additions, and the multiplications and divisions, of a method."""
    trace = Trace(problem)
    found = METHODS[method].solves[problem](m.tree().marked(trace.mark), *(trace.input(name, (m.nv,)) for name in ("q", "v", "tau")))
    counts = trace.graph(found=np.concatenate(found) if isinstance(found, tuple) else found).operations
    if not set(counts) <= {"add", "mul", "div", "neg", "trig"}:
        raise ValueError(f"{method} has operations that are not counted here: {counts}")
    return counts["add"], counts["mul"] + counts.get("div", 0)


def lines(problem: str, method: str, gravity: tuple[float, float, float]) -> tuple[tuple[int, int], ...]:
    """Return additions and multiplications, each as a number for every body and one for all."""
    counts = {n: count(problem, method, chain(n, gravity)) for n in SIZES}
    result = []
    for kind in range(2):
        each = counts[4][kind] - counts[3][kind]
        all_ = counts[3][kind] - 3 * each
        if any(counts[n][kind] != each * n + all_ for n in SIZES):
            raise ValueError(f"counts of {method} are not linear in the number of bodies: {counts}")
        result.append((each, all_))
    return tuple(result)


def shown(line: tuple[int, int]) -> str:
    """Return a line as a formula."""
    each, all_ = line
    return f"{each}n {'+' if all_ > 0 else '-'} {abs(all_)}"


def times(m: ct.Model, seconds: float, states: int = 2048) -> dict[str, float]:
    """Return the time of a state [us] of accelerations from velocities, and of Hamilton's equations."""
    rng = np.random.default_rng(0)
    q, v, tau = m.random(rng, states), rng.normal(size=(states, m.nv)), rng.normal(size=(states, m.nv))
    p = ct.momenta(m)(q, v)
    accelerations, rates = ct.forward_dynamics(m, "articulated-body"), ct.hamiltonian_dynamics(m)
    best = machine.fastest(
        {
            "articulated-body": partial(accelerations, q, v, tau, out=np.empty_like(v)),
            "canonical-momenta": partial(rates, q, p, tau, out=(np.empty_like(v), np.empty_like(v))),
        },
        seconds,
    )
    return {name: best[name] / states * 1e6 for name in best}


def main() -> None:
    """Count, measure, print and write the figures."""
    options = results.parser(__doc__).parse_args()
    counted = {f"{name}, published": row for name, row in PUBLISHED.items()}
    for title, problem, method in COUNTED:
        counted[title] = lines(problem, method, (0.0, 0.0, -9.81))
        counted[f"{title}, no gravity"] = lines(problem, method, (0.0, 0.0, 0.0))
    rows = []
    for name, (additions, multiplications) in counted.items():
        total = (additions[0] + multiplications[0], additions[1] + multiplications[1])
        figures = {"additions": shown(additions), "multiplications": shown(multiplications), "total": shown(total)}
        rows.append(results.row("chain of n", name, **figures))
    for m in (*(chain(n, (0.0, 0.0, -9.81)) for n in (7, 30, 100)), EXAMPLES["arm"](), EXAMPLES["humanoid"]()):
        rows += [results.row(m.name, name, us) for name, us in times(m, 0.2 if options.quick else 2.0).items()]
    results.report("operations", rows, options)


if __name__ == "__main__":
    main()
