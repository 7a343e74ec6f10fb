"""Object code kept on disk: found again, never trusted when damaged, and no failure of the disk is an error."""

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from tests.processes import running

from catena.graph import Trace
from catena.native import Kernel, compile_graph
from catena.native.llvm import machine
from catena.native.llvm import object_cache as cache


@pytest.fixture(scope="module", autouse=True)
def _loops_are_there() -> None:
    """The loop around a kernel, which all kernels of its shape share, is not among the files that are counted here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CATENA_CACHE_DIR", "off")
        build(patch)


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """An empty cache, on disk and in memory."""
    monkeypatch.setenv("CATENA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "_in_memory", {})
    return tmp_path / "cache"


def build(monkeypatch) -> Kernel:
    """Return a kernel as a new process would get it, after a check of its results."""
    monkeypatch.setattr(machine, "_in_memory", {})
    trace = Trace("kept")
    x = trace.input("x", (3,))
    made = compile_graph(trace.graph(y=np.sin(x) * 2.0 + x[0] / x[1]))
    x = np.random.default_rng(0).uniform(1.0, 2.0, (9, 3))
    np.testing.assert_allclose(made(x), made.graph.evaluate(x)[0], rtol=1e-14)
    return made


def only_file(place: Path) -> Path:
    (path,) = place.iterdir()
    return path


def test_second_build_comes_from_disk(place, monkeypatch):
    assert not build(monkeypatch).cached
    assert only_file(place).suffix == ".object"
    monkeypatch.setattr(machine, "_optimised", None)  # a hit neither parses nor optimises
    again = build(monkeypatch)
    assert again.cached
    assert again.seconds["optimise"] == 0.0
    assert "from the cache" in repr(again)


def test_same_process_needs_no_disk(place, monkeypatch):
    first = build(monkeypatch)
    only_file(place).unlink()
    assert compile_graph(first.graph).cached


@pytest.mark.skipif(os.name == "nt", reason="folders of Windows have no mode")
def test_folder_is_private(place, monkeypatch):
    build(monkeypatch)
    assert place.stat().st_mode & 0o777 == 0o700
    assert only_file(place).stat().st_mode & 0o777 == 0o600


def flip(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :]


DAMAGE = {
    "empty": lambda content: b"",
    "short header": lambda content: content[:20],
    "truncated": lambda content: content[:-100],
    "header only": lambda content: content[: cache._HEADER],
    "longer": lambda content: content + b"\0",
    "foreign": lambda content: b"#!/bin/sh\necho hello\n" * 100,
    "other magic": lambda content: flip(content, 0),
    "other format": lambda content: flip(content, len(cache._MAGIC)),
    "other key": lambda content: flip(content, len(cache._MAGIC) + 4),
    "other length": lambda content: flip(content, len(cache._MAGIC) + 36),
    "other checksum": lambda content: flip(content, len(cache._MAGIC) + 44),
    "damaged code": lambda content: flip(content, len(content) // 2),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_file_is_rebuilt(damage, place, monkeypatch):
    build(monkeypatch)
    path = only_file(place)
    good = path.read_bytes()
    path.write_bytes(DAMAGE[damage](good))
    assert not build(monkeypatch).cached
    assert only_file(place).read_bytes() == good
    assert build(monkeypatch).cached


def test_file_under_another_name_is_not_trusted(place, monkeypatch):
    build(monkeypatch)
    path = only_file(place)
    other = "0" * 64
    path.rename(place / f"{other}.object")
    assert cache.load(other) is None


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs users")
def test_file_of_another_user_is_not_trusted(place, monkeypatch):
    build(monkeypatch)
    monkeypatch.setattr(cache, "_trusted", lambda user: False)
    assert not build(monkeypatch).cached


def linked(path: Path, good: bytes) -> None:
    path.with_name("elsewhere").write_bytes(good)
    path.symlink_to(path.with_name("elsewhere"))


def writable(path: Path, good: bytes) -> None:
    path.write_bytes(good)
    path.chmod(0o622)


def sparse(path: Path, good: bytes) -> None:
    path.write_bytes(good)
    os.truncate(path, 2 * cache.LIMIT)


STRANGE = {"pipe": lambda path, good: os.mkfifo(path), "endless": lambda path, good: path.symlink_to("/dev/zero"), "link": linked,
           "writable by others": writable, "huge": sparse}  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="files of Windows are of one kind")
@pytest.mark.parametrize("kind", STRANGE)
def test_what_is_no_file_of_the_cache_is_not_read(kind, place, monkeypatch):
    """Neither a pipe, which would be waited for, nor a link to what has no end."""
    build(monkeypatch)
    path = only_file(place)
    good = path.read_bytes()
    path.unlink()
    STRANGE[kind](path, good)
    assert not build(monkeypatch).cached
    assert path.read_bytes() == good
    assert build(monkeypatch).cached


def test_an_object_larger_than_the_cache_leaves_the_others(place, monkeypatch):
    build(monkeypatch)
    monkeypatch.setattr(cache, "LIMIT", 100_000)
    cache.store("0" * 64, bytes(200_000))
    assert build(monkeypatch).cached


FORKS = """
import os, signal, sys, threading, time, warnings
import numpy as np
import catena as ct

warnings.simplefilter("ignore")  # forks of processes with threads are warned of
sys.setswitchinterval(1e-4)

def models(number):
    for i in range(number):
        m = ct.Model("chain")
        m.add("a", ct.rod(1.0 + 0.01 * i, mass=1.0), ct.Revolute("y"))
        m.add("b", ct.rod(1.0, mass=1.0), ct.Revolute("y"), parent="a", at=(1.0 + 0.01 * i, 0, 0))
        yield m

shared = next(models(1))
ct.forward_dynamics(shared), ct.energy(shared), ct.mass_matrix(shared.copy(), parameters="b.mass")  # all is imported
ended = False

def compiling():
    for m in models(10_000):
        if ended:
            return
        ct.forward_dynamics(m), ct.mass_matrix(shared, parameters="a.mass"), shared.copy().frozen()

thread = threading.Thread(target=compiling)
thread.start()
late = 0
for _ in range(12):
    time.sleep(0.03)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        q = np.array([0.1, 0.2])
        made = ct.forward_dynamics(shared)(q, q, q), ct.energy(next(models(1)))(q, q), ct.mass_matrix(shared, parameters="a.mass")(q)
        os._exit(0)
    late += os.waitpid(child, 0)[1] != 0
ended = True
thread.join()
print(late)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
def test_a_process_forks_while_another_thread_compiles():
    """The thread that held a lock does not exist in the new process, which must not wait for it."""
    environment = {**os.environ, "CATENA_CACHE_DIR": "off"}
    done = subprocess.run([sys.executable, "-c", FORKS], env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_folder_in_place_of_the_file(place, monkeypatch):
    build(monkeypatch)
    path = only_file(place)
    path.unlink()
    path.mkdir()
    assert not build(monkeypatch).cached
    assert not list(place.glob("*.part"))


def test_read_only_folder(place, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    if os.name == "nt" or os.geteuid() == 0:  # the administrator may write anywhere
        monkeypatch.setattr(tempfile, "mkstemp", refuse)
    place.mkdir(mode=0o500)
    assert not build(monkeypatch).cached
    assert not build(monkeypatch).cached
    assert not list(place.iterdir())


def test_unreadable_file(place, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    build(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert not build(patch).cached
    assert build(monkeypatch).cached


def test_folder_that_cannot_be(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("in the way")
    for chosen in (file, file / "below", "\0", "x" * 5000):
        try:
            monkeypatch.setenv("CATENA_CACHE_DIR", str(chosen))
        except ValueError:  # not even a variable can hold it
            continue
        assert not build(monkeypatch).cached


def test_full_disk(place, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert not build(patch).cached
    assert not list(place.iterdir())


@pytest.mark.parametrize("word", ["off", "OFF", "0", "none"])
def test_cache_can_be_off(word, tmp_path, monkeypatch):
    monkeypatch.setenv("CATENA_CACHE_DIR", word)
    monkeypatch.chdir(tmp_path)
    assert cache.folder() is None
    assert not build(monkeypatch).cached
    assert not build(monkeypatch).cached
    assert not list(tmp_path.iterdir())


def test_default_folder(monkeypatch):
    monkeypatch.delenv("CATENA_CACHE_DIR", raising=False)
    assert "catena" in str(cache.folder())


def test_oldest_files_go_first(place, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 3000)
    names = [cache.key(str(i)) for i in range(4)]
    for age, name in enumerate(names[:3]):
        cache.store(name, bytes(800))
        os.utime(place / f"{name}.object", (1000 + age, 1000 + age))
    assert cache.load(names[0]) is not None  # used just now
    cache.store(names[3], bytes(800))
    assert [cache.load(name) is not None for name in names] == [True, False, True, True]


def test_key_depends_on_every_part():
    keys = {cache.key(*parts) for parts in [("a",), ("a", ""), ("", "a"), ("a", "b"), ("ab",)]}
    assert len(keys) == 5


SCRIPT = """
import numpy as np
from catena.graph import Trace
from catena.native import compile_graph
trace = Trace("kept")
x = trace.input("x", (40,))
y = x
for _ in range(20):
    y = np.sin(y) * x + y[::-1] * 0.5
kernel = compile_graph(trace.graph(y=y))
data = np.random.default_rng(0).uniform(-1, 1, (100, 40))
assert np.allclose(kernel(data), kernel.graph.evaluate(data)[0])
print(kernel.cached)
"""


def run_together(count: int, place: Path) -> list[str]:
    environment = {**os.environ, "CATENA_CACHE_DIR": str(place)}
    command = [sys.executable, "-c", SCRIPT]
    pipes: dict = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with contextlib.ExitStack() as together:
        processes = [together.enter_context(running(command, env=environment, **pipes)) for _ in range(count)]
        results = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * count, results
    return [output.strip() for output, _ in results]


def test_processes_share_the_cache(tmp_path):
    place = tmp_path / "cache"
    run_together(3, place)  # at once: whoever comes last wins, and all are right
    assert len([*place.iterdir()]) == 3  # of the block, of the loop around it, and of the function that calls kernels with one state
    assert run_together(1, place) == ["True"]
