"""Processes of tests, which end with their test."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def running(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen]:
    """Yield a process that hears Ctrl-C; it is killed if it goes on after the block, as it may where a test fails or takes too long."""
    handled = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored under nohup, which processes would inherit
    try:
        started = subprocess.Popen(command, **options)
    finally:
        signal.signal(signal.SIGINT, handled)
    with started as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
