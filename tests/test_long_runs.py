"""Long runs: Ctrl-C, checkpoints that survive kill -9, progress."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tests.long_run import Q0, V0, pair, run
from tests.processes import running

import catena as ct
from catena.examples import EXAMPLES

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}  # of this tree, wherever another is installed
IMPORTS = "import numpy as np\nimport catena as ct\nfrom tests.long_run import Q0, V0, pair, run\n"


@pytest.fixture
def started(tmp_path):
    """A function that returns a process which runs the code."""
    script, pipes = tmp_path / "script.py", {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with ExitStack() as processes:

        def start(code):
            script.write_text(IMPORTS + textwrap.dedent(code))
            return processes.enter_context(running([sys.executable, str(script)], cwd=tmp_path, env=ENVIRONMENT, **pipes))

        yield start


def wait_for(condition, process, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def assert_same(one, other):
    for part in ("t", "q", "v", "vdot", "tau"):
        assert_array_equal(getattr(one, part), getattr(other, part))
    assert [(event.name, event.t) for event in one.events] == [(event.name, event.t) for event in other.events]
    for a, b in zip(one.events, other.events, strict=True):
        assert_array_equal(np.concatenate([a.q, a.v]), np.concatenate([b.q, b.v]))
    for key in ("steps", "rejected", "stopped"):
        assert one.info[key] == other.info[key]


# --- Ctrl-C


@pytest.mark.parametrize("kind", ["fixed", "python", "scipy"])
def test_ctrl_c_returns_what_there_is_and_the_program_goes_on(kind, started):
    call = f"run({kind!r}, 1e6)"
    if kind == "scipy":
        call = "ct.simulate(pair(), Q0, V0, until=1e6, integrator='scipy:LSODA')"
    process = started(
        f"""
        import signal, threading, os, time
        from catena.simulation import interrupts
        before = signal.getsignal(signal.SIGINT)
        looking = interrupts.signal.signal
        def announced(number, handler):
            if handler is not before:
                threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()  # a second into the loop
            return looking(number, handler)
        interrupts.signal.signal = announced
        r = {call}
        assert signal.getsignal(signal.SIGINT) is before
        assert r.info["stopped"] == "interrupted", r.info
        assert (np.diff(r.t) > 0).all() and len(r) > 5 and np.isfinite(r.q).all()
        assert abs(np.linalg.norm(r.q[:, :4], axis=1) - 1).max() < 1e-12
        print("went on to", r.t[-1])
        """,
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.startswith("went on to")
    assert 0.0 < float(out.split()[-1]) < 1e6


def test_second_ctrl_c_ends_a_function_that_hangs(started):
    process = started(
        """
        import time
        def controller(t, q, v):
            if t > 0.5:
                print("hangs", flush=True)
                time.sleep(100.0)
            return np.zeros(4)
        r = ct.simulate(pair(), Q0, until=1.0, step=0.01, integrator="midpoint", controller=ct.python(controller))
        print(r.info["stopped"], r.t[-1])
        """,
    )
    assert process.stdout.readline() == "hangs\n"
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    stopped, last = out.split()
    assert stopped == "interrupted"
    assert float(last) == pytest.approx(0.5, abs=0.02)


def test_threads_other_than_the_first_leave_ctrl_c_alone():
    from concurrent.futures import ThreadPoolExecutor

    handler = signal.getsignal(signal.SIGINT)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(run, "fixed", 0.5).result().t[-1] == 0.5
    assert signal.getsignal(signal.SIGINT) is handler


def test_interrupt_that_others_raise_leaves_whole_runs():
    """Where Ctrl-C is handled by others, it may come at any time, also while an event is looked at."""
    calls = []

    def function(t, q, v):
        calls.append(t)
        if len(calls) == 700:
            raise KeyboardInterrupt
        return v[3]

    m = pair()
    whole = ct.simulate(m, Q0, until=3.0, step=0.01, events=[ct.Event("down", lambda t, q, v: v[3], "record")])
    for action in ("record", lambda t, q, v: (q, v)):
        calls.clear()
        part = ct.simulate(m, Q0, until=30.0, step=0.01, events=[ct.Event("down", ct.python(function), action)])
        assert part.info["stopped"] == "interrupted"
        assert 0.0 < part.t[-1] < 30.0
        if action == "record":
            np.testing.assert_allclose(part.q[:100], whole.q[:100], atol=1e-10)


# --- checkpoints


@pytest.mark.parametrize("kind", ["fixed", "adaptive", "python"])
def test_killed_run_goes_on_to_the_same_bits(kind, tmp_path, started):
    """SIGKILL leaves no time for anything: what counts is the last checkpoint."""
    until = 12.0 if kind == "python" else 100.0
    kept = tmp_path / "kept.npz"
    process = started(f"run({kind!r}, {1e7 if kind != 'python' else 1e4}, checkpoint='other.npz', checkpoint_every=0.0)")
    other = tmp_path / "other.npz"
    wait_for(other.exists, process)
    time.sleep(0.2)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert zipfile.is_zipfile(other)  # whole, whenever it was killed

    # the same for a run that ends, killed where it is in the middle
    process = started(
        f"""
        import os, signal
        from catena.simulation.checkpoint import Checkpoint
        save = Checkpoint.save
        def saved(self, r):
            save(self, r)
            if r.time > {until / 4}:
                os.kill(os.getpid(), signal.SIGKILL)
        Checkpoint.save = saved
        run({kind!r}, {until}, checkpoint="kept.npz", checkpoint_every=0.01)
        """,
    )
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    with np.load(kept) as file:
        assert until / 4 < file["state"][0, 3] < until
    whole = run(kind, until)
    resumed = run(kind, until, resume=kept)
    assert len(whole.events) > 5
    assert_same(resumed, whole)


def test_finished_stopped_and_interrupted_runs_resume(tmp_path):
    path = tmp_path / "run.npz"
    whole = run("fixed", 5.0, checkpoint=path)
    assert_same(run("fixed", 5.0, resume=path, checkpoint=path), whole)
    assert_same(run("fixed", 5.0, resume=str(path)), whole)

    m = pair()
    stop = {"until": 5.0, "events": [ct.Event("down", lambda t, q, v: v[3])]}
    whole = ct.simulate(m, Q0, **stop, checkpoint=path)
    assert whole.info["stopped"] == "event 'down'"
    assert_same(ct.simulate(m, Q0, **stop, resume=path), whole)


@pytest.mark.parametrize("step", [2e-3, 0.011])
def test_a_run_that_goes_on_to_a_later_end_is_the_run_in_one_go(step, tmp_path):
    path, settings = tmp_path / "run.npz", {"step": step, "record": 3, "events": [
        ct.Event("up", lambda t, q, v: v[3], "record"), ct.Event("brake", lambda t, q, v: np.sin(t), lambda t, q, v: (q, 0.99 * v)),
    ]}  # fmt: skip
    m = pair()
    whole = ct.simulate(m, Q0, V0, until=8.0, **settings)
    first = ct.simulate(m, Q0, V0, until=3.0, **settings, checkpoint=path)
    assert (first.t[-1], first.info["stopped"]) == (3.0, "end")
    second = ct.simulate(m, Q0, V0, until=6.3, **settings, resume=path, checkpoint=path)
    assert_same(second, ct.simulate(m, Q0, V0, until=6.3, **settings))
    assert_same(ct.simulate(m, Q0, V0, until=8.0, **settings, resume=path), whole)
    with pytest.raises(ct.SimulationError, match=r"resume: '.*' is at t = 6\.\d+ s, after until = 2 s; give a later time"):
        ct.simulate(m, Q0, V0, until=2.0, **settings, resume=path)


TIMES: list[float] = []


def noting(t, q, v):
    TIMES.append(t)
    return np.zeros(4)


def test_functions_in_python_are_called_once_for_each_step(tmp_path):
    settings = {"step": 0.01, "controller": ct.python(noting), "integrator": "semi-implicit-euler"}
    path, m = tmp_path / "run.npz", pair()
    TIMES.clear()
    whole = ct.simulate(m, Q0, V0, until=0.2, **settings)
    in_one_go = list(TIMES)
    TIMES.clear()
    ct.simulate(m, Q0, V0, until=0.2, **settings, checkpoint=path)
    assert in_one_go == TIMES
    ct.simulate(m, Q0, V0, until=0.11, **settings, checkpoint=path)
    assert_same(ct.simulate(m, Q0, V0, until=0.2, **settings, resume=path), whole)


def test_an_adaptive_run_goes_on_to_a_later_end_within_its_tolerance(tmp_path):
    path, m = tmp_path / "run.npz", EXAMPLES["four-bar"]()
    q0, settings = m.assemble(crank=1.0), {"rtol": 1e-8, "record": np.linspace(0.0, 2.0, 9)}
    whole = ct.simulate(m, q0, until=2.0, **settings)
    ct.simulate(m, q0, until=0.7, rtol=1e-8, checkpoint=path)
    longer = ct.simulate(m, q0, until=2.0, **settings, resume=path)
    np.testing.assert_allclose(longer.q, whole.q, atol=1e-6)
    np.testing.assert_allclose(longer.v, whole.v, atol=1e-6)


def test_samples_at_given_times_resume(tmp_path):
    path = tmp_path / "run.npz"
    times = np.linspace(0.0, 2.0, 17)
    m = pair()
    whole = ct.simulate(m, Q0, until=2.0, record=times, checkpoint=path)
    assert_same(ct.simulate(m, Q0, until=2.0, record=times, resume=path), whole)


def test_missing_damaged_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "run.npz"
    with pytest.raises(ct.SimulationError, match=r"resume: there is no file .*run\.npz'; give the file named as checkpoint="):
        run("fixed", 1.0, resume=path)
    run("fixed", 1.0, checkpoint=path)
    data = path.read_bytes()
    for broken in (data[: len(data) // 2], b"", b"hello", data[:200] + bytes(50) + data[250:]):
        path.write_bytes(broken)
        with pytest.raises(ct.SimulationError, match=r"resume: .* is not a checkpoint of catena, or damaged .*; start the run anew"):
            run("fixed", 1.0, resume=path)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(ct.SimulationError, match="not a checkpoint"):
        run("fixed", 1.0, resume=path)
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(ct.SimulationError, match="not a checkpoint"):
        run("fixed", 1.0, resume=tmp_path / "array.npy")
    with pytest.raises(ct.SimulationError, match="not a checkpoint"):
        run("fixed", 1.0, resume=tmp_path)
    path.write_bytes(data)
    with np.load(path) as file:
        parts = dict(file)
    np.savez(path, **(parts | {"format": "catena checkpoint 0"}))
    with pytest.raises(ct.SimulationError, match=r"has the format 'catena checkpoint 0', this catena reads"):
        run("fixed", 1.0, resume=path)


def test_altered_entries_of_a_checkpoint_are_refused(tmp_path):
    path, rng = tmp_path / "run.npz", np.random.default_rng(7)
    whole = run("fixed", 1.0, checkpoint=path)
    assert_same(run("fixed", 1.0, resume=path), whole)
    content = path.read_bytes()
    with np.load(path) as file:
        parts = dict(file)
    changes = [{name: entry} for name in parts if name != "digest" for entry in altered(parts[name], rng)]
    for change in changes:
        np.savez(path, **(parts | change))
        with pytest.raises(ct.SimulationError, match=r"resume: .* start the run anew"):
            run("fixed", 1.0, resume=path)
    for name in parts:
        np.savez(path, **{other: entry for other, entry in parts.items() if other != name})
        with pytest.raises(ct.SimulationError, match=r"resume: .* is not a checkpoint of catena, or damaged"):
            run("fixed", 1.0, resume=path)
    for _ in range(200):  # bytes of the file: refused, or bytes that say nothing
        broken = bytearray(content)
        broken[rng.integers(len(broken))] ^= 1 << rng.integers(8)
        path.write_bytes(broken)
        try:
            again = run("fixed", 1.0, resume=path)
        except ct.SimulationError:
            continue
        assert_same(again, whole)


def altered(entry, rng):
    """Entries that are other than a given one: in a number, in type, in shape."""
    yield entry.astype(object).astype(str) if entry.dtype.kind == "f" else np.array(3.5)
    yield entry[None]
    yield np.zeros((0, *entry.shape[1:]), entry.dtype) if entry.ndim and len(entry) else np.array(["x"])
    if entry.dtype.kind == "f" and entry.size:
        for change in (1e-9, np.nan, -1.0, 1e300):
            other = entry.copy()
            other.flat[rng.integers(entry.size)] += change
            yield other
        yield entry.astype(np.float32)
        yield entry.astype(complex)


def pendulum(stiffness=0.0, mass=1.0, axis="y", length=0.3, function=None, name="arm"):
    m = ct.Model("pendulum")
    m.add(name, ct.point_mass(mass, at=(0, 0, -1)), ct.Revolute(axis, stiffness=stiffness))
    m.add_spring("coil", "ground", name, at_b=(0, 0, -1), stiffness=3.0, length=length)
    m.add_force("push", function or (lambda t, q, v: [0.1 * np.sin(t)]))
    return m


def python_gain(gain):
    return ct.python(lambda t, q, v: [-gain * v[0]])


CALLED = {"controller": ct.python(lambda t, q, v: [0.2])}
CHANGES = {
    "mass": ({}, {"m": pendulum(mass=1.1)}),
    "axis": ({}, {"m": pendulum(axis="-y")}),
    "joint option": ({}, {"m": pendulum(stiffness=1.0)}),
    "spring": ({}, {"m": pendulum(length=0.4)}),
    "force": ({}, {"m": pendulum(function=lambda t, q, v: [0.1 * np.cos(t)])}),
    "name": ({}, {"m": pendulum(name="other")}),
    "position": ({}, {"q0": [0.2]}),
    "velocity": ({}, {"v0": [0.2]}),
    "start": ({}, {"start": 0.1}),
    "largest step": ({}, {"largest_step": 0.01}),
    "tolerance": ({}, {"rtol": 1e-7}),
    "step": ({}, {"step": 0.1}),
    "integrator": ({}, {"integrator": "dop853"}),
    "method": ({}, {"method": "composite-body"}),
    "recording": ({}, {"record": 2}),
    "constant force": ({}, {"tau": [1.0]}),
    "force over time": ({"tau": ([0.0, 1.0], [[0.0], [1.0]])}, {"tau": ([0.0, 1.0], [[0.0], [1.1]])}),
    "controller": ({"controller": lambda t, q, v: [0.1 * q[0]]}, {"controller": lambda t, q, v: [0.2 * q[0]]}),
    "event function": (
        {"events": [ct.Event("e", lambda t, q, v: q[0])]},
        {"events": [ct.Event("e", lambda t, q, v: q[0] - 0.05)]},
    ),
    "event name": ({"events": [ct.Event("e", lambda t, q, v: q[0])]}, {"events": [ct.Event("f", lambda t, q, v: q[0])]}),
    "event direction": (
        {"events": [ct.Event("e", lambda t, q, v: q[0], "record")]},
        {"events": [ct.Event("e", lambda t, q, v: q[0], "record", 1)]},
    ),
    "event action": (
        {"events": [ct.Event("e", lambda t, q, v: q[0], lambda t, q, v: (q, -v))]},
        {"events": [ct.Event("e", lambda t, q, v: q[0], lambda t, q, v: (q, -0.5 * v))]},
    ),
    "function in Python": (CALLED, {"controller": ct.python(lambda t, q, v: [0.3])}),
    "number held by a function in Python": ({"controller": python_gain(0.1)}, {"controller": python_gain(0.2)}),
    "force in Python": (
        {"m": pendulum(function=ct.python(lambda t, q, v: [0.1]))},
        {"m": pendulum(function=ct.python(lambda t, q, v: [0.2]))},
    ),
    "joint option, in Python": (CALLED, CALLED | {"m": pendulum(stiffness=1.0)}),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_checkpoint_of_another_run_is_refused(change, tmp_path):
    path = tmp_path / "run.npz"
    right = {"m": pendulum(), "q0": [0.1], "v0": [0.0], "until": 1.0} | change[0]
    whole = ct.simulate(**right, checkpoint=path)
    assert_same(ct.simulate(**right, resume=path), whole)
    with pytest.raises(ct.SimulationError, match=r"resume: '.*run\.npz' belongs to another run; give the model, state, forces"):
        ct.simulate(**(right | change[1]), resume=path)


def test_checkpoint_that_cannot_be_written_is_told_before_the_run(tmp_path):
    for path in (tmp_path / "nowhere" / "run.npz", tmp_path):
        with pytest.raises(ct.SimulationError, match=r"checkpoint: .* cannot be written; name a file in a folder"):
            run("fixed", 1e6, checkpoint=path)


def test_checkpoint_that_fails_on_the_way_leaves_the_motion(tmp_path, monkeypatch):
    from catena.simulation import checkpoint

    def full(*arguments, **keywords):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.np, "savez", full)
    with pytest.raises(ct.SimulationError, match="no space left on device") as caught:
        run("fixed", 100.0, checkpoint=tmp_path / "run.npz", checkpoint_every=0.0)
    assert len(caught.value.trajectory) > 1
    assert list(tmp_path.iterdir()) == []


# --- progress


def test_nothing_is_shown_without_a_terminal(capfd):
    run("fixed", 1.0)
    run("fixed", 1.0, show_progress=False)
    assert capfd.readouterr() == ("", "")


def test_bar_is_shown_when_asked(capfd):
    run("fixed", 1.0, show_progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "pair" in err
    assert "1 of 1 s" in err


def test_bar_is_shown_on_terminals_with_rate_and_time_left(tmp_path):
    code = "from tests.long_run import run; assert run('fixed', 200.0).t[-1] == 200.0"
    leader, follower = pty.openpty()
    environment = ENVIRONMENT | {"TERM": "xterm", "COLUMNS": "120"}
    with running([sys.executable, "-c", code], stdout=follower, stderr=follower, env=environment) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # the process has closed its end
                break
            if not part:
                break
            shown += part
        os.close(leader)
        assert process.wait(60) == 0, shown
    text = shown.decode()
    assert "pair" in text
    assert "of 200 s" in text
    assert "steps/s" in text
    assert "0:00:0" in text
    assert "Traceback" not in text


def test_the_old_name_of_the_time_between_checkpoints_still_works(tmp_path):
    m = ct.Model("cart")
    m.add("cart", ct.point_mass(1.0), ct.Prismatic("x"))
    with pytest.warns(DeprecationWarning, match="every= is now checkpoint_every="):
        ct.simulate(m, [0.0], [1.0], until=0.1, checkpoint=tmp_path / "run.npz", every=0.0)
    assert (tmp_path / "run.npz").exists()
