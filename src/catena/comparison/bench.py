"""Times of the kernels of a model on this machine, and beside them those of Pinocchio where it has the model.

Times are the shortest of several runs, in which catena and Pinocchio take turns, on the same states. One call is one from Python; a batch
is a call over many states, on one core; on all cores, each has a batch of its own.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from catena.comparison import peers
from catena.comparison.changes import Change, change, differing
from catena.comparison.methods import FEWEST, HANDFUL, Report, batch_of, call_of, calls_of, disagreement, fastest, repeated, sample, timed
from catena.errors import ArgumentError
from catena.formulations.joint_forces import passive_force
from catena.kernels import bias_forces, derivatives, dynamics, kinematics
from catena.loops.mobility import mobility
from catena.model import Mechanism
from catena.native.llvm import machine

#: What is timed, in this order; the last for mechanisms with loops only.
KERNELS: dict[str, Callable[[Mechanism], Any]] = {
    constructor.__name__: constructor
    for constructor in (
        dynamics.forward_dynamics, dynamics.inverse_dynamics, dynamics.mass_matrix, bias_forces.bias_force, kinematics.poses,
        dynamics.energy, dynamics.joint_wrenches, derivatives.forward_dynamics_derivatives, derivatives.inverse_dynamics_derivatives,
        dynamics.loop_error,
    )
}  # fmt: skip

#: How kernels are called, and what a table calls it.
CALLS = {"single": "one call", "batch": "batch", "cores": "all cores"}

#: How long the cores work at least before they meet [s].
_APART = 5e-3


@dataclass(frozen=True)
class Peer:
    """Pinocchio's function for a kernel: its times for a state [us], None where it has no such call, and how far its results are off.

    `disagreement` is relative to the largest entry of each state, over a handful of states; None where the results are not the same thing.
    """

    function: str
    single_us: float
    batch_us: float | None
    cores_us: float | None
    disagreement: float | None


@dataclass(frozen=True)
class Timing:
    """A kernel: the seconds it took to trace and compile, or to find in the cache, and its times for a state [us].

    `spread` has, for "single", "batch" and "cores", by how much times of a part of the repeats are longer, relative to these.
    """

    kernel: str
    method: str
    operations: int
    trace_seconds: float
    compile_seconds: float
    cached: bool
    single_us: float
    batch_us: float
    cores_us: float
    spread: dict[str, float]
    peer: Peer | None = None


@dataclass(frozen=True)
class Bench:
    """The kernels of a model on a machine; `no_peer` says why Pinocchio is not beside them."""

    model: str
    bodies: int
    freedom: int
    seed: int
    machine: dict[str, Any]
    versions: dict[str, str]
    rows: tuple[Timing, ...]
    no_peer: str


def bench(m: Mechanism, cores: int = 1, seed: int = 0, seconds: float = 0.1, report: Report = lambda text: None) -> Bench:
    """Return how long the kernels of a model take on this machine.

    `cores` is the number of threads of the last column, `seconds` the time taken to time a call, and `report` is called with what is being
    done.

    >>> found = bench(examples.pendulum(), seconds=0.0)
    >>> [(row.kernel, row.operations) for row in found.rows[:3]]
    [('forward_dynamics', 5), ('inverse_dynamics', 5), ('mass_matrix', 0)]
    """
    m.tree()  # refuses what cannot move
    if cores < 1:
        raise ArgumentError(f"bench: {cores} cores are too few; give at least 1")
    states = sample(m, FEWEST, seed)
    if m.has_loops:  # all at one state, to which the plans of all kernels fit
        states = {name: x[:1] for name, x in states.items()}
        forward = dynamics.forward_dynamics(m)
        states["vdot"] = np.asarray(forward(*(states[port.name] for port in forward.inputs)))
    no_peer = peers.why_not(m)
    peer = None if no_peer else _Pinocchio(m, states, cores)
    rows = []
    with ThreadPoolExecutor(cores) as pool:
        for name in list(KERNELS)[: None if m.has_loops else -1]:
            report(f"{name} of '{m.name}'")
            rows.append(_timed(m, name, states, cores, pool, peer, seconds))
    return Bench(
        m.name,
        len(m.links),
        mobility(m).freedom,
        seed,
        this_machine() | {"cores": cores},
        software() | ({} if peer is None else {"pinocchio": peer.peer.pinocchio.__version__}),
        tuple(rows),
        no_peer,
    )


def _timed(
    m: Mechanism, name: str, states: dict[str, np.ndarray], cores: int, pool: ThreadPoolExecutor, peer: _Pinocchio | None, seconds: float
) -> Timing:
    """Return the times of a kernel, and of the peer's function for it."""
    kernel = KERNELS[name](m)
    arguments = [states[port.name] for port in kernel.inputs]
    one, batch = [x[0] for x in arguments], batch_of(kernel, arguments)
    laps = max(1, int(_APART / fastest({"": call_of(kernel, batch)})[""]))
    shares = [call_of(kernel, [x.copy() for x in batch], laps) for _ in range(cores)]
    counts = {"single": calls_of(call_of(kernel, one)), "batch": len(batch[0]), "cores": cores * laps * len(batch[0])}
    runs: dict[str, Callable[[], object]] = {
        "single": call_of(kernel, one, counts["single"]),
        "batch": call_of(kernel, batch),
        "cores": lambda: list(pool.map(lambda share: share(), shares)),
    }
    functions = {} if peer is None else peer.functions(name, len(batch[0]))
    if "single" in functions:
        counts["peer single"] = calls_of(functions["single"])
        runs["peer single"] = lambda: [functions["single"]() for _ in range(counts["peer single"])]
    for key in ("batch", "cores"):
        if key in functions:
            counts[f"peer {key}"], runs[f"peer {key}"] = len(batch[0]), functions[key]
    best = timed(runs, seconds)
    us = {key: 1e6 * best[key].seconds / counts[key] for key in runs}
    beside = None
    if peer is not None and "peer single" in us:
        off = peer.disagreement(name, kernel)
        beside = Peer(peers.FUNCTIONS[name], us["peer single"], us.get("peer batch"), us.get("peer cores"), off)
    trace = kernel.seconds["trace"]
    return Timing(
        name, kernel.method, sum(kernel.operations.values()), trace, sum(kernel.seconds.values()) - trace, kernel.cached,
        us["single"], us["batch"], us["cores"], {key: best[key].spread for key in CALLS}, beside,
    )  # fmt: skip


class _Pinocchio:
    """Pinocchio's functions for the kernels of a model, at some states; passive joint forces are added to the joint forces."""

    def __init__(self, m: Mechanism, states: dict[str, np.ndarray], cores: int) -> None:
        self.peer, self.states, self.cores = peers.Pinocchio(m), states, cores
        q, v = states["q"], states["v"]
        passive = np.array([np.asarray(passive_force(m.tree(), *state), dtype=float) for state in zip(q, v, strict=True)])
        converted = [self.peer.state(*state) for state in zip(q, v, strict=True)]
        x = states["tau"]
        self.q = np.array([position for position, _, _ in converted])
        self.v = np.array([T @ rate for (_, T, _), rate in zip(converted, v, strict=True)])
        self.tau = np.array([T @ force for (_, T, _), force in zip(converted, x + passive, strict=True)])
        self.vdot = np.array([T @ rate + drift for (_, T, drift), rate in zip(converted, states["vdot"], strict=True)])

    def functions(self, name: str, count: int) -> dict[str, Callable[[], object]]:
        """Return what computes one state, a batch of so many on one core, and one on all, as far as Pinocchio has that."""
        pin, model, data = self.peer.pinocchio, self.peer.model, self.peer.data
        last = {"forward_dynamics": self.tau, "inverse_dynamics": self.vdot}.get(name.removesuffix("_derivatives"))
        if name not in peers.FUNCTIONS:
            return {}
        taken = {"mass_matrix": 1, "poses": 1, "energy": 2}.get(name, 3)
        one = [x[0].copy() for x in (self.q, self.v, last)[:taken] if x is not None]
        call = getattr(pin, peers.FUNCTIONS[name])
        calls: dict[str, Callable[[], object]] = {"single": lambda: call(model, data, *one)}
        if last is not None and not name.endswith("_derivatives"):
            many = getattr(pin, f"{peers.FUNCTIONS[name]}InParallel")
            columns = [np.asfortranarray(repeated(x, count).T) for x in (self.q, self.v, last)]
            out = np.zeros((model.nv, count), order="F")
            for key, threads in (("batch", 1), ("cores", self.cores)):
                pool = pin.ModelPool(model, threads)
                calls[key] = lambda threads=threads, pool=pool: many(threads, pool, *columns, out)
        return calls

    def disagreement(self, name: str, kernel: Any) -> float | None:
        """Return how far results are off, where they are the same thing."""
        if peers.why_not_results(self.peer.m, name):
            return None
        few = {key: x[:HANDFUL] for key, x in self.states.items()}
        return disagreement(self.peer.results(name, few), kernel(*(few[port.name] for port in kernel.inputs)))


def read_bench(path: Path) -> Bench:
    """Return the bench that `catena bench --json` wrote to a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ArgumentError(f"{path}: there is no such file; write it by `catena bench MODEL --json > {path}`") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path}: the file cannot be read: {error}") from None
    try:
        facts = json.loads(text)
        rows = tuple(_made(Timing, row | {"peer": row["peer"] and _made(Peer, row["peer"])}) for row in facts["rows"])
        found = _made(Bench, facts | {"rows": rows})
        times = [getattr(row, f"{key}_us") for row in rows for key in CALLS]
        if not all(isinstance(time, float) and time > 0.0 for time in times) or any(row.spread.keys() != CALLS.keys() for row in rows):
            raise ValueError("times are missing")
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ArgumentError(f"{path}: this is not a bench of this version; write one by `catena bench MODEL --json > FILE`") from None
    return found


def _made(kind: Any, facts: dict[str, Any]) -> Any:
    """Return a record of the entries that are its own."""
    return kind(**{field.name: facts[field.name] for field in fields(kind)})


def compared(before: Bench, now: Bench) -> list[Change]:
    """Return how the times of kernels that both have changed; noise is the spread of the repeats of both.

    >>> found = bench(examples.pendulum(), seconds=0.0)
    >>> {one.ratio for one in compared(found, found)}
    {1.0}
    """
    rows, changes = {row.kernel: row for row in before.rows}, []
    for row in now.rows:
        if row.kernel in rows:
            first = rows[row.kernel]
            for key, title in CALLS.items():
                noise = (1.0 + first.spread[key]) * (1.0 + row.spread[key]) - 1.0
                changes.append(change(f"{row.kernel}, {title}", getattr(first, f"{key}_us"), getattr(row, f"{key}_us"), noise))
    return changes


def what_differs(before: Bench, now: Bench) -> list[str]:
    """Return what differs between the machines, versions, states and models of two benches, whose times then say little of the code.

    >>> found = bench(examples.pendulum(), seconds=0.0)
    >>> what_differs(found, bench(examples.pendulum(), seed=7, seconds=0.0))
    ['seed 0, now 7']
    """
    own = ("bodies", "freedom", "seed")
    models = ({name: value for name, value in asdict(one).items() if name in own} for one in (before, now))
    return differing(before.machine, now.machine) + differing(before.versions, now.versions) + differing(*models)


def this_machine() -> dict[str, Any]:
    """Return the processor, what code is compiled for and how many numbers its vectors have, and the system."""
    host = machine.host()
    return {"processor": processor(), "compiled_for": host.processor, "lanes": host.lanes, "system": platform.platform(terse=True)}


def software() -> dict[str, str]:
    """Return the versions of Python and of what compiles and calls kernels."""
    return {"python": platform.python_version(), **{name: version(name) for name in ("numpy", "llvmlite")}}


def processor() -> str:
    """Return the name of the processor, where the system knows it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
