"""Files are written whole or not at all, and a program that is killed while it writes leaves nothing for long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.processes import running

from catena import atomic_files
from catena.atomic_files import replacing
from catena.errors import CatenaError

pytestmark = pytest.mark.quick

WRITER = """\
import sys, time
from catena.atomic_files import replacing
from catena.errors import CatenaError
with replacing(sys.argv[1], CatenaError) as stream:
    stream.write(b"half")
    stream.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def write(file: Path, content: bytes) -> None:
    with replacing(file, CatenaError) as stream:
        stream.write(content)


def parts(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(".catena-*.part"))


@pytest.mark.skipif(os.name == "nt", reason="no locks of files, no SIGKILL")
def test_the_part_of_a_writer_that_is_killed_is_removed_by_the_next_and_that_of_one_at_work_is_not(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "one.txt")]
    with running(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        (part,) = parts(tmp_path)
        os.utime(tmp_path / part, (0.0, 0.0))  # at work, however long ago it wrote
        write(tmp_path / "two.txt", b"two")
        assert parts(tmp_path) == [part]
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert parts(tmp_path) == [part]
    write(tmp_path / "two.txt", b"again")
    assert parts(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["two.txt"]


def test_without_locks_parts_are_removed_when_they_are_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_files, "fcntl", None)
    old, new, other = (tmp_path / name for name in (".catena-old.part", ".catena-new.part", "mine.part"))
    for path in (old, new, other):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 2.0 * 3600.0,) * 2)
    write(tmp_path / "one.txt", b"one")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([new.name, other.name, "one.txt"])


def test_links_and_pipes_of_that_name_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"kept")
    (tmp_path / ".catena-link.part").symlink_to(tmp_path / "kept")
    os.mkfifo(tmp_path / ".catena-pipe.part")
    (tmp_path / ".catena-folder.part").mkdir()
    write(tmp_path / "one.txt", b"one")
    assert len(parts(tmp_path)) == 3
    assert (tmp_path / "kept").read_bytes() == b"kept"


def test_many_writers_of_one_file_lose_nothing(tmp_path: Path) -> None:
    failed = []

    def work(k: int) -> None:
        try:
            for _ in range(50):
                write(tmp_path / "one.txt", b"%d" % k * 1000)
        except CatenaError as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert parts(tmp_path) == []
    assert len({*(tmp_path / "one.txt").read_bytes()}) == 1
