"""The methods that fit a model, side by side: their results, and their cost.

Times are the shortest of several runs in which the methods take turns; operations are those of the compiled graphs. A method that iterates
is solved state by state in Python: it is measured on a handful of states, and its operations are those of an iteration times their mean
number. Mechanisms with loops are compared at states that close them, and timed at one to which the plans of all methods fit. Pinocchio's
results are compared where it is installed and has the model.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from catena.comparison import peers
from catena.comparison.differences import CentralDifferences, along_motions
from catena.errors import ArgumentError, ConvergenceWarning, ModelError
from catena.formulations import METHODS
from catena.kernels import methods as registry
from catena.kernels.derivatives import forward_dynamics_derivatives, inverse_dynamics_derivatives
from catena.kernels.dynamics import forward_dynamics, inverse_dynamics, mass_matrix
from catena.kernels.iterative import IterativeKernel
from catena.kernels.methods import TANGENTS
from catena.loops.assembly import assemble, project_velocity
from catena.loops.mobility import mobility
from catena.model import Mechanism
from catena.native import Kernel


class Problem(NamedTuple):
    """A problem that is compared: the constructor of its kernels and the reference method, on trees and with loops, if these are compared.

    `beside` are other ways to solve it, which are no methods of catena; `compared` returns what of the results of a kernel is compared.
    """

    kernel: Callable[[Mechanism, str], Any]
    reference: str
    with_loops: str
    beside: Mapping[str, Callable[[Mechanism], Any]] = MappingProxyType({})
    compared: Callable[[Mechanism, dict[str, np.ndarray], Any], Any] = lambda m, known, results: results


def _derivatives(kernel: Callable[[Mechanism, str], Any], dynamics: Callable[[Mechanism], Any], with_loops: str) -> Problem:
    beside = {"central-differences": lambda m: CentralDifferences(m, dynamics(m))}
    return Problem(kernel, TANGENTS, with_loops, beside, along_motions)


#: The problems that are compared. With loops, which joint forces give a motion depends on which joints have motors.
PROBLEMS = {
    "forward_dynamics": Problem(forward_dynamics, "articulated-body", "fully-recursive/joint"),
    "inverse_dynamics": Problem(inverse_dynamics, "newton-euler", ""),
    "mass_matrix": Problem(mass_matrix, "composite-body", "composite-body"),
    "forward_dynamics_derivatives": _derivatives(forward_dynamics_derivatives, forward_dynamics, TANGENTS),
    "inverse_dynamics_derivatives": _derivatives(inverse_dynamics_derivatives, inverse_dynamics, ""),
}

#: The reference method of each problem; and with loops.
REFERENCE = {name: problem.reference for name, problem in PROBLEMS.items()}
REFERENCE_WITH_LOOPS = {name: problem.with_loops for name, problem in PROBLEMS.items() if problem.with_loops}

#: How the cost of methods that close loops grows, with m constraints: with multipliers, or without; and with f degrees of freedom.
MULTIPLIERS = "O(n + n m^2 + m^3)"
ORDER_WITH_LOOPS = {"coordinate-reduction": "O(n + m)", TANGENTS: "O(n^2 f)", "central-differences": "O(n^2 + n m)"}

#: States of a batch, at most and at least, and about the time that a run over it may take [s]: short runs meet less noise, and fewer states
#: would leave vector lanes empty.
BATCH, FEWEST, LONGEST = 4096, 32, 0.005

#: The number of states of a mechanism with loops unless given, and the distance from each to the next [rad or m].
CLOSED, APART = 50, 0.2

#: States on which a method that iterates is measured.
HANDFUL = 8

#: Parts of the repeats whose shortest times are compared, to tell how far these can be trusted.
PARTS = 4

Report = Callable[[str], None]
_Kernel = Kernel | IterativeKernel | CentralDifferences


@dataclass(frozen=True)
class Row:
    """A method on a problem of a model.

    `disagreement` is the largest difference from the reference method over `states` random states, relative to the largest entry of each
    state's result; `order` is how the cost grows, with m constraints and f degrees of freedom where there are loops. Times are in
    microseconds for a state, in a call of its own and in a batch; `build_seconds` is the time to trace and compile, or to find the code in
    the cache. Methods that iterate have the mean number of `iterations` and the largest `residual`; `note` counts states that did not
    converge.
    """

    problem: str
    method: str
    order: str
    states: int
    disagreement: float
    operations: float
    single_us: float
    batch_us: float
    build_seconds: float
    cached: bool
    iterations: float | None = None
    residual: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Choice:
    """The method that `method="auto"` takes for a problem, and why."""

    problem: str
    method: str
    why: str


@dataclass(frozen=True)
class Lack:
    """A method that does not fit a model, and what the model lacks."""

    problem: str
    method: str
    lacks: str


@dataclass(frozen=True)
class PeerResult:
    """Pinocchio's function for a problem: how far its results are from those of the reference method, or why they are not compared."""

    problem: str
    function: str
    states: int
    disagreement: float | None
    why_not: str = ""


@dataclass(frozen=True)
class Comparison:
    """The methods on the problems of a model; `references` has the reference method of each problem.

    `peers` are Pinocchio's results, and `no_peer` says why there are none.
    """

    model: str
    bodies: int
    freedom: int
    seed: int
    rows: tuple[Row, ...]
    automatic: tuple[Choice, ...]
    lacking: tuple[Lack, ...]
    references: dict[str, str] = field(default_factory=dict)
    peers: tuple[PeerResult, ...] = ()
    no_peer: str = ""

    def row(self, problem: str, method: str) -> Row:
        return next(row for row in self.rows if (row.problem, row.method) == (problem, method))


def compare(
    m: Mechanism,
    states: int | None = None,
    seed: int = 0,
    problems: Sequence[str] = tuple(REFERENCE),
    seconds: float = 0.1,
    report: Report = lambda text: None,
    with_peer: bool = True,
) -> Comparison:
    """Return the results and the cost of every method that fits a model.

    `states` is the number of random states on which results are compared, fewer for large models unless given; `seconds` is the time taken
    to time a method, and `report` is called with what is being done. Without `with_peer`, Pinocchio is left out.

    >>> found = compare(examples.pendulum(), states=10, problems=["inverse_dynamics"], seconds=0.0)
    >>> [(row.method, row.order, row.operations, row.disagreement < 1e-12) for row in found.rows]
    [('newton-euler', 'O(n)', 5, True), ('composite-inverse', 'O(n)', 5, True)]
    """
    for problem in problems:
        if problem not in REFERENCE:
            raise ArgumentError(f"compare: '{problem}' is not compared; choose from {', '.join(REFERENCE)}")
    m.tree()  # refuses what cannot move
    references = REFERENCE_WITH_LOOPS if m.has_loops else REFERENCE
    problems = [problem for problem in problems if problem in references]
    if not problems:
        raise ArgumentError(f"compare: model '{m.name}' has loops; choose from {', '.join(references)}")
    most = min(1000, max(HANDFUL, 200_000 // m.nv**2))
    count = (min(CLOSED, most) if m.has_loops else most) if states is None else states
    if count < 1:
        raise ArgumentError(f"compare: {count} states are too few; give at least 1")
    states_of, freedom = sample(m, count, seed), mobility(m).freedom
    expected: dict[str, Any] = {}
    rows = tuple(
        row for problem in problems for row in _rows(m, problem, references[problem], freedom, states_of, expected, seconds, report)
    )
    no_peer = peers.why_not(m) if with_peer else "it was not asked for"
    return Comparison(
        m.name,
        len(m.links),
        freedom,
        seed,
        rows,
        tuple(Choice(problem, *registry.automatic(problem, m)) for problem in problems),
        tuple(
            Lack(problem, name, registry.why_unsuitable(problem, name, m))
            for problem in problems
            for name in registry.methods(problem)
            if registry.why_unsuitable(problem, name, m)
        ),
        {problem: references[problem] for problem in problems},
        () if no_peer else tuple(_peer_results(m, expected, states_of)),
        no_peer,
    )


def _peer_results(m: Mechanism, expected: dict[str, Any], known: dict[str, np.ndarray]) -> Iterator[PeerResult]:
    """Yield how far Pinocchio's results are from those that were found for each problem, on a handful of states."""
    peer, few = peers.Pinocchio(m), {name: x[:HANDFUL] for name, x in known.items()}
    for problem, ours in expected.items():
        function, why_not = peers.FUNCTIONS[problem], peers.why_not_results(m, problem)
        off = None if why_not else disagreement(peer.results(problem, few), _first(ours, HANDFUL))
        yield PeerResult(problem, function, len(few["q"]), off, why_not)


def _first(results: Any, count: int) -> Any:
    """Return the results of the first states."""
    return tuple(x[:count] for x in results) if isinstance(results, tuple) else results[:count]


def disagreement(expected: Any, actual: Any) -> float:
    """Return the largest difference between two batches of arrays, relative to the largest expected entry of each state.

    Several outputs are several arrays, each with a size of its own.

    >>> disagreement(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.0], [3.0, 4.5]]))
    0.125
    """
    pairs = zip(*(x if isinstance(x, tuple) else (x,) for x in (expected, actual)), strict=True)
    return max(_difference(*(x.reshape(len(x), -1) for x in pair)) for pair in pairs)


def _difference(expected: np.ndarray, actual: np.ndarray) -> float:
    difference, size = np.abs(actual - expected).max(axis=1), np.abs(expected).max(axis=1)
    return float(np.divide(difference, size, out=difference.copy(), where=size > 0.0).max())


def sample(m: Mechanism, count: int, seed: int) -> dict[str, np.ndarray]:
    """Return random inputs of kernels by their names."""
    rng = np.random.default_rng(seed)
    q, t = m.random(rng, size=count), rng.uniform(0.0, 10.0, size=count)
    v, last = rng.normal(size=(2, count, m.nv))
    if m.has_loops:
        t[:] = mobility(m).t
        q = np.stack([*islice(_closed(m.at(t[0]), rng), count)])
        v = np.stack([project_velocity(m, *state, t=t[0]) for state in zip(q, v, strict=True)])
    return {"t": t, "q": q, "v": v, "tau": last, "vdot": last}


def _closed(m: Mechanism, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield positions that close the loops of a model along a random path; the first is at a generic configuration."""
    q = mobility(m).q
    while True:
        yield q
        v = project_velocity(m, q, rng.normal(size=m.nv))
        with suppress(ModelError):  # the path ends here, and turns
            q = assemble(m, m.integrate(q, APART * v / max(np.abs(v).max(), 1e-300)))


def _rows(
    m: Mechanism,
    problem: str,
    reference: str,
    freedom: int,
    known: dict[str, np.ndarray],
    expected: dict[str, Any],
    seconds: float,
    report: Report,
) -> Iterator[Row]:
    """Yield the rows of the methods that solve a problem of a model, and enter the results of the reference method."""
    title = f"{problem} of '{m.name}', {freedom} degrees of freedom"
    kernels: dict[str, _Kernel] = {}
    build: dict[str, float] = {}
    solved = PROBLEMS[problem]
    for name in (*registry.fitting(problem, m), *solved.beside):
        report(f"{title}: building {name}")
        started = time.perf_counter()
        kernels[name] = solved.beside[name](m) if name in solved.beside else solved.kernel(m, name)
        build[name] = time.perf_counter() - started
    arguments = [known[port.name] for port in kernels[reference].inputs]

    report(f"{title}: measuring")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # counted in the notes
        tried = {name: min(HANDFUL, len(known["q"])) if _by_state(kernel) else len(known["q"]) for name, kernel in kernels.items()}
        results = {name: kernel(*(x[: tried[name]] for x in arguments)) for name, kernel in kernels.items()}
        results |= {name: solved.compared(m, known, results[name]) for name in results if name not in solved.beside}
        expected[problem] = results[reference]
        iterated = {name: (kernel.iterations, kernel.residual) for name, kernel in kernels.items() if isinstance(kernel, IterativeKernel)}
        single, batch = _times(kernels, [x[:1] for x in arguments] if m.has_loops else arguments, seconds)
    for name, kernel in kernels.items():
        count, residual, note = None, None, ""
        operations: float = sum(kernel.operations.values())
        if isinstance(kernel, IterativeKernel):
            iterations, residuals = iterated[name]
            count, residual = float(iterations.mean()), float(residuals.max())
            operations *= count
            open_ = np.count_nonzero(~(residuals <= kernel.tolerance))
            note = f"{open_} of {residuals.size} states did not reach the tolerance {kernel.tolerance:g}" if open_ else ""
        off = disagreement(_first(expected[problem], tried[name]), results[name])
        parts: tuple[Kernel | CentralDifferences, ...] = kernel._parts if isinstance(kernel, IterativeKernel) else (kernel,)
        cached = all(part.cached for part in parts)
        yield Row(
            problem, name, _order(m, problem, name), tried[name], off, operations,
            1e6 * single[name], 1e6 * batch[name], build[name], cached, count, residual, note,
        )  # fmt: skip


def _order(m: Mechanism, problem: str, method: str) -> str:
    if m.has_loops and problem != "mass_matrix":
        return ORDER_WITH_LOOPS.get(method, MULTIPLIERS)
    return METHODS[method].order(problem) if method in METHODS else CentralDifferences.order


def _times(kernels: dict[str, _Kernel], arguments: list[np.ndarray], seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds that each kernel takes for a state, in a call of its own and in a batch."""
    single, batch = {}, {}
    one = [x[0] for x in arguments]
    for slow in (False, True):  # those in Python take much longer, and would keep the others waiting
        chosen = {name: kernel for name, kernel in kernels.items() if _by_state(kernel) == slow}
        states = {name: batch_of(kernel, arguments) for name, kernel in chosen.items()}
        calls = {name: 1 if slow else calls_of(call_of(kernel, one)) for name, kernel in chosen.items()}
        alone = fastest({name: call_of(kernel, one, calls[name]) for name, kernel in chosen.items()}, seconds / 2)
        together = fastest({name: call_of(kernel, states[name]) for name, kernel in chosen.items()}, seconds)
        single |= {name: alone[name] / calls[name] for name in chosen}
        batch |= {name: together[name] / len(states[name][0]) for name in chosen}
    return single, batch


def _by_state(kernel: Any) -> bool:
    """Return whether a kernel is solved state by state, in Python."""
    return isinstance(kernel, IterativeKernel) or (isinstance(kernel, CentralDifferences) and kernel.by_state)


def batch_of(kernel: Any, arguments: list[np.ndarray]) -> list[np.ndarray]:
    """Return a batch of states for a run of about `LONGEST`."""
    if _by_state(kernel):
        return [x[:HANDFUL] for x in arguments]
    few = [repeated(x, FEWEST) for x in arguments]
    seconds = fastest({"": call_of(kernel, few)})[""]
    return [repeated(x, max(FEWEST, min(BATCH, int(LONGEST / seconds * FEWEST)))) for x in arguments]


def repeated(x: np.ndarray, count: int) -> np.ndarray:
    """Return states one after the other, again and again."""
    return np.resize(x, (count, *x.shape[1:]))


def call_of(kernel: Any, arguments: list[np.ndarray], times: int = 1) -> Callable[[], None]:
    """Return a function that calls a kernel, into the arrays of an earlier result; single numbers are made anew."""
    result = kernel(*arguments)
    out = result if all(isinstance(x, np.ndarray) for x in (result if isinstance(result, tuple) else (result,))) else None

    def run() -> None:
        for _ in range(times):
            kernel(*arguments, out=out)

    return run


def calls_of(run: Callable[[], object]) -> int:
    """Return how many calls last long enough to be timed: about 1 ms."""
    return max(1, min(1000, int(1e-3 / fastest({"": run})[""])))


class Time(NamedTuple):
    """The shortest of several runs [s]; and by how much the shortest of a part of them is longer, at most, relative to it."""

    seconds: float
    spread: float


def timed(runs: dict[str, Callable[[], object]], seconds: float = 0.0, least: int = 2) -> dict[str, Time]:
    """Return the shortest time of each run, and its spread; they take turns for `seconds` each, so that all meet the same noise."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    started, rounds = time.perf_counter(), 0
    while rounds < least or time.perf_counter() - started < seconds * len(runs):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begin)
        rounds += 1
    return {name: Time(min(own), _spread(own)) for name, own in times.items()}


def _spread(times: Sequence[float]) -> float:
    """Return by how much the shortest of a quarter of the times exceeds the shortest of all, at most.

    >>> _spread([1.0, 2.0, 1.1, 1.3, 1.2, 1.2, 1.0, 5.0])
    0.2
    """
    parts = [part.min() for part in np.array_split(np.array(times), min(PARTS, len(times)))]
    return round(float(max(parts) / min(parts) - 1.0), 6)


def fastest(runs: dict[str, Callable[[], object]], seconds: float = 0.0, least: int = 2) -> dict[str, float]:
    """Return the shortest time of each run [s], by `timed`.

    >>> sorted(fastest({"short": lambda: sum(range(10)), "long": lambda: sum(range(10_000))}))
    ['long', 'short']
    """
    return {name: found.seconds for name, found in timed(runs, seconds, least).items()}
