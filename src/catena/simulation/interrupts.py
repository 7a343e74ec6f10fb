"""Ctrl-C as a wish to stop, which a run grants where its state is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def noted_interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C was pressed. A second time, it raises KeyboardInterrupt wherever Python is.

    Where others handle Ctrl-C already, or outside of the main thread, nothing is noted.
    """
    handled = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handled is not signal.default_int_handler:
        yield lambda: False
        return
    pressed: list[int] = []

    def note(number: int, frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, handled)
