"""Ensembles: in threads, processes and on a Dask cluster they equal one rollout bit for bit, also when workers die."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.processes import running

import catena as ct
from catena.examples import EXAMPLES

#: Enough work for a worker to die in the middle of it: about a second on two cores.
LONG = {"step": 1e-3, "steps": 4000, "every": 1000}

#: The cost of the last velocities, and its gradient, also by gravity.
GRADIENT = {"step": 1e-3, "steps": 500, "final_cost": lambda t, q, v: v @ v, "parameters": {"gravity": [0.0, 0.0, -9.0]}}

needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="kills by signal")


def states(m: ct.Model, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return m.random(rng, count), 0.3 * rng.normal(size=(count, m.nv))


def same(a: ct.Rollout, b: ct.Rollout) -> bool:
    """Whether two rollouts are equal bit for bit."""
    pairs = [(x, y) for x, y in zip((a.t, *a.parts), (b.t, *b.parts), strict=True) if x is not None or y is not None]
    return all(x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in pairs)


@pytest.fixture(scope="module")
def arm() -> ct.Model:
    return EXAMPLES["arm"]()


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of a user, with functions that other processes find."""
    (tmp_path / "users_module.py").write_text(
        "import numpy as np\n\ndef brake(t, q, v):\n    return -0.5 * v\n\ndef wind(t, q, v):\n    return np.array([0.0, np.sin(t), 0.0])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import users_module  # type: ignore[import-not-found]

    yield users_module
    sys.modules.pop("users_module")


@pytest.mark.parametrize("chunk", [None, 1, 7, 1000])
def test_threads_equal_one_rollout(arm: ct.Model, chunk: int | None) -> None:
    q, v = states(arm, 50)
    tau = np.random.default_rng(1).normal(size=(50, 5, 7))
    for controls in (None, tau[0, 0], tau[:, 0], tau[:1], tau, lambda t, q, v: -v):
        one = ct.rollout(arm, q, v, controls, 1e-3, 20)
        assert same(one, ct.ensemble(arm, q, v, controls, step=1e-3, steps=20, chunk=chunk))


def test_leading_axes_and_settings_equal_those_of_a_rollout(arm: ct.Model) -> None:
    q, v = states(arm, 12)
    q, tau = q.reshape(3, 4, 7), np.random.default_rng(1).normal(size=(1, 4, 2, 7))
    settings: dict[str, Any] = {"step": 1e-3, "steps": 20, "every": 5, "start": 1.0, "integrator": "midpoint", "method": "composite-body"}
    one = ct.rollout(arm, q, v[0], tau, **settings)
    assert one.q.shape == (3, 4, 5, 7)
    with ThreadPoolExecutor(3) as pool:
        assert same(one, ct.ensemble(arm, q, v[0], tau, executor=pool, chunk=5, **settings))
        assert pool.submit(int, "7").result() == 7  # the pool is the user's, and still open
    assert ct.ensemble(arm, np.zeros((0, 7)), step=1e-3, steps=20).q.shape == (0, 21, 7)


def test_failed_trajectories_are_reported_as_in_a_rollout() -> None:
    m = ct.Model("slider", gravity=(0, 0, 0))
    m.add("mass", ct.point_mass(2.0), ct.Prismatic("x"))
    m.add_force("push", lambda t, q, v: np.array([q[0] * q[0] * q[0]]))
    q = np.linspace(-90.0, 90.0, 40)[:, None]
    one, many = ct.rollout(m, q, step=0.01, steps=100), ct.ensemble(m, q, step=0.01, steps=100, chunk=6)
    assert one.failed.any()
    assert not one.failed.all()
    assert same(one, many)


def test_processes_equal_one_rollout(processes: ProcessPoolExecutor, module: Any) -> None:
    m = EXAMPLES["top"]()
    m.tree()  # built here, and again there
    m.add_force("wind", module.wind)
    q, v = states(m, 30)
    for controls in (None, np.ones(m.nv), module.brake):
        one = ct.rollout(m, q, v, controls, 1e-3, 20)
        assert same(one, ct.ensemble(m, q, v, controls, step=1e-3, steps=20, executor=processes, chunk=8))


def test_mechanisms_with_loops_equal_one_rollout(processes: ProcessPoolExecutor) -> None:
    """Which constraints hold a trajectory does not depend on its chunk, nor on the process."""
    m = EXAMPLES["bennett"]()
    q, speeds = [m.assemble()], np.linspace(2.0, 9.0, 21)
    for _ in range(20):
        q.append(m.assemble(guess=q[-1] + 0.3 * m.project_velocity(q[-1], link1=1.0)))
    v = np.array([m.project_velocity(x, link1=speed) for x, speed in zip(q, speeds, strict=True)])
    one = ct.rollout(m, q, v, step=2e-3, steps=100, every=25)
    assert not one.failed.all()
    assert same(one, ct.ensemble(m, q, v, step=2e-3, steps=100, every=25, chunk=4))
    assert same(one, ct.ensemble(m, q, v, step=2e-3, steps=100, every=25, chunk=7, executor=processes))
    wrong = np.array(q)
    wrong[17, 1] += 0.1
    with pytest.raises(ct.ArgumentError, match=r"q0\[17\] leaves loop 'ring' of model 'bennett' open"):
        ct.ensemble(m, wrong, v, step=2e-3, steps=100, chunk=4)


def test_functions_travel_wherever_they_are_defined(processes: ProcessPoolExecutor) -> None:
    pytest.importorskip("cloudpickle")
    m = EXAMPLES["double-pendulum"]()
    gain = m.parameter("gain", 0.3)
    m.add_force("brake", lambda t, q, v: -gain * v)
    q, v = states(m, 20)
    options: dict[str, Any] = {"step": 1e-3, "steps": 20, "parameters": {"gain": np.linspace(0.1, 0.3, 20)}}

    def controller(t: Any, q: Any, v: Any) -> Any:
        return -q - 0.1 * v

    ends: dict[str, Any] = {"stop": lambda t, q, v: abs(v[0]) > 0.4, "observe": lambda t, q, v: np.sin(q)}
    one = ct.rollout(m, q, v, controller, **ends, **options)
    assert one.stopped.any()
    assert same(one, ct.ensemble(m, q, v, controller, executor=processes, chunk=8, **ends, **options))
    costs: dict[str, Any] = {"cost": lambda t, q, v, tau: tau @ tau, "final_cost": lambda t, q, v: q @ q}
    whole = ct.rollout_gradient(m, q, v, controller, **costs, **options)
    parts = ct.rollout_gradient(m, q, v, controller, executor=processes, chunk=8, **costs, **options)
    for a, b in ((whole.value, parts.value), (whole.v0, parts.v0), (whole.parameters["gain"], parts.parameters["gain"])):
        np.testing.assert_array_equal(a, b)


def test_functions_that_cannot_be_pickled_are_named(processes: ProcessPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)

    def study(m: ct.Model, controls: Any = None) -> ct.Rollout:
        return ct.ensemble(m, m.neutral(), None, controls, step=1e-3, steps=1, executor=processes)

    with pytest.raises(ct.ArgumentError, match=r"controller cannot be pickled; .*install cloudpickle, or use threads"):
        study(EXAMPLES["pendulum"](), lambda t, q, v: -v)
    m = EXAMPLES["pendulum"]()
    m.add_force("wind", lambda t, q, v: -v)
    with pytest.raises(ct.ArgumentError, match="force 'wind' cannot be pickled"):
        study(m)
    with pytest.raises(ct.ArgumentError, match=r"joint of body '.*' cannot be pickled"):
        study(EXAMPLES["gallery"]())


def kill_soon(process: int, delay: float, killed: list[float]) -> threading.Thread:
    """Start a thread that kills a process after a while, and notes when."""

    def kill() -> None:
        time.sleep(delay)
        os.kill(process, signal.SIGKILL)
        killed.append(time.perf_counter())

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


@needs_signals
def test_a_pool_whose_process_is_killed_loses_nothing(arm: ct.Model) -> None:
    q, v = states(arm, 384)
    one = ct.rollout(arm, q, v, **LONG)
    killed: list[float] = []
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        ct.ensemble(arm, q[:32], v[:32], step=1e-3, steps=10, executor=pool)  # both are up
        thread = kill_soon(next(iter(pool._processes)), 0.15, killed)
        many = ct.ensemble(arm, q, v, executor=pool, chunk=16, **LONG)
        ended = time.perf_counter()
        thread.join()
        with pytest.raises(BrokenExecutor):
            pool.submit(int, "7").result()
    assert killed[0] < ended
    assert same(one, many)


class Deadly:
    """An executor whose workers die so many times before they work."""

    def __init__(self, deaths: int) -> None:
        self.deaths, self.submitted = deaths, 0

    def submit(self, function: Any, *arguments: Any) -> Future:
        future: Future = Future()
        self.submitted += 1
        if self.submitted <= self.deaths:
            future.set_exception(ConnectionError("worker lost"))
        else:
            future.set_result(function(*arguments))
        return future


def test_a_chunk_is_tried_three_times(arm: ct.Model) -> None:
    q, v = states(arm, 10)
    patient = Deadly(2)
    assert same(ct.rollout(arm, q, v, step=1e-3, steps=5), ct.ensemble(arm, q, v, step=1e-3, steps=5, executor=patient))
    assert patient.submitted == 3
    with pytest.raises(ct.SimulationError, match=r"trajectories 0 to 9 died 3 times \(ConnectionError: worker lost\)"):
        ct.ensemble(arm, q, v, step=1e-3, steps=5, executor=Deadly(1000))


def test_errors_of_the_work_are_not_tried_again(arm: ct.Model) -> None:
    class Wrong(Deadly):
        def submit(self, function: Any, *arguments: Any) -> Future:
            self.submitted += 1
            future: Future = Future()
            future.set_exception(ValueError("no such thing"))
            return future

    wrong = Wrong(0)
    with pytest.raises(ValueError, match="no such thing"):
        ct.ensemble(arm, np.zeros(7), step=1e-3, steps=5, executor=wrong)
    assert wrong.submitted == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"executor": 3}, "executor 3 has no submit"),
        ({"chunk": 0}, "chunk = 0 is not a count"),
        ({"steps": -1}, "steps = -1 is not a count"),
        ({"step": 0.0}, "step = 0 is not positive"),
    ],
)
def test_errors_at_the_door(arm: ct.Model, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ct.ArgumentError, match=message):
        ct.ensemble(arm, np.zeros(7), **({"step": 1e-3, "steps": 5} | arguments))


@needs_signals
@pytest.mark.filterwarnings("ignore")  # of Dask's own
def test_a_dask_cluster_equals_one_rollout_also_when_a_worker_is_killed(arm: ct.Model) -> None:
    distributed = pytest.importorskip("distributed")
    q, v = states(arm, 384)
    one = ct.rollout(arm, q, v, **LONG)
    whole = ct.rollout_gradient(arm, q, v, **GRADIENT)
    killed: list[float] = []
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None, "host": "127.0.0.1"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        workers = client.run(os.getpid)
        assert len(set(workers.values())) == 2
        assert os.getpid() not in workers.values()
        short = ct.ensemble(arm, q[:40], v[:40], lambda t, q, v: -v, step=1e-3, steps=10, executor=client)
        assert same(short, ct.rollout(arm, q[:40], v[:40], lambda t, q, v: -v, step=1e-3, steps=10))
        again: list[float] = []
        thread = kill_soon(workers.popitem()[1], 0.15, again)
        parts = ct.rollout_gradient(arm, q, v, executor=client, chunk=16, **GRADIENT)
        thread.join()
        assert parts.value.tobytes() == whole.value.tobytes()
        assert parts.parameters["gravity"].tobytes() == whole.parameters["gravity"].tobytes()
        workers = client.run(os.getpid)
        thread = kill_soon(next(iter(workers.values())), 0.15, killed)
        many = ct.ensemble(arm, q, v, executor=client, chunk=16, **LONG)
        ended = time.perf_counter()
        thread.join()
        assert same(one, ct.ensemble(arm, q, v, executor=client.get_executor(), chunk=128, **LONG))
    assert killed[0] < ended
    assert same(one, many)


CTRL_C = """
import os, signal, threading, time
import numpy as np
import catena as ct
from catena.examples import EXAMPLES

arm = EXAMPLES["arm"]()
q = arm.random(np.random.default_rng(0), 400)
study = {study}
study(2)
pressed = []

def press():
    pressed.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

threading.Timer(1.0, press).start()
try:
    study(1_000_000)
except KeyboardInterrupt:
    print(time.monotonic() - pressed[0] < 5.0, [thread.name for thread in threading.enumerate()][1:])
"""
STUDIES = {
    "rollouts": "lambda steps: ct.ensemble(arm, q, step=1e-5, steps=steps, every=steps // 2)",
    "gradients": "lambda steps: ct.rollout_gradient(arm, q, step=1e-5, steps=steps, final_cost=lambda t, q, v: v @ v, chunk=100)",
}


@needs_signals
@pytest.mark.parametrize("study", STUDIES)
def test_ctrl_c_ends_a_study_on_threads(study: str) -> None:
    """Its chunks end early, rather than when they are done; and no thread goes on."""
    with running([sys.executable, "-c", CTRL_C.format(study=STUDIES[study])], stdout=subprocess.PIPE, text=True) as process:
        output, _ = process.communicate(timeout=120)
    assert (process.returncode, output) == (0, "True []\n")
