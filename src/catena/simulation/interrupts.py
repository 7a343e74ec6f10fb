"""Ctrl-C as a wish to stop, which a run grants where its state is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
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


def interruptible(work: Callable[[], None]) -> None:
    """Do work that takes long in machine code, such as compiling, so that Ctrl-C raises KeyboardInterrupt at once.

    It is done by another thread, and ends there by itself. Where others handle Ctrl-C, or outside of the main thread, it is done here.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        work()
        return
    done: Future[None] = Future()

    def carry_out() -> None:
        try:
            work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    thread = threading.Thread(target=carry_out, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)  # Python looks at signals in between
    done.result()
